"""Squared-hinge machines against conic programs, differences and each other."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.optim.hinge import solve_hinge, stationary
from tamis.optim.losses import SquaredHinge


def setup(seed, n=30, rank=40):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, rank))
    y = np.where(A[:, 0] + 0.8 * rng.normal(size=n) > 0, 1.0, -1.0)
    return A @ A.T / rank, y, rng.uniform(0.2, 2.0, size=n), rng


def objective(K, y, cost, P, linear, beta, b):
    return beta @ P @ beta - linear @ beta + cost @ SquaredHinge().value(K @ beta + b, y)


def conic(K, y, cost, P, linear):
    cp = pytest.importorskip("cvxpy")
    beta, b = cp.Variable(K.shape[1]), cp.Variable()
    loss = cost @ cp.square(cp.pos(1 - cp.multiply(y, K @ beta + b)))
    problem = cp.Problem(cp.Minimize(cp.quad_form(beta, cp.psd_wrap(P)) - linear @ beta + loss))
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-11, tol_gap_abs=1e-11, tol_feas=1e-11)
    return problem.value


@pytest.mark.parametrize("seed", range(4))
def test_newton_agrees_with_a_conic_program(seed):
    K, y, cost, rng = setup(seed, n=20)
    K = K[:, :12]
    root = rng.normal(size=(12, 12 if seed % 2 else 9))
    P = root @ root.T
    linear = P @ rng.normal(size=12)  # in the range of P: bounded also where that is singular
    machine = solve_hinge(K, y, cost, P, linear=linear)
    assert machine.value == pytest.approx(conic(K, y, cost, P, linear), rel=1e-6)
    assert machine.value == pytest.approx(objective(K, y, cost, P, linear, machine.beta, machine.intercept), rel=1e-12)
    assert abs(machine.decrement) <= 1e-12 * (1 + abs(machine.value)) and machine.gradient <= 1e-8


@pytest.mark.parametrize("P", [0.3, np.linspace(0.1, 2.0, 30)])
def test_numbers_and_vectors_stand_for_diagonals(P):
    K, y, cost, _ = setup(1)
    short = solve_hinge(K, y, cost, P)
    full = solve_hinge(K, y, cost, np.diag(np.broadcast_to(P, 30)))
    np.testing.assert_array_equal(short.beta, full.beta)


def test_reported_gradient_is_that_of_the_objective():
    K, y, cost, rng = setup(2, n=10)
    P, linear, point = np.eye(10), rng.normal(size=10), (rng.normal(size=10), 0.3)
    machine = solve_hinge(K, y, cost, P, linear=linear, start=point, max_iter=0)
    h, slopes = 1e-6, []
    for k in range(11):
        move = np.eye(11)[k] * h
        up = objective(K, y, cost, P, linear, point[0] + move[:10], point[1] + move[10])
        down = objective(K, y, cost, P, linear, point[0] - move[:10], point[1] - move[10])
        slopes.append((up - down) / (2 * h))
    assert machine.gradient == pytest.approx(np.max(np.abs(slopes)), rel=1e-6)
    assert machine.decrement > 1e-3  # far from the solution, and it says so


def test_start_at_the_solution_stays_and_any_start_ends_there():
    K, y, cost, rng = setup(3)
    machine = solve_hinge(K, y, cost, 0.1)
    again = solve_hinge(K, y, cost, 0.1, start=(machine.beta, machine.intercept), max_iter=1)
    np.testing.assert_allclose(again.beta, machine.beta, atol=1e-10)
    far = solve_hinge(K, y, cost, 0.1, start=(100 * rng.normal(size=30), -50.0))
    np.testing.assert_allclose(far.beta, machine.beta, atol=1e-8)


@pytest.mark.parametrize("seed", [16, 17, 51, 216])
def test_full_steps_that_would_cycle_are_shortened(seed):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 4)), int(rng.integers(2, 9))
    K = rng.normal(size=(m, n)) * 10.0 ** rng.uniform(-1, 1, size=(m, 1))
    y, cost = np.where(rng.random(m) < 0.5, 1.0, -1.0), 10.0 ** rng.uniform(-2, 2, m)
    machine = solve_hinge(K, y, cost, 1e-3)
    assert machine.decrement <= 1e-11 * (1 + machine.value)
    assert machine.value == pytest.approx(conic(K, y, cost, 1e-3 * np.eye(n), np.zeros(n)), rel=1e-6)


def test_start_without_any_slack_has_a_singular_hessian_and_works():
    y = np.array([1.0, -1.0, 1.0])
    machine = solve_hinge(np.eye(3), y, np.ones(3), 1.0, start=(5 * y, 0.0))
    assert abs(machine.decrement) <= 1e-12 and machine.gradient < 1e-8


def test_missing_minimum_shows_in_the_decrement():
    K, y, cost, _ = setup(4, n=10)
    flat = np.diag(np.append(np.ones(9), 0.0))
    K[:, 9] = 0.0  # the last coefficient meets neither the loss nor P, only the linear term
    machine = solve_hinge(K, y, cost, flat, linear=np.eye(10)[9])
    assert machine.decrement > 1.0 and machine.gradient >= 1.0 - 1e-9


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rank", [40, 3])
def test_stationary_point_of_a_definite_kernel_is_the_machine(seed, rank):
    K, y, cost, _ = setup(seed, rank=rank)
    lam = [0.01, 0.1, 1.0, 10.0][seed]
    point = stationary(K, y, cost, lam)
    slack = np.maximum(0.0, 1.0 - y * (K @ point.beta + point.intercept))
    scale = max(np.max(cost * slack), 1e-6)
    np.testing.assert_allclose(lam * point.beta, cost * y * slack, atol=1e-8 * scale)
    assert point.residual <= 1e-8
    assert abs(point.beta.sum()) <= 1e-10 * 30 * np.max(np.abs(point.beta))
    value = objective(K, y, cost, lam * K, np.zeros(30), point.beta, point.intercept)
    assert value == pytest.approx(conic(K, y, cost, lam * K, np.zeros(30)), rel=1e-6)


def test_a_constant_added_to_the_kernel_changes_no_score():
    K, y, cost, _ = setup(5)
    plain = stationary(K, y, cost, 0.1)
    for shift in (-3.0, 1e3):
        moved = stationary(K + shift, y, cost, 0.1)
        np.testing.assert_allclose(
            (K + shift) @ moved.beta + moved.intercept, K @ plain.beta + plain.intercept, atol=1e-8
        )


def test_a_huge_constant_costs_no_digits():
    K, y, cost, _ = setup(5)
    K = np.rint(50 * K)
    plain, moved = stationary(K, y, cost, 1.0), stationary(K + 2.0**36, y, cost, 1.0)
    np.testing.assert_allclose(K @ moved.beta + moved.intercept, K @ plain.beta + plain.intercept, atol=1e-8)


def test_flipping_all_labels_flips_all_scores():
    K, y, cost, _ = setup(6)
    one, other = stationary(K, y, cost, 0.1), stationary(K, -y, cost, 0.1)
    np.testing.assert_allclose(one.beta, -other.beta, atol=1e-10)
    assert one.intercept == pytest.approx(-other.intercept)


def test_every_definite_problem_is_solved_from_any_rows():
    rng = np.random.default_rng(0)
    for case in range(300):
        n = int(rng.integers(2, 20))
        A = rng.normal(size=(n, int(rng.integers(1, n + 3))))
        K, lam = A @ A.T * 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-3, 1)
        y = np.where(rng.random(n) < rng.uniform(0.1, 0.9), 1.0, -1.0)
        cost = rng.uniform(0.1, 3.0, size=n) * (rng.random(n) > 0.1)
        point = stationary(K, y, cost, lam, start=rng.random(n) < 0.3 if case % 2 else None)
        assert point.residual <= 1e-8, case
        assert not point.beta[cost == 0].any()


def test_kernels_that_lam_makes_definite_where_the_sum_is_zero_are_solved():
    rng = np.random.default_rng(1)
    for _ in range(100):
        n = int(rng.integers(3, 20))
        A = rng.normal(size=(n, n))
        K = A + A.T
        lam = max(0.01, -1.05 * np.linalg.eigvalsh(K)[0])
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        assert stationary(K - 50.0 * rng.random(), y, np.ones(n), lam).residual <= 1e-8


def test_rows_of_one_class_to_begin_with_are_no_trap():
    K, y, cost, _ = setup(7)
    best = stationary(K, y, cost, 0.1)
    for start in (y > 0, y < 0, np.zeros(30, dtype=bool), best.beta):
        np.testing.assert_allclose(stationary(K, y, cost, 0.1, start=start).beta, best.beta, atol=1e-9)


def test_one_class_alone_gets_a_constant():
    point = stationary(np.eye(4), np.ones(4), np.ones(4), 0.5)
    np.testing.assert_allclose(point.beta, 0.0, atol=1e-12)
    assert point.intercept == pytest.approx(1.0) and point.residual <= 1e-8


def test_indefinite_and_singular_systems_do_not_fail_and_tell_their_residual():
    rng = np.random.default_rng(2)
    y = np.where(rng.random(12) < 0.5, 1.0, -1.0)
    singular = np.diag(np.where(np.arange(12) < 6, -1.0, 1.0))  # -1 + lam = 0
    for K in (singular, -np.ones((12, 12)), rng.normal(size=(12, 12)) * 3):
        K = 0.5 * (K + K.T)
        point = stationary(K, y, np.ones(12), 1.0)
        slack = np.maximum(0.0, 1.0 - y * (K @ point.beta + point.intercept))
        size = np.clip(np.max(slack), 1e-6, 1.0)
        assert np.all(np.isfinite(point.beta))
        assert point.residual == pytest.approx(np.max(np.abs(point.beta - y * slack)) / size, abs=1e-9)


def test_systems_without_a_solution_are_met_in_the_least_squares_sense():
    y = np.where(np.arange(12) < 5, 1.0, -1.0)
    point = stationary(-np.eye(12), y, np.ones(12), 1.0)  # K + lam I = 0, so no row can reach its label
    assert abs(point.beta.sum()) <= 1e-8 and np.max(np.abs(point.beta)) < 10.0
    assert point.residual > 0.1


def test_weight_of_the_penalty_must_be_positive():
    with pytest.raises(ValueError, match="lam=0"):
        stationary(np.eye(2), np.array([1.0, -1.0]), np.ones(2), 0.0)
