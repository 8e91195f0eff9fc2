"""ChannelBaselineClassifier: what absent multiple kernel learning is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from tamis.base.expansion import Coefficients
from tamis.base.fitting import FitContext
from tamis.base.memory import MemoryEstimate, Size
from tamis.base.model import Model, PreparedRows
from tamis.base.stack_classifier import Answer, StackClassifier, Task
from tamis.codec import stored
from tamis.explain.explanation import ChannelExplanation
from tamis.kernels.recipes import per_feature
from tamis.methods.absent import baselines as method
from tamis.methods.absent import solver as absent_mkl
from tamis.methods.absent.channels import (
    MULTICLASS,
    ChannelProblems,
    channel_ranges,
    explain_channels,
    mirrored,
    used_parts,
)
from tamis.methods.absent.estimator import QUICK, nothing, sizes
from tamis.optim.driver import Iterate, Status, run
from tamis.optim.polytope import Polytope
from tamis.table.checks import check_choice
from tamis.table.rows import Rows

SQUARES = {"fusion": 4.0, "mean_filling": 10.0, "max_margin": 2.4}  # matrices between all rows that solvers hold
METHODS = ("fusion", "mean_filling", "max_margin")


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
        "cuda" or "cuda:1" holds all kernel values on that device and combines, multiplies and factors their matrices
        there, in float64; "cpu" does so by torch; both need ``pip install 'tamis[gpu]'``. None is numpy. The model is
        the same up to rounding, and needs neither torch nor the device.
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
        "standard": numbers are scaled to mean zero and variance one; "rank": replaced by ranks, which suits columns
        with long tails; None: used as they are.
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
    kernel_importance_ : percentages of the weights
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

    def _learn(self, rows: Rows, context: FitContext) -> tuple[Model, Mapping[str, Any]]:
        model, attributes = super()._learn(rows, context)
        return (
            (model, attributes)
            if context.rough
            else (model, {**attributes, "channel_ranges_": channel_ranges(model, rows)})
        )

    def _tasks(self, prepared: PreparedRows, rough: bool) -> list[Task]:
        if self.method == "mean_filling":
            present, means = _fillings(prepared)
            prepared = replace(prepared, stack=method.filled_stack(prepared.stack, present, means))
        return ChannelProblems(prepared, self.multiclass).tasks(self._costs(prepared.encoded.rows), rough)

    def explain(self, X: Any) -> ChannelExplanation:
        """Split decisions into the contributions of samples and channels, with the channels that each row has."""
        return explain_channels(self, X, super().explain(X))

    def oriented(self, positive: Any) -> Self:
        """Return the same two-class classifier, seen from the class `positive`; see `KernelClassifier.oriented`."""
        other = super().oriented(positive)
        if other is not self:
            other.channel_ranges_ = mirrored(self.channel_ranges_)
        return other

    def _solve(self, task: Task) -> Answer:
        solvers = {"fusion": self._fuse, "mean_filling": self._fill, "max_margin": self._widen}
        return solvers[self.method](task)

    def _fuse(self, task: Task) -> Answer:
        fused = method.fuse(task.stack, task.y, task.cost, task.present, tol=self.tol)
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
        tol = max(self.tol, QUICK) if task.rough else self.tol
        solution = absent_mkl.solve(problem, tol=tol, callback=self._log_callback())
        weights = np.zeros(len(scale))
        weights[seen] = solution.state.weights
        history = solution.history.among(seen, len(scale))
        return Answer(solution.state.dual_coef, weights, solution.state.intercept, replace(solution, history=history))

    def _widen(self, task: Task) -> Answer:
        solution = method.solve_max_margin(
            task.stack, task.y, task.cost, task.present, tol=self.tol, callback=self._log_callback()
        )
        machine = solution.state
        return Answer(machine.dual_coef, task.present.any(axis=0).astype(float), machine.intercept, solution)

    def _assemble(self, prepared: PreparedRows, answers: Sequence[Answer]) -> Model:
        problems = ChannelProblems(prepared, self.multiclass)
        coef, intercept = problems.coefficients(answers)
        if self.method == "mean_filling":
            present, means = _fillings(prepared)
            coef = coef * present + means.T * (coef * ~present).sum(axis=1, keepdims=True)
        block = Coefficients(np.arange(coef.shape[1]), np.arange(coef.shape[2]), coef, intercept)
        model = prepared.model([block], [a.solution for a in answers])
        instances, kernels = used_parts(coef)
        expansion = model.expansion
        parts = {name: getattr(expansion, name) for name in ("bank", "instances", "intercept", "coef")}
        if self.method == "mean_filling":
            stack = prepared.stack.take(cols=instances)
            fills = np.array([means[k] @ stack.one(int(k)) for k in kernels]).reshape(len(kernels), len(instances))
            return replace(model, expansion=method.FilledExpansion(**parts, fills=fills))
        if self.method == "fusion":
            offsets = (problems.votes() @ [a.details for a in answers])[:, kernels]
            return replace(model, expansion=method.FusedExpansion(**parts, offsets=offsets))
        return model


def _fillings(prepared: PreparedRows) -> tuple[np.ndarray, np.ndarray]:
    """Who has what (n, L), and the weights (L, n) of the rows in the mean of each channel."""
    present = prepared.bank.presence(prepared.pool.Z)
    return present, method.mean_weights(present, prepared.encoded.rows.mass)
