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
   checked, and the status reports what it is.
5. With one kernel the w step is restricted to the working set, as in the single-kernel precursor: the fixed
   points are the same, because the multiplier is zero elsewhere.
6. Each row has its own cost, so that weights of rows and classes work; (32) holds row by row.
7. Kernels that stay at zero are updated in some rounds only, and weights that no longer change are skipped for
   a few rounds, in which nothing is formed or factored; a run ends only after a round with all kernels.
8. Nothing promises convergence (the working set may cycle): the best point seen is returned. The model
   of a point is ``-y o multiplier``, which is sparse and equals w at a fixed point.
9. With the exact d step the result is the hard-margin machine of the rows that u does not give up, on the kernel
   found, unless that costs more: it is what the iteration tends to, without the blur of its tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tamis.methods.zero_one.certificate import (
    Certificate,
    Point,
    balance,
    certify,
    kernel_residual,
    proximity,
    slacks,
    value,
)
from tamis.methods.zero_one.drop_and_refit import hard_margin, search
from tamis.methods.zero_one.steps import Combination, Pace, Problem, State, dead_start, intercept_step, slack_step
from tamis.optim.driver import Callback, Iterate, Solution, Status, run

SOLVERS = ("best", "admm", "drop_and_refit")
MAX_CHANGES = 150  # changes of the working set without a better point that count as cycling
STAGES = 10  # more than a search for rows to give up has
SLACK_FACTOR = 10.0  # a slack up to this many tol is zero when costs are counted, and a limit may be off by as much
LEAST_ZERO = 1e-5  # machines are exact to a tenth of that


def zero_slack(tol: float) -> float:
    """Up to where a slack costs nothing."""
    return max(SLACK_FACTOR * tol, LEAST_ZERO)


def iterates(
    problem: Problem,
    *,
    d_step: str = "simplex_qp",
    tol: float = 1e-3,
    settled: float | None = None,
    start: State | None = None,
) -> Iterator[Iterate[State]]:
    """Points of ADMM, beginning with `start` (default: the prescribed one).

    `tol` is the slack that counts as zero, and decides when the violation is computed over all kernels; a change of
    weights of at most `settled` (default: a hundredth of tol) counts as none.
    """
    state = start or dead_start(problem)
    space = Combination(problem, state.weights)
    image = space.K @ state.dual_coef
    pace = Pace(problem.stack, d_step, 0.01 * tol if settled is None else settled)
    best, changes, last = np.inf, 0, np.zeros(len(problem.y), dtype=bool)
    off = np.inf if start is None else violation(problem, state, image, tol)
    while True:
        objective = value(state.point(problem), space.K, problem.y, problem.cost, zero_slack(tol))
        best, changes = (objective, 0) if objective < best else (best, changes)
        status = Status.CYCLING if changes > MAX_CHANGES else None
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

    The fourth, a pass over the kernels, is computed when the others are within `tol`.
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
    """Run ADMM and classify its limit; without convergence, return the best point by objective."""
    points = iterates(problem, d_step=d_step, tol=tol, start=start)
    solution = run(points, tol=tol, max_iter=max_iter, monotone=False, callback=callback)
    if d_step == "simplex_qp":
        solution = _landed(problem, solution, tol)
    return replace(solution, status=_judge(problem, solution, tol))


def solve_by_dropping(
    problem: Problem, *, tol: float = 1e-3, thorough: bool = True, callback: Callback | None = None
) -> Solution[State]:
    """Search for rows to give up (`drop_and_refit`) and fit the others exactly; the search ends by itself."""
    points = _searched(problem, tol, thorough)
    solution = run(points, tol=tol, max_iter=STAGES, callback=callback)
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
    """Solve by one of SOLVERS; "best" takes the lower objective of the other two.

    Objectives within the tolerance of slacks are alike: then a solution that converged is the better one, or else the
    dead start, which is stationary.
    """
    options: dict[str, Any] = {"tol": tol, "callback": callback}
    found = []
    if solver != "drop_and_refit":
        found.append(solve_admm(problem, d_step=d_step, max_iter=max_iter, **options))
    if solver != "admm":
        found.append(solve_by_dropping(problem, thorough=thorough, **options))
    near = min(solution.objective for solution in found) * (1.0 + zero_slack(tol))
    alike = [solution for solution in found if solution.objective <= near]
    return min(alike, key=lambda s: (not s.status.converged, s.status is not Status.DEAD_START, s.objective))


def objective(problem: Problem, state: State, tol: float) -> float:
    """The objective (51) of the model of a point."""
    K = problem.stack.matrix(state.weights)
    return value(state.point(problem), K, problem.y, problem.cost, zero_slack(tol))


def certificate(problem: Problem, state: State, tol: float) -> Certificate:
    """How stationary a point is: conditions 2 and 3 for the point itself, the others for its model."""
    y, w = problem.y, state.dual_coef
    image = problem.stack.combine(state.weights) @ w
    return replace(
        certify(problem.stack, state.point(problem), y, problem.cost, zero_slack(tol)),
        constraint=float(np.max(np.abs(state.slack + y * (image + state.intercept) - 1.0))),
        representation=float(np.max(np.abs(w + y * state.multiplier))) / max(1.0, float(np.max(np.abs(w)))),
    )


def _searched(problem: Problem, tol: float, thorough: bool) -> Iterator[Iterate[State]]:
    """What the search finds; all of it is stationary but for the weights, so the last point alone may stop it."""
    fits = search(problem.stack, problem.y, problem.cost, 0.1 * tol, zero=zero_slack(tol), thorough=thorough)
    state = dead_start(problem)
    for fit in fits:
        state = _state(problem, fit.point)
        yield Iterate(state, objective(problem, state, tol), np.inf, weights=state.weights)
    worst = certificate(problem, state, tol).worst
    yield Iterate(state, objective(problem, state, tol), worst, weights=state.weights)


def _landed(problem: Problem, solution: Solution[State], tol: float) -> Solution[State]:
    """The exact machine of the rows that a point does not give up, unless its objective is clearly higher.

    The variable u says which rows are given up: the slack of the model itself is blurred by the tolerance. Slacks
    within that are brought to zero, which may raise the objective by as much.
    """
    point, y = solution.state.point(problem), problem.y
    if not point.dual_coef.any():
        return solution
    K = problem.stack.matrix(point.weights)
    landed = hard_margin(K, point.weights, y, solution.state.slack <= zero_slack(tol), point.dual_coef)
    if landed is None:
        return solution
    better = _state(problem, landed)
    value, near = objective(problem, better, tol), solution.objective * (1.0 + zero_slack(tol))
    return replace(solution, state=better, objective=value) if value <= near else solution


def _state(problem: Problem, point: Point) -> State:
    """The point of the algorithm with a given model."""
    y, w = problem.y, point.dual_coef
    u = slacks(point, problem.stack.matrix(point.weights), y)
    return replace(
        dead_start(problem), weights=point.weights, dual_coef=w, intercept=point.intercept, slack=u, multiplier=-y * w
    )


def _judge(problem: Problem, solution: Solution[State], tol: float) -> Status:
    if not solution.state.multiplier.any():
        return Status.DEAD_START
    if solution.status is not Status.CONVERGED:
        return solution.status
    found = certificate(problem, solution.state, tol)
    if found.worst > SLACK_FACTOR * tol or found.kernels > 2.0 * tol:
        return Status.STALLED
    return Status.CONVERGED if found.n_given_up else Status.HARD_MARGIN
