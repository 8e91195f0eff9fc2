"""Importances of kept instances and kernels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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


def variation(parts: np.ndarray, sample_weight: np.ndarray, groups: Sequence[Hashable] | None = None) -> np.ndarray:
    """How much each part of the decision varies over rows, in per cent of the sum.

    Parameters
    ----------
    parts : (rows, q, p) contributions of p instances or kernels to q outputs
    sample_weight : (rows,)
    groups : (p,) parts of one group share the variation of their sum, in proportion to their own; None: each counts
        for itself. Without it two parts that nearly cancel would count for much that nobody sees

    Returns
    -------
    (q, p); weighted standard deviations scaled to add up to 100 for each output. Unlike
    `signed_percentages` this gives nothing to a part that is the same for every row.
    """
    own = _spread(parts, sample_weight)
    if groups is None or len(set(groups)) == len(groups):
        return signed_percentages(own)
    distinct = list(dict.fromkeys(groups))
    member = np.array([[group == one for one in distinct] for group in groups], dtype=float)
    total = own @ member
    scale = _spread(parts @ member, sample_weight) / np.where(total > 0, total, 1.0)
    return signed_percentages(own * (scale @ member.T))


def _spread(parts: np.ndarray, sample_weight: np.ndarray) -> np.ndarray:
    """Weighted standard deviations (q, p) over rows."""
    share = sample_weight / sample_weight.sum()
    mean = np.einsum("i,iqp->qp", share, parts)
    return np.sqrt(np.einsum("i,iqp->qp", share, (parts - mean) ** 2))
