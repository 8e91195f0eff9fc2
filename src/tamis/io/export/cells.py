"""From the cells that a graph is given to the features of a row that kernels are functions of.

A `Feature` is one number of a row that depends on the row alone:

far      an encoded number less an offset, or `far_value` where the cell is missing: so far off that every kernel of the
         distance is zero
zero     an encoded number less an offset, or zero where the cell is missing
square   the square of that
gap      one where the cell is missing
is       one where a column has a given code
lacks    one where any, or all, of some columns are missing
has      one less that

What a column is encoded to is what `tamis.table.encoding` says. In float64 it is computed by the same steps; in float32
the centre, which may be large compared with the spread, is subtracted in two parts before anything is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tamis.io.export.graph import Graph
from tamis.table.encoding import UNSEEN, Encoder

MATRIX = "X"  # the name of the input of all columns
PARTS = ("by_kernel", "by_instance", "by_feature", "by_pair", "by_case")
OUTPUTS = ("label", "score", "probabilities", "prediction", *PARTS)  # names that are taken
MODERATE = 1e30  # sizes of numbers up to which float32 serves


class Feature(NamedTuple):
    """One number of a row: its kind, the columns it looks at, and an offset, a code, or whether any gap is enough."""

    kind: str
    columns: tuple[int, ...]
    of: float = 0.0


def far_value(inside: np.dtype) -> float:
    """A number whose square, divided by that of any width, is far beyond where exponentials vanish."""
    return 1e18 if inside == np.float32 else 1e150


def is_text(column: Any) -> bool:
    """Whether the cells of a column are given as text."""
    return column.kind == "category" and any(isinstance(level, str) for level in column.levels)


def fits_float32(encoder: Encoder) -> bool:
    """Whether float32 can encode the columns: numbers of moderate size that are not ranked."""
    for column in encoder.columns:
        if column.kind == "number":
            sizes = np.abs([column.low, column.high, column.centre])
            if column.knots is not None or not 1 / MODERATE < column.scale < MODERATE or sizes.max() > MODERATE:
                return False
    return True


def check_levels(encoder: Encoder, outside: np.dtype) -> None:
    """Refuse categories that cannot be given to a graph."""
    for name, column in zip(encoder.names, encoder.columns, strict=True):
        if column.kind != "category":
            continue
        numbers = [level for level in column.levels if not isinstance(level, str)]
        if numbers and len(numbers) < len(column.levels):
            raise ValueError(
                f"column {name!r} has text and numbers as categories, and a tensor holds one of them: fit again with "
                "all categories as text"
            )
        with np.errstate(over="ignore"):
            blurred = [level for level in numbers if float(outside.type(level)) != float(level)]
        if blurred:
            raise ValueError(
                f"column {name!r} has the category {blurred[0]!r}, which {outside} cannot hold: use dtype='float64'"
            )


class Cells:
    """The inputs of a graph, and the features of its rows.

    Attributes
    ----------
    like : an input, which has as many rows as there are
    inputs : {name of an input: name of the column}, None where all columns are one input
    gappy : (c,) which columns can be missing, and are not filled then
    """

    def __init__(
        self, graph: Graph, encoder: Encoder, columns: np.ndarray, width: int, *, matrix: bool, allow_missing: bool
    ):
        """Declare the inputs: one of `width` columns, which has the encoded ones at `columns`, or one for each."""
        self.graph, self.encoder = graph, encoder
        self.columns: tuple[Any, ...] = encoder.columns
        self.matrix, self.allow_missing = matrix, allow_missing
        fills = np.array([column.fill for column in encoder.columns], dtype=float)
        self.gappy = np.isnan(fills) & allow_missing
        if matrix:
            self.like, self.inputs = graph.input(MATRIX, width), None
            self._raw = {c: graph.columns(self.like, [place], width) for c, place in enumerate(columns.tolist())}
            self._places = columns.tolist()
        else:
            named = _distinct(encoder.names)
            texts = map(is_text, encoder.columns)
            self._raw = {c: graph.input(n, 1, text=t) for c, (n, t) in enumerate(zip(named, texts, strict=True))}
            self.like, self.inputs = named[0], dict(zip(named, encoder.names, strict=True))
        self._width = width

    # ------------------------------------------------------------------ features

    def table(self, features: Sequence[Feature]) -> tuple[str, list[Feature]]:
        """Features (rows, f) side by side, and the order in which they are."""
        tables, order = [], []
        for kind in dict.fromkeys(feature.kind for feature in features):
            some = sorted((f for f in features if f.kind == kind), key=lambda f: f.columns)  # columns together
            tables.append(getattr(self, f"_{kind}")(some))
            order += some
        return self.graph.concat(tables), order

    def _far(self, some: Sequence[Feature]) -> str:
        return self._moved(some, far_value(self.graph.inside))

    def _zero(self, some: Sequence[Feature]) -> str:
        return self._moved(some, 0.0)

    def _moved(self, some: Sequence[Feature], missing: float) -> str:
        """Encoded numbers less offsets, with a number for missing cells."""
        if len({f.columns for f in some}) < len(some):  # one column with several offsets
            return self.graph.concat([self._moved([f], missing) for f in some])
        offsets = np.array([f.of for f in some])
        values = self._numbers([f.columns[0] for f in some], missing + offsets)
        return self.graph.op("Sub", values, self.graph.number(offsets)) if offsets.any() else values

    def _square(self, some: Sequence[Feature]) -> str:
        values = self._zero(some)
        return self.graph.op("Mul", values, values)

    def _gap(self, some: Sequence[Feature]) -> str:
        return self.graph.as_numbers(self.graph.concat([self._gaps(f.columns[0]) for f in some]))

    def _is(self, some: Sequence[Feature]) -> str:
        tables = []
        for column in dict.fromkeys(f.columns[0] for f in some):
            codes = [f.of for f in some if f.columns[0] == column]
            tables.append(self._codes(column, codes))
        return self.graph.concat(tables)

    def _lacks(self, some: Sequence[Feature]) -> str:
        """Any gap of the columns if `of` is true, else all."""
        tables = []
        for feature in some:
            gaps = self._gap([Feature("gap", (c,)) for c in feature.columns])
            kind = "Max" if feature.of else "Min"
            tables.append(self.graph.extreme(kind, gaps) if len(feature.columns) > 1 else gaps)
        return self.graph.concat(tables)

    def _has(self, some: Sequence[Feature]) -> str:
        return self.graph.op("Sub", self.graph.number([1.0]), self._lacks(some))

    def refused(self) -> str | None:
        """Flags (rows, 1) of the rows with kept cells that the estimator would refuse; None if it keeps no column."""
        graph, flags = self.graph, []
        texts = [c for c, column in enumerate(self.columns) if is_text(column)]
        numbers = [c for c in range(len(self.columns)) if c not in texts]
        if numbers:
            flags.append(graph.op("IsInf", self._block(numbers)))
        if numbers and not self.allow_missing:
            flags.append(graph.op("IsNaN", self._block(numbers)))
        if not self.allow_missing:
            flags += [self._gaps(c) for c in texts]
        if not flags:
            return None
        worst = graph.extreme("Max", graph.as_numbers(graph.concat(flags)))
        return graph.op("Greater", worst, graph.number([0.0]))

    # ------------------------------------------------------------------ columns

    def numbers(self, columns: Sequence[int]) -> str:
        """The cells (rows, len(columns)) of columns of numbers as they are given, NaN where they are missing."""
        return self._block(columns)

    def level_cell(self, c: int) -> str:
        """The position (rows, 1) of a category in its levels; after these come missing and other values."""
        graph, column = self.graph, self.columns[c]
        m = len(column.levels)
        cells = np.append(np.arange(m), m if np.isnan(column.fill) else column.fill)
        hits = graph.as_numbers(self._gaps(c))
        if m:
            hits = graph.concat([self._known_levels(c), hits])
        lower = graph.op("MatMul", hits, graph.number((m + 1 - cells)[:, None]))
        return graph.op("Sub", graph.number([m + 1]), lower)

    def _known_levels(self, c: int) -> str:
        """Which level a category has, (rows, levels) of zeros and ones."""
        graph, column = self.graph, self.columns[c]
        text = is_text(column)
        levels = graph.constant(np.array(column.levels, dtype=object)) if text else graph.number(column.levels)
        return graph.as_numbers(graph.op("Equal", self._cells(c), levels))

    def _cells(self, c: int) -> str:
        """The cells (rows, 1) of a column as they come, numbers in the type to compute with."""
        graph = self.graph
        if is_text(self.columns[c]) or graph.inside == graph.outside:
            return self._raw[c]
        return graph.cast(self._raw[c], graph.inside)

    def _block(self, columns: Sequence[int]) -> str:
        """The cells (rows, len(columns)) of columns of numbers."""
        graph = self.graph
        if not self.matrix:
            return graph.concat([self._cells(c) for c in columns])
        raw = graph.columns(self.like, [self._places[c] for c in columns], self._width)
        return raw if graph.inside == graph.outside else graph.cast(raw, graph.inside)

    def _gaps(self, c: int) -> str:
        """Flags (rows, 1) of the cells that are missing; as text, those that are empty."""
        graph, column = self.graph, self.columns[c]
        if not is_text(column):
            return graph.op("IsNaN", self._cells(c))
        if "" in column.levels:
            return graph.op("Not", graph.op("Equal", self._raw[c], self._raw[c]))  # no cell is missing
        return graph.op("Equal", self._raw[c], graph.constant(np.array([""], dtype=object)))

    def _codes(self, c: int, codes: Sequence[float]) -> str:
        """Which code a column has, (rows, len(codes)) of zeros and ones."""
        graph, column = self.graph, self.columns[c]
        if column.kind == "number":
            return graph.as_numbers(graph.op("Equal", self._far([Feature("far", (c,))]), graph.number(codes)))
        if UNSEEN in codes or not len(column.levels):
            return graph.columns(self._all_codes(c), [int(code) + 1 for code in codes], len(column.levels) + 1)
        return self._known_codes(c, [int(code) for code in codes])

    def _known_codes(self, c: int, codes: Sequence[int]) -> str:
        """The same for codes of levels."""
        graph, column = self.graph, self.columns[c]
        levels = [column.levels[code] for code in codes]
        held = graph.constant(np.array(levels, dtype=object)) if is_text(column) else graph.number(levels)
        found = graph.as_numbers(graph.op("Equal", self._cells(c), held))
        if np.isnan(column.fill) or int(column.fill) not in codes:
            return found
        return graph.op("Where", self._gaps(c), graph.number(np.array(codes) == column.fill), found)

    def _all_codes(self, c: int) -> str:
        """(rows, 1 + levels): whether the category is none that training saw, then which it is."""
        graph, column = self.graph, self.columns[c]
        gap = graph.as_numbers(self._gaps(c))
        one = graph.number([1.0])
        if not column.levels:
            return graph.op("Sub", one, gap)
        known = self._known_codes(c, range(len(column.levels)))
        seen = graph.op("Max", gap, graph.extreme("Max", known))
        return graph.concat([graph.op("Sub", one, seen), known])

    def _numbers(self, columns: Sequence[int], missing: np.ndarray) -> str:
        """Encoded columns (rows, len(columns)), distinct, with a number for missing cells that are not filled."""
        graph = self.graph
        of = {c: self._kind(c) for c in columns}
        order = [c for kind in ("plain", "ranked", "codes") for c in columns if of[c] == kind]
        instead = dict(zip(columns, missing.tolist(), strict=True))
        tables = []
        for kind, encode in (("plain", self._plain), ("ranked", self._ranked), ("codes", self._as_codes)):
            some = [c for c in order if of[c] == kind]
            if some:
                tables.append(self._filled(some, encode(some), [instead[c] for c in some]))
        return graph.columns(graph.concat(tables), [order.index(c) for c in columns], len(order))

    def _kind(self, c: int) -> str:
        column = self.columns[c]
        if column.kind == "category":
            return "codes"
        return "plain" if column.knots is None else "ranked"

    def _filled(self, columns: Sequence[int], z: str, missing: Sequence[float]) -> str:
        """Encoded numbers with the fills of their columns, or `missing`, where cells are missing."""
        graph = self.graph
        if not self.allow_missing:  # such rows are refused
            return z
        fills = np.array([self.columns[c].fill for c in columns])
        numbers = not any(is_text(self.columns[c]) for c in columns)
        gaps = graph.op("IsNaN", self._block(columns)) if numbers else graph.concat([self._gaps(c) for c in columns])
        return graph.op("Where", gaps, graph.number(np.where(np.isnan(fills), missing, fills)), z)

    def _plain(self, columns: Sequence[int]) -> str:
        """Clipped and standardised, missing cells apart."""
        graph, x = self.graph, self._block(columns)
        parts = [self.columns[c] for c in columns]
        low, high, centre, scale = np.array([(p.low, p.high, p.centre, p.scale) for p in parts]).T
        if graph.inside == np.float64:
            x = graph.op("Min", graph.op("Max", x, graph.number(low)), graph.number(high))
            return graph.op("Div", graph.op("Sub", x, graph.number(centre)), graph.number(scale))
        near = centre.astype(np.float32)
        x = graph.op("Sub", graph.op("Sub", x, graph.number(near)), graph.number(centre - near))
        z = graph.op("Mul", x, graph.number(1.0 / scale))
        z = graph.op("Max", z, graph.number((low - centre) / scale))
        return graph.op("Min", z, graph.number((high - centre) / scale))

    def _ranked(self, columns: Sequence[int]) -> str:
        """Clipped, ranked by a line between the knots around a number, and standardised; knots by bisection."""
        graph = self.graph
        parts = [self.columns[c] for c in columns]
        low, high, centre, scale = np.array([(p.low, p.high, p.centre, p.scale) for p in parts]).T
        steps = max(len(p.knots) - 1 for p in parts).bit_length()
        knots, ranks, gaps, rises = (np.full((len(parts), 1 << steps), fill) for fill in (np.inf, 0.0, 1.0, 0.0))
        for k, part in enumerate(parts):
            m = len(part.knots)
            knots[k, :m], ranks[k, :m] = part.knots, part.ranks
            gaps[k, : m - 1], rises[k, : m - 1] = np.diff(part.knots), np.diff(part.ranks)
        x = graph.op("Where", graph.op("IsNaN", self._block(columns)), graph.number(low), self._block(columns))
        x = graph.op("Min", graph.op("Max", x, graph.number(low)), graph.number(high))
        tables = [graph.number(table.ravel()) for table in (knots, ranks, gaps, rises)]
        place = graph.constant(np.arange(len(parts), dtype=np.int64)[None] << steps)
        for step in reversed(range(steps)):
            further = graph.op("Add", place, graph.constant(np.array([1 << step], dtype=np.int64)))
            reached = graph.op("LessOrEqual", graph.op("Gather", tables[0], further), x)
            place = graph.op("Where", reached, further, place)
        knot, rank, gap, rise = (graph.op("Gather", table, place) for table in tables)
        share = graph.op("Div", graph.op("Sub", x, knot), gap)  # a slope would overflow between knots that are close
        z = graph.op("Add", graph.op("Mul", rise, share), rank)
        return graph.op("Div", graph.op("Sub", z, graph.number(centre)), graph.number(scale))

    def _as_codes(self, columns: Sequence[int]) -> str:
        """Categories as the numbers of their codes."""
        graph, tables = self.graph, []
        for c in columns:
            codes = np.arange(-1.0, len(self.columns[c].levels))[:, None]
            tables.append(graph.op("MatMul", self._all_codes(c), graph.number(codes)))
        return graph.concat(tables)


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of inputs: those of the columns, changed where an output has the name, or where it is empty."""
    taken, out = {*OUTPUTS, *names, ""}, []
    for name in names:
        new = name
        if name in OUTPUTS or not name:
            while new in taken:
                new += "_in"
        taken.add(new)
        out.append(new)
    return out
