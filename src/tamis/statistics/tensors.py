"""Training from rows on a device: the survey, the pass and further passes happen there, samples come back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from tamis.arrays import Array, device_of, namespace, to_device, to_numpy
from tamis.base.model import POOL
from tamis.statistics.block_sums import Functions
from tamis.statistics.device_pass import (
    checked_tensor,
    counted,
    device_codes,
    device_groups,
    device_weight,
    encoded_sums,
    plan_sums,
)
from tamis.statistics.look import LOOK, RARE
from tamis.statistics.one_pass import OnePass
from tamis.statistics.seen import Seen, few_values
from tamis.statistics.statistics import Statistics
from tamis.statistics.wanted import Wanted, looked_at
from tamis.table.checks import resolve_columns
from tamis.table.device_keys import device_block_folds, device_row_keys, device_sampling_keys, ordered
from tamis.table.encoding import Encoder
from tamis.table.folds import group_folds, only_folds
from tamis.table.rows import Rows, class_factors
from tamis.table.table import Table, read_table


def sum_tensor(X: Any, y: Any, sample_weight: Any, groups: Any, wanted: Wanted) -> OnePass:
    """Sum the rows of a tensor where it is."""
    n_folds, seed = wanted.n_folds, wanted.seed
    names = [f"x{j}" for j in range(X.shape[1])] if X.ndim == 2 else []
    categorical = resolve_columns(wanted.categorical_features, names)
    X = checked_tensor(X, categorical=bool(categorical), allow_missing=wanted.missing is not None)
    codes, classes = device_codes(y, X)
    if len(classes) < 2:
        raise ValueError(f"y has one class only ({classes.tolist()[0]!r}): a classifier needs rows of two at least")
    weight, by, position = device_weight(sample_weight, X), device_groups(groups, X), None
    if weight is not None:
        X, codes, weight, by, position = counted(X, codes, weight, by)
        if not X.shape[0]:
            raise ValueError("sample_weight is zero for all rows: give some of them a positive weight")
    size = wanted.candidates if isinstance(wanted.candidates, Integral) else POOL
    survey = _Survey(X, codes, classes, weight, by, seed, int(size), n_folds)
    factor = class_factors(wanted.class_weight, survey.mass, np.arange(len(classes)), classes)
    seen = survey.seen(factor, names)
    if position is not None:
        rows, pool = (replace(part, position=position[part.position]) for part in (seen.rows, seen.pool))
        seen = replace(seen, rows=rows, pool=pool)
    plan = replace(
        wanted.plan(seen, factor, n_folds),
        dtype="float32" if X.dtype == namespace(X).float32 else "float64",
        categorical=None if categorical is None else (),
    )
    statistics = Statistics(plan)
    statistics.add_sums(*plan_sums(plan, X, codes, weight, survey.fold), grouped=by is not None)
    look = looked_at(seen, survey.mass * factor)
    return OnePass(statistics, n_folds, *look, None, partial(_again, X, codes, weight, statistics))


def _again(
    X: Array,
    codes: Array,
    weight: Array | None,
    statistics: Statistics,
    functions: Functions,
    encoder: Encoder,
    columns: np.ndarray,
) -> np.ndarray:
    """As `sum_again`, over rows on a device."""
    plan = statistics.plan
    if weight is not None or np.any(plan.class_factor != 1.0):
        factor = namespace(X).take(to_device(plan.class_factor, device_of(X), "float64"), codes)
        weight = factor if weight is None else weight * factor
    return encoded_sums(functions, encoder, columns, X, codes, weight, None, plan)[0] * statistics.unit


class _Survey:
    """What `tamis.statistics.survey` finds in blocks, for all rows of a tensor at once."""

    def __init__(
        self,
        X: Array,
        codes: Array,
        classes: np.ndarray,
        weight: Array | None,
        by: np.ndarray | None,
        seed: int,
        size: int,
        n_folds: int,
    ):
        self.X, self.codes, self.classes, self.weight, self.by = X, codes, classes, weight, by
        self.xp, self.size, self.n_folds = namespace(X), size, n_folds
        self.keys = device_row_keys(X, seed)
        self.random = device_sampling_keys(self.keys, codes)
        if by is None:
            self.fold = device_block_folds(self.keys, codes, n_folds, weight)
        else:
            self.fold = to_device(group_folds(by, n_folds, seed), device_of(X))
        self.counts = np.array([int(self.xp.count_nonzero(codes == c)) for c in range(len(classes))])
        if not self.counts.all():
            lost = classes[self.counts == 0].tolist()[0]
            raise ValueError(f"sample_weight is zero for all rows of class {lost!r}: give some a positive weight")

    @property
    def mass(self) -> np.ndarray:
        """Weight (q,) of each class, one being the mean weight of a row."""
        if self.weight is None:
            return self.counts.astype(float)
        mass = np.array([float(self.xp.sum(self.weight[self.codes == c])) for c in range(len(self.classes))])
        return mass * (self.counts.sum() / mass.sum())

    def seen(self, factor: np.ndarray, names: list[str]) -> Seen:
        """What a plan is made from."""
        look = self._lowest(self.random, 2 * LOOK, RARE)
        pool = self._lowest(self.keys, 0, 4 * self.size)
        if len(pool) < self.X.shape[0] and self._short(pool):
            pool = np.arange(self.X.shape[0])
        rows, others = (self._rows(some, factor, names) for some in (look, pool))
        few = {j: self._few(rows.table, j) for j in range(len(names))}
        return Seen(
            rows,
            self._unsigned(self.keys, look),
            self._unsigned(self.random, look),
            others,
            self._unsigned(self.keys, pool),
            self._at(self.fold, look),
            only_folds(self._unsigned(self.keys, pool), others.codes, self._at(self.fold, pool), self.n_folds),
            self.counts,
            {j: values for j, values in few.items() if values is not None and len(values)},
            {},
            to_numpy(self.xp.any(self.xp.isnan(self.X), axis=0)),
            None,
        )

    def _lowest(self, keys: Array, size: int, each: int) -> np.ndarray:
        """Positions of rows among which are those of the `size` lowest keys, and of the `each` lowest of a class."""
        xp, places = self.xp, ordered(keys)
        n = keys.shape[0]
        chosen = [_below(xp, places, None, size, n)] if size else []
        for c, count in enumerate(self.counts.tolist()):
            chosen.append(_below(xp, places, self.codes == c, each, count))
        return np.unique(np.concatenate([to_numpy(part) for part in chosen]))

    def _short(self, pool: np.ndarray) -> bool:
        """Whether rows of some class have fewer distinct keys than are wanted."""
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
        groups = None if self.by is None else self.by[some]
        return Rows(table, codes, self.classes, mass * factor[codes], mass, groups, some)

    def _few(self, sample: Table, column: int) -> np.ndarray | None:
        """The values of a column if they are few."""
        known = few_values(sample.numbers[:, column], np.empty(0))
        while known is not None:
            if not len(known):
                return None
            x = self.xp.astype(self.X[:, column], self.xp.float64) + 0.0  # not a view: searches want them in one piece
            levels = to_device(known, device_of(x), "float64")
            place = self.xp.clip(self.xp.searchsorted(levels, x), 0, len(known) - 1)
            stray = x[~self.xp.isnan(x) & (self.xp.take(levels, place) != x)]
            if not stray.shape[0]:
                return known
            known = few_values(to_numpy(stray[:10_000]), known)
        return None


def _below(xp: Any, places: Array, mask: Array | None, size: int, count: int) -> Array:
    """Positions of at least the `size` lowest of `count` keys, those of a mask; of not many more if keys are even."""
    if size >= count:
        return xp.nonzero(mask)[0] if mask is not None else xp.arange(count, device=device_of(places))
    bar = int(-(2**63) + (size + 10.0 * size**0.5 + 10.0) / count * 2.0**64)
    low = places <= min(bar, 2**63 - 1)
    found = xp.nonzero(low if mask is None else low & mask)[0]
    if found.shape[0] >= size:
        return found
    rows = xp.arange(places.shape[0], device=device_of(places)) if mask is None else xp.nonzero(mask)[0]
    return xp.take(rows, xp.argsort(xp.take(places, rows))[:size])
