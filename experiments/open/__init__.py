"""The open benchmark: the flagship and its peers on many tables that no method was tuned on."""

from experiments.open.comparison import comparison

__all__ = ["comparison"]
