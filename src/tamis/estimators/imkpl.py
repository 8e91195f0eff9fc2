"""IMKPLClassifier: prototypes that people can look at, in a learned combination of kernels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.estimators.checks import check_choice, check_integer, check_number
from tamis.estimators.coded import CodingClassifier
from tamis.estimators.prototypes import Found, Ready, outputs_of
from tamis.kernels.unit import LabelledRows
from tamis.methods import imkpl
from tamis.methods.imkpl_weights import RULES, weight_rule
from tamis.methods.prototypes import CodedExpansion

# [Hosseini2019], as in docs/references.bib
HOSSEINI2019 = (
    "Hosseini, Babak; Hammer, Barbara (2019). Interpretable Multiple-Kernel Prototype Learning for Discriminative "
    "Representation and Feature Selection. CIKM."
)
STARTS = ("greedy", "random")
LARGEST = 1e6  # price
SPARSE = ("align", "graph")  # rules that know kappa and max_kernels


@stored
class IMKPLClassifier(CodingClassifier):
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
    n_prototypes : int or None, default=None
        Prototypes per class on average (all samples of a smaller class); None is `prototype_size`.
    n_neighbors : int or None, default=None
        Neighbours of each sample in its class, and in the others; None is `prototype_size`.
    code_size : int or None, default=None
        Most prototypes in the code of a new row; None is `prototype_size`. With 1 a row goes to one prototype.
    weight_step : {"align", "graph", "lp", "ball", "entropy", "uniform"}, default="align"
        How kernels are weighed. "align": by resemblance to what the prototypes call for, sparse. "graph": by
        neighbours of the same and of other classes alone, after DKMLD. "lp": the published linear program, which
        keeps one kernel. "ball" and "entropy": many kernels. "uniform": the mean kernel, the published ISKPL.
    kappa : float, default=0.1
        In [0, 1), for "align" and "graph": larger values keep fewer kernels. Near 0 kernels that hardly vary may get
        much of the weight.
    spread : float or None, default=None
        For "ball" the effective number of kernels (None: a quarter of them); for "entropy" the temperature, in
        standard deviations of the kernels' costs (None: 1).
    max_kernels : int or None, default=None
        For "align" and "graph", most kernels with a weight.
    start : {"greedy", "random"}, default="greedy"
        First prototypes: rows that rebuild the others best, as many for a class as it takes, or random rows, the same
        number for each class.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        Positive semi-definite ones; those without a unit diagonal are normalised. None is a Gaussian on each feature,
        as wide as its standard deviation.
    scaling : {"standard", "rank", None}, default="standard"
    missing : {"absent", "median", None}, default="absent"
        "absent": a missing cell contributes nothing; "median": filled with the training median (the most frequent
        category); None: refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto" takes text, boolean and categorical columns; name codes that come as numbers.
    class_weight : dict, "balanced" or None, default=None
        Multiplies what samples of a class count in the fit and what they say for it in a decision.
    calibration : int or None, default=3
        Folds that fit the probabilities; None: no `predict_proba`, and a faster fit.
    tol : float, default=1e-3
        Relative change of the objective at which the fit stops.
    max_iter : int, default=50
        Most rounds.
    random_state : int, RandomState or None, default=None
        For random starts and the calibration folds. None is as good as 0.
    n_jobs : int or None, default=None
        Processes for calibration folds.
    verbose : int, default=0

    Attributes
    ----------
    prototypes_ : list of `Prototype`: class, samples with weights, purity, training samples it represents
    prototype_labels_, prototypes_per_class_ : the class of each prototype, and how many each class has
    prototype_masses_ : (n_classes, n_prototypes), the weights of the samples of each class added up
    codes_ : sparse array (n_samples, n_prototypes), the codes of the training samples, which know their classes:
        `encode` does not, and represents a sample by prototypes of other classes more often; not in a model file
    code_violation_ : largest relative violation of the optimality conditions of these codes, rounding where all is well
    kernel_weights_, kernel_importance_ : weights of the kept kernels, which add up to one, and as percentages
    normalised_kernels_ : names of kernels that had no unit diagonal
    instances_, instance_labels_ : training samples in some prototype, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features (positions) and kernels
    instance_importance_ : what each sample says for an output through all prototypes, as signed percentages
    instance_variation_, kernel_variation_ : shares in the variation of the decision
    intercept_, instances_per_class_, history_, n_iter_, objective_, status_, classes_, n_features_in_
    feature_names_in_ : where X has column names

    Notes
    -----
    Constant features get no weight. The alternating minimisation finds a stationary point, not a global minimum, and
    the weight step may raise the objective.

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
    violation_means = "relative change of objective"

    def __init__(
        self,
        prototype_size: int = 5,
        lam: float = 0.2,
        mu: float = 0.2,
        tau: float = 0.2,
        *,
        n_prototypes: int | None = None,
        n_neighbors: int | None = None,
        code_size: int | None = None,
        weight_step: str = "align",
        kappa: float = 0.1,
        spread: float | None = None,
        max_kernels: int | None = None,
        start: str = "greedy",
        kernels: Any = None,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        class_weight: Any = None,
        calibration: int | None = 3,
        tol: float = 1e-3,
        max_iter: int = 50,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.prototype_size = prototype_size
        self.lam = lam
        self.mu = mu
        self.tau = tau
        self.n_prototypes = n_prototypes
        self.n_neighbors = n_neighbors
        self.code_size = code_size
        self.weight_step = weight_step
        self.kappa = kappa
        self.spread = spread
        self.max_kernels = max_kernels
        self.start = start
        self.kernels = kernels
        self.scaling = scaling
        self.missing = missing
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.calibration = calibration
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("lam", "mu", "tau", "kappa"):
            check_number(name, getattr(self, name), 0.0)
            if getattr(self, name) > LARGEST:
                raise ValueError(f"{name}={getattr(self, name)!r} must be at most {LARGEST:g}")
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
        check_number("tol", self.tol, 0.0, strict=True)
        check_integer("max_iter", self.max_iter, 1)

    def _problem(self, rows: LabelledRows) -> imkpl.Problem:
        rule = weight_rule(self.weight_step, kappa=self.kappa, spread=self.spread, max_kernels=self.max_kernels)
        neighbors = self.n_neighbors or self.prototype_size
        return imkpl.Problem(rows, self.prototype_size, self.lam, self.mu, self.tau, neighbors, rule)

    def _tell(self, ready: Ready) -> None:
        super()._tell(ready)
        asked = self.n_prototypes or self.prototype_size
        fewest = int(np.bincount(ready.rows.codes).min())
        if fewest < asked:
            warnings.warn(
                f"the smallest class has {fewest} distinct samples, fewer than the {asked} prototypes asked for: there "
                "will be fewer; set n_prototypes, or a smaller prototype_size",
                UserWarning,
                stacklevel=7,
            )

    def _find(self, ready: Ready) -> Found:
        problem = self._problem(ready.rows)
        begun = imkpl.start(problem, self.n_prototypes or self.prototype_size, self.start, self._seed)
        solution = imkpl.solve(problem, begun, tol=self.tol, max_iter=self.max_iter, callback=self._progress())
        state = solution.state
        facts = {"code_violation_": imkpl.code_violation(problem, state)}
        return Found(state.U, state.weights, state.K, solution, state.G, facts=facts)

    def _expansion(
        self, parts: dict[str, Any], masses: np.ndarray, factors: np.ndarray, labels: np.ndarray
    ) -> CodedExpansion:
        voices = outputs_of(np.eye(len(factors))[:, labels] * factors[:, None])
        size = self.code_size or self.prototype_size
        votes, intercept = voices @ parts["prototypes"], np.zeros(len(voices))
        return CodedExpansion(**parts, votes=votes, voices=voices, intercept=intercept, code_size=size)

    def chosen(self) -> dict[str, Any]:
        own = {
            "prototype size T0": self.prototype_size,
            "lam, mu, tau": f"{self.lam:g}, {self.mu:g}, {self.tau:g}",
            "weight step": self.weight_step + (f" (kappa {self.kappa:g})" if self.weight_step in SPARSE else ""),
        }
        return own | super().chosen()
