"""The zero of a slope along a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

P = TypeVar("P")


def zero_of_slope(
    at: Callable[[float], tuple[P, float]], low: float, high: float, *, length: float, trials: int, flat: float
) -> list[P]:
    """The points that false position (Illinois) visits between the ends of a line.

    Parameters
    ----------
    at : the point a step s from the start, and its slope
    low, high : slopes at 0 and at `length`; there is nothing to look for unless they are negative and positive
    trials : most points
    flat : share of the modulus of `low` at which a slope counts as zero, that at `length` included
    """
    left, right, last = (0.0, low), (length, high), 0
    level = flat * abs(low)
    points: list[P] = []
    while len(points) < trials and left[1] < 0 < right[1] and (points or high > level):
        s = (left[0] * right[1] - right[0] * left[1]) / (right[1] - left[1])
        point, slope = at(s)
        points.append(point)
        if abs(slope) <= level:
            break
        if slope < 0:
            left, right, last = (s, slope), (right[0], right[1] * (0.5 if last < 0 else 1.0)), -1
        else:
            left, right, last = (left[0], left[1] * (0.5 if last > 0 else 1.0)), (s, slope), 1
    return points
