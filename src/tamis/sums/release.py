"""Sums that may be given away: no cell of few rows, and noise if asked."""

from __future__ import annotations

import numpy as np

from tamis.kernels.chebyshev import Levels
from tamis.sums.plan import Plan


def sensitivity(plan: Plan) -> float:
    """How far one row of weight one can move the sums of its fold, at most, in the Frobenius norm.

    The sums move by ``v v'`` with the row's vector ``v = [1, functions, class]``, whose norm is that of v squared; no
    polynomial is larger than one, and of the indicators of a column one is one.
    """
    size = 2.0 * float(plan.class_factor.max())
    for basis, places in zip(plan.functions.bases, plan.functions.positions, strict=True):
        own = int(np.count_nonzero(places))  # the constant is counted already
        degrees = getattr(basis, "degrees", own)
        size += float(plan.class_factor.max()) * (1 if isinstance(basis, Levels) else min(own, degrees))
    return size


def check_counts(plan: Plan, parts: np.ndarray, min_count: int) -> None:
    """Refuse sums in which a class, or a value of a column with few of them within a class, has few rows in a fold."""
    top = plan.functions.size
    classes = plan.classes.tolist()
    for fold, sums in enumerate(parts):
        for c, label in enumerate(classes):
            _check(sums[top + c, top + c], min_count, f"class {label!r}", fold)
            for j, basis in enumerate(plan.functions.bases):
                if isinstance(basis, Levels):
                    for k, place in enumerate(plan.functions.positions[j].tolist()):
                        what = f"value {k + 1} of column {plan.encoder.names[j]!r} in class {label!r}"
                        _check(sums[place, top + c], min_count, what, fold)


def _check(count: float, least: int, what: str, fold: int) -> None:
    if 0 < round(count) < least:
        raise ValueError(
            f"min_count={least}: {what} has fewer rows in fold {fold + 1}: use fewer folds, merge values, or give more "
            "rows"
        )


def noised(parts: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Sums (folds, A, A) plus normal noise of the standard deviation `noise` in every entry, as Gram matrices again."""
    out = np.empty_like(parts)
    for sums, into in zip(parts, out, strict=True):
        drawn = np.triu(rng.normal(scale=noise, size=sums.shape))
        values, vectors = np.linalg.eigh(sums + drawn + np.triu(drawn, 1).T)
        into[...] = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return out
