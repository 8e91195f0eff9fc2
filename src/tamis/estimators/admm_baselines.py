"""The baselines of the EM2NOLC paper, by ADMM as there: linear and kernel machines, and the lasso on labels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.estimators.checks import check_cost, check_integer, check_number
from tamis.estimators.direct import DirectClassifier
from tamis.estimators.em2nolc import ZHANG2022
from tamis.estimators.model import Model
from tamis.estimators.rows import Rows
from tamis.estimators.stacked import WIDTH, Answer, StackClassifier, Task
from tamis.expansion import Coefficients
from tamis.kernels.base import Polynomial
from tamis.kernels.recipes import per_feature, product
from tamis.methods import admm_kernel_svm, admm_lasso, admm_linear_svm
from tamis.optim.driver import Solution

LINEAR = per_feature(Polynomial(1, 0.0))  # a category is its indicators


@dataclass(frozen=True)
class Coordinates:
    """Encoded rows in the coordinates of a linear function.

    Attributes
    ----------
    P : (n, e) numbers, and an indicator for each level of a category; zero where a cell is missing
    owner : (e,) the column of each
    anchor : (e,) a row that has the largest modulus in it
    """

    P: np.ndarray
    owner: np.ndarray
    anchor: np.ndarray

    @classmethod
    def of(cls, Z: np.ndarray, nominal: np.ndarray) -> Coordinates:
        parts, owner = [], []
        for c, (column, category) in enumerate(zip(Z.T, nominal, strict=True)):
            levels = np.unique(column[~np.isnan(column)])
            block = (column[:, None] == levels).astype(float) if category else np.nan_to_num(column)[:, None]
            parts.append(block)
            owner += [c] * block.shape[1]
        P = np.hstack(parts)
        return cls(P, np.array(owner, dtype=int), np.argmax(np.abs(P), axis=0))

    def by_column(self, w: np.ndarray, n_columns: int) -> np.ndarray:
        """The weight of each column (n_columns,); of a category the norm over its levels."""
        counts = np.bincount(self.owner, minlength=n_columns)
        norms = np.sqrt(np.bincount(self.owner, weights=w * w, minlength=n_columns))
        return np.where(counts == 1, np.bincount(self.owner, weights=w, minlength=n_columns), norms)


@dataclass(frozen=True)
class Found:
    """One output: coefficients of pairs, how the run went, and what each row (n,) pulls."""

    block: Coefficients
    solution: Solution
    pull: np.ndarray


class LinearClassifier(DirectClassifier):
    """Base of the linear classifiers: one linear kernel per feature, an indicator for categories."""

    tol: float
    max_iter: int

    @abstractmethod
    def _solve(self, points: Coordinates, y: np.ndarray, rows: Rows) -> Found:
        """Solve one problem of two classes."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("tol", self.tol, 0.0, strict=True)
        check_integer("max_iter", self.max_iter, 1)

    def _learn(self, rows: Rows, *, quick: bool = False) -> Model:
        encoded = self._encoded(rows, rows.table.numbers.shape[1], "streaming")
        Z = encoded.sample.Z
        points = Coordinates.of(Z, encoded.sample.nominal)
        found = [self._solve(points, y[:, 0], rows) for y in rows.problems(shared=False)]
        ground = encoded.ground(LINEAR.bank(encoded.sample, WIDTH))
        model = ground.model([one.block for one in found], [one.solution for one in found])
        row = {position: i for i, position in enumerate(ground.pool.position.tolist())}
        kept = [row[position] for position in model.instances.tolist()]
        dual = np.array([one.pull[kept] for one in found])
        weights = np.array([points.by_column(one.solution.state.w, Z.shape[1])[model.kernels] for one in found])
        return replace(model, dual_coef=dual, kernel_weights=weights)


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
class KernelSVMADMM(StackClassifier):
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
        return Found(_carried(points, w, solution.state.intercept), solution, pull)


def _carried(points: Coordinates, w: np.ndarray, intercept: float) -> Coefficients:
    """Terms ``w_e x_e`` as coefficients of pairs: column e is carried by its anchor."""
    kept = np.flatnonzero(w)
    instances, kernels = np.unique(points.anchor[kept]), np.unique(points.owner[kept])
    coef = np.zeros((1, len(instances), len(kernels)))
    i, k = np.searchsorted(instances, points.anchor[kept]), np.searchsorted(kernels, points.owner[kept])
    np.add.at(coef[0], (i, k), w[kept] / points.P[points.anchor[kept], kept])
    return Coefficients(instances, kernels, coef, np.array([intercept]))
