"""l0-MKL: the alternation, and what it promises whatever the kernels."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from l0_problems import problem, scores, toy
from tamis.kernels.base import Gaussian
from tamis.methods.l0_mkl import solver as method
from tamis.methods.l0_mkl.steps import (
    beta_step,
    by_contribution,
    images,
    largest_lambda2,
    weight_step,
    within,
)
from tamis.optim.driver import Status
from tamis.optim.penalties import L1, PENALTIES, SCAD, CappedL1, Exp, Log

ALL = ("exp", "log", "capped_l1", "scad", "l1")


class TestDescent:
    @pytest.mark.parametrize("name", ALL)
    @pytest.mark.parametrize("step", ["ridge", "flip"])
    def test_every_half_step_lowers_a_bounded_objective(self, name, step):
        X, y = toy(24, 6)
        task = problem(X, y, penalty=PENALTIES[name](2.0), beta_step=step, relative=False, lambda2=0.05)
        begun = method.opening(task)
        rounds = [it.state for _, it in zip(range(5), method.iterates(task, begun), strict=False)]
        for before, after in pairwise(rounds):
            half = replace(before, weights=after.weights)
            values = [method.objective(task, s) for s in (before, half, after)]
            assert values[1] <= values[0] + 1e-6 * abs(values[0])
            assert values[2] <= values[1] + 1e-6 * abs(values[1])
        assert len(rounds) > 1

    def test_so_does_the_stationary_machine_of_positive_definite_kernels(self):
        X, y = toy(24, 6)
        task = problem(X, y, Gaussian(1.0), relative=False, lambda2=0.05, lambda1=0.5)
        objectives = [
            it.objective for _, it in zip(range(6), method.iterates(task, method.opening(task)), strict=False)
        ]
        assert all(b <= a + 1e-6 * abs(a) for a, b in pairwise(objectives))

    def test_the_recorded_objective_is_the_objective(self):
        X, y = toy()
        for step in ("stationary", "ridge", "flip"):
            task = problem(X, y, beta_step=step, cost=np.linspace(0.5, 2, 40))
            solution = method.solve(task)
            assert solution.objective == pytest.approx(method.objective(task, solution.state), rel=1e-9)

    @pytest.mark.parametrize("name", ["exp", "log", "capped_l1", "scad"])
    def test_every_dc_step_of_the_weights_lowers_their_objective(self, name):
        X, y = toy()
        task = problem(X, y, penalty=PENALTIES[name](5.0), lambda2=0.05)
        begun = method.opening(task)
        lam = 0.05 * largest_lambda2(task, begun.seen, begun.machine.intercept)

        def weighed(d):
            """(12), but for what does not depend on d."""
            loss = task.loss(begun.seen.scores @ d + begun.machine.intercept)
            return begun.seen.gamma @ d + lam * task.penalty.value(d).sum() + loss

        d, values = np.zeros(12), [weighed(np.zeros(12))]
        for _ in range(4):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("tamis.methods.l0_mkl.steps.DC_STEPS", 1)
                d = weight_step(task, begun.seen, begun.machine.intercept, lam, d).weights
            values.append(weighed(d))
        assert all(b <= a + 1e-7 * abs(a) for a, b in pairwise(values)) and values[-1] < values[0]
        whole = weight_step(task, begun.seen, begun.machine.intercept, lam, np.zeros(12)).weights
        assert weighed(whole) <= values[-1] + 1e-6 * abs(values[-1])

    def test_the_stationary_machine_descends_where_lambda1_outweighs_the_negative_part(self):
        X, y = toy(24, 6)
        task = problem(X, y, relative=False, lambda2=0.05, lambda1=0.5)
        begun = method.opening(task)
        found = [it for _, it in zip(range(5), method.iterates(task, begun), strict=False)]
        for it in found:
            K = task.stack.combine(it.state.weights).dense()
            centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
            assert -0.5 < np.linalg.eigvalsh(centred)[0] < 0
        assert len(found) > 2 and all(b.objective <= a.objective + 1e-6 for a, b in pairwise(found))

    @pytest.mark.parametrize("step", ["ridge", "flip"])
    def test_the_slopes_of_the_weights_are_those_of_the_objective(self, step):
        X, y = toy(24, 6)
        task = problem(X, y, penalty=L1(1.0), beta_step=step, cost=np.linspace(0.5, 2, 24))
        d = np.linspace(0.2, 1.0, 6)
        machine = beta_step(task, d)
        seen = images(task, machine)
        for k in range(6):
            ends = [
                method.objective(
                    task,
                    method.State(d + s * 1e-6 * np.eye(6)[k], machine.dual_coef, machine.intercept, task.lambda1, 0.0),
                )
                for s in (1, -1)
            ]
            pull = 2 * task.cost * y * np.maximum(0, 1 - y * (seen.scores @ d + machine.intercept))
            assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(seen.gamma[k] - pull @ seen.scores[:, k], abs=1e-4)


class TestScale:
    @pytest.mark.parametrize("penalty", [Exp, CappedL1, SCAD, Log])
    def test_law(self, penalty, rng):
        X, y = toy(15, 5)
        beta, b, d, c, theta = rng.normal(size=15), 0.3, rng.uniform(0, 1, 5), 3.7, 1.4
        left = problem(X, y, penalty=penalty(theta), lambda1=0.4)
        right = problem(X, y, penalty=penalty(c * theta), lambda1=0.4 / c)
        lam = 0.7 * (np.log1p(c * theta) / np.log1p(theta) if penalty is Log else 1.0)
        one = method.objective(left, method.State(c * d, beta / c, b, 0.4, 0.7))
        two = method.objective(right, method.State(d, beta, b, 0.4 / c, lam))
        assert one == pytest.approx(two, rel=1e-12)

    def test_below_the_cap_capped_l1_is_l1_to_the_last_bit(self):
        X, y = toy()
        ends = []
        for penalty in (CappedL1(0.01), L1(0.01)):
            task = problem(X, y, penalty=penalty, relative=False, lambda2=20.0)
            ends.append(
                [it.state for _, it in zip(range(6), method.iterates(task, method.opening(task)), strict=False)]
            )
        for capped, plain in zip(*ends, strict=True):
            assert 0 < capped.weights.max() < 100
            np.testing.assert_array_equal(capped.weights, plain.weights)
            np.testing.assert_array_equal(capped.dual_coef, plain.dual_coef)

    def test_published_units_take_the_first_penalty_at_the_starting_weights(self):
        """Beyond the cap nothing is asked of a weight: from large ones the first step is not penalised at all."""
        X, y = toy()
        task = problem(X, y, relative=False, lambda2=5.0)
        begun = method.opening(task, 0.5)
        first = next(it for k, it in enumerate(method.iterates(task, begun)) if k == 1).state.weights
        there, zero = (
            weight_step(task, begun.seen, begun.machine.intercept, 5.0, origin).weights
            for origin in (begun.weights, np.zeros(12))
        )
        np.testing.assert_allclose(first, np.where(there >= 1e-5, there, 0.0), atol=1e-9)
        assert np.abs(there - zero).max() > 0.05 * there.max()

    def test_published_units_drop_weights_below_an_absolute_bound(self):
        X, y = toy()
        task = problem(X, y, penalty=L1(1e-6), relative=False, lambda2=1e-6)
        plain = method.solve(task, rounds=1).state
        tiny = 1e-5 * float(plain.weights[plain.weights > 0].min()) * 2
        begun = method.opening(task)
        small = replace(
            begun.seen, scores=begun.seen.scores / tiny, gamma=begun.seen.gamma / tiny
        )  # weights times tiny
        kept = [
            np.count_nonzero(
                next(it for k, it in enumerate(method.iterates(t, replace(begun, seen=small))) if k == 1).state.weights
            )
            for t in (task, replace(task, relative=True, lambda2=0.0))
        ]
        assert kept[0] < kept[1]

    def test_relative_weights_have_a_largest_of_one(self):
        X, y = toy()
        for name in ("exp", "log", "capped_l1", "scad"):
            assert method.solve(problem(X, y, penalty=PENALTIES[name](10.0))).state.weights.max() == 1.0

    def test_relative_fits_do_not_feel_the_scale_of_the_penalty(self):
        """lambda2 is a share of the largest one, so that a factor of the l1 penalty drops out."""
        X, y = toy()
        ends = [method.solve(problem(X, y, penalty=L1(theta))).state.weights for theta in (1.0, 50.0)]
        np.testing.assert_allclose(*ends, rtol=1e-6, atol=1e-9)

    @pytest.mark.parametrize("name", ALL)
    def test_lambda2_of_one_leaves_nothing_and_a_bit_less_leaves_something(self, name):
        X, y = toy()
        none = method.solve(problem(X, y, penalty=PENALTIES[name](10.0), lambda2=1.0))
        assert none.status is Status.COLLAPSED and not none.state.weights.any()
        assert none.state.intercept == pytest.approx(y.mean())
        some = method.solve(problem(X, y, penalty=PENALTIES[name](10.0), lambda2=0.999), rounds=1)
        assert some.state.weights.any()

    def test_largest_lambda2_is_where_zero_stops_to_be_the_solution(self):
        X, y = toy()
        task = problem(X, y)
        begun = method.opening(task)
        top = largest_lambda2(task, begun.seen, begun.machine.intercept)
        steps = [
            weight_step(task, begun.seen, begun.machine.intercept, f * top, np.zeros(12)).weights for f in (1.0, 0.999)
        ]
        assert not steps[0].any() and steps[1].any()


class TestSymmetry:
    @pytest.mark.parametrize("step", ["stationary", "ridge"])
    def test_permuted_features_permute_the_weights(self, step, rng):
        X, y = toy()
        order = rng.permutation(12)
        one, two = (method.solve(problem(Z, y, beta_step=step)).state for Z in (X, X[:, order]))
        np.testing.assert_allclose(one.weights[order], two.weights, atol=1e-6)

    @pytest.mark.parametrize("step", ["stationary", "ridge", "flip"])
    def test_permuted_rows_keep_the_scores_and_flipped_labels_flip_them(self, step, rng):
        X, y = toy(30, 6)
        order = rng.permutation(30)
        task = problem(X, y, beta_step=step)
        other = problem(X[order], y[order], beta_step=step)
        flipped = problem(X, -y, beta_step=step)
        found = scores(task, method.solve(task).state)
        np.testing.assert_allclose(scores(other, method.solve(other).state), found[order], atol=1e-6)
        np.testing.assert_allclose(scores(flipped, method.solve(flipped).state), -found, atol=1e-6)

    @pytest.mark.parametrize("step", ["stationary", "ridge"])
    def test_a_cost_of_two_is_a_row_twice(self, step):
        X, y = toy(20, 5)
        cost = np.where(np.arange(20) < 5, 2.0, 1.0)
        twice = np.r_[np.arange(20), np.arange(5)]
        one = method.solve(problem(X, y, penalty=Exp(3.0), cost=cost, beta_step=step)).state
        two = method.solve(problem(X[twice], y[twice], penalty=Exp(3.0), beta_step=step)).state
        np.testing.assert_allclose(one.weights, two.weights, atol=1e-6)
        np.testing.assert_allclose(one.dual_coef[5:], two.dual_coef[5:20], atol=1e-6)


class TestSelection:
    @pytest.mark.parametrize("step", ["stationary", "ridge"])
    def test_three_planted_features_among_forty_are_found(self, step):
        X, y = toy(80, 40, seed=5)
        state = method.solve(problem(X, y, beta_step=step)).state
        assert {0, 3, 39} <= set(np.flatnonzero(state.weights))
        assert set(state.ranking[:3]) == {0, 3, 39}

    def test_the_ranking_begins_with_the_kept_ones_and_never_repeats(self):
        X, y = toy(40, 60)
        state = method.solve(problem(X, y), rounds=6).state
        kept = set(np.flatnonzero(state.weights))
        assert set(state.ranking[: len(kept)]) == kept
        assert len(set(state.ranking)) == len(state.ranking) > len(kept)

    def test_the_cap_is_exact_and_the_weights_within_it_are_optimal(self):
        X, y = toy()
        task = problem(X, y, lambda2=0.01, max_features=2)
        begun = method.opening(task)
        lam = 0.01 * largest_lambda2(task, begun.seen, begun.machine.intercept)
        free = weight_step(replace(task, max_features=None), begun.seen, begun.machine.intercept, lam, np.zeros(12))
        capped = weight_step(task, begun.seen, begun.machine.intercept, lam, np.zeros(12)).weights
        kept = np.flatnonzero(capped)
        assert np.count_nonzero(free.weights) > 2 == len(kept)
        slack = np.maximum(0, 1 - y * (begun.seen.scores[:, kept] @ capped[kept] + begun.machine.intercept))
        q = begun.seen.gamma[kept] + lam * task.penalty.weights(free.weights[kept])
        np.testing.assert_allclose(2 * (y * slack) @ begun.seen.scores[:, kept], q, rtol=1e-3, atol=1e-6)

    def test_the_ranking_goes_on_beyond_the_cap(self):
        X, y = toy(40, 60)
        state = method.solve(problem(X, y, max_features=3)).state
        kept = np.flatnonzero(state.weights)
        assert len(kept) == 3 and set(state.ranking[:3]) == set(kept) and len(state.ranking) > 3

    def test_contributions_rank_and_not_weights_alone(self):
        scores = np.array([[0.0, 10.0, 1.0], [0.0, -10.0, -1.0]])
        assert by_contribution(scores, np.array([9.0, 0.5, 1.0])).tolist() == [1, 2, 0]

    def test_a_cap_counts_columns_and_not_kernels(self):
        incidence = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 0, 0], [0, 0, 1, 0]], dtype=bool)
        assert within(np.array([0, 1, 2, 3]), 3, incidence).tolist() == [0, 2, 3]
        assert within(np.array([2, 0, 1]), None, incidence).tolist() == [2, 0, 1]
        assert within(np.array([2, 0, 1]), 2, None).tolist() == [2, 0]

    def test_a_path_gives_what_single_fits_give(self):
        X, y = toy(40, 30)
        task = problem(X, y)
        found = method.path(task, (0.05, 0.4, 0.2))
        for share, solution in found.items():
            alone = method.solve(replace(task, lambda2=share))
            np.testing.assert_allclose(solution.state.weights, alone.state.weights, atol=1e-5)
        sizes = [np.count_nonzero(found[s].state.weights) for s in (0.4, 0.2, 0.05)]
        assert sizes == sorted(sizes)

    def test_more_rounds_never_say_converged_before_the_weights_stand_still(self):
        X, y = toy()
        short = method.solve(problem(X, y), rounds=1)
        assert short.status is Status.ROUNDS and short.n_iter == 1
        early = method.solve(problem(X[:20], y[:20], Gaussian(1.0), beta_step="paper"), rounds=1, tol=1e-12)
        assert "raise tol" in early.state.reason
        assert early.status is Status.STALLED and early.history.violation[-1] >= early.state.residual > 1e-12
        long = method.solve(problem(X, y, penalty=L1(1.0)), rounds=500, tol=1e-4)
        assert long.status is Status.CONVERGED and long.history.violation[-1] <= 1e-4
