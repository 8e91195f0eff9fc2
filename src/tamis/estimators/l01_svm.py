"""ZeroOneMKLClassifier: the support vector machine with the 0/1 loss on a learned mean of kernels."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

from tamis.codec import stored
from tamis.data.checks import check_choice, check_number
from tamis.kernels.landmarks import LandmarkStack
from tamis.methods import l01_svm as method
from tamis.methods.l01_certificate import Certificate
from tamis.models.bill import Bill, Size
from tamis.models.model import PreparedRows
from tamis.shells.landmarked import LandmarkClassifier
from tamis.shells.parameters import parameters
from tamis.shells.stacked import Answer, Task

# [Zhu2023], as in docs/references.bib
ZHU2023 = "Zhu, Bin; Shi, Yijie (2023). MKL-L0/1-SVM."

QUICK = 100  # most rounds on calibration folds
RHO2 = {"simplex_qp": 16.0, "paper": 256.0}
RHO3 = 256.0


@stored
@parameters
class ZeroOneMKLClassifier(LandmarkClassifier):
    """Support vector machine that counts rows within the margin, on a learned mean of kernels [Zhu2023].

    Minimises ``1/2 w'K(d)w + C * (number of rows with margin below one)`` over coefficients and over weights d
    of kernels on the simplex. The decision is ``f(x) = sum_l d_l sum_i w_i k_l(x_i, x) + intercept``. The loss is
    not convex: what is found is a stationary point, and `certificate_` says how strong a one.

    Parameters
    ----------
    C : float
        Cost of a row whose margin is below one; sample and class weights multiply it.
    rho1 : float
        Penalty of ADMM. ``C / rho1`` must be at least 2 (weights of rows may make up for less): below that ADMM
        never leaves its starting point, which gives every row the class of larger weight.
        "drop_and_refit" does not use it.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns)
        None is `tamis.bandwidths()`, ten Gaussians on all features; see also `tamis.per_feature()`. With one
        kernel this is the single-kernel L0/1-SVM.
    solver : {"best", "admm", "drop_and_refit"}
        "admm" is the paper's algorithm, which often cycles; then the best point seen is taken.
        "drop_and_refit" searches for the rows to give up and fits the others exactly. "best" runs both and
        takes the lower objective; through landmarks it is "admm", because on kernels of low rank the rows that are
        kept can seldom be fitted exactly.
    d_step : {"simplex_qp", "paper"}
        Step of the weights in ADMM: their exact minimiser over the simplex, or the printed one, whose limits
        need not be stationary.
    rho2 : float or None
        Penalty of the step of the weights; None is 16 for "simplex_qp" and 256 for "paper". It does not move
        stationary points.
    tol : float
        Largest residual of stationarity in ADMM. In the result a slack of up to ten times that costs nothing,
        and a residual beyond that is warned of.
    max_iter : int
        Most rounds of ADMM.

    Attributes
    ----------
    certificate_ : Certificate of the fit before calibration moves the intercept (a list of them for more than two
        classes): the six residuals of stationarity, the largest gamma, how many rows are given up
    kernel_weights_, dual_coef_, intercept_ : d, w (before calibration ``sum(w) = 0``) and the intercept

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

    C: float = 16.0
    rho1: float = 1.0
    _: KW_ONLY
    solver: str = "best"
    d_step: str = "simplex_qp"
    rho2: float | None = None
    max_iter: int = 1000

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("rho1", self.rho1, 0.0, strict=True)
        if self.rho2 is not None:
            check_number("rho2", self.rho2, 0.0, strict=True)
        check_choice("solver", self.solver, method.SOLVERS)
        check_choice("d_step", self.d_step, method.D_STEPS)
        if self.landmarks is not None and self.solver == "drop_and_refit":
            raise ValueError(
                f"landmarks={self.landmarks!r} has no meaning for solver='drop_and_refit', which fits rows exactly: "
                "use solver='admm' (or 'best'), or leave landmarks out"
            )

    def chosen(self) -> dict[str, Any]:
        found = {**super().chosen(), "penalty rho1": self.rho1, "solver": self.solver}
        certificate = getattr(self, "certificate_", None)
        if isinstance(certificate, Certificate):
            found["point"] = certificate.words
        return found

    def _bill(self, size: Size) -> Bill:
        bill = super()._bill(size)
        kept = bill.get("kernel values", 0.0)  # and those of the kernels with a weight once more
        return {**bill, "kernels with a weight": kept}

    def _solve(self, task: Task) -> Answer:
        rho2 = RHO2[self.d_step] if self.rho2 is None else self.rho2
        problem = method.Problem(task.stack, task.y, task.cost, self.rho1, rho2, RHO3)
        if not task.quick:
            self._check_start(problem)
        solution = method.solve(
            problem,
            solver="admm" if isinstance(task.stack, LandmarkStack) else self.solver,
            d_step=self.d_step,
            tol=self.tol,
            max_iter=min(self.max_iter, QUICK) if task.quick else self.max_iter,
            thorough=not task.quick,
            callback=self._progress(),
        )
        facts = None if task.quick else method.certificate(problem, solution.state, self.tol)
        point = solution.state.point(problem)
        return Answer(point.dual_coef, point.weights, point.intercept, solution, facts)

    def _check_start(self, problem: method.Problem) -> None:
        """Refuse penalties with which ADMM would stay where it starts (small weights of rows end in a status)."""
        if self.solver != "drop_and_refit" and self.C / self.rho1 < 2 and not method.leaves_start(problem):
            raise ValueError(
                f"C={self.C!r} and rho1={self.rho1!r}: C / rho1 must be at least 2, because below that no row enters "
                "the working set of the first round and ADMM stays at its start, which gives every row the class of "
                "larger weight; raise C, lower rho1, or use solver='drop_and_refit'"
            )

    def _facts(self, facts: list[Any], prepared: PreparedRows) -> None:
        self.certificate_ = facts[0] if len(facts) == 1 else facts
