"""Missing cells: kernels left out, or cells imputed?

    python -m experiments.accuracy.missing_cells [--splits 5] [--sets NAME ...]

ckd has 1012 missing cells of its own; in wdbc and heart_statlog three cells in ten are removed at random. Stratified
70/30 splits. Nothing is tuned: every classifier has its defaults with a kernel on each feature. "absent" and "median"
are values of the parameter `missing`; the others are imputers before the classifier. The table shows accuracy in per
cent and log-loss on the test part, means over splits. Rows are kept in experiments/out.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.impute import KNNImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline

from experiments.accuracy.rows import Row, measure
from experiments.datasets import load
from experiments.tables import table
from tamis import (
    AbsentMKLClassifier,
    EM2NOLCClassifier,
    GaussianImputer,
    L0MKLClassifier,
    SimpleMKLClassifier,
    ZeroOneMKLClassifier,
    per_feature,
)

SETS = ("ckd", "wdbc", "heart_statlog")
REMOVED = 0.3
IMPUTERS = {"absent": None, "median": None, "EM": GaussianImputer(), "neighbours": KNNImputer()}


def classifiers(missing: str) -> dict[str, Any]:
    own: dict[str, Any] = {"missing": missing, "random_state": 0}
    return {
        "EM2NOLCClassifier": EM2NOLCClassifier(10, 10, **own),
        "L0MKLClassifier": L0MKLClassifier(**own),
        "SimpleMKLClassifier": SimpleMKLClassifier(kernels=per_feature(), **own),
        "ZeroOneMKLClassifier": ZeroOneMKLClassifier(kernels=per_feature(), **own),
        "AbsentMKLClassifier": AbsentMKLClassifier(pattern_weight="share", **own),
        "AbsentMKLClassifier, sum": AbsentMKLClassifier(program="sum", **own),
    }


def one(set: str, method: str, treatment: str, split: int) -> Row:
    data = load(set)
    X, y = data.X.copy(), data.y
    if set != "ckd":
        X[np.random.default_rng(0).random(X.shape) < REMOVED] = np.nan
    splitter = StratifiedShuffleSplit(split + 1, test_size=0.3, random_state=0)  # its splits are drawn in turn
    train, test = list(splitter.split(X, y))[split]
    imputer = IMPUTERS[treatment]
    model = classifiers(treatment if imputer is None else "absent")[method]
    model = model if imputer is None else make_pipeline(imputer, model)
    model.fit(X[train], y[train])
    right, loss = model.score(X[test], y[test]), log_loss(y[test], model.predict_proba(X[test]))
    return {"accuracy": 100 * right, "log_loss": float(loss)}


def cell(rows: list[Row]) -> str:
    accuracy, loss = (np.mean([row[name] for row in rows]) for name in ("accuracy", "log_loss"))
    return f"{accuracy:.1f}, {loss:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    options = parser.parse_args()
    cells = [
        {"set": name, "method": method, "treatment": treatment, "split": split}
        for name in options.sets
        for split in range(options.splits)
        for treatment in IMPUTERS
        for method in classifiers("absent")
    ]
    rows = measure("missing_cells", cells, one)
    for name in options.sets:
        lines = []
        for method in classifiers("absent"):
            own = [row for row in rows if (row["set"], row["method"]) == (name, method) and "error" not in row]
            lines.append([method, *(cell([row for row in own if row["treatment"] == t]) for t in IMPUTERS)])
        print("\n" + table([name, *IMPUTERS], lines))


if __name__ == "__main__":
    main()
