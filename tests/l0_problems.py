"""Small problems for the tests of l0-MKL and of its steps."""

from __future__ import annotations

import numpy as np

from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Sigmoid
from tamis.kernels.stacks.base import DenseStack
from tamis.methods.l0_mkl.steps import (
    Problem,
)
from tamis.optim.penalties import CappedL1


def toy(n=40, d=12, seed=0):
    """Three of the features decide."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] - X[:, 3] + X[:, -1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def problem(X, y, kernel=None, penalty=None, cost=None, **options):
    bank = KernelBank(tuple(Channel(str(j), kernel or Sigmoid(0.1, 0.1), (j,)) for j in range(X.shape[1])))
    cost = np.ones(len(y)) if cost is None else cost
    return Problem(bank.stack(X, form="streaming"), y, cost, penalty or CappedL1(10.0), **options)


def scores(task, state):
    return task.stack.combine(state.weights) @ state.dual_coef + state.intercept


def value(K, y, cost, lam, z):
    """The objective (10) at z = (beta, b)."""
    image = K @ z[:-1]
    return lam * z[:-1] @ image + cost @ np.maximum(0, 1 - y * (image + z[-1])) ** 2


def psd(n=25, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 30))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return DenseStack((X @ X.T / 30)[None]), y
