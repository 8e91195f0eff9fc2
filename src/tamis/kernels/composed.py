"""Kernels of several columns or widths, and the channels that are made of them for a model people can look at.

Several widths at once, a factor for each column, products over columns, and complete rows only.
A product, like a channel that a row has whole or not at all (`Whole`), is zero with every row where a cell is missing,
while the other kernels of several columns fill a missing cell in (`kernels.base`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from tamis.arrays import Array, device_of, namespace
from tamis.codec import stored
from tamis.kernels import portable
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import (
    Categorical,
    Gaussian,
    Kernel,
    as_kernel,
    both_columns,
    check_bandwidth,
    each_difference,
    euclidean,
    squared_distance,
    take_columns,
    zero_absent,
    zero_each,
    zeros_between,
)
from tamis.kernels.portable import Expression
from tamis.kernels.recipes import Sample
from tamis.kernels.stacks.base import DenseStack

SIMILAR = "similar cases"  # the name of what all kept features say together
LINE = 6.0  # width of a kernel that is nearly linear over standardised values
WIDTHS = (3.0, 1.0, 1.0 / 3.0)  # of shapes
CASES = (2.0**0.5, 0.5**0.5)  # of the similarity of cases, times the root of the number of features


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


# ---------------------------------------------------------------------- channels of a readable model


@dataclass(frozen=True)
class Terms:
    """The channels of a model on some columns.

    Attributes
    ----------
    bank : shapes, then the similarity of cases, then lines, then pairs
    kinds : positions of the channels of each kind; the shape of a category serves as its line too
    factors : {position of a pair: positions of the two shapes whose product it is}
    """

    bank: KernelBank
    kinds: dict[str, np.ndarray]
    factors: dict[int, tuple[int, int]]

    def values(self, Z: np.ndarray, instances: np.ndarray, channels: np.ndarray | None = None) -> np.ndarray:
        """Values (L, k, n) between instances and rows, of all or some channels; pairs as products of shapes."""
        wanted = np.arange(len(self.bank)) if channels is None else channels
        place = {int(channel): p for p, channel in enumerate(wanted)}
        pairs = {p: self.factors.get(c, (-1, -1)) for c, p in place.items()}
        made = {p: (place[a], place[b]) for p, (a, b) in pairs.items() if a in place and b in place}
        plain = [p for p in range(len(wanted)) if p not in made]
        out = np.empty((len(wanted), len(instances), len(Z)))
        if plain:
            out[plain] = DenseStack.evaluate(self.bank.take(wanted[plain]).channels, Z, instances).values
        for p, (a, b) in made.items():
            np.multiply(out[a], out[b], out=out[p])
        return out


def terms(sample: Sample, columns: Sequence[int], pairs: Sequence[tuple[int, int]] = ()) -> Terms:
    """Make the channels for some columns of a table, and for some pairs of them."""
    numbers = [place for place, c in enumerate(columns) if not sample.nominal[c]]
    codes = [place for place, c in enumerate(columns) if sample.nominal[c]]
    channels = [Channel(sample.names[c], _shape(sample, c), (c,)) for c in columns]
    channels += [_similarity(sample, columns)] if columns else []
    channels += [Channel(f"{sample.names[columns[p]]} (line)", Gaussian(LINE), (columns[p],)) for p in numbers]
    channels += [
        Channel(f"{sample.names[a]} * {sample.names[b]}", Tensor((_shape(sample, a), _shape(sample, b))), (a, b))
        for a, b in pairs
    ]
    f, last = len(columns), len(channels) - len(pairs)
    kinds = {
        "shape": np.arange(f),
        "cases": np.arange(f, min(f + 1, last)),
        "line": np.r_[np.arange(f + 1, last), np.array(codes, dtype=int)],
        "pair": np.arange(last, len(channels)),
    }
    place = {c: p for p, c in enumerate(columns)}
    factors = {int(p): (place[a], place[b]) for p, (a, b) in zip(kinds["pair"], pairs, strict=True)}
    return Terms(KernelBank(_renamed(channels)), kinds, factors)


def _shape(sample: Sample, column: int) -> Kernel:
    """What a column adds on its own, coarse and fine."""
    return Categorical() if sample.nominal[column] else Mixture(WIDTHS)


def _similarity(sample: Sample, columns: Sequence[int]) -> Channel:
    """How similar two rows are in all the columns."""
    members = list(columns)
    widths = tuple(float(width * np.sqrt(len(members))) for width in CASES)
    return Channel(SIMILAR, Mixture(widths, tuple(sample.mismatch[members].tolist())), tuple(members))


def _renamed(channels: Sequence[Channel]) -> tuple[Channel, ...]:
    """The same channels with distinct names: columns may be named like what is made of them."""
    taken: set[str] = set()
    out = []
    for channel in channels:
        name = channel.name
        while name in taken:
            name += "'"
        taken.add(name)
        out.append(replace(channel, name=name))
    return tuple(out)
