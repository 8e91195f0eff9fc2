"""Explanations of a fitted estimator: decisions split into parts, shapes of features, surfaces of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from tamis.arrays import beside, namespace
from tamis.explain import Explanation, Kept, part_names
from tamis.explain.html import model_html
from tamis.table.table import row_labels, source_kind

if TYPE_CHECKING:
    from tamis.base.estimator import KernelEstimator

SHAPE_POINTS, SURFACE_POINTS = 200, 40  # of a number in a shape, and in each direction of a surface


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
    return range(n) if source_kind(X) is not None else list(row_labels(X, np.arange(n)))


def _grid(column: Any, grid: Any, points: int) -> np.ndarray:
    """Values of an encoded column: those given, the levels of a category, or `points` over the training range."""
    if column.kind == "category":
        return np.array(list(column.levels) if grid is None else list(grid), dtype=object)
    values = np.linspace(column.low, column.high, points) if grid is None else np.asarray(grid, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"grid has shape {values.shape}: give a list of values of the feature")
    return values


def outputs(estimator: KernelEstimator) -> list[Any]:
    """What the decisions speak for: the second of two classes, all of several, or the prediction."""
    check_is_fitted(estimator)
    return estimator._outputs


def parts(estimator: KernelEstimator) -> list[tuple[str, ...]]:
    """For each kept kernel the names of the features it stands on."""
    check_is_fitted(estimator)
    names = estimator.model_.encoder.names
    return [tuple(names[c] for c in channel.columns) for channel in estimator.model_.expansion.bank.channels]


def kept_features(estimator: KernelEstimator) -> Kept:
    """Kept features, and groups of features that act through one kernel; kernels on the same ones added up."""
    of_kernel = parts(estimator)
    distinct = list(dict.fromkeys(of_kernel))
    member = np.array([[group == part for part in distinct] for group in of_kernel], dtype=float)
    member = member.reshape(len(of_kernel), len(distinct))
    found = _kept(estimator, "kernel", part_names(distinct))
    importance = None if found.importance is None else found.importance @ member
    return Kept(found.names, importance, found.variation @ member)


def kept_cases(estimator: KernelEstimator) -> Kept:
    """Kept training cases, by their labels."""
    check_is_fitted(estimator)
    return _kept(estimator, "instance", list(estimator.instance_labels_))


def _kept(estimator: KernelEstimator, kind: str, names: list[Any]) -> Kept:
    variation = np.atleast_2d(getattr(estimator, f"{kind}_variation_"))
    importance = getattr(estimator, f"{kind}_importance_", None)
    if importance is not None:  # one weight vector may serve all classes
        importance = np.broadcast_to(np.atleast_2d(importance), variation.shape)
    return Kept(names, importance, variation)


def kept_values(estimator: KernelEstimator, X: Any) -> dict[str, np.ndarray]:
    """The kept features of some rows: float arrays, and object arrays for categories."""
    check_is_fitted(estimator)
    encoder = estimator.model_.encoder
    table = estimator._table(X)
    if tuple(table.names) != encoder.names:
        table = table.select(estimator.model_.columns)
    return {name: table.labels[j] if j in table.labels else table.numbers[:, j] for j, name in enumerate(encoder.names)}


def case_values(estimator: KernelEstimator) -> dict[str, np.ndarray]:
    """The kept features of the kept cases, in their own units, as the model sees them (clipped and filled)."""
    check_is_fitted(estimator)
    encoder, cases = estimator.model_.encoder, estimator.model_.expansion.instances
    return {name: column.decode(z) for name, column, z in zip(encoder.names, encoder.columns, cases.T, strict=True)}


def case_pulls(estimator: KernelEstimator) -> np.ndarray:
    """What each kept case adds to the decision about a row equal to itself (cases, outputs)."""
    check_is_fitted(estimator)
    expansion = estimator.model_.expansion
    own, _ = expansion.split(expansion.instances)
    return np.einsum("iqi->iq", own)


def notebook_html(estimator: KernelEstimator) -> str:
    """An estimator for a notebook: scikit-learn's diagram, and once fitted, first what was learned."""
    diagram: str = estimator_html_repr(estimator)
    if not hasattr(estimator, "model_"):
        return diagram
    return f"{_fitted_html(estimator)}<details><summary>Parameters</summary>{diagram}</details>"


def _fitted_html(estimator: KernelEstimator) -> str:
    features, cases = kept_features(estimator), kept_cases(estimator)
    does, sign = estimator._in_words
    sentence = (
        f"{does} by the likeness of a row to {len(cases)} kept training "
        f"case{'' if len(cases) == 1 else 's'} on {len(estimator.features_)} of {estimator.n_features_in_} features; "
        f"every decision is an exact sum of their contributions. {sign}".rstrip()
    )
    facts = {
        "fit": estimator.status_.value,
        "objective": f"{estimator.objective_:.6g}",
        "rounds": estimator.n_iter_,
        "base value": ", ".join(f"{value:.4g}" for value in estimator.intercept_),
    }
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
