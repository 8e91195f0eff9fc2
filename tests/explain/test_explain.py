from __future__ import annotations

import builtins
import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tamis import EM2NOLCClassifier
from tamis.explain import signed_percentages, variation

import zoo


@pytest.fixture(scope="module")
def explanation():
    X, y = zoo.planted()
    return EM2NOLCClassifier(3, 2).fit(X, y).explain(X[:4])


def test_frame_lists_every_summand_once(explanation):
    frame = explanation.to_frame()
    assert list(frame.columns) == ["row", "output", "instance", "kernel", "contribution"]
    assert len(frame) == explanation.contributions.size + 4
    assert not frame.duplicated(["row", "output", "instance", "kernel"]).any()
    assert all(isinstance(v, int | np.integer) for v in frame["instance"].dropna())


def test_a_dict_is_json_whatever_the_labels_are(explanation):
    dates = np.array(["2020-01-01", "2021-06-30"], dtype="datetime64[s]")
    labels = [dates[0], np.float64(2.5), float("nan"), ("site", 3)]
    told = replace(explanation, rows=labels, instances=[pd.Timestamp(dates[1]), np.int64(4), True]).to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert list(dict.fromkeys(told["row"])) == ["2020-01-01 00:00:00", 2.5, None, "('site', 3)"]
    assert list(dict.fromkeys(told["instance"])) == ["2021-06-30 00:00:00", 4, True, None]
    total = np.zeros(4)
    np.add.at(total, [list(dict.fromkeys(told["row"])).index(row) for row in told["row"]], told["contribution"])
    np.testing.assert_allclose(total, explanation.decision[:, 0])
    frame = replace(explanation, rows=pd.date_range("2020", periods=4)).to_frame()
    assert frame["row"].dtype.kind == "M"


def _hide(monkeypatch, *names):
    real = builtins.__import__

    def fake(name, *args, **kw):
        if name in names:
            raise ImportError(name)
        return real(name, *args, **kw)

    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(builtins, "__import__", fake)


def test_frame_is_polars_without_pandas_and_a_clear_error_without_both(explanation, monkeypatch):
    with monkeypatch.context() as patch:
        _hide(patch, "pandas")
        assert type(explanation.to_frame()).__module__.startswith("polars")
    with monkeypatch.context() as patch:
        _hide(patch, "pandas", "polars")
        with pytest.raises(ImportError, match=r"pip install 'tamis\[io\]'"):
            explanation.to_frame()


def test_percentages_keep_signs_and_zero_vectors():
    np.testing.assert_allclose(signed_percentages(np.array([1.0, -3.0])), [25, -75])
    assert not signed_percentages(np.zeros(3)).any()


def test_variation_gives_nothing_to_a_constant_part_and_takes_weights():
    parts = np.array([[[5.0, 0.0]], [[5.0, 2.0]], [[5.0, 9.0]]])
    np.testing.assert_allclose(variation(parts, np.array([1.0, 1.0, 0.0])), [[0, 100]])
