"""L0MKLClassifier: a few features out of thousands, with kernels that need not be positive definite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.feature_selection import SelectorMixin

from tamis.base.explaining import feature_shares, support_mask
from tamis.base.kernel_space import KernelSpace, PreparedRows
from tamis.base.stack_classifier import Answer, StackClassifier, Task
from tamis.codec import stored
from tamis.errors import check_choice, check_integer, check_number, warn
from tamis.kernels.bank import KernelBank
from tamis.kernels.base import Sigmoid
from tamis.kernels.recipes import per_feature
from tamis.methods.l0_mkl import solver as method
from tamis.methods.l0_mkl.steps import BETA_STEPS, Problem
from tamis.optim.penalties import check_penalty
from tamis.table.rows import Rows, check_cost

XUESONG2020 = (
    "Xue, Hui; Song, Yu (2020). Non-convex approximation based l0-norm multiple indefinite kernel feature selection. "
    "Applied Intelligence."
)

SIGMOID = per_feature(Sigmoid(0.1, 0.1))
CHOICES = ("exp", "log", "capped_l1", "scad", "l1")
ENGINES = ("auto", "dense", "streaming", "chebyshev")


@stored
class L0MKLClassifier(SelectorMixin, StackClassifier):
    """Select a few features out of many with one kernel per feature, and classify with them [XueSong2020].

    The decision is ``f(x) = sum_m d_m sum_i beta_i k_m(x_i, x) + intercept`` with weights ``d_m >= 0``, most of them
    zero. By turns a machine with the squared hinge loss is fitted to the weighted kernel, and the weights to that
    machine, under a concave penalty of d that stands for the number of features. Kernels need not be positive definite.
    The classifier is also a selector: `transform` keeps the columns of the features with a weight.

    Parameters
    ----------
    lambda2 : float, default=0.1
        What the penalty counts, as a share of the value at which no feature is left: between 0 (many features) and 1.
        Tight penalties keep a handful until close to 1; `max_features` is the way to a given number.
    lambda1 : float, default=0.1
        What the quadratic term of the machine counts against the loss, a sum over rows.
    theta : float, default=10.0
        How tight the penalty is: "capped_l1" asks nothing more of weights above ``1 / theta`` of the largest.
    units : {"relative", "published"}, default="relative"
        "published": lambda2 and theta count as they are, weights are never rescaled, and the first penalty is taken at
        the starting weights. What comes out depends on the scale of everything; for comparisons with the paper.
    start_weight : float or None, default=None
        The weight of every kernel at the start; None is one over their number.
    penalty : {"capped_l1", "exp", "log", "scad", "l1"} or an object of `tamis.optim.penalties`, default="capped_l1"
        "l1" is the baseline MIK-FS: it keeps more features.
    beta_step : {"stationary", "ridge", "flip", "paper"}, default="stationary"
        The machine. "stationary": where the slope of the published objective vanishes; "ridge" and "flip" change its
        quadratic term so that it is bounded ("flip" decomposes every kernel, which is slow); "paper": Algorithm 3 as
        published, its gradient corrected. Where an objective has no minimum "paper" gives no model and says so in
        `status_` and `reason_`.
    max_features : int or None, default=None
        Most features that may have a weight (per class with more than two classes), on top of the penalty.
    rounds : int, default=3
        Most rounds. More of them usually keep fewer features; they seldom classify better.
    engine : {"auto", "dense", "streaming", "chebyshev"}, default="auto"
        How kernels are passed over: "dense" keeps their values, "streaming" evaluates them in blocks, "chebyshev"
        goes through short polynomials where that is quicker, to ten digits. "auto" is the first up to 128 MiB, else the
        last, with kernels that have no such polynomials evaluated.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        None is ``per_feature(Sigmoid(0.1, 0.1))``, ``tanh(0.1 s t - 0.1)`` on each scaled feature; categories get an
        indicator. See also `tamis.per_group()`, `tamis.Epanechnikov`, functions of two blocks of rows, and
        `tamis.precomputed()`.
    tol : float, default=0.001
        Change of relative weights in a round below which the fit stops.
    pool : int or None, default=None
        Number of training rows to learn from, drawn from every class in proportion, whatever their order. Kept cases
        are among these, and `pool_error_` is the error on the others. None, or at least as many as there are: all rows.
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
    feature_path_ : features that had a weight in some round, best first: those that kept it longest, then by how much
        they contribute
    reason_ : why there is no model, or none that can be trusted, with what to change; or ""
    ridge_ : what the quadratic term of the last machine counts (the largest over classes): lambda1, or more where no
        stationary machine was found with it
    clipped_ : whether some weight step had no minimum and was bounded by force
    kernel_weights_ : weights of the kernels, adding up to one
    dual_coef_ : coefficients of the rows
    instance_importance_ : signed percentages of the coefficients
    kernel_importance_, feature_importance_ : percentages of the weights; of features where every kernel stands on one
    pool_error_ : where a pool was drawn, the share of other training rows (up to 20 000 of them, by their weights) that
        are predicted wrong
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
    The published objective is unbounded below for indefinite kernels, and its scale is arbitrary: see the header of
    `tamis.methods.l0_mkl.solver` for what that means and what is done instead. A sample weight of two gives the same
    fit as two equal rows.
    A machine holds the weighted kernel between all rows. Landmarks would not do: what they leave out of an indefinite
    kernel can be neither bounded nor measured by its diagonal.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import L0MKLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> clf = L0MKLClassifier(max_features=4, calibration=None).fit(X, y)
    >>> clf.transform(X).shape[1] <= 4, bool(clf.score(X, y) > 0.93)
    (True, True)
    """

    citation = XUESONG2020
    _recipe = SIGMOID
    _squares = 4.4
    _pools = True

    def __init__(
        self,
        lambda2: float = 0.1,
        lambda1: float = 0.1,
        *,
        theta: float = 10.0,
        units: str = "relative",
        start_weight: float | None = None,
        penalty: Any = "capped_l1",
        beta_step: str = "stationary",
        max_features: int | None = None,
        rounds: int = 3,
        engine: str = "auto",
        kernels: Any = None,
        tol: float = 0.001,
        pool: int | None = None,
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
        self.lambda2 = lambda2
        self.lambda1 = lambda1
        self.theta = theta
        self.units = units
        self.start_weight = start_weight
        self.penalty = penalty
        self.beta_step = beta_step
        self.max_features = max_features
        self.rounds = rounds
        self.engine = engine
        self.kernels = kernels
        self.tol = tol
        self.pool = pool
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
        check_number("lambda1", self.lambda1, 0.0, strict=True)
        check_number("lambda2", self.lambda2, 0.0)
        check_penalty(self.penalty, self.theta, CHOICES)
        check_choice("beta_step", self.beta_step, BETA_STEPS)
        check_choice("units", self.units, ("relative", "published"))
        check_choice("engine", self.engine, ENGINES)
        check_integer("rounds", self.rounds, 1)
        if self.max_features is not None:
            check_integer("max_features", self.max_features, 1)
        if self.start_weight is not None:
            check_number("start_weight", self.start_weight, 0.0, strict=True)
        if self.units == "relative" and self.lambda2 > 1:
            raise ValueError(
                f"lambda2={self.lambda2!r} must be at most 1: it is a share of the value that leaves no feature; "
                "units='published' takes it as it is"
            )

    def _space(self) -> KernelSpace:
        return replace(super()._space(), form="compact" if self.engine == "auto" else self.engine)

    def _check_kernels(self, prepared: PreparedRows, seed: int) -> None:
        """Kernels need not be positive semi-definite."""

    def _costs(self, rows: Rows) -> np.ndarray:
        check_cost(1.0 / self.lambda1, rows.absolute_weight, "1 / lambda1")
        return rows.absolute_weight

    def summary(self) -> dict[str, Any]:
        own = {
            "penalty lambda2": self.lambda2,
            "ridge lambda1": ridge_in_words(self.lambda1, getattr(self, "ridge_", self.lambda1)),
            "tightness theta": self.theta,
        }
        return own | super().summary()

    def _problem(self, task: Task) -> Problem:
        least = 1 if task.incidence is None else int(task.incidence.sum(axis=1).min())
        if self.max_features is not None and self.max_features < least:
            raise ValueError(
                f"max_features={self.max_features} is too few for any kernel: the smallest group of columns has {least}"
            )
        return Problem(
            task.stack,
            task.y,
            task.cost,
            check_penalty(self.penalty, self.theta, CHOICES),
            lambda1=self.lambda1,
            lambda2=self.lambda2,
            relative=self.units == "relative",
            beta_step=self.beta_step,
            max_features=self.max_features,
            incidence=task.incidence,
        )

    def _solve(self, task: Task) -> Answer:
        problem = self._problem(task)
        begun = method.opening(problem, self.start_weight)
        solution = method.solve(problem, begun=begun, rounds=self.rounds, tol=self.tol, callback=self._log_callback())
        return answer(solution)

    def _report(self, answers: Sequence[Answer], prepared: PreparedRows) -> dict[str, Any]:
        states: list[method.State] = [answer.details for answer in answers]
        return {
            "feature_path_": feature_path([state.ranking for state in states], prepared.bank),
            "reason_": next((state.reason for state in states if state.reason), ""),
            "ridge_": max(state.lambda1 for state in states),
            "clipped_": any(state.clipped for state in states),
        }

    def _warn(self) -> None:
        super()._warn()
        warn_clipped(self)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of every feature of X (n_features,) in the weights, in per cent; a mean over classes."""
        return feature_shares(self)

    def _get_support_mask(self) -> np.ndarray:
        return support_mask(self)


def ridge_in_words(given: float, used: float) -> Any:
    """lambda1, with what it had to be raised to."""
    return given if used <= given else f"{given}, raised to {used:.3g} where no stationary machine was found"


def warn_clipped(estimator: Any) -> None:
    """Warn where the problem was changed to have a solution."""
    name = type(estimator).__name__
    if estimator.clipped_:
        warn(
            f"{name}: a weight step had no minimum and was bounded by force (negative slopes were cut at zero); "
            "beta_step='ridge' always has one"
        )


def answer(solution: Any) -> Answer:
    """The machine of a solution."""
    state = solution.state
    return Answer(state.dual_coef, state.weights, state.intercept, solution, state)


def feature_path(rankings: list[np.ndarray], bank: KernelBank) -> np.ndarray:
    """Columns in the order of their kernels; of several rankings the best place counts."""
    places: dict[int, int] = {}
    for ranking in rankings:
        columns = dict.fromkeys(c for k in ranking for c in bank.channels[k].columns)
        for place, column in enumerate(columns):
            places[column] = min(place, places.get(column, place))
    return np.array(sorted(places, key=lambda c: (places[c], c)), dtype=int)
