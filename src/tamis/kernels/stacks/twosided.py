"""A sigmoid kernel of one column as a short symmetric sum: ``k(s, t) ~ psi(s)' diag(scale) psi(t)``.

Interpolation in both arguments at p Chebyshev nodes of [low, high] gives ``phi(s)' C phi(t)`` with the polynomials
phi = (T_0 .. T_(p - 1)) and a matrix C that no row enters: columns of similar range share it, and its eigenvectors
of eigenvalues that matter make psi shorter than phi.

Bound. ``|tanh(x + iy)|^2 = (cosh 2x - cos 2y) / (cosh 2x + cos 2y) <= max(1, tan(Y)^2)`` for |y| <= Y < pi / 2. For s
and the foci in a range of half-width h, t in the ellipse of half axes summing to rho has an imaginary part of at most
``h (rho - 1/rho) / 2``, so ``Y = |scale| max|s| h (rho - 1/rho) / 2`` stays clear of the poles and one interpolation
errs by at most ``e = 4 M rho^(1 - p) / (rho - 1)``, M = max(1, tan Y) [Trefethen2013, Thm. 8.2]. The second
one adds e times the norm of the first, ``1 + 2/pi log p``. Eigenvalues of at most d that are left out add p d, because
|phi|^2 <= p.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from tamis.kernels.base import Kernel
from tamis.kernels.stacks.chebyshev import RHO, Chebyshev, polynomials

ACCURACY = 1e-10  # error of the interpolation that is aimed at
NEGLIGIBLE = 1e-11  # error by eigenvalues that are left out
STEPS = 4  # ranges are widened to powers of 2 ** (1 / STEPS), so that columns share a form
MOST = 256  # polynomials


@dataclass(frozen=True)
class TwoSided:
    """The short sum of one kernel on [low, high]; it vanishes where a cell is missing."""

    kernel: Kernel
    low: float
    high: float
    degrees: int

    @cached_property
    def _parts(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Scale (r,), mixture (p, r) of the polynomials, and what the left out eigenvalues may add to the error."""
        basis = Chebyshev(self.low, self.high, self.degrees)
        nodes = basis.nodes.reshape(-1, 1)
        C = basis.transform.T @ self.kernel(nodes, nodes) @ basis.transform
        values, vectors = np.linalg.eigh(0.5 * (C + C.T))
        size = self.degrees * np.abs(values)
        kept = size > NEGLIGIBLE
        return values[kept], np.ascontiguousarray(vectors[:, kept]), float(np.max(size[~kept], initial=0.0))

    mirrored: ClassVar[bool] = True

    @property
    def size(self) -> int:
        return self.degrees

    @property
    def middle(self) -> np.ndarray:
        """scale (r,)."""
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
    """Numbers rounded up to powers of ``2 ** (1 / STEPS)``, so that few different ones are left; zero if negative."""
    positive = values > 0
    steps = np.ceil(STEPS * np.log2(np.where(positive, values, 1.0)))
    return np.where(positive, 2.0 ** (steps / STEPS), 0.0)


@lru_cache(maxsize=512)
def two_sided(kernel: Kernel, low: float, high: float) -> TwoSided | None:
    """The form of a sigmoid on a range, with the polynomials that its bound asks for; None if those are too many."""
    if kernel.tanh_scale is None or not high > low:
        return None
    needed = _log_error(kernel.tanh_scale, low, high, MOST) + (MOST - 1) * np.log(RHO) - np.log(ACCURACY)
    degrees = np.ceil(1.0 + np.min(needed / np.log(RHO)))
    return TwoSided(kernel, low, high, int(max(degrees, 2))) if degrees <= MOST else None
