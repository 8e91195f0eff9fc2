"""Candidates that are no rows: points spread evenly over the ranges of the columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tamis.base.model import POOL, Pool
from tamis.table.encoding import Encoder, Nominal

GRID = "grid"  # what the parameter `candidates` is then


def grid_pool(encoder: Encoder, few: Mapping[int, np.ndarray], n_classes: int, seed: int) -> Pool:
    """`POOL` points, each column running evenly through its range or its values, in an order of its own.

    Columns are combined at random (a Latin hypercube), which for kernels of one column each is as good as any other
    combination. The classes of the points are made up too, in turn; they only decide where a search begins.
    """
    rng = np.random.default_rng(seed)
    Z = np.empty((POOL, len(encoder.columns)))
    for j, column in enumerate(encoder.columns):
        if isinstance(column, Nominal):
            values = np.arange(max(1, len(column.levels)), dtype=float)
        elif j in few:
            values = column.encode(few[j].astype(float))
        else:
            low, high = column.encode(np.array([column.low, column.high])).tolist()
            values = np.linspace(low, high, POOL)
        Z[:, j] = rng.permutation(np.resize(values, POOL))
    return Pool(Z, np.arange(POOL) % n_classes, np.arange(POOL))


def grid_labels(positions: np.ndarray) -> np.ndarray:
    """Names of some of the points."""
    out = np.empty(len(positions), dtype=object)
    out[:] = [f"grid point {k + 1}" for k in positions.tolist()]
    return out
