"""Kernels as products of short factors: ``K_l ~ F_l F_l'`` on the training rows.

Pivoted Cholesky takes the column of the largest residual variance, again and again, until no variance is
larger than 1e-9 times the largest one, or, if there is room for more rows, 1e-9 times what the first column left:
a nearly constant kernel keeps its variation. A smooth kernel of few columns needs few factors however many
rows there are, and every product with a vector is then linear in the rows. The residual of a positive
semi-definite kernel is one too, so no value is off by more than the largest residual variance.

A kernel that needs too many factors, or is not positive semi-definite, is streamed: its values are computed
in blocks at every use.

**Through landmarks**, ``K_l ~ C_l W_l^+ C_l'`` from the values with a few rows [Williams2001]. C_l (n, m) are the
values between the rows and the landmarks, W_l (m, m) those between the landmarks. Pivoted Cholesky takes landmarks P
until no variance among them is larger than 1e-8 times what the first one left; then with ``W_PP = R'R`` the factor of
a kernel is ``F = R'^-1 C_P'`` and ``K_l ~ F'F``. The result is exact between landmarks, to that tolerance, and never
more than K_l in the order of matrices, so that what it lacks of the diagonal bounds the error of every value.
Coefficients alpha of all rows become coefficients of the landmarks: ``F'(F alpha) = C_P beta`` with ``beta = R^-1 F
alpha``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from tamis.codec import stored
from tamis.kernels.base import diagonal
from tamis.kernels.stacks.base import (
    ALL,
    Index,
    KernelStack,
    StreamingStack,
    for_each,
    slices,
    symmetric_product,
    used_rows,
)
from tamis.optim.matrices import LowRank

if TYPE_CHECKING:
    from tamis.kernels.bank import Channel

VARIANCE_TOL = 1e-9  # residual variance that may remain, relative to the largest; the aim is as much of its variation
ROUNDING = 1e-14  # the least that is aimed at
ROWS_PER_FACTOR = 8  # rows per factor: a kernel that needs more factors is streamed
MAX_FACTOR_VALUES = 1 << 27  # most entries of all factors
MAX_BATCH_VALUES = 1 << 24  # most entries of the factors that are made side by side
SIDE_BY_SIDE = 64  # most kernels that are factored side by side
LANDMARK_TOLERANCE = 1e-8  # variance among landmarks that may remain, relative to what the first one left
LANDMARK_ROUNDING = 1e-13  # and at the least, relative to the largest
LANDMARK_VALUES = 1 << 20  # most values between rows and landmarks that are computed at a time


class Factor(NamedTuple):
    """Rows (r, n) of a factor, the largest variance that was left before each (r,), and after the last."""

    rows: np.ndarray
    heights: np.ndarray
    error: float


class FactoredStack(KernelStack):
    """Kernels as ``left_l' right_l`` with few rows in left_l and right_l; values of the others come from `rest`.

    Attributes
    ----------
    left, right : (R, m) and (R, n), the factors of all kernels one below the other; one array where rows and
        columns are the same
    owner : (R,) the kernel of each row, ascending
    heights : (R,) by how much values may be off without this row and those of the same kernel after it
    streamed : the kernels of `rest`, ascending
    error_bound : (L,) bounds of the difference to the exact kernel values, rounding apart
    """

    def __init__(
        self,
        left: np.ndarray,
        right: np.ndarray,
        owner: np.ndarray,
        heights: np.ndarray,
        error_bound: np.ndarray,
        streamed: np.ndarray,
        rest: KernelStack,
    ):
        self.left, self.right, self.owner, self.heights = left, right, owner, heights
        self.error_bound, self.streamed, self.rest = error_bound, streamed, rest
        self.shape = (len(error_bound), left.shape[1], right.shape[1])

    @classmethod
    def evaluate(cls, channels: Sequence[Channel], X: np.ndarray) -> FactoredStack:
        """Factor the kernels between the rows of X."""
        factors = factorise(channels, X)
        short = [factor for factor in factors if factor is not None]
        rows = np.concatenate([np.empty((0, len(X))), *(factor.rows for factor in short)])
        ranks = [0 if factor is None else len(factor.rows) for factor in factors]
        streamed = np.array([k for k, factor in enumerate(factors) if factor is None], dtype=int)
        return cls(
            rows,
            rows,
            np.repeat(np.arange(len(factors)), ranks),
            np.concatenate([np.empty(0), *(factor.heights for factor in short)]),
            np.array([0.0 if factor is None else factor.error for factor in factors]),
            streamed,
            StreamingStack([channels[k] for k in streamed], X, X),
        )

    def held(self, limit: int) -> FactoredStack:
        rest = self.rest.held(limit)
        return FactoredStack(self.left, self.right, self.owner, self.heights, self.error_bound, self.streamed, rest)

    def rough(self, level: float) -> KernelStack:
        if len(self.streamed):
            return self
        size = self.heights[np.searchsorted(self.owner, self.owner)]
        used = self.heights > level * size
        left = self.left[used]
        right = left if self.left is self.right else self.right[used]
        error = self.error_bound.copy()
        np.maximum.at(error, self.owner[~used], self.heights[~used])
        return FactoredStack(left, right, self.owner[used], self.heights[used], error, self.streamed, self.rest)

    def _by_kernel(self, values: np.ndarray, rest: np.ndarray | float) -> np.ndarray:
        """Sums (L,) over the factors of each kernel; the other kernels have their values in `rest`."""
        out = np.bincount(self.owner, weights=values, minlength=self.shape[0]).astype(float)  # of nothing: integers
        out[self.streamed] = rest
        return out

    def _members(self, kernel: int) -> slice:
        first, last = np.searchsorted(self.owner, [kernel, kernel + 1])
        return slice(int(first), int(last))

    def block(self, kernel: int, rows: slice) -> np.ndarray:
        place = int(np.searchsorted(self.streamed, kernel))
        if place < len(self.streamed) and self.streamed[place] == kernel:
            return self.rest.block(place, rows)
        members = self._members(kernel)
        return self.left[members, rows].T @ self.right[members]

    def weighted(self, weights: np.ndarray, rows: slice) -> np.ndarray:
        scale = weights[self.owner]
        if self.left is self.right and rows == slice(0, self.shape[1]):
            out = symmetric_product(self.left, scale)
        else:
            left, right = (used_rows(factor, scale != 0) for factor in (self.left[:, rows], self.right))
            scale = scale[scale != 0, None]
            out = (left * scale).T @ right if left.size < right.size else left.T @ (right * scale)
        if np.any(weights[self.streamed]):
            out += self.rest.weighted(weights[self.streamed], rows)
        return out

    def product(self, weights: np.ndarray, coef: np.ndarray) -> np.ndarray:
        inside = self.right @ coef
        inside *= weights[self.owner].reshape(-1, *[1] * (coef.ndim - 1))
        out = self.left.T @ inside
        if np.any(weights[self.streamed]):
            out += self.rest.product(weights[self.streamed], coef)
        return out

    def apply(self, coef: np.ndarray) -> np.ndarray:
        out = np.empty((self.shape[1], self.shape[0], *coef.shape[1:]))
        inside = self.right @ coef
        for k in range(self.shape[0]):
            members = self._members(k)
            out[:, k] = self.left[members].T @ inside[members]
        if len(self.streamed):
            out[:, self.streamed] = self.rest.apply(coef)
        return out

    def quad(self, left: np.ndarray, right: np.ndarray | None = None) -> np.ndarray:
        inside = self.left @ left
        if right is not None or self.left is not self.right:
            inside *= self.right @ (left if right is None else right)
        else:
            inside *= inside
        return self._by_kernel(inside, self.rest.quad(left, right))

    def inner(self, matrix: np.ndarray) -> np.ndarray:
        sums = np.einsum("rn,rn->r", self.left @ matrix, self.right)
        return self._by_kernel(sums, self.rest.inner(matrix))

    def gram(self, kernels: np.ndarray) -> np.ndarray:
        """As in the base class; of two short kernels ``|left_k left_l'|^2`` for equal rows and columns."""
        out = np.empty((len(kernels), self.shape[0]))
        chosen = np.array(kernels, dtype=int)
        short = np.flatnonzero(~np.isin(chosen, self.streamed))
        long = np.setdiff1d(np.arange(len(chosen)), short)
        if len(long):
            out[long] = self._gram_of_streamed(np.searchsorted(self.streamed, chosen[long]))

        def write(chunk: np.ndarray) -> None:
            place = int(chunk[0])
            members = self._members(int(chosen[place]))
            products = self.left[members] @ self.left.T
            products *= products if self.left is self.right else self.right[members] @ self.right.T
            out[place] = self._by_kernel(products.sum(axis=0), 0.0)
            if len(self.streamed):
                out[place, self.streamed] = self.rest.inner(self.one(int(chosen[place])))

        for_each(write, list(short[:, None]), len(short) * self.left.size)
        return out

    def _gram_of_streamed(self, places: np.ndarray) -> np.ndarray:
        """Inner products (len(places), L) of kernels of `rest` with all."""
        out = np.empty((len(places), self.shape[0]))
        for row, place in zip(out, places.tolist(), strict=True):
            sums = np.einsum("rn,rn->r", self.left @ self.rest.one(place), self.right)
            row[:] = self._by_kernel(sums, 0.0)
        out[:, self.streamed] = self.rest.gram(places)
        return out

    def diagonal(self) -> np.ndarray:
        out = np.zeros((self.shape[0], self.shape[1]))
        if len(self.owner):
            short, first = np.unique(self.owner, return_index=True)
            out[short] = np.add.reduceat(self.left * self.right, first, axis=0)
        if len(self.streamed):
            out[self.streamed] = self.rest.diagonal()
        return out

    def take(self, rows: Index = ALL, cols: Index = ALL, kernels: Index = ALL) -> FactoredStack:
        left, right, owner, heights = self.left, self.right, self.owner, self.heights
        chosen = np.arange(self.shape[0])[kernels]
        if len(chosen) != self.shape[0] or np.any(np.diff(chosen) != 1):
            parts = [np.empty(0, dtype=int), *(np.arange(len(owner))[self._members(k)] for k in chosen)]
            members = np.concatenate(parts)
            owner = np.repeat(np.arange(len(chosen)), [len(part) for part in parts[1:]])
            left, heights = self.left[members], self.heights[members]
            right = left if self.left is self.right else self.right[members]
        same = left is right and _same(rows, cols)
        left = left[:, rows]
        streamed = np.flatnonzero(np.isin(chosen, self.streamed))
        rest = self.rest.take(rows, cols, np.searchsorted(self.streamed, chosen[streamed]))
        right = left if same else right[:, cols]
        return FactoredStack(left, right, owner, heights, self.error_bound[chosen], streamed, rest)


def _same(rows: Index, cols: Index) -> bool:
    return rows is cols or (isinstance(rows, slice) and isinstance(cols, slice) and rows == cols)


# ---------------------------------------------------------------------- factors


def factorise(channels: Sequence[Channel], X: np.ndarray) -> list[Factor | None]:
    """A factor of each kernel between the rows of X; None for those that are to be streamed."""
    n, L = len(X), len(channels)
    limit = max(1, min(n // ROWS_PER_FACTOR, MAX_FACTOR_VALUES // max(1, n * L)))
    factors: list[Factor | None] = [None] * L
    lines = {k: channel.kernel.gaussian_bandwidth for k, channel in enumerate(channels) if len(channel.columns) == 1}
    alike = np.array([k for k, width in lines.items() if width is not None], dtype=int)
    columns = np.array([channels[k].columns[0] for k in alike], dtype=int)
    widths = np.array([lines[k] for k in alike], dtype=float)
    step = max(1, min(SIDE_BY_SIDE, MAX_BATCH_VALUES // max(1, limit * n)))
    order = np.argsort(-widths, kind="stable")  # of similar rank side by side
    for some in (order[start : start + step] for start in range(0, len(alike), step)):
        for k, factor in zip(alike[some], _gaussians(X[:, columns[some]].T, widths[some], limit), strict=True):
            factors[k] = factor
    for k in np.setdiff1d(np.arange(L), alike):
        factors[k] = _general(channels[k], X, limit)
    return factors


def _gaussians(Z: np.ndarray, widths: np.ndarray, limit: int) -> list[Factor | None]:
    """Factors of Gaussians of one column each, Z (kernels, n), side by side."""
    absent = np.isnan(Z)
    Z = np.where(absent, 0.0, Z)
    variance = np.where(absent, 0.0, 1.0)
    each, (L, n) = np.arange(len(Z)), Z.shape
    exponent = (-0.5 / widths**2)[:, None]
    F, heights = np.empty((L, limit, n)), np.empty((L, limit))
    rank, floor, gaps = np.full(L, -1), np.zeros(L), absent.any()
    for step in range(limit + 1):
        pivot = variance.argmax(axis=1)
        largest = variance[each, pivot]
        if step == 1:
            floor = np.maximum(VARIANCE_TOL * largest, ROUNDING)
        if step == limit:
            floor = np.maximum(floor, VARIANCE_TOL)  # more accuracy than that is not needed
        rank[(rank < 0) & (largest <= floor)] = step
        if step == limit or np.all(rank >= 0):
            break
        column = Z - Z[each, pivot][:, None]
        column *= column
        column *= exponent
        np.exp(column, out=column)
        if gaps:
            column[absent] = 0.0
        if step:
            column -= (F[each, :step, pivot][:, None] @ F[:, :step])[:, 0]
        column *= np.where(rank < 0, 1.0 / np.sqrt(np.maximum(largest, floor)), 0.0)[:, None]
        F[:, step], heights[:, step] = column, largest
        column *= column
        variance -= column
    errors = np.maximum(variance.max(axis=1), 0.0)
    return [Factor(F[k, :r], heights[k, :r], float(errors[k])) if r >= 0 else None for k, r in enumerate(rank)]


def _general(channel: Channel, X: np.ndarray, limit: int) -> Factor | None:
    """The factor of any kernel. Where it is not known to be positive semi-definite all its values are compared."""
    factor = _pivoted(lambda j: channel(X, X[[j]])[:, 0], diagonal_of(channel, X), limit)
    if factor is None or channel.kernel.positive:
        return factor
    stream = StreamingStack([channel], X, X)
    size = float(np.max(np.abs(diagonal_of(channel, X)), initial=0.0))
    error = 0.0
    for rows in stream.blocks():
        error = max(error, float(np.max(np.abs(stream.block(0, rows) - factor.rows[:, rows].T @ factor.rows))))
        if error > VARIANCE_TOL * size:
            return None
    return factor._replace(error=error)


def _pivoted(column: Callable[[int], np.ndarray], diagonal: np.ndarray, limit: int) -> Factor | None:
    """Pivoted Cholesky from single columns; None if more than `limit` are needed or a variance is negative."""
    variance = np.array(diagonal, dtype=float)
    size = float(np.max(np.abs(variance), initial=0.0))
    F, heights = np.empty((limit, len(variance))), np.empty(limit)
    floor = 0.0
    for step in range(limit + 1):
        pivot = int(variance.argmax())
        largest = float(variance[pivot])
        if step == 1:
            floor = max(VARIANCE_TOL * largest, ROUNDING * size)
        if largest <= floor or step == limit:
            floor = max(floor, VARIANCE_TOL * size)
            break
        heights[step] = largest
        F[step] = (column(pivot) - F[:step, pivot] @ F[:step]) / np.sqrt(largest)
        variance -= F[step] ** 2
    if largest > floor or variance.min() < -VARIANCE_TOL * size:
        return None
    return Factor(F[:step], heights[:step], max(largest, 0.0))


def diagonal_of(channel: Channel, X: np.ndarray) -> np.ndarray:
    """k(x, x) for every row."""
    if channel.kernel.unit:
        return channel.kernel.presence(X[:, list(channel.columns)]).astype(float)
    return diagonal(channel, X)


# ---------------------------------------------------------------------- landmarks


class Landmarks(NamedTuple):
    """The landmarks (r,) that stand for a kernel, as positions among all, and R (r, r), upper triangular."""

    landmarks: np.ndarray
    root: np.ndarray


@stored
@dataclass(frozen=True)
class LandmarkError:
    """How far kernels through landmarks are off, as shares of the variance k(x, x) of the training rows.

    Attributes
    ----------
    mean, largest : (L,) over the rows that have the kernel; zero where all of it is there
    rank : (L,) landmarks that stand for each kernel; the others of them add nothing to it
    """

    mean: np.ndarray
    largest: np.ndarray
    rank: np.ndarray

    def take(self, kernels: np.ndarray) -> LandmarkError:
        return LandmarkError(self.mean[kernels], self.largest[kernels], self.rank[kernels])


class LandmarkStack(FactoredStack):
    """Kernels between the rows as products of factors that landmarks span."""

    bases: Sequence[Landmarks]  # of every kernel
    error: LandmarkError  # what the factors lack

    @classmethod
    def through(cls, channels: Sequence[Channel], X: np.ndarray, landmarks: np.ndarray) -> LandmarkStack:
        """Factor the kernels between the rows of X (n, d) through some of them, `landmarks` (m,)."""
        Y = X[landmarks]
        bases = [_basis(channel(Y, Y)) for channel in channels]
        ranks = np.array([len(basis.landmarks) for basis in bases], dtype=int)
        left, ends = np.empty((int(ranks.sum()), len(X))), np.cumsum(ranks)
        mean, largest, bound = (np.zeros(len(bases)) for _ in range(3))
        for k, (channel, basis) in enumerate(zip(channels, bases, strict=True)):
            part = left[ends[k] - ranks[k] : ends[k]]
            _fill(part, channel, basis, X, Y)
            size = diagonal_of(channel, X)
            lacking = np.maximum(size - np.einsum("rn,rn->n", part, part), 0.0)
            share = np.divide(lacking, size, out=np.zeros(len(X)), where=size > 0)
            there = np.count_nonzero(size > 0)
            mean[k], largest[k], bound[k] = share.sum() / max(1, there), share.max(), lacking.max()
        owner = np.repeat(np.arange(len(bases)), ranks)
        nothing = np.empty(0, dtype=int)
        out = cls(left, left, owner, np.ones(len(owner)), bound, nothing, StreamingStack([], X, X))
        out.bases, out.error = bases, LandmarkError(mean, largest, ranks)
        return out

    def rough(self, level: float) -> LandmarkStack:
        return self

    def held(self, limit: int) -> LandmarkStack:
        return self

    def matrix(self, weights: np.ndarray) -> LowRank:
        return LowRank(self.left, weights[self.owner])

    def take(self, rows: Index = ALL, cols: Index = ALL, kernels: Index = ALL) -> FactoredStack:
        part = super().take(rows, cols, kernels)
        if part.left is not part.right:
            return part
        nothing = np.empty(0, dtype=int)
        out = LandmarkStack(part.left, part.left, part.owner, part.heights, part.error_bound, nothing, part.rest)
        chosen = np.arange(self.shape[0])[kernels]
        out.bases, out.error = [self.bases[k] for k in chosen], self.error.take(chosen)
        return out

    def folded(self, weights: np.ndarray, coef: np.ndarray, n_landmarks: int) -> np.ndarray:
        """Coefficients (m, L) of landmarks and kernels that give the images of ``weights[l] K_l coef``, coef (n,)."""
        out = np.zeros((n_landmarks, self.shape[0]))
        inside = self.left @ coef
        for k in np.flatnonzero(weights).tolist():
            basis = self.bases[k]
            if not len(basis.landmarks):  # older LAPACK wrappers refuse empty systems
                continue
            out[basis.landmarks, k] = weights[k] * solve_triangular(basis.root, inside[self._members(k)])
        return out


def _basis(W: np.ndarray) -> Landmarks:
    """Landmarks and the root of their matrix, by pivoted Cholesky of W (m, m)."""
    W = 0.5 * (W + W.T)
    size = W.diagonal()
    first = int(np.argmax(size))
    if not len(W) or size[first] <= 0:
        return Landmarks(np.empty(0, dtype=int), np.empty((0, 0)))
    left = float(np.max(size - W[first] ** 2 / size[first]))
    root, pivots, rank, _ = dpstrf(W, tol=max(LANDMARK_TOLERANCE * left, LANDMARK_ROUNDING * float(size[first])))
    return Landmarks(pivots[:rank].astype(int) - 1, np.triu(root[:rank, :rank]))


def _fill(part: np.ndarray, channel: Channel, basis: Landmarks, X: np.ndarray, Y: np.ndarray) -> None:
    """Write ``R'^-1 C_P'`` into `part` (r, n), some rows at a time."""
    if not len(part):
        return
    chosen = Y[basis.landmarks]
    for rows in slices(len(X), LANDMARK_VALUES // len(part)):
        part[:, rows] = solve_triangular(basis.root, channel(X[rows], chosen).T, trans="T", check_finite=False)
