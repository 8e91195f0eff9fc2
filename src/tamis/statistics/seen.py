"""Seen: what a plan is made from, whether all rows are at hand or a survey has met them block by block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.base.model import POOL
from tamis.kernels.stacks.chebyshev import SIZES
from tamis.table.encoding import level_masses
from tamis.table.folds import only_folds
from tamis.table.keys import lowest, lowest_distinct, sampling_keys
from tamis.table.rows import Rows
from tamis.table.table import Table

PEEK = 1000  # rows that show whether a column has few values


@dataclass(frozen=True)
class Seen:
    """Rows, all of them or a sample, with what is known of all rows.

    Attributes
    ----------
    rows, keys, random : rows of all classes, their keys, and the keys by which they were drawn
    pool, pool_keys : rows that candidates are drawn from: those with the lowest keys of each class, at least
    fold : (n,) folds of `rows`
    pool_fold : (p,) the fold that has all rows with the values and class of a row of the pool, or the number of folds
    counts : (classes,) how many rows there are
    few : {column: values, sorted} of the numbers that have few
    masses : {column: {level: weight}} of the categories
    gaps : (d,) which columns have missing cells
    limits : (d, 2) least and largest numbers, NaN where there are none; None if nobody asked
    """

    rows: Rows
    keys: np.ndarray
    random: np.ndarray
    pool: Rows
    pool_keys: np.ndarray
    fold: np.ndarray
    pool_fold: np.ndarray
    counts: np.ndarray
    few: Mapping[int, np.ndarray]
    masses: Mapping[int, Mapping[Any, float]]
    gaps: np.ndarray
    limits: np.ndarray | None

    @classmethod
    def of(cls, rows: Rows, keys: np.ndarray, fold: np.ndarray, n_folds: int, *, limits: bool = False) -> Seen:
        """See all rows at once, with their keys and folds; `limits` says if least and largest numbers are wanted."""
        table = rows.table
        random = sampling_keys(keys, rows.ties)
        peek = table.take(lowest(random, PEEK))
        return cls(
            rows,
            keys,
            random,
            rows,
            keys,
            fold,
            only_folds(keys, rows.codes, fold, n_folds),
            np.bincount(rows.codes, minlength=len(rows.classes)),
            _few(table, peek),
            {j: level_masses(values, rows.weight) for j, values in table.labels.items()},
            gaps_of(table),
            limits_of(table) if limits else None,
        )

    def draw(self, size: int | str | None) -> np.ndarray:
        """Distinct rows of `pool` that may become instances: the lowest keys of each class, in proportion to its rows.

        They come in the order of their keys, which is that of no input.
        """
        size = POOL if size is None or isinstance(size, str) else size
        share = min(1.0, size / self.counts.sum())
        chosen = []
        for c in np.flatnonzero(self.counts):
            members = np.flatnonzero(self.pool.codes == c)
            chosen.append(members[lowest_distinct(self.pool_keys[members], max(1, round(share * self.counts[c])))])
        drawn = np.concatenate(chosen)
        return drawn[np.argsort(self.pool_keys[drawn], kind="stable")]


def gaps_of(table: Table) -> np.ndarray:
    """Mask (d,) of the columns of numbers with missing cells."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.isnan(table.numbers.sum(axis=0))


def limits_of(table: Table) -> np.ndarray:
    """Least and largest number (d, 2) of each column, NaN where there is none."""
    return np.stack([np.fmin.reduce(table.numbers, axis=0), np.fmax.reduce(table.numbers, axis=0)], axis=1).astype(
        float
    )


def _few(table: Table, peek: Table) -> dict[int, np.ndarray]:
    """The values of the columns of numbers that have few: not many even in the rows of `peek`."""
    found = {}
    for j in range(len(table.names)):
        if j not in table.labels:
            shown = few_values(peek.numbers[:, j], np.empty(0))
            values = None if shown is None else few_values(table.numbers[:, j], shown)
            if values is not None and len(values):
                found[j] = values
    return found


def few_values(values: np.ndarray, known: np.ndarray) -> np.ndarray | None:
    """The distinct values of a column together with those `known`, sorted, if they are few; else None."""
    for _ in range(SIZES[1] + 1):
        if len(known) > SIZES[1]:
            return None
        place = np.searchsorted(known, values).clip(0, max(0, len(known) - 1))
        there = ~np.isnan(values)
        stray = values[there & (known[place] != values)] if len(known) else values[there]
        if not len(stray):
            return known
        known = np.union1d(known, stray[: 10 * PEEK].astype(float))
    return None
