"""The only loop: run a generator of iterates until it converges, and report how it ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

import numpy as np

from tamis.codec import stored

S = TypeVar("S")


@stored
class Status(Enum):
    """How a run ended; the value is a sentence for the person who reads it."""

    CONVERGED = "the violation of the optimality conditions fell below tol"
    MAX_ITER = "max_iter was reached before the violation fell below tol; raise max_iter or tol"
    EXHAUSTED = "the algorithm has no further step to offer although the violation is above tol"
    NON_FINITE = "the objective became infinite or NaN; the last finite point is returned"
    STOPPED = "a callback stopped the run before the violation fell below tol"
    COLLAPSED = "all coefficients became zero; the result predicts the majority class everywhere"
    DEAD_START = (
        "every coefficient stayed at zero: the result gives every row the class of larger weight, which costs least; "
        "raise C"
    )
    HARD_MARGIN = (
        "converged, but no row is given up: this is the hard-margin machine of the combined kernel, and the 0/1 loss "
        "plays no role"
    )
    CYCLING = "the working set goes on changing without a better point; the best one seen is returned"
    UNBOUNDED = "the objective has no minimum, so there is no model and every row gets the same score"
    ROUNDS = "all requested rounds are done; more of them would change weights further"
    STALLED = "the steps ended at a point that does not satisfy the optimality conditions"

    @property
    def converged(self) -> bool:
        """Whether the run reached what it was after."""
        return self in (Status.CONVERGED, Status.HARD_MARGIN, Status.ROUNDS)

    def __reduce_ex__(self, protocol: object) -> tuple[type[Status], tuple[str]]:
        return Status, (self.name,)  # copies and files know the name, so that the sentence may change

    def __reduce__(self) -> tuple[type[Status], tuple[str]]:
        return self.__reduce_ex__(2)  # skops reads this one

    @classmethod
    def _missing_(cls, value: object) -> Status | None:
        return cls.__members__.get(str(value))


@dataclass(frozen=True)
class Iterate(Generic[S]):
    """One point of an algorithm. `status`, when given, ends the run; `weights` of kernels are for the record."""

    state: S
    objective: float
    violation: float
    status: Status | None = None
    weights: np.ndarray | None = None


@stored
@dataclass(frozen=True)
class History:
    """What happened, one entry per iterate (the starting point included).

    `weights` are those of the kernels (iterates, kernels), where the algorithm reports them.
    """

    objective: np.ndarray
    violation: np.ndarray
    seconds: np.ndarray
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.objective)

    def among(self, kernels: np.ndarray, total: int) -> History:
        """The history of all of `total` kernels, of which it knows some."""
        if self.weights is None:
            return self
        weights = np.zeros((len(self.weights), total))
        weights[:, kernels] = self.weights
        return replace(self, weights=weights)

    def of_kernels(self, kernels: np.ndarray) -> History:
        """The history of some kernels."""
        return self if self.weights is None else replace(self, weights=self.weights[:, kernels])


@stored
@dataclass(frozen=True)
class Solution(Generic[S]):
    """The state a run returns, with its objective, history and status."""

    state: S
    objective: float
    history: History
    status: Status

    @property
    def n_iter(self) -> int:
        return len(self.history) - 1


Callback = Callable[[int, Iterate], bool | None]  # a true value stops the run


def run(
    iterates: Iterator[Iterate[S]],
    *,
    tol: float,
    max_iter: int,
    monotone: bool = True,
    callback: Callback | None = None,
) -> Solution[S]:
    """Draw iterates until the violation is at most `tol` or `max_iter` steps were made.

    The first iterate is the starting point and costs no step, so a converged start stops at
    once. Where the algorithm is not `monotone`, a run that ends without convergence returns its best
    iterate; otherwise the last one counts.
    """
    records: list[tuple[float, float, float]] = []
    start = time.perf_counter()
    weights: list[np.ndarray] = []
    best: Iterate[S] | None = None
    status = Status.EXHAUSTED
    for step, iterate in enumerate(iterates):
        records.append((iterate.objective, iterate.violation, time.perf_counter() - start))
        if iterate.weights is not None:
            weights.append(iterate.weights)
        stop = callback is not None and callback(step, iterate)
        if not math.isfinite(iterate.objective):
            status = Status.NON_FINITE
            best = best or iterate
            break
        if best is None or monotone or iterate.objective <= best.objective:
            best = iterate
        if iterate.status is not None:
            status = iterate.status
            break
        if iterate.violation <= tol:
            status, best = Status.CONVERGED, iterate
            break
        if stop:
            status = Status.STOPPED
            break
        if step >= max_iter:
            status = Status.MAX_ITER
            break
    if best is None:
        raise ValueError("run() needs at least one iterate: the generator was empty")
    objective, violation, seconds = np.array(records).T
    history = History(objective, violation, seconds, np.array(weights) if weights else None)
    return Solution(best.state, best.objective, history, status)
