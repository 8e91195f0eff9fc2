"""Prototype selection: a set of training rows whose balls cover each class and little else [Bien2011].

    min over sets P of pairs (row j, class q)  of  sum_i w_i (i is in no ball of its own class)
        + sum_i w_i (number of balls of other classes that i is in) + price |P|

The ball of a row holds the rows at a distance ``sqrt(2 - 2 K)`` below a radius. The greedy algorithm adds the pair that
lowers this cost most, for as long as one does; a new row goes to the class of the nearest prototype.

Paper       Here                 Meaning
x_i         row i                training row; the kernel has unit diagonal
B(x_j)      balls[j] (n,)        the rows in the ball of row j
epsilon     radius               of all balls
alpha_jq    rows, owners (c,)    the pairs of P, in the order in which they were added
xi_i        not covered[i]       whether row i is in no ball of its own class
lambda      price                of a prototype
-           weight w (n,)        what each row counts

Departures from the paper, with reasons:

1.  Rows have weights of mean one; the price is 1 / n as in the paper, which settles ties in favour of fewer prototypes.
2.  A row is in its own ball even if the radius is zero: then all rows are prototypes, and the nearest one decides.
3.  Distances equal to the radius up to rounding are outside, and gains equal up to rounding tie. The first row wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import squareform

from tamis.optim.driver import Callback, Iterate, Solution, run

SLIGHT = 1e-12  # difference of squared distances that is rounding
DIGITS = 9  # of gains, in units of a row of mean weight


@dataclass(frozen=True)
class Problem:
    """What is to be covered.

    Attributes
    ----------
    balls : boolean (n, n), whether row i is in the ball of row j
    codes : (n,) class of each row, the last one being ``codes.max()``
    weight : (n,) positive
    """

    balls: np.ndarray
    codes: np.ndarray
    weight: np.ndarray

    @property
    def price(self) -> float:
        """What a prototype costs."""
        return 1.0 / len(self.codes)


@dataclass(frozen=True)
class State:
    """Prototypes, as rows (c,) and the classes (c,) they stand for; which rows (n,) are in a ball of their class."""

    rows: np.ndarray
    owners: np.ndarray
    covered: np.ndarray


def quantile_radius(K: np.ndarray, share: float) -> float:
    """The distance below which about this share of the pairs of different rows is."""
    return float(np.quantile(np.sqrt(_squared_distances(squareform(K, checks=False))), share))


def balls_of(K: np.ndarray, radius: float) -> np.ndarray:
    """Boolean (n, n): whether row i is in the ball of row j."""
    balls = _squared_distances(K) < radius**2 - SLIGHT
    np.fill_diagonal(balls, True)
    return balls


def _squared_distances(K: np.ndarray) -> np.ndarray:
    return np.maximum(2.0 - 2.0 * K, 0.0)


# ---------------------------------------------------------------------- objective


def objective(problem: Problem, state: State) -> float:
    """The cost of the prototypes."""
    wrong = problem.balls[state.rows] & (state.owners[:, None] != problem.codes)
    weight = problem.weight
    return float(weight[~state.covered].sum() + wrong.sum(axis=0) @ weight) + problem.price * len(state.rows)


def gains(problem: Problem, covered: np.ndarray) -> np.ndarray:
    """By how much each pair (n, classes) of row and class would lower the cost."""
    inside = _inside(problem, np.ones_like(covered))
    return _inside(problem, ~covered) - _wrong(inside) - problem.price


def _inside(problem: Problem, counted: np.ndarray) -> np.ndarray:
    """Weight of the counted rows of each class in each ball (n, classes)."""
    classes = np.arange(problem.codes.max() + 1)
    return problem.balls @ ((problem.codes[:, None] == classes) * (problem.weight * counted)[:, None])


def _wrong(inside: np.ndarray) -> np.ndarray:
    """Weight in each ball that is not of the class (n, classes)."""
    return inside.sum(axis=1, keepdims=True) - inside


# ---------------------------------------------------------------------- the run


def iterates(problem: Problem) -> Iterator[Iterate[State]]:
    """The sets of the greedy algorithm; the violation is the best gain as a share of the weight of all rows."""
    codes, weight, balls = problem.codes, problem.weight, problem.balls
    fresh = _inside(problem, np.ones(len(codes), dtype=bool))
    price = _wrong(fresh) + problem.price
    state = State(np.empty(0, dtype=int), np.empty(0, dtype=int), np.zeros(len(codes), dtype=bool))
    value, total = float(weight.sum()), float(weight.sum())
    while True:
        gain = np.round(fresh - price, DIGITS)
        j, q = np.unravel_index(np.argmax(gain), gain.shape)
        yield Iterate(state, value, max(float(gain[j, q]), 0.0) / total)
        value -= float(fresh[j, q] - price[j, q])
        new = np.flatnonzero(balls[j] & (codes == q) & ~state.covered)
        covered = state.covered.copy()
        covered[new] = True
        fresh[:, q] -= balls[:, new] @ weight[new]
        state = State(np.append(state.rows, j), np.append(state.owners, q), covered)


def solve(problem: Problem, *, callback: Callback | None = None) -> Solution[State]:
    """Add prototypes until none lowers the cost; each covers a row more, so there are at most n."""
    return run(iterates(problem), tol=0.0, max_iter=len(problem.codes), callback=callback)
