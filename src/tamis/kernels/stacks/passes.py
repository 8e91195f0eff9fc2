"""Passes over many short sums (`kernels.short`): products, weighted sums and inner products, in chunks of kernels.

A chunk is an array of kernels of one form; `limit` is the most numbers that a chunk may have in memory while its
factors are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tamis.kernels.stacks.batches import ALONE, Batches, for_each, sum_over
from tamis.kernels.stacks.short import Form
from tamis.parallel import thread_map


class Pair(NamedTuple):
    """Factors of c kernels: left (r, c, m), middle (r,) and right (r, c, n)."""

    left: np.ndarray
    middle: np.ndarray
    right: np.ndarray


class Sums:
    """Short sums ``K_l = left_l' diag(middle) right_l``, made at every use.

    Attributes
    ----------
    batches : kernels by form; those alone have no short sum
    spans : (2, L) ranges
    """

    def __init__(self, batches: Batches, spans: np.ndarray, X: np.ndarray, Y: np.ndarray):
        self.batches, self.spans, self.X, self.Y = batches, spans, X, Y
        self.short = np.flatnonzero(batches.labels != ALONE)
        self.shape = (len(X), len(Y))

    def take(self, rows: np.ndarray | slice, cols: np.ndarray | slice, kernels: np.ndarray) -> Sums:
        """The same between some rows and columns, for some kernels."""
        X, all_of_both = self.X[rows], isinstance(rows, slice) and isinstance(cols, slice) and rows == cols
        same = self.X is self.Y and (rows is cols or all_of_both)
        return Sums(self.batches.take(kernels), self.spans[:, kernels], X, X if same else self.Y[cols])

    def size(self, members: np.ndarray) -> int:
        """Numbers per row that the factors of a chunk take while they are made."""
        return len(members) * self.batches.kind(members).size

    def left(self, members: np.ndarray, rows: slice) -> np.ndarray:
        """Left factors (r, c, m) of a chunk."""
        form, columns = self.batches.kind(members), self.batches.columns[members]
        return form.left(self.X[rows, columns], self.spans[:, members])

    def right(self, members: np.ndarray, cols: slice) -> np.ndarray:
        """Right factors (r, c, n) of a chunk."""
        form, columns = self.batches.kind(members), self.batches.columns[members]
        return form.right(self.Y[cols, columns], self.spans[:, members])

    def middle(self, members: np.ndarray) -> np.ndarray:
        """The diagonal (r,) of a chunk."""
        return self.batches.kind(members).middle

    def pair(self, members: np.ndarray) -> Pair:
        """All factors of a chunk; one array where they are the same."""
        left = self.left(members, slice(0, self.shape[0]))
        same = self.X is self.Y and self.batches.kind(members).mirrored
        return Pair(left, self.middle(members), left if same else self.right(members, slice(0, self.shape[1])))

    def chunks(self, kernels: np.ndarray, limit: int) -> list[np.ndarray]:
        """Chunks of those of the kernels that have a short sum."""
        most = limit // max(1, *self.shape)
        known = kernels[self.batches.labels[kernels] != ALONE]
        return list(self.batches.chunks(known, lambda form: most // max(1, form.size)))

    def images(self, kernels: np.ndarray, coef: np.ndarray, out: np.ndarray, limit: int) -> None:
        """Write ``K_l coef`` (m, L, q) of some kernels for coef (n, q)."""
        chunks = self.chunks(kernels, limit)

        def write(members: np.ndarray) -> None:
            out[:, members] = self._image(members, coef, limit)

        for_each(write, chunks, self._work(chunks))

    def product(self, weights: np.ndarray, coef: np.ndarray, limit: int) -> np.ndarray:
        """``sum_l weights[l] K_l coef`` (m, q) for coef (n, q)."""
        chunks = self.chunks(np.flatnonzero(weights), limit)

        def add(members: np.ndarray, total: np.ndarray) -> None:
            total += np.einsum("mcq,c->mq", self._image(members, coef, limit), weights[members])

        return sum_over(add, chunks, (self.shape[0], coef.shape[1]), self._work(chunks))

    def weighted(self, weights: np.ndarray, rows: slice, limit: int) -> np.ndarray:
        """``sum_l weights[l] K_l`` on some rows, as products of two tall matrices."""
        chunks = self.chunks(np.flatnonzero(weights), limit)
        m, n = rows.stop - rows.start, self.shape[1]

        def add(members: np.ndarray, total: np.ndarray) -> None:
            left, middle, right = self._pair_on(members, rows)
            scale = np.outer(middle, weights[members]).ravel()
            F, G = left.reshape(len(scale), m), right.reshape(len(scale), n)
            total += _symmetric(F, scale) if left is right else F.T @ (G * scale[:, None])

        return sum_over(add, chunks, (m, n), self._work(chunks))

    def inner(self, matrix: np.ndarray, rows: slice, out: np.ndarray, limit: int) -> None:
        """Add ``sum_ij (K_l)_ij matrix_ij`` over some rows, of which `matrix` (m, n) has values, to out (L,)."""
        chunks = self.chunks(self.short, limit)

        def write(members: np.ndarray) -> None:
            left, middle, right = self._pair_on(members, rows)
            inside = left @ matrix
            out[members] += middle @ np.einsum("rcn,rcn->rc", inside, right)

        for_each(write, chunks, self._work(chunks))

    def held(self, limit: int) -> HeldSums:
        """The same with all factors kept."""
        chunks = self.chunks(self.short, limit)
        pairs: dict[int, Pair] = {}

        def write(members: np.ndarray) -> None:
            pairs[int(members[0])] = self.pair(members)

        for_each(write, chunks, self._work(chunks))
        return HeldSums(self, [(members, pairs[int(members[0])]) for members in chunks])

    @property
    def entries(self) -> int:
        """Numbers that all factors together have."""
        counts = np.bincount(self.batches.labels[self.short], minlength=len(self.batches.kinds))

        def per_kernel(form: Form) -> int:
            return len(form.middle) * (self.shape[0] if form.mirrored and self.X is self.Y else sum(self.shape))

        return int(counts @ np.array(thread_map(per_kernel, self.batches.kinds), dtype=int))

    def _pair_on(self, members: np.ndarray, rows: slice) -> Pair:
        if rows == slice(0, self.shape[0]):
            return self.pair(members)
        return Pair(self.left(members, rows), self.middle(members), self.right(members, slice(0, self.shape[1])))

    def _image(self, members: np.ndarray, coef: np.ndarray, limit: int) -> np.ndarray:
        """``K_l coef`` (m, c, q) of one chunk, in slices of the rows where these are many."""
        m, n = self.shape
        step = self._rows_at_once(members, limit)
        if step >= max(m, n):
            left, middle, right = self.pair(members)
            return _times(left, (right @ coef) * middle[:, None, None])
        inside = sum(self.right(members, cols) @ coef[cols] for cols in slices(n, step))
        inside *= self.middle(members)[:, None, None]
        return np.concatenate([_times(self.left(members, rows), inside) for rows in slices(m, step)])

    def _rows_at_once(self, members: np.ndarray, limit: int) -> int:
        return max(1, limit // max(1, self.size(members)))

    def _work(self, chunks: Sequence[np.ndarray]) -> int:
        return sum(self.size(members) for members in chunks) * max(self.shape)


class HeldSums(Sums):
    """Short sums whose factors are kept: a batch is a chunk, a kernel's column its place there."""

    def __init__(self, source: Sums, parts: Sequence[tuple[np.ndarray, Pair]]):
        labels, places = np.full(len(source.batches.labels), ALONE), np.zeros(len(source.batches.labels), dtype=int)
        for label, (members, _) in enumerate(parts):
            labels[members], places[members] = label, np.arange(len(members))
        super().__init__(Batches(labels, places, [pair for _, pair in parts]), source.spans, source.X, source.Y)
        self.source = source

    def take(self, rows: np.ndarray | slice, cols: np.ndarray | slice, kernels: np.ndarray) -> Sums:
        return self.source.take(rows, cols, kernels)

    def size(self, members: np.ndarray) -> int:
        return len(members) * len(self.middle(members))

    def chunks(self, kernels: np.ndarray, limit: int) -> list[np.ndarray]:
        known = kernels[self.batches.labels[kernels] != ALONE]
        return list(self.batches.chunks(known, lambda pair: pair.left.shape[1]))

    def _rows_at_once(self, members: np.ndarray, limit: int) -> int:
        return max(self.shape)

    def pair(self, members: np.ndarray) -> Pair:
        pair, places = self.batches.kind(members), self.batches.columns[members]
        if len(members) == pair.left.shape[1] and np.array_equal(places, np.arange(len(members))):
            return pair
        left = pair.left[:, places]
        return Pair(left, pair.middle, left if pair.right is pair.left else pair.right[:, places])

    def left(self, members: np.ndarray, rows: slice) -> np.ndarray:
        return self.pair(members).left[:, :, rows]

    def right(self, members: np.ndarray, cols: slice) -> np.ndarray:
        return self.pair(members).right[:, :, cols]


def _symmetric(F: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """``F' diag(scale) F`` as symmetric products, one for each sign: half the work."""
    more, less = (F[used] * np.sqrt(np.abs(scale[used]))[:, None] for used in (scale > 0, scale < 0))
    return more.T @ more - less.T @ less


def _times(left: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """``sum_r left[r, c, m] inside[r, c, q]`` as (m, c, q)."""
    return (left.transpose(1, 2, 0) @ inside.transpose(1, 0, 2)).swapaxes(0, 1)


def slices(n: int, step: int) -> Iterator[slice]:
    """Consecutive slices of at least one row; one empty slice for n = 0."""
    step = max(1, step)
    return (slice(start, min(start + step, n)) for start in range(0, max(n, 1), step))
