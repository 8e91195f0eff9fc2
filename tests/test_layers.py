"""Imports go strictly downward, third parties each have one home, citations exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tamis"
FILES = sorted(SOURCE.rglob("*.py"))
LAYERS = [  # a package imports only what stands above it
    {"__init__"},
    {"arrays", "parallel", "progress", "errors", "codec"},
    {"optim"},
    {"kernels"},
    {"table"},
    {"explain"},
    {"base"},
    {"statistics"},
    {"flagship", "methods"},
    {"registry"},
    {"results"},
    {"io"},
    {"views"},
    {"workflow"},
    {"cli"},
    {"__main__"},
]
ALLOWED = {
    "__init__": {"lazy_loader"},
    "arrays": {"array_api_compat", "torch"},
    "parallel": {"threadpoolctl"},
    "optim": {"sklearn", "clarabel"},
    "kernels": {"joblib"},
    "table": {"sklearn", "pyarrow", "dask", "distributed"},
    "base": {"sklearn"},
    "flagship": {"sklearn", "pandas", "polars", "openpyxl"},
    "methods": {"sklearn"},
    "registry": {"sklearn"},
    "workflow": {"sklearn", "interpret"},
    "io": {"sklearn", "onnx"},
    "cli": {"typer", "rich"},
    "explain": {"pandas", "polars", "shap"},
    "views": {"sklearn", "matplotlib", "jinja2"},
}
EVERYWHERE = {"numpy", "scipy"}


def depth(name: str) -> int:
    return next(k for k, layer in enumerate(LAYERS) if name in layer)


def home(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module if node.level == 0 else "." * node.level)
            if node.module == "tamis":
                names |= {f"tamis.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_package_imports_only_what_stands_above_it(path):
    here, names = home(path), {layer for layers in LAYERS for layer in layers}
    if here == "registry":  # it looks every name up, when it is called
        return
    for name in imported(path):
        assert not name.startswith("."), "relative imports hide the layer"
        there = name.split(".")[1] if name.startswith("tamis.") else ""
        if there in names and not (there == "registry" and "TYPE_CHECKING" in path.read_text()):
            assert there == here or depth(there) < depth(here), f"{here} imports {there}"


def test_methods_do_not_know_each_other():
    for path in FILES:
        parts = path.relative_to(SOURCE).parts
        if parts[0] == "methods" and len(parts) > 2:
            others = {name.split(".")[2] for name in imported(path) if name.startswith("tamis.methods.")}
            assert others <= {parts[1]} or others == {"zero_one", "baselines"}, path  # its hard margin is a SimpleMKL


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_third_parties_stay_at_home(path):
    import sys

    for name in imported(path):
        top = name.split(".")[0]
        if top == "tamis" or top in sys.stdlib_module_names or top in EVERYWHERE:
            continue
        assert top in ALLOWED.get(home(path), set()), f"{home(path)} imports {top}"


def test_optim_does_not_know_kernels():
    for path in FILES:
        if home(path) == "optim":
            assert not any(name.startswith("tamis.kernels") for name in imported(path)), path


def test_every_citation_is_in_the_bibliography():
    keys = set(re.findall(r"@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text()))
    cited = {key for path in FILES for key in re.findall(r"\[([A-Z][a-z]+\d{4})[,\]]", path.read_text())}
    assert cited and cited <= keys, cited - keys


def test_no_prints_and_no_unfinished_work():
    for path in FILES:
        text = path.read_text()
        assert not re.search(r"\bTODO\b|\bFIXME\b", text), path
        calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
        assert not any(getattr(call.func, "id", "") == "print" for call in calls), path
