"""Curves and columns as they are drawn: which way a curve goes, scales of axes, bins, and rows counted in them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

HISTOGRAM_BINS, QUANTILE_BINS = 30, 20
LEAST_QUANTILES = 0.75  # of the bins of a quantile axis that must have different ends
CENTRAL_QUANTILES = (0.025, 0.975)  # of the training values: where the direction of a feature is judged
ALWAYS_SHARE, MOSTLY_SHARE = 0.95, 0.75  # shares of the ups and downs of a curve that go one way
CENTRE, TAILS = (0.1, 0.9), (0.005, 0.995)  # quantiles between which a column is compared with its range
SKEWED_SHARES = (0.42, 0.25)  # of the range between the tails, and of all, for the centre of a skewed column
LEAST_LOG_RATIO = 5.0  # of the largest to the smallest value, from which a logarithmic axis is worth its name
LINEAR, LOG, QUANTILE = "linear", "log", "quantile"  # scales of an axis


def as_cell(value: Any) -> Any:
    """A value as JSON has it, None where it is missing."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if value is None or value != value else value


def direction_of(shape: np.ndarray) -> str:
    """Where a curve (g, outputs) goes, by the share of its ups in all ups and downs; outputs must agree."""
    step = np.diff(shape, axis=0)
    rise, fall = np.sum(np.maximum(step, 0), axis=0), np.sum(np.maximum(-step, 0), axis=0)
    moving = rise + fall > 0
    if not moving.any():
        return "flat"
    share = rise[moving] / (rise + fall)[moving]
    for word, up in (("rises", share), ("falls", 1.0 - share)):
        if np.all(up >= MOSTLY_SHARE):
            return word if np.all(up >= ALWAYS_SHARE) else f"mostly {word}"
    return "bends"


def central_part(grid: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Mask of the points of a grid within the central 95 per cent of some values; all without values."""
    known = values[~np.isnan(values)]
    if not len(known):
        return np.ones(len(grid), dtype=bool)
    low, high = np.quantile(known, CENTRAL_QUANTILES)
    return (grid >= low) & (grid <= high)


def choose_scale(values: np.ndarray) -> str:
    """The scale on which a column of numbers fills its axis: "linear", "log" or "quantile".

    A column with a long tail has a logarithmic axis where this spreads it evenly, else one that gives bins with many
    rows more room.
    """
    known = values[~np.isnan(values)]
    if len(np.unique(known)) <= HISTOGRAM_BINS or not _is_skewed(known):
        return LINEAR
    if known.min() > 0:
        if known.max() < LEAST_LOG_RATIO * known.min():
            return LINEAR
        if not _is_far_out(np.log(known)):
            return LOG
    return QUANTILE


def _is_skewed(values: np.ndarray) -> bool:
    """Whether some values have a long tail, or a few of them are far away."""
    low, high = np.quantile(values, CENTRE)
    first, last = np.quantile(values, TAILS)
    return bool(high - low < SKEWED_SHARES[0] * (last - first)) or _is_far_out(values)


def _is_far_out(values: np.ndarray) -> bool:
    """Whether the centre of some values has little of their range."""
    low, high = np.quantile(values, CENTRE)
    range_ = float(np.ptp(values))
    return bool(np.isfinite(range_) and high - low < SKEWED_SHARES[1] * range_)


def bin_edges(values: np.ndarray, scale: str = LINEAR) -> np.ndarray:
    """Edges of bins that are equally wide on an axis of this scale; one bin where the range cannot be cut.

    Few different numbers have a bin each on a linear axis. On a quantile axis the bins hold about as many rows; where
    many rows are equal, half of the edges are quantiles of the different values, so that the tail has room too.
    """
    if not len(values):
        return np.array([0.0, 1.0])
    if scale == LOG:
        return np.geomspace(values.min(), values.max(), HISTOGRAM_BINS + 1)
    if scale == QUANTILE:
        shares = np.linspace(0.0, 1.0, QUANTILE_BINS + 1)
        edges = np.unique(np.quantile(values, shares))
        if len(edges) >= LEAST_QUANTILES * QUANTILE_BINS:
            return edges
        return np.unique(np.r_[edges, np.quantile(np.unique(values), shares)])
    try:
        return np.histogram_bin_edges(values, bins=HISTOGRAM_BINS)
    except ValueError:
        return np.array([values.min(), np.nextafter(values.max(), np.inf)])


def value_edges(values: np.ndarray) -> np.ndarray | None:
    """Edges half-way between few different numbers, and as far beyond the ends; None where there are many."""
    distinct = np.unique(values)
    if not 1 < len(distinct) <= HISTOGRAM_BINS:
        return None
    middle = (distinct[1:] + distinct[:-1]) / 2
    edges = np.r_[2 * distinct[0] - middle[0], middle, 2 * distinct[-1] - middle[-1]]
    return edges if np.isfinite(edges).all() and np.all(np.diff(edges) > 0) else None


def count_rows(
    values: np.ndarray, y: np.ndarray, classes: np.ndarray, levels: np.ndarray | None, edges: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Bins (or levels), training rows of each class in them, and rows without a value."""
    if levels is not None:
        cells = [as_cell(v) for v in values.tolist()]
        seen = Counter(zip(cells, y.tolist(), strict=True))
        counts = [[seen[level, label] for level in levels.tolist()] for label in classes.tolist()]
        return levels, np.array(counts, dtype=int).reshape(len(classes), len(levels)), cells.count(None)
    numbers = np.asarray(values, dtype=float)
    there = ~np.isnan(numbers)
    edges = bin_edges(numbers[there]) if edges is None else edges
    binned = [np.histogram(numbers[there & (y == label)], bins=edges)[0] for label in classes]
    return edges, np.array(binned), int((~there).sum())
