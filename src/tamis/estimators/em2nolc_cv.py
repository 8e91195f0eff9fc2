"""EM2NOLCClassifierCV: budgets, bandwidth, ridge and variants chosen by cross-validation on a warm path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, replace
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.codec import stored
from tamis.data.checks import check_bandwidth, check_choice, check_number, check_values
from tamis.data.folds import folds, resolve_cv
from tamis.data.rows import Rows, merge_rows
from tamis.estimators.em2nolc import COUPLINGS, REFITS, ZHANG2022, EM2NOLCClassifier, ridge_scale
from tamis.estimators.em2nolc_grid import Cell, Grid
from tamis.kernels.recipes import per_feature
from tamis.models.calibration import Calibrator
from tamis.models.model import Encoded, Model
from tamis.models.selection import (
    SCORES,
    Result,
    Tests,
    as_named,
    choose,
    cross_validate,
    search_columns,
    smoothed,
)
from tamis.shells.from_statistics import FromStatistics
from tamis.shells.learning import calibrated
from tamis.shells.parameters import parameters
from tamis.shells.searching import Searching
from tamis.sums.one_pass import OnePass
from tamis.sums.summary import Summary

ALPHAS = (0.01, 0.1)
SEARCH_LOOK = 20_000  # most held-out rows on which the cells of the search are scored beside the statistics
GRID = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 60, 100, 200)
POOL = 300  # most candidates in the search; the final fit draws from more
COARSE = (0.25, 0.5, 1.0)  # budgets of the first stage, as shares of the largest


@stored
@parameters
class EM2NOLCClassifierCV(FromStatistics, Searching):
    """EM2NOLC with budgets, bandwidth, ridge and variants chosen by cross-validation.

    Two stages. First every kernel recipe, bandwidth, ridge, coupling and refit is tried at a few
    budgets; then, for the best of them, all budgets on the grid, each started from its smaller
    neighbours. Scores come from held-out rows of the training data only; the score of the winner is
    the best of many and therefore optimistic: do not report it as performance.

    Parameters
    ----------
    max_instances, max_features : int
        Largest budgets tried.
    kernels : as in `EM2NOLCClassifier`, or a dict {name: choice} to choose among
    bandwidths : sequence
        Each as `bandwidth` in `EM2NOLCClassifier`.
    alphas : sequence of float or "auto"
        "auto" is (0.01, 0.1), both times sqrt(1000 / rows) beyond a thousand (distinct) rows.
    couplings : sequence of {"rank_one", "full"}
    refits : sequence of {"squared", "logistic"}
    budgets : {"grid", "full"}
        Second stage over 1, 2, 3, 4, 5, 7, 10, 14, 20, ... or over every integer.
    cv : int, splitter or sequence of (train, test) positions
        An integer (None is 5) requests stratified folds that follow the values of rows; copies of a row are dealt over
        them. With `groups` in `fit`, rows of one group stay together. Splitters and positions refer to the rows of X
        as given. The statistics engine does not stratify, and needs folds that train on all other rows.
    scoring : {"auto", "log_loss", "accuracy", "roc_auc", "squared_error"}
        Log-loss is taken after calibration of the held-out decisions. With the statistics engine the
        squared error comes from the sums of the held-out fold, without another look at its rows, and
        the other scores from at most 20000 held-out rows. "auto" is the squared error there, else log-loss.
    rule : {"best", "one_se", "largest"}
        "best" takes the budgets with the best score, each score averaged with those of the
        neighbouring budgets, because the best of many single scores is mostly luck; ties go to the
        smaller model. "one_se" takes the smallest budgets within one standard error of that. "largest"
        chooses the other parameters only and keeps the largest budgets: the most accurate on small
        tables, where the ridge guards against overfitting better than a choice among budgets does.
    solver : {"splicing", "admm", "paper"}
        Of the final fit; the search draws instances from at most 300 candidates.

    Attributes
    ----------
    max_instances_, max_features_, bandwidth_, alpha_, coupling_, refit_ : what was chosen
    cv_results_ : dict of arrays, one entry per cell tried in the first stage
    path_ : dict with the budgets `max_instances`, `max_features` and, over that grid, `objective`,
        `squared_error`, `log_loss`, `accuracy`, `roc_auc` (the squared error alone from statistics alone)

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import EM2NOLCClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = EM2NOLCClassifierCV(max_instances=5, max_features=5, cv=3).fit(X, y)
    >>> clf.max_instances_ <= 5 and clf.max_features_ <= 5
    True
    """

    citation = ZHANG2022
    _single = EM2NOLCClassifier
    _scorings = ("auto", *SCORES)
    _rules = ("best", "one_se", "largest")

    max_instances: int = 20
    max_features: int = 20
    _: KW_ONLY
    bandwidths: Sequence[Any] = (0.3, 1.0, 3.0)
    alphas: Sequence[float] | str = "auto"
    couplings: Sequence[str] = ("rank_one",)
    refits: Sequence[str] = ("squared",)
    budgets: str = "grid"
    scoring: str = "auto"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("bandwidths", "alphas", "couplings", "refits"):
            values = getattr(self, name)
            if name != "alphas" or not isinstance(values, str) or values != "auto":
                check_values(name, values)
        for bandwidth in self.bandwidths:
            check_bandwidth(bandwidth)
        for alpha in () if isinstance(self.alphas, str) else self.alphas:
            check_number("alphas", alpha, 0.0)
        for coupling in self.couplings:
            check_choice("couplings", coupling, COUPLINGS)
        for refit in self.refits:
            check_choice("refits", refit, REFITS)
        self._estimator()._check_parameters()
        check_choice("budgets", self.budgets, ("grid", "full"))

    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        d = rows.table.numbers.shape[1]
        one = self._sum(rows)
        if one is not None:
            return self._select_sums(one)
        merged = merge_rows(rows)
        splits = folds(rows, self.cv, self._seed)
        most = min((len(train) for train, _ in splits), default=0)
        numeric = len(rows.table.labels) < d
        grid = self._grid(len(merged), d, numeric)
        final = partial(Encoded.of, merged, **{**grid.encoding, "candidates": self.candidates})
        return self._search(grid, splits, Tests.of(splits) if splits else None, most, d, final)

    @property
    def _summed_for(self) -> tuple[Sequence[Any], Sequence[Any], Any]:
        return list(self._choices.values()), self.bandwidths, resolve_cv(self.cv)

    def _select_sums(self, one: OnePass) -> tuple[Model, Calibrator | None]:
        if one.look is None and "logistic" in self.refits:
            raise ValueError("refits=('logistic',) needs rows, and only statistics are here: give X and y too")
        if one.look is None and self.scoring not in ("auto", "squared_error"):
            raise ValueError(
                f"scoring={self.scoring!r} is judged on rows, and only statistics are here: "
                "use scoring='squared_error' or give X and y too"
            )
        encoder, kept = one.statistics.plan.encoder, one.folds
        splits = [(one.summary(fold, pool=POOL), one.held(fold, SEARCH_LOOK // len(kept))) for fold in kept]
        looks = [(held.look, held.look) for _, held in splits if held.look is not None]
        count, d = one.statistics.count, len(encoder.names)
        most = int(min((count.sum() - count[fold] for fold in kept), default=0))
        grid = self._grid(one.statistics.n_rows, d, not encoder.nominal.all())
        tests = Tests.of(looks) if looks else None
        if tests is not None and len(np.unique(tests.codes)) < len(one.statistics.plan.classes):
            splits = []
        self.outside_ = one.statistics.outside
        return self._search(grid, splits, tests, most, d, one.summary, "squared_error")

    def _search(
        self,
        grid: Grid,
        splits: Sequence[tuple[Any, Any]],
        tests: Tests | None,
        most: int,
        n_features: int,
        final: Callable[[], Encoded | Summary],
        scoring: str = "log_loss",
    ) -> tuple[Model, Calibrator | None]:
        """Search coarsely over settings, then over all budgets of the best one; fit `final` data.

        No fold has more than `most` training rows; `scoring` is what "auto" means.
        """
        self._check_splits(splits)
        scoring = scoring if self.scoring == "auto" else self.scoring
        instances, features = self._budget_grids(most, n_features)
        grid = replace(grid, budgets=_diagonal(instances, features))
        judges = None if scoring == "squared_error" else tests  # a quick first stage needs no other score
        coarse = cross_validate(grid, splits, judges, scoring, self.n_jobs, "tuning: settings")
        largest = instances[-1], features[-1]
        tried = {c: r for c, r in coarse.items() if self.rule != "largest" or c.budgets == largest}
        setting = choose(tried, scoring, attrgetter("size")).setting
        grid = grid.narrow(setting, list(product(instances, features)))
        fine = cross_validate(grid, splits, tests, scoring, self.n_jobs, "tuning: budgets")
        if self.rule == "largest":
            cell = Cell(setting, *largest)
        else:
            even = smoothed(fine, [[Cell(setting, i, f) for f in features] for i in instances], scoring)
            cell = choose(even, scoring, attrgetter("size"), self.rule)
        self._publish_search(cell, grid, coarse, fine, instances, features)
        self.n_splits_, self.scoring_ = len(splits), scoring
        width, choice = grid.bandwidths[setting.bandwidth], grid.kernels[setting.kernels]
        model = self._at(cell)._learn_prepared(final().prepare(choice, per_feature(), width))
        decision = fine[cell].decision
        return (model, None) if decision is None or tests is None else calibrated(model, decision, tests)

    def _settled(self) -> dict[str, Any]:
        names = ("max_instances", "max_features", "bandwidth", "alpha", "coupling", "refit")
        return {"kernels": self._kernels_chosen, **{name: getattr(self, f"{name}_") for name in names}}

    def chosen(self) -> dict[str, Any]:
        check_is_fitted(self)
        own = {
            "most cases": self.max_instances_,
            "most features": self.max_features_,
            "bandwidth": self.bandwidth_,
            "ridge": self.alpha_,
            "coefficients": self.coupling_,
            "last fit": self.refit_,
        }
        return own | self._told_choice()

    def _at(self, cell: Cell) -> EM2NOLCClassifier:
        """The classifier of a cell, within this fit."""
        setting = cell.setting
        chosen = {"alpha": setting.alpha, "coupling": setting.coupling, "refit": setting.refit}
        budgets = {"max_instances": cell.max_instances, "max_features": cell.max_features}
        estimator: EM2NOLCClassifier = self._estimator(**chosen, **budgets)
        estimator.alpha_, estimator._seed = setting.alpha, self._seed
        return estimator

    def _grid(self, n_rows: int, d: int, numeric: bool) -> Grid:
        """All settings, no budgets yet; `numeric` says whether some column is a number."""
        widths = [check_bandwidth(b, d) for b in self.bandwidths]
        if not numeric and self.kernels is None:
            widths = widths[:1]  # indicator kernels have no bandwidth
        alphas = [a * ridge_scale(n_rows) for a in ALPHAS] if isinstance(self.alphas, str) else self.alphas
        return Grid(
            kernels=self._choices,
            bandwidths={b if np.ndim(b) == 0 else f"array {k}": b for k, b in enumerate(widths)},
            alphas=tuple(dict.fromkeys(alphas)),
            couplings=tuple(dict.fromkeys(self.couplings)),
            refits=tuple(dict.fromkeys(self.refits)),
            budgets=(),
            encoding={
                "engine": self.engine,
                "scaling": self.scaling,
                "missing": self.missing,
                "max_features": min(self.max_features, d),
                "candidates": min(self.candidates, POOL) if isinstance(self.candidates, int) else POOL,
                "seed": self._seed,
            },
            shared=self.shared_support,
        )

    def _budget_grids(self, n_rows: int, n_features: int) -> tuple[list[int], list[int]]:
        """Budgets worth trying: no more than there are rows and columns."""
        most = min(self.max_instances, n_rows), min(self.max_features, n_features)
        if self.budgets == "full":
            return list(range(1, most[0] + 1)), list(range(1, most[1] + 1))
        first, second = ([*(g for g in GRID if g < limit), limit] for limit in most)
        return first, second

    def _publish_search(
        self,
        cell: Cell,
        grid: Grid,
        coarse: dict[Cell, Result],
        fine: dict[Cell, Result],
        instances: list[int],
        features: list[int],
    ) -> None:
        setting = cell.setting
        self.max_instances_, self.max_features_ = cell.max_instances, cell.max_features
        self.kernels_choice_, self.bandwidth_ = setting.kernels, grid.bandwidths[setting.bandwidth]
        self.alpha_, self.coupling_, self.refit_ = setting.alpha, setting.coupling, setting.refit
        self.cv_results_ = _columns(coarse)
        cells = [[fine[Cell(setting, i, f)] for f in features] for i in instances]
        self.path_ = {"max_instances": np.array(instances), "max_features": np.array(features)}
        self.path_["objective"] = np.array([[r.objective for r in row] for row in cells])
        for name in cells[0][0].scores:
            self.path_[name] = np.array([[as_named(name, r.scores[name]) for r in row] for row in cells])


def _diagonal(instances: list[int], features: list[int]) -> list[tuple[int, int]]:
    """A few pairs of budgets that grow together, the largest last."""
    return list(dict.fromkeys((_nearest(instances, share), _nearest(features, share)) for share in COARSE))


def _nearest(grid: list[int], share: float) -> int:
    return min(grid, key=lambda g: abs(g - share * grid[-1]))


def _columns(results: dict[Cell, Result]) -> dict[str, np.ndarray]:
    """One entry per cell, named as in scikit-learn's searches."""
    return search_columns({cell: {**_budgets(cell), **vars(cell.setting)} for cell in results}, results)


def _budgets(cell: Cell) -> dict[str, int]:
    return {"max_instances": cell.max_instances, "max_features": cell.max_features}
