from __future__ import annotations

import numpy as np
import pytest

from tamis.kernels.base import Categorical, Gaussian, Laplacian, Polynomial
from tamis.kernels.chebyshev import Chebyshev, Levels, chebyshev, degrees_needed


def short_values(basis, kernel, s, t):
    return basis.coefficients(kernel, s) @ basis.features(t)


def exact_values(kernel, s, t):
    return kernel(s[:, None], t[:, None])


@pytest.mark.parametrize("degrees", [12, 16, 24, 40])
@pytest.mark.parametrize("bandwidth", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("panels", [1, 3])
def test_error_stays_below_its_bound(degrees, bandwidth, panels):
    basis, kernel = Chebyshev(-3.0, 5.0, degrees, panels), Gaussian(bandwidth)
    s, t = np.linspace(-3, 5, 101), np.linspace(-3, 5, 1001)
    error = np.abs(short_values(basis, kernel, s, t) - exact_values(kernel, s, t)).max()
    assert error <= basis.error_bound(kernel) + 1e-13


def test_bound_is_not_absurdly_loose():
    basis, kernel = Chebyshev(-3.0, 3.0, 18), Gaussian(1.0)
    s, t = np.linspace(-3, 3, 101), np.linspace(-3, 3, 1001)
    error = np.abs(short_values(basis, kernel, s, t) - exact_values(kernel, s, t)).max()
    assert basis.error_bound(kernel) < 100 * error


def test_degree_follows_the_rule():
    assert degrees_needed(Gaussian(1.0), 8.0) == 21
    assert degrees_needed(Gaussian(0.5), 8.0) == 34
    assert degrees_needed(Gaussian(9.0), 1.0) == 12
    assert chebyshev(Gaussian(1.0), -4.0, 4.0) == Chebyshev(-4.0, 4.0, 21)


@pytest.mark.parametrize("bandwidth", [0.2, 0.05, 0.01])
def test_narrow_kernels_get_panels_of_at_most_64_polynomials(bandwidth):
    basis, kernel = chebyshev(Gaussian(bandwidth), -4.0, 4.0), Gaussian(bandwidth)
    assert basis.panels > 1 or bandwidth == 0.2
    assert basis.degrees <= 64
    assert basis.resolves(kernel)
    s, t = np.linspace(-4, 4, 97), np.linspace(-4, 4, 4001)
    assert np.abs(short_values(basis, kernel, s, t) - exact_values(kernel, s, t)).max() < 1e-3


def test_too_few_polynomials_do_not_resolve():
    assert not Chebyshev(-4.0, 4.0, 20).resolves(Gaussian(1.0))
    assert Chebyshev(-4.0, 4.0, 21).resolves(Gaussian(1.0))
    assert not Chebyshev(-4.0, 4.0, 64).resolves(Laplacian(1.0))
    assert chebyshev(Laplacian(1.0), -1.0, 1.0) is None
    assert Chebyshev(-1.0, 1.0, 64).error_bound(Laplacian(1.0)) == np.inf


def test_polynomial_kernels_are_exact():
    basis, kernel = chebyshev(Polynomial(5, 1.0), -2.0, 3.0), Polynomial(5, 1.0)
    s, t = np.linspace(-2, 3, 11), np.linspace(-2, 3, 17)
    assert basis.error_bound(kernel) == 0
    np.testing.assert_allclose(short_values(basis, kernel, s, t), exact_values(kernel, s, t), rtol=1e-10, atol=1e-9)
    assert Chebyshev(-2.0, 3.0, 5).error_bound(kernel) == np.inf


@pytest.mark.parametrize("kernel", [Gaussian(0.01), Laplacian(2.0), Polynomial(3, 1.0)])
def test_few_values_are_exact_for_every_kernel(kernel):
    basis = Levels((-1.0, 0.5, 7.0), nearest=True)
    s, t = np.array([0.3, 7.0]), np.array([7.0, -1.0, 0.5, np.nan])
    np.testing.assert_allclose(short_values(basis, kernel, s, t), exact_values(kernel, s, t), atol=1e-14)
    assert basis.error_bound(kernel) == 0


def test_categories_agree_only_with_themselves():
    basis = Levels((0.0, 1.0, 2.0), nearest=False)
    s, t = np.array([0.0, 2.0, -1.0, np.nan]), np.array([2.0, -1.0, 0.0, np.nan])
    values = short_values(basis, Categorical(), s, t)
    np.testing.assert_array_equal(values, [[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])


def test_other_numbers_count_as_the_nearest_value():
    basis = Levels((0.0, 1.0, 4.0), nearest=True)
    np.testing.assert_array_equal(
        np.argmax(basis.features(np.array([-9.0, 0.4, 0.6, 2.4, 2.6, 99.0])), axis=0), [0, 0, 1, 1, 2, 2]
    )


@pytest.mark.parametrize("panels", [1, 4])
def test_missing_cells_have_no_functions_and_outsiders_are_clipped(panels):
    basis = Chebyshev(0.0, 1.0, 12, panels)
    values = basis.features(np.array([np.nan, 2.0, 1.0, -3.0, 0.0]))
    assert not values[:, 0].any()
    np.testing.assert_array_equal(values[:, 1], values[:, 2])
    np.testing.assert_array_equal(values[:, 3], values[:, 4])
    assert not basis.coefficients(Gaussian(1.0), np.array([np.nan])).any()


def test_a_range_of_one_point():
    basis = Chebyshev(2.0, 2.0, 12)
    value = short_values(basis, Gaussian(1.0), np.array([2.0]), np.array([2.0, 5.0]))
    np.testing.assert_allclose(value, [[1.0, 1.0]], atol=1e-12)


def test_polynomials_of_any_degree_stay_on_one_panel():
    assert chebyshev(Polynomial(80, 1.0), -1.0, 1.0) == Chebyshev(-1.0, 1.0, 81)


def test_no_bound_is_claimed_for_kernels_that_are_not_smooth():
    assert Chebyshev(-1.0, 1.0, 20).error_bound(Gaussian(1.0, mismatch=(2.0,))) == np.inf
