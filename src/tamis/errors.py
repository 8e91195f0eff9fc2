"""Errors that someone outside may want to tell apart; all others are plain ValueErrors."""

from __future__ import annotations


class UnknownColumn(ValueError):
    """A column was asked for that the table does not have."""
