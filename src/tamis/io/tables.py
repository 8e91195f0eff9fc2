"""Tables as dicts of numpy columns: floats for numbers, objects (text or None) for the rest."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tamis.io.cells import MISSING, cleaned, level, number, numbers
from tamis.io.formats import open_raw
from tamis.io.opening import Raw
from tamis.table.sources.arrow import arrow


class Columns(dict[str, np.ndarray]):
    """Columns by name; `categorical` are those that the file declares to be categories."""

    categorical: tuple[str, ...] = ()


def read(
    path: str | os.PathLike, *, text: Collection[str] = (), missing: Collection[str] = (), encoding: str = "utf-8"
) -> Columns:
    """Read a whole table.

    Parameters
    ----------
    path : .csv, .tsv, .txt, .parquet, .arff or .npz, or one of these with .gz, .bz2, .xz, .zst or .zip
    text : columns to read as text whatever they look like
    missing : cells that mean a missing value, besides the usual marks (empty, NA, NaN, NULL, ?, ...)
    encoding : of text files

    Returns
    -------
    {name: values}; floats where every cell is a number (NaN: missing), else objects (None: missing); dates
    of typed files as numpy dates
    """
    raw = open_raw(Path(path), encoding)
    batches = list(raw.batches)
    if not sum(batch.num_rows for batch in batches):
        raise ValueError(f"{Path(path).name!r} has no rows below its header")
    table = arrow().Table.from_batches(batches)
    del batches
    columns = Columns()
    for k, name in enumerate(raw.names):
        if name not in raw.aside or name in text:
            columns[name] = _typed(raw, name, table.column(k), name in text, missing)
    columns.categorical = tuple(name for name in columns if raw.declared.get(name) == "text")
    return columns


def _typed(raw: Raw, name: str, column: Any, as_text: bool, missing: Collection[str]) -> np.ndarray:
    declared = raw.declared.get(name)
    if as_text and arrow().types.is_integer(column.type):  # a float could not tell long ids apart
        return levels(np.array(column.to_pylist(), dtype=object))
    if as_text:
        return levels(_values(column, name, missing))
    if declared == "date":
        known = np.array([v is not None for v in _values(column, name, missing)])
        return np.where(known, np.datetime64(0, "D"), np.datetime64("NaT", "D"))
    if _is_text(column.type) and declared != "text":
        found = _cast(column, missing)
        if found is not None:
            return found
    values = _values(column, name, missing)
    if values.dtype != object or declared == "text" or not _is_text(column.type):
        return values
    found = numbers(values, raw.comma)
    if found is None and declared == "number":
        row = next(k for k, v in enumerate(values) if v is not None and number(v) is None)
        raise ValueError(f"column {name!r} is declared a number, and row {row + 1} holds {values[row]!r}")
    return values if found is None else found


def _is_text(kind: Any) -> bool:
    pa = arrow()
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view"


def _cast(column: Any, missing: Collection[str]) -> np.ndarray | None:
    """Text as floats by the quick way; None if some cell needs a closer look."""
    pa = arrow()
    pc = pa.compute
    trimmed = pc.utf8_trim_whitespace(column)
    gaps = pc.is_in(trimmed, value_set=pa.array(sorted(MISSING | set(missing))))
    if pc.any(pc.match_substring_regex(trimmed, r"^[+-]?0[0-9]")).as_py():
        return None  # codes
    try:
        floats = pc.cast(pc.if_else(gaps, None, trimmed), pa.float64())
    except pa.ArrowInvalid:
        return None
    return floats.to_numpy(zero_copy_only=False).astype(float) if isinstance(floats, pa.Array) else floats.to_numpy()


def levels(values: np.ndarray) -> np.ndarray:
    """Any column as text."""
    out = np.empty(len(values), dtype=object)
    out[:] = [level(v) for v in values.tolist()]
    return out


def flags(values: np.ndarray) -> np.ndarray:
    """Any column as True, False and None."""
    out = np.empty(len(values), dtype=object)
    out[:] = [{"true": True, "false": False}.get(str(level(v))) for v in values.tolist()]
    return out


def _values(column: Any, name: str, missing: Collection[str]) -> np.ndarray:
    """A column of a batch: floats, dates, or objects with None for missing cells."""
    pa = arrow()
    kind = column.type
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(kind):
        return _values(column.dictionary_decode(), name, missing)
    if _is_text(kind):
        return cleaned(column.to_pylist(), MISSING | set(missing))
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind) and not pa.types.is_time(kind):
        return column.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(kind):
        return levels(np.array(column.to_pylist(), dtype=object))
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(float)
    raise ValueError(f"column {name!r} holds values of the type {kind}: convert it to numbers or text first")


def blocks(
    path: str | os.PathLike, kinds: Mapping[str, str], *, missing: Collection[str] = (), encoding: str = "utf-8"
) -> Iterator[tuple[Any, Columns]]:
    """Read a table of any size block by block.

    Parameters
    ----------
    path : as in `read`
    kinds : {name: "number", "text" or "flag"} of the columns to interpret; a cell that is not a number is refused
    missing, encoding : as in `read`

    Yields
    ------
    batch, columns : the block as it stands in the file (a pyarrow record batch), and the named columns
    """
    raw = open_raw(Path(path), encoding)
    first = 1
    for batch in raw.batches:
        columns = Columns()
        for name, kind in kinds.items():
            if name in raw.names:
                cells = batch.column(raw.names.index(name))
                columns[name] = _block(raw, cells, name, kind, missing, first)
        yield batch, columns
        first += batch.num_rows


def _block(raw: Raw, cells: Any, name: str, kind: str, missing: Collection[str], first: int) -> np.ndarray:
    found = _cast(cells, missing) if kind == "number" and _is_text(cells.type) else None
    if found is not None:
        return found
    if kind == "text" and arrow().types.is_integer(cells.type):
        return levels(np.array(cells.to_pylist(), dtype=object))
    values = _values(cells, name, missing)
    if kind == "flag":
        return flags(values)
    return levels(values) if kind == "text" else _as_numbers(values, name, first, raw.comma)


def header(path: str | os.PathLike, encoding: str = "utf-8") -> list[str]:
    """Names of the columns of a file."""
    return open_raw(Path(path), encoding).names


def _as_numbers(values: np.ndarray, name: str, first: int, comma: bool) -> np.ndarray:
    if values.dtype != object:
        if values.dtype.kind in "mM":
            raise ValueError(f"column {name!r} holds dates, and was a number when the model was fitted")
        return values
    found = numbers(values, comma)
    if found is not None:
        return found
    row = next(k for k, v in enumerate(values) if v is not None and number(v, comma) is None)
    raise ValueError(f"row {first + row}: {values[row]!r} in column {name!r} is not a number")
