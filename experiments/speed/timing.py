"""Times and memory of calls, and the versions behind them."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments.cells import installed

PACKAGES = ("tamis", "scikit-learn", "numpy", "scipy")


def times(action: Callable[[], Any], repeats: int = 3, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Return the seconds of several calls."""
    found = []
    for _ in range(repeats):
        start = clock()
        action()
        found.append(clock() - start)
    return found


def best(action: Callable[[], Any], repeats: int = 3, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the smallest time of several calls."""
    return min(times(action, repeats, clock))


def median(action: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median time of several calls."""
    return float(np.median(times(action, repeats)))


def peak(action: Callable[[], Any]) -> float:
    """Return the MiB that a call allocates at most."""
    tracemalloc.start()
    action()
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return top / 2**20


def versions(packages: Sequence[str] = PACKAGES) -> str:
    """Return the versions of packages and of Python."""
    return ", ".join(f"{name} {version}" for name, version in installed(packages).items())
