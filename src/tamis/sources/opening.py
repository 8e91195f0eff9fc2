"""From what a user gives as X to a source of blocks."""

from __future__ import annotations

from typing import Any

from tamis.sources.arrays import ArraySource, is_large_map
from tamis.sources.base import Source
from tamis.sources.iterables import IterableSource, is_blocks
from tamis.sources.parquet import ParquetSource, is_parquet


def source_of(X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Source | None:
    """A source where rows come in blocks; None where X is a table in memory.

    Parameters
    ----------
    X : path of a Parquet file or folder, pyarrow dataset, large memory map, function or iterable that gives
        blocks (X, y), Dask array or dataframe
    y, sample_weight, groups : names of columns of files and dataframes, arrays beside arrays, None for blocks
    """
    if isinstance(X, Source):
        return X
    if is_parquet(X):
        return ParquetSource(X, *(_name(*pair) for pair in _named(y, sample_weight, groups)))
    if is_large_map(X):
        return ArraySource(X, y, sample_weight, groups)
    if is_blocks(X, y):
        return IterableSource(X)
    return None


def _named(y: Any, sample_weight: Any, groups: Any) -> list[tuple[str, Any]]:
    if y is None:
        raise ValueError("y is None: name the column of X to predict, such as fit('rows.parquet', 'label')")
    return [("y", y), ("sample_weight", sample_weight), ("groups", groups)]


def _name(parameter: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{parameter} is a {type(value).__name__}: with a file as X it must be the name of a column")
    return value
