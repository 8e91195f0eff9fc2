"""Classifiers by the nearest prototype in the mean of the kernels: set cover and vector quantisation."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.data.checks import check_integer, check_number
from tamis.errors import warn
from tamis.methods import kernel_glvq, prototype_selection
from tamis.methods.prototypes import NearestExpansion
from tamis.models.model import decide
from tamis.shells.direct import DirectClassifier
from tamis.shells.parameters import parameters
from tamis.shells.prototypes import Found, PrototypeClassifier, Ready, outputs_of

# [Bien2011] and [Schleif2011], as in docs/references.bib
BIEN2011 = (
    "Bien, Jacob; Tibshirani, Robert (2011). Prototype selection for interpretable classification. The Annals of "
    "Applied Statistics."
)
SCHLEIF2011 = (
    "Schleif, Frank-Michael; Villmann, Thomas; Hammer, Barbara; Schneider, Petra (2011). Efficient kernelized "
    "prototype based classification. International Journal of Neural Systems."
)


class NearestClassifier(PrototypeClassifier, DirectClassifier):
    """Base of the classifiers by the nearest prototype in the mean kernel."""

    def _expansion(
        self, parts: dict[str, Any], masses: np.ndarray, factors: np.ndarray, labels: np.ndarray
    ) -> NearestExpansion:
        """One vote of each prototype for its class; a class without any is further away than a row of norm one can be.

        Class weights have had their say in the choice of the prototypes.
        """
        norms = np.diag(parts.pop("gram")).copy()
        farthest = (1.0 + np.sqrt(norms.max(initial=1.0))) ** 2
        intercept = outputs_of(np.where(masses.any(axis=1), 0.0, -farthest)[:, None])[:, 0]
        return NearestExpansion(**parts, votes=outputs_of(masses), intercept=intercept, norms=norms)

    @property
    def _owners(self) -> np.ndarray:
        return decide(self.model_.expansion.votes.T)


def of_norm_one(mixtures: np.ndarray, K: np.ndarray) -> np.ndarray:
    """The columns of `mixtures` (n, c) scaled to norm one in the feature space of K."""
    return mixtures / np.sqrt(np.sum(mixtures * (K @ mixtures), axis=0))


def mean_weights(ready: Ready) -> np.ndarray:
    """Equal weights of the kernels, adding up to one."""
    L = ready.rows.kernels.n_kernels
    return np.full(L, 1.0 / L)


@stored
@parameters
class PrototypeSelectionClassifier(NearestClassifier):
    """Training samples whose balls cover their class and little else, found greedily [Bien2011].

    A prototype is one sample, and represents the samples closer to it than a radius, in the feature space of the mean
    kernel. Samples are added for as long as one covers more new samples of a class than it covers samples of other
    classes. A new row belongs to the class of the nearest prototype.

    X may also be multivariate time series: an array (sample, channel, step) with NaN after the end of a series, or a
    list of arrays (channel, step) of different lengths. Each channel then has a global alignment kernel
    (`tamis.alignment`, which can also cache them); a channel of NaN alone is absent.

    Parameters
    ----------
    radius : float
        Share of the pairs of training samples that are closer than the radius of the balls, from 0 to 1. Smaller values
        give more prototypes; with 0 every sample is one.
    class_weight : dict, "balanced" or None
        Multiplies what samples of a class count, covered rightly or wrongly.

    Attributes
    ----------
    radius_ : the radius of the balls, a distance from 0 to 2
    prototypes_ : list of `Prototype`: class, sample, purity of the ball, training samples in it
    prototype_masses_ : (n_classes, n_prototypes), the samples of each class in the balls, as mixtures of norm one
    kernel_weights_, kernel_importance_ : equal weights of the kernels, which add up to one, and as percentages
    instances_, instance_labels_ : training samples that are prototypes, as positions and as index labels
    features_, kernels_, kernel_names_ : features (positions) and kernels that are not constant
    instance_importance_ : what each sample says for an output, as signed percentages

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

    radius: float = 0.1

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("radius", self.radius, 0.0, 1.0)

    def _find(self, ready: Ready) -> Found:
        rows, K = ready.rows, ready.rows.mean
        radius = prototype_selection.quantile_radius(K, self.radius)
        problem = prototype_selection.Problem(prototype_selection.balls_of(K, radius), rows.codes, rows.weight)
        solution = prototype_selection.solve(problem, callback=self._progress())
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
            facts={"radius_": radius},
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

    def chosen(self) -> dict[str, Any]:
        own = (
            {"radius": f"{self.radius_:.3g}, above {self.radius:.0%} of distances"} if hasattr(self, "radius_") else {}
        )
        return own | super().chosen()


@stored
@parameters
class KernelGLVQClassifier(NearestClassifier):
    """Generalised learning vector quantisation in the feature space of the mean kernel, sparse [Schleif2011].

    Each class has a few prototypes, mixtures of few training samples whose coefficients may be negative. They move
    towards samples of their class and away from others, by stochastic descent on a smooth count of errors. A new row
    belongs to the class of the nearest prototype.

    X may also be multivariate time series: an array (sample, channel, step) with NaN after the end of a series, or a
    list of arrays (channel, step) of different lengths. Each channel then has a global alignment kernel
    (`tamis.alignment`, which can also cache them); a channel of NaN alone is absent.

    Parameters
    ----------
    n_prototypes : int
        Prototypes of each class (half as many as it has distinct samples, if these are fewer).
    max_samples : int
        Most samples in a prototype. More decide better and are harder to look at; with as many as there are training
        samples this is the method without sparseness.
    learning_rate : float
        Of the first steps; it falls to a half in ten epochs.
    class_weight : dict, "balanced" or None
        Multiplies the steps that samples of a class make.
    tol : float
        Relative change of the objective, in each of three epochs, at which the fit stops.
    max_iter : int
        Most epochs.
    random_state : int, RandomState or None
        For the start, the order of the samples and the calibration folds. None is as good as 0.

    Attributes
    ----------
    prototypes_ : list of `Prototype`: class, samples with weights, purity, training samples nearest to it
    prototype_masses_ : (n_classes, n_prototypes), the moduli of the weights, scaled to mixtures of norm one, of the
        samples of each class added up
    kernel_weights_, kernel_importance_ : equal weights of the kernels, which add up to one, and as percentages
    instances_, instance_labels_ : training samples in some prototype, as positions and as index labels
    features_, kernels_, kernel_names_ : features (positions) and kernels that are not constant
    instance_importance_ : what each sample says for an output through all prototypes, as signed percentages

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

    n_prototypes: int = 3
    max_samples: int = 5
    _: KW_ONLY
    learning_rate: float = 0.1
    tol: float = 1e-3
    max_iter: int = 200

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("n_prototypes", self.n_prototypes, 1)
        check_integer("max_samples", self.max_samples, 1)
        check_number("learning_rate", self.learning_rate, 0.0, strict=True)

    def _find(self, ready: Ready) -> Found:
        rows, K = ready.rows, ready.rows.mean
        problem = kernel_glvq.Problem(K, rows.codes, rows.weight, self.max_samples)
        begun = kernel_glvq.start(problem, self.n_prototypes, self._seed)
        solution = kernel_glvq.solve(
            problem,
            begun,
            rate=self.learning_rate,
            seed=self._seed,
            tol=self.tol,
            max_iter=self.max_iter,
            callback=self._progress(),
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

    def chosen(self) -> dict[str, Any]:
        return {"most samples in a prototype": self.max_samples, **super().chosen()}
