"""What the ADMM baselines share: the split iteration, and the certificate of a soft margin.

    min over x and z of g(x) + h(z)    subject to  x = z

    x <- argmin g(x) + 1/2 sum_i r_i (x_i - z_i + u_i)^2
    z <- argmin h(z) + 1/2 sum_i r_i (s_i - z_i + u_i)^2,    s = 1.6 x + (1 - 1.6) z
    u <- u + s - z

is the textbook iteration with over-relaxation [Boyd2011, Sec. 3]. Every problem here has a piecewise linear h: the
hinge of margins, the box of dual coefficients, the absolute value. With one penalty for all coordinates the number
of steps to a given accuracy varies a hundredfold with the cost of errors, so the penalties follow what is seen:

1. Their size r is the norm of the multipliers r u over that of z, the ratio of the units of the two.
2. A coordinate at a corner of h, where z stays and the multiplier moves, gets 10 r; one between corners, where the
   multiplier stays and z moves, gets r / 10.

They are updated after 10 steps, and again whenever a fifth more steps were made, so that there are few
factorisations and, with fixed penalties for ever longer, the convergence of the textbook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor

from tamis.optim.losses import slack
from tamis.optim.svm import relative_gap

ZHANG2022 = (
    "Zhang, Zhiwang; He, Jing; Cao, Jie; Li, Shuqing; Li, Xingsen; Zhang, Kai; Wang, Pingjiang; Shi, Yong (2022). "
    "An explainable multi-sparsity multi-kernel nonconvex optimization least-squares classifier method via ADMM. "
    "Neural Computing and Applications."
)

RELAXATION = 1.6
FIRST_UPDATE = 10  # steps before penalties are first updated
UPDATE_EVERY = 5  # the next update comes after a share 1 / UPDATE_EVERY of the steps made
STIFF, SOFT = 10.0, 0.1  # penalties at corners of h and between them
SIZE_TOL = 1.5  # factor by which the size of the penalties may be off
LARGEST_CHANGE = 10.0
SLOPE_TOL = 1e-12  # slopes below this share of the total cost are none


class Splitting(Protocol):
    """The two halves of a problem."""

    def minimiser(self, penalty: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """The function ``t -> argmin_x g(x) + 1/2 sum(penalty * (x - t)^2)``; factorisations are made here."""
        ...

    def prox(self, v: np.ndarray, penalty: np.ndarray) -> np.ndarray:
        """``argmin_z h(z) + 1/2 sum(penalty * (z - v)^2)``."""
        ...

    def corner(self, z: np.ndarray) -> np.ndarray:
        """Mask of the coordinates that are at a corner of h."""
        ...


@dataclass(frozen=True)
class Split:
    """The iteration after a step."""

    # x, z: (n,) the two copies
    x: np.ndarray
    z: np.ndarray
    slope: np.ndarray  # (n,) the gradient of g at x
    multiplier: np.ndarray  # (n,) ``r u``, a subgradient of h at z; minus `slope` at the solution


def factored(system: np.ndarray) -> tuple[np.ndarray, bool]:
    """The Cholesky factor of the system of a linear method."""
    try:
        return cho_factor(system)
    except LinAlgError:
        raise ValueError("X has columns of too different sizes: use scaling='standard', or other units") from None


def splits(problem: Splitting, image: np.ndarray, multiplier: np.ndarray, size: float) -> Iterator[Split]:
    """Iterate from a point.

    Parameters
    ----------
    image : (n,) the coordinates of the starting point
    multiplier : (n,) of the starting point, in the sense of `Split`
    size : of the penalties of the first steps
    """
    penalty = np.full(len(image), size)
    minimise = problem.minimiser(penalty)
    v = image + multiplier / penalty
    z = problem.prox(v, penalty)
    u = v - z
    update = FIRST_UPDATE
    for step in count(1):
        target = z - u
        x = minimise(target)
        v = RELAXATION * x + (1.0 - RELAXATION) * z + u
        z = problem.prox(v, penalty)
        u = v - z
        yield Split(x, z, penalty * (target - x), penalty * u)
        if step < update:
            continue
        update = step + max(FIRST_UPDATE, step // UPDATE_EVERY)
        size = _matched(size, penalty * u, z)
        changed = size * np.where(problem.corner(z), STIFF, SOFT)
        if np.any(changed != penalty):
            u = u * penalty / changed
            penalty = changed
            minimise = problem.minimiser(penalty)


def _matched(size: float, multiplier: np.ndarray, z: np.ndarray) -> float:
    """The size of penalties that makes multipliers and coordinates alike, if the present one is far off."""
    length, other = float(np.linalg.norm(multiplier)), float(np.linalg.norm(z))
    if length == 0 or other == 0:
        return size
    factor = length / other / size
    if 1.0 / SIZE_TOL <= factor <= SIZE_TOL:
        return size
    return size * min(max(factor, 1.0 / LARGEST_CHANGE), LARGEST_CHANGE)


# ---------------------------------------------------------------------- soft margins


@dataclass(frozen=True)
class Certificate:
    """Admissible dual coefficients with the best intercept for them."""

    dual_coef: np.ndarray  # (n,) ``alpha * y`` with ``0 <= alpha <= cost`` and ``y'alpha = 0``
    intercept: float
    primal: float  # ``1/2 |f|^2 + sum(cost * max(0, 1 - y (f + intercept)))``
    dual: float  # ``sum(alpha) - 1/2 |f|^2``, at most the smallest primal value

    @property
    def gap(self) -> float:
        """The duality gap relative to the primal value."""
        return relative_gap(self.primal, self.dual)


def certified(
    alpha: np.ndarray, y: np.ndarray, cost: np.ndarray, apply: Callable[[np.ndarray], np.ndarray]
) -> Certificate:
    """Make alpha admissible, with its primal and dual values.

    Parameters
    ----------
    alpha : (n,)
    apply : multiplies a vector (n,) by the Gram matrix

    Notes
    -----
    Values are clipped to the box, and the class with the larger sum is scaled down to that of the other, so that
    zeros stay zeros.
    """
    alpha = np.clip(alpha, 0.0, cost)
    sums = np.array([alpha[y < 0].sum(), alpha[y > 0].sum()])
    share = np.divide(sums.min(), sums, out=np.zeros(2), where=sums > 0)
    alpha = alpha * np.where(y > 0, share[1], share[0])
    f = apply(alpha * y)
    energy = float(y @ (alpha * f))
    intercept = best_intercept(f, y, cost)
    primal = 0.5 * energy + float(cost @ slack(f + intercept, y))
    return Certificate(alpha * y, intercept, primal, float(alpha.sum()) - 0.5 * energy)


def best_intercept(f: np.ndarray, y: np.ndarray, cost: np.ndarray) -> float:
    """Minimise ``sum(cost * max(0, 1 - y (f + b)))`` over b; where that is an interval, its middle."""
    corners = y - f
    order = np.argsort(corners, kind="stable")
    slope = np.cumsum(cost[order]) - cost[y > 0].sum()  # after each corner
    level = SLOPE_TOL * float(cost.sum())
    first = int(np.argmax(slope >= -level))
    last = int(np.argmax(slope > level)) if slope[-1] > level else len(y) - 1
    return 0.5 * float(corners[order[first]] + corners[order[last]])
