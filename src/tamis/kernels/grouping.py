"""Find nested groups of columns that belong together in one product kernel.

Start from all columns and drop, again and again, those whose weight in the squared distance the
evidence of a Gaussian process wants smallest. With ``D = mean over the group of d2_m``,
``K = exp(-D / 2)``, ``M = (K + diag(noise))^-1`` and ``a = M y``, the gradient of the log evidence with
respect to the weight of column m is, up to a positive factor,

    g_m = - sum_ij R_ij d2_m(i, j),      R = (n a a' / (y'a) - M) o K

and because d2_m is a squared Euclidean distance the sum is a matrix product with R: one step costs
O(n^3 + n^2 d) however many columns there are. The order of elimination, read backwards, grows the
group: it sees interactions that no column shows alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tamis.kernels.distances import euclidean

NOISE = 0.3  # ridge on the unit-diagonal kernel
NONE = np.empty(0, dtype=int)
SHARE = 0.12  # share of the columns dropped in one step while more than `limit` are left


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
    for group, worst in _eliminations(Z, mismatch, targets, weight, limit):
        if len(group) <= limit:
            tail.append(int(worst))
    return np.array(tail[::-1], dtype=int)


def telling_columns(Z: np.ndarray) -> np.ndarray:
    """The columns of Z (n, d) that are neither constant nor equal to an earlier one; missing cells are equal."""
    filled = np.where(np.isnan(Z), np.inf, Z).T
    _, first = np.unique(filled, axis=0, return_index=True)
    return np.array([c for c in sorted(first) if np.any(filled[c] != filled[c, 0])], dtype=int)


def keep_columns(
    Z: np.ndarray, mismatch: np.ndarray, targets: np.ndarray, weight: np.ndarray, limit: int
) -> np.ndarray:
    """The columns that are left, sorted, when at most `limit` of them are; parameters as in `rank_columns`."""
    return next((group for group, _ in _eliminations(Z, mismatch, targets, weight, limit) if len(group) <= limit), NONE)


def _eliminations(
    Z: np.ndarray, mismatch: np.ndarray, targets: np.ndarray, weight: np.ndarray, limit: int
) -> Iterator[tuple[np.ndarray, int]]:
    """Smaller and smaller groups of columns, sorted, each with the column that would leave it first."""
    points, owner = embed(Z, mismatch)
    centred = targets - np.average(targets, axis=0, weights=weight)
    group = np.unique(owner)
    while len(group):
        gradient = _evidence_gradient(points, owner, group, centred, NOISE / weight)
        order = group[np.argsort(-gradient, kind="stable")]
        yield group, order[-1]
        excess = len(group) - limit
        drop = 1 if excess <= 0 else min(excess, max(1, int(SHARE * len(group))))
        group = np.sort(order[:-drop])


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
