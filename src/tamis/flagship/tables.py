"""`model_tables`: an additive model as plain tables, from which every other form of it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tamis.codec import plain_labels
from tamis.flagship.cells import Cells, Curve, Surface
from tamis.flagship.model import AdditiveModel
from tamis.table.encoding import Nominal, Number, Position

if TYPE_CHECKING:
    from tamis.base.estimator import ReadableEstimator

FORMAT = 1


def model_tables(estimator: ReadableEstimator) -> dict[str, Any]:
    """Describe the model of a fitted flagship as a dict that JSON can hold, in the units of the columns.

    The dict has the keys

    format       1
    classes      class labels in order, text, numbers or flags; None for a regressor
    outputs      what each of the q scores is about: the second of two classes, every one of several classes, or the
                 name of a regressor's prediction
    probability  {"slope", "offset"}; None where there are no probabilities
    intercept    q numbers
    features     list of features, see below
    pairs        list of pairs, see below
    cases        list of cases, see below

    Every feature has m + 2 cells: m intervals or levels, then cell m for missing values, then cell m + 1 for levels
    that are rare or not in the training rows. A feature is

    name         of the column
    column       its position in the training table
    kind         "number" or "category"
    edges        m + 1 ascending numbers: interval i is (edges[i], edges[i + 1]]; None for a category
    low, high    range to which numbers are clipped first, within the edges; None for a category
    levels       m levels, all text or all numbers or flags in general; None for a number
    fill         what replaces a missing value before anything else: a number, or for a category the position of a
                 level; None: a missing value is in cell m
    left, right  contributions at the ends of the cells, m + 2 lists of q numbers; equal for a category
    similarity   {"gap": number, "left": m + 2 numbers, "right": m + 2 numbers}; None for a model without cases

    A pair is

    features     positions of its two features in `features`
    groups       for each of the two the coarse cell of each of its m + 2 cells
    values       contributions [coarse cell of the first][coarse cell of the second], lists of q numbers

    A case is

    name         its row label
    pull         q numbers
    cells        its cell in every feature
    at           its coordinate in every feature; 0 for categories and missing values

    To evaluate a row, find its cell and its share of the way through the cell in every feature:

    1. A missing value is replaced by `fill`; where this is None, the cell is m and the share 0.
    2. A number x is clipped to [low, high]. Its cell is the number of inner edges (edges[1] to edges[m - 1]) that are
       smaller than x. Its share is (x - edges[cell]) / (edges[cell + 1] - edges[cell]), or 0 where the two are equal.
    3. A category is in the cell of its level, or in m + 1 if it is not among the levels. Its share is 0.

    With ``between(t) = t.left[cell] + share * (t.right[cell] - t.left[cell])``, the contribution of a feature is
    between(feature), that of a pair is values[groups[0][cell of the first]][groups[1][cell of the second]], and that of
    a case is ``pull * exp(-sum_j d_j)``, where d_j is

    - ``(between(similarity) - at[j])**2`` if the feature is a number and neither the row nor the case is missing there,
    - else 0 if the cells of row and case are equal,
    - else the gap.

    The scores are the intercept plus all contributions, added in the order of features, pairs, cases. A regressor
    predicts the score. Of two classes the second is predicted if the score is at least zero, and has the probability
    ``1 / (1 + exp(-(slope * score + offset)))``; of several the first with the largest score, and the probabilities
    are the softmax of ``slope * scores``.
    """
    model, classes = estimator.model_, getattr(estimator, "classes_", None)
    calibrator = getattr(estimator, "calibrator_", None)
    if not isinstance(model, AdditiveModel):
        raise ValueError(f"the model of {type(estimator).__name__} has kernels, no tables: use TamisClassifier")
    return {
        "format": FORMAT,
        "classes": None if classes is None else [_plain(label) for label in classes.tolist()],
        "outputs": [_plain(label) for label in estimator._outputs],
        "probability": None if calibrator is None else {"slope": calibrator.slope, "offset": calibrator.offset},
        "intercept": model.intercept.tolist(),
        "features": [_feature(model, j) for j in range(len(model.cells))],
        "pairs": [_pair(surface) for surface in model.surfaces],
        "cases": _cases(model, [str(label) for label in plain_labels(estimator.instance_labels_)]),
    }


def _feature(model: AdditiveModel, j: int) -> dict[str, Any]:
    """The description of one feature."""
    column, cells, curve = model.encoder.columns[j], model.cells[j], model.curves[j]
    return {
        "name": model.encoder.names[j],
        "column": int(model.columns[j]),
        **(_levels(column) if isinstance(column, Nominal) else _intervals(column, cells, model.encoder.names[j])),
        "left": curve.left.tolist(),
        "right": curve.right.tolist(),
        "similarity": _similarity(model, j) if len(model.cases) else None,
    }


def _levels(column: Nominal) -> dict[str, Any]:
    """The cells of a category."""
    fill = None if np.isnan(column.fill) else int(column.fill)
    levels = [_plain(level) for level in column.levels]
    return {"kind": "category", "edges": None, "low": None, "high": None, "levels": levels, "fill": fill}


def _intervals(column: Number | Position, cells: Cells, name: str) -> dict[str, Any]:
    """The cells of a number in its own units."""
    if not isinstance(column, Number) or column.knots is not None:
        raise ValueError(f"column {name!r} is ranked or a position in precomputed kernels, and has no cells")

    def own(z: Any) -> Any:
        """Values in the units of the column; exact where the encoding does not scale."""
        return z * column.scale + column.centre

    edges = own(cells.edges)
    low, high = np.clip([column.low, column.high], edges[0], edges[-1]).tolist()
    fill = None if np.isnan(column.fill) else float(np.clip(own(column.fill), low, high))
    return {"kind": "number", "edges": edges.tolist(), "low": low, "high": high, "levels": None, "fill": fill}


def _similarity(model: AdditiveModel, j: int) -> dict[str, Any]:
    """What a column adds to the distance of a row and a case."""
    coordinate = _coordinate(model, j)
    gap = float(model.cases.gaps[j])
    return {"gap": gap, "left": coordinate.left.tolist(), "right": coordinate.right.tolist()}


def _coordinate(model: AdditiveModel, j: int) -> Curve:
    """Coordinates at the ends of all cells of a number; a category has none."""
    if model.cells[j].is_number:
        return model.cases.coordinates[j]
    none = np.zeros(model.cells[j].size + 2)
    return Curve(none, none)


def _pair(surface: Surface) -> dict[str, Any]:
    return {
        "features": [int(place) for place in surface.places],
        "groups": [np.asarray(group).tolist() for group in surface.groups],
        "values": surface.values.tolist(),
    }


def _cases(model: AdditiveModel, names: list[str]) -> list[dict[str, Any]]:
    """The descriptions of all kept cases."""
    if not len(model.cases):
        return []
    places = [column.place(model.cases.rows[:, j]) for j, column in enumerate(model.cells)]
    at = [_coordinate(model, j).at(own) for j, own in enumerate(places)]
    return [
        {
            "name": names[i],
            "pull": model.cases.pull[i].tolist(),
            "cells": [int(own.cell[i]) for own in places],
            "at": [
                float(values[i]) if own.cell[i] < column.size else 0.0
                for column, own, values in zip(model.cells, places, at, strict=True)
            ],
        }
        for i in range(len(model.cases))
    ]


def _plain(label: Any) -> Any:
    """A label as JSON holds it."""
    label = label.item() if isinstance(label, np.generic) else label
    return label if isinstance(label, str | bool | int | float) else str(label)
