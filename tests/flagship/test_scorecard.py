"""Scorecards: whole points that are the rounded curves, that add up, and that say what rounding loses."""

from __future__ import annotations

import csv
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from tamis import TamisClassifier
from tamis.flagship.points import CUT_SHIFT, cut_curve
from tamis.flagship.scorecard import BASE, make_scorecard
from tamis.flagship.tables import model_tables

from additive_models import random_flagship

SEEDS = pytest.mark.parametrize("seed", range(6))
OLD = {"base_points": 600, "base_odds": 50, "pdo": 20}


def card(estimator, good=None, **changed):
    return make_scorecard(estimator, **{**OLD, **changed}, good=good)


def flagship(seed=0, **options):
    return random_flagship(seed, 2, **{"cases": 0, **options})


def log_odds(made, rows=None):
    """Log-odds of the second class."""
    calibrator = made.estimator.calibrator_
    return calibrator.slope * made.parts(rows)[0][:, 0] + calibrator.offset


def read(frame, row):
    """The points of a row, added up from the frame as a person would."""

    def fits(entry, name, start, end, level):
        value = row[entry[name]]
        missing = value is None or value != value
        if not np.isnan(entry[start]):
            return not missing and entry[start] < value <= entry[end]
        if entry[level] == "(missing)":
            return missing
        known = levels[entry[name]]
        return not missing and (value == entry[level] or (entry[level] == "(any other)" and value not in known))

    levels = {name: set(part["level"]) for name, part in frame.groupby("feature")}
    total = 0
    for entry in frame.to_dict("records"):
        second = entry.get("second feature")
        if entry["feature"] == BASE or (
            fits(entry, "feature", "from", "to", "level")
            and (second is None or second != second or fits(entry, *SECOND))
        ):
            total += entry["points"]
    return total


SECOND = ("second feature", "second from", "second to", "second level")


@SEEDS
@pytest.mark.parametrize("missing", ["absent", "median", None])
def test_points_added_up_by_hand_are_the_points(seed, missing):
    made = flagship(seed, missing=missing)
    scorecard = card(made.estimator)
    frame, points = scorecard.to_frame(), scorecard.points(made.rows)
    assert points.dtype == int
    for row, found in zip(made.rows.head(25).to_dict("records"), points, strict=False):
        assert read(frame, row) == found


@SEEDS
@pytest.mark.parametrize("good", ["no", "yes"])
def test_points_are_the_log_odds_up_to_rounding(seed, good):
    made = flagship(seed)
    scorecard = card(made.estimator, good)
    odds = log_odds(made) * (1 if good == "yes" else -1)
    exact = 600 + 20 / math.log(2) * (odds - math.log(50))
    terms = 1 + len(scorecard.features) + len(scorecard.pairs)
    assert np.max(np.abs(scorecard.points(made.rows) - exact)) <= terms * (0.5 + CUT_SHIFT)
    fine = card(made.estimator, good, pdo=500)
    np.testing.assert_allclose(fine.log_odds(fine.points(made.rows)), odds, atol=terms * 0.6 * math.log(2) / 500)


@SEEDS
@pytest.mark.parametrize("factor", [-40.0, 3.0, 29.0])
def test_points_of_a_feature_are_its_rounded_curve(seed, factor):
    made = flagship(seed, pairs=0)
    _, parts = made.parts()
    model = made.estimator.model_
    Z = model.encode(made.estimator._table(made.rows))
    for j, feature in enumerate(model_tables(made.estimator)["features"]):
        table = cut_curve(feature, factor)
        exact = factor * parts.features[:, 0, j]
        assert np.max(np.abs(table.at([Z[:, j]]) - exact)) <= 0.5 + CUT_SHIFT + 1e-9


@SEEDS
@pytest.mark.parametrize("most", [1, 4, 12])
def test_a_feature_has_at_most_the_wanted_ranges_and_multiples_as_points(seed, most):
    made = flagship(seed, pairs=0)
    for feature in model_tables(made.estimator)["features"]:
        fine, table = cut_curve(feature, 29.0), cut_curve(feature, 29.0, most)
        if feature["kind"] != "number" or len(fine.axes[0]) <= most:
            np.testing.assert_array_equal(fine.points, table.points)
            continue
        assert len(table.axes[0]) <= most
        x = np.linspace(feature["low"], feature["high"], 301)
        steps = [s for s in (2, 5, 10, 20, 50, 100, 200, 500) if not np.any(table.points % s)]
        assert steps and np.max(np.abs(table.at([x]) - fine.at([x]))) <= (0.5 + CUT_SHIFT) * max(steps) + 1


@SEEDS
def test_within_a_range_the_curve_moves_by_less_than_a_point_and_neighbours_differ(seed):
    made = flagship(seed, pairs=0)
    for j, feature in enumerate(model_tables(made.estimator)["features"]):
        table = cut_curve(feature, 29.0)
        if feature["kind"] != "number":
            continue
        x = np.linspace(feature["low"], feature["high"], 4001)[1:]
        exact = 29.0 * made.estimator.model_.curves[j].at(made.estimator.model_.cells[j].place(x))[:, 0]
        place = table.axes[0].find(x)
        assert np.all(np.diff(table.axes[0].cuts) > 0)
        assert np.all(np.diff(table.points[: len(table.axes[0])]) != 0)
        for k in np.unique(place):
            assert np.ptp(exact[place == k]) <= 1.0 + 2 * CUT_SHIFT + 1e-9


def test_the_score_falls_with_the_second_class_unless_it_is_the_good_one():
    made = flagship(1)
    odds = log_odds(made)
    falls, rises = (card(made.estimator, good).points(made.rows) for good in (None, "yes"))
    assert np.corrcoef(falls, odds)[0, 1] < -0.99 and np.corrcoef(rises, odds)[0, 1] > 0.99


def test_a_row_at_the_base_odds_has_the_base_points():
    made = flagship(1)
    scorecard = card(made.estimator, pdo=1000)
    assert scorecard.log_odds(600) == pytest.approx(math.log(50))
    assert scorecard.log_odds(1600) == pytest.approx(math.log(100))


def test_levels_never_seen_have_no_points():
    made = flagship(2, pairs=0)
    frame = card(made.estimator).to_frame()
    others = frame[frame["level"] == "(any other)"]
    assert len(others) == 4 and (others["points"] == 0).all()


def test_missing_cells_have_a_row_where_they_can_be():
    for missing, expected in (("absent", True), ("median", True), (None, False)):
        frame = card(flagship(2, missing=missing).estimator).to_frame()
        assert (frame["level"] == "(missing)").any() == expected


def test_rounding_loss_is_measured_on_given_rows():
    made = flagship(3)
    rng = np.random.default_rng(0)
    odds = log_odds(made)
    y = np.where(rng.random(len(odds)) < 1 / (1 + np.exp(-odds)), "yes", "no")
    scorecard = card(made.estimator, pdo=2)
    loss = scorecard.rounding_loss(made.rows, y)
    rounded = -scorecard.log_odds(scorecard.points(made.rows))
    for k, found in enumerate((odds, rounded)):
        assert loss.log_loss[k] == pytest.approx(log_loss(y == "yes", 1 / (1 + np.exp(-found))), rel=1e-9)
        assert loss.auc[k] == pytest.approx(roc_auc_score(y == "yes", found))
    assert loss.largest_difference == pytest.approx(np.abs(rounded - odds).max())
    assert "log-odds at most" in str(loss)
    finer = card(made.estimator, pdo=500).rounding_loss(made.rows, y)
    assert finer.largest_difference < loss.largest_difference / 50
    one = scorecard.rounding_loss(made.rows, np.full(len(y), "no"))
    assert math.isnan(one.auc[0]) and math.isfinite(one.log_loss[0])
    with pytest.raises(ValueError, match="y has the class 'perhaps'"):
        scorecard.rounding_loss(made.rows, np.full(len(y), "perhaps"))
    with pytest.raises(ValueError, match="y has length 3, expected"):
        scorecard.rounding_loss(made.rows, y[:3])


def test_a_csv_file_has_no_formulas_and_open_ends_are_empty(tmp_path):
    made = flagship(0)
    path = tmp_path / "card.csv"
    scorecard = card(made.estimator)
    scorecard.save(path)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0][:4] == ["feature", "from", "to", "level"] and rows[1][0] == BASE
    cells = [cell for row in rows for cell in row]
    assert "'=ratio" in cells and "'-none" in cells and "inf" not in cells
    text = [cell for cell in cells if cell.startswith(("=", "+", "@", "-")) and not _is_number(cell)]
    assert text == [] and len(rows) == len(scorecard.to_frame()) + 1
    first = next(row for row in rows if row[0] == "age")
    assert first[1] == "" and float(first[2]) > 0


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_an_excel_file_has_a_sheet_for_each_pair(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    made = flagship(0)
    scorecard = card(made.estimator)
    scorecard.save(tmp_path / "card.xlsx")
    book = openpyxl.load_workbook(tmp_path / "card.xlsx")
    assert book.sheetnames == ["Scorecard", *(f"Pair {k}" for k in range(1, 1 + len(scorecard.pairs)))]
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert not any(cell.data_type == "f" for cell in cells)
    points = [row[4].value for row in book["Scorecard"].iter_rows(min_row=2)]
    frame = scorecard.to_frame()
    assert points == frame["points"][frame["second feature"].isna()].tolist()
    pair = scorecard.pairs[0]
    inner = [[cell.value for cell in row[1:]] for row in book["Pair 1"].iter_rows(min_row=3)]
    np.testing.assert_array_equal(inner, pair.points[np.ix_(*(_shown(axis) for axis in pair.axes))])


def _shown(axis):
    return [entry.position for entry in axis.entries(missing=True)]


def test_without_openpyxl_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match="pip install openpyxl"):
        card(flagship().estimator).save(tmp_path / "card.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "card.csv"
    path.write_text("old")
    scorecard = card(flagship().estimator)
    monkeypatch.setattr(type(scorecard), "_rows", lambda self: iter([1, 2]))
    with pytest.raises(TypeError):
        scorecard.save(path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_models_that_are_no_scorecard_are_refused():
    with pytest.raises(ValueError, match=r"4 kept cases.*max_instances=0"):
        card(random_flagship(0, 2, cases=4).estimator)
    with pytest.raises(ValueError, match="two classes, and y had 3"):
        card(random_flagship(0, 3, cases=0).estimator)
    failed = flagship(slope=0.0)
    with pytest.raises(ValueError, match="calibration of this model failed"):
        card(failed.estimator)


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"pdo": 0}, "pdo=0 must be a finite number above 0"),
        ({"pdo": -1.5}, "pdo=-1.5"),
        ({"pdo": "20"}, "pdo='20'"),
        ({"base_odds": 0}, "base_odds=0 must be a finite number above 0"),
        ({"base_odds": math.nan}, "base_odds=nan"),
        ({"base_points": math.inf}, "base_points=inf"),
        ({"pdo": 1e9}, r"pdo=1000000000.0: .* use a pdo of at most"),
        ({"good": "maybe"}, "good='maybe' is not one of the classes: use 'no' or 'yes'"),
    ],
)
def test_parameters_that_cannot_be_are_named(changed, words):
    with pytest.raises(ValueError, match=words):
        card(flagship().estimator, **changed)


def test_other_endings_of_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"card\.pdf' is of no known kind"):
        card(flagship().estimator).save(tmp_path / "card.pdf")


def test_a_level_called_missing_is_not_confused_with_missing_cells():
    made = flagship(0, kept=[6], pairs=0)
    model = made.estimator.model_
    (column,) = model.encoder.columns
    named = replace(column, levels=("(missing)", *column.levels[1:]))
    made.estimator.model_ = replace(model, encoder=replace(model.encoder, columns=(named,)))
    levels = card(made.estimator).to_frame()["level"].tolist()
    assert levels.count("(missing)") == 1 and "((missing))" in levels


def test_a_model_that_kept_nothing_has_base_points_alone():
    made = flagship(0, kept=[], pairs=0)
    scorecard = card(made.estimator)
    assert (scorecard.points(made.rows) == scorecard.base).all() and len(scorecard.to_frame()) == 1


def test_cuts_of_slopes_have_few_digits():
    made = flagship(0, kept=[1], pairs=0)
    (table,) = card(made.estimator).features
    edges = set(made.estimator.model_.cells[0].edges.tolist())
    cuts = [cut for cut in table.axes[0].cuts.tolist() if cut not in edges]
    assert cuts and max(len(repr(cut)) for cut in cuts) <= 7


def test_a_fit_becomes_a_scorecard(cancer):
    X, y = cancer
    clf = TamisClassifier(max_features=5, max_pairs=2, max_instances=0, cv=2).fit(X, y)
    scorecard = clf.to_scorecard(pdo=40)
    assert all(len(table.axes[0]) <= 20 for table in scorecard.features)
    fine = clf.to_scorecard(pdo=40, max_ranges=None)
    assert max(len(table.axes[0]) for table in fine.features) > 20
    loss = fine.rounding_loss(X, y)
    assert abs(loss.auc[0] - loss.auc[1]) < 0.005 and loss.largest_difference < 0.1
    coarse = scorecard.rounding_loss(X, y)
    assert abs(coarse.auc[0] - coarse.auc[1]) < 0.01 and coarse.log_loss[1] < coarse.log_loss[0] + 0.02
    np.testing.assert_allclose(loss.log_loss[0], log_loss(y, clf.predict_proba(X)), rtol=1e-6)
    low, high = (scorecard.points(X)[clf.predict(X) == label].mean() for label in (1, 0))
    assert low < 600 - 40 * math.log2(50) + 1 < high + 1  # even odds stand 5.6 doublings below the base points
    assert (clf.to_scorecard(good=1).points(X) > clf.to_scorecard(good=0).points(X)).mean() > 0.5
    kept = {name: X[name] for name in X.columns[clf.features_]}
    np.testing.assert_array_equal(scorecard.points(kept), scorecard.points(X))
    with pytest.raises(Exception, match="not fitted"):
        TamisClassifier().to_scorecard()


def test_without_pandas_the_tables_are_a_frame_of_polars(monkeypatch):
    pytest.importorskip("polars")
    scorecard = card(flagship(0).estimator)
    expected = scorecard.to_frame()
    monkeypatch.setitem(sys.modules, "pandas", None)
    frame = scorecard.to_frame()
    assert frame.columns == list(expected.columns) and frame["points"].to_list() == expected["points"].tolist()


def test_class_weights_do_not_move_the_odds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] + rng.normal(size=300) > 1.0, "bad", "good")
    clf = TamisClassifier(2, 0, 0, cv=2, class_weight="balanced").fit(X, y)
    scorecard = clf.to_scorecard(pdo=2000, good="good", max_ranges=None)
    odds = clf.predict_proba(X)
    np.testing.assert_allclose(scorecard.log_odds(scorecard.points(X)), np.log(odds[:, 1] / odds[:, 0]), atol=2e-3)
