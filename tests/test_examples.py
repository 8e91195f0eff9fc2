"""The gallery: every example has what sphinx-gallery wants and needs nothing beyond what its readers have.

The quickest run here; the build of the documentation, which is part of CI, runs all of them.
"""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("plot_*.py"))
ALLOWED = {"numpy", "scipy", "sklearn", "pandas", "matplotlib", "tamis"} | sys.stdlib_module_names
QUICK = {"credit", "deployment", "one_decision", "pairs"}
WHOLE = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"), path.name)


def imported(module):
    """The packages that a script imports, and the names that it takes from them."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module.split(".")[0], alias.name) for alias in node.names)


def test_there_are_at_least_ten_examples_and_a_page_above_them():
    assert len(EXAMPLES) >= 10
    assert (FOLDER / "GALLERY_HEADER.rst").read_text(encoding="utf-8").splitlines()[1].startswith("===")
    order = runpy.run_path(str(FOLDER.parent / "docs" / "reading_order.py"))["ORDER"]
    assert sorted(f"plot_{name}" for name in order) == [path.stem for path in EXAMPLES]
    assert {f"plot_{name}" for name in QUICK} <= {path.stem for path in EXAMPLES}


@WHOLE
def test_an_example_opens_with_a_title_and_its_purpose(path):
    title, line, blank, *words = ast.get_docstring(tree(path)).splitlines()
    assert title and set(line) == {"="} and len(line) == len(title) and not blank
    assert words[0].startswith("This example shows")
    assert path.read_text(encoding="utf-8").count("\n# %%\n# ") >= 2  # prose between the code


@WHOLE
def test_an_example_imports_what_readers_have_and_fetches_nothing(path):
    found = list(imported(tree(path)))
    assert {package for package, _ in found} <= ALLOWED
    assert not [name for _, name in found if name.startswith("fetch_")]
    assert any(package == "tamis" for package, _ in found)


@pytest.mark.parametrize("path", [p for p in EXAMPLES if p.stem[5:] in QUICK], ids=lambda path: path.stem)
def test_an_example_runs_without_a_warning_and_draws(path, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib", reason="the examples draw")
    pytest.importorskip("pandas", reason="the examples hold tables")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    plt.close("all")
    try:
        runpy.run_path(str(path), run_name="__main__")
        assert plt.get_fignums()
        assert not list(tmp_path.iterdir())  # nothing is left behind
    finally:
        plt.close("all")
