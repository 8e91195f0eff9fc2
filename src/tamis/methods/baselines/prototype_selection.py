"""Prototype selection: a set of training rows whose balls cover each class and little else [Bien2011].

    min over sets P of pairs (row j, class q)  of  sum_i w_i (i is in no ball of its own class)
        + sum_i w_i (number of balls of other classes that i is in) + price |P|

The ball of a row holds the rows at a distance ``sqrt(2 - 2 K)`` below a radius. The greedy algorithm adds the pair that
lowers this cost most, for as long as one does; a new row goes to the class of the nearest prototype.

Paper       Here                 Meaning
x_i         row i                training row; the kernel has unit diagonal
B(x_j)      balls[j] (n,)        the rows in the ball of row j
epsilon     radius               of all balls
alpha_jq    rows, owners (c,)    the pairs of P, in the order in which they were added
xi_i        not covered[i]       whether row i is in no ball of its own class
lambda      price                of a prototype
-           weight w (n,)        what each row counts

Departures from the paper, with reasons:

1.  Rows have weights of mean one; the price is 1 / n as in the paper, which settles ties in favour of fewer prototypes.
2.  A row is in its own ball even if the radius is zero: then all rows are prototypes, and the nearest one decides.
3.  Distances equal to the radius up to rounding are outside, and gains equal up to rounding tie. The first row wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import squareform

from tamis.base.model import decide
from tamis.base.prototypes import Found, PrototypeClassifier, Ready
from tamis.codec import stored
from tamis.errors import check_number, warn
from tamis.optim.driver import Callback, Iterate, Solution, run

BIEN2011 = (
    "Bien, Jacob; Tibshirani, Robert (2011). Prototype selection for interpretable classification. The Annals of "
    "Applied Statistics."
)

DISTANCE_ROUNDING = 1e-12  # difference of squared distances that is rounding
GAIN_DIGITS = 9  # of gains, in units of a row of mean weight


@dataclass(frozen=True)
class Problem:
    """What is to be covered."""

    balls: np.ndarray  # boolean (n, n), whether row i is in the ball of row j
    codes: np.ndarray  # (n,) class of each row, the last one being ``codes.max()``
    weight: np.ndarray  # (n,) positive

    @property
    def price(self) -> float:
        """What a prototype costs."""
        return 1.0 / len(self.codes)


@dataclass(frozen=True)
class State:
    """Prototypes, as rows (c,) and the classes (c,) they stand for; which rows (n,) are in a ball of their class."""

    rows: np.ndarray
    owners: np.ndarray
    covered: np.ndarray


def quantile_radius(K: np.ndarray, share: float) -> float:
    """The distance below which about this share of the pairs of different rows is."""
    return float(np.quantile(np.sqrt(_squared_distances(squareform(K, checks=False))), share))


def balls_of(K: np.ndarray, radius: float) -> np.ndarray:
    """Boolean (n, n): whether row i is in the ball of row j."""
    balls = _squared_distances(K) < radius**2 - DISTANCE_ROUNDING
    np.fill_diagonal(balls, True)
    return balls


def _squared_distances(K: np.ndarray) -> np.ndarray:
    return np.maximum(2.0 - 2.0 * K, 0.0)


# ---------------------------------------------------------------------- objective


def objective(problem: Problem, state: State) -> float:
    """The cost of the prototypes."""
    wrong = problem.balls[state.rows] & (state.owners[:, None] != problem.codes)
    weight = problem.weight
    return float(weight[~state.covered].sum() + wrong.sum(axis=0) @ weight) + problem.price * len(state.rows)


def gains(problem: Problem, covered: np.ndarray) -> np.ndarray:
    """By how much each pair (n, classes) of row and class would lower the cost."""
    inside = _inside(problem, np.ones_like(covered))
    return _inside(problem, ~covered) - _wrong(inside) - problem.price


def _inside(problem: Problem, counted: np.ndarray) -> np.ndarray:
    """Weight of the counted rows of each class in each ball (n, classes)."""
    classes = np.arange(problem.codes.max() + 1)
    return problem.balls @ ((problem.codes[:, None] == classes) * (problem.weight * counted)[:, None])


def _wrong(inside: np.ndarray) -> np.ndarray:
    """Weight in each ball that is not of the class (n, classes)."""
    return inside.sum(axis=1, keepdims=True) - inside


# ---------------------------------------------------------------------- the run


def iterates(problem: Problem) -> Iterator[Iterate[State]]:
    """The sets of the greedy algorithm; the violation is the best gain as a share of the weight of all rows."""
    codes, weight, balls = problem.codes, problem.weight, problem.balls
    fresh = _inside(problem, np.ones(len(codes), dtype=bool))
    price = _wrong(fresh) + problem.price
    state = State(np.empty(0, dtype=int), np.empty(0, dtype=int), np.zeros(len(codes), dtype=bool))
    value, total = float(weight.sum()), float(weight.sum())
    while True:
        gain = np.round(fresh - price, GAIN_DIGITS)
        j, q = np.unravel_index(np.argmax(gain), gain.shape)
        yield Iterate(state, value, max(float(gain[j, q]), 0.0) / total)
        value -= float(fresh[j, q] - price[j, q])
        new = np.flatnonzero(balls[j] & (codes == q) & ~state.covered)
        covered = state.covered.copy()
        covered[new] = True
        fresh[:, q] -= balls[:, new] @ weight[new]
        state = State(np.append(state.rows, j), np.append(state.owners, q), covered)


def solve(problem: Problem, *, callback: Callback | None = None) -> Solution[State]:
    """Add prototypes until none lowers the cost; each covers a row more, so there are at most n."""
    return run(iterates(problem), tol=0.0, max_iter=len(problem.codes), callback=callback)


# ---------------------------------------------------------------------- the estimator


def of_norm_one(mixtures: np.ndarray, K: np.ndarray) -> np.ndarray:
    """The columns of `mixtures` (n, c) scaled to norm one in the feature space of K."""
    return mixtures / np.sqrt(np.sum(mixtures * (K @ mixtures), axis=0))


def mean_weights(ready: Ready) -> np.ndarray:
    """Equal weights of the kernels, adding up to one."""
    L = ready.rows.kernels.n_kernels
    return np.full(L, 1.0 / L)


@stored
class PrototypeSelectionClassifier(PrototypeClassifier):
    """Training samples whose balls cover their class and little else, found greedily [Bien2011].

    A prototype is one sample, and represents the samples closer to it than a radius, in the feature space of the mean
    kernel. Samples are added for as long as one covers more new samples of a class than it covers samples of other
    classes. A new row belongs to the class of the nearest prototype.

    X may also be multivariate time series: an array (sample, channel, step) with NaN after the end of a series, or a
    list of arrays (channel, step) of different lengths. Each channel then has a global alignment kernel
    (`tamis.alignment`, which can also cache them); a channel of NaN alone is absent.

    Parameters
    ----------
    radius : float, default=0.1
        Share of the pairs of training samples that are closer than the radius of the balls, from 0 to 1. Smaller values
        give more prototypes; with 0 every sample is one.
    pool : int or None, default=None
        Number of training rows to learn from, drawn from every class in proportion, whatever their order. Kept cases
        are among these, and `pool_error_` is the error on the others. None, or at least as many as there are: all rows.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        Positive semi-definite ones; those without a unit diagonal are normalised. None is a Gaussian on each feature,
        as wide as its standard deviation.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities. None: no `predict_proba`, and a faster fit.
    class_weight : dict, "balanced" or None, default=None
        Multiplies what samples of a class count, covered rightly or wrongly.
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
    radius_ : the radius of the balls, a distance from 0 to 2
    prototypes_ : list of `Prototype`: class, sample, purity of the ball, training samples in it
    prototype_masses_ : (n_classes, n_prototypes), the samples of each class in the balls, as mixtures of norm one
    kernel_weights_, kernel_importance_ : equal weights of the kernels, which add up to one, and as percentages
    instances_, instance_labels_ : training samples that are prototypes, as positions and as index labels
    features_, kernels_, kernel_names_ : features (positions) and kernels that are not constant
    instance_importance_ : the votes of each sample for an output, as signed percentages
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
    A sample may be a prototype of several classes, and of another class than its own. A class whose samples all lie
    among others may have none, with a warning; it is then predicted for no row, except that of two classes calibration
    may place the boundary by the distance to the prototypes of the other.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tamis import PrototypeSelectionClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> clf = PrototypeSelectionClassifier(calibration=None).fit(X, y)
    >>> len(clf.prototypes_) < 50, bool(clf.score(X, y) > 0.95)
    (True, True)
    >>> bool(clf.prototypes_[0].purity > 0.9)
    True
    """

    citation = BIEN2011
    _squares = 3.0

    def __init__(
        self,
        radius: float = 0.1,
        *,
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
        self.radius = radius
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
        check_number("radius", self.radius, 0.0, 1.0)

    @property
    def _owners(self) -> np.ndarray:
        return decide(self.model_.expansion.votes.T)

    def _find(self, ready: Ready) -> Found:
        rows, K = ready.rows, ready.rows.mean
        radius = quantile_radius(K, self.radius)
        problem = Problem(balls_of(K, radius), rows.codes, rows.weight)
        solution = solve(problem, callback=self._log_callback())
        state = solution.state
        balls = problem.balls[state.rows].astype(float)
        U = np.zeros(balls.T.shape)
        U[state.rows, np.arange(len(state.rows))] = 1.0
        return Found(
            U,
            mean_weights(ready),
            K,
            solution,
            codes=balls,
            owners=state.owners,
            mixtures=of_norm_one(balls.T, K),
            attributes={"radius_": radius},
        )

    def _warn(self) -> None:
        super()._warn()
        without = [label for label, n in self.prototypes_per_class_.items() if not n]
        if without and len(self.instances_):
            warn(
                f"{type(self).__name__}: no prototype stands for {without[0]!r}"
                f"{f' and {len(without) - 1} more classes' if len(without) > 1 else ''}, because its samples lie among "
                "others; use a smaller radius, or give the class more weight"
            )

    def summary(self) -> dict[str, Any]:
        own = (
            {"radius": f"{self.radius_:.3g}, above {self.radius:.0%} of distances"} if hasattr(self, "radius_") else {}
        )
        return own | super().summary()
