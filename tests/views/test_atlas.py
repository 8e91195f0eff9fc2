"""Maps of rows and prototypes, and effects of parameters on held-out rows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn import manifold
from sklearn.datasets import load_wine

from tamis import EM2NOLCClassifier, IMKPLClassifier
from tamis.table.folds import fold_positions
from tamis.table.table import read_table
from tamis.views import studies
from tamis.views.studies import assigned, classical_map, embed, parameter_effects, squared_distances


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    X, y = X.iloc[::3], y.iloc[::3].to_numpy()
    return IMKPLClassifier(3, calibration=None).fit(X, y), X, y


@pytest.fixture(scope="module")
def waves():
    """Series of two channels: slow and fast waves in the first, noise in the second."""
    rng, y = np.random.default_rng(0), np.repeat(["fast", "slow"], 9)
    speed = np.where(y == "fast", 1.5, 0.5)[:, None]
    first = np.sin(speed * np.arange(12) + rng.uniform(0, 1, (18, 1)))
    X = np.stack([first, rng.normal(size=(18, 12))], axis=1)
    return IMKPLClassifier(2, calibration=None).fit(X, y), X, y


@pytest.mark.parametrize("data", ["wine", "waves"])
def test_distances_are_those_of_the_feature_space(request, data):
    clf, X, _ = request.getfixturevalue(data)
    n, c = len(X), len(clf.prototypes_)
    mixtures = np.zeros((n, n + c))  # rows and prototypes as mixtures of the training rows
    mixtures[:, :n] = np.eye(n)
    for j, prototype in enumerate(clf.prototypes_):
        mixtures[prototype.instances, n + j] = prototype.weights
    K, expected = clf.kernel_matrix(X), np.empty((n + c, n + c))
    for i in range(n + c):
        for j in range(n + c):
            difference = mixtures[:, i] - mixtures[:, j]
            expected[i, j] = difference @ K @ difference
    np.testing.assert_allclose(squared_distances(clf, X), expected, atol=1e-9)
    np.testing.assert_allclose(clf.prototype_distances(X), expected[:n, n:], atol=1e-9)


def test_classical_map_is_the_projection_on_principal_axes(rng):
    plane = rng.normal(size=(30, 2))
    np.testing.assert_allclose(_distances(classical_map(_distances(plane) ** 2)), _distances(plane), atol=1e-9)
    space = rng.normal(size=(30, 5)) * [5, 3, 1, 1, 1]
    centred = space - space.mean(axis=0)
    projected = centred @ np.linalg.svd(centred)[2][:2].T
    np.testing.assert_allclose(np.abs(classical_map(_distances(space) ** 2)), np.abs(projected), atol=1e-9)


def _distances(points):
    return cdist(points, points)


@pytest.mark.parametrize("n", [1, 2])
def test_classical_map_of_one_or_two_points(n):
    points = np.arange(n, dtype=float)[:, None]
    np.testing.assert_allclose(_distances(classical_map(_distances(points) ** 2)), _distances(points), atol=1e-12)


@pytest.mark.parametrize("method", ["tsne", "mds"])
def test_map_keeps_rows_near_rows_and_prototypes_of_their_class(wine, method):
    clf, X, y = wine
    rows, prototypes = embed(clf, X, method=method)
    assert rows.shape == (len(X), 2) and prototypes.shape == (len(clf.prototypes_), 2)
    among = _distances(rows) + np.diag(np.full(len(X), np.inf))
    assert np.mean(y[among.argmin(axis=1)] == y) > 0.85
    assert np.mean(y[cdist(prototypes, rows).argmin(axis=1)] == clf.prototype_labels_) > 0.85


def test_map_depends_on_the_random_state_alone(wine):
    clf, X, _ = wine
    first, again, other = (embed(clf, X, random_state=seed) for seed in (0, 0, 1))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.abs(first[0] - other[0]).max() > 0


def test_neighbours_are_sought_by_distances_that_are_not_squared(wine, monkeypatch):
    clf, X, _ = wine
    seen = {}

    class Recorder(manifold.TSNE):
        def fit_transform(self, distances):
            seen.update(self.get_params(), distances=distances)
            return self.init

    monkeypatch.setattr(manifold, "TSNE", Recorder)
    embed(clf, X)
    np.testing.assert_array_equal(seen["distances"] ** 2, np.sqrt(squared_distances(clf, X)) ** 2)
    n = len(X) + len(clf.prototypes_)
    assert seen["metric"] == "precomputed" and seen["perplexity"] == (n - 1) / 3
    start = np.concatenate(embed(clf, X, method="mds"))
    assert all(np.corrcoef(a, b)[0, 1] > 0.95 for a, b in zip(start.T, seen["init"].T, strict=True))


def test_prototype_of_one_sample_lies_on_that_sample(wine):
    _, X, y = wine
    clf = IMKPLClassifier(1, calibration=None).fit(X, y)
    rows, prototypes = embed(clf, X, method="mds")
    for place, prototype in zip(prototypes, clf.prototypes_, strict=True):
        np.testing.assert_allclose(place, rows[prototype.instances[0]], atol=1e-7)


@pytest.mark.parametrize("method", ["tsne", "mds"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows_have_a_map(wine, method, n):
    rows, prototypes = embed(wine[0], wine[1].iloc[:n], method=method)
    assert len(rows) == n and np.isfinite(rows).all() and np.isfinite(prototypes).all()


def test_series_and_columns_by_name_have_maps(waves, wine):
    clf, X, _ = waves
    assert embed(clf, X, method="mds")[0].shape == (18, 2)
    clf, X, _ = wine
    columns = {name: X[name].to_numpy() for name in X}
    np.testing.assert_allclose(embed(clf, columns, method="mds")[0], embed(clf, X, method="mds")[0])


def test_map_says_what_it_cannot_do(wine, monkeypatch):
    clf, X, _ = wine
    with pytest.raises(ValueError, match="method='umap' is unknown: use one of 'tsne', 'mds'"):
        embed(clf, X, method="umap")
    monkeypatch.setattr(studies, "MAX_MAP_ROWS", 10)
    with pytest.raises(ValueError, match="X has 60 rows, too many for a map: give a sample of at most 10"):
        embed(clf, X)


def test_shares_are_codes_or_go_to_the_nearest_prototype(wine):
    clf, X, _ = wine
    shares, codes = assigned(clf, X), clf.encode(X).toarray()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(shares * codes.sum(axis=1, keepdims=True), codes)
    for share, rows in zip(shares.T, clf.represented(X), strict=True):
        assert set(np.flatnonzero(share)) == set(rows)
    distances = np.array([[0.3, 0.1], [0.0, 2.0]])
    without = SimpleNamespace(prototype_distances=lambda X: distances)
    np.testing.assert_array_equal(assigned(without, X), [[0, 1], [1, 0]])


# ---------------------------------------------------------------------- effects of parameters


def test_effects_are_those_of_fits_to_the_folds(wine):
    _, X, y = wine
    clf = IMKPLClassifier(3, tau=0.1)
    effects = parameter_effects(clf, X, y, {"lam": [0.0, 0.5], "prototype_size": [1]}, cv=2, random_state=4)
    assert clf.calibration == 3 and not hasattr(clf, "model_")
    folds = fold_positions(2, read_table(X.to_numpy(), list(X), None, True), y, None, 4)
    for name, values in (("lam", [0.0, 0.5]), ("prototype_size", [1])):
        assert effects[name]["values"] == values
        for k, value in enumerate(values):
            changed = {"prototype_size": 3, "tau": 0.1, name: value}
            found = []
            for train, test in folds:
                model = IMKPLClassifier(**changed, calibration=None).fit(X.iloc[train], y[train])
                assert np.mean(model.predict(X.iloc[test]) == y[test]) > 0.5
                found.append(model.prototype_measures(X.iloc[test], y[test]))
            for measure in ("accuracy", "interpretability"):
                each = [measures[measure] for measures in found]
                np.testing.assert_allclose(effects[name][measure][k], np.mean(each))
                spread = effects[name][f"{measure}_spread"][k]
                np.testing.assert_allclose(spread, abs(each[0] - each[1]) / np.sqrt(2), atol=1e-9)


def test_effects_on_series_and_on_given_folds(waves):
    _, X, y = waves
    clf, half = IMKPLClassifier(2, calibration=None), np.arange(18) % 2 == 0
    splits = [(np.flatnonzero(half), np.flatnonzero(~half))]
    effects = parameter_effects(clf, list(X), y, {"weight_step": ["align", "uniform"]}, cv=splits)["weight_step"]
    model = IMKPLClassifier(2, weight_step="uniform", calibration=None).fit(X[half], y[half])
    expected = model.prototype_measures(X[~half], y[~half])
    assert effects["accuracy"][1] == expected["accuracy"] > 60
    assert np.isnan(effects["accuracy_spread"]).all()  # one fold has no spread


def test_effects_say_what_they_cannot_measure(wine):
    _, X, y = wine
    with pytest.raises(ValueError, match="IMKPLClassifier has no parameter 'lambda'"):
        parameter_effects(IMKPLClassifier(), X, y, {"lambda": [0.1]})
    for values in ("align", []):
        with pytest.raises(ValueError, match="must be a list of one or more values"):
            parameter_effects(IMKPLClassifier(), X, y, {"weight_step": values})
    with pytest.raises(ValueError, match="EM2NOLCClassifier has no prototype_measures"):
        parameter_effects(EM2NOLCClassifier(), X, y, {"max_features": [1]})
