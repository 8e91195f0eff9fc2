"""Tables whose rows repeat: the passengers of the Titanic, and random categories."""

from __future__ import annotations

import numpy as np
import pandas as pd

PASSENGERS = """
    1st  Male   Child    0   5
    2nd  Male   Child    0  11
    3rd  Male   Child   35  13
    1st  Female Child    0   1
    2nd  Female Child    0  13
    3rd  Female Child   17  14
    1st  Male   Adult  118  57
    2nd  Male   Adult  154  14
    3rd  Male   Adult  387  75
    Crew Male   Adult  670 192
    1st  Female Adult    4 140
    2nd  Female Adult   13  80
    3rd  Female Adult   89  76
    Crew Female Adult    3  20
"""  # class, sex, age, died, survived, as in the data set "Titanic" of R


def titanic():
    """The 2201 people on board, and whether they survived."""
    lines = [line.split() for line in PASSENGERS.strip().splitlines()]
    table = pd.DataFrame(lines, columns=["class", "sex", "age", "died", "survived"])
    parts = [table.assign(y=y).loc[np.repeat(table.index, table[y].astype(int))] for y in ("died", "survived")]
    people = pd.concat(parts, ignore_index=True)
    return people[["class", "sex", "age"]], people["y"].to_numpy()


def categories(seed, n=None, n_classes=None):
    """A random table of few categories, in which most rows have copies, and classes that depend on it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 400)) if n is None else n
    n_classes = int(rng.integers(2, 4)) if n_classes is None else n_classes
    d = int(rng.integers(1, 4))
    codes = np.stack([rng.integers(0, rng.integers(2, 5), n) for _ in range(d)])
    score = np.sum([rng.normal(size=5)[row] for row in codes], axis=0) + rng.normal(size=n)
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    y[:n_classes] = np.arange(n_classes)
    return pd.DataFrame({f"x{j}": np.array(list("abcde"))[row] for j, row in enumerate(codes)}), y
