"""Sums of outer products over rows, which are all that a least-squares fit needs.

A row x of a class becomes the vector ``v = [1, phi_1(x), ..., phi_D(x), e_class]`` of functions of its columns and the
indicator of its class. The sum of ``weight * v v'`` holds the total weight, the means, the Gram matrix of the functions
and their products with any targets that depend on the class. Sums of blocks of rows add up, so rows may come in any
order and grouping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from tamis.codec import stored
from tamis.kernels.bank import KernelBank
from tamis.kernels.stacks.chebyshev import Basis, Chebyshev
from tamis.parallel import thread_map
from tamis.table.encoding import Encoder
from tamis.table.rows import Rows
from tamis.table.table import Table

CHUNK_ROWS = 16384  # rows that are encoded at a time
CACHED_NUMBERS = 700_000  # numbers in one matrix product that fit into a cache
MAX_PRODUCT_NUMBERS = 1 << 25  # numbers in one matrix product of vectors too long for a cache
MAX_PARTIAL_SUMS = 8  # the order of additions is the same for any number of threads
MAX_PARTIAL_BYTES = 1 << 28  # memory of all partial sums


class Functions(Protocol):
    """Functions of an encoded row; the first one is constant."""

    @property
    def size(self) -> int: ...

    def fill(self, Z: np.ndarray, out: np.ndarray) -> None:
        """Write the values at rows Z (n, d) into `out` (size, n)."""
        ...


@stored
@dataclass(frozen=True)
class ColumnFunctions:
    """The constant, and the functions of one basis per column.

    Attributes
    ----------
    bases : one per column
    gaps : (d,) which columns may have missing cells; elsewhere T_0 is the constant itself
    """

    bases: tuple[Basis, ...]
    gaps: tuple[bool, ...]

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

    def fill(self, Z: np.ndarray, out: np.ndarray) -> None:
        out[0] = 1.0
        if len(self.plain):
            self._fill_plain(Z, out)
        for j in self.others:
            out[self.positions[j]] = self.bases[j].features(Z[:, j])

    @cached_property
    def affine(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and twice the inverse half-width of the range of each plain column."""
        low, high = (np.array([getattr(self.bases[j], name) for j in self.plain]) for name in ("low", "high"))
        width = high - low
        return 0.5 * (low + high), np.where(width > 0, 4.0 / np.where(width > 0, width, 1.0), 0.0)

    def _fill_plain(self, Z: np.ndarray, out: np.ndarray) -> None:
        """All polynomials by one recurrence over the degrees, on fewer and fewer columns."""
        centre, scale = self.affine
        exact = np.subtract(Z[:, self.plain].T, centre[:, None], order="C")  # 2 t
        exact *= scale[:, None]
        twice = exact.astype(out.dtype, copy=False)
        gaps = np.array([self.gaps[j] for j in self.plain], dtype=bool)
        present = ~np.isnan(twice) if gaps.any() else None
        if present is not None:
            twice[~present] = 0.0
            out[1 : 1 + gaps.sum()] = present[gaps]
        np.clip(twice, -2.0, 2.0, out=twice)
        start = 1 + int(gaps.sum())
        blocks = [np.ones((1, 1), dtype=out.dtype)]
        for k, active in enumerate(self.active[1:], start=1):
            block = out[start : start + active]
            if k == 1:
                np.multiply(twice[:active], out.dtype.type(0.5), out=block)
            else:
                np.multiply(twice[:active], blocks[-1][:active], out=block)
                block -= blocks[-2][:active]
            blocks.append(block)
            start += active
        if present is not None and not present.all():
            for block in blocks[1:]:
                block *= present[: len(block)]


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

    def fill(self, Z: np.ndarray, out: np.ndarray) -> None:
        out[0] = 1.0
        for places, channel in zip(self.positions, self.bank.channels, strict=True):
            out[places[0] : places[-1] + 1] = channel(self.instances, Z)


class EncodedBlock(NamedTuple):
    """Encoded rows (n, d) with their class codes, weights (None: all one) and folds."""

    Z: np.ndarray
    codes: np.ndarray
    weight: np.ndarray | None
    fold: np.ndarray


def outer_sums(
    functions: Functions,
    read: Callable[[slice], EncodedBlock],
    n: int,
    *,
    n_classes: int,
    n_folds: int,
    dtype: str = "float64",
) -> np.ndarray:
    """Return the sums of outer products of the rows' vectors, one per fold.

    Parameters
    ----------
    functions : Functions
    read : returns the encoded rows of a slice of range(n)
    n_folds : folds to which ``EncodedBlock.fold`` assigns the rows
    dtype : of the products of a block, "float64" or "float32"; blocks are added in double precision

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
    functions.fill(block.Z[rows], table[: functions.size])
    classes = np.arange(len(table) - functions.size)
    table[functions.size :] = block.codes[rows] == classes[:, None]
    if block.weight is not None:
        table *= np.sqrt(block.weight[rows]).astype(table.dtype)


ExactSums = Callable[[Functions, Encoder, np.ndarray], np.ndarray]  # another pass over all rows, as `sum_again`


def sum_table(
    functions: Functions,
    encoder: Encoder,
    table: Table,
    codes: np.ndarray,
    weight: np.ndarray | None,
    n_classes: int,
) -> np.ndarray:
    """Return sums (A, A) of functions of the columns of a table, which `encoder` encodes."""

    def read(chunk: slice) -> EncodedBlock:
        Z = encoder.encode(table.take(chunk))
        return EncodedBlock(Z, codes[chunk], None if weight is None else weight[chunk], np.zeros(len(Z), dtype=int))

    return outer_sums(functions, read, len(codes), n_classes=n_classes, n_folds=1)[0]


def sum_again(rows: Rows, functions: Functions, encoder: Encoder, columns: np.ndarray) -> np.ndarray:
    """Return sums (A, A) of functions of some `columns` over rows in memory."""
    weight = None if np.all(rows.weight == 1.0) else rows.weight
    return sum_table(functions, encoder, rows.table.select(columns), rows.codes, weight, len(rows.classes))
