"""The page without a browser: it holds everything, loads nothing, and names stay text."""

from __future__ import annotations

import builtins
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="jinja2 is not installed")

from figures import MARKS, check_figure, marks_of
from page_reader import Reader
from tamis.explain.explanation import plain
from tamis.results import tables
from tamis.results.text import cell, number, percent, shortened, signed, signed_percent
from tamis.views.report import embedded, render, write

from report_fits import HOSTILE, WARNING, hostile_fit, iris_fit, mixed_fit, small_fit

LIMIT = 10**6


@pytest.fixture(scope="module")
def small():
    return small_fit()


@pytest.fixture(scope="module")
def page(small):
    return Reader(render(small))


@pytest.mark.parametrize("fit", [small_fit, iris_fit, mixed_fit, hostile_fit])
def test_page_is_small_and_loads_nothing(fit):
    text = render(fit())
    assert len(text.encode()) < LIMIT
    reader = Reader(text)
    assert not reader.open, "every element is closed"
    for tag, attrs in reader.tags:
        assert tag not in ("link", "iframe", "img", "object", "embed", "base"), tag
        assert not {"src", "srcset", "action", "data"} & set(attrs), (tag, attrs)
        assert not any(name.startswith("on") for name in attrs), (tag, attrs)
        assert attrs.get("href", "#").startswith("#"), attrs
    css = (Path(embedded.__file__).parent / "assets" / "page.css").read_text()
    assert "url(" not in css and "@import" not in css


def test_every_panel_is_there_with_heading_and_in_the_contents(page):
    sections = [attrs["id"] for attrs in page.all("section")]
    assert sections == ["learned", "features", "cases", "why", "path", "stability", "data"]
    links = [attrs["href"] for attrs in page.all("a") if attrs["href"] != "#learned" or "class" not in attrs]
    assert [f"#{name}" for name in sections] == links[: len(sections)]
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels)), "no level is skipped"


def test_page_can_be_read_aloud(page):
    assert page.all("html")[0]["lang"] == "en"
    assert {"header", "nav", "main", "footer"} <= {tag for tag, _ in page.tags}
    plots = [attrs for attrs in page.all("div") if attrs.get("class") == "plot"]
    assert plots and all(attrs["role"] == "img" and attrs["aria-label"] for attrs in plots)
    assert len(page.all("caption")) >= len(plots)
    assert all(attrs.get("scope") in ("row", "col") for attrs in page.all("th"))
    assert {attrs["id"] for attrs in plots} == set(page.data["charts"])
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.tags:
        for name in attrs.get("aria-labelledby", "").split():
            assert name in ids


@pytest.mark.parametrize("fit", [small_fit, iris_fit, mixed_fit, hostile_fit])
def test_charts_are_such_as_the_page_draws(fit):
    charts = Reader(render(fit())).data["charts"]
    assert len(charts) >= 6
    for name, figure in charts.items():
        check_figure(figure)
        assert all(mark["kind"] in MARKS for mark in marks_of(figure)), name


def test_results_read_as_in_python(small, page):
    from tamis.results.tables import sentence

    assert sentence(small) in page.text
    value, low, high = small.evaluation.accuracy
    assert f"{100 * value:.1f}%" in page.text and f"{100 * low:.1f}% to {100 * high:.1f}%" in page.text
    assert "Zhang, Zhiwang" in page.text and "Version" in page.text
    for part in small.parts:
        assert part.name in page.text
    assert page.text.count(WARNING) == 2, "at the top, and among the notes on the data"


def test_embedded_model_survives_the_round_trip(small, page):
    data, expansion = page.data, small.model.model_.expansion
    assert data["classes"] == small.model.classes_.tolist()
    assert data["base"] == expansion.intercept.tolist()
    order = [small.model.instance_labels_.tolist().index(case["label"]) for case in data["cases"]]
    np.testing.assert_array_equal(np.array(data["model"]["coef"]), expansion.coef[:, order])
    np.testing.assert_array_equal(np.array(data["model"]["instances"], dtype=float), expansion.instances[order])
    np.testing.assert_array_equal(data["rows"]["decision"], small.rows.decision)
    low = [column["low"] for column in data["columns"]]
    assert low == [column.low for column in small.model.model_.encoder.columns]


def test_case_order_is_that_of_the_results():
    for results in (small_fit(), iris_fit(), mixed_fit()):
        labels = np.asarray(results.model.instance_labels_)[embedded.case_order(results)]
        assert labels.tolist() == [case.label for case in results.cases]


def test_kernels_belong_to_their_parts():
    results = mixed_fit()
    names = results.model.model_.encoder.names
    for channel, k in zip(results.model.model_.expansion.bank.channels, embedded.part_places(results), strict=True):
        assert results.parts[k].features == tuple(names[c] for c in channel.columns)


def test_hostile_names_are_text():
    results = hostile_fit()
    reader = Reader(render(results))
    assert len(reader.all("script")) == 7 and len(reader.all("html")) == 1
    assert sorted(column["name"] for column in reader.data["columns"]) == sorted(HOSTILE)
    assert results.task.target in reader.text and results.notes.source in reader.text
    for name in HOSTILE:
        assert " ".join(name.split()) in reader.text


def test_json_is_safe_inside_a_script_element():
    odd = {"</script><!--<script>": "a & b\u2028\u2029", "n": [float("nan"), float("inf"), -np.inf, np.float32(0.5)]}
    text = embedded.to_json(odd)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"</script><!--<script>": "a & b\u2028\u2029", "n": [None, None, None, 0.5]}


def test_json_knows_numpy_and_odd_objects():
    import datetime

    day = datetime.date(2020, 1, 2)
    values = {"a": np.arange(3), "b": np.bool_(True), "c": (np.int64(2), None), 4: day, "e": np.array([day, None])}
    assert plain(values) == {"a": [0, 1, 2], "b": True, "c": [2, None], "4": "2020-01-02",
                                      "e": ["2020-01-02", None]}  # fmt: skip


def test_names_in_charts_are_short():
    assert shortened("two\nlines   here", 26) == "two lines here" and shortened("<b>x</b> & y", 26) == "<b>x</b> & y"
    assert len(shortened("x" * 100, 26)) == 26


def test_numbers_are_short_and_honest():
    assert [number(v) for v in (0.0, 1.0, 4254.0, 123456.7, 0.00012345)] == ["0", "1", "4254", "123457", "0.0001234"]
    assert number(-0.5) == "\u22120.5" and number(float("nan")) == "unknown" and number(None) == "unknown"
    assert number(1.5e-7) == "1.500e\u22127" and number(2e12) == "2.000e12"
    assert signed(0.25) == "+0.25" and signed(-0.25) == "\u22120.25" and signed(0.0) == "0"
    assert percent(-0.01) == "0.0%" and signed_percent(3.26) == "+3.3%" and signed_percent(-3.26) == "\u22123.3%"
    assert cell(None) == cell(float("nan")) == "missing" and cell(7) == "7" and cell(np.float64(0.5)) == "0.5"


def test_reference_is_that_of_the_bibliography(small):
    entry = (Path(__file__).parents[2] / "docs" / "references.bib").read_text().split("@article{Zhang2022,")[1]
    entry = entry.split("\n}")[0].replace("{", "").replace("}", "")
    field = dict(re.findall(r"(\w+)\s*=\s*(.+),", entry))
    cited = tables.citations(small)[1]
    for name in field["author"].split(" and "):
        assert name in cited
    assert field["title"] in cited and field["journal"] in cited and field["year"] in cited


def test_results_without_test_rows_path_or_stability_render(small):
    empty = small.rows.labels[:0]
    rows = replace(
        small.rows,
        labels=empty,
        values={name: values[:0] for name, values in small.rows.values.items()},
        truth=None,
        predicted=small.rows.predicted[:0],
        decision=small.rows.decision[:0],
        probability=None,
    )
    bare = replace(small, evaluation=None, stability=None, rows=rows, seconds={}, versions={})
    reader = Reader(render(bare))
    assert "stability" not in [attrs["id"] for attrs in reader.all("section")]
    assert "no rows with known classes" in reader.text
    assert reader.data["rows"]["labels"] == []


@pytest.mark.filterwarnings("ignore:.*kept no instance")
@pytest.mark.filterwarnings("ignore:calibration failed", "ignore:EM2NOLCClassifier kept no instance")
def test_model_that_keeps_nothing_renders():
    from tamis.workflow import Job, run

    rng = np.random.default_rng(1)
    table = {"a": rng.normal(size=60), "y": np.array(["no", "yes"])[rng.integers(2, size=60)]}
    options = {"bandwidth": 1.0, "alpha": 1e6}
    results = run(table, Job("y", method="EM2NOLCClassifier", max_instances=1, max_features=1, options=options))
    assert not len(results.model.instances_) and not results.parts
    reader = Reader(render(results))
    assert "keeps no feature" in reader.text and "keeps no case" in reader.text
    assert reader.data["model"]["instances"] == []


def test_unknown_kernels_leave_stored_rows_with_contributions(small):
    class Other:
        def __call__(self, S, T):
            return np.exp(-np.abs(S - T.T))

    model = small.model.model_
    channels = tuple(replace(channel, kernel=Other()) for channel in model.expansion.bank.channels)
    expansion = replace(model.expansion, bank=replace(model.expansion.bank, channels=channels))
    other = type(small.model).from_stored(small.model.to_stored())
    other.model_ = replace(model, expansion=expansion)
    results = replace(small, model=other)
    data = Reader(render(results)).data
    assert data["model"] is None
    explanation = other.explain(small.rows.values)
    total = np.array(data["base"]) + np.array(data["rows"]["byPart"]).sum(axis=2)
    np.testing.assert_allclose(total, explanation.decision, atol=1e-12)
    total = np.array(data["base"]) + np.array(data["rows"]["byCase"]).sum(axis=2)
    np.testing.assert_allclose(total, explanation.decision, atol=1e-12)


def test_row_dependent_coefficients_are_not_recomputed(small, monkeypatch):
    monkeypatch.setattr(type(small.model.model_.expansion), "row_dependent", True)
    assert embedded.model_data(small, embedded.case_order(small)) is None


def test_many_features_bound_the_rows(small, monkeypatch):
    monkeypatch.setattr(embedded, "MAX_EMBEDDED_CELLS", 0)
    rows = embedded.row_data(small, embedded.case_order(small), stored=False)
    assert len(rows["labels"]) == 20 and rows["total"] == len(small.rows.labels)


def test_file_is_written_whole_or_not_at_all(small, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    write(small, path)
    assert path.read_text(encoding="utf-8") == render(small)
    before = path.read_bytes()
    monkeypatch.setattr("tamis.views.report.page.render", lambda results: "\ud800 odd")
    write(small, path)  # what UTF-8 cannot say is replaced
    assert path.read_bytes() == b"? odd"
    path.write_bytes(before)
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda self, data: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write(small, path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_missing_packages_are_one_sentence(small, monkeypatch, missing="jinja2"):
    real = builtins.__import__

    def absent(name, *rest, **more):
        if name == missing:
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ImportError, match=r"pip install 'tamis\[report\]'"):
        render(small)


def test_policy_names_every_script_and_nothing_else():
    import base64
    import hashlib

    text = render(small_fit())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    bodies = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    assert len(bodies) == 6
    for body in bodies:
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"sha256-{digest}" in policy.replace("&#43;", "+")
    assert "default-src 'none'" in policy.replace("&#39;", "'") and "unsafe-eval" not in policy
