"""Kept cases: training rows that pull the scores of similar rows towards their own class.

The similarity of two rows compares all kept features, each with a share that follows how much it moves the score. A
few cases are added to a fitted score one at a time, the steepest first, each with a pull of at least zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tamis.flagship.cells import Cases, Curve
from tamis.flagship.design import Bags, Design
from tamis.flagship.effects import MAX_BEND, main_features, size_of, surface_effect
from tamis.flagship.likelihood import Likelihood
from tamis.flagship.ridge import FURTHEST
from tamis.flagship.score import Score, shrinkage
from tamis.table.folds import rank_keys
from tamis.table.keys import lowest, sampling_keys
from tamis.table.rows import Rows

WIDTHS = (0.35, 0.7)  # of the similarity
MAX_POOL = 300  # training rows that may become cases
RIDGE = 1.0
MIN_GAIN = 2.0  # of the held-out log-likelihood of all rows, below which no case is kept


@dataclass(frozen=True)
class Metric:
    """Coordinates of the cells of every column, and squared distances of levels, of a similarity of width one."""

    coordinates: tuple[Curve, ...]
    gaps: np.ndarray

    @classmethod
    def of(cls, design: Design, relevance: np.ndarray) -> Metric:
        """A metric in which a column counts by its `relevance` (d,), which add up to one."""
        coordinates, gaps = [], np.empty(design.n_columns)
        for j, cells in enumerate(design.cells):
            size, mass = cells.size, design.mass[j, : cells.size]
            share = mass / max(mass.sum(), np.finfo(float).tiny)
            left, right = np.zeros((2, size + 2))
            gaps[j] = relevance[j]
            if cells.is_number:
                ends = _coordinate(cells.edges, share)
                left[:size], right[:size] = ends[:-1], ends[1:]
            else:
                gaps[j] = relevance[j] / max(1.0 - share @ share, 0.25)
            coordinates.append(Curve(np.sqrt(relevance[j]) * left, np.sqrt(relevance[j]) * right))
        return cls(tuple(coordinates), gaps)

    def cases(self, rows: np.ndarray, pull: np.ndarray, width: float) -> Cases:
        """Cases at encoded rows (k, d)."""
        scale = 1.0 / (np.sqrt(2.0) * width)
        coordinates = tuple(curve.scaled(scale) for curve in self.coordinates)
        return Cases(rows, coordinates, self.gaps * scale**2, pull)


def _coordinate(edges: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The mean of the standardised value and the standardised rank at the ends of cells (m + 1,)."""
    rank = (np.r_[0.0, np.cumsum(share)] - 0.5) * np.sqrt(12.0)
    x = edges / max(float(np.max(np.abs(edges))), np.finfo(float).tiny)
    middle = (x[:-1] + x[1:]) / 2
    centre = share @ middle
    spread = np.sqrt(share @ (middle - centre) ** 2)
    z = np.clip((x - centre) / spread, -FURTHEST, FURTHEST) if spread > 1e-14 else np.zeros(len(x))
    return (z + rank) / 2


@dataclass(frozen=True)
class Chosen:
    """Some candidates with their pulls (k,) and the scores (n, c) that they give."""

    places: list[int]
    pulls: np.ndarray
    scores: np.ndarray


def add_cases(
    likelihood: Likelihood,
    targets: np.ndarray,
    weight: np.ndarray,
    offset: np.ndarray,
    similarity: np.ndarray,
    directions: np.ndarray,
    most: int,
) -> list[Chosen]:
    """Add candidates to scores, the one with the largest ``gradient^2 / (curvature + RIDGE)`` first.

    After each, the pulls of all are moved once to the minimum of a quadratic model, but not below zero.

    Parameters
    ----------
    targets, weight : (n, c) and (n,)
    offset : (n, c) scores to add to
    similarity : (n, p) of rows and candidates
    directions : (p, c) in which a candidate pulls
    """
    F, found = offset.copy(), []
    places: list[int] = []
    pulls: list[float] = []
    squares = similarity**2
    for _ in range(min(most, similarity.shape[1])):
        P = likelihood.mean(F)
        slope = likelihood.gradient(P, targets) * weight[:, None]
        curvature = likelihood.curvature(P) * weight[:, None]
        gradient = ((similarity.T @ slope) * directions).sum(axis=1)
        bend = ((squares.T @ curvature) * directions**2).sum(axis=1)
        worth = np.where(gradient > 0, gradient**2 / (bend + RIDGE), -1.0)
        worth[places] = -1.0
        best = int(worth.argmax())
        if worth[best] <= 0:
            break
        places.append(best)
        pulls.append(0.0)
        for i in range(len(places) - 1, -1, -1):
            own, way = similarity[:, places[i]], directions[places[i]]
            P = likelihood.mean(F)
            top = (own * weight) @ (likelihood.gradient(P, targets) @ way) - RIDGE * pulls[i]
            bottom = (own * own * weight) @ (likelihood.curvature(P) @ way**2) + RIDGE
            move = max(-pulls[i], top / bottom)
            pulls[i] += move
            F = F + move * own[:, None] * way
        found.append(Chosen(list(places), np.array(pulls), F))
    return found


@dataclass(frozen=True)
class Plan:
    """How many cases to keep, with which width, and what they gain on rows left out."""

    count: int
    width: float
    gain: float


def plan_cases(
    likelihood: Likelihood,
    bags: Bags,
    scores: np.ndarray,
    similarities: dict[float, np.ndarray],
    pool: np.ndarray,
    directions: np.ndarray,
    most: int,
) -> Plan:
    """Choose number and width on the folds: a bag adds cases of its own rows to its own scores (n, B, c)."""
    best = Plan(0, WIDTHS[0], 0.0)
    for width, similarity in similarities.items():
        gains = np.zeros(most + 1)
        for b in range(bags.n):
            inside, out = bags.inside[:, b], bags.outside[:, b]
            own = np.flatnonzero((inside[pool] > 0) & (out[pool] == 0))
            used = inside > 0
            path = add_cases(
                likelihood,
                bags.targets,
                np.where(used, inside, 0.0),
                scores[:, b],
                similarity[:, own],
                directions[own],
                most,
            )
            before = float(out @ likelihood.losses(scores[:, b], bags.targets))
            after = [out @ likelihood.losses(chosen.scores, bags.targets) for chosen in path]
            after = after + [after[-1] if after else before] * (most - len(after))
            gains[1:] += before - np.array(after)
        count = int(gains.argmax())
        if gains[count] > best.gain:
            best = Plan(count, width, float(gains[count]))
    return best if best.gain >= MIN_GAIN else Plan(0, best.width, best.gain)


def keep_cases(
    score: Score, design: Design, likelihood: Likelihood, bags: Bags, rows: Rows, Z: np.ndarray, most: int, seed: int
) -> tuple[Cases, np.ndarray]:
    """Return the cases that pull what curves and surfaces leave, and the rows that they are.

    Parameters
    ----------
    rows, Z : the n rows, and encoded (n, d)
    most : most cases
    seed : of the draw of candidates
    """
    none = np.empty(0, dtype=int)
    metric = Metric.of(design, _relevance(score, design))
    nothing = metric.cases(Z[none], np.empty((0, len(score.base))), 1.0), none
    if not most or not design.n_columns:
        return nothing
    pool = lowest(sampling_keys(rank_keys(rows.table, seed), rows.ties), MAX_POOL)
    directions = _directions(rows, bags.targets)[pool]
    places = [design.places(j) for j in range(design.n_columns)]
    apart = metric.cases(Z[pool], np.zeros((len(pool), 1)), 1.0).distances(design.cells, places)
    similarities = {width: np.exp(apart / -(width * width)) for width in WIDTHS}
    first = bags.first()
    plan = plan_cases(likelihood, first, score.bags[:, : first.n], similarities, pool, directions, most)
    weight, offset = bags.inside.max(axis=1), score.bags.mean(axis=1)
    path = add_cases(likelihood, bags.targets, weight, offset, similarities[plan.width], directions, plan.count)
    if not path:
        return nothing
    pulls = path[-1].pulls * shrinkage(plan.gain)
    kept = np.array(path[-1].places, dtype=int)[pulls > 0]
    cases = metric.cases(Z[pool[kept]], pulls[pulls > 0, None] * directions[kept], plan.width)
    factor = _factor(cases, score, design)
    if factor * plan.gain < MIN_GAIN:  # what is left of the cases does not pay
        return nothing
    return replace(cases, pull=factor * cases.pull), pool[kept]


def _factor(cases: Cases, score: Score, design: Design) -> float:
    """The factor on cases with which they and the surfaces bend no main feature too far.

    What cases add to the effect of a feature is the mean of their pulls over the rows with all other features as they
    are.
    """
    places = [design.places(j) for j in range(design.n_columns)]
    apart = [cases.distance(j, design.cells[j], places[j]) for j in range(design.n_columns)]
    total, share, factor = sum(apart), design.weight / design.weight.sum(), 1.0
    for j, length in main_features(score, design).items():
        effect = np.exp(-apart[j]) @ ((share @ np.exp(apart[j] - total))[:, None] * cases.pull)
        room = MAX_BEND * length - size_of(surface_effect(score, design, j), design)
        factor = min(factor, max(0.0, room) / max(size_of(effect, design), 1e-300))
    return factor


def _relevance(score: Score, design: Design) -> np.ndarray:
    """How much each column counts in the similarity of rows: the root of its share in the movements of the score."""
    size = np.zeros(design.n_columns)
    for j in range(design.n_columns):
        size[j] = design.at(j, score.left[j], score.right[j]).std(axis=0).sum()
    for surface in score.surfaces:
        spread = surface.at(*(design.places(j) for j in surface.places)).std(axis=0).sum()
        size[list(surface.places)] += spread
    root = np.sqrt(size / max(size.sum(), 1e-300))
    return root / max(root.sum(), 1e-300)


def _directions(rows: Rows, targets: np.ndarray) -> np.ndarray:
    """The scores (n, c) that rows pull: up or down for two classes, their own for more, as they are far for numbers."""
    return 2.0 * targets - 1.0 if rows.response is None and targets.shape[1] == 1 else targets
