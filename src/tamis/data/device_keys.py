"""Keys of rows on a device: the same 64 bits as `tamis.data.keys`, in signed integers."""

from __future__ import annotations

import numpy as np

from tamis.arrays import Array, bits, device_of, namespace, to_device
from tamis.data.keys import GAP, MIX, key_factors

ROWS = 1 << 21  # rows at a time


def signed(value: int | np.uint64) -> int:
    """The signed integer with the same 64 bits."""
    return int(value) - (1 << 64) if int(value) >= 1 << 63 else int(value)


def device_row_keys(X: Array, seed: int) -> Array:
    """Keys (n,) of the rows of X (n, d), as `row_keys` gives them, as signed integers."""
    xp, device = namespace(X), device_of(X)
    draws, factors = (to_device(values.view(np.int64), device) for values in key_factors(X.shape[1], seed))
    parts = []
    for start in range(0, X.shape[0], ROWS):
        numbers = xp.astype(X[start : start + ROWS, :], xp.float64) + 0.0
        cells = bits(numbers)
        cells = xp.where(xp.isnan(numbers), xp.full_like(cells, signed(GAP)), cells)
        cells = cells + draws
        cells = (cells ^ shifted(cells, 32)) * factors
        parts.append(mixed(xp.sum(cells ^ shifted(cells, 29), axis=1)))
    return xp.concat(parts)


def shifted(x: Array, places: int) -> Array:
    """``x >> places`` of unsigned integers."""
    return (x >> places) & ((1 << (64 - places)) - 1)


def mixed(x: Array) -> Array:
    """Let every bit depend on every other, as for keys in numpy."""
    x = (x ^ shifted(x, 30)) * signed(MIX[0])
    x = (x ^ shifted(x, 27)) * signed(MIX[1])
    return x ^ shifted(x, 31)


def device_folds(keys: Array, n_folds: int) -> Array:
    """Folds (n,) of keys, as `fold_of` gives them."""
    x = mixed(~keys)
    return ((shifted(x, 1) % n_folds) * 2 + (x & 1)) % n_folds


def ordered(keys: Array) -> Array:
    """Signed integers in the order of the unsigned keys."""
    return keys ^ signed(1 << 63)


def device_sampling_keys(keys: Array, codes: Array) -> Array:
    """Keys in which equal rows differ too, as `sampling_keys` gives them without ties."""
    xp = namespace(keys)
    keys = mixed(keys + codes * signed(GAP))
    order = xp.argsort(ordered(keys), stable=True)
    places = xp.take(ordered(keys), order)
    if bool(xp.all(places[1:] != places[:-1])):
        return keys
    first = xp.searchsorted(places, places)
    copies = xp.arange(keys.shape[0], dtype=xp.int64, device=device_of(keys)) - first
    sorted_keys = xp.take(keys, order)
    new = xp.where(copies == 0, sorted_keys, mixed(sorted_keys + copies * signed(GAP)))
    return xp.take(new, xp.argsort(order))
