"""IMKPL: prototypes of few training rows in a learned mean of kernels [Hosseini2019].

    min over weights, U, G  of  J = J_rec + lam J_dis + mu J_ls + tau J_ip

    J_rec = sum_i w_i |x_i - (X U G)_i|^2 in the feature space of ``K = sum_l weights[l] K_l``        [Eq. 3]
    J_dis = sum_i w_i sum_s (U G)_si (1 - K_si if the classes of s and i agree, else 1)                 [Eq. 5]
    J_ls  = sum_i w_i (sum over near rows s of the class of i of (2 - 2 K_is) + sum over near others of K_is)  [Eq. 6]
    J_ip  = sum of all entries of U, which |L U|_1 is                                                  [Sect. 3.2]

    subject to U, G >= 0, at most `size` non-zero entries in each of their columns, u'K u = 1 for each column u of U,
    weights >= 0 adding up to one.

Paper   Here                Meaning
X_i     row i               training row; all kernels have unit diagonal
beta    weights (L,)        of the kernels
U       U (n, c)            prototypes, one in each column
Gamma   G (c, n)            codes, one in each column
T_0     size                most rows in a prototype, and most prototypes in a code
L       codes (n,)          class of each row, as an index
K^      K (n, n)            the combined kernel
K~      1 - same * K        Eq. 7
N, N-   near, far           the nearest rows of the same class and of other classes
-       weight w (n,)       what each row counts

Departures from the paper, with reasons:

1.  The codes of Eq. 7 and the prototypes of Eq. 9 are found by the corrected pursuit (`optim.nqp`). As that is greedy,
    a new code is taken only where the old one is not better; a new prototype, together with the best factor for
    its row of codes, only if it does not raise J. So neither step raises J; the printed algorithm does not ensure it.
2.  Weights start at 1 / L, not at one, so that K has unit diagonal. The neighbourhoods belong to that mean kernel.
3.  The linear program of Eq. 10 has all its weight on one kernel at every solution, and rewards kernels that are
    nearly constant. `weights` has that rule and better ones; they may raise J, so the run is not monotone.
4.  After a change of weights each prototype is scaled back to norm one and its codes inversely: U G stays.
5.  The run stops when J changes by at most `tol` times its part without J_ls, which would drown the others. There is no
    better measure: the codes satisfy their conditions after every round (`code_violation`), and the weights follow
    another criterion than J. So a run that does not converge returns its point of least J.
6.  The start, which the paper leaves open, is "greedy": the number of prototypes of a class then follows its spread,
    as in the paper's Table 4. From as many random rows of each class it hardly changes, because prototypes seldom
    leave their class.
7.  Rows have weights, which multiply their terms of J. Neighbourhoods and the alignment of kernels look at distinct
    rows alone. The last codes belong to the last kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from tamis.arrays import Array, beside, device_of, namespace, scattered, to_numpy
from tamis.kernels.spectrum import LabelledRows
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.matrices import fill_diagonal, inner
from tamis.optim.nqp import nqp_violation, solve_nqp
from tamis.optim.quadratic import solve_nonnegative_qp

MIN_CHANGE_SCALE = 1e-9  # of the weight of all rows: changes of J are compared with no less
Rule = Callable[["Problem", Array, np.ndarray], np.ndarray]  # (problem, M, old weights) -> weights


@dataclass(frozen=True)
class Problem:
    """What is minimised."""

    rows: LabelledRows  # training rows
    size: int  # T_0
    # lam, mu, tau: factors of J_dis, J_ls and J_ip
    lam: float
    mu: float
    tau: float
    n_neighbors: int  # rows in each neighbourhood
    rule: Rule  # new weights from the matrix M with ``J = <K, M> + offset + tau sum(U)`` and the old weights

    @cached_property
    def neighbours(self) -> tuple[Array, Array]:
        """Boolean (n, n): near and far rows of each row, in the mean kernel; of equally near ones the first."""
        K = self.rows.mean
        xp, codes = namespace(K), beside(self.rows.codes, K)
        order = xp.argsort(-K, axis=1, stable=True)
        same = codes[order] == codes[:, None]
        itself = order == xp.arange(len(codes), device=device_of(K))[:, None]
        near, far = (
            scattered(order, mask & (mask.cumsum(axis=1) <= self.n_neighbors)) for mask in (same & ~itself, ~same)
        )
        return near, far

    @cached_property
    def contrast(self) -> Array:
        """The symmetric matrix whose inner product with K is J_ls, up to a constant."""
        near, far = self.neighbours
        weight = beside(self.rows.weight, near)[:, None]
        matrix = weight * far - 2.0 * weight * near
        return 0.5 * (matrix + matrix.T)

    @property
    def local_constant(self) -> float:
        """J_ls less its inner product."""
        return 2.0 * float(self.rows.weight @ to_numpy(self.neighbours[0].sum(axis=1)))


@dataclass(frozen=True)
class State:
    """Weights (L,), prototypes U (n, c), codes G (c, n), and the kernel K (n, n) of these weights, wherever it is."""

    weights: np.ndarray
    U: np.ndarray
    G: np.ndarray
    K: Array


# ---------------------------------------------------------------------- objective


def slopes(problem: Problem, state: State) -> tuple[Array, float]:
    """The symmetric matrix M and the constant with ``J = <K, M> + constant + tau sum(U)`` [Eq. 11]."""
    K, weight, U, G = state.K, problem.rows.weight, _sparse(state.U), _sparse(state.G)
    H = _spread(U, G * weight, K)  # times the weights of the rows
    both = H + H.T
    M = problem.mu * problem.contrast - both
    M -= 0.5 * problem.lam * (problem.rows.same * both)
    M += _spread(U, ((G * weight) @ G.T) @ U.T, K)
    fill_diagonal(M, namespace(M).linalg.diagonal(M) + beside(weight, M))
    return M, problem.lam * float(H.sum()) + problem.mu * problem.local_constant


def objective(problem: Problem, state: State) -> float:
    """The value J."""
    M, constant = slopes(problem, state)
    return inner(state.K, M) + constant + problem.tau * float(state.U.sum())


def local_separation(problem: Problem, K: Array) -> float:
    """The value J_ls [Eq. 6]."""
    return inner(K, problem.contrast) + problem.local_constant


# ---------------------------------------------------------------------- steps


def code_step(problem: Problem, state: State) -> State:
    """Code every row anew [Eq. 7]; where the old code is better it stays, solved anew on its own prototypes."""
    Q, linear = coding(problem, state.K, state.U)
    old = state.G.T
    codes = solve_nqp(2.0 * Q, linear, problem.size)
    value_old, value_new = (np.sum(X * (X @ Q + linear), axis=1) for X in (old, codes))
    for row in np.flatnonzero(value_old < value_new):
        used = np.flatnonzero(old[row])
        codes[row] = 0.0
        codes[row, used] = solve_nonnegative_qp(2.0 * Q[np.ix_(used, used)], linear[row, used], old[row, used])
    return replace(state, G=codes.T)


def code_violation(problem: Problem, state: State) -> float:
    """The largest relative violation of the optimality conditions of codes on the prototypes that they use."""
    Q, linear = coding(problem, state.K, state.U)
    return float(nqp_violation(2.0 * Q, linear, state.G.T, problem.size).max(initial=0.0))


def coding(problem: Problem, K: Array, U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q (c, c) and linear terms (n, c) of the programs ``min g'Q g + linear_i'g`` of Eq. 7."""
    U_ = _sparse(U.T)
    KU = _images(U_, K).T
    near = _images(U_, problem.rows.same * K).T
    return U_ @ KU, problem.lam * (U.sum(axis=0) - near) - 2.0 * KU


def prototype_step(problem: Problem, state: State) -> State:
    """Make every prototype anew, one after another, with the best factor for its codes [Eq. 8 and 9]."""
    lam, tau = problem.lam, problem.tau
    U, G = state.U.copy(), state.G.copy()
    weighted = _sparse(G * problem.rows.weight)
    KU, images = _images(_sparse(U.T), state.K).T.copy(), _images(weighted, state.K)
    near, totals = _images(weighted, problem.rows.same * state.K), weighted.sum(axis=1)
    K = to_numpy(state.K)  # for pursuits, which look at few entries, one after another
    overlap = (weighted @ G.T).T
    for j in range(U.shape[1]):
        w = overlap[j, j]
        if w <= 0:  # no row uses it
            continue
        others = np.flatnonzero(overlap[j])
        others = others[others != j]
        linear = lam * (totals[j] - near[j]) - 2.0 * (images[j] - KU[:, others] @ overlap[others, j])
        u = solve_nqp(K, (linear + tau) / (2.0 * w), problem.size)
        rows = np.flatnonzero(u)
        norm = np.sqrt(u[rows] @ K[np.ix_(rows, rows)] @ u[rows])
        if not norm > 0:
            continue
        u /= norm
        factor = max(0.0, -float(linear @ u) / (2.0 * w))
        new = w * factor**2 + factor * float(linear @ u) + tau * u.sum()
        if not new <= w + float(linear @ U[:, j]) + tau * U[:, j].sum():
            continue
        U[:, j], KU[:, j] = u, K[:, rows] @ u[rows]
        G[j] *= factor
        overlap[j] *= factor  # what later prototypes read of it
    return replace(state, U=U, G=G)


def weight_step(problem: Problem, state: State, M: Array) -> State:
    """Weigh the kernels anew; prototypes are scaled back to norm one and their codes inversely."""
    weights = problem.rule(problem, M, state.weights)
    if np.array_equal(weights, state.weights):
        return state
    K = problem.rows.kernels.combine(weights)
    norms = np.sqrt(np.sum(state.U * _images(_sparse(state.U.T), K).T, axis=0))
    return State(weights, state.U / norms, state.G * norms[:, None], K)


# ---------------------------------------------------------------------- the run


def start(problem: Problem, n_prototypes: int, how: str, seed: int) -> State:
    """The mean kernel with rows as prototypes, in all `n_prototypes` for each class that has so many rows.

    "random" draws as many of each class; "greedy" takes row after row by how much it lowers J at first sight, so that
    a class gets as many as it needs, one at least.
    """
    rows = problem.rows
    shares = np.minimum(np.bincount(rows.codes), n_prototypes)
    if how == "random":
        rng = np.random.default_rng(seed)
        drawn = [rng.permutation(np.flatnonzero(rows.codes == c))[:share] for c, share in enumerate(shares)]
        chosen = np.concatenate(drawn)
    else:
        chosen = _greedy(problem, int(shares.sum()))
    U = np.zeros((len(rows.codes), len(chosen)))
    U[chosen, np.arange(len(chosen))] = 1.0
    L = rows.kernels.n_kernels
    return State(np.full(L, 1.0 / L), U, np.zeros(U.T.shape), rows.mean)


def _greedy(problem: Problem, n_prototypes: int) -> np.ndarray:
    """Rows, each the one whose own codes ``g_i = max(0, <row, rest of i> - lam K~ / 2)`` lower J most, by sum w g^2."""
    rows, K = problem.rows, problem.rows.mean
    xp, weight = namespace(K), beside(rows.weight, K)
    zero = xp.zeros((), dtype=K.dtype, device=device_of(K))
    lowered = K - 0.5 * problem.lam * (1.0 - rows.same * K)
    chosen: list[int] = []
    for left in range(n_prototypes, 0, -1):
        codes = xp.maximum(lowered, zero)
        gain = to_numpy((codes * codes) @ weight)
        gain[chosen] = -1.0
        lacking = np.setdiff1d(rows.codes, rows.codes[chosen])
        if left <= len(lacking):
            gain[~np.isin(rows.codes, lacking)] = -1.0
        best = int(np.argmax(gain))
        chosen.append(best)
        lowered -= K[:, best][:, None] * codes[best, :][None, :]
    return np.array(chosen)


def iterates(problem: Problem, state: State) -> Iterator[Iterate[State]]:
    """The points of the alternating minimisation; the violation is the relative change of J (departure 5)."""
    value = objective(problem, state)
    yield Iterate(state, value, np.inf, weights=state.weights)
    while True:
        state = prototype_step(problem, code_step(problem, state))
        M, constant = slopes(problem, state)
        state = weight_step(problem, state, M)
        before, value = value, inner(state.K, M) + constant + problem.tau * float(state.U.sum())
        least = MIN_CHANGE_SCALE * float(problem.rows.weight.sum())
        scale = max(value - problem.mu * local_separation(problem, state.K), least)
        yield Iterate(state, value, abs(before - value) / scale, weights=state.weights)


def solve(
    problem: Problem, begun: State, *, tol: float = 1e-3, max_iter: int = 20, callback: Callback | None = None
) -> Solution[State]:
    """Alternate until J converges; then code all rows in the final kernel and merge equal prototypes."""
    solution = run(iterates(problem, begun), tol=tol, max_iter=max_iter, monotone=False, callback=callback)
    state = merged(code_step(problem, solution.state))
    return replace(solution, state=state, objective=objective(problem, state))


def merged(state: State) -> State:
    """The same state with each prototype once; equal ones add their codes."""
    _, first, place = np.unique(np.round(state.U, 12), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first)  # in the order of the columns
    rank = np.empty(len(first), dtype=int)
    rank[order] = np.arange(len(first))
    G = np.zeros((len(first), state.G.shape[1]))
    np.add.at(G, rank[place.ravel()], state.G)
    return replace(state, U=state.U[:, first[order]], G=G)


def _sparse(A: np.ndarray) -> csr_array:
    return csr_array(A)


def _images(A: csr_array, K: Array) -> np.ndarray:
    """``A K`` (c, n) in numpy, for few sparse rows A and a matrix K wherever it is."""
    return A @ K if isinstance(K, np.ndarray) else to_numpy(beside(A.toarray(), K) @ K)


def _spread(A: csr_array, B: csr_array, K: Array) -> Array:
    """``A B`` (n, n) where the matrix K is, for sparse A (n, c) and B (c, n)."""
    return (A @ B).toarray() if isinstance(K, np.ndarray) else beside(A.toarray(), K) @ beside(B.toarray(), K)
