"""What users of IMKPLClassifier see: prototypes, codes, explanations, tables with gaps, series."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import tamis
from tamis import Gaussian, IMKPLClassifier, IMKPLClassifierCV, Polynomial, alignment, per_feature, precomputed


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    return X, np.array(["Barolo", "Grignolino", "Barbera"])[y]


@pytest.fixture(scope="module")
def clf(wine):
    return IMKPLClassifier(prototype_size=3, calibration=2).fit(*wine)


def nine_channels(seed, n=48, steps=20):
    """The example of [Hosseini2019, Sect. 5.3]: four classes that three channels tell apart together, two of which are
    near copies, three weak channels, and two that are the same in all samples."""
    rng = np.random.default_rng(seed)
    y, t = np.arange(n) % 4, np.linspace(0, 1, steps)
    shapes = np.array([np.sin(2 * np.pi * t), np.cos(2 * np.pi * t), 4 * t * (1 - t), 2 * t - 1])
    X = np.empty((n, 9, steps))
    for series, c in zip(X, y, strict=True):
        weak = [(c + k) % 4 if rng.random() < 0.5 else rng.integers(4) for k in range(3)]
        told = [0 if c in (0, 1) else 1, 1 if c in (0, 2) else 2, 2 if c in (0, 3) else 3]
        series[:7] = shapes[[weak[0], weak[1], told[0], told[1], weak[2], told[2], told[2]]]
        series[:7] *= rng.uniform(0.8, 1.2, (7, 1))
        series[:7] += rng.normal(0, np.array([0.3, 0.3, 0.15, 0.15, 0.3, 0.15, 0.15])[:, None], (7, steps))
        series[6] = series[5] + rng.normal(0, 0.01, steps)
        series[7:] = shapes[[0, 3]]
    return X, y


@pytest.fixture(scope="module")
def on_series():
    X, y = nine_channels(0)
    return IMKPLClassifier(prototype_size=3, calibration=2).fit(X, y), X, y


# ---------------------------------------------------------------------- prototypes


def test_prototypes_are_pure_groups_of_real_samples(clf, wine):
    X, y = wine
    assert sum(clf.prototypes_per_class_.values()) == len(clf.prototypes_) <= 9
    for prototype, masses in zip(clf.prototypes_, clf.prototype_masses_.T, strict=True):
        own = y[prototype.instances] == prototype.label
        assert 1 <= len(prototype) <= 3 and np.all(prototype.weights > 0)
        assert prototype.purity == pytest.approx(prototype.weights[own].sum() / prototype.weights.sum())
        assert prototype.purity > 0.9 and masses.sum() == pytest.approx(prototype.weights.sum())
        assert np.all(np.diff(prototype.weights) <= 0)
        assert np.array_equal(prototype.instance_labels, X.index[prototype.instances])
    assert set(np.concatenate([p.instances for p in clf.prototypes_])) == set(clf.instances_)


def test_what_a_prototype_represents_is_in_the_codes(clf, wine):
    codes = clf.codes_.toarray()
    assert codes.shape == (178, len(clf.prototypes_)) and np.all(codes >= 0)
    assert np.count_nonzero(codes, axis=1).max() <= 3 and clf.code_violation_ < 1e-9
    for j, prototype in enumerate(clf.prototypes_):
        np.testing.assert_array_equal(prototype.represents, np.flatnonzero(codes[:, j]))
    mostly_own = [np.mean(wine[1][p.represents] == p.label) for p in clf.prototypes_]
    assert np.mean(mostly_own) > 0.8


def test_codes_of_rows_are_the_solutions_of_their_programs(clf, wine):
    X, _ = wine
    codes = clf.encode(X[:20]).toarray()
    expansion = clf.model_.expansion
    s = clf.kernel_matrix(X[:20], X.iloc[clf.instances_]) @ expansion.prototypes
    gradient = 2 * codes @ expansion.gram - 2 * s
    np.testing.assert_allclose(gradient[codes > 0], 0.0, atol=1e-9)
    free = np.count_nonzero(codes, axis=1) < 3
    assert np.all(gradient[free] > -1e-6)
    decision = clf.decision_function(X[:20])
    np.testing.assert_allclose(decision, codes @ clf.prototype_masses_.T, atol=1e-9)
    for j, rows in enumerate(clf.represented(X[:20])):
        assert set(rows) == set(np.flatnonzero(codes[:, j])) and np.all(np.diff(codes[rows, j]) <= 0)


def test_explanations_add_up_by_prototype_too_and_name_their_samples(clf, wine):
    X, _ = wine
    explanation = clf.explain(X[::30])
    decision = clf.decision_function(X[::30])
    np.testing.assert_allclose(explanation.by_prototype.sum(axis=2) + explanation.base_value, decision, atol=1e-10)
    np.testing.assert_allclose(explanation.by_instance.sum(axis=2) + explanation.base_value, decision, atol=1e-10)
    for row in range(len(decision)):
        shares = explanation.prototypes_of(row)
        np.testing.assert_allclose(sum(s.contribution for s in shares), decision[row], atol=1e-10)
        assert shares[0].code == pytest.approx(explanation.codes[row].max(), rel=0.5)
        told = clf.prototypes_[shares[0].prototype]
        assert [name for name, _ in shares[0].samples] == told.instance_labels.tolist()
        assert shares[0].label == told.label
    with pytest.raises(ValueError, match=r"row=99.*6 explained rows"):
        explanation.prototypes_of(99)


def test_a_sample_contributes_its_share_in_the_row(clf, wine):
    X, y = wine
    explanation = clf.explain(X[::20])
    shares = explanation.codes @ explanation.mixtures.T
    own = y[clf.instances_] == clf.classes_[:, None]
    np.testing.assert_allclose(explanation.by_instance, shares[:, None] * own, atol=1e-10)
    assert np.all(explanation.by_instance >= -1e-12)
    for mine, theirs in zip(clf.model_.expansion.split(clf.model_.encode(clf._table(X[::20]))),
                            (explanation.by_instance, explanation.by_kernel), strict=True):  # fmt: skip
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


def test_ties_between_prototypes_are_broken_alike_everywhere():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (120, 6)).astype(float)
    y = (X[:, 0] + X[:, 1] + (rng.random(120) < 0.2)).astype(int) % 3
    clf = IMKPLClassifier(4, weight_step="uniform", tau=5.0, calibration=None).fit(X, y)
    decision, explanation = clf.decision_function(X), clf.explain(X)
    np.testing.assert_allclose(explanation.decision, decision, atol=1e-9)
    np.testing.assert_allclose(explanation.by_prototype.sum(axis=2), decision, atol=1e-9)
    alone = np.concatenate([clf.decision_function(row[None]) for row in X])
    np.testing.assert_allclose(alone, decision, atol=1e-9)


def test_rows_that_resemble_nothing_are_told(wine):
    _, y = wine
    with pytest.warns(UserWarning, match=r"represent 3% of the training samples.*wider"):
        IMKPLClassifier(2, kernels=precomputed(np.eye(178)), calibration=None).fit(np.arange(178)[:, None], y)
    with pytest.raises(ValueError, match=r"'kernel 0' is not positive semi-definite: k\(x, x\) is -1"):
        IMKPLClassifier(kernels=precomputed(-np.eye(178))).fit(np.arange(178)[:, None], y)


def test_two_classes_have_one_output_whichever_is_positive(wine):
    X, y = wine
    two = y != "Barbera"
    clf = IMKPLClassifier(3, calibration=None).fit(X[two], y[two])
    other = clf.oriented("Barolo")
    np.testing.assert_allclose(other.decision_function(X), -clf.decision_function(X))
    assert [p.label for p in other.prototypes_] == [p.label for p in clf.prototypes_]
    for fitted in (clf, other):
        explanation = fitted.explain(X[:3])
        np.testing.assert_allclose(explanation.by_prototype.sum(axis=2), explanation.decision, atol=1e-10)


def test_measures_are_those_of_the_paper(clf, wine):
    X, y = wine
    found = clf.prototype_measures(X, y)
    assert found["accuracy"] == pytest.approx(100 * clf.score(X, y)) and found["accuracy"] > 93
    assert 60 < found["interpretability"] <= 100 and found["discrimination_at_one"] > found["discrimination"] > 50
    assert found["n_kernels"] == len(clf.kernels_) >= found["effective_kernels"] >= 1
    single = IMKPLClassifier(1, calibration=None).fit(X, y).prototype_measures(X, y)
    assert single["interpretability"] == pytest.approx(100.0)
    assert single["accuracy"] == single["accuracy_at_one"]


def test_a_larger_price_gives_tighter_prototypes(wine):
    loose, tight = (IMKPLClassifier(4, tau=tau, calibration=None).fit(*wine) for tau in (0.0, 5.0))
    sizes = [np.mean([len(p) for p in fitted.prototypes_]) for fitted in (loose, tight)]
    assert sizes[0] > sizes[1]
    measures = [fitted.prototype_measures(*wine)["interpretability"] for fitted in (loose, tight)]
    assert measures[0] < measures[1]


def test_the_learned_kernel_serves_other_methods(clf, wine):
    X, y = wine
    K = clf.kernel_matrix(X)
    np.testing.assert_allclose(np.diag(K), 1.0)
    assert np.array_equal(K.shape, (178, 178)) and np.linalg.eigvalsh(K)[0] > -1e-9
    np.testing.assert_allclose(K[:5, 5:9], clf.kernel_matrix(X[:5], X[5:9]), atol=1e-12)
    assert SVC(kernel="precomputed", C=10).fit(K, y).score(K, y) > 0.97


# ---------------------------------------------------------------------- features and kernels


def test_scaling_a_column_changes_nothing(clf, wine):
    X, y = wine
    other = X * np.linspace(0.1, 50, X.shape[1]) + 7
    again = IMKPLClassifier(3, calibration=2).fit(other, y)
    np.testing.assert_allclose(again.kernel_weights_, clf.kernel_weights_, atol=1e-6)
    np.testing.assert_array_equal(again.predict(other), clf.predict(X))


@pytest.mark.parametrize("rule", ["align", "uniform", "ball", "entropy", "lp"])
def test_constant_columns_get_no_weight(wine, rule):
    X, y = wine
    with_constants = X.assign(same=3.0, nearly=1e6 + 1e-9 * (np.arange(178) // 2 % 2), zero=0.0)[::2]
    clf = IMKPLClassifier(2, weight_step=rule, calibration=None, max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # three rounds do not converge
        clf.fit(with_constants, y[::2])
    assert clf.features_.max() < 13 and np.isfinite(clf.decision_function(with_constants)).all()


def test_nothing_but_constant_columns_is_no_crash():
    X, y = np.ones((12, 2)), np.arange(12) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = IMKPLClassifier(2, calibration=None).fit(X, y)
    assert np.isfinite(clf.decision_function(X)).all()


def test_a_limit_on_kernels_holds(wine):
    clf = IMKPLClassifier(3, max_kernels=2, calibration=None).fit(*wine)
    assert len(clf.kernels_) == len(clf.features_) == 2 and clf.score(*wine) > 0.75
    with pytest.raises(ValueError, match=r"max_kernels=2.*'uniform'"):
        IMKPLClassifier(max_kernels=2, weight_step="uniform").fit(*wine)


def test_kernels_without_a_unit_diagonal_are_normalised_and_that_is_said(wine):
    X, y = wine
    with pytest.warns(UserWarning, match=r"without ones on the diagonal.*normalised_kernels_"):
        clf = IMKPLClassifier(2, kernels=per_feature(Polynomial(2)), calibration=None).fit(X, y)
    assert len(clf.normalised_kernels_) == 13
    np.testing.assert_allclose(np.diag(clf.model_.expansion.gram), 1.0, atol=1e-9)
    explanation = clf.explain(X[:5])
    np.testing.assert_allclose(explanation.decision, clf.decision_function(X[:5]), atol=1e-10)


def test_indefinite_kernels_are_refused(wine):
    with pytest.raises(ValueError, match="not positive semi-definite"):
        IMKPLClassifier(kernels=per_feature(tamis.Sigmoid(2.0, 1.0))).fit(*wine)


def test_a_missing_cell_contributes_nothing(wine):
    X, y = wine
    holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.15)
    holes.iloc[4] = np.nan
    clf = IMKPLClassifier(3, calibration=None).fit(holes, y)
    assert clf.score(holes, y) > 0.85
    explanation = clf.explain(holes[:10])
    absent = holes[explanation.feature_names][:10].isna().to_numpy()
    assert absent.any() and not np.any(explanation.by_feature.transpose(0, 2, 1)[absent])
    np.testing.assert_array_equal(explanation.decision[4], clf.intercept_)


def test_more_samples_per_prototype_than_a_class_has(wine):
    X, y = wine
    few = np.r_[0:3, 60:100, 140:170]
    with pytest.warns(UserWarning, match=r"3 distinct samples, fewer than the 8 prototypes.*n_prototypes"):
        clf = IMKPLClassifier(8, calibration=None).fit(X.iloc[few], y[few])
    assert clf.prototypes_per_class_["Barolo"] >= 1 and clf.score(X.iloc[few], y[few]) > 0.9


def test_weights_of_classes_and_samples_count(wine):
    X, y = wine
    plain = IMKPLClassifier(2, calibration=None, tau=1.0).fit(X, y)
    heavy = IMKPLClassifier(2, calibration=None, tau=1.0, class_weight={"Grignolino": 50.0}).fit(X, y)
    count = [np.sum(fitted.predict(X) == "Grignolino") for fitted in (plain, heavy)]
    assert count[1] > count[0]
    twice = pd.concat([X, X[y == "Barbera"]])
    repeated = IMKPLClassifier(2, calibration=None).fit(twice, np.r_[y, y[y == "Barbera"]])
    weighed = IMKPLClassifier(2, calibration=None).fit(X, y, sample_weight=1.0 + (y == "Barbera"))
    np.testing.assert_allclose(repeated.decision_function(X), weighed.decision_function(X), atol=1e-8)
    assert repeated.codes_.shape[0] == len(twice)
    np.testing.assert_allclose(repeated.codes_.toarray()[178:], repeated.codes_.toarray()[:178][y == "Barbera"])


def test_samples_of_weight_zero_have_no_codes(wine):
    X, y = wine
    weight = np.ones(178)
    weight[::5] = 0.0
    clf = IMKPLClassifier(2, calibration=None).fit(X, y, sample_weight=weight)
    used = clf.codes_.toarray().any(axis=1)
    assert not used[::5].any() and np.mean(used[weight > 0]) > 0.9


def test_precomputed_kernels_and_their_new_items(wine):
    X, y = wine
    Z = ((X - X.mean()) / X.std(ddof=0)).to_numpy()
    stack = np.array([Gaussian(1.0)(Z[:, [k]], Z[:, [k]]) for k in range(13)])
    rows = np.arange(0, 150)
    order = np.random.default_rng(0).permutation(178)
    inner, outer = order[:150], order[150:]
    clf = IMKPLClassifier(3, kernels=precomputed(stack[np.ix_(np.arange(13), inner, inner)]), calibration=None)
    clf.fit(rows[:, None], y[inner])
    direct = IMKPLClassifier(3, kernels=precomputed(stack), calibration=None).fit(inner[:, None], y[inner])
    with pytest.raises(ValueError, match=r"np.tensordot\(clf.kernel_weights_"):
        clf.kernel_matrix(rows[:, None])
    extended = clf.extended(stack[np.ix_(np.arange(13), outer, inner)])
    new = extended.decision_function(np.arange(150, 178)[:, None])
    np.testing.assert_allclose(new, direct.decision_function(outer[:, None]), atol=1e-8)


def test_wrong_settings_are_refused_by_name(wine):
    for params, message in (
        ({"prototype_size": 0}, "prototype_size=0"),
        ({"lam": -1.0}, "lam=-1.0"),
        ({"mu": 1e300}, "mu=1e.300 must be a finite number of at least 0.0 and at most 1e.06"),
        ({"kappa": 1.0}, "kappa=1.0 must be below 1"),
        ({"weight_step": "best"}, "weight_step='best'.*'align'"),
        ({"start": "zero"}, "start='zero'"),
        ({"spread": 0.5, "weight_step": "ball"}, "spread=0.5"),
        ({"code_size": 1.5}, "code_size=1.5"),
    ):
        with pytest.raises(ValueError, match=message):
            IMKPLClassifier(**params).fit(*wine)
    with pytest.raises(ValueError, match="one class only"):
        IMKPLClassifier().fit(wine[0], np.zeros(178))


# ---------------------------------------------------------------------- files


def test_a_file_holds_the_prototypes_but_not_the_training_codes(clf, wine, tmp_path):
    path = tmp_path / "model.tamis"
    tamis.io.save(clf, path)
    again = tamis.io.load(path)
    np.testing.assert_array_equal(again.decision_function(wine[0]), clf.decision_function(wine[0]))
    assert [p.label for p in again.prototypes_] == [p.label for p in clf.prototypes_]
    assert again.prototypes_[0].represents is None
    with pytest.raises(AttributeError, match=r"not kept in files: use encode"):
        _ = again.codes_
    assert path.stat().st_size < 50_000


# ---------------------------------------------------------------------- series


def test_the_published_example_drops_constant_and_copied_channels(on_series):
    clf, _, _ = on_series
    new, truth = nine_channels(1)
    weights = np.zeros(9)
    weights[clf.kernels_] = clf.kernel_weights_
    assert clf.score(new, truth) == 1.0
    assert not weights[7:].any() and np.count_nonzero(weights[5:7]) == 1
    assert np.all(weights[2:4] > 0.15) and weights[5:7].sum() > 0.1
    assert clf.n_features_in_ == 9 and np.array_equal(clf.features_, clf.kernels_)


def test_explanations_of_series_add_up_by_channel(on_series):
    clf, X, _ = on_series
    explanation = clf.explain(X[:6])
    decision = clf.decision_function(X[:6])
    np.testing.assert_allclose(explanation.by_feature.sum(axis=2) + explanation.base_value, decision, atol=1e-10)
    np.testing.assert_allclose(explanation.by_prototype.sum(axis=2) + explanation.base_value, decision, atol=1e-10)
    assert explanation.feature_names == [f"channel {k}" for k in clf.kernels_]
    np.testing.assert_allclose(clf.predict_proba(X[:6]).sum(axis=1), 1.0)


def test_series_of_different_lengths_come_as_lists_or_with_nan(on_series):
    _, X, y = on_series
    lengths = 12 + np.arange(len(X)) % 9
    padded = np.where(np.arange(20) < lengths[:, None, None], X, np.nan)
    listed = [series[:, :length] for series, length in zip(X, lengths, strict=True)]
    one, two = (IMKPLClassifier(2, calibration=None).fit(form, y) for form in (padded, listed))
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(list(X)), atol=1e-12)
    longer = np.concatenate([X, X], axis=2)
    assert np.isfinite(one.decision_function(longer)).all()


def test_an_absent_channel_contributes_nothing(on_series):
    _, X, y = on_series
    holes = X.copy()
    for k in range(9):
        holes[k::11, k] = np.nan
    fitted = IMKPLClassifier(3, calibration=None).fit(holes, y)
    explanation = fitted.explain(holes[:20])
    absent = np.isnan(holes[:20, fitted.kernels_, 0])
    assert absent.any() and not np.any(explanation.by_feature.transpose(0, 2, 1)[absent])
    assert fitted.score(holes, y) > 0.9
    nothing = fitted.decision_function(np.full((1, 9, 5), np.nan))
    np.testing.assert_array_equal(nothing[0], fitted.intercept_)
    with pytest.raises(ValueError, match=r"sample 0 lacks channel 0.*missing='median'"):
        IMKPLClassifier(missing="median").fit(holes, y)


def test_series_are_kept_in_files(on_series, tmp_path):
    clf, X, _ = on_series
    tamis.io.save(clf, tmp_path / "model.tamis")
    again = tamis.io.load(tmp_path / "model.tamis")
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
    assert clf.series_.series.shape[0] == len(clf.instances_) and "channel" in clf._repr_html_()


def test_series_in_another_order_give_the_same_model():
    X, y = nine_channels(2, n=40, steps=20)
    one = IMKPLClassifier(2, calibration=None).fit(X, y)
    two = IMKPLClassifier(2, calibration=None).fit(X[::-1], y[::-1])
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-9)


def test_kernels_of_series_serve_other_methods(on_series):
    clf, X, _ = on_series
    K = clf.kernel_matrix(X[:30])
    np.testing.assert_allclose(np.diag(K), 1.0)
    np.testing.assert_allclose(K[:, :4], clf.kernel_matrix(X[:30], X[:4]), atol=1e-9)


def test_tables_and_series_are_not_mixed(on_series, wine):
    clf, X, y = on_series
    with pytest.raises(ValueError, match=r"fitted to series"):
        clf.predict(X[:, 0])
    with pytest.raises(ValueError, match=r"8 channels.*9"):
        clf.predict(X[:, :8])
    with pytest.raises(ValueError, match=r"not for series.*alignment"):
        IMKPLClassifier(kernels=per_feature()).fit(X, y)
    with pytest.raises(ValueError, match=r"alignment\(\) takes series"):
        IMKPLClassifier(kernels=alignment()).fit(*wine)
    X = X.copy()
    X[3, 2, 5] = np.nan
    with pytest.raises(ValueError, match=r"sample 3, channel 2"):
        IMKPLClassifier().fit(X, y)
    again = IMKPLClassifier(2, calibration=None).fit(nine_channels(0)[0], y).fit(*wine)
    assert not hasattr(again, "series_") and again.score(*wine) > 0.9


def test_kernels_of_series_are_computed_once_for_all_folds_and_settings(monkeypatch):
    import tamis.kernels.alignment as module

    X, y = nine_channels(0, n=32, steps=10)
    calls, compute = [], module.align
    monkeypatch.setattr(module, "align", lambda *args, **kwargs: calls.append(1) or compute(*args, **kwargs))
    clf = IMKPLClassifierCV((2, 3), kappas=(0.1, 0.4), cv=2).fit(X, y)
    assert len(calls) == 1 and clf.score(X, y) > 0.9
    assert clf.without_search().prototype_size == clf.prototype_size_


def test_a_cache_serves_a_search(tmp_path, monkeypatch):
    import tamis.kernels.alignment as module

    X, y = nine_channels(0, n=32, steps=10)
    calls, compute = [], module.align
    monkeypatch.setattr(module, "align", lambda *args, **kwargs: calls.append(1) or compute(*args, **kwargs))
    clf = IMKPLClassifier(2, kernels=alignment(cache=tmp_path), calibration=None)
    GridSearchCV(clf, {"tau": [0.1, 0.5, 1.0]}, cv=2, refit=False, error_score="raise").fit(X, y)
    assert len(calls) == 2  # one for each fold


# ---------------------------------------------------------------------- the search


def test_the_search_shares_kernels_over_settings(monkeypatch):
    from tamis.base.prototypes import PrototypeClassifier

    X, y = (part[::2] for part in load_iris(return_X_y=True))
    calls, ready = [], PrototypeClassifier._ready
    monkeypatch.setattr(PrototypeClassifier, "_ready", lambda self, *rest: calls.append(1) or ready(self, *rest))
    clf = IMKPLClassifierCV((2, 3), kappas=(0.0, 0.5), taus=(0.1, 1.0), code_sizes=(None, 1), cv=3).fit(X, y)
    assert len(calls) == 4  # three folds and the last fit
    assert len(clf.cv_results_["param_tau"]) == 16 and clf.n_splits_ == 3
    assert clf.score(X, y) > 0.93 and len(clf.prototypes_) and clf.codes_.shape[0] == 75
    chosen = {name: getattr(clf, f"{name}_") for name in ("prototype_size", "kappa", "tau", "code_size")}
    best = np.argmin(clf.cv_results_["mean_test_log_loss"])
    for name, value in chosen.items():
        assert clf.cv_results_[f"param_{name}"][best] == value
    single = clf.without_search().set_params(calibration=None).fit(X, y)
    assert single.code_size == clf.code_size_
    np.testing.assert_allclose(single.decision_function(X), clf.decision_function(X), atol=1e-9)
