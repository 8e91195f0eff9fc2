"""The page in a browser: it draws everything, computes what Python computes, and runs nothing but its own scripts."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="jinja2 is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from tamis.views.report import write

from report_fits import hostile_fit, iris_fit, mixed_fit, mixed_table, ranked_fit, small_fit
from small_fits import Product, Widths

CHROMIUM = os.environ.get("TAMIS_CHROMIUM") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium: set TAMIS_CHROMIUM to its path")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
OWN = ("file:", "data:", "blob:")
CLOSE = {"rtol": 0, "atol": 1e-9}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def visit(browser, tmp_path_factory):
    """Open the page of some results, once for each way of looking; at the end nothing must have gone wrong."""
    pages, files, wrong = {}, {}, []

    def go(results, width=1100, scheme="light"):
        key = id(results)
        if key not in files:
            files[key] = tmp_path_factory.mktemp("page") / "report.html", results  # kept, so that its id stays its own
            write(results, files[key][0])
        if (key, width, scheme) not in pages:
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.on("console", lambda m: wrong.append(m.text) if m.type not in ("log", "info") else None)
            page.on("pageerror", lambda e: wrong.append(str(e)))
            page.on("request", lambda r: wrong.append(r.url) if not r.url.startswith(OWN) else None)
            page.on("dialog", lambda d: (wrong.append(d.message), d.dismiss()))
            page.goto(files[key][0].as_uri())
            page.evaluate("() => window.tamis.ready")
            pages[key, width, scheme] = page
        return pages[key, width, scheme]

    yield go
    for page in pages.values():
        page.close()
    assert not wrong


def wait_until(page, condition):
    """Poll: the page's policy does not let the browser wait for an expression by itself."""
    for _ in range(100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    pytest.fail(f"this never came true: {condition}")


def computed(page, rows):
    """What the page computes for some rows, stacked."""
    found = page.evaluate("text => JSON.parse(text).map(row => window.tamis.predict(row))", json.dumps(rows))
    return {key: np.array([one[key] for one in found]) for key in found[0]}


def plain_rows(columns):
    """Columns as the page takes rows: {name: value}, None where a value is missing."""
    names = list(columns)
    cells = zip(*(columns[name].tolist() for name in names), strict=True)
    return [{n: None if v is None or v != v else v for n, v in zip(names, row)} for row in cells]


def check_against_python(page, results, columns):
    """Scores, probabilities, classes and both splits, to 1e-9."""
    model = results.model
    found = computed(page, plain_rows(columns))
    n = len(next(iter(columns.values())))
    explanation = model.explain(columns)
    np.testing.assert_allclose(found["decision"], np.reshape(model.decision_function(columns), (n, -1)), **CLOSE)
    np.testing.assert_allclose(found["probability"], model.predict_proba(columns), **CLOSE)
    assert found["predicted"].tolist() == model.predict(columns).tolist()
    part = {features: k for k, features in enumerate(explanation.parts)}
    by_part = explanation.by_part[:, :, [part[p.features] for p in results.parts]]
    np.testing.assert_allclose(found["byPart"], by_part, **CLOSE)
    labels = list(explanation.instances)
    order = [labels.index(case.label) for case in results.cases]
    np.testing.assert_allclose(found["byCase"], explanation.by_instance[:, :, order], **CLOSE)
    base = explanation.base_value
    np.testing.assert_allclose(base + found["byPart"].sum(axis=2), found["decision"], **CLOSE)
    np.testing.assert_allclose(base + found["byCase"].sum(axis=2), found["decision"], **CLOSE)


@cache
def paired_fit():
    """Kernels of several widths, and products of kernels, on features, pairs and all of them."""
    from tamis import Categorical
    from tamis.kernels.base import Epanechnikov, Normalised, Polynomial
    from tamis.kernels.composed import ScaledGaussian, Whole
    from tamis.workflow import Job, run

    shape = Widths((3.0, 1.0, 1 / 3))
    kernels = [
        ("a", shape, "a"),
        ("b", shape, "b"),
        ("a x b", Product((shape, shape)), ("a", "b")),
        ("a x colour", Product((shape, Categorical())), ("a", "colour")),
        ("similar cases", Widths((2.0, 1.0), (0.0, 0.0, 2.2)), ("a", "b", "colour")),
        ("near", Epanechnikov(2.0), ("a", "b")),
        ("scaled", ScaledGaussian((1.0, 0.0, 0.5), (0.0, 0.0, 2.0)), ("a", "b", "colour")),
        ("curve", Whole(Normalised(Polynomial(2, 1.0))), ("a", "b")),
        ("codes", Normalised(Categorical()), ("b", "colour")),
    ]
    options = {"kernels": kernels, "coupling": "full", "bandwidth": 1.0, "alpha": 0.01}
    job = Job("y", method="EM2NOLCClassifier", max_instances=6, max_features=3, options=options)
    return run(mixed_table(), job, "paired.csv")


FITS = {
    "two classes": small_fit,
    "three classes": iris_fit,
    "all kernels": mixed_fit,
    "ranks, absent": lambda: ranked_fit("absent"),
    "ranks, filled": lambda: ranked_fit("median"),
    "hostile names": hostile_fit,
}


@pytest.mark.parametrize("name", FITS)
def test_shown_rows_equal_python(visit, name):
    results = FITS[name]()
    page = visit(results)
    assert len(results.rows.labels) >= 20
    check_against_python(page, results, results.rows.values)
    stored = page.evaluate("window.tamis.data.rows.values.map(v => window.tamis.predict(v).decision)")
    np.testing.assert_allclose(stored, results.rows.decision, **CLOSE)


@pytest.mark.parametrize("name", ["all kernels", "ranks, absent", "ranks, filled"])
def test_missing_unseen_and_far_values_equal_python(visit, name):
    results = FITS[name]()
    check_against_python(visit(results), results, odd_rows(results, coded=name == "all kernels"))


def odd_rows(results, *, coded):
    """Rows with missing cells, unseen categories and numbers far beyond the training range."""
    table = mixed_table(60)
    rng = np.random.default_rng(5)
    for column in ("a", "b"):
        table[column] = table[column] * 40.0  # most of them beyond the training range
        table[column][rng.random(60) < 0.3] = np.nan
    table["code"] = np.array([None if v != v else f"{v:.0f}" for v in table["code"]], dtype=object)
    table["code"] = table["code"] if coded else mixed_table(60)["code"]
    table["colour"][rng.random(60) < 0.3] = "never seen"
    table["colour"][rng.random(60) < 0.2] = None
    for gone in ("a", "b", "colour", "code"):
        table[gone][-3:] = None if table[gone].dtype == object else np.nan
    return {n: table[n] for n in results.model.model_.encoder.names}


def test_contributions_of_pairs_equal_python(browser, tmp_path):
    results = paired_fit()
    assert any(part.is_surface for part in results.parts) and any(part.is_similarity for part in results.parts)
    write(results, tmp_path / "report.html")
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri(), wait_until="domcontentloaded")  # the charts may come later
    for columns in (results.rows.values, odd_rows(results, coded=False)):
        check_against_python(page, results, columns)
    page.close()


def test_nothing_was_left_out_of_the_comparison():
    expansion = mixed_fit().model.model_.expansion
    trees = [
        channel.kernel.portable(channel.columns)
        for fit in (mixed_fit, paired_fit)
        for channel in fit().model.model_.expansion.bank.channels
    ]
    kinds = {"constant", "distance", "product", "agreement", "own product", "own agreement", "case", "complete"}
    kinds |= {"times", "sum", "decay", "root", "tanh", "power", "ramp", "inverse_root"}
    assert {node.kind for tree in trees for node in tree.nodes()} == kinds
    (pair,) = (ch for ch in expansion.bank.channels if getattr(ch.kernel, "mismatch", ()))
    cells = np.isnan(expansion.instances[:, list(pair.columns)])
    assert np.any(cells.any(axis=1) & ~cells.all(axis=1)), "some kept case lacks one cell of a group"
    assert np.any(cells[:, 1] & ~cells[:, 0]), "some kept case lacks its category only"
    for missing in ("absent", "median"):
        assert abs(ranked_fit(missing).model.calibrator_.offset) > 0.01
        assert any(
            getattr(column, "knots", None) is not None for column in ranked_fit(missing).model.model_.encoder.columns
        )


@pytest.mark.parametrize("name", FITS)
def test_every_chart_is_drawn(visit, name):
    page = visit(FITS[name]())
    ids = page.evaluate("Object.keys(window.tamis.data.charts)")
    assert len(ids) >= 5
    for chart in ids:
        box = page.locator(f"[id='{chart}'] svg.drawing").first.bounding_box()
        assert box and box["width"] > 150 and box["height"] > 100, chart


BARS = """table => [...document.querySelectorAll(`${table} .bar`)].map(bar => {
  const [left, width] = [bar.style.left, bar.style.width].map(parseFloat);
  return bar.classList.contains('down') ? [left + width, left] : [left, left + width];
})"""  # start and end of each bar, in per cent


def number_in(page, selector):
    return float(page.locator(selector).inner_text().replace("\u2212", "-").rstrip("%"))


def test_typing_values_recomputes_and_adds_up(visit):
    results = small_fit()
    page = visit(results)
    names = results.model.model_.encoder.names
    values = {name: 0.25 * (k + 1) for k, name in enumerate(names)}
    for c, name in enumerate(names):
        page.fill(f"#input-{c}", str(values[name]))
    columns = {name: np.array([value]) for name, value in values.items()}
    decision = float(results.model.decision_function(columns)[0])
    probability = float(np.max(results.model.predict_proba(columns)))
    said = page.inner_text("#said")
    assert str(results.model.predict(columns)[0]) in said and f"{100 * probability:.1f}%" in said
    assert number_in(page, "#by-part tbody tr:last-child td:nth-child(2)") == pytest.approx(decision, abs=6e-5)
    for table in ("#by-part", "#by-case"):
        cells = page.locator(f"{table} tbody td:nth-child(2)").all_inner_texts()
        steps = [float(text.replace("\u2212", "-")) for text in cells]
        assert sum(steps[:-1]) == pytest.approx(steps[-1], abs=1e-4 * len(steps))
        bars = page.evaluate(BARS, table)
        assert bars[0][0] == pytest.approx(bars[-1][0], abs=1.0), "base value and score start at zero"
        for (_, end), (start, _) in pairwise([*bars[:-1], (bars[-1][1], None)]):
            assert start == pytest.approx(end, abs=1.0), "a bar starts where the one before it ends"
    assert page.input_value("#row-pick") == "" and "were changed" in page.inner_text("#truth")
    base = results.model.intercept_[0]
    sign = "+" if base >= 0 else "\u2212"
    assert f"base value {sign}{abs(base):.4f}" in page.inner_text("#sum")


def test_far_missing_and_unseen_values_are_said(visit):
    results = mixed_fit()
    page = visit(results)
    names = results.model.model_.encoder.names
    a, colour = names.index("a"), names.index("colour")
    page.fill(f"#input-{a}", "1e6")
    assert "outside the training range" in page.inner_text(f"#hint-{a}")
    assert "outside the training range" in page.inner_text("#remarks")
    far = page.inner_text("#sum")
    page.fill(f"#input-{a}", repr(float(results.model.model_.encoder.columns[a].high)))
    assert page.inner_text("#sum") == far and "outside" not in page.inner_text("#remarks")
    page.fill(f"#input-{a}", "")
    assert page.inner_text("#sum") != far
    page.select_option(f"#input-{colour}", label="another value")
    assert "not seen in training" in page.inner_text("#remarks")
    level = page.evaluate("c => window.tamis.data.columns[c].levels[0]", colour)
    page.select_option(f"#input-{colour}", label=level)
    assert "not seen" not in page.inner_text("#remarks")


def test_rows_are_found_and_judged(visit):
    results = mixed_fit()
    page = visit(results)
    wrong = np.flatnonzero(results.rows.truth != results.rows.predicted)
    page.fill("#row-find", "wrong")
    options = page.locator("#row-pick option").all_inner_texts()
    assert len([o for o in options if ", wrong" in o]) == len(wrong)
    page.press("#row-find", "Enter")
    assert page.input_value("#row-pick") == str(wrong[0])
    assert "the prediction is wrong" in page.inner_text("#truth")
    page.fill("#row-find", "")
    right = int(np.flatnonzero(results.rows.truth == results.rows.predicted)[0])
    page.select_option("#row-pick", str(right))
    assert "the prediction is right" in page.inner_text("#truth")
    assert page.inner_text("#remarks").count("differs") == 0


def test_a_class_can_be_chosen_for_explanation(visit):
    results = iris_fit()
    page = visit(results)
    page.select_option("#row-pick", "0")
    for q, label in enumerate(results.model.classes_):
        page.select_option("#output-pick", str(q))
        assert page.inner_text("#sum").startswith(f"The score of {label}:")
        shown = number_in(page, "#by-case tbody tr:last-child td:nth-child(2)")
        assert shown == pytest.approx(results.rows.decision[0, q], abs=6e-5)


def test_stored_rows_are_shown_where_the_page_cannot_compute(visit):
    class Other:
        def __call__(self, S, T):
            return np.exp(-np.abs(S - T.T))

    small = small_fit()
    model = small.model.model_
    channels = tuple(replace(channel, kernel=Other()) for channel in model.expansion.bank.channels)
    other = type(small.model).from_stored(small.model.to_stored())
    other.model_ = replace(
        model, expansion=replace(model.expansion, bank=replace(model.expansion.bank, channels=channels))
    )
    rows = replace(small.rows, decision=other.decision_function(small.rows.values).reshape(-1, 1),
                   predicted=other.predict(small.rows.values))  # fmt: skip
    page = visit(replace(small, model=other, rows=rows))
    assert page.is_visible("#why-stored") and not page.is_visible("#why-intro")
    page.select_option("#row-pick", "3")
    shown = number_in(page, "#by-part tbody tr:last-child td:nth-child(2)")
    assert shown == pytest.approx(rows.decision[3, 0], abs=6e-5)
    assert page.is_disabled("#input-0")


@pytest.mark.parametrize("name", ["three classes", "hostile names"])
def test_phone_has_no_sideways_scroll(visit, name):
    page = visit(FITS[name](), width=375)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    wide = page.evaluate("[...document.querySelectorAll('.plot .drawing')].map(s => s.getBoundingClientRect().width)")
    assert wide and max(wide) <= 600


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_print_shows_tables_and_whole_charts(visit, scheme):
    page = visit(small_fit(), scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = false)")
    page.emulate_media(media="print", color_scheme=scheme)
    wait_until(page, "document.documentElement.classList.contains('printing')")
    assert page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
    assert not page.is_visible("#why-form") and page.is_visible("#sum")
    clipped = """() => [...document.querySelectorAll('.plot')].filter(p => {
        const inner = p.querySelector('.drawing').getBoundingClientRect(), outer = p.getBoundingClientRect();
        return inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1 || outer.right > 690;
    }).map(p => p.id)"""
    assert page.evaluate(clipped) == []
    tables = "[...document.querySelectorAll('.scroll > table')].map(t => t.getBoundingClientRect().right)"
    assert max(page.evaluate(tables)) <= 690
    colour = "getComputedStyle(document.querySelector('.plot .xtitle')).fill"
    assert page.evaluate(colour) == "rgb(29, 33, 41)", "ink on paper, whatever the screen"
    page.emulate_media(media="screen", color_scheme=scheme)
    wait_until(page, "!document.documentElement.classList.contains('printing')")
    assert not page.evaluate("[...document.querySelectorAll('details')].some(d => d.open)")


def test_dark_ground_gets_light_ink(visit):
    page = visit(small_fit(), scheme="dark")
    ink = page.evaluate("getComputedStyle(document.querySelector('.plot .xtitle')).fill")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ink == "rgb(236, 233, 226)" and ground == "rgb(22, 25, 30)"


CONTRAST = """() => {
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * linear(r / 255) + .7152 * linear(g / 255) + .0722 * linear(b / 255);
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const back = e => rgb(getComputedStyle(e).backgroundColor);
  const ground = e => back(e)[3] !== 0 || !e.parentElement ? back(e) : ground(e.parentElement);
  const written = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const ratio = e => {
    const both = [light(rgb(getComputedStyle(e).color)), light(ground(e))];
    return (Math.max(...both) + .05) / (Math.min(...both) + .05);
  };
  return [...document.querySelectorAll('main *, header *, footer *')]
    .filter(e => !e.closest('.plot') && written(e))
    .map(e => [ratio(e), e.tagName, e.textContent.slice(0, 30)]);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough(visit, scheme):
    page = visit(small_fit(), scheme=scheme)
    page.fill("#input-0", "1e9")
    assert page.locator("main .warnings:visible").count() == 2
    found = page.evaluate(CONTRAST)
    assert len(found) > 100
    assert [text for text in found if text[0] < 4.5] == []


def test_every_control_has_a_name_and_can_be_reached(visit):
    page = visit(mixed_fit())
    nameless = (
        "[...document.querySelectorAll('input, select')].filter(e => !e.labels.length || !e.labels[0].textContent)"
    )
    assert page.evaluate(f"{nameless}.length") == 0
    page.focus("#row-find")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "row-pick"
    page.focus("details summary")
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('details').open")
    assert page.get_attribute(".verdict", "aria-live") == "polite"


def test_hostile_names_stay_text(visit):
    results = hostile_fit()
    page = visit(results)
    page.select_option("#row-pick", "1")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script, main img, .plot a, .plot b").count() == 0
    labels = page.locator("#inputs label").all_text_contents()
    assert sorted(labels) == sorted(results.model.model_.encoder.names)
    ticks = page.locator("#chart-share text.ytick").all_text_contents()
    assert any(text.startswith("<img") for text in ticks) and "$\\alpha$ %{x} &lt;&amp;" in ticks
    for chart in ("chart-share", "chart-importance", "chart-shape-0", "chart-correlation"):
        page.locator(f"#{chart}").scroll_into_view_if_needed()
        box = page.locator(f"#{chart} svg.drawing").first.bounding_box()
        for share in (0.2, 0.5, 0.8):
            page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.5 * box["height"])
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.title").startswith("<i>target</i></title>")


def test_injected_scripts_do_not_run(browser, tmp_path):
    """Even if a name got out of its place, the page's policy would not let it run."""
    path = tmp_path / "report.html"
    write(small_fit(), path)
    text = path.read_text().replace("<main>", "<main><script>window.hacked = 9</script>", 1)
    path.write_text(text.replace("<h1>", '<h1 onclick="window.hacked = 8">', 1))
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("typeof window.tamis.predict") == "function"
    page.click("h1")
    assert page.evaluate("window.hacked") is None
    page.close()


def test_numbers_are_written_as_in_python(visit):
    from tamis.results.text import number

    page = visit(small_fit())
    values = [0.0, 1.0, -2.5, 1e-7, 123456.7, 4254.0, 2e12, 0.00012345, 99.999, -1e9]
    assert page.evaluate("vs => vs.map(v => window.tamis.number(v))", values) == [number(v) for v in values]


def test_data_is_what_was_embedded(visit):
    page = visit(small_fit())
    data = page.evaluate("window.tamis.data")
    assert json.loads(json.dumps(data["classes"])) == small_fit().model.classes_.tolist()
    assert set(page.evaluate("Object.keys(window.tamis)")) >= {"data", "predict", "ready"}
