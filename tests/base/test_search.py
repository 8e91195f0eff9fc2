"""The cross-validated search."""

from __future__ import annotations

import numpy as np
import pytest

import tamis
from tamis import EM2NOLCClassifierCV, per_feature, per_group, product

import zoo

ONE = {"bandwidths": (1.0,), "alphas": (0.01,)}


@pytest.fixture(scope="module")
def best():
    """A search that several tests look at."""
    return TestSearch().fit(*zoo.planted())


class TestSearch:
    def fit(self, X, y, **kw):
        groups = kw.pop("groups", None)
        defaults = {"max_instances": 6, "max_features": 4, "cv": 3, "bandwidths": (0.5, 1.0), "alphas": (0.01, 0.1)}
        return EM2NOLCClassifierCV(**{**defaults, **kw}).fit(X, y, groups=groups)

    def test_path_and_results_cover_the_grid(self, best):
        clf = best
        assert clf.path_["max_instances"].tolist() == [1, 2, 3, 4, 5, 6]
        for key in ("objective", "log_loss", "accuracy", "roc_auc"):
            assert clf.path_[key].shape == (6, 4) and np.isfinite(clf.path_[key]).all()
        J = clf.path_["objective"]
        assert np.all(np.diff(J, axis=0) <= 1e-9) and np.all(np.diff(J, axis=1) <= 1e-9)
        tried = set(zip(clf.cv_results_["param_bandwidth"], clf.cv_results_["param_alpha"]))
        assert tried == {(0.5, 0.01), (0.5, 0.1), (1.0, 0.01), (1.0, 0.1)}
        assert (clf.bandwidth_, clf.alpha_) in tried and clf.n_splits_ == 3

    def test_chosen_budgets_have_the_best_score_among_their_neighbours(self, best):
        clf = best
        padded = np.pad(clf.path_["log_loss"], 1, mode="edge")
        even = np.array([[padded[i : i + 3, j : j + 3].mean() for j in range(4)] for i in range(6)])
        assert even[clf.max_instances_ - 1, clf.max_features_ - 1] == pytest.approx(even.min())

    def test_largest_rule_keeps_the_budgets(self):
        X, y = zoo.planted()
        clf = self.fit(X, y, rule="largest", max_instances=4, max_features=3)
        assert (clf.max_instances_, clf.max_features_) == (4, 3) and clf.path_["accuracy"].shape == (4, 3)

    def test_one_standard_error_rule_prefers_smaller_models(self):
        best, small_one = (self.fit(*zoo.planted(), rule=rule, random_state=2) for rule in ("best", "one_se"))
        assert small_one.max_instances_ + small_one.max_features_ < best.max_instances_ + best.max_features_

    def test_full_budget_grid_tries_every_integer(self):
        X, y = zoo.planted()
        clf = self.fit(X, y, budgets="full", max_instances=8, max_features=2, **ONE)
        assert clf.path_["max_instances"].tolist() == list(range(1, 9))

    def test_variants_are_chosen_when_asked(self):
        X, y = zoo.xor(n=150)
        clf = self.fit(
            X,
            y,
            kernels={"additive": per_feature(), "product": product()},
            couplings=("rank_one", "full"),
            refits=("squared", "logistic"),
            max_instances=10,
            **ONE,
        )
        assert clf.kernels_choice_ == "product" and clf.score(X, y) > 0.8
        assert len(set(clf.cv_results_["param_coupling"])) == 2 and len(clf.features_) <= 4

    def test_groups_keep_copies_of_a_case_on_one_side(self):
        rng = np.random.default_rng(0)
        X = np.repeat(rng.normal(size=(40, 3)), 4, axis=0) + 1e-3 * rng.normal(size=(160, 3))
        y, groups = np.repeat(rng.integers(0, 2, 40), 4), np.repeat(np.arange(40), 4)
        kw = {"bandwidths": (0.1,), "alphas": (0.001,), "scoring": "accuracy", "max_instances": 20, "cv": 2}
        leaky, honest = self.fit(X, y, **kw), self.fit(X, y, groups=groups, **kw)
        assert leaky.path_["accuracy"].max() > honest.path_["accuracy"].max() + 0.05

    def test_a_product_of_all_features_is_found_by_the_search(self):
        X, y = zoo.xor(n=200, d=3)
        clf = self.fit(X, y, kernels={"single": per_feature(), "all": product("all")}, max_instances=10, **ONE)
        assert clf.kernels_choice_ == "all" and clf.score(X, y) > 0.8

    def test_explicit_folds_and_splitters(self):
        from sklearn.model_selection import KFold

        X, y = zoo.planted()
        kw = {"max_instances": 2, "max_features": 2, **ONE}
        explicit, splitter = (self.fit(X, y, cv=cv, **kw) for cv in (list(KFold(4).split(X)), KFold(4)))
        assert explicit.n_splits_ == splitter.n_splits_ == 4
        np.testing.assert_array_equal(explicit.path_["log_loss"], splitter.path_["log_loss"])

    @pytest.mark.parametrize("scoring", ["log_loss", "accuracy", "roc_auc"])
    def test_scoring(self, scoring):
        X, y = zoo.planted()
        clf = self.fit(X, y, scoring=scoring, **ONE)
        sign = -1 if scoring == "log_loss" else 1
        chosen = clf.path_[scoring][clf.max_instances_ - 1, clf.max_features_ - 1]
        assert sign * chosen >= np.median(sign * clf.path_[scoring])

    @pytest.mark.filterwarnings("ignore:calibration failed")
    def test_permuted_labels_give_chance_level(self):
        X, y = zoo.planted(n=200)
        clf = self.fit(X, np.random.default_rng(1).permutation(y), **ONE)
        assert clf.path_["accuracy"].mean() < 0.62

    def test_bandwidths_do_not_multiply_work_for_categories_alone(self):
        rng = np.random.default_rng(0)
        X = rng.integers(0, 3, size=(80, 4))
        clf = self.fit(X, (X[:, 0] > 0).astype(int), categorical_features=[0, 1, 2, 3])
        assert len(set(clf.cv_results_["param_bandwidth"])) == 1


def test_smoothing_averages_neighbours_and_repeats_the_edge():
    from tamis.base.search import Result, smoothed

    values = np.arange(6.0).reshape(2, 3)
    results = {(i, j): Result(np.zeros(1), 0.0, {"accuracy": values[i, j]}, 0.0) for i in range(2) for j in range(3)}
    out = smoothed(results, [[(i, j) for j in range(3)] for i in range(2)], "accuracy")
    assert out[0, 1].scores["accuracy"] == pytest.approx(np.mean([0, 1, 2, 0, 1, 2, 3, 4, 5]))
    assert out[1, 2].scores["accuracy"] == pytest.approx(np.mean([1, 2, 2, 4, 5, 5, 4, 5, 5]))


SEARCHES = {
    "EM2NOLCClassifierCV": {"max_instances": 4, "max_features": 2, "bandwidths": (1.0,), "alphas": (0.01,)},
    "L0MKLClassifierCV": {"lambda2s": (0.2,), "thetas": (10.0,)},
    "IMKPLClassifierCV": {"prototype_sizes": (2,), "kappas": (0.1,), "code_sizes": (None,)},
    "AbsentMKLClassifierCV": {"Cs": (1.0,), "programs": ("sum",)},
}


@pytest.mark.parametrize("name", SEARCHES)
class TestEverySearch:
    def fit(self, name, X, y, **kw):
        return getattr(tamis, name)(**{"cv": 2, **SEARCHES[name], **kw}).fit(X, y)

    def test_chooses_among_kernels(self, name, rng):
        X = rng.normal(size=(80, 3))
        y = (X[:, 0] > 0).astype(int)
        choices = {"noise": per_group({"c": [2]}), "signal": per_group({"a": [0]})}
        clf = self.fit(name, X, y, kernels=choices)
        assert clf.kernels_choice_ == "signal" and clf.score(X, y) > 0.9
        assert set(clf.cv_results_["param_kernels"]) == set(choices)
        single = clf.without_search()
        assert type(single).__name__ == name[:-2] and single.kernels is choices["signal"]
        assert single.fit(X, y).features_.tolist() == clf.features_.tolist() == [0]

    def test_kernels_without_a_choice(self, name, rng):
        X = rng.normal(size=(60, 2))
        clf = self.fit(name, X, X[:, 0] > 0, kernels=per_feature())
        assert clf.kernels_choice_ == "kernels" and clf.without_search().kernels == per_feature()

    def test_says_what_to_use_where_no_fold_can_be_made(self, name):
        with pytest.raises(ValueError, match=f"no fold can be made.*use {name[:-2]}$"):
            self.fit(name, np.arange(8.0)[:, None], [0] * 7 + [1])

    @pytest.mark.parametrize(
        ("kernels", "sentence"),
        [({}, "kernels={} is empty"), ({"a": 3}, "kernels=3 is neither"), ("rbf", "kernels='rbf' is neither")],
        ids=str,
    )
    def test_refuses_what_is_no_choice_without_data(self, name, kernels, sentence):
        with pytest.raises(ValueError, match=sentence):
            getattr(tamis, name)(kernels=kernels).check_parameters()


def test_a_second_fit_forgets_what_only_the_first_had_to_tell(rng):
    X = rng.normal(size=(40, 2))
    y = (X[:, 0] > 0).astype(int)
    stack = np.exp(-((X[:, None] - X) ** 2)).transpose(2, 0, 1)
    clf = TestEverySearch().fit("IMKPLClassifierCV", np.arange(40)[:, None], y, kernels=tamis.precomputed(stack))
    assert clf.n_items_ == 40
    clf.set_params(kernels=None).fit(X, y)
    assert not hasattr(clf, "n_items_")


class TestWhatEverySearchDoes:
    """Held by one method of each kind, as the lines are shared."""

    def data(self, rng, n=90):
        X = rng.normal(size=(n, 3))
        return X, (X[:, 0] + 0.8 * rng.normal(size=n) > 0).astype(int)

    def test_one_standard_error_takes_the_smallest_within_reach(self, rng):
        X, y = self.data(rng)
        Cs = (0.01, 0.1, 1.0, 10.0)
        best, small = (
            TestEverySearch().fit("AbsentMKLClassifierCV", X, y, Cs=Cs, rule=rule, cv=3) for rule in ("best", "one_se")
        )
        scores = best.cv_results_["mean_test_log_loss"]
        assert best.cv_results_["param_C"][np.argmin(scores)] == best.C_
        assert small.C_ < best.C_ or Cs[0] == best.C_
        assert small.C_ == 0.01  # all are within one error here
        again = TestEverySearch().fit("L0MKLClassifierCV", X, y, lambda2s=(0.01, 0.6), rule="one_se", cv=3)
        assert again.lambda2_ == 0.6

    def test_the_single_classifier_has_the_seed_that_was_drawn(self, rng):
        X, y = self.data(rng)
        clf = TestEverySearch().fit("IMKPLClassifierCV", X, y, random_state=np.random.RandomState(3))
        assert clf.without_search().random_state == clf.seed_ != 0

    def test_scores_are_those_of_machines_with_their_own_intercept(self, rng, monkeypatch):
        from tamis.base import search as searching

        X, y = self.data(rng)
        seen = []
        of = searching.Tests.of
        monkeypatch.setattr(
            searching.Tests, "of", lambda splits, placed: seen.append(placed) or of(splits, placed=placed)
        )
        TestEverySearch().fit("AbsentMKLClassifierCV", X, y)
        assert seen == [True]

    def test_a_failed_fit_leaves_the_earlier_one(self, rng):
        X, y = self.data(rng)
        clf = TestEverySearch().fit("AbsentMKLClassifierCV", X, y, kernels={"one": per_feature()})
        before = clf.decision_function(X)
        bad = per_feature(tamis.Sigmoid(5.0, 3.0))
        with pytest.raises(ValueError, match="positive semi-definite"):
            clf.set_params(kernels={"bad": bad, "one": per_feature()}).fit(X, y)
        assert clf.kernels_choice_ == "one"
        np.testing.assert_array_equal(clf.decision_function(X), before)

    def test_fixed_says_when_the_kernels_are_others(self, rng):
        X, y = self.data(rng)
        clf = TestEverySearch().fit("IMKPLClassifierCV", X, y, kernels={"a": per_feature()})
        with pytest.raises(ValueError, match="has no 'a', which the fit chose"):
            clf.set_params(kernels={"b": per_feature()}).without_search()

    def test_words_name_the_kernels_where_there_was_a_choice(self, rng):
        X, y = self.data(rng)
        for name in SEARCHES:
            clf = TestEverySearch().fit(name, X, y, kernels={"a": per_feature(), "b": per_group({"x": [0, 1]})})
            assert clf.summary()["kernels"] == clf.kernels_choice_

    def test_folds_of_ones_own_are_a_number_in_a_file(self, rng, tmp_path):
        from sklearn.model_selection import StratifiedKFold

        X, y = self.data(rng)
        clf = TestEverySearch().fit("AbsentMKLClassifierCV", X, y, cv=StratifiedKFold(3))
        tamis.io.save(clf, tmp_path / "a.tamis")
        assert tamis.io.load(tmp_path / "a.tamis").cv == 3

    def test_searches_over_precomputed_kernels_learn_of_further_items(self, rng):
        X, y = self.data(rng, 60)
        K = np.exp(-((X[:, None] - X) ** 2)).transpose(2, 0, 1)
        stack = tamis.precomputed(K[:, :50, :50])
        clf = TestEverySearch().fit("L0MKLClassifierCV", np.arange(50)[:, None], y[:50], kernels=stack)
        more = clf.extended(K[:, 50:, :50])
        whole = clf.without_search().set_params(kernels=tamis.precomputed(K), calibration=None)
        whole.fit(np.arange(50)[:, None], y[:50])
        guess = more.decision_function(np.arange(50, 60)[:, None])
        shift = guess - whole.decision_function(np.arange(50, 60)[:, None])
        np.testing.assert_allclose(shift, shift[0], atol=1e-6)

    @pytest.mark.parametrize("width", [-1.0, "mean", 0.0])
    def test_widths_are_checked_without_data(self, width):
        for clf in (tamis.EM2NOLCClassifier(bandwidth=width), EM2NOLCClassifierCV(bandwidths=(1.0, width))):
            with pytest.raises(ValueError, match="bandwidth="):
                clf.check_parameters()


def test_only_the_last_fit_of_a_search_is_logged(rng, caplog):
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    with caplog.at_level("INFO", logger="tamis"):
        clf = TestEverySearch().fit("IMKPLClassifierCV", X, y, prototype_sizes=(2, 3), verbose=1)
    assert len(caplog.records) == len(clf.history_)


def test_folds_without_rows_of_a_class_are_left_out():
    from tamis.table.folds import deal

    groups, codes = np.array([0, 0, 0, 0, 2, 2, 3]), np.array([1, 1, 0, 0, 0, 0, 1])
    with pytest.warns(UserWarning, match="1 of 2 folds are left out: their training part lacks a class"):
        pairs = deal(np.arange(7, dtype=np.uint64), codes, groups, 3, 0)
    assert len(pairs) == 1 and len(np.unique(codes[pairs[0][0]])) == 2
