"""Do folds of the rows lead to the same features? The fits behind `tamis.explain.stability`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing

from tamis.estimators.base import KernelClassifier
from tamis.explain.stability import Stability, stability


def stability_across_folds(estimator: KernelClassifier, X: Any, y: Any, cv: Any = 5, groups: Any = None) -> Stability:
    """Fit the same kind of model to the training rows of each fold, and compare the chosen features.

    Parameters
    ----------
    estimator : one that chooses (a search) must be fitted, its choices are kept; others need not be
    X, y : rows and class labels
    cv : int, splitter or sequence of (train, test) positions, default=5
        An integer asks for shuffled stratified folds.
    groups : labels of shape (n_samples,) for a splitter that wants them
    """
    labels = np.asarray(y)
    splitter = StratifiedKFold(cv, shuffle=True, random_state=0) if isinstance(cv, int) else check_cv(cv, labels)
    supports = []
    for train, _ in splitter.split(np.zeros((len(labels), 1)), labels, groups):
        supports.append(_fresh(estimator).fit(_rows(X, train), labels[train]).features_)
    table = _fresh(estimator)._read(X, reset=True)
    return stability(supports, lambda j: table.labels[j] if j in table.labels else table.numbers[:, j], table.names)


def _fresh(estimator: KernelClassifier) -> KernelClassifier:
    """An unfitted copy without probabilities, which say nothing of the features."""
    model = estimator.fixed()
    return model.set_params(calibration=None) if "calibration" in model.get_params(deep=False) else model


def _rows(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a table of any kind."""
    if isinstance(X, Mapping) and not hasattr(X, "shape"):
        return {name: np.asarray(column)[rows] for name, column in X.items()}
    return _safe_indexing(X, rows)
