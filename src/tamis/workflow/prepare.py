"""From a table to features, classes, ids and groups, and to training and test rows; everything left out is noted."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, train_test_split

from tamis.errors import BadOption, UnknownColumn
from tamis.io.readers import is_number
from tamis.io.tables import Columns, level, levels, number
from tamis.results.text import count as counted
from tamis.results.text import listed
from tamis.table.folds import deal
from tamis.table.keys import row_keys
from tamis.table.rows import check_groups
from tamis.table.table import MAX_EXACT_INTEGER, any_table, cells_of, columns_by_name, is_missing

MIN_ROWS_PER_CLASS = 3  # rows (or groups) of each class: one to test on, two to hold out from each other
MIN_COUNTER_ROWS = 20  # rows from which consecutive integers are a row counter and not a measurement
DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([T ].*)?")
WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})(\.0+)?")
POSITIVE = {"1", "yes", "y", "true", "t", "positive", "pos", "+", "case", "malignant", "bad", "present", "abnormal"}
NEGATIVE = {"0", "-1", "no", "n", "false", "f", "negative", "neg", "-", "control", "benign", "good", "absent", "normal"}

SIDES = {"train": 0, "training": 0, "0": 0, "0.0": 0, "test": 1, "testing": 1, "holdout": 1, "1": 1, "1.0": 1}


@dataclass(frozen=True)
class Data:
    """What a model can be fitted to, and what became of the rest."""

    columns: dict[str, np.ndarray]  # {feature: (n,) values}; floats, or objects for categories
    y: np.ndarray  # (n,) class labels
    labels: np.ndarray  # (n,) ids, or rows in the file (the first is 1)
    # groups, split: (n,) values of those columns, or None
    groups: np.ndarray | None
    split: np.ndarray | None
    # n_rows, n_columns: of the table as read
    n_rows: int
    n_columns: int
    no_target: int  # rows left out because they have no class
    dropped: dict[str, str]  # {column: why}
    missing: dict[str, int]  # {feature: rows without a value}
    warnings: tuple[str, ...]  # what a reader should know

    @property
    def categories(self) -> tuple[str, ...]:
        return tuple(name for name, values in self.columns.items() if values.dtype == object)


def prepare(
    table: Any,
    target: str,
    *,
    id_column: str | None = None,
    group_column: str | None = None,
    split_column: str | None = None,
    categorical: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> Data:
    """Separate the columns of a table by their roles, and check them."""
    columns = as_columns(table)
    for name in (target, id_column, group_column, split_column, *categorical, *drop):
        if name is not None:
            check_column(columns, name)
    nominal = [name for name in table.categorical if name not in drop] if isinstance(table, Columns) else []
    roles = [name for name in (target, id_column, group_column, split_column) if name is not None]
    _check_roles(roles, target, drop, categorical)
    n_rows, n_columns = len(columns[target]), len(columns)
    known = ~missing_cells(columns[target])
    if not known.any():
        raise ValueError(f"target {target!r} has no value in any row: name another column as the target")
    rows = np.flatnonzero(known)
    y = _classes(columns[target][rows], target)
    offered = {k: v[rows] for k, v in columns.items() if k not in roles and k not in drop}
    dropped = dict.fromkeys(drop, "dropped as requested")
    features, left_out, warnings = _features(offered, [*categorical, *nominal], rows)
    if not features:
        raise ValueError(f"no column is left to learn from except {roles}: {left_out or 'the table has no other'}")
    warnings += _leaks(features, y, target)
    groups, split = (
        None if name is None else complete(columns[name], rows, name, role)
        for name, role in ((group_column, "group"), (split_column, "split"))
    )
    labels = row_names(columns.get(id_column or ""), rows)
    _check_counts(y, groups, target)
    gaps = {name: int(missing_cells(values).sum()) for name, values in features.items()}
    return Data(
        features,
        y,
        labels,
        groups,
        split,
        n_rows,
        n_columns,
        n_rows - len(rows),
        {**dropped, **left_out},
        {name: count for name, count in gaps.items() if count},
        tuple(warnings),
    )


def as_columns(table: Any) -> dict[str, np.ndarray]:
    """Columns of a dict, of an Arrow table or of a DataFrame (pandas, polars)."""
    by_name = columns_by_name(table)
    if by_name is not None:
        columns = {str(name): _values(_array(values)) for name, values in by_name.items()}
    elif hasattr(table, "columns") and hasattr(table, "shape"):
        names = [str(name) for name in table.columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two columns are named {twice[0]!r}: rename one")
        columns = {str(name): _values(table[name]) for name in table.columns}
    else:
        raise ValueError(f"the table is a {type(table).__name__}: give a DataFrame or a dict of columns")
    sizes = sorted({len(values) for values in columns.values()})
    if len(sizes) != 1 or not sizes[0]:
        raise ValueError(
            f"the table has columns of the lengths {sizes}: it needs rows, and equally many in each column"
        )
    return columns


def _array(column: Any) -> np.ndarray:
    return cells_of(column)[0] if hasattr(column, "to_pylist") else np.asarray(column)


def _values(series: Any) -> np.ndarray:
    """A column as floats, as dates, or as objects with None for missing cells."""
    nominal = "categor" in str(series.dtype).lower() or str(series.dtype).lower().startswith("enum")
    values = series.to_numpy() if hasattr(series, "to_numpy") else series
    if values.dtype.kind == "f" and "int" in str(series.dtype).lower():  # whole numbers with gaps among them
        values = np.array(list(series), dtype=object)
    if values.dtype.kind in "mM":
        return values
    if values.dtype.kind in "iu" and not nominal:
        return values  # floats could not tell long ids apart
    if values.dtype.kind == "f" and not nominal:
        return values.astype(float)
    cells = [None if is_missing(v) else v for v in values.tolist()]
    known = [v for v in cells if v is not None]
    plain = not nominal and all(isinstance(v, int | float | Decimal) and not isinstance(v, bool) for v in known)
    if known and plain and all(isinstance(v, float) or abs(v) <= MAX_EXACT_INTEGER for v in known):
        return np.array([np.nan if v is None else float(v) for v in cells])
    out = np.empty(len(cells), dtype=object)
    out[:] = cells
    return out


def check_column(columns: Mapping[str, Any], name: str) -> None:
    """Refuse a name that the table does not have, and suggest the nearest one."""
    if name in columns:
        return
    names = list(columns)
    folded = {n.strip().lower(): n for n in names}
    near = [folded[name.strip().lower()]] if name.strip().lower() in folded else difflib.get_close_matches(name, names)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {listed([repr(n) for n in names], 12)}"
    raise UnknownColumn(f"the table has no column {name!r}: {hint}")


def missing_cells(values: np.ndarray) -> np.ndarray:
    """Mask of the cells without a value."""
    if values.dtype == object:
        return np.array([v is None or v != v for v in values], dtype=bool)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)


def _check_roles(roles: Sequence[str], target: str, drop: Sequence[str], categorical: Sequence[str]) -> None:
    twice = [name for name in roles if list(roles).count(name) > 1]
    if twice:
        raise ValueError(f"column {twice[0]!r} has two roles: target, id, group and split must be different columns")
    gone = [name for name in (*roles, *categorical) if name in drop]
    if gone:
        raise ValueError(f"column {gone[0]!r} is both dropped and used: remove one of the two")
    if target in categorical:
        raise ValueError(f"column {target!r} is the target: it need not be declared a category")


def _classes(values: np.ndarray, target: str) -> np.ndarray:
    """Class labels: whole numbers, booleans or text."""
    if values.dtype.kind in "mM":
        raise ValueError(f"target {target!r} holds dates: a classifier needs classes")
    if values.dtype.kind in "fiu":
        if not np.isfinite(values).all():
            raise ValueError(f"target {target!r} holds an infinite value: it must name classes")
        distinct = np.unique(values)
        if len(distinct) > 10 and (np.any(distinct != np.round(distinct)) or len(distinct) > max(20, len(values) / 10)):
            raise ValueError(_numbers(target, len(distinct)))
        return values.astype(int) if np.all(distinct == np.round(distinct)) else levels(values).astype(str)
    cells = values.tolist()
    kinds = {type(v) for v in cells}
    if kinds <= {bool, np.bool_}:
        return np.array(cells, dtype=bool)
    words = [str(level(v)) for v in cells]
    if all(WHOLE.fullmatch(word) for word in set(words)):
        whole = np.array([int(word.partition(".")[0]) for word in words])
        if len(np.unique(whole)) == len(set(words)) and len(set(words)) <= max(20, len(words) / 10):
            return whole  # numbers that came as text
    y = np.array(words)
    distinct = np.unique(y)
    if len(distinct) > max(20, len(y) / 3):
        if all(map(is_number, distinct.tolist())):
            raise ValueError(_numbers(target, len(distinct)))
        raise ValueError(f"target {target!r} has {len(distinct)} different values in {len(y)} rows: is it an id?")
    return y


def _numbers(target: str, n: int) -> str:
    return (
        f"target {target!r} has {n} different numbers: a classifier needs classes; cut the numbers into ranges first, "
        "or predict them with tamis.TamisRegressor in Python"
    )


def _check_counts(y: np.ndarray, groups: np.ndarray | None, target: str) -> None:
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"target {target!r} has one class only ({classes[0]!s}): a classifier needs at least two")
    for label in classes:
        count = int(np.sum(y == label)) if groups is None else len(np.unique(groups[y == label]))
        if count < MIN_ROWS_PER_CLASS:
            have = counted(count, "row" if groups is None else "group")
            raise ValueError(
                f"class {str(label)!r} of {target!r} has {have}: at least {MIN_ROWS_PER_CLASS} are "
                "needed, to learn from some and to test on others; collect more, or leave the class out"
            )


def _features(
    offered: dict[str, np.ndarray], categorical: Sequence[str], rows: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, str], list[str]]:
    """The columns to learn from; those left out, with the reason; warnings."""
    kept: dict[str, np.ndarray] = {}
    left_out: dict[str, str] = {}
    warnings: list[str] = []
    empty = [name for name, values in offered.items() if missing_cells(values).all()]
    if empty:
        raise ValueError(
            f"column {empty[0]!r} has no value in any row: name it in drop ({len(empty)} such: {empty[:20]})"
        )
    for name, values in offered.items():
        if values.dtype.kind in "mM":
            raise ValueError(_dates(name))
        if values.dtype.kind in "ObUS" and name not in categorical:
            _check_kind(name, values, rows)
        values = levels(values) if name in categorical or values.dtype.kind in "ObUS" else values.astype(float)
        reason, warning = _judge(name, values, rows, declared=name in categorical)
        if reason:
            left_out[name] = reason
        else:
            kept[name] = values
        warnings += [warning] if warning else []
    return kept, left_out, warnings


def _judge(name: str, values: np.ndarray, rows: np.ndarray, *, declared: bool) -> tuple[str, str]:
    """Why a column should be left out, and what to warn of; both may be empty."""
    there = values[~missing_cells(values)]
    distinct = len(set(there.tolist()))
    if distinct == 1:
        return "it has one value only", ""
    dropped = "and was dropped (name it as id column to see it with the cases)"
    if values.dtype == object:
        if distinct == len(there) and distinct > MIN_ROWS_PER_CLASS and not declared:
            reason = "has another value in every row"
            return f"it {reason} and looks like an id", f"column {name!r} {reason}, looks like an id {dropped}"
        if distinct > 20 and distinct > len(there) / 2:
            return "", f"column {name!r} has {distinct} categories in {len(there)} rows: little can be learned from it"
        return "", ""
    if np.isinf(there).any():
        row = int(rows[np.flatnonzero(np.isinf(values))[0]]) + 1
        raise ValueError(f"column {name!r} holds an infinite value in row {row}: replace it, or leave the cell empty")
    if len(there) == len(values) >= MIN_COUNTER_ROWS and np.array_equal(np.diff(there), np.ones(len(there) - 1)):
        return "it counts the rows", f"column {name!r} counts the rows {dropped}"
    return "", ""


def _check_kind(name: str, values: np.ndarray, rows: np.ndarray) -> None:
    """Refuse text that is dates, or numbers with some text among them."""
    cells = [(k, v) for k, v in enumerate(values.tolist()) if v is not None]
    if cells and all(isinstance(v, str) and DATE.fullmatch(v) for _, v in cells):
        raise ValueError(_dates(name))
    odd = [(k, v) for k, v in cells if isinstance(v, str) and number(v) is None]
    if odd and len(odd) < len(cells):
        k, v = odd[0]
        raise ValueError(
            f"column {name!r} mixes numbers and text: row {rows[k] + 1} holds {v!r} ({len(odd)} of {len(cells)} cells "
            f"are text); correct it, name it in categorical, or declare this cell as missing"
        )


def _dates(name: str) -> str:
    return (
        f"column {name!r} holds dates or times: convert it to numbers, such as days since a fixed date, or name it in "
        "drop"
    )


def complete(values: np.ndarray, rows: np.ndarray, name: str, role: str) -> np.ndarray:
    """Values of a column that must not have gaps."""
    gaps = np.flatnonzero(missing_cells(values[rows]))
    if len(gaps):
        raise ValueError(f"{role} column {name!r} has no value in row {rows[gaps[0]] + 1}: every row needs one")
    return values[rows].astype(str) if values.dtype == object else values[rows]


def row_names(ids: np.ndarray | None, rows: np.ndarray) -> np.ndarray:
    """Ids as text; without one a row is called by its place in the file, the first is 1."""
    if ids is None:
        return rows + 1
    out = np.empty(len(rows), dtype=object)
    gaps = missing_cells(ids)
    out[:] = [f"row {row + 1}" if gaps[row] else level(ids[row]) for row in rows.tolist()]
    return out


def _leaks(features: dict[str, np.ndarray], y: np.ndarray, target: str) -> list[str]:
    """Features that are the target in disguise."""
    out = []
    classes, codes = np.unique(y, return_inverse=True)
    for name, values in features.items():
        there = ~missing_cells(values)
        if there.sum() < max(MIN_ROWS_PER_CLASS, 0.5 * len(y)) or len(np.unique(codes[there])) < 2:
            continue
        pairs = set(zip(values[there].tolist(), codes[there].tolist(), strict=True))
        warning = None
        if len(pairs) == len(classes) and len({v for v, _ in pairs}) == len({c for _, c in pairs}) == len(classes):
            warning = (
                f"is a copy of the target {target!r} under other names: the test will be too optimistic; drop it unless"
            )
        elif values.dtype != object and _separates(values[there], codes[there], len(classes)) and there.sum() >= 20:
            warning = f"separates the classes of {target!r} without an error: make sure that"
        if warning:
            out.append(f"column {name!r} {warning} it is known before the target")
    return out


def _separates(values: np.ndarray, codes: np.ndarray, n_classes: int) -> bool:
    """Whether the classes are intervals of the column."""
    order = np.argsort(values, kind="stable")
    v, c = values[order], codes[order]
    changes = np.flatnonzero(c[1:] != c[:-1])
    return len(changes) == n_classes - 1 and bool(np.all(v[changes] < v[changes + 1]))


def positive_class(y: np.ndarray, named: Any = None) -> Any:
    """The class that high scores favour: as given, else by its name, else the rarer one; None for several classes."""
    classes, counts = np.unique(y, return_counts=True)
    labels = classes.tolist()
    if named is not None:
        found = [label for label in labels if label == named or str(label) == str(named)]
        if not found:
            raise BadOption(f"positive={named!r} is not a class: the classes are {', '.join(map(str, labels))}")
        if len(labels) != 2:
            raise BadOption(f"positive={named!r} is for two classes, and there are {len(labels)}: leave it out")
        return found[0]
    if len(labels) != 2:
        return None
    words = [str(label).strip().lower() for label in labels]
    for k in (1, 0):
        if words[k] in POSITIVE and words[1 - k] not in POSITIVE:
            return labels[k]
        if words[1 - k] in NEGATIVE and words[k] not in NEGATIVE:
            return labels[k]
    return labels[1] if counts[1] <= counts[0] else labels[0]


# ---------------------------------------------------------------------- training and test rows


def split_rows(data: Data, test_size: float, seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Positions of the training rows and of the test rows, and in words how they were chosen."""
    if data.split is not None:
        train, test, words = _by_column(data)
    elif data.groups is not None:
        train, test = _by_groups(data, test_size, seed)
        words = f"{len(test)} of {len(data.y)} rows, whole groups at random, seed {seed}"
    else:
        rows = np.arange(len(data.y))
        least = len(np.unique(data.y))
        size = max(least, round(test_size * len(rows)))
        if len(rows) - size < 2 * least:
            left = len(rows) - size
            raise ValueError(f"test_size={test_size} leaves {left} of {len(rows)} rows to learn from: lower it")
        train, test = train_test_split(rows, test_size=size, stratify=data.y, random_state=seed)
        train, test = np.sort(train), np.sort(test)
        words = f"{len(test)} of {len(rows)} rows at random, within classes, seed {seed}"
    _check_sides(data, train, test)
    return train, test, words


def sides(values: Sequence[Any]) -> np.ndarray:
    """Zero for rows to learn from and one for rows to test on, from the cells of a split column."""
    words = [str(v).strip().lower() for v in values]
    odd = sorted({v for v in words if v not in SIDES})
    if odd:
        raise ValueError(f"the split column holds {odd[0]!r}: its values must be 'train' and 'test' (or 0 and 1)")
    return np.array([SIDES[v] for v in words])


def _by_column(data: Data) -> tuple[np.ndarray, np.ndarray, str]:
    side = sides(data.split.tolist())  # type: ignore[union-attr]
    if data.groups is not None:
        both = set(data.groups[side == 0].tolist()) & set(data.groups[side == 1].tolist())
        if both:
            name = min(both, key=str)
            raise ValueError(f"group {name!r} has rows on both sides of the split: the test would not be fair")
    return np.flatnonzero(side == 0), np.flatnonzero(side == 1), "as the split column says"


def _by_groups(data: Data, test_size: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    share = min(test_size, 1.0 - test_size)  # of the smaller side
    folds = max(2, min(round(1 / share), len(np.unique(np.asarray(data.groups)))))
    classes = set(np.unique(data.y).tolist())
    rows = np.zeros((len(data.y), 1))
    for train, test in StratifiedGroupKFold(folds, shuffle=True, random_state=seed).split(rows, data.y, data.groups):
        if all(set(data.y[side].tolist()) == classes for side in (train, test)):
            return (train, test) if test_size <= 0.5 else (test, train)
    raise ValueError("no split into whole groups has every class on both sides: use fewer classes or a split column")


def _check_sides(data: Data, train: np.ndarray, test: np.ndarray) -> None:
    if not len(test) or not len(train):
        raise ValueError("the split leaves no row to learn from or none to test on")
    for label in np.unique(data.y):
        count = int(np.sum(data.y[train] == label))
        if count < 2:
            raise ValueError(f"class {str(label)!r} has {count} training rows: at least two are needed")


def folds_of(
    X: Mapping[str, np.ndarray], y: np.ndarray, groups: np.ndarray | None, n_folds: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Stratified folds of training rows, groups kept together; fewer where a class is small."""
    codes = np.unique(y, return_inverse=True)[1]
    return deal(row_keys(any_table(X), seed), codes, check_groups(groups, len(y)), n_folds, seed)
