"""The blend: its parts against brute force, and TamisClassifier against what it promises."""

import numpy as np
import pytest
from scipy.linalg import solve
from sklearn.linear_model import LogisticRegression

from tamis import TamisClassifier
from tamis.estimators import blend as estimator
from tamis.estimators.rows import merge_rows
from tamis.kernels.base import Categorical, Gaussian, presence_of
from tamis.kernels.grouping import keep_columns, rank_columns, telling_columns
from tamis.kernels.mixture import Mixture, Tensor
from tamis.kernels.recipes import Sample
from tamis.kernels.terms import terms
from tamis.methods import blend as method
from tamis.optim.logistic import fit_logistic, fit_logistic_path
from tamis.optim.logistic_blocks import Block, Problem, _hessians, minimise

WIDTHS = (3.0, 1.0, 1.0 / 3.0)


def table(n=160, d=6, seed=0):
    """Two classes: a line, a bump and a product of two columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, max(d, 4)))
    score = X[:, 0] + np.cos(2 * X[:, 1]) + 1.5 * X[:, 2] * X[:, 3] + 0.3 * rng.normal(size=n)
    return X[:, :d], (score > 0.3).astype(int)


@pytest.fixture(scope="module")
def clf():
    X, y = table()
    return TamisClassifier(8, 5, interactions=3, cv=3).fit(X, y)


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
        assert presence_of(kernel, S).tolist() == [False, False, True, True, True, True]
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
        X, y = table(60, 30)
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
        X, y = table(60, 9)
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
        for share, member in zip(shares, method.fit_members(values, corners, shares, y, weight), strict=True):
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

    def test_weights_fall_with_the_held_out_loss(self, rng):
        held, y, weight = rng.normal(size=(9, 20, 1)), np.sign(rng.normal(size=(20, 1))), rng.uniform(0.5, 2, 20)
        loss = np.average(np.log1p(np.exp(-y * held))[..., 0], axis=1, weights=weight)
        wanted = np.exp(-0.2 * 20 * loss)
        wanted /= wanted.sum()
        assert wanted.min() > 0.01
        np.testing.assert_allclose(method.blend_weights(held, y, weight, 20).ravel(), wanted)
        faint = method.blend_weights(held, y, weight, 2000)
        assert faint.sum() == pytest.approx(1.0) and np.count_nonzero(faint) < 9


class TestRows:
    @pytest.mark.parametrize("size", [2048, 50])
    def test_the_minimum_over_all_rows_is_that_of_one_regression(self, rng, monkeypatch, size):
        monkeypatch.setattr("tamis.optim.logistic_blocks.BLOCK", size)
        monkeypatch.setattr("tamis.optim.logistic_blocks.TOL", 1e-9)
        X, w = rng.normal(size=(400, 5)), rng.uniform(0.5, 2.0, 400)
        Y = np.sign(X[:, :2] + rng.normal(size=(400, 2)))
        problem = Problem(lambda s: Block(X[s], Y[s], w[s]), 400, float(w.sum()), 3.0)
        solution = minimise(problem, np.zeros((2, 6)))
        for x, y in zip(solution.state, Y.T, strict=True):
            wanted = fit_logistic(np.column_stack([X, np.ones(400)]), y, w, np.r_[np.full(5, 3.0), 0.0])
            np.testing.assert_allclose(x, wanted, atol=1e-4)
        assert solution.status.converged and np.all(np.diff(solution.history.objective) < 0)

    def test_hessians_are_weighted_and_scaled_to_all_rows(self, rng, monkeypatch):
        monkeypatch.setattr("tamis.optim.logistic_blocks.BLOCK", 50)
        X, w = rng.normal(size=(330, 3)), rng.uniform(0.1, 5.0, 330)
        y, x = np.sign(X[:, :1] + rng.normal(size=(330, 1))), np.array([[0.5, -0.2, 0.1, 0.3]])
        problem = Problem(lambda s: Block(X[s], y[s], w[s]), 330, float(w.sum()), 2.0)
        D = np.column_stack([X, np.ones(330)])
        p = 1 / (1 + np.exp(-D @ x[0]))
        curved = w * p * (1 - p)
        wanted = (D.T * curved) @ D + np.diag([2.0, 2.0, 2.0, 0.0])
        np.testing.assert_allclose(_hessians(problem, x)[0], wanted, rtol=1e-6)
        monkeypatch.setattr("tamis.optim.logistic_blocks.HESSIAN_ROWS", 110)  # every third block
        some = np.isin(np.arange(330) // 50, (0, 3, 6))
        part = (D[some].T * curved[some]) @ D[some] * w.sum() / w[some].sum() + np.diag([2.0, 2.0, 2.0, 0.0])
        np.testing.assert_allclose(_hessians(problem, x)[0], part, rtol=1e-6)

    def test_a_step_too_far_is_shortened(self):
        X, y = np.linspace(-3, 3, 40)[:, None], np.sign(np.arange(40)[:, None] - 19.5)
        problem = Problem(lambda s: Block(X[s], y[s], np.ones(len(y[s]))), 40, 40.0, 1e-3)
        solution = minimise(problem, np.array([[3.0, 12.0]]))
        assert np.all(np.diff(solution.history.objective) < 0) and solution.objective < 1.0

    def test_the_hessian_of_some_blocks_stands_for_all(self, rng, monkeypatch):
        monkeypatch.setattr("tamis.optim.logistic_blocks.BLOCK", 50)
        monkeypatch.setattr("tamis.optim.logistic_blocks.HESSIAN_ROWS", 200)
        X = rng.normal(size=(800, 3))
        y = np.sign(X[:, :1] + rng.normal(size=(800, 1)))
        solution = minimise(Problem(lambda s: Block(X[s], y[s], np.ones(len(y[s]))), 800, 800.0, 1.0), np.zeros((1, 4)))
        wanted = fit_logistic(np.column_stack([X, np.ones(800)]), y[:, 0], np.ones(800), np.array([1.0, 1.0, 1.0, 0.0]))
        np.testing.assert_allclose(solution.state[0], wanted, atol=0.02)

    def test_a_path_of_ridges_has_every_minimum(self, rng):
        X, y, w = rng.normal(size=(25, 40)), np.sign(rng.normal(size=(25, 2))), rng.uniform(0.5, 2, 25)
        X -= np.average(X, axis=0, weights=w)
        coef, free = fit_logistic_path(X, y, w, (0.1, 10.0), tol=1e-10)
        for r, ridge in enumerate((0.1, 10.0)):
            for j in range(2):
                sk = LogisticRegression(C=1 / ridge, tol=1e-10, max_iter=5000).fit(X, y[:, j], w)
                np.testing.assert_allclose(coef[r, j], sk.coef_[0], atol=1e-4)
                np.testing.assert_allclose(free[r, j], sk.intercept_[0], atol=1e-4)


class TestTamisClassifier:
    def test_the_table_is_the_weighted_sum_of_the_members(self, clf):
        X, y = table()
        rows = merge_rows(clf._rows(X, y, None, None, reset=False))
        cells = clf._fitted(rows).decisions(rows)
        wanted = np.tensordot(clf.blend_.ravel(), cells, 1)[:, 0]
        shift = clf.decision_function(X[rows.position]) - wanted
        np.testing.assert_allclose(shift, shift[0], atol=1e-11)

    def test_contributions_are_zero_on_average_and_add_up(self, clf):
        X, _ = table()
        explanation = clf.explain(X)
        np.testing.assert_allclose(explanation.contributions.mean(axis=0), 0.0, atol=1e-12)
        total = explanation.base_value + explanation.contributions.sum(axis=(2, 3))
        np.testing.assert_allclose(total[:, 0], clf.decision_function(X), atol=1e-11)
        shapes = [clf.shape_function(f, X[:, f])[1] for f in clf.features_]
        pairs = [np.diag(clf.surface(a, b, (X[:, int(a[1:])], X[:, int(b[1:])]))[2]) for a, b in clf.pairs_]
        rest = clf.decision_function(X) - clf.intercept_ - np.sum(shapes, axis=0) - np.sum(pairs, axis=0)
        own = [k for k, names in enumerate(explanation.features) if len(names) > 2]
        np.testing.assert_allclose(rest, explanation.contributions[:, 0][:, :, own].sum(axis=(1, 2)), atol=1e-11)

    def test_it_sees_lines_bumps_and_products_within_its_budgets(self, clf):
        X, y = table(400, seed=1)
        assert clf.score(X, y) > 0.75
        assert len(clf.instances_) <= 8 and len(clf.features_) <= 5 and len(clf.pairs_) <= 3
        assert ("x2", "x3") in clf.pairs_ and set(clf.features_) >= {0, 1, 2, 3}

    def test_columns_in_another_order_give_the_same_model(self, clf):
        X, y = table()
        order = np.array([3, 5, 0, 2, 4, 1])
        other = clf.fixed().fit(X[:, order], y)
        one = clf.fixed().fit(X, y)
        np.testing.assert_allclose(other.decision_function(X[:, order]), one.decision_function(X), atol=1e-6)
        assert set(order[other.features_]) == set(one.features_) == set(clf.features_)

    def test_other_labels_negate(self, clf):
        X, y = table()
        one, other = clf.fixed().fit(X, y), clf.fixed().fit(X, 1 - y)
        np.testing.assert_allclose(other.decision_function(X), -one.decision_function(X), atol=1e-6)

    def test_copies_and_constants_are_not_kept(self):
        X, y = table(80, 3)
        wide = np.column_stack([np.ones(80), X, X[:, 0]])
        clf = TamisClassifier(4, 20, interactions=1, cv=2).fit(wide, y)
        assert clf.features_.tolist() == [1, 2, 3]

    def test_equal_rows_of_both_classes_are_counted(self):
        rng = np.random.default_rng(0)
        x = rng.integers(2, size=(600, 1))
        y = (rng.random(600) < np.where(x[:, 0], 0.8, 0.3)).astype(int)
        fit = TamisClassifier(4, 2, cv=3).fit(x, y)
        shares = [y[x[:, 0] == value].mean() for value in (0, 1)]
        np.testing.assert_allclose(fit.predict_proba([[0], [1]])[:, 1], shares, atol=0.03)
        nothing = TamisClassifier(4, 2, blend=fit.blend_)
        with pytest.warns(UserWarning, match="kept no instance"):
            nothing.fit(np.ones((30, 2)), np.arange(30) < 10)
        np.testing.assert_allclose(nothing.predict_proba(np.ones((1, 2))), [[2 / 3, 1 / 3]], atol=1e-4)

    def test_whole_weights_count_rows_and_of_others_ratios_matter(self, clf):
        X, y = table(60)
        fresh = TamisClassifier(4, 3, interactions=1, cv=2)
        counts = np.arange(60) % 3
        twice = fresh.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)).decision_function(X)
        np.testing.assert_allclose(fresh.fit(X, y, counts).decision_function(X), twice, atol=1e-8)
        odd = fresh.fit(X, y, counts + 0.25).decision_function(X)
        np.testing.assert_allclose(fresh.fit(X, y, 1e-3 * (counts + 0.25)).decision_function(X), odd, atol=1e-6)
        assert np.abs(fresh.fit(X, y, 9 * counts).decision_function(X) - twice).max() > 0.01

    def test_one_number_far_out_hides_nothing(self):
        X, y = table(200)
        X[0, 0] = 1e12
        fit = TamisClassifier(8, 5, interactions=3, cv=2).fit(X, y)
        assert (
            abs(fit.score(X, y) - TamisClassifier(8, 5, interactions=3, cv=2).fit(*table(200)).score(*table(200)))
            < 0.05
        )

    def test_folds_of_ones_own_speak_of_the_rows_of_x(self, monkeypatch):
        monkeypatch.setattr(estimator, "MOST", 200)
        monkeypatch.setattr(estimator, "RARE", 5)
        X, y = table(300)
        X[:150] *= 3.0
        cut = [(np.arange(150), np.arange(150, 300)), (np.arange(150, 300), np.arange(150))]
        seen = []
        monkeypatch.setattr(
            estimator, "_held_out", lambda own, train, test: seen.append((train, test)) or np.zeros((9, len(test), 1))
        )
        TamisClassifier(4, 3, interactions=0, cv=cut).fit(X, y)
        for (train, test), (before, after) in zip(seen, cut, strict=True):
            assert set(train.position) <= set(before) and set(test.position) <= set(after)
            assert 50 < len(train) < 150 and 50 < len(test) < 150
        for bad, words in (([1, 2], "cv holds 1"), ([(np.arange(3), np.array([300]))], "cv names the rows 0 to 300")):
            with pytest.raises(ValueError, match=words):
                TamisClassifier(4, 3, cv=bad).fit(X, y)

    def test_rows_of_weight_zero_are_not_in_the_sample(self, monkeypatch):
        monkeypatch.setattr(estimator, "MOST", 100)
        X, y = table(400)
        w = np.r_[np.full(150, 0.7), np.zeros(250)]
        made = TamisClassifier(4, 3, interactions=1, cv=2)
        np.testing.assert_allclose(
            made.fit(X, y, w).decision_function(X), made.fit(X[:150], y[:150]).decision_function(X), atol=1e-8
        )

    def test_labels_by_chance_are_not_learned(self):
        rng = np.random.default_rng(5)
        X, y = rng.normal(size=(300, 8)), rng.integers(2, size=300)
        fit = TamisClassifier(10, 8, cv=3).fit(X[:150], y[:150])
        assert abs(fit.score(X[150:], y[150:]) - 0.5) < 0.12
        assert np.abs(fit.predict_proba(X)[:, 1] - 0.5).max() < 0.35

    def test_given_weights_give_the_same_coefficients_without_folds(self, clf):
        X, y = table()
        again = clf.fixed().fit(X, y)
        np.testing.assert_array_equal(again.model_.expansion.coef, clf.model_.expansion.coef)
        assert again.n_splits_ == 0 and clf.n_splits_ == 6
        odds = np.log(again.predict_proba(X)[:, 1] / again.predict_proba(X)[:, 0])
        np.testing.assert_allclose(odds, again.decision_function(X), rtol=1e-9)

    def test_class_weights_move_the_boundary_and_not_the_probabilities(self, clf):
        X, y = table()
        weighted = clf.fixed().set_params(class_weight={0: 4.0, 1: 1.0}).fit(X, y)
        assert weighted.predict(X).sum() < clf.predict(X).sum()
        assert abs(weighted.predict_proba(X)[:, 1].mean() - y.mean()) < 0.06

    def test_beyond_the_sample_all_rows_count(self, monkeypatch):
        monkeypatch.setattr(estimator, "MOST", 200)
        X, y = table(1200)
        fit = TamisClassifier(8, 5, interactions=3, cv=2).fit(X, y)
        assert fit.n_iter_ >= 1 and np.all(np.diff(fit.history_.objective) < 0)
        some = TamisClassifier(8, 5, interactions=3, cv=2).fit(X[:200], y[:200])
        fresh, truth = table(2000, seed=9)
        assert fit.score(fresh, truth) > some.score(fresh, truth)
        order = np.random.default_rng(0).permutation(1200)
        again = TamisClassifier(8, 5, interactions=3, cv=2).fit(X[order], y[order])
        np.testing.assert_allclose(again.decision_function(fresh), fit.decision_function(fresh), atol=1e-6)
        assert set(order[again.instances_]) == set(fit.instances_)

    def test_the_last_fit_is_one_regression_on_all_weighted_rows(self, monkeypatch):
        monkeypatch.setattr(estimator, "MOST", 150)
        monkeypatch.setattr("tamis.optim.logistic_blocks.TOL", 1e-9)
        X, y = table(600)
        weight = np.random.default_rng(0).uniform(0.2, 3.0, 600)
        blend = np.zeros((3, 3))
        blend[2, 1] = 1.0
        make = TamisClassifier(6, 4, interactions=2, blend=blend, class_weight={0: 0.002, 1: 0.001})
        fit = make.fit(X, y, weight)
        rows = estimator._counted(fit._rows(X, y, weight, None, reset=False))
        assert (
            rows.weight.sum() == pytest.approx(rows.mass.sum()) and rows.weight[y == 0].sum() > rows.mass[y == 0].sum()
        )
        fitted = fit._fitted(fit._looked_at(rows)[1])
        space, Z = fitted.members[2].space, fitted.ground.encoder.encode(rows.table)
        design = space.design(fitted.terms.values(Z, fitted.instances, space.channels))
        D = np.column_stack([design, np.ones(600)])
        penalty = np.r_[np.full(design.shape[1], method.RIDGES[1]), 0.0]
        wanted = D @ fit_logistic(D, rows.targets[:, 0], rows.weight, penalty)
        np.testing.assert_allclose(fit.decision_function(X), wanted, atol=0.02)
        assert fit.blend_.max() == 1.0 and fit.predict_proba(X)[:, 1].mean() == pytest.approx(
            np.average(y, weights=weight), abs=0.05
        )

    def test_the_sample_has_the_shares_of_the_classes(self, monkeypatch):
        monkeypatch.setattr(estimator, "MOST", 300)
        X, y = table(3000)
        y = np.where(np.arange(3000) % 10 == 0, 1, 0)
        fit = TamisClassifier(2, 2, interactions=0, cv=2)
        rows = fit.fit(X[:50], y[:50])._rows(X, y, None, None)
        monkeypatch.setattr(estimator, "RARE", 5)
        assert np.bincount(rows.codes[estimator._sample(rows, 0)]).tolist() == [270, 30]

    def test_contributions_are_centred_by_sample_weights_alone(self):
        X, y = table(100)
        weight = np.random.default_rng(0).uniform(0.2, 3.0, 100)
        fit = TamisClassifier(4, 3, interactions=1, cv=2, class_weight={0: 5.0, 1: 1.0}).fit(X, y, weight)
        means = np.average(fit.explain(X).contributions, axis=0, weights=weight)
        np.testing.assert_allclose(means, 0.0, atol=1e-12)

    def test_folds_are_drawn_twice_where_rows_are_few(self, monkeypatch):
        X, y = table(40)
        assert TamisClassifier(2, 2, interactions=0, cv=2).fit(X, y).n_splits_ == 4
        rows = merge_rows(estimator._counted(TamisClassifier()._rows(X, y, None, None)))
        fit = TamisClassifier(cv=2)
        fit._seed = 0
        first, _, second, _ = (set(test.position) for _, test in fit._splits(rows, rows, rows))
        assert first != second
        monkeypatch.setattr(estimator, "FEW", 39)
        assert TamisClassifier(2, 2, interactions=0, cv=2).fit(X, y).n_splits_ == 2

    def test_a_rare_class_is_in_the_sample(self, monkeypatch):
        monkeypatch.setattr(estimator, "MOST", 100)
        monkeypatch.setattr(estimator, "RARE", 10)
        X, y = table(1500)
        y[:12] = 2
        X[:12] += 6.0
        fit = TamisClassifier(5, 3, interactions=0, cv=2).fit(X, y)
        assert fit.classes_.tolist() == [0, 1, 2] and (fit.predict(X[:12]) == 2).mean() > 0.8

    def test_the_path_has_a_score_for_every_budget(self, clf):
        X, y = table()
        before = clf.model_
        path = clf.path(X, y, max_instances=(1, 8), max_features=(1, 5))
        assert clf.model_ is before and path is clf.path_
        assert not hasattr(clf.fixed().fit(X, y), "path_")
        assert path["accuracy"].shape == path["log_loss"].shape == (2, 2)
        assert path["accuracy"][1, 1] == path["accuracy"].max() and path["log_loss"][1, 1] == path["log_loss"].min()
        with pytest.raises(ValueError, match="max_features"):
            clf.path(X, y, max_features=(0,))
        again = clf.fixed().path(X, y, max_instances=(8,), max_features=(5,))
        assert again["log_loss"][0, 0] == path["log_loss"][1, 1]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"interactions": -1}, "interactions=-1"),
            ({"interactions": 2.5}, "interactions=2.5"),
            ({"blend": "best"}, "blend='best'"),
            ({"blend": np.ones((2, 2))}, "blend=array"),
            ({"blend": -np.ones((3, 3))}, "blend=array"),
            ({"cv": 1}, "cv=1"),
            ({"scaling": "x"}, "scaling='x'"),
        ],
    )
    def test_bad_parameters_are_named(self, change, words):
        X, y = table(20)
        with pytest.raises(ValueError, match=words):
            TamisClassifier(**change).fit(X, y)

    def test_names_like_those_of_channels_do_no_harm(self):
        X, y = table(60, 3)
        names = ["similar cases", "a", "a (line)"]
        columns = dict(zip(names, X.T, strict=True))
        fit = TamisClassifier(4, 3, interactions=2, cv=2).fit(columns, y)
        assert len(set(fit.kernel_names_)) == len(fit.kernel_names_)
        explanation = fit.explain(columns)
        np.testing.assert_allclose(explanation.decision[:, 0], fit.decision_function(columns), atol=1e-11)
