"""Explanations of a fitted estimator: decisions split into parts, shapes of features, surfaces of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.arrays import beside, namespace
from tamis.base.model import Model
from tamis.explain import Explanation, variation
from tamis.table.rows import Rows, sampled
from tamis.table.sources.source import is_in_blocks
from tamis.table.table import row_labels

if TYPE_CHECKING:
    from tamis.base.estimator import KernelEstimator

SHAPE_POINTS, SURFACE_POINTS = 200, 40  # of a number in a shape, and in each direction of a surface
VARIATION_ROWS = (50, 2000)  # fewest and most training rows that measure the variation of contributions
VARIATION_VALUES = 1 << 23  # contributions that are added up for it, beyond the fewest rows


def explanation(estimator: KernelEstimator, X: Any, contributions: Any) -> Explanation:
    """The contributions to the decisions about the rows of X, with names."""
    expansion, names = estimator.model_.expansion, estimator.model_.encoder.names
    return Explanation(
        contributions=contributions,
        base_value=expansion.intercept,
        decision=beside(expansion.intercept, contributions) + contributions.sum(axis=(2, 3)),
        rows=_row_names(X, contributions.shape[0]),
        outputs=estimator._outputs,
        instances=list(estimator.instance_labels_),
        kernels=expansion.bank.names,
        features=[tuple(names[c] for c in channel.columns) for channel in expansion.bank.channels],
    )


def checked_tensor(estimator: KernelEstimator, X: Any) -> Any:
    """A tensor with the columns of the training table."""
    if X.ndim != 2 or X.shape[1] != estimator.n_features_in_:
        raise ValueError(f"X is a tensor of shape {tuple(X.shape)}, expected (rows, {estimator.n_features_in_})")
    if bool(namespace(X).any(namespace(X).isinf(X))):
        raise ValueError("X contains infinity: replace it by a large number or a missing cell (NaN)")
    if not estimator.reader_.allow_missing and bool(namespace(X).any(namespace(X).isnan(X))):
        raise ValueError("X contains NaN, and the model was fitted with missing=None: impute first")
    return X


def shape_function(estimator: KernelEstimator, feature: int | str, grid: Any) -> tuple[np.ndarray, np.ndarray]:
    """See `KernelEstimator.shape_function`."""
    place = _shaped_place(estimator, feature)
    if not estimator.model_.own_kernels({place}):
        raise ValueError(
            f"feature {feature!r} acts through kernels on several features only: it has no shape of its own; "
            "use surface for the pairs in pairs_, and explain(X) for the rest"
        )
    grid = _grid(estimator.model_.encoder.columns[place], grid, SHAPE_POINTS)
    values = estimator.model_.shape(place, grid)
    return grid, values[:, 0] if values.shape[1] == 1 else values


def surface(
    estimator: KernelEstimator, first: int | str, second: int | str, grids: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """See `KernelEstimator.surface`."""
    model = estimator.model_
    places = _shaped_place(estimator, first), _shaped_place(estimator, second)
    if not model.own_kernels(set(places)) or places[0] == places[1]:
        raise ValueError(
            f"features {first!r} and {second!r} have no surface: no kernel stands on exactly these two; use one of "
            f"the pairs_ {estimator.pairs_}, or explain(X)"
        )
    given = (None, None) if grids is None else grids
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ValueError(f"grids={grids!r:.60}: give a pair, the values of each of the two features, or None")
    columns = model.encoder.columns
    a, b = (_grid(columns[place], grid, SURFACE_POINTS) for place, grid in zip(places, given, strict=True))
    values = model.surface(places, (a, b))
    return a, b, values[:, :, 0] if values.shape[2] == 1 else values


def pairs_with_surface(estimator: KernelEstimator) -> list[tuple[str, str]]:
    """The pairs of kept features that have a surface, the largest share of variation first."""
    check_is_fitted(estimator)
    model, share = estimator.model_, dict[tuple[int, ...], float]()
    sizes = np.atleast_2d(estimator.kernel_variation_).sum(axis=0)
    for channel, size in zip(model.expansion.bank.channels, sizes, strict=True):
        pair = tuple(sorted(set(channel.columns)))
        if len(pair) == 2 and not model.expansion.row_dependent:
            share[pair] = share.get(pair, 0.0) + float(size)
    names = model.encoder.names
    return [(names[a], names[b]) for a, b in sorted(share, key=lambda pair: -share[pair])]


def _shaped_place(estimator: KernelEstimator, feature: int | str) -> int:
    """The place of a kept feature that kernels may give a shape."""
    check_is_fitted(estimator)
    place = _kept_place(estimator, feature)
    if estimator.model_.encoder.columns[place].kind == "position":
        raise ValueError(f"feature {feature!r} holds positions in precomputed kernels: it has no shape")
    if estimator.model_.expansion.row_dependent:
        raise ValueError(
            f"feature {feature!r} has no shape of its own: which prototypes decide about a row, and so what the "
            "feature adds, depends on all kept features; use explain(X)"
        )
    return place


def _kept_place(estimator: KernelEstimator, feature: int | str) -> int:
    names = list(estimator.model_.encoder.names)
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    kept = estimator.features_.tolist()
    if not isinstance(feature, str) and feature in kept:
        return kept.index(feature)
    raise ValueError(f"feature {feature!r} is not among the kept ones: {names}")


def per_feature(estimator: KernelEstimator, name: str) -> np.ndarray:
    """An attribute of the kernels, added up for each kept feature."""
    check_is_fitted(estimator)
    channels = estimator.model_.expansion.bank.channels
    if any(len(set(c.columns)) > 1 for c in channels):
        instead = name if hasattr(estimator, name) else "kernel_variation_"
        raise AttributeError(
            f"a kernel on several features has no {name.split('_')[1]} per feature: use {instead}, which follows "
            "kernel_names_"
        )
    values = getattr(estimator, name)
    total = np.zeros((*values.shape[:-1], len(estimator.features_)))
    np.add.at(total.T, np.array([c.columns[0] for c in channels], dtype=int), values.T)
    return total


def _row_names(X: Any, n: Any) -> Sequence[Any]:
    """Labels of n rows, or their numbers; none where n is not known."""
    if np.isnan(n):
        return []
    return range(n) if is_in_blocks(X) else list(row_labels(X, np.arange(n)))


def measured_variation(model: Model, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Shares of instances and of kernels in the variation of the decision: the model's, or those over some rows."""
    if model.variation is not None:
        return model.variation
    some = sampled(rows, variation_rows(model))
    return variation_shares(model, model.encode(some.table), some.mass)


def variation_rows(model: Model) -> int:
    """How many rows measure the variation: fewer for models of many kernels and instances."""
    expansion = model.expansion
    values = len(expansion.intercept) * len(expansion.instances) * len(expansion.bank)
    return int(np.clip(VARIATION_VALUES // max(1, values), *VARIATION_ROWS))


def variation_shares(model: Model, Z: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of instances and of kernels in the variation of the decision over encoded rows.

    Kernels on the same features share what their sum varies.
    """
    by_instance, by_kernel = model.expansion.split(Z)
    features = [frozenset(channel.columns) for channel in model.expansion.bank.channels]
    return variation(by_instance, mass), variation(by_kernel, mass, features)


def _grid(column: Any, grid: Any, points: int) -> np.ndarray:
    """Values of an encoded column: those given, the levels of a category, or `points` over the training range."""
    if column.kind == "category":
        return np.array(list(column.levels) if grid is None else list(grid), dtype=object)
    values = np.linspace(column.low, column.high, points) if grid is None else np.asarray(grid, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"grid has shape {values.shape}: give a list of values of the feature")
    return values
