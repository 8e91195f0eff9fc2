"""Held-out decisions, their scores, and the choice among whatever was tried.

A *cell* is anything hashable that names one thing that was tried. A method brings a function that, for
the training and test rows of a fold, returns the held-out decisions of all its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from tamis.base.calibration import Calibrator
from tamis.base.model import Model, decide
from tamis.explain.measures import auc_value
from tamis.parallel import blas_threads
from tamis.progress import tracked
from tamis.table.rows import Rows

Split = tuple[Rows, Rows]
SCORES = ("log_loss", "accuracy", "roc_auc", "squared_error")
LOSSES = ("log_loss", "squared_error")  # scores that are better when smaller; results hold them negated


def as_named(name: str, score: float) -> float:
    """What a result holds under a name as people read it: losses are positive."""
    return -score if name in LOSSES else score


@dataclass(frozen=True)
class HeldOut:
    """What one cell does on one fold.

    Attributes
    ----------
    decision : (n, q) on test rows, or None where there are none
    objective : per unit of training weight
    squares, weight : weighted sum of squared errors over the fold, and its weight
    n_features : features that the model keeps, where that says something
    """

    decision: np.ndarray | None
    objective: float
    squares: float
    weight: float
    n_features: int = 0

    @classmethod
    def of_model(cls, model: Model, test: Rows, objective: float) -> HeldOut:
        """What a model does on the rows of a fold."""
        decision = model.decision(test.table)
        squares = test.weight @ np.sum((decision - test.targets) ** 2, axis=1)
        return cls(decision, objective, float(squares), float(test.weight.sum()), len(model.columns))


@dataclass(frozen=True)
class Tests:
    """The test rows of all folds, one after another; merged, they stand for `n_rows` rows of the input.

    `placed` says that zero is where the method itself would decide, as machines with a margin do: then held-out rows
    move it only on clear evidence (see `calibration`).
    """

    codes: np.ndarray
    targets: np.ndarray
    weight: np.ndarray
    mass: np.ndarray
    fold: np.ndarray
    n_rows: int
    placed: bool = False

    @classmethod
    def of(cls, splits: Sequence[Split], *, placed: bool = False) -> Tests:
        tests = [test for _, test in splits]
        return cls(
            np.concatenate([test.codes for test in tests]),
            np.concatenate([test.targets for test in tests]),
            np.concatenate([test.weight for test in tests]),
            np.concatenate([test.mass for test in tests]),
            np.repeat(np.arange(len(tests)), [len(test) for test in tests]),
            sum(int(test.counts.sum()) for test in tests),
            placed,
        )

    @property
    def even(self) -> bool:
        """Whether there are no class weights."""
        return np.array_equal(self.weight, self.mass)

    def calibrator(self, decision: np.ndarray) -> Calibrator:
        """Probabilities in the population, fitted to held-out decisions."""
        placed = self.placed and self.even
        return Calibrator.fit(decision, self.targets, self.mass, self.n_rows, placed=placed, moves_labels=self.even)

    def shift(self, decision: np.ndarray) -> float:
        """What moves the boundary of held-out decisions to probability one half, class weights included."""
        return Calibrator.fit(decision, self.targets, self.weight, self.n_rows, placed=self.placed).shift

    def fitted(self, decision: np.ndarray) -> tuple[Calibrator, float]:
        """`calibrator` and `shift`, from one fit where class weights do not set them apart.

        Nothing is moved where the calibration has failed.
        """
        calibrator = self.calibrator(decision)
        return calibrator, calibrator.shift if self.even or calibrator.failed else self.shift(decision)


@dataclass(frozen=True)
class Result:
    """Held-out behaviour of one cell.

    `scores` are better when greater (losses are negated); `error` is the standard error over folds of
    the score that decides; `n_features` is a mean over folds. Without test rows there is only the squared error.
    """

    decision: np.ndarray | None
    objective: float
    scores: dict[str, float]
    error: float
    n_features: float = 0.0


def each_fold(
    function: Callable, splits: Sequence[tuple[Any, Any]], n_jobs: int | None, what: str = "calibrating"
) -> list:
    """``function(train, test)`` for every fold, in processes if asked, one BLAS thread each."""
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    parts = parallel(delayed(_one_thread)(function, *split) for split in splits)
    return list(tracked(parts, what, len(splits)))


def _one_thread(function: Callable, train: Any, test: Any) -> Any:
    with blas_threads(1):
        return function(train, test)


def cross_validate(
    function: Callable[[Any, Any], Mapping[Any, HeldOut]],
    splits: Sequence[tuple[Any, Any]],
    tests: Tests | None,
    scoring: str,
    n_jobs: int | None,
    what: str = "tuning",
) -> dict[Any, Result]:
    """Score every cell on all folds; `tests` are the rows that decisions are about."""
    parts = each_fold(function, splits, n_jobs, what)
    return {cell: score([part[cell] for part in parts], tests, scoring) for cell in parts[0]}


def score(parts: Sequence[HeldOut], tests: Tests | None, scoring: str) -> Result:
    """Scores of what one cell does on all folds."""
    squares, weight = (np.array([getattr(part, name) for part in parts]) for name in ("squares", "weight"))
    scores = {"squared_error": -float(squares.sum() / weight.sum())}
    by_fold = {"squared_error": -squares / weight}
    decision = None
    if tests is not None:
        decision = np.concatenate([part.decision for part in parts if part.decision is not None])
        more, folded = row_scores(decision, tests)
        scores, by_fold = scores | more, by_fold | folded
    known = by_fold[scoring][np.isfinite(by_fold[scoring])]
    error = float(np.std(known, ddof=1) / np.sqrt(len(known))) if len(known) > 1 else 0.0
    objective, kept = (float(np.mean([getattr(part, name) for part in parts])) for name in ("objective", "n_features"))
    return Result(decision, objective, scores, error, kept)


def row_scores(decision: np.ndarray, tests: Tests) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Scores of held-out decisions, in all and by fold; log-loss after calibration on these same decisions."""
    calibrator, shift = tests.fitted(decision)
    loss = calibrator.losses(decision, tests.codes)
    hit = (decide(decision + shift) == tests.codes).astype(float)
    masks = [tests.fold == k for k in np.unique(tests.fold)]
    by_fold = {
        "log_loss": [-np.average(loss[m], weights=tests.mass[m]) for m in masks],
        "accuracy": [np.average(hit[m], weights=tests.mass[m]) for m in masks],
        "roc_auc": [_auc(decision[m], tests.targets[m], tests.mass[m]) for m in masks],
    }
    scores = {
        "log_loss": -float(np.average(loss, weights=tests.mass)),
        "accuracy": float(np.average(hit, weights=tests.mass)),
        "roc_auc": _auc(decision, tests.targets, tests.mass),
    }
    return scores, {name: np.array(values) for name, values in by_fold.items()}


def _auc(decision: np.ndarray, targets: np.ndarray, mass: np.ndarray) -> float:
    """Area under the curve; the mean of one class against the rest if there are several. NaN with one class."""
    if np.any(np.ptp(targets, axis=0) == 0):
        return float("nan")
    return float(np.mean([auc_value(t > 0, f, mass) for f, t in zip(decision.T, targets.T, strict=True)]))


def choose(results: dict[Any, Result], scoring: str, size: Callable[[Any], Any], rule: str = "best") -> Any:
    """The best cell, ties to the smallest; or the smallest within one standard error of the best."""
    best = min(results, key=lambda cell: (-round(results[cell].scores[scoring], 10), size(cell)))
    if rule == "best":
        return best
    bar = results[best].scores[scoring] - results[best].error
    good = [cell for cell in results if results[cell].scores[scoring] >= bar]
    return min(good, key=lambda cell: (size(cell), -results[cell].scores[scoring]))


def smoothed(results: dict[Any, Result], layout: list[list[Any]], scoring: str) -> dict[Any, Result]:
    """The results with each score replaced by its mean over the 3 x 3 neighbours in `layout`.

    Beyond the edge the scores of the edge count again.
    """
    values = np.pad([[results[cell].scores[scoring] for cell in row] for row in layout], 1, mode="edge")
    out = {}
    for i, row in enumerate(layout):
        for j, cell in enumerate(row):
            mean = float(values[i : i + 3, j : j + 3].mean())
            out[cell] = replace(results[cell], scores={**results[cell].scores, scoring: mean})
    return out


def search_columns(cells: Mapping[Any, Mapping[str, Any]], results: Mapping[Any, Result]) -> dict[str, np.ndarray]:
    """One entry per cell, named as in scikit-learn's searches; `cells` gives the parameters of each."""
    names = list(next(iter(cells.values())))
    out: dict[str, list] = {f"param_{name}": [cells[cell][name] for cell in cells] for name in names}
    for name in results[next(iter(cells))].scores:
        out[f"mean_test_{name}"] = [as_named(name, results[cell].scores[name]) for cell in cells]
    out["mean_objective"] = [results[cell].objective for cell in cells]
    return {
        name: np.array(values, dtype=object if name.startswith("param_") else float) for name, values in out.items()
    }
