"""The shell of the classifiers that fit one model, and hold out rows for its probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY
from functools import partial

import numpy as np

from tamis.data.checks import check_integer
from tamis.data.folds import folds
from tamis.data.rows import Rows, merge_rows
from tamis.models.calibration import Calibrator
from tamis.models.model import Model
from tamis.models.selection import Tests, each_fold
from tamis.shells.learning import LearningClassifier, calibrated, warn_unheld
from tamis.shells.parameters import parameters


@parameters
class DirectClassifier(LearningClassifier):
    """Base of the classifiers that fit one model.

    Parameters
    ----------
    calibration : int or None
        Folds that fit the probabilities and place the intercept where they say one half; None: no `predict_proba`, the
        method's own intercept, and a faster fit.
    """

    _: KW_ONLY
    calibration: int | None = 3

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.calibration is not None:
            check_integer("calibration", self.calibration, 2)

    @property
    def _calibrates(self) -> bool:
        return self.calibration is not None

    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        merged = merge_rows(rows)
        model = self._learn(merged)
        return calibrated(model, *self._held_out(rows, merged)) if self._calibrates else (model, None)

    def _held_out(self, rows: Rows, merged: Rows) -> tuple[np.ndarray, Tests]:
        """Decisions on rows that the model did not see."""
        splits = folds(rows, self.calibration, self._seed)
        parts = each_fold(partial(_decide_fold, self), splits, self.n_jobs)
        if not parts:
            warn_unheld()
            parts, splits = [self._learn(merged, quick=True).decision(merged.table)], [(merged, merged)]
        return np.concatenate(parts), Tests.of(splits, placed=self._placed)


def _decide_fold(estimator: DirectClassifier, train: Rows, test: Rows) -> np.ndarray:
    return estimator._learn(train, quick=True).decision(test.table)
