"""Speed of absent multiple kernel learning, as ratios to a support vector machine measured in the same run.

    python -m experiments.speed.absent_mkl [--largest 3000]

Rows with 12 channels of 4 features, of which 50 patterns of absence leave 7. The unit is an `SVC` fit (Gaussian kernel)
on the same table with its blanks at the mean; "given" is one on a matrix that is there already. Beside it stand the
solver alone, a fit of the classifier for every program (kernels included, calibration not), the growth with the number
of rows, and the same problem as a conic program, also with channels of one feature, whose kernels have low rank. One
BLAS thread, the least of three times.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from experiments.speed.timing import best
from tamis import AbsentMKLClassifier, per_group
from tamis.methods.absent import solver as absent_mkl
from tamis.methods.absent.conic import solve_conic_program

CHANNELS, WIDTH, PATTERNS, KEPT = 12, 4, 50, 7
SETTINGS = {
    "amkl": {},
    "amkl, share 0.5": {"pattern_weight": "share"},
    "mean_margin": {"program": "mean_margin"},
    "zero_filling": {"program": "zero_filling"},
    "sum": {"program": "sum"},
}


def make(n: int, seed: int = 0, width: int = WIDTH) -> tuple[np.ndarray, np.ndarray]:
    """Three strong channels, three weak ones and noise, with absences."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(n, CHANNELS, width))
    X[:, :3] += 0.5 * y[:, None, None]
    X[:, 3:6, 0] += 0.3 * y[:, None]
    patterns = np.argsort(rng.random((PATTERNS, CHANNELS)), axis=1) < KEPT
    X[~patterns[rng.integers(PATTERNS, size=n)]] = np.nan
    return X.reshape(n, -1), y


def classifier(C: float, width: int = WIDTH, **options) -> AbsentMKLClassifier:
    groups = {f"channel {k}": range(width * k, width * (k + 1)) for k in range(CHANNELS)}
    return AbsentMKLClassifier(C=C, kernels=per_group(groups), calibration=None, **options)


def problem(X: np.ndarray, y: np.ndarray, C: float) -> absent_mkl.Problem:
    """What the solver sees of the default program; the kernels have ones on their diagonals."""
    own = classifier(C, X.shape[1] // CHANNELS)
    own.check_parameters()
    rows = own._rows(own._read_training(X)[0], y, None, None)
    (task,) = own._tasks(own._space().prepare(rows, own.kernels, 0), rough=False)
    polytope = absent_mkl.polytope_of("amkl", task.present, task.cost, np.ones(CHANNELS))
    return absent_mkl.Problem(task.stack, task.y, task.cost, polytope)


def line(n: int, C: float) -> None:
    X, y = make(n)
    task = problem(X, y, C)
    K = task.stack.combine(np.full(CHANNELS, 1.0 / CHANNELS)).dense()
    given = best(lambda: SVC(kernel="precomputed", C=C).fit(K, task.y))
    filled = np.nan_to_num(X)
    unit = best(lambda: SVC(C=C).fit(filled, y))
    solver = best(lambda: absent_mkl.solve(task)) / unit
    cells = [f"{best(lambda o=o: classifier(C, **o).fit(X, y)) / unit:.1f}" for o in SETTINGS.values()]
    print(
        f"| {n} | {C:g} | {1000 * unit:.0f} ms | {given / unit:.2f} | {solver:.1f} | " + " | ".join(cells) + " |",
        flush=True,
    )


def conic(n: int, C: float, width: int = WIDTH) -> None:
    task = problem(*make(n, width=width), C)
    found = absent_mkl.solve(task)
    alternating = best(lambda: absent_mkl.solve(task))
    grams = [task.stack.one(k) for k in range(CHANNELS)]
    start = time.perf_counter()
    reference = solve_conic_program(grams, task.y, task.cost, task.polytope.rows, "weights")
    slow = time.perf_counter() - start
    apart = found.objective / reference.objective - 1
    print(f"| {n} | {width} | {C:g} | {slow / alternating:.0f} | {apart:.0e} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=3000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        print(
            "| rows | C | unit | given | solver | " + " | ".join(SETTINGS) + " |\n" + "|---" * (5 + len(SETTINGS)) + "|"
        )
        for n in (500, 1000, 2000, 3000):
            if n <= options.largest:
                line(n, 1.0)
        for C in (0.1, 10.0, 100.0):
            line(2000, C)
        print("\n| rows | features of a channel | C | conic program over solver | objectives apart |")
        print("|---" * 5 + "|")
        for n in (100, 200, 300):
            conic(n, 1.0)
        conic(300, 10.0)
        conic(300, 1.0, width=1)
        conic(600, 1.0, width=1)
