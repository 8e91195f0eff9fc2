"""Encoded columns on a device, as `Encoder.encode` gives them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tamis.arrays import Array, device_of, namespace, to_device
from tamis.table.encoding import UNSEEN, Encoder, Nominal, Number


def device_encode(encoder: Encoder, X: Array, columns: Sequence[int] | np.ndarray | None = None) -> Array:
    """Encoded rows (n, c), in double precision, of an array that has the columns, or has them at `columns`."""
    xp, device = namespace(X), device_of(X)
    if columns is not None:
        X = xp.take(X, to_device(np.asarray(columns, dtype=np.int64), device), axis=1)
    Z = xp.astype(X, xp.float64)
    low, high, centre, scale = (to_device(part, device, "float64") for part in _maps(encoder))
    Z = (xp.minimum(xp.maximum(Z, low), high) - centre) / scale
    for j, column in enumerate(encoder.columns):
        if isinstance(column, Nominal):
            Z[:, j] = _codes(column, Z[:, j] + 0.0, encoder.names[j])
        elif isinstance(column, Number) and column.knots is not None:
            Z[:, j] = _ranks(column, Z[:, j] + 0.0)
        elif not np.isnan(column.fill):
            Z[:, j] = xp.where(xp.isnan(Z[:, j]), xp.full_like(Z[:, j], column.fill), Z[:, j])
    return Z


def _maps(encoder: Encoder) -> np.ndarray:
    """Range, centre and scale (4, c) of the columns that are clipped, centred and scaled; what leaves others alone."""
    none = (-np.inf, np.inf, 0.0, 1.0)
    columns = encoder.columns
    plain = [(c.low, c.high, c.centre, c.scale) if isinstance(c, Number) and c.knots is None else none for c in columns]
    return np.array(plain).reshape(-1, 4).T.copy()


def _ranks(column: Number, x: Array) -> Array:
    """As ``Number.encode`` with knots."""
    xp, device = namespace(x), device_of(x)
    knots, ranks = (to_device(values, device, "float64") for values in (column.knots, column.ranks))
    inside = xp.clip(x, column.low, column.high)
    right = xp.clip(xp.searchsorted(knots, inside), 1, max(1, knots.shape[0] - 1))
    left = right - 1
    if knots.shape[0] == 1:
        value = xp.full_like(x, float(ranks[0]))
    else:
        a, b = xp.take(knots, left), xp.take(knots, right)
        share = xp.clip((inside - a) / (b - a), 0.0, 1.0)
        value = xp.take(ranks, left) * (1.0 - share) + xp.take(ranks, right) * share
    z = xp.where(xp.isnan(x), x, (value - column.centre) / column.scale)
    return z if np.isnan(column.fill) else xp.where(xp.isnan(z), xp.full_like(z, column.fill), z)


def _codes(column: Nominal, x: Array, name: str) -> Array:
    """As ``Nominal.encode``, for levels that are numbers."""
    xp, device = namespace(x), device_of(x)
    if any(isinstance(level, str) for level in column.levels):
        raise ValueError(f"column {name!r} is a category with levels of text, and X is an array of numbers")
    levels = to_device(np.array([float(level) for level in column.levels] or [np.inf]), device, "float64")
    place = xp.clip(xp.searchsorted(levels, x), 0, levels.shape[0] - 1)
    code = xp.where(xp.take(levels, place) == x, xp.astype(place, x.dtype), xp.full_like(x, UNSEEN))
    return xp.where(xp.isnan(x), xp.full_like(x, column.fill), code)
