"""Errors that callers may want to distinguish (all others are plain ValueErrors), warnings, and checks of parameters.

A check raises a ValueError that names the parameter, the value and the fix.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np


class BadOption(ValueError):
    """Raised for options that no data could satisfy; at the command line this is bad usage."""


class UnknownColumn(BadOption):
    """Raised for a column that the table does not have."""


class NotATable(TypeError, ValueError):
    """Raised for sparse or nested input, for which scikit-learn requires a TypeError."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the line outside the package that called it."""
    frame, level = sys._getframe(1), 2  # a level of one would be here
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tamis":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def check_length(name: str, values: Any, n: int) -> None:
    """Refuse what does not have one entry per row; None is fine."""
    if values is not None and len(values) != n:
        raise ValueError(f"{name} has length {len(values)}, expected {n}: one label per row")


def check_choice(name: str, value: Any, choices: tuple) -> None:
    """Refuse a value that is not one of the choices."""
    if not any(value is c or (isinstance(value, str) and value == c) for c in choices):
        raise ValueError(f"{name}={value!r} is unknown: use one of {', '.join(map(repr, choices))}")


def check_integer(name: str, value: Any, least: int) -> None:
    """Refuse what is not an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name}={value!r} must be an integer of at least {least}")


def check_jobs(n_jobs: Any) -> None:
    """Refuse what is no number of processes."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise ValueError(f"n_jobs={n_jobs!r} must be a number of processes, -1 for all cores, or None for one")


def check_seed(random_state: Any) -> None:
    """Refuse what is no seed."""
    number = isinstance(random_state, int | np.integer)
    if number and not 0 <= random_state < 2**32:
        raise ValueError(f"random_state={random_state!r} must be between 0 and 2**32 - 1")
    if not number and random_state is not None and not hasattr(random_state, "randint"):
        raise ValueError(f"random_state={random_state!r} must be an integer, a numpy RandomState or None")


def check_number(name: str, value: Any, least: float, most: float = np.inf, *, strict: bool = False) -> None:
    """Refuse what is not a finite number of at least (or above) `least` and of at most `most`."""
    good = isinstance(value, int | float | np.number) and not isinstance(value, bool) and np.isfinite(value)
    if not good or not least <= value <= most or (strict and value == least):
        end = f" and at most {most:g}" if most < np.inf else ""
        raise ValueError(
            f"{name}={value!r} must be a finite number {'above' if strict else 'of at least'} {least}{end}"
        )


def check_values(name: str, values: Any) -> None:
    """Refuse what is not a sequence of values to choose among."""
    if isinstance(values, str) or not hasattr(values, "__len__") or not len(values):
        raise ValueError(f"{name}={values!r} must be a non-empty sequence of values to choose among")
