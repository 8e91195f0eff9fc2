"""Kernels on the encoded columns of a table.

A kernel maps two blocks of rows, S (m, c) and T (n, c), to the Gram matrix (m, n). NaN is a missing
cell. A row with none of the kernel's columns is *absent*: its kernel values are zero. In a group of
columns a missing cell counts as the column's mean (zero, once standardised), and for kernels of the distance
(Gaussian, Laplacian, Epanechnikov) also as one unit away from every observed cell, so that a positive definite
kernel stays one and two rows that lack the same cell agree on it.

``each(S, T)`` takes every column on its own: values (c, m, n) of c kernels of one column, in a handful of passes over
one block of numpy values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from tamis.arrays import Array, device_of, namespace
from tamis.codec import stored

LOST = 0.015  # roots of a rounding error that squared distances by products may lose, in widths of the kernel
UNDER_A_ROOT = 1e-4  # share of the width that counts where the root of a distance is taken


class Kernel(Protocol):
    """A symmetric function of two rows, evaluated on blocks.

    A kernel with a true attribute `positive` is positive semi-definite on any rows; one with a true attribute `unit`
    is one between a row and itself, unless the row is absent. One that holds values
    of training rows has a method ``narrowed(T)``: the same kernel for the columns T only. One with a method
    ``each(S, T)`` gives the values (c, m, n) of c columns, each on its own, as c calls with one column would. One with
    a method ``normalised()`` knows itself how it is scaled to `unit`. One with a method ``presence(S)`` says itself
    which rows (m,) are there; without it those are that have at least one of the columns. A row that is not there is
    zero with every row, itself included. One with a true attribute `portable` takes arrays of any library, on any
    device, and gives values of the same kind; any other gets arrays of numpy.
    """

    def __call__(self, S: Array, T: Array) -> Array: ...


def is_positive(kernel: Any) -> bool:
    """Whether a kernel says that it is positive semi-definite on any rows."""
    return bool(getattr(kernel, "positive", False))


def has_unit_norms(kernel: Any) -> bool:
    """Whether a kernel says that it is one for every row with itself."""
    return bool(getattr(kernel, "unit", False))


def is_portable(kernel: Any) -> bool:
    """Whether a kernel says that it takes arrays of any library."""
    return bool(getattr(kernel, "portable", False))


def is_by_position(kernels: Any) -> bool:
    """Whether a kernel, or a recipe, reads rows as positions among items that it knows."""
    return bool(getattr(kernels, "positions", False))


def _check_width(bandwidth: float) -> None:
    if not 1e-100 < bandwidth < 1e100:
        raise ValueError(f"bandwidth={bandwidth!r} must be a positive number of moderate size")


def _present(S: Array) -> Array:
    """Mask (m,) of the rows that have at least one of the columns."""
    xp = namespace(S)
    return ~xp.all(xp.isnan(S), axis=1)


def presence_of(kernel: Kernel, S: Array) -> np.ndarray:
    """Mask (m,) of the rows that are there for a kernel, by its own rule or that of all kernels."""
    own = getattr(kernel, "presence", None)
    return np.asarray(_present(S) if own is None else own(S), dtype=bool)


def presence_mask(present: Any, names: Sequence[str], n: int) -> np.ndarray:
    """Boolean (n, L) from a mask in any of its forms: which of n rows have which of L channels.

    Parameters
    ----------
    present : (n, L) of booleans, or zeros and ones; (n,) if there is one channel; a dict or DataFrame from names to
        (n,), where a channel that is not named is present everywhere; None for all
    names : of the L channels
    """
    mask = np.ones((n, len(names)), dtype=bool)
    if present is None:
        return mask
    if hasattr(present, "columns"):
        present = {column: present[column] for column in present.columns}
    if not isinstance(present, Mapping):
        alone = len(names) == 1 and np.ndim(present) == 1
        mask[:] = _flags(present, "present", (n,) if alone else mask.shape).reshape(mask.shape)
        return mask
    for name, values in present.items():
        if str(name) not in names:
            raise ValueError(f"present names {name!r}, which is no channel: the channels are {list(names)}")
        mask[:, list(names).index(str(name))] = _flags(values, f"present[{name!r}]", (n,))
    return mask


def _flags(values: Any, what: str, shape: tuple[int, ...]) -> np.ndarray:
    flags = np.asarray(values)
    if flags.shape != shape:
        meaning = (
            "one entry for each row" if len(shape) == 1 else "one row for each row and one column for each channel"
        )
        raise ValueError(f"{what} has the shape {flags.shape}: it must have {shape}, {meaning}")
    if flags.dtype == object and all(isinstance(flag, bool | np.bool_) for flag in flags.flat):
        flags = flags.astype(bool)
    if flags.dtype.kind not in "biuf" or not np.isin(flags, (0, 1)).all():
        raise ValueError(f"{what} holds other values than True and False: give booleans, True where a channel is there")
    return flags.astype(bool)


def _fill(S: Array) -> Array:
    xp = namespace(S)
    return xp.where(xp.isnan(S), xp.zeros_like(S), S)


def _zero_absent(K: Array, S: Array, T: Array) -> Array:
    """Zero the rows and columns of absent samples, in place."""
    xp = namespace(K)
    for mask, axis in ((_present(S), 0), (_present(T), 1)):
        if not bool(xp.all(mask)):
            K *= xp.astype(mask, K.dtype)[:, None] if axis == 0 else xp.astype(mask, K.dtype)[None, :]
    return K


def _each_difference(S: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Differences (c, m, n) of the rows in every column; a missing cell counts as zero."""
    s, t = _fill(S).T, _fill(T).T
    return np.stack([s, np.ones_like(s)], axis=2) @ np.stack([np.ones_like(t), -t], axis=1)  # BLAS beats broadcasting


def _each_product(S: np.ndarray, T: np.ndarray, scale: float, offset: float) -> np.ndarray:
    """``scale s t + offset`` (c, m, n) of the rows in every column; a missing cell counts as zero."""
    s, t = _fill(S).T, _fill(T).T
    return np.stack([scale * s, np.ones_like(s)], axis=2) @ np.stack([t, np.full_like(t, offset)], axis=1)


def _zero_each(values: np.ndarray, S: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Zero the values (c, m, n) of missing cells, in place."""
    for gaps, axis in ((np.isnan(S), 2), (np.isnan(T), 1)):
        if gaps.any():
            values *= np.expand_dims(~gaps.T, axis)
    return values


def _zeros(S: Array, T: Array) -> Array:
    """Zeros (m, n) where the blocks are."""
    return namespace(S, T).zeros((S.shape[0], T.shape[0]), dtype=S.dtype, device=device_of(S))


def _columns(S: Array, columns: list[int]) -> Array:
    """Some columns of a block."""
    xp = namespace(S)
    return xp.take(S, xp.asarray(columns, device=device_of(S)), axis=1)


def _both(S: Array, T: Array, columns: list[int]) -> tuple[Array, Array]:
    """Some columns of both blocks."""
    return _columns(S, columns), _columns(T, columns)


def _squared_distance(S: Array, T: Array, mismatch: tuple[float, ...] = (), width: float = 1.0) -> Array:
    """Squared distances (m, n), as exact as a kernel of that width needs them (`is_far_off`).

    Column c adds ``mismatch[c]`` where codes differ if that is positive.
    """
    xp = namespace(S, T)
    nominal = [c for c, cost in enumerate(mismatch) if cost > 0]
    numeric = [c for c in range(S.shape[1]) if c not in nominal]
    if S.shape[1] == 1 and numeric:
        D = _fill(S) - _fill(T)[:, 0][None, :]
        D *= D
        return D
    D = _zeros(S, T)
    if numeric:
        D = euclidean(*_both(S, T, numeric), width=width)
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
    A, B = _fill(S), _fill(T)
    if A.shape[1] == 1 or is_far_off(T if scale is None else T * scale[None, :], width):
        D = _zeros(S, T)
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
    xp, filled = namespace(T), _fill(T)
    return float(xp.max(xp.sum(filled * filled, axis=1))) > LOST * xp.finfo(T.dtype).eps ** -0.5 * width**2


@stored
@dataclass(frozen=True)
class Gaussian:
    """``exp(-|s - t|^2 / (2 bandwidth^2))``.

    ``mismatch[c] > 0`` marks column c as a category whose codes, when they differ, add that much to
    the squared distance.
    """

    bandwidth: float = 1.0
    mismatch: tuple[float, ...] = ()

    portable: ClassVar[bool] = True
    positive: ClassVar[bool] = True
    unit: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_width(self.bandwidth)

    def __call__(self, S: Array, T: Array) -> Array:
        D = _squared_distance(S, T, self.mismatch, self.bandwidth)
        D *= -0.5 / self.bandwidth**2
        return _zero_absent(namespace(D).exp(D), S, T)

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Values (c, m, n) of the columns, each on its own."""
        if any(self.mismatch):
            return np.stack([self(S[:, [c]], T[:, [c]]) for c in range(S.shape[1])])
        values = _each_difference(S, T)
        values *= values
        values *= -0.5 / self.bandwidth**2
        return _zero_each(np.exp(values, out=values), S, T)


@stored
@dataclass(frozen=True)
class Laplacian:
    """``exp(-|s - t|_2 / bandwidth)``."""

    bandwidth: float = 1.0

    portable: ClassVar[bool] = True
    positive: ClassVar[bool] = True
    unit: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_width(self.bandwidth)

    def __call__(self, S: Array, T: Array) -> Array:
        xp = namespace(S, T)
        K = xp.exp(xp.sqrt(_squared_distance(S, T, width=UNDER_A_ROOT * self.bandwidth)) * (-1.0 / self.bandwidth))
        return _zero_absent(K, S, T)

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Values (c, m, n) of the columns, each on its own."""
        values = _each_difference(S, T)
        np.abs(values, out=values)
        values *= -1.0 / self.bandwidth
        return _zero_each(np.exp(values, out=values), S, T)


@stored
@dataclass(frozen=True)
class Epanechnikov:
    """``max(0, 1 - |s - t|^2 / bandwidth^2)``: zero beyond the bandwidth; not positive definite in general."""

    bandwidth: float = 1.0

    portable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_width(self.bandwidth)

    def __call__(self, S: Array, T: Array) -> Array:
        K = 1.0 - _squared_distance(S, T, width=self.bandwidth) * (1.0 / self.bandwidth**2)
        return _zero_absent(namespace(K).where(K > 0, K, namespace(K).zeros_like(K)), S, T)

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Values (c, m, n) of the columns, each on its own."""
        values = _each_difference(S, T)
        values *= values
        values *= -1.0 / self.bandwidth**2
        values += 1.0
        return _zero_each(np.maximum(values, 0.0, out=values), S, T)


@stored
@dataclass(frozen=True)
class Polynomial:
    """``(s't + offset)^degree``; the linear kernel is ``Polynomial(1, 0.0)``."""

    degree: int = 2
    offset: float = 1.0

    portable: ClassVar[bool] = True

    @property
    def positive(self) -> bool:
        """Whether it is positive semi-definite on any rows."""
        return self.offset >= 0 and self.degree == int(self.degree) and self.degree >= 0

    def __call__(self, S: Array, T: Array) -> Array:
        return _zero_absent((_fill(S) @ _fill(T).T + self.offset) ** self.degree, S, T)

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Values (c, m, n) of the columns, each on its own."""
        values = _each_product(S, T, 1.0, self.offset)
        values **= self.degree
        return _zero_each(values, S, T)


@stored
@dataclass(frozen=True)
class Sigmoid:
    """``tanh(scale s't - offset)``; not positive definite in general."""

    scale: float = 1.0
    offset: float = 0.0

    portable: ClassVar[bool] = True

    def __call__(self, S: Array, T: Array) -> Array:
        xp = namespace(S, T)
        return _zero_absent(xp.tanh(self.scale * (_fill(S) @ _fill(T).T) - self.offset), S, T)

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Values (c, m, n) of the columns, each on its own."""
        values = _each_product(S, T, self.scale, -self.offset)
        return _zero_each(np.tanh(values, out=values), S, T)


@stored
@dataclass(frozen=True)
class Categorical:
    """Share of the columns on which two rows have the same code; a missing cell agrees with nothing."""

    portable: ClassVar[bool] = True
    positive: ClassVar[bool] = True

    def __call__(self, S: Array, T: Array) -> Array:
        xp = namespace(S, T)
        K = _zeros(S, T)
        for c in range(S.shape[1]):
            K += xp.astype(S[:, c][:, None] == T[:, c][None, :], K.dtype)
        return K / S.shape[1]

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Values (c, m, n) of the columns, each on its own."""
        return (S.T[:, :, None] == T.T[:, None, :]).astype(S.dtype)


@stored
@dataclass(frozen=True)
class ScaledGaussian:
    """``exp(-1/2 sum_c factors[c] d_c(s, t))`` with d_c the squared distance in column c.

    Distances are those of `Gaussian`, which this is where every factor is ``1 / bandwidth^2``: one unit between a
    missing cell and an observed one, ``mismatch[c] > 0`` between different codes of a category. Columns of factor
    zero count for nothing: a row that has only such columns is absent.
    """

    factors: tuple[float, ...]
    mismatch: tuple[float, ...] = ()

    portable: ClassVar[bool] = True
    positive: ClassVar[bool] = True
    unit: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not any(factor > 0 for factor in self.factors) or any(not factor >= 0 for factor in self.factors):
            raise ValueError(f"factors={self.factors} must be zero or more, and one of them positive")

    def __call__(self, S: Array, T: Array) -> Array:
        xp = namespace(S, T)
        kept = [c for c, factor in enumerate(self.factors) if factor > 0]
        nominal = [c for c in kept if c < len(self.mismatch) and self.mismatch[c] > 0]
        numeric = [c for c in kept if c not in nominal]
        D = _zeros(S, T)
        if numeric:
            roots = xp.asarray([self.factors[c] ** 0.5 for c in numeric], dtype=S.dtype, device=device_of(S))
            D += euclidean(*_both(S, T, numeric), roots)
        if nominal:
            D += _squared_distance(*_both(S, T, nominal), tuple(self.factors[c] * self.mismatch[c] for c in nominal))
        D *= -0.5
        return _zero_absent(xp.exp(D), *_both(S, T, kept))

    def presence(self, S: Array) -> Array:
        """Mask (m,) of the rows that have a column that counts."""
        kept = [c for c, factor in enumerate(self.factors) if factor > 0]
        return _present(_columns(S, kept))
