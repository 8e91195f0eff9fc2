"""SimpleMKL: convex combinations of kernels for the support vector machine."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import tamis.methods.baselines.simple_mkl as module
from tamis.base.kernel_model import Coefficients
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Gaussian
from tamis.kernels.stacks.base import DenseStack
from tamis.methods.absent.conic import solve_conic_over
from tamis.methods.baselines.simple_mkl import Problem, State, iterates, objective, reduced_descent, solve, violation
from tamis.optim.driver import Status
from tamis.optim.polytope import Polytope
from tamis.optim.svm import curvature, solve_svm

import zoo


@pytest.fixture(autouse=True)
def one_thread():
    """As estimators do: the matrices are small."""
    with threadpool_limits(1, user_api="blas"):
        yield


def bank(d, widths=(0.3, 1.0, 3.0)):
    singles = [Channel(f"{j}, {w}", Gaussian(w), (j,)) for j in range(d) for w in widths]
    return KernelBank((*singles, *(Channel(f"all, {w}", Gaussian(w * d**0.5), tuple(range(d))) for w in widths)))


def problem(n=60, d=4, C=5.0, seed=0, form="dense", widths=(0.3, 1.0, 3.0)):
    X, y = zoo.planted(n, max(d, 5), seed)
    cost = C * np.linspace(0.5, 1.5, n)
    return Problem(bank(d, widths).stack(X[:, :d], form=form), np.where(y > 0, 1.0, -1.0), cost)


def smallest_value(task):
    """min over the simplex of J, as a program in the dual of the machine."""
    cp = pytest.importorskip("cvxpy")
    n = len(task.y)
    alpha, t = cp.Variable(n), cp.Variable()
    beta = cp.multiply(task.y, alpha)
    roots = [np.linalg.cholesky(task.stack.one(k) + 1e-10 * np.eye(n)).T for k in range(task.stack.shape[0])]
    limits = [t >= cp.sum_squares(root @ beta) for root in roots]
    bounds = [alpha >= 0, alpha <= task.cost, cp.sum(beta) == 0]
    program = cp.Problem(cp.Maximize(cp.sum(alpha) - 0.5 * t), limits + bounds)
    with warnings.catch_warnings():  # the values that are compared say how accurate it is
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        return program.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("C", [0.1, 3.0, 100.0])
@pytest.mark.parametrize("solver", ["newton", "reduced_gradient"])
def test_value_against_a_general_solver(C, solver):
    task = problem(n=40, d=3, C=C)
    exact = smallest_value(task)
    tol = 1e-6 if solver == "newton" else 1e-3
    solution = solve(task, solver=solver, tol=tol, max_iter=300)
    assert solution.status is Status.CONVERGED
    assert solution.objective == pytest.approx(exact, rel=1e-5 if solver == "newton" else 1e-3)
    assert exact * (1 - 1e-7) <= solution.objective  # no weights do better


def test_violation_bounds_the_distance_to_the_optimum_all_the_way():
    task = problem(n=40, d=3)
    exact = smallest_value(task)
    for step, iterate in zip(range(6), iterates(task, solver="reduced_gradient")):
        assert 0 <= iterate.objective - exact + 1e-6 <= iterate.violation * iterate.objective + 2e-6, step
        assert iterate.violation == pytest.approx(violation(task, iterate.state), rel=1e-6, abs=1e-9)
        assert iterate.objective == pytest.approx(objective(task, iterate.state), rel=1e-9)


def test_violation_sees_a_machine_that_is_not_solved():
    task = problem()
    state = solve(task, tol=1e-6).state
    assert violation(task, state) < 1e-6 < 1e-3 < violation(task, replace(state, intercept=state.intercept + 0.1))
    assert violation(task, replace(state, dual_coef=0.9 * state.dual_coef)) > 1e-3


def test_steps_by_curvature_take_about_one_machine_each():
    runs = [solve(problem(**shape), tol=1e-8) for shape in ({}, {"C": 1.0}, {"n": 100, "d": 5}, {"seed": 3})]
    assert all(solution.status is Status.CONVERGED and solution.n_iter <= 12 for solution in runs)
    assert sum(solution.state.solves - len(solution.history) for solution in runs) <= 12


def test_objective_is_the_value_of_the_machine_of_the_combination():
    task = problem()
    state = solve(task, tol=1e-5).state
    machine = solve_svm(task.stack.combine(state.weights).dense(), task.y, task.cost, tol=1e-7)
    assert objective(task, state) == pytest.approx(machine.value, rel=1e-6)
    np.testing.assert_allclose(state.dual_coef, machine.dual_coef, atol=1e-4)


@pytest.mark.parametrize("solver", ["newton", "reduced_gradient"])
def test_weights_stay_on_the_simplex_and_the_value_never_rises(solver):
    history = solve(problem(), solver=solver, tol=1e-4, max_iter=40).history
    assert np.all(history.weights >= 0)
    np.testing.assert_allclose(history.weights.sum(axis=1), 1.0, atol=1e-12)
    assert len(history) > 2 and np.all(np.diff(history.objective) <= 0)


def test_two_starts_end_at_the_same_value():
    task = problem()
    L = task.stack.shape[0]
    ends = []
    for weights in (np.eye(L)[0], np.eye(L)[-1], np.full(L, 1.0 / L)):
        start = State(weights, np.zeros(len(task.y)), 0.0)
        ends.append(solve(task, start=start, tol=1e-6))
        assert ends[-1].history.weights[0] == pytest.approx(weights)
    assert {end.status for end in ends} == {Status.CONVERGED}
    np.testing.assert_allclose([end.objective for end in ends], ends[0].objective, rtol=2e-6)


def test_a_solution_as_a_start_stops_at_once():
    task = problem()
    first = solve(task, tol=1e-4)
    again = solve(task, start=first.state, tol=1e-4)
    assert again.n_iter == 0 and again.status is Status.CONVERGED
    assert again.state.passes > first.state.passes and again.state.solves == first.state.solves + 1


def test_permuting_the_kernels_permutes_the_weights(rng):
    task = problem()
    order = rng.permutation(task.stack.shape[0])
    other = replace(task, stack=task.stack.take(kernels=order))
    one, two = solve(task, tol=1e-8), solve(other, tol=1e-8)
    np.testing.assert_allclose(one.state.weights[order], two.state.weights, atol=1e-3)
    assert one.objective == pytest.approx(two.objective, rel=1e-7)


def test_a_row_of_weight_two_is_two_equal_rows():
    task = problem(n=40)
    twice = np.repeat(np.arange(40), np.where(np.arange(40) % 4 == 0, 2, 1))
    cost = np.where(np.arange(40) % 4 == 0, 2.0, 1.0)
    one = solve(replace(task, cost=cost), tol=1e-7)
    two = solve(Problem(task.stack.take(twice, twice), task.y[twice], np.ones(len(twice))), tol=1e-7)
    assert one.objective == pytest.approx(two.objective, rel=1e-6)
    np.testing.assert_allclose(one.state.weights, two.state.weights, atol=1e-3)


def test_planted_features_get_the_weight():
    X, y = zoo.planted(n=200)
    stack = KernelBank(tuple(Channel(str(j), Gaussian(0.7), (j,)) for j in range(8))).stack(X)
    weights = solve(Problem(stack, np.where(y > 0, 1.0, -1.0), np.full(200, 1.0)), tol=1e-5).state.weights
    assert weights[[1, 4]].sum() > 0.7 and np.count_nonzero(weights) < 8


def test_gradient_and_curvature_match_differences(rng):
    task = problem(n=50, d=3, C=2.0)
    L = task.stack.shape[0]
    weights = rng.dirichlet(np.ones(L))

    def value(d):
        return solve_svm(task.stack.combine(d).dense(), task.y, task.cost, tol=1e-9)

    def slopes(d):
        return -0.5 * task.stack.quad(value(d).dual_coef)

    beta, h = value(weights).dual_coef, 1e-5
    H = curvature(task.stack.combine(weights).dense(), task.y, task.cost, beta, task.stack.apply(beta))
    for m in range(L):
        up, down = weights + h * np.eye(L)[m], weights - h * np.eye(L)[m]
        assert (value(up).value - value(down).value) / (2 * h) == pytest.approx(slopes(weights)[m], rel=1e-5)
        np.testing.assert_allclose((slopes(up) - slopes(down)) / (2 * h), H[m], rtol=1e-3, atol=1e-4 * np.abs(H).max())


def test_reduced_gradient_descends_within_the_simplex():
    weights, energies = np.array([0.5, 0.3, 0.2, 0.0, 0.0]), np.array([2.0, 4.0, 1.0, 1.0, 6.0])
    direction = reduced_descent(weights, energies)
    np.testing.assert_allclose(direction, [-1.0 + 0.5 - 2.0, 1.0, -0.5, 0.0, 2.0])
    assert direction.sum() == 0 and direction @ energies > 0


class TestManyKernels:
    """More kernels than are looked at all the time."""

    @pytest.fixture
    def many(self):
        return problem(n=50, d=5, C=2.0, widths=np.geomspace(0.1, 5, 12))

    def test_active_sets_end_at_the_value_of_all_kernels(self, many, monkeypatch):
        assert many.stack.shape[0] == 72
        few = solve(many, tol=1e-6)
        monkeypatch.setattr(module, "MAX_ALL_ACTIVE", 100)
        whole = solve(many, tol=1e-6)
        assert few.status is whole.status is Status.CONVERGED
        assert few.objective == pytest.approx(whole.objective, rel=2e-6)
        assert np.all(np.diff(few.history.objective) <= 0)

    @pytest.mark.parametrize("form", ["streaming", "factored", "chebyshev"])
    def test_every_form_of_the_stack_ends_at_the_same_value(self, form):
        shape = {"n": 50, "d": 5, "C": 2.0, "widths": np.geomspace(0.8, 5, 12)}
        task = problem(**shape)
        if form == "chebyshev":
            single = np.arange(60)
            task = replace(task, stack=task.stack.take(kernels=single))
            X = zoo.planted(50, 5)[0]
            other = replace(task, stack=bank(5, shape["widths"]).take(single).stack(X, form=form))
        else:
            other = problem(**shape, form=form)
        assert solve(other, tol=1e-5).objective == pytest.approx(solve(task, tol=1e-5).objective, rel=2e-5)

    def test_values_are_not_held_beyond_the_limit(self, many, monkeypatch):
        stream = problem(n=50, d=5, C=2.0, widths=np.geomspace(0.1, 5, 12), form="streaming")
        value = solve(stream, tol=1e-4).objective
        monkeypatch.setattr(module, "MAX_GRAM_BYTES", 1)
        monkeypatch.setattr(DenseStack, "evaluate", lambda *_: pytest.fail("held"))
        assert solve(stream, tol=1e-4).objective == pytest.approx(value, rel=1e-9)

    def test_passes_count_the_kernels_that_are_touched(self, many, monkeypatch):
        touched, apply, weighted = [], DenseStack.apply, DenseStack.weighted

        def counted(self, coef):
            touched.append(self.shape[0])
            return apply(self, coef)

        def counted_sum(self, weights, rows):
            touched.append(np.count_nonzero(weights))
            return weighted(self, weights, rows)

        def held(self, limit):
            touched.append(self.shape[0])
            return self

        monkeypatch.setattr(DenseStack, "apply", counted)  # the quadratic forms go through it
        monkeypatch.setattr(DenseStack, "weighted", counted_sum)
        monkeypatch.setattr(DenseStack, "held", held)
        state = solve(many, tol=1e-3).state
        assert state.passes * 72 == pytest.approx(sum(touched)) and state.passes < 20 and state.solves < 40

    def test_sonar_takes_few_passes(self, data_folder):
        raw = np.load(data_folder / "p2" / "sonar.npz", allow_pickle=False)
        X = (raw["X"] - raw["X"].mean(axis=0)) / raw["X"].std(axis=0)
        widths = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.2, 1.5, 1.7, 2.0)
        channels = [Channel(f"{j}, {w}", Gaussian(w), (j,)) for j in range(60) for w in widths]
        channels += [Channel(f"all, {w}", Gaussian(w), tuple(range(60))) for w in widths]
        stack = KernelBank(tuple(channels)).stack(X, form="factored")
        solution = solve(Problem(stack, np.where(raw["y"] > 0, 1.0, -1.0), np.full(208, 10.0)))
        assert solution.status is Status.CONVERGED and solution.history.violation[-1] <= 1e-3
        assert solution.state.passes <= 60 and solution.state.solves < 100


def test_kernels_that_are_constant_leave_nothing_to_learn():
    y = np.where(np.arange(20) % 2 == 0, 1.0, -1.0)
    solution = solve(Problem(DenseStack(np.ones((3, 20, 20))), y, np.ones(20)))
    assert solution.status is Status.CONVERGED and solution.objective == pytest.approx(20.0)


def test_one_kernel_is_the_plain_machine():
    task = problem()
    one = replace(task, stack=task.stack.take(kernels=np.array([2])))
    solution = solve(one, tol=1e-6)
    machine = solve_svm(task.stack.one(2), task.y, task.cost, tol=1e-7)
    assert solution.n_iter == 0 and solution.state.weights.tolist() == [1.0]
    f, g = task.stack.one(2) @ solution.state.dual_coef, task.stack.one(2) @ machine.dual_coef
    np.testing.assert_allclose(f + solution.state.intercept, g + machine.intercept, atol=1e-5)


def test_a_hard_margin_is_certified_too():
    task = replace(problem(n=50), cost=np.full(50, 1e6))
    solution = solve(task)
    state = solution.state
    f = task.stack.combine(state.weights) @ state.dual_coef + state.intercept
    assert solution.status is Status.CONVERGED and np.min(task.y * f) > 1 - 1e-4


def test_coefficients_give_the_decision_of_the_machine():
    X, labels = zoo.planted(60, 5)
    kernels = bank(4)
    task = problem()
    state = solve(task).state
    parts = Coefficients.rank_one(state.dual_coef, state.weights, state.intercept)
    assert parts.coef.shape == (1, len(parts.instances), len(parts.kernels)) and parts.intercept.shape == (1,)
    assert len(parts.kernels) == np.count_nonzero(state.weights)
    values = [kernels.channels[k](X, X[parts.instances]) for k in parts.kernels]
    f = sum(K @ parts.coef[0, :, m] for m, K in enumerate(values)) + parts.intercept[0]
    np.testing.assert_allclose(f, task.stack.combine(state.weights) @ state.dual_coef + state.intercept, atol=1e-10)
    assert np.mean(np.sign(f) == np.where(labels > 0, 1, -1)) > 0.9


class TestSingularKernels:
    """Kernels of few distinct values, copies and low ranks, where the objective has kinks."""

    @staticmethod
    def random(seed):
        rng = np.random.default_rng(seed)
        n, L, d = rng.integers(10, 61), rng.integers(2, 7), rng.integers(1, 4)
        cost = 10 ** rng.uniform(-2, 2) * rng.uniform(0.1, 3.0, n)
        if rng.random() < 0.4:  # one kernel for each column of categories
            X = rng.integers(0, rng.integers(2, 6, L), (n, L)).astype(float)
            total = X.sum(axis=1) + 2.0 * rng.normal(size=n)
            y = np.where(total > np.quantile(total, rng.choice([0.5, 0.8])), 1.0, -1.0)
            return Problem(DenseStack(np.exp(-0.5 * (X.T[:, :, None] - X.T[:, None]) ** 2)), y, cost)
        X = rng.normal(size=(n, d))
        X = np.round(X) if rng.random() < 0.4 else X
        squares, Ks = ((X[:, None] - X[None]) ** 2).sum(axis=2), []
        for _ in range(L):
            kind = rng.random()
            if kind < 0.5:
                Ks.append(np.exp(-0.5 * squares / rng.choice([0.2, 0.5, 1.0, 2.0]) ** 2))
            elif kind < 0.8:
                F = rng.normal(size=(n, rng.integers(1, 4)))
                Ks.append(F @ F.T)
            else:
                Ks.append(Ks[rng.integers(len(Ks))].copy() if Ks else np.eye(n))
        y = np.where(rng.random(n) < rng.choice([0.5, 0.2]), 1.0, -1.0)
        y[:2] = 1.0, -1.0
        return Problem(DenseStack(np.array(Ks)), y, cost)

    @pytest.mark.parametrize("solver", module.SOLVERS)
    def test_every_direction_reaches_the_gap_on_300_random_problems(self, solver):
        failed = []
        for seed in range(300):
            task = self.random(seed)
            solution = solve(task, solver=solver, tol=1e-6, max_iter=500)
            if solution.status is not Status.CONVERGED or violation(task, solution.state) > 1e-6:
                failed.append((seed, solution.status, float(solution.history.violation[-1])))
        assert not failed

    def test_values_are_those_of_a_conic_solver_on_300_random_problems(self):
        pytest.importorskip("clarabel")
        for seed in range(300):
            task = self.random(seed)
            L = task.stack.shape[0]
            scale = np.array([max(np.trace(task.stack.one(k)) / len(task.y), 1e-12) for k in range(L)])
            grams = [task.stack.one(k) / scale[k] for k in range(L)]
            exact = solve_conic_over(grams, task.y, task.cost, Polytope(1.0 / scale[None]), "weights").objective
            for solver in module.SOLVERS:
                found = solve(task, solver=solver, tol=1e-6, max_iter=500).objective
                assert found == pytest.approx(exact, rel=1e-5, abs=1e-8), (seed, solver)

    @pytest.mark.parametrize("solver", module.SOLVERS)
    def test_categories_do_not_end_at_a_vertex(self, solver, data_folder):
        file = data_folder / "p1" / "heart_statlog.npz"
        if not file.exists():
            pytest.skip("heart_statlog is not in the folder of datasets")
        data = np.load(file)
        X, y = data["X"].astype(float), data["y"]
        Z, y = (X - X.mean(axis=0)) / X.std(axis=0), np.where(y == np.unique(y)[1], 1.0, -1.0)
        values = []
        for columns in ((2, 7, 4, 11), (1, 5, 8, 12), (2, 8, 9, 12)):
            channels = [Channel(f"{j}", Gaussian(1.0), (j,)) for j in columns]
            task = Problem(KernelBank(tuple(channels)).stack(Z[:60], form="dense"), y[:60], np.ones(60))
            solution = solve(task, solver=solver, tol=1e-6)
            assert solution.status is Status.CONVERGED
            values.append(solution.objective)
        np.testing.assert_allclose(values, [34.654460, 31.445424, 31.445405], rtol=2e-6)

    def test_a_run_that_ends_above_its_gap_says_so_and_returns_its_best_point(self):
        solution = solve(self.random(3), tol=0.0)
        assert solution.status is Status.EXHAUSTED
        assert solution.history.violation[-1] == solution.history.violation.min() <= 1e-7
