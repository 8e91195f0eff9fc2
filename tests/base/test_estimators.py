"""What every registered estimator promises, and what EM2NOLC promises beyond that."""

from __future__ import annotations

import pickle
import warnings
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_classifiers_train, parametrize_with_checks

import tamis
from tamis import EM2NOLCClassifier, Sigmoid, all_estimators, bandwidths, per_feature, product
from tamis.explain import KernelExplanation

import zoo

SMALL = {
    "TamisClassifier": {"max_instances": 5, "max_features": 3, "max_pairs": 2, "cv": 2},
    "TamisRegressor": {"max_instances": 5, "max_features": 3, "max_pairs": 2, "cv": 2},
    "AbsentMKLClassifier": {"pattern_weight": "share"},
    "AbsentMKLClassifierCV": {"Cs": (1.0,), "pattern_weights": ("share",), "cv": 2},
    "ChannelBaselineClassifier": {"method": "max_margin"},
    "EM2NOLCClassifier": {"max_instances": 5, "max_features": 3},
    "EM2NOLCClassifierCV": {
        "max_instances": 5,
        "max_features": 3,
        "cv": 2,
        "bandwidths": (1.0,),
        "alphas": (0.01,),
    },
    "L0MKLClassifierCV": {"lambda2s": (0.1, 0.4), "thetas": (10.0,), "kernels": per_feature(Sigmoid(0.1)), "cv": 2},
    "FeatureScalingSVC": {"max_features": 3},
    "IMKPLClassifier": {"prototype_size": 3, "max_iter": 10},
    "IMKPLClassifierCV": {"prototype_sizes": (3,), "kappas": (0.1, 0.4), "max_iter": 5, "cv": 2},
    "KernelGLVQClassifier": {"max_iter": 20},
    "PrototypeSelectionClassifier": {"radius": 0.02},
    "ZeroOneMKLClassifier": {"max_iter": 30, "kernels": bandwidths([0.5, 2.0])},
}
QUICK = {"kernels": bandwidths([0.5, 2.0])}
CHECKED = {  # what scikit-learn's checks, some fifty fits each, need no more of
    "TamisClassifier": {"max_instances": 3, "max_features": 2, "max_pairs": 1},
    "TamisRegressor": {"max_instances": 3, "max_features": 2, "max_pairs": 1},
    "AbsentMKLClassifier": {"tol": 0.1},
    "AbsentMKLClassifierCV": {"programs": ("amkl",), "tol": 0.1},
    "EM2NOLCClassifier": {"max_instances": 2, "max_features": 2},
    "EM2NOLCClassifierCV": {"max_instances": 2, "max_features": 1},
    "L0MKLClassifier": {"rounds": 1},
    "L0MKLClassifierCV": {"rounds": 1, "lambda2s": (0.1,), "tol": 0.1},
    "ZeroOneMKLClassifier": {"solver": "admm", "max_iter": 5},
    "IMKPLClassifier": {"prototype_size": 2, "max_iter": 2},
    "IMKPLClassifierCV": {"prototype_sizes": (1,), "kappas": (0.1,), "max_iter": 2, "tol": 0.1},
    "KernelGLVQClassifier": {"n_prototypes": 2, "max_iter": 4, "tol": 0.05},
    "SimpleMKLClassifier": {**QUICK, "tol": 0.1},
    "EasyMKLClassifier": {**QUICK, "tol": 0.1},
    "AverageMKLClassifier": QUICK,
    "LinearSVMADMM": {"tol": 0.1},
}
UNCALIBRATED = {  # checks of scikit-learn that never ask for probabilities
    "check_class_weight_classifiers",
    "check_classifier_data_not_an_array",
    "check_classifiers_classes",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit_check_is_fitted",
    "check_fit_score_takes_y",
    "check_n_features_in",
    "check_non_transformer_estimators_n_iter",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_supervised_y_2d",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
}
OF_FIT = {  # a weight of two and a row given twice give the same fit; folds of a calibration are drawn over rows
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}
SINGLE = ("TamisClassifier", "EM2NOLCClassifier", "AbsentMKLClassifier", "IMKPLClassifier", "LassoADMM")  # by family
CALIBRATED = ("AverageMKLClassifier", "LassoADMM")  # calibrated in these checks too, by the lines that all share
SEARCHED = {
    "AbsentMKLClassifierCV": "max_iter",
    "IMKPLClassifier": "tau",
    "IMKPLClassifierCV": "max_kernels",
    "PrototypeSelectionClassifier": "radius",
    "KernelGLVQClassifier": "n_prototypes",
    "FeatureScalingSVC": "max_features",
    "L0MKLClassifier": "max_features",
    "L0MKLClassifierCV": "max_features",
    "LassoADMM": "alpha",
}


def small(name, **changes):
    cls = all_estimators()[name]
    folds = {"calibration": 2} if "calibration" in cls().get_params() else {}
    return cls(**{**folds, **SMALL.get(name, {}), **changes})


def planted():
    return zoo.planted(n=80)


def three_classes():
    return zoo.three_classes(n=90)


def budgeted(name):
    return "max_instances" in small(name).get_params()


def fitted(name, X, y, **changes):
    """A fit on a small problem; whether it converged is not the question here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return small(name, **changes).fit(X, y)


@cache
def fitted_to(data, name):
    """The fit that several tests look at and none changes."""
    return fitted(name, *data())


def uncalibrated(name):
    """Parameters of a quick fit, for tests of something else than probabilities."""
    return {"calibration": None} if "calibration" in small(name).get_params() else {}


def is_additive(clf):
    return all(len(features) == 1 for features in clf.model_.term_features)


CLASSIFIERS = all_estimators("classifier")
every = pytest.mark.parametrize("name", list(CLASSIFIERS))
every_budgeted = pytest.mark.parametrize("name", [name for name in CLASSIFIERS if budgeted(name)])


def expected_failures(estimator):
    """Checks of scikit-learn that cannot pass, with the reason."""
    if not isinstance(estimator, tamis.TamisClassifier | tamis.TamisRegressor):
        return {}
    reason = "only ratios of weights matter, while a row given twice is one more row for folds and penalties"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [small(name, **CHECKED.get(name, {})) for name in all_estimators()], expected_failed_checks=expected_failures
)
def test_scikit_learn_compatible(estimator, check):
    if check.func is check_classifiers_train and not check.keywords:
        pytest.skip("the same check on the same rows, in memory that cannot be written to, is here too")
    name = type(estimator).__name__
    if check.keywords.get("X_dtype") == "float32" and name not in SINGLE:
        pytest.skip("check_estimators_dtypes fits such rows too, and all methods see them as doubles")
    of_fit = check.func.__name__ in OF_FIT
    if of_fit or (check.func.__name__ in UNCALIBRATED and name not in CALIBRATED):
        estimator = clone(estimator).set_params(**uncalibrated(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@every
@pytest.mark.parametrize("data", [planted, three_classes])
def test_contributions_sum_to_decision(name, data):
    clf = fitted_to(data, name)
    X = data()[0][::4]
    explanation = clf.explain(X)
    decision = clf.decision_function(X).reshape(len(X), -1)
    np.testing.assert_allclose(explanation.decision, decision, atol=1e-10)
    of_kernels = ["by_instance", "by_kernel"] if isinstance(explanation, KernelExplanation) else []
    for split in ["by_part", *of_kernels, *(["by_feature"] if is_additive(clf) else [])]:
        total = getattr(explanation, split).sum(2) + explanation.base_value
        np.testing.assert_allclose(total, decision, atol=1e-10)
    frame = explanation.to_frame()
    total = frame.groupby(["row", "output"])["contribution"].sum().to_numpy().reshape(decision.shape)
    np.testing.assert_allclose(total, decision, atol=1e-10)


@every
def test_probabilities_rise_with_the_decision(name):
    X, _ = planted()
    clf = fitted_to(planted, name)
    order = np.argsort(clf.decision_function(X))
    assert np.all(np.diff(clf.predict_proba(X)[order, 1]) >= 0)


@every
def test_predicted_class_is_the_more_probable_one(name):
    X, _ = planted()
    y = (X[:, 1] + 0.3 * np.random.default_rng(0).normal(size=len(X)) > 0.6).astype(int)
    clf = fitted(name, X, y)
    p, f = clf.predict_proba(X)[:, 1], clf.decision_function(X)
    np.testing.assert_array_equal(clf.predict(X) == 1, f >= 0)
    assert np.all(p[f > 1e-12] >= 0.5) and np.all(p[f < -1e-12] <= 0.5)


@every
def test_same_seed_same_result_whatever_the_number_of_jobs(name):
    X, y = planted()
    quick = CHECKED.get(name, {})
    one, two = (fitted(name, X, y, random_state=3, n_jobs=n, **quick) for n in (None, 2))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    again = fitted(name, X, y, random_state=np.random.RandomState(3), **quick)
    assert np.isfinite(again.decision_function(X)).all()


@every
def test_permuting_rows_changes_nothing(name, rng):
    X, y = planted()
    order = rng.permutation(len(X))
    a, b = fitted_to(planted, name), fitted(name, X[order], y[order])
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-10)
    assert sorted(order[b.instances_]) == sorted(a.instances_)


@every_budgeted
def test_model_size_does_not_grow_with_the_data(name):
    if name == "TamisClassifier":
        pytest.skip("its tables have more cells where there are more values: see test_tamis_classifier.py")
    sizes = []
    for n, d in ((60, 5), (600, 5), (60, 40)):
        X, y = zoo.planted(n=n, d=d)
        clf = fitted(name, X, y, **CHECKED.get(name, {}))
        history = clf.__dict__.pop("history_")
        assert len(history.objective) <= 31
        for field in ("feature_names_in_", "path_", "cv_results_"):
            clf.__dict__.pop(field, None)
        sizes.append(len(pickle.dumps(clf)))
    assert max(sizes) < 1.3 * min(sizes), sizes


@every
def test_pickles_predict_the_same(name):
    X, _ = planted()
    clf = fitted_to(planted, name)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).decision_function(X), clf.decision_function(X))


@every
def test_explains_a_file_as_it_explains_rows_in_memory(name, tmp_path):
    pytest.importorskip("pyarrow")
    X, y = planted()
    X = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    model = fitted(name, X, y)
    X.to_parquet(tmp_path / "rows.parquet", row_group_size=17)
    found, wanted = model.explain(tmp_path / "rows.parquet"), model.explain(X)
    np.testing.assert_array_equal(found.decision, wanted.decision)
    for part in ("by_instance", "by_prototype", "present"):
        if hasattr(wanted, part):
            np.testing.assert_array_equal(getattr(found, part), getattr(wanted, part))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:calibration failed")
@pytest.mark.filterwarnings("ignore:TamisClassifier kept no feature")  # of 40 rows, two columns with bumps
@every
def test_works_in_pipelines_and_searches(name):
    X, y = planted()
    searched = "max_features" if budgeted(name) else SEARCHED.get(name, "C")
    values = [0.01, 0.1] if searched in ("alpha", "radius") else [2, 3]
    fewer = {"EM2NOLCClassifierCV": {"max_instances": 3}, "IMKPLClassifierCV": {"kappas": (0.1,)}}
    pipe = make_pipeline(StandardScaler(), small(name, **fewer.get(name, uncalibrated(name))))
    grid = {f"{name.lower()}__{searched}": values}
    search = GridSearchCV(pipe, grid, cv=2, refit=False, error_score="raise").fit(X, y)
    assert search.cv_results_["mean_test_score"].min() > 0.6


@every_budgeted
def test_budgets_hold_and_budgets_beyond_the_data_are_clipped_without_noise(name):
    X, y = zoo.planted(n=60)
    clf = small(name, max_instances=500, max_features=500).fit(X, y)
    assert len(clf.instances_) <= 60 and len(clf.features_) <= 8
    clf = small(name, max_instances=3, max_features=2).fit(X, y)
    assert len(clf.instances_) <= 3 and len(clf.features_) <= 2


@every
def test_frames_with_missing_cells_and_categories(name, rng):
    n = 100
    colour = rng.choice(["red", "green", "blue"], n)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "colour": colour,
            "flag": rng.uniform(size=n) > 0.5,
            "noise": rng.normal(size=n),
        },
        index=[f"case {k}" for k in range(n)],
    )
    y = np.where((colour == "red") | (frame["size"] > 1), "ill", "well")
    frame.loc[frame.index[::7], "size"] = np.nan
    frame.loc[frame.index[::11], "colour"] = None
    changes = uncalibrated(name) | ({"max_instances": 8} if budgeted(name) else {})
    clf = fitted(name, frame, y, **changes)
    assert clf.score(frame, y) > 0.85
    assert set(clf.instance_labels_) <= set(frame.index)
    assert list(frame.index[clf.instances_]) == list(clf.instance_labels_)
    assert any("colour" in part for part in clf.explain(frame.head(3)).parts)
    assert clf.explain(frame.head(3)).rows == ["case 0", "case 1", "case 2"]
    new = frame.head(4).assign(colour="violet", size=1e9)
    assert np.isfinite(clf.decision_function(new)).all()
    polars = pl.DataFrame({c: [None if pd.isna(v) else v for v in frame[c].tolist()] for c in frame})
    same = fitted(name, polars, y, **changes)
    np.testing.assert_allclose(same.decision_function(polars), clf.decision_function(frame))


@every
def test_three_classes_have_readable_results(name):
    X, y = three_classes()
    clf = fitted_to(three_classes, name)
    assert clf.decision_function(X).shape == clf.predict_proba(X).shape == (90, 3)
    assert clf.score(X, y) > 0.8
    assert len(clf.instances_per_class_) == 3
    assert set(np.concatenate(clf.instances_per_class_)) == set(clf.instances_)
    if hasattr(clf, "kernel_weights_"):
        assert clf.kernel_weights_.shape in ((3, len(clf.kernels_)), (len(clf.kernels_),))
        assert clf.instance_importance_.shape == (3, len(clf.instances_))
    if not budgeted(name):
        return
    assert all(len(i) <= 5 for i in clf.instances_per_class_)
    if "shared_support" not in clf.get_params():  # nor any other way
        assert len(clf.instances_) <= 5
        return
    shared = small(name, shared_support=True, max_instances=9).fit(X, y)
    assert shared.score(X, y) > 0.8 and len(shared.instances_) <= 9 and len(shared.features_) <= 3
    assert shared.kernel_weights_.shape == (len(shared.kernels_),)
    assert shared.dual_coef_.shape == (3, len(shared.instances_))


@every
def test_importances_are_signed_percentages(name):
    clf = fitted_to(planted, name)
    if not hasattr(clf, "kernel_weights_"):
        assert name == "TamisClassifier" and not hasattr(clf, "kernel_importance_")  # its coefficients are no products
        return
    for values in (clf.instance_importance_, clf.kernel_importance_):
        assert np.abs(values).sum() == pytest.approx(100)
    assert clf.kernel_variation_.sum() == pytest.approx(100)
    if not is_additive(clf):
        return
    assert np.abs(clf.feature_importance_).sum() == pytest.approx(100)
    assert not budgeted(name) or clf.feature_importance_[np.argmax(np.abs(clf.feature_importance_))] > 0
    assert clf.feature_variation_.sum() == pytest.approx(100) and clf.feature_variation_.min() >= 0
    assert len(clf.instance_variation_) == len(clf.instances_)


def test_kept_kernels_are_counted_in_the_whole_bank():
    X, y = zoo.planted()
    clf = EM2NOLCClassifier(5, 2, calibration=None).fit(X, y)
    assert clf.kernels_.tolist() == clf.features_.tolist() == [int(name[1:]) for name in clf.kernel_names_] != [0, 1]


@pytest.mark.parametrize("data", [zoo.planted, zoo.three_classes])
def test_a_feature_has_the_importance_of_all_its_kernels(data):
    X, y = data()
    clf = fitted("AverageMKLClassifier", X, y, kernels=bandwidths([0.5, 2.0], on="each"), calibration=None)
    for kind in ("importance", "variation"):
        of_kernels, of_features = (getattr(clf, f"{what}_{kind}_") for what in ("kernel", "feature"))
        np.testing.assert_allclose(of_features, of_kernels[..., ::2] + of_kernels[..., 1::2])


@pytest.mark.parametrize("name", ["EM2NOLCClassifier", "EM2NOLCClassifierCV", "LinearSVMADMM", "LassoADMM"])
def test_curves_are_what_the_feature_contributes(name):
    X, _ = planted()
    clf = fitted_to(planted, name)
    explanation = clf.explain(X)
    for place, feature in enumerate(clf.features_):
        _, values = clf.curve(int(feature), X[:, feature])
        np.testing.assert_allclose(values, explanation.by_feature[:, 0, place], atol=1e-10)
    grid, _ = clf.curve(int(clf.features_[0]))
    assert grid[0] == pytest.approx(X[:, clf.features_[0]].min())


@pytest.mark.parametrize("missing", ["absent", "median"])
def test_missing_cells_contribute_nothing_or_the_median(missing, rng):
    X, y = zoo.planted()
    X = X.copy()
    X[rng.uniform(size=X.shape) < 0.2] = np.nan
    clf = EM2NOLCClassifier(6, 4, missing=missing).fit(X, y)
    row = np.full((1, 8), np.nan)
    total = clf.explain(row).contributions.sum()
    assert (total == 0) == (missing == "absent")


@pytest.mark.parametrize("scaling", ["standard", "rank"])
def test_units_of_the_features_do_not_matter(scaling):
    X, y = zoo.planted()
    clf = EM2NOLCClassifier(5, 3, scaling=scaling)
    a = clf.fit(X, y).decision_function(X)
    moved = X * 1000 + 7
    np.testing.assert_allclose(clf.fit(moved, y).decision_function(moved), a, atol=1e-6)


def test_bandwidths_and_features_scale_together():
    X, y = zoo.planted()
    scale = np.arange(1.0, 9.0)
    a = EM2NOLCClassifier(5, 3, scaling=None, bandwidth=np.ones(8)).fit(X, y)
    b = EM2NOLCClassifier(5, 3, scaling=None, bandwidth=scale).fit(X * scale, y)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X * scale), atol=1e-8)


@pytest.mark.parametrize("engine", ["dense", "streaming"])
def test_engines_agree(engine):
    X, y = zoo.planted()
    clf = EM2NOLCClassifier(5, 3, engine=engine).fit(X, y)
    np.testing.assert_allclose(
        clf.decision_function(X), EM2NOLCClassifier(5, 3).fit(X, y).decision_function(X), atol=1e-9
    )


@pytest.mark.parametrize("coupling", ["rank_one", "full"])
@pytest.mark.parametrize("refit", ["squared", "logistic"])
def test_variants_keep_the_budgets(coupling, refit):
    X, y = zoo.planted()
    clf = EM2NOLCClassifier(5, 3, coupling=coupling, refit=refit).fit(X, y)
    assert len(clf.instances_) <= 5 and len(clf.features_) <= 3 and clf.score(X, y) > 0.85


def test_product_kernel_sees_interactions_that_additive_kernels_miss():
    X, y = zoo.xor(n=300)
    options = {"bandwidth": 0.7, "calibration": None}
    additive = EM2NOLCClassifier(20, 6, **options).fit(X[:200], y[:200]).score(X[200:], y[200:])
    clf = EM2NOLCClassifier(20, 6, kernels=product(), **options).fit(X[:200], y[:200])
    assert clf.score(X[200:], y[200:]) > max(0.8, additive + 0.15)
    assert len(clf.features_) <= 6 and any("x0" in n and "x2" in n for n in clf.kernel_names_)


@pytest.mark.parametrize("solver", ["splicing", "admm"])
def test_group_channels_count_all_their_features(solver):
    X, y = zoo.xor(n=120, d=10)
    clf = EM2NOLCClassifier(8, 3, kernels=per_feature() + product(), solver=solver, calibration=None).fit(X, y)
    assert len(clf.features_) <= 3


def test_a_group_channel_is_explained_by_its_name_and_not_split():
    X, y = zoo.xor(n=120)
    clf = EM2NOLCClassifier(8, 6, kernels=product("all")).fit(X, y)
    explanation = clf.explain(X[:4])
    assert explanation.kernels == ["x0 * x1 * x2 * x3 * x4 * x5"]
    with pytest.raises(ValueError, match="cannot be split"):
        _ = explanation.by_feature
    with pytest.raises(AttributeError, match="kernel_importance_"):
        _ = clf.feature_importance_
    with pytest.raises(ValueError, match="no curve"):
        clf.curve(0)


def test_banks_may_hold_both_kinds_of_channel_within_the_feature_budget():
    X, y = zoo.xor(n=150, d=10)
    clf = EM2NOLCClassifier(10, 4, kernels=per_feature() + product(), calibration=None).fit(X, y)
    assert len(clf.features_) <= 4


def test_kernels_by_name_and_columns():
    X, y = zoo.planted()
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    kernels = [("bump", tamis.Gaussian(0.7), "b"), ("pair", tamis.Laplacian(1.0), ["e", "f"])]
    clf = EM2NOLCClassifier(6, 3, kernels=kernels).fit(frame, y)
    assert set(clf.kernel_names_) <= {"bump", "pair"} and set(clf.features_) <= {1, 4, 5}


def test_class_weights_move_the_boundary():
    X, y = zoo.planted(n=300)
    y = y * (np.arange(300) % 3 == 0)
    plain, balanced = (EM2NOLCClassifier(6, 3, class_weight=c).fit(X, y).predict(X).mean() for c in (None, "balanced"))
    assert balanced > plain


def test_warm_start_begins_where_the_last_fit_ended():
    X, y = zoo.planted()
    clf = EM2NOLCClassifier(6, 3, warm_start=True).fit(X, y)
    first = clf.objective_
    clf.fit(X, y)
    assert clf.n_iter_ == 0 and clf.objective_ == pytest.approx(first)
    clf.set_params(max_instances=8).fit(X, y)
    assert clf.objective_ <= first
    assert clone(clf).fit(X[:50], y[:50]).n_iter_ > 0


@pytest.mark.filterwarnings("ignore:calibration failed")
def test_warm_start_from_another_kind_of_problem_is_a_cold_start():
    X, y = zoo.planted()
    clf = EM2NOLCClassifier(4, 2, warm_start=True).fit(X, y)
    clf.fit(X, np.arange(len(X)) % 3)
    assert clf.decision_function(X).shape == (len(X), 3)
    clf = EM2NOLCClassifier(4, 2, warm_start=True, bandwidth=1e5)
    with pytest.warns(UserWarning, match="kept no instance"):
        clf.fit(X, y)
    assert len(clf.set_params(bandwidth=1.0).fit(X, y).instances_)


def test_class_weights_do_not_distort_probabilities():
    X, y = zoo.planted(n=300)
    y = y * (np.arange(300) % 3 == 0)
    clf = EM2NOLCClassifier(6, 3, class_weight="balanced").fit(X, y)
    assert clf.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.05)


def test_without_calibration_there_are_no_probabilities():
    X, y = zoo.planted()
    clf = EM2NOLCClassifier(4, 2, calibration=None).fit(X, y)
    assert not hasattr(clf, "predict_proba") and clf.score(X, y) > 0.7


def test_candidate_pool_limits_who_can_be_kept():
    X, y = zoo.planted(n=200)
    clf = EM2NOLCClassifier(10, 3, candidates=12, random_state=0).fit(X, y)
    again = EM2NOLCClassifier(10, 3, candidates=12, random_state=0).fit(X, y)
    assert len(clf.instances_) <= 10 and clf.instances_.tolist() == again.instances_.tolist()
    few = EM2NOLCClassifier(10, 3, candidates=4, random_state=0).fit(X, y)
    assert len(few.instances_) <= 4


def test_unconverged_fits_warn_and_name_the_parameter():
    X, y = zoo.planted(n=200)
    with pytest.warns(UserWarning, match="max_iter"):
        EM2NOLCClassifier(10, 5, max_iter=1, tol=1e-12).fit(X, y)


def test_paper_solver_runs_and_says_when_it_has_not_converged():
    X, y = zoo.planted()
    with pytest.warns(UserWarning):
        clf = EM2NOLCClassifier(5, 3, solver="paper", max_iter=2).fit(X, y)
    assert np.isfinite(clf.decision_function(X)).all()
    assert EM2NOLCClassifier(5, 3, solver="admm").fit(X, y).score(X, y) > 0.8


def test_verbose_reports_rounds(caplog):
    X, y = zoo.planted()
    with caplog.at_level("INFO", logger="tamis"):
        EM2NOLCClassifier(4, 2, verbose=1, calibration=None).fit(X, y)
    assert any("objective" in message for message in caplog.messages)


def test_calibration_respects_groups():
    X, y = zoo.planted(n=90)
    clf = EM2NOLCClassifier(4, 2).fit(X, y, groups=np.repeat(np.arange(30), 3))
    assert np.isfinite(clf.predict_proba(X)).all()
