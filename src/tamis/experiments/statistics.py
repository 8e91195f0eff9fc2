"""Which differences between methods are more than luck.

Splits of one dataset share rows, so that the variance of their differences is too small: `resampled` corrects it
[NadeauBengio2003]. Over datasets the signed ranks of the means are compared, and p values of several comparisons are
corrected by Holm's steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

SAME = 1e-9  # difference that is rounding


def resampled(first: Sequence[float], second: Sequence[float], ratio: float) -> float:
    """p value of the paired t-test over splits that share rows, `ratio` the rows tested over those learned from.

    The variance of the mean difference of J splits is taken as ``(1 / J + ratio)`` times that of the differences; with
    a ratio of zero it is the usual test. One where nothing differs, NaN where all splits differ by the same number,
    which says nothing of the variance, and with fewer than two.
    """
    d = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    if len(d) < 2:
        return float("nan")
    spread = float(np.std(d, ddof=1)) * np.sqrt(1.0 / len(d) + ratio)
    if spread <= SAME * max(1.0, float(np.max(np.abs(d)))):
        return 1.0 if np.allclose(d, 0.0, atol=SAME) else float("nan")
    return float(2.0 * stats.t.sf(abs(np.mean(d)) / spread, len(d) - 1))


def signed_ranks(first: Sequence[float], second: Sequence[float]) -> float:
    """p value of Wilcoxon's signed-rank test over datasets; one where nothing differs, NaN with fewer than five."""
    d = np.round(np.asarray(first, dtype=float) - np.asarray(second, dtype=float), 9)
    if len(d) < 5:
        return float("nan")
    return 1.0 if not d.any() else float(stats.wilcoxon(d, zero_method="zsplit", method="auto").pvalue)


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p values corrected for their number by Holm's steps; NaN stays and does not count."""
    known = sorted((value, name) for name, value in p.items() if not np.isnan(value))
    out, largest = dict(p), 0.0
    for place, (value, name) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - place) * value))
        out[name] = largest
    return out


def mean_ranks(scores: np.ndarray) -> np.ndarray:
    """Mean rank (methods,) over datasets of scores (datasets, methods), one the best; ties share; NaN ranks last."""
    filled = np.where(np.isnan(scores), -np.inf, scores)
    return stats.rankdata(-filled, axis=1).mean(axis=0)
