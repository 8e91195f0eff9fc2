"""Speed and memory of l0-MKL on a wide table, as ratios to l1 logistic regression measured in the same run.

    python -m experiments.speed.l0_mkl

lung_cancer (half of its 181 rows, 12 533 columns), with 1/4 and 1/2 of the columns and with 22 000 (columns repeated
with noise). One fit with three rounds; with and without the folds that calibrate probabilities.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from experiments.datasets import load
from experiments.speed.timing import median, peak
from experiments.tables import table
from tamis import L0MKLClassifier


def tables(rng: np.random.Generator):
    data = load("lung_cancer")
    X, _, y, _ = train_test_split(data.X.astype(float), data.y, test_size=0.5, stratify=data.y, random_state=0)
    yield X[:, ::4], y
    yield X[:, ::2], y
    yield X, y
    more = X[:, rng.integers(0, X.shape[1], 22_000 - X.shape[1])]
    yield np.hstack([X, more + 0.1 * X.std(axis=0).mean() * rng.normal(size=more.shape)]), y


def warm(action) -> float:
    """Return the median time of calls after a first one."""
    action()
    return median(action)


def main() -> None:
    lasso = LogisticRegression(C=1.0, l1_ratio=1.0, solver="liblinear")
    fits = {
        "chebyshev": L0MKLClassifier(engine="chebyshev", calibration=None),
        "streaming": L0MKLClassifier(engine="streaming", calibration=None),
        "default, calibrated": L0MKLClassifier(),
    }
    lines = []
    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for X, y in tables(np.random.default_rng(0)):
            Z = StandardScaler().fit_transform(X)
            unit = warm(lambda Z=Z, y=y: lasso.fit(Z, y))
            cells = []
            for model in fits.values():
                took = warm(lambda model=model, X=X, y=y: model.fit(X, y))
                high = peak(lambda model=model, X=X, y=y: model.fit(X, y))
                cells.append(f"{took:.2f} s = {took / unit:.1f} x, {high:.0f} MiB")
            lines.append([f"{X.shape[0]} x {X.shape[1]}", f"{unit:.3f} s", *cells])
    print(table(["rows x columns", "l1 logistic", *fits], lines))


if __name__ == "__main__":
    main()
