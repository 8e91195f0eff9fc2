"""Rows as users give them, in numpy or on a device: checked, without rows of weight zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tamis.arrays import Array, beside, device_of, is_tensor, namespace, to_device, to_numpy
from tamis.codec import stored
from tamis.errors import check_length
from tamis.table.keys import group_keys, label_keys
from tamis.table.rows import encode_classes
from tamis.table.sources.source import Block
from tamis.table.table import Table, block_names, read_block, resolve_columns, with_empty_labels


@stored
class BlockReader:
    """Reads the blocks of one table, which must agree in the names and kinds of their columns.

    A column without a cell in the first blocks may turn out to be a category.

    Parameters
    ----------
    categorical_features, missing : as in `EM2NOLCClassifier`

    Attributes
    ----------
    names : of the columns; None before the first block
    named : whether the first block had names of its own
    categorical : positions of the columns that are categories whatever they hold, or None
    nominal : columns that are categories
    empty : columns of which no cell was found so far
    """

    def __init__(self, categorical_features: Any, missing: str | None):
        self.categorical_features, self.missing = categorical_features, missing
        self.names: list[str] | None = None
        self.named = False
        self.categorical: list[int] | None = None
        self.nominal: set[int] = set()
        self.empty: set[int] = set()

    def to_stored(self) -> dict[str, Any]:
        """Return the parts of a file."""
        categorical = self.categorical_features
        plain = categorical if isinstance(categorical, str) else self.categorical
        names = ("missing", "names", "named", "categorical")
        sets = {"nominal": sorted(self.nominal), "empty": sorted(self.empty)}
        return {"categorical_features": plain, **{name: getattr(self, name) for name in names}, **sets}

    @classmethod
    def from_stored(cls, parts: dict[str, Any]) -> Self:
        """Return the reader of a file."""
        out = cls(parts["categorical_features"], parts["missing"])
        out.names, out.named, out.categorical = parts["names"], parts["named"], parts["categorical"]
        out.nominal, out.empty = set(parts["nominal"]), set(parts["empty"])
        return out

    def read(self, block: Block) -> tuple[Table, set[int]]:
        """Return the cells of a block, and the columns that are found to be categories only now."""
        known, found = self.names, block_names(block.X)
        if known is None:
            known = found
            self.categorical = resolve_columns(self.categorical_features, known)
        if len(found) != len(known):
            raise ValueError(f"block {block.number} has {len(found)} columns, and those before it {len(known)}")
        table, named = read_block(block.X, known, self.categorical, self.missing is not None)
        if self.names is None:
            self.names, self.named = known, named
            self.nominal = set(table.labels)
            self.empty = set(range(len(known))) - self.nominal
        if named and self.named and found != known:
            raise ValueError(f"block {block.number} has the columns {found}, and those before it {known}")
        new = self.empty & set(table.labels)
        self.become_nominal(new)
        table = with_empty_labels(table, self.nominal)
        if set(table.labels) != self.nominal:
            raise _mixed_kinds(known[min(set(table.labels) ^ self.nominal)])
        self.empty = {j for j in self.empty if np.isnan(table.numbers[:, j]).all()}
        return table, new

    def become_nominal(self, columns: set[int]) -> None:
        """Count columns of which no cell was found as categories."""
        self.empty -= columns
        self.nominal |= columns

    def agreeing(self, other: Self) -> tuple[set[int], set[int]]:
        """Return the columns that each of two readers must count as categories to agree; refuse what never agrees."""
        if self.names != other.names:
            raise ValueError(f"the blocks differ in their columns: {self.names} here, {other.names} there")
        ours, theirs = self.empty & other.nominal, other.empty & self.nominal
        if mixed := (self.nominal | ours) ^ (other.nominal | theirs):
            assert self.names is not None
            raise _mixed_kinds(self.names[min(mixed)])
        return ours, theirs

    def joined(self, other: Self) -> BlockReader:
        """Return the reader of the blocks of two that agree."""
        total = BlockReader(self.categorical_features, self.missing)
        total.names, total.named, total.categorical = self.names, self.named and other.named, self.categorical
        total.nominal, total.empty = set(self.nominal), self.empty & other.empty
        return total


def _mixed_kinds(name: str) -> ValueError:
    return ValueError(
        f"column {name!r} holds numbers in some blocks and categories in others: name it in categorical_features, or "
        "convert it"
    )


@dataclass(frozen=True)
class CheckedRows:
    """Rows of positive weight."""

    X: Any  # Table of n rows, or tensor (n, d)
    codes: Array  # (n,) indices into `classes`, an array of the library of X
    classes: np.ndarray  # sorted labels
    weight: Array | None  # (n,) sample weights, an array of the library of X; None if all are one
    groups: np.ndarray | None  # (n,) keys of groups, or None
    position: np.ndarray  # (n,) positions in the input

    def __len__(self) -> int:
        return len(self.position)


def check_rows(table: Table, y: Any, sample_weight: Any, groups: Any, classes: np.ndarray | None = None) -> CheckedRows:
    """Return the rows of a table with their labels, which must be among `classes` if these are given."""
    codes, found = encode_classes(y, len(table))
    check_length("groups", groups, len(table))
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
    keys = None if groups is None else group_keys(groups)
    return _with_weight(table, codes, found, weight, keys, classes)


def check_tensor_rows(
    X: Array,
    y: Any,
    sample_weight: Any,
    groups: Any,
    *,
    categorical: bool,
    allow_missing: bool,
    names: list[str] | None = None,
    classes: np.ndarray | None = None,
) -> CheckedRows:
    """As `check_rows`, for rows on a device, which must be numbers."""
    X = _check_tensor(X, names, categorical, allow_missing)
    codes, found = _encode_classes(y, X)
    weight = None if sample_weight is None else to_device(sample_weight, device_of(X), "float64")
    keys = None if groups is None else group_keys(to_numpy(groups) if is_tensor(groups) else groups)
    check_length("groups", keys, X.shape[0])
    return _with_weight(X, codes, found, weight, keys, classes)


def _with_weight(
    X: Any, codes: Array, found: np.ndarray, weight: Array | None, keys: np.ndarray | None, classes: np.ndarray | None
) -> CheckedRows:
    """Return the rows of positive weight of a table or tensor."""
    position = np.arange(codes.shape[0])
    if weight is not None:
        _check_weight(weight, codes.shape[0])
        xp = namespace(weight)
        if not bool(xp.all(weight > 0)):
            kept = xp.nonzero(weight > 0)[0]
            X = xp.take(X, kept, axis=0) if is_tensor(X) else X.take(kept)
            codes, weight = xp.take(codes, kept), xp.take(weight, kept)
            position = to_numpy(kept)
            keys = None if keys is None else keys[position]
    codes, found = _recode(codes, found, classes)
    return CheckedRows(X, codes, found, weight, keys, position)


def loss_weight(weight: Array | None, codes: Array, class_factor: np.ndarray) -> Array | None:
    """Return sample weights (n,) times the factors of the classes; None if all are one."""
    if np.all(class_factor == 1.0):
        return weight
    factor = namespace(codes).take(beside(class_factor, codes), codes)
    return factor if weight is None else weight * factor


def class_keys(classes: np.ndarray) -> np.ndarray:
    """Return keys (q,) of class labels."""
    return label_keys(classes.tolist(), 0)


def _check_weight(weight: Array, n: int) -> None:
    xp = namespace(weight)
    if tuple(weight.shape) != (n,):
        raise ValueError(f"sample_weight has shape {tuple(weight.shape)}, expected ({n},): one weight per row")
    if not bool(xp.all(xp.isfinite(weight))) or bool(xp.any(weight < 0)):
        raise ValueError("sample_weight holds negative or non-finite values: weights must be finite and at least 0")


def _recode(codes: Array, found: np.ndarray, classes: np.ndarray | None) -> tuple[Array, np.ndarray]:
    """Turn indices into the labels found into indices into `classes`."""
    if classes is None:
        return codes, found
    names = classes.tolist()
    known = np.array([label in names for label in found.tolist()], dtype=bool)
    if not known.all():
        unknown = found[np.setdiff1d(np.unique(to_numpy(codes)), np.flatnonzero(known))].tolist()
        if unknown:
            raise ValueError(f"y holds {unknown[0]!r}, which is not a class of the plan: {names}")
    place = np.minimum(np.searchsorted(classes, found), len(classes) - 1)
    return namespace(codes).take(beside(place, codes), codes), classes


def _check_tensor(X: Array, names: list[str] | None, categorical: bool, allow_missing: bool) -> Array:
    """Return rows and columns of floats; refuse other shapes and types, infinite and unwelcome missing cells."""
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
    if not bool(xp.all(xp.isfinite(xp.sum(X, axis=0)))):  # a sum is not finite where a cell is not
        if bool(xp.any(xp.isinf(X))):
            raise ValueError("X contains infinity: replace it by a large number or a missing cell (NaN)")
        if not allow_missing and bool(xp.any(xp.isnan(X))):
            raise ValueError("X contains NaN: use missing='absent' or missing='median', or impute first")
    return X


def _encode_classes(y: Any, X: Array) -> tuple[Array, np.ndarray]:
    """Return codes (n,) on the device of X, and the sorted labels."""
    if is_tensor(y) and not namespace(y).isdtype(y.dtype, "numeric"):
        y = to_numpy(y)
    if not is_tensor(y):
        codes, found = encode_classes(y, X.shape[0])
        return to_device(codes.astype(np.int64), device_of(X)), found
    xp = namespace(y)
    if y.ndim != 1 or y.shape[0] != X.shape[0]:
        raise ValueError(f"y has shape {tuple(y.shape)}, expected ({X.shape[0]},): one label per row of X")
    labels = xp.unique_values(y)
    found = to_numpy(labels)
    encode_classes(found, len(found))  # refuses labels that are not finite
    return to_device(xp.searchsorted(labels, y), device_of(X)), found
