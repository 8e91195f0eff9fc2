"""Kernels between rows and kept cases, first as data, then as nodes that are added up.

With the `Feature`s phi of a row x (`cells.py`), the values of one kernel with w of the kept cases are

    k(x_j, x) = prod_f shape_f(phi(x)'weights_f[:, j] + bias_f[j])

where the shapes are few and all that a case is goes into weights and biases. Squared distances whose rounding errors
would be seen that way are taken from differences instead, ``sum_c (s_cj (phi_c(x) - t_cj))^2``, and added to the
product.

Factors are made from the portable form of a kernel (`tamis.kernels.portable`). A shape is a tree of it with the
argument u in place of its one leaf; for squared distances that is ``u^2`` where u is a difference, else ``max(u, 0)``.

Terms ``sum_j loads_l[j, q] k_l(x_j, x)`` of equal shapes are evaluated side by side, at most `WIDTH` values of a row
together, so that a row of intermediate values stays short whatever the size of the model. Pairs (case, kernel) without
a load are not evaluated, and terms that are linear in the features need no kernel values at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tamis.codec import is_stored
from tamis.io.export.cells import Cells, Feature
from tamis.io.export.graph import Graph
from tamis.kernels.bank import Channel
from tamis.kernels.portable import Expression, NotPortable, evaluate, function, needed

FAR = 10.0  # spreads from zero beyond which distances are taken from the middle of the kept cases
LOST = 1e-12 / float(np.finfo(float).eps)  # size of numbers up to which an error of their last digit is not seen
NOWHERE = 1e8  # a distance at which kernels vanish, also its root
ROUNDING = 2.0**-24  # relative, of float32
WIDTHS = (1e-6, 1e6)  # of kernels that float32 serves
WIDTH = 128  # most values of a row that are evaluated together, unless one kernel has more
FEW = 64  # up to so many cases a dense product shares values out to cases

IDENTITY = Expression("argument")  # u itself
SQUARE, POSITIVE = function("square", IDENTITY), function("positive", IDENTITY)


@dataclass(frozen=True)
class Factor:
    """``shape(phi'weights + bias)`` for w cases: weights {feature: (w,)} and bias (w,).

    `apart` {feature: (w, 2)} are pairs t, s that add ``(s (phi - t))^2`` within the shape.
    """

    shape: Expression
    weights: Mapping[Feature, np.ndarray]
    bias: np.ndarray
    apart: Mapping[Feature, np.ndarray] = field(default_factory=dict)

    def take(self, cases: np.ndarray) -> Factor:
        """The same for some of the cases."""
        weights, apart = ({f: of[cases] for f, of in some.items()} for some in (self.weights, self.apart))
        return Factor(self.shape, weights, self.bias[cases], apart)

    def rounding(self, codes: np.ndarray) -> np.ndarray:
        """A bound (w,) of the error of float32, inf where none is known; `codes` says which columns are categories.

        Of a bump with ``u = s z - s t``, an offset counted to t: the number z is rounded six times on its way, s and
        s z once each, and u once more, so that u errs by ``8 |s z| + |s t| + |u|`` roundings at most, where
        ``|s z| <= |u| + |s t|``. The slope ``2 r |u| exp(-r u^2)`` of the bump is at most ``sqrt(2 r / e)``, and times
        |u| at most ``2 / e``. The exponential adds two roundings; the sum over terms is another matter.
        """
        if self.shape == IDENTITY and all(f.kind != "is" or codes[f.columns[0]] for f in self.weights):
            simple = all(f.kind in ("is", "gap", "lacks", "has") for f in self.weights)  # zeros and ones
            return np.full(len(self.bias), 2.0 * ROUNDING if simple else np.inf)
        rates = np.array(bump_rates(self.shape))
        if not len(rates):
            return np.full(len(self.bias), np.inf)
        size = np.max([np.abs(weight) for weight in self.weights.values()], axis=0)
        moderate = (size > WIDTHS[0]) & (size < WIDTHS[1])
        slopes = np.sqrt(2.0 * rates / math.e).sum()
        around = np.abs(self.bias) + sum(np.abs(weight * f.of) for f, weight in self.weights.items())
        bound = len(rates) * (9.0 * 2.0 / math.e + 4.0) + 9.0 * slopes * around
        return np.where(moderate, ROUNDING * bound, np.inf)


Factors = tuple[Factor, ...]


def bump_rates(shape: Expression) -> tuple[float, ...]:
    """The rates r of a shape that is a sum of ``exp(-r u^2)``; none if it is another one."""
    parts = shape.parts if shape.kind == "sum" else (shape,)
    bump = all(part.kind == "decay" and part.parts == (SQUARE,) for part in parts)
    return tuple(part.numbers[0] for part in parts) if bump else ()


def factors_of(channel: Channel, instances: np.ndarray, gappy: np.ndarray) -> tuple[Factors, np.ndarray]:
    """The kernel of a channel with instances (k, c): factors that depend on the row, and numbers (k,) that do not.

    Numbers are better in the sums that follow than in the graph: onnxruntime may round one that stands alone before a
    matrix product to float32.
    """
    made = _factors(_portable(channel), instances, gappy)
    here = channel.presence(instances).astype(float)
    fixed = [factor for factor in made if _is_fixed(factor)]
    return tuple(factor for factor in made if not _is_fixed(factor)), np.prod([here, *(f.bias for f in fixed)], axis=0)


def _is_fixed(factor: Factor) -> bool:
    return factor.shape == IDENTITY and not factor.weights


def lacking(channel: Channel, gappy: np.ndarray) -> Feature | None:
    """The feature that is one for rows without a channel; None if no row can."""
    return _lacking(*needed(_portable(channel)), gappy)


def _lacking(columns: tuple[int, ...], every: bool, gappy: np.ndarray) -> Feature | None:
    """Which rows lack one of the columns, or, unless `every` is needed, all of them; None if no row can."""
    some = tuple(dict.fromkeys(c for c in columns if gappy[c]))
    if not some or (not every and len(some) < len(set(columns))):
        return None
    return Feature("lacks", some, float(every and len(some) > 1))


def _portable(channel: Channel) -> Expression:
    try:
        return channel.kernel.portable(channel.columns)
    except NotPortable as error:
        way = "tamis.io.save and tamis.io.load" if is_stored(error.kernel) else "pickle or joblib"
        raise ValueError(
            f"the kernel {channel.name!r} is of the type {error.kernel.__name__}, which has no form in the standard "
            f"operators of ONNX: use {way} to take this model elsewhere, or fit with kernels such as Gaussian, "
            "Polynomial and Categorical on columns of a table"
        ) from None


# ---------------------------------------------------------------------- from kernels to factors


def _factors(node: Expression, T: np.ndarray, gappy: np.ndarray) -> Factors:
    """The tree of a kernel with rows T (k, d) that have it."""
    if node.kind == "times":
        return tuple(factor for part in node.parts for factor in _factors(part, T, gappy))
    if node.kind == "complete":  # none of the columns is gappy below, and one factor is zero for rows with gaps
        there = ~np.isnan(T)
        means = np.where(there, T, 0.0).sum(axis=0) / np.maximum(1, there.sum(axis=0))
        made = _factors(node.parts[0], np.where(there, T, means), np.zeros_like(gappy))
        return (*made, *_presence(node.columns, True, len(T), gappy))
    leaves = {leaf for leaf in node.leaves() if leaf.kind != "constant"}
    if node.kind == "case" or not leaves:
        return (Factor(IDENTITY, {}, evaluate(node, T)),)
    if len(leaves) > 1:
        raise ValueError(f"a function of several of {sorted(leaf.kind for leaf in leaves)} has no form in ONNX")
    (leaf,) = leaves
    if leaf.kind == "distance":
        return (_of_distance(node, leaf, T, gappy),)
    weights, bias = _linear_leaf(leaf, T, gappy)
    factor = Factor(node.replaced(leaf, IDENTITY), weights, bias)
    if leaf.kind.startswith("own") or (node == leaf and not bias.any()):  # zero for rows without the columns
        return (factor,)
    return (factor, *_presence(leaf.columns, False, len(T), gappy))


def _linear_leaf(leaf: Expression, T: np.ndarray, gappy: np.ndarray) -> tuple[dict[Feature, np.ndarray], np.ndarray]:
    """Weights and bias of a leaf that is linear in features."""
    weights: dict[Feature, np.ndarray] = {}
    k, share = len(T), 1.0 / len(leaf.columns)
    for c in leaf.columns:
        match leaf.kind:
            case "product":
                _add(weights, Feature("zero", (c,)), leaf.numbers[0] * np.nan_to_num(T[:, c]))
            case "own product":
                _add(weights, Feature("square", (c,)), np.full(k, leaf.numbers[0]))
            case "agreement":
                for code in np.unique(T[~np.isnan(T[:, c]), c]).tolist():
                    _add(weights, Feature("is", (c,), code), share * (T[:, c] == code))
            case "own agreement" if gappy[c]:
                _add(weights, Feature("gap", (c,)), np.full(k, -share))
    constant = leaf.numbers[1] if leaf.numbers else float(leaf.kind == "own agreement")
    return weights, np.full(k, constant)


def _add(weights: dict[Feature, np.ndarray], feature: Feature, weight: np.ndarray) -> None:
    weights[feature] = weights[feature] + weight if feature in weights else weight


def _of_distance(node: Expression, leaf: Expression, T: np.ndarray, gappy: np.ndarray) -> Factor:
    """A function of the squared distances of `tamis.kernels.base`; far where a row has none of the columns."""
    columns, rates, costs = leaf.columns, np.array(leaf.numbers), np.array(leaf.numbers) * leaf.costs
    narrowest = max((inner.numbers[0] for inner in node.nodes() if inner.kind == "decay"), default=1.0)
    off = _widths_off(narrowest * rates * (costs == 0), columns, T)
    if len(columns) == 1 and not costs.any() and off <= LOST:
        there = ~np.isnan(T[:, columns[0]])
        middle, root = _middle(T[there, columns[0]]), float(rates[0]) ** 0.5
        t = np.where(there, T[:, columns[0]] - middle, 0.0)
        far = {Feature("far", (columns[0],), middle): np.full(len(T), root)}
        return Factor(node.replaced(leaf, SQUARE), far, -root * t)
    weights: dict[Feature, np.ndarray] = {}
    apart: dict[Feature, np.ndarray] = {}
    bias = np.zeros(len(T))
    by_difference = off**2 > LOST or any(inner.kind == "root" for inner in node.nodes())
    for c, rate, cost in zip(columns, rates.tolist(), costs.tolist(), strict=True):
        there = ~np.isnan(T[:, c])
        if cost > 0:
            bias += cost
            for code in np.unique(T[there, c]).tolist():
                _add(weights, Feature("is", (c,), code), -cost * (T[:, c] == code))
            if gappy[c]:
                _add(weights, Feature("gap", (c,)), -cost * ~there)
        elif by_difference:
            again = rates[np.equal(columns, c)].sum()  # a group may name a column twice
            root = np.full(len(T), again**0.5)
            apart[Feature("zero", (c,))] = np.column_stack([np.where(there, T[:, c], 0.0), root])
            if gappy[c]:
                apart[Feature("gap", (c,))] = np.column_stack([~there, root])
        else:
            bias += _by_products(weights, rate, c, T[:, c], bool(gappy[c]))
    lacks = _lacking(columns, False, gappy)
    if lacks is not None:
        _add(weights, lacks, np.full(len(T), NOWHERE))
    return Factor(node.replaced(leaf, POSITIVE), weights, bias, apart)


def _by_products(
    weights: dict[Feature, np.ndarray], rate: float, c: int, column: np.ndarray, gappy: bool
) -> np.ndarray:
    """Add weights of ``rate (x - t)^2``, and of one unit between a gap and a number; returns the bias."""
    there = ~np.isnan(column)
    middle = _middle(column[there])
    t = np.where(there, column, 0.0) - middle
    moved = np.where(there, t, 0.0)
    _add(weights, Feature("square", (c,), middle), np.full(len(column), rate))
    _add(weights, Feature("zero", (c,), middle), -2.0 * rate * t)
    if not there.all():
        _add(weights, Feature("has", (c,)), np.where(there, 0.0, rate * (middle**2 + 1.0)))
    if gappy:
        _add(weights, Feature("gap", (c,)), np.where(there, rate * (2.0 * moved * middle + middle**2 + 1.0), 0.0))
    return rate * moved * moved


def _widths_off(rates: np.ndarray, columns: tuple[int, ...], T: np.ndarray) -> float:
    """How far cases are from the middles of columns, at most, in widths of a kernel."""
    squares = np.zeros(len(T))
    for c, rate in zip(columns, rates.tolist(), strict=True):
        there = ~np.isnan(T[:, c])
        squares += rate * np.where(there, T[:, c] - _middle(T[there, c]), 0.0) ** 2
    return float(squares.max(initial=0.0)) ** 0.5


def _middle(t: np.ndarray) -> float:
    """The origin of distances: the mean of numbers far from zero compared with their spread, else zero."""
    mean = float(t.mean()) if len(t) else 0.0
    return mean if abs(mean) > FAR * float(t.std() if len(t) else 0.0) else 0.0


def _presence(columns: tuple[int, ...], every: bool, k: int, gappy: np.ndarray) -> Factors:
    """A factor that is zero for rows without the columns; none if no row can be."""
    lacks = _lacking(columns, every, gappy)
    return () if lacks is None else (Factor(IDENTITY, {lacks._replace(kind="has"): np.ones(k)}, np.zeros(k)),)


# ---------------------------------------------------------------------- from factors to nodes


def merged(factors: Sequence[Factor]) -> Factor:
    """Factors of one shape side by side, as one."""
    ends = np.cumsum([0, *(len(factor.bias) for factor in factors)])
    weights: dict[Feature, np.ndarray] = {}
    apart: dict[Feature, np.ndarray] = {}
    for factor, start, end in zip(factors, ends, ends[1:]):
        for feature, weight in factor.weights.items():
            weights.setdefault(feature, np.zeros(ends[-1]))[start:end] = weight
        for feature, pairs in factor.apart.items():
            apart.setdefault(feature, np.zeros((ends[-1], 2)))[start:end] = pairs
    return Factor(factors[0].shape, weights, np.concatenate([factor.bias for factor in factors]), apart)


def linear(cells: Cells, factor: Factor, onto: np.ndarray | None = None) -> str:
    """``phi'weights + bias`` (rows, w), or that times a matrix (w, p)."""
    graph = cells.graph
    bias = factor.bias if onto is None else factor.bias @ onto
    if not factor.weights:
        return graph.tiled(cells.like, bias)
    table, order = cells.table(list(factor.weights))
    weights = np.array([factor.weights[feature] for feature in order])
    weights = weights if onto is None else weights @ onto
    return graph.op("Gemm", table, graph.number(weights), graph.number(bias))


def _inner(cells: Cells, factor: Factor) -> str:
    """What the shape of a factor is of (rows, w)."""
    graph = cells.graph
    out = linear(cells, factor) if factor.weights or factor.bias.any() or not factor.apart else None
    for feature, pairs in factor.apart.items():
        away = graph.op("Sub", cells.table([feature])[0], graph.number(pairs[:, 0]))
        away = graph.op("Mul", away, graph.number(pairs[:, 1]))
        square = graph.op("Mul", away, away)
        out = square if out is None else graph.op("Add", out, square)
    return str(out)


def values(cells: Cells, factors: Factors) -> str:
    """The product of factors (rows, w)."""
    parts = [_shaped(cells.graph, factor.shape, _inner(cells, factor)) for factor in factors]
    out = parts[0]
    for part in parts[1:]:
        out = cells.graph.op("Mul", out, part)
    return out


def _shaped(graph: Graph, shape: Expression, u: str) -> str:
    """A shape of values."""
    if shape == IDENTITY:
        return u
    if shape.kind == "root" and shape.parts == (SQUARE,):
        return graph.op("Abs", u)
    parts = [_shaped(graph, part, u) for part in shape.parts]
    match shape.kind:
        case "square":
            return graph.op("Mul", parts[0], parts[0])
        case "positive":
            return graph.op("Relu", parts[0])
        case "sum":
            return graph.total(parts)
        case "decay":
            rate = shape.numbers[0]
            return graph.op(
                "Exp", graph.op("Neg", parts[0]) if rate == 1.0 else graph.op("Mul", parts[0], graph.number([-rate]))
            )
        case "root":
            return graph.op("Sqrt", parts[0])
        case "ramp":
            return graph.op("Relu", graph.op("Sub", graph.number([1.0]), parts[0]))
        case "tanh":
            return graph.op("Tanh", parts[0])
        case "power":
            return graph.op("Pow", parts[0], graph.number([shape.numbers[0]]))
        case "inverse_root":
            positive, one = graph.op("Greater", parts[0], graph.number([0.0])), graph.number([1.0])
            root = graph.op("Sqrt", graph.op("Where", positive, parts[0], one))
            return graph.op("Where", positive, graph.op("Div", one, root), graph.number([0.0]))
    raise ValueError(f"a node of the kind {shape.kind!r} has no form in ONNX")


# ---------------------------------------------------------------------- sums over kept cases and kernels


@dataclass(frozen=True)
class Term:
    """The values of one kernel with w cases, and what they add to the outputs."""

    factors: Factors  # whose product the values are
    cases: np.ndarray  # (w,) positions among the k cases
    channel: int  # position among the kernels
    loads: np.ndarray  # (w, q)

    @property
    def shapes(self) -> tuple[Expression, ...]:
        return tuple(factor.shape for factor in self.factors)

    def used(self) -> Term:
        """Without the cases that have no load."""
        kept = np.flatnonzero(np.any(self.loads != 0, axis=1))
        factors = tuple(factor.take(kept) for factor in self.factors)
        return Term(factors, self.cases[kept], self.channel, self.loads[kept])

    def rounding(self, codes: np.ndarray) -> float:
        """A bound of what float32 adds to the error of any output, where all cases have loads."""
        most = [max(1, len(bump_rates(f.shape))) for f in self.factors]  # values of bumps, and of zeros and ones
        errors = sum(factor.rounding(codes) / m for factor, m in zip(self.factors, most, strict=True)) * np.prod(most)
        return float(errors @ np.abs(self.loads).max(axis=1))


@dataclass(frozen=True)
class Sums:
    """Names of sums (rows, q), of their parts by kernel (rows, q, L) and by case (rows, q, k); or None."""

    whole: str
    by_kernel: str | None
    by_case: str | None


def add_up(cells: Cells, terms: Sequence[Term], shape: tuple[int, int, int], *, by_kernel: bool, by_case: bool) -> Sums:
    """Nodes that evaluate terms and add them up; `shape` counts outputs, cases and kernels."""
    graph, (q, k, L) = cells.graph, shape
    terms = [term for term in (term.used() for term in terms) if len(term.cases)]
    if not terms:
        return Sums(
            graph.tiled(cells.like, np.zeros(q)),
            graph.tiled(cells.like, np.zeros((q, L))) if by_kernel else None,
            graph.tiled(cells.like, np.zeros((q, k))) if by_case else None,
        )
    whole, kernels, cases = [], [], []
    places: list[int] = []
    for chunk in chunks(terms):
        block = _Block(cells, chunk)
        if by_kernel:
            members = list(dict.fromkeys(term.channel for term in chunk))
            kernels.append(graph.split_axis(block.onto(_by_kernel(chunk, members, q)), (q, len(members))))
            places += members
        else:
            whole.append(block.onto(np.concatenate([term.loads for term in chunk])))
        if by_case:
            cases.append(block.by_case(q, k))
    parts = _in_places(cells, kernels, places, L) if by_kernel else None
    total = graph.op("ReduceSum", parts, graph.constant(np.array([2])), keepdims=0) if parts else graph.total(whole)
    return Sums(total, parts, graph.total(cases) if by_case else None)


def chunks(terms: Sequence[Term]) -> Iterator[list[Term]]:
    """Terms of equal shapes together, up to `WIDTH` values."""
    for shapes in dict.fromkeys(term.shapes for term in terms):
        some: list[Term] = []
        for term in (term for term in terms if term.shapes == shapes):
            if some and sum(len(one.cases) for one in some) + len(term.cases) > WIDTH:
                yield some
                some = []
            some.append(term)
        yield some


class _Block:
    """Some terms of equal shapes."""

    def __init__(self, cells: Cells, terms: list[Term]):
        self.cells, self.terms = cells, terms
        self.factors = tuple(merged(some) for some in zip(*(term.factors for term in terms), strict=True))
        self.straight = [factor.shape for factor in self.factors] == [IDENTITY]

    def onto(self, matrix: np.ndarray) -> str:
        """The values times a matrix (w, p)."""
        if self.straight:
            return linear(self.cells, self.factors[0], matrix)
        graph = self.cells.graph
        return graph.op("MatMul", values(self.cells, self.factors), graph.number(matrix))

    def by_case(self, q: int, k: int) -> str:
        """What the cases add to the outputs (rows, q, k)."""
        graph, cases = self.cells.graph, np.concatenate([term.cases for term in self.terms])
        loads = np.concatenate([term.loads for term in self.terms])
        if k <= FEW or self.straight or len(self.terms) > 1:
            matrix = np.zeros((len(cases), q, k))
            matrix[np.arange(len(cases)), :, cases] = loads
            return graph.split_axis(self.onto(matrix.reshape(len(cases), q * k)), (q, k))
        shown = graph.op("Unsqueeze", values(self.cells, self.factors), graph.constant(np.array([1])))
        parts = graph.op("Mul", shown, graph.number(loads.T))
        if np.array_equal(cases, np.arange(k)):
            return parts
        back = np.full(k, len(cases))
        back[cases] = np.arange(len(cases))
        padded = graph.op("Pad", parts, graph.constant(np.array([0, 0, 0, 0, 0, 1])), graph.number(0.0))
        return graph.op("Gather", padded, graph.constant(back), axis=2)


def _by_kernel(chunk: list[Term], members: list[int], q: int) -> np.ndarray:
    """The loads of some terms as a matrix (w, q * members)."""
    sizes = [len(term.cases) for term in chunk]
    matrix = np.zeros((sum(sizes), q, len(members)))
    start = 0
    for term, size in zip(chunk, sizes, strict=True):
        matrix[start : start + size, :, members.index(term.channel)] = term.loads
        start += size
    return matrix.reshape(len(matrix), q * len(members))


def _in_places(cells: Cells, parts: list[str], places: list[int], L: int) -> str:
    """Parts (rows, q, m) side by side, each added to its place: (rows, q, L)."""
    graph = cells.graph
    table = graph.concat(parts, axis=2)
    if places == list(range(L)):
        return table
    if sorted(places) == list(range(L)):
        return graph.op("Gather", table, graph.constant(np.argsort(places)), axis=2)
    matrix = np.zeros((len(places), L))
    matrix[np.arange(len(places)), places] = 1.0
    return graph.op("MatMul", table, graph.number(matrix))


def loaded(factors: Factors, channel: int, loads: np.ndarray) -> Term:
    """A term of all cases with loads (k, q)."""
    return Term(factors, np.arange(len(loads)), channel, loads)
