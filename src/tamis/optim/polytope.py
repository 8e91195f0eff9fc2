"""Four small problems over weights of bounded sums.

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
from scipy.sparse import block_array, csc_array, csr_array, diags_array

MAX_ROWS_AT_ONCE = 64  # up to so many rows all are taken
ROW_TOL = 1e-9  # by how much a sum may exceed one before its row is added
COMPLEMENTARITY_TOL = 1e-12  # complementarity at which Newton steps end, relative to the objective
MAX_STEPS = 80  # most Newton steps
CENTRING = 0.1  # share of the complementarity that a step aims at
STEP_SHARE = 0.95  # share of the way to the border that a step may go
BINDING_SHARE = 0.9  # rows that reach so much of one may bind in the next problem
EQUAL_TOL = 1e-12  # relative difference of rows that are the same
MEAN_SHARE = 1e-9  # share of the mean of all rows in one that bounds
ZERO_SHARE = 1e-7  # weights below this share of the largest are zero

Solver = Callable[[np.ndarray], np.ndarray]
Model = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Polytope:
    """``{a >= 0 : r'a <= 1}`` for rows, or for their capped means."""

    rows: np.ndarray  # (R, m) non-negative, every column with a positive entry
    caps: np.ndarray | None = None  # (R,) adding up to one or more, or None for the rows themselves

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
        if self.caps is None and len(self.rows) <= MAX_ROWS_AT_ONCE:
            return self.rows
        return np.unique([self.worst(a) for a in np.vstack([np.eye(m), np.ones(m)])], axis=0)

    def mean(self) -> np.ndarray:
        """A row (m,) with a positive entry for every weight: the mean of all that no cap forbids."""
        return np.mean(self.rows, axis=0) if self.caps is None else self.caps @ self.rows / self.caps.sum()


def centre(polytope: Polytope) -> np.ndarray:
    """Weights on the border that are equal in units of their bounds."""
    even = 1.0 / polytope.rows.max(axis=0)
    return even / polytope.height(even)


def widest(
    polytope: Polytope, gain: np.ndarray, rows: np.ndarray | None = None
) -> tuple[np.ndarray, float, np.ndarray]:
    """Solve ``max gain'a  subject to  a in A`` for a non-negative gain (m,).

    Parameters
    ----------
    rows : (k, m) rows that are likely to bind, those of a similar problem; they must bound every weight

    Returns
    -------
    a, top, rows : the solution (m,), a number that the maximum does not exceed however inexact the solution is, and
        the rows that it was found with

    Notes
    -----
    Any mean r of rows bounds the maximum: ``gain'a <= max_p (gain_p / r_p) r'a <= max_p gain_p / r_p``. The multipliers
    of the rows give the r that attains it.
    """
    rows = polytope.first() if rows is None else rows
    if not gain.any():
        return centre(polytope), 0.0, rows
    if polytope.caps is not None:
        a, mean = _widest_capped(polytope, gain)
        return a / max(1.0, polytope.height(a)), _top(polytope, gain, mean), rows
    means: list[np.ndarray] = []

    def on(some: np.ndarray) -> np.ndarray:
        if len(some) == 1:
            means[:] = [some[0]]
            best = int(np.argmax(gain / some[0]))
            return np.where(np.arange(len(gain)) == best, 1.0 / some[0, best], 0.0)
        a, multipliers = _linear(gain, some, np.ones(len(some)))
        means[:] = [multipliers @ some / multipliers.sum()]
        return a

    a, rows = _with_rows(polytope, on, rows, ROW_TOL)
    return a, _top(polytope, gain, means[0]), rows


def _top(polytope: Polytope, gain: np.ndarray, mean: np.ndarray) -> float:
    """The bound that a mean of rows gives; a little of another one keeps it positive."""
    return float(np.max(gain / ((1.0 - MEAN_SHARE) * mean + MEAN_SHARE * polytope.mean())))


def _widest_capped(polytope: Polytope, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The solution and a mean of rows, from ``level + caps'above <= 1, rows a <= level + above, above >= 0``."""
    (R, m), caps = polytope.rows.shape, polytope.caps
    assert caps is not None
    over = [csr_array(polytope.rows), csr_array(-np.ones((R, 1))), -diags_array(np.ones(R))]
    table = block_array([over, [None, csr_array(np.ones((1, 1))), csr_array(caps[None])]], format="csc")
    found, multipliers = _linear(np.concatenate([gain, np.zeros(R + 1)]), table, np.concatenate([np.zeros(R), [1.0]]))
    share = multipliers[:R] / multipliers[:R].sum()
    return found[:m], np.minimum(share, caps) @ polytope.rows


def _linear(gain: np.ndarray, table: np.ndarray | csc_array, limits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``max gain'x  subject to  table x <= limits, x >= 0``, and the multipliers of the rows."""
    cells = csc_array(table)
    scale = abs(cells).max(axis=0).toarray().ravel()
    worth = gain / scale
    found = linprog(-worth / worth.max(), A_ub=cells @ diags_array(1.0 / scale), b_ub=limits, method="highs")
    if found.x is None:
        raise ArithmeticError(f"the linear program over {table.shape[1]} weights was not solved: {found.message}")
    return np.maximum(found.x, 0.0) / scale, np.maximum(-found.ineqlin.marginals, 0.0)


def lowest(
    polytope: Polytope, values: np.ndarray, slopes: np.ndarray, rows: np.ndarray | None = None, over: float = ROW_TOL
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve ``min max_t values_t - slopes_t'a  subject to  a in A`` for non-negative slopes (T, m).

    Returns
    -------
    a, shares, rows : the solution (m,), the shares (T,) in the mean of the functions that a minimises as well, and the
        rows that it was found with
    """
    size = max(float(np.ptp(values)), float(np.max(slopes / polytope.rows.max(axis=0))), np.finfo(float).tiny)
    shares: list[np.ndarray] = []

    def on(some: np.ndarray) -> np.ndarray:
        scale, T = some.max(axis=0), len(values)
        table = np.block([[-slopes / scale / size, -np.ones((T, 1))], [some / scale, np.zeros((len(some), 1))]])
        limits = np.concatenate([(values.min() - values) / size, np.ones(len(some))])
        price = np.concatenate([np.zeros(len(scale)), [1.0]])
        bounds = [(0, None)] * len(scale) + [(None, None)]
        found = linprog(price, A_ub=table, b_ub=limits, bounds=bounds, method="highs")
        if found.x is None:
            raise ArithmeticError(f"the linear program over {len(scale)} weights was not solved: {found.message}")
        weights = np.maximum(-found.ineqlin.marginals[:T], 0.0)
        shares[:] = [weights / weights.sum()]
        return np.maximum(found.x[:-1], 0.0) / scale

    a, rows = _with_rows(polytope, on, rows, over)
    return a, shares[0], rows


def spread(
    polytope: Polytope, norms: np.ndarray, rows: np.ndarray | None = None, over: float = ROW_TOL
) -> tuple[np.ndarray, np.ndarray]:
    """Solve ``min sum_p norms_p^2 / a_p  subject to  a in A``; a weight whose norm is zero is zero.

    With one row r the solution is ``a_p = norms_p / sqrt(r_p)``, scaled to ``r'a = 1``.

    Parameters
    ----------
    rows : as in `widest`
    over : by how much a sum may exceed one before its row is added

    Returns
    -------
    a, rows : the solution (m,), on the border, and the rows that it was found with
    """
    kept = np.flatnonzero(norms > 0)
    if not len(kept):
        return np.zeros(len(norms)), polytope.first() if rows is None else rows

    def on(some: np.ndarray) -> np.ndarray:
        part, out = some[:, kept], np.zeros(len(norms))
        out[kept] = _spread(part[part.any(axis=1)], norms[kept])
        return out

    a, rows = _with_rows(polytope, on, rows, over)
    return a / polytope.height(a), rows


def nearest(
    polytope: Polytope, hessian: np.ndarray, linear: np.ndarray, rows: np.ndarray | None = None, over: float = ROW_TOL
) -> tuple[np.ndarray, np.ndarray]:
    """Solve ``min 1/2 a'Ha - c'a  subject to  a in A`` for a positive definite H (m, m) and c (m,).

    Parameters and returns are as in `spread`, but for the border.
    """

    def on(some: np.ndarray) -> np.ndarray:
        scale = some.max(axis=0)
        H, c = hessian / np.outer(scale, scale), linear / scale
        size = max(float(np.max(np.abs(H))), float(np.max(np.abs(c))))
        H, c = H / size, c / size

        def model(a: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            return 1.0, H @ a - c, H

        a = _interior(some / scale, np.ones(len(scale)), model)
        return np.where(a > ZERO_SHARE * a.max(), a, 0.0) / scale

    return _with_rows(polytope, on, rows, over)


def _with_rows(polytope: Polytope, on: Solver, rows: np.ndarray | None, over: float) -> tuple[np.ndarray, np.ndarray]:
    """The solution of a problem that `on` solves on some rows, and those of them that may bind again."""
    rows = polytope.first() if rows is None else rows
    while True:
        a = on(rows)
        worst = polytope.worst(a)
        height = float(worst @ a)
        if height <= 1.0 + over or np.min(np.max(np.abs(rows - worst), axis=1)) <= EQUAL_TOL * worst.max():
            break
        rows = np.vstack([rows, worst])
    near = rows[rows @ a >= BINDING_SHARE * height]
    kept = near if len(rows) > MAX_ROWS_AT_ONCE and near.any(axis=0).all() else rows
    return a / max(1.0, height), kept


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
    for _ in range(MAX_STEPS):
        size, gradient, hessian = model(a)
        residual, gap = gradient + G.T @ v, float(v @ slack)
        if max(gap, float(np.max(np.abs(residual * a)))) <= COMPLEMENTARITY_TOL * size:
            break
        aim = CENTRING * gap / len(G)
        try:
            factor = cho_factor(hessian + (G.T * (v / slack)) @ G, lower=True)
        except LinAlgError:  # at the border to working accuracy
            break
        step = cho_solve(factor, -residual - G.T @ (aim / slack - v))
        fall = -G @ step
        turn = (aim - v * fall) / slack - v
        limits = [np.min(-x[dx < 0] / dx[dx < 0], initial=np.inf) for x, dx in ((slack, fall), (v, turn))]
        length = min(1.0, STEP_SHARE * min(limits))
        slack, v = slack + length * fall, v + length * turn
        a = slack[len(rows) :].copy()
    return a
