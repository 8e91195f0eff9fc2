"""EasyMKL: kernel weights from the margin distribution of the mean kernel [Aiolli2015].

    min over gamma of (1 - lam) gamma'Y Kbar Y gamma + lam sum_i gamma_i^2 / weight_i
    subject to gamma >= 0, sum over the positive class = 1, sum over the negative class = 1
    weights_l proportional to gamma'Y K_l Y gamma, sum(weights) = 1
    then the support vector machine of sum_l weights_l K_l, cost_i = C weight_i

with Kbar the mean of the kernels and Y = diag(y). gamma'YKYgamma is the squared distance, in the space of K, of
two points of the convex hulls of the classes: a kernel gets weight as it holds them apart.

| paper | here |
| --- | --- |
| gamma | `gamma` (n,) |
| lambda | `lam`, in (0, 1] |
| eta_r | `weights` (L,), with sum one instead of norm one |
| K_r, sum of the K_r | kernels of the `stack`, their mean |

Departures from the paper, with reasons:

1. The mean of the kernels takes the place of their sum, so that `lam` means the same for any number of kernels.
2. Rows have weights: one of weight two is two equal rows.
3. The quadratic program is the hard-margin machine of (1 - lam) Kbar + lam diag(1 / weight), with
   gamma = 2 alpha / sum(alpha). Its energy is at least lam (1 / W+ + 1 / W-), with W the weights of the classes, so
   no alpha exceeds 2 over that, and a finite cost stands for none.
4. The machine of the combined kernel is an ordinary support vector machine; the weights do not depend on it.
5. Where every distance vanishes to rounding (all kernels are constant on the support of gamma) the weights are
   equal and the state says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.base.kernel_space import PreparedRows
from tamis.base.stack_classifier import Answer, StackClassifier, Task
from tamis.codec import stored
from tamis.errors import check_number, warn
from tamis.kernels.stacks.base import KernelStack
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.matrices import with_diagonal
from tamis.optim.svm import Machine, objectives, relative_gap, solve_svm, solve_svm_on

AIOLLI2015 = (
    "Aiolli, Fabio; Donini, Michele (2015). EasyMKL: a scalable multiple kernel learning algorithm. Neurocomputing."
)

MARGIN_TOLS = (1.0, 1e-3, 1e-6)  # tolerances of margins, relative to that of the gap
ROUGH_ERROR = 0.1  # of a kernel's largest value: how far a rough matrix may be off
ROUNDING = 1e-13  # a distance below this share of the energies of both classes is none


@dataclass(frozen=True)
class Problem:
    """Kernels, labels, weights of rows and the two parameters."""

    stack: KernelStack  # (L, n, n) positive semi-definite kernels
    y: np.ndarray  # (n,) in {-1, +1}, both present
    weight: np.ndarray  # (n,) positive
    lam: float  # in (0, 1]; towards one gamma becomes uniform in each class, towards zero it maximises the margin
    C: float  # cost of the last machine, per unit of weight


@dataclass(frozen=True)
class State:
    """Kernel weights with the machine of their combination."""

    weights: np.ndarray  # (L,) on the simplex
    dual_coef: np.ndarray  # (n,) ``alpha * y`` of the last machine
    intercept: float
    gamma: np.ndarray  # (n,) the margin distribution
    alike: bool  # whether no kernel holds the classes apart, and the weights are equal for want of a reason


def objective(problem: Problem, state: State) -> float:
    """The value of the quadratic program at gamma."""
    return _program(problem, state.gamma)[0]


def violation(problem: Problem, state: State) -> float:
    """The larger relative duality gap, of the quadratic program and of the last machine."""
    return max(_program(problem, state.gamma)[1], _machine_gap(problem, state))


def _program(problem: Problem, gamma: np.ndarray) -> tuple[float, float]:
    """Value and relative duality gap of the quadratic program.

    With H its matrix and a the sum of the least entries of H gamma in either class, x'H gamma >= a for every
    admissible x, so that sqrt(x'Hx gamma'H gamma) >= a, and the minimum is at least a^2 / (gamma'H gamma).
    """
    y = problem.y
    pull = y * _mean_matrix(problem).image(gamma * y)
    value = float(gamma @ pull)
    least = float(np.min(pull[y > 0]) + np.min(pull[y < 0]))
    return value, 1.0 - min(1.0, max(0.0, least / value)) ** 2


def _machine_gap(problem: Problem, state: State) -> float:
    image = problem.stack.combine(state.weights) @ state.dual_coef
    value, primal = objectives(image, problem.y, problem.C * problem.weight, state.dual_coef, state.intercept)
    return relative_gap(primal, value)


def _mean_matrix(problem: Problem) -> _Ridged:
    """``(1 - lam) Kbar + lam diag(1 / weight)``, the matrix of the quadratic program but for the signs."""
    L = problem.stack.shape[0]
    return _Ridged(problem.stack, np.full(L, (1.0 - problem.lam) / L), problem.lam / problem.weight)


@dataclass(frozen=True)
class _Ridged:
    """The matrix ``sum_l weights[l] K_l + diag(ridge)``."""

    stack: KernelStack
    weights: np.ndarray
    ridge: np.ndarray

    def corner(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        K = self.stack.take(rows=rows, cols=cols).combine(self.weights).dense()
        i, j = np.nonzero(rows[:, None] == cols)
        K[i, j] += self.ridge[rows[i]]
        return K

    def image(self, coef: np.ndarray) -> np.ndarray:
        return self.stack.product(self.weights, coef) + self.ridge * coef

    def machine(self, y: np.ndarray, cost: np.ndarray, tol: float) -> Machine:
        """The support vector machine of the matrix."""
        rough = self.stack.rough(ROUGH_ERROR)
        K = with_diagonal(rough.matrix(self.weights), self.ridge)
        return solve_svm(K, y, cost, tol=tol) if rough is self.stack else solve_svm_on(self, K, y, cost, tol=tol)


def margin_distribution(problem: Problem, tol: float) -> np.ndarray:
    """gamma (n,), to within margins of `tol`."""
    y, weight = problem.y, problem.weight
    if problem.lam == 1:
        return _shares(weight, y)
    floor = problem.lam * (1.0 / weight[y > 0].sum() + 1.0 / weight[y < 0].sum())
    cost = np.full(len(y), 4.0 / floor)  # twice what any coefficient can reach
    machine = _mean_matrix(problem).machine(y, cost, tol)
    return _shares(np.abs(machine.dual_coef), y)


def _shares(v: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Divide by the sum over the class."""
    return v / np.where(y > 0, v[y > 0].sum(), v[y < 0].sum())


def kernel_weights(problem: Problem, gamma: np.ndarray) -> tuple[np.ndarray, bool]:
    """Weights (L,) by how far each kernel holds the classes apart, and whether none does, so that all are alike."""
    apart = problem.stack.quad(gamma * problem.y)
    together = problem.stack.quad(gamma)
    apart = np.where(apart > ROUNDING * (apart + together), apart, 0.0)
    if not np.any(apart > 0):
        return np.full(len(apart), 1.0 / len(apart)), True
    return apart / apart.sum(), False


def iterates(problem: Problem, tol: float) -> Iterator[Iterate[State]]:
    """The solution with margins to within `tol`, and again with finer ones."""
    for margin in (tol * share for share in MARGIN_TOLS):
        gamma = margin_distribution(problem, margin)
        weights, alike = kernel_weights(problem, gamma)
        final = _Ridged(problem.stack, weights, np.zeros(len(gamma)))
        machine = final.machine(problem.y, problem.C * problem.weight, margin)
        state = State(weights, machine.dual_coef, machine.intercept, gamma, alike)
        value, gap = _program(problem, gamma)
        yield Iterate(state, value, max(gap, _machine_gap(problem, state)), weights=weights)


def solve(problem: Problem, *, tol: float = 1e-4, callback: Callback | None = None) -> Solution[State]:
    """Find the weights and the machine of their combination to a relative duality gap of `tol`."""
    return run(iterates(problem, tol), tol=tol, max_iter=len(MARGIN_TOLS) + 1, monotone=False, callback=callback)


# ---------------------------------------------------------------------- the estimator


@stored
class EasyMKLClassifier(StackClassifier):
    """Support vector machine on kernels weighted by how well they hold the classes apart [Aiolli2015].

    One quadratic program on the mean kernel gives a distribution over the rows of each class; a kernel's
    weight is the squared distance between the two means under that distribution. Then follows an ordinary
    machine on the weighted kernel.

    Parameters
    ----------
    lam : float, default=0.1
        In (0, 1]: 1 spreads the distributions evenly (distance of the class means), small values push them
        towards the margin.
    C : float, default=1.0
        Cost of a violated margin in the final machine; sample and class weights multiply it.
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
        Relative duality gap of both programs.
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

    Notes
    -----
    The weights stand for sums over kernels of equal scale; the default kernels have ones on the diagonal. The
    mean of the kernels takes the place of their sum in the paper, so that `lam` means the same for any number of
    kernels. A sample weight of two gives the same fit as two equal rows, in the quadratic program as well.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import EasyMKLClassifier, per_feature
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> clf = EasyMKLClassifier(kernels=per_feature(), calibration=None).fit(X, y)
    >>> len(clf.kernel_weights_), bool(clf.score(X, y) > 0.95)
    (30, True)
    """

    citation = AIOLLI2015
    _form = "factored"
    _squares = 2.4
    _copies = 7.0

    def __init__(
        self,
        lam: float = 0.1,
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
        self.lam = lam
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

    def check_parameters(self) -> None:
        super().check_parameters()
        check_number("lam", self.lam, 0.0, 1.0, strict=True)

    def summary(self) -> dict[str, Any]:
        return {"evenness lam": self.lam, **super().summary()}

    def _solve(self, task: Task) -> Answer:
        problem = Problem(task.stack, task.y, task.cost / self.C, self.lam, self.C)
        solution = solve(problem, tol=self.tol, callback=self._log_callback())
        state = solution.state
        return Answer(state.dual_coef, state.weights, state.intercept, solution, state.alike)

    def _report(self, answers: Sequence[Answer], prepared: PreparedRows) -> dict[str, Any]:
        if any(answer.details for answer in answers):
            warn(
                "EasyMKLClassifier: no kernel separates the classes, so that all have the same weight; change the "
                "widths of the kernels, or raise lam"
            )
        return {}
