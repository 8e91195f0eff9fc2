"""The spectrum of kernels: refuse indefinite ones, or repair them.

With ``K = U diag(lam) U'`` the Gram matrix of a kernel k on rows A of the training table, the anchors,

    "clip"   k~(s, t) = k(s, A) M k(A, t),   M = U diag(1 / lam where lam > 0, else 0) U'
    "flip"   k~(s, t) = k(s, A) M k(A, t),   M = U diag(1 / |lam|) U'
    "shift"  k~(s, t) = k(s, t) + shift [s = t],   shift = |min lam|

which on the anchors are ``U max(lam, 0) U'``, ``U |lam| U'`` and, for distinct rows, ``K + shift I``, the
spectrum modifications of [Chen2009]. The first two extend to any row as there (its values with A
are transformed as those of the anchors are), and with ``M = V V'`` are inner products of the rows
``k(s, A) V``: positive semi-definite everywhere. The shift is so on the anchors only.

Departures: eigenvalues below a share `RANK` of the largest are left out of M; where there are more rows than anchors
the shift is scaled up for all of them (`_shift`); absent rows stay zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.codec import stored
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Kernel
from tamis.kernels.frozen import HoldsArrays
from tamis.kernels.precomputed import SYMMETRY
from tamis.kernels.recipes import Bandwidth, Recipe, Sample

ROWS = 500  # most training rows that a kernel is checked on
ANCHORS = 1000  # most training rows that a repair stands on
RANK = 1e-8  # eigenvalues below this share of the largest are zero to a repair
# Rounding n x n entries to single precision moves eigenvalues by up to about 2 sqrt(n) 6e-8 max |K|
SINGLE = 2e-7
LARGEST = 1e50  # modulus of a kernel's value
HOW = ("clip", "flip", "shift")


def check_positive(kernels: KernelBank, Z: np.ndarray, seed: int) -> None:
    """Refuse kernels that are not positive semi-definite on training rows Z (n, d).

    A kernel that declares itself `positive` is trusted; any other is evaluated on at
    most 500 rows drawn by `seed`, where no eigenvalue may be negative beyond rounding to single precision.
    """
    rows = Z[_draw(len(Z), ROWS, seed)]
    for channel in kernels.channels:
        if channel.kernel.positive:
            continue
        lam = np.linalg.eigvalsh(gram(channel, rows))
        if _indefinite(lam, SINGLE * np.sqrt(len(rows))):
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
    rows = Z[_draw(len(Z), ROWS, seed)]
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
    if n and np.abs(K).max() > LARGEST:
        raise ValueError(
            f"kernels: {channel.name!r} gives values as large as {np.abs(K).max():.3g} on the training rows: divide it "
            "by their size"
        )
    gaps = np.abs(K - K.T)
    if n and gaps.max() > SYMMETRY * np.abs(K).max():
        raise ValueError(
            f"kernels: {channel.name!r} is not symmetric: k(s, t) and k(t, s) differ by up to {gaps.max():.3g} on the "
            "training rows; use their mean"
        )
    return 0.5 * K + 0.5 * K.T


def _draw(n: int, most: int, seed: int) -> np.ndarray:
    """At most `most` of n rows, sorted."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(seed).permutation(n)[:most])


def _indefinite(lam: np.ndarray, slack: float) -> bool:
    """Whether ascending eigenvalues begin below ``-slack max |lam|``."""
    return bool(len(lam) and lam[0] < -slack * np.abs(lam).max())


# ---------------------------------------------------------------------- repair


@stored
@dataclass(frozen=True, eq=False, repr=False)
class Repaired(HoldsArrays, Kernel):
    """A kernel made positive semi-definite.

    Attributes
    ----------
    kernel : the kernel k as it was
    how : "clip" and "flip": ``k(s, A) V V' k(A, t)``; "shift": ``k(s, t) + shift [s = t]``, where missing
        cells are equal to one another
    anchors : A (a, c), encoded rows on the kernel's columns; none for "shift"
    transform : V (a, r)
    shift : zero for "clip" and "flip"
    """

    kernel: Kernel
    how: str
    anchors: np.ndarray
    transform: np.ndarray
    shift: float = 0.0

    @property
    def positive(self) -> bool:
        return self.how != "shift"

    @property
    def positions(self) -> bool:
        return self.kernel.positions

    def __call__(self, S: Array, T: Array) -> Array:
        if self.how == "shift":
            return self.kernel(S, T) + self.shift * (_equal(S, T) & self.presence(S)[:, None])
        return self._coordinates(S) @ self._coordinates(T).T

    def __repr__(self) -> str:
        detail = f"shift {self.shift:.3g}" if self.how == "shift" else f"{len(self.anchors)} anchors"
        return f"Repaired({self.kernel!r}, {self.how!r}, {detail})"

    def presence(self, S: Array) -> np.ndarray:
        """Mask (m,) of the rows that are there for the kernel below."""
        return self.kernel.presence(S)

    def _coordinates(self, S: Array) -> Array:
        """Rows (m, r) whose inner products are the kernel's values."""
        return self.kernel(S, self.anchors) @ self.transform

    @property
    def n_items(self) -> int:
        """Items with a position in the precomputed kernel below."""
        return self.kernel.n_items  # type: ignore[attr-defined]

    @property
    def items(self) -> np.ndarray:
        """Positions that the precomputed kernel below holds as columns."""
        return self.kernel.items  # type: ignore[attr-defined]

    def narrowed(self, T: Array) -> Repaired:
        """The same kernel for the columns T only; a repair on anchors needs the values with these instead."""
        return replace(self, kernel=self.kernel.narrowed(T if self.how == "shift" else self.anchors))

    def extended(self, values: Any) -> Repaired:
        """With further items for a precomputed kernel: see `Precomputed.extended`."""
        return replace(self, kernel=self.kernel.extended(values))  # type: ignore[attr-defined]


def _equal(S: Array, T: Array) -> np.ndarray:
    """Boolean (m, n): where two rows (m, c) and (n, c) are the same; missing cells are equal."""
    same = np.ones((len(S), len(T)), dtype=bool)
    for s, t in zip(S.T, T.T, strict=True):
        same &= (s[:, None] == t) | (np.isnan(s)[:, None] & np.isnan(t))
    return same


@stored
@dataclass(frozen=True, repr=False)
class RepairedKernels(Recipe):
    """The channels of a recipe or bank, those that are not positive semi-definite repaired."""

    source: Recipe | KernelBank
    how: str

    @property
    def positions(self) -> bool:
        return self.source.positions

    def __repr__(self) -> str:
        return f"repaired({self.source!r}, {self.how!r})"

    def bank(self, sample: Sample, bandwidth: Bandwidth) -> KernelBank:
        bank = self.source.bank(sample, bandwidth)
        d = sample.Z.shape[1]
        if not set(bank.columns.tolist()) <= set(range(d)):
            raise ValueError(f"kernels: a kernel uses column {bank.columns[-1]}, but X has {d} columns")
        return KernelBank(tuple(_repair(channel, self.how, sample.Z, sample.seed) for channel in bank.channels))


def repaired(kernels: Recipe | KernelBank, how: str = "clip") -> Recipe:
    """Make kernels positive semi-definite for methods that need it; those that are so stay as they are.

    Parameters
    ----------
    kernels : a recipe such as ``per_feature(Sigmoid())``, or a KernelBank
    how : negative eigenvalues become zero ("clip") or positive ("flip"), or all are raised by the most
        negative one ("shift"), which changes the values between equal rows only
    """
    if how not in HOW:
        raise ValueError(f"how={how!r} is unknown: use 'clip', 'flip' or 'shift'")
    if not isinstance(kernels, Recipe | KernelBank):
        raise ValueError(f"kernels={kernels!r} is neither a recipe such as per_feature(Sigmoid()) nor a KernelBank")
    return RepairedKernels(kernels, how)


def _repair(channel: Channel, how: str, Z: np.ndarray, seed: int) -> Channel:
    """The channel itself if it is positive semi-definite on anchors drawn from Z, else repaired on them."""
    if channel.kernel.positive:
        return channel
    rows = Z[_draw(len(Z), ANCHORS, seed)]
    lam, U = np.linalg.eigh(gram(channel, rows))
    if not _indefinite(lam, RANK):
        return channel
    anchors = rows[:, list(channel.columns)]
    if how == "shift":
        repair = Repaired(channel.kernel, how, anchors[:0], U[:0, :0], _shift(float(lam[0]), len(rows), len(Z)))
        return replace(channel, kernel=repair)
    large = np.abs(lam) > RANK * np.abs(lam).max()
    kept = large & (lam > 0) if how == "clip" else large
    if not kept.any():
        raise ValueError(
            f"kernels: {channel.name!r} has no positive eigenvalue on the training rows, so how='clip' leaves nothing "
            "of it: use 'flip'"
        )
    transform = U[:, kept] / np.sqrt(np.abs(lam[kept]))
    return replace(channel, kernel=Repaired(channel.kernel, how, anchors, transform))


def _shift(lowest: float, anchors: int, rows: int) -> float:
    """The shift for `rows` rows, from the lowest eigenvalue on some of them.

    Eigenvalues grow with the number of rows. Scaled so, those of sampled anchors differ from those of all rows by
    about one over the root of the number of anchors: twice that is the margin.
    """
    return -lowest if rows == anchors else -lowest * rows / anchors * (1.0 + 2.0 / np.sqrt(anchors))
