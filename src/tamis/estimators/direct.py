"""The shell of the classifiers that fit one model: held-out decisions for calibration, encoded rows."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from functools import partial
from typing import ClassVar

import numpy as np

from tamis.estimators.calibration import Calibrator
from tamis.estimators.checks import check_integer
from tamis.estimators.classifying import KernelClassifier
from tamis.estimators.model import Encoded, Model
from tamis.estimators.rows import Rows, folds, merge_rows
from tamis.estimators.selection import Tests, each_fold


class DirectClassifier(KernelClassifier):
    """Base of the classifiers that fit one model; they have a parameter `calibration` and ``_learn``."""

    calibration: int | None

    _placed: ClassVar[bool] = False  # whether the method's own intercept is where it would decide

    @abstractmethod
    def _learn(self, rows: Rows, *, quick: bool = False) -> Model:
        """Fit a model to merged rows; `quick` asks for a cheaper search (calibration folds)."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.calibration is not None:
            check_integer("calibration", self.calibration, 2)

    @property
    def _calibrates(self) -> bool:
        return self.calibration is not None

    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        rows = merge_rows(rows)
        model = self._learn(rows)
        return calibrated(model, *self._held_out(rows)) if self._calibrates else (model, None)

    def _held_out(self, rows: Rows) -> tuple[np.ndarray, Tests]:
        """Decisions on rows that the model did not see."""
        splits = folds(rows, self.calibration, self._seed)
        parts = each_fold(partial(_decide_fold, self), splits, self.n_jobs)
        if not parts:
            warn_unheld()
            parts, splits = [self._learn(rows, quick=True).decision(rows.table)], [(rows, rows)]
        return np.concatenate(parts), Tests.of(splits, placed=self._placed)

    def _encoded(self, rows: Rows, max_features: int, engine: str, candidates: int | str | None = "all") -> Encoded:
        """Training rows as numbers, with the rows that may become instances."""
        return Encoded.of(
            rows,
            scaling=self.scaling,
            missing=self.missing,
            max_features=max_features,
            candidates=candidates,
            seed=self._seed,
            engine=engine,
        )


def calibrated(model: Model, decision: np.ndarray, tests: Tests) -> tuple[Model, Calibrator]:
    """Move the intercept so that zero stands at probability one half of held-out decisions; calibrate."""
    calibrator, shift = tests.fitted(decision)
    return model.shifted(shift), calibrator.shifted(shift)


def warn_unheld() -> None:
    """Say that probabilities rest on rows that the model has seen."""
    warnings.warn(
        "nothing can be held out, because the smallest class has one distinct row (or group) or the statistics have "
        "one fold: probabilities are calibrated on training rows and too sure of themselves",
        UserWarning,
        stacklevel=5,
    )


def _decide_fold(estimator: DirectClassifier, train: Rows, test: Rows) -> np.ndarray:
    return estimator._learn(train, quick=True).decision(test.table)
