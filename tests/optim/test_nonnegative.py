"""The weight step against conic programs, enumeration and linear programs, by both of its solvers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

import tamis.optim.nonnegative as module
from tamis.optim.nonnegative import largest_weight, solve_nonnegative

SOLVERS = ["projection", "primal"]


def solve_by(solver, *problem, **options):
    """The step by descent alone, by projection first, or by what the number of rows says."""
    with pytest.MonkeyPatch.context() as patch:
        most = {"primal": 0, "projection": 10**9}.get(solver, module.MAX_PROJECTED_ROWS)
        patch.setattr(module, "MAX_PROJECTED_ROWS", most)
        return solve_nonnegative(*problem, **options)


def value(B, c, q, d):
    return q @ d + np.sum(np.maximum(0.0, c - B @ d) ** 2)


def check_conditions(B, c, q, step, tol=1e-8):
    """The conditions of a minimum of a convex problem, written out once more."""
    slack = np.maximum(0.0, c - B @ step.d)
    np.testing.assert_allclose(step.slack, slack, atol=1e-12 * (1 + np.abs(c).max()))
    scale = np.abs(q) + 2 * np.linalg.norm(B, axis=0) * (np.linalg.norm(slack) + 1e-4 * np.linalg.norm(c)) + 1e-300
    excess = (2 * B.T @ slack - q) / scale
    worst = max(np.max(excess, initial=0.0), np.max(np.abs(excess[step.d > 0]), initial=0.0))
    assert np.all(step.d >= 0) and worst <= tol and step.ray is None
    assert step.violation == pytest.approx(worst, rel=1e-6, abs=1e-9)
    assert np.count_nonzero(step.d) <= len(c)


def check_ray(B, q, u):
    norm = np.linalg.norm(B, axis=0)
    assert np.all(u >= 0) and q @ u < 0
    assert np.all(B @ u >= -1e-8 * np.linalg.norm(norm * u))


def data(rng, kind):
    """A small problem of a kind that some solver could find hard."""
    n, M = int(rng.integers(1, 12)), int(rng.integers(1, 30))
    B, c, q = rng.normal(size=(n, M)), rng.normal(size=n) + 0.5, rng.normal(size=M)
    if kind == "whole":
        B, c, q = np.rint(B), np.rint(c), np.rint(q + 0.5)
    if kind == "free":
        q = np.zeros(M)
    if kind == "copies":
        B, q = np.concatenate([B, B, 2 * B], axis=1), np.concatenate([q, q, 2 * q])
    if kind == "correlated":
        B, q = rng.normal(size=(n, 2)) @ rng.normal(size=(2, M)) + 1e-3 * B, 1e-4 * np.abs(q)
    if kind == "scaled":
        B, q = B * 10.0 ** rng.integers(-5, 6, size=M), np.abs(q)
    if kind == "sparse":
        B, q = np.abs(B) * (rng.random((n, M)) < 0.6), np.where(rng.random(M) < 0.5, 0.0, np.abs(q))
    if kind == "tiny":
        B, c, q = rng.normal(size=(n, 1)) + 0.1 * B, np.ones(n), 1e-4 * np.abs(q)
    return B, c, q


KINDS = ["plain", "whole", "free", "copies", "correlated", "scaled", "sparse", "tiny"]


@pytest.mark.parametrize("kind", KINDS)
def test_both_solvers_end_at_a_minimum_or_on_a_ray_as_a_linear_program_says(kind):
    rng = np.random.default_rng(len(kind) * 7 + ord(kind[0]))
    rays = 0
    for _ in range(40):
        B, c, q = data(rng, kind)
        norm = np.linalg.norm(B, axis=0)
        norm[norm == 0] = 1.0
        fall = linprog(q / norm, A_ub=-B / norm, b_ub=np.zeros(len(c)), bounds=(0, 1)).fun
        values = []
        for solver in SOLVERS:
            step = solve_by(solver, B, c, q)
            if fall < -1e-9:
                check_ray(B, q, step.ray)
                rays += 1
            else:
                check_conditions(B, c, q, step)
                values.append(value(B, c, q, step.d))
        if values:
            assert values[0] == pytest.approx(values[1], rel=1e-6, abs=1e-9 * (c @ c))
    assert rays > 0 or kind not in ("plain", "whole", "copies")


def enumerated(B, c, q):
    """The least value over all supports and all sets of rows with slack that are consistent with themselves."""
    n, M = B.shape
    best = value(B, c, q, np.zeros(M))
    for support in itertools.product([False, True], repeat=M):
        for rows in itertools.product([False, True], repeat=n):
            S, A = np.flatnonzero(support), np.flatnonzero(rows)
            block = B[np.ix_(A, S)]
            d = np.zeros(M)
            d[S] = np.linalg.lstsq(block.T @ block, block.T @ c[A] - q[S] / 2)[0]
            if d.min() >= 0:
                best = min(best, value(B, c, q, d))
    return best


@pytest.mark.parametrize("solver", SOLVERS)
def test_value_is_the_least_over_all_supports(solver):
    rng = np.random.default_rng(3)
    for _ in range(15):
        B, c, q = rng.normal(size=(4, 4)), rng.normal(size=4) + 0.5, np.abs(rng.normal(size=4)) * 0.3
        step = solve_by(solver, B, c, q)
        assert value(B, c, q, step.d) == pytest.approx(enumerated(B, c, q), rel=1e-9)


def wide(rng, n, M, ratio=0.1):
    """Correlated columns, many more than rows."""
    X = rng.normal(size=(n, 4)) @ rng.normal(size=(4, M)) + rng.normal(size=(n, M))
    y = np.sign(X[:, 0] + X[:, 1] + rng.normal(size=n))
    B, c = y[:, None] * X, np.ones(n) - 0.3 * y
    return B, c, np.full(M, ratio * largest_weight(B, c, np.zeros(M), 1.0))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("n", "M", "ratio"), [(20, 300, 0.1), (20, 300, 1e-3), (200, 10, 1e-2)])
def test_value_agrees_with_a_conic_program(n, M, ratio, solver):
    cp = pytest.importorskip("cvxpy")
    B, c, q = wide(np.random.default_rng(n + M), n, M, ratio)
    q = q * np.random.default_rng(0).uniform(-0.02 if n > M else 0.0, 1.0, size=M)
    d = cp.Variable(M, nonneg=True)
    problem = cp.Problem(cp.Minimize(q @ d + cp.sum_squares(cp.pos(c - B @ d))))
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-10, tol_gap_abs=1e-10, tol_feas=1e-10)
    step = solve_by(solver, B, c, q)
    check_conditions(B, c, q, step)
    assert value(B, c, q, step.d) == pytest.approx(problem.value, rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_agree_on_many_columns_and_on_many_rows(solver):
    for n, M in [(40, 2000), (300, 40)]:
        B, c, q = wide(np.random.default_rng(n), n, M, 0.02)
        step = solve_by(solver, B, c, q)
        other = solve_nonnegative(B, c, q)
        check_conditions(B, c, q, step)
        np.testing.assert_allclose(step.d, other.d, atol=1e-8 * other.d.max())
        assert np.count_nonzero(step.d) > 3


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_free_columns_still_give_at_most_as_many_weights_as_rows(solver):
    rng = np.random.default_rng(5)
    for n in (3, 10):
        B, c, q = rng.normal(size=(n, 500)), np.ones(n), np.zeros(500)
        step = solve_by(solver, B, c, q, start=np.full(500, 0.01))
        check_conditions(B, c, q, step)
        assert 0 < np.count_nonzero(step.d) <= n and np.max(step.slack) < 1e-10


def test_weights_beyond_the_number_of_rows_are_thinned_without_changing_the_image():
    rng = np.random.default_rng(6)
    B, d = rng.normal(size=(4, 12)), rng.uniform(0.5, 1.0, size=12)
    problem = module._checked(B, np.ones(4), np.zeros(12))
    thin = module._thinned(problem, d)
    assert np.count_nonzero(thin) <= 4 and np.all(thin >= 0)
    np.testing.assert_allclose(B @ thin, B @ d, atol=1e-10)


@pytest.mark.parametrize("solver", SOLVERS)
def test_empty_polyhedron_is_reported_with_a_ray(solver):
    B = np.random.default_rng(0).uniform(0.1, 1.0, size=(6, 5))
    q = -np.ones(5)
    step = solve_by(solver, B, np.ones(6), q)
    check_ray(B, q, step.ray)
    zero = solve_by(solver, np.array([[1.0, 0.0]]), np.ones(1), np.array([0.1, -1.0]))
    np.testing.assert_allclose(zero.ray, [0.0, 1.0], atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_negative_costs_alone_are_no_ray_if_the_loss_rises(solver):
    B, c, q = -np.eye(3), np.ones(3), np.array([-4.0, -6.0, 1.0])
    step = solve_by(solver, B, c, q)
    np.testing.assert_allclose(step.d, [1.0, 2.0, 0.0], atol=1e-12)  # -4 + 2 (1 + d) = 0
    assert step.ray is None


def test_projection_needs_no_help_on_problems_of_good_condition(monkeypatch):
    monkeypatch.setattr(module, "_descend", lambda problem, d, tol: (d, None))
    rng = np.random.default_rng(11)
    for n, M in [(10, 80), (40, 300), (60, 20)]:
        B, c, q = wide(rng, n, M, 0.05)
        check_conditions(B, c, q, solve_by("projection", B, c, q))
    step = solve_by("projection", np.ones((3, 2)), np.ones(3), np.array([1.0, -1.0]))
    check_ray(np.ones((3, 2)), np.array([1.0, -1.0]), step.ray)


def test_rays_are_verified():
    problem = module._checked(np.array([[1.0, 0.0], [0.0, 1.0]]), np.ones(2), np.array([-1.0, 1.0]))
    assert problem.is_ray(np.array([1.0, 0.5]))
    assert not problem.is_ray(np.array([1.0, 1.0]))  # costs nothing, but saves nothing
    assert not problem.is_ray(np.array([1.0, -0.5]))  # leaves the cone of weights
    falling = module._checked(np.array([[-1.0]]), np.ones(1), np.array([-1.0]))
    assert not falling.is_ray(np.array([1.0]))  # the loss rises


def test_a_wrong_answer_of_least_squares_is_replaced(monkeypatch):
    B, c, q = wide(np.random.default_rng(1), 15, 100)
    good = solve_nonnegative(B, c, q)
    monkeypatch.setattr(module, "nnls", lambda E, e, maxiter: (np.full(E.shape[1], 0.1), 0.0))
    lied = solve_by("projection", B, c, q)
    np.testing.assert_allclose(lied.d, good.d, atol=1e-9)
    assert lied.ray is None

    def exhausted(E, e, maxiter):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr(module, "nnls", exhausted)
    np.testing.assert_allclose(solve_by("projection", B, c, q).d, good.d, atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_dearer_copy_of_a_column_gets_no_weight(solver):
    B, c, q = wide(np.random.default_rng(2), 12, 60)
    plain = solve_by(solver, B, c, q)
    both = solve_by(solver, np.concatenate([B, B], axis=1), c, np.concatenate([1.1 * q, q]))
    np.testing.assert_allclose(both.d[60:], plain.d, atol=1e-9)
    assert not both.d[:60].any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_permuting_columns_permutes_weights(solver):
    rng = np.random.default_rng(4)
    B, c, q = wide(rng, 30, 400)
    order = rng.permutation(400)
    d = solve_by(solver, B, c, q).d
    np.testing.assert_allclose(solve_by(solver, B[:, order], c, q[order]).d, d[order], atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_any_start_gives_the_same_answer_and_the_solution_itself_stays(solver, monkeypatch):
    rng = np.random.default_rng(8)
    B, c, q = wide(rng, 30, 400)
    cold = solve_by(solver, B, c, q)
    for start in (cold.d * 2, rng.uniform(size=400), np.eye(400)[7] * 50, solve_nonnegative(B, c, 2 * q).d):
        np.testing.assert_allclose(solve_by(solver, B, c, q, start=start).d, cold.d, atol=1e-9)
    for name in ("_project", "_descend"):  # nothing left to do
        monkeypatch.setattr(module, name, lambda problem, d, tol: (d, None))
    np.testing.assert_array_equal(solve_by(solver, B, c, q, start=cold.d).d, cold.d)


def test_units_of_columns_and_of_the_loss_do_not_matter():
    rng = np.random.default_rng(9)
    B, c, q = wide(rng, 25, 200)
    d = solve_nonnegative(B, c, q).d
    unit = 10.0 ** rng.uniform(-4, 4, size=200)
    np.testing.assert_allclose(solve_nonnegative(B * unit, c, q * unit).d * unit, d, atol=1e-8)
    np.testing.assert_allclose(solve_nonnegative(1e4 * B, 1e4 * c, 1e8 * q).d, d, atol=1e-8)


def test_largest_weight_is_where_the_first_column_enters():
    rng = np.random.default_rng(10)
    B, c, _ = wide(rng, 20, 100)
    c[:5] = -1.0  # rows beyond their margin have no say
    gamma = 0.1 * rng.normal(size=100)
    top = largest_weight(B, c, gamma, 2.5)
    assert top > 0
    assert not solve_nonnegative(B, c, gamma + 2.5 * top * (1 + 1e-8)).d.any()
    assert solve_nonnegative(B, c, gamma + 2.5 * top * 0.999).d.any()
    assert largest_weight(-np.ones((3, 2)), np.ones(3), np.zeros(2), 1.0) == 0.0
    with pytest.raises(ValueError, match="slope=0"):
        largest_weight(B, c, gamma, 0.0)


def test_bad_input_is_refused():
    B, c, q = np.ones((3, 2)), np.ones(3), np.ones(2)
    with pytest.raises(ValueError, match="shapes"):
        solve_nonnegative(B, q, c)
    with pytest.raises(ValueError, match="infinite or missing"):
        solve_nonnegative(B * np.nan, c, q)
    with pytest.raises(ValueError, match="start"):
        solve_nonnegative(B, c, q, start=-q)
