"""Small problems with known answers."""

from __future__ import annotations

import numpy as np


def planted(n=120, d=8, seed=0):
    """Two of the features decide, each through a bump; the rest is noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = np.exp(-(X[:, 1] ** 2)) - np.exp(-((X[:, 4] - 1) ** 2))
    return X, np.where(score + 0.05 * rng.normal(size=n) > 0, 1, 0)


def xor(n=200, d=6, seed=0):
    """The sign of a product of two features: no feature says anything alone."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] * X[:, 2] > 0).astype(int)


def three_classes(n=150, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.array([[0, 0, 0, 0], [3, 0, 0, 0], [0, 3, 0, 0]])
    y = np.arange(n) % 3
    return centres[y] + rng.normal(size=(n, 4)), np.array(["a", "b", "c"])[y]


def tiny(n=10, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def line_bump_product(n=160, d=6, seed=0):
    """Two classes: a line, a bump and a product of two columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, max(d, 4)))
    score = X[:, 0] + np.cos(2 * X[:, 1]) + 1.5 * X[:, 2] * X[:, 3] + 0.3 * rng.normal(size=n)
    return X[:, :d], (score > 0.3).astype(int)
