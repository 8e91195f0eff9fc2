"""Running cells on any backend of joblib, and keeping their rows.

Cells of one split whose methods share kernels are a bundle, which one process works through. On this machine workers
write rows themselves, as they finish; on a cluster they come back with their bundle. A worker that dies takes no row
with it: what it was at is run again alone, and if that kills a worker again, the row says so.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from tamis.errors import BadOption
from tamis.experiments.cells import FAILED, PROTOCOLS, SIZES, Cell, Row
from tamis.experiments.paper import Paper
from tamis.experiments.papers import PAPERS
from tamis.experiments.problem import Stack
from tamis.experiments.store import Store
from tamis.parallel import one_thread
from tamis.progress import report

BACKENDS = ("loky", "dask", "ray")
LONGEST = 500  # characters of an error


@dataclass(frozen=True)
class Plan:
    """What to run: some papers, protocols, datasets and methods.

    Attributes
    ----------
    papers : names; all if empty
    protocols : "honest", "paper" or both
    size : "quick" or "full"
    only : names of datasets and methods; where there are some of a kind, others of that kind are left out
    """

    papers: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ("honest",)
    size: str = "quick"
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option, values, known in (
            ("paper", self.papers, tuple(PAPERS)),
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
        return list(self.papers or PAPERS)

    def _names(self) -> tuple[str, ...]:
        papers = [PAPERS[name] for name in self.chosen if name in PAPERS]
        return tuple(dict.fromkeys(name for p in papers for name in (*p.datasets, *p.methods)))

    def cells(self) -> list[Cell]:
        """All cells, in the order in which they are run."""
        out = []
        for name in self.chosen:
            paper = PAPERS[name]
            sets = [n for n in self.only if n in paper.datasets] or list(paper.datasets)
            methods = [n for n in self.only if n in paper.methods] or list(paper.methods)
            for protocol in self.protocols:
                cells = paper.cells(protocol, self.size)
                out += [cell for cell in cells if cell.dataset in sets and cell.method in methods]
        return out


def bundled(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Cells whose methods share kernels of one split together."""

    def key(cell: Cell) -> tuple:
        family = PAPERS[cell.paper].methods[cell.method].family
        return cell.paper, cell.protocol, cell.dataset, cell.split, cell.setting, family or cell.method

    places = {key(cell): place for place, cell in reversed(list(enumerate(cells)))}
    ordered = sorted(cells, key=lambda cell: places[key(cell)])
    return [list(part) for _, part in groupby(ordered, key)]


@dataclass
class Summary:
    """How a run went.

    Attributes
    ----------
    asked, found, ran, failed : cells of the plan, those that had a row before, those that were run, those that failed
    seconds : on the clock
    compute : processor seconds of all cells
    overhead : processor seconds of the process that hands out the work
    failures : rows that failed in this run
    """

    asked: int
    found: int
    ran: int = 0
    failed: int = 0
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
) -> Summary:
    """Run all cells of a plan that have no row yet; with `retry` also those that failed."""
    if backend not in BACKENDS:
        raise BadOption(f"backend={backend!r} is unknown: use one of {', '.join(BACKENDS)}")
    if scheduler is not None and backend == "loky":
        raise BadOption(f"scheduler={scheduler!r} needs backend='dask' or 'ray'")
    cells = plan.cells()
    if retry:
        store.forget(set(cells) & (store.done() - store.done(failed=False)))
    done = store.done()
    pending = [cell for cell in cells if cell not in done]
    summary = Summary(len(cells), len(cells) - len(pending))
    clock, used = time.perf_counter(), time.process_time()
    report("reproducing", summary.found, len(cells))
    try:
        with _backend(backend, scheduler):
            for row in _rows(pending, store, jobs, local=backend == "loky"):
                summary.add(row)
                report("reproducing", summary.found + summary.ran, len(cells))
    finally:
        store.release()
    summary.seconds = time.perf_counter() - clock
    summary.overhead = (
        time.process_time() - used - (summary.compute if jobs in (None, 1) and backend == "loky" else 0.0)
    )
    return summary


def _rows(pending: Sequence[Cell], store: Store, jobs: int | None, *, local: bool) -> Iterator[Row]:
    """The rows of pending cells, in the store, as they come."""
    left = list(pending)
    while left:
        try:
            sink = store.path if local else None
            tasks = (
                delayed(run_bundle)(PAPERS[bundle[0].paper], bundle, sink) for bundle in store.claimed(bundled(left))
            )
            parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2 * n_jobs")
            for rows in parallel(tasks):
                for row in rows:
                    store.add(row)
                    yield row
            return
        except TerminatedWorkerError as error:
            done = store.done()
            started = [cell for cell in store.mine() if cell not in done]
            for cell in started:
                row = _alone(cell, error)
                store.add(row)
                yield row
            left = [cell for cell in left if cell not in store.done()]


def _alone(cell: Cell, error: BaseException) -> Row:
    """The row of a cell in whose company a worker died, from a worker of its own."""
    try:
        return Parallel(n_jobs=2)(delayed(run_bundle)(PAPERS[cell.paper], [cell], None) for _ in range(1))[0][0]
    except TerminatedWorkerError:
        first = str(error).splitlines()[0]
        return Row(cell, {}, FAILED, f"the process died, for want of memory perhaps: {first}"[:LONGEST], cell.split)


def run_bundle(paper: Paper, cells: Sequence[Cell], sink: Path | None) -> list[Row]:
    """Run cells of one split of a paper, one after another; each row goes to the store at `sink` as it is there."""
    memo: dict[Any, Stack] = {}
    out = []
    for cell in cells:
        row = run_cell(paper, cell, memo)
        if sink is not None:
            Store(sink).add(row)
        out.append(row)
    return out


def run_cell(paper: Paper, cell: Cell, memo: dict[Any, Stack]) -> Row:
    """The row of one cell; whatever goes wrong is a row too."""
    begun = time.process_time()
    try:
        with warnings.catch_warnings(), one_thread():
            warnings.simplefilter("ignore")
            problem = paper.problem(cell).with_memo(memo)
            return paper.trial(paper, cell, problem)
    except Exception as error:  # any failure of any library is reported in its row
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})"
        return Row(cell, {"seconds": time.process_time() - begun}, FAILED, text[:LONGEST], cell.split)


@contextmanager
def _backend(name: str, scheduler: str | None) -> Iterator[None]:
    """joblib's backend of that name, connected to the scheduler."""
    if name == "loky":
        yield
    elif name == "dask":
        try:
            import distributed
        except ImportError:
            raise ImportError("backend='dask' needs dask: pip install 'tamis[dist]'") from None
        connect: Any = distributed.Client
        with connect(scheduler) as client, parallel_config(backend="dask", n_jobs=sum(client.ncores().values())):
            yield
    else:
        try:
            import ray
            from ray.util.joblib import register_ray
        except ImportError:
            raise ImportError("backend='ray' needs ray: pip install 'ray[default]'") from None
        ray.init(address=scheduler, ignore_reinit_error=True)
        register_ray()
        with parallel_config(backend="ray"):
            yield
