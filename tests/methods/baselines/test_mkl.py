"""The multiple-kernel classifiers as users meet them: kernels of all kinds, weights, certificates, bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tamis import (
    AverageMKLClassifier,
    EasyMKLClassifier,
    EM2NOLCClassifier,
    FeatureScalingSVC,
    Gaussian,
    KernelBank,
    LassoADMM,
    LinearSVMADMM,
    Sigmoid,
    SimpleMKLClassifier,
    ZeroOneMKLClassifier,
    bandwidths,
    io,
    per_feature,
    precomputed,
    product,
    repaired,
)
from tamis.optim.driver import Status

import zoo

FOUR = (ZeroOneMKLClassifier, SimpleMKLClassifier, EasyMKLClassifier, AverageMKLClassifier)
four = pytest.mark.parametrize("cls", FOUR)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def stack_between(X, Y=None, widths=(0.5, 1.0, 3.0)):
    Y = X if Y is None else Y
    D = ((X[:, None] - Y[None]) ** 2).sum(-1)
    return np.stack([np.exp(-D / (2 * w**2)) for w in widths])


# ---------------------------------------------------------------------- kernels


@quiet
@four
def test_default_kernels_are_ten_gaussians_on_all_features(cls):
    X, y = zoo.planted(n=60, d=5)
    clf = cls(calibration=None).fit(X, y)
    assert set(clf.features_) == set(range(5))
    assert np.all(np.isin(clf.kernels_, np.arange(10)))
    assert clf.kernel_weights_.sum() == pytest.approx(1) and clf.kernel_weights_.min() > 0
    assert "width" in clf.kernel_names_[0]


@quiet
@four
@pytest.mark.parametrize("kernels", [per_feature(), product("all"), bandwidths([0.5, 2.0], on="both")])
def test_recipes_banks_and_lists_of_kernels_work(cls, kernels):
    X, y = zoo.planted(n=60, d=5)
    clf = cls(kernels=kernels, calibration=None).fit(X, y)
    f = clf.decision_function(X)
    np.testing.assert_allclose(clf.explain(X).decision[:, 0], f)
    weights, dual = clf.kernel_weights_, clf.dual_coef_
    Z = clf.model_.expansion
    by_hand = sum(
        w * channel(Z.instances, Z.instances) @ dual for w, channel in zip(weights, Z.bank.channels, strict=True)
    )
    np.testing.assert_allclose(by_hand + clf.intercept_, f[clf.instances_], atol=1e-8)


@quiet
@four
def test_precomputed_stacks_give_the_same_machine_as_features(cls):
    X, y = zoo.planted(n=80, d=5)
    Z = StandardScaler().fit_transform(X)
    rows = np.arange(80)[:, None]
    direct = cls(kernels=bandwidths([0.5, 1.0, 3.0]), calibration=None).fit(X, y)
    given = cls(kernels=precomputed(stack_between(Z)), calibration=None).fit(rows, y)
    np.testing.assert_allclose(given.decision_function(rows), direct.decision_function(X), atol=2e-3)
    assert given.kernel_names_[0].startswith("kernel")
    with pytest.raises(ValueError, match="no curve"):
        given.curve("x0")


@quiet
def test_precomputed_stacks_go_through_folds_searches_and_files(tmp_path):
    X, _ = zoo.planted(n=80, d=5)
    y = X[:, 0] > 0
    rows = np.arange(80)[:, None]
    clf = AverageMKLClassifier(kernels=precomputed({"near": stack_between(X)[0], "far": stack_between(X)[2]}))
    assert cross_val_score(clf, rows, y, cv=3).mean() > 0.6
    assert GridSearchCV(clf, {"C": [0.1, 10.0]}, cv=2).fit(rows, y).best_params_["C"] in (0.1, 10.0)
    clf.fit(rows[:50], y[:50])
    path = tmp_path / "m.tamis"
    io.save(clf, path)
    again = io.load(path)
    np.testing.assert_array_equal(again.decision_function(rows), clf.decision_function(rows))
    assert path.stat().st_size < 8 * 2 * 80 * 60
    with pytest.raises(ValueError, match="from a file"):
        clone(again).fit(rows, y)


def test_new_items_extend_a_precomputed_classifier():
    X, y = zoo.planted(n=90, d=5)
    K = stack_between(X)
    known = AverageMKLClassifier(kernels=precomputed(K[:, :60, :60]), calibration=None).fit(
        np.arange(60)[:, None], y[:60]
    )
    whole = AverageMKLClassifier(kernels=precomputed(K), calibration=None).fit(np.arange(60)[:, None], y[:60])
    later = known.extended(K[:, 60:, :60])
    rows = np.arange(60, 90)[:, None]
    np.testing.assert_allclose(later.decision_function(rows), whole.decision_function(rows), atol=1e-9)
    with pytest.raises(ValueError, match="position 60"):
        known.predict(rows)
    for bad in (K[:1, 60:, :60], K[0, 60:, :60], K[:, 60:, :50], np.concatenate([K, K])[:, 60:, :60]):
        with pytest.raises(ValueError, match=r"give \(3, n_new, 60\)"):
            known.extended(bad)
    with pytest.raises(ValueError, match="only a classifier with kernels=precomputed"):
        AverageMKLClassifier(calibration=None).fit(X, y).extended(K[:, 60:, :60])


@four
def test_an_indefinite_kernel_is_named_with_its_eigenvalue_and_the_ways_out(cls):
    X, y = zoo.planted(n=60, d=5)
    with pytest.raises(ValueError, match=r"'x0' is not positive semi-definite.*-\d.*L0MKLClassifier.*clip"):
        cls(kernels=per_feature(Sigmoid(1.0, 1.0))).fit(X, y)
    K = stack_between(X)
    K[1] -= 0.5 * np.eye(60)
    with pytest.raises(ValueError, match="'kernel 1' is not positive"):
        cls(kernels=precomputed(K)).fit(np.arange(60)[:, None], y)


@quiet
@pytest.mark.parametrize("how", ["clip", "flip", "shift"])
def test_repaired_kernels_are_accepted(how):
    X, y = zoo.planted(n=60, d=5)
    clf = SimpleMKLClassifier(kernels=repaired(per_feature(Sigmoid(1.0, 1.0)), how), calibration=None).fit(X, y)
    np.testing.assert_allclose(clf.explain(X).decision[:, 0], clf.decision_function(X))


# ---------------------------------------------------------------------- the machines


def test_the_mean_kernel_is_scikit_learns_machine():
    X, y = zoo.planted(n=100, d=5)
    Z = StandardScaler().fit_transform(X)
    K = stack_between(Z).mean(axis=0)
    own = AverageMKLClassifier(C=3.0, kernels=bandwidths([0.5, 1.0, 3.0]), calibration=None, tol=1e-7).fit(X, y)
    svc = SVC(kernel="precomputed", C=3.0, tol=1e-8).fit(K, y)
    np.testing.assert_allclose(own.decision_function(X), svc.decision_function(K), atol=1e-5)
    assert sorted(own.instances_) == sorted(svc.support_)


def test_sample_weights_multiply_the_cost_as_in_scikit_learn(rng):
    X, y = zoo.planted(n=100, d=5)
    weight = rng.uniform(0.2, 5, size=100)
    K = stack_between(StandardScaler().fit(X).transform(X)).mean(axis=0)
    kernels = precomputed(K)
    own = AverageMKLClassifier(kernels=kernels, calibration=None, tol=1e-7)
    own.fit(np.arange(100)[:, None], y, sample_weight=weight)
    svc = SVC(kernel="precomputed", tol=1e-8).fit(K, y, sample_weight=weight)
    np.testing.assert_allclose(own.decision_function(np.arange(100)[:, None]), svc.decision_function(K), atol=1e-4)


@quiet
@four
def test_class_weights_move_the_boundary(cls):
    X, y = zoo.planted(n=150, d=5)
    y = y * (np.arange(150) % 3 == 0)
    kernels = bandwidths([2.0])
    plain, heavy = (
        cls(kernels=kernels, class_weight=c, calibration=None).fit(X, y).predict(X).mean() for c in (None, {1: 20.0})
    )
    assert heavy >= plain


def test_simple_mkl_tells_its_gap_and_its_passes():
    X, y = zoo.planted(n=80, d=5)
    clf = SimpleMKLClassifier(kernels=bandwidths(on="each"), calibration=None, tol=1e-4).fit(X, y)
    assert clf.duality_gap_ <= 1e-4 and clf.history_.violation[-1] <= 1e-4
    assert 0 < clf.n_passes_ < 60 and len(clf.kernels_) < 50
    average = AverageMKLClassifier(kernels=bandwidths(on="each"), calibration=None).fit(X, y)
    assert clf.objective_ < average.objective_


def test_simple_mkl_finds_the_kernels_that_matter():
    X, y = zoo.planted(n=200)
    clf = SimpleMKLClassifier(kernels=per_feature(), calibration=None).fit(X, y)
    assert set(clf.features_[np.argsort(-clf.kernel_weights_)[:2]]) == {1, 4}


def test_easy_mkl_prefers_the_kernels_that_hold_the_classes_apart():
    X, y = zoo.planted(n=200)
    weights = EasyMKLClassifier(kernels=per_feature(), calibration=None).fit(X, y).kernel_weights_
    assert set(np.argsort(-weights)[:2]) == {1, 4}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_easy_mkl_says_when_no_kernel_tells_the_classes_apart():
    X = np.zeros((40, 2))
    X[::2] = 1e-9
    y = np.arange(40) // 2 % 2
    with pytest.warns(UserWarning, match="no kernel separates the classes"):
        EasyMKLClassifier(kernels=bandwidths([2.0, 3.0]), scaling=None, calibration=None).fit(X, y)


def test_the_certificate_of_a_fit_says_what_it_is():
    X, y = zoo.planted(n=80, d=8)
    clf = ZeroOneMKLClassifier(calibration=None).fit(X, y)
    assert clf.certificate_.worst < 1e-2 and clf.certificate_.gamma > 0
    assert clf.status_ in (Status.HARD_MARGIN, Status.CONVERGED)
    assert ("hard-margin" in clf.certificate_.words) == (clf.status_ is Status.HARD_MARGIN)
    assert list(clf.certificate_.residuals) == [
        "simplex",
        "constraint",
        "representation",
        "kernels",
        "balance",
        "proximity",
    ]
    many = ZeroOneMKLClassifier(calibration=None).fit(*zoo.three_classes(60))
    assert len(many.certificate_) == 3


def test_rows_are_given_up_where_that_is_cheaper():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] > 0).astype(int)
    wrong = rng.permutation(80)[:6]
    y[wrong] = 1 - y[wrong]
    clf = ZeroOneMKLClassifier(C=4.0, kernels=bandwidths([2.0]), calibration=None).fit(X, y)
    assert 1 <= clf.certificate_.n_given_up <= 20
    assert np.mean(clf.predict(X) == (X[:, 0] > 0)) > 0.9
    assert len(clf.instances_) < 40


def test_unconverged_fits_warn_and_dead_starts_are_named():
    X, y = zoo.planted(n=80, d=5)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        ZeroOneMKLClassifier(solver="admm", max_iter=30, tol=1e-12, calibration=None).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        SimpleMKLClassifier(max_iter=1, tol=1e-9, kernels=bandwidths(on="each"), calibration=None).fit(X, y)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        clf = ZeroOneMKLClassifier(C=0.5, solver="drop_and_refit", calibration=None).fit(X, y)
    assert clf.status_ is Status.DEAD_START
    assert any("class of larger weight" in str(w.message) for w in seen)


# ---------------------------------------------------------------------- bad input


@four
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0.0}, "C=0.0 must be a finite number above"),
        ({"C": -1.0}, "C=-1.0"),
        ({"tol": 0.0}, "tol=0.0"),
        ({"kernels": []}, "kernels is empty"),
        ({"kernels": KernelBank(())}, "kernels is empty"),
        ({"kernels": "rbf"}, "kernels='rbf'"),
        ({"kernels": [np.eye(40), np.eye(40)]}, "precomputed"),
        ({"kernels": np.ones((2, 40, 40))}, "precomputed"),
        ({"C": 1e300}, "C=1e"),
        ({"kernels": [("a", Gaussian(1.0), "nothing")]}, "which X does not have"),
    ],
)
def test_bad_parameters_are_named(cls, params, message):
    X, y = zoo.planted(n=40, d=5)
    with pytest.raises(ValueError, match=message):
        cls(**params).fit(X, y)


def test_penalties_that_cannot_leave_the_dead_start_are_refused():
    X, y = zoo.planted(n=60, d=5)
    with pytest.warns(ConvergenceWarning, match="class of larger weight"):
        ZeroOneMKLClassifier(C=2.0, solver="admm", calibration=None).fit(X, y, sample_weight=np.full(60, 0.5))
    with pytest.raises(ValueError, match="C / rho1 must be at least 2"):
        ZeroOneMKLClassifier(C=1.9).fit(X, y)
    rare = y * (np.arange(60) % 3 == 0)
    heavy = ZeroOneMKLClassifier(C=1.0, class_weight={1: 4.0}, calibration=None).fit(X, rare)
    assert len(heavy.instances_)


@quiet
@pytest.mark.parametrize("how", ["clip", "flip", "shift"])
def test_new_items_extend_repaired_kernels_too(how):
    X, y = zoo.planted(n=60, d=5)
    K = np.tanh(X @ X.T - 1.0)[None]
    known = AverageMKLClassifier(kernels=repaired(precomputed(K[:, :40, :40]), how), calibration=None)
    known.fit(np.arange(40)[:, None], y[:40])
    later = known.extended(K[:, 40:, :40])
    assert np.isfinite(later.decision_function(np.arange(60)[:, None])).all()
    np.testing.assert_allclose(
        later.decision_function(np.arange(40)[:, None]), known.decision_function(np.arange(40)[:, None])
    )


def test_verbose_reports_what_every_method_does(caplog):
    X, y = zoo.planted(n=40, d=5)
    for cls in FOUR:
        caplog.clear()
        with caplog.at_level("INFO", logger="tamis"):
            cls(verbose=1, calibration=None, kernels=bandwidths([1.0, 3.0])).fit(X, y)
        assert any("objective" in message for message in caplog.messages), cls


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 1.0}, "C / rho1 must be at least 2"),
        ({"C": 4.0, "rho1": 3.0}, "C / rho1 must be at least 2"),
        ({"rho1": 0.0}, "rho1=0.0"),
        ({"rho2": -1.0}, "rho2=-1.0"),
        ({"solver": "newton"}, "solver='newton'"),
        ({"d_step": "free"}, "d_step='free'"),
        ({"max_iter": 0}, "max_iter=0"),
    ],
)
def test_bad_parameters_of_the_zero_one_machine_are_named(params, message):
    X, y = zoo.planted(n=40, d=5)
    with pytest.raises(ValueError, match=message):
        ZeroOneMKLClassifier(**params).fit(X, y)


@pytest.mark.parametrize("lam", [0.0, 1.5, -1.0])
def test_bad_lam_is_named(lam):
    with pytest.raises(ValueError, match=f"lam={lam}"):
        EasyMKLClassifier(lam=lam).fit(*zoo.planted(n=40, d=5))


@four
def test_one_class_only_is_refused(cls):
    X, _ = zoo.planted(n=20, d=5)
    with pytest.raises(ValueError, match="one class only"):
        cls().fit(X, np.zeros(20))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda K: K[:, :, :-1], "square"),
        (lambda K: K + np.triu(np.ones_like(K[0]), 1), "not symmetric"),
        (lambda K: np.where(np.eye(len(K[0])) > 0, np.nan, K), "NaN"),
        (lambda K: K[:0], "empty"),
        (lambda K: [K[0], K[1][:5, :5]], "same items"),
    ],
)
def test_bad_stacks_are_named(spoil, message):
    X, _ = zoo.planted(n=20, d=5)
    with pytest.raises(ValueError, match=message):
        precomputed(spoil(stack_between(X)))


def test_positions_beyond_the_stack_are_named():
    X, y = zoo.planted(n=20, d=5)
    with pytest.raises(ValueError, match="position 20"):
        AverageMKLClassifier(kernels=precomputed(stack_between(X))).fit(np.arange(1, 21)[:, None], y)
    with pytest.raises(ValueError, match="must have one"):
        AverageMKLClassifier(kernels=precomputed(stack_between(X))).fit(X, y)


def test_a_kernel_that_gives_nan_is_named():
    X, y = zoo.planted(n=20, d=5)

    def broken(S, T):
        return np.full((len(S), len(T)), np.nan)

    with pytest.raises(ValueError, match="'broken' gives NaN"):
        SimpleMKLClassifier(kernels=[("broken", broken, ["x0"])]).fit(X, y)


@quiet
@four
def test_names_of_frames_reach_the_explanation(cls):
    X, y = zoo.planted(n=60, d=5)
    frame = pd.DataFrame(X, columns=["age", "size", "dose", "sugar", "iron"], index=[f"p{k}" for k in range(60)])
    clf = cls(kernels=per_feature(), calibration=None).fit(frame, y)
    explanation = clf.explain(frame.head(2))
    assert set(explanation.feature_names) <= set(frame.columns) and explanation.rows == ["p0", "p1"]
    assert set(explanation.instances) <= set(frame.index)


def test_budgets_work_on_precomputed_stacks_too():
    X, _ = zoo.planted(n=80, d=5)
    y = X[:, 0] > 0
    rows = np.arange(80)[:, None]
    clf = EM2NOLCClassifier(6, 1, kernels=precomputed(stack_between(X)), calibration=None).fit(rows, y)
    assert len(clf.instances_) <= 6 and clf.score(rows, y) > 0.8


def test_widths_and_values_out_of_range_are_named():
    X, y = zoo.planted(n=40, d=5)
    for width in (0.0, -2.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="bandwidth="):
            Gaussian(width)
    with pytest.raises(ValueError, match="bandwidth=1e"):
        FeatureScalingSVC(bandwidth=1e200).fit(X, y)
    with pytest.raises(ValueError, match="sample_weight"):
        EasyMKLClassifier().fit(X, y, sample_weight=np.full(40, 1e-300))
    for cls in (SimpleMKLClassifier, LinearSVMADMM, LassoADMM, FeatureScalingSVC):
        with pytest.raises(ValueError, match="too large to be squared"):
            cls(scaling=None).fit(1e200 * X, y)


def test_importances_of_linear_models_are_their_weights(cancer):
    X, y = cancer
    lasso = LassoADMM(alpha=0.05, calibration=None, tol=1e-8).fit(X, y)
    reference = Lasso(alpha=0.05, tol=1e-9).fit(StandardScaler().fit_transform(X), 2.0 * y - 1)
    np.testing.assert_array_equal(lasso.features_, np.flatnonzero(reference.coef_))
    np.testing.assert_allclose(lasso.kernel_weights_, reference.coef_[lasso.features_], atol=1e-4)
    np.testing.assert_allclose(np.abs(lasso.feature_importance_).sum(), 100)
    svm = LinearSVMADMM(C=0.1, calibration=None).fit(X, y)
    exact = SVC(kernel="linear", C=0.1).fit(StandardScaler().fit_transform(X), y)
    np.testing.assert_allclose(svm.kernel_weights_, exact.coef_[0], atol=0.02)


def test_a_constant_table_ends_at_the_dead_start():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = ZeroOneMKLClassifier(calibration=None).fit(np.ones((60, 3)), np.arange(60) >= 28)
    assert clf.status_ is Status.DEAD_START


def test_what_was_learned_can_be_told():
    X, y = zoo.planted(n=60, d=8)
    told = SimpleMKLClassifier(kernels=bandwidths([0.5, 2.0], on="each"), calibration=None).fit(X, y).summary()
    assert "width" in told["weights of kernels"] and told["duality gap"] <= 1e-3
    assert "margin" in ZeroOneMKLClassifier(calibration=None).fit(X, y).summary()["point"]
    assert "x" in FeatureScalingSVC(3, calibration=None).fit(X, y).summary()["factors"]
