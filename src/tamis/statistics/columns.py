"""How a plan treats each column: its encoding, the functions that replace its kernels, and its points on a grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tamis.base.kernel_space import POOL
from tamis.base.model import Pool
from tamis.errors import check_choice, check_integer
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.stacks.chebyshev import SIZES, Basis, Chebyshev, Levels, chebyshev
from tamis.statistics.survey import Profile
from tamis.table.encoding import Encoder, Nominal, Number, Position, fit_nominal, sorted_levels
from tamis.table.keys import lowest

GRID = "grid"  # the value of `candidates` that requests points instead of rows
SCALE_ROWS = 1 << 15  # rows from which scales and winsorising limits are computed


class NotSummable(ValueError):
    """The kernels cannot be written as short sums of functions of single columns."""


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
        if not isinstance(column, Nominal):
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
    return isinstance(column, Number) and bool(np.isnan(column.fill))


# ---------------------------------------------------------------------- functions


def choose_basis(
    j: int,
    column: Number | Nominal | Position,
    banks: Sequence[KernelBank],
    values: np.ndarray | None,
    degrees: int | Mapping[int, int] | None,
) -> Basis:
    """Return the functions of column j: as many as its most demanding kernel needs.

    Parameters
    ----------
    column : its encoding
    banks : all kernels that will be used
    values : the values of the column if they are few
    degrees : numbers of polynomials that the user requests
    """
    if isinstance(column, Nominal):
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
        if isinstance(column, Nominal):
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
