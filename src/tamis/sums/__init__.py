"""Sums over rows in place of rows: plans, statistics, one pass."""
