"""Source: rows in numbered blocks that can be read again, and totals over them.

Whatever is summed over rows is a `total`: make a zero, add every block to it, and add up what several workers have. A
source in this process iterates over its blocks; one on a cluster does the same on its workers and adds up in a tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from tamis.progress import report

BLOCK_CELLS = 1 << 23  # numbers in one block


class Summable(Protocol):
    """Objects that can be added, such as statistics."""

    def __add__(self, other: Any) -> Self: ...


M = TypeVar("M", bound=Summable)
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
    """Rows in numbered blocks.

    Attributes
    ----------
    n_rows : number of rows, if it is known
    once : whether the blocks can be read only once
    resumes : whether a `total` that was stopped can continue, with a keeper
    prefetches : whether the next block is read in a thread of its own
    categorical : names of the columns that are categories, if they are known
    """

    n_rows: int | None = None
    once: bool = False
    resumes: bool = True
    prefetches: bool = False
    categorical: Sequence[str] | None = None

    @abstractmethod
    def blocks(self, start: int = 0) -> Iterator[Block]:
        """Iterate over the blocks from number `start`."""

    @property
    def fingerprint(self) -> str:
        """Text that changes when the rows change, as far as that can be seen without reading them."""
        return f"{type(self).__name__} {self.n_rows}"

    def total(
        self,
        zero: Callable[[], M],
        add: Callable[[M, Block], M],
        what: str,
        *,
        n_rows: int | None = None,
        keeper: Keeper | None = None,
    ) -> M:
        """Return ``zero()`` plus all blocks.

        Parameters
        ----------
        zero : returns an empty total
        add : returns the sum of a total and a block
        what : name of the work for progress reports
        n_rows : number of rows, where the source does not know it
        keeper : saves the total now and then
        """
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


def prefetched(items: Iterator[T]) -> Iterator[T]:
    """Iterate over the items, and make the next one in a thread of its own."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, items, end)
        while (item := following.result()) is not end:
            following = pool.submit(next, items, end)
            yield item  # type: ignore[misc]


def n_rows(X: Any) -> int:
    """Return the number of rows of a table of any kind."""
    if isinstance(X, dict):
        return len(next(iter(X.values()), ()))
    return X.shape[0] if hasattr(X, "shape") else len(X)


def block_rows(n_columns: int) -> int:
    """Return the number of rows of a block with `n_columns` columns."""
    return max(1024, BLOCK_CELLS // max(1, n_columns))
