from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tamis.optim.losses import Logistic, SquaredHinge, fit_logistic, fit_offset


@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic()])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_gradient_and_curvature_match_differences(loss, y):
    f, h = np.linspace(-3.1, 3.1, 13), 1e-5  # not at the margin, where one curvature jumps
    slope = (loss.value(f + h, y) - loss.value(f - h, y)) / (2 * h)
    bend = (loss.gradient(f + h, y) - loss.gradient(f - h, y)) / (2 * h)
    np.testing.assert_allclose(loss.gradient(f, y), slope, atol=1e-8)
    np.testing.assert_allclose(loss.curvature(f, y), bend, atol=1e-8)


def test_logistic_loss_does_not_overflow():
    f = np.array([-1e4, 1e4])
    np.testing.assert_allclose(Logistic().value(f, 1.0), [1e4, 0.0])
    assert np.all(np.isfinite(Logistic().gradient(f, 1.0)))


def test_squared_hinge_costs_nothing_from_the_margin_on():
    f = np.array([1.0, 2.0, 0.5, -1.0])
    np.testing.assert_allclose(SquaredHinge().value(f, 1.0), [0.0, 0.0, 0.25, 4.0])
    np.testing.assert_allclose(SquaredHinge().gradient(-f, -1.0), [0.0, 0.0, 1.0, 4.0])
    np.testing.assert_array_equal(SquaredHinge().curvature(f, 1.0), [0.0, 0.0, 2.0, 2.0])


def test_newton_agrees_with_scikit_learn(rng):
    X = rng.normal(size=(60, 4))
    y = np.where(X[:, 0] + rng.normal(size=60) > 0, 1.0, -1.0)
    w = rng.uniform(0.5, 2, size=60)
    reference = LogisticRegression(C=1 / 0.7, tol=1e-10, max_iter=1000).fit(X, y, sample_weight=w)
    x = fit_logistic(np.column_stack([X, np.ones(60)]), y, w, np.array([0.7] * 4 + [0.0]))
    np.testing.assert_allclose(x, np.r_[reference.coef_[0], reference.intercept_], atol=1e-4)


def test_gradient_vanishes_at_the_solution_even_when_separable(rng):
    X = rng.normal(size=(30, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    x = fit_logistic(X, y, np.ones(30), np.full(2, 1e-3))
    gradient = X.T @ Logistic().gradient(X @ x, y) + 1e-3 * x
    assert np.abs(gradient).max() < 1e-4


def test_offset_minimises_the_loss(rng):
    f, y, w = rng.normal(size=20), np.where(rng.normal(size=20) > 0, 1.0, -1.0), rng.uniform(1, 2, size=20)
    c = fit_offset(f, y, w)
    value = lambda s: w @ Logistic().value(f + s, y)  # noqa: E731
    assert value(c) <= min(value(c + 1e-3), value(c - 1e-3))
