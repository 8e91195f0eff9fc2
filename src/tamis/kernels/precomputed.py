"""Kernels whose values are given: a stack (L, N, N) between N items takes the place of features.

The table X then has one column, the positions 0 .. N-1 of its rows in the stack, so that subsets,
cross-validation and pipelines work as for any table. An item may lack a kernel: its values are then zero, whatever
was given for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tamis.arrays import Array
from tamis.codec import stored
from tamis.kernels.bank import SYMMETRY_TOL, Channel, KernelBank
from tamis.kernels.base import Kernel
from tamis.kernels.portable import inverse_roots
from tamis.kernels.recipes import Bandwidth, Recipe, Sample


class HoldsArrays:
    """Base of a frozen dataclass with arrays among its fields, declared with ``eq=False``.

    Two objects are equal where all fields are (NaN equals NaN). The arrays are made read-only, so that a
    copy may be the object itself: cloning an estimator does not copy a stack of kernels.
    """

    def __post_init__(self) -> None:
        for name, value in self._held():
            if isinstance(value, np.ndarray):
                view = value.view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def _held(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        return all(_same(a, getattr(other, name)) for name, a in self._held())

    def __hash__(self) -> int:
        parts = (value.shape if isinstance(value, np.ndarray) else value for _, value in self._held())
        return hash((type(self).__name__, *parts))

    def __deepcopy__(self, memo: dict) -> HoldsArrays:
        return self


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=True)
    return type(a) is type(b) and a == b


@stored
@dataclass(frozen=True, eq=False, repr=False)
class Precomputed(HoldsArrays, Kernel):
    """Looked-up values; rows are given by one column of positions, and NaN is an absent row."""

    # (n_items, k) values between all items and those that are held as columns; zero where one is absent
    values: np.ndarray
    items: np.ndarray  # (k,) positions of the latter, ascending
    absent: np.ndarray | None = None  # (n_items,) which items lack this kernel; None if all have it

    positions = True

    def __post_init__(self) -> None:
        if self.absent is not None and not self.absent.any():
            object.__setattr__(self, "absent", None)  # so that equal kernels are equal
        super().__post_init__()

    def __call__(self, S: Array, T: Array) -> Array:
        s, t = self._positions(S), self._positions(T)
        places = self._places(t)
        if places is not None:
            return self._look_up(s, places)
        places = self._places(s)
        if places is None:
            raise ValueError(
                f"this precomputed kernel holds the values of all {len(self.values)} items with {len(self.items)} of "
                f"them, and neither position {self._stranger(s)} nor position {self._stranger(t)} is among these: "
                "compare with kept items, or fit again with the whole stack"
            )
        return self._look_up(t, places).T

    @property
    def n_items(self) -> int:
        """Items with a position."""
        return len(self.values)

    def __repr__(self) -> str:
        lacking = "" if self.absent is None else f", {np.count_nonzero(self.absent)} absent"
        return f"Precomputed({len(self.values)} items, {len(self.items)} of them as columns{lacking})"

    def presence(self, S: Array) -> np.ndarray:
        """Mask (m,) of the rows with a position whose item has this kernel."""
        s = self._positions(S)
        return s >= 0 if self.absent is None else (s >= 0) & ~self.absent[s]

    def narrowed(self, T: Array) -> Precomputed:
        """The same kernel with the columns for the items in T only."""
        t = self._positions(T)
        kept = np.unique(t[t >= 0])
        places = self._places(kept)
        if places is None:
            raise ValueError(f"position {self._stranger(kept)} is not a column of this precomputed kernel any more")
        return Precomputed(self.values[:, places], kept, self.absent)

    def normalised(self) -> Precomputed:
        """``k(s, t) / sqrt(k(s, s) k(t, t))``, of a kernel that holds all its items; zero for an item of norm zero."""
        if len(self.items) < len(self.values):
            raise ValueError("this precomputed kernel does not hold the values of all items with themselves any more")
        scale = inverse_roots(np.diagonal(self.values))
        return Precomputed(self.values * scale[:, None] * scale[None, :], self.items, self.absent)

    def extended(self, values: Any) -> Precomputed:
        """The same kernel with further items, at the positions that follow.

        Parameters
        ----------
        values : (n_new, k) kernel values between new items and the items at the positions `items`; a row of NaN
            alone is an item that lacks this kernel, and values with items that lack it are ignored
        """
        new = np.asarray(values, dtype=float)
        if new.ndim != 2 or new.shape[1] != len(self.items):
            raise ValueError(
                f"values has the shape {new.shape}: give one row per new item and one column for each of the "
                f"{len(self.items)} positions in `items`"
            )
        absent = np.zeros(len(self.values), dtype=bool) if self.absent is None else self.absent
        lacking, known = lacking_rows(new, ~absent[self.items])
        if not np.isfinite(known).all():
            raise ValueError(
                "values holds NaN or infinite entries: new items need all their kernel values, or a row of NaN alone "
                "if they lack the kernel"
            )
        return Precomputed(np.concatenate([self.values, known]), self.items, np.concatenate([absent, lacking]))

    def _positions(self, S: Array) -> np.ndarray:
        """One column as whole numbers (m,), -1 for an absent row."""
        block = np.asarray(S, dtype=float)
        n = len(self.values)
        if block.ndim != 2 or block.shape[1] != 1:
            raise ValueError(f"a precomputed kernel stands on one column of positions, not on {block.shape[1:]}")
        column = block[:, 0]
        present = ~np.isnan(column)
        wrong = column[present & ~((column >= 0) & (column < n) & (np.floor(column) == column))]
        if len(wrong):
            raise ValueError(
                f"X holds position {wrong[0]:.15g}, but the precomputed kernels have {n} items: X must have one "
                f"column of whole numbers from 0 to {n - 1}, the positions of its rows in the stack"
            )
        return np.where(present, column, -1.0).astype(int)

    def _places(self, positions: np.ndarray) -> np.ndarray | None:
        """Columns of `values` for some positions, -1 for absent rows; None if one is not held."""
        places = np.full(len(positions), -1)
        known = positions >= 0
        if not np.isin(positions[known], self.items).all():
            return None
        places[known] = np.searchsorted(self.items, positions[known])
        return places

    def _stranger(self, positions: np.ndarray) -> int:
        known = positions[positions >= 0]
        return int(known[~np.isin(known, self.items)][0])

    def _look_up(self, rows: np.ndarray, places: np.ndarray) -> np.ndarray:
        r, c = np.flatnonzero(rows >= 0), np.flatnonzero(places >= 0)
        found = self.values[np.ix_(rows[r], places[c])]
        if len(r) == len(rows) and len(c) == len(places):
            return found
        out = np.zeros((len(rows), len(places)))
        out[np.ix_(r, c)] = found
        return out


def presence_mask(present: Any, names: Sequence[str], n: int) -> np.ndarray:
    """Boolean (n, L) from a mask in any of its forms: which of n rows have which of L channels.

    Parameters
    ----------
    present : (n, L) of booleans, or zeros and ones; (n,) if there is one channel; a dict or DataFrame from names to
        (n,), where a channel that is not named is present everywhere; None for all
    names : of the L channels
    """
    mask = np.ones((n, len(names)), dtype=bool)
    if present is None:
        return mask
    if hasattr(present, "columns"):
        present = {column: present[column] for column in present.columns}
    if not isinstance(present, Mapping):
        alone = len(names) == 1 and np.ndim(present) == 1
        mask[:] = _flags(present, "present", (n,) if alone else mask.shape).reshape(mask.shape)
        return mask
    for name, values in present.items():
        if str(name) not in names:
            raise ValueError(f"present names {name!r}, which is no channel: the channels are {list(names)}")
        mask[:, list(names).index(str(name))] = _flags(values, f"present[{name!r}]", (n,))
    return mask


def _flags(values: Any, what: str, shape: tuple[int, ...]) -> np.ndarray:
    flags = np.asarray(values)
    if flags.shape != shape:
        meaning = (
            "one entry for each row" if len(shape) == 1 else "one row for each row and one column for each channel"
        )
        raise ValueError(f"{what} has the shape {flags.shape}: it must have {shape}, {meaning}")
    if flags.dtype == object and all(isinstance(flag, bool | np.bool_) for flag in flags.flat):
        flags = flags.astype(bool)
    if flags.dtype.kind not in "biuf" or not np.isin(flags, (0, 1)).all():
        raise ValueError(f"{what} holds other values than True and False: give booleans, True where a channel is there")
    return flags.astype(bool)


def lacking_rows(values: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which new items (m,) lack a kernel, and their values (m, k) with zeros where either item lacks it.

    Parameters
    ----------
    values : (m, k) between new items and known ones
    present : (k,) which of the known ones have the kernel; values with the others count only if none has it
    """
    seen = values[:, present] if present.any() else values
    lacking = np.isnan(seen).all(axis=1) if seen.shape[1] else np.zeros(len(values), dtype=bool)
    return lacking, np.where(~lacking[:, None] & present, values, 0.0)


@stored
@dataclass(frozen=True, eq=False, repr=False)
class PrecomputedKernels(HoldsArrays, Recipe):
    """One channel for each matrix of a stack (L, N, N)."""

    names: tuple[str, ...]  # of the kernels
    stack: np.ndarray  # values, zero where an item lacks the kernel
    absent: np.ndarray | None = None  # (L, N) which items lack which kernel; None if all have all

    @property
    def positions(self) -> bool:
        return True

    def __repr__(self) -> str:
        L, n, _ = self.stack.shape
        some = 0 if self.absent is None else np.count_nonzero(self.absent.any(axis=0))
        lacking = f", {some} of them without some kernel" if some else ""
        return f"precomputed({L} kernel{'s' if L > 1 else ''} of {n} items{lacking})"

    def to_stored(self) -> dict[str, Any]:
        """Names alone: a file holds the values of a model's kept items, not the whole stack."""
        return {"names": self.names}

    @classmethod
    def from_stored(cls, parts: dict[str, Any]) -> PrecomputedKernels:
        return cls(parts["names"], np.empty((len(parts["names"]), 0, 0)))

    def bank(self, sample: Sample, bandwidth: Bandwidth) -> KernelBank:
        n = self.stack.shape[1]
        if not n:
            raise ValueError(
                "kernels come from a file, which holds the values of kept items only: set kernels=precomputed(stack) "
                "to fit again"
            )
        if sample.Z.shape[1] != 1 or sample.nominal[0]:
            found = "a category" if sample.Z.shape[1] == 1 else f"{sample.Z.shape[1]} columns"
            raise ValueError(
                f"kernels={self!r} needs an X with one column of whole numbers from 0 to {n - 1}, the positions of its "
                f"rows in the stack; X has {found}"
            )
        absent = np.zeros(self.stack.shape[:2], dtype=bool) if self.absent is None else self.absent
        kernels = [Precomputed(values, np.arange(n), lack) for values, lack in zip(self.stack, absent, strict=True)]
        kernels[0]._positions(sample.Z)  # refuses what is not a position
        return KernelBank(tuple(Channel(name, k, (0,)) for name, k in zip(self.names, kernels, strict=True)))


def precomputed(stack: Any, names: str | Sequence[str] | None = None, present: Any = None) -> Recipe:
    """Kernels given by their values between N items; X is then one column of positions 0 .. N-1.

    Parameters
    ----------
    stack : (L, N, N) or (N, N) array, a list of (N, N) matrices, or a dict from names to matrices; each
        symmetric and finite between the items that have the kernel. With or without `present`, an item whose
        row or column holds nothing but NaN lacks the kernel.
    names : L distinct names for explanations; "kernel 0", "kernel 1" ... by default
    present : (N, L) booleans, or a dict from names to (N,), which items have which kernel; whatever stands in the
        rows and columns of the others is ignored

    Notes
    -----
    An item that lacks a kernel has the value zero with every item, itself included. A kernel that no item has is
    zero throughout.
    """
    matrices = _matrices(stack)
    if isinstance(stack, Mapping):
        if names is not None:
            raise ValueError(f"names={names!r}: the keys of a dict are the names already; leave names out")
        names = [str(key) for key in stack]
    if not matrices:
        raise ValueError("stack is empty: give at least one matrix of kernel values")
    labels = [f"kernel {k}" for k in range(len(matrices))]
    called = labels
    if names is not None:
        called = _checked_names(names, len(matrices))
        labels = [f"kernel {name!r}" for name in called]
    squares = [_square(matrix, label) for matrix, label in zip(matrices, labels, strict=True)]
    n = len(squares[0])
    for K, label in zip(squares, labels, strict=True):
        if len(K) != n:
            raise ValueError(
                f"{label} is between {len(K)} items, but {labels[0]} is between {n}: all matrices must "
                "be between the same items"
            )
    mask = presence_mask(present, called, n).T
    absent = ~np.array([_having(K, having) for K, having in zip(squares, mask, strict=True)])
    values = [_checked(K, lack, label) for K, lack, label in zip(squares, absent, labels, strict=True)]
    return PrecomputedKernels(tuple(called), np.stack(values), absent if absent.any() else None)


def _matrices(stack: Any) -> list[Any]:
    """The matrices of a stack in any of its forms."""
    if isinstance(stack, Mapping):
        return list(stack.values())
    if isinstance(stack, str) or not hasattr(stack, "__len__") or getattr(stack, "ndim", 1) == 0:
        raise ValueError(f"stack={stack!r} must be an array (L, N, N) or (N, N), a list of matrices or a dict of them")
    if hasattr(stack, "ndim"):
        return [stack] if stack.ndim == 2 else list(stack)
    return [stack] if len(stack) and all(_is_row(entry) for entry in stack) else list(stack)


def _is_row(entry: Any) -> bool:
    try:
        return np.ndim(entry) == 1
    except ValueError:  # rows of different lengths
        return False


def _checked_names(names: str | Sequence[str], count: int) -> list[str]:
    listed = [names] if isinstance(names, str) else [str(name) for name in names]
    if len(listed) != count:
        raise ValueError(f"names has {len(listed)} entries, but the stack has {count} kernels: give one name for each")
    twice = [name for k, name in enumerate(listed) if name in listed[:k]]
    if twice:
        raise ValueError(f"names: two kernels are named {twice[0]!r}; explanations need distinct names")
    return listed


def _square(matrix: Any, label: str) -> np.ndarray:
    """One matrix of numbers."""
    try:
        if np.iscomplexobj(matrix):
            raise TypeError("complex")
        K = np.asarray(matrix, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{label} is not a matrix of real numbers: give a dense array of shape (N, N)") from None
    if K.ndim != 2 or K.shape[0] != K.shape[1] or not len(K):
        raise ValueError(f"{label} has the shape {K.shape}: a matrix between N items is square, (N, N) with N >= 1")
    return K


def _having(K: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Which items (N,) have a kernel: those of `present` whose rows and columns are not NaN alone."""
    gaps = np.isnan(K)
    if not gaps.any():
        return present
    having = present.copy()
    gaps = gaps[np.ix_(present, present)]
    having[present] = ~(gaps.all(axis=0) | gaps.all(axis=1))
    return having


def _checked(K: np.ndarray, absent: np.ndarray, label: str) -> np.ndarray:
    """One matrix, exactly symmetric, and zero where an item is absent."""
    items = np.flatnonzero(~absent)
    if not len(items):
        return np.zeros_like(K)
    part = K if len(items) == len(K) else K[np.ix_(items, items)]
    for wrong, what, more in (
        (np.isnan(part), "NaN", "; a row of NaN alone means that the item lacks the kernel"),
        (np.isinf(part), "infinite values", ""),
    ):
        if wrong.any():
            row = items[np.flatnonzero(wrong.any(axis=1))[0]]
            raise ValueError(f"{label} holds {what}, first in row {row}: fill or drop these items{more}")
    gaps = np.abs(part - part.T)
    if gaps.max() > SYMMETRY_TOL * np.abs(part).max():
        i, j = (int(items[p]) for p in np.unravel_index(np.argmax(gaps), gaps.shape))
        raise ValueError(
            f"{label} is not symmetric: its entries ({i}, {j}) and ({j}, {i}) are {K[i, j]:.6g} and {K[j, i]:.6g}; "
            "give (K + K.T) / 2 if that is what you mean"
        )
    part = 0.5 * part + 0.5 * part.T
    if len(items) == len(K):
        return part
    out = np.zeros_like(K)
    out[np.ix_(items, items)] = part
    return out
