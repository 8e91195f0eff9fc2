"""The 0/1-loss machine: every step against its definition, limits against enumeration, certificates."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import SVC

from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Gaussian
from tamis.kernels.stacks.base import DenseStack
from tamis.methods.zero_one import solver as method
from tamis.methods.zero_one import steps
from tamis.methods.zero_one.certificate import Point, certify, largest_gamma, proximity, value
from tamis.methods.zero_one.drop_and_refit import energy, hard_margin, learn_weights, search
from tamis.methods.zero_one.steps import Problem, Split, State
from tamis.optim.driver import Status
from tamis.optim.prox import prox_zero_one

WIDTHS = (0.7, 1.5, 3.0)


def data(n=40, d=6, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + X[:, 1] + noise * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def stack_of(X, widths=WIDTHS):
    columns = tuple(range(X.shape[1]))
    return KernelBank(tuple(Channel(f"w{w}", Gaussian(w), columns) for w in widths)).stack(X, form="dense")


def problem_of(n=40, seed=0, cost=16.0, widths=WIDTHS, **penalties):
    X, y = data(n, seed=seed)
    return Problem(stack_of(X, widths), y, np.full(n, cost), **penalties)


def random_state(problem, rng):
    L, n, _ = problem.stack.shape
    weights = rng.dirichlet(np.ones(L))
    split = Split(rng.uniform(size=L), -rng.uniform(size=L), float(rng.normal()))
    working = rng.uniform(size=n) < 0.7
    slack, multiplier = np.where(working, 0.0, rng.normal(size=n)), np.where(working, -rng.uniform(size=n), 0.0)
    return State(weights, rng.normal(size=n), float(rng.normal()), slack, multiplier, split)


def lagrangian(problem, w, b, d, u, lam, split=None):
    """The augmented Lagrangian (60); without `split` the terms of z and of the sum are left out."""
    K = problem.stack.combine(d).dense()
    r = u + problem.y * (K @ w + b) - 1
    total = 0.5 * w @ K @ w + problem.cost[u > 0].sum() + lam @ r + 0.5 * problem.rho1 * r @ r
    if split is not None:
        gap = d - split.copy
        total += split.lean @ gap + 0.5 * problem.rho2 * gap @ gap
        total += split.level * (d.sum() - 1) + 0.5 * problem.rho3 * (d.sum() - 1) ** 2
    return total


def gradient(f, x, h=1e-5):
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])


# ---------------------------------------------------------------------- steps


def test_slack_step_minimises_the_lagrangian_in_every_row(rng):
    problem = problem_of(12)
    state = random_state(problem, rng)
    image = problem.stack.combine(state.weights).dense() @ state.dual_coef
    u, working = steps.slack_step(problem, state, image)
    grid = np.linspace(-8, 8, 4001)
    for i in range(12):
        r = grid + problem.y[i] * (image[i] + state.intercept) - 1
        cost = problem.cost[i] * (grid > 0) + state.multiplier[i] * r + 0.5 * problem.rho1 * r**2
        r = u[i] + problem.y[i] * (image[i] + state.intercept) - 1
        own = problem.cost[i] * (u[i] > 0) + state.multiplier[i] * r + 0.5 * problem.rho1 * r**2
        assert own <= cost.min() + 1e-5
    assert np.all(u[working] == 0)


def test_dual_and_intercept_steps_minimise_the_lagrangian(rng):
    problem = problem_of(12, rho1=0.7)
    state = random_state(problem, rng)
    u = state.slack
    space = steps.Combination(problem, state.weights)
    w, image = space.dual_step(state, u, u == 0)
    np.testing.assert_allclose(image, space.K @ w, atol=1e-8)
    in_w = gradient(lambda v: lagrangian(problem, v, state.intercept, state.weights, u, state.multiplier), w)
    assert np.abs(np.linalg.solve(space.K, in_w)).max() < 1e-5  # the gradient in the space of functions
    b = steps.intercept_step(problem, state, u, image)
    in_b = gradient(lambda v: lagrangian(problem, w, v[0], state.weights, u, state.multiplier), np.array([b]))
    assert np.abs(in_b).max() < 1e-7


def test_printed_weight_step_minimises_the_lagrangian_before_it_projects(rng):
    problem = problem_of(12, rho2=2.0, rho3=3.0)
    state = random_state(problem, rng)
    A = problem.stack.apply(state.dual_coef)
    d = steps.unprojected(problem, state, A, state.split.copy)

    def whole(v):
        return lagrangian(problem, state.dual_coef, state.intercept, v, state.slack, state.multiplier, state.split)

    assert np.abs(gradient(whole, d)).max() < 1e-6 * max(1, abs(whole(d)))


def test_printed_weight_step_keeps_the_weights_on_the_simplex_and_drops_for_good(rng):
    problem = problem_of(12, rho2=2.0)
    state = random_state(problem, rng)
    state = replace(state, split=replace(state.split, lean=np.array([-5.0, 0.0, 0.0])))
    after = steps.paper_step(problem, state, problem.stack.apply(state.dual_coef))
    assert after.weights[0] == 0 and after.split.lean[0] == -5.0
    assert after.weights.sum() == pytest.approx(1) and after.weights.min() >= 0
    gone = replace(state, weights=np.zeros(3), split=replace(state.split, lean=-np.ones(3)))
    assert steps.paper_step(problem, gone, problem.stack.apply(state.dual_coef)).weights.sum() == pytest.approx(1)


def test_simplex_step_beats_every_other_point_of_the_simplex(rng):
    problem = problem_of(12, rho2=2.0)
    state = random_state(problem, rng)
    after = steps.simplex_step(problem, state, problem.stack.apply(state.dual_coef))
    assert after.weights.min() >= 0 and after.weights.sum() == pytest.approx(1)

    def total(d):
        near = 0.5 * problem.rho2 * np.sum((d - state.weights) ** 2)
        return lagrangian(problem, state.dual_coef, state.intercept, d, state.slack, state.multiplier) + near

    others = np.vstack([rng.dirichlet(np.ones(3), 200), np.eye(3), state.weights])
    assert all(total(after.weights) <= total(d) + 1e-9 for d in others)


def test_one_kernel_restricts_the_dual_step_to_the_working_set(rng):
    problem = problem_of(12, widths=(1.0,))
    state = replace(random_state(problem, rng), weights=np.ones(1))
    working = np.arange(12) < 7
    u = np.where(working, 0.0, 1.5)
    space = steps.Combination(problem, state.weights)
    w, image = space.dual_step(state, u, working)
    assert not w[7:].any()
    np.testing.assert_allclose(image, space.K @ w)
    block = np.eye(7) + problem.rho1 * space.K[:7, :7]
    right = -problem.y * (state.multiplier + problem.rho1 * (state.intercept * problem.y - 1))
    np.testing.assert_allclose(block @ w[:7], right[:7])


# ---------------------------------------------------------------------- limits


def limit(problem, tol=1e-6, **options):
    return method.solve_admm(problem, tol=tol, max_iter=3000, **options)


@pytest.mark.parametrize("widths", [WIDTHS, (0.7,)])
def test_converged_points_satisfy_all_six_conditions(widths):
    problem = problem_of(widths=widths, cost=64.0)
    solution = limit(problem)
    assert solution.status is Status.HARD_MARGIN
    found = method.certificate(problem, solution.state, 1e-6)
    assert found.worst < 1e-4 and found.gamma > 0.5 and found.n_given_up == 0
    state = solution.state
    np.testing.assert_allclose(state.dual_coef, -problem.y * state.multiplier, atol=1e-5)
    assert abs(state.dual_coef.sum()) < 1e-4
    assert np.all(state.multiplier <= 1e-12)
    assert np.all(np.abs(state.slack[state.multiplier != 0]) < 1e-4)


def test_limit_of_the_iteration_itself_is_stationary_before_it_lands():
    problem = problem_of(cost=64.0)
    points = method.iterates(problem, tol=1e-8)
    point = next(it for k, it in enumerate(points) if k > 0 and (it.violation <= 1e-8 or k > 5000))
    assert point.violation <= 1e-8
    state = point.state
    K = problem.stack.combine(state.weights).dense()
    support = np.flatnonzero(state.multiplier)
    size = len(support)
    bordered = np.block([[K[np.ix_(support, support)], np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
    solved = np.linalg.lstsq(bordered, np.append(problem.y[support], 0.0), rcond=None)[0]
    np.testing.assert_allclose(
        K[:, support] @ solved[:-1] + solved[-1], K @ state.dual_coef + state.intercept, atol=1e-5
    )
    energies = problem.stack.quad(state.dual_coef)
    assert energies.max() - state.weights @ energies < 1e-6 * energies.max()


def test_a_point_without_rows_given_up_is_the_hard_margin_machine():
    problem = problem_of(cost=64.0)
    solution = limit(problem)
    K = problem.stack.combine(solution.state.weights).dense()
    svc = SVC(kernel="precomputed", C=1e7, tol=1e-8).fit(K, problem.y)
    f = K @ solution.state.dual_coef + solution.state.intercept
    np.testing.assert_allclose(f, svc.decision_function(K), atol=1e-3)


def test_restart_at_a_converged_point_stops_at_once():
    problem = problem_of(cost=64.0)
    first = limit(problem, tol=1e-5)
    again = limit(problem, tol=1e-4, start=first.state)
    assert again.n_iter == 0


def test_dead_start_is_recognised_and_named():
    problem = problem_of(cost=1.0)
    assert not steps.leaves_start(problem) and steps.leaves_start(problem_of(cost=2.0))
    solution = method.solve_admm(problem)
    assert solution.status is Status.DEAD_START
    assert solution.objective == pytest.approx(min(np.sum(problem.y > 0), np.sum(problem.y < 0)))
    found = method.certificate(problem, solution.state, 1e-3)
    assert "dead start" in found.words and found.n_support == 0


def test_printed_weights_may_end_where_nothing_is_stationary_and_the_status_says_so():
    statuses = [
        method.solve_admm(problem_of(60, seed=s, widths=(0.05, 0.1, 1.0, 2.0), rho2=2.0), d_step="paper")
        for s in range(4)
    ]
    stalled = [s for s in statuses if s.status is Status.STALLED]
    assert stalled
    for s in stalled:
        assert np.sum(s.state.weights == 0) > 0


def test_dead_start_stops_where_it_began():
    points = list(itertools.islice(method.iterates(problem_of(cost=1.0)), 4))
    for it in points:
        assert not it.state.dual_coef.any() and abs(it.state.intercept) == pytest.approx(1)
        np.testing.assert_allclose(it.state.weights, 1 / 3)
    assert points[2].violation < 1e-9


def test_multipliers_stay_within_their_bound_and_the_band_is_empty():
    problem = problem_of(cost=8.0)
    points = method.iterates(problem, tol=1e-7)
    state = next(it.state for k, it in enumerate(points) if k and (it.violation <= 1e-7 or k > 5000))
    edge = np.sqrt(2 * problem.cost / problem.rho1)
    assert np.all(state.multiplier >= -np.sqrt(2 * problem.cost * problem.rho1) - 1e-6)
    assert not np.any((state.slack > 1e-6) & (state.slack <= edge - 1e-6))


def test_a_round_may_end_with_rows_given_up_and_rows_on_the_margin():
    found = [method.solve_admm(tiny_problem(seed, 2.0)) for seed in (1, 9)]
    mixed = [s for s in found if s.status is Status.CONVERGED]
    for s in mixed:
        assert np.any(s.state.slack > 0.1) and np.any(s.state.multiplier < 0)
    assert mixed


def test_cycling_is_reported():
    statuses = {method.solve_admm(tiny_problem(seed, 8.0), max_iter=5000).status for seed in (2, 3, 5, 7)}
    assert Status.CYCLING in statuses and Status.MAX_ITER not in statuses


def test_resting_weights_change_nothing_but_the_time(monkeypatch):
    problem = problem_of(cost=64.0)
    rested = limit(problem)
    monkeypatch.setattr(steps, "CALM_ROUNDS", 10**9)
    always = limit(problem)
    np.testing.assert_allclose(rested.state.weights, always.state.weights, atol=1e-4)
    assert rested.objective == pytest.approx(always.objective, rel=1e-5)


def test_an_unlanded_limit_differs_from_the_exact_machine_by_no_more_than_the_tolerance(monkeypatch):
    problem = problem_of(cost=64.0)
    landed = method.solve_admm(problem, tol=1e-3)
    monkeypatch.setattr(method, "_landed", lambda problem, solution, tol: solution)
    raw = method.solve_admm(problem, tol=1e-3)
    exact, loose = (method.certificate(problem, s.state, 1e-3) for s in (landed, raw))
    assert exact.proximity < 1e-5 < loose.proximity < 1e-2
    assert exact.constraint < 1e-9 and exact.representation < 1e-12 < loose.representation


def test_alpha_of_the_printed_step_uses_the_weights_before_the_projection(rng):
    problem = problem_of(12, rho2=2.0, rho3=3.0)
    state = random_state(problem, rng)
    A = problem.stack.apply(state.dual_coef)
    after = steps.paper_step(problem, state, A)
    moved = state.weights + state.split.lean / problem.rho2
    np.testing.assert_allclose(after.split.copy, np.maximum(moved, 0))
    free = steps.unprojected(problem, state, A, after.split.copy)
    assert after.split.level == pytest.approx(state.split.level + problem.rho3 * (free.sum() - 1))
    kept = moved > 0
    expected = state.split.lean + problem.rho2 * (after.weights - after.split.copy)
    np.testing.assert_allclose(after.split.lean[kept], expected[kept])


def test_label_flip_flips_the_machine():
    problem = problem_of(41, cost=64.0)
    flipped = replace(problem, y=-problem.y)
    a, b = limit(problem), limit(flipped)
    np.testing.assert_allclose(a.state.dual_coef, -b.state.dual_coef, atol=1e-7)
    np.testing.assert_allclose(a.state.weights, b.state.weights, atol=1e-7)
    assert a.state.intercept == pytest.approx(-b.state.intercept, abs=1e-6)


def test_permuting_rows_and_kernels_permutes_the_result(rng):
    X, y = data()
    rows, kernels = rng.permutation(len(y)), np.array([2, 0, 1])
    a = limit(Problem(stack_of(X), y, np.full(40, 64.0)))
    b = limit(Problem(stack_of(X[rows], np.array(WIDTHS)[kernels]), y[rows], np.full(40, 64.0)))
    np.testing.assert_allclose(a.state.weights[kernels], b.state.weights, atol=1e-6)
    np.testing.assert_allclose(a.state.dual_coef[rows], b.state.dual_coef, atol=1e-5)


def test_duplicating_a_kernel_leaves_the_decision_alone():
    X, y = data()
    a = limit(Problem(stack_of(X), y, np.full(40, 64.0)))
    twice = DenseStack(np.concatenate([stack_of(X).values, stack_of(X).values[-1:]]))
    b = limit(Problem(twice, y, np.full(40, 64.0)))
    assert a.objective == pytest.approx(b.objective, rel=1e-4)
    assert b.state.weights[2] + b.state.weights[3] == pytest.approx(a.state.weights[2], abs=1e-3)


@pytest.mark.parametrize("d_step", ["simplex_qp", "paper"])
def test_scaling_the_kernels_scales_the_coefficients_step_by_step(d_step):
    problem = problem_of(30, cost=16.0)
    c = 3.0
    scaled = Problem(DenseStack(c * problem.stack.values), problem.y, problem.cost / c, 1 / c, 16 / c, 256 / c)
    pairs = zip(method.iterates(problem, d_step=d_step), method.iterates(scaled, d_step=d_step), strict=False)
    for a, b in itertools.islice(pairs, 25):
        np.testing.assert_allclose(a.state.dual_coef / c, b.state.dual_coef, atol=1e-7)
        np.testing.assert_allclose(a.state.weights, b.state.weights, atol=1e-7)
        np.testing.assert_array_equal(a.state.multiplier != 0, b.state.multiplier != 0)


def test_costs_of_rows_act_as_repetitions():
    X, y = data(20)
    cost = np.where(np.arange(20) < 5, 6.0, 3.0)
    once = DenseStack(stack_of(X).values)
    best = method.solve(Problem(once, y, cost), solver="drop_and_refit")
    rows = np.r_[np.arange(20), np.arange(5)]
    again = method.solve(Problem(stack_of(X[rows]), y[rows], np.full(25, 3.0)), solver="drop_and_refit")
    assert best.objective == pytest.approx(again.objective, rel=1e-3)


# ---------------------------------------------------------------------- against enumeration


def tiny_problem(seed, cost):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, 2))
    y = np.where(X[:, 0] + 0.8 * rng.normal(size=8) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return Problem(stack_of(X, (1.0,)), y, np.full(8, cost))


def enumerated(K, y):
    """Half the squared norm and the rows given up, for all sets of rows to keep; by another solver."""
    yield from ((0.0, y > 0), (0.0, y < 0))
    for keep in itertools.product([False, True], repeat=len(y)):
        rows = np.flatnonzero(keep)
        if len(set(y[rows])) < 2:
            continue
        svc = SVC(kernel="precomputed", C=1e7, tol=1e-7).fit(K[np.ix_(rows, rows)], y[rows])
        w = np.zeros(len(y))
        w[rows[svc.support_]] = svc.dual_coef_[0]
        margin = y * (K @ w + svc.intercept_[0])
        if margin[rows].min() > 1 - 1e-4:
            yield 0.5 * w @ K @ w, margin < 1 - 1e-3


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 6, 14])
def test_dropping_and_refitting_finds_the_enumerated_optimum(seed):
    found = list(enumerated(tiny_problem(seed, 1.0).stack.one(0), tiny_problem(seed, 1.0).y))
    for cost in (2.0, 8.0):
        problem = tiny_problem(seed, cost)
        lowest = min(norm + problem.cost[given_up].sum() for norm, given_up in found)
        dropped = method.solve(problem, solver="drop_and_refit")
        assert dropped.objective == pytest.approx(lowest, rel=1e-3)
        by_admm = method.solve(problem, solver="admm")
        assert by_admm.objective >= lowest * (1 - 1e-3)
        best = method.solve(problem, solver="best")
        assert best.objective == min(dropped.objective, by_admm.objective)
        assert dropped.objective <= cost * min(np.sum(problem.y > 0), np.sum(problem.y < 0))


def test_dropping_learns_kernel_weights_and_its_points_are_stationary():
    problem = problem_of(60, seed=3, cost=1.0)
    fits = list(search(problem.stack, problem.y, problem.cost, 1e-4))
    assert fits[0].objective >= fits[1].objective >= fits[2].objective
    found = certify(problem.stack, fits[-1].point, problem.y, problem.cost, 1e-3)
    assert found.worst < 1e-2 and 0 < found.n_given_up < 60
    assert found.gamma > 0


def test_learned_weights_minimise_the_hard_margin(rng):
    X, y = data(30, seed=1)
    stack, kept = stack_of(X), np.arange(30) % 7 != 0
    start = np.full(3, 1 / 3)
    first = hard_margin(stack.combine(start).dense(), start, y, kept)
    best = learn_weights(stack, first, y, kept, 1e-6)
    for weights in rng.dirichlet(np.ones(3), 40):
        other = hard_margin(stack.combine(weights).dense(), weights, y, kept)
        assert energy(best, y) <= energy(other, y) * (1 + 1e-6)
    energies = stack.quad(best.dual_coef)
    assert energies.max() - best.weights @ energies <= 1e-6 * energies.max()
    assert energy(best, y) == pytest.approx(0.5 * best.weights @ energies, rel=1e-5)
    assert not best.dual_coef[~kept].any()


def test_there_is_no_hard_margin_between_contradicting_rows():
    X, y = data(20)
    X, y = np.vstack([X, X[:1]]), np.append(y, -y[0])
    assert hard_margin(stack_of(X).one(1), np.ones(1), y, np.ones(21, dtype=bool)) is None


def test_contradicting_rows_are_given_up():
    X, y = data(20)
    X, y = np.vstack([X, X[:1]]), np.append(y, -y[0])
    solution = method.solve(Problem(stack_of(X), y, np.full(21, 16.0)))
    assert method.certificate(Problem(stack_of(X), y, np.full(21, 16.0)), solution.state, 1e-3).n_given_up >= 1


# ---------------------------------------------------------------------- the certificate


def test_prox_of_the_step_loss_beats_a_grid(rng):
    grid = np.linspace(-6, 6, 6001)
    cost = rng.uniform(0.1, 4, size=50)
    z = rng.normal(size=50) * 2
    u = prox_zero_one(z, cost)
    for i in range(50):
        assert (
            cost[i] * (u[i] > 0) + 0.5 * (u[i] - z[i]) ** 2
            <= np.min(cost[i] * (grid > 0) + 0.5 * (grid - z[i]) ** 2) + 1e-5
        )
    assert prox_zero_one(np.array([2.0]), np.array([2.0])) == 0
    assert prox_zero_one(np.array([-3.0]), np.array([2.0])) == -3


def test_largest_gamma_is_the_edge_of_stationarity():
    u, pull, cost = np.array([0.0, 0.0, 3.0, -1.0]), np.array([1.0, 2.0, 0.0, 0.0]), np.full(4, 4.0)
    gamma = largest_gamma(u, pull, cost, 1e-9)
    assert gamma == pytest.approx(min(9 / 8, 8 / 4))
    assert proximity(u, pull, cost, 0.999 * gamma) == 0
    assert proximity(u, pull, cost, 1.01 * gamma) > 0
    lam = -pull
    np.testing.assert_allclose(prox_zero_one(u - 0.99 * gamma * lam, 0.99 * gamma * cost), u)


def test_certificate_sees_what_is_broken():
    problem = problem_of(cost=64.0)
    state = limit(problem).state
    point = state.point(problem)
    good = certify(problem.stack, point, problem.y, problem.cost, 1e-3)
    assert good.worst < 1e-3
    off = certify(problem.stack, replace(point, intercept=point.intercept + 0.1), problem.y, problem.cost, 1e-3)
    assert off.proximity > 0.05
    wrong = Point(np.array([0.0, 0.0, 1.0]), point.dual_coef, point.intercept)
    assert certify(problem.stack, wrong, problem.y, problem.cost, 1e-3).kernels > 1e-3
    unequal = replace(point, dual_coef=point.dual_coef * np.where(problem.y > 0, 1.5, 1.0))
    assert certify(problem.stack, unequal, problem.y, problem.cost, 1e-3).balance > 1e-2


def test_slacks_within_the_tolerance_cost_nothing():
    K, y = np.eye(2), np.array([1.0, -1.0])
    point = Point(np.ones(1), np.array([0.995, -0.995]), 0.0)
    assert value(point, K, y, np.full(2, 8.0), 1e-2) == pytest.approx(0.995**2)
    assert value(point, K, y, np.full(2, 8.0), 1e-3) == pytest.approx(0.995**2 + 16)


def test_violation_sees_a_row_in_the_band():
    problem = Problem(DenseStack(np.eye(2)[None]), np.array([1.0, -1.0]), np.full(2, 8.0))
    start = steps.dead_start(problem)
    inside = replace(start, intercept=0.5, slack=np.array([0.5, 1.5]))  # all other conditions hold
    assert method.violation(problem, inside, np.zeros(2), 1e-3) == pytest.approx(1.5)
    beyond = replace(problem, cost=np.full(2, 0.1))
    assert method.violation(beyond, inside, np.zeros(2), 1e-3) == 0


def test_weights_that_are_nearly_right_are_not_called_converged():
    problem = problem_of(cost=64.0)
    solution = limit(problem)
    for share in np.linspace(0.001, 0.2, 100):
        weights = (1 - share) * solution.state.weights + share / 3
        point = hard_margin(problem.stack.combine(weights).dense(), weights, problem.y, np.ones(40, dtype=bool))
        state = method._state(problem, point)
        if method.certificate(problem, state, 1e-3).kernels > 4e-3:
            break
    assert method.certificate(problem, state, 1e-3).worst < 1e-2
    assert method._judge(problem, replace(solution, state=state, status=Status.CONVERGED), 1e-3) is Status.STALLED
