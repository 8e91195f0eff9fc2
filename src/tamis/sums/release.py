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
    """Refuse sums in which a class, or a value or the missing cells of a column within one, has few rows in a fold.

    Columns that have neither few values nor a function for missing cells tell no counts. Rows count once each, but for
    the factor of their class.
    """
    top, names = plan.functions.size, plan.encoder.names
    told = [
        (name, places if isinstance(basis, Levels) else places[:1])
        for name, basis, places, gap in zip(
            names, plan.functions.bases, plan.functions.positions, plan.functions.gaps, strict=True
        )
        if gap or isinstance(basis, Levels)
    ]
    for fold, sums in enumerate(parts):
        for c, (label, factor) in enumerate(zip(plan.classes.tolist(), plan.class_factor.tolist(), strict=True)):
            rows = sums[top + c, top + c] / factor
            _check(rows, min_count, f"class {label!r}", fold)
            for name, places in told:
                there = sums[places, top + c] / factor
                for k, count in enumerate(there.tolist()):
                    _check(count, min_count, f"value {k + 1} of column {name!r} in class {label!r}", fold)
                _check(rows - there.sum(), min_count, f"a missing cell of column {name!r} in class {label!r}", fold)


def _check(count: float, least: int, what: str, fold: int) -> None:
    if 1e-6 < count < least - 1e-6:
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
