from __future__ import annotations

import numpy as np
import pytest

from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Gaussian, Laplacian
from tamis.kernels.spectrum import UnitKernels


@pytest.fixture(params=["dense", "streaming", "factored"])
def kernels(request, rng):
    """Kernels in each form, one of them with absent rows, and their matrices from the definition."""
    X = rng.normal(size=(90, 3))
    X[[4, 7], 0] = np.nan
    channels = (Channel("a", Gaussian(2.0), (0,)), Channel("b", Gaussian(2.0), (1, 2)), Channel("c", Laplacian(), (2,)))
    K = np.array([channel(X, X) for channel in channels])
    K[:, np.arange(90), np.arange(90)] = 1.0
    stack = KernelBank(channels).stack(X, form=request.param)
    if request.param == "factored":
        assert stack.streamed.tolist() == [1, 2]  # both ways of computing are met
    return UnitKernels(stack), K


def test_the_diagonal_is_one_though_a_row_is_absent(kernels):
    unit, K = kernels
    weights = np.array([0.5, 0.2, 0.3])
    combined = unit.combine(weights)
    np.testing.assert_allclose(combined, np.tensordot(weights, K, axes=1), atol=1e-8)
    assert np.all(np.diag(combined) == 1.0) and np.array_equal(combined, combined.T)
    assert np.linalg.eigvalsh(combined)[0] > -1e-10


def test_inner_products_count_the_unit_diagonal(kernels, rng):
    unit, K = kernels
    M = rng.normal(size=(90, 90))
    np.testing.assert_allclose(unit.inner(M), np.einsum("lij,ij->l", K, M), atol=1e-5)
    assert np.trace(M) != 0 and not np.shares_memory(M, unit.inner(M))


def test_the_shortcut_equals_centred_matrices_without_their_diagonals(kernels):
    unit, K = kernels
    C = np.eye(90) - 1 / 90
    centred = C @ K @ C
    centred[:, np.arange(90), np.arange(90)] = 0.0
    chosen = np.array([2, 0])
    np.testing.assert_allclose(unit.gram(chosen), np.einsum("kij,lij->kl", centred[chosen], centred), rtol=1e-5)


def test_some_kernels_come_in_the_order_asked_for(kernels):
    unit, K = kernels
    order = np.array([2, 0, 1])
    weights = np.array([0.5, 0.2, 0.3])
    np.testing.assert_allclose(unit.take(order).combine(weights), np.tensordot(weights, K[order], axes=1), atol=1e-8)
    assert unit.take(np.arange(3)) is unit


def test_rows_of_the_gram_matrix_are_computed_once(kernels, monkeypatch):
    unit, _ = kernels
    asked = []
    gram = unit.stack.gram
    monkeypatch.setattr(unit.stack, "gram", lambda new: asked.append(new.tolist()) or gram(new))
    first = unit.gram(np.array([1, 0]))
    second = unit.gram(np.array([0, 2, 1]))
    assert asked == [[1, 0], [2]]
    np.testing.assert_array_equal(first, second[[2, 0]])
