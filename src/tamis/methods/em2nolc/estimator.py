"""EM2NOLCClassifier: few instances, few features, exact explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from tamis.base.calibration import Tests, calibrated, each_fold, warn_in_sample
from tamis.base.classifier import ReadableClassifier
from tamis.base.estimator import WORKING_BYTES, draw_seed
from tamis.base.kernel_model import Coefficients, KernelModel
from tamis.base.kernel_space import KernelSpace, Prepared, pool_size
from tamis.base.memory import NUMBER, MemoryEstimate, Size
from tamis.base.model import FitContext, Fitted
from tamis.codec import stored
from tamis.errors import check_choice, check_integer, check_number
from tamis.kernels.bank import MAX_DENSE_BYTES, KernelBank
from tamis.kernels.recipes import check_bandwidth, per_feature
from tamis.methods.em2nolc import solver as method
from tamis.methods.em2nolc import sums as em2nolc_sums
from tamis.methods.em2nolc.refit import coefficients, leading_factors
from tamis.methods.em2nolc.solver import State, Task
from tamis.methods.em2nolc.sums_classifier import SumsClassifier
from tamis.optim.driver import Solution
from tamis.statistics.fit import FoldSums, HeldOutSums, PreparedSums, TrainingSums
from tamis.statistics.plan import Plan
from tamis.statistics.profile import check_candidates, is_grid
from tamis.statistics.statistics import Statistics
from tamis.table.rows import Rows
from tamis.table.table import checked_input

ZHANG2022 = (
    "Zhang, Zhiwang; He, Jing; Cao, Jie; Li, Shuqing; Li, Xingsen; Zhang, Kai; Wang, Pingjiang; Shi, Yong (2022). "
    "An explainable multi-sparsity multi-kernel nonconvex optimization least-squares classifier method via ADMM. "
    "Neural Computing and Applications."
)

ENGINES = ("auto", "dense", "streaming", "statistics")
COUPLINGS = ("rank_one", "full")
REFITS = ("squared", "logistic")
VALUES, STREAMED = 1.4, 3.0  # copies of kernel values at the peak of a fit: of all kernels, or of one
SUMMED_COPIES = 2  # copies of the table, as numbers, where rows are summed
MAX_POLISH_ROUNDS = 5  # most rounds of looking for better instances among all rows


@stored
class EM2NOLCClassifier(SumsClassifier):
    """Least-squares kernel classifier with at most k training cases and m features [Zhang2022].

    The decision is ``f(x) = sum_j sum_m coef[j, m] k_m(x_j, x) + intercept`` over kept cases j and kept
    features m, so every prediction is an exact sum of contributions.

    Parameters
    ----------
    max_instances : int, default=20
        Most training cases kept (per class with more than two classes, unless `shared_support`).
    max_features : int, default=10
        Most features kept (likewise per class). Larger than the data is as good as all.
    bandwidth : float, "median" or array of shape (n_features,), default=1.0
        Width of the Gaussian kernels in units of the scaled features; "median" takes each feature's
        median distance between two rows.
    alpha : float or "auto", default="auto"
        Ridge relative to the number of rows. "auto" is 0.01, and 0.01 sqrt(1000 / rows) beyond a thousand
        rows (merged ones, unless they are summed), which need less of it.
    coupling : {"rank_one", "full"}, default="rank_one"
        "full" fits a coefficient for every pair of kept case and kept feature.
    refit : {"squared", "logistic"}, default="squared"
        Loss of the final fit on the chosen cases and features.
    warm_start : bool, default=False
        Start from the supports of the last fit, where they fit the new data.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        None is `tamis.per_feature()`; see also `tamis.product()`; recipes can be added.
    solver : {"splicing", "admm", "paper"}, default="splicing"
        "paper" is the algorithm as printed (which runs 50 rounds; its own intercept is kept with
        ``calibration=None``), for study: it often ends above the constant model. "admm" is its repaired
        form. "splicing" is monotone and ends lowest.
    engine : {"auto", "dense", "streaming", "statistics"}, default="auto"
        Kernel values are kept in memory ("dense"), computed in blocks ("streaming"), or replaced by sums
        over the rows of short polynomials ("statistics"): one pass, then nothing depends on the number of
        rows; for kernels of one column each. "auto" is dense up to a gibibyte, then statistics where
        the kernels allow it, else streaming.
    candidates : int, "all", "grid" or None, default=None
        How many training rows may become instances: a stratified random pool, at least one of each
        class. None: up to 1000. "all": every row; with the statistics engine, a pool first and then
        better rows from all of them. "grid": points spread over the ranges of the features in the place of rows, for
        the statistics engine; what is kept are then no real cases, and the model holds no row of X.
    shared_support : bool, default=False
        With more than two classes, one set of cases and features for all classes.
    device : str or None, default=None
        Where sums over rows are made: "cuda", "cuda:1" or "cpu" by torch, None by numpy. A tensor is summed where it
        is. Both ask for the statistics engine. Everything after the sums is small and stays on the processor.
    tol : float, default=0.0001
        Largest relative decrease of the objective that one exchange may still bring.
    max_iter : int, default=30
        Most rounds of instance and feature steps.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities and move the intercept to probability one
        half. None: no `predict_proba`, the intercept of the training loss, and a faster fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" gives all classes the same total weight.
    scaling : {"standard", "rank", None}, default="standard"
        "standard": numbers of mean zero and variance one; "rank": ranks, for long tails; None: numbers as they are.
    missing : {"absent", "median", None}, default="absent"
        "absent": a missing cell contributes nothing; in a kernel on several features it is replaced by the mean (by
        zero with ``scaling=None``), and an indicator adds 1 to the squared distance. "median": it is filled with the
        training median, or the most frequent category. None: missing cells are refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto": columns of text, booleans or a categorical type are categories. Columns of numeric codes must be named.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of everything else that is drawn at random. None is the same as 0.
    n_jobs : int or None, default=None
        Number of processes for the folds; None is one. Sums over rows use all cores in any case.
    memory_limit : int, float, str or None, default=None
        Largest memory of a fit in bytes, as a number or as text such as "2GB"; None: what is available. A fit that
        would need more (see `memory_estimate`) is refused before it starts.
    verbose : int, default=0
        Whether to log every round of the fit; 0 is silent.

    Attributes
    ----------
    alpha_ : the ridge that was used
    dual_coef_, kernel_weights_, intercept_ : the factors of the coefficients (closest ones if "full")
    instance_importance_, feature_importance_, kernel_importance_ : signed percentages, the paper's II
        and FI; the largest kernel weight is positive
    outside_ : after a fit from statistics, {column: cells beyond the plan's range or levels}
    statistics_ : after partial fits, their sums
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
    `objective_` is the least-squares objective of the chosen cases and features, before any refit.
    A number beyond the training range counts as the nearest training value; a category that training
    never saw agrees with no case and contributes nothing. Identical rows are merged into one of larger
    weight before fitting, and dealt over the folds of calibration.

    The statistics engine winsorises numbers with more than 64 values at their 0.1 and 99.9 per cent
    quantiles, does not merge identical rows (they count once as candidates), and draws
    folds, candidates and a second look at up to 50 000 rows by keys that depend on a row's values. Copies of a
    row go to one fold after another.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import EM2NOLCClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> clf = EM2NOLCClassifier(max_instances=5, max_features=3).fit(X, y)
    >>> len(clf.instances_), len(clf.features_)
    (5, 3)
    >>> explanation = clf.explain(X.head())
    >>> bool(abs(explanation.decision[:, 0] - clf.decision_function(X.head())).max() < 1e-9)
    True
    """

    citation = ZHANG2022

    def __init__(
        self,
        max_instances: int = 20,
        max_features: int = 10,
        *,
        bandwidth: Any = 1.0,
        alpha: float | str = "auto",
        coupling: str = "rank_one",
        refit: str = "squared",
        warm_start: bool = False,
        kernels: Any = None,
        solver: str = "splicing",
        engine: str = "auto",
        candidates: int | str | None = None,
        shared_support: bool = False,
        device: str | None = None,
        tol: float = 0.0001,
        max_iter: int = 30,
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
        self.max_instances = max_instances
        self.max_features = max_features
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.coupling = coupling
        self.refit = refit
        self.warm_start = warm_start
        self.kernels = kernels
        self.solver = solver
        self.engine = engine
        self.candidates = candidates
        self.shared_support = shared_support
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
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
        check_integer("max_instances", self.max_instances, 1)
        check_integer("max_features", self.max_features, 1)
        if isinstance(self.alpha, str):
            check_choice("alpha", self.alpha, ("auto",))
        else:
            check_number("alpha", self.alpha, 0.0)
        check_bandwidth(self.bandwidth)
        check_choice("solver", self.solver, tuple(method.SOLVERS))
        check_choice("coupling", self.coupling, COUPLINGS)
        check_choice("refit", self.refit, REFITS)
        check_choice("engine", self.engine, ENGINES)
        check_choice("shared_support", self.shared_support, (True, False))
        check_choice("warm_start", self.warm_start, (True, False))
        check_candidates(self.candidates)
        if is_grid(self.candidates) and (self.engine in ("dense", "streaming") or self.solver == "paper"):
            raise ValueError("candidates='grid' are no rows: use engine='statistics' or 'auto', and another solver")
        if self.solver == "paper" and self.engine == "statistics":
            raise ValueError("solver='paper' works on rows: use another engine than 'statistics' with it")
        if self.solver == "paper" and self.shared_support:
            raise ValueError("solver='paper' fits one output at a time: use shared_support=False with it")

    def _fit_rows(self, rows: Rows, context: FitContext) -> Fitted:
        one = self._sum(rows, context.seed)
        return super()._fit_rows(rows, context) if one is None else self._fit_pass(one, context)

    def _out_of_fold(self, rows: Rows, merged: Rows, n_folds: int, context: FitContext) -> tuple[np.ndarray, Tests]:
        fixed = clone(self).set_params(alpha=self._ridge(len(merged)))  # the ridge of the folds is that of the fit
        return ReadableClassifier._out_of_fold(fixed, rows, merged, n_folds, context)

    @property
    def _summed_for(self) -> tuple[Sequence[Any], Sequence[Any], Any]:
        return [self.kernels], [self.bandwidth], self.calibration

    def _fit_pass(self, one: FoldSums, context: FitContext) -> Fitted:
        alpha = self._ridge(one.statistics.n_rows)
        model, attributes = self._learn_sums(one.summary(), alpha)
        attributes |= {"outside_": one.statistics.outside}
        if self.calibration is None or one.sample is None:
            return Fitted(model, None, attributes)
        splits = [(one.summary(fold), one.held_out(fold)) for fold in one.folds]
        parts = each_fold(partial(_decide_sums, self, alpha), splits, self.n_jobs)
        tests = [held.sample for _, held in splits if held.sample is not None]
        if len(np.unique(np.concatenate([[], *(test.codes for test in tests)]))) < len(one.sample.classes):
            warn_in_sample()
            parts, tests = [model.decision(one.sample.table)], [one.sample]
        return Fitted(*calibrated(model, np.concatenate(parts), Tests.of([(t, t) for t in tests])), attributes)

    def summary(self) -> dict[str, Any]:
        check_is_fitted(self)
        return {
            "most cases": self.max_instances,
            "most features": self.max_features,
            "bandwidth": self.bandwidth,
            "ridge": self.alpha_,
            "coefficients": self.coupling,
            "last fit": self.refit,
        }

    def _learn_sums(
        self, summary: TrainingSums, alpha: float, *, rough: bool = False
    ) -> tuple[KernelModel, dict[str, Any]]:
        bandwidth = check_bandwidth(self.bandwidth, len(summary.plan.encoder.names))
        return self._learn_prepared(summary.prepare(self.kernels, per_feature(), bandwidth), alpha, rough=rough)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> EM2NOLCClassifier:
        """Add a block of rows to the statistics of the fit so far and fit again.

        The first block fixes the plan: ranges, categories and the cases that may be kept; what later
        blocks have beyond it is clipped, counted in `outside_` and warned of. Until every class has been
        seen there is no model. Probabilities need rows: see `fit_statistics`. Each call fits anew; for
        many small blocks, or a plan of your own, use `Statistics` and fit once.

        Parameters
        ----------
        X, y : a block of rows
        classes : all class labels, in the first call, if its rows do not show all of them
        sample_weight : of these rows
        """
        self.check_parameters()
        known: Statistics | None = getattr(self, "statistics_", None)
        validate_data(self, checked_input(X)[0], reset=known is None, skip_check_array=True)
        if known is not None and classes is not None:
            first = known.plan.classes.tolist()
            if np.unique(classes).tolist() != first:
                raise ValueError(f"classes={list(classes)} differ from those of the first call, {first}")
        if known is None:
            if isinstance(self.class_weight, str):
                raise ValueError(
                    f"class_weight={self.class_weight!r} needs all rows: give a dict of weights to partial_fit"
                )
            plan = Plan.of(
                X,
                y,
                sample_weight=sample_weight,
                classes=classes,
                kernels=self.kernels,
                bandwidth=[self.bandwidth],
                scaling=self.scaling,
                missing=self.missing,
                categorical_features=self.categorical_features,
                class_weight=self.class_weight,
                gaps="all" if self.missing == "absent" else "seen",
                candidates=self.candidates,
                folds=1,
                random_state=draw_seed(self.random_state),
            )
            known = Statistics(plan)
        statistics = known + Statistics(known.plan).update(X, y, sample_weight)
        if np.all(statistics.class_mass > 0):
            self.fit_statistics(statistics)
        self.statistics_ = statistics
        return self

    def _learn(self, rows: Rows, context: FitContext) -> tuple[KernelModel, Mapping[str, Any]]:
        space = KernelSpace(
            per_feature(),
            self.engine,
            self.scaling,
            self.missing,
            bandwidth=check_bandwidth(self.bandwidth, rows.table.numbers.shape[1]),
            max_features=self.max_features,
            candidates=self.candidates,
        )
        prepared = space.prepare(rows, self.kernels, context.seed)
        return self._learn_prepared(prepared, self._ridge(len(rows)), rough=context.rough)

    def _ridge(self, n_rows: int) -> float:
        return 0.01 * ridge_scale(n_rows) if isinstance(self.alpha, str) else self.alpha

    def _learn_prepared(
        self, prepared: Prepared, alpha: float, *, rough: bool = False
    ) -> tuple[KernelModel, dict[str, Any]]:
        """Solve once per output (or once for all), refit, and keep what is used."""
        check_fits(prepared.bank, self.max_features)
        problems = tasks(prepared, alpha, self._budgets, self.shared_support, thorough=not rough)
        if self.solver == "paper" and problems[0].incidence is not None:
            raise ValueError("solver='paper' knows one kernel per feature only: use another solver or other kernels")
        starts = [None] * len(problems) if rough else self._starts(prepared, problems)
        solutions = [self._solve(t, s) for t, s in zip(problems, starts, strict=True)]
        attributes: dict[str, Any] = {"alpha_": alpha}
        if self.warm_start and not rough:
            attributes["_states"] = _key(prepared, problems), [s.state for s in solutions]
        sums = prepared if isinstance(prepared, PreparedSums) and not rough else None
        if self.candidates == "all" and sums is not None:
            prepared, problems, solutions = self._polish(sums, problems, solutions, alpha)
            sums = prepared
        how = {"coupling": self.coupling, "refit": self.refit}
        finished = [finish(sums, t, s, how) for t, s in zip(problems, solutions, strict=True)]
        model = prepared.model([block for block, _ in finished], [solution for _, solution in finished])
        if sums is not None and how == {"coupling": "rank_one", "refit": "squared"}:
            em2nolc_sums.warn_of_cancellation(sums, problems, [solution for _, solution in finished], model)
        dual, weights = leading_factors(model.expansion.coef, shared=self.shared_support)
        return replace(model, dual_coef=dual, kernel_weights=weights), attributes

    def _memory(self, size: Size) -> MemoryEstimate:
        columns = NUMBER * size.rows * pool_size(self.candidates, size.rows)
        small = columns * size.columns <= MAX_DENSE_BYTES and not is_grid(self.candidates)
        dense = self.engine == "dense" or (self.engine == "auto" and small)
        summable = size.single == size.kernels and self.solver != "paper"
        if self.engine == "statistics" or (self.engine == "auto" and summable and not small):
            return {"rows, read and summed": SUMMED_COPIES * size.table, "working blocks": WORKING_BYTES}
        kept = VALUES * columns * size.kernels if dense else STREAMED * columns
        return {**super()._memory(size), "values between rows and candidates": kept}

    def _less_memory(self, size: Size, room: float) -> str:
        if self.engine == "statistics":
            return "use rows in blocks as X, which take memory that does not grow with them (see `fit`)"
        return "use engine='statistics' (for kernels of one column each), or fewer candidates"

    def _solve(self, task: Task, start: State | None) -> Solution[State]:
        options: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "callback": self._log_callback()}
        return method.solve(task, solver=self.solver, start=start, **options)

    def _polish(
        self, prepared: PreparedSums, problems: list[Task], solutions: list[Solution[State]], alpha: float
    ) -> tuple[PreparedSums, list[Task], list[Solution[State]]]:
        """Bring in rows that would lower the objective, and solve again from where things stand."""
        for _ in range(MAX_POLISH_ROUNDS):
            before = len(prepared.pool)
            for task, solution in zip(problems, solutions, strict=True):
                prepared = em2nolc_sums.widened(prepared, task, solution.state)
            if len(prepared.pool) == before:
                break
            problems = tasks(prepared, alpha, self._budgets, self.shared_support, thorough=False)
            solutions = [self._solve(t, s.state) for t, s in zip(problems, solutions, strict=True)]
        return prepared, problems, solutions

    @property
    def _budgets(self) -> tuple[int, int]:
        return self.max_instances, self.max_features

    def _starts(self, prepared: Prepared, problems: list[Task]) -> list[State | None]:
        """States of the last fit, where they belong to problems of the same shape."""
        key, states = getattr(self, "_states", (None, []))
        outputs = [task.design.n_outputs for task in problems]
        if not self.warm_start or key != _key(prepared, problems):
            return [None] * len(problems)
        return states if [s.dual_coef.shape[1] for s in states] == outputs else [None] * len(problems)


def _decide_sums(estimator: EM2NOLCClassifier, alpha: float, summary: TrainingSums, held: HeldOutSums) -> np.ndarray:
    """Decisions on the rows that a fold holds out."""
    assert held.sample is not None
    model, _ = estimator._learn_sums(summary, alpha, rough=True)
    return model.decision(held.sample.table)


def tasks(
    prepared: Prepared, alpha: float, budgets: tuple[int, int], shared: bool, *, thorough: bool = True
) -> list[Task]:
    """One problem per output, or one for all outputs together."""
    incidence = prepared.incidence
    return [Task(design, alpha, *budgets, incidence, thorough) for design in prepared.designs(shared)]


def finish(
    sums: PreparedSums | None, task: Task, solution: Solution[State], how: dict[str, str]
) -> tuple[Coefficients, Solution[State]]:
    """Coefficients of pairs from a solution, and the solution with its final objective.

    Where the problem was solved on `sums` whose polynomials are not exact enough, the last fit is on exact kernels.
    """
    found = coefficients(task, solution.state, **how)
    if sums is not None and em2nolc_sums.doubts(sums, task, solution, found):
        return em2nolc_sums.refit_exactly(sums, task, solution, **how)
    return found, solution


def _key(prepared: Prepared, problems: list[Task]) -> tuple[int, int, float]:
    """Tells whether states of one fit can start another."""
    return len(prepared.bank), len(prepared.pool), problems[0].design.total_weight


def ridge_scale(n_rows: int) -> float:
    """How the default ridge, relative to the number of rows, shrinks with it."""
    return min(1.0, float(np.sqrt(1000.0 / n_rows)))


def check_fits(bank: KernelBank, max_features: int) -> None:
    """Refuse a bank none of whose kernels is within the budget."""
    smallest = min(bank.channels, key=lambda channel: len(set(channel.columns)))
    if len(set(smallest.columns)) > max_features:
        raise ValueError(
            f"kernels: {smallest.name!r} stands on {len(set(smallest.columns))} columns, more than "
            f"max_features={max_features}: raise max_features or use product('grown')"
        )
