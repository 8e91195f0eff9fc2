"""Sparse non-negative codes in a graph: the pursuit of `tamis.optim.nqp`, one pivot of every row at a time.

A row keeps the matrix A that Gauss-Jordan pivots on its support S make of Q, and ``v`` which they make of b = -c:

    A_SS = Q_SS^-1,   v_S = Q_SS^-1 b_S, the minimum over the support,   v_N = b_N - Q_NS v_S, minus the gradient,
    A_jj of an entry outside is its pivot.

A pivot on entry j, with row r and column q of A, lets j join S or, a second time, leave it:

    A <- A - (q - e_j)(r + e_j)' / A_jj,   v <- v - (q - e_j) v_j / A_jj

Choices, ties and ends are those of the pursuit there; entries that reach zero together leave one after another before
any other step. Masks are numbers, one or zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tamis.io.export.graph import Graph
from tamis.optim.nqp import FALL, GRADIENT, PASSES, PATIENCE, PIVOT, ROUNDING, TIED

PIVOTS = 4.0  # most pivots of a pass, on average


@dataclass(frozen=True)
class Codes:
    """Codes (rows, d), and what they are made by."""

    graph: Graph  # where all this is
    values: str  # (rows, d) the codes
    inverse: str  # (rows, d, d) ``Q_SS^-1`` on the support, zero elsewhere
    support: str  # (rows, d, 1) ones on the support
    Q: np.ndarray  # (d, d)

    def applied(self, images: str) -> str:
        """``Q_SS^-1 B_S`` (rows, d, p) of B (rows, d, p), with one step of refinement."""
        graph = self.graph
        some = graph.op("Mul", images, self.support)
        first = graph.op("MatMul", self.inverse, some)
        left = graph.op("Sub", some, graph.mixed(self.Q, first))
        return graph.op("Add", first, graph.op("MatMul", self.inverse, left))


def sparse_codes(graph: Graph, Q: np.ndarray, b: str, limit: int | None) -> Codes:
    """Nodes of ``min_x 1/2 x'Qx - b'x`` with ``x >= 0`` and at most `limit` positive entries, for rows b (n, d)."""
    d = len(Q)
    barred = (np.diagonal(Q) <= 0).astype(float)
    none, flat = graph.tiled(b, np.zeros(d)), graph.tiled(b, np.zeros(1))
    states = [graph.tiled(b, Q), b, b, none, graph.tiled(b, barred), none, none, flat, flat, flat, flat, flat]
    shapes: list[tuple[int, ...]] = [(d, d), *[(d,)] * 6, *[(1,)] * 5]
    pursuit = _Pursuit(np.asarray(Q, dtype=float), min(d, limit or d))
    ends = graph.loop(int(PIVOTS * PASSES * (d + 1)), shapes, states, pursuit.turn)
    A, support = ends[0], ends[3]
    tall, wide = (graph.op("Unsqueeze", support, graph.constant(np.array([axis]))) for axis in (2, 1))
    inverse = graph.op("Mul", graph.op("Mul", A, tall), wide)
    codes = Codes(graph, "", inverse, tall, Q)
    column = graph.op("Unsqueeze", b, graph.constant(np.array([2])))
    values = graph.op("Squeeze", codes.applied(column), graph.constant(np.array([2])))
    return Codes(graph, values, inverse, tall, Q)


@dataclass(frozen=True)
class _Pursuit:
    """What one turn of the loop does: Q (d, d), and the most entries of a support."""

    Q: np.ndarray
    most: int

    def turn(self, graph: Graph, *states: str) -> Sequence[str]:
        """Pivot once, and end the passes that are complete.

        States: A (d, d); b, v, support, barred, leaving, x (d,); energy, idle, joined, crossed, done (1,).
        """
        A, b, v, support, barred, leaving, x, energy, idle, joined, crossed, done = states
        m = _Masks(graph, len(self.Q))
        removes = m.any(leaving)
        starts = m.both(m.no(done), m.no(removes))
        entry, joins, tried, stops = self._entry(m, A, b, v, barred, starts)
        done = m.either(done, stops)
        barred = m.either(barred, m.both(tried, entry))
        entry, leaver = m.both(entry, joins), m.both(m.first(leaving), removes)
        A, v = _pivoted(m, A, v, m.plus(entry, leaver))
        support = m.minus(m.plus(support, entry), leaver)
        leaving = m.minus(leaving, leaver)
        joined, crossed = m.choose(starts, joins, joined), m.both(crossed, m.no(starts))

        active = m.both(m.no(done), m.no(m.any(leaving)))
        z = m.both(v, support)
        crosses, out, stepped = _crossing(m, x, z, support, active)
        settles = m.both(active, m.no(crosses))
        x = m.choose(crosses, stepped, m.choose(settles, z, x))
        leaving, crossed = m.plus(leaving, out), m.either(crossed, crosses)
        barred = m.choose(crosses, self._barred(m, barred, support, out), barred)

        new = m.sum(m.both(b, z))
        exact = self.most == len(self.Q)
        slight = m.less(m.minus(new, energy), m.both(new, m.number(ROUNDING if exact else FALL)))
        energy = m.choose(settles, new, energy)
        if exact:
            counted = m.choose(slight, m.plus(idle, crossed), m.number(0.0))
            idle = m.choose(settles, counted, idle)
            over = m.not_less(idle, m.number(PATIENCE))
        else:
            full = m.not_less(m.sum(support), m.number(self.most))
            over = m.either(m.both(joined, slight), full)
        done = m.either(done, m.both(settles, over))
        open_rows = graph.op("ReduceSum", m.no(done), keepdims=0)
        goes_on = graph.op("Greater", open_rows, m.number(0.0))
        return goes_on, A, b, v, support, barred, leaving, x, energy, idle, joined, crossed, done

    def _entry(self, m: _Masks, A: str, b: str, v: str, barred: str, starts: str) -> tuple[str, str, str, str]:
        """The entry of least gradient (d,), whether it joins, whether it was tried, and which rows are at an end."""
        floor = m.both(m.graph.extreme("Max", m.graph.op("Abs", b)), m.number(-GRADIENT))
        gradient = m.choose(barred, m.number(np.inf), m.graph.op("Neg", v))
        least = m.graph.extreme("Min", gradient)
        entry = m.first(m.not_less(m.minus(least, m.both(floor, m.number(TIED))), gradient))
        ends = m.not_less(least, floor)
        tried = m.both(starts, m.no(ends))
        diagonal = m.graph.op("ReduceSum", m.both(A, m.number(np.eye(len(self.Q)))), m.axis(2), keepdims=0)
        least_pivot = m.sum(m.both(entry, m.number(PIVOT * np.diagonal(self.Q))))
        able = m.not_less(m.sum(m.both(entry, diagonal)), least_pivot)
        falls = m.less(m.number([0.0]), m.sum(m.both(entry, v)))
        return entry, m.both(m.both(tried, able), falls), tried, m.both(starts, ends)

    def _barred(self, m: _Masks, barred: str, support: str, out: str) -> str:
        """The entries that may not join after some have left: without a limit only those of the support."""
        if self.most < len(self.Q):
            return m.minus(barred, out)
        return m.either(m.minus(support, out), m.number((np.diagonal(self.Q) <= 0).astype(float)))


def _pivoted(m: _Masks, A: str, v: str, e: str) -> tuple[str, str]:
    """A and v after pivots on the entries e (rows, d), none where that is zero."""
    graph = m.graph
    tall, wide = graph.op("Unsqueeze", e, m.axis(2)), graph.op("Unsqueeze", e, m.axis(1))
    row = graph.op("MatMul", wide, A)
    pivot = graph.op("MatMul", row, tall)
    nothing = graph.op("Unsqueeze", m.no(m.any(e)), m.axis(2))
    side = graph.op("Div", m.minus(graph.op("MatMul", A, tall), tall), m.plus(pivot, nothing))
    image = m.both(graph.op("Squeeze", side, m.axis(2)), m.sum(m.both(e, v)))
    return m.minus(A, graph.op("MatMul", side, m.plus(row, wide))), m.minus(v, image)


def _crossing(m: _Masks, x: str, z: str, support: str, active: str) -> tuple[str, str, str]:
    """Which rows have entries of z that are not positive, the entries that reach zero first, and x where they do."""
    below = m.both(support, m.not_less(m.number([0.0]), z))
    crosses = m.both(active, m.any(below))
    way = m.minus(x, z)
    ahead = m.less(m.number([0.0]), way)
    ratio = m.graph.op("Div", x, m.choose(ahead, way, m.number([1.0])))
    share = m.choose(below, m.choose(ahead, ratio, m.number([0.0])), m.number([np.inf]))
    step = m.graph.extreme("Min", share)
    out = m.both(m.both(below, m.not_less(step, share)), crosses)
    step = m.choose(crosses, step, m.number([0.0]))
    return crosses, out, m.both(m.minus(x, m.both(step, way)), m.minus(support, out))


class _Masks:
    """Arithmetic of numbers and masks (rows, d) in a graph."""

    def __init__(self, graph: Graph, d: int):
        self.graph, self.number, self.d = graph, graph.number, d

    def axis(self, which: int) -> str:
        return self.graph.constant(np.array([which]))

    def plus(self, a: str, b: str) -> str:
        return self.graph.op("Add", a, b)

    def minus(self, a: str, b: str) -> str:
        return self.graph.op("Sub", a, b)

    def both(self, a: str, b: str) -> str:
        return self.graph.op("Mul", a, b)

    def either(self, a: str, b: str) -> str:
        return self.graph.op("Max", a, b)

    def no(self, a: str) -> str:
        return self.minus(self.number([1.0]), a)

    def any(self, a: str) -> str:
        return self.graph.extreme("Max", a)

    def sum(self, a: str) -> str:
        return self.graph.op("ReduceSum", a, self.axis(1), keepdims=1)

    def less(self, a: str, b: str) -> str:
        return self.graph.as_numbers(self.graph.op("Less", a, b))

    def not_less(self, a: str, b: str) -> str:
        return self.graph.as_numbers(self.graph.op("GreaterOrEqual", a, b))

    def choose(self, mask: str, a: str, b: str) -> str:
        return self.graph.op("Where", self.graph.op("Greater", mask, self.number([0.0])), a, b)

    def first(self, mask: str) -> str:
        """The first entry (rows, d) of the largest of each row."""
        place = self.graph.op("ArgMax", mask, axis=1, keepdims=1)
        return self.graph.as_numbers(self.graph.op("Equal", place, self.graph.constant(np.arange(self.d))))
