"""ADMM for least squares under a cardinality constraint (scaled form)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tamis.optim.prox import project_cardinality


@dataclass(frozen=True)
class SparseSplit:
    """The two copies of the variable: `dense` solves the ridge system, `sparse` has at most k rows."""

    dense: np.ndarray
    sparse: np.ndarray


def sparse_least_squares(
    gram: np.ndarray,
    cross: np.ndarray,
    k: int,
    *,
    rho: float,
    tol: float = 1e-4,
    max_iter: int = 100,
) -> SparseSplit:
    """Iterate ADMM on ``1/2 x'Gx - c'x  subject to  |x|_0 <= k`` from zero.

        x <- (G + rho I)^-1 (c + rho (z - u));   z <- keep the k largest of x + u;   u <- u + x - z

    The factorisation is made once. The set is not convex, so nothing promises convergence. Input that
    has overflowed gives NaN.
    """
    if not np.all(np.isfinite(gram)) or not np.all(np.isfinite(cross)):
        return SparseSplit(np.full_like(cross, np.nan), np.full_like(cross, np.nan))
    solve = _solver(gram + rho * np.eye(len(gram)))
    x = z = u = np.zeros_like(cross)
    for _ in range(max_iter):
        x = solve(cross + rho * (z - u))
        old, z = z, project_cardinality(x + u, k)
        u = u + x - z
        if np.linalg.norm(x - z) <= tol and rho * np.linalg.norm(old - z) <= tol:
            break
    return SparseSplit(x, z)


def _solver(matrix: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Solve with a symmetric matrix; where rounding has made it singular, in the least-squares sense."""
    try:
        factor = cho_factor(matrix)
    except np.linalg.LinAlgError:
        inverse = np.linalg.pinv(matrix, hermitian=True)
        return lambda right: inverse @ right
    return lambda right: cho_solve(factor, right)
