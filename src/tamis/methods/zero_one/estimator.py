"""ZeroOneMKLClassifier: the support vector machine with the 0/1 loss on a learned mean of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.base.kernel_space import PreparedRows
from tamis.base.memory import MemoryEstimate, Size
from tamis.base.stack_classifier import Answer, StackClassifier, Task
from tamis.codec import stored
from tamis.errors import check_choice, check_number
from tamis.methods.zero_one import solver as method
from tamis.methods.zero_one.certificate import Certificate
from tamis.methods.zero_one.steps import D_STEPS, Problem, leaves_start

ZHU2023 = "Zhu, Bin; Shi, Yijie (2023). MKL-L0/1-SVM."

MAX_FOLD_ITER = 100  # most rounds on calibration folds
RHO2 = {"simplex_qp": 16.0, "paper": 256.0}
RHO3 = 256.0


@stored
class ZeroOneMKLClassifier(StackClassifier):
    """Support vector machine that counts rows within the margin, on a learned mean of kernels [Zhu2023].

    Minimises ``1/2 w'K(d)w + C * (number of rows with margin below one)`` over coefficients and over weights d
    of kernels on the simplex. The decision is ``f(x) = sum_l d_l sum_i w_i k_l(x_i, x) + intercept``. The loss is
    not convex: what is found is a stationary point, and `certificate_` says how strong a one.

    Parameters
    ----------
    C : float, default=16.0
        Cost of a row whose margin is below one; sample and class weights multiply it.
    rho1 : float, default=1.0
        Penalty of ADMM. ``C / rho1`` must be at least 2 (weights of rows may make up for less): below that ADMM
        never leaves its starting point, which gives every row the class of larger weight.
        "drop_and_refit" does not use it.
    solver : {"best", "admm", "drop_and_refit"}, default="best"
        "admm" is the paper's algorithm, which often cycles; then the best point seen is taken.
        "drop_and_refit" searches for the rows to give up and fits the others exactly. "best" runs both and
        takes the lower objective; through landmarks it is "admm", because on kernels of low rank the rows that are
        kept can seldom be fitted exactly.
    d_step : {"simplex_qp", "paper"}, default="simplex_qp"
        Step of the weights in ADMM: their exact minimiser over the simplex, or the printed one, whose limits
        need not be stationary.
    rho2 : float or None, default=None
        Penalty of the step of the weights; None is 16 for "simplex_qp" and 256 for "paper". It does not move
        stationary points.
    max_iter : int, default=1000
        Most rounds of ADMM.
    landmarks : int or None, default=None
        Number of training rows, drawn from every class, through which kernels are approximated (Nystrom). Time and
        memory are then linear in the rows, the model is a sum over landmarks, and `landmark_error_` reports what the
        kernels lost. None, or at least as many as there are distinct rows: exact kernels.
    device : str or None, default=None
        "cuda" or "cuda:1" holds kernel matrices on that device and works on them there, in float64; "cpu" does so by
        torch (both need ``pip install 'tamis[gpu]'``); None is numpy. The model is the same up to rounding.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        None is `tamis.bandwidths()`, ten Gaussians on all features; see also `tamis.per_feature()`. With one
        kernel this is the single-kernel L0/1-SVM.
    tol : float, default=0.001
        Largest residual of stationarity in ADMM. In the result a slack of up to ten times that costs nothing,
        and a residual beyond that is warned of.
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
    certificate_ : Certificate of the fit before calibration moves the intercept (a list of them for more than two
        classes): the six residuals of stationarity, the largest gamma, how many rows are given up
    kernel_weights_, dual_coef_, intercept_ : d, w (before calibration ``sum(w) = 0``) and the intercept
    landmark_error_ : `LandmarkError` of the kept kernels where landmarks were used: the shares `mean` and `largest` of
        the variance k(x, x) of training rows that are lost, and the landmarks `rank` behind each kernel
    instance_importance_ : signed percentages of the coefficients
    kernel_importance_, feature_importance_ : percentages of the weights; of features where every kernel stands on one
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
    With narrow kernels the best points give up nothing or everything; `status_` says when the limit is the
    hard-margin machine or the dead start.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import ZeroOneMKLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X[["mean radius", "mean texture", "mean smoothness"]]
    >>> clf = ZeroOneMKLClassifier(calibration=None).fit(X[::3], y[::3])
    >>> bool(clf.score(X, y) > 0.85)
    True
    """

    citation = ZHU2023
    _squares = 3.5

    def __init__(
        self,
        C: float = 16.0,
        rho1: float = 1.0,
        *,
        solver: str = "best",
        d_step: str = "simplex_qp",
        rho2: float | None = None,
        max_iter: int = 1000,
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
        self.rho1 = rho1
        self.solver = solver
        self.d_step = d_step
        self.rho2 = rho2
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
        check_number("rho1", self.rho1, 0.0, strict=True)
        if self.rho2 is not None:
            check_number("rho2", self.rho2, 0.0, strict=True)
        check_choice("solver", self.solver, method.SOLVERS)
        check_choice("d_step", self.d_step, D_STEPS)
        if self.landmarks is not None and self.solver == "drop_and_refit":
            raise ValueError(
                f"landmarks={self.landmarks!r} has no meaning for solver='drop_and_refit', which fits rows exactly: "
                "use solver='admm' (or 'best'), or leave landmarks out"
            )

    def summary(self) -> dict[str, Any]:
        found = {**super().summary(), "penalty rho1": self.rho1, "solver": self.solver}
        certificate = getattr(self, "certificate_", None)
        if isinstance(certificate, Certificate):
            found["point"] = certificate.words
        return found

    def _memory(self, size: Size) -> MemoryEstimate:
        found = super()._memory(size)
        kept = found.get("kernel values", 0.0)  # and those of the kernels with a weight once more
        return {**found, "kernels with a weight": kept}

    def _solve(self, task: Task) -> Answer:
        rho2 = RHO2[self.d_step] if self.rho2 is None else self.rho2
        problem = Problem(task.stack, task.y, task.cost, self.rho1, rho2, RHO3)
        if not task.rough:
            self._check_start(problem)
        solution = method.solve(
            problem,
            solver="admm" if task.stack.error is not None else self.solver,
            d_step=self.d_step,
            tol=self.tol,
            max_iter=min(self.max_iter, MAX_FOLD_ITER) if task.rough else self.max_iter,
            thorough=not task.rough,
            callback=self._log_callback(),
        )
        certificate = None if task.rough else method.certificate(problem, solution.state, self.tol)
        point = solution.state.point(problem)
        return Answer(point.dual_coef, point.weights, point.intercept, solution, certificate)

    def _check_start(self, problem: Problem) -> None:
        """Refuse penalties with which ADMM would stay where it starts (small weights of rows end in a status)."""
        if self.solver != "drop_and_refit" and self.C / self.rho1 < 2 and not leaves_start(problem):
            raise ValueError(
                f"C={self.C!r} and rho1={self.rho1!r}: C / rho1 must be at least 2, because below that no row enters "
                "the working set of the first round and ADMM stays at its start, which gives every row the class of "
                "larger weight; raise C, lower rho1, or use solver='drop_and_refit'"
            )

    def _report(self, answers: Sequence[Answer], prepared: PreparedRows) -> dict[str, Any]:
        certificates = [answer.details for answer in answers]
        return {"certificate_": certificates[0] if len(certificates) == 1 else certificates}
