from __future__ import annotations

import numpy as np
from scipy.linalg import solve

from tamis.optim.admm import sparse_least_squares


def test_two_iterations_follow_the_printed_updates(rng):
    D = rng.normal(size=(8, 4))
    G, c, rho, k = D.T @ D, rng.normal(size=4), 1.0, 2
    x1 = solve(G + rho * np.eye(4), c)
    q1 = np.where(np.abs(x1) >= np.sort(np.abs(x1))[-k], x1, 0.0)
    u1 = x1 - q1
    x2 = solve(G + rho * np.eye(4), c + rho * (q1 - u1))
    v = x2 + u1
    q2 = np.where(np.abs(v) >= np.sort(np.abs(v))[-k], v, 0.0)
    split = sparse_least_squares(G, c, k, rho=rho, tol=0.0, max_iter=2)
    np.testing.assert_allclose(split.dense, x2)
    np.testing.assert_allclose(split.sparse, q2)


def test_without_a_binding_limit_it_solves_least_squares(rng):
    D, t = rng.normal(size=(20, 3)), rng.normal(size=20)
    split = sparse_least_squares(D.T @ D, D.T @ t, 3, rho=1.0, tol=1e-10, max_iter=500)
    np.testing.assert_allclose(split.sparse, np.linalg.lstsq(D, t, rcond=None)[0], atol=1e-8)


def test_matrices_that_rounding_made_singular_and_overflow_are_survived():
    v = np.linspace(1, 2, 30)
    G = 1e25 * np.outer(v, v)
    G[3, 3] *= 1 - 1e-6
    split = sparse_least_squares(G, 1e20 * v, 3, rho=1.0)
    assert np.isfinite(split.sparse).all() and np.count_nonzero(split.sparse) <= 3
    assert np.isnan(sparse_least_squares(np.full_like(G, np.inf), v, 3, rho=1.0).sparse).all()
