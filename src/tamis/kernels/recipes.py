"""Recipes: how to make a KernelBank for a given table.

A recipe is a small immutable description; ``recipe.bank(sample, bandwidth)`` looks at encoded training
rows and returns the bank. Recipes add up: ``per_feature() + product()`` offers both kinds of channel.

**Groups of columns that belong together** (`rank_columns`). Start from all columns and drop, again and again, those
whose weight in the squared distance the evidence of a Gaussian process wants smallest. With ``D = mean over the group
of d2_m``, ``K = exp(-D / 2)``, ``M = (K + diag(noise))^-1`` and ``a = M y``, the gradient of the log evidence with
respect to the weight of column m is, up to a positive factor,

    g_m = - sum_ij R_ij d2_m(i, j),      R = (n a a' / (y'a) - M) o K

and because d2_m is a squared Euclidean distance the sum is a matrix product with R: one step costs
O(n^3 + n^2 d) however many columns there are. The order of elimination, read backwards, grows the
group: it sees interactions that no column shows alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.errors import check_choice, check_number
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Categorical, Gaussian, Kernel, euclidean

GROUP_ROWS = 800  # most rows that the search for a group uses
GROUP_SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 28, 40, 60)
QUANTILES = 201
WIDTHS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.2, 1.5, 1.7, 2.0)
SHOWN = 20  # most names of columns in a message
NOISE = 0.3  # ridge on the unit-diagonal kernel
SHARE = 0.12  # share of the columns dropped in one step while more than `limit` are left
LEAST, MOST = 1e-6, 1e6  # widths, in units of the scaled features

Bandwidth = float | str | np.ndarray  # a number, "median", or one number per column


@dataclass(frozen=True)
class Sample:
    """The encoded training rows that a recipe may look at."""

    Z: np.ndarray  # (n, d) encoded rows
    names: Sequence[str]  # names of the d columns
    nominal: np.ndarray  # (d,) boolean, which columns are categories
    targets: np.ndarray  # (n, q) in {-1, +1}
    sample_weight: np.ndarray  # (n,)
    max_features: int  # most columns that one channel may stand on
    seed: int  # for the choice of rows in a search

    def bandwidths(self, bandwidth: Bandwidth) -> np.ndarray:
        """One bandwidth per column (d,)."""
        if isinstance(bandwidth, str):
            return np.array([_median_distance(z, self.sample_weight) for z in self.Z.T])
        return np.broadcast_to(np.asarray(bandwidth, dtype=float), (self.Z.shape[1],))

    @cached_property
    def mismatch(self) -> np.ndarray:
        """Squared distance between differing levels: 2 on average over pairs, like standardised numbers."""
        return np.array([_mismatch(z, self.sample_weight) if nom else 0.0 for z, nom in zip(self.Z.T, self.nominal)])

    @cached_property
    def order(self) -> np.ndarray:
        """Columns in the order in which a group grows."""
        n = len(self.Z)
        rows = np.arange(n)
        if n > GROUP_ROWS:
            rows = np.sort(np.random.default_rng(self.seed).permutation(n)[:GROUP_ROWS])
        weight = self.sample_weight[rows] / self.sample_weight[rows].mean()
        return rank_columns(self.Z[rows], self.mismatch, self.targets[rows], weight, self.max_features)


class Recipe(ABC):
    """Makes a bank from a sample; recipes can be added."""

    @abstractmethod
    def bank(self, sample: Sample, bandwidth: Bandwidth) -> KernelBank:
        """The kernels for these rows."""

    @property
    def positions(self) -> bool:
        """Whether X holds positions of items in place of features: one column, never scaled."""
        return False

    def __add__(self, other: Recipe) -> Recipe:
        return Joined((self, other))


@stored
@dataclass(frozen=True)
class Joined(Recipe):
    """The channels of several recipes, side by side; equal ones once."""

    parts: tuple[Recipe, ...]

    @property
    def positions(self) -> bool:
        return any(part.positions for part in self.parts)

    def bank(self, sample: Sample, bandwidth: Bandwidth) -> KernelBank:
        if self.positions and not all(part.positions for part in self.parts):
            raise ValueError(
                "kernels: precomputed kernels take positions in place of features, so recipes on features cannot be "
                "added to them: compute those kernels too and add their matrices to the stack"
            )
        channels = [ch for part in self.parts for ch in part.bank(sample, bandwidth).channels]
        return KernelBank(tuple(dict.fromkeys(channels)))


@stored
@dataclass(frozen=True)
class PerFeature(Recipe):
    """One channel per column: a Gaussian (or `kernel`) for numbers, an indicator for categories."""

    kernel: Kernel | None = None

    def bank(self, sample: Sample, bandwidth: Bandwidth) -> KernelBank:
        widths = sample.bandwidths(bandwidth)
        return KernelBank(tuple(_single_channel(m, sample, widths, self.kernel) for m in range(len(widths))))


@stored
@dataclass(frozen=True)
class Product(Recipe):
    """One Gaussian on a group of columns: a product of one-dimensional kernels, which sees interactions.

    ``group`` is "grown" (nested groups found by `rank_columns`, one channel each), "all"
    (one channel on every column) or a list of names or positions. The bandwidth is that of one column
    times the root of the group's size, so that it means the same for every size.
    """

    group: str | tuple[int | str, ...] = "grown"

    def bank(self, sample: Sample, bandwidth: Bandwidth) -> KernelBank:
        if self.group == "grown":
            order = sample.order
            sizes = sorted({min(size, len(order)) for size in GROUP_SIZES if len(order)})
            groups = [tuple(sorted(order[:size].tolist())) for size in sizes]
        elif self.group == "all":
            groups = [tuple(range(sample.Z.shape[1]))]
        else:
            groups = [tuple(_position(c, sample.names, "product") for c in self.group)]
        widths = sample.bandwidths(bandwidth)
        return KernelBank(tuple(_product_channel(g, sample, widths) for g in groups))


@stored
@dataclass(frozen=True)
class PerGroup(Recipe):
    """One channel per named group of columns: the Gaussian of `Product`, or `kernel`.

    A column on its own is treated as in `PerFeature`: a category gives an indicator, whatever the kernel.
    """

    groups: tuple[tuple[str, tuple[int | str, ...]], ...]
    kernel: Kernel | None = None

    def bank(self, sample: Sample, bandwidth: Bandwidth) -> KernelBank:
        widths = sample.bandwidths(bandwidth)
        return KernelBank(tuple(self._channel(name, members, sample, widths) for name, members in self.groups))

    def _channel(self, name: str, members: tuple[int | str, ...], sample: Sample, widths: np.ndarray) -> Channel:
        group = tuple(_position(c, sample.names, "per_group") for c in members)
        if len(set(group)) < len(group):
            raise ValueError(f"per_group: the group {name!r} lists a column of X twice, by name and by position")
        if len(group) == 1:
            return replace(_single_channel(group[0], sample, widths, self.kernel), name=name)
        if self.kernel is not None:
            return Channel(name, self.kernel, group)
        return replace(_product_channel(group, sample, widths), name=name)


@stored
@dataclass(frozen=True)
class Bandwidths(Recipe):
    """Gaussians of several widths on all columns together, on each column, or both.

    The widths are taken as they are: they ignore the estimator's bandwidth and the number of columns. A
    category on its own is one indicator. Where the table has one column, "all" is that column.
    """

    widths: tuple[float, ...] = WIDTHS
    on: str = "all"

    def bank(self, sample: Sample, bandwidth: Bandwidth) -> KernelBank:
        d = sample.Z.shape[1]
        channels: list[Channel] = []
        if self.on != "each" and d > 1:
            label = "all"
            while label in sample.names:  # a column may have this name
                label += " columns"
            mismatch = tuple(sample.mismatch.tolist())
            channels += [
                Channel(f"{label}, width {width!r}", Gaussian(width, mismatch), tuple(range(d)))
                for width in self.widths
            ]
        if self.on != "all" or d == 1:
            channels += [channel for column in range(d) for channel in self._of(column, sample)]
        return KernelBank(tuple(channels))

    def _of(self, column: int, sample: Sample) -> list[Channel]:
        name = sample.names[column]
        if sample.nominal[column]:
            return [Channel(name, Categorical(), (column,))]
        return [Channel(f"{name}, width {width!r}", Gaussian(width), (column,)) for width in self.widths]


def _single_channel(column: int, sample: Sample, widths: np.ndarray, kernel: Kernel | None = None) -> Channel:
    own = Categorical() if sample.nominal[column] else kernel or Gaussian(float(widths[column]))
    return Channel(sample.names[column], own, (column,))


def _product_channel(group: tuple[int, ...], sample: Sample, widths: np.ndarray) -> Channel:
    if len(group) == 1:
        return _single_channel(group[0], sample, widths)
    members = list(group)
    width = float(np.sqrt(np.mean(widths[members] ** 2) * len(members)))
    kernel = Gaussian(width, tuple(sample.mismatch[members].tolist()))
    return Channel(" * ".join(sample.names[c] for c in members), kernel, group)


def _position(column: int | str, names: Sequence[str], recipe: str) -> int:
    """Position of a column given by name or position."""
    if isinstance(column, str):
        if column not in names:
            known = str(list(names)) if len(names) <= SHOWN else f"{list(names[:SHOWN])} and {len(names) - SHOWN} more"
            raise ValueError(f"{recipe}: X has no column {column!r}; its columns are {known}")
        return list(names).index(column)
    if not 0 <= column < len(names):
        raise ValueError(f"{recipe}: column {column} is not among the {len(names)} columns of X")
    return column


def _check_kernel(kernel: object) -> None:
    if kernel is not None and not callable(kernel):
        raise ValueError(f"kernel={kernel!r} must be a function of two blocks of rows (S, T), or None for a Gaussian")


def per_feature(kernel: Kernel | None = None) -> Recipe:
    """One kernel per column: a Gaussian, or any function of two blocks of rows S (m, 1) and T (n, 1)."""
    _check_kernel(kernel)
    return PerFeature(kernel)


def per_group(groups: Mapping[str, Sequence[int | str]], kernel: Kernel | None = None) -> Recipe:
    """One kernel per named group of columns.

    Parameters
    ----------
    groups : {name: columns}, the columns of each group by name or position; a column may be in several groups
    kernel : any function of two blocks of rows S (m, c) and T (n, c), to which categories are codes. None is the
        Gaussian of `product`: as wide as the bandwidth of one column times the root of the group's size
    """
    _check_kernel(kernel)
    if not isinstance(groups, Mapping) or not groups or not all(type(name) is str for name in groups):
        raise ValueError(f"groups={groups!r} must be a dict from names to lists of columns, with at least one group")
    return PerGroup(tuple((name, _members(f"groups[{name!r}]", columns)) for name, columns in groups.items()), kernel)


def product(group: str | Sequence[int | str] = "grown") -> Recipe:
    """One Gaussian on a group of columns: "grown", "all", or a list of column names or positions."""
    if isinstance(group, str):
        if group not in ("grown", "all"):
            raise ValueError(f"group={group!r} is unknown: use 'grown', 'all' or a list of columns")
        return Product(group)
    return Product(_members("group", group))


def _members(name: str, columns: object) -> tuple[int | str, ...]:
    """Columns as a tuple, if they are a list of distinct names and positions."""
    if isinstance(columns, Sequence | np.ndarray) and not isinstance(columns, str):
        members = tuple(c.item() if isinstance(c, np.generic) else c for c in columns)
        if members and all(type(c) in (int, str) for c in members) and len(set(members)) == len(members):
            return members
    raise ValueError(f"{name}={columns!r} must list distinct columns by name or position, at least one")


def bandwidths(widths: float | Sequence[float] = WIDTHS, on: str = "all") -> Recipe:
    """Gaussians ``exp(-|s - t|^2 / (2 width^2))`` of several widths.

    Parameters
    ----------
    widths : one or several distinct positive numbers, in units of the scaled features
    on : "all" columns together, "each" column (a category gives one indicator), or "both"
    """
    if on not in ("all", "each", "both"):
        raise ValueError(f"on={on!r} is unknown: use 'all', 'each' or 'both'")
    widths = np.atleast_1d(widths) if isinstance(widths, np.ndarray) else widths
    entries = list(widths) if isinstance(widths, Sequence | np.ndarray) else [widths]
    numbers = all(isinstance(w, Real) and not isinstance(w, bool) and LEAST <= w <= MOST for w in entries)
    if not entries or not numbers or len(set(entries)) < len(entries):
        raise ValueError(f"widths={widths!r} must be one or several distinct numbers from {LEAST:g} to {MOST:g}")
    return Bandwidths(tuple(float(w) for w in entries), on)


def _weighted_quantiles(values: np.ndarray, weight: np.ndarray, n: int) -> np.ndarray:
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weight[order])
    levels = (np.arange(n) + 0.5) / n * mass[-1]
    return values[order][np.searchsorted(mass, levels)]


def _median_distance(column: np.ndarray, weight: np.ndarray) -> float:
    """Median of |s - t| over pairs of rows, at least 0.1."""
    seen = ~np.isnan(column) & (weight > 0)
    if not seen.any():
        return 0.1
    points = _weighted_quantiles(column[seen], weight[seen], QUANTILES)
    gaps = np.abs(points[:, None] - points[None, :])[np.triu_indices(QUANTILES, 1)]
    return max(0.1, float(np.median(gaps)))


def _mismatch(codes: np.ndarray, weight: np.ndarray) -> float:
    seen = ~np.isnan(codes)
    if not weight[seen].sum():
        return 2.0
    _, place = np.unique(codes[seen], return_inverse=True)
    share = np.bincount(place, weights=weight[seen]) / weight[seen].sum()
    return 2.0 / max(1.0 - float(share @ share), 0.25)


def check_bandwidth(bandwidth: Any, n_features: int | None = None) -> Bandwidth:
    """A positive number, "median", or one positive number per feature, of any number of them if that is not known."""
    if isinstance(bandwidth, str):
        check_choice("bandwidth", bandwidth, ("median",))
        return bandwidth
    widths = np.asarray(bandwidth)
    if widths.ndim == 0:
        check_number("bandwidth", bandwidth, 0.0, strict=True)
    elif n_features is not None and widths.shape != (n_features,):
        raise ValueError(
            f"bandwidth has shape {widths.shape}, but X has {n_features} features: "
            f"give one number, 'median', or an array of shape ({n_features},)"
        )
    if widths.dtype.kind not in "fiu" or not np.all(np.isfinite(widths)) or np.any(widths <= 0):
        raise ValueError("bandwidth holds values that are not positive and finite: every width must be above 0")
    if np.any(widths < LEAST) or np.any(widths > MOST):
        raise ValueError(f"bandwidth={bandwidth!r} is out of range: use widths between {LEAST} and {MOST}")
    return float(bandwidth) if widths.ndim == 0 else widths.astype(float)


# ---------------------------------------------------------------------- groups of columns


def embed(Z: np.ndarray, mismatch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (n, e) whose squared distances are those of the group kernel, and their columns (e,).

    Numbers keep their value, with an indicator added for columns that have missing cells; a category
    becomes one indicator per level, scaled so that differing levels are ``mismatch`` apart.
    """
    parts: list[np.ndarray] = []
    owner: list[int] = []
    for m, (column, cost) in enumerate(zip(Z.T, mismatch, strict=True)):
        gaps = np.isnan(column)
        if cost > 0:
            levels = np.unique(column[~gaps])
            block = (column[:, None] == levels[None, :]) * np.sqrt(cost / 2.0)
            block = np.column_stack([block, gaps * np.sqrt(cost / 2.0)])
        else:
            filled = np.where(gaps, 0.0, column)
            block = np.column_stack([filled - filled.mean(), gaps])  # far from zero squares would drown differences
        block = block[:, np.ptp(block, axis=0) > 0]
        parts.append(block)
        owner += [m] * block.shape[1]
    return np.hstack(parts), np.array(owner, dtype=int)


def rank_columns(
    Z: np.ndarray, mismatch: np.ndarray, targets: np.ndarray, weight: np.ndarray, limit: int
) -> np.ndarray:
    """Order the columns so that the first k make a good group of k, for every k up to `limit`.

    Parameters
    ----------
    Z : (n, d) encoded rows, NaN for missing cells
    mismatch : (d,) positive for categories: the squared distance between two levels
    targets : (n, q)
    weight : (n,) positive, mean about one; the noise of a row is the ridge divided by its weight
    limit : length of the order

    Returns
    -------
    Indices of at most `limit` columns; constant columns never appear.
    """
    tail: list[int] = []
    points, owner = embed(Z, mismatch)
    centred = targets - np.average(targets, axis=0, weights=weight)
    group = np.unique(owner)
    while len(group):
        gradient = _evidence_gradient(points, owner, group, centred, NOISE / weight)
        order = group[np.argsort(-gradient, kind="stable")]
        if len(group) <= limit:
            tail.append(int(order[-1]))
        excess = len(group) - limit
        drop = 1 if excess <= 0 else min(excess, max(1, int(SHARE * len(group))))
        group = np.sort(order[:-drop])
    return np.array(tail[::-1], dtype=int)


def _evidence_gradient(
    points: np.ndarray, owner: np.ndarray, group: np.ndarray, y: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """Gradient of the log evidence in the weight of each column of the group, summed over outputs."""
    n = len(points)
    member = np.isin(owner, group)
    P = points[:, member]
    K = np.exp(-0.5 / len(group) * euclidean(P, P))
    M = np.linalg.inv(K + np.diag(noise))
    A = M @ y
    fit = np.maximum(np.einsum("iq,iq->q", y, A), np.finfo(float).tiny)
    R = (n * (A / fit) @ A.T - y.shape[1] * M) * K
    moments = (P * P).T @ R.sum(axis=1) - np.einsum("ie,ie->e", P, R @ P)
    totals = np.bincount(owner[member], weights=moments, minlength=owner.max() + 1)
    return -2.0 * totals[group]
