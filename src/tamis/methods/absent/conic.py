"""Multiple kernel learning with absent channels [Liu2015] as conic programs: the reference for small problems.

A sample is scored with the channels that it has, by one normal vector w_p per channel:

    f(x_i) = sum over observed p of <w_p, phi_p(x_i)> + b

All programs are ``min  regulariser + sum_i cost_i max(0, 1 - y_i f(x_i))`` and differ in the regulariser of the norms
n_p = |w_p| alone, but for "literal", which restricts w as well. R are `rows`, one for each pattern of observed
channels or fewer:

    "weights"  1/2 min over a >= 0, R a <= 1 of sum_p n_p^2 / a_p          [Liu2015, Eq. 8] with the patterns as rows
    "direct"   1/2 max_i (R n)_i^2                                         [Liu2015, Eq. 5] with slack and bias
    "literal"  as "weights", with w_p = sum_i c_i phi_p(x_i), c for all    [Liu2015, Eq. 12] as printed

Other rows make "weights" another method: one row of ones is 1-norm multiple kernel learning after zero filling, one
row of the shares of samples that have each channel is the mean of margins, the identity is the plain sum of kernels.

With K~_p = L_p L_p', whose rows and columns of absent samples are zero, and v_p the coordinates of w_p, these are
linear rows and one cone for every channel:

    min  1/2 sum(q) + cost'xi  or  1/2 t^2 + cost'xi
    y*(sum_p L_p v_p + b) >= 1 - xi,  xi >= 0,  and  |v_p|^2 <= q_p a_p, R a <= 1  or  |v_p| <= n_p, R n <= t

With multipliers beta of the margins and mu of the rows, the derivative by v_p is zero where v_p is not:

    "weights"  v_p / a_p = L_p'(beta*y)    "direct"  (R'mu)_p v_p / n_p = L_p'(beta*y)

so that w_p = a_p sum_i beta_i y_i phi_p(x_i) in both, a_p being n_p / (R'mu)_p in "direct" and zero where v_p is. One
vector ``dual_coef = beta*y`` serves all channels and `weights` are a. These are the conditions of the support vector
machine of the kernel sum_p a_p K~_p as well.

| paper | here |
| --- | --- |
| K_p with zero for absent samples | `grams[p]` |
| s(i, :), distinct | `rows` |
| gamma_p | a_p, up to a factor |
| u | ``1/2 sum(q)`` |
| w_p | ``weights[p] * dual_coef`` over phi_p |
| alpha (Eq. 12) | `dual_coef` of "literal", whose weights are one |
| C | `cost`, one for every row |

Departures from the paper, with reasons:

1. ``min over gamma, u`` with one constraint for every sample, ``1/2 sum_p s(i, p) n_p^2 / gamma_p <= u``, becomes
   ``1/2 min over R a <= 1 of sum_p n_p^2 / a_p``. Both are ``1/2 max over nu of (sum_p n_p sqrt((R'nu)_p))^2``, nu on
   the simplex. It takes m cones in place of n times m.
2. Eq. 12 is said to be equivalent to Eq. 8 and is not: its w_p have no factor a_p. It is there for comparison.
3. Kernel values of absent samples do not exist; the sums of Eq. 12 are over observed samples.
4. "literal" is solved in coordinates in which the stacked L_p'c are orthonormal: c itself may be of any size where
   kernels have small eigenvalues.
5. beta and b are computed anew as the machine of the weights, from beta as the start: an interior point is never
   sparse, and where cost is large its beta gives margins that are too far off for the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import block_array, csr_array, diags_array

from tamis.optim.conic import Cone, ConicSolution, Outcome, solve_conic
from tamis.optim.losses import slack
from tamis.optim.polytope import Polytope, widest
from tamis.optim.svm import relative_gap, solve_svm

RANK_TOL = 1e-9  # eigenvalues of a kernel below this share of its largest are none
ZERO_SHARE = 1e-5  # weights and norms of channels below this share of the largest are none
INDEFINITE_TOL = 1e-6  # eigenvalues below minus this share of the largest are none of a positive semi-definite kernel
ZERO_COEF = 1e-7  # coefficients below this share of the largest are none
COST_RANGE = 1.0, 1e4  # range of the largest cost that the solver gets
MARGIN_TOL = 1e-9  # tolerance of the margins of the machine
VIOLATION_TOL = 1e-7  # by how much a row may be violated before it is added
GAP_TOL = 1e-5  # relative duality gap of a converged model


@dataclass(frozen=True)
class ConicModel:
    """``f(x) = sum_p weights[p] * sum_i dual_coef[i] * k_p(x_i, x) + intercept``, absent values being zero."""

    dual_coef: np.ndarray  # (n,)
    # (m,) non-negative; zero for channels without an observed sample, one for the others in "literal"
    weights: np.ndarray
    intercept: float
    objective: float  # of the program, at this model
    # objective minus a lower bound of the optimum, relative to the former; a certificate, but for "literal", where the
    # bound holds up to the residuals of the solver
    gap: float
    iterations: int
    converged: bool  # whether the gap is at most 1e-5


@dataclass(frozen=True)
class _Problem:
    """The program without kernels: scores ``F z + b``, and the vectors v of all channels one below the other, ``G z``.

    Attributes
    ----------
    scores, vectors : F (n, k), G (sum of ranks, k)
    ranks : rows of G of each channel
    y, cost, rows : as in `solve_conic_program`
    """

    scores: np.ndarray
    vectors: np.ndarray | csr_array
    ranks: list[int]
    y: np.ndarray
    cost: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class _Point:
    """Unknowns z (k,), intercept, a or n of each channel (m,); multipliers of margins (n,) and rows (R,); all of it."""

    z: np.ndarray
    intercept: float
    sizes: np.ndarray
    beta: np.ndarray
    mu: np.ndarray
    solution: ConicSolution


def solve_conic_program(
    grams: Sequence[np.ndarray], y: np.ndarray, cost: np.ndarray, rows: np.ndarray, program: str
) -> ConicModel:
    """Solve one of the programs above.

    Parameters
    ----------
    grams : m arrays (n, n), positive semi-definite, with zero rows and columns for samples without the channel; a
        sample may have no channel
    y : (n,) in {-1, +1}, both present
    cost : (n,) positive
    rows : (R, m) non-negative, and positive somewhere for every channel that some sample has
    program : "weights", "direct" or "literal"

    Notes
    -----
    Kernels over a number and costs times it give the same model with coefficients and objective times it; the
    solver gets costs of 1 to 1e4 in this way. Each of 10 to 40 iterations takes about n^2 times the sum of ranks
    operations, those of "literal" several times as many.
    """
    seen = [p for p, K in enumerate(grams) if np.any(K)]
    largest = max((float(np.max(np.diagonal(grams[p]))) for p in seen), default=0.0)
    most = float(cost.max())
    scale = float(2.0 ** np.round(np.log2(np.clip(most * largest, *COST_RANGE) / most)))
    model = _solve_scaled([grams[p] / scale for p in seen], y, cost * scale, rows[:, seen].astype(float), program)
    weights = np.zeros(len(grams))
    weights[seen] = model.weights
    return replace(model, dual_coef=model.dual_coef / scale, weights=weights, objective=model.objective / scale)


def solve_conic_over(
    grams: Sequence[np.ndarray], y: np.ndarray, cost: np.ndarray, polytope: Polytope, program: str
) -> ConicModel:
    """The same over a polytope whose rows may be too many to list: those that are violated are added.

    "direct" and "literal" need all rows at once, which must not be capped.
    """
    if program != "weights":
        return solve_conic_program(grams, y, cost, polytope.rows, program)
    rows = polytope.first()
    while True:
        model = solve_conic_program(grams, y, cost, rows, program)
        worst = polytope.worst(model.weights)
        height = float(worst @ model.weights)
        if height <= 1.0 + VIOLATION_TOL:
            return replace(model, weights=model.weights / max(1.0, height))
        rows = np.vstack([rows, worst])


def _solve_scaled(Ks: list[np.ndarray], y: np.ndarray, cost: np.ndarray, rows: np.ndarray, program: str) -> ConicModel:
    factors = [_factor(K) for K in Ks]
    ranks = [L.shape[1] for L in factors]
    stacked = np.hstack([np.zeros((len(y), 0)), *factors])
    if program == "literal":
        U, spread, Vt = _singular(stacked)
        point = _solve(_Problem(U * spread, Vt.T, ranks, y, cost, rows), direct=False)
        dual_coef = np.where(stacked.any(axis=1), (U / spread) @ point.z, 0.0)
        weights, intercept = np.ones(len(Ks)), point.intercept
    else:
        identity = diags_array(np.ones(sum(ranks)), format="csr")
        point = _solve(_Problem(stacked, identity, ranks, y, cost, rows), direct=program == "direct")
        sizes = np.where(point.sizes > ZERO_SHARE * _largest(point.sizes), point.sizes, 0.0)
        if program == "direct":
            weights = _over(sizes, rows.T @ point.mu)
        else:  # scaled so that ``rows @ weights <= 1`` holds, not only to the tolerance of the solver
            weights = sizes / max(1.0, _largest(rows @ sizes))
        dual_coef, intercept = _machine(Ks, weights, y, cost, point)
    images = np.array([K @ dual_coef for K in Ks]).reshape(-1, len(y))
    norms = weights * np.sqrt(np.maximum(images @ dual_coef, 0.0))
    loss = float(cost @ slack(weights @ images + intercept, y))
    objective = _regulariser(program, rows, weights, norms, point.mu) + loss
    gap = relative_gap(objective, _bound(program, Ks, y, cost, rows, point))
    return ConicModel(dual_coef, weights, intercept, objective, gap, point.solution.iterations, gap <= GAP_TOL)


def _bound(
    program: str, Ks: list[np.ndarray], y: np.ndarray, cost: np.ndarray, rows: np.ndarray, point: _Point
) -> float:
    """A lower bound of the optimum: the dual value of beta, made to satisfy ``0 <= beta <= cost, y'beta = 0``.

    With ``g_p = L_p'(beta*y)`` it is ``sum(beta) - 1/2 max over A of sum_p a_p |g_p|^2`` and, in "direct",
    ``sum(beta) - 1/2 (max over A of sum_p a_p |g_p|)^2``. For "literal" it is the bound that the solver reports.
    """
    if program == "literal" or not Ks:
        return point.solution.bound if point.solution.outcome in (Outcome.SOLVED, Outcome.ROUGH) else -np.inf
    beta = np.clip(point.beta, 0.0, cost)
    sides = np.where(y > 0, beta[y > 0].sum(), beta[y < 0].sum())
    coef = y * beta * _over(np.full(len(y), sides.min()), sides)
    gain = np.maximum([coef @ K @ coef for K in Ks], 0.0) ** (0.5 if program == "direct" else 1.0)
    _, most, _ = widest(Polytope(rows), gain)
    return float(np.abs(coef).sum()) - 0.5 * (most**2 if program == "direct" else most)


def _regulariser(program: str, rows: np.ndarray, weights: np.ndarray, norms: np.ndarray, mu: np.ndarray) -> float:
    """The regulariser of the norms; for "literal" by the multipliers of the rows, which nothing is divided by."""
    if program == "direct":
        return 0.5 * _largest(rows @ norms) ** 2
    if program == "weights":
        return 0.5 * float(_over(norms**2, weights).sum())
    nu = mu / max(float(mu.sum()), np.finfo(float).tiny)
    return 0.5 * float(norms @ np.sqrt(rows.T @ nu)) ** 2


def _factor(K: np.ndarray) -> np.ndarray:
    """L (n, r) with ``K = LL'``; rows of zeros in K are rows of zeros in L."""
    there = np.diagonal(K) != 0
    values, vectors = np.linalg.eigh(K[np.ix_(there, there)])
    if np.any(K[~there]) or values[0] < -INDEFINITE_TOL * values[-1]:
        raise ValueError("grams must be positive semi-definite: add to their diagonals, or choose other kernels")
    keep = values > RANK_TOL * values[-1]
    L = np.zeros((len(K), int(keep.sum())))
    L[there] = vectors[:, keep] * np.sqrt(values[keep])
    return L


def _singular(L: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``L = U diag(spread) Vt`` without what is none."""
    U, spread, Vt = np.linalg.svd(L, full_matrices=False)
    keep = spread**2 > RANK_TOL * _largest(spread) ** 2
    return U[:, keep], spread[keep], Vt[keep]


def _solve(problem: _Problem, *, direct: bool) -> _Point:
    """Solve for z, intercept, slack, and (a, q) or (n, t), in this order."""
    (n, k), m, rows = problem.scores.shape, len(problem.ranks), problem.rows
    y = problem.y[:, None]
    of_z, of_sizes, of_last, cones = _cones(problem, direct)
    ends = -np.ones((len(rows), 1)) if direct else csr_array((len(rows), m))
    blocks = [
        [csr_array(-y * problem.scores), -y, -diags_array(np.ones(n)), None, None],
        [None, None, -diags_array(np.ones(n)), None, None],
        [None, None, None, csr_array(rows), ends],
        [of_z, None, None, of_sizes, of_last],
    ]
    limit = np.full(len(rows), 0.0 if direct else 1.0)
    price = np.full(of_last.shape[1], 0.0 if direct else 0.5)
    linear = np.concatenate([np.zeros(k + 1), problem.cost, np.zeros(m), price])
    quadratic = np.zeros(len(linear))
    quadratic[len(linear) - 1 :] = 1.0 if direct else 0.0
    found = solve_conic(
        diags_array(quadratic),
        linear,
        block_array(blocks, format="csc"),
        np.concatenate([-np.ones(n), np.zeros(n), limit, np.zeros(of_z.shape[0])]),
        [("orthant", 2 * n + len(rows)), *cones],
    )
    if found.outcome in (Outcome.INFEASIBLE, Outcome.UNBOUNDED) or not np.all(np.isfinite([*found.x, *found.duals])):
        raise ArithmeticError("the conic solver broke down: lower cost, or bring the kernels to one scale")
    beta, _, mu, _ = np.split(found.duals, [n, 2 * n, 2 * n + len(rows)])
    z, (intercept,), _, sizes, _ = np.split(found.x, [k, k + 1, k + 1 + n, k + 1 + n + m])
    return _Point(z, float(intercept), sizes, beta, mu, found)


def _cones(problem: _Problem, direct: bool) -> tuple[csr_array, csr_array, csr_array, list[Cone]]:
    """Columns of z, of a or n and of q or t, of rows that are minus (n_p, v_p) or (q_p + a_p, q_p - a_p, 2 v_p)."""
    heads, m = 1 if direct else 2, len(problem.ranks)
    lengths = [heads + rank for rank in problem.ranks]
    total, first = sum(lengths), np.cumsum([0, *lengths])[:m]
    inside = np.setdiff1d(np.arange(total), first[:, None] + np.arange(heads))
    spread = csr_array((np.ones(len(inside)), (inside, np.arange(len(inside)))), shape=(total, len(inside)))
    of_z = -float(heads) * (spread @ csr_array(problem.vectors))
    top, second = (csr_array((np.ones(m), (first + h, np.arange(m))), shape=(total, m)) for h in (0, heads - 1))
    cones: list[Cone] = [("second_order", length) for length in lengths]
    if direct:
        return of_z, -top, csr_array((total, 1)), cones
    return of_z, second - top, -second - top, cones


def _machine(
    Ks: list[np.ndarray], weights: np.ndarray, y: np.ndarray, cost: np.ndarray, point: _Point
) -> tuple[np.ndarray, float]:
    """dual_coef and intercept of the machine of the weights, or the solver's where it is not found."""
    near = ZERO_COEF * _largest(point.beta)
    start = y * np.where(point.beta <= near, 0.0, np.where(point.beta >= cost - near, cost, point.beta))
    if not weights.any():
        return start, point.intercept
    combined = sum((a * K for a, K in zip(weights, Ks, strict=True)), np.zeros((len(y), len(y))))
    machine = solve_svm(combined, y, cost, tol=MARGIN_TOL, start=start)
    return (machine.dual_coef, machine.intercept) if machine.converged else (start, point.intercept)


def _over(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """The ratio, zero where the top is zero."""
    return np.divide(top, bottom, out=np.zeros(len(top)), where=top > 0)


def _largest(values: np.ndarray) -> float:
    return float(values.max(initial=0.0))
