"""Losses of a decision value, and linear models with a ridge that minimise them.

Losses are of a label in {-1, +1} (the squared one: of any number). A model whose design is in memory is solved by
eigenvectors or by Newton's method with step halving. On more rows than that, quasi-Newton steps by blocks solve

    minimise over x, b    sum_i weight_i loss(f_i, y_i) + ridge/2 |x|^2,        f = design x + b

From a good start, such as the solution for a sample, this takes a few passes with one Hessian or two, those of some of
the rows: they are nearly those of all. The design is an affine map of simpler values (`Space`). Only Hessians make it:
f and gradients come from the values themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve
from scipy.optimize import brentq

from tamis.arrays import Array, namespace
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.parallel import thread_map

NEGLIGIBLE = 1e-3  # share of the smallest ridge below which a direction of a design is left out
BLOCK = 2048  # rows at a time
HESSIAN_ROWS = 100_000  # most rows of the Hessian
STEPS = 20
LANES = 8  # sums of blocks are taken in this many sequences
SLOW = 0.1  # a step that leaves more than this share of the last decrement asks for another Hessian
TOL = 1e-4  # squared Newton length, relative to the objective


def slack(f: Array, y: Array) -> Array:
    """``max(0, 1 - y f)``: what is missing to a margin of one, which is the hinge loss."""
    short = 1.0 - y * f
    return namespace(short).where(short > 0, short, namespace(short).zeros_like(short))


class Loss(Protocol):
    """A loss, convex in the decision value f, and its first two derivatives in f."""

    def value(self, f: Array, y: Array) -> Array: ...

    def gradient(self, f: Array, y: Array) -> Array: ...

    def curvature(self, f: Array, y: Array) -> Array: ...


@dataclass(frozen=True)
class Squared:
    """``1/2 (f - y)^2``; for labels the same as ``1/2 (y f - 1)^2`` because ``y^2 = 1``."""

    def value(self, f: Array, y: Array) -> Array:
        return 0.5 * (f - y) ** 2

    def gradient(self, f: Array, y: Array) -> Array:
        return f - y

    def curvature(self, f: Array, y: Array) -> Array:
        return namespace(f).ones_like(f)


@dataclass(frozen=True)
class SquaredHinge:
    """``max(0, 1 - y f)^2``; the curvature jumps at the margin, where it is taken to be zero."""

    def value(self, f: Array, y: Array) -> Array:
        return slack(f, y) ** 2

    def gradient(self, f: Array, y: Array) -> Array:
        return -2.0 * y * slack(f, y)

    def curvature(self, f: Array, y: Array) -> Array:
        return namespace(f).where(y * f < 1.0, namespace(f).full_like(f, 2.0), namespace(f).zeros_like(f))


@dataclass(frozen=True)
class Logistic:
    """``log(1 + exp(-y f))``, computed without overflow for any `f`."""

    def value(self, f: Array, y: Array) -> Array:
        return np.logaddexp(0.0, -y * f)

    def gradient(self, f: Array, y: Array) -> Array:
        return -y * self._miss(f, y)

    def curvature(self, f: Array, y: Array) -> Array:
        miss = self._miss(f, y)
        return miss * (1.0 - miss)

    def _miss(self, f: Array, y: Array) -> Array:
        """1 / (1 + exp(y f)), the modulus of the gradient."""
        return 0.5 * (1.0 - namespace(f).tanh(0.5 * y * f))


LOGISTIC = Logistic()


# ---------------------------------------------------------------------- designs in memory


def fit_ridge_path(
    design: np.ndarray, targets: np.ndarray, weights: np.ndarray, ridges: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ``1/2 sum_i weights_i (targets_ij - f_ij)^2 + ridge/2 |x_j|^2`` for every ridge and output j.

    f_j = design x_j + b_j, the intercept b_j free. Directions of the design whose weighted sum of squares is so far
    below the smallest ridge that they would stay at zero are left out.

    Parameters
    ----------
    design : (n, p), its weighted column means zero
    targets : (n, q)
    weights : (n,) at least 0
    ridges : (r,) positive

    Returns
    -------
    coef : (r, q, p)
    intercept : (r, q)
    """
    basis, back = principal(design, weights, NEGLIGIBLE * min(ridges))
    mean = weights @ targets / weights.sum()
    sizes = weights @ basis**2
    cross = basis.T @ (weights[:, None] * (targets - mean))
    coef = np.stack([(back @ (cross / (sizes + ridge)[:, None])).T for ridge in ridges])
    return coef, np.tile(mean, (len(ridges), 1))


def principal(design: np.ndarray, weights: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """``design @ back`` and `back` (p, r), orthonormal: directions whose weighted sum of squares exceeds `floor`."""
    n, p = design.shape
    scaled = design * np.sqrt(weights)[:, None]
    if p <= n:
        sizes, back = np.linalg.eigh(scaled.T @ scaled)
        back = back[:, sizes > floor]
    else:
        sizes, left = np.linalg.eigh(scaled @ scaled.T)
        keep = sizes > floor
        back = scaled.T @ (left[:, keep] / np.sqrt(sizes[keep]))
    return design @ back, back


def fit_logistic(
    design: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    penalty: np.ndarray,
    *,
    start: np.ndarray | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
) -> np.ndarray:
    """Minimise ``sum_i weights_i log(1 + exp(-labels_i f_i)) + 1/2 sum_k penalty_k x_k^2``, f = design x.

    Parameters
    ----------
    design : (n, p)
    labels : (n,) in {-1, +1}
    weights : (n,) at least 0
    penalty : (p,) at least 0; zero for an intercept column
    start : (p,) where to begin; default zero

    Returns
    -------
    (p,) coefficients; the problem is convex, and the Newton decrement at the end is at most `tol`
    times the objective unless `max_iter` steps were made.
    """
    x = np.zeros(design.shape[1]) if start is None else start
    value = _value(design, labels, weights, penalty, x)
    for _ in range(max_iter):
        f = design @ x
        gradient = design.T @ (weights * LOGISTIC.gradient(f, labels)) + penalty * x
        hessian = (design.T * (weights * LOGISTIC.curvature(f, labels))) @ design
        hessian[np.diag_indices_from(hessian)] += penalty + 1e-10 * (1.0 + np.trace(hessian) / len(x))
        step = solve(hessian, gradient, assume_a="pos")
        decrement = float(gradient @ step)
        if decrement <= tol * abs(value):
            break
        length = 1.0
        while length > 1e-6:
            trial = x - length * step
            new = _value(design, labels, weights, penalty, trial)
            if new <= value - 1e-4 * length * decrement:
                break
            length *= 0.5
        else:
            break
        x, value = trial, new
    return x


def fit_logistic_path(
    design: np.ndarray, labels: np.ndarray, weights: np.ndarray, ridges: Sequence[float], *, tol: float = 1e-6
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ``sum_i weights_i log(1 + exp(-labels_ij f_ij)) + ridge/2 |x_j|^2`` for every ridge and output j.

    As `fit_ridge_path`, for labels (n, q) in {-1, +1}; every ridge starts from the solution of the
    next larger one.
    """
    basis, back = principal(design, weights, NEGLIGIBLE * min(ridges))
    table = np.column_stack([basis, np.ones(len(basis))])
    coef, intercept = (
        np.empty((len(ridges), labels.shape[1], design.shape[1])),
        np.empty((len(ridges), labels.shape[1])),
    )
    for j, y in enumerate(labels.T):
        x = np.zeros(table.shape[1])
        for r in np.argsort(ridges)[::-1]:
            penalty = np.r_[np.full(len(x) - 1, ridges[r]), 0.0]
            x = fit_logistic(table, y, weights, penalty, start=x, tol=tol)
            coef[r, j], intercept[r, j] = back @ x[:-1], x[-1]
    return coef, intercept


def _value(design: np.ndarray, labels: np.ndarray, weights: np.ndarray, penalty: np.ndarray, x: np.ndarray) -> float:
    return float(weights @ LOGISTIC.value(design @ x, labels) + 0.5 * (penalty @ (x * x)))


def fit_offset(f: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """The constant c that minimises ``sum_i weights_i log(1 + exp(-labels_i (f_i + c)))``."""
    reach = float(np.max(np.abs(f), initial=0.0)) + 40.0

    def slope(c: float) -> float:
        return float(weights @ LOGISTIC.gradient(f + c, labels))

    return float(brentq(slope, -reach, reach)) if slope(-reach) < 0 < slope(reach) else 0.0


# ---------------------------------------------------------------------- rows that are read in blocks


class Space(Protocol):
    """An affine map from values (m, n) of n rows to their design (n, p)."""

    def design(self, values: np.ndarray) -> np.ndarray:
        """The design (n, p) of rows."""
        ...

    def coefficients(self, slopes: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What coefficients (q, p) of the design and intercepts (q,) are for values: (q, m) and (q,)."""
        ...

    def gradient(self, cross: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Sums (q, p) of slopes times design from those of slopes times values (q, m) and of slopes (q,)."""
        ...


class Block(NamedTuple):
    """Values (m, n) of some rows, their targets (n, q) and weights (n,)."""

    values: np.ndarray
    targets: np.ndarray
    weight: np.ndarray


@dataclass(frozen=True)
class Problem:
    """Rows that are read in blocks, and the ridge.

    Attributes
    ----------
    loss : convex and smooth
    read : gives the block of a slice of range(n)
    space : from values to the design
    n : number of rows
    total : their weight
    ridge : positive
    stride : of the blocks that count: 1 for all of them
    """

    loss: Loss
    read: Callable[[slice], Block]
    space: Space
    n: int
    total: float
    ridge: float
    stride: int = 1

    @property
    def blocks(self) -> list[slice]:
        """The rows that count, evenly spread."""
        return [slice(start, min(start + BLOCK, self.n)) for start in range(0, self.n, BLOCK)][:: self.stride]

    def thinned(self, stride: int) -> Problem:
        """About the same problem on fewer blocks."""
        return replace(self, total=self.total / stride, ridge=self.ridge / stride, stride=self.stride * stride)


def minimise(problem: Problem, start: np.ndarray, callback: Callback | None = None) -> Solution[np.ndarray]:
    """Minimise from coefficients (q, p + 1) whose last column is the intercept; of very many rows some come first."""
    stride = round(problem.n / HESSIAN_ROWS)
    if stride > 1:
        start = run(_steps(problem.thinned(stride), start), tol=TOL, max_iter=STEPS).state
    return run(_steps(problem, start), tol=TOL, max_iter=STEPS, callback=callback)


def _steps(problem: Problem, x: np.ndarray) -> Iterator[Iterate[np.ndarray]]:
    """Points, each lower than the one before; the Hessian is made anew where the old one has become a poor guide."""
    factors = [cho_factor(H) for H in _hessians(problem, x)]
    value, gradient = _value_and_gradient(problem, x)
    last = np.inf
    while True:
        step = np.array([cho_solve(factor, g) for factor, g in zip(factors, gradient, strict=True)])
        decrement = float(np.sum(step * gradient))
        yield Iterate(x, value, decrement / max(abs(value), np.finfo(float).tiny))
        if decrement > SLOW * last:
            factors, last = [cho_factor(H) for H in _hessians(problem, x)], np.inf
            step = np.array([cho_solve(factor, g) for factor, g in zip(factors, gradient, strict=True)])
            decrement = float(np.sum(step * gradient))
        else:
            last = decrement
        length = 1.0
        while length > 1e-6:
            trial = x - length * step
            new, slope = _value_and_gradient(problem, trial)
            if new <= value - 1e-4 * length * decrement:
                break
            length *= 0.5
        else:
            return
        x, value, gradient = trial, new, slope


def _value_and_gradient(problem: Problem, x: np.ndarray) -> tuple[float, np.ndarray]:
    """The objective and its gradient (q, p + 1)."""
    coef, free = problem.space.coefficients(x[:, :-1], x[:, -1])

    def of(rows: slice) -> tuple[float, np.ndarray, np.ndarray]:
        values, y, weight = problem.read(rows)
        f = (coef @ values).T + free
        slope = weight[:, None] * problem.loss.gradient(f, y)
        return float(weight @ problem.loss.value(f, y).sum(axis=1)), slope.T @ values.T, slope.sum(axis=0)

    losses, crosses, slopes = zip(*thread_map(of, problem.blocks), strict=True)
    total = np.sum(slopes, axis=0)
    penalty = problem.ridge * np.column_stack([x[:, :-1], np.zeros(len(x))])
    gradient = np.column_stack([problem.space.gradient(np.sum(crosses, axis=0), total), total])
    return sum(losses) + 0.5 * float(np.sum(penalty * x)), gradient + penalty


def _hessians(problem: Problem, x: np.ndarray) -> np.ndarray:
    """The Hessians (q, p + 1, p + 1), from evenly spread blocks of rows."""
    some = problem.blocks[:: max(1, round(problem.n / HESSIAN_ROWS) // problem.stride)]

    def of(rows: slice) -> tuple[float, np.ndarray]:
        values, y, weight = problem.read(rows)
        table = np.column_stack([problem.space.design(values), np.ones(len(y))])
        curved = weight[:, None] * problem.loss.curvature(table @ x.T, y)
        return float(weight.sum()), np.stack([(table.T * c) @ table for c in curved.T])

    seen, total = 0.0, np.zeros((len(x), x.shape[1], x.shape[1]))
    lanes = thread_map(lambda k: [of(rows) for rows in some[k::LANES]], range(LANES))
    for weight, part in (pair for lane in lanes for pair in lane):
        seen, total = seen + weight, total + part
    total *= problem.total / (seen or 1.0)
    diagonal = np.r_[np.full(x.shape[1] - 1, problem.ridge), 1e-9 * problem.total]
    return total + np.diag(diagonal)
