"""KernelExpansion: what every method ends in, and the additive splits of its decision.

f_q(x) = sum_j sum_l coef[q, j, l] k_l(x_j, x) + intercept[q]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from tamis.arrays import Array
from tamis.codec import stored
from tamis.kernels.bank import KernelBank

BLOCK = 1 << 20  # most numbers of one block of contributions
BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Coefficients:
    """What a method returns: coefficients of pairs (instance, kernel) of a stack.

    Attributes
    ----------
    instances : (k,) columns of the stack
    kernels : (f,) kernels of the stack
    coef : (q, k, f)
    intercept : (q,)
    """

    instances: np.ndarray
    kernels: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray

    @classmethod
    def rank_one(cls, dual_coef: np.ndarray, weights: np.ndarray, intercept: float) -> Coefficients:
        """The pairs of one output, ``dual_coef[i] * weights[l]``, where neither factor is zero."""
        instances, kernels = np.flatnonzero(dual_coef), np.flatnonzero(weights)
        coef = np.outer(dual_coef[instances], weights[kernels])[None]
        return cls(instances, kernels, coef, np.array([intercept]))


@stored
@dataclass(frozen=True)
class KernelExpansion:
    """Kept instances, kept kernels and their coefficients.

    A method whose coefficients depend on the row subclasses this, sets `row_dependent` and overrides
    `coefficients`; decisions and contributions follow.

    Attributes
    ----------
    bank : the kept kernels, on the columns of `instances`
    instances : (k, c) encoded kept rows
    coef : (q, k, L)
    intercept : (q,)
    """

    bank: KernelBank
    instances: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray

    row_dependent: ClassVar[bool] = False

    def coefficients(self, values: Array) -> Array:
        """Coefficients, broadcast to (rows, q, k, L), of rows with kernel values (L, rows, k)."""
        return self.coef[None]

    def kernel_values(self, Z: Array) -> Array:
        """Kernel values (L, rows, k) of encoded rows."""
        values = np.empty((len(self.bank), len(Z), len(self.instances)))
        for value, channel in zip(values, self.bank.channels, strict=True):
            value[:] = channel(Z, self.instances)
        return values

    def decision(self, Z: Array) -> Array:
        """Decision values (rows, q), in blocks of rows."""
        out = np.tile(self.intercept, (len(Z), 1)).astype(float)
        for rows in self._blocks(len(Z), BLOCK_ROWS):
            if self.row_dependent:
                values = self.kernel_values(Z[rows])
                out[rows] += np.einsum("rqkl,lrk->rq", self.coefficients(values), values)
            else:
                for k, channel in enumerate(self.bank.channels):
                    out[rows] += channel(Z[rows], self.instances) @ self.coef[:, :, k].T
        return out

    def contributions(self, Z: Array) -> Array:
        """The summands (rows, q, k, L); with the intercept they add up to the decision."""
        values = self.kernel_values(Z)
        return self.coefficients(values) * values.transpose(1, 2, 0)[:, None]

    def split(self, Z: Array) -> tuple[Array, Array]:
        """Contributions by instance (rows, q, k) and by kernel (rows, q, L), in blocks of rows."""
        q, k, L = self.coef.shape
        by_instance, by_kernel = np.zeros((len(Z), q, k)), np.empty((len(Z), q, L))
        size = q * k * (L if self.row_dependent else 1)
        for rows in self._blocks(len(Z), max(1, BLOCK // max(1, size))):
            if self.row_dependent:
                parts = self.contributions(Z[rows])
                by_instance[rows], by_kernel[rows] = parts.sum(axis=3), parts.sum(axis=2)
            else:
                for place, channel in enumerate(self.bank.channels):
                    part = channel(Z[rows], self.instances)[:, None] * self.coef[:, :, place]
                    by_instance[rows] += part
                    by_kernel[rows, :, place] = part.sum(axis=2)
        return by_instance, by_kernel

    @staticmethod
    def _blocks(n: int, step: int) -> Iterator[slice]:
        return (slice(start, start + step) for start in range(0, n, step))

    def restricted(self) -> tuple[KernelExpansion, np.ndarray, np.ndarray, np.ndarray]:
        """Drop instances, kernels and columns that no coefficient needs.

        Returns the smaller expansion and the kept positions of instances, kernels and columns.
        """
        used = np.any(self.coef != 0, axis=0)
        rows, kernels = np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
        bank = self.bank.take(kernels).narrowed(self.instances[rows])
        columns = bank.columns
        small = replace(
            self,
            bank=bank if len(columns) == self.instances.shape[1] else bank.relabel(columns),
            instances=self.instances[np.ix_(rows, columns)],
            coef=self.coef[:, rows][:, :, kernels],
        )
        return small, rows, kernels, columns
