"""Missing cells: kernels that are absent, or cells that are filled in?

    python benchmarks/missing_cells.py [--splits 5] [--sets NAME ...]

ckd has 1012 missing cells of its own; in wdbc and heart_statlog three cells in ten are taken away at random.
Stratified 70/30 splits; nothing is tuned, every classifier has its defaults with a kernel on each feature. "absent"
and "median" are values of the parameter `missing`; the others are imputers before the classifier. An entry is accuracy
in per cent and log-loss on the test part, means over splits. Rows go to benchmarks/out/missing_cells.csv as they
finish; those that are there already are not run again.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.impute import KNNImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline

from experiments.accuracy.l0_mkl import rows_of, write
from experiments.datasets import load
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
GONE = 0.3
TREATMENTS = ("absent", "median", "EM", "neighbours")
OUT = Path(__file__).parent / "out" / "missing_cells.csv"


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    found = load(name)
    X = found.X.copy()
    if name != "ckd":
        X[np.random.default_rng(0).random(X.shape) < GONE] = np.nan
    return X, found.y


def classifiers(missing: str) -> dict[str, ClassifierMixin]:
    own = {"missing": missing, "random_state": 0}
    return {
        "EM2NOLCClassifier": EM2NOLCClassifier(10, 10, **own),
        "L0MKLClassifier": L0MKLClassifier(**own),
        "SimpleMKLClassifier": SimpleMKLClassifier(kernels=per_feature(), **own),
        "ZeroOneMKLClassifier": ZeroOneMKLClassifier(kernels=per_feature(), **own),
        "AbsentMKLClassifier": AbsentMKLClassifier(pattern_weight="share", **own),
        "AbsentMKLClassifier, sum": AbsentMKLClassifier(program="sum", **own),
    }


def run(name: str, splits: int) -> None:
    X, y = table(name)
    done = {(row["set"], row["method"], row["treatment"], row["split"]) for row in rows_of(OUT)}
    splitter = StratifiedShuffleSplit(splits, test_size=0.3, random_state=0)
    for split, (train, test) in enumerate(splitter.split(X, y)):
        for treatment in TREATMENTS:
            own = treatment if treatment in ("absent", "median") else "absent"
            imputer = {"EM": GaussianImputer(), "neighbours": KNNImputer()}.get(treatment)
            for method, model in classifiers(own).items():
                if (name, method, treatment, str(split)) in done:
                    continue
                start = time.perf_counter()
                whole = model if imputer is None else make_pipeline(imputer, model)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    whole.fit(X[train], y[train])
                    right, loss = whole.score(X[test], y[test]), log_loss(y[test], whole.predict_proba(X[test]))
                row = {"set": name, "method": method, "treatment": treatment, "split": split}
                write(OUT, [*rows_of(OUT), row | {"accuracy": 100 * right, "log_loss": loss}])
                print(
                    name, split, treatment, method, f"{100 * right:.1f} {time.perf_counter() - start:.1f} s", flush=True
                )


def shown() -> str:
    rows = rows_of(OUT)
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows):
        lines += ["", f"| {name} | " + " | ".join(TREATMENTS) + " |", "|---" * (len(TREATMENTS) + 1) + "|"]
        for method in dict.fromkeys(row["method"] for row in rows):
            cells = []
            for treatment in TREATMENTS:
                part = [r for r in rows if (r["set"], r["method"], r["treatment"]) == (name, method, treatment)]
                accuracy, loss = (np.mean([float(r[k]) for r in part]) for k in ("accuracy", "log_loss"))
                cells.append(f"{accuracy:.1f}, {loss:.3f}")
            lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    options = parser.parse_args()
    OUT.parent.mkdir(exist_ok=True)
    for name in options.sets:
        run(name, options.splits)
    print(shown())
