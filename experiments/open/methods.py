"""The methods of the open benchmark, and what is measured of each fit."""

from __future__ import annotations

import pickle
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from experiments import peers
from experiments.cells import NOT_CONVERGED, OK, Cell, Row
from experiments.method import Fitted, Method, as_it_is
from experiments.paper import Paper
from experiments.problem import Problem
from tamis import EM2NOLCClassifierCV, TamisClassifier
from tamis.io import save
from tamis.workflow import peers as shared

BUDGETS = (5, 10, 20)
MIN_PROBABILITY = 1e-15
BINS = 10
TREES, DEPTH = 500, 4


@dataclass(frozen=True)
class OnColumns:
    """A classifier on some columns of a table."""

    model: Any
    columns: list[int]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict_proba(X[:, self.columns])

    @property
    def classes_(self) -> np.ndarray:
        return self.model.classes_


def tamis(problem: Problem, quick: bool, k: int) -> Fitted:
    """Fit the flagship with at most k features, all else as it is."""
    model = TamisClassifier(max_features=k, categorical_features=problem.categorical, random_state=problem.seed)
    return as_it_is(problem, model)


def em2nolc(problem: Problem, quick: bool) -> Fitted:
    """Fit EM2NOLC with its own search."""
    return as_it_is(
        problem, EM2NOLCClassifierCV(categorical_features=problem.categorical, random_state=problem.seed, cv=5)
    )


def ebm(problem: Problem, quick: bool) -> Fitted:
    """Fit an EBM with its defaults; fits to its best features share it."""
    found, seconds = _shared_ebm(problem)
    return Fitted(found, clone(found), problem.train[0], problem.test[0], {"earlier seconds": seconds})


def best_ebm(problem: Problem, quick: bool, k: int) -> Fitted:
    """Fit an EBM again to the k columns that matter most to an EBM with all of them."""
    whole, seconds = _shared_ebm(problem)
    weight = np.zeros(problem.X.shape[1])
    for term, importance in zip(whole.term_features_, whole.term_importances(), strict=True):
        if len(term) == 1:
            weight[term[0]] = importance
    columns = np.sort(np.argsort(-weight, kind="stable")[:k]).tolist()
    X, y = problem.train
    model = shared.ebm(problem.nominal[columns], random_state=problem.seed).fit(X[:, columns], y)
    return Fitted(OnColumns(model, columns), None, X, problem.test[0], {"earlier seconds": seconds})


def _shared_ebm(problem: Problem) -> tuple[Any, float]:
    """The EBM of a problem, and the processor seconds that an earlier method took for it."""
    if "ebm" in problem.memo:
        return problem.memo["ebm"]
    begun = time.process_time()
    found = shared.ebm(problem.nominal, random_state=problem.seed).fit(*problem.train)
    problem.memo["ebm"] = found, time.process_time() - begun
    return found, 0.0


def boosting(problem: Problem, quick: bool) -> Fitted:
    """Fit histogram gradient boosting with its defaults."""
    return as_it_is(problem, shared.boosting(problem.nominal, random_state=problem.seed))


def svc(problem: Problem, quick: bool) -> Fitted:
    """Tune a support vector classifier, with a sigmoid of held-out decisions as its probabilities."""
    found = peers.svc(problem, True)
    model = CalibratedClassifierCV(found.fresh, cv=problem.inner, ensemble=False).fit(*problem.train)
    return replace(found, model=model)


def sparse(problem: Problem, quick: bool, kind: str, k: int) -> Fitted:
    """Tune a logistic regression of at most k columns."""
    X, y = problem.train
    model = peers.sparse_logistic(kind, X, y, problem.nominal, problem.inner, k, problem.seed)
    return Fitted(model, None, X, problem.test[0])


def forest(problem: Problem, quick: bool) -> Fitted:
    """Fit a random forest of many trees."""
    model = RandomForestClassifier(TREES, random_state=problem.seed)
    return as_it_is(problem, make_pipeline(shared.encoder(problem.nominal), model))


def tree(problem: Problem, quick: bool) -> Fitted:
    """Fit a small tree."""
    model = DecisionTreeClassifier(max_depth=DEPTH, random_state=problem.seed)
    return as_it_is(problem, make_pipeline(shared.encoder(problem.nominal), model))


METHODS: dict[str, Method] = {
    **{f"tamis@{k}": Method(partial(tamis, k=k)) for k in BUDGETS},
    "EM2NOLC": Method(em2nolc),
    "EBM": Method(ebm, family="EBM", needs="interpret", cases=False),
    **{f"EBM@{k}": Method(partial(best_ebm, k=k), family="EBM", needs="interpret", cases=False) for k in (5, 10)},
    "boosting": Method(boosting, cases=False),
    "boosting, tuned": Method(peers.boosting, cases=False),
    "forest": Method(forest, cases=False),
    "SVC": Method(svc),
    **{f"l1@{k}": Method(partial(sparse, kind="l1", k=k), cases=False) for k in BUDGETS},
    **{f"subset@{k}": Method(partial(sparse, kind="abess", k=k), needs="abess", cases=False) for k in BUDGETS},
    "tree": Method(tree, cases=False),
}


# ---------------------------------------------------------------------- measures


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Raise TimeoutError after so many seconds; in the main thread of a process only."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"the fit had not ended after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop) if seconds else None
    signal.setitimer(signal.ITIMER_REAL, seconds or 0.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        if seconds:
            signal.signal(signal.SIGALRM, before)


def trial(paper: Paper, cell: Cell, problem: Problem, limit: float | None) -> Row:
    """Fit a method to one split within so many seconds, and measure its probabilities on the test rows."""
    begun = time.process_time()
    with limited(limit):
        found = paper.methods[cell.method].run(problem, cell.size == "quick")
    seconds = time.process_time() - begun + float(found.chosen.get("earlier seconds", 0.0))
    X, y = problem.test
    begun = time.process_time()
    given = found.model.predict_proba(X)
    numbers = {"seconds": seconds, "predict_seconds": time.process_time() - begun}
    P = np.zeros((len(y), int(problem.y.max()) + 1))
    P[:, np.asarray(found.model.classes_, dtype=int)] = given
    features = features_of(found.model, problem.X.shape[1])
    numbers |= scores(y, P) | {"n_features": float(len(features)), "n_terms": n_terms(found.model)}
    numbers |= {"bytes": float(size_of(found.model))}
    if hasattr(found.model, "instances_"):
        numbers["n_instances"] = float(len(found.model.instances_))
    status = getattr(found.model, "status_", None)
    extra = {
        "features": features,
        "rows": problem.n_train,
        "columns": problem.X.shape[1],
        "classes": P.shape[1],
    }
    return Row(
        cell, numbers, OK if status is None or status.converged else NOT_CONVERGED, seed=problem.seed, extra=extra
    )


def scores(y: np.ndarray, P: np.ndarray) -> dict[str, float]:
    """Return accuracy and AUC (mean over classes against the rest) in per cent, log-loss and calibration error."""
    own = np.clip(P[np.arange(len(y)), y], MIN_PROBABILITY, 1.0)
    known = [c for c in range(P.shape[1]) if 0 < np.sum(y == c) < len(y)]
    auc = np.mean([roc_auc_score(y == c, P[:, c]) for c in known[-1:] if P.shape[1] == 2] or [np.nan])
    if P.shape[1] > 2 and known:
        auc = np.mean([roc_auc_score(y == c, P[:, c]) for c in known])
    return {
        "accuracy": 100.0 * float(np.mean(P.argmax(axis=1) == y)),
        "log_loss": float(-np.mean(np.log(own))),
        "auc": 100.0 * float(auc),
        "ece": calibration_error(y, P),
    }


def calibration_error(y: np.ndarray, P: np.ndarray) -> float:
    """Return the expected calibration error of the predicted class.

    Its probability is the confidence, in ten equal bins of (0, 1]; the error is the mean over rows of
    |share of right predictions - mean confidence| in the bin of the row.
    """
    confidence, right = P.max(axis=1), P.argmax(axis=1) == y
    place = np.digitize(confidence, np.linspace(0, 1, BINS + 1)[1:-1], right=True)
    gaps = [abs(np.sum(right[place == b]) - np.sum(confidence[place == b])) for b in range(BINS)]
    return float(np.sum(gaps) / len(y))


def features_of(model: Any, n_columns: int) -> list[int]:
    """Return the columns that predictions need."""
    if isinstance(model, OnColumns):
        return model.columns
    if hasattr(model, "features_"):
        return sorted(int(j) for j in model.features_)
    return list(range(n_columns))


def n_terms(model: Any) -> float:
    """Return the number of summands of a score; NaN for a model that is no sum of readable terms."""
    if isinstance(model, OnColumns):
        return n_terms(model.model)
    if hasattr(model, "pairs_"):
        return float(len(model.features_) + len(model.pairs_) + len(model.instances_))
    if hasattr(model, "term_features_"):
        return float(len(model.term_features_))
    return float(len(model.features_)) if isinstance(model, peers.SparseLogistic) else float("nan")


def size_of(model: Any) -> int:
    """Return the bytes of a model file: of tamis its own format, of others a pickle."""
    if not isinstance(model, TamisClassifier | EM2NOLCClassifierCV):
        return len(pickle.dumps(model))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tamis"
        save(model, path)
        return path.stat().st_size
