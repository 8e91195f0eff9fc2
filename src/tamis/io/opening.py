"""What all readers share: a file that can be opened again and again, and a table as it comes from it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tamis.table.sources.arrow import arrow

ROWS = 1 << 15  # rows at a time of other formats


@dataclass
class Raw:
    """A table as it comes from a file.

    Attributes
    ----------
    names : of the columns, as they stand in the batches
    batches : the rows
    declared : {name: "number" or "text"} where the file says so
    comma : whether numbers may have a decimal comma: where it does not part the cells
    aside : columns that are not part of the table (further arrays of an NPZ file)
    """

    names: list[str]
    batches: Iterator[Any]
    declared: dict[str, str] = field(default_factory=dict)
    aside: tuple[str, ...] = ()
    comma: bool = False


@dataclass(frozen=True)
class Opener:
    """Opens a file, as often as needed, as the bytes it holds once unpacked."""

    path: Path
    unpack: Callable[[IO[bytes]], Any]
    encoding: str

    @contextmanager
    def bytes(self) -> Iterator[tuple[Any, IO[bytes]]]:
        """The unpacked bytes, and the file on disk beneath them."""
        with self.path.open("rb") as raw:
            yield self.unpack(raw), raw

    @contextmanager
    def text(self) -> Iterator[io.TextIOWrapper]:
        encoding = "utf-8-sig" if self.encoding.lower() in ("utf-8", "utf8") else self.encoding
        with self.bytes() as (file, _):
            yield io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="")

    def all(self) -> io.BytesIO:
        with self.bytes() as (file, _):
            return io.BytesIO(file.read())

    def failed(self, why: object) -> ValueError:
        return ValueError(f"{self.path.name!r} cannot be read: {why}")


def as_it_is(file: IO[bytes]) -> IO[bytes]:
    """A file that is not packed."""
    return file


def _unzipped(file: IO[bytes]) -> IO[bytes]:
    archive = zipfile.ZipFile(file)
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if len(names) != 1:
        raise OSError(f"it holds {len(names)} files, and an archive must hold one table")
    return archive.open(names[0])


def _zstd(file: IO[bytes]) -> IO[bytes]:
    pa = arrow()
    return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"))


OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _zstd,
    ".zip": _unzipped,
}
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
