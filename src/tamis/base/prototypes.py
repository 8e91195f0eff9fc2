"""PrototypeClassifier: decisions by prototypes, few training rows each, in a weighted mean of kernels.

A method brings ``_find``, which sees kernels of unit diagonal between training rows and their classes. The nearest
prototype decides, unless the method has an ``_expansion`` of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from tamis.base.classifier import ReadableClassifier
from tamis.base.estimator import blockwise
from tamis.base.kernel_model import KernelModel, kept_parts
from tamis.base.kernel_space import KernelSpace, ModelBuilder
from tamis.base.memory import MemoryEstimate, Size, kept_values, square_memory
from tamis.base.model import FitContext, Fitted
from tamis.base.prototype_expansion import NearestExpansion, PrototypeExpansion
from tamis.base.stack_classifier import extended, largest_weights, sizes_of, with_bank
from tamis.errors import warn
from tamis.explain import measures, signed_percentages
from tamis.explain.kernel_explanation import PrototypeExplanation
from tamis.kernels.alignment import Aligned, AlignmentKernels, alignment
from tamis.kernels.bank import Channel, KernelBank, check_positive
from tamis.kernels.global_alignment import align, check_series, is_series, lengths_of
from tamis.kernels.precomputed import Precomputed, PrecomputedKernels
from tamis.kernels.recipes import Recipe, per_feature
from tamis.kernels.spectrum import LabelledRows, UnitKernels, unit_bank
from tamis.optim.driver import Solution
from tamis.table.encoding import Encoder, Position
from tamis.table.rows import Rows, by_class, merge_places
from tamis.table.table import Table, TableReader

STEADY = 1e-14  # range, relative to the size of the numbers, up to which a column counts as constant
DENSE_BYTES = 1 << 31  # bytes that all kernel values may take; beyond, kernels are held as short factors


@dataclass(frozen=True)
class Ready:
    """Training rows with kernels of unit diagonal."""

    builder: ModelBuilder  # the parts from which a model is built
    chosen: np.ndarray  # (f,) the kernels that vary over the rows, as positions in the bank
    rows: LabelledRows  # these kernels, classes and weights
    scaled: list[str]  # names of the kernels that had to be scaled to unit diagonal
    seed: int  # of everything random


@dataclass(frozen=True)
class Found:
    """What a method makes of training rows."""

    U: np.ndarray  # (n, c) prototypes, one in each column
    weights: np.ndarray  # (f,) of the kernels, adding up to one
    K: np.ndarray  # (n, n) the combined kernel
    solution: Solution  # how the run went
    # (c, n) of the training rows, non-zero for those that a prototype represents, where the method knows them
    codes: np.ndarray | None = None
    owners: np.ndarray | None = None  # (c,) class of each prototype; None is the one with most of its samples
    mixtures: np.ndarray | None = None  # (n, c) non-negative, of norm one: what prototypes are judged by; None is U
    attributes: Mapping[str, Any] = field(default_factory=dict)  # learned attributes that only this method has

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


class PrototypeClassifier(ReadableClassifier):
    """Base of the classifiers by prototypes; X may be series (sample, channel, step) as well as a table."""

    _has_margin = True
    _pools = True
    _recipe: ClassVar[Recipe] = per_feature()
    _squares: ClassVar[float] = 3.0  # matrices between all rows that the method holds at its peak

    device: str | None = None  # a parameter, set by the constructors of those that have it

    model_: KernelModel
    series_: Aligned
    prototype_masses_: np.ndarray
    n_kernels_: int
    n_items_: int

    @abstractmethod
    def _find(self, ready: Ready) -> Found:
        """Return prototypes and kernel weights."""

    def _expansion(
        self, parts: dict[str, Any], masses: np.ndarray, factors: np.ndarray, labels: np.ndarray
    ) -> PrototypeExpansion:
        """Decisions from the parts of an expansion and the masses (classes, c) of each class in the prototypes.

        Where prototypes have owners all of their mass is there. `factors` (classes,) are the weights of the classes,
        `labels` (k,) the classes of the kept samples.

        By default the nearest prototype decides, by one vote for its class. A class without any is further away than a
        row of norm one can be. Class weights have their effect in the choice of the prototypes.
        """
        norms = np.diag(parts.pop("gram")).copy()
        farthest = (1.0 + np.sqrt(norms.max(initial=1.0))) ** 2
        intercept = outputs_of(np.where(masses.any(axis=1), 0.0, -farthest)[:, None])[:, 0]
        return NearestExpansion(**parts, votes=outputs_of(masses), intercept=intercept, norms=norms)

    # ------------------------------------------------------------------ fitting

    def _read_training(self, X: Any) -> tuple[Table, TableReader, Mapping[str, Any]]:
        if not is_series(X):
            return super()._read_training(X)
        with self._logging_progress():
            kernels = align_training(X, self.kernels, self.missing, self.n_jobs)
        n = kernels.stack.shape[1]
        if self.pool is not None and self.pool < n:
            raise ValueError(f"pool={self.pool!r} is for tables, and X holds series: give fewer of them")
        self.n_features_in_ = len(kernels.names)
        return position_table(np.arange(n), ("sample",)), TableReader(None, True), {"kernels": kernels}

    def _fit_rows(self, rows: Rows, context: FitContext) -> Fitted:
        return self._complete(super()._fit_rows(rows, context), rows, context)

    def _complete(self, fitted: Fitted, rows: Rows, context: FitContext) -> Fitted:
        """Codes of the rows of the input in place of merged rows, and kept series in place of all."""
        model, attributes = cast(KernelModel, fitted.model), dict(fitted.attributes)
        codes = attributes.pop("_codes")
        if codes is not None:
            _, places = merge_places(rows)
            codes = csr_array(np.where((places >= 0)[:, None], codes.T[places], 0.0))
        series = next((k for k in context.kernels.values() if isinstance(k, SeriesKernels)), None)
        if series is not None and series.aligned is not None:
            model, attributes["series_"] = on_kept_series(model, series.aligned)
        return Fitted(model, fitted.calibrator, {**attributes, "_codes": codes})

    def _memory(self, size: Size) -> MemoryEstimate:
        kept = size.values if size.values <= DENSE_BYTES else kept_values(size, "factored")
        return {**super()._memory(size), **square_memory(size, kept, self._squares, self.device)}

    def _learn(self, rows: Rows, context: FitContext) -> tuple[KernelModel, Mapping[str, Any]]:
        ready = self._ready(rows, context.kernel, context.seed)
        if not context.rough:
            check_positive(ready.builder.bank, ready.builder.pool.Z, context.seed)
            self._warn_kernels(ready)
        found = self._find(ready)
        model, masses = self._model(ready, found, by_class(rows.weight / rows.mass, rows.codes, len(rows.classes)))
        if context.rough:
            return model, {}
        attributes = {
            **self._report(model),
            "normalised_kernels_": list(ready.scaled),
            "prototype_masses_": masses,
            "_codes": found.codes,
            **sizes_of(ready.builder.bank),
            **found.attributes,
        }
        return replace(model, variation=model.measured_shares(rows)), attributes  # series may stand for rows later

    def _report(self, model: KernelModel) -> dict[str, Any]:
        """The learned attributes that follow from the expansion."""
        expansion = model.expansion
        votes = signed_percentages(expansion.votes @ expansion.prototypes.T)
        return {
            "kernel_weights_": expansion.weights,
            "kernel_importance_": signed_percentages(expansion.weights),
            "instance_importance_": votes[0] if len(votes) == 1 else votes,
        }

    def _ready(self, rows: Rows, kernels: Any, seed: int) -> Ready:
        """Kernels of unit diagonal between merged rows."""
        prepared = KernelSpace(self._recipe, "streaming", self.scaling, self.missing).prepare(rows, kernels, seed)
        Z = prepared.pool.Z
        bank, scaled = unit_bank(prepared.bank, Z)
        dense = bank.positions or 8 * len(bank) * len(Z) ** 2 <= DENSE_BYTES
        units = UnitKernels(bank.stack(Z, form="dense" if dense else "factored", device=self.device))
        steady = np.array([_is_steady(column) for column in prepared.encoder.columns])
        varying = [k for k in units.varying if not steady[list(bank.channels[k].columns)].all()]
        chosen = np.array(varying or range(len(bank)), dtype=int)
        builder = ModelBuilder(prepared.encoder, bank, prepared.pool)
        weight = rows.weight / rows.weight.mean()  # of distinct rows: only ratios matter
        return Ready(builder, chosen, LabelledRows(units.take(chosen), rows.codes, weight), scaled, seed)

    def _warn_kernels(self, ready: Ready) -> None:
        """Warn of what was done to the kernels."""
        if ready.scaled:
            more = f" and {len(ready.scaled) - 1} more" if len(ready.scaled) > 1 else ""
            warn(
                f"kernels: {ready.scaled[0]!r}{more} without ones on the diagonal: values are divided by "
                "sqrt(k(x, x) k(z, z)); see normalised_kernels_"
            )

    def _model(self, ready: Ready, found: Found, factors: np.ndarray) -> tuple[KernelModel, np.ndarray]:
        """The smallest model with these prototypes, and the mass (classes, c) of each class in each of them."""
        rows, weighted = np.flatnonzero(found.U.any(axis=1)), np.flatnonzero(found.weights)
        kernels = ready.chosen[weighted]
        pool, U = ready.builder.pool.take(rows), found.U[rows]
        bank, instances, columns = kept_parts(ready.builder.bank.take(kernels), pool.Z)
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
        encoder = ready.builder.encoder.select(columns)
        return KernelModel(encoder, columns, pool.position, expansion, kernels, (solution,)), masses

    # ------------------------------------------------------------------ what was learned

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

    def _turn_signs(self) -> None:
        super()._turn_signs()
        self.prototype_masses_ = self.prototype_masses_[::-1]

    def _seen(self, X: Any) -> tuple[KernelModel, Table]:
        check_is_fitted(self)
        if not hasattr(self, "series_"):
            return self.model_, self._table(X)
        if not is_series(X):
            raise ValueError("X is a table, and this classifier was fitted to series: give (sample, channel, step)")
        channels = kept_channels(X, self.n_features_in_, self.kernels_)
        return with_new_series(self.model_, self.series_, channels, self.n_jobs)

    def summary(self) -> dict[str, Any]:
        """Return the choices of the fit in words, {what: value}; empty where there is nothing to report."""
        if not hasattr(self, "model_"):
            return {}
        found = {"prototypes": ", ".join(f"{n} of {label}" for label, n in self.prototypes_per_class_.items())}
        weights = largest_weights(self.kernel_names_, self.kernel_weights_)
        return {**found, "weights of kernels": weights, **super().summary()}

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

    @blockwise
    def _similarity(self, X: Any) -> np.ndarray:
        """Combined kernel values (rows, k) with the kept samples."""
        model, table = self._seen(X)
        return model.expansion.similarity(model.encode(table))

    def kernel_matrix(self, X: Any, Y: Any = None) -> np.ndarray:
        """The learned combination of kernels between the rows of X and of Y (default: X), for other kernel methods."""
        if hasattr(self, "series_"):
            left = kept_channels(X, self.n_features_in_, self.kernels_)
            right = None if Y is None else kept_channels(Y, self.n_features_in_, self.kernels_)
            values = align(left, right, bandwidths=self.series_.bandwidths, n_jobs=self.n_jobs)
            return np.tensordot(self.model_.expansion.weights, values, axes=1)
        model, table = self._seen(X)
        if model.expansion.bank.positions:
            raise ValueError(
                "a model on precomputed kernels keeps their values for its own samples only: the learned kernel is "
                "np.tensordot(clf.kernel_weights_, stack[clf.kernels_], axes=1)"
            )
        other_table = table if Y is None else self._seen(Y)[1]
        expansion = model.expansion
        other = replace(expansion, instances=model.encode(other_table))
        K = other.similarity(model.encode(table))
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
        """Return the same classifier for further items; see `StackClassifier.extended`."""
        if getattr(self, "normalised_kernels_", None):
            raise ValueError(
                f"the kernel {self.normalised_kernels_[0]!r} was scaled to unit diagonal, and the values of new items "
                "with themselves are not known: fit with kernels of unit diagonal, k(x, z) / sqrt(k(x, x) k(z, z))"
            )
        return extended(self, values)

    def explain(self, X: Any) -> PrototypeExplanation:
        """Split decisions into the contributions of samples and kernels, and into those of prototypes."""
        base = super().explain(X)
        expansion, similarity = self.model_.expansion, self._similarity(X)
        return PrototypeExplanation(
            **vars(base),
            by_prototype=expansion.by_prototype(similarity),
            mixtures=expansion.prototypes,
            labels=self.prototype_labels_.tolist(),
            codes=expansion.codes(similarity),
        )


def _is_steady(column: Any) -> bool:
    """Whether a column of numbers varies by no more than rounding."""
    if column.kind != "number":
        return False
    return column.high - column.low <= STEADY * max(abs(column.low), abs(column.high))


def outputs_of(votes: np.ndarray) -> np.ndarray:
    """Votes of prototypes for outputs (q, c), from those for classes (classes, c): of two the second less the first."""
    return votes[1:] - votes[:1] if len(votes) == 2 else votes


@dataclass(frozen=True, eq=False, repr=False)
class SeriesKernels(PrecomputedKernels):
    """The kernels between training series, with the series themselves."""

    aligned: Aligned | None = None


def align_training(X: Any, kernels: Any, missing: str | None, n_jobs: int | None) -> SeriesKernels:
    """The kernels of all channels between training series."""
    series = check_series(X)
    absent = np.argwhere(lengths_of(series) == 0)
    if missing != "absent" and len(absent):
        raise ValueError(
            f"X: sample {absent[0, 0]} lacks channel {absent[0, 1]}, and missing={missing!r}: channels of "
            "series cannot be filled; use missing='absent', or fill them before"
        )
    recipe = alignment() if kernels is None else kernels
    if not isinstance(recipe, AlignmentKernels):
        raise ValueError(f"kernels={kernels!r} is not for series: use tamis.alignment(), or None")
    names, widths, values = recipe.stack(series, n_jobs)
    return SeriesKernels(names, values, aligned=Aligned(names, widths, series))


def on_kept_series(model: KernelModel, aligned: Aligned) -> tuple[KernelModel, Aligned]:
    """The model with positions among its kept series in place of those among all, and these series."""
    kept = aligned.take(model.kernels, model.instances)
    expansion, k, L = model.expansion, len(model.instances), len(model.kernels)
    own = expansion.kernel_values(expansion.instances)
    channels = [
        Channel(channel.name, Precomputed(values, np.arange(k)), (place,))
        for place, (channel, values) in enumerate(zip(expansion.bank.channels, own, strict=True))
    ]
    instances = np.tile(np.arange(k, dtype=float)[:, None], L)
    encoder = Encoder(tuple(Position(0.0, k - 1.0) for _ in range(L)), kept.names)
    expansion = replace(expansion, bank=KernelBank(tuple(channels)), instances=instances)
    return replace(model, encoder=encoder, expansion=expansion, columns=model.kernels), kept


def with_new_series(
    model: KernelModel, kept: Aligned, series: np.ndarray, n_jobs: int | None
) -> tuple[KernelModel, Table]:
    """A model that knows the kernels of new series, and the table of their positions."""
    values = kept.values(series, n_jobs)
    known, bank = len(kept.series), model.expansion.bank
    extended: list[Any] = [
        replace(channel, kernel=channel.kernel.extended(v)) for channel, v in zip(bank.channels, values, strict=True)
    ]
    table = position_table(known + np.arange(values.shape[1]), kept.names)
    return with_bank(model, KernelBank(tuple(extended))), table


def kept_channels(X: Any, n_channels: int, kept: np.ndarray) -> np.ndarray:
    """The kept channels of series."""
    series = check_series(X)
    if series.shape[1] != n_channels:
        raise ValueError(f"X has {series.shape[1]} channels, but the fit saw {n_channels}")
    return series[:, kept]


def position_table(places: np.ndarray, names: tuple[str, ...]) -> Table:
    """A table of positions in precomputed kernels, the same in every column."""
    return Table(np.tile(places.astype(float)[:, None], len(names)), {}, list(names))
