"""Classic multiple-kernel classifiers: SimpleMKL, EasyMKL, and the mean of the kernels that every one should beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.base.citations import AIOLLI2015, RAKOTOMAMONJY2008
from tamis.base.memory import Size
from tamis.base.model import PreparedRows
from tamis.base.stack_classifier import Answer, StackClassifier, Task
from tamis.codec import stored
from tamis.errors import warn
from tamis.methods.baselines import average_mkl, easy_mkl, simple_mkl
from tamis.table.checks import check_choice, check_number

QUICK = 1e-2  # gap that is enough on calibration folds


@stored
class SimpleMKLClassifier(StackClassifier):
    """Support vector machine on a sparse convex combination of kernels [Rakotomamonjy2008].

    Minimises the optimal value of the soft-margin machine with the kernel ``sum_l d_l K_l`` over weights d on the
    simplex; this is convex, and the duality gap says how far the result is from the optimum. Kernels are
    evaluated as they are needed; the matrices of those in use are held up to 256 MiB.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    solver : {"newton", "reduced_gradient"}, default="newton"
        Direction of descent: by the curvature of the objective, which takes a fifth of the passes over the
        kernels, or the published reduced gradient. Both end at the same optimum. Where either makes no progress,
        because kernels are singular, a smoothed objective takes over.
    max_iter : int, default=200
        Most rounds.
    landmarks : int or None, default=None
        Number of training rows, drawn from every class, through which kernels are approximated (Nystrom). Time and
        memory are then linear in the rows, the model is a sum over landmarks, and `landmark_error_` reports what the
        kernels lost. None, or at least as many as there are distinct rows: exact kernels.
    device : str or None, default=None
        "cuda" or "cuda:1" holds all kernel values on that device and combines, multiplies and factors their matrices
        there, in float64; "cpu" does so by torch; both need ``pip install 'tamis[gpu]'``. None is numpy. The model is
        the same up to rounding, and needs neither torch nor the device.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        None is `tamis.bandwidths()`, ten Gaussians on all features; see also `tamis.per_feature()`,
        `tamis.precomputed()`.
    tol : float, default=0.001
        Relative duality gap at which the fit stops.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities and move the intercept to probability one
        half. None: no `predict_proba`, the method's own intercept, and a faster fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" gives all classes the same total weight.
    scaling : {"standard", "rank", None}, default="standard"
        "standard": numbers are scaled to mean zero and variance one; "rank": replaced by ranks, which suits columns
        with long tails; None: used as they are.
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
    duality_gap_ : relative duality gap of the fit (the largest over classes)
    n_passes_ : how many times all kernels were evaluated (the most over classes)
    landmark_error_ : `LandmarkError` of the kept kernels, in their order, where landmarks were used: the shares `mean`
        and `largest` of the variance k(x, x) of training rows that are lost, and the landmarks `rank` that each
        kernel stands on
    dual_coef_ : coefficients of the rows; of landmarks, their sums over kernels
    kernel_weights_ : weights of the kernels, adding up to one
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
    intercept_ : of each output
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
    _squares = 5.5
    _copies = 3.5

    def __init__(
        self,
        C: float = 1.0,
        *,
        solver: str = "newton",
        max_iter: int = 200,
        landmarks: int | None = None,
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
        self.C = C
        self.solver = solver
        self.max_iter = max_iter
        self.landmarks = landmarks
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
        check_choice("solver", self.solver, tuple(simple_mkl.SOLVERS))

    def _kept_bytes(self, size: Size) -> float:
        return min(size.values, simple_mkl.HELD)

    def _solve(self, task: Task) -> Answer:
        problem = simple_mkl.Problem(task.stack, task.y, task.cost)
        tol = max(self.tol, QUICK) if task.rough else self.tol
        solution = simple_mkl.solve(
            problem, solver=self.solver, tol=tol, max_iter=self.max_iter, callback=self._log_callback()
        )
        state = solution.state
        details = simple_mkl.violation(problem, state), state.passes
        return Answer(state.dual_coef, state.weights, state.intercept, solution, details)

    def summary(self) -> dict[str, Any]:
        found = super().summary()
        return {**found, "duality gap": self.duality_gap_} if hasattr(self, "duality_gap_") else found

    def _report(self, answers: Sequence[Answer], prepared: PreparedRows) -> dict[str, Any]:
        gaps, passes = zip(*(answer.details for answer in answers), strict=True)
        return {"duality_gap_": max(gaps), "n_passes_": max(passes)}


@stored
class EasyMKLClassifier(StackClassifier):
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
    landmarks : int or None, default=None
        Number of training rows, drawn from every class, through which kernels are approximated (Nystrom). Time and
        memory are then linear in the rows, the model is a sum over landmarks, and `landmark_error_` reports what the
        kernels lost. None, or at least as many as there are distinct rows: exact kernels.
    device : str or None, default=None
        "cuda" or "cuda:1" holds all kernel values on that device and combines, multiplies and factors their matrices
        there, in float64; "cpu" does so by torch; both need ``pip install 'tamis[gpu]'``. None is numpy. The model is
        the same up to rounding, and needs neither torch nor the device.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        None is `tamis.bandwidths()`, ten Gaussians on all features; see also `tamis.per_feature()`,
        `tamis.precomputed()`.
    tol : float, default=0.001
        Relative duality gap of both programs.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities and move the intercept to probability one
        half. None: no `predict_proba`, the method's own intercept, and a faster fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" gives all classes the same total weight.
    scaling : {"standard", "rank", None}, default="standard"
        "standard": numbers are scaled to mean zero and variance one; "rank": replaced by ranks, which suits columns
        with long tails; None: used as they are.
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
    landmark_error_ : `LandmarkError` of the kept kernels, in their order, where landmarks were used: the shares `mean`
        and `largest` of the variance k(x, x) of training rows that are lost, and the landmarks `rank` that each
        kernel stands on
    dual_coef_ : coefficients of the rows; of landmarks, their sums over kernels
    kernel_weights_ : weights of the kernels, adding up to one
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
    intercept_ : of each output
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
    The weights stand for sums over kernels of equal scale; the default kernels have ones on the diagonal. The
    mean of the kernels takes the place of their sum in the paper, so that `lam` means the same for any number of
    kernels. A sample weight of two gives the same fit as two equal rows, in the quadratic program as well.

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
    _squares = 2.4
    _copies = 7.0

    def __init__(
        self,
        lam: float = 0.1,
        C: float = 1.0,
        *,
        landmarks: int | None = None,
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
        self.lam = lam
        self.C = C
        self.landmarks = landmarks
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
        check_number("lam", self.lam, 0.0, 1.0, strict=True)

    def summary(self) -> dict[str, Any]:
        return {"evenness lam": self.lam, **super().summary()}

    def _solve(self, task: Task) -> Answer:
        problem = easy_mkl.Problem(task.stack, task.y, task.cost / self.C, self.lam, self.C)
        solution = easy_mkl.solve(problem, tol=self.tol, callback=self._log_callback())
        state = solution.state
        return Answer(state.dual_coef, state.weights, state.intercept, solution, state.alike)

    def _report(self, answers: Sequence[Answer], prepared: PreparedRows) -> dict[str, Any]:
        if any(answer.details for answer in answers):
            warn(
                "EasyMKLClassifier: no kernel separates the classes, so that all have the same weight; change the "
                "widths of the kernels, or raise lam",
            )
        return {}


@stored
class AverageMKLClassifier(StackClassifier):
    """Support vector machine on the unweighted mean of the kernels: the yardstick of multiple kernel learning.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    landmarks : int or None, default=None
        Number of training rows, drawn from every class, through which kernels are approximated (Nystrom). Time and
        memory are then linear in the rows, the model is a sum over landmarks, and `landmark_error_` reports what the
        kernels lost. None, or at least as many as there are distinct rows: exact kernels.
    device : str or None, default=None
        "cuda" or "cuda:1" holds all kernel values on that device and combines, multiplies and factors their matrices
        there, in float64; "cpu" does so by torch; both need ``pip install 'tamis[gpu]'``. None is numpy. The model is
        the same up to rounding, and needs neither torch nor the device.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        None is `tamis.bandwidths()`, ten Gaussians on all features; see also `tamis.per_feature()`,
        `tamis.precomputed()`.
    tol : float, default=0.001
        Relative duality gap at which the fit stops.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities and move the intercept to probability one
        half. None: no `predict_proba`, the method's own intercept, and a faster fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" gives all classes the same total weight.
    scaling : {"standard", "rank", None}, default="standard"
        "standard": numbers are scaled to mean zero and variance one; "rank": replaced by ranks, which suits columns
        with long tails; None: used as they are.
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
    landmark_error_ : `LandmarkError` of the kept kernels, in their order, where landmarks were used: the shares `mean`
        and `largest` of the variance k(x, x) of training rows that are lost, and the landmarks `rank` that each
        kernel stands on
    dual_coef_ : coefficients of the rows; of landmarks, their sums over kernels
    kernel_weights_ : weights of the kernels, adding up to one
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
    intercept_ : of each output
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

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tamis import AverageMKLClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> bool(AverageMKLClassifier(calibration=None).fit(X, y).score(X, y) > 0.95)
    True
    """

    _form = "streaming"
    _squares = 2.1

    def __init__(
        self,
        C: float = 1.0,
        *,
        landmarks: int | None = None,
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
        self.C = C
        self.landmarks = landmarks
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

    def _solve(self, task: Task) -> Answer:
        problem = average_mkl.Problem(task.stack, task.y, task.cost)
        solution = average_mkl.solve(problem, tol=self.tol, callback=self._log_callback())
        state = solution.state
        return Answer(state.dual_coef, state.weights, state.intercept, solution)
