"""Kernels through landmarks: ``K_l ~ C_l W_l^+ C_l'``, from the values with a few rows [Williams2001].

C_l (n, m) are the values between the rows and the landmarks, W_l (m, m) those between the landmarks. Pivoted Cholesky
takes landmarks P until no variance among them is larger than 1e-8 times what the first one left; then with
``W_PP = R'R`` the factor of a kernel is ``F = R'^-1 C_P'`` and ``K_l ~ F'F``. The result is exact between landmarks, to
that tolerance, and never more than K_l in the order of matrices, so that what it lacks of the diagonal says how far off
any value can be.

Coefficients alpha of all rows become coefficients of the landmarks: ``F'(F alpha) = C_P beta`` with
``beta = R^-1 F alpha``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from tamis.codec import stored
from tamis.kernels.stacks.base import ALL, Index, OnColumns, StreamingStack
from tamis.kernels.stacks.factored import FactoredStack, diagonal_of
from tamis.kernels.stacks.passes import slices
from tamis.optim.matrices import LowRank

TOLERANCE = 1e-8  # variance among landmarks that may remain, relative to what the first one left
ROUNDING = 1e-13  # and at the least, relative to the largest
BLOCK = 1 << 20  # most values that are computed at a time


class Basis(NamedTuple):
    """The landmarks (r,) that stand for a kernel, as positions among all, and R (r, r), upper triangular."""

    landmarks: np.ndarray
    root: np.ndarray


@stored
@dataclass(frozen=True)
class LandmarkError:
    """How far kernels through landmarks are off, as shares of the variance k(x, x) of the training rows.

    Attributes
    ----------
    mean, largest : (L,) over the rows that have the kernel; zero where all of it is there
    rank : (L,) landmarks that stand for each kernel; the others of them add nothing to it
    """

    mean: np.ndarray
    largest: np.ndarray
    rank: np.ndarray

    def take(self, kernels: np.ndarray) -> LandmarkError:
        return LandmarkError(self.mean[kernels], self.largest[kernels], self.rank[kernels])


class LandmarkStack(FactoredStack):
    """Kernels between the rows as products of factors that landmarks span.

    Attributes
    ----------
    bases : of every kernel
    error : what the factors lack
    """

    bases: Sequence[Basis]
    error: LandmarkError

    @classmethod
    def through(cls, channels: Sequence[OnColumns], X: np.ndarray, landmarks: np.ndarray) -> LandmarkStack:
        """Factor the kernels between the rows of X (n, d) through some of them, `landmarks` (m,)."""
        Y = X[landmarks]
        bases = [_basis(channel(Y, Y)) for channel in channels]
        ranks = np.array([len(basis.landmarks) for basis in bases], dtype=int)
        left, ends = np.empty((int(ranks.sum()), len(X))), np.cumsum(ranks)
        mean, largest, bound = (np.zeros(len(bases)) for _ in range(3))
        for k, (channel, basis) in enumerate(zip(channels, bases, strict=True)):
            part = left[ends[k] - ranks[k] : ends[k]]
            _fill(part, channel, basis, X, Y)
            size = diagonal_of(channel, X)
            lacking = np.maximum(size - np.einsum("rn,rn->n", part, part), 0.0)
            share = np.divide(lacking, size, out=np.zeros(len(X)), where=size > 0)
            there = np.count_nonzero(size > 0)
            mean[k], largest[k], bound[k] = share.sum() / max(1, there), share.max(), lacking.max()
        owner = np.repeat(np.arange(len(bases)), ranks)
        nothing = np.empty(0, dtype=int)
        out = cls(left, left, owner, np.ones(len(owner)), bound, nothing, StreamingStack([], X, X))
        out.bases, out.error = bases, LandmarkError(mean, largest, ranks)
        return out

    def rough(self, level: float) -> LandmarkStack:
        return self

    def held(self, limit: int) -> LandmarkStack:
        return self

    def matrix(self, weights: np.ndarray) -> LowRank:
        return LowRank(self.left, weights[self.owner])

    def take(self, rows: Index = ALL, cols: Index = ALL, kernels: Index = ALL) -> FactoredStack:
        part = super().take(rows, cols, kernels)
        if part.left is not part.right:
            return part
        nothing = np.empty(0, dtype=int)
        out = LandmarkStack(part.left, part.left, part.owner, part.heights, part.error_bound, nothing, part.rest)
        chosen = np.arange(self.shape[0])[kernels]
        out.bases, out.error = [self.bases[k] for k in chosen], self.error.take(chosen)
        return out

    def folded(self, weights: np.ndarray, coef: np.ndarray, n_landmarks: int) -> np.ndarray:
        """Coefficients (m, L) of landmarks and kernels that give the images of ``weights[l] K_l coef``, coef (n,)."""
        out = np.zeros((n_landmarks, self.shape[0]))
        inside = self.left @ coef
        for k in np.flatnonzero(weights).tolist():
            basis = self.bases[k]
            if not len(basis.landmarks):  # older LAPACK wrappers refuse empty systems
                continue
            out[basis.landmarks, k] = weights[k] * solve_triangular(basis.root, inside[self._members(k)])
        return out


def _basis(W: np.ndarray) -> Basis:
    """Landmarks and the root of their matrix, by pivoted Cholesky of W (m, m)."""
    W = 0.5 * (W + W.T)
    size = W.diagonal()
    first = int(np.argmax(size))
    if not len(W) or size[first] <= 0:
        return Basis(np.empty(0, dtype=int), np.empty((0, 0)))
    left = float(np.max(size - W[first] ** 2 / size[first]))
    root, pivots, rank, _ = dpstrf(W, tol=max(TOLERANCE * left, ROUNDING * float(size[first])))
    return Basis(pivots[:rank].astype(int) - 1, np.triu(root[:rank, :rank]))


def _fill(part: np.ndarray, channel: OnColumns, basis: Basis, X: np.ndarray, Y: np.ndarray) -> None:
    """Write ``R'^-1 C_P'`` into `part` (r, n), some rows at a time."""
    if not len(part):
        return
    chosen = Y[basis.landmarks]
    for rows in slices(len(X), BLOCK // len(part)):
        part[:, rows] = solve_triangular(basis.root, channel(X[rows], chosen).T, trans="T", check_finite=False)
