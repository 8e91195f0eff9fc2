"""Saved classifiers are the classifiers, whatever they were fitted to."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from tamis import (
    EM2NOLCClassifier,
    EM2NOLCClassifierCV,
    Job,
    Plan,
    Statistics,
    all_estimators,
    codec,
    io,
    per_feature,
    product,
    run,
)

from small_fits import SMALL, fitted, mixed, quick, same


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", list(all_estimators("classifier")))
class TestEveryEstimator:
    def test_save_and_load(self, name, tmp_path):
        X, _ = mixed()
        clf = fitted(name)
        io.save(clf, tmp_path / "m.tamis")
        again = io.load(tmp_path / "m.tamis")
        assert type(again) is type(clf)
        same(clf, again, X)
        for attribute in [a for a in vars(clf) if a.endswith("_") and not a.startswith("_")]:
            assert hasattr(again, attribute), attribute
        np.testing.assert_array_equal(again.instance_variation_, clf.instance_variation_)
        assert str(clone(again)) == str(clone(clf).set_params(random_state=0))

    def test_several_classes(self, name, tmp_path):
        X, y = (part[::3] for part in load_iris(return_X_y=True))
        clf = quick(name).fit(X, y)
        io.save(clf, tmp_path / "m.tamis")
        same(clf, io.load(tmp_path / "m.tamis"), X)

    def test_a_dict_of_the_kept_columns_is_enough(self, name):
        X, y = mixed()
        clf = quick(name, max_features=2).fit(X, y) if hasattr(fitted(name), "max_features") else fitted(name)
        kept = {str(c): X[c].to_numpy() for c in X.columns[clf.features_]}
        np.testing.assert_array_equal(clf.decision_function(kept), clf.decision_function(X))
        with pytest.raises(ValueError, match="X has no column"):
            clf.predict({"other": [1.0]})
        lists = {c: list(v[:3]) for c, v in kept.items()}
        np.testing.assert_array_equal(clf.predict(lists), clf.predict(X[:3]))

    def test_a_dict_can_be_fitted(self, name):
        X, y = mixed()
        columns = {c: X[c].to_numpy() if c != "c" else X[c].astype(object).to_numpy() for c in X.columns}
        one, two = fitted(name), quick(name).fit(columns, y)
        np.testing.assert_allclose(one.decision_function(X), two.decision_function(columns))
        assert two.feature_names_in_.tolist() == ["u", "v", "c"] and two.n_features_in_ == 3

    def test_fixed_needs_no_choice(self, name):
        X, y = mixed()
        clf = fitted(name)
        fixed = clf.without_search().fit(X, y)
        assert type(fixed).__name__ == name.removesuffix("CV")
        np.testing.assert_array_equal(fixed.features_, clf.features_)
        np.testing.assert_array_equal(fixed.instances_, clf.instances_)

    def test_seen_from_the_other_class(self, name):
        X, _ = mixed()
        clf = fitted(name)
        other = clf.oriented("no")
        assert clf.oriented("yes") is clf and other.classes_.tolist() == ["yes", "no"]
        np.testing.assert_array_equal(other.decision_function(X), -clf.decision_function(X))
        np.testing.assert_array_equal(other.predict(X), clf.predict(X))
        np.testing.assert_allclose(other.predict_proba(X)[:, ::-1], clf.predict_proba(X))
        np.testing.assert_array_equal(other.explain(X).by_part, -clf.explain(X).by_part)
        if hasattr(clf, "dual_coef_"):
            np.testing.assert_array_equal(other.instance_importance_, -clf.instance_importance_)
        with pytest.raises(ValueError, match="positive='maybe' is not one of two classes"):
            clf.oriented("maybe")


def test_probabilities_turn_with_class_weights_too():
    X, y = mixed(200)
    clf = EM2NOLCClassifier(**SMALL, class_weight={"yes": 5.0, "no": 1.0}).fit(X, y)
    assert abs(clf.calibrator_.offset) > 0.1
    np.testing.assert_allclose(clf.oriented("no").predict_proba(X)[:, ::-1], clf.predict_proba(X))


def test_a_model_is_small(cancer, tmp_path):
    X, y = (part[::5] for part in cancer)
    clf = EM2NOLCClassifierCV(bandwidths=(1.0,), alphas=(0.01,), cv=2, rule="largest").fit(X, y)
    assert len(clf.instances_) == len(clf.features_) == 20
    io.save(clf, tmp_path / "m.tamis")
    assert (tmp_path / "m.tamis").stat().st_size < 50_000


def test_size_does_not_follow_the_rows(tmp_path):
    sizes = []
    for n in (200, 2000):
        X, y = mixed(n)
        io.save(EM2NOLCClassifier(**SMALL, calibration=2).fit(X, y), tmp_path / "m.tamis")
        sizes.append((tmp_path / "m.tamis").stat().st_size)
    assert sizes[1] < 1.2 * sizes[0]


@pytest.mark.parametrize(
    "params",
    [
        {"kernels": per_feature() + product(), "coupling": "full"},
        {"scaling": "rank", "missing": "median"},
        {"random_state": np.random.RandomState(3)},
        {"class_weight": {"yes": 2.0, "no": 1.0}},
        {"refit": "logistic"},
        {"calibration": None},
    ],
    ids=lambda p: next(iter(p)),
)
def test_parameters_come_back(params, tmp_path):
    X, y = mixed()
    clf = EM2NOLCClassifier(**SMALL, **params).fit(X, y)
    io.save(clf, tmp_path / "m.tamis")
    again = io.load(tmp_path / "m.tamis")
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
    refit = clone(again).fit(X, y)
    np.testing.assert_allclose(refit.decision_function(X), clf.decision_function(X))


@pytest.mark.filterwarnings("ignore:cells beyond")
def test_partial_fits_go_on_after_loading(tmp_path):
    X, y = mixed(300)
    whole = EM2NOLCClassifier(**SMALL).partial_fit(X[:200], y[:200])
    io.save(whole, tmp_path / "m.tamis")
    again = io.load(tmp_path / "m.tamis").partial_fit(X[200:], y[200:])
    np.testing.assert_allclose(whole.partial_fit(X[200:], y[200:]).decision_function(X), again.decision_function(X))


def test_files_that_hold_something_else_are_refused(tmp_path):
    X, y = mixed()
    clf = EM2NOLCClassifier(**SMALL).fit(X, y)
    codec.write(tmp_path / "f", "model", 3)
    with pytest.raises(ValueError, match="holds a int, not an estimator"):
        io.load(tmp_path / "f")
    codec.write(tmp_path / "f", "statistics", 3)
    with pytest.raises(ValueError, match="holds a int, not statistics"):
        Statistics.load(tmp_path / "f")
    parts = clf.to_stored()
    for learned, match in (
        ({}, "has no model in it"),
        (parts["learned"] | {"predict": 1}, "'predict' is not something"),
    ):
        with pytest.raises(ValueError, match=match):
            EM2NOLCClassifier.from_stored({**parts, "learned": learned})


def test_what_cannot_be_saved_is_refused(tmp_path):
    X, y = mixed()

    class Mine:
        def __call__(self, S, T):
            return np.ones((len(S), len(T)))

    clf = EM2NOLCClassifier(**SMALL, kernels=[("own", Mine(), ["u"])], calibration=None)
    with pytest.warns(UserWarning, match="kept no instance"):
        clf.fit(X, y)
    with pytest.raises(ValueError, match="of the type Mine, which a file cannot hold"):
        io.save(clf, tmp_path / "m.tamis")
    with pytest.raises(ValueError, match="not an estimator of tamis"):
        io.save("model", tmp_path / "m.tamis")
    with pytest.raises(Exception, match="not fitted"):
        io.save(EM2NOLCClassifier(), tmp_path / "m.tamis")
    assert not list(tmp_path.iterdir())


FRESH = """
import os, sys
from tamis import Results, Statistics, io

for load, path in zip((io.load, Results.load, Statistics.load), sys.argv[1:], strict=True):
    child = os.fork()  # none of the three profits from what another one has imported
    if not child:
        load(path)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, load
"""


def test_a_fresh_process_knows_what_files_hold(tmp_path):
    X, y = mixed()
    results, stats = tmp_path / "results", tmp_path / "statistics"
    Statistics(Plan.of(X, y)).update(X, y).save(stats)
    run(X.assign(y=y), Job("y", method="EM2NOLCClassifier", max_instances=2, max_features=2)).save(results)
    done = subprocess.run([sys.executable, "-c", FRESH, results, results, stats], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
