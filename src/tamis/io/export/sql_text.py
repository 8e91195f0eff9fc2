"""Names, numbers, labels and sums as SQL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

LARGEST = "1.7e308"  # numbers beyond, infinities and NaN count as missing
UNDERFLOW = 700.0  # beyond, exp(-x) is zero: some databases refuse to compute it


def to_name(text: str) -> str:
    """A quoted identifier."""
    if "\0" in text:
        raise ValueError(f"a column or table named {text!r} has no name in SQL: rename it")
    return '"' + text.replace('"', '""') + '"'


def to_number(value: float) -> str:
    """A constant of type double, in brackets if it is negative: two minus signs begin a comment."""
    value = float(value)
    if not math.isfinite(value):
        raise ValueError(f"the model holds the number {value}, which SQL has no constant for")
    text = repr(value) if "e" in repr(value) else f"{value!r}e0"
    return f"({text})" if text.startswith("-") else text


def to_literal(value: Any) -> str:
    """A label: a number, TRUE, FALSE or text."""
    if isinstance(value, bool | np.bool_):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | np.integer):
        return str(value)
    return (
        to_number(float(value)) if isinstance(value, float | np.floating) else "'" + str(value).replace("'", "''") + "'"
    )


def to_level(level: Any) -> str:
    """A level of a category as it is compared: text, or a number for numbers and flags."""
    return to_literal(level) if isinstance(level, str) else to_number(float(level))


def has_text(levels: Sequence[Any], name: str) -> bool:
    """Whether the levels of a column are text; refuse those of both kinds."""
    text = [isinstance(level, str) for level in levels]
    if any(text) and not all(text):
        raise ValueError(f"column {name!r} has text and numbers among its categories, which SQL cannot compare")
    return any(text)


def to_sum(terms: Sequence[str]) -> str:
    """The sum as a balanced tree."""
    if len(terms) <= 2:
        return f"({' + '.join(terms)})" if terms else "0e0"
    half = len(terms) // 2
    return f"({to_sum(terms[:half])} + {to_sum(terms[half:])})"


def bounded_exp(expression: str) -> str:
    """``exp`` of anything, zero or huge where the number itself would not do."""
    low, high = f"{expression} < {to_number(-UNDERFLOW)}", f"{expression} > {to_number(UNDERFLOW)}"
    return f"CASE WHEN {low} THEN 0e0 WHEN {high} THEN 1e304 ELSE exp({expression}) END"


def to_clipped(source: str, low: float, high: float) -> str:
    """The number, clipped to a range; NULL if it is missing."""
    x = f"CAST({source} AS DOUBLE PRECISION)"
    ends = to_number(low), to_number(high)
    clip = f"WHEN {x} < {ends[0]} THEN {ends[0]} WHEN {x} <= {ends[1]} THEN {x} WHEN {x} <= {LARGEST} THEN {ends[1]}"
    return f"CASE WHEN {x} < (-{LARGEST}) THEN NULL {clip} END"


def unused_prefix(names: Sequence[str]) -> str:
    """The beginning of a name that no column has, whatever the case of its letters."""
    prefix = "tamis_"
    while any(name.lower().startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def check_apart(names: Sequence[str], what: str) -> None:
    """Names of columns in SQL do not tell capitals from small letters."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name or list(names).count(name) > 1:
            raise ValueError(f"columns {what} that SQL does not tell apart, {other!r} and {name!r}: rename one")
