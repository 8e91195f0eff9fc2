"""The command line of the experiments: `python -m experiments reproduce PAPER`, from the root of the repository."""

from __future__ import annotations

import sys
from dataclasses import astuple, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Screen

from experiments.cells import PROTOCOLS
from experiments.datasets import unreadable
from experiments.open.comparison import FOLDS, comparison
from experiments.open.page import Results, write_page
from experiments.open.tables import PARTS, folder_of
from experiments.pages import write_index, write_pages
from experiments.papers import PAPERS
from experiments.runner import Plan, Summary
from experiments.runner import reproduce as run
from experiments.store import Store
from experiments.summary import Table
from tamis.cli.session import Session, session
from tamis.errors import BadOption
from tamis.io.writing import WRITERS, writing
from tamis.table.sources.parquet import arrow

COUNTS = ("cells", "found", "ran", "failed", "left", "seconds", "compute", "overhead")
ON_SCREEN = ("SVC", "majority", "boosting", "EBM", "tamis")  # methods beside that of the paper

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def experiments() -> None:
    """Comparisons of the methods of tamis with their papers and with classifiers in common use."""


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="em2nolc, l0-mkl, l01-svm, imkpl, absent-mkl, or all.")],
    protocol: Annotated[str, typer.Option(help="honest, paper (with its optimism), or both.")] = "honest",
    full: Annotated[bool, typer.Option("--full/--quick", help="All splits and grids, or minutes of them.")] = False,
    only: Annotated[str | None, typer.Option(help="Datasets and methods, separated by commas.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for pages and figures.")] = Path("results"),
    store: Annotated[Path | None, typer.Option(help="File of rows; default: rows.sqlite in the folder.")] = None,
    export: Annotated[Path | None, typer.Option(help="Also write the rows as .csv, .tsv, .parquet or .jsonl.")] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed cells again.")] = False,
    take_over: Annotated[bool, typer.Option("--take-over", help="Also run cells claimed by runs that died.")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Processes; -1 for all cores.")] = None,
    backend: Annotated[str, typer.Option(help="loky (this machine) or dask.")] = "loky",
    scheduler: Annotated[str | None, typer.Option(help="Of a cluster, such as tcp://host:8786.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run the comparison of a paper on the available datasets and write its tables with the published numbers."""
    with session(as_json) as now:
        if paper not in ("all", *PAPERS):
            raise BadOption(f"paper {paper!r} is unknown: use one of {', '.join(PAPERS)}, or all")
        if protocol not in ("both", *PROTOCOLS):
            raise BadOption(f"--protocol {protocol!r} is unknown: use honest, paper or both")
        if export is not None and export.suffix.lower() not in WRITERS:
            raise BadOption(f"--export {export.name!r} is of no known kind: write to {', '.join(WRITERS)}")
        if export is not None and not export.absolute().parent.is_dir():
            raise FileNotFoundError(f"there is no folder {str(export.parent)!r} for --export")
        plan = Plan(
            () if paper == "all" else (paper,),
            PROTOCOLS if protocol == "both" else (protocol,),
            "full" if full else "quick",
            tuple(name.strip() for name in only.split(",")) if only else (),
        )
        out.mkdir(parents=True, exist_ok=True)
        rows = Store(store or out / "rows.sqlite")
        now.written.append(str(rows.path))
        plan = _runnable(now, plan, rows)
        summary = run(plan, rows, jobs=jobs, backend=backend, scheduler=scheduler, retry=retry, take_over=take_over)
        files = _write_pages(plan, rows, out)
        if export is not None:
            with writing(export) as write:
                write(arrow().RecordBatch.from_pylist([row.flat() for row in rows.rows()]))
            files.append(export)
        now.written += [str(path) for path in files]
        _show(now, plan, rows, summary)
        now.show(f"Wrote {', '.join(str(path) for path in files if path.suffix != '.png')}; rows are in {rows.path}")
        counts = {name: getattr(summary, name) for name in COUNTS}
        now.finish({**counts, "files": [str(path) for path in files], "store": str(rows.path)})


@app.command("open")
def open_benchmark(
    part: Annotated[
        str, typer.Option(help="develop, papers (the 13 tables of before), or a folder of .npz files.")
    ] = "develop",
    folds: Annotated[str, typer.Option(help="splits (random 70/30), or caiml (published folds).")] = "splits",
    splits: Annotated[int | None, typer.Option(help="Number of splits; default: all.")] = None,
    methods: Annotated[str | None, typer.Option(help="Methods, separated by commas; default: all.")] = None,
    tables: Annotated[str | None, typer.Option(help="Tables, separated by commas; default: all.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the page and its figure.")] = Path("results"),
    store: Annotated[Path | None, typer.Option(help="File of rows; default: rows.sqlite in the folder.")] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Run failed cells again.")] = False,
    take_over: Annotated[bool, typer.Option("--take-over", help="Also run cells claimed by runs that died.")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Processes; -1 for all cores.")] = None,
    limit: Annotated[float | None, typer.Option(help="Seconds after which a fit counts as failed.")] = None,
    page_only: Annotated[bool, typer.Option("--page", help="Write the page from the rows that are there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare the flagship with its peers on many tables, and write a page of results."""
    with session(as_json) as now:
        if folds not in FOLDS:
            raise BadOption(f"--folds {folds!r} is unknown: use {' or '.join(FOLDS)}")
        folder = folder_of(part)
        found = comparison(folder, folds, splits, limit)
        named = [name.strip() for text in (methods, tables) if text for name in text.split(",")]
        plan = Plan((found.name,), ("honest",), "full", tuple(named), known={found.name: found})
        for method, package in found.left_out.items():
            now.warn(f"without {method}, which needs {package}: pip install {package}")
        out.mkdir(parents=True, exist_ok=True)
        rows = Store(store or out / "rows.sqlite")
        summary = Summary(len(plan.cells()), 0)
        if not page_only:
            summary = run(plan, rows, jobs=jobs, retry=retry, take_over=take_over)
        for row in summary.failures:
            now.warn(f"{row.cell.method} on {row.cell.dataset}, split {row.cell.split} failed: {row.error}")
        command = f"python -m experiments open --part {part if part in PARTS else 'FOLDER'} --folds {folds}"
        own = [row for row in rows.rows(paper=found.name) if row.cell.setting == folds]
        files = write_page(Results(found, own), out, command) if own else []
        now.written += [str(path) for path in (rows.path, *files)]
        now.show(
            f"{summary.ran} of {summary.cells} cells ran in {summary.seconds:.0f} s, {summary.failed} failed; "
            f"wrote {', '.join(map(str, files)) or 'no page'}; rows are in {rows.path}"
        )
        now.finish({"ran": summary.ran, "failed": summary.failed, "files": [str(path) for path in files]})


def _runnable(now: Session, plan: Plan, rows: Store) -> Plan:
    """Warn of what cannot run, and return the plan without datasets whose files cannot be read."""
    for name in plan.chosen:
        for dataset, reason in PAPERS[name].missing.items():
            now.warn(f"{name}: without {dataset} ({reason})")
        for method, package in PAPERS[name].left_out.items():
            now.warn(f"{name}: without {method}, which needs {package}: pip install {package}")
    reasons = {name: unreadable(name) for name in dict.fromkeys(cell.dataset for cell in plan.cells())}
    bad = {name: reason for name, reason in reasons.items() if reason}
    for name, reason in bad.items():
        now.warn(f"without {name}: {reason}")
    plan = replace(plan, without=(*plan.without, *bad))
    if not plan.cells():
        raise BadOption("there is nothing to run: no dataset of the paper is available, or --only names none")
    for owner, count in rows.claimed_elsewhere().items():
        host, pid, _ = owner.split(":")
        now.warn(f"{count} cells are claimed by process {pid} on {host} (--take-over if it died)")
    return plan


def _command(plan: Plan, paper: str, protocols: list[str]) -> str:
    """Return the command that makes the rows of a page."""
    protocol = "both" if len(protocols) > 1 else protocols[0]
    only = f" --only '{','.join(plan.only)}'" if plan.only else ""
    return f"python -m experiments reproduce {paper} --protocol {protocol} --{plan.size}{only}"


def _tables(rows: Store, names: list[str], protocols: tuple[str, ...], size: str) -> list[Table]:
    """Return the tables of these papers and protocols that have rows."""
    found = [(n, p, rows.rows(paper=n, size=size, protocol=p)) for n in names for p in protocols]
    return [Table(PAPERS[name], protocol, some) for name, protocol, some in found if some]


def _write_pages(plan: Plan, rows: Store, out: Path) -> list[Path]:
    files = []
    for name in plan.chosen:
        found = rows.rows(paper=name, size=plan.size)
        if found:
            protocols = list(dict.fromkeys(row.cell.protocol for row in found))
            files += write_pages(PAPERS[name], found, out, _command(plan, name, protocols))
    tables = _tables(rows, list(PAPERS), PROTOCOLS, plan.size)
    return files + write_index(tables, out, _command(plan, "all", list(dict.fromkeys(t.protocol for t in tables))))


def _show(now: Session, plan: Plan, rows: Store, summary: Summary) -> None:
    if summary.left:
        now.warn(f"{summary.left} cells have no row yet: other runs have claimed them")
    for table in _tables(rows, plan.chosen, plan.protocols, plan.size):
        now.show(_screen(table))
    for row in summary.failures:
        now.warn(f"{' '.join(str(part) for part in astuple(row.cell) if part != '')} failed: {row.error}")
    share = 100 * summary.overhead / summary.compute if summary.compute else 0.0
    now.show(
        f"{summary.ran} of {summary.cells} cells ran ({summary.found} had a row) in {summary.seconds:.0f} s; "
        f"{summary.compute:.0f} processor seconds in fits, {share:.1f}% more to distribute them; "
        f"{summary.failed} failed"
    )


def _screen(table: Table) -> Screen:
    """Return mean accuracies with the published ones."""
    paper = table.paper
    screen = Screen(title=f"{paper.title}: accuracy (%), protocol {table.protocol}", title_justify="left")
    shown: list[Any] = [m for m in table.methods if m in (table.main, *ON_SCREEN)]
    for name in ("set", *shown, f"paper: {paper.main}"):
        screen.add_column(name, justify="left" if name == "set" else "right")
    for dataset in table.datasets:
        known = paper.reported(dataset, paper.main, "accuracy")
        means = [str(table.number(dataset, method, "accuracy")) for method in shown]
        screen.add_row(dataset, *means, "" if known is None else f"{known.value:g}")
    return screen


if __name__ == "__main__":
    sys.exit(app())
