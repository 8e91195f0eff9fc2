"""Splits, folds and the kernels of folds."""

from __future__ import annotations

from functools import partial

import numpy as np

from experiments import problem
from experiments.method import on_kernels, points
from experiments.problem import Problem, holdout, limited
from tamis import AverageMKLClassifier, bandwidths

from small_experiments import planted


def test_each_fold_is_computed_once_for_all_settings_and_methods(monkeypatch):
    made = []
    compute = problem._stack
    monkeypatch.setattr(problem, "_stack", lambda *a: made.append((a[2].tobytes(), a[3].tobytes())) or compute(*a))
    here = planted()
    make = partial(AverageMKLClassifier, calibration=None)
    for _ in range(2):
        on_kernels(here, make, points(C=(0.1, 1.0, 10.0)), "ten", bandwidths())
    assert len(made) == len(set(made)) == 3 + 2  # folds, training rows, test rows


def test_kernels_are_scaled_by_the_rows_of_the_fold():
    here = planted()
    fit, rows = np.arange(20), np.arange(40)
    found = here.stack("one", bandwidths(1.0), fit, rows, rows).values
    Z = (here.X - here.X[:20].mean(axis=0)) / here.X[:20].std(axis=0)
    low, high = Z[:20].min(axis=0), Z[:20].max(axis=0)
    Z = np.clip(Z, low, high)[:40]
    expected = np.exp(-((Z[:, None] - Z) ** 2).sum(axis=2) / 2)
    np.testing.assert_allclose(found[0], expected, atol=1e-9)


def test_missing_channels_are_nan():
    here = planted(missing=True)
    rows = np.arange(40)
    found = here.stack("one", bandwidths(1.0, on="each"), rows, rows, rows, whole=True).values
    lacking = np.isnan(here.X[:40])
    for k in range(3):
        np.testing.assert_array_equal(np.isnan(found[k]), lacking[:, [k]] | lacking[:, k])


def test_groups_stay_on_one_side():
    rng = np.random.default_rng(1)
    groups, y = np.repeat(np.arange(20), 5), np.repeat(rng.integers(0, 2, 20), 5)
    for seed in range(5):
        train, test = holdout(y, groups, 0.3, seed)
        assert not set(groups[train]) & set(groups[test]) and len(train) + len(test) == 100
        assert set(y[train]) == set(y[test]) == {0, 1}


def test_splits_are_stratified():
    y = np.repeat([0, 1, 2], [60, 30, 10])
    train, test = holdout(y, None, 0.3, 0)
    assert np.bincount(y[test]).tolist() == [18, 9, 3] and not set(train) & set(test)
    few = limited(train, y, 30, 0)
    assert 28 <= len(few) <= 31 and set(few) <= set(train) and set(y[few]) == {0, 1, 2}


def test_groups_of_a_dataset_stay_together_in_the_folds():
    X, y = np.zeros((30, 1)), np.arange(30) % 2
    here = Problem(X, y, 30, np.zeros(1, dtype=bool), np.arange(30) // 3, 3, 0)
    assert all(not set(here.groups[a]) & set(here.groups[b]) for a, b in here.inner)


def test_kernels_of_different_names_are_different():
    here = planted()
    rows = np.arange(40)
    one = here.stack("one", bandwidths(1.0), rows, rows, rows).values
    assert here.stack("two", bandwidths(0.1), rows, rows, rows).values.sum() < one.sum()


def test_kernels_over_the_limit_replace_older_ones(monkeypatch):
    here, rows = planted(), np.arange(40)
    monkeypatch.setattr(problem, "MAX_KERNEL_BYTES", 8 * 40 * 40 + 1)
    first = here.stack("one", bandwidths(1.0), rows, rows, rows)
    here.stack("two", bandwidths(0.5), rows, rows, rows)
    assert len(here.memo) == 1 and here.stack("one", bandwidths(1.0), rows, rows, rows) is not first
