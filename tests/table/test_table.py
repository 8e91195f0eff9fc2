from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tamis.table import encoding
from tamis.table.encoding import KNOTS, Encoder, Nominal, Number
from tamis.table.table import Table, checked_input, read_block, read_table


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
    monkeypatch.setattr(encoding, "FIT_CELLS", block)
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


def test_arrow_tables_keep_categories_flags_and_missing_cells():
    table = pa.table(
        {
            "number": pa.array([1, None, 3]),
            "level": pa.chunked_array([pa.array(["u", None]).dictionary_encode(), pa.array(["v"]).dictionary_encode()]),
            "code": pa.array([7, 7, None]).dictionary_encode(),
            "flag": [True, None, False],
            "price": pa.array([Decimal("1.5"), None, Decimal("2")]),
        }
    )
    for block in (table, table.combine_chunks().to_batches()[0]):
        found, named = read_block(block, None, None, True)
        assert named and found.names == table.column_names
        np.testing.assert_array_equal(found.numbers[:, [0, 4]], [[1, 1.5], [np.nan, np.nan], [3, 2]])
        labels = {j: values.tolist() for j, values in found.labels.items()}
        assert labels == {1: ["u", None, "v"], 2: [7, 7, None], 3: [True, None, False]}


def test_arrow_tables_are_refused_in_the_same_words():
    with pytest.raises(ValueError, match="two columns named 'a'"):
        read_block(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), None, None, True)
    with pytest.raises(ValueError, match="column 'day' holds dates"):
        read_block(pa.table({"day": [date(2020, 1, 1)]}), None, None, True)
    with pytest.raises(TypeError, match=r"column 'a' holds \[1, 2\]"):
        read_block(pa.table({"a": [[1, 2]]}), None, None, True)


def test_a_categorical_column_is_one_in_a_dict_too():
    levels = pd.Series(pd.Categorical([3, 1, 3]))
    assert read_block({"a": levels}, None, None, True)[0].labels[0].tolist() == [3, 1, 3]


@pytest.mark.parametrize("rows", [list, np.array], ids=["list", "array"])
def test_columns_of_objects_are_read_one_by_one(rows):
    cells = np.array([[True, 1.0, "a"], [False, None, "b"]], dtype=object)
    table = read_table(checked_input(rows(cells.tolist() if rows is list else cells))[0], list("abc"), None, True)
    assert sorted(table.labels) == [0, 2] and np.isnan(table.numbers[1, 1])
    without_text = checked_input(rows(cells[:, :2].tolist()))[0]
    assert sorted(read_table(without_text, list("ab"), None, True).labels) == [0]


def test_masked_cells_are_missing():
    masked = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], mask=[[False, True], [False, False]])
    np.testing.assert_array_equal(read_block(masked, None, None, True)[0].numbers, [[1, np.nan], [3, 4]])


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (np.array([["2020-01-01"]], dtype="M8[D]"), "X holds dates"),
        ([[date(2020, 1, 1)]], "column 'x0' holds dates"),
        (np.array([(1.0, 2)], dtype=[("a", float), ("b", int)]), "structured array"),
        ([[1.0, 2.0], [3.0]], r"rows of different lengths, \[1, 2\]"),
        ([[10**400, "a"]], "too large for a float"),
        ([[1j, "a"]], "complex"),
    ],
    ids=["dates", "date", "structured", "ragged", "huge", "complex"],
)
def test_arrays_that_are_no_tables_are_refused(X, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_block(X, None, None, True)


def test_text_in_an_array_is_text():
    assert read_block(np.array([["1"], ["2"]]), None, None, True)[0].labels[0].tolist() == ["1", "2"]


def test_interpolation_is_that_of_numpy_and_holds_between_knots_of_any_distance(rng):
    x, knots, values = rng.normal(size=50), np.sort(rng.normal(size=9)), rng.normal(size=9)
    np.testing.assert_allclose(encoding.interpolated(x, knots, values), np.interp(x, knots, values), atol=1e-12)
    near = np.array([0.0, 5e-324, 1e-323])
    np.testing.assert_array_equal(encoding.interpolated(near, near, np.array([0.0, 0.5, 1.0])), [0.0, 0.5, 1.0])
    assert encoding.interpolated(np.array([5.0]), np.array([1.0]), np.array([0.3])).tolist() == [0.3]


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e150, 1e306])
@pytest.mark.parametrize("scaling", ["standard", "rank"])
def test_scaled_columns_have_no_size(rng, size, scaling):
    x = rng.normal(size=(20, 1))
    one, two = (encode(Table(x * factor, {}, ["a"]), scaling)[1] for factor in (1.0, size))
    np.testing.assert_allclose(two, one, rtol=1e-9)


def test_numbers_near_the_largest_float_are_refused():
    with pytest.raises(ValueError, match=r"X holds 1\.7e\+308 in column 'a'"):
        encode(Table(np.array([[1.7e308], [-1.7e308]]), {}, ["a"]))


def test_a_column_whose_squares_vanish_is_constant_unless_it_is_scaled():
    tab = Table(np.array([[1e-200], [3e-200], [2e-200]]), {}, ["a"])
    assert not encode(tab, None)[1].any() and encode(tab, "standard")[1].any() and encode(tab, "rank")[1].any()


def test_whole_numbers_that_floats_cannot_tell_apart_are_refused():
    near = np.array([[2**60], [2**60 + 1]])
    blocks = [near, near.tolist(), near.astype(object), near.astype(np.uint64)]
    blocks += [make({"x0": near[:, 0]}) for make in (dict, pd.DataFrame, pl.DataFrame, pa.table)]
    for block in blocks:
        with pytest.raises(ValueError, match=r"column 'x0' holds whole numbers beyond 2\*\*53"):
            read_block(block, None, None, True)
    apart = np.array([[2**60], [2**61], [2**61]])
    assert read_block(apart, None, None, True)[0].numbers[:, 0].tolist() == [2.0**60, 2.0**61, 2.0**61]
