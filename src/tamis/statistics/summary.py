"""Sums over training rows in the place of the rows: the same way from data to model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from tamis.base.design import Design, MomentDesign, RowDesign, Sums
from tamis.base.model import Pool, Prepared
from tamis.kernels.recipes import Bandwidth, Recipe
from tamis.statistics.again import Again
from tamis.statistics.plan import Plan
from tamis.table.rows import Rows, codings


@dataclass(frozen=True)
class Summary:
    """Sums over training rows, with what the sums cannot give.

    Attributes
    ----------
    plan : Plan
    sums : (A, A) over the training rows
    pool : candidates
    look : training rows for logistic refits, or None
    rows : all training rows, as candidates for better instances, or None
    again : another pass over all training rows, for a last fit with the exact kernels, or None
    """

    plan: Plan
    sums: np.ndarray
    pool: Pool
    look: Rows | None = None
    rows: Rows | None = None
    again: Again | None = None

    @cached_property
    def encoded_look(self) -> np.ndarray | None:
        return None if self.look is None else self.plan.encoder.encode(self.look.table)

    def prepare(self, kernels: Any, default: Recipe, bandwidth: Bandwidth) -> PreparedSums:
        """Put kernels on the sums."""
        bank = self.plan.bank(kernels, default, bandwidth)
        return PreparedSums(self.plan.encoder, bank, self.pool, self)


@dataclass(frozen=True)
class PreparedSums(Prepared):
    """Sums over training rows with short forms of the kernels."""

    summary: Summary

    def designs(self, shared: bool) -> list[Design]:
        summary = self.summary
        corners = self.bank.stack(self.pool.Z, form="streaming")
        sums, short = Sums.of(summary.sums), self.short(self.pool.Z, range(len(self.bank)))
        places = [summary.plan.functions.positions[channel.columns[0]] for channel in self.bank.channels]
        return [
            MomentDesign(sums, coding, places, short, self.pool.codes, corners, partial(self._look, coding))
            for coding in codings(len(summary.plan.classes), shared)
        ]

    def short(self, Z: np.ndarray, kernels: Sequence[int]) -> list[np.ndarray]:
        """Coefficients (rows, size) of some kernels' short forms at encoded rows."""
        bases, channels = self.summary.plan.functions.bases, [self.bank.channels[m] for m in kernels]
        return [bases[ch.columns[0]].coefficients(ch.kernel, Z[:, ch.columns[0]]) for ch in channels]

    def _look(self, coding: np.ndarray) -> RowDesign | None:
        look = self.summary.look
        if look is None:
            return None
        stack = self.bank.stack(self.summary.encoded_look, self.pool.Z, form="streaming")
        return RowDesign(stack, coding[look.codes], look.weight, np.empty(0, dtype=int))
