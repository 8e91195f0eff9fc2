"""Results as one self-contained, interactive page."""

from tamis.views.report.page import render, render_comparison, write

__all__ = ["render", "render_comparison", "write"]
