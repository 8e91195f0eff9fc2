"""Projections and proximal operators: pure functions of arrays; and an ADMM that is made of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tamis.arrays import Array, namespace


def project_cardinality(v: Array, k: int) -> Array:
    """Project onto the vectors with at most `k` non-zero entries (rows, if `v` is a matrix).

    Solves ``argmin_x |x - v|^2  subject to  |{i : x_i != 0}| <= k``: keep the `k` entries of
    largest modulus (rows of largest 2-norm) and zero the others.

    Parameters
    ----------
    v : array of shape (p,) or (p, q)
    k : int, at least 0

    Returns
    -------
    array of the same shape and dtype.

    Notes
    -----
    The projection is exact; where several minimisers exist the lowest indices are kept.
    """
    xp = namespace(v)
    size = v * v if v.ndim == 1 else xp.sum(v * v, axis=1)
    order = xp.argsort(-size, stable=True)
    keep = xp.zeros(v.shape[0], dtype=xp.bool)
    keep[order[:k]] = True
    mask = keep if v.ndim == 1 else keep[:, None]
    return xp.where(mask, v, xp.zeros_like(v))


def project_simplex(v: Array, total: float = 1.0) -> Array:
    """Project a vector onto ``{x >= 0, sum x = total}`` in the Euclidean norm, ``total > 0``.

    The projection is ``max(v - shift, 0)`` with the shift that makes the sum right.
    """
    xp = namespace(v)
    falling = xp.sort(v, descending=True)
    shifts = (xp.cumulative_sum(falling) - total) / xp.arange(1, v.shape[0] + 1, dtype=v.dtype)
    size = int(xp.sum(xp.astype(falling > shifts, xp.int64)))
    return xp.where(v > shifts[size - 1], v - shifts[size - 1], xp.zeros_like(v))


def project_sparse_simplex(v: Array, k: int, total: float = 1.0) -> Array:
    """Project a vector onto ``{x >= 0, sum x = total, |{i : x_i != 0}| <= k}``, ``k >= 1`` and ``total > 0``.

    Keep the `k` largest entries and project them onto the simplex [Kyrillidis2013]; among equal ones the lowest
    indices are kept.
    """
    xp = namespace(v)
    keep = xp.zeros(v.shape[0], dtype=xp.bool)
    keep[xp.argsort(-v, stable=True)[:k]] = True
    return project_simplex(xp.where(keep, v, xp.full_like(v, -xp.inf)), total)


def prox_l1(v: Array, step: Array) -> Array:
    """Soft threshold, ``argmin_x step |x| + 1/2 (x - v)^2`` for each entry, ``step >= 0``."""
    xp = namespace(v)
    return xp.where(v > step, v - step, xp.where(v < -step, v + step, xp.zeros_like(v)))


def prox_hinge(v: Array, step: Array) -> Array:
    """Proximal operator of the hinge loss, ``argmin_x step max(0, 1 - x) + 1/2 (x - v)^2`` for each entry.

    `v` where that is at least one, ``v + step`` where that is at most one, and exactly one between.
    """
    xp = namespace(v)
    return xp.where(v >= 1.0, v, xp.where(v + step <= 1.0, v + step, xp.ones_like(v)))


def prox_zero_one(v: Array, cost: Array) -> Array:
    """Proximal operator of the step loss, ``argmin_u cost [u > 0] + 1/2 (u - v)^2`` for each entry.

    ``0`` where ``0 < v <= sqrt(2 cost)``, else `v`; where both are minimisers, ``0`` [Zhu2023, Eq. 32].
    """
    xp = namespace(v)
    return xp.where((v > 0) & (v * v <= 2.0 * cost), xp.zeros_like(v), v)


# ---------------------------------------------------------------------- ADMM


@dataclass(frozen=True)
class SparseSplit:
    """The two copies of the variable: `dense` solves the ridge system, `sparse` has at most k rows."""

    dense: np.ndarray
    sparse: np.ndarray


def sparse_least_squares(
    gram: np.ndarray, cross: np.ndarray, k: int, *, rho: float, tol: float = 1e-4, max_iter: int = 100
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
