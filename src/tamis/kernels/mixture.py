"""Gaussians of several widths at once, and products of kernels of one column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np

from tamis.arrays import Array, namespace
from tamis.codec import stored
from tamis.kernels import portable
from tamis.kernels.base import (
    Kernel,
    _check_width,
    _each_difference,
    _squared_distance,
    _zero_absent,
    _zero_each,
    as_kernel,
)
from tamis.kernels.portable import Expression


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
            _check_width(bandwidth)

    def __call__(self, S: Array, T: Array) -> Array:
        return _zero_absent(self.profile(_squared_distance(S, T, self.mismatch, min(self.bandwidths))), S, T)

    def each(self, S: np.ndarray, T: np.ndarray) -> np.ndarray:
        if any(self.mismatch):
            return super().each(S, T)
        values = _each_difference(S, T)
        values *= values
        return _zero_each(self.profile(values), S, T)

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
