"""Accuracy and prototypes of IMKPL and its baselines, beside the numbers of its paper.

    python benchmarks/imkpl_accuracy.py [--splits 5] [--sets NAME ...]

Stratified 70/30 splits. IMKPL has the paper's settings where it gives them (T_0, lam, mu, tau) and its own defaults
elsewhere, kappa = 0.1, nothing tuned; costs of machines, the radius of set cover and the prototypes of GLVQ are chosen
on folds of the training part. IP, DR (codes of T_0 prototypes, and of one) and accuracy are those of the paper, on the
test part; "learned" is the kernel that IMKPL learned. Rows go to benchmarks/out/imkpl_accuracy.csv as they finish;
those of other sets stay there, and the table shows all.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.svm import SVC

from experiments.accuracy.l0_mkl import rows_of, write
from experiments.datasets import load
from tamis import IMKPLClassifier, KernelGLVQClassifier, PrototypeSelectionClassifier, alignment
from tamis.shells.classifying import KernelClassifier

PAPER = {  # [Hosseini2019], Tables 2 and 3: accuracy, IP, DR, kernels
    "tox_171": {"IMKPL": (97.21, 95, 89, 72), "ISKPL": (88.07, 93, 79), "set cover": (82.47, 80), "GLVQ": (86.21, 76)},
    "isolet": {"IMKPL": (97.75, 96, 90, 141), "ISKPL": (90.11, 94, 81), "set cover": (86.36, 84), "GLVQ": (88.32, 78)},
    "utkinect": {"IMKPL": (98.82, 96, 91, 14), "ISKPL": (90.32, 92, 82), "set cover": (85.89, 79), "GLVQ": (88.75, 77)},
}
SETTINGS = {"tox_171": (18, 0.1, 0.3, 0.1), "isolet": (20, 0.2, 0.2, 0.3), "utkinect": (5, 0.1, 0.1, 0.2)}
SETS = ("wine", "digits", "tox_171", "utkinect", "japanese_vowels", "isolet")
COSTS = np.logspace(-1, 3, 9)
OUT = Path(__file__).parent / "out" / "imkpl_accuracy.csv"
COLUMNS = ("accuracy", "accuracy_at_one", "interpretability", "discrimination", "discrimination_at_one", "kernels")


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "wine":
        return load_wine(return_X_y=True)
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X[:600], y[:600]
    found = load(name)
    return np.log2(found.X + 1) if name == "tox_171" else found.X, found.y


def machine(K: np.ndarray, y: np.ndarray, K_new: np.ndarray, truth: np.ndarray) -> dict:
    search = GridSearchCV(SVC(kernel="precomputed"), {"C": COSTS}, cv=StratifiedKFold(3, shuffle=True, random_state=0))
    return {"accuracy": 100 * search.fit(K, y).score(K_new, truth)}


def nearest(y: np.ndarray, K_new: np.ndarray, truth: np.ndarray) -> dict:
    return {"accuracy": 100 * float(np.mean(y[np.argmax(K_new, axis=1)] == truth))}


def prototypes(clf: KernelClassifier, X: np.ndarray, y: np.ndarray, new: np.ndarray, truth: np.ndarray) -> dict:
    clf.fit(X, y)
    return clf.prototype_measures(new, truth) | {"kernels": len(clf.kernels_), "prototypes": len(clf.prototypes_)}


def searched(clf: KernelClassifier, grid: dict, X: np.ndarray, y: np.ndarray) -> KernelClassifier:
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    best = GridSearchCV(clf, grid, cv=folds, error_score="raise").fit(X, y).best_params_
    return clf.set_params(**best)


def one(name: str, seed: int, cache: str) -> Iterator[dict]:
    """All methods on one split."""
    X, y = data(name)
    train, test = next(StratifiedShuffleSplit(1, test_size=0.3, random_state=seed).split(X[:, 0], y))
    parts = X[train], y[train], X[test], y[test]
    kernels = alignment(cache=cache) if X.ndim == 3 else None
    settings = SETTINGS.get(name, ())
    fits = {
        "IMKPL": IMKPLClassifier(*settings, kernels=kernels, calibration=None),
        "IMKPL, random start": IMKPLClassifier(*settings, kernels=kernels, start="random", calibration=None),
        "graph": IMKPLClassifier(*settings, kernels=kernels, weight_step="graph", calibration=None),
        "ISKPL": IMKPLClassifier(*settings, kernels=kernels, weight_step="uniform", calibration=None),
    }
    for method, clf in fits.items():
        start = time.perf_counter()
        yield {"method": method, **prototypes(clf, *parts), "seconds": time.perf_counter() - start}
    for method, clf in (("learned", fits["IMKPL"]), ("mean", fits["ISKPL"])):
        K, K_new = clf.kernel_matrix(X[train]), clf.kernel_matrix(X[test], X[train])
        yield {"method": f"SVC, {method} kernel", **machine(K, y[train], K_new, y[test])}
        yield {"method": f"1-NN, {method} kernel", **nearest(y[train], K_new, y[test])}
    cover = PrototypeSelectionClassifier(kernels=kernels, calibration=None)
    cover = searched(cover, {"radius": [0.02, 0.05, 0.1, 0.2, 0.4]}, *parts[:2])
    yield {"method": "set cover", **prototypes(cover, *parts)}
    vectors = searched(KernelGLVQClassifier(kernels=kernels, calibration=None), {"n_prototypes": [1, 3, 5]}, *parts[:2])
    yield {"method": "GLVQ", **prototypes(vectors, *parts)}


def cell(rows: list[dict], column: str) -> str:
    values = [float(row[column]) for row in rows if row[column]]
    if not values:
        return "-"
    if column == "accuracy" and len(values) > 1:
        return f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"
    return f"{np.mean(values):.1f}" if column != "kernels" else f"{np.mean(values):.0f}"


def show(rows: list[dict], name: str) -> None:
    part = [row for row in rows if row["set"] == name]
    print(f"\n{name}\n| method | Acc | Acc at one | IP | DR | DR at one | kernels | paper: Acc, IP, DR, kernels |")
    for method in dict.fromkeys(row["method"] for row in part):
        own = [row for row in part if row["method"] == method]
        told = ", ".join(map(str, PAPER.get(name, {}).get(method, ()))) or "-"
        print("|", " | ".join([method, *(cell(own, column) for column in COLUMNS), told]), "|", flush=True)


def main(splits: int, names: list[str]) -> None:
    OUT.parent.mkdir(exist_ok=True)
    fields = ("set", "split", "method", *COLUMNS, "prototypes", "seconds")
    with TemporaryDirectory() as cache, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            rows = [row for row in rows_of(OUT) if row["set"] != name]
            for seed in range(splits):
                for found in one(name, seed, cache):
                    row = {"set": name, "split": seed, **found}
                    rows.append({field: row.get(field, "") for field in fields})
                    write(OUT, rows)
            show(rows_of(OUT), name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    options = parser.parse_args()
    main(options.splits, options.sets)
