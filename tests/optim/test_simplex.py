"""The quadratic program over the simplex, and solves that follow a changing matrix."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tamis.optim import shifted
from tamis.optim.low_rank import LowRank
from tamis.optim.prox import project_simplex
from tamis.optim.shifted import ShiftedSolver
from tamis.optim.simplex import solve_simplex_qp


def brute_force(H, c):
    best, value = None, np.inf
    L = len(c)
    for size in range(1, L + 1):
        for support in itertools.combinations(range(L), size):
            s = list(support)
            kkt = np.block([[H[np.ix_(s, s)], np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
            d = np.zeros(L)
            d[s] = np.linalg.solve(kkt, np.append(c[s], 1.0))[:size]
            if d.min() >= 0 and 0.5 * d @ H @ d - c @ d < value:
                best, value = d, 0.5 * d @ H @ d - c @ d
    return best


@pytest.mark.parametrize("seed", range(20))
def test_simplex_program_agrees_with_enumeration_from_any_start(seed):
    rng = np.random.default_rng(seed)
    L = int(rng.integers(1, 7))
    A = rng.normal(size=(L + 2, L))
    H, c = A.T @ A + 0.1 * np.eye(L), 3 * rng.normal(size=L)
    expected = brute_force(H, c)
    for start in (np.full(L, 1 / L), np.eye(L)[0], expected):
        np.testing.assert_allclose(solve_simplex_qp(H, c, start), expected, atol=1e-9)


def test_simplex_program_with_identity_is_the_projection(rng):
    for _ in range(20):
        v = 2 * rng.normal(size=30)
        start = np.full(30, 1 / 30)
        np.testing.assert_allclose(solve_simplex_qp(np.eye(30), v, start), project_simplex(v), atol=1e-10)


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
    assert 0 < off <= shifted.RESIDUAL * np.linalg.norm(right) * 1.001 and solver.n_factored == 1


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


def test_simplex_program_whose_steps_are_blocked(rng):
    """From a corner to the other end of a thin valley weights reach zero on the way and come back."""
    for _ in range(30):
        L = 6
        A = rng.normal(size=(L, L)) * 10.0 ** rng.uniform(-1, 1, L)
        H, c = A.T @ A + 1e-3 * np.eye(L), 10 * rng.normal(size=L)
        expected = brute_force(H, c)
        for start in (*np.eye(L), rng.dirichlet(np.ones(L))):
            found = solve_simplex_qp(H, c, start)
            assert 0.5 * found @ H @ found - c @ found <= 0.5 * expected @ H @ expected - c @ expected + 1e-8
            assert found.min() >= 0 and found.sum() == pytest.approx(1.0)


def test_what_all_linear_terms_share_does_not_count():
    H, c = np.eye(3) * 1e-20, np.array([1.0, 1.0, 1.0]) * 1e-5
    np.testing.assert_allclose(solve_simplex_qp(H, c, np.array([0.2, 0.3, 0.5])), 1 / 3)


def test_a_hessian_that_is_not_positive_definite_is_named():
    with pytest.raises(np.linalg.LinAlgError):
        solve_simplex_qp(np.diag([1.0, -1.0]), np.zeros(2), np.array([0.5, 0.5]))
