"""Losses of a decision value against a label in {-1, +1} (the squared one: any number): value, gradient, curvature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tamis.arrays import Array, namespace


def slack(f: Array, y: Array) -> Array:
    """``max(0, 1 - y f)``: what is missing to a margin of one, which is the hinge loss."""
    short = 1.0 - y * f
    return namespace(short).where(short > 0, short, namespace(short).zeros_like(short))


class Loss(Protocol):
    """A loss, convex in the decision value f, and its first two derivatives in f."""

    def value(self, f: Array, y: Array) -> Array: ...

    def gradient(self, f: Array, y: Array) -> Array: ...

    def curvature(self, f: Array, y: Array) -> Array: ...


@dataclass(frozen=True)
class Squared:
    """``1/2 (f - y)^2``; for labels the same as ``1/2 (y f - 1)^2`` because ``y^2 = 1``."""

    def value(self, f: Array, y: Array) -> Array:
        return 0.5 * (f - y) ** 2

    def gradient(self, f: Array, y: Array) -> Array:
        return f - y

    def curvature(self, f: Array, y: Array) -> Array:
        return namespace(f).ones_like(f)


@dataclass(frozen=True)
class SquaredHinge:
    """``max(0, 1 - y f)^2``; the curvature jumps at the margin, where it is taken to be zero."""

    def value(self, f: Array, y: Array) -> Array:
        return slack(f, y) ** 2

    def gradient(self, f: Array, y: Array) -> Array:
        return -2.0 * y * slack(f, y)

    def curvature(self, f: Array, y: Array) -> Array:
        return namespace(f).where(y * f < 1.0, namespace(f).full_like(f, 2.0), namespace(f).zeros_like(f))


@dataclass(frozen=True)
class Logistic:
    """``log(1 + exp(-y f))``, computed without overflow for any `f`."""

    def value(self, f: Array, y: Array) -> Array:
        return np.logaddexp(0.0, -y * f)

    def gradient(self, f: Array, y: Array) -> Array:
        return -y * self._miss(f, y)

    def curvature(self, f: Array, y: Array) -> Array:
        miss = self._miss(f, y)
        return miss * (1.0 - miss)

    def _miss(self, f: Array, y: Array) -> Array:
        """1 / (1 + exp(y f)), the modulus of the gradient."""
        return 0.5 * (1.0 - namespace(f).tanh(0.5 * y * f))
