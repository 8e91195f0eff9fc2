"""What must be known of the rows before they can be summed: samples, distinct values, levels, missing cells.

A `Profile` of rows in memory is computed at once; a `Survey` collects it from blocks of rows, and surveys of parts of
the rows add up to that of all of them. Samples depend neither on the order of the rows nor on how they are cut into
blocks: every row has a random key that follows its values, and a sample takes the rows with the lowest keys.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from tamis.base.kernel_space import POOL
from tamis.statistics.profile import MIN_CLASS_ROWS, SAMPLE_ROWS, Profile, add_values, columns_with_gaps
from tamis.table.blocks import BlockReader, CheckedRows, check_rows, class_keys
from tamis.table.encoding import level_masses
from tamis.table.folds import Earlier, UnitCounts, group_folds, key_folds, units_of
from tamis.table.keys import copies_before, mix, row_keys, sampling_keys
from tamis.table.reservoir import MIN_DISTINCT_SHARE, PLACE_BITS, SALT, Reservoir, SampledRows
from tamis.table.rows import Rows, class_factors
from tamis.table.sources.source import Block
from tamis.table.table import Table


class Survey:
    """What was found in the rows so far.

    Parameters
    ----------
    categorical_features, missing : as in `EM2NOLCClassifier`
    candidates : maximum number of rows of one class that may become instances, None, or "grid"
    seed : of the samples
    """

    def __init__(self, categorical_features: Any, missing: str | None, candidates: int | str | None, seed: int):
        self.reader = BlockReader(categorical_features, missing)
        self.candidates, self.seed = candidates, seed
        self.grouped: bool | None = None
        self.text: bool | None = None  # whether classes are text
        self.lengths: dict[int, int] = {}  # rows of each block
        self.count: dict[Any, int] = {}  # rows of each class
        self.mass: dict[Any, float] = {}  # weight of each class
        self.distinct: dict[int, np.ndarray] = {}
        self.level_mass: dict[int, dict[Any, dict[Any, float]]] = {}  # of each column, class and level
        self.gaps = np.zeros(0, dtype=bool)
        self.by_value = Reservoir(2 * SAMPLE_ROWS, MIN_CLASS_ROWS)
        self.by_block = Reservoir(2 * SAMPLE_ROWS, MIN_CLASS_ROWS)
        self.pool = Reservoir(0, candidates if isinstance(candidates, Integral) else POOL, distinct=True)
        self.units = UnitCounts()

    def update(self, block: Block) -> Survey:
        """Add a block of rows, in place."""
        first = self.reader.names is None
        table, new = self.reader.read(block)
        if first:
            d = len(table.names)
            self.distinct = {j: np.empty(0) for j in range(d) if j not in table.labels}
            self.level_mass = {j: {} for j in table.labels}
            self.gaps = np.zeros(d, dtype=bool)
        self._become_nominal(new)
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

    def _become_nominal(self, columns: set[int]) -> None:
        """Turn columns of which no cell was found so far into categories."""
        if not columns:
            return
        self.reader.become_nominal(columns)
        self.distinct = {j: values for j, values in self.distinct.items() if j not in columns}
        self.level_mass |= {j: {} for j in columns}
        for reservoir in (self.by_value, self.by_block, self.pool):
            reservoir.make_nominal(columns)

    def _count(self, rows: CheckedRows, mass: np.ndarray) -> None:
        table: Table = rows.X
        codes, counts = rows.codes, np.bincount(rows.codes, minlength=len(rows.classes))
        for c, label in enumerate(rows.classes.tolist()):
            if counts[c]:
                _add(self.count, {label: int(counts[c])})
                _add(self.mass, {label: float(mass[codes == c].sum())})
                for j, values in table.labels.items():
                    own = self.level_mass[j].setdefault(label, {})
                    _add(own, level_masses(values[codes == c], mass[codes == c]))
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
        if self.reader.names is None or other.reader.names is None:
            return self if other.reader.names is None else other
        for survey, columns in zip((self, other), self.reader.agreeing(other.reader), strict=True):
            survey._become_nominal(columns)
        if self.grouped != other.grouped:
            raise ValueError("groups must be given for all blocks or for none: they decide the folds")
        self._check_labels(bool(other.text), "some blocks")
        total = Survey(self.reader.categorical_features, self.reader.missing, self.candidates, self.seed)
        total.reader = self.reader.joined(other.reader)
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
