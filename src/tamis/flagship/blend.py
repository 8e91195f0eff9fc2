"""The blend: few cases and few features, as shapes, lines, pairs and similar cases at once.

All members of the blend stand on one set S of instances and one set of features. A member is a ridge regression, for
classes a logistic one, on some channels (kernels), each expanded over S in the coordinates of its own space and scaled
to a share:

    lines    one nearly linear kernel per feature                                   each 1/f
    cases    one kernel on all features, the similarity of two cases                     1
    all      one kernel per feature that sees coarse and fine                       each 0.4/f
             products of two of these, for p pairs of features                      each 0.3/p
             the similarity of two cases                                                 0.3

The decision is the mean of all members and ridges, weighted by how well they do on held-out rows. As everything is
linear in the kernel values at S, the mean is itself one table of coefficients, instances x channels.

Nothing here comes from a paper. How the parts are found: features by `kernels.recipes`; instances as the columns of
the kernel matrices that span the functions of a ridge regression on all of them (`choose_instances`); pairs by what
they add to the shapes (`screen_pairs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Protocol

import numpy as np
from scipy.linalg import solve
from scipy.special import softmax

from tamis.optim.driver import Callback, Iterate, Solution, Status, run
from tamis.optim.losses import Logistic, Loss, Squared, fit_logistic_path, fit_ridge_path
from tamis.optim.matrices import whitening

MEMBERS: dict[str, dict[str, float]] = {  # shares of the kinds of channels
    "lines": {"line": 1.0},
    "cases": {"cases": 1.0},
    "all": {"shape": 0.4, "pair": 0.3, "cases": 0.3},
}
RIDGES = (0.03, 0.3, 3.0)
COLD = 0.2  # of the softmax over members: how much a difference in held-out log-likelihood counts
FAINT = 0.01  # a weight below this is none
RIDGE = 1.0  # of the regressions that choose instances and pairs
PIVOT = 1e-3  # share of the largest column norm that is added to every column's norm
PAIR_RIDGE = 0.02  # share of the trace of a pair's Gram matrix that is added to its diagonal
SPENT = 1e-10  # share of the functions left unexplained at which no further instance is needed
ROUNDING = 1e-13  # variation of a channel, relative to its values, that may be rounding errors


class Likelihood(Protocol):
    """What is said of a row: the loss of a regression, its ridge path, and the mean surprise of what came."""

    loss: ClassVar[Loss]

    def path(self, design: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (r, q, p) and intercepts (r, q) for all RIDGES; the weighted means of the design are zero."""
        ...

    def surprise(self, held: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Negative log-likelihood (cells,) per row of decisions (cells, n, q), but for a constant."""
        ...


class Labels:
    """Classes: targets in {-1, +1}, one logistic regression for each output."""

    loss: ClassVar[Loss] = Logistic()

    def path(self, design: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return fit_logistic_path(design, targets, weight, RIDGES)

    def surprise(self, held: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.average(self.loss.value(held, targets).sum(axis=2), axis=1, weights=weight)


class Numbers:
    """Numbers with normal errors, whose spread is that of what is held out."""

    loss: ClassVar[Loss] = Squared()

    def path(self, design: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return fit_ridge_path(design, targets, weight, RIDGES)

    def surprise(self, held: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> np.ndarray:
        squares = np.average((held - targets) ** 2, axis=1, weights=weight)
        return 0.5 * np.log(squares + np.finfo(float).tiny).sum(axis=1)


def shares_of(kinds: Mapping[str, np.ndarray], n_channels: int) -> np.ndarray:
    """Shares (members, channels) of the channels in each member, rows adding up to one.

    Parameters
    ----------
    kinds : the channels of each kind, as positions; a kind without channels leaves its share to the others
    """
    table = np.zeros((len(MEMBERS), n_channels))
    for row, member in zip(table, MEMBERS.values(), strict=True):
        for kind, share in member.items():
            row[kinds[kind]] += share / max(1, len(kinds[kind]))
    return table / np.maximum(table.sum(axis=1, keepdims=True), np.finfo(float).tiny)


def choose_instances(
    values: np.ndarray,
    targets: np.ndarray,
    weight: np.ndarray,
    shares: np.ndarray,
    limit: int,
    callback: Callback | None = None,
) -> Solution[np.ndarray]:
    """Choose rows whose kernel columns span what each channel says, most first.

    A ridge regression on all channels gives one function f_c per channel. Greedy steps add the row j with the largest

        sum_c |q_cj' f_c|^2 / (|q_cj|^2 + PIVOT max_i |K_ci|^2)

    with q_cj the column j of K_c made orthogonal, within its channel, to the rows chosen so far, and f_c likewise.

    Parameters
    ----------
    values : (C, p, p) channels between the rows to choose from
    targets : (p, q)
    weight : (p,) positive
    shares : (C,) of the channels in the regression
    limit : most rows to choose

    Returns
    -------
    The chosen rows, in the order in which they came; the objective is the share of the functions left unexplained.
    """
    parts = _channel_functions(values, targets, weight, shares)
    return run(_greedy(values, parts, weight, limit), tol=SPENT, max_iter=limit, callback=callback)


def _channel_functions(values: np.ndarray, targets: np.ndarray, weight: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """What each channel adds to a ridge regression on all: (C, p, q)."""
    mass = weight / weight.sum()
    centred = values - (mass @ values)[:, None, :]
    centred -= (centred @ mass)[:, :, None]
    size = np.einsum("cii,i->c", centred, mass)
    told = size > ROUNDING * np.max(np.abs(values), axis=(1, 2))
    centred *= (shares / np.where(told, size, np.inf))[:, None, None]
    root = np.sqrt(weight)[:, None]
    whole = root * centred.sum(axis=0) * root.T
    whole[np.diag_indices_from(whole)] += RIDGE
    return centred @ (root * solve(whole, root * (targets - mass @ targets), assume_a="pos"))


def _greedy(values: np.ndarray, parts: np.ndarray, weight: np.ndarray, limit: int) -> Iterator[Iterate[np.ndarray]]:
    """Chosen rows, one more at a time; columns stay as they are, only their norms and the functions are deflated."""
    root = np.sqrt(weight)[:, None]
    columns, rest = values * root, parts * root
    norms = np.sum(columns**2, axis=1)
    floor, total = norms.max(axis=1, keepdims=True) + np.finfo(float).tiny, float(np.sum(rest**2))
    chosen: list[int] = []
    basis = np.empty((len(values), len(weight), 0))
    while True:
        left = float(np.sum(rest**2)) / total if total > 0 else 0.0
        done = len(chosen) == min(limit, len(weight))
        yield Iterate(np.array(chosen, dtype=int), left, left, Status.CONVERGED if done else None)
        reached = np.sum((rest.transpose(0, 2, 1) @ columns) ** 2, axis=1)
        gain = np.sum(reached / (norms + PIVOT * floor), axis=0)
        gain[chosen] = -1.0
        j = int(np.argmax(gain))
        chosen.append(j)
        new = columns[:, :, [j]]
        new = new - basis @ (basis.transpose(0, 2, 1) @ new)
        new /= np.sqrt(np.sum(new**2, axis=1, keepdims=True) + 1e-12 * floor[:, :, None])
        basis = np.concatenate([basis, new], axis=2)
        norms = np.maximum(norms - (new.transpose(0, 2, 1) @ columns)[:, 0] ** 2, 0.0)
        rest = rest - new @ (new.transpose(0, 2, 1) @ rest)


def screen_pairs(
    values: np.ndarray, corners: np.ndarray, targets: np.ndarray, weight: np.ndarray, limit: int
) -> np.ndarray:
    """Pairs of channels whose product, expanded over the instances, explains most of what all channels leave over.

    Parameters
    ----------
    values : (f, k, n) channels between instances and rows
    corners : (f, k, k) between instances
    targets : (n, q)
    weight : (n,)
    limit : most pairs

    Returns
    -------
    (pairs, 2) positions of channels, the best pair first
    """
    f = len(values)
    left, right = np.triu_indices(f, 1)
    if not limit or not len(left):
        return np.empty((0, 2), dtype=int)
    X = Coordinates.of(values, corners, weight, np.full(f, 1.0 / f)).design(values)
    gram = X.T @ (X * weight[:, None]) + RIDGE * np.eye(X.shape[1])
    rest = targets - X @ solve(gram, X.T @ (targets * weight[:, None]), assume_a="pos")  # but for a constant
    gains = np.concatenate([_gains(values[i] * values[i + 1 :], rest, weight) for i in range(f - 1)])
    best = np.argsort(-gains, kind="stable")[:limit]
    return np.column_stack([left[best], right[best]])


def _gains(columns: np.ndarray, rest: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What a ridge regression of the rest (n, q) on columns (c, k, n) explains, for each c."""
    centred = columns - (columns @ weight / weight.sum())[:, :, None]
    scaled = centred * weight
    gram = scaled @ centred.transpose(0, 2, 1)
    ridge = PAIR_RIDGE * np.trace(gram, axis1=1, axis2=2) + np.finfo(float).tiny
    gram += ridge[:, None, None] * np.eye(gram.shape[1])
    cross = scaled @ rest
    return np.sum(cross * np.linalg.solve(gram, cross), axis=(1, 2))


@dataclass(frozen=True)
class Coordinates:
    """Rows in the spaces of some channels, side by side, centred and scaled.

    Attributes
    ----------
    channels : (c,) which of all L channels
    maps : for each of them (k, r), from kernel values to coordinates
    means : (c, k) of kernel values
    total : L
    """

    channels: np.ndarray
    maps: tuple[np.ndarray, ...]
    means: np.ndarray
    total: int

    @classmethod
    def of(cls, values: np.ndarray, corners: np.ndarray, weight: np.ndarray, share: np.ndarray) -> Coordinates:
        """Coordinates whose mean squared norm is the share (L,) of each channel.

        Parameters
        ----------
        values : (L, k, n) channels between instances and rows
        corners : (L, k, k) between instances
        weight : (n,)
        """
        used, mass = np.flatnonzero(share), weight / weight.sum()
        means, maps = values[used] @ mass, []
        for m, mean in zip(used, means, strict=True):
            centred = values[m] - mean[:, None]
            maps.append(whitening((centred * mass) @ centred.T, corners[m], share[m]))
        return cls(used, tuple(maps), means, len(share))

    def design(self, values: np.ndarray) -> np.ndarray:
        """Coordinates (n, p) of rows with kernel values (c, k, n), or (c k, n), in the used channels."""
        values = values.reshape(*self.means.shape, values.shape[-1])
        parts = zip(values, self.maps, self.means, strict=True)
        nothing = np.empty((values.shape[2], 0))
        return np.concatenate([nothing, *((own - mean[:, None]).T @ white for own, white, mean in parts)], axis=1)

    def coefficients(self, slopes: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (..., c k) of kernel values and intercepts from those of coordinates, (..., p) and (...)."""
        cuts = np.cumsum([0, *(white.shape[1] for white in self.maps)])
        parts = zip(self.maps, pairwise(cuts), strict=True)
        nothing = np.empty((*slopes.shape[:-1], 0))
        coef = np.concatenate([nothing, *(slopes[..., a:b] @ white.T for white, (a, b) in parts)], axis=-1)
        return coef, free - coef @ self.means.ravel()

    def gradient(self, cross: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Sums (q, p) of s times coordinates from sums of s times kernel values (q, c k) and of s (q,)."""
        centred = (cross - np.outer(total, self.means)).reshape(len(total), *self.means.shape)
        parts = zip(self.maps, centred.transpose(1, 0, 2), strict=True)
        return np.concatenate([np.empty((len(total), 0)), *(own @ white for white, own in parts)], axis=1)

    def table(self, slopes: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (..., k, L) in all channels and intercepts from those of coordinates, (..., p) and (...)."""
        flat, intercept = self.coefficients(slopes, free)
        coef = np.zeros((*slopes.shape[:-1], self.means.shape[1], self.total))
        coef[..., self.channels] = np.swapaxes(flat.reshape(*slopes.shape[:-1], *self.means.shape), -1, -2)
        return coef, intercept


@dataclass(frozen=True)
class Member:
    """One member with every ridge: coefficients (r, q, p) of its coordinates, and intercepts (r, q)."""

    space: Coordinates
    slopes: np.ndarray
    free: np.ndarray

    @property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (r, q, k, L) of kernel values, zero for channels that the member has not; intercepts (r, q)."""
        return self.space.table(self.slopes, self.free)


def fit_members(
    likelihood: Likelihood,
    values: np.ndarray,
    corners: np.ndarray,
    shares: np.ndarray,
    targets: np.ndarray,
    weight: np.ndarray,
) -> list[Member]:
    """Fit every member with every ridge.

    Parameters
    ----------
    likelihood : of the targets
    values : (L, k, n) channels between instances and rows
    corners : (L, k, k) between instances
    shares : (M, L) of the channels in the members
    targets : (n, q)
    weight : (n,)
    """
    members = []
    for share in shares:
        space = Coordinates.of(values, corners, weight, share)
        members.append(Member(space, *likelihood.path(space.design(values[space.channels]), targets, weight)))
    return members


def decisions(values: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Decisions (cells, n, q) of tables of coefficients at kernel values (L, k, n)."""
    cells, q, k, L = coef.shape
    flat = coef.transpose(0, 1, 3, 2).reshape(cells * q, L * k) @ values.reshape(L * k, values.shape[2])
    return flat.reshape(cells, q, -1).transpose(0, 2, 1) + intercept[:, None, :]


def blend_weights(surprise: np.ndarray, n: float) -> np.ndarray:
    """Weights (members, ridges), adding up to one, from the surprise (cells,) of each at rows that it has not seen.

    `n` is the number of training rows.
    """
    weights = softmax(-COLD * n * surprise).reshape(len(MEMBERS), len(RIDGES))
    weights[weights < FAINT] = 0.0
    return weights / weights.sum()
