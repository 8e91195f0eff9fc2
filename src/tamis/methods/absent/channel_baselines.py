"""What absent multiple kernel learning is compared with: mean filling, fusion of classifiers, MMAF.

Mean filling replaces an absent phi_p by the mean of the observed ones. With ``s`` the presence (n,) of a channel and
``mean = w*s / sum(w*s)`` the weights of its rows in that mean,

    K_filled = M K M',   M = diag(s) + (1 - s) mean'

Fusion trains a machine for each channel on the rows that have it; a row is scored by the mean over the channels that
it has.

MMAF [Chechik2008] divides the margin of a row by the norm of what it sees of the normal vector: in turns

    min over w, b of 1/2 |w|^2 + sum_i cost_i max(0, 1 - y_i f(x_i) / c_i),   c_i = |w restricted to i| / |w|

on the unweighted sum of the kernels, from c = 1. With ``beta = alpha / c`` the dual has the matrix K and asks for
margins c at cost ``cost / c``.

Departures: a row without any channel has no c, and keeps one. Fusion leaves a channel whose rows are all of one class
out of the mean, and gives a row that has no other the class of larger cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from tamis.arrays import Array
from tamis.base.kernel_model import KernelExpansion, KernelModel
from tamis.base.kernel_space import PreparedRows
from tamis.base.memory import MemoryEstimate, Size
from tamis.base.stack_classifier import Answer, StackClassifier, Task
from tamis.codec import stored
from tamis.errors import check_choice
from tamis.explain.kernel_explanation import ChannelExplanation
from tamis.kernels.recipes import per_feature
from tamis.kernels.stacks.base import DenseStack, KernelStack
from tamis.methods.absent import solver as absent_mkl
from tamis.methods.absent.channels import (
    MULTICLASS,
    ChannelProblems,
    channel_ranges,
    explain_channels,
    mirrored,
    used_parts,
)
from tamis.methods.absent.estimator import FOLD_GAP, nothing, sizes
from tamis.optim.driver import Callback, Iterate, Solution, Status, run
from tamis.optim.polytope import Polytope
from tamis.optim.svm import Machine, solve_svm

MMAF_ROUNDS = 5  # of MMAF
MIN_NORM = 1e-3  # least c
SQUARES = {"fusion": 4.0, "mean_filling": 10.0, "max_margin": 2.4}  # matrices between all rows that solvers hold
METHODS = ("fusion", "mean_filling", "max_margin")


# ---------------------------------------------------------------------- mean filling


def mean_weights(present: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The weights (L, n) of the rows in the mean of each channel; zero for a channel that nobody has."""
    share = present.T * weight
    total = share.sum(axis=1, keepdims=True)
    return np.divide(share, total, out=np.zeros_like(share), where=total > 0)


def filled_stack(stack: KernelStack, present: np.ndarray, means: np.ndarray) -> DenseStack:
    """The kernels ``M K M'`` between rows whose absent channels are filled with the mean."""
    values = np.empty(stack.shape)
    for k, (here, mean) in enumerate(zip(present.T, means, strict=True)):
        K = stack.one(k)
        half = K * here[:, None] + np.outer(~here, mean @ K)
        values[k] = half * here + np.outer(half @ mean, ~here)
    return DenseStack(values)


@stored
@dataclass(frozen=True)
class FilledExpansion(KernelExpansion):
    """A `KernelExpansion` in which an absent channel has the kernel values `fills` (L, k) of its mean."""

    fills: np.ndarray

    def _decision(self, Z: np.ndarray) -> np.ndarray:
        return self.intercept + np.einsum("lrk,qkl->rq", self.kernel_values(Z), self.coef)

    def kernel_values(self, Z: Array) -> Array:
        values = np.array(super().kernel_values(Z))
        for k, here in enumerate(self.bank.presence(Z).T):
            values[k, ~here] = self.fills[k]
        return values


# ---------------------------------------------------------------------- fusion


@dataclass(frozen=True)
class Fused:
    """A machine for each channel: coefficients (n, L), intercepts (L,), and whether all converged."""

    dual_coef: np.ndarray
    intercepts: np.ndarray
    value: float
    converged: bool


def fuse(stack: KernelStack, y: np.ndarray, cost: np.ndarray, present: np.ndarray, *, tol: float = 1e-3) -> Fused:
    """Train a machine for each channel on the rows that have it."""
    n, L = present.shape
    dual_coef, intercepts, machines = np.zeros((n, L)), np.zeros(L), []
    for k in range(L):
        rows = np.flatnonzero(present[:, k])
        if len(np.unique(y[rows])) == 2:
            K = stack.take(rows=rows, cols=rows, kernels=np.array([k])).one(0)
            machine = solve_svm(K, y[rows], cost[rows], tol=tol)
            dual_coef[rows, k], intercepts[k] = machine.dual_coef, machine.intercept
            machines.append(machine)
    value = sum(machine.value for machine in machines)
    return Fused(dual_coef, intercepts, value, all(machine.converged for machine in machines))


@stored
@dataclass(frozen=True)
class FusedExpansion(KernelExpansion):
    """The mean, over the channels that a row has, of the decisions of one machine for each.

    f_q = intercept_q + mean over the channels l with instances for q of (K_l coef_ql + offsets_ql)

    where `offsets` (q, L) are the intercepts of the machines less that of the whole, which a row without channels
    gets. They are shared by the instances of each machine, in equal parts.
    """

    offsets: np.ndarray

    row_dependent: ClassVar[bool] = True

    def _decision(self, Z: np.ndarray) -> np.ndarray:
        total = self.bank.presence(Z) @ self.offsets.T
        for k, channel in enumerate(self.bank.channels):
            total += channel(Z, self.instances) @ self.coef[:, :, k].T
        return self.intercept + total / self._counts(Z)

    def _counts(self, Z: Array) -> np.ndarray:
        """Number of machines that score each row for each output (rows, q), at least one."""
        return np.maximum(1, self.bank.presence(Z).astype(int) @ self.coef.any(axis=1).T)

    def _contributions(self, Z: np.ndarray) -> np.ndarray:
        present = self.bank.presence(Z)
        own = self.coef != 0
        shares = own * np.divide(self.offsets, np.maximum(1, own.sum(axis=1)))[:, None]
        parts = super()._contributions(Z) + present[:, None, None] * shares
        return parts / self._counts(Z)[:, :, None, None]

    def negated(self) -> Self:
        return replace(super().negated(), offsets=-self.offsets)


# ---------------------------------------------------------------------- MMAF


def max_margin_iterates(
    stack: KernelStack, y: np.ndarray, cost: np.ndarray, present: np.ndarray, tol: float
) -> Iterator[Iterate[Machine]]:
    """The rounds of MMAF; the violation is the largest change of c that would follow."""
    K = stack.combine(np.ones(stack.shape[0])).dense()
    seen = np.ones(len(y))
    known: np.ndarray | None = None
    for turn in range(MMAF_ROUNDS):
        machine = solve_svm(K, y, cost / seen, tol=tol, start=known, margins=seen if turn else None)
        known = machine.dual_coef
        energies = np.maximum(stack.quad(known), 0.0)
        new = seen_norms(energies, present)
        change = float(np.max(np.abs(new - seen)))
        done = Status.ROUNDS if turn == MMAF_ROUNDS - 1 else None
        yield Iterate(machine, machine.value, change, done if machine.converged else Status.STALLED)
        seen = new


def seen_norms(energies: np.ndarray, present: np.ndarray) -> np.ndarray:
    """c (n,): the norm of what each row sees of the normal vector, over its norm; energies (L,) are squared norms."""
    total = float(energies.sum())
    if total <= 0:
        return np.ones(len(present))
    c = np.maximum(np.sqrt(present @ energies / total), MIN_NORM)
    return np.where(present.any(axis=1), c, 1.0)


def solve_max_margin(
    stack: KernelStack,
    y: np.ndarray,
    cost: np.ndarray,
    present: np.ndarray,
    *,
    tol: float = 1e-3,
    callback: Callback | None = None,
) -> Solution[Machine]:
    """MMAF on the unweighted sum of the kernels."""
    return run(max_margin_iterates(stack, y, cost, present, tol), tol=tol, max_iter=MMAF_ROUNDS, callback=callback)


# ---------------------------------------------------------------------- the estimator


@stored
class ChannelBaselineClassifier(StackClassifier):
    """Plain ways to classify samples that lack channels, for comparison with `AbsentMKLClassifier`.

    Parameters
    ----------
    method : {"fusion", "mean_filling", "max_margin"}, default="fusion"
        "fusion": a support vector machine for each channel, and the mean of the decisions of those that a sample has.
        "mean_filling": absent channels are filled with the mean of the training samples in the space of the kernel,
        and a sparse combination of the kernels is learned. "max_margin": the margin of a sample is divided by the norm
        of what it sees of the normal vector, in five rounds, on the unweighted sum of the kernels [Chechik2008].
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    multiclass : {"one_vs_rest", "one_vs_one"}, default="one_vs_rest"
        In "one_vs_one" the score of a class is the sum of its scores against the others.
    device : str or None, default=None
        "cuda" or "cuda:1" holds kernel matrices on that device and works on them there, in float64; "cpu" does so by
        torch (both need ``pip install 'tamis[gpu]'``); None is numpy. The model is the same up to rounding.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        The channels, positive semi-definite. None is `tamis.per_feature()`, a Gaussian on each feature; see also
        `tamis.per_group()`, `tamis.channels()` and `tamis.precomputed()`, where a row of NaN is absent.
    tol : float, default=0.001
        Relative duality gap of "mean_filling", tolerance of margins of the others.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities and move the intercept to probability one
        half. None: no `predict_proba`, the method's own intercept, and a faster fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" gives all classes the same total weight.
    scaling : {"standard", "rank", None}, default="standard"
        "standard": numbers of mean zero and variance one; "rank": ranks, for long tails; None: numbers as they are.
    missing : {"absent", "median", None}, default="absent"
        "absent": a row with any missing cell in a channel lacks that channel; "median": filled with the training median
        (the most frequent category), so that nothing is absent; None: refused.
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
    kernel_weights_, dual_coef_, intercept_ : shares of the kernels in the coefficients, coefficients of the rows
    channel_ranges_ : (outputs, kept kernels, 3) what each channel contributes to training samples that have it: the 5%,
        50% and 95% quantiles
    instance_importance_ : signed percentages of the coefficients
    kernel_importance_, feature_importance_ : percentages of the weights; of features where every kernel stands on one
    classes_, instances_per_class_ : the class labels, sorted (of two the second is positive); instances of each output
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features, as positions in X; kept kernels and their names
    instance_variation_, kernel_variation_, feature_variation_ : shares in the variation of the decision over training
        rows, in per cent; of features where every kernel stands on one
    pairs_ : pairs of features that have a `surface`, by name, those that matter most first
    history_ : objective, violation and seconds of every round; a list where several problems were solved
    n_iter_, objective_, status_ : most rounds of all problems; final objective, summed over them; how the fit ended
    n_features_in_, feature_names_in_ : columns of X, and their names where it has them

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

    _recipe = per_feature()
    _complete = True

    channel_ranges_: np.ndarray

    def __init__(
        self,
        method: str = "fusion",
        C: float = 1.0,
        *,
        multiclass: str = "one_vs_rest",
        device: str | None = None,
        kernels: Any = None,
        tol: float = 0.001,
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
        self.method = method
        self.C = C
        self.multiclass = multiclass
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

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice("multiclass", self.multiclass, MULTICLASS)
        check_choice("method", self.method, METHODS)

    def summary(self) -> dict[str, Any]:
        return {"method": self.method, **super().summary()}

    def _memory(self, size: Size) -> MemoryEstimate:
        found = {**super()._memory(size), "matrices between all rows": SQUARES[self.method] * size.square}
        return {**found, "filled kernels": 2.0 * size.values} if self.method == "mean_filling" else found

    def _less_memory(self, size: Size, room: float) -> str:
        other = "method='fusion' or " if self.method == "mean_filling" else ""
        return f"use {other}AbsentMKLClassifier with landmarks"

    def _describe(
        self, model: KernelModel, prepared: PreparedRows, answers: Sequence[Answer]
    ) -> tuple[KernelModel, dict[str, Any]]:
        model, attributes = super()._describe(model, prepared, answers)
        return model, {**attributes, "channel_ranges_": channel_ranges(model, prepared.encoded.rows)}

    def _tasks(self, prepared: PreparedRows, rough: bool) -> list[Task]:
        if self.method == "mean_filling":
            present, means = _fillings(prepared)
            prepared = replace(prepared, stack=filled_stack(prepared.stack, present, means))
        return ChannelProblems(prepared, self.multiclass).tasks(self._costs(prepared.encoded.rows), rough)

    def explain(self, X: Any) -> ChannelExplanation:
        """Split decisions into the contributions of samples and channels, with the channels that each row has."""
        return explain_channels(self, X, super().explain(X))

    def _turn_signs(self) -> None:
        super()._turn_signs()
        self.channel_ranges_ = mirrored(self.channel_ranges_)

    def _solve(self, task: Task) -> Answer:
        solvers = {"fusion": self._fuse, "mean_filling": self._fill, "max_margin": self._widen}
        return solvers[self.method](task)

    def _fuse(self, task: Task) -> Answer:
        fused = fuse(task.stack, task.y, task.cost, task.present, tol=self.tol)
        status = Status.CONVERGED if fused.converged else Status.STALLED
        solution = run(iter([Iterate(None, fused.value, 0.0, status)]), tol=self.tol, max_iter=1)
        base = 1.0 if task.y @ task.cost >= 0 else -1.0  # for rows that have nothing
        machines = fused.dual_coef.any(axis=0)
        offsets = np.where(machines, fused.intercepts - base, 0.0)
        return Answer(fused.dual_coef, np.ones(len(offsets)), base, solution, offsets)

    def _fill(self, task: Task) -> Answer:
        everywhere = np.tile(task.present.any(axis=0), (len(task.y), 1))
        scale = sizes(replace(task, present=everywhere))
        seen = np.flatnonzero(scale > 0)
        if not len(seen):
            return nothing(task)
        problem = absent_mkl.Problem(task.stack.take(kernels=seen), task.y, task.cost, Polytope(scale[None, seen]))
        tol = max(self.tol, FOLD_GAP) if task.rough else self.tol
        solution = absent_mkl.solve(problem, tol=tol, callback=self._log_callback())
        weights = np.zeros(len(scale))
        weights[seen] = solution.state.weights
        history = solution.history.among(seen, len(scale))
        return Answer(solution.state.dual_coef, weights, solution.state.intercept, replace(solution, history=history))

    def _widen(self, task: Task) -> Answer:
        solution = solve_max_margin(
            task.stack, task.y, task.cost, task.present, tol=self.tol, callback=self._log_callback()
        )
        machine = solution.state
        return Answer(machine.dual_coef, task.present.any(axis=0).astype(float), machine.intercept, solution)

    def _assemble(self, prepared: PreparedRows, answers: Sequence[Answer]) -> KernelModel:
        problems = ChannelProblems(prepared, self.multiclass)
        coef, intercept = problems.coefficients(answers)
        if self.method == "mean_filling":
            present, means = _fillings(prepared)
            coef = coef * present + means.T * (coef * ~present).sum(axis=1, keepdims=True)
        model = problems.model(coef, intercept, answers)
        instances, kernels = used_parts(coef)
        expansion = model.expansion
        parts = {name: getattr(expansion, name) for name in ("bank", "instances", "intercept", "coef")}
        if self.method == "mean_filling":
            stack = prepared.stack.take(cols=instances)
            fills = np.array([means[k] @ stack.one(int(k)) for k in kernels]).reshape(len(kernels), len(instances))
            return replace(model, expansion=FilledExpansion(**parts, fills=fills))
        if self.method == "fusion":
            offsets = (problems.votes() @ [a.details for a in answers])[:, kernels]
            return replace(model, expansion=FusedExpansion(**parts, offsets=offsets))
        return model


def _fillings(prepared: PreparedRows) -> tuple[np.ndarray, np.ndarray]:
    """Who has what (n, L), and the weights (L, n) of the rows in the mean of each channel."""
    present = prepared.bank.presence(prepared.pool.Z)
    return present, mean_weights(present, prepared.encoded.rows.mass)
