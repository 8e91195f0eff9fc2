"""Errors that callers may want to distinguish (all others are plain ValueErrors), and warnings."""

from __future__ import annotations

import sys
import warnings


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
