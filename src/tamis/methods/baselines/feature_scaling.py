"""FS-SVM: a support vector machine with a few feature factors inside its kernel, after [Weston2000].

    min over theta of J(theta)    subject to  theta >= 0,  sum(theta) = total,  at most max_features of them non-zero
    J(theta) = max over 0 <= alpha <= cost, y'alpha = 0 of sum(alpha) - 1/2 (alpha*y)'K(theta)(alpha*y)
    K(theta)_ij = exp(-1/2 sum_c theta_c D_c(i, j) / width^2)

D_c is the squared distance in column c. `total` is the number of columns that are not constant, so that theta = 1
everywhere is the Gaussian of bandwidth `width` on all columns, and a column that is left alone with the whole total
spreads the rows as all columns did before. With b = alpha*y at the maximiser

    dJ/dtheta_c = 1 / (4 width^2) sum_ij b_i b_j K_ij D_c(i, j)

which is a matrix product, because D_c is a Euclidean distance: the gradient costs O(n^2 d).

| paper | here |
| --- | --- |
| feature coefficients (squared) | `factors` (d,) |
| alpha_i y_i, b | `dual_coef` (n,), `intercept` |
| C | `cost` (n,), one for every row |
| C_m | `max_features` |

Departures from the paper, with reasons:

1. The paper compares with polynomial kernels of scaled features; the Gaussian is the kernel of its other methods.
   [Weston2000] descends on a bound, radius over margin. Here the radius is kept by `total`: with the sum of the
   factors the mean distance of standardised rows is fixed, and J is left.
2. The budget holds exactly, by projection onto the sparse simplex. A step may exchange columns; where that does
   not lower J, it is made on the present ones. J never rises.
3. The start is found by descending without a budget from equal factors, then with a quarter of the columns less,
   and so on, a few steps each. All columns are in at first, so features that matter only together are seen.
4. J is not convex. The loop stops where shifting factors between the columns in use (or to any column, while there
   are fewer than the budget allows) promises, to first order, at most `tol` times J, and the machine itself is
   that close to optimal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.base.classifier import ReadableClassifier
from tamis.base.kernel_model import Coefficients, KernelModel
from tamis.base.kernel_space import Encoded, KernelSpace
from tamis.base.memory import MemoryEstimate, Size
from tamis.base.model import FitContext
from tamis.base.stack_classifier import factors_of
from tamis.codec import stored
from tamis.errors import check_integer, check_number
from tamis.explain import part_name
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import euclidean
from tamis.kernels.composed import ScaledGaussian
from tamis.kernels.recipes import check_bandwidth, embed
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.prox import project_sparse_simplex
from tamis.optim.svm import objectives, solve_svm
from tamis.table.rows import Rows, check_cost

WESTON2000 = (
    "Weston, Jason; Mukherjee, Sayan; Chapelle, Olivier; Pontil, Massimiliano; Poggio, Tomaso; Vapnik, Vladimir "
    "(2000). Feature selection for SVMs. Advances in Neural Information Processing Systems."
)

STAGE_STEPS = 3  # steps for every budget on the way to the last one
STAGE_PROMISE = 1e-2  # promise at which such a stage ends before that
ARMIJO = 1e-4  # share of the promised decrease that a step has to bring
MAX_TRIALS = 30  # steps that are tried before there is none, each half the last
MARGIN_SHARE = 1e-2  # tolerance of margins, relative to that of the violation
FIRST_STEP = 0.25  # share of the total that the first step may move
SQUARES = 2.6  # matrices between all rows that the solver holds at its peak


@dataclass(frozen=True)
class Problem:
    """Rows in coordinates of their distances, labels and costs."""

    # points, owner: (n, e), (e,) coordinates and the columns that they belong to; constant columns have none
    points: np.ndarray
    owner: np.ndarray
    missing: np.ndarray  # (n, d) boolean, the cells that are missing
    mismatch: np.ndarray  # (d,) positive for categories: the squared distance between two levels
    y: np.ndarray  # (n,) in {-1, +1}, both present
    cost: np.ndarray  # (n,) positive, C times the weight of the row
    width: float  # bandwidth of the kernel where all factors are one
    max_features: int  # most columns with a factor

    def __post_init__(self) -> None:
        if not len(self.owner):
            raise ValueError("X has constant columns only: no kernel can tell its rows apart")

    @classmethod
    def of_rows(
        cls, Z: np.ndarray, mismatch: np.ndarray, y: np.ndarray, cost: np.ndarray, *, width: float, max_features: int
    ) -> Problem:
        """The problem of encoded rows (n, d), NaN where cells are missing."""
        points, owner = embed(Z, mismatch)
        return cls(points, owner, np.isnan(Z), mismatch, y, cost, width, max_features)

    @property
    def columns(self) -> np.ndarray:
        """The columns that are not constant."""
        return np.unique(self.owner)

    @property
    def total(self) -> float:
        """The sum of the factors."""
        return float(len(self.columns))

    def gram(self, factors: np.ndarray) -> np.ndarray:
        """K (n, n); a row that lacks all columns with a factor is absent, its values are zero."""
        used = factors[self.owner] > 0
        P = self.points[:, used] * np.sqrt(factors[self.owner[used]]) / self.width
        K = np.exp(-0.5 * euclidean(P, P))
        absent = np.all(self.missing[:, factors > 0], axis=1)
        K[absent], K[:, absent] = 0.0, 0.0
        return K

    def gradient(self, K: np.ndarray, dual_coef: np.ndarray) -> np.ndarray:
        """dJ/dtheta (d,) at the machine of K; zero for constant columns."""
        rows = np.flatnonzero(dual_coef)
        b, P = dual_coef[rows], self.points[rows]
        R = K[np.ix_(rows, rows)] * b[:, None] * b[None, :]
        moments = (P * P).T @ R.sum(axis=1) - np.einsum("ie,ie->e", P, R @ P)
        return np.bincount(self.owner, weights=moments, minlength=self.missing.shape[1]) / (2.0 * self.width**2)


@dataclass(frozen=True)
class State:
    """Factors with the machine of their kernel."""

    factors: np.ndarray  # (d,) theta
    dual_coef: np.ndarray  # (n,) ``alpha * y``, so that ``f = K(theta) dual_coef + intercept``
    intercept: float


def kernel(problem: Problem, state: State) -> ScaledGaussian:
    """The kernel of a state, on all columns; those without a factor may be left out with their factor."""
    factors = state.factors / problem.width**2
    return ScaledGaussian(tuple(factors.tolist()), tuple(problem.mismatch.tolist()))


def objective(problem: Problem, state: State) -> float:
    """J of the state's factors, as its coefficients attain it."""
    return _values(problem, state, problem.gram(state.factors))[0]


def violation(problem: Problem, state: State) -> float:
    """What moving factors promises, relative to J, and the relative duality gap of the machine if that is larger."""
    K = problem.gram(state.factors)
    value, primal = _values(problem, state, K)
    promise = _promise(problem, state.factors, problem.gradient(K, state.dual_coef), problem.max_features)
    return _violation(promise, value, primal)


def _values(problem: Problem, state: State, K: np.ndarray) -> tuple[float, float]:
    return objectives(K @ state.dual_coef, problem.y, problem.cost, state.dual_coef, state.intercept)


def _violation(promise: float, value: float, primal: float) -> float:
    excess = max(promise, primal - value, 0.0)
    return excess / max(value, np.finfo(float).tiny * max(1.0, excess))


def _promise(problem: Problem, factors: np.ndarray, gradient: np.ndarray, budget: int) -> float:
    """Decrease of J, to first order, if the whole total went to the best column that may be used."""
    best = float(gradient[_usable(problem, factors, budget)].min())
    return float(gradient @ factors) - problem.total * best


def _usable(problem: Problem, factors: np.ndarray, budget: int) -> np.ndarray:
    """Columns that may have a factor while the others keep theirs."""
    used = np.flatnonzero(factors)
    return problem.columns if len(used) < budget else used


@dataclass(frozen=True)
class _Point:
    """A state with J, its gradient and an upper bound of J."""

    state: State
    value: float
    primal: float
    gradient: np.ndarray


def _point(problem: Problem, factors: np.ndarray, known: np.ndarray | None, tol: float) -> _Point:
    """Solve the machine of some factors, given dual coefficients of a similar one."""
    K = problem.gram(factors)
    machine = solve_svm(K, problem.y, problem.cost, tol=MARGIN_SHARE * tol, start=known)
    state = State(factors, machine.dual_coef, machine.intercept)
    return _Point(state, machine.value, machine.primal, problem.gradient(K, machine.dual_coef))


def _projected(problem: Problem, v: np.ndarray, columns: np.ndarray, budget: int) -> np.ndarray:
    """The closest factors that are zero outside some columns and within the budget."""
    factors = np.zeros(len(v))
    factors[columns] = project_sparse_simplex(v[columns], budget, problem.total)
    return factors


def _trials(problem: Problem, point: _Point, length: float, budget: int) -> Iterator[tuple[np.ndarray, float]]:
    """Factors to try, with their step length: an exchange of columns if there is one, then ever shorter steps."""
    factors, usable = point.state.factors, _usable(problem, point.state.factors, budget)
    exchanged = _projected(problem, factors - length * point.gradient, problem.columns, budget)
    if np.any(exchanged[np.setdiff1d(problem.columns, usable)]):
        yield exchanged, length
    for _ in range(MAX_TRIALS):
        yield _projected(problem, factors - length * point.gradient, usable, budget), length
        length *= 0.5


def _step(problem: Problem, point: _Point, length: float, budget: int, tol: float) -> tuple[_Point, float] | None:
    """A point with less J, and the step length for the next; None where no step is short enough."""
    for factors, t in _trials(problem, point, length, budget):
        move = factors - point.state.factors
        size = float(move @ move)
        if size == 0:
            continue
        new = _point(problem, factors, point.state.dual_coef, tol)
        if new.value <= point.value - ARMIJO / t * size:
            bend = float(move @ (new.gradient - point.gradient))
            return new, size / bend if bend > 0 else 4.0 * t
    return None


def _first_length(problem: Problem, point: _Point) -> float:
    slopes = point.gradient[problem.columns]
    return FIRST_STEP * problem.total / (float(np.ptp(slopes)) or 1.0)


def within_budget(problem: Problem, tol: float = 1e-3) -> np.ndarray:
    """Factors (d,) to start from: descend with all columns, then with a quarter less, and so on down to the budget."""
    factors = np.zeros(problem.missing.shape[1])
    factors[problem.columns] = 1.0
    budget, known = len(problem.columns), None
    while budget > problem.max_features:
        point = _point(problem, factors, known, tol)
        length = _first_length(problem, point)
        for _ in range(STAGE_STEPS):
            if _promise(problem, point.state.factors, point.gradient, budget) <= STAGE_PROMISE * point.value:
                break
            moved = _step(problem, point, length, budget, tol)
            if moved is None:
                break
            point, length = moved
        budget, known = max(problem.max_features, budget - max(1, budget // 4)), point.state.dual_coef
        factors = _projected(problem, point.state.factors, problem.columns, budget)
    return factors


def iterates(problem: Problem, start: State | None = None, *, tol: float = 1e-3) -> Iterator[Iterate[State]]:
    """Descend within the budget; J never rises.

    Parameters
    ----------
    start : a state, whose factors are brought within the budget; without one `within_budget` finds them
    tol : the violation that is aimed at; machines are solved accordingly
    """
    if start is None:
        point = _point(problem, within_budget(problem, tol), None, tol)
    else:
        factors = _projected(problem, start.factors, problem.columns, problem.max_features)
        point = _point(problem, factors, start.dual_coef, tol)
    length = _first_length(problem, point)
    while True:
        state = point.state
        promise = _promise(problem, state.factors, point.gradient, problem.max_features)
        yield Iterate(state, point.value, _violation(promise, point.value, point.primal), weights=state.factors)
        moved = _step(problem, point, length, problem.max_features, tol)
        if moved is None:
            return
        point, length = moved


def solve(
    problem: Problem,
    *,
    start: State | None = None,
    tol: float = 1e-3,
    max_iter: int = 200,
    callback: Callback | None = None,
) -> Solution[State]:
    """Minimise J to a violation of `tol`."""
    return run(iterates(problem, start, tol=tol), tol=tol, max_iter=max_iter, callback=callback)


# ---------------------------------------------------------------------- the estimator


@stored
class FeatureScalingSVC(ReadableClassifier):
    """Support vector machine on a Gaussian kernel with a learned factor for each of a few features [Weston2000].

    The kernel is ``exp(-1/2 sum_c factor_c (s_c - t_c)^2 / width^2)`` with at most `max_features` factors that are
    not zero; they are found by projected gradient descent on the optimal value of the machine, which is not
    convex in them.

    Parameters
    ----------
    max_features : int, default=10
        Most features with a factor (per class with more than two classes).
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    bandwidth : float, default=1.0
        Width for one scaled feature; the kernel's width is that times the root of the number of features.
    tol : float, default=0.001
        Largest decrease of the objective, relative to it, that one more step may promise.
    max_iter : int, default=200
        Most steps.
    pool : int or None, default=None
        Number of training rows to learn from, drawn from every class in proportion, whatever their order. Kept cases
        are among these, and `pool_error_` is the error on the others. None, or at least as many as there are: all rows.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities and move the intercept to probability one
        half. None: no `predict_proba`, the method's own intercept, and a faster fit.
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
        Number of processes for the folds; None is one.
    memory_limit : int, float, str or None, default=None
        Largest memory of a fit in bytes, as a number or as text such as "2GB"; None: what is available. A fit that
        would need more (see `memory_estimate`) is refused before it starts.
    verbose : int, default=0
        Whether to log every round of the fit; 0 is silent.

    Attributes
    ----------
    feature_factors_ : (n_kept,) factors of the kept features, or (n_classes, n_kept); their sum is the number of
        features that are not constant
    dual_coef_, kernel_weights_, intercept_ : coefficients of the rows; each class has one kernel of weight one
    instance_importance_ : signed percentages of the coefficients
    kernel_importance_, feature_importance_ : percentages of the weights; of features where every kernel stands on one
    pool_error_ : where a pool was drawn, the share of other training rows (up to 20 000 of them, by their weights) that
        are predicted wrong
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
    _has_margin = True
    _pools = True

    def __init__(
        self,
        max_features: int = 10,
        C: float = 1.0,
        *,
        bandwidth: float = 1.0,
        tol: float = 0.001,
        max_iter: int = 200,
        pool: int | None = None,
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
        self.max_features = max_features
        self.C = C
        self.bandwidth = bandwidth
        self.tol = tol
        self.max_iter = max_iter
        self.pool = pool
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
        check_integer("max_features", self.max_features, 1)
        check_number("bandwidth", self.bandwidth, 0.0, strict=True)
        check_bandwidth(self.bandwidth, 1)

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = {"most features": self.max_features, "cost C": self.C, "bandwidth": self.bandwidth}
        if hasattr(self, "feature_factors_"):
            mean = np.atleast_2d(self.feature_factors_).mean(axis=0)
            names = zip(self.model_.encoder.names, mean, strict=True)
            found["factors"] = ", ".join(f"{name} {factor:.2g}" for name, factor in names)
        return found | super().summary()

    def _memory(self, size: Size) -> MemoryEstimate:
        return {**super()._memory(size), "matrices between all rows": SQUARES * size.square}

    def _learn(self, rows: Rows, context: FitContext) -> tuple[KernelModel, Mapping[str, Any]]:
        space = KernelSpace(self._recipe, "dense", self.scaling, self.missing, max_features=self.max_features)
        encoded = space.encode(rows, context.seed)
        solutions = [self._solve(encoded, y[:, 0]) for y in rows.problems(shared=False)]
        names = [""] if len(rows.classes) == 2 else [f" for {name}" for name in rows.classes]
        kernels = [
            _channel(encoded, s.state.factors / self._width(encoded) ** 2, name)
            for s, name in zip(solutions, names, strict=True)
        ]
        blocks = [_block(s.state, k) for k, s in enumerate(solutions)]
        model = encoded.builder(KernelBank(tuple(kernels))).model(blocks, solutions)
        factors = np.array([s.state.factors[model.columns] for s in solutions])
        dual, weights = factors_of(model.expansion.coef)
        attributes = {"feature_factors_": factors[0] if len(factors) == 1 else factors}
        return replace(model, dual_coef=dual, kernel_weights=weights), attributes

    def _solve(self, encoded: Encoded, y: np.ndarray) -> Solution[State]:
        sample = encoded.sample
        problem = Problem.of_rows(
            sample.Z,
            sample.mismatch,
            y,
            check_cost(self.C, encoded.rows.absolute_weight),
            width=self._width(encoded),
            max_features=self.max_features,
        )
        solution = solve(problem, tol=self.tol, max_iter=self.max_iter, callback=self._log_callback())
        return replace(solution, history=replace(solution.history, weights=None))  # those of features, not of kernels

    def _width(self, encoded: Encoded) -> float:
        return self.bandwidth * float(np.sqrt(encoded.sample.Z.shape[1]))


def _channel(encoded: Encoded, factors: np.ndarray, suffix: str) -> Channel:
    """The kernel of some factors, on the columns that have one."""
    columns = np.flatnonzero(factors)
    kernel = ScaledGaussian(tuple(factors[columns].tolist()), tuple(encoded.sample.mismatch[columns].tolist()))
    return Channel(part_name([encoded.encoder.names[c] for c in columns]) + suffix, kernel, tuple(columns.tolist()))


def _block(state: State, kernel: int) -> Coefficients:
    instances = np.flatnonzero(state.dual_coef)
    coef = state.dual_coef[instances][None, :, None]
    return Coefficients(instances, np.array([kernel]), coef, np.array([state.intercept]))
