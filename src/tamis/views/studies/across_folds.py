"""Do folds of the rows lead to the same features? The fits behind `tamis.explain.measures.stability`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.parallel import Parallel, delayed

from tamis.base.estimator import KernelEstimator
from tamis.explain.measures import Stability, stability
from tamis.progress import tracked
from tamis.table.checks import check_cv
from tamis.table.folds import fold_positions
from tamis.table.rows import check_groups, spread
from tamis.table.table import any_table, columns_by_name

ROWS = 2000  # most rows that measure how features are correlated


def stability_across_folds(estimator: KernelEstimator, X: Any, y: Any, cv: Any = 5, groups: Any = None) -> Stability:
    """Fit the same kind of model to the training rows of each fold, and compare the chosen features.

    Parameters
    ----------
    estimator : one that chooses (a search) must be fitted, its choices are kept; others need not be
    X, y : rows, and what is to be predicted
    cv : int, splitter or sequence of (train, test) positions, default=5
        An integer requests folds that follow the values of rows, stratified for classes.
    groups : labels of shape (n_samples,); rows of one group never stand on both sides of a fold
    """
    check_cv(cv)
    labels = np.asarray(y)
    groups = check_groups(groups, len(labels))
    splits = fold_positions(cv, any_table(X), labels, groups, 0, stratified=is_classifier(estimator))
    return stability_of(fit_folds(estimator, X, labels, [train for train, _ in splits]), X)


def fit_folds(
    estimator: KernelEstimator, X: Any, y: np.ndarray, parts: Sequence[np.ndarray], n_jobs: int | None = None
) -> list[KernelEstimator]:
    """Models of the same kind, fitted to some `parts` of the rows; what they warn of is left unsaid."""
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    fits = parallel(delayed(_fit)(_fresh(estimator), take_rows(X, part), y[part]) for part in parts)
    return list(tracked(fits, "stability of the selection", len(parts)))


def stability_of(models: Sequence[KernelEstimator], X: Any) -> Stability:
    """Agreement of the features that several models chose from the columns of X."""
    table, _, _ = _fresh(models[0])._read_training(X)
    some = table.take(spread(len(table), ROWS))
    supports = [model.features_ for model in models]
    return stability(supports, lambda j: some.labels[j] if j in some.labels else some.numbers[:, j], table.names)


def _fit(model: KernelEstimator, X: Any, y: np.ndarray) -> KernelEstimator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def _fresh(estimator: KernelEstimator) -> KernelEstimator:
    """An unfitted copy without probabilities, which say nothing of the features."""
    model = estimator.without_search()
    params = {"calibration": None, "n_jobs": None}
    return model.set_params(**{k: v for k, v in params.items() if k in model.get_params(deep=False)})


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Some rows of a table of any kind."""
    by_name = columns_by_name(X)
    if by_name is not None:
        return {
            name: column.take(rows) if hasattr(column, "take") else np.asarray(column)[rows]
            for name, column in by_name.items()
        }
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]


def take_columns(X: Any, columns: np.ndarray) -> Any:
    """Some columns of a table of any kind, by position."""
    by_name = columns_by_name(X)
    if by_name is not None:
        names = list(by_name)
        return {names[c]: by_name[names[c]] for c in columns}
    if hasattr(X, "iloc"):
        return X.iloc[:, columns]
    if hasattr(X, "columns"):
        return X[[X.columns[c] for c in columns]]
    return np.asarray(X)[:, columns]
