"""The shell of the classifiers that choose their settings by cross-validation.

A *cell* is one point of the grid, a frozen dataclass. A classifier derives from `SearchClassifier` and says what every
cell does on a fold (``_tried``), which of two equally good cells is the smaller one (``_size``) and how the chosen one
is fitted (``_learn``, which finds it in ``self._cell``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, ClassVar

from tamis.estimators.calibration import Calibrator
from tamis.estimators.checks import check_choice, check_cv
from tamis.estimators.direct import DirectClassifier, calibrated
from tamis.estimators.model import Model
from tamis.estimators.rows import Rows, merge_rows, search_folds
from tamis.estimators.selection import SCORES, HeldOut, Result, Tests, choose, cross_validate, search_columns
from tamis.estimators.stacked import check_size

RULES = ("best", "one_se")


class SearchClassifier(DirectClassifier):
    """Base of the searches; they have parameters `cv`, `scoring` and `rule`."""

    cv: Any
    scoring: str
    rule: str
    _cell: Any

    _single: ClassVar[str] = ""  # the name of the classifier without a search

    @abstractmethod
    def _tried(self, train: Rows, test: Rows) -> Mapping[Any, HeldOut]:
        """What every cell does on one fold."""

    @abstractmethod
    def _size(self, cell: Any, result: Result) -> Any:
        """A key that is smaller for smaller models."""

    @property
    def _calibrates(self) -> bool:
        return True

    def _check_parameters(self) -> None:
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
        self._publish_search(results)
        model = self._learn(merged)
        decision = results[self._cell].decision
        return (model, None) if decision is None else calibrated(model, decision, tests)

    def _publish_search(self, results: dict[Any, Result]) -> None:
        """Set the learned attributes that tell of the search."""


def _tried(owner: SearchClassifier, train: Rows, test: Rows) -> Mapping[Any, HeldOut]:
    return owner._tried(train, test)
