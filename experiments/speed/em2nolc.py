"""Speed as ratios to references measured in the same run, CPU seconds of one thread.

    make bench        (TAMIS_DATA for the pima table; without it a generated table of the same shape)

Prints a Markdown table; the committed one is in benchmarks/README.md.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable

import numpy as np
import sklearn
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import tamis
from experiments.datasets import folder, load
from tamis.data.rows import merge_rows
from tamis.estimators.em2nolc import tasks
from tamis.methods import em2nolc as method


def seconds(action: Callable, repeats: int = 3) -> float:
    """Smallest CPU time of a few repeats."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        action()
        best = min(best, time.process_time() - start)
    return best


def single_fit(X, y) -> tuple[str, float, float]:
    fast = tamis.EM2NOLCClassifier(20, 10, calibration=None)
    slow = tamis.EM2NOLCClassifier(20, 10, calibration=None, solver="paper", max_iter=50, tol=0.0)
    return (
        "one fit on wdbc, 20 x 10: printed algorithm (50 rounds) / splicing",
        seconds(lambda: slow.fit(X, y), 1),
        seconds(lambda: fast.fit(X, y)),
    )


def budget_path(X, y) -> tuple[str, float, float]:
    clf = tamis.EM2NOLCClassifier(20, 20)
    clf._seed = 0
    clf._categorical = []
    rows = clf._rows(X[: 4 * len(X) // 5], y[: 4 * len(X) // 5], None, None)
    prepared = clf._prepare(merge_rows(rows))
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
        seconds(cold, 1),
        seconds(warm, 1),
    )


def search(X, y) -> tuple[str, float, float]:
    grid = {"svc__C": [0.1, 1, 10], "svc__gamma": [0.01, 0.1, 1]}
    svc = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=3)
    ours = tamis.EM2NOLCClassifierCV()
    return (
        "wdbc: EM2NOLCClassifierCV defaults / SVC grid search (9 settings, 3 folds)",
        seconds(lambda: ours.fit(X, y), 1),
        seconds(lambda: svc.fit(X, y), 3),
    )


def prediction(X, y) -> tuple[tuple[str, float, float], float]:
    rng = np.random.default_rng(0)
    many = X[rng.integers(0, len(X), 100_000)] + 1e-3 * rng.normal(size=(100_000, X.shape[1]))
    ours = tamis.EM2NOLCClassifier(10, 5).fit(X, y)
    svc = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    own = seconds(lambda: ours.predict(many), 7)
    name = f"prediction of 10^5 rows (pima): SVC / {len(ours.instances_)} cases x {len(ours.features_)} features"
    return (name, seconds(lambda: svc.predict(many), 1), own), 100_000 / own


def main() -> None:
    warnings.filterwarnings("ignore")
    X, y = load_breast_cancer(return_X_y=True)
    if folder() is None:
        P, q = make_classification(768, 8, n_informative=4, flip_y=0.2, random_state=0)
    else:
        pima = load("pima")
        P, q = pima.X, pima.y
    with threadpool_limits(1):
        rows = [(*single_fit(X, y), "at least 10"), (*budget_path(X, y), "at least 3")]
        rows.append((*search(X, y), "at most 40"))
        line, rate = prediction(P, q)
        rows.append((*line, "at least 20"))
    print(
        f"numpy {np.__version__}, scikit-learn {sklearn.__version__}, Python {platform.python_version()}, one thread\n"
    )
    print("| what | first, CPU s | second, CPU s | ratio | wanted |\n|---|---|---|---|---|")
    for name, first, second, wanted in rows:
        print(f"| {name} | {first:.3f} | {second:.3f} | {first / second:.1f} | {wanted} |")
    print(f"| rows predicted per second on one core | | | {rate:.2e} | at least 1e6 |")


if __name__ == "__main__":
    main()
