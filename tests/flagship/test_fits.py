"""The parts of a flagship fit against direct computations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from small_designs import bags_of, design_of
from tamis.flagship.cases import add_cases
from tamis.flagship.cells import Surface
from tamis.flagship.effects import MAX_PAIR_BEND, pair_factor, surface_effect
from tamis.flagship.likelihood import Binary, Multinomial, Normal
from tamis.flagship.pairs import Grid, _quadrants, purified, screen
from tamis.flagship.ridge import FREE, column_basis, fit_ridges, values_of
from tamis.flagship.score import Score
from tamis.flagship.select import RIDGE, Quadratic, nested_supports
from tamis.flagship.steps import MIN_CURVATURE, OWN_RIDGE, Pace, _cuts, fit_steps

LIKELIHOODS = [Binary(), Multinomial(), Normal(0.7)]


def targets_of(likelihood, n, rng):
    if isinstance(likelihood, Binary):
        return rng.integers(0, 2, (n, 1)).astype(float)
    return np.eye(3)[rng.integers(0, 3, n)] if isinstance(likelihood, Multinomial) else rng.normal(size=(n, 1))


class TestLikelihoods:
    @pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda one: type(one).__name__)
    def test_gradients_are_those_of_the_losses(self, likelihood):
        rng = np.random.default_rng(0)
        Y = targets_of(likelihood, 5, rng)
        F, tiny = rng.normal(size=Y.shape), 1e-6
        slope = likelihood.gradient(likelihood.mean(F), Y)
        for k in range(Y.shape[1]):
            step = tiny * np.eye(Y.shape[1])[k]
            change = (likelihood.losses(F + step, Y) - likelihood.losses(F - step, Y)) / (2 * tiny)
            np.testing.assert_allclose(change, -slope[:, k], atol=1e-8)

    @pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda one: type(one).__name__)
    def test_fits_start_at_the_best_constant(self, likelihood):
        rng = np.random.default_rng(1)
        Y, w = targets_of(likelihood, 40, rng), rng.random(40)
        start = likelihood.start(Y, w[:, None])[0]
        best = w @ likelihood.losses(np.tile(start, (40, 1)), Y)
        for change in rng.normal(size=(20, Y.shape[1])) / 50:
            assert best <= w @ likelihood.losses(np.tile(start + change, (40, 1)), Y) + 1e-12


class TestSteps:
    def test_the_best_cut_is_that_of_a_search_over_all_cuts(self):
        rng = np.random.default_rng(2)
        design = design_of(rng.integers(0, 6, (80, 1)))
        g, h = rng.normal(size=80), rng.random(80)
        sums = [np.bincount(design.cell[:, 0], part, design.width)[None, :, None, None] for part in (g, h)]
        step, gain = _cuts(design, *sums)
        found = []
        for cut in range(5):
            low = design.cell[:, 0] <= cut
            if min(h[low].sum(), h[~low].sum()) > MIN_CURVATURE:
                each = [g[part].sum() ** 2 / (h[part].sum() + 1.0) for part in (low, ~low, slice(None))]
                values = [g[part].sum() / (h[part].sum() + 1.0) for part in (low, ~low)]
                found.append((each[0] + each[1] - each[2], cut, *values))
        best = max(found)
        assert gain[0, 0, 0] == pytest.approx(best[0])
        np.testing.assert_allclose(step[0, :6, 0, 0], np.where(np.arange(6) <= best[1], best[2], best[3]))

    def test_levels_and_missing_cells_are_leaves_of_their_own(self):
        rng = np.random.default_rng(12)
        X = pd.DataFrame({"level": list("abcaabbc") * 5, "number": rng.normal(size=40)})
        X.loc[::7, "number"] = np.nan
        design, g, h = design_of(X), rng.normal(size=40), rng.random(40)
        sums = [np.array([np.bincount(cell, part, design.width) for cell in design.cell.T]) for part in (g, h)]
        step, gain = _cuts(design, *(part[:, :, None, None] for part in sums))
        for j, cells in ((0, [0, 1, 2]), (1, [design.cells[1].size])):
            expected = sums[0][j][cells] / (sums[1][j][cells] + OWN_RIDGE * 1.0)
            np.testing.assert_allclose(step[j, cells, 0, 0], expected)
        assert gain[0, 0, 0] == pytest.approx(sums[0][0] @ step[0, :, 0, 0] / np.sqrt(2.0))

    def test_no_round_is_kept_that_raises_the_held_out_loss(self):
        rng = np.random.default_rng(3)
        likelihood, bags = Binary(), bags_of(rng.integers(0, 2, 60))
        member = fit_steps(design_of(rng.normal(size=(60, 4))), likelihood, bags, Pace(0.1, 0.1))
        base = bags.held_out(np.broadcast_to(member.base, (60, 3, 1)))
        start = bags.weight @ likelihood.losses(base, bags.targets) / bags.weight.sum()
        assert member.loss <= start

    def test_a_bag_leaves_out_the_columns_that_it_may_not_use(self):
        rng = np.random.default_rng(4)
        X = rng.normal(size=(90, 2))
        allowed = np.array([[True, False, True], [False, True, True]])
        member = fit_steps(design_of(X), Binary(), bags_of(X[:, 0] + X[:, 1] > 0), Pace(0.1, 0.1), allowed)
        assert np.array_equal(np.any(member.left != 0, axis=(1, 3)), allowed)


class TestRidges:
    @pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda one: type(one).__name__)
    def test_every_bag_has_the_minimum_of_its_objective(self, likelihood):
        rng = np.random.default_rng(5)
        Z, Y = rng.normal(size=(60, 4)), targets_of(likelihood, 60, rng)
        bags = bags_of(Y, weight=rng.random(60) + 0.5)
        (found,) = fit_ridges(Z, likelihood, bags, (3.0,), None, (60, 0))
        c = Y.shape[1]

        def objective(theta, b):
            beta, base = theta[: 4 * c].reshape(4, c), theta[4 * c :]
            penalty = 1.5 * (np.sum(beta**2) + FREE * np.sum(base**2))
            return bags.inside[:, b] @ likelihood.losses(Z @ beta + base, Y) + penalty

        for b in range(3):
            ours = objective(np.r_[found.slopes[:, b].ravel(), found.base[b]], b)
            assert ours <= minimize(objective, np.zeros(5 * c), (b,), tol=1e-10).fun + 5e-3

    def test_a_basis_has_mean_zero_and_norm_one(self):
        rng = np.random.default_rng(6)
        X = rng.normal(size=(70, 2))
        X[:9, 1] = np.nan
        design = design_of(X, rng.random(70) + 0.1)
        for j, kind in ((0, "line"), (0, "smooth"), (1, "smooth")):
            values = values_of(design.take(np.array([j])), [column_basis(design, j, kind, 6)])
            share = design.weight / design.weight.sum()
            np.testing.assert_allclose(share @ values, 0.0, atol=1e-12)
            assert share @ (values**2).sum(axis=1) == pytest.approx(1.0)


class TestSupports:
    def test_dropping_a_column_by_elimination_is_fitting_without_it(self):
        rng = np.random.default_rng(7)
        root, owners = rng.normal(size=(40, 9)), np.repeat(np.arange(3), 3)
        owners = np.column_stack([owners, owners])
        owners[-1] = 0, 2  # a product of two columns
        quadratic = Quadratic(root.T @ root, root.T @ rng.normal(size=(40, 2)), owners)

        def value(columns):
            own = np.all(np.isin(owners, columns), axis=1)
            A = quadratic.A[own][:, own] + RIDGE * np.eye(own.sum())
            return -0.5 * np.sum(quadratic.u[own] * np.linalg.solve(A, quadratic.u[own]))

        order = nested_supports(quadratic, 3)
        assert sorted(order) == [0, 1, 2]
        first = min(range(3), key=lambda j: value([k for k in range(3) if k != j]))
        assert order[2] == first
        rest = [k for k in range(3) if k != first]
        assert order[0] == min(rest, key=lambda j: value([j]))


class TestPairs:
    def test_a_pure_surface_and_what_was_moved_are_the_surface(self):
        rng = np.random.default_rng(8)
        surface, mass = rng.normal(size=(5, 4, 2)), rng.random((5, 4))
        mass[2], mass[:, 1] = 0.0, 0.0
        pure, first, second = purified(surface, mass)
        for side in (0, 1):
            np.testing.assert_allclose((mass[:, :, None] * pure).sum(axis=side), 0.0, atol=1e-9)
        there = mass > 0
        np.testing.assert_allclose((pure + first[:, None] + second[None])[there], surface[there], atol=1e-12)
        assert not pure[2].any() and not pure[:, 1].any()

    def test_the_best_quadrants_are_those_of_a_search_over_all_cuts(self):
        rng = np.random.default_rng(9)
        g, h = rng.normal(size=(1, 4, 4, 1, 1)), rng.random((1, 4, 4, 1, 1))
        step, gain = _quadrants(g, h)
        best = 0.0
        for a in range(3):
            for b in range(3):
                corners = [(slice(0, a + 1), slice(a + 1, 4)), (slice(0, b + 1), slice(b + 1, 4))]
                each = [(i, j) for i in corners[0] for j in corners[1]]
                worth = sum(g[0][s].sum() ** 2 / (h[0][s].sum() + 1.0) for s in each) - g.sum() ** 2 / (h.sum() + 1.0)
                if worth > best:
                    best, values = worth, np.zeros((4, 4))
                    for s in each:
                        values[s] = g[0][s].sum() / (h[0][s].sum() + 1.0)
        assert gain[0, 0, 0] == pytest.approx(best)
        np.testing.assert_allclose(step[0, :, :, 0, 0], values)

    def test_the_screen_puts_a_planted_pair_first(self):
        rng = np.random.default_rng(10)
        X = rng.normal(size=(400, 6))
        y = (X[:, 1] * X[:, 4] > 0).astype(float)
        grid = Grid.of(design_of(X))
        pairs, score = screen(grid, grid.bases(4), (y - 0.5)[:, None], np.full((400, 1), 0.25), 15)
        assert pairs[0].tolist() == [1, 4] and score[0] > 2.0 * score[1]


class TestEffects:
    def test_of_surfaces_are_means_over_the_other_column(self):
        rng = np.random.default_rng(13)
        first = rng.integers(0, 3, 200)
        X = np.column_stack([first, (first + rng.integers(0, 2, 200)) % 3])
        design = design_of(X)
        zeros, nothing = np.zeros((2, design.width, 1)), np.zeros((200, 1))
        left = zeros.copy()
        left[:, :3, 0] = [-1.0, 0.0, 1.0]
        values = np.zeros((5, 5, 1))
        values[:3, :3, 0] = rng.normal(size=(3, 3))
        surface = Surface((0, 1), (np.arange(5), np.arange(5)), values)
        score = Score(left, left, np.zeros(1), (surface,), nothing[:, None], nothing, np.zeros((1, 1)))
        effect = surface_effect(score, design, 1)
        for k in range(3):
            here = values[design.cell[:, 0], k, 0].mean()
            np.testing.assert_allclose(effect[design.cell[:, 1] == k, 0], here)
        length = max(2.0, np.ptp(surface.at(design.places(0), design.places(1))) / 2)
        bend = max(surface_effect(score, design, j)[:, 0].std() for j in (0, 1)) / length
        assert bend > MAX_PAIR_BEND and pair_factor(score, design) == pytest.approx(MAX_PAIR_BEND / bend)


class TestCases:
    def test_a_case_that_the_others_replace_ends_at_zero_and_not_below(self):
        rng = np.random.default_rng(631)  # a draw in which a Newton step goes below zero
        x = rng.normal(size=(30, 1))
        y = (rng.random(30) < 0.6).astype(float)[:, None]
        similarity = np.exp(-((x - x.T) ** 2) / 2)
        path = add_cases(Binary(), y, np.ones(30), np.zeros((30, 1)), similarity, 2 * y - 1, 12)
        assert all(np.all(chosen.pulls >= 0) for chosen in path)

    def test_pulls_are_never_negative_and_lower_the_loss(self):
        rng = np.random.default_rng(11)
        X = rng.normal(size=(50, 2))
        y = (X[:, 0] > 0).astype(float)[:, None]
        similarity = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
        path = add_cases(Binary(), y, np.ones(50), np.zeros((50, 1)), similarity, 2 * y - 1, 6)
        losses = [Binary().losses(chosen.scores, y).sum() for chosen in path]
        assert len(path) == 6 and all(np.all(chosen.pulls >= 0) for chosen in path)
        assert np.all(np.diff(losses) < 0) and losses[0] < 50 * np.log(2)
