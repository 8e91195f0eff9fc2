"""Rows as bytes, sums over them and steps on these sums, against direct computations."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from tamis.flagship.cells import Cells, Places
from tamis.flagship.coded import STEPS, CodedRows, Layout, code_places, masses, select_columns, sum_block, weight_of
from tamis.flagship.likelihood import Binary, Multinomial, Normal
from tamis.flagship.newton import Sample, minimise

LIKELIHOODS = {"two classes": (Binary(), 1), "three classes": (Multinomial(), 3), "numbers": (Normal(0.7), 1)}
NUMBER, FEW = Cells(4, np.array([0.0, 1.0, 2.0, 3.0, 5.0])), Cells(2, np.array([0.0, 0.5, 1.0]))
LEVELS = Cells(3, np.empty(0))


def layout(pairs=((0, 2), (1, 2))):
    """A number, a number with two values, and a category of which one level is rare."""
    groups = (np.array([0, 0, 1, 1, 2, 3]), np.array([0, 1, 2, 3]), np.array([0, 3, 1, 2, 3]))
    flat = np.array([False, True, True])
    return Layout((NUMBER, FEW, LEVELS), flat, np.array(pairs, dtype=int).reshape(-1, 2), groups)


def rows(n=200, outputs=1, numbers=False, seed=0, weighted=True):
    rng = np.random.default_rng(seed)
    cell = np.column_stack([rng.integers(0, 5, n), rng.integers(0, 3, n), rng.integers(0, 5, n)]).astype(np.uint8)
    share = np.where(cell == [4, 9, 9], 0, rng.integers(0, STEPS + 1, (n, 3))).astype(np.uint8)
    share[:, 1:] = 0
    target = rng.normal(size=n) if numbers else rng.integers(0, max(2, outputs), n).astype(np.uint8)
    return CodedRows(cell, share, target, rng.random(n) + 0.5 if weighted else None)


def direct(own, theta, some):
    """Scores from curves and surfaces."""
    places = [Places(some.cell[:, j].astype(int), some.share[:, j] / STEPS) for j in range(3)]
    out = theta[-1] + sum(own.curve(theta, j).at(places[j]) for j in range(3))
    return out + sum(own.surface(theta, k).at(places[a], places[b]) for k, (a, b) in enumerate(own.pairs))


class TestLayout:
    @pytest.mark.parametrize("pairs", [(), ((0, 2), (1, 2))])
    def test_products_with_the_matrix_are_scores(self, pairs):
        own, some = layout(pairs), rows()
        theta = np.random.default_rng(1).normal(size=(own.size, 2))
        np.testing.assert_allclose(own.matrix(some) @ theta, direct(own, theta, some), atol=1e-12)

    def test_masses_are_column_sums(self):
        own, some = layout(), rows(9000)
        found, plain = masses(own, some), own.matrix(some).T @ some.weight
        unseen = some.weight[some.cell[:, 2] == 4].sum()
        np.testing.assert_allclose(found[:20], plain[:20], rtol=1e-12)
        assert plain[20] == 0.0 and found[20] == pytest.approx(unseen) and found[-1] == pytest.approx(plain[-1])
        tables = [found[own.pair_starts[k] : own.pair_starts[k + 1]].reshape(4, 4) for k in range(2)]
        assert all(table.sum() == pytest.approx(some.weight.sum()) for table in tables)
        assert weight_of(some) == pytest.approx(some.weight.sum()) and weight_of(rows(9, weighted=False)) == 9

    def test_the_penalty_is_that_of_walks(self):
        own = layout()
        theta = np.random.default_rng(2).normal(size=own.size)
        total = 0.0
        number, few, levels = theta[:12], theta[12:16], theta[16:21]
        total += 2.0 * (7 * np.sum(np.diff(number[:8]) ** 2) + 1e-3 * number[:8] @ number[:8] + number[8:] @ number[8:])
        total += 2.0 * (np.diff(few[:2])[0] ** 2 + 1e-3 * few[:2] @ few[:2] + few[2:] @ few[2:])
        total += 2.0 * levels @ levels
        for k, (a, sides) in enumerate([(2, (4, 4)), (2, (4, 4))]):
            values = theta[own.pair_starts[k] : own.pair_starts[k + 1]].reshape(sides)
            total += 5.0 * ((a - 1) * np.sum(np.diff(values[:a], axis=0) ** 2) + 3.0 * np.sum(values**2))
        assert theta @ (own.penalty(2.0, 5.0) @ theta) == pytest.approx(total, rel=1e-12)

    def test_columns_are_selected(self):
        some = select_columns(rows(), np.array([2, 0]))
        np.testing.assert_array_equal(some.cell, rows().cell[:, [2, 0]])

    def test_shares_are_coded_to_half_a_step(self):
        share = np.random.default_rng(0).random(1000)
        coded = code_places([Places(np.zeros(1000, dtype=int), share)], np.zeros(1000), None)
        assert np.abs(coded.share[:, 0] / STEPS - share).max() <= 0.5 / STEPS


@pytest.mark.parametrize("kind", LIKELIHOODS)
class TestSums:
    def test_the_gradient_is_that_of_the_loss(self, kind):
        likelihood, outputs = LIKELIHOODS[kind]
        own, some = layout(), rows(60, outputs, kind == "numbers")
        theta = 0.3 * np.random.default_rng(3).normal(size=(own.size, outputs))

        def loss(flat):
            return sum_block(own, likelihood, flat.reshape(theta.shape), some).loss

        slope = approx_fprime(theta.ravel(), loss, 1e-7).reshape(theta.shape)
        np.testing.assert_allclose(sum_block(own, likelihood, theta, some).gradient, -slope, atol=2e-5)

    def test_sums_do_not_depend_on_how_rows_are_cut(self, kind, monkeypatch):
        likelihood, outputs = LIKELIHOODS[kind]
        own, some = layout(), rows(300, outputs, kind == "numbers")
        theta = 0.3 * np.random.default_rng(3).normal(size=(own.size, outputs))
        whole = sum_block(own, likelihood, theta, some)
        monkeypatch.setattr("tamis.flagship.coded.CHUNK_ROWS", 17)
        parts = [sum_block(own, likelihood, theta, some.take(slice(k, k + 100))) for k in (0, 100, 200)]
        for total in (parts[0] + parts[1] + parts[2], whole - parts[0] + parts[0]):
            assert total.loss == pytest.approx(whole.loss, rel=1e-12)
            np.testing.assert_allclose(total.gradient, whole.gradient, atol=1e-10)
            np.testing.assert_allclose(total.curvature, whole.curvature, atol=1e-10)

    def test_bends_are_derivatives_of_the_gradient(self, kind):
        likelihood, outputs = LIKELIHOODS[kind]
        rng = np.random.default_rng(4)
        F, U, Y = (rng.normal(size=(9, outputs)) for _ in range(3))
        ends = [likelihood.gradient(likelihood.mean(F + t * U), Y) for t in (1e-6, -1e-6)]
        np.testing.assert_allclose(likelihood.bend(likelihood.mean(F), U), (ends[1] - ends[0]) / 2e-6, atol=1e-8)

    @pytest.mark.parametrize("share", [1.0, 0.3])
    def test_steps_end_at_the_minimum_of_all_rows(self, kind, share, monkeypatch):
        monkeypatch.setattr("tamis.flagship.newton.TOLERANCE", 1e-14)
        likelihood, outputs = LIKELIHOODS[kind]
        own, some = layout(), rows(2000, outputs, kind == "numbers")
        penalty = own.penalty(0.1, 0.3)
        sample = Sample.of(own, likelihood, some.take(slice(0, int(share * 2000))), weight_of(some))
        start = np.zeros((own.size, outputs))

        def objective(flat):
            theta = flat.reshape(start.shape)
            found = sum_block(own, likelihood, theta, some)
            value = found.loss + 0.5 * float((theta * (penalty @ theta)).sum())
            return value, (penalty @ theta - found.gradient).ravel()

        best = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15})
        found = minimise(lambda theta: sum_block(own, likelihood, theta, some), sample, penalty, start, 60)
        reached, slope = objective(found.theta.ravel())
        assert reached <= best.fun + 1e-6 and np.abs(slope).max() < 1e-3
        few = minimise(lambda theta: sum_block(own, likelihood, theta, some), sample, penalty, start, 2)
        assert few.passes == 2 and not few.converged and objective(few.theta.ravel())[0] < objective(start.ravel())[0]
