"""The hard-margin machine of some rows, and the kernel weights that are best for it.

    J(d) = min over w, b of 1/2 w'K(d)w    subject to  y_i ((K(d)w)_i + b) >= 1  for the kept rows

is the value of the soft-margin machine with a cost that stands for infinity, so that `simple_mkl` learns the weights.
"""

from __future__ import annotations

import numpy as np

from tamis.kernels.stacks.base import KernelStack
from tamis.methods.baselines import simple_mkl
from tamis.methods.zero_one.certificate import Point
from tamis.optim.matrices import Matrix, corner
from tamis.optim.svm import HARD, solve_svm

MARGIN = 1e-6  # tolerance of margins
ROUNDS = 30  # most rounds of learning weights


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
    found = solve_svm(inner, sides, _no_slack(inner), tol=MARGIN, start=None if start is None else start[rows])
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
    weights = simple_mkl.solve(problem, start=start, tol=tol, max_iter=ROUNDS).state.weights
    better = hard_margin(stack.matrix(weights), weights, y, kept, point.dual_coef)
    return point if better is None or energy(better, y) > energy(point, y) else better


def _no_slack(K: Matrix) -> np.ndarray:
    """A cost (n,) that no coefficient reaches where the rows of K can be separated."""
    return np.full(len(K), HARD / (float(np.max(K.diagonal())) or 1.0))
