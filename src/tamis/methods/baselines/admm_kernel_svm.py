"""The support vector machine of a kernel by ADMM on its dual, a baseline of [Zhang2022].

    min over alpha of 1/2 (alpha*y)'K(alpha*y) - sum(alpha)    subject to  y'alpha = 0,  0 <= alpha <= cost

    g(x) = 1/2 (x*y)'K(x*y) - sum(x) where y'x = 0,    h(z) = 0 where 0 <= z <= cost

| paper | here |
| --- | --- |
| alpha | ``dual_coef * y`` (n,) |
| C | `cost` (n,), one for every row |
| K(x_i, x_j) | `K` (n, n) |
| b | `intercept` |

With R the diagonal matrix of penalties and t = z - u, the step of x is the bordered system

    (K + R) beta + b 1 = y + R (y*t),    1'beta = 0,    x = y*beta

Departures from the paper, with reasons:

1. The penalties differ between rows and are adapted; see `admm`. K + R is factored anew when they change.
2. The coefficients that count are those of z, whose zeros are exact, scaled in one class so that y'alpha = 0 holds
   as well; the intercept is the best one for them.
3. The loop stops on the duality gap relative to the primal value, which certifies the machine that is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from tamis.base.stack_classifier import Answer, StackClassifier, Task
from tamis.codec import stored
from tamis.kernels.recipes import product
from tamis.methods.baselines.admm import ZHANG2022, Certificate, certified, splits
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.losses import slack
from tamis.optim.matrices import Matrix, factor, with_diagonal
from tamis.optim.svm import check_labels, relative_gap


@dataclass(frozen=True)
class Problem:
    """A kernel, labels and costs."""

    K: Matrix  # (n, n) symmetric, positive semi-definite
    y: np.ndarray  # (n,) in {-1, +1}, both present
    cost: np.ndarray  # (n,) zero or more, C times the weight of the row

    def __post_init__(self) -> None:
        check_labels(self.y, self.cost)

    def apply(self, dual_coef: np.ndarray) -> np.ndarray:
        """The kernel times a vector."""
        return self.K @ dual_coef

    def minimiser(self, penalty: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        try:
            factored = factor(with_diagonal(self.K, penalty))
        except LinAlgError:
            raise ValueError("K is not positive semi-definite: use a positive kernel, or repair its spectrum") from None
        ones = factored.solve(np.ones(len(self.y)))

        def minimise(t: np.ndarray) -> np.ndarray:
            plain = factored.solve(self.y * (1.0 + penalty * t))
            return self.y * (plain - plain.sum() / ones.sum() * ones)

        return minimise

    def prox(self, v: np.ndarray, penalty: np.ndarray) -> np.ndarray:
        return np.clip(v, 0.0, self.cost)

    def corner(self, z: np.ndarray) -> np.ndarray:
        return (z <= 0) | (z >= self.cost)


@dataclass(frozen=True)
class State:
    """A machine ``f = K dual_coef + intercept``."""

    dual_coef: np.ndarray  # (n,) ``alpha * y`` with exact zeros, ``0 <= alpha <= cost`` and ``y'alpha = 0``
    intercept: float  # the best one for `dual_coef`


def objective(problem: Problem, state: State) -> float:
    """The dual objective, which is negative."""
    energy = float(state.dual_coef @ problem.apply(state.dual_coef))
    return 0.5 * energy - float(problem.y @ state.dual_coef)


def violation(problem: Problem, state: State) -> float:
    """The gap between the primal value of the machine and the dual one, relative to the primal value."""
    f = problem.apply(state.dual_coef)
    primal = 0.5 * float(state.dual_coef @ f) + float(problem.cost @ slack(f + state.intercept, problem.y))
    return relative_gap(primal, certified(state.dual_coef * problem.y, problem.y, problem.cost, problem.apply).dual)


def iterates(problem: Problem, start: State | None = None) -> Iterator[Iterate[State]]:
    """Step; the objective need not fall from one iterate to the next."""
    y, n = problem.y, len(problem.y)
    alpha, margin = np.zeros(n), np.ones(n)
    if start is not None:
        alpha, margin = start.dual_coef * y, y * (problem.apply(start.dual_coef) + start.intercept)
    yield _iterate(certified(alpha, y, problem.cost, problem.apply))
    spread = float(np.mean(problem.K.diagonal()) - np.mean(problem.K @ np.full(n, 1.0 / n)))
    size = float(np.sqrt(spread / problem.cost.mean())) if spread > 0 else 1.0
    for split in splits(problem, alpha, 1.0 - margin, size):
        yield _iterate(certified(split.z, y, problem.cost, problem.apply))


def _iterate(machine: Certificate) -> Iterate[State]:
    return Iterate(State(machine.dual_coef, machine.intercept), -machine.dual, machine.gap)


def solve(
    problem: Problem,
    *,
    start: State | None = None,
    tol: float = 1e-4,
    max_iter: int = 1000,
    callback: Callback | None = None,
) -> Solution[State]:
    """Minimise the dual objective to a relative duality gap of `tol`."""
    return run(iterates(problem, start), tol=tol, max_iter=max_iter, monotone=False, callback=callback)


# ---------------------------------------------------------------------- the estimator


@stored
class KernelSVMADMM(StackClassifier):
    """Kernel support vector machine by ADMM on its dual, the SVMC of [Zhang2022].

    Parameters
    ----------
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    max_iter : int, default=1000
        Most steps.
    pool : int or None, default=None
        Number of training rows to learn from, drawn from every class in proportion, whatever their order. Kept cases
        are among these, and `pool_error_` is the error on the others. None, or at least as many as there are: all rows.
    device : str or None, default=None
        "cuda" or "cuda:1" holds kernel matrices on that device and works on them there, in float64; "cpu" does so by
        torch (both need ``pip install 'tamis[gpu]'``); None is numpy. The model is the same up to rounding.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        None is `tamis.product("all")`, one Gaussian on all features. Of several kernels the mean is taken, as
        `AverageMKLClassifier` does.
    tol : float, default=0.0001
        Relative duality gap at which the fit stops.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities and move the intercept to probability one
        half. None: no `predict_proba`, the method's own intercept, and a faster fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" gives all classes the same total weight.
    scaling : {"standard", "rank", None}, default="standard"
        "standard": numbers of mean zero and variance one; "rank": ranks, for long tails; None: numbers as they are.
    missing : {"absent", "median", None}, default="absent"
        "absent": a missing cell contributes nothing; in a kernel on several features it is replaced by the mean (by
        zero with ``scaling=None``), and an indicator adds 1 to the squared distance. "median": it is filled with the
        training median, or the most frequent category. None: missing cells are refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto": columns of text, booleans or a categorical type are categories. Columns of numeric codes must be named.
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
    pool_error_ : where a pool was drawn, the share of other training rows (up to 20 000 of them, by their weights) that
        are predicted wrong
    kernel_weights_ : weights of the kernels, adding up to one
    dual_coef_ : coefficients of the rows
    instance_importance_ : signed percentages of the coefficients
    kernel_importance_, feature_importance_ : percentages of the weights; of features where every kernel stands on one
    classes_, instances_per_class_ : the class labels, sorted (of two the second is positive); instances of each output
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features, as positions in X; kept kernels and their names
    intercept_ : of each output
    instance_variation_, kernel_variation_, feature_variation_ : shares in the variation of the decision over training
        rows, in per cent; of features where every kernel stands on one
    pairs_ : pairs of features that have a `surface`, by name, those that matter most first
    history_ : objective, violation and seconds of every round; a list where several problems were solved
    n_iter_, objective_, status_ : most rounds of all problems; final objective, summed over them; how the fit ended
    n_features_in_, feature_names_in_ : columns of X, and their names where it has them

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import KernelSVMADMM
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> bool(KernelSVMADMM(calibration=None).fit(X, y).score(X, y) > 0.97)
    True
    """

    citation = ZHANG2022
    _recipe = product("all")
    _form = "streaming"
    _squares = 4.3
    _pools = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        max_iter: int = 1000,
        pool: int | None = None,
        device: str | None = None,
        kernels: Any = None,
        tol: float = 0.0001,
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
        self.max_iter = max_iter
        self.pool = pool
        self.device = device
        self.kernels = kernels
        self.tol = tol
        self.calibration = calibration
        self.class_weight = class_weight
        self.scaling = scaling
        self.missing = missing
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def _solve(self, task: Task) -> Answer:
        L = task.stack.shape[0]
        weights = np.full(L, 1.0 / L)
        problem = Problem(task.stack.matrix(weights), task.y, task.cost)
        solution = solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._log_callback())
        return Answer(solution.state.dual_coef, weights, solution.state.intercept, solution)
