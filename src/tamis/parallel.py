"""Threads over blocks of rows: numpy and BLAS release the lock of the interpreter, so blocks run in parallel."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


_limit: ContextVar[int | None] = ContextVar("limit", default=None)


def available_cores() -> int:
    """Return the number of cores that this process may use, within `limited` at most so many."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _limit.get() or cores)


@contextmanager
def limited(cores: int) -> Iterator[None]:
    """Use at most so many cores within the context, for one of several workers on a machine."""
    token = _limit.set(cores)
    try:
        with blas_threads(cores):
            yield
    finally:
        _limit.reset(token)


@cache
def _controller() -> ThreadpoolController:
    """The libraries with threads of their own; to find them takes milliseconds."""
    return ThreadpoolController()


_contexts: list[tuple[object, int]] = []  # the open ones with their numbers of BLAS threads, the latest last
_before: dict[int, int] = {}  # threads of each library outside all contexts
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # else a child could inherit a lock that is never released
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


@contextmanager
def blas_threads(n: int) -> Iterator[None]:
    """Use `n` threads of BLAS within the context.

    The number applies to the whole process. Of several contexts, nested or in several threads, the latest decides; when
    the last of them ends, the first number is restored.
    """
    mine = (object(), n)
    with _lock:
        if not _contexts:
            _before.update({k: library.num_threads for k, library in enumerate(_blas())})
        _contexts.append(mine)
        _set_blas(n)
    try:
        yield
    finally:
        with _lock:
            _contexts.remove(mine)
            _set_blas(_contexts[-1][1] if _contexts else None)


def _blas() -> list[Any]:
    return [library for library in _controller().lib_controllers if library.user_api == "blas"]


def _set_blas(n: int | None) -> None:
    """Set the number of BLAS threads; None restores the first one."""
    for k, library in enumerate(_blas()):
        library.set_num_threads(_before[k] if n is None else n)


def one_thread() -> AbstractContextManager:
    """Return a context in which all libraries with threads of their own, also newly loaded ones, use one."""
    return ThreadpoolController().limit(limits=1)


def thread_map(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return ``[function(item) for item in items]``, by threads on all cores, or by those of BLAS for one item."""
    cores = available_cores()
    if len(items) == 1:
        with blas_threads(cores):
            return [function(items[0])]
    with blas_threads(1), ThreadPoolExecutor(cores) as pool:
        return list(pool.map(function, items))
