"""Readings that were stopped, and go on from a file: their totals, and what they keep of every row."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from tamis.codec import read, replacing, stored, write
from tamis.errors import warn

SAVE_SECONDS = 30.0  # between two savings of a total
MAX_ARRAYS = 1 << 20  # of one block
MAGIC = "bytes of rows of a stopped fit of tamis: "


@stored
@dataclass(frozen=True)
class Stopped:
    """The total of the first `blocks` blocks of the rows, and of the parameters, that `source` describes."""

    total: Any
    blocks: int
    source: str


class Checkpoint:
    """Saves the total of a reading in a file now and then.

    Parameters
    ----------
    path : the file
    kind : the class of the total
    source : text that identifies the rows and the parameters
    """

    def __init__(self, path: Path, kind: type, source: str):
        self.path, self.kind, self.source = path, kind, source
        self.last = time.monotonic()
        if not path.parent.is_dir():
            raise ValueError(f"checkpoint={str(path)!r}: there is no folder {str(path.parent)!r}; make it first")

    def found(self) -> tuple[Any, int] | None:
        """Return the saved total and the number of its blocks, or None."""
        if not self.path.exists():
            return None
        try:
            left = read(self.path, "stopped pass")
        except ValueError as error:
            raise ValueError(f"checkpoint={str(self.path)!r}: {error}; delete it, or name another file") from None
        if not isinstance(left, Stopped):
            raise ValueError(f"checkpoint={str(self.path)!r} holds a {type(left).__name__}: name another file")
        if left.source != self.source or not isinstance(left.total, self.kind):
            warn(
                f"checkpoint={str(self.path)!r} is of other rows or of a fit with other parameters: the pass starts "
                "at the beginning"
            )
            return None
        return left.total, left.blocks

    def keep(self, total: Any, blocks: int) -> None:
        """Save the total of the first `blocks` blocks, if it is time to."""
        if time.monotonic() - self.last >= SAVE_SECONDS:
            self.save(total, blocks)

    def save(self, total: Any, blocks: int) -> None:
        """Save the total of the first `blocks` blocks."""
        write(self.path, "stopped pass", Stopped(total, blocks, self.source))
        self.last = time.monotonic()


class BlockFile:
    """What is kept of every block, appended to a file of arrays; a block that was not written completely is dropped.

    Parameters
    ----------
    path : the file
    source : text that identifies the rows and the parameters; a file with another text begins anew
    """

    def __init__(self, path: Path, source: str):
        self.path, self.source = path, source

    def found(self, make: Callable[[list[np.ndarray]], Any]) -> tuple[list[Any], int]:
        """Return what `make` makes of the arrays of each item so far, and the number of complete blocks."""
        items: list[Any] = []
        blocks, end = 0, 0
        if self.path.exists() and self.path.stat().st_size:
            with self.path.open("rb") as file:
                if self._head(file) == MAGIC + self.source:
                    end = file.tell()
                    try:
                        while True:
                            items += [make(arrays) for arrays in _block(file)]
                            blocks, end = blocks + 1, file.tell()
                    except (ValueError, EOFError, OSError):  # the end, or a block that is not as it was written
                        pass
        if end:
            with self.path.open("r+b") as file:
                file.truncate(end)
            return items, blocks
        with replacing(self.path) as path, path.open("wb") as file:
            _write(file, np.frombuffer((MAGIC + self.source).encode(), dtype=np.uint8))
        return [], 0

    def _head(self, file: IO[bytes]) -> str:
        """The text with which the file begins; refuse files of others."""
        try:
            head = bytes(_array(file)).decode()
        except (ValueError, EOFError, OSError):
            head = ""
        if not head.startswith(MAGIC):
            raise ValueError(f"{str(self.path)!r} is not of a stopped fit: move it, or name another checkpoint")
        return head

    def add(self, items: Sequence[Sequence[np.ndarray]]) -> None:
        """Append the items of one block, each of which is some arrays."""
        with self.path.open("ab") as file:
            check = _checksum([array for item in items for array in item])
            _write(file, np.array([check, len(items), *(len(item) for item in items)], dtype=np.int64))
            for item in items:
                for array in item:
                    _write(file, array)


def _block(file: IO[bytes]) -> list[list[np.ndarray]]:
    """The items of the next block."""
    head = _array(file)
    if head.dtype != np.int64 or len(head) < 2 or head[1] != len(head) - 2 or not 0 <= head[1:].sum() < MAX_ARRAYS:
        raise ValueError("this is not the head of a block")
    items = [[_array(file) for _ in range(int(count))] for count in head[2:]]
    if _checksum([array for item in items for array in item]) != head[0]:
        raise ValueError("this block is not as it was written")
    return items


def _checksum(arrays: Sequence[np.ndarray]) -> int:
    total = 0
    for array in arrays:
        total = zlib.crc32(np.ascontiguousarray(array).tobytes(), total)
    return total


def _array(file: IO[bytes]) -> np.ndarray:
    return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _write(file: IO[bytes], array: np.ndarray) -> None:
    np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
