"""The shell of the classifiers on channels that samples may lack.

A row with a missing cell among the columns of a channel lacks that channel, which then is zero with every row. A method
derives from `ChannelClassifier` and adds its parameters and ``_solve``, which also sees who has what. More than two
classes are one against the rest, or one against one, where the score of a class is the sum of its scores against the
others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np

from tamis.data.checks import check_choice
from tamis.data.rows import Rows, spread
from tamis.expansion import Coefficients
from tamis.explain.channels import ChannelExplanation, typical_range
from tamis.kernels.recipes import Recipe, per_feature
from tamis.models.model import Model, PreparedRows
from tamis.shells.classifying import KernelClassifier
from tamis.shells.explaining import variation_rows
from tamis.shells.parameters import parameters
from tamis.shells.stacked import WIDTH, Answer, CostClassifier, Task

MULTICLASS = ("one_vs_rest", "one_vs_one")
FEW_ROWS = 20  # rows that have a channel, at the least, where there are so many, to tell what it contributes


@dataclass(frozen=True, kw_only=True)
class ChannelTask(Task):
    """A task that knows who has what: `present` (n, L)."""

    present: np.ndarray


@parameters
class Channelled(KernelClassifier):
    """What a classifier on channels tells of its decisions.

    Parameters
    ----------
    multiclass : {"one_vs_rest", "one_vs_one"}
        In "one_vs_one" the score of a class is the sum of its scores against the others.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns)
        The channels, positive semi-definite. None is `tamis.per_feature()`, a Gaussian on each feature; see also
        `tamis.per_group()`, `tamis.channels()` and `tamis.precomputed()`, where a row of NaN is absent.
    missing : {"absent", "median", None}
        "absent": a row with any missing cell in a channel lacks that channel; "median": filled with the training median
        (the most frequent category), so that nothing is absent; None: refused.

    Attributes
    ----------
    channel_ranges_ : (outputs, kept kernels, 3) what each channel contributes to training samples that have it: the 5%,
        50% and 95% quantiles
    """

    _: KW_ONLY
    multiclass: str = "one_vs_rest"
    kernels: Any = None
    channel_ranges_: np.ndarray = field(init=False)

    def explain(self, X: Any) -> ChannelExplanation:
        """Split decisions into the contributions of samples and channels, and tell which channels each row has."""
        base = super().explain(X)
        model, table = self._seen(X)
        present = model.expansion.bank.presence(model.encode(table))
        return ChannelExplanation(**vars(base), present=present, typical=self.channel_ranges_)

    def oriented(self, positive: Any) -> Self:
        other = super().oriented(positive)
        if other is not self:
            other.channel_ranges_ = -self.channel_ranges_[..., ::-1]
        return other


class ChannelClassifier(Channelled, CostClassifier):
    """Base of the support vector machines on channels."""

    _recipe: ClassVar[Recipe] = per_feature()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("multiclass", self.multiclass, MULTICLASS)

    def _prepare(self, rows: Rows) -> PreparedRows:
        encoded = self._encoded(rows, rows.table.numbers.shape[1], self._engine)
        return encoded.prepare(self.kernels, self._recipe, WIDTH, whole=True, device=self._device)

    def _tasks(self, prepared: PreparedRows, quick: bool) -> list[Task]:
        rows = prepared.encoded.rows
        present, cost = prepared.bank.presence(prepared.encoded.sample.Z), self._costs(rows)
        tasks: list[Task] = []
        for members, y in self._problems(rows):
            whole = len(members) == len(rows)
            stack = prepared.stack if whole else prepared.stack.take(rows=members, cols=members)
            tasks.append(ChannelTask(stack, y, cost[members], quick, present=present[members]))
        return tasks

    def _problems(self, rows: Rows) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows and labels of each problem of two classes."""
        if not self._paired(rows):
            return [(np.arange(len(rows)), y[:, 0]) for y in rows.problems(shared=False)]
        out = []
        for first, second in combinations(range(len(rows.classes)), 2):
            members = np.flatnonzero((rows.codes == first) | (rows.codes == second))
            out.append((members, np.where(rows.codes[members] == first, 1.0, -1.0)))
        return out

    def _paired(self, rows: Rows) -> bool:
        return self.multiclass == "one_vs_one" and len(rows.classes) > 2

    def _votes(self, rows: Rows) -> np.ndarray:
        """What the score of each problem adds to each output: (outputs, problems)."""
        return pair_votes(len(rows.classes)) if self._paired(rows) else np.eye(rows.targets.shape[1])

    def _assembled(self, prepared: PreparedRows, answers: Sequence[Answer]) -> Model:
        coef, intercept = self._coefficients(prepared, answers)
        n, L = coef.shape[1:]
        block = Coefficients(np.arange(n), np.arange(L), coef, intercept)
        return prepared.model([block], [a.solution for a in answers])

    def _coefficients(self, prepared: PreparedRows, answers: Sequence[Answer]) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (outputs, n, L) of all training rows and channels, and intercepts (outputs,)."""
        rows = prepared.encoded.rows
        votes = self._votes(rows)
        coef = np.zeros((len(votes), len(prepared.pool), len(prepared.bank)))
        for (members, _), answer, vote in zip(self._problems(rows), answers, votes.T, strict=True):
            carriers, table = self._table(prepared, members, answer)
            for q in np.flatnonzero(vote):
                coef[q, carriers] += vote[q] * table
        return coef, votes @ [a.intercept for a in answers]

    def _table(self, prepared: PreparedRows, members: np.ndarray, answer: Answer) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the pool that carry an answer, and their coefficients (rows, L), one for each channel.

        The rows of an answer may have one coefficient or one for each channel.
        """
        dual = answer.dual_coef if answer.dual_coef.ndim == 2 else answer.dual_coef[:, None]
        return members, dual * answer.weights

    def _learn(self, rows: Rows, *, quick: bool = False) -> Model:
        model = super()._learn(rows, quick=quick)
        if not quick:
            self.channel_ranges_ = _ranges(model, model.encode(rows.table))
        return model


def _ranges(model: Model, Z: np.ndarray) -> np.ndarray:
    """What each channel contributes to encoded training rows (outputs, kept kernels, 3), as quantiles."""
    most = variation_rows(model)
    rows, present = spread(len(Z), most), model.expansion.bank.presence(Z)
    wanted = np.union1d(rows, _rare_rows(present, rows)[:most])
    return typical_range(model.expansion.split(Z[wanted])[1], present[wanted])


def pair_votes(n_classes: int) -> np.ndarray:
    """Entries (classes, pairs): one where the score of a pair speaks for a class, minus one where against it."""
    pairs = np.array(list(combinations(range(n_classes), 2)))
    votes = np.zeros((n_classes, len(pairs)))
    votes[pairs[:, 0], np.arange(len(pairs))] = 1.0
    votes[pairs[:, 1], np.arange(len(pairs))] = -1.0
    return votes


def _rare_rows(present: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Some rows that have the channels of which a sample of rows has too few to tell what they contribute."""
    few = np.flatnonzero(np.count_nonzero(present[rows], axis=0) < FEW_ROWS)
    return np.unique(np.concatenate([np.empty(0, dtype=int), *(np.flatnonzero(present[:, k])[:FEW_ROWS] for k in few)]))


def used_parts(coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and channels with a coefficient, of coefficients (outputs, n, L)."""
    used = np.any(coef != 0, axis=0)
    return np.flatnonzero(used.any(axis=1)), np.flatnonzero(used.any(axis=0))
