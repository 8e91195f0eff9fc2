"""The lasso on the labels by ADMM, a baseline of [Zhang2022].

    min over w and b of 1/2 sum_i weight_i (x_i'w + b - y_i)^2 + penalty sum_j |w_j|

    g(x) = 1/2 sum_i weight_i (x_i'x + b - y_i)^2 at the best b,    h(z) = penalty sum_j |z_j|

| paper | here |
| --- | --- |
| w, b | `w` (d,), minus the `intercept` |
| C | `penalty` |

The intercept is profiled out by centring with the weights: with rows and labels centred and scaled by the root of
their weight, the step of x is the textbook's ``(X'X + R)^-1 (X'y + R (z - u))`` with R the diagonal matrix of
penalties of the iteration.

Departures from the paper, with reasons:

1. The intercept is free: with unbalanced classes a penalised one would be paid for by the coefficients.
2. The penalties differ between columns and are adapted; see `admm`. The system is factored anew when they
   change, of size d or n, whichever is smaller.
3. The coefficients that count are those of z, whose zeros are exact.
4. The loop stops on the duality gap relative to the objective, with the residual scaled into the dual's domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from tamis.codec import stored
from tamis.errors import check_number
from tamis.methods.baselines.admm import ZHANG2022, factored, splits
from tamis.methods.baselines.linear import Coordinates, Found, LinearClassifier, carried
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.prox import prox_l1
from tamis.optim.svm import relative_gap
from tamis.table.rows import Rows


@dataclass(frozen=True)
class Problem:
    """Rows, targets and weights."""

    X: np.ndarray  # (n, d) finite; the penalty is fair only to columns of similar scale
    y: np.ndarray  # (n,)
    weight: np.ndarray  # (n,) zero or more
    penalty: float  # positive; from `largest` on all coefficients are zero

    def __post_init__(self) -> None:
        if not self.penalty > 0 or not np.isfinite(self.penalty):
            raise ValueError(f"penalty={self.penalty} must be positive and finite")
        if not np.all(self.weight >= 0) or not np.any(self.weight > 0) or not np.all(np.isfinite(self.weight)):
            raise ValueError("weight must be finite, zero or more, and not zero everywhere")

    @property
    def largest(self) -> float:
        """The smallest penalty that makes all coefficients zero."""
        return float(np.max(np.abs(self.centred[0].T @ self.centred[1])))

    @cached_property
    def means(self) -> tuple[np.ndarray, float]:
        """Weighted means of the columns and of the targets."""
        return np.average(self.X, axis=0, weights=self.weight), float(np.average(self.y, weights=self.weight))

    @cached_property
    def centred(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and targets, centred and scaled so that all weights are one."""
        columns, target = self.means
        root = np.sqrt(self.weight)
        return root[:, None] * (self.X - columns), root * (self.y - target)

    def minimiser(self, penalty: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        X, y = self.centred
        n, d = X.shape
        pull = X.T @ y
        if d <= n:
            factor = factored(X.T @ X + np.diag(penalty))
            return lambda t: cho_solve(factor, pull + penalty * t)
        small = factored((X / penalty) @ X.T + np.eye(n))

        def minimise(t: np.ndarray) -> np.ndarray:
            plain = t + pull / penalty
            return plain - X.T @ cho_solve(small, X @ plain) / penalty

        return minimise

    def prox(self, v: np.ndarray, penalty: np.ndarray) -> np.ndarray:
        return prox_l1(v, self.penalty / penalty)

    def corner(self, z: np.ndarray) -> np.ndarray:
        return z == 0.0


@dataclass(frozen=True)
class State:
    """A linear function ``x'w + intercept``; `w` (d,) has exact zeros, `intercept` is the best one for it."""

    w: np.ndarray
    intercept: float


def objective(problem: Problem, state: State) -> float:
    """Half the weighted squared error and the penalty."""
    error = problem.X @ state.w + state.intercept - problem.y
    return 0.5 * float(problem.weight @ error**2) + problem.penalty * float(np.abs(state.w).sum())


def violation(problem: Problem, state: State) -> float:
    """The gap between the objective and a dual one, relative to the objective.

    For every s, theta = s (y - Xw) of the centred problem is admissible for the dual

        max over theta of theta'y - 1/2 |theta|^2    subject to  |X'theta| <= penalty in every entry

    as long as |s| is small enough; the best such s is taken.
    """
    X, y = problem.centred
    residual = y - X @ state.w
    size, fit = float(residual @ residual), float(residual @ y)
    limit = problem.penalty / max(float(np.max(np.abs(X.T @ residual))), np.finfo(float).tiny)
    s = float(np.clip(fit / max(size, np.finfo(float).tiny), -limit, limit))
    return relative_gap(objective(problem, state), s * fit - 0.5 * s * s * size)


def iterates(problem: Problem, start: State | None = None) -> Iterator[Iterate[State]]:
    """Step; the objective need not fall from one iterate to the next."""
    X, y = problem.centred
    w = np.zeros(X.shape[1]) if start is None else start.w
    yield _iterate(problem, w)
    size = float(np.sum(X * X)) / X.shape[1] or 1.0
    for split in splits(problem, w, X.T @ (y - X @ w), size):
        yield _iterate(problem, split.z)


def _iterate(problem: Problem, w: np.ndarray) -> Iterate[State]:
    columns, target = problem.means
    state = State(w, target - float(columns @ w))
    return Iterate(state, objective(problem, state), violation(problem, state))


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
class LassoADMM(LinearClassifier):
    """Lasso on the labels -1 and +1 by ADMM, the LASSOC of [Zhang2022].

    Minimises ``1/2 mean_i (x_i'w + b - y_i)^2 + alpha |w|_1`` with a free intercept. A category is one indicator
    per level.

    Parameters
    ----------
    alpha : float, default=0.01
        Penalty relative to the number of rows, as in scikit-learn's Lasso. Large values leave no feature.
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
    A linear function needs no cases. To be explained like the other methods each kept feature is carried by the
    training case that is most extreme in it (each kept level of a category by a case that has it): contributions
    by feature are the terms ``w_c x_c``, their split by case is bookkeeping.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import LassoADMM
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> clf = LassoADMM(alpha=0.05, calibration=None).fit(X, y)
    >>> bool(len(clf.features_) < 15), bool(clf.score(X, y) > 0.93)
    (True, True)
    """

    citation = ZHANG2022
    _has_margin = False  # least squares

    def __init__(
        self,
        alpha: float = 0.01,
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
        self.alpha = alpha
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
        check_number("alpha", self.alpha, 0.0, strict=True)

    def summary(self) -> dict[str, Any]:
        return {"penalty alpha": self.alpha}

    def _solve(self, points: Coordinates, y: np.ndarray, rows: Rows) -> Found:
        problem = Problem(points.P, y, rows.weight, self.alpha * float(rows.weight.sum()))
        solution = solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._log_callback())
        return carried(points, solution)
