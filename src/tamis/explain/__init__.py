"""Explanations as data: exact additive parts, importances and measures."""

from tamis.explain import measures
from tamis.explain.explanation import Explanation, part_name
from tamis.explain.importance import Kept, signed_percentages, variation

__all__ = ["Explanation", "Kept", "measures", "part_name", "signed_percentages", "variation"]
