"""Encodings of columns: from the cells of a `Table` to the numbers on which kernels are computed.

Encoded numbers are standardised (or ranked); encoded categories are codes 0, 1, ...; a missing cell is NaN. At
prediction numbers are clipped to the training range, and a category that is not in the training rows has the code -1,
which agrees with no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, ClassVar, Literal

import numpy as np

from tamis.arrays import Array, device_of, namespace, to_device
from tamis.codec import stored
from tamis.parallel import thread_map
from tamis.table.table import MAX_EXACT_INTEGER, Table, flags, kinds, number_labels

KNOTS = 201  # maximum knots of a rank map: the size of a model does not grow with the data
UNSEEN = -1.0  # code of a category that is not in the training rows
FIT_CELLS = 1 << 20  # cells of columns that are sorted together
ENCODE_CELLS = 1 << 17  # cells that are encoded together, few enough for a cache
MAX_MODULUS = 1e307  # of numbers whose differences are floats
MIN_RANGE = 1e-140  # of an encoded column, below which squares underflow


@stored
@dataclass(frozen=True)
class Number:
    """Encoding of one numeric column: clip to the training range, rank if requested, standardise, fill."""

    low: float
    high: float
    centre: float
    scale: float
    knots: np.ndarray | None
    ranks: np.ndarray | None
    fill: float

    kind: ClassVar[Literal["number"]] = "number"

    def encode(self, values: np.ndarray) -> np.ndarray:
        z = np.clip(values.astype(np.float64), self.low, self.high)
        if self.knots is not None and self.ranks is not None:
            z = np.where(np.isnan(z), np.nan, interpolated(z, self.knots, self.ranks))
        z = (z - self.centre) / self.scale
        return np.where(np.isnan(z), self.fill, z)

    def decode(self, z: np.ndarray) -> np.ndarray:
        """Values in the column's own units; what `encode` clipped or filled comes back clipped or filled."""
        values = z * self.scale + self.centre
        if self.knots is not None and self.ranks is not None:
            values = np.where(np.isnan(values), np.nan, interpolated(values, self.ranks, self.knots))
        return values


@stored
@dataclass(frozen=True)
class Nominal:
    """Encoding of one categorical column: position in `levels`, -1 if unseen, filled if requested."""

    levels: tuple[Any, ...]
    fill: float

    kind: ClassVar[Literal["category"]] = "category"

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

    kind: ClassVar[Literal["position"]] = "position"

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
        columns: dict[int, Number | Nominal] = {
            j: fit_nominal(level_masses(values, weight), missing) for j, values in table.labels.items()
        }
        numeric = [j for j in range(table.numbers.shape[1]) if j not in table.labels]
        for block in _blocks(numeric, len(table)):
            ordered = _Ordered.of(table.numbers[:, block], weight)
            limits = [None if empty else (ranges or {}).get(j) for j, empty in zip(block, ordered.empty, strict=True)]
            ordered = ordered.clipped(winsorise, limits)
            ordered.check_sizes([table.names[j] for j in block])
            numbers = _fit_numbers(ordered, limits, scaling, missing)
            columns.update(zip(block, numbers, strict=True))
        return cls(tuple(columns[j] for j in range(len(columns))), tuple(table.names))

    @classmethod
    def positions(cls, table: Table) -> Encoder:
        """For a table of one column, the positions of its rows in precomputed kernels."""
        if table.numbers.shape[1] != 1 or table.labels:
            raise ValueError(
                f"X has {table.numbers.shape[1]} columns {table.names[:3]}: with precomputed kernels it must have one, "
                "the positions of the rows in the stack, such as np.arange(n)[:, None]"
            )
        values = table.numbers[:, 0]
        return cls((Position(float(np.nanmin(values)), float(np.nanmax(values))),), tuple(table.names))

    @property
    def nominal(self) -> np.ndarray:
        return np.array([c.kind == "category" for c in self.columns], dtype=bool)

    def select(self, columns: np.ndarray) -> Encoder:
        return Encoder(tuple(self.columns[c] for c in columns), tuple(self.names[c] for c in columns))

    def encode(
        self, table: Table, columns: Sequence[int] | np.ndarray | None = None, *, threads: bool = False
    ) -> np.ndarray:
        """Encoded rows (n, d) of a table that has these columns, or has them at the positions `columns` (d,).

        With `threads` blocks of rows are encoded in parallel; not for callers that run in one of several threads.
        """
        places = range(len(self.columns)) if columns is None else [int(c) for c in columns]
        out = np.empty((len(self.columns), len(table)))
        affine = [
            j
            for j, (column, place) in enumerate(zip(self.columns, places, strict=True))
            if isinstance(column, Number) and column.knots is None and place not in table.labels
        ]
        if affine:
            write, starts = _writing(table.numbers, affine, places, self.columns, out)
            each = thread_map if threads and len(starts) > 1 else map
            list(each(write, starts))
        for j in sorted(set(range(len(self.columns))) - set(affine)):
            column, place = self.columns[j], places[j]
            if isinstance(column, Nominal):
                raw = table.labels[place] if place in table.labels else number_labels(table.numbers[:, place])
                raw = _codes_as_text(raw, column.levels)
                _check_kind(raw, column.levels, self.names[j])
                out[j] = column.encode(raw)
            elif place in table.labels:
                out[j] = column.encode(flags(table.labels[place], self.names[j], "and was numeric in training"))
            else:
                out[j] = column.encode(table.numbers[:, place])
        return out.T


def _codes_as_text(values: np.ndarray, levels: tuple) -> np.ndarray:
    """Numbers as text where the levels are text and know some of them: codes that were declared categories."""
    if "text" in kinds(values) or kinds(levels) != {"text"}:
        return values
    if any(isinstance(v, float) and abs(v) > MAX_EXACT_INTEGER for v in values):
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


def level_masses(values: np.ndarray, weight: np.ndarray) -> dict[Any, float]:
    """The weight of each level in a column of labels; missing cells have none."""
    mass: dict[Any, float] = {}
    for v, w in zip(values, weight, strict=True):
        if v is not None:
            mass[v] = mass.get(v, 0.0) + float(w)
    return mass


def fit_nominal(mass: Mapping[Any, float], missing: str | None) -> Nominal:
    """The encoding of a column of labels from the weights of its levels."""
    levels = tuple(sorted_levels(list(mass)))
    fill = np.nan
    if missing == "median" and levels:
        fill = float(max(range(len(levels)), key=lambda k: mass[levels[k]]))
    return Nominal(levels, fill)


def sorted_levels(levels: Sequence[Any]) -> list[Any]:
    """Levels of any types in a fixed order."""
    return sorted(levels, key=lambda v: (type(v).__name__, v))


def interpolated(x: np.ndarray, knots: np.ndarray, values: np.ndarray) -> np.ndarray:
    """As ``np.interp``, by shares in place of slopes: these overflow between knots that are very close or far apart."""
    if len(knots) == 1:
        return np.full(np.shape(x), values[0])
    left = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    share = np.clip((x - knots[left]) / (knots[left + 1] - knots[left]), 0.0, 1.0)
    return values[left] * (1.0 - share) + values[left + 1] * share


def _blocks(columns: list[int], n: int) -> Iterator[list[int]]:
    """Some columns at a time, so that what is made of n rows of them stays small."""
    step = max(1, FIT_CELLS // max(1, n))
    return (columns[start : start + step] for start in range(0, len(columns), step))


def _writing(
    numbers: np.ndarray, affine: Sequence[int], places: Sequence[int], columns: Sequence[Any], out: np.ndarray
) -> tuple[Callable[[int], None], range]:
    """A function that writes to rows `affine` of out what ``Number.encode`` without knots gives, and where it starts.

    A call does as many rows of numbers (n, d) as stay in a cache.
    """
    parts = [(c.low, c.high, c.centre, c.scale, c.fill) for c in (columns[j] for j in affine)]
    low, high, centre, scale, fill = np.array(parts).T[..., None]
    source, step = [places[j] for j in affine], max(1, ENCODE_CELLS // len(affine))

    def write(start: int) -> None:
        some = slice(start, start + step)
        z = np.ascontiguousarray(numbers[some].T[source], dtype=np.float64)
        np.clip(z, low, high, out=z)
        z -= centre
        z /= scale
        out[affine, some] = z if np.isnan(fill).all() else np.where(np.isnan(z), fill, z)

    return write, range(0, len(numbers), step)


@dataclass(frozen=True)
class _Ordered:
    """Sorted values of columns, as arrays (d, n)."""

    values: np.ndarray  # ascending; missing cells stand last, as the largest value of the column (zero if it has none)
    shares: np.ndarray  # of the weight of the cells that are there; zero for the missing ones

    @classmethod
    def of(cls, columns: np.ndarray, weight: np.ndarray) -> _Ordered:
        """Sort columns (n, d) of rows with weights (n,)."""
        cells = np.array(columns.T, dtype=np.float64, order="C")
        order = np.argsort(cells, axis=1, kind="stable")  # NaN last
        values, mass = np.take_along_axis(cells, order, axis=1), weight[order]
        gaps, total = np.isnan(values), np.sum(weight, keepdims=True)
        if gaps.any():
            mass[gaps] = 0.0
            total = np.where(np.isnan(cells), 0.0, weight).sum(axis=1, keepdims=True)
            largest = np.fmax.reduce(cells, axis=1)
            values = np.where(gaps, np.nan_to_num(largest)[:, None], values)
        return cls(values, mass / np.where(total > 0, total, 1.0))

    @property
    def empty(self) -> np.ndarray:
        """Mask (d,) of the columns without a cell."""
        return np.all(self.shares == 0, axis=1)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Weighted means (d,) of values (d, n) in the order of these."""
        return np.matmul(self.shares[:, None, :], values[:, :, None])[:, 0, 0]

    def quantile(self, level: float) -> np.ndarray:
        """The first values (d,) at or below which a share `level` of the weight lies."""
        place = np.count_nonzero(np.cumsum(self.shares, axis=1) < level, axis=1)
        return self.values[np.arange(len(place)), np.minimum(place, self.values.shape[1] - 1)]

    def check_sizes(self, names: Sequence[str]) -> None:
        """Refuse columns whose smallest and largest numbers are too far apart to be subtracted."""
        far = np.max(np.abs(self.values[:, [0, -1]]), axis=1, initial=0.0)
        if np.any(far > MAX_MODULUS):
            j = int(np.argmax(far))
            raise ValueError(f"X holds {far[j]:.3g} in column {names[j]!r}, nearly the largest float: use other units")

    def clipped(self, winsorise: float, limits: Sequence[tuple[float, float] | None]) -> _Ordered:
        """Values clipped to ``limits[column]``, or to quantiles where that is None."""
        low, high = self.values[:, 0], self.values[:, -1]
        if winsorise > 0:
            lower, upper = self.quantile(winsorise), self.quantile(1.0 - winsorise)
            varies = lower < upper  # else nearly all values are equal, and the range must keep the others
            low, high = np.where(varies, lower, low), np.where(varies, upper, high)
        low, high = _limited(low, high, limits)
        return replace(self, values=np.clip(self.values, low[:, None], high[:, None]))


def _limited(
    low: np.ndarray, high: np.ndarray, limits: Sequence[tuple[float, float] | None]
) -> tuple[np.ndarray, np.ndarray]:
    """Ranges (d,) with the `limits` in place of those of their columns."""
    low, high = low.copy(), high.copy()
    for j, pair in enumerate(limits):
        if pair is not None:
            low[j], high[j] = pair
    return low, high


def _fit_numbers(
    ordered: _Ordered, limits: Sequence[tuple[float, float] | None], scaling: str | None, missing: str | None
) -> list[Number]:
    """Scale, range and fill of columns of clipped values; `limits` widen the ranges."""
    x = ordered.values
    low, high = _limited(x[:, 0], x[:, -1], limits)
    half = ordered.quantile(0.5 - 1e-12)
    flat = low == high
    centre, scale = np.where(flat, low, 0.0), np.ones(len(x))
    if scaling in ("standard", "centred"):
        size = np.maximum(np.abs(low), np.abs(high))
        unit = np.where(size > 0, size, 1.0)  # squares of very large or small numbers would leave the range of floats
        mean = ordered.mean(x / unit[:, None]) * unit
        spread = np.sqrt(ordered.mean(((x - mean[:, None]) / unit[:, None]) ** 2)) * unit
        centre = np.where(flat, low, mean)
        if scaling == "standard":
            scale = np.where(flat | (spread == 0), 1.0, spread)
    if scaling != "rank":
        flat = (high - low) / scale <= MIN_RANGE
        high, centre = np.where(flat, low, high), np.where(flat, low, centre)
    fill = (np.clip(half, low, high) - centre) / scale if missing == "median" else np.full(len(x), np.nan)
    parts = zip(*(part.tolist() for part in (low, high, centre, scale)), repeat(None), repeat(None), fill.tolist())
    numbers = [Number(*part) for part in parts]
    if scaling == "rank":
        numbers = [
            number if flat[j] else _ranked(number, x[j], ordered.shares[j], half[j], missing)
            for j, number in enumerate(numbers)
        ]
    return numbers


def _ranked(number: Number, x: np.ndarray, share: np.ndarray, half: float, missing: str | None) -> Number:
    """The encoding by ranks of sorted values with their shares."""
    knots, ranks = _rank_map(x, share)
    ranked = Number(number.low, number.high, 0.5, float(np.sqrt(1 / 12)), knots, ranks, np.nan)
    return replace(ranked, fill=float(ranked.encode(np.array([half]))[0])) if missing == "median" else ranked


def _rank_map(x: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mid-ranks in [0, 1] of at most KNOTS of the sorted values."""
    knots, start = np.unique(x, return_index=True)
    mass = np.add.reduceat(share, start)
    ranks = np.cumsum(mass) - 0.5 * mass
    if len(knots) > KNOTS:
        keep = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], KNOTS)).clip(0, len(knots) - 1))
        knots, ranks = knots[keep], ranks[keep]
    return knots, ranks


# ---------------------------------------------------------------------- encodings


def device_encode(encoder: Encoder, X: Array, columns: Sequence[int] | np.ndarray | None = None) -> Array:
    """Return encoded rows (n, c) in double precision; `columns` are their positions in X, if it has others too."""
    xp, device = namespace(X), device_of(X)
    if columns is not None:
        X = xp.take(X, to_device(np.asarray(columns, dtype=np.int64), device), axis=1)
    Z = xp.astype(X, xp.float64)
    low, high, centre, scale = (to_device(part, device, "float64") for part in _maps(encoder))
    Z = (xp.minimum(xp.maximum(Z, low), high) - centre) / scale
    for j, column in enumerate(encoder.columns):
        if isinstance(column, Nominal):
            Z[:, j] = _codes(column, Z[:, j] + 0.0, encoder.names[j])
        elif isinstance(column, Number) and column.knots is not None:
            Z[:, j] = _ranks(column, Z[:, j] + 0.0)
        elif not np.isnan(column.fill):
            Z[:, j] = xp.where(xp.isnan(Z[:, j]), xp.full_like(Z[:, j], column.fill), Z[:, j])
    return Z


def _maps(encoder: Encoder) -> np.ndarray:
    """Return ranges, centres and scales (4, c) that standardise columns of numbers and leave others unchanged."""
    none = (-np.inf, np.inf, 0.0, 1.0)
    columns = encoder.columns
    plain = [(c.low, c.high, c.centre, c.scale) if isinstance(c, Number) and c.knots is None else none for c in columns]
    return np.array(plain).reshape(-1, 4).T.copy()


def _ranks(column: Number, x: Array) -> Array:
    """As ``Number.encode`` with knots."""
    xp, device = namespace(x), device_of(x)
    knots, ranks = (to_device(values, device, "float64") for values in (column.knots, column.ranks))
    inside = xp.clip(x, column.low, column.high)
    right = xp.clip(xp.searchsorted(knots, inside), 1, max(1, knots.shape[0] - 1))
    left = right - 1
    if knots.shape[0] == 1:
        value = xp.full_like(x, float(ranks[0]))
    else:
        a, b = xp.take(knots, left), xp.take(knots, right)
        share = xp.clip((inside - a) / (b - a), 0.0, 1.0)
        value = xp.take(ranks, left) * (1.0 - share) + xp.take(ranks, right) * share
    z = xp.where(xp.isnan(x), x, (value - column.centre) / column.scale)
    return z if np.isnan(column.fill) else xp.where(xp.isnan(z), xp.full_like(z, column.fill), z)


def _codes(column: Nominal, x: Array, name: str) -> Array:
    """As ``Nominal.encode``, for levels that are numbers."""
    xp, device = namespace(x), device_of(x)
    if any(isinstance(level, str) for level in column.levels):
        raise ValueError(f"column {name!r} is a category with levels of text, and X is an array of numbers")
    levels = to_device(np.array([float(level) for level in column.levels] or [np.inf]), device, "float64")
    place = xp.clip(xp.searchsorted(levels, x), 0, levels.shape[0] - 1)
    code = xp.where(xp.take(levels, place) == x, xp.astype(place, x.dtype), xp.full_like(x, UNSEEN))
    return xp.where(xp.isnan(x), xp.full_like(x, column.fill), code)
