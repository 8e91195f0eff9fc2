"""Ray datasets: totals in remote tasks, added up in a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tamis.progress import report
from tamis.table.sources.base import Block, M, Source, added, part_total, tree


class RaySource(Source):
    """The blocks of a Ray dataset of columns.

    Parameters
    ----------
    X : ray.data.Dataset
    y, weight, groups : names of columns
    """

    resumes = False

    def __init__(self, X: Any, y: str | None, weight: str | None = None, groups: str | None = None):
        self.aside = y, weight, groups
        data = X.materialize()
        absent = [name for name in self.aside if name is not None and name not in data.columns()]
        if absent:
            raise ValueError(f"X has no column {absent[0]!r}: it has {', '.join(data.columns())}")
        self.refs, self.n_rows = data.to_numpy_refs(), data.count()

    def blocks(self, start: int = 0) -> Iterator[Block]:
        for number, ref in enumerate(self.refs):
            if number >= start:
                yield _block(number, _ray().get(ref), self.aside)

    def total(
        self,
        zero: Callable[[], M],
        add: Callable[[M, Block], M],
        what: str,
        *,
        n_rows: int | None = None,
        keeper: Any = None,
    ) -> M:
        """As `DaskSource.total`; tasks of workers that die are run again by Ray."""
        ray = _ray()
        held, step = ray.put(zero), ray.put(add)
        part, up = ray.remote(_summed), ray.remote(added)
        level = [part.remote(held, step, number, ref, self.aside) for number, ref in enumerate(self.refs)]
        total: M = ray.get(tree(level, up.remote)) if level else zero()
        report(what, 1, 1)
        return total


def _summed(zero: Callable[[], M], add: Callable[[M, Block], M], number: int, columns: Any, aside: Any) -> M:
    return part_total(zero, add, *_block(number, columns, aside))


def _block(number: int, columns: dict[str, Any], aside: tuple[str | None, ...]) -> Block:
    own = {name: values for name, values in columns.items() if name not in aside}
    return Block(number, own, *(None if name is None else columns[name] for name in aside))


def is_ray(X: Any) -> bool:
    """Whether X is a Ray dataset."""
    return type(X).__module__.startswith("ray.data")


def _ray() -> Any:
    import ray

    return ray
