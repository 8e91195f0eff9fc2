"""Speed of the multiple-kernel classifiers with their dense linear algebra on a device, against numpy.

    python -m experiments.speed.device_mkl DEVICE [rows ...] [--limit SECONDS] [--only NAME ...]

DEVICE is "cuda", "cuda:1" or "cpu" (by torch). Every classifier is fitted to the same rows, with a dozen kernels, with
device=None (numpy, one thread, as every fit) and on the device. A fit by numpy that would take longer than the limit,
judged by the cube of the rows from the last one, is left out. The last column is the largest difference of decisions on
new rows, relative to the largest decision.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import make_classification

from tamis import AbsentMKLClassifier, IMKPLClassifier, SimpleMKLClassifier, ZeroOneMKLClassifier, bandwidths

COLUMNS = 12
NEW = 1000  # rows for decisions
WARM = 200  # rows of the fits that start the device
WIDTHS = tuple(np.geomspace(0.5, 20.0, 12).tolist())
CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "SimpleMKL": lambda **device: SimpleMKLClassifier(kernels=bandwidths(WIDTHS), calibration=None, **device),
    "L0/1-SVM": lambda **device: ZeroOneMKLClassifier(kernels=bandwidths(WIDTHS), calibration=None, **device),
    "IMKPL": lambda **device: IMKPLClassifier(calibration=None, **device),
    "AbsentMKL": lambda **device: AbsentMKLClassifier(program="mean_margin", calibration=None, **device),
}


def problem(name: str, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows, labels and new rows; a fifth of the cells is missing for AbsentMKL."""
    X, y = make_classification(
        n + NEW, COLUMNS, n_informative=6, n_redundant=2, flip_y=0.05, class_sep=1.0, random_state=0
    )
    if name == "AbsentMKL":
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    return X[:n], y[:n], X[n:]


def timed(name: str, n: int, device: str | None) -> tuple[float, np.ndarray]:
    """Seconds of a fit, and its decisions on new rows."""
    X, y, new = problem(name, n)
    classifier = CLASSIFIERS[name](device=device)
    start = time.perf_counter()
    classifier.fit(X, y)
    return time.perf_counter() - start, classifier.decision_function(new)


def row(name: str, n: int, device: str, by_numpy: bool) -> tuple[str, float | None]:
    """A line of the table, and the seconds of numpy."""
    there, moved = timed(name, n, device)
    if not by_numpy:
        return f"| {name} | {n} | - | {there:.2f} | - | - |", None
    here, plain = timed(name, n, None)
    off = float(np.max(np.abs(moved - plain)) / np.max(np.abs(plain)))
    return f"| {name} | {n} | {here:.2f} | {there:.2f} | {here / there:.1f} | {off:.1e} |", here


def main() -> None:
    """Print the table, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device")
    parser.add_argument("rows", nargs="*", type=int, default=[2000, 4000, 8000])
    parser.add_argument("--limit", type=float, default=120.0)
    parser.add_argument("--only", nargs="+", choices=list(CLASSIFIERS), default=list(CLASSIFIERS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"numpy {np.__version__}, Python {platform.python_version()}, device {given.device}\n")
    print(f"| classifier | rows | numpy, s | {given.device}, s | ratio | largest difference |")
    print("|---|---|---|---|---|---|", flush=True)
    for name in given.only:
        timed(name, WARM, given.device)
        last, seconds = 0, 0.0
        for n in given.rows:
            likely = seconds * (n / last) ** 3 if last else 0.0
            line, taken = row(name, n, given.device, likely <= given.limit)
            last, seconds = (last, seconds) if taken is None else (n, taken)
            print(line, flush=True)


if __name__ == "__main__":
    main()
