"""Rows in numbered blocks that can be read again: how they are opened, and totals over them.

Whatever is summed over rows is a `total`: make a zero, add every block to it, and add up what several workers have. A
source in this process iterates over its blocks; one on a cluster does the same on its workers and adds up in a tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from tamis.arrays import is_tensor, to_numpy
from tamis.parallel import available_cores, thread_map
from tamis.progress import report
from tamis.table.table import NamedNumbers, count_rows, source_kind

BLOCK_CELLS = 1 << 23  # numbers in one block
FIRST_ROWS = 1 << 17  # rows of an iterator that can be read twice
SUMMED_TOGETHER = 8  # sums of items for each core that are in memory at a time

M = TypeVar("M")  # a total: statistics, arrays or anything else that can be added
T = TypeVar("T")


class Block(NamedTuple):
    """Rows: X is a table of any kind; labels, weights and groups may be None.

    `number` counts the blocks of a source and is always the same for the same rows.
    """

    number: int
    X: Any
    y: Any
    weight: Any = None
    groups: Any = None

    def __len__(self) -> int:
        return n_rows(self.X)


class Keeper(Protocol):
    """Saves the total of a pass, so that a stopped pass can continue."""

    def found(self) -> tuple[Any, int] | None:
        """Return the saved total and the number of its blocks, or None."""
        ...

    def keep(self, total: Any, blocks: int) -> None:
        """Save the total of the first `blocks` blocks, if it is time to."""
        ...


class Source(ABC):
    """Rows in numbered blocks."""

    n_rows: int | None = None  # number of rows, if it is known
    once: bool = False  # whether the blocks can be read only once
    resumes: bool = True  # whether a `total` that was stopped can continue, with a keeper
    prefetches: bool = False  # whether the next block is read in a thread of its own
    categorical: Sequence[str] | None = None  # names of the columns that are categories, if they are known

    @abstractmethod
    def blocks(self, start: int = 0) -> Iterator[Block]:
        """Iterate over the blocks from number `start`."""

    @property
    def fingerprint(self) -> str:
        """Text that changes when the rows change, as far as that can be seen without reading them."""
        return f"{type(self).__name__} {self.n_rows}"

    def only(self, names: Sequence[str]) -> Source:
        """The same rows with the named columns of X, where fewer columns are read faster; else all columns."""
        return self

    def kept(
        self,
        function: Callable[[Block], list[T]],
        what: str,
        *,
        n_rows: int | None = None,
        earlier: tuple[list[T], int] | None = None,  # items of the first blocks, and the number of these
        save: Callable[[list[T]], None] | None = None,  # is given the items of each further block
    ) -> Kept[T]:
        """Return what `function` makes of the blocks, which stays where the rows are."""
        known, start = earlier or ([], 0)
        items, n_all, done = list(known), self.n_rows or n_rows, 0
        for block in prefetched(self.blocks(start)) if self.prefetches else self.blocks(start):
            found = function(block) if len(block) else []
            if save is not None:
                save(found)
            items += found
            done += len(block)
            report(what, done, max(done, n_all) if n_all else 0)
        return Kept(items)

    def total(
        self,
        zero: Callable[[], M],  # returns an empty total
        add: Callable[[M, Block], M],  # returns the sum of a total and a block
        what: str,  # name of the work for progress reports
        *,
        n_rows: int | None = None,  # number of rows, where the source does not know it
        keeper: Keeper | None = None,  # saves the total now and then
    ) -> M:
        """Return ``zero()`` plus all blocks."""
        saved = None if keeper is None else keeper.found()
        total, start = (zero(), 0) if saved is None else saved
        n_all, done = self.n_rows or n_rows, int(getattr(total, "n_rows", 0))
        for block in prefetched(self.blocks(start)) if self.prefetches else self.blocks(start):
            if len(block):
                total = add(total, block)
            done += len(block)
            report(what, done, max(done, n_all) if n_all else 0)
            if keeper is not None:
                keeper.keep(total, block.number + 1)
        return total


class Kept(Generic[T]):
    """Things that were made of blocks of rows and are kept in memory, to be summed over several times."""

    def __init__(self, items: Sequence[T]):
        self.items = list(items)

    def change(self, function: Callable[[T], T]) -> None:
        """Put what `function` makes of each item in its place."""
        for k, item in enumerate(self.items):
            self.items[k] = function(item)

    @staticmethod
    def of_something(total: M | None) -> M:
        """Return a total of at least one item."""
        if total is None:
            raise ValueError("X gave no rows when it was read again: a function must return a new iterator each time")
        return total

    def total(self, function: Callable[[T], M]) -> M:
        """Return the sum of `function` over all items; they are added up in their order."""
        total, step = None, SUMMED_TOGETHER * available_cores()
        for start in range(0, len(self.items), step):
            for part in thread_map(function, self.items[start : start + step]):
                total = part if total is None else total + part  # type: ignore[operator]
        return self.of_something(total)


def prefetched(items: Iterator[T]) -> Iterator[T]:
    """Iterate over the items, and make the next one in a thread of its own."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, items, end)
        while (item := following.result()) is not end:
            following = pool.submit(next, items, end)
            yield item  # type: ignore[misc]


def check_unchanged(source: Source, fingerprint: str) -> None:
    """Refuse files that changed while they were read."""
    if source.fingerprint != fingerprint:
        raise ValueError("X changed while it was read: its files are of another size or time now; fit again")


def n_rows(X: Any) -> int:
    """Return the number of rows of a table of any kind."""
    if isinstance(X, dict):
        return len(next(iter(X.values()), ()))
    return X.shape[0] if hasattr(X, "shape") else len(X)


def block_rows(n_columns: int) -> int:
    """Return the number of rows of a block with `n_columns` columns."""
    return max(1024, BLOCK_CELLS // max(1, n_columns))


# ---------------------------------------------------------------------- rows of this process


class ArraySource(Source):
    """Slices of an array or tensor (n, d), in memory or mapped, with y, weights and groups as arrays (n,) or None."""

    prefetches = True

    def __init__(self, X: Any, y: Any, weight: Any = None, groups: Any = None):
        self.X, self.n_rows = X, len(X)
        self.columns = checked_columns(len(X), y, weight, groups)

    @property
    def fingerprint(self) -> str:
        path = getattr(self.X, "filename", None)
        written = Path(path).stat().st_mtime_ns if path is not None and Path(path).exists() else ""
        return f"{super().fingerprint} {self.X.shape} {self.X.dtype} {path} {written}"

    def blocks(self, start: int = 0) -> Iterator[Block]:
        step = block_rows(self.X.shape[1])
        for number in range(start, -(-len(self.X) // step)):
            rows = slice(number * step, (number + 1) * step)
            y, weight, groups = (None if part is None else np.array(part[rows]) for part in self.columns)
            X = to_numpy(self.X[rows]) if is_tensor(self.X) else np.array(self.X[rows])
            yield Block(number, X, y, weight, groups)


class IterableSource(Source):
    """Blocks of an iterable, or of one that a function returns; an iterator can be read only once.

    A block is a tuple (X, y), (X, y, sample_weight) or (X, y, sample_weight, groups).
    """

    def __init__(self, blocks: Iterable[Any] | Callable[[], Iterable[Any]]):
        self.items = blocks
        self.once = not callable(blocks) and iter(blocks) is blocks
        self.resumes = not self.once

    def blocks(self, start: int = 0) -> Iterator[Block]:
        made = self.items() if callable(self.items) else self.items
        try:
            items = iter(made)
        except TypeError:
            raise ValueError(
                f"X returns a {type(made).__name__}: it must return an iterable of (X, y) blocks"
            ) from None
        for number, item in islice(enumerate(items), start, None):
            if not isinstance(item, tuple | list) or not 2 <= len(item) <= 4:
                raise ValueError(
                    f"block {number} is a {type(item).__name__}: blocks must be tuples (X, y), (X, y, sample_weight) "
                    "or (X, y, sample_weight, groups)"
                )
            yield Block(number, *item)


class FirstBlocks(Source):
    """The first blocks of an iterator that can be read once, kept in memory so that they can be read twice."""

    def __init__(self, source: Source):
        self.later = source.blocks()
        self.first: list[Block] = []
        self.complete = True  # whether there are no others
        n_rows = 0
        for block in self.later:
            self.first.append(block)
            n_rows += len(block)
            if n_rows >= FIRST_ROWS:
                self.complete = False
                break

    def blocks(self, start: int = 0) -> Iterator[Block]:
        return iter(self.first[start:])

    def everything(self) -> Source:
        """All blocks, once."""
        return _AllBlocks(chain(self.first, self.later))


class _AllBlocks(Source):
    """The blocks of an iterator."""

    once = True

    def __init__(self, items: Iterator[Block]):
        self.items = items

    def blocks(self, start: int = 0) -> Iterator[Block]:
        return self.items


# ---------------------------------------------------------------------- opening


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
    kind, roles = source_kind(X), {"y": y, "sample_weight": sample_weight, "groups": groups}
    if kind == "blocks" and y is not None and (callable(X) or hasattr(X, "__next__")):
        raise ValueError(
            f"y is given with a {type(X).__name__} of blocks: the blocks contain their labels, leave y out"
        )
    if isinstance(y, str) and kind not in ("file", "dask"):
        are_paths = isinstance(X, list | tuple) and bool(X) and all(source_kind(path) == "file" for path in X)
        what = "a list of paths" if are_paths else f"a {type(X).__name__}"
        raise ValueError(
            f"y={y!r} is the name of a column, and X is {what}: give the labels themselves, or as X the path of a "
            "Parquet file or of a folder of them"
        )
    if kind == "file":
        from tamis.table.sources.parquet import ParquetSource

        if y is None:
            raise ValueError("y is None: name the column of X to predict, such as fit('rows.parquet', 'label')")
        for name, value in roles.items():
            if value is not None and not isinstance(value, str):
                raise ValueError(
                    f"{name} is a {type(value).__name__}: with a file as X it must be the name of a column"
                )
        return ParquetSource(X, y, sample_weight, groups)
    if kind == "dask":
        from tamis.table.sources.on_dask import DaskSource

        return DaskSource(X, y, sample_weight, groups)
    if kind == "map":
        return ArraySource(X, y, sample_weight, groups)
    if kind == "blocks" and y is None:
        given = [name for name, value in roles.items() if value is not None]
        if given:
            raise ValueError(
                f"{given[0]} is given with blocks: put it into them, as tuples (X, y, sample_weight, groups)"
            )
        return IterableSource(X)
    return None


def table_source(X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Source:
    """Return a table in memory, or a tensor, as a source."""
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(float), np.nan)
    if is_tensor(X) or (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiu"):
        return ArraySource(X, y, sample_weight, groups)
    return IterableSource(partial(_slices, X, y, sample_weight, groups))


def _slices(X: Any, *parts: Any) -> Iterator[tuple[Any, ...]]:
    """Iterate over slices of a table in memory, with the same slices of what is as long as the table."""
    n, cut = count_rows(X), _cut_of(X)
    step = block_rows(X.shape[1]) if cut is not None else max(1, n)
    columns = checked_columns(n, *parts)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        yield (X if cut is None else cut(rows), *(None if part is None else part[rows] for part in columns))


def checked_columns(n: int, y: Any, weight: Any, groups: Any) -> list[np.ndarray | None]:
    """Return what is as long as n rows as arrays (n,) or None; weights are at most one."""
    out: list[np.ndarray | None] = []
    for name, part in (("y", y), ("sample_weight", weight), ("groups", groups)):
        if part is None:
            out.append(None)
            continue
        if np.ma.is_masked(part):
            raise ValueError(f"{name} has masked values: drop these rows")
        found = np.asarray(to_numpy(part) if is_tensor(part) else part)
        if name == "sample_weight":
            found = _plain_weights(found, n)
        if found.ndim == 0 or len(found) != n:
            length = len(found) if found.ndim else "none"
            raise ValueError(f"{name} has length {length}, but X has {n} rows: inconsistent numbers of samples")
        if found.ndim > 1 and (name == "groups" or found.shape[1:] != (1,)):
            raise ValueError(f"{name} has shape {found.shape}, expected ({n},): give one for each row")
        out.append(found)
    return out


def _plain_weights(weight: np.ndarray, n: int) -> np.ndarray:
    """Weights (n,) as numbers of which the largest is one, since only their ratios matter."""
    try:
        found = weight.astype(float)
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight={weight!r:.60} does not hold numbers: give one weight per row") from None
    found = np.full(n, float(found)) if found.ndim == 0 else found
    if not np.all(np.isfinite(found)) or np.any(found < 0):
        raise ValueError("sample_weight holds negative or non-finite values: weights must be finite and at least 0")
    largest = found.max(initial=0.0)
    return found / largest if largest > 0 else found


def _cut_of(X: Any) -> Callable[[slice], Any] | None:
    """How some rows of a frame or of an Arrow table are taken; None for tables of other kinds."""
    if hasattr(X, "iloc"):
        return lambda rows: X.iloc[rows]
    if hasattr(X, "slice") and hasattr(X, "shape"):
        return lambda rows: X.slice(rows.start, rows.stop - rows.start)
    return None


def each_block(function: Callable[[Any], np.ndarray], X: Any, columns: Sequence[str]) -> Any:
    """Apply `function` to rows in blocks (see `source_kind`): the result is lazy for Dask, else one array.

    Only the named `columns` of a file are read; if there are none, the first one, for the number of rows.
    """
    kind = source_kind(X)
    if kind == "blocks":
        raise ValueError(f"X is a {type(X).__name__} of blocks: give the rows of one block at a time")
    if kind == "dask":
        from tamis.table.sources.on_dask import mapped

        return mapped(function, X)
    if kind == "file":
        from tamis.table.sources.parquet import ParquetSource

        source: Source = ParquetSource(X, None, columns=list(columns) or ParquetSource(X, None).names[:1])
    else:
        source = ArraySource(X, None)
    parts = [function(by_name(block.X)) for block in prefetched(source.blocks())]
    if not parts:
        raise ValueError("X has no rows")
    return np.concatenate(parts)


def blocks_of(X: Any, y: str, weight: Any) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """Iterate over the rows, targets and weights of a file or a Dask dataframe with a target column `y`."""
    source = source_of(X, y, weight)
    if source is None:
        raise ValueError(f"y={y!r} is the name of a column, and X is a {type(X).__name__}: give the labels themselves")
    for block in source.blocks():
        own = np.ones(len(block)) if block.weight is None else np.asarray(block.weight, dtype=float)
        yield by_name(block.X), np.asarray(block.y), own


def by_name(X: Any) -> Any:
    """Return a dict of columns if they have names, else X."""
    return dict(zip(X.columns, X.values.T, strict=True)) if isinstance(X, NamedNumbers) else X
