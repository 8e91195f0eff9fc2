"""Importances of kept instances and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Kept:
    """What a model keeps of one kind, features or cases, and how much each counts.

    Attributes
    ----------
    names : of the kept ones, the p columns of the arrays
    importance : (outputs, p) signed percentages, or None where the method has no such factors
    variation : (outputs, p) shares in the variation of the decision, in per cent
    """

    names: Sequence[Any]
    importance: np.ndarray | None
    variation: np.ndarray

    def __len__(self) -> int:
        return len(self.names)

    @property
    def order(self) -> np.ndarray:
        """The positions of the kept ones, the largest share of variation over all outputs first."""
        return np.argsort(-self.variation.sum(axis=0), kind="stable")


def signed_percentages(values: np.ndarray) -> np.ndarray:
    """``100 v / |v|_1``: moduli add up to 100, signs are kept; all zero for a zero vector.

    The paper's II and FI [Zhang2022, Sect. 4.2].
    """
    total = np.abs(values).sum(axis=-1, keepdims=True)
    return 100.0 * values / np.where(total > 0, total, 1.0)


def variation(parts: np.ndarray, sample_weight: np.ndarray) -> np.ndarray:
    """How much each part of the decision varies over rows, in per cent of the sum.

    Parameters
    ----------
    parts : (rows, q, p) contributions of p instances or kernels to q outputs
    sample_weight : (rows,)

    Returns
    -------
    (q, p); weighted standard deviations scaled to add up to 100 for each output. Unlike
    `signed_percentages` this gives nothing to a part that is the same for every row.
    """
    share = sample_weight / sample_weight.sum()
    mean = np.einsum("i,iqp->qp", share, parts)
    spread = np.sqrt(np.einsum("i,iqp->qp", share, (parts - mean) ** 2))
    return signed_percentages(spread)
