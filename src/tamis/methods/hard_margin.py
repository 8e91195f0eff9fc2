"""The hard-margin machine of some rows, and the kernel weights that are best for it.

    J(d) = min over w, b of 1/2 w'K(d)w    subject to  y_i ((K(d)w)_i + b) >= 1  for the kept rows

is convex in the weights d, with ``dJ/dd_l = -1/2 w'K_l w`` and, while the support stays, the Hessian ``A'N A`` for
the columns ``A_l = K_l w`` on the support and N the inverse of K(d) there, bordered by ``sum(w) = 0``. Newton
steps over the simplex, shortened until J falls, take a handful of machines.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lstsq

from tamis.kernels.stack import KernelStack
from tamis.methods.l01_certificate import Point, kernel_residual
from tamis.optim.simplex import solve_simplex_qp
from tamis.optim.svm import HARD, solve_svm

MARGIN = 1e-6  # tolerance of margins
NEWTON = 20  # most steps
HALVINGS = 6
DAMPING = 1e-9  # added to the Hessian, relative to its trace


def energy(point: Point, y: np.ndarray) -> float:
    """J, as the coefficients attain it: ``w'K w = sum |w|`` at the optimum."""
    return 0.5 * float(y @ point.dual_coef)


def hard_margin(
    K: np.ndarray, weights: np.ndarray, y: np.ndarray, kept: np.ndarray, start: np.ndarray | None = None
) -> Point | None:
    """The machine of the kept rows on the combined kernel K; None where they cannot be separated.

    Where the kept rows are of one class it is constant.
    """
    rows = np.flatnonzero(kept)
    sides = y[rows]
    if np.all(sides > 0) or np.all(sides < 0):
        return Point(weights, np.zeros(len(y)), float(sides[0]) if len(sides) else 1.0)
    inner = K if len(rows) == len(y) else K[np.ix_(rows, rows)]
    cost = np.full(len(rows), HARD / max(float(np.max(np.diagonal(inner))), np.finfo(float).tiny))
    found = solve_svm(inner, sides, cost, tol=MARGIN, start=None if start is None else start[rows])
    if not found.converged:
        return None
    dual_coef = np.zeros(len(y))
    dual_coef[rows] = found.dual_coef
    return Point(weights, dual_coef, found.intercept)


def learn_weights(stack: KernelStack, machine: Point, y: np.ndarray, kept: np.ndarray, tol: float) -> Point:
    """Improve the weights of a machine until condition 4 of `l01_certificate` holds to within `tol`."""
    for _ in range(NEWTON):
        support = np.flatnonzero(machine.dual_coef)
        A = stack.apply(machine.dual_coef)
        energies = machine.dual_coef @ A
        if not len(support) or kernel_residual(machine.weights, energies) <= tol:
            break
        K = stack.combine(machine.weights).dense()
        hessian = _hessian(K[np.ix_(support, support)], A[support])
        target = solve_simplex_qp(hessian, hessian @ machine.weights + 0.5 * energies, machine.weights)
        better = _towards(stack, machine, target, y, kept)
        if better is None:
            break
        machine = better
    return machine


def _hessian(K: np.ndarray, A: np.ndarray) -> np.ndarray:
    """``A'N A``, a little above singular."""
    size, L = A.shape
    bordered = np.block([[K, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
    solved = lstsq(bordered, np.vstack([A, np.zeros((1, L))]), lapack_driver="gelsy", check_finite=False)[0]
    hessian = A.T @ solved[:-1]
    hessian = 0.5 * (hessian + hessian.T)
    hessian.flat[:: L + 1] += DAMPING * max(float(np.trace(hessian)), np.finfo(float).tiny)
    return hessian


def _towards(stack: KernelStack, machine: Point, target: np.ndarray, y: np.ndarray, kept: np.ndarray) -> Point | None:
    """The machine at the longest of some steps to the target that lowers J; None where none does."""
    for halving in range(HALVINGS):
        share = 0.5**halving
        weights = (1.0 - share) * machine.weights + share * target
        trial = hard_margin(stack.combine(weights).dense(), weights, y, kept, machine.dual_coef)
        if trial is not None and energy(trial, y) < energy(machine, y):
            return trial
    return None
