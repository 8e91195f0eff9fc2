"""Non-negative quadratic pursuit against non-negative least squares, conic programs, enumeration and a plain loop."""

from __future__ import annotations

import itertools
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

import tamis.optim.nqp as module
from tamis.optim.nqp import nqp_violation, solve_nqp


def value(Q, c, x):
    return 0.5 * np.einsum("...i,ij,...j->...", x, Q, x) + np.sum(c * x, axis=-1)


def pursue_plainly(Q, c, limit):
    """The pseudo-code word by word, one problem at a time; also a count of what happened."""
    x, support, value_before, happened = np.zeros(len(c)), [], 0.0, Counter()
    free, dropped = {j for j in range(len(c)) if Q[j, j] > 0}, set()
    while len(support) < limit and free:
        gradient = Q @ x + c
        j = min(sorted(free), key=lambda k: gradient[k])
        if gradient[j] >= -1e-10 * np.abs(c).max():
            break
        free.remove(j)
        v = np.linalg.solve(np.linalg.cholesky(Q[np.ix_(support, support)]), Q[support, j])
        if Q[j, j] - v @ v < 1e-10 * Q[j, j]:
            happened["discarded"] += 1
            continue
        support.append(j)
        while True:
            z = -np.linalg.solve(Q[np.ix_(support, support)], c[support])
            if np.all(z > 0):
                break
            happened["crossed"] += 1
            old = x[support]
            share = np.array([a / (a - b) if b <= 0 else np.inf for a, b in zip(old, z)])
            x[support] = old + share.min() * (z - old)
            for k in [k for k, s in zip(list(support), share) if s <= share.min()]:
                x[k] = 0.0
                support.remove(k)
                free.add(k)
                dropped.add(k)
        x[support] = z
        now = 0.5 * c @ x
        if value_before - now < 1e-12 * abs(now):
            happened["ended"] += 1
            break
        value_before = now
    happened["readmitted"] += len(dropped & set(support))
    return x, happened


def least_squares(rng, kind, b=6):
    """Factors A and targets B, so that ``Q = A'A`` and ``c = -BA``."""
    d = int(rng.integers(2, 30))
    n = d + 4
    A, B = rng.normal(size=(n, d)), rng.normal(size=(b, n))
    if kind == "correlated":
        A = A + 2 * rng.normal(size=(n, 1))
    if kind == "low rank":
        A, B = A[: max(1, d // 2)], B[:, : max(1, d // 2)]
    if kind == "scaled":
        A = A * 10.0 ** rng.integers(-1, 2, size=d)
    if kind == "copies":
        A = A[:, rng.integers(0, d // 2 + 1, size=d)] * rng.choice([0.5, 1.0, 2.0], size=d)
    if kind == "empty columns":
        A = A * (rng.random(d) < 0.7)
    if kind == "smooth":
        A, B = np.exp(-((rng.normal(size=(n, 1)) - rng.normal(size=d)) ** 2) / 8), np.abs(B)
    return A, B


def coding(rng, n=30, d=14, width=2.0):
    """Codes of points by some of them: ``Q = 2 U'KU``, ``c = -2 K_U``."""
    X = rng.normal(size=(n, 3))
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / width)
    chosen = rng.permutation(n)[:d]
    return 2 * K[np.ix_(chosen, chosen)], -2 * K[:, chosen]


class TestWithoutALimit:
    @pytest.mark.parametrize("kind", ["correlated", "low rank", "scaled", "copies", "empty columns", "smooth"])
    def test_it_is_nonnegative_least_squares(self, kind):
        rng = np.random.default_rng(sum(map(ord, kind)))
        for _ in range(25):
            A, B = least_squares(rng, kind)
            Q, c = A.T @ A, -B @ A
            x = solve_nqp(Q, c)
            assert np.all(x >= 0) and np.all(nqp_violation(Q, c, x) <= 1e-8)
            for one, target in zip(x, B):
                try:
                    residual = nnls(A, target, maxiter=3000)[1]
                except RuntimeError:  # scipy 1.13 cycles on some of these; the conditions above hold all the same
                    continue
                assert np.linalg.norm(A @ one - target) <= residual + 1e-7 * np.linalg.norm(target)

    def test_it_is_the_solution_of_a_conic_program_with_any_linear_term(self, rng):
        cp = pytest.importorskip("cvxpy")
        for d in (1, 4, 15):
            A, c = rng.normal(size=(d + 3, d)) + 1, rng.normal(size=(3, d)) - 0.5
            Q = A.T @ A
            for one, x in zip(c, solve_nqp(Q, c)):
                z = cp.Variable(d, nonneg=True)
                cp.Problem(cp.Minimize(0.5 * cp.sum_squares(A @ z) + one @ z)).solve(
                    solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
                )
                np.testing.assert_allclose(x, z.value, atol=1e-6)

    def test_entries_that_nearly_depend_on_each_other_do_not_spoil_it(self):
        rng = np.random.default_rng(0)
        for _ in range(12):
            A = rng.normal(size=(63, 4)) @ rng.normal(size=(4, 60)) + 1.5e-5 * rng.normal(size=(63, 60))
            Q, c = A.T @ A, -rng.normal(size=(40, 63)) @ A
            assert np.all(nqp_violation(Q, c, solve_nqp(Q, c)) <= 1e-8)  # some wait for an entry to leave the support

    def test_a_limit_of_all_entries_is_none(self, rng):
        Q, c = coding(rng)
        np.testing.assert_array_equal(solve_nqp(Q, c, 14), solve_nqp(Q, c))
        np.testing.assert_array_equal(solve_nqp(Q, c, 99), solve_nqp(Q, c))

    def test_it_goes_on_where_a_pursuit_with_a_limit_ends(self):
        Q, c = np.eye(4), np.array([-1.0, -2e-7, -1e-7, 1.0])
        np.testing.assert_array_equal(solve_nqp(Q, c), [1.0, 2e-7, 1e-7, 0.0])
        np.testing.assert_array_equal(solve_nqp(Q, c, 4), [1.0, 2e-7, 1e-7, 0.0])
        np.testing.assert_array_equal(solve_nqp(Q, c, 3), [1.0, 2e-7, 0.0, 0.0])
        assert nqp_violation(Q, c, solve_nqp(Q, c, 3), 3) == pytest.approx(1e-7)


class TestAgainstThePlainLoop:
    @pytest.mark.parametrize("limit", [1, 2, 4, 8, 20])
    def test_supports_and_values_are_equal(self, limit):
        rng = np.random.default_rng(limit)
        for kind in ["correlated", "low rank", "smooth", "coding"] * 3:
            if kind == "coding":
                Q, c = coding(rng, d=25, width=rng.choice([1.0, 5.0, 20.0]))
            else:
                A, B = least_squares(rng, kind)
                Q, c = A.T @ A, -B @ A
            if limit >= len(Q):
                continue
            x = solve_nqp(Q, c, limit)
            for one, row in zip(c, x):
                expected, _ = pursue_plainly(Q, one, limit)
                np.testing.assert_array_equal(row > 0, expected > 0)
                assert value(Q, one, row) <= value(Q, one, expected) + 1e-10 * abs(value(Q, one, expected))

    def test_entries_that_cross_zero_leave_and_come_back(self):
        rng, happened = np.random.default_rng(3), Counter()
        for limit in (5, 9, 40):
            for _ in range(25):
                A, B = rng.normal(size=(14, 24)), rng.normal(size=(4, 14))
                Q, c = A.T @ A, -B @ A
                x = solve_nqp(Q, c, limit)
                for one, row in zip(c, x):
                    expected, events = pursue_plainly(Q, one, limit)
                    happened += events
                    np.testing.assert_allclose(row, expected, atol=1e-9)
                assert limit < 24 or np.all(nqp_violation(Q, c, x) <= 1e-10)
        assert happened["crossed"] > 50 and happened["readmitted"] > 10

    def test_a_second_crossing_starts_where_the_first_ended(self):
        A = [
            [0.53, 2.46, 1.48, -2.34, -0.73, 1.29],
            [0.40, 1.42, -0.81, 1.06, 2.22, -3.01],
            [0.98, 7.61, -6.38, 1.69, -3.72, -2.53],
            [-0.52, -1.52, -4.95, 3.36, -4.32, 0.79],
            [-0.30, -3.63, 1.70, 0.61, 2.59, -0.59],
            [0.37, 0.98, -0.98, 0.78, 0.73, -1.64],
        ]
        Q, c = np.transpose(A) @ A, -np.array([1.36, 0.24, 0.97, -0.23, 0.34, 0.73]) @ A
        expected, events = pursue_plainly(Q, c, 4)
        assert events["crossed"] == 2 and np.flatnonzero(expected).tolist() == [0, 2, 3, 5]
        np.testing.assert_allclose(solve_nqp(Q, c, 4), expected, atol=1e-9)

    @pytest.mark.parametrize("limit", [None, 3])
    def test_a_discarded_entry_makes_way_for_the_next(self, limit):
        A = np.array([[1.0, 0.0, 0.5, 0.0], [0.0, 1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]])
        x = solve_nqp(A.T @ A, np.array([-2.0, -1.0, -1.6, -0.05]), limit)  # the third is half the first two
        np.testing.assert_allclose(x, [2.0, 1.0, 0.0, 0.05])

    def test_entries_that_depend_on_the_support_are_discarded(self):
        rng, happened = np.random.default_rng(0), Counter()
        for _ in range(20):
            A, B = rng.normal(size=(4, 12)) + 1, rng.normal(size=(5, 4)) + 1
            Q = A.T @ A
            c = -B @ A + 0.5 * rng.random((5, 12))  # not in the range of Q
            x = solve_nqp(Q, c, 11)
            assert np.all(nqp_violation(Q, c, x, 11) <= 1e-8)
            for one, row in zip(c, x):
                expected, events = pursue_plainly(Q, one, 11)
                happened += events
                np.testing.assert_allclose(row, expected, atol=1e-8)
        assert happened["discarded"] > 20


class TestWithALimit:
    def test_one_entry_is_the_one_of_least_c(self, rng):
        Q, c = coding(rng)
        c = c + rng.normal(size=c.shape)
        x, j = solve_nqp(Q, c, 1), np.argmin(c, axis=1)
        assert np.all(c.min(axis=1) < 0)
        expected = np.zeros_like(c)
        expected[np.arange(len(c)), j] = -c.min(axis=1) / Q[j, j]
        np.testing.assert_allclose(x, expected, rtol=1e-14)

    @pytest.mark.parametrize("limit", [1, 3, 7])
    def test_supports_stay_within_it_and_are_solved_for(self, rng, limit):
        for kind in ["correlated", "low rank", "smooth"] * 5:
            A, B = least_squares(rng, kind)
            Q, c = A.T @ A, -B @ A
            x = solve_nqp(Q, c, limit)
            assert np.all(np.count_nonzero(x, axis=1) <= limit) and np.all(x >= 0)
            assert np.all(np.abs(np.where(x > 0, x @ Q + c, 0.0)) <= 1e-9 * np.abs(c).max(axis=1, keepdims=True))

    def test_values_are_near_those_of_the_best_subsets(self, rng):
        shares = []
        for _ in range(30):
            A = rng.normal(size=(12, 8))
            Q, c, best = A.T @ A, -A.T @ (A[:, 0] + A[:, 3] + 2 * rng.normal(size=12)), 0.0
            for subset in itertools.chain(*(itertools.combinations(range(8), k) for k in (1, 2, 3))):
                z = -np.linalg.solve(Q[np.ix_(subset, subset)], c[list(subset)])
                if np.all(z >= 0):  # else a smaller subset is as good
                    best = min(best, 0.5 * z @ c[list(subset)])
            shares.append(value(Q, c, solve_nqp(Q, c, 3)) / best)
        assert max(shares) <= 1 + 1e-12 and min(shares) > 0.6 and np.mean(shares) > 0.95

    def test_more_entries_are_no_worse(self, rng):
        Q, c = coding(rng)
        values = [value(Q, c, solve_nqp(Q, c, limit)) for limit in (1, 2, 4, 8, None)]
        assert np.all(np.diff(values, axis=0) <= 1e-12) and np.mean(values[-1] - values[0]) < -0.01


class TestSymmetries:
    @pytest.mark.parametrize("limit", [None, 4])
    def test_permuting_entries_permutes_the_solution(self, rng, limit):
        Q, c = coding(rng)
        order = rng.permutation(14)
        moved = solve_nqp(Q[np.ix_(order, order)], c[:, order], limit)
        np.testing.assert_allclose(moved, solve_nqp(Q, c, limit)[:, order], atol=1e-10)

    @pytest.mark.parametrize("limit", [None, 4])
    @pytest.mark.parametrize("factor", [1e-14, 1e14])
    def test_scaling_leaves_the_solution(self, rng, limit, factor):
        Q, c = coding(rng)
        np.testing.assert_allclose(solve_nqp(factor * Q, factor * c, limit), solve_nqp(Q, c, limit), atol=1e-10)
        A = rng.normal(size=(4, 12)) + 1
        Q, c = A.T @ A, -1 - rng.random((5, 12))  # with entries to discard
        np.testing.assert_allclose(solve_nqp(factor * Q, factor * c, limit), solve_nqp(Q, c, limit), atol=1e-8)

    @pytest.mark.parametrize("limit", [None, 4])
    def test_copies_of_entries_are_harmless(self, rng, limit):
        Q, c = coding(rng)
        twice = np.r_[np.arange(14), 3, 3, 8, 0]
        x = solve_nqp(Q[np.ix_(twice, twice)], c[:, twice], limit)
        assert np.all(np.isfinite(x))
        np.testing.assert_allclose(
            value(Q[np.ix_(twice, twice)], c[:, twice], x), value(Q, c, solve_nqp(Q, c, limit)), rtol=1e-10
        )

    def test_of_equal_gradients_the_first_counts(self):
        assert np.flatnonzero(solve_nqp(np.eye(5), -np.array([0.0, 1, 2, 2, 1]), 1)).tolist() == [2]
        assert np.flatnonzero(solve_nqp(np.eye(5), -np.array([0.0, 1, 2, 2, 1]), 3)).tolist() == [1, 2, 3]


class TestBatches:
    SETTINGS = {
        "as it is": {},
        "one by one": {"BLOCK": 1},
        "small blocks": {"BLOCK": 200},
        "dense products": {"DENSE": 10**6},
        "sparse products": {"DENSE": 0},
        "narrow at first": {"WIDTH": 1},
        "finished at once": {"FINISHED": 10**9},
        "finished together": {"FINISHED": 1},
        "without LAPACK": {"LAPACK": 10**6, "BLOCK": 1},
        "with LAPACK": {"LAPACK": 0, "BLOCK": 1},
    }

    @pytest.mark.parametrize("limit", [None, 15])
    @pytest.mark.parametrize("name", SETTINGS)
    def test_a_batch_is_its_problems_one_by_one(self, rng, monkeypatch, name, limit):
        A, B = rng.normal(size=(32, 30)), rng.normal(size=(40, 32))  # supports of many sizes, with crossings
        Q, c = A.T @ A, -B @ A
        c[7], c[11] = 1.0, 0.0
        expected = np.array([solve_nqp(Q, one, limit) for one in c])
        assert len(np.unique(np.count_nonzero(expected, axis=1))) > 2
        for key, setting in self.SETTINGS[name].items():
            monkeypatch.setattr(module, key, setting)
        np.testing.assert_allclose(solve_nqp(Q, c, limit), expected, rtol=0, atol=1e-12)

    def test_the_memory_order_and_type_of_the_input_do_not_matter(self, rng):
        Q, c = coding(rng)
        expected = solve_nqp(Q, c, 4)
        np.testing.assert_array_equal(solve_nqp(np.asfortranarray(Q), np.asfortranarray(c), 4), expected)
        np.testing.assert_array_equal(solve_nqp(np.repeat(Q, 2, axis=1)[:, ::2], c, 4), expected)
        np.testing.assert_allclose(solve_nqp(np.array([[2, 0], [0, 4]]), np.array([-2, -2])), [1.0, 0.5], rtol=1e-15)

    def test_the_input_is_left_alone(self, rng):
        Q, c = coding(rng)
        before = Q.copy(), c.copy()
        solve_nqp(Q, c, 4), solve_nqp(Q, c[0])
        assert np.array_equal(Q, before[0]) and np.array_equal(c, before[1])

    def test_memory_grows_with_supports_and_not_with_entries(self, rng):
        Q, c = np.eye(400) + 0.1, np.ones((150, 400))
        c[:, :20] = -1.0
        tracemalloc.start()
        x = solve_nqp(Q, c)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert np.all(np.count_nonzero(x, axis=1) == 20) and peak < 40 * c.nbytes


class TestEdges:
    @pytest.mark.parametrize("limit", [None, 1, 3])
    def test_nothing_is_positive_where_nothing_pays(self, rng, limit):
        Q, c = coding(rng)
        for none in (np.abs(c), np.zeros_like(c)):
            assert not solve_nqp(Q, none, limit).any() and not nqp_violation(Q, none, 0 * c, limit).any()

    def test_entries_without_a_diagonal_never_join(self, rng):
        A, B, rest = rng.normal(size=(14, 24)), rng.normal(size=(20, 14)), np.delete(np.arange(24), 2)
        A[:, 2] = 0.0
        Q, c = A.T @ A, -B @ A
        c[:, 2] = -9.0
        x = solve_nqp(Q, c)
        assert not x[:, 2].any() and np.all(nqp_violation(Q, c, x) <= 1e-10)
        np.testing.assert_allclose(x[:, rest], solve_nqp(Q[np.ix_(rest, rest)], c[:, rest]), atol=1e-9)
        assert not solve_nqp(np.zeros((24, 24)), c).any()

    def test_shapes_follow_c(self):
        assert solve_nqp(np.eye(3), np.zeros((0, 3))).shape == (0, 3)
        assert nqp_violation(np.eye(3), np.zeros((0, 3)), np.zeros((0, 3))).shape == (0,)
        assert solve_nqp(np.zeros((0, 0)), np.zeros((2, 0))).shape == (2, 0)
        assert nqp_violation(np.zeros((0, 0)), np.zeros((2, 0)), np.zeros((2, 0))).tolist() == [0.0, 0.0]
        assert solve_nqp(np.array([[4.0]]), np.array([-2.0])).tolist() == [0.5]
        assert solve_nqp(np.array([[4.0]]), np.array([[-2.0], [1.0]])).tolist() == [[0.5], [0.0]]
        assert nqp_violation(np.eye(2), np.ones(2), np.zeros(2)).shape == ()

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 10**9), st.integers(1, 9), st.integers(1, 6), st.sampled_from([None, 1, 2, 5]))
    def test_solutions_are_always_finite_and_feasible(self, seed, d, rank, limit):
        rng = np.random.default_rng(seed)
        A = rng.integers(-2, 3, size=(rank, d)) * 10.0 ** rng.integers(-6, 7, size=d)
        Q, c = A.T @ A, rng.integers(-2, 3, size=(4, d)) * 10.0 ** rng.integers(-6, 7, size=d)
        x = solve_nqp(Q, c, limit)
        assert np.all(np.isfinite(x)) and np.all(x >= 0)
        assert limit is None or np.all(np.count_nonzero(x, axis=1) <= limit)
        assert np.all(value(Q, c, x) <= 0.0) and not np.any(np.isnan(nqp_violation(Q, c, x, limit)))

    def test_a_pursuit_cut_short_is_told_by_its_violation(self, rng, monkeypatch):
        Q, c = np.eye(20), -1.0 - rng.random((6, 20))
        c[1, 1:] = 1.0
        monkeypatch.setattr(module, "PASSES", 0.25)
        x = solve_nqp(Q, c)
        assert np.count_nonzero(x, axis=1).tolist() == [5, 1, 5, 5, 5, 5]
        assert np.flatnonzero(nqp_violation(Q, c, x) < 0.4).tolist() == [1]

    def test_passes_that_exchange_entries_in_vain_end(self, monkeypatch):
        rng = np.random.default_rng(1)
        A, B = rng.normal(size=(14, 24)), rng.normal(size=(30, 14))
        Q, c = A.T @ A, -B @ A
        monkeypatch.setattr(module, "ROUNDING", 1.0)
        monkeypatch.setattr(module, "PATIENCE", 1)
        violation = nqp_violation(Q, c, solve_nqp(Q, c))
        assert np.any(violation > 1e-3) and np.any(violation < 1e-12)

    def test_bad_input_is_refused(self):
        with pytest.raises(ValueError, match=r"shapes \(2, 3\) and \(3,\)"):
            solve_nqp(np.ones((2, 3)), np.ones(3))
        with pytest.raises(ValueError, match=r"shapes \(2, 2\) and \(3,\)"):
            solve_nqp(np.eye(2), np.ones(3))
        with pytest.raises(ValueError, match="limit=0"):
            solve_nqp(np.eye(2), np.ones(2), 0)
        with pytest.raises(ValueError, match="missing"):
            solve_nqp(np.eye(2), np.array([1.0, np.nan]))
        with pytest.raises(ValueError, match="Q holds infinite or missing"):
            solve_nqp(np.array([[1.0, np.nan], [np.nan, 1.0]]), -np.ones(2))
        with pytest.raises(ValueError, match=r"x has shape \(3,\)"):
            nqp_violation(np.eye(2), np.ones(2), np.ones(3))


class TestViolation:
    Q = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    c = np.array([-4.0, -1.0, -1.0])

    def test_is_zero_at_the_solution_only(self):
        x = np.array([2.0, 0.0, 1.0])
        np.testing.assert_allclose(solve_nqp(self.Q, self.c), x)
        assert nqp_violation(self.Q, self.c, x) == 0
        assert nqp_violation(self.Q, self.c, x + [0.1, 0, 0]) == pytest.approx(0.2 / 4)  # too large
        assert nqp_violation(self.Q, self.c, x - [0.1, 0, 0]) == pytest.approx(0.2 / 4)  # too small
        assert nqp_violation(self.Q, self.c, x * [1, 1, 0]) == pytest.approx(1 / 4)  # missing
        assert nqp_violation(self.Q, self.c, x - [0, 0.3, 0]) == pytest.approx(0.3 * 2 / 4)  # negative

    def test_a_full_support_excuses_what_is_missing(self):
        x = np.array([2.0, 0.0, 0.0])
        assert nqp_violation(self.Q, self.c, x, 1) == 0 and nqp_violation(self.Q, self.c, x, 2) == pytest.approx(1 / 4)
        assert nqp_violation(self.Q, self.c, np.array([2.0, 0.0, 1.0]), 1) == np.inf

    def test_entries_that_depend_on_the_support_do_not_count(self):
        Q = np.array([[1.0, 1.0], [1.0, 1.0]])
        assert nqp_violation(Q, np.array([-1.0, -2.0]), np.array([1.0, 0.0])) == 0
        assert nqp_violation(Q + np.diag([0, 1e-6]), np.array([-1.0, -2.0]), np.array([1.0, 0.0])) == pytest.approx(0.5)

    def test_supports_that_depend_on_themselves_are_no_obstacle(self):
        Q = np.ones((3, 3)) + np.diag([0.0, 0.0, 1.0])
        assert nqp_violation(Q, np.array([-1.0, -1.0, -1.5]), np.array([0.5, 0.5, 0.0])) == pytest.approx(0.5 / 1.5)

    def test_is_relative(self, rng):
        Q, c = coding(rng)
        x = rng.random(c.shape)
        scales = 10.0 ** rng.integers(-5, 6, size=(len(c), 1))
        np.testing.assert_allclose(nqp_violation(Q, scales * c, scales * x), nqp_violation(Q, c, x))
        np.testing.assert_allclose(nqp_violation(Q, 0 * c, x), 1.0)

    def test_rows_are_judged_each_for_itself(self, rng):
        Q, c = coding(rng)
        x = solve_nqp(Q, c, 2)
        each = [float(nqp_violation(Q, one, row)) for one, row in zip(c, x)]
        np.testing.assert_allclose(nqp_violation(Q, c, x), each, atol=1e-14)
        assert max(each) > 0.01
