"""Give up rows, fit the rest exactly: a second way to solve the 0/1-loss machine, and a yardstick for the first.

Whichever rows are given up, the best that remains is the hard-margin machine of the others (see `certificate`),

    J(d) = min over w, b of 1/2 w'K(d)w    subject to  y_i ((K(d)w)_i + b) >= 1  for the kept rows

so the problem is which rows to give up. It is the soft-margin machine with a cost that stands for infinity, so that
`simple_mkl` learns its weights. Soft-margin machines of several costs propose: rows whose slack exceeds a threshold are
given up. Kernel weights are learned for the best proposals, which are then refined by giving up or taking back single
rows. The result is P-stationary as far as its weights are learned, the search is deterministic, and giving up a whole
class (the dead start) is always among the proposals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tamis.kernels.stacks.base import KernelStack
from tamis.methods.baselines import simple_mkl
from tamis.methods.zero_one.certificate import Point, slacks, value
from tamis.optim.matrices import Matrix, corner
from tamis.optim.svm import HARD_MARGIN, solve_svm

MARGIN_TOL = 1e-6  # tolerance of margins
MAX_ROUNDS = 30  # most rounds of learning weights
COSTS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)  # of the proposing machines, per unit of mean cost over mean diagonal
SLACKS = (0.0, 0.5, 1.0, 1.5)
N_FINALISTS = 6
MAX_EXCHANGES = 4  # rows tried on either side in one round of exchanges
MAX_TRIED = 30_000  # rows times trials of exchanges
REFINED_RATIO = 1.6  # fits with at most so many times the lowest objective are refined by exchanges
MAX_SLACK = 3.0  # a row is given up only if that pays with a slack of so much: the energy falls by at most w_i u_i


def energy(point: Point, y: np.ndarray) -> float:
    """J, as the coefficients attain it: ``w'K w = sum |w|`` at the optimum."""
    return 0.5 * float(y @ point.dual_coef)


def hard_margin(
    K: Matrix, weights: np.ndarray, y: np.ndarray, kept: np.ndarray, start: np.ndarray | None = None
) -> Point | None:
    """The machine of the kept rows on the combined kernel K; None where they cannot be separated.

    Where the kept rows are of one class it is constant.
    """
    rows = np.flatnonzero(kept)
    sides = y[rows]
    if np.all(sides > 0) or np.all(sides < 0):
        return Point(weights, np.zeros(len(y)), float(sides[0]) if len(sides) else 1.0)
    inner = K if len(rows) == len(y) else corner(K, rows)
    found = solve_svm(inner, sides, _no_slack(inner), tol=MARGIN_TOL, start=None if start is None else start[rows])
    if not found.converged:
        return None
    dual_coef = np.zeros(len(y))
    dual_coef[rows] = found.dual_coef
    return Point(weights, dual_coef, found.intercept)


def learn_weights(stack: KernelStack, point: Point, y: np.ndarray, kept: np.ndarray, tol: float) -> Point:
    """The machine of the same rows with better weights, to a relative duality gap of `tol`."""
    if stack.shape[0] == 1 or not point.dual_coef.any():
        return point
    rows = np.flatnonzero(kept)
    inner = stack.take(rows=rows, cols=rows)
    problem = simple_mkl.Problem(inner, y[rows], _no_slack(inner.matrix(point.weights)))
    start = simple_mkl.State(point.weights, point.dual_coef[rows], point.intercept)
    weights = simple_mkl.solve(problem, start=start, tol=tol, max_iter=MAX_ROUNDS).state.weights
    better = hard_margin(stack.matrix(weights), weights, y, kept, point.dual_coef)
    return point if better is None or energy(better, y) > energy(point, y) else better


def _no_slack(K: Matrix) -> np.ndarray:
    """A cost (n,) that no coefficient reaches where the rows of K can be separated."""
    return np.full(len(K), HARD_MARGIN / (float(np.max(K.diagonal())) or 1.0))


# ---------------------------------------------------------------------- the search


@dataclass(frozen=True)
class Fit:
    """A hard-margin machine on the rows that are kept, with the objective (51) of the whole."""

    kept: np.ndarray
    point: Point
    objective: float

    @property
    def paid(self) -> float:
        """What the rows given up cost; with other weights some of them may be fitted by chance."""
        return self.objective - 0.5 * float(np.abs(self.point.dual_coef).sum())


@dataclass(frozen=True)
class Problem:
    """Kernels (L, n, n), labels (n,) in {-1, +1}, costs (n,); a slack of at most `zero` costs nothing."""

    stack: KernelStack
    y: np.ndarray
    cost: np.ndarray
    zero: float = 1e-3

    def fit(self, K: Matrix, weights: np.ndarray, kept: np.ndarray, start: np.ndarray | None = None) -> Fit | None:
        """Fit the kept rows exactly on the combined kernel K; None where they cannot be separated."""
        point = hard_margin(K, weights, self.y, kept, start)
        return None if point is None else self._valued(point, K, kept)

    def _valued(self, point: Point, K: Matrix, kept: np.ndarray) -> Fit:
        return Fit(kept, point, value(point, K, self.y, self.cost, self.zero))

    def learned(self, fit: Fit, tol: float) -> Fit:
        """The same rows with kernel weights that are optimal for them."""
        point = learn_weights(self.stack, fit.point, self.y, fit.kept, tol)
        better = self._valued(point, self.stack.matrix(point.weights), fit.kept)
        return better if better.objective < fit.objective else fit

    def exchanged(self, fit: Fit) -> Fit:
        """Give up one row or take one back, the weights staying, as long as that lowers the objective."""
        weights = fit.point.weights
        K = self.stack.matrix(weights)
        trials = max(1, MAX_TRIED // (len(self.y) * N_FINALISTS))
        while trials > 0:
            better = None
            for row in self._movable(fit, K)[:trials]:
                kept = fit.kept.copy()
                kept[row] = ~kept[row]
                trial = self.fit(K, weights, kept, fit.point.dual_coef)
                trials -= 1
                if trial is not None and trial.objective < (better or fit).objective * (1.0 - 1e-9):
                    better = trial
            if better is None:
                break
            fit = better
        return fit

    def _movable(self, fit: Fit, K: Matrix) -> list[int]:
        """In turn the rows that hold the margin hardest for their cost and those nearest to being fitted."""
        pull = self.y * fit.point.dual_coef / self.cost
        hard = [int(i) for i in np.argsort(-pull, kind="stable")[:MAX_EXCHANGES] if MAX_SLACK * pull[i] > 1]
        u = np.where(fit.kept, np.inf, slacks(fit.point, K, self.y))
        near = [int(i) for i in np.argsort(u, kind="stable")[:MAX_EXCHANGES] if np.isfinite(u[i])]
        return [i for k in range(MAX_EXCHANGES) for i in hard[k : k + 1] + near[k : k + 1]]


def proposals(problem: Problem, K: Matrix) -> Iterator[np.ndarray]:
    """Masks of rows to keep: all, one class only, and what soft-margin machines fit well."""
    y, cost = problem.y, problem.cost
    yield np.ones(len(y), dtype=bool)
    yield y == (1.0 if cost @ y >= 0 else -1.0)
    unit = cost / (np.mean(cost) * (float(np.mean(K.diagonal())) or 1.0))
    for size in COSTS:
        machine = solve_svm(K, y, size * unit)
        u = 1.0 - y * (K @ machine.dual_coef + machine.intercept)
        for limit in SLACKS:
            yield u <= limit + problem.zero


def search(
    stack: KernelStack,  # (L, n, n)
    y: np.ndarray,  # (n,) in {-1, +1}
    cost: np.ndarray,  # (n,)
    tol: float,  # to which the weights satisfy condition 4 of `certificate`
    *,
    zero: float = 1e-3,  # a slack up to that costs nothing
    thorough: bool = True,  # whether to look beyond the two best proposals and to exchange rows
) -> Iterator[Fit]:
    """Better and better machines: the best proposal, the best with learned weights, the best after exchanges."""
    problem = Problem(stack, y, cost, zero)
    weights = np.full(stack.shape[0], 1.0 / stack.shape[0])
    K = stack.matrix(weights)
    distinct = {kept.tobytes(): kept for kept in proposals(problem, K)}
    fits = [fit for kept in distinct.values() if (fit := problem.fit(K, weights, kept)) is not None]
    fits.sort(key=_objective)
    yield fits[0]
    better: list[Fit] = []
    for fit in _finalists(fits, N_FINALISTS if thorough else 2):
        if not better or fit.paid < min(better, key=_objective).objective:
            better.append(problem.learned(fit, tol))
    best = min(better, key=_objective)
    yield best
    if not thorough:
        return
    better = [fit for fit in better if fit.objective <= REFINED_RATIO * best.objective]
    best = min((problem.exchanged(fit) for fit in better), key=_objective)
    yield problem.learned(best, tol)


def _finalists(fits: list[Fit], size: int) -> list[Fit]:
    """Half of them by objective, half by what they have to pay whatever the weights; of constant machines the best."""
    alive = [fit for fit in fits if fit.point.dual_coef.any()]
    dead = [fit for fit in fits if not fit.point.dual_coef.any()][:1]
    first = alive[: size // 2]
    rest = sorted(alive[size // 2 :], key=lambda fit: fit.paid)[: size - size // 2]
    return sorted(dead + first + rest, key=_objective)


def _objective(fit: Fit) -> float:
    return fit.objective
