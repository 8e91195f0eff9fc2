"""Speed as ratios to references measured in the same run, CPU seconds of one thread.

    make bench        (TAMIS_DATA for the pima table; without it a generated table of the same shape)

Prints a Markdown table; the committed one is in experiments/README.md.
"""

from __future__ import annotations

import warnings
from time import process_time

import numpy as np
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import tamis
from experiments.datasets import data_folder, load
from experiments.speed.timing import best, versions
from experiments.tables import table
from tamis.base.kernel_space import KernelSpace
from tamis.methods.em2nolc import solver as method
from tamis.methods.em2nolc.estimator import tasks
from tamis.table.rows import merge_rows


def single_fit(X, y) -> tuple[str, float, float]:
    fast = tamis.EM2NOLCClassifier(20, 10, calibration=None)
    slow = tamis.EM2NOLCClassifier(20, 10, calibration=None, solver="paper", max_iter=50, tol=1e-300)  # all iterations
    return (
        "one fit on wdbc, 20 x 10: printed algorithm (50 rounds) / splicing",
        best(lambda: slow.fit(X, y), 1, process_time),
        best(lambda: fast.fit(X, y), 3, process_time),
    )


def budget_path(X, y) -> tuple[str, float, float]:
    clf, n = tamis.EM2NOLCClassifier(20, 20), 4 * len(X) // 5
    rows = clf._rows(clf._read_training(X[:n])[0], y[:n], None, None)
    space = KernelSpace(tamis.per_feature(), "auto", "standard", "absent", max_features=20, candidates=None)
    prepared = space.prepare(merge_rows(rows), None, 0)
    grid = [(i, f) for f in range(1, 21) for i in range(1, 21)]

    def cold() -> None:
        for pair in grid:
            (task,) = tasks(prepared, 0.01, pair, False, thorough=False)
            method.solve(task, tol=1e-3)

    def warm() -> None:
        (task,) = tasks(prepared, 0.01, (1, 1), False, thorough=False)
        method.path(task, grid)

    return (
        "20 x 20 budgets on one fold of wdbc: 400 cold fits (cheap search) / path",
        best(cold, 1, process_time),
        best(warm, 1, process_time),
    )


def search(X, y) -> tuple[str, float, float]:
    grid = {"svc__C": [0.1, 1, 10], "svc__gamma": [0.01, 0.1, 1]}
    svc = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=3)
    ours = tamis.EM2NOLCClassifierCV()
    return (
        "wdbc: EM2NOLCClassifierCV defaults / SVC grid search (9 settings, 3 folds)",
        best(lambda: ours.fit(X, y), 1, process_time),
        best(lambda: svc.fit(X, y), 3, process_time),
    )


def prediction(X, y) -> tuple[tuple[str, float, float], float]:
    rng = np.random.default_rng(0)
    many = X[rng.integers(0, len(X), 100_000)] + 1e-3 * rng.normal(size=(100_000, X.shape[1]))
    ours = tamis.EM2NOLCClassifier(10, 5).fit(X, y)
    svc = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    own = best(lambda: ours.predict(many), 7, process_time)
    name = f"prediction of 10^5 rows (pima): SVC / {len(ours.instances_)} cases x {len(ours.features_)} features"
    return (name, best(lambda: svc.predict(many), 1, process_time), own), 100_000 / own


def main() -> None:
    warnings.filterwarnings("ignore")
    X, y = load_breast_cancer(return_X_y=True)
    if data_folder() is None:
        P, q = make_classification(768, 8, n_informative=4, flip_y=0.2, random_state=0)
    else:
        pima = load("pima")
        P, q = pima.X, pima.y
    with threadpool_limits(1):
        rows = [(*single_fit(X, y), "at least 10"), (*budget_path(X, y), "at least 3")]
        rows.append((*search(X, y), "at most 40"))
        line, rate = prediction(P, q)
        rows.append((*line, "at least 20"))
    print(f"{versions()}, one thread\n")
    lines = [[name, f"{a:.3f}", f"{b:.3f}", f"{a / b:.1f}", wanted] for name, a, b, wanted in rows]
    lines.append(["rows predicted per second on one core", "", "", f"{rate:.2e}", "at least 1e6"])
    print(table(["what", "first, CPU s", "second, CPU s", "ratio", "wanted"], lines))


if __name__ == "__main__":
    main()
