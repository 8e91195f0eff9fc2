"""Classifiers on a pool of rows: the model of these rows alone, and what it says of the others."""

from __future__ import annotations

import numpy as np
import pytest

from tamis import IMKPLClassifier, KernelSVMADMM, L0MKLClassifier, all_estimators
from tamis.base.classifier import draw_pool

from small_fits import quick, rows_of

N, POOL = 200, 60
POOLED = [name for name, cls in all_estimators().items() if "pool" in cls().get_params()]
every = pytest.mark.parametrize("name", POOLED)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0.6, "ill", "well")


def test_all_that_hold_matrices_between_rows_and_have_no_landmarks():
    assert {"IMKPLClassifier", "L0MKLClassifier", "L0MKLClassifierCV", "KernelGLVQClassifier"} <= set(POOLED)
    without = [
        n for n, cls in all_estimators("classifier").items() if not {"pool", "landmarks"} & set(cls().get_params())
    ]
    assert not [name for name in without if "MKL" in name and "EM2NOLC" not in name]


@every
def test_the_model_is_that_of_the_drawn_rows(name):
    X, y = rows()
    clf = quick(name).set_params(pool=POOL, random_state=3).fit(X, y)
    order = np.random.default_rng(1).permutation(N)
    again = quick(name).set_params(pool=POOL, random_state=3).fit(X[order], y[order])
    np.testing.assert_allclose(again.decision_function(X), clf.decision_function(X), atol=1e-6)
    assert set(order[again.instances_]) == set(clf.instances_)
    alone = quick(name).set_params(random_state=3)
    drawn = draw_pool(rows_of(alone, X, y), POOL, 3)[0].position
    assert abs(len(drawn) - POOL) <= 1 and set(clf.instances_) <= set(drawn)
    assert np.mean(y[drawn] == "ill") == pytest.approx(np.mean(y == "ill"), abs=0.02)
    alone.fit(X[drawn], y[drawn])
    np.testing.assert_allclose(clf.decision_function(X), alone.decision_function(X), atol=1e-9)
    others = np.setdiff1d(np.arange(N), drawn)
    assert clf.pool_error_ == pytest.approx(np.mean(clf.predict(X[others]) != y[others])) and clf.pool_error_ < 0.5
    assert f"{POOL} training rows" in clf.summary()["pool"]


def test_as_many_rows_as_there_are_is_all_of_them():
    X, y = rows()
    clf = KernelSVMADMM(pool=N, calibration=None).fit(X, y)
    assert not hasattr(clf, "pool_error_") and "pool" not in clf.summary()
    np.testing.assert_array_equal(
        clf.decision_function(X), KernelSVMADMM(calibration=None).fit(X, y).decision_function(X)
    )


def test_rows_of_no_weight_are_not_drawn():
    X, y = rows()
    weight = (np.arange(N) % 2).astype(float)
    clf = KernelSVMADMM(pool=POOL, calibration=None, random_state=0).fit(X, y, sample_weight=weight)
    assert np.all(clf.instances_ % 2 == 1)
    clf.set_params(pool=None).fit(X, y)
    assert not hasattr(clf, "pool_error_")


def test_a_pool_fits_where_all_rows_do_not():
    X, y = rows(2000)
    clf = KernelSVMADMM(memory_limit="60MB", calibration=None)
    with pytest.raises(ValueError, match=r"use pool=\d+, so many rows to learn from, or give at most") as refused:
        clf.fit(X, y)
    most = int(str(refused.value).partition("pool=")[2].partition(",")[0])
    assert clf.set_params(pool=most).fit(X, y).pool_error_ < 0.2
    assert sum(clf.memory_estimate(X, y).values()) <= 60e6
    with pytest.raises(ValueError, match=f"X has 1900 distinct rows.*use pool={most}"):
        clf.set_params(pool=1900).fit(X, y)


@pytest.mark.parametrize("value", [0, 1, 2.5, "all", True])
def test_what_is_no_number_of_rows_is_refused(value):
    with pytest.raises(ValueError, match="pool="):
        L0MKLClassifier(pool=value).fit(*rows())


def test_a_fit_that_fails_leaves_nothing_behind():
    X, y = rows()
    clf = KernelSVMADMM(pool=POOL, memory_limit="1kB", calibration=None)
    with pytest.raises(ValueError, match="memory_limit"):
        clf.fit(X, y)
    assert not any(hasattr(value, "codes") for value in vars(clf).values())


def test_series_are_refused():
    series = np.random.default_rng(0).normal(size=(12, 2, 5))
    with pytest.raises(ValueError, match="pool=6 is for tables, and X holds series: give fewer of them"):
        IMKPLClassifier(pool=6, calibration=None).fit(series, [0, 1] * 6)
