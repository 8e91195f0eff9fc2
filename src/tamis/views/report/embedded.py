"""The model and the shown rows as JSON values, so that the page can compute scores itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tamis.explain import KernelExplanation
from tamis.explain.explanation import plain
from tamis.flagship.tables import model_tables
from tamis.kernels.portable import Expression, NotPortable, needed
from tamis.results.additive import expansion_of, tables_of
from tamis.results.data import Results
from tamis.results.shapes import as_cell

MAX_EMBEDDED_CELLS = 12_000  # most values of shown rows, so that the page stays small
ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}  # would end a script element, or start a comment in it


def to_json(value: Any) -> str:
    """JSON that may stand inside a script element; numbers that JSON does not know are null."""
    text = json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
    for letter, code in ESCAPES.items():
        text = text.replace(letter, code)
    return text


def embedded(results: Results) -> dict[str, Any]:
    """What the page computes with."""
    model = results.model
    order = case_order(results)
    if results.is_additive:
        computed = _additive(results, order)
    else:
        columns = [_column(name, column) for name, column in _columns(results)]
        computed = {"columns": columns, "model": model_data(results, order)}
    names = [name for name, _ in _columns(results)]
    met = dict.fromkeys(name for part in results.parts for name in part.features)
    return {
        "target": results.task.target,
        "classes": model.classes_.tolist(),
        "outputs": results.outputs,
        "score": results.score_name,
        "weightShift": results.weight_shift,
        "additive": results.is_additive,
        "parts": [{"name": part.name, "features": part.features, "kind": part.kind} for part in results.parts],
        "cases": [{"label": case.label, "truth": case.truth} for case in results.cases],
        "inputs": [names.index(name) for name in met if name in names],  # in the order in which a reader meets them
        "base": model.model_.base_value,
        "start": None if not results.cases else [results.cases[0].values.get(name) for name in names],
        "rows": row_data(results, order, stored=computed["model"] is None),
        **computed,
    }


def _additive(results: Results, order: np.ndarray) -> dict[str, Any]:
    """The tables of an additive model, and the order in which the page shows what they add."""
    tables = model_tables(results.model)
    keys = ("name", "kind", "levels", "low", "high", "fill")
    names, pairs = results.model.model_.encoder.names, tables_of(results.model).pair_names
    place: dict[Any, int] = {(name,): k for k, name in enumerate(names)}
    place |= {pair: len(names) + k for k, pair in enumerate(pairs)}
    last = len(names) + len(pairs)
    parts = [last if part.kind == "cases" else place[part.features] for part in results.parts]
    columns = [{key: feature[key] for key in keys} for feature in tables["features"]]
    return {"columns": columns, "model": tables, "order": {"parts": parts, "cases": order}}


def _columns(results: Results) -> list[tuple[str, Any]]:
    encoder = results.model.model_.encoder
    return list(zip(encoder.names, encoder.columns, strict=True))


def _column(name: str, column: Any) -> dict[str, Any]:
    if column.kind == "category":
        return {"name": name, "kind": column.kind, "levels": column.levels, "fill": column.fill}
    keys = ("low", "high", "centre", "scale", "knots", "ranks", "fill")
    return {"name": name, "kind": column.kind, **{key: getattr(column, key) for key in keys}}


def case_order(results: Results) -> np.ndarray:
    """Positions in the model of the cases as `results` lists them."""
    return np.array([case.place for case in results.cases], dtype=int)


def part_places(results: Results) -> list[int]:
    """For each kernel of the model the part that it belongs to."""
    names = results.model.model_.encoder.names
    place = {part.features: k for k, part in enumerate(results.parts)}
    return [place[tuple(names[c] for c in ch.columns)] for ch in expansion_of(results.model).bank.channels]


def model_data(results: Results, order: np.ndarray) -> dict[str, Any] | None:
    """Kernels and coefficients, the cases in the order of `results`; None if the page cannot compute with them."""
    model = results.model
    expansion, calibrator = expansion_of(model), getattr(model, "calibrator_", None)
    known = all(column.kind != "position" for _, column in _columns(results))
    if not known or expansion.row_dependent:
        return None
    try:
        trees = [channel.kernel.portable(channel.columns) for channel in expansion.bank.channels]
    except NotPortable:
        return None
    channels = []
    for tree, part in zip(trees, part_places(results), strict=True):
        columns, every = needed(tree)
        channels.append({"value": _tree(tree), "columns": columns, "every": every, "part": part})
    return {
        "channels": channels,
        "instances": expansion.instances[order],
        "coef": expansion.coef[:, order],
        "calibrator": None if calibrator is None else {"slope": calibrator.slope, "offset": calibrator.offset},
    }


def _tree(node: Expression) -> dict[str, Any]:
    """A tree of arithmetic as model.js reads it."""
    fields = {name: getattr(node, name) for name in ("numbers", "columns", "costs") if getattr(node, name)}
    return {"kind": node.kind, **fields, **({"parts": list(map(_tree, node.parts))} if node.parts else {})}


def row_data(results: Results, order: np.ndarray, *, stored: bool) -> dict[str, Any]:
    """The shown rows, fewer where they would fill the page; with `stored` also every contribution."""
    rows, columns = results.rows, _columns(results)
    n, most = len(rows.labels), max(20, MAX_EMBEDDED_CELLS // max(1, len(columns)))
    some = np.arange(n) if n <= most else np.unique(np.linspace(0, n - 1, most).astype(int))
    values = [[_cell(rows.values[name][i], column) for name, column in columns] for i in some]
    data = {
        "labels": rows.labels[some],
        "values": values,
        "truth": None if rows.truth is None else rows.truth[some],
        "predicted": rows.predicted[some],
        "decision": rows.decision[some],
        "probability": rows.probability[some] if stored and rows.probability is not None else None,
        "total": n,
    }
    if stored and len(some):
        data |= contributions(results, order, some)
    return data


def _cell(value: Any, column: Any) -> Any:
    value = as_cell(value)
    return value if value is None or column.kind == "category" else float(value)


def contributions(results: Results, order: np.ndarray, some: np.ndarray) -> dict[str, np.ndarray]:
    """Contributions by part (rows, outputs, parts) and by case, in the order of `results`."""
    explanation = results.model.explain({name: values[some] for name, values in results.rows.values.items()})
    assert isinstance(explanation, KernelExplanation)
    member = np.zeros((len(explanation.kernels), len(results.parts)))
    member[np.arange(len(member)), part_places(results)] = 1.0
    return {"byPart": explanation.by_kernel @ member, "byCase": explanation.by_instance[:, :, order]}
