"""What the main job leaves on disk, and back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from tamis import codec
from tamis.base.classifier import KernelClassifier
from tamis.io.datasets import load_dataset
from tamis.io.models import load, save
from tamis.io.tables import Columns, read
from tamis.io.writing import writing
from tamis.registry import all_estimators
from tamis.results.data import Results
from tamis.results.tables import summary
from tamis.table.sources.parquet import arrow
from tamis.views import report
from tamis.workflow.comparison import Comparison
from tamis.workflow.job import describe
from tamis.workflow.score import kinds_of


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, before any work is done."""
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"{str(nearest)!r} is a file: name a folder for the results")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"{str(nearest)!r} cannot be written to: name another folder for the results")


def write(results: Results, folder: Path) -> dict[str, Path]:
    """Write model.tamis, metrics.json and report.html: each whole, and none of them if one cannot be made.

    Without jinja2 or plotly there is no report, and one of an earlier run is taken away; the model and the
    measures are written all the same.
    """
    names = {"model": "model.tamis", "metrics": "metrics.json", "report": "report.html"}
    files = {what: folder / name for what, name in names.items()}
    page = _page(lambda: report.render(results))
    if page is None:
        files.pop("report").unlink(missing_ok=True)
    measures = json.dumps(summary(results), ensure_ascii=False, indent=2, allow_nan=False)
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        temporary = {what: stack.enter_context(codec.replacing(path)) for what, path in files.items()}
        save(results, temporary["model"])
        temporary["metrics"].write_bytes(f"{measures}\n".encode("utf-8", "replace"))
        if page is not None:
            temporary["report"].write_bytes(page)
    return files


def _page(render: Callable[[], str]) -> bytes | None:
    """A page as bytes, or None where what it is made with is not installed."""
    if any(find_spec(name) is None for name in ("jinja2", "plotly")):
        return None
    return render().encode("utf-8", "replace")


def load_results(path: str | os.PathLike) -> Results:
    """Results from a model file; of a model that was saved alone, what it knows of itself."""
    all_estimators()  # a class is known to the reader once its module is imported
    loaded = codec.read(path, "model")
    return loaded if isinstance(loaded, Results) else describe(load_classifier(path), Path(path).name)


def load_classifier(path: str | os.PathLike) -> KernelClassifier:
    """Read the classifier of a model file."""
    model = load(path)
    if not isinstance(model, KernelClassifier):
        raise ValueError(f"{str(path)!r} holds a {type(model).__name__}, not a classifier: use it from Python")
    return model


def read_for(results: Results, path: Path, missing: Collection[str] = (), encoding: str = "utf-8") -> Columns:
    """A whole table with the kept features as the model of some results wants them."""
    kinds = kinds_of(results.model)
    task = results.task
    labels = [name for name in (task.id_column, task.group_column) if name]
    text = [name for name, kind in kinds.items() if kind != "number"] + labels
    table = read(path, text=text, missing=missing, encoding=encoding)
    for name, kind in kinds.items():
        if name in table and kind == "number" and table[name].dtype.kind != "f":
            raise ValueError(f"column {name!r} does not hold numbers, as it did when the model was fitted")
    return table


def export_dataset(name: str, path: Path) -> str:
    """Write a dataset by its name to a file; the name of its target."""
    columns, target = load_dataset(name)
    pa = arrow()
    batch = pa.RecordBatch.from_pydict({k: pa.array(v, from_pandas=True) for k, v in columns.items()})
    with writing(path) as write_batch:
        write_batch(batch)
    return target


def write_comparison(comparison: Comparison, folder: Path) -> dict[str, Path]:
    """Write compare.json and compare.html; without jinja2 or plotly the first alone."""
    numbers = json.dumps(comparison.to_dict(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    texts = {"numbers": numbers.encode("utf-8", "replace")}
    page = _page(lambda: report.render_comparison(comparison.to_dict()))
    texts |= {} if page is None else {"page": page}
    names = {"numbers": "compare.json", "page": "compare.html"}
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        for what, text in texts.items():
            stack.enter_context(codec.replacing(folder / names[what])).write_bytes(text)
    return {what: folder / names[what] for what in texts}
