"""Files of all earlier versions are read, and say what they said."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from tamis import Statistics, io

FOLDER = Path(__file__).parents[1] / "data" / "models"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())

_spec = importlib.util.spec_from_file_location("make", FOLDER / "make.py")
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)


def test_every_file_has_its_decisions():
    files = {path.name for path in FOLDER.glob("*.tamis")}
    assert files == EXPECTED.keys() and len(files) > 10
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 150_000


@pytest.mark.parametrize("name", [name for name in EXPECTED if "Statistics" not in name])
def test_models_decide_and_explain_as_ever(name):
    model, (X, _) = io.load(FOLDER / name), make.table()
    assert type(model).__name__ == name.removesuffix(".tamis").partition("-")[2]
    np.testing.assert_allclose(make.decided(model, X), EXPECTED[name], rtol=1e-9, atol=1e-12)
    explanation = model.explain(X)
    total = explanation.contributions.sum(axis=(2, 3)) + explanation.base_value
    np.testing.assert_allclose(total, np.reshape(EXPECTED[name], total.shape), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in EXPECTED if "Statistics" in name])
def test_sums_are_the_same(name):
    sums = Statistics.load(FOLDER / name)
    np.testing.assert_allclose(sums.sums()[0], EXPECTED[name], rtol=1e-12)
    X, y = make.table()
    assert sums.update(X, y).n_rows == 48
