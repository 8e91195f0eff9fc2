"""The parts of an additive model for `Results`: curves with their steps, pairs on coarse cells, all cases together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from tamis.base.classifier import ReadableClassifier
from tamis.base.explaining import kept_features
from tamis.explain import SIMILAR, part_name
from tamis.flagship.model import AdditiveModel
from tamis.results.data import Part
from tamis.results.shapes import LINEAR, bin_edges, central_part, choose_scale, count_rows, direction_of, value_edges
from tamis.table.rows import spread

Columns = Mapping[str, np.ndarray]
Key = frozenset[str]

MAX_SIZE_ROWS = 20_000  # training rows on which contributions are measured
MAX_SHUFFLED_ROWS = 5_000  # held-out rows that are shuffled
SHUFFLES = 5
LEAST_PROBABILITY = 1e-15  # of a class, so that the log-loss is finite


def tables_of(model: Any) -> AdditiveModel:
    """The curves, surfaces and cases of a fitted additive model."""
    return cast(AdditiveModel, model.model_)


def expansion_of(model: Any) -> Any:
    """The expansion of a fitted model of kernels."""
    return model.model_.expansion


def additive_parts(
    model: ReadableClassifier,
    # columns, y: training rows, or None
    columns: Columns | None,
    y: np.ndarray | None,
    # (outputs, parts) shares of variation; None for those that the model has stored, which order the parts where there
    # are no training rows
    share: np.ndarray | None,
    by_fold: Sequence[Mapping[Key, float]],  # for each fold what `additive_shares` gives
    held_out: tuple[Columns, np.ndarray] | None,  # columns and classes of rows whose features are shuffled, or None
) -> tuple[Part, ...]:
    """The kept features, pairs and cases, those that contribute most on average first."""
    tables, encoder = tables_of(model), model.model_.encoder
    share = kept_features(model).variation if share is None else share
    sizes = None if columns is None else _mean_sizes(model, columns)
    losses = {} if held_out is None else shuffled_losses(model, *held_out)
    found = []
    for k, key in enumerate(part_keys(model)):
        drawn: dict[str, Any]
        features: tuple[str, ...]
        if k < len(tables.curves):
            name, features = encoder.names[k], (encoder.names[k],)
            drawn = {**_curve(model, k, columns, y), "permuted": losses.get(name, float("nan"))}
        elif k < len(tables.curves) + len(tables.surfaces):
            features = tables.pair_names[k - len(tables.curves)]
            name, drawn = part_name(features), _surface(model, k - len(tables.curves), columns)
        else:
            name, features = SIMILAR, tuple(encoder.names)
            drawn = {"kind": "cases", "direction": "together", "grid": np.empty(0), "shape": np.empty(0)}
        folds = np.array([fold.get(key, 0.0) for fold in by_fold])
        size = np.empty(0) if sizes is None else sizes[:, k]
        found.append(Part(name, features, importance=None, variation=share[:, k], by_fold=folds, size=size, **drawn))
    return tuple(sorted(found, key=lambda part: -float((part.size if sizes is not None else part.variation).mean())))


def part_keys(model: ReadableClassifier) -> list[Key]:
    """What finds the parts of a model again in other fits: their features; none for all cases together."""
    tables = tables_of(model)
    cases = [frozenset[str]()] if len(tables.cases) else []
    singles = [frozenset((name,)) for name in tables.encoder.names]
    return [*singles, *map(frozenset, tables.pair_names), *cases]


def _mean_sizes(model: ReadableClassifier, columns: Columns) -> np.ndarray:
    """Mean moduli (outputs, parts) of contributions to the scores of training rows."""
    n = len(next(iter(columns.values())))
    some = spread(n, MAX_SIZE_ROWS)
    explanation = model.explain({name: values[some] for name, values in columns.items()})
    return np.abs(explanation.by_part).mean(axis=0)


# ---------------------------------------------------------------------- curves and surfaces


def _curve(model: ReadableClassifier, place: int, columns: Columns | None, y: np.ndarray | None) -> dict[str, Any]:
    """The curve of a feature, its direction, and the training rows below it, as fields of a `Part`."""
    name, column = model.model_.encoder.names[place], model.model_.encoder.columns[place]
    grid, shape = model.model_.curve(place, None)
    gap = np.array([None], dtype=object) if column.kind == "category" else np.array([np.nan])
    found: dict[str, Any] = {"at_missing": model.model_.curve(place, gap)[1][0]}
    if column.kind == "category":
        levels = np.asarray(grid, dtype=object)
        found |= {"kind": "category", "direction": "levels", "grid": levels, "shape": shape, "edges": levels}
        if columns is not None and y is not None:
            _, found["counts"], found["missing"] = count_rows(columns[name], y, model.classes_, levels)
        return found
    if len(set(grid.tolist())) == 1:
        grid, shape = grid[:1], shape[:1]
    central = np.ones(len(grid), dtype=bool)
    if columns is not None and y is not None:
        values = np.asarray(columns[name], dtype=float)
        known = values[~np.isnan(values)]
        found["scale"] = choose_scale(values) if len(known) else LINEAR
        edges = value_edges(known)
        if edges is None:
            edges = bin_edges(known, found["scale"])
        else:
            found["points"] = np.unique(known)
        found["edges"], found["counts"], found["missing"] = count_rows(values, y, model.classes_, None, edges)
        central = central_part(grid, values)
    return {**found, "kind": "number", "direction": direction_of(shape[central]), "grid": grid, "shape": shape}


def _surface(model: ReadableClassifier, k: int, columns: Columns | None) -> dict[str, Any]:
    """What a pair adds in its coarse cells, as fields of a `Part`."""
    encoder, surface = model.model_.encoder, tables_of(model).surfaces[k]
    ends, grids = [], []
    for place in surface.places:
        given, grid = _cell_values(model, surface.places, place)
        cells = [] if columns is None else columns[encoder.names[place]].tolist()
        if any(cell is None or cell != cell for cell in cells):
            grid = np.r_[grid, [None] if grid.dtype == object else np.nan]
        ends.append(given)
        grids.append(grid)
    values = model.model_.surface(surface.places, grids)[2]
    return {"kind": "pair", "direction": "together", "grid": ends[0], "across": ends[1], "shape": values}


def _cell_values(model: ReadableClassifier, places: tuple[int, int], place: int) -> tuple[np.ndarray, np.ndarray]:
    """Ends (m + 1,) of the coarse cells of a number, or levels of a category, and a value in each of them."""
    drawn = model.model_.surface(places, (None, None))[places.index(place)]
    if drawn.dtype == object:
        return drawn, drawn
    low, high = drawn[0::2], drawn[1::2]
    return np.r_[low, high[-1:]], high  # an end belongs to the cell below it


# ---------------------------------------------------------------------- the loss without a feature


def shuffled_losses(model: ReadableClassifier, columns: Columns, y: np.ndarray) -> dict[str, float]:
    """By how much the log-loss of some rows grows when the values of one kept feature are shuffled among them.

    The mean over some shuffles, the same for every feature; pairs and cases see the shuffled values too.
    """
    if not len(y):
        return {}
    some = spread(len(y), MAX_SHUFFLED_ROWS)
    rows = {name: columns[name][some] for name in model.model_.encoder.names}
    if not rows:
        return {}
    place = {label: k for k, label in enumerate(model.classes_.tolist())}
    codes = np.array([place[label] for label in y[some].tolist()])
    orders = [np.random.default_rng(seed).permutation(len(some)) for seed in range(SHUFFLES)]
    before = _log_loss(model, rows, codes)
    return {
        name: float(np.mean([_log_loss(model, {**rows, name: rows[name][order]}, codes) for order in orders])) - before
        for name in rows
    }


def _log_loss(model: Any, rows: Columns, codes: np.ndarray) -> float:
    probability = model.predict_proba(rows)[np.arange(len(codes)), codes]
    return float(-np.mean(np.log(np.maximum(probability, LEAST_PROBABILITY))))
