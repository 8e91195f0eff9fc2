"""Kernel GLVQ: prototypes of each class that move towards its rows and away from others [Schleif2011].

    min over a  of  E = sum_i w_i f((d+ - d-) / (d+ + d-)),   f(m) = 1 / (1 + exp(-slope m))

with the squared distances ``d_j(i) = K_ii - 2 (a K)_ji + (a K a')_jj`` of row i to the points ``sum_m a_jm x_m`` of the
feature space, d+ that to the nearest prototype of the class of i and d- that to the nearest other one. Rows of a add up
to one and have at most `max_samples` entries. The gradients of E in the feature space are

    w_i f'(m) 4 d- / (d+ + d-)^2 (prototype - x_i)  for the prototype of d+,
   -w_i f'(m) 4 d+ / (d+ + d-)^2 (prototype - x_i)  for the prototype of d-,

so that a step keeps the sums: ``a+ <- (1 - r) a+ + r e_i`` and ``a- <- (1 + r) a- - r e_i``.

Paper     Here                  Meaning
gamma     coef a (c, n)         prototypes, one in each row
c(w_j)    owners (c,)           class of each prototype
f         sigmoid               of slope `slope`
mu        m                     relative difference of distances, in [-1, 1], negative for rows that are right
epsilon   rate                  of learning
K         K (n, n)              kernel of unit diagonal
-         weight w (n,)         what each row counts

Departures from the paper, with reasons:

1.  The rate is a multiple of the variance ``1 - mean(K)`` of the rows, so that it means the same for any kernel, and
    falls as ``1 / (1 + epoch / 10)``. No step goes beyond the row, or more than doubles the distance from it.
2.  After an epoch each prototype keeps the rows of largest modulus. Merely rescaling their coefficients to sum one
    often undoes more than the epoch gained, and E rises; they become those, of sum one, of the nearest point in the
    feature space. With `max_samples` of n this is the method without sparseness.
3.  Prototypes start as weighted means of `max_samples` random rows of their class, different ones as far as there
    are any.
4.  E is not convex and neither epochs nor the cut after them need lower it: the run stops when E has hardly changed in
    three epochs, and returns its best point if it never does.
5.  Rows have weights of mean one, which multiply their steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from tamis.optim.driver import Callback, Iterate, Solution, run

SLOPE = 5.0
DECAY = 10.0  # epochs in which the rate falls to a half
WINDOW = 3  # epochs in which E must not change much
NOWHERE = 1e-12  # sum of squared distances at which a row and both its prototypes are one point
SINGULAR = 1e-9  # relative size of directions in which coefficients are free


@dataclass(frozen=True)
class Problem:
    """What is minimised.

    Attributes
    ----------
    K : (n, n) kernel of unit diagonal
    codes : (n,) class of each row
    weight : (n,) positive
    max_samples : most entries in a row of coefficients
    slope : of the sigmoid
    """

    K: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    max_samples: int
    slope: float = SLOPE


@dataclass(frozen=True)
class State:
    """Prototypes (c, n), and the class (c,) of each."""

    coef: np.ndarray
    owners: np.ndarray


# ---------------------------------------------------------------------- objective


def squared_distances(K: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Squared distances (c, n) of prototypes to rows."""
    images = coef @ K
    return np.maximum(1.0 - 2.0 * images + np.sum(coef * images, axis=1)[:, None], 0.0)


def differences(problem: Problem, state: State) -> np.ndarray:
    """The relative differences m (n,) of distances."""
    d = squared_distances(problem.K, state.coef)
    own = state.owners[:, None] == problem.codes
    near, other = (np.min(np.where(mask, d, np.inf), axis=0) for mask in (own, ~own))
    total = near + other
    return np.where(total > NOWHERE, near - other, 0.0) / np.maximum(total, NOWHERE)


def objective(problem: Problem, state: State) -> float:
    """The cost E."""
    return float(problem.weight @ expit(problem.slope * differences(problem, state)))


# ---------------------------------------------------------------------- steps


def rates(problem: Problem, row: int, near: float, other: float) -> tuple[float, float]:
    """How far a row pulls the nearest prototype of its class and pushes the nearest other one, for a rate of one."""
    total = near + other
    if total <= NOWHERE:
        return 0.0, 0.0
    f = expit(problem.slope * (near - other) / total)
    factor = float(problem.weight[row] * problem.slope * f * (1.0 - f)) * 4.0 / total**2
    return factor * other, factor * near


def epoch(problem: Problem, state: State, order: np.ndarray, rate: float) -> State:
    """Let every row move its two prototypes once, in the given order; O(n) for each."""
    K, coef = problem.K, state.coef.copy()
    images = coef @ K
    norms = np.sum(coef * images, axis=1)
    classes = np.arange(problem.codes.max() + 1)
    sides = [(np.flatnonzero(state.owners == q), np.flatnonzero(state.owners != q)) for q in classes]
    for i in order.tolist():
        d = np.maximum(1.0 - 2.0 * images[:, i] + norms, 0.0)
        own, others = sides[problem.codes[i]]
        near, other = own[np.argmin(d[own])], others[np.argmin(d[others])]
        pull, push = rates(problem, i, float(d[near]), float(d[other]))
        for j, r in ((near, min(rate * pull, 1.0)), (other, -min(rate * push, 1.0))):
            norms[j] = (1.0 - r) ** 2 * norms[j] + 2.0 * r * (1.0 - r) * images[j, i] + r**2
            images[j] *= 1.0 - r
            images[j] += r * K[i]
            coef[j] *= 1.0 - r
            coef[j, i] += r
    return replace(state, coef=coef)


def sparse(problem: Problem, state: State) -> State:
    """Keep the rows of largest modulus in each prototype, as the nearest point of the feature space (departure 2)."""
    coef = state.coef.copy()
    for own in coef:
        if np.count_nonzero(own) <= problem.max_samples:
            continue
        kept = np.sort(np.argsort(-np.abs(own), kind="stable")[: problem.max_samples])
        values = nearest_mixture(problem.K[np.ix_(kept, kept)], problem.K[kept] @ own)
        own[:] = 0.0
        own[kept] = values
    return replace(state, coef=coef)


def nearest_mixture(K: np.ndarray, images: np.ndarray) -> np.ndarray:
    """``argmin b'K b - 2 images'b`` over b of sum one; of several the smallest."""
    k = len(K)
    system = np.ones((k + 1, k + 1))
    system[:k, :k], system[k, k] = K, 0.0
    b = np.linalg.lstsq(system, np.append(images, 1.0), rcond=SINGULAR)[0][:k]
    return b / b.sum()


# ---------------------------------------------------------------------- the run


def start(problem: Problem, n_prototypes: int, seed: int) -> State:
    """Weighted means of random rows, `n_prototypes` for each class that has two rows for each of them.

    Prototypes on single rows of a table of few values would be those of every class, and nothing would move them.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(problem.codes))  # one for all classes: the order of these decides nothing
    coef, owners = [], []
    for q in np.unique(problem.codes):
        rows = order[problem.codes[order] == q]
        for part in np.array_split(rows, min(n_prototypes, max(1, len(rows) // 2))):
            own, some = np.zeros(len(problem.codes)), part[: problem.max_samples]
            own[some] = problem.weight[some] / problem.weight[some].sum()
            coef.append(own)
            owners.append(int(q))
    return State(np.array(coef), np.array(owners))


def iterates(problem: Problem, begun: State, rate: float, seed: int) -> Iterator[Iterate[State]]:
    """The points after each epoch; the violation is the largest relative change of E in the last ones."""
    rng = np.random.default_rng([seed, 1])
    rate *= 1.0 - float(problem.K.mean())
    state, values = begun, [objective(problem, begun)]
    while True:
        changes = np.abs(np.diff(values[-WINDOW - 1 :])) / values[-1]
        yield Iterate(state, values[-1], float(changes.max()) if len(changes) == WINDOW else np.inf)
        order = rng.permutation(len(problem.codes))
        state = sparse(problem, epoch(problem, state, order, rate / (1.0 + (len(values) - 1) / DECAY)))
        values.append(objective(problem, state))


def solve(
    problem: Problem,
    begun: State,
    *,
    rate: float,
    seed: int,
    tol: float = 1e-3,
    max_iter: int = 100,
    callback: Callback | None = None,
) -> Solution[State]:
    """Run epochs until the cost settles."""
    return run(iterates(problem, begun, rate, seed), tol=tol, max_iter=max_iter, monotone=False, callback=callback)
