"""Explanations as data: exact additive parts, importances and measures."""

from tamis.explain import measures
from tamis.explain.additive_explanation import AdditiveExplanation
from tamis.explain.explanation import SIMILAR, Explanation, Kept, part_name, part_names
from tamis.explain.kernel_explanation import KernelExplanation
from tamis.explain.measures import signed_percentages, variation

__all__ = [
    "SIMILAR",
    "AdditiveExplanation",
    "Explanation",
    "Kept",
    "KernelExplanation",
    "measures",
    "part_name",
    "part_names",
    "signed_percentages",
    "variation",
]
