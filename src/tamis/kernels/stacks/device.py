"""DeviceStack: all kernel values on a device, in float64, for the dense linear algebra of the methods.

Kernels that take arrays of any library are evaluated on the device, the others (functions of users, precomputed values,
alignments) in numpy, and moved. Results are those of `DenseStack` up to the order of sums: numpy arrays, but for
`matrix`, which stays on the device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tamis.arrays import Array, device_of, free_bytes, namespace, to_device, to_numpy
from tamis.kernels.stacks.base import ALL, GRAM_KERNELS, DenseStack, Index, KernelStack, slices
from tamis.optim.matrices import DeviceMatrix, inner

if TYPE_CHECKING:
    from tamis.kernels.bank import Channel

MAX_BLOCK_VALUES = 1 << 26  # most entries of one block of values that is evaluated at once
MAX_TARGET_VALUES = 1 << 28  # most entries of matrices whose inner products with all kernels are computed together
WORK_MATRICES = 8  # matrices that a method needs room for besides the kernels and a part of them


class DeviceStack(KernelStack):
    """All values on a device, stored as (L, n, m) as in `DenseStack`."""

    def __init__(self, values: Array):
        self.values = values
        L, n, m = values.shape
        self.shape = (int(L), int(m), int(n))

    @classmethod
    def evaluate(cls, channels: Sequence[Channel], X: np.ndarray, Y: np.ndarray, device: str) -> DeviceStack:
        """Evaluate kernels between the rows of X and Y once and for all (kernels are symmetric)."""
        check_room(len(channels), len(X), len(Y), device)
        moved = to_device(X, device, "float64"), to_device(Y, device, "float64")
        shape = (len(channels), len(Y), len(X))
        values = namespace(moved[0]).zeros(shape, dtype=moved[0].dtype, device=device_of(moved[0]))
        for k, channel in enumerate(channels):
            if channel.kernel.any_library:
                for rows in slices(len(Y), MAX_BLOCK_VALUES // max(1, len(X))):
                    values[k, rows, :] = channel(moved[1][rows, :], moved[0])
            else:
                values[k, ...] = to_device(DenseStack.evaluate([channel], X, Y).values[0], device, "float64")
        return cls(values)

    def blocks(self) -> Iterator[slice]:
        return iter([slice(0, self.shape[1])])

    def block(self, kernel: int, rows: slice) -> np.ndarray:
        return to_numpy(self.values[kernel, :, rows].T)

    def matrix(self, weights: np.ndarray) -> DeviceMatrix:
        return DeviceMatrix(self._combined(weights, ALL).T)

    def weighted(self, weights: np.ndarray, rows: slice) -> np.ndarray:
        return to_numpy(self._combined(weights, rows)).T

    def _combined(self, weights: np.ndarray, rows: slice) -> Array:
        """``sum_l weights[l] K_l`` on some rows, as (n, rows)."""
        out = namespace(self.values).zeros_like(self.values[0, :, rows]) if self.shape[0] else self._empty(rows)
        for k in np.flatnonzero(weights).tolist():
            out += float(weights[k]) * self.values[k, :, rows]
        return out

    def _empty(self, rows: slice) -> Array:
        n = len(range(*rows.indices(self.shape[1])))
        return namespace(self.values).zeros((self.shape[2], n), dtype=self.values.dtype, device=self._device)

    def product(self, weights: np.ndarray, coef: np.ndarray) -> np.ndarray:
        moved = self._moved(coef)
        out = namespace(moved).zeros((self.shape[1], *coef.shape[1:]), dtype=self.values.dtype, device=self._device)
        for k in np.flatnonzero(weights).tolist():
            out += float(weights[k]) * (self.values[k, :, :].T @ moved)
        return to_numpy(out)

    def apply(self, coef: np.ndarray) -> np.ndarray:
        images = self._moved(coef.reshape(len(coef), -1).T) @ self.values  # (L, q, m)
        return np.moveaxis(to_numpy(images), -1, 0).reshape(self.shape[1], self.shape[0], *coef.shape[1:])

    def inner(self, matrix: np.ndarray | Array) -> np.ndarray:
        """As in the base class; the matrix may be on the device as well."""
        turned = self._moved(matrix).T
        return np.array([inner(self.values[k, :, :], turned) for k in range(self.shape[0])])

    def gram(self, kernels: np.ndarray) -> np.ndarray:
        step = max(1, min(GRAM_KERNELS, MAX_TARGET_VALUES // max(1, math.prod(self.shape[1:]))))
        parts = [np.empty((self.shape[0], 0))]
        for some in slices(len(kernels), step):
            parts.append(to_numpy(self._flat @ self._flat[self._places(kernels[some]), :].T))
        return np.ascontiguousarray(np.concatenate(parts, axis=1).T)

    def diagonal(self) -> np.ndarray:
        return to_numpy(namespace(self.values).linalg.diagonal(self.values)).copy()

    def take(self, rows: Index = ALL, cols: Index = ALL, kernels: Index = ALL) -> DeviceStack:
        xp, (L, m, n) = namespace(self.values), self.shape
        chosen, down, across = (np.arange(size)[index] for size, index in ((L, kernels), (n, cols), (m, rows)))
        if len(down) == n and len(across) == m and _in_place(down) and _in_place(across):
            whole = len(chosen) == L and _in_place(chosen)
            return self if whole else DeviceStack(xp.take(self.values, self._places(chosen), axis=0))
        shape = (len(chosen), len(down), len(across))
        values = xp.zeros(shape, dtype=self.values.dtype, device=self._device)
        corner = self._places(down)[:, None], self._places(across)[None, :]
        for place, k in enumerate(chosen.tolist()):
            values[place, ...] = self.values[k, ...][corner]
        return DeviceStack(values)

    @property
    def _flat(self) -> Array:
        return namespace(self.values).reshape(self.values, (self.shape[0], -1))

    @property
    def _device(self) -> object:
        return device_of(self.values)

    def _moved(self, array: np.ndarray | Array) -> Array:
        return to_device(array, self._device, "float64")

    def _places(self, index: np.ndarray) -> Array:
        return to_device(np.asarray(index, dtype=np.int64), self._device)


def _in_place(index: np.ndarray) -> bool:
    return np.array_equal(index, np.arange(len(index)))


def check_room(L: int, m: int, n: int, device: str) -> None:
    """Refuse more kernel values than a device can hold."""
    free, needed = free_bytes(device), 8 * (2 * L + WORK_MATRICES) * m * n
    if free is not None and needed > free:
        raise ValueError(
            f"device={device!r} has {free / 2**30:.0f} GiB free, and {L} kernels between {m} and {n} rows, with room "
            f"to work in, take {needed / 2**30:.0f} GiB: give fewer rows or kernels, or device=None"
        )
