"""Parquet files, folders of them and pyarrow datasets, streamed in record batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tamis.data.table import NamedNumbers
from tamis.sources.arrow import arrow
from tamis.sources.base import Block, Source, block_rows

ENDINGS = (".parquet", ".pq")


class ParquetSource(Source):
    """Row groups of one dataset.

    Parameters
    ----------
    data : path of a file or folder, or a pyarrow dataset
    target, weight, groups : names of columns
    columns : the columns of X, by default all others
    """

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
        schema, aside = self.dataset.schema, [name for name in (target, weight, groups) if name is not None]
        wanted = [name for name in schema.names if name not in aside] if columns is None else list(columns)
        for name in (*aside, *wanted):
            if name not in schema.names:
                raise ValueError(f"there is no column {name!r} in {_named(data)}: it has {', '.join(schema.names)}")
        self.names = wanted
        self.dtype = _dtype(schema, wanted)
        self.n_rows = self.dataset.count_rows()

    @property
    def fingerprint(self) -> str:
        files = [(str(f), Path(f).stat().st_size, Path(f).stat().st_mtime_ns) for f in self.dataset.files]
        return f"{super().fingerprint} {self.names} {self.target} {self.weight} {self.groups} {files}"

    @property
    def step(self) -> int:
        """Rows of a block."""
        return block_rows(len(self.names))

    @property
    def aside(self) -> list[str]:
        """Columns that are read beside those of X."""
        return [name for name in (self.target, self.weight, self.groups) if name is not None]

    def blocks(self, start: int = 0) -> Iterator[Block]:
        for number, table in self.tables(start):
            yield self._block(number, table)

    def tables(self, start: int = 0) -> Iterator[tuple[int, Any]]:
        """The blocks as tables of pyarrow, with their numbers."""
        number, step = 0, self.step
        for group, n in self._groups():
            count = -(-n // step)
            if number + count <= start:
                number += count
                continue
            options = {"columns": [*self.names, *self.aside], "schema": self.dataset.schema}
            batches = group.to_batches(batch_size=step, **options)
            for part in _regrouped(batches, step):
                if number >= start:
                    yield number, part
                number += 1

    def _groups(self) -> Iterator[tuple[Any, int]]:
        """The row groups that have rows, and how many."""
        for fragment in self.dataset.get_fragments():
            for group in fragment.split_by_row_group():
                n = group.metadata.row_group(group.row_groups[0].id).num_rows
                if n:
                    yield group, n

    def take(self, positions: np.ndarray, columns: Sequence[str]) -> Any:
        """Some columns of some rows as a table of pyarrow; only the row groups that hold them are read."""
        pa, parts, places, first = arrow(), [], [], 0
        for group, n in self._groups():
            mine = np.flatnonzero((positions >= first) & (positions < first + n))
            if len(mine):
                table = group.to_table(columns=list(columns), schema=self.dataset.schema)
                parts.append(table.take(pa.array(positions[mine] - first)))
                places.append(mine)
            first += n
        return pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(places), kind="stable")))

    def _block(self, number: int, table: Any) -> Block:
        y, weight, groups = (
            None if name is None else values(table.column(name)) for name in (self.target, self.weight, self.groups)
        )
        if self.dtype is not None:
            X = np.empty((len(self.names), len(table)), dtype=self.dtype)
            for row, name in zip(X, self.names, strict=True):
                row[:] = values(table.column(name))
            return Block(number, NamedNumbers(X.T, self.names), y, weight, groups)
        return Block(number, {name: values(table.column(name)) for name in self.names}, y, weight, groups)


def _regrouped(batches: Iterator[Any], step: int) -> Iterator[Any]:
    """Tables of `step` rows (the last has fewer), whatever the sizes of the batches."""
    pa = arrow()
    held: list[Any] = []
    have = 0
    for batch in batches:
        while batch.num_rows:
            piece = batch.slice(0, step - have)
            batch = batch.slice(piece.num_rows)
            held.append(piece)
            have += piece.num_rows
            if have == step:
                yield pa.Table.from_batches(held)
                held, have = [], 0
    if have:
        yield pa.Table.from_batches(held)


def values(column: Any) -> np.ndarray:
    """A column as numbers (NaN: missing) or as objects (None: missing)."""
    pa = arrow()
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_boolean(kind) or _is_text(kind):
        return np.array(column.to_pylist(), dtype=object)
    if pa.types.is_integer(kind) and not column.null_count:
        return column.to_numpy()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        wide = column if pa.types.is_floating(kind) else column.cast(pa.float64(), safe=False)
        return wide.to_numpy()
    raise ValueError(f"a column holds values of the type {kind}: convert it to numbers or text first")


def _is_text(kind: Any) -> bool:
    types = arrow().types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _dtype(schema: Any, names: Sequence[str]) -> str | None:
    """The type that holds all columns if they are numbers, else None."""
    types = arrow().types
    kinds = [schema.field(name).type for name in names]
    if not all(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) for kind in kinds):
        return None
    return "float32" if all(types.is_float32(kind) for kind in kinds) else "float64"


def _opened(data: Any) -> Any:
    pa = arrow()
    if not isinstance(data, str | os.PathLike):
        return data
    path = Path(data)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {str(path)!r}")
    if path.is_file() and path.suffix.lower() not in ENDINGS:
        raise ValueError(
            f"{path.name!r} is no Parquet file: fit reads .parquet files and folders of them; read others with "
            "tamis.io.read, or give an iterator of (X, y) blocks"
        )
    try:
        return pa.dataset.dataset(path, format="parquet")
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path.name!r} cannot be read as Parquet: {error}") from None


def _named(data: Any) -> str:
    return repr(Path(data).name) if isinstance(data, str | os.PathLike) else "the dataset"


def is_parquet(X: Any) -> bool:
    """Whether X is a path, or a dataset of pyarrow."""
    if isinstance(X, str | os.PathLike):
        return True
    return type(X).__module__.startswith("pyarrow._dataset")
