from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.linalg import solve

from tamis.optim.prox import (
    project_cardinality,
    project_simplex,
    project_sparse_simplex,
    prox_hinge,
    prox_l1,
    prox_zero_one,
    sparse_least_squares,
)

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


def test_projection_onto_the_sparse_simplex_is_the_closest_point(rng):
    for k, total in [(1, 1.0), (2, 3.0), (3, 0.5), (5, 2.0), (9, 2.0)]:
        for _ in range(20):
            v = rng.normal(size=5)
            x = project_sparse_simplex(v, k, total)
            supports = [list(s) for size in range(1, min(k, 5) + 1) for s in combinations(range(5), size)]
            best = min(np.sum((on_support(v, s, total) - v) ** 2) for s in supports)
            assert np.all(x >= 0) and x.sum() == pytest.approx(total) and np.count_nonzero(x) <= k
            assert np.sum((x - v) ** 2) == pytest.approx(best)


def on_support(v, support, total):
    """The closest point of the simplex that is zero outside a support, by trying every set of positive entries."""
    best = np.full(len(v), np.inf)
    for size in range(1, len(support) + 1):
        for part in combinations(support, size):
            x = np.zeros(len(v))
            chosen = list(part)
            x[chosen] = v[chosen] + (total - v[chosen].sum()) / size
            if np.all(x >= 0) and np.sum((x - v) ** 2) < np.sum((best - v) ** 2):
                best = x
    return best


def test_projection_onto_the_sparse_simplex_keeps_the_lowest_index_among_ties():
    assert project_sparse_simplex(np.array([1.0, 2.0, 1.0]), 2, 3.0).tolist() == [1.0, 2.0, 0.0]


def test_projection_onto_the_sparse_simplex_keeps_single_precision():
    out = project_sparse_simplex(np.array([1, -3, 2], dtype=np.float32), 1)
    assert out.dtype == np.float32 and out.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "prox, loss",
    [(prox_l1, np.abs), (prox_hinge, lambda x: np.maximum(0.0, 1.0 - x))],
    ids=["l1", "hinge"],
)
@pytest.mark.parametrize("step", [0.0, 0.3, 2.0])
def test_proximal_operators_minimise_their_objective(rng, prox, loss, step):
    v = np.concatenate([rng.normal(size=30), [0.0, 1.0, 1.0 - step, step, -step]])
    grid = np.linspace(-6, 6, 12001)
    values = step * loss(grid)[:, None] + 0.5 * (grid[:, None] - v) ** 2
    np.testing.assert_allclose(prox(v, step), grid[np.argmin(values, axis=0)], atol=6e-4)


def test_proximal_operators_take_a_step_for_every_entry():
    assert prox_l1(np.array([2.0, 2.0, -2.0]), np.array([0.5, 3.0, 1.0])).tolist() == [1.5, 0.0, -1.0]
    assert prox_hinge(np.array([0.0, 0.0, 2.0]), np.array([0.5, 3.0, 1.0])).tolist() == [0.5, 1.0, 2.0]


def test_proximal_operators_reach_corners_exactly(rng):
    v = rng.uniform(-1, 1, 50)
    assert not prox_l1(v, 1.0).any()
    assert np.all(prox_hinge(v, 2.0) == 1.0)


def test_the_operator_of_the_step_loss_minimises_its_objective(rng):
    cost = 0.7
    v = np.concatenate([rng.uniform(-3, 3, 60), [0.0, 1.18, 1.19]])
    moved = cost * (v > 0)  # stay where v is, or move to zero, where nothing is paid
    zero = 0.5 * v**2
    np.testing.assert_array_equal(prox_zero_one(v, cost), np.where(zero <= moved, 0.0, v) * (v > 0) + v * (v <= 0))
    assert prox_zero_one(np.array([-2.0, 1.0, 3.0]), np.array([9.0, 0.1, 9.0])).tolist() == [-2.0, 1.0, 0.0]


def test_the_operator_of_the_step_loss_takes_zero_where_both_are_best():
    assert prox_zero_one(np.array([2.0, -2.0]), 2.0).tolist() == [0.0, -2.0]


def test_projection_onto_the_simplex_takes_one_as_the_sum():
    np.testing.assert_allclose(project_simplex(np.array([0.5, 0.5, -1.0])), [0.5, 0.5, 0.0])
    np.testing.assert_allclose(project_sparse_simplex(np.array([0.5, 0.3, 0.4]), 2), [0.55, 0.0, 0.45])


def test_projection_of_a_point_of_the_simplex_is_the_point_itself():
    v = np.array([0.25, 0.0, 0.5, 0.25])
    assert project_simplex(v).tolist() == v.tolist()
    assert project_simplex(np.array([-3.0])).tolist() == [1.0]


@pytest.mark.parametrize("prox", [prox_l1, prox_hinge, prox_zero_one])
def test_proximal_operators_keep_single_precision(prox):
    assert prox(np.array([1, -3, 0.5], dtype=np.float32), np.float32(0.25)).dtype == np.float32


def test_the_lowest_indices_among_many_ties_are_kept():
    v = np.ones(300)  # a sort that is not stable shuffles this many
    assert np.flatnonzero(project_cardinality(v, 40)).tolist() == list(range(40))
    assert np.flatnonzero(project_sparse_simplex(v, 40, 40.0)).tolist() == list(range(40))


def test_operators_are_the_same_in_another_library_of_arrays(rng):
    xp = pytest.importorskip("array_api_strict")
    v, step = rng.normal(size=9), np.full(9, 0.4)
    for operator, second in [
        (project_simplex, 2.0),
        (prox_l1, step),
        (prox_hinge, step),
        (prox_zero_one, step),
    ]:
        other = operator(xp.asarray(v), xp.asarray(second) if isinstance(second, np.ndarray) else second)
        np.testing.assert_allclose(np.asarray(other), operator(v, second))


def test_two_iterations_follow_the_printed_updates(rng):
    D = rng.normal(size=(8, 4))
    G, c, rho, k = D.T @ D, rng.normal(size=4), 1.0, 2
    x1 = solve(G + rho * np.eye(4), c)
    q1 = np.where(np.abs(x1) >= np.sort(np.abs(x1))[-k], x1, 0.0)
    u1 = x1 - q1
    x2 = solve(G + rho * np.eye(4), c + rho * (q1 - u1))
    v = x2 + u1
    q2 = np.where(np.abs(v) >= np.sort(np.abs(v))[-k], v, 0.0)
    split = sparse_least_squares(G, c, k, rho=rho, tol=0.0, max_iter=2)
    np.testing.assert_allclose(split.dense, x2)
    np.testing.assert_allclose(split.sparse, q2)


def test_without_a_binding_limit_it_solves_least_squares(rng):
    D, t = rng.normal(size=(20, 3)), rng.normal(size=20)
    split = sparse_least_squares(D.T @ D, D.T @ t, 3, rho=1.0, tol=1e-10, max_iter=500)
    np.testing.assert_allclose(split.sparse, np.linalg.lstsq(D, t, rcond=None)[0], atol=1e-8)


def test_matrices_that_rounding_made_singular_and_overflow_are_survived():
    v = np.linspace(1, 2, 30)
    G = 1e25 * np.outer(v, v)
    G[3, 3] *= 1 - 1e-6
    split = sparse_least_squares(G, 1e20 * v, 3, rho=1.0)
    assert np.isfinite(split.sparse).all() and np.count_nonzero(split.sparse) <= 3
    assert np.isnan(sparse_least_squares(np.full_like(G, np.inf), v, 3, rho=1.0).sparse).all()
