"""Global alignment kernels: one normalised kernel per channel of multivariate time series.

    k(x, z) = sum over alignments of prod over aligned steps (s, t) of kappa(x_s, z_t)        [Cuturi2007]
    kappa = g / (2 - g),   g = exp(-(x_s - z_t)^2 / (2 bandwidth^2))                          [Cuturi2011]

and the values are k(x, z) / sqrt(k(x, x) k(z, z)). An alignment starts at the first steps of both series, ends at the
last ones and goes on by one step in x, in z or in both. As kappa / (1 + kappa) = g / 2 is positive definite, so is k.

    symbol of the papers    here
    --------------------    --------------------------------------------
    sigma                   bandwidth
    n, m                    lengths, the numbers of steps of two series
    M_{s,t}                 k of the first s steps of x and the first t of z

1. M grows like 5.8^steps where series are alike and falls below any number where they are not. Each M is divided by the
   roots of M of x with itself at s and of z with itself at t. What is left is the normalised kernel of the two
   beginnings, at most one, and the last is the result: nothing overflows, and what underflows on the way is lost to the
   result by no more than three times itself. The values of beginnings with themselves come from the same recursion in
   logs, once for each series.
2. The default bandwidth is the rule of [Cuturi2011], the median distance of two observations times the root of the
   median length. Distances are those of distinct observations that are there; padding does not count, and where the
   median is zero, equal observations do not count either.
3. A channel that is constant has kappa = 1: its kernel compares lengths alone, and is one where these are equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from tamis.parallel import available_cores
from tamis.progress import tracked

MAX_POINTS = 500  # most observations of a channel whose distances are computed
LEAST, MOST = 1e-100, 1e100  # bandwidths
MAX_BLOCK_STEPS = 1 << 14  # steps of all pairs that go through the recursion together: they fit a core's cache
MIN_TASK_BLOCKS = 8  # least blocks between two reports of progress
MIN_TASK_PAIRS = 4  # least pairs of a task for each series that its process must be sent
MIN_PARALLEL_STEPS = 100_000_000  # steps times steps of all pairs: a second, as long as processes take to start
LOG_ZERO = -1e300  # log of a sum of no alignments; differences of it are finite

R = TypeVar("R")
Widths = float | Sequence[float] | np.ndarray


def alignment_bandwidths(series: np.ndarray) -> np.ndarray:
    """Median distance of two observations times the root of the median length, for each channel (channels,).

    Parameters
    ----------
    series : (n, channels, steps) as `check_series` gives them

    Notes
    -----
    Of more than 500 observations 500 quantiles stand for all, whatever the order of the samples. One where a channel is
    constant or absent everywhere, and any bandwidth gives the same kernel.
    """
    return np.array([_bandwidth(series[:, c]) for c in range(series.shape[1])])


def _bandwidth(channel: np.ndarray) -> float:
    points = channel[~np.isnan(channel)]
    if len(points) > MAX_POINTS:
        places = (np.arange(MAX_POINTS) + 0.5) / MAX_POINTS * len(points)
        points = np.sort(points)[places.astype(int)]
    with np.errstate(over="ignore"):
        distances = np.abs(points[:, None] - points)[np.triu_indices(len(points), 1)]
    apart = distances[distances > 0]
    if not len(apart):
        return 1.0
    lengths = lengths_of(channel)
    typical = np.median(distances) or np.median(apart)
    return float(typical * np.sqrt(np.median(lengths[lengths > 0])))


def checked_bandwidths(bandwidth: Any, channels: int | None = None) -> np.ndarray:
    """One bandwidth (1,) or one per channel; exactly one per channel if their number is given."""
    alone = np.ndim(bandwidth) == 0
    entries = [bandwidth] if alone else list(bandwidth)
    for entry in entries or [bandwidth]:
        if not isinstance(entry, Real) or isinstance(entry, bool) or not LEAST < entry < MOST:  # type: ignore[operator]
            raise ValueError(
                f"bandwidth={entry!r} must be a positive number of moderate size, or one for each channel, in units of "
                "the channel: rescale a channel that needs another"
            )
    widths = np.array(entries, dtype=float)
    if channels is None or len(widths) == channels:
        return widths
    if alone:
        return np.full(channels, widths[0])
    raise ValueError(f"bandwidth has {len(widths)} entries, but X has {channels} channels: give one for each")


# ---------------------------------------------------------------------- values


@dataclass(frozen=True)
class Present:
    """The series of one channel that are there, shortest first."""

    rows: np.ndarray  # (k,) their samples
    lengths: np.ndarray  # (k,)
    steps: np.ndarray  # (T, k) observations over sqrt(2) bandwidth, and zeros after the end
    ratios: np.ndarray  # (T, k) ``sqrt(M_{s-1,s-1} / M_{s,s})`` of each series with itself

    @classmethod
    def prepare(cls, series: np.ndarray, bandwidth: float) -> Present:
        """Take the series of one channel (n, steps) that are there."""
        lengths = lengths_of(series)
        rows = np.argsort(lengths, kind="stable")
        rows = rows[lengths[rows] > 0]
        lengths = lengths[rows]
        with np.errstate(over="ignore"):
            steps = np.nan_to_num(series[rows, : lengths.max(initial=1)].T / (np.sqrt(2.0) * bandwidth), posinf=np.inf)
        if not np.isfinite(steps).all():
            raise ValueError(f"bandwidth={bandwidth!r} is too small for the values of X: rescale the channel")
        size = max(1, MAX_BLOCK_STEPS // len(steps))
        logs = [_self_logs(np.ascontiguousarray(steps[:, a : a + size])) for a in range(0, len(rows), size)]
        ratios = np.exp(-0.5 * np.diff(np.concatenate(logs or [steps], axis=1), axis=0, prepend=0.0))
        return cls(rows, lengths, np.ascontiguousarray(steps), ratios)


def _self_logs(x: np.ndarray) -> np.ndarray:
    """Logs of M_{s,s} for each series of (T, k) with itself, (T, k).

    Goes along the anti-diagonals of M, below the diagonal only; entry s + 1 of a buffer is that of step s of the
    first series, and entry 0 stands before its start.
    """
    T, k = x.shape
    back, logs = np.ascontiguousarray(x[::-1]), np.empty((T, k))
    older, old, new = (np.full((T + 1, k), LOG_ZERO) for _ in range(3))
    older[0] = 0.0
    for d in range(2 * T - 1):
        low, high, shift = (d + 1) // 2, min(d, T - 1) + 1, T - 1 - d
        with np.errstate(over="ignore"):
            cost = np.minimum((x[low:high] - back[low + shift : high + shift]) ** 2, -LOG_ZERO / T)
        cost += np.log(2.0 - np.exp(-cost))  # - log kappa
        before = old[low:high], old[low + 1 : high + 1], older[low:high]
        top = np.maximum(np.maximum(before[0], before[1]), before[2])
        new[low + 1 : high + 1] = top + np.log(sum(np.exp(log - top) for log in before)) - cost
        older[0] = LOG_ZERO
        if d % 2:
            new[low] = new[low + 1]  # by symmetry
        else:
            logs[d // 2] = new[d // 2 + 1]
        older, old, new = old, new, older
    return logs


def _cross(left: Present, p: np.ndarray, right: Present, q: np.ndarray) -> np.ndarray:
    """Normalised values (pairs,) between the series p of one side and q of the other, in one block.

    With N the normalised M, and r and c the ratios of the two sides,

        N_{s,t} = kappa_{s,t} (r_s (N_{s-1,t} + c_t N_{s-1,t-1}) + c_t N_{s,t-1}),    kappa = 1 / (2 exp(d^2) - 1)

    along the anti-diagonals of N, in buffers like those of `_self_logs`.
    """
    n, m = left.lengths[p], right.lengths[q]
    S, T = int(n.max()), int(m.max())
    x, r = np.take(left.steps[:S], p, axis=1), 0.5 * np.take(left.ratios[:S], p, axis=1)
    z, c = np.take(right.steps[T - 1 :: -1], q, axis=1), np.take(right.ratios[T - 1 :: -1], q, axis=1)
    half = 0.5 * c
    values, costs, sides = np.empty(len(p)), np.empty_like(x), np.empty_like(x)
    older, old, new = (np.zeros((S + 1, len(p))) for _ in range(3))
    older[0] = 1.0
    ends = {d: np.flatnonzero(n + m - 2 == d) for d in np.unique(n + m - 2).tolist()}
    with np.errstate(over="ignore"):  # of exp: there kappa is zero
        for d in range(S + T - 1):
            low, high = max(0, d - T + 1), min(d, S - 1) + 1
            t = slice(low + T - 1 - d, high + T - 1 - d)
            cost, side, now = costs[: high - low], sides[: high - low], new[low + 1 : high + 1]
            np.subtract(x[low:high], z[t], out=cost)
            np.multiply(cost, cost, out=cost)
            np.exp(cost, out=cost)
            cost -= 0.5
            np.multiply(c[t], older[low:high], out=now)
            now += old[low:high]
            now *= r[low:high]
            now += np.multiply(half[t], old[low + 1 : high + 1], out=side)
            now /= cost
            older[0] = 0.0
            if d in ends:
                values[ends[d]] = new[n[ends[d]], ends[d]]
            older, old, new = old, new, older
    return np.minimum(values, 1.0)


def align(
    series: np.ndarray, others: np.ndarray | None = None, *, bandwidths: Widths, n_jobs: int | None = None
) -> np.ndarray:
    """Normalised global alignment kernels (channels, n, m) between series and others, or the series themselves.

    Parameters
    ----------
    series, others : (n, channels, steps) and (m, channels, steps of the others)
    bandwidths : (channels,), or one number for all
    n_jobs : most processes; None or -1 for all cores. The values do not depend on it.

    Notes
    -----
    An absent channel gives zeros, with itself as well. With the series themselves the values are exactly symmetric,
    with exact ones on the diagonal.
    """
    series = check_series(series)
    widths = checked_bandwidths(bandwidths, series.shape[1])
    if others is None:
        jobs = processes(n_jobs, series, series)
        left = right = present_series(series, widths, jobs)
        return values_between(left, right, (len(series), len(series)), jobs)
    others = check_series(others)
    if others.shape[1] != series.shape[1]:
        raise ValueError(f"others has {others.shape[1]} channels, but series has {series.shape[1]}: they must agree")
    jobs = processes(n_jobs, series, others)
    left, right = present_series(series, widths, jobs), present_series(others, widths, jobs)
    return values_between(left, right, (len(series), len(others)), jobs)


def present_series(series: np.ndarray, widths: np.ndarray, jobs: int) -> list[Present]:
    """The series of each channel, ready for `values_between`."""
    return list(_run(Present.prepare, ((series[:, c], float(width)) for c, width in enumerate(widths)), jobs))


def values_between(left: list[Present], right: list[Present], shape: tuple[int, int], jobs: int) -> np.ndarray:
    """Normalised values (channels, n, m), each pair once if both sides are the same object.

    The blocks of pairs are the same for any number of processes.
    """
    values, square = np.zeros((len(left), *shape)), left is right
    tasks: list[tuple[int, int, int]] = []
    for k, (a, b) in enumerate(zip(left, right, strict=True)):
        pairs = len(a.rows) * (len(a.rows) - 1) // 2 if square else len(a.rows) * len(b.rows)
        size = max(1, MAX_BLOCK_STEPS // max(len(a.steps), len(b.steps)))
        size *= max(MIN_TASK_BLOCKS, MIN_TASK_PAIRS * len(b.rows) // size)  # whole blocks
        tasks += [(k, at, min(at + size, pairs)) for at in range(0, pairs, size)]
        if square:
            values[k, a.rows, a.rows] = 1.0
    calls = ((left[k], right[k], *_pairs(left[k], right[k], *span)) for k, *span in tasks)
    with closing(_run(_values, calls, jobs if len(tasks) > 1 else 1)) as results:
        for (k, *span), found in zip(tasks, tracked(results, "alignment kernels", len(tasks)), strict=True):
            p, q = _pairs(left[k], right[k], *span)
            values[k, left[k].rows[p], right[k].rows[q]] = found
            if square:
                values[k, right[k].rows[q], left[k].rows[p]] = found
    return values


def _values(left: Present, right: Present, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Normalised values (pairs,) between the series p of one side and q of the other, block by block."""
    size = max(1, MAX_BLOCK_STEPS // max(len(left.steps), len(right.steps)))
    return np.concatenate([_cross(left, p[a : a + size], right, q[a : a + size]) for a in range(0, len(p), size)])


def _pairs(left: Present, right: Present, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Series of both sides by the numbers of their pairs; of one side with itself, above the diagonal only."""
    numbers = np.arange(first, last)
    if left is not right:
        p, q = np.divmod(numbers, len(right.rows))
        return p, q
    starts = np.concatenate([[0], np.cumsum(np.arange(len(left.rows) - 1, 0, -1))])
    p = np.searchsorted(starts, numbers, side="right") - 1
    return p, numbers - starts[p] + p + 1


# ---------------------------------------------------------------------- processes


def processes(n_jobs: int | None, series: np.ndarray, others: np.ndarray) -> int:
    """Number of processes for the values between series: one if they are quick, or within another's processes."""
    if n_jobs is not None and (not isinstance(n_jobs, int | np.integer) or (n_jobs < 1 and n_jobs != -1)):
        raise ValueError(f"n_jobs={n_jobs!r} must be a number of processes, or None for all cores")
    jobs = available_cores() if n_jobs is None or n_jobs == -1 else int(n_jobs)
    if jobs == 1 or series.size * len(others) * others.shape[2] < MIN_PARALLEL_STEPS:
        return 1
    from joblib.parallel import get_active_backend

    return 1 if get_active_backend()[0].nesting_level else jobs


def _run(function: Callable[..., R], calls: Iterable[tuple], jobs: int) -> Generator[R]:
    """Results of the calls, in their order.

    In processes: a step of the recursion is a few microseconds of numpy, too short for threads to take turns.
    """
    if jobs == 1:
        yield from (function(*call) for call in calls)
        return
    from joblib import Parallel, delayed

    results = Parallel(n_jobs=jobs, return_as="generator")(delayed(function)(*call) for call in calls)
    try:
        for result in results:  # noqa: UP028
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # whoever interrupts knows that work is lost
            results.close()


# ---------------------------------------------------------------------- the form of series


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
