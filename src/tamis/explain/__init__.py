"""Explanations as data: exact additive parts, importances and measures."""

from tamis.explain import measures
from tamis.explain.explanation import Explanation, Kept, part_name, part_names
from tamis.explain.measures import signed_percentages, variation
from tamis.kernels.composed import SIMILAR

__all__ = ["SIMILAR", "Explanation", "Kept", "measures", "part_name", "part_names", "signed_percentages", "variation"]
