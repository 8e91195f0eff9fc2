"""Read arrays, pandas or polars frames, Arrow tables and dicts of columns as a `Table`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from tamis.codec import stored
from tamis.errors import NotATable

LARGE_BYTES = 1 << 28  # memory maps of more bytes are read block by block
IN_BLOCKS = ", or use TamisClassifier, TamisRegressor or EM2NOLCClassifier, which take rows in blocks"
MAX_EXACT_INTEGER = 2.0**53  # not all larger integers are floats
TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)


@stored
@dataclass(frozen=True)
class Table:
    """A table of numbers, and of labels for the columns that are not numbers."""

    numbers: np.ndarray  # (n, d) float64 or float32, NaN for missing cells and throughout the columns of `labels`
    labels: dict[int, np.ndarray]  # {column: (n,) object array}, None for missing cells
    names: list[str]  # the d column names

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: np.ndarray | slice) -> Table:
        return replace(self, numbers=self.numbers[rows], labels={j: v[rows] for j, v in self.labels.items()})

    def select(self, columns: np.ndarray) -> Table:
        place = {int(c): k for k, c in enumerate(columns)}
        return Table(
            self.numbers[:, columns],
            {place[j]: v for j, v in self.labels.items() if j in place},
            [self.names[c] for c in columns],
        )


def source_kind(X: Any) -> str | None:
    """Return in which way X gives rows in blocks: "file", "dask", "map" or "blocks"; None if it is one table."""
    if isinstance(X, np.ndarray):
        large = isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiu" and X.nbytes > LARGE_BYTES
        return "map" if large else None
    module = type(X).__module__
    if isinstance(X, str | os.PathLike) or module.startswith("pyarrow._dataset"):
        return "file"
    if hasattr(X, "__dask_graph__") and module.split(".")[0] in ("dask", "dask_expr"):
        return "dask"
    if hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, dict | bytes):
        return None
    if isinstance(X, list | tuple):
        tables = (isinstance(b, tuple) and (hasattr(b[0], "shape") or isinstance(b[0], dict)) for b in X)
        return "blocks" if X and all(tables) else None
    return "blocks" if callable(X) or hasattr(X, "__iter__") else None


def count_rows(X: Any) -> int:
    """Return the number of rows of a table in memory of any kind; zero for what is none."""
    columns = columns_by_name(X)
    if columns is not None:
        return next((len(column) for column in columns.values() if hasattr(column, "__len__")), 0)
    if isinstance(X, list | tuple):
        return len(X)
    shape: Any = getattr(X, "shape", ())
    return int(shape[0]) if len(shape) == 2 else 0


def check_in_memory(X: Any, name: str, instead: str = IN_BLOCKS) -> None:
    """Refuse rows in blocks for the estimator or function `name`, which requires all rows in memory."""
    if source_kind(X) in ("file", "dask") or callable(X):
        raise ValueError(
            f"X is a {type(X).__name__}, and {name} needs all rows in memory: read them with tamis.io.read{instead}"
        )


def any_table(X: Any) -> Table:
    """Rows of any kind, series among them, as a table whose rows are equal where the input's are."""
    if getattr(X, "ndim", 2) > 2:
        X = np.asarray(X, dtype=float).reshape(len(X), -1)
    return read_block(X, None, None, True)[0]


def joined(tables: Sequence[Table]) -> Table:
    """The rows of tables with the same columns, one after another."""
    first = tables[0]
    labels = {j: np.concatenate([table.labels[j] for table in tables]) for j in first.labels}
    return Table(np.concatenate([table.numbers for table in tables]), labels, first.names)


class NamedNumbers:
    """An array of numbers (n, d) with the names of its columns: no column has to be converted."""

    def __init__(self, values: np.ndarray, names: Sequence[str]):
        self.values, self.columns, self.shape = values, list(names), values.shape

    def __len__(self) -> int:
        return len(self.values)


def row_labels(X: Any, rows: np.ndarray) -> np.ndarray:
    """Index labels of some rows where X has an index, else their positions."""
    index = getattr(X, "index", None)
    if index is None or callable(index):
        return rows
    labels = np.empty(len(rows), dtype=object)
    labels[:] = [index[i] for i in rows]
    return labels


def is_frame(X: Any) -> bool:
    """Whether X is a DataFrame (pandas, polars or alike)."""
    if type(X).__name__ == "LazyFrame":
        raise ValueError("X is a lazy frame: call .collect() first")
    return hasattr(X, "columns") and hasattr(X, "shape")


def columns_by_name(X: Any) -> Mapping[str, Any] | None:
    """The columns of a dict, or of a table or record batch of Arrow; None for tables of other kinds."""
    if isinstance(X, Mapping) and not hasattr(X, "shape"):  # scipy has sparse arrays that are dicts
        return X
    if not (hasattr(X, "column_names") and hasattr(X, "schema")):
        return None
    check_names(X.column_names)
    return dict(zip(X.column_names, X.columns, strict=True))


def read_table(X: Any, names: Sequence[str], categorical: Sequence[int] | None, allow_missing: bool) -> Table:
    """Read `checked_input`; `categorical` lists the columns that are categories (None: by their type)."""
    if isinstance(X, Mapping):
        return read_columns(X, names, categorical, allow_missing)
    d = X.shape[1]
    if not d:
        raise ValueError(f"X has 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    if not is_frame(X) and X.dtype != object:
        numbers = X if X.dtype == np.float32 else np.asarray(X, dtype=float)
        return _declared(Table(numbers, {}, list(names)), categorical, allow_missing)
    numbers = np.full(X.shape, np.nan)
    plain = _fill_plain(numbers, X, names) if is_frame(X) else set()
    nominal = set() if categorical is None else set(categorical)
    columns = {j: _column(X, j, names[j], j in nominal) for j in range(d) if j not in plain}
    return _make_table(numbers, columns, names, categorical, allow_missing)


def read_block(
    X: Any, names: Sequence[str] | None, categorical: Sequence[int] | None, allow_missing: bool
) -> tuple[Table, bool]:
    """Read a block of rows of any kind, whose columns may be known by `names`; and whether it has names of its own."""
    if isinstance(X, NamedNumbers):
        return read_table(X.values, names or X.columns, categorical, allow_missing), True
    checked, own = checked_input(X)
    named = isinstance(checked, Mapping) or (is_frame(checked) and all(isinstance(c, str) for c in checked.columns))
    return read_table(checked, own if names is None else names, categorical, allow_missing), named


def with_empty_labels(table: Table, nominal: set[int]) -> Table:
    """The table with those columns as categories that are categories elsewhere and have no cell here."""
    empty = [j for j in nominal - set(table.labels) if np.isnan(table.numbers[:, j]).all()]
    return replace(table, labels=table.labels | {j: np.full(len(table), None) for j in empty})


def block_names(X: Any) -> list[str]:
    """Names of the columns of a block of rows of any kind."""
    return list(X.columns) if isinstance(X, NamedNumbers) else list(map(str, checked_input(X)[1]))


def _fill_plain(numbers: np.ndarray, X: Any, names: Sequence[str]) -> set[int]:
    """Copy the columns of a frame that are plainly numbers, those of one type together; return which they are."""
    types: dict[Any, list[int]] = {}
    for j, dtype in enumerate(getattr(X, "dtypes", ())):
        types.setdefault(dtype, []).append(j)
    plain = set()
    for dtype, columns in types.items():
        if str(dtype).lower().startswith(("float", "int", "uint")):
            block = (X.iloc[:, columns] if hasattr(X, "iloc") else X[:, columns]).to_numpy()
            if block.dtype.kind in "fiu":  # else a nullable type
                numbers[:, columns] = block
                plain.update(columns)
                if _is_long(block):
                    for j, values in zip(columns, block.T, strict=True):
                        _check_distinct(values, numbers[:, j], names[j])
    return plain


def _make_table(
    numbers: np.ndarray,
    columns: Mapping[int, np.ndarray],
    names: Sequence[str],
    categorical: Sequence[int] | None,
    allow_missing: bool,
) -> Table:
    """The table with those numbers and, in their places, the `columns`."""
    labels = {j: _as_labels(v) for j, v in columns.items() if v.dtype == object}
    for j in columns.keys() - labels.keys():
        numbers[:, j] = columns[j]
    return _declared(Table(numbers, labels, list(names)), categorical, allow_missing)


def _declared(table: Table, categorical: Sequence[int] | None, allow_missing: bool) -> Table:
    """The checked table with the columns in `categorical`, and no others, as categories."""
    numbers, labels, names = table.numbers, table.labels, table.names
    if categorical is not None:
        new = list(set(categorical) - set(labels))
        if new:
            labels.update({j: number_labels(numbers[:, j]) for j in new})
            numbers = numbers.copy()
            numbers[:, new] = np.nan
        for j in sorted(set(labels) - set(categorical)):
            numbers[:, j] = flags(labels.pop(j), names[j], "and categorical_features does not name it")
    table = Table(numbers, labels, names)
    _check_cells(table, allow_missing)
    return table


def read_columns(
    X: Mapping[str, Any], names: Sequence[str], categorical: Sequence[int] | None, allow_missing: bool
) -> Table:
    """Read those columns of a dict that are called `names`, as `read_table` would."""
    absent = [name for name in names if name not in X]
    if absent:
        raise ValueError(f"X has no column {absent[0]!r}, which the model needs: it has {[str(k) for k in X]}")
    if not names and X:  # a model that kept nothing
        return Table(np.empty((len(next(iter(X.values()))), 0)), {}, [])
    cells = [cells_of(X[name]) for name in names]
    arrays = [values for values, _ in cells]
    scalars = [name for name, values in zip(names, arrays, strict=True) if values.ndim != 1]
    if scalars:
        raise ValueError(f"X: the column {scalars[0]!r} is no list of values: give one value per row, as a list")
    sizes = sorted({len(values) for values in arrays})
    if len(sizes) > 1:
        raise ValueError(f"X has columns of different lengths, {sizes}: one value per row is needed")
    if not sizes or not sizes[0]:
        raise ValueError("X has 0 sample(s) or 0 feature(s): at least one row and one column are needed")
    nominal = set() if categorical is None else set(categorical)
    columns = {j: _column_values(v, kind, names[j], j in nominal) for j, (v, kind) in enumerate(cells)}
    return _make_table(np.full((sizes[0], len(names)), np.nan), columns, names, categorical, allow_missing)


def cells_of(column: Any) -> tuple[np.ndarray, str]:
    """The cells of a column of any kind, and the name of its type."""
    if hasattr(column, "to_pylist"):  # of Arrow, whose arrays of categories forget which cells are missing
        kind = str(column.type)
        plain = kind.startswith(("int", "uint", "float", "double", "halffloat"))
        return column.to_numpy(zero_copy_only=False) if plain else _objects(column.to_pylist()), kind
    kind = str(getattr(column, "dtype", "")).lower()
    if hasattr(column, "to_numpy"):
        return column.to_numpy(), kind
    if isinstance(column, np.ndarray) or not hasattr(column, "__len__") or isinstance(column, str):
        return np.asarray(column), kind
    return _objects(list(column)), kind


def _objects(cells: Sequence[Any]) -> np.ndarray:
    out = np.empty(len(cells), dtype=object)
    out[:] = cells
    return out


def _check_cells(table: Table, allow_missing: bool) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(table.numbers.sum()):  # quick, and nearly always enough
            return
    infinite = np.isinf(table.numbers).any(axis=0)
    if infinite.any():
        name = table.names[int(np.argmax(infinite))]
        raise ValueError(f"X contains infinity in column {name!r}: replace it by a finite value or by NaN (missing)")
    if allow_missing:
        return
    gaps = np.isnan(table.numbers).any(axis=0)
    for j, values in table.labels.items():
        gaps[j] = any(v is None for v in values)
    if gaps.any():
        raise ValueError(
            f"X contains NaN in column {table.names[int(np.argmax(gaps))]!r} and missing=None refuses missing cells: "
            "use missing='absent' or missing='median', or impute first"
        )


def _column(X: Any, j: int, name: str, nominal: bool) -> np.ndarray:
    """One column as floats, or as objects if it is text, boolean or of a categorical type."""
    values, kind = cells_of(X.iloc[:, j] if hasattr(X, "iloc") else X[:, j])
    return _column_values(values, kind, name, nominal)


def _column_values(values: np.ndarray, kind: str, name: str, nominal: bool) -> np.ndarray:
    if "categor" in kind or kind.startswith(("enum", "dictionary")) or values.dtype.kind in "USb":
        return values.astype(object)
    if values.dtype.kind in "fiu":
        floats = values.astype(float)
        _check_distinct(values, floats, name)
        return floats
    known = [not is_missing(v) for v in values]
    if values.dtype.kind in "mM" or any(isinstance(v, TIMES) for v in values[known]):
        raise ValueError(
            f"column {name!r} holds dates or times: convert it to numbers, such as days since a fixed date"
        )
    if values.dtype.kind == "c" or any(isinstance(v, complex) for v in values):
        raise ValueError(f"column {name!r} holds complex numbers: Complex data not supported")
    text = [isinstance(v, str) for v in values]
    if any(text) and sum(text) < sum(known) and not nominal:
        example = values[text.index(True)]
        raise ValueError(
            f"column {name!r} mixes numbers and text ({example!r}): clean it, or name it in categorical_features"
        )
    if any(text) or any(isinstance(v, bool | np.bool_) for v in values):
        return values
    floats = np.array([_number(v, name) if k else np.nan for v, k in zip(values, known, strict=True)], dtype=float)
    _check_distinct(values[known], floats[known], name)
    return floats


def _is_long(values: np.ndarray) -> bool:
    """Whether there are whole numbers of which a float may hold a neighbour only."""
    whole = values.dtype.kind in "iu" and values.dtype.itemsize == 8 and values.size
    return bool(whole and max(int(values.max()), -int(values.min())) > MAX_EXACT_INTEGER)


def _check_distinct(values: np.ndarray, floats: np.ndarray, name: str) -> None:
    """Refuse long whole numbers where some differ that as floats do not."""
    long = values.dtype.kind in "iuO" and np.max(np.abs(floats), initial=0.0) > MAX_EXACT_INTEGER
    if long and len(set(values.tolist())) > len(set(floats.tolist())):
        raise ValueError(
            f"column {name!r} holds whole numbers beyond 2**53 that floats cannot tell apart: subtract what they "
            "have in common, or convert it to text"
        )


def _number(cell: Any, name: str) -> float:
    try:
        return float(cell)
    except OverflowError:
        raise ValueError(f"column {name!r} holds {cell!r:.30}, too large for a float: use other units") from None
    except (TypeError, ValueError):  # scikit-learn expects these words
        raise NotATable(
            f"column {name!r} holds {cell!r:.60}, and an argument must be a string or a number: convert it"
        ) from None


def _as_labels(values: np.ndarray) -> np.ndarray:
    return _objects([None if is_missing(v) else v.item() if isinstance(v, np.generic) else v for v in values])


def kinds(values: Any) -> set[str]:
    """Whether cells hold text, numbers or both."""
    return {"text" if isinstance(v, str) else "numbers" for v in values if v is not None}


def flags(values: np.ndarray, name: str, why: str) -> np.ndarray:
    """Booleans as numbers in a column that is not a category."""
    if "text" in kinds(values):
        raise ValueError(f"column {name!r} holds text {why}: convert it to numbers or make it a category")
    return np.array([np.nan if v is None else float(v) for v in values])


def number_labels(values: np.ndarray) -> np.ndarray:
    """Numbers as the labels of a category, None for missing cells."""
    return np.array([None if v != v else v for v in values.tolist()], dtype=object)


def checked_input(X: Any) -> tuple[Any, list[str]]:
    """A validated frame, array or dict of columns, and the names of the columns."""
    columns = columns_by_name(X)
    if columns is not None:
        return columns, list(columns)
    if is_frame(X):
        check_names(X.columns)
        if not len(X):
            raise ValueError(f"X has 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
        return X, [str(c) for c in X.columns]
    checked = check_plain(X)
    return checked, [f"x{j}" for j in range(checked.shape[1])]


def check_dense(X: Any) -> None:
    """Refuse sparse matrices."""
    if issparse(X):
        raise NotATable(
            f"X is sparse ({type(X).__name__}), but dense data is required: use X.toarray(), if that fits into memory"
        )


def check_plain(X: Any) -> np.ndarray:
    """Validate an array that is not a frame: numbers, or objects with other cells in some columns."""
    check_dense(X)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(float), np.nan)
    kind = X.dtype.kind if isinstance(X, np.ndarray) else ""
    if kind and kind in "mM":
        raise ValueError("X holds dates or times: convert them to numbers, such as days since a fixed date")
    if kind == "V":
        raise ValueError("X is a structured array: give its fields as a dict of columns, or as a DataFrame")
    if kind and kind in "US":
        X = X.astype(object)
    if kind and X.ndim == 2 and _is_long(X):
        for j, values in enumerate(X.T):
            _check_distinct(values, values.astype(float), f"x{j}")
    if isinstance(X, list) and X and all(hasattr(row, "__len__") and not isinstance(row, str) for row in X):
        sizes = sorted({len(row) for row in X})
        if len(sizes) > 1:
            raise ValueError(f"X has rows of different lengths, {sizes}: give one cell for each column")
        cells = np.empty((len(X), sizes[0]), dtype=object)
        cells[:] = X
        X = cells if any(map(_not_plain, cells.ravel())) else X
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 2 and any(map(_not_plain, X.ravel())):
        return check_array(X, dtype=object, ensure_all_finite=False)
    return check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False)


def _not_plain(v: Any) -> bool:
    """Whether a cell is something else than None or a real number that a float can hold."""
    if isinstance(v, bool | np.bool_) or not isinstance(v, int | float | np.integer | np.floating | None):
        return True
    return isinstance(v, int | np.integer) and abs(int(v)) > MAX_EXACT_INTEGER


def is_missing(v: Any) -> bool:
    """Whether a cell is None, NaN or pandas' NA or NaT."""
    return v is None or type(v).__name__ in ("NAType", "NaTType") or (isinstance(v, float) and v != v)


def check_names(names: Iterable[Any]) -> None:
    """Refuse two columns of one name."""
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"X has two columns named {name!r}: rename one, so that explanations are not ambiguous")
        seen.add(name)


def places(names: Sequence[str]) -> dict[str, int]:
    """The first position of each name."""
    return {name: k for k, name in reversed(list(enumerate(names)))}


def resolve_columns(choice: Any, names: list[str]) -> list[int] | None:
    """Positions of the columns in `choice` (names, positions or a boolean mask); None for "auto"."""
    check_columns(choice)
    if isinstance(choice, str):
        return None
    chosen = [c.item() if isinstance(c, np.generic) else c for c in ([] if choice is None else choice)]
    if chosen and all(isinstance(c, bool) for c in chosen):
        if len(chosen) != len(names):
            raise ValueError(f"categorical_features is a mask of length {len(chosen)}, but X has {len(names)} columns")
        return np.flatnonzero(chosen).tolist()
    place = places(names)
    out = []
    for c in chosen:
        if isinstance(c, str) and c in place:
            out.append(place[c])
        elif isinstance(c, int) and -len(names) <= c < len(names):
            out.append(c % len(names))
        else:
            raise ValueError(f"categorical_features names {c!r}, which X does not have: its columns are {names}")
    return out


def check_columns(choice: Any) -> None:
    """Refuse what names no columns; whether X has them is seen with the data."""
    if isinstance(choice, str):
        if choice != "auto":
            raise ValueError(f"categorical_features={choice!r} is unknown: use 'auto' or a list of columns")
    elif choice is not None and not hasattr(choice, "__iter__"):
        raise ValueError(f"categorical_features={choice!r} must be 'auto' or a list of columns")


@stored
@dataclass(frozen=True)
class TableReader:
    """Which columns are categories, and whether cells may be missing."""

    # positions of the columns that are categories whatever they hold; None where their types decide
    categorical: tuple[int, ...] | None
    allow_missing: bool  # whether missing cells are accepted

    @classmethod
    def of(cls, names: list[str], categorical_features: Any, missing: str | None) -> TableReader:
        """The reader of a table with these columns, for the parameters of an estimator."""
        categorical = resolve_columns(categorical_features, names)
        return cls(None if categorical is None else tuple(categorical), missing is not None)

    def read(self, X: Any, names: list[str]) -> Table:
        """The cells of `checked_input`."""
        return read_table(X, names, self.categorical, self.allow_missing)

    def read_kept(self, X: Mapping[str, Any], columns: np.ndarray, names: Sequence[str]) -> Table:
        """The kept `columns`, called `names`, of a dict of columns that may have others."""
        places = None
        if self.categorical is not None:
            place = {column: k for k, column in enumerate(columns.tolist())}
            places = [place[c] for c in self.categorical if c in place]
        return read_columns(X, names, places, self.allow_missing)
