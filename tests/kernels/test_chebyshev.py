from __future__ import annotations

import numpy as np
import pytest

from tamis.kernels.base import Categorical, Gaussian, Laplacian, Polynomial, Sigmoid
from tamis.kernels.stacks.chebyshev import Chebyshev, Levels, TwoSided, chebyshev, degrees_needed, two_sided, widened


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


def mirrored_values(form, s, t):
    left, right = (form.left(z[:, None], np.zeros((2, 1)))[:, 0] for z in (s, t))
    return left.T @ (form.middle[:, None] * right)


@pytest.mark.parametrize("kernel", [Sigmoid(0.1, 0.1), Sigmoid(-0.1, 2.0), Sigmoid(1.0, -0.5), Sigmoid(0.0, 0.3)])
@pytest.mark.parametrize("low, high", [(-1.0, 1.0), (-3.0, 2.0), (0.0, 4.0), (-0.5, 6.0)])
@pytest.mark.parametrize("degrees", [5, 12, 24, None])
def test_two_sided_error_stays_below_its_bound(kernel, low, high, degrees):
    form = two_sided(kernel, low, high) if degrees is None else TwoSided(kernel, low, high, degrees)
    if form is None:
        assert kernel.scale == 1.0 and high == 6.0
        return
    s, t = np.linspace(low, high, 301), np.linspace(low, high, 499)
    error = np.abs(mirrored_values(form, s, t) - exact_values(kernel, s, t)).max()
    assert error <= form.error + 1e-13
    assert degrees is not None or form.error <= 1.1e-10


def test_two_sided_bound_and_length_are_not_absurdly_loose():
    form = two_sided(Sigmoid(0.1, 0.1), -3.0, 3.0)
    assert form.degrees < 25 and len(form.middle) < 18
    short = TwoSided(form.kernel, -3.0, 3.0, 12)
    s = np.linspace(-3, 3, 401)
    assert short.error < 300 * np.abs(mirrored_values(short, s, s) - exact_values(form.kernel, s, s)).max()


def test_two_sided_bound_ends_where_the_ellipse_meets_a_pole():
    """On [-h, h] the poles of tanh(s t), s = h, lie at i pi / (2 h): a range with h^2 = pi / 2 puts them at i."""
    h = np.sqrt(np.pi / 2)
    rho = 1.0 + np.sqrt(2.0)  # the ellipse through i
    errors = [np.log(TwoSided(Sigmoid(1.0, 0.0), -h, h, p).error) for p in (20, 24)]
    assert 0.8 < (errors[0] - errors[1]) / (4 * np.log(rho)) < 1.0


def test_ranges_too_wide_for_a_short_sum_have_none():
    assert two_sided(Sigmoid(0.1, 0.1), -60.0, 60.0) is None
    assert two_sided(Sigmoid(0.1, 0.1), 0.0, 0.0) is None
    assert two_sided(Sigmoid(1e300, 0.1), -1e10, 1e10) is None


def test_missing_cells_have_no_two_sided_sum():
    values = two_sided(Sigmoid(0.1, 0.1), -1.0, 2.0).left(np.array([[0.5, np.nan], [np.nan, 2.0]]), np.zeros((2, 2)))
    assert not values[:, 0, 1].any() and not values[:, 1, 0].any() and values[:, 0, 0].any() and values[:, 1, 1].any()


def test_widened_ranges_are_few_and_hold_the_values(rng):
    values = rng.uniform(-1, 9, 1000)
    wide = widened(values)
    assert np.all(wide >= values) and np.all(wide <= 2**0.25 * np.maximum(values, 0.0) * (1 + 1e-12))
    assert not wide[values <= 0].any()
    assert len(np.unique(widened(np.linspace(2, 4, 100)))) == 5
