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

1. (8) in place of (9)-(12), which lose the factor a_p on the way to kernels; "literal" in `conic` is (12).
2. Patterns that are contained in others bind nowhere and are left out: rows are as many as maximal patterns.
3. Weights are in units of a kernel's mean diagonal over the samples that have it: A compares kernels.
4. One complete sample makes A the 1-norm ball, which real data nearly always meet. Ours: rows can be replaced by
   their means over a share `tail` of the samples, those of largest ``S_i a`` (the maximum as `tail` goes to zero,
   "mean_margin" at one), and patterns of a smaller share than `min_share` can be ignored.
5. Where neither rule lowers J, or closes a hundredth of the gap in three rounds on end, J has a kink: then cutting
   planes look for a lower point.
6. The second rule for a alone shrinks useless weights without end, like one over the number of rounds. So the
   curvature of J comes first, and in the end small weights are taken out where that costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tamis.kernels.stacks.base import KernelStack
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.matrices import Matrix
from tamis.optim.polytope import Polytope, centre, lowest, nearest, spread, widest
from tamis.optim.quadratic import zero_of_slope
from tamis.optim.svm import Machine, curvature, objectives, relative_gap, solve_svm

PROGRAMS = ("amkl", "zero_filling", "mean_margin", "sum")
MAX_GRAM_BYTES = 1 << 30  # bytes of Gram matrices that are held
MARGIN_SHARE = 1e-2  # tolerance of margins, relative to that of the gap
MIN_MARGIN_TOL = 1e-8  # tolerance of margins, at the least
MAX_CUTS = 40  # most machines in one search by cutting planes
MAX_IDLE_CUTS = 8  # machines that change neither the best point nor the bound before a search is given up
RIDGE = 1e-6  # added to the curvature, relative to its mean diagonal entry
CLOSED_SHARE = 0.1  # share of the gap that a step by the curvature should close
SMALL_STEP = 0.01  # share of the gap below which a step is small
MAX_SMALL_STEPS = 2  # small steps before cutting planes take over: the bound lags behind
MAX_TRIALS = 8  # machines in one line search
SLOPE_SHARE = 0.1  # share of the slope at which a line search ends
SMALL_WEIGHT = 1e-2  # weights below this share of the largest, in units of their bounds, are tried without
VIOLATION_SHARE = 0.01  # share of the gap by which a row of the polytope may be violated on the way
RARE_PATTERN = 1e-8  # share of a pattern that a linear program takes for zero
MAX_COMPARED = 1 << 24  # most entries of one comparison of patterns


@dataclass(frozen=True)
class Problem:
    """Kernels, labels, costs and the weights that are allowed."""

    stack: KernelStack  # (m, n, n) positive semi-definite kernels, zero where a sample lacks the channel
    y: np.ndarray  # (n,) in {-1, +1}, both present
    cost: np.ndarray  # (n,) positive, C times the weight of the row
    polytope: Polytope  # of the m weights


@dataclass(frozen=True)
class State:
    """Kernel weights with the machine of their combination."""

    weights: np.ndarray  # (m,) in the polytope, on its border
    dual_coef: np.ndarray  # (n,) ``beta * y``
    intercept: float
    bound: float = -np.inf  # no weights have a smaller J


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
    step = max(1, MAX_COMPARED // max(1, len(distinct)))
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
    tail : share of the samples, of those whose pattern counts, over which the largest sums are averaged; None: the
        largest alone
    min_share : patterns of a smaller share are ignored, and with a `tail` those that a linear program cannot see; a
        channel that no other pattern has is bounded by itself
    """
    m = present.shape[1]
    if program == "zero_filling":
        return Polytope(scale[None])
    if program == "mean_margin":
        return Polytope((weight @ present / weight.sum() * scale)[None])
    if program == "sum":
        return Polytope(np.diag(scale))
    patterns, share = patterns_of(present, weight)
    frequent = share >= (min_share if tail is None else max(min_share, RARE_PATTERN))
    alone = np.eye(m, dtype=bool)[~patterns[frequent].any(axis=0)]
    patterns, share = np.vstack([patterns[frequent], alone]), share[frequent]
    if tail is None or len(patterns) == 1:
        return Polytope(maximal_patterns(patterns) * scale)
    caps = share / (tail * share.sum())
    if tail == 1.0 and not len(alone):
        return Polytope((caps @ patterns * scale)[None])
    return Polytope(patterns * scale, np.concatenate([caps, np.ones(len(alone))]))


# ---------------------------------------------------------------------- the solver


def objective(problem: Problem, state: State) -> float:
    """J of the state's weights, as its coefficients attain it."""
    return _values(problem, state)[0]


def violation(problem: Problem, state: State) -> float:
    """The duality gap relative to J."""
    _, primal = _values(problem, state)
    energies = np.maximum(problem.stack.quad(state.dual_coef), 0.0)
    bound, _ = lower_bound(problem.polytope, float(np.abs(state.dual_coef).sum()), energies)
    return relative_gap(primal, max(bound, state.bound))


def _values(problem: Problem, state: State) -> tuple[float, float]:
    image = problem.stack.combine(state.weights) @ state.dual_coef
    return objectives(image, problem.y, problem.cost, state.dual_coef, state.intercept)


def lower_bound(
    polytope: Polytope, value: float, energies: np.ndarray, rows: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """``value - 1/2 max_{a in A} a'energies``, and the rows that bind (see `widest`).

    With ``value = sum(beta)`` and the energies of beta no J falls below it; nor with a mean of such pairs.
    """
    _, top, rows = widest(polytope, energies, rows)
    return value - 0.5 * top, rows


@dataclass(frozen=True)
class _Point:
    """Weights (m,) in units of their bounds, the combination K (n, n) and its machine."""

    weights: np.ndarray
    K: Matrix
    machine: Machine


@dataclass(frozen=True)
class _Scaled:
    """The problem in units in which no weight exceeds one: ``K = sum_p (weights_p / unit_p) K_p``."""

    problem: Problem
    stack: KernelStack
    unit: np.ndarray
    polytope: Polytope
    tol: float

    @classmethod
    def of(cls, problem: Problem, tol: float) -> _Scaled:
        unit, polytope = problem.polytope.rows.max(axis=0), problem.polytope
        return cls(problem, problem.stack.held(MAX_GRAM_BYTES), unit, replace(polytope, rows=polytope.rows / unit), tol)

    @property
    def over(self) -> float:
        """By how much a row may be violated before it is added."""
        return VIOLATION_SHARE * self.tol

    def point(self, weights: np.ndarray, known: np.ndarray | None) -> _Point:
        return self.at(weights, self.stack.matrix(weights / self.unit), known)

    def at(self, weights: np.ndarray, K: Matrix, known: np.ndarray | None) -> _Point:
        tol = max(MARGIN_SHARE * self.tol, MIN_MARGIN_TOL)
        return _Point(weights, K, solve_svm(K, self.problem.y, self.problem.cost, tol=tol, start=known))

    def images(self, point: _Point) -> np.ndarray:
        """(n, m) with columns ``K_p dual_coef / unit_p``."""
        return self.stack.apply(point.machine.dual_coef) / self.unit


def iterates(problem: Problem, start: State | None = None, *, tol: float = 1e-3) -> Iterator[Iterate[State]]:
    """Alternate between the machine and the weights; every iterate is certified.

    J never rises but in the last one, which goes without small weights where the gap allows it.

    Parameters
    ----------
    tol : the gap that is aimed at; machines are solved accordingly
    """
    scaled = _Scaled.of(problem, tol)
    polytope, bound, rows = scaled.polytope, -np.inf, scaled.polytope.first()
    if start is None:
        point = scaled.point(centre(polytope), None)
    else:
        weights = start.weights * scaled.unit
        point = scaled.point(weights / polytope.height(weights), start.dual_coef)
    cuts, slow = _Cuts(scaled), 0
    while True:
        images = scaled.images(point)
        bound, rows = cuts.added(point, images, bound, rows)
        done = relative_gap(point.machine.primal, bound) <= tol
        if done:
            point = _pruned(scaled, point, bound)
        machine, weights = point.machine, point.weights / scaled.unit
        gap = relative_gap(machine.primal, bound)
        yield Iterate(State(weights, machine.dual_coef, machine.intercept, bound), machine.value, gap, weights=weights)
        if done:
            return
        moved, rows = _moved(scaled, point, images, rows, gap)
        none = moved.machine.value >= machine.value
        small = moved.machine.value > machine.value * (1.0 - SMALL_STEP * min(gap, 1.0))
        if none or (small and slow >= MAX_SMALL_STEPS):
            moved, better, rows = cuts.lower(moved, bound, rows)
            if moved.machine.value >= machine.value and better <= bound:
                return
            bound = better
        point, slow = moved, slow + 1 if small else 0


class _Cuts:
    """Linear functions below J, one for each machine: ``J(a) >= sum(beta) - 1/2 q'a``.

    Where rows are alike, or kernels of low rank, a machine has many solutions, J has kinks, and its slope at one
    solution leads nowhere. The lowest point of all cuts does, and their mean there is a better bound.
    """

    def __init__(self, scaled: _Scaled):
        self.scaled = scaled
        self.values: list[float] = []
        self.slopes: list[np.ndarray] = []

    def added(self, point: _Point, images: np.ndarray, bound: float, rows: np.ndarray) -> tuple[float, np.ndarray]:
        """Add the cut of a point; the better of its bound and the one so far."""
        dual_coef = point.machine.dual_coef
        energies = np.maximum(dual_coef @ images, 0.0)
        self.values.append(float(np.abs(dual_coef).sum()))
        self.slopes.append(0.5 * energies)
        below, rows = lower_bound(self.scaled.polytope, self.values[-1], energies, rows)
        return max(bound, below), rows

    def lower(self, point: _Point, bound: float, rows: np.ndarray) -> tuple[_Point, float, np.ndarray]:
        """The best point among those where all cuts are lowest, and half way to them, and the bound.

        The search ends where the bound is close enough, where J has fallen by some of the gap, after `MAX_CUTS`, or
        where nothing changes any more.
        """
        scaled, best = self.scaled, point
        enough = point.machine.value * (1.0 - CLOSED_SHARE * min(relative_gap(point.machine.primal, bound), 1.0))
        idle = 0
        for turn in range(MAX_CUTS):
            before = best.machine.value, bound
            values, slopes = np.array(self.values), np.array(self.slopes)
            target, shares, rows = lowest(scaled.polytope, values, slopes, rows, scaled.over)
            below, rows = lower_bound(scaled.polytope, float(shares @ values), 2.0 * (shares @ slopes), rows)
            bound = max(bound, below)
            if relative_gap(best.machine.primal, bound) <= scaled.tol or best.machine.value <= enough:
                break
            weights = target if turn % 2 == 0 else 0.5 * (target + best.weights)
            new = scaled.point(weights, best.machine.dual_coef)
            bound, rows = self.added(new, scaled.images(new), bound, rows)
            best = min(best, new, key=lambda p: p.machine.value)
            idle = idle + 1 if (best.machine.value, bound) == before else 0
            if idle == MAX_IDLE_CUTS:
                break
        return best, bound, rows


def _moved(
    scaled: _Scaled, point: _Point, images: np.ndarray, rows: np.ndarray, gap: float
) -> tuple[_Point, np.ndarray]:
    """A point of smaller J, if there is one, by its curvature and, unless that closes some of the gap, by the norms."""
    problem, polytope = scaled.problem, scaled.polytope
    known, m = point.machine.dual_coef, len(point.weights)
    energies = np.maximum(known @ images, 0.0)
    if not energies.any():  # no weights change what is zero
        return point, rows
    H = curvature(point.K, problem.y, problem.cost, known, images)
    H[np.diag_indices(m)] += RIDGE * max(float(np.trace(H)) / m, float(energies.max()))
    target, rows = nearest(polytope, H, H @ point.weights + 0.5 * energies, rows, scaled.over)
    best = _towards(scaled, point, scaled.point(target, known))
    if best.machine.value > point.machine.value * (1.0 - CLOSED_SHARE * min(gap, 1.0)):
        weights, rows = spread(polytope, point.weights * np.sqrt(energies), rows, scaled.over)
        if weights.any():
            best = min(best, scaled.point(weights, known), key=lambda p: p.machine.value)
    return min(point, best, key=lambda p: p.machine.value), rows


def _towards(scaled: _Scaled, point: _Point, end: _Point) -> _Point:
    """The best point found between two, near the zero of dJ/ds = -1/2 b'(K_end - K)b."""

    def slope(at: _Point) -> float:
        coef = at.machine.dual_coef
        return -0.5 * float(coef @ (end.K @ coef) - coef @ (point.K @ coef))

    def at(s: float) -> tuple[_Point, float]:
        weights, K = point.weights + s * (end.weights - point.weights), point.K + s * (end.K - point.K)
        trial = scaled.at(weights, K, end.machine.dual_coef)
        return trial, slope(trial)

    trials = zero_of_slope(at, slope(point), slope(end), length=1.0, trials=MAX_TRIALS, flat=SLOPE_SHARE)
    return min([end, *trials], key=lambda p: p.machine.value)


def _pruned(scaled: _Scaled, point: _Point, bound: float) -> _Point:
    """The point without its small weights, if the gap stays within the tolerance."""
    rest = np.where(point.weights < SMALL_WEIGHT * point.weights.max(), 0.0, point.weights)
    if np.array_equal(rest, point.weights) or not rest.any():
        return point
    new = scaled.point(rest / scaled.polytope.height(rest), point.machine.dual_coef)
    return new if relative_gap(new.machine.primal, bound) <= scaled.tol else point


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
