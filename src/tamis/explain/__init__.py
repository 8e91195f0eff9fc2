"""Explanations as data: exact additive parts and importances."""

from tamis.explain.explanation import Explanation
from tamis.explain.importance import signed_percentages, variation

__all__ = ["Explanation", "signed_percentages", "variation"]
