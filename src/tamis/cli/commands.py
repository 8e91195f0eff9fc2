"""The commands of `tamis`."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tamis import __version__
from tamis.cli.session import Session, session

if TYPE_CHECKING:
    from tamis.results.data import Results

app = typer.Typer(
    name="tamis",
    help="Classifiers you can explain: few cases, few features, exact sums of contributions.",
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)

Table = Annotated[Path, typer.Argument(help="CSV, TSV, Parquet, ARFF or NPZ; also .gz, .bz2, .xz, .zst, .zip")]
Tables = Annotated[Path, typer.Argument(help="CSV, TSV, Parquet (or a folder of it), ARFF or NPZ; also .gz, .zip, ...")]
ModelFile = Annotated[Path, typer.Argument(help="a model file written by `tamis fit`")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document only.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the files.")]
Target = Annotated[str, typer.Option("--target", "-t", help="Column to predict.")]
Encoding = Annotated[str, typer.Option(help="Encoding of text files.")]
Repeated = list[str] | None
Missing = Annotated[Repeated, typer.Option("--missing", help="A cell that is a missing value; can be repeated.")]
Group = Annotated[str | None, typer.Option(help="Column of groups whose rows stay together.")]
Id = Annotated[str | None, typer.Option("--id", help="Column that names the rows.")]
Categorical = Annotated[Repeated, typer.Option(help="Column that is a category; can be repeated.")]
Drop = Annotated[Repeated, typer.Option(help="Column to leave out; can be repeated.")]
MaxInstances = Annotated[int | None, typer.Option(help="Largest number of training cases to keep.")]
MaxFeatures = Annotated[int | None, typer.Option(help="Largest number of features to keep.")]
MaxPairs = Annotated[int | None, typer.Option(help="Largest number of pairs of features that act together.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Processes; -1 for all cores.")]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.")]


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"tamis {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Classifiers you can explain: few cases, few features, exact sums of contributions."""


@app.command()
def fit(
    data: Tables,
    target: Target,
    out: Out = None,
    method: Annotated[str | None, typer.Option(help="Name of a registered classifier.")] = None,
    max_instances: MaxInstances = None,
    max_features: MaxFeatures = None,
    max_pairs: MaxPairs = None,
    positive: Annotated[str | None, typer.Option(help="Class that positive scores favour.")] = None,
    test_size: Annotated[float, typer.Option(help="Share of the rows to test on.")] = 0.25,
    split: Annotated[str | None, typer.Option(help="Column that says train or test.")] = None,
    group: Group = None,
    id: Id = None,
    categorical: Categorical = None,
    drop: Drop = None,
    class_weight: Annotated[Repeated, typer.Option(help="'balanced', or CLASS=WEIGHT; can be repeated.")] = None,
    setting: Annotated[
        Repeated, typer.Option("--set", help="NAME=VALUE, a parameter of the method, such as cv=10.")
    ] = None,
    missing: Missing = None,
    encoding: Encoding = "utf-8",
    seed: Seed = 0,
    jobs: Jobs = None,
    memory_limit: Annotated[
        str | None, typer.Option(help="Such as 2GB; Parquet tables that need more memory are read block by block.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tune, fit, test and explain a classifier; write model.tamis, report.html and metrics.json."""
    with session(as_json) as now:
        from tamis import io
        from tamis.workflow import METHOD, Job, is_large, run, run_large

        large = is_large(data, memory_limit)
        job = Job(
            target=target,
            method=method or METHOD,
            max_instances=max_instances,
            max_features=max_features,
            max_pairs=max_pairs,
            positive=positive,
            test_size=test_size,
            split=split,
            group=group,
            id=id,
            categorical=tuple(categorical or ()),
            drop=tuple(drop or ()),
            class_weight=_class_weight(class_weight),
            options=_settings(setting),
            seed=seed,
            n_jobs=jobs,
        )
        text = [name for name in (target, id, group, split, *job.categorical) if name]
        folder = out or _folder(data)
        if large:
            _fit(now, lambda: run_large(data, job, folder, missing or ()), folder)
        else:
            table = io.read(data, text=text, missing=missing or (), encoding=encoding)
            _fit(now, lambda: run(table, job, data.name), folder)


@app.command()
def demo(out: Out = None, seed: Seed = 0, jobs: Jobs = None, as_json: AsJson = False) -> None:
    """Run `fit` on the breast-cancer table of scikit-learn."""
    with session(as_json) as now:
        from tamis import io
        from tamis.workflow import Job, run

        table, target = io.load_dataset("breast_cancer")
        job = Job(target, seed=seed, n_jobs=jobs)
        _fit(now, lambda: run(table, job, "breast_cancer"), out or Path("tamis-demo"))


def _folder(data: Path) -> Path:
    return Path(f"{data.name.split('.')[0]}-tamis")


def _fit(now: Session, work: Callable[[], Results], folder: Path) -> None:
    from tamis import workflow
    from tamis.cli import screen
    from tamis.results.tables import summary

    workflow.check_folder(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are among the notes
        results = work()
    files = workflow.write(results, folder)
    now.written += [str(path) for path in files.values()]
    for warning in results.notes.warnings:
        now.warn(warning)
    now.show(screen.overview(results, now.height))
    took = sum(results.seconds.values())
    now.show(f"Wrote {', '.join(path.name for path in files.values())} to {folder} ({took:.1f} s)")
    if "report" in files:
        now.show(f"Report: {files['report']}")
    else:
        now.warn("report.html was not written, because it needs jinja2: pip install 'tamis[report]'")
    now.finish({**summary(results), "files": {name: str(path) for name, path in files.items()}})


@app.command()
def predict(
    model: ModelFile,
    data: Table,
    out: Annotated[Path | None, typer.Option("--out", "-o", help=".csv, .tsv, .parquet, .json or .jsonl.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Add the largest contributions.")] = False,
    top: Annotated[int, typer.Option(min=1, help="Number of contributions.")] = 3,
    missing: Missing = None,
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Add prediction, score and probability to the rows of a table of any size."""
    with session(as_json) as now:
        from tamis import workflow
        from tamis.io.writing import streaming, writing

        classifier = workflow.load_classifier(model)
        if out is not None and out.resolve() in (data.resolve(), model.resolve()):
            raise ValueError(f"--out {str(out)!r} is one of the files to read: name another")
        odd: dict[str, str] = {}
        batches = workflow.predicted(classifier, data, top if explain else 0, missing or (), encoding, odd)
        kind = ".json" if as_json else ".csv"
        rows = 0
        if out is None:
            now.written.append("the rows printed so far")
        with writing(out) if out is not None else streaming(sys.stdout.buffer, kind) as write:
            for batch in batches:
                write(batch)
                rows += batch.num_rows
        warned = [f"column {name!r}: {words}" for name, words in odd.items()]
        for warning in warned:
            now.warn(warning)
        if out is not None:
            now.written.append(str(out))
            now.show(f"Wrote {rows} rows to {out}")
            now.finish({"rows": rows, "out": str(out), "warnings": warned})


@app.command()
def explain(
    model: ModelFile,
    data: Table,
    row: Annotated[int | None, typer.Option(help="Number of the row; the first is 1.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="Id of the row, from the id column of the fit.")] = None,
    output: Annotated[str | None, typer.Option("--class", help="Class whose score is explained.")] = None,
    missing: Missing = None,
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Explain the prediction of one row: what features, pairs of features and similar cases add to its score."""
    with session(as_json) as now:
        from tamis import workflow
        from tamis.cli import screen

        if (row is None) == (id is None):
            raise typer.BadParameter("name one row, by --row or by --id")
        found = workflow.explain_row(
            model, data, row=row, id=id, output=output, missing=missing or (), encoding=encoding
        )
        now.show(screen.explained(found, now.height))
        now.finish(found.to_dict())


@app.command()
def report(
    model: ModelFile,
    data: Annotated[Path | None, typer.Argument(help="New rows to test the model on.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Column of classes, if renamed since the fit.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="HTML file to write.")] = None,
    missing: Missing = None,
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Write the report of a model file, with a test on other rows if a table is given."""
    with session(as_json) as now:
        from tamis import workflow
        from tamis.cli import screen
        from tamis.results.tables import summary
        from tamis.views import report as pages

        results = workflow.load_results(model)
        if data is not None:
            table = workflow.read_for(results, data, missing or (), encoding)
            results = workflow.evaluate_on(results, table, data.name, target)
        path = out or model.with_name("report.html" if data is None else f"report-{data.name.split('.')[0]}.html")
        pages.write(results, path)
        now.written.append(str(path))
        for warning in results.notes.warnings:
            now.warn(warning)
        now.show(screen.overview(results, now.height), f"Report: {path}")
        now.finish({**summary(results), "files": {"report": str(path)}})


@app.command()
def scorecard(
    model: ModelFile,
    out: Annotated[Path, typer.Argument(help="The file to write: .csv or .xlsx.")],
    base_points: Annotated[float, typer.Option(help="Points of a row with the base odds.")] = 600.0,
    base_odds: Annotated[float, typer.Option(help="Odds of the good class at the base points.")] = 50.0,
    pdo: Annotated[float, typer.Option(help="Points that double the odds of the good class.")] = 20.0,
    good: Annotated[str | None, typer.Option(help="Class whose odds rise with the points.")] = None,
    max_ranges: Annotated[
        int, typer.Option(help="Most ranges of one number; points may then be multiples of 5, say.", min=1)
    ] = 20,
    data: Annotated[Path | None, typer.Option(help="Rows with classes on which rounding is measured.")] = None,
    missing: Missing = None,
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Write a model of two classes as a table of points, which are added up by hand."""
    with session(as_json) as now:
        from tamis import workflow

        results = workflow.load_results(model)
        scale = {"base_points": base_points, "base_odds": base_odds, "pdo": pdo, "max_ranges": max_ranges}
        card = workflow.scorecard(results, good=good, **scale)
        loss = None
        if data is not None:
            table = workflow.read_for(results, data, missing or (), encoding)
            loss = workflow.rounding_loss(results, card, table)
        card.save(out)
        now.written.append(str(out))
        odds = f"{base_points:g} points are odds of {base_odds:g} to 1"
        now.show(f"Wrote {out}: {odds} for {str(card.good)!r}, and {pdo:g} more points double them.")
        if loss is not None:
            now.show(f"Rounding on {data}: {loss}.")
        now.finish({"out": str(out), "good": str(card.good), "rounding": None if loss is None else str(loss)})


@app.command()
def compare(
    data: Table,
    target: Target,
    out: Out = None,
    group: Group = None,
    id: Id = None,
    categorical: Categorical = None,
    drop: Drop = None,
    max_instances: MaxInstances = None,
    max_features: MaxFeatures = None,
    max_pairs: MaxPairs = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the outer cross-validation.")] = 5,
    without: Annotated[Repeated, typer.Option(help="Leave out this method, such as EBM; can be repeated.")] = None,
    only: Annotated[Repeated, typer.Option(help="Compare only this method; can be repeated.")] = None,
    missing: Missing = None,
    encoding: Encoding = "utf-8",
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Compare all methods with a tuned SVC, boosting, an EBM (if installed) and the majority class."""
    with session(as_json) as now:
        from tamis import io, workflow
        from tamis.cli import screen

        job = workflow.Job(
            target,
            group=group,
            id=id,
            categorical=tuple(categorical or ()),
            drop=tuple(drop or ()),
            max_instances=max_instances,
            max_features=max_features,
            max_pairs=max_pairs,
            seed=seed,
            n_jobs=jobs,
        )
        text = [name for name in (target, id, group, *job.categorical) if name]
        table = io.read(data, text=text, missing=missing or (), encoding=encoding)
        folder = out or _folder(data)
        workflow.check_folder(folder)
        comparison = workflow.compare(table, job, folds, data.name, without or (), only or ())
        files = workflow.write_comparison(comparison, folder)
        now.written += [str(path) for path in files.values()]
        for warning in comparison.warnings:
            now.warn(warning)
        now.show(screen.comparison(comparison), f"Wrote {', '.join(str(path) for path in files.values())}")
        now.finish({**comparison.to_dict(), "files": {name: str(path) for name, path in files.items()}})


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(help="Dataset to write as a CSV file.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file; default: NAME.csv.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the available datasets, or write one as a CSV file."""
    with session(as_json) as now:
        from dataclasses import asdict

        from tamis import workflow
        from tamis.cli import screen
        from tamis.io.datasets import available

        if name is None:
            found = available()
            now.show(screen.listing(found))
            now.finish([asdict(dataset) for dataset in found])
            return
        path = out or Path(f"{name}.csv")
        target = workflow.export_dataset(name, path)
        now.written.append(str(path))
        now.show(f"Wrote {path}; its target is {target!r}: tamis fit {path} --target {target}")
        now.finish({"out": str(path), "target": target})


def _class_weight(values: list[str] | None) -> Any:
    if not values or values == ["balanced"]:
        return "balanced" if values else None
    pairs = dict(value.rpartition("=")[::2] for value in values)
    try:
        weights = {name: float(weight) for name, weight in pairs.items()}
    except ValueError:
        weights = {"": 0.0}
    if "" in weights:
        raise typer.BadParameter("use --class-weight balanced, or --class-weight CLASS=NUMBER for each class")
    return weights


def _settings(values: list[str] | None) -> dict[str, Any]:
    out = {}
    for value in values or []:
        name, sign, text = value.partition("=")
        if not sign or not name:
            raise typer.BadParameter(f"--set {value!r} is not of the form NAME=VALUE")
        try:
            out[name] = None if text == "None" else json.loads(text)
        except json.JSONDecodeError:
            out[name] = text
    return out
