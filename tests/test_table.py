from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tamis.data import encoding
from tamis.data.encoding import KNOTS, Encoder, Nominal, Number
from tamis.data.table import Table, read_table


def table(**columns):
    frame = pd.DataFrame(columns)
    return read_table(frame, list(frame.columns), None, True)


def encode(tab, scaling="standard", missing="absent", weight=None):
    weight = np.ones(len(tab)) if weight is None else weight
    encoder = Encoder.fit(tab, weight, scaling=scaling, missing=missing)
    return encoder, encoder.encode(tab)


def test_pandas_and_polars_columns_are_read_alike():
    data = {
        "number": [1.0, 2.5, None],
        "integer": [1, 2, 3],
        "text": ["a", None, "b"],
        "flag": [True, False, True],
    }
    pandas = pd.DataFrame(data).assign(level=pd.Categorical([3, 1, 3]))
    polars = pl.DataFrame(data).with_columns(level=pl.Series(["3", "1", "3"], dtype=pl.Categorical))
    a = read_table(pandas, list(pandas.columns), None, True)
    b = read_table(polars, polars.columns, None, True)
    assert sorted(a.labels) == sorted(b.labels) == [2, 3, 4]
    np.testing.assert_array_equal(a.numbers, b.numbers)
    assert a.labels[2].tolist() == b.labels[2].tolist() == ["a", None, "b"]
    assert a.labels[4].tolist() == [3, 1, 3]


def test_pandas_nullable_numbers_are_numbers():
    tab = table(a=pd.array([1, None, 3], dtype="Int64"))
    assert not tab.labels and np.isnan(tab.numbers[1, 0]) and tab.numbers[2, 0] == 3


def test_numbers_are_standardised_with_weights():
    x, w = np.array([0.0, 1.0, 5.0]), np.array([1.0, 2.0, 3.0])
    _, z = encode(Table(x[:, None], {}, ["a"]), weight=w)
    assert np.average(z[:, 0], weights=w) == pytest.approx(0)
    assert np.average(z[:, 0] ** 2, weights=w) == pytest.approx(1)


def test_numbers_beyond_the_training_range_count_as_its_end():
    encoder, z = encode(Table(np.array([[0.0], [1.0], [4.0]]), {}, ["a"]))
    far = encoder.encode(Table(np.array([[-100.0], [100.0]]), {}, ["a"]))
    np.testing.assert_allclose(far[:, 0], z[[0, 2], 0])


def test_unseen_categories_agree_with_nothing():
    encoder, z = encode(table(a=["x", "y", "x"]))
    assert z[:, 0].tolist() == [0, 1, 0]
    assert encoder.encode(table(a=["z", None]))[0, 0] == -1.0


@pytest.mark.parametrize("scaling", ["standard", "rank", None])
def test_missing_cells_stay_missing_or_become_the_median(scaling):
    tab = Table(np.array([[1.0], [np.nan], [3.0], [100.0]]), {}, ["a"])
    assert np.isnan(encode(tab, scaling)[1][1, 0])
    filled = encode(tab, scaling, "median")[1]
    assert filled[1, 0] == pytest.approx(filled[2, 0])


def test_missing_categories_become_the_most_frequent():
    assert encode(table(a=["x", "y", "y", None]), missing="median")[1][3, 0] == 1.0


def test_ranks_do_not_depend_on_the_shape_of_the_distribution(rng):
    x = rng.normal(size=150)
    one, two = (encode(Table(v[:, None], {}, ["a"]), "rank")[1] for v in (x, np.exp(3 * x)))
    np.testing.assert_allclose(one, two, atol=1e-9)
    assert np.std(one) == pytest.approx(1, abs=0.01)


def test_rank_map_has_a_bounded_size(rng):
    encoder, z = encode(Table(rng.normal(size=(5000, 1)), {}, ["a"]), "rank")
    assert len(encoder.columns[0].knots) <= KNOTS and np.std(z) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("value", [np.nan, 7.0])
def test_columns_without_variation_are_harmless(value):
    _, z = encode(Table(np.full((4, 1), value), {}, ["a"]))
    assert np.isnan(z).all() if np.isnan(value) else not z.any()


def test_numbers_named_as_categories_become_codes():
    tab = read_table(np.array([[1.0, 5.0], [2.0, np.nan]]), ["a", "b"], [1], True)
    assert tab.labels[1].tolist() == [5.0, None] and np.isnan(tab.numbers[:, 1]).all()
    encoder, _ = encode(tab)
    assert isinstance(encoder.columns[1], Nominal) and isinstance(encoder.columns[0], Number)


def test_text_that_is_not_declared_is_refused():
    with pytest.raises(ValueError, match=r"column 'b' holds text and categorical_features"):
        frame = pd.DataFrame({"a": [1.0], "b": ["x"]})
        read_table(frame, ["a", "b"], [0], True)


def test_dates_are_refused_with_a_hint():
    with pytest.raises(ValueError, match="dates"):
        table(a=pd.to_datetime(["2020-01-01", "2021-01-01"]))


def reference(x, weight, winsorise):
    """Range, mean, spread and median of one column, straight from their definitions."""
    seen = ~np.isnan(x)
    x, w = x[seen].astype(float), weight[seen] / weight[seen].sum()

    def quantile(level):
        return min((v for v in x if w[x <= v].sum() >= level - 1e-12), default=x.max())

    low, high = (quantile(winsorise), quantile(1 - winsorise)) if winsorise else (x.min(), x.max())
    x = np.clip(x, low, high)
    mean = w @ x
    return low, high, mean, np.sqrt(w @ (x - mean) ** 2), quantile(0.5)


@pytest.mark.parametrize("block", [1, 60, 1 << 20])
@pytest.mark.parametrize("winsorise", [0.0, 0.1])
def test_columns_encoded_together_have_their_own_scales(rng, monkeypatch, block, winsorise):
    monkeypatch.setattr(encoding, "BLOCK", block)
    X = rng.normal(size=(30, 7)) * np.arange(1.0, 8.0) - 3.0
    X[rng.uniform(size=X.shape) < 0.2] = np.nan
    weight = rng.uniform(0.5, 2.0, size=30)
    tab = Table(X, {}, list("abcdefg"))
    encoder = Encoder.fit(tab, weight, scaling="standard", missing="median", winsorise=winsorise)
    Z = encoder.encode(tab)
    for j, number in enumerate(encoder.columns):
        low, high, mean, spread, median = reference(X[:, j], weight, winsorise)
        assert (number.low, number.high) == (low, high)
        assert (number.centre, number.scale) == pytest.approx((mean, spread), rel=1e-12)
        assert number.fill == pytest.approx((np.clip(median, low, high) - mean) / spread, rel=1e-12)
        np.testing.assert_array_equal(Z[:, j], number.encode(X[:, j]))


def test_winsorising_keeps_the_values_at_the_quantiles():
    tab = Table(np.array([[1.0], [2.0], [3.0], [4.0]]), {}, ["a"])
    number = Encoder.fit(tab, np.ones(4), scaling="standard", missing=None, winsorise=0.25).columns[0]
    assert (number.low, number.high) == (1.0, 3.0)


def test_limits_replace_the_range_of_their_column_alone():
    tab = Table(np.array([[1.0, 1.0, np.nan], [9.0, 9.0, np.nan]]), {}, ["a", "b", "c"])
    encoder = Encoder.fit(tab, np.ones(2), scaling="standard", missing=None, ranges={0: (0.0, 5.0), 2: (3.0, 4.0)})
    assert [(c.low, c.high, c.centre) for c in encoder.columns] == [(0, 5, 3), (1, 9, 5), (0, 0, 0)]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_is_read_as_its_columns_are_one_by_one(frame):
    types = ["float64", "int8", "float32", "uint64", "int64", "float64", "int8"]
    mixed = frame({f"c{j}": np.arange(j, j + 4).astype(t) for j, t in enumerate(types)} | {"t": list("abba")})
    if frame is pd.DataFrame:
        mixed = mixed.assign(whole=pd.array([1, None, 3, 4], dtype="Int64"), k=pd.Categorical([5, 5, 6, 5]))
    else:
        mixed = mixed.with_columns(whole=pl.Series([1, None, 3, 4]), k=pl.Series(list("5565"), dtype=pl.Categorical))
    whole = read_table(mixed, list(mixed.columns), None, True)
    assert sorted(whole.labels) == [7, 9] and whole.numbers[:, 2].tolist() == [2, 3, 4, 5]
    for j, name in enumerate(mixed.columns):
        one = read_table(mixed[[name]], [name], None, True)
        np.testing.assert_array_equal(whole.numbers[:, j], one.numbers[:, 0])
        assert (j in whole.labels) == (0 in one.labels)


def test_text_has_gaps_only_where_it_is_missing():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": [1.0, 2.0]})
    assert read_table(frame, list("abc"), None, False).labels[1].tolist() == ["x", "y"]
    with pytest.raises(ValueError, match="NaN in column 'b' and missing=None"):
        read_table(frame.assign(b=["x", None]), list("abc"), None, False)
