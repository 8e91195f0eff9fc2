"""The matrix of a weighted sum of kernels in the form that solvers take it in."""

from __future__ import annotations

import numpy as np

from tamis.kernels.stack import KernelStack
from tamis.optim.low_rank import LowRank
from tamis.optim.svm import Matrix


def gram(stack: KernelStack, weights: np.ndarray) -> Matrix:
    """``sum_l weights[l] K_l`` of a square stack: all values (n, n), or factors where it holds kernels as such."""
    parts = stack.factors(weights)
    return stack.combine(weights).dense() if parts is None else LowRank(*parts)
