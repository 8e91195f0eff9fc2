"""Learning from a part of the rows, for methods that hold matrices between all rows that they learn from."""

from __future__ import annotations

import numpy as np

from tamis.base.model import Model, decide
from tamis.table.rows import Rows, some_of_each_class, spread

MAX_OTHER_ROWS = 20_000  # that are predicted to measure the error
MIN_CLASS_ROWS = 2


def draw_pool(rows: Rows, size: int | None, seed: int) -> tuple[Rows, Rows | None]:
    """About `size` rows, of every class in proportion, whatever their order; and some of the others."""
    if size is None:
        return rows, None
    rows = rows.take(np.flatnonzero(rows.mass > 0))
    if len(rows) <= size:
        return rows, None
    drawn = some_of_each_class(rows, size, MIN_CLASS_ROWS, seed)
    others = np.setdiff1d(np.arange(len(rows)), drawn)
    return rows.take(drawn), rows.take(others[spread(len(others), MAX_OTHER_ROWS)])


def pool_error(model: Model, others: Rows) -> float:
    """Share of rows, by weight, that a model predicts wrong."""
    wrong = decide(model.decision(others.table)) != others.codes
    return float(np.average(wrong, weights=others.mass))
