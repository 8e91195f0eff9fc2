"""Models as SQL: the decision as one expression over named columns.

Tables (`sql_tables.py`) become a CASE for each curve and surface. For a sum over kernels columns are encoded once, in a
subquery without tables; around it stands the sum over channels and cases

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
from tamis.base.estimator import ReadableEstimator
from tamis.base.kernel_model import KernelExpansion
from tamis.flagship.tables import model_tables
from tamis.io.export.sql_tables import TableWriter
from tamis.io.export.sql_text import (
    LARGEST,
    UNDERFLOW,
    bounded_exp,
    check_apart,
    has_text,
    to_clipped,
    to_level,
    to_literal,
    to_name,
    to_number,
    to_sum,
    unused_prefix,
)
from tamis.io.models import estimator_in
from tamis.kernels.bank import Channel
from tamis.kernels.portable import Expression, NotPortable, evaluate, needed
from tamis.results.additive import expansion_of
from tamis.results.data import Results
from tamis.table.encoding import UNSEEN, Nominal, Number

SCORE, PROBABILITY, PREDICTION = "score", "probability", "prediction"


def to_sql(
    model: ReadableEstimator | Results,
    table: str | tuple[str, ...] | None = None,
    *,
    output: Any = None,
    columns: Sequence[str] = (),
) -> str:
    """Write the decision of a fitted estimator as SQL that needs nothing but arithmetic, CASE, exp and the like.

    Parameters
    ----------
    model : TamisClassifier, TamisRegressor, or another estimator whose decision is a sum over kept cases and kernels
        with fixed coefficients, or results with one in them
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
    Categories are compared as text, in the collation of their column, or as numbers where they were numbers. Curves,
    surfaces and cases agree with Python to 1e-12, other models to 1e-9; SQLite reads about one constant in ten thousand
    with an error in its last bit, and may then put a number that equals a threshold on the other side of it.
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
    writer = _writer(estimator, place, kept)
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


def _writer(
    estimator: ReadableEstimator, table: tuple[str, ...], columns: tuple[str, ...]
) -> TableWriter | KernelWriter:
    """What writes the expressions of the model."""
    if estimator.model_.is_additive:
        strict = not estimator.reader_.allow_missing
        return TableWriter.of(model_tables(estimator), table, columns, strict=strict)
    return KernelWriter.of(estimator, table, columns)


def _names(parameter: str, given: Any) -> tuple[str, ...]:
    """Names of columns, or of a table in its schema."""
    if isinstance(given, list | tuple) and all(isinstance(name, str) and name for name in given):
        return tuple(given)
    raise ValueError(f"{parameter}={given!r}: give names, as {parameter}=['a', 'b']")


# ---------------------------------------------------------------------- statements


def _statement(
    writer: TableWriter | KernelWriter,
    model: ReadableEstimator,
    table: tuple[str, ...],
    classes: list[Any],
    columns: tuple[str, ...],
) -> str:
    """Return the SELECT statement of scores, probabilities and predictions."""
    several = len(classes) > 2
    scores = [f"{SCORE} of {label}" for label in classes] if several else [SCORE if classes else PREDICTION]
    predictions = {} if not classes else _predictions(scores, classes, getattr(model, "calibrator_", None))
    check_apart((*columns, *scores, *predictions), "of the result have names")
    own = [to_name(column) for column in columns]
    read = [*(f"{writer.rows}.{name} AS {name}" for name in own), *writer.steps[0]]
    scored = [*own, *(f"{writer.score(k)} AS {to_name(score)}" for k, score in enumerate(scores))]
    selected = [*own, *map(to_name, scores), *(f"{text} AS {to_name(name)}" for name, text in predictions.items())]
    steps = [(read or ["1 AS one"], f"{'.'.join(map(to_name, table))} AS {writer.rows}")]
    for step in [*(["*", *step] for step in writer.steps[1:]), scored]:
        steps.append((step, f"{writer.prefix}step_{len(steps)}"))
    made = [  # else SQLite would write out every score wherever it is used, and every cell in every score
        f"{writer.prefix}step_{k} AS MATERIALIZED (SELECT {', '.join(step)} FROM {source})"
        for k, (step, source) in enumerate(steps, 1)
    ]
    together = ",\n".join(made)
    return f"WITH {together}\nSELECT {', '.join(selected)}\nFROM {writer.prefix}step_{len(steps)}"


def _predictions(scores: list[str], classes: list[Any], calibrator: Calibrator | None) -> dict[str, str]:
    """Probabilities and the predicted class, from scores that have names."""
    names, labels = [to_name(score) for score in scores], [to_literal(label) for label in classes]
    predictions = {}
    if len(names) == 1:
        if calibrator is not None:
            up = f"({to_number(calibrator.slope)} * {names[0]} + {to_number(calibrator.offset)})"
            predictions[PROBABILITY] = f"1e0 / (1e0 + {bounded_exp(f'-{up}')})"
        predictions[PREDICTION] = f"CASE WHEN {names[0]} >= 0 THEN {labels[1]} WHEN {names[0]} < 0 THEN {labels[0]} END"
        return predictions
    for name, label in zip(names, classes, strict=True):
        if calibrator is not None:
            ratios = [bounded_exp(f"{to_number(calibrator.slope)} * ({other} - {name})") for other in names]
            predictions[f"{PROBABILITY} of {label}"] = f"1e0 / {to_sum(ratios)}"
    largest = (" AND ".join(f"{name} >= {other}" for other in names if other != name) for name in names)
    cases = (f"WHEN {test} THEN {label}" for test, label in zip(largest, labels, strict=True))
    predictions[PREDICTION] = f"CASE {' '.join(cases)} END"
    return predictions


# ---------------------------------------------------------------------- encoded columns


@dataclass(frozen=True)
class Cell:
    """An encoded column in SQL."""

    name: str  # of the encoded column
    # low, high: its range
    low: float
    high: float
    gaps: bool  # whether it may be NULL


def _encoded(column: Any, source: str, name: str, cell: str) -> tuple[Cell, str]:
    """A cell, and the expression that encodes the column `source` of the table to it."""
    if column.kind == "number":
        ends = column.encode(np.array([column.low, column.high]))
        x = _ranked(column, to_clipped(source, column.low, column.high))
        text = f"({x} - {to_number(column.centre)}) / {to_number(column.scale)}"
        ends = np.append(ends, column.fill)
        low, high = float(np.nanmin(ends)), float(np.nanmax(ends))
    elif column.kind == "category":
        text, low, high = _coded(column, source, name), UNSEEN, float(len(column.levels))
    else:
        raise ValueError(f"column {name!r} holds positions in precomputed kernels, which SQL does not have")
    gaps = math.isnan(column.fill)
    return Cell(cell, low, high, gaps), text if gaps else f"COALESCE({text}, {to_number(column.fill)})"


def _ranked(column: Number, x: str) -> str:
    """Linear interpolation between knots, where a column is ranked."""
    if column.knots is None or column.ranks is None:
        return x
    points = list(zip(column.knots.tolist(), column.ranks.tolist(), strict=True))
    cases = [f"WHEN {x} <= {to_number(points[0][0])} THEN {to_number(points[0][1])}"]
    for (left, low), (right, high) in pairwise(points):
        if right > left:
            share = f"(({x} - {to_number(left)}) / {to_number(right - left)})"  # a slope could overflow
            cases.append(f"WHEN {x} <= {to_number(right)} THEN {to_number(high - low)} * {share} + {to_number(low)}")
    return f"CASE {' '.join(cases)} END"


def _coded(column: Nominal, source: str, name: str) -> str:
    """The code of a category; NULL if it is missing."""
    text = has_text(column.levels, name)
    x = f"CAST({source} AS {'VARCHAR' if text else 'DOUBLE PRECISION'})"
    missing = f"{x} IS NULL" if text else f"COALESCE(NOT {x} <= {LARGEST}, TRUE)"
    known = " ".join(f"WHEN {x} = {to_level(level)} THEN {to_number(k)}" for k, level in enumerate(column.levels))
    return f"CASE WHEN {missing} THEN NULL {known} ELSE {to_number(UNSEEN)} END"


# ---------------------------------------------------------------------- kernels


def _part(cell: Cell, t: float, cost: float, alone: bool) -> tuple[str, float]:
    """What a column adds to the squared distance from the value t of a case, and at most; `alone` it may be NULL."""
    gap = math.isnan(t)
    if cost > 0:
        same = f"{cell.name} IS NULL" if gap else f"{cell.name} = {to_number(t)}"
        other = f"WHEN {cell.name} IS NOT NULL THEN" if alone else "ELSE"
        return f"CASE WHEN {same} THEN 0e0 {other} {to_number(cost)} END", cost
    most = max((end - (0.0 if gap else t)) ** 2 for end in (cell.low, cell.high)) + 1.0
    if gap:
        return f"COALESCE({cell.name} * {cell.name} + 1e0, 0e0)", most
    square = f"({cell.name} - {to_number(t)}) * ({cell.name} - {to_number(t)})"
    return (square if alone or not cell.gaps else f"COALESCE({square}, {to_number(t * t + 1.0)})"), max(
        most, t * t + 1.0
    )


@dataclass(frozen=True)
class _Values:
    """Writes the trees of kernels (`tamis.kernels.portable`) for the row and one case that has the kernel."""

    cells: Sequence[Cell]  # the encoded columns
    case: np.ndarray  # their values in the case

    def write(self, node: Expression) -> str:
        """A value; NULL where the only cell of a leaf is missing."""
        match node.kind:
            case "constant":
                return to_number(node.numbers[0])
            case "product":
                return self._linear(node, [to_number(t) for t in np.nan_to_num(self.case[list(node.columns)])])
            case "own product":
                return self._linear(node, self._filled(node))
            case "agreement":
                return self._share(node, [f"{self.cells[c].name} = {to_number(t)}" for c, t in self._known(node)])
            case "own agreement":
                return self._share(node, [f"{self.cells[c].name} IS NOT NULL" for c in node.columns])
            case "case":
                return to_number(float(evaluate(node, self.case[None])[0]))
            case "decay":
                return self._decay(node)
            case "ramp":
                text, _, rate = self._scaled(node.parts[0])
                return f"CASE WHEN {text} >= {to_number(1.0 / rate)} THEN 0e0 ELSE 1e0 - {text} * {to_number(rate)} END"
            case "distance" | "root":
                text, _, rate = self._scaled(node)
                return f"{to_number(rate)} * {text}"
        parts = [self.write(part) for part in node.parts]
        match node.kind:
            case "complete":
                return parts[0]
            case "times":
                return " * ".join(f"({part})" for part in parts)
            case "sum":
                return to_sum(parts)
            case "tanh":
                return f"tanh({parts[0]})"
            case "power":
                return f"power({parts[0]}, {to_number(node.numbers[0])})"
            case "inverse_root":
                return f"CASE WHEN {parts[0]} > 0e0 THEN 1e0 / sqrt({parts[0]}) ELSE 0e0 END"
        raise ValueError(f"a node of the kind {node.kind!r} has no form in SQL")

    def _decay(self, node: Expression) -> str:
        text, most, rate = self._scaled(node.parts[0])
        rate *= node.numbers[0]
        plain = f"exp({to_number(-rate)} * {text})"
        if rate * most <= UNDERFLOW:
            return plain
        return f"CASE WHEN {text} > {to_number(UNDERFLOW / rate)} THEN 0e0 ELSE {plain} END"

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
            return to_sum([text for text, _ in parts]), sum(most for _, most in parts), rates[0]
        texts = [f"{to_number(rate)} * {text}" for rate, (text, _) in zip(rates, parts, strict=True)]
        return to_sum(texts), sum(rate * most for rate, (_, most) in zip(rates, parts, strict=True)), 1.0

    def _linear(self, node: Expression, factors: Sequence[str]) -> str:
        """``scale sum(cell * factor) + offset``; NULL where the only cell is missing."""
        scale, offset = node.numbers
        text = to_sum([f"{cell} * {factor}" for cell, factor in zip(self._filled(node), factors, strict=True)])
        text = text if scale == 1.0 else f"{to_number(scale)} * {text}"
        return f"({text} + {to_number(offset)})" if offset else text

    def _filled(self, node: Expression) -> list[str]:
        """The cells of a leaf, zero where they are missing, unless there is only one."""
        cells = [self.cells[c] for c in node.columns]
        return [c.name if len(cells) == 1 or not c.gaps else f"COALESCE({c.name}, 0e0)" for c in cells]

    def _known(self, node: Expression) -> list[tuple[int, float]]:
        return [(c, float(self.case[c])) for c in node.columns if not math.isnan(self.case[c])]

    def _share(self, node: Expression, tests: Sequence[str]) -> str:
        """The share of the columns of a leaf for which a test is true."""
        return (
            f"{to_sum([f'CASE WHEN {t} THEN 1e0 ELSE 0e0 END' for t in tests])} * {to_number(1.0 / len(node.columns))}"
        )


def _condition(tree: Expression, cells: Sequence[Cell]) -> str:
    """When a row has a kernel, where NULL does not say so by itself."""
    columns, every = needed(tree)
    gaps = [f"{cells[c].name} IS NOT NULL" for c in columns if cells[c].gaps]
    if every:
        return " AND ".join(gaps) if any(node.kind == "complete" for node in tree.nodes()) else ""
    return " OR ".join(gaps) if len(gaps) == len(columns) else ""


# ---------------------------------------------------------------------- models


@dataclass(frozen=True)
class KernelWriter:
    """Writes the expressions of a model."""

    expansion: KernelExpansion  # what is written
    cells: list[Cell]  # the encoded columns
    encodings: list[str]  # the expressions that encode them, with their names
    prefix: str  # with which no name of a column or table begins
    strict: bool  # whether a row that lacks a cell has no score

    @property
    def rows(self) -> str:
        """Alias of the table."""
        return f"{self.prefix}rows"

    @property
    def steps(self) -> list[list[str]]:
        """The encoded columns, which need one step."""
        return [self.encodings]

    @classmethod
    def of(cls, model: ReadableEstimator, table: tuple[str, ...], columns: tuple[str, ...]) -> KernelWriter:
        expansion, encoder = expansion_of(model), model.model_.encoder
        if type(expansion) is not KernelExpansion:
            raise ValueError(
                f"the decision of {type(model).__name__} is no sum of kernels with fixed coefficients (it is a "
                f"{type(expansion).__name__}), and has no form in SQL"
            )
        check_apart(encoder.names, "that the model needs have names")
        prefix = unused_prefix([*encoder.names, *columns, *table])
        source = f"{prefix}rows." if table else ""
        made = [
            _encoded(column, f"{source}{to_name(name)}", name, f"{prefix}{k}")
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
        sums = [self._channel(channel, coef[:, k]) for k, channel in enumerate(self.expansion.bank.channels)]
        whole = to_sum([to_number(base), *(text for text in sums if text)])
        lacking = " OR ".join(f"{cell.name} IS NULL" for cell in self.cells if cell.gaps)
        return f"CASE WHEN {lacking} THEN NULL ELSE {whole} END" if self.strict and lacking else whole

    def _channel(self, channel: Channel, coef: np.ndarray) -> str:
        """What one kernel adds; nothing if no case has it."""
        cases = self.expansion.instances
        try:
            tree = channel.kernel.portable(channel.columns)
            used = np.flatnonzero((coef != 0) & channel.presence(cases))
            terms = [f"{to_number(coef[j])} * {_Values(self.cells, cases[j]).write(tree)}" for j in used]
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
            return f"CASE WHEN {condition} THEN {to_sum(terms)} ELSE 0e0 END"
        return f"COALESCE({to_sum(terms)}, 0e0)" if any(self.cells[c].gaps for c in channel.columns) else to_sum(terms)
