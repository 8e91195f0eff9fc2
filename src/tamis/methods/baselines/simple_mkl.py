"""SimpleMKL: the support vector machine with a convex combination of kernels [Rakotomamonjy2008].

    min over d >= 0, sum(d) = 1 of J(d)
    J(d) = max over 0 <= alpha <= cost, y'alpha = 0 of sum(alpha) - 1/2 (alpha*y)'K(d)(alpha*y)
    K(d) = sum_l d_l K_l

J is convex and dJ/dd_l = -1/2 (alpha*y)'K_l(alpha*y) at the maximiser. Exchanging min and max, every
admissible alpha gives a lower bound of the minimum, and the one of the present machine certifies how far the
weights are from optimal:

    min J >= sum(alpha) - 1/2 max_l (alpha*y)'K_l(alpha*y)

| paper | here |
| --- | --- |
| d_m | `weights` (L,) |
| alpha_i y_i, b | `dual_coef` (n,), `intercept` |
| C | `cost` (n,), one for every row |
| K_m | kernels of the `stack` |
| D, mu, nu | direction of descent, kernel of the largest weight, kernel that a step takes out |

Departures from the paper, with reasons:

1. The default solver takes its direction from the curvature of J [Chapelle2008] in place of the reduced gradient:
   with S the free rows, H_lm = (K_l b)_S' P (K_m b)_S, where b = alpha*y and P is the upper left block of the
   inverse of [[K_SS, 1], [1', 0]]. It needs the vectors K_l b, which the gradient needs as well, and a tenth of the
   machines; ``solver="reduced_gradient"`` is the published direction.
2. The line search looks for the zero of dJ/ds = -1/2 b'K(D)b, which a trial gives for nothing, where the paper
   compares values by golden section; J is convex along the line, so both end at the same point. Where the slope
   has hardly changed at the end of a Newton step, the search goes on to the border of the simplex.
3. K along the direction is K + s K(D): a trial costs one machine, started from the last one, and no pass over
   the kernels.
4. With many kernels steps are made on those that have weight and the few that violate optimality most; only their
   Gram matrices are in memory, and a pass over all kernels finds whether others are needed. Such a run starts from
   equal weights of the kernels that the machine of the mean kernel asks for.
5. The loop stops on the duality gap relative to J, with the primal value of the machine in the place of J, so
   that the certificate holds although machines are solved to a tolerance.
6. The paper takes J for differentiable. It has kinks where K(d) is singular, as with kernels of few distinct values:
   several alpha are optimal, each gives another gradient, and the one at hand need neither give a direction of
   descent nor certify the optimum. Once a direction makes no progress, or the gap has not halved in `STALL_ROUNDS`
   rounds, Newton's direction goes on with a smooth function, whatever `solver` is:

       J_r(d) = max over the same alpha of sum(alpha) - 1/2 (alpha*y)'(K(d) + r I)(alpha*y)
       J(d) - r/2 sum(cost^2) <= J_r(d) <= J(d)

   Its alpha is unique, and gives both bounds of the gap of J. Whenever J_r is minimised to a fifth of that gap, or
   no further, a smaller ridge r takes over, until the gap of J is small enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from tamis.base.kernel_space import PreparedRows
from tamis.base.memory import Size
from tamis.base.stack_classifier import Answer, StackClassifier, Task
from tamis.codec import stored
from tamis.errors import check_choice
from tamis.kernels.stacks.base import KernelStack
from tamis.optim.driver import Callback, Iterate, Solution, run
from tamis.optim.matrices import Matrix, with_diagonal
from tamis.optim.quadratic import solve_simplex_qp, zero_of_slope
from tamis.optim.svm import Machine, curvature, objectives, relative_gap, solve_svm

RAKOTOMAMONJY2008 = (
    "Rakotomamonjy, Alain; Bach, Francis; Canu, Stephane; Grandvalet, Yves (2008). SimpleMKL. "
    "Journal of Machine Learning Research."
)

MAX_ALL_ACTIVE = 32  # up to so many kernels all are active
MAX_ENTERING = 20  # kernels that may enter the active set at once
MAX_GRAM_BYTES = 1 << 28  # bytes of Gram matrices that are held
MAX_INNER_STEPS = 60  # most steps on one active set
INNER_GAP_SHARE = 0.2  # share of the gap that the steps on one active set may leave
MARGIN_SHARE = 1e-3  # tolerance of margins, relative to that of the gap
MIN_MARGIN_TOL = 1e-8  # tolerance of margins, at the least
MAX_TRIALS = 12  # machines in one line search
SLOPE_SHARE = 0.1  # share of the slope at which a line search ends
STEEP_SHARE = 0.5  # share of the slope that is left by a Newton step that is too short
ROUNDING = 1e-14  # by which J may seem to rise, relative to itself; weights up to this are zero
KEPT_SHARE = 1e-3  # share of a direction of which more has to be left for K(D) to be changed in place of computed
STALL_ROUNDS = 10  # rounds in which the gap has to halve
MIN_SHRINK = 0.1  # least factor from one ridge to the next
LEAST_RIDGE = 1e-12  # relative to the largest diagonal entry of the kernel
RIDGE = 1e-6  # added to the curvature, relative to its mean diagonal entry
FOLD_GAP = 1e-2  # gap that is enough on calibration folds


@dataclass(frozen=True)
class Problem:
    """Kernels, labels and costs."""

    stack: KernelStack  # (L, n, n) positive semi-definite kernels
    y: np.ndarray  # (n,) in {-1, +1}, both present
    cost: np.ndarray  # (n,) positive, C times the weight of the row


@dataclass(frozen=True)
class State:
    """Kernel weights with the machine of their combination."""

    weights: np.ndarray  # (L,) on the simplex
    dual_coef: np.ndarray  # (n,) ``alpha * y``
    intercept: float
    passes: float = 0.0  # how often the kernels were gone through so far: kernels touched over L
    solves: int = 0  # machines solved so far


def objective(problem: Problem, state: State) -> float:
    """J of the state's weights, as its coefficients attain it."""
    return _values(problem, state)[0]


def violation(problem: Problem, state: State) -> float:
    """The duality gap relative to J."""
    _, primal = _values(problem, state)
    return _gap(state.dual_coef, primal, problem.stack.quad(state.dual_coef))


def _values(problem: Problem, state: State) -> tuple[float, float]:
    image = problem.stack.combine(state.weights) @ state.dual_coef
    return objectives(image, problem.y, problem.cost, state.dual_coef, state.intercept)


def _gap(dual_coef: np.ndarray, primal: float, energies: np.ndarray) -> float:
    """Upper bound of J minus lower bound of its minimum, relative to the former."""
    bound = float(np.abs(dual_coef).sum() - 0.5 * energies.max())
    return relative_gap(primal, bound)


# ---------------------------------------------------------------------- steps on the active kernels


@dataclass(frozen=True)
class _Point:
    """Weights of the active kernels, their combination K (n, n), its machine, and the work so far.

    `touched` counts kernels, `solves` machines. A `ridge` is part of K and of the machine.
    """

    weights: np.ndarray
    K: Matrix
    machine: Machine
    touched: float
    solves: int
    ridge: float = 0.0

    def gap(self, energies: np.ndarray) -> float:
        """The relative gap of J_r, with r the ridge."""
        coef = self.machine.dual_coef
        return _gap(coef, self.machine.primal, energies + self.ridge * (coef @ coef))

    def certificate(self, problem: Problem, energies: np.ndarray) -> tuple[float, float]:
        """J as the coefficients attain it, and its relative gap, whatever the ridge."""
        machine, coef = self.machine, self.machine.dual_coef
        value, primal = machine.value, machine.primal
        if self.ridge:
            image = self.K @ coef - self.ridge * coef
            value, primal = objectives(image, problem.y, problem.cost, coef, machine.intercept)
        return value, _gap(coef, primal, energies)

    def slope(self, KD: Matrix) -> float:
        """dJ/ds along ``K + s KD``."""
        return -0.5 * float(self.machine.dual_coef @ (KD @ self.machine.dual_coef))


@dataclass(frozen=True)
class _Line:
    """A direction D of descent for the weights, with K(D)."""

    direction: np.ndarray
    KD: Matrix

    def at(self, problem: Problem, point: _Point, s: float, tol: float) -> _Point:
        """The point a step `s` from `point`, with its machine."""
        K = point.K + s * self.KD
        machine = solve_svm(K, problem.y, problem.cost, tol=tol, start=point.machine.dual_coef)
        weights = point.weights + s * self.direction
        weights[weights <= ROUNDING] = 0.0  # a rest would leave no room for the next direction
        return replace(point, weights=weights, K=K, machine=machine, solves=point.solves + 1)

    def room(self, weights: np.ndarray) -> np.ndarray:
        """The steps (L,) after which weights are zero."""
        falls = self.direction < 0
        return np.divide(-weights, self.direction, out=np.full(len(weights), np.inf), where=falls)


def _gradient_step(problem: Problem, stack: KernelStack, point: _Point, images: np.ndarray, tol: float) -> _Point:
    """Take kernels out as long as J falls all the way, then search along the line [Rakotomamonjy2008, Alg. 1]."""
    largest = int(np.argmax(point.weights))
    direction = reduced_descent(point.weights, point.machine.dual_coef @ images)
    line, size = _Line(direction, stack.matrix(direction)), float(np.abs(direction).max())
    point = replace(point, touched=point.touched + np.count_nonzero(direction))
    while np.any(line.direction < 0):
        D = line.direction
        room = line.room(point.weights)
        out = int(np.argmin(room))
        end = line.at(problem, point, float(room[out]), tol)
        end.weights[out] = 0.0
        if end.machine.value >= point.machine.value:
            return _search(problem, line, point, end, float(room[out]), tol)
        point = end
        if out == largest:
            break
        direction = D.copy()
        direction[[out, largest]] = 0.0
        direction[largest] = -direction.sum()  # zero once the others are: a rest would take out the last kernel
        keep = np.abs(direction).max() > KEPT_SHARE * size  # else K(D) is rounding errors, enlarged by long steps
        change = direction - D if keep else direction
        KD = stack.matrix(change)
        line = _Line(direction, line.KD + KD if keep else KD)
        point = replace(point, touched=point.touched + np.count_nonzero(change))
    return point


def reduced_descent(weights: np.ndarray, energies: np.ndarray) -> np.ndarray:
    """Minus the reduced gradient of J, where the kernel of largest weight makes up for the others.

    Parameters
    ----------
    energies : (L,) ``(alpha*y)'K_l(alpha*y)``, so that dJ/dd = -1/2 energies
    """
    largest = int(np.argmax(weights))
    down = 0.5 * (energies - energies[largest])
    down[(weights <= 0) & (down < 0)] = 0.0
    down[largest] = -down.sum()
    return down


def _newton_step(problem: Problem, stack: KernelStack, point: _Point, images: np.ndarray, tol: float) -> _Point:
    """Go to the minimiser of the quadratic model on the simplex, or search on the way to it."""
    H = curvature(point.K, problem.y, problem.cost, point.machine.dual_coef, images)
    size = float(np.trace(H)) / len(H)
    if size <= 0:
        return _gradient_step(problem, stack, point, images, tol)
    H[np.diag_indices(len(H))] += RIDGE * size
    energies = point.machine.dual_coef @ images
    try:
        target = solve_simplex_qp(H, H @ point.weights + 0.5 * energies, point.weights)
    except LinAlgError:  # kernels that do the same: the curvature between them is rounding errors
        return _gradient_step(problem, stack, point, images, tol)
    direction = target - point.weights
    direction[np.argmax(point.weights)] -= direction.sum()  # long steps would make a rounding error large
    line = _Line(direction, stack.matrix(direction))
    point = replace(point, touched=point.touched + np.count_nonzero(direction))
    end = line.at(problem, point, 1.0, tol)
    slope, first, left = end.slope(line.KD), point.slope(line.KD), float(line.room(end.weights).min())
    level = slope <= SLOPE_SHARE * -first and end.machine.value <= point.machine.value * (1.0 + ROUNDING)
    if level and slope >= STEEP_SHARE * first:
        return end
    if slope > 0 or end.machine.value >= point.machine.value:
        end = _search(problem, line, point, end, 1.0, tol)
    elif 0 < left < np.inf:  # the curvature at the start ended on the way
        end = _search(problem, line, end, line.at(problem, end, left, tol), left, tol)
    if end.machine.value >= point.machine.value:
        return _gradient_step(problem, stack, replace(point, solves=end.solves), images, tol)
    return end


def _search(problem: Problem, line: _Line, point: _Point, end: _Point, limit: float, tol: float) -> _Point:
    """The best point between two, near the zero of the slope."""
    first = point.slope(line.KD)

    def slope(trial: _Point) -> float:
        """That of J; where J has not fallen it is steep, whatever it is beyond a kink, so that no search ends there."""
        own = trial.slope(line.KD)
        return own if trial.machine.value < point.machine.value else max(own, abs(first))

    def at(s: float) -> tuple[_Point, float]:
        trial = line.at(problem, point, s, tol)
        return trial, slope(trial)

    trials = zero_of_slope(at, first, slope(end), length=limit, trials=MAX_TRIALS, flat=SLOPE_SHARE)
    best = min([point, end, *trials], key=lambda p: p.machine.value)
    return replace(best, solves=end.solves + len(trials))


Step = Callable[[Problem, KernelStack, _Point, np.ndarray, float], _Point]
SOLVERS: dict[str, Step] = {"newton": _newton_step, "reduced_gradient": _gradient_step}


def _descend(problem: Problem, stack: KernelStack, point: _Point, step: Step, target: float, tol: float) -> _Point:
    """Steps on the active kernels until their gap is below the target; one step where all kernels are active."""
    active = stack.shape[0]
    for _ in range(MAX_INNER_STEPS if active < problem.stack.shape[0] else 1):
        images = stack.apply(point.machine.dual_coef)
        point = replace(point, touched=point.touched + active)
        if point.gap(point.machine.dual_coef @ images) <= target:
            break
        moved = step(problem, stack, point, images, tol)
        if np.array_equal(moved.weights, point.weights):
            return replace(point, touched=moved.touched, solves=moved.solves)
        point = moved
    return point


# ---------------------------------------------------------------------- all kernels


def _active(weights: np.ndarray, energies: np.ndarray) -> np.ndarray:
    """Kernels with weight, and those without that violate optimality most."""
    if len(weights) <= MAX_ALL_ACTIVE:
        return np.arange(len(weights))
    excess = np.where(weights > 0, -np.inf, energies - weights @ energies)
    order = np.argsort(-excess, kind="stable")[:MAX_ENTERING]
    return np.union1d(np.flatnonzero(weights > 0), order[excess[order] > 0])


def _first(problem: Problem, start: State | None, tol: float) -> _Point:
    """The point of a start; without one equal weights, of all kernels or of those with the largest energies."""
    L = problem.stack.shape[0]
    if start is not None:
        return _point(problem, start.weights, start.dual_coef, start.passes * L, start.solves, tol)
    point = _point(problem, np.full(L, 1.0 / L), None, 0.0, 0, tol)
    if L <= MAX_ALL_ACTIVE:
        return point
    energies = problem.stack.quad(point.machine.dual_coef)
    weights = np.zeros(L)
    weights[np.argsort(-energies, kind="stable")[:MAX_ENTERING]] = 1.0 / MAX_ENTERING
    return _point(problem, weights, point.machine.dual_coef, point.touched + L, point.solves, tol)


def _point(
    problem: Problem,
    weights: np.ndarray,
    known: np.ndarray | None,
    touched: float,
    solves: int,
    tol: float,
    ridge: float = 0.0,
) -> _Point:
    K = _matrix(problem.stack, weights, ridge)
    machine = solve_svm(K, problem.y, problem.cost, tol=tol, start=known)
    return _Point(weights, K, machine, touched + np.count_nonzero(weights), solves + 1, ridge)


def _matrix(stack: KernelStack, weights: np.ndarray, ridge: float) -> Matrix:
    K = stack.matrix(weights)
    return with_diagonal(K, ridge) if ridge else K


def _smoother(problem: Problem, point: _Point, gap: float, tol: float, fine: float) -> _Point | None:
    """The same weights with a first ridge, or with a smaller one; None where it would be lost in rounding errors."""
    coef = point.machine.dual_coef
    if point.ridge:
        ridge = point.ridge * max(MIN_SHRINK, 0.5 * tol / gap)  # the gap falls with the ridge
    else:
        ridge = min(gap, 1.0) * point.machine.primal / float(coef @ coef)  # moves J by half its gap
    if ridge <= LEAST_RIDGE * float(np.max(point.K.diagonal())):
        return None
    return _point(problem, point.weights, coef, point.touched, point.solves, fine, ridge)


def iterates(
    problem: Problem, start: State | None = None, *, solver: str = "newton", tol: float = 1e-3
) -> Iterator[Iterate[State]]:
    """Descend; every iterate is certified by a pass over all kernels, and J never rises until it is smoothed.

    Parameters
    ----------
    tol : the gap that is aimed at; machines and the steps between two iterates are solved accordingly

    Notes
    -----
    If no step is left above `tol`, the iterate with the smallest gap comes once more.
    """
    L, fine, step = problem.stack.shape[0], max(MARGIN_SHARE * tol, MIN_MARGIN_TOL), SOLVERS[solver]
    point = _first(problem, start, fine)
    active, stack = np.arange(0), problem.stack
    best, stuck, goal, rounds = None, False, np.inf, STALL_ROUNDS
    while True:
        weights, coef = point.weights, point.machine.dual_coef
        energies = (stack if len(active) == L else problem.stack).quad(coef)
        point = replace(point, touched=point.touched + L)
        value, gap = point.certificate(problem, energies)
        state = State(weights, coef, point.machine.intercept, point.touched / L, point.solves)
        now = Iterate(state, value, gap, weights=weights)
        yield now
        best = now if best is None or gap < best.violation else best
        goal, rounds = (0.5 * gap, STALL_ROUNDS) if gap <= goal else (goal, rounds - 1)
        if stuck or not rounds or (point.ridge and point.gap(energies) <= INNER_GAP_SHARE * gap):
            smoother = _smoother(problem, point, gap, tol, fine)
            if smoother is None:
                yield best
                return
            point, step, goal, rounds = smoother, _newton_step, np.inf, STALL_ROUNDS
        chosen = _active(weights, energies)
        if not np.array_equal(chosen, active):
            active, stack = chosen, problem.stack.take(kernels=chosen).held(MAX_GRAM_BYTES)
            point = replace(point, touched=point.touched + len(active))
        inner = replace(point, weights=weights[active])
        if stack.error is not None:  # K of low rank, in terms of the factors of the active kernels
            inner = replace(inner, K=_matrix(stack, inner.weights, point.ridge))
        inner = _descend(problem, stack, inner, step, max(0.5 * tol, INNER_GAP_SHARE * gap), fine)
        stuck = np.array_equal(inner.weights, weights[active])
        spread = np.zeros(L)
        spread[active] = inner.weights
        point = replace(inner, weights=spread)


def solve(
    problem: Problem,
    *,
    solver: str = "newton",
    start: State | None = None,
    tol: float = 1e-3,
    max_iter: int = 200,
    callback: Callback | None = None,
) -> Solution[State]:
    """Minimise J to a relative duality gap of `tol`."""
    return run(iterates(problem, start, solver=solver, tol=tol), tol=tol, max_iter=max_iter, callback=callback)


# ---------------------------------------------------------------------- the estimator


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
        "cuda" or "cuda:1" holds kernel matrices on that device and works on them there, in float64; "cpu" does so by
        torch (both need ``pip install 'tamis[gpu]'``); None is numpy. The model is the same up to rounding.
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
    duality_gap_ : relative duality gap of the fit (the largest over classes)
    n_passes_ : how many times all kernels were evaluated (the most over classes)
    landmark_error_ : `LandmarkError` of the kept kernels where landmarks were used: the shares `mean` and `largest` of
        the variance k(x, x) of training rows that are lost, and the landmarks `rank` behind each kernel
    dual_coef_ : coefficients of the rows; of landmarks, their sums over kernels
    kernel_weights_ : weights of the kernels, adding up to one
    instance_importance_ : signed percentages of the coefficients
    kernel_importance_, feature_importance_ : percentages of the weights; of features where every kernel stands on one
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
        check_choice("solver", self.solver, tuple(SOLVERS))

    def _kept_bytes(self, size: Size) -> float:
        return min(size.values, MAX_GRAM_BYTES)

    def _solve(self, task: Task) -> Answer:
        problem = Problem(task.stack, task.y, task.cost)
        tol = max(self.tol, FOLD_GAP) if task.rough else self.tol
        solution = solve(problem, solver=self.solver, tol=tol, max_iter=self.max_iter, callback=self._log_callback())
        state = solution.state
        details = violation(problem, state), state.passes
        return Answer(state.dual_coef, state.weights, state.intercept, solution, details)

    def summary(self) -> dict[str, Any]:
        found = super().summary()
        return {**found, "duality gap": self.duality_gap_} if hasattr(self, "duality_gap_") else found

    def _report(self, answers: Sequence[Answer], prepared: PreparedRows) -> dict[str, Any]:
        gaps, passes = zip(*(answer.details for answer in answers), strict=True)
        return {"duality_gap_": max(gaps), "n_passes_": max(passes)}
