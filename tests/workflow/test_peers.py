"""Classifiers in common use."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from tamis.workflow import peers

NOMINAL = np.array([False, True, False])


def table(n=120):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n), rng.normal(size=n)])
    return X, (X[:, 0] + (X[:, 1] == 1) > 0.5).astype(int)


def test_boosting_equals_that_of_scikit_learn_on_codes():
    X, y = table()
    expected = HistGradientBoostingClassifier(categorical_features=NOMINAL, random_state=0).fit(X, y)
    found = peers.boosting(NOMINAL, random_state=0).fit(X, y)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


def test_boosting_reads_text_as_codes():
    X, y = table()
    text = X.astype(object)
    text[:, 1] = np.array(["a", "b", "c"])[X[:, 1].astype(int)]
    expected = peers.boosting(NOMINAL, random_state=0).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(peers.boosting(NOMINAL, random_state=0).fit(text, y).predict_proba(text), expected)


@pytest.mark.parametrize("drop", [None, "first"])
def test_encoded_numbers_are_standardised_and_precede_indicators(drop):
    X, _ = table()
    X[0, 0] = np.nan
    Z = peers.encoder(NOMINAL, drop).fit_transform(X)
    assert Z.shape[1] == 2 + 3 - (drop is not None)
    np.testing.assert_allclose(Z[:, :2].std(axis=0), 1.0)
    np.testing.assert_array_equal(Z[:, -1], X[:, 1] == 2)


def test_svc_takes_levels_that_are_new():
    X, y = table()
    model = peers.svc(NOMINAL).fit(X, y)
    assert model.predict(np.array([[0.0, 9.0, 0.0]])).shape == (1,)
