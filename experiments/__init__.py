"""Experiments: the comparisons of five papers on available datasets, with published numbers, and benchmarks.

A comparison is data: each cell (dataset, method, split, setting) becomes one row of a store. Cells run on any backend
of joblib, rows are written as they finish, and pages are made from the rows alone. Benchmarks of speed and accuracy are
scripts in `speed` and `accuracy`. Nothing here is installed with tamis: run it from the root of the repository.
"""

from experiments.papers import PAPERS
from experiments.runner import Plan, reproduce
from experiments.store import Store

__all__ = ["PAPERS", "Plan", "Store", "reproduce"]
