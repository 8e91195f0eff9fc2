"""Kernels of several columns: a factor for each column, and complete rows only.

A channel that a row has whole or not at all (`Whole`) is zero with every row where a cell is missing, while the other
kernels of several columns fill a missing cell in (`kernels.base`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tamis.arrays import Array, device_of, namespace
from tamis.codec import stored
from tamis.kernels import portable
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import (
    Kernel,
    as_kernel,
    both_columns,
    euclidean,
    squared_distance,
    take_columns,
    zero_absent,
    zeros_between,
)
from tamis.kernels.portable import Expression


@stored
@dataclass(frozen=True)
class ScaledGaussian(Kernel):
    """``exp(-1/2 sum_c factors[c] d_c(s, t))`` with d_c the squared distance in column c.

    Distances are those of `Gaussian`, which this is where every factor is ``1 / bandwidth^2``: one unit between a
    missing cell and an observed one, ``mismatch[c] > 0`` between different codes of a category. Columns of factor
    zero count for nothing: a row that has only such columns is absent.
    """

    factors: tuple[float, ...]
    mismatch: tuple[float, ...] = ()

    any_library = True
    fills_missing = True
    positive = True
    unit = True

    def __post_init__(self) -> None:
        if not any(factor > 0 for factor in self.factors) or any(not factor >= 0 for factor in self.factors):
            raise ValueError(f"factors={self.factors} must be zero or more, and one of them positive")

    def __call__(self, S: Array, T: Array) -> Array:
        xp = namespace(S, T)
        kept = [c for c, factor in enumerate(self.factors) if factor > 0]
        nominal = [c for c in kept if c < len(self.mismatch) and self.mismatch[c] > 0]
        numeric = [c for c in kept if c not in nominal]
        D = zeros_between(S, T)
        if numeric:
            roots = xp.asarray([self.factors[c] ** 0.5 for c in numeric], dtype=S.dtype, device=device_of(S))
            D += euclidean(*both_columns(S, T, numeric), roots)
        if nominal:
            costs = tuple(self.factors[c] * self.mismatch[c] for c in nominal)
            D += squared_distance(*both_columns(S, T, nominal), costs)
        D *= -0.5
        return zero_absent(xp.exp(D), *both_columns(S, T, kept))

    def presence(self, S: Array) -> np.ndarray:
        """Mask (m,) of the rows that have a column that counts."""
        kept = [c for c, factor in enumerate(self.factors) if factor > 0]
        return super().presence(take_columns(S, kept))

    def portable(self, columns: tuple[int, ...]) -> Expression:
        rates = tuple(0.5 * factor for factor in self.factors)
        return portable.decay(1.0, portable.distance(columns, rates, self.mismatch))


@stored
@dataclass(frozen=True)
class Whole(Kernel):
    """A kernel between complete rows; zero for a row with a missing cell."""

    kernel: Kernel

    complete_only = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))

    @property
    def any_library(self) -> bool:
        return self.kernel.any_library

    @property
    def positive(self) -> bool:
        return self.kernel.positive

    @property
    def unit(self) -> bool:
        return self.kernel.unit

    def __call__(self, S: Array, T: Array) -> Array:
        if not isinstance(S, np.ndarray):
            return self._by_masks(S, T)
        rows, columns = _complete(S), _complete(T)
        if rows.all() and columns.all():
            return self.kernel(S, T)
        out = np.zeros((len(rows), len(columns)))
        if rows.any() and columns.any():
            found = np.asarray(self.kernel(S[rows], T[columns]))
            shape = (int(np.count_nonzero(rows)), int(np.count_nonzero(columns)))
            if found.shape != shape:
                raise ValueError(f"the kernel {self.kernel!r} gives the shape {found.shape}: it must give {shape}")
            out = out.astype(found.dtype)
            out[np.ix_(rows, columns)] = found
        return out

    def _by_masks(self, S: Array, T: Array) -> Array:
        """The same on a device, where computing too much is quicker than choosing rows."""
        xp, gaps = namespace(S, T), (namespace(S).isnan(S), namespace(T).isnan(T))
        filled = (xp.where(gap, xp.zeros_like(Z), Z) for gap, Z in zip(gaps, (S, T), strict=True))
        K = self.kernel(*filled)
        rows, columns = (xp.astype(~xp.any(gap, axis=1), K.dtype) for gap in gaps)
        return K * rows[:, None] * columns[None, :]

    def presence(self, S: Array) -> np.ndarray:
        """Mask (m,) of the rows without a missing cell that are there for the kernel below."""
        mask = _complete(S)
        mask[mask] = self.kernel.presence(S[mask])
        return mask

    def narrowed(self, T: Array) -> Whole:
        return Whole(self.kernel.narrowed(T[_complete(T)]))

    def normalised(self) -> Whole:
        """``k(s, t) / sqrt(k(s, s) k(t, t))`` between complete rows."""
        return Whole(self.kernel.normalised())

    def portable(self, columns: tuple[int, ...]) -> Expression:
        return portable.complete(columns, self.kernel.portable(columns))


def _complete(S: Array) -> np.ndarray:
    """Mask (m,) of the rows without a missing cell."""
    return ~np.isnan(np.asarray(S, dtype=float)).any(axis=1)


def whole_bank(bank: KernelBank) -> KernelBank:
    """The bank with channels that a row has whole or not at all.

    Kernels that are so already stay as they are: those of one column that are zero without its cell, and those of
    positions. Any other function, of one column too, then meets complete rows only.
    """

    def whole(channel: Channel) -> Channel:
        kernel = channel.kernel
        of_one = len(channel.columns) == 1 and kernel.fills_missing
        return channel if of_one or kernel.positions or kernel.complete_only else replace(channel, kernel=Whole(kernel))

    return KernelBank(tuple(map(whole, bank.channels)))
