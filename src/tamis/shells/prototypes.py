"""The shell of the classifiers that decide by prototypes: few training rows each, in a weighted mean of kernels.

A method derives from `PrototypeClassifier` and adds its parameters and ``_find``, which sees kernels of unit diagonal
between training rows and their classes, and ``_expansion``, which says how prototypes decide.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from tamis.data.encoding import Number
from tamis.data.rows import Rows, by_class, merge_places
from tamis.errors import warn
from tamis.expansion import kept_parts
from tamis.explain import measures, signed_percentages
from tamis.explain.prototypes import PrototypeExplanation
from tamis.kernels.normalised import unit_bank
from tamis.kernels.recipes import Recipe, per_feature
from tamis.kernels.spectrum import check_positive
from tamis.kernels.unit import LabelledRows, UnitKernels
from tamis.methods.prototypes import PrototypeExpansion
from tamis.models.bill import Bill, Size, kept_values, square_bill
from tamis.models.calibration import Calibrator
from tamis.models.model import Groundwork, Model
from tamis.optim.driver import Solution
from tamis.shells.explaining import measured_variation
from tamis.shells.extending import Extending
from tamis.shells.pooled import Pooled
from tamis.shells.series import OnSeries
from tamis.shells.stacked import WIDTH, told_weights

STEADY = 1e-7  # range, relative to the size of the numbers, up to which a column counts as constant
DENSE = 1 << 31  # bytes that all kernel values may take; beyond, kernels are held as short factors


@dataclass(frozen=True)
class Ready:
    """Training rows with kernels of unit diagonal.

    Attributes
    ----------
    ground : the way back to a model
    chosen : (f,) the kernels that vary over the rows, as positions in the bank
    rows : these kernels, classes and weights
    scaled : names of the kernels that had to be scaled to unit diagonal
    """

    ground: Groundwork
    chosen: np.ndarray
    rows: LabelledRows
    scaled: list[str]


@dataclass(frozen=True)
class Found:
    """What a method makes of training rows.

    Attributes
    ----------
    U : (n, c) prototypes, one in each column
    weights : (f,) of the kernels, adding up to one
    K : (n, n) the combined kernel
    solution : how the run went
    codes : (c, n) of the training rows, non-zero for those that a prototype represents, where the method knows them
    owners : (c,) class of each prototype; None is the one with most of its samples
    mixtures : (n, c) non-negative, of norm one: what prototypes are judged by; None is U
    facts : learned attributes that only this method has
    """

    U: np.ndarray
    weights: np.ndarray
    K: np.ndarray
    solution: Solution
    codes: np.ndarray | None = None
    owners: np.ndarray | None = None
    mixtures: np.ndarray | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def masses(self, codes: np.ndarray, n_classes: int) -> np.ndarray:
        """Mass (classes, c) of each class in each prototype, from the classes (n,) of the rows."""
        mixtures = self.U if self.mixtures is None else self.mixtures
        return (codes == np.arange(n_classes)[:, None]).astype(float) @ mixtures


@dataclass(frozen=True)
class Prototype:
    """A group of training samples that stands for a part of a class.

    Attributes
    ----------
    label : its class
    instances, instance_labels : its samples, as positions in the training data and as index labels
    weights : of the samples
    purity : share of the weights that belongs to samples of its class
    represents : positions of the training samples that it represents, by codes that know their classes; None for a
        model from a file
    """

    label: Any
    instances: np.ndarray
    instance_labels: np.ndarray
    weights: np.ndarray
    purity: float
    represents: np.ndarray | None

    def __len__(self) -> int:
        return len(self.instances)


class PrototypeClassifier(Extending, Pooled, OnSeries):
    """Base of the classifiers by prototypes.

    Parameters
    ----------
    kernels : None, recipe, KernelBank or list of (name, kernel, columns)
        Positive semi-definite ones; those without a unit diagonal are normalised. None is a Gaussian on each feature,
        as wide as its standard deviation.
    calibration : int or None
        Folds that fit the probabilities; None: no `predict_proba`, and a faster fit.

    Attributes
    ----------
    prototype_labels_ : the class of each prototype
    prototypes_per_class_ : how many each class has
    normalised_kernels_ : names of kernels that had no unit diagonal
    kernel_weights_ : weights of the kept kernels, which add up to one
    kernel_importance_ : the same as percentages
    """

    _placed = True
    _recipe: ClassVar[Recipe] = per_feature()
    _squares: ClassVar[float] = 3.0  # matrices between all rows that the method holds at its peak

    @abstractmethod
    def _find(self, ready: Ready) -> Found:
        """Find prototypes and kernel weights."""

    @abstractmethod
    def _expansion(
        self, parts: dict[str, Any], masses: np.ndarray, factors: np.ndarray, labels: np.ndarray
    ) -> PrototypeExpansion:
        """Decisions from the parts of an expansion and the masses (classes, c) of each class in the prototypes.

        Where prototypes have owners all of their mass is there. `factors` (classes,) are the weights of the classes,
        `labels` (k,) the classes of the kept samples.
        """

    # ------------------------------------------------------------------ fitting

    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        _, places = merge_places(rows)
        model, calibrator = super()._select(rows)
        codes = self.__dict__.pop("_merged_codes", None)
        self._codes = None
        if codes is not None:
            spread = np.where((places >= 0)[:, None], codes.T[places], 0.0)
            self._codes = csr_array(spread)
        return model, calibrator

    @property
    def _choices(self) -> dict[str, Any]:
        given = getattr(self, "_given", None)
        return super()._choices if given is None else {"kernels": given[1]}

    def _bill(self, size: Size) -> Bill:
        kept = size.values if size.values <= DENSE else kept_values(size, "factored")
        return {**super()._bill(size), **square_bill(size, kept, self._squares, self._device)}

    def _learn(self, rows: Rows, *, quick: bool = False) -> Model:
        ready = self._ready(rows)
        if not quick:
            check_positive(ready.ground.bank, ready.ground.pool.Z, self._seed)
            self._tell(ready)
        found = self._find(ready)
        model, masses = self._model(ready, found, by_class(rows.weight / rows.mass, rows.codes, len(rows.classes)))
        if quick:
            return model
        self._merged_codes, self.prototype_masses_ = found.codes, masses
        for name, value in found.facts.items():
            setattr(self, name, value)
        return replace(model, variation=measured_variation(model, rows))  # series may stand for the rows later

    def _ready(self, rows: Rows) -> Ready:
        encoded = self._encoded(rows, rows.table.numbers.shape[1], "streaming")
        prepared = encoded.prepare(self._bank_source(), self._recipe, WIDTH)
        Z = prepared.pool.Z
        bank, scaled = unit_bank(prepared.bank, Z)
        dense = bank.positions or 8 * len(bank) * len(Z) ** 2 <= DENSE
        kernels = UnitKernels(bank.stack(Z, form="dense" if dense else "factored", device=self._device))
        steady = np.array([_is_steady(column) for column in prepared.encoder.columns])
        varying = [k for k in kernels.varying if not steady[list(bank.channels[k].columns)].all()]
        chosen = np.array(varying or range(len(bank)), dtype=int)
        ground = Groundwork(prepared.encoder, bank, prepared.pool)
        weight = rows.weight / rows.weight.mean()  # of distinct rows: only ratios matter
        return Ready(ground, chosen, LabelledRows(kernels.take(chosen), rows.codes, weight), scaled)

    def _tell(self, ready: Ready) -> None:
        """Say what was done to the kernels."""
        self.normalised_kernels_ = list(ready.scaled)
        self._measure(ready.ground.bank)
        if ready.scaled:
            more = f" and {len(ready.scaled) - 1} more" if len(ready.scaled) > 1 else ""
            warn(
                f"kernels: {ready.scaled[0]!r}{more} without ones on the diagonal: values are divided by "
                "sqrt(k(x, x) k(z, z)); see normalised_kernels_",
            )

    def _model(self, ready: Ready, found: Found, factors: np.ndarray) -> tuple[Model, np.ndarray]:
        """The smallest model with these prototypes, and the mass (classes, c) of each class in each of them."""
        rows, weighted = np.flatnonzero(found.U.any(axis=1)), np.flatnonzero(found.weights)
        kernels = ready.chosen[weighted]
        pool, U = ready.ground.pool.take(rows), found.U[rows]
        bank, instances, columns = kept_parts(ready.ground.bank.take(kernels), pool.Z)
        masses = found.masses(ready.rows.codes, len(factors))
        owned = masses if found.owners is None else np.eye(len(factors))[:, found.owners]
        parts = {
            "bank": bank,
            "instances": instances,
            "weights": found.weights[weighted],
            "prototypes": U,
            "gram": U.T @ found.K[np.ix_(rows, rows)] @ U,
        }
        solution = replace(found.solution, state=None, history=found.solution.history.of_kernels(weighted))
        expansion = self._expansion(parts, owned, factors, pool.codes)
        encoder = ready.ground.encoder.select(columns)
        return Model(encoder, expansion, columns, kernels, pool.position, (solution,)), masses

    # ------------------------------------------------------------------ what was learned

    def _publish(self, classes: np.ndarray, model: Model, calibrator: Any, shares: Any) -> None:
        super()._publish(classes, model, calibrator, shares)
        expansion = model.expansion
        self.kernel_weights_ = expansion.weights
        self.kernel_importance_ = signed_percentages(expansion.weights)
        votes = signed_percentages(expansion.votes @ expansion.prototypes.T)
        self.instance_importance_ = votes[0] if len(votes) == 1 else votes

    @property
    def prototype_labels_(self) -> np.ndarray:
        """The class of each prototype."""
        check_is_fitted(self)
        return self.classes_[self._owners]

    @property
    def _owners(self) -> np.ndarray:
        """The class of each prototype (c,), as an index."""
        return np.argmax(self.prototype_masses_, axis=0)

    @property
    def prototypes_(self) -> list[Prototype]:
        """The prototypes: class, samples with weights, purity, and the training samples that each represents."""
        check_is_fitted(self)
        masses, U = self.prototype_masses_, self.model_.expansion.prototypes
        codes = getattr(self, "_codes", None)
        out = []
        for j, (owner, label) in enumerate(zip(self._owners, self.prototype_labels_.tolist(), strict=True)):
            members = np.flatnonzero(U[:, j])
            members = members[np.argsort(-np.abs(U[members, j]), kind="stable")]
            out.append(
                Prototype(
                    label,
                    self.instances_[members],
                    self.instance_labels_[members],
                    U[members, j],
                    float(masses[owner, j] / masses[:, j].sum()),
                    None if codes is None else np.flatnonzero(codes[:, [j]].toarray()[:, 0]),
                )
            )
        return out

    @property
    def prototypes_per_class_(self) -> dict[Any, int]:
        """How many prototypes each class has."""
        labels = self.prototype_labels_.tolist()
        return {label: labels.count(label) for label in self.classes_.tolist()}

    def oriented(self, positive: Any) -> Self:
        other = super().oriented(positive)
        if other is not self:
            other.prototype_masses_ = self.prototype_masses_[::-1]
            other.instance_importance_ = -self.instance_importance_
        return other

    def chosen(self) -> dict[str, Any]:
        if not hasattr(self, "model_"):
            return {}
        found = {"prototypes": ", ".join(f"{n} of {label}" for label, n in self.prototypes_per_class_.items())}
        weights = told_weights(self.kernel_names_, self.kernel_weights_)
        return {**found, "weights of kernels": weights, **super().chosen()}

    def prototype_measures(self, X: Any, y: Any) -> dict[str, float]:
        """Quality of the prototypes [Hosseini2019, Sect. 5.2], on rows that the fit should not have seen.

        Returns
        -------
        dict with `accuracy` and `interpretability` (IP), in per cent, `n_kernels` and `effective_kernels`
        (``1 / sum weights^2``)
        """
        right = self.predict(X) == np.asarray(y)
        return {"accuracy": 100.0 * float(np.mean(right)), **self._measures()}

    def _measures(self) -> dict[str, float]:
        """The measures that need no rows."""
        masses, weights = self.prototype_masses_, self.kernel_weights_
        norms = np.ones(masses.shape[1])
        return {
            "interpretability": measures.interpretability(masses, norms) if len(norms) else float("nan"),
            "n_kernels": len(weights),
            "effective_kernels": 1.0 / float(weights @ weights),
        }

    # ------------------------------------------------------------------ using it

    def _similarity(self, X: Any) -> np.ndarray:
        """Combined kernel values (rows, k) with the kept samples."""
        model, table = self._seen(X)
        return model.expansion.similarity(model.encode(table))

    def kernel_matrix(self, X: Any, Y: Any = None) -> np.ndarray:
        """The learned combination of kernels between the rows of X and of Y (default: X), for other kernel methods."""
        if hasattr(self, "series_"):
            return self._aligned(X, Y)
        model, left = self._seen(X)
        if model.expansion.bank.positions:
            raise ValueError(
                "a model on precomputed kernels keeps their values for its own samples only: the learned kernel is "
                "np.tensordot(clf.kernel_weights_, stack[clf.kernels_], axes=1)"
            )
        right = left if Y is None else self._seen(Y)[1]
        expansion = model.expansion
        other = replace(expansion, instances=model.encode(right))
        K = other.similarity(model.encode(left))
        if Y is None:
            np.fill_diagonal(K, expansion.weights.sum())
        return K

    def prototype_distances(self, X: Any) -> np.ndarray:
        """Squared distances (rows, c) to the prototypes in the feature space of the learned kernel, where rows have
        norm one: ``1 + u'K u - 2 u'K(kept samples, x)``."""
        check_is_fitted(self)
        expansion = self.model_.expansion
        return np.maximum(1.0 + expansion.norms - 2.0 * self._similarity(X) @ expansion.prototypes, 0.0)

    def extended(self, values: Any) -> Self:
        if getattr(self, "normalised_kernels_", None):
            raise ValueError(
                f"the kernel {self.normalised_kernels_[0]!r} was scaled to unit diagonal, and the values of new items "
                "with themselves are not known: fit with kernels of unit diagonal, k(x, z) / sqrt(k(x, x) k(z, z))"
            )
        return super().extended(values)

    def explain(self, X: Any) -> PrototypeExplanation:
        """Split decisions into the contributions of samples and kernels, and into those of prototypes."""
        base = super().explain(X)
        expansion, similarity = self.model_.expansion, self._similarity(X)
        return PrototypeExplanation(
            **vars(base),
            by_prototype=expansion.by_prototype(similarity),
            mixtures=expansion.prototypes,
            labels=self.prototype_labels_.tolist(),
            codes=self._row_codes(similarity),
        )

    def _row_codes(self, similarity: np.ndarray) -> np.ndarray | None:
        """Codes (rows, c), where the method has codes."""
        return None


def _is_steady(column: Any) -> bool:
    """Whether a column of numbers varies by no more than rounding."""
    if not isinstance(column, Number):
        return False
    return column.high - column.low <= STEADY * max(abs(column.low), abs(column.high))


def outputs_of(votes: np.ndarray) -> np.ndarray:
    """What prototypes say for outputs (q, c), from votes for classes (classes, c): of two the second less the first."""
    return votes[1:] - votes[:1] if len(votes) == 2 else votes
