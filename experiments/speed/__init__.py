"""Time and memory: one script for each table of experiments/README.md, run as `python -m experiments.speed.NAME`."""
