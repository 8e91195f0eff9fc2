"""Training rows as places in cells, and the folds on which everything is fitted.

A number is cut into at most `MAX_CELLS` intervals of about equal weight, at midpoints between neighbouring values; a
category has its most frequent levels. From then on a fit sees two small numbers for each cell of the table of rows: in
which cell it is, and how far between its ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix

from tamis.errors import warn
from tamis.flagship.cells import Cells, Curve, Places
from tamis.table.encoding import Encoder, Nominal, Number, Position, level_masses
from tamis.table.rows import Rows
from tamis.table.table import Table

MAX_CELLS = 48
COARSE = 12  # cells of either side of a surface
MANY = 20_000  # rows above which there are more of both, up to these:
MAX_FINE_CELLS, MAX_FINE_COARSE = 128, 32
CAP_ROUNDS = 20  # in which the cells that frequent values leave over go to the others
MAX_FLAT_CELLS = 12  # values of a number up to which nothing is said about what is between them
MAX_MODULUS = 1e307  # of numbers whose differences are floats
IDENTIFIER_SHARE, MIN_IDENTIFIERS = 0.9, 10  # levels per row, and levels, above which a category names single rows


def resolution(n_rows: int) -> tuple[int, int]:
    """Return the most cells of a curve, and of either side of a surface, for so many rows."""
    growth = max(1.0, n_rows / MANY) ** (1 / 3)
    return min(MAX_FINE_CELLS, round(MAX_CELLS * growth)), min(MAX_FINE_COARSE, round(COARSE * growth))


@dataclass(frozen=True)
class Design:
    """Rows as places in the cells of columns.

    Attributes
    ----------
    cells : of each of d columns
    cell, share : (n, d) where the rows are
    weight : (n,) of the rows, with mean one over the rows of the input
    """

    cells: tuple[Cells, ...]
    cell: np.ndarray
    share: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(
        cls, encoder: Encoder, table: Table, weight: np.ndarray, most: int = MAX_CELLS, *, capped: bool = False
    ) -> Design:
        """Cut the columns of a table into at most so many cells, and place its rows.

        A frequent value takes the place of several cells, unless the weight of a value is `capped` at that of one.
        """
        Z = encoder.encode(table)
        cells = [_cells(column, Z[:, j], weight, most, capped) for j, column in enumerate(encoder.columns)]
        places = [own.place(Z[:, j]) for j, own in enumerate(cells)]
        cell = np.array([place.cell for place in places], dtype=np.int64).reshape(len(cells), len(weight)).T
        share = np.array([place.share for place in places]).reshape(len(cells), len(weight)).T
        return cls(tuple(cells), np.ascontiguousarray(cell), np.ascontiguousarray(share), weight)

    @property
    def n_columns(self) -> int:
        return len(self.cells)

    @cached_property
    def width(self) -> int:
        """Number of cells that tables of all columns have, those of missing values and of unseen levels included."""
        return max((cells.size for cells in self.cells), default=0) + 2

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number (d,) of intervals or levels of each column."""
        return np.array([cells.size for cells in self.cells], dtype=int)

    @cached_property
    def nominal(self) -> np.ndarray:
        """Mask (d,) of the categories."""
        return np.array([not cells.is_number for cells in self.cells], dtype=bool)

    @cached_property
    def mass(self) -> np.ndarray:
        """Weight (d, width) of the rows in each cell."""
        out = np.zeros((self.n_columns, self.width))
        for j in range(self.n_columns):
            out[j] = np.bincount(self.cell[:, j], self.weight, self.width)
        return out

    @cached_property
    def indicator(self) -> csr_matrix:
        """One row of ones (n, d * width), a one for each column of the table."""
        n, d = self.cell.shape
        places = (self.cell + np.arange(d) * self.width).ravel()
        return csr_matrix((np.ones(n * d), places, np.arange(n + 1) * d), shape=(n, d * self.width))

    @cached_property
    def transposed(self) -> csr_matrix:
        """The transpose of `indicator`."""
        return self.indicator.T.tocsr()

    def take(self, columns: np.ndarray) -> Design:
        """The same rows with some of the columns."""
        cells = tuple(self.cells[j] for j in columns)
        return replace(self, cells=cells, cell=self.cell[:, columns], share=self.share[:, columns])

    def places(self, column: int) -> Places:
        return Places(self.cell[:, column], self.share[:, column])

    def at(self, column: int, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Values (n, ...) of a table over the cells of a column, linear between the ends of each cell."""
        cell, share = self.cell[:, column], self.share[:, column].reshape(-1, *[1] * (left.ndim - 1))
        return left[cell] + share * (right - left)[cell]

    def flat(self, column: int, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A table that is constant in each cell, if a number has few values, one in each cell; else the same table."""
        cells, cell, share = self.cells[column], self.cell[:, column], self.share[:, column]
        if not cells.is_number or cells.size > MAX_FLAT_CELLS:
            return left, right
        where = np.zeros(len(left))
        where[cell] = share
        if not np.array_equal(where[cell], share):
            return left, right
        level = left + where[:, None] * (right - left)
        return level, level

    def curve(self, column: int, left: np.ndarray, right: np.ndarray) -> Curve:
        """The curve of a column from tables (width, q)."""
        size = self.cells[column].size + 2
        return Curve(left[:size].copy(), right[:size].copy())


def raw_encoder(table: Table, weight: np.ndarray, missing: str | None, most: int = MAX_CELLS) -> Encoder:
    """Encode numbers as they are, clipped to the training range, and categories by at most so many frequent levels."""
    columns: list[Number | Nominal] = []
    for j in range(table.numbers.shape[1]):
        if j in table.labels:
            columns.append(_levels(table.labels[j], weight, missing, table.names[j], most))
        else:
            columns.append(_range(table.numbers[:, j].astype(float), weight, missing, table.names[j]))
    return Encoder(tuple(columns), tuple(table.names))


def _range(values: np.ndarray, weight: np.ndarray, missing: str | None, name: str) -> Number:
    there = np.flatnonzero(~np.isnan(values))
    if not len(there):
        return Number(0.0, 0.0, 0.0, 1.0, None, None, 0.0 if missing == "median" else np.nan)
    order = there[np.argsort(values[there], kind="stable")]
    low, high = float(values[order[0]]), float(values[order[-1]])
    if max(abs(low), abs(high)) > MAX_MODULUS:
        raise ValueError(
            f"X holds {max(low, high, key=abs):.3g} in column {name!r}, nearly the largest float: use other units"
        )
    fill = np.nan
    if missing == "median":
        mass = np.cumsum(weight[order])
        fill = float(values[order[np.searchsorted(mass, mass[-1] * (0.5 - 1e-12))]])
    return Number(low, high, 0.0, 1.0, None, None, fill)


def _levels(values: np.ndarray, weight: np.ndarray, missing: str | None, name: str, most: int) -> Nominal:
    """The most frequent levels, in a fixed order; all others count as never seen, as do those of an identifier."""
    mass = level_masses(values, weight)
    n = sum(value is not None for value in values)
    if len(mass) > max(MIN_IDENTIFIERS, IDENTIFIER_SHARE * n):
        warn(
            f"column {name!r} has {len(mass)} levels in {n} rows and looks like an identifier: its levels are not used"
        )
        mass = {}
    order = sorted(mass, key=lambda level: (type(level).__name__, level))
    kept = sorted(range(len(order)), key=lambda k: (-mass[order[k]], k))[:most]
    levels = tuple(order[k] for k in sorted(kept))
    fill = np.nan
    if missing == "median" and levels:
        fill = float(max(range(len(levels)), key=lambda k: mass[levels[k]]))
    return Nominal(levels, fill)


def _cells(column: Number | Nominal | Position, z: np.ndarray, weight: np.ndarray, most: int, capped: bool) -> Cells:
    if isinstance(column, Nominal):
        return Cells(len(column.levels), np.empty(0))
    there = ~np.isnan(z)
    values, place = np.unique(z[there], return_inverse=True)
    if len(values) < 2:
        return Cells(1, np.array([column.low, column.high]))
    cut = np.arange(len(values) - 1)  # between values[cut] and the next one
    if len(values) > most:
        mass = np.bincount(place, weight[there])
        mass = np.cumsum(_capped(mass, most) if capped else mass)
        wanted = mass[-1] * np.arange(1, most) / most
        cut = np.unique(np.minimum(np.searchsorted(mass, wanted * (1 - 1e-12)), len(values) - 2))
    inner = [short_between(*pair) for pair in zip(values[cut].tolist(), values[cut + 1].tolist(), strict=True)]
    ends = (column.low, column.high) if isinstance(column, Number) else (values[0], values[-1])
    return Cells(len(cut) + 1, np.array([min(values[0], ends[0]), *inner, max(values[-1], ends[1])]))


def _capped(mass: np.ndarray, most: int) -> np.ndarray:
    """Masses of which none is above one of `most` parts, so that a frequent value takes one cell and not many."""
    for _ in range(CAP_ROUNDS):
        mass = np.minimum(mass, mass.sum() / most)
    return mass


def short_between(low: float, high: float) -> float:
    """Return a number with few digits in the middle of two others, at least `low` and less than `high`."""
    middle = low + (high - low) / 2
    short = round(middle, -math.floor(math.log10(high - low) - math.log10(2.0))) if high - low > 0 else middle
    if low <= short < high:
        return short
    return middle if middle < high else low


@dataclass(frozen=True)
class Bags:
    """Rows to fit on and rows to test on: one bag for each fold of each repetition.

    Copies of a row may be on both sides of a fold, as different rows of the input.

    Attributes
    ----------
    inside : (n, B) weights of the rows that a bag fits
    outside : (n, B) weights of the rows that it leaves out
    targets : (n, c) zeros and ones for classes (one column for two of them), numbers otherwise
    n_first : bags of the first repetition
    """

    inside: np.ndarray
    outside: np.ndarray
    targets: np.ndarray
    n_first: int

    @classmethod
    def of(cls, n: int, places: np.ndarray, rows: Rows, splits: Sequence, n_first: int, targets: np.ndarray) -> Bags:
        """Bags of n merged rows, from positions of training and test rows of the input."""
        sides = []
        for k in range(2):
            sums = [np.bincount(places[s[k]], rows.weight[s[k]], n) for s in splits]
            sides.append(np.array(sums).T.copy())
        return cls(sides[0], sides[1], targets, n_first)

    @property
    def n(self) -> int:
        return self.inside.shape[1]

    @cached_property
    def weight(self) -> np.ndarray:
        """Weight (n,) of the rows that some bag leaves out, in all folds of one repetition."""
        return self.outside.sum(axis=1) * (self.n_first / self.n)

    @cached_property
    def _mean(self) -> np.ndarray:
        total = self.outside.sum(axis=1, keepdims=True)
        return np.where(total > 0, self.outside / np.where(total > 0, total, 1.0), 1.0 / self.n)

    def held_out(self, scores: np.ndarray) -> np.ndarray:
        """Means (n, c) of scores (n, B, c) over the bags that leave a row out, or over all where none does."""
        return np.einsum("nb,nbc->nc", self._mean, scores)

    def first(self) -> Bags:
        """The bags of the first repetition."""
        k = self.n_first
        return self if k == self.n else replace(self, inside=self.inside[:, :k], outside=self.outside[:, :k])

    def only(self, b: int) -> Bags:
        """One of the bags."""
        return replace(self, inside=self.inside[:, [b]], outside=self.outside[:, [b]], n_first=1)
