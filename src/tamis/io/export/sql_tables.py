"""Tables of an additive model as SQL: a CASE for every curve and surface, and an exponential for every case.

The columns are clipped and filled once; a model with cases has a second step for coordinates and a third for
similarities. Terms are added in the order of Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tamis.io.export.sql_text import (
    LARGEST,
    UNDERFLOW,
    check_apart,
    has_text,
    to_clipped,
    to_level,
    to_name,
    to_number,
    to_sum,
    unused_prefix,
)

MAX_CHAIN = 400  # terms that are added one after another: databases limit the depth of an expression


@dataclass(frozen=True)
class TableWriter:
    """Writes the expressions of a model."""

    tables: Mapping[str, Any]  # the description of the model (`tamis.flagship.tables`)
    source: str  # of the columns of the table, with a point at its end; empty for columns without a table
    prefix: str  # with which no name of a column or table begins
    strict: bool  # whether a row that lacks a cell has no score

    @classmethod
    def of(
        cls, tables: Mapping[str, Any], table: tuple[str, ...], columns: tuple[str, ...], *, strict: bool
    ) -> TableWriter:
        names = [feature["name"] for feature in tables["features"]]
        check_apart(names, "that the model needs have names")
        prefix = unused_prefix([*names, *columns, *table])
        return cls(tables, f"{prefix}rows." if table else "", prefix, strict)

    @property
    def rows(self) -> str:
        """Alias of the table."""
        return f"{self.prefix}rows"

    @property
    def steps(self) -> list[list[str]]:
        """Clipped and filled columns, then the coordinates and similarities of a model with cases."""
        features = self.tables["features"]
        steps = [[f"{self._column(feature)} AS {self._x(j)}" for j, feature in enumerate(features)]]
        if self.tables["cases"]:
            at = [f"{self._coordinate(j)} AS {self._at(j)}" for j, f in enumerate(features) if f["kind"] == "number"]
            cases = [f"{self._similarity(case)} AS {self._case(i)}" for i, case in enumerate(self.tables["cases"])]
            steps += [step for step in (at, cases) if step]
        return steps

    def expression(self, output: int) -> str:
        """The decision for one output, from the columns of the table."""
        if not self.tables["features"]:
            return self.score(output)
        first, *others = self.steps
        inner = f"(SELECT {', '.join(first)}) AS {self.prefix}step_1"
        for k, step in enumerate(others, 2):
            inner = f"(SELECT *, {', '.join(step)} FROM {inner}) AS {self.prefix}step_{k}"
        return f"(SELECT {self.score(output)} FROM {inner})"

    def score(self, output: int) -> str:
        """The decision for one output, from computed columns."""
        terms = [to_number(self.tables["intercept"][output])]
        terms += [
            f"{_comment(feature['name'])}{self._curve(j, output)}" for j, feature in enumerate(self.tables["features"])
        ]
        for pair in self.tables["pairs"]:
            name = " and ".join(self.tables["features"][j]["name"] for j in pair["features"])
            terms.append(f"{_comment(name)}{self._surface(pair, output)}")
        terms += [
            f"{_comment('case ' + case['name'])}{to_number(case['pull'][output])} * {self._case(i)}"
            for i, case in enumerate(self.tables["cases"])
        ]
        whole = "\n  + ".join(terms) if len(terms) <= MAX_CHAIN else to_sum(terms)
        lacking = [f"{self._x(j)} IS NULL" for j in range(len(self.tables["features"]))] if self.strict else []
        return f"CASE WHEN {' OR '.join(lacking)} THEN NULL ELSE {whole} END" if lacking else whole

    # ------------------------------------------------------------------ columns

    def _x(self, j: int) -> str:
        return f"{self.prefix}x{j}"

    def _at(self, j: int) -> str:
        return f"{self.prefix}at{j}"

    def _case(self, i: int) -> str:
        return f"{self.prefix}case{i}"

    def _may_lack(self, feature: Mapping[str, Any]) -> bool:
        """Whether the clipped and filled column can be NULL where a score is wanted."""
        return feature["fill"] is None and not self.strict

    def _column(self, feature: Mapping[str, Any]) -> str:
        """A column of the table, clipped and filled."""
        source, fill = f"{self.source}{to_name(feature['name'])}", feature["fill"]
        if feature["kind"] == "number":
            text = to_clipped(source, feature["low"], feature["high"])
            return text if fill is None else f"COALESCE({text}, {to_number(fill)})"
        levels = feature["levels"]
        if has_text(feature["levels"], feature["name"]):
            text = f"CAST({source} AS VARCHAR)"
        else:
            x = f"CAST({source} AS DOUBLE PRECISION)"
            text = f"CASE WHEN {x} <= {LARGEST} THEN {x} END"
        return text if fill is None else f"COALESCE({text}, {to_level(levels[fill])})"

    # ------------------------------------------------------------------ tables

    def _choose(self, j: int, texts: Sequence[str]) -> str:
        """The entry of a list (cells,) of expressions that belongs to the cell of a row in feature j."""
        feature = self.tables["features"][j]
        return (self._choose_interval if feature["kind"] == "number" else self._choose_level)(j, feature, texts)

    def _choose_interval(self, j: int, feature: Mapping[str, Any], texts: Sequence[str]) -> str:
        x, edges, m = self._x(j), feature["edges"], len(texts) - 2
        kept = [i for i in range(m) if i == 0 or edges[i] < edges[i + 1]]
        ends = [k for k, i in enumerate(kept[:-1]) if texts[i] != texts[kept[k + 1]]]
        cases = [f"WHEN {x} <= {to_number(edges[kept[k] + 1])} THEN {texts[kept[k]]}" for k in ends]
        last = texts[kept[-1]]
        if self._may_lack(feature) and (cases or texts[m] != last):
            cases.insert(0, f"WHEN {x} IS NULL THEN {texts[m]}")
        return f"CASE {' '.join(cases)} ELSE {last} END" if cases else last

    def _choose_level(self, j: int, feature: Mapping[str, Any], texts: Sequence[str]) -> str:
        x, other = self._x(j), texts[-1]
        groups: dict[str, list[str]] = {}
        for level, text in zip(feature["levels"], texts, strict=False):
            if text != other:
                groups.setdefault(text, []).append(to_level(level))
        cases = [f"WHEN {x} IN ({', '.join(levels)}) THEN {text}" for text, levels in groups.items()]
        if self._may_lack(feature) and texts[-2] != other:
            cases.insert(0, f"WHEN {x} IS NULL THEN {texts[-2]}")
        return f"CASE {' '.join(cases)} ELSE {other} END" if cases else other

    def _ends(self, j: int, left: Sequence[float], right: Sequence[float]) -> list[str]:
        """Expressions (cells,) of values that are linear between the ends of the cells of feature j."""
        edges = self.tables["features"][j]["edges"] or []
        texts = [to_number(value) for value in left]
        for i, (start, end) in enumerate(pairwise(edges)):
            if right[i] != left[i] and end > start:
                share = f"(({self._x(j)} - {to_number(start)}) / {to_number(end - start)})"
                texts[i] = f"{to_number(left[i])} + {to_number(right[i] - left[i])} * {share}"
        return texts

    def _curve(self, j: int, output: int) -> str:
        feature = self.tables["features"][j]
        left, right = ([values[output] for values in feature[end]] for end in ("left", "right"))
        return _bracketed(self._choose(j, self._ends(j, left, right)))

    def _surface(self, pair: Mapping[str, Any], output: int) -> str:
        """A CASE of the first feature around one of the second."""
        (first, second), (outer, inner) = pair["features"], pair["groups"]
        rows = [
            self._choose(second, [to_number(values[group][output]) for group in inner]) for values in pair["values"]
        ]
        return self._choose(first, [rows[group] for group in outer])

    # ------------------------------------------------------------------ cases

    def _coordinate(self, j: int) -> str:
        """The coordinate of a row in a number; NULL where it is missing."""
        table = self.tables["features"][j]["similarity"]
        texts = self._ends(j, table["left"], table["right"])
        texts[-2] = "NULL"
        return self._choose(j, texts)

    def _similarity(self, case: Mapping[str, Any]) -> str:
        """``exp(-sum_j d_j)``, zero where databases might refuse to compute it."""
        found = [self._distance(j, case) for j in range(len(self.tables["features"]))]
        parts, most = [text for text, _ in found if text != to_number(0.0)], sum(largest for _, largest in found)
        if not parts:
            return to_number(1.0)
        total = f"({' + '.join(parts)})"
        plain = f"exp(-{total})"
        return plain if most <= UNDERFLOW else f"CASE WHEN {total} > {to_number(UNDERFLOW)} THEN 0e0 ELSE {plain} END"

    def _distance(self, j: int, case: Mapping[str, Any]) -> tuple[str, float]:
        """What feature j adds to the distance of a row and a case, and at most."""
        feature, own = self.tables["features"][j], case["cells"][j]
        table, m = feature["similarity"], len(feature["left"]) - 2
        gap = table["gap"]
        if feature["kind"] != "number":
            texts = [to_number(0.0 if cell == own else gap) for cell in range(m + 2)]
            return self._choose(j, texts), gap
        at = self._at(j)
        if own == m:
            return f"CASE WHEN {at} IS NULL THEN 0e0 ELSE {to_number(gap)} END", gap
        difference = f"({at} - {to_number(case['at'][j])})"
        square = f"{difference} * {difference}"
        ends = [*table["left"][:m], *table["right"][:m]]
        most = max([gap, *((end - case["at"][j]) ** 2 for end in ends)])
        return (f"COALESCE({square}, {to_number(gap)})" if self._may_lack(feature) else square), most


def _bracketed(text: str) -> str:
    """A sum in brackets, so that terms are added in the order of Python."""
    return text if text.startswith("CASE") or " + " not in text else f"({text})"


def _comment(words: str) -> str:
    """A name as a comment that ends where it should, also where comments can be nested."""
    shown = " ".join(words.split())
    while "*/" in shown or "/*" in shown:
        shown = shown.replace("*/", "* /").replace("/*", "/ *")
    return f"/* {shown} */ "
