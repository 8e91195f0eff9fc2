"""Losses of a decision value for a label in {-1, +1}, and a logistic regression with a ridge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve
from scipy.optimize import brentq

from tamis.arrays import Array, namespace

DECREMENT_TOL = 1e-8  # of the logistic regression, relative to its objective
MAX_STEPS = 100  # most Newton steps of it


def slack(f: Array, y: Array) -> Array:
    """``max(0, 1 - y f)``: what is missing to a margin of one, which is the hinge loss."""
    short = 1.0 - y * f
    return namespace(short).where(short > 0, short, namespace(short).zeros_like(short))


@dataclass(frozen=True)
class SquaredHinge:
    """``max(0, 1 - y f)^2``; the curvature jumps at the margin, where it is taken to be zero."""

    def value(self, f: Array, y: Array) -> Array:
        return slack(f, y) ** 2

    def gradient(self, f: Array, y: Array) -> Array:
        return -2.0 * y * slack(f, y)

    def curvature(self, f: Array, y: Array) -> Array:
        return namespace(f).where(y * f < 1.0, namespace(f).full_like(f, 2.0), namespace(f).zeros_like(f))


@dataclass(frozen=True)
class Logistic:
    """``log(1 + exp(-y f))``, computed without overflow for any `f`."""

    def value(self, f: Array, y: Array) -> Array:
        return np.logaddexp(0.0, -y * f)

    def gradient(self, f: Array, y: Array) -> Array:
        return -y * self._miss(f, y)

    def curvature(self, f: Array, y: Array) -> Array:
        miss = self._miss(f, y)
        return miss * (1.0 - miss)

    def _miss(self, f: Array, y: Array) -> Array:
        """1 / (1 + exp(y f)), the modulus of the gradient."""
        return 0.5 * (1.0 - namespace(f).tanh(0.5 * y * f))


LOGISTIC = Logistic()


def fit_logistic(
    design: np.ndarray,  # (n, p)
    labels: np.ndarray,  # (n,) in {-1, +1}
    weights: np.ndarray,  # (n,) at least 0
    penalty: np.ndarray,  # (p,) at least 0; zero for an intercept column
) -> np.ndarray:
    """Minimise ``sum_i weights_i log(1 + exp(-labels_i f_i)) + 1/2 sum_k penalty_k x_k^2``, f = design x.

    The problem is convex, and the Newton decrement at the solution (p,) is at most `DECREMENT_TOL` times the objective
    unless `MAX_STEPS` steps were made.
    """
    x = np.zeros(design.shape[1])
    value = _value(design, labels, weights, penalty, x)
    for _ in range(MAX_STEPS):
        f = design @ x
        gradient = design.T @ (weights * LOGISTIC.gradient(f, labels)) + penalty * x
        hessian = (design.T * (weights * LOGISTIC.curvature(f, labels))) @ design
        hessian[np.diag_indices_from(hessian)] += penalty + 1e-10 * (1.0 + np.trace(hessian) / len(x))
        step = solve(hessian, gradient, assume_a="pos")
        decrement = float(gradient @ step)
        if decrement <= DECREMENT_TOL * abs(value):
            break
        length = 1.0
        while length > 1e-6:
            trial = x - length * step
            new = _value(design, labels, weights, penalty, trial)
            if new <= value - 1e-4 * length * decrement:
                break
            length *= 0.5
        else:
            break
        x, value = trial, new
    return x


def _value(design: np.ndarray, labels: np.ndarray, weights: np.ndarray, penalty: np.ndarray, x: np.ndarray) -> float:
    return float(weights @ LOGISTIC.value(design @ x, labels) + 0.5 * (penalty @ (x * x)))


def fit_offset(f: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """The constant c that minimises ``sum_i weights_i log(1 + exp(-labels_i (f_i + c)))``."""
    reach = float(np.max(np.abs(f), initial=0.0)) + 40.0

    def slope(c: float) -> float:
        return float(weights @ LOGISTIC.gradient(f + c, labels))

    return float(brentq(slope, -reach, reach)) if slope(-reach) < 0 < slope(reach) else 0.0
