"""KernelModel: a sum over kept instances and kernels, on kept columns of a table.

f_q(x) = sum_j sum_l coef[q, j, l] k_l(x_j, x) + intercept[q]

An `Expansion` is the sum on encoded rows. In a `KernelExpansion` the coefficients are numbers; where they depend on the
row, another class computes them (`prototype_expansion.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from tamis.arrays import Array, beside, device_of, is_tensor, namespace, to_device
from tamis.base.model import Grid, Model, squeeze
from tamis.codec import stored
from tamis.explain import part_names, signed_percentages, variation
from tamis.explain.kernel_explanation import KernelExplanation
from tamis.kernels.bank import KernelBank
from tamis.kernels.stacks.base import DenseStack
from tamis.optim.driver import Solution, Status
from tamis.parallel import blas_threads
from tamis.table.rows import Rows, sampled

BLOCK_ROWS = 1024  # rows of a block, halved while it takes more than
BLOCK_VALUES = 1 << 20  # numbers
CURVE_POINTS, SURFACE_POINTS = 200, 40  # of a number in a curve, and in each direction of a surface
VARIATION_ROWS = (50, 2000)  # fewest and most training rows that measure the variation of contributions
VARIATION_VALUES = 1 << 23  # contributions that are added up for it, beyond the fewest rows


@dataclass(frozen=True)
class Coefficients:
    """What a method returns: coefficients of pairs (instance, kernel) of a stack."""

    instances: np.ndarray  # (k,) columns of the stack
    kernels: np.ndarray  # (f,) kernels of the stack
    coef: np.ndarray  # (q, k, f)
    intercept: np.ndarray  # (q,)

    @classmethod
    def rank_one(cls, dual_coef: np.ndarray, weights: np.ndarray, intercept: float) -> Coefficients:
        """The pairs of one output, ``dual_coef[i] * weights[l]``, where neither factor is zero."""
        instances, kernels = np.flatnonzero(dual_coef), np.flatnonzero(weights)
        coef = np.outer(dual_coef[instances], weights[kernels])[None]
        return cls(instances, kernels, coef, np.array([intercept]))


@dataclass(frozen=True)
class Expansion(ABC):
    """Decisions as sums over kept instances and kernels, whatever their coefficients depend on."""

    bank: KernelBank  # the kept kernels, on the columns of `instances`
    instances: np.ndarray  # (k, c) encoded kept rows
    intercept: np.ndarray  # (q,)

    row_dependent: ClassVar[bool] = False  # whether the coefficients of a row depend on its kernel values

    @property
    @abstractmethod
    def owned(self) -> np.ndarray:
        """Boolean (q, k): which instances contribute to which output."""

    @property
    def on_devices(self) -> bool:
        """Whether it also decides about tensors, on the device where they are."""
        return False

    def moved(self, device: Any) -> Self:
        """The same with its numbers on a device, in double precision."""
        names = [field.name for field in fields(self) if field.name != "bank"]
        return replace(self, **{name: to_device(getattr(self, name), device, "float64") for name in names})

    def decision(self, Z: Array) -> Array:
        """Decision values (rows, q), the same bits for a row of an array whatever the other rows are."""
        if is_tensor(Z):
            return self.moved(device_of(Z))._decision(Z)
        (decision,) = _in_blocks(lambda block: (self._decision(block),), Z, len(self.instances))
        return decision

    def contributions(self, Z: Array) -> Array:
        """The summands (rows, q, k, L); with the intercept they add up to the decision."""
        if is_tensor(Z):
            return self.moved(device_of(Z))._contributions(Z)
        (parts,) = _in_blocks(lambda block: (self._contributions(block),), Z, self._n_summands)
        return parts

    def split(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Contributions by instance (rows, q, k) and by kernel (rows, q, L)."""
        by_instance, by_kernel = _in_blocks(self._split, Z, self._n_summands)
        return by_instance, by_kernel

    @property
    def _n_summands(self) -> int:
        return len(self.intercept) * len(self.instances) * len(self.bank)

    @abstractmethod
    def _decision(self, Z: np.ndarray) -> np.ndarray:
        """`decision` for one block."""

    @abstractmethod
    def _contributions(self, Z: np.ndarray) -> np.ndarray:
        """`contributions` for one block."""

    def _split(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`split` for one block."""
        parts = self._contributions(Z)
        return parts.sum(axis=3), parts.sum(axis=2)

    @abstractmethod
    def negated(self) -> Self:
        """The expansion of the opposite decision."""

    def kernel_values(self, Z: Array) -> Array:
        """Kernel values (L, rows, k) of encoded rows."""
        if not len(self.bank) or not len(self.instances):
            return beside(np.empty((len(self.bank), len(Z), len(self.instances))), Z)
        if is_tensor(Z):
            return namespace(Z).stack([channel(Z, self.instances) for channel in self.bank.channels])
        stack = DenseStack.evaluate(self.bank.channels, Z, self.instances)
        return stack.values.transpose(0, 2, 1)


def _in_blocks(
    function: Callable[[np.ndarray], tuple[np.ndarray, ...]], Z: np.ndarray, n_values: int
) -> list[np.ndarray]:
    """``function`` of encoded rows, evaluated in blocks that all have the same number of rows.

    Products of matrices sum in an order that depends on their shapes. The last block is therefore filled up with copies
    of its first row, and BLAS uses one thread. `n_values` is how many numbers a row takes; the size of the blocks
    follows from it alone.
    """
    if not len(Z):
        return list(function(Z))
    size = BLOCK_ROWS
    while size > 1 and size * n_values > BLOCK_VALUES:
        size //= 2

    def evaluate(start: int) -> tuple[np.ndarray, ...]:
        block = Z[start : start + size]
        n = len(block)
        if n < size:
            block = block[np.r_[:n, np.zeros(size - n, dtype=int)]]
        return tuple(part[:n] for part in function(block))

    with blas_threads(1):
        parts = [evaluate(start) for start in range(0, len(Z), size)]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


@stored
@dataclass(frozen=True)
class KernelExpansion(Expansion):
    """The same coefficients `coef` (q, k, L) for every row."""

    coef: np.ndarray

    @property
    def owned(self) -> np.ndarray:
        return np.any(self.coef != 0, axis=2)

    @property
    def on_devices(self) -> bool:
        return not self.bank.positions

    def _decision(self, Z: Array) -> Array:
        out = namespace(Z).broadcast_to(self.intercept[None, :], (len(Z), len(self.intercept)))
        for k, channel in enumerate(self.bank.channels):
            out = out + channel(Z, self.instances) @ self.coef[:, :, k].T
        return out

    def _contributions(self, Z: Array) -> Array:
        return self.coef * namespace(Z).permute_dims(self.kernel_values(Z), (1, 2, 0))[:, None]

    def negated(self) -> Self:
        return replace(self, coef=-self.coef, intercept=-self.intercept)

    def restricted(self) -> tuple[Self, np.ndarray, np.ndarray, np.ndarray]:
        """Drop instances, kernels and columns that no coefficient needs.

        Returns the smaller expansion and the kept positions of instances, kernels and columns.
        """
        used = np.any(self.coef != 0, axis=0)
        rows, kernels = np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
        bank, instances, columns = kept_parts(self.bank.take(kernels), self.instances[rows])
        small = replace(
            self, bank=bank, instances=instances, coef=np.ascontiguousarray(self.coef[:, rows][:, :, kernels])
        )
        return small, rows, kernels, columns


def kept_parts(bank: KernelBank, instances: np.ndarray) -> tuple[KernelBank, np.ndarray, np.ndarray]:
    """The bank and the instances without the columns that no kernel stands on, and the columns that remain."""
    bank = bank.narrowed(instances)
    columns = bank.columns
    if len(columns) < instances.shape[1]:
        bank = bank.relabel(columns)
    return bank, np.ascontiguousarray(instances[:, columns]), columns


E = TypeVar("E", bound=Expansion)


@stored
@dataclass(frozen=True)
class KernelModel(Model, Generic[E]):
    """A fitted expansion on encoded kept columns, with where its parts come from."""

    expansion: E  # on the kept columns
    kernels: np.ndarray  # (L,) kept kernels of the bank
    solutions: tuple[Solution, ...]  # one per optimisation problem that was solved, without their states
    # dual_coef, kernel_weights: (outputs, k) and (outputs or 1, L), where the method has such factors
    dual_coef: np.ndarray | None = None
    kernel_weights: np.ndarray | None = None
    # (outputs, k) and (outputs, L), shares of instances and kernels in the variation of the decision over training
    # rows, where the method knows them
    variation: tuple[np.ndarray, np.ndarray] | None = None

    term_kind: ClassVar[str] = "kernel"
    needs: ClassVar[str] = "instance"

    # ------------------------------------------------------------------ decisions

    @property
    def base_value(self) -> np.ndarray:
        return self.expansion.intercept

    def scores(self, Z: Array) -> Array:
        return self.expansion.decision(Z)

    def summands(self, Z: Array) -> Array:
        """Contributions (n, q, k, L)."""
        return self.expansion.contributions(Z)

    @property
    def numbers_per_row(self) -> tuple[int, int]:
        expansion = self.expansion
        return len(expansion.instances), len(expansion.intercept) * len(expansion.instances) * len(expansion.bank)

    @property
    def on_devices(self) -> bool:
        return self.expansion.on_devices

    def negated(self) -> KernelModel:
        dual_coef = None if self.dual_coef is None else -self.dual_coef
        return replace(self, expansion=self.expansion.negated(), dual_coef=dual_coef)

    def shifted(self, shift: float) -> KernelModel:
        return replace(self, expansion=replace(self.expansion, intercept=self.expansion.intercept + shift))

    def check_parts(self) -> None:
        expansion, some = self.expansion, self.expansion.instances[:1]
        if not some.shape[1] == len(self.encoder.columns) == len(self.encoder.names) == len(self.columns):
            raise ValueError("its cases do not have the columns of its encoder")
        shape = (len(some), len(expansion.intercept), len(expansion.instances), len(expansion.bank))
        if expansion.decision(some).shape != shape[:2] or expansion.contributions(some).shape != shape:
            raise ValueError("its coefficients do not fit its cases and kernels")

    # ------------------------------------------------------------------ what it is made of

    @property
    def is_constant(self) -> bool:
        return not len(self.instances)

    @property
    def status(self) -> Status:
        """The first that did not converge, else the first that says more than that it did."""
        every = [s.status for s in self.solutions]
        telling = [s for s in every if not s.converged] + [s for s in every if s is not Status.CONVERGED]
        return telling[0] if telling else Status.CONVERGED

    @property
    def owned(self) -> np.ndarray:
        return self.expansion.owned

    @property
    def case_rows(self) -> np.ndarray:
        return self.expansion.instances

    @property
    def case_pulls(self) -> np.ndarray:
        own, _ = self.expansion.split(self.expansion.instances)
        return np.einsum("iqi->iq", own)

    @property
    def term_names(self) -> Sequence[str]:
        return self.expansion.bank.names

    @property
    def term_features(self) -> list[tuple[str, ...]]:
        names = self.encoder.names
        return [tuple(names[c] for c in channel.columns) for channel in self.expansion.bank.channels]

    def attributes(self) -> dict[str, Any]:
        histories = [s.history for s in self.solutions]
        found = {
            "kernels_": self.kernels,
            "kernel_names_": np.array(self.expansion.bank.names, dtype=object),
            "history_": histories[0] if len(histories) == 1 else histories,
            "n_iter_": max((s.n_iter for s in self.solutions), default=0),
            "objective_": sum(s.objective for s in self.solutions),
            "status_": self.status,
        }
        if self.dual_coef is None or self.kernel_weights is None:
            return found
        dual, weights = squeeze(self.dual_coef), squeeze(self.kernel_weights)
        return found | {
            "dual_coef_": dual,
            "kernel_weights_": weights,
            "instance_importance_": signed_percentages(dual),
            "kernel_importance_": signed_percentages(weights),
        }

    def measured(self, rows: Rows) -> dict[str, np.ndarray]:
        """Shares of instances and kernels in the variation of the decision."""
        return _named(*self.measured_shares(rows))

    def measured_on(self, Z: np.ndarray, mass: np.ndarray) -> dict[str, np.ndarray]:
        """The same as `measured`, on encoded rows of the kept columns."""
        return _named(*self.shares(Z, mass))

    def measured_shares(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """The shares that the model brings, or those over some of the rows."""
        if self.variation is not None:
            return self.variation
        some = sampled(rows, self.variation_rows)
        return self.shares(self.encode(some.table), some.mass)

    @property
    def variation_rows(self) -> int:
        """How many rows measure the variation: fewer for models of many kernels and instances."""
        return int(np.clip(VARIATION_VALUES // max(1, self.numbers_per_row[1]), *VARIATION_ROWS))

    def shares(self, Z: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shares of instances and of kernels in the variation of the decision over encoded rows.

        Kernels on the same features share what their sum varies.
        """
        by_instance, by_kernel = self.expansion.split(Z)
        features = [frozenset(channel.columns) for channel in self.expansion.bank.channels]
        return variation(by_instance, mass), variation(by_kernel, mass, features)

    def by_feature(self, values: np.ndarray, name: str) -> np.ndarray:
        channels = self.expansion.bank.channels
        if any(len(set(c.columns)) > 1 for c in channels):
            raise AttributeError(
                f"a kernel on several features has no {name.split('_')[1]} per feature: use {name}, which follows "
                "kernel_names_"
            )
        total = np.zeros((*values.shape[:-1], len(self.columns)))
        np.add.at(total.T, np.array([c.columns[0] for c in channels], dtype=int), values.T)
        return total

    def in_parts(self, values: np.ndarray) -> tuple[list[str], np.ndarray]:
        features = self.term_features
        distinct = list(dict.fromkeys(features))
        member = np.array([[group == part for part in distinct] for group in features], dtype=float)
        return part_names(distinct), values @ member.reshape(len(features), len(distinct))

    def description(self) -> tuple[str, dict[str, Any]]:
        k = len(self.instances)
        words = f"by the likeness of a row to {k} kept training case{'' if k == 1 else 's'}"
        found = self.attributes()
        facts = {"fit": self.status.value, "objective": f"{found['objective_']:.6g}", "rounds": found["n_iter_"]}
        return words, facts

    # ------------------------------------------------------------------ explanations, curves and surfaces

    def explanation(
        self, summands: Array, rows: Sequence[Any], outputs: Sequence[Any], instances: Sequence[Any]
    ) -> KernelExplanation:
        return KernelExplanation(
            base_value=self.base_value,
            decision=beside(self.base_value, summands) + summands.sum(axis=(2, 3)),
            rows=rows,
            outputs=outputs,
            instances=instances,
            contributions=summands,
            kernels=self.expansion.bank.names,
            features=self.term_features,
        )

    def own_kernels(self, places: Set[int]) -> list[int]:
        """The kernels that stand on exactly these kept columns."""
        return [k for k, channel in enumerate(self.expansion.bank.channels) if set(channel.columns) == places]

    def check_curve(self, place: int) -> None:
        name = self.encoder.names[place]
        if self.encoder.columns[place].kind == "position":
            raise ValueError(f"feature {name!r} holds positions in precomputed kernels: it has no curve")
        if self.expansion.row_dependent:
            raise ValueError(
                f"feature {name!r} has no curve of its own: which prototypes decide about a row, and so what the "
                "feature adds, depends on all kept features; use explain(X)"
            )

    def curve(self, place: int, grid: Grid | None) -> tuple[Grid, np.ndarray]:
        """See `Model.curve`; by default at `CURVE_POINTS` over the training range, or at the levels of a category."""
        if not self.own_kernels({place}):
            raise ValueError(
                f"feature {self.encoder.names[place]!r} acts through kernels on several features only: it has no curve "
                "of its own; use surface for the pairs in pairs_, and explain(X) for the rest"
            )
        grid = self._grid(place, grid, CURVE_POINTS)
        return grid, self._added_by({place: grid})

    def pairs(self, values: np.ndarray) -> list[tuple[int, int]]:
        size: dict[tuple[int, int], float] = {}
        for channel, value in zip(self.expansion.bank.channels, np.atleast_2d(values).sum(axis=0), strict=True):
            distinct = sorted(set(channel.columns))
            if len(distinct) == 2 and not self.expansion.row_dependent:
                pair = (distinct[0], distinct[1])
                size[pair] = size.get(pair, 0.0) + float(value)
        return sorted(size, key=lambda pair: -size[pair])

    def surface(self, places: tuple[int, int], grids: Sequence[Grid | None]) -> tuple[Grid, Grid, np.ndarray]:
        """See `Model.surface`; by default at `SURFACE_POINTS` over each training range, or at levels."""
        a, b = (self._grid(place, grid, SURFACE_POINTS) for place, grid in zip(places, grids, strict=True))
        first, second = np.meshgrid(np.arange(len(a)), np.arange(len(b)), indexing="ij")
        values = self._added_by({places[0]: a[first.ravel()], places[1]: b[second.ravel()]})
        return a, b, values.reshape(*first.shape, -1)

    def _grid(self, place: int, grid: Grid | None, points: int) -> Grid:
        column = self.encoder.columns[place]
        if grid is not None:
            return grid
        if column.kind == "category":
            return np.array(list(column.levels), dtype=object)
        return np.linspace(column.low, column.high, points)

    def _added_by(self, cells: Mapping[int, np.ndarray]) -> np.ndarray:
        """What the kernels on exactly some kept columns add to the decision where these have the values `cells`."""
        Z = np.full((len(next(iter(cells.values()))), len(self.encoder.columns)), np.nan)
        for place, values in cells.items():
            Z[:, place] = self.encoder.columns[place].encode(values)
        _, by_kernel = self.expansion.split(Z)
        return by_kernel[:, :, self.own_kernels(set(cells))].sum(axis=2)


def _named(by_instance: np.ndarray, by_kernel: np.ndarray) -> dict[str, np.ndarray]:
    return {"instance_variation_": squeeze(by_instance), "kernel_variation_": squeeze(by_kernel)}
