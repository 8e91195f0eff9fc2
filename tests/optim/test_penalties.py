"""Penalties and their splits against the printed table, differences and the problem with binary variables."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.optim.penalties import L1, PENALTIES, SCAD, CappedL1, Exact, Exp, Log

THETAS = [0.01, 0.1, 1.0, 5.0, 100.0]
GRID = np.array([0.0, 0.1, 0.4, 0.55, 0.9, 1.2, 2.0, 3.3, 3.9, 8.0])  # in units of 1 / theta, away from kinks
NAMES = sorted(PENALTIES)


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("name", NAMES)
def test_weights_are_the_slope_of_the_value(name, theta):
    penalty = PENALTIES[name](theta)
    t, h = GRID[1:] / theta, 1e-6 / theta
    slope = (penalty.value(t + h) - penalty.value(t - h)) / (2 * h)
    np.testing.assert_allclose(penalty.weights(t), slope, atol=1e-7 * theta)
    np.testing.assert_allclose(penalty.slope, penalty.value(np.array(h)) / h, rtol=1e-5)


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("name", NAMES)
def test_weights_fall_from_the_slope_and_stay_above_zero(name, theta):
    penalty = PENALTIES[name](theta)
    weights = penalty.weights(np.linspace(0.0, 6.0, 301) / theta)
    assert weights[0] == penalty.slope
    assert np.all(np.diff(weights) <= 1e-14 * penalty.slope)
    assert np.all(weights >= 0)


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("name", NAMES)
def test_penalties_start_at_zero_and_never_fall(name, theta):
    penalty = PENALTIES[name](theta)
    value = penalty.value(np.linspace(0.0, 10.0, 500) / theta)
    assert value[0] == 0.0
    assert np.all(np.diff(value) >= -1e-15)
    if name not in ("l1", "log"):
        assert value[-1] == pytest.approx(1.0, abs=1e-4) and value.max() <= 1.0 + 1e-14


@pytest.mark.parametrize("theta", THETAS)
def test_slopes_are_those_of_the_table(theta):
    t = GRID / theta
    v, a = theta * t, 3.7
    table = {
        Exp(theta): (theta, theta * (1 - np.exp(-v))),
        Log(theta): (theta / np.log(1 + theta), theta**2 * t / (np.log(1 + theta) * (1 + v))),
        CappedL1(theta): (theta, np.where(v <= 1, 0.0, theta)),
        SCAD(theta, a): (
            2 * theta / (a + 1),
            np.select([v <= 1, v <= a], [0 * v, 2 * theta * (v - 1) / (a**2 - 1)], 2 * theta / (a + 1)),
        ),
        L1(theta): (theta, 0 * v),
        Exact(theta, 2.5): (3.5 * theta, np.minimum(2 * 2.5 * theta * v, 3.5 * theta)),
    }
    for penalty, (slope, concave) in table.items():
        assert penalty.slope == pytest.approx(slope, rel=1e-14)
        np.testing.assert_allclose(penalty.weights(t), slope - concave, rtol=1e-12, atol=1e-14 * slope)


@pytest.mark.parametrize("price", [1.0, 1.7, 6.0])
def test_exact_weights_are_the_costs_of_the_relaxed_binary_problem(price):
    limit = 0.8
    u = np.linspace(0.0, 1.0, 4001)
    for at in np.linspace(0.0, 1.0, 11):  # the point of the tangent, |w| / B
        cost = u + price * u - 2 * price * at * u
        w = np.array([0.0, 0.2, 0.4, 0.6]) * limit
        least = np.array([cost[u >= size / limit - 1e-12].min() for size in w])
        weight = Exact(1 / limit, price).weights(np.array(limit * at))
        np.testing.assert_allclose(least - least[0], weight * w, atol=1e-3 * price)


def test_exact_penalty_counts_at_zero_and_at_the_limit():
    value = Exact(1 / 0.3, 1.0).value(np.array([0.0, 0.3, 0.9]))
    np.testing.assert_allclose(value, [0.0, 1.0, 1.0])
    assert Exact(1.0, 4.0).value(np.array(5.0)) == pytest.approx(25 / 16)  # the top of (1 + t) v - t v^2


def test_capped_l1_is_exactly_l1_below_its_cap():
    t = np.linspace(0.0, 0.25, 7)
    np.testing.assert_array_equal(CappedL1(4.0).weights(t), L1(4.0).weights(t))
    np.testing.assert_array_equal(CappedL1(4.0).weights(np.array([0.26])), [0.0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("theta", [0.0, -1.0, np.inf, np.nan])
def test_tightness_must_be_positive_and_finite(name, theta):
    with pytest.raises(ValueError, match="theta="):
        PENALTIES[name](theta)


def test_shape_parameters_are_checked():
    with pytest.raises(ValueError, match="a=1"):
        SCAD(1.0, a=1.0)
    with pytest.raises(ValueError, match=r"t=0\.5"):
        Exact(1.0, t=0.5)


def test_a_narrow_bend_is_allowed():
    narrow = SCAD(1.0, a=1.5)
    np.testing.assert_allclose(narrow.value(np.array([0.5, 1.5, 9.0])), [0.4, 1.0, 1.0])
