"""ChannelBaselineClassifier: what absent multiple kernel learning is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.data.checks import check_choice
from tamis.estimators.absent_mkl import QUICK, nothing, sizes
from tamis.methods import absent_mkl
from tamis.methods import channel_baselines as method
from tamis.models.bill import Bill, Size
from tamis.models.model import Model, PreparedRows
from tamis.optim.driver import Iterate, Status, run
from tamis.optim.polytope import Polytope
from tamis.shells.channelled import ChannelClassifier, ChannelTask, used_parts
from tamis.shells.parameters import parameters
from tamis.shells.stacked import Answer, Task

SQUARES = {"fusion": 4.0, "mean_filling": 10.0, "max_margin": 2.4}  # matrices between all rows that solvers hold
METHODS = ("fusion", "mean_filling", "max_margin")


@stored
@parameters
class ChannelBaselineClassifier(ChannelClassifier):
    """Plain ways to classify samples that lack channels, for comparison with `AbsentMKLClassifier`.

    Parameters
    ----------
    method : {"fusion", "mean_filling", "max_margin"}
        "fusion": a support vector machine for each channel, and the mean of the decisions of those that a sample has.
        "mean_filling": absent channels are filled with the mean of the training samples in the space of the kernel,
        and a sparse combination of the kernels is learned. "max_margin": the margin of a sample is divided by the norm
        of what it sees of the normal vector, in five rounds, on the unweighted sum of the kernels [Chechik2008].
    tol : float
        Relative duality gap of "mean_filling", tolerance of margins of the others.

    Attributes
    ----------
    kernel_weights_, dual_coef_, intercept_ : shares of the kernels in the coefficients, coefficients of the rows

    Notes
    -----
    Explanations add up as for every classifier here. In "fusion" the intercept of a channel's machine is shared by the
    cases of that channel, in equal parts; in "mean_filling" an absent channel contributes what its mean does.

    Filling in the features themselves is a pipeline: `GaussianImputer`, or an imputer of scikit-learn, before any
    classifier.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tamis import ChannelBaselineClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(ChannelBaselineClassifier("max_margin", calibration=None).fit(X, y).score(X, y) > 0.95)
    True
    """

    method: str = "fusion"
    C: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("method", self.method, METHODS)

    def chosen(self) -> dict[str, Any]:
        return {"method": self.method, **super().chosen()}

    def _bill(self, size: Size) -> Bill:
        bill = {**super()._bill(size), "matrices between all rows": SQUARES[self.method] * size.square}
        return {**bill, "filled kernels": 2.0 * size.values} if self.method == "mean_filling" else bill

    def _instead(self, size: Size, room: float) -> str:
        other = "method='fusion' or " if self.method == "mean_filling" else ""
        return f"use {other}AbsentMKLClassifier with landmarks"

    def _tasks(self, prepared: PreparedRows, quick: bool) -> list[Task]:
        if self.method == "mean_filling":
            present, means = _fillings(prepared)
            filled = method.filled_stack(prepared.stack, present, means)
            prepared = replace(prepared, stack=filled)
        return super()._tasks(prepared, quick)

    def _solve(self, task: Task) -> Answer:
        assert isinstance(task, ChannelTask)
        solvers = {"fusion": self._fuse, "mean_filling": self._fill, "max_margin": self._widen}
        return solvers[self.method](task)

    def _fuse(self, task: ChannelTask) -> Answer:
        fused = method.fuse(task.stack, task.y, task.cost, task.present, tol=self.tol)
        status = Status.CONVERGED if fused.converged else Status.STALLED
        solution = run(iter([Iterate(None, fused.value, 0.0, status)]), tol=self.tol, max_iter=1)
        base = 1.0 if task.y @ task.cost >= 0 else -1.0  # for rows that have nothing
        machines = fused.dual_coef.any(axis=0)
        offsets = np.where(machines, fused.intercepts - base, 0.0)
        return Answer(fused.dual_coef, np.ones(len(offsets)), base, solution, offsets)

    def _fill(self, task: ChannelTask) -> Answer:
        everywhere = np.tile(task.present.any(axis=0), (len(task.y), 1))
        scale = sizes(replace(task, present=everywhere))
        seen = np.flatnonzero(scale > 0)
        if not len(seen):
            return nothing(task)
        problem = absent_mkl.Problem(task.stack.take(kernels=seen), task.y, task.cost, Polytope(scale[None, seen]))
        tol = max(self.tol, QUICK) if task.quick else self.tol
        solution = absent_mkl.solve(problem, tol=tol, callback=self._progress())
        weights = np.zeros(len(scale))
        weights[seen] = solution.state.weights
        history = solution.history.among(seen, len(scale))
        return Answer(solution.state.dual_coef, weights, solution.state.intercept, replace(solution, history=history))

    def _widen(self, task: ChannelTask) -> Answer:
        solution = method.solve_max_margin(
            task.stack, task.y, task.cost, task.present, tol=self.tol, callback=self._progress()
        )
        machine = solution.state
        return Answer(machine.dual_coef, task.present.any(axis=0).astype(float), machine.intercept, solution)

    def _coefficients(self, prepared: PreparedRows, answers: Sequence[Answer]) -> tuple[np.ndarray, np.ndarray]:
        coef, intercept = super()._coefficients(prepared, answers)
        if self.method == "mean_filling":
            present, means = _fillings(prepared)
            coef = coef * present + means.T * (coef * ~present).sum(axis=1, keepdims=True)
        return coef, intercept

    def _assembled(self, prepared: PreparedRows, answers: Sequence[Answer]) -> Model:
        model = super()._assembled(prepared, answers)
        coef, _ = self._coefficients(prepared, answers)
        instances, kernels = used_parts(coef)
        expansion = model.expansion
        parts = {name: getattr(expansion, name) for name in ("bank", "instances", "intercept", "coef")}
        if self.method == "mean_filling":
            _, means = _fillings(prepared)
            stack = prepared.stack.take(cols=instances)
            fills = np.array([means[k] @ stack.one(int(k)) for k in kernels]).reshape(len(kernels), len(instances))
            return replace(model, expansion=method.FilledExpansion(**parts, fills=fills))
        if self.method == "fusion":
            votes = self._votes(prepared.encoded.rows)
            offsets = (votes @ [a.facts for a in answers])[:, kernels]
            return replace(model, expansion=method.FusedExpansion(**parts, offsets=offsets))
        return model


def _fillings(prepared: PreparedRows) -> tuple[np.ndarray, np.ndarray]:
    """Who has what (n, L), and the weights (L, n) of the rows in the mean of each channel."""
    present = prepared.bank.presence(prepared.pool.Z)
    return present, method.mean_weights(present, prepared.encoded.rows.mass)
