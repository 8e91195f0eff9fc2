"""Time series in place of a table: one alignment kernel per channel, computed once for all that a fit does.

A fit works with the positions of the samples in that stack of kernels, as with `precomputed`. The fitted model keeps
the series of the kept cases and aligns new ones with them; each kept channel is one column of its table, which holds
positions.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, replace
from typing import Any

import numpy as np

from tamis.data.encoding import Encoder, Position
from tamis.data.rows import Rows
from tamis.data.table import Table
from tamis.kernels.alignment import Aligned, AlignmentKernels, align, alignment, check_series, is_series
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.precomputed import Precomputed, PrecomputedKernels
from tamis.kernels.series import lengths_of
from tamis.models.calibration import Calibrator
from tamis.models.model import Model
from tamis.progress import listening
from tamis.shells.extending import with_bank
from tamis.shells.learning import LearningClassifier
from tamis.shells.parameters import parameters

logger = logging.getLogger("tamis")


@parameters
class OnSeries(LearningClassifier):
    """Base of the classifiers that take series (sample, channel, step) as well as tables.

    Parameters
    ----------
    kernels : None, recipe, KernelBank or list of (name, kernel, columns)
        For series None or `tamis.alignment()`.
    """

    _: KW_ONLY
    kernels: Any = None

    def _read(self, X: Any, *, reset: bool) -> Table:
        if reset:
            self._given: tuple[Aligned, PrecomputedKernels] | None = None
            if is_series(X):
                return self._read_series(X)
        elif hasattr(self, "series_"):
            raise ValueError("X is a table, and this classifier was fitted to series: give (sample, channel, step)")
        return super()._read(X, reset=reset)

    def _read_series(self, X: Any) -> Table:
        """Compute the kernels of all channels; the table holds positions."""
        series = check_series(X)
        absent = np.argwhere(lengths_of(series) == 0)
        if self.missing != "absent" and len(absent):
            raise ValueError(
                f"X: sample {absent[0, 0]} lacks channel {absent[0, 1]}, and missing={self.missing!r}: channels of "
                "series cannot be filled; use missing='absent', or fill them before"
            )
        recipe = alignment() if self.kernels is None else self.kernels
        if not isinstance(recipe, AlignmentKernels):
            raise ValueError(f"kernels={self.kernels!r} is not for series: use tamis.alignment(), or None")
        with self._progress_shown():
            names, widths, values = recipe.stack(series, self.n_jobs)
        self._given = Aligned(names, widths, series), PrecomputedKernels(names, values)
        self.n_features_in_ = len(names)
        self._categorical, self._allow_missing = None, True
        return _positions(np.arange(len(series)), ("sample",))

    def _progress_shown(self) -> AbstractContextManager:
        if self._progress() is None:
            return nullcontext()
        return listening(lambda what, done, total: logger.info("%s: %d of %d", what, done, total))

    def _bank_source(self) -> Any:
        """What `kernels` stands for."""
        return self.kernels if self._given is None else self._given[1]

    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        try:
            model, calibrator = super()._select(rows)  # type: ignore[safe-super]  # of the class that it is mixed with
            return (model if self._given is None else self._of_series(model)), calibrator
        finally:
            self._given = None

    def _of_series(self, model: Model) -> Model:
        """The model with the series of its kept cases in place of positions among all samples."""
        assert self._given is not None
        self.series_ = self._given[0].take(model.kernels, model.instances)
        expansion, k, L = model.expansion, len(model.instances), len(model.kernels)
        own = expansion.kernel_values(expansion.instances)
        channels = [
            Channel(channel.name, Precomputed(values, np.arange(k)), (place,))
            for place, (channel, values) in enumerate(zip(expansion.bank.channels, own, strict=True))
        ]
        instances = np.tile(np.arange(k, dtype=float)[:, None], L)
        encoder = Encoder(tuple(Position(0.0, k - 1.0) for _ in range(L)), self.series_.names)
        expansion = replace(expansion, bank=KernelBank(tuple(channels)), instances=instances)
        return replace(model, encoder=encoder, expansion=expansion, columns=model.kernels)

    def _seen(self, X: Any) -> tuple[Model, Table]:
        if not hasattr(self, "series_") or not is_series(X):
            return super()._seen(X)
        values = self.series_.values(self._channels(X), self.n_jobs)
        known = len(self.series_.series)
        bank = self.model_.expansion.bank
        extended = [replace(ch, kernel=ch.kernel.extended(v)) for ch, v in zip(bank.channels, values, strict=True)]
        table = _positions(known + np.arange(values.shape[1]), self.series_.names)
        return with_bank(self.model_, KernelBank(tuple(extended))), table

    def _channels(self, X: Any) -> np.ndarray:
        """The kept channels of series."""
        series = check_series(X)
        if series.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {series.shape[1]} channels, but the fit saw {self.n_features_in_}")
        return series[:, self.kernels_]

    def _aligned(self, X: Any, Y: Any) -> np.ndarray:
        """Weighted sum of the kernels of the kept channels between two sets of series."""
        others = None if Y is None else self._channels(Y)
        values = align(self._channels(X), others, bandwidths=self.series_.bandwidths, n_jobs=self.n_jobs)
        return np.tensordot(self.model_.expansion.weights, values, axes=1)


def _positions(places: np.ndarray, names: tuple[str, ...]) -> Table:
    return Table(np.tile(places.astype(float)[:, None], len(names)), {}, list(names))
