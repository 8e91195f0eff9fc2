"""EasyMKL: kernel weights from the margin distribution of the mean kernel [Aiolli2015].

    min over gamma of (1 - lam) gamma'Y Kbar Y gamma + lam sum_i gamma_i^2 / weight_i
    subject to gamma >= 0, sum over the positive class = 1, sum over the negative class = 1
    weights_l proportional to gamma'Y K_l Y gamma, sum(weights) = 1
    then the support vector machine of sum_l weights_l K_l, cost_i = C weight_i

with Kbar the mean of the kernels and Y = diag(y). gamma'YKYgamma is the squared distance, in the space of K, of
two points of the convex hulls of the classes: a kernel gets weight as it holds them apart.

| paper | here |
| --- | --- |
| gamma | `gamma` (n,) |
| lambda | `lam`, in (0, 1] |
| eta_r | `weights` (L,), with sum one instead of norm one |
| K_r, sum of the K_r | kernels of the `stack`, their mean |

Departures from the paper, with reasons:

1. The mean of the kernels takes the place of their sum, so that `lam` means the same for any number of kernels.
2. Rows have weights: one of weight two is two equal rows.
3. The quadratic program is the hard-margin machine of (1 - lam) Kbar + lam diag(1 / weight), with
   gamma = 2 alpha / sum(alpha). Its energy is at least lam (1 / W+ + 1 / W-), with W the weights of the classes, so
   no alpha exceeds 2 over that, and a finite cost stands for none.
4. The machine of the combined kernel is an ordinary support vector machine; the weights do not depend on it.
5. Where every distance vanishes to rounding (all kernels are constant on the support of gamma) the weights are
   equal and the state says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tamis.kernels.stacks.base import KernelStack
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.matrices import with_diagonal
from tamis.optim.svm import Machine, objectives, relative_gap, solve_svm, solve_svm_on

FINER = (1.0, 1e-3, 1e-6)  # tolerances of margins, relative to that of the gap
ROUGH = 0.1  # of a kernel's largest value: how far a rough matrix may be off
ROUNDING = 1e-13  # a distance below this share of the energies of both classes is none


@dataclass(frozen=True)
class Problem:
    """Kernels, labels, weights of rows and the two parameters.

    Attributes
    ----------
    stack : (L, n, n) positive semi-definite kernels
    y : (n,) in {-1, +1}, both present
    weight : (n,) positive
    lam : in (0, 1]; towards one gamma becomes uniform in each class, towards zero it maximises the margin
    C : cost of the last machine, per unit of weight
    """

    stack: KernelStack
    y: np.ndarray
    weight: np.ndarray
    lam: float
    C: float


@dataclass(frozen=True)
class State:
    """Kernel weights with the machine of their combination.

    Attributes
    ----------
    weights : (L,) on the simplex
    dual_coef : (n,) ``alpha * y`` of the last machine
    intercept : float
    gamma : (n,) the margin distribution
    alike : whether no kernel holds the classes apart, and the weights are equal for want of a reason
    """

    weights: np.ndarray
    dual_coef: np.ndarray
    intercept: float
    gamma: np.ndarray
    alike: bool


def objective(problem: Problem, state: State) -> float:
    """The value of the quadratic program at gamma."""
    return _program(problem, state.gamma)[0]


def violation(problem: Problem, state: State) -> float:
    """The larger relative duality gap, of the quadratic program and of the last machine."""
    return max(_program(problem, state.gamma)[1], _machine_gap(problem, state))


def _program(problem: Problem, gamma: np.ndarray) -> tuple[float, float]:
    """Value and relative duality gap of the quadratic program.

    With H its matrix and a the sum of the least entries of H gamma in either class, x'H gamma >= a for every
    admissible x, so that sqrt(x'Hx gamma'H gamma) >= a, and the minimum is at least a^2 / (gamma'H gamma).
    """
    y = problem.y
    pull = y * _mean_matrix(problem).image(gamma * y)
    value = float(gamma @ pull)
    least = float(np.min(pull[y > 0]) + np.min(pull[y < 0]))
    return value, 1.0 - min(1.0, max(0.0, least / value)) ** 2


def _machine_gap(problem: Problem, state: State) -> float:
    image = problem.stack.combine(state.weights) @ state.dual_coef
    value, primal = objectives(image, problem.y, problem.C * problem.weight, state.dual_coef, state.intercept)
    return relative_gap(primal, value)


def _mean_matrix(problem: Problem) -> _Ridged:
    """``(1 - lam) Kbar + lam diag(1 / weight)``, the matrix of the quadratic program but for the signs."""
    L = problem.stack.shape[0]
    return _Ridged(problem.stack, np.full(L, (1.0 - problem.lam) / L), problem.lam / problem.weight)


@dataclass(frozen=True)
class _Ridged:
    """The matrix ``sum_l weights[l] K_l + diag(ridge)``."""

    stack: KernelStack
    weights: np.ndarray
    ridge: np.ndarray

    def corner(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        K = self.stack.take(rows=rows, cols=cols).combine(self.weights).dense()
        i, j = np.nonzero(rows[:, None] == cols)
        K[i, j] += self.ridge[rows[i]]
        return K

    def image(self, coef: np.ndarray) -> np.ndarray:
        return self.stack.product(self.weights, coef) + self.ridge * coef

    def machine(self, y: np.ndarray, cost: np.ndarray, tol: float) -> Machine:
        """The support vector machine of the matrix."""
        rough = self.stack.rough(ROUGH)
        K = with_diagonal(rough.matrix(self.weights), self.ridge)
        return solve_svm(K, y, cost, tol=tol) if rough is self.stack else solve_svm_on(self, K, y, cost, tol=tol)


def margin_distribution(problem: Problem, tol: float) -> np.ndarray:
    """gamma (n,), to within margins of `tol`."""
    y, weight = problem.y, problem.weight
    if problem.lam == 1:
        return _shares(weight, y)
    floor = problem.lam * (1.0 / weight[y > 0].sum() + 1.0 / weight[y < 0].sum())
    cost = np.full(len(y), 4.0 / floor)  # twice what any coefficient can reach
    machine = _mean_matrix(problem).machine(y, cost, tol)
    return _shares(np.abs(machine.dual_coef), y)


def _shares(v: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Divide by the sum over the class."""
    return v / np.where(y > 0, v[y > 0].sum(), v[y < 0].sum())


def kernel_weights(problem: Problem, gamma: np.ndarray) -> tuple[np.ndarray, bool]:
    """Weights (L,) by how far each kernel holds the classes apart, and whether none does, so that all are alike."""
    apart = problem.stack.quad(gamma * problem.y)
    together = problem.stack.quad(gamma)
    apart = np.where(apart > ROUNDING * (apart + together), apart, 0.0)
    if not np.any(apart > 0):
        return np.full(len(apart), 1.0 / len(apart)), True
    return apart / apart.sum(), False


def iterates(problem: Problem, tol: float) -> Iterator[Iterate[State]]:
    """The solution with margins to within `tol`, and again with finer ones."""
    for margin in (tol * share for share in FINER):
        gamma = margin_distribution(problem, margin)
        weights, alike = kernel_weights(problem, gamma)
        final = _Ridged(problem.stack, weights, np.zeros(len(gamma)))
        machine = final.machine(problem.y, problem.C * problem.weight, margin)
        state = State(weights, machine.dual_coef, machine.intercept, gamma, alike)
        value, gap = _program(problem, gamma)
        yield Iterate(state, value, max(gap, _machine_gap(problem, state)), weights=weights)


def solve(problem: Problem, *, tol: float = 1e-4, callback: Callback | None = None) -> Solution[State]:
    """Find the weights and the machine of their combination to a relative duality gap of `tol`."""
    return run(iterates(problem, tol), tol=tol, max_iter=len(FINER) + 1, monotone=False, callback=callback)
