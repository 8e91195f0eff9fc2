"""The array namespace of an input, and devices: the only place that knows which array libraries exist.

On a device sums are float64, and so are products, except in passes over rows in single precision on cards that have no
quick float64. Short formats such as tf32 never come into play, whatever the settings of torch.
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

DOUBLE = {(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)}  # compute capabilities with quick double precision


def namespace(*arrays: Array) -> Any:
    """Return the array-API namespace shared by `arrays`."""
    return array_namespace(*arrays)


def device_of(array: Array) -> Any:
    """Where an array is, as its own library says it: what new arrays beside it are made with."""
    return _device(array)


# ---------------------------------------------------------------------- devices


def check_device(name: str, value: Any) -> None:
    """Refuse what is neither None nor a device of torch that is there and has float64 numbers."""
    if value is None:
        return
    choices = "use 'cuda', 'cuda:1', 'cpu' (by torch) or None (by numpy)"
    if not isinstance(value, str):
        raise ValueError(f"{name}={value!r} is no name of a device: {choices}")
    torch = _torch(f"{name}={value!r}")
    try:
        device = torch.device(value)
    except RuntimeError:
        raise ValueError(f"{name}={value!r} is unknown: {choices}") from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"{name}={value!r} is not among the devices with float64 numbers: {choices}")
    count = torch.cuda.device_count() if device.type == "cuda" and torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ValueError(f"{name}={value!r} is not available, torch finds {count} CUDA devices: {choices}")


def _torch(what: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"{what} needs torch: pip install 'tamis[gpu]'") from error
    return torch


def to_device(array: Array, device: Any, dtype: str | None = None) -> Array:
    """The array on a device of torch, in its own kind of numbers or in `dtype`; itself if it is so already."""
    torch = _torch(f"device={device!r}")
    wanted = None if dtype is None else getattr(torch, dtype)
    if isinstance(array, np.ndarray) and (not array.flags.writeable or min(array.strides, default=0) < 0):
        array = array.copy()  # torch would share the first, and cannot have the second
    return torch.as_tensor(array, device=device, dtype=wanted)


def beside(array: Array, other: Array) -> Array:
    """A numpy array where another array is."""
    return to_device(array, device_of(other)) if is_tensor(other) else array


def to_numpy(array: Array) -> np.ndarray:
    """The array in numpy, wherever it is."""
    return array if isinstance(array, np.ndarray) else array.detach().cpu().numpy()


def free_bytes(device: str) -> int | None:
    """Memory that a device still has; None where that is the machine's own."""
    torch = _torch(f"device={device!r}")
    if torch.device(device).type != "cuda":
        return None
    free = torch.cuda.mem_get_info(device)[0]
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + unused)


# ---------------------------------------------------------------------- what the array API does not have


def scattered(places: Array, values: Array) -> Array:
    """The array with ``out[i, places[i, j]] = values[i, j]``, for permutations in the rows of `places`."""
    if not isinstance(values, np.ndarray):
        return values.scatter(1, places, values)
    out = np.empty_like(values)
    np.put_along_axis(out, places, values, axis=1)
    return out


def cholesky(matrix: Array) -> Array:
    """The lower Cholesky factor of a matrix of torch; LinAlgError where it is not positive definite."""
    factor, failed = _torch("a device").linalg.cholesky_ex(matrix)
    if int(failed):
        raise LinAlgError(f"the leading minor of order {int(failed)} is not positive definite")
    return factor


def cholesky_solve(factor: Array, right: Array) -> Array:
    """Solve with a matrix whose `cholesky` factor is given, for right-hand sides (n, q)."""
    return _torch("a device").cholesky_solve(right, factor)


def is_tensor(X: Any) -> bool:
    """Whether X is a tensor of torch, wherever it is."""
    return type(X).__module__.split(".")[0] == "torch" and hasattr(X, "detach")


def bits(array: Array) -> Array:
    """Numbers in double precision as the integers with the same bits."""
    return array.view(np.int64) if isinstance(array, np.ndarray) else array.view(_torch("a device").int64)


def quick_double(array: Array) -> bool:
    """Whether products in double precision are about as quick as in single where an array is.

    So they are on processors and on cards made for computing, which their capability tells; not on others.
    """
    device = device_of(array)
    if getattr(device, "type", "cpu") != "cuda":
        return True
    return _torch("a device").cuda.get_device_capability(device) in DOUBLE


@contextmanager
def full_precision() -> Iterator[None]:
    """A context in which torch multiplies single-precision numbers as they are, not in tf32."""
    matmul = _torch("a device").backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32 = before
