"""Colours, patterns and the layout that all charts share.

Colours are those of Okabe and Ito, which the colour-blind can distinguish; what a colour shows is also shown by a
dash, a pattern, a symbol or a sign. Charts are made for a light page; `DARK` has the colours of a dark one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

from tamis.results.tables import Table

INK, MUTED, GRID, PAPER = "#1d2129", "#5a606b", "#e2dfd8", "#fffefb"
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
DARK = {INK: "#ece9e2", MUTED: "#aab0ba", GRID: "#363b44", PAPER: "#16191e", BLUE: "#56B4E9", VERMILLION: "#E69F00"}
PLUS, MINUS = BLUE, VERMILLION
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, INK)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", "/", ".", "x", "-", "|", "+")
HATCH = {"fillmode": "replace", "fgcolor": PAPER, "size": 6, "solidity": 0.3}
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross")
NONE = "rgba(0,0,0,0)"
BLACK = "#000000"  # on a map, whose cells are the same on any page
PALE = ((0.0, "#fbf7ea"), (0.5, "#a9d3ee"), (1.0, "#3f9bd1"))  # of maps with numbers in their cells
DEEP = ((0.0, "#fbf7ea"), (0.5, "#6db3dd"), (1.0, "#00446e"))  # of maps without
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

Figure = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """A drawing with its alternatives.

    Attributes
    ----------
    id : of its element
    figure : {"data": traces, "layout": layout} as plotly has them
    words : what it shows, for who does not see it
    table : the same in numbers
    width : least width on a screen, in pixels; on a narrower one the chart scrolls in its box
    """

    id: str
    figure: Figure
    words: str
    table: Table
    width: int = 0


def place(k: int, n_classes: int) -> int:
    """The place of a class in the lists of colours; of two classes the second is that of positive scores."""
    return 1 - k if n_classes == 2 else k


def line(k: int, n_classes: int) -> dict[str, Any]:
    """Colour and dashes of a class; no two of the first thirty are equal."""
    p = place(k, n_classes)
    return {"color": COLOURS[p % len(COLOURS)], "dash": DASHES[p % len(DASHES)], "width": 2.4}


def fill(k: int, n_classes: int) -> dict[str, Any]:
    """Colour and pattern of the bars of a class."""
    p = place(k, n_classes)
    colour = COLOURS[p % len(COLOURS)]
    pattern = {"shape": PATTERNS[p % len(PATTERNS)], "bgcolor": colour, **HATCH}
    return {"color": colour, "pattern": pattern, "line": {"width": 0}}


def sign_fill(values: list[float]) -> dict[str, Any]:
    """Colour and pattern of bars by their sign."""
    colours = [MINUS if v < 0 else PLUS for v in values]
    pattern = {"shape": ["/" if v < 0 else "" for v in values], "bgcolor": colours, **HATCH}
    return {"color": colours, "pattern": pattern, "line": {"color": colours, "width": 1}}


def axis(title: str = "", **more: Any) -> dict[str, Any]:
    """An axis; `title` is text of ours or has gone through `literal`."""
    own = {"title": {"text": title, "standoff": 8}, "automargin": True, "fixedrange": True, "gridcolor": GRID}
    return {**own, "zerolinecolor": MUTED, "zerolinewidth": 1, "linecolor": GRID, "tickcolor": GRID, **more}


def layout(height: int, legend: Sequence[str] = (), room: int = 290, **more: Any) -> dict[str, Any]:
    """What the charts share.

    Parameters
    ----------
    legend : texts of the legend above the chart, which make it taller
    room : width of the legend on a phone, in pixels
    """
    rows = _rows(legend, room)
    own: dict[str, Any] = {
        "height": height + 21 * rows,
        "margin": {"l": 8, "r": 12, "t": 12 + 21 * rows, "b": 8},
        "font": {"family": FONT, "size": 12, "color": INK},
        "paper_bgcolor": NONE,
        "plot_bgcolor": NONE,
        "dragmode": False,
        "hovermode": "closest",
        "showlegend": bool(rows),
        "legend": {"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top", "bgcolor": NONE},
        "hoverlabel": {"bgcolor": PAPER, "bordercolor": MUTED, "font": {"color": INK}},
    }
    return {**own, **more}


def _rows(legend: Sequence[str], room: int) -> int:
    """Lines of a legend, whose entries stand in columns as wide as the longest."""
    if not legend:
        return 0
    width = 48 + 7 * max(len(unescape(text)) for text in legend)
    return -(-len(legend) // max(1, room // width))
