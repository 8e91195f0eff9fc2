"""Classifiers in common use, which `tamis compare` and the experiments fit in addition to those of this package.

Each function returns an unfitted classifier for a matrix of numbers, or of objects where columns hold text, whose
categorical columns are True in `nominal`. Tuning is left to the caller.
"""

from __future__ import annotations

from importlib.util import find_spec
from itertools import groupby
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC


def encoder(nominal: np.ndarray, drop: str | None = None) -> ColumnTransformer:
    """Return a transformer that standardises numbers and one-hot encodes categories, numbers first.

    Missing numbers are replaced by the median; a missing category is a category of its own.
    """
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore", drop=drop)
    parts = [("numbers", numbers, ~nominal), ("categories", categories, nominal)]
    return ColumnTransformer([(name, part, np.flatnonzero(at)) for name, part, at in parts], sparse_threshold=0.0)


def svc(nominal: np.ndarray, **options: Any) -> Pipeline:
    """Return a support vector classifier with a Gaussian kernel on encoded columns."""
    return make_pipeline(encoder(nominal), SVC(**options))


def boosting(nominal: np.ndarray, categorical: np.ndarray | None = None, **options: Any) -> Pipeline:
    """Return histogram gradient boosting, with the levels of nominal columns as integers.

    `categorical` selects the nominal columns whose integers are categories rather than numbers, by default all.
    """
    chosen = nominal if categorical is None else nominal & categorical
    model = HistGradientBoostingClassifier(categorical_features=chosen, **options)
    if not np.any(nominal):
        return make_pipeline("passthrough", model)
    integers = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=np.nan)
    runs = [list(run) for _, run in groupby(range(len(nominal)), key=nominal.__getitem__)]  # columns keep their order
    parts = [(f"from {run[0]}", integers if nominal[run[0]] else "passthrough", run) for run in runs]
    return make_pipeline(ColumnTransformer(parts), model)


def ebm(nominal: np.ndarray, **options: Any) -> Any:
    """Return an explainable boosting machine; it needs the package interpret."""
    from interpret.glassbox import ExplainableBoostingClassifier

    kinds = ["nominal" if is_nominal else "continuous" for is_nominal in nominal]
    return ExplainableBoostingClassifier(feature_types=kinds, **{"n_jobs": 1, **options})


def has_ebm() -> bool:
    """Return whether `interpret` is installed."""
    return find_spec("interpret") is not None
