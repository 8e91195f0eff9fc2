"""Which columns to keep: nested supports, judged on rows that had no part in the choice.

There are two ways to order the columns. One is how far boosting of few columns at a time moves them. For the other,
every column has a few smooth functions of coarse cells, and the pairs that a score test finds have products of them. A
penalised logistic (or linear) regression on all of these is a quadratic in their coefficients once it is reweighted at
the scores of the boosting, and columns are dropped from it, one after another, on sums of products alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from tamis.flagship.design import Bags, Design
from tamis.flagship.likelihood import Likelihood
from tamis.flagship.pairs import Grid, Products, screen
from tamis.flagship.ridge import Basis, fit_ridges, values_of
from tamis.flagship.score import chance_gain, gain_of, shrinkage
from tamis.flagship.steps import Member, Pace, fit_steps

MAX_SCREENED = 80  # columns among which supports are sought; of more, those with the largest gain alone
RANK, PAIR_RANK = 6, 4  # functions of a column, alone and in products
MAX_PAIRS, MIN_SCORE = 12, 3.0  # pairs whose products take part
RIDGE = 2.0  # of the regression on all functions
PILOT_PACE = Pace(0.9, 0.3, 60, 10)  # few columns at a time
ALONE_RIDGE = 3.0  # of a column alone
LEAST_CURVATURE = 1e-3  # of a row, per unit of weight
JUDGE_PACE = Pace(0.3, 0.25, 60, 8)
JUDGE_RIDGE = 10.0
JUDGE_PAIRS = 8
DROPPED_AT_ONCE = 0.1  # share of the columns, while there are more than twice as many as wanted


@dataclass(frozen=True)
class Quadratic:
    """The sum over classes of -u'b + b'A b / 2, less a ridge, on functions that belong to one or two columns each.

    All classes have the curvature that is their mean, so that a column is dropped from all of them by one elimination.

    Attributes
    ----------
    A, u : (d, d) and (d, c)
    owners : (d, 2) columns of each function, the same twice for a column alone
    """

    A: np.ndarray
    u: np.ndarray
    owners: np.ndarray


def quadratic_model(
    grid: Grid, bases: Sequence[Basis], likelihood: Likelihood, pilot: np.ndarray, one: Bags, most: int
) -> Quadratic:
    """The regression of one bag, reweighted at pilot scores (n, c), on functions of columns and of pairs."""
    weight, targets = one.inside[:, 0], one.targets
    columns = _screened(grid.design, bases, likelihood, one, max(MAX_SCREENED, most))
    Z = values_of(grid.design.take(columns), [bases[j] for j in columns])
    owners = np.repeat(columns, [bases[j].size for j in columns])
    owners = np.column_stack([owners, owners])
    P = likelihood.mean(pilot)
    slope = likelihood.gradient(P, targets) * weight[:, None]
    curvature = likelihood.curvature(P) * weight[:, None]
    if len(columns) > 1:
        short = [basis.leading(PAIR_RANK) for basis in bases]
        found, score = screen(
            grid.take(columns), [short[j] for j in columns], slope, curvature * weight[:, None], MAX_PAIRS
        )
        pairs = columns[found[score >= MIN_SCORE]]
        if len(pairs):
            products = Products.of(grid, short, pairs)
            Z = np.hstack([Z, products.values()])
            sizes = [table.shape[2] for table in products.tables]
            owners = np.vstack([owners, np.repeat(pairs, sizes, axis=0)])
    w = curvature.mean(axis=1) + LEAST_CURVATURE * weight
    rooted = Z * np.sqrt(w)[:, None]
    mean = (w @ Z) / w.sum()
    response = w[:, None] * pilot + slope
    u = Z.T @ response - np.outer(mean, response.sum(axis=0))
    return Quadratic(rooted.T @ rooted - np.outer(mean, mean) * w.sum(), u, owners)


def _screened(design: Design, bases: Sequence[Basis], likelihood: Likelihood, one: Bags, most: int) -> np.ndarray:
    """The columns that have functions; of more than `most` those that gain most alone."""
    told = np.array([j for j, basis in enumerate(bases) if basis.size], dtype=int)
    if len(told) <= most:
        return told
    P = likelihood.mean(likelihood.start(one.targets, one.inside))
    slope = likelihood.gradient(P, one.targets) * one.inside
    gain = np.empty(len(told))
    for k, j in enumerate(told):
        values = design.at(j, bases[j].left, bases[j].right)
        values = values - (one.inside[:, 0] @ values) / one.inside.sum()
        gram = (values * one.inside).T @ values
        gram[np.diag_indices_from(gram)] += ALONE_RIDGE
        score = values.T @ slope
        gain[k] = float((score * np.linalg.solve(gram, score)).sum())
    return np.sort(told[np.argsort(-gain, kind="stable")[:most]])


def nested_supports(quadratic: Quadratic, most: int) -> list[int]:
    """Columns in the order of their use: the first k are the support of size k, up to `most`.

    The column whose functions, products included, cost least is dropped, until none is left; the last ones come first.
    """
    owners = quadratic.owners
    S = np.linalg.inv(quadratic.A + RIDGE * np.eye(len(owners)))
    beta = S @ quadratic.u
    alive = np.unique(owners).tolist()
    order: list[int] = []
    while alive:
        cost = []
        for j in alive:
            own = np.flatnonzero((owners == j).any(axis=1))
            cost.append(float((beta[own] * np.linalg.solve(S[own[:, None], own], beta[own])).sum()))
        count = 1 if len(alive) <= 2 * most else max(1, int(DROPPED_AT_ONCE * len(alive)))
        for j in [alive[int(place)] for place in np.argsort(cost, kind="stable")[:count]]:
            S, beta, owners = _without(S, beta, owners, j)
            order.append(j)
        alive = [j for j in alive if j not in order]
    return order[::-1][:most]


def _without(
    S: np.ndarray, beta: np.ndarray, owners: np.ndarray, column: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The inverse and the minimiser of a quadratic without the functions of a column, by block elimination."""
    gone = (owners == column).any(axis=1)
    own, rest = np.flatnonzero(gone), np.flatnonzero(~gone)
    across = S[own[:, None], rest]
    right = np.linalg.solve(S[own[:, None], own], np.hstack([across, beta[own]]))
    change = across.T @ right
    size = len(rest)
    return S[rest[:, None], rest] - change[:, :size], beta[rest] - change[:, size:], owners[rest]


@dataclass(frozen=True)
class Selection:
    """The columns to keep, and how well the choice does on rows that had no part in it.

    Attributes
    ----------
    columns : sorted
    trust : in [0, 1], the share of the scores that the same choice, repeated on the folds, bears out
    luck : bound on the log-likelihood that the best of all supports of this size gains by chance
    light : held-out scores (n, c) of light models on supports that were chosen without and with the rows held out;
        None where there was no choice
    """

    columns: np.ndarray
    trust: float
    luck: float
    light: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def everything(cls, columns: np.ndarray) -> Selection:
        """All columns: there was no choice that could have been lucky."""
        return cls(columns, 1.0, 0.0)

    def optimism(self, likelihood: Likelihood, bags: Bags, constant: np.ndarray, factor: float) -> float:
        """How much held-out loss the choice hides, if scores are moved to a constant (n, c) by a factor."""
        if self.light is None:
            return 0.0
        honest, seen = (constant + factor * (held - constant) for held in self.light)
        return max(0.0, gain_of(likelihood, bags.first(), honest, seen))


@dataclass(frozen=True)
class Proposals:
    """What two ways to order columns propose: by how much boosting moves them, and by what dropping them costs.

    Attributes
    ----------
    grid, bases : coarse cells of all columns, and functions of them
    first, bags : bags of the first repetition, and all of them
    orders : for each way, for each of the first bags and then (if requested) for all rows, nested supports of `most`
        columns
    """

    grid: Grid
    bases: list[Basis]
    likelihood: Likelihood
    first: Bags
    bags: Bags
    orders: list[list[list[int]]]

    @classmethod
    def of(cls, design: Design, likelihood: Likelihood, bags: Bags, most: int, *, everything: bool = True) -> Proposals:
        """Order the columns in every bag of the first repetition, and on `everything` if requested."""
        grid, first = Grid.of(design), bags.first()
        bases = grid.bases(RANK)
        used = first
        if everything:
            rows = first.inside.max(axis=1)
            inside, outside = (
                np.column_stack([side, add]) for side, add in ((first.inside, rows), (first.outside, 0 * rows))
            )
            used = replace(first, inside=inside, outside=outside)
        pilot = fit_steps(design, likelihood, used, PILOT_PACE)
        dropped, moved = [], []
        for b, most_moved in enumerate(_by_importance(design, pilot)):
            model = quadratic_model(grid, bases, likelihood, pilot.held, used.only(b), most)
            kept = nested_supports(model, most)
            rest = [j for j in (*kept, *range(design.n_columns)) if j not in most_moved]
            moved.append([*most_moved, *dict.fromkeys(rest)][:most])
            rest = [j for j in moved[-1] if j not in kept]
            dropped.append([*kept, *rest][:most])
        return cls(grid, bases, likelihood, first, bags, [moved, dropped])

    def judged(self, supports: Sequence[Sequence[int]]) -> Judged:
        """Judge supports, one for each bag of the first repetition, by light models on them."""
        return _judged(self.grid, self.bases, self.likelihood, self.first, supports)

    def loss(self, support: Sequence[int]) -> float:
        """The held-out loss of light models on one support in all bags."""
        return _judged(self.grid, self.bases, self.likelihood, self.bags, [support] * self.bags.n).loss

    def best(self) -> list[list[int]]:
        """Return the supports of the way whose support on all rows has the least held-out loss."""
        same = sorted(self.orders[0][-1]) == sorted(self.orders[1][-1])
        return self.orders[0] if same else min(self.orders, key=lambda of_bags: self.loss(of_bags[-1]))


def select(design: Design, likelihood: Likelihood, bags: Bags, most: int) -> Selection:
    """Choose the columns whose light models do best on held-out rows.

    Supports that were found without the rows of a fold are judged on these rows, and so is the support that was found
    on all rows, which has seen them. How much less the first gain than the second says how far to trust the choice.
    """
    proposals = Proposals.of(design, likelihood, bags, most)
    best, first = proposals.best(), proposals.first
    honest, repeated = proposals.judged(best[:-1]), proposals.judged([best[-1]] * first.n)
    start = likelihood.start(bags.targets, first.inside)
    base = first.held_out(np.broadcast_to(start, (len(honest.held), *start.shape)))
    slopes = [_slope(likelihood, first, judged.held, base) for judged in (honest, repeated)]
    trust = float(np.clip(slopes[0] / slopes[1], 0.0, 1.0)) if slopes[1] > 0 else 0.0
    trust *= shrinkage(gain_of(likelihood, first, base, base + slopes[0] * (honest.held - base)))
    columns = np.sort(np.array(best[-1], dtype=int))
    luck = chance_gain(design.n_columns, len(columns))
    return Selection(columns, trust, luck, (honest.held, repeated.held))


def support_path(design: Design, likelihood: Likelihood, bags: Bags, most: int) -> dict[str, Any]:
    """Return nested supports, judged on rows that had no part in their choice.

    Returns
    -------
    dict with `n_features`, `features`, `loss` and `error`, as `fit.fit_path`
    """
    proposals = Proposals.of(design, likelihood, bags, most)
    orders, weight = proposals.best(), proposals.first.weight
    sizes = np.arange(1, len(orders[-1]) + 1)
    losses = np.array(
        [likelihood.losses(proposals.judged([o[:k] for o in orders[:-1]]).held, bags.targets) for k in sizes]
    )
    total = weight.sum()
    mean = losses @ weight / total
    apart = losses - losses[int(mean.argmin())]
    spread = (apart - (apart @ weight / total)[:, None]) ** 2 @ weight / total
    features = [tuple(orders[-1][:k]) for k in sizes]
    return {"n_features": sizes, "features": features, "loss": mean, "error": np.sqrt(spread / total)}


def smallest_within_error(path: dict[str, Any]) -> int:
    """Return the smallest number of columns whose loss is within one standard error of the smallest loss."""
    fine = path["loss"] <= path["loss"].min() + path["error"]
    return int(path["n_features"][np.flatnonzero(fine)[0]])


def _by_importance(design: Design, pilot: Member) -> list[list[int]]:
    """For each bag the columns with steps, in the order of their mean modulus."""
    mass = design.mass / design.weight.sum()
    centred = pilot.left - np.einsum("jw,jwbc->jbc", mass, pilot.left)[:, None]
    size = np.einsum("jw,jwbc->bj", mass, np.abs(centred))
    return [np.argsort(-own, kind="stable")[: np.count_nonzero(own)].tolist() for own in size]


def _slope(likelihood: Likelihood, bags: Bags, scores: np.ndarray, base: np.ndarray) -> float:
    """The factor on scores, measured from a base, with the least held-out loss."""

    def loss(factor: float) -> float:
        return float(bags.weight @ likelihood.losses(base + factor * (scores - base), bags.targets))

    return float(minimize_scalar(loss, bounds=(0.0, 2.0), method="bounded").x)


@dataclass(frozen=True)
class Judged:
    """Held-out loss of light models, and their held-out scores (n, c)."""

    loss: float
    held: np.ndarray


def _judged(
    grid: Grid, bases: Sequence[Basis], likelihood: Likelihood, bags: Bags, supports: Sequence[Sequence[int]]
) -> Judged:
    """Judge supports, one for each bag, by the mean of steps and smooth curves, and products of pairs on top."""
    union = np.unique(np.concatenate([np.array(support, dtype=int) for support in supports]))
    allowed = np.array([np.isin(union, support) for support in supports]).T
    scores = fit_steps(grid.fine.take(union), likelihood, bags, JUDGE_PACE, allowed).scores / 2
    each, same = [], allowed.all()
    for b, support in enumerate(supports):
        columns = np.sort(np.array(support, dtype=int))
        part, own = grid.take(columns), [bases[j].leading(PAIR_RANK) for j in columns]
        if b == 0 or not same:
            fitted_bags = bags if same else bags.only(b)
            (smooth,) = fit_ridges(values_of(part.design, own), likelihood, fitted_bags, (JUDGE_RIDGE,), None, (3, 0))
            scores[:, slice(None) if same else [b]] += smooth.scores / 2
        each.append((bags.only(b), part, own))
    held = bags.held_out(scores)
    P = likelihood.mean(held)
    slope, curvature = likelihood.gradient(P, bags.targets), likelihood.curvature(P)
    for b, (one, part, own) in enumerate(each):
        if len(own) > 1:
            pairs, score = screen(part, own, slope * one.inside, curvature * one.inside**2, JUDGE_PAIRS)
            if np.any(score >= MIN_SCORE):
                Z = Products.of(part, own, pairs[score >= MIN_SCORE]).values()
                (fitted,) = fit_ridges(Z, likelihood, one, (JUDGE_RIDGE,), scores[:, [b]], (2, 0))
                scores[:, b] = fitted.scores[:, 0]
    held = bags.held_out(scores)
    return Judged(float(bags.weight @ likelihood.losses(held, bags.targets)), held)
