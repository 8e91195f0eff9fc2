"""The dual of the soft-margin support vector machine.

    max_alpha  sum(alpha) - 1/2 (alpha*y)'K(alpha*y)    subject to  0 <= alpha <= cost,  y'alpha = 0

libsvm's decomposition comes near the solution from nothing, and slowly nearer where K is ill-conditioned. Given
which coefficients are zero, free or at their cost, the rest is one linear system of the size of the free set, and
the solution is reached to working accuracy by mending that partition: by Newton steps that change all rows whose
conditions fail at once, or, where these go astray, by an active-set method that never leaves the box and never
loses value. `solve_svm` does so for warm starts, for tight tolerances and where the decomposition runs out of
steps. Where K is costly as a whole but not in products with vectors, `solve_svm_on` solves on a few rows. Where it is a
`LowRank` matrix no block of it is larger than its rank: proximal points take the place of the decomposition.

Rows may have other margins than one: with `margins` h the objective is ``h'alpha - 1/2 (alpha*y)'K(alpha*y)``.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from tamis.optim.matrices import LowRank, Matrix, image_on, solve_on
from tamis.optim.proximal_svm import FINE_DECREMENT, Primal, approach

STEPS_PER_ROW = 300  # decomposition steps per row before another method takes over
LEAST_STEPS = 30_000
DECOMPOSITION_TOL = 1e-3  # margins to which the decomposition solves; Newton steps are finer
MAX_NEWTON_STEPS = 15  # most Newton steps
MAX_IDLE_STEPS = 3  # Newton steps without progress before they count as astray
MAX_WARM_STEPS = 15  # active-set steps for a warm start before the decomposition is the better idea
ACTIVE_STEPS_PER_ROW = 2  # active-set steps per row
JITTERS = (1e-13, 1e-11, 1e-9)  # added to the free block, relative to its largest diagonal entry: rows may be alike
FREE_RIDGE = 1e-10  # added to the free block for derivatives, likewise
ROUNDING = 1e-11  # changes of coefficients by this share of the largest are none
HARD_MARGIN = 1e8  # coefficient times diagonal from which on there is no margin
ROUGH_TOL = 1e-2  # margins that a rough matrix is solved to
MARGIN_BAND = 0.1  # excess over a margin of one up to which rows of a rough machine are solved on
TINY = np.finfo(float).tiny
SKETCH_ROWS = 1000  # rows whose machine is the start for a matrix of low rank


Margins = np.ndarray | float  # what y f is to reach, by row or for all


@dataclass(frozen=True)
class Machine:
    """A solution."""

    dual_coef: np.ndarray  # (n,) ``alpha * y``, so that ``f = K dual_coef + intercept``
    intercept: float
    value: float  # the dual objective, equal to the primal one at the optimum
    converged: bool  # whether margins are right to within the tolerance
    # an upper bound of the optimum: ``1/2 dual_coef'K dual_coef + sum(cost * max(0, 1 - y f))``, or that of a multiple
    # of f
    primal: float


class Gram(Protocol):
    """A Gram matrix that is evaluated where it is needed."""

    def corner(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """Values (k, l) between some rows."""
        ...

    def image(self, coef: np.ndarray) -> np.ndarray:
        """The matrix times a vector."""
        ...


def solve_svm(
    K: Matrix,  # (n, n) positive semi-definite: an array, a matrix on a device, or a `LowRank` one
    y: np.ndarray,  # (n,) in {-1, +1}, both present
    cost: np.ndarray,  # (n,) positive; a very large cost gives the hard margin
    *,
    tol: float = 1e-3,  # by how much margins may be off
    # (n,) dual_coef of a similar problem; saves time if mostly the same rows end at zero and at their cost
    start: np.ndarray | None = None,
    margins: np.ndarray | None = None,  # (n,) positive, what ``y f`` is to reach; None: one
) -> Machine:
    """Solve ``max_alpha  sum(alpha) - 1/2 (alpha*y)'K(alpha*y)``, ``0 <= alpha <= cost``, ``y'alpha = 0``.

    Notes
    -----
    Where the hard margin does not exist a large cost makes the steps run out, or coefficients exceed 1e8 over
    the largest diagonal entry; `converged` is false then.
    """
    dual = _Dual(K, y, cost, 1.0 if margins is None else margins)
    if start is not None:
        warm = dual.newton(start, tol) or dual.climb(start, tol, MAX_WARM_STEPS)
        if warm is not None:
            return warm
    machine = _decompose(K, y, cost, max(tol, DECOMPOSITION_TOL), start)
    if margins is not None:
        known = machine.dual_coef
        exact = dual.newton(known, tol) or dual.climb(known, tol, ACTIVE_STEPS_PER_ROW * len(y))
        return exact or dual.machine(known, machine.intercept, False)
    if tol >= DECOMPOSITION_TOL and machine.converged:
        return machine
    if machine.converged:
        machine = dual.newton(machine.dual_coef, tol) or _decompose(K, y, cost, tol, machine.dual_coef)
    if machine.converged or isinstance(K, LowRank):  # one row at a time is no way through many
        return machine
    return dual.climb(machine.dual_coef, tol, ACTIVE_STEPS_PER_ROW * len(y)) or machine


def solve_svm_on(gram: Gram, rough: Matrix, y: np.ndarray, cost: np.ndarray, *, tol: float = 1e-3) -> Machine:
    """Solve the same problem with few values of K, given a matrix that is roughly K.

    Parameters
    ----------
    gram : K, evaluated where it is needed
    rough : (n, n) positive semi-definite; the better, the fewer rows are solved for twice

    Notes
    -----
    The machine of the rough matrix shows which rows are near the margin or violate it. The problem is solved on
    these, the others having coefficient zero, and on those that turn out to be inside the margin.
    """
    guess = _decompose(rough, y, cost, ROUGH_TOL, None)
    margin = y * (rough @ guess.dual_coef + guess.intercept)
    rows = np.flatnonzero((margin < 1.0 + MARGIN_BAND) | (guess.dual_coef != 0))
    known, dual_coef, K = guess.dual_coef[rows], np.zeros(len(y)), gram.corner(rows, rows)
    while True:
        part = solve_svm(K, y[rows], cost[rows], tol=tol, start=known)
        dual_coef[rows] = part.dual_coef
        image = gram.image(dual_coef)
        margin = y * (image + part.intercept)
        margin[rows] = np.inf
        new = np.flatnonzero(margin < 1.0 - tol)
        if not len(new) or not part.converged:
            value, primal = objectives(image, y, cost, dual_coef, part.intercept)
            return Machine(dual_coef, part.intercept, value, part.converged, primal)
        side = gram.corner(rows, new)
        K = np.block([[K, side], [side.T, gram.corner(new, new)]])
        rows = np.concatenate([rows, new])
        known = dual_coef[rows]


def _decompose(K: Matrix, y: np.ndarray, cost: np.ndarray, tol: float, start: np.ndarray | None) -> Machine:
    """libsvm from nothing, whatever the start; for a matrix of low rank proximal points.

    libsvm does not treat its two classes alike: the one of the first row is its positive class, whatever the signs.
    """
    if isinstance(K, LowRank):
        return _approach(K, y, cost, tol, start)
    side = y[0]
    svc = SVC(kernel="precomputed", C=1.0, tol=tol, max_iter=max(LEAST_STEPS, STEPS_PER_ROW * len(y)), cache_size=1000)
    with warnings.catch_warnings(), config_context(assume_finite=True, skip_parameter_validation=True):
        warnings.simplefilter("ignore", ConvergenceWarning)
        svc.fit(np.asarray(K), side * y, sample_weight=cost)  # on the processor, wherever K is
    dual_coef = np.zeros(len(y))
    dual_coef[svc.support_] = side * svc.dual_coef_[0]
    return _Dual(K, y, cost).machine(dual_coef, float(side * svc.intercept_[0]), svc.fit_status_ == 0)


def _approach(K: LowRank, y: np.ndarray, cost: np.ndarray, tol: float, start: np.ndarray | None) -> Machine:
    """Proximal points from a start, or from the machine of a few rows; then the exact solution, if it is near."""
    dual = _Dual(K, y, cost)
    begun = _sketched(K, y, cost) if start is None else _started(K, y, cost, start)
    near = approach(K, y, cost, begun, tol)
    exact = dual.newton(near.alpha * y, tol)
    if exact is not None or not near.converged:
        return exact or dual.machine(_level(near.alpha, y, cost) * y, near.intercept, False)
    near = approach(K, y, cost, near, tol, FINE_DECREMENT)
    return dual.machine(_level(near.alpha, y, cost) * y, near.intercept, near.converged)


def _started(K: LowRank, y: np.ndarray, cost: np.ndarray, start: np.ndarray) -> Primal:
    """Where a machine with the coefficients `start` stands."""
    alpha = np.clip(start * y, 0.0, cost)
    free = (alpha > 0) & (alpha < cost)
    gap = y - K @ (alpha * y)
    return Primal(K.factor @ (alpha * y), float(np.median(gap[free] if free.any() else gap)), alpha)


def _sketched(K: LowRank, y: np.ndarray, cost: np.ndarray) -> Primal:
    """The machine of a few rows of either class, evenly spread, which stand for all."""
    classes = [np.flatnonzero(y == side) for side in (-1.0, 1.0)]
    rows = np.sort(np.concatenate([members[:: -(-len(members) // SKETCH_ROWS)] for members in classes]))
    share = np.where(y > 0, *(cost[y == side].sum() / cost[rows][y[rows] == side].sum() for side in (1.0, -1.0)))
    part = _decompose(K.take(rows).dense(), y[rows], (cost * share)[rows], ROUGH_TOL, None)
    w = K.factor[:, rows] @ part.dual_coef
    slack = 1.0 - y * (K.factor.T @ w + part.intercept)
    return Primal(w, part.intercept, cost * np.clip(0.5 + slack / MARGIN_BAND, 0.0, 1.0))


def _level(alpha: np.ndarray, y: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Almost the same coefficients with equal sums in both classes: the larger one loses, inside the range first."""
    over = float(alpha @ y)
    heavy = y * over > 0
    for some in (heavy & (alpha < cost), heavy):
        held = float(alpha[some].sum())
        share = abs(over) / held if held > abs(over) else 1.0
        alpha = np.where(some, alpha * (1.0 - share), alpha)
        over = np.sign(over) * max(0.0, abs(over) - held)
    return alpha


@dataclass(frozen=True)
class _Dual:
    """The problem, given to steps that go on from known coefficients."""

    K: Matrix
    y: np.ndarray
    cost: np.ndarray
    margins: Margins = 1.0

    def machine(self, dual_coef: np.ndarray, intercept: float, met: bool) -> Machine:
        """The machine with these coefficients."""
        hard = np.max(np.abs(dual_coef)) * np.max(self.K.diagonal()) >= HARD_MARGIN
        value, primal = objectives(self.K @ dual_coef, self.y, self.cost, dual_coef, intercept, self.margins)
        return Machine(dual_coef, intercept, value, met and not hard, primal)

    def newton(self, start: np.ndarray, tol: float) -> Machine | None:
        """Newton steps on the partition of `start` into zero, free and full coefficients; None if they lead nowhere."""
        y, cost = self.y, self.cost
        alpha = start * y
        full = alpha >= cost
        free = (alpha > 0) & ~full
        fewest, stalled = len(y) + 1, 0
        for _ in range(MAX_NEWTON_STEPS):
            solved = self.on_margin(np.where(full, cost * y, 0.0), free)
            if solved is None:
                return None
            dual_coef, intercept = solved
            alpha, margin = dual_coef * y, y * (self.K @ dual_coef + intercept)
            slack = ROUNDING * float(np.max(np.abs(alpha)))
            low, high = free & (alpha < -slack), free & (alpha > cost + slack)
            enter, leave = ~free & ~full & (margin < self.margins - tol), full & (margin > self.margins + tol)
            changes = int(np.count_nonzero(low | high | enter | leave))
            if not changes:
                return self.machine(y * np.clip(alpha, 0.0, cost), intercept, True)
            stalled = 0 if changes < fewest else stalled + 1
            if stalled == MAX_IDLE_STEPS:
                return None
            fewest = min(fewest, changes)
            free = (free & ~low & ~high) | enter | leave
            full = (full & ~leave) | high
        return None

    def climb(self, start: np.ndarray, tol: float, rounds: int) -> Machine | None:
        """Go from subspace optimum to subspace optimum in the box; None where `rounds` or the margin end.

        A step goes towards the optimum over the free rows until a coefficient reaches an end of its range, which
        ends its freedom. At the optimum the row whose condition fails most becomes free.
        """
        K, y, cost = self.K, self.y, self.cost
        alpha = np.clip(start * y, 0.0, cost)
        full = alpha >= cost
        free = (alpha > 0) & ~full
        largest = float(np.max(K.diagonal()))
        for _ in range(rounds):
            if np.max(alpha) * largest >= HARD_MARGIN:
                return None
            solved = self.on_margin(np.where(full, cost * y, 0.0), free)
            if solved is None:
                return None
            dual_coef, intercept = solved
            step = np.where(free, dual_coef * y - alpha, 0.0)
            step[np.abs(step) <= ROUNDING * np.max(alpha)] = 0.0
            end = np.where(step > 0, cost, 0.0)
            room = np.divide(end - alpha, step, out=np.full(len(y), np.inf), where=step != 0)
            length = float(room.min())
            if length < 1:
                hit = room <= length
                alpha = np.where(hit, end, np.clip(alpha + length * step, 0.0, cost))
                full |= hit & (step > 0)
                free &= ~hit
                continue
            alpha += step
            margin = y * (K @ (alpha * y) + intercept)
            fault = np.where(free, 0.0, np.where(full, margin - self.margins, self.margins - margin))
            worst = int(np.argmax(fault))
            if fault[worst] <= tol:
                return self.machine(alpha * y, intercept, True)
            free[worst], full[worst] = True, False
        return None

    def on_margin(self, fixed: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, float] | None:
        """Coefficients c of the free rows S, and intercept b, that put these rows on their margin.

        Solves ``K_SS c + b = (y*margins)_S - K_S fixed`` and ``sum(c) = -sum(fixed)``; None where there is no solution
        or K_SS is not positive semi-definite. Without free rows the intercept makes the two worst conditions alike.
        """
        K, y, margins = self.K, self.y, self.margins
        S, F = np.flatnonzero(free), np.flatnonzero(fixed)
        if not len(S):
            if abs(fixed.sum()) > ROUNDING * np.abs(fixed).sum():
                return None
            gap = y * margins - image_on(K, np.arange(len(y)), F, fixed)
            # rows of one kind want an intercept of at least their gap, the others of at most theirs
            up = (y > 0) == (fixed == 0)
            least = gap[up].max() if up.any() else gap.min()
            most = gap[~up].min() if not up.all() else gap.max()
            return fixed, 0.5 * float(least + most)
        size = float(np.max(K.diagonal()[S]))
        right = np.column_stack([np.ones(len(S)), (y * margins)[S] - image_on(K, S, F, fixed)])
        for jitter in JITTERS:
            # a constant changes the intercept alone, and K_SS may be singular where the system is not
            solved = solve_on(K, S, size, jitter * size, right)
            if solved is not None:
                ones, plain = solved.T
                shifted = float((plain.sum() + fixed.sum()) / ones.sum())
                coef = fixed.copy()
                coef[S] = plain - shifted * ones
                return coef, shifted - size * float(fixed.sum())
        return None


def check_labels(y: np.ndarray, cost: np.ndarray) -> None:
    """Refuse labels and costs that give no soft-margin problem."""
    if not np.all(np.abs(y) == 1.0):
        raise ValueError(f"y has the values {np.unique(y).tolist()[:5]}: it must be -1 or +1")
    if not np.all(cost >= 0) or not np.all(np.isfinite(cost)):
        raise ValueError(f"cost={cost.min()} to {cost.max()}: every row needs a finite cost of zero or more")
    if not cost[y > 0].any() or not cost[y < 0].any():
        raise ValueError("y has one class only, or one class has no cost: rows of both classes are needed")


def relative_gap(primal: float, dual: float) -> float:
    """How far the primal value may be from optimal, relative to itself."""
    return max(0.0, primal - dual) / max(primal, TINY)


def objectives(
    image: np.ndarray, y: np.ndarray, cost: np.ndarray, dual_coef: np.ndarray, intercept: float, margins: Margins = 1.0
) -> tuple[float, float]:
    """The dual objective, and the smaller primal one of f and f over its least margin; ``image = K dual_coef``."""
    energy = float(dual_coef @ image)
    margin = y * (image + intercept)
    primal = 0.5 * energy + float(cost @ np.maximum(0.0, margins - margin))
    least = float(np.min(margin / margins))
    if least > 0:
        primal = min(primal, 0.5 * energy / least**2)
    return float(np.sum(margins * np.abs(dual_coef))) - 0.5 * energy, primal


def curvature(K: Matrix, y: np.ndarray, cost: np.ndarray, dual_coef: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Second derivatives (L, L) of the optimal value in the weights of ``K = sum_l d_l K_l`` [Chapelle2008].

    They hold while the same rows S stay free: H_lm = (K_l b)_S' P (K_m b)_S with b the coefficients and P the upper
    left block of the inverse of [[K_SS, 1], [1', 0]]. Zero where they cannot be had.

    Parameters
    ----------
    images : (n, L) with columns ``K_l dual_coef``
    """
    alpha = dual_coef * y
    S = np.flatnonzero((alpha > 0) & (alpha < cost))
    if len(S) < 2:
        return np.zeros((images.shape[1], images.shape[1]))
    size = float(np.max(K.diagonal()[S]))
    G = images[S]
    # a constant does not change P, and K_SS may be singular where the bordered matrix is not
    solved = solve_on(K, S, size, FREE_RIDGE * size, np.column_stack([G, np.ones(len(S))]))
    if solved is None:  # a kernel is not positive semi-definite, or rows are alike in too many ways
        return np.zeros((images.shape[1], images.shape[1]))
    ones = solved[:, -1]
    H = G.T @ (solved[:, :-1] - np.outer(ones, solved[:, :-1].sum(axis=0) / ones.sum()))
    return 0.5 * (H + H.T)
