"""Survey: the first light pass over blocks of rows, which finds what a plan needs.

Ranges, few values, levels, gaps, classes, and two samples of rows: one for quantiles, scales and the second look, one
for the candidates. Surveys of parts of the rows add up to that of all of them.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from tamis.base.model import POOL
from tamis.statistics.look import LOOK, RARE
from tamis.statistics.reservoir import Drawn, Reservoir
from tamis.statistics.seen import Seen, few_values, gaps_of
from tamis.statistics.statistics import checked_weight, class_keys
from tamis.table.checks import check_length, encode_classes, resolve_columns
from tamis.table.encoding import level_masses
from tamis.table.folds import Earlier, UnitCounts, group_folds, key_folds, units_of
from tamis.table.keys import copies_before, group_keys, mix, row_keys, sampling_keys
from tamis.table.rows import Rows, class_factors
from tamis.table.sources.base import Block
from tamis.table.table import Table, block_names, read_block, with_empty_labels

PLACE = 32  # bits of a position that number the rows within a block
SALT = 0xD6E8FEB86659FD93  # makes copies in different blocks differ
DISTINCT = 0.98  # share of a sample without copies in other blocks that makes it a sample of rows


class Survey:
    """What was found in the rows so far.

    Parameters
    ----------
    categorical_features, missing : as in `EM2NOLCClassifier`
    candidates : most rows of one class that may become instances, None, or "grid"
    seed : of the samples
    """

    def __init__(self, categorical_features: Any, missing: str | None, candidates: int | str | None, seed: int):
        self.categorical_features, self.missing, self.candidates, self.seed = (
            categorical_features,
            missing,
            candidates,
            seed,
        )
        self.names: list[str] | None = None
        self.named = False
        self.categorical: list[int] | None = None
        self.single = True  # whether all numbers came in single precision
        self.grouped: bool | None = None
        self.text: bool | None = None  # whether classes are text
        self.lengths: dict[int, int] = {}
        self.count: dict[Any, int] = {}
        self.mass: dict[Any, float] = {}
        self.few: dict[int, np.ndarray] = {}
        self.levels: dict[int, dict[Any, dict[Any, float]]] = {}  # of each column, of each class
        self.empty: set[int] = set()  # columns without a cell so far: they may be of either kind
        self.gaps = np.zeros(0, dtype=bool)
        self.look, self.salted = Reservoir(2 * LOOK, RARE), Reservoir(2 * LOOK, RARE)
        self.pool = Reservoir(0, candidates if isinstance(candidates, Integral) else POOL, distinct=True)
        self.units = UnitCounts()

    def update(self, block: Block) -> Survey:
        """Add a block of rows, in place."""
        known = self._begin(block.X) if self.names is None else self.names
        found = block_names(block.X)
        if len(found) != len(known):
            raise ValueError(f"block {block.number} has {len(found)} columns, and those before it {len(known)}")
        table, named = read_block(block.X, known, self.categorical, self.missing is not None)
        if named and self.named and found != known:
            raise ValueError(f"block {block.number} has the columns {found}, and those before it {known}")
        self._settle_kinds(self.empty & set(table.labels))
        table = with_empty_labels(table, set(self.levels))
        codes, classes = encode_classes(block.y, len(table))
        self._check_labels(classes.dtype.kind not in "biuf", f"block {block.number}")
        weight = checked_weight(block.weight, len(table))
        check_length("groups", block.groups, len(table))
        if self.grouped is not None and self.grouped != (block.groups is not None):
            raise ValueError("groups must be given for all blocks or for none: they decide the folds")
        self.grouped = block.groups is not None
        self.lengths[block.number] = len(table)
        groups = None if block.groups is None else group_keys(block.groups)
        rows = np.arange(len(table))
        if weight is not None and not weight.all():
            rows = np.flatnonzero(weight)
            table, codes = table.take(rows), codes[rows]
        mass = np.ones(len(rows)) if weight is None else weight[rows]
        if len(rows):
            self._count(table, codes, classes, mass)
            self._draw(block.number, table, codes, classes, mass, None if groups is None else groups[rows], rows)
        return self

    def _check_labels(self, text: bool, where: str) -> None:
        if self.text is not None and text != self.text:
            kinds = ("text", "numbers") if text else ("numbers", "text")
            raise ValueError(f"y holds {kinds[0]} in {where} and {kinds[1]} in others: give labels of one kind")
        self.text = text

    def _begin(self, X: Any) -> list[str]:
        """Learn the columns from the first rows."""
        self.names = block_names(X)
        self.categorical = resolve_columns(self.categorical_features, self.names)
        table, self.named = read_block(X, self.names, self.categorical, self.missing is not None)
        d = len(self.names)
        self.few = {j: np.empty(0) for j in range(d) if j not in table.labels}
        self.levels = {j: {} for j in table.labels}
        self.empty = set(self.few)
        self.gaps = np.zeros(d, dtype=bool)
        return self.names

    def _settle_kinds(self, categories: set[int]) -> None:
        """Columns that had no cell yet turn out to be categories."""
        if not categories:
            return
        self.empty -= categories
        self.few = {j: values for j, values in self.few.items() if j not in categories}
        self.levels |= {j: {} for j in categories}
        for name in ("look", "salted", "pool"):
            setattr(self, name, getattr(self, name).with_empty_labels(categories))

    def _count(self, table: Table, codes: np.ndarray, classes: np.ndarray, mass: np.ndarray) -> None:
        if set(table.labels) != set(self.levels):
            odd = sorted(set(table.labels) ^ set(self.levels))[0]
            raise ValueError(_two_kinds(table.names[odd]))
        self.single &= table.numbers.dtype == np.float32
        for c, (label, n) in enumerate(zip(classes.tolist(), np.bincount(codes, minlength=len(classes)), strict=True)):
            if n:
                self.count[label] = self.count.get(label, 0) + int(n)
                self.mass[label] = self.mass.get(label, 0.0) + float(mass[codes == c].sum())
                for j, values in table.labels.items():
                    _add(self.levels[j].setdefault(label, {}), level_masses(values[codes == c], mass[codes == c]))
        self.empty = {j for j in self.empty if np.isnan(table.numbers[:, j]).all()}
        self.few = _still_few(self.few, {j: table.numbers[:, j] for j in self.few})
        self.gaps |= gaps_of(table)

    def _draw(
        self,
        number: int,
        table: Table,
        codes: np.ndarray,
        classes: np.ndarray,
        mass: np.ndarray,
        groups: np.ndarray | None,
        rows: np.ndarray,
    ) -> None:
        keys = row_keys(table, self.seed)
        copies, copied = copies_before(keys, codes, [mass]), np.zeros(len(keys), dtype=bool)
        random = sampling_keys(keys, [mass, codes], salt=number)
        place = (number << PLACE) + rows
        drawn = Drawn(table, classes[codes], mass, groups, place, keys, copies, copied, random)
        self.look.add(drawn)
        self.salted.add(replace(drawn, rank=mix(random + np.uint64((number + 1) * SALT % 2**64))))
        self.pool.add(replace(drawn, rank=keys))
        if groups is None:
            self.units.add(number, units_of(keys, class_keys(classes)[codes]))

    def __add__(self, other: Survey) -> Survey:
        if self.names is None or other.names is None:
            return self if other.names is None else other
        if self.names != other.names:
            raise ValueError(f"the blocks differ in their columns: {self.names} here, {other.names} there")
        if self.grouped != other.grouped:
            raise ValueError("groups must be given for all blocks or for none: they decide the folds")
        self._check_labels(bool(other.text), "some blocks")
        for one, two in ((self, other), (other, self)):
            one._settle_kinds(one.empty & set(two.levels))
            if odd := sorted(set(two.levels) - set(one.levels)):
                raise ValueError(_two_kinds(self.names[odd[0]]))
        total = Survey(self.categorical_features, self.missing, self.candidates, self.seed)
        total.names, total.named, total.categorical = self.names, self.named and other.named, self.categorical
        total.single, total.grouped, total.text = self.single and other.single, self.grouped, self.text
        total.lengths = self.lengths | other.lengths
        total.count, total.mass = dict(self.count), dict(self.mass)
        _add(total.count, other.count)
        _add(total.mass, other.mass)
        total.few = _still_few({j: v for j, v in self.few.items() if j in other.few}, other.few)
        total.levels = {j: {label: dict(mass) for label, mass in own.items()} for j, own in self.levels.items()}
        for j, of_class in other.levels.items():
            for label, mass in of_class.items():
                _add(total.levels[j].setdefault(label, {}), mass)
        total.empty = self.empty & other.empty
        total.gaps = self.gaps | other.gaps
        total.look, total.salted = self.look + other.look, self.salted + other.salted
        total.pool, total.units = self.pool + other.pool, self.units + other.units
        return total

    @property
    def n_rows(self) -> int:
        """Rows met so far, those of weight zero included."""
        return sum(self.lengths.values())

    @property
    def classes(self) -> np.ndarray:
        """The classes, sorted."""
        return np.unique(np.array(list(self.count)))

    @property
    def class_mass(self) -> np.ndarray:
        """Weight (q,) of each class, one being the mean weight of a row."""
        mass = np.array([self.mass[label] for label in self.classes.tolist()])
        return mass * (sum(self.count.values()) / mass.sum())

    def class_factor(self, class_weight: Any) -> np.ndarray:
        """Factor (q,) of the rows of each class; refuse rows that no classifier can be fitted to."""
        classes = self.classes
        if len(classes) < 2:
            found = f"one class only ({classes.tolist()[0]!r})" if len(classes) else "no rows of positive weight"
            raise ValueError(f"X has {found}: a classifier needs rows of at least two classes")
        return class_factors(class_weight, self.class_mass, np.arange(len(classes)), classes)

    def seen(self, factor: np.ndarray, n_folds: int, earlier: Earlier) -> Seen:
        """What a plan is made from; `earlier` rows decide on folds."""
        look, pool, classes = self._sample(), self.pool.settle(), self.classes
        assert pool is not None
        fold, pool_fold = (self._folds(drawn, n_folds, earlier) for drawn in (look, pool))
        factors = dict(zip(classes.tolist(), factor.tolist(), strict=True))
        masses = {j: _weighed(of_class, factors) for j, of_class in self.levels.items()}
        return Seen(
            self._rows(look, factor),
            look.keys,
            look.rank,
            self._rows(pool, factor),
            pool.keys,
            fold,
            np.where(pool.copied, n_folds, pool_fold),
            np.array([self.count[label] for label in classes.tolist()]),
            {j: values for j, values in self.few.items() if len(values)},
            masses,
            self.gaps,
            None,
        )

    def _folds(self, drawn: Drawn, n_folds: int, earlier: Earlier) -> np.ndarray:
        """Folds (n,) of drawn rows."""
        if drawn.groups is not None:
            return group_folds(drawn.groups, n_folds, self.seed)
        before = np.zeros(len(drawn), dtype=np.int64)
        numbers = drawn.position >> PLACE
        for number in [] if earlier.alike else np.unique(numbers).tolist():
            some = np.flatnonzero(numbers == number)
            of_class = class_keys(self.classes)[np.searchsorted(self.classes, drawn.labels[some])]
            before[some] = earlier.before(number, drawn.keys[some], units_of(drawn.keys[some], of_class))
        return (key_folds(drawn.keys, n_folds) + drawn.copies + before) % n_folds

    def _sample(self) -> Drawn:
        """A random sample of the rows: by their values, unless many have copies in other blocks, which go together."""
        look, salted = self.look.settle(), self.salted.settle()
        assert look is not None and salted is not None
        return look if len(np.unique(look.rank)) >= DISTINCT * len(look) else salted

    def _rows(self, drawn: Drawn, factor: np.ndarray) -> Rows:
        """Drawn rows as training rows, in the order of the input."""
        classes = self.classes
        codes = np.searchsorted(classes, drawn.labels)
        mass = drawn.mass * (sum(self.count.values()) / sum(self.mass.values()))
        numbers = np.array(sorted(self.lengths))
        starts = np.concatenate([[0], np.cumsum([self.lengths[k] for k in numbers.tolist()])[:-1]])
        position = starts[np.searchsorted(numbers, drawn.position >> PLACE)] + (drawn.position & ((1 << PLACE) - 1))
        return Rows(drawn.table, codes, classes, mass * factor[codes], mass, drawn.groups, position)


def _two_kinds(name: str) -> str:
    return (
        f"column {name!r} holds numbers in some blocks and categories in others: name it in categorical_features, or "
        "convert it"
    )


def _add(total: dict[Any, Any], more: dict[Any, Any]) -> None:
    """Add up values by their keys, in place."""
    for key, value in more.items():
        total[key] = total.get(key, 0) + value


def _still_few(known: dict[int, np.ndarray], more: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """The columns that have few values with those of more rows, too."""
    found = {j: few_values(more[j], values) for j, values in known.items()}
    return {j: values for j, values in found.items() if values is not None}


def _weighed(of_class: dict[Any, dict[Any, float]], factors: dict[Any, float]) -> dict[Any, float]:
    """Weights of levels, from their masses in each class."""
    out: dict[Any, float] = {}
    for label, mass in of_class.items():
        _add(out, {level: factors[label] * m for level, m in mass.items()})
    return out
