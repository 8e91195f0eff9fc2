"""Which rows to learn from and which to hold out: the folds of calibration, search and studies.

A row of the input is never on both sides of a fold, and rows of one group stay together. Equal rows are different
observations: they are dealt over the folds, so that every training part has some of several equal rows of a class.
Folds follow the values of rows and a seed. They do not depend on the order of the rows, on their weights or on the
names of the classes, except for which of several equal rows is held out. Rows of weight zero are left out first.

`deal` is for rows in memory: within each class, rows are put into a random order that follows the ranks of their
values, so that the units of a column change nothing, and are dealt to the folds in turn. `block_folds` is for rows that
come in blocks or are summed: the first of equal rows goes to the fold of its key, the next one to the next fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator, GroupKFold, StratifiedGroupKFold

from tamis.errors import check_integer, warn
from tamis.table.keys import copies_before, mix, repeated, row_keys, times_gap
from tamis.table.rows import Rows, merge_places, part_of
from tamis.table.table import Table

DEFAULT_FOLDS = 5  # where cv is None
MAX_UNITS = 1 << 16  # sets of equal rows that are followed through blocks
MAX_ENTRIES = 1 << 22  # counts of these in all blocks
MAX_TABLE = 1 << 25  # blocks times sets that stand in several of them
REPEATED_SHARE = 0.02  # share of followed sets in several blocks from which on the other sets count as such too
Pair = tuple[np.ndarray, np.ndarray]  # training and test positions


def resolve_cv(cv: Any) -> Any:
    """`cv` with None as a number, and with positions as a list that can be read twice."""
    cv = DEFAULT_FOLDS if cv is None else cv
    return cv if isinstance(cv, Integral) or hasattr(cv, "split") else list(cv)


# ---------------------------------------------------------------------- rows in memory


def folds(rows: Rows, cv: Any, seed: int) -> list[tuple[Rows, Rows]]:
    """Merged training and test rows of each fold; a fold that cannot be used is left out with a warning.

    Parameters
    ----------
    rows : rows of the input, not merged
    cv : an integer (None is 5) requests folds from `deal`, stratified by class. A splitter or a sequence of
        (train, test) positions refers to the rows of the input.
    """
    cv = resolve_cv(cv)
    distinct, places = merge_places(rows)
    if isinstance(cv, Integral):
        counted = np.flatnonzero(places >= 0)
        some = rows.take(counted)
        codes = some.codes if some.response is None else None
        dealt = deal(rank_keys(some.table, seed), codes, some.groups, int(cv), seed, some.ties)
        pairs = [(counted[a], counted[b]) for a, b in dealt]
    else:
        pairs = positions(cv, rows.labels, rows.groups, rows.table.numbers)
    parts = [(part_of(distinct, places, rows, a), part_of(distinct, places, rows, b)) for a, b in pairs]
    least = 1 if rows.response is not None else len(rows.classes)  # classes to learn from
    good = [(a, b) for a, b in parts if len(b) and len(np.unique(a.codes)) >= least]
    _warn_left_out(len(parts) - len(good), len(parts), rows.response is None)
    return good


def rank_keys(table: Table, seed: int) -> np.ndarray:
    """Keys (n,) of rows by the ranks of their numbers among those of the table, and by their categories."""
    ranks = np.full(table.numbers.shape, np.nan)
    for j, values in enumerate(table.numbers.T):
        there = ~np.isnan(values)
        ranks[there, j] = np.unique(values[there], return_inverse=True)[1]
    return row_keys(replace(table, numbers=ranks), seed)


def deal(
    keys: np.ndarray,  # (n,) random numbers that follow the values of the rows; equal rows have equal keys
    # (n,) classes by which folds are stratified, or None. No more folds are made than the smallest class has rows (or
    # groups).
    codes: np.ndarray | None,
    groups: np.ndarray | None,  # (n,) groups that stay together, or None
    n_splits: int,
    seed: int,
    ties: Sequence[np.ndarray] = (),  # arrays (n,) that order equal rows, so that their positions do not matter
) -> list[Pair]:
    """Positions of training and test rows of at most `n_splits` folds; none where there are no two."""
    strata = np.zeros(len(keys), dtype=np.int64) if codes is None else np.unique(codes, return_inverse=True)[1]
    n_splits = min(n_splits, _most_folds(strata, groups))
    if n_splits < 2:
        return []
    if groups is not None:
        return _deal_groups(None if codes is None else _nameless(strata, keys), groups, n_splits, seed)
    order = np.lexsort([*ties, keys, strata])
    sizes = np.bincount(strata)
    first = np.cumsum(sizes) - sizes
    turn = np.arange(len(keys)) - np.repeat(first, sizes)
    start = key_folds(keys[order[first]], n_splits)  # of each class: no fold has the first row of every class
    fold = np.empty(len(keys), dtype=np.int64)
    fold[order] = (turn + np.repeat(start, sizes)) % n_splits
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_splits)]


def _most_folds(strata: np.ndarray, groups: np.ndarray | None) -> int:
    """Rows of the smallest class, or groups that have some of its rows."""
    if groups is None:
        return int(np.bincount(strata).min())
    return min(len(np.unique(groups[strata == c])) for c in np.unique(strata))


def _nameless(strata: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Codes (n,) of the same classes, ordered by the keys of their rows instead of by their names.

    Folds of groups compare groups by sums over the classes, whose rounding depends on the order of these.
    """
    sums = [keys[strata == c].sum() for c in range(strata.max() + 1)]
    return np.argsort(np.argsort(sums))[strata]


def _deal_groups(codes: np.ndarray | None, groups: np.ndarray, n_splits: int, seed: int) -> list[Pair]:
    """Folds of whole groups, of about the same mixture of classes; those that lack a class to learn from are left out.

    Parameters are those of `deal`.
    """
    maker: BaseCrossValidator = GroupKFold(n_splits)
    if codes is not None:
        maker = StratifiedGroupKFold(n_splits, shuffle=True, random_state=seed)
    pairs = list(maker.split(np.zeros((len(groups), 1)), codes, groups))
    if codes is None:
        return pairs
    good = [(a, b) for a, b in pairs if len(np.unique(codes[a])) == len(np.unique(codes))]
    _warn_left_out(len(pairs) - len(good), len(pairs), True)
    return good


def _warn_left_out(count: int, of: int, classes: bool) -> None:
    if count:
        lacks = "lacks a class" if classes else "is empty"
        warn(f"{count} of {of} folds are left out: their training part {lacks} or their test part is empty")


def fold_positions(
    cv: Any, table: Table, y: np.ndarray, groups: np.ndarray | None, seed: int, *, stratified: bool = True
) -> list[Pair]:
    """Training and test positions of the rows of a table with labels or numbers y; `cv` as in `folds`."""
    cv = resolve_cv(cv)
    if not isinstance(cv, Integral):
        return positions(cv, y, groups)
    codes = np.unique(y, return_inverse=True)[1]
    pairs = deal(rank_keys(table, seed), codes if stratified else None, groups, int(cv), seed, [codes])
    if not pairs:
        raise ValueError(
            f"cv={cv!r}: no fold can be made, the smallest class has too few rows or groups; give more rows"
        )
    return pairs


def positions(cv: Any, y: np.ndarray, groups: np.ndarray | None, X: np.ndarray | None = None) -> list[Pair]:
    """The training and test positions that a splitter, or a sequence of pairs of positions or masks, names."""
    if hasattr(cv, "split"):
        try:
            return list(cv.split(np.zeros((len(y), 1)) if X is None else X, y, groups))
        except ValueError as error:
            raise ValueError(f"cv={cv!r} cannot split these rows: {error}") from None
    pairs = [_pair(entry, len(y)) for entry in cv]
    if not pairs:
        raise ValueError("cv is empty: give at least one pair (train, test) of positions of rows, or a number of folds")
    return pairs


def _pair(entry: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        train, test = (np.asarray(part) for part in entry)
    except (TypeError, ValueError):
        raise ValueError(f"cv holds {entry!r:.80}, which is no pair (train, test) of positions of rows") from None
    parts = [np.flatnonzero(part) if part.dtype == bool and part.shape == (n,) else part for part in (train, test)]
    if any(part.ndim != 1 or (len(part) and part.dtype.kind not in "iu") for part in parts):
        raise ValueError(f"cv holds {entry!r:.80}, which is no pair (train, test) of positions of rows")
    both = np.concatenate(parts).astype(int)
    if len(both) and not 0 <= both.min() <= both.max() < n:
        raise ValueError(f"cv names the rows {both.min()} to {both.max()}, but X has the rows 0 to {n - 1}")
    return both[: len(parts[0])], both[len(parts[0]) :]


# ---------------------------------------------------------------------- rows that are summed


def key_folds(keys: np.ndarray, n_folds: int) -> np.ndarray:
    """Fold (n,) of each key."""
    return (mix(~keys) % np.uint64(max(1, n_folds))).astype(np.int64)


def group_folds(groups: np.ndarray, n_folds: int, seed: int) -> np.ndarray:
    """Fold (n,) of rows by the keys of their groups and a seed."""
    return key_folds(mix(groups + times_gap(seed)), n_folds)


def block_folds(
    keys: np.ndarray, codes: np.ndarray, n_folds: int, ties: Sequence[np.ndarray] = (), before: np.ndarray | int = 0
) -> np.ndarray:
    """Fold (n,) of each row of a block; equal rows of a class go to one fold after another.

    `before` is how many equal rows of the class stand in earlier blocks.
    """
    return (key_folds(keys, n_folds) + copies_before(keys, codes, ties) + before) % max(1, n_folds)


def summed_folds(rows: Rows, keys: np.ndarray, n_folds: int, seed: int) -> np.ndarray:
    """Fold (n,) of rows that are all of a table, by the keys of their values or of their groups."""
    if rows.groups is not None:
        return group_folds(rows.groups, n_folds, seed)
    return block_folds(keys, rows.codes, n_folds, [rows.mass])


def only_folds(keys: np.ndarray, codes: np.ndarray, fold: np.ndarray, n_folds: int) -> np.ndarray:
    """The fold (n,) that has all rows with the values and the class of a row; `n_folds` where several have some."""
    units = units_of(keys, codes.astype(np.uint64))
    some = repeated(units)
    if not len(some):
        return fold
    values, place = np.unique(units[some], return_inverse=True)
    low, high = np.full(len(values), n_folds), np.full(len(values), -1)
    np.minimum.at(low, place, fold[some])
    np.maximum.at(high, place, fold[some])
    out = fold.copy()
    out[some] = np.where(low == high, low, n_folds)[place]
    return out


def units_of(keys: np.ndarray, class_keys: np.ndarray) -> np.ndarray:
    """Keys (n,) of sets of equal rows of one class."""
    return mix(keys ^ class_keys)


class UnitCounts:
    """Numbers of rows in each block, for each set of equal rows of a class.

    At most `MAX_UNITS` sets are followed, those with the lowest keys. Counts of different blocks add up.
    """

    def __init__(self) -> None:
        self.bar = np.uint64(np.iinfo(np.uint64).max)  # sets above it are not followed
        self.parts: list[tuple[int, np.ndarray, np.ndarray]] = []  # block, sets, counts
        self.lost = False  # whether counts were too many to keep

    def add(self, number: int, units: np.ndarray) -> None:
        """Count the rows of a block."""
        if not self.lost:
            self.parts.append((number, *np.unique(units[units <= self.bar], return_counts=True)))
            if self._entries > 4 * MAX_UNITS:
                self._shrink()

    @property
    def _entries(self) -> int:
        return sum(len(units) for _, units, _ in self.parts)

    def _shrink(self) -> None:
        distinct = np.unique(np.concatenate([units for _, units, _ in self.parts]))
        if len(distinct) > MAX_UNITS:
            self.bar = distinct[MAX_UNITS - 1]
            kept = [(number, units <= self.bar, units, counts) for number, units, counts in self.parts]
            self.parts = [(number, units[low], counts[low]) for number, low, units, counts in kept]
        if self._entries > MAX_ENTRIES:
            self.parts, self.lost = [], True

    def __add__(self, other: UnitCounts) -> UnitCounts:
        total = UnitCounts()
        total.bar, total.lost = min(self.bar, other.bar), self.lost or other.lost
        if not total.lost:
            for number, units, counts in (*self.parts, *other.parts):
                low = units <= total.bar
                total.parts.append((number, units[low], counts[low]))
            if total._entries > 4 * MAX_UNITS:
                total._shrink()
        return total

    def earlier(self, n_folds: int, *, complete: bool = True) -> Earlier:
        """Return the numbers on which folds depend; `complete`: whether all blocks were counted."""
        if self.lost:
            return Earlier(np.empty(0, dtype=np.uint64), {}, np.uint64(0), True)
        if not self.parts:
            return Earlier(np.empty(0, dtype=np.uint64), {}, self.bar, False)
        units, blocks = np.unique(np.concatenate([units for _, units, _ in self.parts]), return_counts=True)
        several = units[blocks > 1]
        others = len(several) >= REPEATED_SHARE * len(units)
        if not complete:
            return Earlier(np.empty(0, dtype=np.uint64), {}, np.uint64(0), others)
        if len(self.parts) * len(several) > MAX_TABLE:
            return Earlier(np.empty(0, dtype=np.uint64), {}, np.uint64(0), True)
        so_far, table = np.zeros(len(several), dtype=np.int64), {}
        for number, found, counts in sorted(self.parts, key=lambda part: part[0]):
            table[number] = (so_far % n_folds).astype(np.uint16)
            own = np.isin(found, several)
            so_far[np.searchsorted(several, found[own])] += counts[own]
        return Earlier(several, table if len(several) else {}, self.bar, others)


@dataclass(frozen=True)
class Earlier:
    """Numbers of equal rows of a class in the blocks before each block, as far as folds depend on them."""

    units: np.ndarray  # (r,) sets of equal rows that stand in several blocks, sorted
    table: dict[int, np.ndarray]  # {block: (r,) rows of these in earlier blocks, modulo the number of folds}
    bar: np.uint64  # sets above it were not followed
    others: bool  # whether many of these are assumed to be in several blocks; their folds then depend on the block too

    @property
    def alike(self) -> bool:
        """Whether no fold depends on the block."""
        return not len(self.units) and not self.others

    def before(self, number: int, keys: np.ndarray, units: np.ndarray) -> np.ndarray | int:
        """Return the numbers (n,) of equal rows in earlier blocks, modulo the number of folds or at random."""
        if self.alike:
            return 0
        out = np.zeros(len(keys), dtype=np.int64)
        if len(self.units):
            place = np.minimum(np.searchsorted(self.units, units), len(self.units) - 1)
            known = self.units[place] == units
            table = self.table.get(number)  # a block that was not there before: the pass will be refused
            out[known] = 0 if table is None else table[place[known]]
        if self.others:
            far = units > self.bar
            out[far] = (mix(keys[far] + times_gap(number + 1)) >> np.uint64(33)).astype(np.int64)
        return out


def check_cv(cv: Any) -> None:
    """Refuse a `cv` that defines no folds; None is fine."""
    if isinstance(cv, Integral):
        check_integer("cv", cv, 2)
    elif cv is not None and (isinstance(cv, str) or not (hasattr(cv, "split") or hasattr(cv, "__iter__"))):
        raise ValueError(f"cv={cv!r} must be an integer, a splitter or a sequence of (train, test) positions")
