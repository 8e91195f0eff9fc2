"""ReadableRegressor: numbers to predict."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from tamis.base.estimator import ReadableEstimator, blockwise
from tamis.explain.explanation import PREDICTION
from tamis.table.rows import Rows, check_groups, check_numbers, check_weights, weight_unit
from tamis.table.sources.source import blocks_of
from tamis.table.table import Table

STRATA = 5  # of the numbers to predict, for samples that have some of all


def _strata(response: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes (n,) and names of at most STRATA parts with about as many distinct numbers that count, in their order."""
    distinct = np.unique(response[mass > 0])
    size = min(STRATA, len(distinct))
    place = np.minimum(np.searchsorted(distinct, response), len(distinct) - 1)
    return place * size // len(distinct), np.arange(size)


class ReadableRegressor(RegressorMixin, ReadableEstimator):
    """Base of the regressors."""

    _keeps_nothing = "predicts y under these parameters, and every row gets the same prediction"

    @property
    def _outputs(self) -> list[Any]:
        return [PREDICTION]

    @property
    def _in_words(self) -> tuple[str, str]:
        return "Predicts a number", ""

    def _rows(self, table: Table, y: Any, sample_weight: Any, groups: Any) -> Rows:
        response = check_numbers(y, len(table))
        if len(table) < 2:
            raise ValueError(f"X has n_samples={len(table)}: at least two rows are needed")
        mass = check_weights(sample_weight, np.zeros(len(table), dtype=int), np.zeros(1))
        codes, classes = _strata(response, mass)
        groups, unit = check_groups(groups, len(codes)), weight_unit(sample_weight, mass)
        return Rows(table, codes, classes, mass, mass, groups, np.arange(len(codes)), unit, response)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R^2 of the predictions.

        Numbers are divided by the largest of them first, because squares of very small or large ones are no floats.

        Parameters
        ----------
        X, y, sample_weight : rows and numbers; or a file, or a Dask dataframe, and the names of columns
        """
        if isinstance(y, str):
            parts = [(self.predict(rows), numbers, weight) for rows, numbers, weight in blocks_of(X, y, sample_weight)]
            found, y, sample_weight = (np.concatenate(part) for part in zip(*parts, strict=True))
            unit = float(np.max(np.abs(y), initial=0.0)) or 1.0
            return float(r2_score(y / unit, found / unit, sample_weight=sample_weight))
        y = np.asarray(y, dtype=float)
        unit = float(np.max(np.abs(y), initial=0.0)) or 1.0
        return float(r2_score(y / unit, self.predict(X) / unit, sample_weight=sample_weight))

    @blockwise
    def predict(self, X: Any) -> np.ndarray:
        """Predicted numbers (n_samples,)."""
        return self._decision(X)[:, 0]
