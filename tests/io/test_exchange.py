"""Fitted estimators travel: by skops, pickle, joblib and model files, to other processes, and stay small."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import warnings
from copy import deepcopy
from uuid import UUID

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline

from tamis import (
    EM2NOLCClassifier,
    EM2NOLCClassifierCV,
    GaussianImputer,
    IMKPLClassifier,
    L0MKLClassifier,
    SimpleMKLClassifier,
    TamisClassifier,
    all_estimators,
    bandwidths,
    io,
    precomputed,
    repaired,
)
from tamis.optim.penalties import SCAD

from small_fits import SMALL, fitted, mixed, quick, rows_for, same

skops = pytest.importorskip("skops.io")

EVERY = pytest.mark.parametrize("name", list(all_estimators()))
GROWING = 1_000  # bytes by which a file may grow with the decimals of its numbers


def through_skops(model):
    data = skops.dumps(model)
    assert set(skops.get_untrusted_types(data=data)) <= set(io.trusted_types())
    return skops.loads(data, trusted=io.trusted_types())


# ---------------------------------------------------------------------- skops


@EVERY
def test_skops_loads_every_estimator(name):
    same(fitted(name), through_skops(fitted(name)), mixed()[0])


def test_skops_loads_an_imputer_before_a_classifier():
    X = mixed()[0][["u", "v"]].to_numpy()
    pipe = make_pipeline(GaussianImputer(), LogisticRegression()).fit(X, mixed()[1])
    np.testing.assert_array_equal(through_skops(pipe).predict_proba(X), pipe.predict_proba(X))


SPLITS = RepeatedKFold(n_splits=2, n_repeats=1, random_state=0)


@pytest.mark.parametrize(
    "clf",
    [
        EM2NOLCClassifier(**SMALL, warm_start=True),
        EM2NOLCClassifier(**SMALL, random_state=np.random.RandomState(3), class_weight={"yes": 2.0, "no": 1.0}),
        EM2NOLCClassifierCV(bandwidths=(1.0,), alphas=(0.01,), cv=StratifiedKFold(2)),
        TamisClassifier(max_instances=3, max_features=2, cv=SPLITS, missing="median"),
        L0MKLClassifier(penalty=SCAD(10.0), calibration=None),
        SimpleMKLClassifier(kernels=repaired(bandwidths([0.5, 1.0], on="each"), "flip"), calibration=None),
        IMKPLClassifier(kernels=bandwidths([1.0]), calibration=None),
    ],
    ids=lambda clf: type(clf).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_skops_loads_whatever_the_parameters_are(clf):
    X, y = mixed()
    clf.fit(X, y)
    again = through_skops(clf)
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
    assert str(again.set_params(random_state=0)) == str(clf.set_params(random_state=0))


@pytest.mark.filterwarnings("ignore:cells beyond")
def test_skops_keeps_sums_and_precomputed_kernels():
    X, y = mixed(100)
    clf = EM2NOLCClassifier(**SMALL).partial_fit(X[:60], y[:60])
    again = through_skops(clf)
    np.testing.assert_array_equal(
        clf.partial_fit(X[60:], y[60:]).decision_function(X), again.partial_fit(X[60:], y[60:]).decision_function(X)
    )
    z = X["v"].to_numpy()
    at = np.arange(len(z))[:, None]
    kernels = precomputed(np.exp(-((z[:, None] - z) ** 2))[None])
    clf = SimpleMKLClassifier(kernels=kernels, calibration=None).fit(at, y)
    np.testing.assert_array_equal(through_skops(clf).decision_function(at), clf.decision_function(at))


def test_several_classes_travel_too():
    X, y = (part[::3] for part in load_iris(return_X_y=True))
    clf = TamisClassifier(max_instances=4, max_features=2, max_pairs=1, cv=2).fit(X, y)
    same(clf, through_skops(clf), X)


@pytest.mark.parametrize(
    ("index", "first"),
    [
        (pd.date_range("2020", periods=90), "2020-01-01 00:00:00"),
        (pd.period_range("2020", periods=90, freq="D"), "2020-01-01"),
        (pd.to_timedelta(np.arange(90), "D"), "0 days 00:00:00"),
        (pd.interval_range(0, 90), "(0, 1]"),
        (pd.Index([UUID(int=i) for i in range(90)], dtype=object), str(UUID(int=0))),
        (pd.MultiIndex.from_arrays([np.arange(90), ["a", "b"] * 45]), "(0, 'a')"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_labels_of_any_type_are_text_in_files_and_stay_in_pickles(index, first, tmp_path):
    X, y = mixed(90)
    X.index = index
    clf = EM2NOLCClassifier(**SMALL).fit(X, y)
    clf.instance_labels_[0] = index[0]
    io.save(clf, tmp_path / "m.tamis")
    for again in (through_skops(clf), io.load(tmp_path / "m.tamis")):
        assert again.instance_labels_[0] == first
        np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    for again in (pickle.loads(pickle.dumps(clf)), pickle.loads(pickle.dumps(clf, 0)), deepcopy(clf)):
        assert again.instance_labels_.tolist() == clf.instance_labels_.tolist()
    assert clf.instance_labels_[0] == index[0]


def test_trusted_types_are_data():
    names = io.trusted_types()
    assert names == sorted(set(names)) and all(isinstance(name, str) for name in names)
    others = {name.partition(".")[0] for name in names} - {"tamis"}
    assert others == {"scipy", "sklearn"}
    assert [n for n in names if n.startswith("scipy")] == ["scipy.sparse._csr.csr_array"]
    assert all(n.startswith("sklearn.model_selection._split.") for n in names if n.startswith("sklearn"))
    with pytest.raises(Exception, match="Untrusted types found"):
        skops.loads(skops.dumps([fitted("TamisClassifier"), json.loads]), trusted=names)


# ---------------------------------------------------------------------- pickle, joblib, other processes


@EVERY
def test_pickle_and_joblib(name, tmp_path):
    model, X = fitted(name), mixed()[0]
    same(model, pickle.loads(pickle.dumps(model)), X)
    joblib.dump(model, tmp_path / "model.joblib")
    same(model, joblib.load(tmp_path / "model.joblib"), X)


def told_elsewhere(folder):
    """What the models of a folder say about the rows there."""
    loads = {".pickle": lambda path: pickle.loads(path.read_bytes()), ".joblib": joblib.load, ".tamis": io.load}
    X = pickle.loads((folder / "X").read_bytes())
    return {path.name: told(loads[path.suffix](path), X) for path in folder.glob("*.*")}


def told(model, X):
    return [model.predict(X).tolist(), model.explain(X[:5]).by_part.tolist()]


def test_another_process_says_the_same(tmp_path):
    X, expected = mixed()[0], {}
    (tmp_path / "X").write_bytes(pickle.dumps(X))
    for name in all_estimators():
        model = fitted(name)
        (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(model))
        joblib.dump(model, tmp_path / f"{name}.joblib")
        io.save(model, tmp_path / f"{name}.tamis")
        expected[name] = told(model, X)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply_async(told_elsewhere, (tmp_path,)).get(timeout=300)
    assert len(found) == 3 * len(expected)
    for file, heard in found.items():
        assert heard == expected[file.partition(".")[0]], file


# ---------------------------------------------------------------------- sizes


def numbers_in(model):
    """How many numbers a model has to hold: of each case its columns, coefficients and a handful of facts.

    Of tables there are the edges of the cells, and contributions and coordinates at both ends of each.
    """
    outputs, terms = len(model.intercept_), len(model.model_.term_features)
    cells = sum(own.size + 2 for own in getattr(model.model_, "cells", ()))
    surfaces = sum(surface.values.size for surface in getattr(model.model_, "surfaces", ()))
    cases = len(model.instances_) * (len(model.features_) + outputs * (terms + 3) + 4)
    return cases + cells * (2 * outputs + 3 + terms) + surfaces


@EVERY
def test_files_grow_with_what_is_kept_and_not_with_the_rows(name, tmp_path):
    def size(model):
        io.save(model, tmp_path / "model")
        return (tmp_path / "model").stat().st_size

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        small, large = (quick(name, calibration=None).fit(*rows_for(name, n)) for n in (30, 300))
    more = max(0, numbers_in(large) - numbers_in(small))
    assert size(large) < size(small) + 8 * more + GROWING
    if name not in PROTOTYPES:  # which remember the training rows that each of them stands for
        assert len(pickle.dumps(large)) < len(pickle.dumps(small)) + 8 * more + GROWING


PROTOTYPES = ("IMKPLClassifier", "IMKPLClassifierCV", "PrototypeSelectionClassifier", "KernelGLVQClassifier")


def test_a_model_of_breast_cancer_is_small(cancer, tmp_path):
    clf = TamisClassifier().fit(*cancer)
    io.save(clf, tmp_path / "m.tamis")
    assert (tmp_path / "m.tamis").stat().st_size < 27_000


def test_what_a_nearest_prototype_does_not_keep_is_found_again():
    """``U'K U`` from the kept cases: K has ones on its diagonal, for rows that lack a kernel too."""
    expansion = fitted("KernelGLVQClassifier").model_.expansion
    K = expansion.similarity(expansion.instances)
    np.fill_diagonal(K, 1.0)
    U = expansion.prototypes
    np.testing.assert_allclose(expansion.gram, U.T @ K @ U, atol=1e-12)
    np.testing.assert_allclose(np.diag(expansion.gram), expansion.norms, atol=1e-12)
