"""The shell of the classifiers that choose their settings by cross-validation.

A search is told what it would be without one (``_single``), and makes such classifiers with what it was given itself.
A *cell* is one point of the grid, a frozen dataclass whose fields are parameters of the single classifier, with kernels
by name. A classifier derives from `SearchClassifier` and says what its cells are (``_cell_type``), what every one does
on a fold (``_tried``) and which of two equally good cells is the smaller one (``_size``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, fields
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.data.checks import check_choice, check_cv
from tamis.data.folds import folds
from tamis.data.rows import Rows, merge_rows
from tamis.models.bill import Bill, Size
from tamis.models.calibration import Calibrator
from tamis.models.model import Model
from tamis.models.selection import SCORES, HeldOut, Result, Tests, choose, cross_validate, search_columns
from tamis.shells.classifying import KernelClassifier
from tamis.shells.learning import LearningClassifier, calibrated
from tamis.shells.parameters import parameters


@parameters
class Searching(KernelClassifier):
    """What all searches have in common.

    Parameters
    ----------
    cv : int, splitter or sequence of (train, test) positions
        An integer (None is 5) requests stratified folds that follow the values of rows; copies of a row are dealt over
        them. With `groups` in `fit`, rows of one group stay together. Splitters and positions refer to the rows of X
        as given.
    scoring : {"log_loss", "accuracy", "roc_auc", "squared_error"}
        Log-loss and accuracy are taken after calibration of all held-out decisions together.
    rule : {"best", "one_se"}
        "best": the best score, ties to fewer features; "one_se": the fewest features within one standard error of it.
    kernels : as in the classifier without a search, or a dict {name: choice} to choose among

    Attributes
    ----------
    cv_results_ : dict of arrays, one entry per cell tried
    n_splits_ : folds that were used
    scoring_ : the score that decided
    kernels_choice_ : the name of the kernels that were chosen; "kernels" where there was no choice
    """

    _: KW_ONLY
    cv: Any = 5
    scoring: str = "log_loss"
    rule: str = "best"
    kernels: Any = None

    _single: ClassVar[type[Any]]  # the classifier without a search
    _scorings: ClassVar[tuple[str, ...]] = tuple(SCORES)
    _rules: ClassVar[tuple[str, ...]] = ("best", "one_se")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("scoring", self.scoring, self._scorings)
        check_choice("rule", self.rule, self._rules)
        check_cv(self.cv)
        if isinstance(self.kernels, Mapping) and not self.kernels:
            raise ValueError("kernels={} is empty: give at least one choice, or None for the default")

    @property
    def _choices(self) -> dict[str, Any]:
        return dict(self.kernels) if isinstance(self.kernels, Mapping) else super()._choices

    def _estimator(self, **point: Any) -> Any:
        """The classifier without a search, at one point of the grid and else, but for the kernels, as this one."""
        own = self.get_params(deep=False)
        shared = {name: own[name] for name in self._single().get_params(deep=False) if name in own}
        return self._single(**{**shared, "kernels": None, **point})

    def _bill(self, size: Size) -> Bill:
        bill: Bill = self._estimator()._bill(size)
        return bill

    def _instead(self, size: Size, room: float) -> str:
        told: str = self._estimator()._instead(size, room)
        return told

    @property
    def _kernels_chosen(self) -> Any:
        """The kernels that were chosen."""
        if self.kernels_choice_ not in self._choices:
            raise ValueError(
                f"kernels={self.kernels!r} has no {self.kernels_choice_!r}, which the fit chose: fit again with these"
            )
        return self._choices[self.kernels_choice_]

    def _told_choice(self) -> dict[str, Any]:
        """The kernels that were chosen, in words, where there was a choice."""
        return {"kernels": self.kernels_choice_} if len(self._choices) > 1 else {}

    @abstractmethod
    def _settled(self) -> dict[str, Any]:
        """The parameters of the single classifier that were chosen."""

    def fixed(self) -> Any:
        """The unfitted classifier without a search, with what was chosen."""
        check_is_fitted(self)
        return self._estimator(**self._settled(), random_state=self._seed)

    def _check_splits(self, splits: Any) -> None:
        if not splits:
            raise ValueError(
                f"cv={self.cv!r}: no fold can be made, the smallest class has too few rows or groups (or the "
                f"statistics have one fold); give more rows or folds, or use {self._single.__name__}"
            )


@parameters
class SearchClassifier(Searching, LearningClassifier):
    """Base of the searches over merged rows.

    Attributes
    ----------
    cv_results_ : dict of arrays, one entry per cell tried, with the mean number of features over folds
    """

    _cell_type: ClassVar[type[Any]]
    _handed: ClassVar[tuple[str, ...]] = ("_seed",)  # what classifiers within this fit have from it

    @abstractmethod
    def _tried(self, train: Rows, test: Rows) -> Mapping[Any, HeldOut]:
        """What every cell does on one fold."""

    @abstractmethod
    def _size(self, cell: Any, result: Result) -> Any:
        """A key that is smaller for smaller models."""

    def _at(self, cell: Any) -> Any:
        """The classifier of a cell, within this fit; it logs nothing."""
        point = {**asdict(cell), "kernels": self._choices[cell.kernels]}
        estimator = self._estimator(**point, verbose=0)
        for name in self._handed:
            setattr(estimator, name, getattr(self, name, None))
        return estimator

    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        merged = merge_rows(rows)
        splits = folds(rows, self.cv, self._seed)
        self._check_splits(splits)
        tests = Tests.of(splits, placed=self._single._placed)
        results = cross_validate(self._tried, splits, tests, self.scoring, self.n_jobs)
        cell = choose(results, self.scoring, lambda cell: self._size(cell, results[cell]), self.rule)
        self.n_splits_, self.scoring_ = len(splits), self.scoring
        self.cv_results_ = search_columns({cell: asdict(cell) for cell in results}, results)
        self.cv_results_["mean_n_features"] = np.array([result.n_features for result in results.values()])
        for name, value in asdict(cell).items():
            setattr(self, _learned(name), value)
        self._publish_search(cell, results)
        model = self._learn_chosen(merged)
        decision = results[cell].decision
        return (model, None) if decision is None else calibrated(model, decision, tests)

    def _learn_chosen(self, rows: Rows) -> Model:
        """The model of the chosen cell, with all that the fit of a single classifier tells."""
        final = self._at(self._chosen).set_params(verbose=self.verbose)
        model: Model = final._learn(rows)
        given = {*final.get_params(deep=False), *self._handed}
        self.__dict__.update({name: value for name, value in vars(final).items() if name not in given})
        return model

    @property
    def _chosen(self) -> Any:
        """The cell that was chosen."""
        return self._cell_type(**{f.name: getattr(self, _learned(f.name)) for f in fields(self._cell_type)})

    def _settled(self) -> dict[str, Any]:
        return {**asdict(self._chosen), "kernels": self._kernels_chosen}

    def _publish_search(self, cell: Any, results: dict[Any, Result]) -> None:
        """Set the learned attributes that tell more of the search."""


def _learned(name: str) -> str:
    """The attribute that tells what was chosen for a parameter."""
    return "kernels_choice_" if name == "kernels" else f"{name}_"
