"""Ridge regression for several ridges at once, and the directions of a design that a ridge leaves anything of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NEGLIGIBLE = 1e-3  # share of the smallest ridge below which a direction is left out


def fit_ridge_path(
    design: np.ndarray, targets: np.ndarray, weights: np.ndarray, ridges: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ``1/2 sum_i weights_i (targets_ij - f_ij)^2 + ridge/2 |x_j|^2`` for every ridge and output j.

    f_j = design x_j + b_j, the intercept b_j free. Directions of the design whose weighted sum of squares is so far
    below the smallest ridge that they would stay at zero are left out.

    Parameters
    ----------
    design : (n, p), its weighted column means zero
    targets : (n, q)
    weights : (n,) at least 0
    ridges : (r,) positive

    Returns
    -------
    coef : (r, q, p)
    intercept : (r, q)
    """
    basis, back = principal(design, weights, NEGLIGIBLE * min(ridges))
    mean = weights @ targets / weights.sum()
    sizes = weights @ basis**2
    cross = basis.T @ (weights[:, None] * (targets - mean))
    coef = np.stack([(back @ (cross / (sizes + ridge)[:, None])).T for ridge in ridges])
    return coef, np.tile(mean, (len(ridges), 1))


def principal(design: np.ndarray, weights: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """``design @ back`` and `back` (p, r), orthonormal: directions whose weighted sum of squares exceeds `floor`."""
    n, p = design.shape
    scaled = design * np.sqrt(weights)[:, None]
    if p <= n:
        sizes, back = np.linalg.eigh(scaled.T @ scaled)
        back = back[:, sizes > floor]
    else:
        sizes, left = np.linalg.eigh(scaled @ scaled.T)
        keep = sizes > floor
        back = scaled.T @ (left[:, keep] / np.sqrt(sizes[keep]))
    return design @ back, back
