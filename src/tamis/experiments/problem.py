"""One split of a dataset: rows to learn from, rows to test on, folds within the former, and kernels on them.

Kernels of a fold are scaled by its training rows, computed once and used by every setting and every method of the
split: `Problem.stack`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tamis.base.model import make_bank
from tamis.experiments.datasets import Dataset
from tamis.kernels.recipes import Sample
from tamis.kernels.whole import whole_bank
from tamis.table.encoding import Encoder
from tamis.table.folds import fold_positions
from tamis.table.rows import coding
from tamis.table.table import any_table, checked_input, read_table

Rows = np.ndarray  # positions
HELD = 1 << 32  # bytes of kernels that are kept for the next method


@dataclass(frozen=True)
class Stack:
    """Kernel values (L, n, m) between rows of a problem, and the columns behind each kernel."""

    values: np.ndarray
    columns: list[frozenset[int]]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """A split.

    Attributes
    ----------
    X, y : (n, d) or (n, channels, steps), and classes: first the rows to learn from, then those to test on
    n_train : how many of the former
    nominal : (d,) which columns are categories
    groups : (n,) or None
    folds : asked for within the training rows
    seed : of these folds and all else
    name : of the dataset
    views : channels by name, with their columns
    names : of the columns, where they are known
    memo : kernels that were computed already
    """

    X: np.ndarray
    y: np.ndarray
    n_train: int
    nominal: np.ndarray
    groups: np.ndarray | None
    folds: int
    seed: int
    name: str = ""
    views: dict[str, list[int]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    memo: dict[Any, Stack] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, data: Dataset, train: Rows, test: Rows, folds: int, seed: int) -> Problem:
        order = np.concatenate([train, test])
        groups = None if data.groups is None else data.groups[order]
        return cls(
            data.X[order],
            data.y[order],
            len(train),
            data.nominal,
            groups,
            folds,
            seed,
            data.name,
            data.views,
            data.names,
        )

    @property
    def train(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and classes to learn from."""
        return self.X[: self.n_train], self.y[: self.n_train]

    @property
    def test(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and classes to test on."""
        return self.X[self.n_train :], self.y[self.n_train :]

    @property
    def flat(self) -> Problem:
        """Series as long rows; tables as they are."""
        if self.X.ndim == 2:
            return self
        X = self.X.reshape(len(self.X), -1)
        return replace(self, X=X, nominal=np.zeros(X.shape[1], dtype=bool), memo={})

    @property
    def categorical(self) -> list[int]:
        """Positions of the categories."""
        return np.flatnonzero(self.nominal).tolist()

    @cached_property
    def inner(self) -> list[tuple[Rows, Rows]]:
        """Folds of the training rows, whole groups together."""
        groups = None if self.groups is None else self.groups[: self.n_train]
        X, y = self.train
        return fold_positions(self.folds, any_table(X), y, groups, self.seed)

    def stack(self, key: str, kernels: Any, fit: Rows, new: Rows, old: Rows, *, whole: bool = False) -> Stack:
        """Kernels between the rows `new` and `old`, scaled by the rows `fit`.

        `key` names the kernels: those of a key, fold and rows are computed once, as long as all fit into 4 GiB. A
        channel that a row lacks is NaN where channels are `whole`.
        """
        known = key, whole, fit.tobytes(), new.tobytes(), old.tobytes()
        if known not in self.memo:
            made = _stack(self, kernels, fit, new, old, whole)
            while self.memo and made.values.nbytes + sum(s.values.nbytes for s in self.memo.values()) > HELD:
                del self.memo[next(iter(self.memo))]
            self.memo[known] = made
        return self.memo[known]

    def with_memo(self, memo: dict[Any, Stack]) -> Problem:
        """The same problem, sharing the kernels of another."""
        return replace(self, memo=memo)


def _stack(problem: Problem, kernels: Any, fit: Rows, new: Rows, old: Rows, whole: bool) -> Stack:
    checked, names = checked_input(problem.X)
    table = read_table(checked, names, problem.categorical, True)
    weight = np.ones(len(fit))
    encoder = Encoder.fit(table.take(fit), weight, scaling="standard", missing="absent")
    here, left, right = (encoder.encode(table.take(rows)) for rows in (fit, new, old))
    n_classes = int(problem.y.max()) + 1
    sample = Sample(here, names, encoder.nominal, coding(n_classes)[problem.y[fit]], weight, here.shape[1], 0)
    bank = make_bank(kernels, kernels, sample, 1.0)
    bank = whole_bank(bank) if whole else bank
    values = np.stack([channel(left, right) for channel in bank.channels])
    if whole:
        lacking = (~bank.presence(left)).T[:, :, None] | (~bank.presence(right)).T[:, None, :]
        values[lacking] = np.nan
    return Stack(values, [frozenset(channel.columns) for channel in bank.channels], tuple(bank.names))


def limited(rows: Rows, y: np.ndarray, most: int, seed: int) -> Rows:
    """At most `most` of some rows, drawn within classes."""
    if len(rows) <= most:
        return rows
    rng = np.random.default_rng(seed)
    shares = [_drawn(rows[y[rows] == c], most / len(rows), rng) for c in np.unique(y[rows])]
    return np.sort(np.concatenate(shares))


def _drawn(rows: Rows, share: float, rng: np.random.Generator) -> Rows:
    return rng.permutation(rows)[: max(2, round(share * len(rows)))]


def holdout(y: np.ndarray, groups: np.ndarray | None, share: float, seed: int) -> tuple[Rows, Rows]:
    """Training and test rows, stratified, or whole groups, with about `share` of the rows to test on."""
    rng = np.random.default_rng(seed)
    if groups is None:
        parts: list[Sequence[int]] = []
        for c in np.unique(y):
            members = rng.permutation(np.flatnonzero(y == c))
            parts.append(members[: max(1, round(share * len(members)))].tolist())
        test = np.sort(np.concatenate([np.asarray(part) for part in parts]))
    else:
        test = np.flatnonzero(np.isin(groups, _test_groups(y, groups, share, rng)))
    return np.setdiff1d(np.arange(len(y)), test), test


def _test_groups(y: np.ndarray, groups: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Groups to test on: of the groups whose rows are mostly of one class, the share of each class."""
    names = np.unique(groups)
    main = np.array([np.bincount(y[groups == g]).argmax() for g in names])
    out = [rng.permutation(names[main == c])[: max(1, round(share * np.sum(main == c)))] for c in np.unique(main)]
    return np.concatenate(out)
