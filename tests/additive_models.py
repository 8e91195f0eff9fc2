"""Random additive models in fitted flagships, and rows of every kind for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from tamis import TamisClassifier, TamisRegressor
from tamis.base.calibration import Calibrator
from tamis.flagship.cells import Cases, Cells, Curve, Surface
from tamis.flagship.model import AdditiveModel
from tamis.table.encoding import Encoder
from tamis.table.table import TableReader, checked_input

LABELS = {2: ["no", "yes"], 3: ["a", "b", "c"]}


class Made(NamedTuple):
    """A flagship with a random model, its training rows, and other rows."""

    estimator: object
    train: pd.DataFrame
    rows: pd.DataFrame

    def parts(self, rows=None):
        """Scores and parts of rows from the model itself."""
        model = self.estimator.model_
        Z = model.encode(self.estimator._table(self.rows if rows is None else rows))
        return model.scores(Z), model.parts(Z)


def training_rows(rng, *, text=True, gaps=True, n=80):
    frame = pd.DataFrame(
        {
            "left out": rng.normal(size=n),
            "age": rng.integers(18, 90, n).astype(float),
            "income, in $": np.round(np.exp(rng.normal(10, 1, n)), 2),
            "=ratio": rng.normal(size=n) * 1e-5,
            "stage": rng.integers(1, 4, n).astype(float),
            "flag": rng.random(n) < 0.4,
        }
    )
    if text:
        frame['job\'s "kind"'] = rng.choice(["clerk", "it's", "-none", ""], n)
        frame["colour"] = rng.choice(["red", "blue"], n)
    if gaps:
        frame["flag"] = frame["flag"].astype(object)
        for k, name in enumerate(frame.columns):
            if name != 'job\'s "kind"':
                frame.loc[k :: 9 + k, name] = None
    return frame


def targets(train, classes, rng):
    """Classes, or numbers if there are none, that follow from two columns of the training rows."""
    income = np.log(train["income, in $"].fillna(train["income, in $"].median())) - 10.0
    score = 2.0 * income + (train["flag"] == True) + 0.3 * rng.normal(size=len(train))  # noqa: E712
    return score if not classes else np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score)


def other_rows(train, rng, *, gaps=True):
    """Rows like those of training, values on edges, values beyond the range, unseen levels and missing cells."""
    rows = pd.concat([train, train], ignore_index=True)
    n = len(rows)
    for name in rows:
        rows[name] = rng.permutation(rows[name].to_numpy(dtype=object))
        if name in ("left out", "age", "income, in $", "=ratio", "stage"):
            rows[name] = rows[name].astype(float)
    rows.loc[rng.random(n) < 0.1, "age"] = 1e6
    rows.loc[rng.random(n) < 0.1, "income, in $"] = -1e9
    rows.loc[rng.random(n) < 0.1, "stage"] = 9.0
    if "colour" in rows:
        rows.loc[rng.random(n) < 0.1, "colour"] = "green"
    if gaps:
        for name in rows:
            if name != 'job\'s "kind"':
                rows.loc[rng.random(n) < 0.08, name] = None
    return rows


def cells_of(column, values, rng):
    if column.kind == "category":
        return Cells(len(column.levels), np.array([]))
    known = np.unique(values[~np.isnan(values)])
    if rng.random() < 0.2:  # edges within the range, only two of them, or all in one place
        known = known[2 : int(rng.choice([3, 4, len(known)]))]
    inner = rng.choice(known, min(len(known), int(rng.integers(1, 12))), replace=False)  # on values: ties matter
    edges = np.sort(np.concatenate([[known[0]], inner, [known[-1]]]))  # some cells have no width
    return Cells(len(edges) - 1, edges)


def curve_of(cells, q, rng):
    left = np.round(rng.normal(size=(cells.size + 2, q)), 3)
    right = np.where(rng.random((cells.size + 2, 1)) < 0.5, left, rng.normal(size=left.shape))
    left[-1] = right[-1] = 0.0
    if not cells.is_number:
        return Curve(left, left.copy())
    right[-2] = left[-2]
    return Curve(left, right)


def surface_of(places, cells, q, rng):
    groups = []
    for j in places:
        size = cells[j].size
        coarse = int(rng.integers(1, 5))
        group = np.sort(rng.integers(0, coarse, size)) if cells[j].is_number else rng.integers(0, coarse, size)
        groups.append(np.concatenate([group, [coarse, coarse + 1]]).astype(np.int64))
    shape = (groups[0][-1] + 1, groups[1][-1] + 1)
    values = np.round(rng.normal(size=(*shape, q)), 2)
    values[-1], values[:, -1] = 0.0, 0.0
    return Surface(tuple(places), tuple(groups), values)


def cases_of(Z, cells, q, k, rng):
    rows = Z[rng.choice(len(Z), k, replace=False)]
    coordinates = []
    for own in cells:
        steps = np.cumsum(rng.random((own.size + 2, 2)) * 0.4).reshape(-1, 2)
        coordinates.append(Curve(steps[:, 0].copy(), steps[:, 1].copy()))
    return Cases(rows, tuple(coordinates), rng.random(len(cells)), rng.normal(size=(k, q)))


def random_flagship(
    seed=0, classes=2, *, text=True, missing="absent", pairs=3, cases=4, kept=None, slope=1.0, offset=0.3
):
    """A classifier of some classes, or a regressor for none, whose model is random."""
    rng = np.random.default_rng(seed)
    gaps = missing is not None
    train = training_rows(rng, text=text, gaps=gaps)
    q = classes if classes > 2 else 1
    estimator = (TamisClassifier if classes else TamisRegressor)(missing=missing)
    estimator.n_features_in_ = train.shape[1]
    names = list(train.columns)
    estimator.feature_names_in_ = np.array(names, dtype=object)
    columns = np.arange(1, train.shape[1]) if kept is None else np.array(kept, dtype=int)
    categorical = [j for j, name in enumerate(names) if j > 3]
    estimator.reader_ = TableReader.of(names, categorical, missing)
    table = estimator.reader_.read(checked_input(train)[0], names)
    encoder = Encoder.fit(table, np.ones(len(train)), scaling=None, missing=missing).select(columns)
    Z = encoder.encode(table, columns)
    cells = tuple(cells_of(column, Z[:, j], rng) for j, column in enumerate(encoder.columns))
    d = len(cells)
    chosen = [tuple(rng.choice(d, 2, replace=False).tolist()) for _ in range(pairs if d > 1 else 0)]
    estimator.model_ = AdditiveModel(
        encoder=encoder,
        columns=columns,
        instances=np.arange(cases),
        intercept=rng.normal(size=q),
        cells=cells,
        curves=tuple(curve_of(own, q, rng) for own in cells),
        surfaces=tuple(surface_of(pair, cells, q, rng) for pair in chosen),
        cases=cases_of(Z, cells, q, cases, rng),
    )
    estimator.features_, estimator.seed_ = columns, 0
    estimator.intercept_ = estimator.model_.intercept
    estimator.instances_, estimator.instance_labels_ = np.arange(cases), np.arange(cases)
    if classes:
        estimator.classes_ = np.array(LABELS[classes])
        estimator.calibrator_ = Calibrator(slope, offset)
    return Made(estimator, train, other_rows(train, rng, gaps=gaps))
