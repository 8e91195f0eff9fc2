"""Time series in place of a table: one alignment kernel per channel, computed once for all that a fit does.

A fit works with the positions of the samples in that stack of kernels, as with `precomputed`. The fitted model keeps
the series of the kept cases and aligns new ones with them; each kept channel is one column of its table, which holds
positions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.base.extending import with_bank
from tamis.base.model import Model
from tamis.kernels.alignment import Aligned, AlignmentKernels, alignment, check_series
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.precomputed import Precomputed, PrecomputedKernels
from tamis.kernels.series import lengths_of
from tamis.progress import listening
from tamis.table.encoding import Encoder, Position
from tamis.table.table import Table

logger = logging.getLogger("tamis")


@dataclass(frozen=True, eq=False, repr=False)
class SeriesKernels(PrecomputedKernels):
    """The kernels between training series, with the series themselves."""

    aligned: Aligned | None = None


def align_training(X: Any, kernels: Any, missing: str | None, n_jobs: int | None, log: bool) -> SeriesKernels:
    """The kernels of all channels between training series."""
    series = check_series(X)
    absent = np.argwhere(lengths_of(series) == 0)
    if missing != "absent" and len(absent):
        raise ValueError(
            f"X: sample {absent[0, 0]} lacks channel {absent[0, 1]}, and missing={missing!r}: channels of "
            "series cannot be filled; use missing='absent', or fill them before"
        )
    recipe = alignment() if kernels is None else kernels
    if not isinstance(recipe, AlignmentKernels):
        raise ValueError(f"kernels={kernels!r} is not for series: use tamis.alignment(), or None")
    with _logged(log):
        names, widths, values = recipe.stack(series, n_jobs)
    return SeriesKernels(names, values, aligned=Aligned(names, widths, series))


@contextmanager
def _logged(log: bool) -> Iterator[None]:
    if not log:
        yield
        return
    with listening(lambda what, done, total: logger.info("%s: %d of %d", what, done, total)):
        yield


def on_kept_series(model: Model, aligned: Aligned) -> tuple[Model, Aligned]:
    """The model with positions among its kept series in place of those among all, and these series."""
    kept = aligned.take(model.kernels, model.instances)
    expansion, k, L = model.expansion, len(model.instances), len(model.kernels)
    own = expansion.kernel_values(expansion.instances)
    channels = [
        Channel(channel.name, Precomputed(values, np.arange(k)), (place,))
        for place, (channel, values) in enumerate(zip(expansion.bank.channels, own, strict=True))
    ]
    instances = np.tile(np.arange(k, dtype=float)[:, None], L)
    encoder = Encoder(tuple(Position(0.0, k - 1.0) for _ in range(L)), kept.names)
    expansion = replace(expansion, bank=KernelBank(tuple(channels)), instances=instances)
    return replace(model, encoder=encoder, expansion=expansion, columns=model.kernels), kept


def with_new_series(model: Model, kept: Aligned, series: np.ndarray, n_jobs: int | None) -> tuple[Model, Table]:
    """A model that knows the kernels of new series, and the table of their positions."""
    values = kept.values(series, n_jobs)
    known, bank = len(kept.series), model.expansion.bank
    extended: list[Any] = [
        replace(channel, kernel=channel.kernel.extended(v)) for channel, v in zip(bank.channels, values, strict=True)
    ]
    table = position_table(known + np.arange(values.shape[1]), kept.names)
    return with_bank(model, KernelBank(tuple(extended))), table


def kept_channels(X: Any, n_channels: int, kept: np.ndarray) -> np.ndarray:
    """The kept channels of series."""
    series = check_series(X)
    if series.shape[1] != n_channels:
        raise ValueError(f"X has {series.shape[1]} channels, but the fit saw {n_channels}")
    return series[:, kept]


def position_table(places: np.ndarray, names: tuple[str, ...]) -> Table:
    """A table of positions in precomputed kernels, the same in every column."""
    return Table(np.tile(places.astype(float)[:, None], len(names)), {}, list(names))
