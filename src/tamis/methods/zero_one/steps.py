"""The steps of MKL-L0/1-SVM: what one round of ADMM does to each block of variables.

The problem, the names and the departures are those of `solver`; equation numbers are those of [Zhu2023].
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve as solve_dense

from tamis.kernels.stacks.base import KernelStack
from tamis.methods.zero_one.certificate import Point
from tamis.optim.matrices import Factor, ShiftedSolver, factor, with_diagonal
from tamis.optim.prox import project_simplex, prox_zero_one
from tamis.optim.quadratic import solve_simplex_qp

D_STEPS = ("simplex_qp", "paper")
REST_ROUNDS = 10  # rounds for which weights that no longer change are skipped
CALM_ROUNDS = 3  # rounds with hardly any change after which weights count as no longer changing


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
    """The variables that only the printed d step has: z (L,), theta (L,) and alpha."""

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
    """The start of the paper: equal weights, and every row in the class of larger cost."""
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
    """b (71), given ``image = K(d) w``."""
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
    """z (74), d (77), (78), alpha (61g) and theta (79) as printed, with departure 2."""
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
    """K(d) for the present weights, and the w step (68) on it."""

    def __init__(self, problem: Problem, weights: np.ndarray):
        self.problem, self.solver = problem, ShiftedSolver(problem.rho1)
        self._set: tuple[np.ndarray, Factor] | None = None
        self.move(weights)
        self.restricted = problem.stack.shape[0] == 1 and problem.stack.error is None

    def move(self, weights: np.ndarray) -> None:
        """Set the weights and their matrix."""
        self.weights, self.K = weights, self.problem.stack.matrix(weights)

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
            w[rows] = self._factor(rows).solve(right[rows])
        return w, self.K[:, rows] @ w[rows]

    def _factor(self, rows: np.ndarray) -> Factor:
        """Factor of ``I + rho1 K`` on the working set, kept while the set stays."""
        if self._set is None or not np.array_equal(self._set[0], rows):
            self._set = rows, factor(with_diagonal(self.problem.rho1 * self.K[np.ix_(rows, rows)], 1.0))
        return self._set[1]


class Pace:
    """Selects the kernels of the next d step: all of them, those with a weight, or none (departure 7).

    Kernels whose weights have been zero for `CALM_ROUNDS` rounds are included every `REST_ROUNDS` rounds. Where the
    weights have hardly changed for as long, the steps between are skipped. The printed step has all kernels in every
    round.
    """

    def __init__(self, stack: KernelStack, d_step: str, small: float):
        self.stack, self.d_step, self.small = stack, d_step, small
        self._same = self._calm = self._wait = 0
        self._face: tuple[np.ndarray, KernelStack] = np.arange(stack.shape[0]), stack

    def step(self, problem: Problem, state: State, image: np.ndarray) -> tuple[State, np.ndarray]:
        """The state with new weights, and ``K(d) w`` for them; the same array of weights where the step is skipped."""
        if len(state.weights) == 1:
            return state, image
        if self.d_step == "paper":
            A = self.stack.apply(state.dual_coef)
            state = paper_step(problem, state, A)
            return state, A @ state.weights
        if self._wait and self._calm >= CALM_ROUNDS:
            self._wait -= 1
            return state, image
        return self._on(*self._looked_at(state.weights), problem, state)

    def _looked_at(self, weights: np.ndarray) -> tuple[np.ndarray, KernelStack]:
        if self._same < CALM_ROUNDS or not self._wait:
            self._wait = REST_ROUNDS
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
        if self._calm > CALM_ROUNDS:
            return state, A @ old[kernels]
        return replace(state, weights=weights), A @ part
