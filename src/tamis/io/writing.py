"""Writing tables block by block: CSV, TSV, Parquet, JSON or JSON lines; a file appears whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tamis.codec import replacing
from tamis.errors import BadOption
from tamis.io.formats import arrow

Write = Callable[[Any], None]  # takes a record batch
KINDS = (".csv", ".tsv", ".parquet", ".jsonl", ".json")


@contextmanager
def writing(path: Path) -> Iterator[Write]:
    """A function that appends record batches to a file, whose ending says its kind."""
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise BadOption(f"{path.name!r} is of no known kind: write to {', '.join(KINDS)}")
    with replacing(path) as temporary, temporary.open("wb") as file, streaming(file, kind) as write:
        yield write


@contextmanager
def streaming(file: IO[bytes], kind: str) -> Iterator[Write]:
    """A function that appends record batches to an open file."""
    pa = arrow()
    writer: Any = None
    rows = 0

    def write(batch: Any) -> None:
        nonlocal writer
        nonlocal rows
        if kind in (".jsonl", ".json"):
            for record in batch.to_pylist():
                if kind == ".json":
                    file.write(b",\n" if rows else b"[\n")
                file.write(json.dumps(_plain(record), ensure_ascii=False, default=str).encode("utf-8", "replace"))
                file.write(b"\n" if kind == ".jsonl" else b"")
                rows += 1
            return
        if writer is None and kind == ".parquet":
            writer = pa.parquet.ParquetWriter(file, batch.schema)
        elif writer is None:
            options = pa.csv.WriteOptions(delimiter="\t" if kind == ".tsv" else ",")
            writer = pa.csv.CSVWriter(file, batch.schema, write_options=options)
        writer.write_batch(batch)

    try:
        yield write
        if kind == ".json":
            file.write(b"\n]\n" if rows else b"[]\n")
    finally:
        if writer is not None:
            writer.close()


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(v, float) and v != v else v for name, v in record.items()}
