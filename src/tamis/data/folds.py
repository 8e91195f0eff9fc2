"""Rows to learn from and rows held out: the folds of fits, searches and studies."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator, GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from tamis.data.rows import Rows, merge_rows
from tamis.errors import warn

FOLDS = 5  # where cv is None
Pair = tuple[np.ndarray, np.ndarray]  # training and test positions


def resolved(cv: Any) -> Any:
    """`cv` with None as a number, and with positions as a list that can be read twice."""
    cv = FOLDS if cv is None else cv
    return cv if isinstance(cv, Integral) or hasattr(cv, "split") else list(cv)


def folds(rows: Rows, cv: Any, seed: int) -> list[tuple[Rows, Rows]]:
    """Training and test rows of each fold; one that cannot be used is left out with a warning.

    Parameters
    ----------
    cv : an integer asks for shuffled stratified folds of merged rows, at most as many as the smallest
        class has rows (or groups), and none at all where that is fewer than two. A splitter or a
        sequence of (train, test) positions speaks of the rows of the input: `rows` are not merged then.
    """
    if isinstance(cv, Integral):
        codes = rows.codes if rows.response is None else None
        return [(rows.take(a), rows.take(b)) for a, b in made(len(rows), codes, rows.groups, int(cv), seed)]
    parts = [
        (merge_rows(rows.take(a)), merge_rows(rows.take(b)))
        for a, b in positions(cv, rows.labels, rows.groups, rows.table.numbers)
    ]
    good = [(a, b) for a, b in parts if len(b) and len(a) and (_has_all(a) or rows.response is not None)]
    _warn_left_out(len(parts) - len(good), len(parts), rows.response is None)
    return good


def made(n: int, codes: np.ndarray | None, groups: np.ndarray | None, n_splits: int, seed: int) -> list[Pair]:
    """Folds of n rows, stratified by their codes if there are some; those that have no rows of a class to learn from,
    as may be with groups, are left out with a warning."""
    maker = fold_maker(n, codes, groups, n_splits, seed)
    if maker is None:
        return []
    pairs = list(maker.split(np.zeros((n, 1)), codes, groups))
    if codes is None:
        return pairs
    good = [(a, b) for a, b in pairs if len(np.unique(codes[a])) == len(np.unique(codes))]
    _warn_left_out(len(pairs) - len(good), len(pairs), True)
    return good


def _warn_left_out(count: int, of: int, classes: bool) -> None:
    if count:
        lacks = "lacks a class" if classes else "is empty"
        warn(f"{count} of {of} folds are left out: their training part {lacks} or their test part is empty")


def positions(cv: Any, y: np.ndarray, groups: np.ndarray | None, X: np.ndarray | None = None) -> list[Pair]:
    """The training and test positions that a splitter, or a sequence of pairs of positions or masks, names."""
    if hasattr(cv, "split"):
        try:
            return list(cv.split(np.zeros((len(y), 1)) if X is None else X, y, groups))
        except ValueError as error:
            raise ValueError(f"cv={cv!r} cannot split these rows: {error}") from None
    pairs = [_pair(entry, len(y)) for entry in cv]
    if not pairs:
        raise ValueError("cv is empty: give at least one pair (train, test) of positions of rows, or a number of folds")
    return pairs


def _pair(entry: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        train, test = (np.asarray(part) for part in entry)
    except (TypeError, ValueError):
        raise ValueError(f"cv holds {entry!r:.80}, which is no pair (train, test) of positions of rows") from None
    parts = [np.flatnonzero(part) if part.dtype == bool and part.shape == (n,) else part for part in (train, test)]
    if any(part.ndim != 1 or (len(part) and part.dtype.kind not in "iu") for part in parts):
        raise ValueError(f"cv holds {entry!r:.80}, which is no pair (train, test) of positions of rows")
    both = np.concatenate(parts).astype(int)
    if len(both) and not 0 <= both.min() <= both.max() < n:
        raise ValueError(f"cv names the rows {both.min()} to {both.max()}, but X has the rows 0 to {n - 1}")
    return both[: len(parts[0])], both[len(parts[0]) :]


def _has_all(rows: Rows) -> bool:
    """Whether there are rows of every class."""
    return len(np.unique(rows.codes)) == len(rows.classes)


def counted_folds(rows: Rows, n_folds: int, seed: int) -> list[tuple[Rows, Rows]]:
    """Folds of merged rows whose mass, where it is whole, says how often each came: equal rows may go apart.

    Were all rows of one class with the same values held out together, those of another class with these values would be
    all that is left to learn from. A row comes no oftener than there are folds.
    """
    whole = np.allclose(rows.mass, np.round(rows.mass), rtol=0.0, atol=1e-9)
    times = np.clip(np.round(rows.mass), 1, n_folds).astype(int) if whole else np.ones(len(rows), dtype=int)
    copies = rows.take(np.repeat(np.arange(len(rows)), times))
    shared = np.repeat(times, times)
    copies = replace(copies, weight=copies.weight / shared, mass=copies.mass / shared)
    return [(merge_rows(train), test) for train, test in folds(copies, n_folds, seed)]


def search_folds(rows: Rows, merged: Rows, cv: Any, seed: int) -> list[tuple[Rows, Rows]]:
    """The folds of a search, of merged rows where `cv` is a number (None: 5), else of the rows of the input."""
    cv = resolved(cv)
    return folds(merged if isinstance(cv, Integral) else rows, cv, seed)


def pairs_of(cv: Any, y: np.ndarray, groups: np.ndarray | None, seed: int, *, stratified: bool = True) -> list[Pair]:
    """Training and test positions of rows with labels or numbers y; `cv` as in a search.

    Folds that are asked for by number are shuffled, and fewer where a class has fewer rows (or groups).
    """
    cv = resolved(cv)
    if not isinstance(cv, Integral):
        return positions(cv, y, groups)
    codes = np.unique(y, return_inverse=True)[1] if stratified else None
    pairs = made(len(y), codes, groups, int(cv), seed)
    if not pairs:
        raise ValueError(
            f"cv={cv!r}: no fold can be made, the smallest class has too few rows or groups; give more rows"
        )
    return pairs


def fold_maker(
    n: int, codes: np.ndarray | None, groups: np.ndarray | None, n_splits: int, seed: int
) -> BaseCrossValidator | None:
    """Folds of n rows, stratified by their codes and shuffled (not groups without codes); None if there are no two."""
    units = np.arange(n) if groups is None else groups
    if codes is None:
        n_splits = min(n_splits, len(np.unique(units)))
    else:
        n_splits = min(n_splits, *(len(np.unique(units[codes == c])) for c in np.unique(codes)))
    if n_splits < 2:
        return None
    if groups is None:
        return (KFold if codes is None else StratifiedKFold)(n_splits, shuffle=True, random_state=seed)
    return GroupKFold(n_splits) if codes is None else StratifiedGroupKFold(n_splits, shuffle=True, random_state=seed)
