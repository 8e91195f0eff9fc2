"""Kernels as some methods need them: positive semi-definite ones, and ones of unit diagonal.

**Repaired.** With ``K = U diag(lam) U'`` the Gram matrix of a kernel k on rows A of the training table, the anchors,

    "clip"   k~(s, t) = k(s, A) M k(A, t),   M = U diag(1 / lam where lam > 0, else 0) U'
    "flip"   k~(s, t) = k(s, A) M k(A, t),   M = U diag(1 / |lam|) U'
    "shift"  k~(s, t) = k(s, t) + shift [s = t],   shift = |min lam|

which on the anchors are ``U max(lam, 0) U'``, ``U |lam| U'`` and, for distinct rows, ``K + shift I``, the
spectrum modifications of [Chen2009]. As in that paper, "clip" and "flip" transform the values of any row with A in
the same way. With ``M = V V'`` they are inner products of the rows ``k(s, A) V``, so they are positive semi-definite
everywhere; "shift" is so on the anchors only.

Departures: eigenvalues below a share `RANK_TOL` of the largest are left out of M; where there are more rows than
anchors the shift is scaled up for all of them (`_shift`); absent rows stay zero.

**Of unit diagonal.** A row that lacks a channel has the kernel value zero with every other row and, in `UnitKernels`,
one with itself: it is a unit vector of its own, so that the matrix stays positive semi-definite and every row has norm
one in each kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tamis.arrays import Array, beside, namespace
from tamis.codec import stored
from tamis.kernels.bank import Channel, KernelBank, draw_rows, gram, is_indefinite
from tamis.kernels.base import Kernel, diagonal
from tamis.kernels.precomputed import HoldsArrays
from tamis.kernels.recipes import Bandwidth, Recipe, Sample
from tamis.kernels.stacks.base import KernelStack
from tamis.optim.matrices import fill_diagonal, values_of

MAX_ANCHORS = 1000  # most training rows that a repair uses
RANK_TOL = 1e-8  # eigenvalues below this share of the largest count as zero
ROUNDING = 1e-9  # difference to one that counts as rounding
CONSTANT_TOL = 1e-8  # a kernel counts as constant where its mean value is less than one by at most this share
HOW = ("clip", "flip", "shift")


@stored
@dataclass(frozen=True, eq=False, repr=False)
class Repaired(HoldsArrays, Kernel):
    """A kernel made positive semi-definite."""

    kernel: Kernel  # the kernel k as it was
    # "clip" and "flip": ``k(s, A) V V' k(A, t)``; "shift": ``k(s, t) + shift [s = t]``, where missing cells are equal
    # to one another
    how: str
    anchors: np.ndarray  # A (a, c), encoded rows on the kernel's columns; none for "shift"
    transform: np.ndarray  # V (a, r)
    shift: float = 0.0  # zero for "clip" and "flip"

    @property
    def positive(self) -> bool:
        return self.how != "shift"

    @property
    def positions(self) -> bool:
        return self.kernel.positions

    def __call__(self, S: Array, T: Array) -> Array:
        if self.how == "shift":
            return self.kernel(S, T) + self.shift * (_equal(S, T) & self.presence(S)[:, None])
        return self._coordinates(S) @ self._coordinates(T).T

    def __repr__(self) -> str:
        detail = f"shift {self.shift:.3g}" if self.how == "shift" else f"{len(self.anchors)} anchors"
        return f"Repaired({self.kernel!r}, {self.how!r}, {detail})"

    def presence(self, S: Array) -> np.ndarray:
        """Mask (m,) of the rows that have the original kernel."""
        return self.kernel.presence(S)

    def _coordinates(self, S: Array) -> Array:
        """Rows (m, r) whose inner products are the kernel's values."""
        return self.kernel(S, self.anchors) @ self.transform

    @property
    def n_items(self) -> int:
        """Number of items of the original kernel, where it is precomputed."""
        return self.kernel.n_items  # type: ignore[attr-defined]

    @property
    def items(self) -> np.ndarray:
        """Items (k,) whose columns the original kernel keeps, where it is precomputed."""
        return self.kernel.items  # type: ignore[attr-defined]

    def narrowed(self, T: Array) -> Repaired:
        """The same kernel for the columns T only; a repair on anchors needs the values with these instead."""
        return replace(self, kernel=self.kernel.narrowed(T if self.how == "shift" else self.anchors))

    def extended(self, values: Any) -> Repaired:
        """With further items for a precomputed kernel: see `Precomputed.extended`."""
        return replace(self, kernel=self.kernel.extended(values))  # type: ignore[attr-defined]


def _equal(S: Array, T: Array) -> np.ndarray:
    """Boolean (m, n): where two rows (m, c) and (n, c) are the same; missing cells are equal."""
    same = np.ones((len(S), len(T)), dtype=bool)
    for s, t in zip(S.T, T.T, strict=True):
        same &= (s[:, None] == t) | (np.isnan(s)[:, None] & np.isnan(t))
    return same


@stored
@dataclass(frozen=True, repr=False)
class RepairedKernels(Recipe):
    """The channels of a recipe or bank, those that are not positive semi-definite repaired."""

    source: Recipe | KernelBank
    how: str

    @property
    def positions(self) -> bool:
        return self.source.positions

    def __repr__(self) -> str:
        return f"repaired({self.source!r}, {self.how!r})"

    def bank(self, sample: Sample, bandwidth: Bandwidth) -> KernelBank:
        bank = self.source.bank(sample, bandwidth)
        d = sample.Z.shape[1]
        if not set(bank.columns.tolist()) <= set(range(d)):
            raise ValueError(f"kernels: a kernel uses column {bank.columns[-1]}, but X has {d} columns")
        return KernelBank(tuple(_repair(channel, self.how, sample.Z, sample.seed) for channel in bank.channels))


def repaired(kernels: Recipe | KernelBank, how: str = "clip") -> Recipe:
    """Make kernels positive semi-definite for methods that need it; those that are so stay as they are.

    Parameters
    ----------
    kernels : a recipe such as ``per_feature(Sigmoid())``, or a KernelBank
    how : negative eigenvalues become zero ("clip") or positive ("flip"), or all are raised by the most
        negative one ("shift"), which changes the values between equal rows only
    """
    if how not in HOW:
        raise ValueError(f"how={how!r} is unknown: use 'clip', 'flip' or 'shift'")
    if not isinstance(kernels, Recipe | KernelBank):
        raise ValueError(f"kernels={kernels!r} is neither a recipe such as per_feature(Sigmoid()) nor a KernelBank")
    return RepairedKernels(kernels, how)


def _repair(channel: Channel, how: str, Z: np.ndarray, seed: int) -> Channel:
    """The channel itself if it is positive semi-definite on anchors drawn from Z, else repaired on them."""
    if channel.kernel.positive:
        return channel
    rows = Z[draw_rows(len(Z), MAX_ANCHORS, seed)]
    lam, U = np.linalg.eigh(gram(channel, rows))
    if not is_indefinite(lam, RANK_TOL):
        return channel
    anchors = rows[:, list(channel.columns)]
    if how == "shift":
        repair = Repaired(channel.kernel, how, anchors[:0], U[:0, :0], _shift(float(lam[0]), len(rows), len(Z)))
        return replace(channel, kernel=repair)
    large = np.abs(lam) > RANK_TOL * np.abs(lam).max()
    kept = large & (lam > 0) if how == "clip" else large
    if not kept.any():
        raise ValueError(
            f"kernels: {channel.name!r} has no positive eigenvalue on the training rows, so how='clip' leaves nothing "
            "of it: use 'flip'"
        )
    transform = U[:, kept] / np.sqrt(np.abs(lam[kept]))
    return replace(channel, kernel=Repaired(channel.kernel, how, anchors, transform))


def _shift(lowest: float, anchors: int, rows: int) -> float:
    """The shift for `rows` rows, from the lowest eigenvalue on some of them.

    Eigenvalues grow with the number of rows. Scaled so, those of sampled anchors differ from those of all rows by
    about one over the root of the number of anchors: twice that is the margin.
    """
    return -lowest if rows == anchors else -lowest * rows / anchors * (1.0 + 2.0 / np.sqrt(anchors))


# ---------------------------------------------------------------------- unit diagonal


def unit_bank(bank: KernelBank, Z: np.ndarray) -> tuple[KernelBank, list[str]]:
    """The bank with kernels of unit diagonal on the rows Z (zero where absent), and the names of those it scaled."""
    channels, scaled = [], []
    for channel in bank.channels:
        new = channel if channel.kernel.unit else _unit(channel, Z)
        channels.append(new)
        scaled += [] if new is channel else [channel.name]
    return KernelBank(tuple(channels)) if scaled else bank, scaled


def _unit(channel: Channel, Z: np.ndarray) -> Channel:
    own = diagonal(channel.kernel, Z[:, list(channel.columns)])
    if np.all((np.abs(own - 1.0) <= ROUNDING) | (own == 0.0)):
        return channel
    if own.min() < 0:
        raise ValueError(
            f"kernels: {channel.name!r} is not positive semi-definite: k(x, x) is {own.min():.3g} for a training row; "
            "use another kernel, or repair it with repaired(...)"
        )
    return replace(channel, kernel=channel.kernel.normalised())


class UnitKernels:
    """A square stack with ones in place of its diagonals.

    Columns of the centred Gram matrix are computed at their first use and then kept, so that one object
    serves all rounds of an algorithm and all settings that are tried on the same rows.

    Attributes
    ----------
    n_kernels, n : numbers of kernels and of rows
    """

    def __init__(self, stack: KernelStack):
        self.stack = stack
        self.n_kernels, self.n, _ = stack.shape

    @property
    def varying(self) -> np.ndarray:
        """The kernels that are not the same for all pairs of rows."""
        return np.flatnonzero(self._sums.totals < (1.0 - CONSTANT_TOL) * self.n**2)

    def take(self, kernels: np.ndarray) -> UnitKernels:
        """Some of the kernels."""
        if np.array_equal(kernels, np.arange(self.n_kernels)):
            return self
        return UnitKernels(self.stack.take(kernels=kernels))

    def combine(self, weights: np.ndarray) -> Array:
        """``sum_l weights[l] K_l`` (n, n), exactly symmetric, where the values of the stack are."""
        K = values_of(self.stack.matrix(weights))
        K = 0.5 * (K + K.T)
        fill_diagonal(K, float(weights.sum()))
        return K

    def inner(self, matrix: Array) -> np.ndarray:
        """The values (L,) ``sum_ij (K_l)_ij matrix_ij`` for a matrix where those of the stack are."""
        xp = namespace(matrix)
        hollow = xp.asarray(matrix, copy=True)
        fill_diagonal(hollow, 0.0)
        return self.stack.inner(hollow) + float(xp.sum(xp.linalg.diagonal(matrix)))

    def gram(self, kernels: np.ndarray) -> np.ndarray:
        """``sum_{i != j} (C K_k C)_ij (C K_l C)_ij`` (len(kernels), L), with the centring ``C = I - 11'/n``."""
        return self._sums.rows(kernels)

    @cached_property
    def _sums(self) -> _Centred:
        return _Centred(self.stack)


class _Centred:
    """Rows of the centred Gram matrix without the diagonals, by sums that need no centred matrix.

    With the row sums R_l of K_l, their total s_l and the diagonal ``D_l = 1 - 2 R_l / n + s_l / n^2`` of C K_l C,

        sum_{i != j} (C K_k C)_ij (C K_l C)_ij = <K_k, K_l> - (2 / n) R_k'R_l + s_k s_l / n^2 - D_k'D_l.
    """

    def __init__(self, stack: KernelStack):
        n = stack.shape[1]
        self.stack, self.n = stack, n
        self.own = stack.diagonal()  # (L, n)
        self.sums = stack.apply(np.ones(n)).T - self.own + 1.0  # (L, n)
        self.totals = self.sums.sum(axis=1)
        self.diagonals = 1.0 - 2.0 * self.sums / n + self.totals[:, None] / n**2
        self.known: dict[int, np.ndarray] = {}

    def rows(self, kernels: np.ndarray) -> np.ndarray:
        new = np.array([k for k in kernels.tolist() if k not in self.known], dtype=int)
        if len(new):
            raw = self.stack.gram(new) - self.own[new] @ self.own.T + self.n
            raw -= (2.0 / self.n) * (self.sums[new] @ self.sums.T)
            raw += np.outer(self.totals[new], self.totals) / self.n**2
            raw -= self.diagonals[new] @ self.diagonals.T
            self.known.update(zip(new.tolist(), raw, strict=True))
        return np.array([self.known[k] for k in kernels.tolist()]).reshape(len(kernels), self.stack.shape[0])


@dataclass(frozen=True)
class LabelledRows:
    """Kernels between rows, with their classes and weights."""

    kernels: UnitKernels  # of unit diagonal, between the n rows
    codes: np.ndarray  # (n,) class of each row
    weight: np.ndarray  # (n,) positive

    @cached_property
    def mean(self) -> Array:
        """The mean kernel (n, n), where the kernels are."""
        L = self.kernels.n_kernels
        return self.kernels.combine(np.full(L, 1.0 / L))

    @cached_property
    def same(self) -> Array:
        """Boolean (n, n): whether two rows are of one class; on the device of the mean kernel."""
        codes = beside(self.codes, self.mean)
        return codes[:, None] == codes[None, :]
