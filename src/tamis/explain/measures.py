"""Measures of classifiers and of what they keep, with intervals.

``truth`` is boolean (True: the positive class), ``score`` grows with the positive class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tamis.codec import stored
from tamis.explain import intervals
from tamis.explain.intervals import UNKNOWN, Interval

__all__ = [
    "Interval",
    "Stability",
    "accuracy",
    "association",
    "auc",
    "auc_value",
    "discriminative_representation",
    "feature_reduction",
    "instance_reduction",
    "interpretability",
    "jaccard",
    "ks",
    "ks_curve",
    "ks_value",
    "kuncheva",
    "roc_curve",
    "signed_percentages",
    "stability",
    "variation",
]


def accuracy(
    truth: np.ndarray,
    predicted: np.ndarray,
    groups: np.ndarray | None = None,
    random_state: int = 0,
) -> Interval:
    """Share of right answers; rows of one group are not independent and are resampled together."""
    hit = np.asarray(truth) == np.asarray(predicted)
    if groups is None:
        return intervals.wilson(float(hit.sum()), len(hit))
    return intervals.bootstrap(np.mean, hit, groups=groups, random_state=random_state)


def ks_curve(truth: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distribution functions of the scores of both classes.

    Returns
    -------
    thresholds, negative, positive : the distinct scores, and the shares of the negative and of the
        positive rows with a score of at most that
    """
    truth, score = _checked(truth, score)
    thresholds, place = np.unique(score, return_inverse=True)
    positive, negative = (np.bincount(place[mask], minlength=len(thresholds)) for mask in (truth, ~truth))
    with np.errstate(invalid="ignore"):
        return thresholds, np.cumsum(negative) / negative.sum(), np.cumsum(positive) / positive.sum()


def ks(truth: np.ndarray, score: np.ndarray, groups: np.ndarray | None = None, random_state: int = 0) -> Interval:
    """Kolmogorov-Smirnov: the largest distance between the two distribution functions.

    The interval takes the threshold as given; with `groups` it resamples them.
    """
    truth, score = _checked(truth, score)
    if groups is not None:
        return intervals.bootstrap(ks_value, truth, score, groups=groups, random_state=random_state)
    _, negative, positive = ks_curve(truth, score)
    if truth.all() or not truth.any():
        return UNKNOWN
    k = int(np.argmax(np.abs(negative - positive)))
    up, down = int(truth.sum()), int((~truth).sum())
    first, second = (negative[k] * down, down), (positive[k] * up, up)
    if positive[k] > negative[k]:
        first, second = second, first
    low, high = intervals.difference(first, second)[1:]
    return Interval(float(abs(negative[k] - positive[k])), max(0.0, low), min(1.0, high))


def ks_value(truth: np.ndarray, score: np.ndarray) -> float:
    """`ks` without its interval."""
    _, negative, positive = ks_curve(truth, score)
    return float(np.max(np.abs(negative - positive)))


def auc(truth: np.ndarray, score: np.ndarray, groups: np.ndarray | None = None, random_state: int = 0) -> Interval:
    """Area under the ROC curve, ties counted one half."""
    truth, score = _checked(truth, score)
    if groups is not None:
        return intervals.bootstrap(auc_value, truth, score, groups=groups, random_state=random_state)
    up = int(truth.sum())
    return intervals.area(auc_value(truth, score), up, len(truth) - up) if 0 < up < len(truth) else UNKNOWN


def auc_value(truth: np.ndarray, score: np.ndarray, weight: np.ndarray | None = None) -> float:
    """`auc` without its interval: the share of pairs of one row of each class that are in order; NaN with one class."""
    weight = np.ones(len(truth)) if weight is None else weight
    _, place = np.unique(score, return_inverse=True)
    up, down = (np.bincount(place, weights=weight * of) for of in (truth, ~truth))
    pairs = up.sum() * down.sum()
    return float(up @ (np.cumsum(down) - 0.5 * down) / pairs) if pairs else float("nan")


def roc_curve(truth: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """False and true positive rates from (0, 0) to (1, 1), one point per distinct score."""
    _, negative, positive = ks_curve(truth, score)
    return np.r_[1.0 - np.r_[0.0, negative]][::-1], np.r_[1.0 - np.r_[0.0, positive]][::-1]


def instance_reduction(kept: int, n: int) -> float:
    """The paper's IRR, the per cent of training rows that the model does not need [Zhang2022, Sect. 4.2]."""
    return 100.0 * (1.0 - kept / n)


def feature_reduction(kept: int, d: int) -> float:
    """The paper's FRR, the per cent of features that the model does not need [Zhang2022, Sect. 4.2]."""
    return 100.0 * (1.0 - kept / d)


def interpretability(masses: np.ndarray, norms: np.ndarray) -> float:
    """The paper's IP: purity times concentration of prototypes, in per cent [Hosseini2019, Sect. 5.2.1].

    ``100 mean_j (max_q masses_qj / sum_q masses_qj) exp(-sum_st u_s u_t d(s, t))`` over prototypes u; the squared
    distances d under kernels of unit diagonal add up to ``2 ((sum u)^2 - u'K u)``. A single case has 100.

    Parameters
    ----------
    masses : (classes, c) sum of the weights u of the samples of each class
    norms : (c,) u'K u
    """
    total = masses.sum(axis=0)
    purity = masses.max(axis=0) / np.where(total > 0, total, 1.0)
    return 100.0 * float(np.mean(purity * np.exp(-2.0 * (total**2 - norms))))


def discriminative_representation(codes: np.ndarray, labels: np.ndarray, truth: np.ndarray) -> tuple[float, int]:
    """The paper's DR: how far prototypes represent rows of their own class only [Hosseini2019, Sect. 5.2.2].

    The mean over prototypes of the share of their codes on rows of their class, in per cent. Prototypes that no row
    uses do not count (NaN if none is used).

    Parameters
    ----------
    codes : (rows, c)
    labels : (c,) class of each prototype
    truth : (rows,) class of each row

    Returns
    -------
    value, empty : the measure, and how many prototypes did not count
    """
    own = np.sum(codes * (np.asarray(truth)[:, None] == np.asarray(labels)[None, :]), axis=0)
    total = codes.sum(axis=0)
    used = total > 0
    value = 100.0 * float(np.mean(own[used] / total[used])) if used.any() else float("nan")
    return value, int(np.count_nonzero(~used))


def _checked(truth: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    truth, score = np.asarray(truth), np.asarray(score, dtype=float)
    if truth.shape != score.shape or truth.ndim != 1:
        raise ValueError(f"truth has shape {truth.shape} and score {score.shape}: both must be of shape (n,)")
    if truth.dtype != bool:
        if not np.isin(truth, (0, 1)).all():
            raise ValueError("truth must be boolean: True for rows of the positive class")
        truth = truth.astype(bool)
    if not np.isfinite(score).all():
        raise ValueError("score holds NaN or infinity: every row needs a finite score")
    return truth, score


# ---------------------------------------------------------------------- importance


def signed_percentages(values: np.ndarray) -> np.ndarray:
    """``100 v / |v|_1``: moduli add up to 100, signs are kept; all zero for a zero vector.

    The paper's II and FI [Zhang2022, Sect. 4.2].
    """
    total = np.abs(values).sum(axis=-1, keepdims=True)
    return 100.0 * values / np.where(total > 0, total, 1.0)


def variation(parts: np.ndarray, sample_weight: np.ndarray, groups: Sequence[Hashable] | None = None) -> np.ndarray:
    """How much each part of the decision varies over rows, in per cent of the sum.

    Parameters
    ----------
    parts : (rows, q, p) contributions of p instances or kernels to q outputs
    sample_weight : (rows,)
    groups : (p,) parts of one group share the variation of their sum, in proportion to their own, so that parts that
        nearly cancel have small shares; None: each part is a group

    Returns
    -------
    (q, p); weighted standard deviations scaled to add up to 100 for each output. Unlike
    `signed_percentages` this is zero for a part that is the same for every row.
    """
    own = _spread(parts, sample_weight)
    if groups is None or len(set(groups)) == len(groups):
        return signed_percentages(own)
    distinct = list(dict.fromkeys(groups))
    member = np.array([[group == one for one in distinct] for group in groups], dtype=float)
    total = own @ member
    scale = _spread(parts @ member, sample_weight) / np.where(total > 0, total, 1.0)
    return signed_percentages(own * (scale @ member.T))


def _spread(parts: np.ndarray, sample_weight: np.ndarray) -> np.ndarray:
    """Weighted standard deviations (q, p) over rows."""
    share = sample_weight / sample_weight.sum()
    mean = np.einsum("i,iqp->qp", share, parts)
    return np.sqrt(np.einsum("i,iqp->qp", share, (parts - mean) ** 2))


# ---------------------------------------------------------------------- stability of a selection


def jaccard(a: Collection[int], b: Collection[int]) -> float:
    """Common members over all members; one for two empty sets."""
    union = len(set(a) | set(b))
    return len(set(a) & set(b)) / union if union else 1.0


def kuncheva(a: Collection[int], b: Collection[int], d: int) -> float:
    """Agreement of two choices out of d features above chance; zero is chance, one is equality.

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
    supports: Sequence[Collection[int]], columns: Callable[[int], np.ndarray], names: Sequence[str]
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

        value, low, high = intervals.jackknife(statistic, range(len(sets)))
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
