"""Charts of the search: scores over budgets, and how far the folds agree on the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.explain.stability import Stability
from tamis.views.report.style import BLACK, DEEP, PALE, VERMILLION, Chart, axis, layout
from tamis.views.report.text import Table, interval, literal, number

SCORES = {
    "log_loss": "log-loss (lower is better)",
    "accuracy": "accuracy",
    "roc_auc": "area under the ROC curve",
    "squared_error": "squared error (lower is better)",
    "objective": "objective on training rows (lower is better)",
}
LOWER = ("log_loss", "squared_error", "objective")
USUAL = ("log_loss", "accuracy", "roc_auc")  # shown besides the score that decided
MOST_NUMBERS = 12  # rows and columns of a map whose cells hold numbers
MOST_FEATURES = 40  # of the map of correlations


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
    trace: dict[str, Any] = {
        "type": "heatmap",
        "z": values,
        "x": list(range(len(features))),
        "y": list(range(len(cases))),
        "colorscale": DEEP,
        "reversescale": score in LOWER,
        "xgap": 1,
        "ygap": 1,
        "customdata": [[[c, f] for f in features] for c in cases],
        "hovertemplate": "at most %{customdata[0]} cases and %{customdata[1]} features: %{z:.4g}<extra></extra>",
        "colorbar": {"thickness": 10, "outlinewidth": 0},
    }
    if max(values.shape) <= MOST_NUMBERS:
        trace |= {"texttemplate": f"%{{z:{digits}}}", **_numbered(len(features)), "showscale": False}
    frame, mark = [], ""
    if chosen is not None and chosen[0] in cases and chosen[1] in features:
        i, j = cases.index(chosen[0]), features.index(chosen[1])
        box = {"type": "rect", "x0": j - 0.5, "x1": j + 0.5, "y0": i - 0.5, "y1": i + 0.5}
        frame = [{**box, "line": {"color": VERMILLION, "width": 4}}]
        mark = f" Chosen: at most {chosen[0]} cases and {chosen[1]} features, {number(values[i, j])}."
    figure = {
        "data": [trace],
        "layout": layout(
            110 + 30 * len(cases),
            margin={"l": 8, "r": 12, "t": 10, "b": 8},
            xaxis=_ticks("most features", features),
            yaxis=_ticks("most cases", cases),
            shapes=frame,
        ),
    }
    rows = [
        [str(c), *(number(v) + (" (chosen)" if (c, f) == chosen else "") for f, v in zip(features, row))]
        for c, row in zip(cases, values)
    ]
    title = SCORES.get(score, score)
    table = Table(
        f"{title} by most cases (rows) and most features (columns)", ["Most cases", *map(str, features)], rows
    )
    return Chart(f"chart-path-{score}", figure, f"Map of {title} over budgets.{mark}", table)


def _numbered(columns: int) -> dict[str, Any]:
    """Colours and size of numbers in cells, so that they fit on a phone."""
    return {"colorscale": PALE, "textfont": {"size": 10 if columns <= 6 else 8, "color": BLACK}}


def _ticks(title: str, labels: Sequence[Any]) -> dict[str, Any]:
    n = len(labels)
    own = {"tickvals": list(range(n)), "ticktext": [str(v) for v in labels], "range": [-0.6, n - 0.4]}
    return axis(title, **own, showgrid=False, zeroline=False, ticks="")


# ---------------------------------------------------------------------- stability


def correlation_chart(stability: Stability) -> Chart | None:
    """How strongly the features that some fold chose are associated; the most often chosen ones."""
    n = min(len(stability.features), MOST_FEATURES)
    if not n:
        return None
    names, values = stability.features[:n], stability.correlation[:n, :n]
    spots = list(range(n))
    side = axis(tickvals=spots, showgrid=False, zeroline=False, ticks="", tickfont={"size": 11 if n <= 20 else 9})
    places, labels = [str(k + 1) for k in spots], [f"{literal(name, 22)}  {k + 1}" for k, name in enumerate(names)]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "z": values,
        "x": spots,
        "y": spots,
        "zmin": 0,
        "zmax": 1,
        "colorscale": DEEP,
        "xgap": 1,
        "ygap": 1,
        "colorbar": {"thickness": 10, "outlinewidth": 0},
        "text": [[f"{literal(a)} and {literal(b)}" for b in names] for a in names],
        "hovertemplate": "%{text}: %{z:.2f}<extra></extra>",
    }
    if n <= MOST_NUMBERS:
        trace |= {"texttemplate": "%{z:.2f}", **_numbered(n), "showscale": False}
    figure = {
        "data": [trace],
        "layout": layout(
            70 + (28 if n <= 20 else 18) * n,
            margin={"l": 8, "r": 12, "t": 10, "b": 8},
            xaxis={**side, "ticktext": places, "tickangle": 0, "range": [-0.5, n - 0.5]},
            yaxis={**side, "ticktext": labels, "range": [n - 0.5, -0.5]},
        ),
    }
    rows = [[name, *(f"{v:.2f}" for v in row)] for name, row in zip(names, values)]
    table = Table("Correlation of the features that some fold chose", ["Feature", *names], rows)
    pairs = [(float(values[i, j]), i, j) for i in spots for j in spots[:i]]
    words = f"Map of the correlations of {n} features."
    if pairs:
        top, i, j = max(pairs)
        words += f" The strongest is {top:.2f}, between {names[j]} and {names[i]}."
    return Chart("chart-correlation", figure, words, table, min(600, 220 + 18 * n))


def chosen_table(stability: Stability) -> Table:
    """Which fold chose what."""
    folds = [f"Fold {k + 1}" for k in range(len(stability.chosen))]
    rows = [
        [name, *("yes" if c else "\u2013" for c in column), f"{int(column.sum())} of {len(folds)}"]
        for name, column in zip(stability.features, stability.chosen.T)
    ]
    caption = "Features chosen when one fold of the training rows is left out"
    return Table(caption, ["Feature", *folds, "In all"], rows)


def agreement_table(stability: Stability) -> Table:
    """How far two folds agree, on average over the pairs."""
    meaning = {
        "jaccard": ("Jaccard index", "common features over all features of two folds; 1 is the same choice"),
        "kuncheva": ("Kuncheva index", "agreement beyond chance; 0 is chance, 1 is the same choice"),
        "correlated": ("Correlation", "how well the features of one fold are matched by those of another"),
    }
    rows = []
    for name, (title, words) in meaning.items():
        value, limits = interval(getattr(stability, name))
        rows.append([title, value, limits.removeprefix("95% interval ") or "unknown", words])
    head = ["Measure", "Mean over pairs", "95% interval", "Meaning"]
    return Table("Agreement of the folds", head, rows, frozenset({3}))
