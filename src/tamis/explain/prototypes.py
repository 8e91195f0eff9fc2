"""Explanations of decisions by prototypes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tamis.explain.explanation import Explanation


class PrototypeShare(NamedTuple):
    """What one prototype did for one row.

    Attributes
    ----------
    prototype, label : its position and its class
    code : how much of it is in the row; None where the method has no codes
    contribution : to the decision, one number for each output
    samples : its training samples with their weights, the largest first
    """

    prototype: int
    label: Any
    code: float | None
    contribution: np.ndarray
    samples: list[tuple[Any, float]]


@dataclass(frozen=True, repr=False)
class PrototypeExplanation(Explanation):
    """An `Explanation` that also tells the prototypes.

    Attributes
    ----------
    by_prototype : (rows, outputs, prototypes), which with the base value add up to the decision as well
    mixtures : (instances, prototypes), the weight of each training sample in each prototype
    labels : the class of each prototype
    codes : (rows, prototypes), or None
    and those of `Explanation`
    """

    by_prototype: np.ndarray
    mixtures: np.ndarray
    labels: Sequence[Any]
    codes: np.ndarray | None = None

    def __repr__(self) -> str:
        rows, outputs, instances, kernels = self.contributions.shape
        return (
            f"PrototypeExplanation({rows} rows, {outputs} outputs, {len(self.labels)} prototypes of {instances} cases, "
            f"{kernels} kernels)"
        )

    def prototypes_of(self, row: int = 0) -> list[PrototypeShare]:
        """The prototypes that made the decision about one row (its place among the explained ones)."""
        if not -len(self.rows) <= row < len(self.rows):
            raise ValueError(f"row={row!r} is not among the {len(self.rows)} explained rows, counted from 0")
        parts = self.by_prototype[row]
        used = np.flatnonzero(parts.any(axis=0))
        order = used[np.argsort(-np.abs(parts[:, used]).max(axis=0), kind="stable")]
        return [
            PrototypeShare(
                int(j),
                self.labels[j],
                None if self.codes is None else float(self.codes[row, j]),
                parts[:, j],
                self._samples(int(j)),
            )
            for j in order
        ]

    def _samples(self, j: int) -> list[tuple[Any, float]]:
        weights = self.mixtures[:, j]
        order = np.argsort(-np.abs(weights), kind="stable")[: np.count_nonzero(weights)]
        return [(self.instances[s], float(weights[s])) for s in order]
