"""Newton steps whose gradient is that of all rows and whose curvature is that of a sample.

    minimise  sum_i weight_i loss(A_i theta, y_i) + theta' Q theta / 2

A pass over all rows gives the loss, its gradient and, for each value, the curvature of the rows times their shares. The
curvature between values is that of a sample of rows, scaled up, and a step solves this quadratic by conjugate gradients
[Byrd2011]. Where all rows have more curvature on a value than the sample, the difference is added to the diagonal, so
that values with few sampled rows do not move too far. Earlier steps correct the curvature as in L-BFGS. The minimum is
that of all rows; the sample only decides how many passes it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.sparse import csr_matrix, sparray

from tamis.flagship.coded import CodedRows, Layout, Sums
from tamis.flagship.likelihood import Likelihood
from tamis.parallel import available_cores
from tamis.progress import report

MAX_PASSES = 15
MAX_PRODUCTS = 60  # of the curvature with a vector, for one step
RESIDUAL_SHARE = 0.3  # of the residual of a step, in its own norm, at which conjugate gradients stop
TOLERANCE = 1e-6  # units of log-likelihood per row that the next step would gain, below which none is made
SHRINK, MIN_SIZE = 0.4, 0.01  # of steps that do not lower the objective
N_PARTS = 4  # of the sample, multiplied in parallel
SMALLEST = 1e-14  # product of a step and what it changed of the gradient, relative to the objective, that is used
FLOOR = 1e-9  # of the diagonal of a curvature
DECREASE = 1e-4  # of what a step promises, that it must lower the objective by


@dataclass(frozen=True)
class Sample:
    """Rows of which the curvature is taken.

    Attributes
    ----------
    A : (n, size)
    weight : (n,) weights in the loss, scaled so that they add up to those of all rows
    """

    layout: Layout
    likelihood: Likelihood
    A: csr_matrix
    weight: np.ndarray

    @classmethod
    def of(cls, layout: Layout, likelihood: Likelihood, rows: CodedRows, total: float) -> Sample:
        """The sample of rows that stand for others with `total` weight."""
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        return cls(layout, likelihood, layout.matrix(rows), weight * (total / weight.sum()))

    @cached_property
    def parts(self) -> list[tuple[csr_matrix, csr_matrix, slice]]:
        """A in slices of rows, each with its transpose; as many on every machine, so that sums are the same."""
        ends = np.linspace(0, self.A.shape[0], N_PARTS + 1).astype(int).tolist()
        return [(self.A[a:b], self.A[a:b].T.tocsr(), slice(a, b)) for a, b in pairwise(ends)]

    def quadratic(self, theta: np.ndarray, penalty: sparray, curvature: np.ndarray) -> Quadratic:
        """Return the curvature of the objective at theta, where all rows have `curvature` (size, c) on its values."""
        P = self.likelihood.mean(self.A @ theta)
        weight = self.weight[:, None]
        bend = self.likelihood.curvature(P) * weight
        own = self.A.T @ bend
        missing = np.maximum(curvature - own, 0.0)
        missing[-1] = 0.0
        diagonal = self._squares.T @ bend + missing + penalty.diagonal()[:, None] + FLOOR
        end = int(self.layout.starts[-1])
        off_diagonal = np.zeros((max(end - 1, 0), theta.shape[1]))
        shift = self._neighbours
        off_diagonal[shift[1]] = (shift[0].T @ bend) if len(shift[1]) else 0.0
        off_diagonal += penalty.diagonal(1)[: max(end - 1, 0), None]
        return Quadratic(self, P, penalty, missing, diagonal, off_diagonal, end)

    @cached_property
    def _squares(self) -> csr_matrix:
        """The squares of A."""
        squares = self.A.copy()
        squares.data **= 2
        return squares

    @cached_property
    def _neighbours(self) -> tuple[csr_matrix, np.ndarray]:
        """Products of the two shares of a row in each sloped cell, and the values on the left of these."""
        layout = self.layout
        k = 2 * int(np.count_nonzero(~layout.flat))
        value = self.A.data.reshape(-1, layout.entries)[:, :k]
        index = self.A.indices.reshape(-1, layout.entries)[:, :k:2]
        found, place = np.unique(index, return_inverse=True)
        n = len(value)
        data = (value[:, 0::2] * value[:, 1::2]).ravel()
        starts = np.arange(0, n * (k // 2) + 1, max(k // 2, 1)) if k else np.zeros(n + 1, dtype=int)
        return csr_matrix((data, place.ravel(), starts), shape=(n, len(found))), found


@dataclass(frozen=True)
class Quadratic:
    """The curvature of an objective at one point, and an approximate inverse.

    Attributes
    ----------
    P : (n, c) expected targets of the sample
    missing : (size, c) added to the diagonal, see the module
    diagonal : (size, c)
    off_diagonal : (end - 1, c) entries between neighbouring values of the curves, which are the first `end` values
    """

    sample: Sample
    P: np.ndarray
    penalty: sparray
    missing: np.ndarray
    diagonal: np.ndarray
    off_diagonal: np.ndarray
    end: int

    def times(self, V: np.ndarray, pool: ThreadPoolExecutor) -> np.ndarray:
        """Return the product with V (size, c), with the threads of a pool."""
        sample = self.sample

        def part(one: tuple[csr_matrix, csr_matrix, slice]) -> np.ndarray:
            A, transposed, rows = one
            bent = sample.likelihood.bend(self.P[rows], A @ V) * sample.weight[rows, None]
            return np.asarray(transposed @ bent)

        return sum(pool.map(part, sample.parts)) + self.missing * V + self.penalty @ V

    @cached_property
    def _factors(self) -> list[np.ndarray]:
        """Cholesky factors of the tridiagonal part of curves, one for each output."""
        bands = np.zeros((self.off_diagonal.shape[1], 2, self.end))
        bands[:, 0, 1:], bands[:, 1] = self.off_diagonal.T, self.diagonal[: self.end].T
        return [cholesky_banded(own, check_finite=False) for own in bands]

    def precondition(self, R: np.ndarray) -> np.ndarray:
        """Return the product of R (size, c) with the inverse of the tridiagonal part of curves, and of the diagonal."""
        out = R / self.diagonal
        for k, factor in enumerate(self._factors if self.end else []):
            out[: self.end, k] = cho_solve_banded((factor, False), R[: self.end, k], check_finite=False)
        return out

    def solve(self, R: np.ndarray) -> np.ndarray:
        """Return about the product of R (size, c) with the inverse, by conjugate gradients."""
        X, Z = np.zeros_like(R), self.precondition(R)
        D, worth = Z.copy(), float((R * Z).sum())
        enough = RESIDUAL_SHARE * RESIDUAL_SHARE * worth
        with ThreadPoolExecutor(available_cores()) as pool:
            for _ in range(MAX_PRODUCTS):
                if worth <= enough:
                    break
                H = self.times(D, pool)
                step = worth / float((D * H).sum())
                X = X + step * D
                R = R - step * H
                Z = self.precondition(R)
                after = float((R * Z).sum())
                D, worth = Z + (after / worth) * D, after
        return X


@dataclass(frozen=True)
class Minimum:
    """Where the steps ended.

    Attributes
    ----------
    theta : (size, c)
    sums : of the rows there
    passes : over the rows
    converged : whether a further step would gain next to nothing
    gain : what it would gain, in units of log-likelihood per row
    """

    theta: np.ndarray
    sums: Sums
    passes: int
    converged: bool
    gain: float


def minimise(
    sums: Callable[[np.ndarray], Sums],
    sample: Sample,
    penalty: sparray,
    theta: np.ndarray,
    max_passes: int = MAX_PASSES,
    what: str = "",
) -> Minimum:
    """Minimise the penalised loss of all rows from `theta`; `sums` is a pass over them, reported as `what`."""

    def objective(found: Sums, theta: np.ndarray) -> float:
        return found.loss + 0.5 * float((theta * (penalty @ theta)).sum())

    found, total = sums(theta), float(sample.weight.sum())
    value, passes = objective(found, theta), 1
    gradient = found.gradient - penalty @ theta
    moves: list[Move] = []
    while True:
        if what:
            report(what, passes, max_passes)
        step = _corrected(sample.quadratic(theta, penalty, found.curvature).solve, moves, gradient)
        gain, size = 0.5 * float((gradient * step).sum()), 1.0
        if gain < TOLERANCE * total:
            return Minimum(theta, found, passes, True, gain / total)
        while True:
            if passes == max_passes or size < MIN_SIZE:
                return Minimum(theta, found, passes, False, gain / total)
            there = theta + size * step
            after, passes = sums(there), passes + 1
            lower = objective(after, there)
            if lower <= value - DECREASE * size * 2.0 * gain:
                break
            size *= SHRINK
        turned = after.gradient - penalty @ there
        move = Move(there - theta, gradient - turned)
        if move.product > SMALLEST * value:
            moves.append(move)
        theta, found, value, gradient = there, after, lower, turned


@dataclass(frozen=True)
class Move:
    """A step and what it changed of the gradient, both (size, c)."""

    step: np.ndarray
    change: np.ndarray

    @cached_property
    def product(self) -> float:
        return float((self.step * self.change).sum())


def _corrected(solve: Callable[[np.ndarray], np.ndarray], moves: Sequence[Move], gradient: np.ndarray) -> np.ndarray:
    """The step of a gradient under a curvature that is corrected to explain all moves so far (L-BFGS)."""
    shares = []
    for move in reversed(moves):
        shares.append(float((move.step * gradient).sum()) / move.product)
        gradient = gradient - shares[-1] * move.change
    step = solve(gradient)
    for move, share in zip(moves, reversed(shares), strict=True):
        step = step + (share - float((move.change * step).sum()) / move.product) * move.step
    return step
