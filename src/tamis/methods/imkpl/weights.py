"""Rules for the kernel weights of IMKPL [Hosseini2019, Eq. 10].

All that depends on the weights is linear in the kernels: ``J = sum_l weights[l] E_l + tau sum(U)`` with
``E_l = <K_l, M> + constant`` (Eq. 11). The rules differ in what they make of it.

align    With the centring ``C = I - 11'/n`` and ``W = C M C`` without its diagonal, ``a_l = <K_l, C W C>`` and the
         inner products Q_lm of centred kernels without their diagonals,

             b = argmin_{b >= 0} 1/2 b'Q b + (a / max_l(-a_l) + kappa)'b,    weights = b / sum(b):

         the combination that resembles -M most, with a price kappa in [0, 1) on every kernel. Constant kernels and
         copies of others bring nothing and get nothing (but a kernel that hardly varies needs a large b to bring
         anything, which without kappa it gets); neither the scale of M nor that of Q matters. Where no kernel
         has ``a_l < 0`` the weights stay.
graph    As align, with the neighbourhoods of the mean kernel alone in place of M: near rows of one class are to be
         alike, near rows of other classes are not. After the idea of [Thiagarajan2014], who weigh kernels by graphs
         within and between classes; it needs no prototypes and is the same in every round.
lp       All weight on the least E_l, the solution of the linear program as printed; for comparison.
ball     min E'weights on the simplex with ``sum weights^2 <= 1 / m``: m is the effective number of kernels.
entropy  weights ~ exp(-E / (w std(E))).
uniform  1 / L for ever: prototypes in the mean kernel, the paper's ISKPL.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

from tamis.arrays import Array, namespace
from tamis.kernels.spectrum import UnitKernels
from tamis.methods.imkpl.solver import Problem, Rule
from tamis.optim.matrices import fill_diagonal, inner
from tamis.optim.prox import project_simplex
from tamis.optim.quadratic import solve_nonnegative_qp

RULES = ("align", "graph", "lp", "ball", "entropy", "uniform")
MAX_ADDED = 64  # kernels that join the working set in a round
SLOPE_TOL = 1e-9  # slopes, relative to the steepest one, that count as zero
EFFECTIVE_SHARE = 0.25  # of the kernels are effective in the rule "ball" by default


def weight_rule(name: str, *, kappa: float = 0.1, spread: float | None = None, max_kernels: int | None = None) -> Rule:
    """The rule of a name.

    Parameters
    ----------
    kappa : for "align" and "graph", in [0, 1)
    spread : for "ball" m, by default a quarter of the kernels; for "entropy" w, by default 1
    max_kernels : most kernels with a weight, for "align" and "graph"; None: as many as it takes
    """
    rules: dict[str, Callable[..., np.ndarray]] = {
        "align": partial(_align, kappa=kappa, max_kernels=max_kernels),
        "graph": partial(_graph, kappa=kappa, max_kernels=max_kernels),
        "lp": _least,
        "ball": partial(_ball, spread=spread),
        "entropy": partial(_entropy, width=1.0 if spread is None else spread),
        "uniform": lambda problem, M, old: old,
    }
    return rules[name]


def aligned(
    kernels: UnitKernels,
    M: Array,
    *,
    kappa: float = 0.1,
    max_kernels: int | None = None,
    begun: np.ndarray | None = None,
) -> np.ndarray | None:
    """Weights of the combination that resembles -M most; None where no kernel resembles it at all.

    `begun` are weights to begin with, where the solution may be near; they do not change it.
    """
    a = kernels.inner(_centred(_hollow(_centred(M))))
    steepest = -a.min()
    if not steepest > SLOPE_TOL * inner(M, M) ** 0.5:
        return None
    begun = np.zeros(len(a)) if begun is None or np.all(begun > 0) else begun
    b = _working_set(kernels, a / steepest + kappa, begun, max_kernels)
    return b / b.sum() if b.sum() > 0 else None


def _align(problem: Problem, M: Array, old: np.ndarray, *, kappa: float, max_kernels: int | None) -> np.ndarray:
    found = aligned(problem.rows.kernels, M, kappa=kappa, max_kernels=max_kernels, begun=old)
    return old if found is None else found


def _graph(problem: Problem, M: Array, old: np.ndarray, *, kappa: float, max_kernels: int | None) -> np.ndarray:
    return _align(problem, problem.contrast, old, kappa=kappa, max_kernels=max_kernels)


def _working_set(kernels: UnitKernels, linear: np.ndarray, begun: np.ndarray, limit: int | None) -> np.ndarray:
    """``argmin_{b >= 0} 1/2 b'Q b + linear'b`` for the centred Gram matrix Q, from the rows of it that are needed.

    The steepest kernels join those in use, the program is solved on them, those that end at zero leave, and so on until
    none is left that would lower it. It begins at the weights `begun`, scaled. Under a `limit` it begins with none,
    they join one at a time, and it ends when there are so many.
    """
    joined = np.flatnonzero(begun if limit is None else np.zeros_like(begun))
    b, Q = begun[joined], kernels.gram(joined)
    if len(joined):
        b = b * max(0.0, -float(linear[joined] @ b) / float(b @ Q[:, joined] @ b))
    slope = linear + b @ Q
    for _ in range(2 * len(linear) + 2):
        steep = np.setdiff1d(np.flatnonzero(slope < -SLOPE_TOL), joined[b > 0])
        if limit is not None and len(joined) >= limit:
            break
        new = steep[np.argsort(slope[steep], kind="stable")[: MAX_ADDED if limit is None else 1]]
        joined, b = np.union1d(joined, new), _placed(joined, b, np.union1d(joined, new))
        Q = kernels.gram(joined)
        b = solve_nonnegative_qp(Q[:, joined], linear[joined], b)
        slope = linear + b @ Q
        joined, b = joined[b > 0], b[b > 0]
        if not len(new):
            break
    return _placed(joined, b, np.arange(len(linear)))


def _placed(members: np.ndarray, values: np.ndarray, among: np.ndarray) -> np.ndarray:
    """The values of some members in an array for all `among`, which are sorted; zero for the others."""
    out = np.zeros(len(among))
    out[np.searchsorted(among, members)] = values
    return out


def energies(problem: Problem, M: Array) -> np.ndarray:
    """``E_l`` (L,) up to a constant [Eq. 11]."""
    return problem.rows.kernels.inner(M)


def _least(problem: Problem, M: Array, old: np.ndarray) -> np.ndarray:
    return np.eye(1, len(old), int(np.argmin(energies(problem, M))))[0]


def _ball(problem: Problem, M: Array, old: np.ndarray, *, spread: float | None) -> np.ndarray:
    m = max(1.0, EFFECTIVE_SHARE * len(old)) if spread is None else spread
    return least_on_ball(energies(problem, M), m)


def least_on_ball(E: np.ndarray, m: float) -> np.ndarray:
    """``argmin E'x`` over the simplex with ``sum x^2 <= 1 / m``: the projection of ``-E / rho`` with the right rho."""
    L, E = len(E), E - E.min()
    gap = np.ptp(E)
    if m >= L or gap == 0:
        return np.full(L, 1.0 / L)
    least = np.flatnonzero(E == 0)
    if len(least) >= m:
        x = np.zeros(L)
        x[least] = 1.0 / len(least)
        return x

    def excess(log_rho: float) -> float:
        x = project_simplex(-E / (gap * np.exp(log_rho)))
        return float(x @ x) - 1.0 / m

    log_rho = brentq(excess, -40.0, 40.0, xtol=1e-12)
    return project_simplex(-E / (gap * np.exp(log_rho)))


def _entropy(problem: Problem, M: Array, old: np.ndarray, *, width: float) -> np.ndarray:
    E = energies(problem, M)
    deviation = float(np.std(E))
    return softmax(-E / (width * deviation)) if deviation > 0 else np.full(len(E), 1.0 / len(E))


def _centred(M: Array) -> Array:
    xp = namespace(M)
    half = M - xp.mean(M, axis=0)
    return half - xp.mean(half, axis=1, keepdims=True)


def _hollow(M: Array) -> Array:
    out = namespace(M).asarray(M, copy=True)
    fill_diagonal(out, 0.0)
    return out
