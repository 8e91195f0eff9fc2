"""IMKPLClassifier: prototypes that people can look at, in a learned combination of kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from tamis.arrays import to_numpy
from tamis.base.model import decide
from tamis.base.prototype_expansion import CodedExpansion
from tamis.base.prototypes import Found, PrototypeClassifier, Ready, outputs_of
from tamis.codec import stored
from tamis.errors import check_choice, check_integer, check_number, warn
from tamis.explain import measures
from tamis.kernels.spectrum import LabelledRows
from tamis.methods.imkpl import solver as imkpl
from tamis.methods.imkpl.weights import RULES, weight_rule

HOSSEINI2019 = (
    "Hosseini, Babak; Hammer, Barbara (2019). Interpretable Multiple-Kernel Prototype Learning for Discriminative "
    "Representation and Feature Selection. CIKM."
)

STARTS = ("greedy", "random")
MAX_PRICE = 1e6  # price
SPARSE = ("align", "graph")  # rules that know kappa and max_kernels
MIN_REPRESENTED = 0.5  # share of training samples that prototypes should represent


@stored
class IMKPLClassifier(PrototypeClassifier):
    """Prototypes of few training samples of one class, in a learned sparse combination of kernels [Hosseini2019].

    Every sample is rebuilt as a sparse non-negative mixture of prototypes, and every prototype is a sparse
    non-negative mixture of samples. A penalty keeps prototypes to one class and to tight groups; the kernels are
    weighed so that samples resemble their neighbours of the same class and not the others. A new row belongs to the
    class whose samples have the largest share in its code.

    X may also be multivariate time series: an array (sample, channel, step) with NaN after the end of a series, or a
    list of arrays (channel, step) of different lengths. Each channel then has a global alignment kernel
    (`tamis.alignment`, which can also cache them); a channel of NaN alone is absent.

    Parameters
    ----------
    prototype_size : int, default=5
        The paper's T_0: most samples in a prototype and most prototypes in a code.
    lam : float, default=0.2
        Price of rebuilding a sample from other classes or from afar.
    mu : float, default=0.2
        Weight of the separation of neighbours of different classes in the choice of kernels.
    tau : float, default=0.2
        Price of prototypes of many or distant samples: larger values give single cases.
    code_size : int or None, default=None
        Most prototypes in the code of a new row; None is `prototype_size`. With 1 a row goes to one prototype.
    kappa : float, default=0.1
        In [0, 1), for "align" and "graph": larger values keep fewer kernels. Near 0 kernels that hardly vary may get
        much of the weight.
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
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        Positive semi-definite ones; those without a unit diagonal are normalised. None is a Gaussian on each feature,
        as wide as its standard deviation.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities. None: no `predict_proba`, and a faster fit.
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
    classes_, instances_per_class_ : the class labels, sorted (of two the second is positive); instances of each output
    features_, kernels_, kernel_names_ : kept features, as positions in X; kept kernels and their names
    intercept_ : of each output
    instance_variation_, kernel_variation_, feature_variation_ : shares in the variation of the decision over training
        rows, in per cent; of features where every kernel stands on one
    pairs_ : pairs of features that have a `surface`, by name, those that matter most first
    history_ : objective, violation and seconds of every round; a list where several problems were solved
    n_iter_, objective_, status_ : most rounds of all problems; final objective, summed over them; how the fit ended
    n_features_in_, feature_names_in_ : columns of X, and their names where it has them

    Notes
    -----
    Constant features get no weight. The alternating minimisation finds a stationary point, not a global minimum, and
    the weight step may raise the objective. Samples are compared with all others, in matrices between all rows: of tens
    of thousands give a sample.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tamis import IMKPLClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> clf = IMKPLClassifier(calibration=None).fit(X, y)
    >>> len(clf.prototypes_), bool(clf.score(X, y) > 0.95)
    (15, True)
    >>> explanation = clf.explain(X.head(1))
    >>> [share.label for share in explanation.prototypes_of(0)][:1]
    [0]
    """

    citation = HOSSEINI2019
    _squares = 11.5
    violation_means = "relative change of objective"

    def __init__(
        self,
        prototype_size: int = 5,
        lam: float = 0.2,
        mu: float = 0.2,
        tau: float = 0.2,
        *,
        code_size: int | None = None,
        kappa: float = 0.1,
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
        kernels: Any = None,
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
        self.prototype_size = prototype_size
        self.lam = lam
        self.mu = mu
        self.tau = tau
        self.code_size = code_size
        self.kappa = kappa
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
        self.kernels = kernels
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
        for name in ("lam", "mu", "tau", "kappa"):
            check_number(name, getattr(self, name), 0.0, MAX_PRICE)
        if self.kappa >= 1:
            raise ValueError(f"kappa={self.kappa!r} must be below 1, where no kernel would be left")
        check_integer("prototype_size", self.prototype_size, 1)
        for name in ("n_prototypes", "n_neighbors", "code_size", "max_kernels"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1)
        check_choice("weight_step", self.weight_step, RULES)
        check_choice("start", self.start, STARTS)
        if self.max_kernels is not None and self.weight_step not in SPARSE:
            raise ValueError(
                f"max_kernels={self.max_kernels!r} has no meaning for weight_step={self.weight_step!r}: use 'align' or "
                "'graph', or leave it out"
            )
        if self.spread is not None:
            check_number("spread", self.spread, 1.0 if self.weight_step == "ball" else 1e-6)

    def _problem(self, rows: LabelledRows) -> imkpl.Problem:
        rule = weight_rule(self.weight_step, kappa=self.kappa, spread=self.spread, max_kernels=self.max_kernels)
        neighbors = self.n_neighbors or self.prototype_size
        return imkpl.Problem(rows, self.prototype_size, self.lam, self.mu, self.tau, neighbors, rule)

    def _warn_kernels(self, ready: Ready) -> None:
        super()._warn_kernels(ready)
        wanted = self.n_prototypes or self.prototype_size
        fewest = int(np.bincount(ready.rows.codes).min())
        if fewest < wanted:
            warn(
                f"the smallest class has {fewest} distinct samples, fewer than the {wanted} prototypes requested: "
                "there will be fewer; set n_prototypes, or a smaller prototype_size"
            )

    def _find(self, ready: Ready) -> Found:
        problem = self._problem(ready.rows)
        begun = imkpl.start(problem, self.n_prototypes or self.prototype_size, self.start, ready.seed)
        solution = imkpl.solve(problem, begun, tol=self.tol, max_iter=self.max_iter, callback=self._log_callback())
        state = solution.state
        attributes = {"code_violation_": imkpl.code_violation(problem, state)}
        return Found(state.U, state.weights, to_numpy(state.K), solution, state.G, attributes=attributes)

    def _expansion(
        self, parts: dict[str, Any], masses: np.ndarray, factors: np.ndarray, labels: np.ndarray
    ) -> CodedExpansion:
        voices = outputs_of(np.eye(len(factors))[:, labels] * factors[:, None])
        size = self.code_size or self.prototype_size
        votes, intercept = voices @ parts["prototypes"], np.zeros(len(voices))
        return CodedExpansion(**parts, votes=votes, voices=voices, intercept=intercept, code_size=size)

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
        """Measure the prototypes [Hosseini2019, Sect. 5.2], in per cent, on rows that the fit should not have seen.

        Returns
        -------
        dict with `accuracy`, `interpretability` (IP), `discrimination` (DR), `accuracy_at_one` and
        `discrimination_at_one` (codes of one prototype), `empty` (prototypes that no row of X uses; they do not count
        in DR), `n_kernels` and `effective_kernels` (``1 / sum weights^2``)
        """
        return code_measures(self, X, y) | self._measures()

    def _warn(self) -> None:
        super()._warn()
        warn_few_represented(self)

    def summary(self) -> dict[str, Any]:
        own = {
            "prototype size T0": self.prototype_size,
            "lam, mu, tau": f"{self.lam:g}, {self.mu:g}, {self.tau:g}",
            "weight step": self.weight_step + (f" (kappa {self.kappa:g})" if self.weight_step in SPARSE else ""),
        }
        return own | super().summary()


def training_codes(classifier: Any) -> csr_array:
    """Codes (n_samples, n_prototypes) of the training samples."""
    check_is_fitted(classifier)
    if getattr(classifier, "_codes", None) is None:
        raise AttributeError("the codes of training samples are not kept in files: use encode(X)")
    codes: csr_array = classifier._codes
    return codes


def represented_rows(codes: csr_array) -> list[np.ndarray]:
    """For each prototype the rows that it represents by their codes (rows, c), the largest first."""
    return [np.argsort(-column, kind="stable")[: np.count_nonzero(column)] for column in codes.toarray().T]


def warn_few_represented(classifier: Any) -> None:
    """Warn where few training samples are represented."""
    share = float(np.mean(np.diff(training_codes(classifier).indptr) > 0))
    if share < MIN_REPRESENTED:
        warn(
            f"{type(classifier).__name__}: prototypes represent {100 * share:.0f}% of the training samples only; under "
            "these kernels most resemble no other: use wider kernels, and look at missing cells and outliers"
        )


def code_measures(classifier: Any, X: Any, y: Any) -> dict[str, float]:
    """The measures of `IMKPLClassifier.prototype_measures` that need rows."""
    check_is_fitted(classifier)
    similarity, expansion = classifier._similarity(X), classifier.model_.expansion
    truth = np.asarray(y)
    out: dict[str, float] = {}
    for name, size in (("", expansion.code_size), ("_at_one", 1)):
        codes = replace(expansion, code_size=size).codes(similarity)
        predicted = classifier.classes_[decide(codes @ expansion.votes.T + classifier.intercept_)]
        out[f"accuracy{name}"] = 100.0 * float(np.mean(predicted == truth))
        out[f"discrimination{name}"], empty = measures.discriminative_representation(
            codes, classifier.prototype_labels_, truth
        )
        if not name:
            out["empty"] = empty
    return out
