"""What the steps of a fit hand to each other: values that are made once and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from tamis.base.calibration import Calibrator
from tamis.base.model import Model


@dataclass(frozen=True)
class FitContext:
    """What all steps of a fit share.

    Attributes
    ----------
    seed : drawn from `random_state`
    kernels : the kernels to use, or to choose among, by name
    rough : whether the model is one of a fold, of which only the decisions count
    """

    seed: int
    kernels: Mapping[str, Any]
    rough: bool = False

    @property
    def kernel(self) -> Any:
        """The kernels, where there is no choice."""
        (kernels,) = self.kernels.values()
        return kernels


@dataclass(frozen=True)
class Fitted:
    """A model, the calibrator of its decisions if there is one, and attributes that only the method has."""

    model: Model
    calibrator: Calibrator | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


def draw_seed(random_state: Any) -> int:
    """One integer from `random_state`, on which every step of a fit agrees; None is the same as 0."""
    if random_state is None or isinstance(random_state, int | np.integer):
        return int(random_state or 0)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
