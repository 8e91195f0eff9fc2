"""Accuracy and number of features of l0-MKL and its baselines on the wide tables of its paper, beside its numbers.

    python benchmarks/l0_mkl_accuracy.py [--splits 10] [--methods NAME ...] [--sets NAME ...]

Stratified halves as in the paper, but every parameter is chosen by five folds of the training half alone: l0-MKL and
MIK-FS by log-loss with a calibrated intercept, as their search does, the linear methods by accuracy. Isolet and glioma
keep their first two classes. The majority class and a linear machine on all features are in the table. Rows go to
benchmarks/out/l0_mkl_accuracy.csv as they finish; those of other sets and methods stay there, and the table shows all.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.metrics import balanced_accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from experiments.datasets import load
from tamis import L0MKLClassifierCV, LinearL0SVC

SETS = ("glioma", "colon", "dbworld", "isolet", "leukemia", "allaml", "cns", "prostate_ge", "lung_cancer")
PAPER = {  # [XueSong2020], Table 4: PIE-SVM, CAP-SVM, EP-SVM, MIK-FS, l0-MKL
    "allaml": ("93.71 (4)", "92.86 (6)", "95.71 (93)", "97.14 (18)", "98.00 (7)"),
    "colon": ("84.84 (6)", "85.16 (7)", "87.10 (61)", "87.74 (215.7)", "87.74 (14)"),
    "prostate_ge": ("95.88 (7)", "95.68 (11)", "95.49 (12)", "95.88 (8)", "96.28 (8)"),
    "cns": ("72.07 (12)", "72.07 (12)", "70.34 (10)", "75.52 (17)", "79.31 (20)"),
    "lung_cancer": ("98.67 (12)", "98.56 (11)", "99.44 (91)", "99.89 (46)", "99.78 (22)"),
    "leukemia": ("96.00 (11)", "96.29 (11)", "96.86 (54)", "97.71 (1426)", "97.71 (7)"),
    "dbworld": ("84.52 (14)", "85.49 (13)", "91.29 (22)", "90.00 (11)", "90.97 (9)"),
    "isolet": ("98.67 (3)", "99.00 (5)", "99.00 (10)", "100.00 (9)", "100.00 (9)"),
    "glioma": ("83.00 (2)", "82.00 (2)", "84.00 (8)", "90.00 (3)", "96.00 (4)"),
}
COSTS, THETAS = (0.1, 1.0, 10.0), (1.0, 3.0, 10.0)
OUT = Path(__file__).parent / "out" / "l0_mkl_accuracy.csv"
SPLITS = 10  # drawn; fewer of them may be used


def methods() -> dict:
    linear = {"C": COSTS, "theta": THETAS}
    return {
        "PIE-SVM": (LinearL0SVC("exp", calibration=None), linear),
        "CAP-SVM": (LinearL0SVC("capped_l1", calibration=None), linear),
        "EP-SVM": (LinearL0SVC("exact", calibration=None), linear),
        "MIK-FS": (L0MKLClassifierCV(penalty="l1", thetas=(1.0,)), None),
        "l0-MKL": (L0MKLClassifierCV(), None),
        "linear SVM": (make_pipeline(StandardScaler(), LinearSVC()), {"linearsvc__C": [1e-4, 1e-3, 1e-2, 0.1, 1.0]}),
        "majority": (DummyClassifier(), None),
    }


def one(name: str, method: str, seed: int) -> dict:
    """One split of one set with one method."""
    X, y = two_classes(name)
    train, test = list(StratifiedShuffleSplit(SPLITS, test_size=0.5, random_state=0).split(X, y))[seed]
    model, grid = methods()[method]
    start = time.perf_counter()
    with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
        warnings.simplefilter("ignore")
        if grid is not None:
            folds = StratifiedKFold(5, shuffle=True, random_state=seed)
            model = GridSearchCV(model, grid, cv=folds)
        elif "random_state" in model.get_params():
            model = clone(model).set_params(random_state=seed)
        model.fit(X[train], y[train])
        guess = model.predict(X[test])
    best = getattr(model, "best_estimator_", model)
    kept = len(best.features_) if hasattr(best, "features_") else X.shape[1] * (method != "majority")
    f1 = f1_score(y[test], guess, average=None, labels=[0, 1], zero_division=0.0)
    return {
        "set": name,
        "method": method,
        "split": seed,
        "accuracy": float(np.mean(guess == y[test])),
        "balanced": float(balanced_accuracy_score(y[test], guess)),
        "f1_first": float(f1[0]),
        "f1_second": float(f1[1]),
        "features": kept,
        "seconds": time.perf_counter() - start,
    }


def two_classes(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = load(name)
    kept = data.y < 2
    return data.X[kept].astype(float), data.y[kept]


def rows_of(path: Path) -> list[dict]:
    """The rows that earlier runs left."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[dict]) -> None:
    fresh = path.with_suffix(".new")
    with fresh.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    fresh.replace(path)


def cell(rows: list[dict], name: str, method: str) -> str:
    part = [row for row in rows if (row["set"], row["method"]) == (name, method)]
    if len(part) < 2:
        return "-"
    accuracy = 100 * np.array([float(row["accuracy"]) for row in part])
    kept = np.mean([float(row["features"]) for row in part])
    return f"{accuracy.mean():.1f} ± {accuracy.std(ddof=1):.1f} ({kept:.0f})"


def main(splits: int, chosen: list[str], names: list[str]) -> None:
    OUT.parent.mkdir(exist_ok=True)
    columns = list(methods())
    print("| set |", " | ".join(columns), "|", " | ".join(f"paper: {c}" for c in columns[:5]), "|")
    for name in names:
        jobs = [(method, seed) for method in chosen for seed in range(splits)]
        found = Parallel(n_jobs=2)(delayed(one)(name, method, seed) for method, seed in jobs)
        other = [row for row in rows_of(OUT) if row["set"] != name or row["method"] not in chosen]
        write(OUT, other + found)
        cells = [cell(other + found, name, method) for method in columns]
        print(f"| {name} |", " | ".join(cells), "|", " | ".join(PAPER[name]), "|", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--methods", nargs="+", default=list(methods()))
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    options = parser.parse_args()
    main(options.splits, options.methods, options.sets)
