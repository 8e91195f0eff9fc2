"""EM2NOLC on sums over rows: better instances from all rows, and a last fit with exact kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tamis.estimators.model import Pool
from tamis.estimators.summary import PreparedSums
from tamis.expansion import Coefficients
from tamis.kernels.statistics import CHUNK, Block, PairFunctions, outer_sums
from tamis.methods import em2nolc as method
from tamis.methods.design import MomentDesign, RowDesign, Sums
from tamis.methods.em2nolc import State, Task
from tamis.methods.polish import better_rows
from tamis.methods.refit import coefficients
from tamis.optim.driver import Solution

REFIT_TOL = 1e-10  # relative decrease of J at which the exact refit stops
MOST_PAIRS = 2000  # of instance and kernel that an exact refit takes on


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

    blocks = [slice(start, min(start + CHUNK, len(rows))) for start in range(0, len(rows), CHUNK)]
    found = better_rows(task, state, short, blocks)
    found = found[~np.isin(rows.position[found], prepared.pool.position)]
    more = Pool(encoder.encode(rows.table.take(found)), rows.codes[found], rows.position[found])
    pool = Pool(*(np.concatenate(pair) for pair in zip(prepared.pool.parts, more.parts, strict=True)))
    return replace(prepared, pool=pool, summary=replace(prepared.summary, pool=pool))


def doubts(prepared: PreparedSums, task: Task, solution: Solution[State]) -> bool:
    """Whether a choice hangs on less than the error of the short forms, and all rows are at hand.

    What counts is the error in the part of the member that the closest exchange would drop, twice,
    because the member that would come in has one too.
    """
    state = solution.state
    pairs = len(state.instances) * len(state.kernels)
    if prepared.summary.rows is None or not 0 < pairs <= MOST_PAIRS:
        return False
    residual = np.sqrt(2.0 * solution.objective / task.design.total_weight)
    errors = zip(method.closest_exchanges(task, state), _errors(prepared, task, state), strict=True)
    return any(margin * residual <= 4.0 * sizes[member] for (margin, member), sizes in errors)


def _errors(prepared: PreparedSums, task: Task, state: State) -> tuple[np.ndarray, np.ndarray]:
    """Root mean square error, on the candidates, of the part of each instance (k,) and each kernel (f,)."""
    Z, design = prepared.pool.Z, _moments(task)
    by_instance = np.zeros((len(Z), *state.dual_coef.shape))
    by_kernel = []
    for weight, m in zip(state.weights, state.kernels.tolist(), strict=True):
        channel = prepared.bank.channels[m]
        basis = prepared.summary.plan.functions.bases[channel.columns[0]]
        short = basis.features(Z[:, channel.columns[0]]).T @ design.short[m][state.instances].T
        error = weight * (short - channel(Z, Z[state.instances]))
        by_instance += error[:, :, None] * state.dual_coef
        by_kernel.append(np.sqrt(np.mean(np.sum((error @ state.dual_coef) ** 2, axis=1))))
    return np.sqrt(np.mean(np.sum(by_instance**2, axis=2), axis=0)), np.array(by_kernel)


def refit_exactly(
    prepared: PreparedSums, task: Task, solution: Solution[State], *, coupling: str, refit: str
) -> tuple[Coefficients, Solution[State]]:
    """Fit the coefficients of the chosen instances and kernels again, with their exact values on all rows.

    The choice itself stays: what it hangs on is less than the short forms can tell.
    """
    state = solution.state
    exact, start = _exact(prepared, task, state)
    again = method.solve(exact, start=start, tol=REFIT_TOL)
    found = coefficients(exact, again.state, coupling=coupling, refit=refit)
    back = replace(found, instances=state.instances[found.instances], kernels=state.kernels[found.kernels])
    return back, replace(solution, objective=again.objective)


def _exact(prepared: PreparedSums, task: Task, state: State) -> tuple[Task, State]:
    """The problem on the chosen instances and kernels only, from exact kernel values of all rows."""
    rows, design = prepared.summary.rows, _moments(task)
    assert rows is not None
    bank = prepared.bank.take(state.kernels)
    columns = bank.columns
    small, even = prepared.encoder.select(columns), bool(np.all(rows.weight == 1.0))
    functions = PairFunctions(bank.relabel(columns), prepared.pool.Z[np.ix_(state.instances, columns)])

    def read(chunk: slice) -> Block:
        Z = small.encode(rows.table.take(chunk).select(columns))
        return Block(Z, rows.codes[chunk], None if even else rows.weight[chunk], np.zeros(len(Z), dtype=int))

    def look() -> RowDesign | None:
        whole = design.look
        if whole is None:
            return None
        return replace(whole, stack=whole.stack.take(cols=state.instances, kernels=state.kernels))

    sums = outer_sums(functions, read, len(rows), n_classes=len(rows.classes), n_parts=1)[0]
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


def _moments(task: Task) -> MomentDesign:
    assert isinstance(task.design, MomentDesign)
    return task.design
