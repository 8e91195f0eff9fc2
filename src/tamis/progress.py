"""Progress reports of loops to a listener of the context, without a parameter in every function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import TypeVar

T = TypeVar("T")
Listener = Callable[[str, int, int], None]  # name of the work, number done, number of all (0 if unknown)

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call ``listener(what, done, total)`` at every report of a loop within the context."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def heard() -> bool:
    """Whether there is a listener."""
    return _listener.get() is not None


class Remaining:
    """A listener that writes a line now and then: the work, how much is done, and the remaining time.

    Parameters
    ----------
    write : called with a format and its values, as methods of loggers
    every : seconds between two lines
    ends : whether the end of a loop is written that took less than `every`
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
    """Report to the listener, if there is one, how much of the work is done."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


def tracked(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """Iterate over the items and report each."""
    report(what, 0, total)
    for done, item in enumerate(items, 1):
        report(what, done, total)
        yield item
