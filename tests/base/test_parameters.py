"""Constructors and docstrings that are written out: what many estimators share is the same in all of them."""

import inspect
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from numpydoc.docscrape import NumpyDocString

import tamis
from tamis import all_estimators

TAIL = [
    *("class_weight", "scaling", "missing", "categorical_features"),
    *("random_state", "n_jobs", "memory_limit", "verbose"),
]
EVERY = pytest.mark.parametrize("name", list(all_estimators()))
SHARED = {"categorical_features", "n_jobs", "memory_limit", "verbose", "pool", "landmarks"}


def described(doc, section):
    """{name: description} of a section of a docstring."""
    found = {}
    for entry in NumpyDocString(inspect.cleandoc(doc))[section]:
        text = " ".join([entry.type, *entry.desc] if section == "Attributes" else entry.desc)
        found |= {name.strip(): text for name in entry.name.split(",")}
    return found


@EVERY
def test_constructors_are_written_out_and_store_what_they_are_given(name):
    cls = all_estimators()[name]
    source = inspect.getsource(cls.__init__)
    for parameter in inspect.signature(cls).parameters:
        assert f"self.{parameter} = {parameter}\n" in source


@EVERY
def test_every_parameter_is_described_with_its_default(name):
    cls = all_estimators()[name]
    entries = NumpyDocString(inspect.cleandoc(cls.__doc__))["Parameters"]
    stated = {n.strip(): entry.type for entry in entries for n in entry.name.split(",")}
    given = inspect.signature(cls).parameters
    assert list(stated) == list(given)
    for parameter, kind in stated.items():
        assert "default=" in kind, parameter
        assert str(given[parameter].default).strip("()") in kind.replace('"', "").replace("'", "") or "(" in kind


def test_shared_parameters_have_the_same_first_sentence():
    first = {}
    for name, cls in all_estimators().items():
        for parameter, text in described(cls.__doc__, "Parameters").items():
            if parameter in SHARED and (parameter, "EM2NOLC" in name) != ("n_jobs", True):
                first.setdefault(parameter, {}).setdefault(text.split(". ")[0].rstrip("."), []).append(name)
    differing = {parameter: texts for parameter, texts in first.items() if len(texts) > 1}
    assert not differing


@pytest.mark.parametrize("name", list(all_estimators()))
def test_shared_parameters_have_one_place_and_one_default(name):
    given = inspect.signature(all_estimators()[name]).parameters
    tail = [p for p in TAIL if p in given]
    assert list(given)[-len(tail) :] == tail and len(tail) >= len(TAIL) - 2
    assert all(p.kind is p.KEYWORD_ONLY for p in list(given.values())[-len(tail) :])
    base = inspect.signature(all_estimators()["EM2NOLCClassifier"]).parameters
    assert all(given[p].default == base[p].default for p in tail)


INTERNAL = {"model_", "calibrator_", "reader_", "seed_"}
SOMETIMES = {  # what only some fits learn
    "path_",
    "outside_",
    "statistics_",
    "feature_importance_",
    "feature_variation_",
    "series_",
    "n_items_",
    "n_kernels_",
    "landmark_error_",
    "pool_error_",
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", list(all_estimators()))
def test_learned_attributes_are_told_and_what_is_told_is_learned(name, classes):
    cls = all_estimators()[name]
    told = set(described(cls.__doc__, "Attributes"))
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    y = np.digitize(X["a"], [0.0] if classes == 2 else [-0.5, 0.5])
    cheap = {"cv": 2, "max_iter": 3, "calibration": None, "max_instances": 4, "bandwidths": (1.0,), "Cs": (1.0,)}
    model = cls(**{k: v for k, v in cheap.items() if k in cls().get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    learned = {n for n in vars(model) if n.endswith("_") and not n.startswith("_")} - {
        "model_",
        "calibrator_",
        "reader_",
        "seed_",
    }
    assert learned <= told | SOMETIMES, learned - told
    assert not [n for n in told - SOMETIMES if not hasattr(model, n)]


def test_without_docstrings_it_works_too():
    words = "from tamis import TamisClassifier as T; print(T(3).fit([[0.0], [1.0], [2.0]] * 4, [0, 1, 1] * 4).classes_)"
    done = subprocess.run([sys.executable, "-OO", "-W", "ignore", "-c", words], capture_output=True, text=True)
    assert done.stdout.strip() == "[0 1]", done.stderr


def test_names_are_known_before_anything_is_loaded():
    words = "import sys, tamis; dir(tamis); assert not hasattr(tamis, 'penalty_of'); print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
    assert set(all_estimators()) <= set(tamis.__all__) <= set(dir(tamis))
