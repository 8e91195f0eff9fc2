"""Right answers on tables whose rows repeat, and folds that follow values: every estimator, whatever its method."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import train_test_split

import tamis
from repeated_tables import categories, titanic
from tamis import EM2NOLCClassifier, EM2NOLCClassifierCV, Plan, Statistics, TamisRegressor, all_estimators
from tamis.base.calibration import Calibrator
from tamis.table.folds import UnitCounts, block_folds, deal, fold_positions, folds, units_of
from tamis.table.keys import row_keys
from tamis.table.rows import Rows
from tamis.table.table import read_table

from small_fits import quick

CLASSIFIERS = tuple(all_estimators("classifier"))
SCALED = (  # those without a cost: only ratios of weights matter
    "TamisClassifier",
    "EM2NOLCClassifier",
    "EM2NOLCClassifierCV",
    "IMKPLClassifier",
    "IMKPLClassifierCV",
    "PrototypeSelectionClassifier",
    "KernelGLVQClassifier",
    "LassoADMM",
)
every = pytest.mark.parametrize("name", CLASSIFIERS)
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:calibration failed",
    "ignore:.*folds are left out",
    "ignore:.*kept no instance",
    "ignore:.*kept no feature",
    "ignore:the smallest class has",
)


@cache
def passengers():
    X, y = titanic()
    return train_test_split(X, y, test_size=0.3, random_state=0)


def numbers(kind, n=60, seed=0):
    """Distinct rows, with a signal or with noise alone."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] + 0.5 * rng.normal(size=n) if kind == "signal" else rng.normal(size=n)
    return X, np.where(score > 0.3, "yes", "no")


def class_weights(name):
    return {"class_weight": "balanced"} if "class_weight" in all_estimators()[name]().get_params() else {}


def assert_same(one, two, X, labels=True):
    """Decisions to 1e-8, labels where a decision is not zero up to rounding, and probabilities."""
    f, g = one.decision_function(X), two.decision_function(X)
    size = max(1.0, np.abs(f).max())
    np.testing.assert_allclose(g, f, atol=1e-8 * size)
    clear = np.abs(f) > 1e-8 * size if f.ndim == 1 else np.ptp(np.sort(f, axis=1)[:, -2:], axis=1) > 1e-8 * size
    if labels:
        np.testing.assert_array_equal(one.predict(X)[clear], two.predict(X)[clear])
    if hasattr(one, "predict_proba"):
        np.testing.assert_allclose(two.predict_proba(X), one.predict_proba(X), atol=1e-7)


def test_the_passengers_are_those_of_the_table():
    X, y = titanic()
    assert len(X) == 2201 and (y == "survived").sum() == 711
    assert len(X.assign(y=y).drop_duplicates()) == 24


class TestTitanic:
    @every
    def test_is_better_than_the_majority_and_no_worse_for_its_calibration(self, name):
        X, X_test, y, y_test = passengers()
        model = all_estimators()[name]()
        score = model.fit(X, y).score(X_test, y_test)
        assert score > np.mean(y_test == "died") + 0.04
        if "calibration" in model.get_params():
            assert score > model.set_params(calibration=None).fit(X, y).score(X_test, y_test) - 0.02

    def test_all_folds_are_used_from_files_and_blocks(self, tmp_path):
        X, X_test, y, y_test = passengers()
        X.assign(y=y).to_parquet(tmp_path / "people.parquet", row_group_size=200)
        blocks = [(X.iloc[k : k + 300], y[k : k + 300]) for k in range(0, len(X), 300)]
        for source in ((tmp_path / "people.parquet", "y"), (blocks,)):
            model = EM2NOLCClassifierCV(bandwidths=(1.0,)).fit(*source)
            assert model.n_splits_ == 5 and model.score(X_test, y_test) > 0.75

    def test_comparisons_have_no_fold_of_merged_rows(self):
        X, y = titanic()
        pairs = fold_positions(5, read_table(X.to_numpy(dtype=object), list(X), None, True), y, None, 0)
        for train, test in pairs:
            assert not set(train) & set(test)
            assert np.mean(y[test] == "died") == pytest.approx(np.mean(y == "died"), abs=0.002)


class TestWeights:
    @pytest.mark.parametrize("name", sorted(set(CLASSIFIERS) - set(SCALED)))
    def test_multiply_a_cost_where_there_is_one(self, name):
        assert {"C", "Cs", "lambda1", "lambda1s"} & set(all_estimators()[name]().get_params())

    @pytest.mark.parametrize("name", SCALED)
    @pytest.mark.parametrize("scale", [1e-3, 100.0])
    def test_only_their_ratios_matter(self, name, scale):
        X, y = numbers("signal")
        weight = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
        one, two = (quick(name, **class_weights(name)).fit(X, y, w) for w in (weight, scale * weight))
        assert_same(one, two, X)

    @pytest.mark.parametrize("name", SCALED)
    @pytest.mark.parametrize("scale", [10, 100])
    def test_equal_whole_ones_are_as_good_as_none(self, name, scale):
        X, y = numbers("signal")
        assert_same(quick(name).fit(X, y), quick(name).fit(X, y, np.full(len(y), scale)), X)

    @pytest.mark.parametrize("scale", [1e-3, 10, 100])
    def test_only_ratios_matter_for_numbers(self, scale):
        X, _ = numbers("signal", 80)
        y = X[:, 0] + np.sin(X[:, 1])
        weight = np.random.default_rng(1).integers(1, 4, len(y))
        one, two = (
            TamisRegressor(max_instances=5, max_features=3, max_pairs=1, cv=2).fit(X, y, w)
            for w in (weight, scale * weight)
        )
        np.testing.assert_allclose(two.predict(X), one.predict(X), atol=1e-8)

    @pytest.mark.parametrize("more", [0.0, 0.5])
    def test_of_a_survey_are_no_counts(self, more):
        X, y = numbers("signal", 400)
        train, test = np.arange(200), np.arange(200, 400)
        weight = np.random.default_rng(0).integers(50, 3000, 200) + more
        model = tamis.TamisClassifier(max_instances=5, max_features=3, max_pairs=1).fit(X[train], y[train], weight)
        assert log_loss(y[test], model.predict_proba(X[test])) < 0.55

    def test_of_a_survey_leave_a_regressor_good(self):
        X, _ = numbers("signal", 400)
        y = X[:, 0] + np.sin(X[:, 1]) + 0.5 * np.random.default_rng(3).normal(size=400)
        weight = np.random.default_rng(0).integers(50, 3000, 200)
        model = TamisRegressor(max_instances=5, max_features=3, max_pairs=1).fit(X[:200], y[:200], weight)
        assert r2_score(y[200:], model.predict(X[200:])) > 0.6

    @every
    def test_that_are_whole_numbers_are_no_counts(self, name):
        X, y = numbers("signal")
        weight = np.random.default_rng(0).integers(50, 3000, len(y))
        whole, other = (quick(name).fit(X, y, w) for w in (weight, weight + 0.5))
        if not hasattr(whole, "predict_proba"):
            assert whole.score(X, y) == pytest.approx(other.score(X, y), abs=0.02)
            return
        losses = [log_loss(y, model.predict_proba(X)) for model in (whole, other)]
        assert losses[0] == pytest.approx(losses[1], abs=0.05) and losses[0] < np.log(2)

    @every
    def test_rows_of_weight_zero_are_no_rows(self, name):
        X, y = categories(3, 60, 2)
        copies = np.random.default_rng(0).permutation(60)[:20]
        more, labels = pd.concat([X, X.iloc[copies]], ignore_index=True), np.r_[y, 1 - y[copies]]
        one = quick(name).fit(X, y, np.ones(60))
        assert_same(one, quick(name).fit(more, labels, np.r_[np.ones(60), np.zeros(20)]), X)

    def test_do_not_change_folds(self):
        X, y = numbers("noise")
        weight = np.random.default_rng(0).uniform(0.1, 9.0, len(y))
        for one, two in zip(made(X, y), made(X, y, weight), strict=True):
            np.testing.assert_array_equal(one, two)


def rows_of(X, y, weight=None, groups=None):
    codes, classes = np.unique(y, return_inverse=True)[1], np.unique(y)
    weight = np.ones(len(y)) if weight is None else weight
    table = read_table(X, [f"x{j}" for j in range(X.shape[1])], None, True)
    return Rows(table, codes, classes, weight, weight, groups, np.arange(len(y)))


def made(X, y, weight=None, groups=None, cv=3):
    """Positions of the test rows of each fold of a table of distinct rows."""
    return [np.sort(test.position) for _, test in folds(rows_of(X, y, weight, groups), cv, 0)]


class TestOrder:
    @every
    @pytest.mark.parametrize("kind", ["signal", "noise"])
    def test_of_rows_decides_nothing(self, name, kind):
        X, y = numbers(kind)
        rng = np.random.default_rng(1)
        weight, order = rng.uniform(0.2, 3.0, len(y)), rng.permutation(len(y))
        one = quick(name, **class_weights(name)).fit(X, y, weight)
        assert_same(one, quick(name, **class_weights(name)).fit(X[order], y[order], weight[order]), X)

    @every
    def test_of_equal_rows_decides_nothing(self, name):
        X, y = categories(5, 60, 2)
        rng = np.random.default_rng(1)
        weight, order = rng.uniform(0.2, 3.0, len(y)), rng.permutation(len(y))
        one = quick(name).fit(X, y, weight)
        assert_same(one, quick(name).fit(X.iloc[order].reset_index(drop=True), y[order], weight[order]), X)

    def test_of_processes_decides_nothing(self):
        X, y = categories(5, 60, 2)
        assert_same(*(quick("EM2NOLCClassifierCV", n_jobs=jobs).fit(X, y) for jobs in (1, 2)), X)


class TestNamesOfClasses:
    @every
    def test_in_the_same_order_change_nothing(self, name):
        X, y = categories(2, 60)
        one, two = quick(name).fit(X, y), quick(name).fit(X, np.array(["a", "b", "c"])[y])
        assert_same(one, two, X, labels=False)

    @pytest.mark.parametrize("groups", [None, np.arange(60) // 2])
    def test_in_another_order_leave_folds_as_they_are(self, groups):
        for X, y in (numbers("noise"), (np.round(numbers("noise")[0]), numbers("noise")[1])):
            renamed = np.where(y == "yes", "a", "z")
            one, two = (rows_of(X, labels, groups=groups) for labels in (y, renamed))
            for (_, a), (_, b) in zip(folds(one, 3, 0), folds(two, 3, 0), strict=True):
                assert sorted(zip(a.labels == "yes", map(tuple, a.table.numbers), strict=True)) == sorted(
                    zip(b.labels == "a", map(tuple, b.table.numbers), strict=True)
                )

    def test_in_another_order_leave_folds_of_groups_as_they_are(self):
        for seed in range(60):
            rng = np.random.default_rng(seed)
            codes, groups = rng.integers(0, 3, 90), rng.integers(0, 25, 90)
            keys = rng.integers(0, 2**63, 90).astype(np.uint64)
            for renamed in ([2, 0, 1], [1, 2, 0], [1, 0, 2]):
                pairs = zip(
                    deal(keys, codes, groups, 3, 0), deal(keys, np.array(renamed)[codes], groups, 3, 0), strict=True
                )
                assert all(np.array_equal(one, two) for (_, one), (_, two) in pairs)

    @every
    @pytest.mark.parametrize("seed", [None, 1, 4])
    def test_in_another_order_turn_the_decision_round(self, name, seed):
        X, y = numbers("signal") if seed is None else categories(seed, 50, 2)
        weight = np.random.default_rng(0).uniform(0.2, 3.0, len(y))
        one, two = (quick(name).fit(X, labels, weight) for labels in (y == y[0], y != y[0]))
        f = one.decision_function(X)
        np.testing.assert_allclose(two.decision_function(X), -f, atol=1e-8 * max(1.0, np.abs(f).max()))

    @every
    def test_in_another_order_turn_three_decisions_round(self, name):
        X, y = categories(2, 60, 3)
        turned = np.array([1, 2, 0])
        one, two = quick(name).fit(X, y), quick(name).fit(X, turned[y])
        f = one.decision_function(X)
        np.testing.assert_allclose(two.decision_function(X)[:, turned], f, atol=1e-8 * max(1.0, np.abs(f).max()))


class TestFolds:
    @pytest.mark.parametrize("seed", range(20))
    def test_no_value_loses_all_its_rows_of_a_class(self, seed):
        X, y = categories(seed)
        table = read_table(X.to_numpy(dtype=object), list(X), None, True)
        value = pd.MultiIndex.from_frame(X.assign(y=y)).factorize()[0]
        several = np.bincount(value)[value] > 1
        for train, test in fold_positions(3, table, y, None, seed):
            assert not set(train) & set(test)
            assert set(value[test[several[test]]]) <= set(value[train])

    @pytest.mark.parametrize("seed", range(20))
    def test_nor_in_rows_that_are_summed(self, seed):
        X, y = categories(seed)
        keys = row_keys(read_table(X.to_numpy(dtype=object), list(X), None, True), seed)
        fold = block_folds(keys, y, 3)
        value = pd.MultiIndex.from_frame(X.assign(y=y)).factorize()[0]
        for v in np.flatnonzero(np.bincount(value) > 1):
            counts = np.bincount(fold[value == v], minlength=3)
            assert np.ptp(counts) <= 1

    def test_in_memory_do_not_depend_on_the_units_of_columns(self):
        X, y = numbers("noise")
        for scaled in (1e-300 * X, 3.7 * X, 1e40 * X, 2.0**30 + X, np.arctan(X)):
            for one, two in zip(made(X, y), made(scaled, y), strict=True):
                np.testing.assert_array_equal(one, two)

    @pytest.mark.parametrize("groups", [None, np.arange(90) // 3])
    def test_a_row_is_on_one_side_and_groups_stay_together(self, groups):
        codes = np.random.default_rng(0).integers(0, 3, 90)
        keys = np.arange(90, dtype=np.uint64) % np.uint64(7)
        pairs = deal(keys, codes, groups, 4, 0)
        assert np.array_equal(np.sort(np.concatenate([test for _, test in pairs])), np.arange(90))
        for train, test in pairs:
            assert len(train) + len(test) == 90 and not set(train) & set(test)
            assert groups is None or not set(groups[train]) & set(groups[test])

    def test_of_blocks_are_those_of_all_rows(self):
        X, y = categories(7, 300, 2)
        keys = row_keys(read_table(X.to_numpy(dtype=object), list(X), None, True), 0)
        units, counts = units_of(keys, y.astype(np.uint64)), UnitCounts()
        cuts = [slice(k, k + 70) for k in range(0, 300, 70)]
        for number, cut in enumerate(cuts):
            counts.add(number, units[cut])
        earlier = counts.earlier(4)
        parts = [
            block_folds(keys[cut], y[cut], 4, (), earlier.before(number, keys[cut], units[cut]))
            for number, cut in enumerate(cuts)
        ]
        np.testing.assert_array_equal(np.concatenate(parts), block_folds(keys, y, 4))


class TestSources:
    @pytest.mark.parametrize("seed", range(200))
    def test_categories_in_blocks_files_and_memory_give_one_model(self, seed, tmp_path):
        X, y = categories(seed, None if seed < 6 else 40 + seed % 50)
        models = [EM2NOLCClassifier(3, 2, engine="statistics")]
        if seed < 6:
            models.append(EM2NOLCClassifierCV(3, 2, alphas=(0.01,), cv=3, engine="statistics"))
        sources = [([(X.iloc[k : k + 37], y[k : k + 37]) for k in range(0, len(y), 37)],)]
        if seed < 6 or seed % 2:
            X.assign(y=y).to_parquet(tmp_path / "rows.parquet", row_group_size=50)
            sources = [*sources[: seed < 6], (tmp_path / "rows.parquet", "y")]
        for model in models:
            whole = model.fit(X, y)
            f = whole.decision_function(X)
            for source in sources:
                found = model.fit(*source)
                np.testing.assert_allclose(found.decision_function(X), f, atol=1e-8 * max(1.0, np.abs(f).max()))

    def test_saved_statistics_keep_the_rule_of_folds(self, tmp_path):
        X, y = categories(4, 300, 2)
        plan = Plan.of(X, y, folds=4)
        one = Statistics(plan).update(X, y)
        one.save(tmp_path / "sums")
        again = Statistics.load(tmp_path / "sums")
        assert np.ptp(again.count) <= 24  # of 300 rows of few values: no value is in one fold alone
        a, b = (EM2NOLCClassifier(3, 2).fit_statistics(s, X, y) for s in (one, again))
        assert_same(a, b, X)
        assert a.score(X, y) >= np.bincount(y).max() / 300

    def test_a_model_without_features_takes_what_a_model_in_memory_takes(self, tmp_path):
        X, y = numbers("signal", 40)
        X = np.ones_like(X)
        table = pd.DataFrame(X, columns=list("abc"))
        table.to_parquet(tmp_path / "rows.parquet", row_group_size=15)
        with pytest.warns(UserWarning, match="kept no instance"):
            model = EM2NOLCClassifier(2, 2).fit(table, y)
        assert len(model.features_) == 0
        for method in ("decision_function", "predict", "predict_proba"):
            wanted = getattr(model, method)(table)
            np.testing.assert_array_equal(getattr(model, method)(tmp_path / "rows.parquet"), wanted)
        explained = model.explain(tmp_path / "rows.parquet").decision[:, 0]
        np.testing.assert_array_equal(explained, model.decision_function(table))


class TestCalibration:
    def misled(self):
        """Held-out decisions point the wrong way: every value has one row of each class."""
        X = np.repeat(np.arange(12.0), 2)[:, None]
        return X, np.arange(24) % 2

    def test_that_fails_moves_nothing_and_says_so(self):
        X, y = self.misled()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            one = EM2NOLCClassifier(4, 1, random_state=1).fit(X, y)
        assert any("calibration failed" in str(w.message) for w in caught) == one.calibrator_.failed
        two = EM2NOLCClassifier(4, 1, calibration=None, random_state=1).fit(X, y)
        assert one.calibrator_.failed
        np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))
        assert np.ptp(one.predict_proba(X)[:, 1]) == 0.0

    @pytest.mark.parametrize("q", [1, 3])
    @pytest.mark.parametrize("slope", [0.0, -1.0])
    def test_of_flat_or_misleading_decisions_moves_nothing(self, q, slope):
        rng = np.random.default_rng(0)
        codes = np.arange(60) % max(2, q)
        targets = np.where(codes[:, None] == (np.arange(q) if q > 1 else 1), 1.0, -1.0)
        found = Calibrator.fit(
            slope * targets + 1e-3 * abs(slope) * rng.normal(size=targets.shape), targets, np.ones(60)
        )
        assert found.failed and found.shift == 0.0
