"""Searches: settings chosen by cross-validation, and the classifier at the chosen point.

A *cell* is one point of the grid, a frozen dataclass whose fields are parameters of the classifier without a search,
with kernels by name. A search brings a function that returns what every cell does on a fold, and a key that is smaller
for smaller models; everything else is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.base.calibration import Calibrator
from tamis.base.classifier import calibrated
from tamis.base.model import Model
from tamis.base.scoring import SCORES, HeldOut, Result, Tests, choose, cross_validate, search_columns
from tamis.table.checks import check_choice, check_cv
from tamis.table.folds import folds
from tamis.table.rows import Rows

if TYPE_CHECKING:
    from tamis.base.classifier import KernelClassifier

Cell = TypeVar("Cell")


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
        table = search_columns({cell: asdict(cell) for cell in self.results}, self.results)  # type: ignore[call-overload]
        table["mean_n_features"] = np.array([result.n_features for result in self.results.values()])
        chosen = {learned_name(name): value for name, value in asdict(self.cell).items()}  # type: ignore[call-overload]
        return {"n_splits_": self.n_splits, "scoring_": self.scoring, "cv_results_": table, **chosen}

    def calibrated(self, model: Model) -> tuple[Model, Calibrator | None]:
        """The model of the chosen cell, calibrated on the held-out decisions of the search."""
        decision = self.results[self.cell].decision
        return (model, None) if decision is None else calibrated(model, decision, self.tests)


def search_cells(
    search: KernelClassifier,
    try_cells: Callable[[Rows, Rows], Mapping[Cell, HeldOut]],
    rows: Rows,
    seed: int,
    size: Callable[[Cell, Result], Any],
) -> SearchResult[Cell]:
    """Try all cells on the folds of `search.cv` and choose by `search.scoring` and `search.rule`.

    Parameters
    ----------
    search : the classifier with the parameters `cv`, `scoring`, `rule` and `n_jobs`
    try_cells : returns what every cell does, for the training and the test rows of a fold
    rows : of the input, not merged
    size : a key of a cell that is smaller for smaller models
    """
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


def single_classifier(search: Any, cls: type[Any], **point: Any) -> Any:
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
