"""Kernels through landmarks: what they promise, from the factors to the fitted classifier."""

from __future__ import annotations

import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from tamis import (
    AbsentMKLClassifier,
    AbsentMKLClassifierCV,
    AverageMKLClassifier,
    EasyMKLClassifier,
    Gaussian,
    SimpleMKLClassifier,
    ZeroOneMKLClassifier,
    bandwidths,
    io,
    per_feature,
    precomputed,
)
from tamis.base.kernel_space import draw_candidates
from tamis.kernels.recipes import Sample
from tamis.kernels.stacks import factored as module
from tamis.kernels.stacks.factored import LandmarkStack
from tamis.optim.matrices import LowRank
from tamis.optim.svm import curvature, relative_gap, solve_svm

WIDE = bandwidths([1.0, 3.0])
MACHINES = [SimpleMKLClassifier, EasyMKLClassifier, AverageMKLClassifier, AbsentMKLClassifier]
every = pytest.mark.parametrize("cls", MACHINES)


def rings(n, rng, d=3):
    """Two classes that no line separates, with some labels wrong."""
    X = rng.normal(size=(n, d))
    y = np.where(np.sum(X[:, :2] ** 2, axis=1) + 0.3 * rng.normal(size=n) > 1.4, "out", "in")
    return X, y


def fit(cls, X, y, **changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(**{"kernels": WIDE, "calibration": None, **changes}).fit(X, y)


def bank(X, recipe=WIDE):
    names = [f"x{k}" for k in range(X.shape[1])]
    flat = np.zeros(X.shape[1], dtype=bool)
    return recipe.bank(Sample(X, names, flat, np.ones((len(X), 1)), np.ones(len(X)), X.shape[1], 0), 1.0)


class TestFactors:
    def test_all_rows_as_landmarks_give_the_kernels(self, rng):
        X = rng.normal(size=(80, 3))
        channels = bank(X).channels
        stack = LandmarkStack.through(channels, X, np.arange(80))
        for k, channel in enumerate(channels):
            assert np.abs(stack.one(k) - channel(X, X)).max() < 1e-6
        assert stack.error.largest.max() < 1e-6

    def test_error_is_the_variance_that_is_lost_and_falls_with_more_landmarks(self, rng):
        X = rng.normal(size=(200, 3))
        channels, order = bank(X).channels, rng.permutation(200)
        stacks = [LandmarkStack.through(channels, X, np.sort(order[:m])) for m in (5, 20, 80)]
        for stack in stacks:
            lost = 1.0 - stack.diagonal()
            assert np.allclose(stack.error.mean, lost.mean(axis=1), atol=1e-12)
            assert np.allclose(stack.error.largest, lost.max(axis=1), atol=1e-12)
            gaps = [np.abs(stack.one(k) - channel(X, X)).max() for k, channel in enumerate(channels)]
            assert np.all(np.array(gaps) <= stack.error_bound + 1e-8)
        assert np.all(np.diff([stack.error.mean for stack in stacks], axis=0) < 0)

    def test_folded_coefficients_of_landmarks_give_the_same_images(self, rng):
        X = rng.normal(size=(150, 3))
        channels, chosen = bank(X).channels, np.arange(0, 150, 5)
        stack = LandmarkStack.through(channels, X, chosen)
        weights, alpha = np.array([0.3, 0.7]), rng.normal(size=150)
        table = stack.folded(weights, alpha, len(chosen))
        images = sum(channel(X, X[chosen]) @ table[:, k] for k, channel in enumerate(channels))
        assert np.allclose(images, stack.combine(weights) @ alpha, atol=1e-7)

    def test_a_kernel_that_no_landmark_has_is_lost(self, rng):
        X = rng.normal(size=(60, 2))
        X[:30, 1] = np.nan
        stack = LandmarkStack.through(bank(X, per_feature()).channels, X, np.arange(10))
        assert stack.error.rank[1] == 0 and stack.error.mean[1] == 1.0 and not stack.one(1).any()
        assert stack.folded(np.ones(2), np.ones(60), 10)[:, 1].tolist() == [0.0] * 10

    def test_parts_know_their_factors(self, rng):
        X = rng.normal(size=(60, 3))
        stack = LandmarkStack.through(bank(X).channels, X, np.arange(0, 60, 3))
        some = np.arange(0, 60, 2)
        part = stack.take(rows=some, cols=some, kernels=np.array([1]))
        assert isinstance(part, LandmarkStack)
        assert np.allclose(part.one(0), stack.one(1)[np.ix_(some, some)])
        assert np.allclose(part.matrix(np.array([2.0])).dense(), 2.0 * part.one(0))


class TestMachine:
    """The machine of a matrix of low rank is that of the matrix."""

    @staticmethod
    def problem(rng, n=300, rank=40):
        X, y = rings(n, rng)
        F = LandmarkStack.through(bank(X).channels[:1], X, np.arange(rank)).left
        return LowRank(F, np.ones(len(F))), np.where(y == "in", 1.0, -1.0)

    @pytest.mark.parametrize("C", [0.1, 1.0, 100.0, 1e4])
    def test_solution_is_that_of_all_values(self, rng, C):
        K, y = self.problem(rng)
        cost = C * rng.uniform(0.5, 2.0, len(y))
        found, known = (solve_svm(matrix, y, cost, tol=1e-6) for matrix in (K, K.dense()))
        assert found.converged and relative_gap(found.primal, found.value) < 1e-6
        assert found.value == pytest.approx(known.value, rel=1e-6)
        assert abs(found.dual_coef.sum()) <= 1e-9 * np.abs(found.dual_coef).sum()
        assert np.all(np.abs(found.dual_coef) <= cost * (1 + 1e-12))

    def test_a_start_from_a_similar_problem_ends_there_too(self, rng):
        K, y = self.problem(rng)
        cost = np.ones(len(y))
        first = solve_svm(K, y, cost, tol=1e-6)
        again = solve_svm(K, y, 1.1 * cost, tol=1e-6, start=first.dual_coef)
        assert again.value == pytest.approx(solve_svm(K.dense(), y, 1.1 * cost, tol=1e-6).value, rel=1e-8)

    def test_with_a_ridge(self, rng):
        K, y = self.problem(rng)
        ridged, cost = K.with_diagonal(rng.uniform(0.1, 0.5, len(y))), np.full(len(y), 1e3)
        found, known = (solve_svm(matrix, y, cost, tol=1e-6) for matrix in (ridged, ridged.dense()))
        assert found.value == pytest.approx(known.value, rel=1e-8)
        assert np.allclose(found.dual_coef, known.dual_coef, atol=1e-5)

    def test_rows_that_are_alike_do_no_harm(self, rng):
        codes = rng.integers(0, 3, size=(400, 2))
        F = np.array([codes[:, j] == v for j in range(2) for v in range(3)], dtype=float)
        y = np.where(codes.sum(axis=1) > 1, 1.0, -1.0) * np.where(rng.random(400) < 0.2, -1.0, 1.0)
        K = LowRank(F, np.ones(6))
        found, known = (solve_svm(matrix, y, np.ones(400), tol=1e-4) for matrix in (K, K.dense()))
        assert found.value == pytest.approx(known.value, rel=1e-4)
        assert relative_gap(found.primal, found.value) < 1e-3

    def test_curvature(self, rng):
        K, y = self.problem(rng)
        cost = np.ones(len(y))
        machine, images = solve_svm(K, y, cost, tol=1e-6), rng.normal(size=(len(y), 3))
        args = y, cost, machine.dual_coef, images
        assert np.allclose(curvature(K, *args), curvature(K.dense(), *args), rtol=1e-4)


class TestClassifiers:
    @every
    def test_nearly_all_rows_reproduce_the_exact_fit(self, cls, rng):
        X, y = rings(120, rng)
        exact, close = fit(cls, X, y, tol=1e-4), fit(cls, X, y, tol=1e-4, landmarks=119)
        new, _ = rings(200, rng)
        size = np.abs(exact.decision_function(new)).max()
        assert np.abs(exact.decision_function(new) - close.decision_function(new)).max() < 0.02 * size
        assert np.allclose(exact.kernel_weights_, close.kernel_weights_, atol=0.02)
        assert not hasattr(exact, "landmark_error_") and close.landmark_error_.mean.max() < 1e-3

    @every
    def test_as_many_landmarks_as_rows_are_the_exact_fit(self, cls, rng):
        X, y = rings(60, rng)
        exact, same = fit(cls, X, y), fit(cls, X, y, landmarks=60)
        assert np.array_equal(exact.decision_function(X), same.decision_function(X))
        assert not hasattr(same, "landmark_error_") and "landmarks" not in same.summary()

    @every
    def test_the_error_falls_and_decisions_come_near(self, cls, rng):
        X, y = rings(400, rng)
        exact = fit(cls, X, y)
        fits = [fit(cls, X, y, landmarks=m) for m in (10, 40, 200)]
        errors = [clf.landmark_error_.mean.max() for clf in fits]
        gaps = [np.abs(clf.decision_function(X) - exact.decision_function(X)).mean() for clf in fits]
        assert errors[0] > errors[1] > errors[2] and gaps[0] > gaps[2]
        assert all(len(clf.landmark_error_.rank) == len(clf.kernel_names_) for clf in fits)
        assert all(len(clf.instances_) <= m for clf, m in zip(fits, (10, 40, 200), strict=True))

    @every
    def test_explanations_add_up_over_landmarks(self, cls, rng):
        X, y = rings(150, rng)
        clf = fit(cls, X, y, landmarks=30)
        told = clf.explain(X[:7])
        assert np.allclose(told.contributions.sum(axis=(2, 3)) + told.base_value, clf._decision(X[:7]))
        assert np.allclose(clf.dual_coef_, clf.model_.expansion.coef[0].sum(axis=1))
        assert clf.kernel_weights_.sum() == pytest.approx(1.0)

    @every
    def test_order_of_rows_does_not_matter_and_seeds_do(self, cls, rng):
        X, y = rings(150, rng)
        order = rng.permutation(150)
        first, second = fit(cls, X, y, landmarks=20), fit(cls, X[order], y[order], landmarks=20)
        assert np.array_equal(first.decision_function(X), second.decision_function(X))
        assert set(order[second.instances_]) == set(first.instances_)
        other = fit(cls, X, y, landmarks=20, random_state=1)
        assert set(other.instances_) != set(first.instances_)

    @every
    def test_a_row_given_twice_is_a_weight_of_two(self, cls, rng):
        X, y = rings(120, rng)
        weight = np.where(np.arange(120) < 40, 2.0, 1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weighted = cls(kernels=WIDE, calibration=None, landmarks=25).fit(X, y, weight)
            doubled = cls(kernels=WIDE, calibration=None, landmarks=25).fit(
                np.vstack([X, X[:40]]), np.concatenate([y, y[:40]])
            )
        assert np.allclose(weighted.decision_function(X), doubled.decision_function(X), atol=1e-6)

    @every
    def test_three_classes_probabilities_pickles_and_files(self, cls, rng, tmp_path):
        X = rng.normal(size=(150, 3))
        y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=150), [-0.5, 0.5])
        clf = fit(cls, X, y, landmarks=40, calibration=2)
        assert clf.predict_proba(X).shape == (150, 3) and clf.score(X, y) > 0.6
        io.save(clf, tmp_path / "model.tamis")
        for other in (pickle.loads(pickle.dumps(clf)), io.load(tmp_path / "model.tamis")):
            assert np.array_equal(other.decision_function(X), clf.decision_function(X))
            assert np.array_equal(other.landmark_error_.mean, clf.landmark_error_.mean)
        assert clone(clf).get_params()["landmarks"] == 40

    @every
    def test_missing_cells_and_categories(self, cls, rng):
        X = pd.DataFrame(rng.normal(size=(160, 2)), columns=["a", "b"])
        X["c"] = rng.choice(["red", "green", "blue"], size=160)
        y = (X["a"] + (X["c"] == "red") > 0.3).to_numpy()
        X.loc[::7, "a"] = np.nan
        clf = fit(cls, X, y, landmarks=40, kernels=per_feature())
        assert clf.score(X, y) > 0.8
        told = clf.explain(X.head(5))
        assert np.allclose(told.contributions.sum(axis=(2, 3)) + told.base_value, clf._decision(X.head(5)))

    @every
    def test_precomputed_kernels_keep_the_columns_of_landmarks(self, cls, rng):
        X, y = rings(100, rng)
        values = np.array([Gaussian(width)(X, X) for width in (1.0, 3.0)])
        clf = fit(cls, np.arange(80)[:, None], y[:80], kernels=precomputed(values), landmarks=20)
        assert clf.score(np.arange(80, 100)[:, None], y[80:]) > 0.6
        held = clf.model_.expansion.bank.channels[0].kernel
        assert len(held.items) <= 20

    def test_one_against_one(self, rng):
        X = rng.normal(size=(150, 3))
        X[::4, 0] = np.nan
        y = np.digitize(X[:, 1], [-0.5, 0.5])
        params = {"kernels": per_feature(), "multiclass": "one_vs_one", "tol": 1e-4}
        exact, close = (fit(AbsentMKLClassifier, X, y, **params, landmarks=m) for m in (None, 149))
        assert np.allclose(exact.decision_function(X), close.decision_function(X), atol=1e-3)
        assert np.allclose(exact.kernel_weights_, close.kernel_weights_, atol=1e-3)

    def test_a_search_goes_through_landmarks_too(self, rng):
        X = rng.normal(size=(150, 3))
        X[::4, 0] = np.nan
        y = np.digitize(X[:, 1], [-0.5, 0.5])
        search = {"kernels": per_feature(), "Cs": (0.1, 1.0), "programs": ("sum",), "cv": 2}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exact, close = (AbsentMKLClassifierCV(**search, landmarks=m).fit(X, y) for m in (None, 60))
        assert np.abs(exact.predict_proba(X) - close.predict_proba(X)).max() < 0.05
        assert close.landmark_error_.mean.max() < 0.01 and len(close.instances_) <= 60
        assert "landmarks" in close.summary() and close.without_search().landmarks == 60

    def test_zero_one_loss_by_admm(self, rng):
        X, y = rings(150, rng)
        clf = fit(ZeroOneMKLClassifier, X, y, landmarks=40, max_iter=50)
        assert clf.score(X, y) > 0.8 and len(clf.instances_) <= 40
        with pytest.raises(ValueError, match="landmarks=40 has no meaning for solver='drop_and_refit'"):
            ZeroOneMKLClassifier(landmarks=40, solver="drop_and_refit").fit(X, y)

    def test_many_kernels_use_an_active_set(self, rng):
        X, y = rings(200, rng, d=6)
        recipe = bandwidths([0.5, 1.0, 2.0, 3.0, 4.0, 6.0], on="each")  # more than SimpleMKL has active at once
        exact, close = (fit(SimpleMKLClassifier, X, y, kernels=recipe, landmarks=m) for m in (None, 199))
        assert exact.objective_ == pytest.approx(close.objective_, rel=5e-3)


def test_chosen_and_a_warning_tell_what_is_lost(rng):
    X, y = rings(300, rng, d=6)
    with pytest.warns(UserWarning, match=r"loses \d+% of its variance on average over training rows; give more landm"):
        clf = AverageMKLClassifier(kernels=bandwidths([0.3]), landmarks=20, calibration=None).fit(X, y)
    assert clf.summary()["landmarks"].startswith("20 training rows; through them no kernel loses more than 0.9")


def test_landmarks_come_from_every_class(rng):
    X, y = rings(200, rng)
    y[:3] = "rare"
    seen = {}

    def spy(rows, size, seed):
        drawn = draw_candidates(rows, size, seed)
        if size == 12:
            seen["codes"] = rows.codes[drawn]
        return drawn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.base.kernel_space.draw_candidates", spy)
        fit(AverageMKLClassifier, X, y, landmarks=12)
    assert set(seen["codes"]) == {0, 1, 2} and 11 <= len(seen["codes"]) <= 13


@pytest.mark.parametrize("value", [0, -3, 2.5, True, "all"])
def test_what_is_no_number_of_landmarks_is_refused(value):
    with pytest.raises(ValueError, match="landmarks"):
        AverageMKLClassifier(landmarks=value).check_parameters()


@pytest.mark.parametrize("cls", [SimpleMKLClassifier, ZeroOneMKLClassifier, AbsentMKLClassifier, AbsentMKLClassifierCV])
def test_landmarks_and_a_device_are_refused_together(cls):
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(ValueError, match="landmarks=10 and device='cpu' do not go together"):
        cls(landmarks=10, device="cpu").check_parameters()
    cls(device="cpu").check_parameters()


def test_conic_programs_take_no_landmarks():
    with pytest.raises(ValueError, match="conic program holds all kernels"):
        AbsentMKLClassifier(landmarks=10, solver="conic").check_parameters()


@pytest.mark.parametrize("cls", [SimpleMKLClassifier, EasyMKLClassifier, AverageMKLClassifier])
def test_many_rows_take_little_memory(cls, rng):
    n, m = 6000, 40
    X, y = rings(n, rng)
    tracemalloc.start()
    clf = fit(cls, X, y, landmarks=m)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * 8 * n**2
    assert clf.score(X, y) > 0.8


def test_blocks_of_rows_do_not_change_factors(rng, monkeypatch):
    X = rng.normal(size=(70, 3))
    whole = LandmarkStack.through(bank(X).channels, X, np.arange(0, 70, 4)).left
    monkeypatch.setattr(module, "LANDMARK_VALUES", 100)
    assert np.allclose(LandmarkStack.through(bank(X).channels, X, np.arange(0, 70, 4)).left, whole, atol=1e-12)
