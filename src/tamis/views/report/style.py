"""Colours, patterns, axes and marks that all charts share; `draw.js` draws them.

Colours are those of Okabe and Ito, which the colour-blind can distinguish; what a colour shows is also shown by a
dash, a pattern, a symbol or a sign. Charts are made for a light page; `DARK` has the colours of a dark one. Names in
charts are plain text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.results.tables import Table

INK, MUTED, GRID, PAPER = "#1d2129", "#5a606b", "#e2dfd8", "#fffefb"
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
DARK = {INK: "#ece9e2", MUTED: "#aab0ba", GRID: "#363b44", PAPER: "#16191e"}
DARK |= {BLUE: "#56B4E9", VERMILLION: "#E69F00", GREEN: "#2FC49B"}
NAMED = {"ink": INK, "muted": MUTED, "grid": GRID, "ground": PAPER}
PLUS, MINUS = BLUE, VERMILLION
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, INK)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", "/", ".", "x", "-", "|", "+")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "cross")
PALE = ((0.0, "#fbf7ea"), (0.5, "#a9d3ee"), (1.0, "#3f9bd1"))  # of maps with numbers in their cells
DEEP = ((0.0, "#fbf7ea"), (0.5, "#6db3dd"), (1.0, "#00446e"))  # of maps without
DIVERGING = ((0.0, MINUS), (0.5, PAPER), (1.0, PLUS))
ROOM = 0.05  # beyond the ends of numbers along an axis, as a share of their range
FRAME = 40  # of the height of a chart, taken by an axis without a turned text

Figure = dict[str, Any]
Axis = dict[str, Any]
Mark = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """A drawing with its alternatives."""

    id: str  # of its element
    figure: Figure  # what `draw.js` draws
    words: str  # what it shows, for who does not see it
    table: Table  # the same in numbers
    width: int = 0  # least width on a screen, in pixels; on a narrower one the chart scrolls in its box


def place(k: int, n_classes: int) -> int:
    """The place of a class in the lists of colours; of two classes the second is that of positive scores."""
    return 1 - k if n_classes == 2 else k


def line(k: int, n_classes: int) -> dict[str, Any]:
    """Colour and dashes of a class; no two of the first thirty are equal."""
    p = place(k, n_classes)
    return {"colour": COLOURS[p % len(COLOURS)], "dash": DASHES[p % len(DASHES)]}


def fill(k: int, n_classes: int) -> dict[str, Any]:
    """Colour and pattern of the bars of a class."""
    p = place(k, n_classes)
    return {"colour": COLOURS[p % len(COLOURS)], "pattern": PATTERNS[p % len(PATTERNS)]}


def sign_fill(values: Sequence[float]) -> dict[str, Any]:
    """Colours and patterns of bars by their sign."""
    return {"colour": [MINUS if v < 0 else PLUS for v in values], "pattern": ["/" if v < 0 else "" for v in values]}


def axis(title: str = "", low: float = 0.0, high: float = 1.0, **more: Any) -> Axis:
    """An axis with its range, which is never empty."""
    if not low < high:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    return {"title": title, "low": float(low), "high": float(high), **more}


def names_axis(names: Sequence[str], *, downward: bool = False, title: str = "", wrap: bool = False) -> Axis:
    """An axis of names side by side at 0, 1, ...; or the first at the top, where places are negative.

    With `wrap` long names may take two lines.
    """
    n = max(1, len(names))
    if downward:
        return axis(title, 0.5 - n, 0.5, ticks=[[-k, name] for k, name in enumerate(names)], grid=False, wrap=wrap)
    return axis(title, -0.5, n - 0.5, ticks=[[k, name] for k, name in enumerate(names)])


def span(values: Iterable[Any], zero: bool = True) -> tuple[float, float]:
    """Low and high end of an axis for some numbers, with room beyond them, and with zero among them."""
    known = [float(v) for v in np.ravel(np.asarray(list(values), dtype=float)) if np.isfinite(v)]
    known += [0.0] if zero or not known else []
    low, high = min(known), max(known)
    more = ROOM * ((high - low) or 1.0)
    return low - (more if low < 0 or not zero else 0.0), high + (more if high > 0 or not zero else 0.0)


def figure(height: int, panels: Sequence[dict[str, Any]], legend: Sequence[dict[str, Any]] = ()) -> Figure:
    """A chart of panels above each other, of a height in pixels without its legend."""
    return {"height": int(height), "legend": list(legend), "panels": list(panels)}


def panel(x: Axis, y: Axis, marks: Sequence[Mark], part: float = 1.0, title: str = "") -> dict[str, Any]:
    """A panel that takes a part of the height, below its title if it has one."""
    return {"x": x, "y": y, "marks": list(marks), "part": part, "title": title}


def bars(x0: Any, x1: Any, y0: Any, y1: Any, tips: Sequence[str] | None = None, **look: Any) -> Mark:
    """Boxes between places along both axes."""
    return {"kind": "bars", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "tips": tips, **look}


def stroke(x: Any, y: Any, tips: Any = None, **look: Any) -> Mark:
    """A line through points; None breaks it."""
    return {"kind": "line", "x": x, "y": y, "tips": tips, **look}


def dots(x: Any, y: Any, tips: Any = None, **look: Any) -> Mark:
    """Symbols at points."""
    return {"kind": "dots", "x": x, "y": y, "tips": tips, **look}


def cells(x: np.ndarray, y: np.ndarray, z: np.ndarray, tips: Sequence[str], **look: Any) -> Mark:
    """Coloured cells z (rows, columns) between edges x (columns + 1,) and y (rows + 1,)."""
    rows, columns = z.shape
    i, j = (index.ravel() for index in np.indices((rows, columns)))
    ends = {"x0": x[j], "x1": x[j + 1], "y0": y[i], "y1": y[i + 1]}
    values = [float(v) if np.isfinite(v) else None for v in z.ravel()]
    return {"kind": "cells", **ends, "z": values, "tips": tips, **look}
