"""Accuracy and prototypes of IMKPL and its baselines, with the numbers of [Hosseini2019].

    python -m experiments.accuracy.imkpl [--splits 5] [--sets NAME ...]

Stratified 70/30 splits. IMKPL has the paper's settings where it gives them (T_0, lam, mu, tau) and its own defaults
elsewhere, kappa = 0.1, nothing tuned. Costs of support vector classifiers, the radius of set cover and the prototypes
of GLVQ are chosen on folds of the training part. IP, DR (codes of T_0 prototypes, and of one) and accuracy are those of
the paper, on the test part; "learned" is the kernel that IMKPL learned. Rows are kept in experiments/out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.svm import SVC

from experiments.accuracy.rows import Row, measure
from experiments.datasets import cache_folder, load
from experiments.papers import PAPERS
from experiments.papers.imkpl import SETTINGS
from experiments.tables import spread, table
from tamis import IMKPLClassifier, KernelGLVQClassifier, PrototypeSelectionClassifier, alignment

PAPER = PAPERS["imkpl"]
SETS = ("wine", "digits", "tox_171", "utkinect", "japanese_vowels", "isolet")
MAX_ROWS = 600  # of digits
NAMES = {"GLVQ": "AKGLVQ"}  # methods that have another name in the paper
COLUMNS = ("accuracy", "accuracy_at_one", "interpretability", "discrimination", "discrimination_at_one", "n_kernels")
HEAD = ("set", "method", "Acc", "Acc at one", "IP", "DR", "DR at one", "kernels", "paper: Acc, IP, DR, kernels")
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def parts(name: str, split: int) -> Parts:
    data = load(name)
    X, y = (data.X[:MAX_ROWS], data.y[:MAX_ROWS]) if name == "digits" else (data.X, data.y)
    train, test = next(StratifiedShuffleSplit(1, test_size=0.3, random_state=split).split(X[:, 0], y))
    return X[train], y[train], X[test], y[test]


def tuned(model: Any, grid: dict, X: np.ndarray, y: np.ndarray) -> Any:
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    return GridSearchCV(model, grid, cv=folds, error_score="raise").fit(X, y).best_estimator_


def on_kernel(clf: IMKPLClassifier, name: str, X: np.ndarray, y: np.ndarray, new: np.ndarray, truth: np.ndarray) -> Row:
    K, K_new = clf.kernel_matrix(X), clf.kernel_matrix(new, X)
    machine = tuned(SVC(kernel="precomputed"), {"C": np.logspace(-1, 3, 9)}, K, y)
    nearest = y[np.argmax(K_new, axis=1)]
    return {
        f"SVC, {name} kernel": {"accuracy": 100 * machine.score(K_new, truth)},
        f"1-NN, {name} kernel": {"accuracy": 100 * float(np.mean(nearest == truth))},
    }


def one(set: str, split: int) -> Row:
    """Return the measures of all methods on one split, which share kernels."""
    X, y, new, truth = parts(set, split)
    folder = cache_folder() / "alignments"
    folder.mkdir(parents=True, exist_ok=True)
    own = {"kernels": alignment(cache=folder) if X.ndim == 3 else None, "calibration": None}
    settings = SETTINGS.get(set, ())
    fits: dict[str, Any] = {
        "IMKPL": IMKPLClassifier(*settings, **own).fit(X, y),
        "IMKPL, random start": IMKPLClassifier(*settings, start="random", **own).fit(X, y),
        "graph": IMKPLClassifier(*settings, weight_step="graph", **own).fit(X, y),
        "ISKPL": IMKPLClassifier(*settings, weight_step="uniform", **own).fit(X, y),
        "set cover": tuned(PrototypeSelectionClassifier(**own), {"radius": [0.02, 0.05, 0.1, 0.2, 0.4]}, X, y),
        "GLVQ": tuned(KernelGLVQClassifier(**own), {"n_prototypes": [1, 3, 5]}, X, y),
    }
    found = {method: fit.prototype_measures(new, truth) for method, fit in fits.items()}
    for name, method in (("learned", "IMKPL"), ("mean", "ISKPL")):
        found |= on_kernel(fits[method], name, X, y, new, truth)
    return {"measures": {m: {k: float(v) for k, v in own.items() if k in COLUMNS} for m, own in found.items()}}


def lines(rows: list[Row], name: str) -> Iterator[list[str]]:
    own = [row["measures"] for row in rows if row["set"] == name and "error" not in row]
    for method in own[0] if own else ():
        cells = []
        for column in COLUMNS:
            values = [found[method][column] for found in own if column in found[method]]
            plain = f"{np.mean(values):.{0 if column == 'n_kernels' else 1}f}" if values else "-"
            cells.append(spread(values) if column == "accuracy" else plain)
        known = [PAPER.reported(name, NAMES.get(method, method), m) for m in ("accuracy", "ip", "dr", "n_kernels")]
        yield [name, method, *cells, ", ".join(f"{number.value:g}" for number in known if number) or "-"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    options = parser.parse_args()
    rows = measure("imkpl", [{"set": s, "split": k} for s in options.sets for k in range(options.splits)], one)
    print(table(HEAD, [line for name in SETS for line in lines(rows, name)]))


if __name__ == "__main__":
    main()
