"""The steps of l0-MKL: the machine for given weights of kernels, and the weights for a given machine.

The problem, the names and the departures are those of `solver`; equation numbers are those of [XueSong2020].
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tamis.kernels.stacks.base import KernelStack
from tamis.optim.hinge import solve_hinge, stationary
from tamis.optim.losses import SquaredHinge
from tamis.optim.nonnegative import largest_weight, solve_nonnegative
from tamis.optim.penalties import Penalty

BETA_STEPS = ("stationary", "ridge", "flip", "paper")
DCA_STEPS = 500  # of Algorithm 3
DC_STEPS = 50  # of Algorithm 4
MAX_COEF = 1e7  # a coefficient beyond it is on its way to infinity
INSTEAD = "beta_step='stationary' or 'ridge' has a model"
DC_TOL = 1e-14  # relative squared change at which a DC iteration stops
KKT_TOL = 1e-6  # KKT violation of a weight step, relative to its scale
SIGN_TOL = 1e-9  # a form below minus this share of its terms is negative
HALVINGS = 60
STATIONARY_TOL = 1e-5  # residual of a machine that counts as stationary
RIDGE_FACTOR = 1.01  # lambda1 over the modulus of the least eigenvalue, where there must be a stationary machine


@dataclass(frozen=True)
class Problem:
    """Kernels, labels, costs of rows and the terms of the objective."""

    stack: KernelStack  # (L, n, n) symmetric kernels, of any signature
    y: np.ndarray  # (n,) in {-1, +1}, both present
    cost: np.ndarray  # (n,) positive
    penalty: Penalty  # of the weights of kernels
    lambda1: float = 0.1  # what the quadratic term counts
    lambda2: float = 0.1  # what the penalty counts, as a share of the value that leaves no weight if `relative`
    relative: bool = True  # scale weights to a largest of one after each step (unless the penalty sets a scale itself)
    beta_step: str = "stationary"  # how the machine is found, one of `BETA_STEPS`
    max_features: int | None = None  # most columns behind the kernels with a weight, or None
    # (L, columns) boolean, the columns behind each kernel; None where each has its own one
    incidence: np.ndarray | None = None

    def loss(self, scores: np.ndarray) -> float:
        """``sum_i cost_i max(0, 1 - y_i scores_i)^2``."""
        return float(self.cost @ SquaredHinge().value(scores, self.y))


@dataclass(frozen=True)
class Machine:
    """Coefficients of rows with the weights fixed."""

    # dual_coef, intercept: beta (n,) and b
    dual_coef: np.ndarray
    intercept: float
    value: float  # the objective of (10), or of what takes its place
    lambda1: float  # that of the problem, or what it had to be raised to
    residual: float = 0.0  # how far beta is from a stationary point
    reason: str = ""  # why there is no minimum, or ""


@dataclass(frozen=True)
class Images:
    """What a weight step sees of the kernels: ``K_l beta`` as columns (n, L), and the slopes gamma (L,) of (12)."""

    scores: np.ndarray
    gamma: np.ndarray


@dataclass(frozen=True)
class Weighed:
    """Weights (L,), the kernels that had one before the cap on columns, best first, and the violation of optimality.

    `clipped`: whether gamma had to be cut at zero for them; `reason`: why there is no minimum, or "".
    """

    weights: np.ndarray
    order: np.ndarray
    violation: float = 0.0
    clipped: bool = False
    reason: str = ""


# ---------------------------------------------------------------------- the machine


def beta_step(problem: Problem, weights: np.ndarray, start: Machine | None = None) -> Machine:
    """beta and b for fixed weights, searched from those of `start`."""
    K = problem.stack.combine(weights).dense()
    if problem.beta_step == "stationary":
        return _stationary(problem, K, start)
    if problem.beta_step == "paper":
        return published(problem, K, start)
    if problem.beta_step == "ridge":
        return _bounded(problem, K, problem.lambda1 / problem.cost, start)
    return _bounded(problem, K, problem.lambda1 * absolute(problem.stack, weights), start)


def _stationary(problem: Problem, K: np.ndarray, start: Machine | None) -> Machine:
    """``lambda1 beta_i = cost_i y_i max(0, 1 - y_i (K_i beta + b))`` with sum(beta) = 0: a zero of the slope of (10).

    Where none is found, lambda1 is raised to where there is exactly one: with ``K + diag(lambda1 / cost)`` positive
    definite on the vectors of sum zero.
    """
    lam, beta = problem.lambda1, None if start is None else start.dual_coef
    point = stationary(K, problem.y, problem.cost, lam, start=beta)
    if point.residual > STATIONARY_TOL:
        root = np.sqrt(problem.cost)
        centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        lam = max(lam, -RIDGE_FACTOR * float(np.linalg.eigvalsh(root[:, None] * centred * root)[0]))
        point = stationary(K, problem.y, problem.cost, lam, start=beta)
    image = K @ point.beta
    value = lam * float(point.beta @ image) + problem.loss(image + point.intercept)
    return Machine(point.beta, point.intercept, value, lam, point.residual)


def _bounded(problem: Problem, K: np.ndarray, quadratic: np.ndarray, start: Machine | None) -> Machine:
    """The minimum with a positive semi-definite quadratic term, a matrix or its diagonal."""
    origin = None if start is None else (start.dual_coef, start.intercept)
    point = solve_hinge(K, problem.y, problem.cost, quadratic, start=origin)
    residual = point.decrement / (abs(point.value) + float(problem.cost.sum()))
    return Machine(point.beta, point.intercept, point.value, problem.lambda1, residual)


def published(problem: Problem, K: np.ndarray, start: Machine | None = None, steps: int = DCA_STEPS) -> Machine:
    """Algorithm 3, with the gradient ``2 lambda1 (rho I - K) beta`` of the h in (11), twice the printed one."""
    eigenvalues, vectors = np.linalg.eigh(K)
    rho = max(float(eigenvalues[-1]), 0.0) + 1e-5
    beta, b = (np.zeros(len(K)), 0.0) if start is None else (start.dual_coef, start.intercept)
    reason = _falling_eigenvector(problem, eigenvalues, vectors)
    for _ in range(0 if reason else steps):
        linear = 2.0 * problem.lambda1 * (rho * beta - K @ beta)
        point = solve_hinge(K, problem.y, problem.cost, problem.lambda1 * rho, linear=linear, start=(beta, b))
        moved = float(np.sum((point.beta - beta) ** 2) + (point.intercept - b) ** 2)
        beta, b = point.beta, point.intercept
        if falls(problem, K @ beta, beta, b) or np.abs(beta).max() > MAX_COEF:
            reason = f"the machine of fixed weights has no minimum: its objective falls along the iterates; {INSTEAD}"
            break
        if moved <= DC_TOL * float(beta @ beta + b * b):
            break
    image = K @ beta
    value = problem.lambda1 * float(beta @ image) + problem.loss(image + b)
    return Machine(beta, b, value, problem.lambda1, 0.0 if reason else _slope(problem, K, beta, b), reason)


def _slope(problem: Problem, K: np.ndarray, beta: np.ndarray, intercept: float) -> float:
    """The largest entry of the gradient of (10), over that of its two terms."""
    pull = -0.5 * problem.cost * SquaredHinge().gradient(K @ beta + intercept, problem.y)
    terms = np.append(K @ (problem.lambda1 * beta), 0.0), np.append(K @ pull, pull.sum())
    scale = max(float(np.abs(term).max()) for term in terms)
    return float(np.abs(terms[0] - terms[1]).max()) / scale if scale > 0 else 0.0


def falls(problem: Problem, image: np.ndarray, beta: np.ndarray, intercept: float) -> bool:
    """Whether (10) falls for ever along (beta, intercept), given ``image = K beta``.

    At t times the point it is ``t^2 form + O(t)`` with ``form = lambda1 beta'K beta + sum of the squared loss of
    the margins' leading part``, so that a negative form is a proof.
    """
    quadratic = problem.lambda1 * float(beta @ image)
    rising = float(problem.cost @ np.maximum(0.0, -problem.y * (image + intercept)) ** 2)
    return quadratic + rising < -SIGN_TOL * (abs(quadratic) + rising)


def _falling_eigenvector(problem: Problem, eigenvalues: np.ndarray, vectors: np.ndarray) -> str:
    """The reason why no minimum exists if (10) falls along an eigenvector with its best intercept, else ""."""
    negative = eigenvalues < -SIGN_TOL * np.abs(eigenvalues).max(initial=0.0)
    if not negative.any():
        return ""
    images = vectors[:, negative] * eigenvalues[negative]
    for sign in (1.0, -1.0):
        shifts = _best_shifts(sign * images, problem.y, problem.cost)
        for k, shift in enumerate(shifts):
            if falls(problem, sign * images[:, k], sign * vectors[:, negative][:, k], shift):
                return (
                    "the machine of fixed weights has no minimum: its objective falls for ever along the eigenvector "
                    f"of the eigenvalue {eigenvalues[negative][k]:.3g} of the combined kernel; {INSTEAD}"
                )
    return ""


def _best_shifts(images: np.ndarray, y: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """For every column g of `images` the s that minimises ``sum_i cost_i max(0, -y_i (g_i + s))^2``, by bisection."""
    low, high = -images.max(axis=0), -images.min(axis=0)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        slope = -(cost * y) @ np.maximum(0.0, -y[:, None] * (images + middle))
        low, high = np.where(slope < 0, middle, low), np.where(slope < 0, high, middle)
    return 0.5 * (low + high)


def absolute(stack: KernelStack, weights: np.ndarray) -> np.ndarray:
    """``sum_l weights[l] |K_l|``, with the moduli of the eigenvalues."""
    out = np.zeros(stack.shape[1:])
    for k in np.flatnonzero(weights):
        eigenvalues, vectors = np.linalg.eigh(stack.one(int(k)))
        out += weights[k] * (vectors * np.abs(eigenvalues)) @ vectors.T
    return out


# ---------------------------------------------------------------------- the weights


def images(problem: Problem, machine: Machine) -> Images:
    """One pass over all kernels."""
    beta = machine.dual_coef
    scores = problem.stack.apply(beta)
    if problem.max_features is not None and problem.incidence is not None:  # kernels beyond the cap by themselves
        scores[:, problem.incidence.sum(axis=1) > problem.max_features] = 0.0
    if problem.beta_step == "ridge":
        return Images(scores, np.zeros(scores.shape[1]))
    if problem.beta_step == "flip":
        return Images(scores, machine.lambda1 * _absolute_quad(problem.stack, beta))
    return Images(scores, machine.lambda1 * (beta @ scores))


def _absolute_quad(stack: KernelStack, beta: np.ndarray) -> np.ndarray:
    """The L values ``beta'|K_l| beta``."""
    out = np.empty(stack.shape[0])
    for k in range(len(out)):
        eigenvalues, vectors = np.linalg.eigh(stack.one(k))
        out[k] = np.abs(eigenvalues) @ (beta @ vectors) ** 2
    return out


def largest_lambda2(problem: Problem, seen: Images, intercept: float) -> float:
    """The least lambda2 at which a weight step from zero stays there (zero if it always does)."""
    return largest_weight(*_rows(problem, seen, intercept), seen.gamma, problem.penalty.slope)


def _rows(problem: Problem, seen: Images, intercept: float) -> tuple[np.ndarray, np.ndarray]:
    """B (n, L) and c (n,) with the loss of weights d equal to ``sum_i max(0, c_i - (B d)_i)^2``."""
    root = np.sqrt(problem.cost)
    return (root * problem.y)[:, None] * seen.scores, root * (1.0 - problem.y * intercept)


def weight_step(
    problem: Problem, seen: Images, intercept: float, lambda2: float, origin: np.ndarray, hint: np.ndarray | None = None
) -> Weighed:
    """Algorithm 4: minimise (12) over d >= 0 by DC steps from `origin`, each one solved exactly.

    `hint` are weights near which the first solution may lie.
    """
    B, c = _rows(problem, seen, intercept)
    d, near = origin, origin if hint is None else hint
    for _ in range(DC_STEPS):
        q = seen.gamma + lambda2 * problem.penalty.weights(d)
        step = solve_nonnegative(B, c, q, start=near, tol=KKT_TOL)
        if step.ray is not None and problem.beta_step == "paper":
            kernels = np.count_nonzero(step.ray)
            reason = f"the weight step has no minimum: its objective falls for ever along {kernels} kernels; {INSTEAD}"
            return Weighed(origin, np.flatnonzero(origin), reason=reason)
        if step.ray is not None:
            bounded = replace(seen, gamma=np.maximum(seen.gamma, 0.0))
            return replace(weight_step(problem, bounded, intercept, lambda2, origin, hint), clipped=True)
        moved = float(np.sum((step.d - d) ** 2))
        d = near = step.d
        if moved <= DC_TOL * float(d @ d):
            break
    order = by_contribution(seen.scores, d)
    kept = within(order, problem.max_features, problem.incidence)
    if len(kept) == len(order):
        return Weighed(d, order, step.violation)
    step = solve_nonnegative(B[:, kept], c, q[kept], start=d[kept], tol=KKT_TOL)
    d = np.zeros_like(d)
    d[kept] = step.d
    return Weighed(d, order, step.violation)


def by_contribution(scores: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The kernels with a weight, those whose scores vary most first."""
    kernels = np.flatnonzero(d)
    return kernels[np.argsort(-d[kernels] * scores[:, kernels].std(axis=0), kind="stable")]


def within(order: np.ndarray, most: int | None, incidence: np.ndarray | None) -> np.ndarray:
    """Those kernels, in this order, that fit on `most` columns together."""
    if most is None:
        return order
    if incidence is None:
        return order[:most]
    columns = np.zeros(incidence.shape[1], dtype=bool)
    kept: list[int] = []
    for k in order:
        both = columns | incidence[k]
        if both.sum() <= most:
            columns, kept = both, [*kept, int(k)]
    return np.array(kept, dtype=int)
