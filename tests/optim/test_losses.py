from __future__ import annotations

import numpy as np
import pytest

from tamis.optim.losses import Logistic, Squared, SquaredHinge


@pytest.mark.parametrize("loss", [Squared(), SquaredHinge(), Logistic()])
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


def test_squared_loss_equals_the_printed_residual_form():
    f, y = np.array([0.3, -2.0]), np.array([1.0, -1.0])
    np.testing.assert_allclose(Squared().value(f, y), 0.5 * (y * f - 1) ** 2)


def test_squared_hinge_costs_nothing_from_the_margin_on():
    f = np.array([1.0, 2.0, 0.5, -1.0])
    np.testing.assert_allclose(SquaredHinge().value(f, 1.0), [0.0, 0.0, 0.25, 4.0])
    np.testing.assert_allclose(SquaredHinge().gradient(-f, -1.0), [0.0, 0.0, 1.0, 4.0])
    np.testing.assert_array_equal(SquaredHinge().curvature(f, 1.0), [0.0, 0.0, 2.0, 2.0])
