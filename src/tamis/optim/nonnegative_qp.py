"""Non-negative quadratic programs from a good start: ``min_{x >= 0} 1/2 x'Qx + c'x`` by active sets.

All entries are tried together, except that of columns which depend on one another only some are: a copy brings
nothing. Where the solution on them is not positive, a step towards it ends where the first entry reaches zero, which
leaves [LawsonHanson1974]; where it is, the steepest of those outside comes back, until none would lower the value. Each
such return strictly lowers it, so no set comes twice.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dpstrf

PIVOT = 1e-10  # of the largest diagonal: columns whose pivot is less depend on the others
RIDGE = 1e-14  # of the mean diagonal, where a factorisation fails
SLIGHT = 1e-10  # slopes, relative to the largest |c|, that count as zero
TURNS = 20  # most sets that are tried, for each variable


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
    for _ in range(TURNS * len(c)):
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
        if not slope[steepest] < -SLIGHT * np.abs(c).max():
            break
        inside[steepest] = True
    return x


def _independent(Q: np.ndarray) -> np.ndarray:
    """A mask (d,) of columns that do not depend on earlier ones."""
    floor = PIVOT * float(np.max(np.diag(Q)))
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
