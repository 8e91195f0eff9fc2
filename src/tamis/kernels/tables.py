"""Decisions about many rows from tables in place of exponentials.

What the channels on one column add to a decision is a function of one value, and what a product of two kernels adds
is a function of two. Both are tabulated on the cells of `axes`: as cubics of numbers, as they are for categories.
Kernels of the distance in several columns take their exponential in single precision. All other kernels, and numbers
beyond the range of a table, are evaluated as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TypeVar

import numpy as np

from tamis.kernels.axes import Axis, Key, Place, factors, make_axis
from tamis.kernels.bank import Channel
from tamis.kernels.base import Kernel
from tamis.kernels.parts import Block, Distances, Exact, Part, mixture_of, steps
from tamis.parallel import available_cores, thread_map

WINDOW = 320  # most cells of a column in a pair
FACTORS = 256  # most instances of products that are tabulated
MEMORY = 1 << 27  # bytes that the tables of all pairs may take
BLOCK_ROWS = 1 << 14  # whose vectors stay in a cache
TOGETHER = 4  # most blocks that meet one table after another

R = TypeVar("R")


@dataclass(frozen=True)
class Shape:
    """All channels on one column.

    Attributes
    ----------
    key, axis : of the column
    table : coefficients (q, powers, cells)
    exact : the channels
    """

    key: Key
    axis: Axis
    table: np.ndarray
    exact: tuple[Exact, ...]

    def add(self, out: np.ndarray, block: Block) -> None:
        place = block.place(self.key, self.axis)
        for total, powers in zip(out, self.table, strict=True):
            value = _picked(powers[-1], place.cell)
            for power in powers[-2::-1]:
                value *= place.offset
                value += _picked(power, place.cell)
            total += value
        if place.beyond:
            self.add_beyond(out, block, np.flatnonzero(place.cell > self.axis.size))

    def add_beyond(self, out: np.ndarray, block: Block, rows: np.ndarray) -> None:
        """Add it for some rows without the table."""
        for exact in self.exact:
            exact.add_some(out, block, rows)


@dataclass(frozen=True)
class Side:
    """One of the columns of a pair.

    Attributes
    ----------
    key, axis : of the column
    window : cells of the axis that the table has
    lookup : for each cell of the axis that of the table; None where the table has all
    shape : the channels on this column alone, where the table holds them too
    """

    key: Key
    axis: Axis
    window: np.ndarray
    lookup: np.ndarray | None
    shape: Shape | None

    @classmethod
    def of(cls, key: Key, axis: Axis, s: np.ndarray, shape: Shape | None) -> Side:
        window = axis.window(WINDOW, s)
        lookup = None
        if len(window) < axis.size + 2:
            lookup = np.full(axis.size + 2, len(window) - 1)
            lookup[window] = np.arange(len(window))
        return cls(key, axis, window, lookup, shape)

    def find(self, block: Block) -> tuple[np.ndarray, Place, np.ndarray | None]:
        """Cells of the table (n,), the place on the axis, and a mask (n,) of rows that the table does not have."""
        place = block.place(self.key, self.axis)
        cell = place.cell if self.lookup is None else _picked(self.lookup, place.cell)
        some = place.beyond or self.lookup is not None
        return cell, place, cell == len(self.window) - 1 if some else None


@dataclass(frozen=True)
class Pair:
    """A product of kernels on two columns, with what either column adds alone if no other table holds it.

    Attributes
    ----------
    sides : the columns
    table : coefficients (q, cells of the second x its powers x cells of the first, powers of the first)
    exact : the channel
    """

    sides: tuple[Side, Side]
    table: np.ndarray
    exact: Exact

    @classmethod
    def of(cls, sides: tuple[Side, Side], values: tuple[np.ndarray, np.ndarray], exact: Exact) -> Pair:
        """From the coefficients (cells, powers, k) of the two kernels on their axes."""
        A, B = (part[side.window] for part, side in zip(values, sides, strict=True))
        (m, p, k), (n, q, _) = A.shape, B.shape
        table = np.empty((len(exact.coef), n * q * m, p), dtype=np.float32)
        for output, coef in enumerate(exact.coef):
            product = ((B.reshape(-1, k) * coef) @ A.reshape(-1, k).T).reshape(n, q, m, p)
            if sides[0].shape is not None:
                product[:, 0] += sides[0].shape.table[output].T[sides[0].window]
            if sides[1].shape is not None:
                product[..., 0] += sides[1].shape.table[output].T[sides[1].window, :, None]
            table[output] = product.reshape(-1, p)
        return cls(sides, table, exact)

    def add(self, out: np.ndarray, block: Block) -> None:
        (first, a, out_a), (second, b, out_b) = (side.find(block) for side in self.sides)
        m, q, p = len(self.sides[0].window), self.sides[1].axis.powers, self.table.shape[2]
        rows = second * (q * m)
        rows += first
        scale = b.fourfold if p == 4 else None if b.offset is None else b.offset[:, None]
        for total, table in zip(out, self.table, strict=True):
            value = _picked(table[(q - 1) * m :], rows)
            for power in range(q - 2, -1, -1):
                value *= scale
                value += _picked(table[power * m :], rows)
            total += _along(value, a.offset)
        masks = [mask for mask in (out_a, out_b) if mask is not None]
        if masks:
            self.exact.add_some(out, block, np.flatnonzero(np.any(masks, axis=0)))
        for side, mask in zip(self.sides, (out_a, out_b), strict=True):
            if side.shape is not None and mask is not None:
                side.shape.add_beyond(out, block, np.flatnonzero(mask))


def _picked(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows of a table that it has: nothing wraps, but numpy is quickest when told to."""
    return table.take(rows, axis=0, mode="wrap")


def _along(value: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
    """Polynomials in the offsets (n,) with the coefficients value (n, powers)."""
    out = value[:, -1].copy()
    for power in range(value.shape[1] - 2, -1, -1):
        out *= offset
        out += value[:, power]
    return out


# ---------------------------------------------------------------------- all of it


@dataclass(frozen=True)
class Tables:
    """An expansion as parts that are quick for many rows; `make_tables` makes it."""

    parts: tuple[Part, ...]
    outputs: int

    def decision(self, Z: np.ndarray) -> np.ndarray:
        """Sums (n, q) over instances and channels."""
        out = np.zeros((self.outputs, len(Z)))
        rows = [slice(start, start + BLOCK_ROWS) for start in range(0, len(Z), BLOCK_ROWS)]

        def add(some: np.ndarray) -> None:
            blocks = [(out[:, rows[k]], Block(Z[rows[k]])) for k in some]
            for part in self.parts:  # the table of a part stays in the cache for all blocks
                for total, block in blocks:
                    part.add(total, block)

        pieces = max(-(-len(rows) // TOGETHER), min(available_cores(), len(rows)))
        thread_map(add, np.array_split(np.arange(len(rows)), pieces))
        return out.T


def make_tables(channels: Sequence[Channel], instances: np.ndarray, coef: np.ndarray) -> Tables | None:
    """Tables of an expansion with coefficients (q, k, L); None where no channel has one."""
    if not len(instances):
        return None
    axes = _axes(channels, instances)
    alone: dict[Key, list[Exact]] = {}
    pairs: list[Exact] = []
    rest: list[Part] = []
    for place, channel in enumerate(channels):
        exact = Exact(channel, instances, coef[:, :, place])
        keys = [key for key, _ in factors(channel) if key in axes]
        mixture = mixture_of(channel)
        if len(keys) == len(channel.columns) == 1:
            alone.setdefault(keys[0], []).append(exact)
        elif len(keys) == len(channel.columns) and len(instances) <= FACTORS:
            pairs.append(exact)
        else:
            rest.append(exact if mixture is None else Distances.of(mixture, exact))
    made = _done([partial(_shape, key, axes[key], group) for key, group in alone.items()])
    shapes = dict(zip(alone, made, strict=True))
    rest += _pairs(pairs, axes, shapes)
    parts = (*rest, *shapes.values())
    return None if all(isinstance(part, Exact) for part in parts) else Tables(parts, len(coef))


def _axes(channels: Sequence[Channel], instances: np.ndarray) -> dict[Key, Axis]:
    """The axes of all columns that have one."""
    kernels: dict[Key, list[Kernel]] = {}
    for channel in channels:
        for key, kernel in factors(channel):
            kernels.setdefault(key, []).append(kernel)
    axes = {key: make_axis(group, instances[:, key[0]]) for key, group in kernels.items()}
    return {key: axis for key, axis in axes.items() if axis is not None}


def _done(jobs: Sequence[Callable[[], R]]) -> list[R]:
    """What some functions return, side by side."""
    return thread_map(lambda job: job(), jobs) if jobs else []


def _shape(key: Key, axis: Axis, group: Sequence[Exact]) -> Shape:
    """What some channels on one column add together."""
    table = np.zeros((axis.size + 2, axis.powers, len(group[0].coef)))
    for exact in group:
        s = exact.instances[:, key[0]]
        for some in steps(len(s), axis.size):
            table += axis.coefficients(exact.channel.kernel, s[some]) @ exact.coef[:, some].T
    return Shape(key, axis, np.ascontiguousarray(table.transpose(2, 1, 0), dtype=np.float32), tuple(group))


def _pairs(pairs: Sequence[Exact], axes: Mapping[Key, Axis], shapes: dict[Key, Shape]) -> list[Part]:
    """Tables of products, as many as there is room for, with the shapes of their columns, which leave `shapes`."""
    room, kept, rest = MEMORY, list[Exact](), list[Part]()
    for exact in pairs:
        sizes = (min(axes[key].size, WINDOW) * axes[key].powers for key, _ in factors(exact.channel))
        need = 4 * len(exact.coef) * prod(sizes)
        (kept if need <= room else rest).append(exact)
        room -= need if need <= room else 0
    wanted = list(dict.fromkeys(factor for exact in kept for factor in factors(exact.channel)))
    s = pairs[0].instances.T if pairs else np.empty((0, 0))
    found = _done([partial(axes[key].coefficients, kernel, s[key[0]]) for key, kernel in wanted])
    values, jobs = dict(zip(wanted, found, strict=True)), []
    for exact in kept:
        first, second = factors(exact.channel)
        a, b = (Side.of(key, axes[key], s[key[0]], shapes.pop(key, None)) for key, _ in (first, second))
        jobs.append(partial(Pair.of, (a, b), (values[first], values[second]), exact))
    return rest + _done(jobs)
