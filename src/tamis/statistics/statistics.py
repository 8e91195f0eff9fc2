"""Statistics: mergeable sums over rows, from which models are fitted without the rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tamis.arrays import device_of, is_tensor, namespace, to_device, to_numpy
from tamis.codec import Unreadable, digest, read, stored, write
from tamis.kernels.stacks.chebyshev import Chebyshev, Levels
from tamis.statistics.block_sums import Block, outer_sums
from tamis.statistics.device_pass import checked_tensor, counted, device_codes, device_groups, device_weight, plan_sums
from tamis.statistics.plan import Plan
from tamis.table.checks import check_length, encode_classes
from tamis.table.device_keys import device_block_folds, device_row_keys
from tamis.table.encoding import UNSEEN, Nominal, Number
from tamis.table.folds import Earlier, block_folds, group_folds, units_of
from tamis.table.keys import group_keys, label_keys, row_keys
from tamis.table.sources.base import Block as RowBlock
from tamis.table.sources.opening import source_of
from tamis.table.table import Table, block_names, read_block, with_empty_labels


@stored
class Statistics:
    """Sums over rows under a `Plan`: update with blocks of rows, add up, save, fit models from them.

    Parameters
    ----------
    plan : Plan

    Attributes
    ----------
    parts : (folds, A, A) sums of outer products of the rows' vectors ``[1, functions, class]``
    count : (folds,) rows of positive weight
    grouped : whether groups decided the folds; None before the first row
    outside : {column: cells beyond the plan's range or levels}; they count as the nearest value in
        range, unknown categories as no category

    Examples
    --------
    >>> import numpy as np
    >>> from tamis import EM2NOLCClassifier, Plan, Statistics
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 > 1
    >>> plan = Plan.of(X, y)
    >>> here, there = Statistics(plan).update(X[:900], y[:900]), Statistics(plan).update(X[900:], y[900:])
    >>> clf = EM2NOLCClassifier(max_instances=10, max_features=2).fit_statistics(here + there)
    >>> clf.features_.tolist()
    [0, 1]
    """

    def __init__(self, plan: Plan):
        if not isinstance(plan, Plan):
            raise ValueError(f"plan={type(plan).__name__} is not a Plan: make one with Plan.of(X, y)")
        size = plan.functions.size + len(plan.classes)
        self.plan = plan
        self.parts = np.zeros((plan.n_folds, size, size))
        self.count = np.zeros(plan.n_folds, dtype=np.int64)
        self.grouped: bool | None = None
        self._outside = np.zeros(len(plan.encoder.names), dtype=np.int64)

    def __repr__(self) -> str:
        names = self.plan.encoder.names
        return f"Statistics({self.n_rows} rows, {len(names)} columns, {self.plan.n_folds} folds)"

    @property
    def n_rows(self) -> int:
        """Rows summed so far."""
        return int(self.count.sum())

    @property
    def outside(self) -> dict[str, int]:
        """{column: cells beyond its range or levels in the plan}."""
        names = self.plan.encoder.names
        return {name: int(n) for name, n in zip(names, self._outside, strict=True) if n}

    def update(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Statistics:
        """Add rows, in place (from one thread at a time; add up statistics of several).

        The fold of a row follows its values; equal rows of a class in one call go to one fold after another.

        Parameters
        ----------
        X : array, DataFrame or dict of columns, those of the plan; a tensor of torch is summed where it is. Or rows in
            blocks, from files or a cluster, as in the `fit` of `EM2NOLCClassifier`.
        y : class labels, all among the plan's classes, or the name of their column in a file
        sample_weight : (n,) at least 0, or the name of a column
        groups : labels (n,), or the name of a column; rows of one group share a fold
        """
        source = None if is_tensor(X) else source_of(X, y, sample_weight, groups)
        if source is not None:
            total = source.total(partial(Statistics, self.plan), add_block, "summing rows")
            self.add_sums(total.parts, total.count, total._outside, grouped=total.grouped)
            return self
        return self.add_rows(X, y, sample_weight, groups)

    def add_rows(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, number: int = 0, earlier: Earlier | None = None
    ) -> Statistics:
        """Add the rows of the block `number`, whose equal rows in `earlier` blocks decide on their folds too."""
        if is_tensor(X):
            return self._add_tensor(X, y, sample_weight, groups, number, earlier)
        plan = self.plan
        names = block_names(X)
        table, named = read_block(X, list(plan.encoder.names), plan.categorical, plan.allow_missing)
        self.check_columns(names, named)
        table = with_empty_labels(table, set(np.flatnonzero(plan.encoder.nominal).tolist()))
        weight = checked_weight(sample_weight, len(table))
        check_length("groups", groups, len(table))
        by = None if groups is None else group_keys(groups)
        if weight is not None and not weight.all():
            kept = np.flatnonzero(weight)
            check_length("y", y, len(table))
            table, y, weight = table.take(kept), np.asarray(y)[kept], weight[kept]
            by = None if by is None else by[kept]
        if not len(table):
            return self
        codes = known_codes(y, plan.classes, len(table))
        if by is None:
            keys = row_keys(table, plan.seed)
            before = self._before(keys, codes, number, earlier)
            fold = block_folds(keys, codes, plan.n_folds, [] if weight is None else [weight], before)
        else:
            fold = group_folds(by, plan.n_folds, plan.seed)
        if weight is not None or np.any(plan.class_factor != 1.0):
            weight = (1.0 if weight is None else weight) * plan.class_factor[codes]
        self.check_rows(table, by is not None)
        self.grouped = by is not None
        self.add_table(table, codes, weight, fold)
        return self

    def _before(self, keys: np.ndarray, codes: np.ndarray, number: int, earlier: Earlier | None) -> np.ndarray | int:
        """How many equal rows of its class stand before the block of each row, as far as folds depend on it."""
        if earlier is None or earlier.alike:
            return 0
        return earlier.before(number, keys, units_of(keys, class_keys(self.plan.classes)[codes]))

    def _add_tensor(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, number: int, earlier: Earlier | None
    ) -> Statistics:
        """As `add_rows`, for rows that live on a device, which sums them."""
        plan = self.plan
        names = list(plan.encoder.names)
        nominal = bool(plan.categorical) or bool(plan.encoder.nominal.any())
        X = checked_tensor(X, names, categorical=nominal, allow_missing=plan.allow_missing)
        codes, _ = device_codes(y, X, plan.classes)
        weight, by = device_weight(sample_weight, X), device_groups(groups, X)
        if weight is not None:
            X, codes, weight, by, _ = counted(X, codes, weight, by)
        if not X.shape[0]:
            return self
        self._check_gaps(to_numpy(namespace(X).any(namespace(X).isnan(X), axis=0)), set())
        fold = self._device_folds(X, codes, weight, by, number, earlier)
        self.add_sums(*plan_sums(plan, X, codes, weight, fold), grouped=by is not None)
        return self

    def _device_folds(self, X: Any, codes: Any, weight: Any, by: Any, number: int, earlier: Earlier | None) -> Any:
        plan = self.plan
        if by is not None:
            found = group_folds(by, plan.n_folds, plan.seed)
            return to_device(found, device_of(X))
        keys = device_row_keys(X, plan.seed)
        before: Any = 0
        if earlier is not None and not earlier.alike:
            before = self._before(to_numpy(keys).view(np.uint64), to_numpy(codes), number, earlier)
            before = to_device(np.asarray(before), device_of(X))
        return device_block_folds(keys, codes, plan.n_folds, weight, before)

    def check_columns(self, names: list[str], named: bool) -> None:
        """Refuse other columns than those of the plan, or their names in another order."""
        known = list(self.plan.encoder.names)
        if len(names) != len(known):
            raise ValueError(f"X has {len(names)} columns, but the plan has {len(known)}: {known}")
        if named and self.plan.named and names != known:
            other = next(a for a, b in zip(names, known, strict=True) if a != b)
            raise ValueError(
                f"X has the column {other!r} where the plan has others: its columns are {known}, in this order"
            )

    def check_rows(self, table: Table, grouped: bool) -> None:
        """Refuse rows that do not go with the plan or with the rows before them.

        Missing cells need a function of their own, which the plan has only where it was told to expect
        them (categories and columns with few values need none).
        """
        if self.grouped is not None and grouped != self.grouped:
            raise ValueError("groups must be given for all rows or for none: they decide the folds")
        self._check_gaps(np.isnan(table.numbers).any(axis=0), set(table.labels))

    def _check_gaps(self, missing: np.ndarray, labels: set[int]) -> None:
        """Refuse missing cells, where a mask (d,) says so, in columns without a function for them."""
        columns = zip(self.plan.encoder.columns, self.plan.functions.bases, self.plan.functions.gaps, strict=True)
        for j, (column, basis, gap) in enumerate(columns):
            kept = isinstance(column, Number) and np.isnan(column.fill) and j not in labels
            if missing[j] and kept and not gap and isinstance(basis, Chebyshev) and basis.panels == 1:
                raise ValueError(
                    f"column {self.plan.encoder.names[j]!r} has missing cells, but the plan saw none there: make the "
                    "plan with gaps='all' or from rows that have some"
                )

    def add_table(
        self,
        table: Table,
        codes: np.ndarray,
        weight: np.ndarray | None,
        parts: np.ndarray,
    ) -> None:
        """Add rows that have been read already; `parts` are their folds."""
        plan, outside, counted = self.plan, [], []

        def read(chunk: slice) -> Block:
            some = table.take(chunk)
            Z = plan.encoder.encode(some)
            outside.append(_outside(plan, some, Z))
            w = None if weight is None else weight[chunk]
            fold = parts[chunk]
            counted.append(np.bincount(fold if w is None else fold[w > 0], minlength=plan.n_folds))
            return Block(Z, codes[chunk], w, fold)

        size = {"n_classes": len(plan.classes), "n_parts": plan.n_folds}
        self.parts += outer_sums(plan.functions, read, len(codes), dtype=plan.dtype, **size)
        self.count += np.sum(counted, axis=0)
        self._outside += np.sum(outside, axis=0)

    def add_sums(self, parts: np.ndarray, count: np.ndarray, outside: np.ndarray, *, grouped: bool | None) -> None:
        """Add what was summed elsewhere: sums and rows by fold, and cells beyond the ranges by column."""
        if None not in (self.grouped, grouped) and grouped != self.grouped:
            raise ValueError("groups must be given for all rows or for none: they decide the folds")
        self.grouped = self.grouped if grouped is None else grouped
        self.parts += parts
        self.count += count
        self._outside += outside

    def __add__(self, other: Statistics) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        if self.plan is not other.plan and digest(self.plan) != digest(other.plan):
            raise ValueError("statistics of different plans do not add up: make all of them with one Plan")
        known = {s.grouped for s in (self, other)} - {None}
        if len(known) > 1:
            raise ValueError("statistics with and without groups do not add up: groups decide the folds")
        total = Statistics(self.plan)
        total.grouped = known.pop() if known else None
        total.parts = self.parts + other.parts
        total.count = self.count + other.count
        total._outside = self._outside + other._outside
        return total

    def __radd__(self, other: Any) -> Statistics:
        """So that ``sum(list_of_statistics)`` works."""
        return self + Statistics(self.plan) if other == 0 else NotImplemented

    def save(self, path: str | Path) -> None:
        """Write the sums and the plan to one file of JSON and arrays (no pickle)."""
        write(path, "statistics", self)

    @classmethod
    def load(cls, path: str | Path) -> Statistics:
        """Read a file that `save` has written."""
        loaded = read(path, "statistics")
        if not isinstance(loaded, cls):
            raise Unreadable(f"{str(path)!r} holds a {type(loaded).__name__}, not statistics")
        return loaded

    def to_stored(self) -> dict[str, Any]:
        """What a file holds."""
        names = ("plan", "parts", "count", "grouped", "_outside")
        return {name.lstrip("_"): getattr(self, name) for name in names}

    @classmethod
    def from_stored(cls, parts: dict[str, Any]) -> Statistics:
        """The statistics of a file."""
        plan, sums = parts["plan"], parts["parts"]
        if len(sums) != plan.n_folds or any(basis.size > sums.shape[-1] for basis in plan.functions.bases):
            raise ValueError("its sums do not fit its plan")
        out = cls(plan)
        for name, own in (("parts", out.parts), ("count", out.count), ("outside", out._outside)):
            if parts[name].shape != own.shape:
                raise ValueError("its sums do not fit its plan")
            own[...] = parts[name]
        out.grouped = parts["grouped"]
        return out

    @property
    def class_mass(self) -> np.ndarray:
        """Weight (classes,) of each class, class weights included."""
        size = self.plan.functions.size
        return np.einsum("kii->i", self.parts)[size:]

    @property
    def unit(self) -> float:
        """Makes the mean weight one, class weights apart: only ratios of weights matter."""
        return self.n_rows / float(np.sum(self.class_mass / self.plan.class_factor))

    def sums(self, leave_out: int | None = None) -> np.ndarray:
        """Sums of all folds, or of all but one."""
        total = np.zeros(self.parts.shape[1:])
        for k, part in enumerate(self.parts):
            if k != leave_out:
                total += part
        total *= self.unit
        return total

    def check_usable(self) -> None:
        """Refuse what no classifier can be fitted to."""
        if not self.n_rows:
            raise ValueError("the statistics are empty: update them with rows first")
        empty = self.plan.classes[self.class_mass == 0].tolist()
        if empty:
            raise ValueError(
                f"the statistics have no row of class {empty[0]!r}: a classifier needs rows of every class"
            )


def class_keys(classes: np.ndarray) -> np.ndarray:
    """Keys (q,) of class labels."""
    return label_keys(classes.tolist(), 0)


def add_block(
    statistics: Statistics, block: RowBlock, device: str | None = None, earlier: Earlier | None = None
) -> Statistics:
    """Add a block of rows, which a device sums if one is given and all columns are numbers."""
    X, plan = block.X, statistics.plan
    if device is not None and not plan.categorical and not plan.encoder.nominal.any():
        table, named = read_block(X, list(plan.encoder.names), plan.categorical, plan.allow_missing)
        statistics.check_columns(block_names(X), named)
        X = X if table.labels else to_device(np.ascontiguousarray(table.numbers), device)
    return statistics.add_rows(X, block.y, block.weight, block.groups, block.number, earlier)


def checked_weight(sample_weight: Any, n: int) -> np.ndarray | None:
    """Weights (n,) as they are given, or None; refuse what are none."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=float)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}, expected ({n},): one weight per row")
    if not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise ValueError("sample_weight holds negative or non-finite values: weights must be finite and at least 0")
    return weight


def _outside(plan: Plan, table: Table, Z: np.ndarray) -> np.ndarray:
    """How many cells of each column lie beyond the plan's range, or are unknown categories."""
    out = np.zeros(Z.shape[1], dtype=np.int64)
    for j, column in enumerate(plan.encoder.columns):
        if isinstance(column, Nominal):
            out[j] = np.count_nonzero(Z[:, j] == UNSEEN)
        elif j not in table.labels:
            x, basis = table.numbers[:, j], plan.functions.bases[j]
            out[j] = np.count_nonzero(x < column.low) + np.count_nonzero(x > column.high)
            if isinstance(basis, Levels):
                out[j] += np.count_nonzero(~np.isin(Z[:, j], basis.values) & ~np.isnan(Z[:, j]))
    return out


def known_codes(y: Any, classes: np.ndarray, n: int) -> np.ndarray:
    """Codes (n,) of labels among the classes of a plan."""
    codes, labels = encode_classes(y, n)
    unknown = [label for label in labels.tolist() if label not in classes.tolist()]
    if unknown:
        raise ValueError(f"y holds {unknown[0]!r}, which is not a class of the plan: {classes.tolist()}")
    return np.searchsorted(classes, labels)[codes]
