"""The baselines of the five methods."""
