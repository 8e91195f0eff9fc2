"""Smooth curves: ridge regression on eigenfunctions of kernels, for all bags at once.

Numbers get functions that are linear between the ends of their cells, the leading eigenfunctions of a kernel on these
ends under the distribution of the rows; levels and missing cells get indicators. All columns of a basis have mean zero,
and the mean squared norm of each column of the table is one, so that a ridge means the same for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tamis.flagship.design import Bags, Design
from tamis.flagship.likelihood import Likelihood
from tamis.flagship.steps import Member

WIDTHS = (0.3, 1.0, 3.0)  # of the Gaussians of a smooth kernel, on standardised values and on ranks
FURTHEST = 4.0  # standard deviations beyond which values are as far as this
SMALLEST = 2e-3  # squared singular value of a direction that is kept, relative to the largest
FREE = 1e-6  # ridge of the intercept, relative to that of the others
HALVINGS, SHRINK = 6, 0.4  # of steps that do not lower the loss
TOLERANCE = 1e-4  # of the loss per square root of the rows, below which Newton steps end


@dataclass(frozen=True)
class Basis:
    """Functions of one column: their values (width, r) at the left and at the right end of each cell."""

    left: np.ndarray
    right: np.ndarray

    @property
    def size(self) -> int:
        return self.left.shape[1]

    def leading(self, rank: int) -> Basis:
        """The first functions only."""
        return Basis(self.left[:, :rank], self.right[:, :rank])


def column_basis(design: Design, column: int, kind: str, rank: int) -> Basis:
    """The basis of a column; `kind` is "line" or "smooth", `rank` the most functions."""
    cells, width = design.cells[column], design.width
    m, mass = cells.size, design.mass[column]
    if not cells.is_number:
        left = right = np.eye(width)[:, :m]
        ends = mass[:m]
    else:
        share = np.bincount(design.cell[:, column], design.weight * design.share[:, column], width)[:m]
        ends = np.zeros(m + 1)
        ends[:m] += mass[:m] - share
        ends[1:] += share
        functions = _functions(cells.edges, ends, kind)
        left, right = np.zeros((2, width, functions.shape[1]))
        left[:m], right[:m] = functions[:-1], functions[1:]
    if mass[m] > 0:
        missing = np.eye(width)[:, [m]]
        left, right = np.hstack([left, missing]), np.hstack([right, missing])
    return _reduced(design, column, left, right, rank)


def _functions(edges: np.ndarray, mass: np.ndarray, kind: str) -> np.ndarray:
    """Functions (m + 1, r) of the ends of cells, of which a kernel on these ends consists."""
    total = mass.sum()
    unit = max(float(np.max(np.abs(edges))), np.finfo(float).tiny)
    x = edges / unit
    share = mass / total if total > 0 else np.full(len(edges), 1.0 / len(edges))
    centred = x - share @ x
    spread = np.sqrt(share @ centred**2)
    if spread <= 1e-14 or len(edges) < 3:
        return np.zeros((len(edges), 0))
    z = np.clip(centred / spread, -FURTHEST, FURTHEST)
    if kind == "line":
        return z[:, None]
    rank = (np.cumsum(share) - 0.5 * share - 0.5) * np.sqrt(12.0)
    kernel = 0.5 * np.outer(z, z)
    for t in (z, rank):
        squares = (t[:, None] - t[None]) ** 2
        kernel += sum(np.exp(-squares / (2 * s * s)) for s in WIDTHS) / (2 * len(WIDTHS))
    values, vectors = np.linalg.eigh(kernel)
    kept = values > 1e-8 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def _reduced(design: Design, column: int, left: np.ndarray, right: np.ndarray, rank: int) -> Basis:
    """The leading directions of functions over the rows, with mean zero and mean squared norm one."""
    if not left.shape[1]:
        return Basis(left, right)
    rows = design.at(column, left, right)
    share = design.weight / design.weight.sum()
    mean = share @ rows
    values, vectors = np.linalg.eigh((rows * share[:, None]).T @ rows - np.outer(mean, mean))
    kept = np.flatnonzero(values > SMALLEST * max(values[-1], 1e-12))[::-1][:rank]
    if not len(kept):
        return Basis(left[:, :0], right[:, :0])
    turn = vectors[:, kept] / np.sqrt(values[kept].sum())
    turn *= np.where(turn[np.abs(turn).argmax(axis=0), np.arange(len(kept))] < 0, -1.0, 1.0)
    size = design.cells[column].size
    known = np.arange(design.width)[:, None] < size + (design.mass[column, size] > 0)
    return Basis(np.where(known, left - mean, 0.0) @ turn, np.where(known, right - mean, 0.0) @ turn)


def values_of(design: Design, bases: Sequence[Basis]) -> np.ndarray:
    """The functions of all columns at the rows (n, sum of sizes)."""
    parts = [design.at(j, basis.left, basis.right) for j, basis in enumerate(bases)]
    return np.concatenate([np.empty((len(design.weight), 0)), *parts], axis=1)


@dataclass(frozen=True)
class Ridge:
    """Coefficients (p, B, c) and intercepts (B, c) of all bags for one ridge, and what they give.

    Attributes
    ----------
    scores : (n, B, c)
    held : (n, c)
    loss : held out, per unit of weight
    """

    ridge: float
    slopes: np.ndarray
    base: np.ndarray
    scores: np.ndarray
    held: np.ndarray
    loss: float


def fit_ridges(
    Z: np.ndarray,
    likelihood: Likelihood,
    bags: Bags,
    ridges: Sequence[float],
    offset: np.ndarray | None = None,
    steps: tuple[int, int] = (4, 2),
) -> list[Ridge]:
    """Minimise, for every bag and a falling sequence of ridges,

        sum_i inside_i loss(offset_i + Z_i beta + base) + ridge/2 |beta|^2

    by Newton steps whose curvature is that of the mean score over the bags, so that the bags share one weighted Gram
    matrix less the part of the rows that each leaves out. A class has its own block. A step that raises the loss of a
    bag is shortened there.

    Parameters
    ----------
    Z : (n, p)
    offset : (n, B, c) scores to add to
    steps : Newton steps for the first ridge, and for each further one
    """
    (n, p), B, c = Z.shape, bags.n, bags.targets.shape[1]
    X = np.column_stack([Z, np.ones(n)])
    Y, inside = bags.targets[:, None], bags.inside
    full = inside.max(axis=1)
    left_out = [np.flatnonzero(inside[:, b] < full) for b in range(B)]
    beta = np.zeros((p + 1, B, c))
    if offset is None:
        beta[p] = likelihood.start(bags.targets, inside)
    scale = np.r_[np.ones(p), FREE]
    F = (X @ beta.reshape(p + 1, -1)).reshape(n, B, c) + (0.0 if offset is None else offset)
    enough = TOLERANCE * np.sqrt(full.sum())
    total = max(bags.weight.sum(), np.finfo(float).tiny)

    def objective(F: np.ndarray, beta: np.ndarray, ridge: float) -> np.ndarray:
        return (likelihood.losses(F, Y) * inside).sum(axis=0) + 0.5 * ridge * np.einsum("p,pbc->b", scale, beta**2)

    found = []
    for place, ridge in enumerate(ridges):
        current = objective(F, beta, ridge)
        for _ in range(steps[min(place, 1)]):
            P = likelihood.mean(F)
            slope = (X.T @ (likelihood.gradient(P, Y) * inside[:, :, None]).reshape(n, -1)).reshape(p + 1, B, c)
            slope -= ridge * scale[:, None, None] * beta
            curvature = likelihood.curvature(P.mean(axis=1)) + 1e-5
            move = _newton(X, slope, curvature, full, inside, left_out, ridge * scale + 1e-8)
            change = (X @ move.reshape(p + 1, -1)).reshape(n, B, c)
            size = np.ones(B)
            for _ in range(HALVINGS):
                after = objective(F + size[:, None] * change, beta + size[:, None] * move, ridge)
                worse = after > current + 1e-9 * np.abs(current)
                if not worse.any():
                    break
                size[worse] *= SHRINK
            else:
                size[worse] = 0.0
            beta, F = beta + size[:, None] * move, F + size[:, None] * change
            after = objective(F, beta, ridge)
            small = np.all(current - after < enough)
            current = after
            if small:
                break
        held = bags.held_out(F)
        loss = float(bags.weight @ likelihood.losses(held, bags.targets)) / total
        found.append(Ridge(ridge, beta[:p], beta[p], F, held, loss))
    return found


def _newton(
    X: np.ndarray,
    slope: np.ndarray,
    curvature: np.ndarray,
    full: np.ndarray,
    inside: np.ndarray,
    left_out: Sequence[np.ndarray],
    ridge: np.ndarray,
) -> np.ndarray:
    """Newton steps (p, B, c) of all bags."""
    move = np.empty_like(slope)
    for k in range(slope.shape[2]):
        rooted = X * np.sqrt(full * curvature[:, k])[:, None]
        gram = rooted.T @ rooted  # of one matrix with itself, which takes half the operations
        gram[np.diag_indices_from(gram)] += ridge
        for b, out in enumerate(left_out):
            lost = X[out] * np.sqrt((full[out] - inside[out, b]) * curvature[out, k])[:, None]
            own = gram - lost.T @ lost
            factor = cho_factor(own, lower=True, overwrite_a=True, check_finite=False)
            move[:, b, k] = cho_solve(factor, slope[:, b, k], check_finite=False)
    return move


def fit_curves(
    design: Design, likelihood: Likelihood, bags: Bags, kind: str, ridges: Sequence[float], rank: int
) -> Member:
    """The ridge of least held-out loss, as curves."""
    bases = [column_basis(design, j, kind, rank) for j in range(design.n_columns)]
    best = min(fit_ridges(values_of(design, bases), likelihood, bags, ridges), key=lambda found: found.loss)
    return as_member(design, bases, best)


def as_member(design: Design, bases: Sequence[Basis], found: Ridge) -> Member:
    """Curves of a ridge regression on bases."""
    shape = design.n_columns, design.width, *found.base.shape
    left, right, start = np.zeros(shape), np.zeros(shape), 0
    for j, basis in enumerate(bases):
        slopes = found.slopes[start : start + basis.size]
        left[j], right[j] = (np.tensordot(side, slopes, 1) for side in (basis.left, basis.right))
        start += basis.size
    return Member(left, right, found.base, found.scores, found.held, found.loss)
