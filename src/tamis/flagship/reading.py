"""What a fit learns from a first reading of its rows: a sample to choose on, and how many rows there are.

The sample takes the rows with the lowest keys of their values, and some of every class. It depends neither on the order
of the rows nor on the blocks, unless rows are repeated: where many are, it is drawn by blocks. Of few rows it has all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.flagship.design import MAX_MODULUS
from tamis.table.blocks import BlockReader, CheckedRows, check_rows
from tamis.table.encoding import Encoder, Number
from tamis.table.keys import copies_before, label_keys, mix, row_keys, sampling_keys
from tamis.table.reservoir import MIN_DISTINCT_SHARE, PLACE_BITS, SALT, Reservoir, SampledRows
from tamis.table.rows import Rows, check_numbers, class_factors
from tamis.table.sources.source import Block
from tamis.table.table import Table, TableReader

MIN_CLASS_ROWS = 200  # of the sample, of every class
KEY_SEED = 0  # the sample does not depend on `random_state`


@stored
class Reading:
    """A total over blocks of rows.

    Parameters
    ----------
    categorical_features, missing : as in `TamisClassifier`
    numeric : whether the targets are numbers to predict, and not classes
    size : most rows of the sample

    Attributes
    ----------
    lengths : rows of each block, those of weight zero included
    count : rows of positive weight
    mass : weight of each class, or of all rows under None
    low, high : range (d,) of each column of numbers
    kinds : types of the labels
    check : sums that are other ones for other rows; see `checks_of`
    """

    def __init__(self, categorical_features: Any, missing: str | None, numeric: bool, size: int):
        self.reader = BlockReader(categorical_features, missing)
        self.numeric, self.size = numeric, size
        self.lengths: dict[int, int] = {}
        self.count = 0
        self.mass: dict[Any, float] = {}
        self.low, self.high = np.empty(0), np.empty(0)
        self.grouped: bool | None = None
        self.kinds: set[str] = set()
        self.check = np.zeros(0, dtype=np.uint64)
        per_class = 0 if numeric else MIN_CLASS_ROWS
        self.sample, self.by_block = Reservoir(size, per_class), Reservoir(size, per_class)

    @property
    def n_rows(self) -> int:
        """Number of rows, those of weight zero included."""
        return sum(self.lengths.values())

    def update(self, block: Block) -> Reading:
        """Add a block of rows, in place."""
        table, new = self.reader.read(block)
        for reservoir in (self.sample, self.by_block):
            reservoir.make_nominal(new)
        rows, target = read_targets(table, block, self.numeric)
        self._check_grouped(rows.groups is not None)
        self.lengths[block.number] = len(table)
        if len(rows):
            mass = np.ones(len(rows)) if rows.weight is None else rows.weight
            self.count += len(rows)
            self.kinds.add(target.dtype.str)
            checks = checks_of(rows.X, target, rows.weight)
            self.check = self.check + checks if len(self.check) else checks
            self._add_masses(target, mass)
            self._add_range(rows.X)
            self._draw(block.number, rows, target, mass)
        return self

    def _check_grouped(self, grouped: bool) -> None:
        if self.grouped not in (None, grouped):
            raise ValueError("groups must be given for all blocks or for none: they decide the folds")
        self.grouped = grouped

    def _add_masses(self, target: np.ndarray, mass: np.ndarray) -> None:
        if self.numeric:
            self.mass[None] = self.mass.get(None, 0.0) + float(mass.sum())
            return
        labels, codes = np.unique(target, return_inverse=True)
        for label, own in zip(labels.tolist(), np.bincount(codes, mass), strict=True):
            self.mass[label] = self.mass.get(label, 0.0) + float(own)

    def _add_range(self, table: Table) -> None:
        self._widen(np.fmin.reduce(table.numbers, axis=0), np.fmax.reduce(table.numbers, axis=0))

    def _widen(self, low: np.ndarray, high: np.ndarray) -> None:
        if len(self.low):
            low, high = np.fmin(self.low, low), np.fmax(self.high, high)
        self.low, self.high = low.astype(float), high.astype(float)

    def _draw(self, number: int, rows: CheckedRows, target: np.ndarray, mass: np.ndarray) -> None:
        keys = row_keys(rows.X, KEY_SEED)
        drawn = SampledRows(
            table=rows.X,
            labels=target,
            mass=mass,
            groups=rows.groups,
            position=(number << PLACE_BITS) + rows.position,
            keys=keys,
            copies=copies_before(keys, rows.codes, [mass]),
            copied=np.zeros(len(keys), dtype=bool),
            rank=sampling_keys(keys, [mass, target if self.numeric else rows.codes], salt=number),
        )
        self.sample.add(drawn)
        salt = np.uint64((number + 1) * SALT % 2**64)
        self.by_block.add(replace(drawn, rank=mix(drawn.rank + salt)))

    def __add__(self, other: Reading) -> Reading:
        if self.reader.names is None or other.reader.names is None:
            return self if other.reader.names is None else other
        for reading, columns in zip((self, other), self.reader.agreeing(other.reader), strict=True):
            reading.reader.become_nominal(columns)
            reading.sample.make_nominal(columns)
            reading.by_block.make_nominal(columns)
        self._check_grouped(bool(other.grouped))
        total = Reading(None, None, self.numeric, self.size)
        total.reader, total.grouped = self.reader.joined(other.reader), self.grouped
        total.kinds = self.kinds | other.kinds
        total.check = self.check + other.check if len(self.check) == len(other.check) else self.check
        for reading in (self, other):
            if not len(total.check):
                total.check = reading.check
        total.lengths, total.count = self.lengths | other.lengths, self.count + other.count
        total.mass = {k: self.mass.get(k, 0.0) + other.mass.get(k, 0.0) for k in self.mass | other.mass}
        for reading in (self, other):
            if len(reading.low):
                total._widen(reading.low, reading.high)
        total.sample, total.by_block = self.sample + other.sample, self.by_block + other.by_block
        return total

    def to_stored(self) -> dict[str, Any]:
        """Return the parts of a file."""
        names = ("reader", "numeric", "size", "lengths", "count", "mass", "low", "high", "grouped", "check")
        return {
            "kinds": sorted(self.kinds),
            **{name: getattr(self, name) for name in names},
            "sample": self.sample.kept(),
            "by_block": self.by_block.kept(),
        }

    @classmethod
    def from_stored(cls, parts: dict[str, Any]) -> Reading:
        """Return the reading of a file."""
        out = cls(None, None, parts["numeric"], parts["size"])
        for name in ("reader", "lengths", "count", "mass", "low", "high", "grouped", "check"):
            setattr(out, name, parts[name])
        out.kinds = set(parts["kinds"])
        for name in ("sample", "by_block"):
            if parts[name] is not None:
                getattr(out, name).add(parts[name])
        return out

    # ------------------------------------------------------------------ what was read

    @cached_property
    def classes(self) -> np.ndarray:
        """The classes, sorted; one without a name for numbers."""
        if self.numeric:
            return np.zeros(1, dtype=int)
        kinds = {isinstance(label, str) for label in self.mass}
        if len(kinds) > 1:
            raise ValueError("y holds text in some blocks and numbers in others: give labels of one kind")
        types = [np.dtype(kind) for kind in self.kinds]
        same = len({own.kind for own in types}) == 1 and types[0].kind in "biufM"
        return np.unique(np.array(list(self.mass), dtype=np.result_type(*types) if same else None))

    @property
    def unit(self) -> float:
        """The mean sample weight of a row, which counts as one."""
        return sum(self.mass.values()) / self.count

    def class_factor(self, class_weight: Any) -> np.ndarray:
        """Return the factor (q,) of the weight of each class."""
        classes = self.classes
        if self.numeric:
            return np.ones(1)
        if len(classes) < 2:
            found = f"one class only ({classes.tolist()[0]!r})" if len(classes) else "no rows of positive weight"
            raise ValueError(f"y has {found}: a classifier needs rows of at least two classes")
        mass = np.array([self.mass[label] for label in classes.tolist()]) / self.unit
        return class_factors(class_weight, mass, np.arange(len(classes)), classes)

    def rows(self, class_weight: Any) -> Rows:
        """Return the sample as training rows, with positions among all rows; classes have their weights among all."""
        drawn = self._drawn()
        factor, ratio = self.class_factor(class_weight), self.class_ratio()
        codes = np.zeros(len(drawn), dtype=int) if self.numeric else np.searchsorted(self.classes, drawn.labels)
        mass = drawn.mass / self.unit * ratio[codes]
        numbers = np.array(sorted(self.lengths))
        starts = np.cumsum([0, *(self.lengths[k] for k in numbers.tolist())])[:-1]
        block, place = drawn.position >> PLACE_BITS, drawn.position & ((1 << PLACE_BITS) - 1)
        position = starts[np.searchsorted(numbers, block)] + place
        response = drawn.labels.astype(float) if self.numeric else None
        order = np.argsort(position)
        rows = Rows(drawn.table, codes, self.classes, mass * factor[codes], mass, drawn.groups, position, self.unit)
        return replace(rows, response=response).take(order)

    def _drawn(self) -> SampledRows:
        """The sample by values, unless it has many copies: those in other blocks are drawn together there."""
        by_value, by_block = self.sample.kept(), self.by_block.kept()
        if by_value is None or by_block is None:
            raise ValueError("X has no rows of positive weight: give some")
        return by_value if len(np.unique(by_value.rank)) >= MIN_DISTINCT_SHARE * len(by_value) else by_block

    def class_ratio(self) -> np.ndarray:
        """Return the factor (q,) that gives the classes of the sample their shares in the weight of all rows."""
        drawn = self._drawn()
        if self.numeric or len(drawn) == self.count:
            return np.ones(len(self.classes))
        codes = np.searchsorted(self.classes, drawn.labels)
        here = np.bincount(codes, drawn.mass, len(self.classes)) / drawn.mass.sum()
        there = np.array([self.mass[label] for label in self.classes.tolist()]) / sum(self.mass.values())
        return there / here

    def table_reader(self) -> TableReader:
        """Return how further rows are read."""
        categorical = self.reader.categorical
        return TableReader(None if categorical is None else tuple(categorical), self.reader.missing is not None)


@dataclass(frozen=True)
class Population:
    """All rows, of which a sample was drawn.

    Attributes
    ----------
    n_rows : rows of positive weight
    low, high : range (d,) of each column of numbers
    weight : of all rows, in a unit that is one on average
    unit : (q,) weight among all rows that is one in the sample, once class weights leave its weight as it is: the
        weight of a row of the sample times this is its sample weight times `factor`
    factor : (q,) by which sample weights are multiplied to give weights, for each class
    """

    n_rows: int
    low: np.ndarray
    high: np.ndarray
    weight: float
    unit: np.ndarray
    factor: np.ndarray

    @classmethod
    def of(cls, reading: Reading, rows: Rows, class_weight: Any) -> Population:
        """The rows that were read, of which `rows` are a sample."""
        factor, unit = reading.class_factor(class_weight), reading.unit
        mass = np.array(
            [reading.mass[label] for label in (reading.classes.tolist() if not reading.numeric else [None])]
        )
        even = float(reading.count / (factor @ mass / unit))  # class weights leave the weight of all rows as it is
        own = float(rows.mass.sum() / rows.weight.sum())
        return cls(
            reading.count,
            reading.low,
            reading.high,
            float(reading.count),
            even / own / reading.class_ratio(),
            factor * even / unit,
        )

    def widened(self, encoder: Encoder) -> Encoder:
        """Return an encoder that does not clip what is not in the sample."""
        columns = list(encoder.columns)
        for j, own in enumerate(columns):
            if isinstance(own, Number) and own.low < own.high:
                columns[j] = replace(own, low=min(own.low, float(self.low[j])), high=max(own.high, float(self.high[j])))
        return replace(encoder, columns=tuple(columns))


def checks_of(table: Table, target: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return sums (d + 2,) over rows in any order: of each column with the targets, of the targets, of the weights.

    They are sums of bits, which wrap around. Of categories only the missing cells count.
    """
    numbers = table.numbers.astype(np.float64) + 0.0
    gaps = np.isnan(numbers)
    if target.dtype.kind == "f":
        keys = (target.astype(np.float64) + 0.0).view(np.uint64)
    else:
        labels, codes = np.unique(target, return_inverse=True)
        keys = label_keys(labels.tolist(), 0)[codes]
    odd = (keys | np.uint64(1))[:, None]
    out = np.zeros(numbers.shape[1] + 2, dtype=np.uint64)
    bits = np.ascontiguousarray(numbers).view(np.uint64) * odd
    bits[gaps] = 1  # as in a category, which a column without a cell may turn out to be
    out[:-2] = np.add.reduce(bits, axis=0)
    for j, values in table.labels.items():
        out[j] = np.uint64(sum(value is None for value in values.tolist()))
    out[-2] = np.add.reduce(keys)
    out[-1] = len(target) if weight is None else np.add.reduce(np.asarray(weight, dtype=np.float64).view(np.uint64))
    return out


def read_targets(table: Table, block: Block, numeric: bool) -> tuple[CheckedRows, np.ndarray]:
    """Return the rows of positive weight, and their labels or numbers."""
    if not numeric:
        rows = check_rows(table, block.y, block.weight, block.groups)
        return rows, rows.classes[rows.codes]
    numbers = check_numbers(block.y, len(table))
    rows = check_rows(table, np.zeros(len(table), dtype=int), block.weight, block.groups)
    return rows, numbers[rows.position]


def check_modulus(reading: Reading) -> None:
    """Refuse numbers whose differences are no floats."""
    far = np.fmax(np.abs(reading.low), np.abs(reading.high))
    if np.any(far > MAX_MODULUS):
        j = int(np.nanargmax(far))
        assert reading.reader.names is not None
        name = reading.reader.names[j]
        raise ValueError(f"X holds {far[j]:.3g} in column {name!r}, nearly the largest float: use other units")
