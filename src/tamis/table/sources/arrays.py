"""Memory maps and other arrays that are too large to be copied whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tamis.table.sources.base import Block, Source, block_rows

LARGE = 1 << 28  # bytes from which on a memory map is read block by block


class ArraySource(Source):
    """Slices of an array (n, d), with y, weights and groups as arrays (n,) or None beside it."""

    quick = True

    def __init__(self, X: np.ndarray, y: Any, weight: Any = None, groups: Any = None):
        self.X, self.n_rows = X, len(X)
        self.columns = [None if part is None else np.asarray(part) for part in (y, weight, groups)]
        for name, part in zip(("y", "sample_weight", "groups"), self.columns, strict=True):
            if part is not None and len(part) != len(X):
                raise ValueError(f"{name} has length {len(part)}, but X has {len(X)} rows: give one for each row")

    @property
    def fingerprint(self) -> str:
        path = getattr(self.X, "filename", None)
        written = Path(path).stat().st_mtime_ns if path is not None and Path(path).exists() else ""
        return f"{super().fingerprint} {self.X.shape} {self.X.dtype} {path} {written}"

    def blocks(self, start: int = 0) -> Iterator[Block]:
        step = block_rows(self.X.shape[1])
        for number in range(start, -(-len(self.X) // step)):
            rows = slice(number * step, (number + 1) * step)
            y, weight, groups = (None if part is None else np.array(part[rows]) for part in self.columns)
            yield Block(number, np.array(self.X[rows]), y, weight, groups)


def is_large_map(X: Any) -> bool:
    """Whether X is a memory map of numbers that had better not be copied."""
    return isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiu" and X.nbytes > LARGE
