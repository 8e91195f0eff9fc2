"""Matrices between training rows, wherever their values are.

Methods write ``K @ v``, ``K[np.ix_(rows, cols)]``, ``K + s * D``, ``K.diagonal()`` and `with_diagonal` for numpy arrays
and for matrices on a device alike. Vectors are always those of numpy: they cross over in microseconds, while the
matrix stays where it is. Where a method needs more of a matrix than that, it works on its `values_of` by the array API.
Matrices of low rank (`tamis.optim.low_rank`) have all of these but blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.arrays import Array, device_of, namespace, to_device, to_numpy

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
