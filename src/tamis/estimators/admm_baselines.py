"""The baselines of the EM2NOLC paper, by ADMM as there: linear and kernel machines, and the lasso on labels."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.data.checks import check_cost, check_number
from tamis.data.rows import Rows
from tamis.estimators.em2nolc import ZHANG2022
from tamis.expansion import Coefficients
from tamis.kernels.recipes import product
from tamis.methods import admm_kernel_svm, admm_lasso, admm_linear_svm
from tamis.shells.linear import Coordinates, Found, LinearClassifier, carried
from tamis.shells.parameters import parameters
from tamis.shells.pooled import Pooled
from tamis.shells.stacked import Answer, CostClassifier, Task

DIGITS = 1e-8  # share of the decisions that rounding of the terms of support vectors may reach


@stored
@parameters
class LinearSVMADMM(LinearClassifier):
    """Linear support vector machine by ADMM, the LSVMC of [Zhang2022].

    Minimises ``1/2 |w|^2 + C sum_i max(0, 1 - y_i (x_i'w + b))`` with a free intercept. A category is one indicator
    per level. The decision is the sum over support vectors of linear kernels, one per feature.

    Parameters
    ----------
    C : float
        Cost of a violated margin; sample and class weights multiply it.

    Attributes
    ----------
    kernel_weights_ : the weight of each kept feature in scaled units; of a category the norm over its levels
    dual_coef_, intercept_ : coefficients of the support vectors, and the intercept

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import LinearSVMADMM
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> bool(LinearSVMADMM(C=0.1, calibration=None).fit(X, y).score(X, y) > 0.97)
    True
    """

    citation = ZHANG2022

    C: float = 1.0

    def chosen(self) -> dict[str, Any]:
        return {"cost C": self.C}

    def _solve(self, points: Coordinates, y: np.ndarray, rows: Rows) -> Found:
        problem = admm_linear_svm.Problem(points.P, y, check_cost(self.C, rows.absolute_weight))
        solution = admm_linear_svm.solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._progress())
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
@parameters
class KernelSVMADMM(Pooled, CostClassifier):
    """Kernel support vector machine by ADMM on its dual, the SVMC of [Zhang2022].

    Parameters
    ----------
    kernels : None, recipe, KernelBank or list of (name, kernel, columns)
        None is `tamis.product("all")`, one Gaussian on all features. Of several kernels the mean is taken, as
        `AverageMKLClassifier` does.
    max_iter : int
        Most steps.

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

    C: float = 1.0
    _: KW_ONLY
    tol: float = 1e-4
    max_iter: int = 1000

    def _solve(self, task: Task) -> Answer:
        L = task.stack.shape[0]
        weights = np.full(L, 1.0 / L)
        problem = admm_kernel_svm.Problem(task.stack.matrix(weights), task.y, task.cost)
        solution = admm_kernel_svm.solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._progress())
        return Answer(solution.state.dual_coef, weights, solution.state.intercept, solution)


@stored
@parameters
class LassoADMM(LinearClassifier):
    """Lasso on the labels -1 and +1 by ADMM, the LASSOC of [Zhang2022].

    Minimises ``1/2 mean_i (x_i'w + b - y_i)^2 + alpha |w|_1`` with a free intercept. A category is one indicator
    per level.

    Parameters
    ----------
    alpha : float
        Penalty relative to the number of rows, as in scikit-learn's Lasso. Large values leave no feature.

    Attributes
    ----------
    kernel_weights_ : the weight of each kept feature in scaled units; of a category the norm over its levels
    dual_coef_, intercept_ : the weights that each case carries (see the notes), and the intercept

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

    alpha: float = 0.01

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
