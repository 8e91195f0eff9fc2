"""KernelSpace: how the kernels between training rows are evaluated, and what that takes."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.base.design import Design, RowDesign
from tamis.base.kernel_model import Coefficients, KernelExpansion, KernelModel
from tamis.base.memory import MemoryEstimate, Size, kept_values, square_memory
from tamis.codec import stored
from tamis.kernels.bank import Channel, KernelBank, check_kernels
from tamis.kernels.base import is_by_position
from tamis.kernels.composed import whole_bank
from tamis.kernels.recipes import Bandwidth, Recipe, Sample
from tamis.kernels.stacks.base import KernelStack
from tamis.kernels.stacks.chebyshev import degrees_needed
from tamis.kernels.stacks.factored import LandmarkStack
from tamis.optim.driver import Solution
from tamis.table.encoding import Encoder
from tamis.table.keys import lowest
from tamis.table.rows import MAX_ENCODED, Rows, draws, spread
from tamis.table.table import places

LANDMARKS = "landmarks"  # the form of kernels through the candidates
POOL = 1000  # candidates when more rows than this are given and `candidates` is None
UNIT_WIDTH = 1.0  # of recipes that bring no bandwidth
COUNTED_ROWS = 200  # on which the kernels of a memory estimate are counted
LOW_RANK_SHARE = 0.5  # share of distinct values below which these are the rank of a kernel


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
class ModelBuilder:
    """Builds models from coefficients: encodings, kernels on encoded columns, and rows that may become instances."""

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


@dataclass(frozen=True)
class Prepared(ModelBuilder, ABC):
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
    form: str  # of the stack, see `KernelBank.stack`, or `LANDMARKS`

    def prepare(
        self, kernels: Any, default: Recipe, bandwidth: Bandwidth, *, whole: bool = False, device: str | None = None
    ) -> PreparedRows:
        """Put kernels on the rows; where channels are `whole` a row with a missing cell lacks them.

        On a `device` all values are held, whatever the form.
        """
        here = self.positions() if is_by_position(kernels) else self
        bank = make_bank(kernels, default, here.sample, bandwidth)
        builder = here.builder(whole_bank(bank) if whole else bank)
        check_kernels(builder.bank, here.sample.Z, here.sample.seed)
        return PreparedRows(builder.encoder, builder.bank, builder.pool, here, here._stack(builder, device))

    def _stack(self, builder: ModelBuilder, device: str | None) -> KernelStack:
        Z = self.sample.Z
        if self.form == LANDMARKS:
            return LandmarkStack.through(builder.bank.channels, Z, self.candidates)
        Y = None if len(self.candidates) == len(Z) else builder.pool.Z
        return builder.bank.stack(Z, Y, form=self.form, device=device)

    def positions(self) -> Encoded:
        """The same rows, their one column read as positions in precomputed kernels."""
        encoder = Encoder.positions(self.rows.table)
        nominal = np.zeros(1, dtype=bool)
        return replace(
            self, encoder=encoder, sample=replace(self.sample, Z=encoder.encode(self.rows.table), nominal=nominal)
        )

    def builder(self, bank: KernelBank) -> ModelBuilder:
        """The parts from which a model with the kernels of a bank is built."""
        Z, rows = self.sample.Z, self.candidates
        return ModelBuilder(self.encoder, bank, Pool(Z[rows], self.rows.codes[rows], self.rows.position[rows]))


@dataclass(frozen=True)
class PreparedRows(Prepared):
    """Encoded training rows with their kernel stack."""

    encoded: Encoded
    stack: KernelStack

    def designs(self, shared: bool) -> list[Design]:
        rows, candidates = self.encoded.rows, self.encoded.candidates
        return [RowDesign(self.stack, t, rows.weight, candidates) for t in rows.problems(shared)]


@dataclass(frozen=True)
class KernelSpace:
    """The form that kernels between rows take."""

    recipe: Recipe  # the kernels where none are given
    form: str  # of the stack, see `KernelBank.stack`
    # scaling, missing: how columns are encoded
    scaling: str | None
    missing: str | None
    bandwidth: Any = UNIT_WIDTH  # of recipes
    max_features: int | None = None  # a budget for recipes that look at it; None for all columns
    candidates: int | str | None = "all"  # how many rows may become instances
    device: str | None = None  # where all kernel values are held; None: numpy
    # rows that kernels go through; None, or at least as many as there are rows: the kernels themselves
    landmarks: int | None = None
    complete: bool = False  # whether a row with a missing cell among the columns of a kernel lacks that kernel

    def encode(self, rows: Rows, seed: int) -> Encoded:
        """Merged rows as numbers, with those that may become instances."""
        encoder = Encoder.fit(rows.table, rows.weight, scaling=self.scaling, missing=self.missing)
        Z = encoder.encode(rows.table)
        _check_range(Z, encoder.names)
        most = Z.shape[1] if self.max_features is None else self.max_features
        sample = Sample(Z, encoder.names, encoder.nominal, rows.targets, rows.weight, most, seed)
        size, form = (self.landmarks, LANDMARKS) if self._uses_landmarks(len(rows)) else (self.candidates, self.form)
        return Encoded(rows, encoder, sample, draw_candidates(rows, size, seed), form)

    def prepare(self, rows: Rows, kernels: Any, seed: int) -> PreparedRows:
        """Kernels on merged rows."""
        encoded = self.encode(rows, seed)
        return encoded.prepare(kernels, self.recipe, self.bandwidth, whole=self.complete, device=self.device)

    def _uses_landmarks(self, n_rows: int) -> bool:
        return self.landmarks is not None and self.landmarks < n_rows

    def memory(self, size: Size, squares: float, copies: float, kept: float | None = None) -> MemoryEstimate:
        """Bytes of kernels and matrices.

        Parameters
        ----------
        squares : matrices between all rows that the solver holds at its peak
        copies : of the factors that it holds, where there are landmarks
        kept : bytes of kernel values that are held in numpy; None: what the form keeps
        """
        if not self._uses_landmarks(size.rows):
            held = kept_values(size, self.form) if kept is None else kept
            return square_memory(size, held, squares, self.device)
        assert self.landmarks is not None
        rank = size.factors(self.landmarks)
        return {
            "factors of the kernels": copies * 8 * size.rows * rank,
            "matrices between factors": 16 * min(size.rows, rank) ** 2 + 16 * size.kernels * self.landmarks**2,
        }


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
    check_source(kernels)
    kernels = default if kernels is None else kernels
    if isinstance(kernels, Sequence):
        place = places(sample.names)
        kernels = KernelBank(tuple(_channel(entry, place) for entry in kernels))
    bank = kernels.bank(sample, bandwidth)
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


def draw_candidates(rows: Rows, size: int | str | None, seed: int) -> np.ndarray:
    """The rows that may become instances: all, or a random pool with some of each class, sorted."""
    n = len(rows)
    size = pool_size(size, n)
    if size >= n:
        return np.arange(n)
    keys = draws(rows, seed)
    parts = [np.flatnonzero(rows.codes == c) for c in range(len(rows.classes))]
    shares = [max(1, round(size * len(part) / len(rows))) for part in parts]
    return np.sort(np.concatenate([part[lowest(keys[part], k)] for part, k in zip(parts, shares, strict=True)]))


def size_of(rows: Rows, sources: Mapping[str, Any], space: KernelSpace) -> Size:
    """The size of a fit to some rows; the kernels of each source are counted on a few of them."""
    n, d = rows.table.numbers.shape
    counts = [_count(rows, source, space) for source in sources.values()]
    kernels, single, ranks = max(counts, default=(d, d, ()))
    return Size(n, d, kernels, single, 1 if rows.response is not None else rows.targets.shape[1], ranks)


def _count(rows: Rows, source: Any, space: KernelSpace) -> tuple[int, int, tuple[float, ...]]:
    """How many kernels there will be, how many of one column, and the ranks of these; of columns if they fail."""
    d = rows.table.numbers.shape[1]
    some = rows.take(spread(len(rows), COUNTED_ROWS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit itself warns
        try:
            encoded = space.encode(some, 0)
            here = encoded.positions() if is_by_position(source) else encoded
            bank = make_bank(source, space.recipe, here.sample, UNIT_WIDTH)
        except ValueError:  # the fit itself refuses what is wrong
            return d, d, ()
    if is_by_position(source):
        return len(bank), 0, ()
    single = [channel for channel in bank.channels if len(channel.columns) == 1]
    return len(bank), len(single), tuple(_rank(channel, here.sample.Z[:, channel.columns[0]]) for channel in single)


def _rank(channel: Channel, z: np.ndarray) -> float:
    """About how many factors a kernel of one column has; infinite where they are as many as there may be."""
    found = z[np.isfinite(z)]
    if len(np.unique(found)) < LOW_RANK_SHARE * len(z):
        return float(len(np.unique(found)))
    return float(degrees_needed(channel.kernel, float(np.ptp(found))) or np.inf)


def _check_range(Z: np.ndarray, names: Any) -> None:
    """Refuse encoded numbers whose squares would leave the range of floats."""
    if Z.size and (large := np.nan_to_num(np.abs(Z)).max(axis=0)).max() > MAX_ENCODED:
        column = int(np.argmax(large))
        raise ValueError(
            f"X holds {large[column]:.3g} in column {names[column]!r}, too large to be squared: use "
            "scaling='standard', or other units"
        )
