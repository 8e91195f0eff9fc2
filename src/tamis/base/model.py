"""Model: what a fit ends in, whatever its decisions are made of.

An estimator knows its model through the methods here only. `KernelModel` (`kernel_model.py`) sums over kept instances
and kernels, `AdditiveModel` (`tamis.flagship.model`) over features, pairs and cases.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tamis.arrays import Array, beside, namespace, to_numpy
from tamis.optim.driver import Status
from tamis.table.encoding import Encoder, device_encode
from tamis.table.rows import Rows
from tamis.table.table import Table

if TYPE_CHECKING:
    from tamis.base.calibration import Calibrator
    from tamis.explain import Explanation

BLOCK_ROWS = 1 << 20  # rows that are encoded and decided on at a time
DEVICE_VALUES = 1 << 27  # numbers on a device at a time
Grid = np.ndarray


@dataclass(frozen=True)
class Model(ABC):
    """A fitted model on encoded kept columns of a table.

    A *term* is a summand of the decision that has a name of its own: a kernel, or a feature, a pair, the kept cases.
    """

    encoder: Encoder  # encodings of the kept columns
    columns: np.ndarray  # (c,) kept columns of the table
    instances: np.ndarray  # (k,) kept rows, as positions in the user's input

    term_kind: ClassVar[str]  # what a term is called in learned attributes, such as "kernel" in `kernel_variation_`
    needs: ClassVar[str]  # what a model that decides alike about all rows has none of
    # whether it is made of tables of curves, surfaces and cases, and not of kernels
    is_additive: ClassVar[bool] = False

    # ------------------------------------------------------------------ decisions

    @property
    @abstractmethod
    def base_value(self) -> np.ndarray:
        """Decision (q,) to which nothing contributes."""

    @abstractmethod
    def scores(self, Z: Array) -> Array:
        """Decision values (n, q) of encoded rows, the same bits for a row whatever the other rows are."""

    @abstractmethod
    def summands(self, Z: Array) -> Array:
        """Everything that `explanation` needs to know of encoded rows, as one array (n, ...)."""

    @property
    @abstractmethod
    def numbers_per_row(self) -> tuple[int, int]:
        """Numbers in memory for each row, for `scores` and for `summands`."""

    @property
    def on_devices(self) -> bool:
        """Whether it decides about tensors on the device where they are."""
        return True

    def encode(self, table: Table) -> np.ndarray:
        """Encoded kept columns of a table, which may have no others."""
        columns = None if tuple(table.names) == self.encoder.names else self.columns
        return self.encoder.encode(table, columns, threads=True)

    def decision(self, table: Table) -> np.ndarray:
        """Decision values (rows, q)."""
        parts = []
        for start in range(0, max(1, len(table)), BLOCK_ROWS):
            rows = table if len(table) <= BLOCK_ROWS else table.take(slice(start, start + BLOCK_ROWS))
            parts.append(self.scores(self.encode(rows)))
        decision = parts[0] if len(parts) == 1 else np.concatenate(parts)
        self._check_finite(np.isfinite(decision).all(axis=1))
        return decision

    def device_decision(self, X: Array) -> Array:
        """Decision values (n, q) of a tensor X (n, d) with the columns of the training table."""
        if not self.on_devices:
            return beside(self.decision(table_of(X)), X)
        xp = namespace(X)
        decision = xp.concat([self.scores(Z) for Z in self._device_blocks(X, self.numbers_per_row[0])])
        self._check_finite(to_numpy(xp.all(xp.isfinite(decision), axis=1)))
        return decision

    def device_summands(self, X: Array) -> Array:
        """`summands` of a tensor X (n, d) with the columns of the training table."""
        if not self.on_devices:
            return beside(self.summands(self.encode(table_of(X))), X)
        return namespace(X).concat([self.summands(Z) for Z in self._device_blocks(X, self.numbers_per_row[1])])

    def _device_blocks(self, X: Array, n_values: int) -> Iterator[Array]:
        """Encoded rows of a tensor, so many at a time that `n_values` for each fit the device."""
        step = max(1, DEVICE_VALUES // max(1, n_values))
        for start in range(0, max(1, X.shape[0]), step):
            yield device_encode(self.encoder, X[start : min(start + step, X.shape[0]), :], self.columns)

    def _check_finite(self, good: np.ndarray) -> None:
        if not good.all():
            raise ValueError(
                f"the decision is NaN or infinite for {np.count_nonzero(~good)} rows of X: look at their values, and "
                f"at what the {self.term_kind}s {[str(name) for name in self.term_names[:3]]} give on them"
            )

    @abstractmethod
    def negated(self) -> Self:
        """The model of the opposite decision."""

    @abstractmethod
    def shifted(self, shift: float) -> Self:
        """The same model with `shift` added to its decisions."""

    @abstractmethod
    def check_parts(self) -> None:
        """Refuse parts that do not fit together: a model must be able to decide about its own cases."""

    # ------------------------------------------------------------------ what it is made of

    @property
    @abstractmethod
    def is_constant(self) -> bool:
        """Whether every row gets the same decision."""

    @property
    @abstractmethod
    def status(self) -> Status:
        """How the fit ended."""

    @property
    @abstractmethod
    def owned(self) -> np.ndarray:
        """Boolean (q, k): which instances contribute to which output."""

    @property
    @abstractmethod
    def case_rows(self) -> np.ndarray:
        """The kept instances, encoded (k, c)."""

    @property
    @abstractmethod
    def case_pulls(self) -> np.ndarray:
        """What each instance adds to the decision about a row equal to itself (k, q)."""

    @property
    @abstractmethod
    def term_names(self) -> Sequence[str]:
        """The names of the terms."""

    @property
    @abstractmethod
    def term_features(self) -> list[tuple[str, ...]]:
        """The names of the features that each term depends on."""

    @abstractmethod
    def attributes(self) -> dict[str, Any]:
        """The learned attributes of an estimator that follow from the model alone."""

    @abstractmethod
    def measured(self, rows: Rows) -> dict[str, np.ndarray]:
        """The learned attributes that are measured on training rows, such as shares of variation."""

    @abstractmethod
    def by_feature(self, values: np.ndarray, name: str) -> np.ndarray:
        """Values (..., terms) of the learned attribute `name` as values (..., c) of the kept features."""

    @abstractmethod
    def in_parts(self, values: np.ndarray) -> tuple[list[str], np.ndarray]:
        """Names of the parts of an explanation, and values (..., terms) added up for each of them."""

    @abstractmethod
    def description(self) -> tuple[str, dict[str, Any]]:
        """By what it decides, in words, and further facts."""

    # ------------------------------------------------------------------ explanations, curves and surfaces

    @abstractmethod
    def explanation(
        self, summands: Array, rows: Sequence[Any], outputs: Sequence[Any], instances: Sequence[Any]
    ) -> Explanation:
        """The explanation of the decisions about rows with these `summands`; the others are names."""

    @abstractmethod
    def check_curve(self, place: int) -> None:
        """Refuse a kept column that has no curve."""

    @abstractmethod
    def curve(self, place: int, grid: Grid | None) -> tuple[Grid, np.ndarray]:
        """Values of a kept column, and what it alone adds to the decision there (len(grid), q)."""

    @abstractmethod
    def pairs(self, values: np.ndarray) -> list[tuple[int, int]]:
        """Pairs of kept columns that have a surface; those with the largest `values` (..., terms) first."""

    @abstractmethod
    def surface(self, places: tuple[int, int], grids: Sequence[Grid | None]) -> tuple[Grid, Grid, np.ndarray]:
        """Values of two kept columns, and what the pair adds at all of them (first, second, q)."""


def decide(decision: np.ndarray) -> np.ndarray:
    """Codes of the predicted classes; with one output zero goes to the second class."""
    return (decision[:, 0] >= 0).astype(int) if decision.shape[1] == 1 else np.argmax(decision, axis=1)


def table_of(X: Array) -> Table:
    """The rows of a tensor in numpy, for models without a form on devices."""
    return Table(np.asarray(to_numpy(X), dtype=float), {}, [f"x{j}" for j in range(X.shape[1])])


def squeeze(values: np.ndarray) -> np.ndarray:
    """Without the axis of outputs if there is only one."""
    return values[0] if len(values) == 1 else values


@dataclass(frozen=True)
class FitContext:
    """What all steps of a fit share."""

    seed: int  # drawn from `random_state`
    kernels: Mapping[str, Any]  # the kernels to use, or to choose among, by name
    rough: bool = False  # whether the model is one of a fold, of which only the decisions count

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
