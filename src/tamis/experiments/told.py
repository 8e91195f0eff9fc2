"""What figures need of a fit, as JSON values in its row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tamis.experiments.method import Fitted, decision
from tamis.experiments.problem import Problem
from tamis.views.studies.atlas import embed

MOST = 400  # rows in a figure
SHOWN = 20  # features and instances in a figure
STEPS = 60  # of a map of decisions in each direction


def curves(problem: Problem, found: Fitted) -> dict[str, Any]:
    """Scores and classes of test rows, for ROC and KS curves of two classes."""
    score = decision(found.model, found.test)
    truth = problem.test[1]
    if score is None or len(np.unique(truth)) != 2:
        return {}
    rows = np.linspace(0, len(truth) - 1, min(len(truth), MOST)).astype(int)
    return {"scores": np.round(score[rows].astype(float), 6), "truth": (truth[rows] == truth.max()).astype(int)}


def bars(problem: Problem, found: Fitted) -> dict[str, Any]:
    """Importance of the kept features and instances, the largest first."""
    model = found.model
    features = [problem.names[j] if problem.names else f"column {j}" for j in model.features_]
    out = {}
    for kind, names in (("features", features), ("instances", model.instance_labels_.tolist())):
        try:
            values = model.feature_importance_ if kind == "features" else model.instance_importance_
        except AttributeError:  # kernels on several features have no importance each
            continue
        if np.ndim(values) != 1:
            continue
        order = np.argsort(-np.abs(values), kind="stable")[:SHOWN]
        out[kind] = {"names": [str(names[k]) for k in order], "values": values[order]}
    return {"importance": out}


def correlations(problem: Problem, found: Fitted) -> dict[str, Any]:
    """Correlation of the kept features over training rows."""
    columns = found.model.features_[:SHOWN]
    X = problem.train[0][:, columns]
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    X = X - X.mean(axis=0)
    size = np.sqrt((X**2).sum(axis=0))
    size[size == 0] = 1.0
    return {"correlation": {"columns": columns, "values": np.round((X / size).T @ (X / size), 3)}}


def history(found: Fitted) -> dict[str, Any]:
    """Objective, and weights of the kernels where they are kept, of every round."""
    whole = getattr(found.model, "history_", None)
    whole = whole[0] if isinstance(whole, list) and whole else whole
    if whole is None or not hasattr(whole, "objective"):
        return {}
    out: dict[str, Any] = {"objective": np.asarray(whole.objective, dtype=float)}
    weights = getattr(whole, "weights", None)
    if weights is not None and len(weights) and np.shape(weights)[1] <= MOST:
        out["weights"] = np.round(np.asarray(weights, dtype=float), 5)
        out["kernel_names"] = [str(name) for name in getattr(found.model, "kernel_names_", [])]
    return {"history": out}


def per_class(found: Fitted) -> dict[str, Any]:
    """Prototypes of each class."""
    return {"per_class": {str(k): n for k, n in found.model.prototypes_per_class_.items()}}


def prototype_map(problem: Problem, found: Fitted) -> dict[str, Any]:
    """Places of training rows and prototypes in a plane."""
    X, y = problem.train
    rows = np.linspace(0, len(y) - 1, min(len(y), MOST)).astype(int)
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
    """Decisions over a plane, of a model on two features; for one on kernels these are given."""
    X = problem.X
    low, high = X.min(axis=0), X.max(axis=0)
    axes = [np.linspace(a, b, STEPS) for a, b in zip(low, high, strict=True)]
    points = np.array(np.meshgrid(*axes)).reshape(2, -1).T
    if kernels is None:
        values = decision(found.model, points)
    else:
        whole = replace(problem, X=np.vstack([X, points]), y=_padded(problem.y, len(points)), memo={})
        rows, new = np.arange(problem.n_train), np.arange(len(X), len(X) + len(points))
        stack = whole.stack(*kernels, rows, new, rows)
        model = found.fresh.fit(rows[:, None], problem.y[rows]).extended(stack.values)
        values = decision(model, problem.n_train + np.arange(len(points))[:, None])
    shape = (STEPS, STEPS)
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
