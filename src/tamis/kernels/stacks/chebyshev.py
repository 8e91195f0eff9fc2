"""A kernel of one column as a short sum of functions on a bounded range.

**One-sided**, ``k(s, t) ~ a(s)' phi(t)`` (`Basis`). A Gaussian of one standardised feature is a polynomial of low
degree to working accuracy, so the functions are Chebyshev polynomials; where a column takes few values they are
indicators of these values, and the sum is exact for every kernel. `a(s)` is found by evaluating the kernel at the
nodes.

For a function analytic in the ellipse with foci -1, 1 and half axes summing to rho, bounded there by M,
interpolation at p Chebyshev nodes errs by at most ``4 M rho^(1 - p) / (rho - 1)`` [Trefethen2013, Thm. 8.2].
A Gaussian of width sigma on a range of half-width h has ``M = exp((h b / sigma)^2 / 2)`` with
``b = (rho - 1/rho) / 2``, wherever it is centred.

**Two-sided and symmetric**, ``k(s, t) ~ psi(s)' diag(scale) psi(t)``, for sigmoids (`TwoSided`). Interpolation in
both arguments at p Chebyshev nodes of [low, high] gives ``phi(s)' C phi(t)`` with the polynomials phi = (T_0 .. T_(p
- 1)) and a matrix C that no row enters: columns of similar range share it, and its eigenvectors of eigenvalues that
matter make psi shorter than phi.

Bound. ``|tanh(x + iy)|^2 = (cosh 2x - cos 2y) / (cosh 2x + cos 2y) <= max(1, tan(Y)^2)`` for |y| <= Y < pi / 2. For s
and the foci in a range of half-width h, t in the ellipse of half axes summing to rho has an imaginary part of at most
``h (rho - 1/rho) / 2``, so ``Y = |scale| max|s| h (rho - 1/rho) / 2`` stays clear of the poles and one interpolation
errs by at most ``e = 4 M rho^(1 - p) / (rho - 1)``, M = max(1, tan Y) [Trefethen2013, Thm. 8.2]. The second one adds
e times the norm of the first, ``1 + 2/pi log p``. Eigenvalues of at most d that are left out add p d, because |phi|^2
<= p.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from tamis.codec import stored
from tamis.kernels.base import Kernel

SIZES = (12, 64)  # fewest and most polynomials of one panel
MAX_PANELS = 1000
RHO = 1.0 + np.geomspace(1e-3, 1e3, 2000)  # ellipses tried for the error bound
INTERPOLATION_TOL = 1e-10  # error of a two-sided interpolation that is aimed at
EIGENVALUE_TOL = 1e-11  # its error by eigenvalues that are left out
STEPS_PER_OCTAVE = 4  # its ranges are widened to powers of 2 ** (1 / STEPS_PER_OCTAVE), so that columns share a form
MAX_DEGREES = 256  # its polynomials


class Form(ABC):
    """What the short sums ``left' diag(middle) right`` of kernels on different columns have in common.

    Factors are those of columns Z (n, c) with ranges `spans` (2, c), and have the shape (r, c, n): polynomials are made
    by a recurrence over whole rows of it, and one below the other, (r c, n), they are one matrix for BLAS.
    """

    mirrored = False  # whether both factors of a column are the same

    @property
    @abstractmethod
    def size(self) -> int:
        """Numbers of one cell that are in memory at once."""

    @property
    def middle(self) -> np.ndarray:
        """The diagonal between the factors (r,)."""
        return np.ones(self.size)

    @abstractmethod
    def left(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        """Left factors (r, c, n)."""

    @abstractmethod
    def right(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        """Right factors (r, c, n)."""


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
    def span(self) -> tuple[float, float]:
        return self.low, self.high

    def form(self, kernel: Kernel) -> Form:
        """The short sums of a kernel; equal for columns of the same length of sum."""
        return Interpolated(kernel, self.degrees) if self.panels == 1 and kernel.batched else Single(kernel, self)

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
        """phi(z) (size, n) for z (n,); zero where the cell is missing."""
        panel, t = self.local(z)
        values = polynomials(t, self.degrees)
        values *= ~np.isnan(z)
        if self.panels == 1:
            return values
        out = np.zeros((self.panels, self.degrees, len(z)))
        out[panel, :, np.arange(len(z))] = values.T
        return out.reshape(self.size, len(z))

    def coefficients(self, kernel: Kernel, s: np.ndarray) -> np.ndarray:
        """a(s) of shape (k, size)."""
        values = kernel(s[:, None], self.nodes.reshape(-1, 1))
        return (values.reshape(len(s), self.panels, self.degrees) @ self.transform).reshape(len(s), -1)

    def error_bound(self, kernel: Kernel) -> float:
        """Bound of |k(s, t) - a(s)' phi(t)| over the range, rounding apart; infinite where none is known."""
        if kernel.polynomial_degree is not None:
            return 0.0 if kernel.polynomial_degree < self.degrees else np.inf
        if kernel.gaussian_bandwidth is None:
            return np.inf
        half = 0.5 * self.width / kernel.gaussian_bandwidth
        growth = 0.5 * (0.5 * half * (RHO - 1.0 / RHO)) ** 2
        return float(np.exp(np.min(np.log(4.0 / (RHO - 1.0)) + growth - (self.degrees - 1) * np.log(RHO))))

    def resolves(self, kernel: Kernel) -> bool:
        """Whether the basis is as large as the rule for this kernel requires."""
        needed = degrees_needed(kernel, self.width)
        return needed is not None and needed <= self.degrees


@stored
@dataclass(frozen=True)
class Levels:
    """Indicators of a few values. A number counts as the nearest value; a category code must be equal."""

    values: tuple[float, ...]
    nearest: bool

    span = (0.0, 0.0)

    @property
    def size(self) -> int:
        return len(self.values)

    def form(self, kernel: Kernel) -> Form:
        return Single(kernel, self)

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


Basis = Chebyshev | Levels  # functions of one encoded column, with the same methods


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
    if panels > MAX_PANELS:
        return None
    return Chebyshev(low, high, degrees_needed(kernel, (high - low) / panels) or SIZES[1], int(panels))


# ---------------------------------------------------------------------- forms of short sums


@dataclass(frozen=True)
class Interpolated(Form):
    """Equal kernels with so many polynomials on one panel: features on the left, coefficients on the right."""

    kernel: Kernel
    degrees: int

    @property
    def size(self) -> int:
        return self.degrees

    @cached_property
    def unit(self) -> Chebyshev:
        return Chebyshev(0.0, 1.0, self.degrees)

    def left(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        low, high = spans[:, :, None]
        gaps = np.isnan(Z.T)
        t = np.clip((np.where(gaps, low, Z.T) - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
        t = np.where(high > low, 2.0 * t - 1.0, 0.0)
        values = polynomials(t.ravel(), self.degrees).reshape(self.degrees, *t.shape)
        values *= ~gaps
        return values

    def right(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        nodes = spans[0] + (spans[1] - spans[0]) * self.unit.nodes.T
        return np.tensordot(self.unit.transform, self.kernel.each(nodes, Z), axes=(0, 1))


@dataclass(frozen=True, eq=False)
class Single(Form):
    """One kernel with functions of another kind."""

    kernel: Kernel
    basis: Basis

    @property
    def size(self) -> int:
        return self.basis.size

    def left(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        return self.basis.features(Z[:, 0])[:, None, :]

    def right(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        return self.basis.coefficients(self.kernel, Z[:, 0]).T[:, None, :]


@dataclass(frozen=True)
class TwoSided(Form):
    """The short sum of one kernel on [low, high]; it vanishes where a cell is missing."""

    kernel: Kernel
    low: float
    high: float
    degrees: int

    mirrored = True
    span = (0.0, 0.0)

    def form(self, kernel: Kernel) -> Form:
        return self

    @cached_property
    def _parts(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Scale (r,), mixture (p, r) of the polynomials, and what the left out eigenvalues may add to the error."""
        basis = Chebyshev(self.low, self.high, self.degrees)
        nodes = basis.nodes.reshape(-1, 1)
        C = basis.transform.T @ self.kernel(nodes, nodes) @ basis.transform
        values, vectors = np.linalg.eigh(0.5 * (C + C.T))
        size = self.degrees * np.abs(values)
        kept = size > EIGENVALUE_TOL
        return values[kept], np.ascontiguousarray(vectors[:, kept]), float(np.max(size[~kept], initial=0.0))

    @property
    def size(self) -> int:
        return self.degrees

    @property
    def middle(self) -> np.ndarray:
        return self._parts[0]

    def error_bound(self, kernel: Kernel) -> float:
        """The error, of the one kernel that the form is for."""
        return self.error

    @cached_property
    def error(self) -> float:
        """Bound of the difference to the kernel for s and t in the range, rounding apart."""
        bounds = _log_error(self.kernel.tanh_scale or 0.0, self.low, self.high, self.degrees)
        return float(np.exp(np.min(bounds))) + self._parts[2]

    def left(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        """psi of every cell of the columns Z (n, c), as (r, c, n)."""
        mix = self._parts[1]
        gaps = np.isnan(Z.T)
        t = np.where(gaps, 0.0, Z.T)
        t -= 0.5 * (self.low + self.high)
        t *= 2.0 / (self.high - self.low)
        values = (mix.T @ polynomials(t.ravel(), self.degrees)).reshape(mix.shape[1], *t.shape)
        if gaps.any():
            values *= ~gaps
        return values

    right = left


def _log_error(scale: float, low: float, high: float, degrees: int | np.ndarray) -> np.ndarray:
    """Logarithm of the bound of the interpolation error for every ellipse; infinite where it meets a pole."""
    far, half = max(abs(low), abs(high)), 0.5 * (high - low)
    height = abs(scale) * far * half * 0.5 * (RHO - 1.0 / RHO)
    clear = height < 0.5 * np.pi
    largest = np.log(np.maximum(1.0, np.tan(np.where(clear, height, 0.0))))
    norms = np.log(2.0 + 2.0 / np.pi * np.log(degrees))
    return np.where(clear, np.log(4.0 / (RHO - 1.0)) + largest + norms - (degrees - 1) * np.log(RHO), np.inf)


def widened(values: np.ndarray) -> np.ndarray:
    """Numbers rounded up to powers of ``2 ** (1 / STEPS_PER_OCTAVE)``, so that few differ; zero if negative."""
    positive = values > 0
    steps = np.ceil(STEPS_PER_OCTAVE * np.log2(np.where(positive, values, 1.0)))
    return np.where(positive, 2.0 ** (steps / STEPS_PER_OCTAVE), 0.0)


@lru_cache(maxsize=512)
def two_sided(kernel: Kernel, low: float, high: float) -> TwoSided | None:
    """The form of a sigmoid on a range, with the polynomials that its bound requires; None if those are too many."""
    if kernel.tanh_scale is None or not high > low:
        return None
    most = _log_error(kernel.tanh_scale, low, high, MAX_DEGREES)
    needed = most + (MAX_DEGREES - 1) * np.log(RHO) - np.log(INTERPOLATION_TOL)
    degrees = np.ceil(1.0 + np.min(needed / np.log(RHO)))
    return TwoSided(kernel, low, high, int(max(degrees, 2))) if degrees <= MAX_DEGREES else None
