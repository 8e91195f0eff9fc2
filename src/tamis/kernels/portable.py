"""The portable form of a kernel: a small tree of arithmetic that ONNX, SQL and JavaScript are written from.

A kernel gives it once (`Kernel.portable`); each language writes every kind of node once. In a tree s is a row and
t a kept case, both encoded; x_c is the cell of column c. Leaves compare the rows on some columns:

    distance        ``sum_c numbers[c] d_c(s, t)`` with the squared distances of `tamis.kernels.base`; costs[c] > 0
                    is that between two codes of a category
    product         ``numbers[0] s't + numbers[1]``, missing cells zero
    agreement       share of the columns with equal codes; a missing cell equals nothing
    own product     ``numbers[0] s's + numbers[1]``
    own agreement   share of the columns that s has
    constant        numbers[0]

The other nodes are functions of their parts u, v, ...:

    times  u v ...        sum    u + v + ...        decay  exp(-numbers[0] u)     root   sqrt(u)
    tanh   tanh(u)        power  u ** numbers[0]    ramp   max(0, 1 - u)          inverse_root  1 / sqrt(u), or zero
    case      u, with t in the place of s           complete  u, zero where s lacks one of the columns

A tree gives the values between rows and cases that have the kernel: those with a cell in the columns of each leaf
(`needed`). Without it the value is zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

MEASURES = ("distance", "product", "agreement")  # leaves that compare two rows


class NotPortable(ValueError):
    """A kernel has no portable form; `kernel` is the type that has none."""

    def __init__(self, kernel: type):
        super().__init__(f"the kernel {kernel.__name__} has no portable form")
        self.kernel = kernel


@dataclass(frozen=True)
class Expression:
    """A node of a tree; `columns` are positions among the encoded columns, `numbers` and `costs` constants."""

    kind: str
    numbers: tuple[float, ...] = ()
    parts: tuple[Expression, ...] = ()
    columns: tuple[int, ...] = ()
    costs: tuple[float, ...] = ()

    def leaves(self) -> Iterator[Expression]:
        """The leaves from left to right."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()

    def nodes(self) -> Iterator[Expression]:
        """The node itself and all below it."""
        yield self
        for part in self.parts:
            yield from part.nodes()

    def replaced(self, leaf: Expression, by: Expression) -> Expression:
        """The tree with another node in place of a leaf."""
        if self == leaf:
            return by
        return replace(self, parts=tuple(part.replaced(leaf, by) for part in self.parts))


def constant(value: float) -> Expression:
    """A number."""
    return Expression("constant", (float(value),))


def distance(columns: tuple[int, ...], rates: tuple[float, ...], costs: tuple[float, ...] = ()) -> Expression:
    """The sum of squared distances, ``rates[c]`` times each; columns of rate zero are left out."""
    costs = (*costs, *[0.0] * (len(columns) - len(costs)))
    kept = [(c, rate, cost) for c, rate, cost in zip(columns, rates, costs, strict=True) if rate > 0]
    names, numbers, priced = (tuple(values) for values in zip(*kept, strict=True))
    return Expression("distance", tuple(map(float, numbers)), (), names, tuple(map(float, priced)))


def product(columns: tuple[int, ...], scale: float, offset: float) -> Expression:
    """``scale s't + offset``."""
    return Expression("product", (float(scale), float(offset)), (), columns)


def agreement(columns: tuple[int, ...]) -> Expression:
    """The share of columns on which two rows agree."""
    return Expression("agreement", (), (), columns)


def times(*parts: Expression) -> Expression:
    """The product of parts."""
    return Expression("times", (), parts)


def decay(rate: float, part: Expression) -> Expression:
    """``exp(-rate part)``."""
    return Expression("decay", (float(rate),), (part,))


def function(kind: str, part: Expression, *numbers: float) -> Expression:
    """Any other function of one part: "root", "tanh", "power", "ramp", "inverse_root", "case"."""
    return Expression(kind, tuple(map(float, numbers)), (part,))


def complete(columns: tuple[int, ...], part: Expression) -> Expression:
    """The part for rows that have all the columns, zero for others."""
    return Expression("complete", (), (part,), columns)


def normalised(kernel: Expression) -> Expression:
    """``k(s, t) / sqrt(k(s, s) k(t, t))``."""
    root = function("inverse_root", _own(kernel))
    return times(kernel, root, function("case", root))


def _own(kernel: Expression) -> Expression:
    """``k(s, s)`` of a kernel's tree, for a row that has the kernel."""
    if kernel.kind == "distance":
        return constant(0.0)
    if kernel.kind in MEASURES:
        return replace(kernel, kind=f"own {kernel.kind}")
    return replace(kernel, parts=tuple(map(_own, kernel.parts)))


def needed(kernel: Expression) -> tuple[tuple[int, ...], bool]:
    """Columns that a row needs to have the kernel, and whether it needs all of them (otherwise one)."""
    groups = [node.columns for node in kernel.leaves() if node.kind in MEASURES]
    all_of = [node.columns for node in kernel.nodes() if node.kind == "complete"]
    single = [group for group in groups if len(set(group)) == 1]
    every = tuple(dict.fromkeys(c for group in (*all_of, *single) for c in group))
    others = {group for group in groups if not set(group) & set(every)}
    if not others:
        return every, True
    if every or len(others) > 1:
        raise ValueError("a product of kernels that need one of several columns each has no portable form")
    return others.pop(), False


def evaluate(node: Expression, rows: np.ndarray) -> np.ndarray:
    """The values (k,) of a tree without measures on encoded rows (k, d)."""
    values = [evaluate(part, rows) for part in node.parts]
    number = node.numbers[0] if node.numbers else 0.0
    cells = rows[:, list(node.columns)]
    match node.kind:
        case "constant":
            return np.full(len(rows), number)
        case "own product":
            return number * np.nansum(cells * cells, axis=1) + node.numbers[1]
        case "own agreement":
            return np.mean(~np.isnan(cells), axis=1)
        case "times":
            return np.prod(values, axis=0)
        case "sum":
            return np.sum(values, axis=0)
        case "decay":
            return np.exp(-number * values[0])
        case "root":
            return np.sqrt(values[0])
        case "tanh":
            return np.tanh(values[0])
        case "power":
            return values[0] ** number
        case "ramp":
            return np.maximum(0.0, 1.0 - values[0])
        case "inverse_root":
            return inverse_roots(values[0])
        case "case" | "complete":
            return values[0]
    raise ValueError(f"a node of the kind {node.kind!r} cannot be evaluated for a row by itself")


def inverse_roots(values: np.ndarray) -> np.ndarray:
    """``1 / sqrt(value)``, zero where that is not positive."""
    return np.where(values > 0, 1.0 / np.sqrt(np.where(values > 0, values, 1.0)), 0.0)
