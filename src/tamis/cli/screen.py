"""Results on one screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tamis.explain import SIMILAR
from tamis.io.datasets import Dataset
from tamis.results import Results, tables
from tamis.results.tables import counted, sentence
from tamis.results.text import LOG_ODDS, count, listed, odds_factor, points, shortened
from tamis.workflow import Comparison, ExplainedRow

OTHER_LINES = 27  # lines that show neither features nor cases
MAX_EXPLAINED_LINES = 20  # of a decision of an additive model
MAX_CONFUSION_CLASSES = 6
CONFUSION_LETTERS = 44  # of the names of all classes
MAX_FAILURE_LETTERS = 60
ASCII = str.maketrans("\u2212\u2013\u00d7", "--x")  # not every terminal has these


def overview(results: Results, height: int) -> RenderableType:
    """The sentences, the test, the features and the cases, as many as fit."""
    most = int(np.clip((height - OTHER_LINES) // 2, 4, 12))
    lines: list[RenderableType] = [Text(sentence(results).translate(ASCII)), Text(), test(results), Text()]
    features, cases = tables.part_table(results, brief=True), tables.case_table(results, brief=True)
    if results.parts:
        lines.append(_titled(f"{counted(results.parts)} kept", features, most))
    refits = max((len(part.by_fold) for part in results.parts), default=0)
    if refits:
        lines.append(Text(f"Refits: {refits} more fits, each leaving out a different part of the training rows."))
    lines.append(Text())
    if results.cases:
        lines += [_titled(f"{count(len(results.cases), 'case')} kept", cases, most), Text()]
    settings = ", ".join(f"{name} {value}" for name, value in tables.settings(results.model)).translate(ASCII)
    if settings:
        chosen = bool(results.path) and not results.is_additive
        lines.append(Text(f"Chosen by cross-validation: {settings}" if chosen else _capitalised(settings)))
    return Group(*lines)


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _titled(title: str, table: tables.Table, most: int | None = None) -> RenderableType:
    """A table below its title, with at most so many rows."""
    first = "" if most is None or len(table.rows) <= most else f"; the {most} most influential of them:"
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
    measures = _drawn(tables.Table("", ["", "", "95% interval"], rows))
    if len(classes) > MAX_CONFUSION_CLASSES:
        shown: RenderableType = Text(f"{count(wrong, 'row')} predicted wrongly\n(all are counted in the report)")
    else:
        short = {str(label): shortened(label, CONFUSION_LETTERS // len(classes)) for label in classes}
        head = ["True class", *(f"Predicted\n{name}" for name in short.values()), "Correct"]
        shown = _drawn(replace(confusion, head=head, rows=[[short[row[0]], *row[1:]] for row in confusion.rows]))
    title = Text(f"Test on {evaluation.source}", style="bold")
    if len(classes) > 2:
        return Group(title, shown, Text(), measures)
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_row(shown, measures)
    return Group(title, grid)


def explained(found: ExplainedRow, height: int) -> RenderableType:
    """The sentence and the contributions: of features, pairs and cases together, or of features and of cases."""
    lines: list[RenderableType] = [Text(found.sentence.translate(ASCII)), Text()]
    if found.is_additive:
        most = int(np.clip(height - 8, 5, MAX_EXPLAINED_LINES)) - 3
        return Group(*lines, added_up(found, most))
    most = max(5, (height - 14) // 2)
    by_part = _sized(found.shown_parts, found.by_part, most)
    by_case = _sized(found.shown_cases, found.by_case, most)
    return Group(*lines, waterfall("By feature", found, by_part), waterfall("By case", found, by_case))


def added_up(found: ExplainedRow, most: int) -> RenderableType:
    """Features, then pairs, then cases, of each the largest first; the smallest, and what rounds to nothing, as one."""
    values = np.concatenate([found.by_part, found.by_case])
    names = [*found.shown_parts, *found.shown_cases]
    kind = np.array([*(len(cells) for cells in found.values), *(3 for _ in found.cases)], dtype=int)
    order = np.argsort(-np.abs(values), kind="stable")
    n = min(most, sum(points(value) != points(0.0) for value in values))
    kept = sorted(order[:n].tolist(), key=lambda k: (kind[k], -abs(values[k])))
    lines = [(names[k], float(values[k])) for k in kept]
    if len(order) > n:
        lines.append((f"all other ({len(order) - n})", float(values[order[n:]].sum())))
    kinds = ["features", *(["pairs of features"] if 2 in kind else []), *([SIMILAR] if 3 in kind else [])]
    return waterfall(_capitalised(listed(kinds)), found, lines)


def _sized(names: Sequence[str], values: np.ndarray, most: int) -> list[tuple[str, float]]:
    """Names and contributions, the largest first; the smallest of many are added up."""
    order = np.argsort(-np.abs(values), kind="stable")
    lines = [(names[k], float(values[k])) for k in order[:most]]
    if len(order) > most:
        lines.append((f"{len(order) - most} more", float(values[order[most:]].sum())))
    return lines


def waterfall(title: str, found: ExplainedRow, lines: Sequence[tuple[str, float]]) -> RenderableType:
    """Contributions as signed bars, from the base value to the score."""
    score, form = found.score_name, points if found.is_additive else "{:+.4f}".format
    unit = max((abs(value) for _, value in lines), default=1.0) or 1.0
    rows = [["starting value" if found.is_additive else "base value", form(found.base_value), "", ""]]
    for name, value in lines:
        bar = ("+" if value > 0 else "-") * int(np.ceil(20 * abs(value) / unit)) if value else ""
        rows.append([name, form(value), f"x {odds_factor(value)}" if score == LOG_ODDS else "", bar])
    rows.append([f"sum = {score}", form(found.score), "", ""])
    head = ["", score, "odds" if score == LOG_ODDS else "", ""]
    return _titled(title, tables.Table(title, head, rows, frozenset({3})))


def comparison(found: Comparison) -> RenderableType:
    """All methods on the same folds."""
    title = f"{found.source}: {found.n_rows} rows, {found.n_features} features, {found.folds} folds"
    entries = [{**e, "failure": e["failure"][:MAX_FAILURE_LETTERS]} for e in found.to_dict()["entries"]]
    table = tables.comparison_table(entries)
    return _titled(title, replace(table, head=[*table.head[:-1], "Seconds\nper fit"]))


def listing(found: Sequence[Dataset]) -> RenderableType:
    """The datasets that are available."""
    rows = [[d.name, d.target, str(d.n_rows), str(d.n_features), str(d.n_classes), d.where] for d in found]
    head = ["", "target", "rows", "features", "classes", "from"]
    return _drawn(tables.Table("Datasets", head, rows, frozenset({1, 5})))
