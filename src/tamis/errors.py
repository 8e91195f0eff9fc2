"""Errors that someone outside may want to tell apart, all others being plain ValueErrors; and how to warn."""

from __future__ import annotations

import sys
import warnings


class BadOption(ValueError):
    """What was asked for cannot be, whatever the data; on the command line this is bad usage."""


class UnknownColumn(BadOption):
    """A column was asked for that the table does not have."""


class NotATable(TypeError, ValueError):
    """What was given holds other things than cells; scikit-learn asks for a TypeError where it is sparse or nested."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside the package from which it was called."""
    frame, level = sys._getframe(1), 2  # a level of one would be here
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tamis":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
