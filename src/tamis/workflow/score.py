"""Scores of new rows with their largest contributions, block by block."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tamis.base.classifier import KernelClassifier
from tamis.explain.explanation import Explanation
from tamis.io.tables import Columns, blocks, flags, header, levels
from tamis.table.encoding import Nominal
from tamis.table.sources.parquet import arrow
from tamis.workflow.prepare import check_column

OUTSIDE = 0.05  # share of a column outside the training range that is worth a warning
LABEL = "tamis_"  # in front of a new column whose name is taken


def kinds_of(model: KernelClassifier) -> dict[str, str]:
    """What each kept feature is in a file: "number", "text" or "flag"."""
    encoder = model.model_.encoder
    return {name: _kind(column) for name, column in zip(encoder.names, encoder.columns, strict=True)}


def _kind(column: Any) -> str:
    levels = column.levels if isinstance(column, Nominal) else ()
    if levels and all(isinstance(v, bool) for v in levels):
        return "flag"
    return "text" if any(isinstance(v, str) for v in levels) else "number"


def wanted(model: KernelClassifier, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The kept features as the model knows them, however the table has them."""
    kinds = {name: kind for name, kind in kinds_of(model).items() if name in columns}
    ways = {"text": levels, "flag": flags}
    return {name: ways[kind](columns[name]) if kind in ways else columns[name] for name, kind in kinds.items()}


def model_blocks(
    model: KernelClassifier, path: str | os.PathLike, missing: Collection[str] = (), encoding: str = "utf-8"
) -> Iterator[tuple[Any, Columns]]:
    """The blocks of a file, with the kept features as the model wants them."""
    names = header(path, encoding)
    kinds = kinds_of(model)
    for name in kinds:
        check_column(dict.fromkeys(names), name)
    for batch, columns in blocks(path, kinds, missing=missing, encoding=encoding):
        n = batch.num_rows
        if not n:
            continue
        yield batch, columns or Columns({"": np.zeros(n)})  # a model that kept no feature still counts rows


def oddities(model: KernelClassifier, columns: Mapping[str, np.ndarray]) -> dict[str, str]:
    """{feature: words} where rows are unlike those of training: unknown categories, many numbers out of range."""
    out = {}
    encoder = model.model_.encoder
    for name, column in zip(encoder.names, encoder.columns, strict=True):
        cells = [v for v in columns[name].tolist() if v is not None and v == v] if name in columns else []
        if isinstance(column, Nominal):
            levels = set(column.levels)
            odd = [v for v in cells if v not in levels]
            what = "are categories not seen in training and match no case"
        else:
            odd = [v for v in cells if not column.low <= v <= column.high]
            odd = odd if len(odd) > OUTSIDE * len(cells) else []
            limits = f"{column.low:.6g} to {column.high:.6g}"
            what = f"lie outside the training range {limits} and are replaced by its nearest end"
        if odd:
            out[name] = f"{len(odd)} of {len(cells)} cells {what}, such as {odd[0]!r}"
    return out


def scores(model: KernelClassifier, columns: Columns, top: int = 0) -> dict[str, np.ndarray]:
    """Prediction, score, probability and, if asked, the largest contributions of each row.

    With two classes score and probability are those of the positive class, else of the predicted one.
    The base value, the `top` contributions and the rest add up to the score.
    """
    predicted = model.predict(columns)
    decision = np.asarray(model.decision_function(columns)).reshape(len(predicted), -1)
    output = np.zeros(len(predicted), dtype=int)
    if decision.shape[1] > 1:
        output = np.argmax(decision, axis=1)
    rows = np.arange(len(predicted))
    out = {"prediction": predicted, "score": decision[rows, output]}
    if hasattr(model, "predict_proba"):
        probability = model.predict_proba(columns)
        out["probability"] = probability[:, 1] if decision.shape[1] == 1 else probability[rows, output]
    return out | _contributions(model.explain(columns), output, top) if top else out


def _contributions(explanation: Explanation, output: np.ndarray, top: int) -> dict[str, np.ndarray]:
    rows = np.arange(len(output))
    parts = explanation.by_part[rows, output]
    names = np.array(explanation.part_names, dtype=object)
    order = np.argsort(-np.abs(parts), axis=1, kind="stable")[:, :top]
    out: dict[str, np.ndarray] = {"base_value": explanation.base_value[output]}
    for k in range(order.shape[1]):
        out[f"top_{k + 1}"] = names[order[:, k]]
        out[f"top_{k + 1}_contribution"] = parts[rows, order[:, k]]
    shown = np.take_along_axis(parts, order, axis=1).sum(axis=1)
    return {**out, "rest": parts.sum(axis=1) - shown}


def new_names(taken: Collection[str], wanted: Collection[str]) -> dict[str, str]:
    """Names of the new columns, changed where the file has them already."""
    out = {}
    for name in wanted:
        free = name
        while free in taken:
            free = f"{LABEL}{free}"
        out[name] = free
    return out


def predicted(
    model: KernelClassifier,
    path: str | os.PathLike,
    top: int = 0,
    missing: Collection[str] = (),
    encoding: str = "utf-8",
    odd: dict[str, str] | None = None,
) -> Iterator[Any]:
    """Read a file block by block, with prediction, score, probability and contributions added.

    What is odd about a column is put into `odd`, by the first block that shows it.

    Yields
    ------
    batch : a pyarrow record batch
    """
    pa = arrow()
    empty = True
    for batch, columns in model_blocks(model, path, missing, encoding):
        empty = False
        if odd is not None:
            odd.update({name: words for name, words in oddities(model, columns).items() if name not in odd})
        added = scores(model, columns, top)
        names = new_names(batch.schema.names, added)
        for name, values in added.items():
            batch = batch.append_column(names[name], pa.array(values.tolist()))
        yield batch
    if empty:
        raise ValueError(f"{Path(path).name!r} has no rows below its header")
