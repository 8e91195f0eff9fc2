"""Tables as dicts of numpy columns: floats for numbers, objects (text or None) for the rest."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tamis.io.readers import Raw, open_raw
from tamis.table.sources.parquet import arrow, column_values, is_text

MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "#N/A", "?", "."})
DECLARED = {"text": "given", "number": "number", "date": "date"}  # what a file says of a column, and how it is read
FLAGS = ("true", "false")  # in small letters in every table, however a file writes them
LEADING_ZERO = re.compile(r"[+-]?0\d+")
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")


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
            kind = "text" if name in text else DECLARED.get(raw.declared.get(name, ""), "any")
            columns[name] = _typed(raw, table.column(k), name, kind, missing)
    columns.categorical = tuple(name for name in columns if raw.declared.get(name) == "text")
    return columns


def _typed(raw: Raw, cells: Any, name: str, kind: str, missing: Collection[str], first: int = 1) -> np.ndarray:
    """A column as "text", "flag", "number", "date", "given" or "any", which means numbers if all its cells are some.

    `first` is the number of its first row in the file.
    """
    if kind == "text" and arrow().types.is_integer(cells.type):  # a float could not tell long ids apart
        return levels(np.array(cells.to_pylist(), dtype=object))
    if kind in ("number", "any") and is_text(cells.type):
        found = _cast(cells, missing)
        if found is not None:
            return found
    values = _values(cells, name, missing)
    if kind == "text":
        return levels(values)
    if kind == "flag":
        return flags(values)
    if kind == "date":
        known = np.array([v is not None for v in values])
        return np.where(known, np.datetime64(0, "D"), np.datetime64("NaT", "D"))
    if kind == "number" and values.dtype.kind in "mM":
        raise ValueError(f"column {name!r} holds dates, and was a number when the model was fitted")
    if values.dtype != object or kind == "given" or (kind == "any" and not is_text(cells.type)):
        return values
    found = numbers(values, raw.comma)
    if found is None and kind == "number":
        row = next(k for k, v in enumerate(values) if v is not None and number(v, raw.comma) is None)
        why = ", and the file declares it one" if name in raw.declared else ""
        raise ValueError(f"row {first + row}: {values[row]!r} in column {name!r} is not a number{why}")
    return values if found is None else found


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
    return np.asarray(floats)


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


def _values(cells: Any, name: str, missing: Collection[str]) -> np.ndarray:
    """A column: floats, dates, or objects with None for missing cells."""
    types, kind = arrow().types, cells.type
    if types.is_dictionary(kind):
        return _values(cells.cast(kind.value_type), name, missing)
    if is_text(kind):
        return cleaned(cells.to_pylist(), MISSING | set(missing))
    if types.is_temporal(kind) and not types.is_duration(kind) and not types.is_time(kind):
        return np.asarray(cells.cast(arrow().timestamp("us")))
    if types.is_boolean(kind):
        return levels(np.array(cells.to_pylist(), dtype=object))
    return column_values(cells, name).astype(float)


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
                columns[name] = _typed(raw, cells, name, kind, missing, first)
        yield batch, columns
        first += batch.num_rows


def header(path: str | os.PathLike, encoding: str = "utf-8") -> list[str]:
    """Names of the columns of a file."""
    return open_raw(Path(path), encoding).names


# ---------------------------------------------------------------------- cells


def number(text: str, comma: bool = False) -> float | None:
    """The number that a text means, or None; `comma` allows a decimal comma."""
    if LEADING_ZERO.fullmatch(text):
        return None  # a code
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return float(text.replace(",", ".")) if comma and DECIMAL_COMMA.fullmatch(text) else None


def level(value: Any) -> str | None:
    """The text of a category: whole numbers without a decimal point, booleans in small letters."""
    if value is None or value != value:
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return flag(str(value))


def flag(text: str) -> str:
    """Text, but "true" and "false" in small letters."""
    return text.lower() if text.lower() in FLAGS else text


def numbers(texts: np.ndarray, comma: bool = False) -> np.ndarray | None:
    """Text cells as floats, NaN for None; or None if some cell is not a number."""
    known: dict[str | None, float] = {None: np.nan}
    for text in set(texts.tolist()) - {None}:
        value = number(text, comma)
        if value is None:
            return None
        known[text] = value
    return np.fromiter((known[text] for text in texts.tolist()), dtype=float, count=len(texts))


def cleaned(texts: list[str | None], marks: Collection[str]) -> np.ndarray:
    """Stripped text, None where a cell is one of the marks of missing values."""
    known: dict[str | None, str | None] = {None: None}
    for text in set(texts) - {None}:
        bare = str(text).strip()
        known[text] = None if bare in marks else flag(bare)
    out = np.empty(len(texts), dtype=object)
    out[:] = [known[text] for text in texts]
    return out
