"""L0MKLClassifierCV: penalty, tightness and kernels of l0-MKL chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from tamis.base.classifier import ReadableClassifier
from tamis.base.explaining import feature_shares, support_mask
from tamis.base.memory import MemoryEstimate, Size
from tamis.base.model import FitContext, Fitted
from tamis.base.search import (
    HeldOut,
    Result,
    as_named,
    check_search,
    choice_in_words,
    chosen_point,
    kernel_choices,
    search_cells,
    single_classifier,
)
from tamis.base.stack_classifier import extended, model_of, weights_in_words
from tamis.codec import stored
from tamis.errors import check_choice, check_values
from tamis.kernels.base import Sigmoid
from tamis.kernels.recipes import per_feature
from tamis.methods.l0_mkl import solver as method
from tamis.methods.l0_mkl.estimator import (
    CHOICES,
    SIGMOID,
    XUESONG2020,
    L0MKLClassifier,
    answer,
    ridge_in_words,
    warn_clipped,
)
from tamis.table.rows import Rows

SIGMOIDS = {f"sigmoid {a}, {r}": per_feature(Sigmoid(a, r)) for a, r in ((0.1, 0.1), (0.1, 1.0), (0.3, 0.1))}
MAX_FOLD_BYTES = 1 << 28  # bytes of kernel values, or of their short forms, that a fold of the search may hold


@dataclass(frozen=True)
class Cell:
    """One point of the grid; kernels by name."""

    kernels: str
    lambda1: float
    theta: float
    lambda2: float


@stored
class L0MKLClassifierCV(SelectorMixin, ReadableClassifier):
    """Search of l0-MKL: penalty, tightness and kernels chosen by cross-validation [XueSong2020].

    For all kernels and every lambda1 the first machine and its pass over the kernels serve all penalties, and each path
    goes from the largest lambda2 down. Scores come from held-out rows of the training data only; the score of the
    winner is the best of many and therefore optimistic: do not report it as performance.

    Parameters
    ----------
    lambda2s : sequence of float, default=(0.02, 0.05, 0.1, 0.2, 0.4)
        As shares of the value at which no feature is left.
    thetas : sequence of float, default=(3.0, 10.0, 30.0)
    lambda1s : sequence of float, default=(0.1,)
    penalty : {"capped_l1", "exp", "log", "scad", "l1"}, default="capped_l1"
        With "l1" theta plays no role, and one value of it is tried.
    beta_step : {"stationary", "ridge", "flip", "paper"}, default="stationary"
        The machine. "stationary": where the slope of the published objective vanishes; "ridge" and "flip" change its
        quadratic term so that it is bounded ("flip" decomposes every kernel, which is slow); "paper": Algorithm 3 as
        published, its gradient corrected. Where an objective has no minimum "paper" gives no model and says so in
        `status_` and `reason_`.
    max_features : int or None, default=None
        Most features that may have a weight (per class with more than two classes), on top of the penalty.
    rounds : int, default=3
        Most rounds. More of them usually keep fewer features; they seldom classify better.
    engine : {"auto", "dense", "streaming", "chebyshev"}, default="auto"
        How kernels are passed over: "dense" keeps their values, "streaming" evaluates them in blocks, "chebyshev"
        goes through short polynomials where that is quicker, to ten digits. "auto" is the first up to 128 MiB, else the
        last, with kernels that have no such polynomials evaluated.
    tol : float, default=0.001
        Change of relative weights in a round below which the fit stops.
    pool : int or None, default=None
        Number of training rows to learn from, drawn from every class in proportion, whatever their order. Kept cases
        are among these, and `pool_error_` is the error on the others. None, or at least as many as there are: all rows.
    cv : int, splitter or sequence of (train, test) positions, default=5
        An integer (None is 5) requests stratified folds that follow the values of rows; copies of a row are dealt over
        them. With `groups` in `fit`, rows of one group stay together. Splitters and positions refer to the rows of X
        as given.
    scoring : {"log_loss", "accuracy", "roc_auc", "squared_error"}, default="log_loss"
        Log-loss and accuracy are taken after calibration of all held-out decisions together.
    rule : {"best", "one_se"}, default="best"
        "best": the best score, ties to fewer features; "one_se": the fewest features within one standard error of it.
    kernels : as in `L0MKLClassifier`, or a dict {name: choice} to choose among, default=None
        None chooses among ``tanh(a s t - r)`` on each feature with (a, r) = (0.1, 0.1), (0.1, 1) and (0.3, 0.1).
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
    lambda2_, theta_, lambda1_ : what was chosen
    lambda2_path_ : dict with `lambda2` and, for the chosen kernels, lambda1 and theta, the mean number of features
        `n_features` over folds and the scores `log_loss`, `accuracy`, `roc_auc`, `squared_error`
    feature_path_ : features that had a weight in some round, best first: those that kept it longest, then by how much
        they contribute
    reason_ : why there is no model, or none that can be trusted, with what to change; or ""
    ridge_ : what the quadratic term of the last machine counts (the largest over classes): lambda1, or more where no
        stationary machine was found with it
    clipped_ : whether some weight step had no minimum and was bounded by force
    kernel_weights_ : weights of the kernels, adding up to one
    dual_coef_ : coefficients of the rows
    instance_importance_ : signed percentages of the coefficients
    kernel_importance_, feature_importance_ : percentages of the weights; of features where every kernel stands on one
    pool_error_ : where a pool was drawn, the share of other training rows (up to 20 000 of them, by their weights) that
        are predicted wrong
    cv_results_ : dict of arrays, one entry per cell tried, with the mean number of features over folds
    n_splits_ : folds that were used
    scoring_ : the score that decided
    kernels_choice_ : the name of the kernels that were chosen; "kernels" where there was no choice
    classes_, instances_per_class_ : the class labels, sorted (of two the second is positive); instances of each output
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features, as positions in X; kept kernels and their names
    intercept_ : of each output
    instance_variation_, kernel_variation_, feature_variation_ : shares in the variation of the decision over training
        rows, in per cent; of features where every kernel stands on one
    pairs_ : pairs of features that have a `surface`, by name, those that matter most first
    history_ : objective, violation and seconds of every round; a list where several problems were solved
    n_iter_, objective_, status_ : most rounds of all problems; final objective, summed over them; how the fit ended
    n_features_in_, feature_names_in_ : columns of X, and their names where it has them

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
    _has_margin = True
    _pools = True
    _recipe = SIGMOID

    def __init__(
        self,
        lambda2s: Sequence[float] = (0.02, 0.05, 0.1, 0.2, 0.4),
        thetas: Sequence[float] = (3.0, 10.0, 30.0),
        lambda1s: Sequence[float] = (0.1,),
        *,
        penalty: Any = "capped_l1",
        beta_step: str = "stationary",
        max_features: int | None = None,
        rounds: int = 3,
        engine: str = "auto",
        tol: float = 0.001,
        pool: int | None = None,
        cv: Any = 5,
        scoring: str = "log_loss",
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
        self.lambda2s = lambda2s
        self.thetas = thetas
        self.lambda1s = lambda1s
        self.penalty = penalty
        self.beta_step = beta_step
        self.max_features = max_features
        self.rounds = rounds
        self.engine = engine
        self.tol = tol
        self.pool = pool
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
        check_search(self)
        for name in ("lambda2s", "thetas", "lambda1s"):
            check_values(name, getattr(self, name))
        for lambda1, theta, lambda2 in product(self.lambda1s, self.thetas, self.lambda2s):
            self._single(lambda1=lambda1, theta=theta, lambda2=lambda2).check_parameters()
        check_choice("penalty", self.penalty, CHOICES)

    def _kernel_choices(self) -> dict[str, Any]:
        return SIGMOIDS if self.kernels is None else kernel_choices(self.kernels)

    def _single(self, **point: Any) -> L0MKLClassifier:
        """The classifier without a search at one point of the grid."""
        return single_classifier(self, L0MKLClassifier, **point)

    def _at(self, cell: Cell) -> L0MKLClassifier:
        return self._single(**{**asdict(cell), "kernels": self._kernel_choices()[cell.kernels]}, verbose=0)

    # ------------------------------------------------------------------ fitting

    def _fit_rows(self, rows: Rows, context: FitContext) -> Fitted:
        found = search_cells(self, partial(self._try_cells, context.seed), rows, context.seed, _size)
        fitted = found.fitted(self._at(found.cell).set_params(verbose=self.verbose), rows, context)
        path = lambda2_path(found.cell, found.results)
        return replace(fitted, attributes={**fitted.attributes, "lambda2_path_": path})

    def _try_cells(self, seed: int, train: Rows, test: Rows) -> dict[Cell, HeldOut]:
        """What all cells do on one fold."""
        out: dict[Cell, HeldOut] = {}
        lambda2s, thetas, lambda1s = (tuple(dict.fromkeys(v)) for v in (self.lambda2s, self.thetas, self.lambda1s))
        thetas = thetas[:1] if self.penalty == "l1" else thetas
        weight = float(train.weight.sum())
        for name in self._kernel_choices():
            first = self._at(Cell(name, lambda1s[0], thetas[0], lambda2s[0]))
            prepared = first._space().prepare(train, first.kernels, seed)
            if self.engine == "auto":
                prepared = replace(prepared, stack=prepared.stack.held(MAX_FOLD_BYTES))
            tasks = first._tasks(prepared, rough=True)
            for lambda1 in lambda1s:
                begun = None
                for theta in thetas:
                    classifier = self._at(Cell(name, lambda1, theta, lambda2s[0]))
                    problems = [classifier._problem(task) for task in tasks]
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

    def _warn(self) -> None:
        super()._warn()
        warn_clipped(self)

    # ------------------------------------------------------------------ memory, use of the result

    def _memory(self, size: Size) -> MemoryEstimate:
        return self._single()._memory(size)

    def without_search(self) -> Any:
        """Return the unfitted classifier without a search, with what was chosen."""
        return self._single(**chosen_point(self, [field.name for field in fields(Cell)]))

    def summary(self) -> dict[str, Any]:
        check_is_fitted(self)
        return {
            "penalty lambda2": self.lambda2_,
            "ridge lambda1": ridge_in_words(self.lambda1_, self.ridge_),
            "tightness theta": self.theta_,
            **choice_in_words(self),
            **weights_in_words(self),
            **super().summary(),
        }

    def extended(self, values: Any) -> L0MKLClassifierCV:
        """Return the same classifier for further items, as `L0MKLClassifier.extended` does."""
        return extended(self, values)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Share of every feature of X (n_features,) in the weights, in per cent; a mean over classes."""
        return feature_shares(self)

    def _get_support_mask(self) -> np.ndarray:
        return support_mask(self)


def _size(cell: Cell, result: Result) -> Any:
    return result.n_features, -cell.lambda2


def lambda2_path(cell: Cell, results: Mapping[Cell, Result]) -> dict[str, np.ndarray]:
    """Features and scores along the values of lambda2, for the other settings of a cell."""
    path = [c for c in results if (c.kernels, c.lambda1, c.theta) == (cell.kernels, cell.lambda1, cell.theta)]
    path.sort(key=lambda c: -c.lambda2)
    out = {"lambda2": np.array([c.lambda2 for c in path])}
    out["n_features"] = np.array([results[c].n_features for c in path])
    for name in results[cell].scores:
        out[name] = np.array([as_named(name, results[c].scores[name]) for c in path])
    return out
