from __future__ import annotations

import numpy as np
import pytest

from tamis.prox import project_cardinality

import references


@pytest.mark.parametrize("k", [0, 1, 3, 6])
def test_projection_onto_sparse_vectors_is_the_closest_one(rng, k):
    for _ in range(20):
        v = rng.normal(size=6)
        np.testing.assert_allclose(project_cardinality(v, k), references.project_cardinality(v, k))


def test_projection_keeps_the_lowest_index_among_ties():
    assert project_cardinality(np.array([1.0, -1.0, 1.0]), 2).tolist() == [1.0, -1.0, 0.0]


def test_projection_of_a_matrix_keeps_rows_of_largest_norm():
    v = np.array([[1.0, 1.0], [0.0, 1.5], [0.2, 0.0]])
    assert project_cardinality(v, 1).tolist() == [[0, 0], [0, 1.5], [0, 0]]
    kept = project_cardinality(v, 2)
    assert kept[2].tolist() == [0, 0] and kept[0].tolist() == [1, 1]


def test_projection_keeps_single_precision():
    out = project_cardinality(np.array([1, -3, 2], dtype=np.float32), 1)
    assert out.dtype == np.float32 and out.tolist() == [0, -3, 0]
