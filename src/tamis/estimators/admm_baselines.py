"""The baselines of the EM2NOLC paper, by ADMM as there: linear and kernel machines, and the lasso on labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.estimators.checks import check_cost, check_integer, check_number
from tamis.estimators.em2nolc import ZHANG2022
from tamis.estimators.linear import Coordinates, Found, LinearClassifier, carried
from tamis.estimators.rows import Rows
from tamis.estimators.stacked import Answer, CostClassifier, Task
from tamis.expansion import Coefficients
from tamis.kernels.recipes import product
from tamis.methods import admm_kernel_svm, admm_lasso, admm_linear_svm


@stored
class LinearSVMADMM(LinearClassifier):
    """Linear support vector machine by ADMM, the LSVMC of [Zhang2022].

    Minimises ``1/2 |w|^2 + C sum_i max(0, 1 - y_i (x_i'w + b))`` with a free intercept. A category is one indicator
    per level. The decision is the sum over support vectors of linear kernels, one per feature.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    scaling : {"standard", "rank", None}, default="standard"
    missing : {"absent", "median", None}, default="absent"
        "absent": a missing cell contributes nothing, as the mean would; "median": filled with the training
        median (the most frequent category); None: refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto" takes text, boolean and categorical columns; name codes that come as numbers.
    class_weight : dict, "balanced" or None, default=None
    calibration : int or None, default=3
        Folds that fit the probabilities and place the intercept where they say one half; None: no
        `predict_proba`, the method's own intercept, and a faster fit.
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    max_iter : int, default=1000
        Most steps.
    random_state : int, RandomState or None, default=None
        For the calibration folds. None is as good as 0.
    n_jobs : int or None, default=None
        Processes for calibration folds.
    verbose : int, default=0

    Attributes
    ----------
    kernel_weights_ : the weight of each kept feature in scaled units; of a category the norm over its levels
    dual_coef_, intercept_ : coefficients of the support vectors, and the intercept
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features (positions) and kernels
    instance_importance_, kernel_importance_ : signed percentages of the coefficients and weights
    instance_variation_, kernel_variation_ : shares in the variation of the decision
    instances_per_class_, history_, n_iter_, objective_, status_, classes_, n_features_in_
    feature_names_in_ : where X has column names

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
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        class_weight: Any = None,
        calibration: int | None = 3,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.C = C
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
        check_number("C", self.C, 0.0, strict=True)

    def chosen(self) -> dict[str, Any]:
        return {"cost C": self.C}

    def _solve(self, points: Coordinates, y: np.ndarray, rows: Rows) -> Found:
        problem = admm_linear_svm.Problem(points.P, y, check_cost(self.C, rows.absolute_weight))
        solution = admm_linear_svm.solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._progress())
        state = solution.state
        ones = np.ones(rows.table.numbers.shape[1])
        return Found(Coefficients.rank_one(state.dual_coef, ones, state.intercept), solution, state.dual_coef)


@stored
class KernelSVMADMM(CostClassifier):
    """Kernel support vector machine by ADMM on its dual, the SVMC of [Zhang2022].

    Parameters
    ----------
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        None is `tamis.product("all")`, one Gaussian on all features. Of several kernels the mean is taken, as
        `AverageMKLClassifier` does.
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
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    max_iter : int, default=1000
        Most steps.
    random_state : int, RandomState or None, default=None
        For the calibration folds. None is as good as 0.
    n_jobs : int or None, default=None
        Processes for calibration folds.
    verbose : int, default=0

    Attributes
    ----------
    kernel_weights_, dual_coef_, intercept_ : weights of the kernels (adding up to one), coefficients of the rows
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features (positions) and kernels
    instance_importance_, kernel_importance_ : signed percentages of the coefficients and weights
    instance_variation_, kernel_variation_ : shares in the variation of the decision
    instances_per_class_, history_, n_iter_, objective_, status_, classes_, n_features_in_
    feature_names_in_ : where X has column names

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

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernels: Any = None,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        class_weight: Any = None,
        calibration: int | None = 3,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.C = C
        self.kernels = kernels
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
        check_integer("max_iter", self.max_iter, 1)

    def _solve(self, task: Task) -> Answer:
        L = task.stack.shape[0]
        weights = np.full(L, 1.0 / L)
        problem = admm_kernel_svm.Problem(task.stack.combine(weights).dense(), task.y, task.cost)
        solution = admm_kernel_svm.solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._progress())
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
    scaling : {"standard", "rank", None}, default="standard"
    missing : {"absent", "median", None}, default="absent"
        "absent": a missing cell contributes nothing, as the mean would; "median": filled with the training
        median (the most frequent category); None: refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto" takes text, boolean and categorical columns; name codes that come as numbers.
    class_weight : dict, "balanced" or None, default=None
    calibration : int or None, default=3
        Folds that fit the probabilities and place the intercept where they say one half; None: no
        `predict_proba`, the method's own intercept, and a faster fit.
    tol : float, default=1e-4
        Relative duality gap at which the fit stops.
    max_iter : int, default=1000
        Most steps.
    random_state : int, RandomState or None, default=None
        For the calibration folds. None is as good as 0.
    n_jobs : int or None, default=None
        Processes for calibration folds.
    verbose : int, default=0

    Attributes
    ----------
    kernel_weights_ : the weight of each kept feature in scaled units; of a category the norm over its levels
    dual_coef_, intercept_ : the weights that each case carries (see the notes), and the intercept
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features (positions) and kernels
    instance_importance_, kernel_importance_ : signed percentages of the coefficients and weights
    instance_variation_, kernel_variation_ : shares in the variation of the decision
    instances_per_class_, history_, n_iter_, objective_, status_, classes_, n_features_in_
    feature_names_in_ : where X has column names

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
    _placed = False  # least squares

    def __init__(
        self,
        alpha: float = 0.01,
        *,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        class_weight: Any = None,
        calibration: int | None = 3,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
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
        check_number("alpha", self.alpha, 0.0, strict=True)

    def chosen(self) -> dict[str, Any]:
        return {"penalty alpha": self.alpha}

    def _solve(self, points: Coordinates, y: np.ndarray, rows: Rows) -> Found:
        problem = admm_lasso.Problem(points.P, y, rows.weight, self.alpha * float(rows.weight.sum()))
        solution = admm_lasso.solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._progress())
        w = solution.state.w
        pull = np.bincount(points.anchor, weights=w, minlength=len(y))
        return Found(carried(points, w, solution.state.intercept), solution, pull)
