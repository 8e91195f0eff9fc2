"""What is known of all rows before they are summed, and how a plan treats each column accordingly.

A column has an encoding, functions that replace its kernels, and points on a grid where candidates are not rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.base.kernel_space import POOL, Pool
from tamis.errors import check_choice, check_integer
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.stacks.chebyshev import SIZES, Basis, Chebyshev, Levels, chebyshev
from tamis.table.encoding import Encoder, Nominal, Number, Position, fit_nominal, level_masses, sorted_levels
from tamis.table.folds import only_folds
from tamis.table.keys import lowest, lowest_distinct, sampling_keys
from tamis.table.rows import Rows, concatenate, merge_keyed
from tamis.table.table import Table

GRID = "grid"  # the value of `candidates` that requests points instead of rows
SCALE_ROWS = 1 << 15  # rows from which scales and winsorising limits are computed
SAMPLE_ROWS = 50_000  # rows of the sample for calibration and logistic refits
MIN_CLASS_ROWS = 1000  # rows of each class in it, as far as there are so many
FIRST_ROWS = 1000  # rows that show that a column has many values
MAX_DISTINCT = SIZES[1]  # values of a column of numbers that are listed
MAX_NEW_VALUES = 10 * FIRST_ROWS  # values that are added to the list at a time


class NotSummable(ValueError):
    """The kernels cannot be written as short sums of functions of single columns."""


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


def draw_sample(
    rows: Rows,
    keys: np.ndarray,
    random: np.ndarray,
    fold: np.ndarray,
    counts: np.ndarray | None = None,
    mass: np.ndarray | None = None,
) -> tuple[Rows, np.ndarray]:
    """Draw rows for what sums cannot give, and return them with their folds; equal rows of a fold are merged.

    Classes are drawn in proportion to their rows, but `MIN_CLASS_ROWS` of each are taken if there are so many. Weights
    are scaled so that those of a class add up to their sum over all rows.

    Parameters
    ----------
    rows, keys, random, fold : rows to draw from, the keys of their values, the keys to draw by, and their folds
    counts, mass : (classes,) numbers and weights of all rows, where `rows` are a sample
    """
    n_classes = len(rows.classes)
    counts = np.bincount(rows.codes, minlength=n_classes) if counts is None else counts
    mass = np.bincount(rows.codes, weights=rows.weight, minlength=n_classes) if mass is None else mass
    share = min(1.0, SAMPLE_ROWS / counts.sum())
    factor, chosen = np.ones(n_classes), []
    for c in range(n_classes):
        members = np.flatnonzero(rows.codes == c)
        drawn = members[lowest(random[members], max(round(share * counts[c]), MIN_CLASS_ROWS))]
        factor[c] = mass[c] / max(rows.weight[drawn].sum(), np.finfo(float).tiny)
        chosen.append(drawn)
    drawn = np.concatenate(chosen)
    folds = np.unique(fold[drawn])
    parts = [drawn[fold[drawn] == k] for k in folds]
    merged = [merge_keyed(rows.take(part), keys[part]) for part in parts]
    out = concatenate(merged)
    scaled = replace(out, weight=out.weight * factor[out.codes], mass=out.mass * factor[out.codes])
    return scaled, np.repeat(folds, [len(part) for part in merged])


# ---------------------------------------------------------------------- encodings


def fit_encoder(
    profile: Profile,
    ranges: Mapping[int, tuple[float, float]],
    scaling: str | None,
    missing: str | None,
    winsorise: float,
) -> Encoder:
    """Fit encodings to a sample of the rows.

    A column is clipped to its entry in `ranges`; else to its smallest and largest value if it has few values or if
    `winsorise` is zero; else to its quantiles `winsorise` and ``1 - winsorise``.
    """
    table, known = profile.rows.table, dict(ranges)
    for j in range(len(table.names)):
        if j in profile.distinct:
            known.setdefault(j, (float(profile.distinct[j][0]), float(profile.distinct[j][-1])))
        elif winsorise == 0 and profile.limits is not None and not np.isnan(profile.limits[j]).any():
            low, high = profile.limits[j].tolist()
            known.setdefault(j, (low, high))
    rows = lowest(profile.random, SCALE_ROWS)
    sample = replace(table.take(rows), labels={})
    encoder = Encoder.fit(
        sample, profile.rows.weight[rows], scaling=scaling, missing=missing, winsorise=winsorise, ranges=known
    )
    columns: list[Any] = list(encoder.columns)
    for j, mass in profile.level_mass.items():
        columns[j] = fit_nominal(mass, missing)
    return replace(encoder, columns=tuple(columns))


def with_levels(encoder: Encoder, categories: Mapping[int, Sequence[Any]]) -> Encoder:
    """Return the encoder with further levels of some categories."""
    columns = list(encoder.columns)
    for j, levels in categories.items():
        column = columns[j]
        if column.kind != "category":
            raise ValueError(
                f"categories names {encoder.names[j]!r}, which is not a category: see categorical_features"
            )
        known = [*column.levels, *(level for level in levels if level not in column.levels)]
        order = sorted_levels(known)
        fill = column.fill if np.isnan(column.fill) else float(order.index(column.levels[int(column.fill)]))
        columns[j] = Nominal(tuple(order), fill)
    return replace(encoder, columns=tuple(columns))


def keeps_gaps(column: Number | Nominal | Position) -> bool:
    """Whether missing cells of a column of numbers stay missing once encoded."""
    return column.kind == "number" and bool(np.isnan(column.fill))


# ---------------------------------------------------------------------- functions


def choose_basis(
    j: int,
    column: Number | Nominal | Position,  # its encoding
    banks: Sequence[KernelBank],  # all kernels that will be used
    values: np.ndarray | None,  # the values of the column if they are few
    degrees: int | Mapping[int, int] | None,  # numbers of polynomials that the user requests
) -> Basis:
    """Return the functions of column j: as many as its most demanding kernel needs."""
    if column.kind == "category":
        return Levels(tuple(float(k) for k in range(max(1, len(column.levels)))), nearest=False)
    low, high = column.encode(np.array([column.low, column.high])).tolist()
    found: list[Chebyshev] = []
    for channel in (ch for bank in banks for ch in bank.channels):
        if only_column(channel) == j:
            basis = chebyshev(channel.kernel, low, high)
            if basis is None:
                raise NotSummable(
                    f"engine='statistics' has no short form of the kernel of {channel.name!r}, which is too narrow for "
                    "its range or neither Gaussian nor polynomial: use others, or, with rows in memory, another engine"
                )
            found.append(basis)
    needed = max(found, key=lambda basis: basis.size, default=Chebyshev(low, high, SIZES[0]))
    requested = degrees.get(j) if isinstance(degrees, Mapping) else degrees
    if requested is not None:
        check_integer("degrees", requested, 2)
        return Chebyshev(low, high, int(requested))
    if values is not None and len(values) <= needed.size:
        return Levels(tuple(column.encode(values).tolist()), nearest=True)
    return needed


def only_column(channel: Channel) -> int:
    """Return the column of a kernel of one column; refuse others."""
    if len(channel.columns) != 1:
        raise NotSummable(
            f"engine='statistics' works with kernels of one column, and {channel.name!r} stands on "
            f"{len(channel.columns)}: use per_feature() kernels or, with rows in memory, another engine"
        )
    return channel.columns[0]


# ---------------------------------------------------------------------- candidates on a grid


def is_grid(candidates: Any) -> bool:
    """Whether candidates are points of a grid instead of rows."""
    return isinstance(candidates, str) and candidates == GRID


def check_candidates(candidates: Any) -> None:
    """Refuse values other than "all", "grid", None and positive integers."""
    if isinstance(candidates, str):
        check_choice("candidates", candidates, ("all", GRID))
    elif candidates is not None:
        check_integer("candidates", candidates, 1)


def grid_pool(encoder: Encoder, distinct: Mapping[int, np.ndarray], n_classes: int, seed: int) -> Pool:
    """Return `POOL` points that cover the range or the values of each column evenly.

    Columns are combined at random (a Latin hypercube), which for kernels of one column each is as good as any other
    combination. Classes are assigned to the points in turn; they only decide where a search begins.
    """
    rng = np.random.default_rng(seed)
    Z = np.empty((POOL, len(encoder.columns)))
    for j, column in enumerate(encoder.columns):
        if column.kind == "category":
            values = np.arange(max(1, len(column.levels)), dtype=float)
        elif j in distinct:
            values = column.encode(distinct[j].astype(float))
        else:
            low, high = column.encode(np.array([column.low, column.high])).tolist()
            values = np.linspace(low, high, POOL)
        Z[:, j] = rng.permutation(np.resize(values, POOL))
    return Pool(Z, np.arange(POOL) % n_classes, np.arange(POOL))


def grid_labels(positions: np.ndarray) -> np.ndarray:
    """Return the names of points of the grid."""
    out = np.empty(len(positions), dtype=object)
    out[:] = [f"grid point {k + 1}" for k in positions.tolist()]
    return out
