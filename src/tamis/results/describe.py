"""From a fitted model and columns of rows to the parts of `Results`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.base.classifier import ReadableClassifier
from tamis.base.estimator import ReadableEstimator
from tamis.base.explaining import case_pulls, case_values, kept_cases, kept_features, parts
from tamis.explain import measures, part_names
from tamis.explain.intervals import UNKNOWN, Interval, bootstrap, wilson
from tamis.explain.measures import variation
from tamis.results.additive import additive_parts, expansion_of, part_keys
from tamis.results.data import Calibration, Case, Evaluation, Part, ScoreCurve, ShownRows
from tamis.results.shapes import as_cell, central_part, count_rows, direction_of
from tamis.table.encoding import Position
from tamis.table.rows import spread

Columns = Mapping[str, np.ndarray]

MAX_CURVE_POINTS = 300  # of a curve
CALIBRATION_GROUPS, MIN_GROUP_ROWS = 10, 20  # most groups of rows with similar probabilities, and rows in each
MAX_SHOWN_ROWS = 300  # rows
MAX_VARIATION_ROWS = 2000  # training rows that measure the variation of contributions


def take(columns: Columns, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Some rows of all columns."""
    return {name: values[rows] for name, values in columns.items()}


# ---------------------------------------------------------------------- what is kept


def parts_of(
    model: ReadableClassifier,
    columns: Columns | None = None,
    y: np.ndarray | None = None,
    by_fold: Sequence[dict] = (),
    held_out: tuple[Columns, np.ndarray] | None = None,
) -> tuple[Part, ...]:
    """The kept features (or groups of them), the most influential first.

    Parameters
    ----------
    columns, y : training rows, for distributions and shares of variation; without them the shares are
        those the model has stored
    by_fold : for each fold what `shares_by_key` gives
    held_out : columns and classes of rows on which an additive model is measured with shuffled features
    """
    if model.model_.is_additive:
        share = None if columns is None else shares(model, columns)
        return additive_parts(model, columns, y, share, by_fold, held_out)
    kept, keys = kept_features(model), list(dict.fromkeys(parts(model)))
    share = kept.variation if columns is None else shares(model, columns)
    found = []
    for k, (key, name) in enumerate(zip(keys, part_names(keys), strict=True)):
        importance = None if kept.importance is None else kept.importance[:, k]
        folds = np.array([fold.get(_key(key, keys), 0.0) for fold in by_fold])
        drawn = _curve(model, key[0], columns, y) if _is_single(model, key) else _surface(model, key)
        found.append(Part(name, key, importance=importance, variation=share[:, k], by_fold=folds, **drawn))
    return tuple(sorted(found, key=lambda part: -float(part.variation.mean())))


def shares(model: ReadableClassifier, columns: Columns) -> np.ndarray:
    """Share (outputs, parts) of each part in the variation of the decision over some of the rows."""
    n = len(next(iter(columns.values())))
    explanation = model.explain(take(columns, spread(n, MAX_VARIATION_ROWS)))
    return variation(explanation.by_part, np.ones(len(explanation.rows)))


def shares_by_key(model: ReadableClassifier, columns: Columns) -> dict[frozenset[str], float]:
    """{features: share of variation} of the parts, by which those of other fits are found again."""
    if model.model_.is_additive:
        return dict(zip(part_keys(model), shares(model, columns).mean(axis=0).tolist(), strict=True))
    keys = list(dict.fromkeys(parts(model)))
    found: dict[frozenset[str], float] = {}
    for key, share in zip(keys, shares(model, columns).mean(axis=0) if keys else (), strict=True):
        found[_key(key, keys)] = found.get(_key(key, keys), 0.0) + float(share)
    return found


def _key(part: tuple[str, ...], among: Sequence[tuple[str, ...]]) -> frozenset[str]:
    """The features of a part in any order; none for the only group of three or more, whichever they are."""
    only = len(set(part)) > 2 and sum(len(set(one)) > 2 for one in among) == 1
    return frozenset() if only else frozenset(part)


def _is_single(model: ReadableClassifier, key: tuple[str, ...]) -> bool:
    """Whether a part is one feature whose values have a curve."""
    encoder, expansion = model.model_.encoder, expansion_of(model)
    column = encoder.columns[encoder.names.index(key[0])]
    return len(set(key)) == 1 and not isinstance(column, Position) and not expansion.row_dependent


def _curve(model: ReadableClassifier, feature: str, columns: Columns | None, y: np.ndarray | None) -> dict[str, Any]:
    """The curve of a feature over its values, its direction, and the training rows below it, as fields of a `Part`."""
    grid, shape = shape_of(model, feature)
    nominal = grid.dtype == object
    found: dict[str, Any] = {"grid": grid, "shape": shape}
    if columns is not None and y is not None:
        levels = grid if nominal else None
        found["edges"], found["counts"], found["missing"] = count_rows(columns[feature], y, model.classes_, levels)
    elif nominal:
        found["edges"] = grid
    if nominal:
        return {**found, "kind": "category", "direction": "levels"}
    if columns is not None:
        shape = shape[central_part(grid, columns[feature])]
    return {**found, "kind": "number", "direction": direction_of(shape)}


def _surface(model: ReadableClassifier, key: tuple[str, ...]) -> dict[str, Any]:
    """The surface of a pair over the values of its features, as fields of a `Part`; empty for all other groups.

    A pair that has kernels in both orders of its features is two parts, none of which has a surface of its own.
    """
    grid, across, surface = np.empty(0), np.empty(0), np.empty(0)
    if len(set(key)) == 2 and not expansion_of(model).row_dependent and key[::-1] not in parts(model):
        grid, across, surface = surface_of(model, key[0], key[1])
    return {"kind": "group", "direction": "together", "grid": grid, "across": across, "shape": surface}


def shape_of(model: ReadableEstimator, feature: int | str) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values (g,) of a feature and what they add to the decision (g, outputs)."""
    grid, shape = model.curve(feature)
    some = _distinct(grid)
    return grid[some], shape[some].reshape(len(some), -1)


def surface_of(
    model: ReadableEstimator, first: int | str, second: int | str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct values (a,) and (b,) of two features and what the pair adds to the decision (a, b, outputs)."""
    grid, across, surface = model.surface(first, second)
    x, y = _distinct(grid), _distinct(across)
    return grid[x], across[y], surface[np.ix_(x, y)].reshape(len(x), len(y), -1)


def _distinct(grid: np.ndarray) -> np.ndarray:
    """Positions of the distinct values of a grid: the first only, where a number never changes in training."""
    return np.arange(len(grid) if len(set(grid.tolist())) > 1 else 1)


def cases_of(
    model: ReadableClassifier,
    columns: Columns | None,
    y: np.ndarray | None,
    labels: np.ndarray | None,
    rows: np.ndarray | None = None,
) -> tuple[Case, ...]:
    """The kept cases, the most influential first; without training rows what the model knows of them.

    `rows` gives the positions in `columns`, `y` and `labels` of the cases, if these are not all training rows.
    """
    kept, pull, stored = kept_cases(model), case_pulls(model), case_values(model)
    cases = []
    for k, row in enumerate((model.instances_ if rows is None else rows).tolist()):
        if columns is None or y is None:
            values, truth = {name: as_cell(cells[k]) for name, cells in stored.items()}, None
            label = f"case {kept.names[k]}"
        else:
            values = {name: as_cell(columns[name][row]) for name in stored}
            label, truth = labels[row] if labels is not None else row + 1, as_cell(y[row])
        importance = None if kept.importance is None else kept.importance[:, k]
        cases.append(Case(k, as_cell(label), truth, values, importance, kept.variation[:, k], pull[k]))
    return tuple(sorted(cases, key=lambda case: -float(case.variation.mean())))


# ---------------------------------------------------------------------- the test


def evaluate(
    model: ReadableClassifier,
    columns: Columns,
    y: np.ndarray,
    *,
    groups: np.ndarray | None,
    majority: Any,
    source: str,
    seed: int,
) -> Evaluation:
    """Measure the model on rows with known classes; rows of a group are resampled together."""
    classes = model.classes_.tolist()
    decision = np.asarray(model.decision_function(columns)).reshape(len(y), -1)
    predicted = model.predict(columns)
    index = {label: k for k, label in enumerate(classes)}
    confusion = np.zeros((len(classes), len(classes)), dtype=int)
    for truth, label in zip(y.tolist(), predicted.tolist(), strict=True):
        confusion[index[truth], index[label]] += 1
    labels = classes[1:] if len(classes) == 2 else classes
    curves = tuple(curve_of(y == label, decision[:, k], label, groups, seed) for k, label in enumerate(labels))
    if len(curves) == 1:
        auc, ks = curves[0].auc, curves[0].ks
    else:
        both = measures.auc_value, measures.ks_value
        auc, ks = (_mean_over_classes(one, y, decision, labels, groups, seed) for one in both)
    hits = measures.accuracy(y, predicted, groups, random_state=seed)
    share = float("nan") if majority is None else float(np.mean(y == majority))
    calibration: tuple[Calibration, ...] = ()
    if hasattr(model, "predict_proba"):
        probability = np.asarray(model.predict_proba(columns))
        calibration = tuple(
            calibration_of(y == label, probability[:, index[label]], label, groups is None) for label in labels
        )
    return Evaluation(source, len(y), confusion, hits, auc, ks, share, curves, calibration)


def calibration_of(truth: np.ndarray, probability: np.ndarray, label: Any, independent: bool = True) -> Calibration:
    """Groups of about as many rows, from those with the smallest to those with the largest probabilities."""
    order = np.argsort(probability, kind="stable")
    n = int(np.clip(len(order) // MIN_GROUP_ROWS, 1, CALIBRATION_GROUPS))
    rows = [group for group in np.array_split(order, n) if len(group)]
    shares = [wilson(float(truth[group].sum()), len(group)) for group in rows]
    return Calibration(
        label,
        np.array([probability[group].mean() for group in rows]),
        np.array([share.value for share in shares]),
        np.array([share.low for share in shares] if independent else []),
        np.array([share.high for share in shares] if independent else []),
        np.array([len(group) for group in rows], dtype=int),
        float(np.mean((probability - truth) ** 2)),
    )


def _mean_over_classes(
    measure: Any, y: np.ndarray, decision: np.ndarray, labels: list, groups: np.ndarray | None, seed: int
) -> Interval:
    """The mean of a measure over the classes, each against the rest; rows are resampled."""
    codes = np.array([labels.index(label) for label in y.tolist()])

    def statistic(some: np.ndarray, scores: np.ndarray) -> float:
        truths = [some == k for k in range(len(labels))]
        if any(truth.all() or not truth.any() for truth in truths):
            return float("nan")
        return float(np.mean([measure(truth, score) for truth, score in zip(truths, scores.T, strict=True)]))

    return bootstrap(statistic, codes, decision, groups=groups, random_state=seed)


def curve_of(
    truth: np.ndarray, score: np.ndarray, label: Any, groups: np.ndarray | None = None, seed: int = 0
) -> ScoreCurve:
    """The scores of the rows of one class against those of the other rows; empty if there is one class only."""
    if truth.all() or not truth.any():
        empty = np.empty(0)
        return ScoreCurve(label, UNKNOWN, UNKNOWN, empty, empty, empty, empty, empty, float("nan"))
    threshold, negative, positive = measures.ks_curve(truth, score)
    best = int(np.argmax(np.abs(negative - positive)))
    some = np.unique(np.r_[np.linspace(0, len(threshold) - 1, MAX_CURVE_POINTS).astype(int), best])
    fpr, tpr = measures.roc_curve(truth, score)
    few = np.unique(np.linspace(0, len(fpr) - 1, MAX_CURVE_POINTS).astype(int))
    return ScoreCurve(
        label,
        measures.auc(truth, score, groups, random_state=seed),
        measures.ks(truth, score, groups, random_state=seed),
        fpr[few],
        tpr[few],
        threshold[some],
        negative[some],
        positive[some],
        float(threshold[best]),
    )


def show_rows(
    model: ReadableClassifier, columns: Columns, y: np.ndarray | None, labels: np.ndarray, seed: int = 0
) -> ShownRows:
    """Up to a few hundred rows: some that are wrong, some near the boundary, some at random."""
    n = len(labels)
    rows = np.arange(n)
    if n > MAX_SHOWN_ROWS:
        decision = np.asarray(model.decision_function(columns)).reshape(n, -1)
        top = np.sort(decision, axis=1)
        margin = np.abs(decision[:, 0]) if decision.shape[1] == 1 else top[:, -1] - top[:, -2]
        order = np.random.default_rng(seed).permutation(n)
        wrong = order[model.predict(take(columns, order)) != y[order]] if y is not None else order[:0]
        near = np.argsort(margin, kind="stable")
        first = dict.fromkeys(
            [*wrong[: MAX_SHOWN_ROWS // 3].tolist(), *near[: MAX_SHOWN_ROWS // 3].tolist(), *order.tolist()]
        )
        rows = np.sort(list(first)[:MAX_SHOWN_ROWS])
    kept = {name: columns[name][rows] for name in model.model_.encoder.names}
    if not kept:  # a model that kept nothing predicts the same for every row
        kept = {name: values[rows] for name, values in list(columns.items())[:1]}
    probability = model.predict_proba(kept) if hasattr(model, "predict_proba") else None
    return ShownRows(
        labels[rows],
        kept,
        None if y is None else y[rows],
        model.predict(kept),
        np.asarray(model.decision_function(kept)).reshape(len(rows), -1),
        probability,
    )
