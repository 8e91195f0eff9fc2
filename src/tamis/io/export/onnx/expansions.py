"""Decisions of every kind of expansion, whole, by kernel and by case, as nodes of a graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tamis.base.expansion import (
    TIED,
    CentredExpansion,
    CodedExpansion,
    Expansion,
    KernelExpansion,
    NearestExpansion,
    PrototypeExpansion,
)
from tamis.io.export.onnx.cells import Cells
from tamis.io.export.onnx.codes import sparse_codes
from tamis.io.export.onnx.kernels import IDENTITY, ROUNDING, Factor, factors_of, lacking
from tamis.io.export.onnx.sums import Extent, Sums, Term, add_up, loaded
from tamis.methods.absent.channel_baselines import FilledExpansion, FusedExpansion

TRUSTED = 1e-5  # bound of the error of float32 up to which it is computed with


def extent_of(expansion: Expansion) -> Extent:
    """How many outputs, cases and kernels there are."""
    return Extent(len(expansion.intercept), len(expansion.instances), len(expansion.bank))


def kernel_terms(expansion: Expansion, gappy: np.ndarray, loads: np.ndarray) -> list[Term]:
    """The kernels of an expansion with loads (q, k, L)."""
    out = []
    for l, channel in enumerate(expansion.bank.channels):
        factors, scale = factors_of(channel, expansion.instances, gappy)
        out.append(loaded(factors, l, loads[:, :, l].T * scale[:, None]))
    return out


def serves_float32(expansion: Expansion, cells: Cells) -> bool:
    """Whether a bound of the error of computing in float32 is small enough; it is not where a choice hangs on it."""
    if not isinstance(expansion, KernelExpansion) or expansion.row_dependent:
        return False
    terms = [term.used() for term in kernel_terms(expansion, cells.gappy, expansion.coef)]
    whole = np.abs(expansion.coef).sum(axis=(1, 2)).max(initial=0.0) * math.log2(max(2, expansion.coef[0].size))
    kernels = sum(term.rounding(cells.encoder.nominal) for term in terms if len(term.cases))
    return kernels + ROUNDING * whole <= TRUSTED  # the second is for the sum itself


def decide(cells: Cells, expansion: Expansion, *, by_kernel: bool, by_case: bool) -> Sums:
    """Nodes of the decision (rows, q) and its parts."""
    make = MAKERS.get(type(expansion))
    if make is None:
        raise ValueError(
            f"decisions of the type {type(expansion).__name__} have no form in the standard operators of ONNX: use "
            "tamis.io.save and tamis.io.load to take this model elsewhere"
        )
    return make(cells, expansion, by_kernel, by_case)


def _shifted(cells: Cells, sums: Sums, whole: np.ndarray, kernels: Any = 0.0, cases: Any = 0.0) -> Sums:
    """Constants (q,), (q, L) and (q, k) added."""
    graph = cells.graph

    def add(value: str | None, shift: Any) -> str | None:
        return value if value is None or not np.any(shift) else graph.op("Add", value, graph.number(shift))

    return Sums(
        graph.op("Add", sums.whole, graph.number(whole)), add(sums.by_kernel, kernels), add(sums.by_case, cases)
    )


def _plain(cells: Cells, expansion: KernelExpansion, by_kernel: bool, by_case: bool) -> Sums:
    terms = kernel_terms(expansion, cells.gappy, expansion.coef)
    sums = add_up(cells, terms, extent_of(expansion), by_kernel=by_kernel, by_case=by_case)
    return _shifted(cells, sums, expansion.intercept)


def _centred(cells: Cells, expansion: CentredExpansion, by_kernel: bool, by_case: bool) -> Sums:
    terms, moved = kernel_terms(expansion, cells.gappy, expansion.coef), expansion.coef * expansion.centre
    sums = add_up(cells, terms, extent_of(expansion), by_kernel=by_kernel, by_case=by_case)
    return _shifted(cells, sums, expansion.intercept - moved.sum(axis=(1, 2)), -moved.sum(axis=1), -moved.sum(axis=2))


def _filled(cells: Cells, expansion: FilledExpansion, by_kernel: bool, by_case: bool) -> Sums:
    """A channel that a row lacks, and whose kernel is zero, adds what its mean would."""
    terms, k = kernel_terms(expansion, cells.gappy, expansion.coef), len(expansion.instances)
    for l, channel in enumerate(expansion.bank.channels):
        lacks = lacking(channel, cells.gappy)
        if lacks is not None:
            factor = Factor(IDENTITY, {lacks: np.ones(k)}, np.zeros(k))
            terms.append(loaded((factor,), l, expansion.coef[:, :, l].T * expansion.fills[l][:, None]))
    sums = add_up(cells, terms, extent_of(expansion), by_kernel=by_kernel, by_case=by_case)
    return _shifted(cells, sums, expansion.intercept)


def _fused(cells: Cells, expansion: FusedExpansion, by_kernel: bool, by_case: bool) -> Sums:
    """The mean over the channels that a row has of kernel values and offsets, which the cases share."""
    graph, extent = cells.graph, extent_of(expansion)
    terms, own = kernel_terms(expansion, cells.gappy, expansion.coef), expansion.coef != 0
    shares = own * np.divide(expansion.offsets, np.maximum(1, own.sum(axis=1)))[:, None]
    counts = []
    for l, channel in enumerate(expansion.bank.channels):
        lacks = lacking(channel, cells.gappy)
        weights = {} if lacks is None else {lacks._replace(kind="has"): np.ones(extent.k)}
        here = Factor(IDENTITY, weights, np.zeros(extent.k) if weights else np.ones(extent.k))
        terms.append(loaded((here,), l, shares[:, :, l].T))
        counts_in = own[:, :, l].any(axis=1).astype(float)
        counts.append(Term((here.take(np.zeros(1, dtype=int)),), np.zeros(1, dtype=int), l, counts_in[None]))
    sums = add_up(cells, terms, extent, by_kernel=by_kernel, by_case=by_case)
    count = add_up(cells, counts, extent, by_kernel=False, by_case=False).whole
    count = graph.op("Max", count, graph.number([1.0]))
    wide = graph.op("Unsqueeze", count, graph.constant(np.array([2])))
    mean = Sums(
        graph.op("Div", sums.whole, count),
        None if sums.by_kernel is None else graph.op("Div", sums.by_kernel, wide),
        None if sums.by_case is None else graph.op("Div", sums.by_case, wide),
    )
    return _shifted(cells, mean, expansion.intercept)


def _with_prototypes(cells: Cells, expansion: PrototypeExpansion, by_kernel: bool, by_case: bool) -> Sums:
    """The values (rows, c) ``U'K(., x)`` of rows with the prototypes, and their parts."""
    loads = expansion.prototypes.T[:, :, None] * expansion.weights
    k, c = expansion.prototypes.shape
    terms = kernel_terms(expansion, cells.gappy, loads)
    return add_up(cells, terms, Extent(c, k, len(expansion.bank)), by_kernel=by_kernel, by_case=by_case)


def _nearest(cells: Cells, expansion: NearestExpansion, by_kernel: bool, by_case: bool) -> Sums:
    """``votes (2 s - u'K u)`` of the nearest prototypes, chosen for each output and side."""
    graph = cells.graph
    near = _with_prototypes(cells, expansion, by_kernel, by_case)
    doubled = graph.op("Mul", near.whole, graph.number([2.0]))
    scores = graph.op("Sub", doubled, graph.number(np.diag(expansion.gram)))
    chosen = graph.concat([_chosen(cells, scores, votes) for votes in expansion.votes])  # (rows, q, c)
    own = {"kernel": np.zeros((expansion.prototypes.shape[1], len(expansion.bank)))}
    own["case"] = np.zeros(expansion.prototypes.T.shape)
    for c, (members, table) in enumerate(expansion.own_parts()):
        own["kernel"][c], own["case"][c, members] = table.sum(axis=0), table.sum(axis=1)

    def parts(value: str | None, norms: np.ndarray) -> str | None:
        if value is None:
            return None
        twice = graph.op("Add", graph.op("Mul", value, graph.number([2.0])), graph.number(norms))
        return graph.op("MatMul", chosen, twice)

    column = graph.op("Unsqueeze", scores, graph.constant(np.array([2])))
    whole = graph.op("Squeeze", graph.op("MatMul", chosen, column), graph.constant(np.array([2])))
    sums = Sums(whole, parts(near.by_kernel, own["kernel"]), parts(near.by_case, own["case"]))
    return _shifted(cells, sums, expansion.intercept)


def _chosen(cells: Cells, scores: str, votes: np.ndarray) -> str:
    """The votes (rows, 1, c) of the nearest prototypes of each side; of equal ones the first."""
    graph, sides = cells.graph, []
    for members in (np.flatnonzero(votes > 0), np.flatnonzero(votes < 0)):
        if not len(members):
            continue
        some = graph.columns(scores, members.tolist(), len(votes))
        top = graph.extreme("Max", some)
        tied = graph.op("GreaterOrEqual", some, graph.op("Sub", top, graph.number([TIED])))
        first = graph.op("ArgMax", graph.as_numbers(tied), axis=1, keepdims=1)
        hit = graph.as_numbers(graph.op("Equal", first, graph.constant(np.arange(len(members)))))
        spread = np.zeros((len(members), len(votes)))
        spread[np.arange(len(members)), members] = votes[members]
        sides.append(graph.op("MatMul", hit, graph.number(spread)))
    total = graph.total(sides) if sides else graph.tiled(cells.like, np.zeros(len(votes)))
    return graph.op("Unsqueeze", total, graph.constant(np.array([1])))


def _coded(cells: Cells, expansion: CodedExpansion, by_kernel: bool, by_case: bool) -> Sums:
    """``votes g`` of the sparse code g, which is ``gram^-1 s`` on the prototypes that it uses."""
    graph = cells.graph
    near = _with_prototypes(cells, expansion, by_kernel, False)
    codes = sparse_codes(graph, expansion.gram, near.whole, expansion.code_size)
    kernels = cases = None
    if near.by_kernel is not None:
        kernels = graph.mixed(expansion.votes, codes.applied(near.by_kernel))
    if by_case:
        shares = graph.op("MatMul", codes.values, graph.number(expansion.prototypes.T))
        shown = graph.op("Unsqueeze", shares, graph.constant(np.array([1])))
        cases = graph.op("Mul", shown, graph.number(expansion.voices))
    whole = graph.op("MatMul", codes.values, graph.number(expansion.votes.T))
    return _shifted(cells, Sums(whole, kernels, cases), expansion.intercept)


MAKERS: dict[type, Callable[[Cells, Any, bool, bool], Sums]] = {
    KernelExpansion: _plain,
    CentredExpansion: _centred,
    FilledExpansion: _filled,
    FusedExpansion: _fused,
    NearestExpansion: _nearest,
    CodedExpansion: _coded,
}
