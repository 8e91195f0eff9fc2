"""Quadratic programs over orthants and second-order cones, by the interior-point solver clarabel.

    min_x  1/2 x'Px + q'x    subject to  h - Gx in K

K is a product of cones, block after block of the rows of G: a non-negative orthant {s : s >= 0}, or a second-order
cone {(t, s) : |s| <= t}. The dual is

    max over x, z in K of  -1/2 x'Px - h'z    subject to  Px + q + G'z = 0

and the solver ends with a point of both. The solver is an extra: nothing else in the library needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import numpy as np
from scipy.sparse import csc_matrix, triu

TOL = 1e-8  # of gap and residuals, relative to the size of the problem
REDUCED_TOL = 1e-6  # the same for a solution of reduced accuracy

Cone = tuple[Literal["orthant", "second_order"], int]


class Outcome(Enum):
    """How the solver ended; the value is a sentence for users."""

    SOLVED = "the optimality conditions hold to the tolerance"
    ROUGH = "the optimality conditions hold to reduced accuracy"
    FAILED = "the solver found no point that satisfies the optimality conditions"
    INFEASIBLE = "no point satisfies the constraints"
    UNBOUNDED = "the objective has no minimum"


OUTCOMES = {
    "Solved": Outcome.SOLVED,
    "AlmostSolved": Outcome.ROUGH,
    "PrimalInfeasible": Outcome.INFEASIBLE,
    "AlmostPrimalInfeasible": Outcome.INFEASIBLE,
    "DualInfeasible": Outcome.UNBOUNDED,
    "AlmostDualInfeasible": Outcome.UNBOUNDED,
}  # by clarabel's status


@dataclass(frozen=True)
class ConicSolution:
    """The last point of the solver."""

    x: np.ndarray  # (d,)
    duals: np.ndarray  # (rows,) z, in K
    objective: float  # ``1/2 x'Px + q'x``
    bound: float  # the dual objective, which is at most the optimum but for residuals
    iterations: int
    # how the solver ended; unless it is `SOLVED` or `ROUGH` the numbers are no solution, and may be NaN
    outcome: Outcome


def solve_conic(
    quadratic: Any, linear: np.ndarray, constraints: Any, offset: np.ndarray, cones: Sequence[Cone]
) -> ConicSolution:
    """Solve ``min_x 1/2 x'Px + q'x`` subject to ``h - Gx in K``.

    Parameters
    ----------
    quadratic : P (d, d) symmetric positive semi-definite
    linear : q (d,)
    constraints, offset : G (rows, d) and h (rows,); P and G dense or sparse
    cones : kind and number of rows, one or more, of each block, in the order of the rows

    Notes
    -----
    The same input gives the same output.
    """
    try:
        import clarabel
    except ImportError:
        raise ImportError("conic programs need clarabel: pip install 'tamis[solvers]'") from None
    rows = sum(size for _, size in cones)
    if rows != len(offset):
        raise ValueError(f"cones have {rows} rows and offset has {len(offset)}: give every row one cone")
    kinds = {"orthant": clarabel.NonnegativeConeT, "second_order": clarabel.SecondOrderConeT}
    blocks = [kinds[kind](size) for kind, size in cones]
    solution = clarabel.DefaultSolver(
        triu(csc_matrix(quadratic), format="csc"), linear, csc_matrix(constraints), offset, blocks, _settings(clarabel)
    ).solve()
    return ConicSolution(
        np.array(solution.x),
        np.array(solution.z),
        float(solution.obj_val),
        float(solution.obj_val_dual),
        int(solution.iterations),
        OUTCOMES.get(str(solution.status), Outcome.FAILED),
    )


def _settings(clarabel: Any) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.direct_solve_method = "qdldl"  # one thread, so that sums have one order; and the fastest where G is narrow
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOL
    settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = REDUCED_TOL
    return settings
