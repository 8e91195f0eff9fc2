"""What `draw.js` can draw: every chart of a page is checked against it."""

from __future__ import annotations

import math

MARKS = {
    "line": {"x", "y"},
    "dots": {"x", "y"},
    "bars": {"x0", "x1", "y0", "y1"},
    "cells": {"x0", "x1", "y0", "y1", "z"},
    "lines": {"levels"},
}
SCALES = {"linear", "log", "knots"}


def check_figure(figure):
    """Axes have a range, marks have as many places along every side, and numbers are numbers."""
    assert figure["height"] > 0 and figure["panels"]
    assert abs(sum(panel["part"] for panel in figure["panels"]) - 1) < 1e-4
    for entry in figure["legend"]:
        assert entry["look"] in ("line", "fill", "dot", "scale") and isinstance(entry["name"], str)
    for panel in figure["panels"]:
        for axis in (panel["x"], panel["y"]):
            assert axis["low"] < axis["high"] and axis.get("scale", "linear") in SCALES
            assert axis.get("scale") != "log" or axis["low"] > 0
            assert all(isinstance(text, str) for _, text in axis.get("ticks", ()))
        for mark in panel["marks"]:
            check_mark(mark, panel)


def check_mark(mark, panel):
    sides = MARKS[mark["kind"]]
    assert len({len(mark[side]) for side in sides}) == 1, mark["kind"]
    n = len(mark[next(iter(sides))])
    assert all(isinstance(part, str) or part[0] in ("x", "y") for part in mark.get("tip", ()))
    tips = mark.get("tips")
    assert tips is None or (len(tips) == n and all(isinstance(tip, str) for tip in tips))
    for side in sides & {"x", "y", "x0", "x1", "y0", "y1"}:
        for place in mark[side]:
            if isinstance(place, str):
                assert "gutter" in panel["x"] and 0 <= float(place) <= 1
            else:
                assert place is None or math.isfinite(place)


def marks_of(figure, kind=None):
    """All marks of a figure, or those of one kind."""
    return [m for panel in figure["panels"] for m in panel["marks"] if kind is None or m["kind"] == kind]
