"""Channels that samples may lack: the problems of two classes, the model of their answers, explanations.

A row with a missing cell among the columns of a channel lacks that channel, which then is zero with every row. More
than two classes are one against the rest, or one against one, where the score of a class is the sum of its scores
against the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from tamis.base.estimator import blockwise
from tamis.base.kernel_model import Coefficients, KernelModel
from tamis.base.kernel_space import PreparedRows
from tamis.base.stack_classifier import Answer, Task
from tamis.explain import Explanation
from tamis.explain.kernel_explanation import ChannelExplanation, typical_range
from tamis.table.rows import Rows, spread

MULTICLASS = ("one_vs_rest", "one_vs_one")
MIN_CHANNEL_ROWS = 20  # that have a channel, where there are so many, to measure what it contributes


@dataclass(frozen=True)
class ChannelProblems:
    """The problems of two classes that rows with several classes come down to."""

    prepared: PreparedRows  # training rows with the kernels of their channels
    multiclass: str  # "one_vs_rest" or "one_vs_one"

    @property
    def rows(self) -> Rows:
        return self.prepared.encoded.rows

    @property
    def _in_pairs(self) -> bool:
        return self.multiclass == "one_vs_one" and len(self.rows.classes) > 2

    def problems(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows and labels of each problem."""
        rows = self.rows
        if not self._in_pairs:
            return [(np.arange(len(rows)), y[:, 0]) for y in rows.problems(shared=False)]
        out = []
        for first, second in combinations(range(len(rows.classes)), 2):
            members = np.flatnonzero((rows.codes == first) | (rows.codes == second))
            out.append((members, np.where(rows.codes[members] == first, 1.0, -1.0)))
        return out

    def tasks(self, cost: np.ndarray, rough: bool) -> list[Task]:
        """The tasks of rows with costs (n,)."""
        stack, present = self.prepared.stack, self.prepared.bank.presence(self.prepared.encoded.sample.Z)
        tasks: list[Task] = []
        for members, y in self.problems():
            part = stack if len(members) == len(self.rows) else stack.take(rows=members, cols=members)
            tasks.append(Task(part, y, cost[members], rough, present=present[members]))
        return tasks

    def votes(self) -> np.ndarray:
        """What the score of each problem adds to each output: (outputs, problems)."""
        return pair_votes(len(self.rows.classes)) if self._in_pairs else np.eye(self.rows.targets.shape[1])

    def coefficients(self, answers: Sequence[Answer]) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (outputs, n, L) of all rows of the pool and channels, and intercepts (outputs,)."""
        votes = self.votes()
        coef = np.zeros((len(votes), len(self.prepared.pool), len(self.prepared.bank)))
        for (members, _), answer, vote in zip(self.problems(), answers, votes.T, strict=True):
            carriers, table = self._table(members, answer)
            for q in np.flatnonzero(vote):
                coef[q, carriers] += vote[q] * table
        return coef, votes @ [a.intercept for a in answers]

    def _table(self, members: np.ndarray, answer: Answer) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the pool that carry an answer, and their coefficients (rows, L), one for each channel.

        The rows of an answer may have one coefficient or one for each channel.
        """
        stack, m = self.prepared.stack, len(self.prepared.pool)
        if stack.error is not None:
            dual_coef = np.zeros(stack.shape[1])
            dual_coef[members] = answer.dual_coef
            return np.arange(m), stack.folded(answer.weights, dual_coef, m)
        dual = answer.dual_coef if answer.dual_coef.ndim == 2 else answer.dual_coef[:, None]
        return members, dual * answer.weights

    def model(self, coef: np.ndarray, intercept: np.ndarray, answers: Sequence[Answer]) -> KernelModel:
        """The model of coefficients (outputs, n, L) and intercepts (outputs,) of the answers."""
        n, L = coef.shape[1:]
        block = Coefficients(np.arange(n), np.arange(L), coef, intercept)
        return self.prepared.model([block], [a.solution for a in answers])


def channel_ranges(model: KernelModel, rows: Rows) -> np.ndarray:
    """What each channel contributes to training rows that have it (outputs, kept kernels, 3), as quantiles."""
    Z, most = model.encode(rows.table), model.variation_rows
    some, present = spread(len(Z), most), model.expansion.bank.presence(Z)
    wanted = np.union1d(some, _rare_rows(present, some)[:most])
    return typical_range(model.expansion.split(Z[wanted])[1], present[wanted])


def explain_channels(estimator: Any, X: Any, explanation: Explanation) -> ChannelExplanation:
    """An explanation with the channels that each row has, and what they usually contribute."""
    return ChannelExplanation(**vars(explanation), present=_present(estimator, X), typical=estimator.channel_ranges_)


@blockwise
def _present(estimator: Any, X: Any) -> np.ndarray:
    """Which channels (rows, kept kernels) the rows have."""
    model, table = estimator._seen(X)
    return model.expansion.bank.presence(model.encode(table))


def mirrored(ranges: np.ndarray) -> np.ndarray:
    """Ranges of contributions for the opposite decision."""
    return -ranges[..., ::-1]


def pair_votes(n_classes: int) -> np.ndarray:
    """Entries (classes, pairs): one where the score of a pair counts for a class, minus one where against it."""
    pairs = np.array(list(combinations(range(n_classes), 2)))
    votes = np.zeros((n_classes, len(pairs)))
    votes[pairs[:, 0], np.arange(len(pairs))] = 1.0
    votes[pairs[:, 1], np.arange(len(pairs))] = -1.0
    return votes


def _rare_rows(present: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Some rows that have the channels of which a sample of rows has too few."""
    few = np.flatnonzero(np.count_nonzero(present[rows], axis=0) < MIN_CHANNEL_ROWS)
    found = (np.flatnonzero(present[:, k])[:MIN_CHANNEL_ROWS] for k in few)
    return np.unique(np.concatenate([np.empty(0, dtype=int), *found]))


def used_parts(coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and channels with a coefficient, of coefficients (outputs, n, L)."""
    used = np.any(coef != 0, axis=0)
    return np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
