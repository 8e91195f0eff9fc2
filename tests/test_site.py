"""The README and the pages of the site: links lead somewhere, code runs, numbers are those of the results.

`make docs` builds the site with warnings as errors; these tests take seconds and need no Sphinx.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest

import tamis
from tamis import all_estimators

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = {"gallery/index"}  # by the build
MODULES = (
    "explain",
    "explain.measures",
    "io",
    "results",
    "views.plots",
    "views.report",
    "views.studies",
    "workflow",
)
README = (ROOT / "README.md").read_text()


def pages():
    """Return {name: text} of all pages that are written by hand or by docs/generate.py."""
    skipped = ("_build", "_templates", "gallery", "generated")
    found = [path for kind in ("md", "rst") for path in sorted(DOCS.rglob(f"*.{kind}"))]
    found = [path for path in found if not set(path.relative_to(DOCS).parts) & set(skipped)]
    return {path.relative_to(DOCS).with_suffix("").as_posix(): path.read_text() for path in found}


PAGES = pages()
RUN = ["README", *(name for name, text in PAGES.items() if "```pycon\n" in text)]


def resolved(page, target):
    """Return the path that a page names."""
    return (DOCS / page).parent.joinpath(target).resolve()


def in_toctrees(page):
    """Yield the pages that the toctrees of a page name."""
    body = PAGES[page]
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", body, re.S) + re.findall(
        r"\.\. toctree::\n((?:[ ]{3}.*\n|\n)+)", body
    )
    for line in "\n".join(blocks).splitlines():
        entry = line.strip()
        if entry and not entry.startswith(":"):
            yield re.sub(r"^.*<(.*)>$", r"\1", entry)


def test_toctrees_name_pages_that_exist():
    for page in PAGES:
        for entry in in_toctrees(page):
            place = resolved(page, entry)
            assert entry in MADE or any(place.with_name(place.name + end).exists() for end in (".md", ".rst")), entry


def test_every_page_is_in_a_toctree():
    named = {resolved(page, entry) for page in PAGES for entry in in_toctrees(page)}
    assert {page for page in PAGES if DOCS.joinpath(page).resolve() not in named} == {"index"}


@pytest.mark.parametrize("page", [*PAGES, "../README", "../CONTRIBUTING", "../CHANGELOG", "../SECURITY"])
def test_links_lead_somewhere(page):
    text = PAGES.get(page) or DOCS.joinpath(f"{page}.md").read_text()
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        place = resolved(page, path)
        assert place.exists(), target
        if anchor and place.name == "references.md":
            assert f"({anchor})=" in place.read_text(), target


def test_included_parts_exist():
    for page, text in PAGES.items():
        for body in re.findall(r"```\{(?:include|literalinclude|raw)\}(.*?)```", text, re.S):
            body = body.removeprefix(" html")
            named = re.match(r"\s*:file: (\S+)", body) or re.match(r"\s*(\S+)", body)
            source = resolved(page, named[1]).read_text()
            for mark in re.findall(r':(?:start-after|end-before|start-at|end-at): "?(.*?)"?$', body, re.M):
                assert mark.replace("\\n", "\n") in source, (page, mark)
            for name in re.findall(r":pyobject: (\w+)", body):
                assert name in {getattr(node, "name", None) for node in ast.parse(source).body}, (page, name)


def test_every_public_name_is_in_the_reference():
    listed = re.findall(r"^   (\w+)$", PAGES["api/index"], re.M)
    modules = {name for name in tamis.__all__ if inspect.ismodule(getattr(tamis, name))}
    assert sorted(set(listed) - {"modules"}) == sorted(set(tamis.__all__) - modules)
    assert len(listed) == len(set(listed)), "a name is listed twice"


def test_every_public_module_is_in_the_reference():
    assert sorted(re.findall(r"^   tamis\.([\w.]+)$", PAGES["api/modules"], re.M)) == sorted(MODULES)
    spelled = [path for path in (ROOT / "src" / "tamis").rglob("__init__.py") if "__all__ =" in path.read_text()]
    named = {".".join(path.parent.relative_to(ROOT / "src" / "tamis").parts) for path in spelled} - {""}
    assert named <= set(MODULES)
    for module in MODULES:
        assert importlib.import_module(f"tamis.{module}").__doc__
    template = (DOCS / "_templates" / "autosummary" / "module.rst").read_text()
    settings = (DOCS / "conf.py").read_text()
    assert "in members" in template and "autosummary_ignore_module_all = False" in settings, "pages list __all__"


@pytest.mark.parametrize("page", RUN)
def test_code_on_pages_runs(page, tmp_path, monkeypatch):
    if page == "guide/gpu":
        pytest.importorskip("torch", reason="the page is about tensors")
    monkeypatch.chdir(tmp_path)
    scope: dict = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(verbose=False)
    text = README if page == "README" else PAGES[page]
    for kind, block in re.findall(r"```(python|pycon)\n(.*?)```", text, re.S):
        if kind == "python":
            exec(compile(block, page, "exec"), scope)
            continue
        test = doctest.DocTestParser().get_doctest(block, scope, page, page, 0)
        output: list[str] = []
        runner.run(test, out=output.append, clear_globs=False)
        scope.update(test.globs)
        assert not runner.summarize(verbose=False).failed, "".join(output)


def test_pages_of_the_guide_and_of_papers_have_code_that_runs():
    guide = {name for name in PAGES if name.startswith("guide/")} - {"guide/index"}
    assert guide <= set(RUN) and len(guide) == 8
    assert {f"methods/{name}" for name in ("em2nolc", "l0_mkl", "l01_svm", "imkpl", "absent_mkl")} <= set(RUN)


def test_readme_is_short():
    assert len(README.encode()) < 6000


def test_no_page_includes_parts_of_the_readme():
    for page, text in PAGES.items():
        assert not re.search(r"\{(?:literal)?include\} (?:\.\./)+README", text), page


def test_accuracies_in_the_readme_are_those_of_the_results():
    page = (DOCS / "results" / "open.md").read_text().partition("## Differences")[0]
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    head, found = lines[0], {line[0]: line for line in lines[2:]}
    names = {"boosting (scikit-learn)": "boosting", "random forest": "forest", "decision tree of depth 4": "tree"}
    columns = [head.index(name) for name in ("Accuracy, %", "Log-loss", "Features", "CPU s, fit")]
    table = README.partition("## Accuracy")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 6
    for label, *shown in rows:
        budget = re.fullmatch(r"`TamisClassifier\(max_features=(\d+)\)`", label)
        method = f"tamis@{budget[1]}" if budget else names[label]
        assert shown == [found[method][column] for column in columns], label
    ebm = re.search(r"differences to an EBM on (\d+) tables: ([+-][\d.]+) points and ([+-][\d.]+) of log-loss", README)
    differences = (DOCS / "results" / "open.md").read_text().partition("### tamis@20 minus others")[2]
    against = next(line for line in differences.splitlines() if line.startswith("| EBM |")).strip("| ").split(" | ")
    assert (ebm[1], ebm[2], ebm[3]) == (against[1], against[2].split()[0], against[3].split()[0])


def test_every_paper_has_a_page_with_all_parts():
    from experiments.papers import PAPERS

    for paper in PAPERS:
        text = PAGES["methods/" + paper.replace("-", "_")]
        heads = re.findall(r"^## (.*)$", text, re.M)
        assert heads == [
            "The problem",
            "The algorithm",
            "Departures from the paper",
            "Reproduction",
            "How to use it",
            "What always holds",
        ]
        assert f"../results/{paper}.md" in text


def test_chart_is_up_to_date_and_names_estimators():
    chart = runpy.run_path(str(DOCS / "figures" / "chart.py"))
    assert chart["drawn"]() == chart["TARGET"].read_text(), "python docs/figures/chart.py"
    named = {name for turn in (*chart["TURNS"], chart["ELSE"]) for name in turn.estimators}
    assert named <= set(all_estimators()) and len(named) == 10


def test_picture_of_the_idea_adds_up():
    text = (DOCS / "_static" / "idea.svg").read_text()
    found = re.findall(r'id="idea-(\S+?)"[^>]*>([+\u2212][\d.]+)<', text)
    number = {key: float(value.replace("\u2212", "-")) for key, value in found}
    parts = [value for key, value in number.items() if key.startswith("part")]
    assert len(parts) >= 6 and len(number) == len(parts) + 2
    rounding = 0.005
    assert abs(number["base"] + sum(parts) - number["score"]) <= rounding * (len(parts) + 2)


def test_nothing_is_fetched_from_a_network():
    for path in [DOCS / "conf.py", *(DOCS / "_static").iterdir()]:
        text = path.read_text().replace("http://www.w3.org/", "")
        assert not re.search(r"https?:|@import|url\((?!#)", text), path.name
    assert "intersphinx" not in (DOCS / "conf.py").read_text()


def test_citation_and_changelog_have_the_version():
    assert f"version: {tamis.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## {re.escape(tamis.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)
