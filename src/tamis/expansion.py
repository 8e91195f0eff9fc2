"""Expansion: what every method ends in, and the additive splits of its decision.

f_q(x) = sum_j sum_l coef[q, j, l] k_l(x_j, x) + intercept[q]

In a `KernelExpansion` the coefficients are numbers; where they depend on the row another class says how.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from tamis.arrays import Array
from tamis.codec import stored
from tamis.kernels.bank import KernelBank
from tamis.kernels.stack import DenseStack

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

    @abstractmethod
    def decision(self, Z: Array) -> Array:
        """Decision values (rows, q), in blocks of rows."""

    @abstractmethod
    def contributions(self, Z: Array) -> Array:
        """The summands (rows, q, k, L); with the intercept they add up to the decision."""

    @abstractmethod
    def split(self, Z: Array) -> tuple[Array, Array]:
        """Contributions by instance (rows, q, k) and by kernel (rows, q, L), in blocks of rows."""

    @abstractmethod
    def negated(self) -> Self:
        """The expansion of the opposite decision."""

    def kernel_values(self, Z: Array) -> Array:
        """Kernel values (L, rows, k) of encoded rows."""
        if not len(self.bank) or not len(self.instances):
            return np.empty((len(self.bank), len(Z), len(self.instances)))
        stack = DenseStack.evaluate(self.bank.channels, Z, self.instances)
        return stack.values.transpose(0, 2, 1)


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Slices of n rows of `size` numbers each, with at most `BLOCK` numbers and `BLOCK_ROWS` rows in one."""
    step = max(1, min(BLOCK_ROWS, BLOCK // max(1, size)))
    return (slice(start, start + step) for start in range(0, n, step))


@stored
@dataclass(frozen=True)
class KernelExpansion(Expansion):
    """The same coefficients `coef` (q, k, L) for every row."""

    coef: np.ndarray

    @property
    def owned(self) -> np.ndarray:
        return np.any(self.coef != 0, axis=2)

    def decision(self, Z: Array) -> Array:
        out = np.tile(self.intercept, (len(Z), 1)).astype(float)
        for rows in row_blocks(len(Z), 1):
            for k, channel in enumerate(self.bank.channels):
                out[rows] += channel(Z[rows], self.instances) @ self.coef[:, :, k].T
        return out

    def contributions(self, Z: Array) -> Array:
        return self.coef * self.kernel_values(Z).transpose(1, 2, 0)[:, None]

    def split(self, Z: Array) -> tuple[Array, Array]:
        q, k, L = self.coef.shape
        by_instance, by_kernel = np.zeros((len(Z), q, k)), np.empty((len(Z), q, L))
        for rows in row_blocks(len(Z), q * k):
            for place, channel in enumerate(self.bank.channels):
                part = channel(Z[rows], self.instances)[:, None] * self.coef[:, :, place]
                by_instance[rows] += part
                by_kernel[rows, :, place] = part.sum(axis=2)
        return by_instance, by_kernel

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

    def decision(self, Z: Array) -> Array:
        return super().decision(Z) - np.sum(self.coef * self.centre, axis=(1, 2))

    def contributions(self, Z: Array) -> Array:
        return super().contributions(Z) - self.coef * self.centre

    def split(self, Z: Array) -> tuple[Array, Array]:
        by_instance, by_kernel = super().split(Z)
        moved = self.coef * self.centre
        return by_instance - moved.sum(axis=2), by_kernel - moved.sum(axis=1)

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
