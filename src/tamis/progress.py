"""Progress without a parameter in every function: loops report to whoever listens in this context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Listener = Callable[[str, int, int], None]  # what is being done, how many are done, of how many

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call ``listener(what, done, total)`` as loops within the context go on."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(what: str, done: int, total: int) -> None:
    """Tell whoever listens how far something has come."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


def tracked(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """The items, reported one by one."""
    report(what, 0, total)
    for done, item in enumerate(items, 1):
        report(what, done, total)
        yield item
