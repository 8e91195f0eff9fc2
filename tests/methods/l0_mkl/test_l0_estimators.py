"""L0MKLClassifier, L0MKLClassifierCV and LinearL0SVC as users meet them."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tamis import (
    Epanechnikov,
    Gaussian,
    L0MKLClassifier,
    L0MKLClassifierCV,
    LinearL0SVC,
    Polynomial,
    Sigmoid,
    SimpleMKLClassifier,
    per_feature,
    per_group,
    precomputed,
)
from tamis.io import load, save
from tamis.kernels.bank import Channel, KernelBank
from tamis.methods.l0_mkl.estimator import feature_path
from tamis.optim.driver import Status
from tamis.optim.penalties import SCAD


def wide(n=60, d=300, seed=0):
    """Three of many features decide."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 7] - X[:, 50] + X[:, 200] + 0.2 * rng.normal(size=n) > 0, "ill", "well")
    return X, y


PLANTED = {7, 50, 200}


@pytest.fixture(scope="module")
def table():
    X, y = wide()
    return pd.DataFrame(X, columns=[f"gene {j}" for j in range(X.shape[1])]), y


@pytest.fixture(scope="module")
def fitted(table):
    return L0MKLClassifier().fit(*table)


class TestSelector:
    def test_support_names_and_columns_agree(self, table, fitted):
        X, _ = table
        mask = fitted.get_support()
        assert mask.shape == (300,) and set(np.flatnonzero(mask)) == set(fitted.features_)
        np.testing.assert_array_equal(fitted.get_support(indices=True), np.sort(fitted.features_))
        np.testing.assert_array_equal(fitted.transform(X), X.to_numpy()[:, mask])
        assert list(fitted.get_feature_names_out()) == [f"gene {j}" for j in np.flatnonzero(mask)]
        framed = L0MKLClassifier(calibration=None).set_output(transform="pandas").fit(*table).transform(X)
        assert list(framed.columns) == list(fitted.get_feature_names_out())

    def test_it_selects_for_another_classifier_in_a_pipeline(self):
        X, y = wide(120)
        pipe = make_pipeline(StandardScaler(), L0MKLClassifier(calibration=None), SVC())
        grid = GridSearchCV(pipe, {"l0mklclassifier__max_features": [1, 4]}, cv=2).fit(X, y)
        assert grid.best_params_["l0mklclassifier__max_features"] == 4
        assert grid.best_estimator_[:-1].transform(X).shape[1] <= 4

    def test_importances_of_all_features_serve_select_from_model(self, table, fitted):
        X, y = table
        importances = fitted.feature_importances_
        assert importances.shape == (300,) and importances.sum() == pytest.approx(100)
        np.testing.assert_array_equal(np.flatnonzero(importances), np.sort(fitted.features_))
        chosen = SelectFromModel(L0MKLClassifier(calibration=None), max_features=3, threshold=-np.inf).fit(X, y)
        assert set(chosen.get_support(indices=True)) <= set(fitted.features_)

    def test_linear_baseline_selects_too(self, table):
        X, y = table
        clf = LinearL0SVC("exp", theta=5.0, calibration=None).fit(X, y)
        assert clf.transform(X).shape[1] == len(clf.features_) < 20
        assert set(clf.feature_path_) == set(clf.features_) and len(PLANTED & set(clf.feature_path_[:5])) >= 2


class TestSelection:
    def test_planted_features_come_first_in_the_path(self, fitted):
        assert set(fitted.features_) >= PLANTED and len(fitted.features_) < 20
        assert set(fitted.feature_path_[:3]) == PLANTED
        assert set(fitted.feature_path_[: len(fitted.features_)]) == set(fitted.features_)

    @pytest.mark.parametrize("most", [1, 3, 5])
    @pytest.mark.parametrize("penalty", ["capped_l1", "l1"])
    def test_max_features_is_an_exact_cap(self, table, most, penalty):
        clf = L0MKLClassifier(0.01, penalty=penalty, max_features=most, calibration=None).fit(*table)
        assert len(clf.features_) == most
        assert len(clf.kernel_weights_) == most and clf.kernel_weights_.min() > 0

    def test_prediction_needs_the_kept_features_only(self, table, fitted):
        X, _ = table
        kept = {name: X[name] for name in fitted.get_feature_names_out()}
        np.testing.assert_allclose(fitted.decision_function(kept), fitted.decision_function(X), rtol=1e-12)
        spoiled = X.copy()
        spoiled.loc[:, ~fitted.get_support()] = 1e3
        np.testing.assert_array_equal(fitted.decision_function(spoiled), fitted.decision_function(X))

    @pytest.mark.parametrize("penalty", ["exp", "log", "capped_l1", "scad", "l1", SCAD(10.0, a=5.0)])
    @pytest.mark.parametrize("step", ["stationary", "ridge"])
    def test_every_penalty_finds_something_that_works(self, table, penalty, step):
        X, y = table
        clf = L0MKLClassifier(0.05, penalty=penalty, beta_step=step, rounds=1, calibration=None).fit(X, y)
        assert 0 < len(clf.features_) < 60 and clf.score(X, y) > 0.75

    def test_the_l1_version_keeps_more(self, table, fitted):
        assert len(L0MKLClassifier(penalty="l1", calibration=None).fit(*table).features_) > len(fitted.features_)

    def test_the_path_goes_on_beyond_a_cap(self, table):
        clf = L0MKLClassifier(0.02, max_features=2, calibration=None).fit(*table)
        assert set(clf.feature_path_[:2]) == set(clf.features_) and len(clf.feature_path_) > 4

    def test_classes_have_their_own_features_and_share_a_path(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(150, 40))
        y = np.argmax(X[:, [3, 11, 30]] + 0.1 * rng.normal(size=(150, 3)), axis=1)
        clf = L0MKLClassifier(max_features=3, calibration=None).fit(X, y)
        assert clf.kernel_weights_.shape == (3, len(clf.features_))
        assert np.count_nonzero(clf.kernel_weights_, axis=1).max() <= 3
        assert set(clf.feature_path_[:3]) == {3, 11, 30}
        bank = KernelBank(tuple(Channel(str(j), Sigmoid(), (j,)) for j in range(4)))
        assert feature_path([np.array([0, 1, 2]), np.array([3, 2, 0])], bank).tolist() == [0, 3, 1, 2]
        assert clf.score(X, y) > 0.8


class TestEngines:
    def test_all_give_the_same_model(self, table):
        X, y = table
        base = L0MKLClassifier(engine="dense", calibration=None).fit(X, y).decision_function(X)
        for engine in ("auto", "streaming", "chebyshev"):
            other = L0MKLClassifier(engine=engine, calibration=None).fit(X, y)
            np.testing.assert_allclose(other.decision_function(X), base, atol=1e-6)

    @pytest.mark.parametrize("engine", ["chebyshev", "streaming"])
    def test_memory_stays_far_below_that_of_all_gram_matrices(self, engine):
        X, y = wide(40, 4000)
        L0MKLClassifier(engine=engine, calibration=None, rounds=1).fit(X[:, :50], y)  # imports and caches
        tracemalloc.start()
        L0MKLClassifier(engine=engine, calibration=None).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.6 * 8 * 4000 * 40 * 40


class Turning:
    """A kernel that may go wrong after the fit."""

    wrong = False

    def __call__(self, S, T):
        K = np.tanh(0.1 * S @ T.T)
        return np.full_like(K, np.nan) if self.wrong else K


class TestKernels:
    @pytest.mark.parametrize(
        "kernel",
        [
            Sigmoid(0.1, 1.0),
            Gaussian(1.0),
            Polynomial(3, 1.0),
            Epanechnikov(2.0),
            lambda S, T: np.tanh(0.2 * S @ T.T) - 0.3,
        ],
    )
    def test_of_any_signature_on_each_feature(self, kernel):
        X, y = wide(100)
        X = X[:, [7, 50, 200, *range(6)]]
        clf = L0MKLClassifier(kernels=per_feature(kernel), calibration=None).fit(X, y)
        assert {0, 1, 2} <= set(clf.features_) and clf.score(X, y) > 0.8
        parts = clf.explain(X)
        np.testing.assert_allclose(parts.by_feature.sum(axis=2)[:, 0] + parts.base_value[0], clf.decision_function(X))

    def test_a_ridge_that_had_to_be_raised_is_told(self):
        X, y = wide(100)
        clf = L0MKLClassifier(kernels=per_feature(Sigmoid(1.0, 0.1)), calibration=None).fit(X[:, [7, 50, 200, 0]], y)
        assert clf.ridge_ > 0.1 and "raised to" in clf.summary()["ridge lambda1"]
        same = L0MKLClassifier(kernels=per_feature(Gaussian(1.0)), calibration=None).fit(X[:, [7, 50, 200, 0]], y)
        assert same.ridge_ == same.summary()["ridge lambda1"] == 0.1

    def test_on_groups_of_features(self):
        rng = np.random.default_rng(0)
        X = pd.DataFrame(rng.normal(size=(150, 6)), columns=list("abcdef"))
        y = (X["c"] * X["d"] > 0).astype(int)
        groups = {"left": ["a", "b"], "middle": ["c", "d"], "right": ["e", "f"]}
        clf = L0MKLClassifier(kernels=per_group(groups, Gaussian(1.0)), max_features=2, calibration=None).fit(X, y)
        assert list(clf.kernel_names_) == ["middle"] and clf.features_.tolist() == [2, 3]
        assert clf.feature_path_[:2].tolist() == [2, 3] and clf.score(X, y) > 0.9

    def test_that_are_precomputed(self):
        X, y = wide(60, 201)
        Z = X[:, [7, 50, 200, 0, 1]]
        stack = np.array([np.tanh(0.1 * np.outer(z, z) - 0.1) for z in Z.T])
        clf = L0MKLClassifier(kernels=precomputed(stack), calibration=None).fit(np.arange(60)[:, None], y)
        assert {0, 1, 2} <= set(clf.kernels_)

    def test_that_are_not_kernels_are_refused(self, table):
        X, y = table
        with pytest.raises(ValueError, match="not symmetric"):
            L0MKLClassifier(kernels=[("odd", lambda S, T: S - T.T, "gene 0")]).fit(X, y)
        with pytest.raises(ValueError, match="shape"):
            L0MKLClassifier(kernels=[("flat", lambda S, T: S[:, 0], "gene 0")]).fit(X, y)

    @pytest.mark.parametrize(
        ("kernel", "match"),
        [
            (lambda S, T: np.ones(3), r"shape \(3,\)"),
            (lambda S, T: (S @ T.T).tolist(), "list"),
            (lambda S, T: None, "NoneType"),
            (lambda S, T: np.full((len(S), len(T)), "a"), "array of numbers"),
            (lambda S, T: np.full((len(S), len(T)), np.nan), "NaN"),
            (lambda S, T: 1e200 * S @ T.T, "as large as"),
        ],
    )
    @pytest.mark.parametrize("step", ["stationary", "ridge"])
    def test_that_misbehave_are_refused_by_name(self, table, kernel, match, step):
        X, y = table
        with pytest.raises(ValueError, match=match) as caught:
            L0MKLClassifier(kernels=[("mine", kernel, "gene 0")], beta_step=step).fit(X, y)
        assert "'mine'" in str(caught.value)

    def test_that_give_nan_on_other_rows_are_refused_when_they_do(self, table):
        X, y = table
        broken = L0MKLClassifier(kernels=[("mine", Turning(), "gene 7")], calibration=None).fit(X, y)
        Turning.wrong = True
        try:
            with pytest.raises(ValueError, match=r"NaN or infinite for 60 rows.*'mine'"):
                broken.predict(X)
        finally:
            Turning.wrong = False

    def test_caps_hold_for_groups_that_differ_in_size(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 20))
        y = (X[:, :3].sum(axis=1) + X[:, 10] > 0).astype(int)
        groups = {"a": [0, 1, 2], "b": [2, 3], "c": list(range(10, 20))}
        recipe = per_group(groups, Polynomial(1, 0.0))
        clf = L0MKLClassifier(kernels=recipe, max_features=2, calibration=None).fit(X, y)
        assert list(clf.kernel_names_) == ["b"]
        clf = L0MKLClassifier(kernels=recipe, max_features=4, calibration=None).fit(X, y)
        assert set(clf.kernel_names_) <= {"a", "b"} and len(clf.features_) <= 4
        with pytest.raises(ValueError, match=r"max_features=1.*smallest group of columns has 2"):
            L0MKLClassifier(kernels=recipe, max_features=1).fit(X, y)

    def test_a_cap_on_precomputed_kernels_counts_kernels(self):
        X, y = wide(60, 201)
        stack = np.array([np.tanh(0.1 * np.outer(z, z) - 0.1) for z in X[:, [7, 50, 200, 0, 1]].T])
        options = {"kernels": precomputed(stack), "max_features": 2, "calibration": None}
        assert len(L0MKLClassifier(**options).fit(np.arange(60)[:, None], y).kernels_) == 2

    def test_indefinite_ones_are_refused_elsewhere_with_the_way_here(self, table):
        X, y = table
        with pytest.raises(ValueError, match="L0MKLClassifier"):
            SimpleMKLClassifier(kernels=per_feature(Sigmoid(0.1, 0.1))).fit(X, y)


class TestUnbounded:
    def test_the_published_step_gives_a_status_and_a_reason_in_place_of_a_model(self, table):
        X, y = table
        with pytest.warns(ConvergenceWarning, match="no minimum.*eigenvalue"):
            clf = L0MKLClassifier(beta_step="paper", calibration=None).fit(X, y)
        assert clf.status_ is Status.UNBOUNDED and "eigenvalue" in clf.reason_
        assert not len(clf.features_) and np.ptp(clf.decision_function(X)) == 0

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_on_positive_definite_kernels_it_comes_near_the_minimum_if_slowly(self, table):
        X, y = table
        few = X.iloc[:, [7, 50, 200, 1, 2]]
        ends = [
            L0MKLClassifier(kernels=per_feature(Gaussian(2.0)), beta_step=step, calibration=None).fit(few, y)
            for step in ("paper", "stationary")
        ]
        assert ends[0].status_ is not Status.UNBOUNDED and ends[0].score(few, y) > 0.9
        assert np.corrcoef(*(clf.decision_function(few) for clf in ends))[0, 1] > 0.98

    def test_published_units_depend_on_the_starting_weight(self, table):
        X, y = table
        fits = [
            L0MKLClassifier(units="published", start_weight=w, penalty="l1", theta=1.0, calibration=None).fit(X, y)
            for w in (None, 0.01)
        ]
        assert len(fits[0].features_) != len(fits[1].features_)
        with_two = L0MKLClassifier(2.0, units="published", penalty="l1", theta=1.0, calibration=None).fit(X, y)
        assert len(with_two.features_)  # as a share it would leave nothing


@pytest.fixture(scope="module")
def search(table):
    return L0MKLClassifierCV(cv=3, thetas=(3.0, 10.0), random_state=0).fit(*table)


class TestSearch:
    def test_chooses_from_what_it_was_given(self, table, search):
        assert search.lambda2_ in search.lambda2s and search.theta_ in search.thetas
        assert search.kernels_choice_ in ("sigmoid 0.1, 0.1", "sigmoid 0.1, 1.0", "sigmoid 0.3, 0.1")
        assert len(search.cv_results_["param_theta"]) == 3 * 2 * 5
        best = search.cv_results_["mean_test_log_loss"].min()
        where = np.flatnonzero(search.lambda2_path_["lambda2"] == search.lambda2_)[0]
        assert search.lambda2_path_["log_loss"][where] == pytest.approx(best)

    def test_its_model_is_that_of_the_chosen_parameters(self, table, search):
        X, y = table
        alone = search.without_search().set_params(calibration=None).fit(X, y)
        np.testing.assert_array_equal(alone.features_, search.features_)
        np.testing.assert_array_equal(alone.feature_path_, search.feature_path_)
        shift = alone.decision_function(X) - search.decision_function(X)
        np.testing.assert_allclose(shift, shift[0], atol=1e-9)

    def test_every_lambda1_has_its_own_first_machine(self, table):
        X, y = table
        clf = L0MKLClassifierCV((0.1,), (10.0,), (0.01, 3.0), cv=2, kernels=per_feature(Sigmoid(0.1))).fit(X, y)
        alone = L0MKLClassifierCV((0.1,), (10.0,), (3.0,), cv=2, kernels=per_feature(Sigmoid(0.1))).fit(X, y)
        second = np.flatnonzero(clf.cv_results_["param_lambda1"] == 3.0)[0]
        assert clf.cv_results_["mean_objective"][second] == pytest.approx(alone.cv_results_["mean_objective"][0])

    def test_l1_has_no_tightness_to_choose(self, table):
        clf = L0MKLClassifierCV((0.1,), (3.0, 30.0), penalty="l1", cv=2, kernels=per_feature(Sigmoid(0.1))).fit(*table)
        assert len(clf.cv_results_["param_theta"]) == 1

    def test_smaller_lambda2_keeps_more_features(self, search):
        sizes = search.lambda2_path_["n_features"]
        assert np.all(np.diff(search.lambda2_path_["lambda2"]) < 0) and sizes[0] < sizes[-1]

    def test_one_se_keeps_no_more(self, table, search):
        X, y = table
        sparse = L0MKLClassifierCV(cv=3, thetas=(3.0, 10.0), rule="one_se", random_state=0).fit(X, y)
        sizes = [
            clf.lambda2_path_["n_features"][clf.lambda2_path_["lambda2"] == clf.lambda2_][0] for clf in (sparse, search)
        ]
        assert sizes[0] <= sizes[1]

    @pytest.mark.filterwarnings("ignore:calibration failed")
    def test_scores_are_those_of_rows_that_were_held_out(self):
        """On labels without meaning the search must not look better than chance."""
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(60, 400)), np.arange(60) % 2
        clf = L0MKLClassifierCV(thetas=(10.0,), lambda2s=(0.1,), cv=3, kernels=per_feature(Sigmoid(0.1, 0.1))).fit(X, y)
        assert clf.cv_results_["mean_test_roc_auc"][0] < 0.7


class TestBadInput:
    @pytest.mark.parametrize(
        ("changes", "match"),
        [
            ({"lambda2": -0.1}, "lambda2=-0.1"),
            ({"lambda2": 1.5}, "units='published'"),
            ({"lambda1": 0.0}, "lambda1=0.0"),
            ({"theta": 0.0}, "theta=0.0"),
            ({"theta": 1e300}, "out of range"),
            ({"penalty": "l0"}, "penalty='l0'"),
            ({"penalty": "exact"}, "penalty='exact'"),
            ({"beta_step": "newton"}, "beta_step='newton'"),
            ({"units": "si"}, "units='si'"),
            ({"engine": "statistics"}, "engine='statistics'"),
            ({"rounds": 0}, "rounds=0"),
            ({"max_features": 0}, "max_features=0"),
            ({"start_weight": 0.0}, "start_weight=0.0"),
        ],
    )
    def test_is_named(self, table, changes, match):
        with pytest.raises(ValueError, match=match):
            L0MKLClassifier(**changes).fit(*table)

    @pytest.mark.parametrize(
        ("changes", "match"),
        [
            ({"lambda2s": ()}, "lambda2s"),
            ({"lambda2s": (0.1, 2.0)}, "lambda2=2.0"),
            ({"thetas": "3"}, "thetas='3'"),
            ({"kernels": {}}, "kernels={}"),
            ({"penalty": SCAD(10.0)}, "penalty="),
            ({"rule": "largest"}, "rule='largest'"),
            ({"scoring": "f1"}, "scoring='f1'"),
            ({"cv": 1}, "cv=1"),
        ],
    )
    def test_is_named_by_the_search(self, table, changes, match):
        with pytest.raises(ValueError, match=match):
            L0MKLClassifierCV(**changes).fit(*table)

    def test_weights_beyond_arithmetic_are_refused(self, table):
        X, y = table
        for weight in (1e-300, 1e300):
            with pytest.raises(ValueError, match="1 / lambda1"):
                L0MKLClassifier().fit(X, y, sample_weight=np.full(60, weight))

    def test_nothing_left_is_said(self, table):
        with pytest.warns(ConvergenceWarning, match=r"all coefficients became zero.*lower lambda2"):
            clf = L0MKLClassifier(lambda2=1.0, calibration=None).fit(*table)
        assert clf.status_ is Status.COLLAPSED
        with pytest.warns(UserWarning, match="No features were selected"):
            assert clf.transform(table[0]).shape == (60, 0)


def test_files_keep_what_was_learned(tmp_path, table):
    X, y = table
    for clf in (
        L0MKLClassifier(penalty=SCAD(10.0), calibration=2).fit(X, y),
        L0MKLClassifierCV(cv=2, lambda2s=(0.1,), thetas=(10.0,)).fit(X, y),
        LinearL0SVC("exact", calibration=2).fit(X, y),
    ):
        save(clf, tmp_path / "m.tamis")
        back = load(tmp_path / "m.tamis")
        np.testing.assert_array_equal(back.predict_proba(X), clf.predict_proba(X))
        np.testing.assert_array_equal(back.feature_path_, clf.feature_path_)
        np.testing.assert_array_equal(back.transform(X), clf.transform(X))


def test_weights_are_repetitions():
    X, y = wide(40, 220)
    weight = np.where(np.arange(40) % 4 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(40), weight.astype(int))
    for make in (L0MKLClassifier, LinearL0SVC):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one = make(calibration=None).fit(X, y, sample_weight=weight)
            two = make(calibration=None).fit(X[twice], y[twice])
        np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("make", [L0MKLClassifier, LinearL0SVC, SimpleMKLClassifier])
def test_on_few_rows_calibration_leaves_the_intercept_of_a_machine_where_it_is(make):
    X, y = wide(24, 201)
    X = X[:, [7, 50, 200, 0, 1]]
    both = [make(calibration=folds).fit(X, y) for folds in (3, None)]
    np.testing.assert_array_equal(both[0].decision_function(X), both[1].decision_function(X))
    lop = np.r_[np.arange(24)[y == "ill"], np.arange(24)[y == "well"][:4]]
    weighted = make(class_weight="balanced").fit(X[lop], y[lop])
    assert weighted.calibrator_.offset != 0.0  # probabilities speak of the population all the same
