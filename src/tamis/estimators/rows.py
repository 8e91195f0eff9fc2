"""Training rows: table, classes, weights, groups, with where they stood in the user's input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator, GroupKFold, StratifiedGroupKFold, StratifiedKFold

from tamis.estimators.table import Table


@dataclass(frozen=True)
class Rows:
    """Distinct training rows of positive weight, in an order that does not depend on the input's.

    Attributes
    ----------
    table : Table of n rows
    codes : (n,) class of each row, an index into `classes`
    classes : the class labels, sorted
    weight : (n,) positive
    groups : (n,) group of each row, or None
    position : (n,) first row of the input with these values
    """

    table: Table
    codes: np.ndarray
    classes: np.ndarray
    weight: np.ndarray
    groups: np.ndarray | None
    position: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: np.ndarray) -> Rows:
        return replace(
            self,
            table=self.table.take(rows),
            codes=self.codes[rows],
            weight=self.weight[rows],
            groups=None if self.groups is None else self.groups[rows],
            position=self.position[rows],
        )

    @property
    def targets(self) -> np.ndarray:
        """Outputs (n, q) in {-1, +1}: one for two classes, one per class otherwise."""
        if len(self.classes) == 2:
            return np.where(self.codes == 1, 1.0, -1.0)[:, None]
        return np.where(self.codes[:, None] == np.arange(len(self.classes)), 1.0, -1.0)


def merge_rows(rows: Rows) -> Rows:
    """Drop rows of weight zero, add up the weights of identical rows, sort by value.

    Repeating a row and doubling its weight then give the same training set, and so does any
    permutation of the input.
    """
    rows = rows.take(np.flatnonzero(rows.weight > 0))
    keys = [_sortable(rows.table.numbers[:, j]) for j in range(rows.table.numbers.shape[1])]
    keys += [_label_codes(values) for values in rows.table.labels.values()]
    keys.append(rows.codes)
    if rows.groups is not None:
        keys.append(np.unique(rows.groups, return_inverse=True)[1])
    order = np.lexsort([rows.position, *keys])
    matrix = np.column_stack([key[order] for key in keys])
    first = np.r_[True, np.any(matrix[1:] != matrix[:-1], axis=1)]
    weight = np.add.reduceat(rows.weight[order], np.flatnonzero(first))
    return replace(rows.take(order[first]), weight=weight)


def _sortable(column: np.ndarray) -> np.ndarray:
    """Missing cells as one value that no number takes."""
    return np.where(np.isnan(column), np.inf, column)


def _label_codes(values: np.ndarray) -> np.ndarray:
    text = np.array([("", "") if v is None else (type(v).__name__, str(v)) for v in values])
    return np.unique(text, axis=0, return_inverse=True)[1].ravel()


def check_weights(sample_weight: Any, class_weight: Any, codes: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Multiply sample and class weights; refuse negative, infinite or all-zero ones."""
    weight = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if weight.ndim == 0:
        weight = np.full(len(codes), float(weight))
    if weight.shape != codes.shape:
        raise ValueError(f"sample_weight has shape {weight.shape}, expected ({len(codes)},): one weight per row")
    if not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise ValueError("sample_weight holds negative or non-finite values: weights must be finite and at least 0")
    mass = np.bincount(codes, weights=weight, minlength=len(classes))
    if np.any(mass == 0):
        name = classes[int(np.argmin(mass))]
        raise ValueError(f"sample_weight is zero for all rows of class {name!r}: give some of them a positive weight")
    return weight * _class_factors(class_weight, mass, classes)[codes]


def _class_factors(class_weight: Any, mass: np.ndarray, classes: np.ndarray) -> np.ndarray:
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight={class_weight!r} is unknown: use None, 'balanced' or a dict")
        return mass.sum() / (len(classes) * mass)
    unknown = [key for key in class_weight if key not in classes]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, which is not a class: the classes are {list(classes)}")
    factors = np.array([float(class_weight.get(c, 1.0)) for c in classes])
    if np.any(factors <= 0) or not np.all(np.isfinite(factors)):
        raise ValueError(f"class_weight={class_weight!r} holds values that are not positive: use positive numbers")
    return factors


def folds(rows: Rows, cv: Any, seed: int) -> list[tuple[Rows, Rows]]:
    """Training and test rows of each fold; a fold whose training part lacks a class is left out.

    Parameters
    ----------
    cv : an integer asks for shuffled stratified folds, at most as many as the smallest class has rows
        (or groups), and none at all where that is fewer than two; a splitter is asked; a sequence of
        (train, test) positions refers to the rows of the input.
    """
    if isinstance(cv, int):
        cv = _splitter(rows, cv, seed)
        if cv is None:
            return []
    if hasattr(cv, "split"):
        splits = list(cv.split(np.zeros((len(rows), 1)), rows.codes, rows.groups))
        parts = [(rows.take(a), rows.take(b)) for a, b in splits]
    else:
        splits = [[np.flatnonzero(np.isin(rows.position, part)) for part in pair] for pair in cv]
        parts = [(merge_rows(rows.take(a)), merge_rows(rows.take(b))) for a, b in splits]
    return [(a, b) for a, b in parts if len(np.unique(a.codes)) == len(rows.classes) and len(b)]


def _splitter(rows: Rows, n_splits: int, seed: int) -> BaseCrossValidator | None:
    if rows.groups is None:
        most = int(np.bincount(rows.codes).min())
    else:
        most = min(len(np.unique(rows.groups[rows.codes == c])) for c in range(len(rows.classes)))
    n_splits = min(n_splits, most)
    if n_splits < 2:
        return None
    if rows.groups is None:
        return StratifiedKFold(n_splits, shuffle=True, random_state=seed)
    if len(np.unique(rows.groups)) < n_splits:
        return GroupKFold(n_splits)
    return StratifiedGroupKFold(n_splits, shuffle=True, random_state=seed)
