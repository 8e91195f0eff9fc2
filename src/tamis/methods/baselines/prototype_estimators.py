"""Classifiers by the nearest prototype in the mean of the kernels: set cover and vector quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.base.citations import BIEN2011, SCHLEIF2011
from tamis.base.model import decide
from tamis.base.prototype_expansion import NearestExpansion
from tamis.base.prototypes import Found, PrototypeClassifier, Ready, outputs_of
from tamis.codec import stored
from tamis.errors import warn
from tamis.methods.baselines import kernel_glvq, prototype_selection
from tamis.table.checks import check_integer, check_number


def nearest_expansion(parts: dict[str, Any], masses: np.ndarray) -> NearestExpansion:
    """One vote of each prototype for its class; a class without any is further away than a row of norm one can be.

    Class weights have their effect in the choice of the prototypes.
    """
    norms = np.diag(parts.pop("gram")).copy()
    farthest = (1.0 + np.sqrt(norms.max(initial=1.0))) ** 2
    intercept = outputs_of(np.where(masses.any(axis=1), 0.0, -farthest)[:, None])[:, 0]
    return NearestExpansion(**parts, votes=outputs_of(masses), intercept=intercept, norms=norms)


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
    radius_ : the radius of the balls, a distance from 0 to 2
    prototypes_ : list of `Prototype`: class, sample, purity of the ball, training samples in it
    prototype_masses_ : (n_classes, n_prototypes), the samples of each class in the balls, as mixtures of norm one
    kernel_weights_, kernel_importance_ : equal weights of the kernels, which add up to one, and as percentages
    instances_, instance_labels_ : training samples that are prototypes, as positions and as index labels
    features_, kernels_, kernel_names_ : features (positions) and kernels that are not constant
    instance_importance_ : what each sample says for an output, as signed percentages
    prototype_labels_ : the class of each prototype
    prototypes_per_class_ : how many each class has
    normalised_kernels_ : names of kernels that had no unit diagonal
    pool_error_ : where a pool was drawn, the share of other training rows (up to 20 000 of them, by their weights) that
        are predicted wrong
    classes_ : the class labels, sorted; of two the second is the positive one
    instances_per_class_ : the instances of each output
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

    def _expansion(
        self, parts: dict[str, Any], masses: np.ndarray, factors: np.ndarray, labels: np.ndarray
    ) -> NearestExpansion:
        return nearest_expansion(parts, masses)

    @property
    def _owners(self) -> np.ndarray:
        return decide(self.model_.expansion.votes.T)

    def _find(self, ready: Ready) -> Found:
        rows, K = ready.rows, ready.rows.mean
        radius = prototype_selection.quantile_radius(K, self.radius)
        problem = prototype_selection.Problem(prototype_selection.balls_of(K, radius), rows.codes, rows.weight)
        solution = prototype_selection.solve(problem, callback=self._log_callback())
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
                "others; use a smaller radius, or give the class more weight",
            )

    def summary(self) -> dict[str, Any]:
        own = (
            {"radius": f"{self.radius_:.3g}, above {self.radius:.0%} of distances"} if hasattr(self, "radius_") else {}
        )
        return own | super().summary()


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
        "standard": numbers are scaled to mean zero and variance one; "rank": replaced by ranks, which suits columns
        with long tails; None: used as they are.
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
    instance_importance_ : what each sample says for an output through all prototypes, as signed percentages
    prototype_labels_ : the class of each prototype
    prototypes_per_class_ : how many each class has
    normalised_kernels_ : names of kernels that had no unit diagonal
    pool_error_ : where a pool was drawn, the share of other training rows (up to 20 000 of them, by their weights) that
        are predicted wrong
    classes_ : the class labels, sorted; of two the second is the positive one
    instances_per_class_ : the instances of each output
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

    def _expansion(
        self, parts: dict[str, Any], masses: np.ndarray, factors: np.ndarray, labels: np.ndarray
    ) -> NearestExpansion:
        return nearest_expansion(parts, masses)

    @property
    def _owners(self) -> np.ndarray:
        return decide(self.model_.expansion.votes.T)

    def _find(self, ready: Ready) -> Found:
        rows, K = ready.rows, ready.rows.mean
        problem = kernel_glvq.Problem(K, rows.codes, rows.weight, self.max_samples)
        begun = kernel_glvq.start(problem, self.n_prototypes, ready.seed)
        solution = kernel_glvq.solve(
            problem,
            begun,
            rate=self.learning_rate,
            seed=ready.seed,
            tol=self.tol,
            max_iter=self.max_iter,
            callback=self._log_callback(),
        )
        state = solution.state
        d = kernel_glvq.squared_distances(K, state.coef)
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
