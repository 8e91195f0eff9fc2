"""Tables from rows: means over splits, ranks and tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.cells import FAILED, NOT_CONVERGED, Row
from experiments.paper import Paper
from experiments.statistics import holm, mean_ranks, resampled, signed_ranks

LEVEL = 0.05


def mean_of(values: np.ndarray) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


@dataclass(frozen=True)
class Number:
    """Mean and standard deviation over splits, with the numbers of splits found and expected."""

    mean: float
    spread: float
    count: int
    expected: int

    def __str__(self) -> str:
        if not self.count:
            return "failed" if self.expected else "-"
        form = ".2g" if 0 < abs(self.mean) < 1 else ".1f" if abs(self.mean) < 1000 else ".0f"
        text = format(self.mean, form)
        if self.count > 1 and np.isfinite(self.spread):
            text += f" ± {format(self.spread, form)}"
        return text if self.count == self.expected else f"{text} ({self.count} of {self.expected})"


@dataclass(frozen=True)
class Table:
    """All rows of one paper, protocol and size, with those that failed."""

    paper: Paper
    protocol: str
    rows: Sequence[Row]

    @cached_property
    def datasets(self) -> list[str]:
        """In the order of the paper."""
        found = {row.cell.dataset for row in self.rows}
        return [name for name in self.paper.datasets if name in found]

    @cached_property
    def methods(self) -> list[str]:
        """In the order of the paper."""
        found = {row.cell.method for row in self.rows}
        return [name for name in self.paper.methods if name in found]

    @property
    def main(self) -> str:
        """Name of the paper's method in this protocol; empty if it has no rows."""
        own = [m for m in self.methods if m == self.paper.main or self.paper.aliases.get(m) == self.paper.main]
        return own[0] if own else ""

    @cached_property
    def by_split(self) -> dict[tuple[str, str], dict[int, list[Row]]]:
        """Rows by dataset, method and split; one row for each setting."""
        out: dict[tuple[str, str], dict[int, list[Row]]] = {}
        for row in self.rows:
            out.setdefault((row.cell.dataset, row.cell.method), {}).setdefault(row.cell.split, []).append(row)
        return out

    def values(self, dataset: str, method: str, measure: str) -> dict[int, float]:
        """Return the measure on each split, the mean over settings, without splits that have a failure.

        Instances are counted only for methods whose models consist of them.
        """
        out: dict[int, float] = {}
        if measure in ("n_instances", "irr") and not self.paper.methods[method].cases:
            return out
        for split, rows in sorted(self.by_split.get((dataset, method), {}).items()):
            found = [row.measures.get(measure) for row in rows if row.status != FAILED]
            if len(found) == len(rows) and all(value is not None for value in found):
                out[split] = float(np.mean([value for value in found if value is not None]))
        return out

    def number(self, dataset: str, method: str, measure: str) -> Number:
        """Return the mean over splits or, if the protocol reports it, the most accurate repetition."""
        expected = len(self.by_split.get((dataset, method), {}))
        values = self.values(dataset, method, measure)
        if not values:
            if measure in ("n_instances", "irr") and not self.paper.methods[method].cases:
                return Number(np.nan, np.nan, 0, 0)
            known = any(measure in row.measures for row in self.rows if row.cell.method == method)
            failed = any(r.status == FAILED for rows in self.by_split.get((dataset, method), {}).values() for r in rows)
            return Number(np.nan, np.nan, 0, expected if known or failed else 0)
        if self.paper.summary.get(self.protocol) == "best":
            accuracy = self.values(dataset, method, "accuracy")
            best = max(accuracy, key=lambda split: accuracy[split]) if accuracy else next(iter(values))
            row = self.by_split[dataset, method][best][0]
            spread = row.extra.get("spread", {}).get(measure, np.nan)
            return Number(values.get(best, np.nan), np.nan if spread is None else spread, len(values), expected)
        spread = float(np.std(list(values.values()), ddof=1)) if len(values) > 1 else np.nan
        return Number(float(np.mean(list(values.values()))), spread, len(values), expected)

    @cached_property
    def scores(self) -> np.ndarray:
        """Accuracy (datasets, methods)."""
        found = [[self.number(d, m, "accuracy").mean for m in self.methods] for d in self.datasets]
        return np.round(np.array(found), 9)  # equal numbers of right answers are equal

    def mean(self, method: str) -> tuple[float, int]:
        """Return the mean accuracy of a method over datasets, and the number of datasets that have one."""
        own = self.scores[:, self.methods.index(method)]
        return mean_of(own), int(np.sum(~np.isnan(own)))

    @property
    def ranks(self) -> dict[str, float]:
        """Mean rank of each method over datasets; 1 is the best."""
        return dict(zip(self.methods, mean_ranks(self.scores).tolist(), strict=True))

    def against_main(self) -> list[tuple[str, float, float, float, int, int]]:
        """Return (method, mean difference of the main method to it, p, corrected p, wins, losses) for all others.

        The p-values are over datasets. A win or loss is a dataset where the corrected t-test over splits rejects
        equality.
        """
        own = self.scores[:, self.methods.index(self.main)]
        p = {}
        for k, method in enumerate(self.methods):
            both = ~np.isnan(own) & ~np.isnan(self.scores[:, k])
            if method != self.main:
                p[method] = signed_ranks(own[both], self.scores[both, k])
        corrected = holm(p)
        out = []
        for method in p:
            difference = mean_of(own - self.scores[:, self.methods.index(method)])
            wins, losses = self._duels(method)
            out.append((method, difference, p[method], corrected[method], wins, losses))
        return out

    def _duels(self, method: str) -> tuple[int, int]:
        wins = losses = 0
        for dataset in self.datasets:
            first, second = (self.values(dataset, m, "accuracy") for m in (self.main, method))
            shared = sorted(set(first) & set(second))
            a, b = [first[s] for s in shared], [second[s] for s in shared]
            if len(shared) > 1 and resampled(a, b, self.paper.ratio) < LEVEL:
                wins, losses = wins + (np.mean(a) > np.mean(b)), losses + (np.mean(a) < np.mean(b))
        return wins, losses

    @property
    def failures(self) -> list[Row]:
        """Rows without numbers."""
        return [row for row in self.rows if row.status == FAILED]

    @property
    def not_converged(self) -> dict[str, tuple[int, int]]:
        """{method with fits that did not converge: (their number, number of all fits)}."""
        out = {}
        for method in self.methods:
            own = [row for row in self.rows if row.cell.method == method]
            count = sum(row.status == NOT_CONVERGED for row in own)
            if count:
                out[method] = count, len(own)
        return out
