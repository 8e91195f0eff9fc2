"""Linear machines with few features: the successive weighted l1 norms of a concave penalty.

    min over w, b of  sum_j delta(|w_j|) + sum_i cost_i max(0, 1 - y_i (x_i'w + b))^2

The penalty is replaced by its tangent at the current weights (`penalties`), which leaves a weighted l1 norm; that
problem is solved exactly, and again until nothing changes. From w = 0 the first one is the l1 machine. With "exp" this
is PIE-SVM, with "capped_l1" CAP-SVM and with "exact" EP-SVM, the linear baselines of [XueSong2020].

Departures: the loss is the squared hinge in place of the hinge, as in l0-MKL, so that a difference between methods
comes from penalty and kernels; rows have costs; in EP-SVM the box on w is dropped (see `penalties.Exact`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tamis.optim.driver import Callback, Iterate, Solution, Status, run
from tamis.optim.losses import SquaredHinge
from tamis.optim.nonnegative import solve_nonnegative
from tamis.optim.penalties import Penalty

SHARP = 1e-6  # KKT violation of one weighted problem, relative to its scale


@dataclass(frozen=True)
class Problem:
    """Rows X (n, e), labels (n,) in {-1, +1}, costs (n,) and the penalty of the coefficients."""

    X: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    penalty: Penalty


@dataclass(frozen=True)
class State:
    """Coefficients w (e,) and intercept."""

    w: np.ndarray
    intercept: float


def objective(problem: Problem, state: State) -> float:
    """The value of the problem, penalty and all."""
    scores = problem.X @ state.w + state.intercept
    penalty = float(problem.penalty.value(np.abs(state.w)).sum())
    return penalty + float(problem.cost @ SquaredHinge().value(scores, problem.y))


def violation(problem: Problem, state: State) -> float:
    """How far a state is from stationary.

    With ``pull_i = cost_i y_i max(0, 1 - margin_i)``, ``g = 2 X'pull`` and p the slopes of the penalty the conditions
    are ``g_j = sign(w_j) p_j``, or ``|g_j| <= p_j`` where w_j = 0, and ``sum(pull) = 0``. Counted are the largest
    failure over the steepest slope, and the sum over the sum of the costs.
    """
    scores = problem.X @ state.w + state.intercept
    pull = -0.5 * problem.cost * SquaredHinge().gradient(scores, problem.y)
    slopes = problem.penalty.weights(np.abs(state.w))
    gradient = 2.0 * (pull @ problem.X)
    excess = np.maximum(0.0, np.abs(gradient) - slopes)
    failure = np.where(state.w != 0, np.abs(gradient - np.sign(state.w) * slopes), excess)
    level = abs(float(pull.sum())) / float(problem.cost.sum())
    return max(float(np.max(failure, initial=0.0)) / problem.penalty.slope, level)


def iterates(problem: Problem) -> Iterator[Iterate[State]]:
    """The weighted l1 machines one after another, from no feature at all."""
    root = np.sqrt(problem.cost)
    rows = (root * problem.y)[:, None]
    B = np.hstack([rows * problem.X, -rows * problem.X, rows, -rows])
    e = problem.X.shape[1]
    level = float(problem.cost @ problem.y / problem.cost.sum())
    state, d = State(np.zeros(e), level), np.zeros(2 * e + 2)
    yield Iterate(state, objective(problem, state), violation(problem, state))
    while True:
        slopes = problem.penalty.weights(np.abs(state.w))
        step = solve_nonnegative(B, root, np.concatenate([slopes, slopes, [0.0, 0.0]]), start=d, tol=SHARP)
        d = step.d
        state = State(d[:e] - d[e : 2 * e], float(d[-2] - d[-1]))
        yield Iterate(state, objective(problem, state), violation(problem, state))


def solve(
    problem: Problem, *, tol: float = 1e-4, max_iter: int = 50, callback: Callback | None = None
) -> Solution[State]:
    """Solve weighted problems until the conditions of the whole problem hold to within `tol`."""
    solution = run(iterates(problem), tol=tol, max_iter=max_iter, callback=callback)
    return solution if solution.state.w.any() else replace(solution, status=Status.COLLAPSED)
