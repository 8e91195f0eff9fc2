"""Results as one self-contained interactive HTML page."""

from tamis.report.page import render, write

__all__ = ["render", "write"]
