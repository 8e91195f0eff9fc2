"""The second look: a sample of the rows for what sums cannot give, calibration and logistic refits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tamis.table.keys import lowest
from tamis.table.rows import Rows, concatenate, merge_keyed

LOOK = 50_000  # most rows of the second look
RARE = 1000  # rows of a class that it takes at least, if there are so many


def second_rows(
    rows: Rows,
    keys: np.ndarray,
    random: np.ndarray,
    fold: np.ndarray,
    counts: np.ndarray | None = None,
    mass: np.ndarray | None = None,
) -> tuple[Rows, np.ndarray]:
    """A sample of the rows, equal ones of a fold merged, with their folds.

    Classes are drawn in proportion to their rows, but up to RARE rows of each are taken; the weights of a class still
    add up to what they are in all rows. Where `rows` are a sample, `counts` and `mass` (classes,) are the numbers and
    the weights of all rows.
    """
    q = len(rows.classes)
    counts = np.bincount(rows.codes, minlength=q) if counts is None else counts
    mass = np.bincount(rows.codes, weights=rows.weight, minlength=q) if mass is None else mass
    share = min(1.0, LOOK / counts.sum())
    factor, chosen = np.ones(q), []
    for c in range(q):
        members = np.flatnonzero(rows.codes == c)
        some = members[lowest(random[members], max(round(share * counts[c]), RARE))]
        factor[c] = mass[c] / max(rows.weight[some].sum(), np.finfo(float).tiny)
        chosen.append(some)
    some = np.concatenate(chosen)
    parts = [some[fold[some] == k] for k in np.unique(fold[some])]
    merged = [merge_keyed(rows.take(part), keys[part]) for part in parts]
    whole = concatenate(merged)
    scaled = replace(whole, weight=whole.weight * factor[whole.codes], mass=whole.mass * factor[whole.codes])
    return scaled, np.repeat(np.unique(fold[some]), [len(part) for part in merged])
