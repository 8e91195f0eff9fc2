"""Sums over training rows in the place of the rows: the same way from data to model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from tamis.estimators.model import Pool, Prepared
from tamis.estimators.plan import Plan
from tamis.estimators.rows import Rows, codings
from tamis.expansion import Coefficients
from tamis.kernels.recipes import Bandwidth, Recipe
from tamis.kernels.statistics import CHUNK, Block, PairFunctions, outer_sums
from tamis.methods import em2nolc as method
from tamis.methods.design import Design, MomentDesign, RowDesign, Sums
from tamis.methods.em2nolc import State, Task
from tamis.methods.polish import better_rows
from tamis.methods.refit import coefficients
from tamis.optim.driver import Solution

REFIT_TOL = 1e-10  # relative decrease of J at which the exact refit stops
MOST_PAIRS = 2000  # of instance and kernel that an exact refit takes on
LOOK = 50_000  # most rows of the second pass, which calibrates and refits with the logistic loss


@dataclass(frozen=True)
class Summary:
    """Sums over training rows, with what the sums cannot give.

    Attributes
    ----------
    plan : Plan
    sums : (A, A) over the training rows
    pool : candidates
    look : training rows for logistic refits, or None
    rows : all training rows for a last fit with the exact kernels, or None
    """

    plan: Plan
    sums: np.ndarray
    pool: Pool
    look: Rows | None = None
    rows: Rows | None = None

    @cached_property
    def encoded_look(self) -> np.ndarray | None:
        return None if self.look is None else self.plan.encoder.encode(self.look.table)

    def prepare(self, kernels: Any, default: Recipe, bandwidth: Bandwidth) -> PreparedSums:
        """Put kernels on the sums."""
        bank = self.plan.bank(kernels, default, bandwidth)
        return PreparedSums(self.plan.encoder, bank, self.pool, self)


@dataclass(frozen=True)
class PreparedSums(Prepared):
    """Sums over training rows with short forms of the kernels."""

    summary: Summary

    def designs(self, shared: bool) -> list[Design]:
        summary = self.summary
        corners = self.bank.stack(self.pool.Z, form="streaming")
        sums, short = Sums.of(summary.sums), self._short(self.pool.Z, range(len(self.bank)))
        places = [summary.plan.functions.positions[channel.columns[0]] for channel in self.bank.channels]
        return [
            MomentDesign(sums, coding, places, short, self.pool.codes, corners, partial(self._look, coding))
            for coding in codings(len(summary.plan.classes), shared)
        ]

    def _short(self, Z: np.ndarray, kernels: Sequence[int]) -> list[np.ndarray]:
        bases, channels = self.summary.plan.functions.bases, [self.bank.channels[m] for m in kernels]
        return [bases[ch.columns[0]].coefficients(ch.kernel, Z[:, ch.columns[0]]) for ch in channels]

    def _look(self, coding: np.ndarray) -> RowDesign | None:
        look = self.summary.look
        if look is None:
            return None
        stack = self.bank.stack(self.summary.encoded_look, self.pool.Z, form="streaming")
        return RowDesign(stack, coding[look.codes], look.weight, np.empty(0, dtype=int))

    def widened(self, task: Task, state: State) -> PreparedSums:
        """The same with rows as further candidates that would improve on the present instances."""
        rows = self.summary.rows
        if rows is None or not len(state.instances):
            return self
        encoder, kept = self.encoder, state.kernels.tolist()
        columns = np.array([self.bank.channels[m].columns[0] for m in kept])
        small = encoder.select(columns)

        def short(block: slice) -> list[np.ndarray]:
            Z = np.full((len(rows.codes[block]), len(encoder.names)), np.nan)
            Z[:, columns] = small.encode(rows.table.take(block).select(columns))
            return self._short(Z, kept)

        blocks = [slice(start, min(start + CHUNK, len(rows))) for start in range(0, len(rows), CHUNK)]
        found = better_rows(task, state, short, blocks)
        found = found[~np.isin(rows.position[found], self.pool.position)]
        more = Pool(encoder.encode(rows.table.take(found)), rows.codes[found], rows.position[found])
        pool = Pool(*(np.concatenate(pair) for pair in zip(self.pool.parts, more.parts, strict=True)))
        return replace(self, pool=pool, summary=replace(self.summary, pool=pool))

    def doubts(self, task: Task, solution: Solution[State]) -> bool:
        """Whether a choice hangs on less than the error of the short forms, and all rows are at hand.

        What counts is the error in the part of the member that the closest exchange would drop, twice,
        because the member that would come in has one too.
        """
        state = solution.state
        pairs = len(state.instances) * len(state.kernels)
        if self.summary.rows is None or not 0 < pairs <= MOST_PAIRS:
            return False
        errors = self._errors(task, state)  # (candidates, instances, kernels, outputs)
        residual = np.sqrt(2.0 * solution.objective / task.design.total_weight)
        for (margin, member), axes in zip(method.closest_exchanges(task, state), ((2,), (1,)), strict=True):
            part = np.take(errors.sum(axis=axes), member, axis=1)
            size = float(np.sqrt(np.mean(np.sum(part**2, axis=1))))
            if margin * residual <= 4.0 * size:
                return True
        return False

    def refit_exactly(
        self, task: Task, solution: Solution[State], *, coupling: str, refit: str
    ) -> tuple[Coefficients, Solution[State]]:
        """Fit the coefficients of the chosen instances and kernels again, with their exact values on all rows.

        The choice itself stays: what it hangs on is less than the short forms can tell.
        """
        state = solution.state
        exact, start = self._exact(task, state)
        again = method.solve(exact, start=start, tol=REFIT_TOL)
        found = coefficients(exact, again.state, coupling=coupling, refit=refit)
        back = replace(found, instances=state.instances[found.instances], kernels=state.kernels[found.kernels])
        return back, replace(solution, objective=again.objective)

    def _errors(self, task: Task, state: State) -> np.ndarray:
        """Error of the short form of every summand of the decision, on the candidates."""
        Z, design = self.pool.Z, task.design
        assert isinstance(design, MomentDesign)
        parts = []
        for weight, m in zip(state.weights, state.kernels.tolist(), strict=True):
            channel = self.bank.channels[m]
            basis = self.summary.plan.functions.bases[channel.columns[0]]
            short = basis.features(Z[:, channel.columns[0]]).T @ design.short[m][state.instances].T
            parts.append(weight * (short - channel(Z, Z[state.instances]))[:, :, None] * state.dual_coef)
        return np.stack(parts, axis=2)

    def _exact(self, task: Task, state: State) -> tuple[Task, State]:
        """The problem on the chosen instances and kernels only, from exact kernel values of all rows."""
        rows, plan = self.summary.rows, self.summary.plan
        assert rows is not None
        bank = self.bank.take(state.kernels)
        columns = bank.columns
        small, even = self.encoder.select(columns), bool(np.all(rows.weight == 1.0))
        functions = PairFunctions(bank.relabel(columns), self.pool.Z[np.ix_(state.instances, columns)])

        def read(chunk: slice) -> Block:
            Z = small.encode(rows.table.take(chunk).select(columns))
            return Block(Z, rows.codes[chunk], None if even else rows.weight[chunk], np.zeros(len(Z), dtype=int))

        sums = outer_sums(functions, read, len(rows), n_classes=len(plan.classes), n_parts=1)[0]
        design = task.design
        assert isinstance(design, MomentDesign)
        f, k = len(state.kernels), len(state.instances)
        corners = design.corners.take(state.instances, state.instances, state.kernels)

        def look() -> RowDesign | None:
            whole = design.look
            if whole is None:
                return None
            return replace(whole, stack=whole.stack.take(cols=state.instances, kernels=state.kernels))

        exact = MomentDesign(
            Sums.of(sums),
            design.coding,
            functions.positions,
            [np.eye(k)] * f,
            design.codes[state.instances],
            corners,
            look,
        )
        incidence = None if task.incidence is None else task.incidence[state.kernels]
        start = replace(state, instances=np.arange(k), kernels=np.arange(f))
        return replace(task, design=exact, incidence=incidence, thorough=False), start
