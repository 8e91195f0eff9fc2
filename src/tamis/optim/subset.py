"""Best-subset ridge least squares: greedy start, pruning and splicing exchanges.

    minimise over x (p, q)   1/2 |T - D x|^2 + ridge/2 |x|^2   subject to a budget on the rows of x

Only the diagonal of ``G = D'D``, the product ``D'T`` and the columns of `G` that a search has
touched are ever needed, so the p x p matrix is not formed.

With ``H = G_SS + ridge I`` on a support `S`, ``x = H^-1 c_S`` and ``V = H^-1 G_S:`` the effect of
every exchange (drop j, add i) is known in closed form, because leaving j out is a rank-one change:

    loss of dropping j              |x_j|^2 / h_j                        h_j = (H^-1)_jj
    residual product of i after it  r_i + V_ji x_j / h_j                 r = c - G_:S x
    pivot of i after it             d_i + V_ji^2 / h_j                   d = diag(G) + ridge - diag(G_:S V)

so one splicing step looks at all k (p - k) exchanges for the price of one k x k inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

MIN_CROWD = 256  # members from which pruning goes by fifths
PIVOT_TOL = 1e-9  # a column whose pivot is below this share of the largest norm is a copy of the others
CONSTANT_TOL = 1e-12  # a column whose norm is below this share of the largest is constant
SINGLES, MAX_SINGLES = 30, 10  # single-column starts: SINGLES / limit, at most MAX_SINGLES
TIE_TOL = 1e-8  # relative difference of gains that counts as rounding
MIN_GAIN = 1e-7  # relative decrease that an exchange must bring
MAX_EXCHANGES = 200  # from each start


@dataclass(frozen=True)
class Cardinality:
    """At most `limit` columns."""

    limit: int

    def room(self, support: np.ndarray, p: int) -> np.ndarray:
        """Boolean mask (p,) of the columns that fit the budget together with `support`."""
        return np.full(p, len(support) < self.limit)

    def exchanges(self, support: np.ndarray, p: int) -> np.ndarray:
        """Boolean mask, broadcast to (k, p): may column i take the place of member j?"""
        return np.array(len(support) <= self.limit)

    def widened(self, factor: int) -> Cardinality:
        """The same budget with a larger limit."""
        return Cardinality(factor * self.limit)


@dataclass(frozen=True)
class Cover:
    """At most `limit` items, where column i uses the items ``incidence[i]``."""

    incidence: np.ndarray  # (p, items), boolean
    limit: int

    def room(self, support: np.ndarray, p: int) -> np.ndarray:
        used = self.incidence[support].any(axis=0)
        return self.incidence[:, ~used].sum(axis=1) <= self.limit - used.sum()

    def exchanges(self, support: np.ndarray, p: int) -> np.ndarray:
        return np.array([self.room(np.delete(support, j), p) for j in range(len(support))])

    def widened(self, factor: int) -> Cover:
        return Cover(self.incidence, factor * self.limit)


Budget = Cardinality | Cover  # which columns may still join a support


@dataclass
class Quadratic:
    """The quadratic form of a least-squares problem, its Gram columns computed when needed."""

    diagonal: np.ndarray  # (p,) diag(D'D)
    cross: np.ndarray  # (p, q) D'T
    energy: float  # |T|^2
    ridge: float
    gram_columns: Callable[[np.ndarray], np.ndarray]  # from indices (k,) to the columns (p, k) of D'D
    _cache: dict[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def from_design(cls, rows: np.ndarray, targets: np.ndarray, ridge: float) -> Quadratic:
        """Build from the transposed design `rows` (p, n) and `targets` (n, q)."""
        return cls(
            diagonal=np.einsum("ij,ij->i", rows, rows),
            cross=rows @ targets,
            energy=float(np.sum(targets * targets)),
            ridge=ridge,
            gram_columns=lambda idx: rows @ rows[idx].T,
        )

    @classmethod
    def from_gram(cls, gram: np.ndarray, cross: np.ndarray, energy: float, ridge: float) -> Quadratic:
        """Build from the whole Gram matrix (p, p)."""
        return cls(np.diagonal(gram).copy(), cross, energy, ridge, lambda idx: gram[:, idx])

    @property
    def size(self) -> int:
        return len(self.diagonal)

    @property
    def admissible(self) -> np.ndarray:
        """Columns that vary at all."""
        return self.diagonal > CONSTANT_TOL * self.diagonal.max(initial=0.0)

    def columns(self, idx: np.ndarray) -> np.ndarray:
        """Columns of D'D as rows (k, p), each computed once."""
        new = [i for i in idx.tolist() if i not in self._cache]
        if new:
            self._cache.update(zip(new, self.gram_columns(np.array(new)).T, strict=True))
        return np.array([self._cache[i] for i in idx.tolist()]).reshape(len(idx), self.size)

    def hessian(self, support: np.ndarray) -> np.ndarray:
        """H = G_SS + ridge I."""
        return self.columns(support)[:, support] + self.ridge * np.eye(len(support))

    def value(self, support: np.ndarray, coef: np.ndarray, hessian: np.ndarray | None = None) -> float:
        """Objective at `coef` (k, q) on `support`; true whatever `coef` is."""
        hessian = self.hessian(support) if hessian is None else hessian
        inner = np.vdot(coef, hessian @ coef - 2.0 * self.cross[support])
        return max(0.0, 0.5 * (self.energy + float(inner)))


@dataclass(frozen=True)
class Fit:
    """The ridge solution on one support and all that its neighbourhood needs."""

    support: np.ndarray  # (k,)
    coef: np.ndarray  # (k, q)
    objective: float
    inverse: np.ndarray  # (k, k) H^-1
    influence: np.ndarray  # (k, p) V
    residual: np.ndarray  # (p, q) r
    pivot: np.ndarray  # (p,) d


def fit_support(problem: Quadratic, support: np.ndarray) -> Fit:
    """Solve on a fixed support."""
    columns = problem.columns(support)
    hessian = columns[:, support] + problem.ridge * np.eye(len(support))
    inverse = _inverse(hessian)
    coef = inverse @ problem.cross[support]
    influence = inverse @ columns
    objective = problem.value(support, coef, hessian)
    residual = problem.cross - columns.T @ coef
    pivot = problem.diagonal + problem.ridge - np.einsum("ij,ij->j", columns, influence)
    return Fit(support, coef, objective, inverse, influence, residual, pivot)


def _inverse(matrix: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(matrix, hermitian=True)


def forward(problem: Quadratic, budget: Budget, start: np.ndarray) -> np.ndarray:
    """Complete `start` greedily, one column at a time, by pivoted Cholesky bookkeeping.

    Members of `start` that are copies of one another are dropped when there is room to complete.
    """
    p, scale = problem.size, problem.diagonal.max(initial=0.0)
    if not _outsiders(problem, budget, start).any():
        return start
    pivot = problem.diagonal + problem.ridge
    residual = problem.cross.copy()
    factor = np.empty((min(p, 8), p))
    support: list[int] = []
    queue = list(start.tolist())
    while True:
        if queue:
            i = queue.pop(0)
            if pivot[i] <= PIVOT_TOL * scale:
                continue
        else:
            members = np.array(support, dtype=int)
            allowed = _outsiders(problem, budget, members) & (pivot > PIVOT_TOL * scale)
            gain = np.einsum("ij,ij->i", residual, residual) / np.maximum(pivot, PIVOT_TOL * scale) * allowed
            i = first_best(gain)
            if not gain[i] > 1e-12 * problem.energy:
                return members
        root = np.sqrt(pivot[i])
        k = len(support)
        if k == len(factor):
            factor = np.vstack([factor, np.empty_like(factor)])
        row = (problem.columns(np.array([i]))[0] - factor[:k, i] @ factor[:k]) / root
        row[i] = root
        residual -= np.outer(row, residual[i] / root)
        pivot -= row * row
        factor[k] = row
        support.append(i)


def first_best(gain: np.ndarray) -> int:
    """Flat position of the largest gain; among gains that differ by rounding only, the first."""
    flat = gain.ravel()
    best = int(np.argmax(flat))
    close = flat >= flat[best] - TIE_TOL * abs(flat[best])
    return int(np.argmax(close)) if np.isfinite(flat[best]) else best


def _outsiders(problem: Quadratic, budget: Budget, support: np.ndarray) -> np.ndarray:
    """Mask of the varying columns that may join `support`."""
    allowed = budget.room(support, problem.size) & problem.admissible
    allowed[support] = False
    return allowed


def prune(problem: Quadratic, budget: Budget, support: np.ndarray) -> np.ndarray:
    """Drop the least useful member until what is left respects `budget` (inverses by downdating).

    Beyond `MIN_CROWD` members, and far from the budget, a fifth of them goes at once.
    """
    if not len(support) or _within(budget, support, problem.size):
        return support
    inverse = _inverse(problem.hessian(support))
    while len(support) and not _within(budget, support, problem.size):
        coef = inverse @ problem.cross[support]
        loss = np.nan_to_num(np.einsum("ij,ij->i", coef, coef) / np.diagonal(inverse))
        if len(support) > max(MIN_CROWD, 5 * budget.limit):
            support = support[np.sort(np.argsort(-loss, kind="stable")[: 4 * len(support) // 5])]
            inverse = _inverse(problem.hessian(support))
            continue
        least = np.flatnonzero(loss <= loss.min() + TIE_TOL * abs(loss.min()))
        j = least[np.argmax(support[least])]  # among copies the later one goes
        keep = np.arange(len(support)) != j
        lean = inverse[keep, j]
        inverse = inverse[np.ix_(keep, keep)] - np.outer(lean, lean / inverse[j, j])
        support = support[keep]
    return support


def _within(budget: Budget, support: np.ndarray, p: int) -> bool:
    """Whether the members of a support fit the budget together."""
    return bool(budget.room(support[:-1], p)[support[-1]])


def exchange_gains(fit: Fit, floor: float) -> np.ndarray:
    """Decrease of J (k, p) by each exchange (drop member j, add column i); -inf for pivots below `floor`."""
    h = np.diagonal(fit.inverse)[:, None]
    energy = np.sum(fit.coef**2, axis=1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # singular without a ridge
        lean = fit.influence / h
        moved = np.sum(fit.residual**2, axis=1)[None, :] + lean * (2.0 * (fit.coef @ fit.residual.T) + lean * energy)
        pivot = fit.pivot[None, :] + lean * fit.influence
        gain = 0.5 * (moved / np.maximum(pivot, floor) - energy / h)
        return np.where((pivot > floor) & np.isfinite(gain), gain, -np.inf)


def best_exchange(problem: Quadratic, budget: Budget, fit: Fit) -> tuple[int, int, float]:
    """Find the exchange (position to drop, column to add) with the largest decrease of J."""
    gain = exchange_gains(fit, PIVOT_TOL * problem.diagonal.max())
    allowed = problem.admissible[None, :] & budget.exchanges(fit.support, problem.size) & np.isfinite(gain)
    allowed[:, fit.support] = False
    gain[~allowed] = -np.inf
    j, i = np.unravel_index(first_best(gain), gain.shape)
    return int(j), int(i), float(gain[j, i])


def splice(problem: Quadratic, budget: Budget, support: np.ndarray) -> Fit:
    """Exchange members for outsiders, best exchange first, until none lowers J."""
    fit = fit_support(problem, support)
    if not len(support):
        return fit
    for _ in range(MAX_EXCHANGES):
        j, i, gain = best_exchange(problem, budget, fit)
        if not gain > MIN_GAIN * fit.objective:
            break
        other = np.append(np.delete(fit.support, j), i)
        trial = fit_support(problem, forward(problem, budget, other))
        if not trial.objective < fit.objective:
            break
        fit = trial
    return fit


def best_subset(problem: Quadratic, budget: Budget, warm: np.ndarray | None = None, *, thorough: bool = False) -> Fit:
    """Search for the best support within `budget`.

    Parameters
    ----------
    problem : Quadratic
    budget : Budget
    warm : support to start from, pruned if it exceeds the budget; the result is never worse than the
        refit of one within it. Without it the start is greedy.
    thorough : also start greedily, from a greedy selection three times as large, pruned, and from
        each of the best single columns (fewer of them for larger budgets, where they matter less).
    """
    empty = np.empty(0, dtype=int)
    starts = [empty] if warm is None else [prune(problem, budget, warm[problem.admissible[warm]])]
    if thorough:
        wide = forward(problem, budget.widened(3), empty)
        starts += [empty, prune(problem, budget, wide)]
        gain = np.sum(problem.cross**2, axis=1) / np.maximum(problem.diagonal + problem.ridge, np.finfo(float).tiny)
        first = np.argsort(-gain * problem.admissible, kind="stable")
        starts += [first[[i]] for i in range(min(SINGLES // max(1, budget.limit), MAX_SINGLES, problem.size))]
    supports = [forward(problem, budget, start) for start in starts]
    distinct = {tuple(sorted(s.tolist())): s for s in supports}.values()
    fits = [splice(problem, budget, s) for s in distinct]
    return fits[first_best(np.array([-fit.objective for fit in fits]))]


def exchange_violation(problem: Quadratic, budget: Budget, support: np.ndarray, objective: float) -> float:
    """Relative decrease of J that a refit, one addition or one exchange would bring (>= 0)."""
    fit = fit_support(problem, support)
    reach = fit.objective
    floor = PIVOT_TOL * problem.diagonal.max(initial=0.0)
    outside = _outsiders(problem, budget, support) & (fit.pivot > floor)
    if outside.any():
        gain = np.sum(fit.residual[outside] ** 2, axis=1) / fit.pivot[outside]
        reach = fit.objective - 0.5 * float(gain.max())
    if len(support):
        reach = min(reach, fit.objective - best_exchange(problem, budget, fit)[2])
    return max(0.0, objective - reach) / max(objective, 1e-12 * problem.energy, np.finfo(float).tiny)
