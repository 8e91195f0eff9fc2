"""The model and the shown rows as JSON values, so that the page can compute scores itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tamis.base.calibration import Calibrator
from tamis.explain.explanation import plain
from tamis.kernels.portable import Expression, NotPortable, needed
from tamis.results.data import Results
from tamis.results.describe import as_cell

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
    classes = model.classes_.tolist()
    order = case_order(results)
    recomputed = model_data(results, order)
    names = [name for name, _ in _columns(results)]
    met = dict.fromkeys(name for part in results.parts for name in part.features)
    return {
        "target": results.task.target,
        "classes": classes,
        "outputs": results.outputs,
        "score": results.score_name,
        "parts": [{"name": part.name, "features": part.features} for part in results.parts],
        "cases": [{"label": case.label, "truth": case.truth} for case in results.cases],
        "columns": [_column(name, column) for name, column in _columns(results)],
        "inputs": [names.index(name) for name in met if name in names],  # in the order in which a reader meets them
        "model": recomputed,
        "base": model.model_.expansion.intercept,
        "start": None if not results.cases else [results.cases[0].values.get(name) for name in names],
        "rows": row_data(results, order, stored=recomputed is None),
    }


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
    return [place[tuple(names[c] for c in ch.columns)] for ch in results.model.model_.expansion.bank.channels]


def model_data(results: Results, order: np.ndarray) -> dict[str, Any] | None:
    """Kernels and coefficients, the cases in the order of `results`; None if the page cannot compute with them."""
    model = results.model
    expansion, calibrator = model.model_.expansion, getattr(model, "calibrator_", None)
    known = all(column.kind != "position" for _, column in _columns(results))
    if not known or expansion.row_dependent or (calibrator is not None and type(calibrator) is not Calibrator):
        return None
    try:
        trees = [channel.kernel.portable(channel.columns) for channel in expansion.bank.channels]
    except NotPortable:
        return None
    channels = []
    for tree, part in zip(trees, part_places(results), strict=True):
        columns, every = needed(tree)
        channels.append({"value": _tree(tree), "columns": columns, "every": every, "part": part})
    centre = getattr(expansion, "centre", None)
    return {
        "channels": channels,
        "instances": expansion.instances[order],
        "coef": expansion.coef[:, order],
        "centre": None if centre is None else centre[order],
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
        "probability": None if rows.probability is None else rows.probability[some],
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
    member = np.zeros((len(explanation.kernels), len(results.parts)))
    member[np.arange(len(member)), part_places(results)] = 1.0
    return {"byPart": explanation.by_kernel @ member, "byCase": explanation.by_instance[:, :, order]}
