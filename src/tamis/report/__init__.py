"""Results as one self-contained, interactive page."""

from tamis.report.comparison import render_comparison
from tamis.report.page import render, write

__all__ = ["render", "render_comparison", "write"]
