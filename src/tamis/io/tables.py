"""Tables as dicts of numpy columns: floats for numbers, objects (text or None) for the rest."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tamis.io.cells import MISSING, cleaned, level, number, numbers
from tamis.io.formats import Raw, arrow, open_raw


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

    Returns
    -------
    {name: values}; floats where every cell is a number (NaN: missing), else objects (None: missing); dates
    of typed files as numpy dates
    """
    raw = open_raw(Path(path), encoding)
    names = [name for name in raw.names if name not in raw.aside or name in text]
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for batch in raw.batches:
        for name in names:
            parts[name].append(_values(batch.column(raw.names.index(name)), name, missing))
    if not parts or not next(iter(parts.values())):
        raise ValueError(f"{Path(path).name!r} has no rows below its header")
    joined = {name: _joined(values) for name, values in parts.items()}
    columns = Columns({name: _typed(name, values, name in text, raw) for name, values in joined.items()})
    columns.categorical = tuple(name for name in names if raw.declared.get(name) == "text")
    return columns


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    if len({part.dtype.kind for part in parts}) > 1:
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts)


def _typed(name: str, values: np.ndarray, as_text: bool, raw: Raw) -> np.ndarray:
    if as_text:
        return levels(values)
    if values.dtype != object or raw.declared.get(name) == "text" or not _all_text(values):
        return values
    found = numbers(values)
    if found is None and raw.declared.get(name) == "number":
        row = next(k for k, v in enumerate(values) if v is not None and number(v) is None)
        raise ValueError(f"column {name!r} is declared a number, and row {row + 1} holds {values[row]!r}")
    return values if found is None else found


def _all_text(values: np.ndarray) -> bool:
    return all(v is None or isinstance(v, str) for v in values)


def levels(values: np.ndarray) -> np.ndarray:
    """Any column as text."""
    out = np.empty(len(values), dtype=object)
    out[:] = [level(v) for v in values.tolist()]
    return out


def _values(column: Any, name: str, missing: Collection[str]) -> np.ndarray:
    """A column of a batch: floats, dates, or objects with None for missing cells."""
    pa = arrow()
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _values(column.dictionary_decode(), name, missing)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
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
    kinds : {name: "number" or "text"} of the columns to interpret; a cell that is not of its kind is refused

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
                values = _values(batch.column(raw.names.index(name)), name, missing)
                columns[name] = levels(values) if kind == "text" else _as_numbers(values, name, first)
        yield batch, columns
        first += batch.num_rows


def header(path: str | os.PathLike, encoding: str = "utf-8") -> list[str]:
    """Names of the columns of a file."""
    return open_raw(Path(path), encoding).names


def _as_numbers(values: np.ndarray, name: str, first: int) -> np.ndarray:
    if values.dtype != object:
        if values.dtype.kind in "mM":
            raise ValueError(f"column {name!r} holds dates, and was a number when the model was fitted")
        return values
    found = numbers(values)
    if found is not None:
        return found
    row = next(k for k, v in enumerate(values) if v is not None and number(v) is None)
    raise ValueError(f"row {first + row}: {values[row]!r} in column {name!r} is not a number")
