"""A small convex quadratic program over the simplex, by a primal active set."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, solve

SLACK = 1e-12  # of multipliers, relative to the largest gradient entry


def solve_simplex_qp(hessian: np.ndarray, linear: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Solve ``min 1/2 d'Hd - c'd  subject to  d >= 0, sum d = 1`` for a positive definite H.

    Parameters
    ----------
    hessian, linear : H (L, L) and c (L,)
    start : (L,) on the simplex; a point with the support of the solution makes it one linear solve

    Notes
    -----
    The objective falls in every step that moves, so no support comes back and the search ends. A LinAlgError says that
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
            if np.min(entering) >= -SLACK * (1.0 + np.max(np.abs(gradient))):
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
