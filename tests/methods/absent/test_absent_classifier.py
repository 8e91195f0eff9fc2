"""AbsentMKLClassifier and its search: absence in tables and stacks, classes, explanations, warnings."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from absent_problems import GROUPS, KERNELS, data, fit, grams
from tamis import (
    AbsentMKLClassifier,
    Polynomial,
    SimpleMKLClassifier,
    channels,
    io,
    per_feature,
    per_group,
    precomputed,
)
from tamis.kernels.base import Gaussian


class TestAbsence:
    def test_scores_are_those_of_the_channels_that_a_row_has(self):
        X, y, present = data()
        clf = fit(X, y, tol=1e-6)
        K = grams(X, present)
        coef = clf.model_.expansion.coef[0]
        by_hand = clf.intercept_ + sum(K[p][:, clf.instances_] @ coef[:, j] for j, p in enumerate(clf.kernels_))
        np.testing.assert_allclose(clf.decision_function(X), by_hand, atol=1e-9)

    @pytest.mark.parametrize("program", ["amkl", "mean_margin", "sum"])
    def test_a_table_a_stack_and_a_mask_say_the_same(self, program):
        X, y, present = data()
        by_table = fit(X, y, program=program, tol=1e-6)
        K = grams(X, present)
        at = np.arange(len(X), dtype=float)[:, None]
        poison = K.copy()
        for p in range(3):
            poison[p, ~present[:, p]] = poison[p][:, ~present[:, p]] = np.nan
        by_stack = fit(at, y, kernels=precomputed(poison), program=program, tol=1e-6)
        rubbish = np.where(np.isnan(poison), 1e6, poison)
        by_mask = fit(at, y, kernels=precomputed(rubbish, present=present), program=program, tol=1e-6)
        np.testing.assert_array_equal(by_stack.decision_function(at), by_mask.decision_function(at))
        np.testing.assert_allclose(by_table.decision_function(X), by_mask.decision_function(at), atol=1e-5)
        np.testing.assert_array_equal(by_table.patterns_, by_mask.patterns_)
        np.testing.assert_allclose(by_table.present_share_, present.mean(axis=0))

    def test_channels_with_a_mask_are_the_same_as_missing_cells(self):
        X, y, present = data()
        junk = np.where(np.isnan(X), 1e6, X)
        table, kernels = channels({name: junk[:, cols] for name, cols in GROUPS.items()}, present=present)
        one, two = fit(X, y), fit(table, y, kernels=kernels)
        np.testing.assert_array_equal(one.decision_function(X), two.decision_function(table))

    def test_one_missing_cell_takes_its_whole_channel_away(self):
        X, y, present = data()
        clf = fit(X, y)
        row = X[present[:, 1]][:1].copy()
        one, all_three = row.copy(), row.copy()
        one[0, 2] = np.nan
        all_three[0, 2:5] = np.nan
        assert clf.decision_function(one) == clf.decision_function(all_three) != clf.decision_function(row)

    def test_functions_of_users_never_meet_missing_cells(self):
        X, y, _ = data()

        def linear(S, T):
            assert not np.isnan(S).any() and not np.isnan(T).any()
            return S @ T.T + 1.0

        clf = fit(X, y, kernels=per_group(GROUPS, linear))
        same = fit(X, y, kernels=per_group(GROUPS, Polynomial(1, 1.0)))
        np.testing.assert_allclose(clf.decision_function(X), same.decision_function(X), atol=1e-6)

    def test_channels_that_a_problem_or_a_fold_lacks_leave_no_trace(self):
        X, y, _ = data(classes=3)
        X = X.copy()
        X[:, :2] = np.nan
        clf = fit(X, y)
        assert clf.kernel_names_.tolist() == ["b", "c"]
        for history, weights in zip(clf.history_, clf.kernel_weights_, strict=True):
            np.testing.assert_allclose(history.weights[-1] / history.weights[-1].sum(), weights, atol=1e-9)
        X[0, :2] = 1.0  # one row has it: a calibration fold does not
        AbsentMKLClassifier(kernels=KERNELS, pattern_weight="share").fit(X, y)
        only = data(classes=3)[0].copy()
        only[y != "z", :2] = np.nan
        assert fit(only, y, multiclass="one_vs_one").kernel_names_.tolist() == ["a", "b", "c"]

    def test_a_channel_that_no_sample_has_is_as_if_it_were_not_there(self):
        X, y, _ = data()
        X = X.copy()
        X[:, 5] = np.nan
        without = fit(X[:, :5], y, kernels=per_group({k: v for k, v in GROUPS.items() if k != "c"}), tol=1e-6)
        clf = fit(X, y, tol=1e-6)
        np.testing.assert_allclose(clf.decision_function(X), without.decision_function(X[:, :5]), atol=1e-9)
        assert clf.kernel_names_.tolist() == ["a", "b"]

    def test_without_absence_it_is_simple_mkl(self):
        X, y, _ = data()
        X = np.nan_to_num(X)
        ordinary = SimpleMKLClassifier(kernels=KERNELS, calibration=None, tol=1e-7).fit(X, y)
        clf = fit(X, y, tol=1e-7)
        assert clf.objective_ == pytest.approx(ordinary.objective_, rel=1e-6)
        np.testing.assert_allclose(clf.decision_function(X), ordinary.decision_function(X), atol=2e-3)

    def test_rows_without_anything_get_the_intercept_in_training_and_afterwards(self):
        X, y, _ = data(classes=3)
        X = X.copy()
        X[:2] = np.nan
        clf = AbsentMKLClassifier(kernels=KERNELS, calibration=3).fit(X, y)
        nothing = np.full((2, 6), np.nan)
        np.testing.assert_array_equal(clf.decision_function(nothing), np.tile(clf.intercept_, (2, 1)))
        explanation = clf.explain(np.vstack([nothing[:1], X[5:7]]))
        assert explanation.empty.tolist() == [True, False, False] and not explanation.contributions[0].any()
        assert np.isfinite(clf.predict_proba(nothing)).all()
        np.testing.assert_allclose(clf.predict_proba(nothing).sum(axis=1), 1.0)

    def test_filling_with_the_median_leaves_nothing_absent(self):
        X, y, _ = data()
        clf = fit(X, y, missing="median")
        assert clf.patterns_.tolist() == [[True, True, True]] and clf.present_share_.tolist() == [1, 1, 1]
        with pytest.raises(ValueError, match="missing"):
            fit(X, y, missing=None)

    def test_new_items_of_a_stack_may_lack_channels(self):
        X, y, present = data()
        K = grams(X, present)
        old, new = np.arange(60), np.arange(60, 90)
        stack = K[:, old][:, :, old]
        clf = fit(old[:, None].astype(float), y[old], kernels=precomputed(stack, present=present[old]), tol=1e-6)
        values = K[:, new][:, :, old]
        for p in range(3):
            values[p, ~present[new, p]] = np.nan
        bigger = clf.extended(values)
        at = np.arange(60, 90, dtype=float)[:, None]
        coef = clf.model_.expansion.coef[0]
        expected = clf.intercept_ + sum(
            K[p][np.ix_(new, clf.instances_)] @ coef[:, j] for j, p in enumerate(clf.kernels_)
        )
        np.testing.assert_allclose(bigger.decision_function(at), expected, atol=1e-10)
        np.testing.assert_array_equal(bigger.explain(at).present, present[new][:, clf.kernels_])

    def test_nothing_at_all_in_the_table_gives_the_larger_class(self):
        X = np.full((9, 2), np.nan)
        X[0, 0] = 1.0
        y = np.array([0, 1, 1, 0, 1, 1, 0, 1, 1])
        with pytest.warns(UserWarning):
            clf = AbsentMKLClassifier(calibration=None).fit(X, y)
        assert clf.predict(np.full((1, 2), np.nan)) == 1


class TestPrograms:
    @pytest.mark.parametrize(
        ("seed", "program", "C"), [(15, "mean_margin", 0.1), (37, "zero_filling", 100.0), (38, "zero_filling", 1.0)]
    )
    def test_values_that_repeat_do_not_stop_the_solver(self, seed, program, C):
        """Where rows are alike a machine has many solutions, and the slope at one of them may lead nowhere."""
        rng = np.random.default_rng(seed)
        n, m = int(rng.integers(30, 120)), int(rng.integers(3, 9))
        y = rng.integers(0, 2, n)
        X = np.round(rng.normal(size=(n, m)) + y[:, None] * rng.uniform(0, 1, m))
        X[rng.random((n, m)) < rng.uniform(0.2, 0.7)] = np.nan
        clf = fit(X, y, program=program, C=C, kernels=None)  # a run that has not converged warns, which is an error
        assert clf.status_.converged and clf.duality_gap_ <= 1e-3

    def test_few_rounds_are_enough_however_large_the_cost(self):
        rng = np.random.default_rng(1)
        y = rng.integers(0, 2, 150)
        X = rng.normal(size=(150, 8)) + 0.6 * y[:, None]
        X[rng.random(X.shape) < 0.3] = np.nan
        assert fit(X, y, C=1e4, kernels=None).n_iter_ <= 8

    def test_conic_and_alternating_agree(self):
        pytest.importorskip("clarabel")
        X, y, _ = data(n=60)
        for options in ({}, {"pattern_weight": 0.4}, {"program": "zero_filling"}):
            one, two = fit(X, y, tol=1e-7, **options), fit(X, y, solver="conic", **options)
            assert one.objective_ == pytest.approx(two.objective_, rel=1e-6)
            np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=2e-3)

    def test_conic_programs_see_every_pattern(self, monkeypatch):
        """However few rows a search would begin with."""
        pytest.importorskip("clarabel")
        X, y, _ = data(n=60)
        whole = [fit(X, y, program=p).objective_ for p in ("direct", "literal")]
        monkeypatch.setattr("tamis.optim.polytope.MAX_ROWS_AT_ONCE", 1)
        monkeypatch.setattr("tamis.optim.polytope.Polytope.first", lambda self: np.eye(self.rows.shape[1]))
        assert [fit(X, y, program=p).objective_ for p in ("direct", "literal")] == whole
        few = fit(X, y, solver="conic")
        assert few.objective_ == pytest.approx(fit(X, y, tol=1e-7).objective_, rel=1e-6)

    def test_conic_programs_take_kernels_of_any_size(self):
        pytest.importorskip("clarabel")
        X, y, present = data(n=60)
        K, at = grams(X, present), np.arange(60.0)[:, None]
        for program in ("amkl", "direct", "literal"):
            one, two = (
                fit(at, y, kernels=precomputed(K * f[:, None, None], present=present), program=program, solver="conic")
                for f in (np.ones(3), np.array([50.0, 0.02, 3.0]))
            )
            assert one.objective_ == pytest.approx(two.objective_, rel=1e-5)
            np.testing.assert_allclose(one.decision_function(at), two.decision_function(at), atol=1e-3)

    def test_sizes_and_shares_are_those_of_the_weights(self):
        X, y, present = data()
        K, at = grams(X, present), np.arange(90.0)[:, None]
        roots = 1.0 + 2.0 * (np.arange(90) % 2)
        uneven = K * np.array([np.ones((90, 90)), np.outer(roots, roots), np.outer(roots, roots)])
        weight = 1.0 + 3.0 * (np.arange(90) % 2)
        twice = np.repeat(np.arange(90), weight.astype(int))
        recipe = precomputed(uneven, present=present)
        one = AbsentMKLClassifier(kernels=recipe, calibration=None, program="sum").fit(at, y, sample_weight=weight)
        two = fit(at[twice], y[twice], kernels=recipe, program="sum")
        np.testing.assert_allclose(one.decision_function(at), two.decision_function(at), atol=1e-5)
        np.testing.assert_allclose(one.present_share_, present[twice].mean(axis=0))
        sizes = [
            np.average(np.diagonal(K)[here], weights=weight[here]) for K, here in zip(uneven, present.T, strict=True)
        ]
        np.testing.assert_allclose(one.kernel_weights_ * sizes, (one.kernel_weights_ * sizes)[0])

    def test_programs_of_the_paper_are_ordered(self):
        pytest.importorskip("clarabel")
        X, y, _ = data(n=60)
        values = [fit(X, y, program=p, tol=1e-7, C=2.0).objective_ for p in ("direct", "amkl", "zero_filling")]
        literal = fit(X, y, program="literal", C=2.0)
        assert values[0] < values[1] * (1 - 1e-6) and values[1] < values[2] and values[1] <= literal.objective_ + 1e-6
        weights = literal.model_.expansion.coef[0]
        np.testing.assert_allclose(weights, weights[:, :1] * np.ones((1, 3)))  # the decision knows no kernel weights

    def test_sizes_of_kernels_do_not_matter(self):
        X, y, present = data()
        K = grams(X, present)
        at = np.arange(len(X), dtype=float)[:, None]
        one = fit(at, y, kernels=precomputed(K, present=present), tol=1e-7)
        two = fit(at, y, kernels=precomputed(K * np.array([5.0, 0.2, 1.0])[:, None, None], present=present), tol=1e-7)
        np.testing.assert_allclose(one.decision_function(at), two.decision_function(at), atol=1e-3)
        assert one.objective_ == pytest.approx(two.objective_, rel=1e-6)

    def test_a_weight_of_two_is_two_equal_rows(self):
        X, y, _ = data()
        weight = 1.0 + (np.arange(len(X)) % 5 == 0)
        twice = np.repeat(np.arange(len(X)), weight.astype(int))
        for options in ({"program": "mean_margin"}, {"pattern_weight": 0.3}, {"min_share": 0.3}):
            one = AbsentMKLClassifier(kernels=KERNELS, calibration=None, tol=1e-6, **options)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                one, two = one.fit(X, y, sample_weight=weight), clone(one).fit(X[twice], y[twice])
            assert one.objective_ == pytest.approx(two.objective_, rel=1e-6)

    def test_one_complete_sample_is_told(self):
        X, y, _ = data()
        X = X.copy()
        X[4] = 0.5
        with pytest.warns(UserWarning, match="the same as 'zero_filling'"):
            clf = AbsentMKLClassifier(kernels=KERNELS, calibration=None).fit(X, y)
        assert clf.patterns_.tolist() == [[True, True, True]]
        np.testing.assert_array_equal(clf.decision_function(X), fit(X, y, program="zero_filling").decision_function(X))
        for options in (
            {"pattern_weight": "share"},
            {"pattern_weight": 1.0},
            {"min_share": 0.05},
            {"program": "zero_filling"},
        ):
            AbsentMKLClassifier(kernels=KERNELS, calibration=None, **options).fit(X, y)  # warnings are errors

    def test_one_channel_each_is_told(self):
        X, y, _ = data(absent=2)
        with pytest.warns(UserWarning, match="the same as 'sum'"):
            clf = AbsentMKLClassifier(kernels=KERNELS, calibration=None).fit(X, y)
        np.testing.assert_allclose(clf.decision_function(X), fit(X, y, program="sum").decision_function(X), atol=1e-8)

    def test_complete_tables_are_no_reason_to_warn(self):
        X, y, _ = data()
        AbsentMKLClassifier(kernels=KERNELS, calibration=2).fit(np.nan_to_num(X), y)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"program": "amk"}, "program='amk'"),
            ({"solver": "smo"}, "solver='smo'"),
            ({"program": "direct", "solver": "alternating"}, "needs solver='conic'"),
            ({"pattern_weight": 0.0}, "pattern_weight=0.0"),
            ({"pattern_weight": "mean"}, "pattern_weight='mean'"),
            ({"pattern_weight": True}, "pattern_weight=True"),
            ({"min_share": 1.5}, "min_share=1.5"),
            ({"program": "sum", "pattern_weight": 0.5}, "does not look at patterns"),
            ({"multiclass": "votes"}, "multiclass='votes'"),
            ({"C": 0}, "C=0"),
        ],
    )
    def test_bad_parameters_are_named(self, options, words):
        X, y, _ = data()
        with pytest.raises(ValueError, match=words):
            AbsentMKLClassifier(**options).fit(X, y)


class TestClasses:
    def test_one_against_one_sums_the_scores_of_pairs(self):
        X, y, _ = data(classes=3)
        clf = fit(X, y, multiclass="one_vs_one", scaling=None, tol=1e-6, kernels=per_group(GROUPS, Gaussian(2.0)))
        expected = np.zeros((len(X), 3))
        for c, d in ((0, 1), (0, 2), (1, 2)):
            rows = np.isin(y, clf.classes_[[c, d]])
            pair = fit(X[rows], y[rows], scaling=None, tol=1e-6, kernels=per_group(GROUPS, Gaussian(2.0)))
            low, high = np.nanmin(X[rows], axis=0), np.nanmax(X[rows], axis=0)
            inside = np.all(np.isnan(X) | ((low <= X) & (high >= X)), axis=1)  # others are clipped to what a fit saw
            score = np.where(inside, pair.decision_function(X), np.nan)
            expected[:, c] -= score
            expected[:, d] += score
        known = ~np.isnan(expected).any(axis=1)
        assert known.sum() > 50
        np.testing.assert_allclose(clf.decision_function(X)[known], expected[known], atol=1e-3)

    @pytest.mark.parametrize("multiclass", ["one_vs_rest", "one_vs_one"])
    def test_explanations_add_up_for_every_pattern(self, multiclass):
        X, y, present = data(classes=3)
        clf = AbsentMKLClassifier(kernels=KERNELS, multiclass=multiclass, calibration=2).fit(X, y)
        explanation = clf.explain(X)
        np.testing.assert_allclose(explanation.decision, clf.decision_function(X), atol=1e-10)
        np.testing.assert_allclose(
            explanation.by_kernel.sum(axis=2) + explanation.base_value, clf.decision_function(X), atol=1e-10
        )
        np.testing.assert_array_equal(explanation.present, present)
        assert not explanation.by_kernel.transpose(0, 2, 1)[~present].any()
        assert clf.score(X, y) > 0.7 and clf.predict_proba(X).shape == (len(X), 3)

    def test_two_classes_are_one_problem_either_way(self):
        X, y, _ = data()
        one, two = fit(X, y), fit(X, y, multiclass="one_vs_one")
        np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


class TestExplanation:
    def test_absent_channels_come_with_their_typical_contribution(self):
        X, y, present = data()
        clf = fit(X, y)
        explanation = clf.explain(X)
        by_kernel = explanation.by_kernel[:, 0]
        for k, p in enumerate(clf.kernels_):
            expected = np.quantile(by_kernel[present[:, p], k], [0.05, 0.5, 0.95])
            np.testing.assert_allclose(clf.channel_ranges_[0, k], expected, atol=1e-9)
        row = int(np.flatnonzero(~present[:, 1])[0])
        shares = {share.channel: share for share in explanation.channels_of(row)}
        assert not shares["b"].present and shares["b"].contribution == 0 and np.ptp(shares["b"].typical) > 0
        told = explanation.channels_of(row)
        assert [share.present for share in told] == [True, True, False]
        assert abs(told[0].contribution[0]) >= abs(told[1].contribution[0])
        low, _, high = shares["b"].typical[0]
        assert explanation.absence(row) == f"b ({low:+.2g} to {high:+.2g})"
        frame = explanation.to_frame()
        gone = frame[(frame["row"] == row) & (frame["kernel"] == "b")]
        assert not gone["present"].any() and not gone["contribution"].any()
        assert frame.groupby("row")["contribution"].sum().to_numpy() == pytest.approx(explanation.decision[:, 0])
        assert shares["a"].contribution == pytest.approx(by_kernel[row, 0])
        with pytest.raises(ValueError, match="row=90"):
            explanation.channels_of(90)

    def test_what_a_rare_channel_contributes_is_known_too(self):
        rng = np.random.default_rng(0)
        y = np.arange(900) % 2
        X = rng.normal(size=(900, 2)) + y[:, None]
        rare = np.array([1, 2, 4, 5, 7, 8])  # a sample of every third row misses these
        X[np.setdiff1d(np.arange(900), rare), 1] = np.nan
        clf = fit(X, y, kernels=per_feature(), pattern_weight=1.0, C=10.0)
        by_kernel = clf.explain(X[rare]).by_kernel[:, 0, 1]
        np.testing.assert_allclose(clf.channel_ranges_[0, 1], np.quantile(by_kernel, [0.05, 0.5, 0.95]))
        assert np.ptp(clf.channel_ranges_[0, 1]) > 0

    def test_is_shown_in_notebooks_and_in_words(self):
        X, y, _ = data()
        X = X.copy()
        X[1] = np.nan
        explanation = fit(X, y).explain(X)
        html = explanation._repr_html_()
        assert "the base value alone decides" in html and "lacks" in html
        assert explanation.part_names == ["a", "b", "c"] and ">a</th>" in html
        assert "90 rows lack channels, 1 have none" in repr(explanation)
        complete = fit(np.nan_to_num(X), y).explain(np.nan_to_num(X[:3]))
        assert "lacks" not in complete._repr_html_()

    def test_seen_from_the_other_class_signs_and_ranges_turn(self):
        X, y, _ = data()
        clf = fit(X, y)
        other = clf.oriented("x")
        np.testing.assert_array_equal(other.channel_ranges_, -clf.channel_ranges_[:, :, ::-1])
        np.testing.assert_array_equal(other.explain(X).decision, -clf.explain(X).decision)
        np.testing.assert_array_equal(other.predict(X), clf.predict(X))

    def test_files_keep_what_explanations_need(self, tmp_path):
        X, y, _ = data(classes=3)
        frame = pd.DataFrame(X, columns=list("uvwxyz"))
        clf = AbsentMKLClassifier(kernels=KERNELS, multiclass="one_vs_one", calibration=2).fit(frame, y)
        io.save(clf, tmp_path / "model.tamis")
        again = io.load(tmp_path / "model.tamis")
        one, two = clf.explain(frame), again.explain(frame)
        np.testing.assert_array_equal(one.present, two.present)
        np.testing.assert_array_equal(one.typical, two.typical)
        np.testing.assert_allclose(one.decision, two.decision, atol=1e-12)
