"""Three small problems over weights of bounded sums.

    A = {a >= 0 : r'a <= 1 for every row r}

The rows are those of a non-negative matrix or, with `caps`, all their means in which no row counts more than its cap:
then ``max r'a`` is the mean over a worst share. However many rows there are, few of them bind: problems are solved
on some, and the row that the solution violates most is added until there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import linprog

FEW = 64  # up to so many rows all are taken
OVER = 1e-9  # by how much a sum may exceed one before its row is added
GAP = 1e-10  # complementarity at which Newton steps end, relative to the objective
STEPS = 80  # most Newton steps
CENTRE = 0.1  # share of the complementarity that a step aims at
INSIDE = 0.95  # share of the way to the border that a step may go
NONE = 1e-7  # weights below this share of the largest are zero

Solver = Callable[[np.ndarray], np.ndarray]
Model = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Polytope:
    """``{a >= 0 : r'a <= 1}`` for rows, or for their capped means.

    Attributes
    ----------
    rows : (R, m) non-negative, every column with a positive entry
    caps : (R,) adding up to one or more, or None for the rows themselves
    """

    rows: np.ndarray
    caps: np.ndarray | None = None

    def worst(self, a: np.ndarray) -> np.ndarray:
        """The row (m,) of largest ``r'a``."""
        heights = self.rows @ a
        if self.caps is None:
            return self.rows[int(np.argmax(heights))]
        order = np.argsort(-heights, kind="stable")
        room = np.maximum(0.0, 1.0 - np.concatenate([[0.0], np.cumsum(self.caps[order])[:-1]]))
        return np.minimum(self.caps[order], room) @ self.rows[order]

    def height(self, a: np.ndarray) -> float:
        """The largest ``r'a``."""
        return float(self.worst(a) @ a)

    def first(self) -> np.ndarray:
        """Rows (k, m) that bound every weight: all, if they are few."""
        m = self.rows.shape[1]
        if self.caps is None and len(self.rows) <= FEW:
            return self.rows
        return np.unique([self.worst(a) for a in np.vstack([np.eye(m), np.ones(m)])], axis=0)


def centre(polytope: Polytope) -> np.ndarray:
    """Equal weights on the border."""
    ones = np.ones(polytope.rows.shape[1])
    return ones / polytope.height(ones)


def widest(polytope: Polytope, gain: np.ndarray, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Solve ``max gain'a  subject to  a in A`` for a non-negative gain (m,).

    Parameters
    ----------
    rows : (k, m) rows that are likely to bind, those of a similar problem; they must bound every weight

    Returns
    -------
    a, rows : the solution (m,) and the rows that it was found with
    """
    size = float(gain.max())
    if size <= 0:
        return centre(polytope), polytope.first() if rows is None else rows

    def on(some: np.ndarray) -> np.ndarray:
        if len(some) == 1:
            best = int(np.argmax(gain / some[0]))
            return np.where(np.arange(len(gain)) == best, 1.0 / some[0, best], 0.0)
        found = linprog(-gain / size, A_ub=some, b_ub=np.ones(len(some)), method="highs")
        return np.maximum(found.x, 0.0)

    return _with_rows(polytope, on, rows)


def spread(polytope: Polytope, norms: np.ndarray, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Solve ``min sum_p norms_p^2 / a_p  subject to  a in A``; a weight whose norm is zero is zero.

    With one row r the solution is ``a_p = norms_p / sqrt(r_p)``, scaled to ``r'a = 1``. Parameters and returns are
    as in `widest`.
    """
    kept = np.flatnonzero(norms > 0)
    if not len(kept):
        return np.zeros(len(norms)), polytope.first() if rows is None else rows

    def on(some: np.ndarray) -> np.ndarray:
        part, out = some[:, kept], np.zeros(len(norms))
        out[kept] = _spread(part[part.any(axis=1)], norms[kept])
        return out

    a, rows = _with_rows(polytope, on, rows)
    return a / polytope.height(a), rows


def nearest(
    polytope: Polytope, hessian: np.ndarray, linear: np.ndarray, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Solve ``min 1/2 a'Ha - c'a  subject to  a in A`` for a positive definite H (m, m) and c (m,).

    Parameters and returns are as in `widest`.
    """

    def on(some: np.ndarray) -> np.ndarray:
        scale = some.max(axis=0)
        H, c = hessian / np.outer(scale, scale), linear / scale
        size = max(float(np.max(np.abs(H))), float(np.max(np.abs(c))))
        H, c = H / size, c / size

        def model(a: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            return 1.0, H @ a - c, H

        a = _interior(some / scale, np.ones(len(scale)), model)
        return np.where(a > NONE * a.max(), a, 0.0) / scale

    return _with_rows(polytope, on, rows)


def _with_rows(polytope: Polytope, on: Solver, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The solution of a problem that `on` solves on some rows, and these."""
    rows = polytope.first() if rows is None else rows
    while True:
        a = on(rows)
        worst = polytope.worst(a)
        over = float(worst @ a)
        if over <= 1.0 + OVER or np.any(np.all(rows == worst, axis=1)):
            return a / max(1.0, over), rows
        rows = np.vstack([rows, worst])


def _spread(rows: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """`spread` on a few rows (R, m) that bound every weight, for positive norms."""
    if len(rows) == 1:
        a = norms / np.sqrt(rows[0])
        return a / float(rows[0] @ a)
    scale = rows.max(axis=0)
    roots = norms * np.sqrt(scale)
    squares = (roots / roots.sum()) ** 2

    def model(a: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        cost = squares / a
        return float(cost.sum()), -cost / a, np.diag(2.0 * cost / a**2)

    return _interior(rows / scale, roots, model) / scale


def _interior(rows: np.ndarray, start: np.ndarray, model: Model) -> np.ndarray:
    """Minimise a convex function of a (m,) over ``a >= 0, rows a <= 1`` by primal-dual Newton steps.

    The unknowns are a, the slacks ``s = h - G a`` of all rows and bounds, and multipliers v with

        gradient + G'v = 0,   v s = 0,   s, v >= 0

    Parameters
    ----------
    rows : (R, m) that bound every weight
    start : (m,) positive; a multiple of it is the start
    model : size of the objective, its gradient and Hessian at a
    """
    m = len(start)
    G = np.vstack([rows, -np.eye(m)])
    a = start / (2.0 * float(np.max(rows @ start)))
    slack = np.concatenate([1.0 - rows @ a, a])
    v = np.full(len(G), 1.0 / len(G))
    for _ in range(STEPS):
        size, gradient, hessian = model(a)
        residual, gap = gradient + G.T @ v, float(v @ slack)
        if max(gap, float(np.max(np.abs(residual * a)))) <= GAP * size:
            break
        aim = CENTRE * gap / len(G)
        try:
            factor = cho_factor(hessian + (G.T * (v / slack)) @ G, lower=True)
        except LinAlgError:  # at the border to working accuracy
            break
        step = cho_solve(factor, -residual - G.T @ (aim / slack - v))
        fall = -G @ step
        turn = (aim - v * fall) / slack - v
        limits = [np.min(-x[dx < 0] / dx[dx < 0], initial=np.inf) for x, dx in ((slack, fall), (v, turn))]
        length = min(1.0, INSIDE * min(limits))
        slack, v = slack + length * fall, v + length * turn
        a = slack[len(rows) :].copy()
    return a
