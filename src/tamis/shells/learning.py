"""The shell of the classifiers that fit a model to merged rows: one model, or the best of a search."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from tamis.data.rows import Rows
from tamis.errors import warn
from tamis.models.calibration import Calibrator
from tamis.models.model import Encoded, Model
from tamis.models.selection import Tests
from tamis.shells.classifying import KernelClassifier


class Factors:
    """What classifiers tell whose coefficients are products, one factor for each row and one for each kernel.

    Attributes
    ----------
    kernel_weights_ : weights of the kernels, adding up to one
    dual_coef_ : coefficients of the rows
    instance_importance_ : signed percentages of the coefficients
    kernel_importance_ : percentages of the weights
    feature_importance_ : the same for features, where every kernel stands on one
    """


class LearningClassifier(KernelClassifier):
    """Base of the classifiers that have ``_learn``."""

    _placed: ClassVar[bool] = False  # whether the method's own intercept is where it would decide

    @abstractmethod
    def _learn(self, rows: Rows, *, quick: bool = False) -> Model:
        """Fit a model to merged rows; `quick` asks for a cheaper search (calibration folds)."""

    @property
    def _device(self) -> str | None:
        """Where all kernel values are held; None: in numpy."""
        return None

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
    warn_flat(calibrator)
    return model.shifted(shift), calibrator.shifted(shift)


def warn_flat(calibrator: Calibrator) -> None:
    """Warn of probabilities that say nothing of the rows."""
    if calibrator.failed:
        warn(
            "calibration failed: on held-out rows, higher decision values do not go with the class more often. The "
            "model may be no better than guessing. Probabilities are the same for every row, and labels are those of "
            "the decision values as fitted; give more rows or features, or other parameters"
        )


def warn_unheld() -> None:
    """Say that probabilities rest on rows that the model has seen."""
    warn(
        "nothing can be held out, because the smallest class has one row (or group) or the statistics have "
        "one fold: probabilities are calibrated on training rows and too sure of themselves",
    )
