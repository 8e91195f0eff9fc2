"""The grid that EM2NOLCClassifierCV searches: settings times budgets, on one fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from tamis.estimators.em2nolc import tasks
from tamis.estimators.model import Encoded, Prepared
from tamis.estimators.rows import Rows
from tamis.estimators.selection import HeldOut
from tamis.estimators.table import Table
from tamis.kernels.recipes import per_feature
from tamis.methods import em2nolc as method
from tamis.methods.refit import coefficients
from tamis.optim.driver import Solution

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
    encoding : keyword arguments of `Encoded.of`
    engine, shared : as in the estimator
    """

    kernels: dict[str, Any]
    bandwidths: dict[Any, Any]
    alphas: Sequence[float]
    couplings: Sequence[str]
    refits: Sequence[str]
    budgets: Sequence[Pair]
    encoding: dict[str, Any]
    engine: str
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

    def __call__(self, train: Rows, test: Rows) -> dict[Cell, HeldOut]:
        """Every cell on one fold."""
        out: dict[Cell, HeldOut] = {}
        encoded = Encoded.of(train, **self.encoding)
        for point in self._points(encoded):
            value = sum(s.objective for s in point.solutions) / float(train.weight.sum())
            for coupling, refit in product(self.couplings, self.refits):
                cell = Cell(Setting(*point.key, coupling, refit), *point.budgets)
                out[cell] = HeldOut(point.decision(test.table, coupling, refit), value)
        return out

    def _points(self, encoded: Encoded) -> Iterator[Point]:
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

    def decision(self, table: Table, coupling: str, refit: str) -> np.ndarray:
        pairs = zip(self.problems, self.solutions, strict=True)
        blocks = [coefficients(task, solution.state, coupling=coupling, refit=refit) for task, solution in pairs]
        return self.prepared.model(blocks, self.solutions).decision(table)
