"""Look for better instances among all rows, with sums and short kernel forms instead of kernel matrices.

For the present kernels and weights, ``A'A`` between any two rows is a product of their short
coefficient vectors with the sums over rows, so the gain of every exchange (drop instance j, take row i)
is known for all n rows in O(n (f p)^2), in blocks, without one column of A being formed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tamis.base.design import MomentDesign
from tamis.methods.em2nolc.solver import State, Task
from tamis.optim.subset import EXCHANGE, PIVOT, Fit, exchange_gains, fit_support
from tamis.parallel import thread_map


def better_rows(
    task: Task,
    state: State,
    short: Callable[[slice], Sequence[np.ndarray]],
    blocks: Sequence[slice],
) -> np.ndarray:
    """For each instance the row that would best replace it, where that lowers J; sorted.

    Parameters
    ----------
    task : with a MomentDesign
    state : with at least one instance
    short : coefficients (rows, size) of each kept kernel for the rows of a slice
    blocks : slices of all rows
    """
    design = task.design
    assert isinstance(design, MomentDesign)
    unit = state.weights / (np.linalg.norm(state.weights) or 1.0)
    at = np.concatenate([design.positions[m] for m in state.kernels.tolist()])
    centred, cross = design.sums.centred[np.ix_(at, at)], design.cross[at]
    problem = task.instance_problem(state)
    fit = fit_support(problem, state.instances)
    own = [w * design.short[m][state.instances] for w, m in zip(unit, state.kernels.tolist(), strict=True)]
    members = np.concatenate(own, axis=1)
    floor = PIVOT * problem.diagonal.max()

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
    worth = gains[best, members_of] > EXCHANGE * fit.objective
    return np.unique(rows[best, members_of][worth])
