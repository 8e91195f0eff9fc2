"""A row that lacks a channel is zero in it, and one can ask which channels a row has."""

from __future__ import annotations

import doctest

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import cross_val_score

import tamis.table.channels
from tamis import (
    AverageMKLClassifier,
    SimpleMKLClassifier,
    alignment_kernels,
    channels,
    codec,
    io,
    per_group,
    precomputed,
)
from tamis.kernels.bank import Channel, KernelBank, check_kernels, check_positive
from tamis.kernels.base import Categorical, Epanechnikov, Gaussian, Laplacian, Normalised, Polynomial, Sigmoid
from tamis.kernels.composed import ScaledGaussian, Whole, whole_bank
from tamis.kernels.precomputed import Precomputed
from tamis.kernels.recipes import Sample
from tamis.kernels.spectrum import Repaired, repaired, unit_bank

NAN = np.nan
BUILT_IN = [
    Gaussian(0.8),
    Laplacian(2.0),
    Epanechnikov(3.0),
    Polynomial(2, 1.0),
    Sigmoid(0.5, 0.0),
    Categorical(),
    ScaledGaussian((1.0, 0.5, 2.0)),
]


@pytest.fixture
def Z(rng):
    Z = np.round(rng.normal(size=(8, 3)), 1)
    Z[1], Z[2, 0], Z[5, 1:] = NAN, NAN, NAN
    return Z


def product_of(S, T):
    """A user's function that must not meet missing cells."""
    assert not np.isnan(S).any() and not np.isnan(T).any()
    return S @ T.T + 1.0


def sample(Z):
    d = Z.shape[1]
    return Sample(Z, [f"x{j}" for j in range(d)], np.zeros(d, dtype=bool), np.ones((len(Z), 1)), np.ones(len(Z)), 20, 0)


class TestPresence:
    @pytest.mark.parametrize("kernel", BUILT_IN, ids=lambda k: type(k).__name__)
    @pytest.mark.parametrize(
        "wrap", [lambda k: k, Normalised, lambda k: Repaired(k, "shift", *np.empty((2, 0, 3)), 2.0)]
    )
    def test_a_row_that_is_not_there_is_zero_with_all(self, kernel, wrap, Z):
        bank = KernelBank((Channel("k", wrap(kernel), (0, 1, 2)),))
        present = bank.presence(Z)
        assert present.shape == (8, 1) and present.dtype == bool
        np.testing.assert_array_equal(present[:, 0], ~np.isnan(Z).all(axis=1))
        K = bank.channels[0](Z, Z)
        assert not K[~present[:, 0]].any() and not K[:, ~present[:, 0]].any() and np.all(np.diagonal(K)[present[:, 0]])

    def test_each_channel_looks_at_its_own_columns(self, Z):
        one, three = Channel("a", Gaussian(), (0,)), Channel("c", Gaussian(), (2,))
        bank = KernelBank((one, Channel("b", product_of, (1, 2)), three))
        seen = ~np.isnan(Z)
        np.testing.assert_array_equal(bank.presence(Z), np.c_[seen[:, 0], seen[:, 1:].any(axis=1), seen[:, 2]])
        assert bank.presence(Z[:0]).shape == (0, 3) and bank.take([]).presence(Z).shape == (8, 0)

    def test_columns_of_factor_zero_do_not_count(self, Z):
        kernel = ScaledGaussian((0.0, 1.0, 0.0))
        np.testing.assert_array_equal(kernel.presence(Z), ~np.isnan(Z[:, 1]))
        np.testing.assert_array_equal(kernel.presence(Z), np.diagonal(kernel(Z, Z)) == 1.0)

    def test_a_kernels_own_rule_goes_through_what_wraps_it(self, Z):
        own = Whole(Polynomial())
        complete = ~np.isnan(Z).any(axis=1)
        for kernel in (own, Normalised(own), Repaired(own, "shift", *np.empty((2, 0, 3)), 1.0), Whole(Normalised(own))):
            np.testing.assert_array_equal(KernelBank((Channel("k", kernel, (0, 1, 2)),)).presence(Z)[:, 0], complete)
            assert not kernel(Z, Z)[~complete].any()

    def test_a_shift_leaves_items_that_lack_the_kernel_at_zero(self, rng):
        A = rng.normal(size=(6, 6))
        positions, present = np.arange(6.0)[:, None], np.arange(6) != 2
        recipe = repaired(precomputed(A + A.T, present=present), "shift")
        bank = recipe.bank(sample(positions), 1.0)
        K = bank.channels[0](positions, positions)
        np.testing.assert_array_equal(bank.presence(positions)[:, 0], present)
        assert bank.channels[0].kernel.shift > 0 and not K[2].any() and not K[:, 2].any()
        shift = bank.channels[0].kernel.shift
        np.testing.assert_allclose(K, np.outer(present, present) * (A + A.T) + shift * np.diag(present))

    def test_series_without_a_channel_lack_its_kernel(self, rng):
        waves = rng.normal(size=(5, 2, 7))
        waves[3, 1] = NAN
        positions = np.arange(5.0)[:, None]
        present = alignment_kernels(waves).bank(sample(positions), 1.0).presence(positions)
        assert np.argwhere(~present).tolist() == [[3, 1]]


class TestWhole:
    @pytest.mark.parametrize("kernel", [*BUILT_IN, product_of], ids=lambda k: getattr(k, "__name__", type(k).__name__))
    def test_is_the_kernel_between_complete_rows_and_zero_elsewhere(self, kernel, Z):
        complete = ~np.isnan(Z).any(axis=1)
        T, few = Z[::-1], complete[::-1]
        K = Whole(kernel)(Z, T)
        np.testing.assert_allclose(K[np.ix_(complete, few)], kernel(Z[complete], T[few]), rtol=1e-13)
        assert not K[~complete].any() and not K[:, ~few].any()
        np.testing.assert_array_equal(Whole(kernel)(Z[complete], T[few]), kernel(Z[complete], T[few]))
        np.testing.assert_array_equal(Whole(kernel)(Z, T)[complete], Whole(kernel)(Z[complete], T))
        np.testing.assert_array_equal(Whole(kernel).presence(Z), complete)
        assert Whole(kernel)(Z[~complete], Z).shape == (3, 8) and not Whole(kernel)(Z[~complete], Z).any()

    def test_says_of_itself_what_the_kernel_says(self):
        assert Whole(Gaussian()).positive and Whole(Gaussian()).unit
        assert Whole(Polynomial()).positive and not Whole(Polynomial()).unit
        assert not Whole(Sigmoid()).positive and not Whole(product_of).positive
        assert Whole(Gaussian(2.0)) == Whole(Gaussian(2.0)) != Whole(Gaussian())

    def test_is_scaled_between_complete_rows_only(self, Z):
        complete = ~np.isnan(Z).any(axis=1)
        bank, scaled = unit_bank(KernelBank((Channel("k", Whole(product_of), (0, 1, 2)),)), Z)
        assert scaled == ["k"] and isinstance(bank.channels[0].kernel, Whole)
        np.testing.assert_allclose(np.diagonal(bank.channels[0](Z, Z)), complete)
        np.testing.assert_array_equal(bank.presence(Z)[:, 0], complete)
        assert unit_bank(KernelBank((Channel("k", Whole(Gaussian()), (0, 1)),)), Z)[1] == []

    def test_takes_part_in_checks_repairs_stacks_and_files(self, Z, tmp_path):
        bank = KernelBank((Channel("k", Whole(Sigmoid(1.0, 1.0)), (0, 1, 2)), Channel("l", Whole(Gaussian()), (0, 2))))
        check_kernels(bank, Z, 0)
        check_positive(bank.take([1]), Z, 0)
        fixed = repaired(bank, "clip").bank(sample(Z), 1.0)
        assert np.linalg.eigvalsh(fixed.channels[0](Z, Z)).min() > -1e-12
        np.testing.assert_array_equal(fixed.presence(Z), bank.presence(Z))
        for form in ("dense", "streaming", "factored", "compact"):
            np.testing.assert_allclose(bank.stack(Z, form=form).one(1), bank.channels[1](Z, Z), atol=1e-7)
        codec.write(tmp_path / "f", "thing", bank)
        assert codec.read(tmp_path / "f", "thing") == bank == bank.narrowed(Z)

    def test_a_wrong_shape_is_not_spread_over_the_rows(self, Z):
        with pytest.raises(ValueError, match=r"gives the shape \(5, 1\): it must give \(5, 5\)"):
            Whole(lambda S, T: np.ones((len(S), 1)))(Z, Z)

    def test_a_bank_keeps_the_kernels_that_are_so_already(self, rng):
        A = rng.normal(size=(4, 4))
        kernels = [
            Channel("one", Gaussian(), (0,)),
            Channel("two", Gaussian(), (0, 1)),
            Channel("function", product_of, (0,)),
            Channel("whole", Whole(Gaussian()), (1, 2)),
            Channel("given", Precomputed(A + A.T, np.arange(4)), (3,)),
            Channel("scaled", Normalised(product_of), (2,)),
        ]
        bank = whole_bank(KernelBank(tuple(kernels)))
        changed = [new.name for new, old in zip(bank.channels, kernels, strict=True) if new != old]
        assert changed == ["two", "function", "scaled"] and whole_bank(bank) == bank
        assert bank.channels[1] == Channel("two", Whole(Gaussian()), (0, 1))


# ---------------------------------------------------------------------- precomputed kernels in a classifier

N = 60


@pytest.fixture(scope="module")
def problem():
    """Three Gaussian kernels between 80 items, of which a third is absent, and the classes."""
    rng = np.random.default_rng(3)
    y = np.arange(80) % 2
    views = rng.normal(size=(3, 80, 2)) + np.array([1.5, 1.0, 0.0])[:, None, None] * y[:, None]
    K = np.array([Gaussian(1.5)(V, V) for V in views])
    absent = rng.random((3, 80)) < 0.33
    absent[:, 5] = [True, True, False]
    return K, absent, y


def poisoned(K, absent, filling):
    gaps = absent[:, :, None] | absent[:, None, : K.shape[2]]
    rubbish = np.random.default_rng(0).normal(size=K.shape) * 1e6
    return np.where(gaps, rubbish if filling == "rubbish" else filling, K)


def fitted(K, **present):
    rows = np.arange(K.shape[1])[:, None]
    return SimpleMKLClassifier(kernels=precomputed(K, list("abc"), **present), calibration=None).fit(
        rows[:N], (np.arange(80) % 2)[:N]
    )


@pytest.mark.parametrize("filling", [NAN, 1e6, "rubbish"])
def test_poison_where_items_are_absent_changes_no_decision_and_no_explanation(problem, filling):
    K, absent, _ = problem
    rows = np.arange(80)[:, None]
    zeroed = fitted(poisoned(K, absent, 0.0), present=~absent.T)
    plain = fitted(poisoned(K, absent, 0.0))  # zeros as values
    clf = fitted(poisoned(K, absent, filling), present=~absent.T)
    for other in (zeroed, plain):
        np.testing.assert_array_equal(clf.decision_function(rows), other.decision_function(rows))
        np.testing.assert_array_equal(clf.explain(rows).contributions, other.explain(rows).contributions)
    by_kernel = clf.explain(rows).by_kernel
    place = [list("abc").index(name) for name in clf.explain(rows).kernels]
    assert not by_kernel[:, 0][absent.T[:, place]].any() and by_kernel.any()
    bank = clf.model_.expansion.bank
    np.testing.assert_array_equal(bank.presence(rows.astype(float)), ~absent.T[:, place])
    if filling is NAN:
        np.testing.assert_array_equal(
            fitted(poisoned(K, absent, NAN)).decision_function(rows), clf.decision_function(rows)
        )


def test_a_file_keeps_who_lacks_a_kernel_and_stays_small(problem, tmp_path):
    K, absent, _ = problem
    rows = np.arange(80)[:, None]
    clf = fitted(poisoned(K, absent, NAN))
    io.save(clf, tmp_path / "m.tamis")
    again = io.load(tmp_path / "m.tamis")
    np.testing.assert_array_equal(again.decision_function(rows), clf.decision_function(rows))
    Z = rows.astype(float)
    one, two = clf.model_.expansion.bank, again.model_.expansion.bank
    np.testing.assert_array_equal(two.presence(Z), one.presence(Z))
    assert not one.presence(Z).all()
    for channel in two.channels:
        assert channel.kernel.values.shape == (80, len(clf.instances_)) and channel.kernel.absent.nbytes == 80


@pytest.mark.parametrize("filling", [NAN, 1e6, "rubbish"])
@pytest.mark.parametrize("how", [None, "clip", "shift"])
def test_new_items_decide_as_in_the_full_stack(problem, filling, how):
    K, absent, y = problem
    if how:
        K = K - 0.2 * np.eye(80)  # indefinite
    full, known = poisoned(K, absent, NAN), slice(0, N)

    def fit(stack):
        kernels = precomputed(stack) if how is None else repaired(precomputed(stack), how)
        cls = SimpleMKLClassifier if how is None else AverageMKLClassifier
        return cls(kernels=kernels, calibration=None).fit(np.arange(N)[:, None], y[:N])

    clf = fit(full[:, known, known])
    new = K[:, N:, :N].copy()
    new[absent[:, N:]] = NAN
    rubbish = np.random.default_rng(1).normal(size=new.shape) * 1e6
    fill = rubbish if filling == "rubbish" else np.full(new.shape, filling)
    new = np.where(absent[:, None, :N], fill, new)
    rows = np.arange(80)[:, None]
    np.testing.assert_allclose(clf.extended(new).decision_function(rows), fit(full).decision_function(rows), atol=1e-12)
    np.testing.assert_array_equal(
        clf.extended(new).model_.expansion.bank.presence(rows.astype(float)), ~absent.T[:, clf.kernels_]
    )
    k = int(clf.kernels_[0])
    row, other = int(np.flatnonzero(~absent[k, N:])[0]), int(np.flatnonzero(~absent[k, :N])[0])
    new[k, row, np.arange(N) != other] = NAN
    with pytest.raises(ValueError, match=rf"first for kernel 'kernel {k}' in row {row}: new items need"):
        clf.extended(new)


def test_a_kernel_that_no_item_has_is_without_influence(problem):
    K, _, y = problem
    with_none = np.concatenate([K, np.full((1, 80, 80), NAN)])
    rows = np.arange(80)[:, None]
    two = SimpleMKLClassifier(kernels=precomputed(with_none), calibration=None, tol=1e-6).fit(rows, y)
    one = SimpleMKLClassifier(kernels=precomputed(K), calibration=None, tol=1e-6).fit(rows, y)
    assert 3 not in two.kernels_
    np.testing.assert_allclose(two.decision_function(rows), one.decision_function(rows), atol=1e-5)


# ---------------------------------------------------------------------- channels


@pytest.fixture
def views(rng):
    y = np.arange(40) % 2
    return {
        "blood": rng.normal(size=(40, 3)) + y[:, None],
        "age": rng.normal(size=40),
        "image": rng.normal(size=(40, 2)) - y[:, None],
    }


@pytest.fixture
def mask(rng):
    mask = rng.random((40, 3)) > 0.3
    mask[:4] = [[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 0]]
    return mask


def spoiled(views, mask, filling):
    out = {}
    for (name, view), here in zip(views.items(), mask.T, strict=True):
        out[name] = view.copy()
        out[name][~here] = filling
    return out


def presence(X, kernels):
    clf = AverageMKLClassifier(kernels=kernels, calibration=None).fit(X, np.arange(len(X)) % 2)
    model = clf.model_
    return model.expansion.bank.presence(model.encoder.encode(clf._table(X)))


class TestChannels:
    def test_of_arrays_stand_side_by_side(self, views, mask):
        X, kernels = channels(views, mask)
        assert kernels == per_group({"blood": [0, 1, 2], "age": [3], "image": [4, 5]})
        expected = np.c_[views["blood"], views["age"], views["image"]]
        wide = np.repeat(mask, [3, 1, 2], axis=1)
        np.testing.assert_array_equal(X, np.where(wide, expected, NAN))
        np.testing.assert_array_equal(channels(views)[0], expected)
        listed, unnamed = channels(list(views.values()), mask.astype(int))
        np.testing.assert_array_equal(listed, X)
        assert unnamed.groups[0] == ("channel 0", (0, 1, 2))
        np.testing.assert_array_equal(channels(views, dict(zip(views, mask.T, strict=True)))[0], X)

    @pytest.mark.parametrize("filling", [NAN, 1e6, np.inf])
    def test_what_stood_in_absent_cells_is_gone_and_the_input_stays(self, views, mask, filling):
        given = spoiled(views, mask, filling)
        before = {name: view.copy() for name, view in given.items()}
        np.testing.assert_array_equal(channels(given, mask)[0], channels(views, mask)[0])
        assert all(np.array_equal(given[name], before[name], equal_nan=True) for name in given)

    def test_rows_carry_their_absences(self, views, mask):
        X, kernels = channels(views, mask)
        np.testing.assert_array_equal(presence(X, kernels), mask)
        clf = SimpleMKLClassifier(kernels=kernels, calibration=None)
        y = np.arange(40) % 2
        assert cross_val_score(clf, X, y, cv=4).shape == (4,)
        by_kernel = clf.fit(X, y).explain(X).by_kernel[:, 0]
        place = [list(views).index(name) for name in clf.explain(X).kernels]
        assert not by_kernel[~mask[:, place]].any()

    @pytest.mark.parametrize("library", [pd, pl])
    def test_of_frames_keep_names_and_types(self, views, mask, library):
        text = {"sex": [*"fm" * 20], "code": list(range(40)), "flag": [True, False] * 20}
        given = {"blood": views["blood"], "person": library.DataFrame(text), "age": library.Series(views["age"])}
        X, kernels = channels(given, mask)
        assert isinstance(X, library.DataFrame)
        assert list(X.columns) == ["blood: 0", "blood: 1", "blood: 2", "sex", "code", "flag", "age"]
        assert kernels == per_group({"blood": ["blood: 0", "blood: 1", "blood: 2"], "person": [*text], "age": ["age"]})
        gone = ~mask[:, 1]
        for name, values in text.items():
            cells = [None if pd.isna(v) else v for v in X[name].to_list()]
            assert cells == [None if g else v for v, g in zip(values, gone, strict=True)]
        np.testing.assert_array_equal(np.isnan(X["age"].to_numpy().astype(float)), ~mask[:, 2])
        np.testing.assert_array_equal(presence(X, kernels), mask)
        assert "age" not in given["person"].columns and given["person"]["code"].to_list() == text["code"]

    @pytest.mark.parametrize("library", [pd, pl])
    def test_names_that_meet_are_told_apart(self, library):
        frame = library.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
        X, kernels = channels({"left": frame, "right": frame, "a": np.ones((2, 2)), "z": [1.0, 2.0]})
        assert list(X.columns) == ["left: a", "left: b", "right: a", "right: b", "a: 0", "a: 1", "z"]
        assert kernels.groups[1] == ("right", ("right: a", "right: b"))
        with pytest.raises(ValueError, match=r"would be named 'v: a': rename one"):
            channels({"v": frame, "w": library.DataFrame({"v: a": [0.0, 0.0], "a": [1.0, 1.0]}), "v: a": [1.0, 2.0]})

    def test_an_index_stays_and_must_agree(self, mask):
        frame = pd.DataFrame({"a": np.arange(40.0)}, index=np.arange(40)[::-1] // 2)
        X, _ = channels({"v": frame, "w": np.arange(40.0), "u": frame.rename(columns={"a": "b"})}, mask)
        assert X.index.equals(frame.index) and X["w"].tolist()[0] == 0.0
        np.testing.assert_array_equal(X["a"].isna(), ~mask[:, 0])
        with pytest.raises(ValueError, match="view 'w' has other index labels than view 'v'"):
            channels({"v": frame, "w": frame.reset_index(drop=True)})

    def test_text_and_masked_arrays_are_views_too(self):
        X, _ = channels([np.array([*"xyz"]), np.ma.masked_array([1.0, 2.0, 3.0], [0, 0, 1])], [[0, 1], [1, 1], [1, 1]])
        assert X.dtype == object and X[:, 0].tolist() == [None, "y", "z"] and np.isnan(X[2, 1])
        assert channels([np.ones((2, 1), dtype=np.float32)])[0].dtype == np.float32
        assert channels([[True, False]])[0].dtype == float

    def test_a_kernel_is_that_of_every_channel(self, views):
        assert channels(views, kernel=Laplacian())[1].kernel == Laplacian()

    @pytest.mark.parametrize(
        ("views", "match"),
        [
            ({}, "must be a dict from names"),
            (np.ones((2, 3)), "must be a dict from names"),
            ({1: np.ones(3)}, "must be a dict from names"),
            ({"a": np.ones(3), "b": np.ones((2, 1))}, "view 'b' has 2 rows, but view 'a' has 3"),
            ({"a": np.ones((2, 3, 1))}, r"view 'a' has the shape \(2, 3, 1\)"),
            ({"a": np.ones(2, dtype=complex)}, "view 'a' has the shape .*complex"),
            ({"a": 3.0}, r"view 'a' has the shape \(\)"),
            ({"a": [[1.0], [1.0, 2.0]]}, "view 'a' is not an array"),
            ({"a": np.ones((2, 0))}, r"view 'a' is empty, its shape is \(2, 0\)"),
            ({"a": pd.DataFrame()}, "view 'a' is empty"),
            ({"a": pl.DataFrame({"u": [1.0]}).lazy()}, r"view 'a' is a lazy frame: call .collect\(\)"),
            ({"a": pd.DataFrame(np.ones((2, 2)), columns=["u", "u"])}, "view 'a' has two columns named 'u'"),
            ({"a": pd.DataFrame({"u": [1.0]}), "b": pl.DataFrame({"v": [1.0]})}, "view 'b' is a polars frame, but"),
        ],
    )
    def test_bad_views_are_refused_by_name(self, views, match):
        with pytest.raises(ValueError, match=match):
            channels(views)

    @pytest.mark.parametrize(
        ("present", "match"),
        [
            (np.ones((40, 2), dtype=bool), r"present has the shape \(40, 2\): it must have \(40, 3\)"),
            (np.full((40, 3), 0.5), "present holds other values"),
            ({"blood": np.full(40, -1)}, r"present\['blood'\] holds other values"),
            ({"bloood": np.ones(40)}, r"present names 'bloood', which is no channel: .*'blood', 'age', 'image'"),
        ],
    )
    def test_masks_must_fit(self, views, present, match):
        with pytest.raises(ValueError, match=match):
            channels(views, present)

    def test_the_example_runs(self):
        failed, tried = doctest.testmod(tamis.table.channels)
        assert tried and not failed
