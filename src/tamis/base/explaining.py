"""Explanations of a fitted estimator: decisions split into parts, curves of features, surfaces of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from tamis.arrays import namespace
from tamis.explain import Explanation, Kept
from tamis.explain.html import model_html
from tamis.table.table import is_missing, row_labels, source_kind

if TYPE_CHECKING:
    from tamis.base.estimator import ReadableEstimator


def explanation(estimator: ReadableEstimator, X: Any, summands: Any) -> Explanation:
    """The explanation of the decisions about the rows of X, with names."""
    names = _row_names(X, summands.shape[0]), estimator._outputs, list(estimator.instance_labels_)
    return estimator.model_.explanation(summands, *names)


def checked_tensor(estimator: ReadableEstimator, X: Any) -> Any:
    """A tensor with the columns of the training table."""
    if X.ndim != 2 or X.shape[1] != estimator.n_features_in_:
        raise ValueError(f"X is a tensor of shape {tuple(X.shape)}, expected (rows, {estimator.n_features_in_})")
    if bool(namespace(X).any(namespace(X).isinf(X))):
        raise ValueError("X contains infinity: replace it by a large number or a missing cell (NaN)")
    if not estimator.reader_.allow_missing and bool(namespace(X).any(namespace(X).isnan(X))):
        raise ValueError("X contains NaN, and the model was fitted with missing=None: impute first")
    return X


def curve(estimator: ReadableEstimator, feature: int | str, grid: Any) -> tuple[np.ndarray, np.ndarray]:
    """See `ReadableEstimator.curve`."""
    place, model = _place(estimator, feature), estimator.model_
    model.check_curve(place)
    grid, values = model.curve(place, _given_grid(model.encoder.columns[place], grid))
    return grid, values[:, 0] if values.shape[1] == 1 else values


def surface(
    estimator: ReadableEstimator, first: int | str, second: int | str, grids: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """See `ReadableEstimator.surface`."""
    model = estimator.model_
    places = _place(estimator, first), _place(estimator, second)
    for place in places:
        model.check_curve(place)
    if (min(places), max(places)) not in model.pairs(_term_variation(estimator)):
        raise ValueError(
            f"features {first!r} and {second!r} have no surface: nothing in the model depends on exactly these two; "
            f"use one of the pairs_ {estimator.pairs_}, or explain(X)"
        )
    given = (None, None) if grids is None else grids
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ValueError(f"grids={grids!r:.60}: give a pair, the values of each of the two features, or None")
    columns = model.encoder.columns
    wanted = [_given_grid(columns[place], grid) for place, grid in zip(places, given, strict=True)]
    a, b, values = model.surface(places, wanted)
    return a, b, values[:, :, 0] if values.shape[2] == 1 else values


def pairs_with_surface(estimator: ReadableEstimator) -> list[tuple[str, str]]:
    """The pairs of kept features that have a surface, the largest share of variation first."""
    check_is_fitted(estimator)
    names, pairs = estimator.model_.encoder.names, estimator.model_.pairs(_term_variation(estimator))
    return [(names[a], names[b]) for a, b in pairs]


def _term_variation(estimator: ReadableEstimator) -> np.ndarray:
    """Shares of the terms of the model in the variation of the decision."""
    values: np.ndarray = getattr(estimator, f"{estimator.model_.term_kind}_variation_")
    return values


def _place(estimator: ReadableEstimator, feature: int | str) -> int:
    """The place of a kept feature among the columns of the model."""
    check_is_fitted(estimator)
    names = list(estimator.model_.encoder.names)
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    kept = estimator.features_.tolist()
    if not isinstance(feature, str) and feature in kept:
        return kept.index(feature)
    raise ValueError(f"feature {feature!r} is not among the kept ones: {names}")


def per_feature(estimator: ReadableEstimator, what: str) -> np.ndarray:
    """A learned attribute of the terms of the model, such as "variation", for each kept feature."""
    check_is_fitted(estimator)
    kind = estimator.model_.term_kind
    name = known = f"{kind}_{what}_"
    if not hasattr(estimator, name):
        known = f"{kind}_variation_"
    found = estimator.model_.by_feature(getattr(estimator, known), known)
    if known != name:
        raise AttributeError(f"{type(estimator).__name__} has no {name}: use {known} or feature_variation_")
    return found


def _row_names(X: Any, n: Any) -> Sequence[Any]:
    """Labels of n rows, or their numbers; none where n is not known."""
    if np.isnan(n):
        return []
    return range(n) if source_kind(X) is not None else list(row_labels(X, np.arange(n)))


def _given_grid(column: Any, grid: Any) -> np.ndarray | None:
    """Values of a column as an array: objects for a category, else numbers."""
    if grid is None:
        return None
    if column.kind == "category":
        return np.array([None if is_missing(level) else level for level in grid], dtype=object)
    values = np.asarray(grid, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"grid has shape {values.shape}: give a list of values of the feature")
    return values


def outputs(estimator: ReadableEstimator) -> list[Any]:
    """What the decisions are about: the second of two classes, all of several, or the prediction."""
    check_is_fitted(estimator)
    return estimator._outputs


def parts(estimator: ReadableEstimator) -> list[tuple[str, ...]]:
    """For each term of the model the names of the features it depends on."""
    check_is_fitted(estimator)
    return estimator.model_.term_features


def kept_features(estimator: ReadableEstimator) -> Kept:
    """The parts of an explanation, features and groups of them, and how important each is."""
    check_is_fitted(estimator)
    model, found = estimator.model_, _kept(estimator, estimator.model_.term_kind, [])
    names, shares = model.in_parts(found.variation)
    return Kept(names, None if found.importance is None else model.in_parts(found.importance)[1], shares)


def kept_cases(estimator: ReadableEstimator) -> Kept:
    """Kept training cases, by their labels."""
    check_is_fitted(estimator)
    return _kept(estimator, "instance", list(estimator.instance_labels_))


def _kept(estimator: ReadableEstimator, kind: str, names: list[Any]) -> Kept:
    variation = np.atleast_2d(getattr(estimator, f"{kind}_variation_"))
    importance = getattr(estimator, f"{kind}_importance_", None)
    if importance is not None:  # one weight vector may serve all classes
        importance = np.broadcast_to(np.atleast_2d(importance), variation.shape)
    return Kept(names, importance, variation)


def kept_values(estimator: ReadableEstimator, X: Any) -> dict[str, np.ndarray]:
    """The kept features of some rows: float arrays, and object arrays for categories."""
    check_is_fitted(estimator)
    encoder = estimator.model_.encoder
    table = estimator._table(X)
    if tuple(table.names) != encoder.names:
        table = table.select(estimator.model_.columns)
    return {name: table.labels[j] if j in table.labels else table.numbers[:, j] for j, name in enumerate(encoder.names)}


def case_values(estimator: ReadableEstimator) -> dict[str, np.ndarray]:
    """The kept features of the kept cases, in their own units, as the model sees them (clipped and filled)."""
    check_is_fitted(estimator)
    encoder, cases = estimator.model_.encoder, estimator.model_.case_rows
    return {name: column.decode(z) for name, column, z in zip(encoder.names, encoder.columns, cases.T, strict=True)}


def case_pulls(estimator: ReadableEstimator) -> np.ndarray:
    """What each kept case adds to the decision about a row equal to itself (cases, outputs)."""
    check_is_fitted(estimator)
    return estimator.model_.case_pulls


def notebook_html(estimator: ReadableEstimator) -> str:
    """An estimator for a notebook: scikit-learn's diagram, and once fitted, first what was learned."""
    diagram: str = estimator_html_repr(estimator)
    if not hasattr(estimator, "model_"):
        return diagram
    return f"{_fitted_html(estimator)}<details><summary>Parameters</summary>{diagram}</details>"


def _fitted_html(estimator: ReadableEstimator) -> str:
    features, cases = kept_features(estimator), kept_cases(estimator)
    does, sign = estimator._in_words
    words, facts = estimator.model_.description()
    sentence = (
        f"{does} {words} on {len(estimator.features_)} of {estimator.n_features_in_} features; every decision is an "
        f"exact sum of their contributions. {sign}".rstrip()
    )
    facts["base value"] = ", ".join(f"{value:.4g}" for value in estimator.intercept_)
    return model_html(type(estimator).__name__, sentence, features, cases, outputs(estimator), facts)


def feature_shares(estimator: Any) -> np.ndarray:
    """Share of every feature of X (n_features,) in the weights, in per cent; a mean over classes."""
    check_is_fitted(estimator)
    out = np.zeros(estimator.n_features_in_)
    out[estimator.features_] = np.atleast_2d(np.abs(estimator.feature_importance_)).mean(axis=0)
    return out


def support_mask(estimator: Any) -> np.ndarray:
    """Boolean (n_features,): the kept features."""
    check_is_fitted(estimator)
    mask = np.zeros(estimator.n_features_in_, dtype=bool)
    mask[estimator.features_] = True
    return mask
