"""The support vector machine of a kernel by ADMM on its dual, a baseline of [Zhang2022].

    min over alpha of 1/2 (alpha*y)'K(alpha*y) - sum(alpha)    subject to  y'alpha = 0,  0 <= alpha <= cost

    g(x) = 1/2 (x*y)'K(x*y) - sum(x) where y'x = 0,    h(z) = 0 where 0 <= z <= cost

| paper | here |
| --- | --- |
| alpha | ``dual_coef * y`` (n,) |
| C | `cost` (n,), one for every row |
| K(x_i, x_j) | `K` (n, n) |
| b | `intercept` |

With R the diagonal matrix of penalties and t = z - u, the step of x is the bordered system

    (K + R) beta + b 1 = y + R (y*t),    1'beta = 0,    x = y*beta

Departures from the paper, with reasons:

1. The penalties differ between rows and are adapted; see `admm_baselines`. K + R is factored anew when they change.
2. The coefficients that count are those of z, whose zeros are exact, scaled in one class so that y'alpha = 0 holds
   as well; the intercept is the best one for them.
3. The loop stops on the duality gap relative to the primal value, which certifies the machine that is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.linalg import LinAlgError

from tamis.methods.baselines.admm import Certificate, certified, splits
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.losses import slack
from tamis.optim.matrices import Matrix, factor, with_diagonal
from tamis.optim.svm import check_labels, relative_gap


@dataclass(frozen=True)
class Problem:
    """A kernel, labels and costs.

    Attributes
    ----------
    K : (n, n) symmetric, positive semi-definite
    y : (n,) in {-1, +1}, both present
    cost : (n,) zero or more, C times the weight of the row
    """

    K: Matrix
    y: np.ndarray
    cost: np.ndarray

    def __post_init__(self) -> None:
        check_labels(self.y, self.cost)

    def apply(self, dual_coef: np.ndarray) -> np.ndarray:
        """The kernel times a vector."""
        return self.K @ dual_coef

    def minimiser(self, penalty: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        try:
            factored = factor(with_diagonal(self.K, penalty))
        except LinAlgError:
            raise ValueError("K is not positive semi-definite: use a positive kernel, or repair its spectrum") from None
        ones = factored.solve(np.ones(len(self.y)))

        def minimise(t: np.ndarray) -> np.ndarray:
            plain = factored.solve(self.y * (1.0 + penalty * t))
            return self.y * (plain - plain.sum() / ones.sum() * ones)

        return minimise

    def prox(self, v: np.ndarray, penalty: np.ndarray) -> np.ndarray:
        return np.clip(v, 0.0, self.cost)

    def corner(self, z: np.ndarray) -> np.ndarray:
        return (z <= 0) | (z >= self.cost)


@dataclass(frozen=True)
class State:
    """A machine ``f = K dual_coef + intercept``.

    Attributes
    ----------
    dual_coef : (n,) ``alpha * y`` with exact zeros, ``0 <= alpha <= cost`` and ``y'alpha = 0``
    intercept : float, the best one for `dual_coef`
    """

    dual_coef: np.ndarray
    intercept: float


def objective(problem: Problem, state: State) -> float:
    """The dual objective, which is negative."""
    energy = float(state.dual_coef @ problem.apply(state.dual_coef))
    return 0.5 * energy - float(problem.y @ state.dual_coef)


def violation(problem: Problem, state: State) -> float:
    """The gap between the primal value of the machine and the dual one, relative to the primal value."""
    f = problem.apply(state.dual_coef)
    primal = 0.5 * float(state.dual_coef @ f) + float(problem.cost @ slack(f + state.intercept, problem.y))
    return relative_gap(primal, certified(state.dual_coef * problem.y, problem.y, problem.cost, problem.apply).dual)


def iterates(problem: Problem, start: State | None = None) -> Iterator[Iterate[State]]:
    """Step; the objective need not fall from one iterate to the next."""
    y, n = problem.y, len(problem.y)
    alpha, margin = np.zeros(n), np.ones(n)
    if start is not None:
        alpha, margin = start.dual_coef * y, y * (problem.apply(start.dual_coef) + start.intercept)
    yield _iterate(certified(alpha, y, problem.cost, problem.apply))
    spread = float(np.mean(problem.K.diagonal()) - np.mean(problem.K @ np.full(n, 1.0 / n)))
    size = float(np.sqrt(spread / problem.cost.mean())) if spread > 0 else 1.0
    for split in splits(problem, alpha, 1.0 - margin, size):
        yield _iterate(certified(split.z, y, problem.cost, problem.apply))


def _iterate(machine: Certificate) -> Iterate[State]:
    return Iterate(State(machine.dual_coef, machine.intercept), -machine.dual, machine.gap)


def solve(
    problem: Problem,
    *,
    start: State | None = None,
    tol: float = 1e-4,
    max_iter: int = 1000,
    callback: Callback | None = None,
) -> Solution[State]:
    """Minimise the dual objective to a relative duality gap of `tol`."""
    return run(iterates(problem, start), tol=tol, max_iter=max_iter, monotone=False, callback=callback)
