"""Of what the model of the flagship consists: cells of columns, curves, surfaces and cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tamis.arrays import Array, beside, device_of, is_tensor, namespace
from tamis.codec import stored

BINS, MAX_IN_BIN = 1024, 4  # of equal width, in which edges are looked up, and most edges in one of them
PRODUCT_ROWS = 256  # rows that are compared with cases at a time
FEW_ROWS = 32  # for which edges are compared one by one


@stored
@dataclass(frozen=True)
class Cells:
    """The cells of one column.

    Attributes
    ----------
    size : number m of intervals or levels; cell m holds missing values, cell m + 1 levels that were never seen
    edges : (m + 1,) ends of the intervals (edges[i], edges[i + 1]], the first of which holds all that is smaller and
        the last all that is larger; empty for a category
    """

    size: int
    edges: np.ndarray

    @property
    def is_number(self) -> bool:
        return len(self.edges) > 0

    @property
    def missing(self) -> int:
        """The cell of missing values."""
        return self.size

    def fits(self) -> bool:
        """Whether the edges are those of `size` intervals, in order."""
        if not self.is_number:
            return self.size >= 0
        return len(self.edges) == self.size + 1 and bool(
            np.isfinite(self.edges).all() and np.all(np.diff(self.edges) >= 0)
        )

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Encoded left and right ends (2m,) of the intervals in turn, or codes (m,) of levels, and their cells."""
        if not self.is_number:
            return np.arange(self.size, dtype=float), np.arange(self.size)
        return np.column_stack([self.edges[:-1], self.edges[1:]]).ravel(), np.repeat(np.arange(self.size), 2)

    def place(self, z: Array) -> Places:
        """The cells of encoded values (n,), and the share of the way from the left to the right end of the cell."""
        xp = namespace(z)
        gap = xp.isnan(z)
        if not self.is_number:
            code = xp.astype(xp.where(gap | (z < 0), xp.zeros_like(z), z), xp.int64)
            cell = xp.where(z < 0, xp.full_like(code, self.size + 1), code)
            return Places(xp.where(gap, xp.full_like(code, self.size), cell), xp.zeros_like(z))
        edges = beside(self.edges, z)
        inside = xp.clip(xp.where(gap, xp.full_like(z, float(self.edges[0])), z), edges[0], edges[-1])
        if is_tensor(z):
            cell = xp.astype(xp.searchsorted(edges[1:-1], inside), xp.int64)
        else:
            cell = Edges.of([edges[1:-1]]).find(inside[None])[0]
        left, right = xp.take(edges, cell), xp.take(edges, cell + 1)
        width = right - left
        share = xp.where(width > 0, (inside - left) / xp.where(width > 0, width, xp.ones_like(width)), width)
        return Places(xp.where(gap, xp.full_like(cell, self.size), cell), xp.where(gap, xp.zeros_like(share), share))


@dataclass(frozen=True)
class Edges:
    """The inner edges of all columns, among which values are looked up.

    Edges and values are put into bins of equal width. An edge in an earlier bin is smaller than a value, one in a later
    bin is not, and those in the same bin are compared, unless they are too many in some bin of a column.

    Attributes
    ----------
    inner : (d, most) edges, infinite where a column has fewer
    first, scale : (d, 1) the first edge, and bins per unit
    counts : (d * BINS,) edges in earlier bins
    rounds : most edges of a column in one bin
    crowded : columns of which too many edges are in one bin
    """

    inner: np.ndarray
    first: np.ndarray
    scale: np.ndarray
    counts: np.ndarray
    rounds: int
    crowded: np.ndarray

    @classmethod
    def of(cls, edges: Sequence[np.ndarray]) -> Edges:
        """Put the inner edges of columns into bins."""
        d = len(edges)
        inner = np.full((d, max((len(own) for own in edges), default=0) + 1), np.inf)
        first, scale, counts = np.zeros((d, 1)), np.zeros((d, 1)), np.zeros((d, BINS), dtype=np.int64)
        rounds, crowded = 0, []
        for j, own in enumerate(edges):
            inner[j, : len(own)] = own
            width = own[-1] - own[0] if len(own) > 1 else 0.0
            with np.errstate(over="ignore", divide="ignore"):
                unit = np.float64(BINS) / width
            place = np.zeros(len(own), dtype=np.int64)
            if len(own) > 1 and np.isfinite(unit):
                first[j], scale[j] = own[0], unit
                place = _bins(own, own[0], unit)
            found = np.bincount(place, minlength=BINS)
            if found.max(initial=0) > MAX_IN_BIN:
                crowded.append(j)
                continue
            rounds = max(rounds, int(found.max(initial=0)))
            counts[j] = np.cumsum(found) - found
        return cls(inner, first, scale, counts.ravel(), rounds, np.array(crowded, dtype=int))

    @cached_property
    def _starts(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the bins and the edges of a column start, (d, 1) each."""
        place = np.arange(len(self.inner))[:, None]
        return place * BINS, place * self.inner.shape[1]

    def find(self, x: np.ndarray) -> np.ndarray:
        """Return the numbers (d, n) of edges that are smaller than values."""
        if x.shape[1] <= FEW_ROWS:
            return np.count_nonzero(self.inner[:, :, None] < x[:, None, :], axis=1)
        bins, edges = self._starts
        cell = self.counts.take(_bins(x, self.first, self.scale) + bins)
        flat = self.inner.ravel()
        for _ in range(self.rounds):
            cell += flat.take(cell + edges) < x
        for j in self.crowded:
            cell[j] = np.searchsorted(self.inner[j], x[j])
        return cell


def _bins(x: np.ndarray, first: Any, scale: Any) -> np.ndarray:
    """The bins of values."""
    place = x - first
    place *= scale
    np.maximum(place, 0.0, out=place)
    np.minimum(place, BINS - 1.0, out=place)
    return place.astype(np.int64)


class Places(NamedTuple):
    """Where values of one column are: their cells (n,), and their shares (n,) of the way through the cell."""

    cell: Array
    share: Array


@stored
@dataclass(frozen=True)
class Curve:
    """Contributions (cells, q) at the left and at the right end of each cell."""

    left: np.ndarray
    right: np.ndarray

    def at(self, places: Places) -> Array:
        """Contributions (n, q) of values."""
        return _between(places, self.left, self.right)

    def scaled(self, factor: float) -> Curve:
        return Curve(factor * self.left, factor * self.right)


@stored
@dataclass(frozen=True)
class Surface:
    """Contributions of a pair of features.

    Attributes
    ----------
    places : the two columns
    groups : for each of them the coarse cell (cells,) of each cell; the last coarse cell is that of unseen levels
    values : (coarse cells, coarse cells, q)
    """

    places: tuple[int, int]
    groups: tuple[np.ndarray, np.ndarray]
    values: np.ndarray

    def fits(self, cells: Sequence[Cells], q: int) -> bool:
        """Whether it belongs to these columns and to q outputs."""
        if len(self.places) != 2 or not all(0 <= place < len(cells) for place in self.places):
            return False
        pairs = zip(self.places, self.groups, self.values.shape[:2], strict=True)
        inside = [len(g) == cells[j].size + 2 and 0 <= g.min() <= g.max() < size for j, g, size in pairs]
        return all(inside) and self.values.shape[2:] == (q,)

    def at(self, first: Places, second: Places) -> Array:
        """Contributions (n, q) of values of the two features."""
        xp = namespace(first.share)
        pairs = zip(self.groups, (first, second), strict=True)
        a, b = (xp.take(beside(group, own.cell), own.cell) for group, own in pairs)
        flat = beside(self.values.reshape(-1, self.values.shape[2]), first.share)
        return xp.take(flat, a * self.values.shape[1] + b, axis=0)

    def scaled(self, factor: float) -> Surface:
        return replace(self, values=factor * self.values)


@stored
@dataclass(frozen=True)
class Cases:
    """Kept cases, each of which pulls the scores of similar rows.

    Attributes
    ----------
    rows : (k, d) encoded
    coordinates : for each column the coordinate (cells,) at the left and at the right end of each cell
    gaps : (d,) squared distance of two levels, and of a missing cell and a value
    pull : (k, q) what a case adds to the scores of a row with similarity one
    """

    rows: np.ndarray
    coordinates: tuple[Curve, ...]
    gaps: np.ndarray
    pull: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def fits(self, cells: Sequence[Cells], q: int) -> bool:
        """Whether the cases have these columns and q outputs."""
        if not len(self):
            return self.pull.shape == (0, q)
        sizes = [
            (len(c.left), len(c.right)) == (own.size + 2,) * 2 for c, own in zip(self.coordinates, cells, strict=False)
        ]
        d = len(cells)
        whole = self.rows.shape == (len(self), d) and len(self.coordinates) == len(self.gaps) == d
        return whole and all(sizes) and self.pull.shape == (len(self), q)

    def similarity(self, cells: Sequence[Cells], places: Sequence[Places]) -> Array:
        """Similarities (n, k) in [0, 1] of rows and cases."""
        return namespace(places[0].share).exp(-self.distances(cells, places))

    def distances(self, cells: Sequence[Cells], places: Sequence[Places]) -> Array:
        """Squared distances (n, k) of rows and cases, summed over the columns."""
        share = places[0].share
        xp = namespace(share)
        if not is_tensor(share):
            x = np.array([_between(own, c.left, c.right) for own, c in zip(places, self.coordinates, strict=True)])
            return CaseTable.of(self, cells).distances(np.array([own.cell for own in places]), x).T
        total = xp.zeros((len(self.rows), share.shape[0]), dtype=xp.float64, device=device_of(share))
        for j, (column, own) in enumerate(zip(cells, places, strict=True)):
            total += self.distance(j, column, own).T  # rows last, since there are more of them than of cases
        return total.T

    def distance(self, j: int, column: Cells, own: Places) -> Array:
        """Squared distances (n, k) of rows and cases in one column."""
        xp, case = namespace(own.share), column.place(self.rows[:, j])
        if not column.is_number:
            return self._mismatch(j, own, case)
        at = _between(own, self.coordinates[j].left, self.coordinates[j].right)
        apart = beside(self.coordinates[j].at(case), own.share)[:, None] - at[None, :]
        apart *= apart
        here, there = own.cell != column.missing, case.cell != column.missing
        if there.all() and bool(xp.all(here)):
            return apart.T
        known = here[:, None] & beside(there, own.cell)[None, :]
        return xp.where(known, apart.T, self._mismatch(j, own, case))

    def _mismatch(self, j: int, own: Places, case: Places) -> Array:
        """The gap of one column where rows and cases are in different cells, else zero (n, k)."""
        xp = namespace(own.share)
        differs = own.cell[:, None] != beside(case.cell, own.cell)[None, :]
        return xp.astype(differs, xp.float64) * float(self.gaps[j])


@dataclass(frozen=True)
class CaseTable:
    """Cases in the form in which many rows are compared with them.

    Attributes
    ----------
    cell, at : (d, k) cells and coordinates of the cases
    sizes : (d, 1) number of intervals or levels of each column
    plain : (d,) columns of numbers that all cases have
    gaps, number : (d,) as those of the cases, and which columns are numbers
    """

    cell: np.ndarray
    at: np.ndarray
    sizes: np.ndarray
    plain: np.ndarray
    gaps: np.ndarray
    number: np.ndarray

    @classmethod
    def of(cls, cases: Cases, cells: Sequence[Cells]) -> CaseTable:
        places = [own.place(cases.rows[:, j]) for j, own in enumerate(cells)]
        return cls(
            cell=np.array([own.cell for own in places]),
            at=np.array([curve.at(own) for curve, own in zip(cases.coordinates, places, strict=True)]),
            sizes=np.array([own.size for own in cells]).reshape(-1, 1),
            plain=np.array(
                [c.is_number and bool(np.all(p.cell != c.size)) for c, p in zip(cells, places, strict=True)]
            ),
            gaps=cases.gaps,
            number=np.array([own.is_number for own in cells], dtype=bool),
        )

    @cached_property
    def all_plain(self) -> bool:
        """Whether all columns are plain."""
        return bool(self.plain.all())

    @cached_property
    def _products(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the plain columns: factors (k, p) of the coordinates of rows, squares (k, 1), factors of missing cells.

        ``|a - x|^2`` is the square of x plus ``squares + towards @ x``.
        """
        at = self.at[self.plain].T
        lacking = np.ascontiguousarray(self.gaps[self.plain] - at * at)
        return np.ascontiguousarray(-2.0 * at), (at * at).sum(axis=1, keepdims=True), lacking

    def distances(self, cell: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Squared distances (k, n) of rows with cells and coordinates (d, n), the same bits whatever the other rows.

        Columns of numbers are compared by one product of matrices, always of `PRODUCT_ROWS` rows, so that a row is
        treated alike wherever it stands; a missing cell counts as zero there, and is put right.
        """
        missing, (towards, squares, lacking) = cell == self.sizes, self._products
        there, known = missing, x
        if not self.all_plain:
            there, known = missing[self.plain], x[self.plain]
        any_missing = bool(there.any())
        if any_missing:
            known = np.where(there, 0.0, known)
        total = _fixed_product(towards, known)
        total += squares
        own = np.zeros(x.shape[1])
        for square in known * known:
            own += square
        total += own
        np.maximum(total, 0.0, out=total)
        if any_missing:
            total += _fixed_product(lacking, there.astype(float))
        for j in () if self.all_plain else np.flatnonzero(~self.plain):
            apart = (self.cell[j][:, None] != cell[j]) * self.gaps[j]
            if self.number[j]:
                both = (self.cell[j] != self.sizes[j])[:, None] & ~missing[j]
                apart = np.where(both, (self.at[j][:, None] - x[j]) ** 2, apart)
            total += apart
        return total


def _fixed_product(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """``a @ x`` (k, n) by products of matrices of one size, in which the place of a row does not matter."""
    n = x.shape[1]
    out = np.empty((len(a), n))
    for start in range(0, n, PRODUCT_ROWS):
        part = x[:, start : start + PRODUCT_ROWS]
        width = part.shape[1]
        if width < PRODUCT_ROWS:
            part, rest = np.zeros((len(x), PRODUCT_ROWS)), part
            part[:, :width] = rest
        out[:, start : start + width] = (a @ np.ascontiguousarray(part))[:, :width]
    return out


def _between(places: Places, left: np.ndarray, right: np.ndarray) -> Array:
    """Values of tables (cells, ...) that are linear in each cell."""
    xp = namespace(places.share)
    start = xp.take(beside(left, places.share), places.cell, axis=0)
    rise = xp.take(beside(right - left, places.share), places.cell, axis=0)
    share = places.share if left.ndim == 1 else places.share[:, None]
    return start + share * rise
