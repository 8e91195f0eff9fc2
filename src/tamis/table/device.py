"""Encoded columns and keys of rows on a device, the same as in numpy.

Keys are 64 bits, as in `tamis.table.keys`, but in signed integers, which are the only ones that devices calculate with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tamis.arrays import Array, bits, device_of, namespace, to_device
from tamis.table.encoding import UNSEEN, Encoder, Nominal, Number
from tamis.table.keys import GAP, MIX, key_factors

MAX_ROWS = 1 << 21  # rows whose keys are computed at a time


# ---------------------------------------------------------------------- encodings


def device_encode(encoder: Encoder, X: Array, columns: Sequence[int] | np.ndarray | None = None) -> Array:
    """Return encoded rows (n, c) in double precision; `columns` are their positions in X, if it has others too."""
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
    """Return ranges, centres and scales (4, c) that standardise columns of numbers and leave others unchanged."""
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


# ---------------------------------------------------------------------- keys


def signed(value: int | np.uint64) -> int:
    """The signed integer with the same 64 bits."""
    return int(value) - (1 << 64) if int(value) >= 1 << 63 else int(value)


def device_row_keys(X: Array, seed: int) -> Array:
    """As `row_keys`, for the rows of X (n, d)."""
    xp, device = namespace(X), device_of(X)
    draws, factors = (to_device(values.view(np.int64), device) for values in key_factors(X.shape[1], seed))
    parts = []
    for start in range(0, X.shape[0], MAX_ROWS):
        numbers = xp.astype(X[start : start + MAX_ROWS, :], xp.float64) + 0.0
        cells = bits(numbers)
        cells = xp.where(xp.isnan(numbers), xp.full_like(cells, signed(GAP)), cells)
        cells = cells + draws
        cells = (cells ^ shifted(cells, 32)) * factors
        parts.append(mixed(xp.sum(cells ^ shifted(cells, 29), axis=1)))
    return xp.concat(parts)


def shifted(x: Array, places: int) -> Array:
    """Return ``x >> places`` as for unsigned integers."""
    return (x >> places) & ((1 << (64 - places)) - 1)


def mixed(x: Array) -> Array:
    """As `tamis.table.keys.mix`."""
    x = (x ^ shifted(x, 30)) * signed(MIX[0])
    x = (x ^ shifted(x, 27)) * signed(MIX[1])
    return x ^ shifted(x, 31)


def device_key_folds(keys: Array, n_folds: int) -> Array:
    """As `key_folds`."""
    x = mixed(~keys)
    return ((shifted(x, 1) % n_folds) * 2 + (x & 1)) % n_folds


def device_block_folds(
    keys: Array, codes: Array, n_folds: int, weight: Array | None = None, before: Array | int = 0
) -> Array:
    """As `block_folds`, with the weights as ties."""
    return (device_key_folds(keys, n_folds) + device_copies_before(keys, codes, weight) + before) % n_folds


def device_copies_before(keys: Array, codes: Array | None, weight: Array | None = None) -> Array:
    """As `copies_before`; None as `codes` is one class."""
    xp, n = namespace(keys), keys.shape[0]
    order = xp.arange(n, dtype=xp.int64, device=device_of(keys))
    for part in (weight, codes, keys):  # the last one counts most
        if part is not None:
            order = xp.take(order, xp.argsort(xp.take(part, order), stable=True))
    sorted_keys = xp.take(keys, order)
    new = sorted_keys[1:] != sorted_keys[:-1]
    if bool(xp.all(new)):
        return xp.zeros_like(order)
    if codes is not None:
        sorted_codes = xp.take(codes, order)
        new = new | (sorted_codes[1:] != sorted_codes[:-1])
    number = xp.concat([xp.zeros_like(order[:1]), xp.cumulative_sum(xp.astype(new, xp.int64))])
    copies = xp.arange(n, dtype=xp.int64, device=device_of(keys)) - xp.searchsorted(number, number)
    return xp.take(copies, xp.argsort(order))


def ordered(keys: Array) -> Array:
    """Return signed integers in the order of the unsigned keys."""
    return keys ^ signed(1 << 63)


def device_sampling_keys(keys: Array, codes: Array) -> Array:
    """As `sampling_keys`, with the codes as ties."""
    copies = device_copies_before(keys, None, codes)
    return namespace(keys).where(copies == 0, keys, mixed(keys + copies * signed(GAP)))
