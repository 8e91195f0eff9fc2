"""AbsentMKLClassifierCV: what it tries, chooses and tells."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from absent_problems import KERNELS, data, grams
from tamis import (
    AbsentMKLClassifier,
    AbsentMKLClassifierCV,
    per_feature,
    precomputed,
)


class TestSearch:
    def test_chooses_among_settings_on_held_out_rows(self):
        X, y, _ = data()
        clf = AbsentMKLClassifierCV(Cs=(0.1, 10.0), kernels=KERNELS, cv=3).fit(X, y)
        cells = set(
            zip(
                *(clf.cv_results_[f"param_{n}"].tolist() for n in ("program", "pattern_weight", "min_share")),
                strict=True,
            )
        )
        assert cells == {
            ("amkl", None, 0.0),
            ("amkl", None, 0.05),
            ("amkl", 0.5, 0.0),
            ("amkl", 1.0, 0.0),
            ("sum", None, 0.0),
        }
        assert len(clf.cv_results_["param_C"]) == 10 and clf.n_splits_ == 3
        best = np.argmin(clf.cv_results_["mean_test_log_loss"])
        assert clf.cv_results_["param_C"][best] == clf.C_ and clf.cv_results_["param_program"][best] == clf.program_
        single = clf.without_search()
        assert isinstance(single, AbsentMKLClassifier) and single.C == clf.C_
        apart = AbsentMKLClassifierCV(Cs=(10.0,), pattern_weights=(0.5,), kernels=KERNELS, cv=3).fit(X, y)
        for cell in range(10):  # what a cost scores does not depend on the others that are tried
            found = tuple(clf.cv_results_[f"param_{n}"][cell] for n in ("program", "pattern_weight", "C"))
            if found == ("amkl", 0.5, 10.0):
                ours, alone = clf.cv_results_["mean_test_log_loss"][cell], apart.cv_results_["mean_test_log_loss"][0]
                assert ours == pytest.approx(alone, rel=0.02)
        assert len(set(clf.cv_results_["mean_test_log_loss"].round(6))) >= 6
        np.testing.assert_allclose(
            single.set_params(calibration=None).fit(X, y).decision_function(X) - clf.decision_function(X),
            float(single.intercept_[0] - clf.intercept_[0]),
            atol=1e-9,
        )

    def test_settings_that_come_to_the_same_have_the_same_scores(self):
        X, y, _ = data()
        clf = AbsentMKLClassifierCV(Cs=(1.0,), kernels=KERNELS, cv=2, programs=("amkl", "zero_filling", "sum"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            clf.fit(np.nan_to_num(X), y)
        scores = clf.cv_results_["mean_test_log_loss"]
        assert len(set(scores[:-1])) == 1 and scores[-1] != scores[0]

    def test_patterns_can_matter(self):
        """A few complete samples, many with one weak channel: the weights of the paper are those of the former."""
        rng = np.random.default_rng(0)
        n = 160
        y = np.arange(n) % 2
        X = rng.normal(size=(n, 12)) + 0.7 * y[:, None]
        X[rng.random(X.shape) < 0.6] = np.nan
        X[:3] = rng.normal(size=(3, 12)) + 0.7 * y[:3, None]
        with pytest.warns(UserWarning, match="zero_filling"):
            strict = AbsentMKLClassifier(kernels=per_feature(), calibration=None).fit(X, y)
        shared = AbsentMKLClassifier(kernels=per_feature(), calibration=None, pattern_weight="share").fit(X, y)
        few, many = (1 / np.sum(clf.kernel_weights_**2) for clf in (strict, shared))
        assert many > few  # more channels are in use

    def test_extends_and_explains_as_the_single_one_does(self):
        X, y, present = data()
        K, at = grams(X, present), np.arange(90.0)[:, None]
        clf = AbsentMKLClassifierCV(Cs=(1.0,), kernels=precomputed(K, present=present), cv=2).fit(at, y)
        bigger = clf.extended(K[:, :2])
        np.testing.assert_allclose(
            bigger.decision_function([[90.0], [91.0]]), clf.decision_function(at[:2]), atol=1e-10
        )
        assert clf.explain(at[:3]).present.shape == (3, len(clf.kernels_))

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"Cs": ()}, "Cs"),
            ({"programs": "amkl"}, "programs='amkl'"),
            ({"pattern_weights": (2.0,)}, "pattern_weights=2.0"),
            ({"programs": ("direct",)}, "programs='direct'"),
            ({"min_shares": (-0.1,)}, "min_share=-0.1"),
        ],
    )
    def test_bad_grids_are_named(self, options, words):
        X, y, _ = data()
        with pytest.raises(ValueError, match=words):
            AbsentMKLClassifierCV(**options).fit(X, y)

    def test_absence_travels_through_cross_validation(self):
        X, y, _ = data(classes=3)
        scores = cross_val_score(AbsentMKLClassifier(kernels=KERNELS, calibration=None), X, y, cv=3)
        assert scores.mean() > 0.45  # one in three by chance
