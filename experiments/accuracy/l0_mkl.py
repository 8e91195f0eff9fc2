"""Accuracy and number of features of l0-MKL and its baselines on the tables of [XueSong2020], with its numbers.

    python -m experiments.accuracy.l0_mkl [--splits 10] [--methods NAME ...] [--sets NAME ...]

Stratified halves as in the paper, but every parameter is chosen on five folds of the training half: l0-MKL and MIK-FS
by log-loss with a calibrated intercept, as their search does, the linear methods by accuracy. Isolet and glioma keep
their first two classes. Rows are kept in experiments/out, and the table shows all of them.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from experiments.accuracy.rows import Row, measure
from experiments.datasets import load
from experiments.papers import PAPERS
from experiments.tables import spread, table
from tamis import L0MKLClassifierCV, LinearL0SVC

PAPER = PAPERS["l0-mkl"]
SETS = ("glioma", "colon", "dbworld", "isolet", "leukemia", "allaml", "cns", "prostate_ge", "lung_cancer")
LINEAR = {"C": (0.1, 1.0, 10.0), "theta": (1.0, 3.0, 10.0)}
SPLITS = 10  # drawn; fewer of them may be used


def methods(seed: int) -> dict[str, tuple[Any, Any]]:
    return {
        "PIE-SVM": (LinearL0SVC("exp", calibration=None), LINEAR),
        "CAP-SVM": (LinearL0SVC("capped_l1", calibration=None), LINEAR),
        "EP-SVM": (LinearL0SVC("exact", calibration=None), LINEAR),
        "MIK-FS": (L0MKLClassifierCV(penalty="l1", thetas=(1.0,), random_state=seed), None),
        "l0-MKL": (L0MKLClassifierCV(random_state=seed), None),
        "linear SVM": (make_pipeline(StandardScaler(), LinearSVC()), {"linearsvc__C": [1e-4, 1e-3, 1e-2, 0.1, 1.0]}),
        "majority": (DummyClassifier(), None),
    }


def one(set: str, method: str, split: int) -> Row:
    data = load(set)
    kept = data.y < 2
    X, y = data.X[kept], data.y[kept]
    train, test = list(StratifiedShuffleSplit(SPLITS, test_size=0.5, random_state=0).split(X, y))[split]
    model, grid = methods(split)[method]
    if grid is not None:
        model = GridSearchCV(model, grid, cv=StratifiedKFold(5, shuffle=True, random_state=split))
    start = time.perf_counter()
    model.fit(X[train], y[train])
    accuracy, seconds = 100 * model.score(X[test], y[test]), time.perf_counter() - start
    best = getattr(model, "best_estimator_", model)
    features = len(best.features_) if hasattr(best, "features_") else X.shape[1] * (method != "majority")
    return {"accuracy": accuracy, "features": features, "seconds": seconds}


def cell(rows: list[Row], name: str, method: str) -> str:
    own = [row for row in rows if (row["set"], row["method"]) == (name, method) and "error" not in row]
    if len(own) < 2:
        return "-"
    return f"{spread([r['accuracy'] for r in own])} ({np.mean([r['features'] for r in own]):.0f})"


def published(name: str, method: str) -> str:
    accuracy, features = (PAPER.published[name, method, measure].value for measure in ("accuracy", "n_features"))
    return f"{accuracy:.2f} ({features:g})"


def main() -> None:
    columns = list(methods(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--methods", nargs="+", default=columns)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    options = parser.parse_args()
    splits = range(options.splits)
    cells = [{"set": s, "method": m, "split": k} for s in options.sets for m in options.methods for k in splits]
    rows = measure("l0_mkl", cells, one, 2)
    lines = [[s, *(cell(rows, s, m) for m in columns), *(published(s, m) for m in columns[:5])] for s in options.sets]
    print(table(["set", *columns, *(f"paper: {m}" for m in columns[:5])], lines))


if __name__ == "__main__":
    main()
