"""Tables of rows."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from experiments.cells import FAILED, Cell, Row
from experiments.papers import PAPERS
from experiments.summary import Table

from small_experiments import rows as rows_of


def test_means_and_deviations_over_splits():
    table = Table(PAPERS["l01-svm"], "honest", rows_of({"MKL-L0/1-SVM": [70, 80, 75], "SVC": [80, 90, 86]}))
    assert str(table.number("sonar", "SVC", "accuracy")) == "85.3 ± 5.0"
    assert table.ranks == {"MKL-L0/1-SVM": 2.0, "SVC": 1.0} and table.main == "MKL-L0/1-SVM"
    ((method, difference, p, corrected, wins, losses),) = table.against_main()
    assert (
        (method, difference, wins, losses) == ("SVC", pytest.approx(-31 / 3), 0, 1)
        and math.isnan(p)
        and math.isnan(corrected)
    )


def test_the_best_repetition_is_shown_if_the_protocol_reports_it():
    rows = rows_of({"EM2NOLC": [70, 80, 75]}, "paper", "em2nolc", "wdbc")
    rows = [replace(r, extra={"spread": {"accuracy": float(r.cell.split)}}) for r in rows]
    found = Table(PAPERS["em2nolc"], "paper", rows).number("wdbc", "EM2NOLC", "accuracy")
    assert (found.mean, found.spread) == (80.0, 1.0)


def test_splits_with_a_failure_are_left_out_and_counted():
    rows = rows_of({"SVC": [80, 90, 85]})
    rows[1] = Row(rows[1].cell, {}, FAILED, "x")
    table = Table(PAPERS["l01-svm"], "honest", rows)
    assert str(table.number("sonar", "SVC", "accuracy")) == "82.5 ± 3.5 (2 of 3)"


def test_settings_are_averaged_within_a_split():
    cell = Cell("absent-mkl", "honest", "quick", "sonar", 0, "0.0", "C-AMKL")
    rows = [
        Row(replace(cell, setting=s, split=k), {"accuracy": v + k})
        for s, v in (("0.0", 90.0), ("0.8", 60.0))
        for k in (0, 1)
    ]
    table = Table(PAPERS["absent-mkl"], "honest", rows)
    assert table.values("sonar", "C-AMKL", "accuracy") == {0: 75.0, 1: 76.0}


def test_instances_are_counted_for_models_that_consist_of_them():
    cell = Cell("em2nolc", "honest", "quick", "wdbc", 0, "", "SVC")
    measures = {"accuracy": 90.0, "n_instances": 12.0, "irr": 97.0}
    rows = [Row(replace(cell, method=name), measures) for name in ("SVC", "LASSOC", "XGBoost")]
    table = Table(PAPERS["em2nolc"], "honest", rows)
    for measure, shown in (("n_instances", "12.0"), ("irr", "97.0")):
        assert str(table.number("wdbc", "SVC", measure)) == shown
        assert str(table.number("wdbc", "LASSOC", measure)) == str(table.number("wdbc", "XGBoost", measure)) == "-"
