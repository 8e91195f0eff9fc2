"""Model: what a fit ends in, a kernel expansion on kept rows and columns, and the way from coefficients to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np

from tamis.arrays import Array, beside, device_of, namespace, to_numpy
from tamis.base.calibration import Calibrator
from tamis.base.expansion import Coefficients, Expansion, KernelExpansion
from tamis.codec import stored
from tamis.explain import variation
from tamis.kernels.bank import KernelBank
from tamis.optim.driver import Solution
from tamis.table.encoding import Encoder, device_encode
from tamis.table.rows import Rows, sampled
from tamis.table.table import Table

ROWS = 1 << 20  # rows that are encoded and decided on at a time
E = TypeVar("E", bound=Expansion)
VARIATION_ROWS = (50, 2000)  # fewest and most training rows that measure the variation of contributions
VARIATION_VALUES = 1 << 23  # contributions that are added up for it, beyond the fewest rows
DEVICE_VALUES = 1 << 27  # kernel values on a device at a time


@stored
@dataclass(frozen=True)
class Model(Generic[E]):
    """A fitted expansion on encoded kept columns, with where its parts come from.

    Attributes
    ----------
    encoder : encodings of the kept columns
    expansion : on those columns
    columns : (c,) kept columns of the table
    kernels : (L,) kept kernels of the bank
    instances : (k,) kept rows, as positions in the user's input
    solutions : one per optimisation problem that was solved, without their states
    dual_coef, kernel_weights : (outputs, k) and (outputs or 1, L), where the method has such factors
    variation : (outputs, k) and (outputs, L), shares of instances and kernels in the variation of the decision
        over training rows, where the method knows them
    """

    encoder: Encoder
    expansion: E
    columns: np.ndarray
    kernels: np.ndarray
    instances: np.ndarray
    solutions: tuple[Solution, ...]
    dual_coef: np.ndarray | None = None
    kernel_weights: np.ndarray | None = None
    variation: tuple[np.ndarray, np.ndarray] | None = None

    def encode(self, table: Table) -> np.ndarray:
        """Encoded kept columns of a table, which may have no others."""
        columns = None if tuple(table.names) == self.encoder.names else self.columns
        return self.encoder.encode(table, columns, threads=True)

    def decision(self, table: Table) -> np.ndarray:
        """Decision values (rows, outputs)."""
        if len(table) > ROWS:
            return np.concatenate([self.decision(table.take(slice(k, k + ROWS))) for k in range(0, len(table), ROWS)])
        decision = self.expansion.decision(self.encode(table))
        if not np.isfinite(decision).all():
            bad = np.count_nonzero(~np.isfinite(decision).all(axis=1))
            raise ValueError(
                f"the decision is NaN or infinite for {bad} rows of X: look at what the kernels "
                f"{self.expansion.bank.names[:3]} give on them"
            )
        return decision

    def device_decision(self, X: Array) -> Array:
        """Decision values (n, q) of a tensor X (n, d) with the columns of the training table."""
        if not self.expansion.on_devices:
            return beside(self.decision(_on_cpu(X)), X)
        xp, k = namespace(X), len(self.expansion.instances)
        decision = xp.concat([self.expansion.decision(Z) for _, Z in self._device_blocks(X, k)])
        if not bool(xp.all(xp.isfinite(decision))):
            raise ValueError("the decision is NaN or infinite for some rows of X: look at their values")
        return decision

    def device_contributions(self, X: Array) -> Array:
        """Contributions (n, q, k, L) of a tensor X (n, d) with the columns of the training table."""
        expansion = self.expansion
        if not expansion.on_devices:
            return beside(expansion.contributions(self.encode(_on_cpu(X))), X)
        xp, shape = namespace(X), (len(expansion.intercept), len(expansion.instances), len(expansion.bank))
        out = xp.empty((X.shape[0], *shape), dtype=xp.float64, device=device_of(X))
        for rows, Z in self._device_blocks(X, int(np.prod(shape))):
            out[rows] = expansion.contributions(Z)
        return out

    def _device_blocks(self, X: Array, n_values: int) -> Iterator[tuple[slice, Array]]:
        """Slices of a tensor and their encoded rows, so that `n_values` for each row fit the device."""
        step = max(1, DEVICE_VALUES // max(1, n_values))
        for start in range(0, X.shape[0], step):
            rows = slice(start, start + step)
            yield rows, device_encode(self.encoder, X[rows, :], self.columns)

    def shifted(self, shift: float) -> Model:
        """The same model with `shift` added to its decisions."""
        return replace(self, expansion=replace(self.expansion, intercept=self.expansion.intercept + shift))

    def own_kernels(self, places: Set[int]) -> list[int]:
        """The kernels that stand on exactly these kept columns."""
        return [k for k, channel in enumerate(self.expansion.bank.channels) if set(channel.columns) == places]

    def shape(self, place: int, grid: np.ndarray) -> np.ndarray:
        """What the kernels on one kept column alone add to the decision at its values `grid`: (len(grid), outputs)."""
        return self._added_by({place: grid})

    def surface(self, places: tuple[int, int], grids: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """What the kernels on exactly two kept columns add at all pairs of their values: (first, second, outputs)."""
        first, second = np.meshgrid(*(np.arange(len(grid)) for grid in grids), indexing="ij")
        cells = {places[0]: grids[0][first.ravel()], places[1]: grids[1][second.ravel()]}
        return self._added_by(cells).reshape(*first.shape, -1)

    def _added_by(self, cells: Mapping[int, np.ndarray]) -> np.ndarray:
        """What the kernels on exactly some kept columns add to the decision where these have the values `cells`."""
        Z = np.full((len(next(iter(cells.values()))), len(self.encoder.columns)), np.nan)
        for place, values in cells.items():
            Z[:, place] = self.encoder.columns[place].encode(values)
        _, by_kernel = self.expansion.split(Z)
        return by_kernel[:, :, self.own_kernels(set(cells))].sum(axis=2)

    def check_parts(self) -> None:
        """Refuse parts that do not fit together: a model must be able to decide about its own cases."""
        expansion, some = self.expansion, self.expansion.instances[:1]
        if not some.shape[1] == len(self.encoder.columns) == len(self.encoder.names) == len(self.columns):
            raise ValueError("its cases do not have the columns of its encoder")
        shape = (len(some), len(expansion.intercept), len(expansion.instances), len(expansion.bank))
        if expansion.decision(some).shape != shape[:2] or expansion.contributions(some).shape != shape:
            raise ValueError("its coefficients do not fit its cases and kernels")

    def negated(self) -> Model:
        """The model of the opposite decision."""
        dual_coef = None if self.dual_coef is None else -self.dual_coef
        return replace(self, expansion=self.expansion.negated(), dual_coef=dual_coef)


def decide(decision: np.ndarray) -> np.ndarray:
    """Codes of the predicted classes; with one output zero goes to the second class."""
    return (decision[:, 0] >= 0).astype(int) if decision.shape[1] == 1 else np.argmax(decision, axis=1)


@stored
@dataclass(frozen=True)
class Pool:
    """The training rows that may become instances.

    Attributes
    ----------
    Z : (p, d) encoded
    codes : (p,) their classes
    position : (p,) their rows in the user's input
    """

    Z: np.ndarray
    codes: np.ndarray
    position: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.Z, self.codes, self.position

    def take(self, rows: np.ndarray) -> Pool:
        return Pool(*(part[rows] for part in self.parts))


@dataclass(frozen=True)
class Groundwork:
    """Encodings, kernels on encoded columns, and rows that may become instances: the way back to a model."""

    encoder: Encoder
    bank: KernelBank
    pool: Pool

    def model(self, blocks: Sequence[Coefficients], solutions: Sequence[Solution]) -> Model[KernelExpansion]:
        """The smallest model with these coefficients, the outputs of all blocks side by side."""
        instances = np.unique(np.concatenate([b.instances for b in blocks])).astype(int)
        kernels = np.unique(np.concatenate([b.kernels for b in blocks])).astype(int)
        tables = []
        for b in blocks:
            table = np.zeros((len(b.coef), len(instances), len(kernels)))
            place = np.searchsorted(instances, b.instances), np.searchsorted(kernels, b.kernels)
            table[np.ix_(np.arange(len(b.coef)), *place)] = b.coef
            tables.append(table)
        rows = self.pool.take(instances)
        intercept = np.concatenate([b.intercept for b in blocks])
        whole = KernelExpansion(self.bank.take(kernels), rows.Z, intercept, np.concatenate(tables))
        small, kept, chosen, columns = whole.restricted()
        kernels = kernels[chosen]
        return Model(
            self.encoder.select(columns),
            small,
            columns,
            kernels,
            rows.position[kept],
            tuple(replace(s, state=None, history=s.history.of_kernels(kernels)) for s in solutions),
        )


@dataclass(frozen=True)
class FitContext:
    """What all steps of a fit share.

    Attributes
    ----------
    seed : drawn from `random_state`
    kernels : the kernels to use, or to choose among, by name
    rough : whether the model is one of a fold, of which only the decisions count
    """

    seed: int
    kernels: Mapping[str, Any]
    rough: bool = False

    @property
    def kernel(self) -> Any:
        """The kernels, where there is no choice."""
        (kernels,) = self.kernels.values()
        return kernels


@dataclass(frozen=True)
class Fitted:
    """A model, the calibrator of its decisions if there is one, and attributes that only the method has."""

    model: Model
    calibrator: Calibrator | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


def measured_variation(model: Model, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Shares of instances and of kernels in the variation of the decision: the model's, or those over some rows."""
    if model.variation is not None:
        return model.variation
    some = sampled(rows, variation_rows(model))
    return variation_shares(model, model.encode(some.table), some.mass)


def variation_rows(model: Model) -> int:
    """How many rows measure the variation: fewer for models of many kernels and instances."""
    expansion = model.expansion
    values = len(expansion.intercept) * len(expansion.instances) * len(expansion.bank)
    return int(np.clip(VARIATION_VALUES // max(1, values), *VARIATION_ROWS))


def variation_shares(model: Model, Z: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of instances and of kernels in the variation of the decision over encoded rows.

    Kernels on the same features share what their sum varies.
    """
    by_instance, by_kernel = model.expansion.split(Z)
    features = [frozenset(channel.columns) for channel in model.expansion.bank.channels]
    return variation(by_instance, mass), variation(by_kernel, mass, features)


def _on_cpu(X: Array) -> Table:
    """The rows of a tensor in numpy, for models without a form on devices."""
    return Table(np.asarray(to_numpy(X), dtype=float), {}, [f"x{j}" for j in range(X.shape[1])])
