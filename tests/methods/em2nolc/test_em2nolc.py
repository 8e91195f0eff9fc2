"""Invariants of the method (numbers refer to its derivation: objective, half steps, path, limits)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tamis.base.design import RowDesign
from tamis.kernels.stacks.base import DenseStack
from tamis.methods.em2nolc import solver as method
from tamis.methods.em2nolc.refit import coefficients, leading_factors
from tamis.methods.em2nolc.solver import State, Task
from tamis.optim.driver import Status

import references
import zoo


def make(X, y, bandwidth=1.0, alpha=0.01, budgets=(5, 3), weight=None, candidates=None, targets=None, **kw):
    Z = (X - X.mean(0)) / X.std(0)
    K = references.kernel_values(Z, bandwidth)
    candidates = np.arange(len(X)) if candidates is None else candidates
    y = np.where(np.asarray(y) > 0, 1.0, -1.0) if targets is None else targets
    w = np.ones(len(X)) if weight is None else weight
    stack = DenseStack(K[:, candidates, :])
    T = y if np.ndim(y) == 2 else y[:, None]
    return Task(RowDesign(stack, T, w, candidates), alpha, *budgets, **kw), K


def spread(state, n, d):
    lam, mu = np.zeros((n, state.dual_coef.shape[1])), np.zeros(d)
    lam[state.instances], mu[state.kernels] = state.dual_coef, state.weights
    return lam, mu


def test_reported_objective_is_the_definition(rng):
    X, y = zoo.planted()
    w = rng.uniform(0.5, 2, len(X))
    task, K = make(X, y, weight=w)
    solution = method.solve(task)
    lam, mu = spread(solution.state, *X.shape)
    again = references.bilinear_objective(K, task.design.targets[:, 0], w, 0.01, lam[:, 0], mu)
    np.testing.assert_allclose(solution.objective, again, rtol=1e-9)


def test_both_orders_of_summation_give_the_same_function(rng):
    X, y = zoo.planted(n=30)
    task, _ = make(X, y)
    lam, mu = rng.normal(size=30), rng.normal(size=8)
    np.testing.assert_allclose(task.design.stack.combine(mu) @ lam, task.design.stack.apply(lam) @ mu)


def test_intercept_minimises_the_loss():
    X, y = zoo.planted()
    task, K = make(X, y)
    table = coefficients(task, method.solve(task).state)
    F = sum(K[m][:, table.instances] @ table.coef[0, :, i] for i, m in enumerate(table.kernels))
    loss = lambda b: np.sum((F + b - task.design.targets[:, 0]) ** 2)  # noqa: E731
    b = table.intercept[0]
    assert loss(b) < min(loss(b + 1e-3), loss(b - 1e-3))


@pytest.mark.parametrize("solver", ["splicing", "admm"])
@pytest.mark.parametrize("seed", range(3))
def test_history_never_rises_and_starts_at_the_zero_model(solver, seed):
    X, y = zoo.planted(seed=seed)
    task, _ = make(X, y)
    history = method.solve(task, solver=solver).history
    assert history.objective[0] == pytest.approx(task.zero_objective)
    assert np.all(np.diff(history.objective) <= 1e-9 * task.zero_objective)
    assert history.objective[-1] < task.zero_objective


def test_scale_and_sign_of_the_factors_are_fixed():
    X, y = zoo.planted()
    task, _ = make(X, y)
    state = method.solve(task).state
    assert np.linalg.norm(state.dual_coef) == pytest.approx(1.0)
    assert state.weights[np.argmax(np.abs(state.weights))] > 0
    for c in (2.0, -0.1):
        moved = State(state.instances, c * state.dual_coef, state.kernels, state.weights / c)
        assert method.objective(task, moved) == pytest.approx(method.objective(task, state))
        np.testing.assert_allclose(method.normalised(moved).weights, state.weights)


def test_supports_respect_the_budgets_and_solve_their_normal_equations():
    X, y = zoo.planted()
    task, _ = make(X, y, budgets=(4, 2))
    solution = method.solve(task, tol=1e-10, max_iter=200)
    state = solution.state
    assert len(state.instances) <= 4 and len(state.kernels) <= 2
    problem = task.kernel_problem(state.instances, state.dual_coef)
    residual = problem.hessian(state.kernels) @ state.weights[:, None] - problem.cross[state.kernels]
    assert np.abs(residual).max() < 1e-8 * np.abs(problem.cross).max()


def test_no_exchange_improves_the_solution_and_a_restart_stops_at_once():
    X, y = zoo.planted()
    task, _ = make(X, y)
    solution = method.solve(task, tol=1e-6, max_iter=200)
    assert solution.status is Status.CONVERGED and solution.history.violation[-1] <= 1e-6
    again = method.solve(task, start=solution.state, tol=1e-6)
    assert again.n_iter == 0 and again.objective == pytest.approx(solution.objective)


def test_planted_features_are_found():
    X, y = zoo.planted(n=200)
    task, _ = make(X, y, budgets=(8, 2))
    assert method.solve(task).state.kernels.tolist() == [1, 4]


@pytest.mark.parametrize("budgets", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_tiny_problems_come_close_to_joint_enumeration(budgets):
    ratios = []
    for seed in range(6 if budgets != (2, 2) else 3):
        X, y = zoo.tiny(seed=seed)
        task, K = make(X, y, budgets=budgets)
        ratios.append(method.solve(task).objective / _enumerate(K, y, 0.01, *budgets))
    assert min(ratios) > 1 - 1e-6 and np.mean(ratios) < 1.1


def _enumerate(K, y, alpha, k, f):
    """Best objective over all pairs of supports, alternating ridge solves from several starts."""
    n, best, rng = len(y), np.inf, np.random.default_rng(0)
    C = K - K.mean(axis=1, keepdims=True)
    t, ridge = y - y.mean(), alpha * n
    supports = np.array(list(combinations(range(n), k)))

    def solve(A):
        """A ridge problem for each set of instances, and its value."""
        H = A.transpose(0, 2, 1) @ A + ridge * np.eye(A.shape[2])
        x = np.linalg.solve(H, (t @ A)[:, :, None])[:, :, 0]
        return x, 0.5 * np.sum((t - np.einsum("sij,sj->si", A, x)) ** 2, axis=1) + 0.5 * ridge * np.sum(x**2, axis=1)

    for F in combinations(range(len(K)), f):
        T = C[list(F)][:, :, supports].transpose(2, 0, 1, 3)  # (supports, f, n, k)
        for start in [np.ones(f), *rng.normal(size=(3 if f > 1 else 0, f))]:
            mu = np.tile(start, (len(supports), 1))
            for _ in range(30):
                lam, _ = solve(np.einsum("sm,smij->sij", mu / np.linalg.norm(mu, axis=1, keepdims=True), T))
                mu, values = solve(np.einsum("smij,sj->sim", T, lam / np.linalg.norm(lam, axis=1, keepdims=True)))
            best = min(best, values.min())
    return best


def test_path_falls_along_both_budgets():
    X, y = zoo.planted()
    task, _ = make(X, y)
    pairs = [(i, f) for i in (1, 2, 4, 8) for f in (1, 2, 3, 5)]
    cells = method.path(task, pairs)
    J = np.array([[cells[i, f].objective for f in (1, 2, 3, 5)] for i in (1, 2, 4, 8)])
    assert np.all(np.diff(J, axis=0) <= 1e-9) and np.all(np.diff(J, axis=1) <= 1e-9)
    for (i, f), cell in cells.items():
        assert len(cell.state.instances) <= i and len(cell.state.kernels) <= f
    assert J[-1, -1] < J[0, 0]


def test_permuting_rows_or_features_permutes_the_solution(rng):
    X, y = zoo.planted()
    rows, cols = rng.permutation(len(X)), rng.permutation(8)
    plain = method.solve(make(X, y)[0])
    moved = method.solve(make(X[rows][:, cols], y[rows])[0])
    assert moved.objective == pytest.approx(plain.objective)
    assert set(rows[moved.state.instances]) == set(plain.state.instances.tolist())
    assert set(cols[moved.state.kernels]) == set(plain.state.kernels.tolist())


def test_flipping_labels_keeps_supports_and_negates_the_function():
    X, y = zoo.planted()
    plain, flipped = make(X, y)[0], make(X, 1 - y)[0]
    a, b = method.solve(plain), method.solve(flipped)
    assert b.objective == pytest.approx(a.objective) and b.state.instances.tolist() == a.state.instances.tolist()
    np.testing.assert_allclose(coefficients(flipped, b.state).coef, -coefficients(plain, a.state).coef, atol=1e-9)


def test_integer_weights_are_repetitions_when_candidates_are_the_same(rng):
    X, y = zoo.planted(n=60)
    Z = (X - X.mean(0)) / X.std(0)
    w = rng.integers(1, 4, 60)
    rows = np.repeat(np.arange(60), w)
    K = references.kernel_values(Z, 1.0)
    t = np.where(y > 0, 1.0, -1.0)[:, None]
    first = np.searchsorted(rows, np.arange(60))
    one = method.solve(Task(RowDesign(DenseStack(K), t, w.astype(float), np.arange(60)), 0.01, 5, 3))
    two = method.solve(Task(RowDesign(DenseStack(K[:, :, rows]), t[rows], np.ones(len(rows)), first), 0.01, 5, 3))
    assert two.objective == pytest.approx(one.objective)
    assert two.state.instances.tolist() == one.state.instances.tolist()


def test_wide_kernels_with_ridge_end_at_the_zero_model():
    X, y = zoo.planted()
    task, _ = make(X, y, bandwidth=1e4)
    assert method.solve(task).objective == pytest.approx(task.zero_objective, rel=1e-3)


def test_constant_features_are_never_chosen():
    X, y = zoo.planted()
    K = references.kernel_values((X - X.mean(0)) / X.std(0), 1.0)
    K[4] = 1.0
    t = np.where(y > 0, 1.0, -1.0)[:, None]
    task = Task(RowDesign(DenseStack(K), t, np.ones(len(y)), np.arange(len(y))), 0.01, 6, 8)
    assert 4 not in method.solve(task).state.kernels


def test_splicing_ends_at_or_below_the_other_solvers_nearly_always_and_never_above_the_zero_model():
    wins = []
    for seed in range(2):
        X, y = zoo.planted(seed=seed)
        for bandwidth in (0.3, 1.0, 3.0):
            task, _ = make(X, y, bandwidth=bandwidth)
            rounds = {"splicing": 30, "admm": 30, "paper": 3}  # the last does not come down with more
            ends = {s: method.solve(task, solver=s, max_iter=rounds[s]).objective for s in method.SOLVERS}
            assert ends["splicing"] < task.zero_objective
            wins.append(ends["splicing"] <= min(ends.values()) * (1 + 1e-9))
    assert sum(wins) >= 5, wins


def test_paper_mode_follows_the_printed_updates_for_one_round():
    X, y = zoo.planted(n=20)
    task, K = make(X, y, budgets=(3, 2))
    from tamis.optim.prox import sparse_least_squares

    t, mu = task.design.targets[:, 0], np.full(8, 1 / 8)
    A = np.tensordot(mu, K, axes=1)
    lam = sparse_least_squares(A.T @ A, A.T @ t, 3, rho=1.0).sparse
    b = np.mean(A @ lam)
    B = np.einsum("lij,j->il", K, lam)
    mu = sparse_least_squares(B.T @ B, B.T @ (t + b), 2, rho=1.0).sparse
    steps = method.paper_iterates(task)
    next(steps)
    state = next(steps).state
    np.testing.assert_allclose(spread(state, 20, 8)[0][:, 0], lam)
    np.testing.assert_allclose(spread(state, 20, 8)[1], mu)
    np.testing.assert_allclose(coefficients(task, state).intercept, -np.mean(B @ mu))


def test_shared_support_fits_all_outputs_with_one_set_of_instances():
    X, y = zoo.three_classes()
    targets = np.where(y[:, None] == np.array(["a", "b", "c"]), 1.0, -1.0)
    task, K = make(X, None, targets=targets, budgets=(6, 2))
    solution = method.solve(task)
    assert solution.state.dual_coef.shape == (len(solution.state.instances), 3)
    assert len(solution.state.instances) <= 6 and set(solution.state.kernels.tolist()) == {0, 1}
    lam, mu = spread(solution.state, len(X), 4)
    F = np.einsum("lij,jq,l->iq", K, lam, mu)
    loss = 0.5 * np.sum((F - F.mean(0) - targets + targets.mean(0)) ** 2)
    ridge = 0.5 * 0.01 * len(X) * np.sum(lam**2) * np.sum(mu**2)
    np.testing.assert_allclose(solution.objective, loss + ridge, rtol=1e-9)


def test_one_shared_output_is_the_ordinary_method():
    X, y = zoo.planted()
    task, _ = make(X, y)
    twice, _ = make(X, None, targets=np.repeat(np.where(y > 0, 1.0, -1.0)[:, None], 2, axis=1))
    a, b = method.solve(task), method.solve(twice)
    assert a.state.instances.tolist() == b.state.instances.tolist() and b.objective == pytest.approx(2 * a.objective)


@pytest.mark.parametrize("refit", ["squared", "logistic"])
def test_full_coupling_fits_the_training_rows_at_least_as_well(refit):
    X, y = zoo.planted()
    task, K = make(X, y, alpha=1e-4)
    state = method.solve(task).state

    def loss(table):
        F = table.intercept[0] + sum(
            K[m][:, table.instances] @ table.coef[0, :, i] for i, m in enumerate(table.kernels)
        )
        t = task.design.targets[:, 0]
        return np.sum((F - t) ** 2) if refit == "squared" else np.sum(np.logaddexp(0, -t * F))

    rank_one = coefficients(task, state, coupling="rank_one", refit=refit)
    assert loss(coefficients(task, state, coupling="full", refit=refit)) < loss(rank_one)
    assert np.linalg.matrix_rank(rank_one.coef[0]) == 1


def test_full_squared_refit_solves_its_normal_equations():
    X, y = zoo.planted(n=60)
    task, K = make(X, y, budgets=(4, 2))
    state = method.solve(task).state
    table = coefficients(task, state, coupling="full")
    S, F = table.instances, table.kernels
    t = task.design.targets[:, 0]

    def penalised(coef):
        fit = sum(K[m][:, S] @ coef[:, i] for i, m in enumerate(F))
        value = 0.5 * np.sum((fit - fit.mean() - t + t.mean()) ** 2)
        for i, m in enumerate(F):
            corner = K[m][np.ix_(S, S)]
            size, vectors = np.linalg.eigh(corner)
            keep = size > 1e-4 * size[-1]
            white = vectors[:, keep] / np.sqrt(size[keep])
            part = K[m][:, S] @ white
            scale = len(F) * np.mean(np.sum((part - part.mean(0)) ** 2, axis=1))
            value += 0.5 * task.ridge * scale * coef[:, i] @ corner @ coef[:, i]
        return value

    rng = np.random.default_rng(0)
    for _ in range(5):
        step = 1e-3 * rng.normal(size=table.coef[0].shape)
        assert penalised(table.coef[0]) <= penalised(table.coef[0] + step) + 1e-9


def test_factors_of_a_rank_one_table_are_its_own(rng):
    lam, mu = rng.normal(size=(3, 4)), np.array([0.5, -2.0, 1.0])
    coef = lam[:, :, None] * mu
    dual, weights = leading_factors(coef, shared=True)
    np.testing.assert_allclose(dual[:, :, None] * weights[0], coef)
    assert np.linalg.norm(dual) == pytest.approx(1) and weights[0, 1] > 0
    dual, weights = leading_factors(coef, shared=False)
    np.testing.assert_allclose(dual[:, :, None] * weights[:, None], coef)


def test_violation_sees_kernels_that_are_missing():
    X, y = zoo.planted(n=200)
    small, _ = make(X, y, budgets=(8, 1))
    state = method.solve(small, tol=1e-8, max_iter=100).state
    larger, _ = make(X, y, budgets=(8, 2))
    assert method.violation(small, state, method.objective(small, state)) < 1e-6
    assert method.violation(larger, state, method.objective(larger, state)) > 1e-3


@pytest.mark.parametrize("coupling", ["rank_one", "full"])
@pytest.mark.parametrize("refit", ["squared", "logistic"])
def test_refits_take_integer_weights_as_repetitions_and_candidates_as_rows(rng, coupling, refit):
    X, y = zoo.planted(n=60)
    K = references.kernel_values((X - X.mean(0)) / X.std(0), 1.0)
    w, t = rng.integers(1, 4, 60), np.where(y > 0, 1.0, -1.0)[:, None]
    rows, pool = np.repeat(np.arange(60), w), np.arange(1, 60, 2)
    first = np.searchsorted(rows, pool)
    one = Task(RowDesign(DenseStack(K[:, pool]), t, w.astype(float), pool), 0.01, 4, 3)
    two = Task(RowDesign(DenseStack(K[:, pool][:, :, rows]), t[rows], np.ones(len(rows)), first), 0.01, 4, 3)
    state = method.solve(one).state
    a, b = (coefficients(task, state, coupling=coupling, refit=refit) for task in (one, two))
    np.testing.assert_allclose(a.coef, b.coef, atol=1e-6)
    np.testing.assert_allclose(a.intercept, b.intercept, atol=1e-6)


def test_logistic_weights_have_no_gradient_left():
    X, y = zoo.planted(n=80)
    task, K = make(X, y)
    state = method.solve(task).state
    table = coefficients(task, state, refit="logistic")
    B = np.column_stack([K[m][:, state.instances] @ state.dual_coef[:, 0] for m in state.kernels])
    mu = table.coef[0, 0] / state.dual_coef[0, 0]
    t = task.design.targets[:, 0]
    miss = 1 / (1 + np.exp(t * (B @ mu + table.intercept[0])))
    assert np.abs(-B.T @ (t * miss) + 0.25 * task.ridge * mu).max() < 1e-3


def test_where_every_value_has_both_classes_their_weights_start_the_search():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]], 2, axis=0)
    y, w = np.array([-1.0, 1.0] * 3), np.array([9.0, 1.0, 5.0, 5.0, 1.0, 9.0])
    task, _ = make(X, y, weight=w, budgets=(1, 1))
    start = method.density_start(task)
    assert start.kernels.tolist() == [0]
    assert method.path(task, [(1, 1), (2, 2)])[2, 2].objective < 0.7 * task.zero_objective


def test_class_densities_that_are_alike_start_with_all_kernels():
    X = np.repeat(np.arange(3.0), 2)[:, None] * [1.0, 0.5]
    task, _ = make(X, np.array([-1.0, 1.0] * 3), budgets=(1, 1))
    assert method.density_start(task).kernels.tolist() == [0, 1]


def test_density_start_centres_targets_with_the_weights():
    X, y = zoo.planted(n=60)
    w = np.where(y > 0, 5.0, 0.2)
    task, _ = make(X, y, weight=w, budgets=(5, 8))
    t = task.design.targets
    problem = task.kernel_problem(slice(None), w[:, None] * (t - np.average(t, axis=0, weights=w)))
    start = method.density_start(task)
    again = problem.hessian(start.kernels) @ start.weights
    np.testing.assert_allclose(again, problem.cross[start.kernels, 0], rtol=1e-8)
