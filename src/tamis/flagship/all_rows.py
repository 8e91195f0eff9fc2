"""The fit to many rows: choose on a sample, fit on all.

The first reading draws a sample (`reading`), on which columns, pairs and ridges are chosen (`sample`). The second
reading turns all rows into bytes (`coded`). Curves and surfaces minimise the penalised loss of all rows (`newton`):
first without the rows of the sample that judge, which shows what parts are worth and gives a held-out loss (slightly
optimistic, since these rows also chose columns, penalties and pairs), then with them.

How fine the tables are follows the number of rows:

    cells of a number         48 (n / 20 000)^(1/3), at most 128
    coarse cells of a pair    12 (n / 20 000)^(1/3), at most 32

Cases are candidates of the sample, and pull what the fit to all rows leaves over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tamis.codec import digest
from tamis.errors import warn
from tamis.flagship.cells import Cells
from tamis.flagship.coded import CodedRows, Layout, Sums, code_places, masses, select_columns, sum_block
from tamis.flagship.design import resolution
from tamis.flagship.fit import AUTO, MAX_AUTO, Outcome, Prepared, Settings, additive_model, path_of
from tamis.flagship.newton import MAX_PASSES, Minimum, Sample, minimise
from tamis.flagship.reading import Population, Reading, checks_of, read_targets
from tamis.flagship.sample import PIECE_ROWS, Chosen, Parts, Tables, choose_tables, score_of
from tamis.flagship.select import Proposals, smallest_within_error
from tamis.parallel import thread_map
from tamis.table.encoding import Encoder
from tamis.table.rows import Rows
from tamis.table.sources.checkpoint import BlockFile
from tamis.table.sources.source import Block, Kept, Source
from tamis.table.table import block_names, read_block, with_empty_labels

SAMPLE_ROWS = 50_000
WORTH_A_WARNING = 1e-4  # log-likelihood per row that a fit which was ended would still gain
CASE_ROWS = 20_000  # of the sample, among which cases are candidates and by which they are judged


@dataclass(frozen=True)
class Selected:
    """Columns of a sample of rows that are to be fitted to all rows.

    Attributes
    ----------
    given : the sample
    columns : (d,) kept columns of the table
    chosen : the sample in their cells
    path : see `fit_path`; None unless the number of columns was chosen
    """

    given: Prepared
    columns: np.ndarray
    chosen: Chosen
    path: dict[str, np.ndarray] | None


def select_on_sample(rows: Rows, population: Population, settings: Settings, seed: int) -> Selected:
    """Choose columns on a sample of a population."""
    given = Prepared.of(rows, settings, seed, population)
    informative, path = given.informative, None
    most = len(informative)
    if settings.max_features != AUTO:
        most = int(settings.max_features)
    elif len(informative) > 1:
        path = path_of(given, MAX_AUTO)
        most = smallest_within_error(path)
    columns = informative
    if len(informative) > most:
        proposals = Proposals.of(given.design.take(informative), given.likelihood, given.bags, most, everything=False)
        columns = np.sort(informative[proposals.best()[-1]])
    targets = given.bags.targets
    coded = targets[:, 0] if given.units is not None else given.rows.codes
    design = given.design.take(columns)
    chosen = Chosen.of(design, given.likelihood, given.bags, coded, given.folds, given.rows.counts)
    return Selected(given, columns, chosen, path)


@dataclass(frozen=True)
class Coder:
    """Turns blocks of rows into bytes.

    Attributes
    ----------
    names : of all columns of the table
    categorical : positions of the columns that are categories whatever they hold, or None
    nominal : columns that are categories
    allow_missing : whether missing cells are accepted
    columns, encoder, cells : the kept columns
    classes, units : the classes, or centre and unit of numbers to predict
    factor : (q,) of the sample weights of each class
    """

    names: list[str]
    categorical: list[int] | None
    nominal: set[int]
    allow_missing: bool
    columns: list[int]
    encoder: Encoder
    cells: tuple[Cells, ...]
    classes: np.ndarray
    units: tuple[float, float] | None
    factor: np.ndarray

    @classmethod
    def of(cls, selected: Selected, population: Population, reading: Reading) -> Coder:
        reader, given = reading.reader, selected.given
        assert reader.names is not None
        return cls(
            reader.names,
            reader.categorical,
            reader.nominal,
            reader.missing is not None,
            selected.columns.tolist(),
            given.encoder.select(selected.columns),
            selected.chosen.design.cells,
            given.rows.classes,
            given.units,
            population.factor,
        )

    def read(self, source: Source, n_rows: int, path: Path | None, key: str) -> Kept[CodedRows]:
        """Read a source; the bytes stay where its rows are, and also in a file if one is named, under a key."""
        names, what = [self.names[j] for j in self.columns] or self.names[:1], "reading rows again"
        if path is None:
            return source.only(names).kept(self.code, what, n_rows=n_rows)
        file = BlockFile(path, f"{key} {digest([self.encoder, self.cells, self.columns, self.factor])}")
        earlier = file.found(CodedRows.of_arrays)

        def save(found: list[CodedRows]) -> None:
            file.add([rows.arrays for rows in found])

        return source.only(names).kept(self.code, what, n_rows=n_rows, earlier=earlier, save=save)

    def code(self, block: Block) -> list[CodedRows]:
        """Return the rows of a block, in pieces."""
        fewer = len(block_names(block.X)) < len(self.names)  # from a source that reads the kept columns only
        there = self.columns if fewer else list(range(len(self.names)))
        place = {j: k for k, j in enumerate(there)}
        categorical = None if self.categorical is None else [place[j] for j in self.categorical if j in place]
        table, _ = read_block(block.X, [self.names[j] for j in there], categorical, self.allow_missing)
        table = with_empty_labels(table, {place[j] for j in self.nominal if j in place})
        table = table.select(np.array([place[j] for j in self.columns], dtype=int))
        rows, labels = read_targets(table, block, self.units is not None)
        target, weight, check = self._targets(labels), rows.weight, checks_of(rows.X, labels, rows.weight)
        if np.any(self.factor != 1.0) or weight is not None:
            codes = target if self.units is None else np.zeros(len(target), dtype=int)
            weight = self.factor[codes] * (1.0 if weight is None else weight)

        def piece(start: int) -> CodedRows:
            some = slice(start, start + PIECE_ROWS)
            Z = self.encoder.encode(rows.X.take(some))
            places = [own.place(Z[:, j]) for j, own in enumerate(self.cells)]
            found = code_places(places, target[some], None if weight is None else weight[some])
            return found if start else replace(found, check=check)

        return thread_map(piece, range(0, len(target), PIECE_ROWS))

    def _targets(self, labels: np.ndarray) -> np.ndarray:
        """Codes of classes, or numbers in the units of the fit."""
        if self.units is not None:
            return (labels - self.units[0]) / self.units[1]
        codes = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
        unknown = labels[self.classes[codes] != labels]
        if len(unknown):
            raise ValueError(
                f"y holds {unknown.tolist()[0]!r}, which is not among the classes that were read first, "
                f"{self.classes.tolist()}: begin with rows of all classes, or give a function instead of an iterator"
            )
        return codes.astype(np.uint8 if len(self.classes) <= 256 else np.uint16)


@dataclass(frozen=True)
class AllRows:
    """All rows as bytes.

    Attributes
    ----------
    kept : their pieces
    held : the rows of the sample that judge, with their weights among all rows
    total : weight of all rows
    """

    kept: Kept[CodedRows]
    held: CodedRows
    total: float

    def minimise(self, chosen: Chosen, tables: Tables, *, judged: bool) -> Minimum:
        """Fit to all rows, or to all but those that judge, if there are others."""
        layout, likelihood, penalty = tables.layout, chosen.likelihood, tables.penalty

        assert self.held.weight is not None
        held = float(self.held.weight.sum())
        judged = judged and held < 0.99 * self.total
        total = self.total - (held if judged else 0.0)

        def sums(theta: np.ndarray) -> Sums:
            found = self.kept.total(partial(sum_block, layout, likelihood, theta))
            return found - sum_block(layout, likelihood, theta, self.held) if judged else found

        sample = Sample.of(layout, likelihood, chosen.inside, total)
        what = "fitting, the rows that judge left out" if judged else "fitting to all rows"
        return minimise(sums, sample, penalty, tables.theta, MAX_PASSES, what)

    def drop_others(self, columns: np.ndarray) -> AllRows:
        """Drop all columns but some, of the bytes in place."""
        if len(columns) == self.held.cell.shape[1]:
            return self
        self.kept.change(partial(select_columns, columns=columns))
        return replace(self, held=select_columns(self.held, columns))

    def mass(self, layout: Layout) -> np.ndarray:
        """Weight (size,) of the rows on each value of the tables."""
        return self.kept.total(partial(masses, layout))


def fit_to_all(
    selected: Selected, kept: Kept[CodedRows], population: Population, settings: Settings, seed: int
) -> Outcome:
    """Fit curves, surfaces and cases to all rows, which are given as bytes; columns that turn out idle are dropped."""
    given, chosen, columns = selected.given, selected.chosen, selected.columns
    _, coarse = resolution(population.n_rows)
    tables = choose_tables(chosen, settings.max_pairs, coarse)
    outside = chosen.outside
    assert outside.weight is not None
    codes = np.zeros(len(outside), dtype=int) if given.units is not None else outside.target
    held = replace(outside, weight=outside.weight * population.unit[codes])
    everything = AllRows(kept, held, population.weight)
    found = everything.minimise(chosen, tables, judged=True)
    tables = replace(tables, theta=found.theta)
    score = score_of(chosen, tables, everything.mass(tables.layout))
    some, pairs, loss = Parts.of(chosen, score).useful()
    loss /= float(given.bags.weight.sum())
    chosen, everything, tables = chosen.take(some), everything.drop_others(some), tables.take(some, pairs)
    found = everything.minimise(chosen, tables, judged=False)
    if found.gain > WORTH_A_WARNING:
        warn(
            f"the fit to all rows ended after {found.passes} passes, and further ones would still lower the loss: "
            "probabilities may be less extreme than they should be",
            ConvergenceWarning,
        )
    tables = replace(tables, theta=found.theta)
    score = score_of(chosen, tables, everything.mass(tables.layout)).contrasted()
    few, rows = chosen.for_cases(CASE_ROWS)
    score = replace(score, bags=score.bags[rows], held=score.held[rows])
    given = replace(given, rows=given.rows.take(rows), bags=few.bags)
    model = additive_model(given, score, few.design, columns[some], settings.max_instances, seed, surely=True)
    return Outcome(model, selected.path, loss * given.unit_of_loss, 1, population.n_rows)
