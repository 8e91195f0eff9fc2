"""Measures against independent computations."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binomtest, ks_2samp, norm
from sklearn import metrics

from tamis.explain import intervals, measures
from tamis.explain.measures import association, jaccard, kuncheva, stability


@pytest.fixture
def scored(rng):
    truth = rng.random(200) < 0.4
    return truth, np.round(truth + rng.normal(size=200), 1)  # with ties


def test_ks_is_that_of_scipy(scored):
    truth, score = scored
    assert measures.ks(truth, score).value == pytest.approx(ks_2samp(score[truth], score[~truth]).statistic)
    assert measures.ks(truth, -score).value == pytest.approx(measures.ks(truth, score).value)


def test_auc_and_roc_are_those_of_scikit_learn(scored):
    truth, score = scored
    assert measures.auc(truth, score).value == pytest.approx(metrics.roc_auc_score(truth, score))
    weight = np.linspace(0.1, 3.0, len(score))
    assert measures.auc_value(truth, score, weight) == pytest.approx(
        metrics.roc_auc_score(truth, score, sample_weight=weight)
    )
    fpr, tpr = measures.roc_curve(truth, score)
    theirs = metrics.roc_curve(truth, score, drop_intermediate=False)
    np.testing.assert_allclose(fpr, theirs[0])
    np.testing.assert_allclose(tpr, theirs[1])


@pytest.mark.parametrize(("hits", "n"), [(0, 7), (7, 7), (3, 10), (95, 100)])
def test_wilson_is_that_of_scipy(hits, n):
    theirs = binomtest(hits, n).proportion_ci(method="wilson")
    value, low, high = intervals.wilson(hits, n)
    assert value == hits / n
    assert (low, high) == pytest.approx((theirs.low, theirs.high))


def test_difference_of_shares_as_published():
    low, high = intervals.difference((56, 70), (48, 80))[1:]  # Newcombe 1998, table II, method 10
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)


@pytest.mark.parametrize("value", [0.5, 0.8, 0.97])
def test_ends_of_the_interval_of_an_area_solve_the_score_equation(value):
    low, high = intervals.area(value, 30, 50)[1:]
    z, m = norm.ppf(0.975), (30 + 50) / 2 - 1
    for a in (low, high):
        variance = a * (1 - a) * (1 + m * (1 - a) / (2 - a) + m * a / (1 + a)) / (30 * 50)
        assert abs(value - a) == pytest.approx(z * np.sqrt(variance), abs=1e-3)


def test_perfect_scores_are_not_certain():
    truth = np.arange(20) < 10
    for interval in (
        measures.auc(truth, truth * 1.0),
        measures.ks(truth, truth * 1.0),
        measures.accuracy(truth, truth),
    ):
        assert interval.value == interval.high == 1.0
        assert interval.low < 0.9


def test_intervals_cover(rng):
    inside = np.zeros(2)
    for _ in range(200):
        score = np.r_[rng.normal(size=60), rng.normal(size=60) + 1.5]
        truth = np.arange(120) >= 60
        true_values = norm.cdf(1.5 / np.sqrt(2)), 2 * norm.cdf(0.75) - 1
        found = measures.auc(truth, score), measures.ks(truth, score)
        inside += [low <= v <= high for v, (_, low, high) in zip(true_values, found, strict=True)]
    assert np.all(inside >= 0.89 * 200), inside


def test_groups_widen_the_intervals(rng):
    groups = np.repeat(np.arange(20), 10)
    truth = groups % 2 == 0
    score = truth + rng.normal(size=20)[groups]  # rows of a group say the same thing
    for measure in (measures.auc, measures.ks):
        alone, together = measure(truth, score), measure(truth, score, groups)
        assert alone.value == pytest.approx(together.value)
        assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_one_class_has_no_area():
    assert np.isnan(measures.auc(np.ones(3, bool), np.arange(3.0)).value)
    assert np.isnan(measures.ks(np.ones(3, bool), np.arange(3.0)).value)


@pytest.mark.parametrize(
    ("truth", "score", "match"),
    [
        ([True], [1.0, 2.0], "shape"),
        ([1, 2], [1.0, 2.0], "boolean"),
        ([True, False], [1.0, np.nan], "NaN"),
    ],
)
def test_bad_scores_are_refused(truth, score, match):
    with pytest.raises(ValueError, match=match):
        measures.ks(np.array(truth), np.array(score))


def test_reductions():
    assert measures.instance_reduction(20, 400) == 95.0
    assert measures.feature_reduction(3, 12) == 75.0


def test_importances_are_signed_percentages():
    np.testing.assert_allclose(measures.signed_percentages(np.array([3.0, -1.0])), [75.0, -25.0])
    np.testing.assert_allclose(measures.signed_percentages(np.zeros(2)), [0.0, 0.0])


def test_groups_stay_together_in_the_folds_of_a_display(rng):
    from tamis import EM2NOLCClassifier
    from tamis.views import studies

    X, groups = rng.normal(size=(60, 3)), np.repeat(np.arange(15), 4)
    parts = []
    with pytest.MonkeyPatch.context() as patch:
        fit = studies.fit_folds
        patch.setattr(studies, "fit_folds", lambda e, X, y, p: parts.extend(p) or fit(e, X, y, p))
        studies.stability_across_folds(EM2NOLCClassifier(2, 2), X, np.arange(60) % 2, cv=3, groups=groups)
    assert all(set(np.bincount(groups[part], minlength=15)) <= {0, 4} for part in parts)


class TestStability:
    def test_jaccard(self):
        assert jaccard({1, 2, 3}, {2, 3, 4}) == 0.5
        assert jaccard(set(), set()) == 1.0

    def test_kuncheva_as_published(self):
        a, b, d = {0, 1, 2, 3}, {0, 1, 2, 9}, 10
        r, k = 3, 4
        assert kuncheva(a, b, d) == pytest.approx((r * d - k * k) / (k * (d - k)))
        assert kuncheva(a, a, d) == 1.0

    def test_kuncheva_is_zero_by_chance(self, rng):
        draws = [set(rng.permutation(30)[: rng.integers(3, 9)].tolist()) for _ in range(60)]
        assert abs(np.mean([kuncheva(a, b, 30) for a, b in combinations(draws, 2)])) < 0.03

    def test_association_is_pearson_for_numbers(self, rng):
        x, y = rng.normal(size=(2, 50))
        y = y + x
        y[:5] = np.nan
        assert association(x, y) == pytest.approx(abs(np.corrcoef(x[5:], y[5:])[0, 1]))
        assert association(x, np.ones(50)) == 0.0

    def test_association_is_the_correlation_ratio_for_a_category(self, rng):
        c = np.array(["a", "b", "c"], dtype=object)[rng.integers(3, size=80)]
        x = rng.normal(size=80) + (c == "a")
        means = np.array([x[c == v].mean() for v in c])
        assert association(x, c) == pytest.approx(np.sqrt(np.var(means) / np.var(x)))
        assert association(c, np.array([None, *c[1:]], dtype=object)) == pytest.approx(1.0)

    def test_folds(self, rng):
        X = rng.normal(size=(100, 5))
        X[:, 1] = X[:, 0]  # the folds choose twins
        found = stability([[0, 2], [1, 2], [0, 2]], lambda j: X[:, j], list("abcde"))
        assert found.features == ("c", "a", "b")
        assert found.chosen.tolist() == [[True, True, False], [True, False, True], [True, True, False]]
        assert found.jaccard.value == pytest.approx((1 / 3 + 1 + 1 / 3) / 3)
        assert found.correlated.value == pytest.approx(1.0)
        assert found.correlation[1, 2] == pytest.approx(1.0)
        assert found.jaccard.low <= found.jaccard.value <= found.jaccard.high <= 1.0

    def test_jackknife_of_a_mean_is_student(self, rng):
        values = rng.normal(size=6).tolist()
        assert intervals.jackknife(np.mean, values) == pytest.approx(intervals.mean(values))

    def test_nothing_chosen_anywhere_agrees(self):
        found = stability([[], []], lambda j: np.zeros(3), ["a"])
        assert found.jaccard.value == found.correlated.value == 1.0
