"""The zero of a slope along a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

P = TypeVar("P")

PATIENCE = 3  # points on one side of the zero before the interval is halved


def zero_of_slope(
    at: Callable[[float], tuple[P, float]], low: float, high: float, *, length: float, trials: int, flat: float
) -> list[P]:
    """The points that false position (Illinois) visits between the ends of a line.

    An end that has stayed for three points is far steeper than the other: then the next point is in the middle.

    Parameters
    ----------
    at : the point a step s from the start, and its slope
    low, high : slopes at 0 and at `length`; there is nothing to look for unless they are negative and positive
    trials : most points
    flat : share of the modulus of `low` at which a slope counts as zero, that at `length` included
    """
    left, right, moves = (0.0, low), (length, high), 0  # how often the same end moved: the left one counts down
    level = flat * abs(low)
    points: list[P] = []
    while len(points) < trials and left[1] < 0 < right[1] and (points or high > level):
        s = (left[0] * right[1] - right[0] * left[1]) / (right[1] - left[1])
        if abs(moves) >= PATIENCE:
            s = 0.5 * (left[0] + right[0])
        point, slope = at(s)
        points.append(point)
        if abs(slope) <= level:
            break
        if slope < 0:
            left, right, moves = (s, slope), (right[0], right[1] * (0.5 if moves < 0 else 1.0)), min(moves, 0) - 1
        else:
            left, right, moves = (left[0], left[1] * (0.5 if moves > 0 else 1.0)), (s, slope), max(moves, 0) + 1
    return points
