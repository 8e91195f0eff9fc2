"""Rows of measurements."""

from __future__ import annotations

import pytest

from experiments.accuracy import rows

CELLS = [{"set": "a", "seed": seed} for seed in range(3)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "OUT", tmp_path)


def square(set, seed):
    return {"value": float(seed**2)}


def fails_on_one(set, seed):
    return {"value": 1 / (seed - 1)}


def test_rows_have_cell_and_result():
    found = rows.measure("x", CELLS, square)
    assert found == [{**cell, "value": float(cell["seed"] ** 2)} for cell in CELLS]


def test_cells_with_a_row_are_not_measured_again():
    first = rows.measure("x", CELLS, square)
    assert rows.measure("x", CELLS, fails_on_one) == first


def test_an_error_is_a_row_that_is_measured_again():
    found = rows.measure("x", CELLS, fails_on_one)
    assert [row.get("error") for row in found] == [None, "ZeroDivisionError: division by zero", None]
    assert "error" not in rows.measure("x", CELLS, square)[1]
