"""From what users pass (arrays, pandas or polars frames) to encoded numbers, and the encoding itself.

Encoded numbers are standardised (or ranked); encoded categories are codes 0, 1, ...; a missing cell is
NaN. At prediction a number beyond the training range counts as the nearest training value, and a
category that training never saw is code -1, which agrees with nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
from sklearn.utils import check_array

from tamis.codec import stored
from tamis.estimators.checks import check_names

KNOTS = 201  # most knots of a rank map, so that a model's size does not grow with the data
UNSEEN = -1.0


@dataclass(frozen=True)
class Table:
    """A table as numbers, with the columns that are not numbers beside them.

    Attributes
    ----------
    numbers : (n, d) float64 or float32, NaN for missing cells and throughout the columns of `labels`
    labels : {column: (n,) object array}, None for missing cells
    names : the d column names
    """

    numbers: np.ndarray
    labels: dict[int, np.ndarray]
    names: list[str]

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


def read_table(X: Any, names: Sequence[str], categorical: Sequence[int] | None, allow_missing: bool) -> Table:
    """Read validated input; `categorical` lists the columns that are categories (None: by their type)."""
    d = X.shape[1]
    if not d:
        raise ValueError(f"X has 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    if not is_frame(X) and X.dtype != object:
        numbers = X if X.dtype == np.float32 else np.asarray(X, dtype=float)
        return _declared(Table(numbers, {}, list(names)), categorical, allow_missing)
    columns = [_column(X, j, names[j], categorical is not None and j in categorical) for j in range(d)]
    return _make_table(columns, names, categorical, allow_missing)


def _make_table(
    columns: Sequence[np.ndarray], names: Sequence[str], categorical: Sequence[int] | None, allow_missing: bool
) -> Table:
    labels = {j: _as_labels(v) for j, v in enumerate(columns) if v.dtype == object}
    cells = [np.full(len(v), np.nan) if j in labels else v for j, v in enumerate(columns)]
    return _declared(Table(np.column_stack(cells).astype(float), labels, list(names)), categorical, allow_missing)


def _declared(table: Table, categorical: Sequence[int] | None, allow_missing: bool) -> Table:
    """The checked table with the columns in `categorical`, and no others, as categories."""
    numbers, labels, names = table.numbers, table.labels, table.names
    if categorical is not None:
        for j in set(categorical) - set(labels):
            labels[j] = _number_labels(numbers[:, j])
            numbers = _blank(numbers, j)
        for j in sorted(set(labels) - set(categorical)):
            numbers[:, j] = _flags(labels.pop(j), names[j], "and categorical_features does not name it")
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
    arrays = [_as_array(X[name]) for name in names]
    sizes = sorted({len(values) for values in arrays})
    if len(sizes) > 1:
        raise ValueError(f"X has columns of different lengths, {sizes}: one value per row is needed")
    if not sizes or not sizes[0]:
        raise ValueError("X has 0 sample(s) or 0 feature(s): at least one row and one column are needed")
    named = [] if categorical is None else list(categorical)
    columns = [_column_values(v, "", name, j in named) for j, (v, name) in enumerate(zip(arrays, names, strict=True))]
    return _make_table(columns, names, categorical, allow_missing)


def _as_array(values: Any) -> np.ndarray:
    if hasattr(values, "to_numpy"):
        return values.to_numpy()
    if isinstance(values, np.ndarray):
        return values
    out = np.empty(len(values), dtype=object)
    out[:] = list(values)
    return out


def _blank(numbers: np.ndarray, column: int) -> np.ndarray:
    numbers = numbers.copy()
    numbers[:, column] = np.nan
    return numbers


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
    for j, name in enumerate(table.names):
        gaps = any(v is None for v in table.labels[j]) if j in table.labels else np.isnan(table.numbers[:, j]).any()
        if gaps:
            raise ValueError(
                f"X contains NaN in column {name!r} and missing=None refuses missing cells: "
                "use missing='absent' or missing='median', or impute first"
            )


def _column(X: Any, j: int, name: str, nominal: bool) -> np.ndarray:
    """One column as floats, or as objects if it is text, boolean or of a categorical type."""
    series = X.iloc[:, j] if hasattr(X, "iloc") else X[:, j]
    kind = str(series.dtype).lower()
    values = series.to_numpy() if hasattr(series, "to_numpy") else np.asarray(series)
    return _column_values(values, kind, name, nominal)


def _column_values(values: np.ndarray, kind: str, name: str, nominal: bool) -> np.ndarray:
    if "categor" in kind or kind.startswith("enum") or values.dtype.kind in "USb":
        return values.astype(object)
    if values.dtype.kind in "fiu":
        return values.astype(float)
    if values.dtype.kind in "mM":
        raise ValueError(
            f"column {name!r} holds dates or times: convert it to numbers, such as days since a fixed date"
        )
    if values.dtype.kind == "c":
        raise ValueError(f"column {name!r} holds complex numbers: Complex data not supported")
    text = [isinstance(v, str) for v in values]
    known = [not is_missing(v) for v in values]
    if any(text) and sum(text) < sum(known) and not nominal:
        example = values[text.index(True)]
        raise ValueError(
            f"column {name!r} mixes numbers and text ({example!r}): clean it, or name it in categorical_features"
        )
    if any(text) or any(isinstance(v, bool | np.bool_) for v in values):
        return values
    return np.array([float(v) if k else np.nan for v, k in zip(values, known, strict=True)], dtype=float)


def is_missing(v: Any) -> bool:
    """Whether a cell is None, NaN or pandas' NA or NaT."""
    return v is None or type(v).__name__ in ("NAType", "NaTType") or (isinstance(v, float) and v != v)


def _as_labels(values: np.ndarray) -> np.ndarray:
    out = np.empty(len(values), dtype=object)
    out[:] = [None if is_missing(v) else v.item() if isinstance(v, np.generic) else v for v in values]
    return out


@stored
@dataclass(frozen=True)
class Number:
    """Encoding of one numeric column: clip to the training range, rank if asked, standardise, fill."""

    low: float
    high: float
    centre: float
    scale: float
    knots: np.ndarray | None
    ranks: np.ndarray | None
    fill: float

    def encode(self, values: np.ndarray) -> np.ndarray:
        z = np.clip(values.astype(np.float64), self.low, self.high)
        if self.knots is not None and self.ranks is not None:
            z = np.where(np.isnan(z), np.nan, np.interp(z, self.knots, self.ranks))
        z = (z - self.centre) / self.scale
        return z if np.isnan(self.fill) else np.where(np.isnan(z), self.fill, z)

    def decode(self, z: np.ndarray) -> np.ndarray:
        """Values in the column's own units; what `encode` clipped or filled comes back clipped or filled."""
        values = z * self.scale + self.centre
        if self.knots is not None and self.ranks is not None:
            values = np.where(np.isnan(values), np.nan, np.interp(values, self.ranks, self.knots))
        return values


@stored
@dataclass(frozen=True)
class Nominal:
    """Encoding of one categorical column: position in `levels`, -1 if unseen, filled if asked."""

    levels: tuple[Any, ...]
    fill: float

    def encode(self, values: np.ndarray) -> np.ndarray:
        code: dict[Any, float] = {level: float(k) for k, level in enumerate(self.levels)}
        code[None] = self.fill
        return np.fromiter(map(code.get, values, repeat(UNSEEN)), dtype=float, count=len(values))

    def decode(self, z: np.ndarray) -> np.ndarray:
        """Levels, as objects; None where there is none."""
        out = np.empty(len(z), dtype=object)
        out[:] = [self.levels[int(code)] if code >= 0 else None for code in z]
        return out


@stored
@dataclass(frozen=True)
class Encoder:
    """The encodings of some columns, in order."""

    columns: tuple[Number | Nominal, ...]
    names: tuple[str, ...]

    @classmethod
    def fit(
        cls,
        table: Table,
        weight: np.ndarray,
        *,
        scaling: str | None,
        missing: str | None,
        winsorise: float = 0.0,
        ranges: Mapping[int, tuple[float, float]] | None = None,
    ) -> Encoder:
        """Learn scales, ranges, levels and fills from weighted training rows.

        Numbers are clipped to ``ranges[column]`` where given, else to the quantiles `winsorise` and
        ``1 - winsorise``.
        """
        columns: list[Number | Nominal] = []
        for j in range(table.numbers.shape[1]):
            if j in table.labels:
                columns.append(_fit_nominal(table.labels[j], weight, missing))
            else:
                limits = None if ranges is None else ranges.get(j)
                x, share = _clipped(table.numbers[:, j], weight, winsorise, limits)
                columns.append(_fit_number(x, share, limits, scaling, missing))
        return cls(tuple(columns), tuple(table.names))

    @property
    def nominal(self) -> np.ndarray:
        return np.array([isinstance(c, Nominal) for c in self.columns], dtype=bool)

    def select(self, columns: np.ndarray) -> Encoder:
        return Encoder(tuple(self.columns[c] for c in columns), tuple(self.names[c] for c in columns))

    def encode(self, table: Table) -> np.ndarray:
        """Encoded rows (n, d)."""
        out = np.empty(table.numbers.shape, order="F")
        for j, column in enumerate(self.columns):
            if isinstance(column, Nominal):
                raw = table.labels[j] if j in table.labels else _number_labels(table.numbers[:, j])
                raw = _codes_as_text(raw, column.levels)
                _check_kind(raw, column.levels, self.names[j])
                out[:, j] = column.encode(raw)
            elif j in table.labels:
                out[:, j] = column.encode(_flags(table.labels[j], self.names[j], "and was numeric in training"))
            else:
                out[:, j] = column.encode(table.numbers[:, j])
        return out


def _codes_as_text(values: np.ndarray, levels: tuple) -> np.ndarray:
    """Numbers as text where the levels are text and know some of them: codes that were declared categories."""
    if "text" in _kinds(values) or _kinds(levels) != {"text"}:
        return values
    words = [None if v is None else str(int(v)) if float(v).is_integer() else repr(v) for v in values]
    if not set(words) & set(levels):
        return values
    out = np.empty(len(words), dtype=object)
    out[:] = words
    return out


def _kinds(values: Any) -> set[str]:
    return {"text" if isinstance(v, str) else "numbers" for v in values if v is not None}


def _check_kind(values: np.ndarray, levels: tuple, name: str) -> None:
    now, then = _kinds(values), _kinds(levels)
    if now and then and not now & then:
        raise ValueError(
            f"column {name!r} holds {now.pop()} and held {then.pop()} in training: convert it, or no category "
            "would be recognised"
        )


def _flags(values: np.ndarray, name: str, why: str) -> np.ndarray:
    """Booleans as numbers in a column that is not a category."""
    if "text" in _kinds(values):
        raise ValueError(f"column {name!r} holds text {why}: convert it to numbers or make it a category")
    return np.array([np.nan if v is None else float(v) for v in values])


def _number_labels(values: np.ndarray) -> np.ndarray:
    return np.array([None if v != v else v for v in values.tolist()], dtype=object)


def _fit_nominal(values: np.ndarray, weight: np.ndarray, missing: str | None) -> Nominal:
    mass: dict[Any, float] = {}
    for v, w in zip(values, weight, strict=True):
        if v is not None:
            mass[v] = mass.get(v, 0.0) + float(w)
    levels = tuple(sorted_levels(list(mass)))
    fill = np.nan
    if missing == "median" and levels:
        fill = float(max(range(len(levels)), key=lambda k: mass[levels[k]]))
    return Nominal(levels, fill)


def sorted_levels(levels: Sequence[Any]) -> list[Any]:
    """Levels of any types in a fixed order."""
    return sorted(levels, key=lambda v: (type(v).__name__, v))


def _clipped(
    values: np.ndarray, weight: np.ndarray, winsorise: float, limits: tuple[float, float] | None
) -> tuple[np.ndarray, np.ndarray]:
    """The values that are there, clipped and sorted, with their shares of the weight."""
    seen = ~np.isnan(values)
    x, w = values[seen].astype(np.float64), weight[seen]
    order = np.argsort(x, kind="stable")
    x, share = x[order], w[order] / w.sum()
    if limits is None and winsorise > 0 and len(x):
        below = np.cumsum(share)
        edges = np.searchsorted(below, [winsorise, 1.0 - winsorise]).clip(0, len(x) - 1)
        if x[edges[0]] < x[edges[1]]:  # else nearly all values are equal, and the others are all there is to see
            limits = float(x[edges[0]]), float(x[edges[1]])
    return (x if limits is None else np.clip(x, *limits)), share


def _fit_number(
    x: np.ndarray, share: np.ndarray, limits: tuple[float, float] | None, scaling: str | None, missing: str | None
) -> Number:
    """Scale, range and fill of sorted values with their shares; `limits` widen the range."""
    fill = 0.0 if missing == "median" else np.nan
    if not len(x):
        return Number(0.0, 0.0, 0.0, 1.0, None, None, fill)
    low, high = (float(x[0]), float(x[-1])) if limits is None else limits
    unit = max(abs(low), abs(high)) or 1.0  # squares of very large or small numbers would leave the range of floats
    half = float(x[np.searchsorted(np.cumsum(share), 0.5 - 1e-12)])
    if low == high or scaling is None:
        centre = low if low == high else 0.0
        return Number(low, high, centre, 1.0, None, None, half - centre if missing == "median" else fill)
    if scaling == "rank":
        knots, ranks = _rank_map(x, share)
        number = Number(low, high, 0.5, float(np.sqrt(1 / 12)), knots, ranks, np.nan)
    else:
        centre = float(share @ (x / unit)) * unit
        scale = float(np.sqrt(share @ ((x - centre) / unit) ** 2)) * unit
        number = Number(low, high, centre, scale or 1.0, None, None, np.nan)
    return replace(number, fill=float(number.encode(np.array([half]))[0])) if missing == "median" else number


def _rank_map(x: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mid-ranks in [0, 1] of at most KNOTS of the sorted values."""
    knots, start = np.unique(x, return_index=True)
    mass = np.add.reduceat(share, start)
    ranks = np.cumsum(mass) - 0.5 * mass
    if len(knots) > KNOTS:
        keep = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], KNOTS)).clip(0, len(knots) - 1))
        knots, ranks = knots[keep], ranks[keep]
    return knots, ranks


def has_names(X: Any) -> bool:
    """Whether X names its columns by text, as scikit-learn understands it."""
    return is_frame(X) and all(isinstance(c, str) for c in X.columns)


def checked_input(X: Any) -> tuple[Any, list[str]]:
    """A validated frame or array, and the names of its columns."""
    if is_frame(X):
        check_names(X)
        if not len(X):
            raise ValueError(f"X has 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
        return X, [str(c) for c in X.columns]
    checked = check_plain(X)
    return checked, [f"x{j}" for j in range(checked.shape[1])]


def check_plain(X: Any) -> np.ndarray:
    """Validate an array that is not a frame: numbers, or objects with text in some columns."""
    if isinstance(X, list):
        cells = np.empty((len(X), len(X[0]) if X and hasattr(X[0], "__len__") else 0), dtype=object)
        if cells.size and all(hasattr(row, "__len__") and len(row) == cells.shape[1] for row in X):
            cells[:] = X
            X = cells if any(isinstance(v, str) for v in cells.ravel()) else X
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 2 and any(map(_not_plain, X.ravel())):
        return check_array(X, dtype=object, ensure_all_finite=False)
    return check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False)


def _not_plain(v: Any) -> bool:
    return isinstance(v, str) or type(v).__name__ in ("NAType", "NaTType")
