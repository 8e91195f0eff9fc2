"""From supports to coefficients of pairs (instance, kernel), refitted with another coupling or loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve

from tamis.kernels.stack import KernelStack
from tamis.methods.em2nolc import State, Task, centre
from tamis.optim.logistic import fit_logistic, fit_offset

CURVATURE = 0.25  # of the logistic loss at zero, so that one ridge serves both losses
RANK = 1e-4  # directions of a kernel matrix below this share of the largest are left out


@dataclass(frozen=True)
class Table:
    """Coefficients of the pairs (instance, kernel): what the expansion needs."""

    instances: np.ndarray
    kernels: np.ndarray
    coef: np.ndarray  # (q, k, f)
    intercept: np.ndarray  # (q,)


def refit_table(task: Task, state: State, *, coupling: str = "rank_one", refit: str = "squared") -> Table:
    """Turn a state into coefficients of pairs, refitted on its supports if asked.

    Parameters
    ----------
    coupling : "rank_one" keeps ``coef[q, j, m] = lam[j, q] mu[m]``; "full" fits every pair.
    refit : "squared" or "logistic" loss. With "rank_one" the logistic refit keeps lam and fits mu.

    Notes
    -----
    A full refit penalises each kernel's part of the function by its norm in that kernel's own space,
    with every kernel scaled to the same mean squared size.
    """
    if not len(state.instances):
        mean = task.sample_weight @ task.targets / task.sample_weight.sum()
        return Table(state.instances, state.kernels, np.zeros((task.targets.shape[1], 0, 0)), mean)
    values = task.stack.take(cols=state.instances)
    if coupling == "full":
        coef = _full_refit(task, state, values, refit)
    elif refit == "logistic":
        coef = state.dual_coef.T[:, :, None] * _logistic_weights(task, state, values)
    else:
        coef = state.dual_coef.T[:, :, None] * state.weights
    return _with_intercept(task, state, values, coef, refit)


def _images(values: KernelStack, kernels: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """K_m coef[:, m] for each kept kernel: (n, f, ...)."""
    every = slice(0, values.shape[1])
    return np.stack([values.block(int(k), every) @ coef[:, i] for i, k in enumerate(kernels)], axis=1)


def _logistic_weights(task: Task, state: State, values: KernelStack) -> np.ndarray:
    """mu (f,) by ridge logistic regression on the columns of B(lam), one intercept per output."""
    n, q = task.targets.shape
    B = _images(values, state.kernels, np.repeat(state.dual_coef[:, None], len(state.kernels), axis=1))
    design = np.concatenate([B.transpose(2, 0, 1).reshape(n * q, -1), np.repeat(np.eye(q), n, axis=0)], axis=1)
    penalty = np.r_[np.full(len(state.kernels), CURVATURE * task.ridge), np.zeros(q)]
    fit = fit_logistic(design, task.targets.T.ravel(), np.tile(task.sample_weight, q), penalty)
    return fit[: len(state.kernels)]


def _full_refit(task: Task, state: State, values: KernelStack, refit: str) -> np.ndarray:
    """coef (q, k, f) of every pair, in the whitened coordinates of each kernel."""
    maps, parts = [], []
    corner = values.take(rows=task.candidates[state.instances])
    for kernel in state.kernels.tolist():
        square = corner.block(kernel, slice(0, len(state.instances)))
        size, vectors = np.linalg.eigh(0.5 * (square + square.T))
        keep = size > RANK * size[-1]
        white = vectors[:, keep] / np.sqrt(size[keep])
        part = values.block(kernel, slice(0, values.shape[1])) @ white
        spread = part - np.average(part, axis=0, weights=task.sample_weight)
        scale = np.sqrt(len(state.kernels) * np.average(np.sum(spread**2, axis=1), weights=task.sample_weight)) or 1.0
        maps.append(white / scale)
        parts.append(part / scale)
    design = np.concatenate(parts, axis=1)
    fits = [_ridge(design, t, task.sample_weight, task.ridge, refit) for t in task.targets.T]
    cuts = np.cumsum([m.shape[1] for m in maps])[:-1]
    return np.array([np.column_stack([m @ x for m, x in zip(maps, np.split(fit, cuts), strict=True)]) for fit in fits])


def _ridge(design: np.ndarray, target: np.ndarray, weight: np.ndarray, ridge: float, loss: str) -> np.ndarray:
    """Ridge regression with a free intercept, squared or logistic; returns the slopes."""
    if loss == "logistic":
        padded = np.column_stack([design, np.ones(len(design))])
        penalty = np.r_[np.full(design.shape[1], CURVATURE * ridge), 0.0]
        return fit_logistic(padded, target, weight, penalty)[:-1]
    D, t = centre(design, weight), centre(target, weight)
    return solve(D.T @ D + ridge * np.eye(D.shape[1]), D.T @ t, assume_a="pos")


def _with_intercept(task: Task, state: State, values: KernelStack, coef: np.ndarray, refit: str) -> Table:
    """Add the intercept that minimises the loss, or the one that the state prescribes."""
    F = _images(values, state.kernels, coef.transpose(1, 2, 0)).sum(axis=1)
    if refit == "logistic":
        offsets = [fit_offset(f, t, task.sample_weight) for f, t in zip(F.T, task.targets.T, strict=True)]
        return Table(state.instances, state.kernels, coef, np.array(offsets))
    share = task.sample_weight / task.sample_weight.sum()
    intercept = share @ (task.targets - F) if state.intercept is None else state.intercept
    return Table(state.instances, state.kernels, coef, intercept)
