"""EasyMKL: kernel weights from the margin distribution of the mean kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tamis.base.kernel_model import Coefficients
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Gaussian, Polynomial
from tamis.kernels.stacks.base import DenseStack
from tamis.methods.baselines.easy_mkl import Problem, kernel_weights, margin_distribution, objective, solve, violation
from tamis.optim.driver import Status
from tamis.optim.svm import solve_svm

import zoo

LAMS = [0.01, 0.1, 0.5, 0.9, 1.0]


@pytest.fixture(autouse=True)
def one_thread():
    """As estimators do: the matrices are small."""
    with threadpool_limits(1, user_api="blas"):
        yield


def problem(n=60, width=1.0, lam=0.1, form="dense", seed=0, weighted=True):
    X, labels = zoo.planted(n, 6, seed)
    bank = KernelBank(tuple(Channel(str(j), Gaussian(width), (j,)) for j in range(6)))
    weight = np.linspace(0.5, 2.0, n) if weighted else np.ones(n)
    return Problem(bank.stack(X, form=form), np.where(labels > 0, 1.0, -1.0), weight, lam, 2.0)


def printed_program(task):
    """The smallest value of the quadratic program, from its definition."""
    cp = pytest.importorskip("cvxpy")
    n, L = len(task.y), task.stack.shape[0]
    mean = task.stack.combine(np.full(L, 1.0 / L)).dense()
    values, vectors = np.linalg.eigh(mean)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    gamma = cp.Variable(n)
    energy = cp.sum_squares(root @ cp.multiply(task.y, gamma))
    ridge = cp.sum(cp.multiply(1.0 / task.weight, cp.square(gamma)))
    sums = [cp.sum(gamma[task.y > 0]) == 1, cp.sum(gamma[task.y < 0]) == 1]
    program = cp.Problem(cp.Minimize((1 - task.lam) * energy + task.lam * ridge), [gamma >= 0, *sums])
    value = program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-10, tol_feas=1e-10)
    return value, gamma.value


def check_gamma(task, gamma):
    assert np.all(gamma >= 0)
    for side in (task.y > 0, task.y < 0):
        assert gamma[side].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("lam", LAMS)
@pytest.mark.parametrize("width", [0.02, 1.0, 1000.0])
@pytest.mark.parametrize("form", ["dense", "factored"])
def test_quadratic_program_against_a_general_solver(lam, width, form):
    task = problem(40, width, lam, form)
    exact, gamma = printed_program(task)
    solution = solve(task, tol=1e-6)
    assert solution.status is Status.CONVERGED and solution.history.violation[-1] <= 1e-6
    assert solution.objective == pytest.approx(exact, rel=1e-5)
    np.testing.assert_allclose(solution.state.gamma, gamma, atol=1e-3)
    check_gamma(task, solution.state.gamma)


@pytest.mark.parametrize("lam", LAMS)
def test_objective_and_violation_by_definition(lam):
    task = problem(lam=lam)
    solution = solve(task)
    gamma, y = solution.state.gamma, task.y
    L = task.stack.shape[0]
    mean = sum(task.stack.one(k) for k in range(L)) / L
    value = (1 - lam) * (gamma * y) @ mean @ (gamma * y) + lam * np.sum(gamma**2 / task.weight)
    assert objective(task, solution.state) == pytest.approx(value) == solution.objective
    assert violation(task, solution.state) == pytest.approx(solution.history.violation[-1], abs=1e-9)


def test_violation_bounds_the_distance_to_the_optimum(rng):
    task = problem()
    best = solve(task)
    for scale in (1e-3, 1e-2, 1e-1):
        gamma = best.state.gamma * np.exp(scale * rng.normal(size=60))
        for side in (task.y > 0, task.y < 0):
            gamma[side] /= gamma[side].sum()
        state = replace(best.state, gamma=gamma)
        value = objective(task, state)
        assert 0 < value - best.objective <= violation(task, state) * value
        H = 0.9 * sum(task.stack.one(k) for k in range(6)) / 6 + 0.1 * np.diag(1 / task.weight)
        pull = task.y * (H @ (gamma * task.y))
        least = pull[task.y > 0].min() + pull[task.y < 0].min()
        assert violation(task, state) == pytest.approx((value - least**2 / value) / value)


def test_violation_sees_a_wrong_machine():
    task = problem()
    state = solve(task).state
    assert violation(task, replace(state, intercept=state.intercept + 0.1)) > 1e-3
    assert violation(task, replace(state, dual_coef=0.9 * state.dual_coef)) > 1e-3


@pytest.mark.parametrize("form", ["dense", "streaming", "factored"])
def test_weights_are_the_shares_of_the_distances(form):
    task = problem(form=form)
    state = solve(task).state
    v = state.gamma * task.y
    apart = np.array([v @ task.stack.one(k) @ v for k in range(6)])
    np.testing.assert_allclose(state.weights, apart / apart.sum(), rtol=1e-6)
    assert not state.alike and state.weights[[1, 4]].min() > np.delete(state.weights, [1, 4]).max()


@pytest.mark.parametrize("lam", [0.05, 0.8, 1.0])
def test_a_row_of_weight_two_is_two_equal_rows(lam):
    task = problem(lam=lam, weighted=False)
    times = np.where(np.arange(60) % 3 == 0, 2, 1)
    twice = np.repeat(np.arange(60), times)
    one = solve(replace(task, weight=times.astype(float)))
    two = solve(Problem(task.stack.take(twice, twice), task.y[twice], np.ones(len(twice)), lam, 2.0))
    assert one.objective == pytest.approx(two.objective, rel=1e-9)
    np.testing.assert_allclose(one.state.weights, two.state.weights, rtol=1e-8)
    np.testing.assert_allclose(one.state.gamma, np.bincount(twice, two.state.gamma), atol=1e-8)
    f = task.stack.combine(one.state.weights) @ one.state.dual_coef + one.state.intercept
    g = task.stack.take(cols=twice).combine(two.state.weights) @ two.state.dual_coef + two.state.intercept
    np.testing.assert_allclose(f, g, atol=1e-5)


def test_full_regularisation_is_the_mean_of_each_class():
    task = problem(lam=1.0)
    gamma = margin_distribution(task, 1e-6)
    for side in (task.y > 0, task.y < 0):
        np.testing.assert_allclose(gamma[side], task.weight[side] / task.weight[side].sum())
    near = margin_distribution(replace(task, lam=1.0 - 1e-9), 1e-9)
    np.testing.assert_allclose(near, gamma, atol=1e-8)


def test_little_regularisation_is_the_largest_margin():
    task = problem(lam=1e-7, width=0.5)
    gamma = margin_distribution(task, 1e-9)
    mean = task.stack.combine(np.full(6, 1.0 / 6)).dense()
    hard = np.abs(solve_svm(mean, task.y, np.full(60, 1e7), tol=1e-9).dual_coef)
    np.testing.assert_allclose(gamma, 2 * hard / hard.sum(), atol=1e-4)


@pytest.mark.parametrize("form", ["dense", "streaming", "factored"])
def test_last_machine_is_that_of_the_combined_kernel(form):
    task = problem(form=form)
    state = solve(task).state
    K = task.stack.combine(state.weights).dense()
    machine = solve_svm(K, task.y, task.C * task.weight, tol=1e-8)
    np.testing.assert_allclose(
        K @ state.dual_coef + state.intercept, K @ machine.dual_coef + machine.intercept, atol=1e-4
    )


def test_forms_agree_on_a_real_table(cancer):
    X, t = cancer
    X = ((X - X.mean()) / X.std()).to_numpy()
    bank = KernelBank(tuple(Channel(str(j), Gaussian(1.0), (j,)) for j in range(30)))
    ends = {}
    for form in ("dense", "factored"):
        task = Problem(bank.stack(X, form=form), np.where(t > 0, 1.0, -1.0), np.ones(len(X)), 0.1, 1.0)
        ends[form] = solve(task)
        assert ends[form].status is Status.CONVERGED
    assert not len(task.stack.streamed)
    assert ends["factored"].objective == pytest.approx(ends["dense"].objective, rel=1e-7)
    np.testing.assert_allclose(ends["factored"].state.weights, ends["dense"].state.weights, atol=1e-7)


class TestKernelsThatTellNothing:
    y = np.where(np.arange(20) % 2 == 0, 1.0, -1.0)

    def test_constant_kernels_get_equal_weights_and_it_is_said(self, rng):
        constant = rng.uniform(1, 1e6, size=(3, 1, 1)) * np.ones((3, 20, 20))
        solution = solve(Problem(DenseStack(constant), self.y, np.linspace(1, 2, 20), 0.1, 1.0))
        assert solution.state.alike and solution.state.weights.tolist() == [1 / 3] * 3
        assert solution.status is Status.CONVERGED

    def test_factored_constants_too(self):
        bank = KernelBank((Channel("a", Polynomial(0, 1.0), (0,)), Channel("b", Gaussian(1e9), (0,))))
        X = np.random.default_rng(0).normal(size=(20, 1))
        task = Problem(bank.stack(X, form="factored"), self.y, np.ones(20), 0.5, 1.0)
        assert solve(task).state.alike

    def test_rounding_gives_no_weight_beside_a_kernel_that_tells(self, rng):
        X = rng.normal(size=(20, 1)) + self.y[:, None]
        values = np.array([np.full((20, 20), 0.1), np.exp(-0.5 * (X - X.T) ** 2)])
        state = solve(Problem(DenseStack(values), self.y, rng.uniform(1, 2, 20), 0.1, 1.0)).state
        assert not state.alike and state.weights.tolist() == [0.0, 1.0]

    def test_nearly_constant_kernels_are_told_apart(self, rng):
        X = np.column_stack([rng.normal(size=20), rng.normal(size=20) + 2 * self.y])
        for form in ("dense", "factored"):
            bank = KernelBank(tuple(Channel(str(j), Gaussian(1e4), (j,)) for j in range(2)))
            task = Problem(bank.stack(X, form=form), self.y, np.ones(20), 0.1, 1.0)
            weights, alike = kernel_weights(task, np.full(20, 0.1))
            distance = (X[self.y > 0].mean(axis=0) - X[self.y < 0].mean(axis=0)) ** 2
            assert not alike
            np.testing.assert_allclose(weights, distance / distance.sum(), rtol=1e-5)


def test_coefficients_give_the_decision_of_the_machine():
    task = problem()
    state = solve(task).state
    parts = Coefficients.rank_one(state.dual_coef, state.weights, state.intercept)
    stack = task.stack.take(cols=parts.instances, kernels=parts.kernels)
    f = np.einsum("ilj,jl->i", np.stack([stack.one(k) for k in range(len(parts.kernels))], axis=1), parts.coef[0])
    exact = task.stack.combine(state.weights) @ state.dual_coef + state.intercept
    np.testing.assert_allclose(f + parts.intercept[0], exact, atol=1e-10)
