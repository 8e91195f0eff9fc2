"""`to_onnx`: a fitted estimator as an ONNX model of standard operators."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

import tamis
from tamis.base.estimator import ReadableEstimator
from tamis.base.explaining import outputs as outputs_of
from tamis.base.explaining import parts
from tamis.base.kernel_model import Expansion, KernelExpansion
from tamis.base.model import Model
from tamis.base.prototype_expansion import TIED, CodedExpansion, NearestExpansion, PrototypeExpansion
from tamis.codec import plain_labels, replacing
from tamis.flagship.tables import model_tables
from tamis.io.export.additive import ADDITIVE_PARTS, additive_parts
from tamis.io.export.cells import Cells, check_levels, fits_float32, is_text
from tamis.io.export.codes import sparse_codes
from tamis.io.export.graph import ROWS, Graph, onnx_library
from tamis.io.export.kernels import IDENTITY, ROUNDING, Factor, Sums, Term, add_up, factors_of, lacking, loaded
from tamis.io.models import estimator_in
from tamis.methods.absent.channel_baselines import FilledExpansion, FusedExpansion
from tamis.results.additive import expansion_of, tables_of
from tamis.results.data import Results

DTYPES: dict[str, np.dtype] = {"float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}
INPUTS = ("auto", "matrix", "columns")
TRUSTED = 1e-5  # bound of the error of float32 up to which it is computed with
KERNEL_PARTS = ("by_kernel", "by_instance")


def to_onnx(
    model: ReadableEstimator | Results,
    path: str | os.PathLike | None = None,
    *,
    dtype: str = "float32",
    outputs: Sequence[str] | None = None,
    inputs: str = "auto",
) -> Any:
    """Make an ONNX model of a fitted estimator: predictions with their contributions, without tamis.

    Parameters
    ----------
    model : fitted estimator, or results with one in them
    path : file to write as well, whole or not at all
    dtype : {"float32", "float64"}
        Type of the numbers that go in and come out. With "float32" scores are those of the rounded input to 1e-5, or to
        1e-5 of the largest of them where they are large: they are computed in float32 where a bound of its rounding
        errors allows that, else in float64.
    outputs : names of what the graph gives, all by default. Outputs that are not listed are not computed:
        ``outputs=("label", "score")`` is the quickest.
    inputs : {"auto", "matrix", "columns"}
        "matrix": one input "X" of all columns of the training table, in its order; those that are not kept may hold
        anything, NaN say. "columns": an input (rows, 1) for each kept column, under its name, of text for categories
        that are text. "auto" is "matrix" unless a kept column is text.

    Returns
    -------
    onnx.ModelProto
        With these outputs:

        - label : (rows,) of int64 for whole numbers and flags, else of text
        - score : (rows,) for two classes, else (rows, classes), as `decision_function`
        - probabilities : (rows, classes), where the classifier has them
        - prediction : (rows,) of a regressor, in place of these
        - by_kernel, by_instance : (rows, scores, kernels) and (rows, scores, kept cases), the contributions: with the
          base value each of them adds up to the score
        - by_feature, by_pair, by_case : (rows, scores, kept features), (rows, scores, kept pairs) and (rows, scores,
          kept cases) of TamisClassifier and TamisRegressor, in place of these: all of them together add up to the
          score with the base value

    Notes
    -----
    NaN is a missing cell, and in text the empty string is one (unless it was a category in training); both are taken as
    the estimator takes them, as are categories that training never saw. Categories that are numbers or flags are given
    as numbers. Where the estimator would refuse a row, for a kept cell that is infinite, or missing with
    ``missing=None``, scores and contributions of that row are NaN, and its label means nothing.

    The graph has operators of the standard domain only, of opset 18 (19 where text is compared), and takes any number
    of rows. Its `metadata_props` hold JSON: `classes`, `scores` (the classes of the scores), `base_values`,
    `kernels` and `kernel_features` or `pairs`, `cases`, `features` (the kept ones), `inputs` ({input: column}),
    `estimator` and `tamis`.

    The tables of TamisClassifier and TamisRegressor are always computed with in float64, so that a value is on the same
    side of a threshold as in Python.

    Kernels that are a formula of the cells can be exported; precomputed ones, those of time series and functions of
    your own cannot.

    Examples
    --------
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from tamis import EM2NOLCClassifier, io
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = EM2NOLCClassifier(max_instances=5, max_features=2).fit(X, y)
    >>> session = onnxruntime.InferenceSession(io.to_onnx(clf).SerializeToString())
    >>> label, score = session.run(["label", "score"], {"X": X.astype("float32")})
    >>> label.shape, score.shape
    ((150,), (150, 3))
    """
    estimator = estimator_in(model)
    if estimator is None:
        raise ValueError(f"model={type(model).__name__} is not an estimator of tamis: use skl2onnx for others")
    check_is_fitted(estimator)
    if dtype not in DTYPES:
        raise ValueError(f"dtype={dtype!r} is unknown: use 'float32' or 'float64'")
    wanted = _wanted(estimator, outputs)
    onnx_library()
    made = _export(estimator, wanted, DTYPES[dtype], _is_matrix(estimator.model_, inputs))
    if path is not None:
        with replacing(path) as temporary:
            temporary.write_bytes(made.SerializeToString())
    return made


def _wanted(estimator: ReadableEstimator, outputs: Sequence[str] | None) -> list[str]:
    """The requested outputs, in the order of all."""
    parts = ADDITIVE_PARTS if estimator.model_.is_additive else KERNEL_PARTS
    able: tuple[str, ...] = ("prediction", *parts)
    if is_classifier(estimator):
        probable = ("probabilities",) if hasattr(estimator, "calibrator_") else ()
        able = ("label", "score", *probable, *parts)
    if outputs is None:
        return list(able)
    names = [outputs] if isinstance(outputs, str) else list(outputs)
    unknown = [name for name in names if name not in able]
    if unknown or not names:
        raise ValueError(
            f"outputs={outputs!r}: {type(estimator).__name__} as it was fitted has {', '.join(map(repr, able))}"
        )
    return [name for name in able if name in names]


def _is_matrix(model: Model, inputs: str) -> bool:
    """Whether all columns are one input."""
    texts = [name for name, column in zip(model.encoder.names, model.encoder.columns, strict=True) if is_text(column)]
    if inputs not in INPUTS:
        raise ValueError(f"inputs={inputs!r} is unknown: use 'auto', 'matrix' or 'columns'")
    if inputs == "matrix" and texts:
        raise ValueError(
            f"inputs='matrix' holds numbers, and the kept column {texts[0]!r} is text: use inputs='columns'"
        )
    if inputs == "columns" and not model.encoder.columns:
        raise ValueError("inputs='columns' needs a kept column, and this model has none: use inputs='matrix'")
    return not texts if inputs == "auto" else inputs == "matrix"


@dataclass(frozen=True)
class _Decision:
    """Nodes of scores and their parts."""

    intercept: np.ndarray  # (q,)
    whole: str  # (rows, q)
    parts: dict[str, tuple[str, int]]  # {name of an output: (node (rows, q, size), size)}


def _export(estimator: ReadableEstimator, wanted: list[str], outside: np.dtype, matrix: bool) -> Any:
    fitted = estimator.model_
    encoder = fitted.encoder
    check_levels(encoder, outside)
    allow = bool(estimator.reader_.allow_missing)

    def start(inside: np.dtype) -> Cells:
        width = estimator.n_features_in_
        return Cells(Graph(inside, outside), encoder, fitted.columns, width, matrix=matrix, allow_missing=allow)

    if fitted.is_additive:
        cells = start(DTYPES["float64"])  # thresholds are compared with all their digits
        decision = _additive_decision(estimator, cells, wanted)
    else:
        cells, expansion = start(outside), expansion_of(estimator)
        if outside == np.float32:
            serves = fits_float32(encoder) and serves_float32(expansion, cells)
            cells = cells if serves else start(DTYPES["float64"])
        decision = _kernel_decision(expansion, cells, wanted)
    _give(cells.graph, estimator, _without_refused(cells, decision), wanted)
    metadata = {name: json.dumps(value) for name, value in _metadata(estimator, cells, matrix).items()}
    name = type(estimator).__name__
    return cells.graph.model(name, f"{name} of tamis", metadata, tamis.__version__)


def _additive_decision(estimator: ReadableEstimator, cells: Cells, wanted: Sequence[str]) -> _Decision:
    tables = model_tables(estimator)
    parts = [name for name in ADDITIVE_PARTS if name in wanted]
    whole, nodes = additive_parts(cells, tables, parts)
    sizes = dict(zip(ADDITIVE_PARTS, (len(tables[kind]) for kind in ("features", "pairs", "cases")), strict=True))
    return _Decision(estimator.model_.base_value, whole, {name: (nodes[name], sizes[name]) for name in parts})


def _kernel_decision(expansion: Expansion, cells: Cells, wanted: Sequence[str]) -> _Decision:
    sums = decide(cells, expansion, by_kernel="by_kernel" in wanted, by_case="by_instance" in wanted)
    sizes = {"by_kernel": len(expansion.bank), "by_instance": len(expansion.instances)}
    nodes = {"by_kernel": sums.by_kernel, "by_instance": sums.by_case}
    parts = {name: (node, sizes[name]) for name, node in nodes.items() if node is not None}
    return _Decision(expansion.intercept, sums.whole, parts)


def _without_refused(cells: Cells, decision: _Decision) -> _Decision:
    """NaN for rows that the estimator would refuse."""
    graph, refused = cells.graph, cells.refused()
    if refused is None:
        return decision
    nan, wide = graph.number([np.nan]), graph.op("Unsqueeze", refused, graph.constant(np.array([2])))
    whole = graph.op("Where", refused, nan, decision.whole)
    parts = {name: (graph.op("Where", wide, nan, node), size) for name, (node, size) in decision.parts.items()}
    return _Decision(decision.intercept, whole, parts)


def _give(graph: Graph, estimator: ReadableEstimator, decision: _Decision, wanted: list[str]) -> None:
    """Add the requested outputs."""
    q, whole = len(decision.intercept), decision.whole
    one = graph.op("Squeeze", whole, graph.constant(np.array([1]))) if q == 1 else whole
    classes = len(getattr(estimator, "classes_", ()))

    def give(name: str, value: str, *shape: int) -> None:
        value = value if graph.inside == graph.outside else graph.cast(value, graph.outside)
        graph.output(name, value, graph.outside, (ROWS, *shape))

    for name in wanted:
        if name == "label":
            labels = class_labels(estimator.classes_)
            code = graph.op("Gather", graph.constant(labels), _code(graph, one, q), axis=0)
            graph.output("label", code, labels.dtype, (ROWS,))
        elif name == "probabilities":
            give(name, _probabilities(graph, whole, estimator.calibrator_, q), classes)
        elif name in decision.parts:
            node, size = decision.parts[name]
            give(name, node, q, size)
        else:
            give(name, one, *(() if q == 1 else (q,)))


def class_labels(classes: np.ndarray) -> np.ndarray:
    """Class labels as a tensor holds them: int64 for whole numbers and flags, else text."""
    values = classes.tolist()
    if all(isinstance(value, bool | int | float) for value in values):
        return np.array([int(value) for value in values], dtype=np.int64)
    return np.array([str(value) for value in values], dtype=object)


def _code(graph: Graph, score: str, q: int) -> str:
    """Positions (rows,) of the predicted classes; zero goes to the second of two, equal scores to the first."""
    if q > 1:
        return graph.op("ArgMax", score, axis=1, keepdims=0)
    return graph.cast(graph.op("GreaterOrEqual", score, graph.number(0.0)), np.int64)


def _probabilities(graph: Graph, whole: str, calibrator: Any, q: int) -> str:
    """Class probabilities (rows, classes)."""
    raised = graph.op("Mul", whole, graph.number([calibrator.slope]))
    if q > 1:
        return graph.op("Softmax", raised, axis=1)
    up = graph.op("Sigmoid", graph.op("Add", raised, graph.number([calibrator.offset])))
    return graph.concat([graph.op("Sub", graph.number([1.0]), up), up])


def _metadata(estimator: ReadableEstimator, cells: Cells, matrix: bool) -> dict[str, Any]:
    """What a reader needs to name the outputs."""
    fitted, classes = estimator.model_, getattr(estimator, "classes_", None)
    of = {cells.like: list(_input_names(estimator))} if matrix else cells.inputs
    if fitted.is_additive:
        terms: dict[str, Any] = {"pairs": [list(names) for names in tables_of(estimator).pair_names]}
    else:
        terms = {"kernels": list(expansion_of(estimator).bank.names), "kernel_features": parts(estimator)}
    return {
        "tamis": tamis.__version__,
        "estimator": type(estimator).__name__,
        **({} if classes is None else {"classes": class_labels(classes).tolist()}),
        "scores": class_labels(np.array(outputs_of(estimator))).tolist(),
        "base_values": fitted.base_value.tolist(),
        **terms,
        "cases": [str(label) for label in plain_labels(estimator.instance_labels_)],
        "features": list(fitted.encoder.names),
        "inputs": of,
    }


def _input_names(estimator: ReadableEstimator) -> Sequence[str]:
    """Names of all columns of the training table."""
    named = getattr(estimator, "feature_names_in_", None)
    return [f"x{j}" for j in range(estimator.n_features_in_)] if named is None else [str(name) for name in named]


# ---------------------------------------------------------------------- decisions


def kernel_terms(expansion: Expansion, gappy: np.ndarray, loads: np.ndarray) -> list[Term]:
    """The kernels of an expansion with loads (q, k, L)."""
    out = []
    for l, channel in enumerate(expansion.bank.channels):
        factors, scale = factors_of(channel, expansion.instances, gappy)
        out.append(loaded(factors, l, loads[:, :, l].T * scale[:, None]))
    return out


def serves_float32(expansion: Any, cells: Cells) -> bool:
    """Whether a bound of the error of computing in float32 is small enough; it is not where a choice hangs on it."""
    if expansion.row_dependent:
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


def _shifted(cells: Cells, sums: Sums, intercept: np.ndarray) -> Sums:
    """The same sums with the intercept (q,) added to the whole."""
    return replace(sums, whole=cells.graph.op("Add", sums.whole, cells.graph.number(intercept)))


def _plain(cells: Cells, expansion: KernelExpansion, by_kernel: bool, by_case: bool) -> Sums:
    terms = kernel_terms(expansion, cells.gappy, expansion.coef)
    sums = add_up(cells, terms, expansion.coef.shape, by_kernel=by_kernel, by_case=by_case)
    return _shifted(cells, sums, expansion.intercept)


def _filled(cells: Cells, expansion: FilledExpansion, by_kernel: bool, by_case: bool) -> Sums:
    """A channel that a row lacks, and whose kernel is zero, adds what its mean would."""
    terms, k = kernel_terms(expansion, cells.gappy, expansion.coef), len(expansion.instances)
    for l, channel in enumerate(expansion.bank.channels):
        lacks = lacking(channel, cells.gappy)
        if lacks is not None:
            factor = Factor(IDENTITY, {lacks: np.ones(k)}, np.zeros(k))
            terms.append(loaded((factor,), l, expansion.coef[:, :, l].T * expansion.fills[l][:, None]))
    sums = add_up(cells, terms, expansion.coef.shape, by_kernel=by_kernel, by_case=by_case)
    return _shifted(cells, sums, expansion.intercept)


def _fused(cells: Cells, expansion: FusedExpansion, by_kernel: bool, by_case: bool) -> Sums:
    """The mean over the channels that a row has of kernel values and offsets, which the cases share."""
    graph, shape = cells.graph, expansion.coef.shape
    terms, own = kernel_terms(expansion, cells.gappy, expansion.coef), expansion.coef != 0
    shares = own * np.divide(expansion.offsets, np.maximum(1, own.sum(axis=1)))[:, None]
    counts = []
    for l, channel in enumerate(expansion.bank.channels):
        lacks = lacking(channel, cells.gappy)
        weights = {} if lacks is None else {lacks._replace(kind="has"): np.ones(shape[1])}
        here = Factor(IDENTITY, weights, np.zeros(shape[1]) if weights else np.ones(shape[1]))
        terms.append(loaded((here,), l, shares[:, :, l].T))
        counts_in = own[:, :, l].any(axis=1).astype(float)
        counts.append(Term((here.take(np.zeros(1, dtype=int)),), np.zeros(1, dtype=int), l, counts_in[None]))
    sums = add_up(cells, terms, shape, by_kernel=by_kernel, by_case=by_case)
    count = add_up(cells, counts, shape, by_kernel=False, by_case=False).whole
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
    return add_up(cells, terms, (c, k, len(expansion.bank)), by_kernel=by_kernel, by_case=by_case)


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
    FilledExpansion: _filled,
    FusedExpansion: _fused,
    NearestExpansion: _nearest,
    CodedExpansion: _coded,
}
