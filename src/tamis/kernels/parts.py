"""Summands of decisions about a block of rows: channels as they are, and channels of distances in several columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tamis.kernels.axes import Axis, Key, Place
from tamis.kernels.bank import Channel
from tamis.kernels.base import Gaussian, is_far_off
from tamis.kernels.mixture import Mixture

BLOCK = 1 << 16  # numbers of a matrix that stays in a cache
RATIO = 4.0  # of widths up to which single precision will do


@dataclass
class Block:
    """Some encoded rows Z (n, c), with where they stand on axes."""

    Z: np.ndarray
    found: dict[Key, Place] = field(default_factory=dict)

    def place(self, key: Key, axis: Axis) -> Place:
        """Where the rows stand on the axis of a column."""
        if key not in self.found:
            self.found[key] = axis.find(np.ascontiguousarray(self.Z[:, key[0]]))
        return self.found[key]


class Part(Protocol):
    """A summand of decisions."""

    def add(self, out: np.ndarray, block: Block) -> None:
        """Add it for all rows of a block to out (q, n)."""
        ...


@dataclass(frozen=True)
class Exact:
    """One channel as it is, with its coefficients (q, k)."""

    channel: Channel
    instances: np.ndarray
    coef: np.ndarray

    def add(self, out: np.ndarray, block: Block) -> None:
        for rows in steps(len(block.Z), len(self.instances)):
            out[:, rows] += self.coef @ self.channel(block.Z[rows], self.instances).T

    def add_some(self, out: np.ndarray, block: Block, rows: np.ndarray) -> None:
        """Add it for some rows."""
        if len(rows):
            out[:, rows] += self.coef @ self.channel(block.Z[rows], self.instances).T


def steps(n: int, size: int) -> Iterator[slice]:
    """Slices of n rows of `size` numbers each, so many that they stay in a cache."""
    step = max(64, BLOCK // size)
    return (slice(start, start + step) for start in range(0, n, step))


# ---------------------------------------------------------------------- several columns


@dataclass(frozen=True)
class Distances:
    """A channel of the distance in several columns: one product of matrices, one exponential in single precision.

    The squared distances of a row to the instances are ``base + weights f`` with features f of the row: its numbers
    (zero where they are missing), the sum of their squares, which codes it has, and which numbers are missing.

    Attributes
    ----------
    numbers : columns of numbers
    codes : columns and codes of instances; NaN is one
    base : (k, 1)
    weights : (k, features)
    columns : all columns
    mixture : of the distances
    precision : of the exponential: double where powers of it for narrow widths would lose too much
    coef : (q, k)
    """

    numbers: list[int]
    codes: list[tuple[int, float]]
    base: np.ndarray
    weights: np.ndarray
    columns: list[int]
    mixture: Mixture
    precision: type
    coef: np.ndarray

    @classmethod
    def of(cls, mixture: Mixture, exact: Exact) -> Distances | Exact:
        """The channel in this form, or as it is where its distances would lose digits by products."""
        columns, T = list(exact.channel.columns), exact.instances
        costs = {c: cost for c, cost in zip(columns, mixture.mismatch, strict=False) if cost > 0}
        numbers = [c for c in columns if c not in costs]
        if is_far_off(T[:, numbers], min(mixture.bandwidths)):
            return exact
        codes = [(c, v) for c in costs for v in np.unique(T[:, c]).tolist()]
        t, gaps = np.nan_to_num(T[:, numbers]), np.isnan(T[:, numbers])
        base = np.sum(t * t, axis=1) + gaps.sum(axis=1) + sum(costs.values())
        agree = [-costs[c] * _equal(T[:, c], v) for c, v in codes]
        weights = np.column_stack([-2.0 * t, np.ones(len(T)), *agree, 1.0 - 2.0 * gaps])
        ratio = max(mixture.bandwidths) / min(mixture.bandwidths)
        precision = np.float32 if ratio <= RATIO else np.float64
        coef = exact.coef * exact.channel.presence(T)
        return cls(numbers, codes, base[:, None], weights, columns, mixture, precision, coef)

    def add(self, out: np.ndarray, block: Block) -> None:
        for rows in steps(len(block.Z), len(self.base)):
            Zt = block.Z[rows].T
            D: np.ndarray = self._squared(Zt).astype(self.precision)
            part = self.coef @ self.mixture.profile(np.maximum(D, 0.0, out=D))
            out[:, rows] += part if self._all_there(Zt) else part * ~np.isnan(Zt[self.columns]).all(axis=0)

    def _all_there(self, Zt: np.ndarray) -> bool:
        """Whether the first column says that no row lacks all."""
        return not np.isnan(Zt[self.columns[0]]).any()

    def _squared(self, Zt: np.ndarray) -> np.ndarray:
        """Squared distances (k, n) of columns (c, n), to rounding errors."""
        c, size = len(self.numbers), self.weights.shape[1] - len(self.numbers)
        features = np.empty((size, Zt.shape[1]))
        x = np.take(Zt, self.numbers, axis=0, out=features[:c], mode="wrap")
        np.einsum("cn,cn->n", x, x, out=features[c])
        gaps = None
        if np.isnan(features[c]).any():
            gaps = np.isnan(x)
            x[gaps] = 0.0
            np.einsum("cn,cn->n", x, x, out=features[c])
        for row, (column, code) in zip(features[c + 1 :], self.codes, strict=True):
            row[:] = _equal(Zt[column], code)
        D = self.weights[:, :size] @ features
        D += self.base
        return D if gaps is None else D + self.weights[:, size:] @ gaps


def _equal(z: np.ndarray, code: float) -> np.ndarray:
    """Mask (n,) of the values that are a code, which may be NaN."""
    return z == code if code == code else np.isnan(z)


def mixture_of(channel: Channel) -> Mixture | None:
    """The kernel of a channel of several columns as a mean of Gaussians of the distance, if it is one."""
    kernel = channel.kernel
    if isinstance(kernel, Gaussian):
        kernel = Mixture((kernel.bandwidth,), kernel.mismatch)
    distinct = len(set(channel.columns)) == len(channel.columns) > 1
    return kernel if isinstance(kernel, Mixture) and distinct else None
