"""TamisClassifier against what it promises."""

import numpy as np
import pytest

from tamis import TamisClassifier
from tamis.flagship import blend as method
from tamis.flagship import blending as estimator
from tamis.optim.losses import fit_logistic
from tamis.table.rows import merge_rows, some_of_each_class

from small_fits import rows_of
from zoo import line_bump_product as table


@pytest.fixture(scope="module")
def clf():
    X, y = table()
    return TamisClassifier(8, 5, interactions=3, cv=3).fit(X, y)


class TestTamisClassifier:
    def test_the_table_is_the_weighted_sum_of_the_members(self, clf):
        X, y = table()
        rows = merge_rows(rows_of(clf, X, y))
        cells = clf._fitted(rows, 0).decisions(rows)
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
        other = clf.without_search().fit(X[:, order], y)
        one = clf.without_search().fit(X, y)
        np.testing.assert_allclose(other.decision_function(X[:, order]), one.decision_function(X), atol=1e-6)
        assert set(order[other.features_]) == set(one.features_) == set(clf.features_)

    def test_other_labels_negate(self, clf):
        X, y = table()
        one, other = clf.without_search().fit(X, y), clf.without_search().fit(X, 1 - y)
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

    def test_only_ratios_of_weights_matter(self, clf):
        X, y = table(60)
        fresh = TamisClassifier(4, 3, interactions=1, cv=2)
        counts = np.arange(60) % 3
        one = fresh.fit(X, y, counts).decision_function(X)
        for scale in (1e-3, 9.0):
            np.testing.assert_allclose(fresh.fit(X, y, scale * counts).decision_function(X), one, atol=1e-6)

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
            estimator,
            "_held_out",
            lambda own, seed, train, test: seen.append((train, test)) or np.zeros((9, len(test), 1)),
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
        again = clf.without_search().fit(X, y)
        np.testing.assert_allclose(again.model_.expansion.coef, clf.model_.expansion.coef, rtol=1e-12)
        assert again.n_splits_ == 0 and clf.n_splits_ == 6
        odds = np.log(again.predict_proba(X)[:, 1] / again.predict_proba(X)[:, 0])
        np.testing.assert_allclose(odds, again.decision_function(X), rtol=1e-9)

    def test_class_weights_move_the_boundary_and_not_the_probabilities(self, clf):
        X, y = table()
        weighted = clf.without_search().set_params(class_weight={0: 4.0, 1: 1.0}).fit(X, y)
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
        monkeypatch.setattr("tamis.optim.losses.TOL", 1e-9)
        X, y = table(600)
        weight = np.random.default_rng(0).uniform(0.2, 3.0, 600)
        blend = np.zeros((3, 3))
        blend[2, 1] = 1.0
        make = TamisClassifier(6, 4, interactions=2, blend=blend, class_weight={0: 0.002, 1: 0.001})
        fit = make.fit(X, y, weight)
        rows = estimator._even(rows_of(fit, X, y, weight))
        assert (
            rows.weight.sum() == pytest.approx(rows.mass.sum()) and rows.weight[y == 0].sum() > rows.mass[y == 0].sum()
        )
        fitted = fit._fitted(fit._looked_at(rows, 0)[1], 0)
        space, Z = fitted.members[2].space, fitted.ground.encoder.encode(rows.table)
        design = space.design(fitted.terms.values(Z, fitted.instances, space.channels))
        D = np.column_stack([design, np.ones(600)])
        penalty = np.r_[np.full(design.shape[1], method.RIDGES[1]), 0.0]
        wanted = D @ fit_logistic(D, rows.targets[:, 0], rows.weight, penalty)
        np.testing.assert_allclose(fit.decision_function(X), wanted, atol=0.02)
        assert fit.blend_.max() == 1.0 and fit.predict_proba(X)[:, 1].mean() == pytest.approx(
            np.average(y, weights=weight), abs=0.05
        )

    def test_the_sample_has_the_shares_of_the_classes(self):
        X, y = table(3000)
        y = np.where(np.arange(3000) % 10 == 0, 1, 0)
        fit = TamisClassifier(2, 2, interactions=0, cv=2)
        rows = rows_of(fit, X, y)
        assert np.bincount(rows.codes[some_of_each_class(rows, 300, 5, 0)]).tolist() == [270, 30]

    def test_contributions_are_centred_by_sample_weights_alone(self):
        X, y = table(100)
        weight = np.random.default_rng(0).uniform(0.2, 3.0, 100)
        fit = TamisClassifier(4, 3, interactions=1, cv=2, class_weight={0: 5.0, 1: 1.0}).fit(X, y, weight)
        means = np.average(fit.explain(X).contributions, axis=0, weights=weight)
        np.testing.assert_allclose(means, 0.0, atol=1e-12)

    def test_folds_are_drawn_twice_where_rows_are_few(self, monkeypatch):
        X, y = table(40)
        assert TamisClassifier(2, 2, interactions=0, cv=2).fit(X, y).n_splits_ == 4
        rows = merge_rows(estimator._even(rows_of(TamisClassifier(), X, y)))
        fit = TamisClassifier(cv=2)
        first, _, second, _ = (set(test.position) for _, test in fit._splits(rows, rows, rows, 0))
        assert first != second
        monkeypatch.setattr(estimator, "FEW", 39)
        assert TamisClassifier(2, 2, interactions=0, cv=2).fit(X, y).n_splits_ == 2

    @pytest.mark.filterwarnings("ignore:calibration failed")
    def test_equal_members_leave_one_of_them_alone(self, monkeypatch):
        monkeypatch.setattr(estimator, "MOST", 20)
        with pytest.warns(UserWarning, match="kept no instance"):
            fit = TamisClassifier(2, 2, cv=2).fit(np.ones((60, 2)), np.arange(60) % 3)
        assert fit.blend_.sum() == 1.0

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
        assert not hasattr(clf.without_search().fit(X, y), "path_")
        assert path["accuracy"].shape == path["log_loss"].shape == (2, 2)
        assert path["accuracy"][1, 1] == path["accuracy"].max() and path["log_loss"][1, 1] == path["log_loss"].min()
        with pytest.raises(ValueError, match="max_features"):
            clf.path(X, y, max_features=(0,))
        again = clf.without_search().path(X, y, max_instances=(8,), max_features=(5,))
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
