"""KernelBank: named kernels on columns, ready to be evaluated on rows, and checks of kernels on training rows.

A bank is immutable and knows nothing of the training rows: whatever a recipe learns from data
(bandwidths, groups of columns) is already a number in its kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.codec import stored
from tamis.kernels.base import Kernel, as_kernel
from tamis.kernels.stacks.base import DenseStack, KernelStack, StreamingStack
from tamis.kernels.stacks.device import DeviceStack
from tamis.kernels.stacks.factored import FactoredStack
from tamis.kernels.stacks.short import ChebyshevStack

MAX_DENSE_BYTES = 1 << 30  # bytes that a dense stack may take under form="auto"
MAX_COMPACT_BYTES = 1 << 27  # bytes that it may take under form="compact"
MAX_CHECKED_ROWS = 500  # most training rows that a kernel is checked on
# Rounding n x n entries to single precision moves eigenvalues by up to about 2 sqrt(n) 6e-8 max |K|
SINGLE_ROUNDING = 2e-7
MAX_VALUE = 1e50  # modulus of a kernel's value
SYMMETRY_TOL = 1e-6  # difference of K and K' that counts as rounding, relative to the largest entry
FORMS = ("auto", "compact", "dense", "streaming", "chebyshev", "factored")


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
        """The columns that the channels use, sorted."""
        return np.unique([c for channel in self.channels for c in channel.columns]).astype(int)

    @property
    def one_to_one(self) -> bool:
        """Whether every channel uses one column, and no two channels the same one."""
        columns = [c for channel in self.channels for c in set(channel.columns)]
        return len(columns) == len(set(columns)) == len(self)

    @property
    def positions(self) -> bool:
        """Whether a kernel takes positions of items in place of features."""
        return any(channel.kernel.positions for channel in self.channels)

    def bank(self, sample: Any, bandwidth: Any) -> KernelBank:
        """The bank itself; a recipe makes one."""
        return self

    def incidence(self, n_columns: int) -> np.ndarray:
        """Boolean matrix (kernels, columns): which channel uses which column."""
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
            dense up to 128 mebibytes; above that it is "chebyshev", but kernels without a short form are exact.
            "factored" is for Y = X: smooth positive semi-definite kernels as products of short factors, in linear
            time and to within `error_bound` as well; other kernels are streamed.
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
            form = "dense" if size <= MAX_DENSE_BYTES else "streaming"
        if form == "compact" and size <= MAX_COMPACT_BYTES:
            form = "dense"
        if form in ("chebyshev", "compact"):
            return ChebyshevStack.evaluate(self.channels, X, Y, every=form == "chebyshev")
        return DenseStack.evaluate(self.channels, X, Y) if form == "dense" else StreamingStack(self.channels, X, Y)


# ---------------------------------------------------------------------- checks on training rows


def check_positive(kernels: KernelBank, Z: np.ndarray, seed: int) -> None:
    """Refuse kernels that are not positive semi-definite on training rows Z (n, d).

    A kernel that declares itself `positive` is trusted; any other is evaluated on at
    most 500 rows drawn by `seed`, where no eigenvalue may be negative beyond rounding to single precision.
    """
    rows = Z[draw_rows(len(Z), MAX_CHECKED_ROWS, seed)]
    for channel in kernels.channels:
        if channel.kernel.positive:
            continue
        lam = np.linalg.eigvalsh(gram(channel, rows))
        if is_indefinite(lam, SINGLE_ROUNDING * np.sqrt(len(rows))):
            raise ValueError(
                f"kernels: {channel.name!r} is not positive semi-definite: on {len(rows)} training rows its "
                f"eigenvalues go from {lam[0]:.3g} to {lam[-1]:.3g}. Use L0MKLClassifier, which takes indefinite "
                "kernels, or repair them: kernels=repaired(..., 'clip'), or 'flip', or 'shift'"
            )


def check_kernels(kernels: KernelBank, Z: np.ndarray, seed: int) -> None:
    """Refuse what is not a kernel on training rows Z (n, d): values of a wrong shape, not finite or not symmetric.

    A kernel that declares itself positive semi-definite is trusted; one that several channels share is evaluated
    once, on at most 500 rows drawn by `seed`.
    """
    rows = Z[draw_rows(len(Z), MAX_CHECKED_ROWS, seed)]
    for channel in {id(channel.kernel): channel for channel in reversed(kernels.channels)}.values():
        if not channel.kernel.positive:
            gram(channel, rows)


def gram(channel: Channel, Z: np.ndarray) -> np.ndarray:
    """The Gram matrix (n, n) of one channel, exactly symmetric; refused where it is not a kernel's."""
    n = len(Z)
    found = channel(Z, Z)
    if not hasattr(found, "shape") or found.shape != (n, n) or np.asarray(found).dtype.kind not in "biuf":
        array = f"an array of shape {getattr(found, 'shape', ())} and type {getattr(found, 'dtype', '')}"
        what = array if hasattr(found, "shape") else f"a {type(found).__name__}"
        raise ValueError(
            f"kernels: {channel.name!r} gives {what} for {n} and {n} rows: a kernel must give an array of numbers of "
            f"the shape ({n}, {n})"
        )
    K = np.asarray(found).astype(float)
    if not np.isfinite(K).all():
        raise ValueError(f"kernels: {channel.name!r} gives NaN or infinite values on the training rows")
    if n and np.abs(K).max() > MAX_VALUE:
        raise ValueError(
            f"kernels: {channel.name!r} gives values as large as {np.abs(K).max():.3g} on the training rows: divide it "
            "by their size"
        )
    gaps = np.abs(K - K.T)
    if n and gaps.max() > SYMMETRY_TOL * np.abs(K).max():
        raise ValueError(
            f"kernels: {channel.name!r} is not symmetric: k(s, t) and k(t, s) differ by up to {gaps.max():.3g} on the "
            "training rows; use their mean"
        )
    return 0.5 * K + 0.5 * K.T


def draw_rows(n: int, most: int, seed: int) -> np.ndarray:
    """At most `most` of n rows, sorted."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).permutation(n)[:most])


def is_indefinite(lam: np.ndarray, slack: float) -> bool:
    """Whether ascending eigenvalues begin below ``-slack max |lam|``."""
    return bool(len(lam) and lam[0] < -slack * np.abs(lam).max())
