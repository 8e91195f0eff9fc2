"""Results on one screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tamis.explain.intervals import Interval
from tamis.io.datasets import Dataset
from tamis.results import Results
from tamis.results.words import counted, sentence
from tamis.workflow import Comparison

AROUND = 26  # lines that are neither features nor cases


def overview(results: Results, height: int) -> RenderableType:
    """The sentence, the test, the features and the cases, as many as fit."""
    most = int(np.clip((height - AROUND) // 2, 4, 12))
    lines: list[RenderableType] = [Text(sentence(results)), Text()]
    lines += [test(results), Text(), features(results, most), Text(), cases(results, most), Text()]
    settings = ", ".join(f"{name} {_short(value)}" for name, value in results.model.summary().items())
    if settings:
        lines.append(Text(f"Chosen by cross-validation: {settings}" if results.path else f"Settings: {settings}"))
    return Group(*lines)


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for k, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if k == 0 else "right", overflow="fold" if k == 0 else "ellipsis")
    return table


def _titled(title: str, table: RenderableType) -> RenderableType:
    return Group(Text(title, style="bold"), table)


def test(results: Results) -> RenderableType:
    """The confusion matrix, and accuracy, AUC and KS with intervals beside it."""
    evaluation = results.evaluation
    if evaluation is None:
        return Text("No test: the classes of the rows are not known.")
    pairs = (("accuracy", evaluation.accuracy, 100.0), ("AUC", evaluation.auc, 1.0), ("KS", evaluation.ks, 100.0))
    numbers = _table("", "", "95% interval")
    for name, interval, unit in pairs:
        numbers.add_row(name, *_measure(interval, unit))
    if evaluation.majority == evaluation.majority:
        numbers.add_row("majority", f"{100 * evaluation.majority:.1f}%", "")
    grid = Table.grid(padding=(0, 5, 0, 0))
    grid.add_row(_confusion(results), numbers)
    return _titled(f"Test on {evaluation.source}", grid)


def _confusion(results: Results) -> RenderableType:
    """Counts of true against predicted classes."""
    counts = results.evaluation.confusion if results.evaluation is not None else np.zeros((0, 0))
    classes = [str(label) for label in results.model.classes_.tolist()]
    if len(classes) > 6:
        return Text(f"{int(counts.sum() - np.trace(counts))} wrong\n(confusion in the report)")
    table = _table("", *(f"said {label}" for label in classes))
    for label, row in zip(classes, counts, strict=True):
        table.add_row(Text(label), *(str(count) for count in row))
    return table


def _measure(interval: Interval, unit: float) -> tuple[str, str]:
    if interval.value != interval.value:
        return "unknown", ""
    value, low, high = (f"{unit * v:.1f}" if unit > 1 else f"{v:.3f}" for v in interval)
    sign = "%" if unit > 1 else ""
    return f"{value}{sign}", "" if interval.low != interval.low else f"{low} to {high}"


def features(results: Results, most: int) -> RenderableType:
    """The kept features and what acts together, the most influential first."""
    weighted = any(part.importance is not None for part in results.parts)
    table = _table("", *(["importance"] if weighted else []), "variation", "shape", "in folds")
    folds = results.stability
    for part in results.parts[:most]:
        kept = "" if not len(part.by_fold) else f"{int(np.sum(part.by_fold > 0))}/{len(part.by_fold)}"
        cells = [*([_signed(part.importance)] if weighted else []), _percent(part.variation), part.direction]
        table.add_row(Text(part.name), *cells, kept if folds else "")
    return _titled(f"{counted(results.parts)} kept" + _first(results.parts, most), table)


def cases(results: Results, most: int) -> RenderableType:
    """The kept cases, the most influential first."""
    weighted = any(case.importance is not None for case in results.cases)
    table = _table("", "class", *(["importance"] if weighted else []), "variation", "pull")
    for case in results.cases[:most]:
        label = case.label if isinstance(case.label, str) else f"row {case.label}"
        pull = case.pull[int(np.argmax(np.abs(case.pull)))] if len(case.pull) else 0.0
        cells = [*([_signed(case.importance)] if weighted else []), _percent(case.variation), f"{pull:+.3g}"]
        table.add_row(Text(label), Text("" if case.truth is None else str(case.truth)), *cells)
    kept = f"{len(results.cases)} case{'' if len(results.cases) == 1 else 's'} kept"
    return _titled(kept + _first(results.cases, most), table)


def _first(things: Sequence[Any], most: int) -> str:
    return f", the first {most}" if len(things) > most else ""


def _signed(values: np.ndarray | None) -> str:
    """A signed percentage; of several outputs the one of largest modulus."""
    return "" if values is None or not len(values) else f"{values[int(np.argmax(np.abs(values)))]:+.1f}%"


def _percent(values: np.ndarray) -> str:
    return f"{float(np.mean(values)):.1f}%"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def waterfall(
    title: str, base: float, names: Sequence[str], parts: np.ndarray, total: float, most: int
) -> RenderableType:
    """Contributions as signed bars, the largest first, from the base value to the score."""
    table = _table("", "adds", "")
    table.add_row("base value", f"{base:+.4f}", "")
    order = np.argsort(-np.abs(parts), kind="stable")
    unit = max(float(np.abs(parts).max()), 1e-300) if len(parts) else 1.0
    for k in order[:most]:
        bar = ("+" if parts[k] > 0 else "-") * int(np.ceil(20 * abs(parts[k]) / unit)) if parts[k] else ""
        table.add_row(Text(names[k]), f"{parts[k]:+.4f}", Text(bar, justify="left"))
    if len(order) > most:
        table.add_row(f"{len(order) - most} more", f"{parts[order[most:]].sum():+.4f}", "")
    table.add_row("sum = score", f"{total:+.4f}", "")
    table.columns[2].justify = "left"
    return _titled(title, table)


def comparison(found: Comparison) -> RenderableType:
    """All methods side by side."""
    title = f"{found.source}: {found.n_rows} rows, {found.n_features} features, {found.folds} folds"
    table = _table("", "accuracy", "interval", "AUC", "features", "cases", "seconds")
    for entry in found.entries:
        if entry.failure:
            table.add_row(Text(entry.method), "failed", Text(entry.failure[:60]), "", "", "", f"{entry.seconds:.1f}")
            continue
        value, low, high = (f"{100 * v:.1f}" for v in entry.accuracy)
        counts = [f"{entry.n_features:.1f}", "all" if entry.n_cases is None else f"{entry.n_cases:.1f}"]
        table.add_row(
            Text(entry.method),
            f"{value}%",
            f"{low} to {high}",
            f"{entry.auc.value:.3f}",
            *counts,
            f"{entry.seconds:.1f}",
        )
    return _titled(title, table)


def listing(found: Sequence[Dataset]) -> RenderableType:
    """Datasets at hand."""
    table = _table("", "target", "rows", "features", "classes", "from")
    for d in found:
        table.add_row(d.name, d.target, str(d.n_rows), str(d.n_features), str(d.n_classes), d.where)
    return table
