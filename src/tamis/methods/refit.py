"""From supports to coefficients of pairs (instance, kernel), refitted with another coupling or loss."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve

from tamis.expansion import Coefficients
from tamis.kernels.stack import KernelStack
from tamis.methods.em2nolc import Design, State, Task, centre
from tamis.optim.logistic import fit_logistic, fit_offset

CURVATURE = 0.25  # of the logistic loss at zero, so that one ridge serves both losses
RANK = 1e-4  # directions of a kernel matrix below this share of the largest are left out


def coefficients(task: Task, state: State, *, coupling: str = "rank_one", refit: str = "squared") -> Coefficients:
    """Turn a state into coefficients of pairs, refitted on its supports if asked.

    Parameters
    ----------
    coupling : "rank_one" keeps ``coef[q, j, m] = lam[j, q] mu[m]``; "full" fits every pair.
    refit : "squared" or "logistic" loss. With "rank_one" the logistic refit keeps lam and fits mu.

    Notes
    -----
    A full refit penalises each kernel's part of the function by its norm in that kernel's own space,
    with every kernel scaled to the same mean squared size; directions in which an indefinite kernel is
    negative are left out.
    """
    design = task.design
    if not len(state.instances):
        mean = np.average(design.targets, axis=0, weights=design.sample_weight)
        return Coefficients(state.instances, state.kernels, np.zeros((design.n_outputs, 0, 0)), mean)
    values = design.stack.take(cols=state.instances, kernels=state.kernels)
    if coupling == "full":
        coef = _full_refit(task, state, values, refit)
    elif refit == "logistic":
        coef = state.dual_coef.T[:, :, None] * _logistic_weights(task, state, values)
    else:
        coef = state.dual_coef.T[:, :, None] * state.weights
    return Coefficients(state.instances, state.kernels, coef, _intercept(design, state, values, coef, refit))


def _logistic_weights(task: Task, state: State, values: KernelStack) -> np.ndarray:
    """mu (f,) by ridge logistic regression on the columns of B(lam), one intercept per output."""
    targets, weight = task.design.targets, task.design.sample_weight
    n, q = targets.shape
    B = values.apply(state.dual_coef)
    design = np.concatenate([B.transpose(2, 0, 1).reshape(n * q, -1), np.repeat(np.eye(q), n, axis=0)], axis=1)
    penalty = np.r_[np.full(len(state.kernels), CURVATURE * task.ridge), np.zeros(q)]
    return fit_logistic(design, targets.T.ravel(), np.tile(weight, q), penalty)[: len(state.kernels)]


def _full_refit(task: Task, state: State, values: KernelStack, refit: str) -> np.ndarray:
    """coef (q, k, f) of every pair, in the whitened coordinates of each kernel."""
    weight = task.design.sample_weight
    corner = values.take(rows=task.design.candidates[state.instances])
    maps = [whitening(values.one(m), corner.one(m), weight, 1.0 / len(state.kernels)) for m in range(values.shape[0])]
    design = np.concatenate([values.one(m) @ white for m, white in enumerate(maps)], axis=1)
    fits = [_ridge(design, t, weight, task.ridge, refit) for t in task.design.targets.T]
    cuts = np.cumsum([white.shape[1] for white in maps])[:-1]
    return np.array([np.column_stack([w @ x for w, x in zip(maps, np.split(f, cuts), strict=True)]) for f in fits])


def whitening(values: np.ndarray, corner: np.ndarray, weight: np.ndarray, size: float) -> np.ndarray:
    """Map (k, r) to coordinates in which the plain norm is the norm in the kernel's space.

    Parameters
    ----------
    values : (n, k) kernel values of the rows on the instances
    corner : (k, k) kernel values of the instances
    weight : (n,)
    size : mean squared norm that the centred coordinates of the rows get
    """
    eigenvalues, vectors = np.linalg.eigh(0.5 * (corner + corner.T))
    keep = eigenvalues > RANK * max(eigenvalues[-1], 0.0)
    white = vectors[:, keep] / np.sqrt(eigenvalues[keep])
    spread = np.sum(centre(values @ white, weight) ** 2) / weight.sum()
    return white * np.sqrt(size / spread) if spread > 0 else white


def _ridge(design: np.ndarray, target: np.ndarray, weight: np.ndarray, ridge: float, loss: str) -> np.ndarray:
    """Ridge regression with a free intercept, squared or logistic; returns the slopes."""
    if loss == "logistic":
        padded = np.column_stack([design, np.ones(len(design))])
        penalty = np.r_[np.full(design.shape[1], CURVATURE * ridge), 0.0]
        return fit_logistic(padded, target, weight, penalty)[:-1]
    D, t = centre(design, weight), centre(target, weight)
    floor = np.finfo(float).eps * np.trace(D.T @ D)
    return solve(D.T @ D + max(ridge, floor) * np.eye(D.shape[1]), D.T @ t, assume_a="pos")


def _intercept(design: Design, state: State, values: KernelStack, coef: np.ndarray, refit: str) -> np.ndarray:
    """The intercept (q,) that minimises the loss, or the one that the state prescribes."""
    F = sum(values.one(m) @ coef[:, :, m].T for m in range(values.shape[0]))
    if refit == "logistic":
        pairs = zip(F.T, design.targets.T, strict=True)
        return np.array([fit_offset(f, t, design.sample_weight) for f, t in pairs])
    if state.intercept is not None:
        return state.intercept
    return np.average(design.targets - F, axis=0, weights=design.sample_weight)


def leading_factors(coef: np.ndarray, *, shared: bool) -> tuple[np.ndarray, np.ndarray]:
    """Instance coefficients and kernel weights of the closest rank-one table; exact for "rank_one".

    Parameters
    ----------
    coef : (q, k, L)
    shared : one weight vector for all outputs instead of one for each

    Returns
    -------
    dual_coef : (q, k), norm one for each weight vector
    weights : (q, L), or (1, L) if shared; the largest is positive
    """
    q, k, L = coef.shape
    if shared and q > 1:
        left, weights = leading_factors(coef.reshape(1, q * k, L), shared=False)
        return left.reshape(q, k), weights
    dual, weights = np.zeros((q, k)), np.zeros((q, L))
    for one, lam, mu in zip(coef, dual, weights, strict=True):
        if np.any(one):
            left, size, right = np.linalg.svd(one, full_matrices=False)
            sign = np.sign(right[0, np.argmax(np.abs(right[0]))])
            lam[:], mu[:] = sign * left[:, 0], sign * size[0] * right[0]
    return dual, weights
