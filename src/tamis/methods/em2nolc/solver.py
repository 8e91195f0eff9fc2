"""EM2NOLC: a least-squares classifier sparse in instances and in kernels [Zhang2022].

    J(lam, mu, b) = 1/2 sum_i w_i |F_i - b - y_i|^2 + ridge/2 |lam|^2 |mu|^2
    F_i = sum_j lam_j sum_m mu_m k_m(x_j, x_i)
    at most max_instances rows of lam and max_features columns behind mu are non-zero

| paper | here |
| --- | --- |
| lambda (n) | `dual_coef` (k, q) on `instances` (k,); q outputs, one for two classes |
| mu (d) | `weights` (f,) on `kernels` (f,) |
| A(mu), B(lambda) | ``stack.combine(weights)``, ``stack.apply(dual_coef)`` |
| b | minus the `intercept` of the expansion |
| C_lambda, C_mu | `Task.instance_budget`, `Task.kernel_budget` |

Departures from the paper, with reasons:

1. The intercept is the minimiser mean(F - y), profiled out by centring; the printed mean(F) is right
   only for balanced classes and, alternated with the other updates, makes them swing.
2. A ridge on the product |lam| |mu|. It is invariant under (c lam, mu / c), so scaling one factor to
   norm one between half steps leaves J alone and stops the drift to overflow or to zero.
3. Each half step is a best-subset search that starts from the current support, so J never rises. The
   printed ADMM has no such property; `paper_iterates` keeps it for study and `admm_iterates` repairs
   it (centred Gram matrix, relative rho, refit on the support, steps that raise J refused).
4. Starts: kernels that separate the class densities, and all kernels alike; the paper gives none.
5. The loop stops on the largest relative decrease of J that one exchange, one addition or a refit, of
   instances or of kernels, would bring; the paper's test on the change of mu depends on its arbitrary scale.
   `admm_iterates` proposes no exchanges, so its violation is the relative decrease of its last round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from tamis.base.design import Design, RowDesign, spread
from tamis.kernels.stacks.base import Index
from tamis.optim.driver import Callback, Iterate, Solution, Status, run
from tamis.optim.prox import sparse_least_squares
from tamis.optim.subset import (
    Budget,
    Cardinality,
    Cover,
    Fit,
    Quadratic,
    best_exchange,
    best_subset,
    exchange_violation,
    first_best,
    fit_support,
    prune,
)

THOROUGH_ROUNDS = 2  # later rounds start from the present instances alone: the gain is below 0.1 % of J
START_ROWS = 500  # most instances that estimate the class densities


@dataclass(frozen=True)
class State:
    """A sparse pair (lam, mu); ``dual_coef[i]`` belongs to column ``instances[i]`` of the stack.

    `intercept` (q,) is given only where an algorithm fixes it; otherwise it is the minimiser.
    """

    instances: np.ndarray
    dual_coef: np.ndarray
    kernels: np.ndarray
    weights: np.ndarray
    intercept: np.ndarray | None = None


@dataclass(frozen=True)
class Task:
    """A design with ridge and budgets.

    Attributes
    ----------
    design : Design
    alpha : ridge relative to the total weight
    max_instances, max_features : budgets
    incidence : (L, d) boolean, the features behind each kernel; None where each kernel has its own one
    thorough : in the first rounds search for instances from many starts
    """

    design: Design
    alpha: float
    max_instances: int
    max_features: int
    incidence: np.ndarray | None = None
    thorough: bool = True

    @property
    def ridge(self) -> float:
        return self.alpha * self.design.total_weight

    @property
    def instance_budget(self) -> Cardinality:
        return Cardinality(self.max_instances)

    @property
    def kernel_budget(self) -> Budget:
        if self.incidence is None:
            return Cardinality(self.max_features)
        return Cover(self.incidence, self.max_features)

    @property
    def zero_objective(self) -> float:
        """J of the model that predicts the weighted mean."""
        return 0.5 * self.design.energy

    def instance_problem(self, state: State) -> Quadratic:
        """The lam-step at |mu| = 1."""
        weights = spread(state.kernels, state.weights / _norm(state.weights), self.design.n_kernels)
        return self.design.instance_problem(weights, self.ridge)

    def kernel_problem(self, instances: Index, dual_coef: np.ndarray) -> Quadratic:
        """The mu-step at |lam| = 1."""
        return self.design.kernel_problem(instances, dual_coef / _norm(dual_coef), self.ridge)


def _norm(v: np.ndarray) -> float:
    """Euclidean norm, one for the zero vector."""
    return float(np.linalg.norm(v)) or 1.0


def objective(task: Task, state: State) -> float:
    """J with the intercept at its minimiser."""
    if not len(state.instances) or not len(state.kernels):
        return task.zero_objective
    problem = task.instance_problem(state)
    return problem.value(state.instances, state.dual_coef * _norm(state.weights))


def violation(task: Task, state: State, value: float) -> float:
    """Relative decrease of J within one refit, addition or exchange, of instances or of kernels."""
    if not len(state.kernels):
        return 0.0
    problem = task.instance_problem(state)
    gain = exchange_violation(problem, task.instance_budget, state.instances, value)
    if not len(state.instances):
        return gain
    problem = task.kernel_problem(state.instances, state.dual_coef)
    return max(gain, exchange_violation(problem, task.kernel_budget, state.kernels, value))


def closest_exchanges(task: Task, state: State) -> tuple[tuple[float, int], tuple[float, int]]:
    """How clearly instances and kernels are chosen: the relative rise of J by the best exchange of each
    kind, and the position of the member that it would drop.
    """
    by_instance, by_kernel = task.instance_problem(state), task.kernel_problem(state.instances, state.dual_coef)
    return (
        _closest(by_instance, task.instance_budget, state.instances),
        _closest(by_kernel, task.kernel_budget, state.kernels),
    )


def _closest(problem: Quadratic, budget: Budget, chosen: np.ndarray) -> tuple[float, int]:
    fit = fit_support(problem, chosen)
    member, _, gain = best_exchange(problem, budget, fit)
    return -gain / max(fit.objective, np.finfo(float).tiny), member


def density_start(task: Task) -> State:
    """No instances yet; kernels that best separate the class densities, or all where the densities are alike.

    Candidates are merged rows: where most values come in both classes, the densities differ by their weights only.
    """
    design = task.design
    some = slice(None, None, -(-design.n_candidates // START_ROWS))
    lam = design.candidate_weight[some, None] * (design.candidate_targets[some] - design.target_mean)
    fit = best_subset(task.kernel_problem(some, lam), task.kernel_budget)
    if not len(fit.support):
        return uniform_start(task)
    return _without_instances(task, fit.support, fit.coef[:, 0])


def uniform_start(task: Task) -> State:
    """No instances yet; all kernels, equally weighted. The first kernel step brings them within budget."""
    L = task.design.n_kernels
    return _without_instances(task, np.arange(L), np.full(L, 1.0 / L))


def _without_instances(task: Task, kernels: np.ndarray, weights: np.ndarray) -> State:
    return State(np.empty(0, dtype=int), np.empty((0, task.design.n_outputs)), kernels, weights)


def with_instances(state: State, fit: Fit) -> State:
    """Take instances from the solution of the lam-step; the kernel weights get norm one."""
    return replace(state, instances=fit.support, dual_coef=fit.coef, weights=state.weights / _norm(state.weights))


def with_kernels(state: State, fit: Fit) -> State:
    """Take kernels from the solution of the mu-step; the instance coefficients get norm one."""
    unit = state.dual_coef / _norm(state.dual_coef)
    return replace(state, dual_coef=unit, kernels=fit.support, weights=fit.coef[:, 0])


def instance_step(task: Task, state: State, *, thorough: bool = False) -> State:
    """Best instances for the present kernel weights."""
    problem = task.instance_problem(state)
    return with_instances(state, best_subset(problem, task.instance_budget, state.instances, thorough=thorough))


def kernel_step(task: Task, state: State) -> State:
    """Best kernels for the present instance coefficients."""
    if not len(state.instances):
        return state
    problem = task.kernel_problem(state.instances, state.dual_coef)
    return with_kernels(state, best_subset(problem, task.kernel_budget, state.kernels))


def iterates(task: Task, start: State | None = None) -> Iterator[Iterate[State]]:
    """Alternate the two half steps; J never rises."""
    state = density_start(task) if start is None else start
    for step in count():
        value = objective(task, state)
        yield Iterate(state, value, violation(task, state, value), weights=_weights(task, state))
        thorough = task.thorough and step < THOROUGH_ROUNDS
        state = kernel_step(task, instance_step(task, state, thorough=thorough))


def admm_iterates(task: Task, start: State | None = None) -> Iterator[Iterate[State]]:
    """The repaired ADMM: it proposes supports, which are refitted and accepted only if J falls."""
    state = density_start(task) if start is None else start
    value, gain = objective(task, state), 1.0
    while True:
        yield Iterate(state, value, gain, weights=_weights(task, state))
        previous = value
        for half in (_admm_instances, _admm_kernels):
            trial = half(task, state)
            reached = objective(task, trial)
            if reached <= value:
                state, value = trial, reached
        gain = (previous - value) / max(previous, np.finfo(float).tiny)


def _admm_instances(task: Task, state: State) -> State:
    return with_instances(state, _admm_fit(task.instance_problem(state), task.instance_budget))


def _admm_kernels(task: Task, state: State) -> State:
    if not len(state.instances):
        return state
    return with_kernels(state, _admm_fit(task.kernel_problem(state.instances, state.dual_coef), task.kernel_budget))


def _admm_fit(problem: Quadratic, budget: Budget) -> Fit:
    gram = problem.columns(np.arange(problem.size))
    rho = np.trace(gram) / problem.size or 1.0
    split = sparse_least_squares(gram, problem.cross, budget.limit, rho=rho, max_iter=150)
    return fit_support(problem, prune(problem, budget, np.flatnonzero(np.any(split.sparse != 0, axis=1))))


def paper_iterates(task: Task, start: State | None = None) -> Iterator[Iterate[State]]:
    """The algorithm as printed: rho = 1, intercept mean(F), 100 inner steps, no ridge, no refit.

    One output, one kernel per feature. Each inner problem starts from zero with the intercept of the
    last half step. What is returned is the projected copies (q, z), because the others are not sparse.
    The violation is max |mu - mu_old|.
    """
    design, L = _rows(task), task.design.n_kernels
    state = uniform_start(task) if start is None else start
    mu, b, change = spread(state.kernels, state.weights, L), 0.0, 1.0
    y, w = design.targets[:, 0], design.sample_weight
    while True:
        value = _paper_objective(task, state, b)
        yield Iterate(state, value, change, None if np.any(mu) else Status.COLLAPSED, _weights(task, state))
        with np.errstate(over="ignore", invalid="ignore"):  # it may overflow; the driver sees the objective
            A = design.stack.combine(mu).dense()
            lam = sparse_least_squares((A.T * w) @ A, A.T @ (w * (y + b)), task.max_instances, rho=1.0).sparse  # (17)
            instances = np.flatnonzero(lam)
            b = float(np.average(A[:, instances] @ lam[instances], weights=w))
            B = design.stack.take(cols=instances).apply(lam[instances])
            old = mu
            mu = sparse_least_squares((B.T * w) @ B, B.T @ (w * (y + b)), task.max_features, rho=1.0).sparse  # (24)
            b = float(np.average(B @ mu, weights=w))
            change = float(np.max(np.abs(mu - old)))
            kernels = np.flatnonzero(mu)
            state = State(instances, lam[instances, None], kernels, mu[kernels], np.array([-b]))


def _rows(task: Task) -> RowDesign:
    if task.design.look is None:
        raise ValueError("the printed algorithm works on rows, and only sums over rows are here: use another solver")
    return task.design.look


def _paper_objective(task: Task, state: State, b: float) -> float:
    """J at the printed intercept `b`."""
    design = _rows(task)
    F = np.zeros_like(design.targets)
    if len(state.instances) and len(state.kernels):
        weights = spread(state.kernels, state.weights, design.n_kernels)
        F = design.stack.combine(weights).columns(state.instances) @ state.dual_coef
    loss = 0.5 * float(design.sample_weight @ np.sum((F - b - design.targets) ** 2, axis=1))
    return loss + 0.5 * task.ridge * float(np.sum(state.dual_coef**2) * np.sum(state.weights**2))


SOLVERS = {"splicing": iterates, "admm": admm_iterates, "paper": paper_iterates}


def solve(
    task: Task,
    *,
    solver: str = "splicing",
    start: State | None = None,
    tol: float = 1e-4,
    max_iter: int = 30,
    callback: Callback | None = None,
) -> Solution[State]:
    """Run one of the solvers and fix the scale and sign of what it returns.

    A thorough splicing run without `start` is made from both starting points; the better one counts. A
    start without kernels could never gain any and is as good as none.
    """
    if start is not None and not len(start.kernels):
        start = None
    starts = [start]
    if start is None and solver == "splicing" and task.thorough:
        starts = [density_start(task), uniform_start(task)]
    runs = [run(SOLVERS[solver](task, s), tol=tol, max_iter=max_iter, callback=callback) for s in starts]
    best = runs[first_best(np.array([-solution.objective for solution in runs]))]
    return replace(best, state=normalised(best.state))


def _weights(task: Task, state: State) -> np.ndarray:
    """Weights of all kernels at one scale and sign."""
    state = normalised(state)
    return spread(state.kernels, state.weights, task.design.n_kernels)


def normalised(state: State) -> State:
    """|dual_coef| = 1 and the largest |weight| positive; the function is unchanged."""
    if not len(state.instances) or not len(state.kernels) or not np.any(state.dual_coef):
        empty = np.empty(0, dtype=int)
        return State(empty, np.empty((0, state.dual_coef.shape[1])), empty, np.empty(0))
    scale = _norm(state.dual_coef) * np.sign(state.weights[np.argmax(np.abs(state.weights))])
    i, m = np.argsort(state.instances), np.argsort(state.kernels)
    lam, mu = state.dual_coef[i] / scale, state.weights[m] * scale
    return State(state.instances[i], lam, state.kernels[m], mu, state.intercept)


def path(
    task: Task, budgets: Sequence[tuple[int, int]], *, tol: float = 1e-3, max_iter: int = 3
) -> dict[tuple[int, int], Solution[State]]:
    """Solve for pairs (max_instances, max_features), each from the best cell with smaller budgets.

    Returns {pair: solution}. A cell that ends above one with smaller budgets takes that solution, so J
    is non-increasing in both budgets if `budgets` comes in an order that has smaller pairs first.
    """
    cells: dict[tuple[int, int], Solution[State]] = {}
    for pair in budgets:
        smaller = [cell for done, cell in cells.items() if done[0] <= pair[0] and done[1] <= pair[1]]
        best = min(smaller, key=lambda cell: cell.objective, default=None)
        part = replace(task, max_instances=pair[0], max_features=pair[1])
        cell = solve(part, start=None if best is None else best.state, tol=tol, max_iter=max_iter)
        cells[pair] = cell if best is None or cell.objective <= best.objective else best
    return cells
