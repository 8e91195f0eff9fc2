"""Charts of what each kept feature adds to the score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.results.data import Part
from tamis.views.report.influence import direction
from tamis.views.report.style import INK, Chart, Figure, axis, fill, layout, line, sign_fill
from tamis.views.report.text import Table, literal, number, per_output, shortened, signed

MOST_SHAPES = 40  # parts with a drawn shape
MOST_LEVELS = 30  # categories in a drawing
HEIGHT = 310


def shape_chart(part: Part, k: int, classes: Sequence[Any], outputs: Sequence[Any]) -> Chart | None:
    """What one feature adds to the score over its values, above the training rows; None for a group."""
    if part.kind == "group" or not len(part.grid):
        return None
    figure, table = (_levels if part.kind == "category" else _curve)(part, classes, outputs)
    low, high = float(part.shape.min()), float(part.shape.max())
    how = "by category" if part.kind == "category" else f"the score {direction(part)}"
    words = f"What {part.name} adds to the score: between {signed(low)} and {signed(high)}; {how}."
    return Chart(f"chart-shape-{k}", figure, words, table)


def _two_storeys(x: dict[str, Any], counted: bool, legend: Sequence[Any]) -> dict[str, Any]:
    """Layout with the shape above and the counts below, on one horizontal axis."""
    above = axis("adds to the score", domain=[0.36, 1.0] if counted else [0, 1])
    below = axis("rows", domain=[0.0, 0.22], rangemode="tozero", nticks=3)
    storeys: dict[str, Any] = {"yaxis": above, "yaxis2": below} if counted else {"yaxis": above}
    names = [literal(label) for label in legend]
    return layout(HEIGHT, names, xaxis={**x, "anchor": "y2" if counted else "y"}, barmode="stack", bargap=0.05,
                  **storeys)  # fmt: skip


def _curve(part: Part, classes: Sequence[Any], outputs: Sequence[Any]) -> tuple[Figure, Table]:
    several, counted = len(outputs) > 1, bool(part.counts.size)
    traces: list[dict[str, Any]] = [
        {
            "x": part.grid,
            "y": part.shape[:, q],
            "mode": "lines" if len(part.grid) > 1 else "markers",
            "name": literal(output),
            "legendgroup": str(q),
            "line": line(q, len(outputs)) if several else {"color": INK, "width": 2.6},
            "hovertemplate": "at %{x:.4g}: %{y:+.3f}<extra></extra>",
            "showlegend": several,
        }
        for q, output in enumerate(outputs)
    ]
    if counted:
        middle, width = (part.edges[1:] + part.edges[:-1]) / 2, np.diff(part.edges)
        traces += _counts(part, classes, middle.tolist(), several, width=width.tolist())
    figure = {"data": traces, "layout": _two_storeys(axis(literal(part.name), zeroline=False), counted, classes)}
    edges = part.edges if counted else part.grid[:: max(1, (len(part.grid) - 1) // 12)]
    rows = []
    for i in range(len(edges) - 1):
        at = (edges[i] + edges[i + 1]) / 2
        adds = [signed(float(np.interp(at, part.grid, column))) for column in part.shape.T]
        rows.append([f"{number(edges[i])}\u00a0to\u00a0{number(edges[i + 1])}", *adds, *_row_counts(part, i)])
    return figure, _shape_table(part, outputs, classes, rows, "Values", ", at the middle of each range")


def _levels(part: Part, classes: Sequence[Any], outputs: Sequence[Any]) -> tuple[Figure, Table]:
    several, counted = len(outputs) > 1, bool(part.counts.size)
    n = min(len(part.grid), MOST_LEVELS)
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
    figure = {"data": traces, "layout": _two_storeys(axis(title, zeroline=False, **ticks), counted, classes)}
    rows = [
        [shortened(level, 80), *(signed(v) for v in part.shape[i]), *_row_counts(part, i)]
        for i, level in enumerate(part.grid)
    ]
    return figure, _shape_table(part, outputs, classes, rows, "Category", "")


def _counts(part: Part, classes: Sequence[Any], x: list, several: bool, width: list[float]) -> list[dict[str, Any]]:
    """Stacked bars of the training rows of each class."""
    return [
        {
            "type": "bar",
            "x": x,
            "y": part.counts[c][: len(x)],
            "width": width,
            "yaxis": "y2",
            "name": literal(label),
            "legendgroup": str(c),
            "showlegend": not several,
            "marker": fill(c, len(classes)),
            "hovertemplate": "%{y} rows<extra></extra>",
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
    return Table(f"What {part.name} adds to the score{where}", head, rows)
