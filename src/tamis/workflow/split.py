"""Rows to learn from and rows to test on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, train_test_split

from tamis.table.folds import deal
from tamis.table.keys import row_keys
from tamis.table.rows import check_groups
from tamis.table.table import any_table
from tamis.workflow.prepare import Data

NAMES = {"train": 0, "training": 0, "0": 0, "0.0": 0, "test": 1, "testing": 1, "holdout": 1, "1": 1, "1.0": 1}


def split_rows(data: Data, test_size: float, seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Positions of the training rows and of the test rows, and in words how they were chosen."""
    if data.split is not None:
        train, test, words = _by_column(data)
    elif data.groups is not None:
        train, test = _by_groups(data, test_size, seed)
        words = f"{len(test)} of {len(data.y)} rows, whole groups at random, seed {seed}"
    else:
        rows = np.arange(len(data.y))
        least = len(np.unique(data.y))
        size = max(least, round(test_size * len(rows)))
        if len(rows) - size < 2 * least:
            left = len(rows) - size
            raise ValueError(f"test_size={test_size} leaves {left} of {len(rows)} rows to learn from: lower it")
        train, test = train_test_split(rows, test_size=size, stratify=data.y, random_state=seed)
        train, test = np.sort(train), np.sort(test)
        words = f"{len(test)} of {len(rows)} rows at random, within classes, seed {seed}"
    _check_sides(data, train, test)
    return train, test, words


def sides(values: Sequence[Any]) -> np.ndarray:
    """Zero for rows to learn from and one for rows to test on, from the cells of a split column."""
    words = [str(v).strip().lower() for v in values]
    odd = sorted({v for v in words if v not in NAMES})
    if odd:
        raise ValueError(f"the split column holds {odd[0]!r}: its values must be 'train' and 'test' (or 0 and 1)")
    return np.array([NAMES[v] for v in words])


def _by_column(data: Data) -> tuple[np.ndarray, np.ndarray, str]:
    side = sides(data.split.tolist())  # type: ignore[union-attr]
    if data.groups is not None:
        both = set(data.groups[side == 0].tolist()) & set(data.groups[side == 1].tolist())
        if both:
            name = min(both, key=str)
            raise ValueError(f"group {name!r} has rows on both sides of the split: the test would not be fair")
    return np.flatnonzero(side == 0), np.flatnonzero(side == 1), "as the split column says"


def _by_groups(data: Data, test_size: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    share = min(test_size, 1.0 - test_size)  # of the smaller side
    folds = max(2, min(round(1 / share), len(np.unique(np.asarray(data.groups)))))
    classes = set(np.unique(data.y).tolist())
    rows = np.zeros((len(data.y), 1))
    for train, test in StratifiedGroupKFold(folds, shuffle=True, random_state=seed).split(rows, data.y, data.groups):
        if all(set(data.y[side].tolist()) == classes for side in (train, test)):
            return (train, test) if test_size <= 0.5 else (test, train)
    raise ValueError("no split into whole groups has every class on both sides: use fewer classes or a split column")


def _check_sides(data: Data, train: np.ndarray, test: np.ndarray) -> None:
    if not len(test) or not len(train):
        raise ValueError("the split leaves no row to learn from or none to test on")
    for label in np.unique(data.y):
        count = int(np.sum(data.y[train] == label))
        if count < 2:
            raise ValueError(f"class {str(label)!r} has {count} training rows: at least two are needed")


def folds_of(
    X: Mapping[str, np.ndarray], y: np.ndarray, groups: np.ndarray | None, n_folds: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Stratified folds of training rows, groups kept together; fewer where a class is small."""
    codes = np.unique(y, return_inverse=True)[1]
    return deal(row_keys(any_table(X), seed), codes, check_groups(groups, len(y)), n_folds, seed)
