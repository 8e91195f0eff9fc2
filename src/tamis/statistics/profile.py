"""What must be known of the rows before they can be summed: a sample, candidates, distinct values, levels, gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.base.model import POOL
from tamis.kernels.stacks.chebyshev import SIZES
from tamis.statistics.sample import draw_sample
from tamis.table.encoding import level_masses
from tamis.table.folds import only_folds
from tamis.table.keys import lowest, lowest_distinct, sampling_keys
from tamis.table.rows import Rows
from tamis.table.table import Table

FIRST_ROWS = 1000  # rows that show that a column has many values
MAX_DISTINCT = SIZES[1]  # values of a column of numbers that are listed
MAX_NEW_VALUES = 10 * FIRST_ROWS  # values that are added to the list at a time


@dataclass(frozen=True)
class Profile:
    """All rows or samples of them, with what is known of all rows.

    Attributes
    ----------
    rows, keys, random, fold : rows of all classes, the keys of their values, the keys by which they were drawn, and
        their folds
    pool, pool_keys : rows among which candidates are chosen: at least those with the lowest keys of each class
    pool_fold : (p,) the fold that has all rows with the values and class of a row of the pool, or the number of folds
    counts : (classes,) numbers of rows
    distinct : {column: sorted values} of the columns of numbers that have at most `MAX_DISTINCT` values
    level_mass : {column: {level: weight}} of the categories
    gaps : (d,) whether columns of numbers have missing cells
    limits : (d, 2) smallest and largest numbers, NaN where there are none; None if they are not needed
    """

    rows: Rows
    keys: np.ndarray
    random: np.ndarray
    fold: np.ndarray
    pool: Rows
    pool_keys: np.ndarray
    pool_fold: np.ndarray
    counts: np.ndarray
    distinct: Mapping[int, np.ndarray]
    level_mass: Mapping[int, Mapping[Any, float]]
    gaps: np.ndarray
    limits: np.ndarray | None = None

    @classmethod
    def of(cls, rows: Rows, keys: np.ndarray, fold: np.ndarray, n_folds: int, *, limits: bool = False) -> Profile:
        """Return the profile of rows in memory with their keys and folds."""
        table, random = rows.table, sampling_keys(keys, rows.ties)
        first = table.take(lowest(random, FIRST_ROWS))
        return cls(
            rows=rows,
            keys=keys,
            random=random,
            fold=fold,
            pool=rows,
            pool_keys=keys,
            pool_fold=only_folds(keys, rows.codes, fold, n_folds),
            counts=np.bincount(rows.codes, minlength=len(rows.classes)),
            distinct=_distinct_values(table, first),
            level_mass={j: level_masses(values, rows.weight) for j, values in table.labels.items()},
            gaps=columns_with_gaps(table),
            limits=_limits(table) if limits else None,
        )

    def choose_candidates(self, size: int | str | None) -> np.ndarray:
        """Return distinct rows of `pool`: those with the lowest keys of each class, in proportion to its rows.

        They are in the order of their keys.
        """
        size = POOL if size is None or isinstance(size, str) else size
        share = min(1.0, size / self.counts.sum())
        chosen = []
        for c in np.flatnonzero(self.counts):
            members = np.flatnonzero(self.pool.codes == c)
            chosen.append(members[lowest_distinct(self.pool_keys[members], max(1, round(share * self.counts[c])))])
        drawn = np.concatenate(chosen)
        return drawn[np.argsort(self.pool_keys[drawn], kind="stable")]

    def draw_sample(self, mass: np.ndarray) -> tuple[Rows, np.ndarray]:
        """Return a sample and its folds; `mass` (classes,) are the weights of all rows."""
        return draw_sample(self.rows, self.keys, self.random, self.fold, self.counts, mass)


def columns_with_gaps(table: Table) -> np.ndarray:
    """Return the mask (d,) of the columns of numbers with missing cells."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.isnan(table.numbers.sum(axis=0))


def _limits(table: Table) -> np.ndarray:
    """Return the smallest and largest number (d, 2) of each column, NaN where there is none."""
    limits = [ufunc.reduce(table.numbers, axis=0) for ufunc in (np.fmin, np.fmax)]
    return np.stack(limits, axis=1).astype(float)


def _distinct_values(table: Table, first: Table) -> dict[int, np.ndarray]:
    """Return the values of the columns of numbers that have few, even in the rows `first`."""
    found = {}
    for j in range(len(table.names)):
        if j not in table.labels:
            shown = add_values(first.numbers[:, j], np.empty(0))
            values = None if shown is None else add_values(table.numbers[:, j], shown)
            if values is not None and len(values):
                found[j] = values
    return found


def add_values(values: np.ndarray, known: np.ndarray) -> np.ndarray | None:
    """Return the distinct values of a column and the `known` ones, sorted; None if they are too many."""
    for _ in range(MAX_DISTINCT + 1):
        if len(known) > MAX_DISTINCT:
            return None
        place = np.searchsorted(known, values).clip(0, max(0, len(known) - 1))
        there = ~np.isnan(values)
        new = values[there & (known[place] != values)] if len(known) else values[there]
        if not len(new):
            return known
        known = np.union1d(known, new[:MAX_NEW_VALUES].astype(float))
    return None
