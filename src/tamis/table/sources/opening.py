"""Open what users pass as X as a source of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tamis.table.sources.base import Source, prefetched
from tamis.table.sources.memory import ArraySource, IterableSource, is_blocks, is_large_map
from tamis.table.sources.on_dask import DaskSource, is_dask, mapped
from tamis.table.sources.parquet import ParquetSource, is_parquet
from tamis.table.table import NamedNumbers

IN_BLOCKS = ", or use EM2NOLCClassifier or EM2NOLCClassifierCV, which take rows in blocks"


def source_of(X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Source | None:
    """Return a source if rows come in blocks; None if X is a table in memory.

    Parameters
    ----------
    X : path of a Parquet file or folder, pyarrow dataset, large memory map, function or iterable that gives
        blocks (X, y), Dask array or dataframe
    y, sample_weight, groups : names of columns of files and dataframes, arrays for arrays, None for blocks
    """
    if isinstance(X, Source):
        return X
    if y is not None and (callable(X) or (hasattr(X, "__next__") and hasattr(X, "__iter__"))):
        raise ValueError(
            f"y is given with a {type(X).__name__} of blocks: the blocks contain their labels, leave y out"
        )
    if isinstance(y, str) and not (is_parquet(X) or is_dask(X)):
        what = "a list of paths" if _are_paths(X) else f"a {type(X).__name__}"
        raise ValueError(
            f"y={y!r} is the name of a column, and X is {what}: give the labels themselves, or as X the path of a "
            "Parquet file or of a folder of them"
        )
    if is_parquet(X):
        return ParquetSource(X, *(_name(*pair) for pair in _named(y, sample_weight, groups)))
    if is_dask(X):
        return DaskSource(X, y, sample_weight, groups)
    if is_large_map(X):
        return ArraySource(X, y, sample_weight, groups)
    if is_blocks(X, y):
        for name, value in (("sample_weight", sample_weight), ("groups", groups)):
            if value is not None:
                raise ValueError(
                    f"{name} is given with blocks: put it into them, as tuples (X, y, sample_weight, groups)"
                )
        return IterableSource(X)
    return None


def table_source(X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Source:
    """Return a table in memory as a source."""
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiu":
        return ArraySource(X, y, sample_weight, groups)
    return IterableSource([(X, y, sample_weight, groups)])


def is_in_blocks(X: Any) -> bool:
    """Whether rows are read in blocks."""
    return is_parquet(X) or is_dask(X) or is_large_map(X)


def check_in_memory(X: Any, name: str, instead: str = IN_BLOCKS) -> None:
    """Refuse rows in blocks for the estimator or function `name`, which requires all rows in memory."""
    if is_parquet(X) or is_dask(X) or callable(X):
        raise ValueError(
            f"X is a {type(X).__name__}, and {name} needs all rows in memory: read them with tamis.io.read{instead}"
        )


def each_block(function: Callable[[Any], np.ndarray], X: Any, columns: Sequence[str]) -> Any:
    """Apply `function` to rows in blocks: the result is lazy for Dask, else one array; None if X is a table in memory.

    Only the named `columns` of a file are read; if there are none, the first one, for the number of rows.
    """
    if is_dask(X):
        return mapped(function, X)
    if is_parquet(X):
        source: Source = ParquetSource(X, None, columns=list(columns) or ParquetSource(X, None).names[:1])
    elif is_large_map(X):
        source = ArraySource(X, None)
    elif is_blocks(X, None):
        raise ValueError(f"X is a {type(X).__name__} of blocks: give the rows of one block at a time")
    else:
        return None
    parts = [function(by_name(block.X)) for block in prefetched(source.blocks())]
    if not parts:
        raise ValueError("X has no rows")
    return np.concatenate(parts)


def by_name(X: Any) -> Any:
    """Return a dict of columns if they have names, else X."""
    return dict(zip(X.columns, X.values.T, strict=True)) if isinstance(X, NamedNumbers) else X


def _are_paths(X: Any) -> bool:
    return isinstance(X, list | tuple) and bool(X) and all(is_parquet(path) for path in X)


def _named(y: Any, sample_weight: Any, groups: Any) -> list[tuple[str, Any]]:
    if y is None:
        raise ValueError("y is None: name the column of X to predict, such as fit('rows.parquet', 'label')")
    return [("y", y), ("sample_weight", sample_weight), ("groups", groups)]


def _name(parameter: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{parameter} is a {type(value).__name__}: with a file as X it must be the name of a column")
    return value
