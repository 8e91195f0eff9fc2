"""Pages of results as Markdown and HTML, made from rows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cells import Row
from experiments.paper import Paper
from experiments.summary import Table
from experiments.tables import table as markdown_table
from tamis.codec import replacing

LINK = re.compile(r"\[([^\]]+)\]\((\S+)\.md\)")
INDEX_METHODS = ("tamis", "SVC", "XGBoost", "majority")
TOLERANCE = 2.0  # points of accuracy within which a number is reproduced
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; font-size: 0.85em; display: block; overflow-x: auto; margin: 1rem 0 }
th, td { padding: 0.2rem 0.55rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
img { max-width: 100% }
code { background: #f3f3f3; padding: 0 0.2rem }
"""


@dataclass(frozen=True)
class Heading:
    """A heading."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    header: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Image:
    """A figure in a file."""

    path: str
    text: str


Block = Heading | Text | Items | Grid | Image


def write_pages(paper: Paper, rows: Sequence[Row], folder: Path, command: str) -> list[Path]:
    """Write the pages of a paper and the files of its figures."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    blocks, files = page(paper, rows, folder, command)
    return files + _written(folder, paper.name, paper.name, paper.title, blocks)


def write_index(tables: Sequence[Table], folder: Path, command: str) -> list[Path]:
    """Write the index: one line for each paper and protocol, with a link to its page."""
    first = ["paper", "protocol", "sets", "its method", "ours", "published, same sets"]
    blocks: list[Block] = [
        Heading("The papers, run again", 1),
        Text(f"Mean accuracy (%) over sets, by `{command}`; the pages have all methods, measures, tests and figures."),
        Grid([*first, *INDEX_METHODS], [_index_line(table) for table in tables]),
    ]
    return _written(folder, "README", "index", "The papers, run again", blocks)


def _written(folder: Path, first: str, second: str, title: str, blocks: Sequence[Block]) -> list[Path]:
    """Write blocks as `first`.md and `second`.html."""
    files = []
    for name, text in ((f"{first}.md", markdown(blocks)), (f"{second}.html", html(title, blocks))):
        path = folder / name
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        files.append(path)
    return files


def _index_line(table: Table) -> list[str]:
    main = table.main
    pairs = [
        (ours, known.value)
        for d in table.datasets
        if main
        and (known := table.paper.reported(d, main, "accuracy")) is not None
        and np.isfinite(ours := table.number(d, main, "accuracy").mean)
    ]
    ours, theirs = np.array(pairs).mean(axis=0) if pairs else (np.nan, np.nan)
    return [
        f"[{table.paper.name}]({table.paper.name}.md)",
        table.protocol,
        str(len(table.datasets)),
        main or "-",
        _mean(table, main) if main else "-",
        f"{_shown(theirs)} (ours {_shown(ours)})" if pairs else "-",
        *(_mean(table, m) if m in table.methods else "-" for m in INDEX_METHODS),
    ]


def page(paper: Paper, rows: Sequence[Row], folder: Path, command: str) -> tuple[list[Block], list[Path]]:
    """Return the blocks of a page and the paths of its figures."""
    blocks: list[Block] = [Heading(paper.title, 1), Text(paper.citation), *_made(rows, command)]
    tables = [
        Table(paper, protocol, [row for row in rows if row.cell.protocol == protocol])
        for protocol in dict.fromkeys(row.cell.protocol for row in rows)
    ]
    blocks += [Heading("What was reproduced, and what was not"), *(Text(verdict(table)) for table in tables)]
    blocks.append(Text(paper.descriptions["why"]))
    files: list[Path] = []
    for table in tables:
        blocks += [Heading(f"Protocol: {table.protocol}"), Text(paper.descriptions[table.protocol])]
        blocks += _accuracy(table) + _beside(table) + _others(table) + _against(table)
        drawn, written = _figures(paper, table, folder)
        blocks += drawn
        files += written
        blocks += _trouble(table)
    return blocks + _gaps(paper), files


def _made(rows: Sequence[Row], command: str) -> list[Block]:
    machines = ", ".join(dict.fromkeys(row.machine for row in rows))
    versions = "; ".join(
        ", ".join(f"{k} {v}" for k, v in json.loads(text).items()) for text in dict.fromkeys(r.versions for r in rows)
    )
    first, last = (pick(row.finished for row in rows)[:16].replace("T", " ") for pick in (min, max))
    compute = sum(row.measures.get("seconds", 0.0) for row in rows)
    return [
        Text(
            f"Made by `{command}` from {len(rows)} rows, finished between {first} and {last} UTC on {machines}; "
            f"{compute / 60:.0f} minutes of processor time in fits (of methods that share kernels the first pays for "
            f"them). Versions: {versions}."
        )
    ]


def verdict(table: Table) -> str:
    """Return a sentence that counts how many published accuracies were reproduced."""
    paper, sentences = table.paper, []
    for method in table.methods:
        pairs = [
            (dataset, table.number(dataset, method, "accuracy").mean, known.value)
            for dataset in table.datasets
            if (known := paper.reported(dataset, method, "accuracy")) is not None
        ]
        pairs = [pair for pair in pairs if np.isfinite(pair[1])]
        if not pairs:
            continue
        differences = np.array([ours - theirs for _, ours, theirs in pairs])
        near, below, above = (
            int(np.sum(np.abs(differences) <= TOLERANCE)),
            int(np.sum(differences < -TOLERANCE)),
            int(np.sum(differences > TOLERANCE)),
        )
        worst = pairs[int(np.argmin(differences))]
        sentences.append(
            f"{method}: within {TOLERANCE:g} points of the published accuracy on {near} of {len(pairs)} sets, lower on "
            f"{below}, higher on {above} (mean difference {differences.mean():+.1f}; lowest on {worst[0]}: "
            f"{worst[1]:.1f} against {worst[2]:.1f})"
        )
    if not sentences:
        return f"Protocol {table.protocol}: the paper has no numbers for these sets and methods."
    return f"Protocol {table.protocol}. " + "; ".join(sentences) + "."


def _accuracy(table: Table) -> list[Block]:
    lines = []
    for k, dataset in enumerate(table.datasets):
        best = np.nanmax(table.scores[k]) if np.isfinite(table.scores[k]).any() else np.nan
        cells = []
        for method, score in zip(table.methods, table.scores[k], strict=True):
            text = str(table.number(dataset, method, "accuracy"))
            cells.append(f"**{text}**" if score == best else text)
        lines.append([_label(table, dataset), *cells])
    ranks = table.ranks
    lines.append(["mean", *(_mean(table, method) for method in table.methods)])
    lines.append(["mean rank", *(f"{ranks[m]:.1f}" for m in table.methods)])
    best_of = table.paper.summary.get(table.protocol) == "best"
    words = (
        "the best repetition ± deviation over the models of its folds" if best_of else "mean ± deviation over splits"
    )
    return [Heading("Accuracy (%)", 3), Text(f"{words.capitalize()}."), Grid(["set", *table.methods], lines)]


def _mean(table: Table, method: str) -> str:
    """Format the mean over datasets, with their number if some are missing."""
    value, count = table.mean(method)
    return _shown(value) + ("" if count in (0, len(table.datasets)) else f" ({count} of {len(table.datasets)})")


def _label(table: Table, dataset: str) -> str:
    theirs = table.paper.datasets[dataset]
    return f"{dataset} ({theirs})" if theirs and theirs.lower() != dataset else dataset


def _beside(table: Table) -> list[Block]:
    """Return tables of our number, the published one and the difference for each published measure."""
    blocks: list[Block] = []
    for measure, title in table.paper.measures.items():
        lines = []
        for dataset in table.datasets:
            for method in table.methods:
                known = table.paper.reported(dataset, method, measure)
                ours = table.number(dataset, method, measure)
                if known is None:
                    continue
                theirs = f"{known.value:g}" + (f" ± {known.spread:g}" if np.isfinite(known.spread) else "")
                difference = f"{ours.mean - known.value:+.1f}" if np.isfinite(ours.mean) else "-"
                lines.append([_label(table, dataset), method, str(ours), theirs, difference])
        if lines:
            header = ["set", "method", "ours", "paper", "difference"]
            blocks += [Heading(f"{title}, beside the paper", 3), Grid(header, lines)]
    return blocks


def _others(table: Table) -> list[Block]:
    """Return tables of the measures other than accuracy."""
    blocks: list[Block] = []
    for measure, title in table.paper.measures.items():
        if measure == "accuracy":
            continue
        methods = [m for m in table.methods if any(measure in r.measures for r in table.rows if r.cell.method == m)]
        if not methods:
            continue
        lines = [[_label(table, d), *(str(table.number(d, m, measure)) for m in methods)] for d in table.datasets]
        blocks += [Heading(title, 3), Grid(["set", *methods], lines)]
    return blocks


def _against(table: Table) -> list[Block]:
    if len(table.methods) < 2 or not table.main:
        return []
    lines = [
        [method, _shown(difference, "+.1f"), _p(p), _p(corrected), str(wins), str(losses)]
        for method, difference, p, corrected, wins, losses in table.against_main()
    ]
    header = [f"{table.main} against", "mean difference", "p (Wilcoxon over sets)", "p (Holm)", "sets won", "sets lost"]
    return [
        Heading("Is it more than luck?", 3),
        Text(
            "Wilcoxon's signed ranks of the accuracies above over sets, corrected by Holm's steps for the number of "
            "methods; and the sets on which the paired t-test over splits, its variance corrected for the rows that "
            "splits share, rejects equality at 5%. With few splits hardly anything is certain."
        ),
        Grid(header, lines),
    ]


def _shown(value: float, form: str = ".1f") -> str:
    return "-" if np.isnan(value) else format(value, form)


def _p(value: float) -> str:
    return "-" if np.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def _figures(paper: Paper, table: Table, folder: Path) -> tuple[list[Block], list[Path]]:
    blocks: list[Block] = []
    files: list[Path] = []
    if find_spec("matplotlib") is None:
        return [Text("Figures need matplotlib: `pip install 'tamis[plot]'`.")], files
    for place, (title, draw) in enumerate(paper.figures.items()):
        figure = draw(table.rows)
        if figure is None:
            continue
        path = folder / "figures" / f"{paper.name}-{table.protocol}-{place}.png"
        with replacing(path) as temporary, temporary.open("wb") as file:
            figure.savefig(file, format="png", dpi=90, metadata={"Software": None})
        files.append(path)
        blocks += [Heading(title, 3), Image(f"figures/{path.name}", title)]
    return blocks, files


def _trouble(table: Table) -> list[Block]:
    items = [
        f"{m}: {count} of {of} fits stopped before they converged" for m, (count, of) in table.not_converged.items()
    ]
    items += [
        f"{row.cell.method} on {row.cell.dataset} is not in the figures: {row.extra['figure_error']}"
        for row in table.rows
        if "figure_error" in row.extra
    ]
    for row in table.failures:
        cell = row.cell
        where = ", ".join(x for x in (cell.dataset, cell.setting, f"split {cell.split}") if x)
        items.append(f"{cell.method} failed on {where}: {' '.join(row.error.split())}")
    return [Heading("What did not go well", 3), Items(items)] if items else []


def _gaps(paper: Paper) -> list[Block]:
    items = [f"{name}: {reason}" for name, reason in paper.missing.items()]
    items += [f"{name}: {package} is not installed" for name, package in paper.left_out.items()]
    return [Heading("What is missing"), Items(items)] if items else []


# ---------------------------------------------------------------------- formats


def markdown(blocks: Sequence[Block]) -> str:
    """Format blocks as Markdown."""
    out = []
    for block in blocks:
        match block:
            case Heading(text, level):
                out.append(f"{'#' * level} {text}")
            case Text(text):
                out.append(text)
            case Items(items):
                out.append("\n".join(f"- {item}" for item in items))
            case Grid(header, lines):
                out.append(markdown_table(header, lines))
            case Image(path, text):
                out.append(f"![{text}]({path})")
    return "\n\n".join(out) + "\n"


def html(title: str, blocks: Sequence[Block]) -> str:
    """Format blocks as a page of HTML."""
    body = "\n".join(_html(block) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n'
        f"<body>\n{body}\n</body></html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Text(text):
            return f"<p>{_inline(text)}</p>"
        case Items(items):
            return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>"
        case Grid(header, lines):
            head = "".join(f"<th>{_inline(cell)}</th>" for cell in header)
            rows = "".join("<tr>" + "".join(f"<td>{_inline(c)}</td>" for c in line) + "</tr>" for line in lines)
            return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        case Image(path, text):
            return f'<p><img src="{escape(path)}" alt="{escape(text)}"></p>'


def _inline(text: Any) -> str:
    """Format links, bold text and code."""
    out = LINK.sub(r'<a href="\2.html">\1</a>', escape(str(text)))
    for mark, tag in (("**", "strong"), ("`", "code")):
        parts = out.split(mark)
        if len(parts) % 2:
            out = "".join(p if k % 2 == 0 else f"<{tag}>{p}</{tag}>" for k, p in enumerate(parts))
    return out
