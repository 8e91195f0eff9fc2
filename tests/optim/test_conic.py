"""Conic programs: the solver on problems with known answers, and absent channels against the paper's own programs."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

import tamis.methods.absent.conic as module
from tamis.kernels.stacks.base import DenseStack
from tamis.methods.absent.conic import solve_conic_program
from tamis.methods.baselines import simple_mkl
from tamis.optim.conic import Outcome, solve_conic
from tamis.optim.svm import solve_svm

PROGRAMS = ("weights", "direct", "literal")

pytest.importorskip("clarabel")


class TestSolver:
    def test_quadratic_program_with_one_active_bound(self):
        P, q = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([-1.0, 3.0])  # free minimum has x_2 < 0, so x = (1/2, 0)
        found = solve_conic(P, q, -np.eye(2), np.zeros(2), [("orthant", 2)])
        np.testing.assert_allclose(found.x, [0.5, 0.0], atol=1e-7)
        np.testing.assert_allclose(found.duals, [0.0, 3.5], atol=1e-6)
        assert found.outcome is Outcome.SOLVED and found.iterations > 0
        assert found.objective == pytest.approx(-0.25, abs=1e-7) and found.bound == pytest.approx(-0.25, abs=1e-7)

    def test_linear_function_on_a_ball(self, rng):
        c = rng.normal(size=3)
        G = np.vstack([np.zeros(3), -np.eye(3)])
        found = solve_conic(np.zeros((3, 3)), c, G, np.array([2.0, 0, 0, 0]), [("second_order", 4)])
        np.testing.assert_allclose(found.x, -2 * c / np.linalg.norm(c), atol=1e-6)
        np.testing.assert_allclose(c + G.T @ found.duals, 0, atol=1e-7)

    def test_says_that_there_is_no_point_or_no_minimum(self):
        zero, one = np.zeros((1, 1)), np.ones(1)
        both = np.array([[1.0], [-1.0]])
        apart = solve_conic(zero, one, both, np.array([-1.0, -1.0]), [("orthant", 2)])
        assert apart.outcome is Outcome.INFEASIBLE
        assert solve_conic(zero, one, both[:1], np.ones(1), [("orthant", 1)]).outcome is Outcome.UNBOUNDED

    def test_is_silent_and_repeats_itself(self, rng, capfd):
        A = rng.normal(size=(6, 6))
        given = A.T @ A, rng.normal(size=6), rng.normal(size=(9, 6)), np.ones(9), [("orthant", 5), ("second_order", 4)]
        one, two = solve_conic(*given), solve_conic(*given)
        np.testing.assert_array_equal(one.x, two.x)
        assert one.outcome is Outcome.SOLVED and capfd.readouterr() == ("", "")

    def test_refuses_rows_without_a_cone(self):
        with pytest.raises(ValueError, match="cones have 1 rows and offset has 2"):
            solve_conic(np.eye(1), np.ones(1), np.ones((2, 1)), np.ones(2), [("orthant", 1)])

    def test_a_missing_solver_is_one_sentence(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "clarabel", None)
        with pytest.raises(ImportError, match=r"^conic programs need clarabel: pip install 'tamis\[solvers\]'$"):
            solve_conic(np.eye(1), np.ones(1), -np.ones((1, 1)), np.zeros(1), [("orthant", 1)])


# ---------------------------------------------------------------------- absent channels


def problem(n=26, m=4, absent=2, C=2.0, seed=0, patterns=None):
    """Kernels with zeros for absent samples, labels, costs and who has what (n, m)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m, 2))
    y = np.where(X[:, :2, 0].sum(axis=1) + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    S = np.ones((n, m))
    for row in S:
        row[rng.permutation(m)[:absent]] = 0
    S = S if patterns is None else patterns
    grams = []
    for p in range(m):
        D = np.sum((X[:, None, p] - X[None, :, p]) ** 2, axis=2)
        grams.append((1 + p / m) * np.exp(-D / (2 + p)) * np.outer(S[:, p], S[:, p]))
    return grams, y, C * np.linspace(0.5, 1.5, n), S


def scores(model, grams):
    return sum(w * (K @ model.dual_coef) for w, K in zip(model.weights, grams, strict=True)) + model.intercept


def roots(grams):
    """L_p with K_p = L_p L_p'."""
    found = []
    for K in grams:
        values, vectors = np.linalg.eigh(K)
        keep = values > 1e-12 * values[-1]
        found.append(vectors[:, keep] * np.sqrt(values[keep]))
    return found


def as_published(grams, y, cost, S, program):
    """Value and scores of the paper's program: its gamma and u, a constraint for every sample."""
    cp = pytest.importorskip("cvxpy")
    n, m = S.shape
    alpha, b, xi, u = cp.Variable(n), cp.Variable(), cp.Variable(n, nonneg=True), cp.Variable()
    gamma = cp.Variable(m, nonneg=True)
    factors = roots(grams)
    if program == "literal":  # Eq. 12
        w = [L.T @ alpha for L in factors]
    else:
        w = [cp.Variable(L.shape[1]) for L in factors]
    f = sum(L @ v for L, v in zip(factors, w, strict=True)) + b
    limits = [cp.multiply(y, f) >= 1 - xi]
    if program == "direct":  # Eq. 5, with bias and slack
        limits += [cp.sum([S[i, p] * cp.norm(w[p]) for p in np.flatnonzero(S[i])]) <= u for i in range(n)]
        value = 0.5 * cp.square(u)
    else:  # Eq. 8 and 12
        terms = [[cp.quad_over_lin(w[p], gamma[p]) for p in np.flatnonzero(S[i])] for i in range(n)]
        limits += [0.5 * cp.sum(row) <= u for row in terms if row] + [cp.sum(gamma) == 1, u >= 0]
        value = u
    fine = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}
    solved = cp.Problem(cp.Minimize(value + cost @ xi), limits).solve(solver=cp.CLARABEL, **fine)
    return solved, f.value


def by_hand(model, grams, y, cost, rows, program):
    """The objective from coefficients, weights and intercept alone."""
    energies = np.array([model.dual_coef @ K @ model.dual_coef for K in grams])
    loss = cost @ np.maximum(0, 1 - y * scores(model, grams))
    if program == "direct":
        return 0.5 * np.max(rows @ (model.weights * np.sqrt(energies))) ** 2 + loss
    if program == "weights":
        return 0.5 * model.weights @ energies + loss
    return 0.5 * least(energies, rows) + loss


def least(energies, rows):
    """min over a >= 0, rows @ a <= 1 of sum energies / a."""
    cp = pytest.importorskip("cvxpy")
    a = cp.Variable(len(energies))
    return cp.Problem(cp.Minimize(energies @ cp.inv_pos(a)), [rows @ a <= 1]).solve(solver=cp.CLARABEL)


@pytest.fixture(scope="module", params=[0, 1], ids=["", "a sample without channels"])
def instance(request):
    rng = np.random.default_rng(3)
    S = np.ones((26, 4))
    for row in S:
        row[rng.permutation(4)[: rng.integers(1, 4)]] = 0
    S[4:6] *= 1 - request.param
    return problem(seed=request.param, patterns=S)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # the reference is asked for more than is compared
@pytest.mark.parametrize("program", PROGRAMS)
def test_value_and_scores_are_those_of_the_published_program(instance, program):
    grams, y, cost, S = instance
    model = solve_conic_program(grams, y, cost, np.unique(S, axis=0), program)
    value, f = as_published(grams, y, cost, S, program)
    assert model.converged and model.gap <= 1e-6
    assert model.objective == pytest.approx(value, rel=1e-6)
    assert not model.dual_coef[~S.any(axis=1)].any() or program != "literal"
    np.testing.assert_allclose(scores(model, grams), f, atol=1e-3 if program == "literal" else 1e-4)


@pytest.mark.parametrize("C", [1e-8, 0.02, 2.0, 500.0, 1e6])
@pytest.mark.parametrize("program", PROGRAMS)
def test_objective_is_that_of_the_model_and_below_that_of_a_constant(program, C):
    grams, y, cost, S = problem(C=C)
    rows = np.unique(S, axis=0)
    model = solve_conic_program(grams, y, cost, rows, program)
    assert model.converged
    assert model.objective == pytest.approx(by_hand(model, grams, y, cost, rows, program), rel=2e-6)
    assert model.objective < 2 * min(cost[y > 0].sum(), cost[y < 0].sum()) * (1 + 1e-8)


@pytest.mark.parametrize("program", ["weights", "direct"])
def test_coefficients_are_the_machine_of_the_weights(program):
    grams, y, cost, S = problem(n=50)
    model = solve_conic_program(grams, y, cost, S, program)
    alpha, margin = model.dual_coef * y, y * scores(model, grams)
    assert np.all(alpha >= 0) and np.all(alpha <= cost) and abs(model.dual_coef.sum()) < 1e-8
    assert np.any(alpha == 0) and np.any(alpha == cost)
    assert np.all(margin[alpha == 0] >= 1 - 1e-7) and np.all(margin[alpha == cost] <= 1 + 1e-7)
    np.testing.assert_allclose(margin[(alpha > 0) & (alpha < cost)], 1, atol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_programs_are_ordered(seed):
    grams, y, cost, S = problem(n=40, absent=1, seed=seed)
    direct, weights, literal = (
        solve_conic_program(grams, y, cost, S, program).objective for program in ("direct", "weights", "literal")
    )
    filled = solve_conic_program(grams, y, cost, np.ones((1, 4)), "weights").objective
    assert direct < weights - 1e-3 and weights < filled - 1e-3 and weights < literal - 1e-4


def test_weights_fill_the_polytope_and_solve_its_dual():
    grams, y, cost, S = problem(n=40, m=6, absent=3, C=0.5)
    for rows in (np.unique(S, axis=0), np.ones((1, 6)), S.mean(axis=0, keepdims=True), np.eye(6)):
        model = solve_conic_program(grams, y, cost, rows, "weights")
        assert 1 - 1e-6 <= np.max(rows @ model.weights) <= 1 + 1e-12
        energies = np.array([model.dual_coef @ K @ model.dual_coef for K in grams])
        most = -linprog(-energies, A_ub=rows, b_ub=np.ones(len(rows))).fun
        assert 0 <= model.objective - (np.abs(model.dual_coef).sum() - 0.5 * most) <= 1e-5 * model.objective


def test_nothing_absent_is_one_norm_mkl():
    grams, y, cost, S = problem(n=40, m=5, absent=0, C=0.3)
    expected = simple_mkl.solve(simple_mkl.Problem(DenseStack(np.array(grams)), y, cost), tol=1e-6)
    for program in ("weights", "direct"):
        model = solve_conic_program(grams, y, cost, np.unique(S, axis=0), program)
        assert model.objective == pytest.approx(expected.objective, rel=2e-6)
        np.testing.assert_allclose(model.weights, expected.state.weights, atol=2e-3)
        np.testing.assert_array_equal(model.weights == 0, expected.state.weights == 0)
    literal = solve_conic_program(grams, y, cost, np.unique(S, axis=0), "literal")
    assert literal.objective > expected.objective * 1.001


def test_one_complete_sample_makes_it_zero_filling():
    _, _, _, S = problem(n=40)
    S[7] = 1
    grams, y, cost, _ = problem(n=40, patterns=S)
    patterns = solve_conic_program(grams, y, cost, np.unique(S, axis=0), "weights")
    filled = solve_conic_program(grams, y, cost, np.ones((1, 4)), "weights")
    assert patterns.objective == pytest.approx(filled.objective, rel=1e-7)
    np.testing.assert_allclose(patterns.weights, filled.weights, atol=1e-4)


def test_one_channel_for_every_sample_makes_it_the_plain_sum():
    grams, y, cost, S = problem(n=40, absent=3)
    model = solve_conic_program(grams, y, cost, np.unique(S, axis=0), "weights")
    machine = solve_svm(sum(grams), y, cost, tol=1e-8)
    np.testing.assert_allclose(model.weights, 1, atol=1e-6)
    assert model.objective == pytest.approx(machine.value, rel=1e-7)
    np.testing.assert_allclose(scores(model, grams), sum(grams) @ machine.dual_coef + machine.intercept, atol=1e-4)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_channel_that_nobody_has_changes_nothing(program):
    grams, y, cost, S = problem()
    rows = np.unique(S, axis=0)
    model = solve_conic_program(grams, y, cost, rows, program)
    wider = solve_conic_program(
        [grams[0], np.zeros((26, 26)), *grams[1:]], y, cost, np.insert(rows, 1, 1.0, axis=1), program
    )
    np.testing.assert_array_equal(wider.weights, np.insert(model.weights, 1, 0.0))
    np.testing.assert_array_equal(wider.dual_coef, model.dual_coef)


@pytest.mark.parametrize("program", PROGRAMS)
def test_scaling_kernels_is_scaling_costs(program):
    grams, y, cost, S = problem()
    model = solve_conic_program(grams, y, cost, S, program)
    for factor in (1e-6, 1e5):
        other = solve_conic_program([factor * K for K in grams], y, cost / factor, S, program)
        assert other.converged and other.objective * factor == pytest.approx(model.objective, rel=2e-6)
        np.testing.assert_allclose(scores(other, [factor * K for K in grams]), scores(model, grams), atol=1e-3)


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_any_channel_the_larger_class_wins(program):
    y = np.array([1.0, 1, 1, -1, -1])
    model = solve_conic_program([np.zeros((5, 5))] * 2, y, np.full(5, 3.0), np.ones((1, 2)), program)
    assert model.objective == pytest.approx(12.0, rel=1e-6) and model.intercept == pytest.approx(1.0, abs=1e-6)
    assert model.converged and not model.weights.any()


@pytest.mark.parametrize("K", [-np.eye(26), np.eye(26)[::-1], np.eye(26) + 2 * np.eye(26)[::-1]])
def test_kernels_that_are_not_positive_are_refused(K):
    _, y, cost, S = problem()
    with pytest.raises(ValueError, match="positive semi-definite"):
        solve_conic_program([K] * 4, y, cost, S, "weights")


def test_what_the_solver_did_not_solve_has_not_converged(monkeypatch):
    grams, y, cost, S = problem()

    def changed(**changes):
        monkeypatch.setattr(module, "solve_conic", lambda *given: replace(solve_conic(*given), **changes))

    changed(outcome=Outcome.FAILED)
    assert solve_conic_program(grams, y, cost, S, "literal").gap == np.inf
    for changes in ({"outcome": Outcome.UNBOUNDED}, {"x": np.full(200, np.nan)}):
        changed(**changes)
        with pytest.raises(ArithmeticError, match="lower cost"):
            solve_conic_program(grams, y, cost, S, "weights")


@pytest.mark.parametrize("program", ["weights", "direct"])
def test_multipliers_out_of_range_give_a_bound_all_the_same(program, monkeypatch):
    grams, y, cost, S = problem(C=0.02)
    best = solve_conic_program(grams, y, cost, S, program)

    def large(*given):
        found = solve_conic(*given)
        return replace(found, duals=np.where(np.arange(len(found.duals)) < len(y), 1e9, found.duals))

    monkeypatch.setattr(module, "solve_conic", large)
    monkeypatch.setattr(module, "relative_gap", lambda primal, bound: 1 - bound / primal)  # of either sign
    wrong = solve_conic_program(grams, y, cost, S, program)
    assert wrong.objective * (1 - wrong.gap) <= best.objective * (1 + 1e-9)


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("program", ["weights", "direct"])
def test_the_gap_is_a_certificate_whatever_the_solver_does(program, tol, monkeypatch):
    grams, y, cost, S = problem()
    best = solve_conic_program(grams, y, cost, S, program)
    monkeypatch.setattr("tamis.optim.conic.TOL", tol)
    rough = solve_conic_program(grams, y, cost, S, program)
    assert rough.objective * (1 - rough.gap) <= best.objective * (1 + 1e-9) and rough.objective >= best.objective
    assert 1e-5 < rough.gap < 1 and not rough.converged
