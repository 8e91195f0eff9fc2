"""Nodes of an additive model: cells of all columns, contributions from tables, their sum.

Every table of the model (`tamis.flagship.tables`) is laid out in one array for all features, pairs or cases, so that
the graph has the same few nodes whatever the size of the model. Arithmetic has the order and the operations of Python,
so that scores agree to the last digits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.io.export.cells import Cells

FEATURES, PAIRS, CASES = "by_feature", "by_pair", "by_case"
ADDITIVE_PARTS = (FEATURES, PAIRS, CASES)


def additive_parts(cells: Cells, tables: Mapping[str, Any], wanted: Collection[str]) -> tuple[str, dict[str, str]]:
    """Nodes of the scores (rows, q), and of the `wanted` contributions of features, pairs and cases (rows, q, .)."""
    graph, q = cells.graph, len(tables["intercept"])
    make = {FEATURES: _curves, PAIRS: _surfaces, CASES: _pulls}
    found: dict[str, str] = {}
    if tables["features"]:
        places = _Places.of(cells, tables["features"])
        counts = {FEATURES: "features", PAIRS: "pairs", CASES: "cases"}
        found = {name: make[name](cells, tables, places) for name in ADDITIVE_PARTS if tables[counts[name]]}
    start = graph.tiled(cells.like, np.array(tables["intercept"])[:, None])
    total = graph.op("CumSum", graph.concat([start, *found.values()], axis=2), graph.constant(np.array(2)))
    whole = graph.op("Gather", total, graph.constant(np.array(-1)), axis=2)
    none = {name: graph.tiled(cells.like, np.zeros((q, 0))) for name in wanted if name not in found}
    return whole, {name: (found | none)[name] for name in wanted}


@dataclass(frozen=True)
class _Places:
    """Nodes of the cells (rows, d), and of the shares of the way through them (rows, d)."""

    cell: str
    share: str

    @classmethod
    def of(cls, cells: Cells, features: Sequence[Mapping[str, Any]]) -> _Places:
        graph = cells.graph
        numbers = [j for j, feature in enumerate(features) if feature["kind"] == "number"]
        others = [j for j, feature in enumerate(features) if feature["kind"] != "number"]
        found, shares = [], []
        if numbers:
            cell, share = _intervals(cells, numbers, [features[j] for j in numbers])
            found.append(cell)
            shares.append(share)
        if others:
            levels = [cells.level_cell(c) for c in others]
            found.append(graph.cast(graph.concat(levels), np.int64))
            shares.append(graph.tiled(cells.like, np.zeros(len(others))))
        order = [(numbers + others).index(j) for j in range(len(features))]
        return cls(*(graph.columns(graph.concat(part), order, len(order)) for part in (found, shares)))


def _intervals(cells: Cells, columns: Sequence[int], features: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Cells and shares (rows, len(columns)) of numbers; cells are found by bisection."""
    graph, raw = cells.graph, cells.numbers(columns)
    low, high = (np.array([feature[end] for feature in features]) for end in ("low", "high"))
    fill = np.array([feature["low"] if feature["fill"] is None else feature["fill"] for feature in features])
    gap = graph.op("IsNaN", raw)
    x = graph.op("Where", gap, graph.number(fill), raw)
    x = graph.op("Min", graph.op("Max", x, graph.number(low)), graph.number(high))
    sizes = [len(feature["edges"]) - 1 for feature in features]
    steps = (max(sizes) - 1).bit_length()
    inner = np.full((len(features), 1 << steps), np.inf)
    for own, feature in zip(inner, features, strict=True):
        own[: len(feature["edges"]) - 1] = [-np.inf, *feature["edges"][1:-1]]
    starts = graph.constant(np.arange(len(features), dtype=np.int64) << steps)
    place, table = graph.constant(np.zeros(len(features), dtype=np.int64)), graph.number(inner.ravel())
    for step in reversed(range(steps)):
        further = graph.op("Add", place, graph.constant(np.array([1 << step], dtype=np.int64)))
        edge = graph.op("Gather", table, graph.op("Add", further, starts))
        place = graph.op("Where", graph.op("Less", edge, x), further, place)
    if not steps:
        place = graph.op("Mul", graph.cast(gap, np.int64), graph.constant(np.zeros(1, dtype=np.int64)))
    ends = [np.array(feature["edges"]) for feature in features]
    left = _Flat.of([[*edges[:-1], 0.0, 0.0] for edges in ends])
    width = _Flat.of([[*np.where(np.diff(edges) > 0, np.diff(edges), 1.0), 1.0, 1.0] for edges in ends])
    share = graph.op("Div", graph.op("Sub", x, left.taken(cells, place)), width.taken(cells, place))
    own = np.array([feature["fill"] is None for feature in features])
    if cells.allow_missing and own.any():
        lost = graph.op("And", gap, graph.constant(own))
        place = graph.op("Where", lost, graph.constant(np.array(sizes, dtype=np.int64)), place)
    return place, share


@dataclass(frozen=True)
class _Flat:
    """Tables of several columns one below the other, and where each of them begins."""

    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, tables: Sequence[Any]) -> _Flat:
        arrays = [np.asarray(table) for table in tables]
        return cls(np.concatenate(arrays), np.cumsum([0, *map(len, arrays[:-1])]).astype(np.int64))

    def taken(self, cells: Cells, cell: str) -> str:
        """The entries at cells (rows, len(tables))."""
        graph = cells.graph
        held = graph.constant(self.values) if self.values.dtype.kind == "i" else graph.number(self.values)
        return graph.op("Gather", held, graph.op("Add", cell, graph.constant(self.starts)), axis=0)


def _between(cells: Cells, places: _Places, features: Sequence[Mapping[str, Any]], tables: Sequence[Any]) -> str:
    """Values (rows, d, ...) of tables with left and right ends of the cells."""
    graph = cells.graph
    lefts = [np.array(table["left"]) for table in tables]
    rises = [
        _rise(feature, left, np.array(table["right"]))
        for feature, left, table in zip(features, lefts, tables, strict=True)
    ]
    start = _Flat.of(lefts).taken(cells, places.cell)
    if not any(rise.any() for rise in rises):
        return start
    wide = places.share if rises[0].ndim == 1 else graph.op("Unsqueeze", places.share, graph.constant(np.array([2])))
    return graph.op("Add", start, graph.op("Mul", wide, _Flat.of(rises).taken(cells, places.cell)))


def _rise(feature: Mapping[str, Any], left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Differences (cells, ...) of the ends of the cells; zero where the share of the way is."""
    rise = np.zeros_like(left)
    if feature["edges"]:
        wide = np.flatnonzero(np.diff(feature["edges"]) > 0)
        rise[wide] = right[wide] - left[wide]
    return rise


def _curves(cells: Cells, tables: Mapping[str, Any], places: _Places) -> str:
    """Contributions (rows, q, d) of features."""
    values = _between(cells, places, tables["features"], tables["features"])
    return cells.graph.op("Transpose", values, perm=[0, 2, 1])


def _surfaces(cells: Cells, tables: Mapping[str, Any], places: _Places) -> str:
    """Contributions (rows, q, pairs): the coarse cells of a pair add up to an entry of one long table."""
    graph, pairs = cells.graph, tables["pairs"]
    shapes = [np.array(pair["values"]).shape for pair in pairs]
    starts = np.cumsum([0, *(a * b for a, b, _ in shapes[:-1])])
    firsts = [
        np.array(pair["groups"][0], dtype=np.int64) * shape[1] + start
        for pair, shape, start in zip(pairs, shapes, starts, strict=True)
    ]
    seconds = [np.array(pair["groups"][1], dtype=np.int64) for pair in pairs]
    sides = []
    for side, groups in enumerate((firsts, seconds)):
        columns = graph.constant(np.array([pair["features"][side] for pair in pairs], dtype=np.int64))
        sides.append(_Flat.of(groups).taken(cells, graph.op("Gather", places.cell, columns, axis=1)))
    values = np.concatenate([np.array(pair["values"]).reshape(-1, shape[2]) for pair, shape in zip(pairs, shapes)])
    taken = graph.op("Gather", graph.number(values), graph.op("Add", *sides), axis=0)
    return graph.op("Transpose", taken, perm=[0, 2, 1])


def _pulls(cells: Cells, tables: Mapping[str, Any], places: _Places) -> str:
    """Contributions (rows, q, cases)."""
    graph, features, cases = cells.graph, tables["features"], tables["cases"]
    second = graph.constant(np.array([1]))
    cell = graph.op("Unsqueeze", places.cell, second)  # (rows, 1, d), against (cases, d)
    missing = np.array([len(feature["left"]) - 2 for feature in features], dtype=np.int64)
    own = np.array([case["cells"] for case in cases], dtype=np.int64)
    at, numbers = np.array([case["at"] for case in cases]), [feature["kind"] == "number" for feature in features]
    gaps = graph.number([feature["similarity"]["gap"] for feature in features])
    apart = graph.op("Where", graph.op("Equal", cell, graph.constant(own)), graph.number(0.0), gaps)
    known = (own != missing) & numbers
    if known.any():
        similarity = [feature["similarity"] for feature in features]
        coordinate = graph.op("Unsqueeze", _between(cells, places, features, similarity), second)
        difference = graph.op("Sub", coordinate, graph.number(at))
        here = graph.op("Not", graph.op("Equal", cell, graph.constant(missing)))
        both = graph.op("And", here, graph.constant(known))
        apart = graph.op("Where", both, graph.op("Mul", difference, difference), apart)
    total = graph.op("ReduceSum", apart, graph.constant(np.array([2])), keepdims=0)
    similar = graph.op("Unsqueeze", graph.op("Exp", graph.op("Neg", total)), second)
    return graph.op("Mul", similar, graph.number(np.array([case["pull"] for case in cases]).T))
