"""P-stationarity of the 0/1-loss machine: six residuals, and the largest gamma for which a point is stationary.

A point (w, d, b) with ``u = 1 - y o (K(d)w + b)`` is P-stationary with parameter gamma [Zhu2023, Def. 6] if

    1. d >= 0, sum d = 1                     4. 1/2 w'K_l w <= level, with equality where d_l > 0
    2. u + y o (K(d)w + b) = 1               5. sum_i w_i = 0
    3. w = -y o multiplier                   6. u = prox of gamma times the loss, at u - gamma multiplier

The sixth in plain words: rows with w_i != 0 lie on the margin (u_i = 0) with ``0 < y_i w_i <= sqrt(2 cost_i
/ gamma)``, and no other row has ``0 < u_i <= sqrt(2 gamma cost_i)``. Stationary points are many: whichever rows one
gives up, the hard-margin machine of the others is one, with a gamma of its own. The larger gamma, the
stronger the point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.codec import stored
from tamis.kernels.stacks.base import KernelStack
from tamis.optim.matrices import Matrix


@dataclass(frozen=True)
class Point:
    """A model: weights d (L,), dual_coef w (n,), intercept b."""

    weights: np.ndarray
    dual_coef: np.ndarray
    intercept: float


@stored
@dataclass(frozen=True)
class Certificate:
    """How far a point is from P-stationarity; all residuals are zero at a stationary point.

    Attributes
    ----------
    simplex, constraint, representation, kernels, balance, proximity : conditions 1 to 6; the fourth is
        relative to the largest energy, the third and fifth to the size of w
    gamma : the largest parameter for which condition 6 can hold (infinite if nothing limits it)
    n_support : distinct rows with a coefficient
    n_given_up : distinct rows that pay their cost (identical rows of one class count once)
    """

    simplex: float
    constraint: float
    representation: float
    kernels: float
    balance: float
    proximity: float
    gamma: float
    n_support: int
    n_given_up: int

    @property
    def residuals(self) -> dict[str, float]:
        """The six, by name."""
        names = ("simplex", "constraint", "representation", "kernels", "balance", "proximity")
        return {name: getattr(self, name) for name in names}

    @property
    def worst(self) -> float:
        return max(self.residuals.values())

    @property
    def words(self) -> str:
        """What kind of point it is."""
        if not self.n_support:
            return "the dead start: no row has a coefficient, and every row gets the class of larger cost"
        if not self.n_given_up:
            return "the hard-margin machine of the combined kernel: no row is given up, the 0/1 loss plays no role"
        return f"gives up {self.n_given_up} distinct rows, and {self.n_support} lie on the margin"


def slacks(point: Point, K: Matrix, y: np.ndarray) -> np.ndarray:
    """``u = 1 - y o (K w + b)`` for the combined kernel K."""
    return 1.0 - y * (K @ point.dual_coef + point.intercept)


def value(point: Point, K: Matrix, y: np.ndarray, cost: np.ndarray, zero: float) -> float:
    """The objective (51); a slack of at most `zero` costs nothing."""
    u = slacks(point, K, y)
    energy = float(point.dual_coef @ (y * (1.0 - u) - point.intercept))
    return 0.5 * energy + float(cost[u > zero].sum())


def proximity(u: np.ndarray, pull: np.ndarray, cost: np.ndarray, gamma: float) -> float:
    """How far condition 6 is from holding, with ``pull = y o w``."""
    held = pull != 0
    excess = np.maximum(-pull, pull - np.sqrt(2.0 * cost / gamma))
    on_margin = np.where(held, np.maximum(np.abs(u), excess), 0.0)
    edge = np.sqrt(2.0 * gamma * cost)
    in_band = np.where(~held & (u > 0) & (u <= edge), np.minimum(u, edge - u), 0.0)
    return float(max(on_margin.max(initial=0.0), in_band.max(initial=0.0)))


def kernel_residual(weights: np.ndarray, energies: np.ndarray) -> float:
    """Condition 4: how far the weights are from standing on kernels of the largest energy alone."""
    top = float(energies.max())
    return 0.0 if top <= 0 else (top - float(weights @ energies)) / top


def balance(dual_coef: np.ndarray) -> float:
    """Condition 5."""
    return abs(float(dual_coef.sum())) / max(1.0, float(np.abs(dual_coef).sum()))


def largest_gamma(u: np.ndarray, pull: np.ndarray, cost: np.ndarray, zero: float) -> float:
    """``min( min over rows given up of u^2 / (2 cost), min over support of 2 cost / w^2 )``."""
    paid, held = u > zero, pull != 0
    limits = np.concatenate([u[paid] ** 2 / (2.0 * cost[paid]), 2.0 * cost[held] / pull[held] ** 2])
    return float(limits.min(initial=np.inf))


def certify(stack: KernelStack, point: Point, y: np.ndarray, cost: np.ndarray, zero: float) -> Certificate:
    """Certify a model, whose slack and multiplier follow from it; a slack of at most `zero` counts as none."""
    d, w = point.weights, point.dual_coef
    u, pull = slacks(point, stack.matrix(d), y), y * w
    gamma = largest_gamma(u, pull, cost, zero)
    return Certificate(
        simplex=abs(float(d.sum()) - 1.0) + float(np.maximum(-d, 0.0).sum()),
        constraint=0.0,
        representation=0.0,
        kernels=kernel_residual(d, 0.5 * stack.quad(w)),
        balance=balance(w),
        proximity=proximity(u, pull, cost, gamma) if np.isfinite(gamma) else 0.0,
        gamma=gamma,
        n_support=int(np.sum(w != 0)),
        n_given_up=int(np.sum(u > zero)),
    )
