"""Gram matrices of low rank, as support vector machines need them: no matrix between all rows is made.

    K = left' diag(scale) left + diag(ridge)

with `left` (R, n), R far below n. Products with vectors cost O(R n). A system on some rows S is solved through their
block, or where these are more than the rank, and there is a ridge, through a matrix of the size of the rank
(Sherman, Morrison and Woodbury).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

LEAST_EIGENVALUE = 1e-4  # share of the largest below which a direction of a kernel matrix is left out
SPARE = 64  # rows beyond the rank whose block may still be solved with: rows may be alike


@dataclass(frozen=True)
class LowRank:
    """A symmetric matrix (n, n) of low rank, but for its diagonal; positive semi-definite where no scale is negative.

    Attributes
    ----------
    left : (R, n), shared by all matrices that are added to one another
    scale : (R,)
    ridge : (n,), at least zero; None: no ridge
    """

    left: np.ndarray
    scale: np.ndarray
    ridge: np.ndarray | None = None

    __array_ufunc__ = None  # a number of numpy times this is this one's product

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.shape[1], self.left.shape[1]

    def __len__(self) -> int:
        return self.left.shape[1]

    def __matmul__(self, coef: np.ndarray) -> np.ndarray:
        image = self.left.T @ (self.scale * (self.left @ coef))
        return image if self.ridge is None else image + self.ridge * coef

    def __add__(self, other: Any) -> LowRank:
        """The sum with a matrix of the same `left` without a ridge."""
        return replace(self, scale=self.scale + other.scale)

    def __sub__(self, other: Any) -> LowRank:
        return self + -1.0 * other

    def __rmul__(self, factor: float) -> LowRank:
        return LowRank(self.left, factor * self.scale, None if self.ridge is None else factor * self.ridge)

    def diagonal(self) -> np.ndarray:
        values = np.einsum("r,rn,rn->n", self.scale, self.left, self.left)
        return values if self.ridge is None else values + self.ridge

    def with_diagonal(self, added: np.ndarray | float) -> LowRank:
        """A copy with numbers added to the diagonal, and so to the ridge."""
        ridge = np.zeros(len(self)) if self.ridge is None else self.ridge
        return replace(self, ridge=ridge + added)

    def take(self, rows: np.ndarray) -> LowRank:
        """The matrix between some rows."""
        return LowRank(self.left[:, rows], self.scale, None if self.ridge is None else self.ridge[rows])

    @cached_property
    def factor(self) -> np.ndarray:
        """A (r, n) with ``K = A'A + diag(ridge)``, without the rows of scale zero."""
        used = self.scale > 0
        left = self.left if used.all() else self.left[used]
        return left if np.all(self.scale == 1.0) else left * np.sqrt(self.scale[used])[:, None]

    def dense(self) -> np.ndarray:
        """The whole matrix, for few rows."""
        K = (self.left * self.scale[:, None]).T @ self.left
        if self.ridge is not None:
            K[np.diag_indices(len(K))] += self.ridge
        return K

    def solved(self, rows: np.ndarray, constant: float, jitter: float, right: np.ndarray) -> np.ndarray | None:
        """``(K_SS + constant + jitter I)^-1 right`` for some rows S; None where that cannot be had."""
        part = self.take(rows)
        rank = np.count_nonzero(self.scale)
        if len(rows) > rank + SPARE and (part.ridge is None or not np.all(part.ridge > 0)):
            return None
        try:
            if len(rows) <= rank + SPARE:
                block = part.dense()
                block += constant
                block[np.diag_indices(len(block))] += jitter
                return cho_solve(cho_factor(block, lower=True, overwrite_a=True, check_finite=False), right)
            assert part.ridge is not None
            B = np.vstack([part.factor, np.full(len(rows), np.sqrt(constant))])
            return woodbury(B, part.ridge + jitter, right)
        except LinAlgError:
            return None


def woodbury(A: np.ndarray, diagonal: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``(A'A + diag(diagonal))^-1 right`` with A (r, k), through a matrix (r, r)."""
    D = diagonal if right.ndim == 1 else diagonal[:, None]
    thin = A / diagonal
    inner = thin @ A.T
    inner[np.diag_indices(len(inner))] += 1.0
    root = cho_factor(inner, lower=True, overwrite_a=True)

    def once(b: np.ndarray) -> np.ndarray:
        return b / D - thin.T @ cho_solve(root, A @ (b / D))

    first = once(right)
    return first + once(right - A.T @ (A @ first) - D * first)  # the terms of a small diagonal cancel


def whitening(gram: np.ndarray, corner: np.ndarray, size: float) -> np.ndarray:
    """Map (k, r) to coordinates in which the plain norm is the norm in the kernel's space.

    Parameters
    ----------
    gram : (k, k) centred Gram matrix over the rows of the kernel's columns
    corner : (k, k) kernel values of the instances
    size : sum of squares that the centred coordinates of the rows get
    """
    eigenvalues, vectors = np.linalg.eigh(0.5 * (corner + corner.T))
    keep = eigenvalues > LEAST_EIGENVALUE * np.max(eigenvalues, initial=0.0)
    white = vectors[:, keep] / np.sqrt(eigenvalues[keep])
    spread = float(np.sum(white * (gram @ white)))
    return white * np.sqrt(size / spread) if spread > 0 else white
