"""KernelBank: named kernels on named columns, ready to be evaluated on rows.

A bank is immutable and knows nothing of the training rows: whatever a recipe learns from data
(bandwidths, groups of columns) is already a number in its kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from tamis.arrays import Array
from tamis.codec import stored
from tamis.kernels.base import Kernel, as_kernel
from tamis.kernels.stacks.base import ChebyshevStack, DenseStack, KernelStack, StreamingStack
from tamis.kernels.stacks.chebyshev import Basis, Levels, chebyshev
from tamis.kernels.stacks.device import DeviceStack
from tamis.kernels.stacks.factored import FactoredStack
from tamis.kernels.stacks.twosided import TwoSided, two_sided, widened

MEMORY = 1 << 30  # bytes that a dense stack may take under form="auto"
COMPACT = 1 << 27  # bytes that it may take under form="compact"
FORMS = ("auto", "compact", "dense", "streaming", "chebyshev", "factored")
POLYNOMIALS = 0.45  # per row: where a sigmoid needs more, its values themselves are quicker


@stored
@dataclass(frozen=True)
class Channel:
    """One kernel on one group of columns (positions in the encoded table)."""

    name: str
    kernel: Kernel
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))

    def __call__(self, X: Array, Y: Array) -> Array:
        """Gram matrix (m, n) between the rows of two encoded tables."""
        columns = list(self.columns)
        return self.kernel(X[:, columns], Y[:, columns])

    def presence(self, X: Array) -> np.ndarray:
        """Mask (m,) of the rows of an encoded table that have this channel."""
        return self.kernel.presence(X[:, list(self.columns)])

    def narrowed(self, Y: Array) -> Channel:
        """The channel for values with the rows Y only: a kernel that holds values drops the others."""
        return replace(self, kernel=self.kernel.narrowed(Y[:, list(self.columns)]))


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
        """Names of the channels."""
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
        return any(channel.kernel.positions for channel in self.channels)

    def bank(self, sample: Any, bandwidth: Any) -> KernelBank:
        """The bank itself, as a recipe gives one."""
        return self

    def incidence(self, n_columns: int) -> np.ndarray:
        """Boolean matrix (kernels, columns): which channel stands on which column."""
        table = np.zeros((len(self), n_columns), dtype=bool)
        for row, channel in zip(table, self.channels, strict=True):
            row[list(channel.columns)] = True
        return table

    def presence(self, X: Array) -> np.ndarray:
        """Boolean matrix (m, L): which channels each row of an encoded table has; those it lacks are zero."""
        table = np.empty((len(self), X.shape[0]), dtype=bool)
        for row, channel in zip(table, self.channels, strict=True):
            row[:] = channel.presence(X)
        return table.T

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

    def stack(self, X: Array, Y: Array | None = None, *, form: str = "auto", device: str | None = None) -> KernelStack:
        """Kernel values between the rows of X and Y (default: X itself), as a KernelStack.

        Parameters
        ----------
        X, Y : encoded rows
        form : "dense" keeps all values, "streaming" recomputes them in blocks, "auto" is dense
            up to a gibibyte. "chebyshev" is for kernels of one column each that are short polynomials
            (Gaussian, polynomial, sigmoid) or indicators: products with vectors in linear time, values to within
            the stack's `error_bound`; a sigmoid that needs too many polynomials for that is exact. "compact" is
            dense up to 128 mebibytes, and beyond that like "chebyshev" with every kernel exact that has no short
            form. "factored" is for Y = X: smooth positive semi-definite kernels as products of short factors, in
            linear time and to within `error_bound` as well; other kernels are streamed.
        device : where all values are held, "cuda" or "cpu" of torch, whatever the form; None: in numpy
        """
        if form not in FORMS:
            raise ValueError(f"form={form!r} is unknown: use one of {', '.join(map(repr, FORMS))}")
        if device is not None:
            return DeviceStack.evaluate(self.channels, X, X if Y is None else Y, device)
        if form == "factored":
            if Y is not None and Y is not X:
                raise ValueError("form='factored' takes the rows of X alone: leave Y out, or use form='streaming'")
            return FactoredStack.evaluate(self.channels, X)
        Y = X if Y is None else Y
        size = 8 * len(self) * X.shape[0] * Y.shape[0]
        if form == "auto":
            form = "dense" if size <= MEMORY else "streaming"
        if form == "compact" and size <= COMPACT:
            form = "dense"
        if form in ("chebyshev", "compact"):
            return ChebyshevStack(self.channels, _short_forms(self.channels, X, Y, form == "chebyshev"), X, Y)
        return DenseStack.evaluate(self.channels, X, Y) if form == "dense" else StreamingStack(self.channels, X, Y)


def _short_forms(
    channels: Sequence[Channel], X: np.ndarray, Y: np.ndarray, every: bool
) -> list[Basis | TwoSided | None]:
    """The basis for each channel on the values that it meets; None (refused if `every`) where there is none.

    A short form that is not shorter than the rows is none, except that `every` asks for those of the other kernels
    than sigmoids whatever their length.
    """
    low = np.fmin(np.fmin.reduce(X, axis=0, initial=np.inf), np.fmin.reduce(Y, axis=0, initial=np.inf))
    high = np.fmax(np.fmax.reduce(X, axis=0, initial=-np.inf), np.fmax.reduce(Y, axis=0, initial=-np.inf))
    low, high = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
    near, far = (-widened(-low)).tolist(), widened(high).tolist()
    most = POLYNOMIALS * min(len(X), len(Y))
    bases: list[Basis | TwoSided | None] = []
    for channel in channels:
        column = channel.columns[0] if len(channel.columns) == 1 else None
        if column is not None and channel.kernel.tanh_scale is not None:
            form = two_sided(channel.kernel, near[column], far[column])
            bases.append(form if form is not None and form.degrees < most else None)
        elif column is not None and channel.kernel.indicator:
            values = np.unique(np.concatenate([X[:, column], Y[:, column]]))
            bases.append(Levels(tuple(values[~np.isnan(values)].tolist()), nearest=False))
        else:
            basis = None if column is None else chebyshev(channel.kernel, float(low[column]), float(high[column]))
            if every and basis is None:
                _refuse(channel)
            bases.append(basis if every or (basis is not None and basis.size < most) else None)
    return bases


def _refuse(channel: Channel) -> NoReturn:
    raise ValueError(
        f"kernels: {channel.name!r} has no short polynomial form: form='chebyshev' takes Gaussian, polynomial, "
        "sigmoid and categorical kernels of one column; use form='dense' or 'streaming'"
    )
