"""Charts of the kept features: how much they matter, what each adds to the score, and what pairs add together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.results.data import Case, Part, Results
from tamis.results.tables import Table, chosen_in_folds, direction, range_over_folds
from tamis.results.text import effect, literal, number, per_output, percent, shortened, signed, signed_percent
from tamis.views.report.style import (
    COLOURS,
    INK,
    MINUS,
    MUTED,
    PAPER,
    PLUS,
    SYMBOLS,
    Chart,
    Figure,
    axis,
    fill,
    layout,
    line,
    place,
    sign_fill,
)

MAX_BARS = 40  # parts in a chart
MAX_SHAPES = 40  # parts with a drawn shape
MAX_SURFACES = 10  # pairs with a drawn surface
MAX_LEVELS = 30  # categories in a drawing
MAX_OUTPUTS = 6  # classes in a drawing of a pair
MAX_NUMBERS = 36  # cells of a map of categories that hold their numbers
SHAPE_HEIGHT, MAP_HEIGHT = 310, 320
GAP = 0.22  # between maps, as a share of their height
STEPS = 6  # values of a number in the table of a pair
PER_CENT = "%{x:.1f}%<extra></extra>"
DIVERGING = ((0.0, MINUS), (0.5, PAPER), (1.0, PLUS))


def share_chart(parts: Sequence[Part], outputs: Sequence[Any]) -> Chart:
    """Share of variation of each part, with its range over the folds."""
    shown, several = parts[:MAX_BARS], len(outputs) > 1
    mean, spots = [float(part.variation.mean()) for part in shown], list(range(len(shown)))
    ranges = [(p.by_fold.min(), p.by_fold.max()) if len(p.by_fold) else (None, None) for p in shown]
    folds = {
        "mode": "lines",
        "name": "range over folds",
        "showlegend": not several,
        "line": {"color": MUTED, "width": 3},
    }
    folds |= {"x": [end for low, high in ranges for end in (low, high, None)], "hovertemplate": PER_CENT}
    traces: list[dict[str, Any]] = [{**folds, "y": [spot for k in spots for spot in (k, k, None)]}]
    if several:
        traces.append(_dots(mean, spots, "mean", color=INK, size=12, symbol="line-ns", line={"color": INK, "width": 3}))
    else:
        traces.append(_dots(mean, spots, "all rows", color=PLUS, size=12, symbol="circle", line={"width": 0}))
    for q, output in enumerate(outputs if several else ()):
        marker = {"color": COLOURS[q % len(COLOURS)], "symbol": SYMBOLS[q % len(SYMBOLS)], "size": 10}
        shares = [float(part.variation[q]) for part in shown]
        heights = [k + 0.5 * (q / (len(outputs) - 1) - 0.5) for k in spots]
        traces.append(_dots(shares, heights, literal(output), **marker, line={"color": PAPER, "width": 1}))
    names = [trace["name"] for trace in traces if trace.get("showlegend", True)]
    figure: Figure = {"data": traces, "layout": _named_rows(shown, "per cent", names)}
    figure["layout"]["xaxis"]["rangemode"] = "tozero"
    words = "Share of variation. " + "; ".join(f"{p.name}: {percent(m)}" for p, m in zip(shown, mean)) + "."
    rows = [
        [part.name, *(percent(v) for v in part.variation), range_over_folds(part), chosen_in_folds(part)]
        for part in parts
    ]
    head = ["Feature", *per_output("Share", outputs), "Range over folds", "Chosen"]
    return Chart("chart-share", figure, words, Table("Share of variation", head, rows))


def _dots(x: Sequence[float], y: Sequence[float], name: str, **marker: Any) -> dict[str, Any]:
    trace = {"mode": "markers", "cliponaxis": False, "x": x, "y": y, "name": name, "marker": marker}
    return {**trace, "hovertemplate": PER_CENT}


def importance_chart(parts: Sequence[Part], outputs: Sequence[Any]) -> Chart | None:
    """Signed importance of each part, a bar per output; None where the method has none."""
    shown = [part for part in parts[:MAX_BARS] if part.importance is not None]
    if not shown:
        return None
    traces: list[dict[str, Any]] = []
    for q, output in enumerate(outputs):
        values = [float(part.importance[q]) for part in shown if part.importance is not None]
        marker = sign_fill(values) if len(outputs) == 1 else fill(q, len(outputs))
        bars = {"type": "bar", "orientation": "h", "x": values, "y": list(range(len(shown))), "name": literal(output)}
        traces.append({**bars, "marker": marker, "hovertemplate": "%{x:+.1f}%<extra></extra>"})
    names = [literal(output) for output in outputs] if len(outputs) > 1 else []
    figure = {"data": traces, "layout": _named_rows(shown, "per cent", names)}
    rows = [[p.name, *(signed_percent(v) for v in p.importance)] for p in parts if p.importance is not None]
    table = Table("Signed importance", ["Feature", *per_output("Importance", outputs)], rows)
    words = "Signed importance. " + "; ".join(f"{row[0]}: {', '.join(row[1:])}" for row in rows[:MAX_BARS]) + "."
    return Chart("chart-importance", figure, words, table)


def _named_rows(parts: Sequence[Part], title: str, legend: Sequence[str]) -> dict[str, Any]:
    n, width = len(parts), 34 if any(len(part.features) > 1 for part in parts) else 24
    texts = [literal(part.name, width) for part in parts]
    names = axis(tickvals=list(range(n)), ticktext=texts, ticks="", zeroline=False)
    names |= {"range": [n - 0.4, -0.6], "showgrid": False}
    return layout(76 + 28 * n, legend, 170, xaxis=axis(title), yaxis=names, bargap=0.35)


def shape_chart(results: Results, part: Part, k: int) -> Chart | None:
    """What one feature adds to the score over its values, and the training rows below; None for a group."""
    if part.kind == "group" or not len(part.grid):
        return None
    score, classes = results.score_name, results.model.classes_.tolist()
    figure, table = (_levels if part.kind == "category" else _curve)(part, classes, results.outputs, score)
    low, high = float(part.shape.min()), float(part.shape.max())
    how = "by category" if part.kind == "category" else f"the {score} {direction(part)}"
    words = f"What {part.name} adds to the {score}: between {effect(low, score)} and {effect(high, score)}; {how}."
    return Chart(f"chart-shape-{k}", figure, words, table)


def _two_panels(x: dict[str, Any], counted: bool, legend: Sequence[Any], score: str) -> dict[str, Any]:
    """Layout with the shape above and the counts below, on one horizontal axis."""
    axes: dict[str, Any] = {"xaxis": {**x, "anchor": "y2" if counted else "y"}}
    axes["yaxis"] = axis(f"added to the {score}", domain=[0.36, 1.0] if counted else [0, 1])
    if counted:
        axes["yaxis2"] = axis("rows", domain=[0.0, 0.22], rangemode="tozero", nticks=3)
    return layout(SHAPE_HEIGHT, [literal(label) for label in legend], **axes, barmode="stack", bargap=0.05)


def _curve(part: Part, classes: Sequence[Any], outputs: Sequence[Any], score: str) -> tuple[Figure, Table]:
    several, counted = len(outputs) > 1, bool(part.counts.size)
    curve = {"x": part.grid, "mode": "lines" if len(part.grid) > 1 else "markers", "showlegend": several}
    curve["hovertemplate"] = "at %{x:.4g}: %{y:+.3f}<extra></extra>"
    traces: list[dict[str, Any]] = []
    for q, output in enumerate(outputs):
        look = line(q, len(outputs)) if several else {"color": INK, "width": 2.6}
        named = {"name": literal(output), "legendgroup": str(q)}
        traces.append({**curve, **named, "y": part.shape[:, q], "line": look})
    if counted:
        middle, width = (part.edges[1:] + part.edges[:-1]) / 2, np.diff(part.edges)
        traces += _counts(part, classes, middle.tolist(), several, width=width.tolist())
    figure = {"data": traces, "layout": _two_panels(axis(literal(part.name), zeroline=False), counted, classes, score)}
    edges = part.edges if counted else part.grid[:: max(1, (len(part.grid) - 1) // 12)]
    rows = []
    for i in range(len(edges) - 1):
        at = (edges[i] + edges[i + 1]) / 2
        adds = [effect(float(np.interp(at, part.grid, column)), score) for column in part.shape.T]
        rows.append([f"{number(edges[i])}\u00a0to\u00a0{number(edges[i + 1])}", *adds, *_row_counts(part, i)])
    return figure, _shape_table(part, outputs, classes, rows, "Values", f"{score}, at the middle of each range")


def _levels(part: Part, classes: Sequence[Any], outputs: Sequence[Any], score: str) -> tuple[Figure, Table]:
    several, counted = len(outputs) > 1, bool(part.counts.size)
    n = min(len(part.grid), MAX_LEVELS)
    spots = list(range(n))
    traces: list[dict[str, Any]] = []
    for q, output in enumerate(outputs):
        values = part.shape[:n, q].tolist()
        width = 0.8 / len(outputs)
        trace = {"type": "bar", "x": spots, "y": values, "name": literal(output), "legendgroup": str(q)}
        trace |= {"width": width, "offset": -0.4 + q * width, "base": 0, "showlegend": several}
        trace |= {"marker": fill(q, len(outputs)) if several else sign_fill(values)}
        traces.append({**trace, "hovertemplate": "%{y:+.3f}<extra></extra>"})
    if counted:
        traces += _counts(part, classes, spots, several, width=[0.8] * n)
    ticks = {"tickvals": spots, "ticktext": [literal(level, 16) for level in part.grid[:n]], "range": [-0.6, n - 0.4]}
    title = literal(part.name) + (f" (the first {n} of {len(part.grid)} categories)" if n < len(part.grid) else "")
    figure = {"data": traces, "layout": _two_panels(axis(title, zeroline=False, **ticks), counted, classes, score)}
    rows = [
        [shortened(level, 80), *(effect(v, score) for v in part.shape[i]), *_row_counts(part, i)]
        for i, level in enumerate(part.grid)
    ]
    return figure, _shape_table(part, outputs, classes, rows, "Category", score)


def _counts(part: Part, classes: Sequence[Any], x: list, several: bool, width: list[float]) -> list[dict[str, Any]]:
    """Stacked bars of the training rows of each class."""
    bars = {"type": "bar", "x": x, "width": width, "yaxis": "y2", "showlegend": not several}
    bars["hovertemplate"] = "%{y} rows<extra></extra>"
    return [
        {
            **bars,
            "y": part.counts[c][: len(x)],
            "name": literal(label),
            "legendgroup": str(c),
            "marker": fill(c, len(classes)),
        }
        for c, label in enumerate(classes)
    ]


def _row_counts(part: Part, i: int) -> list[str]:
    return [str(int(count)) for count in part.counts[:, i]] if part.counts.size else []


def _shape_table(
    part: Part, outputs: Sequence[Any], classes: Sequence[Any], rows: list[list[str]], first: str, where: str
) -> Table:
    counted = [f"Training rows: {label}" for label in classes] if part.counts.size else []
    head = [first, *per_output("Adds", outputs), *counted]
    return Table(f"What {part.name} adds to the {where}", head, rows)


def surface_chart(results: Results, part: Part, k: int) -> Chart:
    """What two features add to the score over their values, a map for each output, with the kept cases.

    Parameters
    ----------
    part : a pair of features with its surface
    k : its place among the pairs
    """
    outputs, score = results.outputs, results.score_name
    n = min(len(outputs), MAX_OUTPUTS)
    marks = _marks(part, results.model.classes_.tolist(), results.cases)
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    for q in range(n):
        number_of = "" if q == 0 else str(q + 1)
        own = {"xaxis": f"x{number_of}", "yaxis": f"y{number_of}"}
        traces += [{**trace, **own} for trace in _map(part, q)]
        traces += [{**mark, **own, "showlegend": q == 0} for mark in marks]
        axes |= _axes(part, q, n, outputs[q] if len(outputs) > 1 else None)
    figure = {"data": traces, "layout": layout(MAP_HEIGHT * n, [mark["name"] for mark in marks], **axes)}
    low, high = float(part.shape.min()), float(part.shape.max())
    words = f"What {part.name} add to the {score} together: between {effect(low, score)} and {effect(high, score)}."
    return Chart(f"chart-surface-{k}", figure, words, _surface_table(part, outputs, score))


def _shown(grid: np.ndarray) -> np.ndarray:
    """The values that are drawn: all numbers, the first of many categories."""
    return grid[:MAX_LEVELS] if grid.dtype == object else grid


def _spots(grid: np.ndarray) -> np.ndarray:
    """Where the values stand along the axis: categories side by side."""
    return np.arange(len(_shown(grid))) if grid.dtype == object else grid


def _map(part: Part, q: int) -> list[dict[str, Any]]:
    """The colours of one output, with lines of equal value over numbers and numbers over few categories."""
    x, y = _spots(part.grid), _spots(part.across)
    z = part.shape[: len(x), : len(y), q].T
    top = float(np.abs(part.shape).max()) or 1.0
    scale = [list(stop) for stop in DIVERGING]
    bar = {"title": {"text": "added", "side": "top"}, "thickness": 12, "tickformat": "+.2~g", "outlinewidth": 0}
    colours = {"type": "heatmap", "x": x, "y": y, "z": z, "zmin": -top, "zmax": top, "colorscale": scale}
    colours |= {"hovertemplate": "%{x}, %{y}: %{z:+.3f}<extra></extra>", "showscale": q == 0, "colorbar": bar}
    nominal = part.grid.dtype == object, part.across.dtype == object
    if all(nominal) and z.size <= MAX_NUMBERS:
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


def _surface_table(part: Part, outputs: Sequence[Any], score: str) -> Table:
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
    caption = f"What {part.features[0]} (rows) and {part.features[1]} (columns) add to the {score} together"
    return Table(caption, head, rows, words)


def _value(cell: Any) -> str:
    return number(float(cell)) if isinstance(cell, float) and not isinstance(cell, bool) else shortened(cell, 40)
