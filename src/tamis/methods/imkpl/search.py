"""IMKPLClassifierCV: the settings of IMKPL chosen by cross-validation, on kernels that all settings share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from tamis.base.model import FitContext, Fitted
from tamis.base.prototypes import Found, PrototypeClassifier
from tamis.base.search import (
    HeldOut,
    Result,
    check_search,
    choice_in_words,
    chosen_point,
    kernel_choices,
    search_cells,
    single_classifier,
)
from tamis.codec import stored
from tamis.errors import check_values
from tamis.methods.imkpl.estimator import (
    HOSSEINI2019,
    IMKPLClassifier,
    code_measures,
    represented_rows,
    training_codes,
    warn_few_represented,
)
from tamis.table.rows import Rows, by_class


@dataclass(frozen=True)
class Cell:
    """One point of the grid; kernels by name."""

    kernels: str
    prototype_size: int
    lam: float
    mu: float
    tau: float
    kappa: float
    code_size: int | None


GRIDS = {
    "prototype_sizes": "prototype_size",
    "lams": "lam",
    "mus": "mu",
    "taus": "tau",
    "kappas": "kappa",
    "code_sizes": "code_size",
}


@stored
class IMKPLClassifierCV(PrototypeClassifier):
    """IMKPL with its settings chosen by cross-validation [Hosseini2019].

    In each fold the kernels, their mean and their centred inner products are computed once for all settings; series are
    aligned once for all folds. Scores come from held-out rows of the training data only; the score of the winner is
    the best of many and therefore optimistic: do not report it as performance.

    Parameters
    ----------
    prototype_sizes : sequence of int, default=(3, 5, 8)
    kappas : sequence of float, default=(0.1, 0.3)
    taus, lams, mus : sequence of float, default=(0.2,)
    code_sizes : sequence of int or None, default=(None, 1)
        Prototypes in the code of a new row; None is the prototype size. They cost next to nothing to try.
    n_prototypes : int or None, default=None
        Prototypes per class on average (all samples of a smaller class); None is the prototype size.
    n_neighbors : int or None, default=None
        Neighbours of each sample in its class, and in the others; None is the prototype size.
    weight_step : {"align", "graph", "lp", "ball", "entropy", "uniform"}, default="align"
        How kernels are weighed. "align": by resemblance to what the prototypes call for, sparse. "graph": by
        neighbours of the same and of other classes alone, after DKMLD. "lp": the published linear program, which
        keeps one kernel. "ball" and "entropy": many kernels. "uniform": the mean kernel, the published ISKPL.
    spread : float or None, default=None
        For "ball" the effective number of kernels (None: a quarter of them); for "entropy" the temperature, in
        standard deviations of the kernels' costs (None: 1).
    max_kernels : int or None, default=None
        For "align" and "graph", most kernels with a weight.
    start : {"greedy", "random"}, default="greedy"
        First prototypes: rows that rebuild the others best, as many for a class as it takes, or random rows, the same
        number for each class.
    tol : float, default=0.001
        Relative change of the objective at which the fit stops.
    max_iter : int, default=50
        Most rounds.
    device : str or None, default=None
        "cuda" or "cuda:1" holds kernel matrices on that device and works on them there, in float64; "cpu" does so by
        torch (both need ``pip install 'tamis[gpu]'``); None is numpy. The model is the same up to rounding.
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
    kernels : as in `IMKPLClassifier`, or for tables a dict {name: choice} to choose among, default=None
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weights of the samples of a class in the fit, and their votes in a decision.
    scaling : {"standard", "rank", None}, default="standard"
        "standard": numbers of mean zero and variance one; "rank": ranks, for long tails; None: numbers as they are.
    missing : {"absent", "median", None}, default="absent"
        "absent": a missing cell contributes nothing; in a kernel on several features it is replaced by the mean (by
        zero with ``scaling=None``), and an indicator adds 1 to the squared distance. "median": it is filled with the
        training median, or the most frequent category. None: missing cells are refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto": columns of text, booleans or a categorical type are categories. Columns of numeric codes must be named.
    random_state : int, RandomState or None, default=None
        Seed of random starts and of the folds. None is the same as 0.
    n_jobs : int or None, default=None
        Number of processes for the folds; None is one.
    memory_limit : int, float, str or None, default=None
        Largest memory of a fit in bytes, as a number or as text such as "2GB"; None: what is available. A fit that
        would need more (see `memory_estimate`) is refused before it starts.
    verbose : int, default=0
        Whether to log every round of the fit; 0 is silent.

    Attributes
    ----------
    prototype_size_, lam_, mu_, tau_, kappa_, code_size_ : what was chosen
    prototypes_ : list of `Prototype`: class, samples with weights, purity, training samples it represents
    prototype_masses_ : (n_classes, n_prototypes), the weights of the samples of each class added up
    codes_ : sparse array (n_samples, n_prototypes), the codes of the training samples, which know their classes:
        `encode` does not, and represents a sample by prototypes of other classes more often; not in a model file
    code_violation_ : largest relative violation of the optimality conditions of these codes, rounding where all is well
    instances_, instance_labels_ : training samples in some prototype, as positions and as index labels
    instance_importance_ : the votes of each sample for an output through all prototypes, as signed percentages
    prototype_labels_ : the class of each prototype
    prototypes_per_class_ : how many each class has
    normalised_kernels_ : names of kernels that had no unit diagonal
    kernel_weights_ : weights of the kept kernels, which add up to one
    kernel_importance_ : the same as percentages
    pool_error_ : where a pool was drawn, the share of other training rows (up to 20 000 of them, by their weights) that
        are predicted wrong
    cv_results_ : dict of arrays, one entry per cell tried, with the mean number of features over folds
    n_splits_ : folds that were used
    scoring_ : the score that decided
    kernels_choice_ : the name of the kernels that were chosen; "kernels" where there was no choice
    classes_, instances_per_class_ : the class labels, sorted (of two the second is positive); instances of each output
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
    >>> from sklearn.datasets import load_iris
    >>> from tamis import IMKPLClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = IMKPLClassifierCV(prototype_sizes=(2, 3), kappas=(0.1,), cv=2).fit(X, y)
    >>> clf.prototype_size_ in (2, 3), bool(clf.score(X, y) > 0.9)
    (True, True)
    """

    citation = HOSSEINI2019
    _squares = IMKPLClassifier._squares

    def __init__(
        self,
        prototype_sizes: Sequence[int] = (3, 5, 8),
        kappas: Sequence[float] = (0.1, 0.3),
        taus: Sequence[float] = (0.2,),
        lams: Sequence[float] = (0.2,),
        mus: Sequence[float] = (0.2,),
        *,
        code_sizes: Sequence[int | None] = (None, 1),
        n_prototypes: int | None = None,
        n_neighbors: int | None = None,
        weight_step: str = "align",
        spread: float | None = None,
        max_kernels: int | None = None,
        start: str = "greedy",
        tol: float = 0.001,
        max_iter: int = 50,
        device: str | None = None,
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
        self.prototype_sizes = prototype_sizes
        self.kappas = kappas
        self.taus = taus
        self.lams = lams
        self.mus = mus
        self.code_sizes = code_sizes
        self.n_prototypes = n_prototypes
        self.n_neighbors = n_neighbors
        self.weight_step = weight_step
        self.spread = spread
        self.max_kernels = max_kernels
        self.start = start
        self.tol = tol
        self.max_iter = max_iter
        self.device = device
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
        for name in GRIDS:
            check_values(name, getattr(self, name))
        for point in self._points:
            self._single(**point).check_parameters()

    def _kernel_choices(self) -> dict[str, Any]:
        return kernel_choices(self.kernels)

    def _single(self, **point: Any) -> IMKPLClassifier:
        """The classifier without a search at one point of the grid."""
        return single_classifier(self, IMKPLClassifier, **point)

    def _at(self, cell: Cell) -> IMKPLClassifier:
        return self._single(**{**asdict(cell), "kernels": None}, verbose=0)

    @property
    def _points(self) -> list[dict[str, Any]]:
        grids = [tuple(dict.fromkeys(getattr(self, name))) for name in GRIDS]
        return [dict(zip(GRIDS.values(), point, strict=True)) for point in product(*grids)]

    def _fit_rows(self, rows: Rows, context: FitContext) -> Fitted:
        found = search_cells(self, partial(self._try_cells, context), rows, context.seed, _size)
        chosen = self._at(found.cell).set_params(verbose=self.verbose)
        return self._complete(found.fitted(chosen, rows, context), rows, context)

    def _try_cells(self, context: FitContext, train: Rows, test: Rows) -> dict[Cell, HeldOut]:
        """What all cells do on one fold."""
        factors = by_class(train.weight / train.mass, train.codes, len(train.classes))
        total = float(train.weight.sum())
        out: dict[Cell, HeldOut] = {}
        for name, kernels in context.kernels.items():
            cells = [Cell(name, **point) for point in self._points]
            ready = self._at(cells[0])._ready(train, kernels, context.seed)
            found: dict[Cell, Found] = {}
            for cell in cells:
                classifier, same = self._at(cell), replace(cell, code_size=None)  # of new rows only
                if same not in found:
                    found[same] = classifier._find(ready)
                model, _ = classifier._model(ready, found[same], factors)
                out[cell] = HeldOut.of_model(model, test, found[same].solution.objective / total)
        return out

    def without_search(self) -> Any:
        """Return the unfitted classifier without a search, with what was chosen."""
        return self._single(**chosen_point(self, [field.name for field in fields(Cell)]))

    @property
    def codes_(self) -> csr_array:
        """Codes (n_samples, n_prototypes) of the training samples; zero for samples of weight zero."""
        return training_codes(self)

    def encode(self, X: Any) -> csr_array:
        """Return sparse codes (n_samples, n_prototypes): how much of each prototype is in each row."""
        similarity = self._similarity(X)
        return csr_array(self.model_.expansion.codes(similarity))

    def represented(self, X: Any) -> list[np.ndarray]:
        """Return for each prototype the rows of X that it represents by their codes, the largest first."""
        return represented_rows(self.encode(X))

    def prototype_measures(self, X: Any, y: Any) -> dict[str, float]:
        """Measure the prototypes, in per cent; see `IMKPLClassifier.prototype_measures`."""
        return code_measures(self, X, y) | self._measures()

    def _warn(self) -> None:
        super()._warn()
        warn_few_represented(self)

    def summary(self) -> dict[str, Any]:
        check_is_fitted(self)
        own = {
            "prototype size T0": self.prototype_size_,
            "lam, mu, tau": f"{self.lam_:g}, {self.mu_:g}, {self.tau_:g}",
            "kappa": self.kappa_,
            "prototypes in a code": self.code_size_ or self.prototype_size_,
        }
        return own | choice_in_words(self) | super().summary()


def _size(cell: Cell, result: Result) -> Any:
    return result.n_features, cell.prototype_size, -cell.kappa, cell.code_size or cell.prototype_size
