"""Solves with ``I + rho K`` while K changes little from one system to the next."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tamis.optim.low_rank import LowRank

RESIDUAL = 1e-9  # of conjugate gradients, relative to the right-hand side
ROWS_PER_STEP = 75  # a factorisation costs as much as one conjugate gradient step for so many rows


Inverse = Callable[[np.ndarray], np.ndarray]


class ShiftedSolver:
    """Solves ``(I + rho K) x = r`` with the Cholesky factor of an earlier K as preconditioner.

    Right after `factor` the solve is direct. For a K that has moved since, conjugate gradients start from
    a guess; once they have taken as long as a factorisation, K is factored anew.
    """

    def __init__(self, rho: float):
        self.rho = rho
        self._inverse: Inverse | None = None
        self._of: np.ndarray | LowRank | None = None
        self._steps = 0  # of conjugate gradients that may still be made with this factor
        self.n_factored = 0

    def factor(self, K: np.ndarray | LowRank) -> None:
        """Factor ``I + rho K``."""
        self._inverse, self._of = _inverse(K, self.rho), K
        self._steps = 2 + len(K) // ROWS_PER_STEP
        self.n_factored += 1

    def solve(self, K: np.ndarray | LowRank, right: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """Solve with a matrix K that is not changed in place between calls."""
        if self._inverse is not None and self._of is not K:
            found = self._iterate(K, right, guess)
            if found is not None:
                return found
        if self._of is not K:
            self.factor(K)
        assert self._inverse is not None
        return self._inverse(right)

    def _iterate(self, K: np.ndarray | LowRank, right: np.ndarray, x: np.ndarray) -> np.ndarray | None:
        """Preconditioned conjugate gradients from `x`; None where they take too long."""
        assert self._inverse is not None
        bar = RESIDUAL * max(1.0, float(np.linalg.norm(right)))
        residual = right - x - self.rho * (K @ x)
        p, fall = np.zeros_like(x), 1.0
        while np.linalg.norm(residual) > bar:
            if not self._steps:
                return None
            self._steps -= 1
            z = self._inverse(residual)
            old, fall = fall, float(residual @ z)
            p = z + fall / old * p
            image = p + self.rho * (K @ p)
            step = fall / float(p @ image)
            x, residual = x + step * p, residual - step * image
        return x


@singledispatch
def _inverse(K: Any, rho: float) -> Inverse:
    """Solutions with ``I + rho K``."""
    shifted = rho * K
    shifted.flat[:: len(K) + 1] += 1.0
    factor = cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    return lambda right: cho_solve(factor, right, check_finite=False)


@_inverse.register
def _(K: LowRank, rho: float) -> Inverse:
    A = K.factor
    inner = rho * (A @ A.T)
    inner[np.diag_indices(len(inner))] += 1.0
    factor = cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)
    return lambda right: right - rho * (A.T @ cho_solve(factor, A @ right, check_finite=False))
