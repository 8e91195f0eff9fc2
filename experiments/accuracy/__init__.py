"""Accuracy: one script for each table of experiments/README.md, run as `python -m experiments.accuracy.NAME`."""
