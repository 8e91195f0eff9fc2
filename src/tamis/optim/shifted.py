"""Solves with ``I + rho K`` while K changes little from one system to the next."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

RESIDUAL = 1e-9  # of conjugate gradients, relative to the right-hand side
ROWS_PER_STEP = 75  # a factorisation costs as much as one conjugate gradient step for so many rows


class ShiftedSolver:
    """Solves ``(I + rho K) x = r`` with the Cholesky factor of an earlier K as preconditioner.

    Right after `factor` the solve is direct. For a K that has moved since, conjugate gradients start from
    a guess; once they have taken as long as a factorisation, K is factored anew.
    """

    def __init__(self, rho: float):
        self.rho = rho
        self._factor: tuple[np.ndarray, bool] | None = None
        self._of: np.ndarray | None = None
        self._steps = 0  # of conjugate gradients that may still be made with this factor
        self.n_factored = 0

    def factor(self, K: np.ndarray) -> None:
        """Factor ``I + rho K``."""
        shifted = self.rho * K
        shifted.flat[:: len(K) + 1] += 1.0
        self._factor, self._of = cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False), K
        self._steps = 2 + len(K) // ROWS_PER_STEP
        self.n_factored += 1

    def solve(self, K: np.ndarray, right: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """Solve with a matrix K that is not changed in place between calls."""
        if self._factor is not None and self._of is not K:
            found = self._iterate(K, right, guess)
            if found is not None:
                return found
        if self._of is not K:
            self.factor(K)
        assert self._factor is not None
        return cho_solve(self._factor, right, check_finite=False)

    def _iterate(self, K: np.ndarray, right: np.ndarray, x: np.ndarray) -> np.ndarray | None:
        """Preconditioned conjugate gradients from `x`; None where they take too long."""
        assert self._factor is not None
        bar = RESIDUAL * max(1.0, float(np.linalg.norm(right)))
        residual = right - x - self.rho * (K @ x)
        p, fall = np.zeros_like(x), 1.0
        while np.linalg.norm(residual) > bar:
            if not self._steps:
                return None
            self._steps -= 1
            z = cho_solve(self._factor, residual, check_finite=False)
            old, fall = fall, float(residual @ z)
            p = z + fall / old * p
            image = p + self.rho * (K @ p)
            step = fall / float(p @ image)
            x, residual = x + step * p, residual - step * image
        return x
