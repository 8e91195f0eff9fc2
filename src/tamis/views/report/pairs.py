"""Maps of what pairs of features add together: over coarse cells, or over the values of two kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tamis.results.data import Case, Part, Results
from tamis.results.tables import Table
from tamis.results.text import effect, number, points, shortened, signed
from tamis.views.report.style import (
    DIVERGING,
    INK,
    PAPER,
    SYMBOLS,
    Axis,
    Chart,
    Mark,
    axis,
    cells,
    dots,
    figure,
    names_axis,
    panel,
    place,
)

MAX_SURFACES = 10  # pairs with a drawn surface
MAX_LEVELS = 30  # categories in a drawing
MAX_OUTPUTS = 6  # classes in a drawing of a pair
MAX_NUMBERS = 100  # cells of a map that holds their numbers
MAP_HEIGHT, CLASS_MAP_HEIGHT = 320, 230
STEPS = 6  # values of a number in the table of a pair
MAX_NAME = 60  # letters of a name along an axis
MISSING = "missing"


def surface_chart(results: Results, part: Part, k: int) -> Chart:
    """What two features add to the score over their values, a map for each output, with the kept cases of kernels.

    Parameters
    ----------
    part : a pair of features with its surface
    k : its place among the pairs
    """
    outputs, score, coarse = results.outputs, results.score_name, part.kind == "pair"
    n = min(len(outputs), MAX_OUTPUTS)
    sides = [_coarse_axis(part, side) if coarse else _value_axis(part, side) for side in (0, 1)]
    classes = results.model.classes_.tolist()
    marks = [] if coarse else _case_marks(part, classes, results.cases)
    top = float(np.abs(part.shape).max()) or 1.0
    panels = []
    for q in range(n):
        lines = [] if coarse else _level_lines(part, q, top)
        title = "" if len(outputs) == 1 else shortened(outputs[q], 40)
        drawn = [_map(part, q, sides, top, score), *lines, *marks]
        panels.append(panel(sides[0][0], sides[1][0], drawn, 1.0 / n, title))
    ends = {"from": points(-top), "to": points(top)} if coarse else {"from": signed(-top, 2), "to": signed(top, 2)}
    legend = [{"name": f"added to the {score}", "look": "scale", "stops": DIVERGING, **ends}]
    legend += [
        {"name": mark["name"], "look": "dot", "symbol": mark["symbol"], "colour": PAPER, "edge": INK} for mark in marks
    ]
    map_figure = figure(MAP_HEIGHT if n == 1 else CLASS_MAP_HEIGHT * n, panels, legend)
    low, high = float(part.shape.min()), float(part.shape.max())
    words = f"Map of what {part.features[0]} and {part.features[1]} add together to the {score}: between "
    words += f"{effect(low, score)} and {effect(high, score)}."
    if coarse:  # all cells: the first feature along the rows, the second along the columns
        table = _table(part, outputs, score, _coarse_names(part, 0), _coarse_names(part, 1), part.shape)
    else:
        table = _value_table(part, outputs, score)
    return Chart(f"chart-surface-{k}", map_figure, words, table)


Side = tuple[Axis, np.ndarray, list[str]]  # the axis, the edges (m + 1,) of its cells, and their names


def _map(part: Part, q: int, sides: Sequence[Side], top: float, score: str) -> Mark:
    """The colours of one output, with numbers where they fit."""
    (_, x, first), (_, y, second) = sides
    z = part.shape[: len(first), : len(second), q].T
    tips = [f"{a}, {b}: {effect(float(z[j, i]), score)}" for j, b in enumerate(second) for i, a in enumerate(first)]
    named = part.kind == "pair" or (part.grid.dtype == object and part.across.dtype == object)
    texts = [points(v) for v in z.ravel().tolist()] if named and z.size <= MAX_NUMBERS else None
    return cells(x, y, z, tips, stops=DIVERGING, low=-top, high=top, texts=texts, gap=1 if named else 0)


# ---------------------------------------------------------------------- coarse cells of an additive model


def _coarse_axis(part: Part, side: int) -> Side:
    """Cells of one size, with the ends of ranges between them, or names in their middle."""
    grid, n = (part.grid, part.across)[side], part.shape.shape[side]
    names, title = _coarse_names(part, side), shortened(part.features[side], MAX_NAME)
    edges = np.arange(n + 1) - 0.5
    if grid.dtype == object:
        return {**names_axis(names, title=title), "grid": False}, edges, names
    ticks: list[list[Any]] = [[k + 0.5, number(float(v), 3)] for k, v in enumerate(grid[1:-1])]
    if n > len(grid) - 1:
        ticks.append([n - 1, MISSING])
    return axis(title, -0.5, n - 0.5, ticks=ticks, grid=False, loose=True), edges, names


def _coarse_names(part: Part, side: int) -> list[str]:
    """Ranges or levels in words."""
    grid, n = (part.grid, part.across)[side], part.shape.shape[side]
    if grid.dtype == object:
        names = [shortened(level, 14) for level in grid]
    elif len(grid) == 2:
        names = ["all values"]
    else:
        ends = [number(float(v), 3) for v in grid]
        between = [f"{a} to {b}" for a, b in pairwise(ends[1:-1])]
        names = [f"up to {ends[1]}", *between, f"above {ends[-2]}"]
    return names + [MISSING] * (n - len(names))


def _table(
    part: Part, outputs: Sequence[Any], score: str, first: Sequence[str], second: Sequence[str], values: np.ndarray
) -> Table:
    several = len(outputs) > 1
    head = [part.features[0], *(["Class"] if several else [])]
    head += [f"{shortened(part.features[1], 20)} {name}" for name in second]
    rows = []
    for name, row in zip(first, values, strict=True):
        for q, output in enumerate(outputs):
            rows.append([name, *([str(output)] if several else []), *(signed(v) for v in row[:, q])])
    caption = f"What {part.features[0]} (rows) and {part.features[1]} (columns) add to the {score} together"
    return Table(caption, head, rows, frozenset({1} if several else ()))


# ---------------------------------------------------------------------- values of two kernels


def _shown(grid: np.ndarray) -> np.ndarray:
    """The values that are drawn: all numbers, the first of many categories."""
    return grid[:MAX_LEVELS] if grid.dtype == object else grid


def _value_axis(part: Part, side: int) -> Side:
    """Values of a number along an axis, or categories side by side."""
    grid, title = _shown((part.grid, part.across)[side]), shortened(part.features[side], MAX_NAME)
    if grid.dtype == object:
        names = [shortened(level, 14) for level in grid]
        return {**names_axis(names, title=title), "grid": False}, np.arange(len(grid) + 1) - 0.5, names
    own = axis(title, float(grid[0]), float(grid[-1]), grid=False)
    middle = (grid[1:] + grid[:-1]) / 2
    return own, np.r_[own["low"], middle, own["high"]], [number(float(v)) for v in grid]


def _level_lines(part: Part, q: int, top: float) -> list[Mark]:
    """Lines of equal value over two numbers, at round values with zero among them."""
    if part.grid.dtype == object or part.across.dtype == object or min(len(part.grid), len(part.across)) < 2:
        return []
    step = _round_step(top / 3.0)
    levels = [round(k * step, 12) for k in range(-4, 5) if abs(k * step) < top]
    z = part.shape[:, :, q].T.tolist()
    return [{"kind": "lines", "x": part.grid, "y": part.across, "z": z, "levels": levels, "colour": INK}]


def _round_step(size: float) -> float:
    """The next round number up to `size`: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(size))
    return power * max(n for n in (1, 2, 5) if n * power <= size or n == 1)


def _case_marks(part: Part, classes: Sequence[Any], cases: Sequence[Case]) -> list[Mark]:
    """The kept cases of each class at their values of the two features, those outside a range at its end."""
    known = [case for case in cases if all(case.values.get(name) is not None for name in part.features)]
    labels = [*classes, None]  # the last for cases whose class is not known
    levels = part.grid.dtype == object and part.across.dtype == object
    out = []
    for c, label in enumerate(labels):
        own = [case for case in known if case.truth == label]
        if not own:
            continue
        x, y = (
            np.array([_spot(case.values[name], grid) for case in own])
            for name, grid in zip(part.features, (part.grid, part.across), strict=True)
        )
        if levels:  # below the numbers in the middle of the cells
            x, y = x + 0.6 * ((c + 0.5) / len(labels) - 0.5), y - 0.3
        symbol = SYMBOLS[place(c, len(classes)) % len(SYMBOLS)] if label is not None else SYMBOLS[0]
        name = "kept case" if label is None else f"case: {shortened(label, 18)}"
        at, height = ([None if np.isnan(v) else float(v) for v in values] for values in (x, y))
        tips = [f"case {case.label}" for case in own]
        out.append(dots(at, height, tips, symbol=symbol, size=4.5, colour=PAPER, edge=INK, edgeWidth=1.4, name=name))
    return out


def _spot(value: Any, grid: np.ndarray) -> float:
    """Where a value stands along the axis, NaN for a category that is not drawn."""
    if grid.dtype != object:
        return float(np.clip(value, grid[0], grid[-1]))
    levels = _shown(grid).tolist()
    return float(levels.index(value)) if value in levels else np.nan


def _value_table(part: Part, outputs: Sequence[Any], score: str) -> Table:
    """What some pairs of values add."""
    i, j = (
        np.arange(len(grid)) if grid.dtype == object else np.unique(np.linspace(0, len(grid) - 1, STEPS).astype(int))
        for grid in (part.grid, part.across)
    )
    first, second = ([_value(grid[spot]) for spot in some] for grid, some in ((part.grid, i), (part.across, j)))
    return _table(part, outputs, score, first, second, part.shape[np.ix_(i, j)])


def _value(cell: Any) -> str:
    return number(float(cell)) if isinstance(cell, float) and not isinstance(cell, bool) else shortened(cell, 40)
