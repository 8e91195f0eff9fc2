"""Charts of the scores on held-out rows: ROC curves and KS curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.results.data import Curve, Evaluation
from tamis.views.report.style import GRID, INK, MUTED, Chart, axis, layout, line
from tamis.views.report.text import Table, interval, literal, number

HEIGHT = 340
STEPS = 11  # points of a curve in its table


def score_charts(evaluation: Evaluation, classes: Sequence[Any]) -> list[Chart]:
    """ROC and KS curves of the classes that the test rows can tell; none if they hold one class only."""
    curves = [curve for curve in evaluation.curves if len(curve.threshold)]
    if not curves:
        return []
    return [_roc(curves, classes), _ks(curves[0], classes) if len(classes) == 2 else _gaps(curves, classes)]


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
    figure = {
        "data": traces,
        "layout": layout(
            HEIGHT,
            [trace["name"] for trace in traces if "name" in trace],
            xaxis=axis("false alarms", **share),
            yaxis=axis("found", **share),
        ),
    }
    areas = "; ".join(f"{curve.label}: area {', '.join(filter(None, interval(curve.auc)))}" for curve in curves)
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
    figure = {
        "data": traces,
        "layout": layout(
            HEIGHT,
            [trace["name"] for trace in traces if "name" in trace],
            xaxis=axis("score"),
            yaxis=axis("share with at most this score", range=[-0.02, 1.02], tickformat=".0%"),
            shapes=[{**gap, "line": {"color": INK, "width": 3}}],
            annotations=[{**text, "xanchor": "left", "xshift": 8, "bgcolor": GRID, "font": {"color": INK}}],
        ),
    }
    rows = _some(len(curve.threshold), at)
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
    figure = {
        "data": traces,
        "layout": layout(
            HEIGHT,
            [trace["name"] for trace in traces if "name" in trace],
            xaxis=axis("score of the class"),
            yaxis=axis("rest below minus class below", tickformat=".0%"),
        ),
    }
    table = Table(
        "KS: where the share of the other rows below a score is furthest above that of the class",
        ["Class", "KS", "95% interval", "At score"],
        [
            [str(c.label), number(c.ks.value, 3), interval(c.ks)[1].removeprefix("95% interval ") or "unknown",
             number(c.ks_at, 3)]
            for c in curves
        ],
    )  # fmt: skip
    gaps = "; ".join(f"{c.label}: {number(c.ks.value, 3)} at score {number(c.ks_at, 3)}" for c in curves)
    return Chart("chart-ks", figure, f"KS curves, one class against the rest. {gaps}.", table)


def _some(n: int, always: int) -> list[int]:
    return sorted({*np.linspace(0, n - 1, STEPS).astype(int).tolist(), always})
