from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

from tamis.kernels.base import Categorical, Epanechnikov, Gaussian, Laplacian, Polynomial, Sigmoid
from tamis.kernels.composed import ScaledGaussian

KERNELS = [Gaussian(0.8), Laplacian(0.8), Epanechnikov(1.7), Polynomial(2, 1.0), Sigmoid(0.5, 0.1), Categorical()]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("columns", [1, 3])
def test_gram_matrices_are_symmetric(rng, kernel, columns):
    X = rng.integers(0, 3, size=(7, columns)).astype(float)
    K = kernel(X, X)
    np.testing.assert_allclose(K, K.T, atol=1e-14)
    np.testing.assert_allclose(kernel(X[:2], X[3:]), K[:2, 3:], atol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS)
def test_values_of_an_absent_row_are_zero(rng, kernel):
    X = rng.integers(0, 3, size=(5, 2)).astype(float)
    X[1] = np.nan
    K = kernel(X, X)
    assert not K[1].any() and not K[:, 1].any() and K[0, 0] != 0


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(0.8), Gaussian(1.0, (0.0, 2.0)), Laplacian(0.8), Categorical(), ScaledGaussian((0.3, 2.0), (0.0, 2.0))],
)
def test_gram_matrices_with_missing_cells_stay_positive_semidefinite(rng, kernel):
    X = np.column_stack([rng.normal(size=40), rng.integers(0, 3, size=40).astype(float)])
    X[rng.uniform(size=X.shape) < 0.3] = np.nan
    assert np.linalg.eigvalsh(kernel(X, X)).min() > -1e-10


def test_gaussian_is_the_product_of_its_columns(rng):
    X = rng.normal(size=(6, 3))
    parts = [Gaussian(0.8)(X[:, [c]], X[:, [c]]) for c in range(3)]
    np.testing.assert_allclose(Gaussian(0.8)(X, X), np.prod(parts, axis=0), atol=1e-12)


def test_gaussian_of_one_feature_has_the_papers_formula():
    K = Gaussian(2.0)(np.array([[1.0]]), np.array([[4.0]]))
    np.testing.assert_allclose(K, [[np.exp(-9 / 8)]])


def test_missing_cells_of_a_group_agree_with_one_another_and_sit_beside_the_mean():
    X = np.array([[np.nan, 1.0], [np.nan, 1.0], [0.0, 1.0], [2.0, 1.0]])
    K = Gaussian(1.0)(X, X)
    np.testing.assert_allclose(K[0], [1.0, 1.0, np.exp(-0.5), np.exp(-2.5)])
    np.testing.assert_allclose(Gaussian(1.0)(X[:2], X[2:]), K[:2, 2:])


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
def test_distances_do_not_depend_on_what_all_rows_have_in_common(rng, offset):
    S, T = rng.normal(size=(9, 3)), rng.normal(size=(5, 3))
    moved = [np.round(Z, 6) + offset for Z in (S, T)]
    near = [Z - offset for Z in moved]
    for kernel in (Gaussian(0.5), Laplacian(0.5), Epanechnikov(2.0), ScaledGaussian((1.0, 2.0, 0.3))):
        np.testing.assert_allclose(kernel(*moved), kernel(*near), atol=1e-12)
    S, T = moved
    S[2, 1] = T[3, 1] = np.nan  # cells that are missing on both sides agree, and else are a zero and a unit beside it
    K = Gaussian(1.0)(S, T)
    np.testing.assert_allclose(K[2, 3], np.exp(-0.5 * np.square(S[2, [0, 2]] - T[3, [0, 2]]).sum()), atol=1e-12)
    beside = np.square(S[2, [0, 2]] - T[0, [0, 2]]).sum() + T[0, 1] ** 2 + 1.0
    np.testing.assert_allclose(K[2, 0], np.exp(-0.5 * beside), atol=1e-12)


def test_categories_in_a_group_add_their_mismatch():
    X = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, np.nan]])
    K = Gaussian(1.0, (0.0, 3.0))(X, X)
    np.testing.assert_allclose(K[0], [1.0, np.exp(-1.5), np.exp(-1.5)])
    assert K[2, 2] == 1.0


def test_categorical_kernel_is_an_indicator_that_unseen_codes_never_meet():
    K = Categorical()(np.array([[-1.0], [0.0], [1.0]]), np.array([[0.0], [1.0]]))
    assert K.tolist() == [[0, 0], [1, 0], [0, 1]]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("columns", [1, 2])
def test_kernels_run_on_any_array_library(rng, kernel, columns):
    X = rng.integers(0, 3, size=(4, columns)).astype(float)
    X[0, 0] = np.nan
    out = kernel(array_api_strict.asarray(X), array_api_strict.asarray(X[1:]))
    np.testing.assert_allclose(np.asarray(out), kernel(X, X[1:]), atol=1e-14)


@pytest.fixture
def mixed(rng):
    """Two numeric columns and a category, with missing cells and an absent row."""
    X = np.column_stack([rng.normal(size=(12, 2)), rng.integers(0, 3, size=12).astype(float)])
    X[1, 0] = X[2, 0] = X[3, 1] = X[4, 2] = np.nan
    X[5] = np.nan
    return X


def test_scaled_gaussian_with_equal_factors_is_a_gaussian(mixed):
    for columns, mismatch in ((3, (0.0, 0.0, 2.5)), (2, ()), (1, ())):
        X = mixed[:, :columns]
        scaled = ScaledGaussian((1 / 0.7**2,) * columns, mismatch)
        np.testing.assert_allclose(scaled(X, X[3:]), Gaussian(0.7, mismatch)(X, X[3:]), atol=1e-14)


def test_scaled_gaussian_is_the_product_of_its_columns(rng):
    X = np.column_stack([rng.normal(size=(6, 2)), rng.integers(0, 3, size=6).astype(float)])
    factors, mismatch = (0.5, 2.0, 3.0), (0.0, 0.0, 1.5)
    parts = [Gaussian(f**-0.5, mismatch[c : c + 1])(X[:, [c]], X[:, [c]]) for c, f in enumerate(factors)]
    np.testing.assert_allclose(ScaledGaussian(factors, mismatch)(X, X), np.prod(parts, axis=0), atol=1e-12)


def test_scaled_gaussian_counts_a_missing_cell_as_one_unit_beside_the_mean():
    X = np.array([[np.nan, 1.0], [np.nan, 1.0], [2.0, 1.0], [0.0, 2.0]])
    K = ScaledGaussian((0.25, 4.0))(X, X)
    np.testing.assert_allclose(K[0], [1.0, 1.0, np.exp(-0.5 * 0.25 * 5), np.exp(-0.5 * (0.25 + 4.0))])


def test_columns_of_factor_zero_count_for_nothing(mixed):
    kernel = ScaledGaussian((1.5, 0.0, 0.5), (0.0, 0.0, 2.0))
    K = kernel(mixed, mixed)
    np.testing.assert_allclose(K, ScaledGaussian((1.5, 0.5), (0.0, 2.0))(mixed[:, [0, 2]], mixed[:, [0, 2]]))
    changed = mixed.copy()
    changed[:, 1] = np.where(np.isnan(mixed[:, 1]), 7.0, np.nan)
    np.testing.assert_array_equal(kernel(changed, changed), K)


def test_scaled_gaussian_refuses_factors_without_a_kernel():
    for factors in ((0.0, 0.0), (1.0, -0.5), (np.nan, 1.0), ()):
        with pytest.raises(ValueError, match="factors="):
            ScaledGaussian(factors)


def test_scaled_gaussian_runs_on_any_array_library(mixed):
    kernel = ScaledGaussian((1.5, 0.0, 0.5), (0.0, 0.0, 2.0))
    out = kernel(array_api_strict.asarray(mixed), array_api_strict.asarray(mixed[1:]))
    np.testing.assert_allclose(np.asarray(out), kernel(mixed, mixed[1:]), atol=1e-14)


@pytest.mark.parametrize("kernel", [*KERNELS, Polynomial(3, -0.4), Polynomial(1, 0.0), Gaussian(0.8, (2.0,))])
@pytest.mark.parametrize("rows", [(7, 5), (1, 5), (7, 1), (0, 3)])
def test_each_column_on_its_own_is_as_one_call_per_column(rng, kernel, rows):
    S, T = (rng.integers(0, 3, size=(n, 4)) + 0.5 * rng.integers(0, 2, size=(n, 4)) for n in rows)
    S[:3, 1] = T[1:, 1] = T[:, 3] = np.nan
    values = kernel.each(S, T)
    assert values.shape == (4, *rows)
    expected = [kernel(S[:, [c]], T[:, [c]]) for c in range(4)]
    np.testing.assert_allclose(values, expected, rtol=1e-13, atol=1e-13)
    assert not values[3].any()


def test_epanechnikov_is_a_parabola_that_ends_at_the_bandwidth():
    S, T = np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [2.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(Epanechnikov(2.0)(S, T), [[1.0, 0.75, 0.5, 0.0, 0.0]])
    with pytest.raises(ValueError, match="bandwidth=0"):
        Epanechnikov(0.0)


def test_epanechnikov_counts_a_missing_cell_as_one_unit_beside_the_mean():
    X = np.array([[np.nan, 1.0], [np.nan, 1.0], [0.5, 1.0], [np.nan, np.nan]])
    np.testing.assert_allclose(Epanechnikov(2.0)(X, X)[0], [1.0, 1.0, 1.0 - 1.25 / 4.0, 0.0])


def test_epanechnikov_is_not_positive_semidefinite_in_general():
    X = np.linspace(0.0, 3.0, 31)[:, None]
    assert np.linalg.eigvalsh(Epanechnikov(1.0)(X, X)).min() < -0.01
    assert not getattr(Epanechnikov(1.0), "positive", False)


@pytest.mark.parametrize("kernel", [Gaussian(0.7), Laplacian(), ScaledGaussian((0.5, 2.0, 1.0)), Epanechnikov(2.0)])
def test_distances_far_from_zero_are_as_exact_as_near_it(rng, kernel):
    Z = np.round(rng.normal(size=(30, 3)) * 64) / 64
    np.testing.assert_allclose(kernel(Z + 2.0**40, Z[:9] + 2.0**40), kernel(Z, Z[:9]), rtol=1e-9, atol=1e-12)
    wide = np.vstack([Z, [[1e100, 0.0, 0.0]]])
    np.testing.assert_allclose(kernel(wide, wide)[:30, :30], kernel(Z, Z), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", [Gaussian(1e-3), Laplacian(1e-3), Epanechnikov(1e-3)])
def test_distances_are_exact_in_widths_of_the_kernel(rng, kernel):
    sides = 8.0 * (-1.0) ** np.arange(30)[:, None]  # 8000 widths: a product of matrices would err by 1e-8 of a square
    away = sides + 1e-3 * rng.normal(size=(30, 3))
    near = (away - sides)[::2]  # the digits that adding took
    np.testing.assert_allclose(kernel(away, away)[::2, ::2], kernel(near, near), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", [Gaussian(), Epanechnikov()])
def test_rows_beyond_all_numbers_are_far(kernel):
    with np.errstate(over="ignore", invalid="ignore"):
        values = kernel(np.array([[1e308, 1e308], [10.0, 2.0]]), np.array([[10.0, 2.0]]))
    np.testing.assert_array_equal(values, [[0.0], [1.0]])


def test_roots_of_small_distances_are_exact(rng):
    Z = np.array([[2.0], [-2.0], [1.0]]).repeat(3, axis=0) + 1e-9 * rng.normal(size=(9, 3))
    distances = np.sqrt(((Z[:, None] - Z[None]) ** 2).sum(axis=-1))
    np.testing.assert_allclose(Laplacian()(Z, Z), np.exp(-distances), rtol=1e-12)
