"""Models as SQL: the decision as one expression over named columns.

The columns are encoded once, in a subquery without tables; around it stands the sum over channels and cases

    base + sum_l COALESCE(sum_j coef[j, l] k_l(x_j, x), 0)

where NULL is a missing cell and a kernel value of NULL that of a row without the channel, which is zero. Constants are
doubles with all their digits; sums are balanced trees, because databases limit the depth of an expression.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.base.calibration import Calibrator
from tamis.base.classifier import KernelClassifier
from tamis.base.estimator import KernelEstimator
from tamis.base.expansion import CentredExpansion, KernelExpansion
from tamis.kernels.bank import Channel
from tamis.kernels.base import (
    Categorical,
    Epanechnikov,
    Gaussian,
    Laplacian,
    Polynomial,
    ScaledGaussian,
    Sigmoid,
    presence_of,
)
from tamis.kernels.mixture import Mixture, Tensor
from tamis.kernels.whole import Whole
from tamis.results.data import Results
from tamis.table.encoding import UNSEEN, Nominal, Number

SCORE, PROBABILITY, PREDICTION = "score", "probability", "prediction"
LARGEST = "1.7e308"  # numbers beyond, infinities and NaN count as missing
UNDERFLOW = 700.0  # beyond, exp(-x) is zero: some databases refuse to compute it


def to_sql(
    model: KernelEstimator | Results,
    table: str | tuple[str, ...] | None = None,
    *,
    output: Any = None,
    columns: Sequence[str] = (),
) -> str:
    """Write the decision of a fitted estimator as SQL that needs nothing but arithmetic, CASE, exp and the like.

    Parameters
    ----------
    model : classifier or regressor whose decision is a sum over kept cases and kernels with fixed coefficients, or
        results with one in them
    table : where the rows are, a name or (schema, name); None: the expression alone, for use as
        ``SELECT <expression> AS score FROM ...``
    output : the class whose score is wanted, in the expression of a classifier; of two classes the second by default
    columns : of the table that go into the result beside what is said of a row

    Returns
    -------
    The expression, what `decision_function` (of a regressor, `predict`) gives; or a SELECT statement with the columns
    "score", "probability" (where the model has it) and "prediction", for several classes "score of a", ...

    Notes
    -----
    NULL, NaN and infinite numbers are missing cells; with ``missing=None`` a row that lacks a kept cell gets NULL.
    Categories are compared as text, in the collation of their column, or as numbers where they were numbers.
    SQLite reads text where a number should be as zero, and so the empty cells of an imported file: make them NULL
    first. In the expression alone it takes the name of a column that is not there for text; with a `table` it
    complains.

    Examples
    --------
    >>> import sqlite3
    >>> import numpy as np
    >>> from tamis import LassoADMM
    >>> from tamis.io import to_sql
    >>> X = np.arange(40.0).reshape(20, 2)
    >>> clf = LassoADMM(calibration=None).fit(X, X[:, 0] > 20)
    >>> rows = sqlite3.connect(":memory:")
    >>> _ = rows.execute("CREATE TABLE t (x0, x1)")
    >>> _ = rows.executemany("INSERT INTO t VALUES (?, ?)", X.tolist())
    >>> found = rows.execute(f"SELECT {to_sql(clf)} AS score FROM t").fetchall()
    >>> np.allclose(np.ravel(found), clf.decision_function(X))
    True
    """
    estimator = model.model if isinstance(model, Results) else model
    if not isinstance(estimator, KernelEstimator):
        raise ValueError(f"model={type(model).__name__} is not an estimator of tamis, and has no form in SQL here")
    check_is_fitted(estimator)
    place = () if table is None else _names("table", (table,) if isinstance(table, str) else table)
    beside = _names("columns", columns)
    classes = estimator.classes_.tolist() if isinstance(estimator, KernelClassifier) else []
    writer = _Writer.of(estimator, place, beside)
    if place:
        if output is not None:
            raise ValueError(f"output={output!r} is for the expression alone: a statement has the scores of all")
        return _statement(writer, estimator, place, classes, beside)
    if beside:
        raise ValueError(f"columns={list(beside)} needs a table to take them from: give table")
    if output is None and len(classes) <= 2:
        return writer.expression(0)
    if output not in classes:
        raise ValueError(f"output={output!r} is not one of the classes {classes}: name the one whose score you want")
    if len(classes) == 2:
        return writer.expression(0) if output == classes[1] else f"(-1e0) * {writer.expression(0)}"
    return writer.expression(classes.index(output))


def _names(parameter: str, given: Any) -> tuple[str, ...]:
    """Names of columns, or of a table in its schema."""
    if isinstance(given, list | tuple) and all(isinstance(name, str) and name for name in given):
        return tuple(given)
    raise ValueError(f"{parameter}={given!r}: give names, as {parameter}=['a', 'b']")


# ---------------------------------------------------------------------- statements


def _statement(
    writer: _Writer, model: KernelEstimator, table: tuple[str, ...], classes: list[Any], columns: tuple[str, ...]
) -> str:
    """A SELECT statement with everything that is said of a row."""
    several = len(classes) > 2
    scores = [f"{SCORE} of {label}" for label in classes] if several else [SCORE if classes else PREDICTION]
    said = {} if not classes else _said(scores, classes, getattr(model, "calibrator_", None))
    _check_apart((*columns, *scores, *said), "of the result have names")
    own = [_name(column) for column in columns]
    read = [*(f"{writer.rows}.{name} AS {name}" for name in own), *writer.encodings]
    scored = [*own, *(f"{writer.score(k)} AS {_name(score)}" for k, score in enumerate(scores))]
    told = [*own, *map(_name, scores), *(f"{text} AS {_name(name)}" for name, text in said.items())]
    encoded = f"SELECT {', '.join(read or ['1 AS one'])} FROM {'.'.join(map(_name, table))} AS {writer.rows}"
    first, second = f"{writer.prefix}encoded", f"{writer.prefix}scored"
    return (  # else SQLite would write out every score wherever it is used, and every cell in every score
        f"WITH {first} AS MATERIALIZED ({encoded}), {second} AS MATERIALIZED (SELECT {', '.join(scored)} FROM {first}) "
        f"SELECT {', '.join(told)} FROM {second}"
    )


def _check_apart(names: Sequence[str], what: str) -> None:
    """Names of columns in SQL do not tell capitals from small letters."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name or list(names).count(name) > 1:
            raise ValueError(f"columns {what} that SQL does not tell apart, {other!r} and {name!r}: rename one")


def _said(scores: list[str], classes: list[Any], calibrator: Calibrator | None) -> dict[str, str]:
    """Probabilities and the predicted class, from scores that have names."""
    names, labels = [_name(score) for score in scores], [_literal(label) for label in classes]
    said = {}
    if len(names) == 1:
        if calibrator is not None:
            up = f"({_number(calibrator.slope)} * {names[0]} + {_number(calibrator.offset)})"
            said[PROBABILITY] = f"1e0 / (1e0 + {_bounded_exp(f'-{up}')})"
        said[PREDICTION] = f"CASE WHEN {names[0]} >= 0 THEN {labels[1]} WHEN {names[0]} < 0 THEN {labels[0]} END"
        return said
    for name, label in zip(names, classes, strict=True):
        if calibrator is not None:
            ratios = [_bounded_exp(f"{_number(calibrator.slope)} * ({other} - {name})") for other in names]
            said[f"{PROBABILITY} of {label}"] = f"1e0 / {_sum(ratios)}"
    largest = (" AND ".join(f"{name} >= {other}" for other in names if other != name) for name in names)
    cases = (f"WHEN {test} THEN {label}" for test, label in zip(largest, labels, strict=True))
    said[PREDICTION] = f"CASE {' '.join(cases)} END"
    return said


def _bounded_exp(expression: str) -> str:
    """``exp`` of anything, zero or huge where the number itself would not do."""
    low, high = f"{expression} < {_number(-UNDERFLOW)}", f"{expression} > {_number(UNDERFLOW)}"
    return f"CASE WHEN {low} THEN 0e0 WHEN {high} THEN 1e304 ELSE exp({expression}) END"


# ---------------------------------------------------------------------- words of SQL


def _name(text: str) -> str:
    """A quoted identifier."""
    if "\0" in text:
        raise ValueError(f"a column or table named {text!r} has no name in SQL: rename it")
    return '"' + text.replace('"', '""') + '"'


def _number(value: float) -> str:
    """A constant of type double, in brackets if it is negative: two minus signs begin a comment."""
    value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"the model holds the number {value}, which SQL has no constant for")
    text = repr(value) if "e" in repr(value) else f"{value!r}e0"
    return f"({text})" if text.startswith("-") else text


def _literal(value: Any) -> str:
    """A label: a number, TRUE, FALSE or text."""
    if isinstance(value, bool | np.bool_):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | np.integer):
        return str(value)
    return (
        _number(float(value)) if isinstance(value, float | np.floating) else "'" + str(value).replace("'", "''") + "'"
    )


def _sum(terms: Sequence[str]) -> str:
    """The sum as a balanced tree."""
    if len(terms) <= 2:
        return f"({' + '.join(terms)})" if terms else "0e0"
    half = len(terms) // 2
    return f"({_sum(terms[:half])} + {_sum(terms[half:])})"


# ---------------------------------------------------------------------- encoded columns


@dataclass(frozen=True)
class Cell:
    """An encoded column in SQL.

    Attributes
    ----------
    name : of the encoded column
    low, high : its range
    gaps : whether it may be NULL
    """

    name: str
    low: float
    high: float
    gaps: bool


def _encoded(column: Any, source: str, name: str, cell: str) -> tuple[Cell, str]:
    """A cell, and the expression that encodes the column `source` of the table to it."""
    if isinstance(column, Number):
        ends = column.encode(np.array([column.low, column.high]))
        text = f"({_ranked(column, _clipped(column, source))} - {_number(column.centre)}) / {_number(column.scale)}"
        ends = np.append(ends, column.fill)
        low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
    elif isinstance(column, Nominal):
        text, low, high = _coded(column, source, name), UNSEEN, float(len(column.levels))
    else:
        raise ValueError(f"column {name!r} holds positions in precomputed kernels, which SQL does not have")
    gaps = math.isnan(column.fill)
    return Cell(cell, low, high, gaps), text if gaps else f"COALESCE({text}, {_number(column.fill)})"


def _clipped(column: Number, source: str) -> str:
    """The number, clipped to the range of training; NULL if it is missing."""
    x = f"CAST({source} AS DOUBLE PRECISION)"
    low, high = _number(column.low), _number(column.high)
    clip = f"WHEN {x} < {low} THEN {low} WHEN {x} <= {high} THEN {x} WHEN {x} <= {LARGEST} THEN {high}"
    return f"CASE WHEN {x} < (-{LARGEST}) THEN NULL {clip} END"


def _ranked(column: Number, x: str) -> str:
    """Linear interpolation between knots, where a column is ranked."""
    if column.knots is None or column.ranks is None:
        return x
    points = list(zip(column.knots.tolist(), column.ranks.tolist(), strict=True))
    cases = [f"WHEN {x} <= {_number(points[0][0])} THEN {_number(points[0][1])}"]
    for (left, low), (right, high) in pairwise(points):
        if right > left:
            share = f"(({x} - {_number(left)}) / {_number(right - left)})"  # a slope could overflow
            cases.append(f"WHEN {x} <= {_number(right)} THEN {_number(high - low)} * {share} + {_number(low)}")
    return f"CASE {' '.join(cases)} END"


def _coded(column: Nominal, source: str, name: str) -> str:
    """The code of a category; NULL if it is missing."""
    text = [isinstance(level, str) for level in column.levels]
    if any(text) and not all(text):
        raise ValueError(f"column {name!r} has text and numbers among its categories, which SQL cannot compare")
    x = f"CAST({source} AS {'VARCHAR' if any(text) else 'DOUBLE PRECISION'})"
    missing = f"{x} IS NULL" if any(text) else f"COALESCE(NOT {x} <= {LARGEST}, TRUE)"
    levels = [_literal(level) if isinstance(level, str) else _number(level) for level in column.levels]
    known = " ".join(f"WHEN {x} = {level} THEN {_number(k)}" for k, level in enumerate(levels))
    return f"CASE WHEN {missing} THEN NULL {known} ELSE {_number(UNSEEN)} END"


# ---------------------------------------------------------------------- kernels


Value = Callable[[Any, Sequence[Cell], np.ndarray], str]  # of a kernel, some cells, and the same cells of a case


def _part(cell: Cell, t: float, cost: float, alone: bool) -> tuple[str, float]:
    """What a column adds to the squared distance from the value t of a case, and at most; `alone` it may be NULL."""
    gap = math.isnan(t)
    if cost > 0:
        same = f"{cell.name} IS NULL" if gap else f"{cell.name} = {_number(t)}"
        other = f"WHEN {cell.name} IS NOT NULL THEN" if alone else "ELSE"
        return f"CASE WHEN {same} THEN 0e0 {other} {_number(cost)} END", cost
    most = max((end - (0.0 if gap else t)) ** 2 for end in (cell.low, cell.high)) + 1.0
    if gap:
        return f"COALESCE({cell.name} * {cell.name} + 1e0, 0e0)", most
    square = f"({cell.name} - {_number(t)}) * ({cell.name} - {_number(t)})"
    return (square if alone or not cell.gaps else f"COALESCE({square}, {_number(t * t + 1.0)})"), max(most, t * t + 1.0)


def _distance(cells: Sequence[Cell], case: np.ndarray, costs: Sequence[float] = ()) -> tuple[str, float]:
    """The squared distance to a case, and its largest value; NULL where the only cell is missing."""
    costs = [*costs, *[0.0] * (len(cells) - len(costs))]
    parts = [_part(c, float(t), cost, len(cells) == 1) for c, t, cost in zip(cells, case, costs, strict=True)]
    return _sum([text for text, _ in parts]), sum(most for _, most in parts)


def _exp(distance: tuple[str, float], rate: float) -> str:
    """``exp(-rate distance)``."""
    text, most = distance
    plain = f"exp({_number(-rate)} * {text})"
    if rate * most <= UNDERFLOW:
        return plain
    return f"CASE WHEN {text} > {_number(UNDERFLOW / rate)} THEN 0e0 ELSE {plain} END"


def _gaussian(kernel: Gaussian, cells: Sequence[Cell], case: np.ndarray) -> str:
    return _exp(_distance(cells, case, kernel.mismatch), 0.5 / kernel.bandwidth**2)


def _mixture(kernel: Mixture, cells: Sequence[Cell], case: np.ndarray) -> str:
    distance = _distance(cells, case, kernel.mismatch)
    widths = [_exp(distance, 0.5 / width**2) for width in kernel.bandwidths]
    return f"{_sum(widths)} * {_number(1.0 / len(widths))}"


def _scaled_gaussian(kernel: ScaledGaussian, cells: Sequence[Cell], case: np.ndarray) -> str:
    costs = [*kernel.mismatch, *[0.0] * (len(cells) - len(kernel.mismatch))]
    kept = [c for c, factor in enumerate(kernel.factors) if factor > 0]
    parts = [(kernel.factors[c], _part(cells[c], float(case[c]), costs[c], len(kept) == 1)) for c in kept]
    texts = [f"{_number(factor)} * {text}" for factor, (text, _) in parts]
    return _exp((_sum(texts), sum(factor * most for factor, (_, most) in parts)), 0.5)


def _laplacian(kernel: Laplacian, cells: Sequence[Cell], case: np.ndarray) -> str:
    text, most = _distance(cells, case)
    return _exp((f"sqrt({text})", math.sqrt(most)), 1.0 / kernel.bandwidth)


def _epanechnikov(kernel: Epanechnikov, cells: Sequence[Cell], case: np.ndarray) -> str:
    text, _ = _distance(cells, case)
    width = kernel.bandwidth**2
    return f"CASE WHEN {text} >= {_number(width)} THEN 0e0 ELSE 1e0 - {text} * {_number(1.0 / width)} END"


def _product(cells: Sequence[Cell], case: np.ndarray) -> str:
    """The inner product with a case; NULL where the only cell is missing."""
    alone = len(cells) == 1
    values = [cell.name if alone or not cell.gaps else f"COALESCE({cell.name}, 0e0)" for cell in cells]
    return _sum([f"{value} * {_number(t)}" for value, t in zip(values, np.nan_to_num(case), strict=True)])


def _polynomial(kernel: Polynomial, cells: Sequence[Cell], case: np.ndarray) -> str:
    text = f"({_product(cells, case)} + {_number(kernel.offset)})"
    return text if kernel.degree == 1 else f"power({text}, {_number(kernel.degree)})"


def _sigmoid(kernel: Sigmoid, cells: Sequence[Cell], case: np.ndarray) -> str:
    return f"tanh({_number(kernel.scale)} * {_product(cells, case)} - {_number(kernel.offset)})"


def _categorical(kernel: Categorical, cells: Sequence[Cell], case: np.ndarray) -> str:
    agree = [f"CASE WHEN {cell.name} = {_number(t)} THEN 1e0 ELSE 0e0 END" for cell, t in _known(cells, case)]
    return f"{_sum(agree)} * {_number(1.0 / len(cells))}"


def _known(cells: Sequence[Cell], case: np.ndarray) -> list[tuple[Cell, float]]:
    return [(cell, t) for cell, t in zip(cells, case.tolist(), strict=True) if not math.isnan(t)]


def _tensor(kernel: Tensor, cells: Sequence[Cell], case: np.ndarray) -> str:
    parts = [_value(one, cells[c : c + 1], case[c : c + 1]) for c, one in enumerate(kernel.kernels)]
    return " * ".join(f"({part})" for part in parts)


def _whole(kernel: Whole, cells: Sequence[Cell], case: np.ndarray) -> str:
    return _value(kernel.kernel, cells, case)


KERNELS: dict[type, Value] = {
    Gaussian: _gaussian,
    Mixture: _mixture,
    ScaledGaussian: _scaled_gaussian,
    Laplacian: _laplacian,
    Epanechnikov: _epanechnikov,
    Polynomial: _polynomial,
    Sigmoid: _sigmoid,
    Categorical: _categorical,
    Tensor: _tensor,
    Whole: _whole,
}


def _value(kernel: Any, cells: Sequence[Cell], case: np.ndarray) -> str:
    """The value of a kernel between the row and a case that has it."""
    if type(kernel) not in KERNELS:
        raise ValueError(f"the kernel {type(kernel).__name__} has no form in SQL")
    return KERNELS[type(kernel)](kernel, cells, case)


def _condition(kernel: Any, cells: Sequence[Cell]) -> str:
    """When a row has a kernel, where NULL does not say so by itself."""
    if isinstance(kernel, Whole):
        return " AND ".join(f"{cell.name} IS NOT NULL" for cell in cells if cell.gaps)
    if isinstance(kernel, ScaledGaussian):
        cells = [cell for cell, factor in zip(cells, kernel.factors, strict=True) if factor > 0]
    if isinstance(kernel, Tensor) or len(cells) == 1 or not all(cell.gaps for cell in cells):
        return ""
    return " OR ".join(f"{cell.name} IS NOT NULL" for cell in cells)


# ---------------------------------------------------------------------- models


@dataclass(frozen=True)
class _Writer:
    """Writes the expressions of a model.

    Attributes
    ----------
    expansion : what is written
    cells : the encoded columns
    encodings : the expressions that encode them, with their names
    prefix : with which no name of a column or table begins
    strict : whether a row that lacks a cell has no score
    """

    expansion: KernelExpansion
    cells: list[Cell]
    encodings: list[str]
    prefix: str
    strict: bool

    @property
    def rows(self) -> str:
        """Alias of the table."""
        return f"{self.prefix}rows"

    @classmethod
    def of(cls, model: KernelEstimator, table: tuple[str, ...], columns: tuple[str, ...]) -> _Writer:
        expansion, encoder = model.model_.expansion, model.model_.encoder
        if type(expansion) not in (KernelExpansion, CentredExpansion):
            raise ValueError(
                f"the decision of {type(model).__name__} is no sum of kernels with fixed coefficients (it is a "
                f"{type(expansion).__name__}), and has no form in SQL"
            )
        _check_apart(encoder.names, "that the model needs have names")
        prefix = _unused([*encoder.names, *columns, *table])
        source = f"{prefix}rows." if table else ""
        made = [
            _encoded(column, f"{source}{_name(name)}", name, f"{prefix}{k}")
            for k, (name, column) in enumerate(zip(encoder.names, encoder.columns, strict=True))
        ]
        encodings = [f"{text} AS {cell.name}" for cell, text in made]
        return cls(expansion, [cell for cell, _ in made], encodings, prefix, not model.reader_.allow_missing)

    def expression(self, output: int) -> str:
        """The decision for one output, from the columns of the table."""
        if not self.cells:
            return self.score(output)
        return f"(SELECT {self.score(output)} FROM (SELECT {', '.join(self.encodings)}) AS {self.prefix}encoded)"

    def score(self, output: int) -> str:
        """The decision for one output, from encoded columns."""
        coef, base = self.expansion.coef[output], self.expansion.intercept[output]
        if isinstance(self.expansion, CentredExpansion):
            base = base - np.sum(coef * self.expansion.centre)
        sums = [self._channel(channel, coef[:, k]) for k, channel in enumerate(self.expansion.bank.channels)]
        whole = _sum([_number(base), *(text for text in sums if text)])
        lacking = " OR ".join(f"{cell.name} IS NULL" for cell in self.cells if cell.gaps)
        return f"CASE WHEN {lacking} THEN NULL ELSE {whole} END" if self.strict and lacking else whole

    def _channel(self, channel: Channel, coef: np.ndarray) -> str:
        """What one kernel adds; nothing if no case has it."""
        places = list(channel.columns)
        cells, cases = [self.cells[c] for c in places], self.expansion.instances[:, places]
        used = np.flatnonzero((coef != 0) & presence_of(channel.kernel, cases))
        try:
            terms = [f"{_number(coef[j])} * {_value(channel.kernel, cells, cases[j])}" for j in used]
        except ValueError as error:
            raise ValueError(f"kernels: {channel.name!r}: {error}") from None
        if not terms:
            return ""
        condition = _condition(channel.kernel, cells)
        if condition:
            return f"CASE WHEN {condition} THEN {_sum(terms)} ELSE 0e0 END"
        return f"COALESCE({_sum(terms)}, 0e0)" if any(cell.gaps for cell in cells) else _sum(terms)


def _unused(names: Sequence[str]) -> str:
    """The beginning of a name that no column has, whatever the case of its letters."""
    prefix = "tamis_"
    while any(name.lower().startswith(prefix) for name in names):
        prefix += "_"
    return prefix
