"""Statistics: sums over rows that can be added up, and from which models are fitted without the rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tamis.arrays import Array, beside, is_tensor, namespace, to_numpy
from tamis.codec import Unreadable, digest, read, stored, write
from tamis.kernels.stacks.chebyshev import Levels
from tamis.statistics.plan import Plan
from tamis.statistics.profile import keeps_gaps
from tamis.statistics.sums import encoded_sums
from tamis.table.blocks import CheckedRows, class_keys, loss_weight
from tamis.table.encoding import UNSEEN
from tamis.table.folds import Earlier, block_folds, group_folds, units_of
from tamis.table.keys import device_block_folds, device_row_keys, row_keys
from tamis.table.rows import Rows
from tamis.table.sources.source import Block, source_of


@stored
class Statistics:
    """Sums over rows: update them with blocks of rows, add them up, save them, fit models from them.

    Parameters
    ----------
    plan : Plan

    Attributes
    ----------
    parts : (folds, A, A) sums of outer products of the rows' vectors ``[1, functions, class]``
    count : (folds,) rows of positive weight
    grouped : whether groups decided the folds; None before the first row
    outside : {column: number of cells outside the plan's range or levels}; they are clipped to the range, and unknown
        categories agree with no other

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
        """Number of rows summed so far."""
        return int(self.count.sum())

    @property
    def outside(self) -> dict[str, int]:
        """{column: number of cells outside its range or levels in the plan}."""
        names = self.plan.encoder.names
        return {name: int(n) for name, n in zip(names, self._outside, strict=True) if n}

    def update(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Statistics:
        """Add rows, in place (from one thread at a time; add up statistics of several).

        The fold of a row follows its values; equal rows of a class in one call go to one fold after another.

        Parameters
        ----------
        X : array, DataFrame or dict of columns, those of the plan; a tensor of torch is summed on its device. Or rows
            in blocks, from files or a cluster, as in the `fit` of `EM2NOLCClassifier`.
        y : class labels, all among the plan's classes, or the name of their column in a file
        sample_weight : (n,) at least 0, or the name of a column
        groups : labels (n,), or the name of a column; rows of one group share a fold
        """
        source = None if is_tensor(X) else source_of(X, y, sample_weight, groups)
        if source is None:
            return self.add_block(Block(0, X, y, sample_weight, groups))
        total = source.total(partial(Statistics, self.plan), Statistics.add_block, "summing rows")
        self._add_sums(total.parts, total.count, total._outside, total.grouped)
        return self

    def add_block(self, block: Block, device: str | None = None, earlier: Earlier | None = None) -> Statistics:
        """Add a block of rows, in place.

        Parameters
        ----------
        block : Block
        device : where columns of numbers are summed; None for numpy
        earlier : numbers of equal rows in earlier blocks, which decide on folds too
        """
        rows = self.plan.read(block, device)
        if len(rows):
            self.add_rows(rows, self._folds(rows, block.number, earlier))
        return self

    def add_rows(self, rows: CheckedRows, fold: Array) -> None:
        """Add rows with their folds (n,), in place."""
        grouped = rows.groups is not None
        self.check_rows(rows.X, grouped)
        weight = loss_weight(rows.weight, rows.codes, self.plan.class_factor)
        self._add_sums(*_sum_rows(self.plan, rows.X, rows.codes, weight, fold), grouped)

    def add_training_rows(self, rows: Rows, fold: np.ndarray) -> None:
        """Add rows with their folds (n,), in place; class weights are part of their weights."""
        weight = None if np.all(rows.weight == 1.0) else rows.weight
        self._add_sums(*_sum_rows(self.plan, rows.table, rows.codes, weight, fold), None)

    def _folds(self, rows: CheckedRows, number: int, earlier: Earlier | None) -> Array:
        """Return the folds (n,) of the rows of a block."""
        plan, tensor = self.plan, is_tensor(rows.X)
        if rows.groups is not None:
            return beside(group_folds(rows.groups, plan.n_folds, plan.seed), rows.codes)
        keys = device_row_keys(rows.X, plan.seed) if tensor else row_keys(rows.X, plan.seed)
        before: Any = 0
        if earlier is not None and not earlier.alike:
            unsigned = to_numpy(keys).view(np.uint64)
            units = units_of(unsigned, class_keys(plan.classes)[to_numpy(rows.codes)])
            before = beside(np.asarray(earlier.before(number, unsigned, units)), rows.codes)
        if tensor:
            return device_block_folds(keys, rows.codes, plan.n_folds, rows.weight, before)
        return block_folds(keys, rows.codes, plan.n_folds, [] if rows.weight is None else [rows.weight], before)

    def _check_grouped(self, grouped: bool | None) -> None:
        if None not in (self.grouped, grouped) and grouped != self.grouped:
            raise ValueError("groups must be given for all rows or for none: they decide the folds")

    def check_rows(self, X: Any, grouped: bool) -> None:
        """Refuse rows of a table or tensor that do not fit the plan or the rows before them.

        Groups must be given for all rows or for none. Missing cells need a function, which the plan has for categories,
        for columns with few values and for columns that had some when the plan was made.
        """
        self._check_grouped(grouped)
        x, labels = (X, set()) if is_tensor(X) else (X.numbers, set(X.labels))
        missing = to_numpy(namespace(x).any(namespace(x).isnan(x), axis=0))
        encoder, functions = self.plan.encoder, self.plan.functions
        for j in sorted(functions.plain.tolist()):  # the other bases have functions that vanish where a cell is missing
            if missing[j] and keeps_gaps(encoder.columns[j]) and not functions.gaps[j] and j not in labels:
                raise ValueError(
                    f"column {encoder.names[j]!r} has missing cells, but the plan saw none there: make the "
                    "plan with gaps='all' or from rows that have some"
                )

    def _add_sums(self, parts: np.ndarray, count: np.ndarray, outside: np.ndarray, grouped: bool | None) -> None:
        """Add sums and numbers of rows by fold, and numbers of cells outside the ranges by column."""
        self._check_grouped(grouped)
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
        """Support ``sum(list_of_statistics)``."""
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
        """Return the parts of a file."""
        names = ("plan", "parts", "count", "grouped", "_outside")
        return {name.lstrip("_"): getattr(self, name) for name in names}

    @classmethod
    def from_stored(cls, parts: dict[str, Any]) -> Statistics:
        """Return the statistics of a file."""
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
        """Weight (classes,) of each class, times its class weight."""
        size = self.plan.functions.size
        return np.einsum("kii->i", self.parts)[size:]

    @property
    def unit(self) -> float:
        """The factor that makes the mean sample weight one: only ratios of weights matter."""
        return self.n_rows / float(np.sum(self.class_mass / self.plan.class_factor))

    def sums(self, leave_out: int | None = None) -> np.ndarray:
        """Return the sums of all folds, or of all but one."""
        total = np.zeros(self.parts.shape[1:])
        for k, part in enumerate(self.parts):
            if k != leave_out:
                total += part
        total *= self.unit
        return total

    def check_usable(self) -> None:
        """Refuse sums without rows of every class."""
        if not self.n_rows:
            raise ValueError("the statistics are empty: update them with rows first")
        empty = self.plan.classes[self.class_mass == 0].tolist()
        if empty:
            raise ValueError(
                f"the statistics have no row of class {empty[0]!r}: a classifier needs rows of every class"
            )


def _sum_rows(
    plan: Plan, X: Any, codes: Array, weight: Array | None, fold: Array
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sums and numbers of rows by fold, and numbers of cells outside the ranges by column.

    X is a table or a tensor.
    """
    outside: list[np.ndarray] = []
    parts = encoded_sums(
        plan.functions,
        plan.encoder,
        X,
        codes,
        weight,
        len(plan.classes),
        fold=fold,
        n_folds=plan.n_folds,
        dtype=plan.dtype,
        inspect=lambda rows, Z: outside.append(_count_outside(plan, rows, Z)),
    )
    xp, counted = namespace(fold), fold if weight is None else fold[weight > 0]
    count = np.array([int(xp.count_nonzero(counted == k)) for k in range(plan.n_folds)])
    return parts, count, np.sum(outside, axis=0)


def _count_outside(plan: Plan, X: Any, Z: Array) -> np.ndarray:
    """Return the numbers (d,) of cells outside the plan's ranges, or of unknown levels; Z are the encoded rows."""
    x = X if is_tensor(X) else X.numbers
    xp, columns = namespace(x), plan.encoder.columns
    low, high = (beside(np.array([getattr(c, end, np.nan) for c in columns]), x) for end in ("low", "high"))
    beyond = (x < low) | (x > high)  # never for missing cells and categories
    out = np.array(to_numpy(xp.count_nonzero(beyond, axis=0)))
    for j, (column, basis) in enumerate(zip(columns, plan.functions.bases, strict=True)):
        if column.kind == "category":
            out[j] = int(xp.count_nonzero(Z[:, j] == UNSEEN))
        elif isinstance(basis, Levels):
            values = beside(np.array(basis.values, dtype=float), x)
            z = xp.astype(Z[:, j], xp.float64) + 0.0  # a copy, which is contiguous
            nearest = xp.take(values, xp.searchsorted(0.5 * (values[1:] + values[:-1]), z))
            unknown = xp.abs(z - nearest) > 1e-9 * (1.0 + xp.abs(nearest))  # devices round otherwise than numpy
            out[j] += int(xp.count_nonzero(unknown & ~beyond[:, j]))
    return out
