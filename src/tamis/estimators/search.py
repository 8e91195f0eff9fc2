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

from tamis.estimators.calibration import log_loss_rows
from tamis.estimators.em2nolc import assemble, tasks
from tamis.estimators.model import Encoded, Prepared
from tamis.estimators.rows import Rows
from tamis.estimators.table import Table
from tamis.kernels.recipes import per_feature
from tamis.methods import em2nolc as method
from tamis.optim.driver import Solution

Split = tuple[np.ndarray, np.ndarray]


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

    def run(
        self, rows: Rows, splits: list[Split], instances: Sequence[int], features: Sequence[int]
    ) -> dict[Cell, Result]:
        """Score every cell on all folds."""
        parts = Parallel(n_jobs=self.n_jobs)(
            delayed(_fold)(self, rows, train, test, instances, features) for train, test in splits
        )
        fold = np.repeat(np.arange(len(splits)), [len(test) for _, test in splits])
        tested = rows.take(np.concatenate([test for _, test in splits]))
        results = {}
        for cell in parts[0]:
            decision = np.concatenate([part[cell].decision for part in parts])
            value = float(np.mean([part[cell].objective for part in parts]))
            results[cell] = score_cell(decision, value, tested, fold, self.scoring)
        return results

    def paths(self, encoded: Encoded, instances: Sequence[int], features: Sequence[int]) -> Iterator[Path]:
        """The path over budgets for every kernel choice, bandwidth and ridge."""
        for (name, choice), (key, width) in product(self.kernels.items(), self.bandwidths.items()):
            prepared = encoded.prepare(choice, per_feature(), width, self.engine)
            for alpha in self.alphas:
                problems = tasks(prepared, alpha, (1, 1), self.shared, thorough=False)
                cells = [method.path(problem, instances, features) for problem in problems]
                for budgets in cells[0]:
                    yield Path((name, key, alpha), budgets, prepared, problems, [c[budgets] for c in cells])


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
            method.table(problem, solution.state, coupling=coupling, refit=refit)
            for problem, solution in zip(self.problems, self.solutions, strict=True)
        ]
        return assemble(self.prepared, tables, self.solutions).decision(table)


@dataclass(frozen=True)
class HeldOut:
    """Decisions on the test rows of one fold, and the objective per unit of training weight."""

    decision: np.ndarray
    objective: float


def _fold(
    search: Search,
    rows: Rows,
    train: np.ndarray,
    test: np.ndarray,
    instances: Sequence[int],
    features: Sequence[int],
) -> dict[Cell, HeldOut]:
    """Every cell on one fold."""
    out: dict[Cell, HeldOut] = {}
    table = rows.table.take(test)
    mass = float(rows.weight[train].sum())
    with threadpool_limits(1, user_api="blas"):
        encoded = Encoded.of(rows.take(train), **search.encoding)
        for path in search.paths(encoded, instances, features):
            value = sum(s.objective for s in path.solutions) / mass
            for coupling, refit in product(search.couplings, search.refits):
                cell = Cell(Setting(*path.key, coupling, refit), *path.budgets)
                out[cell] = HeldOut(path.decision(table, coupling, refit), value)
    return out


def score_cell(decision: np.ndarray, objective: float, rows: Rows, fold: np.ndarray, scoring: str) -> Result:
    """Scores of held-out decisions; rows count by their weight."""
    loss = log_loss_rows(decision, rows.targets, rows.codes, rows.weight)
    hit = _predict(decision) == rows.codes
    weighted = {"log_loss": -loss, "accuracy": hit.astype(float)}
    scores = {name: float(np.average(v, weights=rows.weight)) for name, v in weighted.items()}
    scores["roc_auc"] = _auc(decision, rows)
    values = weighted.get(scoring, -loss)
    means = [np.average(values[fold == k], weights=rows.weight[fold == k]) for k in np.unique(fold)]
    error = float(np.std(means, ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0
    return Result(decision, objective, scores, error)


def _predict(decision: np.ndarray) -> np.ndarray:
    return (decision[:, 0] >= 0).astype(int) if decision.shape[1] == 1 else np.argmax(decision, axis=1)


def _auc(decision: np.ndarray, rows: Rows) -> float:
    """Area under the curve; the mean of one class against the rest if there are several."""
    return float(
        np.mean([roc_auc_score(t > 0, f, sample_weight=rows.weight) for f, t in zip(decision.T, rows.targets.T)])
    )


def choose(results: dict[Cell, Result], scoring: str, rule: str = "best") -> Cell:
    """The best cell, ties to the smaller model; or the smallest within one standard error of it."""
    best = min(results, key=lambda c: (-round(results[c].scores[scoring], 10), c.size, c.max_instances))
    if rule == "best":
        return best
    bar = results[best].scores[scoring] - results[best].error
    good = [c for c in results if results[c].scores[scoring] >= bar]
    return min(good, key=lambda c: (c.size, -results[c].scores[scoring]))
