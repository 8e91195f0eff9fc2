"""Imports go strictly downward, third parties each have one home, citations exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import tamis

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tamis"
FILES = sorted(SOURCE.rglob("*.py"))
LAYERS = [
    {"__main__"},
    {"cli"},
    {"workflow"},
    {"report", "plots", "io"},
    {"results"},
    {"estimators", "studies"},
    {"shells"},
    {"sums"},
    {"models"},
    {"methods", "sources"},
    {"data", "explain", "expansion"},
    {"kernels", "optim"},
    {"matrices", "prox", "penalties", "losses"},
    {"arrays", "low_rank", "parallel", "codec", "progress", "errors"},
]
ALLOWED = {
    "arrays": {"array_api_compat", "torch"},
    "parallel": {"threadpoolctl"},
    "optim": {"sklearn", "clarabel"},
    "kernels": {"joblib", "triton"},
    "estimators": {"sklearn"},
    "shells": {"sklearn"},
    "studies": {"sklearn"},
    "models": {"sklearn"},
    "data": {"sklearn"},
    "workflow": {"sklearn", "interpret"},
    "io": {"sklearn", "onnx"},
    "sources": {"pyarrow", "dask", "distributed"},
    "cli": {"typer", "rich"},
    "explain": {"pandas", "polars", "shap"},
    "plots": {"matplotlib"},
    "report": {"jinja2", "plotly"},
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
            if node.module == "tamis":  # rooms, and names that are loaded from them
                names |= {tamis._HOME.get(alias.name, f"tamis.{alias.name}") for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_downward(path):
    here = home(path)
    if here == "__init__":
        return
    for name in imported(path):
        assert not name.startswith("."), "relative imports hide the layer"
        if name.startswith("tamis.") and not name.startswith("tamis.__"):
            there = name.split(".")[1]
            assert there == here or depth(there) > depth(here), f"{here} imports {there}"


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


def test_the_drawing_shows_these_layers():
    text = (ROOT / "docs" / "architecture.md").read_text().split("```")[1]
    drawn = [set(line.strip("|").split()) for line in text.splitlines() if line.startswith("|")]
    assert drawn == LAYERS[1:]


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
