"""Model files and new rows: what the main job writes, and what a fitted model does with other tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tamis import codec
from tamis.base.classifier import ReadableClassifier
from tamis.errors import BadOption
from tamis.flagship.classifier import TamisClassifier
from tamis.flagship.scorecard import RoundingLoss, Scorecard
from tamis.io.datasets import load_dataset
from tamis.io.models import load, save
from tamis.io.tables import Columns, blocks, flags, header, level, levels, number, read
from tamis.io.writing import writing
from tamis.registry import all_estimators
from tamis.results.data import Notes, Results, ShownRows, Task
from tamis.results.describe import cases_of, evaluate, parts_of, show_rows, take
from tamis.results.tables import summary
from tamis.table.encoding import Nominal
from tamis.table.sources.parquet import arrow
from tamis.views import report
from tamis.workflow.comparison import Comparison
from tamis.workflow.job import versions
from tamis.workflow.prepare import as_columns, check_column, complete, missing_cells, row_names

OUTSIDE_SHARE = 0.05  # of a column outside the training range that is worth a warning
PREFIX = "tamis_"  # of a new column whose name is taken

Contents = dict[str, tuple[str, bytes | Callable[[Path], None] | None]]


# ---------------------------------------------------------------------- writing


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, before any work is done."""
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"{str(nearest)!r} is a file: name a folder for the results")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"{str(nearest)!r} cannot be written to: name another folder for the results")


def write(results: Results, folder: Path) -> dict[str, Path]:
    """Write model.tamis, metrics.json and report.html: each completely, and none of them if one cannot be made.

    Without jinja2 there is no report, and one of an earlier run is removed; the model and the measures are
    written nevertheless.
    """
    page = _page(lambda: report.render(results))
    if page is None:
        (folder / "report.html").unlink(missing_ok=True)
    contents: Contents = {
        "model": ("model.tamis", lambda path: save(results, path)),
        "metrics": ("metrics.json", _json(summary(results))),
        "report": ("report.html", page),
    }
    return _write_all(folder, contents)


def write_comparison(comparison: Comparison, folder: Path) -> dict[str, Path]:
    """Write compare.json and compare.html; without jinja2 only the first."""
    found = comparison.to_dict()
    page = _page(lambda: report.render_comparison(found))
    return _write_all(folder, {"numbers": ("compare.json", _json(found)), "page": ("compare.html", page)})


def _write_all(folder: Path, contents: Contents) -> dict[str, Path]:
    """Write {what: (name, bytes or a function that writes)}, all or nothing; contents that are None are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    with ExitStack() as stack:
        for what, (name, content) in contents.items():
            if content is None:
                continue
            files[what] = folder / name
            temporary = stack.enter_context(codec.replacing(files[what]))
            if isinstance(content, bytes):
                temporary.write_bytes(content)
            else:
                content(temporary)
    return files


def _json(document: dict[str, Any]) -> bytes:
    return f"{json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)}\n".encode("utf-8", "replace")


def _page(render: Callable[[], str]) -> bytes | None:
    """A page as bytes, or None where what it is made with is not installed."""
    if find_spec("jinja2") is None:
        return None
    return render().encode("utf-8", "replace")


def export_dataset(name: str, path: Path) -> str:
    """Write a dataset by its name to a file; the name of its target."""
    columns, target = load_dataset(name)
    pa = arrow()
    with writing(path) as write_batch:
        write_batch(pa.RecordBatch.from_pydict({k: pa.array(v, from_pandas=True) for k, v in columns.items()}))
    return target


# ---------------------------------------------------------------------- reading


def load_results(path: str | os.PathLike) -> Results:
    """Results from a model file; of a model that was saved without results, what it knows of itself."""
    all_estimators()  # a class is known to the reader once its module is imported
    loaded = codec.read(path, "model")
    return loaded if isinstance(loaded, Results) else describe(load_classifier(path), Path(path).name)


def load_classifier(path: str | os.PathLike) -> ReadableClassifier:
    """Read the classifier of a model file."""
    model = load(path)
    if not isinstance(model, ReadableClassifier):
        raise ValueError(f"{str(path)!r} holds a {type(model).__name__}, not a classifier: use it from Python")
    return model


def describe(model: ReadableClassifier, source: str) -> Results:
    """Results of a model without training rows and test."""
    names = [str(name) for name in getattr(model, "feature_names_in_", range(model.n_features_in_))]
    split = "not known: the model was saved without its test"
    kept = {name: np.empty(0) for name in model.model_.encoder.names}
    decision, probability = np.empty((0, len(model.intercept_))), np.empty((0, len(model.classes_)))
    return Results(
        model=model,
        task=Task(None, None, None, None, 0),
        evaluation=None,
        parts=parts_of(model),
        cases=cases_of(model, None, None, None),
        rows=ShownRows(np.empty(0, dtype=object), kept, None, model.classes_[:0], decision, probability),
        stability=None,
        notes=Notes(source, 0, 0, len(names), 0, {}, (), {}, {}, split, None, None, ()),
        seconds={},
        versions=versions(),
    )


def kinds_of(model: ReadableClassifier) -> dict[str, str]:
    """The type of each kept feature in a file: "number", "text" or "flag"."""
    encoder = model.model_.encoder
    return {name: _kind(column) for name, column in zip(encoder.names, encoder.columns, strict=True)}


def _kind(column: Any) -> str:
    levels = column.levels if isinstance(column, Nominal) else ()
    if levels and all(isinstance(v, bool) for v in levels):
        return "flag"
    return "text" if any(isinstance(v, str) for v in levels) else "number"


def read_for(results: Results, path: Path, missing: Collection[str] = (), encoding: str = "utf-8") -> Columns:
    """A complete table with the kept features as the model of some results expects them."""
    kinds, task = kinds_of(results.model), results.task
    labels = [name for name in (task.id_column, task.group_column) if name]
    text = [name for name, kind in kinds.items() if kind != "number"] + labels
    table = read(path, text=text, missing=missing, encoding=encoding)
    for name, kind in kinds.items():
        if name in table and kind == "number" and table[name].dtype.kind != "f":
            raise ValueError(f"column {name!r} does not hold numbers, as it did when the model was fitted")
    return table


def _blocks_for(
    model: ReadableClassifier, path: str | os.PathLike, missing: Collection[str], encoding: str
) -> Iterator[tuple[Any, Columns]]:
    """The blocks of a file, with the kept features as the model expects them."""
    names, kinds = dict.fromkeys(header(path, encoding)), kinds_of(model)
    for name in kinds:
        check_column(names, name)
    for batch, columns in blocks(path, kinds, missing=missing, encoding=encoding):
        if batch.num_rows:
            yield batch, columns or Columns({"": np.zeros(batch.num_rows)})  # a model without features counts rows


# ---------------------------------------------------------------------- a test on other rows


def evaluate_on(results: Results, table: Any, source: str, target: str | None = None) -> Results:
    """The same results with the evaluation, the rows and the notes of another table.

    Parameters
    ----------
    results : of a fit
    table, source : other rows, and the name of their table
    target : its column of classes, by default that of the fit; without one nothing is evaluated
    """
    columns, task, model = as_columns(table), results.task, results.model
    for name in (*model.model_.encoder.names, *([] if target is None else [target])):
        check_column(columns, name)
    target = target or task.target
    n = len(next(iter(columns.values())))
    rows, truth = np.arange(n), None
    if target in columns:
        rows = np.flatnonzero(~missing_cells(columns[target]))
        truth = _as_labels(columns[target][rows], model.classes_, target)
    own = take({k: v for k, v in columns.items() if k != target}, rows)
    own |= _as_fitted(model, own)
    labels = row_names(columns.get(task.id_column or ""), rows)
    warned = [f"column {name!r}: {words}" for name, words in oddities(model, own).items()]
    evaluation = None
    if truth is not None and len(truth):
        groups = None
        if task.group_column in columns:
            groups = complete(columns[task.group_column], rows, task.group_column, "group")
        balance = results.notes.balance
        majority = max(balance, key=lambda label: balance[label][0]) if balance else None
        where = f"{len(truth)} rows of {source}"
        evaluation = evaluate(model, own, truth, groups=groups, majority=majority, source=where, seed=task.seed)
        warned.append(f"tested on the rows of {source}; whether the model was trained on some of them is not known")
    if len(rows) < n:
        warned.append(f"{n - len(rows)} rows of {source} have no class and were left out")
    return replace(
        results,
        evaluation=evaluation,
        rows=show_rows(model, own, truth, labels, task.seed),
        notes=replace(results.notes, warnings=(*results.notes.warnings, *warned), repeated=None),
        task=replace(task, target=target),
    )


def _as_fitted(model: ReadableClassifier, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The kept features with the types of the fit, however the table has them."""
    kinds = {name: kind for name, kind in kinds_of(model).items() if name in columns}
    convert = {"text": levels, "flag": flags}
    return {name: convert[kind](columns[name]) if kind in convert else columns[name] for name, kind in kinds.items()}


def _as_labels(values: np.ndarray, classes: np.ndarray, target: str) -> np.ndarray:
    """Classes of new rows, however they were typed."""
    known = {str(level(label)): label for label in classes.tolist()}
    known = {_canonical(word): label for word, label in known.items()} | known
    words = [str(level(v)) for v in values.tolist()]
    words = [word if word in known else _canonical(word) for word in words]
    odd = [w for w in words if w not in known]
    if odd:
        raise ValueError(f"target {target!r} holds {odd[0]!r}, which is not a class of the model: {', '.join(known)}")
    return np.array([known[w] for w in words], dtype=classes.dtype)


def _canonical(word: str) -> str:
    """The same word for numbers that are written in several ways."""
    value = number(word)
    return word if value is None else str(level(value))


def oddities(model: ReadableClassifier, columns: Mapping[str, np.ndarray]) -> dict[str, str]:
    """{feature: words} where rows are unlike those of training: unknown categories, many numbers out of range."""
    out = {}
    encoder = model.model_.encoder
    for name, column in zip(encoder.names, encoder.columns, strict=True):
        cells = [v for v in columns[name].tolist() if v is not None and v == v] if name in columns else []
        if isinstance(column, Nominal):
            levels = set(column.levels)
            odd = [v for v in cells if v not in levels]
            what = "are categories not seen in training and "
            what += "add nothing" if model.model_.is_additive else "match no case"
        else:
            odd = [v for v in cells if not column.low <= v <= column.high]
            odd = odd if len(odd) > OUTSIDE_SHARE * len(cells) else []
            limits = f"{column.low:.6g} to {column.high:.6g}"
            what = f"lie outside the training range {limits} and are replaced by its nearest end"
        if odd:
            out[name] = f"{len(odd)} of {len(cells)} cells {what}, such as {odd[0]!r}"
    return out


# ---------------------------------------------------------------------- scorecards


def scorecard(results: Results, *, good: str | None = None, **scale: Any) -> Scorecard:
    """Return the points of a model; `good` is a class as text, and `scale` as in `TamisClassifier.to_scorecard`."""
    model = results.model
    if not isinstance(model, TamisClassifier):
        raise BadOption(f"a scorecard needs a TamisClassifier, and this is a {type(model).__name__}")
    known = {str(label): label for label in model.classes_.tolist()}
    if good is not None and good not in known:
        raise BadOption(f"class {good!r} is unknown: the classes are {', '.join(known)}")
    if len(model.instances_):
        raise BadOption("the model has cases, which have no points: fit it with --max-instances 0")
    return model.to_scorecard(good=None if good is None else known[good], **scale)


def rounding_loss(results: Results, card: Scorecard, table: Any) -> RoundingLoss:
    """What the whole points of a scorecard lose on the rows of a table that have a class."""
    columns, target, model = as_columns(table), results.task.target, results.model
    for name in (*model.model_.encoder.names, str(target)):
        check_column(columns, name)
    rows = np.flatnonzero(~missing_cells(columns[str(target)]))
    truth = _as_labels(columns[str(target)][rows], model.classes_, str(target))
    return card.rounding_loss(_as_fitted(model, take(columns, rows)), truth)


# ---------------------------------------------------------------------- predictions


def predicted(
    model: ReadableClassifier,
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
    for batch, columns in _blocks_for(model, path, missing, encoding):
        empty = False
        if odd is not None:
            odd.update({name: words for name, words in oddities(model, columns).items() if name not in odd})
        taken = batch.schema.names
        for name, values in _scores(model, columns, top).items():
            while name in taken:
                name = f"{PREFIX}{name}"
            batch = batch.append_column(name, pa.array(values.tolist()))
        yield batch
    if empty:
        raise ValueError(f"{Path(path).name!r} has no rows below its header")


def _scores(model: ReadableClassifier, columns: Columns, top: int) -> dict[str, np.ndarray]:
    """Prediction, score, probability and, with `top`, the largest contributions of each row.

    With two classes score and probability are those of the positive class, else of the predicted one.
    The base value, the `top` contributions and the rest add up to the score.
    """
    predicted = model.predict(columns)
    rows = np.arange(len(predicted))
    decision = np.asarray(model.decision_function(columns)).reshape(len(rows), -1)
    output = np.argmax(decision, axis=1)  # of two classes the only one
    out = {"prediction": predicted, "score": decision[rows, output]}
    if hasattr(model, "predict_proba"):
        probability = model.predict_proba(columns)
        out["probability"] = probability[:, 1] if decision.shape[1] == 1 else probability[rows, output]
    if not top:
        return out
    explanation = model.explain(columns)
    parts = explanation.by_part[rows, output]
    names = np.array(explanation.part_names, dtype=object)
    order = np.argsort(-np.abs(parts), axis=1, kind="stable")[:, :top]
    out["base_value"] = explanation.base_value[output]
    for k, place in enumerate(order.T, 1):
        out[f"top_{k}"] = names[place]
        out[f"top_{k}_contribution"] = parts[rows, place]
    out["rest"] = parts.sum(axis=1) - np.take_along_axis(parts, order, axis=1).sum(axis=1)
    return out
