"""Accuracy of the multiple-kernel classifiers on the six real datasets of [Zhu2023], with its numbers.

    python -m experiments.accuracy.mkl [dataset ...]

Five random 70/30 splits. Every method is tuned on three folds of the training part (calibration=None: the methods' own
intercepts). Rows are kept in experiments/out.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split

from experiments.accuracy.rows import Row, measure
from experiments.datasets import load
from experiments.papers import PAPERS
from experiments.peers import COSTS
from experiments.tables import spread, table
from tamis import AverageMKLClassifier, EasyMKLClassifier, SimpleMKLClassifier, ZeroOneMKLClassifier, bandwidths
from tamis.workflow import peers

PAPER = PAPERS["l01-svm"]
SETS = tuple(name for name in PAPER.datasets if name != "quadrants")
PUBLISHED = ("SimpleMKL on 10 (d + 1) kernels", "MKL-L0/1-SVM")
SPLITS = 5
STEPS = [{"C": [ratio * rho1], "rho1": [rho1]} for ratio in (2.0, 8.0, 64.0) for rho1 in (0.25, 1.0, 4.0)]


def methods(nominal: np.ndarray) -> dict[str, tuple[Any, Any]]:
    plain: dict[str, Any] = {"calibration": None}
    l01, both = {"max_iter": 300, **plain}, bandwidths(on="both")
    return {
        "0/1 best": (ZeroOneMKLClassifier(**l01), STEPS),
        "0/1 admm": (ZeroOneMKLClassifier(solver="admm", **l01), STEPS),
        "0/1 printed": (ZeroOneMKLClassifier(solver="admm", d_step="paper", **l01), STEPS),
        "SimpleMKL": (SimpleMKLClassifier(tol=1e-2, **plain), {"C": COSTS}),
        "SimpleMKL both": (SimpleMKLClassifier(kernels=both, tol=1e-2, **plain), {"C": COSTS}),
        "EasyMKL both": (EasyMKLClassifier(kernels=both, **plain), {"C": COSTS, "lam": (0.1, 0.9)}),
        "AverageMKL": (AverageMKLClassifier(**plain), {"C": COSTS}),
        "SVC": (peers.svc(nominal), {"svc__C": COSTS, "svc__gamma": np.logspace(-3, 0, 7)}),
        "majority": (DummyClassifier(), {}),
    }


def one(set: str, method: str, split: int) -> Row:
    data = load(set)
    model, grid = methods(data.nominal)[method]
    a, b, ya, yb = train_test_split(data.X, data.y, test_size=0.3, random_state=split, stratify=data.y)
    search = GridSearchCV(model, grid, cv=StratifiedKFold(3, shuffle=True, random_state=split))
    return {"accuracy": 100 * search.fit(a, ya).score(b, yb)}


def main(names: list[str]) -> None:
    columns = list(methods(np.zeros(1, dtype=bool)))
    cells = [{"set": name, "method": m, "split": k} for name in names for m in columns for k in range(SPLITS)]
    rows = measure("mkl", cells, one, 2)
    lines = []
    for name in names:
        own = [[r["accuracy"] for r in rows if (r["set"], r["method"]) == (name, m)] for m in columns]
        published = [PAPER.published[name, method, "accuracy"].value for method in PUBLISHED]
        lines.append([name, *map(spread, own), *published])
    print(table(["set", *columns, "paper: SimpleMKL", "paper: 0/1"], lines))


if __name__ == "__main__":
    main(sys.argv[1:] or list(SETS))
