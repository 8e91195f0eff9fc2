"""Multivariate time series as one array (n, channels, steps), with NaN after the end of a series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def is_series(X: Any) -> bool:
    """Whether X is meant as series, a 3-D array or a list of 2-D arrays, and not as a table."""
    listed = _listed(X)
    return getattr(X, "ndim", 0) == 3 if listed is None else len(listed) > 0 and _depth(listed[0]) == 2


def _listed(X: Any) -> Sequence | None:
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        return X.tolist()
    return X if isinstance(X, list | tuple) else None


def _depth(entry: Any) -> int:
    if isinstance(entry, list | tuple):
        return 1 + (_depth(entry[0]) if entry else 0)
    return getattr(entry, "ndim", 0)


def check_series(X: Any) -> np.ndarray:
    """Series (n, channels, steps) as numbers, with NaN after the end of a series.

    Parameters
    ----------
    X : array (n, channels, steps), or a list of n arrays (channels, steps of the sample). NaN at the end of a
        channel is no part of its series, and a channel of NaN alone is absent from that sample.
    """
    listed = _listed(X)
    series = _numbers(X, "X") if listed is None else _padded(listed)
    if series.ndim != 3:
        raise ValueError(
            f"X has the shape {series.shape}: series are a 3-D array (sample, channel, step), or a list of 2-D arrays "
            "(channel, step) if lengths differ"
        )
    if not series.size:
        raise ValueError(f"X is empty, its shape is {series.shape}: give at least one sample, channel and step")
    gaps = np.isnan(series)
    for wrong, words in (
        (np.isinf(series), "is infinite at step {}: give a number, or NaN where the series has ended"),
        (gaps[..., :-1] & ~gaps[..., 1:], "has NaN at step {} and a number after it: fill the gap or cut the series"),
    ):
        if wrong.any():
            sample, channel, step = np.argwhere(wrong)[0].tolist()
            raise ValueError(f"X: sample {sample}, channel {channel} " + words.format(step))
    return series


def _numbers(values: Any, what: str) -> np.ndarray:
    try:
        masked = isinstance(values, np.ma.MaskedArray)
        given = np.ma.filled(values.astype(float), np.nan) if masked else np.asarray(values)
        if given.dtype.kind not in "biufO":
            raise TypeError(given.dtype)
        return given.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise ValueError(f"{what} is not an array of real numbers: series need a number at every step") from None


def _padded(samples: Sequence) -> np.ndarray:
    """Samples of different lengths in one array."""
    blocks = [_numbers(sample, f"X: sample {i}") for i, sample in enumerate(samples)]
    for i, block in enumerate(blocks):
        if block.ndim != 2 or not block.size:
            raise ValueError(f"X: sample {i} has the shape {block.shape}: give a 2-D array (channel, step), not empty")
        if len(block) != len(blocks[0]):
            raise ValueError(
                f"X: sample {i} has {len(block)} channels, but sample 0 has {len(blocks[0])}: give every sample the "
                "same channels, with NaN for one that is absent"
            )
    if not blocks:
        return np.empty((0, 0, 0))
    series = np.full((len(blocks), len(blocks[0]), max(block.shape[1] for block in blocks)), np.nan)
    for row, block in zip(series, blocks, strict=True):
        row[:, : block.shape[1]] = block
    return series


def trimmed(series: np.ndarray) -> np.ndarray:
    """Series without the steps after the end of all of them."""
    return series[..., : max(1, int(lengths_of(series).max(initial=0)))]


def lengths_of(series: np.ndarray) -> np.ndarray:
    """Steps of each series (..., steps); zero where the channel is absent."""
    return np.count_nonzero(~np.isnan(series), axis=-1)
