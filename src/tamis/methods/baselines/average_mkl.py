"""The yardstick of multiple kernel learning: a support vector machine on the unweighted mean of the kernels.

    min over beta, b    1/2 beta'K beta + sum_i cost_i max(0, 1 - y_i ((K beta)_i + b)),    K = (1/L) sum_l K_l

No weights are learned, so none can be overfitted; whatever learns them should beat it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.base.stack_classifier import Answer, StackClassifier, Task
from tamis.codec import stored
from tamis.kernels.stacks.base import KernelStack
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.svm import relative_gap, solve_svm

MARGIN_FACTOR = 10.0  # margins are solved to this fraction of tol when the gap requires it
MAX_ATTEMPTS = 4


@dataclass(frozen=True)
class Problem:
    """Kernels (L, n, n), labels (n,) in {-1, +1}, costs (n,)."""

    stack: KernelStack
    y: np.ndarray
    cost: np.ndarray


@dataclass(frozen=True)
class State:
    """Weights (L,), all equal, with the machine on the mean."""

    weights: np.ndarray
    dual_coef: np.ndarray
    intercept: float


def iterates(problem: Problem, tol: float) -> Iterator[Iterate[State]]:
    """Machines of growing precision; the violation is the relative duality gap."""
    L = problem.stack.shape[0]
    weights = np.full(L, 1.0 / L)
    K = problem.stack.matrix(weights)
    for attempt in range(MAX_ATTEMPTS):
        machine = solve_svm(K, problem.y, problem.cost, tol=tol / MARGIN_FACTOR**attempt)
        gap = relative_gap(machine.primal, machine.value)
        yield Iterate(State(weights, machine.dual_coef, machine.intercept), machine.value, gap, weights=weights)


def solve(problem: Problem, *, tol: float = 1e-3, callback: Callback | None = None) -> Solution[State]:
    """Solve to a relative duality gap of `tol`."""
    return run(iterates(problem, tol), tol=tol, max_iter=MAX_ATTEMPTS + 1, callback=callback)


# ---------------------------------------------------------------------- the estimator


@stored
class AverageMKLClassifier(StackClassifier):
    """Support vector machine on the unweighted mean of the kernels: the yardstick of multiple kernel learning.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    landmarks : int or None, default=None
        Number of training rows, drawn from every class, through which kernels are approximated (Nystrom). Time and
        memory are then linear in the rows, the model is a sum over landmarks, and `landmark_error_` reports what the
        kernels lost. None, or at least as many as there are distinct rows: exact kernels.
    device : str or None, default=None
        "cuda" or "cuda:1" holds kernel matrices on that device and works on them there, in float64; "cpu" does so by
        torch (both need ``pip install 'tamis[gpu]'``); None is numpy. The model is the same up to rounding.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        None is `tamis.bandwidths()`, ten Gaussians on all features; see also `tamis.per_feature()`,
        `tamis.precomputed()`.
    tol : float, default=0.001
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
    landmark_error_ : `LandmarkError` of the kept kernels where landmarks were used: the shares `mean` and `largest` of
        the variance k(x, x) of training rows that are lost, and the landmarks `rank` behind each kernel
    dual_coef_ : coefficients of the rows; of landmarks, their sums over kernels
    kernel_weights_ : weights of the kernels, adding up to one
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
    >>> from sklearn.datasets import load_iris
    >>> from tamis import AverageMKLClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> bool(AverageMKLClassifier(calibration=None).fit(X, y).score(X, y) > 0.95)
    True
    """

    _form = "streaming"
    _squares = 2.1

    def __init__(
        self,
        C: float = 1.0,
        *,
        landmarks: int | None = None,
        device: str | None = None,
        kernels: Any = None,
        tol: float = 0.001,
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
        self.landmarks = landmarks
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
        problem = Problem(task.stack, task.y, task.cost)
        solution = solve(problem, tol=self.tol, callback=self._log_callback())
        state = solution.state
        return Answer(state.dual_coef, state.weights, state.intercept, solution)
