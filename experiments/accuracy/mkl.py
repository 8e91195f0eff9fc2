"""Accuracy of the multiple-kernel classifiers on the six real datasets of paper 002, beside its numbers.

    python benchmarks/mkl_accuracy.py [dataset ...]

Five random 70/30 splits; every method is tuned by three folds of the training part (calibration=None: the
methods' own intercepts). The majority class and a tuned SVC are in the table, as they should be in the paper's.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from experiments.datasets import load
from tamis import AverageMKLClassifier, EasyMKLClassifier, SimpleMKLClassifier, ZeroOneMKLClassifier, bandwidths

SETS = ("ilpd_579", "wpbc", "pima", "ionosphere", "sonar", "haberman")
PAPER = {  # [Zhu2023], Table 2: SimpleMKL, MKL-L0/1-SVM
    "ilpd_579": (71.26, 71.38),
    "wpbc": (76.58, 76.75),
    "pima": (75.04, 75.58),
    "ionosphere": (91.13, 90.47),
    "sonar": (78.81, 75.79),
    "haberman": (73.70, 73.37),
}
COSTS = (0.1, 1.0, 10.0, 100.0)
STEPS = [{"C": [ratio * rho1], "rho1": [rho1]} for ratio in (2.0, 8.0, 64.0) for rho1 in (0.25, 1.0, 4.0)]


def methods() -> dict:
    plain = {"calibration": None}
    l01 = {"max_iter": 300, **plain}
    both = bandwidths(on="both")
    return {
        "0/1 best": (ZeroOneMKLClassifier(**l01), STEPS),
        "0/1 admm": (ZeroOneMKLClassifier(solver="admm", **l01), STEPS),
        "0/1 paper": (ZeroOneMKLClassifier(solver="admm", d_step="paper", **l01), STEPS),
        "SimpleMKL": (SimpleMKLClassifier(tol=1e-2, **plain), {"C": COSTS}),
        "SimpleMKL both": (SimpleMKLClassifier(kernels=both, tol=1e-2, **plain), {"C": COSTS}),
        "EasyMKL both": (EasyMKLClassifier(kernels=both, **plain), {"C": COSTS, "lam": (0.1, 0.9)}),
        "AverageMKL": (AverageMKLClassifier(**plain), {"C": COSTS}),
        "SVC": (
            make_pipeline(StandardScaler(), SVC()),
            {"svc__C": COSTS, "svc__gamma": list(np.logspace(-3, 0, 7))},
        ),
        "majority": (DummyClassifier(), {}),
    }


def one(data, method: str, seed: int) -> float:
    model, grid = methods()[method]
    X = data.X
    if method in ("SVC", "majority") and np.isnan(X).any():
        X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    a, b, ya, yb = train_test_split(X, data.y, test_size=0.3, random_state=seed, stratify=data.y)
    with warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
        warnings.simplefilter("ignore")
        search = GridSearchCV(model, grid, cv=StratifiedKFold(3, shuffle=True, random_state=seed))
        return 100 * search.fit(a, ya).score(b, yb)


def main(names) -> None:
    columns = list(methods())
    print("set".ljust(12), *(c.rjust(15) for c in columns), "paper Simple".rjust(13), "paper 0/1".rjust(10))
    for name in names:
        data = load(name)
        jobs = [(method, seed) for method in columns for seed in range(5)]
        scores = Parallel(n_jobs=2)(delayed(one)(data, method, seed) for method, seed in jobs)
        table = np.array(scores).reshape(len(columns), 5)
        cells = [f"{row.mean():.1f} +- {row.std(ddof=1):.1f}".rjust(15) for row in table]
        print(name.ljust(12), *cells, f"{PAPER[name][0]:13.2f} {PAPER[name][1]:10.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or SETS)
