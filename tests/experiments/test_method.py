"""Methods: tuning, fits and measures."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, roc_auc_score

from experiments.cells import NOT_CONVERGED, OK
from experiments.flagship import tamis as flagship
from experiments.method import decision, kept, measured, on_kernels, points, scores
from experiments.papers import PAPERS
from experiments.peers import majority, svc
from experiments.problem import Problem
from tamis import AverageMKLClassifier, SimpleMKLClassifier, bandwidths

from small_experiments import planted


def test_a_model_on_kernels_equals_the_model_on_the_table():
    here = planted()
    make = partial(AverageMKLClassifier, calibration=None)
    found = on_kernels(here, make, points(C=(1.0,)), "ten", bandwidths())
    direct = AverageMKLClassifier(C=1.0, calibration=None).fit(*here.train)
    np.testing.assert_allclose(
        found.model.decision_function(found.test), direct.decision_function(here.test[0]), atol=2e-3
    )
    assert kept(found)[1] == 3 and abs(kept(found)[0] - len(direct.instances_)) <= 1


def test_settings_are_chosen_on_folds():
    here = planted()
    seen = []

    def make(C, kernels):
        seen.append(C)
        return AverageMKLClassifier(C=C, kernels=kernels, calibration=None)

    found = on_kernels(here, make, points(C=(1e-6, 1.0)), "ten", bandwidths())
    assert found.chosen == {"C": 1.0} and len(seen) == 2 * 3 + 1


def test_test_rows_do_not_change_a_fit():
    here = planted()
    other = replace(here, X=here.X.copy(), memo={})
    other.X[40:] = 100.0
    for run in (svc, PAPERS["l01-svm"].methods["mean kernel"].run, PAPERS["em2nolc"].methods["EM2NOLC"].run):
        first, second = run(here, True), run(other, True)
        guess = [found.model.predict(found.train) for found in (first, second)]
        np.testing.assert_array_equal(*guess)
        assert first.chosen == second.chosen


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth, score = rng.integers(0, 2, 60), rng.normal(size=60)
    found = scores(truth, score > 0, score)
    assert found["accuracy"] == pytest.approx(100 * accuracy_score(truth, score > 0))
    assert found["f1"] == pytest.approx(100 * f1_score(truth, score > 0))
    assert found["mcc"] == pytest.approx(100 * matthews_corrcoef(truth, score > 0))
    assert found["auc"] == pytest.approx(100 * roc_auc_score(truth, score))
    assert found["ks"] == pytest.approx(100 * stats.ks_2samp(score[truth == 1], score[truth == 0]).statistic)
    many = scores(np.arange(9) % 3, np.arange(9) % 3, None)
    assert many["accuracy"] == many["f1"] == 100 and "auc" not in many


def test_instances_and_features_are_counted():
    here = planted()
    numbers, status, found = measured(here, svc, True)
    assert numbers["n_instances"] == len(found.model[-1].support_) and status == OK
    assert numbers["irr"] == pytest.approx(100 * (1 - numbers["n_instances"] / 40)) and numbers["frr"] == 0
    assert measured(here, majority, True)[0]["n_features"] == 0


def test_scores_of_probabilities_are_those_of_the_second_class():
    here = planted()
    model = LogisticRegression().fit(*here.train)
    by_decision = decision(model, here.test[0])

    class Probable:
        predict_proba = staticmethod(model.predict_proba)

    assert stats.spearmanr(by_decision, decision(Probable, here.test[0])).statistic == pytest.approx(1.0)


def test_a_fit_that_did_not_converge_has_that_status():
    here = planted()

    def short(problem, quick):
        make = partial(SimpleMKLClassifier, max_iter=1, tol=1e-12, calibration=None)
        return on_kernels(problem, make, points(C=(1.0,)), "ten", bandwidths())

    with pytest.warns(ConvergenceWarning):
        assert measured(here, short, True)[1] == NOT_CONVERGED


def test_series_are_flattened_for_methods_on_tables():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2, 4))
    y = np.arange(30) % 2
    X[y == 1] += 2.0
    here = Problem(X, y, 20, np.zeros(2, dtype=bool), None, 2, 0)
    numbers, _, found = measured(here, svc, True)
    assert found.test.shape == (10, 8) and numbers["frr"] == 0 and numbers["accuracy"] > 80
    assert 0 <= measured(here, flagship, True)[0]["frr"] <= 100
