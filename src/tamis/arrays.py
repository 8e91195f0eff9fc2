"""Array libraries and devices; no other module imports torch.

On a device sums are float64, and so are products, except in passes over single-precision rows on cards with slow
float64. Shorter formats such as tf32 are never used, whatever the settings of torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as _device
from numpy.linalg import LinAlgError

Array = Any

FAST_DOUBLE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}  # compute capabilities with fast double precision


def namespace(*arrays: Array) -> Any:
    """Return the array-API namespace shared by `arrays`."""
    return array_namespace(*arrays)


def device_of(array: Array) -> Any:
    """Return the device of an array, in the form that its library takes for new arrays."""
    return _device(array)


# ---------------------------------------------------------------------- devices


def check_device(value: Any) -> None:
    """Refuse values other than None and available devices of torch with float64."""
    if value is None:
        return
    choices = "use 'cuda', 'cuda:1', 'cpu' (by torch) or None (by numpy)"
    if not isinstance(value, str):
        raise ValueError(f"device={value!r} is not the name of a device: {choices}")
    torch = _torch(f"device={value!r}")
    try:
        device = torch.device(value)
    except RuntimeError:
        raise ValueError(f"device={value!r} is unknown: {choices}") from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device={value!r} is not a device with float64 numbers: {choices}")
    count = torch.cuda.device_count() if device.type == "cuda" and torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ValueError(f"device={value!r} is not available, torch finds {count} CUDA devices: {choices}")


def _torch(what: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"{what} needs torch: pip install 'tamis[gpu]'") from error
    return torch


def to_device(array: Array, device: Any, dtype: str | None = None) -> Array:
    """Return the array on a device of torch, as `dtype` if given; no copy is made if none is needed."""
    torch = _torch(f"device={device!r}")
    wanted = None if dtype is None else getattr(torch, dtype)
    if isinstance(array, np.ndarray) and (not array.flags.writeable or min(array.strides, default=0) < 0):
        array = array.copy()  # torch would share read-only memory, and has no negative strides
    return torch.as_tensor(array, device=device, dtype=wanted)


def beside(array: Array, other: Array) -> Array:
    """Return a numpy array on the device of another array."""
    return to_device(array, device_of(other)) if is_tensor(other) else array


def to_numpy(array: Array) -> np.ndarray:
    """Return the array as a numpy array."""
    return array if isinstance(array, np.ndarray) else array.detach().cpu().numpy()


def free_bytes(device: str) -> int | None:
    """Return the free memory of a device in bytes; None for the processor."""
    torch = _torch(f"device={device!r}")
    if torch.device(device).type != "cuda":
        return None
    free = torch.cuda.mem_get_info(device)[0]
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + unused)


# ---------------------------------------------------------------------- what the array API does not have


def scattered(places: Array, values: Array) -> Array:
    """Return `out` with ``out[i, places[i, j]] = values[i, j]``; the rows of `places` are permutations."""
    if not isinstance(values, np.ndarray):
        return values.scatter(1, places, values)
    out = np.empty_like(values)
    np.put_along_axis(out, places, values, axis=1)
    return out


def cholesky(matrix: Array) -> Array:
    """Return the lower Cholesky factor of a torch matrix; raise LinAlgError if it is not positive definite."""
    factor, failed = _torch("a device").linalg.cholesky_ex(matrix)
    if int(failed):
        raise LinAlgError(f"the leading minor of order {int(failed)} is not positive definite")
    return factor


def cholesky_solve(factor: Array, right: Array) -> Array:
    """Solve a system for right-hand sides (n, q), given the `cholesky` factor of its matrix."""
    return _torch("a device").cholesky_solve(right, factor)


def is_tensor(X: Any) -> bool:
    """Whether X is a tensor of torch, on any device."""
    return type(X).__module__.split(".")[0] == "torch" and hasattr(X, "detach")


def bits(array: Array) -> Array:
    """Return the integers with the same bits as numbers in double precision."""
    return array.view(np.int64) if isinstance(array, np.ndarray) else array.view(_torch("a device").int64)


def quick_double(array: Array) -> bool:
    """Whether products in double precision are about as fast as in single precision on the device of an array.

    They are on processors and on cards made for computing, which are recognised by their compute capability.
    """
    device = device_of(array)
    if getattr(device, "type", "cpu") != "cuda":
        return True
    return _torch("a device").cuda.get_device_capability(device) in FAST_DOUBLE


@contextmanager
def full_precision() -> Iterator[None]:
    """Multiply single-precision numbers of torch without tf32 within the context."""
    matmul = _torch("a device").backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32 = before
