"""EM2NOLCClassifierCV: budgets, bandwidth, ridge and variants chosen by cross-validation on a warm path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.base.calibration import Tests, calibrated
from tamis.base.kernel_model import Coefficients
from tamis.base.kernel_space import Encoded, KernelSpace, Prepared
from tamis.base.memory import MemoryEstimate, Size
from tamis.base.model import FitContext, Fitted
from tamis.base.search import (
    SCORES,
    HeldOut,
    Result,
    as_named,
    check_search,
    check_splits,
    choice_in_words,
    choose,
    chosen_point,
    cross_validate,
    kernel_choices,
    learned_name,
    search_columns,
    single_classifier,
    smoothed,
)
from tamis.codec import stored
from tamis.errors import check_choice, check_number, check_values
from tamis.kernels.recipes import check_bandwidth, per_feature
from tamis.methods.em2nolc import solver as method
from tamis.methods.em2nolc.estimator import COUPLINGS, REFITS, ZHANG2022, EM2NOLCClassifier, ridge_scale, tasks
from tamis.methods.em2nolc.refit import coefficients
from tamis.methods.em2nolc.sums import moments_of
from tamis.methods.em2nolc.sums_classifier import SumsClassifier
from tamis.optim.driver import Solution
from tamis.statistics.fit import FoldSums, HeldOutSums, TrainingSums
from tamis.table.folds import folds, resolve_cv
from tamis.table.rows import Rows, merge_rows

ALPHAS = (0.01, 0.1)
MAX_SCORED_ROWS = 20_000  # most held-out rows on which cells are scored, in addition to the statistics
BUDGET_GRID = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 60, 100, 200)
SEARCH_POOL = 300  # most candidates in the search; the final fit draws from more
COARSE_SHARES = (0.25, 0.5, 1.0)  # budgets of the first stage, as shares of the largest
Pair = tuple[int, int]


@dataclass(frozen=True)
class Cell:
    """One point of the grid; kernels and bandwidth by name."""

    max_instances: int
    max_features: int
    kernels: str
    bandwidth: Any
    alpha: float
    coupling: str
    refit: str

    @property
    def budgets(self) -> Pair:
        return self.max_instances, self.max_features

    @property
    def size(self) -> tuple[int, int]:
        return self.max_instances + self.max_features, self.max_instances

    def within(self, budgets: Pair) -> Cell:
        """The same setting with other budgets."""
        return replace(self, max_instances=budgets[0], max_features=budgets[1])


@stored
class EM2NOLCClassifierCV(SumsClassifier):
    """EM2NOLC with budgets, bandwidth, ridge and variants chosen by cross-validation.

    Two stages. First every kernel recipe, bandwidth, ridge, coupling and refit is tried at a few
    budgets; then, for the best of them, all budgets on the grid, each started from its smaller
    neighbours. Scores come from held-out rows of the training data only; the score of the winner is
    the best of many and therefore optimistic: do not report it as performance.

    Parameters
    ----------
    max_instances, max_features : int, default=20
        Largest budgets tried.
    bandwidths : sequence, default=(0.3, 1.0, 3.0)
        Each as `bandwidth` in `EM2NOLCClassifier`.
    alphas : sequence of float or "auto", default="auto"
        "auto" is (0.01, 0.1), both times sqrt(1000 / rows) beyond a thousand (distinct) rows.
    couplings : sequence of {"rank_one", "full"}, default=("rank_one",)
    refits : sequence of {"squared", "logistic"}, default=("squared",)
    budgets : {"grid", "full"}, default="grid"
        Second stage over 1, 2, 3, 4, 5, 7, 10, 14, 20, ... or over every integer.
    solver : {"splicing", "admm", "paper"}, default="splicing"
        Of the final fit; the search draws instances from at most 300 candidates.
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
    cv : int, splitter or sequence of (train, test) positions, default=5
        An integer (None is 5) requests stratified folds that follow the values of rows; copies of a row are dealt over
        them. With `groups` in `fit`, rows of one group stay together. Splitters and positions refer to the rows of X
        as given. The statistics engine does not stratify, and needs folds that train on all other rows.
    scoring : {"auto", "log_loss", "accuracy", "roc_auc", "squared_error"}, default="auto"
        Log-loss is taken after calibration of the held-out decisions. With the statistics engine the
        squared error comes from the sums of the held-out fold, without another look at its rows, and
        the other scores from at most 20000 held-out rows. "auto" is the squared error there, else log-loss.
    rule : {"best", "one_se", "largest"}, default="best"
        "best" takes the budgets with the best score, each score averaged with those of the
        neighbouring budgets, because the best of many single scores is mostly luck; ties go to the
        smaller model. "one_se" takes the smallest budgets within one standard error of that. "largest"
        chooses the other parameters only and keeps the largest budgets: the most accurate on small
        tables, where the ridge guards against overfitting better than a choice among budgets does.
    kernels : as in `EM2NOLCClassifier`, or a dict {name: choice} to choose among, default=None
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
    max_instances_, max_features_, bandwidth_, alpha_, coupling_, refit_ : what was chosen
    cv_results_ : dict of arrays, one entry per cell tried in the first stage
    path_ : dict with the budgets `max_instances`, `max_features` and, over that grid, `objective`,
        `squared_error`, `log_loss`, `accuracy`, `roc_auc` (the squared error alone from statistics alone)
    dual_coef_, kernel_weights_, intercept_ : the factors of the coefficients (closest ones if "full")
    instance_importance_, feature_importance_, kernel_importance_ : signed percentages, the paper's II
        and FI; the largest kernel weight is positive
    outside_ : after a fit from statistics, {column: cells beyond the plan's range or levels}
    statistics_ : after partial fits, their sums
    n_splits_ : folds that were used
    scoring_ : the score that decided
    kernels_choice_ : the name of the kernels that were chosen; "kernels" where there was no choice
    classes_, instances_per_class_ : the class labels, sorted (of two the second is positive); instances of each output
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features, as positions in X; kept kernels and their names
    instance_variation_, kernel_variation_, feature_variation_ : shares in the variation of the decision over training
        rows, in per cent; of features where every kernel stands on one
    pairs_ : pairs of features that have a `surface`, by name, those that matter most first
    history_ : objective, violation and seconds of every round; a list where several problems were solved
    n_iter_, objective_, status_ : most rounds of all problems; final objective, summed over them; how the fit ended
    n_features_in_, feature_names_in_ : columns of X, and their names where it has them

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import EM2NOLCClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = EM2NOLCClassifierCV(max_instances=5, max_features=5, cv=3).fit(X, y)
    >>> clf.max_instances_ <= 5 and clf.max_features_ <= 5
    True
    """

    citation = ZHANG2022

    def __init__(
        self,
        max_instances: int = 20,
        max_features: int = 20,
        *,
        bandwidths: Sequence[Any] = (0.3, 1.0, 3.0),
        alphas: Sequence[float] | str = "auto",
        couplings: Sequence[str] = ("rank_one",),
        refits: Sequence[str] = ("squared",),
        budgets: str = "grid",
        solver: str = "splicing",
        engine: str = "auto",
        candidates: int | str | None = None,
        shared_support: bool = False,
        device: str | None = None,
        tol: float = 0.0001,
        max_iter: int = 30,
        cv: Any = 5,
        scoring: str = "auto",
        rule: str = "best",
        kernels: Any = None,
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
        self.bandwidths = bandwidths
        self.alphas = alphas
        self.couplings = couplings
        self.refits = refits
        self.budgets = budgets
        self.solver = solver
        self.engine = engine
        self.candidates = candidates
        self.shared_support = shared_support
        self.device = device
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.kernels = kernels
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
        check_search(self, ("auto", *SCORES), ("best", "one_se", "largest"))
        for name in ("bandwidths", "alphas", "couplings", "refits"):
            values = getattr(self, name)
            if name != "alphas" or not isinstance(values, str) or values != "auto":
                check_values(name, values)
        for bandwidth in self.bandwidths:
            check_bandwidth(bandwidth)
        for alpha in () if isinstance(self.alphas, str) else self.alphas:
            check_number("alphas", alpha, 0.0)
        for coupling in self.couplings:
            check_choice("couplings", coupling, COUPLINGS)
        for refit in self.refits:
            check_choice("refits", refit, REFITS)
        self._single().check_parameters()
        check_choice("budgets", self.budgets, ("grid", "full"))

    def _kernel_choices(self) -> dict[str, Any]:
        return kernel_choices(self.kernels)

    def _single(self, **point: Any) -> EM2NOLCClassifier:
        """The classifier without a search at one point of the grid."""
        return single_classifier(self, EM2NOLCClassifier, **point)

    def _memory(self, size: Size) -> MemoryEstimate:
        return self._single()._memory(size)

    def _less_memory(self, size: Size, room: float) -> str:
        return self._single()._less_memory(size, room)

    def _fit_rows(self, rows: Rows, context: FitContext) -> Fitted:
        d = rows.table.numbers.shape[1]
        one = self._sum(rows, context.seed)
        if one is not None:
            return self._fit_pass(one, context)
        merged = merge_rows(rows)
        splits = folds(rows, self.cv, context.seed)
        most = min((len(train) for train, _ in splits), default=0)
        numeric = len(rows.table.labels) < d
        grid = self._grid(len(merged), d, numeric, context.seed)
        final = partial(replace(grid.space, candidates=self.candidates).encode, merged, context.seed)
        return self._search(grid, splits, Tests.of(splits) if splits else None, most, d, final)

    @property
    def _summed_for(self) -> tuple[Sequence[Any], Sequence[Any], Any]:
        return list(self._kernel_choices().values()), self.bandwidths, resolve_cv(self.cv)

    def _fit_pass(self, one: FoldSums, context: FitContext) -> Fitted:
        if one.sample is None and "logistic" in self.refits:
            raise ValueError("refits=('logistic',) needs rows, and only statistics are here: give X and y too")
        if one.sample is None and self.scoring not in ("auto", "squared_error"):
            raise ValueError(
                f"scoring={self.scoring!r} is judged on rows, and only statistics are here: "
                "use scoring='squared_error' or give X and y too"
            )
        encoder, kept = one.statistics.plan.encoder, one.folds
        size = MAX_SCORED_ROWS // max(1, len(kept))
        splits = [(one.summary(fold, pool=SEARCH_POOL), one.held_out(fold, size)) for fold in kept]
        looks = [(held.sample, held.sample) for _, held in splits if held.sample is not None]
        count, d = one.statistics.count, len(encoder.names)
        most = int(min((count.sum() - count[fold] for fold in kept), default=0))
        grid = self._grid(one.statistics.n_rows, d, not encoder.nominal.all(), context.seed)
        tests = Tests.of(looks) if looks else None
        if tests is not None and len(np.unique(tests.codes)) < len(one.statistics.plan.classes):
            splits = []
        fitted = self._search(grid, splits, tests, most, d, one.summary, "squared_error")
        return replace(fitted, attributes={**fitted.attributes, "outside_": one.statistics.outside})

    def _search(
        self,
        grid: Grid,
        splits: Sequence[tuple[Any, Any]],
        tests: Tests | None,
        most: int,
        n_features: int,
        final: Callable[[], Encoded | TrainingSums],
        scoring: str = "log_loss",
    ) -> Fitted:
        """Search coarsely over settings, then over all budgets of the best one; fit `final` data.

        No fold has more than `most` training rows; `scoring` is what "auto" means.
        """
        check_splits(self, splits)
        scoring = scoring if self.scoring == "auto" else self.scoring
        instances, features = self._budget_grids(most, n_features)
        grid = replace(grid, budgets=_diagonal(instances, features))
        judges = None if scoring == "squared_error" else tests  # a quick first stage needs no other score
        coarse = cross_validate(grid, splits, judges, scoring, self.n_jobs, "tuning: settings")
        largest = instances[-1], features[-1]
        tried = {c: r for c, r in coarse.items() if self.rule != "largest" or c.budgets == largest}
        setting = choose(tried, scoring, attrgetter("size"))
        grid = grid.narrow(setting, list(product(instances, features)))
        fine = cross_validate(grid, splits, tests, scoring, self.n_jobs, "tuning: budgets")
        if self.rule == "largest":
            cell = setting.within(largest)
        else:
            even = smoothed(fine, [[setting.within((i, f)) for f in features] for i in instances], scoring)
            cell = choose(even, scoring, attrgetter("size"), self.rule)
        width, choice = grid.bandwidths[setting.bandwidth], grid.kernels[setting.kernels]
        prepared = final().prepare(choice, per_feature(), width)
        model, _ = self._at(cell)._learn_prepared(prepared, cell.alpha)
        attributes = {
            **_search_attributes(cell, grid, coarse, fine, instances, features),
            "n_splits_": len(splits),
            "scoring_": scoring,
        }
        decision = fine[cell].decision
        if decision is None or tests is None:
            return Fitted(model, None, attributes)
        return Fitted(*calibrated(model, decision, tests), attributes)

    def without_search(self) -> Any:
        """Return the unfitted classifier without a search, with what was chosen."""
        names = ("max_instances", "max_features", "bandwidth", "alpha", "coupling", "refit")
        return self._single(**chosen_point(self, names))

    def summary(self) -> dict[str, Any]:
        check_is_fitted(self)
        own = {
            "most cases": self.max_instances_,
            "most features": self.max_features_,
            "bandwidth": self.bandwidth_,
            "ridge": self.alpha_,
            "coefficients": self.coupling_,
            "last fit": self.refit_,
        }
        return own | choice_in_words(self)

    def _at(self, cell: Cell) -> EM2NOLCClassifier:
        """The classifier of a cell, within this fit."""
        names = ("max_instances", "max_features", "alpha", "coupling", "refit")
        return self._single(**{name: getattr(cell, name) for name in names})

    def _grid(self, n_rows: int, d: int, numeric: bool, seed: int) -> Grid:
        """All settings, no budgets yet; `numeric`: whether some column holds numbers."""
        widths = [check_bandwidth(b, d) for b in self.bandwidths]
        if not numeric and self.kernels is None:
            widths = widths[:1]  # indicator kernels have no bandwidth
        alphas = [a * ridge_scale(n_rows) for a in ALPHAS] if isinstance(self.alphas, str) else self.alphas
        return Grid(
            kernels=self._kernel_choices(),
            bandwidths={b if np.ndim(b) == 0 else f"array {k}": b for k, b in enumerate(widths)},
            alphas=tuple(dict.fromkeys(alphas)),
            couplings=tuple(dict.fromkeys(self.couplings)),
            refits=tuple(dict.fromkeys(self.refits)),
            budgets=(),
            space=KernelSpace(
                per_feature(),
                self.engine,
                self.scaling,
                self.missing,
                max_features=min(self.max_features, d),
                candidates=min(self.candidates, SEARCH_POOL) if isinstance(self.candidates, int) else SEARCH_POOL,
            ),
            seed=seed,
            shared=self.shared_support,
        )

    def _budget_grids(self, n_rows: int, n_features: int) -> tuple[list[int], list[int]]:
        """Budgets worth trying: no more than there are rows and columns."""
        most = min(self.max_instances, n_rows), min(self.max_features, n_features)
        if self.budgets == "full":
            return list(range(1, most[0] + 1)), list(range(1, most[1] + 1))
        first, second = ([*(g for g in BUDGET_GRID if g < limit), limit] for limit in most)
        return first, second


def _search_attributes(
    cell: Cell,
    grid: Grid,
    coarse: dict[Cell, Result],
    fine: dict[Cell, Result],
    instances: list[int],
    features: list[int],
) -> dict[str, Any]:
    """What was chosen, all settings that were tried, and the scores over the budgets."""
    cells = [[fine[cell.within((i, f))] for f in features] for i in instances]
    path = {"max_instances": np.array(instances), "max_features": np.array(features)}
    path["objective"] = np.array([[r.objective for r in row] for row in cells])
    for name in cells[0][0].scores:
        path[name] = np.array([[as_named(name, r.scores[name]) for r in row] for row in cells])
    chosen = {learned_name(name): value for name, value in asdict(cell).items()}
    return {
        **chosen,
        "bandwidth_": grid.bandwidths[cell.bandwidth],
        "cv_results_": search_columns(coarse),
        "path_": path,
    }


def _diagonal(instances: list[int], features: list[int]) -> list[tuple[int, int]]:
    """A few pairs of budgets that grow together, the largest last."""
    return list(dict.fromkeys((_nearest(instances, share), _nearest(features, share)) for share in COARSE_SHARES))


def _nearest(grid: list[int], share: float) -> int:
    return min(grid, key=lambda g: abs(g - share * grid[-1]))


@dataclass(frozen=True)
class Grid:
    """What is tried on every fold."""

    # kernels, bandwidths: {name: choice}
    kernels: dict[str, Any]
    bandwidths: dict[Any, Any]
    # alphas, couplings, refits: the rest of the settings
    alphas: Sequence[float]
    couplings: Sequence[str]
    refits: Sequence[str]
    budgets: Sequence[Pair]  # pairs (max_instances, max_features), smaller ones first
    space: KernelSpace  # how kernels are evaluated on folds of rows
    seed: int  # of the candidates there
    shared: bool  # as in the estimator

    def narrow(self, setting: Cell, budgets: Sequence[Pair]) -> Grid:
        """One setting with other budgets."""
        return replace(
            self,
            kernels={setting.kernels: self.kernels[setting.kernels]},
            bandwidths={setting.bandwidth: self.bandwidths[setting.bandwidth]},
            alphas=(setting.alpha,),
            couplings=(setting.coupling,),
            refits=(setting.refit,),
            budgets=budgets,
        )

    def __call__(self, train: Rows | TrainingSums, test: Rows | HeldOutSums) -> dict[Cell, HeldOut]:
        """Every cell on one fold."""
        out: dict[Cell, HeldOut] = {}
        encoded = train if isinstance(train, TrainingSums) else self.space.encode(train, self.seed)
        judge = _Rows(test) if isinstance(test, Rows) else _Sums.of(test)
        for point in self._points(encoded):
            instances, features = point.budgets
            for coupling, refit in product(self.couplings, self.refits):
                cell = Cell(instances, features, *point.key, coupling, refit)
                out[cell] = judge(point, point.coefficients(coupling, refit))
        return out

    def _points(self, encoded: Encoded | TrainingSums) -> Iterator[Point]:
        """The path over budgets for every kernel choice, bandwidth and ridge."""
        for (name, choice), (key, width) in product(self.kernels.items(), self.bandwidths.items()):
            prepared = encoded.prepare(choice, per_feature(), width)
            for alpha in self.alphas:
                problems = tasks(prepared, alpha, (1, 1), self.shared, thorough=False)
                paths = [method.path(problem, self.budgets) for problem in problems]
                for pair in self.budgets:
                    yield Point((name, key, alpha), pair, prepared, problems, [path[pair] for path in paths])


@dataclass(frozen=True)
class Point:
    """The solutions at one pair of budgets, one per problem."""

    key: tuple[str, Any, float]
    budgets: Pair
    prepared: Prepared
    problems: list[method.Task]
    solutions: list[Solution]

    @property
    def objective(self) -> float:
        """Per unit of training weight."""
        return sum(s.objective for s in self.solutions) / self.problems[0].design.total_weight

    def coefficients(self, coupling: str, refit: str) -> list[Coefficients]:
        pairs = zip(self.problems, self.solutions, strict=True)
        return [coefficients(task, solution.state, coupling=coupling, refit=refit) for task, solution in pairs]


@dataclass(frozen=True)
class _Rows:
    """Judges coefficients on the rows of a fold."""

    test: Rows

    def __call__(self, point: Point, blocks: list[Coefficients]) -> HeldOut:
        return HeldOut.of_model(point.prepared.model(blocks, point.solutions), self.test, point.objective)


@dataclass(frozen=True)
class _Sums:
    """Judges coefficients on the sums of a fold, and on some of its rows if they are at hand."""

    sums: np.ndarray
    values: np.ndarray | None  # (functions, rows)

    @classmethod
    def of(cls, test: HeldOutSums) -> _Sums:
        plan = test.plan
        if test.sample is None:
            return cls(test.sums, None)
        values = np.empty((plan.functions.size, len(test.sample)))
        plan.functions.fill(plan.encoder.encode(test.sample.table).T, values)
        return cls(test.sums, values)

    def __call__(self, point: Point, blocks: list[Coefficients]) -> HeldOut:
        pairs = zip(point.problems, blocks, strict=True)
        residual = np.concatenate([moments_of(task).residual(block) for task, block in pairs], axis=1)
        used = np.flatnonzero(np.any(residual != 0, axis=1))
        squares = max(0.0, float(np.vdot(residual[used], self.sums[np.ix_(used, used)] @ residual[used])))
        decision = None
        if self.values is not None:
            used = used[used < len(self.values)]
            decision = self.values[used].T @ residual[used]
        return HeldOut(decision, point.objective, squares, float(self.sums[0, 0]))
