"""KernelStack: the operations that methods need on L kernels, without L Gram matrices in memory.

A stack has shape (L, m, n): L kernels between m rows and n columns (the instances an expansion may
use). Every operation is written once, over blocks ``block(l, rows)``; a form of the stack says only
where a block comes from.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tamis.kernels.base import Kernel
from tamis.kernels.chebyshev import Basis

BLOCK = 1 << 21  # most entries of one block
CHUNK = 1 << 17  # most entries of one block whose values are computed: they stay in the processor's cache
CACHE = 1 << 14  # entries of a partial sum that stay in the processor's cache

Index = np.ndarray | slice
ALL = slice(None)


class OneColumn(Protocol):
    """A kernel with the one column that it stands on."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def columns(self) -> tuple[int, ...]: ...


class KernelStack(ABC):
    """L kernels between m rows and n columns."""

    shape: tuple[int, int, int]

    def rough(self, level: float) -> KernelStack:
        """A stack with cheaper matrices, off by at most `level` times their largest value; itself if there is none."""
        return self

    def held(self, limit: int) -> KernelStack:
        """The same values, none to be computed again, if that takes at most `limit` bytes; else the stack itself."""
        return self

    @abstractmethod
    def block(self, kernel: int, rows: slice) -> np.ndarray:
        """Values (len(rows), n) of one kernel."""

    @abstractmethod
    def take(self, rows: Index = ALL, cols: Index = ALL, kernels: Index = ALL) -> KernelStack:
        """The sub-stack on some rows, columns and kernels."""

    def weighted(self, weights: np.ndarray, rows: slice) -> np.ndarray:
        """``sum_l weights[l] K_l`` on some rows; kernels of weight zero cost nothing."""
        out = np.zeros((rows.stop - rows.start, self.shape[2]))
        for k in np.flatnonzero(weights):
            out += weights[k] * self.block(int(k), rows)
        return out

    def blocks(self) -> Iterator[slice]:
        """Slices of the rows, small enough for one block."""
        _, m, n = self.shape
        return _slices(m, BLOCK // max(1, n))

    def one(self, kernel: int) -> np.ndarray:
        """The Gram matrix (m, n) of one kernel."""
        return self.take(kernels=np.array([kernel])).combine(np.ones(1)).dense()

    def product(self, weights: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """``sum_l weights[l] K_l coef``, of shape (m,) or (m, q)."""
        return np.concatenate([self.weighted(weights, rows) @ coef for rows in self.blocks()])

    def combine(self, weights: np.ndarray) -> Combined:
        """The operator ``sum_l weights[l] K_l``."""
        return Combined(self, np.asarray(weights, dtype=float))

    def apply(self, coef: np.ndarray) -> np.ndarray:
        """``K_l coef`` for every kernel: (n,) gives (m, L), (n, q) gives (m, L, q)."""
        L, m, _ = self.shape
        out = np.empty((m, L, *coef.shape[1:]))
        for rows in self.blocks():
            for k in range(L):
                out[rows, k] = self.block(k, rows) @ coef
        return out

    def quad(self, left: np.ndarray, right: np.ndarray | None = None) -> np.ndarray:
        """The L values ``left' K_l right``; with one vector, of a square stack, ``left' K_l left``."""
        return left @ self.apply(left if right is None else right)

    def inner(self, matrix: np.ndarray) -> np.ndarray:
        """The L values ``sum_ij (K_l)_ij matrix_ij``."""
        out = np.zeros(self.shape[0])
        for rows in self.blocks():
            for k in range(self.shape[0]):
                out[k] += np.vdot(self.block(k, rows), matrix[rows])
        return out


@dataclass(frozen=True)
class Combined:
    """``sum_l weights[l] K_l`` as an operator of shape (m, n)."""

    stack: KernelStack
    weights: np.ndarray

    def __matmul__(self, coef: np.ndarray) -> np.ndarray:
        return self.stack.product(self.weights, coef)

    def columns(self, idx: np.ndarray) -> np.ndarray:
        """Some columns (m, k)."""
        kept = np.flatnonzero(self.weights)
        return Combined(self.stack.take(cols=idx, kernels=kept), self.weights[kept]).dense()

    def dense(self) -> np.ndarray:
        """The whole matrix (m, n)."""
        parts = [self.stack.weighted(self.weights, rows) for rows in self.stack.blocks()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class StreamingStack(KernelStack):
    """Values computed from the rows whenever they are asked for; nothing is kept."""

    def __init__(self, kernels: Sequence[Callable], X: np.ndarray, Y: np.ndarray):
        self.kernels, self.X, self.Y = kernels, X, Y
        self.shape = (len(kernels), X.shape[0], Y.shape[0])

    def block(self, kernel: int, rows: slice) -> np.ndarray:
        return self.kernels[kernel](self.X[rows], self.Y)

    def blocks(self) -> Iterator[slice]:
        _, m, n = self.shape
        return _slices(m, min(BLOCK, CHUNK) // max(1, n))

    def held(self, limit: int) -> KernelStack:
        return DenseStack.evaluate(self.kernels, self.X, self.Y) if 8 * math.prod(self.shape) <= limit else self

    def product(self, weights: np.ndarray, coef: np.ndarray) -> np.ndarray:
        part, coef = self._used(coef)
        return KernelStack.product(part, weights, coef)

    def apply(self, coef: np.ndarray) -> np.ndarray:
        part, coef = self._used(coef)
        return KernelStack.apply(part, coef)

    def quad(self, left: np.ndarray, right: np.ndarray | None = None) -> np.ndarray:
        rows = np.flatnonzero(left)
        return left[rows] @ self.take(rows=rows).apply(left if right is None else right)

    def _used(self, coef: np.ndarray) -> tuple[StreamingStack, np.ndarray]:
        """The columns with a coefficient, and these: the values of the others need not be computed."""
        cols = np.flatnonzero(coef.reshape(len(coef), -1).any(axis=1))
        return (self, coef) if len(cols) == len(coef) else (self.take(cols=cols), coef[cols])

    def take(self, rows: Index = ALL, cols: Index = ALL, kernels: Index = ALL) -> StreamingStack:
        chosen = np.arange(len(self.kernels))[kernels]
        return StreamingStack([self.kernels[k] for k in chosen], self.X[rows], self.Y[cols])


class DenseStack(KernelStack):
    """All values in memory, stored as (L, n, m) so that the values of one instance lie together."""

    def __init__(self, values: np.ndarray):
        self.values = values
        L, n, m = values.shape
        self.shape = (L, m, n)

    @classmethod
    def evaluate(cls, kernels: Sequence[Callable], X: np.ndarray, Y: np.ndarray) -> DenseStack:
        """Evaluate kernels between the rows of X and Y once and for all (kernels are symmetric)."""
        swapped = StreamingStack(kernels, Y, X)
        values = np.empty(swapped.shape)
        for k in range(len(kernels)):
            for rows in swapped.blocks():
                values[k, rows] = swapped.block(k, rows)
        return cls(values)

    def blocks(self) -> Iterator[slice]:
        return iter([slice(0, self.shape[1])])

    def block(self, kernel: int, rows: slice) -> np.ndarray:
        return self.values[kernel, :, rows].T

    def weighted(self, weights: np.ndarray, rows: slice) -> np.ndarray:
        """As in the base class, a few instances at a time so that the partial sums stay in cache."""
        kept = np.flatnonzero(weights)
        n, m = self.shape[2], rows.stop - rows.start
        out = np.zeros((n, m))
        step = max(1, CACHE // max(1, m))
        for start in range(0, n, step):
            cols = slice(start, start + step)
            part = out[cols]
            term = np.empty_like(part)
            for k in kept:
                part += np.multiply(self.values[k, cols, rows], weights[k], out=term)
        return out.T

    def take(self, rows: Index = ALL, cols: Index = ALL, kernels: Index = ALL) -> DenseStack:
        return DenseStack(self.values[_grid(kernels, cols)][:, :, rows])


class ChebyshevStack(KernelStack):
    """Kernels of one column each as short sums (`kernels.chebyshev`): products with vectors cost O((m + n) L p).

    Values differ from the exact ones by at most `error_bound`.
    """

    def __init__(self, channels: Sequence[OneColumn], bases: Sequence[Basis], X: np.ndarray, Y: np.ndarray):
        self.channels, self.bases, self.X, self.Y = channels, bases, X, Y
        self.shape = (len(channels), X.shape[0], Y.shape[0])

    @property
    def error_bound(self) -> np.ndarray:
        """Bounds (L,) of the difference to the exact kernel values."""
        return np.array([basis.error_bound(ch.kernel) for basis, ch in zip(self.bases, self.channels, strict=True)])

    def _features(self, kernel: int, rows: slice) -> np.ndarray:
        return self.bases[kernel].features(self.X[rows, self.channels[kernel].columns[0]])

    def _coefficients(self, kernel: int, cols: slice) -> np.ndarray:
        channel = self.channels[kernel]
        return self.bases[kernel].coefficients(channel.kernel, self.Y[cols, channel.columns[0]])

    def block(self, kernel: int, rows: slice) -> np.ndarray:
        return self._features(kernel, rows).T @ self._coefficients(kernel, ALL).T

    def _image(self, kernel: int, coef: np.ndarray) -> np.ndarray:
        """``K_l coef`` through the few functions of the kernel's column."""
        if len(coef) != self.shape[2]:
            raise ValueError(f"coef has {len(coef)} rows, but the stack has {self.shape[2]} columns")
        size = self.bases[kernel].size
        short = sum(self._coefficients(kernel, cols).T @ coef[cols] for cols in _slices(self.shape[2], BLOCK // size))
        parts = [self._features(kernel, rows).T @ short for rows in _slices(self.shape[1], BLOCK // size)]
        return np.concatenate(parts)

    def product(self, weights: np.ndarray, coef: np.ndarray) -> np.ndarray:
        out = np.zeros((self.shape[1], *coef.shape[1:]))
        for k in np.flatnonzero(weights):
            out += weights[k] * self._image(int(k), coef)
        return out

    def apply(self, coef: np.ndarray) -> np.ndarray:
        return np.stack([self._image(k, coef) for k in range(self.shape[0])], axis=1)

    def take(self, rows: Index = ALL, cols: Index = ALL, kernels: Index = ALL) -> ChebyshevStack:
        chosen = np.arange(len(self.channels))[kernels]
        channels, bases = [self.channels[k] for k in chosen], [self.bases[k] for k in chosen]
        return ChebyshevStack(channels, bases, self.X[rows], self.Y[cols])


def _slices(n: int, step: int) -> Iterator[slice]:
    """Consecutive slices of at least one row; one empty slice for n = 0."""
    step = max(1, step)
    return (slice(start, min(start + step, n)) for start in range(0, max(n, 1), step))


def _grid(first: Index, second: Index) -> tuple:
    """An index of the first two axes that takes every pair."""
    if isinstance(first, slice) or isinstance(second, slice):
        return first, second
    return np.ix_(first, second)
