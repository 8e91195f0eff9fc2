"""Dask arrays and dataframes: totals are computed on the workers, and predictions are lazy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any
from uuid import uuid4

import numpy as np

from tamis.parallel import limited
from tamis.progress import report
from tamis.table.sources.source import Block, Kept, M, Source, T, n_rows
from tamis.table.table import source_kind

ADDED_TOGETHER = 4  # totals that one task adds up


class DaskSource(Source):
    """The partitions of Dask collections.

    Parameters
    ----------
    X : Dask array of two dimensions, or dataframe
    y, weight, groups : names of columns of X, or Dask or numpy arrays (Dask series) as long as X
    """

    resumes = False

    def __init__(self, X: Any, y: Any, weight: Any = None, groups: Any = None):
        columns = {"y": y, "sample_weight": weight, "groups": groups}
        names = [name for name in columns.values() if isinstance(name, str)]
        if names and not _is_frame(X):
            raise ValueError(f"y={y!r} is the name of a column, and X is an array: give y as an array")
        absent = [name for name in names if name not in X.columns] if names else []
        if absent:
            raise ValueError(f"X has no column {absent[0]!r}: it has {', '.join(map(str, X.columns))}")
        own = X[[c for c in X.columns if c not in names]] if names else X
        parts = {name: X[v] if isinstance(v, str) else v for name, v in columns.items()}
        self.parts = [_delayed(own, "X"), *(_like(v, X, name) for name, v in parts.items())]
        self.n_rows = None if _is_frame(X) or np.isnan(X.shape[0]) else int(X.shape[0])

    def blocks(self, start: int = 0) -> Iterator[Block]:
        for number, parts in enumerate(zip(*self.parts, strict=True)):
            if number >= start:
                yield Block(number, *(None if part is None else part.compute() for part in parts))

    def total(
        self,
        zero: Callable[[], M],
        add: Callable[[M, Block], M],
        what: str,
        *,
        n_rows: int | None = None,
        keeper: Any = None,
    ) -> M:
        """Return ``zero()`` plus all partitions, each summed on a worker, added up in a tree.

        Dask repeats the work of workers that die, so there is no `keeper`.
        """
        delayed: Any = _dask().delayed
        start, step = delayed(zero, traverse=False), delayed(add, traverse=False)
        sum_part = delayed(_sum_part, pure=False)
        with _reporting(what, self.n_rows or n_rows or 0) as topic:
            every = enumerate(zip(*self.parts, strict=True))
            total = _total_of([sum_part(topic, start, step, number, *parts) for number, parts in every])
        return zero() if total is None else total

    def kept(
        self,
        function: Callable[[Block], list[T]],
        what: str,
        *,
        n_rows: int | None = None,
        earlier: Any = None,
        save: Any = None,
    ) -> Kept[T]:
        """Return what `function` makes of the partitions, which stays on the workers; nothing is saved."""
        make, shared = _dask().delayed(_make_items, pure=False), _dask().delayed(function, traverse=False)
        with _reporting(what, self.n_rows or n_rows or 0) as topic:
            parts = [make(topic, shared, number, *part) for number, part in enumerate(zip(*self.parts, strict=True))]
            parts = list(_dask().persist(*parts))
            wait_for(parts)
        return KeptOnWorkers(parts)


class KeptOnWorkers(Kept[T]):
    """Lists of things that stay where they were made, as delayed values of Dask."""

    def change(self, function: Callable[[T], T]) -> None:
        each, shared = _dask().delayed(_each, pure=False), _dask().delayed(function, traverse=False)
        self.items = list(_dask().persist(*(each(shared, part) for part in self.items)))
        wait_for(list(self.items))

    def total(self, function: Callable[[T], M]) -> M:
        add, shared = _dask().delayed(_sum_items, pure=False), _dask().delayed(function, traverse=False)
        found: M | None = _total_of([add(shared, part) for part in self.items])
        return self.of_something(found)


def _make_items(topic: str | None, function: Callable[[Block], list[T]], number: int, *parts: Any) -> list[T]:
    """What a function makes of a partition, on a worker with one core."""
    block = Block(number, *parts)
    with limited(1):
        items = function(block) if len(block) else []
    _log_rows(topic, len(block))
    return items


def _each(function: Callable[[T], T], items: list[T]) -> list[T]:
    return [function(item) for item in items]


def _sum_items(function: Callable[[T], M], items: list[T]) -> M | None:
    """The sum of a function over items; None of none."""
    total: Any = None
    with limited(1):
        for item in items:
            total = function(item) if total is None else total + function(item)
    return total


def wait_for(parts: list[Any]) -> None:
    """Wait until delayed values are there, if they are on a cluster, and raise what went wrong."""
    try:
        import distributed
    except ImportError:
        return
    cluster: Any = distributed
    futures = cluster.futures_of(parts) if _has_client(cluster) else []
    if futures:
        cluster.wait(futures)
    for future in futures:
        if future.status == "error":
            future.result()


def _has_client(cluster: Any) -> bool:
    try:
        cluster.get_client()
    except ValueError:
        return False
    return True


def _total_of(totals: list[Any]) -> Any:
    """The sum of delayed totals, added up in a tree; those that are None are left out."""
    add_up = _dask().delayed(_add_up, pure=False)
    while len(totals) > 1:
        groups = (totals[k : k + ADDED_TOGETHER] for k in range(0, len(totals), ADDED_TOGETHER))
        totals = [add_up(*group) for group in groups]
    return totals[0].compute() if totals else None


@contextmanager
def _reporting(what: str, total: int) -> Iterator[str | None]:
    """Yield the topic on which workers report the numbers of rows that are done; None without a cluster."""
    try:
        from distributed import get_client

        client: Any = get_client()
    except (ImportError, ValueError):
        yield None
        return
    context, topic, done = copy_context(), f"tamis {uuid4().hex}", 0

    def forward(event: tuple[float, int]) -> None:
        nonlocal done
        done += event[1]
        context.run(report, what, min(done, total) if total else done, total)  # parts of lost workers are repeated

    client.subscribe_topic(topic, forward)
    try:
        yield topic
    finally:
        client.unsubscribe_topic(topic)


def _sum_part(topic: str | None, zero: Callable[[], M], add: Callable[[M, Block], M], number: int, *parts: Any) -> M:
    """Return the total of a partition, on a worker with one core."""
    block = Block(number, *parts)
    with limited(1):
        total = add(zero(), block) if len(block) else zero()
    _log_rows(topic, n_rows(parts[0]))
    return total


def _log_rows(topic: str | None, count: int) -> None:
    """Report rows that are done from a worker, if there is a topic."""
    if topic is not None:
        from distributed import get_worker

        with suppress(ValueError):  # computed in this process after all
            get_worker().log_event(topic, count)


def _add_up(*totals: Any) -> Any:
    there = [total for total in totals if total is not None]
    return sum(there[1:], start=there[0]) if there else None


def mapped(function: Callable[[Any], np.ndarray], X: Any) -> Any:
    """Apply `function`, which returns an array with one entry per row, to every partition; return one lazy array."""
    da: Any = _dask().array
    delayed: Any = _dask().delayed
    example = function(_example(X))
    none = example[:0]
    apply = delayed(_apply, pure=False)
    shared = delayed(function, traverse=False)
    sizes = [np.nan] * X.npartitions if _is_frame(X) else list(X.chunks[0])
    pieces = [
        da.from_delayed(apply(shared, part, none), (size, *example.shape[1:]), dtype=example.dtype)
        for part, size in zip(_delayed(X, "X"), sizes, strict=True)
    ]
    return da.concatenate(pieces)


def _apply(function: Callable[[Any], np.ndarray], part: Any, none: np.ndarray) -> np.ndarray:
    with limited(1):
        return function(part) if n_rows(part) else none


def _example(X: Any) -> Any:
    """A row like those of X."""
    return X._meta_nonempty.iloc[:1] if _is_frame(X) else np.zeros((1, X.shape[1]), dtype=X.dtype)


def _delayed(X: Any, name: str) -> list[Any]:
    """The partitions of a collection, one after another."""
    if _is_frame(X):
        return list(X.to_delayed())
    if X.ndim == 2:
        whole: Any = X.rechunk({1: -1})
        return list(whole.to_delayed()[:, 0])
    if X.ndim == 1:
        return list(X.to_delayed())
    raise ValueError(f"{name} has {X.ndim} dimensions: give a Dask array of rows and columns")


def _like(values: Any, X: Any, name: str) -> list[Any]:
    """The parts of labels, weights or groups, cut as X is."""
    count = X.npartitions if _is_frame(X) else X.numblocks[0]
    if values is None:
        return [None] * count
    if source_kind(values) != "dask":
        if _is_frame(X) or np.isnan(X.shape[0]):
            raise ValueError(f"{name} is no Dask collection, and the lengths of the partitions of X are not known")
        values = _dask().array.from_array(np.asarray(values), chunks=(X.chunks[0],))
    parts = _delayed(values, name)
    chunks = getattr(values, "chunks", None)
    if not _is_frame(X) and chunks is not None and chunks[0] != X.chunks[0] and not np.isnan(X.shape[0]):
        parts = _delayed(values.rechunk((X.chunks[0],)), name)
    if len(parts) != count:
        raise ValueError(f"{name} has {len(parts)} partitions, and X has {count}: cut both alike")
    return parts


def _is_frame(X: Any) -> bool:
    return hasattr(X, "to_delayed") and hasattr(X, "npartitions") and not hasattr(X, "chunks")


def _dask() -> Any:
    try:
        import dask
        import dask.array
    except ImportError:
        raise ImportError("Dask collections need Dask: pip install 'tamis[dist]'") from None
    return dask
