"""Write the pages that follow from the code: `estimators.md`, `references.md` and a part of `architecture.md`.

python docs/generate.py            write the pages
python docs/generate.py --check    list the pages that are out of date; exit with status 1 if there are any
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

DOCS = Path(__file__).parent
MARK = "<!-- written by docs/generate.py -->"
BIB_ENTRY = re.compile(r"^@\w+\{(\w+),\n(.*?)^\}", re.M | re.S)
TEX = {"\\O": "\u00d8", "\\'e": "\u00e9", '\\"o': "\u00f6", "{": "", "}": "", "--": "\u2013"}  # in references.bib


def estimators_page() -> str:
    """Return the page of all parameters and fitted attributes, with the estimators that have them."""
    from tamis import all_estimators

    estimators = all_estimators()
    classifiers = list(all_estimators("classifier"))
    defaults: dict[tuple[str, str], list[str]] = {}
    attributes: dict[str, list[str]] = {}
    for name, cls in estimators.items():
        for parameter in inspect.signature(cls).parameters.values():
            star = "" if parameter.kind is parameter.KEYWORD_ONLY else "*"
            defaults.setdefault((parameter.name, repr(parameter.default)), []).append(name + star)
        for attribute in fitted_attributes(cls):
            attributes.setdefault(attribute, []).append(name)

    n_owners = {parameter: sum(len(defaults[k]) for k in defaults if k[0] == parameter) for parameter, _ in defaults}
    order = sorted(defaults, key=lambda key: (-n_owners[key[0]], key))
    lines = [
        "# Parameters and attributes of all estimators",
        "",
        f"{len(estimators)} estimators have {len(n_owners)} parameters. A star marks a parameter that may be given by "
        "position. `docs/generate.py` writes this page from the code.",
        "",
        "| parameter | default | estimators |",
        "| --- | --- | --- |",
    ]
    for name, default in order:
        lines.append(f"| `{name}` | `{default}` | {owners(defaults[name, default], len(estimators), classifiers)} |")
    lines += ["", "| fitted attribute | estimators |", "| --- | --- |"]
    for name in sorted(attributes, key=lambda name: (-len(attributes[name]), name)):
        lines.append(f"| `{name}` | {owners(attributes[name], len(estimators), classifiers)} |")
    return "\n".join([*lines, ""])


def fitted_attributes(cls: type) -> list[str]:
    """Return the names that the section "Attributes" of a docstring lists."""
    section = inspect.getdoc(cls).split("Attributes\n----------\n")[1].split("\n\n")[0]
    heads = re.findall(r"^(\w[\w, ]*) : ", section, re.M)
    return [name for head in heads for name in head.split(", ")]


def owners(names: list[str], n_estimators: int, classifiers: list[str]) -> str:
    """Return "all", "all classifiers" or the names of the estimators."""
    if len(names) == n_estimators:
        return "all"
    if names == classifiers:
        return "all classifiers"
    return ", ".join(names)


def trace() -> str:
    """Return a table of the modules whose functions run in `fit`, `predict` and `explain` of an estimator."""
    from sklearn.datasets import load_breast_cancer

    from tamis import SimpleMKLClassifier

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, y = X.iloc[::4, :6], y.iloc[::4]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = SimpleMKLClassifier().fit(X, y)
        clf.explain(X)  # loads what is loaded when it is first used
        calls = {
            "fit": modules_called(clf.fit, X, y),
            "predict": modules_called(clf.predict, X.head(1)),
            "explain": modules_called(clf.explain, X.head(1)),
        }
    lines = ["| call | modules | package: modules, in the order of their first call |", "| --- | --- | --- |"]
    for call, modules in calls.items():
        packages: dict[str, list[str]] = {}
        for module in modules:
            package, _, rest = module.partition(".")
            packages.setdefault(package, []).append(rest.replace(".", "/"))
        parts = [f"{package}: {', '.join(names)}" if any(names) else package for package, names in packages.items()]
        lines.append(f"| `{call}` | {len(modules)} | {'; '.join(parts)} |")
    return "\n".join(lines)


def modules_called(function: Callable, *args: Any) -> list[str]:
    """Return the modules of tamis whose functions a call runs, in the order of their first call."""
    found: dict[str, None] = {}

    def record(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("tamis."):
            found.setdefault(name.removeprefix("tamis."))

    sys.setprofile(record)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return list(found)


def references_page() -> str:
    """Return the entries of `docs/references.bib` by author, each with its key as an anchor."""
    entries = {key: bib_fields(body) for key, body in BIB_ENTRY.findall((DOCS / "references.bib").read_text())}
    order = sorted(entries, key=lambda key: (entries[key]["author"].lower(), entries[key]["year"], key))
    lines = ["# References", "", "The works that docstrings and pages cite, by key.", ""]
    for key in order:
        lines += [f"({key.lower()})=", f"`{key}`", f": {reference(entries[key])}", ""]
    return "\n".join(lines)


def bib_fields(body: str) -> dict[str, str]:
    """Return {field: text} of a BibTeX entry, with the TeX in it replaced by letters."""
    fields = dict(re.findall(r"^\s*(\w+)\s*=\s*\{(.*)\},?$", body, re.M))
    for tex, letter in TEX.items():
        fields = {name: text.replace(tex, letter) for name, text in fields.items()}
    return fields


def reference(entry: dict[str, str]) -> str:
    """Return "Authors (year). Title. *Where* volume, pages." for a BibTeX entry."""
    names = [" ".join(reversed(name.split(", "))) for name in entry["author"].split(" and ")]
    authors = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    venue = next((f"*{entry[name]}*" for name in ("journal", "booktitle", "publisher") if name in entry), "")
    parts = [" ".join(filter(None, [venue, entry.get("volume")])), entry.get("pages"), entry.get("note")]
    place = ", ".join(filter(None, parts))
    return f"{authors} ({entry['year']}). {entry['title']}." + (f" {place}." if place else "")


def pages() -> dict[Path, str]:
    """Return {path: text} of the pages as they should be."""
    architecture = DOCS / "architecture.md"
    before, _, after = architecture.read_text().split(MARK)
    return {
        DOCS / "estimators.md": estimators_page(),
        DOCS / "references.md": references_page(),
        architecture: f"{before}{MARK}\n\n{trace()}\n\n{MARK}{after}",
    }


if __name__ == "__main__":
    outdated = {path: text for path, text in pages().items() if not path.exists() or path.read_text() != text}
    if sys.argv[1:] == ["--check"]:
        sys.exit("".join(f"{path.name} is out of date: run python docs/generate.py\n" for path in outdated) or 0)
    for path, text in outdated.items():
        path.write_text(text)
