"""Cross-validated scores of EM2NOLC over settings and budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from tamis.estimators.calibration import Calibrator
from tamis.estimators.em2nolc import assemble, tasks
from tamis.estimators.model import Encoded, Prepared
from tamis.estimators.rows import Rows
from tamis.estimators.table import Table
from tamis.kernels.recipes import per_feature
from tamis.methods import em2nolc as method
from tamis.methods.refit import refit_table
from tamis.optim.driver import Solution

Split = tuple[Rows, Rows]
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
    def size(self) -> int:
        return self.max_instances + self.max_features


@dataclass(frozen=True)
class Result:
    """Held-out behaviour of one cell."""

    decision: np.ndarray  # (n, q) of the rows that some fold tests
    objective: float  # mean over folds, per unit of training weight
    scores: dict[str, float]  # greater is better, log_loss negated
    error: float  # standard error over folds of the score that decides


@dataclass(frozen=True)
class Search:
    """What is tried on every fold.

    Attributes
    ----------
    kernels, bandwidths : {name: choice}
    alphas, couplings, refits : the rest of the grid
    encoding : keyword arguments of `Encoded.of`
    engine, shared, scoring, n_jobs : as in the estimator
    """

    kernels: dict[str, Any]
    bandwidths: dict[Any, Any]
    alphas: Sequence[float]
    couplings: Sequence[str]
    refits: Sequence[str]
    encoding: dict[str, Any]
    engine: str
    shared: bool
    scoring: str
    n_jobs: int | None

    def narrow(self, setting: Setting) -> Search:
        """The same search on one setting."""
        return replace(
            self,
            kernels={setting.kernels: self.kernels[setting.kernels]},
            bandwidths={setting.bandwidth: self.bandwidths[setting.bandwidth]},
            alphas=(setting.alpha,),
            couplings=(setting.coupling,),
            refits=(setting.refit,),
        )

    def run(self, splits: list[Split], budgets: Sequence[Pair]) -> dict[Cell, Result]:
        """Score every cell on all folds."""
        parts = Parallel(n_jobs=self.n_jobs)(delayed(_fold)(self, *split, budgets) for split in splits)
        tests = [test for _, test in splits]
        held = Tests(
            np.concatenate([test.codes for test in tests]),
            np.concatenate([test.targets for test in tests]),
            np.concatenate([test.weight for test in tests]),
            np.repeat(np.arange(len(tests)), [len(test) for test in tests]),
        )
        results = {}
        for cell in parts[0]:
            decision = np.concatenate([part[cell].decision for part in parts])
            value = float(np.mean([part[cell].objective for part in parts]))
            results[cell] = score_cell(decision, value, held, self.scoring)
        return results

    def paths(self, encoded: Encoded, budgets: Sequence[Pair]) -> Iterator[Path]:
        """The path over budgets for every kernel choice, bandwidth and ridge."""
        for (name, choice), (key, width) in product(self.kernels.items(), self.bandwidths.items()):
            prepared = encoded.prepare(choice, per_feature(), width, self.engine)
            for alpha in self.alphas:
                problems = tasks(prepared, alpha, (1, 1), self.shared, thorough=False)
                cells = [method.path(problem, budgets) for problem in problems]
                for pair in budgets:
                    yield Path((name, key, alpha), pair, prepared, problems, [c[pair] for c in cells])


@dataclass(frozen=True)
class Path:
    """The solutions at one pair of budgets, one per problem."""

    key: tuple[str, Any, float]
    budgets: tuple[int, int]
    prepared: Prepared
    problems: list[method.Task]
    solutions: list[Solution]

    def decision(self, table: Table, coupling: str, refit: str) -> np.ndarray:
        tables = [
            refit_table(problem, solution.state, coupling=coupling, refit=refit)
            for problem, solution in zip(self.problems, self.solutions, strict=True)
        ]
        return assemble(self.prepared, tables, self.solutions).decision(table)


@dataclass(frozen=True)
class HeldOut:
    """Decisions on the test rows of one fold, and the objective per unit of training weight."""

    decision: np.ndarray
    objective: float


@dataclass(frozen=True)
class Tests:
    """The test rows of all folds, one after another."""

    codes: np.ndarray
    targets: np.ndarray
    weight: np.ndarray
    fold: np.ndarray


def _fold(search: Search, train: Rows, test: Rows, budgets: Sequence[Pair]) -> dict[Cell, HeldOut]:
    """Every cell on one fold."""
    out: dict[Cell, HeldOut] = {}
    mass = float(train.weight.sum())
    with threadpool_limits(1, user_api="blas"):
        encoded = Encoded.of(train, **search.encoding)
        for path in search.paths(encoded, budgets):
            value = sum(s.objective for s in path.solutions) / mass
            for coupling, refit in product(search.couplings, search.refits):
                cell = Cell(Setting(*path.key, coupling, refit), *path.budgets)
                out[cell] = HeldOut(path.decision(test.table, coupling, refit), value)
    return out


def score_cell(decision: np.ndarray, objective: float, tests: Tests, scoring: str) -> Result:
    """Scores of held-out decisions; rows count by their weight."""
    loss = Calibrator.fit(decision, tests.targets, tests.weight).losses(decision, tests.codes)
    hit = (decision[:, 0] >= 0).astype(int) if decision.shape[1] == 1 else np.argmax(decision, axis=1)
    by_row = {"log_loss": -loss, "accuracy": (hit == tests.codes).astype(float)}
    scores = {name: float(np.average(v, weights=tests.weight)) for name, v in by_row.items()}
    scores["roc_auc"] = _auc(decision, tests.targets, tests.weight)
    values = by_row.get(scoring, -loss)
    means = [np.average(values[k], weights=tests.weight[k]) for k in _masks(tests.fold)]
    if scoring == "roc_auc":
        means = [_auc(decision[k], tests.targets[k], tests.weight[k]) for k in _masks(tests.fold)]
    error = float(np.nanstd(means, ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0
    return Result(decision, objective, scores, error)


def _masks(fold: np.ndarray) -> list[np.ndarray]:
    return [fold == k for k in np.unique(fold)]


def _auc(decision: np.ndarray, targets: np.ndarray, weight: np.ndarray) -> float:
    """Area under the curve; the mean of one class against the rest if there are several. NaN with one class."""
    if np.any(np.ptp(targets, axis=0) == 0):
        return float("nan")
    areas = [roc_auc_score(t > 0, f, sample_weight=weight) for f, t in zip(decision.T, targets.T, strict=True)]
    return float(np.mean(areas))


def choose(results: dict[Cell, Result], scoring: str, rule: str = "best") -> Cell:
    """The best cell, ties to the smaller model; or the smallest within one standard error of it."""
    best = min(results, key=lambda c: (-round(results[c].scores[scoring], 10), c.size, c.max_instances))
    if rule == "best":
        return best
    bar = results[best].scores[scoring] - results[best].error
    good = [c for c in results if results[c].scores[scoring] >= bar]
    return min(good, key=lambda c: (c.size, -results[c].scores[scoring]))
