"""FeatureScalingSVC: a support vector machine with a few feature factors inside its kernel."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.data.checks import check_bandwidth, check_cost, check_integer, check_number
from tamis.data.rows import Rows
from tamis.expansion import Coefficients
from tamis.explain import part_name
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import ScaledGaussian
from tamis.methods import fs_svm as method
from tamis.models.bill import Bill, Size
from tamis.models.model import Encoded, Model
from tamis.optim.driver import Solution
from tamis.shells.direct import DirectClassifier
from tamis.shells.learning import Factors
from tamis.shells.parameters import parameters
from tamis.shells.pooled import Pooled
from tamis.shells.stacked import factors_of

# [Weston2000], as in docs/references.bib
WESTON2000 = (
    "Weston, Jason; Mukherjee, Sayan; Chapelle, Olivier; Pontil, Massimiliano; Poggio, Tomaso; Vapnik, Vladimir "
    "(2000). Feature selection for SVMs. Advances in Neural Information Processing Systems."
)

SQUARES = 2.6  # matrices between all rows that the solver holds at its peak


@stored
@parameters
class FeatureScalingSVC(Factors, Pooled, DirectClassifier):
    """Support vector machine on a Gaussian kernel with a learned factor for each of a few features [Weston2000].

    The kernel is ``exp(-1/2 sum_c factor_c (s_c - t_c)^2 / width^2)`` with at most `max_features` factors that are
    not zero; they are found by projected gradient descent on the optimal value of the machine, which is not
    convex in them.

    Parameters
    ----------
    max_features : int
        Most features with a factor (per class with more than two classes).
    C : float
        Cost of a violated margin; sample and class weights multiply it.
    bandwidth : float
        Width for one scaled feature; the kernel's width is that times the root of the number of features.
    tol : float
        Largest decrease of the objective, relative to it, that one more step may promise.
    max_iter : int
        Most steps.

    Attributes
    ----------
    feature_factors_ : (n_kept,) factors of the kept features, or (n_classes, n_kept); their sum is the number of
        features that are not constant
    dual_coef_, kernel_weights_, intercept_ : coefficients of the rows; each class has one kernel of weight one

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

    max_features: int = 10
    C: float = 1.0
    _: KW_ONLY
    bandwidth: float = 1.0
    tol: float = 1e-3
    max_iter: int = 200

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("max_features", self.max_features, 1)
        check_number("bandwidth", self.bandwidth, 0.0, strict=True)
        check_bandwidth(self.bandwidth, 1)

    def chosen(self) -> dict[str, Any]:
        found: dict[str, Any] = {"most features": self.max_features, "cost C": self.C, "bandwidth": self.bandwidth}
        if hasattr(self, "feature_factors_"):
            mean = np.atleast_2d(self.feature_factors_).mean(axis=0)
            names = zip(self.model_.encoder.names, mean, strict=True)
            found["factors"] = ", ".join(f"{name} {factor:.2g}" for name, factor in names)
        return found | super().chosen()

    def _bill(self, size: Size) -> Bill:
        return {**super()._bill(size), "matrices between all rows": SQUARES * size.square}

    def _learn(self, rows: Rows, *, quick: bool = False) -> Model:
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
