"""Sums over a source of blocks: a first pass for the plan, a second one for the statistics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from tamis.codec import digest, read, stored, write
from tamis.errors import warn
from tamis.statistics.blocks import loss_weight
from tamis.statistics.fit import FoldSums, SumsRequest
from tamis.statistics.plan import Plan
from tamis.statistics.statistics import Statistics
from tamis.statistics.sums import Functions, sum_table
from tamis.statistics.survey import Survey
from tamis.table.encoding import Encoder
from tamis.table.folds import Earlier
from tamis.table.sources.source import Block, Source

FIRST_ROWS = 1 << 17  # rows from which the plan of an iterator is made
SAVE_SECONDS = 30.0  # between two savings of a pass


def sum_source(
    source: Source, request: SumsRequest, *, device: str | None = None, checkpoint: str | Path | None = None
) -> FoldSums:
    """Sum the rows of a source by fold, and draw a sample of them.

    Blocks of numbers are summed on `device`, if one is given. With `checkpoint`, a file, a pass that was stopped
    continues from what it saved there last.
    """
    n_folds, categorical, fingerprint = request.n_folds, request.categorical_features, source.fingerprint
    if source.categorical is not None and isinstance(categorical, str):
        categorical = list(source.categorical)
    empty = partial(Survey, categorical, request.missing, request.candidates, request.seed)
    first = _FirstBlocks(source) if source.once else None
    survey = (source if first is None else first).total(empty, Survey.update, "reading rows")
    factor = survey.class_factor(request.class_weight)
    earlier = survey.units.earlier(n_folds, complete=first is None)
    profile = survey.profile(factor, n_folds, earlier)
    plan = replace(
        request.plan(profile, factor, n_folds, all_gaps=source.once and request.missing == "absent"),
        named=survey.named,
        categorical=None if survey.categorical is None else tuple(survey.categorical),
    )
    lengths = sorted(survey.lengths.items())
    keeper = None if checkpoint is None else _Checkpoint(Path(checkpoint), plan, f"{fingerprint} {lengths}")
    if first is None:
        statistics = source.total(
            partial(Statistics, plan),
            partial(Statistics.add_block, device=device, earlier=earlier),
            "summing rows",
            n_rows=survey.n_rows,
            keeper=keeper,
        )
    else:
        statistics, survey = first.sum_all(plan, empty(), device, earlier)
        profile = survey.profile(factor, n_folds, earlier)
    n_read = sum(survey.count.values())
    if n_read != statistics.n_rows:
        raise ValueError(
            f"X gave {n_read} rows (of positive weight) when it was first read and {statistics.n_rows} when it was "
            "read again: a function must return a new iterator over the same rows whenever it is called"
        )
    _check_unchanged(source, fingerprint)
    sample, sample_fold = profile.draw_sample(survey.class_mass * factor)
    again = None if source.once else partial(_sum_again, source, statistics, fingerprint)
    return FoldSums(statistics, n_folds, sample, sample_fold, None, again)


def _check_unchanged(source: Source, fingerprint: str) -> None:
    """Refuse files that changed while they were read."""
    if source.fingerprint != fingerprint:
        raise ValueError("X changed while it was read: its files are of another size or time now; fit again")


# ---------------------------------------------------------------------- an iterator that can be read once


class _FirstBlocks(Source):
    """The first blocks of an iterator, kept in memory so that they can be read twice."""

    def __init__(self, source: Source):
        self.later = source.blocks()
        self.first: list[Block] = []
        n_rows = 0
        for block in self.later:
            self.first.append(block)
            n_rows += len(block)
            if n_rows >= FIRST_ROWS:
                break

    def blocks(self, start: int = 0) -> Iterator[Block]:
        return iter(self.first[start:])

    def sum_all(self, plan: Plan, survey: Survey, device: str | None, earlier: Earlier) -> tuple[Statistics, Survey]:
        """Return statistics and the survey of all blocks, from one pass."""

        def add(statistics: Statistics, block: Block) -> Statistics:
            survey.update(block)
            return statistics.add_block(block, device, earlier)

        every = _AllBlocks(chain(self.first, self.later))
        return every.total(partial(Statistics, plan), add, "summing rows"), survey


class _AllBlocks(Source):
    """The blocks of an iterator."""

    def __init__(self, items: Iterator[Block]):
        self.items = items

    def blocks(self, start: int = 0) -> Iterator[Block]:
        return self.items


# ---------------------------------------------------------------------- a pass that was stopped


@stored
@dataclass(frozen=True)
class Stopped:
    """Sums of the first `blocks` blocks of the rows with the fingerprint `source`."""

    statistics: Statistics
    blocks: int
    source: str


class _Checkpoint:
    """Saves the sums of a pass in a file."""

    def __init__(self, path: Path, plan: Plan, source: str):
        self.path, self.plan, self.source = path, plan, source
        self.last = time.monotonic()
        if not path.parent.is_dir():
            raise ValueError(f"checkpoint={str(path)!r}: there is no folder {str(path.parent)!r}; make it first")

    def found(self) -> tuple[Statistics, int] | None:
        if not self.path.exists():
            return None
        try:
            left = read(self.path, "stopped pass")
        except ValueError as error:
            raise ValueError(f"checkpoint={str(self.path)!r}: {error}; delete it, or name another file") from None
        if not isinstance(left, Stopped):
            raise ValueError(f"checkpoint={str(self.path)!r} holds a {type(left).__name__}: name another file")
        if left.source != self.source or digest(left.statistics.plan) != digest(self.plan):
            warn(
                f"checkpoint={str(self.path)!r} is of other rows or of a fit with other parameters: the pass starts "
                "at the beginning"
            )
            return None
        return left.statistics, left.blocks

    def keep(self, total: Statistics, blocks: int) -> None:
        if time.monotonic() - self.last >= SAVE_SECONDS:
            write(self.path, "stopped pass", Stopped(total, blocks, self.source))
            self.last = time.monotonic()


# ---------------------------------------------------------------------- one more pass


def _sum_again(
    source: Source,
    statistics: Statistics,
    fingerprint: str,
    functions: Functions,
    encoder: Encoder,
    columns: np.ndarray,
) -> np.ndarray:
    """As `tamis.statistics.sums.sum_again`, over the rows of a source."""
    plan = statistics.plan
    size = functions.size + len(plan.classes)

    def add(total: np.ndarray, block: Block) -> np.ndarray:
        rows = plan.read(block)
        if not len(rows):
            return total
        weight = loss_weight(rows.weight, rows.codes, plan.class_factor)
        return total + sum_table(functions, encoder, rows.X.select(columns), rows.codes, weight, len(plan.classes))

    zero = partial(np.zeros, (size, size))
    total = source.total(zero, add, "summing exact kernels", n_rows=statistics.n_rows)
    _check_unchanged(source, fingerprint)
    return total * statistics.unit
