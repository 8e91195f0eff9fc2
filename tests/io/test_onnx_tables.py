"""ONNX models of curves, surfaces and cases give what Python gives, to the last digits."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest

from tamis import io

from additive_models import random_flagship, targets

PARTS = ("by_feature", "by_pair", "by_case")
CLASSES = pytest.mark.parametrize("classes", [0, 2, 3])
FILLS = pytest.mark.parametrize("missing", ["absent", "median", None])


def props(model):
    return {prop.key: json.loads(prop.value) for prop in model.metadata_props}


def fed(model, rows, dtype):
    names = props(model)["inputs"]
    if isinstance(names.get("X"), list):
        return {"X": rows[names["X"]].apply(pd.to_numeric, errors="coerce").to_numpy(dtype)}
    feed = {}
    for given in model.graph.input:
        column = rows[names[given.name]]
        text = given.type.tensor_type.elem_type == onnx.TensorProto.STRING
        cells = column.astype(object).where(column.notna(), "").to_numpy(object) if text else column.astype(dtype)
        feed[given.name] = np.asarray(cells).reshape(-1, 1)
    return feed


def outputs(model, rows, dtype):
    running = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([out.name for out in running.get_outputs()], running.run(None, fed(model, rows, dtype))))


def expected(made, rows):
    """All outputs from the model in Python."""
    scores, parts = made.parts(rows)
    clf, one = made.estimator, scores[:, 0] if scores.shape[1] == 1 else scores
    out = dict(zip(PARTS, parts))
    if not hasattr(clf, "classes_"):
        return {"prediction": one, **out}
    codes = (one >= 0).astype(int) if one.ndim == 1 else np.argmax(one, axis=1)
    return {
        "label": clf.classes_[codes],
        "score": one,
        "probabilities": clf.calibrator_.probabilities(scores),
        **out,
    }


def agrees(made, rows, dtype="float64", tolerance=1e-12, **options):
    found = outputs(io.to_onnx(made.estimator, dtype=dtype, **options), rows, dtype)
    wanted = expected(made, rows)
    assert list(found) == list(wanted)
    for name, values in wanted.items():
        assert found[name].shape == values.shape, name
        if name == "label":
            np.testing.assert_array_equal(found[name], values)
        else:
            assert found[name].dtype == dtype
            size = max(1.0, np.abs(values).max(initial=0.0))
            np.testing.assert_allclose(found[name], values, rtol=0, atol=tolerance * size, err_msg=name)
    return found


@CLASSES
@FILLS
@pytest.mark.parametrize("seed", range(4))
def test_all_outputs_agree(seed, classes, missing):
    made = random_flagship(seed, classes, missing=missing)
    agrees(made, made.rows)


@pytest.mark.parametrize("seed", range(6))
def test_without_cases_scores_are_equal_to_the_last_bit(seed):
    made = random_flagship(seed, 3, cases=0)
    found = agrees(made, made.rows)
    np.testing.assert_array_equal(found["score"], made.parts()[0])


@CLASSES
@pytest.mark.parametrize("inputs", ["matrix", "columns"])
def test_columns_of_numbers_in_one_input_or_in_one_each(classes, inputs):
    made = random_flagship(3, classes, text=False)
    agrees(made, made.rows, inputs=inputs)


@CLASSES
def test_single_precision_has_the_labels_and_contributions_of_rounded_rows(classes):
    made = random_flagship(5, classes, text=False)
    rows = made.rows.astype("float32").astype(float)
    agrees(made, rows, "float32", 1e-6)


@pytest.mark.parametrize("kept", [[], [1], [4], [6], [1, 6], [5, 6], [2, 3]])
@pytest.mark.parametrize("cases", [0, 3])
def test_models_of_few_columns(kept, cases):
    made = random_flagship(7, 2, kept=kept, cases=cases if kept else 0)
    agrees(made, made.rows)


@pytest.mark.parametrize("pairs, cases", [(0, 0), (3, 0), (0, 4)])
def test_models_without_pairs_or_cases(pairs, cases):
    made = random_flagship(8, 3, pairs=pairs, cases=cases)
    agrees(made, made.rows)


def test_contributions_add_up_to_the_score_and_have_names():
    made = random_flagship(2, 2)
    model = io.to_onnx(made.estimator, dtype="float64")
    found, names = outputs(model, made.rows, "float64"), props(model)
    total = sum(found[part][:, 0].sum(axis=1) for part in PARTS) + names["base_values"][0]
    np.testing.assert_allclose(total, found["score"], atol=1e-12)
    counts = [found[part].shape[2] for part in PARTS]
    assert counts == [len(names[kind]) for kind in ("features", "pairs", "cases")]
    assert set(np.ravel(names["pairs"])) <= set(names["features"]) and names["scores"] == ["yes"]


def test_only_requested_outputs_are_there():
    made = random_flagship(2, 2)
    found = outputs(io.to_onnx(made.estimator, dtype="float64", outputs=["score", "by_pair"]), made.rows, "float64")
    assert list(found) == ["score", "by_pair"]
    with pytest.raises(ValueError, match="'by_feature', 'by_pair', 'by_case'"):
        io.to_onnx(made.estimator, outputs=["by_kernel"])


def test_the_graph_is_small_standard_and_takes_any_number_of_rows():
    made = random_flagship(2, 3)
    model = io.to_onnx(made.estimator, dtype="float64")
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} == {""} and len(model.graph.node) < 200
    whole = outputs(model, made.rows, "float64")
    for n in (0, 1):
        for name, values in outputs(model, made.rows[:n], "float64").items():
            np.testing.assert_array_equal(values, whole[name][:n])


def test_rows_that_python_refuses_have_no_score():
    made = random_flagship(4, 2, missing=None)
    rows = made.rows[:4].copy()
    rows.loc[0, "age"], rows.loc[1, "stage"], rows.loc[2, "colour"] = np.nan, np.inf, None
    found = outputs(io.to_onnx(made.estimator, dtype="float64"), rows, "float64")
    assert np.isnan(found["score"]).tolist() == [True, True, True, False]
    assert np.isnan(found["by_feature"][:3]).all()


def test_a_column_named_like_an_output_is_renamed():
    made = random_flagship(4, 2, kept=[1, 2])
    names = {"age": "by_pair", "income, in $": "score"}
    clf = made.estimator
    object.__setattr__(clf.model_.encoder, "names", tuple(names.values()))
    clf.feature_names_in_ = np.array([names.get(name, name) for name in made.train.columns], dtype=object)
    rows = made.rows.rename(columns=names)
    agrees(made._replace(rows=rows), rows, inputs="columns")


@pytest.mark.parametrize("classes", [0, 2, 3])
@pytest.mark.parametrize("missing", ["absent", "median"])
def test_fits_agree_with_their_predictions_and_explanations(classes, missing):
    made = random_flagship(11, classes, missing=missing)
    y = targets(made.train, classes, np.random.default_rng(0))
    cls, named = type(made.estimator), ["stage", "flag", 'job\'s "kind"', "colour"]
    model = cls(6, 4, 3, cv=2, missing=missing, categorical_features=named).fit(made.train, y)
    found, told = outputs(io.to_onnx(model, dtype="float64"), made.rows, "float64"), model.explain(made.rows)
    for part in PARTS:
        np.testing.assert_allclose(found[part], getattr(told, part), rtol=0, atol=1e-12)
    if not classes:
        np.testing.assert_allclose(found["prediction"], model.predict(made.rows), rtol=0, atol=1e-12)
        return
    np.testing.assert_allclose(found["score"], model.decision_function(made.rows), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(made.rows), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found["label"], model.predict(made.rows))


def test_the_other_class_and_a_model_out_of_a_file(tmp_path):
    made = random_flagship(12, 2)
    io.save(made.estimator, tmp_path / "model.tamis")
    loaded = io.load(tmp_path / "model.tamis")
    agrees(made._replace(estimator=loaded), made.rows)
    other = loaded.oriented("no")
    agrees(made._replace(estimator=other), made.rows)
