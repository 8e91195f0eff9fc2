"""Iterables of blocks (X, y), (X, y, sample_weight) or (X, y, sample_weight, groups)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from tamis.table.sources.base import Block, Source


class IterableSource(Source):
    """Blocks of an iterable, or of what a function returns; an iterator can be read once only."""

    def __init__(self, blocks: Iterable[Any] | Callable[[], Iterable[Any]]):
        self.given = blocks
        self.once = not callable(blocks) and iter(blocks) is blocks
        self.resumes = not self.once

    def blocks(self, start: int = 0) -> Iterator[Block]:
        made = self.given() if callable(self.given) else self.given
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
    """Whether X gives blocks of rows rather than rows: a function, an iterator, or a list of tuples, without y."""
    if y is not None or hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, dict | str | bytes):
        return False
    if callable(X) or (hasattr(X, "__iter__") and not isinstance(X, list | tuple)):
        return True
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(b, tuple) and _is_table(b[0]) for b in X)


def _is_table(part: Any) -> bool:
    return hasattr(part, "shape") or isinstance(part, dict)
