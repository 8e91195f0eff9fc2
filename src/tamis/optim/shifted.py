"""Solves with ``I + rho K`` while K changes little from one system to the next."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

import numpy as np

from tamis.optim.low_rank import LowRank
from tamis.optim.matrices import Matrix, with_diagonal
from tamis.optim.solve import factor

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
        self._of: Matrix | None = None
        self._steps = 0  # of conjugate gradients that may still be made with this factor
        self.n_factored = 0

    def factor(self, K: Matrix) -> None:
        """Factor ``I + rho K``."""
        self._inverse, self._of = _inverse(K, self.rho), K
        self._steps = 2 + len(K) // ROWS_PER_STEP
        self.n_factored += 1

    def solve(self, K: Matrix, right: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """Solve with a matrix K that is not changed in place between calls."""
        if self._inverse is not None and self._of is not K:
            found = self._iterate(K, right, guess)
            if found is not None:
                return found
        if self._of is not K:
            self.factor(K)
        assert self._inverse is not None
        return self._inverse(right)

    def _iterate(self, K: Matrix, right: np.ndarray, x: np.ndarray) -> np.ndarray | None:
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
def _inverse(K: Matrix, rho: float) -> Inverse:
    """Solutions with ``I + rho K``."""
    return factor(with_diagonal(rho * K, 1.0)).solve


@_inverse.register
def _(K: LowRank, rho: float) -> Inverse:
    A = K.factor
    inner = factor(with_diagonal(rho * (A @ A.T), 1.0))
    return lambda right: right - rho * (A.T @ inner.solve(A @ right))
