"""Do the folds choose the same features? Agreement of supports, and of what the chosen features say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tamis.codec import stored
from tamis.explain import intervals
from tamis.explain.intervals import Interval


def jaccard(a: Collection[int], b: Collection[int]) -> float:
    """Common members over all members; one for two empty sets."""
    union = len(set(a) | set(b))
    return len(set(a) & set(b)) / union if union else 1.0


def kuncheva(a: Collection[int], b: Collection[int], d: int) -> float:
    """Agreement of two choices out of d features beyond chance; zero is chance, one is equality.

    [Kuncheva2007] for choices of one size, [Nogueira2018] for choices of different sizes. Choosing
    nothing twice or everything twice is agreement.
    """
    share = (len(set(a)) + len(set(b))) / (2 * d)
    apart = len(set(a) ^ set(b)) / (2 * d)
    return 1.0 - apart / (share * (1 - share)) if 0 < share < 1 else 1.0


def association(x: np.ndarray, y: np.ndarray) -> float:
    """First canonical correlation of two columns; categories (object arrays) enter as indicators.

    For two numbers this is the modulus of Pearson's, for a number and a category the correlation ratio. Only rows with
    both values count; a constant column is associated with nothing.
    """
    known = ~(_missing(x) | _missing(y))
    bases = [_centred(v[known]) for v in (x, y)]
    if any(not basis.shape[1] for basis in bases):
        return 0.0
    return float(min(1.0, np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[0]))


def _missing(x: np.ndarray) -> np.ndarray:
    return np.array([v is None for v in x]) if x.dtype == object else np.isnan(x)


def _centred(x: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the centred indicators of a category, or of a centred number."""
    if not len(x):
        return np.empty((0, 0))
    if x.dtype == object:
        codes = np.unique(x.astype(str), return_inverse=True)[1]
        columns = (codes[:, None] == np.arange(codes.max() + 1)).astype(float)
    else:
        columns = (x / (np.max(np.abs(x)) or 1.0))[:, None]
    columns = columns - columns.mean(axis=0)
    left, size, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, size > 1e-10 * max(1.0, np.sqrt(len(x)))]


@stored
@dataclass(frozen=True)
class Stability:
    """Which features the folds chose, and how well the choices agree.

    Attributes
    ----------
    features : names of all features that some fold chose, the most often chosen first
    chosen : (folds, features) boolean
    correlation : (features, features) association of the columns in the training rows
    agreement : (folds, folds); mean over the features of the fold of the row of the best association with
        a feature of the fold of the column [Zhang2022, Sect. 4.7]
    jaccard, kuncheva, correlated : means over pairs of folds, with jackknife intervals over folds
    """

    features: tuple[str, ...]
    chosen: np.ndarray
    correlation: np.ndarray
    agreement: np.ndarray
    jaccard: Interval
    kuncheva: Interval
    correlated: Interval


def stability(
    supports: Sequence[Collection[int]], columns: Callable[[int], np.ndarray], names: Sequence[str], level: float = 0.95
) -> Stability:
    """Agreement of the features chosen in several folds.

    Parameters
    ----------
    supports : for each fold the positions of the chosen features
    columns : gives the values of a feature by its position (float array, or objects for a category)
    names : of all features
    """
    sets = [frozenset(int(j) for j in support) for support in supports]
    union = sorted(set().union(*sets), key=lambda j: (-sum(j in s for s in sets), j))
    values = [columns(j) for j in union]
    correlation = np.eye(len(union))
    for a, b in combinations(range(len(union)), 2):
        correlation[a, b] = correlation[b, a] = association(values[a], values[b])
    chosen = np.array([[j in s for j in union] for s in sets], dtype=bool).reshape(len(sets), len(union))
    agreement = np.array([[_best(correlation, a, b) for b in chosen] for a in chosen])

    def over_pairs(measure: Callable[[int, int], float]) -> Interval:
        def statistic(folds: list[int]) -> float:
            pairs = list(combinations(folds, 2))
            return float(np.mean([measure(a, b) for a, b in pairs])) if pairs else float("nan")

        value, low, high = intervals.jackknife(statistic, range(len(sets)), level)
        return Interval(value, max(-1.0, low), min(1.0, high))

    return Stability(
        tuple(names[j] for j in union),
        chosen,
        correlation,
        agreement,
        over_pairs(lambda a, b: jaccard(sets[a], sets[b])),
        over_pairs(lambda a, b: kuncheva(sets[a], sets[b], len(names))),
        over_pairs(lambda a, b: float(agreement[a, b] + agreement[b, a]) / 2),
    )


def _best(correlation: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Mean over the features of `a` of the largest correlation with one of `b`."""
    if not a.any() or not b.any():
        return float(a.any() == b.any())
    return float(correlation[np.ix_(a, b)].max(axis=1).mean())
