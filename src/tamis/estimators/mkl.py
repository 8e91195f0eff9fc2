"""Classic multiple-kernel classifiers: SimpleMKL, EasyMKL, and the mean of the kernels that every one should beat."""

from __future__ import annotations

import warnings
from typing import Any

from tamis.codec import stored
from tamis.estimators.checks import check_choice, check_integer, check_number
from tamis.estimators.model import PreparedRows
from tamis.estimators.stacked import Answer, CostClassifier, Task
from tamis.methods import average_mkl, easy_mkl, simple_mkl

# [Rakotomamonjy2008] and [Aiolli2015], as in docs/references.bib
RAKOTOMAMONJY2008 = (
    "Rakotomamonjy, Alain; Bach, Francis; Canu, Stephane; Grandvalet, Yves (2008). SimpleMKL. "
    "Journal of Machine Learning Research."
)
AIOLLI2015 = (
    "Aiolli, Fabio; Donini, Michele (2015). EasyMKL: a scalable multiple kernel learning algorithm. Neurocomputing."
)

QUICK = 1e-2  # gap that is enough on calibration folds


@stored
class SimpleMKLClassifier(CostClassifier):
    """Support vector machine on a sparse convex combination of kernels [Rakotomamonjy2008].

    Minimises the optimal value of the soft-margin machine with the kernel ``sum_l d_l K_l`` over weights d on the
    simplex; this is convex, and the duality gap says how far the result is from the optimum. Kernels are
    evaluated as they are needed; the matrices of those in use are held up to 256 MiB.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        None is `tamis.bandwidths()`, ten Gaussians on all features; see also `tamis.per_feature()`,
        `tamis.precomputed()`.
    scaling : {"standard", "rank", None}, default="standard"
    missing : {"absent", "median", None}, default="absent"
        "absent": in a kernel on several features a missing cell counts as the mean, one unit aside, and alone it
        contributes nothing; "median": filled with the training median (the most frequent category); None:
        refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto" takes text, boolean and categorical columns; name codes that come as numbers.
    class_weight : dict, "balanced" or None, default=None
    calibration : int or None, default=3
        Folds that fit the probabilities and place the intercept where they say one half; None: no
        `predict_proba`, the method's own intercept, and a faster fit.
    solver : {"newton", "reduced_gradient"}, default="newton"
        Direction of descent: by the curvature of the objective, which takes a fifth of the passes over the
        kernels, or the published reduced gradient. Both end at the same optimum.
    tol : float, default=1e-3
        Relative duality gap at which the fit stops.
    max_iter : int, default=200
        Most rounds.
    random_state : int, RandomState or None, default=None
        For the calibration folds. None is as good as 0.
    n_jobs : int or None, default=None
        Processes for calibration folds.
    verbose : int, default=0

    Attributes
    ----------
    duality_gap_ : relative duality gap of the fit (the largest over classes)
    n_passes_ : how many times all kernels were evaluated (the most over classes)
    kernel_weights_, dual_coef_, intercept_ : weights of the kernels (adding up to one), coefficients of the rows
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features (positions) and kernels
    instance_importance_, kernel_importance_ : signed percentages of the coefficients and weights
    instance_variation_, kernel_variation_ : shares in the variation of the decision
    instances_per_class_, history_, n_iter_, objective_, status_, classes_, n_features_in_
    feature_names_in_ : where X has column names

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tamis import SimpleMKLClassifier, bandwidths
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> clf = SimpleMKLClassifier(kernels=bandwidths([0.5, 2.0], on="each")).fit(X, y)
    >>> clf.kernel_weights_.shape[0], bool(clf.duality_gap_ <= 1e-3)
    (3, True)
    """

    citation = RAKOTOMAMONJY2008
    _form = "streaming"

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernels: Any = None,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        class_weight: Any = None,
        calibration: int | None = 3,
        solver: str = "newton",
        tol: float = 1e-3,
        max_iter: int = 200,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.C = C
        self.kernels = kernels
        self.scaling = scaling
        self.missing = missing
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.calibration = calibration
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("max_iter", self.max_iter, 1)
        check_choice("solver", self.solver, tuple(simple_mkl.SOLVERS))

    def _solve(self, task: Task) -> Answer:
        problem = simple_mkl.Problem(task.stack, task.y, task.cost)
        tol = max(self.tol, QUICK) if task.quick else self.tol
        solution = simple_mkl.solve(
            problem, solver=self.solver, tol=tol, max_iter=self.max_iter, callback=self._progress()
        )
        state = solution.state
        facts = simple_mkl.violation(problem, state), state.passes
        return Answer(state.dual_coef, state.weights, state.intercept, solution, facts)

    def chosen(self) -> dict[str, Any]:
        found = super().chosen()
        return {**found, "duality gap": self.duality_gap_} if hasattr(self, "duality_gap_") else found

    def _facts(self, facts: list[Any], prepared: PreparedRows) -> None:
        self.duality_gap_ = max(gap for gap, _ in facts)
        self.n_passes_ = max(passes for _, passes in facts)


@stored
class EasyMKLClassifier(CostClassifier):
    """Support vector machine on kernels weighted by how well they hold the classes apart [Aiolli2015].

    One quadratic program on the mean kernel gives a distribution over the rows of each class; a kernel's
    weight is the squared distance between the two means under that distribution. Then follows an ordinary
    machine on the weighted kernel.

    Parameters
    ----------
    lam : float, default=0.1
        In (0, 1]: 1 spreads the distributions evenly (distance of the class means), small values push them
        towards the margin.
    C : float, default=1.0
        Cost of a violated margin in the final machine; sample and class weights multiply it.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        None is `tamis.bandwidths()`, ten Gaussians on all features; see also `tamis.per_feature()`,
        `tamis.precomputed()`.
    scaling : {"standard", "rank", None}, default="standard"
    missing : {"absent", "median", None}, default="absent"
        "absent": in a kernel on several features a missing cell counts as the mean, one unit aside, and alone it
        contributes nothing; "median": filled with the training median (the most frequent category); None:
        refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto" takes text, boolean and categorical columns; name codes that come as numbers.
    class_weight : dict, "balanced" or None, default=None
    calibration : int or None, default=3
        Folds that fit the probabilities and place the intercept where they say one half; None: no
        `predict_proba`, the method's own intercept, and a faster fit.
    tol : float, default=1e-3
        Relative duality gap of both programs.
    random_state : int, RandomState or None, default=None
        For the calibration folds. None is as good as 0.
    n_jobs : int or None, default=None
        Processes for calibration folds.
    verbose : int, default=0

    Attributes
    ----------
    kernel_weights_, dual_coef_, intercept_ : weights of the kernels (adding up to one), coefficients of the rows
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features (positions) and kernels
    instance_importance_, kernel_importance_ : signed percentages of the coefficients and weights
    instance_variation_, kernel_variation_ : shares in the variation of the decision
    instances_per_class_, history_, n_iter_, objective_, status_, classes_, n_features_in_
    feature_names_in_ : where X has column names

    Notes
    -----
    The weights stand for sums over kernels of equal scale; the default kernels have ones on the diagonal. The
    mean of the kernels takes the place of their sum in the paper, so that `lam` means the same for any number of
    kernels. A sample weight of two acts as two equal rows, in the quadratic program as well.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import EasyMKLClassifier, per_feature
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> clf = EasyMKLClassifier(kernels=per_feature(), calibration=None).fit(X, y)
    >>> len(clf.kernel_weights_), bool(clf.score(X, y) > 0.95)
    (30, True)
    """

    citation = AIOLLI2015
    _form = "factored"

    def __init__(
        self,
        lam: float = 0.1,
        C: float = 1.0,
        *,
        kernels: Any = None,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        class_weight: Any = None,
        calibration: int | None = 3,
        tol: float = 1e-3,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.lam = lam
        self.C = C
        self.kernels = kernels
        self.scaling = scaling
        self.missing = missing
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.calibration = calibration
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("lam", self.lam, 0.0, strict=True)
        if self.lam > 1:
            raise ValueError(f"lam={self.lam!r} must be at most 1")

    def chosen(self) -> dict[str, Any]:
        return {"evenness lam": self.lam, **super().chosen()}

    def _solve(self, task: Task) -> Answer:
        problem = easy_mkl.Problem(task.stack, task.y, task.cost / self.C, self.lam, self.C)
        solution = easy_mkl.solve(problem, tol=self.tol, callback=self._progress())
        state = solution.state
        return Answer(state.dual_coef, state.weights, state.intercept, solution, state.alike)

    def _facts(self, facts: list[Any], prepared: PreparedRows) -> None:
        if any(facts):
            warnings.warn(
                "EasyMKLClassifier: no kernel tells the classes apart, so that all have the same weight; look at the "
                "widths of the kernels, or raise lam",
                UserWarning,
                stacklevel=6,
            )


@stored
class AverageMKLClassifier(CostClassifier):
    """Support vector machine on the unweighted mean of the kernels: the yardstick of multiple kernel learning.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        None is `tamis.bandwidths()`, ten Gaussians on all features; see also `tamis.per_feature()`,
        `tamis.precomputed()`.
    scaling : {"standard", "rank", None}, default="standard"
    missing : {"absent", "median", None}, default="absent"
        "absent": in a kernel on several features a missing cell counts as the mean, one unit aside, and alone it
        contributes nothing; "median": filled with the training median (the most frequent category); None:
        refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto" takes text, boolean and categorical columns; name codes that come as numbers.
    class_weight : dict, "balanced" or None, default=None
    calibration : int or None, default=3
        Folds that fit the probabilities and place the intercept where they say one half; None: no
        `predict_proba`, the method's own intercept, and a faster fit.
    tol : float, default=1e-3
        Relative duality gap at which the fit stops.
    random_state : int, RandomState or None, default=None
        For the calibration folds. None is as good as 0.
    n_jobs : int or None, default=None
        Processes for calibration folds.
    verbose : int, default=0

    Attributes
    ----------
    kernel_weights_, dual_coef_, intercept_ : weights of the kernels (adding up to one), coefficients of the rows
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features (positions) and kernels
    instance_importance_, kernel_importance_ : signed percentages of the coefficients and weights
    instance_variation_, kernel_variation_ : shares in the variation of the decision
    instances_per_class_, history_, n_iter_, objective_, status_, classes_, n_features_in_
    feature_names_in_ : where X has column names

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tamis import AverageMKLClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> bool(AverageMKLClassifier(calibration=None).fit(X, y).score(X, y) > 0.95)
    True
    """

    _form = "streaming"

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernels: Any = None,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        class_weight: Any = None,
        calibration: int | None = 3,
        tol: float = 1e-3,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.C = C
        self.kernels = kernels
        self.scaling = scaling
        self.missing = missing
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.calibration = calibration
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _solve(self, task: Task) -> Answer:
        problem = average_mkl.Problem(task.stack, task.y, task.cost)
        solution = average_mkl.solve(problem, tol=self.tol, callback=self._progress())
        state = solution.state
        return Answer(state.dual_coef, state.weights, state.intercept, solution)
