"""From training rows to a kernel stack, and from coefficients back to a model of kept rows and columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from tamis.base.design import Design, RowDesign
from tamis.base.expansion import Coefficients, Expansion, KernelExpansion
from tamis.codec import stored
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import is_by_position
from tamis.kernels.composed import whole_bank
from tamis.kernels.recipes import Bandwidth, Recipe, Sample
from tamis.kernels.spectrum import check_kernels
from tamis.kernels.stacks.base import KernelStack
from tamis.kernels.stacks.landmarks import LandmarkStack
from tamis.optim.driver import Solution
from tamis.table.checks import check_range, places
from tamis.table.encoding import Encoder
from tamis.table.keys import lowest
from tamis.table.rows import Rows, draws
from tamis.table.table import Table

ROWS = 1 << 20  # rows that are encoded and decided on at a time
LANDMARKS = "landmarks"  # the engine of kernels through the candidates
POOL = 1000  # candidates when more rows than this are given and `candidates` is None


E = TypeVar("E", bound=Expansion)


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
class Prepared(Groundwork, ABC):
    """Kernels on training data, with what a least-squares method solves on."""

    @abstractmethod
    def designs(self, shared: bool) -> list[Design]:
        """The data of each problem to solve: one for all outputs if `shared`, else one for each."""

    @property
    def incidence(self) -> np.ndarray | None:
        """Boolean (kernels, columns): the columns behind each kernel; None where each has its own one."""
        return None if self.bank.one_to_one else self.bank.incidence(self.pool.Z.shape[1])


@dataclass(frozen=True)
class Encoded:
    """Training rows as numbers, and the rows among them that may become instances."""

    rows: Rows
    encoder: Encoder
    sample: Sample
    candidates: np.ndarray
    engine: str

    @classmethod
    def of(
        cls,
        rows: Rows,
        *,
        scaling: str | None,
        missing: str | None,
        max_features: int,
        candidates: int | str | None,
        seed: int,
        engine: str,
        ranges: Mapping[int, tuple[float, float]] | None = None,
        fewest: int = 1,
    ) -> Encoded:
        encoder = Encoder.fit(rows.table, rows.weight, scaling=scaling, missing=missing, ranges=ranges)
        Z = encoder.encode(rows.table)
        check_range(Z, encoder.names)
        sample = Sample(Z, encoder.names, encoder.nominal, rows.targets, rows.weight, max_features, seed)
        return cls(rows, encoder, sample, draw_candidates(rows, candidates, seed, fewest), engine)

    def prepare(
        self,
        kernels: Any,
        default: Recipe,
        bandwidth: Bandwidth,
        *,
        whole: bool = False,
        device: str | None = None,
    ) -> PreparedRows:
        """Put kernels on the rows; where channels are `whole` a row with a missing cell lacks them.

        On a `device` all values are held, whatever the engine.
        """
        here = self.positions() if is_by_position(kernels) else self
        bank = make_bank(kernels, default, here.sample, bandwidth)
        ground = here.ground(whole_bank(bank) if whole else bank)
        check_kernels(ground.bank, here.sample.Z, here.sample.seed)
        return PreparedRows(ground.encoder, ground.bank, ground.pool, here, here._stack(ground, device))

    def _stack(self, ground: Groundwork, device: str | None) -> KernelStack:
        Z = self.sample.Z
        if self.engine == LANDMARKS:
            return LandmarkStack.through(ground.bank.channels, Z, self.candidates)
        Y = None if len(self.candidates) == len(Z) else ground.pool.Z
        return ground.bank.stack(Z, Y, form=self.engine, device=device)

    def positions(self) -> Encoded:
        """The same rows, their one column read as positions in precomputed kernels."""
        encoder = Encoder.positions(self.rows.table)
        nominal = np.zeros(1, dtype=bool)
        return replace(
            self, encoder=encoder, sample=replace(self.sample, Z=encoder.encode(self.rows.table), nominal=nominal)
        )

    def ground(self, bank: KernelBank) -> Groundwork:
        """The way back to a model for the kernels of a bank."""
        Z, rows = self.sample.Z, self.candidates
        return Groundwork(self.encoder, bank, Pool(Z[rows], self.rows.codes[rows], self.rows.position[rows]))


@dataclass(frozen=True)
class PreparedRows(Prepared):
    """Encoded training rows with their kernel stack."""

    encoded: Encoded
    stack: KernelStack

    def designs(self, shared: bool) -> list[Design]:
        rows, candidates = self.encoded.rows, self.encoded.candidates
        return [RowDesign(self.stack, t, rows.weight, candidates) for t in rows.problems(shared)]


def check_source(kernels: Any) -> None:
    """Refuse what can be no kernels, whatever the data."""
    if kernels is None or isinstance(kernels, Recipe | KernelBank):
        return
    if hasattr(kernels, "ndim") or (isinstance(kernels, Sequence) and any(hasattr(k, "ndim") for k in kernels)):
        raise ValueError("kernels holds arrays: give kernels=precomputed(stack), and X as one column of positions")
    if isinstance(kernels, str) or not isinstance(kernels, Sequence):
        raise ValueError(
            f"kernels={kernels!r} is neither a recipe such as per_feature() or product(), nor a KernelBank, "
            "nor a list of (name, kernel, columns)"
        )
    if not len(kernels):
        raise ValueError("kernels is empty: give at least one kernel, or None for the default")


def make_bank(kernels: Any, default: Recipe, sample: Sample, bandwidth: Bandwidth) -> KernelBank:
    """Resolve the parameter `kernels`: None, a recipe, a bank, or a list of (name, kernel, columns)."""
    if kernels is None:
        bank = default.bank(sample, bandwidth)
    elif isinstance(kernels, Recipe):
        bank = kernels.bank(sample, bandwidth)
    elif isinstance(kernels, KernelBank):
        bank = kernels
    else:
        check_source(kernels)
        place = places(sample.names)
        bank = KernelBank(tuple(_channel(entry, place) for entry in kernels))
    if not len(bank):
        raise ValueError("kernels is empty: give at least one kernel, or None for the default")
    d = sample.Z.shape[1]
    for channel in bank.channels:
        if max(channel.columns) >= d or min(channel.columns) < 0:
            raise ValueError(f"kernels: {channel.name!r} uses column {max(channel.columns)}, but X has {d} columns")
    return bank


def _channel(entry: Any, place: Mapping[str, int]) -> Channel:
    try:
        name, kernel, columns = entry
    except (TypeError, ValueError):
        raise ValueError(f"kernels: {entry!r} is not a triple (name, kernel, columns)") from None
    columns = [columns] if isinstance(columns, str | int | np.integer) else list(columns)
    unknown = [c for c in columns if isinstance(c, str) and c not in place]
    if unknown or not columns:
        raise ValueError(f"kernels: {name!r} names the column {unknown[:1]}, which X does not have")
    return Channel(str(name), kernel, tuple(place[c] if isinstance(c, str) else int(c) for c in columns))


def pool_size(candidates: int | str | None, n: int) -> int:
    """How many of n rows may become instances."""
    return n if isinstance(candidates, str) else min(n, POOL if candidates is None else candidates)


def draw_candidates(rows: Rows, size: int | str | None, seed: int, fewest: int = 1) -> np.ndarray:
    """The rows that may become instances: all, or a random pool with at least `fewest` of each class, sorted."""
    n = len(rows)
    size = pool_size(size, n)
    if size >= n:
        return np.arange(n)
    return _drawn(rows, size, seed, fewest)


def draw_landmarks(rows: Rows, size: int, seed: int) -> np.ndarray:
    """About `size` merged rows, sorted: of each class its share, at least one, by values and seed alone."""
    return _drawn(rows, size, seed, 1)


def _drawn(rows: Rows, size: int, seed: int, fewest: int) -> np.ndarray:
    """About `size` rows, sorted: of each class its share, at least `fewest`."""
    keys = draws(rows, seed)
    parts = [np.flatnonzero(rows.codes == c) for c in range(len(rows.classes))]
    shares = [max(fewest, round(size * len(part) / len(rows))) for part in parts]
    return np.sort(np.concatenate([part[lowest(keys[part], k)] for part, k in zip(parts, shares, strict=True)]))
