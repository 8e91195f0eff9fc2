from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from tamis.optim.logistic import fit_logistic, fit_offset
from tamis.optim.losses import Logistic


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
