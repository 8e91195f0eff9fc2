"""TamisRegressor: what it predicts, and that everything a classifier promises holds for numbers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold

from tamis import Job, TamisRegressor, io, run
from tamis.base.explaining import notebook_html
from tamis.base.regressor import Units, _strata
from tamis.flagship import blend as method
from tamis.flagship import blending
from tamis.optim.losses import fit_ridge_path
from tamis.views import plots

from small_fits import rows_of


def table(n=240, seed=0, noise=0.1):
    """A line, a bump and a product, in columns that have names; two columns say nothing."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 5)), columns=list("abcde"))
    y = 100 + 7 * (X["a"] + 2 * np.exp(-(X["b"] ** 2)) + X["c"] * X["d"]).to_numpy() + noise * rng.normal(size=n)
    return X, y


def small(**changes):
    return TamisRegressor(**{"max_instances": 12, "max_features": 4, "interactions": 3, "cv": 3, **changes})


@pytest.fixture(scope="module")
def fit():
    return small().fit(*table())


class TestPredictions:
    def test_it_finds_what_is_there(self, fit):
        fresh, truth = table(seed=9)
        assert fit.score(fresh, truth) > 0.9
        assert fit.feature_names_in_[fit.features_].tolist() == list("abcd")
        assert ("c", "d") in fit.pairs_

    def test_a_number_of_its_own_for_what_says_nothing(self):
        X, y = table()
        noise = small().fit(X, np.random.default_rng(1).normal(size=len(y)))
        assert noise.score(*table(seed=9)[:1], np.random.default_rng(2).normal(size=len(y))) > -0.1

    def test_better_than_a_line_on_real_rows(self):
        X, y = load_diabetes(return_X_y=True)
        train, test = next(KFold(3, shuffle=True, random_state=0).split(X))
        A, B = (np.column_stack([X[rows], np.ones(len(rows))]) for rows in (train, test))
        line = B @ np.linalg.lstsq(A, y[train], rcond=None)[0]
        bar = 1 - np.sum((y[test] - line) ** 2) / np.sum((y[test] - y[test].mean()) ** 2)
        assert TamisRegressor(cv=3).fit(X[train], y[train]).score(X[test], y[test]) > bar - 0.03

    @pytest.mark.parametrize(("centre", "spread"), [(1e6, 1e-3), (0.0, 1e100), (0.0, 1e-120)])
    def test_units_of_y_do_not_matter(self, fit, centre, spread):
        X, y = table()
        moved = small().fit(X, centre + spread * y)
        wanted = centre + spread * fit.predict(X)
        np.testing.assert_allclose(moved.predict(X), wanted, atol=1e-3 * spread * np.std(y))

    def test_a_constant_is_predicted_as_it_is(self):
        X, _ = table(40)
        for value in (3.25, 0.1, -5.0):
            with pytest.warns(UserWarning, match="kept no instance"):
                fit = small().fit(X, np.full(40, value))
            np.testing.assert_array_equal(fit.predict(X), value)


class TestSums:
    def test_everything_adds_up(self, fit):
        X, _ = table(50, seed=3)
        explanation = fit.explain(X)
        assert explanation.outputs == ["prediction"]
        np.testing.assert_allclose(explanation.decision[:, 0], fit.predict(X), rtol=1e-12)
        whole = fit.intercept_[0] + explanation.contributions.sum(axis=(1, 2, 3))
        np.testing.assert_allclose(whole, fit.predict(X), rtol=1e-12)
        a = fit.shape_function("a", X["a"].to_numpy())[1]
        np.testing.assert_allclose(a, explanation.by_part[:, 0, explanation.parts.index(("a",))], atol=1e-9)

    def test_contributions_are_zero_on_average_and_the_intercept_is_the_mean(self, fit):
        X, y = table()
        explanation = fit.explain(X)
        np.testing.assert_allclose(explanation.contributions.mean(axis=0), 0.0, atol=1e-9)
        assert fit.intercept_[0] == pytest.approx(y.mean())


class TestRows:
    def test_only_ratios_of_weights_matter(self):
        X, y = table(80)
        weight = np.random.default_rng(0).integers(0, 3, 80)
        one, two = small().fit(X, y, weight), small().fit(X, y, 50.0 * weight)
        np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-6)

    def test_order_of_rows_does_not_matter(self):
        X, y = table(80)
        order = np.random.default_rng(0).permutation(80)
        one, two = small().fit(X, y), small().fit(X.iloc[order], y[order])
        np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-6)
        assert set(order[two.instances_]) == set(one.instances_)

    def test_beyond_the_sample_order_does_not_matter_either(self, monkeypatch):
        monkeypatch.setattr(blending, "MOST", 200)
        rng = np.random.default_rng(1)
        X = np.round(rng.normal(size=(500, 3)))  # many rows of the same values, with other numbers and weights
        y, w, order = X[:, 0] + 0.3 * rng.normal(size=500), rng.uniform(0.5, 2.0, 500), rng.permutation(500)
        one, two = small(cv=2).fit(X, y, w), small(cv=2).fit(X[order], y[order], w[order])
        np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-8)
        np.testing.assert_allclose(one.kernel_variation_, two.kernel_variation_, atol=1e-6)

    def test_rows_without_weight_are_as_good_as_absent(self, monkeypatch):
        monkeypatch.setattr("tamis.base.model.VARIATION_ROWS", (40, 40))
        X, y = table(200)
        weight = np.ones(200)
        weight[::2] = 0
        y[0] = 1e6
        one, two = small(cv=2).fit(X, y, weight), small(cv=2).fit(X[1::2], y[1::2])
        np.testing.assert_allclose(one.predict(X), two.predict(X))
        np.testing.assert_allclose(one.kernel_variation_, two.kernel_variation_)

    def test_tiny_weights_are_no_counts(self):
        X, y = table(60)
        one, two = small(cv=2).fit(X, y, np.full(60, 1e-12)), small(cv=2).fit(X, y, np.full(60, 0.3))
        np.testing.assert_allclose(one.predict(X), two.predict(X))

    def test_rare_numbers_are_among_the_candidates(self, monkeypatch):
        monkeypatch.setattr(blending, "POOL", 60)
        X = np.random.default_rng(1).normal(size=(600, 2))
        y = np.where(X[:, 0] > np.quantile(X[:, 0], 0.99), 10.0, 0.0)
        assert all(TamisRegressor(10, 2, cv=2, random_state=s).fit(X, y).score(X, y) > 0.5 for s in range(3))

    def test_same_values_with_other_numbers_stay_two_rows(self):
        X = np.repeat(np.random.default_rng(0).normal(size=(30, 2)), 2, axis=0)
        y = X[:, 0] + np.tile([-1.0, 1.0], 30)
        fit = TamisRegressor(10, 2, cv=3).fit(X, y)
        np.testing.assert_allclose(fit.predict(X), X[:, 0], atol=0.3)

    def test_beyond_the_sample_the_coefficients_are_those_of_all_rows(self, monkeypatch):
        monkeypatch.setattr(blending, "MOST", 200)
        monkeypatch.setattr("tamis.optim.losses.TOL", 1e-12)
        X, y = table(900, noise=3.0)
        blend = np.zeros((3, 3))
        blend[2, 1] = 1.0
        fit = small(blend=blend).fit(X, y)
        rows = fit._units(blending._even(rows_of(fit, X, y)))
        fitted = fit._fitted(fit._looked_at(rows, 0)[1], 0)
        space, Z = fitted.members[2].space, fitted.ground.encoder.encode(rows.table)
        D = space.design(fitted.terms.values(Z, fitted.instances, space.channels))
        D1 = np.column_stack([D, np.ones(900)])
        penalty = np.diag(np.r_[np.full(D.shape[1], method.RIDGES[1]), 0.0])
        wanted = D1 @ np.linalg.solve(D1.T @ D1 + penalty, D1.T @ rows.response)
        np.testing.assert_allclose((fit.predict(X) - y.mean()) / y.std(), wanted, atol=1e-4)

    def test_a_fold_without_variation_is_one_like_another(self):
        X, y = table(60)
        y[:50] = 0.0
        fit = small(cv=[(np.arange(40), np.arange(40, 60)), (np.arange(20, 60), np.arange(20))]).fit(X, y)
        assert fit.n_splits_ == 2 and np.isfinite(fit.predict(X)).all()

    def test_folds_of_groups_and_of_splitters(self):
        X, y = table(60)
        groups = np.repeat(np.arange(12), 5)
        assert small().fit(X, y, groups=groups).n_splits_ == 6  # three folds, drawn twice
        assert small(cv=KFold(4)).fit(X, y).n_splits_ == 4
        assert small(cv=[(np.arange(40), np.arange(40, 60))]).fit(X, y).n_splits_ == 1

    def test_categories_and_missing_cells(self):
        X, y = table(150)
        X["kind"] = np.random.default_rng(0).choice(["p", "q"], 150)
        y = y + 20 * (X["kind"] == "p")
        X.loc[::6, "a"] = np.nan
        fit = small(max_features=5).fit(X, y)
        assert fit.score(X, y) > 0.8 and "kind" in fit.model_.encoder.names
        p, q = (fit.predict(X.assign(kind=kind)) for kind in "pq")
        assert np.mean(p - q) == pytest.approx(20, abs=4)


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
        path = small().path(X, y, (2, 12), (1, 4))
        assert path["r2"].shape == (2, 2) and path["r2"][1, 1] > path["r2"][0, 0] + 0.2
        io.save(fit, tmp_path / "model.tamis")
        again = io.load(tmp_path / "model.tamis")
        np.testing.assert_array_equal(again.predict(X), fit.predict(X))
        assert small(blend=fit.blend_).fit(X, y).n_splits_ == 0
        np.testing.assert_array_equal(fit.without_search().fit(X, y).predict(X), fit.predict(X))

    def test_notebooks_and_pictures(self, fit):
        X, _ = table(20)
        assert "Predicts a number" in notebook_html(fit) and "above zero" not in notebook_html(fit)
        assert "above zero" not in fit.explain(X)._repr_html_()
        pytest.importorskip("matplotlib")
        shown = plots.ContributionDisplay.from_estimator(fit, X.head(1))
        assert shown.ax_.get_xlabel() == "prediction"
        assert "prediction" in shown.ax_.get_title() and "decision" not in shown.ax_.get_title()
        shapes = plots.ShapeFunctionDisplay.from_estimator(fit)
        assert shapes.ax_[0].get_ylabel() == "added to the prediction"
        surface = plots.SurfaceDisplay.from_estimator(fit, "c", "d")
        assert surface.figure_.axes[-1].get_ylabel() == "added to the prediction"
        with pytest.raises(ValueError, match="needs a fitted classifier"):
            plots.KSCurveDisplay.from_estimator(fit, X, X["a"])
        X, y = table(60)
        other = small(cv=2).fit(X, y)
        other.path(X, y, (2,), (2,))
        assert plots.BudgetPathDisplay.from_estimator(other).score == "r2"
        assert plots.StabilityDisplay.from_estimator(other, X, y, cv=2).stability.chosen.shape[0] == 2

    def test_nothing_to_hold_out_is_told_in_words_of_regression(self):
        X, y = table(30)
        with pytest.warns(UserWarning, match="members of the blend are weighed on training rows"):
            small().fit(X, y, groups=np.zeros(30))
        with pytest.raises(AttributeError, match="use kernel_variation_"):
            _ = small(cv=2).fit(X, y).feature_importance_
        with pytest.raises(ValueError, match="is no classifier"):
            run({"a": y, "t": y}, Job("t", method="TamisRegressor"))


class TestParts:
    def test_a_path_of_ridges_solves_the_normal_equations(self, rng):
        X, w = rng.normal(size=(40, 6)), rng.uniform(0.2, 2.0, 40)
        Y = rng.normal(size=(40, 2)) + 3.0
        X -= w @ X / w.sum()
        for design in (X, X[:5] - w[:5] @ X[:5] / w[:5].sum()):  # more rows than columns, and fewer
            n = len(design)
            coef, free = fit_ridge_path(design, Y[:n], w[:n], (0.1, 2.0))
            for r, ridge in enumerate((0.1, 2.0)):
                D = np.column_stack([design, np.ones(n)])
                P = np.diag(np.r_[np.full(6, ridge), 0.0])
                wanted = np.linalg.solve((D.T * w[:n]) @ D + P, (D.T * w[:n]) @ Y[:n])
                np.testing.assert_allclose(np.column_stack([coef[r], free[r]]).T, wanted, atol=1e-9)

    def test_the_surprise_of_numbers_is_half_the_log_of_the_squared_error(self, rng):
        held, y, w = rng.normal(size=(3, 20, 1)), rng.normal(size=(20, 1)), rng.uniform(0.5, 2.0, 20)
        wanted = [0.5 * np.log(np.average((h - y)[:, 0] ** 2, weights=w)) for h in held]
        np.testing.assert_allclose(method.Numbers().surprise(held, y, w), wanted)

    def test_strata_have_as_many_distinct_numbers(self):
        y, mass = np.r_[np.zeros(90), np.arange(1.0, 10.0), 1e9], np.ones(100)
        mass[-1] = 0  # does not count
        codes, names = _strata(y, mass)
        assert np.bincount(codes[:-1]).tolist() == [91, 2, 2, 2, 2] and len(names) == 5
        assert _strata(np.array([3.0, 3.0, 5.0]), np.ones(3))[0].tolist() == [0, 0, 1]

    def test_directions_that_a_ridge_leaves_nothing_of_are_left_out(self, rng):
        X = rng.normal(size=(40, 3)) * np.array([1.0, 1.0, 1e-4])
        X -= X.mean(axis=0)
        coef, _ = fit_ridge_path(X, X @ np.ones((3, 1)) + 100 * X[:, 2:], np.ones(40), (0.01, 10.0))
        assert abs(coef[0, 0, 2]) < 1e-3
        strong = X * np.array([1.0, 1.0, 100.0])
        kept, _ = fit_ridge_path(strong, strong @ np.ones((3, 1)), np.ones(40), (1e-4, 10.0))
        assert kept[0, 0, 2] == pytest.approx(1.0, abs=0.5)

    def test_units_have_mean_zero_and_variance_one(self, rng):
        y, w = 1e120 * rng.normal(3.0, 2.0, 50), rng.uniform(0.1, 2.0, 50)
        units = Units.of(y, w)
        z = (y - units.centre) / units.spread
        assert np.average(z, weights=w) == pytest.approx(0, abs=1e-12)
        assert np.average(z**2, weights=w) == pytest.approx(1)
        assert Units.of(np.full(4, 7.0), np.ones(4)) == Units(7.0, 1.0)
