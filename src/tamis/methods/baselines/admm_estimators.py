"""The baselines of the EM2NOLC paper, by ADMM as there: linear and kernel machines, and the lasso on labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.base.citations import ZHANG2022
from tamis.base.expansion import Coefficients
from tamis.base.linear import Coordinates, Found, LinearClassifier, carried
from tamis.base.stack_classifier import Answer, StackClassifier, Task
from tamis.codec import stored
from tamis.kernels.recipes import product
from tamis.methods.baselines import admm_kernel_svm, admm_lasso, admm_linear_svm
from tamis.table.checks import check_cost, check_number
from tamis.table.rows import Rows

DIGITS = 1e-8  # share of the decisions that rounding of the terms of support vectors may reach


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
        "standard": numbers are scaled to mean zero and variance one; "rank": replaced by ranks, which suits columns
        with long tails; None: used as they are.
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
        problem = admm_linear_svm.Problem(points.P, y, check_cost(self.C, rows.absolute_weight))
        solution = admm_linear_svm.solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._log_callback())
        state = solution.state
        _check_digits(points.P, state)
        ones = np.ones(rows.table.numbers.shape[1])
        return Found(Coefficients.rank_one(state.dual_coef, ones, state.intercept), solution, state.dual_coef)


def _check_digits(P: np.ndarray, state: admm_linear_svm.State) -> None:
    """Refuse support vectors whose terms are so large that their sum has too few digits left."""
    terms = float(np.max(np.abs(P) @ (np.abs(P).T @ np.abs(state.dual_coef)), initial=0.0))
    decision = float(np.max(np.abs(P @ state.w + state.intercept), initial=0.0))
    if terms * np.finfo(float).eps > DIGITS * max(decision, 1.0):
        raise ValueError(
            f"scaling=None: columns of X reach {np.max(np.abs(P)):.1e} from their mean, and the terms of the support "
            f"vectors, up to {terms:.1e}, cancel to decisions of {decision:.1e}, which rounding would spoil: use "
            "scaling='standard', or other units"
        )


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
        "cuda" or "cuda:1" holds all kernel values on that device and combines, multiplies and factors their matrices
        there, in float64; "cpu" does so by torch; both need ``pip install 'tamis[gpu]'``. None is numpy. The model is
        the same up to rounding, and needs neither torch nor the device.
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
    pool_error_ : where a pool was drawn, the share of other training rows (up to 20 000 of them, by their weights) that
        are predicted wrong
    kernel_weights_ : weights of the kernels, adding up to one
    dual_coef_ : coefficients of the rows
    instance_importance_ : signed percentages of the coefficients
    kernel_importance_ : percentages of the weights
    feature_importance_ : the same for features, where every kernel stands on one
    classes_ : the class labels, sorted; of two the second is the positive one
    instances_per_class_ : the instances of each output
    instances_ : training rows with a coefficient, as positions
    instance_labels_ : the same as index labels
    features_ : kept features, as positions in X
    kernels_ : kept kernels
    kernel_names_ : their names
    intercept_ : of each output
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
        problem = admm_kernel_svm.Problem(task.stack.matrix(weights), task.y, task.cost)
        solution = admm_kernel_svm.solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._log_callback())
        return Answer(solution.state.dual_coef, weights, solution.state.intercept, solution)


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
        "standard": numbers are scaled to mean zero and variance one; "rank": replaced by ranks, which suits columns
        with long tails; None: used as they are.
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
        problem = admm_lasso.Problem(points.P, y, rows.weight, self.alpha * float(rows.weight.sum()))
        solution = admm_lasso.solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._log_callback())
        w = solution.state.w
        pull = np.bincount(points.anchor, weights=w, minlength=len(y))
        return Found(carried(points, w, solution.state.intercept), solution, pull)
