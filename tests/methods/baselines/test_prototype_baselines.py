"""Prototypes by set cover and by vector quantisation: from their definitions, and as classifiers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.special import expit
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from tamis import Gaussian, KernelGLVQClassifier, PrototypeSelectionClassifier, io
from tamis.base import prototype_expansion as prototypes
from tamis.methods.baselines import kernel_glvq as glvq
from tamis.methods.baselines import prototype_selection as cover
from tamis.optim.driver import Status

import zoo


def mean_kernel(X, Z=None):
    """The mean over columns of Gaussians as wide as the standard deviations of X."""
    Z = X if Z is None else Z
    return np.exp(-0.5 * ((Z[:, None] - X[None]) / X.std(axis=0)) ** 2).mean(axis=2)


def points(n=30, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 3
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.5 * (codes == 1)
    X[:, 1] += 1.5 * (codes == 2)
    return X, codes


def cover_problem(n=30, seed=0, share=0.15, weighted=True):
    X, codes = points(n, seed)
    K = mean_kernel(X)
    weight = np.random.default_rng(seed).uniform(0.3, 2.0, n) if weighted else np.ones(n)
    return cover.Problem(cover.balls_of(K, cover.quantile_radius(K, share)), codes, weight)


def cost_by_definition(problem, pairs):
    total = len(pairs) / len(problem.codes)
    for i, (own, weight) in enumerate(zip(problem.codes, problem.weight, strict=True)):
        total += weight * (not any(problem.balls[j, i] and q == own for j, q in pairs))
        total += weight * sum(problem.balls[j, i] and q != own for j, q in pairs)
    return total


def pairs_of(state):
    return list(zip(state.rows.tolist(), state.owners.tolist(), strict=True))


class TestSetCover:
    def test_balls_are_open_and_hold_their_row(self):
        K = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.2], [0.2, 0.2, 1.0]])
        assert cover.balls_of(K, 1.0).tolist() == np.eye(3, dtype=bool).tolist()  # sqrt(2 - 2 * 0.5) is the radius
        assert cover.balls_of(K, 1.001).sum() == 5
        assert cover.balls_of(np.ones((3, 3)), 0.0).tolist() == np.eye(3, dtype=bool).tolist()

    @pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
    def test_radius_is_a_quantile_of_the_distances_between_different_rows(self, share):
        K = mean_kernel(points(20)[0])
        distances = [np.sqrt(2 - 2 * K[i, j]) for i in range(20) for j in range(i)]
        assert cover.quantile_radius(K, share) == pytest.approx(np.quantile(distances, share))

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("seed", range(3))
    def test_every_step_is_the_best_of_all_pairs(self, seed, weighted):
        problem = cover_problem(18, seed, weighted=weighted)
        found, every = pairs_of(cover.solve(problem).state), [(j, q) for j in range(18) for q in range(3)]
        for step in range(len(found) + 1):
            before = cost_by_definition(problem, found[:step])
            gains = {pair: before - cost_by_definition(problem, [*found[:step], pair]) for pair in every}
            best = max(gains.values())
            if step < len(found):
                assert best > 0 and gains[found[step]] == pytest.approx(best)
            else:
                assert best <= 0

    def test_objective_gains_and_history_are_the_cost_by_its_definition(self):
        problem = cover_problem()
        solution = cover.solve(problem)
        pairs, state = pairs_of(solution.state), solution.state
        assert solution.status is Status.CONVERGED and solution.history.violation[-1] == 0 and len(pairs) > 5
        values = [cost_by_definition(problem, pairs[:k]) for k in range(len(pairs) + 1)]
        np.testing.assert_allclose(solution.history.objective, values)
        assert cover.objective(problem, state) == pytest.approx(values[-1])
        gains = cover.gains(problem, state.covered)
        for j, q in ((0, 0), (7, 2), (11, 1)):
            assert gains[j, q] == pytest.approx(values[-1] - cost_by_definition(problem, [*pairs, (j, q)]))
        first = -np.diff(values)[0] / problem.weight.sum()
        assert solution.history.violation[0] == pytest.approx(first)

    @pytest.mark.parametrize("share", [0.1, 0.3])
    def test_objective_is_that_of_the_integer_program(self, share):
        """alpha_jq in {0, 1}, xi and eta >= 0 as printed; the greedy set costs little more than the best one."""
        problem = cover_problem(share=share)
        n, q = len(problem.codes), 3
        own = np.zeros((n, n * q))
        for i, c in enumerate(problem.codes):
            own[i, c::q] = problem.balls[:, i]
        wrong = np.repeat(problem.balls.T, q, axis=1) - own
        eye, none = np.eye(n), np.zeros((n, n))
        costs = np.r_[np.full(n * q, problem.price), problem.weight, problem.weight]
        rules = [
            LinearConstraint(np.hstack([own, eye, none]), lb=1),
            LinearConstraint(np.hstack([wrong, none, -eye]), ub=0),
        ]
        integer = np.r_[np.ones(n * q), np.zeros(2 * n)]
        bounds = Bounds(0, np.r_[np.ones(n * q), np.full(2 * n, np.inf)])
        best = milp(costs, constraints=rules, integrality=integer, bounds=bounds)
        rows, owners = np.nonzero(np.round(best.x[: n * q]).reshape(n, q))
        covered = (problem.balls[rows] & (owners[:, None] == problem.codes)).any(axis=0)
        assert cover.objective(problem, cover.State(rows, owners, covered)) == pytest.approx(best.fun)
        assert best.fun - 1e-9 <= cover.solve(problem).objective <= 1.3 * best.fun

    def test_without_a_radius_all_rows_are_prototypes_of_their_class(self):
        problem = replace(cover_problem(), balls=np.eye(30, dtype=bool))
        state = cover.solve(problem).state
        assert sorted(pairs_of(state)) == list(enumerate(problem.codes))

    def test_a_row_may_stand_for_another_class_and_for_several(self):
        # row 0 of class 0 is amid four rows of class 1; of little weight it serves them
        balls = np.eye(5, dtype=bool)
        balls[0, :] = True
        problem = cover.Problem(balls, np.array([0, 1, 1, 1, 1]), np.array([0.5, 1.0, 1.0, 1.0, 1.0]))
        assert pairs_of(cover.solve(problem).state) == [(0, 1)]
        assert cover.gains(problem, np.zeros(5, dtype=bool))[0, 1] == pytest.approx(4 - 0.5 - 0.2)


def glvq_problem(seed=0, max_samples=4, weighted=True):
    X, codes = points(24, seed)
    weight = np.random.default_rng(seed).uniform(0.3, 2.0, 24) if weighted else np.ones(24)
    problem = glvq.Problem(mean_kernel(X), codes, weight, max_samples)
    begun = glvq.start(problem, 2, seed)
    rng = np.random.default_rng(seed)
    coef = begun.coef + 0.05 * rng.normal(size=begun.coef.shape)
    return problem, replace(begun, coef=coef / coef.sum(axis=1, keepdims=True))


def glvq_cost(problem, state):
    """E from its definition, row by row."""
    K, total = problem.K, 0.0
    for i, code in enumerate(problem.codes):
        d = {True: [], False: []}
        for a, owner in zip(state.coef, state.owners, strict=True):
            v = a - np.eye(len(K))[i]
            d[bool(owner == code)].append(v @ K @ v)
        near, other = min(d[True]), min(d[False])
        total += problem.weight[i] * expit(glvq.SIGMOID_SLOPE * (near - other) / (near + other))
    return total


class TestVectorQuantisation:
    def test_objective_is_its_definition(self):
        problem, state = glvq_problem()
        assert glvq.objective(problem, state) == pytest.approx(glvq_cost(problem, state))

    def test_steps_follow_the_gradient_of_the_cost(self):
        """In the feature space: the derivative by a_jm is the inner product of the gradient with row m."""
        problem, state = glvq_problem()
        K = problem.K
        d = glvq.squared_distances(K, state.coef)
        gradient = np.zeros_like(state.coef)  # coefficients of a point in the feature space
        for i, code in enumerate(problem.codes):
            own = state.owners == code
            near, other = (int(np.argmin(np.where(mask, d[:, i], np.inf))) for mask in (own, ~own))
            pull, push = glvq.rates(problem, i, d[near, i], d[other, i])
            for j, factor in ((near, pull), (other, -push)):
                gradient[j] += factor * (state.coef[j] - np.eye(len(K))[i])
        by_formula, step = gradient @ K, 1e-6
        for j, m in np.ndindex(*state.coef.shape):
            ends = []
            for sign in (1, -1):
                coef = state.coef.copy()
                coef[j, m] += sign * step
                ends.append(glvq.objective(problem, replace(state, coef=coef)))
            assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(by_formula[j, m], abs=1e-6)

    def test_an_epoch_with_cached_products_is_the_plain_one(self):
        problem, state = glvq_problem()
        order, rate = np.random.default_rng(1).permutation(24), 0.05
        coef = state.coef.copy()
        for i in order:
            d = glvq.squared_distances(problem.K, coef)[:, i]
            own = state.owners == problem.codes[i]
            near, other = (int(np.argmin(np.where(mask, d, np.inf))) for mask in (own, ~own))
            pull, push = glvq.rates(problem, i, d[near], d[other])
            e = np.eye(24)[i]
            coef[near] += rate * pull * (e - coef[near])
            coef[other] -= rate * push * (e - coef[other])
        found = glvq.epoch(problem, state, order, rate)
        np.testing.assert_allclose(found.coef, coef, atol=1e-12)
        assert glvq.objective(problem, found) < glvq.objective(problem, state)

    def test_no_step_goes_beyond_the_row(self):
        problem, state = glvq_problem()
        found = glvq.epoch(problem, state, np.array([5]), 1e6)
        moved = np.flatnonzero(np.any(found.coef != state.coef, axis=1))
        near = moved[state.owners[moved] == problem.codes[5]]
        assert len(moved) == 2 and found.coef[near[0]].tolist() == np.eye(24)[5].tolist()
        np.testing.assert_allclose(found.coef.sum(axis=1), 1.0)

    def test_kept_rows_get_the_nearest_mixture(self, rng):
        problem, state = glvq_problem(max_samples=3)
        cut = glvq.sparse(problem, state)
        for before, after in zip(state.coef, cut.coef, strict=True):
            kept = np.flatnonzero(after)
            assert set(kept) == set(np.argsort(-np.abs(before))[:3]) and after.sum() == pytest.approx(1)
            slope = (problem.K @ (after - before))[kept]  # along moves that keep the sum nothing is gained
            np.testing.assert_allclose(slope, slope.mean(), atol=1e-9)
        assert glvq.sparse(replace(problem, max_samples=24), state).coef.tolist() == state.coef.tolist()

    def test_equal_rows_share_their_coefficient(self):
        K = np.array([[1.0, 1.0, 0.3], [1.0, 1.0, 0.3], [0.3, 0.3, 1.0]])
        np.testing.assert_allclose(glvq.nearest_mixture(K, K @ [0.8, 0.0, 0.2]), [0.4, 0.4, 0.2], atol=1e-9)

    @pytest.mark.parametrize("max_samples", [1, 4, 24])
    def test_runs_lower_the_cost_and_keep_prototypes_sparse(self, max_samples):
        problem, _ = glvq_problem(max_samples=max_samples)
        begun = glvq.start(problem, 2, 0)
        solution = glvq.solve(problem, begun, rate=0.1, seed=0)
        for state in (begun, solution.state):
            assert np.count_nonzero(state.coef, axis=1).max() <= max_samples
            np.testing.assert_allclose(state.coef.sum(axis=1), 1.0, atol=1e-12)
        assert solution.status is Status.CONVERGED
        assert solution.objective <= solution.history.objective[0] * (1.0 if max_samples == 1 else 0.95)
        assert solution.objective == pytest.approx(glvq.objective(problem, solution.state))

    def test_more_samples_in_a_prototype_cost_less(self):
        X, codes = load_wine(return_X_y=True)
        values = []
        for most in (2, 8, len(X)):
            problem = glvq.Problem(mean_kernel(X), codes, np.ones(len(X)), most)
            values.append(glvq.solve(problem, glvq.start(problem, 2, 0), rate=0.1, seed=0, max_iter=20).objective)
        assert values[0] > values[1] > values[2]

    def test_the_start_is_of_different_rows_of_each_class(self):
        problem, _ = glvq_problem(max_samples=3)
        state = glvq.start(problem, 2, 0)
        assert state.owners.tolist() == [0, 0, 1, 1, 2, 2]
        for a, owner in zip(state.coef, state.owners, strict=True):
            assert set(problem.codes[np.flatnonzero(a)]) == {owner} and np.count_nonzero(a) == 3
        assert np.count_nonzero(state.coef, axis=0).max() == 1
        assert len(glvq.start(problem, 99, 0).owners) == 12  # each of two rows at least

    def test_equal_rows_of_two_classes_stop_nothing(self):
        problem = glvq.Problem(np.ones((6, 6)), np.arange(6) % 2, np.ones(6), 2)
        solution = glvq.solve(problem, glvq.start(problem, 1, 0), rate=0.1, seed=0)
        assert solution.status is Status.CONVERGED and solution.objective == pytest.approx(3.0)


BOTH = [PrototypeSelectionClassifier(calibration=None), KernelGLVQClassifier(calibration=None, max_iter=50)]
both = pytest.mark.parametrize("clf", BOTH, ids=lambda clf: type(clf).__name__)


def split_wine():
    X, y = load_wine(return_X_y=True)
    names = np.array(["red", "rose", "white"])[y]
    return X[::2], names[::2], X[1::2], names[1::2]


@both
class TestClassifiers:
    def test_the_nearest_prototype_decides(self, clf):
        X, y, Z, t = split_wine()
        clf.fit(X, y)
        within = np.all((X.min(axis=0) <= Z) & (X.max(axis=0) >= Z), axis=1)  # others are clipped
        Z, t = Z[within], t[within]
        U = np.zeros((len(X), len(clf.prototypes_)))
        for j, prototype in enumerate(clf.prototypes_):
            U[prototype.instances, j] = prototype.weights
        K = mean_kernel(X)
        d = 1 - 2 * mean_kernel(X, Z) @ U + np.diag(U.T @ K @ U)
        scores = np.array([np.max(1 - d[:, clf.prototype_labels_ == c], axis=1) for c in clf.classes_]).T
        np.testing.assert_allclose(clf.decision_function(Z), scores, atol=1e-10)
        np.testing.assert_array_equal(clf.predict(Z), clf.prototype_labels_[np.argmin(d, axis=1)])
        assert np.mean(clf.predict(Z) == t) > 0.9

    def test_two_classes_have_one_decision(self, clf):
        X, y, Z, _ = split_wine()
        X, y = X[y != "red"], y[y != "red"]
        clf.fit(X, y)
        d = clf.prototype_distances(Z)
        nearest = [np.min(d[:, clf.prototype_labels_ == c], axis=1) for c in ("rose", "white")]
        np.testing.assert_allclose(clf.decision_function(Z), nearest[0] - nearest[1], atol=1e-10)
        turned = clf.oriented("rose")
        np.testing.assert_array_equal(turned.prototype_labels_, clf.prototype_labels_)
        np.testing.assert_allclose(turned.decision_function(Z), -clf.decision_function(Z))
        assert [p.purity for p in turned.prototypes_] == [p.purity for p in clf.prototypes_]

    def test_prototypes_keep_their_class_whatever_they_are_made_of(self, clf):
        X, y, _, _ = split_wine()
        clf.fit(X, y)
        labels = clf.prototype_labels_
        clf.prototype_masses_ = np.roll(clf.prototype_masses_, 1, axis=0)
        assert clf.prototype_labels_.tolist() == labels.tolist()
        assert max(p.purity for p in clf.prototypes_) < 0.5

    def test_explanations_add_up_with_absent_cells(self, clf, rng):
        X, y, Z, _ = split_wine()
        X, Z = X.copy(), Z[:6].copy()
        for table in (X, Z):
            table[rng.uniform(size=table.shape) < 0.2] = np.nan
        clf.fit(X, y)
        explanation = clf.explain(Z)
        for parts in (explanation.by_prototype, explanation.by_instance, explanation.by_kernel):
            np.testing.assert_allclose(parts.sum(axis=2) + explanation.base_value, clf.decision_function(Z), atol=1e-10)
        (first, *_) = explanation.prototypes_of(0)
        assert first.label in clf.classes_ and first.samples
        assert np.isfinite(clf.decision_function(np.full((1, 13), np.nan))).all()

    def test_splits_are_sums_of_the_contributions_whatever_the_batches(self, clf, monkeypatch):
        X, y, Z, _ = split_wine()
        clf.fit(X, y)
        parts = clf.explain(Z).contributions
        monkeypatch.setattr(prototypes, "BLOCK_VALUES", 700)
        table = clf._seen(Z)[1]
        by_instance, by_kernel = clf.model_.expansion.split(clf.model_.encode(table))
        np.testing.assert_allclose(by_instance, parts.sum(axis=3), atol=1e-12)
        np.testing.assert_allclose(by_kernel, parts.sum(axis=2), atol=1e-12)

    def test_measures_follow_their_definitions(self, clf):
        X, y, Z, t = split_wine()
        clf.fit(X, y)
        K, expected = mean_kernel(X), []
        for prototype in clf.prototypes_:
            u = np.zeros(len(X))
            if isinstance(clf, KernelGLVQClassifier):
                u[prototype.instances] = np.abs(prototype.weights)
            else:
                u[np.sqrt(2 - 2 * K[prototype.instances[0]]) < clf.radius_] = 1.0
                assert prototype.represents.tolist() == np.flatnonzero(u).tolist()
            u /= np.sqrt(u @ K @ u)
            purity = u[y == prototype.label].sum() / u.sum()
            assert prototype.purity == pytest.approx(purity)
            expected.append(purity * np.exp(-u @ (2 - 2 * K) @ u))
        found = clf.prototype_measures(Z, t)
        assert found["interpretability"] == pytest.approx(100 * np.mean(expected))
        assert found["accuracy"] == pytest.approx(100 * clf.score(Z, t))
        assert found["n_kernels"] == 13 and found["effective_kernels"] == pytest.approx(13)

    def test_constant_columns_get_no_weight(self, clf):
        X, y, Z, _ = split_wine()
        clf.fit(X, y)
        plain = clf.decision_function(Z)
        wide, more = (np.column_stack([np.full(len(A), 7.0), A]) for A in (X, Z))
        clf.fit(wide, y)
        np.testing.assert_allclose(clf.decision_function(more), plain, atol=1e-10)
        assert 0 not in clf.features_

    def test_series_in_place_of_tables(self, clf, rng):
        y = np.arange(24) % 2
        X = rng.normal(size=(24, 2, 10)) + 2.0 * y[:, None, None]
        X[3, 1] = np.nan
        clf.fit(X, y)
        assert clf.score(X, y) > 0.9
        explanation = clf.explain(X[:4])
        np.testing.assert_allclose(
            explanation.by_kernel.sum(axis=2)[:, 0] + explanation.base_value, clf.decision_function(X[:4])
        )

    def test_class_weights_move_the_boundary(self, clf):
        X, y = zoo.planted(n=200)
        y = y * (np.arange(200) % 3 == 0)
        shares = [type(clf)(calibration=None, class_weight=w).fit(X, y).predict(X).mean() for w in (None, {1: 20.0})]
        assert shares[1] > shares[0]

    def test_files_keep_the_classifier(self, clf, tmp_path):
        X, y, Z, t = split_wine()
        clf.fit(X, y)
        io.save(clf, tmp_path / "m.tamis")
        again = io.load(tmp_path / "m.tamis")
        assert again.prototype_measures(Z, t) == clf.prototype_measures(Z, t)
        assert [p.label for p in again.prototypes_] == [p.label for p in clf.prototypes_]
        assert again.prototypes_[0].represents is None and again.summary() == clf.summary()


def amid(extra=4):
    """Two classes far apart, and few rows of a third amid the first."""
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 8, 0.5 * rng.normal(size=(extra, 2))]
    return X, np.repeat(["a", "b", "c"], [40, 40, extra])


class TestSelection:
    def test_a_class_without_prototypes_is_never_predicted(self, rng):
        X, y = amid()
        far = 10 * rng.normal(size=(300, 2))
        far[::5, 0] = np.nan
        with pytest.warns(UserWarning, match="no prototype stands for 'c'"):
            clf = PrototypeSelectionClassifier(0.3).fit(X, y)
        assert clf.prototypes_per_class_["c"] == 0 and set(clf.predict(far)) == {"a", "b"}
        assert np.isfinite(clf.predict_proba(far)).all()
        keep = y != "b"
        with pytest.warns(UserWarning, match="smaller radius"):
            clf = PrototypeSelectionClassifier(0.3, calibration=None).fit(X[keep], y[keep])
        assert set(clf.predict(far)) == {"a"} and clf.decision_function(far).max() < 0
        with pytest.warns(UserWarning, match="smaller radius"):
            clf = PrototypeSelectionClassifier(0.3, calibration=None).fit(X[keep], np.where(y[keep] == "a", 1, 0))
        assert set(clf.predict(far)) == {1} and clf.decision_function(far).min() > 0

    @pytest.mark.filterwarnings("ignore:calibration failed")
    def test_without_any_prototype_it_says_so(self):
        X, _ = amid()
        with pytest.warns(UserWarning, match="kept no instance"):
            clf = PrototypeSelectionClassifier(1.0).fit(X, np.arange(len(X)) % 3)
        assert np.isfinite(clf.decision_function(X)).all() and clf.prototypes_ == []
        assert np.isnan(clf.prototype_measures(X, np.arange(len(X)) % 3)["interpretability"])

    def test_smaller_balls_need_more_prototypes(self):
        X, y, _, _ = split_wine()
        fits = [PrototypeSelectionClassifier(radius, calibration=None).fit(X, y) for radius in (0.0, 0.05, 0.3)]
        counts = [len(clf.prototypes_) for clf in fits]
        assert counts[0] == len(X) > counts[1] > counts[2]
        assert fits[0].radius_ < fits[1].radius_ < fits[2].radius_ and "30%" in fits[2].summary()["radius"]

    @pytest.mark.parametrize("radius", [-0.1, 1.5, np.nan, "big"])
    def test_radius_is_a_share(self, radius):
        X, y, _, _ = split_wine()
        with pytest.raises(ValueError, match="radius="):
            PrototypeSelectionClassifier(radius).fit(X, y)

    def test_a_sample_may_stand_for_another_class(self):
        """A case of little weight in the middle of a ring of the other class."""
        angles = np.arange(6) * np.pi / 3
        X = np.r_[[[0.0, 0.0]], np.column_stack([np.cos(angles), np.sin(angles)]), [[9.0, 9.0], [9.1, 9.0]]]
        y = np.repeat(["in", "ring", "in"], [1, 6, 2])
        kernels = [("both", Gaussian(1.0), [0, 1])]
        clf = PrototypeSelectionClassifier(0.5, kernels=kernels, scaling=None, calibration=None)
        clf.fit(X, y, sample_weight=np.r_[0.5, np.ones(8)])
        first = clf.prototypes_[0]
        assert first.instances.tolist() == [0] and first.label == "ring"
        assert first.represents.tolist() == list(range(7)) and first.purity == pytest.approx(6 / 7)
        assert clf.predict(X[:1])[0] == "ring"

    def test_numbers_of_the_prototype_on_gene_expression(self, data_folder):
        """As many prototypes and right answers as an independent implementation found on this split."""
        data = np.load(data_folder / "p4" / "tox_171.npz")
        X, y = np.log2(data["X"].astype(float) + 1), data["y"]
        A, T, a, t = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
        columns = np.array_split(np.arange(X.shape[1]), 12)
        K, KT = (np.mean([mean_kernel(A[:, c], Z[:, c]) for c in columns], axis=0) for Z in (A, T))
        codes = np.unique(a, return_inverse=True)[1]
        for share, count, accuracy in ((0.02, 53, 76.9), (0.05, 33, 63.5), (0.1, 19, 61.5), (0.2, 13, 65.4)):
            balls = cover.balls_of(K, cover.quantile_radius(K, share))
            state = cover.solve(cover.Problem(balls, codes, np.ones(len(codes)))).state
            right = np.unique(a)[state.owners[np.argmax(KT[:, state.rows], axis=1)]] == t
            assert len(state.rows) == count and 100 * np.mean(right) == pytest.approx(accuracy, abs=0.05)


class TestGLVQ:
    def test_budgets_hold_and_fields_part_the_training_samples(self):
        X, y, _, _ = split_wine()
        clf = KernelGLVQClassifier(2, 3, calibration=None, kernels=[("all", Gaussian(3.0), list(range(13)))])
        clf.fit(X, y)
        assert clf.prototypes_per_class_ == {"red": 2, "rose": 2, "white": 2}
        assert max(len(p) for p in clf.prototypes_) <= 3
        fields = np.concatenate([p.represents for p in clf.prototypes_])
        assert sorted(fields) == list(range(len(X)))
        d = clf.prototype_distances(X)
        for j, prototype in enumerate(clf.prototypes_):
            np.testing.assert_array_equal(np.argmin(d[prototype.represents], axis=1), j)

    @pytest.mark.parametrize("name", ["n_prototypes", "max_samples", "learning_rate", "tol", "max_iter"])
    def test_parameters_are_positive(self, name):
        X, y, _, _ = split_wine()
        with pytest.raises(ValueError, match=f"{name}="):
            KernelGLVQClassifier(**{name: 0}).fit(X, y)
