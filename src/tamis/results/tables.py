"""Results as sentences, as tables of text for the report and the screen, and as JSON values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from tamis.base.classifier import ReadableClassifier
from tamis.explain import SIMILAR
from tamis.explain.explanation import plain
from tamis.explain.measures import Stability, feature_reduction, instance_reduction
from tamis.results.data import Case, Evaluation, Part, Results
from tamis.results.shapes import CENTRAL_QUANTILES
from tamis.results.text import (
    LOG_ODDS,
    cell,
    count,
    effect,
    interval,
    listed,
    number,
    odds_factor,
    per_output,
    percent,
    points,
    share,
    signed_percent,
)

NOT_KNOWN = "not known"
RARE_SHARE = 0.025  # of the training rows: fewer missing values than that are rare


@dataclass(frozen=True)
class Table:
    """A table to be read."""

    caption: str  # what it shows
    head: Sequence[str]  # names of the columns
    rows: Sequence[Sequence[str]]  # cells; the first of each row names the row
    # columns that hold words rather than numbers, besides the first
    words: frozenset[int] = field(default_factory=frozenset)


class Measure(NamedTuple):
    """A measure of the model: its name, value, 95 per cent interval ("" where there is none) and meaning."""

    name: str
    value: str
    interval: str
    meaning: str


# ---------------------------------------------------------------------- sentences


def sentence(results: Results) -> str:
    """What the model does and how good it is, in two or three sentences."""
    model, evaluation = results.model, results.evaluation
    classes = [str(label) for label in model.classes_.tolist()]
    what = f"{classes[1]!r} from {classes[0]!r}" if len(classes) == 2 else f"{len(classes)} classes"
    if not results.parts or not (results.cases or results.is_additive):
        why = "" if model.model_.status.converged else f" ({model.model_.status.value})"
        kept = "feature" if results.is_additive else "case"
        return f"No feature distinguishes {what}: the model keeps no {kept} and gives every row the same score{why}."
    text = f"To distinguish {what}, {_method(results)}. {_influence(results)}"
    if evaluation is None:
        return text
    value, limits = share(evaluation.accuracy)
    text += f" It classifies {value}{f' (95% interval {limits})' if limits else ''} of {evaluation.source} correctly"
    if evaluation.majority != evaluation.majority:
        return f"{text}."
    return f"{text}; always predicting the largest class is correct for {percent(100 * evaluation.majority)}."


def _method(results: Results) -> str:
    """What the model does with a row, as the end of a sentence."""
    model, n = results.model, results.notes.n_features
    used, cases = f"{len(model.features_)} of {n} features", count(len(results.cases), "training case")
    if not results.is_additive:
        return f"the model compares a row with {cases} on {used}"
    pairs = sum(part.kind == "pair" for part in results.parts)
    summands = [f"what {used} contribute"]
    summands += [f"what {count(pairs, 'pair')} of features {'adds' if pairs == 1 else 'add'} on top"] if pairs else []
    summands += [f"how much a row resembles {cases}"] if results.cases else []
    return f"the model adds up {listed(summands)}"


def _influence(results: Results) -> str:
    """What the score depends on most."""
    parts = [part for part in results.parts if part.kind != "cases"] if results.is_additive else results.parts
    if len(parts) == 1 and len(parts[0].features) > 1:
        return "The features act only together."
    if parts and all(part.size.size for part in parts):
        text = f"The prediction depends {'most' if len(parts) > 1 else 'only'} on {parts[0].name}, which moves the "
        text += f"{target_of(results)} up or down by {moved(parts[0], results)} on average"
        others = [f"{part.name} (by {average(part)})" for part in parts[1:3]]
        return f"{text}, then on {listed(others)}." if others else f"{text}."
    shares = [f"{part.variation.mean():.0f}%" for part in parts[:3]]
    top = [f"{part.name} ({share})" for part, share in zip(parts, shares)]
    top[0] = f"{parts[0].name} ({shares[0]} of the variation)"
    return f"The score depends {'most' if len(parts) > 1 else 'only'} on {listed(top)}."


def moved(part: Part, results: Results) -> str:
    """By how much a part moves the score up or down on average, and the odds where these are known."""
    if results.score_name != LOG_ODDS:
        return average(part)
    return f"{average(part)} (odds times or divided by {odds_factor(float(part.size.mean()))})"


def average(part: Part) -> str:
    """The mean modulus of what a part adds, over the classes too where there are several."""
    return f"{float(part.size.mean()):.2f}"


def target_of(results: Results) -> str:
    """What the parts of a model add to, in words."""
    if results.score_name == LOG_ODDS:
        return f"{LOG_ODDS} of {str(results.outputs[0])!r}"
    return results.score_name if len(results.outputs) == 1 else f"{results.score_name}s of the classes"


def how_to_read(results: Results) -> str:
    """What log-odds (or scores) and probabilities mean, class weights included; "" where there is nothing to read."""
    if not results.parts or not (results.score_name == LOG_ODDS or results.is_additive):
        return ""
    weighted = getattr(results.model, "class_weight", None) is not None
    if results.score_name != LOG_ODDS:
        text = (
            "Every class has a score, and the class with the highest one is predicted. How much higher the score of "
            "one class is than that of another is the log-odds of the one against the other: at 0 both are equally "
            "likely, 0.7 more doubles the odds, 2.3 more multiplies them by ten."
        )
        return f"{text} Scores and probabilities include the class weights." if weighted else text
    negative, positive = (repr(str(label)) for label in results.model.classes_.tolist())
    text = f"They measure how likely {positive} is against {negative}"
    shift = results.weight_shift
    if shift:
        text += f", with the classes weighted: above 0 the model predicts {positive}, below it {negative}."
    else:
        text += f": at 0 both are equally likely, above it {positive} is more likely, below it {negative}."
    text += " Adding 0.7 doubles the odds, adding 2.3 multiplies them by ten, subtracting 0.7 halves them."
    if not shift:
        return text
    return (
        f"{text} The class weights add {points(shift)} to every log-odds. Probabilities leave this out: at log-odds 0 "
        f"the probability of {positive} is {percent(100 * float(expit(-shift)))}."
    )


def refits(results: Results) -> str:
    """What it means that refits keep a part of an additive model; "" without refits."""
    n = next((len(part.by_fold) for part in results.parts), 0)
    if not n or not results.is_additive:
        return ""
    text = (
        f"\u201cKept in {n - 1} of {n} refits\u201d: the model was fitted {n} more times, each time leaving "
        f"out a different part of the training rows, and {n - 1} of these fits keep the same feature"
    )
    kinds = {part.kind for part in results.parts}
    text += (" or pair" if "pair" in kinds else "") + (", or any cases" if "cases" in kinds else "")
    return f"{text}. What few refits keep may be there by chance, or in place of something that is much like it."


def counted(parts: Sequence[Part]) -> str:
    """How many features, pairs and larger groups these are, in words."""
    sizes = [3 if part.is_similarity else len(set(part.features)) for part in parts]
    singles, pairs, larger = (sum(map(kind, sizes)) for kind in (lambda n: n == 1, lambda n: n == 2, lambda n: n > 2))
    words = [count(n, name) for n, name in ((singles, "feature"), (pairs, "pair")) if n]
    words += [SIMILAR if larger == 1 else f"{SIMILAR} by {larger} groups of features"] if larger else []
    return listed(words) if words else "0 features"


# ---------------------------------------------------------------------- tables


def measures(evaluation: Evaluation) -> list[Measure]:
    """Accuracy of the model and of the largest class, AUC and KS."""
    mean = ", mean over the classes" if len(evaluation.curves) > 1 else ""
    which = "the class" if mean or not evaluation.curves else f"class {str(evaluation.curves[0].label)!r}"
    majority = percent(100 * evaluation.majority)  # "unknown" for a model that came without its notes
    return [
        Measure("Accuracy", *share(evaluation.accuracy), "rows classified correctly"),
        Measure("Largest class", majority, "", "rows that are correct if the largest class is always predicted"),
        Measure(
            "AUC", *interval(evaluation.auc), f"chance that a row of {which} scores above a row of another class{mean}"
        ),
        Measure("KS", *interval(evaluation.ks), f"largest distance between the two classes in the KS curve{mean}"),
    ]


def diagnosis(evaluation: Evaluation, classes: Sequence[Any]) -> str:
    """Sensitivity, specificity and predictive value of the second of two classes; "" for several classes."""
    if len(classes) != 2:
        return ""
    (right_negative, wrong_positive), (wrong_negative, right_positive) = evaluation.confusion.tolist()
    negative, positive = (repr(str(label)) for label in classes)
    positives, negatives = right_positive + wrong_negative, right_negative + wrong_positive
    predicted = right_positive + wrong_positive
    sensitivity, specificity, value = (
        percent(100 * right / n) if n else "unknown"
        for right, n in ((right_positive, positives), (right_negative, negatives), (right_positive, predicted))
    )
    return (
        f"It finds {right_positive} of the {positives} rows that are {positive} (sensitivity {sensitivity}) and "
        f"recognises {right_negative} of the {negatives} rows that are {negative} (specificity {specificity}). Of the "
        f"{predicted} rows it predicts as {positive}, {right_positive} are {positive} (positive predictive value "
        f"{value})."
    )


def calibrated(evaluation: Evaluation, n_classes: int) -> str:
    """How the predicted probabilities compare with what happened, in words; "" without probabilities."""
    found = evaluation.calibration
    if not found:
        return ""
    means = [(c.label, *(float(np.average(v, weights=c.counts)) for v in (c.predicted, c.observed))) for c in found]
    words = [f"{str(label)!r} {percent(100 * p)} predicted, {percent(100 * o)} observed" for label, p, o in means]
    text = f"On average over the test rows: {'; '.join(words)}."
    brier = sum(c.brier for c in found)
    shares = [o for *_, o in means]
    constant = sum(share * (1 - share) for share in shares)
    what = "" if n_classes == 2 else ", summed over the classes"
    return (
        f"{text} The Brier score, the mean squared error of the probabilities{what}, is {brier:.3f}; it is 0 for a "
        f"perfect prediction and {constant:.3f} if every row is given the observed share as its probability."
    )


def confusion(evaluation: Evaluation, classes: Sequence[Any]) -> Table:
    """Counts of true against predicted classes."""
    counts = evaluation.confusion
    rows = []
    for k, label in enumerate(classes):
        total = int(counts[k].sum())
        correct = percent(100 * counts[k, k] / total) if total else "no rows"
        rows.append([str(label), *(str(int(c)) for c in counts[k]), correct])
    head = ["True class", *(f"Predicted {label}" for label in classes), "Correct"]
    return Table("Test rows by their true class (rows of the table) and the predicted class (columns)", head, rows)


def part_table(results: Results, brief: bool = False) -> Table:
    """The kept features and groups of features; `brief` with one number for all classes and no range."""
    if results.is_additive:
        return _additive_table(results, brief)
    parts, outputs = results.parts, results.outputs[:1] if brief else results.outputs
    weighted = all(part.importance is not None for part in parts)
    folded = any(len(part.by_fold) for part in parts)
    head = ["Feature", "Direction", *(per_output("Importance", outputs) if weighted else [])]
    head += per_output("Variation" if brief else "Share of variation", outputs)
    head += ([] if brief else ["Range over refits"]) + ["Kept in refits"] if folded else []
    rows = []
    for part in parts:
        chosen = [range_over_refits(part), chosen_in_refits(part)][1 if brief else 0 :] if folded else []
        rows.append([part.name, direction(part), *_weights(part, brief), *chosen])
    return Table("The kept features, the most influential first", head, rows, frozenset({1}))


def _additive_table(results: Results, brief: bool) -> Table:
    """The features, pairs and cases of an additive model; pairs of little influence are added up in one line."""
    parts = [part for part in results.parts if not part.is_folded]
    folded = [part for part in results.parts if part.is_folded]
    outputs, directed = results.outputs[:1] if brief else results.outputs, len(results.outputs) == 1
    sized, counted_folds = all(part.size.size for part in parts), any(len(part.by_fold) for part in parts)
    measured = any(math.isfinite(part.permuted) for part in parts)
    head = ["Feature", *(["Direction" if brief else "Direction of the curve"] if directed else [])]
    what = f"{results.score_name.capitalize()} by" if brief else f"Moves the {results.score_name} by"
    head += ([what] if brief else per_output(what, outputs)) if sized else []
    head += ["Loss if\nshuffled" if brief else "Loss if shuffled"] if measured else []
    head += ["Variation" if brief else "Share of variation"]
    head += ["Kept in\nrefits" if brief else "Kept in refits"] if counted_folds else []
    rows = []
    for part in parts:
        sizes = np.array([]) if not sized else part.size.mean(keepdims=True) if brief else part.size
        words = direction(part).removesuffix(" with it") if brief else direction(part)
        cells = [words] if directed else []
        cells += [f"{size:.2f}" for size in sizes.tolist()]
        cells += [points(part.permuted, 3) if math.isfinite(part.permuted) else "\u2013"] if measured else []
        cells.append(percent(float(np.mean(part.variation))))
        rows.append([part.name, *cells, *([chosen_in_refits(part)] if counted_folds else [])])
    if folded:
        together = sum(float(part.variation.mean()) for part in folded)
        line = [f"{count(len(folded), 'pair')} of little influence", *["\u2013"] * (len(head) - 1)]
        line[head.index("Variation" if brief else "Share of variation")] = percent(together)
        rows.append(line)
    return Table("What the model keeps, the most influential first", head, rows, frozenset({1} if directed else ()))


def case_table(results: Results, brief: bool = False) -> Table:
    """The kept cases with their values; `brief` with one number for all classes and no values."""
    cases, outputs = results.cases, results.outputs[:1] if brief else results.outputs
    weighted = all(case.importance is not None for case in cases)
    names = [] if brief else list(dict.fromkeys(name for part in results.parts for name in part.features))
    what = "Pull on an equal row" if results.is_additive else f"Effect on the {results.score_name}"
    columns = [what, *(["Importance"] if weighted else [])]
    if not results.is_additive:
        columns.append("Variation" if brief else "Share of variation")
    head = ["Case", "Class", *(name for column in columns for name in per_output(column, outputs)), *names]
    rows = []
    for case in cases:
        effects = [effect(value, results.score_name) for value in (_largest(case.pull) if brief else case.pull)]
        values = [cell(case.values.get(name)) for name in names]
        rows.append([*_named(case), *effects, *([] if results.is_additive else _weights(case, brief)), *values])
    texts = {name for name in names if any(isinstance(case.values.get(name), str) for case in cases)}
    words = {k for k, name in enumerate(names, len(head) - len(names)) if name in texts}
    return Table("The kept cases, the most influential first", head, rows, frozenset({1, *words}))


def _named(case: Case) -> list[str]:
    label = case.label if isinstance(case.label, str) else f"row {case.label}"
    return [label, NOT_KNOWN if case.truth is None else str(case.truth)]


def _weights(kept: Part | Case, brief: bool) -> list[str]:
    """Importance, where there is one, and share of variation."""
    importance = [] if kept.importance is None else _largest(kept.importance) if brief else kept.importance
    variation = [float(np.mean(kept.variation))] if brief else kept.variation
    return [*map(signed_percent, importance), *map(percent, variation)]


def _largest(values: np.ndarray) -> list[float]:
    return [float(values[int(np.argmax(np.abs(values)))])] if len(values) else [0.0]


def direction(part: Part) -> str:
    """What the score does as the feature grows, in words."""
    words = {"bends": "rises and falls", "flat": "stays the same", "levels": "by category", "together": "\u2013"}
    return words.get(part.direction, f"{part.direction} with it")


def course(part: Part, score: str) -> str:
    """What higher values of a number do to the score, in words."""
    words = {"rises": "raise", "mostly rises": "mostly raise", "falls": "lower", "mostly falls": "mostly lower"}
    if part.direction in words:
        return f"higher values {words[part.direction]} the {score}"
    return f"the curve {direction(part)}"


def odds_range(part: Part, results: Results) -> list[str]:
    """The lowest and the highest factor of the odds that a curve adds, and at which values, missing ones included.

    Of a number with many values the bins that hold the outer 5 per cent of the training rows are left out, which is
    said where these have lower or higher odds. Nothing where the score is no log-odds.
    """
    if results.score_name != LOG_ODDS or part.kind not in ("number", "category") or len(part.grid) < 2:
        return []
    at, values = part.grid, part.shape[:, 0]
    if part.points.size:
        at, values = part.points, np.interp(part.points, part.grid.astype(float), values)
    ends = [values]
    if part.kind == "number" and part.counts.size and not part.points.size:
        at, values = _central(part)
    names = at if at.dtype == object or part.points.size else [float(f"{value:.2g}") for value in at]
    places = [f"at\u00a0{cell(name)}" for name in names]
    if part.missing and part.at_missing.size:
        ends.append(part.at_missing)
        if part.missing >= RARE_SHARE * (part.missing + part.counts.sum()):
            places, values = [*places, "if missing"], np.r_[values, part.at_missing[0]]
    spots = int(values.argmin()), int(values.argmax())
    factors = [odds_factor(float(values[k])) for k in spots]
    all_values = np.concatenate(ends)
    complete = factors == [odds_factor(float(all_values.min())), odds_factor(float(all_values.max()))]
    low, high = (f"{places[k]} (\u00d7\u00a0{factor})" for k, factor in zip(spots, factors))
    return [f"{'' if complete else 'among frequent values '}the odds are lowest {low} and highest {high}"]


def _central(part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Values of a number and what they add, without the bins that hold the outer 5 per cent of the training rows."""
    at, values = part.grid, part.shape[:, 0]
    below = np.r_[0.0, np.cumsum(part.counts.sum(axis=0))]
    few, most = np.multiply(CENTRAL_QUANTILES, below[-1])
    central = part.edges[(below >= few) & (below <= most)]
    if len(central) < 2:
        return at, values
    inside = (at > central[0]) & (at < central[-1])
    values = np.r_[np.interp(central[0], at, values), values[inside], np.interp(central[-1], at, values)]
    return np.r_[central[0], at[inside], central[-1]], values


def without_value(model: ReadableClassifier, part: Part, score: str) -> str:
    """How the model treats rows without a value of the feature, in words."""
    encoder = model.model_.encoder
    if not math.isnan(encoder.columns[encoder.names.index(part.features[0])].fill):
        return "which are given the typical value"
    if model.model_.is_additive:
        return f"for which it adds {' / '.join(effect(float(value), score) for value in part.at_missing)}"
    return "for which it adds nothing"


def range_over_refits(part: Part) -> str:
    """Smallest and largest share of variation over the refits."""
    return f"{percent(part.by_fold.min())} to {percent(part.by_fold.max())}" if len(part.by_fold) else NOT_KNOWN


def chosen_in_refits(part: Part) -> str:
    """How many refits keep the part, of all."""
    n = len(part.by_fold)
    return f"{int(np.sum(part.by_fold > 0))} of {n}" if n else NOT_KNOWN


def chosen_table(stability: Stability) -> Table:
    """Which refit keeps which feature."""
    refits = [f"Refit {k + 1}" for k in range(len(stability.chosen))]
    rows = [
        [name, *("yes" if c else "\u2013" for c in column), f"{int(column.sum())} of {len(refits)}"]
        for name, column in zip(stability.features, stability.chosen.T)
    ]
    return Table("Features that each refit keeps", ["Feature", *refits, "Kept in"], rows)


def agreement_table(stability: Stability) -> Table:
    """How well two refits agree, on average over the pairs."""
    meaning = {
        "jaccard": (
            "Jaccard index",
            "features that two refits share, divided by those that either keeps; 1 is the same choice",
        ),
        "kuncheva": ("Kuncheva index", "agreement above chance; 0 is chance, 1 is the same choice"),
        "correlated": ("Correlation", "correlation of the features of one refit with their best match in another"),
    }
    rows = []
    for name, (title, words) in meaning.items():
        value, limits = interval(getattr(stability, name))
        rows.append([title, value, limits or "unknown", words])
    head = ["Measure", "Mean over pairs of refits", "95% interval", "Meaning"]
    return Table("Agreement of the refits", head, rows, frozenset({3}))


def comparison_table(entries: Sequence[dict[str, Any]]) -> Table:
    """All methods on the same folds, from the entries of `Comparison.to_dict`."""
    rows = []
    for entry in entries:
        if entry["failure"]:
            rows.append([entry["method"], "failed", entry["failure"], "", "", "", f"{entry['seconds']:.2f}"])
            continue
        accuracy, low, high = (percent(100 * entry["accuracy"][name]) for name in ("value", "low", "high"))
        sizes = [number(entry["n_features"], 3), "\u2013" if entry["n_cases"] is None else number(entry["n_cases"], 3)]
        area = entry["auc"]["value"]
        area, seconds = f"{area:.3f}" if math.isfinite(area) else "unknown", f"{entry['seconds']:.2f}"
        rows.append([entry["method"], accuracy, f"{low} to {high}", area, *sizes, seconds])
    head = ["Method", "Accuracy", "95% interval", "AUC", "Features", "Cases", "Seconds per fit"]
    return Table("All methods on the same folds", head, rows, frozenset({2}))


def data_tables(results: Results) -> list[Table]:
    """Class balance, columns with missing cells, columns that were dropped."""
    notes, tables = results.notes, []
    if notes.balance:
        rows = [[str(label), str(train), str(test)] for label, (train, test) in notes.balance.items()]
        tables.append(Table("Rows of each class", ["Class", "Training rows", "Test rows"], rows))
    if notes.missing:
        rows = [[name, str(gaps)] for name, gaps in sorted(notes.missing.items(), key=lambda item: -item[1])]
        tables.append(Table("Missing cells", ["Column", "Rows without a value"], rows))
    if notes.dropped:
        rows = [[name, why] for name, why in notes.dropped.items()]
        tables.append(Table("Columns that were not offered to the model", ["Column", "Reason"], rows, frozenset({1})))
    return tables


def data_facts(results: Results) -> list[tuple[str, str]]:
    """(name, value) of what happened to the data."""
    notes, task = results.notes, results.task
    facts = [("File", notes.source)]
    if notes.n_rows:
        left_out = f"; {notes.no_target} of them have no class and were left out" if notes.no_target else ""
        facts.append(("Rows", f"{notes.n_rows}{left_out}"))
        facts.append(("Columns", f"{notes.n_columns}; {notes.n_features} of them were offered as features"))
    facts.append(("Target", task.target or NOT_KNOWN))
    named = {"Rows named by": task.id_column, "Split given by": task.split_column, "Groups given by": task.group_column}
    facts += [(name, column) for name, column in named.items() if column is not None]
    if notes.groups is not None:
        facts.append(("Groups", f"{notes.groups}; the rows of a group stay on one side of every split"))
    facts.append(("Test rows", notes.split))
    if notes.n_rows:
        repeated = f"{notes.repeated or 'no'} test rows equal a training row in all features"
        facts.append(("Repeated rows", NOT_KNOWN if notes.repeated is None else repeated))
    if notes.categories:
        facts.append(("Categories", ", ".join(notes.categories)))
    return facts


def settings(model: ReadableClassifier) -> list[tuple[str, str]]:
    """(name, value) of what the method chose or was given; of an additive model without what its tables show."""
    shown = ("features", "pairs", "cases") if model.model_.is_additive else ()
    return [
        (name, number(value) if isinstance(value, float) else str(value))
        for name, value in model.summary().items()
        if name not in shown
    ]


def setting_facts(results: Results) -> list[tuple[str, str]]:
    """(name, value) of the method, what it chose, how the fit ended, and what it ran on."""
    model = results.model
    facts = [("Method", type(model).__name__), *((name.capitalize(), value) for name, value in settings(model))]
    weights = getattr(model, "class_weight", None)
    if weights is not None:
        each = weights if isinstance(weights, str) else ", ".join(f"{label} {w:g}" for label, w in weights.items())
        facts.append(("Class weights", each))
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
        "The tamis developers. tamis: models of few features and few cases that explain every "
        f"prediction exactly{f'. Version {version}' if version else ''}."
    )
    return [library, results.model.citation] if results.model.citation else [library]


# ---------------------------------------------------------------------- JSON


def summary(results: Results) -> dict[str, Any]:
    """Everything but the model itself, as JSON values."""
    model, notes, evaluation = results.model, results.notes, results.evaluation
    classes = model.classes_.tolist()
    train = sum(rows[0] for rows in notes.balance.values())
    return {
        "sentence": sentence(results),
        "target": results.task.target,
        "classes": classes,
        "positive": classes[1] if len(classes) == 2 else None,
        "method": type(model).__name__,
        "chosen": plain(model.summary()),
        "status": model.model_.status.name.lower(),
        "n_instances": len(model.instances_),
        "n_features": len(model.features_),
        "instance_reduction": instance_reduction(len(model.instances_), train) if train else None,
        "feature_reduction": feature_reduction(len(model.features_), notes.n_features),
        "test": None if evaluation is None else _test(evaluation),
        "features": [
            {
                "name": part.name,
                "features": list(part.features),
                "importance": plain(part.importance),
                "variation": plain(part.variation),
                "mean_contribution": plain(part.size) if len(part.size) else None,
                "loss_when_shuffled": plain(part.permuted),
                "direction": part.direction,
            }
            for part in results.parts
        ],
        "cases": [
            {
                "label": case.label,
                "class": case.truth,
                "importance": plain(case.importance),
                "variation": plain(case.variation),
                "pull": plain(case.pull),
                "values": case.values,
            }
            for case in results.cases
        ],
        "stability": None if results.stability is None else _choices(results.stability),
        "data": {
            "source": notes.source,
            "rows": notes.n_rows,
            "rows_without_target": notes.no_target,
            "balance": [{"class": k, "train": v[0], "test": v[1]} for k, v in notes.balance.items()],
            "split": notes.split,
            "groups": notes.groups,
            "dropped_columns": notes.dropped,
            "categories": list(notes.categories),
            "missing_cells": notes.missing,
            "test_rows_seen_in_training": notes.repeated,
        },
        "warnings": list(notes.warnings),
        "seed": results.task.seed,
        "seconds": {stage: round(seconds, 3) for stage, seconds in results.seconds.items()},
        "versions": results.versions,
    }


def _test(found: Evaluation) -> dict[str, Any]:
    out: dict[str, Any] = {"source": found.source, "rows": found.n_rows}
    out |= {name: plain(getattr(found, name)._asdict()) for name in ("accuracy", "auc", "ks")}
    return {**out, "majority": plain(found.majority), "confusion": found.confusion.tolist()}


def _choices(found: Stability) -> dict[str, Any]:
    means = {name: plain(getattr(found, name)._asdict()) for name in ("jaccard", "kuncheva", "correlated")}
    counts = {name: int(c) for name, c in zip(found.features, found.chosen.sum(axis=0), strict=True)}
    return {**means, "folds": len(found.chosen), "chosen_in": counts}
