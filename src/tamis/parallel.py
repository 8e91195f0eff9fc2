"""Threads over blocks: numpy and BLAS release the interpreter's lock, so blocks run side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


_limit: ContextVar[int | None] = ContextVar("limit", default=None)


def available_cores() -> int:
    """Cores that this process may use, or as few as `limited` says."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _limit.get() or cores)


@contextmanager
def limited(cores: int) -> Iterator[None]:
    """Use at most so many cores within the context, as one of several workers on a machine."""
    token = _limit.set(cores)
    try:
        with blas_threads(cores):
            yield
    finally:
        _limit.reset(token)


@cache
def _controller() -> ThreadpoolController:
    """The libraries with threads of their own; looking for them takes milliseconds."""
    return ThreadpoolController()


def blas_threads(n: int) -> AbstractContextManager:
    """A context in which BLAS uses `n` threads."""
    return _controller().limit(limits=n, user_api="blas")


def one_thread() -> AbstractContextManager:
    """A context in which all libraries with threads of their own, those loaded lately too, use one."""
    return ThreadpoolController().limit(limits=1)


def thread_map(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``[function(item) for item in items]`` on all cores: as threads, or within BLAS if there is one item."""
    cores = available_cores()
    if len(items) == 1:
        with blas_threads(cores):
            return [function(items[0])]
    with blas_threads(1), ThreadPoolExecutor(cores) as pool:
        return list(pool.map(function, items))
