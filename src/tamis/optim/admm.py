"""ADMM for least squares under a cardinality constraint (scaled form)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tamis.prox import project_cardinality


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

    The factorisation is made once. The set is not convex, so nothing promises convergence.
    """
    factor = cho_factor(gram + rho * np.eye(len(gram)))
    x = z = u = np.zeros_like(cross)
    for _ in range(max_iter):
        x = cho_solve(factor, cross + rho * (z - u))
        old, z = z, project_cardinality(x + u, k)
        u = u + x - z
        if np.linalg.norm(x - z) <= tol and rho * np.linalg.norm(old - z) <= tol:
            break
    return SparseSplit(x, z)
