from __future__ import annotations

import builtins
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp
from sklearn.datasets import load_iris

from tamis import (
    EM2NOLCClassifier,
    EM2NOLCClassifierCV,
    IMKPLClassifier,
    L0MKLClassifier,
    per_feature,
    per_group,
    product,
)
from tamis.base.explaining import case_values, kept_features, kept_values
from tamis.explain.measures import jaccard
from tamis.views.studies import assigned, embed, stability_across_folds

matplotlib = pytest.importorskip("matplotlib", reason="the displays need matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt

from tamis.views import plots
from tamis.views.plots.drawing import label, point_style
from tamis.views.plots.shapes import Direction


@pytest.fixture(autouse=True)
def no_figure_is_left():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def two(cancer):
    X, y = cancer
    return EM2NOLCClassifier(4, 3, calibration=None).fit(X, y), X, np.asarray(y)


@pytest.fixture(scope="module")
def iris():
    data = load_iris(as_frame=True)
    y = data.target_names[data.target]
    return EM2NOLCClassifier(3, 2, calibration=None).fit(data.data, y), data.data, y


@pytest.fixture(scope="module")
def mixed():
    """Numbers with gaps, categories, and names that mean something to matplotlib."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "$a_1": rng.normal(size=250),
        "_b": rng.normal(size=250),
        "town": rng.choice(["x", "y", "z"], 250),
    })  # fmt: skip
    y = np.where(X["$a_1"] + X["_b"] + 2 * (X["town"] == "y") > 0.5, "yes", "no")
    X.loc[::9, "_b"] = np.nan
    return EM2NOLCClassifier(5, 3, calibration=None).fit(X, y), X, y


@pytest.fixture(scope="module")
def grouped(cancer):
    X, y = cancer
    return EM2NOLCClassifier(4, 4, kernels=product() + per_feature(), calibration=None).fit(X, y), X


@pytest.fixture(scope="module")
def search(cancer):
    X, y = cancer
    return EM2NOLCClassifierCV(3, 3, cv=3, bandwidths=(1.0,), alphas=(0.01,)).fit(X, y)


@pytest.fixture(scope="module")
def prototypes(iris):
    _, X, y = iris
    return IMKPLClassifier(3, calibration=None).fit(X[::2], y[::2]), X[::2], y[::2]


def widths(bars):
    return np.array([bar.get_width() for bar in bars])


# ---------------------------------------------------------------------- importances


def test_importance_bars_are_the_importances_of_the_model(two):
    clf = two[0]
    display = plots.ImportanceDisplay.from_estimator(clf)
    order = np.argsort(-clf.feature_variation_)
    np.testing.assert_allclose(widths(display.importance_bars_[0]), clf.feature_importance_[order])
    np.testing.assert_allclose(widths(display.variation_bars_[0]), clf.feature_variation_[order])
    order = np.argsort(-clf.instance_variation_)
    np.testing.assert_allclose(widths(display.importance_bars_[1]), clf.instance_importance_[order])
    ticks = [text.get_text() for text in display.ax_[2].get_yticklabels()]
    assert ticks == [str(clf.instance_labels_[k]) for k in order]
    for bar in [bar for bars in display.importance_bars_ for bar in bars]:
        assert bool(bar.get_hatch()) == (bar.get_width() < 0)  # a sign is not told by colour alone


def test_importance_has_bars_for_every_class(iris):
    clf = iris[0]
    display = plots.ImportanceDisplay.from_estimator(clf, of="features")
    order = np.argsort(-clf.kernel_variation_.sum(axis=0))
    for q in range(3):
        np.testing.assert_allclose(widths(display.importance_bars_[q]), clf.kernel_importance_[q, order])
    assert [t.get_text() for t in display.ax_[1].get_legend().get_texts()] == list(clf.classes_)


def test_importance_of_one_weight_vector_for_all_classes_and_of_groups(iris, grouped):
    _, X, y = iris
    shared = EM2NOLCClassifier(3, 2, shared_support=True, coupling="full", calibration=None).fit(X, y)
    assert kept_features(shared).importance.shape == (3, 2)
    assert len(plots.ImportanceDisplay.from_estimator(shared).importance_bars_) == 6
    clf = grouped[0]
    assert any(" * " in name for name in kept_features(clf).names)
    drawn = plots.ImportanceDisplay.from_estimator(clf, of="features").variation_bars_[0]
    np.testing.assert_allclose(widths(drawn).sum(), 100)


class Unfactored(EM2NOLCClassifier):
    """A classifier without vectors of case coefficients and kernel weights."""

    def _learn_prepared(self, prepared, alpha, *, rough=False):
        model, attributes = super()._learn_prepared(prepared, alpha, rough=rough)
        return replace(model, dual_coef=None, kernel_weights=None), attributes


def test_importance_without_factors_shows_variation_alone(two):
    _, X, y = two
    clf = Unfactored(4, 3, calibration=None).fit(X, y)
    assert not hasattr(clf, "kernel_weights_")
    display = plots.ImportanceDisplay.from_estimator(clf)
    assert display.importance_bars_ == [] and len(display.ax_) == 2
    np.testing.assert_allclose(widths(display.variation_bars_[0]), np.sort(clf.kernel_variation_)[::-1])
    assert "importance" not in clf._repr_html_()


def test_no_names_overlap_with_twenty_features(cancer):
    X, y = cancer
    clf = EM2NOLCClassifier(6, 20, calibration=None).fit(X, y)
    row_lists = [
        plots.ImportanceDisplay.from_estimator(clf, of="features").ax_[0],
        plots.ContributionDisplay.from_estimator(clf, X[:1]).ax_,
        plots.ContributionDisplay.from_estimator(clf, X, kind="beeswarm").ax_,
    ]
    for axis in row_lists:
        axis.figure.canvas.draw()
        boxes = sorted((t.get_window_extent() for t in axis.get_yticklabels()), key=lambda box: box.y0)
        assert len(boxes) == 20
        assert all(low.y1 <= high.y0 + 0.5 for low, high in pairwise(boxes))
        assert all(box.x0 >= 0 for box in boxes), "cut off at the left"


# ---------------------------------------------------------------------- shape functions


def test_shapes_are_drawn_as_the_model_has_them(iris, mixed):
    clf, X, _ = iris
    display = plots.ShapeFunctionDisplay.from_estimator(clf, X)
    for name, lines in display.lines_.items():
        grid, values = clf.curve(name)
        for line, column in zip(lines, values.T, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), grid)
            np.testing.assert_array_equal(line.get_ydata(), column)
    clf, X, _ = mixed
    display = plots.ShapeFunctionDisplay.from_estimator(clf, X, features=["town", "_b"])
    heights = [bar.get_height() for bar in display.lines_["town"][0]]
    np.testing.assert_allclose(heights, clf.curve("town")[1])
    counts = X["town"].value_counts()
    assert [t.get_text() for t in display.ax_[0].get_xticklabels()] == [f"{v} ({counts[v]})" for v in "xyz"]


def test_shapes_take_positions_and_the_axes_of_the_caller(two):
    clf, X, _ = two
    figure, axes = plt.subplots(1, 2)
    display = plots.ShapeFunctionDisplay.from_estimator(clf, X, features=clf.features_[:2], ax=axes)
    assert display.figure_ is figure and list(display.lines_) == [str(X.columns[j]) for j in clf.features_[:2]]
    with pytest.raises(ValueError, match="ax holds 2 axes and this display has 1 panels"):
        plots.ShapeFunctionDisplay.from_estimator(clf, features=str(X.columns[clf.features_[0]]), ax=axes)


def test_a_group_has_no_shape(cancer):
    X, y = cancer
    clf = EM2NOLCClassifier(3, 2, kernels=product(list(X.columns[:2])), calibration=None).fit(X, y)
    with pytest.raises(ValueError, match="no kept feature has a shape"):
        plots.ShapeFunctionDisplay.from_estimator(clf)


# ---------------------------------------------------------------------- contributions


@pytest.mark.parametrize("by", ["part", "instance"])
@pytest.mark.parametrize("most", [2, 20])
def test_waterfall_goes_from_the_base_value_to_the_decision(two, by, most):
    clf, X, _ = two
    display = plots.ContributionDisplay.from_estimator(clf, X[:3], row=2, by=by, max_display=most)
    decision = clf.decision_function(X[:3])[2]
    bars = list(display.bars_)
    assert len(bars) == min(most, 3 if by == "part" else 4)
    np.testing.assert_allclose(widths(bars).sum() + clf.intercept_[0], decision)
    np.testing.assert_allclose(bars[0].get_x() + bars[0].get_width(), decision)
    np.testing.assert_allclose(bars[-1].get_x(), clf.intercept_[0])
    for upper, lower in pairwise(bars):
        np.testing.assert_allclose(upper.get_x(), lower.get_x() + lower.get_width())


def test_waterfall_takes_groups_classes_and_values(grouped, iris, mixed):
    clf, X = grouped
    display = plots.ContributionDisplay.from_estimator(clf, X[:2])
    np.testing.assert_allclose(widths(display.bars_).sum() + clf.intercept_[0], clf.decision_function(X[:2])[0])
    clf, X, _ = iris
    decision = clf.decision_function(X[:2])
    for output in (None, "virginica"):
        q = int(np.argmax(decision[0])) if output is None else 2
        display = plots.ContributionDisplay.from_explanation(clf.explain(X[:2]), output=output)
        assert display.output == clf.classes_[q]
        np.testing.assert_allclose(widths(display.bars_).sum() + clf.intercept_[q], decision[0, q])
    clf, X, _ = mixed
    names = [t.get_text() for t in plots.ContributionDisplay.from_estimator(clf, X[1:2]).ax_.get_yticklabels()]
    assert f"town = {X['town'][1]}" in names and rf"\$a_1 = {X['$a_1'][1]:.4g}" in names
    with pytest.raises(ValueError, match="is not explained"):
        plots.ContributionDisplay.from_explanation(clf.explain(X[:2]), output="maybe")
    with pytest.raises(ValueError, match="row=2"):
        plots.ContributionDisplay.from_explanation(clf.explain(X[:2]), row=2)


def test_beeswarm_shows_every_contribution_once(mixed):
    clf, X, _ = mixed
    display = plots.ContributionDisplay.from_estimator(clf, X.fillna(0), kind="beeswarm")
    parts = clf.explain(X.fillna(0)).by_part[:, 0]
    order = np.argsort(-np.abs(parts).mean(axis=0))
    for k, points in zip(order, display.points_, strict=True):
        x, y = points.get_offsets().data.T
        np.testing.assert_array_equal(np.sort(x), np.sort(parts[:, k]))
        assert np.abs(y - np.round(y.mean())).max() <= 0.45
    with pytest.raises(ValueError, match="kind='pie'"):
        display.plot(kind="pie")


# ---------------------------------------------------------------------- scores and budgets


def test_ks_gap_is_that_of_an_independent_test(two, iris):
    clf, X, y = two
    for label_, sign in ((1, 1), (0, -1)):
        display = plots.KSCurveDisplay.from_estimator(clf, X, y, pos_label=label_)
        score = sign * clf.decision_function(X)
        expected = ks_2samp(score[y == label_], score[y != label_])
        np.testing.assert_allclose(np.ptp(display.gap_line_.get_ydata()), expected.statistic)
        np.testing.assert_allclose(display.curve.ks.value, expected.statistic)
        np.testing.assert_allclose(display.gap_line_.get_xdata(), expected.statistic_location)
        share = [np.mean(score[y == label_] <= t) for t in display.curve.threshold]
        np.testing.assert_allclose(display.positive_line_.get_ydata()[1:], share)
    clf, X, y = iris
    display = plots.KSCurveDisplay.from_estimator(clf, X, y, pos_label="versicolor")
    score = clf.decision_function(X)[:, 1]
    expected = ks_2samp(score[y == "versicolor"], score[y != "versicolor"]).statistic
    np.testing.assert_allclose(display.curve.ks.value, expected)
    with pytest.raises(ValueError, match="pos_label=None is not a class"):
        plots.KSCurveDisplay.from_estimator(clf, X, y)
    with pytest.raises(ValueError, match="name the positive one"):
        plots.KSCurveDisplay.from_predictions(y, score)


def test_budget_path_shows_the_scores_and_frames_the_choice(search, two):
    for score in (None, "accuracy"):
        display = plots.BudgetPathDisplay.from_estimator(search, score=score)
        np.testing.assert_array_equal(display.image_.get_array(), search.path_[score or search.scoring_])
        x, y = (np.mean(np.unique(v)) for v in display.chosen_mark_.get_data())
        assert search.path_["max_features"][int(x)] == search.max_features_
        assert search.path_["max_instances"][int(y)] == search.max_instances_
    assert search.path_["accuracy"].shape == (3, 3) and np.ptp(search.path_["accuracy"]) > 0
    with pytest.raises(ValueError, match="score='f1'"):
        plots.BudgetPathDisplay.from_estimator(search, score="f1")
    with pytest.raises(ValueError, match="has no path_"):
        plots.BudgetPathDisplay.from_estimator(two[0])


# ---------------------------------------------------------------------- history


def test_histories_are_drawn_as_recorded(two, iris):
    for clf, histories in ((two[0], [two[0].history_]), (iris[0], iris[0].history_)):
        display = plots.ConvergenceDisplay.from_estimator(clf)
        for k, history in enumerate(histories):
            np.testing.assert_array_equal(display.objective_lines_[k].get_ydata(), history.objective)
            np.testing.assert_array_equal(display.violation_lines_[k].get_ydata(), history.violation)
        weights = plots.KernelWeightDisplay.from_estimator(clf)
        for lines, history in zip(weights.lines_, histories, strict=True):
            used = np.any(history.weights != 0, axis=0)
            assert len(lines) == used.sum()
            drawn = np.array([line.get_ydata() for line in lines]).T
            np.testing.assert_allclose(sorted(drawn[-1]), sorted(history.weights[-1, used]))
    names = [t.get_text() for t in weights.ax_[0].get_legend().get_texts()]
    assert set(names) <= set(iris[0].kernel_names_)


def test_a_history_without_weights_is_refused(two):
    _, X, y = two
    clf = EM2NOLCClassifier(2, 2, calibration=None).fit(X, y)
    clf.history_ = replace(clf.history_, weights=None)
    with pytest.raises(ValueError, match="does not record the kernel weights"):
        plots.KernelWeightDisplay.from_estimator(clf)


def test_values_of_kept_cases_come_back_in_their_own_units(mixed):
    _, X, y = mixed
    for scaling in ("standard", "rank", None):
        clf = EM2NOLCClassifier(5, 3, scaling=scaling, calibration=None).fit(X, y)
        rows = kept_values(clf, X.iloc[clf.instances_])
        for name, values in case_values(clf).items():
            if values.dtype == object:
                assert values.tolist() == rows[name].tolist()
            else:
                np.testing.assert_allclose(values, rows[name], atol=1e-9)


# ---------------------------------------------------------------------- stability


def test_stability_heat_map_is_the_matrix(cancer, search):
    X, y = cancer
    names = ["mean radius", "mean texture", "worst area", "worst texture", "mean symmetry"]
    few = X[names]
    clf = EM2NOLCClassifier(2, 2)
    display = plots.StabilityDisplay.from_estimator(clf, few, y, cv=3)
    found = display.stability
    np.testing.assert_array_equal(display.image_.get_array(), found.correlation)
    expected = np.abs(np.corrcoef(few[list(found.features)].to_numpy().T))
    np.testing.assert_allclose(found.correlation, expected, atol=1e-9)
    marks = np.zeros(found.chosen.shape, dtype=bool)
    marks[tuple(display.chosen_marks_.get_offsets().data.T.astype(int))] = True
    np.testing.assert_array_equal(marks, found.chosen)
    again = stability_across_folds(clf, {name: few[name].to_numpy() for name in names}, y, cv=3)
    np.testing.assert_array_equal(again.chosen, found.chosen)
    assert stability_across_folds(search, X, y, cv=2).chosen.sum(axis=1).max() <= search.max_features_
    pairs = [jaccard(np.flatnonzero(a), np.flatnonzero(b)) for i, a in enumerate(marks) for b in marks[:i]]
    np.testing.assert_allclose(found.jaccard.value, np.mean(pairs))


def test_stability_fits_what_a_fit_on_the_fold_would_keep(cancer):
    X, y = cancer
    halves = [(np.arange(0, 569, 2), np.arange(1, 569, 2)), (np.arange(1, 569, 2), np.arange(0, 569, 2))]
    found = stability_across_folds(EM2NOLCClassifier(3, 3), X, y, cv=halves)
    for chosen, (train, _) in zip(found.chosen, halves, strict=True):
        clf = EM2NOLCClassifier(3, 3).fit(X.iloc[train], y.iloc[train])
        assert {f for f, c in zip(found.features, chosen, strict=True) if c} == set(X.columns[clf.features_])


# ---------------------------------------------------------------------- accuracy against the number of features


def test_feature_path_shows_models_on_the_best_features(cancer):
    X, y = cancer
    train, test = X.index % 2 == 0, X.index % 2 == 1
    clf = L0MKLClassifier(rounds=2, calibration=None).fit(X[train], y[train])
    display = plots.FeaturePathDisplay.from_estimator(clf, X[train], y[train], X[test], y[test], most=3)
    assert list(display.line_.get_xdata()) == [1, 2, 3] and display.kept == len(clf.features_)
    two = X.columns[clf.feature_path_[:2]]
    again = L0MKLClassifier(0.0, rounds=2, calibration=None).fit(X.loc[train, two], y[train])
    assert len(again.features_) == 2
    assert display.line_.get_ydata()[1] == again.score(X.loc[test, two], y[test]) > 0.85
    as_dicts = [{name: part[name].to_numpy() for name in X.columns} for part in (X[train], X[test])]
    other = plots.FeaturePathDisplay.from_estimator(clf, as_dicts[0], y[train], as_dicts[1], y[test], most=2)
    assert other.accuracy == display.accuracy[:2]


def test_feature_path_says_what_it_cannot_draw(two):
    clf, X, y = two
    with pytest.raises(ValueError, match="feature_path_"):
        plots.FeaturePathDisplay.from_estimator(clf, X, y, X, y)
    group = L0MKLClassifier(kernels=per_group({"all": [0, 1]}), calibration=None).fit(X, y)
    with pytest.raises(ValueError, match="one kernel per feature"):
        plots.FeaturePathDisplay.from_estimator(group, X, y, X, y)


# ---------------------------------------------------------------------- prototypes


def test_atlas_shows_rows_and_prototypes_where_the_map_has_them(prototypes):
    clf, X, y = prototypes
    display = plots.PrototypeAtlasDisplay.from_estimator(clf, X, y, method="mds")
    rows, stars = embed(clf, X, method="mds")
    for name in clf.classes_:
        np.testing.assert_array_equal(display.row_points_[name].get_offsets(), rows[y == name])
        np.testing.assert_array_equal(display.stars_[name].get_offsets(), stars[clf.prototype_labels_ == name])
        colours = {tuple(points.get_facecolor()[0, :3]) for points in (display.row_points_[name], display.stars_[name])}
        assert len(colours) == 1
    counts = [len(represented) for represented in clf.represented(X)]
    areas = np.empty(len(counts))
    for name in clf.classes_:
        areas[clf.prototype_labels_ == name] = display.stars_[name].get_sizes()
    np.testing.assert_allclose(areas / areas.max(), np.array(counts) / max(counts))
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == [f"{n} rows" for n in (min(counts), max(counts))] and display.links_ is None


def test_atlas_links_each_row_with_the_prototype_of_the_largest_share(prototypes):
    clf, X, _ = prototypes
    display = plots.PrototypeAtlasDisplay.from_estimator(clf, X, method="mds", links=True)
    rows, stars = embed(clf, X, method="mds")
    main = assigned(clf, X).argmax(axis=1)
    np.testing.assert_array_equal(display.links_.get_segments(), np.stack([rows, stars[main]], axis=1))
    assert "as predicted" in display.ax_.get_title()
    np.testing.assert_array_equal(np.array(display.classes)[display.row_classes], clf.predict(X))


def test_atlas_refuses_a_class_that_the_fit_did_not_see(prototypes):
    clf, X, y = prototypes
    with pytest.raises(ValueError, match="y holds 'rose', which the fit did not see"):
        plots.PrototypeAtlasDisplay.from_estimator(clf, X, np.where(y == "setosa", "rose", y))


def many_classes(n=26):
    """A map of so many classes, three rows and a prototype each; the first one has no row."""
    rng = np.random.default_rng(1)
    centres = np.repeat(np.stack(np.divmod(np.arange(n), 5), axis=1), 3, axis=0).astype(float)
    codes = np.repeat(np.arange(n), 3)
    rows = (centres + rng.normal(size=(3 * n, 2)) / 20)[3:]
    parts = {"rows": rows, "row_classes": codes[3:], "prototypes": centres[::3], "prototype_classes": np.arange(n)}
    return plots.PrototypeAtlasDisplay(
        **parts, shares=np.eye(n)[codes[3:]], classes=[f"class {q}" for q in range(n)], method="tsne"
    )


def test_many_classes_have_their_names_on_the_map():
    display = many_classes().plot()
    assert [text.get_text() for text in display.names_] == display.classes
    for q, text in enumerate(display.names_[1:], 1):
        place = np.array(text.get_position())
        assert display.row_classes[np.linalg.norm(display.rows - place, axis=1).argmin()] == q
    np.testing.assert_array_equal(display.names_[0].get_position(), display.prototypes[0])
    assert len(display.ax_.get_legend().get_texts()) == 2
    assert len({tuple(point_style(q).values()) for q in range(91)}) == 91
    display.figure_.canvas.draw()
    boxes = [text.get_window_extent() for text in display.names_]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def test_prototypes_per_class_are_counted_and_described(prototypes):
    clf = prototypes[0]
    display = plots.PrototypesPerClassDisplay.from_estimator(clf)
    assert widths(display.bars_).tolist() == list(clf.prototypes_per_class_.values())
    for name, text in zip(clf.classes_, display.texts_, strict=True):
        own = [p for p in clf.prototypes_ if p.label == name]
        purity, size = np.mean([p.purity for p in own]), np.mean([len(p) for p in own])
        assert text.get_text() == f"{len(own)}: {100 * purity:.0f} % pure, {size:.1f} samples each"
    display = plots.PrototypesPerClassDisplay([*clf.classes_, "empty"], clf.prototypes_).plot()
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == [*clf.classes_, "empty"]
    assert display.texts_[-1].get_text() == "none"


def test_words_on_thirty_classes_fit_into_the_figure(prototypes):
    made = [replace(prototypes[0].prototypes_[0], label=k) for k in range(30) for _ in range(1 + k)]
    display = plots.PrototypesPerClassDisplay(range(30), made).plot()
    display.figure_.canvas.draw()
    boxes = [text.get_window_extent() for text in display.texts_]
    assert all(box.x1 <= display.ax_.bbox.x1 for box in boxes)
    assert all(low.y1 <= high.y0 + 0.5 for high, low in pairwise(boxes))


def test_effects_of_parameters_are_drawn_as_measured(prototypes):
    clf, X, y = prototypes
    grid = {"tau": [0.5, 0.0], "weight_step": ["align", "uniform"]}
    display = plots.ParameterEffectsDisplay.from_estimator(clf, X, y, grid, cv=2)
    for measure, line in display.lines_["tau"].items():
        assert line.get_xdata().tolist() == [0.0, 0.5]
        np.testing.assert_array_equal(line.get_ydata()[::-1], display.effects["tau"][measure])
    np.testing.assert_array_equal(
        display.lines_["weight_step"]["accuracy"].get_ydata(), display.effects["weight_step"]["accuracy"]
    )
    assert [t.get_text() for t in display.ax_[1].get_xticklabels()] == grid["weight_step"]
    assert [line.get_xdata()[0] for line in display.current_lines_.values()] == [clf.tau, 0]


def test_effects_without_spreads_and_of_many_parameters_are_drawn():
    one = {"values": [0.01, 1.0], "accuracy": [80.0, 90.0], "interpretability": [70.0, 60.0]}
    display = plots.ParameterEffectsDisplay.from_results(dict.fromkeys("abcde", one), current={"a": 5.0})
    assert len(display.ax_) == len(display.figure_.axes) == 5 and not display.current_lines_
    assert display.ax_[0].get_xscale() == "log"
    figure, axes = plt.subplots(1, 2)
    assert display.plot() is display
    two = plots.ParameterEffectsDisplay.from_results(dict.fromkeys("ab", one), ax=axes)
    assert two.figure_ is figure
    with pytest.raises(ValueError, match="effects is empty"):
        plots.ParameterEffectsDisplay.from_results({})


def test_convergence_says_what_it_measures(prototypes, two):
    clf = prototypes[0]
    display = plots.ConvergenceDisplay.from_estimator(clf)
    assert display.ax_[1].get_ylabel() == "relative change of objective"
    change = np.abs(np.diff(clf.history_.objective))
    drawn = display.violation_lines_[0].get_ydata()[1:]
    assert np.corrcoef(np.log(change), np.log(drawn))[0, 1] > 0.99  # the same but for the scale
    assert plots.ConvergenceDisplay.from_estimator(two[0]).ax_[1].get_ylabel() == "violation of optimality"


# ---------------------------------------------------------------------- all of them


def made_surface():
    """A category with odd levels beside a number that never changes, for three classes."""
    levels = np.array(["$x$", "_y", "a level with a long name"], dtype=object)
    first = Direction("$a_1", levels, np.array(["_y", "unknown", None], dtype=object), np.empty(0))
    second = Direction("_b", np.array([7.0]), np.array([7.0, 7.0, np.nan]), np.empty(0))
    return plots.SurfaceDisplay(first, second, np.zeros((3, 1, 3)), outputs=["$u", "_v", "w"])


def test_text_and_layout_are_drawn_without_a_warning(mixed, iris, search, prototypes):
    clf, X, y = mixed
    found = stability_across_folds(clf, X, y, cv=2)
    figures = [
        plots.ImportanceDisplay.from_estimator(clf),
        plots.ShapeFunctionDisplay.from_estimator(clf, X),
        plots.ContributionDisplay.from_estimator(clf, X[:1]),
        plots.ContributionDisplay.from_estimator(clf, X, kind="beeswarm"),
        plots.KSCurveDisplay.from_estimator(clf, X, y),
        plots.BudgetPathDisplay.from_estimator(search),
        plots.KernelWeightDisplay.from_estimator(clf),
        plots.ConvergenceDisplay.from_estimator(iris[0]),
        plots.StabilityDisplay(found).plot(),
        plots.FeaturePathDisplay([1, 2, 3], [0.7, 0.9, 0.8], kept=2, name="L0MKLClassifier").plot(),
        plots.PrototypeAtlasDisplay.from_estimator(*prototypes, links=True),
        many_classes().plot(),
        plots.PrototypesPerClassDisplay.from_estimator(prototypes[0]),
        plots.ParameterEffectsDisplay.from_results(
            {"$a_1": {"values": [None, 2], "accuracy": [70, 80], "interpretability": [90, 80]}}
        ),
        made_surface().plot(),
    ]
    assert {type(display).__name__ for display in figures} == set(plots.__all__)
    for display in figures:
        display.figure_.canvas.draw()


def test_displays_draw_into_given_axes_and_again(two):
    clf, X, y = two
    figure, ax = plt.subplots()
    display = plots.KSCurveDisplay.from_estimator(clf, X, y, ax=ax)
    assert display.ax_ is ax and display.figure_ is figure
    assert display.plot() is display and display.figure_ is not figure


def test_a_model_that_keeps_nothing_can_be_drawn():
    X = np.zeros((20, 2))
    X[:, 0] = np.arange(20) % 2
    y = (np.arange(20) // 2) % 2
    with pytest.warns(UserWarning, match="kept no instance"):
        clf = EM2NOLCClassifier(2, 1, calibration=None).fit(X, y)
    assert len(clf.instances_) == 0
    plots.ImportanceDisplay.from_estimator(clf)
    plots.ContributionDisplay.from_estimator(clf, X[:2])
    plots.ConvergenceDisplay.from_estimator(clf)
    assert "none" in clf._repr_html_()


def test_labels_are_text_and_fit():
    assert label("$x$") == r"\$x\$" and label("_a") == " _a" and label("two\nlines") == "two lines"
    assert len(label("a" * 99, 20)) <= 20


def test_missing_matplotlib_is_one_sentence(two, monkeypatch):
    real = builtins.__import__

    def fake(name, *args, **kw):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kw)

    monkeypatch.setattr(builtins, "__import__", fake)
    for name in plots.__all__:
        sentence = rf"^{name} needs matplotlib: pip install 'tamis\[plot\]'$"
        with pytest.raises(ImportError, match=sentence):
            getattr(plots, name)._check_matplotlib()
    with pytest.raises(ImportError, match="ImportanceDisplay needs matplotlib"):
        plots.ImportanceDisplay.from_estimator(two[0])
