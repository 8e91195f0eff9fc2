"""Keys of rows on a device: the same 64 bits as `tamis.table.keys`, in signed integers."""

from __future__ import annotations

import numpy as np

from tamis.arrays import Array, bits, device_of, namespace, to_device
from tamis.table.keys import GAP, MIX, key_factors

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


def device_key_folds(keys: Array, n_folds: int) -> Array:
    """Folds (n,) of keys, as `key_folds` gives them."""
    x = mixed(~keys)
    return ((shifted(x, 1) % n_folds) * 2 + (x & 1)) % n_folds


def device_block_folds(
    keys: Array, codes: Array, n_folds: int, weight: Array | None = None, before: Array | int = 0
) -> Array:
    """Folds (n,) of the rows of a block, as `block_folds` gives them with the weights as ties."""
    return (device_key_folds(keys, n_folds) + device_copies_before(keys, codes, weight) + before) % n_folds


def device_copies_before(keys: Array, codes: Array | None, weight: Array | None = None) -> Array:
    """How many rows with the same key and class come before each row (n,), as `copies_before` gives them."""
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
    """Signed integers in the order of the unsigned keys."""
    return keys ^ signed(1 << 63)


def device_sampling_keys(keys: Array, codes: Array) -> Array:
    """Keys in which equal rows differ too, as `sampling_keys` gives them with the codes as ties."""
    copies = device_copies_before(keys, None, codes)
    return namespace(keys).where(copies == 0, keys, mixed(keys + copies * signed(GAP)))
