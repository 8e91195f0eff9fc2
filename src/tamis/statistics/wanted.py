"""Wanted: what sums over rows are made for, and the way from what was seen of the rows to a plan and a second look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from tamis.kernels.recipes import Recipe
from tamis.statistics.look import second_rows
from tamis.statistics.plan import Plan, make_plan
from tamis.statistics.seen import Seen
from tamis.table.checks import check_integer
from tamis.table.rows import Rows


@dataclass(frozen=True)
class Wanted:
    """What fits will ask of the sums; the names are those of the parameters of `EM2NOLCClassifier`.

    Attributes
    ----------
    default : kernels where `choices` name none
    choices : what `kernels` may be
    bandwidths : all that will be tried
    cv : how rows are cut into folds
    seed : of everything random
    """

    default: Recipe
    choices: Sequence[Any]
    bandwidths: Sequence[Any]
    scaling: str | None
    missing: str | None
    categorical_features: Any
    class_weight: Any
    candidates: int | str | None
    cv: Any
    seed: int

    @property
    def n_folds(self) -> int:
        """Folds by the values of rows, where nobody sees all rows at once."""
        if self.cv is not None and not isinstance(self.cv, Integral):
            raise ValueError(
                f"cv={self.cv!r} must be an integer where rows come in blocks or tensors: folds follow their values"
            )
        n_folds = 1 if self.cv is None else int(self.cv)
        check_integer("cv", n_folds, 1)
        return n_folds

    def plan(
        self,
        seen: Seen,
        class_factor: np.ndarray,
        n_folds: int,
        *,
        all_gaps: bool = False,
    ) -> Plan:
        """The plan for these fits."""
        return make_plan(
            seen,
            self.default,
            choices=self.choices,
            bandwidths=self.bandwidths,
            scaling=self.scaling,
            missing=self.missing,
            candidates=self.candidates,
            n_folds=n_folds,
            seed=self.seed,
            class_factor=class_factor,
            all_gaps=all_gaps,
        )


def looked_at(seen: Seen, mass: np.ndarray) -> tuple[Rows, np.ndarray]:
    """Rows of the second look and their folds, from a sample; `mass` (classes,) are the weights of all rows."""
    return second_rows(seen.rows, seen.keys, seen.random, seen.fold, seen.counts, mass)
