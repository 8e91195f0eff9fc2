"""Parquet files, folders of them and pyarrow datasets, streamed in record batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tamis.table.sources.source import Block, Source, block_rows
from tamis.table.table import NamedNumbers

ENDINGS = (".parquet", ".pq")
BUFFER_BYTES = 1 << 20  # of a column, read at a time
INDEX_PREFIX = "__index_level_"  # of the names of columns that are the index of a DataFrame


def arrow() -> Any:
    """Return pyarrow; if it is missing, raise an error with the command that installs it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError:
        raise ImportError("reading tables needs pyarrow: pip install 'tamis[io]'") from None
    return pyarrow


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
        self.target, self.weight, self.groups = target, weight, groups
        self.aside = [name for name in (target, weight, groups) if name is not None]  # columns that are not part of X
        twice = sorted({name for name in self.aside if self.aside.count(name) > 1})
        if twice:
            raise ValueError(f"the column {twice[0]!r} is named for two roles among y, sample_weight and groups")
        schema = self.dataset.schema
        free = [name for name in schema.names if name not in self.aside and not name.startswith(INDEX_PREFIX)]
        self.names = free if columns is None else list(columns)
        for name in (*self.aside, *self.names):
            if name not in schema.names:
                where = repr(Path(data).name) if isinstance(data, str | os.PathLike) else "the dataset"
                raise ValueError(f"there is no column {name!r} in {where}: it has {', '.join(schema.names)}")
        kinds = [schema.field(name).type for name in self.names]
        self.categorical = [name for name, kind in zip(self.names, kinds, strict=True) if not _is_number(kind)]
        single = all(map(arrow().types.is_float32, kinds))
        self.dtype = None if self.categorical else "float32" if single else "float64"  # of X, where it is numbers
        self.n_rows = self.dataset.count_rows()
        self.step = block_rows(len(self.names))

    @property
    def fingerprint(self) -> str:
        found = self.dataset.filesystem.get_file_info(self.dataset.files)
        files = [(file.path, file.size, file.mtime_ns) for file in found]
        return f"{super().fingerprint} {self.names} {self.target} {self.weight} {self.groups} {files}"

    def only(self, names: Sequence[str]) -> ParquetSource:
        fewer = copy(self)
        fewer.names = [name for name in self.names if name in set(names)]
        return fewer

    def blocks(self, start: int = 0) -> Iterator[Block]:
        for number, table in self.tables(start):
            yield self._block(number, table)

    def tables(self, start: int = 0) -> Iterator[tuple[int, Any]]:
        """Iterate over the numbers and pyarrow tables of the blocks."""
        number = 0
        for read, n in self._groups():
            count = -(-n // self.step)
            if number + count <= start:
                number += count
                continue
            for part in _regrouped(read([*self.names, *self.aside]), self.step):
                if number >= start:
                    yield number, part
                number += 1

    def _groups(self) -> Iterator[tuple[Callable[[Sequence[str]], Iterator[Any]], int]]:
        """Iterate over the row groups that have rows: a function that reads batches, and the number of rows."""
        pa = arrow()
        for fragment in self.dataset.get_fragments():
            options = {"filesystem": fragment.filesystem, "buffer_size": BUFFER_BYTES, "pre_buffer": False}
            file = pa.parquet.ParquetFile(fragment.path, **options)
            keys = pa.dataset.get_partition_keys(fragment.partition_expression)
            for group in fragment.row_groups:
                if group.num_rows:
                    yield partial(self._batches, file, keys, group.id), group.num_rows

    def _batches(self, file: Any, keys: Mapping[str, Any], group: int, columns: Sequence[str]) -> Iterator[Any]:
        """Iterate over the batches of a row group; columns that the file lacks are partitions or missing.

        A scanner of pyarrow would hold the whole row group.
        """
        pa, schema = arrow(), self.dataset.schema
        own = [name for name in columns if name in file.schema_arrow.names]
        read = {"batch_size": self.step, "row_groups": [group], "columns": own, "use_threads": False}
        for batch in file.iter_batches(**read):
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
        if not len(positions):
            return pa.schema([self.dataset.schema.field(name) for name in columns]).empty_table()
        for read, n in self._groups():
            if np.any((positions >= first) & (positions < first + n)):
                start = first
                for batch in read(columns):
                    mine = np.flatnonzero((positions >= start) & (positions < start + batch.num_rows))
                    parts.append(pa.Table.from_batches([batch]).take(pa.array(positions[mine] - start)))
                    places.append(mine)
                    start += batch.num_rows
            first += n
        return pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))

    def _block(self, number: int, table: Any) -> Block:
        roles = (self.target, self.weight, self.groups)
        y, weight, groups = (None if name is None else column_values(table.column(name), name) for name in roles)
        y = None if y is None else _labels(y, str(self.target))
        if weight is not None and weight.dtype == object:
            raise ValueError(f"sample_weight={self.weight!r} is a column of text: weights must be numbers")
        columns = (column_values(table.column(name), name) for name in self.names)
        if self.dtype is None:
            return Block(number, dict(zip(self.names, columns, strict=True)), y, weight, groups)
        X = np.empty((len(self.names), len(table)), dtype=self.dtype)
        for row, column in zip(X, columns, strict=True):
            row[:] = column
        return Block(number, NamedNumbers(X.T, self.names), y, weight, groups)


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


def _labels(y: np.ndarray, name: str) -> np.ndarray:
    """Return class labels, booleans as such; refuse missing cells."""
    missing = [v is None for v in y.tolist()] if y.dtype == object else np.isnan(y) if y.dtype.kind == "f" else []
    if np.any(missing):
        raise ValueError(f"the target {name!r} has missing cells: drop these rows")
    return y.astype(bool) if y.dtype == object and all(isinstance(v, bool) for v in y.tolist()) else y


def column_values(column: Any, name: str) -> np.ndarray:
    """Return a column of a table as numbers (NaN: missing) or as objects (None: missing)."""
    pa = arrow()
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind) or is_text(kind):
        return np.array(column.to_pylist(), dtype=object)
    if not _is_number(kind):
        raise ValueError(f"column {name!r} holds values of the type {kind}: convert it to numbers or text first")
    exact = pa.types.is_floating(kind) or (pa.types.is_integer(kind) and not column.null_count)
    return np.asarray(column if exact else column.cast(pa.float64(), safe=False))


def is_text(kind: Any) -> bool:
    """Whether a type of pyarrow is text."""
    types = arrow().types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


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
