"""The page of the flagship benchmark: measures, paired tests and tables, from rows alone.

A row is a dictionary that flagship.py wrote: one method on one split of one set. A cell of a table has a number where
all seeds have their row, and "-" elsewhere.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from experiments.datasets import THIRTEEN
from experiments.statistics import holm, resampled, signed_ranks
from experiments.tables import table

SETS = [*(s for s in THIRTEEN if s != "splice_binary"), "praf/groups", "splice_binary"]  # the slow one last
BUDGETS = (20, 10, 5)
SINGLE = ["ebm", "svc", "hgb"]
ALL = [f"tamis@{k}" for k in BUDGETS] + SINGLE + [f"{m}@{k}" for m in ("l1", "abess") for k in BUDGETS]
STATES = range(5)
ECE_BINS = 10
Array = np.ndarray


def ece(y: Array, probability: Array) -> float:
    """Return the expected calibration error of two-class probabilities.

    The predicted class is the likelier one and its probability is the confidence. Bins are ten equal parts of (0, 1],
    closed above (two classes use the upper half of them); the error is the mean over rows of |share of right
    predictions - mean confidence| in the bin of the row.
    """
    confidence = np.maximum(probability, 1 - probability)
    right = (probability >= 0.5) == (y == 1)
    place = np.digitize(confidence, np.linspace(0, 1, ECE_BINS + 1)[1:-1], right=True)
    gaps = [abs(np.sum(right[place == b]) - np.sum(confidence[place == b])) for b in range(ECE_BINS)]
    return float(np.sum(gaps) / len(y))


def jaccard(kept: list[list[int]]) -> float:
    """Return the mean over pairs of |both| / |either|; two empty sets agree, one set alone has none (nan)."""
    pairs = [(set(a), set(b)) for a, b in combinations(kept, 2)]
    return float(np.mean([len(a & b) / len(a | b) if a | b else 1.0 for a, b in pairs])) if pairs else np.nan


KEY = ("method", "set", "seed", "state")


def key(row: dict[str, Any]) -> tuple:
    return tuple(row[name] for name in KEY)


class Cells:
    """The rows of the page: cells with all seeds have numbers, others are nan, which is written "-"."""

    def __init__(self, rows: list[dict[str, Any]], seeds: list[int]):
        good = {key(row): row for row in rows if "error" not in row}
        self.rows, self.seeds = rows, seeds
        self.by_split = {
            (m, s): [good[m, s, seed, None] for seed in seeds]
            for m in ALL
            for s in SETS
            if all((m, s, seed, None) in good for seed in seeds)
        }
        self.by_state = {
            (m, s): [good[m, s, seeds[0], state] for state in STATES]
            for m in ALL
            for s in SETS
            if all((m, s, seeds[0], state) in good for state in STATES)
        }

    def values(self, method: str, name: str, what: str) -> Array:
        rows = self.by_split.get((method, name), [])
        if what == "cpu":
            return np.array([row["seconds"]["cpu"] for row in rows] or [np.nan])
        if what == "kept":
            return np.array([float(len(row["features"])) for row in rows] or [np.nan])
        return np.array([row[what] for row in rows] or [np.nan])

    def mean(self, method: str, name: str, what: str) -> float:
        return float(np.mean(self.values(method, name, what)))

    def over(self, method: str, what: str, sets: list[str]) -> Array:
        return np.array([self.mean(method, name, what) for name in sets])


def text(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else "-"


def lines_of(head: list[str], body: list[list[str]]) -> list[str]:
    return [table(head, body), ""]


def accuracies(cells: Cells) -> list[str]:
    body = [[s, *(text(100 * cells.mean(m, s, "accuracy"), ".1f") for m in ALL)] for s in SETS]
    means = {"mean of the 13": THIRTEEN, "mean without splice": [s for s in THIRTEEN if s != "splice_binary"]}
    for title, sets in means.items():
        body.append([title, *(text(100 * float(np.mean(cells.over(m, "accuracy", sets))), ".2f") for m in ALL)])
    return lines_of(["set", *ALL], body)


def difference_and_p(cells: Cells, one: str, other: str, what: str = "accuracy") -> tuple[float, float]:
    """Return the mean difference over the 13 sets and the p-value of the signed-rank test of their means."""
    first, second = cells.over(one, what, THIRTEEN), cells.over(other, what, THIRTEEN)
    gap = float(np.mean(first - second))
    return gap, signed_ranks(first, second) if np.isfinite(gap) else np.nan


def paired(cells: Cells, other: str) -> list[str]:
    """Return the table of differences to one method, set by set."""
    found: dict[str, tuple[float, float]] = {}
    for s in SETS:
        first, second = (cells.values(m, s, "accuracy") for m in ("tamis@20", other))
        gap = float(np.mean(first - second))
        if np.isfinite(gap):
            ratio = cells.mean(other, s, "n_test") / cells.mean(other, s, "n_train")
            found[s] = 100 * gap, resampled(first, second, ratio)
    tested = [s for s in THIRTEEN if s in found]
    corrected = holm({s: found[s][1] for s in tested})
    body = []
    for s in SETS:
        gap, p = found.get(s, (np.nan, np.nan))
        body.append([s, text(gap, "+.2f"), text(p, ".3f"), text(corrected.get(s, np.nan), ".3f")])
    gap, p = difference_and_p(cells, "tamis@20", other)
    body.append(["mean of the 13, Wilcoxon over sets", text(100 * gap, "+.2f"), text(p, ".3f"), ""])
    title = f"### tamis@20 against {other} ({len(tested)} of the 13 sets have all rows)"
    return [title, "", *lines_of(["set", "difference, points", "p", f"p, Holm over {len(tested)}"], body)]


def budgets(cells: Cells) -> list[str]:
    body = []
    for k in BUDGETS:
        line = [str(k)]
        for m in ("tamis", "abess", "l1"):
            accuracy, kept = (float(np.mean(cells.over(f"{m}@{k}", what, THIRTEEN))) for what in ("accuracy", "kept"))
            line.append(f"{text(100 * accuracy, '.2f')} ({text(kept, '.1f')})")
        for m in ("abess", "l1"):
            gap, p = difference_and_p(cells, f"tamis@{k}", f"{m}@{k}")
            line.append(f"{text(100 * gap, '+.2f')} ({text(p, '.3f')})")
        body.append(line)
    return lines_of(["budget", "tamis", "abess", "l1", "tamis - abess (p)", "tamis - l1 (p)"], body)


def calibration(cells: Cells) -> list[str]:
    columns = {"ece": ".4f", "log_loss": ".4f", "brier": ".4f", "auc": ".4f", "cpu": ".1f"}
    body = [[m, *(text(float(np.mean(cells.over(m, w, THIRTEEN))), f) for w, f in columns.items())] for m in ALL]
    gap, p = difference_and_p(cells, "tamis@20", "ebm", "ece")
    words = (
        f"tamis@20 - ebm: {text(gap, '+.4f')} of calibration error, p = {text(p, '.3f')} (Wilcoxon over the 13 sets)."
    )
    return [*lines_of(["method", "calibration error", "log-loss", "Brier", "AUC", "CPU s"], body), words, ""]


def stability(cells: Cells) -> list[str]:
    sources = [(m, cells.by_split) for m in ("tamis@20", "l1@20", "abess@20", "ebm")]
    sources += [(m, cells.by_state) for m in ("tamis@20", "ebm")]
    wide = {row["set"] for row in cells.rows if row.get("n_features_in", 0) > 20}
    body: list[list[str]] = []
    means: list[list[float]] = [[] for _ in sources]
    for s in (s for s in SETS if s in wide):
        line = [s]
        for mean, (m, rows) in zip(means, sources, strict=True):
            kept = [row["features"] for row in rows.get((m, s), [])]
            value = jaccard(kept)
            line.append(f"{text(value, '.2f')} ({np.mean([len(k) for k in kept]):.1f})" if kept else "-")
            mean += [value] if s in THIRTEEN else []
        body.append(line)
    body.append(["mean, without praf/groups", *(text(float(np.mean(m)) if m else np.nan, ".2f") for m in means)])
    heads = [m if rows is cells.by_split else f"{m}, random states" for m, rows in sources]
    return lines_of(["set", *heads], body)


def header(cells: Cells) -> list[str]:
    """Return what made the rows, and which cells failed or are not there."""
    made = [row["made"] for row in cells.rows]
    dates = sorted({m["date"] for m in made}) or ["-"]
    versions = sorted({", ".join(f"{n} {v}" for n, v in m["versions"].items()) for m in made})
    failed = [
        f"- {row['method']}, {row['set']}, seed {row['seed']}: {row['error']}" for row in cells.rows if "error" in row
    ]
    asked = len(ALL) * len(SETS)
    return [
        f"Seeds {spelled(cells.seeds)}; rows of {dates[0]} to {dates[-1]}; "
        + "; ".join(sorted({m["machine"] for m in made}))
        + ".",
        *(f"Versions: {v}." for v in versions),
        f'{len(cells.by_split)} of {asked} cells (method, set) have all seeds; the others are written as "-".',
        "",
        "```",
        *dict.fromkeys(m["command"] for m in made),
        f"python -m experiments.accuracy.flagship --table --seeds {spelled(cells.seeds)}",
        "```",
        "",
        *(["Cells that failed:", "", *failed, ""] if failed else []),
    ]


def spelled(seeds: list[int]) -> str:
    """Seeds as `--seeds` takes them."""
    whole = seeds == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 1
    return f"{seeds[0]}-{seeds[-1]}" if whole else ",".join(map(str, seeds))


def page(rows: list[dict[str, Any]], seeds: list[int], protocol: str) -> str:
    cells = Cells([row for row in rows if row["seed"] in seeds], seeds)
    lines = ["# The flagship classifier and its baselines", "", protocol, "", *header(cells)]
    lines += ["## Accuracy", "", "Per cent of the test rows, mean over the seeds.", "", *accuracies(cells)]
    lines += [
        "p is the corrected resampled t-test (Nadeau and Bengio: variance times 1/J + n_test/n_train) over the splits.",
        "",
        *paired(cells, "ebm"),
        *paired(cells, "svc"),
    ]
    lines += [
        "## Budgets",
        "",
        "Mean accuracy of the 13 sets (mean number of kept features); tamis@k also keeps at most k cases.",
        "p: Wilcoxon's signed-rank test over the 13 sets.",
        "",
        *budgets(cells),
    ]
    lines += [
        "## Calibration",
        "",
        "Means of the 13 sets. " + " ".join((ece.__doc__ or "").split("\n\n")[1].split()),
        "",
        *calibration(cells),
    ]
    lines += [
        "## Stability",
        "",
        "Mean Jaccard index of the kept features over pairs of splits (mean number kept), on sets with more than",
        '20 features; EBM keeps the 20 whose own shapes weigh most. "random states": five, on the first split.',
        "",
        *stability(cells),
    ]
    return "\n".join(lines)
