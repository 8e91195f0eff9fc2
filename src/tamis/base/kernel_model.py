"""KernelModel: a kernel expansion on kept rows and columns, and the way from coefficients to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from tamis.arrays import Array, beside
from tamis.base.expansion import Coefficients, Expansion, KernelExpansion
from tamis.base.model import Grid, Model, squeeze
from tamis.codec import stored
from tamis.explain import part_names, signed_percentages, variation
from tamis.explain.kernel_explanation import KernelExplanation
from tamis.kernels.bank import KernelBank
from tamis.optim.driver import Solution, Status
from tamis.table.encoding import Encoder
from tamis.table.rows import Rows, sampled

CURVE_POINTS, SURFACE_POINTS = 200, 40  # of a number in a curve, and in each direction of a surface
VARIATION_ROWS = (50, 2000)  # fewest and most training rows that measure the variation of contributions
VARIATION_VALUES = 1 << 23  # contributions that are added up for it, beyond the fewest rows
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


@stored
@dataclass(frozen=True)
class Pool:
    """The training rows that may become instances."""

    Z: np.ndarray  # (p, d) encoded
    codes: np.ndarray  # (p,) their classes
    position: np.ndarray  # (p,) their rows in the user's input

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

    def model(self, blocks: Sequence[Coefficients], solutions: Sequence[Solution]) -> KernelModel[KernelExpansion]:
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
        return KernelModel(
            self.encoder.select(columns),
            columns,
            rows.position[kept],
            small,
            kernels,
            tuple(replace(s, state=None, history=s.history.of_kernels(kernels)) for s in solutions),
        )
