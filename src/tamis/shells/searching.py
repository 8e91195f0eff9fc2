"""The shell of the classifiers that choose their settings by cross-validation.

A *cell* is one point of the grid, a frozen dataclass. A classifier derives from `SearchClassifier` and says what every
cell does on a fold (``_tried``), which of two equally good cells is the smaller one (``_size``) and how the chosen one
is fitted (``_learn``, which finds it in ``self._cell``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tamis.data.checks import check_choice, check_cv
from tamis.data.rows import Rows, merge_rows, search_folds
from tamis.models.calibration import Calibrator
from tamis.models.model import Model
from tamis.models.selection import SCORES, HeldOut, Result, Tests, choose, cross_validate, search_columns
from tamis.shells.learning import LearningClassifier, calibrated
from tamis.shells.parameters import parameters
from tamis.shells.stacked import check_size

RULES = ("best", "one_se")


@parameters
class SearchClassifier(LearningClassifier):
    """Base of the searches.

    Parameters
    ----------
    cv : int, splitter or sequence of (train, test) positions
        An integer (None is 5) asks for shuffled stratified folds; with `groups` in `fit`, rows of one group stay
        together. Splitters and positions speak of the rows of X as given.
    scoring : {"log_loss", "accuracy", "roc_auc", "squared_error"}
        Log-loss and accuracy are taken after calibration of all held-out decisions together.
    rule : {"best", "one_se"}
        "best": the best score, ties to fewer features; "one_se": the fewest features within one standard error of it.

    Attributes
    ----------
    cv_results_ : dict of arrays, one entry per cell tried, with the mean number of features over folds
    n_splits_ : folds that were used
    scoring_ : the score that decided
    """

    _: KW_ONLY
    cv: Any = 5
    scoring: str = "log_loss"
    rule: str = "best"

    _single: ClassVar[str] = ""  # the name of the classifier without a search

    @abstractmethod
    def _tried(self, train: Rows, test: Rows) -> Mapping[Any, HeldOut]:
        """What every cell does on one fold."""

    @abstractmethod
    def _size(self, cell: Any, result: Result) -> Any:
        """A key that is smaller for smaller models."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("scoring", self.scoring, SCORES)
        check_choice("rule", self.rule, RULES)
        check_cv(self.cv)

    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        merged = merge_rows(rows)
        check_size(type(self).__name__, len(merged))
        splits = search_folds(rows, merged, self.cv, self._seed)
        if not splits:
            raise ValueError(
                f"cv={self.cv!r}: no fold can be made, the smallest class has too few distinct rows or groups; give "
                f"more rows, or use {self._single}"
            )
        tests = Tests.of(splits, placed=True)
        results = cross_validate(partial(_tried, self), splits, tests, self.scoring, self.n_jobs)
        self._cell = choose(results, self.scoring, lambda cell: self._size(cell, results[cell]), self.rule)
        self.n_splits_, self.scoring_ = len(splits), self.scoring
        self.cv_results_ = search_columns({cell: asdict(cell) for cell in results}, results)
        self.cv_results_["mean_n_features"] = np.array([result.n_features for result in results.values()])
        self._publish_search(results)
        model = self._learn(merged)
        decision = results[self._cell].decision
        return (model, None) if decision is None else calibrated(model, decision, tests)

    def _publish_search(self, results: dict[Any, Result]) -> None:
        """Set the learned attributes that tell of the search."""


def _tried(owner: SearchClassifier, train: Rows, test: Rows) -> Mapping[Any, HeldOut]:
    return owner._tried(train, test)
