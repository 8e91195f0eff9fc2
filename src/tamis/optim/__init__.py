"""Optimisation tools; nothing here knows what a kernel is."""
