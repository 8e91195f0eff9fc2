"""Run cells on this machine or on a cluster and store their rows.

Cells of one split whose methods share kernels are a bundle, which runs in one process. On this machine workers write
each row when it finishes; on a cluster the rows of a bundle are returned together. If a worker dies, its unfinished
cells run again, each alone; if a worker dies again, the row records it. With one job there are no workers, and a fit
that kills its process ends the run.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError

from experiments.cells import FAILED, PROTOCOLS, SIZES, Cell, Row
from experiments.paper import Paper
from experiments.papers import PAPERS
from experiments.problem import Stack
from experiments.store import Store
from tamis.errors import BadOption
from tamis.parallel import one_thread
from tamis.progress import report

BACKENDS = ("loky", "dask")
MAX_ERROR = 500  # characters


@dataclass(frozen=True)
class Plan:
    """The papers, protocols, datasets and methods to run.

    Attributes
    ----------
    papers : names; all if empty
    protocols : "honest", "paper" or both
    size : "quick" or "full"
    only : names of datasets and methods; a named dataset leaves out all others, and so does a named method
    without : datasets to leave out
    known : {name: comparison}
    """

    papers: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ("honest",)
    size: str = "quick"
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    known: Mapping[str, Paper] = field(default_factory=lambda: PAPERS, repr=False)

    def __post_init__(self) -> None:
        for name in ("papers", "protocols", "only", "without"):
            if isinstance(getattr(self, name), str):
                raise BadOption(f"{name}={getattr(self, name)!r} must be a tuple of names")
        for option, values, known in (
            ("paper", self.papers, tuple(self.known)),
            ("protocol", self.protocols, PROTOCOLS),
            ("size", (self.size,), SIZES),
            ("only", self.only, self._names()),
        ):
            for value in values:
                if value not in known:
                    raise BadOption(f"{option}={value!r} is unknown: use one of {', '.join(known)}")

    @property
    def chosen(self) -> list[str]:
        """The papers to run."""
        return list(self.papers or self.known)

    def _names(self) -> tuple[str, ...]:
        papers = [self.known[name] for name in self.chosen if name in self.known]
        return tuple(dict.fromkeys(name for p in papers for name in (*p.datasets, *p.methods)))

    def _wants(self, cell: Cell) -> bool:
        """Return whether `only` includes a cell."""
        papers = [self.known[name] for name in self.chosen]
        sets = {n for n in self.only for p in papers if n in p.datasets}
        methods = {n for n in self.only for p in papers if n in p.methods}
        return (not sets or cell.dataset in sets) and (not methods or cell.method in methods)

    def cells(self) -> list[Cell]:
        """Return all cells in the order in which they run."""
        out = []
        for name in self.chosen:
            paper = self.known[name]
            for protocol in self.protocols:
                cells = paper.cells(protocol, self.size)
                out += [cell for cell in cells if self._wants(cell) and cell.dataset not in self.without]
        return out


def bundled(cells: Sequence[Cell], known: Mapping[str, Paper] = PAPERS) -> list[list[Cell]]:
    """Return lists of cells; those of one split whose methods share kernels are together."""

    def key(cell: Cell) -> tuple:
        family = known[cell.paper].methods[cell.method].family
        return cell.paper, cell.protocol, cell.dataset, cell.split, cell.setting, family or cell.method

    places = {key(cell): place for place, cell in reversed(list(enumerate(cells)))}
    ordered = sorted(cells, key=lambda cell: places[key(cell)])
    return [list(part) for _, part in groupby(ordered, key)]


@dataclass
class Summary:
    """Counts and times of a run.

    Attributes
    ----------
    cells, found, ran, failed : numbers of cells of the plan, with a row before the run, that ran, and that failed
    left : number of cells without a row after the run, because other runs have claimed them
    seconds : elapsed time
    compute : processor seconds of all cells
    overhead : processor seconds of the process that distributes the cells
    failures : rows of this run that failed
    """

    cells: int
    found: int
    ran: int = 0
    failed: int = 0
    left: int = 0
    seconds: float = 0.0
    compute: float = 0.0
    overhead: float = 0.0
    failures: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Count a row."""
        self.ran += 1
        self.compute += row.measures.get("seconds", 0.0) + row.measures.get("predict_seconds", 0.0)
        if row.status == FAILED:
            self.failed += 1
            self.failures.append(row)


def reproduce(
    plan: Plan,
    store: Store,
    *,
    jobs: int | None = None,
    backend: str = "loky",
    scheduler: str | None = None,
    retry: bool = False,
    take_over: bool = False,
) -> Summary:
    """Run all cells of a plan that have no row.

    Parameters
    ----------
    plan, store : the cells, and the store of their rows
    jobs : number of processes; None for the current process
    backend, scheduler : "loky" for this machine; "dask" for a cluster, and its address
    retry : whether failed cells run again
    take_over : whether cells that other runs have claimed run too; use it if these runs died
    """
    if backend not in BACKENDS:
        raise BadOption(f"backend={backend!r} is unknown: use one of {', '.join(BACKENDS)}")
    if scheduler is not None and backend == "loky":
        raise BadOption(f"scheduler={scheduler!r} needs backend='dask'")
    cells = plan.cells()
    if retry:
        store.forget(set(cells) & (store.done() - store.done(failed=False)))
    if take_over:
        store.release(everything=True)
    done = store.done()
    pending = [cell for cell in cells if cell not in done]
    summary = Summary(len(cells), len(cells) - len(pending))
    clock, used = time.perf_counter(), time.process_time()
    report("reproducing", summary.found, len(cells))
    try:
        with _backend(backend, scheduler) as client:
            for row in _both(pending, store, jobs, client, plan.known):
                summary.add(row)
                report("reproducing", summary.found + summary.ran, len(cells))
    finally:
        store.release()
    summary.seconds = time.perf_counter() - clock
    alone = jobs in (None, 1) and backend == "loky"  # the cells ran in this process
    summary.overhead = max(0.0, time.process_time() - used - (summary.compute if alone else 0.0))
    summary.left = len(set(cells) - store.done())
    return summary


def _both(
    pending: Sequence[Cell], store: Store, jobs: int | None, client: Any, papers: Mapping[str, Paper]
) -> Iterator[Row]:
    """Yield the rows of pending cells; a cell that is the same run as another copies its row."""
    twins = {cell: papers[cell.paper].twin(cell) for cell in pending}
    yield from _rows([cell for cell, twin in twins.items() if twin is None], store, jobs, client, papers)
    known = {row.cell: row for row in store.rows(protocol="honest")} if any(twins.values()) else {}
    rest = []
    for cell, twin in twins.items():
        if twin in known:
            row = replace(known[twin], cell=cell)
            store.add(row)
            yield row
        elif twin is not None:
            rest.append(cell)
    yield from _rows(rest, store, jobs, client, papers)


def _rows(
    pending: Sequence[Cell], store: Store, jobs: int | None, client: Any, papers: Mapping[str, Paper]
) -> Iterator[Row]:
    """Store and yield the rows of pending cells."""
    if not pending:
        return
    claimed = store.claimed(bundled(pending, papers))
    here = client is None
    for row in _on_joblib(list(pending), store, jobs, papers) if here else _on_dask(claimed, client, papers):
        store.add(row)
        yield row


def _on_joblib(left: list[Cell], store: Store, jobs: int | None, papers: Mapping[str, Paper]) -> Iterator[Row]:
    """Yield rows from processes of this machine, which write them, or from another backend of joblib."""
    seen: set[Cell] = set()
    while left:
        begun: list[Cell] = []
        try:
            parallel = Parallel(jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2 * n_jobs")
            bundles = store.claimed(bundled(left, papers))
            for rows in parallel(_task(papers, bundle, store.path, begun) for bundle in bundles):
                seen |= {row.cell for row in rows}
                yield from rows
            return
        except TerminatedWorkerError as error:
            found = {row.cell: row for row in store.rows()}
            for cell in begun:
                if cell not in seen:
                    seen.add(cell)
                    yield found[cell] if cell in found else _alone(papers, cell, error)
            left = [cell for cell in left if cell not in seen]


def _task(papers: Mapping[str, Paper], bundle: list[Cell], sink: Path | None, begun: list[Cell]) -> Any:
    begun.extend(bundle)
    return delayed(run_bundle)(papers[bundle[0].paper], bundle, sink)


def _alone(papers: Mapping[str, Paper], cell: Cell, error: BaseException) -> Row:
    """Run a cell in a worker of its own, after a worker that had it died."""
    try:
        return Parallel(n_jobs=2)([delayed(run_bundle)(papers[cell.paper], [cell], None)])[0][0]
    except TerminatedWorkerError:
        return _died(cell, error)


def _died(cell: Cell, error: BaseException) -> Row:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return Row(cell, {}, FAILED, f"the process died, perhaps for lack of memory: {first}"[:MAX_ERROR], cell.split)


def _on_dask(bundles: Iterable[list[Cell]], client: Any, papers: Mapping[str, Paper]) -> Iterator[Row]:
    """Yield rows from the workers of a Dask cluster.

    Cells of bundles whose worker died run again at the end, one at a time; a cell that then kills its worker failed.
    """
    import distributed

    def submit(bundle: list[Cell]) -> Any:
        return client.submit(run_bundle, papers[bundle[0].paper], bundle, None, pure=False)

    given = {submit(bundle): bundle for bundle in bundles}
    suspects: list[Cell] = []
    finished: Any = distributed.as_completed
    for future in finished(list(given)):
        if future.exception() is None:
            yield from future.result()
        else:
            suspects += given[future]
    for cell in suspects:
        future = submit([cell])
        error = future.exception()
        yield from future.result() if error is None else [_died(cell, error)]


def run_bundle(paper: Paper, cells: Sequence[Cell], sink: Path | None) -> list[Row]:
    """Run cells of one split of a paper, one after another; add each row to the store at `sink` when it is done."""
    memo: dict[Any, Stack] = {}
    store = None if sink is None else Store(sink)
    out = []
    for cell in cells:
        row = run_cell(paper, cell, memo)
        if store is not None:
            store.add(row)
        out.append(row)
    return out


def run_cell(paper: Paper, cell: Cell, memo: dict[Any, Stack]) -> Row:
    """Run one cell and return its row; an error becomes a failed row."""
    begun = time.process_time()
    try:
        with warnings.catch_warnings(), one_thread():
            warnings.simplefilter("ignore")
            problem = replace(paper.problem(cell), memo=memo)
            return paper.trial(paper, cell, problem)
    except Exception as error:  # any error of any library is recorded in the row
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})"
        return Row(cell, {"seconds": time.process_time() - begun}, FAILED, text[:MAX_ERROR], cell.split)


@contextmanager
def _backend(name: str, scheduler: str | None) -> Iterator[Any]:
    """Yield a client of a Dask scheduler, or None for this machine."""
    if name == "loky":
        yield None
        return
    try:
        import distributed
    except ImportError:
        raise ImportError("backend='dask' needs dask: pip install 'tamis[dist]'") from None
    connect: Any = distributed.Client
    with connect(scheduler) as client:
        yield client
