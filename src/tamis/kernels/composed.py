"""Kernels made of kernels: several widths at once, products over columns, and complete rows only; banks of them.

A product, like a channel that a row has whole or not at all (`Whole`), is zero with every row where a cell is missing,
while the other kernels of several columns fill a missing cell in (`kernels.base`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from tamis.arrays import Array, namespace
from tamis.codec import stored
from tamis.kernels import portable
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Kernel, as_kernel, check_bandwidth, diagonal
from tamis.kernels.distances import each_difference, squared_distance, zero_absent, zero_each
from tamis.kernels.portable import Expression

ROUNDING = 1e-9  # difference to one that counts as rounding


@stored
@dataclass(frozen=True)
class Mixture(Kernel):
    """Mean over widths h of ``exp(-|s - t|^2 / (2 h^2))``: sees coarse and fine at once.

    Distances are those of `Gaussian`. Widths whose squares divide one another, such as 3, 1 and 1/3, cost one
    exponential.
    """

    bandwidths: tuple[float, ...]
    mismatch: tuple[float, ...] = ()

    any_library = True
    fills_missing = True
    batched = True
    positive = True
    unit = True

    def __post_init__(self) -> None:
        if not self.bandwidths:
            raise ValueError("bandwidths=() is empty: give at least one width")
        for bandwidth in self.bandwidths:
            check_bandwidth(bandwidth)

    def __call__(self, S: Array, T: Array) -> Array:
        return zero_absent(self.profile(squared_distance(S, T, self.mismatch, min(self.bandwidths))), S, T)

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        if any(self.mismatch):
            return super().each(S, T)
        values = each_difference(S, T)
        values *= values
        return zero_each(self.profile(values), S, T)

    def profile(self, D: Array) -> Array:
        """The mean over the widths at squared distances, from the widest down, in the precision of these."""
        xp = namespace(D)
        widths = sorted(self.bandwidths, reverse=True)
        last = xp.exp(D * (-0.5 / widths[0] ** 2))
        total = last * 1.0
        for wide, narrow in pairwise(widths):
            ratio = (wide / narrow) ** 2
            whole = round(ratio)
            exact = whole <= 16 and abs(ratio - whole) <= 1e-12 * ratio
            last = _power(last, whole) if exact else xp.exp(D * (-0.5 / narrow**2))
            total += last
        total *= 1.0 / len(widths)
        return total

    def portable(self, columns: tuple[int, ...]) -> Expression:
        widest = max(self.bandwidths)
        squares = portable.distance(columns, (0.5 / widest**2,) * len(columns), self.mismatch)
        ratios = sorted((widest / width) ** 2 for width in self.bandwidths)
        total = Expression("sum", (), tuple(portable.decay(ratio, squares) for ratio in ratios))
        return portable.times(total, portable.constant(1.0 / len(ratios)))


def _power(base: Array, exponent: int) -> Array:
    """``base ** exponent`` of a positive whole number by repeated squaring."""
    out = None
    while exponent:
        if exponent & 1:
            out = base if out is None else out * base
        exponent >>= 1
        base = base * base if exponent else base
    return out


@stored
@dataclass(frozen=True)
class Tensor(Kernel):
    """Product over the columns of one kernel for each: large where two rows agree on all of them.

    A row that lacks one of the columns is absent.
    """

    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", tuple(map(as_kernel, self.kernels)))

    @property
    def any_library(self) -> bool:
        return all(kernel.any_library for kernel in self.kernels)

    @property
    def positive(self) -> bool:
        return all(kernel.positive for kernel in self.kernels)

    @property
    def unit(self) -> bool:
        return all(kernel.unit for kernel in self.kernels)

    def __call__(self, S: Array, T: Array) -> Array:
        parts = [kernel(S[:, c : c + 1], T[:, c : c + 1]) for c, kernel in enumerate(self.kernels)]
        return reduce(lambda K, L: K * L, parts)

    def presence(self, S: Array) -> np.ndarray:
        """Mask (m,) of the rows that have all the columns."""
        masks = [kernel.presence(S[:, [c]]) for c, kernel in enumerate(self.kernels)]
        return np.all(masks, axis=0)

    def portable(self, columns: tuple[int, ...]) -> Expression:
        return portable.times(*(one.portable((c,)) for one, c in zip(self.kernels, columns, strict=True)))


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
    return KernelBank(tuple(_whole(channel) for channel in bank.channels))


def _whole(channel: Channel) -> Channel:
    kernel = channel.kernel
    of_one = len(channel.columns) == 1 and kernel.fills_missing
    return channel if of_one or kernel.positions or kernel.complete_only else replace(channel, kernel=Whole(kernel))


# ---------------------------------------------------------------------- banks


def unit_bank(bank: KernelBank, Z: np.ndarray) -> tuple[KernelBank, list[str]]:
    """The bank with kernels of unit diagonal on the rows Z (zero where absent), and the names of those it scaled."""
    channels, scaled = [], []
    for channel in bank.channels:
        new = channel if channel.kernel.unit else _unit(channel, Z)
        channels.append(new)
        scaled += [] if new is channel else [channel.name]
    return KernelBank(tuple(channels)) if scaled else bank, scaled


def _unit(channel: Channel, Z: np.ndarray) -> Channel:
    own = diagonal(channel.kernel, Z[:, list(channel.columns)])
    if np.all((np.abs(own - 1.0) <= ROUNDING) | (own == 0.0)):
        return channel
    if own.min() < 0:
        raise ValueError(
            f"kernels: {channel.name!r} is not positive semi-definite: k(x, x) is {own.min():.3g} for a training row; "
            "use another kernel, or repair it with repaired(...)"
        )
    return replace(channel, kernel=channel.kernel.normalised())
