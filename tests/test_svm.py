"""The support vector machine's dual on one matrix."""

from __future__ import annotations

import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import tamis.optim.svm as module
from tamis.optim.svm import objectives, solve_svm, solve_svm_on


@pytest.fixture(autouse=True)
def one_thread():
    """As estimators do: the matrices are small."""
    with threadpool_limits(1, user_api="blas"):
        yield


def gaussian(X, width=1.0):
    return np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=2) / width**2)


def problem(kind, seed=0, n=80):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    K = {"linear": X @ X.T, "smooth": gaussian(X[:, :1], 2.0), "narrow": gaussian(X, 0.2), "plain": gaussian(X)}[kind]
    return K, y


KINDS = ["linear", "smooth", "narrow", "plain"]


def faults(K, y, cost, machine):
    """The largest violation of each condition of optimality."""
    alpha = machine.dual_coef * y
    margin = y * (K @ machine.dual_coef + machine.intercept)
    zero, full = alpha <= 1e-9 * alpha.max(), alpha >= cost * (1 - 1e-9)
    return {
        "box": max(-alpha.min(), (alpha - cost).max()),
        "balance": abs(machine.dual_coef.sum()),
        "zero": np.max(1.0 - margin[zero], initial=0.0),
        "full": np.max(margin[full] - 1.0, initial=0.0),
        "free": np.max(np.abs(margin[~zero & ~full] - 1.0), initial=0.0),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_conditions_of_optimality_hold(kind, C, tol):
    K, y = problem(kind)
    cost = C * np.linspace(0.5, 2.0, len(y))
    machine = solve_svm(K, y, cost, tol=tol)
    assert machine.converged
    found = faults(K, y, cost, machine)
    assert found["box"] <= 0 and found["balance"] <= 1e-9 * C * len(y)
    assert max(found["zero"], found["full"], found["free"]) <= 2 * tol, found


@pytest.mark.parametrize("kind", KINDS)
def test_dual_value_is_primal_value(kind):
    K, y = problem(kind)
    cost = np.full(len(y), 3.0)
    machine = solve_svm(K, y, cost, tol=1e-8)
    f = K @ machine.dual_coef + machine.intercept
    energy = machine.dual_coef @ K @ machine.dual_coef
    assert machine.value == pytest.approx(np.abs(machine.dual_coef).sum() - 0.5 * energy)
    assert machine.primal == pytest.approx(0.5 * energy + cost @ np.maximum(0, 1 - y * f))
    assert 0 <= machine.primal - machine.value + 1e-12 * machine.value <= 1e-6 * machine.value


def test_value_against_a_general_solver():
    cp = pytest.importorskip("cvxpy")
    for kind in KINDS:
        K, y = problem(kind, n=30)
        cost = np.linspace(0.5, 4.0, 30)
        root = np.linalg.cholesky(K + 1e-10 * np.eye(30)).T
        alpha = cp.Variable(30)
        dual = cp.sum(alpha) - 0.5 * cp.sum_squares(root @ cp.multiply(y, alpha))
        value = cp.Problem(cp.Maximize(dual), [alpha >= 0, alpha <= cost, y @ alpha == 0]).solve(solver=cp.CLARABEL)
        assert solve_svm(K, y, cost, tol=1e-6).value == pytest.approx(value, rel=1e-6)


def test_the_least_margin_bounds_a_hard_problem_better_than_the_loss():
    K, y = problem("narrow")
    machine = solve_svm(K, y, np.full(len(y), 1e7), tol=1e-3)
    assert machine.converged and 0 <= machine.primal / machine.value - 1 < 5e-3
    f = K @ machine.dual_coef + machine.intercept
    scaled = objectives(K @ machine.dual_coef, y, np.full(len(y), 1e7), machine.dual_coef, machine.intercept)[1]
    assert scaled == pytest.approx(0.5 * machine.dual_coef @ K @ machine.dual_coef / np.min(y * f) ** 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cost_of_two_is_a_row_given_twice(kind):
    K, y = problem(kind, n=40)
    times = np.where(np.arange(40) % 3 == 0, 2, 1)
    twice = np.repeat(np.arange(40), times)
    one = solve_svm(K, y, 0.7 * times, tol=1e-8)
    two = solve_svm(K[np.ix_(twice, twice)], y[twice], np.full(len(twice), 0.7), tol=1e-8)
    assert one.value == pytest.approx(two.value, rel=1e-7)
    f, g = K @ one.dual_coef + one.intercept, K[:, twice] @ two.dual_coef + two.intercept
    np.testing.assert_allclose(f, g, atol=1e-5)


def contradictory(kind, n=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = np.where(rng.random(n) > 0.5, 1.0, -1.0)
    if kind == "repeated rows":
        return gaussian(np.repeat(X[: n // 2], 2, axis=0)), np.tile([1.0, -1.0], n // 2)
    if kind == "one pair":
        X[1], y[:2] = X[0], (1.0, -1.0)
        return gaussian(X), y
    return (X @ X.T if kind == "linear" else gaussian(X[:, :1])), y


@pytest.mark.parametrize("kind", ["linear", "smooth", "repeated rows", "one pair"])
def test_a_hard_margin_that_does_not_exist_is_told_in_time(kind):
    K, y = contradictory(kind)
    start = time.thread_time()
    machine = solve_svm(K, y, np.full(len(y), 1e10))
    assert not machine.converged and time.thread_time() - start < 3.0


def test_a_hard_margin_that_exists_is_found():
    K, y = contradictory("one pair")
    K, y = K[1:, 1:], y[1:]
    machine = solve_svm(K, y, np.full(len(y), 1e10), tol=1e-6)
    assert machine.converged and np.min(y * (K @ machine.dual_coef + machine.intercept)) > 1 - 1e-5


def test_large_costs_on_smooth_kernels_are_solved():
    K, y = contradictory("smooth", n=200)
    cost = np.full(200, 1e4)
    machine = solve_svm(K, y, cost, tol=1e-5)
    assert machine.converged and machine.primal <= machine.value * (1 + 1e-4)
    assert max(faults(K, y, cost, machine)[k] for k in ("zero", "full", "free")) <= 2e-5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_a_start_changes_nothing_but_the_time(kind, C, monkeypatch):
    K, y = problem(kind)
    cost = np.full(len(y), C)
    cold = solve_svm(K, y, cost, tol=1e-7)
    other = solve_svm(1.1 * K, y, cost, tol=1e-7)
    for start in (other.dual_coef, np.zeros(len(y)), -cold.dual_coef, np.where(y > 0, cost, 0.0)):
        assert solve_svm(K, y, cost, tol=1e-7, start=start).value == pytest.approx(cold.value, rel=1e-7)
    monkeypatch.setattr(module, "_decompose", lambda *_: pytest.fail("the solution as a start needs no decomposition"))
    assert solve_svm(K, y, cost, tol=1e-6, start=cold.dual_coef).value == pytest.approx(cold.value, rel=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_active_set_climbs_from_any_start_within_the_box(kind):
    K, y = problem(kind)
    cost = np.full(len(y), 2.0)
    exact = solve_svm(K, y, cost, tol=1e-8)
    some = np.zeros(len(y))
    some[np.flatnonzero(y > 0)[:10]], some[np.flatnonzero(y < 0)[:10]] = 1.0, -1.0
    machine = module._climb(K, y, cost, some, 1e-8, 2000)
    assert machine.value == pytest.approx(exact.value, rel=1e-8)


class Counted:
    """A matrix that counts the entries that are asked for."""

    def __init__(self, K):
        self.K, self.entries = K, 0

    def corner(self, rows, cols):
        self.entries += len(rows) * len(cols)
        return self.K[np.ix_(rows, cols)]

    def image(self, coef):
        return self.K @ coef


@pytest.mark.parametrize("C", [0.3, 10.0, 1e9])
@pytest.mark.parametrize("error", [0.0, 0.05, 0.5])
def test_a_rough_matrix_leads_to_the_same_machine(C, error, rng):
    K, y = problem("plain", n=200)
    K = K + 0.1 * np.eye(200)
    E = rng.normal(size=(200, 4))
    gram, cost = Counted(K), np.full(200, C)
    machine = solve_svm_on(gram, K + error * (E @ E.T) / 4, y, cost, tol=1e-7)
    exact = solve_svm(K, y, cost, tol=1e-7)
    assert machine.converged and machine.value == pytest.approx(exact.value, rel=1e-8)
    assert machine.primal == pytest.approx(machine.value, rel=1e-6)
    np.testing.assert_allclose(machine.dual_coef, exact.dual_coef, atol=1e-5 * np.abs(exact.dual_coef).max())
    assert gram.entries <= 200**2


def test_a_rough_matrix_saves_values_where_few_rows_matter():
    K, y = problem("plain", n=400)
    gram = Counted(K)
    machine = solve_svm_on(gram, K, y, np.full(400, 10.0), tol=1e-6)
    assert machine.converged and gram.entries < 0.5 * 400**2


def test_intercept_without_free_rows_lies_between_the_conditions():
    for shift in (-5.0, 0.0, 5.0):
        K, y = np.diag([4.0, 4.0, 2.0, 2.0]), np.array([1.0, -1.0, 1.0, -1.0])
        K[:2, 2:] = K[2:, :2] = shift / 4
        fixed = np.array([0.1, -0.1, 0.0, 0.0])
        _, intercept = module._on_margin(K, y, fixed, np.zeros(4, dtype=bool))
        margin = y * (K @ fixed + intercept)
        faults = np.where(fixed != 0, margin - 1.0, 1.0 - margin)
        assert intercept == pytest.approx(0.0) and faults.max() == pytest.approx(faults[2:].max())
    assert module._on_margin(np.eye(2), np.array([1.0, -1.0]), np.array([0.5, 0.0]), np.zeros(2, bool)) is None
