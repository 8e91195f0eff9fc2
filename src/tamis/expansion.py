"""KernelExpansion: what every method ends in, and the additive splits of its decision.

f_q(x) = sum_j sum_l coef[q, j, l] k_l(x_j, x) + intercept[q]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tamis.arrays import Array
from tamis.kernels.bank import KernelBank

BLOCK_ROWS = 4096


@dataclass(frozen=True)
class KernelExpansion:
    """Kept instances, kept kernels and their coefficients.

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

    @property
    def shape(self) -> tuple[int, int, int]:
        """Outputs, instances, kernels."""
        return self.coef.shape

    def coefficients(self, values: Array) -> Array:
        """Coefficients for rows with kernel values (rows, k, L), broadcast to (rows, q, k, L).

        Constant here; a method whose coefficients depend on the row overrides this one function
        (and `decision` follows from `contributions`).
        """
        return self.coef[None]

    def kernel_values(self, Z: Array) -> Array:
        """Kernel values (rows, k, L) of encoded rows."""
        values = np.empty((len(Z), *self.coef.shape[1:]))
        for k, channel in enumerate(self.bank.channels):
            values[:, :, k] = channel(Z, self.instances)
        return values

    def contributions(self, Z: Array) -> Array:
        """The summands (rows, q, k, L); with the intercept they add up to the decision."""
        values = self.kernel_values(Z)
        return self.coefficients(values) * values[:, None]

    def decision(self, Z: Array) -> Array:
        """Decision values (rows, q), in blocks of rows."""
        out = np.tile(self.intercept, (len(Z), 1)).astype(float)
        for start in range(0, len(Z), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            for k, channel in enumerate(self.bank.channels):
                out[rows] += channel(Z[rows], self.instances) @ self.coef[:, :, k].T
        return out

    def restricted(self) -> tuple[KernelExpansion, np.ndarray, np.ndarray, np.ndarray]:
        """Drop instances, kernels and columns that no coefficient needs.

        Returns the smaller expansion and the kept positions of instances, kernels and columns.
        """
        used = np.any(self.coef != 0, axis=0)
        rows, kernels = np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
        bank = self.bank.take(kernels)
        columns = bank.columns
        small = replace(
            self,
            bank=bank.relabel(columns),
            instances=self.instances[np.ix_(rows, columns)],
            coef=self.coef[:, rows][:, :, kernels],
        )
        return small, rows, kernels, columns


def leading_factors(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors (k,) and (L,) of the closest rank-one table; the largest kernel weight is positive."""
    if not table.size or not np.any(table):
        return np.zeros(table.shape[0]), np.zeros(table.shape[1])
    left, size, right = np.linalg.svd(table, full_matrices=False)
    sign = np.sign(right[0, np.argmax(np.abs(right[0]))])
    return sign * left[:, 0], sign * size[0] * right[0]
