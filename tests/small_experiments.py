"""Small problems, methods and rows for the tests of experiments."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import numpy as np

from experiments.cells import Cell, Row
from experiments.method import Method
from experiments.papers import PAPERS
from experiments.peers import majority
from experiments.problem import Problem
from experiments.runner import Plan

CELL = Cell("l01-svm", "honest", "quick", "quadrants", 0, "", "SVC")
SMALL = Plan(("l01-svm",), only=("quadrants", "SVC", "majority", "mean kernel"))


def row(cell=CELL, accuracy=90.0, **kw):
    return Row(cell, {"accuracy": accuracy, "seconds": 0.5}, **kw)


def rows(values, protocol="honest", paper="l01-svm", dataset="sonar"):
    cell = Cell(paper, protocol, "quick", dataset, 0, "", "")
    return [
        Row(replace(cell, method=m, split=s), {"accuracy": v})
        for m, found in values.items()
        for s, v in enumerate(found)
    ]


def raises(problem, quick):
    raise RuntimeError("no luck")


def dies(problem, quick):
    os._exit(3)


def slow(problem, quick):
    time.sleep(0.4)
    return majority(problem, quick)


def with_methods(monkeypatch, **methods):
    """Replace the methods of l01-svm, on the generated dataset."""
    own = {name.replace("_", " "): Method(run) for name, run in methods.items()}
    paper = replace(PAPERS["l01-svm"], methods=own, datasets={"quadrants": ""}, figure_data=None)
    monkeypatch.setitem(PAPERS, "l01-svm", paper)
    return paper


def planted(n=60, missing=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
    if missing:
        X[rng.random(X.shape) < 0.3] = np.nan
    return Problem(X, y, 40, np.zeros(3, dtype=bool), None, 3, 0)


def wait_for(condition, seconds=90.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
