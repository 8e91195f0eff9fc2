"""Kernels side by side: which kernels of a stack are alike, and passes over them in chunks.

Thousands of kernels of one column each are mostly one function on different columns. Those that are `batched`
(`kernels.base`) are evaluated many columns at a time, so that the cost is that of the values and not that of
the calls. Whatever the chunks, the values are the same; sums over kernels are taken in an order that depends on
sizes alone, never on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.parallel import thread_map

ALONE = -1  # the label of a kernel that is evaluated by itself
THREADS = 1 << 22  # values of a pass from which on threads pay
LANES = 8  # sums of a long pass that are taken side by side


@dataclass(frozen=True)
class Batches:
    """The kernels of a stack by likeness.

    Attributes
    ----------
    labels : (L,) which of `kinds` a kernel is; `ALONE` for kernels that stand on several columns, that no other
        equals or that cannot take several columns at once
    columns : (L,) the column of each kernel that is not alone
    kinds : what kernels of one label have in common
    """

    labels: np.ndarray
    columns: np.ndarray
    kinds: Sequence[Any]

    def take(self, kernels: np.ndarray) -> Batches:
        """The same for some of the kernels."""
        return Batches(self.labels[kernels], self.columns[kernels], self.kinds)

    def kind(self, members: np.ndarray) -> Any:
        """What the kernels of one chunk have in common."""
        return self.kinds[self.labels[members[0]]]

    def chunks(self, kernels: np.ndarray, widest: Callable[[Any], int]) -> Iterator[np.ndarray]:
        """The given kernels in arrays of one label each, at most ``widest(kind)`` long, those alone one by one."""
        if not len(kernels):
            return
        labels = self.labels[kernels]
        order = np.argsort(labels, kind="stable")
        bounds = np.flatnonzero(np.diff(labels[order])) + 1
        for group in np.split(kernels[order], bounds):
            label = self.labels[group[0]]
            step = 1 if label == ALONE else max(1, widest(self.kinds[label]))
            yield from (group[start : start + step] for start in range(0, len(group), step))


def _hashable(kernel: Any) -> bool:
    try:
        hash(kernel)
    except TypeError:
        return False
    return True


def alike(keys: Sequence[Hashable | None], columns: Sequence[int], least: int = 1) -> Batches:
    """Batches of at least so many kernels with equal keys, which are their kinds; the others are alone.

    A key that is None is alone as well.
    """
    by_identity: dict[int, int] = {id(None): ALONE}  # hashing one kernel for every column would take most of the time
    by_value: dict[Hashable, int] = {}
    labels = np.empty(len(keys), dtype=int)
    for k, key in enumerate(keys):
        label = by_identity.get(id(key))
        if label is None:
            label = by_identity[id(key)] = by_value.setdefault(key, len(by_value))
        labels[k] = label
    counts = np.bincount(labels[labels != ALONE], minlength=1)
    labels[counts[labels] < least] = ALONE
    kept, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    if len(kept) and kept[0] == ALONE:
        first, labels = first[1:], labels - 1  # ALONE is the label before the first
    return Batches(labels, np.array(columns, dtype=int), [keys[k] for k in first])


def equal_kernels(channels: Sequence[Any]) -> Batches:
    """Batches of equal kernels of one column each that evaluate many columns at a time."""
    able: dict[int, Hashable | None] = {}
    for kernel in (channel.kernel for channel in channels):
        if id(kernel) not in able:
            able[id(kernel)] = kernel if kernel.batched and _hashable(kernel) else None
    keys = [able[id(channel.kernel)] if len(channel.columns) == 1 else None for channel in channels]
    return alike(keys, [channel.columns[0] for channel in channels], least=2)


def for_each(function: Callable[[np.ndarray], None], chunks: Sequence[np.ndarray], work: int) -> None:
    """Call a function with every chunk, on all cores if there is much work (values of the pass)."""
    if work < THREADS or len(chunks) < 2:
        for chunk in chunks:
            function(chunk)
        return

    def run(lane: Sequence[np.ndarray]) -> None:
        for chunk in lane:
            function(chunk)

    thread_map(run, _lanes(chunks))


def sum_over(
    add: Callable[[np.ndarray, np.ndarray], None], chunks: Sequence[np.ndarray], shape: tuple[int, ...], work: int
) -> np.ndarray:
    """The sum of all terms, which ``add(chunk, total)`` adds to a total of the given shape."""

    def total(lane: Sequence[np.ndarray]) -> np.ndarray:
        out = np.zeros(shape)
        for chunk in lane:
            add(chunk, out)
        return out

    if work < THREADS or len(chunks) < 2:
        return total(chunks)
    parts = thread_map(total, _lanes(chunks))
    return sum(parts[1:], start=parts[0])


def _lanes(chunks: Sequence[np.ndarray]) -> list[Sequence[np.ndarray]]:
    return [chunks[start::LANES] for start in range(min(LANES, len(chunks)))]
