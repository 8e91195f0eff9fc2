"""Why one row of a file gets its prediction."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from tamis.errors import BadOption
from tamis.explain import AdditiveExplanation
from tamis.explain.explanation import plain
from tamis.explain.kernel_explanation import ChannelExplanation
from tamis.io.tables import Columns, blocks, header
from tamis.results.data import Results
from tamis.results.describe import take
from tamis.results.shapes import as_cell
from tamis.results.text import LOG_ODDS, cell, points
from tamis.workflow.files import kinds_of, load_results
from tamis.workflow.prepare import check_column


@dataclass(frozen=True)
class ExplainedRow:
    """The explanation of one decision: base value and contributions add up to the score.

    Of an additive model features, pairs and cases add up together; of others features and cases each by themselves.

    Attributes
    ----------
    row, label : place in the file (the first is 1), and id
    output : the class whose score is explained
    against : where the score is a log-odds, the class that `output` is compared with: the other one, of several the
        most likely other one; else None
    predicted, truth, probability : the last is of `output`; None where it is not known
    base_value, score : the first and the last number of the sum
    parts, values, by_part : features (or groups of them), their values, and what they add
    cases, classes, by_case : kept cases, their classes (None: not known), and what they add
    lacks : absent channels and what they add to rows that have them, in words; empty where the method has none
    score_name : "log-odds" or "score"
    similarity : from 0 to 1, of the row and the cases of an additive model; None for others
    weight_shift : what class weights add to a log-odds, and its probability leaves out
    """

    row: int
    label: Any
    output: Any
    predicted: Any
    truth: Any
    probability: float | None
    base_value: float
    score: float
    parts: list[str]
    values: list[tuple]
    by_part: np.ndarray
    cases: list[str]
    classes: list[Any]
    by_case: np.ndarray
    lacks: str = ""
    score_name: str = "score"
    similarity: np.ndarray | None = None
    against: Any = None
    weight_shift: float = 0.0

    @property
    def is_additive(self) -> bool:
        """Whether features, pairs and cases add up together."""
        return self.similarity is not None

    @property
    def sentence(self) -> str:
        """The decision in words."""
        name = f"Row {self.row}" if self.label is None else f"Row {self.row} ({self.label})"
        truth = "" if self.truth is None else f"; the true class is {str(self.truth)!r}"
        text = f"{name} is predicted {str(self.predicted)!r}{truth}. {self._decision}."
        if not self.lacks:
            return text
        brackets = " (in brackets: the range of what it adds to 90% of the training rows that have it)"
        return f"{text} It lacks {self.lacks}{brackets if '(' in self.lacks else ''}."

    @property
    def _decision(self) -> str:
        """The score and the probability in words."""
        if self.score_name != LOG_ODDS:
            likely = "" if self.probability is None else f", its probability {self.probability:.1%}"
            return f"The {self.score_name} of {str(self.output)!r} is {self.score:+.4f}{likely}"
        text = f"The log-odds of {str(self.output)!r} against {str(self.against)!r} are {points(self.score)}"
        weighted = self.weight_shift != 0.0
        if weighted:
            text += f", with {points(self.weight_shift)} from the class weights"
        if self.probability is not None:
            text += f"; the probability of {str(self.output)!r} is {self.probability:.1%}"
        if weighted:
            text += f", and {str(self.output)!r} is predicted from {expit(-self.weight_shift):.1%} on"
        return text

    @property
    def shown_parts(self) -> list[str]:
        """Features and pairs with their values, for a table; larger groups without."""
        pairs = zip(self.parts, self.values, strict=True)
        return [f"{name} = {', '.join(map(cell, cells))}" if len(cells) <= 2 else name for name, cells in pairs]

    @property
    def shown_cases(self) -> list[str]:
        """Cases with their classes, for a table; with their similarity where cases are added to features."""
        pairs = zip(self.cases, self.classes, strict=True)
        names = [name if truth is None else f"{name} ({truth})" for name, truth in pairs]
        if self.similarity is None:
            return names
        return [f"resembles {name}: {alike:.2f} of 1" for name, alike in zip(names, self.similarity, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        names = ["row", "label", "output", "against", "predicted", "truth", "probability", "base_value", "score"]
        names += ["score_name", "weight_shift", "sentence", "lacks"]
        parts = zip(self.parts, self.values, self.by_part.tolist(), strict=True)
        alike = [None] * len(self.cases) if self.similarity is None else self.similarity.tolist()
        cases = zip(self.cases, self.classes, alike, self.by_case.tolist(), strict=True)
        return {
            **{name: plain(getattr(self, name)) for name in names},
            "adds_up": "features and cases together" if self.is_additive else "features, and again cases",
            "by_feature": [{"feature": n, "value": list(v), "contribution": c} for n, v, c in parts],
            "by_case": [
                {"case": n, "class": t, **({} if a is None else {"similarity": a}), "contribution": c}
                for n, t, a, c in cases
            ],
        }


def explain_row(
    model: str | os.PathLike,
    data: str | os.PathLike,
    *,
    row: int | None = None,
    id: str | None = None,
    output: str | None = None,
    missing: Collection[str] = (),
    encoding: str = "utf-8",
) -> ExplainedRow:
    """Explain one row of a file, found by its place or by its id."""
    results = load_results(model)
    columns, place, label, truth = _find(results, Path(data), row, id, missing, encoding)
    classifier = results.model
    classes = classifier.classes_.tolist()
    explanation = classifier.explain(columns)
    predicted = as_cell(classifier.predict(columns)[0])
    which = _output(classes, output, predicted)
    k, sign = (0, 1.0 if which == classes[1] else -1.0) if len(classes) == 2 else (classes.index(which), 1.0)
    other, score_name = None, results.score_name
    if len(classes) == 2:
        other = classes[0 if sign > 0 else 1]
    elif isinstance(explanation, AdditiveExplanation):
        ranked = sorted(zip(explanation.decision[0].tolist(), classes, strict=True), key=lambda pair: -pair[0])
        other = next(label for _, label in ranked if label != which)
        explanation, k, score_name = explanation.against(which, other), 0, LOG_ODDS
    names, parts, by_part, similarity = explanation.part_names, explanation.parts, explanation.by_part[0, k], None
    if isinstance(explanation, AdditiveExplanation):
        n = len(explanation.features) + len(explanation.pairs)
        names, parts, by_part, similarity = names[:n], parts[:n], by_part[:n], explanation.similarity[0]
    values = [tuple(as_cell(columns[name][0]) for name in part) for part in parts]
    kept = sorted(results.cases, key=lambda case: case.place)
    cases = [case.label if isinstance(case.label, str) else f"row {case.label}" for case in kept]
    lacks = ""
    if isinstance(explanation, ChannelExplanation):
        turned = replace(explanation, typical=-explanation.typical[..., ::-1])
        lacks = (explanation if sign > 0 else turned).absence(0, k)
    probability = None
    if hasattr(classifier, "predict_proba"):
        probability = float(classifier.predict_proba(columns)[0, classes.index(which)])
    return ExplainedRow(
        place,
        label,
        which,
        predicted,
        truth,
        probability,
        sign * float(explanation.base_value[k]),
        sign * float(explanation.decision[0, k]),
        names,
        values,
        sign * by_part,
        cases,
        [case.truth for case in kept],
        sign * explanation.by_instance[0, k],
        lacks,
        score_name,
        similarity,
        other if score_name == LOG_ODDS else None,
        sign * results.weight_shift,
    )


def _find(
    results: Results, path: Path, row: int | None, id: str | None, missing: Collection[str], encoding: str
) -> tuple[Columns, int, Any, Any]:
    """The columns of one row, its place, its id and its class."""
    task, kinds = results.task, kinds_of(results.model)
    if (row is None) == (id is None):
        raise BadOption(f"row={row!r} and id={id!r}: name the row by one of the two")
    if id is not None and task.id_column is None:
        raise BadOption(f"id={id!r}: the model was fitted without an id column, name the row by its number")
    if row is not None and row < 1:
        raise BadOption(f"row={row} must be at least 1, the first row below the header")
    labels = {name: "text" for name in (task.id_column, task.target) if name}
    names = dict.fromkeys(header(path, encoding))
    for name in (*kinds, *([str(task.id_column)] if id is not None else [])):
        check_column(names, name)
    found: list[tuple[Columns, int, Any, Any]] = []
    start = 1
    for batch, columns in blocks(path, {**labels, **kinds}, missing=missing, encoding=encoding):
        ids = columns.get(task.id_column or "", np.full(batch.num_rows, None, dtype=object))
        truth = columns.get(task.target or "", np.full(batch.num_rows, None, dtype=object))
        for k in np.flatnonzero(np.arange(start, start + batch.num_rows) == row if id is None else ids == id).tolist():
            one = Columns(take(columns, np.array([k]))) or Columns({"": np.zeros(1)})
            found.append((one, start + k, ids[k], truth[k]))
        start += batch.num_rows
        if found and id is None:
            break
    if len(found) > 1:
        places = ", ".join(str(place) for _, place, _, _ in found)
        raise BadOption(f"id={id!r} is the id of the rows {places}: name one of them by its number")
    if not found:
        what = f"id {id!r}" if id is not None else f"row {row}"
        raise BadOption(f"{path.name!r} has no {what}: it has {start - 1} rows")
    return found[0]


def _output(classes: list, name: str | None, predicted: Any) -> Any:
    if name is None:
        return classes[1] if len(classes) == 2 else predicted
    for label in classes:
        if str(label) == name:
            return label
    raise BadOption(f"class {name!r} is unknown: the classes are {', '.join(map(str, classes))}")
