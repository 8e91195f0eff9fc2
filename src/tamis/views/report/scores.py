"""Charts of scores: ROC and KS curves, scores over budgets, agreement of the folds, and methods compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.explain.measures import Stability
from tamis.results.data import Curve, Evaluation
from tamis.results.tables import Table
from tamis.results.text import LOWER_IS_BETTER, SCORES, interval, literal, number, percent
from tamis.views.report.style import (
    BLACK,
    BLUE,
    DEEP,
    GRID,
    INK,
    MUTED,
    PALE,
    SYMBOLS,
    VERMILLION,
    Chart,
    Figure,
    axis,
    layout,
    line,
)

HEIGHT = 340
STEPS = 11  # points of a curve in its table
USUAL = ("log_loss", "accuracy", "roc_auc")  # shown in addition to the score of the choice
MAX_NUMBERS = 12  # rows and columns of a map whose cells hold numbers
MAX_FEATURES = 40  # of the map of correlations
SIZE_MARKS = [unit * 10**power for power in range(6) for unit in (1, 2, 5)]
SIZE_TICKS = {"tickmode": "array", "tickvals": SIZE_MARKS, "ticktext": [f"{mark:,}" for mark in SIZE_MARKS]}
STEP = 1.04  # between points that would hide one another
MARGIN = {"l": 8, "r": 12, "t": 10, "b": 8}  # of a heat map


def score_charts(evaluation: Evaluation, classes: Sequence[Any]) -> list[Chart]:
    """ROC and KS curves of the classes; none if the test rows have a single class."""
    curves = [curve for curve in evaluation.curves if len(curve.threshold)]
    if not curves:
        return []
    return [_roc(curves, classes), _ks(curves[0], classes) if len(classes) == 2 else _gaps(curves, classes)]


def _figure(traces: list[dict[str, Any]], **more: Any) -> Figure:
    """Curves with a legend of those that have a name."""
    names = [trace["name"] for trace in traces if "name" in trace]
    return {"data": traces, "layout": layout(HEIGHT, names, **more)}


def _roc(curves: Sequence[Curve], classes: Sequence[Any]) -> Chart:
    chance = {"x": [0, 1], "y": [0, 1], "mode": "lines", "hoverinfo": "skip", "showlegend": False}
    traces: list[dict[str, Any]] = [{**chance, "line": {"color": MUTED, "width": 1, "dash": "dot"}}]
    for curve in curves:
        k = list(classes).index(curve.label)
        traces.append(
            {
                "x": curve.false_positive,
                "y": curve.true_positive,
                "name": f"{literal(curve.label)} (AUC {number(curve.auc.value, 3)})",
                "mode": "lines",
                "line": line(k, len(classes)),
                "hovertemplate": "%{y:.1%} found, %{x:.1%} false alarms<extra></extra>",
            }
        )
    share = {"range": [-0.02, 1.02], "tickformat": ".0%", "zeroline": False}
    figure = _figure(traces, xaxis=axis("false alarms", **share), yaxis=axis("found", **share))
    areas = "; ".join(
        f"{curve.label}: area {', 95% interval '.join(filter(None, interval(curve.auc)))}" for curve in curves
    )
    grid = np.linspace(0, 1, STEPS)
    found = [[np.max(c.true_positive[c.false_positive <= g + 1e-12], initial=0.0) for g in grid] for c in curves]
    table = Table(
        "ROC curve: share of a class found at a given share of false alarms",
        ["False alarms", *(f"Found: {curve.label}" for curve in curves)],
        [[f"{g:.0%}", *(f"{column[i]:.1%}" for column in found)] for i, g in enumerate(grid)],
    )
    return Chart("chart-roc", figure, f"ROC curve. {areas}.", table)


def _ks(curve: Curve, classes: Sequence[Any]) -> Chart:
    """Shares of the two classes below each score; the largest gap is the KS statistic."""
    traces: list[dict[str, Any]] = [
        {
            "x": curve.threshold,
            "y": share,
            "name": literal(label),
            "mode": "lines",
            "line": {**line(k, 2), "shape": "hv"},
            "hovertemplate": "%{y:.1%} have a score up to %{x:.3g}<extra></extra>",
        }
        for k, (label, share) in enumerate(zip(classes, (curve.negative, curve.positive), strict=True))
    ]
    at = int(np.argmin(np.abs(curve.threshold - curve.ks_at)))
    ends = sorted((float(curve.negative[at]), float(curve.positive[at])))
    gap = {"type": "line", "x0": curve.ks_at, "x1": curve.ks_at, "y0": ends[0], "y1": ends[1]}
    text = {"x": curve.ks_at, "y": sum(ends) / 2, "text": f"KS {number(curve.ks.value, 3)}", "showarrow": False}
    figure = _figure(
        traces,
        xaxis=axis("score"),
        yaxis=axis("share with at most this score", range=[-0.02, 1.02], tickformat=".0%"),
        shapes=[{**gap, "line": {"color": INK, "width": 3}}],
        annotations=[{**text, "xanchor": "left", "xshift": 8, "bgcolor": GRID, "font": {"color": INK}}],
    )
    rows = sorted({*np.linspace(0, len(curve.threshold) - 1, STEPS).astype(int).tolist(), at})
    table = Table(
        "KS curve: share of each class with at most a given score",
        ["Score", *(str(label) for label in classes)],
        [[number(curve.threshold[i], 3), f"{curve.negative[i]:.1%}", f"{curve.positive[i]:.1%}"] for i in rows],
    )
    words = f"KS curve. The shares are furthest apart, by {number(curve.ks.value, 3)}, at score {number(curve.ks_at)}."
    return Chart("chart-ks", figure, words, table)


def _gaps(curves: Sequence[Curve], classes: Sequence[Any]) -> Chart:
    """For several classes the gap itself, a curve each."""
    traces = []
    for curve in curves:
        traces.append(
            {
                "x": curve.threshold,
                "y": curve.negative - curve.positive,
                "name": f"{literal(curve.label)} (KS {number(curve.ks.value, 3)})",
                "mode": "lines",
                "line": {**line(list(classes).index(curve.label), len(classes)), "shape": "hv"},
                "hovertemplate": "%{y:.1%} apart at score %{x:.3g}<extra></extra>",
            }
        )
    yaxis = axis("rest below minus class below", tickformat=".0%")
    figure = _figure(traces, xaxis=axis("score of the class"), yaxis=yaxis)
    table = Table(
        "KS: where the share of the other rows below a score is furthest above that of the class",
        ["Class", "KS", "95% interval", "At score"],
        [
            [str(c.label), number(c.ks.value, 3), interval(c.ks)[1] or "unknown",
             number(c.ks_at, 3)]
            for c in curves
        ],
    )  # fmt: skip
    gaps = "; ".join(f"{c.label}: {number(c.ks.value, 3)} at score {number(c.ks_at, 3)}" for c in curves)
    return Chart("chart-ks", figure, f"KS curves, one class against the rest. {gaps}.", table)


# ---------------------------------------------------------------------- budgets


def path_charts(
    path: Mapping[str, np.ndarray], deciding: str | None, chosen: tuple[int, int] | None
) -> list[tuple[str, Chart]]:
    """(name of a score, its map over the budgets), the score that decided first."""
    known = [name for name in path if np.ndim(path[name]) == 2 and np.isfinite(path[name]).any()]
    first = [deciding] if deciding in known else []
    names = list(dict.fromkeys([*first, *(name for name in USUAL if name in known)])) or known[:1]
    return [(SCORES.get(name, name), _budget_map(path, name, chosen)) for name in names]


def _budget_map(path: Mapping[str, np.ndarray], score: str, chosen: tuple[int, int] | None) -> Chart:
    cases, features = path["max_instances"].tolist(), path["max_features"].tolist()
    values = np.asarray(path[score], dtype=float)
    digits = ".3f" if np.nanmax(np.abs(values)) < 100 else ".4g"
    trace = _heatmap(
        values,
        digits,
        reversescale=score in LOWER_IS_BETTER,
        customdata=[[[c, f] for f in features] for c in cases],
        hovertemplate="at most %{customdata[0]} cases and %{customdata[1]} features: %{z:.4g}<extra></extra>",
    )
    frame, mark = [], ""
    if chosen is not None and chosen[0] in cases and chosen[1] in features:
        i, j = cases.index(chosen[0]), features.index(chosen[1])
        box = {"type": "rect", "x0": j - 0.5, "x1": j + 0.5, "y0": i - 0.5, "y1": i + 0.5}
        frame = [{**box, "line": {"color": VERMILLION, "width": 4}}]
        mark = f" Chosen: at most {chosen[0]} cases and {chosen[1]} features, {number(values[i, j])}."
    x, y = _ticks("most features", features), _ticks("most cases", cases)
    own = layout(110 + 30 * len(cases), margin=MARGIN, xaxis=x, yaxis=y, shapes=frame)
    figure = {"data": [trace], "layout": own}
    rows = [
        [str(c), *(number(v) + (" (chosen)" if (c, f) == chosen else "") for f, v in zip(features, row))]
        for c, row in zip(cases, values)
    ]
    title = SCORES.get(score, score)
    table = Table(
        f"{title} by most cases (rows) and most features (columns)", ["Most cases", *map(str, features)], rows
    )
    return Chart(f"chart-path-{score}", figure, f"Map of {title} over budgets.{mark}", table)


def _heatmap(values: np.ndarray, digits: str, **more: Any) -> dict[str, Any]:
    """Coloured cells; few of them hold their numbers, of a size that fits on a phone."""
    rows, columns = values.shape
    trace = {"type": "heatmap", "z": values, "x": list(range(columns)), "y": list(range(rows)), "xgap": 1, "ygap": 1}
    trace |= {"colorscale": DEEP, "colorbar": {"thickness": 10, "outlinewidth": 0}, **more}
    if max(rows, columns) > MAX_NUMBERS:
        return trace
    font = {"size": 10 if columns <= 6 else 8, "color": BLACK}
    return trace | {"texttemplate": f"%{{z:{digits}}}", "colorscale": PALE, "textfont": font, "showscale": False}


def _ticks(title: str, labels: Sequence[Any]) -> dict[str, Any]:
    n = len(labels)
    own = {"tickvals": list(range(n)), "ticktext": [str(v) for v in labels], "range": [-0.6, n - 0.4]}
    return axis(title, **own, showgrid=False, zeroline=False, ticks="")


# ---------------------------------------------------------------------- stability


def correlation_chart(stability: Stability) -> Chart | None:
    """How strongly the features that some fold chose are associated; the most often chosen ones."""
    n = min(len(stability.features), MAX_FEATURES)
    if not n:
        return None
    names, values = stability.features[:n], stability.correlation[:n, :n]
    spots = list(range(n))
    side = axis(tickvals=spots, showgrid=False, zeroline=False, ticks="", tickfont={"size": 11 if n <= 20 else 9})
    places, labels = [str(k + 1) for k in spots], [f"{literal(name, 22)}  {k + 1}" for k, name in enumerate(names)]
    text = [[f"{literal(a)} and {literal(b)}" for b in names] for a in names]
    trace = _heatmap(values, ".2f", zmin=0, zmax=1, text=text, hovertemplate="%{text}: %{z:.2f}<extra></extra>")
    x = {**side, "ticktext": places, "tickangle": 0, "range": [-0.5, n - 0.5]}
    y = {**side, "ticktext": labels, "range": [n - 0.5, -0.5]}
    own = layout(70 + (28 if n <= 20 else 18) * n, margin=MARGIN, xaxis=x, yaxis=y)
    figure = {"data": [trace], "layout": own}
    rows = [[name, *(f"{v:.2f}" for v in row)] for name, row in zip(names, values)]
    table = Table("Correlation of the features that some fold chose", ["Feature", *names], rows)
    pairs = [(float(values[i, j]), i, j) for i in spots for j in spots[:i]]
    words = f"Map of the correlations of {n} features."
    if pairs:
        top, i, j = max(pairs)
        words += f" The strongest is {top:.2f}, between {names[j]} and {names[i]}."
    return Chart("chart-correlation", figure, words, table, min(600, 220 + 18 * n))


# ---------------------------------------------------------------------- comparison of methods


def size_chart(entries: Sequence[dict[str, Any]], size: str, title: str) -> Chart | None:
    """Accuracy with its interval over what the method keeps; methods without that number are left out."""
    known = [entry for entry in entries if entry[size]]
    if not known:
        return None
    traces: list[dict[str, Any]] = []
    sizes = [entry[size] for entry in known]
    for k, entry in enumerate(known):
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
                "x": [sizes[k] * STEP ** sizes[:k].count(sizes[k])],  # equal sizes side by side
                "y": [100 * accuracy["value"]],
                "error_y": {**bars, "color": colour},
                "marker": {"color": colour, "size": 11, "symbol": SYMBOLS[k % len(SYMBOLS)]},
                "hovertemplate": f"{number(entry[size], 3)} {title}, %{{y:.1f}}%",
            }
        )
    plain = {"gridcolor": GRID, "zeroline": False, "linecolor": MUTED, "automargin": True}
    xaxis = {**plain, **SIZE_TICKS, "title": {"text": f"{title} (logarithmic)"}, "type": "log"}
    figure = _figure(traces, xaxis=xaxis, yaxis={**plain, "title": {"text": "accuracy, %"}})
    rows = [[e["method"], number(e[size], 3), percent(100 * e["accuracy"]["value"])] for e in known]
    words = "; ".join(f"{name} {kept}, {accuracy}" for name, kept, accuracy in rows)
    table = Table(f"Accuracy and {title}", ["Method", title.capitalize(), "Accuracy"], rows)
    return Chart(f"chart-{size.replace('_', '-')}", figure, f"Accuracy against {title}: {words}", table)
