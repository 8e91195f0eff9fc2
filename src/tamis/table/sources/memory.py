"""Rows in memory, in memory maps, and from iterables of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tamis.table.sources.base import Block, Source, block_rows

LARGE_BYTES = 1 << 28  # memory maps of this size or more are read block by block


class ArraySource(Source):
    """Slices of an array (n, d), with y, weights and groups as arrays (n,) or None."""

    prefetches = True

    def __init__(self, X: np.ndarray, y: Any, weight: Any = None, groups: Any = None):
        self.X, self.n_rows = X, len(X)
        self.columns = [None if part is None else np.asarray(part) for part in (y, weight, groups)]
        for name, part in zip(("y", "sample_weight", "groups"), self.columns, strict=True):
            if part is not None and len(part) != len(X):
                raise ValueError(f"{name} has length {len(part)}, but X has {len(X)} rows: give one for each row")

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
            yield Block(number, np.array(self.X[rows]), y, weight, groups)


def is_large_map(X: Any) -> bool:
    """Whether X is a memory map of numbers that is read block by block."""
    return isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiu" and X.nbytes > LARGE_BYTES


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
            yield self._block(number, item)

    @staticmethod
    def _block(number: int, item: Any) -> Block:
        if not isinstance(item, tuple | list) or not 2 <= len(item) <= 4:
            raise ValueError(
                f"block {number} is a {type(item).__name__}: blocks must be tuples (X, y), (X, y, sample_weight) or "
                "(X, y, sample_weight, groups)"
            )
        return Block(number, *item)


def is_blocks(X: Any, y: Any) -> bool:
    """Whether X is a function, an iterator or a list of tuples that gives blocks of rows, without y."""
    if y is not None or hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, dict | str | bytes):
        return False
    if callable(X) or (hasattr(X, "__iter__") and not isinstance(X, list | tuple)):
        return True
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(b, tuple) and _is_table(b[0]) for b in X)


def _is_table(part: Any) -> bool:
    return hasattr(part, "shape") or isinstance(part, dict)
