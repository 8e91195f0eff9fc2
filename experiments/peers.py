"""Classifiers in common use, tuned on the folds of a split, and sparse logistic regressions.

Support vector classifiers, boosting and the EBM are those of `tamis compare`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from experiments.method import Fitted, Method, as_it_is, searched
from experiments.problem import Problem
from tamis.workflow import peers

COSTS = (0.1, 1.0, 10.0, 100.0)
ALL_COSTS = (*COSTS, 1e3, 1e4)  # the papers' grid
BOOSTING_GRID = {
    "histgradientboostingclassifier__learning_rate": [0.03, 0.1],
    "histgradientboostingclassifier__max_leaf_nodes": [4, 15],
}
BAGS = {True: 1, False: 14}  # of an EBM, in quick and full runs
SIZES = (1, 2, 3, 5, 7, 10, 14, 20)  # of supports that abess tries


def majority(problem: Problem, quick: bool) -> Fitted:
    """Predict the most frequent class."""
    return as_it_is(problem, DummyClassifier())


def svc(problem: Problem, quick: bool) -> Fitted:
    """Tune a support vector classifier with a Gaussian kernel on all features."""
    widths = ["scale", 0.01, 0.1] if quick else ["scale", 0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
    grid = {"svc__C": COSTS if quick else ALL_COSTS, "svc__gamma": widths}
    return searched(problem.flat, peers.svc(problem.flat.nominal), grid)


def linear_svc(problem: Problem, quick: bool) -> Fitted:
    """Tune a linear support vector classifier on all features."""
    grid = {"linearsvc__C": [1e-4, 1e-3, 1e-2, 0.1, 1.0]}
    return searched(problem, make_pipeline(peers.encoder(problem.nominal), LinearSVC()), grid)


def boosting(problem: Problem, quick: bool) -> Fitted:
    """Tune histogram gradient boosting."""
    leaf = 5 if problem.n_train < 60 else 20  # with the default of 20, few rows have almost no split
    model = peers.boosting(problem.nominal, random_state=problem.seed, min_samples_leaf=leaf)
    rate = next(iter(BOOSTING_GRID))
    return searched(problem, model, BOOSTING_GRID | ({rate: [0.1]} if quick else {}))


def xgb(problem: Problem, quick: bool) -> Fitted:
    """Tune XGBoost with histograms."""
    from xgboost import XGBClassifier

    model = XGBClassifier(tree_method="hist", n_jobs=1, random_state=problem.seed, verbosity=0, n_estimators=100)
    return searched(problem.flat, model, {"max_depth": [2, 4], "learning_rate": [0.1] if quick else [0.03, 0.1, 0.3]})


def ebm(problem: Problem, quick: bool) -> Fitted:
    """Fit an explainable boosting machine with its defaults, with one bag in quick runs."""
    options = {"outer_bags": BAGS[quick]}
    return as_it_is(problem, peers.ebm(problem.nominal, random_state=problem.seed, **options), options)


ALWAYS = {
    "majority": Method(majority, cases=False),
    "SVC": Method(svc),
}
BOOSTED = {
    "boosting": Method(boosting, cases=False, protocols=("honest",)),
    "XGBoost": Method(xgb, cases=False, needs="xgboost", protocols=("honest",)),
    "EBM": Method(ebm, cases=False, needs="interpret", protocols=("honest",)),
}
LINEAR = {"linear SVM": Method(linear_svc, cases=False)}


def installed(method: Method) -> bool:
    """Return whether the package that a method needs is installed."""
    return not method.needs or find_spec(method.needs) is not None


# ---------------------------------------------------------------------- sparse logistic regression


@dataclass(frozen=True)
class SparseLogistic:
    """A logistic regression on encoded columns, in terms of the columns of the table.

    Attributes
    ----------
    encoder : fitted `tamis.workflow.peers.encoder`
    varying : encoded columns that are used
    model : fitted to these columns
    features_ : columns of the table with a coefficient
    classes_ : labels
    """

    encoder: Any
    varying: np.ndarray
    model: Any
    features_: list[int]
    classes_: np.ndarray

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the probabilities of the classes."""
        return self.model.predict_proba(self.encoder.transform(X)[:, self.varying])

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the likeliest class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


Folds = Sequence[tuple[np.ndarray, np.ndarray]]


def sparse_logistic(
    kind: str, X: np.ndarray, y: np.ndarray, nominal: np.ndarray, folds: Folds, max_features: int, seed: int
) -> SparseLogistic:
    """Fit the logistic regression of at most `max_features` columns with the best accuracy over the folds.

    `kind` is "l1" (a path of penalties) or "abess" (best subsets of several sizes). A column counts once, whatever the
    number of its indicators.
    """
    encode = peers.encoder(nominal, drop="first" if kind == "abess" else None).fit(X)  # abess: no collinear indicators
    Z = encode.transform(X)
    varying = np.all([np.std(Z[a], axis=0) > 1e-12 for a, _ in folds], axis=0)  # abess refuses constant columns
    Z, owners = Z[:, varying], _owners(encode, nominal)[varying]
    models = _l1_path(Z, y, owners, max_features, seed) if kind == "l1" else _abess_path(y, owners, max_features)
    accuracy = [np.mean([model.fit(Z[a], y[a]).score(Z[b], y[b]) for a, b in folds]) for model in models]
    best = models[int(np.argmax(accuracy))].fit(Z, y)
    return SparseLogistic(encode, varying, best, _kept(best, owners), np.unique(y))


def _owners(encode: Any, nominal: np.ndarray) -> np.ndarray:
    """Return the column of the table behind each encoded column."""
    categories = encode.named_transformers_["categories"]
    sizes = [len(c) - (categories.drop is not None) for c in categories.categories_] if np.any(nominal) else []
    return np.r_[np.flatnonzero(~nominal), np.repeat(np.flatnonzero(nominal), np.array(sizes, dtype=int))]


def _kept(model: Any, owners: np.ndarray) -> list[int]:
    each = [np.atleast_2d(one.coef_) for one in getattr(model, "estimators_", [model])]
    used = [np.any(C != 0, axis=0 if C.shape[1] == len(owners) else 1) for C in each]  # abess has classes in columns
    return sorted({int(j) for j in owners[np.any(used, axis=0)]})


def _l1_path(Z: np.ndarray, y: np.ndarray, owners: np.ndarray, max_features: int, seed: int) -> list[Any]:
    options = {"l1_ratio": 1.0, "solver": "liblinear", "max_iter": 1000, "random_state": seed}
    options["intercept_scaling"] = 100.0  # liblinear shrinks the intercept too, unless its column is large
    path: list[Any] = [LogisticRegression(C=c, **options) for c in np.logspace(-3, 2, 41)]
    if len(np.unique(y)) > 2:
        path = [OneVsRestClassifier(model) for model in path]
    models = [model for model in path if len(_kept(model.fit(Z, y), owners)) <= max_features]
    if not models:
        raise ValueError(f"no penalty keeps at most {max_features} features: begin the path lower than C = 0.001")
    return models


def _abess_path(y: np.ndarray, owners: np.ndarray, max_features: int) -> list[Any]:
    from abess import LogisticRegression as TwoClasses
    from abess import MultinomialRegression

    Abess = TwoClasses if len(np.unique(y)) == 2 else MultinomialRegression
    group = np.cumsum(np.r_[0, np.diff(owners) != 0])
    sizes = sorted({min(size, int(group[-1]) + 1) for size in SIZES if size <= max_features})
    return [Abess(support_size=size, group=group) for size in sizes]
