"""Cells of one column, on which kernels of that column are cubics or constants.

A cubic that meets a function f at the Chebyshev nodes of a cell of width h errs by at most ``h^4 max|f''''| / 3072``.
The fourth derivative of a Gaussian of width s is at most ``3 / s^4``, so h follows from the widths. Categories have a
cell for each code. The range of an axis is that of the instances with half as much on either side, whatever the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tamis.kernels.bank import Channel
from tamis.kernels.base import Categorical, Gaussian, Kernel, ScaledGaussian
from tamis.kernels.mixture import Mixture, Tensor

ERROR = 1.5e-7  # of a cubic, in units of the kernel
BEYOND = 60  # fewest cells on either side of the instances
CELLS = 1024  # most cells

NODES = 0.5 - 0.5 * np.cos(np.pi * (np.arange(4) + 0.5) / 4)  # of a cell [0, 1)
POWERS = np.linalg.inv(np.vander(NODES, increasing=True))  # from values at the nodes to coefficients of powers

Key = tuple[int, bool]  # a column, and whether it is one of codes


def widths(kernel: Kernel) -> tuple[float, ...] | None:
    """Widths of the Gaussians whose mean a kernel of one column is, () for one of codes; None: it has no cells."""
    if isinstance(kernel, Categorical):
        return ()
    if not isinstance(kernel, Gaussian | Mixture | ScaledGaussian):
        return None
    if any(kernel.mismatch):
        return ()
    if isinstance(kernel, ScaledGaussian):
        return (kernel.factors[0] ** -0.5,)
    return kernel.bandwidths if isinstance(kernel, Mixture) else (kernel.bandwidth,)


def factors(channel: Channel) -> list[tuple[Key, Kernel]]:
    """The one or two kernels of one column whose product a channel is; none if there is one without cells."""
    kernels = channel.kernel.kernels if isinstance(channel.kernel, Tensor) else (channel.kernel,)
    if len(kernels) != len(channel.columns) or len(kernels) > 2:
        return []
    spans = [widths(kernel) for kernel in kernels]
    if any(span is None for span in spans):
        return []
    return [((c, not span), kernel) for c, span, kernel in zip(channel.columns, spans, kernels, strict=True)]


@dataclass(frozen=True)
class Place:
    """Where values of a column stand.

    Attributes
    ----------
    cell : (n,) of its axis
    offset : (n,) in [0, 1) within the cell; None on an axis of codes
    beyond : whether there are numbers beyond the range
    """

    cell: np.ndarray
    offset: np.ndarray | None = None
    beyond: bool = False

    @cached_property
    def fourfold(self) -> np.ndarray | None:
        """The offsets as rows (n, 4) of four equal numbers."""
        return None if self.offset is None else np.repeat(self.offset, 4).reshape(-1, 4)


@dataclass(frozen=True)
class Numbers:
    """Equal cells from `low` on; behind them one for missing values, and one of zeros for what is beyond."""

    low: float
    step: float
    size: int

    powers = 4

    def find(self, z: np.ndarray) -> Place:
        u = z - self.low
        u *= 1.0 / self.step
        beyond = False
        if not (u.min() >= 0.0 and u.max() < self.size):  # also where a value is missing
            gaps, inside = np.isnan(u), (u >= 0.0) & (u < self.size)
            u = np.where(inside, u, np.where(gaps, float(self.size), self.size + 1.0))
            beyond = not np.all(inside | gaps)
        below = np.floor(u)
        u -= below
        return Place(below.astype(np.intp), u.astype(np.float32), beyond)

    def coefficients(self, kernel: Kernel, s: np.ndarray) -> np.ndarray:
        """Coefficients (size + 2, 4, k) of powers of the offset: the kernel with the values s (k,)."""
        nodes = self.step * (np.arange(self.size)[:, None] + NODES).ravel()
        values = kernel(nodes[:, None], (s - self.low)[:, None]).reshape(self.size, 4, len(s))  # by differences alone
        out = np.zeros((self.size + 2, 4, len(s)))
        out[: self.size] = POWERS @ values
        out[self.size, 0] = kernel(np.array([[np.nan]]), s[:, None])[0]
        return out

    def window(self, most: int, s: np.ndarray) -> np.ndarray:
        """The cells of at most `most` in a row around the values s, with the two behind."""
        first = 0
        if self.size > most:
            middle = (float(np.nanmedian(s)) - self.low) / self.step
            first = int(np.clip(middle - most // 2, 0, self.size - most))
        return np.r_[first : min(first + most, self.size), self.size, self.size + 1]


@dataclass(frozen=True)
class Codes:
    """One cell for each code from `first` on; behind them one for missing values, and one for all other codes."""

    first: int
    size: int

    powers = 1

    def find(self, z: np.ndarray) -> Place:
        u = z - self.first
        known = (u >= 0) & (u < self.size) & (u == np.floor(u))
        if not known.all():
            u = np.where(known, u, np.where(np.isnan(u), float(self.size), self.size + 1.0))
        return Place(u.astype(np.intp))

    def coefficients(self, kernel: Kernel, s: np.ndarray) -> np.ndarray:
        """Values (size + 2, 1, k) of the kernel with the codes s (k,)."""
        codes = self.first + np.arange(self.size, dtype=float)
        return kernel(np.r_[codes, np.nan, self.first - 1.0][:, None], s[:, None])[:, None, :]

    def window(self, most: int, s: np.ndarray) -> np.ndarray:
        """All cells."""
        return np.arange(self.size + 2)


Axis = Numbers | Codes


def make_axis(kernels: Sequence[Kernel], s: np.ndarray) -> Axis | None:
    """The axis for these kernels of numbers, or of codes, with the values s (k,); None for codes that are none."""
    known = s[~np.isnan(s)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    bends = [3.0 * np.mean(np.power(w, -4.0)) for kernel in kernels if (w := widths(kernel))]
    if not bends:
        whole = bool(np.all(known == np.floor(known))) and high - low < CELLS
        return Codes(int(low), int(high - low) + 1) if whole else None
    step = float((3072.0 * ERROR / max(bends)) ** 0.25)
    reach = max(0.5 * (high - low), BEYOND * step)
    size = np.ceil((high - low + 2.0 * reach) / step)
    if size <= CELLS:
        return Numbers(low - reach, step, int(size))
    return Numbers(float(np.median(known)) - 0.5 * CELLS * step, step, CELLS)
