"""The page of an additive model, without a browser and in one."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="jinja2 is not installed")

from figures import check_figure, marks_of
from page_reader import Reader
from tamis.results.text import percent
from tamis.views.report import render, write
from tamis.views.report.pairs import surface_chart
from tamis.workflow import Job, run

from report_fits import ADDITIVE, additive_fit, additive_iris_fit, mixed_table, random_results

LIMIT = 10**6
MOST_LINES = 20
CHROMIUM = os.environ.get("TAMIS_CHROMIUM") or shutil.which("chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
CLOSE = {"rtol": 0, "atol": 1e-9}


@pytest.mark.parametrize("name", ADDITIVE)
def test_page_is_under_a_megabyte_and_complete(name):
    results = ADDITIVE[name]()
    text = render(results)
    assert len(text.encode()) < LIMIT
    reader = Reader(text)
    assert not reader.open and reader.data["additive"]
    for figure in reader.data["charts"].values():
        check_figure(figure)
    plots = [attrs["id"] for attrs in reader.all("div") if attrs.get("class") == "plot"]
    assert set(plots) == set(reader.data["charts"])
    sections = [attrs["id"] for attrs in reader.all("section")]
    assert sections == ["learned", "features", *(["cases"] if results.cases else []), "why", "stability", "data"]
    assert ("The cases" in reader.text) == bool(results.cases)
    ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_words_are_those_of_a_clinician():
    text = Reader(render(additive_fit())).text
    plain = (
        "How to read log-odds",
        "0.7 doubles the odds",
        "if it moves the log-odds far up or down",
        "Kept in 5 of 5 refits.",
        "at 0 both are equally likely",
    )
    for words in (*plain, "A case pulls towards its own class only"):
        assert words in text, words
    for jargon in ("kernel", "Gram", "centred", "purif", "regularis"):
        assert jargon not in text, jargon


def test_curves_are_drawn_on_one_scale_with_steps_and_missing_values():
    results = additive_fit()
    charts = Reader(render(results)).data["charts"]
    shapes = [figure for name, figure in charts.items() if name.startswith("chart-shape")]
    heights = {(figure["panels"][0]["y"]["low"], figure["panels"][0]["y"]["high"]) for figure in shapes}
    assert len(heights) == 1
    scales = {figure["panels"][0]["x"]["title"]: figure["panels"][0]["x"].get("scale") for figure in shapes}
    assert next(scale for title, scale in scales.items() if title.startswith("income")) in ("log", "knots")
    figure = next(f for f in shapes if f["panels"][0]["x"]["title"] == "a")
    assert figure["panels"][0]["x"]["gutter"] == "missing" and len(marks_of(figure, "dots")) == 1
    (line,) = marks_of(figure, "line")
    grid = results.model.curve("a")[0]
    assert line["x"][1:-1] == pytest.approx(grid.tolist(), rel=1e-5) and len(set(grid)) < len(grid), (
        "steps have two points"
    )
    colour = next(f for f in shapes if f["panels"][0]["x"]["title"] == "colour")
    assert [text for _, text in colour["panels"][0]["x"]["ticks"]][-1] == "missing"


def test_a_curve_over_few_values_is_flat_around_each_of_them():
    charts = {
        chart["panels"][0]["x"]["title"]: chart for chart in Reader(render(few_values_fit())).data["charts"].values()
    }
    (line,) = marks_of(charts["doses"], "line")
    model = few_values_fit().model
    values = model.curve("doses", np.array([0.0, 1.0, 2.0, 3.0]))[1].ravel()
    assert line["y"][1:-1] == pytest.approx(np.repeat(values, 2), rel=1e-4)
    assert line["x"][1:-1] == [-0.5, 0.5, 0.5, 1.5, 1.5, 2.5, 2.5, 3.5]


def test_small_pairs_are_folded_away():
    results = additive_fit()
    faint = tuple(replace(p, variation=np.array([0.3])) if p.kind == "pair" else p for p in results.parts)
    page = Reader(render(replace(results, parts=faint)))
    assert not [name for name in page.data["charts"] if name.startswith("chart-surface")]
    assert "of little influence" in page.text and "Less than 1% of the variation" in page.text


def few_values_fit():
    """One number with four values."""
    rng = np.random.default_rng(4)
    doses = rng.integers(4, size=200).astype(float)
    y = np.where(doses + rng.normal(size=200) > 1.5, "yes", "no").astype(object)
    return run({"doses": doses, "y": y}, Job("y", max_instances=0, options={"cv": 3}), "doses.csv")


def test_maps_show_every_coarse_cell():
    results = additive_iris_fit()
    for k, part in enumerate(part for part in results.parts if part.kind == "pair"):
        chart = surface_chart(results, part, k)
        for q, mark in enumerate(marks_of(chart.figure, "cells")):
            np.testing.assert_array_equal(mark["z"], part.shape[:, :, q].T.ravel())
        assert len(chart.table.rows) == len(part.shape) * len(results.outputs)


# ---------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM:
        pytest.skip("there is no chromium: set TAMIS_CHROMIUM to its path")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, tmp_path):
    pages, wrong = [], []

    def go(results, width=1100, scheme="light"):
        write(results, tmp_path / "report.html")
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda m: wrong.append(m.text) if m.type not in ("log", "info") else None)
        page.on("pageerror", lambda e: wrong.append(str(e)))
        page.goto((tmp_path / "report.html").as_uri())
        page.evaluate("() => window.tamis.ready")
        pages.append(page)
        return page

    yield go
    for page in pages:
        page.close()
    assert not wrong


def plain_rows(columns):
    names = list(columns)
    cells = zip(*(columns[name].tolist() for name in names), strict=True)
    return [{n: None if v is None or v != v else v for n, v in zip(names, row)} for row in cells]


def check_against_python(page, results, columns):
    """Scores, probabilities, classes and all contributions, to 1e-9."""
    model, text = results.model, json.dumps(plain_rows(columns))
    rows = page.evaluate("text => JSON.parse(text).map(row => window.tamis.predict(row))", text)
    found = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    n = len(next(iter(columns.values())))
    explanation = model.explain(columns)
    np.testing.assert_allclose(found["decision"], np.reshape(model.decision_function(columns), (n, -1)), **CLOSE)
    np.testing.assert_allclose(found["probability"], model.predict_proba(columns), **CLOSE)
    assert found["predicted"].tolist() == model.predict(columns).tolist()
    keys = [(key, name) for key, name in zip(explanation.parts, explanation.part_names, strict=True)]
    order = [keys.index((part.features, part.name)) for part in results.parts]
    np.testing.assert_allclose(found["byPart"], explanation.by_part[:, :, order], **CLOSE)
    places = [case.place for case in results.cases]
    by_case = found["byCase"].reshape(explanation.by_case.shape)
    np.testing.assert_allclose(by_case, explanation.by_case[:, :, places], **CLOSE)
    np.testing.assert_allclose(found["similarity"].reshape(n, len(places)), explanation.similarity[:, places], **CLOSE)
    np.testing.assert_allclose(explanation.base_value + found["byPart"].sum(axis=2), found["decision"], **CLOSE)


@pytest.mark.parametrize("name", ADDITIVE)
def test_scores_equal_python(visit, name):
    results = ADDITIVE[name]()
    page = visit(results)
    check_against_python(page, results, results.rows.values)
    stored = page.evaluate("window.tamis.data.rows.values.map(v => window.tamis.predict(v).decision)")
    np.testing.assert_allclose(stored, results.rows.decision[: len(stored)], **CLOSE)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("missing", ["absent", "median"])
def test_random_tables_equal_python(visit, classes, missing):
    """Ties on edges, cells without width, unseen levels, flags, values beyond the range, missing cells."""
    for seed in (1, 5):
        results = random_results(seed, classes, missing=missing, pairs=1)
        check_against_python(visit(results), results, results.rows.values)


def test_a_decision_has_at_most_twenty_lines_and_adds_up(visit):
    results = random_results(3, 2, cases=30, pairs=1)
    page = visit(results)
    lines = page.locator("#by-part tbody tr").all_inner_texts()
    assert len(lines) == MOST_LINES and lines[-2].startswith("all other")
    kinds = [1 if "resembles" in line else 0 for line in lines[1:-2]]
    assert kinds == sorted(kinds), "cases come last"
    values = page.locator("#by-part tbody td:nth-child(2)").all_inner_texts()
    numbers = [float(text.split(" ")[0].replace("\u2212", "-")) for text in values]
    assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=0.006 * len(numbers))
    assert numbers[-1] == pytest.approx(results.rows.decision[0, 0], abs=0.006)


@pytest.mark.parametrize(("seed", "classes"), [(1, 2), (4, 3)])
def test_changes_are_the_closest_that_change_the_prediction(visit, seed, classes):
    results = random_results(seed, classes, pairs=1, cases=2)
    model, page = results.model, visit(results)
    features = page.evaluate("window.tamis.data.model.features.filter(feature => feature.kind === 'number')")
    ends = {feature["name"]: (feature["low"], feature["high"]) for feature in features}
    rows = plain_rows(results.rows.values)[:12]
    found = page.evaluate(
        "text => JSON.parse(text).map(row => window.tamis.turns(Object.values(row)))", json.dumps(rows)
    )
    assert any(found)
    for row, turns in zip(rows, found, strict=True):
        before = predicted(model, row)
        for turn in turns:
            levels = turn["to"] if isinstance(turn["to"], list) else [turn["to"]]
            assert all(predicted(model, {**row, turn["name"]: level}) in turn["predicted"] for level in levels)
            assert before not in turn["predicted"]
            if turn["name"] in ends and ends[turn["name"]][0] <= turn["from"] <= ends[turn["name"]][1]:
                gap = abs(turn["to"] - turn["from"])
                nearer = max(0.0, 1.0 - 0.03 - 0.025 * abs(turn["to"]) / gap)  # the value is rounded
                way = turn["from"] + nearer * np.linspace(-1.0, 1.0, 90) * (turn["to"] - turn["from"])
                assert {predicted(model, {**row, turn["name"]: value}) for value in way} == {before}


def predicted(model, row):
    """The class of one row."""
    columns = {name: np.array([np.nan if v is None else v], dtype=object) for name, v in row.items()}
    return model.predict(columns).tolist()[0]


def test_a_decision_of_several_classes_is_a_log_odds_against_the_next_class(visit):
    results = additive_iris_fit()
    page = visit(results)
    page.select_option("#row-pick", "3")
    probability = np.sort(results.rows.probability[3])[::-1]
    shown = page.locator("#by-part tbody tr:last-child td:nth-child(2)").inner_text().replace("\u2212", "-")
    assert float(shown) == pytest.approx(np.log(probability[0] / probability[1]), abs=0.006)
    best, second = np.asarray(results.model.classes_)[np.argsort(-results.rows.probability[3])[:2]]
    assert page.inner_text("#sum").startswith(f"The log-odds of {best} against {second}, the most likely other class:")


def test_no_text_of_a_chart_is_cut_off(visit):
    results = additive_fit()
    parts = tuple(
        replace(part, shape=9.5 / np.abs(part.shape).max() * part.shape) if part.kind == "number" else part
        for part in results.parts
    )
    page = visit(replace(results, parts=parts), width=420)
    outside = """() => [...document.querySelectorAll('.drawing text')].filter(text => {
        const own = text.getBoundingClientRect(), chart = text.ownerSVGElement.getBoundingClientRect();
        return own.left < chart.left - 1 || own.right > chart.right + 1;
    }).map(text => text.textContent)"""
    assert page.evaluate(outside) == []
    assert any(text.endswith("000") for text in page.locator("#chart-shape-0 .odds").all_text_contents())


def test_odds_and_log_odds_are_named(visit):
    page = visit(additive_fit())
    assert page.inner_text("#sum").startswith("The log-odds of yes against no: starting value")
    assert "The odds of yes are" in page.inner_text("#sum") and " to 1" in f"{page.inner_text('#sum')} to 1"
    assert "(odds \u00d7" in page.inner_text("#by-part")


def test_scores_and_probabilities_agree_with_class_weights(visit):
    results = ADDITIVE["class weights"]()
    page, shift = visit(results), results.weight_shift
    assert abs(shift) > 0.1
    at_zero = percent(100 * results.model.calibrator_.probabilities(np.zeros((1, 1)))[0, 1])
    text = Reader(render(results)).text
    assert f"at log-odds 0 the probability of 'yes' is {at_zero}" in text and "equally likely" not in text
    assert f"yes is predicted from a probability of {at_zero} on" in page.inner_text("#remarks")
    said = re.search(r"class weights they are (\S+)\. The odds of yes are", page.inner_text("#sum"))
    log_odds = float(said[1].replace("\u2212", "-"))
    assert 1 / (1 + np.exp(-log_odds)) == pytest.approx(results.rows.probability[0, 1], abs=0.002)
    assert results.rows.decision[0, 0] - shift == pytest.approx(log_odds, abs=0.006)


def test_curves_have_marks_on_both_sides_of_zero(visit):
    results = additive_fit()
    stretched = tuple(
        replace(part, shape=np.interp(part.shape, (part.shape.min(), 0.0, part.shape.max()), (-4.2, 0.0, 8.5)))
        if part.kind in ("number", "category")
        else part
        for part in results.parts
    )
    page = visit(replace(results, parts=stretched))
    for chart in ("#chart-shape-0", "#chart-shape-1"):
        factors = [float(text[1:]) for text in page.locator(f"{chart} .odds").all_text_contents()]
        assert min(factors) < 1.0 < max(factors) and 1.0 in factors and 4 <= len(factors) <= 10


def test_what_rounds_to_nothing_is_added_up(visit):
    page = visit(random_results(3, 2, cases=30, pairs=1))
    lines = page.locator("#by-part tbody tr").all()
    for line in lines[:-1]:
        if not line.inner_text().startswith("all other"):
            assert not line.locator("td").first.inner_text().startswith("0.00")


def test_every_chart_is_drawn_and_answers_the_pointer(visit):
    page = visit(additive_fit())
    for chart in page.evaluate("Object.keys(window.tamis.data.charts)"):
        box = page.locator(f"[id='{chart}'] svg.drawing").bounding_box()
        assert box and box["width"] > 150 and box["height"] > 100, chart
        assert page.locator(f"[id='{chart}'] path[d*='NaN'], [id='{chart}'] rect[x*='NaN']").count() == 0, chart
    chart = page.locator("#chart-shape-0")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.4 * box["height"])
    assert "odds \u00d7" in chart.locator(".tip").inner_text() or "rows" in chart.locator(".tip").inner_text()


def test_unseen_and_missing_values_are_said(visit):
    results = additive_fit()
    page = visit(results)
    names = list(results.model.model_.encoder.names)
    colour, a = names.index("colour"), names.index("a")
    page.select_option(f"#input-{colour}", label="another value")
    assert "not seen in training and contributes nothing" in page.inner_text("#remarks")
    page.fill(f"#input-{a}", "1e6")
    assert "outside the training range" in page.inner_text(f"#hint-{a}")
    before = page.inner_text("#sum")
    page.fill(f"#input-{a}", "")
    assert page.inner_text("#sum") != before
    table = mixed_table(240)
    texts = {name for name in names if table.get(name, np.zeros(1)).dtype == object}
    empty = {name: np.array([None if name in texts else np.nan], dtype=object) for name in names}
    check_against_python(page, results, empty)


@pytest.mark.parametrize("name", ["two classes", "three classes", "hostile names"])
def test_phone_has_no_sideways_scroll(visit, name):
    page = visit(ADDITIVE[name](), width=375)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_hostile_names_stay_text(visit):
    page = visit(ADDITIVE["hostile names"]())
    page.select_option("#row-pick", "1")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script, main img, .plot a, .plot b").count() == 0
