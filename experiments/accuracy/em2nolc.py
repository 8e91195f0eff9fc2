"""Accuracy of EM2NOLC and its variants on stratified 70/30 splits, everything tuned inside the training part.

    python -m experiments.accuracy.em2nolc [--methods tamis,svc] [--sets pima,wdbc] [--seeds 0-4] [--jobs 2]

Splits, folds and the methods svc, hgb, ebm, l1@k and abess@k are those of `experiments.accuracy.flagship`. Here "tamis"
is `EM2NOLCClassifierCV`, and `tamis@k` keeps at most k cases and features. Rows are kept in experiments/out.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from experiments.accuracy import flagship
from experiments.accuracy.rows import Row, measure
from experiments.datasets import THIRTEEN
from experiments.tables import table
from tamis import EM2NOLCClassifier, EM2NOLCClassifierCV, per_feature, product

SEARCHES: dict[str, dict[str, Any]] = {
    "tamis": {},
    "tamis_variants": {
        "kernels": {"per_feature": per_feature(), "product": product()},
        "couplings": ("rank_one", "full"),
        "refits": ("logistic",),
        "alphas": (0.003, 0.01, 0.03),
        "rule": "largest",
    },
    "tamis_product": {
        "kernels": product(),
        "bandwidths": (0.3, 0.5, 1.0),
        "alphas": (0.001, 0.01),
        "refits": ("logistic",),
        "rule": "largest",
    },
}


def search(task: flagship.Task, choice: str, k: int | None = None) -> flagship.Fitted:
    budgets = {} if k is None else {"max_instances": k, "max_features": k}
    model = EM2NOLCClassifierCV(
        categorical_features=task.nominal, random_state=task.seed, cv=task.folds(), **SEARCHES[choice], **budgets
    )
    return flagship.fitted(model.fit(task.X, task.y, groups=task.groups))


def untuned(task: flagship.Task) -> flagship.Fitted:
    """Fit once, for tables on which the search takes long."""
    options = {"coupling": "full", "refit": "logistic", "alpha": 0.003, "candidates": 300, "calibration": None}
    model = EM2NOLCClassifier(
        20, 20, **options, categorical_features=task.nominal, engine="dense", random_state=task.seed
    )
    return flagship.fitted(model.fit(task.X, task.y))


def one(method: str, set: str, seed: int) -> Row:
    base, _, size = method.partition("@")
    task, X, y = flagship.split(set, seed, seed)
    if base in SEARCHES:
        model = search(task, base, int(size) if size else None)
    else:
        model = untuned(task) if base == "tamis_fixed" else flagship.fit(method, task)
    accuracy = 100 * float(np.mean(model.predict(X) == y))
    return {"accuracy": accuracy, "cases": model.instances, "features": model.features}


def mean(rows: list[Row], method: str, sets: list[str], seeds: list[int]) -> float:
    """Return the mean accuracy; NaN if rows are missing."""
    found = [r["accuracy"] for r in rows if r["method"] == method and r["set"] in sets and "error" not in r]
    return float(np.mean(found)) if len(found) == len(sets) * len(seeds) else np.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="tamis,tamis_variants,svc,hgb,ebm,abess@20,l1@20")
    parser.add_argument("--sets", default=",".join(THIRTEEN))
    parser.add_argument("--seeds", default="0-4")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    methods, sets, seeds = options.methods.split(","), options.sets.split(","), list(flagship.span(options.seeds))
    rows = measure(
        "em2nolc",
        [{"method": m, "set": name, "seed": seed} for m in methods for name in sets for seed in seeds],
        one,
        options.jobs,
    )
    rows = [row for row in rows if row["seed"] in seeds]
    lines = [[name, *(f"{mean(rows, m, [name], seeds):.1f}" for m in methods)] for name in sets]
    lines.append(["mean", *(f"{mean(rows, m, sets, seeds):.2f}" for m in methods)])
    print(table(["set", *methods], lines))


if __name__ == "__main__":
    main()
