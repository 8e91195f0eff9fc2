"""Rows drawn from more rows than memory holds: those with the lowest keys, of all rows and of each class.

What remains depends on the keys alone, not on the order of the rows or on how they were cut into blocks, and two
reservoirs add up to that of all their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tamis.table.keys import lowest
from tamis.table.table import Table, joined, with_empty_labels


@dataclass(frozen=True)
class Drawn:
    """Some rows of a block.

    Attributes
    ----------
    table : Table of n rows
    labels : (n,) classes
    mass : (n,) sample weights
    groups : (n,) keys of their groups, or None
    position : (n,) number of the block and of the row in it
    keys : (n,) by their values
    copies : (n,) rows with the same values and class that come before them in their block
    copied : (n,) whether rows with the same values and class were met elsewhere
    rank : (n,) what rows are drawn by: the lowest stay
    """

    table: Table
    labels: np.ndarray
    mass: np.ndarray
    groups: np.ndarray | None
    position: np.ndarray
    keys: np.ndarray
    copies: np.ndarray
    copied: np.ndarray
    rank: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: np.ndarray) -> Drawn:
        names = ("labels", "mass", "position", "keys", "copies", "copied", "rank")
        arrays = {name: getattr(self, name)[rows] for name in names}
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, table=self.table.take(rows), groups=groups, **arrays)


def _joined(parts: Sequence[Drawn]) -> Drawn:
    names = ("labels", "mass", "position", "keys", "copies", "copied", "rank")
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    groups = None if parts[0].groups is None else np.concatenate([part.groups for part in parts])
    return replace(parts[0], table=joined([part.table for part in parts]), groups=groups, **arrays)


class Reservoir:
    """The rows with the lowest ranks.

    Parameters
    ----------
    size : how many of all rows
    each : how many of every class, beside them
    distinct : whether rows of a class with equal ranks count once, the first one staying
    """

    def __init__(self, size: int, each: int, *, distinct: bool = False):
        self.size, self.each, self.distinct = size, each, distinct
        self.parts: list[Drawn] = []
        self.bar = np.uint64(np.iinfo(np.uint64).max)  # rows above it cannot be among the lowest of all
        self.bars: dict[object, np.uint64] = {}  # nor those above these among the lowest of their class

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def add(self, rows: Drawn) -> None:
        """Let some rows in."""
        classes, codes = np.unique(rows.labels, return_inverse=True)
        top = np.uint64(np.iinfo(np.uint64).max)
        bars = np.array([self.bars.get(label, top) for label in classes.tolist()], dtype=np.uint64)
        low = rows.rank <= bars[codes]
        if self.size:
            low |= rows.rank <= self.bar
        if low.any():
            self.parts.append(rows.take(np.flatnonzero(low)))
        if len(self) > 2 * (self.size + self.each * max(1, len(self.bars), len(classes))):
            self.settle()

    def settle(self) -> Drawn | None:
        """The rows that stay; None if there never were any."""
        if not self.parts:
            return None
        rows = _joined(self.parts) if len(self.parts) > 1 else self.parts[0]
        classes, codes = np.unique(rows.labels, return_inverse=True)
        keep = np.zeros(len(rows), dtype=bool)
        copied = rows.copied.copy()
        if self.size:
            keep[lowest(rows.rank, self.size)] = True
            if len(rows) >= self.size:
                self.bar = rows.rank[keep].max()
        for c, label in enumerate(classes.tolist()):
            members = np.flatnonzero(codes == c)
            if self.distinct:
                _, first, times = np.unique(rows.rank[members], return_index=True, return_counts=True)
                members = members[first]
                copied[members] |= times > 1
            some = members[lowest(rows.rank[members], self.each)]
            keep[some] = True
            if len(members) >= self.each:
                self.bars[label] = rows.rank[some].max()
        rows = replace(rows, copied=copied).take(np.flatnonzero(keep))
        self.parts = [rows]
        return rows

    def with_empty_labels(self, columns: set[int]) -> Reservoir:
        """The same rows, with those columns, of which they have no cell, as categories."""
        out = Reservoir(self.size, self.each, distinct=self.distinct)
        out.bar, out.bars = self.bar, dict(self.bars)
        out.parts = [replace(part, table=with_empty_labels(part.table, columns)) for part in self.parts]
        return out

    def __add__(self, other: Reservoir) -> Reservoir:
        total = Reservoir(self.size, self.each, distinct=self.distinct)
        total.parts = [*self.parts, *other.parts]
        total.settle()
        return total
