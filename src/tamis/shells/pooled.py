"""Classifiers whose models are sums over rows, and which may learn from a part of them."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from tamis.data.checks import check_integer
from tamis.data.rows import Rows, some_of_each_class, spread
from tamis.models.bill import Size, fitting
from tamis.models.calibration import Calibrator
from tamis.models.model import Model, decide
from tamis.shells.classifying import KernelClassifier
from tamis.shells.parameters import parameters

OTHERS = 20_000  # most rows beside the pool that are predicted
LEAST = 2  # of a class


@parameters
class Pooled(KernelClassifier):
    """Base of the classifiers that hold matrices between all rows that they learn from.

    Parameters
    ----------
    pool : int or None
        Learn from so many rows, drawn from every class in proportion, whatever their order; kept cases are among these,
        and `pool_error_` says how the model does on the others. None, or as many as there are: all rows.

    Attributes
    ----------
    pool_error_ : where a pool was drawn, the share of other training rows (up to 20 000 of them, by their weights) that
        are predicted wrong
    """

    _: KW_ONLY
    pool: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.pool is not None:
            check_integer("pool", self.pool, LEAST)

    def _rows(self, X: Any, y: Any, sample_weight: Any, groups: Any, *, reset: bool = True) -> Rows:
        rows = super()._rows(X, y, sample_weight, groups, reset=reset)
        if not reset or self.pool is None:
            return rows
        rows = rows.take(np.flatnonzero(rows.mass > 0))
        if len(rows) <= self.pool:
            return rows
        if getattr(self, "_given", None) is not None:
            raise ValueError(f"pool={self.pool!r} is for tables, and X holds series: give fewer of them")
        drawn = some_of_each_class(rows, self.pool, LEAST, self._seed)
        others = np.setdiff1d(np.arange(len(rows)), drawn)
        self._beside = rows.take(others[spread(len(others), OTHERS)])
        return rows.take(drawn)

    def _publish(
        self, classes: np.ndarray, model: Model, calibrator: Calibrator | None, shares: tuple[np.ndarray, np.ndarray]
    ) -> None:
        super()._publish(classes, model, calibrator, shares)
        others = self.__dict__.pop("_beside", None)
        if others is not None:
            wrong = decide(self.model_.decision(others.table)) != others.codes
            self.pool_error_ = float(np.average(wrong, weights=others.mass))

    def _instead(self, size: Size, room: float) -> str:
        most = fitting(size, self._whole_bill, room)
        told: str = super()._instead(size, room)
        return f"use pool={most}, so many rows to learn from" if most else told

    def chosen(self) -> dict[str, Any]:
        error = getattr(self, "pool_error_", None)
        if error is None:
            return super().chosen()
        return super().chosen() | {"pool": f"{self.pool} training rows; of the others {100 * error:.3g}% are wrong"}
