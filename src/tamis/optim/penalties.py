"""Concave stand-ins for the count of non-zero entries, each split into a line minus a convex function.

For t >= 0 every penalty is ``value(t) = slope * t - phi(t)`` with phi convex, ``phi(0) = 0`` and ``phi'(0) = 0``. A DC
step replaces phi by its tangent at the current point, which leaves an l1 norm with the weights
``slope - phi'(t) >= 0`` [XueSong2020].

| there            | here               |
| ---------------- | ------------------ |
| delta_theta(t)   | value(t)           |
| varphi'(t)       | slope              |
| phi'(t)          | slope - weights(t) |
| a of SCAD        | a                  |

`Exact` is the exact penalty of feature selection with a binary u that pays for ``|w| <= B u``. With u relaxed to
[0, 1] and the penalty ``t u (1 - u)`` on fractions its cost is ``(1 + t) u - t u^2``, and the tangent of ``-t u^2`` at
v makes that ``(1 + t - 2 t v) u`` plus a constant. While the factor is positive the best u for w is ``|w| / B``, so w
pays ``(1 + t - 2 t v) |w| / B``; where it is not, u = 1 and w is free. With ``theta = 1 / B`` and ``v = theta |w|``
these are the weights of the penalty ``(1 + t) v - t v^2``, constant beyond its highest point
``v = (1 + t) / (2 t)``. Two departures: the box ``|w| <= B`` is dropped, so that theta sets a scale and no limit; and
a free entry pays again once it has shrunk below the highest point, whereas its u would stay one for ever.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from tamis.arrays import Array, namespace
from tamis.codec import stored
from tamis.errors import check_choice, check_number

THETAS = (1e-12, 1e12)  # tightness of penalties


@dataclass(frozen=True)
class Penalty(ABC):
    """A penalty of entries t >= 0: zero at zero, concave and non-decreasing; the larger `theta` > 0, the tighter."""

    theta: float
    concave: ClassVar[bool] = True  # whether phi is not zero

    def __post_init__(self) -> None:
        if not (math.isfinite(self.theta) and self.theta > 0):
            raise ValueError(f"theta={self.theta}: the tightness of a penalty must be a finite number above 0")

    @property
    @abstractmethod
    def slope(self) -> float:
        """The slope of the line in the split, which is the slope of the penalty at zero."""

    @abstractmethod
    def value(self, t: Array) -> Array:
        """The penalty of each entry."""

    @abstractmethod
    def weights(self, t: Array) -> Array:
        """The slope at each entry, ``slope - phi'(t) >= 0``; at a kink, the one from the left."""


@stored
class L1(Penalty):
    """``theta t``: no concave part, so that a DC step is the whole problem."""

    concave = False

    @property
    def slope(self) -> float:
        return self.theta

    def value(self, t: Array) -> Array:
        return self.theta * t

    def weights(self, t: Array) -> Array:
        return namespace(t).full_like(t, self.theta)


@stored
class Exp(Penalty):
    """``1 - exp(-theta t)``."""

    @property
    def slope(self) -> float:
        return self.theta

    def value(self, t: Array) -> Array:
        return -namespace(t).expm1(-self.theta * t)

    def weights(self, t: Array) -> Array:
        return self.theta * namespace(t).exp(-self.theta * t)


@stored
class Log(Penalty):
    """``log(1 + theta t) / log(1 + theta)``, the only one here without an upper bound besides L1."""

    @property
    def slope(self) -> float:
        return self.theta / math.log1p(self.theta)

    def value(self, t: Array) -> Array:
        return namespace(t).log1p(self.theta * t) / math.log1p(self.theta)

    def weights(self, t: Array) -> Array:
        return self.slope / (1.0 + self.theta * t)


@stored
class CappedL1(Penalty):
    """``min(1, theta t)``: the l1 norm, with nothing more to pay beyond ``1 / theta``."""

    @property
    def slope(self) -> float:
        return self.theta

    def value(self, t: Array) -> Array:
        scaled = self.theta * t
        return namespace(t).where(scaled <= 1.0, scaled, namespace(t).ones_like(scaled))

    def weights(self, t: Array) -> Array:
        full = namespace(t).full_like(t, self.theta)
        return namespace(t).where(self.theta * t <= 1.0, full, namespace(t).zeros_like(full))


@stored
@dataclass(frozen=True)
class SCAD(Penalty):
    """A line up to ``1 / theta``, a parabola up to ``a / theta``, and 1 beyond; ``a > 1``."""

    a: float = 3.7

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.a) and self.a > 1):
            raise ValueError(f"a={self.a}: SCAD needs a finite number above 1; 3.7 is usual")

    @property
    def slope(self) -> float:
        return 2.0 * self.theta / (self.a + 1.0)

    def value(self, t: Array) -> Array:
        xp, v = namespace(t), self.theta * t
        bend = (2.0 * self.a * v - v * v - 1.0) / (self.a**2 - 1.0)
        return xp.where(v <= 1.0, 2.0 * v / (self.a + 1.0), xp.where(v <= self.a, bend, xp.ones_like(v)))

    def weights(self, t: Array) -> Array:
        xp, v = namespace(t), self.theta * t
        bend = self.slope * (self.a - v) / (self.a - 1.0)
        return xp.where(v <= 1.0, xp.full_like(v, self.slope), xp.where(v <= self.a, bend, xp.zeros_like(v)))


@stored
@dataclass(frozen=True)
class Exact(Penalty):
    """``(1 + t) v - t v^2`` for ``v = theta * entry``, constant beyond its highest point: see the top of this file.

    The parameter ``t >= 1`` is the price of fractions; the highest value is ``(1 + t)^2 / (4 t)``, one for ``t = 1``.
    """

    t: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.t) and self.t >= 1):
            raise ValueError(f"t={self.t}: the price of fractions must be a finite number of 1 or more")

    @property
    def slope(self) -> float:
        return (1.0 + self.t) * self.theta

    def value(self, t: Array) -> Array:
        top = (1.0 + self.t) / (2.0 * self.t)
        v = self.theta * t
        v = namespace(t).where(v <= top, v, namespace(t).full_like(v, top))
        return (1.0 + self.t) * v - self.t * v * v

    def weights(self, t: Array) -> Array:
        left = self.theta * (1.0 + self.t - 2.0 * self.t * self.theta * t)
        return namespace(t).where(left > 0, left, namespace(t).zeros_like(left))


PENALTIES: dict[str, Callable[[float], Penalty]] = {
    "exp": Exp,
    "log": Log,
    "capped_l1": CappedL1,
    "scad": SCAD,
    "l1": L1,
    "exact": Exact,
}


def check_penalty(penalty: Any, theta: float, choices: tuple[str, ...]) -> Penalty:
    """The penalty that the parameters name."""
    if isinstance(penalty, Penalty):
        return penalty
    check_choice("penalty", penalty, choices)
    check_number("theta", theta, 0.0, strict=True)
    if not THETAS[0] <= theta <= THETAS[1]:
        raise ValueError(f"theta={theta!r} is out of range: use a number between {THETAS[0]:g} and {THETAS[1]:g}")
    return PENALTIES[penalty](float(theta))
