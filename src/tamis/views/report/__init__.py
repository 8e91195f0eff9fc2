"""Results as one self-contained, interactive page."""

from tamis.views.report.comparison import render_comparison
from tamis.views.report.page import render, write

__all__ = ["render", "render_comparison", "write"]
