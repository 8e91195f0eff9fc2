"""Charts of the kept features: how much they matter, and what each adds to the score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.results.data import Part, Results
from tamis.results.shapes import LINEAR, LOG, QUANTILE
from tamis.results.tables import Table, chosen_in_refits, direction, range_over_refits
from tamis.results.text import LOG_ODDS, effect, number, per_output, percent, points, shortened, signed_percent
from tamis.views.report.style import (
    COLOURS,
    INK,
    MUTED,
    PAPER,
    PLUS,
    SYMBOLS,
    Axis,
    Chart,
    Figure,
    Mark,
    axis,
    bars,
    dots,
    figure,
    fill,
    line,
    names_axis,
    panel,
    sign_fill,
    span,
    stroke,
)

MAX_BARS = 40  # parts in a chart
POINTS_BETWEEN = 6  # of a straight piece of a curve on a logarithmic axis
MAX_SHAPES = 40  # parts with a drawn shape
MAX_CLASS_BARS = 4  # classes with bars of their own in a chart of all parts
MAX_LEVELS = 30  # categories in a drawing
SHAPE_HEIGHT = 320
MAX_POINT_TICKS = 12  # values of a number that are named along the axis
MAX_NAME = 70  # letters of a name on the two lines that a bar has
COUNTED = 0.26  # of the height of a chart that the counts take
MISSING = "missing"


def _bar_height(n: int) -> int:
    return 76 + 28 * n


def _names(parts: Sequence[Part]) -> Axis:
    return names_axis([shortened(part.name, MAX_NAME) for part in parts], downward=True, wrap=True)


def _entries(labels: Sequence[Any], look: str, style: Any) -> list[dict[str, Any]]:
    """Entries of a legend for classes."""
    return [{"name": shortened(label, 26), "look": look, **style(k)} for k, label in enumerate(labels)]


# ---------------------------------------------------------------------- how much the parts matter


def share_chart(parts: Sequence[Part], outputs: Sequence[Any]) -> Chart:
    """Share of variation of each part, with its range over the folds."""
    shown, several = parts[:MAX_BARS], len(outputs) > 1
    mean, marks, legend = [float(part.variation.mean()) for part in shown], [], []
    ranges = [(p.by_fold.min(), p.by_fold.max()) if len(p.by_fold) else (None, None) for p in shown]
    ends = [end for low, high in ranges for end in (low, high, None)]
    marks.append(stroke(ends, [spot for k in range(len(shown)) for spot in (-k, -k, None)], colour=MUTED, width=3))
    tips = [f"{part.name}: {percent(m)}" for part, m in zip(shown, mean)]
    look = {"colour": INK, "symbol": "bar", "size": 8} if several else {"colour": PLUS, "symbol": "circle", "size": 6}
    marks.append(dots(mean, [-k for k in range(len(shown))], tips, **look))
    if several:
        legend.append({"name": "mean", "look": "dot", "colour": INK, "symbol": "bar"})
    elif any(len(part.by_fold) for part in shown):
        legend = [
            {"name": "range over refits", "look": "line", "colour": MUTED},
            {"name": "all rows", "look": "dot", "colour": PLUS, "symbol": "circle"},
        ]
    for q, output in enumerate(outputs if several else ()):
        symbol = {"colour": COLOURS[q % len(COLOURS)], "symbol": SYMBOLS[q % len(SYMBOLS)]}
        shares = [float(part.variation[q]) for part in shown]
        heights = [-k - 0.5 * (q / (len(outputs) - 1) - 0.5) for k in range(len(shown))]
        said = [f"{part.name}, {output}: {percent(v)}" for part, v in zip(shown, shares)]
        marks.append(dots(shares, heights, said, size=5, edge=PAPER, **symbol))
        legend.append({"name": shortened(output, 26), "look": "dot", **symbol})
    high = span([v for part in shown for v in (*part.variation, *part.by_fold)])[1]
    drawn = figure(_bar_height(len(shown)), [panel(axis("per cent", 0, high, grid=True), _names(shown), marks)], legend)
    words = "Share of variation. " + "; ".join(f"{p.name}: {percent(m)}" for p, m in zip(shown, mean)) + "."
    rows = [
        [part.name, *(percent(v) for v in part.variation), range_over_refits(part), chosen_in_refits(part)]
        for part in parts
    ]
    head = ["Feature", *per_output("Share", outputs), "Range over refits", "Kept in refits"]
    return Chart("chart-share", drawn, words, Table("Share of variation", head, rows))


def importance_chart(parts: Sequence[Part], outputs: Sequence[Any]) -> Chart | None:
    """Signed importance of each part, a bar per output; None where the method has none."""
    shown = [part for part in parts[:MAX_BARS] if part.importance is not None]
    if not shown:
        return None
    values = np.array([part.importance for part in shown], dtype=float)
    drawn = _bar_chart(shown, values, outputs, "per cent", signed_percent, signs=True)
    rows = [[p.name, *(signed_percent(v) for v in p.importance)] for p in parts if p.importance is not None]
    table = Table("Signed importance", ["Feature", *per_output("Importance", outputs)], rows)
    words = "Signed importance. " + "; ".join(f"{row[0]}: {', '.join(row[1:])}" for row in rows[:MAX_BARS]) + "."
    return Chart("chart-importance", drawn, words, table)


def size_chart(results: Results) -> Chart | None:
    """By how much each part of an additive model moves the score on average; None where that is not known."""
    known = [part for part in results.parts if part.size.size and not part.is_folded]
    shown, outputs = known[:MAX_BARS], results.outputs
    if not shown:
        return None
    sizes, title = np.array([part.size for part in shown]), results.score_name
    if len(outputs) > MAX_CLASS_BARS:
        sizes, outputs, title = sizes.mean(axis=1, keepdims=True), ["all"], f"{title}, mean over the classes"
    drawn = _bar_chart(shown, sizes, outputs, title, _short)
    rows = [[part.name, *(_short(v) for v in part.size)] for part in known]
    caption = f"By how much a part of the model moves the {results.score_name}, on average over the training rows"
    table = Table(caption, ["Part", *per_output("Moves it by", results.outputs)], rows)
    words = f"{caption}. " + "; ".join(f"{row[0]}: {', '.join(row[1:])}" for row in rows[:MAX_BARS]) + "."
    return Chart("chart-size", drawn, words, table)


def shuffled_chart(results: Results) -> Chart | None:
    """By how much the held-out log-loss grows when a feature is shuffled, in the order of `size_chart`."""
    shown = [part for part in results.parts if math.isfinite(part.permuted)][:MAX_BARS]
    if not shown:
        return None
    values = np.array([[part.permuted] for part in shown])
    drawn = _bar_chart(shown, values, ["all"], "added log-loss", lambda v: points(v, 3), signs=True)
    rows = [[part.name, points(part.permuted, 3)] for part in shown]
    caption = "By how much the log-loss on held-out rows grows when the values of a feature are shuffled"
    words = f"{caption}. " + "; ".join(f"{name}: {value}" for name, value in rows) + "."
    return Chart("chart-shuffled", drawn, words, Table(caption, ["Feature", "Added log-loss"], rows))


def _short(value: float) -> str:
    return f"{value:.2f}"


def _bar_chart(
    shown: Sequence[Part], values: np.ndarray, outputs: Sequence[Any], title: str, form: Any, signs: bool = False
) -> Figure:
    """Horizontal bars (parts, outputs) from zero, with names to the left."""
    marks: list[Mark] = []
    n, wide = len(outputs), 0.68 / len(outputs)
    for q, output in enumerate(outputs):
        column = values[:, q].tolist()
        top = [-k + 0.34 - q * wide for k in range(len(shown))]
        tips = [f"{part.name}{f', {output}' if n > 1 else ''}: {form(v)}" for part, v in zip(shown, column)]
        look = fill(q, n) if n > 1 else sign_fill(column) if signs else {"colour": PLUS, "pattern": ""}
        ends = [0.0] * len(shown), column, [t - wide for t in top], top
        marks.append(bars(*ends, tips, **look))
    low, high = span(values.ravel())
    legend = _entries(outputs, "fill", lambda q: fill(q, n)) if n > 1 else []
    own = panel(axis(title, low, high, grid=True, zero=True), _names(shown), marks)
    return figure(_bar_height(len(shown)), [own], legend)


# ---------------------------------------------------------------------- what each feature adds


def shape_range(results: Results) -> tuple[float, float] | None:
    """One vertical range for all curves of an additive model, so that they can be compared; else None."""
    if not results.is_additive:
        return None
    values = [v for part in results.parts if part.kind in ("number", "category") for v in part.shape.ravel().tolist()]
    values += [v for part in results.parts if part.missing for v in part.at_missing.tolist()]
    return span(values)


def shape_chart(results: Results, part: Part, k: int, ends: tuple[float, float] | None = None) -> Chart | None:
    """What one feature adds to the score over its values, and the training rows below; None for a group."""
    if part.kind not in ("number", "category") or not len(part.grid):
        return None
    score, classes = results.score_name, results.model.classes_.tolist()
    ends = span(part.shape.ravel()) if ends is None else ends
    draw = _levels if part.kind == "category" else _curve
    drawn, table = draw(part, classes, results.outputs, score, ends)
    low, high = float(part.shape.min()), float(part.shape.max())
    how = "by category" if part.kind == "category" else f"the {score} {direction(part)}"
    words = f"What {part.name} adds to the {score}: between {effect(low, score)} and {effect(high, score)}; {how}."
    if part.missing and part.at_missing.size:
        words += f" A missing value adds {' / '.join(effect(float(v), score) for v in part.at_missing)}."
    return Chart(f"chart-shape-{k}", drawn, words, table)


def _has_gap(part: Part) -> bool:
    """Whether missing values are drawn."""
    return bool(part.missing) and bool(part.at_missing.size)


def _two_panels(
    x: Axis, marks: Sequence[Mark], counts: Sequence[Mark], most: float, score: str, ends: tuple[float, float]
) -> list[dict[str, Any]]:
    """The shape above and the counts of training rows below, on one horizontal axis."""
    y = axis(f"added {score}" if score == LOG_ODDS else f"added to the {score}", *ends, form="signed", zero=True)
    y["odds"] = score == LOG_ODDS
    if not counts:
        return [panel(x, y, marks)]
    return [panel(x, y, marks, 1 - COUNTED), panel(x, axis("rows", 0, 1.05 * most), counts, COUNTED)]


def _number_axis(part: Part) -> Axis:
    """The horizontal axis of a number."""
    edges = part.edges if part.counts.size else part.grid
    low, high = float(min(edges[0], part.grid[0])), float(max(edges[-1], part.grid[-1]))
    own = axis(shortened(part.name, MAX_NAME), low, high)
    if 0 < part.points.size <= MAX_POINT_TICKS:
        own |= {"ticks": [[float(v), number(float(v))] for v in part.points], "loose": True}
    if part.scale == LOG:
        own["scale"] = LOG
    elif part.scale == QUANTILE and len(edges) > 1:
        own |= {"scale": "knots", "knots": edges}
    if part.scale != LINEAR:
        own["title"] += " (axis stretched where rows are many)" if part.scale == QUANTILE else " (logarithmic axis)"
    return own | ({"gutter": MISSING} if _has_gap(part) else {})


def _curve(
    part: Part, classes: Sequence[Any], outputs: Sequence[Any], score: str, ends: tuple[float, float]
) -> tuple[Figure, Table]:
    several, x = len(outputs) > 1, _number_axis(part)
    marks: list[Mark] = []
    for q, output in enumerate(outputs):
        look = line(q, len(outputs)) if several else {"colour": INK}
        grid, values = part.grid.astype(float), part.shape[:, q]
        if part.points.size:
            grid, values = np.repeat(part.edges, 2)[1:-1], np.repeat(np.interp(part.points, grid, values), 2)
        elif part.scale == LOG:
            grid, values = _between_points(grid, values)
        grid, values = np.r_[x["low"], grid, x["high"]], np.r_[values[0], values, values[-1]]
        name = f"{output}: " if several else ""
        tip = [f"{name}at ", ["x", "plain"], ": ", ["y", "effect" if score == LOG_ODDS else "signed"]]
        marks.append(stroke(grid, values, tip=tip, width=2.6, **look))
        if _has_gap(part):
            at = 0.5 + 0.5 * (q - (len(outputs) - 1) / 2) / len(outputs)
            symbol = {"symbol": "diamond", "size": 6, "colour": look["colour"]}
            words = [f"{name}missing: {effect(float(part.at_missing[q]), score)}"]
            marks.append(dots([f"{at:.3f}"], [float(part.at_missing[q])], words, **symbol))
    counts: list[Mark] = []
    most = 1.0
    if part.counts.size:
        counts, most = _count_bars(part, classes, part.edges[:-1], part.edges[1:], ("0.2", "0.8"))
    legend = _entries(outputs, "line", lambda q: line(q, len(outputs))) if several else []
    legend += _entries(classes, "fill", lambda c: fill(c, len(classes))) if counts and not several else []
    drawn = figure(SHAPE_HEIGHT, _two_panels(x, marks, counts, most, score, ends), legend)
    edges = part.edges if part.counts.size else part.grid[:: max(1, (len(part.grid) - 1) // 12)]
    rows = []
    for i in range(len(edges) - 1):
        at = part.points[i] if part.points.size else np.clip((edges[i] + edges[i + 1]) / 2, part.grid[0], part.grid[-1])
        name = number(at) if part.points.size else f"{number(edges[i])}\u00a0to\u00a0{number(edges[i + 1])}"
        adds = [effect(float(np.interp(at, part.grid, column)), score) for column in part.shape.T]
        counted = _row_counts(part, i)
        if not counted or any(cell != "0" for cell in counted):
            rows.append([name, *adds, *counted])
    rows += _missing_row(part, classes, score)
    where = score if part.points.size else f"{score}, at the middle of each range"
    return drawn, _shape_table(part, outputs, classes, rows, "Values", where)


def _between_points(grid: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """More points of a curve, so that what is straight in the values bends as it must on a logarithmic axis."""
    if len(grid) < 2:
        return grid, values
    shares = np.arange(POINTS_BETWEEN) / POINTS_BETWEEN
    x = grid[:-1, None] + shares * np.diff(grid)[:, None]
    y = values[:-1, None] + shares * np.diff(values)[:, None]
    return np.r_[x.ravel(), grid[-1]], np.r_[y.ravel(), values[-1]]


def _levels(
    part: Part, classes: Sequence[Any], outputs: Sequence[Any], score: str, ends: tuple[float, float]
) -> tuple[Figure, Table]:
    several, n = len(outputs) > 1, min(len(part.grid), MAX_LEVELS)
    names, shape = [shortened(level, 16) for level in part.grid[:n]], part.shape[:n]
    if _has_gap(part):
        names, shape = [*names, MISSING], np.vstack([shape, part.at_missing])
    wide, spots = 0.8 / len(outputs), np.arange(len(names))
    marks: list[Mark] = []
    for q, output in enumerate(outputs):
        values, start = shape[:, q].tolist(), spots - 0.4 + q * wide
        look = fill(q, len(outputs)) if several else sign_fill(values)
        said = f"{output}, " if several else ""
        tips = [f"{said}{name}: {effect(v, score)}" for name, v in zip(names, values)]
        marks.append(bars(start, start + wide, [0.0] * len(values), values, tips, **look))
    counts: list[Mark] = []
    most = 1.0
    if part.counts.size:
        counts, most = _count_bars(part, classes, spots[:n] - 0.4, spots[:n] + 0.4, (n - 0.4, n + 0.4), n)
    title = shortened(part.name, 40)
    title += f" (the first {n} of {len(part.grid)} categories)" if n < len(part.grid) else ""
    x = names_axis(names, title=title)
    legend = _entries(outputs, "fill", lambda q: fill(q, len(outputs))) if several else []
    legend += _entries(classes, "fill", lambda c: fill(c, len(classes))) if counts and not several else []
    drawn = figure(SHAPE_HEIGHT, _two_panels(x, marks, counts, most, score, ends), legend)
    rows = [
        [shortened(level, 80), *(effect(v, score) for v in part.shape[i]), *_row_counts(part, i)]
        for i, level in enumerate(part.grid)
    ]
    rows += _missing_row(part, classes, score)
    return drawn, _shape_table(part, outputs, classes, rows, "Category", score)


def _count_bars(
    part: Part, classes: Sequence[Any], start: Any, end: Any, gap: tuple[Any, Any], n: int | None = None
) -> tuple[list[Mark], float]:
    """Stacked bars of the training rows of each class, those without a value at `gap`; the height of the tallest."""
    counts = part.counts[:, :n].astype(float)
    tops = np.cumsum(counts, axis=0)
    marks = []
    for c, label in enumerate(classes):
        tip = [f"{label}: ", ["y", "plain"], " rows"]
        marks.append(bars(start, end, tops[c] - counts[c], tops[c], tip=tip, **fill(c, len(classes))))
    most = max(1.0, float(tops[-1].max(initial=0.0)))
    if _has_gap(part):
        most = max(most, float(part.missing))
        words = [f"missing: {part.missing} rows"]
        marks.append(bars([gap[0]], [gap[1]], [0.0], [float(part.missing)], words, colour=MUTED, pattern=""))
    return marks, most


def _row_counts(part: Part, i: int) -> list[str]:
    return [str(int(count)) for count in part.counts[:, i]] if part.counts.size else []


def _missing_row(part: Part, classes: Sequence[Any], score: str) -> list[list[str]]:
    """The line of missing values in the table of a shape."""
    if not _has_gap(part):
        return []
    counted = [f"{part.missing} in all", *[""] * (len(classes) - 1)] if part.counts.size else []
    return [[MISSING, *(effect(float(v), score) for v in part.at_missing), *counted]]


def _shape_table(
    part: Part, outputs: Sequence[Any], classes: Sequence[Any], rows: list[list[str]], first: str, where: str
) -> Table:
    counted = [f"Training rows: {label}" for label in classes] if part.counts.size else []
    head = [first, *per_output("Adds", outputs), *counted]
    return Table(f"What {part.name} adds to the {where}", head, rows)
