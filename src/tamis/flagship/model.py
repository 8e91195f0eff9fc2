"""The model of the flagship: an intercept, a curve for each kept feature, surfaces of few pairs, and few cases.

    score_q(x) = intercept_q + sum_j curve_jq(x_j) + sum_(a,b) surface_abq(x_a, x_b) + sum_i pull_iq k(case_i, x)

Everything is a table over cells. A number has intervals as cells, a category its levels; each has one more cell for
missing values and a last one for levels that are not in the training rows, where every table is zero. A curve holds
the contribution at the left and at the right end of each cell and is linear between them. A surface is constant on the
products of some coarser cells. The similarity of a case is

    k(case, x) = exp(-sum_j d_j(case, x))

where d_j is the squared difference of two coordinates, which are curves too, or the constant `gaps[j]` where the
levels differ or one of the two values is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tamis.arrays import Array, beside, device_of, is_tensor, namespace
from tamis.base.model import Grid, Model, squeeze
from tamis.codec import stored
from tamis.explain import SIMILAR, AdditiveExplanation, part_name, variation
from tamis.optim.driver import Status
from tamis.table.rows import Rows, sampled

SCORE_ROWS = 1 << 15  # rows that are scored at a time, few enough for a cache
MEASURED_ROWS = 20_000  # most training rows on which contributions are measured
BINS, MAX_IN_BIN = 1024, 4  # of equal width, in which edges are looked up, and most edges in one of them
FEW = 1000  # values for which a binary search is as quick


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
        cell = xp.astype(xp.searchsorted(edges[1:-1], inside), xp.int64) if is_tensor(z) else find(edges[1:-1], inside)
        left, right = xp.take(edges, cell), xp.take(edges, cell + 1)
        width = right - left
        share = xp.where(width > 0, (inside - left) / xp.where(width > 0, width, xp.ones_like(width)), width)
        return Places(xp.where(gap, xp.full_like(cell, self.size), cell), xp.where(gap, xp.zeros_like(share), share))


def find(edges: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return ``np.searchsorted(edges, values)``, for many values in a fifth of the time.

    Edges and values are put into bins of equal width. An edge in an earlier bin is smaller than a value, one in a later
    bin is not, and those in the same bin are compared. Few values, or edges that crowd, are left to a binary search.
    """
    with np.errstate(over="ignore"):
        scale = BINS / (edges[-1] - edges[0]) if len(edges) > 1 and edges[-1] > edges[0] else np.inf
    if len(values) < FEW or not np.isfinite(scale):
        return np.searchsorted(edges, values).astype(np.int64)

    def bins(x: np.ndarray) -> np.ndarray:
        return np.clip((x - edges[0]) * scale, 0, BINS - 1).astype(np.int64)

    count = np.bincount(bins(edges), minlength=BINS)
    if count.max() > MAX_IN_BIN:
        return np.searchsorted(edges, values).astype(np.int64)
    cell = (np.cumsum(count) - count)[bins(values)]
    following = np.append(edges, np.inf)
    for _ in range(count.max()):
        cell += following[cell] < values
    return cell


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


@stored
@dataclass(frozen=True)
class AdditiveModel(Model):
    """Curves, surfaces and cases on encoded kept columns.

    Attributes
    ----------
    encoder : of the kept columns; numbers are in their own units
    columns : (d,) kept columns of the table
    instances : (k,) kept cases, as positions in the user's input
    intercept : (q,)
    cells, curves : one for each kept column
    surfaces : of the kept pairs
    cases : the kept cases
    """

    intercept: np.ndarray
    cells: tuple[Cells, ...]
    curves: tuple[Curve, ...]
    surfaces: tuple[Surface, ...]
    cases: Cases

    term_kind: ClassVar[str] = "part"
    needs: ClassVar[str] = "feature"
    is_additive: ClassVar[bool] = True

    # ------------------------------------------------------------------ scores

    @property
    def base_value(self) -> np.ndarray:
        return self.intercept

    def place(self, Z: Array) -> list[Places]:
        """Where encoded rows (n, d) are in the cells of each column."""
        return [cells.place(Z[:, j]) for j, cells in enumerate(self.cells)]

    def parts(self, Z: Array) -> Parts:
        """Contributions of features, pairs and cases to the scores of encoded rows, and similarities."""
        xp, places = namespace(Z), self.place(Z)
        empty = xp.zeros((Z.shape[0], len(self.intercept), 0), dtype=xp.float64, device=device_of(Z))
        features, pairs = self._by_feature(places), self._by_pair(places)
        similarity = self._similarity(places, Z)
        return Parts(
            xp.stack(features, axis=2) if features else empty,
            xp.stack(pairs, axis=2) if pairs else empty,
            similarity[:, None, :] * beside(self.cases.pull.T, Z)[None, :, :],
            similarity,
        )

    def scores(self, Z: Array) -> Array:
        """Scores (n, q) of encoded rows: the intercept and all contributions, always added up in the same order.

        Every operation is elementwise, so that a row has the same score whatever the other rows are.
        """
        if is_tensor(Z) or len(Z) <= SCORE_ROWS:
            return self._scores(Z)
        return np.concatenate([self._scores(Z[k : k + SCORE_ROWS]) for k in range(0, len(Z), SCORE_ROWS)])

    def _scores(self, Z: Array) -> Array:
        xp, places = namespace(Z), self.place(Z)
        out = xp.zeros((Z.shape[0], len(self.intercept)), dtype=xp.float64, device=device_of(Z))
        out = out + beside(self.intercept, Z)
        for part in [*self._by_feature(places), *self._by_pair(places)]:
            out = out + part
        similarity = self._similarity(places, Z)
        for k, pull in enumerate(self.cases.pull):
            out = out + similarity[:, k : k + 1] * beside(pull, Z)[None, :]
        return out

    def _by_feature(self, places: Sequence[Places]) -> list[Array]:
        return [curve.at(own) for curve, own in zip(self.curves, places, strict=True)]

    def _by_pair(self, places: Sequence[Places]) -> list[Array]:
        return [surface.at(*(places[j] for j in surface.places)) for surface in self.surfaces]

    def _similarity(self, places: Sequence[Places], Z: Array) -> Array:
        xp = namespace(Z)
        if len(self.cases):
            return self.cases.similarity(self.cells, places)
        return xp.zeros((Z.shape[0], 0), dtype=xp.float64, device=device_of(Z))

    def summands(self, Z: Array) -> Array:
        """Contributions (n, q, d + m + k) of features, pairs and cases, as one array (n, q + 1, d + m + k).

        Its last row along the second axis holds the similarities of the cases, and zeros before them.
        """
        xp, parts = namespace(Z), self.parts(Z)
        zeros = xp.zeros((Z.shape[0], 1, len(self.curves) + len(self.surfaces)), dtype=xp.float64, device=device_of(Z))
        contributions = xp.concat([parts.features, parts.pairs, parts.cases], axis=2)
        return xp.concat([contributions, xp.concat([zeros, parts.similarity[:, None, :]], axis=2)], axis=1)

    @property
    def numbers_per_row(self) -> tuple[int, int]:
        d, q = len(self.curves) + 1, len(self.intercept)
        return d * (q + 3) + len(self.cases), (d + len(self.surfaces) + len(self.cases)) * (q + 1)

    # ------------------------------------------------------------------ what it is made of

    @property
    def is_constant(self) -> bool:
        return not len(self.columns)

    @property
    def status(self) -> Status:
        """The passes that make a model of tables are counted and end by themselves."""
        return Status.CONVERGED

    @property
    def owned(self) -> np.ndarray:
        return self.cases.pull.T != 0

    @property
    def case_rows(self) -> np.ndarray:
        return self.cases.rows

    @property
    def case_pulls(self) -> np.ndarray:
        """What each case adds to the scores of a row equal to itself, as its similarity with itself is one."""
        return self.cases.pull

    @property
    def pair_names(self) -> list[tuple[str, str]]:
        """The names of both features of each pair."""
        names = self.encoder.names
        return [(names[a], names[b]) for a, b in (surface.places for surface in self.surfaces)]

    @property
    def term_names(self) -> list[str]:
        cases = [SIMILAR] if len(self.cases) else []
        return [*self.encoder.names, *map(part_name, self.pair_names), *cases]

    @property
    def term_features(self) -> list[tuple[str, ...]]:
        cases = [tuple(self.encoder.names)] if len(self.cases) else []
        return [*((name,) for name in self.encoder.names), *self.pair_names, *cases]

    def attributes(self) -> dict[str, Any]:
        return {}

    def measured(self, rows: Rows) -> dict[str, np.ndarray]:
        """Sizes of contributions to the scores of training rows.

        `importance_` (d,) is the mean absolute contribution of the curve of each feature, over rows and outputs.
        `part_variation_` are the shares of all parts in the variation, the sum of the standard deviations of what they
        contribute, in per cent; `instance_variation_` divides the share of similar cases among these.
        """
        some = sampled(rows, MEASURED_ROWS)
        parts = self.parts(self.encode(some.table))
        together = [parts.cases.sum(axis=2, keepdims=True)] if len(self.cases) else []
        shares = variation(np.concatenate([parts.features, parts.pairs, *together], axis=2), some.mass)
        of_cases = shares[:, -1:] if together else np.zeros((len(self.intercept), 1))
        return {
            "importance_": np.average(np.abs(parts.features).mean(axis=1), axis=0, weights=some.mass),
            "part_variation_": squeeze(shares),
            "instance_variation_": squeeze(variation(parts.cases, some.mass) * of_cases / 100.0),
        }

    def by_feature(self, values: np.ndarray, name: str) -> np.ndarray:
        """Values of curves, and half of those of the pairs that a feature is in; similar cases belong to none."""
        d = len(self.curves)
        out = np.array(values[..., :d])
        for k, surface in enumerate(self.surfaces):
            for place in surface.places:
                out[..., place] += 0.5 * values[..., d + k]
        return out

    def in_parts(self, values: np.ndarray) -> tuple[list[str], np.ndarray]:
        return self.term_names, values

    def description(self) -> tuple[str, dict[str, Any]]:
        counts = [(len(self.surfaces), "pair", "of features"), (len(self.cases), "similar training case", "")]
        others = [f"{n} {word}{'' if n == 1 else 's'} {more}".strip() for n, word, more in counts if n]
        return f"by {' and '.join(['a curve for each feature', *others])},", {}

    def check_parts(self) -> None:
        d, q = len(self.columns), len(self.intercept)
        same = len(self.encoder.columns), len(self.encoder.names), len(self.cells), len(self.curves)
        if set(same) != {d} or self.intercept.ndim != 1:
            raise ValueError("its curves do not have the columns of its encoder")
        for cells, curve in zip(self.cells, self.curves, strict=True):
            if not cells.fits() or {curve.left.shape, curve.right.shape} != {(cells.size + 2, q)}:
                raise ValueError("its curves do not fit its cells")
        for surface in self.surfaces:
            if not surface.fits(self.cells, q):
                raise ValueError("its surfaces do not fit its cells")
        if len(self.instances) != len(self.cases) or not self.cases.fits(self.cells, q):
            raise ValueError("its cases do not have the columns of its encoder")

    # ------------------------------------------------------------------ explanations, curves and surfaces

    def explanation(
        self, summands: Array, rows: Sequence[Any], outputs: Sequence[Any], instances: Sequence[Any]
    ) -> AdditiveExplanation:
        d, m, q = len(self.curves), len(self.surfaces), len(self.intercept)
        contributions = summands[:, :q]
        decision = contributions[:, :, :0].sum(axis=2) + beside(self.intercept, summands)
        for k in range(contributions.shape[2]):  # in the order of `scores`, and so with its bits
            decision = decision + contributions[:, :, k]
        return AdditiveExplanation(
            base_value=self.intercept,
            decision=decision,
            rows=rows,
            outputs=outputs,
            instances=instances,
            by_feature=contributions[:, :, :d],
            by_pair=contributions[:, :, d : d + m],
            by_case=contributions[:, :, d + m :],
            similarity=summands[:, q, d + m :],
            features=list(self.encoder.names),
            pairs=self.pair_names,
        )

    def check_curve(self, place: int) -> None:
        """Every kept feature has a curve."""

    def curve(self, place: int, grid: Grid | None) -> tuple[Grid, np.ndarray]:
        """See `Model.curve`; by default at both ends of each cell, so that inner edges are there twice."""
        column, cells, curve = self.encoder.columns[place], self.cells[place], self.curves[place]
        if grid is not None:
            return grid, curve.at(cells.place(column.encode(grid)))
        ends, cell = cells.ends()
        values = np.where((np.arange(len(cell)) % 2 == 1)[:, None], curve.right[cell], curve.left[cell])
        return column.decode(ends), values if cells.is_number else curve.left[cell]

    def pairs(self, values: np.ndarray) -> list[tuple[int, int]]:
        size = np.atleast_2d(values).sum(axis=0)[len(self.curves) :]
        order = np.argsort(-size[: len(self.surfaces)], kind="stable")
        return [(min(places), max(places)) for places in (self.surfaces[k].places for k in order)]

    def surface(self, places: tuple[int, int], grids: Sequence[Grid | None]) -> tuple[Grid, Grid, np.ndarray]:
        """See `Model.surface`; by default at both ends of each coarse cell."""
        surface = next(s for s in self.surfaces if set(s.places) == set(places))
        drawn, groups = {}, {}
        for place, grid in zip(places, grids, strict=True):
            drawn[place], groups[place] = self._coarse(place, surface.groups[surface.places.index(place)], grid)
        a, b = (groups[place] for place in surface.places)
        values = surface.values[np.ix_(a, b)]
        if places != surface.places:
            values = values.transpose(1, 0, 2)
        return drawn[places[0]], drawn[places[1]], values

    def _coarse(self, place: int, group: np.ndarray, grid: Grid | None) -> tuple[Grid, np.ndarray]:
        """Values of a column, by default both ends of each coarse cell, and the coarse cells they are in."""
        column, cells = self.encoder.columns[place], self.cells[place]
        if grid is not None:
            return grid, group[cells.place(column.encode(grid)).cell]
        ends, cell = cells.ends()
        some = np.arange(len(cell))
        if cells.is_number:  # first and last end of each run of cells in one coarse cell
            coarse = group[cell]
            start = np.flatnonzero(np.r_[True, coarse[1:] != coarse[:-1]])
            some = np.sort(np.r_[start, np.r_[start[1:], len(cell)] - 1])
        return column.decode(ends[some]), group[cell[some]]

    # ------------------------------------------------------------------ files

    def to_stored(self) -> dict[str, Any]:
        """Return what a file holds: the tables of all columns in one array each, which takes half the space."""
        coordinates = self.cases.coordinates if len(self.cases) else ()
        return {
            "encoder": self.encoder,
            "columns": self.columns,
            "instances": self.instances,
            "intercept": self.intercept,
            "sizes": np.array([[own.size, len(own.edges)] for own in self.cells], dtype=int).reshape(-1, 2),
            "edges": np.concatenate([np.empty(0), *(own.edges for own in self.cells)]),
            "curves": _packed(self.curves),
            "surfaces": self.surfaces,
            "cases": replace(self.cases, coordinates=()),
            "coordinates": _packed(coordinates),
        }

    @classmethod
    def from_stored(cls, parts: dict[str, Any]) -> AdditiveModel:
        """Return the model of a file."""
        sizes, edges = parts["sizes"][:, 0], parts["sizes"][:, 1]
        cuts = np.split(parts["edges"], np.cumsum(edges)[:-1]) if len(edges) else []
        cells = tuple(Cells(int(size), own) for size, own in zip(sizes, cuts, strict=True))
        cases = replace(parts["cases"], coordinates=_unpacked(parts["coordinates"], sizes))
        names = ("encoder", "columns", "instances", "intercept", "surfaces")
        curves = _unpacked(parts["curves"], sizes)
        return cls(**{name: parts[name] for name in names}, cells=cells, curves=curves, cases=cases)

    # ------------------------------------------------------------------ other scores

    def negated(self) -> AdditiveModel:
        """The model of the opposite scores."""
        return self.scaled(-1.0)

    def shifted(self, shift: float) -> AdditiveModel:
        """The model whose scores are those of this one plus `shift`."""
        return replace(self, intercept=self.intercept + shift)

    def scaled(self, factor: float) -> AdditiveModel:
        """The model whose scores are those of this one times `factor`."""
        return replace(
            self,
            intercept=factor * self.intercept,
            curves=tuple(curve.scaled(factor) for curve in self.curves),
            surfaces=tuple(surface.scaled(factor) for surface in self.surfaces),
            cases=replace(self.cases, pull=factor * self.cases.pull),
        )


class Parts(NamedTuple):
    """Contributions of features (n, q, d), pairs (n, q, m) and cases (n, q, k) to scores, and similarities (n, k)."""

    features: Array
    pairs: Array
    cases: Array
    similarity: Array


def _packed(curves: Sequence[Curve]) -> np.ndarray:
    """Values (cells, 2, ...) at the left and right ends of the cells of all columns, one column after another."""
    tables = [np.stack([curve.left, curve.right], axis=1) for curve in curves]
    return np.concatenate(tables) if tables else np.empty(0)


def _unpacked(values: np.ndarray, sizes: np.ndarray) -> tuple[Curve, ...]:
    """The curves of columns with `sizes` intervals or levels; none of no values."""
    if not len(values):
        return ()
    tables = np.split(values, np.cumsum(sizes + 2)[:-1])
    return tuple(Curve(np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])) for table in tables)


def _between(places: Places, left: np.ndarray, right: np.ndarray) -> Array:
    """Values of tables (cells, ...) that are linear in each cell."""
    xp = namespace(places.share)
    start = xp.take(beside(left, places.share), places.cell, axis=0)
    rise = xp.take(beside(right - left, places.share), places.cell, axis=0)
    share = places.share if left.ndim == 1 else places.share[:, None]
    return start + share * rise
