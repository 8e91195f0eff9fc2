"""Data of figures from a fit, for its row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from experiments.method import Fitted, decision
from experiments.problem import Problem
from tamis.views.studies import embed

MAX_ROWS = 400
MAX_BARS = 20  # features or instances
GRID_STEPS = 60  # of a plane, in each direction


def curves(problem: Problem, found: Fitted) -> dict[str, Any]:
    """Return scores and classes of test rows, for ROC and KS curves of two classes."""
    score = decision(found.model, found.test)
    truth = problem.test[1]
    if score is None or len(np.unique(truth)) != 2:
        return {}
    rows = np.linspace(0, len(truth) - 1, min(len(truth), MAX_ROWS)).astype(int)
    return {"scores": np.round(score[rows].astype(float), 6), "truth": (truth[rows] == truth.max()).astype(int)}


def bars(problem: Problem, found: Fitted) -> dict[str, Any]:
    """Return the importance of the kept features and instances, largest first."""
    model = found.model
    features = [problem.names[j] if problem.names else f"column {j}" for j in model.features_]
    out = {}
    for kind, names in (("features", features), ("instances", model.instance_labels_.tolist())):
        try:
            values = model.feature_importance_ if kind == "features" else model.instance_importance_
        except AttributeError:  # kernels of several features have no importance of one feature
            continue
        if np.ndim(values) != 1:
            continue
        order = np.argsort(-np.abs(values), kind="stable")[:MAX_BARS]
        out[kind] = {"names": [str(names[k]) for k in order], "values": values[order]}
    return {"importance": out}


def correlations(problem: Problem, found: Fitted) -> dict[str, Any]:
    """Return the correlation of the kept features over training rows."""
    columns = found.model.features_[:MAX_BARS]
    X = problem.train[0][:, columns]
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    X = X - X.mean(axis=0)
    size = np.sqrt((X**2).sum(axis=0))
    size[size == 0] = 1.0
    return {"correlation": {"columns": columns, "values": np.round((X / size).T @ (X / size), 3)}}


def history(found: Fitted) -> dict[str, Any]:
    """Return the objective of every iteration, and kernel weights if they are recorded."""
    record = getattr(found.model, "history_", None)
    record = record[0] if isinstance(record, list) and record else record
    if record is None or not hasattr(record, "objective"):
        return {}
    out: dict[str, Any] = {"objective": np.asarray(record.objective, dtype=float)}
    weights = getattr(record, "weights", None)
    if weights is not None and len(weights) and np.shape(weights)[1] <= MAX_ROWS:
        out["weights"] = np.round(np.asarray(weights, dtype=float), 5)
        out["kernel_names"] = [str(name) for name in getattr(found.model, "kernel_names_", [])]
    return {"history": out}


def per_class(found: Fitted) -> dict[str, Any]:
    """Return the number of prototypes of each class."""
    return {"per_class": {str(k): n for k, n in found.model.prototypes_per_class_.items()}}


def prototype_map(problem: Problem, found: Fitted) -> dict[str, Any]:
    """Return positions of training rows and prototypes in a plane."""
    X, y = problem.train
    rows = np.linspace(0, len(y) - 1, min(len(y), MAX_ROWS)).astype(int)
    places, prototypes = embed(found.model, X[rows], random_state=0)
    return {
        "map": {
            "rows": np.round(places, 3),
            "labels": y[rows],
            "prototypes": np.round(prototypes, 3),
            "owners": found.model.prototype_labels_,
        }
    }


def grid_of(problem: Problem, found: Fitted, kernels: tuple[str, Any] | None) -> dict[str, Any]:
    """Return decisions of a model on two features over a grid; `kernels` for a model on kernels."""
    X = problem.X
    low, high = X.min(axis=0), X.max(axis=0)
    axes = [np.linspace(a, b, GRID_STEPS) for a, b in zip(low, high, strict=True)]
    points = np.array(np.meshgrid(*axes)).reshape(2, -1).T
    if kernels is None:
        values = decision(found.model, points)
    else:
        extended = replace(problem, X=np.vstack([X, points]), y=_padded(problem.y, len(points)), memo={})
        rows, new = np.arange(problem.n_train), np.arange(len(X), len(X) + len(points))
        stack = extended.stack(*kernels, rows, new, rows)
        model = found.fresh.fit(rows[:, None], problem.y[rows]).extended(stack.values)
        values = decision(model, problem.n_train + np.arange(len(points))[:, None])
    shape = (GRID_STEPS, GRID_STEPS)
    return {
        "plane": {
            "axes": axes,
            "values": None if values is None else np.round(values.reshape(shape), 4),
            "X": np.round(problem.train[0], 4),
            "y": problem.train[1],
        }
    }


def _padded(y: np.ndarray, n: int) -> np.ndarray:
    return np.concatenate([y, np.zeros(n, dtype=y.dtype)])
