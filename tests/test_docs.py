"""What the documentation says is run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import warnings
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
    scope |= {"sites": [(X[200:400], y[200:400]), (X[400:], y[400:])]}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "large_data.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, scope)
    assert scope["labels"].shape == (600,)
    assert scope["told"].decision.compute().shape == scope["probability"].compute()[:, :1].shape == (600, 1)
    assert scope["clf"].score(X, y) > 0.8


def test_snippets_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 8
    scope: dict = {}
    first = blocks[0].replace("max_instances=20, max_features=20", "max_instances=3, max_features=3, cv=2")
    first = first.replace("as_frame=True)\n", "as_frame=True)\nX, y = X[::3], y[::3]\n")
    first = re.sub(r"clf.shape_function\(.*?\)", "clf.shape_function(int(clf.features_[0]))", first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(first, scope)
        quick = 'max_features=5, max_instances=3, options={"cv": 2}'
        exec(blocks[1].replace("max_features=5", quick), scope)
        exec(blocks[2], scope)
        assert scope["clf"].features_.size
        X, y = scope["X"], scope["y"]
        exec(blocks[3].replace(".fit(X, y)", ".fit(X[::2], y[::2])"), scope)
        assert scope["clf"].duality_gap_ <= 1e-3 and scope["hard"].certificate_.words
        exec(blocks[4].replace(".fit(X, y)", ".fit(X[::2], y[::2])"), scope)
        assert len(scope["clf"].features_) <= 5 and scope["search"].lambda2_ in scope["search"].lambda2s
        waves = np.random.default_rng(0).normal(size=(12, 2, 25))
        scope |= {
            "X": X[::4],
            "y": y[::4],
            "waves": waves + 2 * (np.arange(12) % 2)[:, None, None],
            "state": np.arange(12) % 2,
        }
        fifth = blocks[5].replace("prototype_size=5", "prototype_size=5, max_iter=5")
        exec(fifth.replace("kappas=(0.1, 0.3)", "kappas=(0.1,), cv=2, max_iter=5"), scope)
        assert scope["first"].purity > 0.9 and scope["series"].predict(waves).shape == (12,)
        exec(blocks[6].replace("Cs=(1, 10)", "Cs=(1,), cv=2"), scope)
        assert scope["explanation"].present.shape == (5, 3) and len(scope["explanation"].channels_of(0)) == 3
        scope |= {"X": X, "y": y}
        scope |= {"X_sample": X[:100], "y_sample": y[:100], "blocks": [(X[:100], y[:100]), (X[100:], y[100:])]}
        exec(blocks[7], scope)
    assert scope["stats"].n_rows == len(X) == 190
    assert scope["clf"].features_.size == 10
