"""The shell of the machines whose kernels may go through landmarks, so that no matrix between all rows is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from tamis.data.checks import check_integer
from tamis.data.rows import Rows
from tamis.errors import warn
from tamis.expansion import Coefficients
from tamis.kernels.landmarks import LandmarkError, LandmarkStack
from tamis.models.bill import NUMBER, Bill, Size, shown
from tamis.models.model import LANDMARKS, Encoded, Model, PreparedRows, draw_landmarks
from tamis.shells.base import KernelEstimator
from tamis.shells.classifying import KernelClassifier
from tamis.shells.device import OnDevice
from tamis.shells.parameters import parameters
from tamis.shells.stacked import Answer, CostClassifier, factors_of

LACKING = 0.1  # mean share of a kernel's variance that landmarks may leave out without a warning
FEW = (1000, 300, 100, 30)  # landmarks that are worth a try
NOTICEABLE = 0.1  # weight from which on a kernel is worth one


@parameters
class Landmarked(OnDevice, KernelClassifier):
    """What classifiers tell whose kernels may go through landmarks.

    Parameters
    ----------
    landmarks : int or None
        Solve with kernels through so many training rows, drawn from every class (Nystrom): time and memory are then
        linear in the rows, the model is a sum over landmarks, and `landmark_error_` says what the kernels lost. None,
        or as many as there are distinct rows: the kernels themselves.

    Attributes
    ----------
    landmark_error_ : `LandmarkError` of the kept kernels, in their order, where landmarks were used: the shares `mean`
        and `largest` of the variance k(x, x) of training rows that are lost, and the landmarks `rank` that each
        kernel stands on
    dual_coef_ : coefficients of the rows; of landmarks, their sums over kernels
    """

    _: KW_ONLY
    landmarks: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.landmarks is not None:
            check_integer("landmarks", self.landmarks, 1)
            if self.device is not None:
                raise ValueError(
                    f"landmarks={self.landmarks!r} and device={self.device!r} do not go together: through landmarks "
                    "there are no matrices between all rows for a device to hold; leave one of them out"
                )

    def chosen(self) -> dict[str, Any]:
        error = getattr(self, "landmark_error_", None)
        told = {} if error is None else {"landmarks": told_error(error, self.landmarks)}
        return super().chosen() | told


class LandmarkClassifier(Landmarked, CostClassifier):
    """Base of the support vector machines on a mean of kernels that may go through landmarks."""

    _copies: ClassVar[float] = 2.5  # of the factors that the solver holds at its peak

    def _bill(self, size: Size) -> Bill:
        if self.landmarks is None or self.landmarks >= size.rows:
            return super()._bill(size)
        m, rank = self.landmarks, size.factors(self.landmarks)
        return {
            **KernelEstimator._bill(self, size),
            "factors of the kernels": self._copies * NUMBER * size.rows * rank,
            "matrices between factors": 2 * NUMBER * min(size.rows, rank) ** 2 + 2 * NUMBER * size.kernels * m**2,
        }

    def _instead(self, size: Size, room: float) -> str:
        if self.landmarks is not None and self.landmarks < size.rows:
            return f"use fewer than landmarks={self.landmarks}"
        bills = {m: sum(clone(self).set_params(landmarks=m)._whole_bill(size).values()) for m in FEW}
        m = next((m for m in FEW if bills[m] <= room), None)
        if m is None:
            return "use EM2NOLCClassifier, whose memory does not grow with the rows"
        where = "" if self.device is None else " and device=None"
        return f"use landmarks={m} or so{where}, which takes about {shown(bills[m])}"

    def _encoded(self, rows: Rows, max_features: int, engine: str, candidates: int | str | None = "all") -> Encoded:
        encoded = super()._encoded(rows, max_features, engine, candidates)
        if self.landmarks is None or self.landmarks >= len(rows):
            return encoded
        return replace(encoded, candidates=draw_landmarks(rows, self.landmarks, self._seed), engine=LANDMARKS)

    def _assembled(self, prepared: PreparedRows, answers: Sequence[Answer]) -> Model:
        stack = prepared.stack
        if not isinstance(stack, LandmarkStack):
            return super()._assembled(prepared, answers)
        tables = [stack.folded(a.weights, a.dual_coef, len(prepared.pool)) for a in answers]
        blocks = [_block(table, a.intercept) for table, a in zip(tables, answers, strict=True)]
        return prepared.model(blocks, [a.solution for a in answers])

    def _factored(self, model: Model, prepared: PreparedRows, answers: Sequence[Answer]) -> Model:
        if not isinstance(prepared.stack, LandmarkStack):
            return super()._factored(model, prepared, answers)
        share = self._shares(prepared, answers)[:, model.kernels]
        total = share.sum(axis=1, keepdims=True)
        weights = share / np.where(total > 0, total, 1.0)
        self.landmark_error_ = prepared.stack.error.take(model.kernels)
        warn_lost(type(self).__name__, self.landmark_error_, weights, model.expansion.bank.names)
        return replace(model, dual_coef=factors_of(model.expansion.coef)[0], kernel_weights=weights)

    def _shares(self, prepared: PreparedRows, answers: Sequence[Answer]) -> np.ndarray:
        """What the kernels count in each output: (outputs, L)."""
        return np.array([a.weights for a in answers])


def told_error(error: LandmarkError, landmarks: int | None) -> str:
    """What kernels through landmarks lost, in words."""
    worst = float(error.mean.max(initial=0.0))
    return f"{landmarks} training rows; through them no kernel loses more than {worst:.2g} of its variance on average"


def warn_lost(name: str, error: LandmarkError, weights: np.ndarray, names: Sequence[str]) -> None:
    """Say where landmarks do not carry a kernel that matters."""
    lost = np.where(weights.max(axis=0, initial=0.0) >= NOTICEABLE, error.mean, 0.0)
    worst = int(np.argmax(lost)) if len(lost) else 0
    if len(lost) and lost[worst] > LACKING:
        warn(
            f"{name}: through the landmarks the kernel {names[worst]!r} loses {100 * lost[worst]:.0f}% of its variance "
            "on average over training rows; give more landmarks, or wider kernels"
        )


def _block(table: np.ndarray, intercept: float) -> Coefficients:
    """Coefficients (m, L) of one output."""
    return Coefficients(np.arange(len(table)), np.arange(table.shape[1]), table[None], np.array([intercept]))
