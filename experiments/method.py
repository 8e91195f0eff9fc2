"""Methods of a comparison: tuning, fitting, and measures on test rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import f1_score, matthews_corrcoef
from sklearn.model_selection import GridSearchCV

from experiments.cells import NOT_CONVERGED, OK, PROTOCOLS, SIZES
from experiments.problem import Problem
from tamis import precomputed
from tamis.explain import measures


@dataclass(frozen=True)
class Fitted:
    """A tuned classifier.

    Attributes
    ----------
    model : fitted to the training rows
    fresh : unfitted, with the chosen settings
    train, test : its input for training and test rows
    chosen : {setting: chosen value}
    columns : columns of each kernel, for a model on precomputed kernels; else None
    finish : function that prepares a classifier fitted to training rows for test rows
    """

    model: Any
    fresh: Any
    train: Any
    test: Any
    chosen: Mapping[str, Any] = field(default_factory=dict)
    columns: Sequence[frozenset[int]] | None = None
    finish: Callable[[Any], Any] = lambda model: model


Run = Callable[[Problem, bool], Fitted]  # takes a problem, and whether the grid is small


@dataclass(frozen=True)
class Method:
    """A column of a comparison.

    Attributes
    ----------
    run : tunes and fits
    family : methods of one family share kernels and run one after another; empty for a method on its own
    needs : package without which the method is left out; empty for none
    protocols, sizes : those that include the method
    cases : whether its models consist of training rows, which are then counted
    """

    run: Run
    family: str = ""
    needs: str = ""
    protocols: tuple[str, ...] = PROTOCOLS
    sizes: tuple[str, ...] = SIZES
    cases: bool = True


def points(**grid: Iterable[Any]) -> list[dict[str, Any]]:
    """Return all combinations of values."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def on_kernels(
    problem: Problem,
    make: Callable[..., Any],
    grid: Sequence[dict[str, Any]],
    key: str,
    kernels: Any,
    whole: bool = False,
) -> Fitted:
    """Tune a classifier on kernels by accuracy on folds; all settings share the kernels of a fold."""
    y, rows, test = problem.y, np.arange(problem.n_train), np.arange(problem.n_train, len(problem.y))
    hits = np.zeros(len(grid))
    for a, b in problem.inner if len(grid) > 1 else ():
        given = precomputed(problem.stack(key, kernels, a, rows, rows, whole=whole).values)
        for k, point in enumerate(grid):
            model = make(kernels=given, **point).fit(a[:, None], y[a])
            hits[k] += np.sum(model.predict(b[:, None]) == y[b])
    best = grid[int(np.argmax(hits))]
    own = problem.stack(key, kernels, rows, rows, rows, whole=whole)
    values = problem.stack(key, kernels, rows, test, rows, whole=whole).values
    fresh = make(kernels=precomputed(own.values), **best)
    finish = partial(_extended, values)
    model = finish(clone(fresh).fit(rows[:, None], y[rows]))
    return Fitted(model, fresh, rows[:, None], test[:, None], best, own.columns, finish)


def _extended(values: np.ndarray, model: Any) -> Any:
    """Return the model for new rows; a model without cases is constant."""
    return model.extended(values) if len(model.instances_) else _Constant(model)


class _Constant:
    """A model without cases, whose decision is the same for all rows."""

    def __init__(self, model: Any):
        self.model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.repeat(self.model.predict(np.zeros((1, 1))), len(X))

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return np.repeat(self.model.decision_function(np.zeros((1, 1))), len(X), axis=0)


def searched(problem: Problem, model: Any, grid: Any) -> Fitted:
    """Tune a classifier over a grid by accuracy on the folds."""
    X, y = problem.train
    search = GridSearchCV(model, grid, cv=problem.inner, error_score="raise").fit(X, y)
    return Fitted(search.best_estimator_, clone(search.best_estimator_), X, problem.test[0], search.best_params_)


def chosen_by_itself(problem: Problem, model: Any) -> Fitted:
    """Fit an estimator of tamis with its own search, on the folds."""
    X, y = problem.train
    model = clone(model).set_params(cv=problem.inner, random_state=problem.seed)
    model.fit(X, y)
    return Fitted(model, model.without_search(), X, problem.test[0], model.summary())


def as_it_is(problem: Problem, model: Any, chosen: Mapping[str, Any] | None = None) -> Fitted:
    """Fit a classifier without tuning."""
    X, y = problem.train
    return Fitted(clone(model).fit(X, y), clone(model), X, problem.test[0], chosen or {})


def measured(problem: Problem, run: Run, quick: bool) -> tuple[dict[str, float], str, Fitted]:
    """Fit a method and measure it on the test rows; return numbers, status and the fit."""
    begun = time.process_time()
    found = run(problem, quick)
    seconds = time.process_time() - begun
    begun = time.process_time()
    predicted = found.model.predict(found.test)
    numbers = {"seconds": seconds, "predict_seconds": time.process_time() - begun}
    numbers |= scores(problem.test[1], predicted, decision(found.model, found.test))
    numbers |= sizes(problem, found)
    if hasattr(found.model, "prototype_measures"):
        own = found.model.prototype_measures(found.test, problem.test[1])
        numbers |= {"ip": own["interpretability"], "n_kernels": own["n_kernels"]}
        numbers |= {"dr": own["discrimination"]} if "discrimination" in own else {}
    status = getattr(found.model, "status_", None)
    return numbers, OK if status is None or status.converged else NOT_CONVERGED, found


def decision(model: Any, X: Any) -> np.ndarray | None:
    """Return scores that increase with the second of two classes; None for more classes."""
    if hasattr(model, "decision_function"):
        values = np.asarray(model.decision_function(X))
    elif hasattr(model, "predict_proba"):
        values = np.asarray(model.predict_proba(X))
    else:
        return None
    if values.ndim == 2 and values.shape[1] == 2:
        values = values[:, 1]
    return values if values.ndim == 1 else None


def scores(truth: np.ndarray, predicted: np.ndarray, score: np.ndarray | None) -> dict[str, float]:
    """Return accuracy, F1 (second of two classes, else the mean of all), MCC, and AUC and KS of two classes, in %."""
    two = len(np.unique(truth)) == 2
    out = {
        "accuracy": 100.0 * float(np.mean(predicted == truth)),
        "f1": 100.0 * float(f1_score(truth, predicted, average="binary" if two else "macro", zero_division=0.0)),
        "mcc": 100.0 * float(matthews_corrcoef(truth, predicted)),
    }
    if two and score is not None and np.all(np.isfinite(score)):
        positive = truth == truth.max()
        out |= {"auc": 100.0 * measures.auc_value(positive, score), "ks": 100.0 * measures.ks_value(positive, score)}
    return out


def sizes(problem: Problem, found: Fitted) -> dict[str, float]:
    """Return the numbers of kernels, instances and features of a model, and the shares that it does not need."""
    instances, features = kept(found)
    n = problem.n_train
    d = problem.X.shape[1] if found.columns is not None else np.shape(found.train)[1]
    kernels = (
        {} if found.columns is None else {"n_kernels": float(len(getattr(found.model, "kernels_", found.columns)))}
    )
    return kernels | {
        "n_instances": float(instances),
        "n_features": float(features),
        "irr": measures.instance_reduction(instances, n),
        "frr": measures.feature_reduction(features, d),
    }


def kept(found: Fitted) -> tuple[int, int]:
    """Return the numbers of training rows and features that predictions need; no rows if the model has no cases."""
    model, d = found.model, np.shape(found.train)[1]
    if found.columns is not None:
        used = [found.columns[k] for k in model.kernels_] if hasattr(model, "kernels_") else list(found.columns)
        cases = model.instances_ if hasattr(model, "instances_") else model.support_
        return len(cases), len(frozenset().union(*used))
    if hasattr(model, "series_"):
        return len(model.instances_), len(model.kernels_)
    if hasattr(model, "features_"):
        return len(model.instances_), len(model.features_)
    last = model[-1] if hasattr(model, "steps") else model
    if hasattr(last, "support_") and hasattr(last, "dual_coef_"):
        return len(last.support_), d
    if hasattr(last, "coef_") and d == np.shape(last.coef_)[-1]:
        return 0, int(np.count_nonzero(np.any(np.atleast_2d(last.coef_) != 0, axis=0)))
    return 0, 0 if type(last).__name__ == "DummyClassifier" else d
