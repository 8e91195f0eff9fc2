"""Samples of rows that come in blocks: those with the lowest random keys, whatever the order and the blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tamis.codec import stored
from tamis.table.keys import lowest
from tamis.table.table import Table, joined, with_empty_labels

MAX_KEY = np.uint64(np.iinfo(np.uint64).max)
PLACE_BITS = 32  # bits of a position that number the rows within a block
SALT = 0xD6E8FEB86659FD93  # makes the keys of copies in different blocks differ
MIN_DISTINCT_SHARE = 0.98  # of a sample by values, below which copies in other blocks are too many


@stored
@dataclass(frozen=True)
class SampledRows:
    """Rows of blocks, with what is needed to draw among them and to assign folds."""

    table: Table  # Table of n rows
    labels: np.ndarray  # (n,) classes
    mass: np.ndarray  # (n,) sample weights
    groups: np.ndarray | None  # (n,) keys of their groups, or None
    position: np.ndarray  # (n,) number of the block, shifted, plus number of the row in the block
    keys: np.ndarray  # (n,) keys of their values
    copies: np.ndarray  # (n,) rows with the same values and class that precede them in their block
    copied: np.ndarray  # (n,) whether rows with the same values and class were found elsewhere
    rank: np.ndarray  # (n,) the rows with the lowest ranks are kept

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: np.ndarray) -> SampledRows:
        arrays = {name: getattr(self, name)[rows] for name in _ARRAYS}
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, table=self.table.take(rows), groups=groups, **arrays)


_ARRAYS = ("labels", "mass", "position", "keys", "copies", "copied", "rank")


def _joined(parts: Sequence[SampledRows]) -> SampledRows:
    if len(parts) == 1:
        return parts[0]
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
    groups = None if parts[0].groups is None else np.concatenate([part.groups for part in parts])
    return replace(parts[0], table=joined([part.table for part in parts]), groups=groups, **arrays)


class Reservoir:
    """The rows with the lowest ranks among all rows added so far.

    Parameters
    ----------
    size : number of rows, whatever their class
    size_per_class : number of rows of every class that are kept as well
    distinct : whether rows of a class with equal ranks count once; the first one is kept
    """

    def __init__(self, size: int, size_per_class: int, *, distinct: bool = False):
        self.size, self.size_per_class, self.distinct = size, size_per_class, distinct
        self.parts: list[SampledRows] = []
        self.bound = MAX_KEY  # rows of higher rank are not among the lowest of all
        self.class_bounds: dict[object, np.uint64] = {}  # nor those of higher rank among the lowest of their class

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def add(self, rows: SampledRows) -> None:
        """Add rows, in place."""
        low, n_classes = np.zeros(len(rows), dtype=bool), 1
        if self.size_per_class:
            classes, codes = np.unique(rows.labels, return_inverse=True)
            n_classes = max(n_classes, len(self.class_bounds), len(classes))
            bounds = np.array([self.class_bounds.get(label, MAX_KEY) for label in classes.tolist()], dtype=np.uint64)
            low = rows.rank <= bounds[codes]
        if self.size:
            low |= rows.rank <= self.bound
        if low.any():
            self.parts.append(rows.take(np.flatnonzero(low)))
        if len(self) > 2 * (self.size + self.size_per_class * n_classes):
            self.kept()

    def kept(self) -> SampledRows | None:
        """Drop all other rows and return those that are kept; None if none were added."""
        if not self.parts:
            return None
        rows = _joined(self.parts)
        keep = np.zeros(len(rows), dtype=bool)
        copied = rows.copied.copy()
        if self.size:
            keep[lowest(rows.rank, self.size)] = True
            if len(rows) >= self.size:
                self.bound = rows.rank[keep].max()
        classes, codes = np.unique(rows.labels if self.size_per_class else [], return_inverse=True)
        for c, label in enumerate(classes.tolist()):
            members = np.flatnonzero(codes == c)
            if self.distinct:
                _, first, times = np.unique(rows.rank[members], return_index=True, return_counts=True)
                members = members[first]
                copied[members] |= times > 1
            chosen = members[lowest(rows.rank[members], self.size_per_class)]
            keep[chosen] = True
            if len(members) >= self.size_per_class:
                self.class_bounds[label] = rows.rank[chosen].max()
        rows = replace(rows, copied=copied).take(np.flatnonzero(keep))
        self.parts = [rows]
        return rows

    def make_nominal(self, columns: set[int]) -> None:
        """Turn columns of which no cell was found so far into categories, in place."""
        self.parts = [replace(part, table=with_empty_labels(part.table, columns)) for part in self.parts]

    def __add__(self, other: Reservoir) -> Reservoir:
        total = Reservoir(self.size, self.size_per_class, distinct=self.distinct)
        total.parts = [*self.parts, *other.parts]
        total.kept()
        return total
