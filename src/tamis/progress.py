"""Progress without a parameter in every function: loops report to whoever listens in this context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import TypeVar

T = TypeVar("T")
Listener = Callable[[str, int, int], None]  # what is being done, how many are done, of how many (0: nobody knows)

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call ``listener(what, done, total)`` as loops within the context go on."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def heard() -> bool:
    """Whether somebody listens."""
    return _listener.get() is not None


class Remaining:
    """A listener that writes a line now and then: what, how far, and how long it will still take.

    Parameters
    ----------
    write : takes a format and its values, as loggers do
    every : seconds between two lines
    ends : whether the end of a loop is told that took less than that
    """

    def __init__(self, write: Callable[..., object], every: float = 5.0, *, ends: bool = True):
        self.write, self.every, self.ends = write, every, ends
        self.what, self.start, self.last, self.first = "", 0.0, 0.0, 0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = monotonic()
        if what != self.what:
            self.what, self.start, self.last, self.first = what, now, now, done
        over = done >= total > 0 and (self.ends or self.last > self.start)
        if now - self.last < self.every and not over:
            return
        self.last = now
        if not total:
            self.write("%s: %d so far", what, done)
            return
        rate = (done - self.first) / (now - self.start) if now > self.start else 0.0
        left = f", {(total - done) / rate:.0f} s left" if rate > 0 and done < total else ""
        self.write("%s: %d of %d%s", what, done, total, left)


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
