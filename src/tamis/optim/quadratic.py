"""Small convex quadratic programs from a good start, by active sets, and the zero of a slope along a line.

Both programs hold a set of free entries and solve the linear system on it. Where the solution leaves the feasible
set, a step towards it ends where the first entry reaches zero, which leaves the set [LawsonHanson1974]; where it does
not, the entry of steepest slope outside comes in, until none would lower the value. Each entry that comes in strictly
lowers it, so that no set comes twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve, solve_triangular
from scipy.linalg.lapack import dpstrf

P = TypeVar("P")

MULTIPLIER_TOL = 1e-12  # of multipliers, relative to the largest gradient entry
PIVOT_TOL = 1e-10  # of the largest diagonal: columns whose pivot is less depend on the others
RIDGE = 1e-14  # of the mean diagonal, where a factorisation fails
SLOPE_TOL = 1e-10  # slopes, relative to the largest |c|, that count as zero
TURNS_PER_VARIABLE = 20  # most sets that are tried, for each variable
MAX_ONE_SIDED = 3  # points on one side of the zero before the interval is halved


def solve_simplex_qp(hessian: np.ndarray, linear: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Solve ``min 1/2 d'Hd - c'd  subject to  d >= 0, sum d = 1`` for a positive definite H.

    Parameters
    ----------
    hessian, linear : H (L, L) and c (L,)
    start : (L,) on the simplex; a point with the support of the solution makes it one linear solve

    Notes
    -----
    The objective falls in every step that moves, so no support comes back and the search ends. A LinAlgError means that
    H is not positive definite.
    """
    d = start.astype(float)
    free = d > 0
    for _ in range(10 * len(d) + 100):
        target = np.zeros_like(d)
        target[free] = _on_support(hessian[np.ix_(free, free)], linear[free])
        if np.all(target[free] >= 0):
            d = target
            gradient = hessian @ d - linear
            level = float(d @ gradient)
            entering = np.where(free, np.inf, gradient - level)
            if np.min(entering) >= -MULTIPLIER_TOL * (1.0 + np.max(np.abs(gradient))):
                break
            free[int(np.argmin(entering))] = True
        else:
            blocked = np.flatnonzero(free & (target < 0))
            steps = d[blocked] / (d[blocked] - target[blocked])
            first = blocked[int(np.argmin(steps))]
            d = d + float(np.min(steps)) * (target - d)
            d[first] = 0.0
            free[first] = False
    d = np.maximum(d, 0.0)
    return d / d.sum()


def _on_support(hessian: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Minimise ``1/2 d'Hd - c'd`` over ``sum d = 1``, where what all of c share does not count."""
    linear = linear - linear.mean()
    both = solve(hessian, np.column_stack([linear, np.ones(len(linear))]), assume_a="pos")
    ones = both[:, 1]
    if not (np.isfinite(both).all() and ones.sum() > 0):
        raise LinAlgError("the Hessian is not positive definite")
    return both[:, 0] + (1.0 - both[:, 0].sum()) / ones.sum() * ones


def solve_nonnegative_qp(Q: np.ndarray, c: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Minimise ``1/2 x'Qx + c'x`` over ``x >= 0``.

    Parameters
    ----------
    Q : (d, d) symmetric positive semi-definite, with a positive diagonal
    c : (d,)
    start : (d,) at least zero; entries may leave and come back, none needs to be positive

    Returns
    -------
    x (d,); of several minimisers, one
    """
    if not len(c):
        return np.empty(0)
    x, inside = np.array(start, dtype=float), _independent(Q)
    x[~inside] = 0.0
    for _ in range(TURNS_PER_VARIABLE * len(c)):
        members = np.flatnonzero(inside)
        z = _solved(Q[np.ix_(members, members)], -c[members])
        low = np.flatnonzero(z <= 0)
        if len(low):
            own = x[members]
            share = own[low] / (own[low] - z[low] + np.finfo(float).tiny)
            step = float(share.min())
            x[members] = np.maximum(own + step * (z - own), 0.0)
            gone = members[low[share <= step]]
            x[gone], inside[gone] = 0.0, False
            continue
        x[:] = 0.0
        x[members] = z
        slope = np.where(inside, np.inf, Q @ x + c)
        steepest = int(np.argmin(slope))
        if not slope[steepest] < -SLOPE_TOL * np.abs(c).max():
            break
        inside[steepest] = True
    return x


def _independent(Q: np.ndarray) -> np.ndarray:
    """A mask (d,) of columns that do not depend on earlier ones."""
    floor = PIVOT_TOL * float(np.max(np.diag(Q)))
    if dpstrf(Q, tol=floor, lower=1)[2] == len(Q):  # the rank
        return np.ones(len(Q), dtype=bool)
    kept: list[int] = []
    rows = np.zeros((len(Q), len(Q)))  # of the factor of the kept ones
    for j in range(len(Q)):
        k = len(kept)
        row = solve_triangular(rows[:k, :k], Q[kept, j], lower=True, check_finite=False) if k else np.empty(0)
        pivot = Q[j, j] - row @ row
        if pivot > floor:
            rows[k, :k], rows[k, k] = row, np.sqrt(pivot)
            kept.append(j)
    return np.isin(np.arange(len(Q)), kept)


def _solved(Q: np.ndarray, b: np.ndarray) -> np.ndarray:
    ridge = 0.0
    while len(b):
        try:
            return cho_solve(cho_factor(Q + ridge * np.eye(len(b)), check_finite=False), b, check_finite=False)
        except np.linalg.LinAlgError:
            ridge = max(100.0 * ridge, RIDGE * float(np.mean(np.diag(Q))))
    return b


def zero_of_slope(
    at: Callable[[float], tuple[P, float]], low: float, high: float, *, length: float, trials: int, flat: float
) -> list[P]:
    """The points that false position (Illinois) visits between the ends of a line.

    An end that has stayed for three points is far steeper than the other: then the next point is in the middle.

    Parameters
    ----------
    at : the point a step s from the start, and its slope
    low, high : slopes at 0 and at `length`; there is nothing to look for unless they are negative and positive
    trials : most points
    flat : share of the modulus of `low` at which a slope counts as zero, that at `length` included
    """
    left, right, moves = (0.0, low), (length, high), 0  # how often the same end moved: the left one counts down
    level = flat * abs(low)
    points: list[P] = []
    while len(points) < trials and left[1] < 0 < right[1] and (points or high > level):
        s = (left[0] * right[1] - right[0] * left[1]) / (right[1] - left[1])
        if abs(moves) >= MAX_ONE_SIDED:
            s = 0.5 * (left[0] + right[0])
        point, slope = at(s)
        points.append(point)
        if abs(slope) <= level:
            break
        if slope < 0:
            left, right, moves = (s, slope), (right[0], right[1] * (0.5 if moves < 0 else 1.0)), min(moves, 0) - 1
        else:
            left, right, moves = (left[0], left[1] * (0.5 if moves > 0 else 1.0)), (s, slope), max(moves, 0) + 1
    return points
