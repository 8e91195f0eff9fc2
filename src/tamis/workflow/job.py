"""Job and run: prepare a table, split it, tune and fit on one part, test on the other, explain."""

from __future__ import annotations

import inspect
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy
import sklearn

import tamis
from tamis.base.classifier import ReadableClassifier
from tamis.errors import BadOption
from tamis.explain.measures import Stability
from tamis.io.tables import level
from tamis.registry import all_estimators
from tamis.results.data import Evaluation, Notes, Results, Task
from tamis.results.describe import cases_of, evaluate, parts_of, shares_by_key, show_rows, take
from tamis.table.keys import row_keys
from tamis.table.table import read_columns
from tamis.views.studies import fit_folds, stability_of
from tamis.workflow.prepare import Data, folds_of, positive_class, prepare, row_names, split_rows

METHOD = "TamisClassifier"
DEFAULT_BUDGET = 10
REPEATED_SHARE = 0.01  # share of test rows equal to training rows that is worth a warning
STABILITY_FOLDS = 5  # of the training rows, to see whether the choice of features is stable


@dataclass(frozen=True)
class Job:
    """What to do with a table.

    Parameters
    ----------
    target : the column to predict
    method : name of a registered classifier
    max_instances, max_features : budgets, 10 by default where the method has them: what a person can read
    max_pairs : most pairs of features, where the method has that budget; None for its default
    positive : the class that positive scores favour, with two classes; None picks one
    test_size : share of the rows to test on
    split : column that says 'train' or 'test'; None splits at random
    group : column of groups whose rows stay together
    id : column that names the rows
    categorical : columns that are categories although they hold numbers
    drop : columns to leave out
    class_weight : None, "balanced" or {class: weight}
    options : further parameters of the method
    seed, n_jobs : of everything random, and of everything parallel
    """

    target: str
    method: str = METHOD
    max_instances: int | None = None
    max_features: int | None = None
    max_pairs: int | None = None
    positive: Any = None
    test_size: float = 0.25
    split: str | None = None
    group: str | None = None
    id: str | None = None
    categorical: Sequence[str] = ()
    drop: Sequence[str] = ()
    class_weight: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.test_size < 1:
            raise BadOption(f"test_size={self.test_size!r} must be a share between 0 and 1, such as 0.25")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            raise BadOption(f"seed={self.seed!r} must be an integer between 0 and 2**32 - 1")
        if self.n_jobs is not None and (not isinstance(self.n_jobs, int) or self.n_jobs == 0):
            raise BadOption(f"n_jobs={self.n_jobs!r} must be a number of processes, or -1 for all cores")
        try:
            self.classifier().check_parameters()
        except ValueError as error:
            raise BadOption(str(error)) from None

    def of(self, method: str) -> Job:
        """The same job for another method, which gets what it knows of the parameters; one process."""
        accepted = inspect.signature(all_estimators("classifier")[method]).parameters
        options = {name: value for name, value in self.options.items() if name in accepted}
        names = ("max_instances", "max_features", "max_pairs")
        budgets: dict[str, Any] = {n: getattr(self, n) if n in accepted else None for n in names}
        return replace(self, method=method, options=options, n_jobs=None, **budgets)

    def classifier(self) -> ReadableClassifier:
        """The unfitted classifier of the job."""
        known = all_estimators("classifier")
        if self.method not in known:
            why = "is no classifier" if self.method in all_estimators() else "is unknown"
            raise ValueError(f"method={self.method!r} {why}: use one of {', '.join(known)}")
        accepted = inspect.signature(known[self.method]).parameters
        names = ("max_instances", "max_features", "max_pairs", "class_weight", "n_jobs")
        params: dict[str, Any] = {name: DEFAULT_BUDGET for name in names[:2] if name in accepted}
        params |= {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        params |= {"random_state": self.seed, **self.options}
        odd = [name for name in params if name not in accepted]
        if odd:
            raise ValueError(f"{self.method} has no parameter {odd[0]!r}: it has {', '.join(accepted)}")
        return known[self.method](**params)


def run(table: Any, job: Job, source: str = "table") -> Results:
    """Do the main job.

    Parameters
    ----------
    table : DataFrame (pandas, polars) or dict of columns
    job : what to do
    source : name of the table, for the notes
    """
    seconds: dict[str, float] = {}
    with timed(seconds, "prepare"):
        data, job = prepared(table, job)
        positive = positive_class(data.y, job.positive)
        train, test, words = split_rows(data, job.test_size, job.seed)
    X, y, groups = take(data.columns, train), data.y[train], None if data.groups is None else data.groups[train]
    model, warned = fit(lambda: job.classifier().fit(X, y, groups=groups), positive, seconds)
    with timed(seconds, "stability"):
        stable, by_fold = stability(model, X, y, groups, job)
    labels = data.labels[train]
    model.instance_labels_ = labels[model.instances_]
    keys = row_keys(read_columns(data.columns, list(data.columns), None, allow_missing=True), 0)
    repeated = int(np.isin(keys[test], keys[train]).sum())
    if repeated > REPEATED_SHARE * len(test):
        warned.append(
            f"{repeated} of {len(test)} test rows are equal to a training row in all features: the test may be too "
            "optimistic; if rows belong together, name their group"
        )
    held_out = f"{len(test)} held-out rows of {source}"
    return Results(
        model=model,
        evaluation=tested(model, data, test, y, held_out, job.seed, seconds),
        parts=parts_of(model, X, y, by_fold, (take(data.columns, test), data.y[test])),
        cases=cases_of(model, X, y, labels),
        notes=notes(data, train, test, source, words, warned, repeated),
        stability=stable,
        seconds=seconds,
        **shown(model, data, test, job),
    )


def fit(
    work: Callable[[], ReadableClassifier], positive: Any, seconds: dict[str, float]
) -> tuple[ReadableClassifier, list[str]]:
    """Return a model whose scores favour the positive class, and its warnings, which are issued again."""
    with timed(seconds, "fit"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = work()
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    warned = [str(w.message) for w in caught if not issubclass(w.category, DeprecationWarning)]
    return model if positive is None else model.oriented(positive), warned


def shown(model: ReadableClassifier, data: Data, test: np.ndarray, job: Job) -> dict[str, Any]:
    """The task, some test rows and the versions of packages, as parts of `Results`."""
    return {
        "task": Task(job.target, job.id, job.group, job.split, job.seed),
        "rows": show_rows(model, take(data.columns, test), data.y[test], data.labels[test], job.seed),
        "versions": versions(),
    }


def prepared(table: Any, job: Job) -> tuple[Data, Job]:
    """The data of a job, and the job with its class weights by the labels of the data."""
    roles = {"id_column": job.id, "group_column": job.group, "split_column": job.split}
    data = prepare(table, job.target, categorical=job.categorical, drop=job.drop, **roles)
    index = getattr(table, "index", None)
    if job.id is None and index is not None and not callable(index) and type(index).__name__ != "RangeIndex":
        named = np.array([level(v) for v in index], dtype=object)
        data = replace(data, labels=row_names(named, data.labels - 1))
    return data, _with_class_weights(job, data.y)


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    packages = {"tamis": tamis, "numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    return {"python": platform.python_version(), **{name: package.__version__ for name, package in packages.items()}}


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Note how long a stage takes."""
    start = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - start


def tested(
    model: ReadableClassifier, data: Data, rows: np.ndarray, y: np.ndarray, source: str, seed: int, seconds: dict
) -> Evaluation:
    """Evaluate the model on some rows; the majority class is that of the training labels y."""
    classes, counts = np.unique(y, return_counts=True)
    groups = None if data.groups is None else data.groups[rows]
    majority, X, truth = classes[np.argmax(counts)], take(data.columns, rows), data.y[rows]
    with timed(seconds, "test"):
        return evaluate(model, X, truth, groups=groups, majority=majority, source=source, seed=seed)


def _with_class_weights(job: Job, y: np.ndarray) -> Job:
    """Class weights by the labels themselves, however they were typed."""
    if not isinstance(job.class_weight, Mapping):
        return job
    labels = {str(label): label for label in np.unique(y).tolist()}
    odd = [name for name in job.class_weight if str(name) not in labels]
    if odd:
        raise BadOption(f"class_weight names {odd[0]!r}, which is not a class: they are {', '.join(labels)}")
    return replace(job, class_weight={labels[str(name)]: float(w) for name, w in job.class_weight.items()})


def stability(
    model: ReadableClassifier, X: dict[str, np.ndarray], y: np.ndarray, groups: np.ndarray | None, job: Job
) -> tuple[Stability | None, list[dict]]:
    """Refit with the choices made, leaving out one fold at a time; who chooses what, and how much it moves."""
    splits = folds_of(X, y, groups, STABILITY_FOLDS, job.seed)
    if len(splits) < 2:
        return None, []
    models = fit_folds(model, X, y, [part for part, _ in splits], job.n_jobs)
    by_fold = [shares_by_key(one, X) for one in models]
    return stability_of(models, X), by_fold


def notes(
    data: Data, train: np.ndarray, test: np.ndarray, source: str, split: str, warned: list[str], repeated: int | None
) -> Notes:
    """What was done to the data, with the warnings of the table and of the fit."""
    classes = np.unique(data.y).tolist()
    balance = {label: (int(np.sum(data.y[train] == label)), int(np.sum(data.y[test] == label))) for label in classes}
    return Notes(
        source=source,
        n_rows=data.n_rows,
        n_columns=data.n_columns,
        n_features=len(data.columns),
        no_target=data.no_target,
        dropped=data.dropped,
        categories=data.categories,
        missing=data.missing,
        balance=balance,
        split=split,
        groups=None if data.groups is None else len(np.unique(data.groups)),
        repeated=repeated,
        warnings=tuple(dict.fromkeys([*data.warnings, *warned])),
    )
