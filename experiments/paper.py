"""The comparison of one paper: datasets, methods, protocols, measures and published numbers."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from experiments.cells import PROTOCOLS, Cell, Row
from experiments.datasets import PUBLISHED, why_missing
from experiments.method import Fitted, Method, measured
from experiments.peers import installed
from experiments.problem import Problem


class Published(NamedTuple):
    """A published number; the spread is NaN where none is printed."""

    value: float
    spread: float


Trial = Callable[["Paper", Cell, Problem], Row]


def plain_trial(paper: Paper, cell: Cell, problem: Problem) -> Row:
    """Tune, fit and measure a method on one split."""
    method = paper.methods[cell.method]
    numbers, status, found = measured(problem, method.run, cell.size == "quick")
    return Row(
        cell, numbers, status, seed=cell.split, chosen=dict(found.chosen), extra=_extra(paper, cell, problem, found)
    )


def _extra(paper: Paper, cell: Cell, problem: Problem, found: Fitted) -> dict[str, Any]:
    """Return the data of figures, from the first split only; an error here does not make the fit a failure."""
    if paper.figure_data is None or cell.split:
        return {}
    try:
        return paper.figure_data(cell, problem, found)
    except Exception as error:  # listed on the page
        return {"figure_error": f"{type(error).__name__}: {error}"}


@dataclass(frozen=True)
class Paper:
    """The comparison of one paper.

    Attributes
    ----------
    name, title, citation : of the paper
    datasets : {our name: name in the paper, or "" where the paper does not use it}
    absent : datasets of the paper that are not available
    methods : {name: method}, the columns of the tables
    main : name of the paper's method
    splits : {(protocol, size): number of splits}
    problem : function from a cell to its split
    measures : {measure: title of its table}
    settings : function from protocol, size and dataset to the values of what else varies
    trial : function that runs a cell
    figure_data : function from a fit to the first split to the data of figures
    summary : {protocol: "best"} for a protocol that reports its best repetition; else means over splits
    figures : {title: function from rows to a figure}
    aliases : {method: method whose published numbers it has}
    ratio : number of test rows over number of training rows
    same_splits : whether both protocols have the same splits, so that methods of both run once
    reason : function from a dataset to why it is not available, or ""
    """

    name: str
    title: str
    citation: str
    datasets: Mapping[str, str]
    absent: tuple[str, ...]
    methods: Mapping[str, Method]
    main: str
    splits: Mapping[tuple[str, str], int]
    problem: Callable[[Cell], Problem]
    measures: Mapping[str, str]
    settings: Callable[[str, str, str], Sequence[str]] = lambda protocol, size, dataset: [""]
    trial: Trial = plain_trial
    figure_data: Callable[[Cell, Problem, Fitted], dict[str, Any]] | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Callable[[Sequence[Row]], Any]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    ratio: float = 3 / 7
    same_splits: bool = False
    reason: Callable[[str], str] = why_missing

    @cached_property
    def published(self) -> dict[tuple[str, str, str], Published]:
        """Published numbers by dataset, method and measure, under our names."""
        with (PUBLISHED / f"{self.name}.csv").open() as file:
            entries = list(csv.DictReader(file))
        return {
            (e["dataset"], e["method"], e["measure"]): Published(float(e["value"]), float(e["spread"] or "nan"))
            for e in entries
        }

    @cached_property
    def descriptions(self) -> dict[str, str]:
        """What each protocol does, and under "why" an assessment of the differences."""
        text = (PUBLISHED / f"{self.name}.toml").read_text()
        return {name: " ".join(value.split()) for name, value in tomllib.loads(text).items()}

    def reported(self, dataset: str, method: str, measure: str) -> Published | None:
        """Return the published number of a method on a dataset; None if there is none."""
        return self.published.get((dataset, self.aliases.get(method, method), measure))

    @property
    def available(self) -> list[str]:
        """Names of available datasets."""
        return [name for name in self.datasets if not self.reason(name)]

    @property
    def missing(self) -> dict[str, str]:
        """{dataset that is not available: why}."""
        return {name: reason for name in (*self.datasets, *self.absent) if (reason := self.reason(name))}

    @property
    def left_out(self) -> dict[str, str]:
        """{method whose package is not installed: the package}."""
        return {name: method.needs for name, method in self.methods.items() if not installed(method)}

    def twin(self, cell: Cell) -> Cell | None:
        """Return the cell of the honest protocol that is the same run; None if there is none."""
        both = self.same_splits and self.methods[cell.method].protocols == PROTOCOLS
        return replace(cell, protocol="honest") if both and cell.protocol == "paper" else None

    def cells(self, protocol: str, size: str) -> list[Cell]:
        """Return all cells; those of one split follow one another."""
        names = [n for n, m in self.methods.items() if protocol in m.protocols and size in m.sizes and installed(m)]
        return [
            Cell(self.name, protocol, size, dataset, split, setting, method)
            for dataset in self.available
            for split in range(self.splits[protocol, size])
            for setting in self.settings(protocol, size, dataset)
            for method in names
        ]
