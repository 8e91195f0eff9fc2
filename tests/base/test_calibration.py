from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tamis.base.calibration import Calibrator


def test_sigmoid_agrees_with_plain_logistic_regression_when_rows_are_many(rng):
    f = rng.normal(size=4000)
    y = np.where(rng.uniform(size=4000) < 1 / (1 + np.exp(-(2 * f - 1))), 1.0, -1.0)
    fit = Calibrator.fit(f[:, None], y[:, None], np.ones(4000))
    reference = LogisticRegression(C=1e6).fit(f[:, None], y)
    np.testing.assert_allclose([fit.slope, fit.offset], [reference.coef_[0, 0], reference.intercept_[0]], rtol=0.03)


def test_probabilities_rise_with_the_decision_and_add_up(rng):
    f = np.linspace(-2, 2, 50)[:, None]
    y = np.where(f > rng.normal(size=(50, 1)), 1.0, -1.0)
    p = Calibrator.fit(f, y, np.ones(50)).probabilities(f)
    assert np.all(np.diff(p[:, 1]) > 0)
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_a_decision_that_points_the_wrong_way_gives_the_base_rate():
    f = np.linspace(-1, 1, 40)[:, None]
    p = Calibrator.fit(f, -np.sign(f), np.ones(40)).probabilities(f)
    np.testing.assert_allclose(p, 0.5, atol=1e-9)


def test_separable_decisions_keep_a_finite_slope():
    f = np.array([[-1.0], [-2.0], [1.0], [2.0]])
    fit = Calibrator.fit(f, np.sign(f), np.ones(4))
    assert 0 < fit.slope < 20


def test_most_probable_class_has_the_largest_decision(rng):
    f, codes = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    f[np.arange(60), codes] += 1
    targets = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    fit = Calibrator.fit(f, targets, np.ones(60))
    p = fit.probabilities(f)
    assert np.array_equal(p.argmax(1), f.argmax(1)) and np.allclose(p.sum(1), 1)
    np.testing.assert_allclose(fit.losses(f, codes), -np.log(p[np.arange(60), codes]), rtol=1e-9)


def test_integer_weights_are_repetitions_up_to_smoothing(rng):
    n = 300
    w = rng.integers(1, 4, n)
    for q in (1, 3):
        f = rng.normal(size=(n, q))
        codes = rng.integers(0, max(q, 2), n)
        targets = np.where(codes[:, None] == (np.arange(q) if q > 1 else 1), 1.0, -1.0)
        f += 0.7 * targets
        one = Calibrator.fit(f, targets, w.astype(float))
        two = Calibrator.fit(np.repeat(f, w, axis=0), np.repeat(targets, w, axis=0), np.ones(w.sum()))
        plain = Calibrator.fit(f, targets, np.ones(n))
        assert abs(one.slope - two.slope) < 0.3 * abs(one.slope - plain.slope) + 0.02
        scaled = Calibrator.fit(f, targets, 1e-6 * w)
        np.testing.assert_allclose([scaled.slope, scaled.offset], [one.slope, one.offset], rtol=1e-4)


def test_rows_of_negligible_weight_do_not_count(rng):
    f, codes = rng.normal(size=(400, 3)), rng.integers(0, 3, 400)
    f[np.arange(200), codes[:200]] += 2  # only the first half is informative
    weight = np.where(np.arange(400) < 200, 1.0, 1e-9)
    for q in (1, 3):
        targets = np.where(codes[:, None] == (np.arange(3) if q == 3 else [0]), 1.0, -1.0)
        one = Calibrator.fit(f[:, :q], targets, weight)
        half = Calibrator.fit(f[:200, :q], targets[:200], np.ones(200))
        plain = Calibrator.fit(f[:, :q], targets, np.ones(400))
        assert abs(one.slope - half.slope) < 0.1 * half.slope and plain.slope < 0.8 * half.slope


def test_decisions_that_mislead_move_nothing(rng):
    y = np.where(np.arange(100) < 20, 1.0, -1.0)
    f = -y + 0.1 * rng.normal(size=100)
    calibrator = Calibrator.fit(f[:, None], y[:, None], np.ones(100))
    assert calibrator.failed and calibrator.shift == 0.0
    np.testing.assert_allclose(calibrator.probabilities(2 * f[:, None])[:, 1], 21 / 102)


@pytest.mark.parametrize("slope", [0.0, 1e-14, -1e-14])
def test_decisions_that_are_flat_up_to_rounding_move_nothing(rng, slope):
    y = np.where(np.arange(90) < 30, 1.0, -1.0)
    f = rng.normal(size=90)
    f -= f.mean() + (y - y.mean()) * (f @ (y - y.mean())) / ((y - y.mean()) @ (y - y.mean()))  # no correlation
    calibrator = Calibrator.fit((f + slope * y)[:, None], y[:, None], np.ones(90))
    assert calibrator.failed and calibrator.shift == 0.0


def test_an_offset_of_rounding_size_is_none(rng):
    y = np.r_[np.ones(50), -np.ones(50)]
    f = np.abs(rng.normal(size=50)) - 0.3
    f = np.r_[f, -f]  # the same on both sides: the offset is zero, but for rounding
    assert Calibrator.fit(f[:, None], y[:, None], np.ones(100)).offset == 0.0


@pytest.mark.parametrize("placed", [False, True])
def test_labels_of_held_out_rows_are_never_worse_than_without_calibration(placed):
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 60))
        y = np.where(rng.uniform(size=n) < rng.uniform(0.1, 0.9), 1.0, -1.0)
        f = rng.normal(size=n) + rng.uniform(-1, 2) * y + rng.normal()
        w = rng.uniform(0.01, 5, n)
        if abs(y.sum()) == n:
            continue
        shift = Calibrator.fit(f[:, None], y[:, None], w, placed=placed).shift
        before, after = (w @ ((f + by >= 0) != (y > 0)) for by in (0.0, shift))
        assert after <= before + 1e-9


def test_an_offset_must_be_worth_its_while(rng):
    """Few rows keep the intercept as it is; many that ask for another one get it."""
    f = rng.normal(size=4000)
    y = np.where(rng.uniform(size=4000) < 1 / (1 + np.exp(-(2 * f + 0.3))), 1.0, -1.0)
    few, many = (Calibrator.fit(f[:n, None], y[:n, None], np.ones(n), placed=True) for n in (40, 4000))
    assert few.offset == few.shift == 0.0 < few.slope
    assert abs(many.offset - 0.3) < 0.15
    clear = Calibrator.fit(f[:40, None] - 3.0, y[:40, None], np.ones(40), placed=True)
    assert clear.shift > 1.5
    halves = [Calibrator.fit(f[:200, None], y[:200, None], w, placed=True) for w in (np.ones(200), np.full(200, 7.0))]
    assert halves[0] == halves[1]  # only ratios of weights matter
    free = Calibrator.fit(f[:400, None] + 0.2, y[:400, None], np.ones(400), placed=False)
    assert free.offset != 0.0
