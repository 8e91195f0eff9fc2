"""The grid that EM2NOLCClassifierCV searches: settings times budgets, on one fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from tamis.base.design import MomentDesign
from tamis.base.expansion import Coefficients
from tamis.base.model import Encoded, Prepared
from tamis.base.scoring import HeldOut
from tamis.kernels.recipes import per_feature
from tamis.methods.em2nolc import solver as method
from tamis.methods.em2nolc.estimator import tasks
from tamis.methods.em2nolc.refit import coefficients
from tamis.optim.driver import Solution
from tamis.statistics.fit import HeldOutSums, TrainingSums
from tamis.table.rows import Rows

Pair = tuple[int, int]


@dataclass(frozen=True)
class Setting:
    """One point of the grid, budgets apart; kernels and bandwidth by name."""

    kernels: str
    bandwidth: Any
    alpha: float
    coupling: str
    refit: str


@dataclass(frozen=True)
class Cell:
    """A setting with its budgets."""

    setting: Setting
    max_instances: int
    max_features: int

    @property
    def budgets(self) -> Pair:
        return self.max_instances, self.max_features

    @property
    def size(self) -> tuple[int, int]:
        return self.max_instances + self.max_features, self.max_instances


@dataclass(frozen=True)
class Grid:
    """What is tried on every fold.

    Attributes
    ----------
    kernels, bandwidths : {name: choice}
    alphas, couplings, refits : the rest of the settings
    budgets : pairs (max_instances, max_features), smaller ones first
    encoding : keyword arguments of `Encoded.of`, for folds of rows
    shared : as in the estimator
    """

    kernels: dict[str, Any]
    bandwidths: dict[Any, Any]
    alphas: Sequence[float]
    couplings: Sequence[str]
    refits: Sequence[str]
    budgets: Sequence[Pair]
    encoding: dict[str, Any]
    shared: bool

    def narrow(self, setting: Setting, budgets: Sequence[Pair]) -> Grid:
        """One setting with other budgets."""
        return replace(
            self,
            kernels={setting.kernels: self.kernels[setting.kernels]},
            bandwidths={setting.bandwidth: self.bandwidths[setting.bandwidth]},
            alphas=(setting.alpha,),
            couplings=(setting.coupling,),
            refits=(setting.refit,),
            budgets=budgets,
        )

    def __call__(self, train: Rows | TrainingSums, test: Rows | HeldOutSums) -> dict[Cell, HeldOut]:
        """Every cell on one fold."""
        out: dict[Cell, HeldOut] = {}
        encoded = train if isinstance(train, TrainingSums) else Encoded.of(train, **self.encoding)
        judge = _Rows(test) if isinstance(test, Rows) else _Sums.of(test)
        for point in self._points(encoded):
            for coupling, refit in product(self.couplings, self.refits):
                cell = Cell(Setting(*point.key, coupling, refit), *point.budgets)
                out[cell] = judge(point, point.coefficients(coupling, refit))
        return out

    def _points(self, encoded: Encoded | TrainingSums) -> Iterator[Point]:
        """The path over budgets for every kernel choice, bandwidth and ridge."""
        for (name, choice), (key, width) in product(self.kernels.items(), self.bandwidths.items()):
            prepared = encoded.prepare(choice, per_feature(), width)
            for alpha in self.alphas:
                problems = tasks(prepared, alpha, (1, 1), self.shared, thorough=False)
                paths = [method.path(problem, self.budgets) for problem in problems]
                for pair in self.budgets:
                    yield Point((name, key, alpha), pair, prepared, problems, [path[pair] for path in paths])


@dataclass(frozen=True)
class Point:
    """The solutions at one pair of budgets, one per problem."""

    key: tuple[str, Any, float]
    budgets: Pair
    prepared: Prepared
    problems: list[method.Task]
    solutions: list[Solution]

    @property
    def objective(self) -> float:
        """Per unit of training weight."""
        return sum(s.objective for s in self.solutions) / self.problems[0].design.total_weight

    def coefficients(self, coupling: str, refit: str) -> list[Coefficients]:
        pairs = zip(self.problems, self.solutions, strict=True)
        return [coefficients(task, solution.state, coupling=coupling, refit=refit) for task, solution in pairs]


@dataclass(frozen=True)
class _Rows:
    """Judges coefficients on the rows of a fold."""

    test: Rows

    def __call__(self, point: Point, blocks: list[Coefficients]) -> HeldOut:
        return HeldOut.of_model(point.prepared.model(blocks, point.solutions), self.test, point.objective)


@dataclass(frozen=True)
class _Sums:
    """Judges coefficients on the sums of a fold, and on some of its rows if they are at hand."""

    sums: np.ndarray
    values: np.ndarray | None  # (functions, rows)

    @classmethod
    def of(cls, test: HeldOutSums) -> _Sums:
        plan = test.plan
        if test.sample is None:
            return cls(test.sums, None)
        values = np.empty((plan.functions.size, len(test.sample)))
        plan.functions.fill(plan.encoder.encode(test.sample.table), values)
        return cls(test.sums, values)

    def __call__(self, point: Point, blocks: list[Coefficients]) -> HeldOut:
        designs = [task.design for task in point.problems if isinstance(task.design, MomentDesign)]
        residual = np.concatenate([d.residual(b) for d, b in zip(designs, blocks, strict=True)], axis=1)
        used = np.flatnonzero(np.any(residual != 0, axis=1))
        squares = max(0.0, float(np.vdot(residual[used], self.sums[np.ix_(used, used)] @ residual[used])))
        decision = None
        if self.values is not None:
            used = used[used < len(self.values)]
            decision = self.values[used].T @ residual[used]
        return HeldOut(decision, point.objective, squares, float(self.sums[0, 0]))
