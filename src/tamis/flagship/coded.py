"""Rows as bytes, and the sums over them from which curves and surfaces are fitted.

Once columns and their cells are fixed, a row is two bytes for each column: in which cell its value is, and how far
between the ends of that cell, in steps of 1 / 255. All tables of a model, one after another, are a vector theta, and
the scores of the rows are ``A theta``, where a row of the sparse matrix A has two entries for each number (the shares
of the left and of the right end of its cell), one for each category and for each pair, and one for the intercept. A
pass over the rows returns the loss and its gradient ``A' (Y - P)``, block by block in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.sparse import block_diag, csr_matrix, diags, eye, kron, sparray

from tamis.flagship.cells import Cells, Curve, Places, Surface
from tamis.flagship.likelihood import Likelihood

STEPS = 255  # of the way through a cell
CHUNK_ROWS = 1 << 12  # rows whose matrix is made at a time, few enough for a cache
ROUGHNESS = 1e-3  # of the ridge on a table itself, relative to that on its movements; keeps empty cells finite
SURFACE_RIDGE = 3.0  # of the ridge on the values of a surface, relative to that on its movements


@dataclass(frozen=True)
class CodedRows:
    """Rows of positive weight.

    Attributes
    ----------
    cell, share : (n, d) bytes, the cell of each column and the share of the way through it
    target : (n,) codes of classes, or numbers to predict
    weight : (n,) weights in the loss, or None where all are one
    check : sums over the rows of a block, with the first of its pieces; empty with the others
    """

    cell: np.ndarray
    share: np.ndarray
    target: np.ndarray
    weight: np.ndarray | None
    check: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.uint64))

    def __len__(self) -> int:
        return len(self.target)

    @property
    def arrays(self) -> list[np.ndarray]:
        """What a file holds of them; see `of_arrays`."""
        return [self.check, self.cell, self.share, self.target, *([] if self.weight is None else [self.weight])]

    @classmethod
    def of_arrays(cls, arrays: Sequence[np.ndarray]) -> CodedRows:
        """The rows of a file."""
        check, cell, share, target, *weight = arrays
        if len({len(part) for part in arrays[1:]}) > 1 or cell.shape != share.shape or len(weight) > 1:
            raise ValueError("these arrays are not of the same rows")
        return cls(cell, share, target, weight[0] if weight else None, check)

    def take(self, rows: np.ndarray | slice) -> CodedRows:
        weight = None if self.weight is None else self.weight[rows]
        return CodedRows(self.cell[rows], self.share[rows], self.target[rows], weight)


def check_of(rows: CodedRows) -> Check:
    """Return the sums over the rows of a block."""
    return Check(rows.check)


class Check:
    """Sums that wrap around; empty ones count as zero."""

    def __init__(self, values: np.ndarray):
        self.values = values

    def __add__(self, other: Check) -> Check:
        if not len(self.values) or not len(other.values):
            return other if len(other.values) else self
        return Check(self.values + other.values)


def weight_of(rows: CodedRows) -> float:
    """Return the weight of rows."""
    return float(len(rows)) if rows.weight is None else float(rows.weight.sum())


def select_columns(rows: CodedRows, columns: np.ndarray) -> CodedRows:
    """Return rows with some of their columns."""
    return replace(rows, cell=rows.cell[:, columns], share=rows.share[:, columns])


def code_places(places: Sequence[Places], target: np.ndarray, weight: np.ndarray | None) -> CodedRows:
    """Return rows whose values have these places in the cells of each column."""
    cell = np.empty((len(target), len(places)), dtype=np.uint8)
    share = np.empty_like(cell)
    for j, own in enumerate(places):
        cell[:, j] = own.cell
        share[:, j] = np.rint(own.share * STEPS)
    return CodedRows(cell, share, target, weight)


@dataclass(frozen=True)
class Layout:
    """Where in theta the tables of columns and pairs are.

    A number has two values for each of its cells and for missing values, a category (or a number with few values, which
    is constant in each cell) one for each cell, for missing values and for unseen levels. A pair has one for each
    product of coarse cells. Unseen levels have no value: their entries of A are zero.

    Attributes
    ----------
    cells : of each of d columns
    flat : (d,) whether a column is constant in each of its cells
    pairs : (M, 2) columns
    groups : for each column its coarse cell (cells,) of each cell; the last two are missing values and unseen levels.
        Empty if there are no pairs
    """

    cells: tuple[Cells, ...]
    flat: np.ndarray
    pairs: np.ndarray
    groups: tuple[np.ndarray, ...]

    @cached_property
    def widths(self) -> np.ndarray:
        """Values of each column."""
        sizes = np.array([own.size + 2 for own in self.cells], dtype=int)
        return np.where(self.flat, sizes, 2 * sizes)

    @cached_property
    def starts(self) -> np.ndarray:
        """The first value of each column, and the end of the last."""
        return np.r_[0, np.cumsum(self.widths)]

    @cached_property
    def sides(self) -> np.ndarray:
        """Coarse cells of each column."""
        return np.array([int(own.max()) + 1 for own in self.groups], dtype=int)

    @cached_property
    def pair_starts(self) -> np.ndarray:
        """The first value of each pair, and the end of the last, which is the place of the intercept."""
        sizes = [int(self.sides[a] * self.sides[b]) for a, b in self.pairs]
        return self.starts[-1] + np.r_[0, np.cumsum(np.array(sizes, dtype=int))]

    @property
    def size(self) -> int:
        """Length of theta."""
        return int(self.pair_starts[-1]) + 1

    @cached_property
    def _sloped(self) -> np.ndarray:
        return np.flatnonzero(~self.flat)

    @cached_property
    def _level(self) -> np.ndarray:
        return np.flatnonzero(self.flat)

    @property
    def entries(self) -> int:
        """Entries of a row of the matrix."""
        return 2 * len(self._sloped) + len(self._level) + len(self.pairs) + 1

    @cached_property
    def _coarse(self) -> np.ndarray:
        """Coarse cells (d, 256) of each cell."""
        out = np.zeros((len(self.cells), 256), dtype=np.int32)
        for j, own in enumerate(self.groups):
            out[j, : len(own)] = own
        return out

    def matrix(self, rows: CodedRows) -> csr_matrix:
        """Return A (n, size)."""
        n, sloped, level, pairs = len(rows), self._sloped, self._level, self.pairs
        index = np.empty((n, self.entries), dtype=np.int32)
        value = np.ones((n, self.entries))
        k = 2 * len(sloped)
        place = 2 * rows.cell[:, sloped].astype(np.int32) + self.starts[sloped].astype(np.int32)
        index[:, 0:k:2], index[:, 1:k:2] = place, place + 1
        np.multiply(rows.share[:, sloped], 1.0 / STEPS, out=value[:, 1:k:2])
        np.subtract(1.0, value[:, 1:k:2], out=value[:, 0:k:2])
        if len(level):
            cell = rows.cell[:, level]
            index[:, k : k + len(level)] = cell + self.starts[level].astype(np.int32)
            last = np.array([self.cells[j].size + 1 for j in level])
            value[:, k : k + len(level)] = cell < last
            k += len(level)
        if len(pairs):
            coarse = self._coarse[np.arange(len(self.cells)), rows.cell]
            first, second = coarse[:, pairs[:, 0]], coarse[:, pairs[:, 1]]
            sides = self.sides.astype(np.int32)
            starts = self.pair_starts[:-1].astype(np.int32)
            index[:, k:-1] = first * sides[pairs[:, 1]] + second + starts
            if self.has_unseen:
                ends = self.sides - 1
                value[:, k:-1] = (first != ends[pairs[:, 0]]) & (second != ends[pairs[:, 1]])
        index[:, -1] = self.size - 1
        rows_at = np.arange(0, index.size + 1, self.entries, dtype=np.int32)
        return csr_matrix((value.ravel(), index.ravel(), rows_at), shape=(n, self.size))

    @property
    def has_unseen(self) -> bool:
        """Whether a cell of a pair may stand for unseen levels."""
        return any(not self.cells[j].is_number for pair in self.pairs for j in pair)

    def penalty(self, curve_ridge: float, surface_ridge: float) -> sparray:
        """Return the matrix of the penalty ``theta' Q theta / 2``; the intercept has none.

        The values of a number, or of a surface along either axis, are like a random walk from end to end, whose
        variance is one over the ridge, however many cells there are.
        """
        parts = []
        for j, own in enumerate(self.cells):
            width, chain = int(self.widths[j]), own.size if self.flat[j] else 2 * own.size
            if own.is_number:
                walk = np.full(width, ROUGHNESS)
                walk[chain:] = 1.0
                parts.append(curve_ridge * (_walk(width, chain) * max(chain - 1, 1) + diags(walk)))
            else:
                parts.append(curve_ridge * eye(width))
        for a, b in self.pairs:
            sides, walks = self.sides[[a, b]], []
            for j, side in zip((a, b), sides, strict=True):
                chain = side - 2 if self.cells[j].is_number else 0
                walks.append(_walk(side, chain) * max(chain - 1, 1))
            both = kron(walks[0], eye(sides[1])) + kron(eye(sides[0]), walks[1])
            parts.append(surface_ridge * (both + SURFACE_RIDGE * eye(sides[0] * sides[1])))
        return block_diag([*parts, csr_matrix((1, 1))], format="csr")

    # ------------------------------------------------------------------ tables

    def curve(self, theta: np.ndarray, column: int) -> Curve:
        """Return the table (size + 2, c) of a column."""
        own = theta[self.starts[column] : self.starts[column + 1]]
        left, right = (own.copy(), own.copy()) if self.flat[column] else (own[0::2].copy(), own[1::2].copy())
        size = self.cells[column].size
        right[size] = left[size]
        left[size + 1] = right[size + 1] = 0.0
        return Curve(left, right)

    def surface(self, theta: np.ndarray, k: int) -> Surface:
        """Return the surface of a pair."""
        a, b = (int(j) for j in self.pairs[k])
        own = theta[self.pair_starts[k] : self.pair_starts[k + 1]]
        values = own.reshape(self.sides[a], self.sides[b], -1).copy()
        values[-1], values[:, -1] = 0.0, 0.0
        return Surface((a, b), (self.groups[a], self.groups[b]), values)


def _walk(width: int, chain: int) -> sparray:
    """The matrix of the sum of squared differences between the first `chain` of `width` neighbouring values."""
    on = np.zeros(max(width - 1, 0))
    on[: max(chain - 1, 0)] = 1.0
    middle = np.r_[on, 0.0] + np.r_[0.0, on]
    return diags([middle, -on, -on], [0, 1, -1])


@dataclass(frozen=True)
class Sums:
    """Sums over rows: the loss, its gradient (size, c) with the sign of a step, and the curvature (size, c)."""

    loss: float
    gradient: np.ndarray
    curvature: np.ndarray

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.loss + other.loss, self.gradient + other.gradient, self.curvature + other.curvature)

    def __sub__(self, other: Sums) -> Sums:
        return Sums(self.loss - other.loss, self.gradient - other.gradient, self.curvature - other.curvature)


def targets_of(target: np.ndarray, outputs: int) -> np.ndarray:
    """Return targets (n, c) from codes of classes or numbers."""
    if target.dtype.kind == "f" or outputs == 1:
        return target.astype(float)[:, None]
    return (target[:, None] == np.arange(outputs)).astype(float)


def sum_block(layout: Layout, likelihood: Likelihood, theta: np.ndarray, rows: CodedRows) -> Sums:
    """Return the sums over a block of rows."""
    outputs, loss = theta.shape[1], 0.0
    total = np.zeros((len(theta), 2 * outputs))
    for start in range(0, len(rows), CHUNK_ROWS):
        some = rows.take(slice(start, start + CHUNK_ROWS))
        A, Y = layout.matrix(some), targets_of(some.target, outputs)
        F = A @ theta
        P = likelihood.mean(F)
        both, losses = np.hstack([likelihood.gradient(P, Y), likelihood.curvature(P)]), likelihood.losses(F, Y)
        if some.weight is not None:
            both *= some.weight[:, None]
            losses = losses * some.weight
        total += A.T @ both
        loss += float(losses.sum())
    return Sums(loss, total[:, :outputs], total[:, outputs:])


def masses(layout: Layout, rows: CodedRows) -> np.ndarray:
    """Return the weight (size,) of the rows on each value of theta, those of unseen levels included."""
    out = np.zeros(layout.size)
    for start in range(0, len(rows), CHUNK_ROWS):
        some = rows.take(slice(start, start + CHUNK_ROWS))
        A = layout.matrix(some)
        A.data.reshape(len(some), -1)[:, 2 * np.count_nonzero(~layout.flat) :] = 1.0
        out += A.T @ (np.ones(len(some)) if some.weight is None else some.weight)
    return out
