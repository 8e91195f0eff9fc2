"""Kernel GLVQ: prototypes of each class that move towards its rows and away from others [Schleif2011].

    min over a  of  E = sum_i w_i f((d+ - d-) / (d+ + d-)),   f(m) = 1 / (1 + exp(-SIGMOID_SLOPE m))

with the squared distances ``d_j(i) = K_ii - 2 (a K)_ji + (a K a')_jj`` of row i to the points ``sum_m a_jm x_m`` of the
feature space, d+ that to the nearest prototype of the class of i and d- that to the nearest other one. Rows of a add up
to one and have at most `max_samples` entries. The gradients of E in the feature space are

    w_i f'(m) 4 d- / (d+ + d-)^2 (prototype - x_i)  for the prototype of d+,
   -w_i f'(m) 4 d+ / (d+ + d-)^2 (prototype - x_i)  for the prototype of d-,

so that a step keeps the sums: ``a+ <- (1 - r) a+ + r e_i`` and ``a- <- (1 + r) a- - r e_i``.

Paper     Here                  Meaning
gamma     coef a (c, n)         prototypes, one in each row
c(w_j)    owners (c,)           class of each prototype
f         sigmoid               of slope `SIGMOID_SLOPE`
mu        m                     relative difference of distances, in [-1, 1], negative for rows that are right
epsilon   rate                  of learning
K         K (n, n)              kernel of unit diagonal
-         weight w (n,)         what each row counts

Departures from the paper, with reasons:

1.  The rate is a multiple of the variance ``1 - mean(K)`` of the rows, so that it means the same for any kernel, and
    falls as ``1 / (1 + epoch / 10)``. No step goes beyond the row, or more than doubles the distance from it.
2.  After an epoch each prototype keeps the rows of largest modulus. Merely rescaling their coefficients to sum one
    often undoes more than the epoch gained, and E rises; they become those, of sum one, of the nearest point in the
    feature space. With `max_samples` of n this is the method without sparseness.
3.  Prototypes start as weighted means of `max_samples` random rows of their class, different ones as far as there
    are any.
4.  E is not convex and neither epochs nor the cut after them need lower it: the run stops when E has hardly changed in
    three epochs, and returns its best point if it never does.
5.  Rows have weights of mean one, which multiply their steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from tamis.base.model import decide
from tamis.base.prototypes import Found, PrototypeClassifier, Ready
from tamis.codec import stored
from tamis.errors import check_integer, check_number
from tamis.methods.baselines.prototype_selection import mean_weights, of_norm_one
from tamis.optim.driver import Callback, Iterate, Solution, run

SCHLEIF2011 = (
    "Schleif, Frank-Michael; Villmann, Thomas; Hammer, Barbara; Schneider, Petra (2011). Efficient kernelized "
    "prototype based classification. International Journal of Neural Systems."
)

SIGMOID_SLOPE = 5.0  # of the sigmoid
DECAY_EPOCHS = 10.0  # epochs in which the rate falls to a half
WINDOW_EPOCHS = 3  # epochs in which E must not change much
ONE_POINT = 1e-12  # sum of squared distances at which a row and both its prototypes are one point
SINGULAR_TOL = 1e-9  # relative size of directions in which coefficients are free


@dataclass(frozen=True)
class Problem:
    """What is minimised."""

    K: np.ndarray  # (n, n) kernel of unit diagonal
    codes: np.ndarray  # (n,) class of each row
    weight: np.ndarray  # (n,) positive
    max_samples: int  # most entries in a row of coefficients


@dataclass(frozen=True)
class State:
    """Prototypes (c, n), and the class (c,) of each."""

    coef: np.ndarray
    owners: np.ndarray


# ---------------------------------------------------------------------- objective


def squared_distances(K: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Squared distances (c, n) of prototypes to rows."""
    images = coef @ K
    return np.maximum(1.0 - 2.0 * images + np.sum(coef * images, axis=1)[:, None], 0.0)


def differences(problem: Problem, state: State) -> np.ndarray:
    """The relative differences m (n,) of distances."""
    d = squared_distances(problem.K, state.coef)
    own = state.owners[:, None] == problem.codes
    near, other = (np.min(np.where(mask, d, np.inf), axis=0) for mask in (own, ~own))
    total = near + other
    return np.where(total > ONE_POINT, near - other, 0.0) / np.maximum(total, ONE_POINT)


def objective(problem: Problem, state: State) -> float:
    """The cost E."""
    return float(problem.weight @ expit(SIGMOID_SLOPE * differences(problem, state)))


# ---------------------------------------------------------------------- steps


def rates(problem: Problem, row: int, near: float, other: float) -> tuple[float, float]:
    """How far a row pulls the nearest prototype of its class and pushes the nearest other one, for a rate of one."""
    total = near + other
    if total <= ONE_POINT:
        return 0.0, 0.0
    f = expit(SIGMOID_SLOPE * (near - other) / total)
    factor = float(problem.weight[row] * SIGMOID_SLOPE * f * (1.0 - f)) * 4.0 / total**2
    return factor * other, factor * near


def epoch(problem: Problem, state: State, order: np.ndarray, rate: float) -> State:
    """Let every row move its two prototypes once, in the given order; O(n) for each."""
    K, coef = problem.K, state.coef.copy()
    images = coef @ K
    norms = np.sum(coef * images, axis=1)
    classes = np.arange(problem.codes.max() + 1)
    sides = [(np.flatnonzero(state.owners == q), np.flatnonzero(state.owners != q)) for q in classes]
    for i in order.tolist():
        d = np.maximum(1.0 - 2.0 * images[:, i] + norms, 0.0)
        own, others = sides[problem.codes[i]]
        near, other = own[np.argmin(d[own])], others[np.argmin(d[others])]
        pull, push = rates(problem, i, float(d[near]), float(d[other]))
        for j, r in ((near, min(rate * pull, 1.0)), (other, -min(rate * push, 1.0))):
            norms[j] = (1.0 - r) ** 2 * norms[j] + 2.0 * r * (1.0 - r) * images[j, i] + r**2
            images[j] *= 1.0 - r
            images[j] += r * K[i]
            coef[j] *= 1.0 - r
            coef[j, i] += r
    return replace(state, coef=coef)


def sparse(problem: Problem, state: State) -> State:
    """Keep the rows of largest modulus in each prototype, as the nearest point of the feature space (departure 2)."""
    coef = state.coef.copy()
    for own in coef:
        if np.count_nonzero(own) <= problem.max_samples:
            continue
        kept = np.sort(np.argsort(-np.abs(own), kind="stable")[: problem.max_samples])
        values = nearest_mixture(problem.K[np.ix_(kept, kept)], problem.K[kept] @ own)
        own[:] = 0.0
        own[kept] = values
    return replace(state, coef=coef)


def nearest_mixture(K: np.ndarray, images: np.ndarray) -> np.ndarray:
    """``argmin b'K b - 2 images'b`` over b of sum one; of several the smallest."""
    k = len(K)
    system = np.ones((k + 1, k + 1))
    system[:k, :k], system[k, k] = K, 0.0
    b = np.linalg.lstsq(system, np.append(images, 1.0), rcond=SINGULAR_TOL)[0][:k]
    return b / b.sum()


# ---------------------------------------------------------------------- the run


def start(problem: Problem, n_prototypes: int, seed: int) -> State:
    """Weighted means of random rows, `n_prototypes` for each class that has two rows for each of them.

    Prototypes on single rows of a table of few values would be those of every class, and nothing would move them.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(problem.codes))  # one for all classes: the order of these decides nothing
    coef, owners = [], []
    for q in np.unique(problem.codes):
        rows = order[problem.codes[order] == q]
        for part in np.array_split(rows, min(n_prototypes, max(1, len(rows) // 2))):
            own, some = np.zeros(len(problem.codes)), part[: problem.max_samples]
            own[some] = problem.weight[some] / problem.weight[some].sum()
            coef.append(own)
            owners.append(int(q))
    return State(np.array(coef), np.array(owners))


def iterates(problem: Problem, begun: State, rate: float, seed: int) -> Iterator[Iterate[State]]:
    """The points after each epoch; the violation is the largest relative change of E in the last ones."""
    rng = np.random.default_rng([seed, 1])
    rate *= 1.0 - float(problem.K.mean())
    state, values = begun, [objective(problem, begun)]
    while True:
        changes = np.abs(np.diff(values[-WINDOW_EPOCHS - 1 :])) / values[-1]
        yield Iterate(state, values[-1], float(changes.max()) if len(changes) == WINDOW_EPOCHS else np.inf)
        order = rng.permutation(len(problem.codes))
        state = sparse(problem, epoch(problem, state, order, rate / (1.0 + (len(values) - 1) / DECAY_EPOCHS)))
        values.append(objective(problem, state))


def solve(
    problem: Problem,
    begun: State,
    *,
    rate: float,
    seed: int,
    tol: float = 1e-3,
    max_iter: int = 100,
    callback: Callback | None = None,
) -> Solution[State]:
    """Run epochs until the cost converges."""
    return run(iterates(problem, begun, rate, seed), tol=tol, max_iter=max_iter, monotone=False, callback=callback)


# ---------------------------------------------------------------------- the estimator


@stored
class KernelGLVQClassifier(PrototypeClassifier):
    """Generalised learning vector quantisation in the feature space of the mean kernel, sparse [Schleif2011].

    Each class has a few prototypes, mixtures of few training samples whose coefficients may be negative. They move
    towards samples of their class and away from others, by stochastic descent on a smooth count of errors. A new row
    belongs to the class of the nearest prototype.

    X may also be multivariate time series: an array (sample, channel, step) with NaN after the end of a series, or a
    list of arrays (channel, step) of different lengths. Each channel then has a global alignment kernel
    (`tamis.alignment`, which can also cache them); a channel of NaN alone is absent.

    Parameters
    ----------
    n_prototypes : int, default=3
        Prototypes of each class (half as many as it has distinct samples, if these are fewer).
    max_samples : int, default=5
        Most samples in a prototype. More decide better and are harder to look at; with as many as there are training
        samples this is the method without sparseness.
    learning_rate : float, default=0.1
        Of the first steps; it falls to a half in ten epochs.
    tol : float, default=0.001
        Relative change of the objective, in each of three epochs, at which the fit stops.
    max_iter : int, default=200
        Most epochs.
    pool : int or None, default=None
        Number of training rows to learn from, drawn from every class in proportion, whatever their order. Kept cases
        are among these, and `pool_error_` is the error on the others. None, or at least as many as there are: all rows.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        Positive semi-definite ones; those without a unit diagonal are normalised. None is a Gaussian on each feature,
        as wide as its standard deviation.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities. None: no `predict_proba`, and a faster fit.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the steps that samples of a class make.
    scaling : {"standard", "rank", None}, default="standard"
        "standard": numbers of mean zero and variance one; "rank": ranks, for long tails; None: numbers as they are.
    missing : {"absent", "median", None}, default="absent"
        "absent": a missing cell contributes nothing; in a kernel on several features it is replaced by the mean (by
        zero with ``scaling=None``), and an indicator adds 1 to the squared distance. "median": it is filled with the
        training median, or the most frequent category. None: missing cells are refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto": columns of text, booleans or a categorical type are categories. Columns of numeric codes must be named.
    random_state : int, RandomState or None, default=None
        Seed of the start, of the order of the samples and of the calibration folds. None is the same as 0.
    n_jobs : int or None, default=None
        Number of processes for the folds; None is one.
    memory_limit : int, float, str or None, default=None
        Largest memory of a fit in bytes, as a number or as text such as "2GB"; None: what is available. A fit that
        would need more (see `memory_estimate`) is refused before it starts.
    verbose : int, default=0
        Whether to log every round of the fit; 0 is silent.

    Attributes
    ----------
    prototypes_ : list of `Prototype`: class, samples with weights, purity, training samples nearest to it
    prototype_masses_ : (n_classes, n_prototypes), the moduli of the weights, scaled to mixtures of norm one, of the
        samples of each class added up
    kernel_weights_, kernel_importance_ : equal weights of the kernels, which add up to one, and as percentages
    instances_, instance_labels_ : training samples in some prototype, as positions and as index labels
    features_, kernels_, kernel_names_ : features (positions) and kernels that are not constant
    instance_importance_ : the votes of each sample for an output through all prototypes, as signed percentages
    prototype_labels_ : the class of each prototype
    prototypes_per_class_ : how many each class has
    normalised_kernels_ : names of kernels that had no unit diagonal
    pool_error_ : where a pool was drawn, the share of other training rows (up to 20 000 of them, by their weights) that
        are predicted wrong
    classes_, instances_per_class_ : the class labels, sorted (of two the second is positive); instances of each output
    intercept_ : of each output
    instance_variation_, kernel_variation_, feature_variation_ : shares in the variation of the decision over training
        rows, in per cent; of features where every kernel stands on one
    pairs_ : pairs of features that have a `surface`, by name, those that matter most first
    history_ : objective, violation and seconds of every round; a list where several problems were solved
    n_iter_, objective_, status_ : most rounds of all problems; final objective, summed over them; how the fit ended
    n_features_in_, feature_names_in_ : columns of X, and their names where it has them

    Notes
    -----
    The objective is not convex, and an epoch may raise it: a fit without convergence returns its best epoch.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tamis import KernelGLVQClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> clf = KernelGLVQClassifier(calibration=None).fit(X, y)
    >>> len(clf.prototypes_), max(len(p) for p in clf.prototypes_), bool(clf.score(X, y) > 0.95)
    (9, 5, True)
    """

    citation = SCHLEIF2011
    _squares = 2.0

    def __init__(
        self,
        n_prototypes: int = 3,
        max_samples: int = 5,
        *,
        learning_rate: float = 0.1,
        tol: float = 0.001,
        max_iter: int = 200,
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
        self.n_prototypes = n_prototypes
        self.max_samples = max_samples
        self.learning_rate = learning_rate
        self.tol = tol
        self.max_iter = max_iter
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
        check_integer("n_prototypes", self.n_prototypes, 1)
        check_integer("max_samples", self.max_samples, 1)
        check_number("learning_rate", self.learning_rate, 0.0, strict=True)

    @property
    def _owners(self) -> np.ndarray:
        return decide(self.model_.expansion.votes.T)

    def _find(self, ready: Ready) -> Found:
        rows, K = ready.rows, ready.rows.mean
        problem = Problem(K, rows.codes, rows.weight, self.max_samples)
        begun = start(problem, self.n_prototypes, ready.seed)
        solution = solve(
            problem,
            begun,
            rate=self.learning_rate,
            seed=ready.seed,
            tol=self.tol,
            max_iter=self.max_iter,
            callback=self._log_callback(),
        )
        state = solution.state
        d = squared_distances(K, state.coef)
        return Found(
            state.coef.T,
            mean_weights(ready),
            K,
            solution,
            codes=(np.argmin(d, axis=0) == np.arange(len(d))[:, None]).astype(float),
            owners=state.owners,
            mixtures=of_norm_one(np.abs(state.coef.T), K),
        )

    def summary(self) -> dict[str, Any]:
        return {"most samples in a prototype": self.max_samples, **super().summary()}
