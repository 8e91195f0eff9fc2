"""The mathematics of IMKPL: objective, gradients, steps and weight rules, from their definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tamis.explain import measures
from tamis.kernels.spectrum import LabelledRows, UnitKernels
from tamis.kernels.stacks.base import DenseStack
from tamis.methods.imkpl import solver as imkpl
from tamis.methods.imkpl.solver import Problem, State, code_step, merged, objective, prototype_step, slopes, start
from tamis.methods.imkpl.weights import RULES, aligned, energies, least_on_ball, weight_rule

SETTINGS = {"size": 3, "lam": 0.3, "mu": 0.2, "tau": 0.1, "n_neighbors": 3}


def gaussians(X):
    K = np.exp(-0.5 * ((X[:, None] - X[None]) / X.std(axis=0)) ** 2)
    return np.ascontiguousarray(K.transpose(2, 0, 1))


def rows_of(K, codes, weight=None):
    return LabelledRows(UnitKernels(DenseStack(K)), codes, np.ones(len(codes)) if weight is None else weight)


@pytest.fixture(scope="module")
def data():
    """Three classes in two informative columns, one of them twice, two columns of noise."""
    rng = np.random.default_rng(3)
    codes = np.arange(45) % 3
    X = rng.normal(size=(45, 5))
    X[:, 0] += 2.5 * (codes == 1)
    X[:, 1] += 2.5 * (codes == 2)
    X[:, 2] = X[:, 0]
    return gaussians(X), codes


@pytest.fixture
def problem(data):
    K, codes = data
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(codes))
    return Problem(rows_of(K, codes, weight), **SETTINGS, rule=weight_rule("align"))


def some_state(problem, seed=0):
    """A state in the middle of a run, with arbitrary weights."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(problem.rows.kernels.n_kernels))
    state = replace(start(problem, 3, "random", seed), weights=weights, K=problem.rows.kernels.combine(weights))
    return prototype_step(problem, code_step(problem, state))


def value_by_definition(problem, state, K=None):
    """J from feature vectors and loops, [Hosseini2019, Eq. 4 to 6]."""
    K = state.K if K is None else K
    w, codes, H = problem.rows.weight, problem.rows.codes, state.U @ state.G
    d2 = np.diag(K)[:, None] + np.diag(K)[None] - 2 * K
    near, far = problem.neighbours
    total = problem.tau * state.U.sum()
    for i in range(len(codes)):
        rest = np.eye(len(codes))[i] - H[:, i]
        apart = np.where(codes == codes[i], d2[i], 2.0)
        local = d2[i, near[i]].sum() + K[i, far[i]].sum()
        total += w[i] * (rest @ K @ rest + 0.5 * problem.lam * H[:, i] @ apart + problem.mu * local)
    return total


# ---------------------------------------------------------------------- objective


def test_the_objective_is_that_of_the_definition(problem):
    state = some_state(problem)
    np.testing.assert_allclose(objective(problem, state), value_by_definition(problem, state), rtol=1e-12)


def test_energies_are_the_objective_with_one_kernel(problem, data):
    state = some_state(problem)
    M, constant = slopes(problem, state)
    E = energies(problem, M) + constant
    ip = problem.tau * state.U.sum()
    np.testing.assert_allclose(E @ state.weights + ip, objective(problem, state), rtol=1e-12)
    for k, K in enumerate(data[0]):
        np.testing.assert_allclose(E[k] + ip, value_by_definition(problem, state, K), rtol=1e-12)


def test_the_coding_programs_have_the_gradient_of_the_objective(problem):
    state = some_state(problem)
    Q, linear = imkpl.coding(problem, state.K, state.U)
    gradient = problem.rows.weight * (2 * Q @ state.G + linear.T)
    rng = np.random.default_rng(1)
    for _ in range(5):
        D = rng.normal(size=state.G.shape)
        up, down = (value_by_definition(problem, replace(state, G=state.G + h * D)) for h in (1e-5, -1e-5))
        np.testing.assert_allclose((up - down) / 2e-5, np.vdot(gradient, D), rtol=1e-6, atol=1e-6)


def test_a_prototype_is_the_solution_of_its_program(problem, monkeypatch):
    """The program that is solved for a prototype differs from J, as a function of it, by a constant."""
    state, seen = some_state(problem), []
    monkeypatch.setattr(imkpl, "solve_nqp", lambda Q, c, limit: seen.append((Q, c)) or np.zeros(len(c)))
    prototype_step(problem, state)
    used = np.flatnonzero(state.G.any(axis=1))
    assert len(seen) == len(used) > 3
    rng = np.random.default_rng(2)
    for (Q, c), j in zip(seen, used, strict=True):
        w = problem.rows.weight @ state.G[j] ** 2
        gaps = []
        for _ in range(3):
            U = state.U.copy()
            U[:, j] = u = rng.uniform(size=len(U))
            gaps.append(value_by_definition(problem, replace(state, U=U)) - 2 * w * (0.5 * u @ Q @ u + c @ u))
        np.testing.assert_allclose(gaps, gaps[0], rtol=1e-8)


def plain_prototype_step(problem, state):
    """The step from its formulas, everything computed anew for every prototype [Hosseini2019, Eq. 8 and 9]."""
    K, w = state.K, problem.rows.weight
    U, G = state.U.copy(), state.G.copy()
    tilde = 1 - problem.rows.same * K
    for j in range(U.shape[1]):
        total = w @ G[j] ** 2
        if total == 0:
            continue
        E = np.eye(len(K)) - U @ G + np.outer(U[:, j], G[j])
        linear = -2 * K @ E @ (w * G[j]) + problem.lam * tilde @ (w * G[j])
        u = imkpl.solve_nqp(K, (linear + problem.tau) / (2 * total), problem.size)
        if not u.any():
            continue
        u /= np.sqrt(u @ K @ u)
        new = G.copy()
        best = max(0.0, -(linear @ u) / (2 * total))
        new[j] = best * G[j]
        trial = U.copy()
        trial[:, j] = u
        if value_by_definition(problem, replace(state, U=trial, G=new)) <= value_by_definition(
            problem, replace(state, U=U, G=G)
        ):
            U, G = trial, new
    return U, G


@pytest.mark.parametrize("seed", [0, 1])
def test_the_prototype_step_is_that_of_its_formulas(problem, seed):
    problem = replace(problem, tau=0.5)
    state = some_state(problem, seed)
    state = code_step(problem, state)
    stepped = prototype_step(problem, state)
    U, G = plain_prototype_step(problem, state)
    assert np.abs(U - state.U).max() > 0.05 and np.abs(G - state.G).max() > 1e-3
    np.testing.assert_allclose(stepped.U, U, atol=1e-8)
    np.testing.assert_allclose(stepped.G, G, atol=1e-8)


def test_a_run_stops_by_the_change_of_what_is_not_local_separation(problem):
    points = list(zip(range(3), imkpl.iterates(problem, start(problem, 3, "greedy", 0)), strict=False))
    (_, first), (_, second), _ = points
    state = second.state
    rest = value_by_definition(problem, state) - value_by_definition(replace(problem, lam=0.0, tau=0.0), state)
    H = state.U @ state.G
    rest += np.sum(problem.rows.weight * np.einsum("ij,ik,kj->j", np.eye(45) - H, state.K, np.eye(45) - H))
    assert second.violation == pytest.approx(abs(first.objective - second.objective) / rest)


def test_nothing_to_price_and_nothing_left_to_rebuild_is_a_settled_run(rng):
    codes = np.repeat([0, 1], 3)
    rows = rows_of(gaussians(rng.normal(size=(6, 2))), codes)
    problem = Problem(rows, 5, 0.0, 0.2, 0.0, 5, weight_rule("align"))
    solution = imkpl.solve(problem, start(problem, 6, "greedy", 0))
    assert np.isfinite(solution.history.violation[1:]).all()


def test_neighbours_are_the_nearest_of_the_own_class_and_of_the_others(problem):
    near, far = problem.neighbours
    mean, codes = problem.rows.mean, problem.rows.codes
    for i in (0, 7, 31):
        own = [s for s in np.argsort(-mean[i]) if s != i and codes[s] == codes[i]][:3]
        others = [s for s in np.argsort(-mean[i]) if codes[s] != codes[i]][:3]
        assert set(np.flatnonzero(near[i])) == set(own) and set(np.flatnonzero(far[i])) == set(others)


# ---------------------------------------------------------------------- steps


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("how", ["greedy", "random"])
def test_codes_and_prototypes_never_raise_the_objective(problem, rule, how):
    problem = replace(problem, rule=weight_rule(rule))
    state = start(problem, 3, how, 0)
    for _ in range(6):
        before = objective(problem, state)
        state = code_step(problem, state)
        middle = objective(problem, state)
        state = prototype_step(problem, state)
        after = objective(problem, state)
        assert middle <= before + 1e-9 and after <= middle + 1e-9
        H = state.U @ state.G
        state = imkpl.weight_step(problem, state, slopes(problem, state)[0])
        np.testing.assert_allclose(state.U @ state.G, H, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_a_solution_keeps_all_constraints(problem, rule):
    problem = replace(problem, rule=weight_rule(rule))
    solution = imkpl.solve(problem, start(problem, 3, "greedy", 0), max_iter=30)
    state = solution.state
    assert np.all(np.diag(state.K) == pytest.approx(1.0)) and np.all(state.weights >= 0)
    np.testing.assert_allclose(state.K, problem.rows.kernels.combine(state.weights), atol=1e-12)
    assert state.weights.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(np.einsum("ij,ik,kj->j", state.U, state.K, state.U), 1.0, atol=1e-10)
    assert np.all(state.U >= 0) and np.all(state.G >= 0)
    assert np.count_nonzero(state.U, axis=0).max() <= 3 and np.count_nonzero(state.G, axis=0).max() <= 3


def test_codes_are_stationary_on_the_prototypes_that_they_use(problem):
    state = some_state(problem)
    rng = np.random.default_rng(0)
    better = code_step(problem, state)
    assert imkpl.code_violation(problem, better) < 1e-9
    G = better.G.copy()
    G[G > 0] *= 1 + 1e-3 * rng.uniform(size=np.count_nonzero(G))
    assert imkpl.code_violation(problem, replace(better, G=G)) > 1e-6
    for seed in range(5):
        begun = replace(problem, lam=0.05 * seed)
        solution = imkpl.solve(begun, start(begun, 3, "random", seed), max_iter=30)
        assert imkpl.code_violation(begun, solution.state) < 1e-9


def test_a_run_from_its_own_end_stops_at_once(problem):
    first = imkpl.solve(problem, start(problem, 3, "greedy", 0), max_iter=50)
    assert first.status.converged
    again = imkpl.solve(problem, first.state, max_iter=50)
    assert again.n_iter <= 2 and again.objective == pytest.approx(first.objective, rel=2e-3)


def test_a_prototype_without_codes_stays_as_it_is(problem):
    state = some_state(problem)
    G = state.G.copy()
    G[1] = 0.0
    np.testing.assert_array_equal(prototype_step(problem, replace(state, G=G)).U[:, 1], state.U[:, 1])


def test_equal_prototypes_become_one_with_the_sum_of_their_codes(problem):
    state = some_state(problem)
    U, G = state.U.copy(), state.G.copy()
    U[:, 4] = U[:, 1]
    one = merged(State(state.weights, U, G, state.K))
    assert one.U.shape[1] == U.shape[1] - 1
    np.testing.assert_allclose(one.U @ one.G, U @ G, atol=1e-12)
    np.testing.assert_array_equal(one.U[:, :4], U[:, :4])


def test_a_greedy_start_gives_a_scattered_class_more_prototypes(rng):
    codes = np.repeat([0, 1], 30)
    X = np.concatenate([rng.normal(0, 0.1, (30, 2)), rng.normal(0, 0.2, (30, 2)) + 6 * rng.integers(0, 3, (30, 2))])
    problem = Problem(rows_of(gaussians(X), codes), **SETTINGS, rule=weight_rule("uniform"))
    state = start(problem, 3, "greedy", 0)
    per_class = np.bincount(codes[np.argmax(state.U, axis=0)])
    assert state.U.shape[1] == 6 and per_class[1] >= 4 and per_class[0] >= 1
    assert np.bincount(codes[np.argmax(start(problem, 3, "random", 0).U, axis=0)]).tolist() == [3, 3]


def test_a_greedy_start_looks_at_the_weights_of_rows(data):
    K, codes = data
    weight = np.ones(45)
    weight[[5, 20]] = 1e4
    problem = Problem(rows_of(K, codes, weight), **SETTINGS, rule=weight_rule("uniform"))
    first = np.argmax(start(problem, 3, "greedy", 0).U, axis=0)[:2]
    assert set(first.tolist()) == {5, 20}


def test_every_class_gets_a_prototype_and_a_small_one_all_its_rows(rng):
    codes = np.r_[np.zeros(30, int), np.ones(30, int), 2, 2]
    X = rng.normal(size=(62, 2)) + 0.01 * codes[:, None]
    problem = Problem(rows_of(gaussians(X), codes), **SETTINGS, rule=weight_rule("align"))
    for how in ("greedy", "random"):
        state = start(problem, 4, how, 0)
        assert state.U.shape[1] == 4 + 4 + 2
        assert set(codes[np.argmax(state.U, axis=0)]) == {0, 1, 2}
    assert imkpl.solve(problem, state).state.U.shape[1] <= 10


def test_relabelling_classes_changes_nothing(data):
    K, codes = data
    a, b = (Problem(rows_of(K, c), **SETTINGS, rule=weight_rule("align")) for c in (codes, np.array([2, 0, 1])[codes]))
    one, two = (imkpl.solve(p, start(p, 3, "greedy", 0)).state for p in (a, b))
    np.testing.assert_allclose(one.U, two.U, atol=1e-10)
    np.testing.assert_allclose(one.weights, two.weights, atol=1e-10)


def test_kernels_in_another_order_have_the_same_weights(data):
    K, codes = data
    order = np.array([3, 1, 4, 0])  # without the copy, whose choice is free
    a = Problem(rows_of(K[np.sort(order)], codes), **SETTINGS, rule=weight_rule("align"))
    b = Problem(rows_of(K[order], codes), **SETTINGS, rule=weight_rule("align"))
    one, two = (imkpl.solve(p, start(p, 3, "greedy", 0)).state for p in (a, b))
    np.testing.assert_allclose(two.weights, one.weights[[2, 1, 3, 0]], atol=1e-8)


# ---------------------------------------------------------------------- weights


def exact_alignment(K, M, kappa):
    """The program of the rule "align" from centred matrices, solved by another solver."""
    cp = pytest.importorskip("cvxpy")
    n = len(M)
    C = np.eye(n) - 1 / n
    hollow = 1 - np.eye(n)
    W = hollow * (C @ M @ C)
    centred = hollow * (C @ K @ C)
    a = np.einsum("lij,ij->l", C @ K @ C, W)
    Q = np.einsum("lij,mij->lm", centred, centred)
    b = cp.Variable(len(K), nonneg=True)
    factor = np.linalg.cholesky(Q + 1e-9 * np.trace(Q) * np.eye(len(K)))
    cp.Problem(cp.Minimize(0.5 * cp.sum_squares(factor.T @ b) + (a / -a.min() + kappa) @ b)).solve(solver="CLARABEL")
    return b.value / b.value.sum()


@pytest.mark.parametrize("kappa", [0.0, 0.1, 0.4])
def test_align_solves_its_program(problem, data, kappa):
    M, _ = slopes(problem, some_state(problem))
    K = np.delete(data[0], 2, axis=0)  # without the copy, the solution is unique
    found = aligned(UnitKernels(DenseStack(K)), M, kappa=kappa)
    np.testing.assert_allclose(found, exact_alignment(K, M, kappa), atol=2e-4)


def test_align_ignores_the_scale_of_its_target(problem):
    M, _ = slopes(problem, some_state(problem))
    one, two = (aligned(problem.rows.kernels, factor * M) for factor in (1.0, 7.3))
    np.testing.assert_allclose(one, two, atol=1e-9)


def test_a_constant_kernel_gets_nothing_and_a_copy_shares(problem, data):
    M, _ = slopes(problem, some_state(problem))
    K = data[0]
    more = np.concatenate([K, np.ones((1, 45, 45))])
    with_copy = aligned(UnitKernels(DenseStack(more)), M)
    without = aligned(UnitKernels(DenseStack(np.delete(K, 2, axis=0))), M)
    assert with_copy[5] == 0.0
    np.testing.assert_allclose(with_copy[0] + with_copy[2], without[0], atol=1e-6)


def test_fewer_kernels_are_kept_as_kappa_grows(problem):
    M, _ = slopes(problem, some_state(problem))
    counts = [np.count_nonzero(aligned(problem.rows.kernels, M, kappa=kappa)) for kappa in (0.0, 0.2, 0.5, 0.99)]
    assert counts[0] > 1 and counts == sorted(counts, reverse=True) and counts[-1] == 1


@pytest.mark.parametrize("rule", ["align", "graph"])
def test_a_limit_on_the_number_of_kernels_holds(problem, rule):
    M, _ = slopes(problem, some_state(problem))
    old = np.full(5, 0.2)
    free = weight_rule(rule, kappa=0.0)(problem, M, old)
    assert np.count_nonzero(free) > 2
    for most in (1, 2):
        weights = weight_rule(rule, kappa=0.0, max_kernels=most)(problem, M, old)
        assert np.count_nonzero(weights) == most and weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(weight_rule(rule, kappa=0.0, max_kernels=5)(problem, M, old), free, atol=1e-6)


def test_weights_stay_where_no_kernel_resembles_the_target(problem):
    old = np.full(5, 0.2)
    hopeless = np.sum(data_matrix(problem), axis=0)  # -M is least like the kernels
    np.testing.assert_array_equal(weight_rule("align")(problem, hopeless, old), old)


def data_matrix(problem):
    return np.array([problem.rows.kernels.stack.one(k) for k in range(5)])


def test_the_graph_rule_looks_at_neighbours_alone(problem):
    one, two = (
        weight_rule("graph")(problem, M, np.full(5, 0.2)) for M in np.random.default_rng(0).normal(size=(2, 45, 45))
    )
    np.testing.assert_array_equal(one, two)
    assert one[[0, 1, 2]].sum() > 0.6


def test_the_linear_program_keeps_one_kernel(problem):
    M, _ = slopes(problem, some_state(problem))
    weights = weight_rule("lp")(problem, M, np.full(5, 0.2))
    assert weights.tolist().count(1.0) == 1 and np.argmax(weights) == np.argmin(energies(problem, M))


def test_the_ball_rule_solves_its_program(rng):
    cp = pytest.importorskip("cvxpy")
    E = rng.normal(size=12)
    for m in (1.5, 4.0, 11.0):
        x = cp.Variable(12, nonneg=True)
        cp.Problem(cp.Minimize(E @ x), [cp.sum(x) == 1, cp.sum_squares(x) <= 1 / m]).solve(solver="CLARABEL")
        found = least_on_ball(E, m)
        np.testing.assert_allclose(found, x.value, atol=1e-4)
        assert found @ found == pytest.approx(1 / m)


def test_the_ball_rule_goes_from_one_kernel_to_all(rng):
    E = rng.normal(size=12)
    np.testing.assert_allclose(least_on_ball(E, 1.0), np.eye(12)[np.argmin(E)], atol=1e-9)
    np.testing.assert_allclose(least_on_ball(E, 12.0), 1 / 12)
    np.testing.assert_allclose(least_on_ball(np.ones(12), 3.0), 1 / 12)
    np.testing.assert_allclose(least_on_ball(np.r_[0.0, 0.0, 1.0], 1.5), [0.5, 0.5, 0.0])


def test_entropy_weights_grow_as_energies_fall(problem):
    M, _ = slopes(problem, some_state(problem))
    E = energies(problem, M)
    wide, narrow = (weight_rule("entropy", spread=s)(problem, M, np.full(5, 0.2)) for s in (10.0, 0.1))
    assert np.array_equal(np.argsort(wide), np.argsort(-E)) and np.all(wide > 0)
    assert narrow.max() > wide.max()
    np.testing.assert_allclose(np.log(wide / wide[0]), -(E - E[0]) / (10 * E.std()))


def test_uniform_weights_stay(problem):
    state = imkpl.solve(replace(problem, rule=weight_rule("uniform")), start(problem, 3, "greedy", 0)).state
    np.testing.assert_array_equal(state.weights, 0.2)


# ---------------------------------------------------------------------- measures


def test_the_spread_of_a_unit_prototype_is_in_its_sum(problem):
    state = some_state(problem)
    D = 2 - 2 * state.K
    for u in state.U.T:
        assert u @ D @ u == pytest.approx(2 * (u.sum() ** 2 - 1), abs=1e-9)


def test_interpretability_is_that_of_the_definition(problem):
    state, codes = some_state(problem), problem.rows.codes
    D = 2 - 2 * state.K
    terms = []
    for u in state.U.T:
        mass = [u[codes == q].sum() for q in range(3)]
        terms.append(max(mass) / sum(mass) * np.exp(-u @ D @ u))
    masses = np.array([state.U[codes == q].sum(axis=0) for q in range(3)])
    norms = np.einsum("ij,ik,kj->j", state.U, state.K, state.U)
    assert measures.interpretability(masses, norms) == pytest.approx(100 * np.mean(terms))
    assert measures.interpretability(np.eye(3), np.ones(3)) == pytest.approx(100.0)


def test_discriminative_representation_counts_rows_of_the_own_class():
    codes = np.array([[1.0, 0.0, 0.0], [3.0, 2.0, 0.0], [0.0, 2.0, 0.0]])
    value, empty = measures.discriminative_representation(codes, np.array(["a", "b", "a"]), np.array(["a", "b", "b"]))
    assert value == pytest.approx(100 * np.mean([1 / 4, 1.0])) and empty == 1
    assert np.isnan(measures.discriminative_representation(0 * codes, np.array([0, 0, 0]), np.zeros(3))[0])
