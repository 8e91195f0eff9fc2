"""FS-SVM: feature factors inside a Gaussian kernel, within a budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tamis.codec import read, write
from tamis.kernels.base import Gaussian
from tamis.methods.baselines import feature_scaling as fs_svm
from tamis.methods.baselines.feature_scaling import (
    Problem,
    State,
    iterates,
    kernel,
    objective,
    solve,
    violation,
    within_budget,
)
from tamis.optim.driver import Status
from tamis.optim.svm import solve_svm

import zoo


@pytest.fixture(autouse=True)
def one_thread():
    """As estimators do: the matrices are small."""
    with threadpool_limits(1, user_api="blas"):
        yield


def problem(X, labels, max_features=2, cost=5.0, width=None, mismatch=None):
    n, d = X.shape
    return Problem.of_rows(
        X,
        np.zeros(d) if mismatch is None else mismatch,
        np.where(labels > 0, 1.0, -1.0),
        np.full(n, cost) if np.isscalar(cost) else cost,
        width=np.sqrt(d) if width is None else width,
        max_features=max_features,
    )


def mixed(n=60, seed=0):
    """Two numbers and a category, with missing cells, rows that lack a lot, and a constant column."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 3, n), np.full(n, 2.0)])
    labels = (X[:, 0] + (X[:, 2] == 1) - 0.3 > 0).astype(int)
    X[3:9, 0] = X[5:12, 1] = X[7:15, 2] = np.nan
    X[8, :3] = np.nan
    return X, labels, np.array([0.0, 0.0, 2.5, 0.0])


def machine(task, factors):
    return solve_svm(task.gram(factors), task.y, task.cost, tol=1e-9)


FACTORS = np.array([0.4, 1.7, 0.9, 0.0])


# ---------------------------------------------------------------------- the kernel


def test_the_gram_matrix_is_the_kernel_on_training_rows():
    X, labels, mismatch = mixed()
    task = problem(X, labels, mismatch=mismatch, width=1.3)
    for factors in (FACTORS, np.array([3.0, 0.0, 0.0, 0.0]), np.array([0.0, 2.0, 1.0, 0.0])):
        state = State(factors, np.zeros(60), 0.0)
        np.testing.assert_allclose(task.gram(factors), kernel(task, state)(X, X), atol=1e-12)
        used = np.flatnonzero(factors)
        short = replace(kernel(task, state), factors=tuple(factors[used] / 1.69), mismatch=tuple(mismatch[used]))
        np.testing.assert_allclose(task.gram(factors), short(X[:, used], X[:, used]), atol=1e-12)


def test_factors_of_one_are_a_gaussian_of_the_given_width():
    X, labels, mismatch = mixed()
    task = problem(X, labels, mismatch=mismatch, width=1.3, max_features=3)
    assert task.total == 3.0 and task.columns.tolist() == [0, 1, 2]
    factors = within_budget(task)
    assert factors.tolist() == [1.0, 1.0, 1.0, 0.0]
    gaussian = Gaussian(1.3, tuple(mismatch[:3]))
    np.testing.assert_allclose(task.gram(factors), gaussian(X[:, :3], X[:, :3]), atol=1e-12)


def test_the_kernel_can_be_stored(tmp_path):
    X, labels, mismatch = mixed()
    made = kernel(problem(X, labels, mismatch=mismatch), State(FACTORS, np.zeros(60), 0.0))
    write(tmp_path / "kernel", "kernel", made)
    assert read(tmp_path / "kernel", "kernel") == made


# ---------------------------------------------------------------------- the gradient


def test_the_gradient_matches_differences():
    X, labels, mismatch = mixed()
    task = problem(X, labels, mismatch=mismatch, width=1.3)
    K = task.gram(FACTORS)
    gradient = task.gradient(K, machine(task, FACTORS).dual_coef)
    h = 1e-5
    for c in range(3):
        e = h * np.eye(4)[c]
        slope = (machine(task, FACTORS + e).value - machine(task, FACTORS - e).value) / (2 * h)
        assert gradient[c] == pytest.approx(slope, rel=1e-4)
    assert gradient[3] == 0


def test_the_gradient_is_the_sum_over_pairs():
    X, labels, mismatch = mixed(n=20)
    task = problem(X, labels, mismatch=mismatch, width=1.3)
    beta, K = np.random.default_rng(1).normal(size=20), task.gram(FACTORS)
    D = np.array(
        [np.sum((P[:, None] - P[None]) ** 2, axis=2) for P in (task.points[:, task.owner == c] for c in range(4))]
    )
    expected = np.einsum("i,j,ij,cij->c", beta, beta, K, D) / (4 * 1.3**2)
    np.testing.assert_allclose(task.gradient(K, beta), expected, atol=1e-10)


# ---------------------------------------------------------------------- the search


@pytest.mark.parametrize("make, truth", [(zoo.planted, {1, 4}), (zoo.xor, {0, 2})], ids=["planted", "xor"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("d", [6, 8])
def test_features_that_decide_are_found(make, truth, seed, d):
    task = problem(*make(d=d, seed=seed))
    solution = solve(task)
    assert solution.status is Status.CONVERGED
    assert set(np.flatnonzero(solution.state.factors).tolist()) == truth
    assert solution.state.factors.sum() == pytest.approx(d)


@pytest.mark.parametrize("cost", [0.5, 50.0])
def test_the_best_pair_of_features_is_found_whatever_the_cost(cost):
    X, labels = zoo.xor(n=100, d=5)
    task = problem(X, labels, cost=cost)
    solution = solve(task)
    values = {
        pair: solve(problem(X[:, list(pair)], labels, cost=cost, width=np.sqrt(2.0))).objective
        for pair in combinations(range(5), 2)
    }
    best = min(values, key=values.get)
    assert tuple(np.flatnonzero(solution.state.factors)) == best == (0, 2)
    assert solution.objective == pytest.approx(values[best], rel=2e-3)


def test_a_run_ends_at_a_stationary_point_with_an_optimal_machine():
    task = problem(*zoo.planted(), max_features=3)
    solution = solve(task)
    assert solution.status is Status.CONVERGED
    assert violation(task, solution.state) <= 1e-3
    assert violation(task, solution.state) == pytest.approx(solution.history.violation[-1], abs=1e-9)
    assert objective(task, solution.state) == pytest.approx(solution.objective)
    assert solution.objective == pytest.approx(machine(task, solution.state.factors).value, rel=1e-4)


def test_a_machine_that_is_not_optimal_is_a_violation():
    task = problem(*zoo.planted())
    state = solve(task, tol=1e-4).state
    assert violation(task, replace(state, dual_coef=0.9 * state.dual_coef)) > 5e-3
    assert violation(task, replace(state, intercept=state.intercept + 0.2)) > 5e-3


def test_few_machines_are_solved_because_steps_take_their_length_from_the_curvature(monkeypatch):
    machines = []
    monkeypatch.setattr(fs_svm, "solve_svm", lambda *args, **more: machines.append(1) or solve_svm(*args, **more))
    solution = solve(problem(*zoo.planted(), max_features=3), tol=1e-6)
    assert solution.status is Status.CONVERGED and len(machines) <= 110


def test_no_shift_between_two_factors_lowers_the_objective_at_the_end():
    task = problem(*zoo.planted(), max_features=3)
    factors = solve(task, tol=1e-5).state.factors
    value = machine(task, factors).value
    used = np.flatnonzero(factors)
    for i in used:
        for j in used[used != i]:
            moved = factors.copy()
            moved[[i, j]] += np.array([-1.0, 1.0]) * min(0.05, factors[i])
            assert machine(task, moved).value >= value * (1 - 1e-5)


def test_the_objective_never_rises_and_the_budget_always_holds():
    task = problem(*zoo.planted(seed=1), max_features=3)
    start = State(np.array([8.0, 0, 0, 0, 0, 0, 0, 0]), np.zeros(120), 0.0)
    for point in (None, start):
        solution = solve(task, start=point, tol=1e-6, max_iter=40)
        assert len(solution.history) > 2 and np.all(np.diff(solution.history.objective) <= 0)
        assert np.all(np.count_nonzero(solution.history.weights, axis=1) <= 3)
        assert np.all(solution.history.weights >= 0)
        np.testing.assert_allclose(solution.history.weights.sum(axis=1), 8.0)


def test_a_start_on_the_wrong_features_can_leave_them():
    task = problem(*zoo.xor())
    wrong = State(np.array([0.0, 3.0, 0.0, 3.0, 0.0, 0.0]), np.zeros(200), 0.0)
    solution = solve(task, start=wrong)
    assert solution.objective < solution.history.objective[0]
    assert set(np.flatnonzero(solution.state.factors)) != {1, 3}


def test_a_restart_stops_at_once():
    task = problem(*zoo.xor())
    first = solve(task)
    again = solve(task, start=first.state)
    assert again.n_iter == 0
    np.testing.assert_allclose(again.state.factors, first.state.factors)


def test_a_start_beyond_the_budget_is_brought_within():
    task = problem(*zoo.xor())
    first = next(iterates(task, State(np.ones(6), np.zeros(200), 0.0)))
    assert np.count_nonzero(first.state.factors) == 2 and first.state.factors.sum() == pytest.approx(6.0)


def test_a_run_that_is_cut_short_says_so():
    solution = solve(problem(*zoo.planted(), max_features=5), tol=1e-9, max_iter=1)
    assert solution.status is Status.MAX_ITER and solution.n_iter == 1


def test_columns_in_another_order_have_the_same_factors(rng):
    X, labels = zoo.planted()
    order = rng.permutation(8)
    one, other = solve(problem(X, labels), tol=1e-5), solve(problem(X[:, order], labels), tol=1e-5)
    np.testing.assert_allclose(other.state.factors, one.state.factors[order], atol=0.02)
    assert other.objective == pytest.approx(one.objective, rel=1e-4)


def test_weights_are_repetitions():
    X, labels = zoo.planted(n=60)
    times = np.arange(60) % 3 + 1
    one = solve(problem(X, labels, cost=times * 2.0), tol=1e-5)
    other = solve(problem(np.repeat(X, times, axis=0), np.repeat(labels, times), cost=2.0), tol=1e-5)
    assert one.objective == pytest.approx(other.objective, rel=1e-4)
    np.testing.assert_allclose(one.state.factors, other.state.factors, atol=0.02)


def test_exchanged_labels_turn_the_sign():
    X, labels = zoo.planted()
    one, other = solve(problem(X, labels)), solve(problem(X, 1 - labels))
    np.testing.assert_allclose(other.state.factors, one.state.factors, atol=1e-3)
    f = [
        task.gram(s.state.factors) @ s.state.dual_coef + s.state.intercept
        for task, s in ((problem(X, labels), one), (problem(X, 1 - labels), other))
    ]
    np.testing.assert_allclose(f[1], -f[0], atol=1e-2)


def test_constant_columns_and_missing_cells_are_no_obstacle():
    X, labels, mismatch = mixed()
    solution = solve(problem(X, labels, mismatch=mismatch, width=1.5))
    assert solution.status is Status.CONVERGED
    assert set(np.flatnonzero(solution.state.factors).tolist()) == {0, 2}


def test_constant_columns_alone_are_refused():
    _, labels = zoo.xor(n=20)
    with pytest.raises(ValueError, match="constant columns only"):
        problem(np.ones((20, 2)), labels)
