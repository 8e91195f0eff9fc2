"""The lasso on the labels by ADMM, a baseline of [Zhang2022].

    min over w and b of 1/2 sum_i weight_i (x_i'w + b - y_i)^2 + penalty sum_j |w_j|

    g(x) = 1/2 sum_i weight_i (x_i'x + b - y_i)^2 at the best b,    h(z) = penalty sum_j |z_j|

| paper | here |
| --- | --- |
| w, b | `w` (d,), minus the `intercept` |
| C | `penalty` |

The intercept is profiled out by centring with the weights: with rows and labels centred and scaled by the root of
their weight, the step of x is the textbook's ``(X'X + R)^-1 (X'y + R (z - u))`` with R the diagonal matrix of
penalties of the iteration.

Departures from the paper, with reasons:

1. The intercept is free: with unbalanced classes a penalised one would be paid for by the coefficients.
2. The penalties differ between columns and are adapted; see `admm_baselines`. The system is factored anew when they
   change, of size d or n, whichever is smaller.
3. The coefficients that count are those of z, whose zeros are exact.
4. The loop stops on the duality gap relative to the objective, with the residual scaled into the dual's domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve

from tamis.methods.baselines.admm import factored, splits
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.prox import prox_l1
from tamis.optim.svm import relative_gap


@dataclass(frozen=True)
class Problem:
    """Rows, targets and weights.

    Attributes
    ----------
    X : (n, d) finite; the penalty is fair only to columns of similar scale
    y : (n,)
    weight : (n,) zero or more
    penalty : positive; from `largest` on all coefficients are zero
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    penalty: float

    def __post_init__(self) -> None:
        if not self.penalty > 0 or not np.isfinite(self.penalty):
            raise ValueError(f"penalty={self.penalty} must be positive and finite")
        if not np.all(self.weight >= 0) or not np.any(self.weight > 0) or not np.all(np.isfinite(self.weight)):
            raise ValueError("weight must be finite, zero or more, and not zero everywhere")

    @property
    def largest(self) -> float:
        """The smallest penalty that makes all coefficients zero."""
        return float(np.max(np.abs(self.centred[0].T @ self.centred[1])))

    @cached_property
    def means(self) -> tuple[np.ndarray, float]:
        """Weighted means of the columns and of the targets."""
        return np.average(self.X, axis=0, weights=self.weight), float(np.average(self.y, weights=self.weight))

    @cached_property
    def centred(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and targets, centred and scaled so that all weights are one."""
        columns, target = self.means
        root = np.sqrt(self.weight)
        return root[:, None] * (self.X - columns), root * (self.y - target)

    def minimiser(self, penalty: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        X, y = self.centred
        n, d = X.shape
        pull = X.T @ y
        if d <= n:
            factor = factored(X.T @ X + np.diag(penalty))
            return lambda t: cho_solve(factor, pull + penalty * t)
        small = factored((X / penalty) @ X.T + np.eye(n))

        def minimise(t: np.ndarray) -> np.ndarray:
            plain = t + pull / penalty
            return plain - X.T @ cho_solve(small, X @ plain) / penalty

        return minimise

    def prox(self, v: np.ndarray, penalty: np.ndarray) -> np.ndarray:
        return prox_l1(v, self.penalty / penalty)

    def corner(self, z: np.ndarray) -> np.ndarray:
        return z == 0.0


@dataclass(frozen=True)
class State:
    """A linear function ``x'w + intercept``; `w` (d,) has exact zeros, `intercept` is the best one for it."""

    w: np.ndarray
    intercept: float


def objective(problem: Problem, state: State) -> float:
    """Half the weighted squared error and the penalty."""
    error = problem.X @ state.w + state.intercept - problem.y
    return 0.5 * float(problem.weight @ error**2) + problem.penalty * float(np.abs(state.w).sum())


def violation(problem: Problem, state: State) -> float:
    """The gap between the objective and a dual one, relative to the objective.

    For every s, theta = s (y - Xw) of the centred problem is admissible for the dual

        max over theta of theta'y - 1/2 |theta|^2    subject to  |X'theta| <= penalty in every entry

    as long as |s| is small enough; the best such s is taken.
    """
    X, y = problem.centred
    residual = y - X @ state.w
    size, fit = float(residual @ residual), float(residual @ y)
    limit = problem.penalty / max(float(np.max(np.abs(X.T @ residual))), np.finfo(float).tiny)
    s = float(np.clip(fit / max(size, np.finfo(float).tiny), -limit, limit))
    return relative_gap(objective(problem, state), s * fit - 0.5 * s * s * size)


def iterates(problem: Problem, start: State | None = None) -> Iterator[Iterate[State]]:
    """Step; the objective need not fall from one iterate to the next."""
    X, y = problem.centred
    w = np.zeros(X.shape[1]) if start is None else start.w
    yield _iterate(problem, w)
    size = float(np.sum(X * X)) / X.shape[1] or 1.0
    for split in splits(problem, w, X.T @ (y - X @ w), size):
        yield _iterate(problem, split.z)


def _iterate(problem: Problem, w: np.ndarray) -> Iterate[State]:
    columns, target = problem.means
    state = State(w, target - float(columns @ w))
    return Iterate(state, objective(problem, state), violation(problem, state))


def solve(
    problem: Problem,
    *,
    start: State | None = None,
    tol: float = 1e-4,
    max_iter: int = 1000,
    callback: Callback | None = None,
) -> Solution[State]:
    """Minimise the objective to a relative duality gap of `tol`."""
    return run(iterates(problem, start), tol=tol, max_iter=max_iter, monotone=False, callback=callback)
