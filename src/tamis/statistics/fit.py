"""Fits from sums over rows: what is requested of the sums, training sums of folds, and designs from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any

import numpy as np

from tamis.base.design import Design, MomentDesign, RowDesign, Sums
from tamis.base.kernel_space import Pool, Prepared, pool_size
from tamis.errors import check_integer, warn
from tamis.kernels.bank import MAX_DENSE_BYTES
from tamis.kernels.recipes import Bandwidth, Recipe
from tamis.statistics.plan import Plan, SumsRequest, TooLarge, make_plan
from tamis.statistics.profile import SAMPLE_ROWS, NotSummable, Profile, draw_sample, is_grid
from tamis.statistics.statistics import Statistics
from tamis.statistics.sums import ExactSums, sum_again
from tamis.table.folds import positions, summed_folds
from tamis.table.keys import row_keys, sampling_keys
from tamis.table.rows import Rows, by_class, codings

# ---------------------------------------------------------------------- training sums


@dataclass(frozen=True)
class HeldOutSums:
    """Sums of a fold under a plan, and a sample of its rows if there is one."""

    plan: Plan
    sums: np.ndarray
    sample: Rows | None


@dataclass(frozen=True)
class FoldSums:
    """Sums of training rows by fold, with the rows that are available."""

    statistics: Statistics
    n_folds: int  # number of folds that may be held out; further parts of the statistics are never held out
    # sample, sample_fold: sample of the rows and its folds, or None
    sample: Rows | None = None
    sample_fold: np.ndarray | None = None
    rows: Rows | None = None  # all rows, or None
    exact_sums: ExactSums | None = None  # sums functions of columns over all rows, where these can be read once more

    @property
    def folds(self) -> list[int]:
        """Folds that have rows and leave rows of every class; others are left out with a warning."""
        parts, count = self.statistics.parts, self.statistics.count
        if len(parts) == 1:
            return []
        size = self.statistics.plan.functions.size
        mass = np.array([np.diagonal(part)[size:] for part in parts])
        good = [k for k in range(self.n_folds) if count[k] and np.all(mass.sum(axis=0) - mass[k] > 0)]
        if len(good) < self.n_folds:
            warn(
                f"{self.n_folds - len(good)} of {self.n_folds} folds are left out: they have no rows, or leave no row "
                "of some class (rows of one group share a fold)"
            )
        return good

    def summary(self, leave_out: int | None = None, pool: int | None = None) -> TrainingSums:
        """Return training sums, without one fold if requested, with at most `pool` candidates."""
        plan = self.statistics.plan
        kept = np.flatnonzero(plan.pool_fold != (-1 if leave_out is None else leave_out))
        if not len(kept):
            raise ValueError(
                f"all candidates lie in fold {leave_out}: make the plan with more candidates, or from rows of all folds"
            )
        candidates = plan.pool.take(kept)
        if pool is not None:
            candidates = candidates.take(_spread_over_classes(candidates.codes, pool))
        sample = self.sample
        if sample is not None and self.sample_fold is not None and leave_out is not None:
            sample = sample.take(np.flatnonzero(self.sample_fold != leave_out))
        rows, exact_sums = (self.rows, self.exact_sums) if leave_out is None else (None, None)
        return TrainingSums(plan, self.statistics.sums(leave_out), candidates, sample, rows, exact_sums)

    def held_out(self, fold: int, max_rows: int = SAMPLE_ROWS) -> HeldOutSums:
        """Return the sums of `fold`, with at most `max_rows` of its rows."""
        sample = None
        if self.sample is not None:
            members = np.flatnonzero(self.sample_fold == fold)
            sample = self.sample.take(members[:: max(1, -(-len(members) // max_rows))])
        return HeldOutSums(self.statistics.plan, self.statistics.parts[fold], sample)


def _spread_over_classes(codes: np.ndarray, size: int) -> np.ndarray:
    """Return at most `size` positions, spread evenly over the rows of each class."""
    if size >= len(codes):
        return np.arange(len(codes))
    chosen = []
    for c in np.unique(codes):
        members = np.flatnonzero(codes == c)
        n_chosen = max(1, round(size * len(members) / len(codes)))
        chosen.append(members[np.unique(np.linspace(0, len(members) - 1, n_chosen).astype(int))])
    return np.sort(np.concatenate(chosen))


def sum_rows(rows: Rows, engine: str, request: SumsRequest) -> FoldSums | None:
    """Sum rows in memory; return None if the fit is to use the rows themselves.

    With engine="auto" rows are summed if kernel values would not fit in memory and the kernels have short forms.
    """
    n, d = rows.table.numbers.shape
    grid = is_grid(request.candidates)
    small = 8 * d * n * pool_size(request.candidates, n) <= MAX_DENSE_BYTES and not grid
    if engine in ("dense", "streaming") or (engine == "auto" and small):
        return None
    keys = row_keys(rows.table, request.seed)
    try:
        rows, keys, fold, n_folds, n_parts = _divide(rows, keys, request.cv, request.seed)
        profile = Profile.of(rows, keys, fold, n_parts)
        factor = by_class(rows.weight / rows.mass, rows.codes, len(rows.classes))
        plan = make_plan(profile, request, factor, n_parts)
    except NotSummable as reason:
        if engine == "statistics" or grid:
            raise
        if isinstance(reason, TooLarge):
            warn(f"engine='auto' works on rows, which may take long: {reason}")
        return None
    statistics = Statistics(plan)
    statistics.add_training_rows(rows, fold)
    sample, sample_fold = draw_sample(rows, keys, profile.random, fold)
    return FoldSums(statistics, n_folds, sample, sample_fold, rows, partial(sum_again, rows))


def fold_sums(statistics: Statistics, rows: Rows | None, groups: Any = None) -> FoldSums:
    """Return statistics for a fit, with a sample of `rows` (and the labels of their groups) if these are given."""
    n_folds, seed = statistics.plan.n_folds, statistics.plan.seed
    if rows is None:
        return FoldSums(statistics, n_folds)
    statistics.check_rows(rows.table, groups is not None)
    rows = replace(rows, weight=rows.mass * statistics.plan.class_factor[rows.codes])
    rows = rows.take(np.flatnonzero(rows.weight > 0))
    keys = row_keys(rows.table, seed)
    fold = summed_folds(rows, keys, n_folds, seed)
    return FoldSums(statistics, n_folds, *draw_sample(rows, keys, sampling_keys(keys, rows.ties), fold))


def _divide(rows: Rows, keys: np.ndarray, cv: Any, seed: int) -> tuple[Rows, np.ndarray, np.ndarray, int, int]:
    """Return rows of positive weight, their keys and parts (n,), and the numbers of folds and of parts.

    Rows that are never held out are a part that is no fold.
    """
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


# ---------------------------------------------------------------------- designs


@dataclass(frozen=True)
class TrainingSums:
    """Sums over training rows, with what cannot be computed from sums."""

    plan: Plan
    sums: np.ndarray  # (A, A) over the training rows
    pool: Pool  # candidates
    sample: Rows | None = None  # sample of the training rows for logistic refits, or None
    rows: Rows | None = None  # all training rows, among which better instances are sought, or None
    # sums functions of columns over all training rows, for a last fit with the exact kernels, or None
    exact_sums: ExactSums | None = None

    @cached_property
    def encoded_sample(self) -> np.ndarray | None:
        return None if self.sample is None else self.plan.encoder.encode(self.sample.table)

    def prepare(self, kernels: Any, default: Recipe, bandwidth: Bandwidth) -> PreparedSums:
        """Choose the kernels of a fit."""
        bank = self.plan.bank(kernels, default, bandwidth)
        return PreparedSums(self.plan.encoder, bank, self.pool, self)


@dataclass(frozen=True)
class PreparedSums(Prepared):
    """Training sums with the short forms of kernels."""

    summary: TrainingSums

    def designs(self, shared: bool) -> list[Design]:
        summary = self.summary
        corners = self.bank.stack(self.pool.Z, form="streaming")
        sums, short = Sums.of(summary.sums), self.short(self.pool.Z, range(len(self.bank)))
        places = [summary.plan.functions.positions[channel.columns[0]] for channel in self.bank.channels]
        return [
            MomentDesign(sums, coding, places, short, self.pool.codes, corners, partial(self._look, coding))
            for coding in codings(len(summary.plan.classes), shared)
        ]

    def short(self, Z: np.ndarray, kernels: Sequence[int]) -> list[np.ndarray]:
        """Return the coefficients (rows, size) of the short forms of `kernels` at encoded rows."""
        bases, channels = self.summary.plan.functions.bases, [self.bank.channels[m] for m in kernels]
        return [bases[ch.columns[0]].coefficients(ch.kernel, Z[:, ch.columns[0]]) for ch in channels]

    def _look(self, coding: np.ndarray) -> RowDesign | None:
        sample = self.summary.sample
        if sample is None:
            return None
        stack = self.bank.stack(self.summary.encoded_sample, self.pool.Z, form="streaming")
        return RowDesign(stack, coding[sample.codes], sample.weight, np.empty(0, dtype=int))
