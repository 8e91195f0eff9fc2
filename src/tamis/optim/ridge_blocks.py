"""Ridge regression with a smooth loss on more rows than memory holds the design of: quasi-Newton steps by blocks.

    minimise over x, b    sum_i weight_i loss(f_i, y_i) + ridge/2 |x|^2,        f = design x + b

From a good start, such as the solution for a sample, this takes a few passes with one Hessian or two, those of some of
the rows: they are nearly those of all. The design is an affine map of simpler values (`Space`). Only Hessians make it:
f and gradients come from the values themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.losses import Loss
from tamis.parallel import thread_map

BLOCK = 2048  # rows at a time
HESSIAN_ROWS = 100_000  # most rows of the Hessian
STEPS = 20
LANES = 8  # sums of blocks are taken in this many sequences
SLOW = 0.1  # a step that leaves more than this share of the last decrement asks for another Hessian
TOL = 1e-4  # squared Newton length, relative to the objective


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
