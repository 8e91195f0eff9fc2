"""A kernel of one column as a short sum: ``k(s, t) ~ a(s)' phi(t)`` with few functions phi on a bounded range.

A Gaussian of one standardised feature is a polynomial of low degree to working accuracy, so the
functions are Chebyshev polynomials; where a column takes few values they are indicators of these
values, and the sum is exact for every kernel. `a(s)` is found by evaluating the kernel at the nodes.

For a function analytic in the ellipse with foci -1, 1 and half axes summing to rho, bounded there by M,
interpolation at p Chebyshev nodes errs by at most ``4 M rho^(1 - p) / (rho - 1)`` [Trefethen2013, Thm. 8.2].
A Gaussian of width sigma on a range of half-width h has ``M = exp((h b / sigma)^2 / 2)`` with
``b = (rho - 1/rho) / 2``, wherever it is centred.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from tamis.codec import stored
from tamis.kernels.base import Kernel

SIZES = (12, 64)  # fewest and most polynomials of one panel
MOST_PANELS = 1000
RHO = 1.0 + np.geomspace(1e-3, 1e3, 2000)  # ellipses tried for the error bound


class Basis(Protocol):
    """Functions of one encoded column; they vanish where the cell is missing."""

    @property
    def size(self) -> int: ...

    def features(self, z: np.ndarray) -> np.ndarray:
        """Values (size, n) at z (n,)."""
        ...

    def coefficients(self, kernel: Kernel, s: np.ndarray) -> np.ndarray:
        """a(s) of shape (k, size)."""
        ...

    def error_bound(self, kernel: Kernel) -> float:
        """Bound of |k(s, t) - a(s)' phi(t)| over the range, rounding apart; infinite where none is known."""
        ...

    def resolves(self, kernel: Kernel) -> bool:
        """Whether the basis is as large as the rule for this kernel asks."""
        ...


@stored
@dataclass(frozen=True)
class Chebyshev:
    """T_0 .. T_(degrees - 1) on each of `panels` equal parts of [low, high]; values beyond are clipped."""

    low: float
    high: float
    degrees: int
    panels: int = 1

    @property
    def size(self) -> int:
        return self.degrees * self.panels

    @property
    def width(self) -> float:
        """Width of one panel."""
        return (self.high - self.low) / self.panels

    @cached_property
    def nodes(self) -> np.ndarray:
        """Interpolation nodes (panels, degrees) in units of the column."""
        t = np.cos(np.pi * (np.arange(self.degrees) + 0.5) / self.degrees)
        return self.low + self.width * (np.arange(self.panels)[:, None] + 0.5 * (t + 1.0))

    @cached_property
    def transform(self) -> np.ndarray:
        """Values at the nodes of a panel times this (degrees, degrees) are Chebyshev coefficients."""
        k, p = np.arange(self.degrees), self.degrees
        cosines = np.cos(np.pi * np.outer(k + 0.5, k) / p) * (2.0 / p)
        cosines[:, 0] *= 0.5
        return cosines

    def local(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Panel and position in [-1, 1] within it; a missing cell stands at the lower end."""
        if not self.high > self.low:
            return np.zeros(len(z), dtype=int), np.zeros(len(z))
        place = np.clip((np.nan_to_num(z, nan=self.low) - self.low) / self.width, 0.0, self.panels)
        panel = np.minimum(place.astype(int), self.panels - 1)
        return panel, 2.0 * (place - panel) - 1.0

    def features(self, z: np.ndarray) -> np.ndarray:
        panel, t = self.local(z)
        values = polynomials(t, self.degrees)
        values *= ~np.isnan(z)
        if self.panels == 1:
            return values
        out = np.zeros((self.panels, self.degrees, len(z)))
        out[panel, :, np.arange(len(z))] = values.T
        return out.reshape(self.size, len(z))

    def coefficients(self, kernel: Kernel, s: np.ndarray) -> np.ndarray:
        values = kernel(s[:, None], self.nodes.reshape(-1, 1))
        return (values.reshape(len(s), self.panels, self.degrees) @ self.transform).reshape(len(s), -1)

    def error_bound(self, kernel: Kernel) -> float:
        if kernel.polynomial_degree is not None:
            return 0.0 if kernel.polynomial_degree < self.degrees else np.inf
        if kernel.gaussian_bandwidth is None:
            return np.inf
        half = 0.5 * self.width / kernel.gaussian_bandwidth
        growth = 0.5 * (0.5 * half * (RHO - 1.0 / RHO)) ** 2
        return float(np.exp(np.min(np.log(4.0 / (RHO - 1.0)) + growth - (self.degrees - 1) * np.log(RHO))))

    def resolves(self, kernel: Kernel) -> bool:
        needed = degrees_needed(kernel, self.width)
        return needed is not None and needed <= self.degrees


@stored
@dataclass(frozen=True)
class Levels:
    """Indicators of a few values. A number counts as the nearest value; a category code must be equal."""

    values: tuple[float, ...]
    nearest: bool

    @property
    def size(self) -> int:
        return len(self.values)

    def features(self, z: np.ndarray) -> np.ndarray:
        values = np.array(self.values)
        if self.nearest:
            middle = 0.5 * (values[1:] + values[:-1])
            z = np.where(np.isnan(z), np.nan, values[np.searchsorted(middle, z).clip(0, len(values) - 1)])
        return (z == values[:, None]).astype(float)

    def coefficients(self, kernel: Kernel, s: np.ndarray) -> np.ndarray:
        return kernel(s[:, None], np.array(self.values)[:, None])

    def error_bound(self, kernel: Kernel) -> float:
        return 0.0

    def resolves(self, kernel: Kernel) -> bool:
        return True


def polynomials(t: np.ndarray, degrees: int) -> np.ndarray:
    """T_0 .. T_(degrees - 1) at t (n,) in [-1, 1], as rows."""
    out = np.empty((degrees, len(t)))
    out[0] = 1.0
    if degrees > 1:
        out[1] = t
    twice = 2.0 * t
    for k in range(2, degrees):
        np.multiply(twice, out[k - 1], out=out[k])
        out[k] -= out[k - 2]
    return out


def degrees_needed(kernel: Kernel, width: float) -> int | None:
    """Polynomials that a kernel needs on a range, ``8 + 1.6 width / bandwidth``; None if unknown."""
    if kernel.polynomial_degree is not None:
        return max(SIZES[0], kernel.polynomial_degree + 1)
    if kernel.gaussian_bandwidth is not None:
        with np.errstate(over="ignore"):
            return int(max(SIZES[0], min(np.ceil(8.0 + 1.6 * width / kernel.gaussian_bandwidth), 1e9)))
    return None


def chebyshev(kernel: Kernel, low: float, high: float) -> Chebyshev | None:
    """The basis that the rule gives: one panel if 64 polynomials are enough, else as few as need be.

    None where no rule is known, or a kernel is too narrow for its range.
    """
    degrees = degrees_needed(kernel, high - low)
    if degrees is None:
        return None
    if kernel.polynomial_degree is not None or degrees <= SIZES[1]:
        return Chebyshev(low, high, degrees)
    panels = np.ceil((degrees - 8) / (SIZES[1] - 8))
    if panels > MOST_PANELS:
        return None
    return Chebyshev(low, high, degrees_needed(kernel, (high - low) / panels) or SIZES[1], int(panels))
