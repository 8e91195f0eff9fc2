"""Writing tables block by block: CSV, TSV, Parquet, JSON or JSON lines; a file appears whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tamis.codec import replacing
from tamis.errors import BadOption
from tamis.table.sources.parquet import arrow

Write = Callable[[Any], None]  # takes a record batch


@contextmanager
def writing(path: Path) -> Iterator[Write]:
    """A function that appends record batches to a file, whose ending says its kind."""
    kind = path.suffix.lower()
    if kind not in WRITERS:
        raise BadOption(f"{path.name!r} is of no known kind: write to {', '.join(WRITERS)}")
    with replacing(path) as temporary, temporary.open("wb") as file, streaming(file, kind) as write:
        yield write


def streaming(file: IO[bytes], kind: str) -> Any:
    """A context with a function that appends record batches to an open file."""
    return WRITERS[kind](file)


@contextmanager
def _delimited(file: IO[bytes], delimiter: str) -> Iterator[Write]:
    pa = arrow()
    started = False

    def rows(batch: Any, quoting: str) -> bytes:
        sink = pa.BufferOutputStream()
        options = pa.csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style=quoting)
        pa.csv.write_csv(batch, sink, options)
        return sink.getvalue().to_pybytes()

    def write(batch: Any) -> None:
        nonlocal started
        if not started:
            header = io.StringIO()
            csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(batch.schema.names)
            file.write(header.getvalue().encode("utf-8", "replace"))
            started = True
        try:
            file.write(rows(batch, "none"))
        except pa.ArrowInvalid:  # some cell holds a delimiter, a quotation mark or a line break
            file.write(rows(batch, "needed"))

    yield write


@contextmanager
def _parquet(file: IO[bytes]) -> Iterator[Write]:
    writer: Any = None

    def write(batch: Any) -> None:
        nonlocal writer
        writer = writer or arrow().parquet.ParquetWriter(file, batch.schema)
        writer.write_batch(batch)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


@contextmanager
def _json(file: IO[bytes], before: bytes, between: bytes, after: bytes) -> Iterator[Write]:
    """Records with something before the first, between two and after the last."""
    rows = 0

    def write(batch: Any) -> None:
        nonlocal rows
        for record in batch.to_pylist():
            file.write(between if rows else before)
            file.write(json.dumps(_plain(record), ensure_ascii=False, default=str).encode("utf-8", "replace"))
            rows += 1

    yield write
    file.write((b"" if rows else before) + after)


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """NaN and infinity, which JSON does not have, as null."""
    return {k: None if isinstance(v, float) and v - v != 0 else v for k, v in record.items()}


WRITERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".csv": lambda file: _delimited(file, ","),
    ".tsv": lambda file: _delimited(file, "\t"),
    ".parquet": _parquet,
    ".json": lambda file: _json(file, b"[\n", b",\n", b"\n]\n"),
    ".jsonl": lambda file: _json(file, b"", b"\n", b"\n"),
}
