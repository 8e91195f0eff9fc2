"""The steps of l0-MKL: machines of any kernel, and what proves that there is none."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from l0_problems import problem, psd, scores, toy, value
from tamis.kernels.base import Sigmoid
from tamis.kernels.stacks.base import DenseStack
from tamis.methods.l0_mkl import solver as method
from tamis.methods.l0_mkl.steps import (
    Machine,
    Problem,
    _best_shifts,
    _falling_eigenvector,
    beta_step,
    falls,
    images,
    published,
    weight_step,
)
from tamis.optim.driver import Status
from tamis.optim.penalties import L1


class TestTheMachine:
    def test_of_a_positive_definite_kernel_is_the_same_whichever_step_finds_it(self):
        stack, y = psd()
        base = Problem(stack, y, np.ones(len(y)), L1(1.0), lambda1=0.3)
        still = beta_step(base, np.ones(1))
        flipped = beta_step(replace(base, beta_step="flip"), np.ones(1))
        dca = published(base, stack.one(0), steps=5000)
        K = stack.one(0)
        for other in (flipped, dca):
            assert other.value == pytest.approx(still.value, rel=1e-6)
            np.testing.assert_allclose(
                K @ other.dual_coef + other.intercept, K @ still.dual_coef + still.intercept, atol=1e-3
            )

    @pytest.mark.parametrize("step", ["ridge", "flip"])
    def test_cannot_be_bettered_where_the_objective_is_bounded(self, step, rng):
        X, y = toy(20, 4)
        cost = rng.uniform(0.5, 2.0, 20)
        task = problem(X, y, cost=cost, beta_step=step)
        d = np.array([1.0, 0.2, 0.0, 0.5])
        machine = beta_step(task, d)
        state = method.State(d, machine.dual_coef, machine.intercept, task.lambda1, 0.0)
        best = method.objective(task, state)
        assert best == pytest.approx(machine.value, rel=1e-9)
        for _ in range(50):
            near = replace(state, dual_coef=state.dual_coef + 1e-2 * rng.normal(size=20), intercept=state.intercept)
            assert method.objective(task, near) >= best - 1e-9

    def test_stationary_means_that_the_slope_of_the_published_objective_vanishes(self):
        X, y = toy(20, 4)
        cost = np.linspace(0.5, 1.5, 20)
        task = problem(X, y, cost=cost, lambda1=0.5)
        machine = beta_step(task, np.full(4, 0.25))
        K = task.stack.combine(np.full(4, 0.25)).dense()
        assert np.linalg.eigvalsh(K)[0] < -1e-3
        z = np.append(machine.dual_coef, machine.intercept)
        slope = approx_fprime(z, lambda z: value(K, y, cost, 0.5, z), 1e-7)
        assert np.abs(slope).max() < 1e-4
        assert machine.residual < 1e-8
        assert abs(machine.dual_coef.sum()) < 1e-10 * 20 * np.abs(machine.dual_coef).max()

    def test_a_constant_in_every_kernel_changes_no_score_of_a_stationary_machine(self):
        X, y = toy(30, 5)
        task = problem(X, y)
        values = np.array([task.stack.one(k) for k in range(5)])
        shifted = replace(task, stack=DenseStack(values + 0.7))
        plain = replace(task, stack=DenseStack(values))
        ends = [method.solve(t) for t in (plain, shifted)]
        np.testing.assert_allclose(scores(plain, ends[0].state), scores(shifted, ends[1].state), atol=1e-7)

    def test_dca_takes_the_full_gradient_of_its_concave_part(self):
        """From a stationary point no step leads away; with half the gradient one would."""
        stack, y = psd()
        base = Problem(stack, y, np.ones(len(y)), L1(1.0), lambda1=0.3)
        still = beta_step(base, np.ones(1))
        moved = published(base, stack.one(0), still, steps=1)
        np.testing.assert_allclose(moved.dual_coef, still.dual_coef, atol=1e-7)

    def test_dca_never_raises_its_objective(self):
        stack, y = psd()
        base = Problem(stack, y, np.ones(len(y)), L1(1.0), lambda1=0.3)
        machine, values = None, [float(len(y))]
        for _ in range(12):
            machine = published(base, stack.one(0), machine, steps=1)
            values.append(machine.value)
        assert not machine.reason and values[-1] < values[1] - 1e-3
        assert all(b <= a + 1e-9 * abs(a) for a, b in pairwise(values))

    def test_dca_that_ends_too_early_says_how_far_it_is(self):
        stack, y = psd()
        base = Problem(stack, y, np.ones(len(y)), L1(1.0), lambda1=0.3)
        early, late = (published(base, stack.one(0), steps=steps).residual for steps in (3, 5000))
        assert early > 1e-3 > 1e-5 > late

    def test_residual_is_the_gradient_of_the_published_objective(self, rng):
        stack, y = psd()
        cost = rng.uniform(0.5, 2, len(y))
        base = Problem(stack, y, cost, L1(1.0), lambda1=0.3)
        machine = published(base, stack.one(0), steps=2)
        K, z = stack.one(0), np.append(machine.dual_coef, machine.intercept)
        slope = approx_fprime(z, lambda z: value(K, y, cost, 0.3, z), 1e-7)
        pull = cost * y * np.maximum(0, 1 - y * (K @ z[:-1] + z[-1]))
        scale = max(np.abs(2 * K @ (0.3 * z[:-1])).max(), np.abs(2 * np.append(K @ pull, pull.sum())).max())
        assert machine.residual == pytest.approx(np.abs(slope).max() / scale, rel=1e-4)


class TestUnbounded:
    def planted(self, lam=1.0, n=12, seed=0):
        """A kernel with the eigenvalue -1.5 lam."""
        rng = np.random.default_rng(seed)
        U, _ = np.linalg.qr(rng.normal(size=(n, n)))
        K = (U * np.append(-1.5 * lam, np.linspace(0.5, 2, n - 1))) @ U.T
        y = np.where(rng.normal(size=n) > 0, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        return 0.5 * (K + K.T), U[:, 0], y

    def test_a_small_negative_eigenvalue_lets_the_objective_fall_like_a_square(self):
        K, v, y = self.planted()
        low = [min(value(K, y, np.ones(12), 1.0, np.append(s * t * v, 0)) for s in (1, -1)) for t in (10, 100, 1000)]
        assert low[0] > low[1] > low[2]
        assert low[2] / low[1] == pytest.approx(100, rel=0.2)

    def test_the_published_step_says_so_and_gives_no_model(self):
        K, _, y = self.planted()
        task = Problem(DenseStack(K[None]), y, np.ones(12), L1(1.0), lambda1=1.0, beta_step="paper")
        solution = method.solve(task)
        assert solution.status is Status.UNBOUNDED
        assert "eigenvalue -1.5" in solution.state.reason
        assert not solution.state.weights.any() and not solution.state.dual_coef.any()

    def test_either_sign_of_an_eigenvector_and_its_best_intercept_count(self):
        """One negative eigenvector falls only with one sign, or only with an intercept that cancels its image."""
        n = 8
        y = np.where(np.arange(n) < 6, 1.0, -1.0)
        v = np.ones(n) / np.sqrt(n)
        K = np.eye(n) - (1.0 + 5.0) * np.outer(v, v)  # the constant direction has the eigenvalue -5, beyond 2 lambda1
        task = Problem(DenseStack(K[None]), y, np.ones(n), L1(1.0), lambda1=0.5, beta_step="paper")
        assert "eigenvalue -5" in published(task, K).reason
        for labels in (y, -y):
            u = labels / np.sqrt(n)
            K = np.eye(n) - 1.8 * np.outer(u, u)
            task = Problem(DenseStack(K[None]), labels, np.ones(n), L1(1.0), lambda1=0.5, beta_step="paper")
            assert "eigenvalue -0.8" in published(task, K).reason
            eigenvalues, vectors = np.linalg.eigh(K)
            assert all("eigenvalue -0.8" in _falling_eigenvector(task, eigenvalues, s * vectors) for s in (1, -1))

    def test_best_intercepts_of_directions(self, rng):
        g, y, cost = rng.normal(size=(20, 5)), np.where(np.arange(20) < 7, 1.0, -1.0), rng.uniform(0.5, 2, 20)
        for column, shift in zip(g.T, _best_shifts(g, y, cost), strict=True):
            loss = [cost @ np.maximum(0, -y * (column + s)) ** 2 for s in (shift, shift + 1e-3, shift - 1e-3)]
            assert loss[0] <= min(loss[1:])

    def test_a_falling_direction_is_a_proof(self, rng):
        K, v, y = self.planted()
        task = Problem(DenseStack(K[None]), y, np.ones(12), L1(1.0), lambda1=1.0)
        for _ in range(30):
            beta, b = rng.normal() * v + 0.3 * rng.normal(size=12), rng.normal()
            far = [value(K, y, np.ones(12), 1.0, t * np.append(beta, b)) / t**2 for t in (1e6, 1e7)]
            if abs(far[1]) > 1e-3:
                assert falls(task, K @ beta, beta, b) == (far[1] < 0)

    def test_divergence_that_no_eigenvector_shows_is_caught_along_the_way(self, monkeypatch):
        K, _, y = self.planted()
        monkeypatch.setattr("tamis.methods.l0_mkl.steps._falling_eigenvector", lambda *_: "")
        task = Problem(DenseStack(K[None]), y, np.ones(12), L1(1.0), lambda1=1.0, beta_step="paper")
        assert published(task, K, steps=5000).reason

    @pytest.mark.parametrize("step", ["stationary", "ridge", "flip"])
    def test_the_other_steps_have_a_model(self, step):
        X, y = toy()
        solution = method.solve(problem(X, y, beta_step=step))
        assert solution.status.converged and solution.state.weights.any()

    def test_a_weight_step_without_a_minimum_ends_the_published_method(self):
        y = np.array([1.0, 1.0, -1.0])
        K = np.array([[[-1.0, 0, 0], [0, -1.0, 0], [0, 0, -1.0]]])
        task = Problem(DenseStack(K), y, np.ones(3), L1(1e-3), lambda1=1.0, lambda2=1e-3, beta_step="paper")
        seen = images(task, Machine(-y, 0.0, 0.0, 1.0))
        assert seen.gamma[0] < 0
        assert weight_step(task, seen, 0.0, 1e-3, np.zeros(1)).reason

    def test_a_bounded_step_is_remembered_by_later_rounds(self, monkeypatch):
        X, y = toy()
        calls = []

        def first_is_clipped(*arguments):
            calls.append(weight_step(*arguments))
            return replace(calls[-1], clipped=len(calls) == 1)

        monkeypatch.setattr(method, "weight_step", first_is_clipped)
        assert method.solve(problem(X, y), rounds=3).state.clipped and len(calls) == 3

    def test_and_is_bounded_and_reported_otherwise(self):
        y = np.array([1.0, 1.0, -1.0])
        K = np.array([[[-1.0, 0, 0], [0, -1.0, 0], [0, 0, -1.0]]])
        task = Problem(DenseStack(K), y, np.ones(3), L1(1e-3), lambda1=1.0)
        weighed = weight_step(task, images(task, Machine(-y, 0.0, 0.0, 1.0)), 0.0, 1e-3, np.zeros(1))
        assert weighed.clipped and not weighed.reason
        assert weighed.weights[0] == pytest.approx(1 - 0.5e-6 / 3, rel=1e-6)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_where_no_stationary_machine_is_found_lambda1_is_raised_until_there_is_one(self, weighted, rng):
        X, y = toy(60, 4)
        cost = rng.uniform(0.2, 3.0, 60) if weighted else np.ones(60)
        task = problem(X, y, Sigmoid(1.0, 0.1), lambda1=0.05, cost=cost)
        machine = beta_step(task, np.ones(4))
        assert machine.lambda1 > 0.05 and machine.residual < 1e-8
        K = task.stack.combine(np.ones(4)).dense()
        basis = np.linalg.svd(np.ones((1, 60)))[2][1:]
        least = np.linalg.eigvalsh(basis @ (K + np.diag(machine.lambda1 / cost)) @ basis.T)[0]
        assert least > 0
        np.testing.assert_allclose(images(task, machine).gamma, machine.lambda1 * task.stack.quad(machine.dual_coef))

    def test_a_constant_in_the_kernel_raises_nothing(self):
        """A kernel that is negative on constants only has its stationary machine at the lambda1 that was asked for."""
        X, y = toy(60, 4)
        values = np.array([problem(X, y, Sigmoid(1.0, 0.1)).stack.one(k) for k in range(4)])
        ends = [
            beta_step(Problem(DenseStack(values + c), y, np.ones(60), L1(1.0), lambda1=0.05), np.ones(4)).lambda1
            for c in (0.0, -50.0)
        ]
        assert ends[0] == pytest.approx(ends[1], rel=1e-6)
