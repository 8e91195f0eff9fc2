"""l0-MKL: a few kernels out of thousands, positive definite or not, by a concave penalty [XueSong2020].

    min over beta, b, d >= 0 of  lambda1 beta'K(d) beta + lambda2 sum_l delta(d_l)
                                 + sum_i cost_i max(0, 1 - y_i (K(d)_i beta + b))^2,   K(d) = sum_l d_l K_l     (7)

by turns: the machine (beta, b) for fixed weights, (10), and the weights for a fixed machine, (12), where the penalty
is replaced by its tangent until that changes nothing. A kernel of weight zero is out; with one kernel per feature this
selects features.

| paper | here |
| --- | --- |
| beta, b | `dual_coef` (n,), `intercept` |
| d | `weights` (L,) |
| delta, theta | `penalty` |
| theta in (12), the columns K_m beta | `Images.scores` (n, L) |
| gamma | `Images.gamma` (L,) |
| Algorithm 1, 3, 4 | `iterates`, `steps.beta_step` with "paper", `steps.weight_step` |

Departures from the paper, with reasons:

1. (7) is unbounded below as soon as one kernel is not positive semi-definite: keep the scores and scale beta up and d
   down. Algorithm 3 diverges on most data. So the machine is by default a *stationary* point of (10), which for
   positive semi-definite kernels is its minimum. There may be none; then lambda1 is raised for this machine to where
   there is exactly one, and the state holds it. "ridge" puts ``lambda1 sum_i beta_i^2 / cost_i`` and "flip" the
   kernels with the moduli of their eigenvalues in place of the quadratic term, and then (7) is bounded. "paper" is
   Algorithm 3 with the gradient of h in (11), which is twice the printed one; where a direction proves that the
   objective has no minimum the run ends with the status "unbounded" and no model.
2. A weight step may have no minimum either. Except for "paper", negative slopes gamma are then cut at zero, which
   bounds it, and the state says so.
3. The scale of d is arbitrary: under a bounded penalty a larger d with a smaller beta pays less and less of the
   quadratic term for the same scores, and there is no best one. So with `relative` it is fixed: the largest weight is
   one after each step, the penalty works on these relative weights, and lambda2 is a share of the value at which the
   first weight step keeps nothing. An l1 penalty sets the scale itself, so that weights are not rescaled with it. The
   first weight step starts from zero, where the penalty is steepest; from equal weights it would not act at all once
   these exceed the cap.
4. A round ends with the machine of the new weights, so that the machine always belongs to the kernels that are kept.
5. Weights below 1e-5 (of the largest, if `relative`) are zero. `max_features` is an exact cap: kernels beyond it,
   those whose scores vary least, are taken out and the others weighed again.
6. Rows have costs; one of cost two acts as two equal rows, also in "ridge".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tamis.methods.l0_mkl.steps import (
    Images,
    Machine,
    Problem,
    absolute,
    beta_step,
    images,
    largest_lambda2,
    weight_step,
)
from tamis.optim.driver import Callback, Iterate, Solution, Status, run

MIN_WEIGHT = 1e-5  # weights below are zero


@dataclass(frozen=True)
class State:
    """Weights with their machine."""

    weights: np.ndarray  # (L,) d, at least zero
    # dual_coef, intercept: beta (n,) and b
    dual_coef: np.ndarray
    intercept: float
    lambda1: float  # of the machine, see departure 1
    lambda2: float  # in absolute terms
    residual: float = 0.0  # of the machine and of the weight step before it
    # kernels that had a weight in some round, before the cap: those that kept it longest first, then by contribution
    ranking: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    clipped: bool = False  # whether a weight step had no minimum, and was bounded
    reason: str = ""  # why there is no model, or none that can be trusted, with what to change; or ""


@dataclass(frozen=True)
class Opening:
    """The machine of the first weights and its images: the same for every penalty and lambda2."""

    weights: np.ndarray
    machine: Machine
    seen: Images | None


def opening(problem: Problem, weight: float | None = None) -> Opening:
    """Begin with equal weights, `weight` or one over the number of kernels."""
    L = problem.stack.shape[0]
    weights = np.full(L, 1.0 / L if weight is None else weight)
    machine = beta_step(problem, weights)
    return Opening(weights, machine, None if machine.reason else images(problem, machine))


def objective(problem: Problem, state: State) -> float:
    """F of (7), with the quadratic term of the problem's `beta_step`."""
    K = problem.stack.combine(state.weights).dense()
    beta = state.dual_coef
    quadratic = float(beta @ K @ beta)
    if problem.beta_step == "ridge":
        quadratic = float(beta**2 @ (1.0 / problem.cost))
    elif problem.beta_step == "flip":
        quadratic = float(beta @ absolute(problem.stack, state.weights) @ beta)
    scores = K @ beta + state.intercept
    penalty = state.lambda2 * float(problem.penalty.value(state.weights).sum())
    return state.lambda1 * quadratic + penalty + problem.loss(scores)


def iterates(problem: Problem, begun: Opening, hint: np.ndarray | None = None) -> Iterator[Iterate[State]]:
    """Rounds of weights and machine; the violation is the largest change of a relative weight.

    A residual of a step counts where it is larger. `hint` (L,) are weights near which the first ones may lie: they save
    time (and decide among equally good weights, where there are several).
    """
    if begun.seen is None:
        yield _nothing(problem, Status.UNBOUNDED, begun.machine.reason)
        return
    seen, machine = begun.seen, begun.machine
    unit = largest_lambda2(problem, seen, machine.intercept) if problem.relative else 1.0
    state = State(
        begun.weights, machine.dual_coef, machine.intercept, machine.lambda1, problem.lambda2 * unit, machine.residual
    )
    yield _iterate(problem, state, machine, 1.0)
    origin = np.zeros_like(begun.weights) if problem.relative else begun.weights
    while True:
        weighed = weight_step(problem, seen, state.intercept, state.lambda2, origin, hint)
        weights = _scaled(problem, weighed.weights)
        if weighed.reason or not weights.any():
            status = Status.UNBOUNDED if weighed.reason else Status.COLLAPSED
            yield _nothing(problem, status, weighed.reason or "lower lambda2, or make fewer rounds")
            return
        machine = beta_step(problem, weights, machine)
        if machine.reason:
            yield _nothing(problem, Status.UNBOUNDED, machine.reason)
            return
        change = float(np.abs(_relative(weights) - _relative(state.weights)).max())
        state = replace(
            state,
            weights=weights,
            dual_coef=machine.dual_coef,
            intercept=machine.intercept,
            lambda1=machine.lambda1,
            residual=max(machine.residual, weighed.violation),
            ranking=_ranked(weights, weighed.order, state.ranking),
            clipped=state.clipped or weighed.clipped,
        )
        yield _iterate(problem, state, machine, change)
        seen, origin, hint = images(problem, machine), weights, None


def _iterate(problem: Problem, state: State, machine: Machine, change: float) -> Iterate[State]:
    penalty = state.lambda2 * float(problem.penalty.value(state.weights).sum())
    return Iterate(state, machine.value + penalty, max(change, state.residual), weights=state.weights)


def _nothing(problem: Problem, status: Status, reason: str) -> Iterate[State]:
    """No kernel at all: the same score for every row."""
    L, n, _ = problem.stack.shape
    level = float(problem.cost @ problem.y / problem.cost.sum())
    state = State(np.zeros(L), np.zeros(n), level, problem.lambda1, 0.0, reason=reason)
    return Iterate(state, problem.loss(np.full(n, level)), 1.0, status, weights=state.weights)


def _scaled(problem: Problem, weights: np.ndarray) -> np.ndarray:
    """Without weights that are next to nothing, the largest one if that is the rule."""
    largest = float(weights.max(initial=0.0))
    kept = np.where(weights >= MIN_WEIGHT * (largest if problem.relative else 1.0), weights, 0.0)
    return kept / largest if problem.relative and largest > 0 and problem.penalty.concave else kept


def _relative(weights: np.ndarray) -> np.ndarray:
    return weights / weights.max()


def _ranked(weights: np.ndarray, order: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Kernels with a weight, then others of this round's order, then those of earlier rounds."""
    kept = order[weights[order] > 0]
    return np.array(list(dict.fromkeys([*kept, *order, *before])), dtype=int)


def solve(
    problem: Problem,
    *,
    begun: Opening | None = None,
    hint: np.ndarray | None = None,
    rounds: int = 3,
    tol: float = 1e-3,
    callback: Callback | None = None,
) -> Solution[State]:
    """Make at most `rounds` rounds, fewer once no relative weight changes by more than `tol`."""
    begun = opening(problem) if begun is None else begun
    solution = run(iterates(problem, begun, hint), tol=tol, max_iter=rounds, callback=callback)
    if solution.status is not Status.MAX_ITER:
        return solution
    if solution.state.residual <= tol:
        return replace(solution, status=Status.ROUNDS)
    reason = f"a step is off by {solution.state.residual:.1e}; raise tol or lambda1, or use another beta_step"
    return replace(solution, status=Status.STALLED, state=replace(solution.state, reason=reason))


def path(
    problem: Problem, lambda2s: Sequence[float], *, begun: Opening | None = None, rounds: int = 3, tol: float = 1e-3
) -> dict[float, Solution[State]]:
    """Solutions for several values of lambda2, found from the largest down, each near the one before."""
    begun = opening(problem) if begun is None else begun
    out: dict[float, Solution[State]] = {}
    hint = None
    for value in sorted(lambda2s, reverse=True):
        out[value] = solve(replace(problem, lambda2=value), begun=begun, hint=hint, rounds=rounds, tol=tol)
        hint = out[value].state.weights
    return out
