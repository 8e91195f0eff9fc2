"""Charts of the kept features: how much they matter, and what each adds to the score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.report.style import (
    COLOURS,
    INK,
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
    sign_fill,
)
from tamis.report.text import Table, literal, number, percent, shortened, signed, signed_percent
from tamis.results.data import Part

MOST_BARS = 40  # parts in the charts of importance
MOST_SHAPES = 40  # parts with a drawn shape
MOST_LEVELS = 30  # categories in a drawing
HEIGHT = 330


# ---------------------------------------------------------------------- how much


def share_chart(parts: Sequence[Part], outputs: Sequence[Any]) -> Chart:
    """Share of variation of each part, with its range over the folds."""
    shown = parts[:MOST_BARS]
    mean = [float(part.variation.mean()) for part in shown]
    spots = list(range(len(shown)))
    traces: list[dict[str, Any]] = [
        {
            "mode": "lines",
            "x": [end for part in shown for end in (*_range(part), None)],
            "y": [spot for k in spots for spot in (k, k, None)],
            "name": "range over folds",
            "line": {"color": MUTED, "width": 3},
            "hovertemplate": "%{x:.1f}%<extra></extra>",
        },
        {
            "mode": "markers",
            "x": mean,
            "y": spots,
            "name": "mean over the classes" if len(outputs) > 1 else "all training rows",
            "marker": {
                "color": INK if len(outputs) > 1 else PLUS,
                "size": 12,
                "symbol": "line-ns",
                "line": {"width": 3},
            },
            "hovertemplate": "%{x:.1f}%<extra></extra>",
        },
    ]
    if len(outputs) == 1:
        traces[1]["marker"] |= {"symbol": "circle", "line": {"width": 0}}
    for q, output in enumerate(outputs if len(outputs) > 1 else ()):
        dots = {"color": COLOURS[q % len(COLOURS)], "symbol": SYMBOLS[q % len(SYMBOLS)], "size": 10}
        traces.append(
            {
                "mode": "markers",
                "x": [float(part.variation[q]) for part in shown],
                "y": spots,
                "name": literal(output),
                "marker": {**dots, "line": {"color": PAPER, "width": 1}},
                "hovertemplate": "%{x:.1f}%<extra></extra>",
            }
        )
    figure = {"data": traces, "layout": _named_rows(shown, "share of variation, %", legend=True)}
    figure["layout"]["xaxis"]["rangemode"] = "tozero"
    words = "Share of variation. " + "; ".join(f"{p.name}: {percent(m)}" for p, m in zip(shown, mean)) + "."
    return Chart("chart-share", figure, words, part_table(parts, outputs))


def _range(part: Part) -> tuple[float | None, float | None]:
    return (float(part.by_fold.min()), float(part.by_fold.max())) if len(part.by_fold) else (None, None)


def importance_chart(parts: Sequence[Part], outputs: Sequence[Any]) -> Chart | None:
    """Signed importance of each part, a bar per output; None where the method has none."""
    shown = [part for part in parts[:MOST_BARS] if part.importance is not None]
    if not shown:
        return None
    traces = []
    for q, output in enumerate(outputs):
        values = [float(part.importance[q]) for part in shown if part.importance is not None]
        own = sign_fill(values) if len(outputs) == 1 else fill(q, len(outputs))
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "x": values,
                "y": list(range(len(shown))),
                "name": literal(output),
                "marker": own,
                "hovertemplate": "%{x:+.1f}%<extra></extra>",
            }
        )
    figure = {"data": traces, "layout": _named_rows(shown, "signed importance, %", legend=len(outputs) > 1)}
    rows = [[p.name, *(signed_percent(v) for v in p.importance)] for p in parts if p.importance is not None]
    table = Table("Signed importance", ["Feature", *_per_output("Importance", outputs)], rows)
    words = "Signed importance. " + "; ".join(f"{row[0]}: {', '.join(row[1:])}" for row in rows[:MOST_BARS]) + "."
    return Chart("chart-importance", figure, words, table)


def _named_rows(parts: Sequence[Part], title: str, *, legend: bool) -> dict[str, Any]:
    n = len(parts)
    names = axis(tickvals=list(range(n)), ticktext=[literal(part.name, 24) for part in parts], ticks="", zeroline=False)
    names |= {"range": [n - 0.4, -0.6], "showgrid": False}
    return layout(96 + 26 * n, xaxis=axis(title), yaxis=names, showlegend=legend, bargap=0.35)


def part_table(parts: Sequence[Part], outputs: Sequence[Any]) -> Table:
    """Everything about the parts that is a number or a word."""
    weighted = all(part.importance is not None for part in parts)
    head = ["Feature", "Direction", *(_per_output("Importance", outputs) if weighted else [])]
    head += [*_per_output("Share of variation", outputs), "Range over folds", "Chosen in folds"]
    rows = []
    for part in parts:
        row = [part.name, direction(part)]
        row += [signed_percent(v) for v in part.importance] if weighted and part.importance is not None else []
        row += [percent(v) for v in part.variation]
        rows.append([*row, *_over_folds(part)])
    return Table("The kept features, the most influential first", head, rows, frozenset({1}))


def direction(part: Part) -> str:
    """What the score does as the feature grows, in words."""
    words = {"rises": "rises with it", "falls": "falls with it", "bends": "rises and falls", "levels": "by category"}
    return words.get(part.direction, "only together")


def _over_folds(part: Part) -> list[str]:
    folds = part.by_fold
    if not len(folds):
        return ["not known", "not known"]
    return [f"{percent(folds.min())} to {percent(folds.max())}", f"{int(np.sum(folds > 0))} of {len(folds)}"]


def _per_output(name: str, outputs: Sequence[Any]) -> list[str]:
    return [name] if len(outputs) == 1 else [f"{name}: {output}" for output in outputs]


# ---------------------------------------------------------------------- what each adds


def shape_chart(part: Part, k: int, classes: Sequence[Any], outputs: Sequence[Any]) -> Chart | None:
    """What one feature adds to the score over its values, above the training rows; None for a group."""
    if part.kind == "group" or not len(part.grid):
        return None
    figure, table = (_levels if part.kind == "category" else _curve)(part, classes, outputs)
    low, high = float(part.shape.min()), float(part.shape.max())
    words = f"What {part.name} adds to the score: between {signed(low)} and {signed(high)}; it {direction(part)}."
    if part.kind == "category":
        words = f"What {part.name} adds to the score, by category: between {signed(low)} and {signed(high)}."
    return Chart(f"chart-shape-{k}", figure, words, table)


def _two_storeys(x: dict[str, Any], counted: bool, legend: bool) -> dict[str, Any]:
    """Layout with the shape above and the counts below, on one horizontal axis."""
    above = axis("adds to the score", domain=[0.36, 1.0] if counted else [0, 1])
    below = axis("rows", domain=[0.0, 0.22], rangemode="tozero", nticks=3)
    storeys = {"yaxis": above, "yaxis2": below} if counted else {"yaxis": above}
    return layout(HEIGHT, xaxis={**x, "anchor": "y2" if counted else "y"}, barmode="stack", bargap=0.05,
                  showlegend=legend, **storeys)  # fmt: skip


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
    figure = {"data": traces, "layout": _two_storeys(axis(literal(part.name, 40), zeroline=False), counted, True)}
    edges = part.edges if counted else part.grid[:: max(1, (len(part.grid) - 1) // 12)]
    rows = []
    for i in range(len(edges) - 1):
        at = (edges[i] + edges[i + 1]) / 2
        adds = [signed(float(np.interp(at, part.grid, column))) for column in part.shape.T]
        rows.append([f"{number(edges[i])} to {number(edges[i + 1])}", *adds, *_row_counts(part, i)])
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
    title = literal(part.name, 40) + (f" (the first {n} of {len(part.grid)} categories)" if n < len(part.grid) else "")
    figure = {"data": traces, "layout": _two_storeys(axis(title, zeroline=False, **ticks), counted, True)}
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
    head = [first, *_per_output("Adds", outputs), *counted]
    return Table(f"What {part.name} adds to the score{where}", head, rows)
