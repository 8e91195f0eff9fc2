"""Which pairs to keep: those that pay on rows that neither chose nor fitted them.

Each fold screens the pairs without the rows that it leaves out, and fits steps on those that it finds. On the rows left
out the pairs that do not pay are dropped, the cheapest first. The others are fitted in all bags, in steps and smooth,
and judged once more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tamis.flagship.cells import Surface
from tamis.flagship.design import Bags, Design
from tamis.flagship.effects import pair_factor
from tamis.flagship.likelihood import Likelihood
from tamis.flagship.pairs import Grid, PairFit, fit_products, fit_quadrants, purified, screen
from tamis.flagship.ridge import Basis
from tamis.flagship.score import Score, chance_gain, gain_of, member_weights, shrinkage
from tamis.flagship.steps import Pace

RANK, RIDGES = 5, (100.0, 30.0, 10.0, 3.0, 1.0)
SCREENED, TRIED = 40, 16  # pairs that a score test, and a short fit, leave for each fold
SCREEN_PACE, PACE = Pace(0.8, 0.3, 30, 6), Pace(0.6, 0.1, 150, 12)
MIN_GAIN = 1.0  # held-out log-likelihood of all rows, below which a pair is dropped
WEIGHTS = (1.0, 0.5, 0.5)  # prior: of the curves, of steps and of smooth surfaces


def add_pairs(score: Score, design: Design, likelihood: Likelihood, bags: Bags, most: int, trust: float) -> Score:
    """Add surfaces of at most `most` pairs to a score; `trust` in [0, 1] is a factor on them."""
    grid = Grid.of(design)
    bases = grid.bases(RANK)
    pairs = _chosen(grid, bases, score, likelihood, bags.first(), most)
    if not len(pairs):
        return score
    both = _BothFits.of(grid, bases, pairs, score, likelihood, bags)
    weights, live = both.weighed(score, likelihood, bags, most)
    if not len(live):
        return score
    held = both.held(score, weights, live)
    luck = chance_gain(math.comb(design.n_columns, 2), len(live))
    factor = trust * shrinkage(gain_of(likelihood, bags, score.held, held) - luck)
    if factor == 0.0:
        return score
    found = both.added(score, grid, pairs, live, weights, factor, held)
    bounded = pair_factor(found, design)
    return found if bounded == 1.0 else both.added(score, grid, pairs, live, weights, bounded * factor, held)


@dataclass(frozen=True)
class _BothFits:
    """Steps and smooth surfaces of the same pairs, their held-out contributions (M, n, c) and constants (n, c)."""

    fits: tuple[PairFit, PairFit]
    parts: tuple[np.ndarray, np.ndarray]
    bases: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(
        cls, grid: Grid, bases: Sequence[Basis], pairs: np.ndarray, score: Score, likelihood: Likelihood, bags: Bags
    ) -> _BothFits:
        steps = fit_quadrants(grid, pairs, likelihood, bags, score.bags, PACE)
        smooth = fit_products(grid, bases, pairs, likelihood, bags, score.bags, RIDGES)
        n, c = bags.targets.shape
        constants = [bags.held_out(np.broadcast_to(fit.base, (n, bags.n, c))) for fit in (steps, smooth)]
        parts = [_held_parts(grid, pairs, fit, bags) for fit in (steps, smooth)]
        return cls((steps, smooth), (parts[0], parts[1]), (constants[0], constants[1]))

    def weighed(self, score: Score, likelihood: Likelihood, bags: Bags, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Return weights of the curves and of both fits, and the pairs that pay with them."""
        live = np.arange(len(self.parts[0]))
        for _ in range(2):
            both = zip(self.parts, self.bases, strict=True)
            held = [score.held, *(part[live].sum(axis=0) + base for part, base in both)]
            weights = member_weights(held, likelihood, bags, np.array(WEIGHTS))
            start = self.held(score, weights, live[:0])
            kept = _paying(self._mixed(weights)[live], start, likelihood, bags, most)
            if len(kept) == len(live):
                break
            live = live[kept]
        return weights, live

    def held(self, score: Score, weights: np.ndarray, live: np.ndarray) -> np.ndarray:
        """Return the held-out scores (n, c) with some of the pairs."""
        constants = sum(w * base for w, base in zip(weights[1:], self.bases, strict=True))
        return weights[0] * score.held + constants + self._mixed(weights)[live].sum(axis=0)

    def added(
        self,
        score: Score,
        grid: Grid,
        pairs: np.ndarray,
        live: np.ndarray,
        weights: np.ndarray,
        factor: float,
        held: np.ndarray,
    ) -> Score:
        """Return the score moved by a factor towards that with weights, whose held-out scores are `held`."""
        weights = np.r_[1.0 + factor * (weights[0] - 1.0), factor * weights[1:]]
        surfaces = sum(w * fit.surfaces[live] for w, fit in zip(weights[1:], self.fits, strict=True))
        base = sum(w * fit.base for w, fit in zip(weights[1:], self.fits, strict=True))
        held = score.held + factor * (held - score.held)
        return _with_surfaces(score, grid, pairs[live], surfaces, base, float(weights[0]), held)

    def _mixed(self, weights: np.ndarray) -> np.ndarray:
        return weights[1] * self.parts[0] + weights[2] * self.parts[1]


def _chosen(
    grid: Grid, bases: Sequence[Basis], score: Score, likelihood: Likelihood, first: Bags, most: int
) -> np.ndarray:
    """Pairs (M, 2) that folds choose and that pay on the rows that these leave out."""
    pairs, allowed = _candidates(grid, bases, score, likelihood, first)
    if not len(pairs):
        return pairs
    fitted = fit_quadrants(grid, pairs, likelihood, first, score.bags[:, : first.n], PACE, allowed)
    return pairs[_paying(_held_parts(grid, pairs, fitted, first), score.held, likelihood, first, most)]


def _candidates(
    grid: Grid, bases: Sequence[Basis], score: Score, likelihood: Likelihood, first: Bags
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (M, 2), and which of them each fold chooses without the rows that it leaves out (M, B)."""
    P = likelihood.mean(score.held)
    slope, curvature = likelihood.gradient(P, first.targets), likelihood.curvature(P)
    found = [screen(grid, bases, slope * w[:, None], curvature * w[:, None] ** 2, SCREENED)[0] for w in first.inside.T]
    pairs, place = np.unique(np.concatenate(found), axis=0, return_inverse=True)
    allowed = np.zeros((len(pairs), first.n), dtype=bool)
    allowed[place.ravel(), np.repeat(np.arange(first.n), [len(own) for own in found])] = True
    if len(pairs) <= TRIED:
        return pairs, allowed
    short = fit_quadrants(grid, pairs, likelihood, first, score.bags[:, : first.n], SCREEN_PACE, allowed)
    size = np.zeros(allowed.shape)
    for k, (a, b) in enumerate(pairs):
        size[k] = short.surfaces[k][grid.rows[:, a], grid.rows[:, b]].std(axis=0).sum(axis=1)
    allowed &= np.argsort(np.argsort(-size, axis=0, kind="stable"), axis=0) < TRIED
    used = allowed.any(axis=1)
    return pairs[used], allowed[used]


def _held_parts(grid: Grid, pairs: np.ndarray, fit: PairFit, bags: Bags) -> np.ndarray:
    """Held-out contributions (M, n, c) of pairs."""
    out = np.empty((len(pairs), *bags.targets.shape))
    for k, (a, b) in enumerate(pairs):
        out[k] = bags.held_out(fit.surfaces[k][grid.rows[:, a], grid.rows[:, b]])
    return out


def _paying(parts: np.ndarray, start: np.ndarray, likelihood: Likelihood, bags: Bags, most: int) -> np.ndarray:
    """The pairs that are left when those that do not pay on held-out rows are dropped, the cheapest first."""
    live, held = list(range(len(parts))), start + parts.sum(axis=0)
    while live:
        costs = [gain_of(likelihood, bags, held - parts[k], held) for k in live]
        cheapest = int(np.argmin(costs))
        if costs[cheapest] >= MIN_GAIN and len(live) <= most:
            break
        held = held - parts[live[cheapest]]
        del live[cheapest]
    return np.array(live, dtype=int)


def _with_surfaces(
    score: Score,
    grid: Grid,
    pairs: np.ndarray,
    surfaces: np.ndarray,
    base: np.ndarray,
    factor: float,
    held: np.ndarray,
) -> Score:
    """The score times a factor, with surfaces (M, side, side, B, c) made free of curves, and constants (B, c)."""
    left, right = factor * score.left, factor * score.right
    bags, found = factor * score.bags + base, []
    for (a, b), surface in zip(pairs, surfaces, strict=True):
        first, second = grid.rows[:, a], grid.rows[:, b]
        bags = bags + surface[first, second]
        mass = np.bincount(first * grid.side + second, grid.design.weight, grid.side**2).reshape(grid.side, grid.side)
        pure, along, across = purified(surface.mean(axis=2), mass)
        for column, moved in ((a, along), (b, across)):
            left[column] += moved[grid.groups[column]]
            right[column] += moved[grid.groups[column]]
        groups = grid.groups[a][: grid.sizes[a] + 2], grid.groups[b][: grid.sizes[b] + 2]
        found.append(Surface((int(a), int(b)), groups, pure))
    return replace(
        score,
        left=left,
        right=right,
        base=factor * score.base + base.mean(axis=0),
        surfaces=tuple(found),
        bags=bags,
        held=held,
    )
