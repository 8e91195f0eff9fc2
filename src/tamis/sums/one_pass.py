"""Training from sums over rows: one pass, folds apart, and a second look at some rows for what sums lack."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from tamis.data.checks import check_integer
from tamis.data.folds import positions, summed_folds
from tamis.data.keys import row_keys, sampling_keys
from tamis.data.rows import Rows, by_class
from tamis.errors import warn
from tamis.kernels.bank import MEMORY
from tamis.models.model import pool_size
from tamis.sums.again import Again, sum_again
from tamis.sums.look import LOOK, second_rows
from tamis.sums.plan import Plan, TooLarge, is_grid
from tamis.sums.plan_columns import NotSummable
from tamis.sums.seen import Seen
from tamis.sums.statistics import Statistics
from tamis.sums.summary import Summary
from tamis.sums.wanted import Wanted


@dataclass(frozen=True)
class Held:
    """What a fold keeps back: its sums under a plan, and some of its rows."""

    plan: Plan
    sums: np.ndarray
    look: Rows | None


@dataclass(frozen=True)
class OnePass:
    """Sums of training rows by fold, with what of the rows is at hand.

    Attributes
    ----------
    statistics : Statistics
    n_folds : folds that may be held out; further parts of the statistics never are
    look, look_fold : rows of the second look and their folds, or None
    rows : all rows, or None
    again : sums functions of some columns over all rows, where these can be read another time
    """

    statistics: Statistics
    n_folds: int
    look: Rows | None = None
    look_fold: np.ndarray | None = None
    rows: Rows | None = None
    again: Again | None = None

    @property
    def folds(self) -> list[int]:
        """Folds that have rows and leave rows of every class; others are left out with a warning."""
        parts, count = self.statistics.parts, self.statistics.count
        size = self.statistics.plan.functions.size
        mass = np.array([np.diagonal(part)[size:] for part in parts])
        good = [k for k in range(self.n_folds) if count[k] and np.all(mass.sum(axis=0) - mass[k] > 0)]
        if len(parts) == 1:
            return []
        if len(good) < self.n_folds:
            warn(
                f"{self.n_folds - len(good)} of {self.n_folds} folds are left out: they have no rows, or leave no row "
                "of some class (rows of one group share a fold)",
            )
        return good

    def summary(self, leave_out: int | None = None, pool: int | None = None) -> Summary:
        """Training sums, without one fold if asked, with at most `pool` candidates."""
        plan = self.statistics.plan
        kept = np.flatnonzero(plan.pool_fold != (-1 if leave_out is None else leave_out))
        if not len(kept):
            raise ValueError(
                f"all candidates lie in fold {leave_out}: make the plan with more candidates, or from rows of all folds"
            )
        candidates = plan.pool.take(kept)
        if pool is not None:
            candidates = candidates.take(_evenly(candidates.codes, pool))
        look = self.look
        if look is not None and self.look_fold is not None and leave_out is not None:
            look = look.take(np.flatnonzero(self.look_fold != leave_out))
        rows, again = (self.rows, self.again) if leave_out is None else (None, None)
        return Summary(plan, self.statistics.sums(leave_out), candidates, look, rows, again)

    def held(self, fold: int, most: int = LOOK) -> Held:
        """What `fold` keeps back, with at most `most` rows."""
        look = None
        if self.look is not None:
            members = np.flatnonzero(self.look_fold == fold)
            look = self.look.take(members[:: -(-len(members) // most)] if len(members) > most else members)
        return Held(self.statistics.plan, self.statistics.parts[fold], look)


def _evenly(codes: np.ndarray, size: int) -> np.ndarray:
    """At most `size` positions, spread evenly over the members of each class."""
    if size >= len(codes):
        return np.arange(len(codes))
    chosen = []
    for c in np.unique(codes):
        members = np.flatnonzero(codes == c)
        most = max(1, round(size * len(members) / len(codes)))
        chosen.append(members[np.unique(np.linspace(0, len(members) - 1, most).astype(int))])
    return np.sort(np.concatenate(chosen))


def sum_rows(rows: Rows, engine: str, wanted: Wanted) -> OnePass | None:
    """Sum the rows if the engine asks for it; None if they are to be kept as rows.

    "auto" sums where kernel values would not fit in memory and the kernels have short forms.
    """
    n, d = rows.table.numbers.shape
    grid = is_grid(wanted.candidates)
    small = 8 * d * n * pool_size(wanted.candidates, n) <= MEMORY and not grid
    if engine in ("dense", "streaming") or (engine == "auto" and small):
        return None
    keys = row_keys(rows.table, wanted.seed)
    try:
        rows, keys, fold, n_folds, n_parts = _parts(rows, keys, wanted.cv, wanted.seed)
        seen = Seen.of(rows, keys, fold, n_parts)
        factor = by_class(rows.weight / rows.mass, rows.codes, len(rows.classes))
        plan = wanted.plan(seen, factor, n_parts)
    except NotSummable as reason:
        if engine == "statistics" or grid:
            raise
        if isinstance(reason, TooLarge):
            warn(f"engine='auto' works on rows, which may take long: {reason}")
        return None
    statistics = Statistics(replace(plan, dtype=rows.table.numbers.dtype.name))
    weight = None if np.all(rows.weight == 1.0) else rows.weight
    statistics.add_table(rows.table, rows.codes, weight, fold)
    look = second_rows(rows, keys, seen.random, fold)
    return OnePass(statistics, n_folds, *look, rows, partial(sum_again, rows))


def second_look(statistics: Statistics, rows: Rows | None, groups: Any = None) -> OnePass:
    """Statistics that came alone, or with rows (and the labels of their groups) for a second look."""
    n_folds, seed = statistics.plan.n_folds, statistics.plan.seed
    if rows is None:
        return OnePass(statistics, n_folds)
    statistics.check_rows(rows.table, groups is not None)
    rows = replace(rows, weight=rows.mass * statistics.plan.class_factor[rows.codes])
    rows = rows.take(np.flatnonzero(rows.weight > 0))
    keys = row_keys(rows.table, seed)
    fold = summed_folds(rows, keys, n_folds, seed)
    return OnePass(statistics, n_folds, *second_rows(rows, keys, sampling_keys(keys, rows.ties), fold))


def _parts(rows: Rows, keys: np.ndarray, cv: Any, seed: int) -> tuple[Rows, np.ndarray, np.ndarray, int, int]:
    """Rows of positive weight, their keys and parts (n,), how many of the parts are folds, and how many there are."""
    counted = np.flatnonzero(rows.weight > 0)
    every = len(counted) == len(rows)
    if cv is None or isinstance(cv, Integral):
        rows, keys = (rows, keys) if every else (rows.take(counted), keys[counted])
        if cv is None:
            return rows, keys, np.zeros(len(rows), dtype=np.int64), 1, 1
        check_integer("cv", cv, 2)
        return rows, keys, summed_folds(rows, keys, int(cv), seed), int(cv), int(cv)
    splits = positions(cv, rows.labels, rows.groups, rows.table.numbers)
    part = np.full(len(rows), len(splits))
    for k, (train, test) in enumerate(splits):
        trained, tested = (np.bincount(np.arange(len(rows))[rows_], minlength=len(rows)) for rows_ in (train, test))
        if np.any(part[test] < len(splits)) or np.any((trained > 0) == (tested > 0)):
            raise NotSummable(
                "engine='statistics' needs folds that train on all rows which they do not test, and test each row at "
                f"most once: cv={cv!r} does otherwise; use an integer or another engine"
            )
        part[test] = k
    return rows.take(counted), keys[counted], part[counted], len(splits), len(splits) + 1
