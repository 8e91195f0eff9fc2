"""Models as SQL: the decision as one expression over named columns.

The columns are encoded once, in a subquery without tables; around it stands the sum over channels and cases

    base + sum_l COALESCE(sum_j coef[j, l] k_l(x_j, x), 0)

where NULL is a missing cell and a kernel value of NULL that of a row without the channel, which is zero. Constants are
doubles with all their digits; sums are balanced trees, because databases limit the depth of an expression.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from tamis.base.calibration import Calibrator
from tamis.base.estimator import KernelEstimator
from tamis.base.expansion import CentredExpansion, KernelExpansion
from tamis.io.models import estimator_in
from tamis.kernels.bank import Channel
from tamis.kernels.portable import Expression, NotPortable, evaluate, needed
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
    columns : of the table to add to the result

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
    estimator = estimator_in(model)
    if estimator is None:
        raise ValueError(f"model={type(model).__name__} is not an estimator of tamis, and has no form in SQL here")
    check_is_fitted(estimator)
    place = () if table is None else _names("table", (table,) if isinstance(table, str) else table)
    kept = _names("columns", columns)
    classes = estimator.classes_.tolist() if is_classifier(estimator) else []
    writer = _Writer.of(estimator, place, kept)
    if place:
        if output is not None:
            raise ValueError(f"output={output!r} is for the expression alone: a statement has the scores of all")
        return _statement(writer, estimator, place, classes, kept)
    if kept:
        raise ValueError(f"columns={list(kept)} needs a table to take them from: give table")
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
    """Return the SELECT statement of scores, probabilities and predictions."""
    several = len(classes) > 2
    scores = [f"{SCORE} of {label}" for label in classes] if several else [SCORE if classes else PREDICTION]
    predictions = {} if not classes else _predictions(scores, classes, getattr(model, "calibrator_", None))
    _check_apart((*columns, *scores, *predictions), "of the result have names")
    own = [_name(column) for column in columns]
    read = [*(f"{writer.rows}.{name} AS {name}" for name in own), *writer.encodings]
    scored = [*own, *(f"{writer.score(k)} AS {_name(score)}" for k, score in enumerate(scores))]
    selected = [*own, *map(_name, scores), *(f"{text} AS {_name(name)}" for name, text in predictions.items())]
    encoded = f"SELECT {', '.join(read or ['1 AS one'])} FROM {'.'.join(map(_name, table))} AS {writer.rows}"
    first, second = f"{writer.prefix}encoded", f"{writer.prefix}scored"
    return (  # else SQLite would write out every score wherever it is used, and every cell in every score
        f"WITH {first} AS MATERIALIZED ({encoded}), {second} AS MATERIALIZED (SELECT {', '.join(scored)} FROM {first}) "
        f"SELECT {', '.join(selected)} FROM {second}"
    )


def _check_apart(names: Sequence[str], what: str) -> None:
    """Names of columns in SQL do not tell capitals from small letters."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name or list(names).count(name) > 1:
            raise ValueError(f"columns {what} that SQL does not tell apart, {other!r} and {name!r}: rename one")


def _predictions(scores: list[str], classes: list[Any], calibrator: Calibrator | None) -> dict[str, str]:
    """Probabilities and the predicted class, from scores that have names."""
    names, labels = [_name(score) for score in scores], [_literal(label) for label in classes]
    predictions = {}
    if len(names) == 1:
        if calibrator is not None:
            up = f"({_number(calibrator.slope)} * {names[0]} + {_number(calibrator.offset)})"
            predictions[PROBABILITY] = f"1e0 / (1e0 + {_bounded_exp(f'-{up}')})"
        predictions[PREDICTION] = f"CASE WHEN {names[0]} >= 0 THEN {labels[1]} WHEN {names[0]} < 0 THEN {labels[0]} END"
        return predictions
    for name, label in zip(names, classes, strict=True):
        if calibrator is not None:
            ratios = [_bounded_exp(f"{_number(calibrator.slope)} * ({other} - {name})") for other in names]
            predictions[f"{PROBABILITY} of {label}"] = f"1e0 / {_sum(ratios)}"
    largest = (" AND ".join(f"{name} >= {other}" for other in names if other != name) for name in names)
    cases = (f"WHEN {test} THEN {label}" for test, label in zip(largest, labels, strict=True))
    predictions[PREDICTION] = f"CASE {' '.join(cases)} END"
    return predictions


def _bounded_exp(expression: str) -> str:
    """``exp`` of anything, zero or huge where the number itself would not do."""
    low, high = f"{expression} < {_number(-UNDERFLOW)}", f"{expression} > {_number(UNDERFLOW)}"
    return f"CASE WHEN {low} THEN 0e0 WHEN {high} THEN 1e304 ELSE exp({expression}) END"


# ---------------------------------------------------------------------- names and constants


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
    if column.kind == "number":
        ends = column.encode(np.array([column.low, column.high]))
        text = f"({_ranked(column, _clipped(column, source))} - {_number(column.centre)}) / {_number(column.scale)}"
        ends = np.append(ends, column.fill)
        low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
    elif column.kind == "category":
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


@dataclass(frozen=True)
class _Values:
    """Writes the trees of kernels (`tamis.kernels.portable`) for the row and one case that has the kernel.

    Attributes
    ----------
    cells : the encoded columns
    case : their values in the case
    """

    cells: Sequence[Cell]
    case: np.ndarray

    def write(self, node: Expression) -> str:
        """A value; NULL where the only cell of a leaf is missing."""
        match node.kind:
            case "constant":
                return _number(node.numbers[0])
            case "product":
                return self._linear(node, [_number(t) for t in np.nan_to_num(self.case[list(node.columns)])])
            case "own product":
                return self._linear(node, self._filled(node))
            case "agreement":
                return self._share(node, [f"{self.cells[c].name} = {_number(t)}" for c, t in self._known(node)])
            case "own agreement":
                return self._share(node, [f"{self.cells[c].name} IS NOT NULL" for c in node.columns])
            case "case":
                return _number(float(evaluate(node, self.case[None])[0]))
            case "decay":
                return self._decay(node)
            case "ramp":
                text, _, rate = self._scaled(node.parts[0])
                return f"CASE WHEN {text} >= {_number(1.0 / rate)} THEN 0e0 ELSE 1e0 - {text} * {_number(rate)} END"
            case "distance" | "root":
                text, _, rate = self._scaled(node)
                return f"{_number(rate)} * {text}"
        parts = [self.write(part) for part in node.parts]
        match node.kind:
            case "complete":
                return parts[0]
            case "times":
                return " * ".join(f"({part})" for part in parts)
            case "sum":
                return _sum(parts)
            case "tanh":
                return f"tanh({parts[0]})"
            case "power":
                return f"power({parts[0]}, {_number(node.numbers[0])})"
            case "inverse_root":
                return f"CASE WHEN {parts[0]} > 0e0 THEN 1e0 / sqrt({parts[0]}) ELSE 0e0 END"
        raise ValueError(f"a node of the kind {node.kind!r} has no form in SQL")

    def _decay(self, node: Expression) -> str:
        text, most, rate = self._scaled(node.parts[0])
        rate *= node.numbers[0]
        plain = f"exp({_number(-rate)} * {text})"
        if rate * most <= UNDERFLOW:
            return plain
        return f"CASE WHEN {text} > {_number(UNDERFLOW / rate)} THEN 0e0 ELSE {plain} END"

    def _scaled(self, node: Expression) -> tuple[str, float, float]:
        """A node as a text times a number: the text, its largest value and the number."""
        if node.kind == "root":
            text, most, rate = self._scaled(node.parts[0])
            return f"sqrt({text})", math.sqrt(most), math.sqrt(rate)
        if node.kind != "distance":
            return self.write(node), math.inf, 1.0
        alone, rates = len(set(node.columns)) == 1, node.numbers
        parts = [
            _part(self.cells[c], float(self.case[c]), cost, alone)
            for c, cost in zip(node.columns, node.costs, strict=True)
        ]
        if len(set(rates)) == 1:
            return _sum([text for text, _ in parts]), sum(most for _, most in parts), rates[0]
        texts = [f"{_number(rate)} * {text}" for rate, (text, _) in zip(rates, parts, strict=True)]
        return _sum(texts), sum(rate * most for rate, (_, most) in zip(rates, parts, strict=True)), 1.0

    def _linear(self, node: Expression, factors: Sequence[str]) -> str:
        """``scale sum(cell * factor) + offset``; NULL where the only cell is missing."""
        scale, offset = node.numbers
        text = _sum([f"{cell} * {factor}" for cell, factor in zip(self._filled(node), factors, strict=True)])
        text = text if scale == 1.0 else f"{_number(scale)} * {text}"
        return f"({text} + {_number(offset)})" if offset else text

    def _filled(self, node: Expression) -> list[str]:
        """The cells of a leaf, zero where they are missing, unless there is only one."""
        cells = [self.cells[c] for c in node.columns]
        return [c.name if len(cells) == 1 or not c.gaps else f"COALESCE({c.name}, 0e0)" for c in cells]

    def _known(self, node: Expression) -> list[tuple[int, float]]:
        return [(c, float(self.case[c])) for c in node.columns if not math.isnan(self.case[c])]

    def _share(self, node: Expression, tests: Sequence[str]) -> str:
        """The share of the columns of a leaf for which a test is true."""
        return f"{_sum([f'CASE WHEN {t} THEN 1e0 ELSE 0e0 END' for t in tests])} * {_number(1.0 / len(node.columns))}"


def _condition(tree: Expression, cells: Sequence[Cell]) -> str:
    """When a row has a kernel, where NULL does not say so by itself."""
    columns, every = needed(tree)
    gaps = [f"{cells[c].name} IS NOT NULL" for c in columns if cells[c].gaps]
    if every:
        return " AND ".join(gaps) if any(node.kind == "complete" for node in tree.nodes()) else ""
    return " OR ".join(gaps) if len(gaps) == len(columns) else ""


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
        cases = self.expansion.instances
        try:
            tree = channel.kernel.portable(channel.columns)
            used = np.flatnonzero((coef != 0) & channel.presence(cases))
            terms = [f"{_number(coef[j])} * {_Values(self.cells, cases[j]).write(tree)}" for j in used]
        except NotPortable as error:
            raise ValueError(
                f"kernels: {channel.name!r}: the kernel {error.kernel.__name__} has no form in SQL"
            ) from None
        except ValueError as error:
            raise ValueError(f"kernels: {channel.name!r}: {error}") from None
        if not terms:
            return ""
        condition = _condition(tree, self.cells)
        if condition:
            return f"CASE WHEN {condition} THEN {_sum(terms)} ELSE 0e0 END"
        return f"COALESCE({_sum(terms)}, 0e0)" if any(self.cells[c].gaps for c in channel.columns) else _sum(terms)


def _unused(names: Sequence[str]) -> str:
    """The beginning of a name that no column has, whatever the case of its letters."""
    prefix = "tamis_"
    while any(name.lower().startswith(prefix) for name in names):
        prefix += "_"
    return prefix
