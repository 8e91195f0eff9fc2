"""Classifiers in common use."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.peers import sparse_logistic

pytest.importorskip("sklearn", minversion="1.8", reason="l1_ratio selects the penalty since then")


@pytest.fixture(scope="module")
def table():
    """Two columns decide, one of them a category of four levels; three are noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    X[:, 3] = rng.integers(0, 4, 200)
    y = (X[:, 0] + 2.0 * (X[:, 3] == 2) > 0.5).astype(int)
    folds = [(np.flatnonzero(np.arange(200) % 3 != k), np.flatnonzero(np.arange(200) % 3 == k)) for k in range(3)]
    return X, y, np.arange(5) == 3, folds


@pytest.mark.parametrize("kind", ["l1", "abess"])
def test_a_sparse_logistic_regression_counts_columns_of_the_table(table, kind):
    if kind == "abess":
        pytest.importorskip("abess")
    X, y, nominal, folds = table
    found = sparse_logistic(kind, X, y, nominal, folds, 2, 0)
    assert found.features_ == [0, 3] and np.mean(found.predict(X) == y) > 0.85


@pytest.mark.parametrize("kind", ["l1", "abess"])
def test_a_column_counts_if_the_score_of_any_class_has_it(table, kind):
    if kind == "abess":
        pytest.importorskip("abess")
    X, _, _, folds = table
    y = np.digitize(X[:, 0] + X[:, 2], [-0.7, 0.7])
    found = sparse_logistic(kind, X, y, np.zeros(5, dtype=bool), folds, 2, 0)
    assert found.features_ == [0, 2] and np.mean(found.predict(X) == y) > 0.8
    np.testing.assert_allclose(found.predict_proba(X).sum(axis=1), 1.0)


def test_probabilities_of_a_sparse_logistic_regression_are_those_of_its_model(table):
    X, y, nominal, folds = table
    found = sparse_logistic("l1", X, y, nominal, folds, 5, 0)
    expected = found.model.predict_proba(found.encoder.transform(X)[:, found.varying])
    np.testing.assert_allclose(found.predict_proba(X), expected, atol=1e-12)
