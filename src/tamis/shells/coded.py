"""What classifiers with sparse codes over prototypes offer."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from tamis.errors import warn
from tamis.explain import measures
from tamis.models.model import decide
from tamis.shells.device import OnDevice
from tamis.shells.parameters import parameters
from tamis.shells.prototypes import PrototypeClassifier

CODED = 0.5  # share of training samples that prototypes should represent


@parameters
class CodingClassifier(OnDevice, PrototypeClassifier):
    """Base of the classifiers with sparse codes.

    Parameters
    ----------
    n_prototypes : int or None
        Prototypes per class on average (all samples of a smaller class); None is the prototype size.
    n_neighbors : int or None
        Neighbours of each sample in its class, and in the others; None is the prototype size.
    weight_step : {"align", "graph", "lp", "ball", "entropy", "uniform"}
        How kernels are weighed. "align": by resemblance to what the prototypes call for, sparse. "graph": by
        neighbours of the same and of other classes alone, after DKMLD. "lp": the published linear program, which
        keeps one kernel. "ball" and "entropy": many kernels. "uniform": the mean kernel, the published ISKPL.
    spread : float or None
        For "ball" the effective number of kernels (None: a quarter of them); for "entropy" the temperature, in
        standard deviations of the kernels' costs (None: 1).
    max_kernels : int or None
        For "align" and "graph", most kernels with a weight.
    start : {"greedy", "random"}
        First prototypes: rows that rebuild the others best, as many for a class as it takes, or random rows, the same
        number for each class.
    class_weight : dict, "balanced" or None
        Multiplies what samples of a class count in the fit and what they say for it in a decision.
    tol : float
        Relative change of the objective at which the fit stops.
    max_iter : int
        Most rounds.
    random_state : int, RandomState or None
        For random starts and the folds. None is as good as 0.

    Attributes
    ----------
    prototypes_ : list of `Prototype`: class, samples with weights, purity, training samples it represents
    prototype_masses_ : (n_classes, n_prototypes), the weights of the samples of each class added up
    codes_ : sparse array (n_samples, n_prototypes), the codes of the training samples, which know their classes:
        `encode` does not, and represents a sample by prototypes of other classes more often; not in a model file
    code_violation_ : largest relative violation of the optimality conditions of these codes, rounding where all is well
    instances_, instance_labels_ : training samples in some prototype, as positions and as index labels
    instance_importance_ : what each sample says for an output through all prototypes, as signed percentages
    """

    _: KW_ONLY
    n_prototypes: int | None = None
    n_neighbors: int | None = None
    weight_step: str = "align"
    spread: float | None = None
    max_kernels: int | None = None
    start: str = "greedy"
    tol: float = 1e-3
    max_iter: int = 50

    @property
    def codes_(self) -> csr_array:
        """Codes (n_samples, n_prototypes) of the training samples; zero for samples of weight zero."""
        check_is_fitted(self)
        if getattr(self, "_codes", None) is None:
            raise AttributeError("the codes of training samples are not kept in files: use encode(X)")
        return self._codes

    def encode(self, X: Any) -> csr_array:
        """Sparse codes (n_samples, n_prototypes): how much of each prototype is in each row."""
        return csr_array(self._row_codes(self._similarity(X)))

    def represented(self, X: Any) -> list[np.ndarray]:
        """For each prototype the rows of X that it represents by their codes, the largest first."""
        codes = self.encode(X).toarray()
        return [np.argsort(-column, kind="stable")[: np.count_nonzero(column)] for column in codes.T]

    def _warn(self) -> None:
        super()._warn()
        share = float(np.mean(np.diff(self.codes_.indptr) > 0))
        if share < CODED:
            warn(
                f"{type(self).__name__}: prototypes represent {100 * share:.0f}% of the training samples only; under "
                "these kernels most resemble no other: use wider kernels, and look at missing cells and outliers",
            )

    def _row_codes(self, similarity: np.ndarray) -> np.ndarray:
        return self.model_.expansion.codes(similarity)

    def prototype_measures(self, X: Any, y: Any) -> dict[str, float]:
        """Quality of the prototypes [Hosseini2019, Sect. 5.2], in per cent, on rows that the fit should not have seen.

        Returns
        -------
        dict with `accuracy`, `interpretability` (IP), `discrimination` (DR), `accuracy_at_one` and
        `discrimination_at_one` (codes of one prototype), `empty` (prototypes that no row of X uses; they do not count
        in DR), `n_kernels` and `effective_kernels` (``1 / sum weights^2``)
        """
        check_is_fitted(self)
        similarity, expansion = self._similarity(X), self.model_.expansion
        truth = np.asarray(y)
        out: dict[str, float] = {}
        for name, size in (("", expansion.code_size), ("_at_one", 1)):
            codes = replace(expansion, code_size=size).codes(similarity)
            predicted = self.classes_[decide(codes @ expansion.votes.T + self.intercept_)]
            out[f"accuracy{name}"] = 100.0 * float(np.mean(predicted == truth))
            out[f"discrimination{name}"], empty = measures.discriminative_representation(
                codes, self.prototype_labels_, truth
            )
            if not name:
                out["empty"] = empty
        return out | self._measures()
