"""How far surfaces and cases bend the effect of a feature away from its curve.

The effect of a feature is the mean score over the rows when only this feature changes. Its curve is what is drawn of
it, so that what else moves the effect is bounded for the features that matter most. The curve of a feature that works
in a pair rather than alone is short, and the bound would leave nothing of the pair: half the range of the surface
counts there.
"""

from __future__ import annotations

import numpy as np

from tamis.flagship.design import Design
from tamis.flagship.score import Score

MAX_BEND = 0.14  # of the effect of a main feature, root mean square relative to its curve's range
MAX_PAIR_BEND = 0.1  # the part of it that surfaces may take
MAIN = 3  # features with the largest curves


def main_features(score: Score, design: Design) -> dict[int, float]:
    """Return the features whose curves move the score most, and their ranges, at least half that of a surface."""
    curves = [design.at(j, score.left[j], score.right[j]) for j in range(design.n_columns)]
    main = sorted(range(design.n_columns), key=lambda j: -(design.weight @ np.abs(curves[j])).sum())[:MAIN]
    surfaces = [(s.places, s.at(*(design.places(j) for j in s.places))) for s in score.surfaces]
    return {
        j: max(_range(curves[j]), *(_range(values) / 2 for places, values in surfaces if j in places), 1e-12)
        for j in main
    }


def _range(values: np.ndarray) -> float:
    """The largest range over the outputs of values (n, c)."""
    return float(np.ptp(values, axis=0).max())


def surface_effect(score: Score, design: Design, j: int) -> np.ndarray:
    """Return what surfaces add to the effect of column j, at the value of each row (n, c)."""
    effect = np.zeros((len(design.weight), len(score.base)))
    for surface in score.surfaces:
        if j not in surface.places:
            continue
        side = surface.places.index(j)
        own, other = (surface.groups[k][design.cell[:, surface.places[k]]] for k in (side, 1 - side))
        values = np.moveaxis(surface.values, side, 0)
        share = np.bincount(other, design.weight, values.shape[1]) / design.weight.sum()
        effect += np.einsum("abc,b->ac", values, share)[own]
    return effect


def size_of(effect: np.ndarray, design: Design) -> float:
    """Return the root mean square of an effect (n, c) over rows, about its mean."""
    share = design.weight / design.weight.sum()
    return float(np.sqrt(np.mean(share @ (effect - share @ effect) ** 2)))


def pair_factor(score: Score, design: Design) -> float:
    """Return the factor on all surfaces with which none bends a main feature too far; one where none does."""
    sizes = [size_of(surface_effect(score, design, j), design) / r for j, r in main_features(score, design).items()]
    return min(1.0, MAX_PAIR_BEND / max(*sizes, MAX_PAIR_BEND))
