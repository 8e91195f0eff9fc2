"""Source: rows in numbered blocks that can be read again, and totals over them.

Whatever is summed over rows (`tamis.sums`) asks a source for one thing only, a `total`: make a zero, add every
block to it, add up what several workers have. A source in this process runs through its blocks; one on a cluster
does the same on its workers and adds up in a tree. Nothing else knows where rows live.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from tamis.parallel import limited
from tamis.progress import report

CELLS = 1 << 23  # numbers in one block


FAN = 4  # totals that are added up together on a cluster


class Summable(Protocol):
    """What adds up, such as statistics."""

    def __add__(self, other: Any) -> Self: ...


M = TypeVar("M", bound=Summable)
T = TypeVar("T")


class Block(NamedTuple):
    """Some rows: X as any table, labels, weights and groups (None where there are none).

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
    """Keeps what a pass has come to, so that a stopped one can go on."""

    def found(self) -> tuple[Any, int] | None:
        """The total and the number of blocks in it that an earlier pass has left."""
        ...

    def keep(self, total: Any, blocks: int) -> None:
        """Hear how far the pass has come."""
        ...


class Source(ABC):
    """Rows in numbered blocks.

    Attributes
    ----------
    n_rows : how many rows there are, if that is known
    once : whether the blocks can be read only once
    resumes : whether a `total` that was stopped can go on, with a keeper
    quick : whether blocks may be read in a thread of their own, one ahead of the one in use
    categorical : names of the columns that are categories, where the source knows
    """

    n_rows: int | None = None
    once: bool = False
    resumes: bool = True
    quick: bool = False
    categorical: Sequence[str] | None = None

    @abstractmethod
    def blocks(self, start: int = 0) -> Iterator[Block]:
        """The blocks from number `start` on."""

    @property
    def fingerprint(self) -> str:
        """Changes when the rows change, as far as that can be seen without reading them."""
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
        """``zero()`` plus all blocks.

        Parameters
        ----------
        zero : makes an empty total
        add : a total and a block to the total of both
        what : words for the progress
        n_rows : how many rows there are, where the source does not know
        keeper : hears of every block
        """
        left = None if keeper is None else keeper.found()
        total, start = (zero(), 0) if left is None else left
        every, done = self.n_rows or n_rows, int(getattr(total, "n_rows", 0))
        for block in ahead(self.blocks(start)) if self.quick else self.blocks(start):
            if len(block):
                total = add(total, block)
            done += len(block)
            report(what, done, max(done, every) if every else 0)
            if keeper is not None:
                keeper.keep(total, block.number + 1)
        return total


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The items, the next one being made in a thread of its own while one is used."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield item  # type: ignore[misc]


def part_total(zero: Callable[[], M], add: Callable[[M, Block], M], number: int, *parts: Any) -> M:
    """The total of one part of the rows, on a worker that has one core."""
    block = Block(number, *parts)
    with limited(1):
        return add(zero(), block) if len(block) else zero()


def added(*totals: Any) -> Any:
    """Several totals as one."""
    return sum(totals[1:], start=totals[0])


def tree(totals: Sequence[Any], up: Callable[..., Any]) -> Any:
    """One total of several: ``up(*some)`` adds up a few, where they are."""
    while len(totals) > 1:
        totals = [up(*totals[k : k + FAN]) for k in range(0, len(totals), FAN)]
    return totals[0]


def n_rows(X: Any) -> int:
    """Rows of a table of any kind."""
    if isinstance(X, dict):
        return len(next(iter(X.values()), ()))
    return X.shape[0] if hasattr(X, "shape") else len(X)


def block_rows(n_columns: int) -> int:
    """Rows of a block of so many columns."""
    return max(1024, CELLS // max(1, n_columns))
