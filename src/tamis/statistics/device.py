"""Sums over rows on a device, as `outer_sums` for numpy.

Rows are cut into many short pieces, whose products are computed as one batched product; of the symmetric result only
the bands on and above the diagonal are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from tamis.arrays import Array, device_of, full_precision, namespace, quick_double, to_device, to_numpy
from tamis.kernels.stacks.chebyshev import Basis, Chebyshev, Levels
from tamis.statistics.plan import Plan
from tamis.statistics.sums import ColumnFunctions, EncodedBlock, Functions, PairFunctions
from tamis.table.encoding import Encoder, device_encode

MAX_ROWS = 1 << 20  # rows at a time
MAX_NUMBERS = 1 << 29  # numbers in the vectors of the rows at a time
PIECE_ROWS = 4096  # rows of one product: sums of so many single-precision numbers are accurate to 1e-7
N_BANDS = 4  # bands of rows of the result


def device_sums(
    functions: Functions,
    read: Callable[[slice], EncodedBlock],
    n: int,
    *,
    n_classes: int,
    n_folds: int,
    dtype: str,
) -> np.ndarray:
    """Return the sums (n_folds, A, A) of outer products of the rows' vectors; parameters are those of `outer_sums`.

    `read` returns arrays on one device; products are computed in `dtype` and added in double precision.
    """
    size = functions.size + n_classes
    step = max(PIECE_ROWS, min(MAX_ROWS, MAX_NUMBERS // size) // PIECE_ROWS * PIECE_ROWS)
    total: Array = None
    with full_precision():
        for start in range(0, n, step):
            block = read(slice(start, min(start + step, n)))
            if total is None:
                xp = namespace(block.Z)
                total = xp.zeros((n_folds, size, size), dtype=xp.float64, device=device_of(block.Z))
            for fold in range(n_folds):
                _add(total[fold, ...], functions, _rows_of_fold(block, fold) if n_folds > 1 else block, dtype)
    if total is None:
        return np.zeros((n_folds, size, size))
    upper = np.triu(to_numpy(total))
    return upper + np.triu(upper, 1).swapaxes(1, 2)


def _rows_of_fold(block: EncodedBlock, fold: int) -> EncodedBlock:
    """Return the rows of one fold."""
    xp = namespace(block.Z)
    rows = xp.nonzero(block.fold == fold)[0]
    weight = None if block.weight is None else xp.take(block.weight, rows, axis=0)
    return EncodedBlock(xp.take(block.Z, rows, axis=0), xp.take(block.codes, rows, axis=0), weight, block.fold)


def _add(total: Array, functions: Functions, block: EncodedBlock, dtype: str) -> None:
    """Add the products of some rows to the bands of `total` (A, A), in place."""
    m, size = block.Z.shape[0], total.shape[0]
    if not m:
        return
    xp, device = namespace(block.Z), device_of(block.Z)
    length = min(PIECE_ROWS, m)
    pieces = -(-m // length)
    vectors = xp.empty((pieces, size, length), dtype=getattr(xp, dtype), device=device)
    fill_functions(functions, _cut(block.Z, pieces, length), vectors[:, : functions.size, :])
    codes = _cut(block.codes[:, None], pieces, length)
    classes = xp.arange(size - functions.size, dtype=codes.dtype, device=device)
    vectors[:, functions.size :, :] = xp.astype(codes == classes[None, :, None], vectors.dtype)
    if block.weight is not None:
        vectors *= xp.astype(xp.sqrt(_cut(block.weight[:, None], pieces, length)), vectors.dtype)
    last = m - (pieces - 1) * length
    vectors[pieces - 1, :, last:] = 0.0
    ends = [round(size * k / N_BANDS) for k in range(N_BANDS + 1)]
    for low, high in pairwise(ends):
        if low < high:
            products = xp.matmul(vectors[:, low:high, :], xp.matrix_transpose(vectors[:, low:, :]))
            total[low:high, low:] += xp.sum(products, axis=0, dtype=xp.float64)


def _cut(values: Array, pieces: int, length: int) -> Array:
    """Cut (n, c) into pieces (pieces, c, length) of consecutive rows; the last one is padded with its last row."""
    xp = namespace(values)
    short = pieces * length - values.shape[0]
    if short:
        tail = xp.broadcast_to(values[-1:, :], (short, values.shape[1]))
        values = xp.concat([values, tail], axis=0)
    return xp.matrix_transpose(xp.reshape(values, (pieces, length, values.shape[1])))


# ---------------------------------------------------------------------- rows of a plan


def sum_tensor_rows(
    plan: Plan, X: Array, codes: Array, weight: Array | None, fold: Array
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sums and numbers of rows by fold, and numbers of cells outside the ranges by column."""
    xp = namespace(X)
    counted = fold if weight is None else fold[weight > 0]
    count = np.array([int(xp.count_nonzero(counted == k)) for k in range(plan.n_folds)])
    parts = encoded_sums(plan.functions, plan.encoder, None, X, codes, weight, fold, plan)
    return parts, count, _count_outside(plan, X)


def encoded_sums(
    functions: Functions,
    encoder: Encoder,
    columns: np.ndarray | None,
    X: Array,
    codes: Array,
    weight: Array | None,
    fold: Array | None,
    plan: Plan,
) -> np.ndarray:
    """Return the sums (folds, A, A) of functions of encoded columns; without `fold` there is one."""

    def read(rows: slice) -> EncodedBlock:
        Z = device_encode(encoder, X[rows, :], columns)
        own = None if weight is None else weight[rows]
        return EncodedBlock(Z, codes[rows], own, fold if fold is None else fold[rows])  # type: ignore[arg-type]

    n_folds = 1 if fold is None else plan.n_folds
    dtype = "float32" if plan.dtype == "float32" and fold is not None and not quick_double(X) else "float64"
    return device_sums(functions, read, X.shape[0], n_classes=len(plan.classes), n_folds=n_folds, dtype=dtype)


def _count_outside(plan: Plan, X: Array) -> np.ndarray:
    """Return the numbers (d,) of cells outside the plan's ranges, or of unknown levels."""
    xp, columns = namespace(X), plan.encoder.columns
    low, high = (to_device([getattr(c, name) for c in columns], device_of(X), "float64") for name in ("low", "high"))
    out = np.zeros(X.shape[1], dtype=np.int64)
    levels = {j: basis for j, basis in enumerate(plan.functions.bases) if isinstance(basis, Levels)}
    for start in range(0, X.shape[0], MAX_ROWS):
        x = X[start : start + MAX_ROWS, :]
        beyond = (x < low) | (x > high)
        out += to_numpy(xp.count_nonzero(beyond, axis=0))
        Z = device_encode(plan.encoder, x, None) if levels else x
        for j, basis in levels.items():
            unknown = ~beyond[:, j] & ~xp.isnan(x[:, j])
            for value in basis.values:  # in units of the column; encoding is rounded differently from numpy
                unknown = unknown & (xp.abs(Z[:, j] - value) > 1e-9 * max(1.0, abs(value)))
            out[j] += int(xp.count_nonzero(unknown))
    return out


# ---------------------------------------------------------------------- functions


def fill_functions(functions: Functions, Z: Array, out: Array) -> None:
    """Write the values at pieces Z (b, d, m) of encoded rows into `out` (b, size, m)."""
    if isinstance(functions, ColumnFunctions):
        _fill_columns(functions, Z, out)
    elif isinstance(functions, PairFunctions):
        _fill_pairs(functions, Z, out)
    else:
        raise TypeError(f"functions of the type {type(functions).__name__} have no form on devices")


def _fill_columns(functions: ColumnFunctions, Z: Array, out: Array) -> None:
    xp = namespace(Z)
    out[:, 0, :] = 1.0
    if len(functions.plain):
        _fill_plain(functions, Z, out)
    for j in functions.others:
        places = functions.positions[j]
        out[:, int(places[0]) : int(places[-1]) + 1, :] = xp.astype(
            _features(functions.bases[j], Z[:, j, :]), out.dtype
        )


def _fill_plain(functions: ColumnFunctions, Z: Array, out: Array) -> None:
    """All polynomials on one panel, as `ColumnFunctions` does it."""
    xp, device = namespace(Z), device_of(Z)
    centre, scale = (to_device(values, device, "float64") for values in functions.affine)
    order = to_device(functions.plain, device)
    t = (xp.take(Z, order, axis=1) - centre[None, :, None]) * (0.5 * scale)[None, :, None]
    t = xp.clip(xp.astype(t, out.dtype), -1.0, 1.0)  # NaN stays
    gaps = np.array([functions.gaps[j] for j in functions.plain], dtype=bool)
    start = 1 + int(gaps.sum())
    if gaps.any():
        there = xp.take(~xp.isnan(t), to_device(np.flatnonzero(gaps), device), axis=1)
        out[:, 1:start, :] = xp.astype(there, out.dtype)
    present = xp.astype(~xp.isnan(t), out.dtype) if bool(xp.any(xp.isnan(t))) else None
    t = t if present is None else xp.where(xp.isnan(t), xp.zeros_like(t), t)
    twice, before, last = 2.0 * t, xp.ones_like(t), t
    for k, active in enumerate(functions.active[1:], start=1):
        if k > 1:
            before, last = last, twice[:, :active, :] * last[:, :active, :] - before[:, :active, :]
        block = last[:, :active, :]
        out[:, start : start + active, :] = block if present is None else block * present[:, :active, :]
        start += active


def _features(basis: Basis, z: Array) -> Array:
    """Values (b, size, m) of the functions of one column at z (b, m), as ``Basis.features``."""
    if isinstance(basis, Levels):
        return _levels(basis, z)
    if isinstance(basis, Chebyshev):
        return _panels(basis, z)
    raise TypeError(f"a basis of the type {type(basis).__name__} has no form on devices")


def _levels(basis: Levels, z: Array) -> Array:
    xp, device = namespace(z), device_of(z)
    values = to_device(np.array(basis.values), device, "float64")
    if not basis.nearest:
        return z[:, None, :] == values[None, :, None]
    middle = 0.5 * (values[1:] + values[:-1])
    place = xp.searchsorted(middle, xp.astype(z, xp.float64) + 0.0)  # a copy: searchsorted requires contiguous numbers
    number = xp.arange(len(basis.values), dtype=place.dtype, device=device)
    return (place[:, None, :] == number[None, :, None]) & ~xp.isnan(z)[:, None, :]


def _panels(basis: Chebyshev, z: Array) -> Array:
    xp, device = namespace(z), device_of(z)
    there = ~xp.isnan(z)
    whole = xp.where(there, z, xp.full_like(z, basis.low))
    place = xp.clip((whole - basis.low) / basis.width, 0.0, float(basis.panels))
    panel = xp.clip(xp.floor(place), 0.0, float(basis.panels - 1))
    t = 2.0 * (place - panel) - 1.0
    rows = [xp.ones_like(t), t]
    while len(rows) < basis.degrees:
        rows.append(2.0 * t * rows[-1] - rows[-2])
    values = xp.stack(rows[: basis.degrees], axis=1) * xp.astype(there, t.dtype)[:, None, :]
    number = xp.arange(basis.panels, dtype=t.dtype, device=device)
    mine = xp.astype(panel[:, None, :] == number[None, :, None], t.dtype)
    out = mine[:, :, None, :] * values[:, None, :, :]
    return xp.reshape(out, (z.shape[0], basis.size, z.shape[1]))


def _fill_pairs(functions: PairFunctions, Z: Array, out: Array) -> None:
    xp = namespace(Z)
    out[:, 0, :] = 1.0
    b, d, m = Z.shape
    rows = xp.reshape(xp.matrix_transpose(Z), (b * m, d))
    instances = to_device(functions.instances, device_of(Z), "float64")
    for places, channel in zip(functions.positions, functions.bank.channels, strict=True):
        values = xp.reshape(channel(rows, instances), (b, m, instances.shape[0]))
        out[:, int(places[0]) : int(places[-1]) + 1, :] = xp.astype(xp.matrix_transpose(values), out.dtype)
