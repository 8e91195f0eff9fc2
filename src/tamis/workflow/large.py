"""The main job on a Parquet file or folder that does not fit in memory.

A sample of the rows determines columns and classes, as a table in memory would; the classifier is fitted to all
training rows, block by block, and tested on the sampled test rows, which have no weight in training.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis.base.memory import available_memory, to_bytes
from tamis.errors import BadOption
from tamis.io.tables import MISSING, cleaned, level, levels, numbers, read
from tamis.progress import report
from tamis.results.data import Results
from tamis.results.describe import cases_of, parts_of, take
from tamis.table.keys import label_keys
from tamis.table.sources.parquet import ENDINGS, ParquetSource, arrow, column_values
from tamis.table.sources.source import Block
from tamis.workflow.job import METHOD, Job, fit, notes, prepared, shown, stability, tested, timed
from tamis.workflow.prepare import Data, check_column, positive_class, sides

METHODS = (METHOD, "EM2NOLCClassifier", "EM2NOLCClassifierCV")  # that take rows in blocks
MAX_SAMPLE_ROWS = 200_000
MAX_SAMPLE_CELLS = 1 << 24
MAX_STABILITY_ROWS = 5_000  # of the sample, on which the choice of features is repeated
MEMORY_FACTOR = 4.0  # times its numbers in double precision that a job needs for a table in memory


def is_large(path: Path, memory_limit: Any = None) -> bool:
    """Whether a table is Parquet and would take more memory than there is, or than the limit; folders always do."""
    try:
        limit = available_memory() if memory_limit is None else to_bytes(memory_limit)
    except ValueError as error:
        raise BadOption(str(error)) from None
    if path.is_dir():
        return True
    if path.suffix.lower() not in ENDINGS or not path.exists():
        return False
    meta = arrow().parquet.ParquetFile(path).metadata
    return MEMORY_FACTOR * 8 * meta.num_rows * meta.num_columns > limit


def run_large(path: Path, job: Job, folder: Path, missing: Collection[str] = ()) -> Results:
    """Do the main job on a file or folder of any size; a stopped pass goes on from what it left in `folder`.

    Cells that hold one of the words `missing` are missing, in addition to the usual marks.
    """
    marks = MISSING | set(missing)
    if job.method not in METHODS:
        raise BadOption(f"--method {job.method} needs all rows in memory: use {' or '.join(METHODS)} for this table")
    seconds: dict[str, float] = {}
    with timed(seconds, "sample"):
        sample = _Sample.of(path, job, missing)
        data, job = prepared(sample.table, job)
        positive = positive_class(data.y, job.positive)
    source = _Training(path, job, data, marks)
    folder.mkdir(parents=True, exist_ok=True)
    unfitted: Any = job.classifier().set_params(categorical_features=list(data.categories) or "auto")
    if job.method != METHOD:
        unfitted.set_params(engine=job.options.get("engine", "statistics"))  # the folds of the sample are summed, too
    model, warned = fit(lambda: unfitted.fit(source, checkpoint=folder / "pass.tamis"), positive, seconds)
    known = sample.kept
    test = np.flatnonzero(sample.test[known])
    train = np.flatnonzero(~sample.test[known])
    if not len(test) or len(np.unique(data.y[train])) < 2:
        raise ValueError("the sample has no rows to test on, or lacks a class to learn: choose another split")
    X, y = take(data.columns, train), data.y[train]
    groups = None if data.groups is None else data.groups[train]
    with timed(seconds, "stability"):
        few = np.sort(np.random.default_rng(job.seed).permutation(len(y))[:MAX_STABILITY_ROWS])
        stable, by_fold = stability(model, take(X, few), y[few], None if groups is None else groups[few], job)
    cases, classes, model.instance_labels_ = source.rows_at(model.instances_)
    held_out = f"{len(test)} sampled of the held-out rows of {path.name}"
    what = "whole groups" if job.group is not None else "rows"
    drawn = f"{100 * job.test_size:.0f}% of the {what} at random, seed {job.seed}"
    split = "as the split column says" if job.split is not None else drawn
    reading = (
        f"{path.name} was not read into memory: {job.method} was fitted to all training rows, block by block, and "
        f"{len(sample.test)} of {sample.n_rows} rows, drawn at random, gave counts, distributions and the test"
    )
    split = f"{split}; tested on the {len(test)} of them that were sampled"
    of_sample = notes(data, train, test, path.name, split, [reading, *warned], None)
    return Results(
        model=model,
        evaluation=tested(model, data, test, y, held_out, job.seed, seconds),
        parts=parts_of(model, X, y, by_fold),
        cases=cases_of(model, cases, classes, model.instance_labels_, np.arange(len(classes))),
        notes=replace(of_sample, n_rows=sample.n_rows, no_target=source.no_target),
        stability=stable,
        seconds=seconds,
        **shown(model, data, test, job),
    )


def is_test(job: Job, number: int, n: int, groups: Any, split: Any) -> np.ndarray:
    """Mask (n,) of the rows of a block that are held out; the same whenever the block is read."""
    if split is not None:
        return sides([str(v) for v in split]) == 1
    if groups is not None:
        return label_keys(groups, job.seed) < np.uint64(int(job.test_size * 2.0**63) * 2)
    return np.random.default_rng([job.seed, number]).random(n) < job.test_size


@dataclass(frozen=True)
class _Sample:
    """Some rows of a file, which of them are held out, and how many rows there are."""

    table: Any
    test: np.ndarray
    n_rows: int
    kept: np.ndarray

    @classmethod
    def of(cls, path: Path, job: Job, missing: Collection[str] = ()) -> _Sample:
        """Draw rows at random, block by block."""
        pa, whole = arrow(), ParquetSource(path, None)
        for name in (job.target, job.id, job.group, job.split, *job.categorical, *job.drop):
            if name is not None:
                check_column(dict.fromkeys(whole.names), name)
        n = whole.n_rows or 0
        if not n:
            raise ValueError(f"{path.name!r} has no rows")
        share = min(1.0, MAX_SAMPLE_ROWS / n, MAX_SAMPLE_CELLS / (n * len(whole.names)))
        parts, masks, done = [], [], 0
        for number, table in whole.tables():
            groups, split = (None if c is None else _texts(table, c) for c in (job.group, job.split))
            test = is_test(job, number, len(table), groups, split)
            drawn = np.flatnonzero(np.random.default_rng([job.seed, number, 1]).random(len(table)) < share)
            parts.append(table.take(pa.array(drawn)))
            masks.append(test[drawn])
            done += len(table)
            report("drawing a sample", done, n)
        as_text = [c for c in (job.target, job.id, job.group, job.split, *job.categorical) if c is not None]
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "sample.parquet")
            pa.parquet.write_table(pa.concat_tables(parts), file)
            columns = read(file, text=as_text, missing=missing)
        known = np.array([v is not None and v == v for v in columns[job.target].tolist()])
        return cls(columns, np.concatenate(masks), n, np.flatnonzero(known))


class _Training(ParquetSource):
    """The features and classes of a job; rows that are held out or have no class have weight zero."""

    def __init__(self, path: Path, job: Job, data: Data, marks: Collection[str] = MISSING):
        super().__init__(path, job.target, groups=job.group, columns=list(data.columns))
        self.job, self.split, self.marks = job, job.split, marks
        self.without: dict[int, int] = {}  # rows without a class, of each block
        self.kinds = {name: values.dtype == object for name, values in data.columns.items()}
        self.known = {level(label): label for label in np.unique(data.y).tolist()}
        self.step = ParquetSource(path, None).step  # blocks are cut as the sample cut them
        self.aside = list(dict.fromkeys([*self.aside, *([] if self.split is None else [self.split])]))

    @property
    def no_target(self) -> int:
        """Rows without a class, in all blocks that were read."""
        return sum(self.without.values())

    def _block(self, number: int, table: Any) -> Block:
        y, known = self._labels(table.column(self.target))
        self.without[number] = int(np.sum(~known))
        groups, split = (None if c is None else _texts(table, c) for c in (self.groups, self.split))
        test = is_test(self.job, number, len(table), groups, split)
        weight = np.where(test | ~known, 0.0, 1.0)
        if self.dtype is not None and not any(self.kinds.values()):
            X = super()._block(number, table).X
        else:
            X = {name: _cells(table, name, text, self.marks) for name, text in self.kinds.items() if name in self.names}
        return Block(number, X, y, weight, groups)

    def rows_at(self, positions: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Features, classes and names of some rows; a name is an id, or the number of a row, the first being 1."""
        wanted = [*self.names, *self.aside, *([] if self.job.id is None else [self.job.id])]
        found = self.take(positions, list(dict.fromkeys(wanted)))
        names = positions + 1 if self.job.id is None else _texts(found, self.job.id)
        X = {name: _cells(found, name, text, self.marks) for name, text in self.kinds.items()}
        return X, self._labels(found.column(self.target))[0], names

    def _labels(self, column: Any) -> tuple[np.ndarray, np.ndarray]:
        """Class labels, and which rows have one; the others get any."""
        coded = column.combine_chunks().dictionary_encode()
        found = cleaned([level(v) for v in coded.dictionary.to_pylist()], self.marks)
        odd = [word for word in found.tolist() if word is not None and word not in self.known]
        if odd:
            raise ValueError(
                f"target {self.target!r} holds {odd[0]!r}, which is not among the classes of the sample, "
                f"{', '.join(map(str, self.known))}: it is too rare to be learned; leave it out of the file"
            )
        any_label = next(iter(self.known.values()))
        labels = np.array([self.known.get(word, any_label) for word in found.tolist()] or [any_label])
        codes = coded.indices.to_numpy(zero_copy_only=False)
        there = ~np.isnan(codes.astype(float))
        codes = np.where(there, codes, 0).astype(int)
        named = np.array([word is not None for word in found.tolist()] or [False])
        return labels[codes], there & named[codes]


def _texts(table: Any, name: str) -> np.ndarray:
    return levels(column_values(table.column(name), name))


def _cells(table: Any, name: str, text: bool, marks: Collection[str]) -> np.ndarray:
    """A feature as the sample had it: text, or numbers, whatever it is in the file."""
    cells = column_values(table.column(name), name)
    if text:
        return cleaned(levels(cells).tolist(), marks)
    if cells.dtype != object:
        return cells
    found = numbers(cleaned(cells.tolist(), marks))
    if found is None:
        raise ValueError("a column of numbers in the sample holds text elsewhere: name it as categorical, or clean it")
    return found
