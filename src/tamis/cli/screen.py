"""Results on one screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tamis.io.datasets import Dataset
from tamis.results import Results, tables
from tamis.results.tables import counted, sentence
from tamis.results.text import LOG_ODDS, count, effect
from tamis.workflow import Comparison, ExplainedRow

OTHER_LINES = 26  # lines that show neither features nor cases
MAX_CONFUSION_CLASSES = 6
MAX_FAILURE_LETTERS = 60
ASCII = str.maketrans("\u2212\u2013\u00d7", "--x")  # not every terminal has these


def overview(results: Results, height: int) -> RenderableType:
    """The sentences, the test, the features and the cases, as many as fit."""
    most = int(np.clip((height - OTHER_LINES) // 2, 4, 12))
    lines: list[RenderableType] = [Text(sentence(results)), Text(), test(results), Text()]
    features, cases = tables.part_table(results, brief=True), tables.case_table(results, brief=True)
    lines += [_titled(f"{counted(results.parts)} kept", features, most), Text()]
    lines += [_titled(f"{count(len(results.cases), 'case')} kept", cases, most), Text()]
    settings = ", ".join(f"{name} {value}" for name, value in tables.settings(results.model)).translate(ASCII)
    if settings:
        lines.append(Text(f"Chosen by cross-validation: {settings}" if results.path else f"Settings: {settings}"))
    return Group(*lines)


def _titled(title: str, table: tables.Table, most: int | None = None) -> RenderableType:
    """A table below its title, with at most so many rows."""
    first = "" if most is None or len(table.rows) <= most else f", the first {most}"
    return Group(Text(f"{title}{first}", style="bold"), _drawn(table, most))


def _drawn(table: tables.Table, most: int | None = None) -> Table:
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for k, column in enumerate(table.head):
        left = k == 0 or k in table.words
        overflow = "fold" if k == 0 else "ellipsis"
        drawn.add_column(Text(column), justify="left" if left else "right", overflow=overflow)  # type: ignore[arg-type]
    for name, *cells in table.rows[:most]:
        drawn.add_row(Text(name), *(Text(cell.translate(ASCII)) for cell in cells))
    return drawn


def test(results: Results) -> RenderableType:
    """The confusion matrix, with accuracy, AUC and KS and their intervals."""
    evaluation = results.evaluation
    if evaluation is None:
        return Text("No test: the classes of the rows are not known.")
    classes = results.model.classes_.tolist()
    wrong = int(evaluation.confusion.sum() - np.trace(evaluation.confusion))
    rows = [[name, value, interval] for name, value, interval, _ in tables.measures(evaluation)]
    confusion = tables.confusion(evaluation, classes)
    head = [name.replace("Predicted ", "Predicted\n", 1) for name in confusion.head]  # two lines are narrower
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_row(
        _drawn(replace(confusion, head=head))
        if len(classes) <= MAX_CONFUSION_CLASSES
        else Text(f"{count(wrong, 'row')} predicted wrongly\n(confusion matrix in the report)"),
        _drawn(tables.Table("", ["", "", "95% interval"], rows)),
    )
    return Group(Text(f"Test on {evaluation.source}", style="bold"), grid)


def waterfall(title: str, found: ExplainedRow, names: Sequence[str], parts: np.ndarray, most: int) -> RenderableType:
    """Contributions as signed bars, the largest first, from the base value to the score."""
    score = found.score_name
    order = np.argsort(-np.abs(parts), kind="stable")
    unit = max(float(np.abs(parts).max()), 1e-300) if len(parts) else 1.0
    rows = [["base value", f"{found.base_value:+.4f}", ""]]
    for k in order[:most]:
        bar = ("+" if parts[k] > 0 else "-") * int(np.ceil(20 * abs(parts[k]) / unit)) if parts[k] else ""
        factor = f"  {effect(parts[k], score).partition(' ')[2]}" if score == LOG_ODDS else ""
        rows.append([names[k], f"{parts[k]:+.4f}{factor}", bar])
    if len(order) > most:
        rows.append([f"{len(order) - most} more", f"{parts[order[most:]].sum():+.4f}", ""])
    rows.append([f"sum = {score}", f"{found.score:+.4f}", ""])
    return _titled(title, tables.Table(title, ["", score, ""], rows, frozenset({2})))


def comparison(found: Comparison) -> RenderableType:
    """All methods on the same folds."""
    title = f"{found.source}: {found.n_rows} rows, {found.n_features} features, {found.folds} folds"
    entries = [{**e, "failure": e["failure"][:MAX_FAILURE_LETTERS]} for e in found.to_dict()["entries"]]
    return _titled(title, tables.comparison_table(entries))


def listing(found: Sequence[Dataset]) -> RenderableType:
    """The datasets that are available."""
    rows = [[d.name, d.target, str(d.n_rows), str(d.n_features), str(d.n_classes), d.where] for d in found]
    head = ["", "target", "rows", "features", "classes", "from"]
    return _drawn(tables.Table("Datasets", head, rows, frozenset({1, 5})))
