from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from tamis.optim.nonnegative_qp import _independent, _solved, solve_nonnegative_qp


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
