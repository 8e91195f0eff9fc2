"""L0MKLClassifierCV: penalty, tightness and kernels of l0-MKL chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.codec import stored
from tamis.data.checks import check_choice, check_values
from tamis.data.rows import Rows
from tamis.estimators.l0_mkl import CHOICES, XUESONG2020, L0Classifier, L0MKLClassifier, answer, told_ridge, warn_bent
from tamis.kernels.base import Sigmoid
from tamis.kernels.recipes import per_feature
from tamis.methods import l0_mkl as method
from tamis.models.selection import HeldOut, Result, as_named
from tamis.shells.parameters import parameters
from tamis.shells.searching import SearchClassifier
from tamis.shells.stacked import model_of, told_factors

SIGMOIDS = {f"sigmoid {a}, {r}": per_feature(Sigmoid(a, r)) for a, r in ((0.1, 0.1), (0.1, 1.0), (0.3, 0.1))}
HELD = 1 << 28  # bytes of kernel values, or of their short forms, that a fold of the search may hold


@dataclass(frozen=True)
class Cell:
    """One point of the grid; kernels by name."""

    kernels: str
    lambda1: float
    theta: float
    lambda2: float


@stored
@parameters
class L0MKLClassifierCV(L0Classifier, SearchClassifier):
    """Search of l0-MKL: penalty, tightness and kernels chosen by cross-validation [XueSong2020].

    For all kernels and every lambda1 the first machine and its pass over the kernels serve all penalties, and each path
    goes from the largest lambda2 down. Scores come from held-out rows of the training data only; the score of the
    winner is the best of many and therefore optimistic: do not report it as performance.

    Parameters
    ----------
    lambda2s : sequence of float
        As shares of the value at which no feature is left.
    thetas : sequence of float
    lambda1s : sequence of float
    kernels : as in `L0MKLClassifier`, or a dict {name: choice} to choose among
        None chooses among ``tanh(a s t - r)`` on each feature with (a, r) = (0.1, 0.1), (0.1, 1) and (0.3, 0.1).
    penalty : {"capped_l1", "exp", "log", "scad", "l1"}
        With "l1" theta plays no role, and one value of it is tried.

    Attributes
    ----------
    lambda2_, theta_, lambda1_ : what was chosen
    lambda2_path_ : dict with `lambda2` and, for the chosen kernels, lambda1 and theta, the mean number of features
        `n_features` over folds and the scores `log_loss`, `accuracy`, `roc_auc`, `squared_error`

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import L0MKLClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = L0MKLClassifierCV(lambda2s=(0.1, 0.4), thetas=(10.0,), cv=2).fit(X[:200], y[:200])
    >>> clf.lambda2_ in (0.1, 0.4), bool(clf.score(X, y) > 0.9)
    (True, True)
    """

    citation = XUESONG2020
    _single, _cell_type = L0MKLClassifier, Cell

    lambda2s: Sequence[float] = (0.02, 0.05, 0.1, 0.2, 0.4)
    thetas: Sequence[float] = (3.0, 10.0, 30.0)
    lambda1s: Sequence[float] = (0.1,)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("lambda2s", "thetas", "lambda1s"):
            check_values(name, getattr(self, name))
        for lambda1, theta, lambda2 in product(self.lambda1s, self.thetas, self.lambda2s):
            self._estimator(lambda1=lambda1, theta=theta, lambda2=lambda2)._check_parameters()
        check_choice("penalty", self.penalty, CHOICES)

    @property
    def _choices(self) -> dict[str, Any]:
        return SIGMOIDS if self.kernels is None else super()._choices

    def _tried(self, train: Rows, test: Rows) -> dict[Cell, HeldOut]:
        out: dict[Cell, HeldOut] = {}
        lambda2s, thetas, lambda1s = (tuple(dict.fromkeys(v)) for v in (self.lambda2s, self.thetas, self.lambda1s))
        thetas = thetas[:1] if self.penalty == "l1" else thetas
        weight = float(train.weight.sum())
        for name in self._choices:
            first = self._at(Cell(name, lambda1s[0], thetas[0], lambda2s[0]))
            prepared = first._prepare(train)
            if self.engine == "auto":
                prepared = replace(prepared, stack=prepared.stack.held(HELD))
            tasks = first._tasks(prepared, quick=True)
            for lambda1 in lambda1s:
                begun = None
                for theta in thetas:
                    estimator = self._at(Cell(name, lambda1, theta, lambda2s[0]))
                    problems = [estimator._problem(task) for task in tasks]
                    begun = [method.opening(problem) for problem in problems] if begun is None else begun
                    paths = [
                        method.path(problem, lambda2s, begun=one, rounds=self.rounds, tol=self.tol)
                        for problem, one in zip(problems, begun, strict=True)
                    ]
                    for lambda2 in lambda2s:
                        solutions = [path[lambda2] for path in paths]
                        model = model_of(prepared, [answer(solution) for solution in solutions])
                        objective = sum(solution.objective for solution in solutions) / weight
                        out[Cell(name, lambda1, theta, lambda2)] = HeldOut.of_model(model, test, objective)
        return out

    def _size(self, cell: Cell, result: Result) -> Any:
        return result.n_features, -cell.lambda2

    def _publish_search(self, cell: Cell, results: dict[Cell, Result]) -> None:
        beside = [c for c in results if (c.kernels, c.lambda1, c.theta) == (cell.kernels, cell.lambda1, cell.theta)]
        beside.sort(key=lambda c: -c.lambda2)
        self.lambda2_path_ = {"lambda2": np.array([c.lambda2 for c in beside])}
        self.lambda2_path_["n_features"] = np.array([results[c].n_features for c in beside])
        for name in results[cell].scores:
            self.lambda2_path_[name] = np.array([as_named(name, results[c].scores[name]) for c in beside])

    def _warn(self) -> None:
        super()._warn()
        warn_bent(self)

    def chosen(self) -> dict[str, Any]:
        check_is_fitted(self)
        return {
            "penalty lambda2": self.lambda2_,
            "ridge lambda1": told_ridge(self.lambda1_, self.ridge_),
            "tightness theta": self.theta_,
            **self._told_choice(),
            **told_factors(self),
            **super().chosen(),
        }
