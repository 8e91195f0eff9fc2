"""What a fitted estimator keeps, as plain data for tables, pictures and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from tamis.explain import Kept, part_names
from tamis.explain.html import model_html

if TYPE_CHECKING:
    from tamis.base.estimator import KernelEstimator


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
