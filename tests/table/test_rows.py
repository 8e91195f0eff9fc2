from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import KFold, PredefinedSplit, StratifiedKFold

from tamis.base.kernel_space import draw_candidates
from tamis.table.folds import deal, fold_positions, folds, positions
from tamis.table.keys import row_keys, sampling_keys
from tamis.table.rows import (
    Rows,
    check_groups,
    check_weights,
    class_factors,
    encode_classes,
    merge_rows,
)
from tamis.table.table import Table


def rows(X, y, weight=None, groups=None, labels=None):
    X = np.asarray(X, dtype=float)
    return Rows(
        Table(X, labels or {}, [f"x{j}" for j in range(X.shape[1])]),
        np.asarray(y),
        np.unique(y),
        np.ones(len(X)) if weight is None else np.asarray(weight, dtype=float),
        np.ones(len(X)) if weight is None else np.asarray(weight, dtype=float),
        groups,
        np.arange(len(X)),
    )


def test_identical_rows_are_merged_and_rows_of_weight_zero_dropped():
    X = [[1, 2], [0, 1], [1, 2], [1, 2], [5, 5]]
    merged = merge_rows(rows(X, [0, 1, 0, 1, 0], [1, 1, 2, 1, 0]))
    assert merged.weight.tolist() == [1, 3, 1] and merged.position.tolist() == [1, 0, 3]
    assert merged.codes.tolist() == [1, 0, 1]


def test_merging_forgets_the_order_of_the_rows(rng):
    X, y = rng.integers(0, 3, size=(40, 3)).astype(float), rng.integers(0, 2, 40)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    order = rng.permutation(40)
    a, b = merge_rows(rows(X, y)), merge_rows(rows(X[order], y[order]))
    np.testing.assert_array_equal(a.table.numbers, b.table.numbers)
    np.testing.assert_array_equal(a.weight, b.weight)
    assert a.weight.sum() == 40


def test_rows_of_different_groups_or_categories_are_not_merged():
    X = np.full((4, 1), np.nan)
    labels = {0: np.array(["a", "b", "a", None], dtype=object)}
    assert len(merge_rows(rows(X, [0, 0, 0, 0], labels=labels))) == 3
    assert len(merge_rows(rows(X, [0, 0, 0, 0], groups=np.array([1, 1, 2, 1]), labels=labels))) == 4


def test_folds_keep_groups_together_and_classes_present(rng):
    y, groups = np.arange(60) % 2, np.repeat(np.arange(20), 3)
    data = rows(rng.normal(size=(60, 2)), y, groups=groups)
    parts = folds(data, 4, 0)
    assert len(parts) == 4 and sum(len(test) for _, test in parts) == 60
    for train, test in parts:
        assert not set(train.groups) & set(test.groups) and set(train.codes) == {0, 1}


def test_there_are_no_more_folds_than_the_smallest_class_has_rows(rng):
    y = np.array([0] * 10 + [1] * 2)
    assert len(folds(rows(rng.normal(size=(12, 1)), y), 5, 0)) == 2
    assert folds(rows(rng.normal(size=(11, 1)), y[:11]), 5, 0) == []


def test_splitters_and_explicit_positions_speak_of_the_input(rng):
    data = rows(rng.normal(size=(20, 1)), np.arange(20) % 2)
    explicit = [(np.arange(10, 20), np.arange(10)), (np.arange(10), np.arange(10, 20))]
    for cv in (explicit, KFold(2), PredefinedSplit(np.repeat([0, 1], 10))):
        for (train, test), (a, b) in zip(folds(data, cv, 0), explicit, strict=True):
            assert sorted(train.position) == a.tolist() and sorted(test.position) == b.tolist()


def test_folds_that_cannot_be_used_are_left_out_with_a_warning(rng):
    data = rows(rng.normal(size=(20, 1)), np.repeat([0, 1], 10))
    with pytest.warns(UserWarning, match="2 of 2 folds are left out"):
        assert folds(data, KFold(2), 0) == []


def test_only_ratios_of_weights_matter():
    codes, classes = np.array([0, 0, 0, 1]), np.array([0, 1])
    for scale in (1e-300, 1.0, 1e300):
        np.testing.assert_allclose(check_weights(scale * np.array([1, 1, 2, 0.5]), codes, classes).mean(), 1)
    assert check_weights(None, codes, classes).tolist() == [1, 1, 1, 1]


def test_balanced_class_weights_give_classes_equal_weight():
    codes, classes, w = np.array([0, 0, 0, 1]), np.array([0, 1]), np.array([1.0, 1, 2, 1])
    balanced = w * class_factors("balanced", w, codes, classes)
    assert balanced[:3].sum() == pytest.approx(balanced[3]) and balanced.sum() == pytest.approx(5)
    assert class_factors({1: 3.0}, w, codes, classes).tolist() == [1, 1, 1, 3]


def test_groups_of_any_type_become_codes():
    codes = check_groups(["a", 1, ("x", 2), "a"], 4)
    assert codes[0] == codes[3] and len(set(codes.tolist())) == 3
    with pytest.raises(ValueError, match="missing"):
        check_groups(["a", None], 2)


def _misplaced(codes, X, groups):
    """How often a row is followed by one of equal values and a lower class."""
    same = np.all((X[1:] == X[:-1]) | (np.isnan(X[1:]) & np.isnan(X[:-1])), axis=1) & (groups[1:] == groups[:-1])
    return np.count_nonzero(same & (codes[1:] < codes[:-1]))


@pytest.mark.parametrize("levels", [1, 2, 1000])
def test_rows_are_sorted_by_columns_from_the_last_to_the_first_group_and_class(rng, levels):
    n, d = 50, 40
    X = np.column_stack([rng.integers(0, 3, size=(n, 4)), rng.integers(0, levels, size=(n, d - 4))]).astype(float)
    X[rng.uniform(size=X.shape) < 0.05] = np.nan
    X = X[rng.integers(0, n, n)]
    y, groups, weight = rng.integers(0, 2, n), rng.integers(0, 2, n), rng.uniform(0.5, 2.0, n)
    cells = [tuple(row) for row in np.nan_to_num(X, nan=np.inf)[:, ::-1]]
    merged, renamed = (merge_rows(rows(X, codes, weight, groups=groups)) for codes in (y, 1 - y))
    assert merged.position.tolist() == renamed.position.tolist()
    order = min((y, 1 - y), key=lambda codes: _misplaced(codes[merged.position], X[merged.position], merged.groups))
    keys = [(cell, g, c) for g, c, cell in zip(groups, order, cells, strict=True)]
    assert merged.position.tolist() == [keys.index(key) for key in sorted(set(keys))]
    sums = [sum(w for w, other in zip(weight, keys, strict=True) if other == key) for key in sorted(set(keys))]
    np.testing.assert_allclose(merged.weight, sums)


def test_no_rows_merge_to_no_rows():
    assert len(merge_rows(rows(np.empty((0, 3)), np.empty(0, dtype=int)))) == 0


def test_a_fold_without_test_rows_is_left_out_with_a_warning(rng):
    data = rows(rng.normal(size=(20, 1)), np.arange(20) % 2)
    splits = [(np.arange(20), np.empty(0, dtype=int)), (np.arange(10), np.arange(10, 20))]
    with pytest.warns(UserWarning, match="1 of 2 folds are left out"):
        assert len(folds(data, splits, 0)) == 1


@pytest.mark.parametrize("labels", [False, True])
def test_rows_that_differ_in_one_column_are_never_merged(rng, labels):
    X = np.vstack([np.zeros(60), np.eye(60)])
    text = {60: np.array(["a"] * 60 + ["b"], dtype=object)} if labels else {}
    X = np.column_stack([X, np.full(61, np.nan)])
    assert len(merge_rows(rows(X, np.zeros(61, dtype=int), labels=text))) == 61


class TestPositions:
    def test_masks_and_positions_name_the_same_rows(self, rng):
        given = rows(rng.normal(size=(6, 1)), [0, 1] * 3)
        mask = np.array([True, True, True, False, False, False])
        one, two = (positions(cv, given.codes, None)[0] for cv in ([(mask, ~mask)], [([0, 1, 2], [3, 4, 5])]))
        np.testing.assert_array_equal(one, two)

    @pytest.mark.parametrize(
        ("cv", "words"),
        [
            ([], "cv is empty"),
            ([(0, 1)], "no pair"),
            ([3], "no pair"),
            ([([[0]], [1])], "no pair"),
            ([([0.5], [1])], "no pair"),
            ([([0], [6])], "rows 0 to 6, but X has the rows 0 to 5"),
            ([([-1], [1])], "rows -1 to 1"),
            (StratifiedKFold(5), "cannot split these rows"),
        ],
    )
    def test_what_names_no_rows_is_refused(self, rng, cv, words):
        with pytest.raises(ValueError, match=words):
            positions(cv, np.array([0, 1] * 3), None)


class TestEqualRows:
    def test_copies_are_dealt_over_all_folds(self):
        given = rows(np.r_[np.zeros((50, 1)), np.arange(1.0, 11.0)[:, None]], np.r_[[0] * 50, [0, 1] * 5])
        made = folds(given, 3, 0)
        counts = [int(test.counts[test.table.numbers[:, 0] == 0].sum()) for _, test in made]
        assert sorted(counts) == [16, 17, 17]
        for train, test in made:
            assert train.mass.sum() + test.mass.sum() == pytest.approx(given.mass.sum())
            assert train.counts.sum() + test.counts.sum() == len(given)

    def test_numbers_and_weights_tell_equal_rows_apart(self, rng):
        given = rows(np.zeros((4, 1)), [0] * 4, weight=np.array([1.0, 2.0, 1.0, 2.0]))
        given = replace(given, response=np.array([3.0, 1.0, 2.0, 4.0]))
        keys = row_keys(given.table, 0)
        order = np.array([2, 0, 3, 1])
        one = sampling_keys(keys, given.ties)
        two = sampling_keys(keys[order], given.take(order).ties)
        np.testing.assert_array_equal(one[order], two)


def test_candidates_are_drawn_from_every_class_by_the_seed(rng):
    given = rows(rng.normal(size=(300, 1)), [0] * 295 + [1] * 5)
    some = draw_candidates(given, 30, 0)
    counts = np.bincount(given.codes[some])
    assert counts.tolist() == [30, 1] and np.all(np.diff(some) > 0)  # of each class its share, but no fewer than one
    assert not np.array_equal(some, draw_candidates(given, 30, 1))


def table_of(y):
    """A table of distinct rows, as many as there are labels."""
    return rows(np.arange(len(y))[:, None] * 1.5, np.zeros(len(y), dtype=int)).table


def pairs_of(cv, y, groups, seed, **options):
    return fold_positions(cv, table_of(y), y, groups, seed, **options)


class TestPairs:
    def test_numbers_ask_for_folds_with_all_classes(self):
        y = np.array(["a"] * 20 + ["b"] * 10)
        pairs = pairs_of(None, y, None, 0)
        assert len(pairs) == 5 and all(sorted([*a, *b]) == list(range(30)) for a, b in pairs)
        assert all((y[test] == "a").sum() == 4 and (y[test] == "b").sum() == 2 for _, test in pairs)
        again, other = pairs_of(5, y, None, 0), pairs_of(5, y, None, 1)
        assert all(np.array_equal(a[1], b[1]) for a, b in zip(pairs, again, strict=True))
        assert any(not np.array_equal(a[1], b[1]) for a, b in zip(pairs, other, strict=True))

    def test_there_are_no_more_folds_than_rows_or_groups_of_a_class(self):
        y, groups = np.repeat([0, 1], [20, 3]), np.r_[np.arange(20), [30, 30, 31]]
        assert len(pairs_of(5, y, None, 0)) == 3 and len(pairs_of(5, y, groups, 0)) == 2
        assert len(pairs_of(5, np.arange(7.0), None, 0, stratified=False)) == 5
        with pytest.raises(ValueError, match="cv=5: no fold can be made"):
            pairs_of(5, np.repeat([0, 1], [5, 1]), None, 0)

    def test_groups_stay_on_one_side(self):
        groups = np.arange(30) // 3
        for stratified in (True, False):
            pairs = pairs_of(3, np.arange(30) % 2, groups, 0, stratified=stratified)
            assert len(pairs) == 3 and not any(set(groups[a]) & set(groups[b]) for a, b in pairs)

    def test_folds_of_numbers_are_shuffled(self):
        pairs = deal(row_keys(table_of(np.zeros(20)), 0), None, None, 4, 0)
        assert len(pairs) == 4 and any(np.diff(test).max() > 1 for _, test in pairs)

    def test_positions_of_ones_own_may_be_read_once(self):
        pair = (np.arange(3), np.arange(3, 6))
        assert [b.tolist() for _, b in pairs_of(iter([pair]), np.arange(6) % 2, None, 0)] == [[3, 4, 5]]


@pytest.mark.parametrize(
    "y",
    [[0, 1, 1, 0, 1], np.array([-128, 127] * 300, dtype=np.int8), np.array([255, 3] * 300, dtype=np.uint8), [7, 7, 7]],
    ids=str,
)
def test_whole_numbers_are_counted_as_they_would_be_sorted(y):
    codes, classes = encode_classes(np.asarray(y), len(y))
    expected, places = np.unique(y, return_inverse=True)
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(codes, places)
    assert classes.dtype == np.asarray(y).dtype
