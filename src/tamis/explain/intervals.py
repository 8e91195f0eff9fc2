"""Confidence intervals, which are not empty for a perfect score on few rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm, t

from tamis.codec import stored

LEVEL = 0.95  # of all intervals
RESAMPLES = 500


@stored
class Interval(NamedTuple):
    """An estimate with the ends of its confidence interval; NaN where there is nothing to estimate."""

    value: float
    low: float
    high: float


UNKNOWN = Interval(float("nan"), float("nan"), float("nan"))


def wilson(hits: float, n: float) -> Interval:
    """A share of independent rows, ``hits / n``, by inverting the score test [Wilson1927]."""
    if n <= 0:
        return UNKNOWN
    z, p = norm.ppf(0.5 + LEVEL / 2), hits / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Interval(float(p), float(min(p, max(0.0, centre - half))), float(max(p, min(1.0, centre + half))))


def difference(first: tuple[float, float], second: tuple[float, float]) -> Interval:
    """``hits / n`` of the first sample less that of the second, from the two score intervals [Newcombe1998]."""
    a, b = wilson(*first), wilson(*second)
    value = a.value - b.value
    low = value - np.hypot(a.value - a.low, b.high - b.value)
    high = value + np.hypot(a.high - a.value, b.value - b.low)
    return Interval(float(value), float(low), float(high))


def area(value: float, n_positive: int, n_negative: int) -> Interval:
    """An area under the curve, by inverting a score test with the variance of [Hanley1982].

    The variance is that of the area under test, not of the estimate, so the interval of an area of one
    is not empty.
    """
    if not n_positive or not n_negative:
        return UNKNOWN
    z = norm.ppf(0.5 + LEVEL / 2)
    grid = np.linspace(0.0, 1.0, 20_001)
    smaller = (n_positive + n_negative) / 2 - 1  # [Newcombe2006]: one number in place of both
    spread = 1 + smaller * (1 - grid) / (2 - grid) + smaller * grid / (1 + grid)
    variance = grid * (1 - grid) * spread / (n_positive * n_negative)
    inside = grid[(value - grid) ** 2 <= z * z * variance + 1e-15]
    low, high = (inside[0], inside[-1]) if len(inside) else (value, value)
    return Interval(value, float(min(low, value)), float(max(high, value)))


def mean(values: Sequence[float] | np.ndarray) -> Interval:
    """The mean of a few measurements, such as one per fold, with Student's interval."""
    values = np.asarray(values, dtype=float)
    if not len(values):
        return UNKNOWN
    value = float(values.mean())
    if len(values) == 1:
        return Interval(value, float("nan"), float("nan"))
    half = float(t.ppf(0.5 + LEVEL / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Interval(value, value - half, value + half)


def jackknife(statistic: Callable[[list], float], items: Sequence[Any]) -> Interval:
    """A statistic of a few items (folds), its variance by leaving one out at a time."""
    items = list(items)
    value, m = statistic(items), len(items)
    if m < 3:
        return Interval(value, float("nan"), float("nan"))
    without = np.array([statistic(items[:k] + items[k + 1 :]) for k in range(m)])
    half = float(t.ppf(0.5 + LEVEL / 2, m - 1) * np.sqrt((m - 1) / m * np.sum((without - without.mean()) ** 2)))
    return Interval(value, value - half, value + half)


def bootstrap(
    statistic: Callable[..., float],
    *arrays: np.ndarray,
    groups: np.ndarray | None = None,
    random_state: int = 0,
) -> Interval:
    """``statistic(*arrays)`` with percentile limits over resampled rows, or resampled `groups` of them.

    Resamples on which the statistic is not finite (one class only) are left out.
    """
    rng = np.random.default_rng(random_state)
    labels, codes = np.unique(np.arange(len(arrays[0])) if groups is None else groups, return_inverse=True)
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    values = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([members[g] for g in rng.integers(len(labels), size=len(labels))])
        values.append(statistic(*(a[rows] for a in arrays)))
    known = np.array(values)[np.isfinite(values)]
    value = float(statistic(*arrays))
    if len(known) < RESAMPLES / 2 or not np.isfinite(value):
        return Interval(value, float("nan"), float("nan"))
    low, high = np.quantile(known, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return Interval(value, float(min(low, value)), float(max(high, value)))
