"""MKL-L0/1-SVM: the support vector machine with the 0/1 loss on a learned mean of kernels [Zhu2023].

    min over w, d, b, u    1/2 w'K(d)w + sum_i cost_i [u_i > 0]
    subject to             u + y o (K(d)w + b) = 1,   d >= 0,   sum_l d_l = 1          (51)

with ``K(d) = sum_l d_l K_l``. A row costs as soon as its margin is below one. Solved by ADMM with the
multiplier of the first constraint and the penalty rho1; one round updates u, w, b, d and the multiplier.

    paper           code                    paper           code
    w, alpha        dual_coef               lambda          multiplier
    d               weights                 z, theta        Split.copy, Split.lean
    b               intercept               alpha (of d)    Split.level
    u               slack                   C               cost, one per row
    T (64)          working set             rho1..rho3      rho1..rho3

Departures, with the reason for each:
1. ``d_step="simplex_qp"``: the weights minimise the augmented Lagrangian plus ``rho2/2 |d - d_old|^2`` over
   the simplex, exactly; z, theta, alpha and S are gone. With the printed step a kernel that is once zero
   never returns, and limits need not be stationary. ``d_step="paper"`` keeps Algorithm 1.
2. In the printed step entries outside S are zeroed first and the rest is projected, alpha uses the
   solution before the projection, and S is never empty: otherwise the weights do not add up to one.
3. The working set (64) is closed on the right: zero wins the tie.
4. A run stops on the six residuals of P-stationarity, relative to the size of the point; the printed d
   step, whose limits need not satisfy them, on the printed step norms, made relative. A limit is then
   checked, and the status says what it is.
5. With one kernel the w step is restricted to the working set, as in the single-kernel precursor: the fixed
   points are the same, because the multiplier is zero elsewhere.
6. Each row has its own cost, so that weights of rows and classes work; (32) holds row by row.
7. Kernels that stay at zero are looked at in some rounds only, and weights that have settled are left alone for
   a few rounds, in which nothing is formed or factored; a run ends only where all kernels were looked at.
8. Nothing promises convergence (the working set may cycle): the best point seen is returned. The model
   of a point is ``-y o multiplier``, which is sparse and equals w at a fixed point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg import solve as solve_dense

from tamis.kernels.stack import KernelStack
from tamis.methods.drop_and_refit import search
from tamis.methods.hard_margin import hard_margin
from tamis.methods.l01_certificate import (
    Certificate,
    Point,
    balance,
    certify,
    kernel_residual,
    proximity,
    slacks,
    value,
)
from tamis.optim.driver import Callback, Iterate, Solution, Status, run
from tamis.optim.shifted import ShiftedSolver
from tamis.optim.simplex import solve_simplex_qp
from tamis.prox import project_simplex, prox_zero_one

SOLVERS = ("best", "admm", "drop_and_refit")
D_STEPS = ("simplex_qp", "paper")
RESTS = 10  # rounds for which settled weights are left alone
CALM = 3  # rounds with hardly any change of weights after which they count as settled
PATIENCE = 150  # changes of the working set without a better point that count as cycling
COUNT = 10.0  # a slack up to this many tol is zero when costs are counted
NOT_MET = 100.0  # a limit of small steps whose residuals exceed this many tol is not stationary


@dataclass(frozen=True)
class Problem:
    """Kernels (L, n, n), labels (n,) in {-1, +1}, costs (n,), and the penalties of ADMM."""

    stack: KernelStack
    y: np.ndarray
    cost: np.ndarray
    rho1: float = 1.0
    rho2: float = 16.0
    rho3: float = 256.0


@dataclass(frozen=True)
class Split:
    """What the printed d step carries along: z (L,), theta (L,) and alpha."""

    copy: np.ndarray
    lean: np.ndarray
    level: float


@dataclass(frozen=True)
class State:
    """One point of the algorithm."""

    weights: np.ndarray
    dual_coef: np.ndarray
    intercept: float
    slack: np.ndarray
    multiplier: np.ndarray
    split: Split

    def point(self, problem: Problem) -> Point:
        """The model of this point."""
        return Point(self.weights, -problem.y * self.multiplier, self.intercept)


def dead_start(problem: Problem) -> State:
    """The prescribed start: equal weights, nothing but the class of larger cost."""
    L, n, _ = problem.stack.shape
    sign = 1.0 if problem.cost @ problem.y >= 0 else -1.0
    split = Split(np.zeros(L), np.zeros(L), 0.0)
    return State(np.full(L, 1.0 / L), np.zeros(n), sign, np.zeros(n), np.zeros(n), split)


def leaves_start(problem: Problem) -> bool:
    """Whether the working set of the first round has a member: ``2 <= sqrt(2 cost / rho1)`` for some row."""
    against = problem.y != dead_start(problem).intercept
    return bool(np.any(problem.cost[against] >= 2.0 * problem.rho1))


# ---------------------------------------------------------------------- the steps


def slack_step(problem: Problem, state: State, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u and the working set (64), (65), given ``image = K(d) w``."""
    y, rho1 = problem.y, problem.rho1
    s = 1.0 - y * (image + state.intercept) - state.multiplier / rho1
    u = prox_zero_one(s, problem.cost / rho1)
    return u, (s > 0) & (u == 0)


def intercept_step(problem: Problem, state: State, u: np.ndarray, image: np.ndarray) -> float:
    """b (70), given ``image = K(d) w``."""
    y, rho1 = problem.y, problem.rho1
    return float(-y @ (state.multiplier + rho1 * (u + y * image - 1.0)) / (len(y) * rho1))


def weight_terms(problem: Problem, state: State, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``rho1 A'A`` and v of the d step (77), with the columns ``A[:, l] = K_l w``."""
    y, rho1 = problem.y, problem.rho1
    pull = 0.5 * state.dual_coef + y * (state.multiplier + rho1 * (state.slack + state.intercept * y - 1.0))
    return rho1 * (A.T @ A), -A.T @ pull


def simplex_step(problem: Problem, state: State, A: np.ndarray) -> State:
    """d as the exact minimiser over the simplex (departure 1)."""
    H, v = weight_terms(problem, state, A)
    H.flat[:: len(H) + 1] += problem.rho2
    weights = solve_simplex_qp(H, v + problem.rho2 * state.weights, state.weights)
    return replace(state, weights=weights)


def unprojected(problem: Problem, state: State, A: np.ndarray, z: np.ndarray) -> np.ndarray:
    """d as the free minimiser of the augmented Lagrangian (76), (77)."""
    H, v = weight_terms(problem, state, A)
    H += problem.rho3
    H.flat[:: len(H) + 1] += problem.rho2
    right = v - state.split.lean + problem.rho2 * z + problem.rho3 - state.split.level
    return solve_dense(H, right, assume_a="pos")


def paper_step(problem: Problem, state: State, A: np.ndarray) -> State:
    """z, d, alpha and theta as printed, (71) to (79), with departure 2."""
    rho2, split = problem.rho2, state.split
    moved = state.weights + split.lean / rho2
    kept = moved > 0
    if not kept.any():
        kept = moved == moved.max()
    z = np.maximum(moved, 0.0)
    d = unprojected(problem, state, A, z)
    level = split.level + problem.rho3 * (float(d.sum()) - 1.0)
    weights = np.zeros_like(d)
    weights[kept] = project_simplex(d[kept])
    lean = np.where(kept, split.lean + rho2 * (weights - z), split.lean)
    return replace(state, weights=weights, split=Split(z, lean, level))


class Combination:
    """K(d) for the present weights, and the w step (69) on it."""

    def __init__(self, problem: Problem, weights: np.ndarray):
        self.problem, self.solver = problem, ShiftedSolver(problem.rho1)
        self.restricted = problem.stack.shape[0] == 1
        self._set: tuple[np.ndarray, tuple] | None = None
        self.move(weights)

    def move(self, weights: np.ndarray) -> None:
        """Follow the weights."""
        self.weights, self.K = weights, self.problem.stack.combine(weights).dense()

    def dual_step(self, state: State, u: np.ndarray, working: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """w and ``K(d) w``."""
        y, rho1 = self.problem.y, self.problem.rho1
        right = -y * (state.multiplier + rho1 * (u + state.intercept * y - 1.0))
        if not self.restricted:
            w = self.solver.solve(self.K, right, state.dual_coef)
            return w, (right - w) / rho1
        rows = np.flatnonzero(working)
        w = np.zeros_like(right)
        if len(rows):
            w[rows] = cho_solve(self._factor(rows), right[rows], check_finite=False)
        return w, self.K[:, rows] @ w[rows]

    def _factor(self, rows: np.ndarray) -> tuple:
        """Factor of ``I + rho1 K`` on the working set, kept while the set stays."""
        if self._set is None or not np.array_equal(self._set[0], rows):
            block = self.problem.rho1 * self.K[np.ix_(rows, rows)] + np.eye(len(rows))
            self._set = rows, cho_factor(block, lower=True, check_finite=False)
        return self._set[1]


class Pace:
    """Which kernels the next d step looks at: all of them, those with a weight, or none (departure 7).

    Kernels whose weights have been zero for a few rounds are looked at now and then, and weights that have
    hardly changed for a few rounds are left alone as long; the printed step looks at all in every round.
    """

    def __init__(self, stack: KernelStack, d_step: str, small: float):
        self.stack, self.d_step, self.small = stack, d_step, small
        self._same = self._calm = self._wait = 0
        self._face: tuple[np.ndarray, KernelStack] = np.arange(stack.shape[0]), stack

    def step(self, problem: Problem, state: State, image: np.ndarray) -> tuple[State, np.ndarray]:
        """The state with new weights, and ``K(d) w`` for them; the very same weights where they rest."""
        if len(state.weights) == 1:
            return state, image
        if self.d_step == "paper":
            A = self.stack.apply(state.dual_coef)
            state = paper_step(problem, state, A)
            return state, A @ state.weights
        if self._wait and self._calm >= CALM:
            self._wait -= 1
            return state, image
        return self._on(*self._looked_at(state.weights), problem, state)

    def _looked_at(self, weights: np.ndarray) -> tuple[np.ndarray, KernelStack]:
        if self._same < CALM or not self._wait:
            self._wait = RESTS
            return np.arange(len(weights)), self.stack
        self._wait -= 1
        support = np.flatnonzero(weights)
        if not np.array_equal(support, self._face[0]):
            self._face = support, self.stack.take(kernels=support)
        return self._face

    def _on(self, kernels: np.ndarray, face: KernelStack, problem: Problem, state: State) -> tuple[State, np.ndarray]:
        """The exact step on some kernels, the others staying at zero."""
        A, old = face.apply(state.dual_coef), state.weights
        part = simplex_step(problem, replace(state, weights=old[kernels]), A).weights
        weights = np.zeros_like(old)
        weights[kernels] = part
        self._same = self._same + 1 if np.array_equal(weights > 0, old > 0) else 0
        self._calm = self._calm + 1 if np.max(np.abs(weights - old)) <= self.small else 0
        if self._calm > CALM:
            return state, A @ old[kernels]
        return replace(state, weights=weights), A @ part


# ---------------------------------------------------------------------- the algorithm


def iterates(
    problem: Problem,
    *,
    d_step: str = "simplex_qp",
    tol: float = 1e-3,
    settled: float | None = None,
    start: State | None = None,
) -> Iterator[Iterate[State]]:
    """Points of ADMM, beginning with `start` (default: the prescribed one).

    `tol` says which slack counts as zero and when all kernels are looked at for the violation; a change of
    weights of at most `settled` (default: a hundredth of tol) counts as none.
    """
    state = start or dead_start(problem)
    space = Combination(problem, state.weights)
    image = space.K @ state.dual_coef
    pace = Pace(problem.stack, d_step, 0.01 * tol if settled is None else settled)
    best, changes, last = np.inf, 0, np.zeros(len(problem.y), dtype=bool)
    off = np.inf if start is None else violation(problem, state, image, tol)
    while True:
        objective = value(state.point(problem), space.K, problem.y, problem.cost, COUNT * tol)
        best, changes = (objective, 0) if objective < best else (best, changes)
        status = Status.CYCLING if changes > PATIENCE else None
        yield Iterate(state, objective, off, status, state.weights)

        old = state
        u, working = slack_step(problem, state, image)
        w, image = space.dual_step(state, u, working)
        b = intercept_step(problem, state, u, image)
        state = replace(state, slack=u, dual_coef=w, intercept=b)
        state, image = pace.step(problem, state, image)
        if state.weights is not space.weights:
            space.move(state.weights)
        r = u + problem.y * (image + b) - 1.0
        state = replace(state, multiplier=np.where(working, state.multiplier + problem.rho1 * r, 0.0))
        changes, last = changes + bool(np.any(working != last)), working
        off = _movement(old, state) if d_step == "paper" else violation(problem, state, image, tol)


def violation(problem: Problem, state: State, image: np.ndarray, tol: float) -> float:
    """The largest of the six residuals at a point of the algorithm, with ``image = K(d) w`` and gamma = 1 / rho1.

    The fourth, a pass over the kernels, is looked at when the others are within `tol`.
    """
    y, w, u, lam = problem.y, state.dual_coef, state.slack, state.multiplier
    worst = max(
        float(np.max(np.abs(u + y * (image + state.intercept) - 1.0))),
        float(np.max(np.abs(w + y * lam))) / max(1.0, float(np.max(np.abs(w)))),
        balance(w),
        proximity(u, -lam, problem.cost, 1.0 / problem.rho1),
    )
    if worst > tol or len(state.weights) == 1:
        return worst
    return max(worst, kernel_residual(state.weights, 0.5 * problem.stack.quad(w)))


def _movement(old: State, new: State) -> float:
    """The largest of the norms of successive differences (85), relative to the size of each."""
    names = ("slack", "dual_coef", "weights", "multiplier")
    pairs = [(getattr(old, name), getattr(new, name)) for name in names]
    pairs += [(old.split.copy, new.split.copy), (old.split.lean, new.split.lean)]
    pairs += [
        (np.array([a]), np.array([b])) for a, b in ((old.intercept, new.intercept), (old.split.level, new.split.level))
    ]
    return max(float(np.linalg.norm(b - a)) / max(1.0, float(np.linalg.norm(b))) for a, b in pairs)


# ---------------------------------------------------------------------- the ways to solve it


def solve_admm(
    problem: Problem,
    *,
    d_step: str = "simplex_qp",
    tol: float = 1e-3,
    max_iter: int = 1000,
    start: State | None = None,
    callback: Callback | None = None,
) -> Solution[State]:
    """Run ADMM and say what its limit is; without convergence, the best point by objective."""
    points = iterates(problem, d_step=d_step, tol=tol, start=start)
    solution = run(points, tol=tol, max_iter=max_iter, monotone=False, callback=callback)
    if d_step == "simplex_qp":
        solution = _landed(problem, solution, tol)
    return replace(solution, status=_judge(problem, solution, tol))


def solve_by_dropping(
    problem: Problem,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    thorough: bool = True,
    callback: Callback | None = None,
) -> Solution[State]:
    """Search for rows to give up (`drop_and_refit`) and fit the others exactly."""
    points = _searched(problem, tol, thorough)
    solution = run(points, tol=tol, max_iter=max_iter, callback=callback)
    return replace(solution, status=_judge(problem, solution, tol))


def solve(
    problem: Problem,
    *,
    solver: str = "best",
    d_step: str = "simplex_qp",
    tol: float = 1e-3,
    max_iter: int = 1000,
    thorough: bool = True,
    callback: Callback | None = None,
) -> Solution[State]:
    """Solve by one of SOLVERS; "best" takes the lower objective of the other two."""
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "callback": callback}
    found = []
    if solver != "drop_and_refit":
        found.append(solve_admm(problem, d_step=d_step, **options))
    if solver != "admm":
        found.append(solve_by_dropping(problem, thorough=thorough, **options))
    return min(found, key=lambda solution: solution.objective)


def objective(problem: Problem, state: State, tol: float) -> float:
    """The objective (51) of the model of a point."""
    K = problem.stack.combine(state.weights).dense()
    return value(state.point(problem), K, problem.y, problem.cost, COUNT * tol)


def certificate(problem: Problem, state: State, tol: float) -> Certificate:
    """How stationary the model of a point is."""
    return certify(problem.stack, state.point(problem), problem.y, problem.cost, COUNT * tol)


def _searched(problem: Problem, tol: float, thorough: bool) -> Iterator[Iterate[State]]:
    """What the search finds; all of it is stationary but for the weights, so the last point alone may stop it."""
    fits = search(problem.stack, problem.y, problem.cost, 0.1 * tol, thorough=thorough)
    state = dead_start(problem)
    for fit in fits:
        state = _state(problem, fit.point)
        yield Iterate(state, objective(problem, state, tol), np.inf, weights=state.weights)
    worst = certificate(problem, state, tol).worst
    yield Iterate(state, objective(problem, state, tol), worst, weights=state.weights)


def _landed(problem: Problem, solution: Solution[State], tol: float) -> Solution[State]:
    """The exact machine of the rows that a point does not give up, unless the objective is higher there."""
    state = solution.state
    K = problem.stack.combine(state.weights).dense()
    machine = hard_margin(K, state.weights, problem.y, state.slack <= COUNT * tol, -problem.y * state.multiplier)
    if machine is None or not state.multiplier.any():
        return solution
    better = _state(problem, Point(machine.weights, machine.dual_coef, machine.intercept))
    lower, near = objective(problem, better, tol), solution.objective * (1.0 + COUNT * tol)
    return replace(solution, state=better, objective=lower) if lower <= near else solution


def _state(problem: Problem, point: Point) -> State:
    """The point of the algorithm with a given model."""
    y, w = problem.y, point.dual_coef
    u = slacks(point, problem.stack.combine(point.weights).dense(), y)
    return replace(
        dead_start(problem),
        weights=point.weights,
        dual_coef=w,
        intercept=point.intercept,
        slack=np.where(w != 0, 0.0, u),
        multiplier=-y * w,
    )


def _judge(problem: Problem, solution: Solution[State], tol: float) -> Status:
    if not solution.state.multiplier.any():
        return Status.DEAD_START
    if solution.status is not Status.CONVERGED:
        return solution.status
    found = certificate(problem, solution.state, tol)
    if found.worst > NOT_MET * tol:
        return Status.STALLED
    return Status.CONVERGED if found.n_given_up else Status.HARD_MARGIN
