"""Tests of differences between methods.

Splits of one dataset share rows, so the variance of their differences is too small: `resampled` corrects it
[NadeauBengio2003]. Over datasets, means are compared by signed ranks. p-values of several tests are corrected by
Holm's procedure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

ROUNDING = 1e-9


def resampled(first: Sequence[float], second: Sequence[float], ratio: float) -> float:
    """Return the p-value of the paired t-test over splits that share rows; `ratio` is test rows over training rows.

    The variance of the mean difference of J splits is ``(1 / J + ratio)`` times that of the differences; a ratio of
    zero gives the usual test. The p-value is 1 if all differences are zero, and NaN if they are equal but not zero, so
    that their variance is unknown, or if there are fewer than two.
    """
    d = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    if len(d) < 2:
        return float("nan")
    spread = float(np.std(d, ddof=1)) * np.sqrt(1.0 / len(d) + ratio)
    if spread <= ROUNDING * max(1.0, float(np.max(np.abs(d)))):
        return 1.0 if np.allclose(d, 0.0, atol=ROUNDING) else float("nan")
    return float(2.0 * stats.t.sf(abs(np.mean(d)) / spread, len(d) - 1))


def signed_ranks(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the p-value of Wilcoxon's signed-rank test over datasets: 1 without a difference, NaN for fewer than 5."""
    d = np.round(np.asarray(first, dtype=float) - np.asarray(second, dtype=float), 9)
    if len(d) < 5:
        return float("nan")
    return 1.0 if not d.any() else float(stats.wilcoxon(d, zero_method="zsplit", method="auto").pvalue)


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Return p-values corrected for their number by Holm's procedure; NaN is not counted and stays NaN."""
    known = sorted((value, name) for name, value in p.items() if not np.isnan(value))
    out, largest = dict(p), 0.0
    for place, (value, name) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - place) * value))
        out[name] = largest
    return out


def mean_ranks(scores: np.ndarray) -> np.ndarray:
    """Return the mean rank (methods,) of scores (datasets, methods): 1 is best, ties are averaged, NaN is last."""
    filled = np.where(np.isnan(scores), -np.inf, scores)
    return stats.rankdata(-filled, axis=1).mean(axis=0)
