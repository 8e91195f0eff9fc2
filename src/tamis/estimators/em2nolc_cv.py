"""EM2NOLCClassifierCV: budgets, bandwidth, ridge and variants chosen by cross-validation on a warm path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product, zip_longest
from typing import Any

import numpy as np

from tamis.estimators.base import KernelClassifier
from tamis.estimators.calibration import Calibrator
from tamis.estimators.checks import check_choice, check_integer, check_number
from tamis.estimators.em2nolc import COUPLINGS, REFITS, EM2NOLCClassifier, check_bandwidth
from tamis.estimators.model import Model
from tamis.estimators.rows import Rows, folds, merge_rows
from tamis.estimators.search import Cell, Result, Search, choose

GRID = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 60, 100, 200)
POOL = 300  # most candidates in the search; the final fit draws from more
COARSE = (0.25, 0.5, 1.0)  # budgets of the first stage, as shares of the largest
SCORES = ("log_loss", "accuracy", "roc_auc")


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
    cv : int or splitter, default=5
        Folds are stratified and shuffled; with `groups` in `fit`, rows of one group stay together.
    scoring : {"log_loss", "accuracy", "roc_auc"}, default="log_loss"
        Log-loss is taken after calibration of the held-out decisions.
    rule : {"best", "one_se"}, default="best"
        "one_se" takes the smallest budgets whose score is within one standard error of the best. Ties
        go to the smaller model either way.
    solver, scaling, missing, categorical_features, engine, candidates, shared_support, class_weight, \
tol, max_iter, random_state, n_jobs, verbose : as in `EM2NOLCClassifier`; solver serves the final fit.

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
        for alpha, coupling, refit in zip_longest(self.alphas, self.couplings, self.refits):
            check_number("alphas", self.alphas[0] if alpha is None else alpha, 0.0)
            check_choice("couplings", coupling, (*COUPLINGS, None))
            check_choice("refits", refit, (*REFITS, None))
        self._estimator()._check_parameters()
        check_choice("budgets", self.budgets, ("grid", "full"))
        check_choice("scoring", self.scoring, SCORES)
        check_choice("rule", self.rule, ("best", "one_se"))
        if isinstance(self.cv, int):
            check_integer("cv", self.cv, 2)

    @property
    def _merges(self) -> bool:
        return isinstance(self.cv, int) or hasattr(self.cv, "split")

    def _fit_rows(self, rows: Rows) -> None:
        splits = folds(rows, self.cv, self._seed)
        if not splits:
            raise ValueError(
                f"cv={self.cv!r}: no fold can be made, the smallest class has too few distinct rows or groups; "
                "give more rows or use EM2NOLCClassifier"
            )
        rows = merge_rows(rows)
        search = self._search(rows)
        instances, features = self._grids(rows, splits)
        coarse = search.run(splits, _diagonal(instances, features))
        winner = choose(coarse, self.scoring).setting
        fine = search.narrow(winner).run(splits, list(product(instances, features)))
        cell = choose(fine, self.scoring, self.rule)
        tests = [test for _, test in splits]
        calibrator = Calibrator.fit(
            fine[cell].decision,
            np.concatenate([test.targets for test in tests]),
            np.concatenate([test.weight for test in tests]),
        )
        self._publish(rows, self._estimator(cell, search)._learn(rows), calibrator)
        self._publish_search(cell, search, coarse, fine, instances, features)
        self.n_splits_ = len(splits)

    def _learn(self, rows: Rows, *, quick: bool = False) -> Model:
        raise TypeError("EM2NOLCClassifierCV learns through the estimator that its search has chosen")

    def _estimator(self, cell: Cell | None = None, search: Search | None = None) -> EM2NOLCClassifier:
        """The classifier with the chosen (or, before the search, the first) setting."""
        shared = {
            name: getattr(self, name)
            for name in EM2NOLCClassifier().get_params(deep=False)
            if name in self.get_params(deep=False) and name not in ("max_instances", "max_features", "kernels")
        }
        if cell is None or search is None:
            return EM2NOLCClassifier(self.max_instances, self.max_features, alpha=self.alphas[0], **shared)
        setting = cell.setting
        chosen = EM2NOLCClassifier(
            cell.max_instances,
            cell.max_features,
            kernels=search.kernels[setting.kernels],
            bandwidth=search.bandwidths[setting.bandwidth],
            alpha=setting.alpha,
            coupling=setting.coupling,
            refit=setting.refit,
            **shared,
        )
        chosen._seed = self._seed
        return chosen

    def _search(self, rows: Rows) -> Search:
        d = rows.table.numbers.shape[1]
        widths = [check_bandwidth(b, d) for b in self.bandwidths]
        if len(rows.table.labels) == d and self.kernels is None:
            widths = widths[:1]  # indicator kernels have no bandwidth
        return Search(
            kernels=dict(self.kernels) if isinstance(self.kernels, Mapping) else {"kernels": self.kernels},
            bandwidths={b if np.ndim(b) == 0 else f"array {k}": b for k, b in enumerate(widths)},
            alphas=tuple(dict.fromkeys(self.alphas)),
            couplings=tuple(dict.fromkeys(self.couplings)),
            refits=tuple(dict.fromkeys(self.refits)),
            encoding={
                "scaling": self.scaling,
                "missing": self.missing,
                "max_features": min(self.max_features, d),
                "candidates": min(self.candidates or POOL, POOL),
                "seed": self._seed,
            },
            engine=self.engine,
            shared=self.shared_support,
            scoring=self.scoring,
            n_jobs=self.n_jobs,
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
        search: Search,
        coarse: dict[Cell, Result],
        fine: dict[Cell, Result],
        instances: list[int],
        features: list[int],
    ) -> None:
        setting = cell.setting
        self.max_instances_, self.max_features_ = cell.max_instances, cell.max_features
        self.kernels_choice_, self.bandwidth_ = setting.kernels, search.bandwidths[setting.bandwidth]
        self.alpha_, self.coupling_, self.refit_ = setting.alpha, setting.coupling, setting.refit
        self.cv_results_ = _columns(coarse)
        grid = [[fine[Cell(setting, i, f)] for f in features] for i in instances]
        self.path_ = {"max_instances": np.array(instances), "max_features": np.array(features)}
        self.path_["objective"] = np.array([[r.objective for r in row] for row in grid])
        for name in SCORES:
            sign = -1.0 if name == "log_loss" else 1.0
            self.path_[name] = np.array([[sign * r.scores[name] for r in row] for row in grid])


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
