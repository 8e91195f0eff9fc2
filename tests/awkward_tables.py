"""Tables that nobody would wish for: columns, containers, targets and weights of every awkward kind, by name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy import sparse


def _normal(rng, n, before):
    return rng.normal(size=n)


def _scaled(factor, shift=0.0):
    return lambda rng, n, before: rng.normal(size=n) * factor + shift


def _typed(dtype, low, high):
    return lambda rng, n, before: rng.integers(low, high, size=n, dtype=dtype, endpoint=True)


def _holes(values, share, rng, hole=np.nan):
    values[rng.uniform(size=len(values)) < share] = hole
    return values


def _wide(rng, n, before):
    """Numbers of all sizes side by side."""
    return rng.normal(size=n) * 10.0 ** rng.uniform(-150, 150, size=n)


def _outlier(rng, n, before):
    values = rng.normal(size=n)
    values[:1] = 1e150
    return values


def _objects(cells):
    out = np.empty(len(cells), dtype=object)
    out[:] = cells
    return out


def _mixed_objects(rng, n, before):
    return _objects([k if k % 2 else f"t{k}" for k in range(n)])


def _sum_of_others(rng, n, before):
    numbers = [v for v in before if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.sum([v.astype(float) for v in numbers], axis=0) if numbers else np.arange(n) * 0.5


def _duplicate(rng, n, before):
    return before[0].copy() if before else np.arange(n) * 1.0


def _nearly_constant(rng, n, before):
    return 1.0 + np.arange(n) % 2 * np.finfo(float).eps


COLUMNS = {
    "normal": _normal,
    "normal again": _normal,
    "whole numbers": lambda rng, n, before: rng.integers(0, 3, size=n).astype(float),
    "float32": lambda rng, n, before: rng.normal(size=n).astype(np.float32),
    "large float32": lambda rng, n, before: (rng.normal(size=n) * 1e37).astype(np.float32),
    "float16": lambda rng, n, before: (rng.uniform(-1, 1, size=n) * 65000).astype(np.float16),
    "int8": _typed(np.int8, -128, 127),
    "int64": _typed(np.int64, -5, 5),
    "int64 beyond 2**53": _typed(np.int64, 2**60, 2**60 + 9),
    "all of int64": _typed(np.int64, -(2**63), 2**63 - 1),
    "uint64": _typed(np.uint64, 2**64 - 9, 2**64 - 1),
    "flags": lambda rng, n, before: rng.uniform(size=n) > 0.5,
    "numbers as objects": lambda rng, n, before: _objects(
        [[1, 2.5, np.float32(3), None][k] for k in rng.integers(0, 4, size=n)]
    ),
    "flags as objects": lambda rng, n, before: _objects([[True, False, None][k] for k in rng.integers(0, 3, size=n)]),
    "constant": lambda rng, n, before: np.full(n, 7.0),
    "nearly constant": _nearly_constant,
    "duplicate": _duplicate,
    "sum of others": _sum_of_others,
    "1e100": _scaled(1e100),
    "1e150": _scaled(1e150),
    "1e300": _scaled(1e300),
    "1e-150": _scaled(1e-150),
    "1e-300": _scaled(1e-300),
    "denormal": lambda rng, n, before: rng.integers(-9, 9, size=n) * 5e-324,
    "largest": lambda rng, n, before: rng.choice([-1.0, 1.0], size=n) * np.finfo(float).max,
    "far from zero": _scaled(1.0, 1e12),
    "all sizes": _wide,
    "outlier": _outlier,
    "holes": lambda rng, n, before: _holes(rng.normal(size=n), 0.3, rng),
    "nothing but holes": lambda rng, n, before: np.full(n, np.nan),
    "nothing at all": lambda rng, n, before: _objects([None] * n),
    "infinity": lambda rng, n, before: np.r_[np.inf, rng.normal(size=n)][:n],
    "minus infinity": lambda rng, n, before: np.r_[-np.inf, rng.normal(size=n)][:n],
    "text": lambda rng, n, before: rng.choice(["red", "green", "blue"], size=n).astype(object),
    "text with holes": lambda rng, n, before: _holes(
        rng.choice(["red", "", "<NA>"], size=n).astype(object), 0.3, rng, None
    ),
    "numpy text": lambda rng, n, before: rng.choice(["red", "green"], size=n),
    "text that never recurs": lambda rng, n, before: _objects([f"name {k}" for k in range(n)]),
    "categories": lambda rng, n, before: pd.Categorical(
        rng.choice(["low", "high", None], size=n), categories=["low", "high", "none"]
    ),
    "nullable whole numbers": lambda rng, n, before: pd.array(
        _objects([[1, 2, 9, pd.NA][k] for k in rng.integers(0, 4, size=n)]), dtype="Int64"
    ),
    "nullable floats": lambda rng, n, before: pd.array(
        _objects([[0.5, 2.5, pd.NA][k] for k in rng.integers(0, 3, size=n)]), dtype="Float64"
    ),
    "nullable flags": lambda rng, n, before: pd.array(
        _objects([[True, False, pd.NA][k] for k in rng.integers(0, 3, size=n)]), dtype="boolean"
    ),
    "nullable text": lambda rng, n, before: pd.array(
        _objects([["yes", "no", pd.NA][k] for k in rng.integers(0, 3, size=n)]), dtype="string"
    ),
    "dates": lambda rng, n, before: np.datetime64("2020-01-01") + rng.integers(0, 99, size=n).astype("timedelta64[D]"),
    "dates as objects": lambda rng, n, before: _objects([date(2020, 1, 1 + k % 28) for k in range(n)]),
    "numbers and text": _mixed_objects,
    "lists": lambda rng, n, before: _objects([[1, 2]] * n),
    "complex": lambda rng, n, before: rng.normal(size=n) + 1j,
}
REFUSED = (
    "dates",
    "dates as objects",
    "numbers and text",
    "lists",
    "complex",
    "infinity",
    "minus infinity",
    "int64 beyond 2**53",
    "uint64",
)
FRAMES = ("pandas", "polars", "pyarrow", "record batch", "dict")
ARRAYS = ("numpy", "fortran", "read-only", "list")
SPARSE = {"csr": sparse.csr_matrix, "csc": sparse.csc_array, "coo": sparse.coo_array, "dok": sparse.dok_matrix}


def make_columns(kinds, n, seed):
    """Columns by name: x0, x1, ..."""
    rng = np.random.default_rng(seed)
    made = []
    for kind in kinds:
        made.append(COLUMNS[kind](rng, n, made))
    return {f"x{j}": values for j, values in enumerate(made)}


def cells(values):
    """The cells of a column as Python objects, None where one is missing."""
    return [None if v is None or v is pd.NA or (isinstance(v, float) and v != v) else v for v in list(values)]


def _array(columns, n):
    if columns and all(
        isinstance(v, np.ndarray) and v.dtype.kind in "iu" and v.dtype != np.uint64 for v in columns.values()
    ):
        return np.column_stack(list(columns.values()))
    if all(isinstance(v, np.ndarray) and v.dtype.kind == "f" for v in columns.values()):
        return np.column_stack([v.astype(float) for v in columns.values()]) if columns else np.empty((n, 0))
    out = np.empty((n, len(columns)), dtype=object)
    for j, values in enumerate(columns.values()):
        out[:, j] = _objects(list(values))
    return out


def _is_mixed(values):
    return {str, int} <= {type(v) for v in cells(values)}


def _polars(columns):
    made = {}
    for name, values in columns.items():
        if isinstance(values, pd.Categorical):
            made[name] = pl.Series(name, cells(values), dtype=pl.Categorical)
        elif isinstance(values, np.ndarray) and values.dtype.kind in "fiubM":
            made[name] = pl.Series(name, values)
        elif (isinstance(values, np.ndarray) and values.dtype.kind == "c") or _is_mixed(values):
            made[name] = pl.Series(name, list(values), dtype=pl.Object)
        else:
            made[name] = pl.Series(name, cells(values), strict=False)
    return pl.DataFrame(made)


def _arrow(columns):
    made = {}
    for name, values in columns.items():
        if isinstance(values, pd.Categorical):
            made[name] = pa.array(cells(values), type=pa.string()).dictionary_encode()
        elif isinstance(values, np.ndarray) and values.dtype.kind in "fiubM":
            made[name] = pa.array(values)
        elif isinstance(values, np.ndarray) and values.dtype.kind == "c":
            made[name] = pa.array([[v.real, v.imag] for v in values])
        elif _is_mixed(values):
            made[name] = pa.array([[str(v)] for v in values])
        else:
            made[name] = pa.array(cells(values))
    return pa.table(made)


def contained(columns, n, container):
    """The columns in a container."""
    if container == "pandas":
        return pd.DataFrame(columns, index=pd.RangeIndex(n))
    if container == "polars":
        return _polars(columns)
    if container == "pyarrow":
        return _arrow(columns)
    if container == "record batch":
        table = _arrow(columns).combine_chunks()
        return table.to_batches()[0] if n and columns else table
    if container == "dict":
        return columns
    array = _array(columns, n)
    if container == "fortran":
        return np.asfortranarray(array)
    if container == "read-only":
        array.flags.writeable = False
    if container == "list":
        return array.tolist()
    if container in SPARSE:
        return SPARSE[container](array if array.dtype != object else np.eye(n))
    return array


def _labels(*names):
    return lambda rng, n: np.array(names)[np.r_[np.arange(n) % len(names)][rng.permutation(n)]]


def _rare(rng, n):
    return (np.arange(n) == n // 2).astype(int)


TARGETS = {
    "two": _labels(0, 1),
    "minus one and one": _labels(-1, 1),
    "three": _labels(0, 1, 2),
    "text": _labels("no", "yes"),
    "text as objects": lambda rng, n: _labels("no", "yes")(rng, n).astype(object),
    "three of text": _labels("a", "b", "c"),
    "flags": _labels(False, True),
    "whole floats": _labels(0.0, 1.0),
    "list": lambda rng, n: _labels(0, 1)(rng, n).tolist(),
    "series": lambda rng, n: pd.Series(_labels("no", "yes")(rng, n)),
    "categories": lambda rng, n: pd.Series(pd.Categorical(_labels("no", "yes")(rng, n))),
    "nullable": lambda rng, n: pd.Series(_labels(0, 1)(rng, n), dtype="Int64"),
    "nullable flags": lambda rng, n: pd.Series(_labels(False, True)(rng, n), dtype="boolean"),
    "polars": lambda rng, n: pl.Series(_labels("no", "yes")(rng, n).tolist(), dtype=pl.String),
    "arrow": lambda rng, n: pa.array(_labels("no", "yes")(rng, n).tolist(), type=pa.string()),
    "column": lambda rng, n: _labels(0, 1)(rng, n)[:, None],
    "one row of a class": _rare,
    "one class": lambda rng, n: np.zeros(n, dtype=int),
    "NaN": lambda rng, n: np.r_[np.nan, _labels(0.0, 1.0)(rng, n)][:n],
    "None": lambda rng, n: _objects([None, *_labels("no", "yes")(rng, n).tolist()][:n]),
    "nullable with NA": lambda rng, n: pd.Series([pd.NA, *_labels(0, 1)(rng, n).tolist()][:n], dtype="Int64"),
    "nullable text with NA": lambda rng, n: pd.Series([pd.NA, *_labels("a", "b")(rng, n).tolist()][:n], dtype="string"),
    "polars with null": lambda rng, n: pl.Series([None, *_labels("no", "yes")(rng, n).tolist()][:n], dtype=pl.String),
    "arrow with null": lambda rng, n: pa.array([None, *_labels("no", "yes")(rng, n).tolist()][:n], type=pa.string()),
    "numbers": lambda rng, n: rng.normal(size=n),
    "too long": lambda rng, n: _labels(0, 1)(rng, n + 1),
    "too short": lambda rng, n: _labels(0, 1)(rng, max(n - 1, 0)),
    "dates": lambda rng, n: np.datetime64("2020-01-01") + (np.arange(n) % 2).astype("timedelta64[D]"),
    "nothing": lambda rng, n: None,
}
NO_CLASSES = {
    "one class",
    "NaN",
    "None",
    "nullable with NA",
    "nullable text with NA",
    "polars with null",
    "arrow with null",
    "numbers",
    "too long",
    "too short",
    "nothing",
}
NUMBERS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "1e100": lambda rng, n: rng.normal(size=n) * 1e100,
    "1e-150": lambda rng, n: rng.normal(size=n) * 1e-150,
    "1e200": lambda rng, n: rng.normal(size=n) * 1e200,
    "denormal": lambda rng, n: rng.integers(-9, 9, size=n) * 5e-324,
    "whole": lambda rng, n: rng.integers(0, 4, size=n),
    "constant": lambda rng, n: np.full(n, 3.0),
    "float16": lambda rng, n: rng.normal(size=n).astype(np.float16),
    "flags": lambda rng, n: rng.uniform(size=n) > 0.5,
    "nullable": lambda rng, n: pd.Series(rng.integers(0, 4, size=n), dtype="Int64"),
    "nullable with NA": lambda rng, n: pd.Series([pd.NA, *rng.normal(size=n)][:n], dtype="Float64"),
    "polars": lambda rng, n: pl.Series(rng.normal(size=n)),
    "arrow": lambda rng, n: pa.array(rng.normal(size=n)),
    "NaN": lambda rng, n: np.r_[np.nan, rng.normal(size=n)][:n],
    "infinity": lambda rng, n: np.r_[np.inf, rng.normal(size=n)][:n],
    "outlier": lambda rng, n: np.r_[1e120, rng.normal(size=n)][:n],
    "text": lambda rng, n: rng.choice(["a", "b"], size=n),
    "too long": lambda rng, n: rng.normal(size=n + 1),
}
NO_NUMBERS = {"1e200", "nullable with NA", "NaN", "infinity", "text", "too long"}
WEIGHTS = {
    "none": lambda rng, n: None,
    "ones": lambda rng, n: np.ones(n),
    "uneven": lambda rng, n: rng.uniform(0.5, 2.0, size=n),
    "zeros": lambda rng, n: np.zeros(n),
    "some zeros": lambda rng, n: (np.arange(n) % 3 > 0) * 1.0,
    "huge": lambda rng, n: np.full(n, 1e200),
    "tiny": lambda rng, n: np.full(n, 1e-200),
    "all sizes": lambda rng, n: 10.0 ** rng.uniform(-30, 30, size=n),
    "negative": lambda rng, n: -np.ones(n),
    "NaN": lambda rng, n: np.full(n, np.nan),
    "too short": lambda rng, n: np.ones(max(n - 1, 0)),
    "text": lambda rng, n: np.array(["a"] * n),
    "whole": lambda rng, n: np.arange(1, n + 1),
    "series": lambda rng, n: pd.Series(rng.uniform(0.5, 2.0, size=n), index=np.arange(n)[::-1]),
    "nullable": lambda rng, n: pd.Series(rng.uniform(0.5, 2.0, size=n), dtype="Float64"),
    "nullable with NA": lambda rng, n: pd.Series([pd.NA, *np.ones(n)][:n], dtype="Float64"),
    "one heavy": lambda rng, n: np.r_[1e6, np.ones(n)][:n],
}
NO_WEIGHTS = {"zeros", "negative", "NaN", "too short", "text", "nullable with NA"}


@dataclass(frozen=True)
class Case:
    """A table to fit to, in words."""

    n: int
    kinds: tuple[str, ...]
    container: str
    target: str
    weight: str
    seed: int

    @property
    def columns(self):
        return make_columns(self.kinds, self.n, self.seed)

    @property
    def X(self):
        return contained(self.columns, self.n, self.container)

    def y(self, regressor):
        made = NUMBERS if regressor else TARGETS
        return made[self.target](np.random.default_rng(self.seed + 1), self.n)

    @property
    def w(self):
        return WEIGHTS[self.weight](np.random.default_rng(self.seed + 2), self.n)


def new_rows(case):
    """Six other rows of the same kinds: missing cells, categories never seen, numbers of other sizes."""
    columns = make_columns(case.kinds, 6, case.seed + 7)
    for name, values in columns.items():
        if not any(cell is not None for cell in cells(case.columns[name])):
            columns[name] = np.full(6, np.nan)  # nobody can say what kind of column it is
        elif isinstance(values, np.ndarray) and values.dtype == np.float64:
            values[:4] = np.nan, 1e308, -1e-310, 0.0
        elif values.dtype == object and all(isinstance(v, str) for v in case.columns[name]):
            values[0] = "never seen"
    return columns
