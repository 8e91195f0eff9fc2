"""Quick scores of rows in numpy: the tables of all columns side by side, so that one operation serves all of them.

Scores are those of `AdditiveModel`, and the same to the last bit whatever the other rows are: operations are
elementwise (or products of matrices of one size), and summands are always added in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tamis.flagship.cells import FEW_ROWS, Cases, CaseTable, Cells, Curve, Edges, Surface

BLOCK_VALUES = 1 << 18  # values of rows and parts that are in memory at a time


@dataclass(frozen=True)
class Scorer:
    """Tables of a model, one after another.

    Attributes
    ----------
    number, sizes : (d,) which columns are numbers, and (d, 1) their numbers of intervals or levels
    inner : inner edges
    edges, edge_starts, edge_ends : ends of all intervals, and where the first and the last of a column are (d, 1)
    starts : (d, 1) where the tables of a column start
    left, rise : (q, cells of all columns) contributions at the left end of each cell, and on the way to the right end
    intercept : (q,)
    pairs : (m, 2) columns of the pairs
    groups, group_starts : for each side of the pairs, coarse cells of the cells of its columns, one after another
    strides, surface_starts, surfaces : tables of the pairs
    at, way : coordinates at the left end of each cell, and on the way to the right end
    cases, pull : the cases, if there are any, and what they add
    """

    number: np.ndarray
    sizes: np.ndarray
    inner: Edges
    edges: np.ndarray
    edge_starts: np.ndarray
    edge_ends: np.ndarray
    starts: np.ndarray
    left: np.ndarray
    rise: np.ndarray
    intercept: np.ndarray
    pairs: np.ndarray
    groups: tuple[np.ndarray, np.ndarray]
    group_starts: tuple[np.ndarray, np.ndarray]
    strides: np.ndarray
    surface_starts: np.ndarray
    surfaces: np.ndarray
    at: np.ndarray
    way: np.ndarray
    cases: CaseTable | None
    pull: np.ndarray

    @classmethod
    def of(
        cls,
        cells: Sequence[Cells],
        curves: Sequence[Curve],
        surfaces: Sequence[Surface],
        cases: Cases,
        intercept: np.ndarray,
    ) -> Scorer:
        """Put the tables of a model side by side."""
        q, k = len(intercept), len(cases)
        edges = [own.edges if own.is_number else np.zeros(2) for own in cells]
        edge_starts = _starts([len(own) for own in edges])
        sides = [[s.groups[side] for s in surfaces] for side in range(2)]
        shapes = np.array([s.values.shape[:2] for s in surfaces], dtype=np.int64).reshape(-1, 2)
        return cls(
            number=np.array([own.is_number for own in cells], dtype=bool),
            sizes=np.array([own.size for own in cells], dtype=np.int64).reshape(-1, 1),
            inner=Edges.of([own[1:-1] for own in edges]),
            edges=_joined(edges),
            edge_starts=edge_starts,
            edge_ends=edge_starts + np.array([len(own) - 1 for own in edges], dtype=np.int64).reshape(-1, 1),
            starts=_starts([len(own.left) for own in curves]),
            left=_joined([own.left for own in curves], q),
            rise=_joined([own.right - own.left for own in curves], q),
            intercept=intercept,
            pairs=np.array([s.places for s in surfaces], dtype=np.int64).reshape(-1, 2),
            groups=(_joined(sides[0]).astype(np.int64), _joined(sides[1]).astype(np.int64)),
            group_starts=(_starts([len(own) for own in sides[0]]), _starts([len(own) for own in sides[1]])),
            strides=shapes[:, 1:],
            surface_starts=_starts(shapes.prod(axis=1).tolist()),
            surfaces=_joined([s.values.reshape(-1, q) for s in surfaces], q),
            at=_joined([own.left for own in cases.coordinates]) if k else np.empty(0),
            way=_joined([own.right - own.left for own in cases.coordinates]) if k else np.empty(0),
            cases=CaseTable.of(cases, cells) if k else None,
            pull=cases.pull,
        )

    @property
    def block_rows(self) -> int:
        """Rows that are scored at a time, few enough for a cache."""
        return max(256, BLOCK_VALUES // (1 + len(self.sizes) + len(self.pairs) + len(self.pull)))

    def scores(self, Z: np.ndarray) -> np.ndarray:
        """Scores (n, q) of encoded rows (n, d)."""
        n, d, m = len(Z), len(self.sizes), len(self.pairs)
        cell, share = self.places(np.ascontiguousarray(Z.T))
        place = cell + self.starts
        similarity = None if self.cases is None else self.similarity(cell, share)
        out = np.empty((len(self.intercept), n))
        parts = np.empty((1 + d + m + len(self.pull), n))
        table = self._places_of_pairs(cell) if m else None
        for c, base in enumerate(self.intercept):
            parts[0] = base
            curves = parts[1 : 1 + d]
            np.take(self.rise[c], place, out=curves, mode="clip")
            curves *= share
            curves += self.left[c].take(place)
            if table is not None:
                np.take(self.surfaces[c], table, out=parts[1 + d : 1 + d + m], mode="clip")
            if similarity is not None:
                np.multiply(similarity, self.pull[:, c, None], out=parts[1 + d + m :])
            out[c] = _sum_in_order(parts)
        return out.T

    def places(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cells (d, n), and shares of the way through them, of encoded values."""
        gap = np.isnan(z)
        any_gap = bool(gap.any())
        first, last = self.edges.take(self.edge_starts), self.edges.take(self.edge_ends)
        inside = np.clip(np.where(gap, first, z) if any_gap else z, first, last)
        cell = self.inner.find(inside)
        place = cell + self.edge_starts
        left = self.edges.take(place)
        place += 1
        width = self.edges.take(place)
        width -= left
        inside -= left
        flat = width <= 0
        if flat.any():
            share = np.where(flat, width, inside / np.where(flat, 1.0, width))
        else:
            share = np.divide(inside, width, out=inside)
        if not self.number.all():
            level = ~self.number
            codes = np.where(gap[level], 0.0, z[level])
            cell[level] = np.where(codes < 0, self.sizes[level] + 1, codes.astype(np.int64))
            share[level] = 0.0
        if any_gap:
            cell, share = np.where(gap, self.sizes, cell), np.where(gap, 0.0, share)
        return cell, share

    def similarity(self, cell: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Similarities (k, n) of the cases and rows with some places (d, n)."""
        assert self.cases is not None
        place = cell + self.starts
        x = self.way.take(place)
        x *= share
        x += self.at.take(place)
        apart = self.cases.distances(cell, x)
        np.negative(apart, out=apart)
        return np.exp(apart, out=apart)

    def _places_of_pairs(self, cell: np.ndarray) -> np.ndarray:
        """Where in the tables of the pairs rows are (m, n)."""
        a, b = (self.groups[k].take(cell[self.pairs[:, k]] + self.group_starts[k]) for k in range(2))
        a *= self.strides
        a += b
        a += self.surface_starts
        return a


def _sum_in_order(parts: np.ndarray) -> np.ndarray:
    """The sums (n,) of parts (m, n), added one after another.

    A reduction does so where it runs over rows of several numbers, but not over a single column.
    """
    if parts.shape[1] <= FEW_ROWS:
        return np.add.accumulate(parts, axis=0)[-1]
    return np.add.reduce(parts, axis=0)


def _starts(lengths: Sequence[int]) -> np.ndarray:
    """Where parts of these lengths start (m, 1), one after another."""
    ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
    return (ends - np.asarray(lengths, dtype=np.int64)).reshape(-1, 1)


def _joined(parts: Sequence[np.ndarray], q: int | None = None) -> np.ndarray:
    """Arrays one after another; those with q columns as q rows."""
    if not parts:
        return np.empty(0 if q is None else (q, 0))
    return np.concatenate(parts) if q is None else np.ascontiguousarray(np.concatenate(parts).T)
