"""One split of a dataset: training rows, test rows, folds of the training rows, and kernels between rows.

Kernels of a fold are scaled by its training rows. They are computed once and shared by all settings and methods of the
split (`Problem.stack`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from experiments.datasets import Dataset
from tamis.base.kernel_space import make_bank
from tamis.kernels.composed import whole_bank
from tamis.kernels.recipes import Sample
from tamis.table.encoding import Encoder
from tamis.table.folds import fold_positions
from tamis.table.rows import coding
from tamis.table.table import any_table, checked_input, read_table

Rows = np.ndarray  # positions
MAX_KERNEL_BYTES = 1 << 32  # of kernels that are kept for the next method


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
    X, y : (n, d) or (n, channels, steps), and classes; training rows first, then test rows
    n_train : number of training rows
    nominal : (d,) booleans, True for categorical columns
    groups : (n,) group of each row, or None
    folds : number of folds of the training rows
    seed : of folds and of every random choice
    name : of the dataset
    views : {channel: its columns}
    names : of the columns; empty if unknown
    memo : what is already computed for methods that share it: kernels, fits
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
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

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
        """Training rows and classes."""
        return self.X[: self.n_train], self.y[: self.n_train]

    @property
    def test(self) -> tuple[np.ndarray, np.ndarray]:
        """Test rows and classes."""
        return self.X[self.n_train :], self.y[self.n_train :]

    @property
    def flat(self) -> Problem:
        """The problem with time series flattened to rows; tables unchanged."""
        if self.X.ndim == 2:
            return self
        X = self.X.reshape(len(self.X), -1)
        return replace(self, X=X, nominal=np.zeros(X.shape[1], dtype=bool), memo={})

    @property
    def categorical(self) -> list[int]:
        """Positions of the categorical columns."""
        return np.flatnonzero(self.nominal).tolist()

    @cached_property
    def inner(self) -> list[tuple[Rows, Rows]]:
        """Folds of the training rows; groups are not divided."""
        groups = None if self.groups is None else self.groups[: self.n_train]
        X, y = self.train
        return fold_positions(self.folds, any_table(X), y, groups, self.seed)

    def stack(self, key: str, kernels: Any, fit: Rows, new: Rows, old: Rows, *, whole: bool = False) -> Stack:
        """Return kernels between the rows `new` and `old`, scaled by the rows `fit`.

        `key` names the kernels. Those of a key, fold and rows are computed once, while all together take at most
        `MAX_KERNEL_BYTES`. With `whole`, values of a channel that a row lacks are NaN.
        """
        known = key, whole, fit.tobytes(), new.tobytes(), old.tobytes()
        if known not in self.memo:
            made = _stack(self, kernels, fit, new, old, whole)
            while self.memo and made.values.nbytes + _size(self.memo) > MAX_KERNEL_BYTES:
                del self.memo[next(iter(self.memo))]
            self.memo[known] = made
        return self.memo[known]


def _size(memo: dict[Any, Any]) -> int:
    return sum(kept.values.nbytes for kept in memo.values() if isinstance(kept, Stack))


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
    """Draw at most `most` of the rows, stratified by class."""
    if len(rows) <= most:
        return rows
    rng = np.random.default_rng(seed)
    shares = [_drawn(rows[y[rows] == c], most / len(rows), rng) for c in np.unique(y[rows])]
    return np.sort(np.concatenate(shares))


def _drawn(rows: Rows, share: float, rng: np.random.Generator) -> Rows:
    return rng.permutation(rows)[: max(2, round(share * len(rows)))]


def holdout(y: np.ndarray, groups: np.ndarray | None, share: float, seed: int) -> tuple[Rows, Rows]:
    """Split rows at random, by class or by group, with about `share` of them in the test part."""
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
    """Draw the groups of the test part: a share of those with each most frequent class."""
    names = np.unique(groups)
    main = np.array([np.bincount(y[groups == g]).argmax() for g in names])
    out = [rng.permutation(names[main == c])[: max(1, round(share * np.sum(main == c)))] for c in np.unique(main)]
    return np.concatenate(out)
