"""Explanations as data: exact additive parts and importances."""

from tamis.explain.explanation import Explanation
from tamis.explain.importance import Kept, signed_percentages, variation

__all__ = ["Explanation", "Kept", "signed_percentages", "variation"]
