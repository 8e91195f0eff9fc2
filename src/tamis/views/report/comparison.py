"""Several methods on one table: accuracy against the number of features and of cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.results.tables import Table, comparison_table
from tamis.results.text import literal, number, percent
from tamis.views.report.page import document
from tamis.views.report.style import BLUE, GRID, MUTED, SYMBOLS, VERMILLION, Chart, layout

MARKS = [unit * 10**power for power in range(6) for unit in (1, 2, 5)]
TICKS = {"tickmode": "array", "tickvals": MARKS, "ticktext": [f"{mark:,}" for mark in MARKS]}
STEP = 1.04  # between points that would hide one another


def render_comparison(found: dict[str, Any]) -> str:
    """Return the page of a comparison, as `Comparison.to_dict` gives it."""
    entries = [entry for entry in found["entries"] if not entry["failure"]]
    charts = [_chart(entries, "n_features", "features kept"), _chart(entries, "n_cases", "training cases kept")]
    shown = [chart for chart in charts if chart is not None]
    return document(
        "comparison.html.jinja", shown, {}, found=found, table=comparison_table(found["entries"]), charts=shown
    )


def _chart(entries: Sequence[dict[str, Any]], size: str, title: str) -> Chart | None:
    """Accuracy with its interval over what the method keeps; methods without that number are left out."""
    known = [entry for entry in entries if entry[size]]
    if not known:
        return None
    traces = []
    apart = _set_apart([entry[size] for entry in known])
    for k, (entry, place) in enumerate(zip(known, apart, strict=True)):
        accuracy = entry["accuracy"]
        bars = {
            "type": "data",
            "symmetric": False,
            "array": [100 * (accuracy["high"] - accuracy["value"])],
            "arrayminus": [100 * (accuracy["value"] - accuracy["low"])],
            "thickness": 1.2,
        }
        colour = BLUE if entry["own"] else VERMILLION
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": literal(entry["method"]),
                "x": [place],
                "y": [100 * accuracy["value"]],
                "error_y": {**bars, "color": colour},
                "marker": {"color": colour, "size": 11, "symbol": SYMBOLS[k % len(SYMBOLS)]},
                "hovertemplate": f"{number(entry[size], 3)} {title}, %{{y:.1f}}%",
            }
        )
    axis = {"gridcolor": GRID, "zeroline": False, "linecolor": MUTED, "automargin": True}
    figure = {
        "data": traces,
        "layout": layout(
            330,
            [str(trace["name"]) for trace in traces],
            xaxis={**axis, **TICKS, "title": {"text": f"{title} (logarithmic)"}, "type": "log"},
            yaxis={**axis, "title": {"text": "accuracy, %"}},
        ),
    }
    words = "; ".join(f"{e['method']} {number(e[size], 3)}, {percent(100 * e['accuracy']['value'])}" for e in known)
    rows = [[e["method"], number(e[size], 3), percent(100 * e["accuracy"]["value"])] for e in known]
    table = Table(f"Accuracy and {title}", ["Method", title.capitalize(), "Accuracy"], rows)
    return Chart(f"chart-{size.replace('_', '-')}", figure, f"Accuracy against {title}: {words}", table)


def _set_apart(sizes: Sequence[float]) -> list[float]:
    """Sizes on a logarithmic axis, equal ones side by side."""
    return [size * STEP ** sizes[:k].count(size) for k, size in enumerate(sizes)]
