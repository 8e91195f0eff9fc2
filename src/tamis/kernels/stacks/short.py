"""Many short sums at once: ``K_l = left_l' diag(middle) right_l`` with few rows each, for kernels of one form.

Factors of c kernels have the shape (r, c, n): polynomials are made by a recurrence over whole rows of it, and
the kernels' factors one below the other, (r c, n), are one matrix for BLAS.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from tamis.kernels.base import Kernel
from tamis.kernels.stacks.batches import Batches, alike
from tamis.kernels.stacks.chebyshev import Basis, Chebyshev, polynomials
from tamis.kernels.stacks.twosided import TwoSided


class Form(Protocol):
    """What kernels of one form have in common; factors are those of columns Z (n, c) with ranges `spans` (2, c)."""

    @property
    def size(self) -> int:
        """Numbers of one cell that are in memory at once."""
        ...

    @property
    def middle(self) -> np.ndarray:
        """The diagonal between the factors (r,)."""
        ...

    @property
    def mirrored(self) -> bool:
        """Whether both factors of a column are the same."""
        ...

    def left(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        """Left factors (r, c, n)."""
        ...

    def right(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        """Right factors (r, c, n)."""
        ...


@dataclass(frozen=True)
class Interpolated:
    """Equal kernels with so many polynomials on one panel: features on the left, coefficients on the right."""

    kernel: Any
    size: int

    mirrored: ClassVar[bool] = False

    @property
    def middle(self) -> np.ndarray:
        return np.ones(self.size)

    @cached_property
    def unit(self) -> Chebyshev:
        return Chebyshev(0.0, 1.0, self.size)

    def left(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        low, high = spans[:, :, None]
        gaps = np.isnan(Z.T)
        t = np.clip((np.where(gaps, low, Z.T) - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
        t = np.where(high > low, 2.0 * t - 1.0, 0.0)
        values = polynomials(t.ravel(), self.size).reshape(self.size, *t.shape)
        values *= ~gaps
        return values

    def right(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        nodes = spans[0] + (spans[1] - spans[0]) * self.unit.nodes.T
        return np.tensordot(self.unit.transform, self.kernel.each(nodes, Z), axes=(0, 1))


@dataclass(frozen=True, eq=False)
class Single:
    """One kernel with functions of another kind."""

    kernel: Kernel
    basis: Basis

    mirrored: ClassVar[bool] = False

    @property
    def size(self) -> int:
        return self.basis.size

    @property
    def middle(self) -> np.ndarray:
        return np.ones(self.size)

    def left(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        return self.basis.features(Z[:, 0])[:, None, :]

    def right(self, Z: np.ndarray, spans: np.ndarray) -> np.ndarray:
        return self.basis.coefficients(self.kernel, Z[:, 0]).T[:, None, :]


def short_forms(channels: Sequence[Any], bases: Sequence[Basis | TwoSided | None]) -> tuple[Batches, np.ndarray]:
    """Kernels of one column by their form, and their ranges (2, L); a kernel without a basis is alone."""
    forms: dict[tuple, Interpolated] = {}
    keys: list[Hashable | None] = []
    for channel, basis in zip(channels, bases, strict=True):
        kernel = channel.kernel
        if basis is None or isinstance(basis, TwoSided):
            keys.append(basis)
        elif isinstance(basis, Chebyshev) and basis.panels == 1 and kernel.batched:
            keys.append(forms.setdefault((kernel, basis.degrees), Interpolated(kernel, basis.degrees)))
        else:
            keys.append(Single(kernel, basis))
    spans = np.array([(basis.low, basis.high) if isinstance(basis, Chebyshev) else (0.0, 0.0) for basis in bases])
    return alike(keys, [channel.columns[0] for channel in channels]), spans.reshape(-1, 2).T
