"""Tables of results as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def table(header: Sequence[Any], lines: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)


def spread(values: Sequence[float] | np.ndarray, ddof: int = 1) -> str:
    """Return the mean and standard deviation of values; "-" without values."""
    if not len(values):
        return "-"
    mean = f"{np.mean(values):.1f}"
    return mean if len(values) <= ddof else f"{mean} ± {np.std(values, ddof=ddof):.1f}"
