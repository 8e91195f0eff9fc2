"""Pages of results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments import pages
from experiments.cells import FAILED, Cell, Row
from experiments.pages import Grid, Text, html, markdown, page, verdict, write_index, write_pages
from experiments.papers import PAPERS
from experiments.runner import Plan, reproduce
from experiments.summary import Table

from small_experiments import rows as rows_of


def test_published_numbers_are_shown_where_ours_are_lower(tmp_path):
    rows = rows_of({"MKL-L0/1-SVM": [70.0, 72.0], "SVC": [85.0, 87.0]})
    text = markdown(page(PAPERS["l01-svm"], rows, tmp_path, "python -m experiments reproduce")[0])
    assert "| sonar | MKL-L0/1-SVM | 71.0 ± 1.4 | 75.79 | -4.8 |" in text
    assert "within 2 points of the published accuracy on 0 of 1 sets, lower on 1" in text
    assert "| **86.0 ± 1.4** |" in text


def test_verdict_without_published_numbers():
    rows = rows_of({"IMKPL": [90.0]}, paper="imkpl", dataset="wine")
    assert "no numbers" in verdict(Table(PAPERS["imkpl"], "honest", rows))


def test_pages_of_a_real_run(store, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setitem(PAPERS, "l01-svm", replace(PAPERS["l01-svm"], splits={("honest", "quick"): 1}))
    plan = Plan(("l01-svm",), only=("quadrants", "MKL-L0/1-SVM", "SimpleMKL", "SVC", "majority"))
    reproduce(plan, store)
    files = write_pages(PAPERS["l01-svm"], store.rows(), tmp_path, "python -m experiments reproduce l01-svm")
    text = (tmp_path / "l01-svm.md").read_text()
    for title in ("Decision boundary", "ROC curves", "Accuracy (%), beside the paper", "Is it more than luck?"):
        assert f"### {title}" in text
    for picture in (path for path in files if path.suffix == ".png"):
        assert f"](figures/{picture.name})" in text and picture.stat().st_size > 2000
    assert len(files) >= 4 and "python -m experiments reproduce l01-svm" in text
    assert "<table>" in (tmp_path / "l01-svm.html").read_text()


def test_html_is_escaped_and_marked():
    text = html("a < b", [Text("x < y and `code`"), Grid(["a"], [["**1**"]])])
    assert "<title>a &lt; b</title>" in text and "x &lt; y and <code>code</code>" in text
    assert "<td><strong>1</strong></td>" in text


def test_without_matplotlib_the_page_says_so(store, tmp_path, monkeypatch):
    reproduce(Plan(("l01-svm",), only=("quadrants", "SVC")), store)
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    blocks, files = page(PAPERS["l01-svm"], store.rows(), tmp_path, "x")
    assert not files and "pip install 'tamis[plot]'" in markdown(blocks)


def test_the_index_has_a_line_for_each_paper(tmp_path):
    cell = Cell("l01-svm", "honest", "quick", "sonar", 0, "", "MKL-L0/1-SVM")
    rows = [Row(cell, {"accuracy": 70.0}), Row(replace(cell, method="SVC"), {"accuracy": 80.0})]
    rows += [Row(replace(cell, dataset="quadrants"), {"accuracy": 90.0})]
    write_index([Table(PAPERS["l01-svm"], "honest", rows)], tmp_path, "python -m experiments reproduce all")
    line = (tmp_path / "README.md").read_text().splitlines()[-1]
    assert line == (
        "| [l01-svm](l01-svm.md) | honest | 2 | MKL-L0/1-SVM | 80.0 | 84.6 (ours 80.0) | - | 80.0 (1 of 2) | - | - |"
    )
    assert '<a href="l01-svm.html">l01-svm</a>' in (tmp_path / "index.html").read_text()


def test_only_datasets_with_both_numbers_are_compared(tmp_path):
    cell = Cell("l01-svm", "honest", "quick", "sonar", 0, "", "MKL-L0/1-SVM")
    rows = [Row(cell, {"accuracy": 70.0}), Row(replace(cell, dataset="quadrants"), {}, FAILED, "x")]
    write_index([Table(PAPERS["l01-svm"], "honest", rows)], tmp_path, "x")
    assert "| 70.0 (1 of 2) | 75.8 (ours 70.0) |" in (tmp_path / "README.md").read_text()


def test_a_page_without_the_papers_method_has_no_tests_against_it(tmp_path):
    cell = Cell("l01-svm", "honest", "quick", "sonar", 0, "", "SVC")
    rows = [Row(cell, {"accuracy": 70.0}), Row(replace(cell, method="majority"), {"accuracy": 50.0})]
    text = markdown(page(PAPERS["l01-svm"], rows, tmp_path, "x")[0])
    assert "no numbers for these sets and methods" in text and "more than luck" not in text
    write_index([Table(PAPERS["l01-svm"], "honest", rows)], tmp_path, "x")
    assert "| honest | 1 | - | - | - | - | 70.0 | - | 50.0 |" in (tmp_path / "README.md").read_text()


def test_the_verdict_names_the_set_that_is_farthest_below():
    cell = Cell("l01-svm", "honest", "quick", "sonar", 0, "", "MKL-L0/1-SVM")
    rows = [Row(cell, {"accuracy": 75.0}), Row(replace(cell, dataset="quadrants"), {"accuracy": 80.0})]
    found = verdict(Table(PAPERS["l01-svm"], "honest", rows))
    assert "within 2 points of the published accuracy on 1 of 2 sets, lower on 1, higher on 0" in found
    assert "lowest on quadrants: 80.0 against 93.3" in found


def test_p_values_are_in_their_columns(tmp_path):
    rng = np.random.default_rng(0)
    cell = Cell("l01-svm", "honest", "quick", "sonar", 0, "", "")
    rows = [
        Row(replace(cell, dataset=d, method=m), {"accuracy": float(rng.normal(80 + 3 * (m == "SVC"), 1))})
        for d in ("sonar", "pima", "wpbc", "haberman", "ionosphere", "ilpd_579")
        for m in ("MKL-L0/1-SVM", "SVC", "majority")
    ]
    table = Table(PAPERS["l01-svm"], "honest", rows)
    text = markdown(page(PAPERS["l01-svm"], rows, tmp_path, "x")[0])
    for method, difference, p, corrected, wins, losses in table.against_main():
        assert (
            p <= corrected
            and f"| {method} | {difference:+.1f} | {p:.3f} | {corrected:.3f} | {wins} | {losses} |" in text
        )
    assert any(p < corrected for _, _, p, corrected, _, _ in table.against_main())
