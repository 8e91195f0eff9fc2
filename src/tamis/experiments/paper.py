"""What the comparison of one paper consists of."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from typing import Any, NamedTuple

from tamis.experiments.cells import PROTOCOLS, Cell, Row
from tamis.experiments.datasets import why_missing
from tamis.experiments.method import Fitted, Method, measured
from tamis.experiments.peers import installed
from tamis.experiments.problem import Problem


class Published(NamedTuple):
    """A number of a paper; the spread is NaN where none is printed."""

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
    """What figures need, of the first split; a fit whose story cannot be told is still a fit."""
    if paper.tell is None or cell.split:
        return {}
    try:
        return paper.tell(cell, problem, found)
    except Exception as error:  # goes to the page with the rest of what went wrong
        return {"untold": f"{type(error).__name__}: {error}"}


@dataclass(frozen=True)
class Paper:
    """The comparison of one paper.

    Attributes
    ----------
    name, title, citation : of the paper
    datasets : ours by name, with the name that the paper has for each; empty where it has none
    absent : datasets of the paper that are not to be had
    methods : the columns of its tables, by name
    main : the method of the paper
    splits : how many, for each protocol and size
    problem : the split that a cell is about
    measures : those that have tables, with what they are called
    settings : what else varies, for a protocol, size and dataset
    trial : what is done with a cell
    tell : what figures need of a fit to the first split
    summary : how splits become a number: "mean", or for a protocol that reports its best repetition "best"
    figures : makers of figures from rows, by title
    aliases : methods whose published numbers stand under the name of another
    ratio : rows tested over rows learned from
    same_splits : whether both protocols have the same splits, so that methods that take part in both run once
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
    tell: Callable[[Cell, Problem, Fitted], dict[str, Any]] | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Callable[[Sequence[Row]], Any]] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    ratio: float = 3 / 7
    same_splits: bool = False

    @cached_property
    def published(self) -> dict[tuple[str, str, str], Published]:
        """The paper's numbers by dataset, method and measure, under our names."""
        with (files("tamis.experiments") / "published" / f"{self.name}.csv").open() as file:
            entries = list(csv.DictReader(file))
        return {
            (e["dataset"], e["method"], e["measure"]): Published(float(e["value"]), float(e["spread"] or "nan"))
            for e in entries
        }

    @cached_property
    def words(self) -> dict[str, str]:
        """What each protocol does, and under "why" what we think of the differences."""
        text = (files("tamis.experiments") / "published" / f"{self.name}.toml").read_text()
        return {name: " ".join(value.split()) for name, value in tomllib.loads(text).items()}

    def told(self, dataset: str, method: str, measure: str) -> Published | None:
        """What the paper has for a method on a dataset."""
        return self.published.get((dataset, self.aliases.get(method, method), measure))

    @property
    def at_hand(self) -> list[str]:
        """Datasets that can be had."""
        return [name for name in self.datasets if not why_missing(name)]

    @property
    def missing(self) -> dict[str, str]:
        """Datasets that cannot be had, and why."""
        return {name: reason for name in (*self.datasets, *self.absent) if (reason := why_missing(name))}

    @property
    def left_out(self) -> dict[str, str]:
        """Methods whose package is missing."""
        return {name: method.needs for name, method in self.methods.items() if not installed(method)}

    def twin(self, cell: Cell) -> Cell | None:
        """The cell of the honest protocol that is the same run as one of the paper's."""
        both = self.same_splits and self.methods[cell.method].protocols == PROTOCOLS
        return replace(cell, protocol="honest") if both and cell.protocol == "paper" else None

    def cells(self, protocol: str, size: str) -> list[Cell]:
        """All cells, those of one split together."""
        names = [n for n, m in self.methods.items() if protocol in m.protocols and size in m.sizes and installed(m)]
        return [
            Cell(self.name, protocol, size, dataset, split, setting, method)
            for dataset in self.at_hand
            for split in range(self.splits[protocol, size])
            for setting in self.settings(protocol, size, dataset)
            for method in names
        ]
