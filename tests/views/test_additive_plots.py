"""Displays of additive models: curves with steps, coarse maps, contributions and importances."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

matplotlib = pytest.importorskip("matplotlib", reason="the displays need matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tamis import TamisClassifier, TamisRegressor
from tamis.results.additive import shuffled_losses
from tamis.views import plots
from tamis.views.plots.shapes import Shape

from report_fits import product_table


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def frame():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(product_table())
    X["mostly zero"] = np.where(rng.random(len(X)) < 0.8, 0.0, np.exp(3 * rng.normal(size=len(X))))
    return X.drop(columns="y"), X["y"].astype(str)


@pytest.fixture(scope="module")
def two():
    X, y = frame()
    return TamisClassifier(6, 1, 6).fit(X, y), X, y


@pytest.fixture(scope="module")
def regressor():
    X, _ = frame()
    y = X["b"].fillna(0).to_numpy() + (X["colour"] == "red").to_numpy()
    return TamisRegressor(4, 1, 4).fit(X, y), X, y


def test_curves_have_their_steps(two):
    clf, X, _ = two
    display = plots.ShapeFunctionDisplay.from_estimator(clf, X)
    assert set(display.lines_) == set(clf.model_.encoder.names)
    grid, values = clf.curve("b")
    np.testing.assert_array_equal(display.lines_["b"][0].get_xdata(), grid)
    np.testing.assert_array_equal(display.lines_["b"][0].get_ydata(), values)
    assert "log-odds" in display.ax_[0].get_ylabel()
    scales = {axis.get_xlabel(): axis.get_xscale() for axis in display.ax_}
    assert scales["income"] == "log" and scales["mostly zero"] == "function" and scales["b"] == "linear"


def test_axes_are_spread_without_rows_too(two):
    clf, _, _ = two
    display = plots.ShapeFunctionDisplay.from_estimator(clf)
    scales = {axis.get_xlabel(): axis.get_xscale() for axis in display.ax_}
    assert scales["income"] in ("log", "function") and scales["b"] == scales["code"] == "linear"


def test_of_many_levels_those_that_add_most_are_drawn():
    grid = np.array([f"level {k}" for k in range(40)], dtype=object)
    values = np.sin(np.arange(40.0))[:, None]
    display = plots.ShapeFunctionDisplay([Shape("c", grid, values, None)], outputs=["yes"]).plot()
    bars = display.lines_["c"][0]
    assert len(bars) == 16 and display.ax_.get_xlabel() == "c (16 largest of 40)"
    smallest = min(abs(bar.get_height()) for bar in bars)
    assert np.sum(np.abs(values) >= smallest) == 16
    names = [text.get_text() for text in display.ax_.get_xticklabels()]
    heights = [values[grid.tolist().index(name), 0] for name in names]
    np.testing.assert_array_equal(heights, [bar.get_height() for bar in bars])


def test_a_missing_value_has_a_mark_where_rows_lack_one(two):
    clf, X, _ = two
    display = plots.ShapeFunctionDisplay.from_estimator(clf, X, features=["a", "income"])
    assert list(display.missing_points_) == ["a"]
    np.testing.assert_allclose(display.missing_points_["a"][0].get_ydata(), clf.curve("a", [np.nan])[1])
    assert not plots.ShapeFunctionDisplay.from_estimator(clf, features="a").missing_points_


def test_a_curve_over_few_values_is_flat_around_each_of_them(two):
    clf, X, _ = two
    display = plots.ShapeFunctionDisplay.from_estimator(clf, X, features="code")
    values = clf.curve("code", np.array([0.0, 1.0, 2.0]))[1]
    np.testing.assert_allclose(display.lines_["code"][0].get_ydata(), np.repeat(values, 2))


def test_maps_are_coarse_and_without_cases(two):
    clf, _, _ = two
    first, second = clf.pairs_[0]
    display = plots.SurfaceDisplay.from_estimator(clf, first, second)
    values = clf.surface(first, second)[2]
    drawn = np.ma.getdata(display.maps_[0].get_array()).reshape(values.T.shape)
    np.testing.assert_array_equal(drawn, values.T)
    assert not display.zero_lines_ and not len(display.case_points_[0].get_offsets())


def test_a_waterfall_has_features_pairs_and_each_case(two):
    clf, X, _ = two
    display = plots.ContributionDisplay.from_estimator(clf, X.head(3), row=1)
    n = len(clf.features_) + len(clf.pairs_) + len(clf.instances_)
    assert display.contributions.shape == (3, n) and len(display.bars_) == min(n, 20)
    np.testing.assert_allclose(display.decision, clf.decision_function(X.head(3)), atol=1e-12)
    assert any("resembles case" in str(name) and "of 1" in str(name) for name in display.names)
    assert "log-odds" in display.ax_.get_xlabel()
    cases = plots.ContributionDisplay.from_estimator(clf, X.head(3), by="instance")
    assert cases.names[0] == "features and pairs" and len(cases.names) == 1 + len(clf.instances_)
    np.testing.assert_allclose(cases.decision, display.decision, atol=1e-12)


def test_a_beeswarm_has_all_cases_together(two):
    clf, X, _ = two
    display = plots.ContributionDisplay.from_estimator(clf, X, kind="beeswarm")
    assert display.contributions.shape[1] == len(clf.features_) + len(clf.pairs_) + bool(len(clf.instances_))


def test_importance_shows_sizes_and_losses(two):
    clf, X, y = two
    display = plots.ImportanceDisplay.from_estimator(clf, X, y)
    sizes = np.abs(clf.explain(X).by_part).mean(axis=0)[0]
    np.testing.assert_allclose([bar.get_width() for bar in display.importance_bars_[0]], np.sort(sizes)[::-1])
    losses = shuffled_losses(clf, {name: X[name].to_numpy() for name in clf.model_.encoder.names}, y)
    assert max(bar.get_width() for bar in display.loss_bars_[0]) == pytest.approx(max(losses.values()))
    assert len(np.ravel(plots.ImportanceDisplay.from_estimator(clf, X).ax_)) == 1
    assert plots.ImportanceDisplay.from_estimator(clf).sizes is None
    assert plots.ImportanceDisplay.from_estimator(clf, X, of="cases").variation_bars_


def test_a_regressor_is_drawn_in_its_own_words(regressor):
    reg, X, _ = regressor
    assert plots.ShapeFunctionDisplay.from_estimator(reg, X).ax_[0].get_ylabel().startswith("added to the prediction")
    display = plots.ContributionDisplay.from_estimator(reg, X.head(1))
    assert display.ax_.get_xlabel() == "prediction"
    assert "prediction" in plots.ImportanceDisplay.from_estimator(reg, X).ax_.get_xlabel()


def test_a_waterfall_of_several_classes_is_a_log_odds_against_the_next_one():
    X, _ = frame()
    y = np.digitize(X["b"], [-0.5, 0.5])
    clf = TamisClassifier(2, 0, 0).fit(X, y)
    display = plots.ContributionDisplay.from_estimator(clf, X.head(6), row=5)
    probability = np.sort(clf.predict_proba(X.head(6))[5])[::-1]
    assert display.decision[5] == pytest.approx(np.log(probability[0] / probability[1]))
    assert " against " in display.output and display.ax_.get_xlabel().startswith("log-odds")


def test_three_classes_are_drawn():
    X, _ = frame()
    y = np.digitize(X["b"] * (1 + X["a"].fillna(0)), [-0.5, 0.5])
    clf = TamisClassifier(3, 1, 4).fit(X, y)
    for display in (
        plots.ShapeFunctionDisplay.from_estimator(clf, X),
        plots.SurfaceDisplay.from_estimator(clf, *clf.pairs_[0]),
        plots.ImportanceDisplay.from_estimator(clf, X, y),
        plots.ContributionDisplay.from_estimator(clf, X, row=5),
    ):
        display.figure_.canvas.draw()


def test_a_path_over_features_only_is_no_map_of_budgets(two):
    clf, X, y = two
    paths = TamisClassifier("auto", 0, 0, random_state=0).fit(X, y)
    assert set(paths.path_) == {"n_features", "features", "loss", "error"}
    with pytest.raises(ValueError, match="over the number of features only"):
        plots.BudgetPathDisplay.from_estimator(paths)
    with pytest.raises(ValueError, match="has no path_"):
        plots.BudgetPathDisplay.from_estimator(clf)
