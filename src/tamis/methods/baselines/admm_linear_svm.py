"""The linear support vector machine by ADMM on its margins, a baseline of [Zhang2022].

    min over w and b of 1/2 |w|^2 + sum_i cost_i max(0, 1 - y_i (x_i'w + b))

    g(x) = min of 1/2 |w|^2 over w and b with y_i (x_i'w + b) = x_i,    h(z) = sum_i cost_i max(0, 1 - z_i)

| paper | here |
| --- | --- |
| w, b | `w` (d,), `intercept` |
| C | `cost` (n,), one for every row |
| instance coefficients | `dual_coef` (n,), ``alpha * y``: alpha is minus the multiplier of the margins |

Departures from the paper, with reasons:

1. The paper splits w and descends on the hinge for it (hundreds of seconds); split on the margins both steps are
   exact, a linear system of size d + 1 and the proximal operator of the hinge, and alpha has exact zeros.
2. The penalties differ between rows and are adapted; see `admm`.
3. The machine that counts is the one of its dual coefficients, w = sum_i alpha_i y_i x_i, for it is what an
   expansion stores. That sum of large terms is right long after the w of the linear system is, so alpha is moved
   on the rows next to their margin until the two agree, where this narrows the gap.
4. The loop stops on the duality gap relative to the objective, which certifies the machine that is returned; the
   paper stops on residuals, whose size is no measure of accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from tamis.base.kernel_model import Coefficients
from tamis.codec import stored
from tamis.methods.baselines.admm import ZHANG2022, Certificate, certified, factored, splits
from tamis.methods.baselines.linear import Coordinates, Found, LinearClassifier
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.losses import slack
from tamis.optim.prox import prox_hinge
from tamis.optim.svm import check_labels, relative_gap
from tamis.table.rows import Rows, check_cost

ROWS_PER_DIMENSION = 2  # rows next to their margin on which alpha is moved, for every dimension
MAX_MOVES = 4  # how often it is moved, leaving out the rows that met an end of their range
RIDGE = 1e-10  # added to the system for the moves, relative to its trace
ROUNDING_SHARE = 1e-8  # share of the decisions that rounding of the terms of support vectors may reach


@dataclass(frozen=True)
class Problem:
    """Rows, labels and costs."""

    X: np.ndarray  # (n, d) finite; the intercept is not penalised, but columns should have similar scales
    y: np.ndarray  # (n,) in {-1, +1}, both present
    cost: np.ndarray  # (n,) zero or more, C times the weight of the row

    def __post_init__(self) -> None:
        check_labels(self.y, self.cost)

    @cached_property
    def design(self) -> np.ndarray:
        """Centred rows with a constant column of their size (n, r + 1).

        Where rows are fewer than columns they are given by coordinates of their span.
        """
        centred = self.X - self.X.mean(axis=0)
        if centred.shape[1] > len(centred):
            centred = np.linalg.qr(centred.T)[1].T
        return np.column_stack([centred, np.full(len(centred), np.sqrt(np.mean(centred**2)) or 1.0)])

    def apply(self, dual_coef: np.ndarray) -> np.ndarray:
        """The Gram matrix of the rows times a vector."""
        return self.X @ (self.X.T @ dual_coef)

    def minimiser(self, penalty: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        A = self.design
        system = (A.T * penalty) @ A
        system.flat[: -1 : len(system) + 1] += 1.0
        factor = factored(system)
        return lambda t: self.y * (A @ cho_solve(factor, A.T @ (penalty * self.y * t)))

    def prox(self, v: np.ndarray, penalty: np.ndarray) -> np.ndarray:
        return prox_hinge(v, self.cost / penalty)

    def corner(self, z: np.ndarray) -> np.ndarray:
        return z == 1.0


@dataclass(frozen=True)
class State:
    """A machine ``f(x) = x'w + intercept``."""

    dual_coef: np.ndarray  # (n,) ``alpha * y`` with exact zeros, ``0 <= alpha <= cost`` and ``y'alpha = 0``
    w: np.ndarray  # (d,) ``X' dual_coef``
    intercept: float  # the best one for `w`


def objective(problem: Problem, state: State) -> float:
    """The primal objective."""
    f = problem.X @ state.w + state.intercept
    return 0.5 * float(state.w @ state.w) + float(problem.cost @ slack(f, problem.y))


def violation(problem: Problem, state: State) -> float:
    """The gap between the objective and the dual one of the coefficients, relative to the objective."""
    lower = certified(state.dual_coef * problem.y, problem.y, problem.cost, problem.apply).dual
    return relative_gap(objective(problem, state), lower)


def iterates(problem: Problem, start: State | None = None) -> Iterator[Iterate[State]]:
    """Step; the objective need not fall from one iterate to the next."""
    y, n = problem.y, len(problem.y)
    alpha, margin = np.zeros(n), np.zeros(n)
    if start is not None:
        alpha, margin = start.dual_coef * y, y * (problem.X @ start.w + start.intercept)
    yield _iterate(problem, certified(alpha, y, problem.cost, problem.apply))
    spread = float(np.sum(problem.design[:, :-1] ** 2)) / n or 1.0
    for split in splits(problem, margin, -alpha, float(np.sqrt(problem.cost.mean() / spread))):
        alpha = np.clip(-split.multiplier, 0.0, problem.cost)
        plain = certified(alpha, y, problem.cost, problem.apply)
        moved = certified(_moved(problem, alpha, split.x, split.slope), y, problem.cost, problem.apply)
        yield _iterate(problem, min(plain, moved, key=lambda machine: machine.gap))


def _moved(problem: Problem, alpha: np.ndarray, margin: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Move alpha on the rows next to their margin so that it gives the w of `target`, whose values leave the box."""
    A, y = problem.design, problem.y
    rows = np.argsort(np.abs(1.0 - margin), kind="stable")[: ROWS_PER_DIMENSION * A.shape[1]]
    alpha = alpha.copy()
    for _ in range(MAX_MOVES):
        if not len(rows):
            break
        part = A[rows]
        system = part.T @ part
        system.flat[:: len(system) + 1] += RIDGE * np.trace(system)
        want = alpha[rows] + y[rows] * (part @ np.linalg.solve(system, A.T @ (y * (target - alpha))))
        alpha[rows] = np.clip(want, 0.0, problem.cost[rows])
        inside = alpha[rows] == want
        if np.all(inside):
            break
        rows = rows[inside]
    return alpha


def _iterate(problem: Problem, machine: Certificate) -> Iterate[State]:
    state = State(machine.dual_coef, problem.X.T @ machine.dual_coef, machine.intercept)
    return Iterate(state, machine.primal, machine.gap)


def solve(
    problem: Problem,
    *,
    start: State | None = None,
    tol: float = 1e-4,
    max_iter: int = 1000,
    callback: Callback | None = None,
) -> Solution[State]:
    """Minimise the objective to a relative duality gap of `tol`."""
    return run(iterates(problem, start), tol=tol, max_iter=max_iter, monotone=False, callback=callback)


# ---------------------------------------------------------------------- the estimator


@stored
class LinearSVMADMM(LinearClassifier):
    """Linear support vector machine by ADMM, the LSVMC of [Zhang2022].

    Minimises ``1/2 |w|^2 + C sum_i max(0, 1 - y_i (x_i'w + b))`` with a free intercept. A category is one indicator
    per level. The decision is the sum over support vectors of linear kernels, one per feature.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    tol : float, default=0.0001
        Relative duality gap at which the fit stops.
    max_iter : int, default=1000
        Most steps.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities and move the intercept to probability one
        half. None: no `predict_proba`, the method's own intercept, and a faster fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" gives all classes the same total weight.
    scaling : {"standard", "rank", None}, default="standard"
        "standard": numbers of mean zero and variance one; "rank": ranks, for long tails; None: numbers as they are.
    missing : {"absent", "median", None}, default="absent"
        "absent": a missing cell contributes nothing, as the mean would; "median": filled with the training median (the
        most frequent category); None: refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto": columns of text, booleans or a categorical type are categories. Columns of numeric codes must be named.
        A category is one indicator per level.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of everything else that is drawn at random. None is the same as 0.
    n_jobs : int or None, default=None
        Number of processes for the folds; None is one.
    memory_limit : int, float, str or None, default=None
        Largest memory of a fit in bytes, as a number or as text such as "2GB"; None: what is available. A fit that
        would need more (see `memory_estimate`) is refused before it starts.
    verbose : int, default=0
        Whether to log every round of the fit; 0 is silent.

    Attributes
    ----------
    kernel_weights_ : the weight of each kept feature in scaled units; of a category the norm over its levels
    dual_coef_, intercept_ : coefficients of the support vectors, and the intercept
    instance_importance_ : signed percentages of these
    kernel_importance_ : signed percentages of the weights
    feature_importance_ : the same for features, where every kernel stands on one
    classes_, instances_per_class_ : the class labels, sorted (of two the second is positive); instances of each output
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features, as positions in X; kept kernels and their names
    instance_variation_, kernel_variation_, feature_variation_ : shares in the variation of the decision over training
        rows, in per cent; of features where every kernel stands on one
    pairs_ : pairs of features that have a `surface`, by name, those that matter most first
    history_ : objective, violation and seconds of every round; a list where several problems were solved
    n_iter_, objective_, status_ : most rounds of all problems; final objective, summed over them; how the fit ended
    n_features_in_, feature_names_in_ : columns of X, and their names where it has them

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import LinearSVMADMM
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> bool(LinearSVMADMM(C=0.1, calibration=None).fit(X, y).score(X, y) > 0.97)
    True
    """

    citation = ZHANG2022

    def __init__(
        self,
        C: float = 1.0,
        *,
        tol: float = 0.0001,
        max_iter: int = 1000,
        calibration: int | None = 3,
        class_weight: Any = None,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        memory_limit: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.calibration = calibration
        self.class_weight = class_weight
        self.scaling = scaling
        self.missing = missing
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def summary(self) -> dict[str, Any]:
        return {"cost C": self.C}

    def _solve(self, points: Coordinates, y: np.ndarray, rows: Rows) -> Found:
        problem = Problem(points.P, y, check_cost(self.C, rows.absolute_weight))
        solution = solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._log_callback())
        state = solution.state
        _check_digits(points.P, state)
        ones = np.ones(rows.table.numbers.shape[1])
        return Found(Coefficients.rank_one(state.dual_coef, ones, state.intercept), solution, state.dual_coef)


def _check_digits(P: np.ndarray, state: State) -> None:
    """Refuse support vectors whose terms are so large that their sum has too few digits left."""
    terms = float(np.max(np.abs(P) @ (np.abs(P).T @ np.abs(state.dual_coef)), initial=0.0))
    decision = float(np.max(np.abs(P @ state.w + state.intercept), initial=0.0))
    if terms * np.finfo(float).eps > ROUNDING_SHARE * max(decision, 1.0):
        raise ValueError(
            f"scaling=None: columns of X reach {np.max(np.abs(P)):.1e} from their mean, and the terms of the support "
            f"vectors, up to {terms:.1e}, cancel to decisions of {decision:.1e}, which rounding would spoil: use "
            "scaling='standard', or other units"
        )
