"""Charts of scores: ROC and KS curves, scores over budgets, agreement of the folds, and methods compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.explain.measures import Stability
from tamis.results.data import Evaluation, ScoreCurve
from tamis.results.tables import Table
from tamis.results.text import LOWER_IS_BETTER, SCORES, interval, number, percent, shortened
from tamis.views.report.style import (
    BLUE,
    DEEP,
    INK,
    MUTED,
    PALE,
    SYMBOLS,
    VERMILLION,
    Chart,
    Mark,
    axis,
    bars,
    cells,
    dots,
    figure,
    line,
    names_axis,
    panel,
    span,
    stroke,
)

HEIGHT = 340
STEPS = 11  # points of a curve in its table
USUAL = ("log_loss", "accuracy", "roc_auc")  # shown in addition to the score of the choice
MAX_NUMBERS = 12  # rows and columns of a map whose cells hold numbers
MAX_FEATURES = 40  # of the map of correlations
STEP = 1.04  # between points that would hide one another


def score_charts(evaluation: Evaluation, classes: Sequence[Any], score: str = "score") -> list[Chart]:
    """ROC curves of the classes, the KS curve of two classes; none if the test rows have a single class."""
    curves = [found for found in evaluation.curves if len(found.threshold)]
    if not curves:
        return []
    return [_roc(curves, classes), *([_ks(curves[0], classes, score)] if len(classes) == 2 else [])]


def calibration_chart(evaluation: Evaluation, classes: Sequence[Any]) -> Chart | None:
    """How often a class occurs over how probable the model says it is; None without probabilities."""
    if not evaluation.calibration:
        return None
    several = len(evaluation.calibration) > 1
    marks: list[Mark] = [stroke([0, 1], [0, 1], colour=MUTED, width=1, dash="dot")]
    legend, rows, gaps = [], [], []
    for k, found in enumerate(evaluation.calibration):
        look = line(list(classes).index(found.label), len(classes))
        symbol = {"colour": look["colour"], "symbol": SYMBOLS[k % len(SYMBOLS)]}
        limits = [f" ({a:.0%} to {b:.0%})" for a, b in zip(found.low, found.high)] or [""] * len(found.counts)
        tips = [
            f"{found.label}: {p:.1%} predicted, {o:.0%}{words} of {n} rows observed"
            for p, o, n, words in zip(found.predicted, found.observed, found.counts, limits)
        ]
        ends = {} if several or not len(found.low) else {"low": found.low, "high": found.high}
        marks.append(stroke(found.predicted, found.observed, width=1.4, **look))
        marks.append(dots(found.predicted, found.observed, tips, size=4.5, **symbol, **ends))
        legend.append({"name": shortened(found.label, 26), "look": "line", **look})
        gaps.append(float(np.max(np.abs(found.predicted - found.observed))))
        rows += [
            [*([str(found.label)] if several else []), f"{p:.1%}", f"{o:.1%}{words}", str(int(n))]
            for p, o, n, words in zip(found.predicted, found.observed, found.counts, limits)
        ]
    own: dict[str, Any] = {"low": -0.02, "high": 1.02, "form": "percent"}
    which = "of the class" if several else f"that are {shortened(evaluation.calibration[0].label, 20)}"
    x = axis("predicted probability", **own, grid=True)
    drawn = figure(HEIGHT, [panel(x, axis(f"share of the rows {which}", **own), marks)], legend)
    head = [*(["Class"] if several else []), "Mean predicted probability", f"Share of the rows {which}", "Rows"]
    caption = "Calibration: predicted probabilities and observed shares in groups of test rows"
    words = f"Calibration curve. A group of rows is at most {max(gaps):.0%} away from its predicted probability."
    return Chart("chart-calibration", drawn, words, Table(caption, head, rows))


def _roc(curves: Sequence[ScoreCurve], classes: Sequence[Any]) -> Chart:
    marks: list[Mark] = [stroke([0, 1], [0, 1], colour=MUTED, width=1, dash="dot")]
    legend = []
    for curve in curves:
        look = line(list(classes).index(curve.label), len(classes))
        tip = [f"{curve.label}: ", ["y", "percent"], " found, ", ["x", "percent"], " false alarms"]
        marks.append(stroke(curve.false_positive, curve.true_positive, tip=tip, **look))
        name = f"{shortened(curve.label, 26)} (AUC {number(curve.auc.value, 3)})"
        legend.append({"name": name, "look": "line", **look})
    share: dict[str, Any] = {"low": -0.02, "high": 1.02, "form": "percent"}
    which = shortened(curves[0].label, 20) if len(curves) == 1 else "the class"
    x = axis(f"other rows called {which} (false alarms)", **share, grid=True)
    own = panel(x, axis(f"{which}: found (sensitivity)", **share), marks)
    drawn = figure(HEIGHT, [own], legend)
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
    return Chart("chart-roc", drawn, f"ROC curve. {areas}.", table)


def _ks(found: ScoreCurve, classes: Sequence[Any], score: str) -> Chart:
    """Shares of the two classes below each score; the largest gap is the KS statistic."""
    marks: list[Mark] = []
    legend = []
    for k, (label, share) in enumerate(zip(classes, (found.negative, found.positive), strict=True)):
        tip = [f"{label}: ", ["y", "percent"], f" have a {score} up to ", ["x", "short"]]
        marks.append(stroke(found.threshold, share, tip=tip, shape="hv", **line(k, 2)))
        legend.append({"name": shortened(label, 26), "look": "line", **line(k, 2)})
    at = int(np.argmin(np.abs(found.threshold - found.ks_at)))
    ends = sorted((float(found.negative[at]), float(found.positive[at])))
    marks.append(stroke([found.ks_at] * 2, ends, colour=INK, width=3))
    legend.append({"name": f"largest distance: KS {number(found.ks.value, 3)}", "look": "line", "colour": INK})
    y = axis("share of the class", -0.02, 1.02, form="percent")
    drawn = figure(HEIGHT, [panel(axis(score, *span(found.threshold, zero=False), grid=True), y, marks)], legend)
    rows = sorted({*np.linspace(0, len(found.threshold) - 1, STEPS).astype(int).tolist(), at})
    table = Table(
        f"KS curve: share of each class with at most a given {score}",
        [score.capitalize(), *(str(label) for label in classes)],
        [[number(found.threshold[i], 3), f"{found.negative[i]:.1%}", f"{found.positive[i]:.1%}"] for i in rows],
    )
    words = (
        f"KS curve. The shares are furthest apart, by {number(found.ks.value, 3)}, at {score} {number(found.ks_at)}."
    )
    return Chart("chart-ks", drawn, words, table)


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
    tips = [
        f"at most {c} cases and {f} features: {number(v)}"
        for c, row in zip(cases, values)
        for f, v in zip(features, row)
    ]
    marks = [_heatmap(values, digits, tips, falling=score in LOWER_IS_BETTER)]
    mark = ""
    if chosen is not None and chosen[0] in cases and chosen[1] in features:
        i, j = cases.index(chosen[0]), features.index(chosen[1])
        marks.append(bars([j - 0.5], [j + 0.5], [i - 0.5], [i + 0.5], colour=VERMILLION, hollow=True))
        mark = f" Chosen: at most {chosen[0]} cases and {chosen[1]} features, {number(values[i, j])}."
    x = {**names_axis([str(v) for v in features], title="most features"), "loose": True}
    y = {**names_axis([str(v) for v in cases], title="most cases"), "grid": False}
    drawn = figure(110 + 30 * len(cases), [panel(x, y, marks)])
    rows = [
        [str(c), *(number(v) + (" (chosen)" if (c, f) == chosen else "") for f, v in zip(features, row))]
        for c, row in zip(cases, values)
    ]
    title = SCORES.get(score, score)
    table = Table(
        f"{title} by most cases (rows) and most features (columns)", ["Most cases", *map(str, features)], rows
    )
    return Chart(f"chart-path-{score}", drawn, f"Map of {title} over budgets.{mark}", table)


def _heatmap(
    values: np.ndarray,
    digits: str,
    tips: Sequence[str],
    *,
    falling: bool = False,
    downward: bool = False,
    ends: tuple[float, float] | None = None,
) -> Mark:
    """Coloured cells; few of them hold their numbers. The first row is at the bottom, or at the top with `downward`."""
    rows, columns = values.shape
    numbered = max(rows, columns) <= MAX_NUMBERS
    stops: tuple[tuple[float, str], ...] = PALE if numbered else DEEP
    if falling:
        stops = tuple((1.0 - at, colour) for at, colour in reversed(stops))
    low, high = (float(np.nanmin(values)), float(np.nanmax(values))) if ends is None else ends
    texts = [format(v, digits) for v in values.ravel()] if numbered else None
    edges = np.arange(rows + 1) - 0.5
    look = {"stops": stops, "low": low, "high": high, "texts": texts, "gap": 1}
    return cells(np.arange(columns + 1) - 0.5, -edges if downward else edges, values, tips, **look)


def feature_path_chart(path: Mapping[str, np.ndarray], kept: int) -> Chart | None:
    """Held-out loss over the number of features, with the standard error of its difference from the smallest one.

    None where nothing was tried.
    """
    sizes, loss, error = (np.asarray(path[name], dtype=float) for name in ("n_features", "loss", "error"))
    known = np.isfinite(loss)
    if not known.any():
        return None
    sizes, loss, error = sizes[known], loss[known], np.where(np.isfinite(error[known]), error[known], 0.0)
    tips = [f"{int(n)} features: {number(v)}" for n, v in zip(sizes, loss)]
    marks = [stroke(sizes, loss, colour=BLUE, width=1.6)]
    marks.append(dots(sizes, loss, tips, colour=BLUE, size=4.5, symbol="circle", low=loss - error, high=loss + error))
    at = np.flatnonzero(sizes == kept)
    legend = [{"name": "held-out log-loss and standard error", "look": "dot", "colour": BLUE, "symbol": "circle"}]
    if len(at):
        ring = {"symbol": "diamond", "size": 7, "colour": VERMILLION}
        marks.append(dots(sizes[at], loss[at], [f"chosen: {tips[at[0]]}"], **ring))
        legend.append({"name": "chosen", "look": "dot", "colour": VERMILLION, "symbol": "diamond"})
    low, high = span([*(loss - error), *(loss + error)], zero=False)
    y = axis("log-loss", low, high)
    x = axis("number of features", sizes.min() - 0.5, sizes.max() + 0.5)
    rows = [
        [str(int(n)) + (" (chosen)" if n == kept else ""), number(v), number(e)] for n, v, e in zip(sizes, loss, error)
    ]
    table = Table(
        "Held-out log-loss by the number of features",
        ["Features", "Log-loss", "Standard error of the difference from the lowest"],
        rows,
    )
    words = f"Held-out log-loss over the number of features, from {tips[0]} to {tips[-1]}."
    return Chart("chart-feature-path", figure(HEIGHT, [panel(x, y, marks)], legend), words, table)


# ---------------------------------------------------------------------- stability


def correlation_chart(stability: Stability) -> Chart | None:
    """How strongly the features that some refit keeps are associated; the most often chosen ones."""
    n = min(len(stability.features), MAX_FEATURES)
    if not n:
        return None
    names, values = stability.features[:n], stability.correlation[:n, :n]
    spots = list(range(n))
    labels = [f"{k + 1} {shortened(name, 40)}" for k, name in enumerate(names)]
    tips = [
        f"{shortened(a, 26)} and {shortened(b, 26)}: {v:.2f}"
        for a, row in zip(names, values)
        for b, v in zip(names, row)
    ]
    x = {**names_axis([str(k + 1) for k in spots]), "loose": True}
    mark = _heatmap(values, ".2f", tips, downward=True, ends=(0.0, 1.0))
    legend = [{"name": "absolute correlation", "look": "scale", "stops": mark["stops"], "from": "0", "to": "1"}]
    y = names_axis(labels, downward=True, wrap=n <= 20)
    drawn = figure(70 + (28 if n <= 20 else 18) * n, [panel(x, y, [mark])], legend)
    rows = [[name, *(f"{v:.2f}" for v in row)] for name, row in zip(names, values)]
    table = Table("Correlation of the features that some refit keeps", ["Feature", *names], rows)
    pairs = [(float(values[i, j]), i, j) for i in spots for j in spots[:i]]
    words = f"Map of the correlations of {n} features."
    if pairs:
        top, i, j = max(pairs)
        words += f" The strongest is {top:.2f}, between {names[j]} and {names[i]}."
    return Chart("chart-correlation", drawn, words, table, min(600, 220 + 18 * n))


# ---------------------------------------------------------------------- comparison of methods


def size_chart(entries: Sequence[dict[str, Any]], size: str, title: str) -> Chart | None:
    """Accuracy with its interval over what the method keeps; methods without that number are left out."""
    known = [entry for entry in entries if entry[size]]
    if not known:
        return None
    sizes = [entry[size] for entry in known]
    marks: list[Mark] = []
    legend = []
    for k, entry in enumerate(known):
        accuracy = {name: 100 * value for name, value in entry["accuracy"].items()}
        look = {"colour": BLUE if entry["own"] else VERMILLION, "symbol": SYMBOLS[k % len(SYMBOLS)]}
        name = shortened(entry["method"], 40)
        tip = f"{name}: {number(entry[size], 3)} {title}, {accuracy['value']:.1f}%"
        x = sizes[k] * STEP ** sizes[:k].count(sizes[k])  # equal sizes side by side
        ends = {"low": [accuracy["low"]], "high": [accuracy["high"]]}
        marks.append(dots([x], [accuracy["value"]], [tip], size=5.5, **ends, **look))
        legend.append({"name": name, "look": "dot", **look})
    heights = [100 * entry["accuracy"][name] for entry in known for name in ("low", "high")]
    low, high = 0.8 * min(sizes), 1.3 * max(sizes)
    x_axis = axis(f"{title} (logarithmic)", low, high, scale="log", grid=True)
    y = axis("accuracy, %", *span(heights, zero=False))
    drawn = figure(HEIGHT, [panel(x_axis, y, marks)], legend)
    rows = [[e["method"], number(e[size], 3), percent(100 * e["accuracy"]["value"])] for e in known]
    words = "; ".join(f"{name} {kept}, {accuracy}" for name, kept, accuracy in rows)
    table = Table(f"Accuracy and {title}", ["Method", title.capitalize(), "Accuracy"], rows)
    return Chart(f"chart-{size.replace('_', '-')}", drawn, f"Accuracy against {title}: {words}", table)
