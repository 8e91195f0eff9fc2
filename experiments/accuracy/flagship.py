"""Accuracy, calibration and stability of the flagship classifier beside its baselines, on splits of their own.

    python -m experiments.accuracy.flagship [--methods ebm,svc] [--sets pima,praf/groups] [--seeds 1000-1009]
    python -m experiments.accuracy.flagship --stability  # one split (the first seed), five values of random_state
    python -m experiments.accuracy.flagship --table      # docs/results/flagship.md from the rows, nothing is run
    python -m experiments.accuracy.flagship --table --seeds 1000,1009 --page flagship_ebm  # of some of the splits

Every (method, set, seed, random_state) is one line of experiments/out/flagship.jsonl, written when it finishes.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold, StratifiedKFold, StratifiedShuffleSplit

from experiments.accuracy.flagship_page import ALL, KEY, SETS, STATES, Array, ece, page
from experiments.accuracy.rows import Row, measure, rows_of
from experiments.cells import installed
from experiments.datasets import Dataset, load
from experiments.peers import BOOSTING_GRID, sparse_logistic
from tamis import TamisClassifier
from tamis.workflow import peers

PAGES = Path(__file__).parents[2] / "docs" / "results"
PROTOCOL = """\
Stratified 70/30 splits; "praf/groups" keeps the recordings of a subject on one side. All tuning is inside the training
part: svc, hgb, l1 and abess share five folds, EBM has its defaults (only the kinds of the columns and the seed are
given; one process, which changes nothing but the time), tamis chooses by itself. Nominal columns are declared, or
one-hot where a method needs numbers, and missing cells are imputed where a method needs all. The k of "l1@k" and
"abess@k" counts features of the table: all indicators of a nominal column are one. SVC predicts by itself; its
probabilities are a sigmoid of held-out decisions of the same folds."""
PACKAGES = ("tamis", "interpret", "abess", "scikit-learn", "numpy", "scipy")


@dataclass(frozen=True)
class Task:
    """A training part: rows, labels 0 and 1, nominal columns, subjects, seed of the folds, random state of the fit."""

    X: Array
    y: Array
    nominal: Array
    groups: Array | None
    seed: int
    state: int

    def folds(self) -> list[tuple[Array, Array]]:
        kind = StratifiedKFold if self.groups is None else StratifiedGroupKFold
        return list(kind(5, shuffle=True, random_state=self.seed).split(self.X, self.y, self.groups))


@dataclass(frozen=True)
class Fitted:
    """A model as a row needs it; `features` are columns of the table, None where a method uses all."""

    predict: Callable[[Array], Array]
    probability: Callable[[Array], Array]  # of class 1
    score: Callable[[Array], Array]  # ranks rows, for the AUC
    features: list[int] | None = None
    instances: int | None = None


def fitted(model: Any, features: list[int] | None = None) -> Fitted:
    def probability(X: Array) -> Array:
        return model.predict_proba(X)[:, 1]

    if hasattr(model, "features_"):
        features = sorted(int(j) for j in model.features_)
    instances = len(model.instances_) if hasattr(model, "instances_") else None
    return Fitted(model.predict, probability, getattr(model, "decision_function", probability), features, instances)


def ours(task: Task, k: int) -> Fitted:
    model = TamisClassifier(max_instances=k, max_features=k, categorical_features=task.nominal, random_state=task.state)
    return fitted(model.fit(task.X, task.y, groups=task.groups))


def svc(task: Task) -> Fitted:
    grid = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": ["scale", 0.001, 0.01, 0.1]}
    folds = task.folds()
    best = GridSearchCV(peers.svc(task.nominal), grid, cv=folds).fit(task.X, task.y).best_estimator_
    sigmoid = CalibratedClassifierCV(best, cv=folds, ensemble=False).fit(task.X, task.y)
    instances = int(best[-1].n_support_.sum())
    return Fitted(best.predict, lambda X: sigmoid.predict_proba(X)[:, 1], best.decision_function, None, instances)


def hgb(task: Task) -> Fitted:
    base = peers.boosting(task.nominal, random_state=task.state)
    return fitted(GridSearchCV(base, BOOSTING_GRID, cv=task.folds(), scoring="neg_log_loss").fit(task.X, task.y))


def ebm(task: Task) -> Fitted:
    """Fit boosted shapes and pairs; its features are the 20 whose own shapes have the largest importance."""
    model = peers.ebm(task.nominal, random_state=task.state).fit(task.X, task.y)
    terms = zip(model.term_features_, model.term_importances(), strict=True)
    shapes = {int(term[0]): float(weight) for term, weight in terms if len(term) == 1}
    return fitted(model, sorted(sorted(shapes, key=lambda j: -shapes[j])[:20]))


def fit(method: str, task: Task) -> Fitted:
    """Fit a method by its name, with the number of features behind the "@"."""
    base, _, size = method.partition("@")
    if base in ("l1", "abess"):
        return fitted(sparse_logistic(base, task.X, task.y, task.nominal, task.folds(), int(size), task.state))
    return ours(task, int(size)) if base == "tamis" else {"svc": svc, "hgb": hgb, "ebm": ebm}[base](task)


def parts(data: Dataset, seed: int, grouped: bool) -> tuple[Array, Array]:
    """Return the training and test rows of a stratified 70/30 split, of subjects where `grouped`."""
    cut = StratifiedShuffleSplit(1, test_size=0.3, random_state=seed)
    if not grouped:
        return next(cut.split(data.X, data.y))
    if data.groups is None:
        raise ValueError(f"set={data.name!r} has no groups: ask for it without '/groups'")
    subjects, first, of = np.unique(data.groups, return_index=True, return_inverse=True)
    if np.any(data.y[first][of] != data.y):
        raise ValueError(f"set={data.name!r} has groups of two classes: stratify by something else")
    train, test = next(cut.split(subjects, data.y[first]))
    return np.flatnonzero(np.isin(of, train)), np.flatnonzero(np.isin(of, test))


def split(name: str, seed: int, state: int) -> tuple[Task, Array, Array]:
    """Return the training part, and the rows and labels of the test part; "/groups" keeps groups together."""
    grouped = name.endswith("/groups")
    data = load(name.removesuffix("/groups"))
    train, test = parts(data, seed, grouped)
    groups = data.groups[train] if grouped and data.groups is not None else None
    return Task(data.X[train], data.y[train], data.nominal, groups, seed, state), data.X[test], data.y[test]


def one(method: str, set: str, seed: int, state: int | None, made: Row) -> Row:
    """Return the row of one cell; `state` is None where the random state of the fit is the seed of the split."""
    task, X, y = split(set, seed, seed if state is None else state)
    wall, cpu = time.perf_counter(), time.process_time()
    model = fit(method, task)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    p = model.probability(X)
    return {
        "accuracy": float(np.mean(model.predict(X) == y)),
        "auc": float(roc_auc_score(y, model.score(X))),
        "log_loss": float(log_loss(y, p)),
        "brier": float(brier_score_loss(y, p)),
        "ece": ece(y, p),
        "seconds": {"wall": wall, "cpu": cpu},
        "features": model.features,
        "n_instances": model.instances,
        "n_features_in": X.shape[1],
        "n_train": len(task.y),
        "n_test": len(y),
        "probabilities": np.round(p, 5).tolist(),
        "made": made,
    }


def provenance() -> Row:
    return {
        "command": " ".join(["python -m experiments.accuracy.flagship", *sys.argv[1:]]),
        "date": date.today().isoformat(),
        "versions": installed(PACKAGES),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
    }


def cells_of(args: argparse.Namespace, seeds: list[int]) -> list[Row]:
    sets = args.sets.split(",")
    methods = args.methods.split(",")
    if args.stability:
        sets = [s for s in sets if load(s.removesuffix("/groups")).X.shape[1] > 20]
        methods = [m for m in methods if m in ("tamis@20", "ebm")]
    repeats = [(seeds[0], state) for state in STATES] if args.stability else [(seed, None) for seed in seeds]
    return [
        {"method": m, "set": s, "seed": seed, "state": state} for m in methods for s in sets for seed, state in repeats
    ]


def span(words: str) -> range:
    """The seeds of "1003", or of "1000-1009"."""
    first, _, last = words.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=",".join(ALL))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", default="1000-1009")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--stability", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--page", default="flagship", help="name of the page that --table writes")
    args = parser.parse_args()
    unknown = {m for m in args.methods.split(",") if m not in ALL} | {s for s in args.sets.split(",") if s not in SETS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; methods are {', '.join(ALL)}; sets are {', '.join(SETS)}")
    seeds = [seed for part in args.seeds.split(",") for seed in span(part)]
    if args.table:
        (PAGES / f"{args.page}.md").write_text(page(rows_of("flagship", KEY), seeds, PROTOCOL))
    else:
        measure("flagship", cells_of(args, seeds), partial(one, made=provenance()), args.jobs)


if __name__ == "__main__":
    main()
