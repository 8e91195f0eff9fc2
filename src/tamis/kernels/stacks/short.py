"""Many short sums at once: ``K_l = left_l' diag(middle) right_l`` with few rows each, and the stack of them.

Products, weighted sums and inner products go over chunks of kernels of one form (`chebyshev.Form`); the factors of a
chunk have at most `MAX_CHUNK_VALUES` numbers while they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tamis.kernels.stacks.base import (
    ALL,
    ALONE,
    MAX_CHUNK_VALUES,
    Batches,
    Index,
    KernelStack,
    StreamingStack,
    alike,
    for_each,
    slices,
    sum_over,
    symmetric_product,
)
from tamis.kernels.stacks.chebyshev import Basis, Form, Levels, TwoSided, chebyshev, two_sided, widened
from tamis.parallel import thread_map

if TYPE_CHECKING:
    from tamis.kernels.bank import Channel

MAX_POLYNOMIAL_SHARE = 0.45  # per row: where a sigmoid needs more, its values themselves are quicker


class ChebyshevStack(KernelStack):
    """Kernels of one column each as short sums (`Sums`): products with vectors cost O((m + n) L p).

    Values differ from the exact ones by at most `error_bound`; those of kernels whose basis is None are exact.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        bases: Sequence[Basis | TwoSided | None],
        X: np.ndarray,
        Y: np.ndarray,
        sums: Sums | None = None,
        rest: KernelStack | None = None,
    ):
        self.channels, self.bases, self.X, self.Y = channels, bases, X, Y
        self.shape = (len(channels), X.shape[0], Y.shape[0])
        self.sums = Sums.of(channels, bases, X, Y) if sums is None else sums
        self.exact = np.flatnonzero(self.sums.batches.labels == ALONE)
        self.rest = StreamingStack([channels[int(k)] for k in self.exact], X, Y) if rest is None else rest

    @classmethod
    def evaluate(cls, channels: Sequence[Channel], X: np.ndarray, Y: np.ndarray, *, every: bool) -> ChebyshevStack:
        """Short sums between the rows of X and Y, for `every` kernel or for those that are shorter so."""
        return cls(channels, choose_bases(channels, X, Y, every), X, Y)

    @property
    def error_bound(self) -> np.ndarray:
        """Bounds (L,) of the difference to the exact kernel values."""
        pairs = zip(self.bases, self.channels, strict=True)
        return np.array([0.0 if basis is None else basis.error_bound(channel.kernel) for basis, channel in pairs])

    def held(self, limit: int) -> KernelStack:
        room = limit - 8 * self.sums.entries
        if room < 0:
            return self
        return ChebyshevStack(self.channels, self.bases, self.X, self.Y, self.sums.held(), self.rest.held(room))

    def block(self, kernel: int, rows: slice) -> np.ndarray:
        weights = np.zeros(self.shape[0])
        weights[kernel] = 1.0
        return self.weighted(weights, rows)

    def weighted(self, weights: np.ndarray, rows: slice) -> np.ndarray:
        out = self.sums.weighted(weights, rows)
        return out + self.rest.weighted(weights[self.exact], rows) if np.any(weights[self.exact]) else out

    def product(self, weights: np.ndarray, coef: np.ndarray) -> np.ndarray:
        columns = self._columns(coef)
        out = self.sums.product(weights, columns).reshape(self.shape[1], *coef.shape[1:])
        return out + self.rest.product(weights[self.exact], coef) if np.any(weights[self.exact]) else out

    def apply(self, coef: np.ndarray) -> np.ndarray:
        columns = self._columns(coef)
        out = np.empty((self.shape[1], self.shape[0], columns.shape[1]))
        self.sums.images(self.sums.short, columns, out)
        out = out.reshape(*out.shape[:2], *coef.shape[1:])
        if len(self.exact):
            out[:, self.exact] = self.rest.apply(coef)
        return out

    def inner(self, matrix: np.ndarray) -> np.ndarray:
        out = np.zeros(self.shape[0])
        for rows in self.blocks():
            self.sums.inner(matrix[rows], rows, out)
        out[self.exact] = self.rest.inner(matrix)
        return out

    def _columns(self, coef: np.ndarray) -> np.ndarray:
        if len(coef) != self.shape[2]:
            raise ValueError(f"coef has {len(coef)} rows, but the stack has {self.shape[2]} columns")
        return coef.reshape(len(coef), -1)

    def take(self, rows: Index = ALL, cols: Index = ALL, kernels: Index = ALL) -> ChebyshevStack:
        chosen = np.arange(len(self.channels))[kernels]
        sums = self.sums.take(rows, cols, chosen)
        exact = np.searchsorted(self.exact, chosen[sums.batches.labels == ALONE])
        rest = self.rest.take(rows, cols, exact)
        channels, bases = [self.channels[k] for k in chosen], [self.bases[k] for k in chosen]
        return ChebyshevStack(channels, bases, sums.X, sums.Y, sums, rest)


def choose_bases(
    channels: Sequence[Channel], X: np.ndarray, Y: np.ndarray, every: bool
) -> list[Basis | TwoSided | None]:
    """The basis for each channel on the values that it meets; None (refused if `every`) where there is none.

    A short form that is not shorter than the rows is none, except that `every` also keeps those of the other kernels
    than sigmoids whatever their length.
    """
    low = np.fmin(np.fmin.reduce(X, axis=0, initial=np.inf), np.fmin.reduce(Y, axis=0, initial=np.inf))
    high = np.fmax(np.fmax.reduce(X, axis=0, initial=-np.inf), np.fmax.reduce(Y, axis=0, initial=-np.inf))
    low, high = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
    near, far = (-widened(-low)).tolist(), widened(high).tolist()
    most = MAX_POLYNOMIAL_SHARE * min(len(X), len(Y))
    bases: list[Basis | TwoSided | None] = []
    for channel in channels:
        column = channel.columns[0] if len(channel.columns) == 1 else None
        if column is not None and channel.kernel.tanh_scale is not None:
            form = two_sided(channel.kernel, near[column], far[column])
            bases.append(form if form is not None and form.degrees < most else None)
        elif column is not None and channel.kernel.indicator:
            values = np.unique(np.concatenate([X[:, column], Y[:, column]]))
            bases.append(Levels(tuple(values[~np.isnan(values)].tolist()), nearest=False))
        else:
            basis = None if column is None else chebyshev(channel.kernel, float(low[column]), float(high[column]))
            if every and basis is None:
                raise ValueError(
                    f"kernels: {channel.name!r} has no short polynomial form: form='chebyshev' takes Gaussian, "
                    "polynomial, sigmoid and categorical kernels of one column; use form='dense' or 'streaming'"
                )
            bases.append(basis if every or (basis is not None and basis.size < most) else None)
    return bases


# ---------------------------------------------------------------------- sums


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

    @classmethod
    def of(
        cls, channels: Sequence[Channel], bases: Sequence[Basis | TwoSided | None], X: np.ndarray, Y: np.ndarray
    ) -> Sums:
        """Kernels of one column by their form; a kernel without a basis is alone."""
        pairs = list(zip(channels, bases, strict=True))
        forms = [None if basis is None else basis.form(channel.kernel) for channel, basis in pairs]
        spans = np.array([(0.0, 0.0) if basis is None else basis.span for basis in bases])
        batches = alike(forms, [channel.columns[0] for channel in channels])
        return cls(batches, spans.reshape(-1, 2).T, X, Y)

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

    def chunks(self, kernels: np.ndarray) -> list[np.ndarray]:
        """Chunks of those of the kernels that have a short sum."""
        most = MAX_CHUNK_VALUES // max(1, *self.shape)
        known = kernels[self.batches.labels[kernels] != ALONE]
        return list(self.batches.chunks(known, lambda form: most // max(1, form.size)))

    def images(self, kernels: np.ndarray, coef: np.ndarray, out: np.ndarray) -> None:
        """Write ``K_l coef`` (m, L, q) of some kernels for coef (n, q)."""
        chunks = self.chunks(kernels)

        def write(members: np.ndarray) -> None:
            out[:, members] = self._image(members, coef)

        for_each(write, chunks, self._work(chunks))

    def product(self, weights: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """``sum_l weights[l] K_l coef`` (m, q) for coef (n, q)."""
        chunks = self.chunks(np.flatnonzero(weights))

        def add(members: np.ndarray, total: np.ndarray) -> None:
            total += np.einsum("mcq,c->mq", self._image(members, coef), weights[members])

        return sum_over(add, chunks, (self.shape[0], coef.shape[1]), self._work(chunks))

    def weighted(self, weights: np.ndarray, rows: slice) -> np.ndarray:
        """``sum_l weights[l] K_l`` on some rows, as products of two tall matrices."""
        chunks = self.chunks(np.flatnonzero(weights))
        m, n = rows.stop - rows.start, self.shape[1]

        def add(members: np.ndarray, total: np.ndarray) -> None:
            left, middle, right = self._pair_on(members, rows)
            scale = np.outer(middle, weights[members]).ravel()
            F, G = left.reshape(len(scale), m), right.reshape(len(scale), n)
            total += symmetric_product(F, scale) if left is right else F.T @ (G * scale[:, None])

        return sum_over(add, chunks, (m, n), self._work(chunks))

    def inner(self, matrix: np.ndarray, rows: slice, out: np.ndarray) -> None:
        """Add ``sum_ij (K_l)_ij matrix_ij`` over some rows, of which `matrix` (m, n) has values, to out (L,)."""
        chunks = self.chunks(self.short)

        def write(members: np.ndarray) -> None:
            left, middle, right = self._pair_on(members, rows)
            inside = left @ matrix
            out[members] += middle @ np.einsum("rcn,rcn->rc", inside, right)

        for_each(write, chunks, self._work(chunks))

    def held(self) -> HeldSums:
        """The same with all factors kept."""
        chunks = self.chunks(self.short)
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

    def _image(self, members: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """``K_l coef`` (m, c, q) of one chunk, in slices of the rows where these are many."""
        m, n = self.shape
        step = self._rows_at_once(members)
        if step >= max(m, n):
            left, middle, right = self.pair(members)
            return _times(left, (right @ coef) * middle[:, None, None])
        inside = sum(self.right(members, cols) @ coef[cols] for cols in slices(n, step))
        inside *= self.middle(members)[:, None, None]
        return np.concatenate([_times(self.left(members, rows), inside) for rows in slices(m, step)])

    def _rows_at_once(self, members: np.ndarray) -> int:
        return max(1, MAX_CHUNK_VALUES // max(1, self.size(members)))

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

    def chunks(self, kernels: np.ndarray) -> list[np.ndarray]:
        known = kernels[self.batches.labels[kernels] != ALONE]
        return list(self.batches.chunks(known, lambda pair: pair.left.shape[1]))

    def _rows_at_once(self, members: np.ndarray) -> int:
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


def _times(left: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """``sum_r left[r, c, m] inside[r, c, q]`` as (m, c, q)."""
    return (left.transpose(1, 2, 0) @ inside.transpose(1, 0, 2)).swapaxes(0, 1)
