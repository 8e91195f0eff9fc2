"""Non-negative weights under a squared hinge: the weight step of l0-MKL [XueSong2020, Algorithm 4].

    min_d  q'd + sum_i max(0, c_i - (B d)_i)^2    subject to  d >= 0

B has many more columns than rows or many more rows than columns, and q any sign. With ``slack = max(0, c - B d)`` the
solutions are the points with

    d >= 0,    q - 2 B'slack >= 0,    d_m (q_m - 2 B_m'slack) = 0  for all m,

and the slack is the projection of c onto ``P = {x >= 0 : 2 B'x <= q}``: it is unique, while d need not be. Where P is
empty there is a ray ``u >= 0`` with ``B u >= 0`` and ``q'u < 0``, along which the objective falls for ever.

A working set holds the support and the columns whose conditions fail most. On it the problem is solved exactly in one
of two ways. The projection is a least-distance problem, which non-negative least squares solve
[LawsonHanson1974]. The descent takes Newton steps in the positive weights to where the objective is least along them
or a weight reaches zero, and lets weights become positive once the others are settled: non-negative least squares
again, with rows that come and go. Both end within rounding of a solution. The projection handles n rows at once and is
the quicker one up to some 160 of them, by a factor of two to eight where few; at 569 rows the descent is by forty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import nnls

MAX_ADDED = 60  # columns that join the working set in a round
MAX_ROUNDS = 500  # most rounds
MAX_PROJECTED_ROWS = 160  # rows up to which the projection is the quicker one
BLOCK_SHARE = 0.5  # columns whose condition fails by this share of the worst become positive together
STEPS_PER_ENTRY = 50  # Newton steps, and steps of non-negative least squares, per row and column of a working set
MAX_IDLE_STEPS = 20  # steps that do not lower the objective any more
SUPPORT_TOL = 1e-12  # violation at which the positive weights are settled
SCALE_FLOOR = 1e-4  # violations are compared with this share of c at least
MIN_PIVOT = 1e-5  # least pivot of unit columns that are independent beyond doubt
RANK_TOL = 1e-11  # singular values, and entries of a product, below this share are zero
ZERO_TOL = 1e-9  # gradients, and sums that should have a sign, below this share of their terms are zero
DIRECTION_TOL = 1e-14  # entries of a Newton direction below this share of the largest are zero
SLOPE_TOL = 1e-12  # slopes below this share of their terms are zero
EMPTY_TOL = 1e-8  # residual of the least-distance problem, whose right-hand side is a unit vector, when P is empty


@dataclass(frozen=True)
class WeightStep:
    """Weights, and what they leave."""

    d: np.ndarray  # (M,) at least zero, at most n of them positive
    slack: np.ndarray  # (n,) ``max(0, c - B d)``
    # the largest of ``|q_m - 2 B_m'slack|`` where ``d_m > 0`` and ``max(0, 2 B_m'slack - q_m)`` where ``d_m = 0``, each
    # over ``|q_m| + 2 |B_m| (|slack| + 1e-4 |c|)`` with Euclidean norms
    violation: float
    # None, or (M,) ``u >= 0`` with ``B u >= 0`` to rounding and ``q'u < 0``: the objective has no minimum, and `d` is
    # where that became clear
    ray: np.ndarray | None


def solve_nonnegative(
    B: np.ndarray,  # (n, M); rows with a cost are multiplied by its root, as is c
    # c, q: (n,) and (M,), of any sign
    c: np.ndarray,
    q: np.ndarray,
    *,
    start: np.ndarray | None = None,  # (M,) weights of a similar problem; the n largest are used
    tol: float = 1e-10,  # the violation to reach, see `WeightStep`
) -> WeightStep:
    """Solve ``min_d q'd + sum_i max(0, c_i - (B d)_i)^2`` subject to ``d >= 0``.

    Notes
    -----
    `violation` above `tol` without a ray means that rounding errors prevent a better point. A problem with ``q >= 0``
    always has a solution. Columns of zeros have weight zero, or are a ray if their q is negative.
    """
    whole = _checked(B, c, q)
    d = np.zeros(len(q)) if start is None else _largest(np.asarray(start, dtype=float), whole)
    solvers: tuple[Inner, ...] = (_project, _descend) if len(c) <= MAX_PROJECTED_ROWS else (_descend,)
    work = np.zeros(0, dtype=int)
    for _ in range(MAX_ROUNDS):
        excess = whole.excess(d)
        new = _worst(np.where(d > 0, -np.inf, excess), tol)
        wrong = np.max(np.abs(excess[d > 0]), initial=0.0) > tol
        if not (wrong or len(new)) or (len(work) and not len(np.setdiff1d(new, work))):
            break
        work = np.concatenate([np.flatnonzero(d), new])
        part = whole.part(work)
        weights, ray = _solve_part(part, d[work] * whole.norm[work], tol, solvers)
        d = _at(work, weights / whole.norm[work], len(q))
        if ray is not None:
            u = _at(work, ray / whole.norm[work], len(q))
            return _step(whole, d, u / u.max())
    return _step(whole, d, None)


def _step(problem: _Problem, d: np.ndarray, ray: np.ndarray | None) -> WeightStep:
    d = _thinned(problem, d)
    return WeightStep(d, problem.slack(d), problem.violation(d), ray)


def largest_weight(B: np.ndarray, c: np.ndarray, gamma: np.ndarray, slope: float) -> float:
    """The least ``lam >= 0`` for which ``d = 0`` solves the problem with ``q = gamma + lam * slope``, ``slope > 0``.

    Zero is the solution if and only if ``2 B'max(0, c) <= q``.
    """
    if not slope > 0:
        raise ValueError(f"slope={slope}: the penalty must rise from zero, so the slope must be above 0")
    return max(0.0, float(np.max(2.0 * (np.maximum(0.0, c) @ B) - gamma, initial=0.0)) / slope)


@dataclass(frozen=True)
class _Problem:
    """The problem on some columns; `norm` are their norms, one where a column is zero."""

    B: np.ndarray
    c: np.ndarray
    q: np.ndarray
    norm: np.ndarray

    def part(self, columns: np.ndarray) -> _Problem:
        """The problem on a few columns, scaled to unit norm, in weights times norms."""
        norm = self.norm[columns]
        return _Problem(self.B[:, columns] / norm, self.c, self.q[columns] / norm, np.ones(len(columns)))

    def rest(self, d: np.ndarray) -> np.ndarray:
        support = np.flatnonzero(d)
        return self.c - self.B[:, support] @ d[support]

    def slack(self, d: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, self.rest(d))

    def scale(self, slack: np.ndarray) -> np.ndarray:
        """What entries of the gradient are compared with."""
        size = np.linalg.norm(slack) + SCALE_FLOOR * np.linalg.norm(self.c)
        return np.abs(self.q) + 2.0 * self.norm * size + np.finfo(float).tiny

    def excess(self, d: np.ndarray) -> np.ndarray:
        """``2 B'slack - q``, relative to its scale."""
        slack = self.slack(d)
        return (2.0 * (slack @ self.B) - self.q) / self.scale(slack)

    def violation(self, d: np.ndarray) -> float:
        excess = self.excess(d)
        return float(np.max(np.where(d > 0, np.abs(excess), excess), initial=0.0))

    def is_ray(self, u: np.ndarray) -> bool:
        """Whether `u` shows that there is no minimum; for columns of unit norm."""
        image, fall = self.B @ u, float(self.q @ u)
        inside = np.all(u >= 0) and np.all(image >= -ZERO_TOL * np.linalg.norm(u))
        return bool(inside and fall < -ZERO_TOL * float(np.abs(self.q) @ u))


Inner = Callable[[_Problem, np.ndarray, float], tuple[np.ndarray, np.ndarray | None]]


def _checked(B: np.ndarray, c: np.ndarray, q: np.ndarray) -> _Problem:
    if B.ndim != 2 or c.shape != B.shape[:1] or q.shape != B.shape[1:]:
        raise ValueError(
            f"B, c and q have shapes {B.shape}, {c.shape} and {q.shape}: they must be (n, M), (n,) and (M,)"
        )
    norm = np.sqrt(np.einsum("im,im->m", B, B))
    if not (np.all(np.isfinite(norm)) and np.all(np.isfinite(c)) and np.all(np.isfinite(q))):
        raise ValueError("B, c or q holds infinite or missing numbers: remove those rows or columns")
    return _Problem(B, c, q, np.where(norm > 0, norm, 1.0))


def _largest(start: np.ndarray, problem: _Problem) -> np.ndarray:
    """The n largest entries of a start, measured in columns of unit norm."""
    if start.shape != problem.q.shape or not np.all(start >= 0) or not np.all(np.isfinite(start)):
        raise ValueError(f"start has shape {start.shape}: it must hold {len(problem.q)} finite weights of zero or more")
    n = len(problem.c)
    if np.count_nonzero(start) <= n:
        return start
    d = np.zeros_like(start)
    keep = np.argsort(-start * problem.norm, kind="stable")[:n]
    d[keep] = start[keep]
    return d


def _worst(excess: np.ndarray, tol: float) -> np.ndarray:
    """The columns that exceed `tol` most."""
    few = np.argpartition(-excess, MAX_ADDED)[:MAX_ADDED] if len(excess) > MAX_ADDED else np.arange(len(excess))
    return few[excess[few] > tol]


def _solve_part(
    problem: _Problem, d: np.ndarray, tol: float, solvers: tuple[Inner, ...]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Weights of a working set from the first solver whose answer holds, or from the best of them, and a ray."""
    best, least = d, problem.violation(d)
    for solve in solvers:
        weights, ray = solve(problem, best, tol)
        if ray is not None and problem.is_ray(ray):
            return best, ray
        violation = problem.violation(weights)
        if violation < least:
            best, least = weights, violation
        if least <= tol:
            break
    return best, None


def _project(problem: _Problem, d: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray | None]:
    """Project c onto P as the least-distance problem ``min |x - c|  subject to  G (x - c) >= h`` [LawsonHanson1974].

    With ``G = [I; -2 B']``, ``h = [-c; 2 B'c - q]`` and ``E = [G'; h']`` solve ``min |E w - e|`` over ``w >= 0``, e the
    last unit vector. The weights are ``2 w / (1 - h'w)``; a residual of zero means that P is empty and w a ray. Where
    the solver runs out of steps or gives no such w, the answer is `d`, unchanged.
    """
    n, M = problem.B.shape
    unit = max(float(np.linalg.norm(problem.c)), float(np.max(np.abs(problem.q), initial=0.0)), np.finfo(float).tiny)
    c, q = problem.c / unit, problem.q / unit
    E = np.block([[np.eye(n), -2.0 * problem.B], [-c[None, :], (2.0 * (c @ problem.B) - q)[None, :]]])
    size = np.linalg.norm(E, axis=0)
    size[size == 0] = 1.0
    last = np.append(np.zeros(n), 1.0)
    try:
        w, _ = nnls(E / size, last, maxiter=STEPS_PER_ENTRY * (n + M))
    except RuntimeError:
        return d, None
    w = w / size
    residual = E @ w - last  # the one that nnls returns is not always that of its w
    if float(np.linalg.norm(residual)) < EMPTY_TOL:
        return d, w[n:]
    return (2.0 * unit * w[n:] / -residual[n], None) if residual[n] < 0 else (d, None)


def _descend(problem: _Problem, d: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray | None]:
    """Newton steps in the positive weights, which become more when they are settled and fewer when one reaches zero.

    A direction of Newton falls, so that of several weights which leave zero together at least one grows; those that
    would fall stay. Every step lowers the objective, which ends the search; where rounding hides it, patience does.
    """
    B, q = problem.B, problem.q
    free, rest, repeats, idle, least = d > 0, problem.rest(d), 0, 0, np.inf
    for _ in range(STEPS_PER_ENTRY * sum(B.shape)):
        slack, active = np.maximum(0.0, rest), rest > 0
        scale, gradient = problem.scale(slack), q - 2.0 * (slack @ B)
        if repeats > 1 or np.max(np.abs(gradient / scale)[free], initial=0.0) <= SUPPORT_TOL:
            new = _entering(np.where(free, 0.0, -gradient / scale), tol, np.count_nonzero(active) - free.sum())
            if not len(new) or idle > MAX_IDLE_STEPS:
                return d, None
            free[new] = True
            repeats = 0
        S = np.flatnonzero(free)
        p, flat = _direction(B[np.ix_(active, S)], gradient[S], scale[S])
        stuck = (d[S] == 0) & (p <= 0)
        if stuck.any():
            free[S[stuck]] = False
            continue
        along = B[:, S] @ p
        along[(np.abs(along) <= RANK_TOL * np.linalg.norm(p)) | (active & flat)] = 0.0
        room = np.divide(d[S], -p, out=np.full(len(S), np.inf), where=p < 0)
        length = _search(rest, along, q[S] * p, float(np.min(room, initial=np.inf)))
        if length == np.inf:
            return d, _at(S, p, len(q))
        hit = room <= length
        d = _at(S, np.where(hit, 0.0, np.maximum(0.0, d[S] + length * p)), len(q))
        free, rest = d > 0, problem.rest(d)
        value = float(q @ d + np.sum(np.maximum(0.0, rest) ** 2))
        idle, least = (0, value) if value < least else (idle + 1, least)
        repeats = repeats + 1 if not hit.any() and (idle or np.array_equal(active, rest > 0)) else 0
    return d, None


def _at(places: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    whole = np.zeros(size)
    whole[places] = values
    return whole


def _entering(excess: np.ndarray, tol: float, most: int) -> np.ndarray:
    """Columns to make positive: the worst, and others nearly as bad while the system may stay regular."""
    top = float(np.max(excess, initial=0.0))
    if top <= tol:
        return np.zeros(0, dtype=int)
    bad = np.flatnonzero(excess >= BLOCK_SHARE * top)
    return bad[np.argsort(-excess[bad], kind="stable")[: max(1, most)]]


def _direction(B: np.ndarray, gradient: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, bool]:
    """The Newton direction on the active rows; or, if these can stay while the gradient falls, steepest descent so.

    The second value says which of the two it is: true for a direction along which the active rows stay.
    """
    if B.shape[0] >= B.shape[1]:
        factor, failed = dpotrf(B.T @ B, lower=1)
        if not failed and np.min(np.diagonal(factor), initial=1.0) > MIN_PIVOT:
            return _swept(-0.5 * dpotrs(factor, gradient, lower=1)[0], DIRECTION_TOL), False
    _, size, V = np.linalg.svd(B, full_matrices=False)
    keep = size > RANK_TOL * np.max(size, initial=0.0)
    size, V = size[keep], V[keep]
    part = V @ gradient
    p = V.T @ part - gradient
    p -= V.T @ (V @ p)  # once more, for what rounding left
    flat = bool(np.max(np.abs(p) / scale) > ZERO_TOL)
    if not flat:
        p = -0.5 * (V.T @ (part / size**2))
    return _swept(p, RANK_TOL), flat


def _swept(p: np.ndarray, share: float) -> np.ndarray:
    """A direction without its smallest entries, which are rounding errors and would end a ray somewhere."""
    return np.where(np.abs(p) > share * np.max(np.abs(p), initial=0.0), p, 0.0)


def _search(rest: np.ndarray, along: np.ndarray, terms: np.ndarray, most: float) -> float:
    """The t in [0, most] where ``sum(terms) t + sum_i max(0, rest_i - t along_i)^2`` is least; infinity where nowhere.

    The slope rises and is piecewise linear; its bends are where rows enter or leave the sum.
    """
    turning = (rest > 0) & (along > 0) | (rest <= 0) & (along < 0)
    turns = np.sort(rest[turning] / along[turning])
    turns = turns[turns < most]

    linear, noise = float(np.sum(terms)), float(np.sum(np.abs(terms)))

    def slope(t: float) -> float:
        return linear - 2.0 * float(along @ np.maximum(0.0, rest - t * along))

    slight = SLOPE_TOL * (noise + 2.0 * float(np.abs(along) @ np.maximum(0.0, rest)))
    low, high = 0, len(turns)  # the first turn at which the slope is not negative
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if slope(turns[middle]) >= -slight else (middle + 1, high)
    left = float(turns[low - 1]) if low else 0.0
    right = float(turns[low]) if low < len(turns) else most
    inside = left + 1.0 if right == np.inf else 0.5 * (left + right)
    row = along[rest - inside * along > 0]
    bend, gap = 2.0 * float(row @ row), -slope(left)
    if bend == 0:
        return right if gap > max(slight, ZERO_TOL * noise) else left
    return min(max(left + gap / bend, left), right)


def _thinned(problem: _Problem, d: np.ndarray) -> np.ndarray:
    """Weights with the same image and objective, at most n of them positive."""
    n = len(problem.c)
    while np.count_nonzero(d) > n:
        S = np.flatnonzero(d)[: n + 1]
        null = np.linalg.svd(problem.B[:, S] / problem.norm[S])[2][-1] / problem.norm[S]
        if null.max() <= 0 or (float(problem.q[S] @ null) < 0 and null.min() < 0):
            null = -null
        falling = null > 0
        room = d[S][falling] / null[falling]
        moved = np.maximum(0.0, d[S] - room.min() * null)
        moved[np.flatnonzero(falling)[np.argmin(room)]] = 0.0
        d = d.copy()
        d[S] = moved
    return d
