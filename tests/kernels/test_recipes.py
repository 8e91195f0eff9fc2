from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tamis.codec import read, write
from tamis.kernels.bank import Channel
from tamis.kernels.base import Categorical, Epanechnikov, Gaussian, Laplacian
from tamis.kernels.recipes import (
    WIDTHS,
    Sample,
    _evidence_gradient,
    bandwidths,
    embed,
    per_feature,
    per_group,
    product,
    rank_columns,
)

import zoo


def sample(X, y, nominal=None, limit=20, weight=None):
    d = X.shape[1]
    return Sample(
        X,
        [f"f{j}" for j in range(d)],
        np.zeros(d, dtype=bool) if nominal is None else nominal,
        np.where(np.asarray(y) > 0, 1.0, -1.0)[:, None],
        np.ones(len(X)) if weight is None else weight,
        limit,
        0,
    )


def test_per_feature_gives_numbers_a_gaussian_and_categories_an_indicator(rng):
    X = np.column_stack([rng.normal(size=20), rng.integers(0, 3, 20)])
    bank = per_feature().bank(sample(X, X[:, 0], np.array([False, True])), np.array([0.5, 9.0]))
    assert [c.kernel for c in bank.channels] == [Gaussian(0.5), Categorical()]
    assert bank.names == ["f0", "f1"] and [c.columns for c in bank.channels] == [(0,), (1,)]
    assert per_feature(Laplacian(2.0)).bank(sample(X, X[:, 0]), 1.0).channels[1].kernel == Laplacian(2.0)


def test_median_bandwidth_is_the_median_distance_with_a_floor(rng):
    X = np.column_stack([rng.normal(size=400), np.zeros(400)])
    widths = sample(X, X[:, 0]).bandwidths("median")
    gaps = np.abs(X[:, 0][:, None] - X[:, 0][None, :])[np.triu_indices(400, 1)]
    np.testing.assert_allclose(widths, [np.median(gaps), 0.1], rtol=0.02)


def test_median_bandwidth_takes_weights_as_repetitions(rng):
    x, w = rng.normal(size=30), rng.integers(1, 4, 30)
    one = sample(x[:, None], x, weight=w.astype(float)).bandwidths("median")
    np.testing.assert_allclose(one, sample(np.repeat(x, w)[:, None], np.repeat(x, w)).bandwidths("median"))


def test_recipes_add_up(rng):
    X, y = zoo.xor()
    both = (per_feature() + product()).bank(sample(X, y), 1.0)
    single, grown = per_feature().bank(sample(X, y), 1.0).names, product().bank(sample(X, y), 1.0).names
    assert both.names == single + grown[1:] and grown[0] in single


def test_grown_group_finds_features_that_only_matter_together():
    X, y = zoo.xor(d=12)
    order = sample(X, y).order
    assert set(order[:2].tolist()) == {0, 2}
    groups = [c.columns for c in product().bank(sample(X, y), 1.0).channels]
    assert groups[1] == (0, 2) and all(set(a) <= set(b) for a, b in pairwise(groups))


def test_grown_groups_respect_the_limit():
    X, y = zoo.xor(d=12)
    assert max(len(c.columns) for c in product().bank(sample(X, y, limit=5), 1.0).channels) == 5


def test_product_bandwidth_grows_with_the_root_of_the_group():
    X, y = zoo.xor()
    assert product([0, 1, 2, 3]).bank(sample(X, y), 0.5).channels[0].kernel.bandwidth == pytest.approx(1.0)
    assert len(product("all").bank(sample(X, y), 1.0).channels[0].columns) == 6


def test_product_refuses_an_unknown_group():
    with pytest.raises(ValueError, match="group='best'"):
        product("best")


def test_evidence_gradient_matches_differences(rng):
    """g_m against the derivative of the log evidence when the signal variance is profiled out."""
    P, y, noise = rng.normal(size=(15, 3)), rng.normal(size=(15, 1)), rng.uniform(0.1, 1, 15)

    def evidence(weights):
        D = sum(w * (P[:, [m]] - P[:, [m]].T) ** 2 for m, w in enumerate(weights)) / 3
        C = np.exp(-0.5 * D) + np.diag(noise)
        return -0.5 * 15 * np.log((y.T @ np.linalg.solve(C, y)).item()) - 0.5 * np.linalg.slogdet(C)[1]

    g = _evidence_gradient(P, np.arange(3), np.arange(3), y, noise)
    h = 1e-5
    slope = np.array([(evidence(1 + h * e) - evidence(1 - h * e)) / (2 * h) for e in np.eye(3)])
    np.testing.assert_allclose(g / np.linalg.norm(g), slope / np.linalg.norm(slope), atol=1e-6)


def test_embedding_has_the_distances_of_the_group_kernel(rng):
    Z = np.column_stack([rng.normal(size=12), rng.integers(0, 3, 12).astype(float)])
    Z[0, 0] = Z[1, 1] = Z[2, 0] = np.nan
    points, owner = embed(Z, np.array([0.0, 2.5]))
    D = np.sum((points[:, None] - points[None]) ** 2, axis=2)
    np.testing.assert_allclose(np.exp(-0.5 * D), Gaussian(1.0, (0.0, 2.5))(Z, Z), atol=1e-12)
    assert set(owner.tolist()) == {0, 1}


def test_constant_columns_never_join_a_group(rng):
    X, y = zoo.xor()
    X[:, 4] = 1.0
    assert 4 not in rank_columns(X, np.zeros(6), np.where(y > 0, 1.0, -1.0)[:, None], np.ones(len(X)), 6)


class TestBandwidths:
    def test_gaussians_of_every_width_stand_on_all_columns_together(self, rng):
        X = rng.normal(size=(12, 3))
        bank = bandwidths().bank(sample(X, X[:, 0]), 99.0)
        assert bank.names[:2] == ["all, width 0.1", "all, width 0.2"] and len(bank) == 10
        D = np.sum((X[:, None] - X[None]) ** 2, axis=2)
        for width, channel in zip(WIDTHS, bank.channels, strict=True):
            np.testing.assert_allclose(channel(X, X), np.exp(-D / (2 * width**2)), atol=1e-12)

    def test_categories_enter_a_group_as_in_a_product_and_alone_as_one_indicator(self, rng):
        X = np.column_stack([rng.normal(size=20), rng.integers(0, 3, 20)])
        table = sample(X, X[:, 0], np.array([False, True]))
        bank = bandwidths([0.5, 2], on="both").bank(table, 1.0)
        assert bank.names == ["all, width 0.5", "all, width 2.0", "f0, width 0.5", "f0, width 2.0", "f1"]
        assert bank.channels[1].kernel == Gaussian(2.0, product("all").bank(table, 1.0).channels[0].kernel.mismatch)
        assert bank.channels[1].kernel.mismatch[1] > 0
        assert bank.channels[2] == Channel("f0, width 0.5", Gaussian(0.5), (0,))
        assert bank.channels[4].kernel == Categorical() and bank.channels[4].columns == (1,)
        assert bandwidths([0.5, 2], on="each").bank(table, 1.0).names == bank.names[2:]

    def test_sixty_numbers_give_610_channels(self, rng):
        X = rng.normal(size=(5, 60))
        assert len(bandwidths(on="both").bank(sample(X, X[:, 0]), 1.0)) == 610

    @pytest.mark.parametrize("nominal", [False, True])
    def test_on_one_column_all_and_each_are_the_same(self, rng, nominal):
        X = rng.integers(0, 3, (9, 1)).astype(float)
        banks = [bandwidths(on=on).bank(sample(X, X[:, 0], np.array([nominal])), 1.0) for on in ("all", "each", "both")]
        assert banks[0] == banks[1] == banks[2] and len(banks[0]) == (1 if nominal else 10)

    def test_a_column_may_be_called_all(self, rng):
        X = rng.normal(size=(5, 2))
        table = replace(sample(X, X[:, 0]), names=["all", "b"])
        names = bandwidths(1.5, on="both").bank(table, 1.0).names
        assert names == ["all columns, width 1.5", "all, width 1.5", "b, width 1.5"]

    @pytest.mark.parametrize("widths", [[], [1, 1.0], 0, -1.0, [1, np.inf], np.nan, "1", [[1, 2]], True, 1e-200, None])
    def test_widths_that_are_none_are_refused(self, widths):
        with pytest.raises(ValueError, match=r"widths=.* must be one or several distinct numbers"):
            bandwidths(widths)

    def test_an_unknown_place_is_refused(self):
        with pytest.raises(ValueError, match="on='every' is unknown: use 'all', 'each' or 'both'"):
            bandwidths(on="every")

    def test_the_recipe_comes_back_from_a_file(self, tmp_path):
        recipe = bandwidths(np.array([0.5, 1.0]), on="both") + per_feature()
        write(tmp_path / "f", "thing", recipe)
        assert read(tmp_path / "f", "thing") == recipe and not recipe.positions


def dot(S, T):
    return np.nan_to_num(S) @ np.nan_to_num(T).T


class TestPerGroup:
    @pytest.fixture
    def table(self, rng):
        X = np.column_stack([rng.normal(size=(20, 3)), rng.integers(0, 3, (20, 2))])
        return sample(X, X[:, 0], np.array([False, False, False, True, True]))

    def test_groups_get_the_gaussian_of_a_product_under_their_own_names(self, table):
        bank = per_group({"pair": ["f0", 2], "mixed": [1, "f3"], "codes": ["f3", "f4"]}).bank(table, 0.5)
        assert bank.names == ["pair", "mixed", "codes"]
        for channel, group in zip(bank.channels, ([0, 2], [1, 3], [3, 4]), strict=True):
            (expected,) = product(group).bank(table, 0.5).channels
            assert channel == replace(expected, name=channel.name)
        assert bank.channels[0].kernel.bandwidth == pytest.approx(0.5 * 2**0.5)
        assert min(bank.channels[2].kernel.mismatch) > 0

    @pytest.mark.parametrize("kernel", [None, Epanechnikov(2.0)])
    def test_a_column_on_its_own_is_as_per_feature(self, table, kernel):
        bank = per_group({"number": [1], "code": ["f4"]}, kernel).bank(table, 0.5)
        assert bank.channels == (Channel("number", kernel or Gaussian(0.5), (1,)), Channel("code", Categorical(), (4,)))

    @pytest.mark.parametrize("recipe", [per_feature(dot), per_group({"a": [0, 1], "b": [2]}, dot)])
    @pytest.mark.parametrize("form", ["dense", "streaming", "factored"])
    def test_plain_functions_are_kernels(self, rng, recipe, form):
        X = rng.normal(size=(12, 3))
        bank = recipe.bank(sample(X, X[:, 0]), 1.0)
        stack = bank.stack(X, form=form)
        for k, channel in enumerate(bank.channels):
            columns = list(channel.columns)
            np.testing.assert_allclose(stack.one(k), X[:, columns] @ X[:, columns].T, atol=1e-8)
        assert hash(recipe) == hash(replace(recipe)) and recipe == replace(recipe)

    @pytest.mark.parametrize(
        "groups",
        [{}, [("a", [0])], {1: [0]}, {"a": []}, {"a": "f0"}, {"a": [0, 0]}, {"a": [0.5]}, {"a": [True]}, {"a": 3}],
    )
    def test_what_names_no_groups_is_refused(self, groups):
        with pytest.raises(ValueError, match=r"groups(\['a'\])?=.* must (be a dict|list distinct columns)"):
            per_group(groups)

    def test_columns_that_are_not_there_are_refused(self, table):
        for groups, words in (
            ({"a": ["f0", "g"]}, "per_group: X has no column 'g'; its columns are"),
            ({"a": [0, 5]}, "per_group: column 5 is not among the 5 columns of X"),
            ({"a": [-1, 2]}, "per_group: column -1 is not among"),
            ({"a": [0, "f0"]}, "the group 'a' lists a column of X twice"),
        ):
            with pytest.raises(ValueError, match=words):
                per_group(groups).bank(table, 1.0)

    @pytest.mark.parametrize("recipe", [per_feature, lambda kernel: per_group({"a": [0]}, kernel)])
    def test_a_kernel_that_is_no_function_is_refused(self, recipe):
        with pytest.raises(ValueError, match="kernel='gaussian' must be a function"):
            recipe("gaussian")

    def test_the_recipe_comes_back_from_a_file(self, tmp_path):
        recipe = per_group({"a": np.array([0, 1]), "b": ("f2",)}, Epanechnikov(2.0)) + per_feature()
        write(tmp_path / "f", "thing", recipe)
        assert read(tmp_path / "f", "thing") == recipe and len({recipe, read(tmp_path / "f", "thing")}) == 1


def test_a_message_names_only_some_of_many_columns(rng):
    X = rng.normal(size=(3, 500))
    with pytest.raises(ValueError, match="and 480 more") as caught:
        per_group({"a": ["g"]}).bank(sample(X, X[:, 0]), 1.0)
    assert len(str(caught.value)) < 400
