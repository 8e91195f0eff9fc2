"""Kernels between rows and kept cases, as data: products of simple functions of linear functions of features.

With the `Feature`s phi of a row x (`cells.py`), the values of one kernel with w of the kept cases are

    k(x_j, x) = prod_f shape_f(phi(x)'weights_f[:, j] + bias_f[j])

where the shapes are few and all that a case is goes into weights and biases. Kernels of equal shapes can stand side by
side in one matrix product. Squared distances whose rounding errors would be seen that way are taken from differences
instead, ``sum_c (s_cj (phi_c(x) - t_cj))^2``, beside the product. A kernel that has no such form is refused by name.

shape         of u
bump          sum over r of ``exp(-r u^2)``
decay         sum over r of ``exp(-r max(u, 0))``
spike         ``exp(-|u|)``
root_decay    ``exp(-sqrt(max(u, 0)))``
arch          ``max(0, 1 - u^2)``
tent          ``max(0, 1 - max(u, 0))``
tanh          ``tanh(u)``
power         ``u^r``
inverse_root  ``u^(-r/2)`` where ``u^r`` is positive, else zero
identity      u
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from tamis.codec import is_stored
from tamis.io.export.onnx.cells import Cells, Feature
from tamis.io.export.onnx.graph import Graph
from tamis.kernels.bank import Channel
from tamis.kernels.base import (
    Categorical,
    Custom,
    Epanechnikov,
    Gaussian,
    Kernel,
    Laplacian,
    Normalised,
    Polynomial,
    ScaledGaussian,
    Sigmoid,
    diagonal,
)
from tamis.kernels.mixture import Mixture, Tensor
from tamis.kernels.portable import inverse_roots
from tamis.kernels.whole import Whole

FAR = 10.0  # spreads from zero beyond which distances are taken from the middle of the kept cases
LOST = 1e-12 / float(np.finfo(float).eps)  # size of numbers up to which an error of their last digit is not seen
NOWHERE = 1e8  # a distance at which kernels vanish, also its root
ROUNDING = 2.0**-24  # relative, of float32
WIDTHS = (1e-6, 1e6)  # of kernels that float32 serves

Shape = tuple[str, tuple[float, ...]]
IDENTITY: Shape = ("identity", ())


@dataclass(frozen=True)
class Factor:
    """``shape(phi'weights + bias)`` for w cases: weights {feature: (w,)} and bias (w,).

    `apart` {feature: (w, 2)} are pairs t, s that add ``(s (phi - t))^2`` within the shape.
    """

    shape: Shape
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
        if self.shape[0] != "bump":
            return np.full(len(self.bias), np.inf)
        size, rates = np.max([np.abs(weight) for weight in self.weights.values()], axis=0), np.array(self.shape[1])
        moderate = (size > WIDTHS[0]) & (size < WIDTHS[1])
        slopes = np.sqrt(2.0 * rates / math.e).sum()
        around = np.abs(self.bias) + sum(np.abs(weight * f.of) for f, weight in self.weights.items())
        bound = len(rates) * (9.0 * 2.0 / math.e + 4.0) + 9.0 * slopes * around
        return np.where(moderate, ROUNDING * bound, np.inf)


Factors = tuple[Factor, ...]


def factors_of(channel: Channel, instances: np.ndarray, gappy: np.ndarray) -> tuple[Factors, np.ndarray]:
    """The kernel of a channel with instances (k, c): factors that depend on the row, and numbers (k,) that do not.

    Numbers are better in the sums that follow than in the graph: onnxruntime may round one that stands alone before a
    matrix product to float32.
    """
    made = _factors(channel.kernel, channel.columns, instances, gappy)
    if made is None:
        _refuse(channel)
    here = channel.presence(instances).astype(float)
    fixed = [factor for factor in made if _is_fixed(factor)]
    return tuple(factor for factor in made if not _is_fixed(factor)), np.prod([here, *(f.bias for f in fixed)], axis=0)


def _is_fixed(factor: Factor) -> bool:
    return factor.shape == IDENTITY and not factor.weights


def lacking(kernel: Any, columns: tuple[int, ...], gappy: np.ndarray) -> Feature | None:
    """The feature that says which rows lack a kernel; None if no row can."""
    if isinstance(kernel, Normalised):
        return lacking(kernel.kernel, columns, gappy)
    if isinstance(kernel, ScaledGaussian):
        columns = tuple(c for c, factor in zip(columns, kernel.factors, strict=True) if factor > 0)
    anything = isinstance(kernel, Whole | Tensor)
    some = tuple(dict.fromkeys(c for c in columns if gappy[c]))
    if not some or (not anything and len(some) < len(set(columns))):
        return None
    return Feature("lacks", some, float(anything))


def _refuse(channel: Channel) -> NoReturn:
    kernel: Any = channel.kernel
    while isinstance(kernel, Normalised | Whole | Custom):
        kernel = kernel.function if isinstance(kernel, Custom) else kernel.kernel
    way = "tamis.io.save and tamis.io.load" if is_stored(type(kernel)) else "pickle or joblib"
    raise ValueError(
        f"the kernel {channel.name!r} is of the type {type(kernel).__name__}, which has no form in the standard "
        f"operators of ONNX: use {way} to take this model elsewhere, or fit with kernels such as Gaussian, Polynomial "
        "and Categorical on columns of a table"
    )


# ---------------------------------------------------------------------- from kernels to factors


def _factors(kernel: Any, columns: tuple[int, ...], T: np.ndarray, gappy: np.ndarray) -> Factors | None:
    """A kernel on some columns with rows T (k, d) that are there; None if it has no form."""
    make = MAKERS.get(type(kernel))
    return None if make is None else make(kernel, columns, T, gappy)


def _gaussian(kernel: Gaussian, columns: tuple[int, ...], T: np.ndarray, gappy: np.ndarray) -> Factors:
    return _mixture(Mixture((kernel.bandwidth,), kernel.mismatch), columns, T, gappy)


def _mixture(kernel: Mixture, columns: tuple[int, ...], T: np.ndarray, gappy: np.ndarray) -> Factors:
    widest = max(kernel.bandwidths)
    ratios = tuple(sorted((widest / width) ** 2 for width in kernel.bandwidths))
    mean = Factor(IDENTITY, {}, np.full(len(T), 1.0 / len(ratios)))
    rates = np.full(len(columns), 0.5 / widest**2)
    if _is_near(rates * ratios[-1], columns, T) and not any(cost > 0 for cost in kernel.mismatch):
        return _difference(("bump", ratios), 0.5**0.5 / widest, columns[0], T), mean
    return _distance(("decay", ratios), rates, kernel.mismatch, columns, T, gappy, kernel), mean


def _scaled_gaussian(kernel: ScaledGaussian, columns: tuple[int, ...], T: np.ndarray, gappy: np.ndarray) -> Factors:
    rates = 0.5 * np.array(kernel.factors)
    return (_distance(("decay", (1.0,)), rates, kernel.mismatch, columns, T, gappy, kernel),)


def _laplacian(kernel: Laplacian, columns: tuple[int, ...], T: np.ndarray, gappy: np.ndarray) -> Factors:
    rates = np.full(len(columns), kernel.bandwidth**-2.0)
    if _is_near(rates, columns, T):
        return (_difference(("spike", ()), 1.0 / kernel.bandwidth, columns[0], T),)
    return (_distance(("root_decay", ()), rates, (), columns, T, gappy, kernel),)


def _epanechnikov(kernel: Epanechnikov, columns: tuple[int, ...], T: np.ndarray, gappy: np.ndarray) -> Factors:
    rates = np.full(len(columns), kernel.bandwidth**-2.0)
    if _is_near(rates, columns, T):
        return (_difference(("arch", ()), 1.0 / kernel.bandwidth, columns[0], T),)
    return (_distance(("tent", ()), rates, (), columns, T, gappy, kernel),)


def _polynomial(kernel: Polynomial, columns: tuple[int, ...], T: np.ndarray, gappy: np.ndarray) -> Factors:
    if kernel.degree == 1 and kernel.offset == 0:
        return (_product(IDENTITY, 1.0, 0.0, columns, T),)
    made = _product(("power", (float(kernel.degree),)), 1.0, kernel.offset, columns, T)
    return (made, *_presence(kernel, columns, len(T), gappy))


def _sigmoid(kernel: Sigmoid, columns: tuple[int, ...], T: np.ndarray, gappy: np.ndarray) -> Factors:
    made = _product(("tanh", ()), kernel.scale, -kernel.offset, columns, T)
    return (made, *_presence(kernel, columns, len(T), gappy))


def _categorical(kernel: Categorical, columns: tuple[int, ...], T: np.ndarray, gappy: np.ndarray) -> Factors:
    weights: dict[Feature, np.ndarray] = {}
    for c in columns:
        for code in np.unique(T[~np.isnan(T[:, c]), c]).tolist():
            _add(weights, Feature("is", (c,), code), (T[:, c] == code) / len(columns))
    return (Factor(IDENTITY, weights, np.zeros(len(T))),)


def _tensor(kernel: Tensor, columns: tuple[int, ...], T: np.ndarray, gappy: np.ndarray) -> Factors | None:
    made = [_factors(one, (c,), T, gappy) for one, c in zip(kernel.kernels, columns, strict=True)]
    return None if None in made else tuple(factor for some in made for factor in some or ())


def _whole(kernel: Whole, columns: tuple[int, ...], T: np.ndarray, gappy: np.ndarray) -> Factors | None:
    """Complete rows only: none of the columns is gappy below, and one factor is zero for rows with gaps."""
    there = ~np.isnan(T)
    means = np.where(there, T, 0.0).sum(axis=0) / np.maximum(1, there.sum(axis=0))
    made = _factors(kernel.kernel, columns, np.where(there, T, means), np.zeros_like(gappy))
    return None if made is None else (*made, *_presence(kernel, columns, len(T), gappy))


def _normalised(kernel: Normalised, columns: tuple[int, ...], T: np.ndarray, gappy: np.ndarray) -> Factors | None:
    made, own = _factors(kernel.kernel, columns, T, gappy), _own_root(kernel.kernel, columns, len(T), gappy)
    if made is None or own is None:
        return None
    cases = inverse_roots(diagonal(kernel.kernel, T[:, list(columns)]))
    return (*made, *own, Factor(IDENTITY, {}, cases))


def _own_root(kernel: Any, columns: tuple[int, ...], k: int, gappy: np.ndarray) -> Factors | None:
    """``1 / sqrt(k(x, x))`` of a row with itself; None if that has no form."""
    one = np.ones(k)
    weights: dict[Feature, np.ndarray] = {}
    if kernel.unit:
        return ()
    if isinstance(kernel, Polynomial):
        for c in columns:
            _add(weights, Feature("square", (c,)), one)
        return (Factor(("inverse_root", (float(kernel.degree),)), weights, kernel.offset * one),)
    if isinstance(kernel, Categorical):
        for c in columns:
            if gappy[c]:
                _add(weights, Feature("gap", (c,)), -one / len(columns))
        return (Factor(("inverse_root", (1.0,)), weights, one),)
    return None


MAKERS: dict[type, Callable[[Any, tuple[int, ...], np.ndarray, np.ndarray], Factors | None]] = {
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
    Normalised: _normalised,
}


def _add(weights: dict[Feature, np.ndarray], feature: Feature, weight: np.ndarray) -> None:
    weights[feature] = weights[feature] + weight if feature in weights else weight


def _difference(shape: Shape, rate: float, column: int, T: np.ndarray) -> Factor:
    """``shape(rate (x - t))`` of one column."""
    there = ~np.isnan(T[:, column])
    middle = _middle(T[there, column])
    t = np.where(there, T[:, column] - middle, 0.0)
    return Factor(shape, {Feature("far", (column,), middle): np.full(len(T), rate)}, -rate * t)


def _is_near(rates: np.ndarray, columns: tuple[int, ...], T: np.ndarray) -> bool:
    """Whether there is one column, and a product is good enough for its differences."""
    return len(columns) == 1 and _widths_off(rates, columns, T) <= LOST


def _product(shape: Shape, scale: float, offset: float, columns: tuple[int, ...], T: np.ndarray) -> Factor:
    """``shape(scale x't + offset)``."""
    weights: dict[Feature, np.ndarray] = {}
    for c in columns:
        _add(weights, Feature("zero", (c,)), scale * np.nan_to_num(T[:, c]))
    return Factor(shape, weights, np.full(len(T), float(offset)))


def _distance(
    shape: Shape,
    rates: np.ndarray,
    mismatch: Sequence[float],
    columns: tuple[int, ...],
    T: np.ndarray,
    gappy: np.ndarray,
    kernel: Kernel,
) -> Factor:
    """``shape(sum_c rates[c] d_c(x, t))`` with the squared distances of `tamis.kernels.base`; far where x is absent."""
    weights: dict[Feature, np.ndarray] = {}
    apart: dict[Feature, np.ndarray] = {}
    bias = np.zeros(len(T))
    narrowest = max(shape[1], default=1.0)
    costs = rates * [mismatch[place] if place < len(mismatch) else 0.0 for place in range(len(columns))]
    by_difference = shape[0] == "root_decay" or _widths_off(narrowest * rates * (costs == 0), columns, T) ** 2 > LOST
    for c, rate, cost in zip(columns, rates.tolist(), costs.tolist(), strict=True):
        if rate == 0:
            continue
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
    lacks = lacking(kernel, columns, gappy)
    if lacks is not None:
        _add(weights, lacks, np.full(len(T), NOWHERE))
    return Factor(shape, weights, bias, apart)


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
    """The mean of numbers that are far from zero beside their spread, else zero: distances are taken from there."""
    mean = float(t.mean()) if len(t) else 0.0
    return mean if abs(mean) > FAR * float(t.std() if len(t) else 0.0) else 0.0


def _presence(kernel: Kernel, columns: tuple[int, ...], k: int, gappy: np.ndarray) -> Factors:
    """A factor that is zero for rows that lack the kernel; none if no row can."""
    lacks = lacking(kernel, columns, gappy)
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
    parts = [_shaped(cells.graph, *factor.shape, _inner(cells, factor)) for factor in factors]
    out = parts[0]
    for part in parts[1:]:
        out = cells.graph.op("Mul", out, part)
    return out


def _shaped(graph: Graph, kind: str, numbers: tuple[float, ...], u: str) -> str:
    """A shape of values."""
    if kind in ("bump", "arch"):
        u = graph.op("Mul", u, u)
    if kind in ("decay", "root_decay", "tent"):
        u = graph.op("Relu", u)
    if kind in ("bump", "decay"):
        parts = [_exp(graph, u, rate) for rate in numbers]
        return graph.total(parts)
    if kind == "spike":
        return _exp(graph, graph.op("Abs", u), 1.0)
    if kind == "root_decay":
        return _exp(graph, graph.op("Sqrt", u), 1.0)
    if kind in ("arch", "tent"):
        return graph.op("Relu", graph.op("Sub", graph.number([1.0]), u))
    if kind == "tanh":
        return graph.op("Tanh", u)
    if kind == "power":
        return graph.op("Pow", u, graph.number([numbers[0]]))
    if kind == "inverse_root":
        power = graph.op("Pow", u, graph.number([numbers[0]]))
        positive, one = graph.op("Greater", power, graph.number([0.0])), graph.number([1.0])
        root = graph.op("Sqrt", graph.op("Where", positive, power, one))
        return graph.op("Where", positive, graph.op("Div", one, root), graph.number([0.0]))
    return u


def _exp(graph: Graph, u: str, rate: float) -> str:
    """``exp(-rate u)``."""
    return graph.op("Exp", graph.op("Neg", u) if rate == 1.0 else graph.op("Mul", u, graph.number([-rate])))
