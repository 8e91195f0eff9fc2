"""Classic multiple-kernel classifiers: SimpleMKL, EasyMKL, and the mean of the kernels that every one should beat."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

from tamis.codec import stored
from tamis.data.checks import check_choice, check_number
from tamis.errors import warn
from tamis.methods import average_mkl, easy_mkl, simple_mkl
from tamis.models.bill import Size
from tamis.models.model import PreparedRows
from tamis.shells.landmarked import LandmarkClassifier
from tamis.shells.parameters import parameters
from tamis.shells.stacked import Answer, Task

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
@parameters
class SimpleMKLClassifier(LandmarkClassifier):
    """Support vector machine on a sparse convex combination of kernels [Rakotomamonjy2008].

    Minimises the optimal value of the soft-margin machine with the kernel ``sum_l d_l K_l`` over weights d on the
    simplex; this is convex, and the duality gap says how far the result is from the optimum. Kernels are
    evaluated as they are needed; the matrices of those in use are held up to 256 MiB.

    Parameters
    ----------
    solver : {"newton", "reduced_gradient"}
        Direction of descent: by the curvature of the objective, which takes a fifth of the passes over the
        kernels, or the published reduced gradient. Both end at the same optimum.
    max_iter : int
        Most rounds.

    Attributes
    ----------
    duality_gap_ : relative duality gap of the fit (the largest over classes)
    n_passes_ : how many times all kernels were evaluated (the most over classes)

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

    C: float = 1.0
    _: KW_ONLY
    solver: str = "newton"
    max_iter: int = 200

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("solver", self.solver, tuple(simple_mkl.SOLVERS))

    def _kept(self, size: Size) -> float:
        return min(size.values, simple_mkl.HELD)

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
@parameters
class EasyMKLClassifier(LandmarkClassifier):
    """Support vector machine on kernels weighted by how well they hold the classes apart [Aiolli2015].

    One quadratic program on the mean kernel gives a distribution over the rows of each class; a kernel's
    weight is the squared distance between the two means under that distribution. Then follows an ordinary
    machine on the weighted kernel.

    Parameters
    ----------
    lam : float
        In (0, 1]: 1 spreads the distributions evenly (distance of the class means), small values push them
        towards the margin.
    C : float
        Cost of a violated margin in the final machine; sample and class weights multiply it.
    tol : float
        Relative duality gap of both programs.

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

    lam: float = 0.1
    C: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("lam", self.lam, 0.0, 1.0, strict=True)

    def chosen(self) -> dict[str, Any]:
        return {"evenness lam": self.lam, **super().chosen()}

    def _solve(self, task: Task) -> Answer:
        problem = easy_mkl.Problem(task.stack, task.y, task.cost / self.C, self.lam, self.C)
        solution = easy_mkl.solve(problem, tol=self.tol, callback=self._progress())
        state = solution.state
        return Answer(state.dual_coef, state.weights, state.intercept, solution, state.alike)

    def _facts(self, facts: list[Any], prepared: PreparedRows) -> None:
        if any(facts):
            warn(
                "EasyMKLClassifier: no kernel tells the classes apart, so that all have the same weight; look at the "
                "widths of the kernels, or raise lam",
            )


@stored
@parameters
class AverageMKLClassifier(LandmarkClassifier):
    """Support vector machine on the unweighted mean of the kernels: the yardstick of multiple kernel learning.

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

    C: float = 1.0

    def _solve(self, task: Task) -> Answer:
        problem = average_mkl.Problem(task.stack, task.y, task.cost)
        solution = average_mkl.solve(problem, tol=self.tol, callback=self._progress())
        state = solution.state
        return Answer(state.dual_coef, state.weights, state.intercept, solution)
