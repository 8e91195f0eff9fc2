from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

import tamis.kernels.stacks.base as stack_module
import tamis.kernels.stacks.short as short_module
import tamis.parallel as parallel_module
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Categorical, Custom, Epanechnikov, Gaussian, Laplacian, Polynomial, Sigmoid
from tamis.kernels.stacks.base import ALONE, equal_kernels
from tamis.kernels.stacks.chebyshev import Chebyshev, TwoSided

FORMS = ["dense", "streaming", "chebyshev", "factored"]
CHUNK = stack_module.MAX_CHUNK_VALUES


def set_block(monkeypatch, size):
    """Let blocks and chunks have at most so many entries."""
    monkeypatch.setattr(stack_module, "MAX_BLOCK_VALUES", size)
    for module in (stack_module, short_module):
        monkeypatch.setattr(module, "MAX_CHUNK_VALUES", min(size, CHUNK))


@pytest.fixture(params=[*FORMS, *(f"{form} in small blocks" for form in FORMS[1:])])
def pair(request, rng, monkeypatch):
    """A stack in each form, its values from the definition, and how far it may be from them."""
    form = request.param.split()[0]
    if request.param.endswith("blocks"):
        set_block(monkeypatch, 13)
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

    def test_gram(self, pair):
        stack, values, tol = pair
        kernels = np.array([2, 0])
        expected = np.einsum("kmn,lmn->kl", values[kernels], values)
        np.testing.assert_allclose(stack.gram(kernels), expected, atol=500 * tol)
        assert stack.gram(np.array([], dtype=int)).shape == (0, 4)

    def test_diagonal(self, pair):
        stack, values, tol = pair
        rows = np.arange(6)
        square = stack.take(rows=rows)
        np.testing.assert_allclose(square.diagonal(), np.diagonal(values[:, :6], axis1=1, axis2=2), atol=tol)

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
        short, dense = short_module.ChebyshevStack(bank.channels, bases, table, table), bank.stack(table, form="dense")
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
        for kernel, columns in ((Laplacian(), (0,)), (Gaussian(), (0, 1)), (Sigmoid(), (0, 1)), (np.dot, (0,))):
            channel = Channel("far", kernel, columns)
            with pytest.raises(ValueError, match=r"'far' has no short polynomial form.*use form='dense'"):
                KernelBank((channel,)).stack(table, form="chebyshev")


def test_automatic_form_is_dense_when_it_fits(rng, monkeypatch):
    import tamis.kernels.bank as bank_module

    bank, X = KernelBank((Channel("a", Gaussian(), (0,)),)), rng.normal(size=(5, 1))
    assert isinstance(bank.stack(X), stack_module.DenseStack)
    monkeypatch.setattr(bank_module, "MAX_DENSE_BYTES", 10)
    assert isinstance(bank.stack(X), stack_module.StreamingStack)


def test_an_unknown_form_is_refused(rng):
    bank, X = KernelBank((Channel("a", Gaussian(), (0,)),)), rng.normal(size=(5, 1))
    with pytest.raises(ValueError, match="form='tpyo' is unknown"):
        bank.stack(X, form="tpyo")


def minus_distance(S, T):
    return -np.abs(S - T.T)


def check_operations(stack, values, rng, tol):
    """Every pass over the kernels against their values (L, m, n)."""
    L, m, n = values.shape
    few = np.where(rng.uniform(size=L) < 0.3, rng.normal(size=L), 0.0)
    for v in (rng.normal(size=n), rng.normal(size=(n, 3)), np.where(np.arange(n) < 3, 1.0, 0.0), np.zeros(n)):
        np.testing.assert_allclose(stack.apply(v), np.einsum("lij,j...->il...", values, v), atol=tol)
        for w in (rng.normal(size=L), few, np.zeros(L)):
            total = np.tensordot(w, values, axes=1)
            np.testing.assert_allclose(stack.combine(w) @ v, total @ v, atol=tol)
    for w in (rng.normal(size=L), few, np.abs(few)):
        total = np.tensordot(w, values, axes=1)
        np.testing.assert_allclose(stack.combine(w).dense(), total, atol=tol)
        np.testing.assert_allclose(stack.combine(w).columns(np.array([3, 1])), total[:, [3, 1]], atol=tol)
    u, v, M = rng.normal(size=m), rng.normal(size=n), rng.normal(size=(m, n))
    np.testing.assert_allclose(stack.quad(u, v), np.einsum("i,lij,j->l", u, values, v), atol=tol)
    np.testing.assert_allclose(stack.inner(M), np.einsum("lij,ij->l", values, M), atol=tol)
    for k in (0, L // 2, L - 1):
        np.testing.assert_allclose(stack.one(k), values[k], atol=tol)


@pytest.fixture
def many(rng):
    """Forty channels, alike and not, in no order: equal kernels, functions of users, a group; and their tables."""
    kinds = [Sigmoid(0.4, 0.1), Gaussian(0.7), Laplacian(1.1), Epanechnikov(1.5), Polynomial(3, 0.5), minus_distance]
    channels = [Channel(f"{j}", kinds[j % 6], (j,)) for j in range(36)]
    channels += [Channel("pair", Gaussian(0.7), (0, 5)), Channel("own", Gaussian(0.3), (2,))]
    channels += [Channel(f"code {j}", Categorical(), (j,)) for j in (36, 37)]
    X, Y = rng.normal(size=(9, 38)), rng.normal(size=(6, 38))
    for table in (X, Y):
        table[:, 36:] = rng.integers(0, 3, (len(table), 2))
        table[rng.uniform(size=table.shape) < 0.1] = np.nan
        own = [c.columns[0] for c in channels if c.kernel == Custom(minus_distance)]
        table[np.isnan(table) & np.isin(np.arange(38), own)] = 0.0
    return KernelBank(tuple(channels[k] for k in rng.permutation(len(channels)))), X, Y


class TestKernelsThatAreAlike:
    @pytest.mark.parametrize("form", ["dense", "streaming"])
    @pytest.mark.parametrize("block", [1, 7, 100, 1 << 21])
    @pytest.mark.parametrize("threads", [0, 1 << 60])
    def test_passes_equal_one_call_per_kernel(self, many, rng, monkeypatch, form, block, threads):
        set_block(monkeypatch, block)
        monkeypatch.setattr(stack_module, "MIN_THREADED_VALUES", threads)
        bank, X, Y = many
        values = np.array([channel(X, Y) for channel in bank.channels])
        check_operations(bank.stack(X, Y, form=form), values, rng, 1e-12)

    def test_sub_stacks_know_what_is_alike(self, many, rng):
        bank, X, Y = many
        values = np.array([channel(X, Y) for channel in bank.channels])
        stack, chosen = bank.stack(X, Y, form="streaming"), rng.permutation(40)[:15]
        for fresh in (True, False):
            part = stack.take(rows=np.array([2, 0, 7]), kernels=chosen)
            assert (part._batches is None) == fresh
            check_operations(part, values[chosen][:, [2, 0, 7]], rng, 1e-12)
            stack.apply(np.ones(6))

    def test_equal_kernels_of_one_column_are_evaluated_together(self, rng, monkeypatch):
        X = rng.normal(size=(5, 30))
        bank = KernelBank(tuple(Channel(str(j), Sigmoid(0.1, 0.1), (j,)) for j in range(30)))
        monkeypatch.setattr(Sigmoid, "__call__", lambda *_: pytest.fail("one by one"))
        stack = bank.stack(X, form="streaming")
        assert stack.apply(np.ones(5)).shape == (5, 30) and stack.held(1 << 20).shape == (30, 5, 5)

    def test_batches_hold_equal_kernels_of_one_column_and_no_others(self, many):
        bank, _, _ = many
        batches = equal_kernels(bank.channels)
        for k, channel in enumerate(bank.channels):
            alone = len(channel.columns) > 1 or channel.kernel in (Custom(minus_distance), Gaussian(0.3))
            assert (batches.labels[k] == ALONE) == alone
            assert alone or (batches.kinds[batches.labels[k]], batches.columns[k]) == (
                channel.kernel,
                channel.columns[0],
            )
        functions = [Channel(name, minus_distance, (0,)) for name in "ab"]
        assert equal_kernels(functions).labels.tolist() == [ALONE, ALONE]

    def test_results_do_not_depend_on_the_number_of_threads(self, many, monkeypatch):
        bank, X, Y = many
        set_block(monkeypatch, 100)
        monkeypatch.setattr(stack_module, "MIN_THREADED_VALUES", 0)
        results = []
        for cores in (1, 2, 5):
            monkeypatch.setattr(parallel_module, "available_cores", lambda cores=cores: cores)
            stack = bank.stack(X, Y, form="streaming")
            results.append((stack.combine(np.linspace(0.1, 1, 40)).dense(), stack.apply(np.linspace(1, 2, 6))))
        for other in results[1:]:
            assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))

    def test_functions_of_users_are_called_from_one_thread_only(self, rng, monkeypatch):
        monkeypatch.setattr(stack_module, "MIN_THREADED_VALUES", 0)
        callers = set()

        def kernel(S, T):
            callers.add(threading.get_ident())
            return S @ T.T

        X = rng.normal(size=(5, 12))
        kernels = [kernel, Gaussian(1.0)] * 6
        stack = KernelBank(tuple(Channel(str(j), k, (j,)) for j, k in enumerate(kernels))).stack(X, form="streaming")
        stack.apply(np.ones(5)), stack.combine(np.ones(12)).dense(), stack.inner(np.ones((5, 5)))
        assert callers == {threading.get_ident()}


@pytest.fixture
def wide(rng, monkeypatch):
    """Sigmoids on columns of many ranges, one of them too wide for a short form, beside other short kernels."""
    X = rng.normal(size=(30, 24)) * rng.uniform(0.2, 1.5, 24) + rng.uniform(-1, 1, 24)
    X[3, 7], X[:, 11], X[:, 12], X[:5, 13], X[:, 14] = 60.0, 2.0, np.nan, np.nan, 0.0
    kernels = [*[Sigmoid(0.1, 0.1)] * 16, *[Sigmoid(-0.2, 0.3)] * 4, *[Gaussian(7.0)] * 3, Polynomial(2, 1.0)]
    monkeypatch.setattr("tamis.kernels.stacks.short.MAX_POLYNOMIAL_SHARE", 2.0)  # short sums on few rows
    return KernelBank(tuple(Channel(str(j), kernel, (j,)) for j, kernel in enumerate(kernels))), X


class TestShortSigmoids:
    @pytest.mark.parametrize(
        "kind, block",
        [
            *itertools.product(["square", "oblong"], [20_000, 1 << 21]),
            *itertools.product(["held", "held oblong"], [1, 100, 20_000, 1 << 21]),
            ("oblong", 1),  # small blocks take long where nothing is held
            ("square", 100),
        ],
    )
    def test_every_pass_is_within_the_bound(self, wide, rng, monkeypatch, block, kind):
        set_block(monkeypatch, block)
        monkeypatch.setattr(stack_module, "MIN_THREADED_VALUES", 0 if block in (100, 20_000) else 1 << 60)
        bank, X = wide
        Y = X[15:][::-1] if "oblong" in kind else X
        stack = bank.stack(X, Y, form="chebyshev")
        assert sum(isinstance(basis, TwoSided) for basis in stack.bases) >= 12 and 7 in stack.exact
        values = np.array([channel(X, Y) for channel in bank.channels])
        if "held" in kind:
            stack = stack.held(1 << 24)
        assert stack.error_bound.max() < 1.2e-10
        check_operations(stack, values, rng, 1e-8)

    def test_each_kernel_is_within_its_bound(self, wide):
        bank, X = wide
        stack = bank.stack(X, form="chebyshev")
        bound = stack.error_bound
        for k, channel in enumerate(bank.channels):
            assert np.abs(stack.one(k) - channel(X, X)).max() <= bound[k] + 1e-13 * max(1.0, np.nanmax(np.abs(X)) ** 2)
        assert not bound[stack.exact].any() and 0 < bound[0] < 1.2e-10

    def test_parts_of_a_stack(self, wide, rng):
        bank, X = wide
        values = np.array([channel(X, X) for channel in bank.channels])
        rows, cols, chosen = np.array([3, 29, 7]), np.array([8, 9, 8, 0]), np.array([20, 7, 0, 13, 18, 23])
        for stack in (bank.stack(X, form="chebyshev"), bank.stack(X, form="chebyshev").held(1 << 24)):
            part = stack.take(rows, cols, chosen)
            assert part.exact.tolist() == [1]
            check_operations(part, values[chosen][np.ix_(range(6), rows, cols)], rng, 1e-8)
            square = stack.take(rows, rows, chosen)
            assert square.sums.X is square.sums.Y
            np.testing.assert_array_equal(square.error_bound, stack.error_bound[chosen])
            np.testing.assert_allclose(square.one(3), values[13][np.ix_(rows, rows)], atol=1e-9)

    def test_what_is_held_is_not_computed_again(self, wide, monkeypatch):
        bank, X = wide
        stack = bank.stack(X, form="chebyshev")
        size = 8 * (stack.sums.entries + len(stack.exact) * 30 * 30)
        held, before = stack.held(size), stack.combine(np.ones(24)).dense()
        assert stack.held(8 * stack.sums.entries - 1) is stack
        monkeypatch.setattr(TwoSided, "left", lambda *_: pytest.fail("made again"))
        monkeypatch.setattr(Sigmoid, "__call__", lambda *_: pytest.fail("evaluated again"))
        monkeypatch.setattr(Sigmoid, "each", lambda *_: pytest.fail("evaluated again"))
        np.testing.assert_allclose(held.combine(np.ones(24)).dense(), before, atol=1e-11)
        assert held.apply(np.ones(30)).shape == (30, 24) and held.quad(np.ones(30)).shape == (24,)

    def test_few_rows_are_evaluated_exactly(self, wide):
        bank, X = wide
        stack = KernelBank(bank.channels[:20]).stack(X, X[:3], form="chebyshev")
        assert len(stack.exact) == 20 and not stack.error_bound.any()

    def test_coefficients_of_the_wrong_length_are_refused(self, wide):
        bank, X = wide
        with pytest.raises(ValueError, match="coef has 29 rows, but the stack has 30 columns"):
            bank.stack(X, form="chebyshev").apply(np.ones(29))
