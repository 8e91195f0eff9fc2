"""The methods of tamis and classifiers in common use, on the same folds.

Every method is tuned on the training rows of a fold only, and tested on the rest. Each row is tested once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.utils.parallel import Parallel, delayed

from tamis.base.classifier import ReadableClassifier
from tamis.errors import BadOption
from tamis.explain import intervals, measures
from tamis.explain.explanation import plain
from tamis.explain.intervals import Interval
from tamis.progress import tracked
from tamis.registry import all_estimators
from tamis.results.describe import Columns, take
from tamis.workflow import peers
from tamis.workflow.job import Job, prepared
from tamis.workflow.prepare import Data, folds_of

SVC_GRID = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": [0.003, 0.01, 0.03, 0.1, "scale"]}
SVC, BOOSTING, EBM, MAJORITY = "SVC, tuned", "gradient boosting", "EBM", "majority class"
INNER_FOLDS = 5
MAX_BOOSTING_LEVELS = 250  # of a category; others are integers without that meaning


@dataclass(frozen=True)
class Entry:
    """How one method did over all folds."""

    method: str
    # accuracy, auc: with 95 per cent intervals: of all tested rows, and of the mean over folds
    accuracy: Interval
    auc: Interval
    # n_features, n_cases: kept on average; n_cases is None for methods that are not made of cases
    n_features: float
    n_cases: float | None
    seconds: float  # of one fit with its tuning, on average
    own: bool  # whether it is one of ours
    failure: str = ""  # why there are no numbers, else empty


@dataclass(frozen=True)
class Comparison:
    """All methods on one table."""

    source: str
    target: str
    n_rows: int
    n_features: int
    folds: int
    entries: tuple[Entry, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        entries = [asdict(e) | {"accuracy": e.accuracy._asdict(), "auc": e.auc._asdict()} for e in self.entries]
        found: dict[str, Any] = plain({**asdict(self), "entries": entries})
        return found


def compare(
    table: Any,
    job: Job,
    folds: int = 5,
    source: str = "table",
    without: Collection[str] = (),
    only: Collection[str] = (),
) -> Comparison:
    """Fit every method on the same folds of a table, but for those `without`; or `only` some."""
    data, job = prepared(table, job)
    splits = folds_of(data.columns, data.y, data.groups, folds, job.seed)
    if len(splits) < 2:
        raise ValueError("no two folds have every class to learn from: collect more rows of the smallest class")
    methods = competitors(job)
    for option, names in (("without", without), ("only", only)):
        for name in names:
            if name not in methods and not (name == EBM and option == "without"):  # it may not be installed
                raise BadOption(f"{option}={name!r} is not among the methods: {', '.join(methods)}")
    methods = {name: maker for name, maker in methods.items() if name not in without and (name in only or not only)}
    if not methods:
        raise BadOption("no method is left to compare: name fewer in without")
    cells = [(name, k) for name in methods for k in range(len(splits))]
    parallel = Parallel(n_jobs=job.n_jobs, return_as="generator")
    runs = parallel(delayed(_run)(methods[name], data, *splits[k]) for name, k in cells)
    found = list(tracked(runs, "comparing", len(cells)))
    k = len(splits)
    entries = [_summarise(name, found[i * k : (i + 1) * k]) for i, name in enumerate(methods)]
    return Comparison(source, job.target, len(data.y), len(data.columns), len(splits), tuple(entries), data.warnings)


def competitors(job: Job) -> dict[str, Callable[[Data], Any]]:
    """{name: maker}; a maker takes the data and returns an unfitted classifier."""
    own = {name: partial(_own, job.of(name)) for name in all_estimators("classifier")}
    names = [SVC, BOOSTING, *([EBM] if peers.has_ebm() else []), MAJORITY]
    return own | {name: partial(_peer, name, job.seed) for name in names}


def _own(job: Job, data: Data) -> Any:
    return job.classifier()


def _peer(name: str, seed: int, data: Data) -> Any:
    """A classifier in common use."""
    nominal = np.array([values.dtype == object for values in data.columns.values()])
    if name == SVC:
        return GridSearchCV(peers.svc(nominal, random_state=seed), SVC_GRID, cv=INNER_FOLDS)
    if name == BOOSTING:
        columns = zip(nominal, data.columns.values(), strict=True)
        few = np.array([is_nominal and len(set(v.tolist())) <= MAX_BOOSTING_LEVELS for is_nominal, v in columns])
        return peers.boosting(nominal, few, random_state=seed)
    return peers.ebm(nominal, random_state=seed) if name == EBM else DummyClassifier()


def _matrix(columns: Columns) -> np.ndarray:
    """A matrix of columns: floats, or objects if some are categories."""
    arrays = list(columns.values())
    if all(a.dtype != object for a in arrays):
        return np.column_stack(arrays)
    out = np.empty((len(arrays[0]), len(arrays)), dtype=object)
    for j, a in enumerate(arrays):
        out[:, j] = a
    return out


@dataclass(frozen=True)
class _Run:
    hits: int
    rows: int
    auc: float
    n_features: float
    n_cases: float | None
    seconds: float
    failure: str


def _run(maker: Callable[[Data], Any], data: Data, train: np.ndarray, test: np.ndarray) -> _Run:
    """Fit and test one method on one fold; what goes wrong is a result too."""
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = maker(data)
            y = data.y[train]
            own = isinstance(model, ReadableClassifier)
            tables = (take(data.columns, rows) for rows in (train, test))
            X, X_test = (table if own else _matrix(table) for table in tables)
            more = {"groups": data.groups[train]} if own and data.groups is not None else {}
            model.fit(X, y, **more)
            seconds = time.perf_counter() - start
            hits = int(np.sum(model.predict(X_test) == data.y[test]))
            auc = _auc(model, X_test, data.y[test])
    except Exception as error:  # any failure of any library is reported in its row
        return _Run(
            0, len(test), float("nan"), 0, None, time.perf_counter() - start, f"{type(error).__name__}: {error}"
        )
    return _Run(hits, len(test), auc, *_size(model, len(data.columns)), seconds, "")


def _auc(model: BaseEstimator, X: Any, y: np.ndarray) -> float:
    scores = model.decision_function(X) if hasattr(model, "decision_function") else model.predict_proba(X)
    if scores.ndim == 1:
        return measures.auc(y == model.classes_[1], scores).value
    if len(model.classes_) == 2:
        return measures.auc(y == model.classes_[1], scores[:, 1]).value
    return float(np.mean([measures.auc(y == label, scores[:, k]).value for k, label in enumerate(model.classes_)]))


def _size(model: Any, d: int) -> tuple[float, float | None]:
    """Features and cases that the model needs."""
    if isinstance(model, ReadableClassifier):
        return len(model.features_), len(model.instances_)
    if isinstance(model, DummyClassifier):
        return 0, 0
    if isinstance(model, GridSearchCV):
        return d, int(model.best_estimator_[-1].n_support_.sum())
    return d, None


def _summarise(name: str, runs: Sequence[_Run]) -> Entry:
    failures = [run.failure for run in runs if run.failure]
    seconds, own = float(np.mean([run.seconds for run in runs])), name in all_estimators()
    if failures:
        return Entry(name, intervals.UNKNOWN, intervals.UNKNOWN, float("nan"), None, seconds, own, failures[0])
    accuracy = intervals.wilson(sum(run.hits for run in runs), sum(run.rows for run in runs))
    cases = [run.n_cases for run in runs]
    return Entry(
        name,
        accuracy,
        intervals.mean([run.auc for run in runs]),
        float(np.mean([run.n_features for run in runs])),
        None if None in cases else float(np.mean([c for c in cases if c is not None])),
        seconds,
        own,
    )
