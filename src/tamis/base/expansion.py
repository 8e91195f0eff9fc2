"""Expansion: what every method ends in, and the additive splits of its decision.

f_q(x) = sum_j sum_l coef[q, j, l] k_l(x_j, x) + intercept[q]

In a `KernelExpansion` the coefficients are numbers; where they depend on the row another class says how.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from tamis.arrays import Array
from tamis.codec import stored
from tamis.kernels.bank import KernelBank
from tamis.kernels.stacks.base import DenseStack
from tamis.parallel import blas_threads

BLOCK_ROWS = 1024  # rows of a block, halved while it takes more than
BLOCK_VALUES = 1 << 20  # numbers


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


@dataclass(frozen=True)
class Expansion(ABC):
    """Decisions as sums over kept instances and kernels, whatever their coefficients depend on.

    Attributes
    ----------
    bank : the kept kernels, on the columns of `instances`
    instances : (k, c) encoded kept rows
    intercept : (q,)
    """

    bank: KernelBank
    instances: np.ndarray
    intercept: np.ndarray

    row_dependent: ClassVar[bool] = False  # whether the coefficients of a row depend on its kernel values

    @property
    @abstractmethod
    def owned(self) -> np.ndarray:
        """Boolean (q, k): which instances speak for which output."""

    def decision(self, Z: np.ndarray) -> np.ndarray:
        """Decision values (rows, q), the same bits for a row whatever the other rows are."""
        (decision,) = _in_blocks(lambda block: (self._decision(block),), Z, len(self.instances))
        return decision

    def contributions(self, Z: np.ndarray) -> np.ndarray:
        """The summands (rows, q, k, L); with the intercept they add up to the decision."""
        (parts,) = _in_blocks(lambda block: (self._contributions(block),), Z, self._n_summands)
        return parts

    def split(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Contributions by instance (rows, q, k) and by kernel (rows, q, L)."""
        by_instance, by_kernel = _in_blocks(self._split, Z, self._n_summands)
        return by_instance, by_kernel

    @property
    def _n_summands(self) -> int:
        return len(self.intercept) * len(self.instances) * len(self.bank)

    @abstractmethod
    def _decision(self, Z: np.ndarray) -> np.ndarray:
        """`decision` for one block."""

    @abstractmethod
    def _contributions(self, Z: np.ndarray) -> np.ndarray:
        """`contributions` for one block."""

    def _split(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`split` for one block."""
        parts = self._contributions(Z)
        return parts.sum(axis=3), parts.sum(axis=2)

    @abstractmethod
    def negated(self) -> Self:
        """The expansion of the opposite decision."""

    def kernel_values(self, Z: Array) -> Array:
        """Kernel values (L, rows, k) of encoded rows."""
        if not len(self.bank) or not len(self.instances):
            return np.empty((len(self.bank), len(Z), len(self.instances)))
        stack = DenseStack.evaluate(self.bank.channels, Z, self.instances)
        return stack.values.transpose(0, 2, 1)


def _in_blocks(
    function: Callable[[np.ndarray], tuple[np.ndarray, ...]], Z: np.ndarray, n_values: int
) -> list[np.ndarray]:
    """``function`` of encoded rows, evaluated in blocks that all have the same number of rows.

    Products of matrices sum in an order that depends on their shapes. The last block is therefore filled up with copies
    of its first row, and BLAS uses one thread. `n_values` is how many numbers a row takes; the size of the blocks
    follows from it alone.
    """
    if not len(Z):
        return list(function(Z))
    size = BLOCK_ROWS
    while size > 1 and size * n_values > BLOCK_VALUES:
        size //= 2

    def evaluate(start: int) -> tuple[np.ndarray, ...]:
        block = Z[start : start + size]
        n = len(block)
        if n < size:
            block = block[np.r_[:n, np.zeros(size - n, dtype=int)]]
        return tuple(part[:n] for part in function(block))

    with blas_threads(1):
        parts = [evaluate(start) for start in range(0, len(Z), size)]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


@stored
@dataclass(frozen=True)
class KernelExpansion(Expansion):
    """The same coefficients `coef` (q, k, L) for every row."""

    coef: np.ndarray

    @property
    def owned(self) -> np.ndarray:
        return np.any(self.coef != 0, axis=2)

    def _decision(self, Z: np.ndarray) -> np.ndarray:
        out = np.tile(self.intercept, (len(Z), 1)).astype(float)
        for k, channel in enumerate(self.bank.channels):
            out += channel(Z, self.instances) @ self.coef[:, :, k].T
        return out

    def _contributions(self, Z: np.ndarray) -> np.ndarray:
        return self.coef * self.kernel_values(Z).transpose(1, 2, 0)[:, None]

    def negated(self) -> Self:
        return replace(self, coef=-self.coef, intercept=-self.intercept)

    def restricted(self) -> tuple[KernelExpansion, np.ndarray, np.ndarray, np.ndarray]:
        """Drop instances, kernels and columns that no coefficient needs.

        Returns the smaller expansion and the kept positions of instances, kernels and columns.
        """
        used = np.any(self.coef != 0, axis=0)
        rows, kernels = np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
        bank, instances, columns = kept_parts(self.bank.take(kernels), self.instances[rows])
        small = replace(
            self, bank=bank, instances=instances, coef=np.ascontiguousarray(self.coef[:, rows][:, :, kernels])
        )
        return small, rows, kernels, columns


@stored
@dataclass(frozen=True)
class CentredExpansion(KernelExpansion):
    """The same decisions as sums of ``coef (k(x_j, x) - centre)``, with `centre` (k, L) such as means over some rows.

    The intercept is the decision where all kernel values are at the centre.
    """

    centre: np.ndarray

    @classmethod
    def around(cls, whole: KernelExpansion, Z: Array, weight: np.ndarray) -> CentredExpansion:
        """Measure the contributions of an expansion from their weighted means over some rows."""
        centre = np.zeros(whole.coef.shape[1:])
        for place, channel in enumerate(whole.bank.channels):
            centre[:, place] = weight @ channel(Z, whole.instances) / weight.sum()
        moved = np.sum(whole.coef * centre, axis=(1, 2))
        return cls(whole.bank, whole.instances, whole.intercept + moved, whole.coef, centre)

    def _decision(self, Z: np.ndarray) -> np.ndarray:
        return super()._decision(Z) - np.sum(self.coef * self.centre, axis=(1, 2))

    def _contributions(self, Z: np.ndarray) -> np.ndarray:
        return super()._contributions(Z) - self.coef * self.centre

    def restricted(self) -> tuple[KernelExpansion, np.ndarray, np.ndarray, np.ndarray]:
        plain = KernelExpansion(self.bank, self.instances, self.intercept, self.coef)
        small, rows, kernels, columns = plain.restricted()
        centre = self.centre[np.ix_(rows, kernels)]
        return (
            CentredExpansion(small.bank, small.instances, small.intercept, small.coef, centre),
            rows,
            kernels,
            columns,
        )


def kept_parts(bank: KernelBank, instances: np.ndarray) -> tuple[KernelBank, np.ndarray, np.ndarray]:
    """The bank and the instances without the columns that no kernel stands on, and the columns that remain."""
    bank = bank.narrowed(instances)
    columns = bank.columns
    if len(columns) < instances.shape[1]:
        bank = bank.relabel(columns)
    return bank, np.ascontiguousarray(instances[:, columns]), columns
