"""Quadratic programs over the simplex and over the non-negative orthant."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import nnls

from tamis.optim.prox import project_simplex
from tamis.optim.quadratic import _independent, _solved, solve_nonnegative_qp, solve_simplex_qp


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


def problem(rng, d, rank=None):
    A = rng.normal(size=(rank or 2 * d, d)) + 1.5 * rng.normal(size=(rank or 2 * d, 1))
    b = rng.normal(size=len(A)) + A[:, : d // 2].sum(axis=1)
    return A, b


def violation(Q, c, x):
    slope = Q @ x + c
    return max(np.abs(slope[x > 0]).max(initial=0.0), -slope[x == 0].min(initial=0.0)) / np.abs(c).max()


@pytest.mark.parametrize("start", ["zero", "random", "large"])
def test_equals_non_negative_least_squares_from_any_start(rng, start):
    for _ in range(20):
        A, b = problem(rng, 12)
        begun = {"zero": np.zeros(12), "random": rng.uniform(size=12), "large": np.full(12, 100.0)}[start]
        x = solve_nonnegative_qp(A.T @ A, -A.T @ b, begun)
        np.testing.assert_allclose(x, nnls(A, b)[0], atol=1e-8)
        assert 0 < np.count_nonzero(x == 0) < 12


def test_copies_and_deficient_matrices_end_at_a_minimum(rng):
    for rank in (3, 6):
        A, b = problem(rng, 10, rank)
        A = np.concatenate([A, A[:, :3]], axis=1)
        Q, c = A.T @ A, -A.T @ b
        x = solve_nonnegative_qp(Q, c, np.zeros(13))
        assert np.all(x >= 0) and violation(Q, c, x) < 1e-6
        assert 0.5 * x @ Q @ x + c @ x == pytest.approx(0.5 * nnls(A, b)[1] ** 2 - 0.5 * b @ b, abs=1e-6)


def test_its_own_solution_is_where_it_stays(rng):
    A, b = problem(rng, 30)
    x = solve_nonnegative_qp(A.T @ A, -A.T @ b, np.zeros(30))
    np.testing.assert_allclose(solve_nonnegative_qp(A.T @ A, -A.T @ b, x), x, atol=1e-10)


def test_nothing_to_gain_and_nothing_at_all():
    assert solve_nonnegative_qp(np.eye(3), np.ones(3), np.ones(3)).tolist() == [0.0, 0.0, 0.0]
    assert solve_nonnegative_qp(np.empty((0, 0)), np.empty(0), np.empty(0)).shape == (0,)


def test_columns_that_depend_on_earlier_ones_are_seen_in_any_units(rng):
    A = rng.normal(size=(8, 4))
    A = np.column_stack([A[:, 0], A[:, 1], A[:, 0] + A[:, 1], A[:, 2]])
    for unit in (1e-6, 1.0, 1e6):
        assert _independent((unit * A).T @ (unit * A)).tolist() == [True, True, False, True]
    nearly = A.copy()
    nearly[:, 2] += 1e-3 * rng.normal(size=8)
    assert _independent(nearly.T @ nearly).all()


def test_a_matrix_that_rounding_made_indefinite_is_solved_with_a_small_ridge():
    Q = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-12]])
    for unit in (1e-4, 1e4):
        x = _solved(unit * Q, unit * np.array([1.0, 1.0]))
        assert np.all(np.isfinite(x)) and x.sum() == pytest.approx(1.0, abs=1e-4)
    worse = _solved(np.array([[1.0, 1.0], [1.0, 1.0 - 1e-6]]), np.ones(2))  # the first ridge is not enough
    assert np.all(np.isfinite(worse)) and worse.sum() == pytest.approx(1.0, abs=1e-2)
