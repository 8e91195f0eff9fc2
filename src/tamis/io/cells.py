"""Cells of text files: what is missing, what is a number."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np

MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "#N/A", "?", "."})
FLAGS = ("true", "false")  # in small letters in every table, however a file writes them
LEADING_ZERO = re.compile(r"[+-]?0\d+")
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")


def number(text: str, comma: bool = False) -> float | None:
    """The number that a text means, or None; `comma` allows a decimal comma."""
    if LEADING_ZERO.fullmatch(text):
        return None  # a code
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return float(text.replace(",", ".")) if comma and DECIMAL_COMMA.fullmatch(text) else None


def level(value: Any) -> str | None:
    """The text of a category: whole numbers without a decimal point, booleans in small letters."""
    if value is None or value != value:
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return flag(str(value))


def flag(text: str) -> str:
    """Text, but "true" and "false" in small letters."""
    return text.lower() if text.lower() in FLAGS else text


def numbers(texts: np.ndarray, comma: bool = False) -> np.ndarray | None:
    """Text cells as floats, NaN for None; or None if some cell is not a number."""
    known: dict[str | None, float] = {None: np.nan}
    for text in set(texts.tolist()) - {None}:
        value = number(text, comma)
        if value is None:
            return None
        known[text] = value
    return np.fromiter((known[text] for text in texts.tolist()), dtype=float, count=len(texts))


def cleaned(texts: list[str | None], marks: Collection[str]) -> np.ndarray:
    """Stripped text, None where a cell is one of the marks of missing values."""
    known: dict[str | None, str | None] = {None: None}
    for text in set(texts) - {None}:
        bare = str(text).strip()
        known[text] = None if bare in marks else flag(bare)
    out = np.empty(len(texts), dtype=object)
    out[:] = [known[text] for text in texts]
    return out
