"""Cholesky factors of positive definite matrices, in numpy or on the device where the matrix is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs

from tamis.arrays import Array, cholesky, cholesky_solve, device_of, to_device, to_numpy
from tamis.optim.matrices import DeviceMatrix, Matrix


class Factor(Protocol):
    """A factored matrix."""

    def solve(self, right: np.ndarray) -> np.ndarray:
        """The solution for a right-hand side (n,), or for several (n, q)."""
        ...


@dataclass(frozen=True)
class _Lapack:
    lower: np.ndarray

    def solve(self, right: np.ndarray) -> np.ndarray:
        return dpotrs(self.lower, right, lower=1)[0]


@dataclass(frozen=True)
class _OnDevice:
    lower: Array

    def solve(self, right: np.ndarray) -> np.ndarray:
        columns = to_device(right.reshape(len(right), -1), device_of(self.lower), "float64")
        return to_numpy(cholesky_solve(self.lower, columns)).reshape(right.shape)


def factor(matrix: Matrix) -> Factor:
    """Factor a positive definite matrix, which may be overwritten; LinAlgError if it is not."""
    if isinstance(matrix, DeviceMatrix):
        return _OnDevice(cholesky(matrix.values))
    lower, failed = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise LinAlgError(f"the leading minor of order {failed} is not positive definite")
    return _Lapack(lower)
