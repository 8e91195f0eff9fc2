"""Samples of rows that do not depend on the order of the rows or on how they are cut into blocks.

Every row has a random key that follows its values; a sample takes the rows with the lowest keys, of all rows and of
each class. Samples of parts of the rows add up to the sample of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tamis.table.keys import lowest
from tamis.table.rows import Rows, concatenate, merge_keyed
from tamis.table.table import Table, joined, with_empty_labels

SAMPLE_ROWS = 50_000  # rows of the sample for calibration and logistic refits
MIN_CLASS_ROWS = 1000  # rows of each class in it, as far as there are so many
MAX_KEY = np.uint64(np.iinfo(np.uint64).max)


@dataclass(frozen=True)
class SampledRows:
    """Rows of blocks, with what is needed to draw among them and to assign folds.

    Attributes
    ----------
    table : Table of n rows
    labels : (n,) classes
    mass : (n,) sample weights
    groups : (n,) keys of their groups, or None
    position : (n,) number of the block, shifted, plus number of the row in the block
    keys : (n,) keys of their values
    copies : (n,) rows with the same values and class that precede them in their block
    copied : (n,) whether rows with the same values and class were found elsewhere
    rank : (n,) the rows with the lowest ranks are kept
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
        classes, codes = np.unique(rows.labels, return_inverse=True)
        bounds = np.array([self.class_bounds.get(label, MAX_KEY) for label in classes.tolist()], dtype=np.uint64)
        low = rows.rank <= bounds[codes]
        if self.size:
            low |= rows.rank <= self.bound
        if low.any():
            self.parts.append(rows.take(np.flatnonzero(low)))
        if len(self) > 2 * (self.size + self.size_per_class * max(1, len(self.class_bounds), len(classes))):
            self.kept()

    def kept(self) -> SampledRows | None:
        """Drop all other rows and return those that are kept; None if none were added."""
        if not self.parts:
            return None
        rows = _joined(self.parts)
        classes, codes = np.unique(rows.labels, return_inverse=True)
        keep = np.zeros(len(rows), dtype=bool)
        copied = rows.copied.copy()
        if self.size:
            keep[lowest(rows.rank, self.size)] = True
            if len(rows) >= self.size:
                self.bound = rows.rank[keep].max()
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


def draw_sample(
    rows: Rows,
    keys: np.ndarray,
    random: np.ndarray,
    fold: np.ndarray,
    counts: np.ndarray | None = None,
    mass: np.ndarray | None = None,
) -> tuple[Rows, np.ndarray]:
    """Draw rows for what sums cannot give, and return them with their folds; equal rows of a fold are merged.

    Classes are drawn in proportion to their rows, but `MIN_CLASS_ROWS` of each are taken if there are so many. Weights
    are scaled so that those of a class add up to their sum over all rows.

    Parameters
    ----------
    rows, keys, random, fold : rows to draw from, the keys of their values, the keys to draw by, and their folds
    counts, mass : (classes,) numbers and weights of all rows, where `rows` are a sample
    """
    n_classes = len(rows.classes)
    counts = np.bincount(rows.codes, minlength=n_classes) if counts is None else counts
    mass = np.bincount(rows.codes, weights=rows.weight, minlength=n_classes) if mass is None else mass
    share = min(1.0, SAMPLE_ROWS / counts.sum())
    factor, chosen = np.ones(n_classes), []
    for c in range(n_classes):
        members = np.flatnonzero(rows.codes == c)
        drawn = members[lowest(random[members], max(round(share * counts[c]), MIN_CLASS_ROWS))]
        factor[c] = mass[c] / max(rows.weight[drawn].sum(), np.finfo(float).tiny)
        chosen.append(drawn)
    drawn = np.concatenate(chosen)
    folds = np.unique(fold[drawn])
    parts = [drawn[fold[drawn] == k] for k in folds]
    merged = [merge_keyed(rows.take(part), keys[part]) for part in parts]
    out = concatenate(merged)
    scaled = replace(out, weight=out.weight * factor[out.codes], mass=out.mass * factor[out.codes])
    return scaled, np.repeat(folds, [len(part) for part in merged])
