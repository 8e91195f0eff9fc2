"""The parts of the blend against brute force."""

import numpy as np
import pytest
from scipy.linalg import solve
from sklearn.linear_model import LogisticRegression

from tamis.flagship import blend as method
from tamis.kernels.base import Categorical, Gaussian
from tamis.kernels.composed import Mixture, Tensor, terms
from tamis.kernels.recipes import Sample, keep_columns, rank_columns, telling_columns
from tamis.optim.losses import Block, Logistic, Problem, _hessians, fit_logistic, fit_logistic_path, minimise

from zoo import line_bump_product

WIDTHS = (3.0, 1.0, 1.0 / 3.0)


def channels(n=40, k=6, seed=0):
    """Three shapes at instances and rows: values (3, k, n) and corners (3, k, k)."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    kernels = [Mixture(WIDTHS)] * 3
    values = np.array([kernel(Z[:k, [c]], Z[:, [c]]) for c, kernel in enumerate(kernels)])
    y = np.where(Z[:, 0] * Z[:, 1] + 0.2 * Z[:, 2] + 0.1 * rng.normal(size=n) > 0, 1.0, -1.0)
    return values, values[:, :, :k], y[:, None], rng.uniform(0.5, 2.0, n), Z


class TestKernels:
    @pytest.mark.parametrize("widths", [WIDTHS, (2.0, 0.7), (1.0,), (0.5**0.5, 2.0**0.5)])
    def test_a_mixture_is_the_mean_of_its_gaussians(self, rng, widths):
        S, T = rng.normal(size=(5, 3)), rng.normal(size=(7, 3))
        S[1, 0] = S[2] = np.nan
        wanted = np.mean([Gaussian(w, (0.0, 0.0, 1.5))(S, T) for w in widths], axis=0)
        np.testing.assert_allclose(Mixture(widths, (0.0, 0.0, 1.5))(S, T), wanted, rtol=1e-13, atol=1e-300)
        each = Mixture(widths).each(S, T)
        np.testing.assert_allclose(each, [Mixture(widths)(S[:, [c]], T[:, [c]]) for c in range(3)], rtol=1e-13)

    def test_a_tensor_is_the_product_and_absent_without_one_of_its_columns(self, rng):
        S = np.column_stack([rng.normal(size=6), rng.integers(3, size=6)])
        S[0, 0], S[1, 1] = np.nan, np.nan
        kernel = Tensor((Mixture(WIDTHS), Categorical()))
        np.testing.assert_array_equal(
            kernel(S, S), Mixture(WIDTHS)(S[:, :1], S[:, :1]) * Categorical()(S[:, 1:], S[:, 1:])
        )
        assert kernel.presence(S).tolist() == [False, False, True, True, True, True]
        assert not kernel(S, S)[:2].any() and kernel.positive and not kernel.unit
        assert Tensor((Gaussian(), Mixture(WIDTHS))).unit

    @pytest.mark.parametrize("widths", [(), (0.0,), (1.0, -1.0)])
    def test_widths_are_checked(self, widths):
        with pytest.raises(ValueError, match="bandwidth"):
            Mixture(widths)

    def test_values_of_pairs_are_those_of_their_kernels(self, rng):
        Z = np.column_stack([rng.normal(size=(9, 3)), rng.integers(3, size=9)])
        Z[2, 1] = np.nan
        names, nominal = list("abcd"), np.array([False, False, False, True])
        sample = Sample(Z, names, nominal, np.ones((9, 1)), np.ones(9), 4, 0)
        made = terms(sample, [0, 1, 3], [(0, 1), (1, 3)])
        wanted = [channel(Z[:4], Z) for channel in made.bank.channels]
        np.testing.assert_allclose(made.values(Z, Z[:4]), wanted, rtol=1e-13, atol=1e-300)
        some = np.array([7, 1, 6, 0])
        np.testing.assert_allclose(made.values(Z, Z[:4], some), [wanted[c] for c in some], rtol=1e-13, atol=1e-300)
        assert made.bank.names == ["a", "b", "d", "similar cases", "a (line)", "b (line)", "a * b", "b * d"]
        assert made.kinds["line"].tolist() == [4, 5, 2] and terms(sample, []).values(Z, Z[:4]).shape == (0, 4, 9)


class TestColumns:
    def test_constant_columns_and_copies_tell_nothing(self, rng):
        Z = rng.normal(size=(9, 6))
        Z[:, 1], Z[:, 3], Z[:, 4] = 2.0, Z[:, 0], np.nan
        Z[2, 5] = np.nan
        assert telling_columns(Z).tolist() == [0, 2, 5]
        assert telling_columns(np.column_stack([Z[:, 5], Z[:, 5]])).tolist() == [0]
        gaps = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, np.nan]])
        assert telling_columns(gaps).tolist() == [0, 1]

    def test_as_many_are_kept_as_may_be(self):
        X, y = line_bump_product(60, 30)
        found = keep_columns(X, np.zeros(30), np.where(y > 0, 1.0, -1.0)[:, None], np.ones(60), 29)
        assert len(found) == 29

    def test_the_similarity_of_cases_is_that_of_mean_squared_distances(self, rng):
        Z = np.column_stack([rng.normal(size=(7, 3)), rng.integers(2, size=7)])
        sample = Sample(Z, list("abcd"), np.array([False] * 3 + [True]), np.ones((7, 1)), np.ones(7), 4, 0)
        D = ((Z[:, None, :3] - Z[None, :, :3]) ** 2).sum(axis=2)
        D += sample.mismatch[3] * (Z[:, None, 3] != Z[None, :, 3])
        wanted = 0.5 * np.exp(-D / 16) + 0.5 * np.exp(-D / 4)
        np.testing.assert_allclose(terms(sample, [0, 1, 2, 3]).bank.channels[4](Z, Z), wanted, rtol=1e-12)

    def test_lines_bend_little(self):
        sample = Sample(np.zeros((2, 1)), ["a"], np.array([False]), np.ones((2, 1)), np.ones(2), 1, 0)
        line = terms(sample, [0]).bank.channels[2]
        x = np.linspace(-2, 2, 41)[:, None]
        f = (line(np.array([[1.0]]), x) - line(np.array([[-1.0]]), x))[0]
        assert np.abs(f - np.polyval(np.polyfit(x[:, 0], f, 1), x[:, 0])).max() < 0.03 * np.ptp(f)

    def test_those_kept_are_those_ranked_first(self, rng):
        X, y = line_bump_product(60, 9)
        args = X, np.zeros(9), np.where(y > 0, 1.0, -1.0)[:, None], rng.uniform(0.5, 1.5, 60)
        assert set(keep_columns(*args, 4)) == set(rank_columns(*args, 4))
        assert keep_columns(np.ones((5, 2)), np.zeros(2), np.ones((5, 1)), np.ones(5), 2).tolist() == []


class TestInstances:
    def test_are_those_of_plain_deflation(self):
        _, _, y, weight, Z = channels()
        values = np.array([Mixture(WIDTHS)(Z[:, [c]], Z[:, [c]]) for c in range(3)])
        shares = np.array([0.5, 0.3, 0.2])
        chosen = method.choose_instances(values, y, weight, shares, 7)
        mass = weight / weight.sum()
        H = np.eye(40) - np.outer(np.ones(40), mass)
        centred = [H @ K @ H.T for K in values]
        scaled = [s / (np.diag(C) @ mass) * C for s, C in zip(shares, centred, strict=True)]
        dual = solve(sum(scaled) + np.diag(1.0 / weight), y - mass @ y)
        f = [np.sqrt(weight) * (C @ dual)[:, 0] for C in scaled]
        Q = [np.sqrt(weight)[:, None] * K for K in values]
        floors, whole, wanted, left = [1e-3 * (q**2).sum(0).max() for q in Q], sum(v @ v for v in f), [], []
        for _ in range(7):
            left.append(sum(v @ v for v in f) / whole)
            gain = sum((q.T @ v) ** 2 / ((q**2).sum(0) + c) for q, v, c in zip(Q, f, floors, strict=True))
            gain[wanted] = -1
            wanted.append(int(np.argmax(gain)))
            for c in range(3):
                unit = Q[c][:, wanted[-1]] / np.linalg.norm(Q[c][:, wanted[-1]])
                Q[c], f[c] = Q[c] - np.outer(unit, unit @ Q[c]), f[c] - unit * (unit @ f[c])
        assert chosen.state.tolist() == wanted
        np.testing.assert_allclose(chosen.history.objective[:7], left, rtol=1e-6)

    def test_come_once_each_and_end_where_nothing_is_left(self):
        Z = np.repeat(np.arange(3.0), 4)[:, None]
        K = Gaussian(0.3)(Z, Z)[None]  # three distinct columns
        y = np.where(np.arange(12)[:, None] % 4 == 0, 1.0, -1.0)
        found = method.choose_instances(K, y, np.ones(12), np.ones(1), 12)
        assert len(set(found.state)) == len(found.state) and found.status.converged
        part = method.choose_instances(
            np.eye(50)[None], np.sign(np.arange(50)[:, None] - 24.5), np.ones(50), np.ones(1), 50
        )
        assert len(part.state) == 50  # the last per cent of the functions counts too

    def test_channels_that_are_zero_in_the_pool_do_no_harm(self):
        _, _, y, weight, Z = channels()
        K = Mixture(WIDTHS)(Z[:, :1], Z[:, :1])
        alone = method.choose_instances(K[None], y, weight, np.ones(1), 5)
        beside = method.choose_instances(np.array([K, np.zeros_like(K)]), y, weight, np.array([1.0, 0.0]), 5)
        assert beside.state.tolist() == alone.state.tolist()

    def test_stop_when_nothing_is_left_to_explain(self):
        K = np.eye(4)[None]
        solution = method.choose_instances(K, np.array([[1.0], [1.0], [-1.0], [-1.0]]), np.ones(4), np.ones(1), 9)
        assert sorted(solution.state) == [0, 1, 2, 3] and solution.status.converged


class TestPairs:
    def test_the_planted_pair_comes_first(self):
        values, corners, y, weight, _ = channels(n=200, k=12)
        found = method.screen_pairs(values, corners, y, weight, 2)
        assert found.tolist()[0] == [0, 1] and found.shape == (2, 2)
        assert method.screen_pairs(values, corners, y, weight, 0).shape == (0, 2)
        assert method.screen_pairs(values[:1], corners[:1], y, weight, 5).shape == (0, 2)

    def test_are_judged_by_what_weighted_shapes_leave_over(self):
        values, corners, y, _, _ = channels(n=50, k=6)
        weight = np.exp(np.random.default_rng(1).normal(size=50) * 2)
        mass = weight / weight.sum()
        blocks = []
        for V, C in zip(values, corners, strict=True):
            sizes, vectors = np.linalg.eigh(C)
            keep = sizes > 1e-4 * sizes[-1]
            X = (V - (V @ mass)[:, None]).T @ (vectors[:, keep] / np.sqrt(sizes[keep]))
            blocks.append(X * np.sqrt(1 / 3 / (mass @ (X**2).sum(axis=1))))
        X, yc = np.hstack(blocks), y - mass @ y
        rest = yc - X @ np.linalg.solve(X.T @ (weight[:, None] * X) + np.eye(X.shape[1]), X.T @ (weight[:, None] * yc))
        gains = [method._gains((values[i] * values[j])[None], rest, weight)[0] for i, j in ((0, 1), (0, 2), (1, 2))]
        wanted = np.array([(0, 1), (0, 2), (1, 2)])[np.argsort(gains)[::-1]]
        assert method.screen_pairs(values, corners, y, weight, 3).tolist() == wanted.tolist()

    def test_gains_are_what_a_ridge_regression_explains(self, rng):
        columns, rest, weight = rng.normal(size=(2, 4, 30)), rng.normal(size=(30, 2)), rng.uniform(0.5, 2, 30)
        for gain, block in zip(method._gains(columns, rest, weight), columns, strict=True):
            D = (block - np.average(block, axis=1, weights=weight)[:, None]).T
            G = D.T @ (weight[:, None] * D)
            c = D.T @ (weight[:, None] * rest)
            assert gain == pytest.approx(np.trace(c.T @ np.linalg.inv(G + 0.02 * np.trace(G) * np.eye(4)) @ c))


class TestMembers:
    def test_coordinates_have_the_share_and_the_norm_of_their_channel(self):
        values, corners, _, weight, _ = channels()
        space = method.Coordinates.of(values, corners, weight, np.array([0.7, 0.0, 0.3]))
        X = space.design(values[space.channels])
        np.testing.assert_allclose(weight @ X, 0.0, atol=1e-12)
        r = space.maps[0].shape[1]
        sizes = [np.average((part**2).sum(axis=1), weights=weight) for part in (X[:, :r], X[:, r:])]
        np.testing.assert_allclose(sizes, [0.7, 0.3])
        coef, intercept = space.table(np.ones((1, X.shape[1])), np.array([2.0]))
        f = np.einsum("kl,lkn->n", coef[0], values) + intercept[0]
        np.testing.assert_allclose(f, X.sum(axis=1) + 2.0, atol=1e-12)
        part = coef[0, :, 0]  # one unit of each coordinate costs the norm of the function in the channel's space
        scale = np.trace(space.maps[0].T @ corners[0] @ space.maps[0]) / r
        np.testing.assert_allclose(part @ corners[0] @ part, scale * r, rtol=1e-6)

    def test_every_member_is_a_ridge_logistic_regression(self):
        values, corners, y, weight, _ = channels()
        shares = np.array([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
        for share, member in zip(
            shares, method.fit_members(method.Labels(), values, corners, shares, y, weight), strict=True
        ):
            X = member.space.design(values[share > 0])
            for r, ridge in enumerate(method.RIDGES):
                D = np.column_stack([X, np.ones(len(X))])
                x = fit_logistic(D, y[:, 0], weight, np.r_[np.full(X.shape[1], ridge), 0.0])
                coef, intercept = member.tables
                f = np.einsum("kl,lkn->n", coef[r, 0], values) + intercept[r, 0]
                np.testing.assert_allclose(f, D @ x, rtol=3e-3, atol=3e-3)
                assert not coef[r, 0][:, share == 0].any()

    def test_decisions_are_sums_over_instances_and_channels(self, rng):
        coef, free, values = rng.normal(size=(3, 2, 4, 5)), rng.normal(size=(3, 2)), rng.normal(size=(5, 4, 6))
        wanted = np.einsum("cqkl,lkn->cnq", coef, values) + free[:, None]
        np.testing.assert_allclose(method.decisions(values, coef, free), wanted, atol=1e-12)

    def test_kinds_without_channels_leave_their_share_to_the_others(self):
        kinds = {
            "shape": np.arange(2),
            "cases": np.array([2]),
            "line": np.array([3, 1]),
            "pair": np.empty(0, dtype=int),
        }
        lines, cases, every = method.shares_of(kinds, 4)
        np.testing.assert_allclose(lines, [0, 0.5, 0, 0.5])
        np.testing.assert_allclose(cases, [0, 0, 1, 0])
        np.testing.assert_allclose(every, np.array([0.2, 0.2, 0.3, 0]) / 0.7)

    def test_the_surprise_of_several_outputs_adds_up(self, rng):
        held, y = rng.normal(size=(2, 30, 3)), np.sign(rng.normal(size=(30, 3)))
        wanted = np.log1p(np.exp(-y * held)).sum(axis=2).mean(axis=1)
        np.testing.assert_allclose(method.Labels().surprise(held, y, np.ones(30)), wanted)

    def test_weights_fall_with_the_held_out_loss(self, rng):
        held, y, weight = rng.normal(size=(9, 20, 1)), np.sign(rng.normal(size=(20, 1))), rng.uniform(0.5, 2, 20)
        loss = np.average(np.log1p(np.exp(-y * held))[..., 0], axis=1, weights=weight)
        wanted = np.exp(-0.2 * 20 * loss)
        wanted /= wanted.sum()
        assert wanted.min() > 0.01
        surprise = method.Labels().surprise(held, y, weight)
        np.testing.assert_allclose(surprise, loss)
        np.testing.assert_allclose(method.blend_weights(surprise, 20).ravel(), wanted)
        faint = method.blend_weights(surprise, 2000)
        assert faint.sum() == pytest.approx(1.0) and np.count_nonzero(faint) < 9


def rows_of(rng, n, ranks, weight=None, outputs=1, ridge=1.0):
    """A problem over rows whose design is an affine map of three values in each of two channels; the design, labels."""
    maps = tuple(rng.normal(size=(3, r)) for r in ranks)
    space = method.Coordinates(np.arange(2), maps, rng.normal(size=(2, 3)), 2)
    V, w = rng.normal(size=(6, n)), np.ones(n) if weight is None else weight
    X = space.design(V)
    Y = np.sign(X[:, :outputs] + rng.normal(size=(n, outputs)))
    return Problem(Logistic(), lambda s: Block(V[:, s], Y[s], w[s]), space, n, float(w.sum()), ridge), X, Y


class TestRows:
    @pytest.mark.parametrize("size", [2048, 50])
    def test_the_minimum_over_all_rows_is_that_of_one_regression(self, rng, monkeypatch, size):
        monkeypatch.setattr("tamis.optim.losses.BLOCK", size)
        monkeypatch.setattr("tamis.optim.losses.TOL", 1e-9)
        w = rng.uniform(0.5, 2.0, 400)
        problem, X, Y = rows_of(rng, 400, (2, 3), w, outputs=2, ridge=3.0)
        solution = minimise(problem, np.zeros((2, 6)))
        for x, y in zip(solution.state, Y.T, strict=True):
            wanted = fit_logistic(np.column_stack([X, np.ones(400)]), y, w, np.r_[np.full(5, 3.0), 0.0])
            np.testing.assert_allclose(x, wanted, atol=1e-4)
        assert solution.status.converged and np.all(np.diff(solution.history.objective) < 0)

    def test_sums_over_values_are_sums_over_the_design(self, rng):
        problem, X, _ = rows_of(rng, 50, (1, 3))
        values, slopes = problem.read(slice(0, 50)).values, rng.normal(size=(50, 2))
        found = problem.space.gradient(slopes.T @ values.T, slopes.sum(axis=0))
        np.testing.assert_allclose(found, slopes.T @ X, atol=1e-10)
        coef, free = problem.space.coefficients(np.ones((1, 4)), np.array([2.0]))
        np.testing.assert_allclose(coef @ values + free, X.sum(axis=1)[None] + 2.0, atol=1e-10)

    def test_hessians_are_weighted_and_scaled_to_all_rows(self, rng, monkeypatch):
        monkeypatch.setattr("tamis.optim.losses.BLOCK", 50)
        w, x = rng.uniform(0.1, 5.0, 330), np.array([[0.5, -0.2, 0.1, 0.3]])
        problem, X, _ = rows_of(rng, 330, (1, 2), w, ridge=2.0)
        D = np.column_stack([X, np.ones(330)])
        p = 1 / (1 + np.exp(-D @ x[0]))
        curved = w * p * (1 - p)
        wanted = (D.T * curved) @ D + np.diag([2.0, 2.0, 2.0, 0.0])
        np.testing.assert_allclose(_hessians(problem, x)[0], wanted, rtol=1e-6)
        monkeypatch.setattr("tamis.optim.losses.HESSIAN_ROWS", 110)  # every third block
        some = np.isin(np.arange(330) // 50, (0, 3, 6))
        part = (D[some].T * curved[some]) @ D[some] * w.sum() / w[some].sum() + np.diag([2.0, 2.0, 2.0, 0.0])
        np.testing.assert_allclose(_hessians(problem, x)[0], part, rtol=1e-6)

    def test_a_step_too_far_is_shortened(self):
        X, y = np.linspace(-3, 3, 40)[:, None], np.sign(np.arange(40)[:, None] - 19.5)
        space = method.Coordinates(np.arange(1), (np.ones((1, 1)),), np.zeros((1, 1)), 1)
        problem = Problem(Logistic(), lambda s: Block(X[s].T, y[s], np.ones(len(y[s]))), space, 40, 40.0, 1e-3)
        solution = minimise(problem, np.array([[3.0, 12.0]]))
        assert np.all(np.diff(solution.history.objective) < 0) and solution.objective < 1.0

    def test_the_hessian_of_some_blocks_stands_for_all(self, rng, monkeypatch):
        monkeypatch.setattr("tamis.optim.losses.BLOCK", 50)
        monkeypatch.setattr("tamis.optim.losses.HESSIAN_ROWS", 200)
        monkeypatch.setattr("tamis.optim.losses.TOL", 1e-9)
        problem, X, y = rows_of(rng, 800, (1, 2))
        solution = minimise(problem, np.zeros((1, 4)))
        wanted = fit_logistic(np.column_stack([X, np.ones(800)]), y[:, 0], np.ones(800), np.array([1.0, 1.0, 1.0, 0.0]))
        np.testing.assert_allclose(solution.state[0], wanted, atol=1e-4)

    def test_a_path_of_ridges_has_every_minimum(self, rng):
        X, y, w = rng.normal(size=(25, 40)), np.sign(rng.normal(size=(25, 2))), rng.uniform(0.5, 2, 25)
        X -= np.average(X, axis=0, weights=w)
        coef, free = fit_logistic_path(X, y, w, (0.1, 10.0), tol=1e-10)
        for r, ridge in enumerate((0.1, 10.0)):
            for j in range(2):
                sk = LogisticRegression(C=1 / ridge, tol=1e-10, max_iter=5000).fit(X, y[:, j], w)
                np.testing.assert_allclose(coef[r, j], sk.coef_[0], atol=1e-4)
                np.testing.assert_allclose(free[r, j], sk.intercept_[0], atol=1e-4)
