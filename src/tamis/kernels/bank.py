"""KernelBank: named kernels on named columns, ready to be evaluated on rows.

A bank is immutable and knows nothing of the training rows: whatever a recipe learns from data
(bandwidths, groups of columns) is already a number in its kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tamis.arrays import Array
from tamis.codec import stored
from tamis.kernels.base import Categorical, Kernel
from tamis.kernels.chebyshev import Basis, Levels, chebyshev
from tamis.kernels.factored import FactoredStack
from tamis.kernels.stack import ChebyshevStack, DenseStack, KernelStack, StreamingStack

MEMORY = 1 << 30  # bytes that a dense stack may take under form="auto"


@stored
@dataclass(frozen=True)
class Channel:
    """One kernel on one group of columns (positions in the encoded table)."""

    name: str
    kernel: Kernel
    columns: tuple[int, ...]

    def __call__(self, X: Array, Y: Array) -> Array:
        """Gram matrix (m, n) between the rows of two encoded tables."""
        columns = list(self.columns)
        return self.kernel(X[:, columns], Y[:, columns])

    def narrowed(self, Y: Array) -> Channel:
        """The channel for values with the rows Y only: a kernel that holds values drops the others."""
        narrow = getattr(self.kernel, "narrowed", None)
        return self if narrow is None else replace(self, kernel=narrow(Y[:, list(self.columns)]))


@stored
@dataclass(frozen=True)
class KernelBank:
    """A tuple of channels with distinct names."""

    channels: tuple[Channel, ...]

    def __post_init__(self) -> None:
        names = Counter(self.names).most_common(1)
        if names and names[0][1] > 1:
            raise ValueError(f"kernels: two kernels are named {names[0][0]!r}; explanations need distinct names")

    def __len__(self) -> int:
        return len(self.channels)

    @property
    def names(self) -> list[str]:
        return [channel.name for channel in self.channels]

    @property
    def columns(self) -> np.ndarray:
        """The columns that some channel stands on, sorted."""
        return np.unique([c for channel in self.channels for c in channel.columns]).astype(int)

    @property
    def one_to_one(self) -> bool:
        """Whether every channel stands on one column and no column carries two."""
        columns = [c for channel in self.channels for c in set(channel.columns)]
        return len(columns) == len(set(columns)) == len(self)

    @property
    def positions(self) -> bool:
        """Whether a kernel takes positions of items in place of features."""
        return any(getattr(channel.kernel, "positions", False) for channel in self.channels)

    def incidence(self, n_columns: int) -> np.ndarray:
        """Boolean matrix (kernels, columns): which channel stands on which column."""
        table = np.zeros((len(self), n_columns), dtype=bool)
        for row, channel in zip(table, self.channels, strict=True):
            row[list(channel.columns)] = True
        return table

    def take(self, kernels: Sequence[int] | np.ndarray) -> KernelBank:
        """The bank of the chosen channels."""
        return KernelBank(tuple(self.channels[k] for k in kernels))

    def relabel(self, columns: np.ndarray) -> KernelBank:
        """The same bank on a table that keeps only `columns`, in that order."""
        place = {int(c): k for k, c in enumerate(columns)}
        return KernelBank(tuple(replace(ch, columns=tuple(place[c] for c in ch.columns)) for ch in self.channels))

    def narrowed(self, Y: Array) -> KernelBank:
        """The same bank for values with the rows Y only."""
        return KernelBank(tuple(channel.narrowed(Y) for channel in self.channels))

    def stack(self, X: Array, Y: Array | None = None, *, form: str = "auto") -> KernelStack:
        """Kernel values between the rows of X and Y (default: X itself), as a KernelStack.

        Parameters
        ----------
        form : "dense" keeps all values, "streaming" recomputes them in blocks, "auto" is dense
            up to a gibibyte. "chebyshev" is for kernels of one column each that are short polynomials
            (Gaussian, polynomial) or indicators: products with vectors in linear time, values to within
            the stack's `error_bound`. "factored" is for Y = X: smooth positive semi-definite kernels as products of
            short factors, in linear time and to within `error_bound` as well; other kernels are streamed.
        """
        if form == "factored":
            if Y is not None and Y is not X:
                raise ValueError("form='factored' takes the rows of X alone: leave Y out, or use form='streaming'")
            return FactoredStack.evaluate(self.channels, X)
        Y = X if Y is None else Y
        if form == "auto":
            size = 8 * len(self) * X.shape[0] * Y.shape[0]
            form = "dense" if size <= MEMORY else "streaming"
        if form not in ("dense", "streaming", "chebyshev"):
            raise ValueError(f"form={form!r} is unknown: use 'auto', 'dense', 'streaming', 'chebyshev' or 'factored'")
        if form == "chebyshev":
            return ChebyshevStack(self.channels, [_short_form(ch, X, Y) for ch in self.channels], X, Y)
        return DenseStack.evaluate(self.channels, X, Y) if form == "dense" else StreamingStack(self.channels, X, Y)


def _short_form(channel: Channel, X: np.ndarray, Y: np.ndarray) -> Basis:
    """The basis for one channel on the values that it meets."""
    basis: Basis | None = None
    if len(channel.columns) == 1:
        values = np.concatenate([X[:, channel.columns[0]], Y[:, channel.columns[0]]])
        values = values[~np.isnan(values)]
        if isinstance(channel.kernel, Categorical):
            basis = Levels(tuple(np.unique(values).tolist()), nearest=False)
        else:
            basis = chebyshev(channel.kernel, *_range(values))
    if basis is None:
        raise ValueError(
            f"kernels: {channel.name!r} has no short polynomial form: form='chebyshev' takes Gaussian, polynomial and "
            "categorical kernels of one column; use form='dense' or 'streaming'"
        )
    return basis


def _range(values: np.ndarray) -> tuple[float, float]:
    return (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
