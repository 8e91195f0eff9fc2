from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone

from tamis.base.kernel_model import KernelExpansion
from tamis.codec import Encoding, decode, read, write
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
            ({"a": np.array([[1, np.nan], [np.nan, 1]])}, "kernel 'a' holds NaN, first in row 0: fill or drop.*lacks"),
            ({"a": np.array([[np.nan, np.nan], [np.nan, np.inf]])}, "kernel 'a' holds infinite values, first in row 1"),
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
        with pytest.raises(ValueError, match=r"values holds NaN.*a row of NaN alone if they lack the kernel"):
            kernel.extended(np.r_[np.nan, np.ones(N - 1)][None])
        with pytest.raises(ValueError, match="values holds NaN or infinite"):
            kernel.extended(np.r_[np.inf, np.ones(N - 1)][None])

    def test_it_stands_on_one_column(self, kernel):
        with pytest.raises(ValueError, match="one column of positions"):
            kernel(np.zeros((2, 2)), np.zeros((2, 2)))


def lacking(stack, absent):
    """The stack with NaN, with 1e6 and with rubbish in the rows and columns of absent items (L, N)."""
    gaps = absent[:, :, None] | absent[:, None, :]
    rubbish = np.random.default_rng(7).normal(size=stack.shape) * 1e6
    rubbish[:, ::2] = np.inf
    return [np.where(gaps, filling, stack) for filling in (np.nan, 1e6, rubbish)]


class TestAbsentItems:
    @pytest.fixture
    def absent(self):
        absent = np.zeros((3, N), dtype=bool)
        absent[0, [2, 5]] = absent[1, [5, 8]] = True
        return absent

    def test_have_zeros_whatever_stands_in_their_rows_and_columns(self, stack, absent):
        every = column(*range(N), np.nan)
        for given in lacking(stack, absent):
            made = bank(precomputed(given, present=~absent.T))
            assert made == bank(precomputed(given, present=~absent.T))
            for K, gone, channel in zip(stack, absent, made.channels, strict=True):
                expected = np.where(gone[:, None] | gone, 0.0, K)
                np.testing.assert_array_equal(channel(every, every), np.pad(expected, (0, 1)))
            np.testing.assert_array_equal(made.presence(every), np.vstack([~absent.T, [[False] * 3]]))

    def test_are_the_rows_or_columns_of_nan(self, stack, absent):
        whole, _, _ = lacking(stack, absent)
        rows, columns = stack.copy(), stack.copy()
        rows[absent], columns.transpose(0, 2, 1)[absent] = np.nan, np.nan
        expected = bank(precomputed(stack, present=~absent.T))
        assert all(bank(precomputed(given)) == expected for given in (whole, rows, columns))

    def test_of_both_kinds_go_together(self, stack, absent):
        given = stack.copy()
        given[0, 2], given[:, 5], given[:, :, 5] = np.nan, 1e6, -1.0
        given[0, 2, 5] = 1.0  # of an item that lacks the kernel by `present`: not looked at
        mask = np.ones((N, 3), dtype=bool)
        mask[5, :2] = mask[8, 1] = False
        given[2] = stack[2]
        assert bank(precomputed(given, present=mask)) == bank(precomputed(stack, present=~absent.T))
        given[0, 3, 4] = np.nan
        with pytest.raises(ValueError, match=r"kernel 0 holds NaN, first in row 3.*a row of NaN alone means"):
            precomputed(given, present=mask)

    def test_are_told_in_every_form_of_a_stack(self, stack, absent):
        mask = ~absent.T
        by_name = dict(zip("abc", mask.T, strict=True))
        stacks = [stack, list(stack), stack.tolist()]
        same = [precomputed(s, list("abc"), present) for s in stacks for present in (mask, mask.astype(int), by_name)]
        same += [precomputed(dict(zip("abc", stack, strict=True)), present=p) for p in (mask, mask.tolist(), by_name)]
        same += [precomputed(stack, list("abc"), {"b": mask[:, 1], "a": mask[:, 0]})]
        same += [precomputed(stack, list("abc"), pd.DataFrame(by_name)[["c", "a", "b"]])]
        assert all(recipe == same[0] for recipe in same) and len({hash(recipe) for recipe in same}) == 1
        assert precomputed(stack[0], present=mask[:, 0]) == precomputed(stack[:1], present=mask[:, :1])
        assert precomputed(stack, present=np.ones((N, 3), dtype=bool)) == precomputed(stack) != same[0]
        assert precomputed(stack).absent is None
        assert Precomputed(stack[0], np.arange(N), np.zeros(N, dtype=bool)) == Precomputed(stack[0], np.arange(N))

    @pytest.mark.parametrize(
        ("present", "match"),
        [
            (np.ones((3, N), dtype=bool), r"present has the shape \(3, 9\): it must have \(9, 3\)"),
            (np.ones(N, dtype=bool), r"present has the shape \(9,\)"),
            (np.full((N, 3), 2), "present holds other values than True and False"),
            (np.full((N, 3), "yes"), "present holds other values"),
            (np.full((N, 3), None), "present holds other values"),
            (np.full((N, 3), np.nan), "present holds other values"),
            ({"d": [True] * N}, r"present names 'd', which is no channel: the channels are \['kernel 0'"),
            ({"kernel 1": [True]}, r"present\['kernel 1'\] has the shape \(1,\): it must have \(9,\)"),
        ],
    )
    def test_need_a_mask_that_fits(self, stack, present, match):
        with pytest.raises(ValueError, match=match):
            precomputed(stack, present=present)

    def test_symmetry_is_asked_of_the_others(self, stack):
        stack[1, 2, 7] += 1.0
        mask = np.ones((N, 3), dtype=bool)
        mask[0, 1] = False
        with pytest.raises(ValueError, match=r"kernel 1 is not symmetric: its entries \(2, 7\) and \(7, 2\)"):
            precomputed(stack, present=mask)
        mask[7, 1] = False
        precomputed(stack, present=mask)

    def test_may_be_all(self, stack):
        stack[1] = np.nan
        made = bank(precomputed(stack))
        assert not made.presence(column(0, 3))[:, 1].any() and not made.channels[1](column(0), column(0, 3)).any()

    def test_survive_narrowing_scaling_copies_and_files(self, stack, absent, tmp_path):
        A = stack @ stack.transpose(0, 2, 1)
        kernel = bank(precomputed(A, present=~absent.T)).channels[0].kernel
        assert repr(kernel) == "Precomputed(9 items, 9 of them as columns, 2 absent)"
        assert repr(precomputed(A, present=~absent.T)) == (
            "precomputed(3 kernels of 9 items, 3 of them without some kernel)"
        )
        every = column(*range(N))
        small = kernel.narrowed(column(2, 7))
        assert small.values.shape == (N, 2) and small.absent.shape == (N,)
        for one in (kernel, small, kernel.normalised(), pickle.loads(pickle.dumps(small)), deepcopy(small)):
            np.testing.assert_array_equal(one.presence(every), ~absent[0])
            write(tmp_path / "f", "thing", one)
            assert read(tmp_path / "f", "thing") == one
            assert not one(every, column(2)).any() and one(every, column(7)).any()
        assert kernel != Precomputed(kernel.values, kernel.items)
        np.testing.assert_allclose(np.diagonal(kernel.normalised().values), 1.0 - absent[0], rtol=1e-14)

    def test_files_without_absent_items_are_as_they_were(self, stack):
        content = Encoding()
        told = content.encode(Precomputed(stack[0], np.arange(N)))
        del told["parts"]["absent"]  # as written before items could lack a kernel
        assert decode(told, content.arrays) == Precomputed(stack[0], np.arange(N))

    def test_can_be_new_ones(self, stack, absent, rng):
        kernel = bank(precomputed(stack, present=~absent.T)).channels[0].kernel
        new = rng.normal(size=(3, N))
        expected = np.where(absent[0], 0.0, new)
        expected[1] = 0.0
        for filling in (np.nan, np.inf, 1e6):
            given = new.copy()
            given[:, absent[0]] = filling
            given[1, ~absent[0]] = np.nan
            long = kernel.extended(given)
            rows = column(*range(N, N + 3))
            np.testing.assert_array_equal(long(rows, column(*range(N))), expected)
            assert long.presence(rows).tolist() == [True, False, True]
            np.testing.assert_array_equal(long.presence(column(*range(N))), ~absent[0])
            small = kernel.narrowed(column(2, 7)).extended(given[:, [2, 7]])
            np.testing.assert_array_equal(small(rows, column(2, 7)), expected[:, [2, 7]])
            assert small.presence(rows).tolist() == [True, False, True]

    def test_new_ones_beside_kept_items_that_all_lack_the_kernel(self, stack, absent):
        small = bank(precomputed(stack, present=~absent.T)).channels[0].kernel.narrowed(column(2))
        long = small.extended([[3.0], [np.nan]])
        assert long.presence(column(N, N + 1)).tolist() == [True, False] and not long.values.any()
        assert small.narrowed(column(np.nan)).extended(np.empty((1, 0))).presence(column(N)).tolist() == [True]


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
