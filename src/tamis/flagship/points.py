"""Tables of whole points, cut from the curves and surfaces of a model.

A curve is multiplied by the points of a unit of log-odds and rounded. Within one range of a table the exact points move
by less than one, because a sloped cell is cut where they pass from one whole number to the next. A table that has more
ranges than are wanted is rounded to multiples of 2, 5, 10 and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np

MAX_RANGES = 10_000  # of one slope
CUT_SHIFT = 0.05  # points by which a cut may be moved to a number with fewer digits
MAX_DIGITS = 17  # that tell all floats apart


class Entry(NamedTuple):
    """One range (start, end], level or marker of an axis, and its position."""

    position: int
    start: float
    end: float
    level: Any


@dataclass(frozen=True)
class Axis:
    """The ranges or levels of one feature; missing values come after them, and then levels never seen.

    Attributes
    ----------
    name : of the feature
    cuts : ends of all ranges of a number but the last
    levels : of a category; None for a number
    """

    name: str
    cuts: np.ndarray
    levels: tuple[Any, ...] | None = None

    def __len__(self) -> int:
        return len(self.cuts) + 1 if self.levels is None else len(self.levels)

    def find(self, values: np.ndarray) -> np.ndarray:
        """Positions of numbers, or of the codes of levels: NaN where missing, negative where never seen."""
        gap, filled = np.isnan(values), np.nan_to_num(values)
        if self.levels is None:
            found = np.searchsorted(self.cuts, filled)
        else:
            found = np.where(filled < 0, len(self) + 1, filled).astype(int)
        return np.where(gap, len(self), found)

    def entries(self, *, missing: bool) -> Iterator[Entry]:
        """All ranges or levels, in order; missing values if wanted."""
        if self.levels is None:
            ends = pairwise([-np.inf, *self.cuts.tolist(), np.inf])
            yield from (Entry(k, start, end, None) for k, (start, end) in enumerate(ends))
        else:
            yield from (Entry(k, np.nan, np.nan, level) for k, level in enumerate(self.levels))
        if missing:
            yield Entry(len(self), np.nan, np.nan, self._marker("(missing)"))
        if self.levels is not None:
            yield Entry(len(self) + 1, np.nan, np.nan, self._marker("(any other)"))

    def _marker(self, words: str) -> str:
        """Words that are no level."""
        while words in (self.levels or ()):
            words = f"({words})"
        return words


@dataclass(frozen=True)
class PointTable:
    """Whole points of one feature or of a pair.

    Attributes
    ----------
    axes : one or two features
    points : one entry for each combination of their ranges or levels, with missing values and levels never seen
    """

    axes: tuple[Axis, ...]
    points: np.ndarray

    def at(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Points (n,) of values of the features; see `Axis.find`."""
        return self.points[tuple(axis.find(own) for axis, own in zip(self.axes, values, strict=True))]

    def merged(self) -> PointTable:
        """The same table, with one range in place of neighbours that have equal points."""
        axes, points = list(self.axes), self.points
        for k, axis in enumerate(axes):
            if axis.levels is None:
                rows = np.moveaxis(points, k, 0)[: len(axis)].reshape(len(axis), -1)
                differs = np.any(rows[1:] != rows[:-1], axis=1)
                kept = np.concatenate([np.flatnonzero(np.append(differs, True)), [len(axis), len(axis) + 1]])
                axes[k], points = Axis(axis.name, axis.cuts[differs]), np.take(points, kept, axis=k)
        return PointTable(tuple(axes), points)


def cut_curve(feature: Mapping[str, Any], factor: float, most: int | None = None) -> PointTable:
    """The table of one described feature; `factor` points are a unit of its contribution.

    The points are multiples of the smallest of 1, 2, 5, 10, 20, ... with which a number has at most `most` ranges.
    """
    for k in count():
        step = 10 ** (k // 3) * (1, 2, 5)[k % 3]
        table = _cut_curve(feature, factor / step)
        if most is None or feature["kind"] == "category" or len(table.axes[0]) <= most:
            break
    return PointTable(table.axes, step * table.points)


def _cut_curve(feature: Mapping[str, Any], factor: float) -> PointTable:
    left, right = (factor * np.array(feature[end])[:, 0] for end in ("left", "right"))
    if feature["kind"] == "category":
        axis, points = Axis(feature["name"], np.empty(0), tuple(feature["levels"])), np.rint(left)
    else:
        pieces = list(_pieces(feature, left, right))
        cuts = np.array([end for end, _ in pieces[:-1]])
        axis, points = Axis(feature["name"], cuts), np.array([*(own for _, own in pieces), np.rint(left[-2]), 0.0])
    points = points.astype(int)
    points[len(axis)] = points[_filled(feature, axis)]
    return PointTable((axis,), points).merged()


def cut_surface(tables: Mapping[str, Any], pair: Mapping[str, Any], factor: float) -> PointTable:
    """The table of one described pair."""
    points = np.rint(factor * np.array(pair["values"])[:, :, 0]).astype(int)
    axes = []
    for side, (j, group) in enumerate(zip(pair["features"], pair["groups"], strict=True)):
        feature, places = tables["features"][j], np.array(group)
        if feature["kind"] == "category":
            axis, cells = Axis(feature["name"], np.empty(0), tuple(feature["levels"])), np.arange(len(group))
        else:
            wide = _reached(feature)
            cells = np.array([*wide, len(group) - 2, len(group) - 1])
            axis = Axis(feature["name"], np.array([feature["edges"][i + 1] for i in wide[:-1]]))
        points = np.take(points, places[cells], axis=side)
        fill = np.arange(len(cells))
        fill[len(axis)] = _filled(feature, axis)
        points = np.take(points, fill, axis=side)
        axes.append(axis)
    return PointTable(tuple(axes), points).merged()


def _filled(feature: Mapping[str, Any], axis: Axis) -> int:
    """The position that has the points of missing values."""
    return len(axis) if feature["fill"] is None else int(axis.find(np.array([float(feature["fill"])]))[0])


def _reached(feature: Mapping[str, Any]) -> list[int]:
    """The cells of a number in which clipped values can be."""
    edges, low, high = feature["edges"], feature["low"], feature["high"]
    first = sum(edge < low for edge in edges[1:-1])
    last = sum(edge < high for edge in edges[1:-1])
    return [i for i in range(first, last + 1) if i == first or edges[i] < edges[i + 1]]


def _pieces(feature: Mapping[str, Any], left: np.ndarray, right: np.ndarray) -> Iterator[tuple[float, float]]:
    """Ends and whole points of the ranges of a number, in order."""
    edges, low, high = feature["edges"], feature["low"], feature["high"]
    for i in _reached(feature):
        start, end, width = max(edges[i], low), min(edges[i + 1], high), edges[i + 1] - edges[i]
        if right[i] == left[i] or end <= start:
            share = (end - edges[i]) / width if width > 0 else 0.0
            yield edges[i + 1], float(np.rint(left[i] + share * (right[i] - left[i])))
            continue
        first, last = (left[i] + (x - edges[i]) / width * (right[i] - left[i]) for x in (start, end))
        halves = _halves(first, last)
        cuts = [_short(start, end, h - first, last - first) for h in halves]
        middles = [(a + b) / 2 for a, b in pairwise([first, *halves, last])]
        yield from zip([*cuts, edges[i + 1]], np.rint(middles).tolist(), strict=True)


def _halves(first: float, last: float) -> list[float]:
    """The half numbers strictly between two numbers, in the direction from the first to the last."""
    low, high = sorted((first, last))
    halves = np.arange(np.floor(low) - 0.5, high + 1.0)
    halves = halves[(halves > low) & (halves < high)]
    return (halves if last > first else halves[::-1]).tolist()


def _short(start: float, end: float, rise: float, total: float) -> float:
    """Where a line has risen by `rise` of `total`, in the fewest digits that move it by at most CUT_SHIFT points."""
    exact, room = start + rise / total * (end - start), abs(CUT_SHIFT / total) * (end - start)
    for digits in range(1, MAX_DIGITS + 1):
        cut = float(f"{exact:.{digits}g}")
        if start < cut < end and abs(cut - exact) <= room:
            return cut
    return exact
