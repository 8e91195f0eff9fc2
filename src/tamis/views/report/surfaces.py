"""Charts of what pairs of kept features add to the score together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.results.data import Case, Part
from tamis.views.report.style import INK, MINUS, PAPER, PLUS, SYMBOLS, Chart, axis, layout, place
from tamis.views.report.text import Table, literal, number, shortened, signed

MOST_SURFACES = 10  # pairs with a drawn surface
MOST_LEVELS = 30  # categories in a drawing
MOST_OUTPUTS = 6  # classes in a drawing
MOST_NUMBERS = 36  # cells of a map of categories that hold their numbers
HEIGHT = 320  # of one map
GAP = 0.22  # between maps, as a share of their height
STEPS = 6  # values of a number in the table
DIVERGING = ((0.0, MINUS), (0.5, PAPER), (1.0, PLUS))


def surface_chart(part: Part, k: int, classes: Sequence[Any], outputs: Sequence[Any], cases: Sequence[Case]) -> Chart:
    """What two features add to the score over their values, a map for each output, with the kept cases.

    Parameters
    ----------
    part : a pair of features with its surface
    k : its place among the pairs
    """
    n = min(len(outputs), MOST_OUTPUTS)
    marks = _marks(part, classes, cases)
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    for q in range(n):
        number_of = "" if q == 0 else str(q + 1)
        own = {"xaxis": f"x{number_of}", "yaxis": f"y{number_of}"}
        traces += [{**trace, **own} for trace in _map(part, q)]
        traces += [{**mark, **own, "showlegend": q == 0} for mark in marks]
        axes |= _axes(part, q, n, outputs[q] if len(outputs) > 1 else None)
    figure = {"data": traces, "layout": layout(HEIGHT * n, [mark["name"] for mark in marks], **axes)}
    low, high = float(part.shape.min()), float(part.shape.max())
    words = f"What {part.name} add together: between {signed(low)} and {signed(high)}."
    return Chart(f"chart-surface-{k}", figure, words, _table(part, outputs))


def _shown(grid: np.ndarray) -> np.ndarray:
    """The values that are drawn: all numbers, the first of many categories."""
    return grid[:MOST_LEVELS] if grid.dtype == object else grid


def _spots(grid: np.ndarray) -> np.ndarray:
    """Where the values stand along the axis: categories side by side."""
    return np.arange(len(_shown(grid))) if grid.dtype == object else grid


def _map(part: Part, q: int) -> list[dict[str, Any]]:
    """The colours of one output, with lines of equal value over numbers and numbers over few categories."""
    x, y = _spots(part.grid), _spots(part.across)
    z = part.shape[: len(x), : len(y), q].T
    top = float(np.abs(part.shape).max()) or 1.0
    scale = [list(stop) for stop in DIVERGING]
    bar = {"title": {"text": "adds", "side": "top"}, "thickness": 12, "tickformat": "+.2~g", "outlinewidth": 0}
    colours = {"type": "heatmap", "x": x, "y": y, "z": z, "zmin": -top, "zmax": top, "colorscale": scale}
    colours |= {"hovertemplate": "%{x}, %{y}: %{z:+.3f}<extra></extra>", "showscale": q == 0, "colorbar": bar}
    nominal = part.grid.dtype == object, part.across.dtype == object
    if all(nominal) and z.size <= MOST_NUMBERS:
        colours |= {"texttemplate": "%{z:+.2f}"}  # plotly picks a colour that is seen on that of the cell
    if any(nominal) or len(x) < 2 or len(y) < 2:
        return [colours]
    lines = {"type": "contour", "x": x, "y": y, "z": z, "showscale": False, "hoverinfo": "skip", "autocontour": False}
    lines |= {"colorscale": [[0, INK], [1, INK]], "line": {"width": 0.7}}
    step, decimals = _step(top / 3.0)
    start = (1e-6 - 4) * step  # so that zero, when steps are added up, does not become -0.0
    ends = {"start": start, "end": 4 * step, "size": step, "coloring": "lines"}
    labels = {"showlabels": True, "labelformat": f"+.{decimals}f", "labelfont": {"color": INK}}
    return [colours, lines | {"contours": ends | labels}]


def _step(size: float) -> tuple[float, int]:
    """The next round number up to `size`: 1, 2 or 5 times a power of ten, and the decimals that it has."""
    power = math.floor(math.log10(size))
    lead = max(n for n in (1, 2, 5) if n <= size / 10.0**power or n == 1)
    return lead * 10.0**power, max(0, -power)


def _marks(part: Part, classes: Sequence[Any], cases: Sequence[Case]) -> list[dict[str, Any]]:
    """The kept cases of each class at their values of the two features, those beyond a range at its end."""
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
        if levels:  # beside the numbers in the middle of the cells
            x, y = x + 0.6 * ((c + 0.5) / len(labels) - 0.5), y - 0.3
        symbol = SYMBOLS[place(c, len(classes)) % len(SYMBOLS)] if label is not None else SYMBOLS[0]
        marker = {"symbol": symbol, "size": 8, "color": PAPER, "line": {"color": INK, "width": 1.4}}
        out.append(
            {
                "mode": "markers",
                "cliponaxis": False,
                "x": x,
                "y": y,
                "name": "kept case" if label is None else f"case: {literal(label, 18)}",
                "legendgroup": f"case {c}",
                "marker": marker,
                "text": [literal(case.label) for case in own],
                "hovertemplate": "case %{text}<extra></extra>",
            }
        )
    return out


def _spot(value: Any, grid: np.ndarray) -> float:
    """Where a value stands along the axis, NaN for a category that is not drawn."""
    if grid.dtype != object:
        return float(np.clip(value, grid[0], grid[-1]))
    levels = _shown(grid).tolist()
    return float(levels.index(value)) if value in levels else np.nan


def _axes(part: Part, q: int, n: int, output: Any) -> dict[str, Any]:
    """The axes of the q-th of n maps, which stand above each other."""
    number_of = "" if q == 0 else str(q + 1)
    height = 1.0 / (n + GAP * (n - 1))
    top = 1.0 - q * (1.0 + GAP) * height
    across = literal(part.features[1]) + ("" if output is None else f" ({literal(output, 14)})")
    x = axis(literal(part.features[0]), **_ticks(part.grid), anchor=f"y{number_of}")
    y = axis(across, **_ticks(part.across), anchor=f"x{number_of}", domain=[max(0.0, top - height), top])
    return {f"xaxis{number_of}": x, f"yaxis{number_of}": y}


def _ticks(grid: np.ndarray) -> dict[str, Any]:
    quiet = {"zeroline": False, "showgrid": False}
    if grid.dtype != object:
        ends = [float(grid[0]), float(grid[-1])]
        return {**quiet, "range": ends} if ends[0] < ends[1] else quiet
    shown = _shown(grid)
    return {**quiet, "tickvals": list(range(len(shown))), "ticktext": [literal(level, 14) for level in shown]}


def _table(part: Part, outputs: Sequence[Any]) -> Table:
    """What some pairs of values add: the first feature along the rows, the second along the columns."""
    i, j = (
        np.arange(len(grid)) if grid.dtype == object else np.unique(np.linspace(0, len(grid) - 1, STEPS).astype(int))
        for grid in (part.grid, part.across)
    )
    first, second = ([_value(grid[place]) for place in some] for grid, some in ((part.grid, i), (part.across, j)))
    head = [part.features[0], *(["Class"] if len(outputs) > 1 else [])]
    head += [f"{shortened(part.features[1], 20)} {value}" for value in second]
    rows = []
    for value, a in zip(first, i, strict=True):
        for q, output in enumerate(outputs):
            cells = [signed(v) for v in part.shape[a, j, q]]
            rows.append([value, *([str(output)] if len(outputs) > 1 else []), *cells])
    words = frozenset({1} if len(outputs) > 1 else ())
    return Table(f"What {part.features[0]} (rows) and {part.features[1]} (columns) add together", head, rows, words)


def _value(cell: Any) -> str:
    return number(float(cell)) if isinstance(cell, float) and not isinstance(cell, bool) else shortened(cell, 40)
