"""The code in docstrings and on the page on large data runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from tamis import Statistics, all_estimators

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("module", sorted({c.__module__ for c in (*all_estimators().values(), Statistics)}))
def test_examples_in_docstrings(module):
    module = importlib.import_module(module)
    failed, tried = doctest.testmod(module)
    assert tried and not failed


@pytest.mark.parametrize("name", list(all_estimators()))
def test_every_parameter_is_documented(name):
    cls = all_estimators()[name]
    text = (cls.__doc__ or "").split("Attributes")[0]
    for parameter in inspect.signature(cls.__init__).parameters:
        assert parameter == "self" or re.search(rf"\b{parameter}\b", text), parameter


def test_snippets_on_large_data_run(tmp_path, monkeypatch):
    import dask.dataframe as dd
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 4)), columns=list("abcd"))
    y = (X["a"] + X["b"] ** 2 > 0.8).to_numpy().astype(int)
    pq.write_table(pa.Table.from_pandas(X.assign(label=y), preserve_index=False), "rows.parquet")
    scope = {"read_blocks": lambda: iter([(X[:300], y[:300]), (X[300:], y[300:])])}
    scope |= {"frame": dd.from_pandas(X.assign(label=y), npartitions=2), "X_public": X[:200], "y_public": y[:200]}
    scope |= {"X_sample": X, "y_sample": y, "blocks": [(X[:300], y[:300]), (X[300:], y[300:])]}
    scope |= {"sites": [(X[200:400], y[200:400]), (X[400:], y[400:])]}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "large_data.md").read_text(), re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(block, scope)
    assert scope["stats"].n_rows == 600
    assert scope["explanation"].decision.compute().shape == scope["probability"].compute()[:, :1].shape == (600, 1)
    assert scope["clf"].score(X, y) > 0.8
