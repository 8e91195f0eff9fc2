from __future__ import annotations

import numpy as np
import pytest

import tamis.kernels.stack as stack_module
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Categorical, Gaussian, Laplacian, Polynomial
from tamis.kernels.chebyshev import Chebyshev

FORMS = ["dense", "streaming", "chebyshev", "factored"]


@pytest.fixture(params=[*FORMS, *(f"{form} in small blocks" for form in FORMS[1:])])
def pair(request, rng, monkeypatch):
    """A stack in each form, its values from the definition, and how far it may be from them."""
    form = request.param.split()[0]
    if request.param.endswith("blocks"):
        monkeypatch.setattr(stack_module, "BLOCK", 13)
    X, Y = rng.normal(size=(9, 4)), rng.normal(size=(6, 4))
    X[:, 3], Y[:, 3] = rng.integers(0, 3, 9), rng.integers(0, 3, 6)
    X[2, 0] = Y[1, 0] = np.nan
    bank = KernelBank(
        (
            Channel("a", Gaussian(0.7), (0,)),
            Channel("b", Gaussian(1.3), (1,) if form == "chebyshev" else (1, 2)),
            Channel("c", Categorical(), (3,)),
            Channel("d", Polynomial(2, 1.0), (1,)),
        )
    )
    values = np.array([[[float(c(x[None], y[None])[0, 0]) for y in Y] for x in X] for c in bank.channels])
    if form == "factored":  # so many copies of the rows that every kernel has a short factor
        stack = bank.stack(np.tile(np.concatenate([X, Y]), (9, 1)), form=form).take(np.arange(9), np.arange(9, 15))
        assert not len(stack.streamed)
    else:
        stack = bank.stack(X, Y, form=form)
    return stack, values, 1e-12 + (10 * stack.error_bound.max() if form in ("chebyshev", "factored") else 0.0)


class TestEveryForm:
    def test_has_the_shape_kernels_rows_columns(self, pair):
        stack, values, _ = pair
        assert stack.shape == values.shape

    def test_one(self, pair):
        stack, values, tol = pair
        for k in range(4):
            np.testing.assert_allclose(stack.one(k), values[k], atol=tol)

    def test_combine(self, pair, rng):
        stack, values, tol = pair
        w, v = np.array([0.5, 0.0, -2.0, 1.0]), rng.normal(size=(6, 2))
        dense = np.tensordot(w, values, axes=1)
        np.testing.assert_allclose(stack.combine(w).dense(), dense, atol=tol)
        np.testing.assert_allclose(stack.combine(w) @ v, dense @ v, atol=tol)
        np.testing.assert_allclose(stack.combine(w).columns(np.array([4, 1])), dense[:, [4, 1]], atol=tol)
        assert not stack.combine(np.zeros(4)).dense().any()

    def test_apply(self, pair, rng):
        stack, values, tol = pair
        for v in (rng.normal(size=6), rng.normal(size=(6, 3))):
            np.testing.assert_allclose(stack.apply(v), np.einsum("lij,j...->il...", values, v), atol=tol)

    def test_quad(self, pair, rng):
        stack, values, tol = pair
        u, v = rng.normal(size=9), rng.normal(size=6)
        np.testing.assert_allclose(stack.quad(u, v), np.einsum("i,lij,j->l", u, values, v), atol=tol)

    def test_inner(self, pair, rng):
        stack, values, tol = pair
        M = rng.normal(size=(9, 6))
        np.testing.assert_allclose(stack.inner(M), np.einsum("lij,ij->l", values, M), atol=tol)

    def test_take(self, pair):
        stack, values, tol = pair
        rows, cols = np.array([5, 0, 7]), np.array([2, 2, 1])
        part = stack.take(rows, cols)
        np.testing.assert_allclose(part.one(1), values[1][np.ix_(rows, cols)], atol=tol)
        np.testing.assert_allclose(stack.take(cols=cols).one(0), values[0][:, cols], atol=tol)
        for chosen in (np.array([3, 1]), slice(1, 3)):
            part = stack.take(cols=cols, kernels=chosen)
            np.testing.assert_allclose(part.one(1), values[chosen][1][:, cols], atol=tol)
            assert part.shape == (2, 9, 3)


@pytest.fixture
def table(rng):
    return np.clip(rng.normal(size=(400, 3)), -4, 4)


class TestChebyshevForm:
    def test_gram_matrix_agrees_with_24_polynomials(self, table):
        bank = KernelBank(tuple(Channel(str(j), Gaussian(1.0), (j,)) for j in range(3)))
        bases = [Chebyshev(-4.0, 4.0, 24)] * 3
        short, dense = stack_module.ChebyshevStack(bank.channels, bases, table, table), bank.stack(table, form="dense")
        weights = np.array([1.0, -0.5, 2.0])
        A, B = short.combine(weights).dense(), dense.combine(weights).dense()
        np.testing.assert_allclose(A, B, atol=1e-6 * np.abs(B).max())
        np.testing.assert_allclose(A.T @ A, B.T @ B, atol=1e-6 * np.abs(B.T @ B).max())

    def test_error_bound_holds(self, table):
        bank = KernelBank((Channel("a", Gaussian(1.0), (0,)), Channel("b", Gaussian(0.1), (1,))))
        short, dense = bank.stack(table, form="chebyshev"), bank.stack(table, form="dense")
        for k in range(2):
            assert 0 < np.abs(short.one(k) - dense.one(k)).max() <= short.error_bound[k]

    def test_kernels_without_a_short_form_are_refused(self, table):
        for channel in (Channel("far", Laplacian(), (0,)), Channel("far", Gaussian(), (0, 1))):
            with pytest.raises(ValueError, match=r"'far' has no short polynomial form.*use form='dense'"):
                KernelBank((channel,)).stack(table, form="chebyshev")


def test_automatic_form_is_dense_when_it_fits(rng, monkeypatch):
    import tamis.kernels.bank as bank_module

    bank, X = KernelBank((Channel("a", Gaussian(), (0,)),)), rng.normal(size=(5, 1))
    assert isinstance(bank.stack(X), stack_module.DenseStack)
    monkeypatch.setattr(bank_module, "MEMORY", 10)
    assert isinstance(bank.stack(X), stack_module.StreamingStack)


def test_an_unknown_form_is_refused(rng):
    bank, X = KernelBank((Channel("a", Gaussian(), (0,)),)), rng.normal(size=(5, 1))
    with pytest.raises(ValueError, match="form='tpyo' is unknown"):
        bank.stack(X, form="tpyo")
