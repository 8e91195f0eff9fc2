"""How a plan treats each column: its encoding, and the functions that stand for its kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.stacks.chebyshev import SIZES, Basis, Chebyshev, Levels, chebyshev
from tamis.statistics.seen import Seen
from tamis.table.checks import check_integer
from tamis.table.encoding import Encoder, Nominal, Number, Position, fit_nominal, sorted_levels


class NotSummable(ValueError):
    """The kernels cannot be written as short sums of functions of single columns."""


def fit_encoder(
    seen: Seen,
    some: np.ndarray,
    ranges: dict[int, tuple[float, float]],
    scaling: str | None,
    missing: str | None,
    winsorise: float,
) -> Encoder:
    """Scales from `some` of the rows; ranges as given, whole for columns with few values, else winsorised."""
    table = seen.rows.table
    for j in range(len(table.names)):
        if j in seen.few:
            ranges.setdefault(j, (float(seen.few[j][0]), float(seen.few[j][-1])))
        elif winsorise == 0 and seen.limits is not None and not np.isnan(seen.limits[j]).any():
            low, high = seen.limits[j].tolist()
            ranges.setdefault(j, (low, high))
    sample = replace(table.take(some), labels={})
    options: dict[str, Any] = {"scaling": scaling, "missing": missing, "winsorise": winsorise, "ranges": ranges}
    encoder = Encoder.fit(sample, seen.rows.weight[some], **options)
    columns = list(encoder.columns)
    for j, mass in seen.masses.items():
        columns[j] = fit_nominal(mass, missing)
    return replace(encoder, columns=tuple(columns))


def with_levels(encoder: Encoder, categories: Mapping[int, Sequence[Any]]) -> Encoder:
    """The encoder with further levels of some categories."""
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


def columns_with_gaps(encoder: Encoder) -> np.ndarray:
    """Mask (d,) of the columns in which missing cells stay missing once encoded."""
    return np.array([isinstance(column, Number) and bool(np.isnan(column.fill)) for column in encoder.columns])


def choose_basis(
    j: int,
    column: Number | Nominal | Position,
    banks: Sequence[KernelBank],
    values: np.ndarray | None,
    degrees: int | Mapping[int, int] | None,
) -> Basis:
    """The functions of one column: as many as its most demanding kernel needs."""
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
    most = max(found, key=lambda basis: basis.size, default=Chebyshev(low, high, SIZES[0]))
    given = degrees.get(j) if isinstance(degrees, Mapping) else degrees
    if given is not None:
        check_integer("degrees", given, 2)
        most = Chebyshev(low, high, int(given))
    elif values is not None and len(values) <= most.size:
        return Levels(tuple(column.encode(values).tolist()), nearest=True)
    return most


def only_column(channel: Channel) -> int:
    """The column of a channel that stands on one."""
    if len(channel.columns) != 1:
        raise NotSummable(
            f"engine='statistics' works with kernels of one column, and {channel.name!r} stands on "
            f"{len(channel.columns)}: use per_feature() kernels or, with rows in memory, another engine"
        )
    return channel.columns[0]
