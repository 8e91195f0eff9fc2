"""From a source of blocks to sums: a light first pass for the plan, a second one for the statistics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from tamis.codec import digest, read, stored, write
from tamis.errors import warn
from tamis.statistics.block_sums import Block as Encoded
from tamis.statistics.block_sums import Functions, outer_sums
from tamis.statistics.one_pass import OnePass
from tamis.statistics.plan import Plan
from tamis.statistics.statistics import Statistics, add_block, checked_weight, known_codes
from tamis.statistics.survey import Survey
from tamis.statistics.wanted import Wanted, looked_at
from tamis.table.encoding import Encoder
from tamis.table.folds import Earlier
from tamis.table.sources.base import Block, Source
from tamis.table.table import read_block

HEAD = 1 << 17  # rows that the plan of an iterator comes from, which can be read only once
EVERY = 30.0  # seconds between two savings of a pass


def sum_source(
    source: Source, wanted: Wanted, *, device: str | None = None, checkpoint: str | Path | None = None
) -> OnePass:
    """Sum the rows of a source, folds apart, with a sample of them for the second look.

    Blocks of numbers are summed on `device`, if one is given. With `checkpoint`, a file, a pass that was stopped goes
    on from what it has written there last.
    """
    n_folds, categorical, rows = wanted.n_folds, wanted.categorical_features, source.fingerprint
    if source.categorical is not None and isinstance(categorical, str):
        categorical = list(source.categorical)
    empty = partial(Survey, categorical, wanted.missing, wanted.candidates, wanted.seed)
    head = _Head(source) if source.once else None
    survey = (source if head is None else head).total(empty, Survey.update, "looking at rows")
    factor = survey.class_factor(wanted.class_weight)
    earlier = survey.units.earlier(n_folds, complete=head is None)
    seen = survey.seen(factor, n_folds, earlier)
    plan = replace(
        wanted.plan(seen, factor, n_folds, all_gaps=source.once and wanted.missing == "absent"),
        dtype="float32" if survey.single else "float64",
        named=survey.named,
        categorical=None if survey.categorical is None else tuple(survey.categorical),
    )
    lengths = sorted(survey.lengths.items())
    keeper = None if checkpoint is None else _File(Path(checkpoint), plan, f"{rows} {lengths}")
    if head is None:
        statistics = source.total(
            partial(Statistics, plan),
            partial(add_block, device=device, earlier=earlier),
            "summing rows",
            n_rows=survey.n_rows,
            keeper=keeper,
        )
    else:
        statistics, survey = head.rest(plan, empty(), device, earlier)
        seen = survey.seen(factor, n_folds, earlier)
    _check_again(sum(survey.count.values()), statistics.n_rows)
    _check_unchanged(source, rows)
    look = looked_at(seen, survey.class_mass * factor)
    return OnePass(statistics, n_folds, *look, None, None if source.once else partial(_again, source, statistics, rows))


def _check_again(first: int, second: int) -> None:
    """Refuse rows that were others when they were read again."""
    if first != second:
        raise ValueError(
            f"X gave {first} rows (of positive weight) when it was first read and {second} when it was read again: a "
            "function must return a new iterator over the same rows whenever it is called"
        )


def _check_unchanged(source: Source, fingerprint: str) -> None:
    """Refuse files that were written while they were read."""
    if source.fingerprint != fingerprint:
        raise ValueError("X changed while it was read: its files are of another size or time now; fit again")


# ---------------------------------------------------------------------- an iterator that can be read once


class _Head(Source):
    """The first blocks of an iterator, held so that they can be read twice."""

    def __init__(self, source: Source):
        self.source, self.coming = source, source.blocks()
        self.held: list[Block] = []
        have = 0
        for block in self.coming:
            self.held.append(block)
            have += len(block)
            if have >= HEAD:
                break

    def blocks(self, start: int = 0) -> Iterator[Block]:
        return iter(self.held[start:])

    def rest(self, plan: Plan, survey: Survey, device: str | None, earlier: Earlier) -> tuple[Statistics, Survey]:
        """Statistics and the survey of all blocks, in one pass."""
        every = _Chained(chain(self.held, self.coming))

        def add(statistics: Statistics, block: Block) -> Statistics:
            survey.update(block)
            return add_block(statistics, block, device, earlier)

        return every.total(partial(Statistics, plan), add, "summing rows"), survey


class _Chained(Source):
    """Blocks that are there already, and those to come."""

    def __init__(self, items: Iterator[Block]):
        self.items = items

    def blocks(self, start: int = 0) -> Iterator[Block]:
        return self.items


# ---------------------------------------------------------------------- a pass that was stopped


@stored
@dataclass(frozen=True)
class Stopped:
    """What a pass had come to: the sums of the first `blocks` blocks of the rows that `source` stands for."""

    statistics: Statistics
    blocks: int
    source: str


class _File:
    """Keeps the sums of a pass in a file."""

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
        if time.monotonic() - self.last >= EVERY:
            write(self.path, "stopped pass", Stopped(total, blocks, self.source))
            self.last = time.monotonic()


# ---------------------------------------------------------------------- another pass


class _Sums:
    """Sums of functions of some columns, over all blocks so far."""

    def __init__(self, functions: Functions, n_classes: int):
        size = functions.size + n_classes
        self.values = np.zeros((size, size))

    def __add__(self, other: _Sums) -> _Sums:
        out = copy(self)
        out.values = self.values + other.values
        return out


def _again(
    source: Source,
    statistics: Statistics,
    fingerprint: str,
    functions: Functions,
    encoder: Encoder,
    columns: np.ndarray,
) -> np.ndarray:
    """As `sum_again`, over the rows of a source."""
    plan = statistics.plan
    add = partial(_add_again, plan=plan, functions=functions, encoder=encoder, columns=columns)
    zero = partial(_Sums, functions, len(plan.classes))
    total = source.total(zero, add, "summing exact kernels", n_rows=statistics.n_rows)
    _check_unchanged(source, fingerprint)
    return total.values * statistics.unit


def _add_again(
    total: _Sums, block: Block, *, plan: Plan, functions: Functions, encoder: Encoder, columns: np.ndarray
) -> _Sums:
    table, _ = read_block(block.X, list(plan.encoder.names), plan.categorical, plan.allow_missing)
    weight, y = checked_weight(block.weight, len(table)), block.y
    if weight is not None and not weight.all():
        kept = np.flatnonzero(weight)
        table, y, weight = table.take(kept), np.asarray(y)[kept], weight[kept]
    if not len(table):
        return total
    codes = known_codes(y, plan.classes, len(table))
    weight = plan.class_factor[codes] if weight is None else weight * plan.class_factor[codes]
    small = table.select(columns)

    def read_rows(chunk: slice) -> Encoded:
        Z = encoder.encode(small.take(chunk))
        return Encoded(Z, codes[chunk], weight[chunk], np.zeros(len(Z), dtype=int))

    total.values += outer_sums(functions, read_rows, len(codes), n_classes=len(plan.classes), n_parts=1)[0]
    return total
