"""The model of the flagship: an intercept, a curve for each kept feature, surfaces of few pairs, and few cases.

    score_q(x) = intercept_q + sum_j curve_jq(x_j) + sum_(a,b) surface_abq(x_a, x_b) + sum_i pull_iq k(case_i, x)

Everything is a table over cells. A number has intervals as cells, a category its levels; each has one more cell for
missing values and a last one for levels that are rare or not in the training rows. A curve holds
the contribution at the left and at the right end of each cell and is linear between them. A surface is constant on the
products of some coarser cells. The similarity of a case is

    k(case, x) = exp(-sum_j d_j(case, x))

where d_j is the squared difference of two coordinates, which are curves too, or the constant `gaps[j]` where the
levels differ or one of the two values is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tamis.arrays import Array, beside, device_of, is_tensor, namespace
from tamis.base.model import Grid, Model, squeeze
from tamis.codec import stored
from tamis.explain import SIMILAR, AdditiveExplanation, part_name, variation
from tamis.flagship.cells import Cases, Cells, Curve, Places, Surface
from tamis.flagship.scorer import Scorer
from tamis.optim.driver import Status
from tamis.parallel import thread_map
from tamis.table.rows import Rows, sampled

MEASURED_ROWS = 20_000  # most training rows on which contributions are measured


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
        if is_tensor(Z):
            return self._scores(Z)
        scorer = self._scorer
        step = scorer.block_rows
        if len(Z) <= step:
            return scorer.scores(Z)
        parts = thread_map(lambda k: scorer.scores(Z[k : k + step]), range(0, len(Z), step))
        return np.concatenate(parts)

    @cached_property
    def _scorer(self) -> Scorer:
        """The tables side by side, made for the first rows; files have no need of it."""
        return Scorer.of(self.cells, self.curves, self.surfaces, self.cases, self.intercept)

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
        if not len(self.cases):
            return xp.zeros((Z.shape[0], 0), dtype=xp.float64, device=device_of(Z))
        if is_tensor(Z):
            return self.cases.similarity(self.cells, places)
        cell, share = (np.array([getattr(own, name) for own in places]) for name in ("cell", "share"))
        return self._scorer.similarity(cell, share).T

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

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_scorer"}

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
