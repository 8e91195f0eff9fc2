"""The common part of `TamisClassifier` and `TamisRegressor`: parameters, budgets, and what is shown of a fit."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tamis.base.estimator import ReadableEstimator, draw_seed, logger
from tamis.base.explaining import kept_values
from tamis.base.memory import NUMBER, MemoryEstimate, Size
from tamis.base.model import FitContext, Fitted
from tamis.errors import check_integer
from tamis.explain import AdditiveExplanation
from tamis.flagship.cases import MAX_POOL
from tamis.flagship.fit import MAX_ROWS, Settings, fit_additive, fit_path
from tamis.flagship.model import AdditiveModel
from tamis.parallel import blas_threads
from tamis.table.folds import check_cv, resolve_cv
from tamis.table.rows import Rows
from tamis.table.table import source_kind

AUTO = "auto"
# Numbers for each row that are in memory at a time: for each column, for pairs, for each output, for each candidate.
BASIS_NUMBERS, PAIR_NUMBERS, SCORE_NUMBERS, SIMILARITY_ARRAYS = 15, 700, 80, 4


class AdditiveEstimator(ReadableEstimator):
    """Base of the estimators that fit an `AdditiveModel`."""

    max_features: int | str  # parameters, set by the constructors
    max_pairs: int
    max_instances: int
    cv: Any

    model_: AdditiveModel
    path_: dict[str, np.ndarray]
    loss_: float
    n_splits_: int
    n_rows_used_: int
    importance_: np.ndarray

    def check_parameters(self) -> None:
        """Raise ValueError for parameters that no data could make right; `fit` does this too."""
        super().check_parameters()
        if self.max_features != AUTO:
            if isinstance(self.max_features, str):
                raise ValueError(f"max_features={self.max_features!r} is unknown: use a number of features, or 'auto'")
            check_integer("max_features", self.max_features, 1)
        check_integer("max_pairs", self.max_pairs, 0)
        check_integer("max_instances", self.max_instances, 0)
        check_cv(self.cv)

    # ------------------------------------------------------------------ fitting

    def _fit_rows(self, rows: Rows, context: FitContext) -> Fitted:
        outcome = fit_additive(rows, self._settings(), context.seed)
        attributes: dict[str, Any] = {
            "loss_": outcome.loss,
            "n_splits_": outcome.n_splits,
            "n_rows_used_": outcome.n_rows,
        }
        if outcome.path is not None:
            attributes["path_"] = outcome.path
        return Fitted(outcome.model, None, attributes)

    def _finish(self, rows: Rows, others: Rows | None) -> None:
        super()._finish(rows, others)
        if self._log_callback() is not None:
            kept = ", ".join(f"{what} {how}" for what, how in self.summary().items())
            logger.info("%s: %s", type(self).__name__, kept)

    def _settings(self) -> Settings:
        return Settings(self.max_features, self.max_pairs, self.max_instances, self.cv, self.missing, self.n_jobs)

    def _size(self, rows: Rows, kernels: Any) -> Size:
        n, d = rows.table.numbers.shape
        return Size(n, d, 0, 0, 1 if rows.response is not None else rows.targets.shape[1])

    def _memory(self, size: Size) -> MemoryEstimate:
        n = min(size.rows, MAX_ROWS) if isinstance(resolve_cv(self.cv), Integral) else size.rows
        d, q = size.columns, size.outputs
        kept = d if self.max_features == AUTO else min(d, int(self.max_features))
        steps = {  # one after another, of which the largest counts
            "bases of the columns": BASIS_NUMBERS * (2 * d + kept),
            "surfaces of pairs": PAIR_NUMBERS if self.max_pairs and d > 1 else 0,
            "similarities of candidate cases": SIMILARITY_ARRAYS * min(n, MAX_POOL) if self.max_instances else 0,
        }
        largest = max(steps, key=lambda name: steps[name])
        scores = {"scores of all classes": SCORE_NUMBERS * NUMBER * n * q}
        return {**super()._memory(size), **scores, largest: NUMBER * n * steps[largest]}

    def _all_memory(self, size: Size) -> MemoryEstimate:
        return self._memory(size)  # threads share it

    def _less_memory(self, size: Size, room: float) -> str:
        return "use a sample of the rows, or fewer columns"

    # ------------------------------------------------------------------ budgets

    def path(
        self, X: Any, y: Any, max_features: int | None = None, *, sample_weight: Any = None, groups: Any = None
    ) -> dict[str, np.ndarray]:
        """Return the held-out loss of light models against the number of features; the fit stays as it is.

        Each fold chooses its own features, so that no loss is flattered by the choice. Also kept as `path_`, which a
        fit with ``max_features="auto"`` has by itself.

        Parameters
        ----------
        X, y, sample_weight, groups : rows as in `fit`
        max_features : most features that are tried; None: the budget of the estimator

        Returns
        -------
        dict with `n_features` (s,), increasing; `features` (s,), for each the positions of the columns, which include
        those before; `loss` (s,), the mean log-loss or squared error of held-out rows; `error` (s,), its standard error
        """
        other = clone(self)
        if max_features is not None:
            other.set_params(max_features=max_features)
        other.check_parameters()
        table, _, _ = other._read_training(X)
        rows = other._rows(table, y, sample_weight, groups)
        with blas_threads(1):
            self.path_ = fit_path(rows, other._settings(), draw_seed(self.random_state))
        return self.path_

    def without_search(self) -> Self:
        """Return an unfitted copy whose budgets are what this fit has kept: no fit to other rows will keep more."""
        check_is_fitted(self)
        kept = len(self.features_), len(self.model_.surfaces), len(self.instances_)
        return clone(self).set_params(max_features=max(1, kept[0]), max_pairs=kept[1], max_instances=kept[2])

    def summary(self) -> dict[str, Any]:
        """Return what the fit kept, in words: {what: value}."""
        check_is_fitted(self)
        return {
            "features": f"{len(self.features_)} of {self.n_features_in_}",
            "pairs": ", ".join(f"{a} * {b}" for a, b in self.pairs_) or "none",
            "cases": str(len(self.instances_)),
            "held-out loss": f"{self.loss_:.4g} in {self.n_splits_} folds",
        }

    # ------------------------------------------------------------------ explanations

    def explain(self, X: Any) -> AdditiveExplanation:
        """Split scores into what features, pairs of features and similar cases contribute; the parts add up exactly.

        For a Dask array or dataframe the contributions are lazy arrays; for a tensor they are tensors on its device.
        """
        found = super().explain(X)
        assert isinstance(found, AdditiveExplanation)
        plain = found.is_in_memory and source_kind(X) is None
        return replace(found, values=kept_values(self, X)) if plain else found
