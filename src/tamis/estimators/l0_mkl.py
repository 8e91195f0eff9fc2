"""L0MKLClassifier: a few features out of thousands, with kernels that need not be positive definite."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.data.checks import check_choice, check_cost, check_integer, check_number, check_penalty
from tamis.data.rows import Rows
from tamis.errors import warn
from tamis.kernels.bank import KernelBank
from tamis.kernels.base import Sigmoid
from tamis.kernels.recipes import per_feature
from tamis.methods import l0_mkl as method
from tamis.methods.l0_steps import BETA_STEPS, Problem
from tamis.models.model import PreparedRows
from tamis.shells.extending import Extending
from tamis.shells.learning import Factors, LearningClassifier
from tamis.shells.parameters import parameters
from tamis.shells.pooled import Pooled
from tamis.shells.selecting import Selecting
from tamis.shells.stacked import Answer, StackClassifier, Task

# [XueSong2020], as in docs/references.bib
XUESONG2020 = (
    "Xue, Hui; Song, Yu (2020). Non-convex approximation based l0-norm multiple indefinite kernel feature selection. "
    "Applied Intelligence."
)
SIGMOID = per_feature(Sigmoid(0.1, 0.1))
CHOICES = ("exp", "log", "capped_l1", "scad", "l1")
ENGINES = ("auto", "dense", "streaming", "chebyshev")


@parameters
class L0Classifier(Selecting, Extending, Factors, Pooled, LearningClassifier):
    """What `L0MKLClassifier` and its search share.

    Parameters
    ----------
    penalty : {"capped_l1", "exp", "log", "scad", "l1"} or an object of `tamis.penalties`
        "l1" is the baseline MIK-FS: it keeps more features.
    beta_step : {"stationary", "ridge", "flip", "paper"}
        The machine. "stationary": where the slope of the published objective vanishes; "ridge" and "flip" change its
        quadratic term so that it is bounded ("flip" decomposes every kernel, which is slow); "paper": Algorithm 3 as
        published, its gradient corrected. Where an objective has no minimum "paper" gives no model and says so in
        `status_` and `reason_`.
    max_features : int or None
        Most features that may have a weight (per class with more than two classes), on top of the penalty.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns)
        None is ``per_feature(Sigmoid(0.1, 0.1))``, ``tanh(0.1 s t - 0.1)`` on each scaled feature; categories get an
        indicator. See also `tamis.per_group()`, `tamis.Epanechnikov`, functions of two blocks of rows, and
        `tamis.precomputed()`.
    rounds : int
        Most rounds. More of them usually keep fewer features; they seldom classify better.
    engine : {"auto", "dense", "streaming", "chebyshev"}
        How kernels are passed over: "dense" keeps their values, "streaming" evaluates them in blocks, "chebyshev"
        goes through short polynomials where that is quicker, to ten digits. "auto" is the first up to 128 MiB, else the
        last, with kernels that have no such polynomials evaluated.
    tol : float
        Change of relative weights in a round below which the fit stops.

    Attributes
    ----------
    feature_path_ : features that had a weight in some round, best first: those that kept it longest, then by how much
        they contribute
    reason_ : why there is no model, or none that can be trusted, with what to change; or ""
    ridge_ : what the quadratic term of the last machine counts (the largest over classes): lambda1, or more where no
        stationary machine was found with it
    clipped_ : whether some weight step had no minimum and was bounded by force
    """

    _: KW_ONLY
    penalty: Any = "capped_l1"
    beta_step: str = "stationary"
    max_features: int | None = None
    kernels: Any = None
    rounds: int = 3
    engine: str = "auto"
    tol: float = 1e-3


@stored
@parameters
class L0MKLClassifier(L0Classifier, StackClassifier):
    """Select a few features out of many with one kernel per feature, and classify with them [XueSong2020].

    The decision is ``f(x) = sum_m d_m sum_i beta_i k_m(x_i, x) + intercept`` with weights ``d_m >= 0``, most of them
    zero. By turns a machine with the squared hinge loss is fitted to the weighted kernel, and the weights to that
    machine, under a concave penalty of d that stands for the number of features. Kernels need not be positive definite.
    The classifier is also a selector: `transform` keeps the columns of the features with a weight.

    Parameters
    ----------
    lambda2 : float
        What the penalty counts, as a share of the value at which no feature is left: between 0 (many features) and 1.
        Tight penalties keep a handful until close to 1; `max_features` is the way to a given number.
    lambda1 : float
        What the quadratic term of the machine counts against the loss, a sum over rows.
    theta : float
        How tight the penalty is: "capped_l1" asks nothing more of weights above ``1 / theta`` of the largest.
    units : {"relative", "published"}
        "published": lambda2 and theta count as they are, weights are never rescaled, and the first penalty is taken at
        the starting weights. What comes out depends on the scale of everything; for comparisons with the paper.
    start_weight : float or None
        The weight of every kernel at the start; None is one over their number.

    Notes
    -----
    The published objective is unbounded below for indefinite kernels, and its scale is arbitrary: see the header of
    `tamis.methods.l0_mkl` for what that means and what is done instead. A sample weight of two gives the same fit
    as two equal rows.
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

    lambda2: float = 0.1
    lambda1: float = 0.1
    _: KW_ONLY
    theta: float = 10.0
    units: str = "relative"
    start_weight: float | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
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

    @property
    def _engine(self) -> str:
        return "compact" if self.engine == "auto" else self.engine

    def _costs(self, rows: Rows) -> np.ndarray:
        check_cost(1.0 / self.lambda1, rows.absolute_weight, "1 / lambda1")
        return rows.absolute_weight

    def chosen(self) -> dict[str, Any]:
        own = {
            "penalty lambda2": self.lambda2,
            "ridge lambda1": told_ridge(self.lambda1, getattr(self, "ridge_", self.lambda1)),
            "tightness theta": self.theta,
        }
        return own | super().chosen()

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
        solution = method.solve(problem, begun=begun, rounds=self.rounds, tol=self.tol, callback=self._progress())
        return answer(solution)

    def _facts(self, facts: list[method.State], prepared: PreparedRows) -> None:
        self.feature_path_ = feature_path([state.ranking for state in facts], prepared.bank)
        self.reason_ = next((state.reason for state in facts if state.reason), "")
        self.ridge_ = max(state.lambda1 for state in facts)
        self.clipped_ = any(state.clipped for state in facts)

    def _warn(self) -> None:
        super()._warn()
        warn_bent(self)


def told_ridge(asked: float, used: float) -> Any:
    """lambda1, with what it had to be raised to."""
    return asked if used <= asked else f"{asked}, raised to {used:.3g} where no stationary machine was found"


def warn_bent(estimator: Any) -> None:
    """Say where the problem was changed to have a solution."""
    name = type(estimator).__name__
    if estimator.clipped_:
        warn(
            f"{name}: a weight step had no minimum and was bounded by force (negative slopes were cut at zero); "
            "beta_step='ridge' always has one",
        )


def answer(solution: Any) -> Answer:
    """What a solution gives the shell."""
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
