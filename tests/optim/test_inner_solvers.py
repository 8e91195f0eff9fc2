"""The small solvers that methods lean on, each against another way to the same answer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import SVC

from tamis.optim import proximal_svm
from tamis.optim.matrices import LowRank, factor, woodbury
from tamis.optim.proximal_svm import FINE_DECREMENT, Primal, approach
from tamis.optim.quadratic import zero_of_slope
from tamis.optim.svm import _level, _sketched, _started, solve_svm


class TestZeroOfASlope:
    @staticmethod
    def search(slope, length=2.0, trials=50, flat=1e-9):
        seen = []

        def at(s):
            seen.append(s)
            return s, slope(s)

        points = zero_of_slope(at, slope(0.0), slope(length), length=length, trials=trials, flat=flat)
        assert points == seen
        return points

    @pytest.mark.parametrize(
        "slope, zero",
        [
            (lambda s: s - 0.7, 0.7),
            (lambda s: s**3 - 0.5, 0.5 ** (1 / 3)),
            (lambda s: np.exp(4 * s) - 20.0, np.log(20) / 4),
            (lambda s: 1.0 - np.exp(4 * (1.2 - s)), 1.2),
            (lambda s: np.sign(s - 1.3) * abs(s - 1.3) ** 0.3, 1.3),
        ],
    )
    def test_the_last_point_is_the_zero(self, slope, zero):
        points = self.search(slope)
        assert points[-1] == pytest.approx(zero, abs=1e-6)
        assert len(points) < 48 and abs(slope(points[-1])) <= 1e-9 * abs(slope(0.0))

    def test_a_line_is_solved_at_once(self):
        assert self.search(lambda s: 3.0 * s - 1.2, length=5.0) == [pytest.approx(0.4)]

    def test_an_end_that_stays_is_halved(self):
        """Plain false position creeps up on the zero of a strongly bent slope."""
        slope = lambda s: s**9 - 0.01  # noqa: E731
        first, second, third = self.search(slope, length=1.0)[:3]
        assert first == pytest.approx(0.01)
        assert second == pytest.approx(first + (1.0 - first) * -slope(first) / (slope(1.0) - slope(first)))
        halved = 0.5 * slope(1.0)  # the right end was kept a second time
        assert third == pytest.approx(second + (1.0 - second) * -slope(second) / (halved - slope(second)))

    def test_so_does_the_other_end(self):
        slope = lambda s: 0.01 - (1.0 - s) ** 9  # noqa: E731
        first, second, third = self.search(slope, length=1.0)[:3]
        assert first == pytest.approx(0.99)
        assert second == pytest.approx(first * -slope(0.0) / (slope(first) - slope(0.0)))
        assert third == pytest.approx(second * -0.5 * slope(0.0) / (slope(second) - 0.5 * slope(0.0)))

    def test_a_kink_near_the_end_is_found_by_halves(self):
        """Halving the slope of the steep end alone would take thirty points to leave the start."""
        points = self.search(lambda s: -1.0 if s < 0.999 else 1e9, length=1.0, trials=14)
        assert min(abs(s - 0.999) for s in points) < 2e-3

    def test_it_ends_at_a_slope_that_is_flat_enough(self):
        assert self.search(lambda s: s - 1.0, flat=1.0) == []  # the slope at the end counts as zero
        bent = self.search(lambda s: s**3 - 0.5, flat=0.2)
        assert abs(bent[-1] ** 3 - 0.5) <= 0.1 and all(abs(s**3 - 0.5) > 0.1 for s in bent[:-1])

    def test_there_are_no_more_points_than_trials(self):
        assert len(self.search(lambda s: s**9 - 0.01, trials=3)) == 3

    @pytest.mark.parametrize("low, high", [(1.0, 2.0), (-2.0, -1.0), (0.0, 1.0), (-1.0, 0.0)])
    def test_without_a_change_of_sign_there_is_nothing_to_look_for(self, low, high):
        assert zero_of_slope(lambda s: (s, s), low, high, length=1.0, trials=9, flat=0.0) == []


class TestFactors:
    def test_one_and_several_right_hand_sides(self, rng):
        A = rng.normal(size=(6, 9))
        K = np.asfortranarray(A @ A.T + 0.1 * np.eye(6))
        right = rng.normal(size=(6, 3))
        found = factor(K.copy(order="F"))
        np.testing.assert_allclose(K @ found.solve(right), right, atol=1e-10)
        np.testing.assert_allclose(K @ found.solve(right[:, 0]), right[:, 0], atol=1e-10)

    def test_a_matrix_that_is_not_definite_is_refused_by_its_minor(self):
        with pytest.raises(np.linalg.LinAlgError, match="minor of order 2 is not positive definite"):
            factor(np.array([[1.0, 2.0], [2.0, 1.0]]))


def machine(rng, n=60, rank=5, ridge=None):
    """A machine of low rank that has errors, margins and rows beyond."""
    A = rng.normal(size=(rank, n))
    y = np.where(A[0] + 0.7 * rng.normal(size=n) > 0.2, 1.0, -1.0)
    return LowRank(A, np.ones(rank), ridge), y, rng.uniform(0.3, 2.0, n)


def start(K, y):
    return Primal(np.zeros(len(K.factor)), 0.0, np.zeros(len(y)))


class TestProximalPoints:
    @pytest.mark.parametrize("ridge", [None, 0.3])
    @pytest.mark.parametrize("n, rank", [(60, 5), (30, 45)])
    def test_they_end_at_the_machine(self, rng, n, rank, ridge):
        K, y, cost = machine(rng, n, rank, None if ridge is None else np.full(n, ridge))
        found = approach(K, y, cost, start(K, y), 1e-9, FINE_DECREMENT)
        svc = SVC(kernel="precomputed", C=1.0, tol=1e-9).fit(K.dense(), y, sample_weight=cost)
        wanted = np.zeros(n)
        wanted[svc.support_] = svc.dual_coef_[0]
        assert found.converged
        np.testing.assert_allclose(K @ (found.alpha * y), K @ wanted, atol=1e-6)
        assert found.intercept == pytest.approx(float(svc.intercept_[0]), abs=1e-6)
        np.testing.assert_allclose(found.w, K.factor @ (found.alpha * y), atol=1e-6)
        assert np.all((found.alpha >= 0) & (found.alpha <= cost))

    def test_margins_are_off_by_what_the_coefficients_moved(self, rng):
        K, y, cost = machine(rng)
        found = approach(K, y, cost, start(K, y), 1e-3)
        margins = y * (K @ (found.alpha * y) + found.intercept)
        inside = (found.alpha > 0) & (found.alpha < cost)
        assert found.converged and found.sigma >= proximal_svm.FIRST_SIGMA * cost.mean()
        np.testing.assert_allclose(margins[inside], 1.0, atol=2e-3)
        assert np.all(margins[found.alpha == 0] > 1 - 2e-3) and np.all(margins[found.alpha == cost] < 1 + 2e-3)

    def test_a_start_that_knows_how_far_to_go_goes_on_from_there(self, rng):
        K, y, cost = machine(rng)
        first = approach(K, y, cost, start(K, y), 1e-6, FINE_DECREMENT)
        again = approach(K, y, cost, first, 1e-6, FINE_DECREMENT)
        assert again.sigma == first.sigma and again.converged
        np.testing.assert_allclose(again.w, first.w, atol=1e-6)

    def test_where_points_run_out_it_has_not_converged(self, rng, monkeypatch):
        monkeypatch.setattr(proximal_svm, "MAX_PROXIMAL_POINTS", 2)
        monkeypatch.setattr(proximal_svm, "FIRST_SIGMA", 1e-4)
        K, y, cost = machine(rng)
        found = approach(K, y, cost, start(K, y), 1e-9)
        assert not found.converged and found.sigma == pytest.approx(1e-4 * cost.mean() * proximal_svm.SIGMA_GROWTH**2)

    def test_where_newton_steps_run_out_it_has_not_converged(self, rng, monkeypatch):
        monkeypatch.setattr(proximal_svm, "MAX_NEWTON_STEPS", 1)
        monkeypatch.setattr(proximal_svm, "MAX_PROXIMAL_POINTS", 1)
        K, y, cost = machine(rng)
        assert not approach(K, y, cost, start(K, y), np.inf, FINE_DECREMENT).converged

    def test_one_point_minimises_its_function(self, rng):
        K, y, cost = machine(rng, ridge=np.full(60, 0.2))
        before = Primal(np.zeros(5), 0.3, rng.uniform(0, 1, 60) * cost, 2.0)
        smooth = proximal_svm._Smooth(K.factor, y, cost, K.ridge, before)
        value = lambda x: smooth.at(K.factor.T @ x[:-1], x[:-1], x[-1])[0]  # noqa: E731
        found, settled = proximal_svm._minimise(smooth, before, FINE_DECREMENT)
        wanted = minimize(value, np.zeros(6), method="BFGS", options={"gtol": 1e-9})
        assert settled and value(np.r_[found.w, found.intercept]) == pytest.approx(wanted.fun, rel=1e-10)
        np.testing.assert_allclose(np.r_[found.w, found.intercept], wanted.x, atol=1e-5)
        np.testing.assert_allclose(found.alpha, smooth.alpha(K.factor.T @ found.w, found.intercept))

    def test_a_point_that_says_it_is_the_minimum_has_no_slope(self):
        """Also where rows go from one end of their range to the other in one step, inside it at neither."""
        rng, settled = np.random.default_rng(0), 0
        for _ in range(600):
            K, y, cost = machine(rng, n=4, rank=2)
            w, b = rng.choice([0.0, 0.1, 1.0]) * rng.normal(size=2), float(rng.normal())
            near = Primal(w, b, rng.integers(0, 2, 4) * cost, 10.0 ** rng.uniform(0, 3))
            smooth = proximal_svm._Smooth(K.factor, y, cost, np.zeros(4), near)
            found, sure = proximal_svm._minimise(smooth, near, FINE_DECREMENT)
            pull = y * smooth.alpha(K.factor.T @ found.w, found.intercept)
            slope = np.r_[found.w - K.factor @ pull, smooth.anchor * (found.intercept - b) - pull.sum()]
            settled += sure
            assert not sure or np.abs(slope).max() < 1e-3 * (1.0 + np.abs(pull).sum())
        assert settled > 500

    def test_coefficients_are_best_for_their_margins(self, rng):
        """Row by row the largest alpha'r - ridge/2 alpha^2 - |alpha - before|^2 / (2 sigma)."""
        K, y, cost = machine(rng, n=25, ridge=np.linspace(0.0, 1.0, 25))
        before = Primal(np.zeros(5), 0.0, rng.uniform(0, 1, 25) * cost, 3.0)
        smooth = proximal_svm._Smooth(K.factor, y, cost, K.ridge, before)
        f = rng.normal(size=25)
        alpha, r = smooth.alpha(f, 0.4), 1.0 - y * (f + 0.4)
        grid = np.linspace(0, 1, 20001)[:, None] * cost
        gain = grid * r - 0.5 * K.ridge * grid**2 - (grid - before.alpha) ** 2 / 6.0
        np.testing.assert_allclose(alpha, grid[np.argmax(gain, axis=0), np.arange(25)], atol=2e-4)
        assert smooth.inside(alpha).tolist() == [bool(0 < a < c) for a, c in zip(alpha, cost, strict=True)]
        expected = 0.5 * 5 + float(np.max(gain, axis=0).sum())
        value, again = smooth.at(f, np.ones(5), 0.4)
        assert value == pytest.approx(expected, abs=1e-4)
        np.testing.assert_array_equal(again, alpha)

    def test_a_step_is_newtons(self, rng):
        K, y, cost = machine(rng, ridge=np.full(60, 0.2))
        smooth = proximal_svm._Smooth(K.factor, y, cost, K.ridge, Primal(np.zeros(5), 0.1, 0.5 * cost, 2.0))
        w, b = 0.1 * rng.normal(size=5), 0.2
        value = lambda x: smooth.at(K.factor.T @ x[:-1], x[:-1], x[-1])[0]  # noqa: E731
        x, h = np.r_[w, b], 1e-5
        slopes = np.array([(value(x + h * e) - value(x - h * e)) / (2 * h) for e in np.eye(6)])
        alpha = smooth.alpha(K.factor.T @ w, b)
        J = smooth.inside(alpha)
        table = np.vstack([K.factor, np.ones(60)])[:, J]
        H = (table * smooth.slope[J]) @ table.T + np.diag(np.r_[np.ones(5), smooth.anchor])
        dw, db, promised = smooth.step(w, b, alpha)
        np.testing.assert_allclose(np.r_[dw, db], np.linalg.solve(H, slopes), atol=1e-5)
        assert promised == pytest.approx(slopes @ np.linalg.solve(H, slopes), rel=1e-4)

    def test_the_slope_along_a_step_is_the_derivative(self, rng):
        K, y, cost = machine(rng)
        smooth = proximal_svm._Smooth(K.factor, y, cost, np.zeros(60), Primal(np.zeros(5), 5.0, 0.5 * cost, 2.0))
        w, b = rng.normal(size=5), 0.2
        dw, db = rng.normal(size=5), 1.7
        f, df = K.factor.T @ w, K.factor.T @ dw
        line = proximal_svm._Line(smooth, (f, df), (b, db), float(w @ dw), float(dw @ dw))
        along = lambda t: smooth.at(f - t * df, w - t * dw, b - t * db)[0]  # noqa: E731
        for t in (0.0, 0.3, 1.4):
            assert line.slope(t) == pytest.approx((along(t + 1e-6) - along(t - 1e-6)) / 2e-6, rel=1e-5, abs=1e-4)

    @pytest.mark.parametrize("zero, wanted", [(1.0, 1.0), (5.0, None), (0.11, None)])
    def test_the_length_of_a_step_is_near_the_zero_of_its_slope(self, zero, wanted):
        class Slope:
            def slope(self, t):
                return (t - zero) / zero

        t = proximal_svm._length(Slope(), 1.0)
        assert abs(t - zero) <= proximal_svm.SLOPE_SHARE * zero
        assert wanted is None or t == wanted

    @pytest.mark.parametrize("k", [0, 3, 12])
    def test_systems_are_solved_from_either_side(self, rng, k):
        A, s, right = rng.normal(size=(6, k)), rng.uniform(0.5, 2.0, k), rng.normal(size=(6, 2))
        wanted = np.linalg.solve(np.eye(6) + (A * s) @ A.T, right)
        np.testing.assert_allclose(proximal_svm._shifted_solve(A, s, right), wanted, atol=1e-10)


@pytest.mark.parametrize("ridge", [1e-2, 1e-5, 1e-8])
def test_a_small_ridge_keeps_the_residual_of_a_low_rank_system_small(rng, ridge):
    A, diagonal = rng.normal(size=(10, 200)), np.full(200, ridge)
    right = A.T @ (A @ rng.normal(size=200))
    x = woodbury(A, diagonal, right)
    assert np.abs(A.T @ (A @ x) + diagonal * x - right).max() < 1e-9 * np.abs(right).max()


class TestMachinesOfLowRank:
    @pytest.mark.parametrize("ridge", [None, 0.2])
    @pytest.mark.parametrize("begun", [False, True])
    def test_they_are_the_machines_of_the_whole_matrix(self, rng, ridge, begun):
        K, y, cost = machine(rng, 150, 6, None if ridge is None else np.full(150, ridge))
        start = rng.uniform(0, 1, 150) * cost * y if begun else None
        low, whole = solve_svm(K, y, cost, tol=1e-7, start=start), solve_svm(K.dense(), y, cost, tol=1e-7)
        assert low.converged and low.value == pytest.approx(whole.value, rel=1e-8)
        np.testing.assert_allclose(K @ low.dual_coef, K @ whole.dual_coef, atol=1e-5)
        assert low.intercept == pytest.approx(whole.intercept, abs=1e-5)
        assert abs(low.dual_coef.sum()) < 1e-8 and np.all(low.dual_coef * y >= 0) and np.all(low.dual_coef * y <= cost)

    def test_a_search_that_does_not_end_says_so(self, rng, monkeypatch):
        monkeypatch.setattr(proximal_svm, "MAX_PROXIMAL_POINTS", 1)
        monkeypatch.setattr(proximal_svm, "MAX_NEWTON_STEPS", 1)
        K, y, cost = machine(rng, 150, 6)
        found = solve_svm(K, y, cost, tol=1e-12)
        assert not found.converged and abs(found.dual_coef.sum()) < 1e-8

    def test_a_start_stands_where_its_coefficients_say(self, rng):
        K, y, cost = machine(rng)
        given = rng.uniform(-0.5, 1.5, 60) * cost * y
        given[:5] = 0.0
        found = _started(K, y, cost, given)
        np.testing.assert_allclose(found.alpha, np.clip(given * y, 0, cost))
        np.testing.assert_allclose(found.w, K.factor @ (found.alpha * y))
        free = (found.alpha > 0) & (found.alpha < cost)
        assert found.intercept == pytest.approx(np.median((y - K @ (found.alpha * y))[free]))
        bound = _started(K, y, cost, np.zeros(60))
        assert bound.intercept == pytest.approx(np.median(y))

    def test_a_sketch_is_the_machine_of_all_rows_where_they_are_few(self, rng):
        K, y, cost = machine(rng)
        sketch, whole = _sketched(K, y, cost), solve_svm(K.dense(), y, cost, tol=1e-6)
        np.testing.assert_allclose(sketch.w, K.factor @ whole.dual_coef, atol=0.1)
        assert sketch.intercept == pytest.approx(whole.intercept, abs=0.1)
        slack = 1.0 - y * (K.factor.T @ sketch.w + sketch.intercept)
        assert np.all(sketch.alpha[slack > 0.5] == cost[slack > 0.5]) and not sketch.alpha[slack < -0.5].any()

    def test_a_sketch_weighs_its_rows_for_all(self, rng, monkeypatch):
        monkeypatch.setattr("tamis.optim.svm.SKETCH_ROWS", 10)
        K, y, cost = machine(rng, 400, 3)
        part, whole = _sketched(K, y, cost), solve_svm(K.dense(), y, cost, tol=1e-6)
        direction = K.factor @ whole.dual_coef
        assert part.w @ direction > 0.8 * np.linalg.norm(part.w) * np.linalg.norm(direction)

    def test_sums_are_levelled_inside_the_range_first(self):
        y, cost = np.array([1.0, 1.0, 1.0, -1.0]), np.full(4, 2.0)
        assert _level(np.array([1.0, 2.0, 1.0, 3.0]), y, cost).tolist() == [0.5, 2.0, 0.5, 3.0]
        assert _level(np.array([0.5, 2.0, 0.5, 1.0]), y, cost).tolist() == [0.0, 1.0, 0.0, 1.0]
        assert _level(np.array([0.0, 1.0, 0.0, 2.0]), y, cost).tolist() == [0.0, 1.0, 0.0, 1.0]
        assert _level(np.array([1.0, 0.0, 0.0, 1.0]), y, cost).tolist() == [1.0, 0.0, 0.0, 1.0]
        assert _level(np.array([1.0, 0.0, 0.0, 0.0]), y, cost).tolist() == [0.0, 0.0, 0.0, 0.0]
