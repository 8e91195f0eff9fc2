"""Mean filling, fusion and MMAF: against explicit features, one machine for each channel, and general solvers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import SVC

import tamis.base.kernel_model
import tamis.methods.absent.channel_baselines as module
from tamis import ChannelBaselineClassifier, Polynomial, io, per_group, precomputed
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.composed import Whole
from tamis.kernels.stacks.base import DenseStack
from tamis.methods.absent.channel_baselines import (
    MIN_NORM,
    MMAF_ROUNDS,
    FilledExpansion,
    FusedExpansion,
    filled_stack,
    fuse,
    max_margin_iterates,
    mean_weights,
    seen_norms,
    solve_max_margin,
)
from tamis.optim.driver import Status

METHODS = ["fusion", "mean_filling", "max_margin"]
LINEAR = Polynomial(1, 0.0)
GROUPS = ((0, 1), (2,), (3, 4, 5), (6, 7))


def table(n=40, seed=0, empty=2):
    """Features in four channels, some absent; `empty` rows without any; and labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)) * np.array([1, 2, 0.5, 1, 1, 3, 1, 0.3]) + np.array([0, 1, 0, 2, 0, 0, -1, 0])
    y = np.where(X @ np.array([1, 0.3, 2, 0, 0.5, 0.2, 0, 1]) + 0.5 * rng.normal(size=n) > 0.3, 1.0, -1.0)
    for group in GROUPS:
        X[np.ix_(rng.random(n) < 0.35, group)] = np.nan
    X[:empty] = np.nan
    return X, y


def bank():
    return KernelBank(tuple(Channel(f"g{k}", Whole(LINEAR), group) for k, group in enumerate(GROUPS)))


def problem(n=40, seed=0, empty=2):
    """Rows, labels, who has what, and the stack of linear kernels."""
    X, y = table(n, seed, empty)
    return X, y, bank().presence(X), bank().stack(X)


def filled(X, means):
    """Features with those of absent channels replaced, for means (columns,)."""
    return np.where(np.isnan(X), means, X)


def zeroed(X):
    return filled(X, np.zeros(X.shape[1]))


class TestMeanFilling:
    def test_weights_of_a_mean_by_hand(self):
        present = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0]], dtype=bool)
        expected = [[0.25, 0.75, 0.0], [1 / 3, 0.0, 2 / 3], [0.0, 0.0, 0.0]]
        np.testing.assert_allclose(mean_weights(present, np.array([1.0, 3.0, 2.0])), expected)

    def test_filled_kernels_are_those_of_filled_features(self, rng):
        X, _, present, stack = problem()
        weight = rng.random(len(X))
        F = filled(X, np.array([np.average(x[~np.isnan(x)], weights=weight[~np.isnan(x)]) for x in X.T]))
        found = filled_stack(stack, present, mean_weights(present, weight))
        assert found.shape == (4, 40, 40)
        for k, group in enumerate(GROUPS):
            block = F[:, group]
            np.testing.assert_allclose(found.one(k), block @ block.T, atol=1e-12)

    def test_nothing_is_filled_where_nothing_is_absent_and_where_nobody_has_the_channel(self, rng):
        full = DenseStack(rng.normal(size=(4, 40, 40)))
        everyone = np.ones((40, 4), dtype=bool)
        np.testing.assert_array_equal(
            filled_stack(full, everyone, mean_weights(everyone, np.ones(40))).values, [full.one(k) for k in range(4)]
        )
        nobody = np.zeros((40, 1), dtype=bool)
        zero = filled_stack(DenseStack(np.zeros((1, 40, 40))), nobody, mean_weights(nobody, np.ones(40)))
        assert not zero.values.any()

    def expansion(self, X, coef, intercept):
        present = bank().presence(X)
        means = mean_weights(present, np.ones(len(X)))
        stack = bank().stack(X)
        fills = np.array([means[k] @ stack.one(k) for k in range(4)])
        return FilledExpansion(bank(), X, intercept, coef, fills)

    def test_an_absent_channel_of_a_new_row_is_at_the_mean(self, rng, monkeypatch):
        X, _ = table(empty=0)
        Z = np.vstack([table(seed=1)[0], np.full((1, 8), np.nan)])
        coef, intercept = rng.normal(size=(2, 40, 4)), np.array([0.3, -2.0])
        expansion = self.expansion(X, coef, intercept)
        F = filled(Z, np.nanmean(X, axis=0))
        by_hand = np.array([[F[:, g] @ zeroed(X)[:, g].T @ c[:, k] for k, g in enumerate(GROUPS)] for c in coef])
        np.testing.assert_allclose(expansion.decision(Z), intercept + by_hand.sum(axis=1).T, atol=1e-10)
        by_instance, by_kernel = expansion.split(Z)
        np.testing.assert_allclose(by_kernel, by_hand.transpose(2, 0, 1), atol=1e-10)
        np.testing.assert_allclose(intercept + by_instance.sum(axis=2), expansion.decision(Z), atol=1e-10)
        parts = expansion.contributions(Z)
        np.testing.assert_allclose(parts.sum(axis=2), by_kernel, atol=1e-10)
        np.testing.assert_allclose(parts.sum(axis=3), by_instance, atol=1e-10)
        whole = expansion.decision(Z)
        monkeypatch.setattr(tamis.base.kernel_model, "BLOCK_VALUES", 700)
        np.testing.assert_allclose(expansion.decision(Z), whole, atol=1e-12)
        np.testing.assert_allclose(expansion.split(Z)[0], by_instance, atol=1e-12)
        np.testing.assert_allclose(expansion.negated().decision(Z), -whole)


class TestFusion:
    @pytest.mark.parametrize("C", [0.1, 10.0])
    def test_each_channel_has_the_machine_of_its_rows(self, C, rng):
        X, y, present, stack = problem()
        cost = C * (0.5 + rng.random(len(y)))
        found = fuse(stack, y, cost, present, tol=1e-8)
        value = 0.0
        for k, group in enumerate(GROUPS):
            rows = np.flatnonzero(present[:, k])
            block = X[np.ix_(rows, group)]
            svc = SVC(kernel="linear", C=1.0, tol=1e-8).fit(block, y[rows], sample_weight=cost[rows])
            ours = block @ (block.T @ found.dual_coef[rows, k]) + found.intercepts[k]
            np.testing.assert_allclose(ours, svc.decision_function(block), atol=1e-4)
            assert not found.dual_coef[~present[:, k], k].any()
            w = svc.coef_[0]
            value += 0.5 * w @ w + cost[rows] @ np.maximum(0, 1 - y[rows] * svc.decision_function(block))
        assert found.converged and found.value == pytest.approx(value, rel=1e-5)

    def test_a_channel_of_one_class_and_one_that_nobody_has_are_left_out(self):
        X, y, present, _ = problem()
        present = present.copy()
        present[:, 1] &= y > 0
        present[:, 3] = False
        X = X.copy()
        X[~present[:, 1], 2] = np.nan
        X[:, 6:] = np.nan
        found = fuse(bank().stack(X), y, np.ones(40), present)
        assert not found.dual_coef[:, [1, 3]].any() and not found.intercepts[[1, 3]].any()
        assert found.dual_coef[:, 0].any() and found.dual_coef[:, 2].any() and found.converged

    def test_says_that_a_machine_did_not_converge(self):
        _, _, present, stack = problem(200)
        assert not fuse(stack, np.where(np.arange(200) % 2, 1.0, -1.0), np.full(200, 1e10), present).converged

    def expansion(self, X, rng, outputs=2):
        coef = rng.normal(size=(outputs, len(X), 4)) * bank().presence(X)
        return FusedExpansion(bank(), X, rng.normal(size=outputs), coef, rng.normal(size=(outputs, 4)))

    def test_a_row_gets_the_mean_over_the_channels_it_has(self, rng):
        X, _ = table(12)
        Z = np.vstack([table(30, seed=1)[0], np.full((1, 8), np.nan)])
        expansion = self.expansion(X, rng)
        present = bank().presence(Z)
        for row, here, found in zip(Z, present, expansion.decision(Z), strict=True):
            for q in range(2):
                scores = [
                    row[list(g)] @ zeroed(X)[:, g].T @ expansion.coef[q, :, k] + expansion.offsets[q, k]
                    for k, g in enumerate(GROUPS)
                    if here[k]
                ]
                mean = np.mean(scores) if scores else 0.0
                assert found[q] == pytest.approx(expansion.intercept[q] + mean)
        assert np.unique(present.sum(axis=1)).tolist() == [0, 1, 2, 3, 4]

    def test_contributions_add_up_and_offsets_are_shared_by_the_cases_of_a_channel(self, rng, monkeypatch):
        X, _ = table(12)
        Z = table(30, seed=1)[0]
        expansion = self.expansion(X, rng)
        parts, whole = expansion.contributions(Z), expansion.decision(Z)
        np.testing.assert_allclose(expansion.intercept + parts.sum(axis=(2, 3)), whole, atol=1e-12)
        by_instance, by_kernel = expansion.split(Z)
        np.testing.assert_allclose(by_instance, parts.sum(axis=3), atol=1e-12)
        np.testing.assert_allclose(by_kernel, parts.sum(axis=2), atol=1e-12)
        assert not parts[:, expansion.coef == 0].any()
        silent = replace(expansion, offsets=np.zeros((2, 4)))
        shares = (parts - silent.contributions(Z)) * np.maximum(1, bank().presence(Z).sum(axis=1))[:, None, None, None]
        for k, here in enumerate(bank().presence(Z).T):
            cases = expansion.coef[0, :, k] != 0
            np.testing.assert_allclose(shares[here][:, 0, cases, k], expansion.offsets[0, k] / cases.sum(), atol=1e-12)
            assert np.all(by_kernel[~here, :, k] == 0)
        np.testing.assert_allclose(expansion.negated().decision(Z), -whole)
        np.testing.assert_allclose(expansion.negated().contributions(Z), -parts)
        monkeypatch.setattr(tamis.base.kernel_model, "BLOCK_ROWS", 7)
        np.testing.assert_array_equal(expansion.decision(Z), whole)

    def test_is_not_a_function_of_one_channel_alone(self, rng):
        assert FusedExpansion.row_dependent and not FilledExpansion.row_dependent


def widened_by_hand(cp, X, y, cost, present, rounds):
    """Normal vector, intercept and c of each round of MMAF, from features."""
    F, c = zeroed(X), np.ones(len(y))
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    out = []
    for _ in range(rounds):
        hinge = cp.pos(1 - cp.multiply(y / c, F @ w + b))
        goal = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + cost @ hinge))
        goal.solve(solver=cp.CLARABEL)
        out.append((w.value.copy(), float(b.value), c, float(goal.value)))
        energies = np.array([np.sum(w.value[list(g)] ** 2) for g in GROUPS])
        c = np.maximum(np.sqrt(present @ energies / energies.sum()), MIN_NORM)
        c[~present.any(axis=1)] = 1.0
    return out


class TestMaxMargin:
    def test_norms_by_hand(self):
        present = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 1], [0, 0, 0]], dtype=bool)
        np.testing.assert_allclose(seen_norms(np.array([9.0, 16.0, 0.0]), present), [1.0, 0.6, 0.8, 1.0])
        np.testing.assert_allclose(seen_norms(np.zeros(3), present), 1.0)
        assert seen_norms(np.array([0.0, 1.0, 1.0]), present)[1] == 1e-3

    @pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
    def test_every_round_is_the_machine_of_its_c_and_c_follows_from_it(self, C):
        cp = pytest.importorskip("cvxpy")
        X, y, present, stack = problem()
        cost = C * np.linspace(0.5, 2.0, len(y))
        rounds = list(max_margin_iterates(stack, y, cost, present, 1e-9))
        assert len(rounds) == MMAF_ROUNDS == 5 and rounds[-1].status is Status.ROUNDS
        expected = widened_by_hand(cp, X, y, cost, present, MMAF_ROUNDS + 1)
        F = zeroed(X)
        for found, (w, b, c, value), (*_, then, _) in zip(rounds, expected[:-1], expected[1:], strict=True):
            machine = found.state
            assert found.objective == pytest.approx(value, rel=1e-4) and machine.converged
            np.testing.assert_allclose(F.T @ machine.dual_coef, w, atol=3e-3 * np.abs(w).max())
            assert machine.intercept == pytest.approx(b, abs=0.01)
            assert found.violation == pytest.approx(np.max(np.abs(then - c)), abs=3e-3)
            f = F @ (F.T @ machine.dual_coef) + machine.intercept
            primal = 0.5 * np.sum((F.T @ machine.dual_coef) ** 2) + cost @ np.maximum(0, 1 - y * f / c)
            assert machine.primal == pytest.approx(primal, rel=1e-3)

    def test_without_absences_it_is_the_plain_machine(self):
        X, y = table(empty=0)
        X = zeroed(X)
        present = np.ones((40, 4), dtype=bool)
        found = solve_max_margin(bank().stack(X), y, np.ones(40), present, tol=1e-6)
        svc = SVC(kernel="linear", tol=1e-8).fit(X, y)
        assert found.status is Status.CONVERGED and len(found.history) == 1
        f = X @ (X.T @ found.state.dual_coef) + found.state.intercept
        np.testing.assert_allclose(f, svc.decision_function(X), atol=1e-4)

    def test_rows_without_channels_keep_a_margin_of_one(self, monkeypatch):
        _, y, present, stack = problem(empty=5)
        asked = []
        solve = module.solve_svm

        def spy(*args, margins=None, **kwargs):
            asked.append((args[2], margins))
            return solve(*args, margins=margins, **kwargs)

        monkeypatch.setattr(module, "solve_svm", spy)
        solve_max_margin(stack, y, np.full(40, 2.0), present, tol=1e-9)
        assert asked[0][1] is None and len(asked) == MMAF_ROUNDS
        for cost, margins in asked[1:]:
            np.testing.assert_array_equal(margins[:5], 1.0)
            np.testing.assert_allclose(cost, 2.0 / margins)
            assert np.all(margins[5:] <= 1 + 1e-12) and margins[5:].min() < 0.9

    def test_says_that_a_machine_did_not_converge(self):
        _, _, present, stack = problem(200)
        y = np.where(np.arange(200) % 2, 1.0, -1.0)
        assert solve_max_margin(stack, y, np.full(200, 1e10), present).status is Status.STALLED


# ---------------------------------------------------------------------- classifiers

KERNELS = [(f"g{k}", LINEAR, list(group)) for k, group in enumerate(GROUPS)]


def classifier(method, **params):
    params = {"kernels": KERNELS, "scaling": None, "calibration": None, "tol": 1e-4, **params}
    return ChannelBaselineClassifier(method, **params)


def classes_of_three(n=60):
    X, _ = table(n, seed=3)
    return X, np.array(["a", "b", "c"])[np.digitize(zeroed(X) @ np.array([1, 0, 2, 0, 1, 0, 0, 1]), [-1.0, 1.5])]


def new_rows(X):
    """Other rows, some without any channel; encodings end at the range of the training rows, and so do these."""
    return np.clip(table(30, seed=1)[0], np.nanmin(X, axis=0), np.nanmax(X, axis=0))


def fused_by_hand(X, y, Z, cost):
    """Means over the channels of the rows Z of the decisions of one machine for each; without any the larger class."""
    scores = np.full((len(Z), len(GROUPS)), np.nan)
    for k, group in enumerate(GROUPS):
        rows, here = (~np.isnan(T[:, group]).any(axis=1) for T in (X, Z))
        svc = SVC(kernel="linear", tol=1e-6).fit(X[np.ix_(rows, group)], y[rows], sample_weight=cost[rows])
        scores[here, k] = svc.decision_function(Z[np.ix_(here, group)])
    seen = ~np.isnan(scores)
    signs = np.where(y == np.max(y), 1.0, -1.0)
    means = np.nansum(scores, axis=1) / np.maximum(1, seen.sum(axis=1))
    return np.where(seen.any(axis=1), means, np.sign(signs @ cost))


def means_of(X, weight):
    """Weighted means (columns,) of the cells that are there."""
    return np.array([np.average(x[~np.isnan(x)], weights=weight[~np.isnan(x)]) for x in X.T])


def filled_by_hand(cp, X, y, Z, cost):
    """The sparse machine on features filled with means: ``min 1/2 (sum_p sqrt(size_p) |w_p|)^2 + cost'hinge``."""
    means = means_of(X, cost)
    F, G = filled(X, means), filled(Z, means)
    sizes = [np.average(np.sum(F[:, g] ** 2, axis=1), weights=cost) for g in GROUPS]
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    total = sum(np.sqrt(s) * cp.norm(w[list(g)]) for s, g in zip(sizes, GROUPS, strict=True))
    goal = 0.5 * cp.square(total) + cost @ cp.pos(1 - cp.multiply(y, F @ w + b))
    value = cp.Problem(cp.Minimize(goal)).solve(solver=cp.CLARABEL)
    return G @ w.value + b.value, value


@pytest.fixture
def weight(rng):
    """Weights of rows: with equal ones a machine may have no free row, and then many intercepts."""
    return 0.5 + rng.random(60)


class TestDecisionsByHand:
    @pytest.mark.parametrize("C", [0.3, 5.0])
    def test_fusion(self, C, weight):
        X, y = table(60)
        Z = new_rows(X)
        clf = classifier("fusion", C=C, tol=1e-6).fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(clf.decision_function(Z), fused_by_hand(X, y, Z, C * weight), atol=1e-3)
        np.testing.assert_array_equal(clf.decision_function(Z[:2]), np.repeat(clf.intercept_, 2))  # they have nothing

    @pytest.mark.parametrize("C", [0.3, 5.0])
    def test_mean_filling(self, C, weight):
        cp = pytest.importorskip("cvxpy")
        X, y = table(60)
        Z = new_rows(X)
        clf = classifier("mean_filling", C=C, tol=1e-6).fit(X, y, sample_weight=weight)
        decision, value = filled_by_hand(cp, X, y, Z, C * weight)
        assert clf.objective_ == pytest.approx(value, rel=1e-5)
        np.testing.assert_allclose(clf.decision_function(Z), decision, atol=0.01)
        assert np.ptp(clf.decision_function(Z[:2])) == 0 and clf.decision_function(Z[:2])[0] != clf.intercept_[0]

    @pytest.mark.parametrize("C", [0.3, 5.0])
    def test_max_margin(self, C, weight):
        cp = pytest.importorskip("cvxpy")
        X, y = table(60)
        Z = new_rows(X)
        clf = classifier("max_margin", C=C, tol=1e-6).fit(X, y, sample_weight=weight)
        w, b, *_ = widened_by_hand(cp, X, y, C * weight, bank().presence(X), MMAF_ROUNDS)[-1]
        np.testing.assert_allclose(clf.decision_function(Z), zeroed(Z) @ w + b, atol=0.01)
        np.testing.assert_array_equal(clf.decision_function(Z[:2]), np.repeat(clf.intercept_, 2))

    def test_fusion_of_three_classes(self, weight):
        X, y = classes_of_three()
        Z = new_rows(X)
        rest, pairs = (
            classifier("fusion", multiclass=kind, tol=1e-6).fit(X, y, sample_weight=weight).decision_function(Z)
            for kind in ("one_vs_rest", "one_vs_one")
        )
        expected = np.zeros((30, 3))
        for k, name in enumerate("abc"):
            np.testing.assert_allclose(rest[:, k], fused_by_hand(X, np.where(y == name, 1, -1), Z, weight), atol=1e-3)
            for m in range(k + 1, 3):
                rows = np.isin(y, [name, "abc"[m]])
                score = fused_by_hand(X[rows], np.where(y[rows] == name, 1, -1), Z, weight[rows])
                expected[:, k] += score
                expected[:, m] -= score
        np.testing.assert_allclose(pairs, expected, atol=2e-3)

    def test_mean_filling_of_pairs_takes_means_over_all_classes(self, weight):
        X, y = classes_of_three()
        Z = new_rows(X)
        means = means_of(X, weight)
        clf = classifier("mean_filling", multiclass="one_vs_one", tol=1e-6)
        one = clf.fit(X, y, sample_weight=weight).decision_function(Z)
        two = clf.fit(filled(X, means), y, sample_weight=weight).decision_function(filled(Z, means))
        np.testing.assert_allclose(one, two, atol=0.01)


@pytest.fixture(scope="module")
def models():
    """The fits that several tests look at and none changes."""
    X, y = table()
    W, z = classes_of_three()
    found = {}
    for method in METHODS:
        found[method, "two"] = classifier(method, calibration=2, scaling="standard").fit(X, y)
        for multiclass in ("one_vs_rest", "one_vs_one"):
            found[method, multiclass] = classifier(method, multiclass=multiclass, calibration=2).fit(W, z)
    return found


@pytest.mark.parametrize("method", METHODS)
class TestEveryMethod:
    @pytest.mark.parametrize("kind", ["two", "one_vs_rest", "one_vs_one"])
    def test_explanations_add_up(self, models, method, kind):
        Z = table(30, seed=1)[0]
        clf = models[method, kind]
        found = clf.explain(Z)
        decision = clf.decision_function(Z).reshape(len(Z), -1)
        np.testing.assert_allclose(found.base_value + found.contributions.sum(axis=(2, 3)), decision, atol=1e-9)
        np.testing.assert_allclose(found.decision, decision, atol=1e-9)
        by_instance, by_kernel = clf.model_.expansion.split(clf.model_.encode(clf._seen(Z)[1]))
        np.testing.assert_allclose(found.contributions.sum(axis=3), by_instance, atol=1e-9)
        np.testing.assert_allclose(found.by_kernel, by_kernel, atol=1e-9)
        names = [f"g{k}" for k in range(4)]
        present = bank().presence(Z)[:, [names.index(name) for name in found.kernels]]
        np.testing.assert_array_equal(found.present, present)
        np.testing.assert_array_equal(found.empty, ~present.any(axis=1))
        assert found.empty[:2].all()
        if method != "mean_filling":
            assert not found.by_kernel.transpose(0, 2, 1)[~present].any()
            np.testing.assert_allclose(decision[:2], np.tile(found.base_value, (2, 1)))

    @pytest.mark.parametrize("kind", ["two", "one_vs_rest", "one_vs_one"])
    def test_save_and_load(self, models, method, kind, tmp_path):
        Z = table(30, seed=1)[0]
        clf = models[method, kind]
        io.save(clf, tmp_path / "m.tamis")
        again = io.load(tmp_path / "m.tamis")
        assert type(again.model_.expansion) is type(clf.model_.expansion)
        np.testing.assert_allclose(again.decision_function(Z), clf.decision_function(Z), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(again.predict_proba(Z), clf.predict_proba(Z), rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(again.explain(Z).contributions, clf.explain(Z).contributions)
        np.testing.assert_array_equal(again.channel_ranges_, clf.channel_ranges_)

    def test_seen_from_the_other_class(self, models, method):
        Z = table(30, seed=1)[0]
        clf = models[method, "two"]
        other = clf.oriented(-1.0)
        np.testing.assert_array_equal(other.decision_function(Z), -clf.decision_function(Z))
        told = clf.decision_function(Z) != 0  # zero, the score of a row without channels in fusion, is a tie
        np.testing.assert_array_equal(other.predict(Z)[told], clf.predict(Z)[told])
        assert np.count_nonzero(told) >= np.count_nonzero(~np.isnan(Z).all(axis=1))
        np.testing.assert_allclose(other.predict_proba(Z)[:, ::-1], clf.predict_proba(Z))
        np.testing.assert_array_equal(other.explain(Z).contributions, -clf.explain(Z).contributions)
        np.testing.assert_array_equal(other.channel_ranges_, -clf.channel_ranges_[..., ::-1])
        np.testing.assert_array_equal(other.oriented(1.0).decision_function(Z), clf.decision_function(Z))

    def test_order_of_rows_does_not_matter_and_a_row_given_twice_is_a_weight_of_two(self, method, rng):
        X, y = classes_of_three()
        Z = table(30, seed=1)[0]
        order = rng.permutation(len(y))
        clf = classifier(method, multiclass="one_vs_one")
        one = clf.fit(X, y).decision_function(Z)
        np.testing.assert_allclose(clf.fit(X[order], y[order]).decision_function(Z), one, atol=1e-10)
        twice = np.r_[np.arange(len(y)), np.arange(0, len(y), 3)]
        weight = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0)
        two = clf.fit(X, y, sample_weight=weight).decision_function(Z)
        np.testing.assert_allclose(clf.fit(X[twice], y[twice]).decision_function(Z), two, atol=1e-8)
        assert np.abs(one - two).max() > 1e-3

    def test_values_of_absent_items_are_not_looked_at(self, method, weight):
        X, y = table(60, empty=0)
        present, rows = bank().presence(X), np.arange(60)[:, None]
        stack = np.array([zeroed(X)[:, g] @ zeroed(X)[:, g].T for g in GROUPS])
        gone = ~(present[:, None] & present[None]).transpose(2, 0, 1)
        decisions = []
        for poison in (np.nan, 1e6):
            kernels = precomputed(np.where(gone, poison, stack), present=present)
            clf = classifier(method, kernels=kernels, tol=1e-6).fit(rows, y, sample_weight=weight)
            decisions.append(clf.decision_function(rows))
        np.testing.assert_array_equal(*decisions)
        clf = classifier(method, tol=1e-6).fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(clf.decision_function(X), decisions[0], atol=0.01)

    def test_a_row_is_decided_about_whatever_the_others_are(self, models, method):
        Z = table(30, seed=1)[0]
        clf = models[method, "one_vs_one"]
        np.testing.assert_allclose([clf.decision_function(z[None])[0] for z in Z], clf.decision_function(Z), atol=1e-10)


def test_methods_differ_and_unknown_ones_are_refused():
    X, y = table()
    found = [classifier(method).fit(X, y).decision_function(X) for method in METHODS]
    assert all(np.abs(a - b).max() > 0.05 for k, a in enumerate(found) for b in found[:k])
    with pytest.raises(ValueError, match="method='mean' is unknown"):
        classifier("mean").fit(X, y)


@pytest.mark.parametrize("method", METHODS)
def test_a_channel_that_no_training_row_has_does_nothing(method):
    X, y = table()
    X[:, 6:] = np.nan
    Z = table(30, seed=1)[0]
    with_it = classifier(method, kernels=per_group({f"g{k}": g for k, g in enumerate(GROUPS)}, LINEAR)).fit(X, y)
    without = classifier(method, kernels=KERNELS[:3]).fit(X[:, :6], y)
    np.testing.assert_allclose(with_it.decision_function(Z), without.decision_function(Z[:, :6]), atol=1e-8)
    assert with_it.kernel_names_.tolist() == ["g0", "g1", "g2"]


@pytest.mark.parametrize("method", ["fusion", "mean_filling", "max_margin"])
def test_where_nobody_has_anything_the_larger_class_wins(method):
    X, y = np.full((12, 8), np.nan), np.where(np.arange(12) < 4, 1, -1)
    with pytest.warns(UserWarning):
        clf = classifier(method).fit(X, y)
    assert np.all(clf.predict(X) == -1) and np.all(clf.oriented(-1).predict(X) == -1)


def test_fusion_leaves_a_channel_of_one_class_out_of_the_mean():
    X, y = classes_of_three()
    X[np.ix_(y == "a", GROUPS[0])] = np.nan  # no machine can tell "a" from the rest by this channel
    clf = classifier("fusion", tol=1e-6).fit(X, y)
    rest = [k for group in GROUPS[1:] for k in group]
    others = [(f"g{k}", LINEAR, [rest.index(c) for c in g]) for k, g in enumerate(GROUPS) if k]
    without = classifier("fusion", kernels=others, tol=1e-6).fit(X[:, rest], np.where(y == "a", 1, -1))
    Z = table(20, seed=3)[0]
    np.testing.assert_allclose(clf.decision_function(Z)[:, 0], without.decision_function(Z[:, rest]), atol=1e-4)
