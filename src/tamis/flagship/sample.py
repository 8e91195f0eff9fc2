"""What a model of many rows consists of, chosen on a sample of them.

One part of the sample (the first of the folds is left out) fits and the other judges: the columns are those of
`select`, the pairs gain most one after another, and the ridges of curves and surfaces have the least held-out loss. A
ridge is one over a variance of the tables, which does not depend on the number of rows, so that the fit to all rows
takes it over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.sparse import sparray

from tamis.flagship.cells import Cells, Curve, Places
from tamis.flagship.coded import CodedRows, Layout, code_places, masses, select_columns, sum_block
from tamis.flagship.design import COARSE, MAX_FLAT_CELLS, Bags, Design
from tamis.flagship.likelihood import Likelihood
from tamis.flagship.newton import Minimum, Sample, minimise
from tamis.flagship.pairs import Grid, group_cells, purified, screen
from tamis.flagship.score import Score
from tamis.flagship.surfaces import RANK
from tamis.parallel import thread_map
from tamis.table.rows import spread
from tamis.table.sources.source import Kept

PIECE_ROWS = 1 << 16  # rows that one thread sums at a time
CURVE_RIDGES = (1.0, 0.1, 0.01)
SURFACE_RIDGES = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
SCREENED, TRIED = 2000, 60  # pairs whose tables are compared, and among which pairs are chosen one by one
TABLE_RIDGE = 10.0  # of these tables
MIN_GAIN = 1.0  # held-out log-likelihood, beyond chance, of a pair that is chosen
IDLE = 3.0  # held-out log-likelihood of a part that is not worth keeping
JUDGE_SHARE = 0.2  # of the rows that have copies on both sides, which judge cases
SAMPLE_PASSES = 6  # over the sample, for each ridge


@dataclass(frozen=True)
class Chosen:
    """Rows of the sample in the cells of the kept columns.

    Attributes
    ----------
    rows : all of them, without weights
    folds : (n, B) their weights in each fold
    counts : (n,) rows of the input that were merged into each
    """

    design: Design
    likelihood: Likelihood
    bags: Bags
    rows: CodedRows
    folds: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(
        cls,
        design: Design,
        likelihood: Likelihood,
        bags: Bags,
        target: np.ndarray,
        folds: np.ndarray,
        counts: np.ndarray,
    ) -> Chosen:
        """Code rows with their targets (n,)."""
        places = [design.places(j) for j in range(design.n_columns)]
        return cls(design, likelihood, bags, code_places(places, target, None), folds, counts)

    def take(self, columns: np.ndarray) -> Chosen:
        """The same rows with some of the columns."""
        rows = select_columns(self.rows, columns)
        return replace(self, design=self.design.take(columns), rows=rows)

    @cached_property
    def effective(self) -> float:
        """The number of rows that unequal weights are worth, per unit of weight; at most one."""
        weight = self.bags.inside[:, 0] + self.bags.outside[:, 0]
        counts = np.maximum(self.counts, 1)
        return min(1.0, float(weight.sum() / ((weight / counts) ** 2 @ counts)))

    @cached_property
    def flat(self) -> np.ndarray:
        """Columns (d,) that are constant in each cell."""
        flat = [not c.is_number or _is_flat(self.design, j) for j, c in enumerate(self.design.cells)]
        return np.array(flat, dtype=bool)

    @cached_property
    def inside(self) -> CodedRows:
        """The rows to fit on."""
        return self._weighted(self.bags.inside[:, 0])

    @cached_property
    def outside(self) -> CodedRows:
        """The rows that judge."""
        return self._weighted(self.bags.outside[:, 0])

    def _weighted(self, weight: np.ndarray) -> CodedRows:
        used = np.flatnonzero(weight > 0)
        return replace(self.rows.take(used), weight=weight[used])

    def layout(self, pairs: np.ndarray, coarse: int) -> Layout:
        design = self.design
        masses_of = [design.mass[j, : own.size] for j, own in enumerate(design.cells)]
        groups = [coarse_groups(own, mass, coarse) for own, mass in zip(design.cells, masses_of, strict=True)]
        return Layout(design.cells, self.flat, pairs, tuple(groups) if len(pairs) else ())

    def start(self, layout: Layout) -> np.ndarray:
        theta = np.zeros((layout.size, self.bags.targets.shape[1]))
        theta[-1] = self.likelihood.start(self.bags.targets, self.bags.inside)[0]
        return theta

    def for_cases(self, most: int) -> tuple[Chosen, np.ndarray]:
        """At most so many of the rows, copies of a row on one side only, and which rows they are."""
        some = spread(len(self.rows), most)
        design = replace(self.design, cell=self.design.cell[some], share=self.design.share[some])
        design = replace(design, weight=self.design.weight[some])
        inside, outside = self.bags.inside[some], self.bags.outside[some]
        weight, judges = inside + outside, outside > 0
        both = np.flatnonzero((inside[:, 0] > 0) & judges[:, 0])
        judges[both, 0] = np.random.default_rng(0).random(len(both)) < JUDGE_SHARE
        bags = Bags(np.where(judges, 0.0, weight), np.where(judges, weight, 0.0), self.bags.targets[some], 1)
        return replace(self, design=design, bags=bags, rows=self.rows.take(some)), some

    def scores(self, layout: Layout, theta: np.ndarray) -> np.ndarray:
        """Scores (n, c) of the sample."""
        return np.concatenate([layout.matrix(part) @ theta for part in pieces(self.rows)])

    def loss(self, scores: np.ndarray) -> float:
        """Loss of the rows that judge."""
        return float(self.bags.weight @ self.likelihood.losses(scores, self.bags.targets))

    def fit(self, layout: Layout, theta: np.ndarray, penalty: sparray) -> Minimum:
        """Fit to the rows of the sample that are to be fitted."""
        inside = self.inside
        assert inside.weight is not None
        sample = Sample.of(layout, self.likelihood, inside, float(inside.weight.sum()))
        all_of = Kept(pieces(inside))
        sums = lambda at: all_of.total(partial(sum_block, layout, self.likelihood, at))  # noqa: E731
        return minimise(sums, sample, penalty, theta, SAMPLE_PASSES)


@dataclass(frozen=True)
class Tables:
    """Curves and surfaces as one vector (size, c), and the ridges under which they were fitted."""

    layout: Layout
    theta: np.ndarray
    curve_ridge: float
    surface_ridge: float

    @property
    def penalty(self) -> sparray:
        return self.layout.penalty(self.curve_ridge, self.surface_ridge)

    def take(self, columns: np.ndarray, pairs: np.ndarray) -> Tables:
        """The tables of some columns, and of some of the pairs of these."""
        layout, theta, place = self.layout, self.theta, np.full(len(self.layout.cells), -1)
        place[columns] = np.arange(len(columns))
        groups = tuple(layout.groups[j] for j in columns) if len(pairs) else ()
        cells = tuple(layout.cells[j] for j in columns)
        kept = Layout(cells, layout.flat[columns], place[layout.pairs[pairs]], groups)
        parts = [theta[layout.starts[j] : layout.starts[j + 1]] for j in columns]
        parts += [theta[layout.pair_starts[k] : layout.pair_starts[k + 1]] for k in pairs]
        return replace(self, layout=kept, theta=np.concatenate([*parts, theta[-1:]]))


def choose_tables(chosen: Chosen, max_pairs: int, coarse: int) -> Tables:
    """Choose ridges and pairs on the sample."""
    layout = chosen.layout(np.empty((0, 2), dtype=int), coarse)
    theta, curve_ridge = _best_ridge(
        chosen, layout, chosen.start(layout), CURVE_RIDGES, lambda r: layout.penalty(r, 1.0)
    )
    pairs = np.empty((0, 2), dtype=int)
    if max_pairs and len(layout.cells) > 1:
        pairs = choose_pairs(chosen, chosen.scores(layout, theta), max_pairs)
    if not len(pairs):
        return Tables(layout, theta, curve_ridge, 1.0)
    both = chosen.layout(pairs, coarse)
    start = carried(layout, theta, both)
    theta, surface_ridge = _best_ridge(chosen, both, start, SURFACE_RIDGES, lambda r: both.penalty(curve_ridge, r))
    tables = Tables(both, theta, curve_ridge, surface_ridge)
    parts = Parts.of(chosen, score_of(chosen, tables, masses(both, chosen.inside)))
    live, _ = parts.without_idle(parts.surfaces, parts.scores, MIN_GAIN, 0.0)
    return tables.take(np.arange(len(layout.cells)), live)


def _best_ridge(
    chosen: Chosen, layout: Layout, theta: np.ndarray, ridges: tuple[float, ...], penalty: Callable[[float], sparray]
) -> tuple[np.ndarray, float]:
    """The fit of least held-out loss along falling ridges, up to the first that is worse."""
    best: tuple[float, np.ndarray, float] | None = None
    for ridge in ridges:
        theta = chosen.fit(layout, theta, penalty(ridge)).theta
        loss = chosen.loss(chosen.scores(layout, theta))
        if best is not None and loss >= best[0]:
            break
        best = loss, theta, ridge
    assert best is not None
    return best[1], best[2]


def choose_pairs(chosen: Chosen, scores: np.ndarray, most: int) -> np.ndarray:
    """Choose pairs (M, 2) one by one: the one whose table gains most on rows left out, added to the scores (n, c).

    The table of a pair has one Newton step for each product of coarse cells. Every fold judges the table of the others.
    """
    design, bags, likelihood = chosen.design, chosen.bags, chosen.likelihood
    grid, side = Grid.of(design), COARSE + 2
    columns = np.flatnonzero(design.sizes > 1)
    pairs = np.array([(a, b) for k, a in enumerate(columns) for b in columns[k + 1 :]], dtype=int).reshape(-1, 2)
    chance = MIN_GAIN + float(np.log(max(len(pairs), 1)))
    weight = bags.inside[:, :1] + bags.outside[:, :1]
    slope, curvature = _derivatives(likelihood, scores, bags)
    if len(pairs) > SCREENED:
        pairs, _ = screen(grid, grid.bases(RANK), slope * weight, curvature * weight**2, SCREENED)
    if not len(pairs):
        return pairs
    coarse, outputs = grid.rows.T.copy(), scores.shape[1]
    step = 1.0 if outputs == 1 else (outputs - 1) / outputs  # scores of classes move against each other

    def table(k: int) -> tuple[float, np.ndarray]:
        """What a pair gains on rows left out, and its values (side^2, c)."""
        a, b = pairs[k]
        place = coarse[a] * side + coarse[b]
        gain, values = 0.0, np.empty((side * side, scores.shape[1]))
        for c in range(scores.shape[1]):
            g, h = (
                np.column_stack([np.bincount(place, part[:, c] * own, side * side) for own in chosen.folds.T])
                for part in (slope, curvature)
            )
            all_g, all_h = g.sum(axis=1), h.sum(axis=1)
            others = step * (all_g[:, None] - g) / (all_h[:, None] - h + TABLE_RIDGE)
            gain += float((others * g - 0.5 * others**2 * h).sum())
            values[:, c] = step * all_g / (all_h + TABLE_RIDGE)
        return gain, values

    gains = np.array([gain for gain, _ in thread_map(table, range(len(pairs)))])
    left = np.argsort(-gains, kind="stable")[:TRIED].tolist()
    found: list[int] = []
    while left and len(found) < most:
        tables = thread_map(table, left)
        best = int(np.argmax([gain for gain, _ in tables]))
        if chosen.effective * tables[best][0] < chance:
            break
        k = left.pop(best)
        scores = scores + tables[best][1][coarse[pairs[k, 0]] * side + coarse[pairs[k, 1]]]
        found.append(k)
        slope, curvature = _derivatives(likelihood, scores, bags)
    return pairs[found]


def _derivatives(likelihood: Likelihood, scores: np.ndarray, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
    P = likelihood.mean(scores)
    return likelihood.gradient(P, bags.targets), likelihood.curvature(P)


def pieces(rows: CodedRows) -> list[CodedRows]:
    """Return rows in pieces, each for one thread."""
    return [rows.take(slice(k, k + PIECE_ROWS)) for k in range(0, len(rows), PIECE_ROWS)]


@dataclass(frozen=True)
class Parts:
    """What parts of a score add on the rows that judge.

    Attributes
    ----------
    curves, surfaces : (d, n, c) and (m, n, c)
    scores : (n, c) of all parts together
    """

    likelihood: Likelihood
    bags: Bags
    score: Score
    curves: np.ndarray
    surfaces: np.ndarray
    effective: float

    @classmethod
    def of(cls, chosen: Chosen, score: Score) -> Parts:
        used = np.flatnonzero(chosen.bags.weight > 0)
        bags = Bags(chosen.bags.inside[used], chosen.bags.outside[used], chosen.bags.targets[used], 1)
        places = [Places(own.cell[used], own.share[used]) for own in map(chosen.design.places, range(len(score.left)))]
        curves = [Curve(*ends).at(own) for *ends, own in zip(score.left, score.right, places, strict=True)]
        surfaces = [s.at(*(places[j] for j in s.places)) for s in score.surfaces]
        values = [np.array(parts).reshape(-1, *bags.targets.shape) for parts in (curves, surfaces)]
        return cls(chosen.likelihood, bags, score, values[0], values[1], chosen.effective)

    @property
    def scores(self) -> np.ndarray:
        return self.score.base + self.curves.sum(axis=0) + self.surfaces.sum(axis=0)

    def useful(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the columns and pairs that may gain something, and the loss of the rows that judge with these alone.

        Pairs are dropped first, then columns that are in none. If all together gain next to nothing, none is left.
        """
        live, scores = self.without_idle(self.surfaces, self.scores, IDLE, 1.0)
        paired = np.isin(np.arange(len(self.curves)), [j for k in live for j in self.score.surfaces[k].places])
        unpaired = np.flatnonzero(~paired)
        left, scores = self.without_idle(self.curves[unpaired], scores, IDLE, 1.0)
        start = np.broadcast_to(self.score.start.mean(axis=0), scores.shape)
        before, after = (
            float(self.bags.weight @ self.likelihood.losses(F, self.bags.targets)) for F in (start, scores)
        )
        if self.effective * (before - after) < MIN_GAIN:
            return np.empty(0, dtype=int), np.empty(0, dtype=int), before
        return np.sort(np.r_[np.flatnonzero(paired), unpaired[left]]), live, after

    def without_idle(
        self, parts: np.ndarray, scores: np.ndarray, least: float, errors: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The parts (M, n, c) of scores that are left when idle ones are dropped, and the scores without these.

        A part is idle if what it gains, and some standard errors of that, are less than `least`.
        """
        live, bags = list(range(len(parts))), self.bags
        while live:
            now = self.likelihood.losses(scores, bags.targets)
            gains = np.array([self.likelihood.losses(scores - parts[k], bags.targets) - now for k in live])
            error = np.sqrt((gains - gains.mean(axis=1, keepdims=True)) ** 2 @ bags.weight**2)
            upper = self.effective * (gains @ bags.weight + errors * error)
            if upper.min() >= least:
                break
            scores = scores - parts[live.pop(int(np.argmin(upper)))]
        return np.array(live, dtype=int), scores


def carried(layout: Layout, theta: np.ndarray, other: Layout) -> np.ndarray:
    """Return the values of another layout with the same columns, and with pairs that are zero."""
    out = np.zeros((other.size, theta.shape[1]))
    end = layout.starts[-1]
    out[:end], out[-1] = theta[:end], theta[-1]
    return out


def score_of(chosen: Chosen, tables: Tables, mass: np.ndarray) -> Score:
    """Return the tables as a score: surfaces free of curves, and curves of mean zero over all rows."""
    layout, theta, design = tables.layout, tables.theta, chosen.design
    c = theta.shape[1]
    left, right = np.zeros((2, len(layout.cells), design.width, c))
    for j, own in enumerate(layout.cells):
        curve = layout.curve(theta, j)
        left[j, : own.size + 2], right[j, : own.size + 2] = curve.left, curve.right
    surfaces = []
    for k, (a, b) in enumerate(layout.pairs):
        surface = layout.surface(theta, k)
        weight = mass[layout.pair_starts[k] : layout.pair_starts[k + 1]].reshape(surface.values.shape[:2])
        pure, along, across = purified(surface.values, weight)
        for j, moved in ((a, along), (b, across)):
            own = moved[layout.groups[j]]
            left[j, : len(own)] += own
            right[j, : len(own)] += own
        surfaces.append(replace(surface, values=pure))
    base = theta[-1].copy()
    for j, own in enumerate(layout.cells):
        weight = mass[layout.starts[j] : layout.starts[j + 1]]
        ends = (weight, np.zeros_like(weight)) if layout.flat[j] else (weight[0::2], weight[1::2])
        both = ends[0] + ends[1]
        there = np.arange(design.width) < own.size
        there[own.size : own.size + 2] = both[own.size :] > 0
        size = own.size + 2
        mean = (ends[0] @ left[j, :size] + ends[1] @ right[j, :size]) / max(both.sum(), np.finfo(float).tiny)
        left[j, there] -= mean
        right[j, there] -= mean
        base += mean
    scores = chosen.scores(layout, theta)
    start = chosen.likelihood.start(chosen.bags.targets, chosen.bags.inside)
    return Score(left, right, base, tuple(surfaces), scores[:, None], scores, start)


def coarse_groups(cells: Cells, mass: np.ndarray, most: int) -> np.ndarray:
    """Return the coarse cell (size + 2,) of each cell; the last two are missing values and unseen levels."""
    group, merged = group_cells(cells, mass, most)
    group = np.where(group < merged.size, group, merged.size + 1)
    return np.r_[group, merged.size, merged.size + 1].astype(np.int64)


def _is_flat(design: Design, j: int) -> bool:
    """Whether a number has few values, one in each cell."""
    cells = design.cells[j]
    if cells.size > MAX_FLAT_CELLS:
        return False
    where = np.zeros(cells.size + 2)
    where[design.cell[:, j]] = design.share[:, j]
    return bool(np.array_equal(where[design.cell[:, j]], design.share[:, j]))
