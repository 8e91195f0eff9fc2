"""FeatureScalingSVC: a support vector machine with a few feature factors inside its kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tamis.base.citations import WESTON2000
from tamis.base.classifier import KernelClassifier
from tamis.base.expansion import Coefficients
from tamis.base.fitting import FitContext
from tamis.base.kernel_space import KernelSpace
from tamis.base.memory import MemoryEstimate, Size
from tamis.base.model import Encoded, Model
from tamis.base.stack_classifier import factors_of
from tamis.codec import stored
from tamis.explain import part_name
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import ScaledGaussian
from tamis.methods.baselines import feature_scaling as method
from tamis.optim.driver import Solution
from tamis.table.checks import check_bandwidth, check_cost, check_integer, check_number
from tamis.table.rows import Rows

SQUARES = 2.6  # matrices between all rows that the solver holds at its peak


@stored
class FeatureScalingSVC(KernelClassifier):
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
    tol : float, default=0.001
        Largest decrease of the objective, relative to it, that one more step may promise.
    max_iter : int, default=200
        Most steps.
    pool : int or None, default=None
        Number of training rows to learn from, drawn from every class in proportion, whatever their order. Kept cases
        are among these, and `pool_error_` is the error on the others. None, or at least as many as there are: all rows.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities and move the intercept to probability one
        half. None: no `predict_proba`, the method's own intercept, and a faster fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" gives all classes the same total weight.
    scaling : {"standard", "rank", None}, default="standard"
        "standard": numbers are scaled to mean zero and variance one; "rank": replaced by ranks, which suits columns
        with long tails; None: used as they are.
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
    feature_factors_ : (n_kept,) factors of the kept features, or (n_classes, n_kept); their sum is the number of
        features that are not constant
    dual_coef_, kernel_weights_, intercept_ : coefficients of the rows; each class has one kernel of weight one
    instance_importance_ : signed percentages of the coefficients
    kernel_importance_ : percentages of the weights
    feature_importance_ : the same for features, where every kernel stands on one
    pool_error_ : where a pool was drawn, the share of other training rows (up to 20 000 of them, by their weights) that
        are predicted wrong
    classes_ : the class labels, sorted; of two the second is the positive one
    instances_per_class_ : the instances of each output
    instances_ : training rows with a coefficient, as positions
    instance_labels_ : the same as index labels
    features_ : kept features, as positions in X
    kernels_ : kept kernels
    kernel_names_ : their names
    instance_variation_ : shares of the instances in the variation of the decision over training rows, in per cent
    kernel_variation_ : shares of the kernels in it
    feature_variation_ : shares of the features in it, where every kernel stands on one
    pairs_ : pairs of features that have a `surface`, by name, those that matter most first
    history_ : objective, violation and seconds of every round; a list where several problems were solved
    n_iter_ : rounds, the most of all problems
    objective_ : at the end, summed over all problems
    status_ : how the fit ended
    n_features_in_ : columns of X
    feature_names_in_ : their names, where X has them

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
    _has_margin = True
    _pools = True

    def __init__(
        self,
        max_features: int = 10,
        C: float = 1.0,
        *,
        bandwidth: float = 1.0,
        tol: float = 0.001,
        max_iter: int = 200,
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
        self.max_features = max_features
        self.C = C
        self.bandwidth = bandwidth
        self.tol = tol
        self.max_iter = max_iter
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
        check_integer("max_features", self.max_features, 1)
        check_number("bandwidth", self.bandwidth, 0.0, strict=True)
        check_bandwidth(self.bandwidth, 1)

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = {"most features": self.max_features, "cost C": self.C, "bandwidth": self.bandwidth}
        if hasattr(self, "feature_factors_"):
            mean = np.atleast_2d(self.feature_factors_).mean(axis=0)
            names = zip(self.model_.encoder.names, mean, strict=True)
            found["factors"] = ", ".join(f"{name} {factor:.2g}" for name, factor in names)
        return found | super().summary()

    def _memory(self, size: Size) -> MemoryEstimate:
        return {**super()._memory(size), "matrices between all rows": SQUARES * size.square}

    def _learn(self, rows: Rows, context: FitContext) -> tuple[Model, Mapping[str, Any]]:
        space = KernelSpace(self._recipe, "dense", self.scaling, self.missing, max_features=self.max_features)
        encoded = space.encode(rows, context.seed)
        solutions = [self._solve(encoded, y[:, 0]) for y in rows.problems(shared=False)]
        names = [""] if len(rows.classes) == 2 else [f" for {name}" for name in rows.classes]
        kernels = [
            _channel(encoded, s.state.factors / self._width(encoded) ** 2, name)
            for s, name in zip(solutions, names, strict=True)
        ]
        blocks = [_block(s.state, k) for k, s in enumerate(solutions)]
        model = encoded.ground(KernelBank(tuple(kernels))).model(blocks, solutions)
        factors = np.array([s.state.factors[model.columns] for s in solutions])
        dual, weights = factors_of(model.expansion.coef)
        attributes = {"feature_factors_": factors[0] if len(factors) == 1 else factors}
        return replace(model, dual_coef=dual, kernel_weights=weights), attributes

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
        solution = method.solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._log_callback())
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
