"""Sums of outer products over rows, which are all that a least-squares fit needs.

A row x of a class becomes the vector ``v = [1, phi_1(x), ..., phi_D(x), e_class]`` of functions of its columns and the
indicator of its class. The sum of ``weight * v v'`` holds the total weight, the means, the Gram matrix of the functions
and their products with any targets that depend on the class. Sums of blocks of rows add up, so rows may come in any
order and grouping.

In numpy rows are cut into pieces whose vectors fit into a cache, and several threads sum them. On a device they are cut
into many short pieces, whose products are computed as one batched product; of the symmetric result only the bands on
and above the diagonal are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from tamis.arrays import Array, beside, device_of, full_precision, is_tensor, namespace, quick_double, to_numpy
from tamis.codec import stored
from tamis.kernels.bank import KernelBank
from tamis.kernels.stacks.chebyshev import Basis, Chebyshev, Levels
from tamis.parallel import thread_map
from tamis.table.encoding import Encoder, device_encode
from tamis.table.rows import Rows

CHUNK_ROWS = 16384  # rows that are encoded at a time
CACHED_NUMBERS = 700_000  # numbers in one matrix product that fit into a cache
MAX_PRODUCT_NUMBERS = 1 << 25  # numbers in one matrix product of vectors too long for a cache
MAX_PARTIAL_SUMS = 8  # the order of additions is the same for any number of threads
MAX_PARTIAL_BYTES = 1 << 28  # memory of all partial sums
MAX_DEVICE_ROWS = 1 << 20  # rows at a time on a device
MAX_DEVICE_NUMBERS = 1 << 29  # numbers in the vectors of these rows
PIECE_ROWS = 4096  # rows of one product: sums of so many single-precision numbers are accurate to 1e-7
N_BANDS = 4  # bands of rows of the result


class Functions(Protocol):
    """Functions of an encoded row; the first one is constant."""

    @property
    def size(self) -> int: ...

    def fill(self, Z: Array, out: Array) -> None:
        """Write the values at rows Z (..., d, n), transposed, into `out` (..., size, n)."""
        ...


@stored
@dataclass(frozen=True)
class ColumnFunctions:
    """The constant, and the functions of one basis per column."""

    bases: tuple[Basis, ...]  # one per column
    gaps: tuple[bool, ...]  # (d,) which columns may have missing cells; elsewhere T_0 is the constant itself

    @cached_property
    def plain(self) -> np.ndarray:
        """Columns with polynomials on one panel, longest first: their recurrences run side by side."""
        plain = [j for j, b in enumerate(self.bases) if isinstance(b, Chebyshev) and b.panels == 1]
        return np.array(sorted(plain, key=lambda j: -self.bases[j].size), dtype=int)

    @cached_property
    def active(self) -> list[int]:
        """How many plain columns have a polynomial of degree 0, 1, 2, ..."""
        sizes = np.array([self.bases[j].size for j in self.plain], dtype=int)
        return [int(np.sum(sizes > k)) for k in range(sizes.max(initial=0))]

    @cached_property
    def positions(self) -> list[np.ndarray]:
        """Where the functions of each column stand in the vector of a row."""
        out: list[list[int]] = [[] for _ in self.bases]
        top = 1
        for k, active in enumerate(self.active):
            for j in self.plain[:active]:
                if k == 0 and not self.gaps[j]:
                    out[j].append(0)
                else:
                    out[j].append(top)
                    top += 1
        for j in self.others:
            out[j] = list(range(top, top + self.bases[j].size))
            top += self.bases[j].size
        return [np.array(places, dtype=int) for places in out]

    @cached_property
    def others(self) -> list[int]:
        """Columns with several panels or levels."""
        return [j for j in range(len(self.bases)) if j not in set(self.plain.tolist())]

    @cached_property
    def size(self) -> int:
        return 1 + max((int(places.max(initial=0)) for places in self.positions), default=0)

    def fill(self, Z: Array, out: Array) -> None:
        out[..., 0, :] = 1.0
        if len(self.plain):
            self._fill_plain(Z, out)
        for j in self.others:
            basis, z = self.bases[j], Z[..., j, :]
            _write(_features(basis, z) if is_tensor(z) else basis.features(z), self.positions[j], out)

    @cached_property
    def affine(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and twice the inverse half-width of the range of each plain column."""
        low, high = (np.array([getattr(self.bases[j], name) for j in self.plain]) for name in ("low", "high"))
        width = high - low
        return 0.5 * (low + high), np.where(width > 0, 4.0 / np.where(width > 0, width, 1.0), 0.0)

    def _fill_plain(self, Z: Array, out: Array) -> None:
        """All polynomials by one recurrence over the degrees, on fewer and fewer columns."""
        xp = namespace(Z)
        centre, scale = (beside(values, Z)[:, None] for values in self.affine)
        twice = xp.take(Z, beside(self.plain, Z), axis=-2)  # 2 t
        twice -= centre
        twice *= scale
        twice = xp.astype(twice, out.dtype, copy=False)
        gaps = np.array([self.gaps[j] for j in self.plain], dtype=bool)
        start = 1 + int(gaps.sum())
        present = None
        if gaps.any():
            present = ~xp.isnan(twice)
            twice = xp.where(present, twice, xp.zeros_like(twice))
            present = xp.astype(present, out.dtype)
            out[..., 1:start, :] = xp.take(present, beside(np.flatnonzero(gaps), Z), axis=-2)
        twice = xp.clip(twice, -2.0, 2.0)
        blocks = [xp.ones_like(twice[..., :1, :1])]
        for k, active in enumerate(self.active[1:], start=1):
            block = out[..., start : start + active, :]
            block[...] = twice[..., :active, :]
            block *= 0.5 if k == 1 else blocks[-1][..., :active, :]
            if k > 1:
                block -= blocks[-2][..., :active, :]
            blocks.append(block)
            start += active
        if present is not None and not bool(xp.all(present > 0)):
            for block in blocks[1:]:
                block *= present[..., : block.shape[-2], :]


@dataclass(frozen=True)
class PairFunctions:
    """The constant, and the exact kernel values on some instances, kernel by kernel."""

    bank: KernelBank
    instances: np.ndarray  # (k, d) encoded

    @property
    def size(self) -> int:
        return 1 + len(self.bank) * len(self.instances)

    @property
    def positions(self) -> list[np.ndarray]:
        """Where the values of each kernel stand in the vector of a row."""
        k = len(self.instances)
        return [1 + k * m + np.arange(k) for m in range(len(self.bank))]

    def fill(self, Z: Array, out: Array) -> None:
        xp, d = namespace(Z), Z.shape[-2]
        out[..., 0, :] = 1.0
        rows = xp.reshape(xp.matrix_transpose(Z), (-1, d))
        instances = beside(self.instances, Z)
        for places, channel in zip(self.positions, self.bank.channels, strict=True):
            values = xp.reshape(channel(rows, instances), (*Z.shape[:-2], Z.shape[-1], len(places)))
            _write(xp.matrix_transpose(values), places, out)


def _write(values: Array, places: np.ndarray, out: Array) -> None:
    """Write values (..., k, n) to consecutive places of `out` (..., size, n)."""
    xp = namespace(out)
    out[..., int(places[0]) : int(places[-1]) + 1, :] = xp.astype(values, out.dtype, copy=False)


def _features(basis: Basis, z: Array) -> Array:
    """Values (b, size, m) of the functions of one column at z (b, m) on a device, as ``Basis.features``."""
    if isinstance(basis, Levels):
        return _levels(basis, z)
    if isinstance(basis, Chebyshev):
        return _panels(basis, z)
    raise TypeError(f"a basis of the type {type(basis).__name__} has no form on devices")


def _levels(basis: Levels, z: Array) -> Array:
    xp, device = namespace(z), device_of(z)
    values = beside(np.array(basis.values, dtype=float), z)
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


# ---------------------------------------------------------------------- sums in numpy


class EncodedBlock(NamedTuple):
    """Encoded rows (n, d) with their class codes, weights (None: all one) and folds."""

    Z: np.ndarray
    codes: np.ndarray
    weight: np.ndarray | None
    fold: np.ndarray


def outer_sums(
    functions: Functions,
    read: Callable[[slice], EncodedBlock],  # returns the encoded rows of a slice of range(n)
    n: int,
    *,
    n_classes: int,
    n_folds: int,  # folds to which ``EncodedBlock.fold`` assigns the rows
    dtype: str = "float64",  # of the products of a block, "float64" or "float32"; blocks are added in double precision
) -> np.ndarray:
    """Return the sums of outer products of the rows' vectors, one per fold.

    Returns
    -------
    sums : (n_folds, A, A) with A = functions.size + n_classes
    """
    size = functions.size + n_classes
    chunks = [slice(start, min(start + CHUNK_ROWS, n)) for start in range(0, n, CHUNK_ROWS)]
    n_sums = max(1, min(MAX_PARTIAL_SUMS, MAX_PARTIAL_BYTES // (8 * n_folds * size * size), len(chunks)))
    step = max(CACHED_NUMBERS // size, min(2 * size, MAX_PRODUCT_NUMBERS // size))

    def partial_sum(number: int) -> np.ndarray:
        total, product = np.zeros((n_folds, size, size)), np.empty((size, size), dtype=dtype)
        for chunk in chunks[number::n_sums]:
            block = read(chunk)
            for fold in range(n_folds):
                rows = np.flatnonzero(block.fold == fold)
                for piece in np.array_split(rows, max(1, -(-len(rows) // step))):
                    table = np.empty((size, len(piece)), dtype=dtype)
                    _fill_vectors(functions, block, piece, table)
                    total[fold] += np.matmul(table, table.T, out=product)
        return total

    totals = thread_map(partial_sum, range(n_sums))
    return sum(totals[1:], start=totals[0])


def _fill_vectors(functions: Functions, block: EncodedBlock, rows: np.ndarray, table: np.ndarray) -> None:
    """Write the vectors of `rows`, times the square roots of their weights, as columns of `table` (A, n)."""
    functions.fill(block.Z[rows].T, table[: functions.size])
    classes = np.arange(len(table) - functions.size)
    table[functions.size :] = block.codes[rows] == classes[:, None]
    if block.weight is not None:
        table *= np.sqrt(block.weight[rows]).astype(table.dtype)


# ---------------------------------------------------------------------- sums on a device


def device_sums(
    functions: Functions, read: Callable[[slice], EncodedBlock], n: int, *, n_classes: int, n_folds: int, dtype: str
) -> np.ndarray:
    """As `outer_sums`, where `read` returns arrays on one device."""
    size = functions.size + n_classes
    step = max(PIECE_ROWS, min(MAX_DEVICE_ROWS, MAX_DEVICE_NUMBERS // size) // PIECE_ROWS * PIECE_ROWS)
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
    functions.fill(_cut(block.Z, pieces, length), vectors[:, : functions.size, :])
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


# ---------------------------------------------------------------------- functions of the columns of tables and tensors


def encoded_sums(
    functions: Functions,
    encoder: Encoder,
    X: Any,
    codes: Array,
    weight: Array | None,
    n_classes: int,
    *,
    columns: np.ndarray | None = None,
    fold: Array | None = None,
    n_folds: int = 1,
    dtype: str = "float64",
    inspect: Callable[[Any, Array], None] | None = None,
) -> np.ndarray:
    """Return the sums (n_folds, A, A) of functions of the encoded `columns` (all by default) of a table or tensor.

    `inspect` is called with every chunk of rows as it is given and as it is encoded.
    """
    tensor = is_tensor(X)
    if not tensor and columns is not None:
        X = X.select(columns)
    fold = namespace(codes).zeros_like(codes) if fold is None else fold

    def read(rows: slice) -> EncodedBlock:
        chunk = X[rows, :] if tensor else X.take(rows)
        Z = device_encode(encoder, chunk, columns) if tensor else encoder.encode(chunk)
        if inspect is not None:
            inspect(chunk, Z)
        own = None if weight is None else weight[rows]
        return EncodedBlock(Z, codes[rows], own, fold[rows])

    if tensor and quick_double(X):
        dtype = "float64"
    add_up = device_sums if tensor else outer_sums
    return add_up(functions, read, codes.shape[0], n_classes=n_classes, n_folds=n_folds, dtype=dtype)


ExactSums = Callable[[Functions, Encoder, np.ndarray], np.ndarray]  # another pass over all rows, as `sum_again`


def sum_again(rows: Rows, functions: Functions, encoder: Encoder, columns: np.ndarray) -> np.ndarray:
    """Return sums (A, A) of functions of some `columns` over rows in memory."""
    weight = None if np.all(rows.weight == 1.0) else rows.weight
    n_classes = len(rows.classes)
    return encoded_sums(functions, encoder, rows.table, rows.codes, weight, n_classes, columns=columns)[0]
