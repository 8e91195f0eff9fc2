"""The command `tamis reproduce`: run, write pages, tell how it went."""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from tamis.cli.session import Session
from tamis.errors import BadOption
from tamis.experiments import PAPERS, Plan, reproduce
from tamis.experiments.cells import PROTOCOLS
from tamis.experiments.datasets import unreadable
from tamis.experiments.pages import write_index, write_pages
from tamis.experiments.runner import Summary
from tamis.experiments.store import Store
from tamis.experiments.summary import Table as Numbers
from tamis.io.writing import WRITERS, writing
from tamis.table.sources.arrow import arrow


def run(now: Session, plan: Plan, out: Path, store: Path | None, export: Path | None, options: dict[str, Any]) -> None:
    """Run a plan and write its pages to a folder."""
    if export is not None and export.suffix.lower() not in WRITERS:
        raise BadOption(f"--export {export.name!r} is of no known kind: write to {', '.join(WRITERS)}")
    if export is not None and not export.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(export.parent)!r} for --export")
    out.mkdir(parents=True, exist_ok=True)
    rows = Store(store or out / "rows.sqlite")
    now.written.append(str(rows.path))
    for name in plan.chosen:
        for dataset, reason in PAPERS[name].missing.items():
            now.warn(f"{name}: without {dataset} ({reason})")
        for method, package in PAPERS[name].left_out.items():
            now.warn(f"{name}: without {method}, which needs {package}: pip install {package}")
    plan = _readable(now, plan)
    if not plan.cells():
        raise BadOption("there is nothing to run: no dataset of the paper is at hand, or --only names none")
    for owner, count in rows.held_elsewhere().items():
        host, pid, _ = owner.split(":")
        now.warn(
            f"{count} cells are left to process {pid} on {host}, which has claimed them (--take-over if it is dead)"
        )
    summary = reproduce(plan, rows, **options)
    if summary.left:
        now.warn(f"{summary.left} cells have no row yet: other runs have claimed them")
    files = _pages(now, plan, rows, out)
    if export is not None:
        _export(rows, export)
        files.append(export)
    now.written += [str(path) for path in files]
    _tell(now, plan, rows, summary)
    now.show(f"Wrote {', '.join(str(path) for path in files if path.suffix != '.png')}; rows are in {rows.path}")
    now.finish({**_told(summary), "files": [str(path) for path in files], "store": str(rows.path)})


def _readable(now: Session, plan: Plan) -> Plan:
    """The plan without datasets that cannot be read, each of which is tried once."""
    bad = []
    for name in dict.fromkeys(cell.dataset for cell in plan.cells()):
        reason = unreadable(name)
        if reason:
            now.warn(f"without {name}: {reason}")
            bad.append(name)
    return replace(plan, without=(*plan.without, *bad))


def _command(plan: Plan, paper: str) -> str:
    """The command that makes the rows of a plan."""
    protocol = "both" if len(plan.protocols) > 1 else plan.protocols[0]
    only = f" --only '{','.join(plan.only)}'" if plan.only else ""
    return f"tamis reproduce {paper} --protocol {protocol} --{plan.size}{only}"


def _pages(now: Session, plan: Plan, rows: Store, out: Path) -> list[Path]:
    files = []
    for name in plan.chosen:
        found = rows.rows(paper=name, size=plan.size)
        if found:
            protocols = tuple(dict.fromkeys(row.cell.protocol for row in found))
            files += write_pages(PAPERS[name], found, out, _command(replace(plan, protocols=protocols), name))
    tables = _tables(rows, plan.size)
    protocols = tuple(dict.fromkeys(table.protocol for table in tables))
    return files + write_index(tables, out, _command(replace(plan, protocols=protocols), "all"))


def _tables(rows: Store, size: str) -> list[Numbers]:
    """All papers and protocols that have rows."""
    out = []
    for name in PAPERS:
        for protocol in PROTOCOLS:
            found = rows.rows(paper=name, size=size, protocol=protocol)
            if found:
                out.append(Numbers(PAPERS[name], protocol, found))
    return out


def _export(rows: Store, path: Path) -> None:
    """All rows as a table."""
    flat = [row.flat() for row in rows.rows()]
    with writing(path) as write:
        write(arrow().RecordBatch.from_pylist(flat))


def _tell(now: Session, plan: Plan, rows: Store, summary: Summary) -> None:
    for name in plan.chosen:
        for protocol in plan.protocols:
            found = rows.rows(paper=name, size=plan.size, protocol=protocol)
            if found:
                now.show(_screen(Numbers(PAPERS[name], protocol, found)))
    for row in summary.failures:
        cell = astuple(row.cell)
        now.warn(f"{' '.join(str(part) for part in cell if part != '')} failed: {row.error}")
    share = 100 * summary.overhead / summary.compute if summary.compute else 0.0
    now.show(
        f"{summary.ran} of {summary.asked} cells ran ({summary.found} were there) in {summary.seconds:.0f} s; "
        f"{summary.compute:.0f} processor seconds in fits, {share:.1f}% of that to hand them out; "
        f"{summary.failed} failed"
    )


def _screen(numbers: Numbers) -> Table:
    """Mean accuracies, ours beside the paper's."""
    table = Table(title=f"{numbers.paper.title}: accuracy (%), protocol {numbers.protocol}", title_justify="left")
    table.add_column("set")
    shown = [m for m in numbers.methods if m in (numbers.main, "SVC", "majority", "boosting", "EBM", "tamis")]
    for method in shown:
        table.add_column(method, justify="right")
    table.add_column(f"paper: {numbers.paper.main}", justify="right")
    for dataset in numbers.datasets:
        known = numbers.paper.told(dataset, numbers.paper.main, "accuracy")
        cells = [str(numbers.number(dataset, method, "accuracy")) for method in shown]
        table.add_row(dataset, *cells, "" if known is None else f"{known.value:g}")
    return table


def _told(summary: Summary) -> dict[str, Any]:
    names = ("asked", "found", "ran", "failed", "left", "seconds", "compute", "overhead")
    return {name: getattr(summary, name) for name in names}
