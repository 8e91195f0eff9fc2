from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from tamis.codec import read, write
from tamis.expansion import KernelExpansion
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Gaussian
from tamis.kernels.precomputed import Precomputed, precomputed
from tamis.kernels.recipes import Sample, per_feature

N = 9


@pytest.fixture
def stack(rng):
    A = rng.normal(size=(3, N, N))
    return A + A.transpose(0, 2, 1)


def column(*positions):
    return np.array(positions, dtype=float)[:, None]


def sample(Z=None, nominal=False):
    Z = column(*range(N)) if Z is None else Z
    d = Z.shape[1]
    return Sample(Z, [f"x{j}" for j in range(d)], np.full(d, nominal), np.ones((len(Z), 1)), np.ones(len(Z)), 20, 0)


def bank(recipe, Z=None):
    return recipe.bank(sample(Z), 1.0)


class TestRecipe:
    def test_values_are_looked_up_at_the_positions_in_the_table(self, stack):
        channels = bank(precomputed(stack)).channels
        S, T = column(3, 0, 3), column(8, 1)
        assert [c.name for c in channels] == ["kernel 0", "kernel 1", "kernel 2"]
        for K, channel in zip(stack, channels, strict=True):
            np.testing.assert_array_equal(channel(S, T), K[np.ix_([3, 0, 3], [8, 1])])

    def test_every_form_of_a_stack_gives_the_same(self, stack):
        same = [stack, list(stack), tuple(stack), stack.tolist(), dict(zip("abc", stack, strict=True))]
        banks = [bank(precomputed(s, None if isinstance(s, dict) else ["a", "b", "c"])) for s in same]
        assert all(b == banks[0] for b in banks)
        one = [stack[0], stack[:1], stack[0].tolist(), [stack[0]], {"kernel 0": stack[0]}]
        assert all(bank(precomputed(s)) == bank(precomputed(one[0])) for s in one)
        assert bank(precomputed(stack[0], "dtw")).names == ["dtw"]

    def test_rounding_is_symmetrised_exactly_and_the_input_stays(self, stack, rng):
        noisy = stack + 1e-8 * rng.normal(size=stack.shape)
        before = noisy.copy()
        K = bank(precomputed(noisy)).channels[1](column(*range(N)), column(*range(N)))
        np.testing.assert_array_equal(K, K.T)
        np.testing.assert_allclose(K, stack[1], atol=1e-7)
        np.testing.assert_array_equal(noisy, before)

    def test_the_estimator_can_ask_for_positions(self, stack):
        recipe = precomputed(stack, ["a", "b", "c"])
        assert recipe.positions and (recipe + precomputed(stack)).positions and not per_feature().positions
        assert bank(recipe).positions and not KernelBank((Channel("a", Gaussian(), (0,)),)).positions

    def test_equal_kernels_are_offered_once_when_recipes_add_up(self, stack):
        both = bank(precomputed(stack[:2], ["a", "b"]) + precomputed(stack[1:], ["b", "c"]))
        assert both.names == ["a", "b", "c"]
        with pytest.raises(ValueError, match="two kernels are named 'a'"):
            bank(precomputed(stack[0], "a") + precomputed(stack[1], "a"))

    def test_recipes_on_features_are_not_mixed_in(self, stack):
        with pytest.raises(ValueError, match="recipes on features cannot be added"):
            bank(per_feature() + precomputed(stack))

    @pytest.mark.parametrize("Z", [np.zeros((4, 2)), np.zeros((4, 0))])
    def test_tables_of_other_than_one_column_are_refused(self, stack, Z):
        with pytest.raises(ValueError, match=rf"one column of whole numbers from 0 to 8.*X has {Z.shape[1]} columns"):
            bank(precomputed(stack), Z)

    def test_a_category_is_refused(self, stack):
        with pytest.raises(ValueError, match="X has a category"):
            precomputed(stack).bank(sample(nominal=True), 1.0)

    @pytest.mark.parametrize("position", [9.0, -1.0, 0.5, np.inf, -np.inf, 1e300])
    def test_what_is_not_a_position_is_refused(self, stack, position):
        with pytest.raises(ValueError, match=r"X holds position .*the precomputed kernels have 9 items.*from 0 to 8"):
            bank(precomputed(stack), column(0, position))


class TestBadStacks:
    @pytest.mark.parametrize(
        ("stack", "match"),
        [
            ([], "stack is empty"),
            ({}, "stack is empty"),
            (np.zeros((0, 3, 3)), "stack is empty"),
            (np.zeros((0, 0)), r"kernel 0 has the shape \(0, 0\)"),
            (np.zeros((2, 3)), r"kernel 0 has the shape \(2, 3\)"),
            ([np.eye(2), np.zeros((2, 3))], r"kernel 1 has the shape \(2, 3\)"),
            ([np.eye(2), np.eye(3)], "kernel 1 is between 3 items, but kernel 0 is between 2"),
            ({"a": np.eye(2), "b": np.array([[1, 2], [3, 4]])}, r"kernel 'b' is not symmetric.*\(0, 1\).*2 and 3"),
            ({"a": np.array([[1, np.nan], [np.nan, 1]])}, "kernel 'a' holds NaN, first in row 0: fill or drop"),
            ({"a": np.diag([1, np.inf])}, "kernel 'a' holds infinite values, first in row 1"),
            ([[["a"]]], "kernel 0 is not a matrix of real numbers"),
            ([[[1, 2], [3]]], "kernel 0 is not a matrix of real numbers"),
            (1j * np.eye(2), "kernel 0 is not a matrix of real numbers"),
            ([1, 2], r"kernel 0 has the shape \(\)"),
            (np.zeros((1, 1, 1, 1)), r"kernel 0 has the shape \(1, 1, 1\)"),
            (3, "stack=3 must be an array"),
            (np.array(3.0), "must be an array"),
            ("abc", "stack='abc' must be an array"),
        ],
    )
    def test_are_refused_with_the_kernel_named(self, stack, match):
        with pytest.raises(ValueError, match=match):
            precomputed(stack)

    def test_names_must_fit(self, stack):
        with pytest.raises(ValueError, match="names has 2 entries, but the stack has 3 kernels"):
            precomputed(stack, ["a", "b"])
        with pytest.raises(ValueError, match="two kernels are named 'a'"):
            precomputed(stack, ["a", "b", "a"])
        with pytest.raises(ValueError, match="keys of a dict are the names already"):
            precomputed({"a": stack[0]}, ["b"])


class TestKernel:
    @pytest.fixture
    def kernel(self, stack):
        return Precomputed(stack[0], np.arange(N))

    def test_an_absent_row_has_zeros(self, kernel, stack):
        K = kernel(column(2, np.nan), column(np.nan, 4))
        np.testing.assert_array_equal(K, [[0, stack[0, 2, 4]], [0, 0]])

    def test_a_narrowed_kernel_keeps_its_values_from_either_side(self, kernel, stack):
        small = kernel.narrowed(column(7, np.nan, 2, 7))
        assert small.values.shape == (N, 2) and small.items.tolist() == [2, 7]
        every, kept = column(*range(N)), column(7, 2, np.nan)
        np.testing.assert_array_equal(small(every, kept), kernel(every, kept))
        np.testing.assert_array_equal(small(kept, every), kernel(kept, every))
        np.testing.assert_array_equal(small.narrowed(column(7))(every, column(7)), kernel(every, column(7)))
        assert not small.narrowed(column(np.nan))(every, column(np.nan)).any()

    def test_a_narrowed_kernel_says_what_it_does_not_hold(self, kernel):
        small = kernel.narrowed(column(2, 7))
        with pytest.raises(ValueError, match=r"with 2 of them, and neither position 4 nor position 3 .*fit again"):
            small(column(2, 4), column(7, 3))
        with pytest.raises(ValueError, match="position 3 is not a column"):
            small.narrowed(column(3, 2))
        with pytest.raises(ValueError, match="X holds position 9"):
            small(column(9), column(7))

    def test_new_items_follow_the_known_ones(self, kernel, rng):
        new = rng.normal(size=(2, N))
        long = kernel.extended(new)
        np.testing.assert_array_equal(long(column(10, 1, 9), column(3, 0))[[0, 2]], new[::-1][:, [3, 0]])
        np.testing.assert_array_equal(long(column(3, 0), column(10)), new[[1]][:, [3, 0]].T)
        small = kernel.narrowed(column(2, 7)).extended(new[:, [2, 7]])
        np.testing.assert_array_equal(small(column(*range(N + 2)), column(7)), long(column(*range(N + 2)), column(7)))
        with pytest.raises(ValueError, match="neither position 9 nor position 10"):
            long(column(9), column(10))

    def test_new_items_need_all_their_values(self, kernel):
        with pytest.raises(ValueError, match=r"values has the shape \(1, 2\).*each of the 9 positions"):
            kernel.extended([[1.0, 2.0]])
        with pytest.raises(ValueError, match="values holds NaN"):
            kernel.extended(np.full((1, N), np.nan))

    def test_it_stands_on_one_column(self, kernel):
        with pytest.raises(ValueError, match="one column of positions"):
            kernel(np.zeros((2, 2)), np.zeros((2, 2)))


class TestAsAValue:
    def test_equality_and_hash_go_by_the_numbers(self, stack):
        a, b, c = precomputed(stack), precomputed(stack.copy()), precomputed(2 * stack)
        assert a == b and hash(a) == hash(b) and a != c and a != 1
        assert len({*bank(a).channels, *bank(b).channels}) == 3
        assert Precomputed(stack[0], np.arange(N)) != Precomputed(stack[1], np.arange(N))
        assert a != precomputed(stack, ["x", "y", "z"])

    def test_it_prints_without_its_numbers(self, stack):
        assert repr(precomputed(stack)) == "precomputed(3 kernels of 9 items)"
        assert repr(precomputed(stack[0])) == "precomputed(1 kernel of 9 items)"
        assert repr(Precomputed(stack[0], np.arange(N))) == "Precomputed(9 items, 9 of them as columns)"

    def test_an_estimator_that_holds_it_can_be_cloned_and_printed(self, stack):
        class Model(BaseEstimator):
            def __init__(self, kernels=None):
                self.kernels = kernels

        model = Model(precomputed(stack))
        again = clone(model)
        assert again.kernels == model.kernels and again.get_params() == model.get_params()
        assert "precomputed(3 kernels of 9 items)" in repr(model)

    def test_copies_share_numbers_that_nobody_can_change(self, stack):
        recipe = precomputed(stack)
        assert deepcopy(recipe) is recipe and pickle.loads(pickle.dumps(recipe)) == recipe
        with pytest.raises(ValueError, match="read-only"):
            recipe.stack[0, 0, 0] = 1.0
        mine = np.eye(2)
        Precomputed(mine, np.arange(2))
        mine[0, 0] = 3.0  # an own array stays writeable

    def test_recipe_and_bank_come_back_from_a_file(self, stack, tmp_path):
        recipe = precomputed(stack)
        for value in (bank(recipe), bank(recipe).narrowed(column(1, 5))):
            write(tmp_path / "f", "thing", value)
            assert read(tmp_path / "f", "thing") == value
        write(tmp_path / "f", "thing", recipe)
        again = read(tmp_path / "f", "thing")
        assert again.names == recipe.names
        with pytest.raises(ValueError, match="from a file"):
            bank(again)


def test_a_restricted_expansion_keeps_only_the_columns_of_its_instances(stack, rng, tmp_path):
    Z = column(4, 0, 8, 3)
    coef = rng.normal(size=(2, 4, 3))
    coef[:, [0, 2]], coef[:, :, 1] = 0, 0
    whole = KernelExpansion(bank(precomputed(stack)), Z, np.zeros(2), coef)
    small, rows, kernels, _ = whole.restricted()
    assert rows.tolist() == [1, 3] and kernels.tolist() == [0, 2]
    assert [channel.kernel.values.shape for channel in small.bank.channels] == [(N, 2)] * 2
    every = column(*range(N), np.nan)
    np.testing.assert_allclose(small.decision(every), whole.decision(every), atol=1e-12)
    write(tmp_path / "f", "thing", small)
    np.testing.assert_array_equal(read(tmp_path / "f", "thing").decision(every), small.decision(every))
    assert (tmp_path / "f").stat().st_size < 6000


def test_a_channel_narrows_its_kernel_to_its_own_column(stack):
    one = KernelBank((Channel("a", Precomputed(stack[0], np.arange(N)), (1,)),))
    small = one.narrowed(np.array([[0.0, 4.0], [1.0, 6.0]]))
    assert small.channels[0].kernel.items.tolist() == [4, 6] and small.channels[0].columns == (1,)


def test_kernels_that_hold_no_values_are_not_narrowed(rng):
    plain = KernelBank((Channel("a", Gaussian(), (0,)), Channel("b", np.multiply.outer, (1,))))
    assert plain.narrowed(rng.normal(size=(2, 2))) == plain


@pytest.mark.parametrize("form", ["dense", "streaming"])
def test_stacks_take_precomputed_kernels(stack, form):
    X, Y = column(*range(N)), column(2, 5)
    made = bank(precomputed(stack))
    for source in (made, made.narrowed(Y)):
        np.testing.assert_array_equal(source.stack(X, Y, form=form).one(1), stack[1][:, [2, 5]])
