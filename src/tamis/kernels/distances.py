"""Arithmetic on blocks of rows that kernels share: distances, products and missing cells."""

from __future__ import annotations

import numpy as np

from tamis.arrays import Array, device_of, namespace

LOST = 0.015  # roots of a rounding error that squared distances by products may lose, in widths of the kernel


def rows_with_cells(S: Array) -> Array:
    """Mask (m,) of the rows that have at least one of the columns."""
    xp = namespace(S)
    return ~xp.all(xp.isnan(S), axis=1)


def filled(S: Array) -> Array:
    """A block with zeros in place of missing cells."""
    xp = namespace(S)
    return xp.where(xp.isnan(S), xp.zeros_like(S), S)


def zero_absent(K: Array, S: Array, T: Array) -> Array:
    """Zero the rows and columns of absent samples, in place."""
    xp = namespace(K)
    for mask, axis in ((rows_with_cells(S), 0), (rows_with_cells(T), 1)):
        if not bool(xp.all(mask)):
            K *= xp.astype(mask, K.dtype)[:, None] if axis == 0 else xp.astype(mask, K.dtype)[None, :]
    return K


def each_difference(S: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Differences (c, m, n) of the rows in every column; a missing cell counts as zero."""
    s, t = filled(S).T, filled(T).T
    return np.stack([s, np.ones_like(s)], axis=2) @ np.stack([np.ones_like(t), -t], axis=1)  # BLAS beats broadcasting


def each_product(S: np.ndarray, T: np.ndarray, scale: float, offset: float) -> np.ndarray:
    """``scale s t + offset`` (c, m, n) of the rows in every column; a missing cell counts as zero."""
    s, t = filled(S).T, filled(T).T
    return np.stack([scale * s, np.ones_like(s)], axis=2) @ np.stack([t, np.full_like(t, offset)], axis=1)


def zero_each(values: np.ndarray, S: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Zero the values (c, m, n) of missing cells, in place."""
    for gaps, axis in ((np.isnan(S), 2), (np.isnan(T), 1)):
        if gaps.any():
            values *= np.expand_dims(~gaps.T, axis)
    return values


def zeros_between(S: Array, T: Array) -> Array:
    """Zeros (m, n) where the blocks are."""
    return namespace(S, T).zeros((S.shape[0], T.shape[0]), dtype=S.dtype, device=device_of(S))


def take_columns(S: Array, columns: list[int]) -> Array:
    """Some columns of a block."""
    xp = namespace(S)
    return xp.take(S, xp.asarray(columns, device=device_of(S)), axis=1)


def both_columns(S: Array, T: Array, columns: list[int]) -> tuple[Array, Array]:
    """Some columns of both blocks."""
    return take_columns(S, columns), take_columns(T, columns)


def squared_distance(S: Array, T: Array, mismatch: tuple[float, ...] = (), width: float = 1.0) -> Array:
    """Squared distances (m, n), as exact as a kernel of that width needs them (`is_far_off`).

    Column c adds ``mismatch[c]`` where codes differ if that is positive.
    """
    xp = namespace(S, T)
    nominal = [c for c, cost in enumerate(mismatch) if cost > 0]
    numeric = [c for c in range(S.shape[1]) if c not in nominal]
    if S.shape[1] == 1 and numeric:
        D = filled(S) - filled(T)[:, 0][None, :]
        D *= D
        return D
    D = zeros_between(S, T)
    if numeric:
        D = euclidean(*both_columns(S, T, numeric), width=width)
    for c in nominal:
        s, t = S[:, c][:, None], T[:, c][None, :]
        same = (s == t) | (xp.isnan(s) & xp.isnan(t))
        D += mismatch[c] * xp.astype(~same, D.dtype)
    return D


def euclidean(S: Array, T: Array, scale: Array | None = None, width: float = 1.0) -> Array:
    """Squared distances (m, n) of rows, in columns multiplied by `scale` (c,); a missing cell is one off any number.

    Of several columns they come from one product of matrices, which is quick and loses some sixteen digits of the
    largest square; where a kernel of that width would see it, from the differences in each column.
    """
    xp = namespace(S, T)
    A, B = filled(S), filled(T)
    if A.shape[1] == 1 or is_far_off(T if scale is None else T * scale[None, :], width):
        D = zeros_between(S, T)
        for c in range(A.shape[1]):
            each = A[:, c][:, None] - B[:, c][None, :]
            D += (each if scale is None else each * scale[c]) ** 2
    else:
        if scale is not None:
            A, B = A * scale[None, :], B * scale[None, :]
        squares = xp.sum(A * A, axis=1)
        D = squares[:, None] + xp.sum(B * B, axis=1)[None, :] - 2.0 * (A @ B.T)
        if not bool(xp.all(xp.isfinite(squares))):  # rows beyond all numbers are far from those of T, which are near
            D = xp.where(xp.isfinite(squares)[:, None], D, xp.full_like(D, xp.inf))
        D = xp.where(D > 0, D, xp.zeros_like(D))
    return _add_gaps(D, S, T, scale)


def _add_gaps(D: Array, S: Array, T: Array, scale: Array | None) -> Array:
    """Add one, times the square of `scale`, for every column that one of two rows lacks.

    Rows without missing cells get an exact zero, so that their distances do not depend on other rows of the block.
    """
    xp = namespace(D)
    s, t = (xp.astype(xp.isnan(part), D.dtype) for part in (S, T))
    if not bool(xp.any(s)) and not bool(xp.any(t)):
        return D
    costs = xp.ones_like(s[0, :]) if scale is None else scale * scale
    return D + ((s * costs[None, :]) @ (1.0 - t).T + ((1.0 - s) * costs[None, :]) @ t.T)


def is_far_off(T: Array, width: float) -> bool:
    """Whether rows lie so far from zero, in widths of a kernel, that distances by products lose digits that count.

    ``|s|^2 + |t|^2 - 2 s't`` errs by a rounding of |t|^2, where s is near t and the error counts. Missing cells are at
    zero.
    """
    if not T.shape[0]:
        return False
    xp, points = namespace(T), filled(T)
    return float(xp.max(xp.sum(points * points, axis=1))) > LOST * xp.finfo(T.dtype).eps ** -0.5 * width**2
