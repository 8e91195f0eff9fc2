"""Surfaces of pairs: screened by a score test, fitted on coarse cells, kept where they pay on rows left out.

A surface lives on the products of at most `COARSE` groups of neighbouring cells (or frequent levels) of either column,
one more group for missing cells and a last one for all else. It is made free of what depends on one column alone
(`purified`), which goes to the curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from tamis.flagship.cells import Cells
from tamis.flagship.design import COARSE, Bags, Design
from tamis.flagship.likelihood import Likelihood
from tamis.flagship.ridge import Basis, column_basis, fit_ridges
from tamis.flagship.steps import MIN_GAIN, RIDGE, Pace

PURIFY_ROUNDS, PURE = 100, 1e-12


@dataclass(frozen=True)
class Grid:
    """Coarse cells of the columns.

    Attributes
    ----------
    groups : (d, width) coarse cell of each cell; the missing ones have `COARSE`, all else `COARSE + 1`
    sizes : (d,) number of cells
    rows : (n, d) coarse cells of the rows
    design, fine : the same rows in coarse cells, constant in each, and in all cells
    """

    groups: np.ndarray
    sizes: np.ndarray
    rows: np.ndarray
    design: Design
    fine: Design

    @classmethod
    def of(cls, design: Design, coarse: int = COARSE) -> Grid:
        groups, cells = np.full((design.n_columns, design.width), coarse + 1), []
        for j, own in enumerate(design.cells):
            groups[j, own.size] = coarse
            mass = design.mass[j, : own.size]
            groups[j, : own.size], merged = group_cells(own, mass, coarse)
            cells.append(merged)
        rows = np.take_along_axis(groups.T, design.cell, axis=0)
        share = np.where(rows < coarse, 0.5, 0.0)  # groups stand for the middle of their cells
        sizes = np.array([own.size for own in cells])
        cell = np.where(rows < coarse, rows, sizes + (rows - coarse))
        return cls(groups, design.sizes, rows, Design(tuple(cells), cell, share, design.weight), design)

    def take(self, columns: np.ndarray) -> Grid:
        return Grid(
            self.groups[columns],
            self.sizes[columns],
            self.rows[:, columns],
            self.design.take(columns),
            self.fine.take(columns),
        )

    @property
    def side(self) -> int:
        """Coarse cells of a column, those of missing values and of all else included."""
        return COARSE + 2

    def bases(self, rank: int) -> list[Basis]:
        """Smooth functions of the coarse cells of every column."""
        return [column_basis(self.design, j, "smooth", rank) for j in range(self.design.n_columns)]

    def on_groups(self, basis: Basis, column: int) -> np.ndarray:
        """Values (side, r) of functions at the coarse cells of a column."""
        size = self.design.cells[column].size
        out = np.zeros((self.side, basis.size))
        out[:size] = (basis.left[:size] + basis.right[:size]) / 2
        out[COARSE] = basis.left[size]
        return out


def group_cells(cells: Cells, mass: np.ndarray, coarse: int) -> tuple[np.ndarray, Cells]:
    """Coarse cell of each cell, and the coarse cells."""
    m = cells.size
    if not cells.is_number:
        top = np.sort(np.argsort(-mass, kind="stable")[:coarse])
        group = np.full(m, coarse + 1)
        group[top] = np.arange(len(top))
        return group, Cells(len(top), cells.edges)
    if m <= coarse:
        return np.arange(m), cells
    middle = (np.cumsum(mass) - mass / 2) / max(mass.sum(), np.finfo(float).tiny)
    _, group = np.unique(np.minimum((middle * coarse).astype(int), coarse - 1), return_inverse=True)
    ends = np.r_[np.flatnonzero(np.diff(group, prepend=-1)), m]
    return group, Cells(len(ends) - 1, cells.edges[ends])


@dataclass(frozen=True)
class Products:
    """Products of the functions of two columns, on the coarse cells of some pairs.

    Attributes
    ----------
    pairs : (M, 2) columns
    tables : for each pair the functions (side, side, r) of its coarse cells, of mean squared norm one in sum
    """

    grid: Grid
    pairs: np.ndarray
    tables: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, grid: Grid, bases: Sequence[Basis], pairs: np.ndarray) -> Products:
        tables, share = [], grid.design.weight / grid.design.weight.sum()
        for a, b in pairs:
            first, second = grid.on_groups(bases[a], a), grid.on_groups(bases[b], b)
            table = (first[:, None, :, None] * second[None, :, None, :]).reshape(grid.side, grid.side, -1)
            rows = table[grid.rows[:, a], grid.rows[:, b]]
            norm = share @ np.einsum("nr,nr->n", rows, rows)
            tables.append(table / np.sqrt(norm + 1e-12))
        return cls(grid, pairs, tuple(tables))

    def values(self) -> np.ndarray:
        """Values (n, p) at the rows."""
        rows = self.grid.rows
        parts = [table[rows[:, a], rows[:, b]] for (a, b), table in zip(self.pairs, self.tables, strict=True)]
        return np.concatenate([np.empty((len(rows), 0)), *parts], axis=1)

    def surfaces(self, slopes: np.ndarray) -> np.ndarray:
        """Surfaces (M, side, side, ...) with some coefficients (p, ...)."""
        start, out = 0, np.zeros((len(self.pairs), self.grid.side, self.grid.side, *slopes.shape[1:]))
        for k, table in enumerate(self.tables):
            out[k] = np.tensordot(table, slopes[start : start + table.shape[2]], 1)
            start += table.shape[2]
        return out


def screen(
    grid: Grid, bases: Sequence[Basis], residual: np.ndarray, curvature: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (M, 2) whose products of functions go best with residuals (n, c), and how well, best first.

    The score of a pair is ``(sum s^2 - sum e) / sqrt(sum e^2)`` with the scores s = sum_i v_a v_b residual of all
    products of functions and their variances e = sum_i v_a^2 v_b^2 curvature where the pair says nothing; for several
    classes their mean is taken for each.
    """
    d, c = grid.design.n_columns, residual.shape[1]
    V = [grid.on_groups(basis, j)[grid.rows[:, j]] for j, basis in enumerate(bases)]
    sizes = np.array([v.shape[1] for v in V], dtype=int)
    starts = np.r_[0, np.cumsum(sizes)]
    whole = np.concatenate(V, axis=1) if d else np.empty((len(residual), 0))
    squares, columns = whole**2, np.flatnonzero(sizes)
    found, scores = [], []
    total = curvature.sum(axis=1, keepdims=True)
    for a in columns[:-1]:
        rest = slice(starts[a + 1], starts[-1])
        each = (V[a][:, :, None] * residual[:, None, :]).reshape(len(residual), -1)
        s2 = ((each.T @ whole[:, rest]) ** 2).reshape(sizes[a], c, -1).sum(axis=1)
        e = (V[a] ** 2 * total).T @ squares[:, rest]
        others = columns[columns > a]
        ends = starts[others] - starts[a + 1]
        top, null, spread = (np.add.reduceat(part.sum(axis=0), ends) for part in (s2, e, e**2 / c))
        scores.append((top - null) / np.sqrt(spread + 1e-12))
        found.append(np.column_stack([np.full(len(others), a), others]))
    if not found:
        return np.empty((0, 2), dtype=int), np.empty(0)
    pairs, score = np.concatenate(found), np.concatenate(scores)
    best = np.argsort(-score, kind="stable")[:most]
    return pairs[best], score[best]


@dataclass(frozen=True)
class PairFit:
    """Surfaces (M, side, side, B, c) of some pairs, constants (B, c), and held-out loss per unit of weight."""

    surfaces: np.ndarray
    base: np.ndarray
    loss: float


def fit_products(
    grid: Grid,
    bases: Sequence[Basis],
    pairs: np.ndarray,
    likelihood: Likelihood,
    bags: Bags,
    offset: np.ndarray,
    ridges: Sequence[float],
) -> PairFit:
    """Smooth surfaces: the ridge of least held-out loss on products of functions, added to scores (n, B, c)."""
    products = Products.of(grid, bases, pairs)
    path = fit_ridges(products.values(), likelihood, bags, ridges, offset, (2, 2))
    best = min(path, key=lambda found: found.loss)
    return PairFit(products.surfaces(best.slopes), best.base, best.loss)


def fit_quadrants(
    grid: Grid,
    pairs: np.ndarray,
    likelihood: Likelihood,
    bags: Bags,
    offset: np.ndarray,
    pace: Pace,
    allowed: np.ndarray | None = None,
) -> PairFit:
    """Surfaces of steps, added to scores (n, B, c): boosted cuts in a cell of either column, which give four values.

    `allowed` (M, B) says which pairs a bag may use; None: all.
    """
    (n, c), B, M, side = bags.targets.shape, bags.n, len(pairs), grid.side
    places = np.array([grid.rows[:, a] * side + grid.rows[:, b] for a, b in pairs]).T
    flat = (places + np.arange(M) * side * side).ravel()
    ones = csr_matrix((np.ones(n * M), flat, np.arange(n + 1) * M), shape=(n, M * side * side))
    back = ones.T.tocsr()
    Y, inside = bags.targets[:, None], bags.inside[:, :, None]
    F, table = offset.copy(), np.zeros((M, side, side, B, c))
    total = max(bags.weight.sum(), np.finfo(float).tiny)

    def held_loss() -> float:
        return float(bags.weight @ likelihood.losses(bags.held_out(F), bags.targets)) / total

    best, best_table, since = held_loss(), table.copy(), 0
    for _ in range(pace.rounds):
        P = likelihood.mean(F)
        both = np.concatenate([likelihood.gradient(P, Y) * inside, likelihood.curvature(P) * inside], axis=2)
        sums = (back @ both.reshape(n, -1)).reshape(M, side, side, B, 2 * c)
        step, gain = _quadrants(sums[..., :c], sums[..., c:])
        worth = gain.sum(axis=2) if allowed is None else gain.sum(axis=2) * allowed
        on = (worth > 0) & (worth >= pace.gate * worth.max(axis=0, initial=0.0))
        if not on.any():
            break
        step *= (on * np.minimum(pace.rate, 1.0 / np.maximum(on.sum(axis=0), 1)))[:, None, None, :, None]
        table += step
        F += (ones @ step.reshape(M * side * side, -1)).reshape(n, B, c)
        loss = held_loss()
        if loss < best - MIN_GAIN:
            best, since = loss, 0
            best_table[...] = table
        else:
            since += 1
            if since >= pace.patience:
                break
    return PairFit(best_table, np.zeros((B, c)), best)


def _quadrants(g: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best step (M, side, side, B, c) of each pair with its gain (M, B, c), from sums of the same shape."""
    M, side = g.shape[:2]
    corners = []
    for part in (g, h):
        low = part.cumsum(axis=1).cumsum(axis=2)
        whole, lower = low[:, -1:, -1:], low[:, :-1, :-1]
        first, second = low[:, :-1, -1:] - lower, low[:, -1:, :-1] - lower
        corners.append((lower, first, second, whole - lower - first - second))
    gain = np.zeros_like(corners[0][0])
    for top, bottom in zip(*corners, strict=True):
        gain += top * top / (bottom + RIDGE)
    gain -= (g.sum(axis=(1, 2)) ** 2 / (h.sum(axis=(1, 2)) + RIDGE))[:, None, None]
    flat = gain.reshape(M, -1, *g.shape[3:])
    cut = flat.argmax(axis=1)[:, None]
    best = np.take_along_axis(flat, cut, 1)[:, 0]
    values = []
    for top, bottom in zip(*corners, strict=True):
        here = [np.take_along_axis(part.reshape(flat.shape), cut, 1) for part in (top, bottom)]
        values.append((here[0] / (here[1] + RIDGE))[:, :, None])
    cut = cut[:, :, None]
    below = np.arange(side)[None, :, None, None, None] <= cut // (side - 1)
    left = np.arange(side)[None, None, :, None, None] <= cut % (side - 1)
    step = np.where(below, np.where(left, values[0], values[1]), np.where(left, values[2], values[3]))
    return step, np.maximum(best, 0.0)


def purified(surface: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A surface (a, b, q) with mean zero along either side under a mass (a, b), and what was moved: (a, q) and (b, q).

    Rows and columns without mass are zero.
    """
    rows, columns = mass.sum(axis=1), mass.sum(axis=0)
    here = (rows[:, None] > 0) & (columns[None] > 0)
    surface = np.where(here[:, :, None], surface, 0.0)
    first, second = np.zeros((len(rows), surface.shape[2])), np.zeros((len(columns), surface.shape[2]))
    for _ in range(PURIFY_ROUNDS):
        moved = np.einsum("ab,abq->aq", mass, surface) / np.where(rows > 0, rows, 1.0)[:, None]
        surface = np.where(here[:, :, None], surface - moved[:, None], 0.0)
        first += moved
        across = np.einsum("ab,abq->bq", mass, surface) / np.where(columns > 0, columns, 1.0)[:, None]
        surface = np.where(here[:, :, None], surface - across[None], 0.0)
        second += across
        if max(np.abs(moved).max(initial=0.0), np.abs(across).max(initial=0.0)) < PURE:
            break
    return surface, first, second
