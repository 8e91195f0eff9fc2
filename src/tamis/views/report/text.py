"""Values as text, and tables of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from tamis.explain.intervals import Interval

MINUS = "\u2212"


@dataclass(frozen=True)
class Table:
    """A table to be read.

    Attributes
    ----------
    caption : what it shows
    head : names of the columns
    rows : cells; the first of each row names the row
    words : columns that hold words rather than numbers, besides the first
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: frozenset[int] = field(default_factory=frozenset)


def number(value: float | None, digits: int = 4) -> str:
    """A number with so many significant digits; digits before the point are never dropped."""
    if value is None or not math.isfinite(value):
        return "unknown"
    size = abs(value)
    if size == 0:
        return "0"
    if not 1e-4 <= size < 1e9:
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(power)}".replace("-", MINUS)
    text = f"{value:.{max(0, digits - 1 - math.floor(math.log10(size)))}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", MINUS)


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign, also where it is positive."""
    text = number(value, digits)
    return f"+{text}" if text[0].isdigit() and text != "0" else text


def percent(value: float) -> str:
    """A percentage with one decimal."""
    if not math.isfinite(value):
        return "unknown"
    text = f"{value:.1f}%"
    return "0.0%" if text == "-0.0%" else text.replace("-", MINUS)


def signed_percent(value: float) -> str:
    """A percentage with one decimal and its sign."""
    text = percent(value)
    return f"+{text}" if value > 0 and text != "0.0%" else text


def interval(values: Interval, form: Any = lambda v: f"{v:.3f}".replace("-", MINUS)) -> tuple[str, str]:
    """An estimate, and its interval in words ("" where there is none)."""
    if not math.isfinite(values.value):
        return "unknown", ""
    if not (math.isfinite(values.low) and math.isfinite(values.high)):
        return form(values.value), ""
    return form(values.value), f"95% interval {form(values.low)} to {form(values.high)}"


def cell(value: Any) -> str:
    """A cell of a data table."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or value != value:
        return "missing"
    return number(value) if isinstance(value, float) else str(value)


def shortened(name: Any, width: int) -> str:
    """A name on one line of at most `width` letters."""
    text = " ".join(str(name).split())
    if len(text) <= width:
        return text
    end = width // 3
    return f"{text[: width - end - 1]}\u2026{text[-end:]}"


def literal(name: Any, width: int = 26) -> str:
    """A name that plotly shows letter by letter: it reads some HTML in all its texts."""
    return escape(shortened(name, width), quote=False).replace("$", "&#36;")  # two of them would ask for mathematics


def per_output(name: str, outputs: Sequence[Any]) -> list[str]:
    """Names of columns that hold one number per output."""
    return [name] if len(outputs) == 1 else [f"{name}: {output}" for output in outputs]
