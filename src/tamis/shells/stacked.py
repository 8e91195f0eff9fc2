"""The shell of the classifiers that end in one coefficient per row and one weight per kernel.

    f(x) = sum_l weights[l] sum_i dual_coef[i] k_l(x_i, x) + intercept

A method derives from `StackClassifier` and adds its parameters and ``_solve``, which sees kernels between
training rows, labels in {-1, +1} and the cost of each row; a support vector machine derives from `CostClassifier`,
which has a parameter C and takes positive semi-definite kernels only. More than two classes are one against the rest.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from tamis.data.checks import check_cost
from tamis.data.rows import Rows
from tamis.expansion import Coefficients
from tamis.kernels.recipes import Recipe, bandwidths
from tamis.kernels.spectrum import check_positive
from tamis.kernels.stack import KernelStack
from tamis.models.bill import Bill, Size, kept_values, square_bill
from tamis.models.model import Model, PreparedRows
from tamis.optim.driver import Solution
from tamis.shells.device import OnDevice
from tamis.shells.direct import DirectClassifier
from tamis.shells.extending import Extending
from tamis.shells.learning import Factors
from tamis.shells.parameters import parameters

WIDTH = 1.0  # of recipes that bring none
TOP = 3  # kernels that `chosen` names


@dataclass(frozen=True)
class Task:
    """One problem: kernels (L, n, n), labels (n,) in {-1, +1}, costs (n,), and whether a rough answer will do.

    `incidence` (L, columns) says which columns stand behind each kernel; None where each has its own one.
    """

    stack: KernelStack
    y: np.ndarray
    cost: np.ndarray
    quick: bool
    incidence: np.ndarray | None = None


@dataclass(frozen=True)
class Answer:
    """What a method makes of a task: its machine, how the run went, and what else there is to tell."""

    dual_coef: np.ndarray
    weights: np.ndarray
    intercept: float
    solution: Solution
    facts: Any = None


@parameters
class StackClassifier(Extending, Factors, DirectClassifier):
    """Base of the classifiers on a learned mean of kernels.

    Parameters
    ----------
    kernels : None, recipe, KernelBank or list of (name, kernel, columns)
        None is `tamis.bandwidths()`, ten Gaussians on all features; see also `tamis.per_feature()`,
        `tamis.precomputed()`.
    tol : float
        Relative duality gap at which the fit stops.
    """

    _: KW_ONLY
    kernels: Any = None
    tol: float = 1e-3

    _placed = True
    _recipe: ClassVar[Recipe] = bandwidths()
    _form: ClassVar[str] = "auto"
    _squares: ClassVar[float] = 3.0  # matrices between all rows that the solver holds at its peak

    @abstractmethod
    def _solve(self, task: Task) -> Answer:
        """Solve one problem of two classes."""

    def _facts(self, facts: list[Any], prepared: PreparedRows) -> None:
        """Set the learned attributes that only this method has, from the facts of its answers."""

    @property
    def _engine(self) -> str:
        """The form of the kernel stack."""
        return self._form

    def _costs(self, rows: Rows) -> np.ndarray:
        """What each row (n,) counts in the loss."""
        return rows.absolute_weight

    def _check_kernels(self, prepared: PreparedRows) -> None:
        """Refuse kernels that the method cannot work with."""

    def chosen(self) -> dict[str, Any]:
        return {**told_factors(self), **super().chosen()}

    def _bill(self, size: Size) -> Bill:
        return {**super()._bill(size), **square_bill(size, self._kept(size), self._squares, self._device)}

    def _kept(self, size: Size) -> float:
        """Bytes of the kernel values that are held in numpy."""
        return kept_values(size, self._engine)

    def _learn(self, rows: Rows, *, quick: bool = False) -> Model:
        prepared = self._prepare(rows)
        if not quick:
            self._check_kernels(prepared)
        answers = [self._solve(task) for task in self._tasks(prepared, quick)]
        model = self._assembled(prepared, answers)
        if quick:
            return model
        self._facts([a.facts for a in answers], prepared)
        self._measure(prepared.bank)
        return self._factored(model, prepared, answers)

    def _factored(self, model: Model, prepared: PreparedRows, answers: Sequence[Answer]) -> Model:
        """The model with the factors of its coefficients."""
        dual, weights = factors_of(model.expansion.coef)
        return replace(model, dual_coef=dual, kernel_weights=weights)

    def _assembled(self, prepared: PreparedRows, answers: Sequence[Answer]) -> Model:
        """The model of the answers."""
        return model_of(prepared, answers)

    def _tasks(self, prepared: PreparedRows, quick: bool) -> list[Task]:
        """The problems to solve, one for each output."""
        rows = prepared.encoded.rows
        cost = self._costs(rows)
        incidence = None if prepared.bank.positions else prepared.incidence
        return [Task(prepared.stack, y[:, 0], cost, quick, incidence) for y in rows.problems(shared=False)]

    def _prepare(self, rows: Rows) -> PreparedRows:
        encoded = self._encoded(rows, rows.table.numbers.shape[1], self._engine)
        return encoded.prepare(self.kernels, self._recipe, WIDTH, device=self._device)


class CostClassifier(OnDevice, StackClassifier):
    """Base of the support vector machines on a learned mean of positive semi-definite kernels.

    Parameters
    ----------
    C : float
        Cost of a violated margin; sample and class weights multiply it.
    """

    C: float

    def chosen(self) -> dict[str, Any]:
        return {"cost C": self.C, **super().chosen()}

    def _costs(self, rows: Rows) -> np.ndarray:
        return check_cost(self.C, rows.absolute_weight)

    def _check_kernels(self, prepared: PreparedRows) -> None:
        check_positive(prepared.bank, prepared.pool.Z, self._seed)


def told_factors(estimator: Any) -> dict[str, str]:
    """The kernels of largest weight of a fitted estimator, the mean over outputs; nothing if there are none."""
    if not hasattr(estimator, "kernel_weights_") or not len(estimator.kernel_names_):
        return {}
    share = np.atleast_2d(estimator.kernel_weights_).mean(axis=0)
    return {"weights of kernels": told_weights(estimator.kernel_names_, share)}


def told_weights(names: np.ndarray, share: np.ndarray) -> str:
    """The kernels of largest weight, in words."""
    top = np.argsort(-share, kind="stable")[:TOP]
    text = ", ".join(f"{names[k]} ({100 * share[k]:.0f}%)" for k in top)
    return text + (f" and {len(share) - len(top)} more" if len(share) > len(top) else "")


def model_of(prepared: PreparedRows, answers: Sequence[Answer]) -> Model:
    """The model of the answers, one for each output."""
    blocks = [Coefficients.rank_one(a.dual_coef, a.weights, a.intercept) for a in answers]
    return prepared.model(blocks, [a.solution for a in answers])


def factors_of(coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """dual_coef (q, k) and weights (q, L), adding up to one, of coefficients that are their products.

    Of other coefficients they are sums over kernels, and shares of the kernels in the moduli.
    """
    total = np.abs(coef).sum(axis=(1, 2))[:, None]
    return coef.sum(axis=2), np.abs(coef).sum(axis=1) / np.where(total > 0, total, 1.0)
