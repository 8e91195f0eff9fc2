"""Bad input gets one clear sentence or a sensible model, never NaN and never a crash."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from tamis import (
    EM2NOLCClassifier,
    EM2NOLCClassifierCV,
    Gaussian,
    GaussianImputer,
    Job,
    KernelBank,
    Plan,
    Statistics,
    product,
    run,
)
from tamis.table.table import check_names, resolve_columns

import zoo

X, Y = zoo.planted(n=60)


def fit(X=X, y=Y, sample_weight=None, groups=None, **kw):
    return EM2NOLCClassifier(**{"max_instances": 4, "max_features": 3, **kw}).fit(X, y, sample_weight, groups)


def with_cell(value, row=3, column=2):
    out = X.copy()
    out[row, column] = value
    return out


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"max_instances": 0}, "max_instances=0 must be an integer of at least 1"),
        ({"max_features": -2}, "max_features=-2"),
        ({"max_instances": 2.5}, "max_instances=2.5"),
        ({"max_features": True}, "max_features=True"),
        ({"alpha": -0.1}, "alpha=-0.1"),
        ({"alpha": np.nan}, "alpha=nan"),
        ({"bandwidth": 0}, "bandwidth=0"),
        ({"bandwidth": [1.0, 2.0]}, r"bandwidth has shape \(2,\), but X has 8 features"),
        ({"bandwidth": np.zeros(8)}, "bandwidth holds values"),
        ({"bandwidth": "mean"}, "bandwidth='mean'"),
        ({"solver": "magic"}, "solver='magic' is unknown: use one of 'splicing', 'admm', 'paper'"),
        ({"coupling": "half"}, "coupling='half'"),
        ({"refit": "hinge"}, "refit='hinge'"),
        ({"scaling": "minmax"}, "scaling='minmax'"),
        ({"missing": "mean"}, "missing='mean'"),
        ({"engine": "gpu"}, "engine='gpu'"),
        ({"candidates": 0}, "candidates=0"),
        ({"tol": -1}, "tol=-1"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"calibration": 1}, "calibration=1"),
        ({"class_weight": "heavy"}, "class_weight='heavy'"),
        ({"class_weight": {7: 2.0}}, r"class_weight names 7, which is not a class: the classes are \[0, 1\]"),
        ({"class_weight": {0: -1.0}}, "not positive"),
        ({"categorical_features": ["colour"]}, "categorical_features names 'colour'"),
        ({"categorical_features": [12]}, "categorical_features names 12"),
        ({"categorical_features": [True, False]}, "mask of length 2"),
        ({"kernels": []}, "kernels is empty"),
        ({"kernels": KernelBank(())}, "kernels is empty"),
        ({"kernels": [("a", Gaussian(), 99)]}, "uses column 99"),
        ({"kernels": [("a", Gaussian(), "age")]}, "age"),
        ({"kernels": [Gaussian()]}, "not a triple"),
        ({"kernels": product}, "neither a recipe"),
        ({"kernels": "product"}, "neither a recipe"),
        ({"kernels": [("a", Gaussian(), 0), ("a", Gaussian(), 1)]}, "two kernels are named 'a'"),
        ({"kernels": product([9])}, "column 9 is not among the 8"),
        ({"kernels": product(["age"])}, "no column 'age'"),
        ({"bandwidth": 1e-300}, "out of range"),
        ({"shared_support": "yes"}, "shared_support='yes'"),
        ({"class_weight": 3}, "class_weight=3"),
        ({"groups": ["a", None] * 30}, "groups has missing labels"),
        ({"kernels": product("all")}, "stands on 8 columns, more than max_features=3"),
        ({"solver": "paper", "shared_support": True}, "shared_support=False"),
        ({"solver": "paper", "kernels": product()}, "one kernel per feature"),
        ({"X": with_cell(np.inf)}, "infinity in column 'x2'"),
        ({"X": with_cell(np.nan), "missing": None}, "NaN in column 'x2' and missing=None"),
        ({"y": np.zeros(60)}, "one class"),
        ({"y": Y[:50]}, "length 50"),
        ({"y": np.where(Y > 0, np.nan, 1.0)}, "NaN"),
        ({"y": np.array([1, "a"] * 30, dtype=object)}, "mixes strings"),
        ({"y": np.linspace(0, 1, 60)}, "[Uu]nknown label type"),
        ({"sample_weight": -np.ones(60)}, "negative"),
        ({"sample_weight": np.zeros(60)}, "zero"),
        ({"sample_weight": np.ones(5)}, r"shape \(5,\)"),
        ({"sample_weight": np.full(60, np.inf)}, "non-finite"),
        ({"sample_weight": (Y > 0).astype(float)}, "zero for all rows of class"),
        ({"groups": np.arange(7)}, r"groups has shape \(7,\)"),
        ({"X": X[:1], "y": Y[:1]}, "at least two rows"),
        ({"X": X[:0], "y": Y[:0]}, "0 sample"),
        ({"X": X[0]}, "1D array"),
        ({"X": pd.DataFrame(X, columns=list("abcdefga"))}, "two columns named 'a'"),
        ({"X": pd.DataFrame({"day": pd.to_datetime(["2020-01-01"] * 60)})}, "column 'day' holds dates"),
        ({"X": pd.DataFrame({"crp": [0.5, "<0.01"] * 30})}, "column 'crp' mixes numbers and text"),
        ({"X": pd.DataFrame({"z": np.full(60, 1j)})}, "complex"),
        ({"X": pl.LazyFrame({"a": [1.0] * 60})}, "collect"),
        ({"X": np.empty((60, 0))}, "0 feature"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_refused_with_one_sentence(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        fit(**changes)


@pytest.mark.parametrize("kind", [TypeError, ValueError])
def test_sparse_and_nested_input_is_refused_with_the_reason(kind):
    """A ValueError like all others, and the TypeError that scikit-learn asks for."""
    with pytest.raises(kind, match=r"dense data is required: use X.toarray\(\)"):
        fit(sparse.csr_matrix(X))
    with pytest.raises(kind, match=r"dense data is required: use X.toarray\(\)"):
        GaussianImputer().fit(sparse.csr_matrix(X))
    nested = X.astype(object)
    nested[3, 0] = [1, 2]
    for cells in (nested, nested.tolist(), pd.DataFrame(nested)):
        with pytest.raises(kind, match=r"holds \[1, 2\], and an argument must be a string or a number: convert it"):
            fit(cells)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"alphas": ()}, "alphas=.. must be a non-empty sequence"),
        ({"alphas": (-1.0,)}, "alphas=-1.0"),
        ({"bandwidths": "median"}, "bandwidths='median'"),
        ({"bandwidths": (-1.0,)}, "bandwidth=-1.0"),
        ({"couplings": ("half",)}, "couplings='half'"),
        ({"refits": ("hinge",)}, "refits='hinge'"),
        ({"cv": 1}, "cv=1"),
        ({"cv": 2.5}, "cv=2.5"),
        ({"alphas": (0.01, None)}, "alphas=None"),
        ({"refits": (None,)}, "refits=None"),
        ({"budgets": "some"}, "budgets='some'"),
        ({"scoring": "f1"}, "scoring='f1'"),
        ({"rule": "two_se"}, "rule='two_se'"),
        ({"kernels": {}}, "kernels={}"),
        ({"max_instances": 0}, "max_instances=0"),
        ({"scaling": "x"}, "scaling='x'"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_search_refuses_with_one_sentence(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        EM2NOLCClassifierCV(**{"max_instances": 3, "max_features": 2, **changes}).fit(X, Y)


def test_search_needs_two_distinct_rows_of_each_class():
    with pytest.raises(ValueError, match="no fold can be made"):
        EM2NOLCClassifierCV().fit(X[:2], [0, 1])


def sensible(clf, X):
    assert np.isfinite(clf.decision_function(X)).all() and np.isfinite(clf.predict_proba(X)).all()
    assert set(clf.predict(X)) <= set(clf.classes_)
    return clf


@pytest.mark.filterwarnings("ignore::UserWarning")
class TestSensibleModels:
    def test_two_rows(self):
        sensible(fit(X[:2], [0, 1]), X)

    def test_three_rows(self):
        sensible(fit(X[:3], [0, 1, 1]), X)

    def test_constant_and_missing_columns_are_never_kept(self):
        bad = X.copy()
        bad[:, 0], bad[:, 3] = 5.0, np.nan
        clf = sensible(fit(bad, max_features=8), bad)
        assert not {0, 3} & set(clf.features_.tolist())

    def test_nothing_but_constants(self):
        clf = sensible(fit(np.ones((10, 2)), [0, 1] * 5), np.ones((3, 2)))
        assert len(clf.instances_) == len(clf.features_) == 0
        assert clf.explain(np.ones((3, 2))).contributions.shape == (3, 1, 0, 0)

    def test_nothing_but_missing_cells(self):
        sensible(fit(np.full((10, 2), np.nan), [0, 1] * 5), np.full((3, 2), np.nan))

    def test_duplicate_rows(self):
        sensible(fit(np.repeat(X[:6], 10, axis=0), np.repeat([0, 1, 0, 1, 0, 1], 10)), X)

    def test_contradictory_duplicates(self):
        sensible(fit(np.repeat(X[:6], 10, axis=0), np.tile([0, 1], 30)), X)

    def test_no_ridge(self):
        for bandwidth in (0.01, 1.0, 100.0):
            sensible(fit(alpha=0.0, bandwidth=bandwidth, max_instances=20), X)

    def test_huge_values_and_huge_weights(self):
        sensible(fit(X * 1e150), X * 1e150)
        sensible(fit(sample_weight=np.full(60, 1e150)), X)
        for scale in (1e-300, 1e300):
            clf = sensible(fit(sample_weight=np.full(60, scale)), X)
            np.testing.assert_allclose(clf.predict_proba(X), fit().predict_proba(X))
        sensible(fit(sample_weight=np.r_[1e160, np.ones(59)]), X)
        sensible(fit(X * 1e-200), X * 1e-200)

    def test_rare_class(self):
        y = np.zeros(60, dtype=int)
        y[7] = 1
        sensible(fit(y=y), X)

    def test_labels_of_any_one_type(self):
        for labels in (np.array(["no", "yes"]), np.array([False, True]), np.array([-1.0, 2.0]), np.array([3, 9])):
            clf = sensible(fit(y=labels[Y]), X)
            assert clf.predict(X).dtype == labels.dtype

    def test_zero_weights_are_as_good_as_absent_rows(self):
        weight = np.ones(60)
        weight[40:] = 0
        a, b = fit(sample_weight=weight), fit(X[:40], Y[:40])
        np.testing.assert_allclose(a.decision_function(X), b.decision_function(X))
        assert a.instances_.max() < 40

    def test_object_arrays_with_text(self):
        mixed = np.array([[1.0, "a"], [2.0, "b"], [3.0, None], [4.0, "a"]] * 5, dtype=object)
        sensible(fit(mixed, [0, 1, 1, 0] * 5), mixed)

    def test_one_column(self):
        sensible(fit(X[:, [1]], Y), X[:, [1]])


@pytest.mark.filterwarnings("ignore:nothing can be held out", "ignore:calibration failed")
def test_a_model_that_keeps_nothing_says_so():
    with pytest.warns(UserWarning, match="kept no instance"):
        fit(np.ones((10, 2)), [0, 1] * 5)


@pytest.mark.parametrize("changes", [{"y": np.r_[2, Y[1:]]}, {"groups": Y}], ids=["one row of a class", "groups"])
def test_probabilities_from_training_rows_are_announced(changes):
    with pytest.warns(UserWarning, match="nothing can be held out"):
        fit(**changes)


def test_prediction_refuses_categories_of_another_type():
    frame = pd.DataFrame({"stage": np.arange(60) % 4, "x": X[:, 0]})
    clf = fit(frame, (frame["stage"] > 1).astype(int), categorical_features=["stage"])
    with pytest.raises(ValueError, match="column 'stage' holds text and held numbers"):
        clf.predict(frame.assign(stage=frame["stage"].astype(str)))
    assert np.isfinite(clf.decision_function(frame.assign(x=frame["x"] > 0))).all()


def test_failed_search_messages_for_folds():
    from sklearn.model_selection import LeaveOneOut

    small = EM2NOLCClassifierCV(
        2, 2, bandwidths=(1.0,), alphas=(0.01,), scoring="roc_auc", rule="one_se", cv=LeaveOneOut()
    )
    assert np.isfinite(small.fit(X[:16], Y[:16]).predict_proba(X)).all()
    assert EM2NOLCClassifierCV(2, 2, bandwidths=(1.0,), alphas=(0.01,), cv=np.int64(2)).fit(X, Y).n_splits_ == 2


def test_prediction_refuses_another_number_of_columns():
    with pytest.raises(ValueError, match="features"):
        fit().predict(X[:, :3])


def test_prediction_refuses_text_where_numbers_were():
    frame = pd.DataFrame(X[:, :3], columns=list("abc"))
    clf = fit(frame)
    name = clf.explain(frame).feature_names[0]
    with pytest.raises(ValueError, match=f"column '{name}' holds text and was numeric"):
        clf.predict(frame.assign(**{name: "high"}))


def test_shape_of_a_feature_that_was_not_kept():
    clf = fit(max_features=1)
    other = next(j for j in range(8) if j not in clf.features_)
    with pytest.raises(ValueError, match="not among the kept ones"):
        clf.curve(other)


def test_no_warnings_on_ordinary_data():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit().predict_proba(X)


def test_columns_that_the_model_does_not_use_are_checked_but_change_nothing():
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    clf = fit(frame, calibration=None)
    unused = next(c for j, c in enumerate(frame) if j not in clf.features_)
    expected = clf.decision_function(frame)
    for cell in (np.nan, "text", 1e300):
        changed = frame.assign(**{unused: [cell] * len(frame)})
        for table in (changed, pl.from_pandas(changed)):
            np.testing.assert_array_equal(clf.decision_function(table), expected)
            np.testing.assert_allclose(clf.explain(table).decision[:, 0], expected, atol=1e-12)
    with pytest.raises(ValueError, match=f"infinity in column '{unused}'"):
        clf.predict(frame.assign(**{unused: np.inf}))
    strict = fit(frame, calibration=None, missing=None)
    with pytest.raises(ValueError, match=f"NaN in column '{unused}' and missing=None"):
        strict.predict(frame.assign(**{unused: np.nan}))


def test_columns_are_named_once_and_found_by_their_first_place():
    names = [f"gene {j}" for j in range(3000)]
    check_names(names)
    with pytest.raises(ValueError, match="two columns named 'gene 7'"):
        check_names([*names, "gene 7"])
    assert resolve_columns(["gene 2999", "gene 0", -1], names) == [2999, 0, 2999]
    assert resolve_columns(["a"], ["b", "a", "a"]) == [1]


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (["a", None] * 30, r"y has no label in row 1 \(Input y contains NaN\)"),
        (pd.Series(["a", "b"] * 29 + [pd.NA, "a"], dtype="string"), "no label in row 58"),
        (pd.Series(["a", None] * 30, dtype="category"), "no label in row 1"),
        (pl.Series(["a", None] * 30), "no label in row 1"),
        ([[1], 2] * 30, "y holds lists"),
        (np.ma.masked_array(Y, Y > 0), "masked"),
    ],
    ids=["None", "NA", "category", "polars", "lists", "mask"],
)
def test_rows_without_a_label_are_named(y, sentence):
    with pytest.raises(ValueError, match=sentence):
        fit(y=y)


def test_columns_of_a_dict_go_with_statistics():
    columns = {f"c{j}": X[:, j] for j in range(3)}
    table = pa.table(columns)
    statistics = Statistics(Plan.of(table, Y)).update(columns, Y)
    one, two = (EM2NOLCClassifier(4, 3).fit_statistics(statistics, rows, Y) for rows in (columns, table))
    np.testing.assert_array_equal(one.predict_proba(table), two.predict_proba(columns))


def test_a_job_takes_an_arrow_table():
    table = pa.table({"a": X[:, 1], "b": pa.array(["u", "v", None] * 20).dictionary_encode(), "y": Y})
    found = run(table, Job("y", method="EM2NOLCClassifier", max_instances=3, max_features=2))
    assert found.model.feature_names_in_.tolist() == ["a", "b"]
