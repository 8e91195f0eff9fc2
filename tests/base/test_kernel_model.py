from __future__ import annotations

import numpy as np
import pytest

import tamis.base.kernel_model as module
from tamis.base.kernel_model import KernelExpansion
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Gaussian


@pytest.fixture
def expansion(rng):
    bank = KernelBank(tuple(Channel(n, Gaussian(1.0), (c,)) for c, n in enumerate("abc")))
    coef = rng.normal(size=(2, 4, 3))
    coef[:, 1], coef[:, :, 2] = 0, 0
    return KernelExpansion(bank, rng.normal(size=(4, 3)), np.array([0.3, -0.2]), coef)


def test_decision_is_the_sum_of_contributions(expansion, rng, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_ROWS", 7)
    monkeypatch.setattr(module, "BLOCK_VALUES", 100)
    Z = rng.normal(size=(30, 3))
    parts = expansion.contributions(Z)
    assert parts.shape == (30, 2, 4, 3)
    np.testing.assert_allclose(expansion.decision(Z), expansion.intercept + parts.sum(axis=(2, 3)), atol=1e-12)
    by_instance, by_kernel = expansion.split(Z)
    np.testing.assert_allclose(by_instance, parts.sum(axis=3), atol=1e-12)
    np.testing.assert_allclose(by_kernel, parts.sum(axis=2), atol=1e-12)


def test_restriction_keeps_the_function_and_drops_the_rest(expansion, rng):
    small, rows, kernels, columns = expansion.restricted()
    assert rows.tolist() == [0, 2, 3] and kernels.tolist() == [0, 1] and columns.tolist() == [0, 1]
    Z = rng.normal(size=(10, 3))
    np.testing.assert_allclose(small.decision(Z[:, columns]), expansion.decision(Z), atol=1e-12)


def test_restriction_keeps_columns_in_place_where_all_are_needed(rng):
    bank = KernelBank(tuple(Channel(n, Gaussian(1.0), (c,)) for c, n in enumerate("cab")))
    whole = KernelExpansion(bank, rng.normal(size=(4, 3)), np.zeros(1), rng.normal(size=(1, 4, 3)))
    small, _, kernels, columns = whole.restricted()
    assert small.bank == bank and kernels.tolist() == columns.tolist() == [0, 1, 2]
