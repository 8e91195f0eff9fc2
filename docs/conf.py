"""Settings of the site, which `make docs` builds with warnings as errors and without a network."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]  # the code of this repository, whatever is installed

import tamis  # noqa: E402

project = "tamis"
author = "The tamis developers"
copyright = author
version = release = tamis.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
default_role = "literal"  # `name` in docstrings
toc_object_entries_show_parents = "hide"

# ---------------------------------------------------------------------- text

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"  # made by docutils, drawn by the browser, without a download

# ---------------------------------------------------------------------- reference

autosummary_generate = True
autosummary_ignore_module_all = False  # pages of modules list `__all__`
autosummary_context = {"public": tamis.__all__}  # names of tamis that a module has too are described once
autosummary_filename_map = {"tamis.explain.measures.Stability": "tamis.explain.measures.Stability-class"}
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"  # the docstrings describe the types
numpydoc_show_class_members = False  # the templates list them
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

# ---------------------------------------------------------------------- gallery

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "reading_order.ReadingOrder",
    "backreferences_dir": "api/generated/backreferences",
    "doc_module": ("tamis",),
    "reference_url": {"tamis": None},
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # its page would download a style sheet
}
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")

# ---------------------------------------------------------------------- theme

html_theme = "pydata_sphinx_theme"
html_title = "tamis"
html_static_path = ["_static"]
html_css_files = ["tamis.css"]
html_favicon = "_static/mark.svg"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "tamis", "image_light": "_static/mark.svg", "image_dark": "_static/mark.svg"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {
    "index": [],
    "choosing": [],
    "getting_started": [],
    "references": [],
}

# ---------------------------------------------------------------------- hooks


def _mathml(self: Any, node: nodes.math | nodes.math_block) -> None:
    block = isinstance(node, nodes.math_block)
    drawn = tex2mathml(node.astext(), as_block=block)
    self.body.append(f'<div class="formula">{drawn}</div>' if block else drawn)
    raise nodes.SkipNode


def _link_citations(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Make [Zhang2022] and [Zhang2022, Eq. 3] in docstrings links to the bibliography."""
    lines[:] = [CITED.sub(_link, line) for line in lines]


def _link(found: re.Match) -> str:
    place = re.sub(r"\b(Sect|Eq|Def)\. ", lambda m: FULL[m[1]] + " ", found[2] or "")  # a full stop would end a summary
    return f"[:ref:`{found[1]} <{found[1].lower()}>`{place}]"


def _show_formulas(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Show indented formulas of a docstring as code."""
    out: list[str] = []
    prose = ""  # the last line of text without indentation, if only blank lines follow it
    for line in lines:
        margin = not line.startswith(" ")
        if not margin and prose and not out[-1] and line.startswith("    "):
            out += ["::", ""]
            prose = ""
        out.append(line)
        if line:
            plain = margin and not re.match(r":|\.\.|[-*] |>>>|\d", line) and not line.endswith("::")
            prose = line if plain else ""
    lines[:] = out


def _read_attributes(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Read `name : text` whose next line continues the sentence as a description, not as a type."""
    out: list[str] = []
    for line in lines:
        before = re.fullmatch(r"([\w*][\w, *]*) : (.+)", out[-1]) if out else None
        if before and re.match(r" {4}[a-z(]", line):
            out[-1:] = [before[1], f"    {before[2]}"]
        out.append(line)
    lines[:] = out


def _keep_deviations(app: Sphinx, tree: nodes.document) -> None:
    """Keep a mean and its standard deviation on one line of a cell."""
    for entry in tree.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            if " \u00b1 " in text:
                text.parent.replace(text, nodes.Text(text.replace(" \u00b1 ", "\u00a0\u00b1\u00a0")))


def _skip_inherited(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Skip members that come from scikit-learn, which documents them."""
    inner = inspect.unwrap(getattr(thing, "fget", None) or getattr(thing, "__func__", None) or thing)
    home = getattr(inner, "__module__", None) or ""
    return True if home.split(".")[0] in ("sklearn", "abc", "functools") else None


def _link_included(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace links to files outside this folder by links to the pages that include them."""
    up = "../" * docname.count("/")
    for outside, page in INCLUDED.items():
        source[0] = source[0].replace(f"]({up}../{outside})", f"]({up}{page})")


CITED = re.compile(
    r"\[(" + "|".join(re.findall(r"^@\w+\{(\w+),", (HERE / "references.bib").read_text(), re.M)) + r")(, [^\]]+)?\]"
)
FULL = {"Sect": "Section", "Eq": "Equation", "Def": "Definition"}
INCLUDED = {"experiments/README.md": "benchmarks.md", "CONTRIBUTING.md": "contributing.md"}


def setup(app: Sphinx) -> None:
    """Connect the hooks."""
    app.add_html_math_renderer("mathml", (_mathml, None), (_mathml, None))
    app.connect("autodoc-process-docstring", _read_attributes, priority=100)  # before numpydoc
    app.connect("doctree-read", _keep_deviations)
    app.connect("autodoc-process-docstring", _link_citations, priority=900)  # after numpydoc
    app.connect("autodoc-process-docstring", _show_formulas, priority=950)
    app.connect("autodoc-skip-member", _skip_inherited)
    app.connect("source-read", _link_included)
