"""KernelStack: the operations that methods need on L kernels, without L Gram matrices in memory.

A stack has shape (L, m, n): L kernels between m rows and n columns (the instances an expansion may
use). Every operation is written once, over blocks ``block(l, rows)``; a form of the stack defines only
where a block comes from.

Thousands of kernels of one column each are mostly one function on different columns. Those that are `batched` are
evaluated many columns at a time, so that the cost is that of the values and not that of the calls (`Batches`).
Whatever the chunks, the values are the same; sums over kernels are taken in an order that depends on sizes alone,
never on the number of threads.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tamis.kernels.base import DIAGONAL_ROWS
from tamis.optim.matrices import Matrix
from tamis.parallel import thread_map

if TYPE_CHECKING:
    from tamis.kernels.bank import Channel

MAX_BLOCK_VALUES = 1 << 21  # most entries of one block
MAX_CHUNK_VALUES = 1 << 17  # most entries of one block whose values are computed: they stay in the processor's cache
MAX_TARGET_VALUES = 1 << 25  # most entries of matrices that are held for inner products with all kernels
GRAM_KERNELS = 32  # kernels whose inner products with all others are computed together
CACHED_SUMS = 1 << 14  # entries of a partial sum that stay in the processor's cache
ALONE = -1  # the label of a kernel that is evaluated by itself
MIN_THREADED_VALUES = 1 << 22  # values of a pass from which on threads pay
LANES = 8  # sums of a long pass that are taken side by side

Index = np.ndarray | slice
ALL = slice(None)


class KernelStack(ABC):
    """L kernels between m rows and n columns."""

    shape: tuple[int, int, int]
    error: Any = None  # what landmarks lost of each kernel, where there are any
    folded: Callable[[np.ndarray, np.ndarray, int], np.ndarray]  # see `LandmarkStack`; others have none

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

    @abstractmethod
    def weighted(self, weights: np.ndarray, rows: slice) -> np.ndarray:
        """``sum_l weights[l] K_l`` on some rows; kernels of weight zero cost nothing."""

    def blocks(self) -> Iterator[slice]:
        """Slices of the rows, small enough for one block."""
        _, m, n = self.shape
        return slices(m, MAX_BLOCK_VALUES // max(1, n))

    def one(self, kernel: int) -> np.ndarray:
        """The Gram matrix (m, n) of one kernel."""
        return self.take(kernels=np.array([kernel])).combine(np.ones(1)).dense()

    def product(self, weights: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """``sum_l weights[l] K_l coef``, of shape (m,) or (m, q)."""
        return np.concatenate([self.weighted(weights, rows) @ coef for rows in self.blocks()])

    def combine(self, weights: np.ndarray) -> Combined:
        """The operator ``sum_l weights[l] K_l``."""
        return Combined(self, np.asarray(weights, dtype=float))

    def matrix(self, weights: np.ndarray) -> Matrix:
        """The matrix ``sum_l weights[l] K_l`` (m, n) in the form that the stack holds its kernels in.

        That is an array of numpy, a matrix on the stack's device, or one of low rank where kernels are factors.
        """
        return self.combine(weights).dense()

    @abstractmethod
    def apply(self, coef: np.ndarray) -> np.ndarray:
        """``K_l coef`` for every kernel: (n,) gives (m, L), (n, q) gives (m, L, q)."""

    def quad(self, left: np.ndarray, right: np.ndarray | None = None) -> np.ndarray:
        """The L values ``left' K_l right``; with one vector, of a square stack, ``left' K_l left``."""
        return left @ self.apply(left if right is None else right)

    @abstractmethod
    def inner(self, matrix: np.ndarray) -> np.ndarray:
        """The L values ``sum_ij (K_l)_ij matrix_ij``."""

    def gram(self, kernels: np.ndarray) -> np.ndarray:
        """The inner products (len(kernels), L) ``sum_ij (K_k)_ij (K_l)_ij`` of some kernels with all."""
        return np.array([self.inner(self.one(int(k))) for k in kernels]).reshape(len(kernels), self.shape[0])

    def diagonal(self) -> np.ndarray:
        """The values (L, n) of every row of a square stack with itself."""
        L, n, _ = self.shape
        out = np.empty((L, n))
        for rows in slices(n, DIAGONAL_ROWS):
            part = self.take(rows=rows, cols=rows)
            for k in range(L):
                out[k, rows] = np.diagonal(part.block(k, slice(0, part.shape[1])))
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
    """Values computed from the rows at every use; nothing is kept.

    Equal kernels of one column each are evaluated many at a time (`Batches`).
    """

    def __init__(self, kernels: Sequence[Channel], X: np.ndarray, Y: np.ndarray, batches: Batches | None = None):
        self.kernels, self.X, self.Y, self._batches = kernels, X, Y, batches
        self.shape = (len(kernels), X.shape[0], Y.shape[0])

    @property
    def batches(self) -> Batches:
        """Which kernels are alike."""
        if self._batches is None:
            self._batches = equal_kernels(self.kernels)
        return self._batches

    def block(self, kernel: int, rows: slice) -> np.ndarray:
        return self.kernels[kernel](self.X[rows], self.Y)

    def blocks(self) -> Iterator[slice]:
        _, m, n = self.shape
        return slices(m, MAX_CHUNK_VALUES // max(1, n))

    def chunks(self, kernels: np.ndarray, rows: slice) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Arrays of kernels whose values on some rows are computed together: those alone, and those alike."""
        most = MAX_CHUNK_VALUES // max(1, (rows.stop - rows.start) * self.shape[2])
        alone = self.batches.labels[kernels] == ALONE
        return list(kernels[alone, None]), list(self.batches.chunks(kernels[~alone], lambda kernel: most))

    def values(self, members: np.ndarray, rows: slice) -> np.ndarray:
        """Values (c, len(rows), n) of a chunk."""
        label, columns = self.batches.labels[members[0]], self.batches.columns[members]
        if label == ALONE:
            return self.block(int(members[0]), rows)[None]
        return self.batches.kinds[label].each(self.X[rows, columns], self.Y[:, columns])

    def visit(self, function: Callable[..., None]) -> None:
        """Call ``function(members, rows)`` for every chunk; functions of users stay in this thread."""
        L, _, n = self.shape
        for rows in self.blocks():
            alone, alike = self.chunks(np.arange(L), rows)
            for members in alone:
                function(members, rows)
            work = sum(map(len, alike)) * (rows.stop - rows.start) * n
            for_each(partial(function, rows=rows), alike, work)

    def weighted(self, weights: np.ndarray, rows: slice) -> np.ndarray:
        alone, alike = self.chunks(np.flatnonzero(weights), rows)
        shape = (rows.stop - rows.start, self.shape[2])

        def add(members: np.ndarray, total: np.ndarray) -> None:
            values = self.values(members, rows)
            if len(members) == 1:
                total += weights[members[0]] * values[0]
            else:
                total += (weights[members] @ values.reshape(len(members), -1)).reshape(shape)

        out = sum_over(add, alike, shape, sum(map(len, alike)) * math.prod(shape))
        for members in alone:
            add(members, out)
        return out

    def inner(self, matrix: np.ndarray) -> np.ndarray:
        out = np.zeros(self.shape[0])

        def add(members: np.ndarray, rows: slice) -> None:
            out[members] += self.values(members, rows).reshape(len(members), -1) @ matrix[rows].ravel()

        self.visit(add)
        return out

    def gram(self, kernels: np.ndarray) -> np.ndarray:
        """As in the base class; all kernels are passed over once for `GRAM_KERNELS` of the chosen ones."""
        step = min(GRAM_KERNELS, max(1, MAX_TARGET_VALUES // math.prod(self.shape[1:])))
        parts = [np.empty((0, self.shape[0]))]
        for start in range(0, len(kernels), step):
            parts.append(self._inners(np.array([self.one(int(k)) for k in kernels[start : start + step]])))
        return np.concatenate(parts)

    def _inners(self, matrices: np.ndarray) -> np.ndarray:
        """``inner`` of several matrices (b, m, n): (b, L)."""
        out = np.zeros((len(matrices), self.shape[0]))

        def add(members: np.ndarray, rows: slice) -> None:
            flat = self.values(members, rows).reshape(len(members), -1)
            out[:, members] += matrices[:, rows].reshape(len(matrices), -1) @ flat.T

        self.visit(add)
        return out

    def held(self, limit: int) -> KernelStack:
        return DenseStack.evaluate(self.kernels, self.X, self.Y) if 8 * math.prod(self.shape) <= limit else self

    def product(self, weights: np.ndarray, coef: np.ndarray) -> np.ndarray:
        part, coef = self._used(coef)
        return KernelStack.product(part, weights, coef)

    def apply(self, coef: np.ndarray) -> np.ndarray:
        part, coef = self._used(coef)
        L, m, _ = part.shape
        out = np.empty((m, L, *coef.shape[1:]))

        def write(members: np.ndarray, rows: slice) -> None:
            images = part.values(members, rows) @ coef
            out[rows, members] = images.swapaxes(0, 1)

        part.visit(write)
        return out

    def quad(self, left: np.ndarray, right: np.ndarray | None = None) -> np.ndarray:
        rows = np.flatnonzero(left)
        return left[rows] @ self.take(rows=rows).apply(left if right is None else right)

    def _used(self, coef: np.ndarray) -> tuple[StreamingStack, np.ndarray]:
        """The columns with a coefficient, and these: the values of the others need not be computed."""
        cols = np.flatnonzero(coef.reshape(len(coef), -1).any(axis=1))
        return (self, coef) if len(cols) == len(coef) else (self.take(cols=cols), coef[cols])

    def take(self, rows: Index = ALL, cols: Index = ALL, kernels: Index = ALL) -> StreamingStack:
        if isinstance(kernels, slice) and kernels == ALL:
            return StreamingStack(self.kernels, self.X[rows], self.Y[cols], self.batches)
        chosen = np.arange(len(self.kernels))[kernels]
        batches = None if self._batches is None else self._batches.take(chosen)
        return StreamingStack([self.kernels[k] for k in chosen], self.X[rows], self.Y[cols], batches)


class DenseStack(KernelStack):
    """All values in memory, stored as (L, n, m) so that the values of one instance lie together."""

    def __init__(self, values: np.ndarray):
        self.values = values
        L, n, m = values.shape
        self.shape = (L, m, n)

    @classmethod
    def evaluate(cls, kernels: Sequence[Channel], X: np.ndarray, Y: np.ndarray) -> DenseStack:
        """Evaluate kernels between the rows of X and Y once and for all (kernels are symmetric)."""
        swapped = StreamingStack(kernels, Y, X)
        values = np.empty(swapped.shape)

        def write(members: np.ndarray, rows: slice) -> None:
            values[members, rows] = swapped.values(members, rows)

        swapped.visit(write)
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
        step = max(1, CACHED_SUMS // max(1, m))
        for start in range(0, n, step):
            cols = slice(start, start + step)
            part = out[cols]
            term = np.empty_like(part)
            for k in kept:
                part += np.multiply(self.values[k, cols, rows], weights[k], out=term)
        return out.T

    def apply(self, coef: np.ndarray) -> np.ndarray:
        images = coef.T @ self.values  # (L, m) or (L, q, m)
        return np.ascontiguousarray(np.moveaxis(images, -1, 0))

    def inner(self, matrix: np.ndarray) -> np.ndarray:
        return self._flat @ np.ascontiguousarray(matrix.T).ravel()

    def gram(self, kernels: np.ndarray) -> np.ndarray:
        out = np.empty((len(kernels), self.shape[0]))
        chunks = [np.arange(len(kernels))[part] for part in slices(len(kernels), GRAM_KERNELS)]

        def write(some: np.ndarray) -> None:
            out[some] = self._flat[kernels[some]] @ self._flat.T

        for_each(write, chunks, len(kernels) * self.values.size)
        return out

    def diagonal(self) -> np.ndarray:
        return np.array(np.diagonal(self.values, axis1=1, axis2=2))

    @property
    def _flat(self) -> np.ndarray:
        return self.values.reshape(self.shape[0], -1)

    def take(self, rows: Index = ALL, cols: Index = ALL, kernels: Index = ALL) -> DenseStack:
        return DenseStack(self.values[_grid(kernels, cols)][:, :, rows])


def _grid(first: Index, second: Index) -> tuple:
    """An index of the first two axes that takes every pair."""
    if isinstance(first, slice) or isinstance(second, slice):
        return first, second
    return np.ix_(first, second)


# ---------------------------------------------------------------------- passes over kernels that are alike


@dataclass(frozen=True)
class Batches:
    """The kernels of a stack by likeness."""

    # (L,) which of `kinds` a kernel is; `ALONE` for kernels that stand on several columns, that no other equals or that
    # cannot take several columns at once
    labels: np.ndarray
    columns: np.ndarray  # (L,) the column of each kernel that is not alone
    kinds: Sequence[Any]  # what kernels of one label have in common

    def take(self, kernels: np.ndarray) -> Batches:
        """The same for some of the kernels."""
        return Batches(self.labels[kernels], self.columns[kernels], self.kinds)

    def kind(self, members: np.ndarray) -> Any:
        """What the kernels of one chunk have in common."""
        return self.kinds[self.labels[members[0]]]

    def chunks(self, kernels: np.ndarray, widest: Callable[[Any], int]) -> Iterator[np.ndarray]:
        """The given kernels in arrays of one label each, at most ``widest(kind)`` long, those alone one by one."""
        if not len(kernels):
            return
        labels = self.labels[kernels]
        order = np.argsort(labels, kind="stable")
        bounds = np.flatnonzero(np.diff(labels[order])) + 1
        for group in np.split(kernels[order], bounds):
            label = self.labels[group[0]]
            step = 1 if label == ALONE else max(1, widest(self.kinds[label]))
            yield from (group[start : start + step] for start in range(0, len(group), step))


def _hashable(kernel: Any) -> bool:
    try:
        hash(kernel)
    except TypeError:
        return False
    return True


def alike(keys: Sequence[Hashable | None], columns: Sequence[int], least: int = 1) -> Batches:
    """Batches of at least so many kernels with equal keys, which are their kinds; the others are alone.

    A key that is None is alone as well.
    """
    by_identity: dict[int, int] = {id(None): ALONE}  # hashing one kernel for every column would take most of the time
    by_value: dict[Hashable, int] = {}
    labels = np.empty(len(keys), dtype=int)
    for k, key in enumerate(keys):
        label = by_identity.get(id(key))
        if label is None:
            label = by_identity[id(key)] = by_value.setdefault(key, len(by_value))
        labels[k] = label
    counts = np.bincount(labels[labels != ALONE], minlength=1)
    labels[counts[labels] < least] = ALONE
    kept, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    if len(kept) and kept[0] == ALONE:
        first, labels = first[1:], labels - 1  # ALONE is the label before the first
    return Batches(labels, np.array(columns, dtype=int), [keys[k] for k in first])


def equal_kernels(channels: Sequence[Any]) -> Batches:
    """Batches of equal kernels of one column each that evaluate many columns at a time."""
    able: dict[int, Hashable | None] = {}
    for kernel in (channel.kernel for channel in channels):
        if id(kernel) not in able:
            able[id(kernel)] = kernel if kernel.batched and _hashable(kernel) else None
    keys = [able[id(channel.kernel)] if len(channel.columns) == 1 else None for channel in channels]
    return alike(keys, [channel.columns[0] for channel in channels], least=2)


def for_each(function: Callable[[np.ndarray], None], chunks: Sequence[np.ndarray], work: int) -> None:
    """Call a function with every chunk, on all cores if there is much work (values of the pass)."""
    if work < MIN_THREADED_VALUES or len(chunks) < 2:
        for chunk in chunks:
            function(chunk)
        return

    def run(lane: Sequence[np.ndarray]) -> None:
        for chunk in lane:
            function(chunk)

    thread_map(run, _lanes(chunks))


def sum_over(
    add: Callable[[np.ndarray, np.ndarray], None], chunks: Sequence[np.ndarray], shape: tuple[int, ...], work: int
) -> np.ndarray:
    """The sum of all terms, which ``add(chunk, total)`` adds to a total of the given shape."""

    def total(lane: Sequence[np.ndarray]) -> np.ndarray:
        out = np.zeros(shape)
        for chunk in lane:
            add(chunk, out)
        return out

    if work < MIN_THREADED_VALUES or len(chunks) < 2:
        return total(chunks)
    parts = thread_map(total, _lanes(chunks))
    return sum(parts[1:], start=parts[0])


def _lanes(chunks: Sequence[np.ndarray]) -> list[Sequence[np.ndarray]]:
    return [chunks[start::LANES] for start in range(min(LANES, len(chunks)))]


def slices(n: int, step: int) -> Iterator[slice]:
    """Consecutive slices of at least one row; one empty slice for n = 0."""
    step = max(1, step)
    return (slice(start, min(start + step, n)) for start in range(0, max(n, 1), step))


# ---------------------------------------------------------------------- products of factors


def symmetric_product(F: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """``F' diag(scale) F`` as symmetric products, one for each sign: half the work."""
    more, less = (used_rows(F, used) * np.sqrt(np.abs(scale[used]))[:, None] for used in (scale > 0, scale < 0))
    out = more.T @ more
    if len(less):
        out -= less.T @ less
    return out


def used_rows(factor: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Some rows, without a copy where all are used."""
    return factor if used.all() else factor[used]
