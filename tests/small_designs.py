"""Small designs, bags and targets for the tests of the parts of a flagship fit."""

from __future__ import annotations

import numpy as np

from tamis.flagship.design import Bags, Design, raw_encoder
from tamis.table.table import checked_input, read_table


def design_of(X, weight=None):
    """Cells of a table, where NaN is missing."""
    weight = np.ones(len(X)) if weight is None else weight
    table = read_table(*checked_input(X), None, True)
    return Design.of(raw_encoder(table, weight, "absent"), table, weight)


def bags_of(targets, n_bags=3, weight=None):
    """Every third row (for three bags) is left out of one bag."""
    n = len(targets)
    weight = np.ones(n) if weight is None else weight
    out = (np.arange(n)[:, None] % n_bags == np.arange(n_bags)) * weight[:, None]
    return Bags(weight[:, None] - out, out, np.asarray(targets, dtype=float).reshape(n, -1), n_bags)
