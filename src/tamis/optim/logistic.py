"""Ridge logistic regression by Newton's method with step halving."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve
from scipy.optimize import brentq

from tamis.losses import Logistic

LOSS = Logistic()


def fit_logistic(
    design: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    penalty: np.ndarray,
    *,
    tol: float = 1e-8,
    max_iter: int = 100,
) -> np.ndarray:
    """Minimise ``sum_i weights_i log(1 + exp(-labels_i f_i)) + 1/2 sum_k penalty_k x_k^2``, f = design x.

    Parameters
    ----------
    design : (n, p)
    labels : (n,) in {-1, +1}
    weights : (n,) at least 0
    penalty : (p,) at least 0; zero for an intercept column

    Returns
    -------
    (p,) coefficients; the problem is convex, and the Newton decrement at the end is at most `tol`
    times the objective unless `max_iter` steps were made.
    """
    x = np.zeros(design.shape[1])
    value = _value(design, labels, weights, penalty, x)
    for _ in range(max_iter):
        f = design @ x
        gradient = design.T @ (weights * LOSS.gradient(f, labels)) + penalty * x
        hessian = (design.T * (weights * LOSS.curvature(f, labels))) @ design
        hessian[np.diag_indices_from(hessian)] += penalty + 1e-10 * (1.0 + np.trace(hessian) / len(x))
        step = solve(hessian, gradient, assume_a="pos")
        decrement = float(gradient @ step)
        if decrement <= tol * abs(value):
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
    return float(weights @ LOSS.value(design @ x, labels) + 0.5 * (penalty @ (x * x)))


def fit_offset(f: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """The constant c that minimises ``sum_i weights_i log(1 + exp(-labels_i (f_i + c)))``."""
    reach = float(np.max(np.abs(f), initial=0.0)) + 40.0
    slope = lambda c: float(weights @ LOSS.gradient(f + c, labels))  # noqa: E731
    return float(brentq(slope, -reach, reach)) if slope(-reach) < 0 < slope(reach) else 0.0
