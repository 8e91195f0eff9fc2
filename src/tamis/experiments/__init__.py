"""Experiments: the comparisons of five papers, run again on the datasets at hand, with the papers' numbers beside.

An experiment is data: cells of dataset x method x split x setting, each of which becomes one row of a store. Cells run
on any backend of joblib, rows are written as they finish, and pages are made from the rows alone.
"""

from tamis.experiments.papers import PAPERS
from tamis.experiments.runner import Plan, reproduce
from tamis.experiments.store import Store

__all__ = ["PAPERS", "Plan", "Store", "reproduce"]
