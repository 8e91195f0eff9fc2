"""Values as text: the only place where numbers, intervals and names become words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.explain.intervals import Interval

MINUS = "\u2212"


SCORES = {
    "accuracy": "accuracy on held-out rows",
    "roc_auc": "area under the ROC curve on held-out rows",
    "log_loss": "log-loss on held-out rows (lower is better)",
    "squared_error": "squared error on held-out rows (lower is better)",
    "objective": "objective on training rows (lower is better)",
}
LOWER_IS_BETTER = ("log_loss", "squared_error", "objective")
LOG_ODDS = "log-odds"  # what a score is called where it is one


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


def points(value: float, decimals: int = 2) -> str:
    """A log-odds or a loss: its sign and a few decimals, so that numbers below each other can be compared."""
    text = f"{value:+.{decimals}f}"
    return text.replace("-", MINUS) if float(text) else text[1:]


def effect(value: float, score: str) -> str:
    """What is added to a score; where the score is a log-odds, the factor of the odds too."""
    if score != LOG_ODDS:
        return signed(value)
    return f"{points(value)} (odds \u00d7 {odds_factor(value)})"


def odds_factor(value: float) -> str:
    """By what odds are multiplied when a value is added to a log-odds: two digits, near 1 three."""
    factor = math.exp(min(value, 700.0))
    if not 0.1 <= factor < 10.0:
        return number(float(f"{factor:.2g}"), 2)
    return f"{factor:.{1 if factor >= 1.095 else 2}f}"


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
    """An estimate, and the ends of its interval ("" where there is none, or where it is a point)."""
    if not math.isfinite(values.value):
        return "unknown", ""
    if not (math.isfinite(values.low) and math.isfinite(values.high)) or values.low == values.high:
        return form(values.value), ""
    return form(values.value), f"{form(values.low)} to {form(values.high)}"


def share(values: Interval) -> tuple[str, str]:
    """`interval` of a share in [0, 1], in per cent."""
    return interval(values, lambda v: percent(100 * v))


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


def per_output(name: str, outputs: Sequence[Any]) -> list[str]:
    """Names of columns that hold one number per output."""
    return [name] if len(outputs) == 1 else [f"{name}: {output}" for output in outputs]


def count(n: int, name: str) -> str:
    """A number of things, such as "1 case" or "3 cases"."""
    return f"{n} {name}{'' if n == 1 else 's'}"


def listed(names: Sequence[Any], most: int = 3) -> str:
    """Names joined as in a sentence, at most a few."""
    names = [str(name) for name in names]
    if len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"
