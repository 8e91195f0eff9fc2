"""Sums over kept cases and kernels: ``sum_j sum_l loads_l[j, q] k_l(x_j, x)``, whole, by kernel and by case.

Terms of equal shapes are evaluated side by side, at most `WIDTH` values of a row together, so that a row of
intermediate values stays short whatever the size of the model. Pairs (case, kernel) without a load are not evaluated,
and terms that are linear in the features need no kernel values at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tamis.io.export.onnx.cells import Cells
from tamis.io.export.onnx.kernels import IDENTITY, Factors, bump_rates, linear, merged, values
from tamis.kernels.portable import Expression

WIDTH = 128  # most values of a row that are evaluated together, unless one kernel has more
FEW = 64  # up to so many cases a dense product shares values out to cases


@dataclass(frozen=True)
class Term:
    """The values of one kernel with w cases, and what they add to the outputs.

    Attributes
    ----------
    factors : whose product the values are
    cases : (w,) positions among the k cases
    channel : position among the kernels
    loads : (w, q)
    """

    factors: Factors
    cases: np.ndarray
    channel: int
    loads: np.ndarray

    @property
    def shapes(self) -> tuple[Expression, ...]:
        return tuple(factor.shape for factor in self.factors)

    def used(self) -> Term:
        """Without the cases that have no load."""
        kept = np.flatnonzero(np.any(self.loads != 0, axis=1))
        factors = tuple(factor.take(kept) for factor in self.factors)
        return Term(factors, self.cases[kept], self.channel, self.loads[kept])

    def rounding(self, codes: np.ndarray) -> float:
        """A bound of what float32 adds to the error of any output, where all cases have loads."""
        most = [
            max(1, len(bump_rates(factor.shape))) for factor in self.factors
        ]  # values of bumps, and of zeros and ones
        errors = sum(factor.rounding(codes) / m for factor, m in zip(self.factors, most, strict=True)) * np.prod(most)
        return float(errors @ np.abs(self.loads).max(axis=1))


@dataclass(frozen=True)
class Sums:
    """Names of sums (rows, q), of their parts by kernel (rows, q, L) and by case (rows, q, k); or None."""

    whole: str
    by_kernel: str | None
    by_case: str | None


@dataclass(frozen=True)
class Extent:
    """How many outputs, cases and kernels there are."""

    q: int
    k: int
    L: int


def add_up(cells: Cells, terms: Sequence[Term], extent: Extent, *, by_kernel: bool, by_case: bool) -> Sums:
    """Nodes that evaluate terms and add them up."""
    graph, (q, k, L) = cells.graph, (extent.q, extent.k, extent.L)
    terms = [term for term in (term.used() for term in terms) if len(term.cases)]
    if not terms:
        return Sums(
            graph.tiled(cells.like, np.zeros(q)),
            graph.tiled(cells.like, np.zeros((q, L))) if by_kernel else None,
            graph.tiled(cells.like, np.zeros((q, k))) if by_case else None,
        )
    whole, kernels, cases = [], [], []
    places: list[int] = []
    for chunk in chunks(terms):
        block = _Block(cells, chunk)
        if by_kernel:
            members = list(dict.fromkeys(term.channel for term in chunk))
            kernels.append(graph.split_axis(block.onto(_by_kernel(chunk, members, q)), (q, len(members))))
            places += members
        else:
            whole.append(block.onto(np.concatenate([term.loads for term in chunk])))
        if by_case:
            cases.append(block.by_case(q, k))
    parts = _has_margin(cells, kernels, places, L) if by_kernel else None
    total = graph.op("ReduceSum", parts, graph.constant(np.array([2])), keepdims=0) if parts else graph.total(whole)
    return Sums(total, parts, graph.total(cases) if by_case else None)


def chunks(terms: Sequence[Term]) -> Iterator[list[Term]]:
    """Terms of equal shapes together, up to `WIDTH` values."""
    for shapes in dict.fromkeys(term.shapes for term in terms):
        some: list[Term] = []
        for term in (term for term in terms if term.shapes == shapes):
            if some and sum(len(one.cases) for one in some) + len(term.cases) > WIDTH:
                yield some
                some = []
            some.append(term)
        yield some


class _Block:
    """Some terms of equal shapes."""

    def __init__(self, cells: Cells, terms: list[Term]):
        self.cells, self.terms = cells, terms
        self.factors = tuple(merged(some) for some in zip(*(term.factors for term in terms), strict=True))
        self.straight = [factor.shape for factor in self.factors] == [IDENTITY]

    def onto(self, matrix: np.ndarray) -> str:
        """The values times a matrix (w, p)."""
        if self.straight:
            return linear(self.cells, self.factors[0], matrix)
        graph = self.cells.graph
        return graph.op("MatMul", values(self.cells, self.factors), graph.number(matrix))

    def by_case(self, q: int, k: int) -> str:
        """What the cases add to the outputs (rows, q, k)."""
        graph, cases = self.cells.graph, np.concatenate([term.cases for term in self.terms])
        loads = np.concatenate([term.loads for term in self.terms])
        if k <= FEW or self.straight or len(self.terms) > 1:
            matrix = np.zeros((len(cases), q, k))
            matrix[np.arange(len(cases)), :, cases] = loads
            return graph.split_axis(self.onto(matrix.reshape(len(cases), q * k)), (q, k))
        shown = graph.op("Unsqueeze", values(self.cells, self.factors), graph.constant(np.array([1])))
        parts = graph.op("Mul", shown, graph.number(loads.T))
        if np.array_equal(cases, np.arange(k)):
            return parts
        back = np.full(k, len(cases))
        back[cases] = np.arange(len(cases))
        padded = graph.op("Pad", parts, graph.constant(np.array([0, 0, 0, 0, 0, 1])), graph.number(0.0))
        return graph.op("Gather", padded, graph.constant(back), axis=2)


def _by_kernel(chunk: list[Term], members: list[int], q: int) -> np.ndarray:
    """The loads of some terms as a matrix (w, q * members)."""
    sizes = [len(term.cases) for term in chunk]
    matrix = np.zeros((sum(sizes), q, len(members)))
    start = 0
    for term, size in zip(chunk, sizes, strict=True):
        matrix[start : start + size, :, members.index(term.channel)] = term.loads
        start += size
    return matrix.reshape(len(matrix), q * len(members))


def _has_margin(cells: Cells, parts: list[str], places: list[int], L: int) -> str:
    """Parts (rows, q, m) side by side, each added to its place: (rows, q, L)."""
    graph = cells.graph
    table = graph.concat(parts, axis=2)
    if places == list(range(L)):
        return table
    if sorted(places) == list(range(L)):
        return graph.op("Gather", table, graph.constant(np.argsort(places)), axis=2)
    matrix = np.zeros((len(places), L))
    matrix[np.arange(len(places)), places] = 1.0
    return graph.op("MatMul", table, graph.number(matrix))


def loaded(factors: Factors, channel: int, loads: np.ndarray) -> Term:
    """A term of all cases with loads (k, q)."""
    return Term(factors, np.arange(len(loads)), channel, loads)
