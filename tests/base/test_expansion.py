from __future__ import annotations

import numpy as np
import pytest

import tamis.base.expansion as module
from tamis.base.expansion import CentredExpansion, KernelExpansion
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Gaussian


@pytest.fixture(params=["plain", "centred"])
def expansion(rng, request):
    bank = KernelBank(tuple(Channel(n, Gaussian(1.0), (c,)) for c, n in enumerate("abc")))
    coef = rng.normal(size=(2, 4, 3))
    coef[:, 1], coef[:, :, 2] = 0, 0
    plain = KernelExpansion(bank, rng.normal(size=(4, 3)), np.array([0.3, -0.2]), coef)
    if request.param == "plain":
        return plain
    return CentredExpansion.around(plain, rng.normal(size=(9, 3)), rng.uniform(0.1, 3.0, 9))


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


def test_a_centre_moves_contributions_and_not_decisions(rng):
    bank = KernelBank((Channel("a", Gaussian(1.0), (0,)), Channel("b", Gaussian(0.5), (1,))))
    plain = KernelExpansion(bank, rng.normal(size=(3, 2)), np.array([0.7]), rng.normal(size=(1, 3, 2)))
    Z, weight = rng.normal(size=(20, 2)), rng.uniform(0.1, 3.0, 20)
    centred = CentredExpansion.around(plain, Z, weight)
    np.testing.assert_allclose(centred.decision(Z), plain.decision(Z), atol=1e-12)
    np.testing.assert_allclose(np.average(centred.contributions(Z), axis=0, weights=weight), 0.0, atol=1e-12)
    np.testing.assert_allclose(centred.intercept, np.average(plain.decision(Z), axis=0, weights=weight), atol=1e-12)
    small, rows, kernels, _ = CentredExpansion.around(plain, Z, weight).restricted()
    np.testing.assert_array_equal(small.centre, centred.centre[np.ix_(rows, kernels)])


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
