from __future__ import annotations

import numpy as np
import pytest

from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Gaussian, Normalised, Polynomial
from tamis.kernels.precomputed import Precomputed
from tamis.kernels.spectrum import unit_bank


def cosine(S, T):
    return S @ T.T / np.outer(np.linalg.norm(S, axis=1), np.linalg.norm(T, axis=1))


def test_the_linear_kernel_becomes_the_cosine(rng):
    S, T = rng.normal(size=(150, 3)), rng.normal(size=(7, 3))
    np.testing.assert_allclose(Normalised(Polynomial(1, 0.0))(S, T), cosine(S, T))
    np.testing.assert_allclose(np.diagonal(Normalised(Polynomial(1, 0.0))(S, S)), 1.0)


def test_a_row_of_norm_zero_is_absent(rng):
    S = rng.normal(size=(4, 2))
    S[1] = 0.0
    K = Normalised(Polynomial(1, 0.0))(S, S)
    assert not K[1].any() and not K[:, 1].any() and np.isfinite(K).all()


def test_only_kernels_that_need_it_are_scaled(rng):
    Z = rng.normal(size=(20, 2))
    Z[3] = np.nan
    ones = Channel("ones", lambda S, T: np.ones((len(S), len(T))), (1,))
    bank = KernelBank((Channel("a", Gaussian(1.0), (0,)), Channel("b", Polynomial(2), (1,)), ones))
    unit, scaled = unit_bank(bank, Z)
    assert scaled == ["b"] and unit.channels[0] is bank.channels[0] and unit.channels[2] is ones
    own = np.diagonal(unit.channels[1](Z, Z))
    np.testing.assert_allclose(np.delete(own, 3), 1.0)
    assert own[3] == 0.0


def test_precomputed_values_are_scaled_once_and_for_all(rng):
    A = rng.normal(size=(6, 3))
    kernel = Precomputed(A @ A.T, np.arange(6))
    Z = np.arange(6.0)[:, None]
    unit, scaled = unit_bank(KernelBank((Channel("k", kernel, (0,)),)), Z)
    assert scaled == ["k"] and isinstance(unit.channels[0].kernel, Precomputed)
    np.testing.assert_allclose(unit.channels[0](Z, Z[:2]), cosine(A, A[:2]))
    with pytest.raises(ValueError, match="all items"):
        kernel.narrowed(Z[:2]).normalised()
