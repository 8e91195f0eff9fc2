"""Polynomials of many columns in one pass over device memory, where Triton is there to compile it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tamis.arrays import Array, device_of, to_device


def fused_polynomials(t: Array, active: Sequence[int], start: int, out: Array) -> bool:
    """Write T_1, T_2, ... at t (b, c, m) into `out` (b, A, m) from row `start` on; False if there is no fused form.

    ``active[k]`` columns, the first ones, have a polynomial of degree k; they stand together. Where t is NaN all are
    zero.
    """
    if getattr(device_of(t), "type", "") != "cuda" or _compiled() is None:
        return False
    degrees = np.array([sum(a > j for a in active) for j in range(t.shape[1])])
    starts = start + np.concatenate([[0, 0], np.cumsum(active[1:])])[: len(active)]
    _compiled().launch(
        t.contiguous(), out, *(to_device(values.astype(np.int32), device_of(t)) for values in (degrees, starts))
    )
    return True


@cache
def _compiled() -> Any:
    """The module with the kernel, or None without Triton."""
    try:
        from tamis.kernels import fused_triton
    except ImportError:
        return None
    return fused_triton
