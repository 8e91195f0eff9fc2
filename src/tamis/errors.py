"""Errors that someone outside may want to tell apart; all others are plain ValueErrors."""

from __future__ import annotations


class BadOption(ValueError):
    """What was asked for cannot be, whatever the data; on the command line this is bad usage."""


class UnknownColumn(BadOption):
    """A column was asked for that the table does not have."""
