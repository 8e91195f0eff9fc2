"""Slow, obvious answers that the library is held to."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def project_cardinality(v: np.ndarray, k: int) -> np.ndarray:
    """The closest k-sparse vector, by trying every support."""
    best = np.zeros_like(v)
    for support in combinations(range(len(v)), min(k, len(v))):
        x = np.zeros_like(v)
        x[list(support)] = v[list(support)]
        if np.sum((x - v) ** 2) < np.sum((best - v) ** 2) - 1e-15:
            best = x
    return best


def ridge_objective(D: np.ndarray, T: np.ndarray, ridge: float, support) -> float:
    """min over x on `support` of 1/2 |T - D x|^2 + ridge/2 |x|^2."""
    S = list(support)
    H = D[:, S].T @ D[:, S] + ridge * np.eye(len(S))
    x = np.linalg.solve(H, D[:, S].T @ T)
    return 0.5 * float(np.sum((T - D[:, S] @ x) ** 2) + ridge * np.sum(x**2))


def best_subset(D: np.ndarray, T: np.ndarray, ridge: float, k: int) -> float:
    """The smallest objective over all supports of size k."""
    return min(ridge_objective(D, T, ridge, s) for s in combinations(range(D.shape[1]), k))


def kernel_values(Z: np.ndarray, bandwidth: float) -> np.ndarray:
    """Gaussian kernels of single features, (d, n, n)."""
    return np.exp(-((Z.T[:, :, None] - Z.T[:, None, :]) ** 2) / (2 * bandwidth**2))


def bilinear_objective(K, y, w, alpha, lam, mu) -> float:
    """J of EM2NOLC from its definition: the best intercept, the loss, the product ridge."""
    F = np.einsum("lij,j,l->i", K, lam, mu)
    b = np.average(F - y, weights=w)
    return 0.5 * float(w @ (F - b - y) ** 2) + 0.5 * alpha * w.sum() * float(lam @ lam) * float(mu @ mu)
