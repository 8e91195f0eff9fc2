"""The pass over rows on a device: what `Statistics.add_table` does, for arrays that live there."""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.arrays import Array, device_of, is_tensor, namespace, quick_double, to_device, to_numpy
from tamis.kernels.stacks.chebyshev import Levels
from tamis.statistics.block_sums import Block, Functions
from tamis.statistics.device_sums import ROWS, device_sums
from tamis.statistics.plan import Plan
from tamis.table.checks import encode_classes
from tamis.table.device_encoding import device_encode
from tamis.table.encoding import Encoder
from tamis.table.keys import group_keys


def checked_tensor(X: Any, names: list[str] | None = None, *, categorical: bool, allow_missing: bool) -> Array:
    """Rows and columns of numbers on a device; refuse others, and infinite or unwelcome missing cells."""
    if categorical:
        raise ValueError("X is a tensor, and some columns are categories: give an array or a DataFrame instead")
    if X.ndim != 2 or not X.shape[0] or not X.shape[1]:
        raise ValueError(f"X is a tensor of shape {tuple(X.shape)}: give rows and columns")
    xp = namespace(X)
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("X is a tensor of complex numbers. Complex data not supported: give real columns")
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64)
    if names is not None and X.shape[1] != len(names):
        raise ValueError(f"X has {X.shape[1]} columns, but the plan has {len(names)}: {names}")
    total = xp.sum(X, axis=0)  # NaN or infinite where a cell is
    if not bool(xp.all(xp.isfinite(total))):
        if bool(xp.any(xp.isinf(X))):
            raise ValueError("X contains infinity: replace it by a large number or a missing cell (NaN)")
        if not allow_missing and bool(xp.any(xp.isnan(X))):
            raise ValueError("X contains NaN: use missing='absent' or missing='median', or impute first")
    return X


def device_codes(y: Any, X: Array, classes: np.ndarray | None = None) -> tuple[Array, np.ndarray]:
    """Codes (n,) where X is, and the sorted classes, all of which are among `classes` if these are given."""
    device = device_of(X)
    if is_tensor(y) and not namespace(y).isdtype(y.dtype, "numeric"):
        y = to_numpy(y)
    if not is_tensor(y):
        codes, found = encode_classes(y, X.shape[0])
        codes = to_device(codes.astype(np.int64), device)
    else:
        xp = namespace(y)
        if y.ndim != 1 or y.shape[0] != X.shape[0]:
            raise ValueError(f"y has shape {tuple(y.shape)}, expected ({X.shape[0]},): one label per row of X")
        levels = xp.unique_values(y)
        found = to_numpy(levels)
        encode_classes(found, len(found))
        codes = to_device(xp.searchsorted(levels, y), device)
    if classes is None:
        return codes, found
    unknown = np.setdiff1d(found, classes).tolist()
    if unknown:
        raise ValueError(f"y holds {unknown[0]!r}, which is not a class of the plan: {classes.tolist()}")
    place = to_device(np.searchsorted(classes, found), device)
    return namespace(codes).take(place, codes), classes


def device_weight(sample_weight: Any, X: Array) -> Array | None:
    """Weights (n,) where X is, or None; refuse what are none."""
    if sample_weight is None:
        return None
    weight = to_device(sample_weight, device_of(X), "float64")
    xp = namespace(weight)
    if tuple(weight.shape) != (X.shape[0],):
        raise ValueError(f"sample_weight has shape {tuple(weight.shape)}, expected ({X.shape[0]},): one weight per row")
    if not bool(xp.all(xp.isfinite(weight))) or bool(xp.any(weight < 0)):
        raise ValueError("sample_weight holds negative or non-finite values: weights must be finite and at least 0")
    return weight


def counted(
    X: Array, codes: Array, weight: Array, by: np.ndarray | None
) -> tuple[Array, Array, Array, np.ndarray | None, np.ndarray]:
    """Rows of positive weight only, and where they stood."""
    xp = namespace(X)
    if bool(xp.all(weight > 0)):
        return X, codes, weight, by, np.arange(X.shape[0])
    rows = xp.nonzero(weight > 0)[0]
    X, codes, weight = (xp.take(part, rows, axis=0) for part in (X, codes, weight))
    kept = to_numpy(rows)
    return X, codes, weight, None if by is None else by[kept], kept


def device_groups(groups: Any, X: Array) -> np.ndarray | None:
    """Keys (n,) of the groups of the rows of X, in numpy, or None."""
    if groups is None:
        return None
    keys = group_keys(to_numpy(groups) if is_tensor(groups) else groups)
    if len(keys) != X.shape[0]:
        raise ValueError(f"groups has length {len(keys)}, expected {X.shape[0]}: one label per row of X")
    return keys


def plan_sums(
    plan: Plan, X: Array, codes: Array, weight: Array | None, fold: Array
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums, counts of rows by fold and cells beyond the ranges by column, of rows on a device."""
    xp = namespace(X)
    if weight is not None or np.any(plan.class_factor != 1.0):
        factor = xp.take(to_device(plan.class_factor, device_of(X), "float64"), codes)
        weight = factor if weight is None else weight * factor
    counted = fold if weight is None else fold[weight > 0]
    count = np.array([int(xp.count_nonzero(counted == k)) for k in range(plan.n_folds)])
    parts = encoded_sums(plan.functions, plan.encoder, None, X, codes, weight, fold, plan)
    return parts, count, _outside(plan, X)


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
    """Sums (folds, A, A) of functions of encoded columns over rows on a device."""

    def read(rows: slice) -> Block:
        Z = device_encode(encoder, X[rows, :], columns)
        return Block(Z, codes[rows], None if weight is None else weight[rows], fold if fold is None else fold[rows])  # type: ignore[arg-type]

    n_parts = 1 if fold is None else plan.n_folds
    dtype = "float32" if plan.dtype == "float32" and fold is not None and not quick_double(X) else "float64"
    return device_sums(functions, read, X.shape[0], n_classes=len(plan.classes), n_parts=n_parts, dtype=dtype)


def _outside(plan: Plan, X: Array) -> np.ndarray:
    """Cells of each column beyond the plan's range, or of unknown levels."""
    xp, columns = namespace(X), plan.encoder.columns
    low, high = (to_device([getattr(c, name) for c in columns], device_of(X), "float64") for name in ("low", "high"))
    out = np.zeros(X.shape[1], dtype=np.int64)
    few = {j: basis for j, basis in enumerate(plan.functions.bases) if isinstance(basis, Levels)}
    for start in range(0, X.shape[0], ROWS):
        x = X[start : start + ROWS, :]
        beyond = (x < low) | (x > high)
        out += to_numpy(xp.count_nonzero(beyond, axis=0))
        Z = device_encode(plan.encoder, x, None) if few else x
        for j, basis in few.items():
            odd = ~beyond[:, j] & ~xp.isnan(x[:, j])
            for value in basis.values:  # in units of the column; encoding rounds otherwise than in numpy
                odd = odd & (xp.abs(Z[:, j] - value) > 1e-9 * max(1.0, abs(value)))
            out[j] += int(xp.count_nonzero(odd))
    return out
