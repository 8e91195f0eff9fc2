"""Matrices between training rows, wherever their values are, and solves with them.

Methods write ``K @ v``, ``K[np.ix_(rows, cols)]``, ``K + s * D``, ``K.diagonal()`` and `with_diagonal` for numpy arrays
and for matrices on a device alike. Vectors are always those of numpy: they cross over in microseconds, while the
matrix stays where it is. Where a method needs more of a matrix than that, it works on its `values_of` by the array API.
Matrices of low rank have all of these but blocks: no matrix between all rows is made. They are

    K = left' diag(scale) left + diag(ridge)

with `left` (R, n), R far below n. Products with vectors cost O(R n). A system on some rows S is solved through their
block, or where these are more than the rank, and there is a ridge, through a matrix of the size of the rank
(Sherman, Morrison and Woodbury).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dpotrf, dpotrs

from tamis.arrays import Array, cholesky, cholesky_solve, device_of, namespace, to_device, to_numpy

LEAST_EIGENVALUE = 1e-4  # share of the largest below which a direction of a kernel matrix is left out
MAX_ROWS_OVER_RANK = 64  # rows beyond the rank whose block may still be solved with: rows may be alike
RESIDUAL_TOL = 1e-9  # of conjugate gradients, relative to the right-hand side
ROWS_PER_STEP = 75  # a factorisation costs as much as one conjugate gradient step for so many rows

Matrix = Any  # np.ndarray, DeviceMatrix or, of low rank, LowRank


class DeviceMatrix:
    """A matrix (m, n) of float64 on a device: products with numpy arrays, blocks, sums and multiples.

    Attributes
    ----------
    values : (m, n) on the device
    """

    __array_ufunc__ = None  # numpy leaves products to this class

    def __init__(self, values: Array):
        self.values = values

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.values.shape[0]), int(self.values.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        out = to_numpy(self.values)
        return out.astype(out.dtype if dtype is None else dtype, copy=bool(copy))

    def __matmul__(self, coef: np.ndarray) -> np.ndarray:
        return to_numpy(self.values @ self._moved(coef))

    def __add__(self, other: DeviceMatrix | float) -> DeviceMatrix:
        return DeviceMatrix(self.values + (other.values if isinstance(other, DeviceMatrix) else float(other)))

    def __sub__(self, other: DeviceMatrix | float) -> DeviceMatrix:
        return DeviceMatrix(self.values - (other.values if isinstance(other, DeviceMatrix) else float(other)))

    def __mul__(self, factor: float) -> DeviceMatrix:
        return DeviceMatrix(self.values * float(factor))

    __rmul__ = __mul__

    def __getitem__(self, index: tuple[Any, Any]) -> DeviceMatrix:
        """A block, by ``np.ix_(rows, cols)`` or by slices, one of which may be an array."""
        parts = tuple(part if isinstance(part, slice) else to_device(part, self._device) for part in index)
        return DeviceMatrix(self.values[parts])

    def diagonal(self) -> np.ndarray:
        """The diagonal, in numpy."""
        return to_numpy(namespace(self.values).linalg.diagonal(self.values))

    def with_diagonal(self, added: np.ndarray | float) -> DeviceMatrix:
        """A copy with numbers added to the diagonal."""
        xp, n = namespace(self.values), len(self)
        own = xp.eye(n, dtype=self.values.dtype, device=self._device)
        shift = self._moved(np.broadcast_to(np.asarray(added, dtype=float), (n,)))
        return DeviceMatrix(self.values + own * shift)

    @property
    def _device(self) -> Any:
        return device_of(self.values)

    def _moved(self, array: np.ndarray) -> Array:
        return to_device(array, self._device, "float64")


def values_of(matrix: Matrix) -> Array:
    """The values of a matrix, where they are."""
    return matrix.values if isinstance(matrix, DeviceMatrix) else matrix


def fill_diagonal(values: Array, diagonal: Array | float) -> None:
    """Set the diagonal of a square array in place, wherever it is."""
    at = namespace(values).arange(values.shape[0], device=device_of(values))
    values[at, at] = diagonal


def inner(left: Array, right: Array) -> float:
    """The sum over all entries of the products of two arrays of one kind."""
    return float(np.vdot(left, right)) if isinstance(left, np.ndarray) else float(namespace(left).sum(left * right))


def with_diagonal(matrix: Matrix, added: np.ndarray | float) -> Matrix:
    """A copy of a square matrix with numbers added to its diagonal."""
    if not isinstance(matrix, np.ndarray):
        return matrix.with_diagonal(added)
    out = matrix.copy(order="K")
    out[np.diag_indices(len(out))] += added
    return out


@dataclass(frozen=True)
class LowRank:
    """A symmetric matrix (n, n) of low rank plus a diagonal; positive semi-definite where no scale is negative."""

    left: np.ndarray  # (R, n), shared by all matrices that are added to one another
    scale: np.ndarray  # (R,)
    ridge: np.ndarray | None = None  # (n,), at least zero; None: no ridge

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


@dataclass(frozen=True)
class Factor:
    """The lower Cholesky factor of a positive definite matrix, in numpy or on the device where the matrix is."""

    lower: Array

    def solve(self, right: np.ndarray) -> np.ndarray:
        """The solution for a right-hand side (n,), or for several (n, q)."""
        if isinstance(self.lower, np.ndarray):
            return dpotrs(self.lower, right, lower=1)[0]
        columns = to_device(right.reshape(len(right), -1), device_of(self.lower), "float64")
        return to_numpy(cholesky_solve(self.lower, columns)).reshape(right.shape)


def factor(matrix: Matrix) -> Factor:
    """Factor a positive definite matrix, which may be overwritten; LinAlgError if it is not."""
    values = values_of(matrix)
    if not isinstance(values, np.ndarray):
        return Factor(cholesky(values))
    lower, failed = dpotrf(values, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise LinAlgError(f"the leading minor of order {failed} is not positive definite")
    return Factor(lower)


def corner(K: Matrix, rows: np.ndarray) -> Matrix:
    """The matrix between some rows."""
    return K.take(rows) if isinstance(K, LowRank) else K[np.ix_(rows, rows)]


def image_on(K: Matrix, rows: np.ndarray, cols: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """``K coef`` on some rows, for coefficients that are zero outside `cols`."""
    return (K @ coef)[rows] if isinstance(K, LowRank) else K[np.ix_(rows, cols)] @ coef[cols]


def solve_on(K: Matrix, rows: np.ndarray, constant: float, jitter: float, right: np.ndarray) -> np.ndarray | None:
    """``(K_SS + constant + jitter I)^-1 right`` for some rows S; None where that cannot be had."""
    block = corner(K, rows)
    try:
        if isinstance(block, LowRank):
            if len(rows) > np.count_nonzero(block.scale) + MAX_ROWS_OVER_RANK:
                if block.ridge is None or not np.all(block.ridge > 0):
                    return None
                A = np.vstack([block.factor, np.full(len(rows), np.sqrt(constant))])
                return woodbury(A, block.ridge + jitter, right)
            block = block.dense()
        block += constant
        return factor(with_diagonal(block, jitter)).solve(right)
    except LinAlgError:
        return None


class ShiftedSolver:
    """Solves ``(I + rho K) x = r`` with the Cholesky factor of an earlier K as preconditioner.

    Right after `factor` the solve is direct. For a K that has moved since, conjugate gradients start from
    a guess; once they have taken as long as a factorisation, K is factored anew.
    """

    def __init__(self, rho: float):
        self.rho = rho
        self._inverse: Callable[[np.ndarray], np.ndarray] | None = None
        self._of: Matrix | None = None
        self._steps = 0  # of conjugate gradients that may still be made with this factor
        self.n_factored = 0

    def factor(self, K: Matrix) -> None:
        """Factor ``I + rho K``."""
        self._inverse, self._of = _inverse(K, self.rho), K
        self._steps = 2 + len(K) // ROWS_PER_STEP
        self.n_factored += 1

    def solve(self, K: Matrix, right: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """Solve with a matrix K that is not changed in place between calls."""
        if self._inverse is not None and self._of is not K:
            found = self._iterate(K, right, guess)
            if found is not None:
                return found
        if self._of is not K:
            self.factor(K)
        assert self._inverse is not None
        return self._inverse(right)

    def _iterate(self, K: Matrix, right: np.ndarray, x: np.ndarray) -> np.ndarray | None:
        """Preconditioned conjugate gradients from `x`; None where they take too long."""
        assert self._inverse is not None
        bar = RESIDUAL_TOL * max(1.0, float(np.linalg.norm(right)))
        residual = right - x - self.rho * (K @ x)
        p, fall = np.zeros_like(x), 1.0
        while np.linalg.norm(residual) > bar:
            if not self._steps:
                return None
            self._steps -= 1
            z = self._inverse(residual)
            old, fall = fall, float(residual @ z)
            p = z + fall / old * p
            image = p + self.rho * (K @ p)
            step = fall / float(p @ image)
            x, residual = x + step * p, residual - step * image
        return x


def _inverse(K: Matrix, rho: float) -> Callable[[np.ndarray], np.ndarray]:
    """Solutions with ``I + rho K``."""
    if not isinstance(K, LowRank):
        return factor(with_diagonal(rho * K, 1.0)).solve
    A = K.factor
    inner = factor(with_diagonal(rho * (A @ A.T), 1.0))
    return lambda right: right - rho * (A.T @ inner.solve(A @ right))
