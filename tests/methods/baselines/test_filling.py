"""One Gaussian for rows with missing cells: EM against brute force, and the imputer on top of it."""

from __future__ import annotations

import doctest
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import multivariate_normal
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from tamis import GaussianImputer, SimpleMKLClassifier, bandwidths
from tamis.codec import read, write
from tamis.methods.baselines import filling
from tamis.methods.baselines.filling import (
    NormalLaw,
    Problem,
    conditional_means,
    find_patterns,
    fit_gaussian,
    iterates,
    objective,
    violation,
)
from tamis.optim.driver import Status

SHAPES = [(30, 4, 0.3), (40, 6, 0.7), (8, 12, 0.4), (25, 3, 0.0)]  # rows, columns, share of missing cells


def holed(n, d, ratio, seed=0):
    """Correlated rows with missing cells; every column is observed, the last row is complete."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) / np.sqrt(d) + rng.normal(size=d)
    Z[:-1][rng.random((n - 1, d)) < ratio] = np.nan
    return Z, rng.uniform(0.5, 2.0, n)


def random_law(d, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d + 1))
    return NormalLaw(rng.normal(size=d), root @ root.T / d + 0.1 * np.eye(d))


def penalised(Z, weight, ridge, mean, covariance):
    """F from densities of the observed cells, row by row."""
    total, mass = 0.0, 0.0
    for z, w in zip(Z, weight, strict=True):
        o = ~np.isnan(z)
        if o.any():
            total -= w * multivariate_normal(mean[o], covariance[np.ix_(o, o)]).logpdf(z[o])
            mass += w
    return total / mass + 0.5 * ridge * np.trace(np.linalg.inv(covariance))


def slopes(f, law, h=1e-5):
    """Central differences of f(mean, covariance) in every mean and every symmetric pair of covariances."""
    d = len(law.mean)
    by_mean, by_covariance = np.zeros(d), np.zeros((d, d))
    for j in range(d):
        e = h * np.eye(d)[j]
        by_mean[j] = (f(law.mean + e, law.covariance) - f(law.mean - e, law.covariance)) / (2 * h)
        for k in range(j + 1):
            E = np.zeros((d, d))
            E[j, k] = E[k, j] = h
            rise = f(law.mean, law.covariance + E) - f(law.mean, law.covariance - E)
            by_covariance[j, k] = by_covariance[k, j] = rise / (2 * h) / (1 if j == k else 2)
    return by_mean, by_covariance


def filled_by_inverses(Z, law):
    """Conditional means from the formula, one explicit inverse for each row."""
    out = Z.copy()
    for z in out:
        m = np.isnan(z)
        o = ~m
        S = law.covariance
        z[m] = law.mean[m] + S[np.ix_(m, o)] @ np.linalg.inv(S[np.ix_(o, o)]) @ (z[o] - law.mean[o])
    return out


# ---------------------------------------------------------------------- EM


@pytest.mark.parametrize("n, d, ratio", SHAPES)
def test_objective_is_the_penalised_likelihood_of_the_observed_cells(n, d, ratio):
    Z, weight = holed(n, d, ratio)
    Z[0] = np.nan
    law = random_law(d)
    value = objective(Problem.of_rows(Z, weight, 0.3), law)
    np.testing.assert_allclose(value, penalised(Z, weight, 0.3, law.mean, law.covariance), rtol=1e-10)


def test_without_missing_cells_one_step_gives_mean_and_covariance_with_the_ridge():
    Z, weight = holed(50, 5, 0.0)
    solution = fit_gaussian(Z, weight, ridge=0.07)
    np.testing.assert_allclose(solution.state.mean, np.average(Z, axis=0, weights=weight), rtol=1e-12)
    expected = np.cov(Z.T, aweights=weight, ddof=0) + 0.07 * np.eye(5)
    np.testing.assert_allclose(solution.state.covariance, expected, rtol=1e-10, atol=1e-12)
    assert solution.status is Status.CONVERGED and solution.n_iter == 1


@pytest.mark.parametrize("n, d, ratio, ridge", [(40, 4, 0.3, 0.05), (60, 5, 0.6, 0.2), (6, 5, 0.3, 0.1)])
def test_gradient_vanishes_where_em_ends(n, d, ratio, ridge):
    Z, weight = holed(n, d, ratio)
    solution = fit_gaussian(Z, weight, ridge=ridge, max_iter=20_000, tol=1e-9)
    assert solution.status is Status.CONVERGED
    law = solution.state
    by_mean, by_covariance = slopes(lambda m, C: penalised(Z, weight, ridge, m, C), law)
    assert max(np.abs(by_mean).max(), np.abs(by_covariance).max()) < 1e-6
    away, off = slopes(lambda m, C: penalised(Z, weight, ridge, m, C), Problem.of_rows(Z, weight, ridge).start())
    assert max(np.abs(away).max(), np.abs(off).max()) > 1e-2


def test_a_step_is_the_gradient_in_the_metric_of_the_law():
    Z, weight = holed(30, 4, 0.4)
    law, ridge = random_law(4), 0.1
    steps = iterates(Problem.of_rows(Z, weight, ridge), law)
    first, second = next(steps), next(steps)
    by_mean, by_covariance = slopes(lambda m, C: penalised(Z, weight, ridge, m, C), law)
    S, shift = law.covariance, second.state.mean - law.mean
    np.testing.assert_allclose(shift, -S @ by_mean, atol=1e-7)
    moved = second.state.covariance + np.outer(shift, shift) - S
    np.testing.assert_allclose(moved, -2 * S @ by_covariance @ S, atol=1e-6)
    assert first.violation == violation(law, second.state) > 0
    assert violation(law, law) == 0


@pytest.mark.parametrize("n, d, ratio", SHAPES)
@pytest.mark.parametrize("ridge", [1e-4, 1e-2, 1.0])
def test_objective_never_rises(n, d, ratio, ridge):
    Z, weight = holed(n, d, ratio, seed=3)
    history = fit_gaussian(Z, weight, ridge=ridge, max_iter=60, tol=0.0).history
    assert np.all(np.diff(history.objective) <= 1e-12 * np.abs(history.objective).max())
    assert history.objective[-1] < history.objective[0] - 1e-3


def test_violation_is_the_largest_change_in_standard_deviations():
    law = NormalLaw(np.zeros(2), np.diag([4.0, 0.25]))
    assert violation(law, NormalLaw(np.array([0.1, -0.2]), law.covariance)) == pytest.approx(0.4)
    assert violation(law, NormalLaw(law.mean, np.array([[4.0, -0.3], [-0.3, 0.3]]))) == pytest.approx(0.3)


def test_restart_stops_at_once():
    Z, weight = holed(40, 5, 0.3)
    Z[:, 2] = np.nan
    first = fit_gaussian(Z, weight, max_iter=5000, tol=1e-6)
    again = fit_gaussian(Z, weight, start=first.state, tol=1e-5)
    assert first.status is again.status is Status.CONVERGED
    assert first.n_iter > 5 and again.n_iter == 0


@pytest.mark.parametrize("n, d, ratio", SHAPES)
def test_order_of_rows_and_columns_does_not_matter(n, d, ratio, rng):
    Z, weight = holed(n, d, ratio)
    rows, columns = rng.permutation(n), rng.permutation(d)
    plain, mixed = fit_gaussian(Z, weight).state, fit_gaussian(Z[rows][:, columns], weight[rows]).state
    np.testing.assert_allclose(mixed.mean, plain.mean[columns], atol=1e-9)
    np.testing.assert_allclose(mixed.covariance, plain.covariance[np.ix_(columns, columns)], atol=1e-9)


def test_integer_weights_are_repeated_rows_and_only_ratios_matter(rng):
    Z, _ = holed(25, 4, 0.4)
    weight = rng.integers(0, 4, 25)
    weighted = fit_gaussian(Z, weight.astype(float))
    for other in (
        fit_gaussian(np.repeat(Z, weight, axis=0), np.ones(weight.sum())),
        fit_gaussian(Z, 1e-3 * weight),
        fit_gaussian(np.vstack([Z, np.full((30, 4), np.nan)]), np.r_[weight, np.ones(30)]),
    ):
        np.testing.assert_allclose(other.state.mean, weighted.state.mean, atol=1e-10)
        np.testing.assert_allclose(other.state.covariance, weighted.state.covariance, atol=1e-10)
        np.testing.assert_allclose(other.objective, weighted.objective, rtol=1e-10)


def test_column_that_no_weighted_row_has_is_standard_and_independent():
    Z, weight = holed(30, 5, 0.3)
    Z[:, 3] = np.nan
    Z[4, 3], weight[4] = 7.0, 0.0
    kept = [0, 1, 2, 4]
    law, without = fit_gaussian(Z, weight).state, fit_gaussian(Z[:, kept], weight).state
    np.testing.assert_allclose(law.mean, np.insert(without.mean, 3, 0.0), atol=1e-12)
    np.testing.assert_array_equal(law.covariance[3], np.eye(5)[3])
    np.testing.assert_allclose(law.covariance[np.ix_(kept, kept)], without.covariance, atol=1e-12)
    Z[:, 3] = np.where(np.arange(30) % 2, 100.0, np.nan)
    others = conditional_means(Z[:, kept], without)
    np.testing.assert_allclose(conditional_means(Z, law)[:, kept], others, atol=1e-10)


def test_patterns_share_out_the_rows(rng):
    missing = rng.random((60, 11)) < np.where(rng.random(60) < 0.5, 0.05, 0.95)[:, None]
    patterns = find_patterns(missing)
    assert len(patterns) == len(np.unique(missing, axis=0)) < 60
    np.testing.assert_array_equal(np.sort(np.concatenate([p.rows for p in patterns])), np.arange(60))
    for p in patterns:
        assert missing[np.ix_(p.rows, p.gaps)].all() and not missing[np.ix_(p.rows, p.seen)].any()
        assert len(p.gaps) + len(p.seen) == 11


def test_hopeless_rows_are_refused_with_a_reason():
    Z, weight = holed(20, 3, 0.2)
    with pytest.raises(ValueError, match=r"ridge=0.0 must be above 0"):
        fit_gaussian(Z, weight, ridge=0.0)
    with pytest.raises(ValueError, match="no observed cell"):
        fit_gaussian(np.where(weight[:, None] > 1, np.nan, Z), np.where(weight > 1, 1.0, 0.0))
    with pytest.raises(ValueError, match=r"ridge=1e-300 .* raise ridge"):
        fit_gaussian(holed(20, 2, 0.0)[0][:, [0, 1, 0]], weight, ridge=1e-300)
    with pytest.raises(ValueError, match="raise ridge"):  # a factor exists, and has no correct digit
        fit_gaussian(np.array([[1.0, 1.0], [-1.0, -1.0]]), np.ones(2), ridge=np.finfo(float).eps)


def test_law_goes_through_a_file(tmp_path):
    law = random_law(3)
    write(tmp_path / "law", "law", law)
    again = read(tmp_path / "law", "law")
    np.testing.assert_array_equal(again.mean, law.mean)
    np.testing.assert_array_equal(again.covariance, law.covariance)


# ---------------------------------------------------------------------- filling


@pytest.mark.parametrize("n, d, ratio", [*SHAPES, (50, 9, 0.1), (50, 9, 0.9)])
def test_conditional_means_are_those_of_the_formula(n, d, ratio):
    Z, _ = holed(n, d, ratio, seed=1)
    Z[1] = np.nan
    kept, law = Z.copy(), random_law(d)
    filled = conditional_means(Z, law)
    np.testing.assert_allclose(filled, filled_by_inverses(Z, law), atol=1e-10)
    np.testing.assert_array_equal(filled[1], law.mean)
    np.testing.assert_array_equal(filled[~np.isnan(Z)], Z[~np.isnan(Z)])
    np.testing.assert_array_equal(Z, kept)


def test_linear_relation_is_recovered_where_the_mean_knows_nothing(rng):
    x = rng.normal(size=(400, 2))
    Z = np.column_stack([x, x @ [1.5, -2.0] + 0.7])
    truth = Z.copy()
    Z[rng.random((400, 3)) < 0.2] = np.nan
    Z[-1] = truth[-1]
    law = fit_gaussian(Z, np.ones(400), ridge=1e-6, max_iter=500, tol=1e-9).state
    alone = np.isnan(Z).sum(axis=1) == 1
    gaps = np.isnan(Z) & alone[:, None]
    assert gaps.sum() > 100
    error = np.abs(conditional_means(Z, law) - truth)[gaps].max()
    by_mean = np.abs(np.nanmean(Z, axis=0) - truth)[gaps].mean()
    assert error < 0.01 and by_mean > 0.5


# ---------------------------------------------------------------------- the imputer


@parametrize_with_checks([GaussianImputer()])
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


def test_examples_in_the_docstring():
    failed, tried = doctest.testmod(filling)
    assert tried and not failed


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_only_missing_cells_change(dtype):
    X = (1e3 * holed(40, 5, 0.3)[0] + 0.1).astype(dtype)
    kept = X.copy()
    filled = GaussianImputer().fit(X).transform(X)
    assert filled.dtype == dtype and np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    np.testing.assert_array_equal(X, kept)


def test_imputer_is_em_on_scaled_columns_in_the_units_of_the_input():
    X, weight = holed(40, 4, 0.3)
    imputer = GaussianImputer(ridge=0.05).fit(X, sample_weight=weight)
    centre = np.array([np.average(x[~np.isnan(x)], weights=weight[~np.isnan(x)]) for x in X.T])
    spread = np.array(
        [np.sqrt(np.cov(x[~np.isnan(x)], aweights=weight[~np.isnan(x)], ddof=0)) for x in X.T],
    )
    law = fit_gaussian((X - centre) / spread, weight, ridge=0.05).state
    expected = filled_by_inverses(X, NormalLaw(centre + spread * law.mean, law.covariance * np.outer(spread, spread)))
    np.testing.assert_allclose(imputer.transform(X), expected, rtol=1e-9)
    a, b = np.array([1e-9, 2.0, -5.0, 1e6]), np.array([0.0, 3.0, 1.0, -1e6])
    other = GaussianImputer(ridge=0.05).fit(a * X + b, sample_weight=weight).transform(a * X + b)
    np.testing.assert_allclose((other - b) / a, expected, rtol=1e-6)


def test_new_rows_are_filled_with_the_training_law_one_by_one_or_together():
    X, _ = holed(60, 4, 0.3)
    imputer = GaussianImputer().fit(X[:40])
    together = imputer.transform(X[40:])
    single = np.vstack([imputer.transform(x[None]) for x in X[40:]])
    np.testing.assert_allclose(together, single, rtol=1e-10)
    assert not np.allclose(together, GaussianImputer().fit(X[40:]).transform(X[40:]))


def test_frames_keep_their_names_and_weights_are_repetitions(rng):
    X, _ = holed(30, 3, 0.3)
    plain = GaussianImputer().fit_transform(X)
    pandas = pd.DataFrame(X, columns=["a", "b", "c"], index=range(5, 35))
    out = GaussianImputer().set_output(transform="pandas").fit_transform(pandas)
    assert list(out.columns) == ["a", "b", "c"] and list(out.index) == list(range(5, 35))
    np.testing.assert_array_equal(out.to_numpy(), plain)
    polars = pl.DataFrame(X, schema=["a", "b", "c"], nan_to_null=True)
    out = GaussianImputer().set_output(transform="polars").fit_transform(polars)
    assert out.columns == ["a", "b", "c"]
    np.testing.assert_array_equal(out.to_numpy(), plain)
    weight = rng.integers(0, 3, 30)
    weighted = GaussianImputer().fit(X, sample_weight=weight).transform(X)
    repeated = GaussianImputer().fit(np.repeat(X, weight, axis=0)).transform(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)


def test_degenerate_columns_and_rows_are_filled_sensibly():
    X = np.array([[0.1, 1.0, np.nan], [0.1, np.nan, np.nan], [np.nan, 3.0, np.nan], [0.1, 5.0, np.nan]])
    imputer = GaussianImputer().fit(X)
    np.testing.assert_array_equal(imputer.scale_[[0, 2]], 1.0)
    filled = imputer.transform(np.vstack([X, np.full(3, np.nan)]))
    np.testing.assert_array_equal(filled[:, 0], 0.1)
    np.testing.assert_array_equal(filled[:, 2], 0.0)
    np.testing.assert_allclose(filled[[1, 4], 1], 3.0, rtol=1e-12)
    one = GaussianImputer().fit([[2.0, np.nan]])
    np.testing.assert_array_equal(one.transform([[np.nan, np.nan], [1.0, 4.0]]), [[2.0, 0.0], [1.0, 4.0]])
    idle = GaussianImputer().fit([[1.0, 1.0], [1.0, 3.0], [5.0, 8.0]], sample_weight=[1, 1, 0])
    np.testing.assert_array_equal([idle.centre_, idle.scale_], [[1.0, 2.0], [1.0, 1.0]])
    tiny = np.column_stack([[1e-200, 2e-200, 4e-200], [1.0, 2.0, np.nan]])
    assert 2.5 < GaussianImputer().fit_transform(tiny)[2, 1] < 4.5


def test_end_at_max_iter_is_said_by_the_status_and_not_warned_about():
    X, _ = holed(60, 5, 0.4)
    short, long = GaussianImputer(max_iter=2).fit(X), GaussianImputer(max_iter=5000).fit(X)
    assert short.n_iter_ == 2 and short.status_ is Status.MAX_ITER and not short.status_.converged
    assert long.status_.converged and long.n_iter_ < 5000 and long.objective_ < short.objective_
    assert len(short.history_) == 3


@pytest.mark.parametrize(
    "params, message",
    [
        ({"ridge": 0.0}, "ridge=0.0 must be a finite number above 0"),
        ({"ridge": np.nan}, "ridge=nan must be a finite number above 0"),
        ({"max_iter": 0}, "max_iter=0 must be an integer of at least 1"),
        ({"tol": -1.0}, "tol=-1.0 must be a finite number above 0"),
    ],
)
def test_bad_parameters_are_named(params, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        GaussianImputer(**params).fit([[1.0], [2.0]])


def test_bad_rows_and_weights_are_refused_with_a_reason():
    X, _ = holed(10, 2, 0.1)
    with pytest.raises(ValueError, match="infinity"):
        GaussianImputer().fit([[1.0], [np.inf]])
    with pytest.raises(ValueError, match="could not convert string to float"):
        GaussianImputer().fit([["a"], ["b"]])
    with pytest.raises(ValueError, match="no observed cell"):
        GaussianImputer().fit(np.full((3, 2), np.nan))
    with pytest.raises(ValueError, match=r"X holds 1e\+200 in column 1, too far"):
        GaussianImputer().fit(X).transform([[np.nan, 1e200]])
    with pytest.raises(ValueError, match=r"sample_weight has shape \(3,\), expected \(10,\)"):
        GaussianImputer().fit(X, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="sample_weight holds negative"):
        GaussianImputer().fit(X, sample_weight=-np.ones(10))
    with pytest.raises(ValueError, match="sample_weight is zero for all rows"):
        GaussianImputer().fit(X, sample_weight=np.zeros(10))


def test_ridge_is_searched_in_front_of_a_machine(rng):
    y = np.arange(60) % 2
    common = y + 0.3 * rng.normal(size=60)
    X = common[:, None] + 0.3 * rng.normal(size=(60, 4))
    X[rng.random(X.shape) < 0.3] = np.nan
    mkl = SimpleMKLClassifier(kernels=bandwidths([1.0]), calibration=None)
    search = GridSearchCV(make_pipeline(GaussianImputer(), mkl), {"gaussianimputer__ridge": [0.01, 0.1]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.8
