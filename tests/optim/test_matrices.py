"""Solves that follow a changing matrix."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.optim.matrices import RESIDUAL_TOL, LowRank, ShiftedSolver


@pytest.mark.parametrize("move", [0.0, 1e-6, 10.0])
def test_solves_follow_the_matrix_whether_it_moves_little_or_much(rng, move):
    A, B = rng.normal(size=(2, 30, 30))
    K, after = A @ A.T, A @ A.T + move * (B @ B.T)
    solver = ShiftedSolver(0.5)
    right = rng.normal(size=30)
    x = solver.solve(K, right, np.zeros(30))
    y = solver.solve(after, right, x)
    np.testing.assert_allclose(y + 0.5 * after @ y, right, atol=1e-7)
    assert solver.n_factored == (2 if move > 1 else 1)


def test_solves_are_right_to_the_residual_for_large_right_hand_sides(rng):
    A, B = rng.normal(size=(2, 30, 30))
    K, right = A @ A.T, 1e6 * rng.normal(size=30)
    solver = ShiftedSolver(0.5)
    x = solver.solve(K, right, np.zeros(30))
    after = K + 1e-6 * B @ B.T
    y = solver.solve(after, right, x)
    off = np.linalg.norm(right - y - 0.5 * after @ y)
    assert 0 < off <= RESIDUAL_TOL * np.linalg.norm(right) * 1.001 and solver.n_factored == 1


def test_steps_with_one_factor_are_as_many_as_a_factorisation_costs(rng):
    A, B = rng.normal(size=(2, 150, 150))
    K = A @ A.T
    solver = ShiftedSolver(0.5)
    solver.factor(K)
    assert solver._steps == 4 and solver.n_factored == 1
    products = []

    class Watched(np.ndarray):
        def __matmul__(self, other):
            products.append(1)
            return np.asarray(self) @ np.asarray(other)

    after = (K + 5.0 * B @ B.T).view(Watched)
    right = rng.normal(size=150)
    y = solver.solve(after, right, np.zeros(150))
    assert solver.n_factored == 2 and len(products) == 5  # the first residual and four steps
    np.testing.assert_allclose(y + 0.5 * np.asarray(after) @ y, right, atol=1e-8)


def test_solves_with_a_matrix_of_low_rank(rng):
    K = LowRank(rng.normal(size=(4, 25)), np.array([1.0, 2.0, 0.5, 3.0]))
    right = rng.normal(size=25)
    x = ShiftedSolver(0.7).solve(K, right, np.zeros(25))
    np.testing.assert_allclose(x + 0.7 * K.dense() @ x, right, atol=1e-10)
