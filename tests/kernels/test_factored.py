"""Kernels as products of short factors."""

from __future__ import annotations

import numpy as np
import pytest

import tamis.kernels.stacks.factored as module
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Categorical, Gaussian, Laplacian, Polynomial, Sigmoid


@pytest.fixture
def table(rng):
    X = rng.normal(size=(160, 4))
    X[:, 3] = rng.integers(0, 4, 160)
    X[5, 0] = X[9, 3] = X[7, 1] = np.nan
    X[11, 1:3] = np.nan
    return X


BANK = KernelBank(
    (
        Channel("line", Gaussian(1.0), (0,)),
        Channel("wide", Gaussian(300.0), (2,)),
        Channel("plane", Gaussian(20.0), (1, 2)),
        Channel("levels", Categorical(), (3,)),
        Channel("codes", Gaussian(1.0, (2.0,)), (3,)),
        Channel("narrow", Gaussian(0.01), (0,)),
        Channel("rough", Laplacian(0.5), (2,)),
        Channel("curve", Polynomial(2, 1.0), (1, 2)),
        Channel("saddle", Sigmoid(1.0, 0.5), (2,)),
        Channel("flat", Polynomial(0, 1.0), (2,)),
    )
)
STREAMED = {"narrow", "rough", "saddle"}


@pytest.fixture
def both(table):
    return BANK.stack(table, form="factored"), BANK.stack(table, form="dense")


def test_smooth_kernels_are_factored_and_the_others_streamed(both):
    assert {BANK.names[k] for k in both[0].streamed} == STREAMED


def test_values_are_within_the_error_bound(both):
    short, dense = both
    for k in range(len(BANK)):
        K = dense.one(k)
        off = np.abs(short.one(k) - K).max()
        assert off <= short.error_bound[k] + 1e-13 * np.abs(K).max()
        assert short.error_bound[k] <= 1e-9 * np.abs(np.diagonal(K)).max()


def test_error_bound_is_not_a_formality(both):
    assert np.abs(both[0].one(0) - both[1].one(0)).max() > 1e-3 * both[0].error_bound[0] > 0


def test_variation_of_a_nearly_constant_kernel_is_kept(both, rng):
    v = rng.normal(size=160)
    v -= v.mean()
    got, exact = both[0].quad(v)[1], both[1].quad(v)[1]
    assert exact < 1e-2 and got == pytest.approx(exact, rel=1e-7)


def test_a_kernel_with_many_levels_of_detail_is_cut_at_the_share_of_rows(table, monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_FACTOR", 40)  # four factors
    stack = BANK.stack(table, form="factored")
    assert {BANK.names[k] for k in stack.streamed} == {"line", "plane", "curve"} | STREAMED
    assert np.bincount(stack.owner).max() <= 4


def test_factors_are_bounded_in_total(table, monkeypatch):
    monkeypatch.setattr(module, "MAX_FACTOR_VALUES", 10 * len(BANK) * len(table))
    assert np.bincount(BANK.stack(table, form="factored").owner).max() <= 10


def test_batches_give_what_single_kernels_give(table, monkeypatch):
    bank = KernelBank(tuple(Channel(f"{c} {w}", Gaussian(w), (c,)) for c in (0, 2) for w in (0.5, 1.0, 3.0)))
    whole = bank.stack(table, form="factored")
    monkeypatch.setattr(module, "SIDE_BY_SIDE", 1)
    single = bank.stack(table, form="factored")
    np.testing.assert_array_equal(whole.owner, single.owner)
    np.testing.assert_allclose(whole.left, single.left, atol=1e-7)


def test_operations_mix_factored_and_streamed_kernels(both, rng):
    short, dense = both
    w = np.where(np.arange(len(BANK)) == 3, 0.0, rng.normal(size=len(BANK)))
    u, v, V = rng.normal(size=160), rng.normal(size=160), rng.normal(size=(160, 2))
    M = rng.normal(size=(160, 160))
    for name, got, exact in (
        ("dense", short.combine(w).dense(), dense.combine(w).dense()),
        ("positive", short.combine(np.abs(w)).dense(), dense.combine(np.abs(w)).dense()),
        ("columns", short.combine(w).columns(np.array([4, 4, 0])), dense.combine(w).columns(np.array([4, 4, 0]))),
        ("vector", short.combine(w) @ v, dense.combine(w) @ v),
        ("vectors", short.combine(w) @ V, dense.combine(w) @ V),
        ("apply", short.apply(v), dense.apply(v)),
        ("applies", short.apply(V), dense.apply(V)),
        ("quad", short.quad(v), dense.quad(v)),
        ("bilinear", short.quad(u, v), dense.quad(u, v)),
        ("inner", short.inner(M), dense.inner(M)),
        ("block", short.block(8, slice(3, 9)), dense.block(8, slice(3, 9))),
        ("rows", short.weighted(w, slice(3, 9)), dense.weighted(w, slice(3, 9))),
        ("nothing", short.combine(0 * w).dense(), np.zeros((160, 160))),
    ):
        np.testing.assert_allclose(got, exact, atol=1e-8 * np.abs(exact).max() + 1e-10, err_msg=name)


def test_combined_matrix_is_exactly_symmetric(both, rng):
    K = both[0].take(kernels=np.array([0, 1, 2, 3])).combine(np.array([1.0, -0.5, 2.0, 0.0])).dense()
    np.testing.assert_array_equal(K, K.T)


def test_sub_stacks_keep_the_order_of_kernels(both):
    short, dense = both
    kernels, rows, cols = np.array([8, 2, 5, 0]), np.array([7, 7, 1]), np.array([2, 11])
    part, exact = short.take(rows, cols, kernels), dense.take(rows, cols, kernels)
    assert part.shape == (4, 3, 2) and part.streamed.tolist() == [0, 2]
    for k in range(4):
        np.testing.assert_allclose(part.one(k), exact.one(k), atol=1e-8)
    again = part.take(kernels=np.array([1, 3]), rows=np.array([2, 0]))
    np.testing.assert_allclose(again.one(0), exact.one(1)[[2, 0]], atol=1e-8)
    assert not len(again.streamed)


def test_a_square_sub_stack_is_square(both):
    rows = np.array([3, 8, 21])
    part = both[0].take(rows=rows, cols=rows)
    assert part.left is part.right
    np.testing.assert_allclose(part.quad(np.ones(3)), both[1].take(rows=rows, cols=rows).quad(np.ones(3)), atol=1e-8)


def test_held_values_are_the_same_and_are_not_computed_again(both, table, monkeypatch):
    short, _ = both
    held = short.held(1 << 30)
    expected = short.quad(np.ones(160))
    monkeypatch.setattr(Channel, "__call__", lambda *_: pytest.fail("computed again"))
    np.testing.assert_allclose(held.quad(np.ones(160)), expected, rtol=1e-12)


def test_nothing_is_held_beyond_the_limit(table):
    stack = BANK.stack(table, form="streaming")
    assert stack.held(8 * len(BANK) * 160**2) is not stack
    assert stack.held(8 * len(BANK) * 160**2 - 1) is stack


def test_rough_kernels_are_shorter_and_as_close_as_they_say(both):
    smooth = np.flatnonzero(~np.isin(np.arange(len(BANK)), both[0].streamed))
    short, dense = both[0].take(kernels=smooth), both[1].take(kernels=smooth)
    rough = short.rough(0.05)
    assert len(rough.owner) < 0.7 * len(short.owner)
    for k in range(len(smooth)):
        off, size = np.abs(rough.one(k) - dense.one(k)).max(), np.abs(dense.one(k)).max()
        assert off <= rough.error_bound[k] + 1e-13 * size <= (0.05 + 1e-9) * size
    large = module.FactoredStack(
        10 * short.left,
        10 * short.left,
        short.owner,
        100 * short.heights,
        short.error_bound,
        short.streamed,
        short.rest,
    )
    np.testing.assert_array_equal(large.rough(0.05).owner, rough.owner)  # relative to the size of the kernel
    assert both[0].rough(0.05) is both[0]  # some kernels are streamed: a rough matrix would cost as much


def test_an_indefinite_kernel_with_a_zero_diagonal_is_not_taken_for_zero():
    class Cross:
        def __call__(self, S, T):
            return S @ np.array([[0.0, 1.0], [1.0, 0.0]]) @ T.T

    X = np.tile(np.eye(2), (40, 1))
    stack = KernelBank((Channel("cross", Cross(), (0, 1)),)).stack(X, form="factored")
    assert stack.streamed.tolist() == [0]
    np.testing.assert_array_equal(stack.one(0), Cross()(X, X))


def test_a_negative_variance_stops_the_factor():
    K = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.5]])
    assert module._pivoted(lambda j: K[j], np.diagonal(K), 3) is None
    K[0, 1] = K[1, 0] = 0.5
    assert len(module._pivoted(lambda j: K[j], np.diagonal(K), 3).rows) == 3


def test_a_kernel_of_unknown_kind_is_factored_if_its_values_agree():
    class Plain:
        def __call__(self, S, T):
            return S @ T.T

    X = np.random.default_rng(0).normal(size=(50, 2))
    stack = KernelBank((Channel("plain", Plain(), (0, 1)),)).stack(X, form="factored")
    assert len(stack.owner) == 2 and stack.error_bound[0] < 1e-12
    np.testing.assert_allclose(stack.one(0), X @ X.T, atol=1e-12)


def test_rows_without_any_column_have_no_factor():
    X = np.full((20, 1), np.nan)
    stack = KernelBank((Channel("a", Gaussian(), (0,)), Channel("b", Categorical(), (0,)))).stack(X, form="factored")
    assert not len(stack.streamed) and not stack.quad(np.ones(20)).any() and not stack.combine(np.ones(2)).dense().any()


def test_two_tables_are_refused(table):
    with pytest.raises(ValueError, match="form='factored' takes the rows of X alone"):
        BANK.stack(table, table[:3], form="factored")
    assert BANK.stack(table, table, form="factored").shape == (len(BANK), 160, 160)


class TestStreaming:
    """Coefficients that are zero cost nothing and change nothing."""

    def test_products_with_sparse_vectors(self, table, rng):
        stream, dense = BANK.stack(table, form="streaming"), BANK.stack(table, form="dense")
        v = np.where(rng.random(160) < 0.1, rng.normal(size=160), 0.0)
        np.testing.assert_allclose(stream.quad(v), dense.quad(v), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(stream.apply(v), dense.apply(v), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(
            stream.product(np.ones(10), v), dense.product(np.ones(10), v), rtol=1e-10, atol=1e-12
        )
        assert not stream.quad(0 * v).any() and not stream.apply(0 * v).any()

    def test_only_the_needed_values_are_computed(self, table):
        sizes = []

        def kernel(X, Y):
            sizes.append(len(X) * len(Y))
            return X @ Y.T

        stack = module.StreamingStack([Channel("k", kernel, (2,))], table, table)
        stack.quad(np.eye(160)[3] + np.eye(160)[5])
        assert sum(sizes) == 4


def test_more_than_the_tolerance_is_aimed_at_but_not_insisted_on(table):
    plane, wide = BANK.channels[2], table[None, :, 2]
    enough, aimed = module._general(plane, table, 15), module._general(plane, table, 30)
    assert len(enough.rows) == 15 < len(aimed.rows) and aimed.error < enough.error <= 1e-9
    enough, aimed = (module._gaussians(wide, np.array([100.0]), limit)[0] for limit in (3, 30))
    assert len(enough.rows) == 3 < len(aimed.rows) and aimed.error < enough.error <= 1e-9
