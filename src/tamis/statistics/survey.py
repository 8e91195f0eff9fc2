"""What must be known of the rows before they can be summed: samples, distinct values, levels, missing cells.

A `Profile` of rows in memory is computed at once; a `Survey` collects it from blocks of rows, and surveys of parts of
the rows add up to that of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from tamis.base.kernel_space import POOL
from tamis.kernels.stacks.chebyshev import SIZES
from tamis.statistics.blocks import CheckedRows, check_rows, class_keys
from tamis.statistics.sample import MIN_CLASS_ROWS, SAMPLE_ROWS, Reservoir, SampledRows, draw_sample
from tamis.table.encoding import level_masses
from tamis.table.folds import Earlier, UnitCounts, group_folds, key_folds, only_folds, units_of
from tamis.table.keys import copies_before, lowest, lowest_distinct, mix, row_keys, sampling_keys
from tamis.table.rows import Rows, class_factors
from tamis.table.sources.source import Block
from tamis.table.table import Table, block_names, read_block, resolve_columns, with_empty_labels

FIRST_ROWS = 1000  # rows that show that a column has many values
MAX_DISTINCT = SIZES[1]  # values of a column of numbers that are listed
MAX_NEW_VALUES = 10 * FIRST_ROWS  # values that are added to the list at a time
PLACE_BITS = 32  # bits of a position that number the rows within a block
SALT = 0xD6E8FEB86659FD93  # makes the keys of copies in different blocks differ
MIN_DISTINCT_SHARE = 0.98  # of a sample by values, below which copies in other blocks are too many


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


# ---------------------------------------------------------------------- rows in blocks


class Survey:
    """What was found in the rows so far.

    Parameters
    ----------
    categorical_features, missing : as in `EM2NOLCClassifier`
    candidates : maximum number of rows of one class that may become instances, None, or "grid"
    seed : of the samples
    """

    def __init__(self, categorical_features: Any, missing: str | None, candidates: int | str | None, seed: int):
        self.categorical_features, self.missing = categorical_features, missing
        self.candidates, self.seed = candidates, seed
        self.names: list[str] | None = None
        self.named = False
        self.categorical: list[int] | None = None
        self.grouped: bool | None = None
        self.text: bool | None = None  # whether classes are text
        self.lengths: dict[int, int] = {}  # rows of each block
        self.count: dict[Any, int] = {}  # rows of each class
        self.mass: dict[Any, float] = {}  # weight of each class
        self.distinct: dict[int, np.ndarray] = {}
        self.level_mass: dict[int, dict[Any, dict[Any, float]]] = {}  # of each column, class and level
        self.empty: set[int] = set()  # columns without a cell so far, which may be numbers or categories
        self.gaps = np.zeros(0, dtype=bool)
        self.by_value = Reservoir(2 * SAMPLE_ROWS, MIN_CLASS_ROWS)
        self.by_block = Reservoir(2 * SAMPLE_ROWS, MIN_CLASS_ROWS)
        self.pool = Reservoir(0, candidates if isinstance(candidates, Integral) else POOL, distinct=True)
        self.units = UnitCounts()

    def update(self, block: Block) -> Survey:
        """Add a block of rows, in place."""
        known = self._read_columns(block.X) if self.names is None else self.names
        found = block_names(block.X)
        if len(found) != len(known):
            raise ValueError(f"block {block.number} has {len(found)} columns, and those before it {len(known)}")
        table, named = read_block(block.X, known, self.categorical, self.missing is not None)
        if named and self.named and found != known:
            raise ValueError(f"block {block.number} has the columns {found}, and those before it {known}")
        self._make_nominal(self.empty & set(table.labels))
        table = with_empty_labels(table, set(self.level_mass))
        rows = check_rows(table, block.y, block.weight, block.groups)
        self._check_labels(rows.classes.dtype.kind not in "biuf", f"block {block.number}")
        if self.grouped not in (None, rows.groups is not None):
            raise ValueError("groups must be given for all blocks or for none: they decide the folds")
        self.grouped = rows.groups is not None
        self.lengths[block.number] = len(table)
        if len(rows):
            mass = np.ones(len(rows)) if rows.weight is None else rows.weight
            self._count(rows, mass)
            self._draw(block.number, rows, mass)
        return self

    def _check_labels(self, text: bool, where: str) -> None:
        if self.text is not None and text != self.text:
            kinds = ("text", "numbers") if text else ("numbers", "text")
            raise ValueError(f"y holds {kinds[0]} in {where} and {kinds[1]} in others: give labels of one kind")
        self.text = text

    def _read_columns(self, X: Any) -> list[str]:
        """Learn the names and kinds of the columns from the first rows."""
        self.names = block_names(X)
        self.categorical = resolve_columns(self.categorical_features, self.names)
        table, self.named = read_block(X, self.names, self.categorical, self.missing is not None)
        d = len(self.names)
        self.distinct = {j: np.empty(0) for j in range(d) if j not in table.labels}
        self.level_mass = {j: {} for j in table.labels}
        self.empty = set(self.distinct)
        self.gaps = np.zeros(d, dtype=bool)
        return self.names

    def _make_nominal(self, columns: set[int]) -> None:
        """Turn columns of which no cell was found so far into categories."""
        if not columns:
            return
        self.empty -= columns
        self.distinct = {j: values for j, values in self.distinct.items() if j not in columns}
        self.level_mass |= {j: {} for j in columns}
        for reservoir in (self.by_value, self.by_block, self.pool):
            reservoir.make_nominal(columns)

    def _count(self, rows: CheckedRows, mass: np.ndarray) -> None:
        table: Table = rows.X
        codes, counts = rows.codes, np.bincount(rows.codes, minlength=len(rows.classes))
        if set(table.labels) != set(self.level_mass):
            raise _mixed_kinds(table.names[sorted(set(table.labels) ^ set(self.level_mass))[0]])
        for c, label in enumerate(rows.classes.tolist()):
            if counts[c]:
                _add(self.count, {label: int(counts[c])})
                _add(self.mass, {label: float(mass[codes == c].sum())})
                for j, values in table.labels.items():
                    own = self.level_mass[j].setdefault(label, {})
                    _add(own, level_masses(values[codes == c], mass[codes == c]))
        self.empty = {j for j in self.empty if np.isnan(table.numbers[:, j]).all()}
        self.distinct = _merge_values(self.distinct, {j: table.numbers[:, j] for j in self.distinct})
        self.gaps |= columns_with_gaps(table)

    def _draw(self, number: int, rows: CheckedRows, mass: np.ndarray) -> None:
        keys, codes = row_keys(rows.X, self.seed), rows.codes
        random = sampling_keys(keys, [mass, codes], salt=number)
        drawn = SampledRows(
            table=rows.X,
            labels=rows.classes[codes],
            mass=mass,
            groups=rows.groups,
            position=(number << PLACE_BITS) + rows.position,
            keys=keys,
            copies=copies_before(keys, codes, [mass]),
            copied=np.zeros(len(keys), dtype=bool),
            rank=random,
        )
        self.by_value.add(drawn)
        self.by_block.add(replace(drawn, rank=mix(random + np.uint64((number + 1) * SALT % 2**64))))
        self.pool.add(replace(drawn, rank=keys))
        if rows.groups is None:
            self.units.add(number, units_of(keys, class_keys(rows.classes)[codes]))

    def __add__(self, other: Survey) -> Survey:
        if self.names is None or other.names is None:
            return self if other.names is None else other
        if self.names != other.names:
            raise ValueError(f"the blocks differ in their columns: {self.names} here, {other.names} there")
        if self.grouped != other.grouped:
            raise ValueError("groups must be given for all blocks or for none: they decide the folds")
        self._check_labels(bool(other.text), "some blocks")
        for one, two in ((self, other), (other, self)):
            one._make_nominal(one.empty & set(two.level_mass))
            if mixed := sorted(set(two.level_mass) - set(one.level_mass)):
                raise _mixed_kinds(self.names[mixed[0]])
        total = Survey(self.categorical_features, self.missing, self.candidates, self.seed)
        total.names, total.named, total.categorical = self.names, self.named and other.named, self.categorical
        total.grouped, total.text = self.grouped, self.text
        total.lengths = self.lengths | other.lengths
        for survey in (self, other):
            _add(total.count, survey.count)
            _add(total.mass, survey.mass)
            for j, of_class in survey.level_mass.items():
                own = total.level_mass.setdefault(j, {})
                for label, mass in of_class.items():
                    _add(own.setdefault(label, {}), mass)
        total.distinct = _merge_values({j: v for j, v in self.distinct.items() if j in other.distinct}, other.distinct)
        total.empty = self.empty & other.empty
        total.gaps = self.gaps | other.gaps
        total.by_value, total.by_block = self.by_value + other.by_value, self.by_block + other.by_block
        total.pool, total.units = self.pool + other.pool, self.units + other.units
        return total

    @property
    def n_rows(self) -> int:
        """Number of rows, those of weight zero included."""
        return sum(self.lengths.values())

    @property
    def classes(self) -> np.ndarray:
        """The classes, sorted."""
        return np.unique(np.array(list(self.count)))

    @property
    def class_mass(self) -> np.ndarray:
        """Weight (q,) of each class, where one is the mean weight of a row."""
        mass = np.array([self.mass[label] for label in self.classes.tolist()])
        return mass * (sum(self.count.values()) / mass.sum())

    def class_factor(self, class_weight: Any) -> np.ndarray:
        """Return the factor (q,) of the rows of each class; refuse rows of fewer than two classes."""
        classes = self.classes
        if len(classes) < 2:
            found = f"one class only ({classes.tolist()[0]!r})" if len(classes) else "no rows of positive weight"
            raise ValueError(f"X has {found}: a classifier needs rows of at least two classes")
        return class_factors(class_weight, self.class_mass, np.arange(len(classes)), classes)

    def profile(self, factor: np.ndarray, n_folds: int, earlier: Earlier) -> Profile:
        """Return what a plan needs; equal rows of `earlier` blocks decide on folds."""
        sample, pool, classes = self._sample(), self.pool.kept(), self.classes
        assert pool is not None
        factors = dict(zip(classes.tolist(), factor.tolist(), strict=True))
        return Profile(
            rows=self._rows(sample, factor),
            keys=sample.keys,
            random=sample.rank,
            fold=self._folds(sample, n_folds, earlier),
            pool=self._rows(pool, factor),
            pool_keys=pool.keys,
            pool_fold=np.where(pool.copied, n_folds, self._folds(pool, n_folds, earlier)),
            counts=np.array([self.count[label] for label in classes.tolist()]),
            distinct={j: values for j, values in self.distinct.items() if len(values)},
            level_mass={j: _total_mass(of_class, factors) for j, of_class in self.level_mass.items()},
            gaps=self.gaps,
        )

    def _folds(self, drawn: SampledRows, n_folds: int, earlier: Earlier) -> np.ndarray:
        """Return the folds (n,) of drawn rows."""
        if drawn.groups is not None:
            return group_folds(drawn.groups, n_folds, self.seed)
        before = np.zeros(len(drawn), dtype=np.int64)
        numbers = drawn.position >> PLACE_BITS
        for number in [] if earlier.alike else np.unique(numbers).tolist():
            rows = np.flatnonzero(numbers == number)
            keys = class_keys(self.classes)[np.searchsorted(self.classes, drawn.labels[rows])]
            before[rows] = earlier.before(number, drawn.keys[rows], units_of(drawn.keys[rows], keys))
        return (key_folds(drawn.keys, n_folds) + drawn.copies + before) % n_folds

    def _sample(self) -> SampledRows:
        """Return the sample by values, unless it has many copies: those in other blocks are drawn together there."""
        by_value, by_block = self.by_value.kept(), self.by_block.kept()
        assert by_value is not None and by_block is not None
        return by_value if len(np.unique(by_value.rank)) >= MIN_DISTINCT_SHARE * len(by_value) else by_block

    def _rows(self, drawn: SampledRows, factor: np.ndarray) -> Rows:
        """Return drawn rows as training rows, with their positions in the whole input."""
        classes = self.classes
        codes = np.searchsorted(classes, drawn.labels)
        mass = drawn.mass * (sum(self.count.values()) / sum(self.mass.values()))
        numbers = np.array(sorted(self.lengths))
        starts = np.cumsum([0, *(self.lengths[k] for k in numbers.tolist())])[:-1]
        place = drawn.position & ((1 << PLACE_BITS) - 1)
        position = starts[np.searchsorted(numbers, drawn.position >> PLACE_BITS)] + place
        return Rows(drawn.table, codes, classes, mass * factor[codes], mass, drawn.groups, position)


def _mixed_kinds(name: str) -> ValueError:
    return ValueError(
        f"column {name!r} holds numbers in some blocks and categories in others: name it in categorical_features, or "
        "convert it"
    )


def _add(total: dict[Any, Any], more: dict[Any, Any]) -> None:
    """Add values of the same keys, in place."""
    for key, value in more.items():
        total[key] = total.get(key, 0) + value


def _merge_values(known: dict[int, np.ndarray], more: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Return the distinct values of the columns that still have few."""
    found = {j: add_values(more[j], values) for j, values in known.items()}
    return {j: values for j, values in found.items() if values is not None}


def _total_mass(of_class: dict[Any, dict[Any, float]], factors: dict[Any, float]) -> dict[Any, float]:
    """Return the weights of levels over all classes, each times its factor."""
    out: dict[Any, float] = {}
    for label, mass in of_class.items():
        _add(out, {level: factors[label] * m for level, m in mass.items()})
    return out
