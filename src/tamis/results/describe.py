"""From a fitted model and columns of rows to the parts of `Results`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.base.classifier import KernelClassifier
from tamis.base.estimator import KernelEstimator
from tamis.base.kept import case_pulls, case_values, kept_cases, kept_features, parts
from tamis.explain import measures, part_names
from tamis.explain.intervals import UNKNOWN, Interval, bootstrap
from tamis.explain.measures import variation
from tamis.results.data import Case, Curve, Evaluation, Part, ShownRows
from tamis.table.encoding import Nominal, Position
from tamis.table.rows import spread

Columns = Mapping[str, np.ndarray]

BINS = 30
POINTS = 300  # of a curve
SHOWN = 300  # rows
CENTRE = (0.025, 0.975)  # of the training values: where the direction of a feature is judged
NEARLY, MOSTLY = 0.95, 0.75  # shares of the ups and downs of a curve that go one way
SAMPLE = 2000  # training rows that measure the variation of contributions


def take(columns: Columns, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Some rows of all columns."""
    return {name: values[rows] for name, values in columns.items()}


# ---------------------------------------------------------------------- what is kept


def parts_of(
    model: KernelClassifier, columns: Columns | None = None, y: np.ndarray | None = None, by_fold: Sequence[dict] = ()
) -> tuple[Part, ...]:
    """The kept features (or groups of them), the most influential first.

    Parameters
    ----------
    columns, y : training rows, for distributions and shares of variation; without them the shares are
        those the model has stored
    by_fold : for each fold what `shares_by_key` gives
    """
    kept, keys = kept_features(model), list(dict.fromkeys(parts(model)))
    share = kept.variation if columns is None else shares(model, columns)
    found = []
    for k, (key, name) in enumerate(zip(keys, part_names(keys), strict=True)):
        own = {
            "name": name,
            "importance": None if kept.importance is None else kept.importance[:, k],
            "variation": share[:, k],
        }
        folds = np.array([fold.get(_key(key, keys), 0.0) for fold in by_fold])
        found.append(_part(model, key, own, columns, y, folds))
    return tuple(sorted(found, key=lambda part: -float(part.variation.mean())))


def shares(model: KernelClassifier, columns: Columns) -> np.ndarray:
    """Share (outputs, parts) of each part in the variation of the decision over some of the rows."""
    n = len(next(iter(columns.values())))
    explanation = model.explain(take(columns, spread(n, SAMPLE)))
    return variation(explanation.by_part, np.ones(len(explanation.rows)))


def shares_by_key(model: KernelClassifier, columns: Columns) -> dict[frozenset[str], float]:
    """{features: share of variation} of the parts, by which those of other fits are found again."""
    keys = list(dict.fromkeys(parts(model)))
    found: dict[frozenset[str], float] = {}
    for key, share in zip(keys, shares(model, columns).mean(axis=0) if keys else (), strict=True):
        found[_key(key, keys)] = found.get(_key(key, keys), 0.0) + float(share)
    return found


def _key(part: tuple[str, ...], among: Sequence[tuple[str, ...]]) -> frozenset[str]:
    """The features of a part in any order; none for the only group of three or more, whichever they are."""
    alone = len(set(part)) > 2 and sum(len(set(one)) > 2 for one in among) == 1
    return frozenset() if alone else frozenset(part)


def _part(
    model: KernelClassifier,
    key: tuple[str, ...],
    own: dict[str, Any],
    columns: Columns | None,
    y: np.ndarray | None,
    by_fold: np.ndarray,
) -> Part:
    empty = np.empty(0)
    place = model.model_.encoder.names.index(key[0])
    column = model.model_.encoder.columns[place]
    if len(set(key)) > 1 or isinstance(column, Position) or model.model_.expansion.row_dependent:
        grid, across, surface = _surface(model, key)
        return Part(features=key, kind="group", **own, direction="together", grid=grid, shape=surface, edges=empty,
                    counts=empty, missing=0, by_fold=by_fold, across=across)  # fmt: skip
    kind = "category" if isinstance(column, Nominal) else "number"
    (grid, shape), counts, missing = shape_of(model, key[0]), empty, 0
    edges, levels = (grid, grid) if kind == "category" else (empty, None)
    if columns is not None and y is not None:
        edges, counts, missing = _distribution(columns[key[0]], y, model.classes_, levels)
    inside = np.ones(len(grid), dtype=bool)
    if kind == "number" and columns is not None:
        low, high = np.nanquantile(columns[key[0]], CENTRE)
        inside = (grid >= low) & (grid <= high)
    direction = "levels" if kind == "category" else _direction(shape[inside])
    return Part(features=key, kind=kind, **own, direction=direction, grid=grid, shape=shape, edges=edges, counts=counts,
                missing=missing, by_fold=by_fold)  # fmt: skip


def _surface(model: KernelClassifier, key: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of the first and of the second feature of a pair, and what they add; empty for all else.

    A pair that has kernels in both orders of its features is two parts, none of which has a surface of its own.
    """
    if len(set(key)) != 2 or model.model_.expansion.row_dependent or key[::-1] in parts(model):
        return np.empty(0), np.empty(0), np.empty(0)
    return surface_of(model, key[0], key[1])


def shape_of(model: KernelEstimator, feature: int | str) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values (g,) of a feature and what they add to the decision (g, outputs)."""
    grid, shape = model.shape_function(feature)
    some = _distinct(grid)
    return grid[some], shape[some].reshape(len(some), -1)


def surface_of(
    model: KernelEstimator, first: int | str, second: int | str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct values (a,) and (b,) of two features and what the pair adds to the decision (a, b, outputs)."""
    grid, across, surface = model.surface(first, second)
    x, y = _distinct(grid), _distinct(across)
    return grid[x], across[y], surface[np.ix_(x, y)].reshape(len(x), len(y), -1)


def _distinct(grid: np.ndarray) -> np.ndarray:
    """Positions of the distinct values of a grid: the first only, where a number never changes in training."""
    return np.arange(len(grid) if len(set(grid.tolist())) > 1 else 1)


def _direction(shape: np.ndarray) -> str:
    """Where the curve goes, by the share of its ups in all ups and downs; outputs must agree."""
    step = np.diff(shape, axis=0)
    rise, fall = np.sum(np.maximum(step, 0), axis=0), np.sum(np.maximum(-step, 0), axis=0)
    moving = rise + fall > 0
    if not moving.any():
        return "flat"
    share = rise[moving] / (rise + fall)[moving]
    for word, up in (("rises", share), ("falls", 1.0 - share)):
        if np.all(up >= MOSTLY):
            return word if np.all(up >= NEARLY) else f"mostly {word}"
    return "bends"


def _distribution(
    values: np.ndarray, y: np.ndarray, classes: np.ndarray, levels: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Bins (or levels), training rows of each class in them, and rows without a value."""
    if levels is not None:
        cells = [as_cell(v) for v in values.tolist()]
        seen = Counter(zip(cells, y.tolist(), strict=True))
        counts = [[seen[level, label] for level in levels.tolist()] for label in classes.tolist()]
        return levels, np.array(counts, dtype=int).reshape(len(classes), len(levels)), cells.count(None)
    numbers = np.asarray(values, dtype=float)
    there = ~np.isnan(numbers)
    edges = bin_edges(numbers[there])
    binned = [np.histogram(numbers[there & (y == label)], bins=edges)[0] for label in classes]
    return edges, np.array(binned), int((~there).sum())


def bin_edges(values: np.ndarray) -> np.ndarray:
    """Edges of equal bins; one bin where the values are too large for their range to be cut."""
    if not len(values):
        return np.array([0.0, 1.0])
    try:
        return np.histogram_bin_edges(values, bins=BINS)
    except ValueError:
        return np.array([values.min(), np.nextafter(values.max(), np.inf)])


def cases_of(
    model: KernelClassifier,
    columns: Columns | None,
    y: np.ndarray | None,
    labels: np.ndarray | None,
    rows: np.ndarray | None = None,
) -> tuple[Case, ...]:
    """The kept cases, the most influential first; without training rows what the model knows of them.

    `rows` says where in `columns`, `y` and `labels` the cases stand, if these are not all training rows.
    """
    kept, pull, whole = kept_cases(model), case_pulls(model), _whole_pulls(model)
    stored = case_values(model)
    cases = []
    for k, row in enumerate((model.instances_ if rows is None else rows).tolist()):
        if columns is None or y is None:
            values, truth = {name: as_cell(cells[k]) for name, cells in stored.items()}, None
            label = f"case {kept.names[k]}"
        else:
            values = {name: as_cell(columns[name][row]) for name in stored}
            label, truth = labels[row] if labels is not None else row + 1, as_cell(y[row])
        importance = None if kept.importance is None else kept.importance[:, k]
        cases.append(Case(k, as_cell(label), truth, values, importance, kept.variation[:, k], pull[k], whole[k]))
    return tuple(sorted(cases, key=lambda case: -float(case.variation.mean())))


def _whole_pulls(model: KernelClassifier) -> np.ndarray:
    """What each kept case adds about a row equal to itself through kernels on three or more features (cases, outputs).

    No outputs where there are no such kernels, or no others.
    """
    expansion = model.model_.expansion
    whole = np.array([len(set(channel.columns)) > 2 for channel in expansion.bank.channels], dtype=bool)
    if whole.all() or not whole.any():
        return np.empty((len(expansion.instances), 0))
    each = [expansion.contributions(case[None])[0, :, k] for k, case in enumerate(expansion.instances)]
    return np.array(each)[:, :, whole].sum(axis=2)


def as_cell(value: Any) -> Any:
    """A value as JSON has it, None where it is missing."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if value is None or value != value else value


# ---------------------------------------------------------------------- what it is worth


def evaluate(
    model: KernelClassifier,
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
    for truth, said in zip(y.tolist(), predicted.tolist(), strict=True):
        confusion[index[truth], index[said]] += 1
    labels = classes[1:] if len(classes) == 2 else classes
    curves = tuple(curve_of(y == label, decision[:, k], label, groups, seed) for k, label in enumerate(labels))
    if len(curves) == 1:
        auc, ks = curves[0].auc, curves[0].ks
    else:
        both = measures.auc_value, measures.ks_value
        auc, ks = (_mean_over_classes(one, y, decision, labels, groups, seed) for one in both)
    hits = measures.accuracy(y, predicted, groups, random_state=seed)
    share = float("nan") if majority is None else float(np.mean(y == majority))
    return Evaluation(source, len(y), confusion, hits, auc, ks, share, curves)


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
) -> Curve:
    """The scores of the rows of one class against those of the other rows; empty if there is one class only."""
    if truth.all() or not truth.any():
        empty = np.empty(0)
        return Curve(label, UNKNOWN, UNKNOWN, empty, empty, empty, empty, empty, float("nan"))
    threshold, negative, positive = measures.ks_curve(truth, score)
    best = int(np.argmax(np.abs(negative - positive)))
    some = np.unique(np.r_[np.linspace(0, len(threshold) - 1, POINTS).astype(int), best])
    fpr, tpr = measures.roc_curve(truth, score)
    few = np.unique(np.linspace(0, len(fpr) - 1, POINTS).astype(int))
    return Curve(
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
    model: KernelClassifier, columns: Columns, y: np.ndarray | None, labels: np.ndarray, seed: int = 0
) -> ShownRows:
    """Up to a few hundred rows: some that are wrong, some near the boundary, some at random."""
    n = len(labels)
    rows = np.arange(n)
    if n > SHOWN:
        decision = np.asarray(model.decision_function(columns)).reshape(n, -1)
        top = np.sort(decision, axis=1)
        margin = np.abs(decision[:, 0]) if decision.shape[1] == 1 else top[:, -1] - top[:, -2]
        order = np.random.default_rng(seed).permutation(n)
        wrong = order[model.predict(take(columns, order)) != y[order]] if y is not None else order[:0]
        near = np.argsort(margin, kind="stable")
        first = dict.fromkeys([*wrong[: SHOWN // 3].tolist(), *near[: SHOWN // 3].tolist(), *order.tolist()])
        rows = np.sort(list(first)[:SHOWN])
    kept = {name: columns[name][rows] for name in model.model_.encoder.names}
    if not kept:  # a model that kept nothing says the same of every row
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
