"""Curves of steps: boosted cuts in cells, for all columns, bags and classes at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tamis.flagship.design import Bags, Design
from tamis.flagship.likelihood import Likelihood

RIDGE = 1.0  # added to the curvature of a leaf
OWN_RIDGE = 3.0  # times `RIDGE`, for levels of categories and missing cells
MIN_CURVATURE = 0.25  # on both sides of a cut
MIN_GAIN = 1e-5  # of the held-out loss per row, below which a round counts as none


@dataclass(frozen=True)
class Pace:
    """How fast steps are added.

    Attributes
    ----------
    gate : share of the largest gain that a column needs to be changed in a round
    rate : share of a Newton step, for all columns that are changed at most one in sum
    rounds, patience : most rounds, and rounds without gain after which to stop
    """

    gate: float
    rate: float
    rounds: int = 300
    patience: int = 25


@dataclass(frozen=True)
class Member:
    """One additive fit of all bags.

    Attributes
    ----------
    left, right : (d, width, B, c) contributions at the ends of the cells
    base : (B, c)
    scores : (n, B, c)
    held : (n, c) held-out scores
    loss : held-out loss per unit of weight
    """

    left: np.ndarray
    right: np.ndarray
    base: np.ndarray
    scores: np.ndarray
    held: np.ndarray
    loss: float


def fit_steps(
    design: Design, likelihood: Likelihood, bags: Bags, pace: Pace, allowed: np.ndarray | None = None
) -> Member:
    """Add cuts to the curves of the columns that gain most, until the held-out loss no longer falls.

    `allowed` (d, B) says which columns a bag may use; None: all.
    """
    d, width, (n, c), B = design.n_columns, design.width, bags.targets.shape, bags.n
    Y, inside = bags.targets[:, None], bags.inside[:, :, None]
    base = likelihood.start(bags.targets, bags.inside)
    F, table = np.broadcast_to(base, (n, B, c)).copy(), np.zeros((d, width, B, c))
    total = max(bags.weight.sum(), np.finfo(float).tiny)

    def held_loss(scores: np.ndarray) -> tuple[float, np.ndarray]:
        held = bags.held_out(scores)
        return float(bags.weight @ likelihood.losses(held, bags.targets)) / total, held

    best, held = held_loss(F)
    best_table, best_F, since = table.copy(), F.copy(), 0
    for _ in range(pace.rounds):
        P = likelihood.mean(F)
        both = np.concatenate([likelihood.gradient(P, Y) * inside, likelihood.curvature(P) * inside], axis=2)
        sums = (design.transposed @ both.reshape(n, -1)).reshape(d, width, B, 2 * c)
        step, gain = _cuts(design, sums[..., :c], sums[..., c:])
        total_gain = gain.sum(axis=2) if allowed is None else gain.sum(axis=2) * allowed
        on = (total_gain > 0) & (total_gain >= pace.gate * total_gain.max(axis=0, initial=0.0))
        if not on.any():
            break
        step *= (on * np.minimum(pace.rate, 1.0 / np.maximum(on.sum(axis=0), 1)))[:, None, :, None]
        table += step
        used = np.flatnonzero(on.any(axis=1))
        if len(used) * 2 < d:
            F += sum(step[j][design.cell[:, j]] for j in used)
        else:
            F += (design.indicator @ step.reshape(d * width, -1)).reshape(n, B, c)
        loss, now = held_loss(F)
        if loss < best - MIN_GAIN:
            best, held, since = loss, now, 0
            best_table[...], best_F[...] = table, F
        else:
            since += 1
            if since >= pace.patience:
                break
    return Member(best_table, best_table, base, best_F, held, best)


def _cuts(design: Design, g: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best step (d, width, B, c) of each column, and its gain (d, B, c), from sums (d, width, B, c)."""
    d, width, B, c = g.shape
    step, gain = np.zeros_like(g), np.zeros((d, B, c))
    own = g / (h + OWN_RIDGE * RIDGE)
    numbers, nominal = np.flatnonzero(~design.nominal), np.flatnonzero(design.nominal)
    if len(numbers):
        last = design.sizes[numbers]
        place = np.arange(width)[None, :, None, None]
        inside = place < last[:, None, None, None]
        gl, hl = (np.cumsum(np.where(inside, part[numbers], 0.0), axis=1)[:, :-1] for part in (g, h))
        gt, ht = gl[:, -1:], hl[:, -1:]
        gr, hr = gt - gl, ht - hl
        worth = gl * gl / (hl + RIDGE) + gr * gr / (hr + RIDGE) - gt * gt / (ht + RIDGE)
        fine = (place[:, :-1] < last[:, None, None, None] - 1) & (hl > MIN_CURVATURE) & (hr > MIN_CURVATURE)
        worth = np.where(fine, worth, 0.0)
        cut = worth.argmax(axis=1)[:, None]
        best = np.take_along_axis(worth, cut, 1)
        low = np.take_along_axis(gl, cut, 1) / (np.take_along_axis(hl, cut, 1) + RIDGE)
        high = np.take_along_axis(gr, cut, 1) / (np.take_along_axis(hr, cut, 1) + RIDGE)
        step[numbers] = np.where(inside & (best > 0), np.where(place <= cut, low, high), 0.0)
        gain[numbers] = best[:, 0]
        missing = numbers, last
        step[missing] = own[missing]
        gain[numbers] += g[missing] * own[missing]
    if len(nominal):
        levels = np.arange(width)[None, :, None, None] <= design.sizes[nominal][:, None, None, None]
        step[nominal] = np.where(levels, own[nominal], 0.0)
        spread = np.sqrt(np.maximum(design.sizes[nominal] - 1, 1))
        gain[nominal] = (g[nominal] * step[nominal]).sum(axis=1) / spread[:, None, None]
    return step, gain
