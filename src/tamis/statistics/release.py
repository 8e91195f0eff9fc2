"""Sums that may be given away: no table of few rows in them, and noise if asked."""

from __future__ import annotations

import numpy as np

from tamis.kernels.stacks.chebyshev import Chebyshev, Levels
from tamis.statistics.plan import Plan


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
    """Refuse sums off which a cell of few rows of a fold can be read.

    Products of indicators are counts: of classes, of values, panels and missing cells of a column within a class, and
    of those of two columns together. Rows count once each, but for the factor of their class; where classes have
    different factors, cells of two columns count as if all their rows had the largest. Moments of higher degree are not
    looked at.
    """
    told = [(name, places) for name, places in zip(plan.encoder.names, _indicators(plan), strict=True) if len(places)]
    top, largest = plan.functions.size, float(plan.class_factor.max())
    for fold, sums in enumerate(parts):
        for c, (label, factor) in enumerate(zip(plan.classes.tolist(), plan.class_factor.tolist(), strict=True)):
            rows = sums[top + c, top + c] / factor
            _check(np.array(rows), min_count, f"class {label!r}", fold)
            for name, places in told:
                _check(
                    _with_rest(sums[places, top + c] / factor, rows), min_count, f"{name!r} in class {label!r}", fold
                )
        for k, (name, places) in enumerate(told):
            whole = np.diag(sums)[places] / largest
            for other, others in told[:k] + told[k + 1 :]:  # both ways: either of two cells may be missing
                cells = _with_rest(sums[np.ix_(places, others)].T / largest, whole)
                _check(cells, min_count, f"{name!r} with {other!r}", fold)


def _indicators(plan: Plan) -> list[np.ndarray]:
    """Of each column the functions that are zero or one: values, panels, presence."""
    found = []
    for basis, places, gap in zip(plan.functions.bases, plan.functions.positions, plan.functions.gaps, strict=True):
        if isinstance(basis, Levels):
            found.append(places)
        else:
            assert isinstance(basis, Chebyshev)
            found.append(places[:: basis.degrees] if basis.panels > 1 or gap else places[:0])
    return found


def _with_rest(counts: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Counts (k, ...) and those of the rows that are in none of them."""
    return np.concatenate([counts, (whole - counts.sum(axis=0))[None]])


def _check(counts: np.ndarray, least: int, what: str, fold: int) -> None:
    if np.any((counts > 1e-6) & (counts < least - 1e-6)):
        raise ValueError(
            f"min_count={least}: some cell of {what} has fewer rows in fold {fold + 1}: use fewer folds, merge values, "
            "leave columns out, or give more rows"
        )


def noised(parts: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Sums (folds, A, A) plus normal noise of the standard deviation `noise` in every entry, as Gram matrices again."""
    out = np.empty_like(parts)
    for sums, into in zip(parts, out, strict=True):
        drawn = np.triu(rng.normal(scale=noise, size=sums.shape))
        values, vectors = np.linalg.eigh(sums + drawn + np.triu(drawn, 1).T)
        into[...] = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return out
