"""Speed and memory of IMKPL, as ratios to a machine on the mean kernel measured in the same run.

    python -m experiments.speed.imkpl [tox_171] [isolet]

The unit is the mean kernel plus a search over 12 costs of an SVC on it with 3 folds. Beside it stand one fit (kernels
included, without calibration folds), where its time goes, its memory above the data, a grid of six settings that share
their kernels against six fits, and the prediction of 1000 rows against that of an SVC on the same learned kernel.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import defaultdict
from contextlib import contextmanager

import numpy as np
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from experiments.datasets import load
from experiments.papers.imkpl import SETTINGS
from experiments.speed.timing import best, peak
from tamis import IMKPLClassifier
from tamis.base.prototypes import PrototypeClassifier
from tamis.methods.imkpl import solver as imkpl

SETS = ("tox_171", "isolet")
COSTS = np.logspace(-2, 3, 12)
KAPPAS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
NEW_ROWS = 1000


@contextmanager
def timed_steps():
    """Seconds of each step, by name, as they add up."""
    seconds: dict[str, float] = defaultdict(float)
    places = [
        (PrototypeClassifier, "_ready", "kernels"),
        (imkpl, "start", "start"),
        (imkpl, "code_step", "codes"),
        (imkpl, "prototype_step", "prototypes"),
        (imkpl, "weight_step", "weights"),
    ]

    def wrapped(function, label):
        def call(*args, **kwargs):
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                seconds[label] += time.perf_counter() - start

        return call

    before = [(owner, name, getattr(owner, name)) for owner, name, _ in places]
    for owner, name, label in places:
        setattr(owner, name, wrapped(getattr(owner, name), label))
    try:
        yield seconds
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def reference(X: np.ndarray, y: np.ndarray) -> None:
    """The mean kernel, and the search for a cost on it."""
    mean = IMKPLClassifier(weight_step="uniform", calibration=None)
    mean.check_parameters()
    rows = mean._rows(mean._read_training(X)[0], y, None, None)
    K = mean._ready(rows, None, 0).rows.mean
    GridSearchCV(SVC(kernel="precomputed"), {"C": COSTS}, cv=3).fit(K, y)


def grid(X: np.ndarray, y: np.ndarray, settings: tuple) -> None:
    """Six settings that share kernels."""
    first = IMKPLClassifier(*settings, calibration=None)
    ready = first._ready(first._rows(first._read_training(X)[0], y, None, None), None, 0)
    with threadpool_limits(1, user_api="blas"):  # as in a fit
        for kappa in KAPPAS:
            each = IMKPLClassifier(*settings, kappa=kappa, calibration=None)
            each._find(ready)


def report(name: str) -> None:
    data = load(name)
    X, Z, y, _ = train_test_split(data.X, data.y, test_size=0.3, stratify=data.y, random_state=0)
    clf = IMKPLClassifier(*SETTINGS[name], calibration=None)
    unit = best(lambda: reference(X, y))
    fit = best(lambda: clf.fit(X, y))
    with timed_steps() as steps:
        start = time.perf_counter()
        clf.fit(X, y)
        total = time.perf_counter() - start
    print(f"\n{name}: {len(X)} rows, {X.shape[1]} kernels, {len(np.unique(y))} classes, {clf.n_iter_} rounds")
    print(f"  mean kernel and search on it {unit:.2f} s; one fit {fit:.2f} s = {fit / unit:.1f} x")
    shares = ", ".join(f"{label} {100 * took / total:.0f}%" for label, took in steps.items())
    print(f"  share of time: {shares}, rest {100 * (1 - sum(steps.values()) / total):.0f}%")
    print(f"  memory of a fit: {peak(lambda: clf.fit(X, y)):.0f} MiB")
    shared = best(lambda: grid(X, y, SETTINGS[name]), 1)
    apart = best(lambda: [IMKPLClassifier(*SETTINGS[name], kappa=k, calibration=None).fit(X, y) for k in KAPPAS], 1)
    print(f"  six settings of kappa: {shared:.2f} s with shared kernels, {apart:.2f} s apart")
    predictions(clf, X, y, Z[np.random.default_rng(0).integers(0, len(Z), NEW_ROWS)])


def predictions(clf: IMKPLClassifier, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> None:
    machine = SVC(kernel="precomputed", C=10).fit(clf.kernel_matrix(X), y)
    support = machine.support_
    K = np.zeros((len(new), len(X)))

    def by_machine():
        K[:, support] = clf.kernel_matrix(new, X[support])
        machine.predict(K)

    ours, theirs = best(lambda: clf.predict(new), 5), best(by_machine, 5)
    values = clf._similarity(new)
    codes, alone = best(lambda: clf.model_.expansion.codes(values), 5), best(lambda: machine.predict(K), 5)
    print(
        f"  prediction of {len(new)} rows {1e3 * ours:.0f} ms, by an SVC on the learned kernel ({len(support)} support"
    )
    print(f"  vectors) {1e3 * theirs:.0f} ms, ratio {ours / theirs:.2f}; the same from given kernel values")
    print(f"  {1e3 * codes:.0f} and {1e3 * alone:.0f} ms, ratio {codes / alone:.2f}", flush=True)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for chosen in sys.argv[1:] or SETS:
            report(chosen)
