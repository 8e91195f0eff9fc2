"""Alignment kernels of time series in models: what a fitted model keeps, and recipes.

The kernels themselves are in `global_alignment`, the form of series in `series`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn
from zipfile import BadZipFile

import numpy as np

from tamis.codec import digest, replacing, stored
from tamis.errors import warn
from tamis.kernels.global_alignment import (
    Present,
    Widths,
    align,
    alignment_bandwidths,
    check_series,
    checked_bandwidths,
    lengths_of,
    present_series,
    processes,
    trimmed,
    values_between,
)
from tamis.kernels.precomputed import HoldsArrays, precomputed
from tamis.kernels.recipes import Bandwidth, Recipe, Sample

VERSION = 1  # of cached values; to be raised where they change
DAMAGE = (OSError, EOFError, ValueError, TypeError, KeyError, RuntimeError, BadZipFile)  # of reading a file


@stored
@dataclass(frozen=True, eq=False, repr=False)
class Aligned(HoldsArrays):
    """What a model keeps of series: kept cases, to be aligned with new ones."""

    names: tuple[str, ...]  # of the channels
    bandwidths: np.ndarray  # (channels,)
    series: np.ndarray  # (k, channels, steps)

    def __repr__(self) -> str:
        return f"Aligned({len(self.series)} cases, {len(self.names)} channels)"

    @cached_property
    def _kept(self) -> list[Present]:
        return present_series(self.series, self.bandwidths, processes(None, self.series, self.series[:1]))

    def values(self, series: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """Values (channels, n, k) between new series (n, channels, steps), of any length, and the kept ones."""
        series = check_series(series)
        if series.shape[1] != len(self.names):
            raise ValueError(f"X has {series.shape[1]} channels, but the model was fitted with {len(self.names)}")
        jobs = processes(n_jobs, series, self.series)
        new = present_series(series, self.bandwidths, jobs)
        return values_between(new, self._kept, (len(series), len(self.series)), jobs)

    def take(self, channels: Sequence[int] | np.ndarray, cases: Sequence[int] | np.ndarray) -> Aligned:
        """The same for some channels and some kept cases, given by position."""
        kept, rows = np.asarray(channels, dtype=int), np.asarray(cases, dtype=int)
        names = tuple(self.names[c] for c in kept)
        return Aligned(names, self.bandwidths[kept], trimmed(self.series[rows][:, kept]))


@stored
@dataclass(frozen=True)
class AlignmentKernels(Recipe):
    """One alignment kernel for each channel of series; made by `alignment`."""

    bandwidth: float | tuple[float, ...] | None = None
    names: tuple[str, ...] | None = None
    cache: str | None = None

    def to_stored(self) -> dict[str, Any]:
        """All but the folder, which belongs to one computer."""
        return {"bandwidth": self.bandwidth, "names": self.names}

    @classmethod
    def from_stored(cls, parts: dict[str, Any]) -> AlignmentKernels:
        return cls(parts["bandwidth"], parts["names"])

    def bank(self, sample: Sample, bandwidth: Bandwidth) -> NoReturn:
        raise ValueError(
            "kernels=alignment() takes series: X must be a 3-D array (sample, channel, step) or a list of 2-D arrays "
            f"(channel, step), and this X is a table of {sample.Z.shape[1]} columns"
        )

    def stack(self, series: np.ndarray, n_jobs: int | None = None) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
        """Names and bandwidths of the channels, and values (channels, n, n) between the series."""
        series = trimmed(check_series(series))
        channels = series.shape[1]
        if self.names is not None and len(self.names) != channels:
            raise ValueError(f"names has {len(self.names)} entries, but X has {channels} channels: give one for each")
        learned = alignment_bandwidths(series) if self.bandwidth is None else self.bandwidth
        widths = checked_bandwidths(learned, channels)
        names = self.names or tuple(f"channel {c}" for c in range(channels))
        if self.cache is None:
            return names, widths, align(series, bandwidths=widths, n_jobs=n_jobs)
        return names, widths, _cached(Path(self.cache), series, widths, n_jobs)


def _cached(folder: Path, series: np.ndarray, widths: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """Values of a file in the folder, if one is there and whole; otherwise they are computed and written there."""
    content = digest([VERSION, lengths_of(series), np.nan_to_num(series), widths])
    path = folder / f"alignment-{content[:40]}.npz"
    n, channels, _ = series.shape
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            values = file["values"]
        if values.shape == (channels, n, n) and values.dtype == np.float64:
            return values
    except DAMAGE:
        pass  # not there, or damaged
    values = align(series, bandwidths=widths, n_jobs=n_jobs)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, values=values)
    except OSError as error:
        warn(f"kernel values could not be kept in {str(folder)!r}: {error}")
    return values


def alignment(
    bandwidth: Widths | None = None, names: Sequence[str] | None = None, cache: str | os.PathLike | None = None
) -> AlignmentKernels:
    """Global alignment kernels, one for each channel of series X (sample, channel, step).

    Parameters
    ----------
    bandwidth : None for each channel's own (`alignment_bandwidths`), a positive number, or one for each channel
    names : distinct names of the channels; "channel 0", "channel 1" ... by default
    cache : folder in which kernel values are kept, to be found again for the same series and bandwidths
    """
    widths = None
    if bandwidth is not None:
        checked = checked_bandwidths(bandwidth).tolist()
        widths = tuple(checked) if np.ndim(bandwidth) else checked[0]
    listed = None if names is None else (names,) if isinstance(names, str) else tuple(str(name) for name in names)
    twice = [name for k, name in enumerate(listed or ()) if name in (listed or ())[:k]]
    if twice:
        raise ValueError(f"names: two channels are named {twice[0]!r}; explanations need distinct names")
    return AlignmentKernels(widths, listed, None if cache is None else os.fspath(cache))


def alignment_kernels(
    X: Any,
    *,
    bandwidth: Widths | None = None,
    names: Sequence[str] | None = None,
    cache: str | os.PathLike | None = None,
    n_jobs: int | None = None,
) -> Recipe:
    """Alignment kernels of series X as precomputed ones: X of a classifier is then ``np.arange(len(X))[:, None]``.

    Parameters
    ----------
    X : (n, channels, steps), or a list of arrays (channels, steps), as `check_series` takes them
    bandwidth, names, cache : see `alignment`
    n_jobs : most processes; None for all cores
    """
    series = check_series(X)
    labels, _, values = alignment(bandwidth, names, cache).stack(series, n_jobs)
    return precomputed(values, labels, lengths_of(series) > 0)
