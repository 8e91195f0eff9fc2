"""Real tables, where they are at hand (the full grids are benchmarks)."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from tamis import EM2NOLCClassifier, EM2NOLCClassifierCV


def load(folder, name, rows=200):
    raw = np.load(folder / "p1" / f"{name}.npz", allow_pickle=False)
    X, y = raw["X"].astype(float), raw["y"]
    if len(X) > rows:
        X, _, y, _ = train_test_split(X, y, train_size=rows, stratify=y, random_state=0)
    return X, y


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["pima", "heart_statlog", "ckd", "wdbc", "spectf", "praf"])
def test_splicing_ends_lowest_in_most_cells_and_below_the_zero_model(data_folder, name):
    X, y = load(data_folder, name)
    wins = []
    for bandwidth, budgets in ((0.3, (5, 3)), (1.0, (10, 5)), (3.0, (20, 10))):
        ends = {}
        for solver, rounds in (("splicing", 50), ("admm", 50), ("paper", 3)):  # it does not come down with more
            options = {"bandwidth": bandwidth, "alpha": 0.001, "calibration": None}
            clf = EM2NOLCClassifier(*budgets, solver=solver, max_iter=rounds, **options)
            ends[solver] = clf.fit(X, y).objective_
            if solver == "splicing":
                assert np.all(np.diff(clf.history_.objective) <= 1e-9 * clf.history_.objective[0])
                assert clf.objective_ < clf.history_.objective[0]
        wins.append(ends["splicing"] <= min(ends.values()) * (1 + 1e-9))
        assert ends["splicing"] <= 1.02 * min(ends.values()), ends
    assert sum(wins) >= 2


def test_missing_cells_and_a_full_search(data_folder):
    X, y = load(data_folder, "ckd", rows=250)
    train, test = np.arange(0, 250, 2), np.arange(1, 250, 2)
    clf = EM2NOLCClassifierCV(8, 8, cv=3, bandwidths=(1.0,)).fit(X[train], y[train])
    assert clf.score(X[test], y[test]) > 0.93 and len(clf.features_) <= 8


def test_admm_lands_on_the_hard_margin_of_pima(data_folder):
    from tamis.kernels.bank import Channel, KernelBank
    from tamis.kernels.base import Gaussian
    from tamis.methods.zero_one import solver as l01_svm
    from tamis.optim.driver import Status

    raw = np.load(data_folder / "p1" / "pima.npz")
    X, y = raw["X"][:400].astype(float), np.where(raw["y"][:400] == np.unique(raw["y"])[1], 1.0, -1.0)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    bank = KernelBank(tuple(Channel(f"w{w}", Gaussian(w), tuple(range(8))) for w in (0.3, 0.5, 1.0, 2.0)))
    problem = l01_svm.Problem(bank.stack(Z, form="dense"), y, np.full(400, 16.0))
    by_admm = l01_svm.solve(problem, solver="admm")
    assert by_admm.status is Status.HARD_MARGIN
    dropped = l01_svm.solve(problem, solver="drop_and_refit")
    assert by_admm.objective == pytest.approx(dropped.objective, rel=1e-2)
