"""ONNX models say what the estimators say: labels, scores, probabilities and all contributions."""

from __future__ import annotations

import json
import sys
import warnings
from functools import cache

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from absent_problems import KERNELS, blanked, data, mask
from tamis import (
    AbsentMKLClassifier,
    AverageMKLClassifier,
    ChannelBaselineClassifier,
    EM2NOLCClassifier,
    IMKPLClassifier,
    Job,
    KernelGLVQClassifier,
    SimpleMKLClassifier,
    TamisClassifier,
    TamisRegressor,
    all_estimators,
    bandwidths,
    io,
    per_feature,
    per_group,
    precomputed,
    product,
    repaired,
    run,
)
from tamis.io.export.codes import sparse_codes
from tamis.io.export.graph import Graph
from tamis.kernels.base import Categorical, Epanechnikov, Gaussian, Laplacian, Polynomial, Sigmoid
from tamis.optim.nqp import solve_nqp

from small_fits import Peak, Product, Widths, mixed, quick

AGREE = {"float32": 1e-5, "float64": 1e-9}
DTYPES = list(AGREE)
TEXT = onnx.TensorProto.STRING

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:kernels.*without ones", "ignore:some training sample"
)


def session(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def fed(model, X, dtype):
    """X as the inputs of a graph."""
    names = json.loads(props(model)["inputs"])
    if isinstance(names.get("X"), list):
        return {"X": np.asarray(X, dtype=dtype)}
    feed = {}
    for given in model.graph.input:
        column = X[names[given.name]]
        text = given.type.tensor_type.elem_type == TEXT
        cells = column.astype(object).where(column.notna(), "").to_numpy(object) if text else column.to_numpy(dtype)
        feed[given.name] = cells.reshape(-1, 1)
    return feed


def props(model):
    return {prop.key: prop.value for prop in model.metadata_props}


def rounded(X, dtype):
    """What a graph of some type sees of X."""
    if isinstance(X, pd.DataFrame):
        return X.astype(dict.fromkeys(X.select_dtypes("float"), dtype)).astype(
            dict.fromkeys(X.select_dtypes("float"), float)
        )
    return X.astype(dtype).astype(float)


def outputs(model, X, dtype):
    running = session(model)
    return dict(zip([out.name for out in running.get_outputs()], running.run(None, fed(model, X, dtype)), strict=True))


def agrees(clf, X, dtype, **options):
    """Compare all outputs of the graph with the estimator; returns them."""
    found, seen = outputs(io.to_onnx(clf, dtype=dtype, **options), X, dtype), rounded(X, dtype)
    told = clf.explain(seen)
    names = parts_of(clf)
    expected = {name: getattr(told, name) for name in names}
    if hasattr(clf, "classes_"):
        np.testing.assert_array_equal(found["label"], clf.predict(seen))
        expected["score"] = clf.decision_function(seen)
        assert ("probabilities" in found) == hasattr(clf, "calibrator_")
        if "probabilities" in found:
            expected["probabilities"] = clf.predict_proba(seen)
    else:
        expected["prediction"] = clf.predict(seen)
    for name, values in expected.items():
        assert found[name].shape == values.shape and found[name].dtype == dtype, name
        size = max(1.0, np.abs(values).max(initial=0.0))
        np.testing.assert_allclose(found[name], values, rtol=0, atol=AGREE[dtype] * size, err_msg=name)
    score = found["score" if "score" in found else "prediction"].reshape(len(seen), -1)
    wholes = [np.concatenate([found[name] for name in names], axis=2)] if len(names) == 3 else [found[n] for n in names]
    for parts in wholes:
        size = max(1.0, np.abs(parts).sum(axis=2).max(initial=0.0))
        np.testing.assert_allclose(parts.sum(axis=2) + clf.intercept_, score, atol=AGREE[dtype] * size, rtol=1e-6)
    return found


def parts_of(clf):
    """Names of the contributions: two ways to split the score of a kernel model, or the three parts of the others."""
    flagship = isinstance(clf, TamisClassifier | TamisRegressor)
    return ("by_feature", "by_pair", "by_case") if flagship else ("by_kernel", "by_instance")


@cache
def fitted(name):
    X, y = mixed()
    return quick(name).fit(X, X["v"] if "Regressor" in name else y)


def unheard():
    """Rows with missing cells, categories that training never saw and numbers beyond its range."""
    X, _ = mixed(40, seed=1)
    X["c"] = X["c"].astype(object)
    X.loc[::5, "v"] = np.nan
    X.loc[1::5, "c"] = None
    X.loc[2::5, "c"] = "new"
    X.loc[3::5, "u"] = 1e6
    X.loc[7] = [np.nan, np.nan, None]
    return X


# ---------------------------------------------------------------------- every estimator


@pytest.mark.parametrize("name", list(all_estimators()))
class TestEveryEstimator:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_graph_and_estimator_agree(self, name, dtype):
        agrees(fitted(name), mixed()[0], dtype)
        agrees(fitted(name), unheard(), dtype)

    def test_several_classes(self, name):
        X, y = (part[::3] for part in load_iris(return_X_y=True))
        clf = quick(name).fit(X, y)
        holes = X.copy()
        holes[::4, 2], holes[5] = np.nan, np.nan
        for dtype in DTYPES:
            agrees(clf, holes, dtype)

    def test_the_graph_is_standard_and_takes_any_number_of_rows(self, name):
        model = io.to_onnx(fitted(name))
        onnx.checker.check_model(model, full_check=True)
        assert {entry.domain for entry in model.opset_import} == {""}
        assert {node.domain for node in nodes(model.graph)} == {""}
        X = unheard()
        whole = outputs(model, X, "float32")
        for rows in (0, 1):
            for key, values in outputs(model, X[:rows], "float32").items():
                np.testing.assert_array_equal(values.shape, whole[key][:rows].shape)
                if values.dtype != object:
                    np.testing.assert_allclose(values, whole[key][:rows], atol=1e-5)


def nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes(attribute.g)


@pytest.mark.parametrize("dtype", DTYPES)
def test_seen_from_the_other_class_and_out_of_a_file(dtype, tmp_path):
    X, clf = unheard(), fitted("TamisClassifier").oriented("no")
    io.save(clf, tmp_path / "m.tamis")
    one, two = agrees(clf, X, dtype), agrees(io.load(tmp_path / "m.tamis"), X, dtype)
    np.testing.assert_array_equal(one["score"], two["score"])


def test_results_of_a_run_can_be_exported():
    X, y = mixed()
    results = run(X.assign(y=y), Job("y", method="EM2NOLCClassifier", max_instances=2, max_features=2))
    found = outputs(io.to_onnx(results), X, "float32")
    np.testing.assert_array_equal(found["label"], results.model.predict(X))


# ---------------------------------------------------------------------- kernels

TABLE = np.random.default_rng(3).normal(size=(90, 4))
KINDS = {
    "Gaussian": Gaussian(0.7),
    "several widths": Widths((2.0, 0.9, 0.3)),
    "Laplacian": Laplacian(1.5),
    "Epanechnikov": Epanechnikov(2.0),
    "Polynomial": Polynomial(3, 0.5),
    "linear": Polynomial(1, 0.0),
    "Sigmoid": Sigmoid(0.3, 0.2),
    "Categorical": Categorical(),
}


def holed(X, share=0.15, seed=0):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


@pytest.mark.parametrize("missing", ["absent", "median"])
@pytest.mark.parametrize("kernel", KINDS)
def test_kernels_of_one_column_and_of_several(kernel, missing):
    X = holed(np.round(TABLE, 1) if kernel == "Categorical" else TABLE)
    y = (np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2 > 0.5).astype(int)
    one, own = KINDS[kernel], ["Epanechnikov", "Sigmoid"]
    bank = [("a", one, [0]), ("ab", one, [0, 1]), ("abc", one, [1, 2, 3]), ("d", one, [3])]
    clf = EM2NOLCClassifier(8, 4, kernels=bank, missing=missing, calibration=None).fit(X, y)
    assert len(clf.kernels_) > 1 or kernel in own
    new = holed(TABLE[::-1] * 1.1, 0.3, seed=1)
    new[3] = np.nan
    for dtype in DTYPES:
        agrees(clf, np.round(new, 1) if kernel == "Categorical" else new, dtype)


def test_products_of_kernels_of_columns_of_both_kinds():
    X, y = mixed(120)
    parts = Product((Widths((1.0, 0.5)), Categorical())), Product((Polynomial(2), Sigmoid(0.5, 0.1)))
    bank = [("vc", parts[0], ["v", "c"]), ("uv", parts[1], ["u", "v"]), ("codes", Gaussian(1.0), ["c"])]
    bank += [("all", Gaussian(2.0, (0.0, 0.0, 1.5)), ["u", "v", "c"]), ("c", Gaussian(1.0, (0.7,)), ["c"])]
    clf = EM2NOLCClassifier(9, 3, kernels=bank, coupling="full", calibration=None).fit(X, y)
    assert len(clf.kernels_) == 5
    for dtype in DTYPES:
        agrees(clf, unheard(), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_kernel_that_the_package_does_not_know_is_exported_by_its_portable_form(dtype):
    X = holed(TABLE, 0.1)
    bank = [("one", Peak(), [0]), ("two", Peak(), [1, 2])]
    clf = EM2NOLCClassifier(8, 3, kernels=bank, calibration=None).fit(X, np.nan_to_num(X[:, 0]) > 0)
    agrees(clf, holed(TABLE[::-1], 0.3, seed=1), dtype)


def test_kernels_that_are_scaled_to_unit_norm():
    X = holed(TABLE, 0.1)
    y = (np.nan_to_num(X[:, 0]) > 0).astype(int)
    bank = [("p", Polynomial(2, 1.0), [0, 1]), ("q", Polynomial(1, 0.0), [2, 3]), ("r", Categorical(), [1, 2])]
    for cls in (KernelGLVQClassifier, IMKPLClassifier):
        clf = cls(kernels=bank, calibration=None).fit(np.round(X), y)
        assert len(clf.normalised_kernels_) == 3
        for dtype in DTYPES:
            agrees(clf, np.round(holed(TABLE[::-1], 0.3, seed=1)), dtype)


def test_many_cases_and_kernels():
    X = holed(np.random.default_rng(5).normal(size=(150, 5)))
    y = np.array(["a", "b", "c"])[np.argmax(np.nan_to_num(X)[:, :3], axis=1)]
    clf = AverageMKLClassifier(C=0.5, kernels=bandwidths([0.5, 2.0], on="both"), calibration=None).fit(X, y)
    assert len(clf.instances_) > 100 and len(clf.kernels_) == 12
    for dtype in DTYPES:
        agrees(clf, X, dtype)


# ---------------------------------------------------------------------- channels that samples lack


@pytest.mark.parametrize("dtype", DTYPES)
def test_absent_channels(dtype):
    X, y, _ = data()
    new = blanked(np.random.default_rng(1).normal(size=(30, 6)), mask(30, absent=2, seed=1))
    new[4] = np.nan
    new[5, 3] = np.nan  # a part of a channel
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agrees(AbsentMKLClassifier(kernels=KERNELS, calibration=2).fit(X, y), new, dtype)
        for baseline in ("mean_filling", "fusion", "max_margin"):
            clf = ChannelBaselineClassifier(baseline, kernels=KERNELS, calibration=None).fit(X, y)
            agrees(clf, new, dtype)


# ---------------------------------------------------------------------- columns


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scaling", ["standard", "rank", None])
def test_columns_of_any_size(scaling, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)) * [1, 1, 1, 1e-4, 1e5, 0] + [0, 2000, 1e6, 5.0, -1e7, 3.0]
    y = (np.sin(X[:, 0]) + X[:, 2] - 1e6 + X[:, 4] / 1e5 + 100 > 0).astype(int)
    clf = EM2NOLCClassifier(10, 6, scaling=scaling, bandwidth="median", calibration=None)
    clf.fit(rounded(X, dtype), y)
    agrees(clf, rng.normal(size=(50, 6)) * X.std(axis=0) * 2 + X.mean(axis=0), dtype)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_unscaled_columns_far_from_zero(share):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(90, 3)), 3)
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    X = holed(X + [1e8, -1e7, 1e8], share)
    kernels = per_feature() + product("all") + per_group({"two": [0, 1]}, Widths((2.0, 0.5)))
    clf = EM2NOLCClassifier(8, 3, kernels=kernels, scaling=None, coupling="full", calibration=None).fit(X, y)
    assert len(clf.kernels_) == 5
    agrees(clf, holed(X[::-1], share, seed=2), "float64")
    whole = AbsentMKLClassifier(kernels=product("all"), scaling=None, calibration=None).fit(X, y)
    agrees(whole, holed(X[::-1], share, seed=2), "float64")


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_roots_of_distances_at_the_kept_cases(share):
    X = holed(TABLE, share)
    y = (TABLE[:, 0] + TABLE[:, 1] ** 2 > 0.5).astype(int)
    bank = [("two", Laplacian(1.0), [0, 1]), ("three", Laplacian(0.3), [1, 2, 3]), ("twice", Laplacian(2.0), [0, 3, 3])]
    clf = EM2NOLCClassifier(12, 3, kernels=bank, coupling="full", calibration=None).fit(X, y)
    assert len(clf.kernels_) > 1
    for dtype in DTYPES:
        agrees(clf, X, dtype)


@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Widths((1e3, 1.0)), Laplacian(1.0), Epanechnikov(1.0)])
def test_columns_that_are_wide_beside_the_kernel(kernel, share):
    X = holed(TABLE * 1e8 + 1e9, share)
    bank = [("a", kernel, [0]), ("abc", kernel, [0, 1, 2]), ("cd", kernel, [2, 3])]
    clf = EM2NOLCClassifier(20, 3, kernels=bank, scaling=None, coupling="full", calibration=None)
    clf.fit(X, TABLE[:, 0] > 0)
    assert len(clf.kernels_) > 1
    near = np.vstack([X + shift for shift in (0.0, 0.2, 0.5)])
    assert np.ptp(clf.decision_function(near)) > 0.1
    agrees(clf, near, "float64")
    narrow = SimpleMKLClassifier(kernels=bandwidths([1e-5], on="both"), calibration=None).fit(X, TABLE[:, 0] > 0)
    for dtype in DTYPES:
        agrees(narrow, rounded(near, dtype), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_of_numbers_that_are_close(dtype):
    small = 1e-42 if dtype == "float32" else 1e-310  # differences whose reciprocals are no numbers
    X = np.arange(12.0)[:, None] % 6 * small
    clf = EM2NOLCClassifier(3, 1, scaling="rank", calibration=None).fit(X, np.arange(12) % 6 > 2)
    assert len(clf.kernels_) == 1
    agrees(clf, np.arange(-2.0, 8.0)[:, None] * small, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_categories_of_every_kind(dtype):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "word": rng.choice(["x", "y", "z"], 80),
            "kind": pd.Categorical(rng.choice(["p", "q"], 80), categories=["p", "q", "unused"]),
            "flag": rng.random(80) < 0.5,
            "stage": rng.choice([1.0, 2.0, 7.0], 80),
            "size": rng.normal(size=80),
        }
    )
    y = (X["word"] == "x") ^ X["flag"] | (X["stage"] == 7)
    X["word"] = X["word"].where(rng.random(80) > 0.1)
    X["stage"] = X["stage"].where(rng.random(80) > 0.1)
    for missing in ("absent", "median"):
        columns = ["word", "kind", "flag", "stage"]
        clf = EM2NOLCClassifier(12, 5, categorical_features=columns, missing=missing, kernels=per_feature() + product())
        clf.fit(X, y)
        assert set(clf.model_.encoder.names) >= {"word", "flag", "stage"}
        new = X[::-1].reset_index(drop=True)
        new.loc[::6, "stage"] = 3.0
        new["kind"] = new["kind"].astype(object).where(new.index % 7 > 0, "other")
        agrees(clf, new, dtype)


def test_codes_that_are_numbers_are_cells_of_the_matrix():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 4, 90), rng.normal(size=90)]).astype(float)
    clf = EM2NOLCClassifier(8, 2, categorical_features=[0], calibration=None).fit(X, (X[:, 0] == 2) | (X[:, 1] > 1))
    new = np.vstack([X, [[9, 0.0], [np.nan, 0.0], [2, np.nan]]])
    for dtype in DTYPES:
        assert agrees(clf, new, dtype)["label"].dtype == np.int64


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_input_for_each_kept_column(dtype):
    X, y = mixed()
    names = ["score", "Gemm 4"]
    X = X[["u", "v"]].set_axis(names, axis=1)
    clf = EM2NOLCClassifier(4, 2, calibration=None).fit(X, y)
    model = io.to_onnx(clf, inputs="columns", dtype=dtype)
    assert [given.name for given in model.graph.input] == ["score_in", "Gemm 4"]
    assert json.loads(props(model)["inputs"]) == {"score_in": "score", "Gemm 4": "Gemm 4"}
    agrees(clf, X, dtype, inputs="columns")
    matrix = io.to_onnx(clf, dtype=dtype, inputs="matrix")
    assert json.loads(props(matrix)["inputs"]) == {"X": names}


def test_columns_that_are_not_kept_are_not_looked_at():
    X, y = (part[::2] for part in load_iris(return_X_y=True))
    clf = EM2NOLCClassifier(4, 2, calibration=None, shared_support=True).fit(X, y)
    model, dropped = io.to_onnx(clf), np.setdiff1d(np.arange(4), clf.features_)
    spoiled = X.astype("float32")
    spoiled[:, dropped] = np.inf
    np.testing.assert_array_equal(
        session(model).run(["score"], {"X": spoiled})[0], outputs(model, X, "float32")["score"]
    )


def test_rows_that_the_estimator_refuses_have_no_score():
    X, y = mixed()
    X = X[["u", "v"]].fillna(0.0)
    clf = EM2NOLCClassifier(4, 2, missing=None).fit(X, y)
    new = X[:4].to_numpy("float32").copy()
    new[1, 0], new[2, 1] = np.nan, np.inf
    found = outputs(io.to_onnx(clf), new, "float32")
    for name in ("score", "probabilities", "by_kernel", "by_instance"):
        flat = found[name].reshape(4, -1)
        np.testing.assert_array_equal(np.isnan(flat).all(axis=1), [False, True, True, False])
        np.testing.assert_array_equal(np.isnan(flat).any(axis=1), [False, True, True, False])
    forgiving = EM2NOLCClassifier(4, 2).fit(X, y)
    score = outputs(io.to_onnx(forgiving), new, "float32")["score"]
    np.testing.assert_array_equal(np.isnan(score), [False, False, True, False])


def test_the_empty_string_is_missing_unless_it_is_a_category():
    X = pd.DataFrame({"c": ["", "a", "b", "a", ""] * 12})
    clf = EM2NOLCClassifier(3, 1, calibration=None).fit(X, (X["c"] == "").astype(int))
    agrees(clf, X, "float64")
    other = EM2NOLCClassifier(3, 1, calibration=None).fit(X.replace("", None), (X["c"] == "b").astype(int))
    score = outputs(io.to_onnx(other), X, "float32")["score"]
    np.testing.assert_allclose(score, other.decision_function(X.replace("", None)), atol=1e-6)


# ---------------------------------------------------------------------- classes


@pytest.mark.parametrize(
    "classes", [[False, True], [3, 7], [0.0, 1.0], ["no", "yes"], np.array([2, 5], dtype="uint8")], ids=str
)
def test_labels_of_any_type(classes):
    X, y = mixed()
    clf = EM2NOLCClassifier(2, 2).fit(X[["v"]], np.array(classes)[(y == "yes").astype(int)])
    model = io.to_onnx(clf)
    found = outputs(model, X[["v"]], "float32")["label"]
    np.testing.assert_array_equal(found, clf.predict(X[["v"]]))
    assert found.dtype == (object if "no" in classes else np.int64)
    assert json.loads(props(model)["classes"]) == list(classes)


def test_zero_goes_to_the_second_of_two_and_ties_to_the_first_of_several():
    X = np.zeros((6, 1))
    for y in ([0, 1] * 3, [0, 1, 2] * 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = EM2NOLCClassifier(2, 1, calibration=None).fit(X, y)
        clf.model_ = clf.model_.shifted(-clf.intercept_)
        clf.intercept_ = clf.model_.expansion.intercept
        found = agrees(clf, X, "float32")
        assert not found["score"].any() and set(found["label"]) == {1 if len(set(y)) == 2 else 0}


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_model_that_kept_nothing_gives_its_intercept(dtype):
    rng = np.random.default_rng(0)
    for y, cls, options in (
        (np.arange(40) % 2, EM2NOLCClassifier, {"calibration": None}),
        (np.full(40, 3.0), TamisRegressor, {}),
    ):
        with pytest.warns(UserWarning, match="kept no (instance|feature)"):
            clf = cls(max_instances=2, max_features=1, **options).fit(np.ones((40, 2)), y)
        assert agrees(clf, rng.normal(size=(3, 2)), dtype)[parts_of(clf)[0]].shape == (3, 1, 0)
        with pytest.raises(ValueError, match="inputs='columns' needs a kept column"):
            io.to_onnx(clf, inputs="columns")


def test_class_weights_move_labels_and_not_probabilities():
    X, y = mixed(200)
    clf = EM2NOLCClassifier(4, 2, class_weight={"yes": 5.0, "no": 1.0}).fit(X, y)
    assert abs(clf.calibrator_.offset) > 0.1
    agrees(clf, X, "float64")


# ---------------------------------------------------------------------- precision


def weights_of(model):
    return {onnx.TensorProto.DataType.Name(tensor.data_type) for tensor in model.graph.initializer}


def test_float32_is_computed_with_only_where_its_errors_are_small():
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    gentle = EM2NOLCClassifier(4, 2, calibration=None).fit(X, y)
    assert "DOUBLE" not in weights_of(io.to_onnx(gentle, dtype="float32"))
    steep = SimpleMKLClassifier(C=1e4, kernels=per_feature(), calibration=None).fit(X, y)
    assert "DOUBLE" in weights_of(io.to_onnx(steep, dtype="float32"))
    agrees(gentle, X, "float32")
    agrees(steep, X, "float32")
    assert "FLOAT" not in weights_of(io.to_onnx(gentle, dtype="float64"))


@pytest.mark.parametrize("seed", range(6))
def test_random_models(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(30, 120)), int(rng.integers(1, 7))
    X = holed(rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, d) + rng.normal(size=d) * 100, 0.1 * (seed % 3))
    y = rng.integers(0, 2 + seed % 2, n)
    y[:3] = [0, 1, 1 + seed % 2]
    recipe = (per_feature(), per_feature() + product(), bandwidths([0.3, 1, 3], on="each"))[seed % 3]
    clf = EM2NOLCClassifier(8, d, kernels=recipe, scaling=("standard", "rank")[seed % 2], alpha=1e-4, calibration=None)
    clf.fit(X, y)
    for dtype in DTYPES:
        agrees(clf, holed(X[::-1], 0.2, seed), dtype)


@pytest.mark.parametrize("number", [0.0, 1e-150, -1e-60, 1e-46, 1.0, 1 - 2.0**-30, 1 + 1e-8])
@pytest.mark.parametrize("do", [np.add, np.subtract, np.multiply, np.divide])
def test_one_number_is_not_taken_for_zero_or_one(do, number):
    if do is np.divide and number == 0:
        return
    graph, kind = Graph(np.dtype(float), np.dtype(float)), {"subtract": "Sub"}.get(do.__name__, do.__name__[:3].title())
    x = graph.op("Neg", graph.input("X", 1))
    for name, pair in {"a": (x, graph.number([number])), "b": (graph.number([number]), x)}.items():
        graph.output(name, graph.op("Neg", graph.op(kind, *pair)), np.dtype(float), ("rows", 1))
    cells = np.array([[number or 1.0], [2 * number + 1e-70], [0.3], [-7e40]])
    found = session(graph.model("m", "", {}, "0")).run(None, {"X": -cells})
    np.testing.assert_array_equal(found, [-do(cells, number), -do(number, cells)])


@pytest.mark.parametrize("size", [1e-150, 1e-50, 1 - 1e-8, 1 + 3e-8, 1e50, 1e150])
def test_one_column_of_any_size(size):
    z = np.random.default_rng(0).normal(size=(60, 1))
    z = (z - z.mean()) / z.std() + (0.5 if abs(size - 1) > 0.5 else 0.0)
    for name in ("EM2NOLCClassifier", "LinearL0SVC"):
        clf = quick(name).fit(z * size, z[:, 0] > 0.5)
        agrees(clf, z[::-1] * size * 1.5, "float64")


@pytest.mark.parametrize("limit", [None, 1, 3])
@pytest.mark.parametrize("d", [1, 5, 9])
def test_codes_are_those_of_the_pursuit(d, limit):
    rng = np.random.default_rng(d)
    P = rng.normal(size=(d, d + 1))
    P[-1] = P[0]  # one that depends on another
    Q, b = P @ P.T, rng.normal(size=(200, d))
    b[:50] = np.round(b[:50])
    graph = Graph(np.dtype(float), np.dtype(float))
    codes = sparse_codes(graph, Q, graph.input("X", d), limit)
    graph.output("x", codes.values, np.dtype(float), ("rows", d))
    running = session(graph.model("codes", "", {}, "0"))
    expected = solve_nqp(Q, -b, limit)
    assert np.any(expected > 0)
    np.testing.assert_allclose(running.run(None, {"X": b})[0], expected, atol=1e-9)
    assert running.run(None, {"X": b[:0]})[0].shape == (0, d)


# ---------------------------------------------------------------------- the file, and what is refused


def test_less_is_computed_where_less_is_asked_for():
    clf = fitted("EM2NOLCClassifier")
    whole, quick_one = io.to_onnx(clf), io.to_onnx(clf, outputs=("score", "label"))
    assert [out.name for out in whole.graph.output] == ["label", "score", "probabilities", "by_kernel", "by_instance"]
    assert [out.name for out in quick_one.graph.output] == ["label", "score"]
    assert len(quick_one.graph.node) < len(whole.graph.node)
    X = unheard()
    one, two = outputs(whole, X, "float32"), outputs(quick_one, X, "float32")
    np.testing.assert_allclose(one["score"], two["score"], atol=1e-6)
    alone = outputs(io.to_onnx(clf, outputs="by_instance"), X, "float32")
    np.testing.assert_allclose(alone["by_instance"], one["by_instance"], atol=1e-6)


def test_metadata_name_what_the_outputs_are():
    clf = fitted("EM2NOLCClassifier")
    found = {key: json.loads(value) for key, value in props(io.to_onnx(clf)).items()}
    assert found["estimator"] == "EM2NOLCClassifier"
    assert found["classes"] == ["no", "yes"] and found["scores"] == ["yes"]
    assert found["kernels"] == clf.kernel_names_.tolist() and len(found["kernel_features"]) == len(found["kernels"])
    assert found["cases"] == [str(label) for label in clf.instance_labels_]
    assert found["features"] == list(clf.model_.encoder.names) and found["base_values"] == clf.intercept_.tolist()
    assert set(found["inputs"].values()) == set(found["features"])


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    clf = fitted("EM2NOLCClassifier")
    model = io.to_onnx(clf, tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx") == model
    with pytest.raises(ValueError, match="dtype='float16' is unknown"):
        io.to_onnx(clf, tmp_path / "other.onnx", dtype="float16")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        io.to_onnx(clf, tmp_path / "nowhere" / "m.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_wrong_parameters_are_named():
    X, clf = mixed()[0], fitted("EM2NOLCClassifier")
    for options, match in (
        ({"inputs": "table"}, "inputs='table' is unknown"),
        ({"inputs": "matrix"}, "the kept column 'c' is text"),
        ({"outputs": ("label", "margin")}, "EM2NOLCClassifier as it was fitted has 'label', 'score'"),
        ({"outputs": ()}, "as it was fitted has"),
    ):
        with pytest.raises(ValueError, match=match):
            io.to_onnx(clf, **options)
    with pytest.raises(ValueError, match=r"'prediction', 'by_feature', 'by_pair', 'by_case'$"):
        io.to_onnx(fitted("TamisRegressor"), outputs=("label",))
    with pytest.raises(ValueError, match="model=str is not an estimator of tamis"):
        io.to_onnx("model")
    with pytest.raises(Exception, match="not fitted"):
        io.to_onnx(EM2NOLCClassifier())
    with pytest.raises(ValueError, match=r"'label', 'score', 'by_kernel', 'by_instance'$"):
        io.to_onnx(EM2NOLCClassifier(2, 2, calibration=None).fit(X, X["c"]), outputs="probabilities")


def test_categories_that_a_tensor_cannot_hold_are_refused():
    X = pd.DataFrame({"c": [0.1, 1e300] * 20, "d": ["a", 1.0] * 20})
    y = np.arange(40) % 2
    clf = EM2NOLCClassifier(2, 1, categorical_features=["c"], calibration=None).fit(X[["c"]], y)
    with pytest.raises(ValueError, match=r"column 'c' has the category 0\.1, which float32 cannot hold"):
        io.to_onnx(clf)
    agrees(clf, X[["c"]], "float64")
    clf = EM2NOLCClassifier(2, 1, categorical_features=["d"], calibration=None).fit(X[["d"]], y)
    with pytest.raises(ValueError, match="column 'd' has text and numbers as categories"):
        io.to_onnx(clf)


class Mine:
    def __call__(self, S, T):
        return np.exp(-np.abs(np.nan_to_num(S) - np.nan_to_num(T).T))


def test_kernels_without_a_formula_are_refused_by_name():
    X, y = mixed()
    clf = EM2NOLCClassifier(2, 2, kernels=[("my own", Mine(), ["v"])], calibration=None).fit(X, y)
    with pytest.raises(ValueError, match=r"the kernel 'my own' is of the type Mine, .* use pickle or joblib to"):
        io.to_onnx(clf)
    channels = AbsentMKLClassifier(kernels=[("my own", Mine(), ["v"])], calibration=None).fit(X, y)
    with pytest.raises(ValueError, match="of the type Mine"):
        io.to_onnx(channels)
    K = np.exp(-np.square(np.subtract.outer(TABLE[:, 0], TABLE[:, 0])))
    clf = SimpleMKLClassifier(kernels=precomputed({"given": K}), calibration=None)
    clf.fit(np.arange(90)[:, None], TABLE[:, 0] > 0)
    with pytest.raises(
        ValueError, match=r"the kernel 'given' is of the type Precomputed, .* use tamis.io.save and tamis.io.load"
    ):
        io.to_onnx(clf)
    series = IMKPLClassifier(calibration=None).fit(TABLE.reshape(45, 2, 4), np.arange(45) % 2)
    with pytest.raises(ValueError, match="of the type Precomputed"):
        io.to_onnx(series)


def test_without_onnx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"^to_onnx needs onnx: pip install 'tamis\[onnx\]'$"):
        io.to_onnx(fitted("EM2NOLCClassifier"))


def test_a_repaired_kernel_is_refused_as_what_it_is(rng):
    X = rng.normal(size=(40, 2))
    kernels = repaired(per_feature(Sigmoid(0.5)), "clip")
    clf = SimpleMKLClassifier(kernels=kernels, calibration=None).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="is of the type Repaired, which has no form in the standard operators"):
        io.to_onnx(clf)
