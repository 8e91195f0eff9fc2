"""From supports to coefficients of pairs (instance, kernel), refitted with another coupling or loss."""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag, solve

from tamis.base.design import Design, RowDesign, centre
from tamis.base.kernel_model import Coefficients
from tamis.methods.em2nolc.solver import State, Task
from tamis.optim.losses import fit_logistic, fit_offset
from tamis.optim.matrices import whitening

CURVATURE = 0.25  # of the logistic loss at zero, so that one ridge serves both losses


def coefficients(task: Task, state: State, *, coupling: str = "rank_one", refit: str = "squared") -> Coefficients:
    """Turn a state into coefficients of pairs, refitted on its supports if requested.

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
        return Coefficients(state.instances, state.kernels, np.zeros((design.n_outputs, 0, 0)), design.target_mean)
    if refit == "logistic":
        return _logistic(task, state, coupling)
    if coupling == "full":
        coef = _full_squared(task, state)
    else:
        coef = state.dual_coef.T[:, :, None] * state.weights
    intercept = state.intercept
    if intercept is None:
        means = design.pair_means(state.instances, state.kernels)
        intercept = design.target_mean - np.einsum("qkf,fk->q", coef, means)
    return Coefficients(state.instances, state.kernels, coef, intercept)


def _full_squared(task: Task, state: State) -> np.ndarray:
    """coef (q, k, f) of every pair by ridge regression in the whitened coordinates of each kernel."""
    f, k = len(state.kernels), len(state.instances)
    products, cross = task.design.pair_products(state.instances, state.kernels)
    maps = _whitenings(task.design, state, [products[m, :, m] for m in range(f)], task.design.total_weight)
    white = block_diag(*maps)
    gram = white.T @ products.reshape(f * k, f * k) @ white
    floor = np.finfo(float).eps * np.trace(gram)
    right = white.T @ cross.reshape(f * k, -1)
    slopes = solve(gram + max(task.ridge, floor) * np.eye(len(gram)), right, assume_a="pos")
    return (white @ slopes).T.reshape(-1, f, k).transpose(0, 2, 1)


def _logistic(task: Task, state: State, coupling: str) -> Coefficients:
    """Refit with the logistic loss: every pair if "full", else the weights of the kernels only."""
    rows = task.design.look
    if rows is None:
        raise ValueError(
            "refit='logistic' needs rows, and only sums over rows are here: use refit='squared', or give X and y too"
        )
    values = rows.stack.take(cols=state.instances, kernels=state.kernels)
    table = [values.one(m) for m in range(len(state.kernels))]
    ridge = CURVATURE * task.alpha * rows.total_weight
    if coupling == "full":
        coef = _full_logistic(task, rows, state, table, ridge)
    else:
        coef = state.dual_coef.T[:, :, None] * _logistic_weights(rows, state, table, ridge)
    F = sum(K @ coef[:, :, m].T for m, K in enumerate(table))
    pairs = zip(F.T, rows.targets.T, strict=True)
    intercept = np.array([fit_offset(f, t, rows.sample_weight) for f, t in pairs])
    return Coefficients(state.instances, state.kernels, coef, intercept)


def _logistic_weights(rows: RowDesign, state: State, table: list[np.ndarray], ridge: float) -> np.ndarray:
    """mu (f,) by ridge logistic regression on the columns of B(lam), one intercept per output."""
    n, q = rows.targets.shape
    B = np.stack([K @ state.dual_coef for K in table], axis=1)
    design = np.concatenate([B.transpose(2, 0, 1).reshape(n * q, -1), np.repeat(np.eye(q), n, axis=0)], axis=1)
    penalty = np.r_[np.full(len(table), ridge), np.zeros(q)]
    return fit_logistic(design, rows.targets.T.ravel(), np.tile(rows.sample_weight, q), penalty)[: len(table)]


def _full_logistic(task: Task, rows: RowDesign, state: State, table: list[np.ndarray], ridge: float) -> np.ndarray:
    """coef (q, k, f) of every pair by ridge logistic regression in whitened coordinates."""
    centred = [centre(K, rows.sample_weight) for K in table]
    maps = _whitenings(task.design, state, [C.T @ C for C in centred], rows.total_weight)
    design = np.concatenate(
        [*(K @ white for K, white in zip(table, maps, strict=True)), np.ones((len(table[0]), 1))], axis=1
    )
    penalty = np.r_[np.full(design.shape[1] - 1, ridge), 0.0]
    fits = [fit_logistic(design, t, rows.sample_weight, penalty)[:-1] for t in rows.targets.T]
    cuts = np.cumsum([white.shape[1] for white in maps])[:-1]
    return np.array([np.column_stack([w @ x for w, x in zip(maps, np.split(f, cuts), strict=True)]) for f in fits])


def _whitenings(design: Design, state: State, grams: list[np.ndarray], weight: float) -> list[np.ndarray]:
    """The map of each kernel, given the centred Gram matrices of its columns."""
    corners = design.corners.take(rows=state.instances, cols=state.instances, kernels=state.kernels)
    size = weight / len(grams)
    return [whitening(gram, corners.one(m), size) for m, gram in enumerate(grams)]


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
