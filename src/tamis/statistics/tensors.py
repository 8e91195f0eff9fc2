"""Sums over rows on a device: profile, sums and further passes are computed there; only samples leave it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from tamis.arrays import Array, device_of, namespace, to_device, to_numpy
from tamis.base.kernel_space import POOL
from tamis.statistics.blocks import CheckedRows, check_tensor_rows, loss_weight
from tamis.statistics.device import encoded_sums
from tamis.statistics.fit import FoldSums, SumsRequest
from tamis.statistics.sample import MIN_CLASS_ROWS, SAMPLE_ROWS
from tamis.statistics.statistics import Statistics
from tamis.statistics.sums import Functions
from tamis.statistics.survey import MAX_NEW_VALUES, Profile, add_values
from tamis.table.encoding import Encoder
from tamis.table.folds import group_folds, only_folds
from tamis.table.keys import device_block_folds, device_row_keys, device_sampling_keys, ordered
from tamis.table.rows import Rows, class_factors
from tamis.table.table import Table, read_table, resolve_columns


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
        request.plan(profile, factor, n_folds),
        dtype="float32" if rows.X.dtype == namespace(rows.X).float32 else "float64",
        categorical=None if categorical is None else (),
    )
    statistics = Statistics(plan)
    statistics.add_rows(rows, survey.fold)
    sample, sample_fold = profile.draw_sample(survey.class_mass * factor)
    return FoldSums(statistics, n_folds, sample, sample_fold, None, partial(_sum_again, rows, statistics))


def _sum_again(
    rows: CheckedRows, statistics: Statistics, functions: Functions, encoder: Encoder, columns: np.ndarray
) -> np.ndarray:
    """As `tamis.statistics.sums.sum_again`, over rows on a device."""
    plan = statistics.plan
    weight = loss_weight(rows.weight, rows.codes, plan.class_factor)
    return encoded_sums(functions, encoder, columns, rows.X, rows.codes, weight, None, plan)[0] * statistics.unit


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
