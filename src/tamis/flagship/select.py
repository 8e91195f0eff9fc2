"""Which columns to keep: nested supports from sums of products, judged on rows that had no part in the choice.

Every column has a few smooth functions of coarse cells, and the pairs that a score test finds have products of them. A
penalised logistic (or linear) regression on all of these is a quadratic in their coefficients once it is reweighted at
its own fit, and from then on columns are dropped or added on sums of products alone.
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
PILOT_RIDGE = 3.0
LEAST_CURVATURE = 1e-3  # of a row, per unit of weight
JUDGE_RIDGE = 10.0
JUDGE_PAIRS = 8
DROPPED_AT_ONCE = 0.1  # share of the columns, while there are more than twice as many as wanted


@dataclass(frozen=True)
class Strategy:
    """A way to find nested supports.

    Attributes
    ----------
    pairs : whether products of pairs take part
    ridge : on the quadratic
    """

    pairs: bool
    ridge: float


STRATEGIES = {"drop, with pairs": Strategy(True, 2.0), "drop": Strategy(False, 10.0)}
PILOTS = {"boosted": Pace(0.2, 0.2, 60, 10), "boosted, few at a time": Pace(0.9, 0.3, 60, 10)}
JUDGE_PACE = Pace(0.3, 0.25, 60, 8)


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

    def without_pairs(self) -> Quadratic:
        alone = np.flatnonzero(self.owners[:, 0] == self.owners[:, 1])
        return Quadratic(self.A[alone[:, None], alone], self.u[alone], self.owners[alone])


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
        gram[np.diag_indices_from(gram)] += PILOT_RIDGE
        score = values.T @ slope
        gain[k] = float((score * np.linalg.solve(gram, score)).sum())
    return np.sort(told[np.argsort(-gain, kind="stable")[:most]])


def nested_supports(quadratic: Quadratic, strategy: Strategy, most: int) -> list[int]:
    """Columns in the order of their use: the first k are the support of size k, up to `most`."""
    if not strategy.pairs:
        quadratic = quadratic.without_pairs()
    return _dropped(quadratic, strategy.ridge, most)


def _dropped(quadratic: Quadratic, ridge: float, most: int) -> list[int]:
    """Drop the column whose functions, products included, cost least, until none is left; the last ones come first."""
    owners = quadratic.owners
    S = np.linalg.inv(quadratic.A + ridge * np.eye(len(owners)))
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
    order : nested supports: the first k columns
    trust : in [0, 1], the share of the scores that the same choice, repeated on the folds, bears out
    luck : bound on the log-likelihood that the best of all supports of this size gains by chance
    strategy : its name
    """

    columns: np.ndarray
    order: list[int]
    trust: float
    luck: float
    strategy: str

    @classmethod
    def everything(cls, columns: np.ndarray) -> Selection:
        """All columns: there was no choice that could have been lucky."""
        return cls(columns, columns.tolist(), 1.0, 0.0, "all")


@dataclass(frozen=True)
class Proposals:
    """What the strategies propose.

    Attributes
    ----------
    grid, bases : coarse cells of all columns, and functions of them
    first : bags of the first repetition
    orders : by name, for each of these bags and then for all rows, nested supports of `most` columns
    """

    grid: Grid
    bases: list[Basis]
    likelihood: Likelihood
    first: Bags
    orders: dict[str, list[list[int]]]

    @classmethod
    def of(cls, design: Design, likelihood: Likelihood, bags: Bags, most: int) -> Proposals:
        grid, first = Grid.of(design), bags.first()
        bases = grid.bases(RANK)
        everything = first.inside.max(axis=1)
        inside = np.column_stack([first.inside, everything])
        outside = np.column_stack([first.outside, np.zeros(len(everything))])
        more = replace(first, inside=inside, outside=outside)  # and a bag of all rows
        pilots = {name: fit_steps(design, likelihood, more, pace) for name, pace in PILOTS.items()}
        orders = {name: _by_importance(design, pilot, most) for name, pilot in pilots.items()}
        held = min(pilots.values(), key=lambda pilot: pilot.loss).held
        quadratics = [quadratic_model(grid, bases, likelihood, held, more.only(b), most) for b in range(more.n)]
        for name, strategy in STRATEGIES.items():
            orders[name] = [nested_supports(quadratic, strategy, most) for quadratic in quadratics]
        full = {name: of_bags for name, of_bags in orders.items() if all(len(order) == most for order in of_bags)}
        return cls(grid, bases, likelihood, first, full or orders)

    def judged(self, supports: Sequence[Sequence[int]]) -> Judged:
        """Judge supports, one for each bag, by light models on them."""
        return _judged(self.grid, self.bases, self.likelihood, self.first, supports)

    def best(self) -> tuple[str, Judged, Judged]:
        """Return the strategy with the least sum of two held-out losses, and how its supports were judged.

        The supports that it finds without each fold say how good the strategy is; the one that it finds on all rows,
        which is the one to be kept, says how good this support is, and is flattered by what it has seen.
        """
        memo: dict[tuple, Judged] = {}  # strategies often agree

        def judged(supports: Sequence[Sequence[int]]) -> Judged:
            key = tuple(tuple(sorted(support)) for support in supports)
            if key not in memo:
                memo[key] = self.judged(supports)
            return memo[key]

        found = {}
        for name, of_bags in self.orders.items():
            found[name] = judged(of_bags[:-1]), judged([of_bags[-1]] * self.first.n)
        best = min(found, key=lambda name: found[name][0].loss + found[name][1].loss)
        return best, *found[best]


def select(design: Design, likelihood: Likelihood, bags: Bags, most: int) -> Selection:
    """Choose the strategy whose supports do best, and apply it to all rows.

    Supports that a strategy finds without the rows of a fold are judged on these rows, and so is the support that it
    finds on all rows. How much less the first gain than the second is how far the choice can be trusted.
    """
    proposals = Proposals.of(design, likelihood, bags, most)
    best, honest, repeated = proposals.best()
    first, order = proposals.first, proposals.orders[best][-1]
    start = likelihood.start(bags.targets, first.inside)
    base = first.held_out(np.broadcast_to(start, (len(honest.held), *start.shape)))
    slopes = [_slope(likelihood, first, judged.held, base) for judged in (honest, repeated)]
    trust = float(np.clip(slopes[0] / slopes[1], 0.0, 1.0)) if slopes[1] > 0 else 0.0
    trust *= shrinkage(gain_of(likelihood, first, base, base + slopes[0] * (honest.held - base)))
    d, k = design.n_columns, len(order)
    return Selection(np.sort(np.array(order, dtype=int)), order, trust, chance_gain(d, k), best)


def support_path(design: Design, likelihood: Likelihood, bags: Bags, most: int) -> dict[str, Any]:
    """Return the nested supports of the best strategy, judged on rows that had no part in their choice.

    Returns
    -------
    dict with `n_features`, `features`, `loss` and `error`, as `fit.fit_path`
    """
    proposals = Proposals.of(design, likelihood, bags, most)
    best, *_ = proposals.best()
    orders, weight = proposals.orders[best], proposals.first.weight
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


def _by_importance(design: Design, pilot: Member, most: int) -> list[list[int]]:
    """For each bag the columns in the order of the mean modulus of their steps."""
    mass = design.mass / design.weight.sum()
    centred = pilot.left - np.einsum("jw,jwbc->jbc", mass, pilot.left)[:, None]
    size = np.einsum("jw,jwbc->bj", mass, np.abs(centred))
    return [np.argsort(-own, kind="stable")[: min(most, np.count_nonzero(own))].tolist() for own in size]


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
