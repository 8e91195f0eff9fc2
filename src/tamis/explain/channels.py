"""Explanations of decisions about samples that lack channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tamis.explain.explanation import Explanation
from tamis.explain.html import absence_html

NAMED = 8  # most channels that words name
LEVELS = (0.05, 0.5, 0.95)  # of typical contributions


class ChannelShare(NamedTuple):
    """What one channel did for one row.

    Attributes
    ----------
    channel : its name
    present : whether the row has it
    contribution : to the decision, one number for each output; zero where the channel is absent, unless the method
        fills it in
    typical : (outputs, 3) what it contributes to training samples that have it: the 5%, 50% and 95% quantiles
    """

    channel: str
    present: bool
    contribution: np.ndarray
    typical: np.ndarray


@dataclass(frozen=True, repr=False)
class ChannelExplanation(Explanation):
    """An `Explanation` that also tells which channels each row had.

    Attributes
    ----------
    present : boolean (rows, kernels)
    typical : (outputs, kernels, 3), the 5%, 50% and 95% quantiles of what a channel contributes to training samples
        that have it
    and those of `Explanation`
    """

    present: np.ndarray
    typical: np.ndarray

    def __repr__(self) -> str:
        lacking = np.count_nonzero(~self.present.all(axis=1))
        return f"{super().__repr__()[:-1]}, {lacking} rows lack channels, {np.count_nonzero(self.empty)} have none)"

    @property
    def empty(self) -> np.ndarray:
        """Boolean (rows,): rows that have none of the kernels, so that nothing of their own decides about them."""
        return np.logical_not(np.any(self.present, axis=1))

    @property
    def part_names(self) -> list[str]:
        """The names of the parts: that of its channel where a part has one alone."""
        members = [[k for k, group in enumerate(self.features) if group == part] for part in self.parts]
        return [
            self.kernels[of[0]] if len(of) == 1 else name for of, name in zip(members, super().part_names, strict=True)
        ]

    def channels_of(self, row: int = 0) -> list[ChannelShare]:
        """Present and absent channels of one row (its place among the explained ones), the present ones first."""
        if not -len(self.rows) <= row < len(self.rows):
            raise ValueError(f"row={row!r} is not among the {len(self.rows)} explained rows, counted from 0")
        parts, here = self.by_kernel[row], self.present[row]
        size = np.where(here, np.abs(parts).max(axis=0), np.ptp(self.typical, axis=2).max(axis=0))
        order = np.lexsort([-size, ~here])
        return [ChannelShare(self.kernels[k], bool(here[k]), parts[:, k], self.typical[:, k]) for k in order]

    def _summands(self) -> dict[str, list]:
        """As for every explanation, with a column `present`: whether the row has the kernel."""
        columns = super()._summands()
        here = np.broadcast_to(self.present[:, None, None, :], self.contributions.shape).ravel().tolist()
        columns["present"] = here + [True] * (len(columns["row"]) - len(here))
        return columns

    def absence(self, row: int = 0, output: int = 0) -> str:
        """What one row lacks, in words, with what that adds to the score of an output for rows that have it."""
        if self.empty[row]:
            alone = "" if self.contributions[row].any() else ": the base value alone decides"
            return f"everything that the model uses{alone}"
        ends = self.typical[output]
        order = np.argsort(-np.ptp(ends, axis=1), kind="stable")
        gone = [
            f"{self.kernels[k]} ({ends[k, 0]:+.2g} to {ends[k, 2]:+.2g})" for k in order if not self.present[row, k]
        ]
        return "; ".join(gone[:NAMED]) + (f"; and {len(gone) - NAMED} more" if len(gone) > NAMED else "")

    def _repr_html_(self) -> str | None:
        html = super()._repr_html_()
        return None if html is None else html + absence_html(self)


def typical_range(by_kernel: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Quantiles (outputs, kernels, 3) of contributions (rows, outputs, kernels) over the rows that have the kernel.

    Zero for a kernel that no row has.
    """
    out = np.zeros((*by_kernel.shape[1:], len(LEVELS)))
    for k, here in enumerate(present.T):
        if here.any():
            out[:, k] = np.quantile(by_kernel[here, :, k], LEVELS, axis=0).T
    return out
