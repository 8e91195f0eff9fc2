"""EM2NOLC on sums over rows: better instances from all rows, and a last fit with exact kernels.

For the present kernels and weights, ``A'A`` between any two rows is a product of their short coefficient vectors with
the sums over rows, so the gain of every exchange (drop instance j, take row i) is known for all n rows in
O(n (f p)^2), in blocks, without one column of A being formed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tamis.base.design import MomentDesign, RowDesign, Sums
from tamis.base.kernel_model import Coefficients, KernelModel
from tamis.base.kernel_space import Pool
from tamis.errors import warn
from tamis.methods.em2nolc import solver as method
from tamis.methods.em2nolc.refit import coefficients
from tamis.methods.em2nolc.solver import State, Task
from tamis.optim.driver import Solution
from tamis.optim.subset import MIN_GAIN, PIVOT_TOL, Fit, exchange_gains, fit_support
from tamis.parallel import thread_map
from tamis.statistics.fit import PreparedSums
from tamis.statistics.profile import SAMPLE_ROWS
from tamis.statistics.sums import CHUNK_ROWS, PairFunctions

DECISION_TOL = 1e-4  # error of a decision that calls for exact kernels
MAX_REREAD_WEIGHT = 2e6  # rows (in weight) that are not read again for the sake of a close choice
MAX_PAIRS = 2000  # of instance and kernel that an exact refit takes on


def widened(prepared: PreparedSums, task: Task, state: State) -> PreparedSums:
    """The same with rows as further candidates that would improve on the present instances."""
    rows, encoder, kept = prepared.summary.rows, prepared.encoder, state.kernels.tolist()
    if rows is None or not len(state.instances):
        return prepared
    columns = np.array([prepared.bank.channels[m].columns[0] for m in kept])
    small = encoder.select(columns)

    def short(block: slice) -> list[np.ndarray]:
        Z = np.full((len(rows.codes[block]), len(encoder.names)), np.nan)
        Z[:, columns] = small.encode(rows.table.take(block).select(columns))
        return prepared.short(Z, kept)

    blocks = [slice(start, min(start + CHUNK_ROWS, len(rows))) for start in range(0, len(rows), CHUNK_ROWS)]
    found = better_rows(task, state, short, blocks)
    found = found[~np.isin(rows.position[found], prepared.pool.position)]
    more = Pool(encoder.encode(rows.table.take(found)), rows.codes[found], rows.position[found])
    pool = Pool(*(np.concatenate(pair) for pair in zip(prepared.pool.parts, more.parts, strict=True)))
    return replace(prepared, pool=pool, summary=replace(prepared.summary, pool=pool))


def doubts(prepared: PreparedSums, task: Task, solution: Solution[State], found: Coefficients) -> bool:
    """Whether the error of the short forms matters, and all rows are at hand to do without them.

    It matters if a decision is wrong by more than `DECISION_TOL` on some candidate; where no exact refit can follow,
    that is warned of. For a weight of at most `MAX_REREAD_WEIGHT` it also matters if the error could change a choice:
    if the part of a member is wrong by e, J per unit of weight is wrong by ``mean(r e + e^2 / 2)``, with residuals r,
    estimated on the candidates plus two standard errors. That of the member which the closest exchange would drop
    counts twice, because the one that would come in errs too.
    """
    state = solution.state
    pairs = len(state.instances) * len(state.kernels)
    if not pairs:
        return False
    by_instance, by_kernel, residual = _errors(prepared, task, found)
    error = float(np.abs(by_kernel.sum(axis=1)).max())
    if prepared.summary.exact_sums is None or pairs > MAX_PAIRS:
        if error > DECISION_TOL:
            warn(
                f"the polynomials in the place of kernels move decisions by up to {error:.1g}, and there is no exact "
                "refit from statistics alone or of so many pairs: use more degrees or shorter ranges in the plan, a "
                "wider bandwidth or a larger alpha"
            )
        return False
    if error > DECISION_TOL or task.design.total_weight > MAX_REREAD_WEIGHT:
        return error > DECISION_TOL
    value = solution.objective / task.design.total_weight
    for (margin, member), parts in zip(method.closest_exchanges(task, state), (by_instance, by_kernel), strict=True):
        effect = np.sum(residual * parts[:, member] + 0.5 * parts[:, member] ** 2, axis=1)
        bound = abs(effect.mean()) + 2.0 * effect.std() / np.sqrt(len(effect))
        if margin * value <= 2.0 * bound:
            return True
    return False


def _errors(prepared: PreparedSums, task: Task, found: Coefficients) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """On the candidates: errors of the parts of instances (p, k, q) and kernels (p, f, q), residuals (p, q)."""
    Z, design = prepared.pool.Z, moments_of(task)
    by_instance = np.zeros((len(Z), len(found.instances), design.n_outputs))
    by_kernel = np.zeros((len(Z), len(found.kernels), design.n_outputs))
    residual = found.intercept - design.candidate_targets
    for k, m in enumerate(found.kernels.tolist()):
        channel = prepared.bank.channels[m]
        basis = prepared.summary.plan.functions.bases[channel.columns[0]]
        exact = channel(Z, Z[found.instances])
        error = basis.features(Z[:, channel.columns[0]]).T @ design.short[m][found.instances].T - exact
        coef = found.coef[:, :, k].T  # (instances, q)
        by_instance += error[:, :, None] * coef
        by_kernel[:, k] = error @ coef
        residual = residual + exact @ coef
    return by_instance, by_kernel, residual


def warn_of_cancellation(
    prepared: PreparedSums, problems: Sequence[Task], solutions: Sequence[Solution[State]], model: KernelModel
) -> None:
    """Warn if the squared error of rank-one coefficients is not that on rows: they are so large that digits cancel."""
    look = prepared.summary.sample
    if look is None:
        return
    weight = problems[0].design.total_weight
    ridge = problems[0].ridge * float(np.sum(model.expansion.coef**2))
    by_sums = (2.0 * sum(solution.objective for solution in solutions) - ridge) / weight
    squares = np.sum((model.decision(look.table) - look.targets) ** 2, axis=1)
    by_rows = float(np.average(squares, weights=look.weight))
    rows = prepared.summary.rows
    all_seen = rows is not None and len(rows) <= SAMPLE_ROWS
    noise = 0.0 if all_seen else float(squares.std()) / np.sqrt(len(squares))
    if abs(by_sums - by_rows) > 0.02 * abs(by_rows) + 6.0 * noise:
        warn(
            f"the squared error is {by_rows:.3g} on rows and {by_sums:.3g} by their sums: coefficients are so large "
            "that digits cancel; raise alpha or take a narrower bandwidth"
        )


def refit_exactly(
    prepared: PreparedSums, task: Task, solution: Solution[State], *, coupling: str, refit: str
) -> tuple[Coefficients, Solution[State]]:
    """Fit the kernel weights (every pair if "full") of the chosen instances and kernels again, from their
    exact values on all rows.

    The choice itself stays: its margin is below the accuracy of the short forms.
    """
    state = solution.state
    exact, start = _exact(prepared, task, state)
    problem = exact.kernel_problem(start.instances, start.dual_coef)
    fit = fit_support(problem, start.kernels)
    found = coefficients(exact, method.with_kernels(start, fit), coupling=coupling, refit=refit)
    back = replace(found, instances=state.instances[found.instances], kernels=state.kernels[found.kernels])
    return back, replace(solution, objective=fit.objective)


def _exact(prepared: PreparedSums, task: Task, state: State) -> tuple[Task, State]:
    """The problem on the chosen instances and kernels only, from exact kernel values of all rows."""
    again, design = prepared.summary.exact_sums, moments_of(task)
    assert again is not None
    bank = prepared.bank.take(state.kernels)
    columns = bank.columns
    functions = PairFunctions(bank.relabel(columns), prepared.pool.Z[np.ix_(state.instances, columns)])

    def look() -> RowDesign | None:
        whole = design.look
        if whole is None:
            return None
        return replace(whole, stack=whole.stack.take(cols=state.instances, kernels=state.kernels))

    sums = again(functions, prepared.encoder.select(columns), columns)
    f, k = len(state.kernels), len(state.instances)
    exact = MomentDesign(
        Sums.of(sums),
        design.coding,
        functions.positions,
        [np.eye(k)] * f,
        design.codes[state.instances],
        design.corners.take(state.instances, state.instances, state.kernels),
        look,
    )
    incidence = None if task.incidence is None else task.incidence[state.kernels]
    start = replace(state, instances=np.arange(k), kernels=np.arange(f))
    return replace(task, design=exact, incidence=incidence, thorough=False), start


def moments_of(task: Task) -> MomentDesign:
    """The design of a problem on sums."""
    assert isinstance(task.design, MomentDesign)
    return task.design


# ---------------------------------------------------------------------- better rows


def better_rows(
    task: Task,  # with a MomentDesign
    state: State,  # with at least one instance
    # coefficients (rows, size) of each kept kernel for the rows of a slice
    short: Callable[[slice], Sequence[np.ndarray]],
    blocks: Sequence[slice],  # slices of all rows
) -> np.ndarray:
    """For each instance the row that would best replace it, where that lowers J; sorted."""
    design = moments_of(task)
    unit = state.weights / (np.linalg.norm(state.weights) or 1.0)
    at = np.concatenate([design.positions[m] for m in state.kernels.tolist()])
    centred, cross = design.sums.centred[np.ix_(at, at)], design.cross[at]
    problem = task.instance_problem(state)
    fit = fit_support(problem, state.instances)
    own = [w * design.short[m][state.instances] for w, m in zip(unit, state.kernels.tolist(), strict=True)]
    members = np.concatenate(own, axis=1)
    floor = PIVOT_TOL * problem.diagonal.max()

    def look(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        U = np.concatenate([w * a for w, a in zip(unit, short(rows), strict=True)], axis=1)
        image = U @ centred
        columns = (image @ members.T).T
        influence = fit.inverse @ columns
        diagonal = np.einsum("ij,ij->i", image, U)
        pivot = diagonal + task.ridge - np.einsum("ij,ij->j", columns, influence)
        residual = U @ cross - columns.T @ fit.coef
        gain = exchange_gains(Fit(fit.support, fit.coef, fit.objective, fit.inverse, influence, residual, pivot), floor)
        best = np.argmax(gain, axis=1)
        return gain[np.arange(len(gain)), best], rows.start + best

    found = thread_map(look, blocks)
    gains, rows = (np.array(part) for part in zip(*found, strict=True))
    best = np.argmax(gains, axis=0)
    members_of = np.arange(gains.shape[1])
    worth = gains[best, members_of] > MIN_GAIN * fit.objective
    return np.unique(rows[best, members_of][worth])
