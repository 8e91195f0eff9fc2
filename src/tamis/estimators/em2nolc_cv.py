"""EM2NOLCClassifierCV: budgets, bandwidth, ridge and variants chosen by cross-validation on a warm path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from numbers import Integral
from operator import attrgetter
from typing import Any

import numpy as np

from tamis.estimators.base import KernelClassifier, calibrated
from tamis.estimators.calibration import Calibrator
from tamis.estimators.checks import check_choice, check_integer, check_number
from tamis.estimators.em2nolc import COUPLINGS, REFITS, EM2NOLCClassifier, check_bandwidth
from tamis.estimators.em2nolc_grid import Cell, Grid
from tamis.estimators.model import Encoded, Model
from tamis.estimators.rows import Rows, folds, merge_rows
from tamis.estimators.selection import SCORES, Result, Tests, choose, cross_validate, smoothed
from tamis.kernels.recipes import per_feature

GRID = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 60, 100, 200)
POOL = 300  # most candidates in the search; the final fit draws from more
RULES = ("best", "one_se", "largest")
COARSE = (0.25, 0.5, 1.0)  # budgets of the first stage, as shares of the largest


class EM2NOLCClassifierCV(KernelClassifier):
    """EM2NOLC with budgets, bandwidth, ridge and variants chosen by cross-validation.

    Two stages. First every kernel recipe, bandwidth, ridge, coupling and refit is tried at a few
    budgets; then, for the best of them, all budgets on the grid, each started from its smaller
    neighbours. Scores come from held-out rows of the training data only; the score of the winner is
    the best of many and therefore optimistic: do not report it as performance.

    Parameters
    ----------
    max_instances, max_features : int, default=20
        Largest budgets tried.
    kernels : as in `EM2NOLCClassifier`, or a dict {name: choice} to choose among, default=None
    bandwidths : sequence, default=(0.3, 1.0, 3.0)
        Each as `bandwidth` in `EM2NOLCClassifier`.
    alphas : sequence of float, default=(0.01, 0.1)
    couplings : sequence of {"rank_one", "full"}, default=("rank_one",)
    refits : sequence of {"squared", "logistic"}, default=("squared",)
    budgets : {"grid", "full"}, default="grid"
        Second stage over 1, 2, 3, 4, 5, 7, 10, 14, 20, ... or over every integer.
    cv : int, splitter or sequence of (train, test) positions, default=5
        An integer asks for shuffled stratified folds; with `groups` in `fit`, rows of one group stay
        together. Splitters and positions speak of the rows of X as given.
    scoring : {"log_loss", "accuracy", "roc_auc"}, default="log_loss"
        Log-loss is taken after calibration of the held-out decisions.
    rule : {"best", "one_se", "largest"}, default="best"
        "best" takes the budgets with the best score, each score averaged with those of the
        neighbouring budgets, because the best of many single scores is mostly luck; ties go to the
        smaller model. "one_se" takes the smallest budgets within one standard error of that. "largest"
        chooses the other parameters only and keeps the largest budgets: the most accurate on small
        tables, where the ridge guards against overfitting better than a choice among budgets does.
    solver, scaling, missing, categorical_features, engine, candidates, shared_support, class_weight, \
tol, max_iter, random_state, n_jobs, verbose : as in `EM2NOLCClassifier`.
        `solver` serves the final fit; the search draws instances from at most 300 candidates.

    Attributes
    ----------
    max_instances_, max_features_, kernels_choice_, bandwidth_, alpha_, coupling_, refit_ : what was chosen
    cv_results_ : dict of arrays, one entry per cell tried in the first stage
    path_ : dict with the budgets `max_instances`, `max_features` and, over that grid, `objective`,
        `log_loss`, `accuracy`, `roc_auc`
    n_splits_ : folds that were used
    and those of `EM2NOLCClassifier`

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import EM2NOLCClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = EM2NOLCClassifierCV(max_instances=5, max_features=5, cv=3).fit(X, y)
    >>> clf.max_instances_ <= 5 and clf.max_features_ <= 5
    True
    """

    def __init__(
        self,
        max_instances: int = 20,
        max_features: int = 20,
        *,
        kernels: Any = None,
        bandwidths: Sequence[Any] = (0.3, 1.0, 3.0),
        alphas: Sequence[float] = (0.01, 0.1),
        couplings: Sequence[str] = ("rank_one",),
        refits: Sequence[str] = ("squared",),
        budgets: str = "grid",
        cv: Any = 5,
        scoring: str = "log_loss",
        rule: str = "best",
        solver: str = "splicing",
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        engine: str = "auto",
        candidates: int | None = None,
        shared_support: bool = False,
        class_weight: Any = None,
        tol: float = 1e-4,
        max_iter: int = 30,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.max_instances = max_instances
        self.max_features = max_features
        self.kernels = kernels
        self.bandwidths = bandwidths
        self.alphas = alphas
        self.couplings = couplings
        self.refits = refits
        self.budgets = budgets
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.solver = solver
        self.scaling = scaling
        self.missing = missing
        self.categorical_features = categorical_features
        self.engine = engine
        self.candidates = candidates
        self.shared_support = shared_support
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        for name in ("bandwidths", "alphas", "couplings", "refits"):
            values = getattr(self, name)
            if isinstance(values, str) or not hasattr(values, "__len__") or not len(values):
                raise ValueError(f"{name}={values!r} must be a non-empty sequence of values to choose among")
        if isinstance(self.kernels, Mapping) and not self.kernels:
            raise ValueError("kernels={} is empty: give at least one choice, or None for the default")
        for alpha in self.alphas:
            check_number("alphas", alpha, 0.0)
        for coupling in self.couplings:
            check_choice("couplings", coupling, COUPLINGS)
        for refit in self.refits:
            check_choice("refits", refit, REFITS)
        self._estimator()._check_parameters()
        check_choice("budgets", self.budgets, ("grid", "full"))
        check_choice("scoring", self.scoring, SCORES)
        check_choice("rule", self.rule, RULES)
        if isinstance(self.cv, Integral):
            check_integer("cv", self.cv, 2)
        elif self.cv is not None and not hasattr(self.cv, "split") and not hasattr(self.cv, "__iter__"):
            raise ValueError(f"cv={self.cv!r} must be an integer, a splitter or a sequence of (train, test) positions")

    def _select(self, rows: Rows) -> tuple[Model, Calibrator]:
        """Search coarsely over settings, then over all budgets of the best one; refit on all rows."""
        cv = 5 if self.cv is None else self.cv
        merged = merge_rows(rows)
        splits = folds(merged if isinstance(cv, Integral) else rows, cv, self._seed)
        if not splits:
            raise ValueError(
                f"cv={self.cv!r}: no fold can be made, the smallest class has too few distinct rows or groups; "
                "give more rows or use EM2NOLCClassifier"
            )
        instances, features = self._grids(merged, splits)
        grid = self._grid(merged, _diagonal(instances, features))
        coarse = cross_validate(grid, splits, self.scoring, self.n_jobs)
        largest = instances[-1], features[-1]
        tried = {c: r for c, r in coarse.items() if self.rule != "largest" or c.budgets == largest}
        setting = choose(tried, self.scoring, attrgetter("size")).setting
        grid = grid.narrow(setting, list(product(instances, features)))
        fine = cross_validate(grid, splits, self.scoring, self.n_jobs)
        if self.rule == "largest":
            cell = Cell(setting, *largest)
        else:
            even = smoothed(fine, [[Cell(setting, i, f) for f in features] for i in instances], self.scoring)
            cell = choose(even, self.scoring, attrgetter("size"), self.rule)
        self._publish_search(cell, grid, coarse, fine, instances, features)
        self.n_splits_ = len(splits)
        encoded = Encoded.of(merged, **{**grid.encoding, "candidates": self.candidates})
        width, choice = grid.bandwidths[setting.bandwidth], grid.kernels[setting.kernels]
        prepared = encoded.prepare(choice, per_feature(), width)
        model = self._estimator(cell)._learn_prepared(prepared)
        return calibrated(model, fine[cell].decision, Tests.of(splits))

    def _estimator(self, cell: Cell | None = None) -> EM2NOLCClassifier:
        """The classifier with the chosen cell; before the search, with the largest budgets."""
        own = self.get_params(deep=False)
        budgets = ("max_instances", "max_features", "kernels")
        shared = {k: own[k] for k in EM2NOLCClassifier().get_params(deep=False) if k in own and k not in budgets}
        if cell is None:
            return EM2NOLCClassifier(self.max_instances, self.max_features, **shared)
        setting = cell.setting
        chosen: dict[str, Any] = {"alpha": setting.alpha, "coupling": setting.coupling, "refit": setting.refit}
        return EM2NOLCClassifier(cell.max_instances, cell.max_features, **chosen, **shared)

    def _grid(self, rows: Rows, budgets: list[tuple[int, int]]) -> Grid:
        d = rows.table.numbers.shape[1]
        widths = [check_bandwidth(b, d) for b in self.bandwidths]
        if len(rows.table.labels) == d and self.kernels is None:
            widths = widths[:1]  # indicator kernels have no bandwidth
        return Grid(
            kernels=dict(self.kernels) if isinstance(self.kernels, Mapping) else {"kernels": self.kernels},
            bandwidths={b if np.ndim(b) == 0 else f"array {k}": b for k, b in enumerate(widths)},
            alphas=tuple(dict.fromkeys(self.alphas)),
            couplings=tuple(dict.fromkeys(self.couplings)),
            refits=tuple(dict.fromkeys(self.refits)),
            budgets=budgets,
            encoding={
                "engine": self.engine,
                "scaling": self.scaling,
                "missing": self.missing,
                "max_features": min(self.max_features, d),
                "candidates": min(self.candidates or POOL, POOL),
                "seed": self._seed,
            },
            engine=self.engine,
            shared=self.shared_support,
        )

    def _grids(self, rows: Rows, splits: list) -> tuple[list[int], list[int]]:
        """Budgets worth trying: no more than the smallest training part has rows and columns."""
        most = (
            min(self.max_instances, *(len(train) for train, _ in splits)),
            min(self.max_features, rows.table.numbers.shape[1]),
        )
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
        for name in SCORES:
            sign = -1.0 if name == "log_loss" else 1.0
            self.path_[name] = np.array([[sign * r.scores[name] for r in row] for row in cells])


def _diagonal(instances: list[int], features: list[int]) -> list[tuple[int, int]]:
    """A few pairs of budgets that grow together, the largest last."""
    return list(dict.fromkeys((_nearest(instances, share), _nearest(features, share)) for share in COARSE))


def _nearest(grid: list[int], share: float) -> int:
    return min(grid, key=lambda g: abs(g - share * grid[-1]))


def _columns(results: dict[Cell, Result]) -> dict[str, np.ndarray]:
    """One entry per cell, named as in scikit-learn's searches."""
    cells = list(results)
    out: dict[str, list] = {
        "param_max_instances": [c.max_instances for c in cells],
        "param_max_features": [c.max_features for c in cells],
    }
    for name in ("kernels", "bandwidth", "alpha", "coupling", "refit"):
        out[f"param_{name}"] = [getattr(c.setting, name) for c in cells]
    for name in SCORES:
        sign = -1.0 if name == "log_loss" else 1.0
        out[f"mean_test_{name}"] = [sign * results[c].scores[name] for c in cells]
    out["mean_objective"] = [results[c].objective for c in cells]
    return {
        name: np.array(values, dtype=object if name.startswith("param_") else float) for name, values in out.items()
    }
