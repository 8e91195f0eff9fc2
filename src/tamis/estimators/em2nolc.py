"""EM2NOLCClassifier: few instances, few features, exact explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from tamis.codec import stored
from tamis.data.checks import check_bandwidth, check_choice, check_integer, check_number
from tamis.data.rows import Rows
from tamis.data.table import checked_input
from tamis.estimators import em2nolc_sums
from tamis.expansion import Coefficients
from tamis.kernels.bank import MEMORY, KernelBank
from tamis.kernels.recipes import per_feature
from tamis.methods import em2nolc as method
from tamis.methods.em2nolc import State, Task
from tamis.methods.refit import coefficients, leading_factors
from tamis.models.bill import NUMBER, Bill, Size
from tamis.models.calibration import Calibrator
from tamis.models.model import Model, Prepared, pool_size
from tamis.models.selection import Tests, each_fold
from tamis.optim.driver import Solution
from tamis.shells.base import BLOCKS, draw_seed
from tamis.shells.direct import DirectClassifier
from tamis.shells.from_statistics import FromStatistics
from tamis.shells.learning import calibrated, warn_unheld
from tamis.shells.parameters import parameters
from tamis.sums.one_pass import Held, OnePass
from tamis.sums.plan import Plan, check_candidates, is_grid
from tamis.sums.statistics import Statistics
from tamis.sums.summary import PreparedSums, Summary

ENGINES = ("auto", "dense", "streaming", "statistics")
COUPLINGS = ("rank_one", "full")
REFITS = ("squared", "logistic")
VALUES, STREAMED = 1.4, 3.0  # copies of kernel values at the peak of a fit: of all kernels, or of one
SUMMED = 2  # copies of the table, as numbers, where rows are summed
POLISH = 5  # most rounds of looking for better instances among all rows

# [Zhang2022], as in docs/references.bib
ZHANG2022 = (
    "Zhang, Zhiwang; He, Jing; Cao, Jie; Li, Shuqing; Li, Xingsen; Zhang, Kai; Wang, Pingjiang; Shi, Yong (2022). "
    "An explainable multi-sparsity multi-kernel nonconvex optimization least-squares classifier method via ADMM. "
    "Neural Computing and Applications."
)


@stored
@parameters
class EM2NOLCClassifier(FromStatistics, DirectClassifier):
    """Least-squares kernel classifier with at most k training cases and m features [Zhang2022].

    The decision is ``f(x) = sum_j sum_m coef[j, m] k_m(x_j, x) + intercept`` over kept cases j and kept
    features m, so every prediction is an exact sum of contributions.

    Parameters
    ----------
    max_instances : int
        Most training cases kept (per class with more than two classes, unless `shared_support`).
    max_features : int
        Most features kept (likewise per class). Larger than the data is as good as all.
    bandwidth : float, "median" or array of shape (n_features,)
        Width of the Gaussian kernels in units of the scaled features; "median" takes each feature's
        median distance between two rows.
    alpha : float or "auto"
        Ridge relative to the number of rows. "auto" is 0.01, and 0.01 sqrt(1000 / rows) beyond a thousand
        rows (merged ones, unless they are summed), which need less of it.
    coupling : {"rank_one", "full"}
        "full" fits a coefficient for every pair of kept case and kept feature.
    refit : {"squared", "logistic"}
        Loss of the final fit on the chosen cases and features.
    calibration : int or None
        Folds that fit the probabilities and place the intercept where they say one half; None: no
        `predict_proba`, the intercept of the training loss, and a faster fit.
    warm_start : bool
        Start from the supports of the last fit, where they fit the new data.

    Attributes
    ----------
    alpha_ : the ridge that was used

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

    max_instances: int = 20
    max_features: int = 10
    _: KW_ONLY
    bandwidth: Any = 1.0
    alpha: float | str = "auto"
    coupling: str = "rank_one"
    refit: str = "squared"
    warm_start: bool = False

    def _check_parameters(self) -> None:
        super()._check_parameters()
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

    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        one = self._sum(rows)
        return super()._select(rows) if one is None else self._select_sums(one)

    @property
    def _summed_for(self) -> tuple[Sequence[Any], Sequence[Any], Any]:
        return [self.kernels], [self.bandwidth], self.calibration

    def _select_sums(self, one: OnePass) -> tuple[Model, Calibrator | None]:
        self.alpha_ = self._ridge(one.statistics.n_rows)
        self.outside_ = one.statistics.outside
        model = self._learn_sums(one.summary())
        if not self._calibrates or one.look is None:
            return model, None
        splits = [(one.summary(fold), one.held(fold)) for fold in one.folds]
        parts = each_fold(partial(_decide_sums, self), splits, self.n_jobs)
        tests = [held.look for _, held in splits if held.look is not None]
        if len(np.unique(np.concatenate([[], *(test.codes for test in tests)]))) < len(one.look.classes):
            warn_unheld()
            parts, tests = [model.decision(one.look.table)], [one.look]
        return calibrated(model, np.concatenate(parts), Tests.of([(test, test) for test in tests]))

    def chosen(self) -> dict[str, Any]:
        check_is_fitted(self)
        return {
            "most cases": self.max_instances,
            "most features": self.max_features,
            "bandwidth": self.bandwidth,
            "ridge": self.alpha_,
            "coefficients": self.coupling,
            "last fit": self.refit,
        }

    def _learn_sums(self, summary: Summary, *, quick: bool = False) -> Model:
        bandwidth = check_bandwidth(self.bandwidth, len(summary.plan.encoder.names))
        return self._learn_prepared(summary.prepare(self.kernels, per_feature(), bandwidth), quick=quick)

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
        self._check_parameters()
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

    def _learn(self, rows: Rows, *, quick: bool = False) -> Model:
        if not quick:
            self.alpha_ = self._ridge(len(rows))
        return self._learn_prepared(self._prepare(rows), quick=quick)

    def _ridge(self, n_rows: int) -> float:
        return 0.01 * ridge_scale(n_rows) if isinstance(self.alpha, str) else self.alpha

    def _learn_prepared(self, prepared: Prepared, *, quick: bool = False) -> Model:
        """Solve once per output (or once for all), refit, and keep what is used."""
        check_fits(prepared.bank, self.max_features)
        problems = tasks(prepared, self.alpha_, self._budgets, self.shared_support, thorough=not quick)
        if self.solver == "paper" and problems[0].incidence is not None:
            raise ValueError("solver='paper' knows one kernel per feature only: use another solver or other kernels")
        starts = [None] * len(problems) if quick else self._starts(prepared, problems)
        solutions = [self._solve(t, s) for t, s in zip(problems, starts, strict=True)]
        if self.warm_start and not quick:
            self._states = _key(prepared, problems), [s.state for s in solutions]
        if self.candidates == "all" and isinstance(prepared, PreparedSums) and not quick:
            prepared, problems, solutions = self._polish(prepared, problems, solutions)
        how = {"coupling": self.coupling, "refit": self.refit}
        finished = [finish(prepared, t, s, how, quick=quick) for t, s in zip(problems, solutions, strict=True)]
        model = prepared.model([block for block, _ in finished], [solution for _, solution in finished])
        if isinstance(prepared, PreparedSums) and not quick and how == {"coupling": "rank_one", "refit": "squared"}:
            em2nolc_sums.warn_of_cancellation(prepared, problems, [solution for _, solution in finished], model)
        dual, weights = leading_factors(model.expansion.coef, shared=self.shared_support)
        return replace(model, dual_coef=dual, kernel_weights=weights)

    def _bill(self, size: Size) -> Bill:
        columns = NUMBER * size.rows * pool_size(self.candidates, size.rows)
        small = columns * size.columns <= MEMORY and not is_grid(self.candidates)
        dense = self.engine == "dense" or (self.engine == "auto" and small)
        summable = size.single == size.kernels and self.solver != "paper"
        if self.engine == "statistics" or (self.engine == "auto" and summable and not small):
            return {"rows, read and summed": SUMMED * size.table, "working blocks": BLOCKS}
        kept = VALUES * columns * size.kernels if dense else STREAMED * columns
        return {**super()._bill(size), "values between rows and candidates": kept}

    def _instead(self, size: Size, room: float) -> str:
        if self.engine == "statistics":
            return "use rows in blocks as X, which take memory that does not grow with them (see `fit`)"
        return "use engine='statistics' (for kernels of one column each), or fewer candidates"

    def _solve(self, task: Task, start: State | None) -> Solution[State]:
        options: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "callback": self._progress()}
        return method.solve(task, solver=self.solver, start=start, **options)

    def _polish(
        self, prepared: PreparedSums, problems: list[Task], solutions: list[Solution[State]]
    ) -> tuple[PreparedSums, list[Task], list[Solution[State]]]:
        """Bring in rows that would lower the objective, and solve again from where things stand."""
        for _ in range(POLISH):
            before = len(prepared.pool)
            for task, solution in zip(problems, solutions, strict=True):
                prepared = em2nolc_sums.widened(prepared, task, solution.state)
            if len(prepared.pool) == before:
                break
            problems = tasks(prepared, self.alpha_, self._budgets, self.shared_support, thorough=False)
            solutions = [self._solve(t, s.state) for t, s in zip(problems, solutions, strict=True)]
        return prepared, problems, solutions

    @property
    def _budgets(self) -> tuple[int, int]:
        return self.max_instances, self.max_features

    def _prepare(self, rows: Rows) -> Prepared:
        encoded = self._encoded(rows, self.max_features, self.engine, self.candidates)
        bandwidth = check_bandwidth(self.bandwidth, rows.table.numbers.shape[1])
        return encoded.prepare(self.kernels, per_feature(), bandwidth)

    def _starts(self, prepared: Prepared, problems: list[Task]) -> list[State | None]:
        """States of the last fit, where they belong to problems of the same shape."""
        key, states = getattr(self, "_states", (None, []))
        outputs = [task.design.n_outputs for task in problems]
        if not self.warm_start or key != _key(prepared, problems):
            return [None] * len(problems)
        return states if [s.dual_coef.shape[1] for s in states] == outputs else [None] * len(problems)


def _decide_sums(estimator: EM2NOLCClassifier, summary: Summary, held: Held) -> np.ndarray:
    """Decisions on the rows that a fold keeps back."""
    assert held.look is not None
    return estimator._learn_sums(summary, quick=True).decision(held.look.table)


def tasks(
    prepared: Prepared, alpha: float, budgets: tuple[int, int], shared: bool, *, thorough: bool = True
) -> list[Task]:
    """One problem per output, or one for all outputs together."""
    incidence = prepared.incidence
    return [Task(design, alpha, *budgets, incidence, thorough) for design in prepared.designs(shared)]


def finish(
    prepared: Prepared, task: Task, solution: Solution[State], how: dict[str, str], *, quick: bool
) -> tuple[Coefficients, Solution[State]]:
    """Coefficients of pairs from a solution, and the solution with its final objective."""
    found = coefficients(task, solution.state, **how)
    if isinstance(prepared, PreparedSums) and not quick and em2nolc_sums.doubts(prepared, task, solution, found):
        return em2nolc_sums.refit_exactly(prepared, task, solution, **how)
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
