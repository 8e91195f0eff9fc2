"""Parquet files, folders of them and pyarrow datasets, streamed in record batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tamis.table.sources.arrow import arrow
from tamis.table.sources.base import Block, Source, block_rows
from tamis.table.table import NamedNumbers

ENDINGS = (".parquet", ".pq")
BUFFER_BYTES = 1 << 20  # of a column, read at a time
INDEX_PREFIX = "__index_level_"  # of the names of columns that are the index of a DataFrame


class ParquetSource(Source):
    """Blocks of the row groups of one dataset.

    Parameters
    ----------
    data : path of a file or folder, or a pyarrow dataset
    target, weight, groups : names of columns
    columns : the columns of X, by default all others
    """

    prefetches = True

    def __init__(
        self,
        data: Any,
        target: str | None,
        weight: str | None = None,
        groups: str | None = None,
        columns: Sequence[str] | None = None,
    ):
        self.dataset = _opened(data)
        roles = [name for name in (target, weight, groups) if name is not None]
        twice = sorted({name for name in roles if roles.count(name) > 1})
        if twice:
            raise ValueError(f"the column {twice[0]!r} is named for two roles among y, sample_weight and groups")
        self.target, self.weight, self.groups = target, weight, groups
        schema, aside = self.dataset.schema, [name for name in (target, weight, groups) if name is not None]
        free = [name for name in schema.names if name not in aside and not name.startswith(INDEX_PREFIX)]
        wanted = free if columns is None else list(columns)
        for name in (*aside, *wanted):
            if name not in schema.names:
                raise ValueError(f"there is no column {name!r} in {_named(data)}: it has {', '.join(schema.names)}")
        self.names = wanted
        self.categorical = [name for name in wanted if not _is_number(schema.field(name).type)]
        self.dtype = _dtype(schema, wanted)
        self.n_rows = self.dataset.count_rows()

    @property
    def fingerprint(self) -> str:
        found = self.dataset.filesystem.get_file_info(self.dataset.files)
        files = [(file.path, file.size, file.mtime_ns) for file in found]
        return f"{super().fingerprint} {self.names} {self.target} {self.weight} {self.groups} {files}"

    @property
    def step(self) -> int:
        """Number of rows of a block."""
        return block_rows(len(self.names))

    @property
    def aside(self) -> list[str]:
        """Columns that are not part of X: target, weights and groups."""
        return [name for name in (self.target, self.weight, self.groups) if name is not None]

    def blocks(self, start: int = 0) -> Iterator[Block]:
        for number, table in self.tables(start):
            yield self._block(number, table)

    def tables(self, start: int = 0) -> Iterator[tuple[int, Any]]:
        """Iterate over the numbers and pyarrow tables of the blocks."""
        number, step = 0, self.step
        for read, n in self._groups():
            count = -(-n // step)
            if number + count <= start:
                number += count
                continue
            for part in _regrouped(read([*self.names, *self.aside], step), step):
                if number >= start:
                    yield number, part
                number += 1

    def _groups(self) -> Iterator[tuple[Callable[[Sequence[str], int], Iterator[Any]], int]]:
        """Iterate over the row groups that have rows, as a function that reads batches and the number of rows."""
        pa = arrow()
        for fragment in self.dataset.get_fragments():
            options = {"filesystem": fragment.filesystem, "buffer_size": BUFFER_BYTES, "pre_buffer": False}
            file = pa.parquet.ParquetFile(fragment.path, **options)
            keys = pa.dataset.get_partition_keys(fragment.partition_expression)
            for group in fragment.row_groups:
                if group.num_rows:
                    yield partial(self._read, file, keys, group.id), group.num_rows

    def _read(self, file: Any, keys: Mapping[str, Any], group: int, columns: Sequence[str], step: int) -> Iterator[Any]:
        """Iterate over the batches of a row group; columns that the file lacks are partitions or missing."""
        pa, schema = arrow(), self.dataset.schema
        own = [name for name in columns if name in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size=step, row_groups=[group], columns=own, use_threads=False):
            arrays = []
            for name in columns:
                kind = schema.field(name).type
                if name in own:
                    arrays.append(batch.column(name).cast(kind))
                elif name in keys:
                    arrays.append(pa.repeat(pa.scalar(keys[name], kind), batch.num_rows))
                else:
                    arrays.append(pa.nulls(batch.num_rows, kind))
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def take(self, positions: np.ndarray, columns: Sequence[str]) -> Any:
        """Return columns of the rows at `positions` as a pyarrow table; only their row groups are read."""
        pa, parts, places, first = arrow(), [], [], 0
        for read, n in self._groups():
            if np.any((positions >= first) & (positions < first + n)):
                start = first
                for batch in read(columns, self.step):
                    mine = np.flatnonzero((positions >= start) & (positions < start + batch.num_rows))
                    parts.append(pa.Table.from_batches([batch]).take(pa.array(positions[mine] - start)))
                    places.append(mine)
                    start += batch.num_rows
            first += n
        return pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))

    def _block(self, number: int, table: Any) -> Block:
        y, weight, groups = (
            None if name is None else _column(table, name) for name in (self.target, self.weight, self.groups)
        )
        y = None if y is None else _labels(y, str(self.target))
        if weight is not None and weight.dtype == object:
            raise ValueError(f"sample_weight={self.weight!r} is a column of text: weights must be numbers")
        if self.dtype is not None:
            X = np.empty((len(self.names), len(table)), dtype=self.dtype)
            for row, name in zip(X, self.names, strict=True):
                row[:] = _column(table, name)
            return Block(number, NamedNumbers(X.T, self.names), y, weight, groups)
        return Block(number, {name: _column(table, name) for name in self.names}, y, weight, groups)


def _regrouped(batches: Iterator[Any], step: int) -> Iterator[Any]:
    """Cut batches of any size into tables of `step` rows; the last one may have fewer."""
    pa = arrow()
    pieces: list[Any] = []
    n_rows = 0
    for batch in batches:
        while batch.num_rows:
            piece = batch.slice(0, step - n_rows)
            batch = batch.slice(piece.num_rows)
            pieces.append(piece)
            n_rows += piece.num_rows
            if n_rows == step:
                yield pa.Table.from_batches(pieces)
                pieces, n_rows = [], 0
    if n_rows:
        yield pa.Table.from_batches(pieces)


def _column(table: Any, name: str) -> np.ndarray:
    try:
        return values(table.column(name))
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from None


def _labels(y: np.ndarray, name: str) -> np.ndarray:
    """Return class labels, booleans as such; refuse missing cells."""
    missing = [v is None for v in y.tolist()] if y.dtype == object else np.isnan(y) if y.dtype.kind == "f" else []
    if np.any(missing):
        raise ValueError(f"the target {name!r} has missing cells: drop these rows")
    return y.astype(bool) if y.dtype == object and all(isinstance(v, bool) for v in y.tolist()) else y


def values(column: Any) -> np.ndarray:
    """Return a column as numbers (NaN: missing) or as objects (None: missing)."""
    pa = arrow()
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind) or _is_text(kind):
        return np.array(column.to_pylist(), dtype=object)
    if pa.types.is_integer(kind) and not column.null_count:
        return column.to_numpy()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        wide = column if pa.types.is_floating(kind) else column.cast(pa.float64(), safe=False)
        return wide.to_numpy()
    raise ValueError(f"values of the type {kind} must be converted to numbers or text first")


def _is_text(kind: Any) -> bool:
    types = arrow().types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _dtype(schema: Any, names: Sequence[str]) -> str | None:
    """Return the type for all columns if they are numbers, else None."""
    kinds = [schema.field(name).type for name in names]
    if not all(map(_is_number, kinds)):
        return None
    return "float32" if all(map(arrow().types.is_float32, kinds)) else "float64"


def _is_number(kind: Any) -> bool:
    types = arrow().types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)


def _opened(data: Any) -> Any:
    pa = arrow()
    if not isinstance(data, str | os.PathLike):
        if getattr(getattr(data, "format", None), "default_extname", "") != "parquet":
            raise ValueError("X is a dataset of pyarrow that is not of Parquet files: write it as Parquet first")
        return data
    path = Path(data)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    if path.is_file() and path.suffix.lower() not in ENDINGS:
        raise ValueError(
            f"{path.name!r} is not a Parquet file: fit reads .parquet files and folders of them; read others with "
            "tamis.io.read, or give an iterator of (X, y) blocks"
        )
    try:
        return _unified(path, _files(path))
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path.name!r} cannot be read as Parquet: {error}") from None


def _files(path: Path) -> Any:
    """Return a file, or the Parquet files of a folder and its subfolders, by name; hidden ones are left out."""
    if path.is_file():
        return str(path)
    inside = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in ENDINGS and file.is_file()]
    found = [str(file) for file in inside if not any(p[0] in "._" for p in file.relative_to(path).parts)]
    if not found:
        raise ValueError(f"the folder {path.name!r} has no Parquet files ({', '.join(ENDINGS)})")
    return found


def _unified(path: Path, files: Any) -> Any:
    """Return a dataset with the columns of all files; integers become floats where some file has floats."""
    pa, kind = arrow(), {"format": "parquet", "partitioning": "hive"}
    dataset = pa.dataset.dataset(files, **kind)
    schema = dataset.schema
    for fragment in dataset.get_fragments():
        try:
            schema = pa.unify_schemas([schema, fragment.physical_schema], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            name = Path(fragment.path).name
            raise ValueError(f"{name!r} does not fit the other files of {path.name!r}: {error}") from None
    return pa.dataset.dataset(files, schema=schema, **kind)


def _named(data: Any) -> str:
    return repr(Path(data).name) if isinstance(data, str | os.PathLike) else "the dataset"


def is_parquet(X: Any) -> bool:
    """Whether X is a path, or a dataset of pyarrow."""
    if isinstance(X, str | os.PathLike):
        return True
    return type(X).__module__.startswith("pyarrow._dataset")
