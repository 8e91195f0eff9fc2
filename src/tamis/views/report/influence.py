"""Charts and table of how much the kept features matter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.base.classifier import KernelClassifier
from tamis.results.data import Part
from tamis.views.report.style import (
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
    sign_fill,
)
from tamis.views.report.text import Table, literal, per_output, percent, signed_percent

MOST_BARS = 40  # parts in a chart


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
            "showlegend": len(outputs) == 1,
            "line": {"color": MUTED, "width": 3},
            "hovertemplate": "%{x:.1f}%<extra></extra>",
        },
        {
            "mode": "markers",
            "cliponaxis": False,
            "x": mean,
            "y": spots,
            "name": "mean" if len(outputs) > 1 else "all rows",
            "marker": {
                "color": INK if len(outputs) > 1 else PLUS,
                "size": 12,
                "symbol": "line-ns",
                "line": {"color": INK, "width": 3},
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
                "cliponaxis": False,
                "x": [float(part.variation[q]) for part in shown],
                "y": [k + 0.5 * (q / (len(outputs) - 1) - 0.5) for k in spots],
                "name": literal(output),
                "marker": {**dots, "line": {"color": PAPER, "width": 1}},
                "hovertemplate": "%{x:.1f}%<extra></extra>",
            }
        )
    names = [trace["name"] for trace in traces if trace.get("showlegend", True)]
    figure: Figure = {"data": traces, "layout": _named_rows(shown, "per cent", names)}
    figure["layout"]["xaxis"]["rangemode"] = "tozero"
    words = "Share of variation. " + "; ".join(f"{p.name}: {percent(m)}" for p, m in zip(shown, mean)) + "."
    rows = [[part.name, *(percent(v) for v in part.variation), *_over_folds(part)] for part in parts]
    head = ["Feature", *per_output("Share", outputs), "Range over folds", "Chosen in folds"]
    return Chart("chart-share", figure, words, Table("Share of variation", head, rows))


def _range(part: Part) -> tuple[float | None, float | None]:
    return (float(part.by_fold.min()), float(part.by_fold.max())) if len(part.by_fold) else (None, None)


def importance_chart(parts: Sequence[Part], outputs: Sequence[Any]) -> Chart | None:
    """Signed importance of each part, a bar per output; None where the method has none."""
    shown = [part for part in parts[:MOST_BARS] if part.importance is not None]
    if not shown:
        return None
    traces: list[dict[str, Any]] = []
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
    names = [literal(output) for output in outputs] if len(outputs) > 1 else []
    figure = {"data": traces, "layout": _named_rows(shown, "per cent", names)}
    rows = [[p.name, *(signed_percent(v) for v in p.importance)] for p in parts if p.importance is not None]
    table = Table("Signed importance", ["Feature", *per_output("Importance", outputs)], rows)
    words = "Signed importance. " + "; ".join(f"{row[0]}: {', '.join(row[1:])}" for row in rows[:MOST_BARS]) + "."
    return Chart("chart-importance", figure, words, table)


def _named_rows(parts: Sequence[Part], title: str, legend: Sequence[str]) -> dict[str, Any]:
    n, width = len(parts), 34 if any(len(part.features) > 1 for part in parts) else 24
    texts = [literal(part.name, width) for part in parts]
    names = axis(tickvals=list(range(n)), ticktext=texts, ticks="", zeroline=False)
    names |= {"range": [n - 0.4, -0.6], "showgrid": False}
    return layout(76 + 28 * n, legend, 170, xaxis=axis(title), yaxis=names, bargap=0.35)


def part_table(parts: Sequence[Part], outputs: Sequence[Any]) -> Table:
    """Everything about the parts that is a number or a word."""
    weighted = all(part.importance is not None for part in parts)
    head = ["Feature", "Direction", *(per_output("Importance", outputs) if weighted else [])]
    folded = any(len(part.by_fold) for part in parts)
    head += [*per_output("Share of variation", outputs), *(["Range over folds", "Chosen in folds"] if folded else [])]
    rows = []
    for part in parts:
        row = [part.name, direction(part)]
        row += [signed_percent(v) for v in part.importance] if weighted and part.importance is not None else []
        row += [percent(v) for v in part.variation]
        rows.append([*row, *(_over_folds(part) if folded else [])])
    return Table("The kept features, the most influential first", head, rows, frozenset({1}))


def direction(part: Part) -> str:
    """What the score does as the feature grows, in words."""
    words = {"bends": "rises and falls", "flat": "stays the same", "levels": "by category", "together": "only together"}
    return words.get(part.direction, f"{part.direction} with it")


def without_value(model: KernelClassifier, part: Part) -> str:
    """What rows without a value of the feature get from it, in words."""
    encoder = model.model_.encoder
    if not math.isnan(encoder.columns[encoder.names.index(part.features[0])].fill):
        return "which count as the typical value"
    centred = getattr(model.model_.expansion, "centre", None) is not None
    return "which all get the same from it" if centred else "which get nothing from it"


def _over_folds(part: Part) -> list[str]:
    folds = part.by_fold
    if not len(folds):
        return ["not known", "not known"]
    return [f"{percent(folds.min())} to {percent(folds.max())}", f"{int(np.sum(folds > 0))} of {len(folds)}"]
