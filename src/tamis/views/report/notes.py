"""Tables without charts: confusion, cases, data, settings, and how to cite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tamis.explain import SIMILAR
from tamis.results.data import Evaluation, Results
from tamis.views.report.text import Table, cell, interval, number, per_output, percent, signed, signed_percent


def metrics(evaluation: Evaluation, several: bool) -> list[dict[str, str]]:
    """The tiles: name, value, interval, meaning."""
    mean = ", mean over the classes" if several else ""
    hits, hits_range = interval(evaluation.accuracy, lambda v: percent(100 * v))
    auc, auc_range = interval(evaluation.auc)
    ks, ks_range = interval(evaluation.ks)
    majority = percent(100 * evaluation.majority)  # "unknown" for a model that came without its notes
    return [
        {"name": "Accuracy", "value": hits, "range": hits_range, "meaning": "rows classified correctly"},
        {"name": "Largest class", "value": majority, "range": "", "meaning": "right by always giving one answer"},
        {"name": "AUC", "value": auc, "range": auc_range, "meaning": f"a row of the class scores above another{mean}"},
        {"name": "KS", "value": ks, "range": ks_range, "meaning": f"largest gap between the score curves{mean}"},
    ]


def confusion(evaluation: Evaluation, classes: Sequence[Any]) -> Table:
    """Counts of true against predicted classes."""
    counts = evaluation.confusion
    rows = []
    for k, label in enumerate(classes):
        total = int(counts[k].sum())
        found = percent(100 * counts[k, k] / total) if total else "no rows"
        rows.append([str(label), *(str(int(c)) for c in counts[k]), found])
    head = ["True class", *(f"Predicted {label}" for label in classes), "Found"]
    return Table("Confusion matrix: true classes along the rows, predicted ones along the columns", head, rows)


def case_table(results: Results, outputs: Sequence[Any]) -> Table:
    """The kept cases with their values."""
    cases = results.cases
    weighted = all(case.importance is not None for case in cases)
    names = list(dict.fromkeys(name for part in results.parts for name in part.features))
    columns = ["Pull", "Share of variation", *(["Importance"] if weighted else [])]
    head = ["Case", "Class", *(name for column in columns for name in per_output(column, outputs)), *names]
    rows = []
    for case in cases:
        row = [str(case.label), "not known" if case.truth is None else str(case.truth)]
        row += [signed(v) for v in case.pull] + [percent(v) for v in case.variation]
        row += [signed_percent(v) for v in case.importance] if weighted and case.importance is not None else []
        rows.append([*row, *(cell(case.values.get(name)) for name in names)])
    texts = {name for name in names if any(isinstance(case.values.get(name), str) for case in cases)}
    words = {k for k, name in enumerate(names, len(head) - len(names)) if name in texts}
    return Table("The kept cases, the most influential first", head, rows, frozenset({1, *words}))


def similar_table(results: Results, outputs: Sequence[Any]) -> Table | None:
    """The pull of each kept case where rows are compared with it as a whole, the strongest first; None without such."""
    pulling = [case for case in results.cases if case.whole_pull.any()]
    if not pulling:
        return None
    rows = [
        [str(case.label), "not known" if case.truth is None else str(case.truth), *(signed(v) for v in case.whole_pull)]
        for case in sorted(pulling, key=lambda case: -float(abs(case.whole_pull).max()))
    ]
    head = ["Case", "Class", *per_output("Pull", outputs)]
    return Table(f"The pull of {SIMILAR}, the strongest first", head, rows, frozenset({1}))


def data_tables(results: Results) -> list[Table]:
    """Class balance, columns with gaps, columns that were dropped."""
    notes, tables = results.notes, []
    if notes.balance:
        rows = [[str(label), str(train), str(test)] for label, (train, test) in notes.balance.items()]
        tables.append(Table("Rows of each class", ["Class", "Training rows", "Test rows"], rows))
    if notes.missing:
        rows = [[name, str(gaps)] for name, gaps in sorted(notes.missing.items(), key=lambda item: -item[1])]
        tables.append(Table("Missing cells", ["Column", "Rows without a value"], rows))
    if notes.dropped:
        rows = [[name, why] for name, why in notes.dropped.items()]
        tables.append(Table("Columns that were not offered to the model", ["Column", "Why"], rows, frozenset({1})))
    return tables


def data_facts(results: Results) -> list[tuple[str, str]]:
    """(name, value) of what happened to the data."""
    notes, task = results.notes, results.task
    facts = [("File", notes.source)]
    if notes.n_rows:
        facts.append(("Rows", f"{notes.n_rows}; {notes.no_target} of them have no class and were left out"))
        facts.append(("Columns", f"{notes.n_columns}; {notes.n_features} of them were offered as features"))
    facts.append(("Target", task.target or "not known"))
    named = {"Rows named by": task.id_column, "Split given by": task.split_column, "Groups given by": task.group_column}
    facts += [(name, column) for name, column in named.items() if column is not None]
    if notes.groups is not None:
        facts.append(("Groups", f"{notes.groups}; the rows of a group stay on one side of every split"))
    facts.append(("Test rows", notes.split))
    if notes.n_rows:
        repeated = "not known" if notes.repeated is None else notes.repeated
        facts.append(("Repeated rows", f"test rows that equal a training row in all features: {repeated}"))
    if notes.categories:
        facts.append(("Categories", ", ".join(notes.categories)))
    return facts


def setting_facts(results: Results) -> list[tuple[str, str]]:
    """(name, value) of the method, what it chose, how the fit ended, and what it ran on."""
    model = results.model
    facts = [("Method", type(model).__name__)]
    for name, value in model.summary().items():
        shown = number(value) if isinstance(value, float) else str(value)
        facts.append((name.capitalize(), shown))
    status = getattr(model, "status_", None)
    if status is not None:
        facts.append(("How the fit ended", str(status.value)))
    facts.append(("Seed", str(results.task.seed)))
    times = [f"{stage} {seconds:.1f}" for stage, seconds in results.seconds.items() if math.isfinite(seconds)]
    if times:
        facts.append(("Seconds", ", ".join(times)))
    facts.append(("Versions", ", ".join(f"{name} {version}" for name, version in results.versions.items())))
    return facts


def citations(results: Results) -> list[str]:
    """What to cite: the library, and the method where it is a published one."""
    version = results.versions.get("tamis")
    library = (
        "The tamis developers. tamis: kernel classifiers that keep few cases and few features and explain every "
        f"prediction exactly{f'. Version {version}' if version else ''}."
    )
    return [library, results.model.citation] if results.model.citation else [library]
