"""Experiments: the comparisons of five papers on available datasets, with published numbers, and measurements.

A comparison is data: each cell (dataset, method, split, setting) becomes one row of a store. Cells run on any backend
of joblib, rows are written as they finish, and pages are made from the rows alone. Measurements of speed and accuracy
are scripts in `speed` and `accuracy`. Nothing here is installed with tamis: run it from the root of the repository.
"""
