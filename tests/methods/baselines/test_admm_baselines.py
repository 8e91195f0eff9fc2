"""Linear SVM, kernel SVM and lasso by ADMM: certificates, references, invariances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pytest
from sklearn.linear_model import Lasso
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from tamis.kernels.base import Gaussian
from tamis.methods.baselines import admm_kernel_svm, admm_lasso, admm_linear_svm
from tamis.methods.baselines.admm import best_intercept, certified, splits
from tamis.methods.baselines.admm_linear_svm import ROWS_PER_DIMENSION, _moved
from tamis.optim.driver import Status

import zoo

COSTS = [0.1, 1.0, 10.0, 100.0]


@pytest.fixture(autouse=True)
def one_thread():
    """As estimators do: the matrices are small."""
    with threadpool_limits(1, user_api="blas"):
        yield


def standardised(X):
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def noisy(n=150, d=6, seed=0):
    """Overlapping classes of unequal size, with a column that is constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n) > 0.4, 1.0, -1.0)
    return np.column_stack([X, np.full(n, 3.0)]), y


def wide(n=30, d=80, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


@pytest.fixture(scope="module")
def tumours():
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return standardised(X), np.where(y > 0, 1.0, -1.0)


def linear(X, y, cost):
    return admm_linear_svm.Problem(X, y, np.full(len(y), cost) if np.isscalar(cost) else cost)


def gaussian(X, y, cost, width=2.0):
    K = Gaussian(width)(X, X)
    return admm_kernel_svm.Problem(K, y, np.full(len(y), cost) if np.isscalar(cost) else cost)


def lasso(X, y, share, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    return admm_lasso.Problem(X, y, weight, share * admm_lasso.Problem(X, y, weight, 1.0).largest)


PROBLEMS = {
    "linear": (admm_linear_svm, lambda X, y: linear(X, y, 1.0)),
    "kernel": (admm_kernel_svm, lambda X, y: gaussian(X, y, 1.0)),
    "lasso": (admm_lasso, lambda X, y: lasso(X, y, 0.05)),
}
every = pytest.mark.parametrize("method, make", PROBLEMS.values(), ids=PROBLEMS)


# ---------------------------------------------------------------------- what all three promise


@every
@pytest.mark.parametrize("data", [noisy(), wide()], ids=["noisy", "wide"])
def test_a_run_ends_with_a_certificate(method, make, data):
    problem = make(*data)
    solution = method.solve(problem)
    assert solution.status is Status.CONVERGED and solution.n_iter > 0
    assert method.violation(problem, solution.state) <= 1e-4
    assert solution.history.violation[-1] == pytest.approx(method.violation(problem, solution.state), abs=1e-9)
    assert solution.objective == pytest.approx(method.objective(problem, solution.state))


@every
def test_a_finer_tolerance_is_reached_too(method, make):
    problem = make(*noisy())
    solution = method.solve(problem, tol=1e-9, max_iter=3000)
    assert solution.status is Status.CONVERGED


@every
def test_a_restart_stops_at_once(method, make):
    problem = make(*noisy())
    first = method.solve(problem)
    again = method.solve(problem, start=first.state)
    assert again.n_iter == 0 and again.objective == pytest.approx(first.objective)


@every
def test_a_start_near_the_solution_saves_steps(method, make):
    problem = make(*noisy(n=300))
    near = method.solve(problem, tol=1e-6, max_iter=3000).state
    cold, warm = (
        method.solve(problem, tol=1e-8, max_iter=3000),
        method.solve(problem, start=near, tol=1e-8, max_iter=3000),
    )
    assert warm.n_iter < cold.n_iter


@every
def test_a_step_from_the_solution_stays_there(method, make):
    problem = make(*noisy())
    best = method.solve(problem, tol=1e-10, max_iter=5000).state
    steps = list(islice(method.iterates(problem, best), 4))
    assert max(step.violation for step in steps) <= 1e-5


@every
def test_a_run_that_is_cut_short_says_so_and_returns_its_best_point(method, make):
    problem = make(*noisy())
    solution = method.solve(problem, tol=1e-12, max_iter=3)
    assert solution.status is Status.MAX_ITER and solution.n_iter == 3
    assert solution.objective == solution.history.objective.min()


@every
def test_the_violation_bounds_the_distance_to_the_optimum(method, make):
    problem = make(*noisy())
    best = method.solve(problem, tol=1e-10, max_iter=5000).objective
    for iterate in islice(method.iterates(problem), 1, 40, 3):
        primal = iterate.objective
        if method is admm_kernel_svm:  # the violation is (primal - dual) / primal
            primal = -iterate.objective / (1.0 - iterate.violation)
        assert best - 1e-9 * abs(best) <= iterate.objective <= best + iterate.violation * primal


@dataclass(frozen=True)
class Toy:
    """``1/2 |x - a|^2 + sum |z|``, whose solution is a soft threshold."""

    a: np.ndarray

    def minimiser(self, penalty):
        return lambda t: (self.a + penalty * t) / (1.0 + penalty)

    def prox(self, v, penalty):
        return np.sign(v) * np.maximum(np.abs(v) - 1.0 / penalty, 0.0)

    def corner(self, z):
        return z == 0


def test_the_split_iteration_solves_a_problem_with_a_known_answer():
    a = np.array([3.0, -0.5, -2.0, 1.5, 0.1])
    split = list(islice(splits(Toy(a), np.zeros(5), np.zeros(5), 20.0), 100))[-1]
    np.testing.assert_allclose(split.z, [2.0, 0.0, -1.0, 0.5, 0.0], atol=1e-8)
    np.testing.assert_allclose(split.x, split.z, atol=1e-8)
    np.testing.assert_allclose(split.slope, split.x - a, atol=1e-8)
    np.testing.assert_allclose(split.multiplier, -split.slope, atol=1e-8)


# ---------------------------------------------------------------------- soft margins


@pytest.mark.parametrize("cost", COSTS)
def test_linear_machines_agree_with_scikit_learn(tumours, cost):
    X, y = tumours
    problem = linear(X, y, cost)
    solution = admm_linear_svm.solve(problem)
    svc = SVC(kernel="linear", C=cost, tol=1e-6).fit(X, y)
    w = svc.coef_[0]
    best = 0.5 * w @ w + cost * np.maximum(0.0, 1.0 - y * (X @ w + svc.intercept_)).sum()
    assert solution.status is Status.CONVERGED and solution.n_iter <= 500
    assert solution.objective == pytest.approx(best, rel=2e-4)
    assert np.mean(np.sign(X @ solution.state.w + solution.state.intercept) == svc.predict(X)) > 0.99


@pytest.mark.parametrize("cost", COSTS)
def test_kernel_machines_agree_with_scikit_learn(tumours, cost):
    X, y = tumours
    X, y = X[::2], y[::2]
    problem = gaussian(X, y, cost, width=np.sqrt(30.0))
    solution = admm_kernel_svm.solve(problem)
    svc = SVC(kernel="precomputed", C=cost, tol=1e-6).fit(problem.K, y)
    coef = svc.dual_coef_[0]
    best = 0.5 * coef @ problem.K[np.ix_(svc.support_, svc.support_)] @ coef - np.abs(coef).sum()
    assert solution.status is Status.CONVERGED and solution.n_iter <= 300
    assert solution.objective == pytest.approx(best, rel=2e-4)
    f = problem.K @ solution.state.dual_coef + solution.state.intercept
    np.testing.assert_allclose(f, svc.decision_function(problem.K), atol=0.05)


def test_real_rows_are_solved_for_every_usual_cost(data_folder):
    stored = np.load(data_folder / "p1" / "pima.npz")
    X, y = standardised(stored["X"]), np.where(stored["y"] > 0, 1.0, -1.0)
    for cost in COSTS:
        for solution in (
            admm_linear_svm.solve(linear(X, y, cost)),
            admm_kernel_svm.solve(gaussian(X[::3], y[::3], cost, width=np.sqrt(8.0))),
        ):
            assert solution.status is Status.CONVERGED and solution.n_iter <= 300


@pytest.mark.parametrize("cost", [0.3, 30.0])
def test_machines_agree_with_a_conic_solver(cost):
    cp = pytest.importorskip("cvxpy")
    X, y = noisy(n=40, d=3)
    weight = np.linspace(0.5, 2.0, 40) * cost
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    loss = weight @ cp.pos(1 - cp.multiply(y, X @ w + b))
    value = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + loss)).solve(solver=cp.CLARABEL)
    solution = admm_linear_svm.solve(linear(X, y, weight), tol=1e-7, max_iter=5000)
    assert solution.objective == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(solution.state.w, w.value, atol=1e-3)
    dual = admm_kernel_svm.solve(admm_kernel_svm.Problem(X @ X.T, y, weight), tol=1e-7, max_iter=5000)
    assert -dual.objective == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("name", ["linear", "kernel"])
@pytest.mark.parametrize("data", [noisy(), wide()], ids=["noisy", "wide"])
def test_every_iterate_has_admissible_coefficients_with_exact_zeros(name, data):
    method, make = PROBLEMS[name]
    problem = make(*data)
    for iterate in islice(method.iterates(problem), 60):
        alpha = iterate.state.dual_coef * problem.y
        assert np.all(alpha >= 0) and np.all(alpha <= problem.cost)
        assert alpha @ problem.y == pytest.approx(0.0, abs=1e-10 * (1 + alpha.sum()))
    assert 0 < np.count_nonzero(alpha) < len(alpha) or data[0].shape[0] < data[0].shape[1]


def test_zeros_are_exact_where_rows_are_beyond_their_margin(tumours):
    problem = linear(*tumours, 1.0)
    state = admm_linear_svm.solve(problem).state
    margin = problem.y * (problem.X @ state.w + state.intercept)
    assert np.all(state.dual_coef[margin > 1.1] == 0) and np.mean(state.dual_coef == 0) > 0.8
    np.testing.assert_allclose(np.abs(state.dual_coef[margin < 0.9]), 1.0, rtol=1e-3)


def test_a_linear_machine_is_the_expansion_of_its_rows():
    problem = linear(*noisy(), 1.0)
    for iterate in islice(admm_linear_svm.iterates(problem), 20):
        np.testing.assert_array_equal(iterate.state.w, problem.X.T @ iterate.state.dual_coef)


def test_coefficients_are_moved_to_give_the_w_of_others(rng):
    X, y = noisy(n=80, d=4)
    problem = linear(X, y, 1.0)
    target = rng.uniform(0.3, 0.4, 80)
    target[y > 0] *= target[y < 0].sum() / target[y > 0].sum()
    alpha = target + rng.uniform(-0.02, 0.02, 80)
    moved = _moved(problem, alpha, rng.normal(size=80), target)
    np.testing.assert_allclose(X.T @ (y * moved), X.T @ (y * target), atol=1e-7)
    assert moved @ y == pytest.approx(0.0, abs=1e-7)
    assert np.count_nonzero(moved != alpha) == ROWS_PER_DIMENSION * 6


def test_large_costs_need_few_steps_because_coefficients_are_moved():
    X, y = noisy(n=300, d=10)
    solution = admm_linear_svm.solve(linear(X, y, 1000.0), max_iter=100)
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize("n", [7, 8, 31])
def test_the_intercept_is_the_best_one(n, rng):
    f, y, cost = rng.normal(size=n), np.where(np.arange(n) % 2, 1.0, -1.0), rng.integers(0, 3, n) + 0.5
    b = best_intercept(f, y, cost)
    grid = np.linspace(-5, 5, 4001)

    def loss(b):
        return np.maximum(0.0, 1.0 - y * (f + b)) @ cost

    assert loss(b) <= min(loss(g) for g in grid) + 1e-9


def test_the_intercept_is_in_the_middle_where_several_are_best():
    f, y = np.zeros(4), np.array([1.0, 1.0, -1.0, -1.0])
    assert best_intercept(f, y, np.ones(4)) == 0.0
    assert best_intercept(f, y, np.array([1.0, 1.0, 1.0, 1.5])) == -1.0


def test_coefficients_are_made_admissible_by_scaling_one_class_down():
    y, cost = np.array([1.0, 1.0, -1.0, -1.0]), np.array([1.0, 2.0, 1.0, 1.0])
    machine = certified(np.array([0.5, 3.0, 0.0, 1.0]), y, cost, lambda v: v)
    np.testing.assert_allclose(machine.dual_coef, [0.2, 0.8, 0.0, -1.0])
    assert machine.dual == pytest.approx(2.0 - 0.5 * (0.04 + 0.64 + 1.0))


@pytest.mark.parametrize("name", ["linear", "kernel"])
def test_weights_are_repetitions(name):
    method, _ = PROBLEMS[name]
    make = {"linear": linear, "kernel": gaussian}[name]
    X, y = noisy(n=60)
    times = np.arange(60) % 3 + 1
    weighted, repeated = make(X, y, times * 0.5), make(np.repeat(X, times, axis=0), np.repeat(y, times), 0.5)
    one, other = method.solve(weighted, tol=1e-8, max_iter=5000), method.solve(repeated, tol=1e-8, max_iter=5000)
    assert one.objective == pytest.approx(other.objective, rel=1e-7)
    sums = np.add.reduceat(other.state.dual_coef, np.concatenate([[0], np.cumsum(times)[:-1]]))
    np.testing.assert_allclose(one.state.dual_coef, sums, atol=2e-3)
    assert one.state.intercept == pytest.approx(other.state.intercept, abs=1e-3)


@pytest.mark.parametrize("name", ["linear", "kernel"])
def test_rows_of_no_cost_have_no_coefficient(name):
    method, _ = PROBLEMS[name]
    X, y = noisy(n=60)
    cost = np.where(np.arange(60) < 45, 1.0, 0.0)
    make = {"linear": linear, "kernel": gaussian}[name]
    all_rows, some = method.solve(make(X, y, cost), tol=1e-7), method.solve(make(X[:45], y[:45], 1.0), tol=1e-7)
    assert not all_rows.state.dual_coef[45:].any()
    assert all_rows.objective == pytest.approx(some.objective, rel=1e-6)


@pytest.mark.parametrize("name", ["linear", "kernel"])
def test_rows_in_another_order_have_the_same_coefficients(name, rng):
    method, make = PROBLEMS[name]
    X, y = noisy()
    order = rng.permutation(len(y))
    one, other = method.solve(make(X, y), tol=1e-8), method.solve(make(X[order], y[order]), tol=1e-8)
    np.testing.assert_allclose(other.state.dual_coef, one.state.dual_coef[order], atol=1e-3)


@pytest.mark.parametrize("name", ["linear", "kernel"])
def test_exchanged_labels_turn_the_sign(name):
    method, make = PROBLEMS[name]
    X, y = noisy()
    one, other = method.solve(make(X, y)), method.solve(make(X, -y))
    np.testing.assert_allclose(other.state.dual_coef, -one.state.dual_coef, atol=1e-8)
    assert other.state.intercept == pytest.approx(-one.state.intercept, abs=1e-8)


def test_the_scale_of_the_rows_does_not_matter(rng):
    X, y = noisy()
    one, other = admm_linear_svm.solve(linear(X, y, 1.0)), admm_linear_svm.solve(linear(1000.0 * X, y, 1e-6))
    assert other.n_iter == one.n_iter
    np.testing.assert_allclose(1000.0 * other.state.w, one.state.w, rtol=1e-6, atol=1e-9)


def test_rows_that_are_all_alike_give_the_larger_class():
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
    for solution in (
        admm_linear_svm.solve(linear(np.ones((5, 2)), y, 1.0)),
        admm_kernel_svm.solve(admm_kernel_svm.Problem(np.ones((5, 5)), y, np.ones(5))),
    ):
        assert solution.status is Status.CONVERGED and solution.state.intercept == pytest.approx(1.0)


def test_problems_without_two_classes_are_refused():
    X = np.arange(6.0).reshape(3, 2)
    y = np.array([1.0, -1.0, 1.0])
    with pytest.raises(ValueError, match="both classes are needed"):
        linear(X, np.ones(3), 1.0)
    with pytest.raises(ValueError, match="both classes are needed"):
        linear(X, y, np.array([1.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match=r"y has the values \[0.0, 1.0\]"):
        gaussian(X, np.array([0.0, 1.0, 1.0]), 1.0)
    for cost in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="finite cost"):
            gaussian(X, y, cost)


def test_a_kernel_that_is_not_positive_is_refused():
    X, y = zoo.tiny()
    with pytest.raises(ValueError, match="not positive semi-definite"):
        admm_kernel_svm.solve(admm_kernel_svm.Problem(-100.0 * X @ X.T, y, np.ones(10)))


# ---------------------------------------------------------------------- lasso


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.001])
def test_lasso_agrees_with_scikit_learn(tumours, share):
    X, y = tumours
    problem = lasso(X, y, share)
    solution = admm_lasso.solve(problem)
    reference = Lasso(alpha=problem.penalty / len(y), tol=1e-10, max_iter=200_000).fit(X, y)
    best = admm_lasso.objective(problem, admm_lasso.State(reference.coef_, float(reference.intercept_)))
    assert solution.status is Status.CONVERGED and solution.n_iter <= 150
    assert best <= solution.objective <= best * (1 + 1e-4)
    large = np.abs(reference.coef_) > 0.02
    assert np.all(solution.state.w[large] != 0)


def test_lasso_agrees_with_a_conic_solver_when_rows_have_weights():
    cp = pytest.importorskip("cvxpy")
    X, y = noisy(n=40)
    weight = np.linspace(0.0, 2.0, 40)
    problem = lasso(X, y, 0.1, weight)
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    loss = 0.5 * cp.sum(cp.multiply(weight, cp.square(X @ w + b - y)))
    value = cp.Problem(cp.Minimize(loss + problem.penalty * cp.norm1(w))).solve(solver=cp.CLARABEL)
    solution = admm_lasso.solve(problem, tol=1e-9, max_iter=5000)
    assert solution.objective == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(solution.state.w[:-1], w.value[:-1], atol=1e-4)
    assert solution.state.w[-1] == 0 and solution.state.intercept == pytest.approx(y_mean(problem, solution.state))


def y_mean(problem, state):
    return np.average(problem.y - problem.X @ state.w, weights=problem.weight)


def test_lasso_weights_are_repetitions():
    X, y = noisy(n=60)
    times = np.arange(60) % 3 + 1
    weighted = lasso(X, y, 0.1, times.astype(float))
    repeated = lasso(np.repeat(X, times, axis=0), np.repeat(y, times), 0.1)
    assert weighted.penalty == pytest.approx(repeated.penalty)
    one, other = admm_lasso.solve(weighted, tol=1e-9), admm_lasso.solve(repeated, tol=1e-9)
    np.testing.assert_allclose(one.state.w, other.state.w, atol=1e-6)
    assert one.state.intercept == pytest.approx(other.state.intercept, abs=1e-6)


def test_lasso_with_many_columns_solves_the_same_systems(rng):
    X, y = wide()
    problem = lasso(X, y, 0.1)
    rows, targets = problem.centred
    penalty, t = rng.uniform(0.5, 2.0, 80), rng.normal(size=80)
    expected = np.linalg.solve(rows.T @ rows + np.diag(penalty), rows.T @ targets + penalty * t)
    np.testing.assert_allclose(problem.minimiser(penalty)(t), expected, atol=1e-10)


def test_lasso_is_zero_from_its_largest_penalty_on():
    X, y = noisy()
    solution = admm_lasso.solve(lasso(X, y, 1.0))
    assert solution.n_iter == 0 and not solution.state.w.any()
    assert solution.state.intercept == pytest.approx(y.mean())
    assert admm_lasso.solve(lasso(X, y, 0.98)).state.w.any()


def test_lasso_of_constant_targets_is_their_value():
    X, y = noisy()
    solution = admm_lasso.solve(admm_lasso.Problem(X, np.full(len(y), 2.0), np.ones(len(y)), 0.1))
    assert solution.status is Status.CONVERGED and solution.state.intercept == 2.0


def test_lasso_coefficients_follow_their_columns(rng):
    X, y = noisy()
    order = rng.permutation(X.shape[1])
    one, other = admm_lasso.solve(lasso(X, y, 0.1)), admm_lasso.solve(lasso(X[:, order], y, 0.1))
    np.testing.assert_allclose(other.state.w, one.state.w[order], atol=1e-8)


def test_lasso_refuses_penalties_and_weights_without_a_meaning():
    X, y = noisy(n=20)
    problem = lasso(X, y, 0.1)
    for penalty in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="penalty="):
            replace(problem, penalty=penalty)
    for weight in (np.zeros(20), np.full(20, -1.0), np.full(20, np.nan)):
        with pytest.raises(ValueError, match="weight must be"):
            replace(problem, weight=weight)
