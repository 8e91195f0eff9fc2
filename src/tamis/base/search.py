"""Searches: settings chosen by cross-validation, and the classifier at the chosen point.

A *cell* is one point of the grid, a frozen dataclass whose fields are parameters of the classifier without a search,
with kernels by name. A search brings a function that returns what every cell does on a fold, and a key that is smaller
for smaller models; everything else is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.base.calibration import Tests, calibrated, each_fold
from tamis.base.model import FitContext, Fitted, Model, decide
from tamis.errors import check_choice
from tamis.explain.measures import auc_value
from tamis.table.folds import check_cv, folds
from tamis.table.rows import Rows, merge_rows

if TYPE_CHECKING:
    from tamis.base.classifier import ReadableClassifier

Cell = TypeVar("Cell")
C = TypeVar("C", bound="ReadableClassifier")
SCORES = ("log_loss", "accuracy", "roc_auc", "squared_error")
LOSSES = ("log_loss", "squared_error")  # scores that are better when smaller; results hold them negated


@dataclass(frozen=True)
class SearchResult(Generic[Cell]):
    """The cell that was chosen, what all cells do on held-out rows, and these rows."""

    cell: Cell
    results: Mapping[Cell, Result]
    tests: Tests
    n_splits: int
    scoring: str

    def attributes(self) -> dict[str, Any]:
        """The learned attributes of a search: what was chosen, and one entry per cell that was tried."""
        table = search_columns(self.results)
        table["mean_n_features"] = np.array([result.n_features for result in self.results.values()])
        chosen = {learned_name(name): value for name, value in asdict(self.cell).items()}  # type: ignore[call-overload]
        return {"n_splits_": self.n_splits, "scoring_": self.scoring, "cv_results_": table, **chosen}

    def fitted(self, classifier: ReadableClassifier, rows: Rows, context: FitContext) -> Fitted:
        """Fit the classifier of the chosen cell to rows of the input, calibrated on what the search held out."""
        kernels = context.kernels[self.cell.kernels]  # type: ignore[attr-defined]
        model, attributes = classifier._learn(merge_rows(rows), replace(context, kernels={"kernels": kernels}))
        decision = self.results[self.cell].decision
        assert decision is not None  # there are rows to test on
        return Fitted(*calibrated(model, decision, self.tests), {**attributes, **self.attributes()})


def search_cells(
    search: ReadableClassifier,  # the classifier with the parameters `cv`, `scoring`, `rule` and `n_jobs`
    # returns what every cell does, for the training and the test rows of a fold
    try_cells: Callable[[Rows, Rows], Mapping[Cell, HeldOut]],
    rows: Rows,  # of the input, not merged
    seed: int,
    size: Callable[[Cell, Result], Any],  # a key of a cell that is smaller for smaller models
) -> SearchResult[Cell]:
    """Try all cells on the folds of `search.cv` and choose by `search.scoring` and `search.rule`."""
    cv, scoring, rule = (getattr(search, name) for name in ("cv", "scoring", "rule"))
    splits = folds(rows, cv, seed)
    check_splits(search, splits)
    tests = Tests.of(splits, placed=search._has_margin)
    results = cross_validate(try_cells, splits, tests, scoring, search.n_jobs)
    cell = choose(results, scoring, lambda cell: size(cell, results[cell]), rule)
    return SearchResult(cell, results, tests, len(splits), scoring)


def check_search(
    search: Any, scorings: Sequence[str] = tuple(SCORES), rules: Sequence[str] = ("best", "one_se")
) -> None:
    """Refuse parameters that no search can have."""
    check_choice("scoring", search.scoring, tuple(scorings))
    check_choice("rule", search.rule, tuple(rules))
    check_cv(search.cv)
    if isinstance(search.kernels, Mapping) and not search.kernels:
        raise ValueError("kernels={} is empty: give at least one choice, or None for the default")


def check_splits(search: Any, splits: Sequence[Any]) -> None:
    """Refuse a search without folds."""
    if not splits:
        raise ValueError(
            f"cv={search.cv!r}: no fold can be made, the smallest class has too few rows or groups (or the "
            f"statistics have one fold); give more rows or folds, or use {type(search).__name__.removesuffix('CV')}"
        )


def kernel_choices(kernels: Any) -> dict[str, Any]:
    """The parameter `kernels` of a search as a dict of choices."""
    return dict(kernels) if isinstance(kernels, Mapping) else {"kernels": kernels}


def single_classifier(search: Any, cls: type[C], **point: Any) -> C:
    """The classifier without a search, at one point of the grid and else, but for the kernels, like the search."""
    own = search.get_params(deep=False)
    shared = {name: own[name] for name in cls().get_params(deep=False) if name in own}
    return cls(**{**shared, "kernels": None, **point})


def chosen_kernels(search: Any) -> Any:
    """The kernels that a fitted search chose."""
    check_is_fitted(search)
    choices = search._kernel_choices()
    if search.kernels_choice_ not in choices:
        raise ValueError(
            f"kernels={search.kernels!r} has no {search.kernels_choice_!r}, which the fit chose: fit again with these"
        )
    return choices[search.kernels_choice_]


def chosen_point(search: Any, names: Sequence[str]) -> dict[str, Any]:
    """The parameters of the classifier without a search that were chosen, by name; those of the fit."""
    point = {name: getattr(search, learned_name(name)) for name in names if name != "kernels"}
    return {**point, "kernels": chosen_kernels(search), "random_state": search.seed_}


def choice_in_words(search: Any) -> dict[str, Any]:
    """The kernels that were chosen, where there was a choice."""
    return {"kernels": search.kernels_choice_} if len(search._kernel_choices()) > 1 else {}


def learned_name(name: str) -> str:
    """The attribute that holds what was chosen for a parameter."""
    return "kernels_choice_" if name == "kernels" else f"{name}_"


def as_named(name: str, score: float) -> float:
    """What a result holds under a name as people read it: losses are positive."""
    return -score if name in LOSSES else score


@dataclass(frozen=True)
class HeldOut:
    """What one cell does on one fold."""

    decision: np.ndarray | None  # (n, q) on test rows, or None where there are none
    objective: float  # per unit of training weight
    # squares, weight: weighted sum of squared errors over the fold, and its weight
    squares: float
    weight: float
    n_features: int = 0  # features that the model keeps; 0 where the search does not choose them

    @classmethod
    def of_model(cls, model: Model, test: Rows, objective: float) -> HeldOut:
        """What a model does on the rows of a fold."""
        decision = model.decision(test.table)
        squares = test.weight @ np.sum((decision - test.targets) ** 2, axis=1)
        return cls(decision, objective, float(squares), float(test.weight.sum()), len(model.columns))


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


def search_columns(results: Mapping[Any, Result]) -> dict[str, np.ndarray]:
    """One entry per cell, a dataclass of parameters, named as in scikit-learn's searches."""
    first = next(iter(results))
    out: dict[str, list] = {f"param_{f.name}": [getattr(cell, f.name) for cell in results] for f in fields(first)}
    for name in results[first].scores:
        out[f"mean_test_{name}"] = [as_named(name, result.scores[name]) for result in results.values()]
    out["mean_objective"] = [result.objective for result in results.values()]
    return {
        name: np.array(values, dtype=object if name.startswith("param_") else float) for name, values in out.items()
    }
