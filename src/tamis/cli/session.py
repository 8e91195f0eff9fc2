"""What all commands share: the consoles, progress bars, errors as sentences, exit codes, JSON."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tamis.errors import BadOption
from tamis.progress import Remaining, listening

FAILED, USAGE = 1, 2
BAR_SECONDS = 2.0  # before a progress bar appears
LINE_SECONDS = 30.0  # between lines of progress where there is no terminal


class Session:
    """One run of a command.

    Parameters
    ----------
    as_json : print one JSON document and nothing else
    """

    def __init__(self, as_json: bool = False):
        self.as_json = as_json
        self.out = Console(highlight=False, soft_wrap=False)
        self.err = Console(stderr=True, highlight=False)
        self.written: list[str] = []
        self.bars = None if as_json or not self.err.is_terminal else Bars(self.err)

    @property
    def height(self) -> int:
        """Lines of the screen; many where there is none."""
        return self.out.size.height if self.out.is_terminal else 1000

    def show(self, *things: Any) -> None:
        """Print results for people; nothing with --json."""
        if self.bars is not None:
            self.bars.stop()
        if not self.as_json:
            for thing in things:
                self.out.print(thing, markup=False)

    def finish(self, document: Any) -> None:
        """Print the JSON document with --json."""
        if self.as_json:
            sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n")

    def warn(self, message: str) -> None:
        """Print a warning in addition to the results."""
        if self.bars is not None:
            self.bars.stop()
        self.err.print(f"warning: {message}", style="yellow", markup=False)

    def line(self, form: str, *values: Any) -> None:
        """A line of progress, for logs."""
        self.err.print(form % values, markup=False, soft_wrap=True)

    def fail(self, message: str, code: int) -> typer.Exit:
        """Report what went wrong; return the exit to raise."""
        if self.as_json and sys.stdout.writable():
            with suppress(OSError):
                self.finish({"error": message})
                sys.stdout.flush()
        else:
            self.err.print(f"error: {message}", style="bold red", markup=False, soft_wrap=True)
        return typer.Exit(code)


@contextmanager
def session(as_json: bool = False) -> Iterator[Session]:
    """Run a command: exceptions become sentences and exit codes, long loops get a progress bar."""
    now = Session(as_json)
    try:
        with _progress(now):
            yield now
    except Exception as error:
        _report(now, error)
        raise
    except KeyboardInterrupt:
        kept = f"kept: {', '.join(now.written)}" if now.written else "nothing was written"
        raise now.fail(f"stopped; {kept}", FAILED) from None


def _report(now: Session, error: Exception) -> None:
    """Turn an exception into a sentence and an exit code, unless TAMIS_DEBUG is set."""
    if isinstance(error, typer.Exit | typer.BadParameter) or os.environ.get("TAMIS_DEBUG"):
        return
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILED) from None
    if isinstance(error, BadOption | FileNotFoundError):
        raise now.fail(str(error), USAGE) from None
    if isinstance(error, ValueError | OSError | ImportError | MemoryError):
        raise now.fail(str(error) or type(error).__name__, FAILED) from None
    raise now.fail(f"unexpected {type(error).__name__}: {error} (set TAMIS_DEBUG=1 to see where)", FAILED) from None


class Bars:
    """The progress of loops, on a terminal, once the command takes longer than two seconds."""

    def __init__(self, console: Console):
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=console, transient=True)
        self.tasks: dict[str, TaskID] = {}
        self.timer = threading.Timer(BAR_SECONDS, self.start)
        self.timer.daemon = True
        self.lock = threading.Lock()
        self.over = False

    def __call__(self, what: str, done: int, total: int) -> None:
        """Update the bar of a loop."""
        if what not in self.tasks:
            self.tasks[what] = self.progress.add_task(what, total=total or None)
        for other, task in self.tasks.items():
            self.progress.update(task, visible=other == what)
        self.progress.update(self.tasks[what], completed=done, total=total or None)

    def start(self) -> None:
        """Appear, unless `stop` was called before."""
        with self.lock:
            if not self.over:
                self.progress.start()

    def stop(self) -> None:
        """Disappear, before results are printed."""
        self.timer.cancel()
        with self.lock:
            self.over = True
            self.progress.stop()


@contextmanager
def _progress(now: Session) -> Iterator[None]:
    if now.bars is None:
        with listening(Remaining(now.line, LINE_SECONDS, ends=False)):
            yield
        return
    now.bars.timer.start()
    try:
        with listening(now.bars):
            yield
    finally:
        now.bars.stop()
