"""Measures of classifiers and of what they keep, with intervals.

``truth`` is boolean (True: the positive class), ``score`` grows with the positive class.
"""

from __future__ import annotations

import numpy as np

from tamis.explain import intervals
from tamis.explain.importance import signed_percentages, variation
from tamis.explain.intervals import UNKNOWN, Interval
from tamis.explain.stability import Stability, association, jaccard, kuncheva, stability

__all__ = [
    "Interval",
    "Stability",
    "accuracy",
    "association",
    "auc",
    "auc_value",
    "discriminative_representation",
    "feature_importance",
    "feature_reduction",
    "instance_importance",
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
    level: float = 0.95,
    random_state: int = 0,
) -> Interval:
    """Share of right answers; rows of one group are not independent and are resampled together."""
    hit = np.asarray(truth) == np.asarray(predicted)
    if groups is None:
        return intervals.wilson(float(hit.sum()), len(hit), level)
    return intervals.bootstrap(np.mean, hit, groups=groups, level=level, random_state=random_state)


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


def ks(
    truth: np.ndarray, score: np.ndarray, groups: np.ndarray | None = None, level: float = 0.95, random_state: int = 0
) -> Interval:
    """Kolmogorov-Smirnov: the largest distance between the two distribution functions.

    The interval takes the threshold as given; with `groups` it resamples them.
    """
    truth, score = _checked(truth, score)
    if groups is not None:
        return intervals.bootstrap(ks_value, truth, score, groups=groups, level=level, random_state=random_state)
    _, negative, positive = ks_curve(truth, score)
    if truth.all() or not truth.any():
        return UNKNOWN
    k = int(np.argmax(np.abs(negative - positive)))
    up, down = int(truth.sum()), int((~truth).sum())
    first, second = (negative[k] * down, down), (positive[k] * up, up)
    if positive[k] > negative[k]:
        first, second = second, first
    low, high = intervals.difference(first, second, level)[1:]
    return Interval(float(abs(negative[k] - positive[k])), max(0.0, low), min(1.0, high))


def ks_value(truth: np.ndarray, score: np.ndarray) -> float:
    """`ks` without its interval."""
    _, negative, positive = ks_curve(truth, score)
    return float(np.max(np.abs(negative - positive)))


def auc(
    truth: np.ndarray, score: np.ndarray, groups: np.ndarray | None = None, level: float = 0.95, random_state: int = 0
) -> Interval:
    """Area under the ROC curve, ties counted one half."""
    truth, score = _checked(truth, score)
    if groups is not None:
        return intervals.bootstrap(auc_value, truth, score, groups=groups, level=level, random_state=random_state)
    up = int(truth.sum())
    return intervals.area(auc_value(truth, score), up, len(truth) - up, level) if 0 < up < len(truth) else UNKNOWN


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


def instance_importance(dual_coef: np.ndarray) -> np.ndarray:
    """The paper's II: signed percentages of the sample coefficients [Zhang2022, Sect. 4.2]."""
    return signed_percentages(dual_coef)


def feature_importance(kernel_weights: np.ndarray) -> np.ndarray:
    """The paper's FI: signed percentages of the kernel weights [Zhang2022, Sect. 4.2]."""
    return signed_percentages(kernel_weights)


def interpretability(masses: np.ndarray, norms: np.ndarray) -> float:
    """The paper's IP: purity times concentration of prototypes, in per cent [Hosseini2019, Sect. 5.2.1].

    ``100 mean_j (max_q masses_qj / sum_q masses_qj) exp(-sum_st u_s u_t d(s, t))`` over prototypes u; the squared
    distances d under kernels of unit diagonal add up to ``2 ((sum u)^2 - u'K u)``. A single case is worth 100.

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
