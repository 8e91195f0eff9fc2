"""AMKL: multiple kernel learning where samples lack channels [Liu2015].

A sample is scored with the channels it has, ``f(x) = sum_p t_p <w_p, phi_p(x)> + b``, and an absent channel has kernel
value zero with everything. The program (8) of the paper is the support vector machine of a weighted kernel sum,

    min over a in A of J(a)
    J(a) = max over 0 <= beta <= cost, y'beta = 0 of sum(beta) - 1/2 (beta*y)'K(a)(beta*y),   K(a) = sum_p a_p K_p

with ``w_p = a_p sum_i beta_i y_i phi_p(x_i)``; its relatives differ in the polytope A alone:

| program | A, with a >= 0 |
| --- | --- |
| "amkl" | S a <= 1, one row for each pattern of present channels |
| "zero_filling" | sum_p a_p <= 1: the 1-norm |
| "mean_margin" | s'a <= 1, s_p the share of the samples that have p |
| "sum" | a_p <= 1 |

| paper | here |
| --- | --- |
| S (n x m) | `present` |
| ||w_p||^2 / gamma_p summed over a row of S | rows of the `polytope` |
| omega_p, alpha | ``weights[p] * dual_coef`` |
| C | `cost` (n,), one for every row |

The same beta bounds the minimum from below, ``min J >= sum(beta) - 1/2 max_{a in A} sum_p a_p q_p`` with
``q_p = (beta*y)'K_p(beta*y)``, a linear program in as many unknowns as there are channels. A round solves the machine,
then moves a to the minimiser over A of the quadratic model of J at a or, where J is no smaller there, to that of
``sum_p ||w_p||^2 / a_p``, where it cannot be larger.

Departures from the paper, with reasons:

1. (8) in place of (9)-(12), which lose the factor a_p on the way to kernels; "literal" in `absent_conic` is (12).
2. Patterns that are contained in others bind nowhere and are left out: rows are as many as maximal patterns.
3. Weights are in units of a kernel's mean diagonal over the samples that have it: A compares kernels.
4. One complete sample makes A the 1-norm ball, which real data nearly always meet. Ours: rows can be replaced by
   their means over a share `tail` of the samples, those of largest ``S_i a`` (the maximum as `tail` goes to zero,
   "mean_margin" at one), and patterns of a smaller share than `min_share` can be ignored.
5. The second rule for a alone shrinks useless weights without end, like one over the number of rounds. So the
   curvature of J comes first, and in the end small weights are taken out where that costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tamis.kernels.stack import KernelStack
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.polytope import Polytope, centre, nearest, spread, widest
from tamis.optim.svm import Machine, curvature, objectives, relative_gap, solve_svm

PROGRAMS = ("amkl", "zero_filling", "mean_margin", "sum")
HELD = 1 << 30  # bytes of Gram matrices that are held
MARGIN = 1e-2  # tolerance of margins, relative to that of the gap
FINEST = 1e-8  # tolerance of margins, at the least
RIDGE = 1e-6  # added to the curvature, relative to its mean diagonal entry
TRIALS = 8  # machines in one line search
FLAT = 0.1  # share of the slope at which a line search ends
SMALL = 1e-2  # weights below this share of the largest are tried without
BLOCK = 1 << 24  # most entries of one comparison of patterns


@dataclass(frozen=True)
class Problem:
    """Kernels, labels, costs and the weights that are allowed.

    Attributes
    ----------
    stack : (m, n, n) positive semi-definite kernels, zero where a sample lacks the channel
    y : (n,) in {-1, +1}, both present
    cost : (n,) positive, C times the weight of the row
    polytope : of the m weights
    """

    stack: KernelStack
    y: np.ndarray
    cost: np.ndarray
    polytope: Polytope


@dataclass(frozen=True)
class State:
    """Kernel weights with the machine of their combination.

    Attributes
    ----------
    weights : (m,) in the polytope, on its border
    dual_coef : (n,) ``beta * y``
    intercept : float
    bound : no weights have a smaller J
    """

    weights: np.ndarray
    dual_coef: np.ndarray
    intercept: float
    bound: float = -np.inf


# ---------------------------------------------------------------------- which weights are allowed


def patterns_of(present: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows (R, m) of `present` (n, m) and the share (R,) of the weight (n,) that each has."""
    distinct, which = np.unique(present, axis=0, return_inverse=True)
    share = np.bincount(which.ravel(), weights=weight, minlength=len(distinct))
    return distinct, share / share.sum()


def maximal_patterns(patterns: np.ndarray) -> np.ndarray:
    """The distinct patterns (R, m) that are contained in no other; one without channels is in every other."""
    distinct = np.unique(patterns[patterns.any(axis=1)], axis=0).astype(float)
    size = distinct.sum(axis=1)
    step = max(1, BLOCK // max(1, len(distinct)))
    contained = [
        np.any((distinct[k : k + step] @ distinct.T == size[k : k + step, None]) & (size[k : k + step, None] < size), 1)
        for k in range(0, len(distinct), step)
    ]
    return distinct[~np.concatenate([np.empty(0, dtype=bool), *contained])].astype(bool)


def polytope_of(
    program: str,
    present: np.ndarray,
    weight: np.ndarray,
    scale: np.ndarray,
    *,
    tail: float | None = None,
    min_share: float = 0.0,
) -> Polytope:
    """The weights that a program allows.

    Parameters
    ----------
    present : (n, m) boolean, every channel with a sample that has it
    weight : (n,) what each sample counts in shares
    scale : (m,) size of each kernel: its mean diagonal over the samples that have it
    tail : share of the samples over which the largest sums are averaged; None: the largest alone
    min_share : patterns of a smaller share are ignored; a channel that no other pattern has is bounded by itself
    """
    m = present.shape[1]
    if program == "zero_filling":
        return Polytope(scale[None])
    if program == "mean_margin":
        return Polytope((weight @ present / weight.sum() * scale)[None])
    if program == "sum":
        return Polytope(np.diag(scale))
    patterns, share = patterns_of(present, weight)
    frequent = share >= min_share
    alone = np.eye(m, dtype=bool)[~patterns[frequent].any(axis=0)]
    patterns = np.vstack([patterns[frequent], alone])
    if tail is None or np.count_nonzero(patterns.any(axis=1)) == 1:
        return Polytope(maximal_patterns(patterns) * scale)
    caps = np.concatenate([share[frequent] / tail, np.ones(len(alone))])
    caps *= max(1.0, 1.0 / caps.sum())
    if tail == 1.0 and not len(alone):
        return Polytope((caps @ patterns * scale)[None])
    return Polytope(patterns * scale, caps)


# ---------------------------------------------------------------------- the solver


def objective(problem: Problem, state: State) -> float:
    """J of the state's weights, as its coefficients attain it."""
    return _values(problem, state)[0]


def violation(problem: Problem, state: State) -> float:
    """The duality gap relative to J."""
    _, primal = _values(problem, state)
    bound, _ = lower_bound(problem.polytope, state.dual_coef, problem.stack.quad(state.dual_coef))
    return relative_gap(primal, max(bound, state.bound))


def _values(problem: Problem, state: State) -> tuple[float, float]:
    image = problem.stack.combine(state.weights) @ state.dual_coef
    return objectives(image, problem.y, problem.cost, state.dual_coef, state.intercept)


def lower_bound(
    polytope: Polytope, dual_coef: np.ndarray, energies: np.ndarray, rows: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """``sum(beta) - 1/2 max_{a in A} a'energies``, which no J falls below, and the rows that bind (see `widest`)."""
    gains = np.maximum(energies, 0.0)
    best, rows = widest(polytope, gains, rows)
    return float(np.abs(dual_coef).sum() - 0.5 * (best @ gains)), rows


@dataclass(frozen=True)
class _Point:
    """Weights (m,), their combination K (n, n) and its machine."""

    weights: np.ndarray
    K: np.ndarray
    machine: Machine


def _point(problem: Problem, weights: np.ndarray, known: np.ndarray | None, tol: float) -> _Point:
    K = problem.stack.combine(weights).dense()
    return _Point(weights, K, solve_svm(K, problem.y, problem.cost, tol=tol, start=known))


def iterates(problem: Problem, start: State | None = None, *, tol: float = 1e-3) -> Iterator[Iterate[State]]:
    """Alternate between the machine and the weights; J never rises, and every iterate is certified.

    Parameters
    ----------
    tol : the gap that is aimed at; machines are solved accordingly
    """
    problem = replace(problem, stack=problem.stack.held(HELD))
    fine, bound, rows = max(MARGIN * tol, FINEST), -np.inf, problem.polytope.first()
    if start is None:
        point = _point(problem, centre(problem.polytope), None, fine)
    else:
        point = _point(problem, start.weights / problem.polytope.height(start.weights), start.dual_coef, fine)
    while True:
        machine = point.machine
        images = problem.stack.apply(machine.dual_coef)
        energies = machine.dual_coef @ images
        below, rows = lower_bound(problem.polytope, machine.dual_coef, energies, rows)
        bound = max(bound, below)
        if relative_gap(machine.primal, bound) <= tol:
            point = _pruned(problem, point, bound, tol)
            machine = point.machine
        state = State(point.weights, machine.dual_coef, machine.intercept, bound)
        yield Iterate(state, machine.value, relative_gap(machine.primal, bound), weights=point.weights)
        moved, rows = _moved(problem, point, images, rows, fine)
        if moved is None:
            return
        point = moved


def _moved(
    problem: Problem, point: _Point, images: np.ndarray, rows: np.ndarray, tol: float
) -> tuple[_Point | None, np.ndarray]:
    """A point of smaller J, or None: by the curvature of J, and if that does not help by the rule for the norms."""
    known, m = point.machine.dual_coef, len(point.weights)
    energies = np.maximum(known @ images, 0.0)
    H = curvature(point.K, problem.y, problem.cost, known, images)
    H[np.diag_indices(m)] += RIDGE * max(float(np.trace(H)) / m, float(energies.max()))
    target, rows = nearest(problem.polytope, H, H @ point.weights + 0.5 * energies, rows)
    moved = _towards(problem, point, _point(problem, target, known, tol), tol)
    if moved.machine.value < point.machine.value:
        return moved, rows
    weights, rows = spread(problem.polytope, point.weights * np.sqrt(energies), rows)
    if not weights.any():  # the intercept alone decides
        return None, rows
    new = _point(problem, weights, known, tol)
    return (new if new.machine.value < point.machine.value else None), rows


def _towards(problem: Problem, point: _Point, end: _Point, tol: float) -> _Point:
    """The best point found between two: the zero of dJ/ds = -1/2 b'(K_end - K)b by false position (Illinois)."""
    KD = end.K - point.K

    def slope(at: _Point) -> float:
        return -0.5 * float(at.machine.dual_coef @ (KD @ at.machine.dual_coef))

    low, high, last = (0.0, slope(point)), (1.0, slope(end)), 0
    first, best = abs(low[1]), end
    for _ in range(TRIALS):
        if not low[1] < 0 < high[1] or high[1] <= FLAT * first:
            break
        s = (low[0] * high[1] - high[0] * low[1]) / (high[1] - low[1])
        K = point.K + s * KD
        machine = solve_svm(K, problem.y, problem.cost, tol=tol, start=best.machine.dual_coef)
        trial = _Point(point.weights + s * (end.weights - point.weights), K, machine)
        best, here = min(best, trial, key=lambda p: p.machine.value), slope(trial)
        if abs(here) <= FLAT * first:
            break
        if here < 0:
            low, high, last = (s, here), (high[0], high[1] * (0.5 if last < 0 else 1.0)), -1
        else:
            low, high, last = (low[0], low[1] * (0.5 if last > 0 else 1.0)), (s, here), 1
    return best


def _pruned(problem: Problem, point: _Point, bound: float, tol: float) -> _Point:
    """The point without its small weights, if the gap stays within the tolerance."""
    small = (point.weights > 0) & (point.weights * problem.polytope.rows.max(axis=0) < SMALL)
    if not small.any() or small.all():
        return point
    rest = np.where(small, 0.0, point.weights)
    rest /= problem.polytope.height(rest)
    new = _point(problem, rest, point.machine.dual_coef, max(MARGIN * tol, FINEST))
    return new if relative_gap(new.machine.primal, bound) <= tol else point


def solve(
    problem: Problem,
    *,
    start: State | None = None,
    tol: float = 1e-3,
    max_iter: int = 200,
    callback: Callback | None = None,
) -> Solution[State]:
    """Minimise J over the polytope to a relative duality gap of `tol`."""
    return run(iterates(problem, start, tol=tol), tol=tol, max_iter=max_iter, callback=callback)
