"""The page of the open benchmark, from its rows: means, ranks, paired tests, and accuracy against number of features.

Methods are compared on the splits that both have; a table counts once, with its mean over splits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy import stats

from experiments.cells import FAILED, Row
from experiments.paper import Paper
from experiments.statistics import holm, mean_ranks, signed_ranks
from experiments.tables import table
from tamis.codec import replacing

LEVEL = 0.05
FORMS = {
    "accuracy": ".2f",
    "log_loss": ".4f",
    "auc": ".2f",
    "ece": ".3f",
    "n_features": ".1f",
    "n_terms": ".1f",
    "seconds": ".2f",
    "predict_seconds": ".4f",
    "bytes": ".0f",
}
GROUPS: dict[str, Callable[[dict[str, int]], bool]] = {
    "all tables": lambda size: True,
    "more than 20 columns": lambda size: size["columns"] > 20,
    "more than 1500 training rows": lambda size: size["rows"] > 1500,
    "fewer than 300 training rows": lambda size: size["rows"] < 300,
    "two classes": lambda size: size["classes"] == 2,
    "more classes": lambda size: size["classes"] > 2,
}
LOST_POINTS, LOST_LOSS = 2.0, 0.03  # by which a table is named as lost
PROTOCOL = {
    "splits": """\
Stratified 70/30 splits with the seeds {seeds}: scikit-learn's `train_test_split` after classes of fewer than 4 rows are
dropped; training rows beyond 4000 are cut by a second stratified split, and the first 5000 test rows count.""",
    "caiml": """\
The four published folds of CA-IML (arXiv 2601.00428), all rows. Its values are medians over these folds; its EBM had
at most 200 rounds and 3 interactions, and its methods were tuned in 50 trials.""",
}
ALWAYS = """\
Everything is chosen on training rows. The kinds of the columns are given to all methods; where a method needs numbers,
categories are one-hot and missing cells are imputed. The present form of `TamisClassifier` was developed on other
splits of the tables of the part "develop"."""
ABOUT = {  # beginnings of names of methods
    "tamis@": "`tamis@k` is `TamisClassifier(max_features=k)`; all else has its default.",
    "EM2NOLC": "EM2NOLC is `EM2NOLCClassifierCV()`.",
    "EBM": "The EBM has its defaults.",
    "EBM@": "`EBM@k` is fitted again on the k columns that matter most to the EBM, whose time is counted.",
    "boosting": "Boosting is scikit-learn's, with its defaults.",
    "boosting,": "Tuned boosting chooses among four settings on five folds.",
    "forest": "The forest has 500 trees.",
    "SVC": "The SVC is tuned on five folds, and has probabilities from its held-out decisions.",
    "l1@": "`l1@k` is a logistic regression with a lasso penalty that is tuned on five folds.",
    "subset@": "`subset@k` is a logistic regression on the best subset (abess), whose size is tuned on five folds.",
    "tree": "The tree has depth 4.",
}


@dataclass(frozen=True)
class Results:
    """Rows of a comparison on one kind of splits."""

    paper: Paper
    rows: Sequence[Row]

    @cached_property
    def good(self) -> dict[tuple[str, str, int], Row]:
        """Rows with numbers, by method, table and split."""
        return {(r.cell.method, r.cell.dataset, r.cell.split): r for r in self.rows if r.status != FAILED}

    @cached_property
    def methods(self) -> list[str]:
        found = {method for method, _, _ in self.good}
        return [name for name in self.paper.methods if name in found]

    @cached_property
    def tables(self) -> list[str]:
        found = {name for _, name, _ in self.good}
        return [name for name in self.paper.datasets if name in found]

    @cached_property
    def sizes(self) -> dict[str, dict[str, int]]:
        """Rows, columns and classes of each table."""
        return {name: dict(row.extra) for (_, name, _), row in self.good.items()}

    def keys(self, *methods: str) -> list[tuple[str, int]]:
        """Tables and splits on which all these methods have numbers."""
        each = [{(t, s) for m, t, s in self.good if m == method} for method in methods]
        return sorted(set.intersection(*each)) if each else []

    def means(self, method: str, measure: str, keys: Iterable[tuple[str, int]]) -> dict[str, float]:
        """Return the mean over splits of a measure for each table."""
        found: dict[str, list[float]] = {}
        for name, split in keys:
            value = self.good[method, name, split].measures.get(measure, np.nan)
            found.setdefault(name, []).append(np.nan if value is None else value)
        return {name: float(np.mean(values)) for name, values in found.items()}

    def gaps(self, one: str, other: str, measure: str) -> dict[str, float]:
        """Return for each table how much larger a measure of one method is than that of another."""
        keys = self.keys(one, other)
        first, second = self.means(one, measure, keys), self.means(other, measure, keys)
        return {name: first[name] - second[name] for name in first}

    def jaccard(self, method: str) -> float:
        """Return the mean over tables of the overlap of the kept features in two splits."""
        kept: dict[str, list[set[int]]] = {}
        for (m, name, _), row in self.good.items():
            if m == method:
                kept.setdefault(name, []).append(set(row.extra["features"]))
        each = [
            np.mean([len(a & b) / len(a | b) if a | b else 1.0 for a, b in combinations(sets, 2)])
            for name, sets in kept.items()
            if len(sets) > 1 and self.sizes[name]["columns"] > len(sets[0])
        ]
        return float(np.mean(each)) if each else np.nan


def write_page(results: Results, out: Path, command: str) -> list[Path]:
    """Write the page and its figure, and return their paths."""
    folds = results.rows[0].cell.setting
    stem = results.paper.name if folds == "splits" else f"{results.paper.name}-{folds}"
    written = out / f"{stem}.md", out / "figures" / f"{stem}.svg"
    written[1].parent.mkdir(parents=True, exist_ok=True)
    picture = draw(results, written[1])
    lines = [*_head(results, folds, command), *(_picture(stem) if picture else []), *_overview(results)]
    lines += [*_against(results), *_groups(results), *_ranks(results), *_stability(results), *_losses(results)]
    lines += _each(results)
    with replacing(written[0]) as temporary:
        temporary.write_text("\n".join(lines))
    return [path for path, there in zip(written, (True, picture), strict=True) if there]


def text(value: float, form: str) -> str:
    """Return a number, or "-" for none."""
    return format(value, form) if np.isfinite(value) else "-"


def _head(results: Results, folds: str, command: str) -> list[str]:
    seeds = ", ".join(map(str, sorted({row.seed for row in results.good.values()})))
    expected = len(results.methods) * len(results.tables) * results.paper.splits["honest", "full"]
    versions = sorted({row.versions for row in results.rows})
    days = sorted(row.finished[:10] for row in results.rows)
    return [
        f"# The open benchmark: {len(results.tables)} tables",
        "",
        " ".join(PROTOCOL[folds].format(seeds=seeds).split()),
        "",
        " ".join(
            [
                *ALWAYS.split(),
                *(words for name, words in ABOUT.items() if any(m.startswith(name) for m in results.methods)),
            ]
        ),
        "",
        f"{len(results.good)} of {expected} cells (method, table, split) have a row, and "
        f"{sum(row.status == FAILED for row in results.rows)} failed. Rows of {days[0]} to {days[-1]}. Versions: "
        + "; ".join(", ".join(f"{name} {value}" for name, value in json.loads(v).items()) for v in versions)
        + ".",
        "",
        f"    {command}",
        "",
    ]


def _picture(stem: str) -> list[str]:
    return [f"![Accuracy against the number of features](figures/{stem}.svg)", ""]


def _overview(results: Results) -> list[str]:
    body = []
    for method in results.methods:
        keys = results.keys(method)
        cells = []
        for measure, form in FORMS.items():
            known = [v for v in results.means(method, measure, keys).values() if np.isfinite(v)]
            cells.append(text(float(np.mean(known)) if known else np.nan, form))
        body.append([method, str(len({name for name, _ in keys})), str(len(keys)), *cells])
    heads = ["method", "tables", "splits", *(results.paper.measures[m] for m in FORMS)]
    return [
        "## Means",
        "",
        "Of the tables and splits that a method has; methods with other numbers of splits are not on the same rows.",
        "",
        table(heads, body),
        "",
    ]


def _against(results: Results) -> list[str]:
    """Paired differences of every budget of the flagship to every other method."""
    lines = ["## Differences to other methods", ""]
    for own in (m for m in results.methods if m.startswith("tamis@")):
        p, found = {}, {}
        for other in (m for m in results.methods if not m.startswith("tamis@")):
            points = np.array(list(results.gaps(own, other, "accuracy").values()))
            losses = np.array(list(results.gaps(own, other, "log_loss").values()))
            if len(points):
                p[other] = signed_ranks(losses.tolist(), [0.0] * len(losses))
                found[other] = points, losses
        corrected = holm(p)
        body = [
            [
                other,
                str(len(points)),
                _with_error(points, ".2f"),
                _with_error(losses, ".4f"),
                f"{np.sum(losses < -1e-9)} / {np.sum(abs(losses) <= 1e-9)} / {np.sum(losses > 1e-9)}",
                text(p[other], ".3f"),
                text(corrected[other], ".3f"),
            ]
            for other, (points, losses) in found.items()
        ]
        heads = ["method", "tables", "points of accuracy", "log-loss", "won / tied / lost", "p", "p, Holm"]
        lines += [f"### {own} minus others", "", table(heads, body), ""]
    note = "± is the standard error over tables. p is Wilcoxon's signed-rank test of the log-losses over tables; "
    return [*lines, note + "won, tied and lost are tables by log-loss.", ""]


def _with_error(values: np.ndarray, form: str) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):+{form}} ± {text(error, form)}"


def _groups(results: Results) -> list[str]:
    own = results.paper.main
    if own not in results.methods:
        return []
    others = [m for m in results.methods if not m.startswith("tamis@")]
    body = []
    for title, belongs in GROUPS.items():
        line = [title, str(sum(belongs(results.sizes[name]) for name in results.tables))]
        for other in others:
            pair = [results.gaps(own, other, measure) for measure in ("accuracy", "log_loss")]
            some = [[v for name, v in gaps.items() if belongs(results.sizes[name])] for gaps in pair]
            line.append(f"{np.mean(some[0]):+.2f}, {np.mean(some[1]):+.3f}" if some[0] else "-")
        body.append(line)
    title = f"## {own} minus others, by kind of table"
    return [title, "", "Points of accuracy, and log-loss.", "", table(["tables", "number", *others], body), ""]


def _ranks(results: Results) -> list[str]:
    """Mean ranks by log-loss on the splits that all methods with most of them have."""
    count = {m: len(results.keys(m)) for m in results.methods}
    complete = [m for m in results.methods if count[m] == max(count.values())]
    keys = results.keys(*complete)
    if len(complete) < 2:
        return []
    losses = np.array([list(results.means(m, "log_loss", keys).values()) for m in complete]).T
    ranks, n, k = mean_ranks(-np.round(losses, 9)), len(losses), len(complete)
    critical = stats.studentized_range.ppf(1 - LEVEL, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n))
    order = np.argsort(ranks)
    return [
        "## Mean ranks by log-loss",
        "",
        f"Of the {k} methods that have all splits, on {n} tables. Two mean ranks that differ by less than "
        f"{critical:.2f} (Nemenyi, level {LEVEL}) may be equal.",
        "",
        table(["method", "mean rank"], [[complete[i], f"{ranks[i]:.2f}"] for i in order]),
        "",
    ]


def _stability(results: Results) -> list[str]:
    found = {m: results.jaccard(m) for m in results.methods}
    body = [[m, f"{value:.2f}"] for m, value in found.items() if np.isfinite(value)]
    if not body:
        return []
    return [
        "## Stability of the kept features",
        "",
        "Mean Jaccard index of the features of two splits, on tables with more columns than features.",
        "",
        table(["method", "overlap"], body),
        "",
    ]


def _losses(results: Results) -> list[str]:
    """Where the flagship is clearly behind a peer, by name."""
    own, lines = results.paper.main, []
    for other in ("EBM", "boosting, tuned", "SVC"):
        if own not in results.methods or other not in results.methods:
            continue
        points, losses = results.gaps(own, other, "accuracy"), results.gaps(own, other, "log_loss")
        bad = [name for name in points if points[name] < -LOST_POINTS or losses[name] > LOST_LOSS]
        said = ", ".join(f"{name} ({points[name]:+.1f}, {losses[name]:+.3f})" for name in bad)
        lines.append(f"- {other}: {said or 'nowhere'}")
    if not lines:
        return []
    title = f"Tables where {own} is more than {LOST_POINTS:g} points or {LOST_LOSS:g} of log-loss behind:"
    return ["## Losses", "", title, "", *lines, ""]


def _each(results: Results) -> list[str]:
    """Accuracy and log-loss of every method on every table, and published values."""
    lines = []
    for measure in ("accuracy", "log_loss"):
        found = {m: results.means(m, measure, results.keys(m)) for m in results.methods}
        body = [
            [name, *(text(found[m].get(name, np.nan), FORMS[measure]) for m in results.methods)]
            for name in results.tables
        ]
        lines += [
            f"## {results.paper.measures[measure]} of each table",
            "",
            table(["table", *results.methods], body),
            "",
        ]
    return lines


def draw(results: Results, path: Path) -> bool:
    """Draw mean accuracy against the mean number of features, on the splits that all drawn methods have.

    Returns
    -------
    whether matplotlib is installed and there is something to draw
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    count = {m: len(results.keys(m)) for m in results.methods}
    lines = {
        name: [m for m in results.methods if m.startswith(f"{name}@")] for name in ("tamis", "EBM", "l1", "subset")
    }
    dots = [m for m in ("EBM", "boosting, tuned", "boosting", "SVC", "forest", "tree", "EM2NOLC") if m in count]
    drawn = [m for m in [*(m for one in lines.values() for m in one), *dots] if m in count]
    keys = results.keys(*drawn)
    if not keys:
        return False
    at = {
        m: [float(np.mean(list(results.means(m, what, keys).values()))) for what in ("n_features", "accuracy")]
        for m in drawn
    }
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, methods in lines.items():
        if methods:
            x, y = np.array([at[m] for m in methods]).T
            axes.plot(x, y, "o-", label=f"{name}, at most k features", zorder=3 if name == "tamis" else 2)
    for m in dots:
        axes.plot(*at[m], "s", color="0.45", markersize=4)
        axes.annotate(m, (at[m][0], at[m][1]), xytext=(5, -3), textcoords="offset points", fontsize=8, color="0.3")
    axes.set_xlabel("features that a prediction needs, mean over tables")
    axes.set_ylabel("accuracy on test rows, %")
    axes.margins(0.12)
    axes.spines[["top", "right"]].set_visible(False)
    if any(lines.values()):
        figure.legend(frameon=False, loc="outside upper left", ncols=len(lines), fontsize=8)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
    return True
