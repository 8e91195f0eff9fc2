"""Make the pages that follow from the code: `docs/estimators.md`, `docs/references.md`, the drawings in
`docs/architecture.md`.

    python docs/generate.py            write them
    python docs/generate.py --check    say what is out of date, exit with 1 if anything is

A test does the second, so that the pages cannot lag behind.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "tamis"
WIDTH = 100
BIB_ENTRY = re.compile(r"^@\w+\{(\w+),\n(.*?)^\}", re.M | re.S)
TEX = {
    "\\O": "\u00d8",
    "\\'e": "\u00e9",
    '\\"o': "\u00f6",
    "{": "",
    "}": "",
    "--": "\u2013",
}  # what references.bib has of it
BETWEEN = "<!-- {name}: made by docs/generate.py -->"


# ---------------------------------------------------------------------- estimators


def estimators_page() -> str:
    """Every parameter and learned attribute, its default and who has it."""
    from tamis import all_estimators
    from tamis.base.parameters import described

    found = all_estimators()
    kinds = {name: "R" if name in all_estimators("regressor") else "C" for name in found}
    defaults: dict[tuple[str, str], list[str]] = {}
    attributes: dict[str, list[str]] = {}
    for name, cls in found.items():
        for parameter in inspect.signature(cls).parameters.values():
            key = parameter.name, f"`{parameter.default!r}`"
            place = "" if parameter.kind is parameter.KEYWORD_ONLY else "*"
            defaults.setdefault(key, []).append(name + place)
        for names, _ in described(cls.__doc__, "Attributes"):
            for attribute in names:
                attributes.setdefault(attribute, []).append(name)
    common = {name for name, _ in defaults}
    order = sorted(defaults, key=lambda key: (-sum(len(defaults[k]) for k in defaults if k[0] == key[0]), key))
    lines = [
        "# Estimators, their parameters and what they learn",
        "",
        f"{len(found)} estimators with {len(common)} parameters. A star marks those that may be given by place. "
        "Made from the code by `docs/generate.py`.",
        "",
        "| parameter | default | estimators |",
        "| --- | --- | --- |",
        *(f"| `{name}` | {default} | {_who(defaults[name, default], kinds)} |" for name, default in order),
        "",
        "| learned attribute | estimators |",
        "| --- | --- |",
        *(
            f"| `{name}` | {_who(owners, kinds)} |"
            for name, owners in sorted(attributes.items(), key=lambda item: (-len(item[1]), item[0]))
        ),
        "",
    ]
    return "\n".join(lines)


def _who(names: list[str], kinds: dict[str, str]) -> str:
    """Who has something: all, all classifiers, or their names."""
    plain = [name.removesuffix("*") for name in names]
    if len(plain) == len(kinds):
        return "all"
    classifiers = [name for name, kind in kinds.items() if kind == "C"]
    missing = [name for name in classifiers if name not in plain]
    if len(missing) <= 3 and len(plain) > 6:
        rest = [name for name in plain if name not in classifiers]
        words = "all classifiers" + (f" but {', '.join(missing)}" if missing else "")
        return ", ".join([words, *rest])
    return ", ".join(names)


# ---------------------------------------------------------------------- layers


def rooms() -> dict[str, set[str]]:
    """{room: rooms that it imports}, rooms being the folders and files of the package."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if not here.startswith("__"):
            found.setdefault(here, set()).update(_imported(path) - {here})
    return {room: {other for other in others if other in found} for room, others in found.items()}


def _imported(path: Path) -> set[str]:
    out = set()
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module] if node.module != "tamis" else [f"tamis.{alias.name}" for alias in node.names]
        out |= {module.split(".")[1] for module in modules if module.startswith("tamis.")}
    return out


def layers() -> str:
    """The rooms, each below all that import it."""
    uses, height = rooms(), dict[str, int]()

    def above(room: str) -> int:
        if room not in height:
            height[room] = 1 + max((above(other) for other in uses[room]), default=0)
        return height[room]

    rows = [sorted(room for room in uses if above(room) == level) for level in range(max(map(above, uses)), 0, -1)]
    lines = ["+" + "-" * (WIDTH - 2) + "+"]
    for row in rows:
        lines += ["|" + "   ".join(row).center(WIDTH - 2) + "|", "+" + "-" * (WIDTH - 2) + "+"]
    return "\n".join(["```text", *lines, "```"])


# ---------------------------------------------------------------------- one row through the layers


def trace() -> str:
    """The modules that a row of data meets, in the order in which they are first called."""
    from sklearn.datasets import load_breast_cancer

    from tamis import Job, TamisClassifier, report, run

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, y = X.iloc[::4, :6], y.iloc[::4]
    clf = TamisClassifier(4, 3, interactions=1, cv=2)
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        job = Job("y", max_instances=3, max_features=3, options={"cv": 2})
        results = run(X.assign(y=y.to_numpy()), job)
        clf.fit(X, y).predict(X), clf.explain(X)  # whatever is loaded when it is first needed
        report.write(results, Path(folder) / "first.html")
        verbs: dict[str, Callable[[], Any]] = {
            "fit": lambda: clf.fit(X, y),
            "predict": lambda: clf.predict(X.head(1)),
            "explain": lambda: clf.explain(X.head(1)),
            "report": lambda: report.write(results, Path(folder) / "report.html"),
        }
        lines = [line for verb, action in verbs.items() for line in _told(verb, action)]
    return "\n".join(["```text", *lines, "```"])


def _told(verb: str, action: Callable[[], Any]) -> Iterator[str]:
    """Lines of the modules that an action calls, a room at a time."""
    met: dict[str, None] = {}

    def look(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("tamis."):
            met.setdefault(name.removeprefix("tamis."))

    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(None)
    parts: list[tuple[str, list[str]]] = []
    for module in met:
        room, _, rest = module.partition(".")
        if not parts or parts[-1][0] != room:
            parts.append((room, []))
        parts[-1][1].append(rest)
    words = [f"{room}({', '.join(filter(None, rest))})" if any(rest) else room for room, rest in parts]
    line = f"{verb:8}"
    for word in words:
        if len(line) + len(word) + 3 > WIDTH:
            yield line
            line = " " * 8
        line += f"{' > ' if line.strip() not in ('', verb) else ''}{word}"
    yield line


# ---------------------------------------------------------------------- references


def references_page() -> str:
    """What `docs/references.bib` has, by author, each entry with its key as an anchor."""
    entries = {key: _fields(body) for key, body in BIB_ENTRY.findall((DOCS / "references.bib").read_text())}
    order = sorted(entries, key=lambda key: (entries[key]["author"].lower(), entries[key]["year"], key))
    lines = [
        "# References",
        "",
        "What docstrings and pages cite, by key. Made from `docs/references.bib` by `docs/generate.py`.",
        "",
    ]
    for key in order:
        lines += [f"({key.lower()})=", f"`{key}`", f": {_reference(entries[key])}", ""]
    return "\n".join(lines)


def _fields(body: str) -> dict[str, str]:
    found = re.findall(r"^\s*(\w+)\s*=\s*\{(.*)\},?$", body, re.M)
    for tex, letter in TEX.items():
        found = [(name, value.replace(tex, letter)) for name, value in found]
    return dict(found)


def _reference(entry: dict[str, str]) -> str:
    """Authors (year). Title. Where."""
    names = [", ".join(reversed(name.split(", "))).replace(", ", " ") for name in entry["author"].split(" and ")]
    who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    where = next((f"*{entry[name]}*" for name in ("journal", "booktitle", "publisher") if name in entry), None)
    volume = " ".join(filter(None, [where, entry.get("volume")]))
    place = ", ".join(filter(None, [volume, entry.get("pages"), entry.get("note")]))
    return f"{who} ({entry['year']}). {entry['title']}.{f' {place}.' if place else ''}"


# ---------------------------------------------------------------------- pages


def pages() -> dict[Path, str]:
    """The pages as they should be."""
    architecture = DOCS / "architecture.md"
    text = architecture.read_text()
    for name, made in (("layers", layers()), ("trace", trace())):
        mark = BETWEEN.format(name=name)
        text, found = re.subn(f"{re.escape(mark)}\n.*?(?=\n\n)", lambda _, new=f"{mark}\n{made}": new, text, flags=re.S)
        if found != 1:
            raise ValueError(f"architecture.md has the line {mark!r} {found} times: it should stand there once")
    return {
        DOCS / "estimators.md": estimators_page(),
        DOCS / "references.md": references_page(),
        architecture: text,
    }


def main() -> None:
    """Write the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wrong = {path: text for path, text in pages().items() if not path.exists() or path.read_text() != text}
    if options.check:
        sys.exit("".join(f"{path.name} is out of date: python docs/generate.py\n" for path in wrong) or 0)
    for path, text in wrong.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
