"""Models whose kernels stand on one feature twice, on pairs and on all features: their parts, everywhere."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import numpy as np
import pandas as pd
import pytest

from figures import check_figure, marks_of
from tamis import EM2NOLCClassifier, Gaussian, IMKPLClassifier, bandwidths, per_feature, product
from tamis.base.explaining import kept_features
from tamis.explain import SIMILAR, part_names, variation
from tamis.explain.explanation import plain
from tamis.results.data import Results
from tamis.results.describe import cases_of, parts_of, shares, shares_by_key
from tamis.results.tables import counted, part_table
from tamis.workflow.explained_row import ExplainedRow

NAMES = ["a", "b", "c", "town"]
KERNELS = (
    per_feature()
    + bandwidths([0.3], on="each")
    + product(["a", "b"])
    + product(["town", "c"])
    + product(["town", "a"])
    + product("all")
)


def table(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=NAMES[:3])
    X["town"] = rng.choice(["x", "y", "z"], n)
    score = 2 * X["a"] * X["b"] + np.where(X["town"] == "y", X["c"], -X["c"]) + X["a"]
    return X, score.to_numpy()


@pytest.fixture(scope="module")
def two():
    X, score = table()
    y = np.where(score > 0, "yes", "no")
    clf = EM2NOLCClassifier(7, 4, kernels=KERNELS, coupling="full", refit="logistic", calibration=None)
    return clf.fit(X, y), X, y


@pytest.fixture(scope="module")
def three():
    X, score = table(seed=1)
    y = np.digitize(score, [-0.7, 0.7])
    kernels = per_feature() + product(["a", "b"])
    return EM2NOLCClassifier(4, 4, kernels=kernels, coupling="full", calibration=None).fit(X, y), X, y


# ---------------------------------------------------------------------- shapes and surfaces


def test_shapes_surfaces_and_the_rest_add_up_to_the_decision(two):
    clf, X, _ = two
    explanation = clf.explain(X)
    rest = explanation.by_kernel[:, 0, [len(f) > 2 for f in explanation.features]].sum(axis=1)
    total = clf.intercept_[0] + rest
    for name in NAMES:
        total = total + clf.curve(name, X[name])[1]
    for first, second in clf.pairs_:
        values = clf.surface(first, second, (X[first], X[second]))[2]
        total = total + np.diag(values)
    np.testing.assert_allclose(total, clf.decision_function(X), atol=1e-10)


def test_surface_is_the_sum_of_its_kernels_case_by_case(two):
    clf, _, _ = two
    grid_town, grid_a, values = clf.surface("town", "a")
    assert grid_town.tolist() == ["x", "y", "z"] and grid_a.shape == (40,) and values.shape == (3, 40)
    model = clf.model_
    (own,) = [k for k, name in enumerate(clf.kernel_names_) if name == "town * a"]
    channel, coef = model.expansion.bank.channels[own], model.expansion.coef[0, :, own]
    z_a = model.encoder.columns[model.encoder.names.index("a")].encode(grid_a)
    for i in range(3):
        for j in (0, 17, 39):
            Z = np.zeros((1, 4))
            Z[0, list(channel.columns)] = [i, z_a[j]]
            assert values[i, j] == pytest.approx(channel(Z, model.expansion.instances)[0] @ coef, abs=1e-12)


def test_surface_follows_the_order_and_the_grids_that_are_given(two, three):
    clf = two[0]
    a, b, values = clf.surface("a", "b")
    swapped = clf.surface("b", "a")
    np.testing.assert_array_equal(swapped[0], b)
    np.testing.assert_array_equal(swapped[2], values.T)
    some = clf.surface(0, 1, (None, b[[3, 8]]))
    np.testing.assert_allclose(some[2], values[:, [3, 8]], atol=1e-12)
    several = three[0].surface("a", "b", (a[:5], b[:4]))[2]
    assert several.shape == (5, 4, 3) and np.ptp(several) > 0


def test_pairs_come_by_the_variation_that_they_cause(two, three):
    clf, X, _ = two
    spread = {pair: np.std(np.diag(clf.surface(*pair, [X[n] for n in pair])[2])) for pair in clf.pairs_}
    assert {frozenset(pair) for pair in clf.pairs_} == {
        frozenset(p) for p in (("a", "b"), ("c", "town"), ("a", "town"))
    }
    assert clf.pairs_ == sorted(spread, key=lambda pair: -spread[pair])
    assert three[0].pairs_ == [("a", "b")]


def test_what_has_no_shape_or_surface_is_refused(two, three):
    for first, second in (("b", "c"), ("a", "a")):
        with pytest.raises(ValueError, match="have no surface: nothing in the model depends on exactly these two"):
            two[0].surface(first, second)
    with pytest.raises(ValueError, match="'d' is not among the kept ones"):
        two[0].surface("a", "d")
    with pytest.raises(ValueError, match="give a pair"):
        two[0].surface("a", "b", (None, None, None))
    _, X, y = three
    pair = EM2NOLCClassifier(3, 2, kernels=product(["a", "b"]), calibration=None).fit(X, y > 0)
    with pytest.raises(ValueError, match="it has no curve of its own; use surface"):
        pair.curve("a")
    X = X[["a", "b"]]
    prototypes = IMKPLClassifier(2, calibration=None, kernels=bandwidths([1.0])).fit(X, y)
    assert prototypes.pairs_ == []
    with pytest.raises(ValueError, match="which prototypes decide"):
        prototypes.surface("a", "b")


# ---------------------------------------------------------------------- parts


def test_terms_stand_for_distinct_features_and_add_up(two):
    clf, X, _ = two
    explanation = clf.explain(X[:8])
    assert sorted(explanation.part_names) == sorted([*NAMES, "a * b", "town * c", "town * a", SIMILAR])
    decision = explanation.base_value + explanation.by_part.sum(axis=2)
    np.testing.assert_allclose(decision[:, 0], clf.decision_function(X[:8]), atol=1e-10)
    html = explanation._repr_html_()
    assert all(html.count(f">{name}</th>") == 1 for name in explanation.part_names)


def test_one_large_group_needs_no_list_of_its_features_and_two_do():
    assert part_names([("a",), ("a", "b", "c")]) == ["a", SIMILAR]
    names = part_names([("a", "b", "c"), ("a", "b", "c", "d")])
    assert names == [f"{SIMILAR} (3 features: a, b, c)", f"{SIMILAR} (4 features: a, b, ..., d)"]


def test_kernels_that_cancel_do_not_count_for_their_feature():
    rng = np.random.default_rng(0)
    loud, other = rng.normal(size=(2, 60))
    parts = np.stack([loud, 0.1 * other - loud, other], axis=1)[:, None]
    weight = rng.uniform(0.5, 2, 60)
    shared = variation(parts, weight, ["a", "a", "b"])[0]
    expected = variation(np.stack([parts[..., 0] + parts[..., 1], parts[..., 2]], axis=2), weight)[0]
    np.testing.assert_allclose([shared[0] + shared[1], shared[2]], expected)
    np.testing.assert_allclose(shared[0] / shared[1], np.divide(*variation(parts, weight)[0, :2]))
    np.testing.assert_array_equal(variation(parts, weight, "abc"), variation(parts, weight))


def test_shares_of_the_model_are_those_of_its_parts(two):
    clf, X, _ = two
    columns = {name: X[name].to_numpy() for name in X}
    np.testing.assert_allclose(kept_features(clf).variation, shares(clf, columns), rtol=1e-9)


# ---------------------------------------------------------------------- results, screen, report


@pytest.fixture(scope="module")
def described(two):
    clf, X, y = two
    columns = {name: X[name].to_numpy() for name in X}
    return parts_of(clf, columns, y), cases_of(clf, columns, y, np.arange(1, len(y) + 1))


def test_parts_of_pairs_have_surfaces_and_words_count_them(two, described):
    clf, parts = two[0], described[0]
    for part in parts:
        if part.is_surface:
            np.testing.assert_allclose(clf.surface(*part.features, (part.grid, part.across))[2], part.shape[:, :, 0])
    assert {part.name for part in parts if part.is_surface} == {"a * b", "town * c", "town * a"}
    assert [part.name for part in parts if part.is_similarity] == [SIMILAR]
    assert counted(parts) == f"4 features, 3 pairs and {SIMILAR}"
    assert counted(parts[:0]) == "0 features"


def test_a_pair_in_both_orders_is_not_drawn_twice(three):
    _, X, y = three
    kernels = [("p", Gaussian(1.0), ("a", "b")), ("q", Gaussian(0.5), ("b", "a")), ("c", Gaussian(1.0), "c")]
    clf = EM2NOLCClassifier(4, 3, kernels=kernels, coupling="full", calibration=None).fit(X, y > 0)
    assert clf.pairs_ == [("a", "b")]
    assert [part.is_surface for part in parts_of(clf)] == [False] * 3
    np.testing.assert_allclose(clf.explain(X).by_part.sum(axis=2) + clf.intercept_, clf.explain(X).decision)


def test_parts_are_found_again_in_other_fits_whatever_their_order(two, three):
    clf, X, _ = two
    columns = {name: X[name].to_numpy() for name in X}
    found = shares_by_key(clf, columns)
    assert set(found) == {frozenset(key) for key in ("a", "b", "c", ["town"], "ab", ["town", "c"], ["town", "a"], "")}
    by_name = {part.name: part for part in parts_of(clf, by_fold=[found, shares_by_key(three[0], columns)])}
    assert by_name[SIMILAR].by_fold.tolist() == [found[frozenset()], 0.0]
    assert by_name["a * b"].by_fold.min() > 0
    assert sum(found.values()) == pytest.approx(100)


def test_brief_table_names_every_part(two, described):
    bare = tuple(replace(part, importance=None) for part in described[0])
    for parts in (described[0], bare):
        table = part_table(Results(two[0], None, None, parts, (), None, None, None, {}, {}), brief=True)
        assert [row[0] for row in table.rows] == [part.name for part in parts]
        assert ("Importance" in table.head) == (parts is described[0])
        assert {len(row) for row in table.rows} == {len(table.head)}


def test_screen_shows_as_many_rows_as_asked_for(two, described):
    rich = pytest.importorskip("rich.console", reason="the command line needs rich")
    from tamis.cli import screen

    results = Results(two[0], None, None, described[0], (), None, None, None, {}, {})
    console = rich.Console(width=100, record=True, file=StringIO())
    console.print(screen._titled(counted(results.parts), part_table(results, brief=True), 7))
    text = console.export_text()
    assert text.startswith(f"4 features, 3 pairs and {SIMILAR}; the 7 most influential of them:\n")
    assert len(text.splitlines()) == 9


def test_explained_row_shows_the_values_of_features_and_pairs_only():
    cells = [(1.5,), (1.5, "x"), (1.5, "x", None)]
    names, none = ["a", "a * town", SIMILAR], np.zeros(0)
    found = ExplainedRow(1, None, "yes", "yes", None, None, 0.0, 0.0, names, cells, np.zeros(3), [], [], none)
    assert found.shown_parts == ["a = 1.5", "a * town = 1.5, x", SIMILAR]


def test_report_draws_surfaces_of_numbers_and_categories(two, described):
    from tamis.views.report.pairs import surface_chart

    clf, (parts, cases) = two[0], described
    results = Results(clf, None, None, parts, cases, None, None, None, {}, {})
    for k, part in enumerate(part for part in parts if part.is_surface):
        chart = surface_chart(results, part, k)
        check_figure(plain(chart.figure))
        (cells,), lines = marks_of(chart.figure, "cells"), marks_of(chart.figure, "lines")
        np.testing.assert_array_equal(cells["z"], part.shape[:, :, 0].T.ravel())
        assert cells["low"] == -cells["high"]
        assert sum(len(mark["x"]) for mark in marks_of(chart.figure, "dots")) == len(cases)
        assert bool(lines) == (part.name == "a * b") and all(0.0 in mark["levels"] for mark in lines)
        assert len(chart.table.rows) == (3 if part.features[0] == "town" else 6)


def test_displays_draw_every_kind_of_part(two):
    matplotlib = pytest.importorskip("matplotlib", reason="the displays need matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from tamis.views import plots

    clf, X, _ = two
    shapes = plots.ShapeFunctionDisplay.from_estimator(clf)
    assert sorted(shapes.lines_) == sorted(NAMES)
    np.testing.assert_array_equal(shapes.lines_["a"][0].get_ydata(), clf.curve("a")[1])
    assert shapes.ax_[0].get_ylabel() == f"added to the decision\n(+ for {clf.classes_[1]})"
    bars = plots.ContributionDisplay.from_estimator(clf, X[:1])
    named = plots.ImportanceDisplay.from_estimator(clf, of="features").features.names
    assert named == clf.explain(X[:1]).part_names and "similar cases" in named  # parts have one name everywhere
    assert len(bars.bars_) == 8 and bars.decision[0] == pytest.approx(clf.decision_function(X[:1])[0])
    display = plots.SurfaceDisplay.from_estimator(clf, "a", "b", X=X)
    drawn = np.ma.getdata(display.maps_[0].get_array()).reshape(40, 40)
    np.testing.assert_array_equal(drawn, clf.surface("a", "b")[2].T)
    low, high = display.maps_[0].get_clim()
    assert -low == high == np.abs(drawn).max()
    cases = X[["a", "b"]].to_numpy()[clf.instances_]
    np.testing.assert_allclose(display.case_points_[0].get_offsets().data, cases)
    levels = plots.SurfaceDisplay.from_estimator(clf, "town", "c")
    assert [text.get_text() for text in levels.ax_.get_xticklabels()] == ["x", "y", "z"] and not levels.zero_lines_
    plt.close("all")
