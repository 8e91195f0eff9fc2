"""FeatureScalingSVC: a support vector machine with a few feature factors inside its kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.estimators.checks import check_bandwidth, check_cost, check_integer, check_number
from tamis.estimators.direct import DirectClassifier
from tamis.estimators.model import Encoded, Model
from tamis.estimators.rows import Rows
from tamis.estimators.stacked import check_size, factors_of
from tamis.expansion import Coefficients
from tamis.explain import part_name
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import ScaledGaussian
from tamis.methods import fs_svm as method
from tamis.optim.driver import Solution

# [Weston2000], as in docs/references.bib
WESTON2000 = (
    "Weston, Jason; Mukherjee, Sayan; Chapelle, Olivier; Pontil, Massimiliano; Poggio, Tomaso; Vapnik, Vladimir "
    "(2000). Feature selection for SVMs. Advances in Neural Information Processing Systems."
)


@stored
class FeatureScalingSVC(DirectClassifier):
    """Support vector machine on a Gaussian kernel with a learned factor for each of a few features [Weston2000].

    The kernel is ``exp(-1/2 sum_c factor_c (s_c - t_c)^2 / width^2)`` with at most `max_features` factors that are
    not zero; they are found by projected gradient descent on the optimal value of the machine, which is not
    convex in them.

    Parameters
    ----------
    max_features : int, default=10
        Most features with a factor (per class with more than two classes).
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    bandwidth : float, default=1.0
        Width for one scaled feature; the kernel's width is that times the root of the number of features.
    scaling : {"standard", "rank", None}, default="standard"
    missing : {"absent", "median", None}, default="absent"
        "absent": in a kernel on several features a missing cell counts as the mean, one unit aside, and alone it
        contributes nothing; "median": filled with the training median (the most frequent category); None:
        refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto" takes text, boolean and categorical columns; name codes that come as numbers.
    class_weight : dict, "balanced" or None, default=None
    calibration : int or None, default=3
        Folds that fit the probabilities and place the intercept where they say one half; None: no
        `predict_proba`, the method's own intercept, and a faster fit.
    tol : float, default=1e-3
        Largest decrease of the objective, relative to it, that one more step may promise.
    max_iter : int, default=200
        Most steps.
    random_state : int, RandomState or None, default=None
        For the calibration folds. None is as good as 0.
    n_jobs : int or None, default=None
        Processes for calibration folds.
    verbose : int, default=0

    Attributes
    ----------
    feature_factors_ : (n_kept,) factors of the kept features, or (n_classes, n_kept); their sum is the number of
        features that are not constant
    dual_coef_, kernel_weights_, intercept_ : coefficients of the rows; each class has one kernel of weight one
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features (positions) and kernels
    instance_importance_, kernel_importance_ : signed percentages of the coefficients and weights
    instance_variation_, kernel_variation_ : shares in the variation of the decision
    instances_per_class_, history_, n_iter_, objective_, status_, classes_, n_features_in_
    feature_names_in_ : where X has column names

    Notes
    -----
    The kernel stands on all kept features together: it is explained by case, not by feature.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import FeatureScalingSVC
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> clf = FeatureScalingSVC(max_features=3, calibration=None).fit(X, y)
    >>> len(clf.features_), bool(clf.score(X, y) > 0.9)
    (3, True)
    """

    citation = WESTON2000
    _placed = True

    def __init__(
        self,
        max_features: int = 10,
        C: float = 1.0,
        *,
        bandwidth: float = 1.0,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        class_weight: Any = None,
        calibration: int | None = 3,
        tol: float = 1e-3,
        max_iter: int = 200,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.max_features = max_features
        self.C = C
        self.bandwidth = bandwidth
        self.scaling = scaling
        self.missing = missing
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.calibration = calibration
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("max_features", self.max_features, 1)
        check_integer("max_iter", self.max_iter, 1)
        check_number("C", self.C, 0.0, strict=True)
        check_number("tol", self.tol, 0.0, strict=True)
        check_number("bandwidth", self.bandwidth, 0.0, strict=True)
        check_bandwidth(self.bandwidth, 1)

    def chosen(self) -> dict[str, Any]:
        found: dict[str, Any] = {"most features": self.max_features, "cost C": self.C, "bandwidth": self.bandwidth}
        if hasattr(self, "feature_factors_"):
            mean = np.atleast_2d(self.feature_factors_).mean(axis=0)
            names = zip(self.model_.encoder.names, mean, strict=True)
            found["factors"] = ", ".join(f"{name} {factor:.2g}" for name, factor in names)
        return found

    def _learn(self, rows: Rows, *, quick: bool = False) -> Model:
        check_size(type(self).__name__, len(rows))
        encoded = self._encoded(rows, self.max_features, "dense")
        solutions = [self._solve(encoded, y[:, 0]) for y in rows.problems(shared=False)]
        names = [""] if len(rows.classes) == 2 else [f" for {name}" for name in rows.classes]
        kernels = [
            _channel(encoded, s.state.factors / self._width(encoded) ** 2, name)
            for s, name in zip(solutions, names, strict=True)
        ]
        blocks = [_block(s.state, k) for k, s in enumerate(solutions)]
        model = encoded.ground(KernelBank(tuple(kernels))).model(blocks, solutions)
        if quick:
            return model
        factors = np.array([s.state.factors[model.columns] for s in solutions])
        self.feature_factors_ = factors[0] if len(factors) == 1 else factors
        dual, weights = factors_of(model.expansion.coef)
        return replace(model, dual_coef=dual, kernel_weights=weights)

    def _solve(self, encoded: Encoded, y: np.ndarray) -> Solution[method.State]:
        sample = encoded.sample
        problem = method.Problem.of_rows(
            sample.Z,
            sample.mismatch,
            y,
            check_cost(self.C, encoded.rows.absolute_weight),
            width=self._width(encoded),
            max_features=self.max_features,
        )
        solution = method.solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._progress())
        return replace(solution, history=replace(solution.history, weights=None))  # those of features, not of kernels

    def _width(self, encoded: Encoded) -> float:
        return self.bandwidth * float(np.sqrt(encoded.sample.Z.shape[1]))


def _channel(encoded: Encoded, factors: np.ndarray, suffix: str) -> Channel:
    """The kernel of some factors, on the columns that have one."""
    columns = np.flatnonzero(factors)
    kernel = ScaledGaussian(tuple(factors[columns].tolist()), tuple(encoded.sample.mismatch[columns].tolist()))
    return Channel(part_name([encoded.encoder.names[c] for c in columns]) + suffix, kernel, tuple(columns.tolist()))


def _block(state: method.State, kernel: int) -> Coefficients:
    instances = np.flatnonzero(state.dual_coef)
    coef = state.dual_coef[instances][None, :, None]
    return Coefficients(instances, np.array([kernel]), coef, np.array([state.intercept]))
