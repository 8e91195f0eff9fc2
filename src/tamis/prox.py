"""Projections and proximal operators: pure functions of arrays."""

from __future__ import annotations

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
