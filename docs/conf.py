"""The site: `make docs` builds it with warnings as errors, and needs no network."""

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
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]  # the code beside these pages, whatever else is installed

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
html_math_renderer = "mathml"  # by docutils, drawn by the browser: nothing is fetched

# ---------------------------------------------------------------------- reference

autosummary_generate = True
autosummary_ignore_module_all = False  # pages of modules list what `__all__` has
autosummary_context = {"public": tamis.__all__}  # what stands under a second name in a module is described once
autosummary_filename_map = {"tamis.explain.measures.Stability": "tamis.explain.measures.Stability-class"}
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"  # the docstrings say what things are
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
    "write_computation_times": False,  # that page would fetch a style sheet
}
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")

# ---------------------------------------------------------------------- looks

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


def _linked(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Make [Zhang2022] and [Zhang2022, Eq. 3] in docstrings links to the bibliography."""
    lines[:] = [CITED.sub(_link, line) for line in lines]


def _link(found: re.Match) -> str:
    place = re.sub(r"\b(Sect|Eq|Def)\. ", lambda m: FULL[m[1]] + " ", found[2] or "")  # a full stop would end a summary
    return f"[:ref:`{found[1]} <{found[1].lower()}>`{place}]"


def _formulas(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Show indented formulas of a description as they were typed."""
    out: list[str] = []
    said = ""  # the last line at the margin, if nothing stands between
    for line in lines:
        margin = not line.startswith(" ")
        if not margin and said and not out[-1] and line.startswith("    "):
            out += ["::", ""]
            said = ""
        out.append(line)
        if line:
            plain = margin and not re.match(r":|\.\.|[-*] |>>>|\d", line) and not line.endswith("::")
            said = line if plain else ""
    lines[:] = out


def _whole(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Take `name : words` that go on, in lower case, in the next line for a description, where a type is expected."""
    out: list[str] = []
    for line in lines:
        before = re.fullmatch(r"([\w*][\w, *]*) : (.+)", out[-1]) if out else None
        if before and re.match(r" {4}[a-z(]", line):
            out[-1:] = [before[1], f"    {before[2]}"]
        out.append(line)
    lines[:] = out


def _unbroken(app: Sphinx, tree: nodes.document) -> None:
    """Keep a mean and its deviation on one line of a cell."""
    for entry in tree.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            if " \u00b1 " in text:
                text.parent.replace(text, nodes.Text(text.replace(" \u00b1 ", "\u00a0\u00b1\u00a0")))


def _foreign(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn's bases bring along: its pages describe it."""
    inner = inspect.unwrap(getattr(thing, "fget", None) or getattr(thing, "__func__", None) or thing)
    home = getattr(inner, "__module__", None) or ""
    return True if home.split(".")[0] in ("sklearn", "abc", "functools") else None


def _homed(app: Sphinx, docname: str, source: list[str]) -> None:
    """Point links to pages outside this folder at the pages that include them."""
    up = "../" * docname.count("/")
    for outside, page in INCLUDED.items():
        source[0] = source[0].replace(f"]({up}../{outside})", f"]({up}{page})")


CITED = re.compile(
    r"\[(" + "|".join(re.findall(r"^@\w+\{(\w+),", (HERE / "references.bib").read_text(), re.M)) + r")(, [^\]]+)?\]"
)
FULL = {"Sect": "Section", "Eq": "Equation", "Def": "Definition"}
INCLUDED = {"experiments/README.md": "benchmarks.md", "CONTRIBUTING.md": "contributing.md"}


def setup(app: Sphinx) -> None:
    """Hook things up."""
    app.add_html_math_renderer("mathml", (_mathml, None), (_mathml, None))
    app.connect("autodoc-process-docstring", _whole, priority=100)  # before numpydoc
    app.connect("doctree-read", _unbroken)
    app.connect("autodoc-process-docstring", _linked, priority=900)  # after numpydoc
    app.connect("autodoc-process-docstring", _formulas, priority=950)
    app.connect("autodoc-skip-member", _foreign)
    app.connect("source-read", _homed)
