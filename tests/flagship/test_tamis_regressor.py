"""TamisRegressor: what it predicts, and that everything a classifier promises holds for numbers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold

from tamis import Job, TamisRegressor, io, run
from tamis.base.explaining import notebook_html
from tamis.base.regressor import _strata


def table(n=400, seed=0, noise=0.5):
    """A line, a step and a category, in columns that have names; two columns say nothing."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    X["kind"] = rng.choice(["p", "q"], n).astype(object)
    y = 100 + 7 * (X["a"] + 2 * (X["b"] > 0.3) + (X["kind"] == "p")).to_numpy() + noise * rng.normal(size=n)
    return X, y


def small(**changes):
    return TamisRegressor(**{"max_features": 4, "max_pairs": 3, "max_instances": 12, "cv": 3, **changes})


@pytest.fixture(scope="module")
def fit():
    return small().fit(*table())


class TestPredictions:
    def test_it_finds_what_is_there(self, fit):
        assert fit.score(*table(seed=9)) > 0.9
        assert set("ab") <= set(fit.explain(table()[0]).features)
        assert len(fit.features_) <= 4 and len(fit.pairs_) <= 3 and len(fit.instances_) <= 12

    def test_what_says_nothing_is_not_learned(self):
        X, y = table()
        with np.errstate(all="ignore"):
            noise = small(max_features=1).fit(X, np.random.default_rng(1).normal(size=len(y)))
        assert noise.score(*table(seed=9)[:1], np.random.default_rng(2).normal(size=len(y))) > -0.3

    def test_better_than_nothing_on_real_rows(self):
        X, y = load_diabetes(return_X_y=True)
        assert small().fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.25

    def test_the_held_out_loss_is_the_mean_squared_error(self):
        X, y = table(600)
        model = small(max_instances=0).fit(X[:300], y[:300])
        error = np.mean((model.predict(X[300:]) - y[300:]) ** 2)
        assert 0.7 * error < model.loss_ < 1.5 * error
        assert model.path(X[:300], y[:300])["loss"].min() > 0.7 * error

    @pytest.mark.parametrize(("centre", "spread"), [(1e6, 1e-3), (-5.0, 1e9), (1e12, 1e-2)])
    def test_units_of_the_response_do_not_matter(self, fit, centre, spread):
        X, y = table()
        moved = small().fit(X, centre + spread * y)
        wanted = centre + spread * fit.predict(X)
        np.testing.assert_allclose(moved.predict(X), wanted, atol=1e-3 * spread * np.std(y))

    def test_a_constant_is_predicted_as_it_is(self):
        X, _ = table(40)
        for value in (3.25, 0.1, -5.0):
            with pytest.warns(UserWarning, match="kept no feature"):
                constant = small().fit(X, np.full(40, value))
            np.testing.assert_allclose(constant.predict(X), value, rtol=1e-12)


class TestSums:
    def test_everything_adds_up(self, fit):
        X, _ = table(50, seed=3)
        found = fit.explain(X)
        assert found.outputs == ["prediction"]
        np.testing.assert_array_equal(found.decision[:, 0], fit.predict(X))
        total = found.base_value + found.by_part.sum(axis=2)
        np.testing.assert_allclose(total[:, 0], fit.predict(X), rtol=1e-12)
        a = fit.curve("a", X["a"].to_numpy())[1]
        np.testing.assert_array_equal(a, found.by_feature[:, 0, found.features.index("a")])

    def test_features_and_pairs_are_zero_on_average(self, fit):
        found = fit.explain(table()[0])
        np.testing.assert_allclose(found.by_feature.mean(axis=0), 0.0, atol=1e-6)
        np.testing.assert_allclose(found.by_pair.mean(axis=0), 0.0, atol=1e-6)

    def test_a_case_pulls_towards_its_own_number(self, fit):
        _, y = table()
        for pull, row in zip(fit.model_.cases.pull[:, 0], fit.instances_, strict=True):
            assert pull * (y[row] - y.mean()) >= 0


class TestRows:
    def test_only_ratios_of_weights_matter(self):
        X, y = table(120)
        weight = np.random.default_rng(0).integers(0, 3, 120)
        one, two = small().fit(X, y, weight), small().fit(X, y, 50.0 * weight)
        np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-6)

    def test_order_of_rows_does_not_matter(self):
        X, y = table(120)
        order = np.random.default_rng(0).permutation(120)
        one, two = small().fit(X, y), small().fit(X.iloc[order], y[order])
        np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-6)
        assert set(order[two.instances_]) == set(one.instances_)

    def test_rows_without_weight_are_as_good_as_absent(self):
        X, y = table(200)
        weight = np.ones(200)
        weight[::2] = 0
        y[0] = 1e6
        one, two = small(cv=2).fit(X, y, weight), small(cv=2).fit(X[1::2], y[1::2])
        np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-9)

    def test_same_values_with_other_numbers_stay_two_rows(self):
        X = np.repeat(np.random.default_rng(0).normal(size=(60, 2)), 2, axis=0)
        y = X[:, 0] + np.tile([-1.0, 1.0], 60)
        model = small().fit(X, y)
        assert np.corrcoef(model.predict(X), X[:, 0])[0, 1] > 0.9

    def test_a_row_has_the_same_prediction_alone_and_among_many(self, fit):
        X, _ = table(20_000, seed=4)
        every = fit.predict(X)
        for rows in ([0], [19_999], list(range(16_380, 16_390))):
            np.testing.assert_array_equal(fit.predict(X.iloc[rows]), every[rows])

    def test_folds_of_groups_and_of_splitters(self):
        X, y = table(90)
        groups = np.repeat(np.arange(30), 3)
        for model in (small().fit(X, y, groups=groups), small(cv=KFold(4)).fit(X, y)):
            assert model.n_splits_ >= 1 and np.isfinite(model.predict(X)).all()

    def test_categories_and_missing_cells(self):
        X, y = table(300)
        X.loc[::6, "a"] = np.nan
        model = small().fit(X, y)
        assert model.score(X, y) > 0.6 and "kind" in model.explain(X).features
        p, q = (model.predict(X.assign(kind=kind)) for kind in "pq")
        assert np.mean(p - q) == pytest.approx(7, abs=3)


class TestWords:
    def test_what_is_no_number_is_refused(self):
        X, y = table(30)
        for bad, words in ((["a"] * 30, "no number"), (np.r_[np.nan, y[1:]], "NaN"), (y[:-1], "length 29")):
            with pytest.raises(ValueError, match=words):
                small().fit(X, bad)
        bad = [(y * 1e150, "larger units"), (y + 1j, "complex"), (np.ma.masked_less(y, y.mean()), "masked")]
        bad += [(pd.Series(pd.date_range("2020", periods=30)), "no number"), ([str(v) for v in y], "no number")]
        bad += [
            (np.array([1.5] * 29 + ["x"], dtype=object), "'x', which is no number"),
            (np.r_[y[:3], np.inf, y[4:]], "inf at position 3"),
        ]
        for numbers, words in bad:
            with pytest.raises(ValueError, match=words):
                small().fit(X, numbers)
        with pytest.raises(ValueError, match="groups has shape"):
            small().fit(X, y, groups=np.c_[y, y])
        for name, value in (("n_jobs", 0), ("random_state", -1), ("random_state", "a"), ("verbose", "a")):
            with pytest.raises(ValueError, match=f"{name}={value!r}"):
                small(**{name: value}).fit(X, y)
        with pytest.raises(ValueError, match="no pair"):
            small(cv=[(0, 1)]).fit(X, y)
        with pytest.raises(ValueError, match="zero for all rows: give"):
            small().fit(X, y, np.zeros(30))

    def test_path_and_file(self, fit, tmp_path):
        X, y = table()
        path = small().path(X, y, max_features=2)
        assert path["n_features"].max() <= 2 and np.isfinite(path["loss"]).all()
        io.save(fit, tmp_path / "model.tamis")
        again = io.load(tmp_path / "model.tamis")
        np.testing.assert_array_equal(again.predict(X), fit.predict(X))
        kept = fit.without_search()
        assert (kept.max_features, kept.max_instances) == (len(fit.features_), len(fit.instances_))

    def test_notebooks(self, fit):
        X, _ = table(20)
        assert "Predicts a number" in notebook_html(fit) and "above zero" not in notebook_html(fit)
        assert "above zero" not in fit.explain(X)._repr_html_()

    def test_it_is_no_classifier(self):
        _, y = table(30)
        with pytest.raises(ValueError, match="is no classifier"):
            run({"a": y, "t": y}, Job("t", method="TamisRegressor"))

    def test_strata_have_as_many_distinct_numbers(self):
        y, mass = np.r_[np.zeros(90), np.arange(1.0, 10.0), 1e9], np.ones(100)
        mass[-1] = 0  # does not count
        codes, names = _strata(y, mass)
        assert np.bincount(codes[:-1]).tolist() == [91, 2, 2, 2, 2] and len(names) == 5
        assert _strata(np.array([3.0, 3.0, 5.0]), np.ones(3))[0].tolist() == [0, 0, 1]
