"""The yardstick of multiple kernel learning: a support vector machine on the unweighted mean of the kernels.

    min over beta, b    1/2 beta'K beta + sum_i cost_i max(0, 1 - y_i ((K beta)_i + b)),    K = (1/L) sum_l K_l

No weights are learned, so none can be overfitted; whatever learns them should beat it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tamis.kernels.stacks.base import KernelStack
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.svm import relative_gap, solve_svm

SHARPER = 10.0  # margins are solved to this fraction of tol when the gap asks for more
ATTEMPTS = 4


@dataclass(frozen=True)
class Problem:
    """Kernels (L, n, n), labels (n,) in {-1, +1}, costs (n,)."""

    stack: KernelStack
    y: np.ndarray
    cost: np.ndarray


@dataclass(frozen=True)
class State:
    """Weights (L,), all equal, with the machine on the mean."""

    weights: np.ndarray
    dual_coef: np.ndarray
    intercept: float


def iterates(problem: Problem, tol: float) -> Iterator[Iterate[State]]:
    """Machines of growing precision; the violation is the relative duality gap."""
    L = problem.stack.shape[0]
    weights = np.full(L, 1.0 / L)
    K = problem.stack.matrix(weights)
    for attempt in range(ATTEMPTS):
        machine = solve_svm(K, problem.y, problem.cost, tol=tol / SHARPER**attempt)
        gap = relative_gap(machine.primal, machine.value)
        yield Iterate(State(weights, machine.dual_coef, machine.intercept), machine.value, gap, weights=weights)


def solve(problem: Problem, *, tol: float = 1e-3, callback: Callback | None = None) -> Solution[State]:
    """Solve to a relative duality gap of `tol`."""
    return run(iterates(problem, tol), tol=tol, max_iter=ATTEMPTS + 1, callback=callback)
