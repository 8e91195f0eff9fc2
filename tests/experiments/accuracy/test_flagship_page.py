"""Measures of the flagship page, and that it shows no number without its rows."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from experiments.accuracy import flagship_page as bench
from experiments.statistics import resampled


def row(method, name, seed, accuracy, features=(0, 1)):
    made = {"command": "by hand", "date": "2000-01-01", "versions": {"numpy": "0"}, "machine": "none"}
    numbers = dict.fromkeys(("auc", "log_loss", "brier", "ece"), 0.5)
    shape = {"n_train": 70, "n_test": 30, "n_features_in": 30}
    cell = {"method": method, "set": name, "seed": seed, "state": None, "features": list(features)}
    return {**cell, **numbers, **shape, "accuracy": accuracy, "seconds": {"cpu": 1.0, "wall": 1.0}, "made": made}


def test_calibration_error_is_that_of_a_hand_computation():
    y = np.array([1, 0, 1, 1, 1])
    p = np.array([0.92, 0.08, 0.35, 0.69, 0.98])
    # (0.6, 0.7]: confidences 0.65 (wrong) and 0.69 (right); (0.9, 1]: 0.92, 0.92, 0.98, all right
    expected = 2 / 5 * abs(1 / 2 - (0.65 + 0.69) / 2) + 3 / 5 * abs(1 - (0.92 + 0.92 + 0.98) / 3)
    assert bench.ece(y, p) == pytest.approx(expected, abs=1e-12)


def test_calibration_bins_are_closed_above():
    y, p = np.array([1, 0]), np.array([0.8, 0.81])  # 0.8 lies in (0.7, 0.8], 0.81 in the next bin
    assert bench.ece(y, p) == pytest.approx((0.2 + 0.81) / 2)
    assert bench.ece(y, np.array([0.805, 0.81])) == pytest.approx(abs(1 - 1.615) / 2)


def test_calibration_error_is_zero_for_certain_and_right():
    y = np.array([0, 1, 1])
    assert bench.ece(y, y.astype(float)) == 0
    assert bench.ece(1 - y, y.astype(float)) == 1


def test_jaccard_is_the_mean_over_pairs():
    kept = [[0, 1, 2], [1, 2, 3], [7]]
    assert bench.jaccard(kept) == pytest.approx((2 / 4 + 0 + 0) / 3)
    assert bench.jaccard([[], []]) == 1 and np.isnan(bench.jaccard([[1]]))
    rng = np.random.default_rng(0)
    kept = [sorted(rng.choice(9, 4, replace=False).tolist()) for _ in range(5)]
    share = [sum(j in b for j in a) / (8 - sum(j in b for j in a)) for a, b in combinations(kept, 2)]
    assert bench.jaccard(kept) == pytest.approx(np.mean(share))


def test_page_writes_a_dash_for_what_is_missing():
    rows = [row("svc", s, seed, 0.8) for s in bench.THIRTEEN for seed in (1, 2)]
    for seed in (1, 2):  # thirteen different means
        rows += [row("tamis@20", s, seed, 0.8 + seed * i / 100) for i, s in enumerate(bench.THIRTEEN, 1)]
    rows += [row("ebm", "pima", 1, 0.7), row("ebm", "wdbc", 1, 0.7), {**row("ebm", "wdbc", 2, 0), "error": "no luck"}]
    page = bench.page(rows, [1, 2], "the protocol")
    lines = dict(line[2:].split(" | ", 1) for line in reversed(page.splitlines()) if line.startswith("| "))
    cells = dict(zip(bench.ALL, lines["mean of the 13"].strip(" |").split(" | "), strict=True))
    assert {m: v for m, v in cells.items() if v != "-"} == {"svc": "80.00", "tamis@20": "90.50"}
    assert "- ebm, wdbc, seed 2: no luck" in page and "0 of the 13 sets have all rows" in page
    assert "nan" not in page


def test_page_pairs_rows_by_seed():
    ours, theirs = {1: 0.9, 2: 0.7, 3: 0.85}, {1: 0.8, 2: 0.7, 3: 0.8}
    rows = [row("tamis@20", "sonar", seed, a) for seed, a in ours.items()]
    rows += [row("svc", "sonar", seed, theirs[seed]) for seed in (3, 1, 2)]
    p = resampled([0.1, 0.0, 0.05], [0.0, 0.0, 0.0], 30 / 70)
    assert f"| sonar | +5.00 | {p:.3f} | {p:.3f} |" in bench.page(rows, [1, 2, 3], "the protocol")
