"""The comparisons of the papers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from experiments import datasets
from experiments.cells import MEASURES, Cell
from experiments.papers import PAPERS, absent_mkl, em2nolc
from experiments.peers import svc
from experiments.problem import Problem

from small_experiments import planted


def test_the_paper_draws_as_many_of_both_classes_with_repetitions():
    data = replace(datasets.load("breast_cancer"), name="wdbc")
    train, test = em2nolc._balanced(data, 0)
    assert np.bincount(data.y[train]).tolist() == [250, 250] and not set(train) & set(test)
    assert len(np.unique(train)) < len(train) and len(test) == len(data.y) - len(np.unique(train))


def test_every_row_lacks_the_same_number_of_channels():
    X = absent_mkl._blanked(np.ones((50, 6)), [[0], [1, 2], [3], [4, 5]], 0.5, np.random.default_rng(0))
    lacking = np.isnan(X)
    assert np.all(lacking[:, 1] == lacking[:, 2]) and np.all(lacking[:, [0, 1, 3, 4]].sum(axis=1) == 2)


def test_every_published_number_belongs_to_a_known_set_and_method():
    for paper in PAPERS.values():
        names = {*paper.methods, *paper.aliases.values(), "MKLDPL", "MIDL", "DKMLD", "MMAF"}
        for dataset, method, measure in paper.published:
            assert dataset.partition(":")[0] in (*paper.datasets, *paper.absent) and measure in MEASURES
            assert method in names, (paper.name, method)


def test_published_numbers_are_those_of_the_papers():
    found = PAPERS["em2nolc"].reported("german_numeric", "EM2NOLC", "accuracy")
    assert found == (96.73, 2.42) and PAPERS["em2nolc"].reported("wdbc", "SVC", "n_instances").value == 112.2
    assert PAPERS["l0-mkl"].reported("colon", "l0-MKL as published", "n_features").value == 14
    assert PAPERS["l01-svm"].reported("sonar", "MKL-L0/1-SVM as printed", "accuracy").value == 75.79
    assert PAPERS["imkpl"].reported("tox_171", "IMKPL", "dr").value == 89
    assert PAPERS["absent-mkl"].reported("protein_fold", "C-AMKL", "accuracy").value == 51.99


def test_every_paper_describes_its_protocols():
    for paper in PAPERS.values():
        assert set(paper.descriptions) == {"honest", "paper", "why"}
        assert all(len(text) > 100 for text in paper.descriptions.values())


def test_protocols_have_their_methods():
    for paper in PAPERS.values():
        for protocol in ("honest", "paper"):
            names = {c.method for c in paper.cells(protocol, "quick")}
            assert {"SVC", "majority"} <= names or not paper.available


def test_the_larger_class_of_a_balanced_training_part_is_that_of_the_set():
    y = datasets.load("breast_cancer").y
    here = Problem(np.zeros((10, 1)), np.arange(10) % 2, 6, np.zeros(1, dtype=bool), None, 3, 0, "breast_cancer")
    found = em2nolc._larger(here, True)
    assert set(found.model.predict(found.test)) == {np.bincount(y).argmax()}


def test_the_five_models_of_the_folds_are_tested_in_the_papers_protocol(monkeypatch):
    paper = PAPERS["em2nolc"]
    here = replace(planted(80), name="wdbc", folds=5)
    cell = Cell("em2nolc", "paper", "quick", "wdbc", 0, "", "SVC")
    found = paper.trial(paper, cell, here)
    fits = []
    chosen = svc(here, True)
    for a, _ in here.inner:
        model = clone(chosen.fresh).fit(here.train[0][a], here.train[1][a])
        fits.append(100 * np.mean(model.predict(here.test[0]) == here.test[1]))
    assert found.measures["accuracy"] == pytest.approx(np.mean(fits))
    assert found.extra["spread"]["accuracy"] == pytest.approx(np.std(fits, ddof=1))


def test_the_smaller_halves_are_tested():
    cell = Cell("l0-mkl", "honest", "quick", "wine", 0, "", "SVC")
    here = PAPERS["l0-mkl"].problem(cell)  # 59 and 71 rows of the first two classes
    assert np.bincount(here.test[1]).tolist() == [29, 35] and np.bincount(here.train[1]).tolist() == [30, 36]
