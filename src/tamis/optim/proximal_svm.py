"""The support vector machine of a Gram matrix of low rank, by proximal points and Newton's method.

With ``K = A'A + diag(ridge)``, w = A(alpha*y) and margins r = 1 - y (A'w + b), the dual with a proximal term is

    max over alpha in [0, cost]   alpha'r - 1/2 ridge'alpha^2 - 1/(2 sigma) |alpha - before|^2

for every row by itself: ``alpha = clip((r + before / sigma) / (ridge + 1 / sigma), 0, cost)``. What is left is a smooth
convex function of (w, b) whose second derivative counts the rows with 0 < alpha < cost alone, so that a Newton step
costs a system of the size of these, or of the rank [Yan2020]. At its minimum every condition holds to within
|alpha - before| / sigma, the amount by which margins are off; sigma grows until that is below the tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tamis.optim.matrices import LowRank, woodbury

FIRST_SIGMA = 10.0  # sigma at the start, relative to the mean cost
SIGMA_GROWTH = 10.0
MAX_PROXIMAL_POINTS = 10  # most proximal points
MAX_NEWTON_STEPS = 100  # most Newton steps for each
ROUGH_DECREMENT = 1e-6  # decrement that is enough, relative to the value
FINE_DECREMENT = 1e-22  # and that is aimed at where all depends on it
ACCEPTED_DECREMENT = 1e-9  # what will do then
MAX_TRIALS = 40  # slopes in one line search
SLOPE_SHARE = 0.1  # share of the first slope at which it ends
INTERCEPT_CURVATURE = 1e-12  # curvature of the intercept, relative to that of all rows, where no row holds it


@dataclass(frozen=True)
class Primal:
    """Where a search begins or ends."""

    w: np.ndarray  # (r,)
    intercept: float
    alpha: np.ndarray  # (n,) coefficients in [0, cost]
    sigma: float = 0.0  # how far the next point may go; zero: not yet known
    converged: bool = False  # whether margins are right to within the tolerance


def approach(
    K: LowRank, y: np.ndarray, cost: np.ndarray, start: Primal, tol: float, precision: float = ROUGH_DECREMENT
) -> Primal:
    """Come to within margins of `tol` of the machine's solution, from a start with ``w`` of ``K.factor``.

    A `precision` of `ROUGH_DECREMENT` is enough to find which coefficients are inside their range, one of
    `FINE_DECREMENT` for the solution itself.
    """
    ridge = np.zeros(len(y)) if K.ridge is None else K.ridge
    now = start if start.sigma else replace(start, sigma=FIRST_SIGMA * float(cost.mean()))
    for _ in range(MAX_PROXIMAL_POINTS):
        moved, settled = _minimise(_Smooth(K.factor, y, cost, ridge, now), now, precision)
        off = float(np.max(np.abs(moved.alpha - now.alpha))) / now.sigma
        now = replace(moved, sigma=now.sigma, converged=settled and off <= tol)
        if now.converged:
            break
        now = replace(now, sigma=SIGMA_GROWTH * now.sigma)
    return now


@dataclass(frozen=True)
class _Smooth:
    """The function of (w, b) that a proximal point minimises."""

    A: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    ridge: np.ndarray
    before: Primal

    @property
    def sigma(self) -> float:
        return self.before.sigma

    @property
    def slope(self) -> np.ndarray:
        """By how much alpha follows the margin (n,), where it is inside its range."""
        return 1.0 / (self.ridge + 1.0 / self.sigma)

    @property
    def anchor(self) -> float:
        """What holds the intercept where no row does."""
        return INTERCEPT_CURVATURE * float(self.slope.sum())

    def alpha(self, f: np.ndarray, b: float) -> np.ndarray:
        """The coefficients that margins require, with ``f = A'w``."""
        r = 1.0 - self.y * (f + b)
        return np.clip(self.slope * (r + self.before.alpha / self.sigma), 0.0, self.cost)

    def inside(self, alpha: np.ndarray) -> np.ndarray:
        """The rows (n,) whose coefficients follow their margins."""
        return (alpha > 0) & (alpha < self.cost)

    def at(self, f: np.ndarray, w: np.ndarray, b: float) -> tuple[float, np.ndarray]:
        """The value and alpha, with ``f = A'w``."""
        r, alpha = 1.0 - self.y * (f + b), self.alpha(f, b)
        rows = alpha * r - 0.5 * self.ridge * alpha**2 - 0.5 / self.sigma * (alpha - self.before.alpha) ** 2
        moved = b - self.before.intercept
        return 0.5 * float(w @ w) + float(rows.sum()) + 0.5 * self.anchor * moved**2, alpha

    def step(self, w: np.ndarray, b: float, alpha: np.ndarray) -> tuple[np.ndarray, float, float]:
        """The Newton step to be subtracted from w and b, and the decrease that it promises, twice."""
        pull = self.y * alpha
        gw = w - self.A @ pull
        gb = self.anchor * (b - self.before.intercept) - float(pull.sum())
        J = np.flatnonzero(self.inside(alpha))
        AJ, s = self.A[:, J], self.slope[J]
        side = AJ @ s
        solved = _shifted_solve(AJ, s, np.column_stack([gw, side]))
        room = self.anchor + float(s.sum()) - float(side @ solved[:, 1])
        db = (gb - float(side @ solved[:, 0])) / max(room, INTERCEPT_CURVATURE * float(self.slope.sum()))
        dw = solved[:, 0] - db * solved[:, 1]
        return dw, db, float(gw @ dw) + gb * db


def _shifted_solve(A: np.ndarray, s: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``(I + A diag(s) A')^-1 right`` with A (r, k), through the smaller of its sides."""
    r, k = A.shape
    if not k:
        return right
    if k < r:
        return woodbury((A * np.sqrt(s)).T, np.ones(r), right)
    H = (A * s) @ A.T
    H[np.diag_indices(r)] += 1.0
    return cho_solve(cho_factor(H, lower=True, overwrite_a=True, check_finite=False), right)


def _minimise(smooth: _Smooth, start: Primal, tol: float) -> tuple[Primal, bool]:
    """Newton's method with a line search; whether it ended at the minimum."""
    w, b = start.w, start.intercept
    f = smooth.A.T @ w
    states, t = np.zeros(len(f), dtype=int), 0.0
    for _ in range(MAX_NEWTON_STEPS):
        value, alpha = smooth.at(f, w, b)
        before, states = states, (alpha > 0) * 1 + (alpha >= smooth.cost)
        if t == 1.0 and np.array_equal(before, states):  # quadratic between the last point and this one
            return Primal(w, b, alpha), True
        dw, db, promised = smooth.step(w, b, alpha)
        if promised <= tol * (1.0 + abs(value)):
            return Primal(w, b, alpha), True
        df = smooth.A.T @ dw
        t = _length(_Line(smooth, (f, df), (b, db), float(w @ dw), float(dw @ dw)), promised)
        w, b, f = w - t * dw, b - t * db, f - t * df
    return Primal(w, b, smooth.alpha(f, b)), promised <= max(tol, ACCEPTED_DECREMENT) * (1.0 + abs(value))


@dataclass(frozen=True)
class _Line:
    """The function along ``w - t dw, b - t db``; `f` and `b` come with their steps."""

    smooth: _Smooth
    f: tuple[np.ndarray, np.ndarray]
    b: tuple[float, float]
    tilt: float
    size: float

    def slope(self, t: float) -> float:
        (f, df), (b, db), smooth = self.f, self.b, self.smooth
        pull = smooth.y * smooth.alpha(f - t * df, b - t * db)
        held = smooth.anchor * (b - t * db - smooth.before.intercept) * db
        return t * self.size - self.tilt + float(pull @ df) + float(pull.sum()) * db - held


def _length(line: _Line, promised: float) -> float:
    """A step at which the slope, which rises along the line from minus `promised`, is small."""
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(MAX_TRIALS):
        slope = line.slope(t)
        if abs(slope) <= SLOPE_SHARE * promised:
            break
        low, high = (t, high) if slope < 0 else (low, t)
        t = 2.0 * t if high == np.inf else 0.5 * (low + high)
    return t
