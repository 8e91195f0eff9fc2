"""Absent multiple kernel learning: the invariants of the program and of its solver."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tamis.kernels.stacks.base import DenseStack
from tamis.methods.absent import solver as absent_mkl
from tamis.methods.absent.solver import PROGRAMS, Problem, maximal_patterns, patterns_of, polytope_of, solve
from tamis.methods.baselines import simple_mkl
from tamis.optim.polytope import Polytope, spread, widest
from tamis.optim.svm import solve_svm

FINE = 1e-7


def kernels(n=40, m=5, seed=0):
    """Gaussian kernels (m, n, n) on channels that tell the classes apart more or less, and labels."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    shift = np.linspace(0.9, 0.0, m)
    X = rng.normal(size=(n, m, 2)) + (y[:, None] * shift)[:, :, None]
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=3)
    return np.exp(-squares.transpose(2, 0, 1) / 2), y


def absences(n=40, m=5, absent=2, seed=1):
    """A mask in which every sample lacks the same number of channels, the first ones less often."""
    rng = np.random.default_rng(seed)
    return np.argsort(np.argsort(rng.random((n, m)) - 0.2 * np.arange(m), axis=1), axis=1) >= absent


def zeroed(K, present):
    return K * present.T[:, :, None] * present.T[:, None, :]


def problem(present, program="amkl", C=1.0, seed=0, **options):
    K, y = kernels(*present.shape, seed=seed)
    n, m = present.shape
    polytope = polytope_of(program, present, np.ones(n), np.ones(m), **options)
    return Problem(DenseStack(zeroed(K, present)), y, np.full(n, C), polytope)


def value(task, tol=FINE):
    return solve(task, tol=tol, max_iter=500).objective


class TestPatterns:
    def test_contained_and_empty_patterns_are_left_out(self):
        S = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1]], dtype=bool)
        found = maximal_patterns(S)
        assert sorted(map(tuple, found.astype(int))) == [(0, 1, 1), (1, 1, 0)]

    def test_many_patterns_are_compared_in_blocks(self, rng, monkeypatch):
        S = rng.random((60, 8)) < 0.5
        whole = maximal_patterns(S)
        monkeypatch.setattr(absent_mkl, "MAX_COMPARED", 100)
        np.testing.assert_array_equal(maximal_patterns(S), whole)
        kept = {tuple(row) for row in whole}
        brute = {
            tuple(row)
            for row in S
            if row.any() and not any(np.all(row <= other) and np.any(row < other) for other in S)
        }
        assert kept == brute

    def test_shares_are_those_of_the_weights(self):
        S = np.array([[1, 0], [0, 1], [1, 0]], dtype=bool)
        patterns, share = patterns_of(S, np.array([1.0, 3.0, 4.0]))
        assert dict(zip(map(tuple, patterns.tolist()), share.tolist(), strict=True)) == {
            (True, False): 0.625,
            (False, True): 0.375,
        }

    def test_dropping_contained_rows_changes_nothing(self):
        S = absences()
        task = problem(S)
        everything = Polytope(np.vstack([S, S[:7], np.eye(5)]).astype(float))
        assert value(task) == pytest.approx(value(Problem(task.stack, task.y, task.cost, everything)), rel=1e-6)

    def test_shares_count_among_the_patterns_that_are_not_ignored(self):
        S = np.array([[1, 1, 0]] * 3 + [[1, 0, 0]] * 2 + [[0, 0, 1], [0, 1, 1]], dtype=bool)
        found = polytope_of("amkl", S, np.ones(7), np.ones(3), tail=1.0, min_share=2 / 7)  # a share that is just met
        a = np.array([1.0, 1.0, 0.3])
        assert found.height(a) == pytest.approx((3 * 2.0 + 2 * 1.0) / 5)  # the mean over the five rows that count
        assert found.height(np.array([0.0, 0.0, 1.0])) == 1.0  # a channel of ignored patterns is bounded by itself
        assert found.height(np.array([0.1, 0.0, 0.7])) == pytest.approx(0.7)
        half = polytope_of("amkl", S, np.ones(7), np.ones(3), tail=0.5, min_share=2 / 7)
        assert half.height(a) == pytest.approx(2.0)  # the mean over the worst two and a half of five

    def test_rows_without_channels_count_in_the_mean(self):
        S = np.array([[1, 1], [1, 1], [0, 0], [0, 0]], dtype=bool)
        for found in (
            polytope_of("amkl", S, np.ones(4), np.ones(2), tail=1.0),
            polytope_of("mean_margin", S, np.ones(4), np.ones(2)),
        ):
            np.testing.assert_allclose(found.rows, [[0.5, 0.5]])

    def test_rare_patterns_are_ignored_and_no_channel_is_left_unbounded(self):
        S = np.array([[1, 1, 0]] * 9 + [[0, 0, 1]], dtype=bool)
        found = polytope_of("amkl", S, np.ones(10), np.ones(3), min_share=0.2)
        assert sorted(map(tuple, found.rows)) == [(0.0, 0.0, 1.0), (1.0, 1.0, 0.0)]
        everything = polytope_of("amkl", S, np.ones(10), np.ones(3), min_share=1.0)
        np.testing.assert_array_equal(np.sort(everything.rows, axis=0), np.sort(np.eye(3), axis=0))


class TestPrograms:
    def test_without_absence_it_is_ordinary_multiple_kernel_learning(self):
        S = np.ones((40, 5), dtype=bool)
        task = problem(S)
        ordinary = simple_mkl.Problem(task.stack, task.y, task.cost)
        expected = simple_mkl.solve(ordinary, tol=FINE, max_iter=500)
        found = solve(task, tol=FINE, max_iter=500)
        assert found.objective == pytest.approx(expected.objective, rel=1e-6)
        np.testing.assert_allclose(found.state.weights, expected.state.weights, atol=1e-3)
        assert found.objective == pytest.approx(found.state.bound, rel=1e-6)
        energies = task.stack.quad(expected.state.dual_coef)
        bound = np.abs(expected.state.dual_coef).sum() - 0.5 * energies.max()
        assert found.objective == pytest.approx(bound, rel=1e-6)

    def test_one_complete_sample_makes_it_zero_filling(self):
        S = absences()
        S[3] = True
        assert value(problem(S)) == value(problem(S, "zero_filling"))
        S[3, 0] = False
        assert value(problem(S)) < value(problem(S, "zero_filling")) * (1 - 1e-4)

    def test_one_channel_for_each_sample_makes_it_the_unweighted_sum(self):
        S = np.eye(5, dtype=bool)[np.arange(40) % 5]
        task = problem(S)
        found = solve(task, tol=FINE)
        np.testing.assert_allclose(found.state.weights, 1.0, atol=1e-8)
        K = task.stack.combine(np.ones(5)).dense()
        assert found.objective == pytest.approx(solve_svm(K, task.y, task.cost, tol=1e-9).value, rel=1e-8)

    def test_mean_margin_is_zero_filling_on_kernels_over_their_shares(self):
        S = absences(seed=3)
        S[:15, 0] = False
        task = problem(S, "mean_margin")
        share = S.mean(axis=0)
        scaled = DenseStack(task.stack.values / share[:, None, None])
        ball = Polytope(np.ones((1, 5)))
        found, other = solve(task, tol=FINE), solve(Problem(scaled, task.y, task.cost, ball), tol=FINE)
        assert found.objective == pytest.approx(other.objective, rel=1e-6)
        np.testing.assert_allclose(found.state.weights * share, other.state.weights, atol=1e-3)

    def test_values_are_ordered_as_the_polytopes_are(self):
        S = absences()
        amkl, mean, zero, sums = (value(problem(S, p)) for p in ("amkl", "mean_margin", "zero_filling", "sum"))
        assert sums < amkl < zero and sums < mean <= amkl * (1 + 1e-6)

    def test_the_mean_over_the_worst_share_lies_between_the_mean_and_the_largest(self):
        S = absences(seed=5)
        S[:6] = True
        values = [value(problem(S, tail=tail)) for tail in (1.0, 0.6, 0.3, 0.15, 1e-6)]
        assert np.all(np.diff(values) >= -1e-6 * values[0]) and values[0] < 0.99 * values[2]
        assert values[0] == pytest.approx(value(problem(S, "mean_margin")), rel=1e-6)
        assert values[-1] == pytest.approx(value(problem(S)), rel=1e-6)
        task = problem(S, tail=0.3)
        weights = solve(task, tol=FINE).state.weights
        heights = np.sort(S @ weights)[::-1]
        assert heights[:12].mean() == pytest.approx(1.0, abs=1e-6)

    def test_samples_without_channels_bind_nothing_but_the_intercept(self):
        S = absences()
        S[5] = False
        task = problem(S)
        assert task.polytope.rows.any(axis=1).all()
        found = solve(task, tol=FINE)
        assert found.status.converged
        image = task.stack.combine(found.state.weights) @ found.state.dual_coef
        assert image[5] == 0.0

    def test_kernels_count_in_units_of_their_size(self):
        S = absences()
        K, y = kernels()
        size = np.array([1.0, 10.0, 0.1, 3.0, 1.0])
        plain = problem(S)
        scaled = Problem(
            DenseStack(zeroed(K, S) * size[:, None, None]), y, plain.cost, polytope_of("amkl", S, np.ones(40), size)
        )
        one, two = solve(plain, tol=FINE), solve(scaled, tol=FINE)
        assert one.objective == pytest.approx(two.objective, rel=1e-6)
        np.testing.assert_allclose(one.state.weights, two.state.weights * size, atol=1e-3)


class TestSolver:
    @pytest.mark.parametrize("program", PROGRAMS)
    @pytest.mark.parametrize("C", [0.1, 3.0, 1000.0])
    def test_agrees_with_the_conic_program(self, program, C):
        pytest.importorskip("clarabel")
        from tamis.methods.absent.conic import solve_conic_program

        task = problem(absences(seed=2), program, C=C)
        found = solve(task, tol=FINE, max_iter=500)
        reference = solve_conic_program(list(task.stack.values), task.y, task.cost, task.polytope.rows, "weights")
        assert found.objective == pytest.approx(reference.objective, rel=1e-6)
        scores = task.stack.combine(found.state.weights) @ found.state.dual_coef + found.state.intercept
        expected = task.stack.combine(reference.weights) @ reference.dual_coef + reference.intercept
        np.testing.assert_allclose(scores, expected, atol=5e-3)

    @pytest.mark.parametrize("program", PROGRAMS)
    def test_bounds_are_ordered_and_the_objective_never_rises(self, program):
        task = problem(absences(seed=4), program)
        states = list(itertools.islice(absent_mkl.iterates(task, tol=1e-6), 40))
        values = np.array([s.objective for s in states])
        bounds = np.array([s.state.bound for s in states])
        assert np.all(np.diff(values) <= 0) and np.all(np.diff(bounds) >= 0)
        assert np.all(bounds <= values.min() * (1 + 1e-9))
        assert states[-1].violation <= 1e-5

    def test_the_gap_is_that_of_the_state(self):
        task = problem(absences())
        found = solve(task, tol=1e-3)
        assert absent_mkl.violation(task, found.state) == pytest.approx(found.history.violation[-1], abs=1e-9)
        assert absent_mkl.objective(task, found.state) == pytest.approx(found.objective, rel=1e-12)
        best = value(task)
        assert found.state.bound <= best * (1 + 1e-9) and found.objective - best <= 1e-3 * found.objective

    def test_the_rule_for_the_norms_alone_gets_there_too(self, monkeypatch):
        task = problem(absences())
        best = value(task)
        monkeypatch.setattr(absent_mkl, "nearest", lambda polytope, H, c, rows, over: (np.full(5, 1e-3), rows))
        slow = solve(task, tol=1e-4, max_iter=500)
        assert slow.status.converged and slow.objective == pytest.approx(best, rel=1e-4)

    def test_weights_are_on_the_border_and_the_regulariser_is_that_of_the_norms(self):
        task = problem(absences())
        state = solve(task, tol=FINE).state
        assert task.polytope.height(state.weights) == pytest.approx(1.0, abs=1e-8)
        norms = state.weights * np.sqrt(task.stack.quad(state.dual_coef))
        best, _ = spread(task.polytope, norms)
        used = norms > 0
        omega = 0.5 * np.sum(norms[used] ** 2 / best[used])
        energy = 0.5 * state.dual_coef @ (task.stack.combine(state.weights) @ state.dual_coef)
        assert omega == pytest.approx(energy, rel=1e-5)
        margin = task.y * (task.stack.combine(state.weights) @ state.dual_coef + state.intercept)
        assert omega + task.cost @ np.maximum(0, 1 - margin) == pytest.approx(value(task), rel=1e-5)

    def test_order_of_samples_and_channels_does_not_matter(self, rng):
        S = absences()
        task = problem(S)
        rows, channels = rng.permutation(40), rng.permutation(5)
        K = task.stack.values[channels][:, rows][:, :, rows]
        other = Problem(
            DenseStack(K),
            task.y[rows],
            task.cost,
            polytope_of("amkl", S[rows][:, channels], np.ones(40), np.ones(5)),
        )
        one, two = solve(task, tol=FINE), solve(other, tol=FINE)
        assert one.objective == pytest.approx(two.objective, rel=1e-6)
        np.testing.assert_allclose(one.state.weights[channels], two.state.weights, atol=1e-3)

    def test_useless_channels_get_exactly_no_weight(self):
        K, y = kernels(n=60, m=2)
        noise = np.eye(60)[None] * 0.2 + 0.8  # the same for all pairs: it says nothing
        task = Problem(DenseStack(np.concatenate([K, noise])), y, np.ones(60), Polytope(np.ones((1, 3))))
        weights = solve(task, tol=1e-3).state.weights
        assert weights[2] == 0.0 and weights[0] > 0

    def test_small_weights_go_where_the_gap_allows_it(self, monkeypatch):
        """The rule for the norms alone would leave them."""
        K, y = kernels(n=60, m=3)
        noise = np.eye(60)[None] * 0.2 + 0.8
        task = Problem(DenseStack(np.concatenate([K, noise])), y, np.ones(60), Polytope(np.ones((1, 4))))
        monkeypatch.setattr(absent_mkl, "nearest", lambda polytope, H, c, rows, over: (np.full(4, 1e-3), rows))
        found = solve(task, tol=4e-3)
        assert found.state.weights[3] == 0.0 and absent_mkl.violation(task, found.state) <= 4e-3
        assert 0 < found.history.weights[-2][3] < 0.05

    def test_a_bound_is_never_given_up_for_a_smaller_one(self):
        scaled = absent_mkl._Scaled.of(problem(absences()), 1e-3)
        rows = scaled.polytope.first()
        point = scaled.point(absent_mkl.centre(scaled.polytope), None)
        bound, _ = absent_mkl._Cuts(scaled).added(point, scaled.images(point), 1e6, rows)
        assert bound == 1e6

    @pytest.mark.parametrize("size", [1e-12, 1e-6, 1e6, 1e12])
    def test_units_of_the_kernels_do_not_matter(self, size):
        S = absences()
        plain = problem(S)
        sizes = size ** np.linspace(0, 1, 5)
        polytope = polytope_of("amkl", S, np.ones(40), sizes)
        scaled = Problem(DenseStack(plain.stack.values * sizes[:, None, None]), plain.y, plain.cost, polytope)
        one, two = solve(plain, tol=1e-5), solve(scaled, tol=1e-5)
        assert two.status.converged and two.n_iter == one.n_iter
        np.testing.assert_allclose(two.history.objective, one.history.objective, rtol=1e-6)
        np.testing.assert_allclose(two.state.weights * sizes, one.state.weights, atol=1e-6)

    def test_the_last_steps_are_quick(self):
        for program, most in (("amkl", 6), ("zero_filling", 7), ("mean_margin", 8)):
            found = solve(problem(absences(n=80, m=8, absent=3), program), tol=1e-6)
            assert found.n_iter <= most
            assert found.history.violation[-1] < 0.05 * found.history.violation[-2]

    def test_starts_from_another_polytope_are_scaled_to_the_border(self):
        task = problem(absences())
        other = solve(problem(absences(), "sum"), tol=1e-3).state
        first = next(absent_mkl.iterates(task, other, tol=1e-3))
        assert task.polytope.height(first.state.weights) == pytest.approx(1.0)

    def test_a_start_saves_rounds(self):
        task = problem(absences())
        cold = solve(task, tol=1e-5)
        warm = solve(task, start=cold.state, tol=1e-5)
        assert warm.n_iter < cold.n_iter
        assert warm.objective == pytest.approx(cold.objective, rel=1e-5)


def test_a_channel_of_samples_that_hardly_count_is_bounded_by_itself():
    present, weight = np.array([[True, False], [True, False], [True, True]]), np.array([1.0, 1.0, 1e-30])
    polytope = polytope_of("amkl", present, weight, np.ones(2), tail=0.5)
    assert polytope.caps.min() > 1e-8
    a, top, _ = widest(polytope, np.array([1.0, 1.0]))
    assert np.isfinite(top) and polytope.height(a) == pytest.approx(1.0)
