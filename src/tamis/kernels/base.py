"""Kernels on the encoded columns of a table.

A kernel maps two blocks of rows, S (m, c) and T (n, c), to the Gram matrix (m, n). NaN is a missing
cell. A row with none of the kernel's columns is *absent*: its kernel values are zero. In a group of
columns a missing cell counts as the column's mean (zero, once standardised), and for kernels of the distance
(Gaussian, Laplacian, Epanechnikov) also as one unit away from every observed cell, so that a positive definite
kernel stays one and two rows that lack the same cell agree on it.

A function that a user gives as a kernel is wrapped once, where it becomes a channel of a bank (`as_kernel`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.arrays import Array, device_of, namespace
from tamis.codec import stored
from tamis.kernels import portable
from tamis.kernels.portable import Expression, NotPortable, inverse_roots

DIAGONAL_ROWS = 64  # rows in one block when only its diagonal is wanted
MAX_LOST_ROOTS = 0.015  # roots of a rounding error that squared distances by products may lose, in widths of the kernel
UNDER_A_ROOT = 1e-4  # share of the width that counts where the root of a distance is taken


class Kernel(ABC):
    """A symmetric function of two rows, evaluated on blocks.

    A subclass defines ``__call__`` and declares what else is true of it; the defaults claim nothing. A row that does
    not have the kernel (`presence`) is zero with every row, itself included.
    """

    batched = False  # whether `each` is quicker than one call for each column
    fills_missing = False  # whether missing cells are treated as described above, so that of one column they give zero
    complete_only = False  # whether a row with any missing cell lacks it
    indicator = False  # whether of one column the value depends only on whether two codes are equal

    @abstractmethod
    def __call__(self, S: Array, T: Array) -> Array:
        """Gram matrix (m, n) between the rows of two blocks."""

    @property
    def positive(self) -> bool:
        """Whether it is positive semi-definite on any rows."""
        return False

    @property
    def unit(self) -> bool:
        """Whether every row that has the kernel is one with itself."""
        return False

    @property
    def any_library(self) -> bool:
        """Whether it takes arrays of any library, on any device; any other kernel gets arrays of numpy."""
        return False

    @property
    def positions(self) -> bool:
        """Whether rows are positions among items that it knows, in place of features."""
        return False

    @property
    def gaussian_bandwidth(self) -> float | None:
        """Of one column of numbers, the bandwidth of the Gaussian that it is; None for other kernels."""
        return None

    @property
    def tanh_scale(self) -> float | None:
        """Of one column, the scale of the products that it is the hyperbolic tangent of; None for other kernels."""
        return None

    @property
    def polynomial_degree(self) -> int | None:
        """Of one column, the degree of the polynomial that it is; None for other kernels."""
        return None

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Values (c, m, n) of c columns, each on its own."""
        return np.stack([self(S[:, [c]], T[:, [c]]) for c in range(S.shape[1])])

    def presence(self, S: Array) -> np.ndarray:
        """Mask (m,) of the rows that have the kernel: by default those with at least one of the columns."""
        return np.asarray(rows_with_cells(S), dtype=bool)

    def narrowed(self, T: Array) -> Kernel:
        """The same kernel for values with the rows T only: one that holds values drops the others."""
        return self

    def normalised(self) -> Kernel:
        """``k(s, t) / sqrt(k(s, s) k(t, t))``."""
        return Normalised(self)

    def portable(self, columns: tuple[int, ...]) -> Expression:
        """The kernel on some columns as a tree of arithmetic, from which all exports are written."""
        raise NotPortable(type(self))


def as_kernel(kernel: Any) -> Kernel:
    """A kernel as it is, or a function of two blocks of rows as a kernel."""
    return kernel if isinstance(kernel, Kernel) else Custom(kernel)


@stored
@dataclass(frozen=True)
class Custom(Kernel):
    """A function of two blocks of rows; its attribute `positive`, if any, declares it positive semi-definite."""

    function: Any

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"kernel={self.function!r} must be a function of two blocks of rows (S, T)")

    @property
    def positive(self) -> bool:
        return bool(getattr(self.function, "positive", False))

    def __call__(self, S: Array, T: Array) -> Array:
        return self.function(S, T)

    def portable(self, columns: tuple[int, ...]) -> Expression:
        raise NotPortable(type(self.function))


@stored
@dataclass(frozen=True)
class Normalised(Kernel):
    """A kernel scaled to unit norm, ``k(s, t) / sqrt(k(s, s) k(t, t))``; a row of norm zero stays zero."""

    kernel: Kernel

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))

    @property
    def positive(self) -> bool:
        return self.kernel.positive

    @property
    def positions(self) -> bool:
        return self.kernel.positions

    def __call__(self, S: Array, T: Array) -> Array:
        left = inverse_roots(diagonal(self.kernel, S))
        right = left if S is T else inverse_roots(diagonal(self.kernel, T))
        return np.asarray(self.kernel(S, T)) * left[:, None] * right[None, :]

    def presence(self, S: Array) -> np.ndarray:
        return self.kernel.presence(S)

    def portable(self, columns: tuple[int, ...]) -> Expression:
        return portable.normalised(self.kernel.portable(columns))


def diagonal(kernel: Callable[[Array, Array], Array], S: np.ndarray) -> np.ndarray:
    """k(s, s) for every row."""
    blocks = [S[start : start + DIAGONAL_ROWS] for start in range(0, len(S), DIAGONAL_ROWS)]
    return np.concatenate([np.empty(0), *(np.diagonal(np.asarray(kernel(block, block))) for block in blocks)])


def is_by_position(source: Any) -> bool:
    """Whether the parameter `kernels` is a recipe or bank that reads rows as positions among items that it knows."""
    return bool(getattr(source, "positions", False))


def check_bandwidth(bandwidth: float) -> None:
    """Raise where a bandwidth is not positive or not of moderate size."""
    if not 1e-100 < bandwidth < 1e100:
        raise ValueError(f"bandwidth={bandwidth!r} must be a positive number of moderate size")


def _rates(columns: tuple[int, ...], rate: float) -> tuple[float, ...]:
    return (rate,) * len(columns)


@stored
@dataclass(frozen=True)
class Gaussian(Kernel):
    """``exp(-|s - t|^2 / (2 bandwidth^2))``.

    ``mismatch[c] > 0`` marks column c as a category whose codes, when they differ, add that much to
    the squared distance.
    """

    bandwidth: float = 1.0
    mismatch: tuple[float, ...] = ()

    any_library = True
    fills_missing = True
    batched = True
    positive = True
    unit = True

    def __post_init__(self) -> None:
        check_bandwidth(self.bandwidth)

    def __call__(self, S: Array, T: Array) -> Array:
        D = squared_distance(S, T, self.mismatch, self.bandwidth)
        D *= -0.5 / self.bandwidth**2
        return zero_absent(namespace(D).exp(D), S, T)

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        if any(self.mismatch):
            return super().each(S, T)
        values = each_difference(S, T)
        values *= values
        values *= -0.5 / self.bandwidth**2
        return zero_each(np.exp(values, out=values), S, T)

    @property
    def gaussian_bandwidth(self) -> float | None:
        return None if any(self.mismatch) else self.bandwidth

    def portable(self, columns: tuple[int, ...]) -> Expression:
        rates = _rates(columns, 0.5 / self.bandwidth**2)
        return portable.decay(1.0, portable.distance(columns, rates, self.mismatch))


@stored
@dataclass(frozen=True)
class Laplacian(Kernel):
    """``exp(-|s - t|_2 / bandwidth)``."""

    bandwidth: float = 1.0

    any_library = True
    fills_missing = True
    batched = True
    positive = True
    unit = True

    def __post_init__(self) -> None:
        check_bandwidth(self.bandwidth)

    def __call__(self, S: Array, T: Array) -> Array:
        xp = namespace(S, T)
        K = xp.exp(xp.sqrt(squared_distance(S, T, width=UNDER_A_ROOT * self.bandwidth)) * (-1.0 / self.bandwidth))
        return zero_absent(K, S, T)

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        values = each_difference(S, T)
        np.abs(values, out=values)
        values *= -1.0 / self.bandwidth
        return zero_each(np.exp(values, out=values), S, T)

    def portable(self, columns: tuple[int, ...]) -> Expression:
        squares = portable.distance(columns, _rates(columns, self.bandwidth**-2.0))
        return portable.decay(1.0, portable.function("root", squares))


@stored
@dataclass(frozen=True)
class Epanechnikov(Kernel):
    """``max(0, 1 - |s - t|^2 / bandwidth^2)``: zero beyond the bandwidth; not positive definite in general."""

    bandwidth: float = 1.0

    any_library = True
    fills_missing = True
    batched = True

    def __post_init__(self) -> None:
        check_bandwidth(self.bandwidth)

    def __call__(self, S: Array, T: Array) -> Array:
        K = 1.0 - squared_distance(S, T, width=self.bandwidth) * (1.0 / self.bandwidth**2)
        return zero_absent(namespace(K).where(K > 0, K, namespace(K).zeros_like(K)), S, T)

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        values = each_difference(S, T)
        values *= values
        values *= -1.0 / self.bandwidth**2
        values += 1.0
        return zero_each(np.maximum(values, 0.0, out=values), S, T)

    def portable(self, columns: tuple[int, ...]) -> Expression:
        return portable.function("ramp", portable.distance(columns, _rates(columns, self.bandwidth**-2.0)))


@stored
@dataclass(frozen=True)
class Polynomial(Kernel):
    """``(s't + offset)^degree``; the linear kernel is ``Polynomial(1, 0.0)``."""

    degree: int = 2
    offset: float = 1.0

    any_library = True
    fills_missing = True
    batched = True

    @property
    def positive(self) -> bool:
        return self.offset >= 0 and self.degree == int(self.degree) and self.degree >= 0

    def __call__(self, S: Array, T: Array) -> Array:
        return zero_absent((filled(S) @ filled(T).T + self.offset) ** self.degree, S, T)

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        values = each_product(S, T, 1.0, self.offset)
        values **= self.degree
        return zero_each(values, S, T)

    @property
    def polynomial_degree(self) -> int | None:
        return self.degree

    def portable(self, columns: tuple[int, ...]) -> Expression:
        inner = portable.product(columns, 1.0, self.offset)
        return inner if self.degree == 1 else portable.function("power", inner, self.degree)


@stored
@dataclass(frozen=True)
class Sigmoid(Kernel):
    """``tanh(scale s't - offset)``; not positive definite in general."""

    scale: float = 1.0
    offset: float = 0.0

    any_library = True
    fills_missing = True
    batched = True

    def __call__(self, S: Array, T: Array) -> Array:
        xp = namespace(S, T)
        return zero_absent(xp.tanh(self.scale * (filled(S) @ filled(T).T) - self.offset), S, T)

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        values = each_product(S, T, self.scale, -self.offset)
        return zero_each(np.tanh(values, out=values), S, T)

    @property
    def tanh_scale(self) -> float | None:
        return self.scale

    def portable(self, columns: tuple[int, ...]) -> Expression:
        return portable.function("tanh", portable.product(columns, self.scale, -self.offset))


@stored
@dataclass(frozen=True)
class Categorical(Kernel):
    """Share of the columns on which two rows have the same code; a missing cell agrees with nothing."""

    any_library = True
    fills_missing = True
    batched = True
    indicator = True
    positive = True

    def __call__(self, S: Array, T: Array) -> Array:
        xp = namespace(S, T)
        K = zeros_between(S, T)
        for c in range(S.shape[1]):
            K += xp.astype(S[:, c][:, None] == T[:, c][None, :], K.dtype)
        return K / S.shape[1]

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        return (S.T[:, :, None] == T.T[:, None, :]).astype(S.dtype)

    def portable(self, columns: tuple[int, ...]) -> Expression:
        return portable.agreement(columns)


# ---------------------------------------------------------------------- distances and missing cells


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
    return float(xp.max(xp.sum(points * points, axis=1))) > MAX_LOST_ROOTS * xp.finfo(T.dtype).eps ** -0.5 * width**2
