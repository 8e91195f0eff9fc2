"""Linear machines with few features: the successive weighted l1 norms of a concave penalty.

    min over w, b of  sum_j delta(|w_j|) + sum_i cost_i max(0, 1 - y_i (x_i'w + b))^2

The penalty is replaced by its tangent at the current weights (`penalties`), which leaves a weighted l1 norm; that
problem is solved exactly, and again until nothing changes. From w = 0 the first one is the l1 machine. With "exp" this
is PIE-SVM, with "capped_l1" CAP-SVM and with "exact" EP-SVM, the linear baselines of [XueSong2020].

Departures: the loss is the squared hinge in place of the hinge, as in l0-MKL, so that a difference between methods
comes from penalty and kernels; rows have costs; in EP-SVM the box on w is dropped (see `penalties.Exact`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from tamis.base.explaining import feature_shares, support_mask
from tamis.codec import stored
from tamis.methods.baselines.linear import Coordinates, Found, LinearClassifier, carried
from tamis.optim.driver import Callback, Iterate, Solution, Status, run
from tamis.optim.losses import SquaredHinge
from tamis.optim.nonnegative import solve_nonnegative
from tamis.optim.penalties import PENALTIES, Penalty, check_penalty
from tamis.table.rows import Rows, check_cost

XUESONG2020 = (
    "Xue, Hui; Song, Yu (2020). Non-convex approximation based l0-norm multiple indefinite kernel feature selection. "
    "Applied Intelligence."
)

KKT_TOL = 1e-6  # KKT violation of one weighted problem, relative to its scale


@dataclass(frozen=True)
class Problem:
    """Rows X (n, e), labels (n,) in {-1, +1}, costs (n,) and the penalty of the coefficients."""

    X: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    penalty: Penalty


@dataclass(frozen=True)
class State:
    """Coefficients w (e,) and intercept."""

    w: np.ndarray
    intercept: float


def objective(problem: Problem, state: State) -> float:
    """The value of the problem, penalty and all."""
    scores = problem.X @ state.w + state.intercept
    penalty = float(problem.penalty.value(np.abs(state.w)).sum())
    return penalty + float(problem.cost @ SquaredHinge().value(scores, problem.y))


def violation(problem: Problem, state: State) -> float:
    """How far a state is from stationary.

    With ``pull_i = cost_i y_i max(0, 1 - margin_i)``, ``g = 2 X'pull`` and p the slopes of the penalty the conditions
    are ``g_j = sign(w_j) p_j``, or ``|g_j| <= p_j`` where w_j = 0, and ``sum(pull) = 0``. Counted are the largest
    failure over the steepest slope, and the sum over the sum of the costs.
    """
    scores = problem.X @ state.w + state.intercept
    pull = -0.5 * problem.cost * SquaredHinge().gradient(scores, problem.y)
    slopes = problem.penalty.weights(np.abs(state.w))
    gradient = 2.0 * (pull @ problem.X)
    excess = np.maximum(0.0, np.abs(gradient) - slopes)
    failure = np.where(state.w != 0, np.abs(gradient - np.sign(state.w) * slopes), excess)
    level = abs(float(pull.sum())) / float(problem.cost.sum())
    return max(float(np.max(failure, initial=0.0)) / problem.penalty.slope, level)


def iterates(problem: Problem) -> Iterator[Iterate[State]]:
    """The weighted l1 machines one after another, from no feature at all."""
    root = np.sqrt(problem.cost)
    rows = (root * problem.y)[:, None]
    B = np.hstack([rows * problem.X, -rows * problem.X, rows, -rows])
    e = problem.X.shape[1]
    level = float(problem.cost @ problem.y / problem.cost.sum())
    state, d = State(np.zeros(e), level), np.zeros(2 * e + 2)
    yield Iterate(state, objective(problem, state), violation(problem, state))
    while True:
        slopes = problem.penalty.weights(np.abs(state.w))
        step = solve_nonnegative(B, root, np.concatenate([slopes, slopes, [0.0, 0.0]]), start=d, tol=KKT_TOL)
        d = step.d
        state = State(d[:e] - d[e : 2 * e], float(d[-2] - d[-1]))
        yield Iterate(state, objective(problem, state), violation(problem, state))


def solve(
    problem: Problem, *, tol: float = 1e-4, max_iter: int = 50, callback: Callback | None = None
) -> Solution[State]:
    """Solve weighted problems until the conditions of the whole problem hold to within `tol`."""
    solution = run(iterates(problem), tol=tol, max_iter=max_iter, callback=callback)
    return solution if solution.state.w.any() else replace(solution, status=Status.COLLAPSED)


# ---------------------------------------------------------------------- the estimator


@stored
class LinearL0SVC(SelectorMixin, LinearClassifier):
    """Linear machine with few features: PIE-SVM, CAP-SVM and EP-SVM of [XueSong2020].

    Minimises ``sum_j delta(|w_j|) + C sum_i max(0, 1 - y_i (x_i'w + b))^2`` with a free intercept, where the concave
    delta stands for the number of features, by weighted l1 problems that are solved exactly. The classifier is also a
    selector: `transform` keeps the columns of the features with a weight.

    Parameters
    ----------
    penalty : {"capped_l1", "exp", "exact", "log", "scad", "l1"} or a penalty, default="capped_l1"
        "exp" is PIE-SVM, "capped_l1" CAP-SVM, "exact" EP-SVM. Others are made by classes of `tamis.optim.penalties`.
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    theta : float, default=3.0
        How tight the penalty is: "capped_l1" asks nothing more of weights above ``1 / theta``.
    tol : float, default=0.0001
        Largest failure of the conditions of a stationary point, relative to the steepest slope of the penalty.
    max_iter : int, default=50
        Most weighted problems.
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
    feature_path_ : kept features, those of the largest weight first
    kernel_weights_ : the weight of each kept feature in scaled units; of a category with several levels the norm
        over them
    dual_coef_, intercept_ : the weights that each case carries (see the notes), and the intercept
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

    Notes
    -----
    The published baselines have the hinge loss; here it is squared, as in `L0MKLClassifier`. A linear function needs no
    cases: to be explained like the other methods each kept feature is carried by the training case that is most
    extreme in it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import LinearL0SVC
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> clf = LinearL0SVC("exp", theta=5.0, calibration=None).fit(X, y)
    >>> bool(len(clf.features_) < 15), bool(clf.score(X, y) > 0.95)
    (True, True)
    """

    citation = XUESONG2020

    def __init__(
        self,
        penalty: Any = "capped_l1",
        C: float = 1.0,
        *,
        theta: float = 3.0,
        tol: float = 0.0001,
        max_iter: int = 50,
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
        self.penalty = penalty
        self.C = C
        self.theta = theta
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

    def check_parameters(self) -> None:
        super().check_parameters()
        check_penalty(self.penalty, self.theta, tuple(PENALTIES))

    def summary(self) -> dict[str, Any]:
        return {"cost C": self.C, "penalty": self.penalty, "tightness theta": self.theta}

    @property
    def feature_path_(self) -> np.ndarray:
        """The kept features, those of the largest weight first."""
        check_is_fitted(self)
        size = np.abs(np.atleast_2d(self.kernel_weights_)).max(axis=0)
        return self.features_[np.argsort(-size, kind="stable")]

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of every feature of X (n_features,) in the weights, in per cent; a mean over classes."""
        return feature_shares(self)

    def _get_support_mask(self) -> np.ndarray:
        return support_mask(self)

    def _solve(self, points: Coordinates, y: np.ndarray, rows: Rows) -> Found:
        penalty = check_penalty(self.penalty, self.theta, tuple(PENALTIES))
        problem = Problem(points.P, y, check_cost(self.C, rows.absolute_weight), penalty)
        solution = solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._log_callback())
        return carried(points, solution)
