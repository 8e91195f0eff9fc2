"""The public interface as a type checker sees it from outside; `make lint` reads this, nothing runs it."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

from tamis import (
    EM2NOLCClassifier,
    Job,
    KernelBank,
    L0MKLClassifierCV,
    Plan,
    Results,
    SimpleMKLClassifier,
    Statistics,
    TamisClassifier,
    TamisRegressor,
    all_estimators,
    bandwidths,
    io,
    per_feature,
    product,
    run,
)
from tamis.base.estimator import ReadableEstimator
from tamis.explain import AdditiveExplanation
from tamis.views.plots import ImportanceDisplay

X, y = np.zeros((8, 2)), np.arange(8) % 2

clf = TamisClassifier(max_instances=3, max_features=2, random_state=0)
assert_type(clf.fit(X, y), TamisClassifier)
assert_type(clf.explain(X), AdditiveExplanation)
assert_type(clf.explain(X).by_feature, np.ndarray[tuple[Any, ...], np.dtype[Any]])
assert_type(clf.features_, np.ndarray[tuple[Any, ...], np.dtype[Any]])
assert_type(clf.without_search().fit(X, y), TamisClassifier)
assert_type(clf.oriented(1), TamisClassifier)
assert_type(TamisRegressor(max_pairs=0).fit(X, y), TamisRegressor)
assert_type(EM2NOLCClassifier(4, 3, kernels=per_feature() + product()).fit(X, y), EM2NOLCClassifier)
assert_type(SimpleMKLClassifier(C=2.0, kernels=bandwidths([0.5, 1.0])).fit(X, y), SimpleMKLClassifier)
assert_type(L0MKLClassifierCV().fit(X, y), L0MKLClassifierCV)
assert_type(all_estimators("classifier"), dict[str, type[ReadableEstimator]])
assert_type(io.load("m.tamis"), ReadableEstimator)
assert_type(run({"a": [1.0], "y": [0]}, Job(target="y")), Results)
assert_type(ImportanceDisplay.from_estimator(clf), ImportanceDisplay)

TamisClassifier(max_instances="three")  # type: ignore[arg-type]
Job(goal="y")  # type: ignore[call-arg]
kinds: tuple[type, ...] = (KernelBank, Plan, Statistics)

TamisClassifier(max_instance=3)  # type: ignore[call-arg]  # mypy refuses a parameter that does not exist
