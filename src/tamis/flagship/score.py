"""The additive part of a score: members of different roughness, weighted by their loss on rows left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln
from sklearn.utils.parallel import Parallel, delayed

from tamis.flagship.cells import Surface
from tamis.flagship.design import Bags, Design
from tamis.flagship.likelihood import Likelihood
from tamis.flagship.ridge import fit_curves
from tamis.flagship.steps import Member, Pace, fit_steps

CYCLIC, GREEDY = Pace(gate=0.1, rate=0.1), Pace(gate=0.8, rate=0.2)  # many columns at a time, and few
LINE_RIDGES, SMOOTH_RIDGES = (30.0, 3.0, 0.3), (100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
SMOOTH_RANK = 10
PRIOR = 5.0  # on the squared distance of the weights of members from equal ones
CHANCE = 1.0  # log-likelihood that a fitted factor gains by chance


def shrinkage(gain: float) -> float:
    """Return the positive-part factor ``1 - CHANCE / gain`` on something that gains so much held-out log-likelihood.

    Scores that have nothing to do with the targets gain half a unit by chance, once a factor on them is fitted.
    """
    return max(0.0, 1.0 - CHANCE / max(gain, CHANCE))


def chance_gain(n: int, k: int) -> float:
    """Return the log-likelihood that the best of all choices of k things out of n gains by chance: ``log C(n, k)``."""
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def gain_of(likelihood: Likelihood, bags: Bags, before: np.ndarray, after: np.ndarray) -> float:
    """Return the held-out log-likelihood that scores (n, c) gain over others."""
    return float(bags.weight @ (likelihood.losses(before, bags.targets) - likelihood.losses(after, bags.targets)))


@dataclass(frozen=True)
class Score:
    """A score that is being built.

    Attributes
    ----------
    left, right : (d, width, c) curves
    base : (c,)
    surfaces : of pairs
    bags : (n, B, c) scores of the bags
    held : (n, c) held-out scores
    start : (B, c) the constant scores at which fits start
    """

    left: np.ndarray
    right: np.ndarray
    base: np.ndarray
    surfaces: tuple[Surface, ...]
    bags: np.ndarray
    held: np.ndarray
    start: np.ndarray

    @property
    def constant(self) -> np.ndarray:
        """Scores (n, c) that are the same for every row."""
        return np.broadcast_to(self.start.mean(axis=0), self.held.shape)

    def shrunk(self, factor: float) -> Score:
        """The score moved towards the constant at which fits start."""
        if factor == 1.0:
            return self
        held = self.start.mean(axis=0)
        return replace(
            self,
            left=factor * self.left,
            right=factor * self.right,
            base=factor * self.base + (1 - factor) * held,
            bags=factor * self.bags + (1 - factor) * self.start,
            held=factor * self.held + (1 - factor) * held,
        )

    @property
    def used_columns(self) -> np.ndarray:
        """The columns whose curve is not zero, or that have a surface."""
        used = np.any((self.left != 0) | (self.right != 0), axis=(1, 2))
        used[[j for surface in self.surfaces for j in surface.places]] = True
        return np.flatnonzero(used)

    def take(self, columns: np.ndarray) -> Score:
        """The same score without columns that it does not use."""
        place = {int(j): k for k, j in enumerate(columns)}
        surfaces = tuple(replace(s, places=(place[s.places[0]], place[s.places[1]])) for s in self.surfaces)
        return replace(self, left=self.left[columns], right=self.right[columns], surfaces=surfaces)

    def centred(self, design: Design) -> Score:
        """The same score with curves of mean zero over the rows, and of zero for levels that are not kept."""
        left, right, base = self.left.copy(), self.right.copy(), self.base.copy()
        for j in range(design.n_columns):
            left[j], right[j] = design.flat(j, left[j], right[j])
        for j, cells in enumerate(design.cells):
            there = np.arange(design.width) < cells.size
            there[cells.size :] = design.mass[j, cells.size :] > 0
            total = max(design.mass[j].sum(), np.finfo(float).tiny)
            mean = design.weight @ design.at(j, left[j], right[j]) / total
            left[j, there] -= mean
            right[j, there] -= mean
            base += mean
        return replace(self, left=left, right=right, base=base)

    def contrasted(self) -> Score:
        """The same probabilities with curves and surfaces that add up to zero over the classes, if there are several.

        What is added to the scores of all classes alike moves no probability.
        """
        if len(self.base) == 1:
            return self
        left, right, base = (
            values - values.mean(axis=-1, keepdims=True) for values in (self.left, self.right, self.base)
        )
        surfaces = tuple(replace(s, values=s.values - s.values.mean(axis=-1, keepdims=True)) for s in self.surfaces)
        return replace(self, left=left, right=right, base=base, surfaces=surfaces)


def fit_main_effects(design: Design, likelihood: Likelihood, bags: Bags, n_jobs: int | None) -> Score:
    """Fit members of different roughness, and return their weighted sum.

    The weights are at least zero and need not add up to one: their scale calibrates the score.
    """
    fits: list[tuple[Callable[..., Member], tuple]] = [
        (fit_steps, (CYCLIC,)),
        (fit_steps, (GREEDY,)),
        (fit_curves, ("line", LINE_RIDGES, 1)),
        (fit_curves, ("smooth", SMOOTH_RIDGES, SMOOTH_RANK)),
    ]
    if not design.n_columns:
        return _constant(likelihood, bags)
    members: list[Member] = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(fit)(design, likelihood, bags, *how) for fit, how in fits
    )
    equal = np.full(len(members), 1.0 / len(members))
    weights = member_weights([member.held for member in members], likelihood, bags, equal)
    parts = list(zip(weights, members, strict=True))
    return Score(
        left=sum(w * member.left.mean(axis=2) for w, member in parts),
        right=sum(w * member.right.mean(axis=2) for w, member in parts),
        base=sum(w * member.base.mean(axis=0) for w, member in parts),
        surfaces=(),
        bags=sum(w * member.scores for w, member in parts),
        held=sum(w * member.held for w, member in parts),
        start=likelihood.start(bags.targets, bags.inside),
    )


def _constant(likelihood: Likelihood, bags: Bags) -> Score:
    """The score without columns."""
    n, c = bags.targets.shape
    start = likelihood.start(bags.targets, bags.inside)
    nothing, bags_of = np.zeros((0, 2, c)), np.broadcast_to(start, (n, bags.n, c))
    return Score(nothing, nothing, start.mean(axis=0), (), bags_of, bags.held_out(bags_of), start)


def member_weights(held: Sequence[np.ndarray], likelihood: Likelihood, bags: Bags, prior: np.ndarray) -> np.ndarray:
    """Return weights of at least zero of held-out scores (n, c) with the least loss, drawn towards a prior."""
    S = np.stack(held, axis=-1)

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        F = S @ w
        slope = likelihood.gradient(likelihood.mean(F), bags.targets) * bags.weight[:, None]
        value = float(bags.weight @ likelihood.losses(F, bags.targets)) + PRIOR * float(((w - prior) ** 2).sum())
        return value, 2 * PRIOR * (w - prior) - np.einsum("nc,ncm->m", slope, S)

    found = minimize(objective, prior, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(prior))
    return np.asarray(found.x)
