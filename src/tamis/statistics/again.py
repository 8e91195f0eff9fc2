"""Another pass over all rows: sums of other functions, such as the exact kernels of the chosen pairs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tamis.statistics.block_sums import Block, Functions, outer_sums
from tamis.table.encoding import Encoder
from tamis.table.rows import Rows

Again = Callable[[Functions, Encoder, np.ndarray], np.ndarray]  # functions of encoded columns; sums (A, A)


def sum_again(rows: Rows, functions: Functions, encoder: Encoder, columns: np.ndarray) -> np.ndarray:
    """Sums (A, A) over rows in memory of the products of functions of their `columns`, which `encoder` encodes."""
    even = bool(np.all(rows.weight == 1.0))

    def read(chunk: slice) -> Block:
        Z = encoder.encode(rows.table.take(chunk).select(columns))
        return Block(Z, rows.codes[chunk], None if even else rows.weight[chunk], np.zeros(len(Z), dtype=int))

    return outer_sums(functions, read, len(rows), n_classes=len(rows.classes), n_parts=1)[0]
