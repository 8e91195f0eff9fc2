"""Random keys of rows that depend only on their values and a seed.

Folds, samples and candidates that follow the keys are the same whatever the order of the rows and however they are cut
into blocks or distributed over machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from tamis.arrays import Array, bits, device_of, namespace, to_device
from tamis.parallel import thread_map
from tamis.table.table import Table, is_missing

BLOCK_ROWS = 1 << 15  # rows whose keys are computed at a time
GAP = np.uint64(0x9E3779B97F4A7C15)  # the bits of a missing cell
MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
MAX_ROWS = 1 << 21  # rows whose keys are computed at a time


def row_keys(table: Table, seed: int) -> np.ndarray:
    """Return keys (n,) of 64 random bits; equal rows have equal keys."""
    n, d = table.numbers.shape
    draws, factors = key_factors(d, seed)
    keys = np.empty(n, dtype=np.uint64)

    def fill(start: int) -> None:
        part = table.take(slice(start, start + BLOCK_ROWS))
        numbers = part.numbers.astype(np.float64) + 0.0  # minus zero is zero
        bits = numbers.view(np.uint64)
        gaps = np.isnan(numbers)
        if gaps.any():
            bits[gaps] = GAP
        bits += draws
        bits ^= bits >> np.uint64(32)
        bits *= factors
        bits ^= bits >> np.uint64(29)
        total = np.add.reduce(bits, axis=1)
        for j, values in part.labels.items():
            own = label_keys(values, seed)  # missing cells of numbers and categories are the same:
            own[[value is None for value in values.tolist()]] = np.uint64(0)
            total += own * factors[j]  # an empty column may be either
        keys[start : start + len(total)] = mix(total)

    thread_map(fill, range(0, n, BLOCK_ROWS))
    return keys


def key_factors(d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a random summand and an odd factor for each of d columns."""
    draws = np.random.default_rng([seed, d]).integers(0, 1 << 63, size=d, dtype=np.uint64)
    return draws, np.bitwise_or(draws << np.uint64(1), np.uint64(1))


def label_keys(labels: Iterable[Any], seed: int) -> np.ndarray:
    """Return keys of labels of any types."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    known = {label: _label_key(label, seed) for label in set(labels)}
    return np.fromiter(map(known.__getitem__, labels), dtype=np.uint64, count=len(labels))


def group_keys(groups: Iterable[Any]) -> np.ndarray:
    """Return keys of the labels of groups, in which 1 and 1.0 are the same; refuse missing labels."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in groups]
    if any(is_missing(label) for label in labels):
        raise ValueError("groups has missing labels: give every row a group")
    return label_keys([int(v) if isinstance(v, float) and v.is_integer() else v for v in labels], 0)


def _label_key(label: Any, seed: int) -> int:
    text = f"{seed} {type(label).__name__} {label}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def mix(x: np.ndarray) -> np.ndarray:
    """Mix the bits, so that each depends on all others."""
    x = (x ^ (x >> np.uint64(30))) * MIX[0]
    x = (x ^ (x >> np.uint64(27))) * MIX[1]
    return x ^ (x >> np.uint64(31))


def times_gap(number: int) -> np.uint64:
    """Return a key of an integer, to be added to other keys."""
    return np.uint64(number * int(GAP) % 2**64)


def repeated(keys: np.ndarray) -> np.ndarray:
    """Return the positions of the keys that occur more than once."""
    ordered = np.sort(keys)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.flatnonzero(np.isin(keys, twice)) if len(twice) else np.empty(0, dtype=np.int64)


def copies_before(keys: np.ndarray, codes: np.ndarray, ties: Sequence[np.ndarray] = ()) -> np.ndarray:
    """Return the number of rows (n,) with the same key and class that precede each row.

    Such rows are sorted by `ties`, the last of which is the first criterion, then by position.
    """
    out = np.zeros(len(keys), dtype=np.int64)
    some = repeated(keys)
    if not len(some):
        return out
    order = some[np.lexsort([*(tie[some] for tie in ties), codes[some], keys[some]])]
    first = np.r_[True, (keys[order[1:]] != keys[order[:-1]]) | (codes[order[1:]] != codes[order[:-1]])]
    place = np.arange(len(order))
    out[order] = place - np.maximum.accumulate(np.where(first, place, 0))
    return out


def sampling_keys(keys: np.ndarray, ties: Sequence[np.ndarray] = (), salt: int = 0) -> np.ndarray:
    """Return keys (n,) that differ for equal rows too, so that the rows with the lowest keys are a random sample.

    `ties` order rows with equal keys, so that their positions do not matter; `salt` makes the keys of copies (but not
    of the first ones) differ between blocks.
    """
    copies = copies_before(keys, np.zeros(len(keys), dtype=np.int64), ties)
    return np.where(copies == 0, keys, mix(keys + (copies + (salt << 32)).astype(np.uint64) * GAP))


def lowest(keys: np.ndarray, size: int) -> np.ndarray:
    """Return the sorted positions of the `size` lowest keys."""
    if size >= len(keys):
        return np.arange(len(keys))
    return np.sort(np.argpartition(keys, size)[:size])


def lowest_distinct(keys: np.ndarray, size: int) -> np.ndarray:
    """Return the sorted first positions of the `size` lowest distinct keys."""
    few = lowest(keys, 4 * size)
    distinct, first = np.unique(keys[few], return_index=True)
    if len(distinct) < size and len(few) < len(keys):
        few = np.arange(len(keys))
        distinct, first = np.unique(keys, return_index=True)
    return np.sort(few[first[:size]])


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
