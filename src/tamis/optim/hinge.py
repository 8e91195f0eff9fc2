"""Squared-hinge machines: a convex one by Newton's method, and the stationary points of an indefinite one.

`solve_hinge` minimises a convex quadratic plus squared hinges. `stationary` looks for points where the gradient of

    lam beta'K beta + sum_i cost_i max(0, 1 - y_i (K_i beta + b))^2

vanishes, the problem of [XueSong2020, Algorithm 3], without a claim that they are minima: where K has negative
eigenvalues the objective may have no lower bound. The gradient in beta is 2 K times ``lam beta - cost * y * slack``, so
it is enough (and needed, if K is regular) that

    lam beta_i = cost_i y_i max(0, 1 - y_i (K_i beta + b))  for all i,    sum(beta) = 0.

Given the rows A with positive slack these are linear equations,

    [[K_AA + lam diag(1 / cost_A), 1], [1', 0]] [beta_A; b] = [y_A; 0],    beta = 0 elsewhere,

and their solution is also the Newton point of the objective at any point whose rows of positive slack are A.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dsysv

from tamis.optim.losses import slack

DECREMENT_TOL = 1e-12  # of Newton steps, relative to ``1 + |value|``
RIDGE = 1e-12  # added to the Hessian, relative to its mean diagonal entry: it may be singular
ARMIJO = 1e-4  # share of the predicted decrease that a step must bring
MAX_HALVINGS = 40  # most halvings of a step
MAX_SETS = 100  # most sets of rows that Newton steps try
SOLVE_TOL = 1e-9  # residual of a linear system for labels of modulus one from which on it counts as singular
ACCEPTED_RESIDUAL = 1e-10  # residual of a stationary point at which no other is looked for
MIN_SLACK = 1e-6  # slack that residuals are compared with at least
SLACK_ROUNDING = 1e-13  # slack that is rounding
PIVOTS_PER_ROW = 4  # active-set steps per row


@dataclass(frozen=True)
class HingeMachine:
    """A minimiser."""

    beta: np.ndarray  # (n,) coefficients
    intercept: float
    value: float  # the objective
    # by how much another Newton step is expected to lower `value`; zero up to rounding at the solution
    decrement: float
    gradient: float  # largest entry of the gradient, in modulus


@dataclass(frozen=True)
class StationaryPoint:
    """The best point found."""

    beta: np.ndarray  # (n,) coefficients, of sum zero
    intercept: float
    # ``max|lam beta / cost - y slack|`` over rows with a cost, relative to the largest slack if that is between 1e-6
    # and 1, and to these ends otherwise; so huge coefficients do not make it small
    residual: float


def solve_hinge(
    K: np.ndarray,  # (m, n)
    y: np.ndarray,  # (m,) in {-1, +1}
    cost: np.ndarray,  # (m,) at least zero
    P: np.ndarray | float,  # (n, n) symmetric positive semi-definite, or (n,) or a number for a diagonal
    *,
    linear: np.ndarray | None = None,  # (n,), zero if not given
    start: tuple[np.ndarray, float] | None = None,  # (beta, b) of a similar problem
    max_iter: int = 100,
) -> HingeMachine:
    """Minimise ``beta'P beta - linear'beta + sum_i cost_i max(0, 1 - y_i (K beta + b)_i)^2`` over beta and b.

    Notes
    -----
    The objective is quadratic where no row changes sides, so Newton's method is finite. A full step that leaves every
    row on its side ends it as well. With a singular P and a `linear` outside its range there may be no minimum; then
    `decrement` stays large.
    """
    n = K.shape[1]
    quadratic, slope = np.zeros((n + 1, n + 1)), np.zeros(n + 1)  # nothing for the intercept
    quadratic[:n, :n] = P if np.ndim(P) == 2 else np.diag(np.broadcast_to(P, n))
    slope[:n] = 0.0 if linear is None else linear
    problem = _Convex(np.column_stack([K, np.ones(len(y))]), y, cost, quadratic, slope)
    z = np.zeros(n + 1) if start is None else np.append(np.asarray(start[0], dtype=float), start[1])
    value, settled = problem.value(z), False
    for _ in range(max_iter):
        gradient, step = problem.newton(z)
        decrement = 0.5 * float(gradient @ step)
        if settled or decrement <= DECREMENT_TOL * (1.0 + abs(value)):
            break
        active = problem.slack(z) > 0
        length, new = problem.search(z, step, value, 2.0 * decrement)
        if length == 0:
            break
        z, value = z - length * step, new
        settled = length == 1.0 and np.array_equal(active, problem.slack(z) > 0)
    gradient, step = problem.newton(z)
    return HingeMachine(z[:-1], float(z[-1]), value, 0.5 * float(gradient @ step), float(np.max(np.abs(gradient))))


@dataclass(frozen=True)
class _Convex:
    """``z'Pz - linear'z + sum_i cost_i max(0, 1 - y_i (J z)_i)^2`` with ``J = [K, 1]`` and ``z = (beta, b)``."""

    J: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    P: np.ndarray
    linear: np.ndarray

    def slack(self, z: np.ndarray) -> np.ndarray:
        return slack(self.J @ z, self.y)

    def value(self, z: np.ndarray) -> float:
        return float(z @ (self.P @ z) - self.linear @ z + self.cost @ self.slack(z) ** 2)

    def newton(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The gradient, and the Newton step to be subtracted."""
        slack = self.slack(z)
        gradient = 2.0 * (self.P @ z) - self.linear - 2.0 * self.J.T @ (self.cost * self.y * slack)
        rows = np.sqrt(self.cost[slack > 0])[:, None] * self.J[slack > 0]
        hessian = 2.0 * (self.P + rows.T @ rows)
        ridge = RIDGE * max(float(np.trace(hessian)) / len(z), np.finfo(float).tiny)
        while True:
            try:
                return gradient, cho_solve(cho_factor(hessian + ridge * np.eye(len(z))), gradient)
            except np.linalg.LinAlgError:
                ridge *= 100.0

    def search(self, z: np.ndarray, step: np.ndarray, value: float, slope: float) -> tuple[float, float]:
        """The first of 1, 1/2, 1/4, ... that lowers the value enough, with the value there; zero where none does."""
        length = 1.0
        for _ in range(MAX_HALVINGS):
            new = self.value(z - length * step)
            if new <= value - ARMIJO * length * slope:
                return length, new
            length *= 0.5
        return 0.0, value


def stationary(
    K: np.ndarray, y: np.ndarray, cost: np.ndarray, lam: float, start: np.ndarray | None = None
) -> StationaryPoint:
    """Find beta and b with ``lam beta_i = cost_i y_i max(0, 1 - y_i (K_i beta + b))`` and ``sum(beta) = 0``.

    Parameters
    ----------
    K : (n, n) symmetric, of any signature
    y : (n,) in {-1, +1}
    cost : (n,) at least zero; rows of cost zero have coefficient zero
    lam : positive
    start : (n,) rows to begin with, or coefficients whose non-zero entries are these rows; all rows if not given

    Notes
    -----
    Newton steps between sets of rows come first, each set being tried once. When one comes back, an active-set method
    takes over: it lowers ``1/2 beta'(K + lam diag(1 / cost)) beta - y'beta`` under ``y beta >= 0``, ``sum(beta) = 0``,
    and ends at the unique solution if that matrix is positive definite on vectors of sum zero. Otherwise there may be
    none or several; `residual` shows whether one was found. A constant added to K changes nothing.
    """
    if not lam > 0:
        raise ValueError(f"lam={lam}: it divides the slack, so it must be above 0")
    paying = cost > 0
    system = _System(K - np.mean(K), y, cost, lam)
    first = paying if start is None else paying & (np.asarray(start) != 0)
    best = min(_newton_points(system, first), key=attrgetter("residual"))
    if best.residual > ACCEPTED_RESIDUAL:
        best = min(best, *_pivot_points(system, best.beta), key=attrgetter("residual"))
    return best


@dataclass(frozen=True)
class _System:
    """The equations of stationary points."""

    K: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    lam: float

    def solve(self, rows: np.ndarray) -> tuple[np.ndarray, float]:
        """Coefficients and intercept if `rows` (n,) are those with positive slack; least squares where singular."""
        A = np.flatnonzero(rows)
        k = len(A)
        matrix = np.zeros((k + 1, k + 1))
        matrix[:k, :k] = self.K[np.ix_(A, A)]
        matrix[np.arange(k), np.arange(k)] += self.lam / self.cost[A]
        matrix[k, :k] = matrix[:k, k] = 1.0
        right = np.append(self.y[A], 0.0)
        x, failed = dsysv(matrix, right)[2:]
        if failed or not np.max(np.abs(matrix @ x - right)) <= SOLVE_TOL:
            x = np.linalg.lstsq(matrix, right)[0]
        beta = np.zeros(len(self.y))
        beta[A] = x[:k]
        return beta, float(x[k])

    def slack(self, beta: np.ndarray, intercept: float) -> np.ndarray:
        return slack(self.K @ beta + intercept, self.y)

    def point(self, beta: np.ndarray, intercept: float) -> StationaryPoint:
        slack = self.slack(beta, intercept)
        share = np.divide(self.lam * beta, self.cost, out=np.zeros(len(beta)), where=self.cost > 0)
        gap = np.where(self.cost > 0, np.abs(share - self.y * slack), 0.0)
        return StationaryPoint(beta, intercept, float(np.max(gap)) / float(np.clip(np.max(slack), MIN_SLACK, 1.0)))


def _newton_points(system: _System, rows: np.ndarray) -> Iterator[StationaryPoint]:
    """The solutions for one set of rows after the other, until a set repeats or there were too many of them."""
    seen: set[bytes] = set()
    while rows.tobytes() not in seen and len(seen) < MAX_SETS:
        seen.add(rows.tobytes())
        beta, intercept = system.solve(rows)
        yield system.point(beta, intercept)
        rows = (system.slack(beta, intercept) > 0) & (system.cost > 0)


def _pivot_points(system: _System, beta: np.ndarray) -> Iterator[StationaryPoint]:
    """The subspace solutions that an active-set method comes through, beginning near `beta`.

    A step goes towards the solution for the free rows until a coefficient reaches zero, which ends its freedom. At a
    solution the row outside that is most inside the margin becomes free.
    """
    alpha = _balanced(beta * system.y, system.y, system.cost)
    free = alpha > 0
    for _ in range(PIVOTS_PER_ROW * len(alpha)):
        target, intercept = system.solve(free)
        goal = target * system.y
        falling = free & (goal < 0)
        room = np.divide(alpha, alpha - goal, out=np.full(len(alpha), np.inf), where=falling)
        if falling.any():
            alpha = np.where(room <= room.min(), 0.0, np.maximum(0.0, alpha + room.min() * (goal - alpha)))
            free &= room > room.min()
            continue
        alpha = goal
        yield system.point(target, intercept)
        outside = np.where(free | (system.cost == 0), 0.0, system.slack(target, intercept))
        worst = int(np.argmax(outside))
        if outside[worst] <= SLACK_ROUNDING:
            return
        free[worst] = True


def _balanced(alpha: np.ndarray, y: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Non-negative coefficients with the same sum in both classes; equal ones where a class has none."""
    alpha = np.where(cost > 0, np.maximum(0.0, alpha), 0.0)
    for label in (-1.0, 1.0):
        side = (y == label) & (cost > 0)
        if side.any():
            total = float(alpha[side].sum())
            alpha[side] = alpha[side] / total if total > 0 else 1.0 / np.count_nonzero(side)
    return alpha
