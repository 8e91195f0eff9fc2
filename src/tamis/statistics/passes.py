"""Sums over rows that are not in memory: a first pass for the plan, a second one for the statistics.

Rows in blocks are read twice; rows on a device stay there, where profile, sums and further passes are computed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from tamis.arrays import Array, device_of, namespace, to_device, to_numpy
from tamis.base.kernel_space import POOL
from tamis.codec import digest
from tamis.statistics.fit import FoldSums
from tamis.statistics.plan import Plan, SumsRequest, make_plan
from tamis.statistics.profile import MAX_NEW_VALUES, MIN_CLASS_ROWS, SAMPLE_ROWS, Profile, add_values
from tamis.statistics.statistics import Statistics
from tamis.statistics.sums import Functions, encoded_sums
from tamis.statistics.survey import Survey
from tamis.table.blocks import CheckedRows, check_tensor_rows, loss_weight
from tamis.table.encoding import Encoder
from tamis.table.folds import Earlier, group_folds, only_folds
from tamis.table.keys import device_block_folds, device_row_keys, device_sampling_keys, ordered
from tamis.table.rows import Rows, class_factors
from tamis.table.sources.checkpoint import Checkpoint
from tamis.table.sources.source import Block, FirstBlocks, Source, check_unchanged
from tamis.table.table import Table, read_table, resolve_columns


def sum_source(
    source: Source, request: SumsRequest, *, device: str | None = None, checkpoint: str | Path | None = None
) -> FoldSums:
    """Sum the rows of a source by fold, and draw a sample of them.

    Blocks of numbers are summed on `device`, if one is given. With `checkpoint`, a file, a pass that was stopped
    continues from what it saved there last.
    """
    n_folds, categorical, fingerprint = request.n_folds, request.categorical_features, source.fingerprint
    if source.categorical is not None and isinstance(categorical, str):
        categorical = list(source.categorical)
    empty = partial(Survey, categorical, request.missing, request.candidates, request.seed)
    first = FirstBlocks(source) if source.once else None
    survey = (source if first is None else first).total(empty, Survey.update, "reading rows")
    factor = survey.class_factor(request.class_weight)
    earlier = survey.units.earlier(n_folds, complete=first is None)
    profile = survey.profile(factor, n_folds, earlier)
    plan = replace(
        make_plan(profile, request, factor, n_folds, all_gaps=source.once and request.missing == "absent"),
        named=survey.reader.named,
        categorical=None if survey.reader.categorical is None else tuple(survey.reader.categorical),
    )
    lengths = sorted(survey.lengths.items())
    keeper = None
    if checkpoint is not None:
        keeper = Checkpoint(Path(checkpoint), Statistics, f"{fingerprint} {lengths} {digest(plan)}")
    if first is None:
        statistics = source.total(
            partial(Statistics, plan),
            partial(Statistics.add_block, device=device, earlier=earlier),
            "summing rows",
            n_rows=survey.n_rows,
            keeper=keeper,
        )
    else:
        statistics, survey = _sum_once(first, plan, empty(), device, earlier)
        profile = survey.profile(factor, n_folds, earlier)
    n_read = sum(survey.count.values())
    if n_read != statistics.n_rows:
        raise ValueError(
            f"X gave {n_read} rows (of positive weight) when it was first read and {statistics.n_rows} when it was "
            "read again: a function must return a new iterator over the same rows whenever it is called"
        )
    check_unchanged(source, fingerprint)
    sample, sample_fold = profile.draw_sample(survey.class_mass * factor)
    again = None if source.once else partial(_sum_source_again, source, statistics, fingerprint)
    return FoldSums(statistics, n_folds, sample, sample_fold, None, again)


def _sum_once(
    first: FirstBlocks, plan: Plan, survey: Survey, device: str | None, earlier: Earlier
) -> tuple[Statistics, Survey]:
    """Return statistics and the survey of all blocks of an iterator, from one pass."""

    def add(statistics: Statistics, block: Block) -> Statistics:
        survey.update(block)
        return statistics.add_block(block, device, earlier)

    return first.everything().total(partial(Statistics, plan), add, "summing rows"), survey


# ---------------------------------------------------------------------- rows on a device


def sum_tensor(X: Any, y: Any, sample_weight: Any, groups: Any, request: SumsRequest) -> FoldSums:
    """Sum the rows of a tensor on its device."""
    n_folds, seed = request.n_folds, request.seed
    names = [f"x{j}" for j in range(X.shape[1])] if X.ndim == 2 else []
    categorical = resolve_columns(request.categorical_features, names)
    allow_missing = request.missing is not None
    rows = check_tensor_rows(X, y, sample_weight, groups, categorical=bool(categorical), allow_missing=allow_missing)
    classes = rows.classes
    if len(classes) < 2:
        raise ValueError(f"y has one class only ({classes.tolist()[0]!r}): a classifier needs rows of two at least")
    if not len(rows):
        raise ValueError("sample_weight is zero for all rows: give some of them a positive weight")
    size = request.candidates if isinstance(request.candidates, Integral) else POOL
    survey = _TensorSurvey(rows, seed, int(size), n_folds)
    factor = class_factors(request.class_weight, survey.class_mass, np.arange(len(classes)), classes)
    profile = survey.profile(factor, names)
    plan = replace(
        make_plan(profile, request, factor, n_folds),
        dtype="float32" if rows.X.dtype == namespace(rows.X).float32 else "float64",
        categorical=None if categorical is None else (),
    )
    statistics = Statistics(plan)
    statistics.add_rows(rows, survey.fold)
    sample, sample_fold = profile.draw_sample(survey.class_mass * factor)
    return FoldSums(statistics, n_folds, sample, sample_fold, None, partial(_sum_tensor_again, rows, statistics))


class _TensorSurvey:
    """What `tamis.statistics.survey.Survey` finds in blocks, for all rows of a tensor at once."""

    def __init__(self, rows: CheckedRows, seed: int, size: int, n_folds: int):
        self.rows, self.size, self.n_folds = rows, size, n_folds
        self.X, self.codes, self.classes, self.weight = rows.X, rows.codes, rows.classes, rows.weight
        self.xp = namespace(self.X)
        self.keys = device_row_keys(self.X, seed)
        self.random = device_sampling_keys(self.keys, self.codes)
        if rows.groups is None:
            self.fold = device_block_folds(self.keys, self.codes, n_folds, self.weight)
        else:
            self.fold = to_device(group_folds(rows.groups, n_folds, seed), device_of(self.X))
        self.counts = np.array([int(self.xp.count_nonzero(self.codes == c)) for c in range(len(self.classes))])
        if not self.counts.all():
            lost = self.classes[self.counts == 0].tolist()[0]
            raise ValueError(f"sample_weight is zero for all rows of class {lost!r}: give some a positive weight")

    @property
    def class_mass(self) -> np.ndarray:
        """Weight (q,) of each class, where one is the mean weight of a row."""
        if self.weight is None:
            return self.counts.astype(float)
        mass = np.array([float(self.xp.sum(self.weight[self.codes == c])) for c in range(len(self.classes))])
        return mass * (self.counts.sum() / mass.sum())

    def profile(self, factor: np.ndarray, names: list[str]) -> Profile:
        """Return what a plan needs."""
        drawn = self._lowest(self.random, 2 * SAMPLE_ROWS, MIN_CLASS_ROWS)
        pool = self._lowest(self.keys, 0, 4 * self.size)
        if len(pool) < len(self.rows) and self._is_short(pool):
            pool = np.arange(len(self.rows))
        sample, pool_rows = (self._rows(some, factor, names) for some in (drawn, pool))
        distinct = {j: self._distinct_values(sample.table, j) for j in range(len(names))}
        pool_keys = self._unsigned(self.keys, pool)
        return Profile(
            rows=sample,
            keys=self._unsigned(self.keys, drawn),
            random=self._unsigned(self.random, drawn),
            fold=self._at(self.fold, drawn),
            pool=pool_rows,
            pool_keys=pool_keys,
            pool_fold=only_folds(pool_keys, pool_rows.codes, self._at(self.fold, pool), self.n_folds),
            counts=self.counts,
            distinct={j: values for j, values in distinct.items() if values is not None and len(values)},
            level_mass={},
            gaps=to_numpy(self.xp.any(self.xp.isnan(self.X), axis=0)),
        )

    def _lowest(self, keys: Array, size: int, size_per_class: int) -> np.ndarray:
        """Return positions that include the `size` lowest keys, and the `size_per_class` lowest of each class."""
        xp, places = self.xp, ordered(keys)
        n = keys.shape[0]
        chosen = [_below(xp, places, None, size, n)] if size else []
        for c, count in enumerate(self.counts.tolist()):
            chosen.append(_below(xp, places, self.codes == c, size_per_class, count))
        return np.unique(np.concatenate([to_numpy(part) for part in chosen]))

    def _is_short(self, pool: np.ndarray) -> bool:
        """Whether rows of some class have fewer distinct keys than candidates are requested."""
        keys, codes = self._unsigned(self.keys, pool), self._at(self.codes, pool)
        found = [len(np.unique(keys[codes == c])) for c in range(len(self.classes))]
        return any(k < min(self.size, count) for k, count in zip(found, self.counts.tolist(), strict=True))

    def _at(self, values: Array, rows: np.ndarray) -> np.ndarray:
        return to_numpy(self.xp.take(values, to_device(rows, device_of(values)), axis=0))

    def _unsigned(self, keys: Array, rows: np.ndarray) -> np.ndarray:
        return self._at(keys, rows).view(np.uint64)

    def _rows(self, some: np.ndarray, factor: np.ndarray, names: list[str]) -> Rows:
        table = read_table(self._at(self.X, some), names, None, True)
        codes = self._at(self.codes, some)
        mass = np.ones(len(some))
        if self.weight is not None:
            mass = self._at(self.weight, some) / float(self.xp.mean(self.weight))
        groups = None if self.rows.groups is None else self.rows.groups[some]
        return Rows(table, codes, self.classes, mass * factor[codes], mass, groups, self.rows.position[some])

    def _distinct_values(self, sample: Table, column: int) -> np.ndarray | None:
        """Return the values of a column if they are few."""
        known = add_values(sample.numbers[:, column], np.empty(0))
        while known is not None:
            if not len(known):
                return None
            x = self.xp.astype(self.X[:, column], self.xp.float64) + 0.0  # a copy, which is contiguous
            levels = to_device(known, device_of(x), "float64")
            place = self.xp.clip(self.xp.searchsorted(levels, x), 0, len(known) - 1)
            new = x[~self.xp.isnan(x) & (self.xp.take(levels, place) != x)]
            if not new.shape[0]:
                return known
            known = add_values(to_numpy(new[:MAX_NEW_VALUES]), known)
        return None


def _below(xp: Any, places: Array, mask: Array | None, size: int, count: int) -> Array:
    """Return positions that include the `size` lowest of the `count` keys in a mask, and few others.

    Keys are uniformly distributed: those below a bound are about `size` plus ten standard deviations. If they are
    fewer, all are sorted.
    """
    if size >= count:
        return xp.nonzero(mask)[0] if mask is not None else xp.arange(count, device=device_of(places))
    bound = int(-(2**63) + (size + 10.0 * size**0.5 + 10.0) / count * 2.0**64)
    low = places <= min(bound, 2**63 - 1)
    found = xp.nonzero(low if mask is None else low & mask)[0]
    if found.shape[0] >= size:
        return found
    rows = xp.arange(places.shape[0], device=device_of(places)) if mask is None else xp.nonzero(mask)[0]
    return xp.take(rows, xp.argsort(xp.take(places, rows))[:size])


# ---------------------------------------------------------------------- one more pass


def _sum_source_again(
    source: Source,
    statistics: Statistics,
    fingerprint: str,
    functions: Functions,
    encoder: Encoder,
    columns: np.ndarray,
) -> np.ndarray:
    """As `tamis.statistics.sums.sum_again`, over the rows of a source."""
    plan = statistics.plan

    def add(total: np.ndarray, block: Block) -> np.ndarray:
        rows = plan.read(block)
        return total + _exact_sums(rows, plan, functions, encoder, columns) if len(rows) else total

    size = functions.size + len(plan.classes)
    zero = partial(np.zeros, (size, size))
    total = source.total(zero, add, "summing exact kernels", n_rows=statistics.n_rows)
    check_unchanged(source, fingerprint)
    return total * statistics.unit


def _sum_tensor_again(
    rows: CheckedRows, statistics: Statistics, functions: Functions, encoder: Encoder, columns: np.ndarray
) -> np.ndarray:
    """As `tamis.statistics.sums.sum_again`, over rows on a device."""
    return _exact_sums(rows, statistics.plan, functions, encoder, columns) * statistics.unit


def _exact_sums(
    rows: CheckedRows, plan: Plan, functions: Functions, encoder: Encoder, columns: np.ndarray
) -> np.ndarray:
    weight = loss_weight(rows.weight, rows.codes, plan.class_factor)
    return encoded_sums(functions, encoder, rows.X, rows.codes, weight, len(plan.classes), columns=columns)[0]
