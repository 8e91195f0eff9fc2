"""LinearL0SVC: the linear baselines of l0-MKL, machines with few features by a concave penalty."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.codec import stored
from tamis.data.checks import check_cost, check_penalty
from tamis.data.rows import Rows
from tamis.estimators.l0_mkl import XUESONG2020
from tamis.methods import linear_l0 as method
from tamis.penalties import PENALTIES
from tamis.shells.linear import Coordinates, Found, LinearClassifier, carried
from tamis.shells.parameters import parameters
from tamis.shells.selecting import Selecting


@stored
@parameters
class LinearL0SVC(Selecting, LinearClassifier):
    """Linear machine with few features: PIE-SVM, CAP-SVM and EP-SVM of [XueSong2020].

    Minimises ``sum_j delta(|w_j|) + C sum_i max(0, 1 - y_i (x_i'w + b))^2`` with a free intercept, where the concave
    delta stands for the number of features, by weighted l1 problems that are solved exactly. The classifier is also a
    selector: `transform` keeps the columns of the features with a weight.

    Parameters
    ----------
    penalty : {"capped_l1", "exp", "exact", "log", "scad", "l1"} or an object of `tamis.penalties`
        "exp" is PIE-SVM, "capped_l1" CAP-SVM, "exact" EP-SVM.
    C : float
        Cost of a violated margin; sample and class weights multiply it.
    theta : float
        How tight the penalty is: "capped_l1" asks nothing more of weights above ``1 / theta``.
    tol : float
        Largest failure of the conditions of a stationary point, relative to the steepest slope of the penalty.
    max_iter : int
        Most weighted problems.

    Attributes
    ----------
    feature_path_ : kept features, those of the largest weight first
    kernel_weights_ : the weight of each kept feature in scaled units; of a category with several levels the norm
        over them
    dual_coef_, intercept_ : the weights that each case carries (see the notes), and the intercept

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

    penalty: Any = "capped_l1"
    C: float = 1.0
    _: KW_ONLY
    theta: float = 3.0
    max_iter: int = 50

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_penalty(self.penalty, self.theta, tuple(PENALTIES))

    def chosen(self) -> dict[str, Any]:
        return {"cost C": self.C, "penalty": self.penalty, "tightness theta": self.theta}

    @property
    def feature_path_(self) -> np.ndarray:
        """The kept features, those of the largest weight first."""
        check_is_fitted(self)
        size = np.abs(np.atleast_2d(self.kernel_weights_)).max(axis=0)
        return self.features_[np.argsort(-size, kind="stable")]

    def _solve(self, points: Coordinates, y: np.ndarray, rows: Rows) -> Found:
        penalty = check_penalty(self.penalty, self.theta, tuple(PENALTIES))
        problem = method.Problem(points.P, y, check_cost(self.C, rows.absolute_weight), penalty)
        solution = method.solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._progress())
        w = solution.state.w
        pull = np.bincount(points.anchor, weights=w, minlength=len(y))
        return Found(carried(points, w, solution.state.intercept), solution, pull)
