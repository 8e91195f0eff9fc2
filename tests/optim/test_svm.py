"""The support vector machine's dual on one matrix."""

from __future__ import annotations

import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import tamis.optim.svm as module
from tamis.optim.svm import curvature, objectives, solve_svm, solve_svm_on


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
    machine = module._Dual(K, y, cost).climb(some, 1e-8, 2000)
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
    assert machine.intercept == pytest.approx(exact.intercept, abs=1e-5)
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
        _, intercept = module._Dual(K, y, np.ones(4)).on_margin(fixed, np.zeros(4, dtype=bool))
        margin = y * (K @ fixed + intercept)
        faults = np.where(fixed != 0, margin - 1.0, 1.0 - margin)
        assert intercept == pytest.approx(0.0) and faults.max() == pytest.approx(faults[2:].max())
    dual = module._Dual(np.eye(2), np.array([1.0, -1.0]), np.ones(2))
    assert dual.on_margin(np.array([0.5, 0.0]), np.zeros(2, bool)) is None


# ---------------------------------------------------------------------- margins of their own


def with_margins(kind, seed=0, n=80, C=1.0, per_margin=False):
    """A problem whose rows ask for margins over three decades, at the same cost or at the same cost of their share."""
    K, y = problem(kind, seed, n)
    margins = 10.0 ** np.random.default_rng(seed).uniform(-3, 0, n)
    cost = C * np.linspace(0.5, 2.0, n)
    return K, y, cost / margins if per_margin else cost, margins


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("per_margin", [False, True])
def test_conditions_of_optimality_hold_at_margins_of_their_own(kind, C, per_margin):
    K, y, cost, margins = with_margins(kind, C=C, per_margin=per_margin)
    for tol in (1e-3, 1e-7):
        machine = solve_svm(K, y, cost, tol=tol, margins=margins)
        alpha = machine.dual_coef * y
        short = margins - y * (K @ machine.dual_coef + machine.intercept)
        zero, full = alpha <= 1e-9 * alpha.max(), alpha >= cost * (1 - 1e-9)
        assert machine.converged and alpha.min() >= 0 and np.all(alpha <= cost)
        assert abs(machine.dual_coef.sum()) <= 1e-9 * np.abs(alpha).sum()
        assert np.max(short[zero], initial=0.0) <= 2 * tol and np.max(-short[full], initial=0.0) <= 2 * tol
        assert np.max(np.abs(short[~zero & ~full]), initial=0.0) <= 2 * tol


@pytest.mark.parametrize("per_margin", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_values_at_margins_of_their_own(kind, per_margin):
    cp = pytest.importorskip("cvxpy")
    K, y, cost, margins = with_margins(kind, n=30, C=2.0, per_margin=per_margin)
    root = np.linalg.cholesky(K + 1e-10 * np.eye(30)).T
    alpha = cp.Variable(30)
    dual = margins @ alpha - 0.5 * cp.sum_squares(root @ cp.multiply(y, alpha))
    conditions = [alpha >= 0, alpha <= cost, y @ alpha == 0]
    value = cp.Problem(cp.Maximize(dual), conditions).solve(solver=cp.CLARABEL)
    machine = solve_svm(K, y, cost, tol=1e-8, margins=margins)
    assert machine.value == pytest.approx(value, rel=1e-5)
    energy = machine.dual_coef @ K @ machine.dual_coef
    f = K @ machine.dual_coef + machine.intercept
    assert machine.value == pytest.approx(margins @ np.abs(machine.dual_coef) - 0.5 * energy)
    assert machine.primal == pytest.approx(0.5 * energy + cost @ np.maximum(0, margins - y * f))
    assert -1e-12 <= machine.primal / machine.value - 1 <= 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_margins_of_one_are_no_margins(kind):
    K, y = problem(kind)
    cost = np.linspace(0.5, 2.0, len(y))
    plain, ones = solve_svm(K, y, cost, tol=1e-8), solve_svm(K, y, cost, tol=1e-8, margins=np.ones(len(y)))
    assert ones.converged and ones.value == pytest.approx(plain.value, rel=1e-8)
    assert ones.primal == pytest.approx(plain.primal, rel=1e-7)
    np.testing.assert_allclose(
        K @ ones.dual_coef + ones.intercept, K @ plain.dual_coef + plain.intercept, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("kind", KINDS)
def test_margins_and_costs_in_other_units_scale_the_machine(kind):
    K, y, cost, margins = with_margins(kind)
    one = solve_svm(K, y, cost, tol=1e-9, margins=margins)
    two = solve_svm(K, y, 0.1 * cost, tol=1e-10, margins=0.1 * margins)
    assert two.value == pytest.approx(0.01 * one.value, rel=1e-6)
    f, g = K @ one.dual_coef + one.intercept, K @ two.dual_coef + two.intercept
    np.testing.assert_allclose(g, 0.1 * f, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_start_changes_nothing_at_margins_of_their_own(kind, monkeypatch):
    K, y, cost, margins = with_margins(kind, per_margin=True)
    cold = solve_svm(K, y, cost, tol=1e-8, margins=margins)
    plain = solve_svm(K, y, cost, tol=1e-3)
    for start in (plain.dual_coef, np.zeros(len(y)), -cold.dual_coef):
        warm = solve_svm(K, y, cost, tol=1e-8, start=start, margins=margins)
        assert warm.value == pytest.approx(cold.value, rel=1e-6)
    monkeypatch.setattr(module, "_decompose", lambda *_: pytest.fail("the solution as a start needs no decomposition"))
    warm = solve_svm(K, y, cost, tol=1e-6, start=cold.dual_coef, margins=margins)
    assert warm.value == pytest.approx(cold.value, rel=1e-7)
    assert module._Dual(K, y, cost, margins).newton(cold.dual_coef, 1e-6) is not None


def test_intercept_without_free_rows_lies_between_the_conditions_of_their_margins():
    K, y = np.diag([4.0, 4.0, 2.0, 2.0]), np.array([1.0, -1.0, 1.0, -1.0])
    fixed, margins = np.array([0.1, -0.1, 0.0, 0.0]), np.array([1.0, 1.0, 0.2, 0.8])
    _, intercept = module._Dual(K, y, np.ones(4), margins).on_margin(fixed, np.zeros(4, dtype=bool))
    short = margins - y * (K @ fixed + intercept)
    assert intercept == pytest.approx(-0.3) and short[2] == pytest.approx(short[3])


def test_a_smaller_margin_costs_less_and_no_margin_of_a_row_that_is_beyond_it_matters():
    K, y, cost, margins = with_margins("plain", C=5.0)
    machine = solve_svm(K, y, cost, tol=1e-8, margins=margins)
    assert solve_svm(K, y, cost, tol=1e-8, margins=0.8 * margins).value < machine.value
    beyond = y * (K @ machine.dual_coef + machine.intercept) > margins + 1e-3
    assert beyond.any() and not beyond.all()
    less = solve_svm(K, y, cost, tol=1e-8, margins=np.where(beyond, 0.1 * margins, margins))
    np.testing.assert_allclose(less.dual_coef, machine.dual_coef, atol=1e-6)


def test_the_least_share_of_a_margin_bounds_a_hard_problem():
    K, y, _, margins = with_margins("narrow")
    cost = np.full(len(y), 1e6)
    machine = solve_svm(K, y, cost, tol=1e-6, margins=margins)
    image = K @ machine.dual_coef
    primal = objectives(image, y, cost, machine.dual_coef, machine.intercept - 1e-4, margins)[1]
    least = np.min(y * (image + machine.intercept - 1e-4) / margins)
    assert machine.converged and 0 < least < 1
    assert primal == pytest.approx(0.5 * machine.dual_coef @ image / least**2)


# ---------------------------------------------------------------------- the curvature of the value


@pytest.mark.parametrize("margins", [None, 10.0 ** np.linspace(-1, 0, 60)], ids=["one", "own"])
def test_curvature_is_the_change_of_the_gradient(margins):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    y = np.where(X.sum(axis=1) + 0.5 * rng.normal(size=60) > 0, 1.0, -1.0)
    Ks, cost, d = np.array([gaussian(X[:, [k]]) for k in range(3)]), np.full(60, 3.0), np.array([0.5, 0.3, 0.2])

    def gradient(weights):
        b = solve_svm(np.tensordot(weights, Ks, 1), y, cost, tol=1e-10, margins=margins).dual_coef
        return -0.5 * np.array([b @ K @ b for K in Ks])

    K = np.tensordot(d, Ks, 1)
    b = solve_svm(K, y, cost, tol=1e-10, margins=margins).dual_coef
    H = curvature(K, y, cost, b, (Ks @ b).T)
    changes = np.array([(gradient(d + h) - gradient(d - h)) / 2e-6 for h in 1e-6 * np.eye(3)])
    np.testing.assert_allclose(H, changes, rtol=1e-3, atol=1e-3 * np.abs(H).max())
    assert np.linalg.eigvalsh(H).min() >= -1e-9 * np.abs(H).max() and np.abs(H).max() > 0


def test_curvature_where_kernels_are_singular():
    x, y = np.array([1.0, -1.0]), np.array([1.0, -1.0])
    K, b = np.outer(x, x), np.array([0.5, -0.5])
    images = np.c_[K @ b, np.array([[2.0, 0.3], [0.3, 1.0]]) @ b]
    P = np.linalg.inv(np.block([[K, np.ones((2, 1))], [np.ones((1, 2)), 0.0]]))[:2, :2]
    np.testing.assert_allclose(curvature(K, y, np.ones(2), b, images), images.T @ P @ images, rtol=1e-8)


def test_curvature_is_zero_where_hardly_a_row_is_free():
    K, y = np.diag([4.0, 4.0, 2.0, 2.0]), np.array([1.0, -1.0, 1.0, -1.0])
    for alpha in ([0.1, 0.1, 0.0, 0.0], [0.05, 0.1, 0.0, 0.0]):
        b = y * alpha
        assert not curvature(K, y, np.full(4, 0.1), b, np.c_[K @ b, b]).any()
