"""Kernels of unit diagonal between n rows, and their centred inner products.

A row that lacks a channel has the kernel value zero with every other row and, here, one with itself: it is a unit
vector of its own, so that the matrix stays positive semi-definite and every row has norm one in each kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tamis.arrays import Array, beside, namespace
from tamis.kernels.stacks.base import KernelStack
from tamis.optim.matrices import fill_diagonal, values_of

CONSTANT = 1e-8  # share by which the mean value of a kernel may be less than one for the kernel to count as constant


class UnitKernels:
    """A square stack with ones in place of its diagonals.

    Columns of the centred Gram matrix are computed at their first use and then kept, so that one object
    serves all rounds of an algorithm and all settings that are tried on the same rows.

    Attributes
    ----------
    n_kernels, n : numbers of kernels and of rows
    """

    def __init__(self, stack: KernelStack):
        self.stack = stack
        self.n_kernels, self.n, _ = stack.shape

    @property
    def varying(self) -> np.ndarray:
        """The kernels that are not the same for all pairs of rows."""
        return np.flatnonzero(self._sums.totals < (1.0 - CONSTANT) * self.n**2)

    def take(self, kernels: np.ndarray) -> UnitKernels:
        """Some of the kernels."""
        if np.array_equal(kernels, np.arange(self.n_kernels)):
            return self
        return UnitKernels(self.stack.take(kernels=kernels))

    def combine(self, weights: np.ndarray) -> Array:
        """``sum_l weights[l] K_l`` (n, n), exactly symmetric, where the values of the stack are."""
        K = values_of(self.stack.matrix(weights))
        K = 0.5 * (K + K.T)
        fill_diagonal(K, float(weights.sum()))
        return K

    def inner(self, matrix: Array) -> np.ndarray:
        """The values (L,) ``sum_ij (K_l)_ij matrix_ij`` for a matrix where those of the stack are."""
        xp = namespace(matrix)
        hollow = xp.asarray(matrix, copy=True)
        fill_diagonal(hollow, 0.0)
        return self.stack.inner(hollow) + float(xp.sum(xp.linalg.diagonal(matrix)))

    def gram(self, kernels: np.ndarray) -> np.ndarray:
        """``sum_{i != j} (C K_k C)_ij (C K_l C)_ij`` (len(kernels), L), with the centring ``C = I - 11'/n``."""
        return self._sums.rows(kernels)

    @cached_property
    def _sums(self) -> _Centred:
        return _Centred(self.stack)


class _Centred:
    """Rows of the centred Gram matrix without the diagonals, by sums that need no centred matrix.

    With the row sums R_l of K_l, their total s_l and the diagonal ``D_l = 1 - 2 R_l / n + s_l / n^2`` of C K_l C,

        sum_{i != j} (C K_k C)_ij (C K_l C)_ij = <K_k, K_l> - (2 / n) R_k'R_l + s_k s_l / n^2 - D_k'D_l.
    """

    def __init__(self, stack: KernelStack):
        n = stack.shape[1]
        self.stack, self.n = stack, n
        self.own = stack.diagonal()  # (L, n)
        self.sums = stack.apply(np.ones(n)).T - self.own + 1.0  # (L, n)
        self.totals = self.sums.sum(axis=1)
        self.diagonals = 1.0 - 2.0 * self.sums / n + self.totals[:, None] / n**2
        self.known: dict[int, np.ndarray] = {}

    def rows(self, kernels: np.ndarray) -> np.ndarray:
        new = np.array([k for k in kernels.tolist() if k not in self.known], dtype=int)
        if len(new):
            raw = self.stack.gram(new) - self.own[new] @ self.own.T + self.n
            raw -= (2.0 / self.n) * (self.sums[new] @ self.sums.T)
            raw += np.outer(self.totals[new], self.totals) / self.n**2
            raw -= self.diagonals[new] @ self.diagonals.T
            self.known.update(zip(new.tolist(), raw, strict=True))
        return np.array([self.known[k] for k in kernels.tolist()]).reshape(len(kernels), self.stack.shape[0])


@dataclass(frozen=True)
class LabelledRows:
    """Kernels between rows, with their classes and weights.

    Attributes
    ----------
    kernels : of unit diagonal, between the n rows
    codes : (n,) class of each row
    weight : (n,) positive
    """

    kernels: UnitKernels
    codes: np.ndarray
    weight: np.ndarray

    @cached_property
    def mean(self) -> Array:
        """The mean kernel (n, n), where the kernels are."""
        L = self.kernels.n_kernels
        return self.kernels.combine(np.full(L, 1.0 / L))

    @cached_property
    def same(self) -> Array:
        """Boolean (n, n): whether two rows are of one class; on the device of the mean kernel."""
        codes = beside(self.codes, self.mean)
        return codes[:, None] == codes[None, :]
