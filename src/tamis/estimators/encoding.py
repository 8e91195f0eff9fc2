"""Encodings of columns: from the cells of a `Table` to numbers that kernels take.

Encoded numbers are standardised (or ranked); encoded categories are codes 0, 1, ...; a missing cell is
NaN. At prediction a number beyond the training range counts as the nearest training value, and a
category that training never saw is code -1, which agrees with nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.estimators.table import Table, flags, kinds, number_labels

KNOTS = 201  # most knots of a rank map, so that a model's size does not grow with the data
UNSEEN = -1.0
EXACT = 2.0**53


@stored
@dataclass(frozen=True)
class Number:
    """Encoding of one numeric column: clip to the training range, rank if asked, standardise, fill."""

    low: float
    high: float
    centre: float
    scale: float
    knots: np.ndarray | None
    ranks: np.ndarray | None
    fill: float

    def encode(self, values: np.ndarray) -> np.ndarray:
        z = np.clip(values.astype(np.float64), self.low, self.high)
        if self.knots is not None and self.ranks is not None:
            z = np.where(np.isnan(z), np.nan, np.interp(z, self.knots, self.ranks))
        z = (z - self.centre) / self.scale
        return z if np.isnan(self.fill) else np.where(np.isnan(z), self.fill, z)

    def decode(self, z: np.ndarray) -> np.ndarray:
        """Values in the column's own units; what `encode` clipped or filled comes back clipped or filled."""
        values = z * self.scale + self.centre
        if self.knots is not None and self.ranks is not None:
            values = np.where(np.isnan(values), np.nan, np.interp(values, self.ranks, self.knots))
        return values


@stored
@dataclass(frozen=True)
class Nominal:
    """Encoding of one categorical column: position in `levels`, -1 if unseen, filled if asked."""

    levels: tuple[Any, ...]
    fill: float

    def encode(self, values: np.ndarray) -> np.ndarray:
        code: dict[Any, float] = {level: float(k) for k, level in enumerate(self.levels)}
        code[None] = self.fill
        return np.fromiter(map(code.get, values, repeat(UNSEEN)), dtype=float, count=len(values))

    def decode(self, z: np.ndarray) -> np.ndarray:
        """Levels, as objects; None where there is none."""
        out = np.empty(len(z), dtype=object)
        out[:] = [self.levels[int(code)] if code >= 0 else None for code in z]
        return out


@stored
@dataclass(frozen=True)
class Position:
    """A column of positions in precomputed kernels: nothing is scaled, clipped or filled."""

    low: float
    high: float
    fill: float = np.nan

    def encode(self, values: np.ndarray) -> np.ndarray:
        return values.astype(np.float64)

    def decode(self, z: np.ndarray) -> np.ndarray:
        return z


@stored
@dataclass(frozen=True)
class Encoder:
    """The encodings of some columns, in order."""

    columns: tuple[Number | Nominal | Position, ...]
    names: tuple[str, ...]

    @classmethod
    def fit(
        cls,
        table: Table,
        weight: np.ndarray,
        *,
        scaling: str | None,
        missing: str | None,
        winsorise: float = 0.0,
        ranges: Mapping[int, tuple[float, float]] | None = None,
    ) -> Encoder:
        """Learn scales, ranges, levels and fills from weighted training rows.

        Numbers are clipped to ``ranges[column]`` where given, else to the quantiles `winsorise` and
        ``1 - winsorise``.
        """
        columns: list[Number | Nominal] = []
        for j in range(table.numbers.shape[1]):
            if j in table.labels:
                columns.append(_fit_nominal(table.labels[j], weight, missing))
            else:
                limits = None if ranges is None else ranges.get(j)
                x, share = _clipped(table.numbers[:, j], weight, winsorise, limits)
                columns.append(_fit_number(x, share, limits, scaling, missing))
        return cls(tuple(columns), tuple(table.names))

    @classmethod
    def positions(cls, table: Table) -> Encoder:
        """For a table of one column, which says where in precomputed kernels each row stands."""
        if table.numbers.shape[1] != 1 or table.labels:
            raise ValueError(
                f"X has {table.numbers.shape[1]} columns {table.names[:3]}: with precomputed kernels it must have one, "
                "the positions of the rows in the stack, such as np.arange(n)[:, None]"
            )
        values = table.numbers[:, 0]
        return cls((Position(float(np.nanmin(values)), float(np.nanmax(values))),), tuple(table.names))

    @property
    def nominal(self) -> np.ndarray:
        return np.array([isinstance(c, Nominal) for c in self.columns], dtype=bool)

    def select(self, columns: np.ndarray) -> Encoder:
        return Encoder(tuple(self.columns[c] for c in columns), tuple(self.names[c] for c in columns))

    def encode(self, table: Table) -> np.ndarray:
        """Encoded rows (n, d)."""
        out = np.empty(table.numbers.shape, order="F")
        for j, column in enumerate(self.columns):
            if isinstance(column, Nominal):
                raw = table.labels[j] if j in table.labels else number_labels(table.numbers[:, j])
                raw = _codes_as_text(raw, column.levels)
                _check_kind(raw, column.levels, self.names[j])
                out[:, j] = column.encode(raw)
            elif j in table.labels:
                out[:, j] = column.encode(flags(table.labels[j], self.names[j], "and was numeric in training"))
            else:
                out[:, j] = column.encode(table.numbers[:, j])
        return out


def _codes_as_text(values: np.ndarray, levels: tuple) -> np.ndarray:
    """Numbers as text where the levels are text and know some of them: codes that were declared categories."""
    if "text" in kinds(values) or kinds(levels) != {"text"}:
        return values
    if any(isinstance(v, float) and abs(v) > EXACT for v in values):
        raise ValueError("a column of categories holds whole numbers beyond 2**53, which blur: convert it to text")
    words = [None if v is None else _word(v) for v in values]
    if not set(words) & set(levels):
        return values
    out = np.empty(len(words), dtype=object)
    out[:] = words
    return out


def _word(value: Any) -> str:
    """The text of a code: flags in small letters, whole numbers without a decimal point."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if float(value).is_integer() else repr(value)


def _check_kind(values: np.ndarray, levels: tuple, name: str) -> None:
    now, then = kinds(values), kinds(levels)
    if now and then and not now & then:
        raise ValueError(
            f"column {name!r} holds {now.pop()} and held {then.pop()} in training: convert it, or no category "
            "would be recognised"
        )


def _fit_nominal(values: np.ndarray, weight: np.ndarray, missing: str | None) -> Nominal:
    mass: dict[Any, float] = {}
    for v, w in zip(values, weight, strict=True):
        if v is not None:
            mass[v] = mass.get(v, 0.0) + float(w)
    levels = tuple(sorted_levels(list(mass)))
    fill = np.nan
    if missing == "median" and levels:
        fill = float(max(range(len(levels)), key=lambda k: mass[levels[k]]))
    return Nominal(levels, fill)


def sorted_levels(levels: Sequence[Any]) -> list[Any]:
    """Levels of any types in a fixed order."""
    return sorted(levels, key=lambda v: (type(v).__name__, v))


def _clipped(
    values: np.ndarray, weight: np.ndarray, winsorise: float, limits: tuple[float, float] | None
) -> tuple[np.ndarray, np.ndarray]:
    """The values that are there, clipped and sorted, with their shares of the weight."""
    seen = ~np.isnan(values)
    x, w = values[seen].astype(np.float64), weight[seen]
    order = np.argsort(x, kind="stable")
    x, share = x[order], w[order] / w.sum()
    if limits is None and winsorise > 0 and len(x):
        below = np.cumsum(share)
        edges = np.searchsorted(below, [winsorise, 1.0 - winsorise]).clip(0, len(x) - 1)
        if x[edges[0]] < x[edges[1]]:  # else nearly all values are equal, and the others are all there is to see
            limits = float(x[edges[0]]), float(x[edges[1]])
    return (x if limits is None else np.clip(x, *limits)), share


def _fit_number(
    x: np.ndarray, share: np.ndarray, limits: tuple[float, float] | None, scaling: str | None, missing: str | None
) -> Number:
    """Scale, range and fill of sorted values with their shares; `limits` widen the range."""
    fill = 0.0 if missing == "median" else np.nan
    if not len(x):
        return Number(0.0, 0.0, 0.0, 1.0, None, None, fill)
    low, high = (float(x[0]), float(x[-1])) if limits is None else limits
    unit = max(abs(low), abs(high)) or 1.0  # squares of very large or small numbers would leave the range of floats
    half = float(x[np.searchsorted(np.cumsum(share), 0.5 - 1e-12)])
    if low == high or scaling is None:
        centre = low if low == high else 0.0
        return Number(low, high, centre, 1.0, None, None, half - centre if missing == "median" else fill)
    if scaling == "rank":
        knots, ranks = _rank_map(x, share)
        number = Number(low, high, 0.5, float(np.sqrt(1 / 12)), knots, ranks, np.nan)
    else:
        centre = float(share @ (x / unit)) * unit
        scale = float(np.sqrt(share @ ((x - centre) / unit) ** 2)) * unit
        number = Number(low, high, centre, scale or 1.0, None, None, np.nan)
    return replace(number, fill=float(number.encode(np.array([half]))[0])) if missing == "median" else number


def _rank_map(x: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mid-ranks in [0, 1] of at most KNOTS of the sorted values."""
    knots, start = np.unique(x, return_index=True)
    mass = np.add.reduceat(share, start)
    ranks = np.cumsum(mass) - 0.5 * mass
    if len(knots) > KNOTS:
        keep = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], KNOTS)).clip(0, len(knots) - 1))
        knots, ranks = knots[keep], ranks[keep]
    return knots, ranks
