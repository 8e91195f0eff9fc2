"""Tests of differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from experiments.statistics import holm, mean_ranks, resampled, signed_ranks


def test_paired_test_is_that_of_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 8))
    assert resampled(a, b, 0.0) == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert resampled([1.0, 2.0], [1.0, 2.0], 0.0) == 1.0 and math.isnan(resampled([1.0], [2.0], 0.0))
    assert math.isnan(resampled([0.3, 1.3, 2.3], [0.0, 1.0, 2.0], 0.4))  # nothing is known of the variance


def test_shared_rows_make_differences_less_certain():
    a, b = [1.0, 2.0, 1.5, 1.7], [0.5, 1.9, 1.0, 1.6]
    d = np.subtract(a, b)
    t = d.mean() / (d.std(ddof=1) * np.sqrt(1 / 4 + 0.4))
    assert resampled(a, b, 0.4) == pytest.approx(2 * stats.t.sf(t, 3)) and resampled(a, b, 0.4) > resampled(a, b, 0.0)


def test_signed_ranks_are_those_of_scipy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 9))
    assert signed_ranks(a, b) == pytest.approx(stats.wilcoxon(a, b).pvalue)
    assert signed_ranks([1.0] * 6, [1.0] * 6) == 1.0 and math.isnan(signed_ranks([1.0] * 4, [2.0] * 4))


def test_holm_corrections_are_those_by_hand():
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": float("nan")})
    assert found["a"] == pytest.approx(0.03) and found["c"] == pytest.approx(0.06)
    assert found["b"] == pytest.approx(0.06) and math.isnan(found["d"])
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


def test_ranks_average_ties_and_put_nan_last():
    assert mean_ranks(np.array([[3.0, 2.0, 2.0], [1.0, np.nan, 5.0]])).tolist() == [1.5, 2.75, 1.75]
